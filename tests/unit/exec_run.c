/* One command, from its order to its end; without a server. */
#include "test.h"

#include "commands.h"
#include "exec/exec.h"

#include <errno.h>
#include <legwork/testing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct lw__exec exec;
static struct lw__exec_end end;

static int64_t some_time(void) {
    return 1700000000000;
}

/* A helper that knows one command, which a shell runs. */
static void open_with(const char *script, struct lw__exec_options options) {
    const char *const argv[] = {"/bin/sh", "-c", script, NULL};
    const char *const *commands[] = {argv};
    lw_error err = {0};
    options.commands = commands;
    options.command_count = 1;
    options.running_max = options.running_max ? options.running_max : 2;
    options.output_max = options.output_max ? options.output_max : 1 << 20;
    options.grace_ms = options.grace_ms ? options.grace_ms : 50;
    options.now_ms = some_time;
    assert_status(lw__exec_open(&exec, &options, &err), LW_OK);
}

#define OPEN(script) open_with(script, (struct lw__exec_options){.attempts = 0})
#define OPEN_WITH(script, ...) open_with(script, (struct lw__exec_options){__VA_ARGS__})

static void run(lw_bytes payload, lw_ctx *ctx) {
    struct lw__exec_job job = {
        .id = 5, .attempt = 1, .kind = "k", .queue = "q", .payload = payload};
    lw__exec_run(&exec, &job, ctx, &end);
}

/* On a thread of its own. */
static void *run_with(void *ctx) {
    run((lw_bytes){NULL, 0}, ctx);
    return NULL;
}

static void run_plainly(void) {
    run(LW_TEXT("hello"), NULL);
}

static void finish(void) {
    lw__exec_end_clear(&end);
    lw__exec_close(&exec);
}

static void assert_exit(int code) {
    assert_int_equal(end.how, LW__EXEC_EXITED);
    assert_int_equal(end.code, code);
}

static void assert_output(const char *text) {
    assert_int_equal(end.output.size, strlen(text));
    assert_memory_equal(end.output.data, text, strlen(text));
}

TEST(input_and_output_pass_byte_for_byte) {
    static char bytes[700000]; /* many times what a pipe holds */
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)(i * 7 >> 3);
    OPEN("cat");
    run((lw_bytes){bytes, sizeof bytes}, NULL);
    assert_exit(0);
    assert_int_equal(end.output.size, sizeof bytes);
    assert_memory_equal(end.output.data, bytes, sizeof bytes);
    lw__exec_end_clear(&end);
    run((lw_bytes){NULL, 0}, NULL);
    assert_exit(0);
    assert_int_equal(end.output.size, 0);
    finish();
}

TEST(a_command_need_not_read_its_input) {
    static char bytes[700000];
    static const char *const scripts[] = {"exit 4", "exec <&-; echo x; exit 4",
                                          "head -c 10 >/dev/null; exit 4",
                                          "exec <&- >&- 2>&-; exit 4"};
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        open_with(scripts[i], (struct lw__exec_options){.grace_ms = 0});
        run((lw_bytes){bytes, sizeof bytes}, NULL);
        assert_exit(4);
        finish();
    }
}

TEST(the_environment_is_that_of_the_task) {
    setenv("LEGWORK_KEY", "of somebody else", 1);
    setenv("NOTIFY_SOCKET", "@manager", 1);
    setenv("MINE", "kept", 1);
    OPEN("echo $LEGWORK_TASK_ID,$LEGWORK_DEADLINE,$LEGWORK_KEY,$NOTIFY_SOCKET,$MINE");
    run_plainly();
    assert_output("5,,,,kept\n");
    lw__exec_end_clear(&end);
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.timeout_ms = 3600000), NULL), LW_OK);
    run((lw_bytes){NULL, 0}, ctx);
    CHECK(strncmp(end.output.data, "5,17000035", 10) == 0 || /* the hour may have begun to pass */
          strncmp(end.output.data, "5,17000036", 10) == 0);
    lw_ctx_close(ctx);
    finish();
}

TEST(what_it_says_on_standard_error_is_kept_from_the_end) {
    OPEN("for i in 1 2 3 4 5 6 7 8 9; do head -c 1000 /dev/zero | tr '\\0' $i >&2; done");
    run_plainly();
    assert_exit(0);
    assert_int_equal(end.error_size, LW__EXEC_ERRORS_MAX);
    assert_int_equal(end.errors[0], '5');
    assert_int_equal(end.errors[LW__EXEC_ERRORS_MAX - 1], '9');
    finish();
}

TEST(a_signal_is_told_from_an_exit_code) {
    OPEN("kill -9 $$");
    run_plainly();
    assert_int_equal(end.how, LW__EXEC_SIGNALLED);
    assert_int_equal(end.code, SIGKILL);
    assert_false(end.is_asked);
    finish();
}

TEST(a_command_that_is_not_there_exits_as_in_a_shell) {
    static const struct {
        const char *path, *text;
        int code;
    } rows[] = {{"./none", "./none: No such file or directory\n", 127},
                {"/dev/null", "/dev/null: Permission denied\n", 126}};
    for (size_t i = 0; i < 2; i++) {
        const char *const argv[] = {rows[i].path, NULL};
        const char *const *commands[] = {argv};
        struct lw__exec_options options = {
            .commands = commands, .command_count = 1, .running_max = 1, .output_max = 10};
        assert_status(lw__exec_open(&exec, &options, NULL), LW_OK);
        run_plainly();
        assert_exit(rows[i].code);
        assert_int_equal(end.error_size, strlen(rows[i].text));
        assert_memory_equal(end.errors, rows[i].text, end.error_size);
        finish();
    }
}

/* ---- output -------------------------------------------------------------------------------- */

TEST(output_up_to_the_limit_is_kept_and_more_is_too_much) {
    OPEN_WITH("head -c $(cat) /dev/zero", .output_max = 1000);
    run(LW_TEXT("1000"), NULL);
    assert_exit(0);
    assert_false(end.is_too_long);
    assert_int_equal(end.output.size, 1000);
    lw__exec_end_clear(&end);
    run(LW_TEXT("1001"), NULL);
    assert_true(end.is_too_long);
    finish();
}

TEST(output_without_end_ends_the_command) {
    OPEN_WITH("trap '' TERM PIPE; while :; do echo xxxxxxxxxxxxxxxx; done", .output_max = 1000);
    run_plainly();
    assert_true(end.is_too_long && end.is_asked && end.is_killed);
    assert_int_equal(end.code, SIGKILL);
    assert_true(end.output.size <= 1000);
    finish();
    OPEN("while :; do echo xxxxxxxxxxxxxxxx; done >&2 & exit 6");
    run_plainly(); /* nor does it wait for a child that never stops talking */
    assert_exit(6);
    finish();
}

/* ---- ending it ----------------------------------------------------------------------------- */

static lw_ctx *short_ctx(int64_t ms) {
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.timeout_ms = ms), NULL), LW_OK);
    return ctx;
}

TEST(at_the_deadline_it_is_asked_to_end) {
    pid_t pid;
    lw_ctx *ctx;
    lw_clock *clock;
    pthread_t thread;
    make_fifo("said");
    assert_status(lw_test_clock_open(&clock), LW_OK);
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.timeout_ms = 1000, .clock = clock), NULL),
                  LW_OK);
    OPEN_WITH("trap 'echo cleaned; exit 9' TERM; echo $$ > said; while :; do sleep 0.01; done",
              .grace_ms = 3600000);
    CHECK(pthread_create(&thread, NULL, run_with, ctx) == 0);
    read_pids("said", &pid, 1);
    lw_test_clock_advance(clock, 1000);
    assert_true(lw_ctx_done(ctx));
    pthread_join(thread, NULL);
    assert_exit(9);
    assert_true(end.is_asked && !end.is_killed);
    assert_int_equal(end.reason, LW_REASON_TIMEOUT);
    assert_output("cleaned\n");
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
    finish();
}

TEST(one_that_has_hardly_begun_ends_too) {
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    lw_ctx_cancel(ctx);
    OPEN_WITH("exec sleep 1000", .grace_ms = 3600000);
    for (int i = 0; i < 200; i++) {
        run((lw_bytes){NULL, 0}, ctx);
        assert_int_equal(end.how, LW__EXEC_SIGNALLED);
        assert_int_equal(end.code, SIGTERM);
        lw__exec_end_clear(&end);
    }
    lw_ctx_close(ctx);
    finish();
}

TEST(one_that_ignores_it_is_killed_with_its_children) {
    pid_t pids[2];
    lw_ctx *ctx;
    make_fifo("said");
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    OPEN("trap '' TERM; sleep 1000 & echo $$ $! > said; wait; wait; sleep 1000");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_with, ctx) == 0);
    read_pids("said", pids, 2);
    int watches[2] = {watch_process(pids[0]), watch_process(pids[1])};
    lw_ctx_cancel(ctx);
    pthread_join(thread, NULL);
    assert_int_equal(end.how, LW__EXEC_SIGNALLED);
    assert_int_equal(end.code, SIGKILL);
    assert_true(end.is_asked && end.is_killed);
    assert_int_equal(end.reason, LW_REASON_CANCELLED);
    await_death(watches[0]);
    await_death(watches[1]);
    lw_ctx_close(ctx);
    finish();
}

TEST(what_is_of_no_use_any_more_is_killed_at_once) {
    atomic_bool is_void = true;
    lw_ctx *ctx = short_ctx(50);
    struct lw__exec_job job = {
        .id = 5, .attempt = 1, .kind = "k", .queue = "q", .is_void = &is_void};
    OPEN_WITH("trap '' TERM; while :; do sleep 0.01; done", .grace_ms = 3600000);
    lw__exec_run(&exec, &job, ctx, &end);
    assert_true(end.is_killed);
    assert_int_equal(end.code, SIGKILL);
    lw_ctx_close(ctx);
    finish();
}

/* ---- what it leaves behind ----------------------------------------------------------------- */

TEST(what_is_left_of_its_group_ends_with_it) {
    pid_t pid;
    make_fifo("said");
    make_fifo("go");
    OPEN("(trap '' TERM HUP; sleep 1000) & echo $! > said; read x < go");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_with, NULL) == 0);
    read_pids("said", &pid, 1);
    int watch = watch_process(pid);
    release("go");
    pthread_join(thread, NULL); /* although its output is still open there */
    assert_exit(0);
    await_death(watch);
    finish();
}

TEST(one_that_leaves_its_group_lives_until_the_helper_ends) {
    pid_t pid;
    make_fifo("said");
    OPEN("setsid sh -c 'trap \"\" TERM HUP; echo $$ > said; exec sleep 1000' & read x < said; "
         "echo $x");
    run_plainly();
    assert_exit(0);
    assert_int_equal(sscanf(end.output.data, "%d", &pid), 1);
    int watch = watch_process(pid);
    finish();
    await_death(watch);
}

/* ---- the helper ---------------------------------------------------------------------------- */

TEST(more_than_it_has_room_for_is_refused) {
    struct lw__exec_end second;
    struct lw__exec_job job = {.id = 6, .attempt = 1, .kind = "k", .queue = "q"};
    pid_t pid;
    make_fifo("said");
    make_fifo("go");
    OPEN_WITH("echo $$ > said; read x < go", .running_max = 1);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_with, NULL) == 0);
    read_pids("said", &pid, 1);
    lw__exec_run(&exec, &job, NULL, &second);
    assert_int_equal(second.how, LW__EXEC_NOT_STARTED);
    assert_int_equal(second.code, EAGAIN);
    lw__exec_end_clear(&second);
    job.command = 1; /* nor is there such a command */
    lw__exec_run(&exec, &job, NULL, &second);
    assert_int_equal(second.code, EINVAL);
    lw__exec_end_clear(&second);
    release("go");
    pthread_join(thread, NULL);
    assert_exit(0);
    finish();
}

TEST(when_the_helper_is_killed_its_commands_are_and_all_are_told) {
    pid_t pid;
    make_fifo("said");
    OPEN("echo $$ > said; exec sleep 1000");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_with, NULL) == 0);
    read_pids("said", &pid, 1);
    int watch = watch_process(pid);
    kill(exec.helper, SIGKILL);
    pthread_join(thread, NULL);
    assert_int_equal(end.how, LW__EXEC_HELPER_GONE);
    await_death(watch);
    lw__exec_end_clear(&end);
    run_plainly();
    assert_int_equal(end.how, LW__EXEC_HELPER_GONE);
    finish();
}

TEST(signals_for_everybody_are_not_for_the_helper) {
    OPEN("echo fine");
    for (int i = 0; i < 3; i++)
        kill(exec.helper, (const int[]){SIGTERM, SIGINT, SIGHUP}[i]);
    run_plainly();
    assert_output("fine\n");
    finish();
}

/* Of the two that belong to the C library, and that nobody else can set, whoever started the tests
 * may have left anything. */
TEST(commands_get_signals_as_if_nobody_had_touched_them) {
    signal(SIGINT, SIG_IGN);
    OPEN("grep -E '^Sig(Blk|Ign)' /proc/self/status | sed -E 's/[01]([08]0{7})$/0\\1/;"
         "s/[08](0{7})$/0\\1/'");
    run_plainly();
    assert_output("SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
    finish();
}

TEST(no_descriptor_comes_along) {
    int mine = dup(0); /* not closed on exec */
    CHECK(mine >= 0);
    OPEN("ls /proc/self/fd | wc -l; exit 0");
    run_plainly();
    assert_output("4\n"); /* the three, and that of ls */
    close(mine);
    finish();
}
