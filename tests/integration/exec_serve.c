/* `legwork serve --exec`: commands as workers of the real server. */
#include "commands.h"
#include "gate.h"
#include "served.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;
static char said[8192];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)
#define START(...) served_start(&s, (const char *const[]){__VA_ARGS__, NULL})

static void submit(const char *kind, const char *payload) {
    char what[128];
    snprintf(what, sizeof what, "POST /v1/queues/q/tasks?kind=%s", kind);
    struct answer a = served_ask(&s, what, payload);
    assert_int_equal(a.code, 201);
    answer_free(&a);
}

static void post(const char *what, int code) {
    struct answer a = served_ask(&s, what, NULL);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

/* The task, when it has ended: in `said`. */
static void await_end(long long id) {
    char what[64];
    snprintf(what, sizeof what, "GET /v1/tasks/%lld?wait=25s", id);
    for (bool has_ended = false; !has_ended;) {
        struct answer a = served_ask(&s, what, NULL);
        assert_int_equal(a.code, 200);
        snprintf(said, sizeof said, "%s", a.body);
        has_ended = number_in(a.body, "ended_ms") > 0;
        answer_free(&a);
    }
}

static void await_part(const char *what, const char *part) {
    served_await(&s, what, part, said, sizeof said);
}

static void assert_ends(const char *kind, const char *state, const char *part) {
    static long long id;
    submit(kind, "x");
    await_end(++id);
    assert_has(said, state);
    assert_has(said, part);
}

/* ---- outcomes ------------------------------------------------------------------------------ */

TEST(the_payload_is_the_input_and_the_output_the_result) {
    START("--exec", "up=tr a-z A-Z", "--exec", "bytes=printf 'a\\0\\377'", "--exec", "none=true");
    assert_ends("up", "\"state\":\"finished\"", "\"result_base64\":\"WA==\"");
    assert_ends("bytes", "\"state\":\"finished\"", "\"result_base64\":\"YQD/\"");
    assert_ends("none", "\"state\":\"finished\"", "\"id\":3");
    assert_null(strstr(said, "\"result"));
    served_stop(&s);
}

TEST(every_way_to_end_has_its_outcome) {
    START("--exec-attempts", "1", "--exec", "one=exit 1", "--exec", "high=exit 255", "--exec",
          "segv=kill -SEGV $$", "--exec", "absent=./none-such", "--exec", "locked=/dev/null",
          "--exec", "talks=echo first >&2; echo last >&2; exit 3");
    assert_ends("one", "\"state\":\"failed\"", "\"text\":\"exit code 1\"");
    assert_ends("high", "\"state\":\"failed\"", "\"text\":\"exit code 255\"");
    assert_ends("segv", "\"state\":\"failed\"", "\"text\":\"killed by SIGSEGV\"");
    assert_ends("absent", "\"state\":\"failed\"", "the command cannot be run (exit code 127): ");
    assert_ends("locked", "\"state\":\"failed\"", "the command cannot be run (exit code 126): ");
    assert_ends("talks", "\"state\":\"failed\"", "\"text\":\"exit code 3: first | last\"");
    served_stop(&s);
}

static bool was_tried_again(int attempts) {
    await_part("GET /v1/tasks/1", "\"state\":\"scheduled\"");
    return number_in(said, "attempts") >= attempts;
}

TEST(exit_code_75_is_tried_again_however_often) {
    START("--exec-attempts", "1", "--exec", "later=exit 75");
    submit("later", "x");
    await_that(was_tried_again(1));
    assert_has(said, "to be tried again (exit code 75)");
    int code = served_code(&s, "POST /v1/tasks/1/run", NULL);
    CHECK(code == 204 || code == 202); /* 202: its time has come meanwhile */
    await_that(was_tried_again(2));
    served_stop(&s);
}

TEST(another_one_is_tried_again_until_its_attempts_are_used_up) {
    START("--exec-attempts", "2", "--exec", "bad=echo $LEGWORK_ATTEMPT >&2; exit 1");
    submit("bad", "x");
    await_end(1);
    assert_has(said, "\"state\":\"failed\"");
    assert_has(said, "exit code 1: 1");
    assert_has(said, "exit code 1: 2");
    served_stop(&s);
}

TEST(of_much_on_standard_error_the_last_is_kept) {
    START("--exec-attempts", "1", "--exec",
          "much=i=0; while [ $i -lt 5000 ]; do i=$((i+1)); echo line $i; done >&2; exit 1");
    assert_ends("much", "failed", "line 4999 | line 5000\"");
    served_stop(&s);
}

TEST(a_result_beyond_the_limit_is_a_failure_and_ends_the_command) {
    START("--exec-attempts", "1", "--exec-output-max", "1KiB", "--exec-grace", "50ms", "--exec",
          "fits=head -c 1024 /dev/zero", "--exec", "more=head -c 1025 /dev/zero", "--exec",
          "endless=trap '' TERM; yes");
    assert_ends("fits", "finished", "AAAA");
    assert_ends("more", "failed", "it printed more than 1KiB, which is all that is kept");
    assert_ends("endless", "failed", "it printed more than 1KiB, which is all that is kept");
    served_stop(&s);
}

static void read_file(const char *path) {
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
}

TEST(a_command_sees_what_it_works_for) {
    START("--exec", "show=echo $LEGWORK_TASK_ID,$LEGWORK_ATTEMPT,$LEGWORK_KIND,$LEGWORK_QUEUE,"
                    "$LEGWORK_KEY,$TRACEPARENT > seen; [ $LEGWORK_DEADLINE -gt $(date +%s) ]");
    int fd = served_connect(&s);
    send_text(fd, "POST /v1/queues/q/tasks?kind=show&key=a%20b HTTP/1.1\r\nHost: localhost\r\n"
                  "traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\r\n"
                  "Content-Length: 0\r\n\r\n");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    answer_free(&a);
    close(fd);
    await_end(1);
    assert_has(said, "\"state\":\"finished\"");
    read_file("seen");
    assert_string_equal(said,
                        "1,1,show,q,a b,00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n");
    served_stop(&s);
}

/* ---- deadlines and cancelling -------------------------------------------------------------- */

/* Ignores SIGTERM, has a child that does, too, and says who they are. */
#define STUBBORN "trap '' TERM; sh -c 'while :; do sleep 1; done' & echo $$ $! > said; wait; wait"

static int watches[3];

static void watch_two(void) {
    pid_t pids[2];
    read_pids("said", pids, 2);
    for (int i = 0; i < 2; i++)
        watches[i] = watch_process(pids[i]);
}

static void await_both(void) {
    await_death(watches[0]);
    await_death(watches[1]);
}

TEST(at_the_deadline_a_command_is_ended) {
    START("--exec-timeout", "100ms", "--exec-grace", "1h", "--exec", "late=exec sleep 1000");
    submit("late", "x");
    await_part("GET /v1/tasks/1", "\"fault\":\"timeout\"");
    assert_has(said, "its time was over, and the command was ended");
    served_stop(&s);
}

TEST(one_that_is_asked_to_end_may_just_be_done) {
    pid_t pid;
    make_fifo("said");
    START("--exec-grace", "1h", "--exec",
          "just=trap 'exit 0' TERM; echo $$ > said; while :; do sleep 0.01; done");
    submit("just", "x");
    read_pids("said", &pid, 1);
    post("POST /v1/tasks/1/cancel", 202);
    await_end(1);
    assert_has(said, "\"state\":\"finished\"");
    served_stop(&s);
}

TEST(and_is_killed_with_its_children_if_it_does_not) {
    make_fifo("said");
    START("--exec-timeout", "2s", "--exec-grace", "100ms", "--exec", "deaf=" STUBBORN);
    submit("deaf", "x");
    watch_two();
    await_both();
    await_part("GET /v1/tasks/1", "\"fault\":\"timeout\"");
    assert_has(said, "its time was over, and the command was ");
    served_kill(&s);
}

TEST(a_cancelled_task_takes_its_command_along) {
    make_fifo("said");
    START("--exec-grace", "100ms", "--exec", "deaf=" STUBBORN);
    submit("deaf", "x");
    watch_two();
    post("POST /v1/tasks/1/cancel", 202);
    await_both();
    await_end(1);
    assert_has(said, "\"state\":\"aborted\"");
    served_stop(&s);
}

/* ---- the end of the server ----------------------------------------------------------------- */

TEST(nothing_outlives_a_server_that_is_killed) {
    pid_t pid;
    make_fifo("said");
    make_fifo("gone");
    START("--exec", "deaf=" STUBBORN, "--exec",
          "gone=setsid sh -c 'trap \"\" TERM HUP; echo $$ > gone; exec sleep 1000' & "
          "trap '' TERM; wait");
    submit("deaf", "x");
    watch_two();
    submit("gone", "x");
    read_pids("gone", &pid, 1);
    watches[2] = watch_process(pid);
    served_kill(&s);
    await_both();
    await_death(watches[2]);
}

TEST(after_a_kill_the_command_runs_again) {
    make_fifo("said");
    START("--exec", "deaf=" STUBBORN);
    submit("deaf", "x");
    watch_two();
    served_kill(&s);
    await_both();
    START("--exec", "deaf=echo $LEGWORK_ATTEMPT > seen");
    await_end(1);
    assert_has(said, "\"state\":\"finished\"");
    read_file("seen");
    assert_string_equal(said, "2\n");
    served_stop(&s);
}

TEST(a_stop_waits_for_the_command_that_runs) {
    pid_t pid;
    make_fifo("said");
    make_fifo("go");
    START("--exec", "waits=echo $$ > said; read x < go; echo done");
    submit("waits", "x");
    read_pids("said", &pid, 1);
    kill(s.pid, SIGTERM);
    await_part("GET /readyz", "stopping");
    release("go");
    assert_int_equal(served_wait(&s), 0);
    START(NULL);
    await_end(1);
    assert_has(said, "\"state\":\"finished\"");
    served_stop(&s);
}

/* The attempt does not count: the next one is the first. */
static void assert_never_begun(void) {
    START("--exec", "deaf=echo $LEGWORK_ATTEMPT > seen");
    await_end(1);
    assert_has(said, "\"attempts\":1");
    read_file("seen");
    assert_string_equal(said, "1\n");
    served_stop(&s);
}

TEST(a_stop_that_has_waited_long_enough_ends_it_uncounted) {
    make_fifo("said");
    START("--stop-timeout", "100ms", "--exec-grace", "100ms", "--exec", "deaf=" STUBBORN);
    submit("deaf", "x");
    watch_two();
    kill(s.pid, SIGTERM);
    await_both();
    assert_int_equal(served_wait(&s), 0);
    assert_never_begun();
}

TEST(a_second_signal_ends_it_at_once_uncounted) {
    make_fifo("said");
    START("--stop-timeout", "1h", "--exec-grace", "1h", "--exec", "deaf=" STUBBORN);
    submit("deaf", "x");
    watch_two();
    kill(s.pid, SIGTERM);
    await_part("GET /readyz", "stopping");
    kill(s.pid, SIGTERM);
    await_both();
    assert_int_equal(served_wait(&s), 0);
    assert_never_begun();
}

/* ---- what commands get along --------------------------------------------------------------- */

TEST(no_descriptor_of_the_server_reaches_a_command) {
    START("--socket", "here.sock", "--exec", "fds=ls /proc/self/fd > seen");
    submit("fds", "x");
    await_end(1);
    read_file("seen"); /* the three, and that of ls: where its output goes is 1 */
    assert_string_equal(said, "0\n1\n2\n3\n");
    served_stop(&s);
}

TEST(as_many_run_at_once_as_was_said) {
    pid_t pids[2];
    make_fifo("said");
    make_fifo("go");
    START("--exec-workers", "2", "--exec", "waits=echo $$ > said; read x < go");
    for (int i = 0; i < 5; i++)
        submit("waits", "x");
    read_pids("said", pids, 2);
    await_part("GET /v1/kinds", "\"started\":2");
    assert_has(said, "\"enqueued\":3");
    served_kill(&s);
}

TEST(while_commands_run_an_operator_can_do_all_else) {
    pid_t pid;
    make_fifo("said");
    START("--exec-workers", "1", "--exec", "waits=echo $$ > said; exec sleep 1000");
    submit("waits", "x");
    read_pids("said", &pid, 1);
    submit("remote", "x");
    post("POST /v1/queues/q/claim", 200);
    post("POST /v1/tasks/2/fail?token=2", 204);
    await_end(2);
    assert_has(said, "failed");
    int code = 0;
    while (code != 204) { /* its end is told meanwhile */
        struct answer a = served_ask(&s, "POST /v1/tasks/2/run", NULL);
        code = a.code;
        answer_free(&a);
    }
    await_part("GET /v1/tasks/2", "\"state\":\"enqueued\"");
    served_kill(&s);
}

TEST(a_helper_that_was_killed_is_told_of) {
    pid_t pids[2];
    make_fifo("said");
    START("--exec", "waits=echo $$ $PPID > said; exec sleep 1000");
    submit("waits", "x");
    read_pids("said", pids, 2);
    watches[0] = watch_process(pids[0]);
    kill(pids[1], SIGKILL);
    await_death(watches[0]);
    await_part("GET /v1/tasks/1", "the process that runs commands is gone: restart the server");
    served_stop(&s);
}

/* ---- settings ------------------------------------------------------------------------------ */

TEST(wrong_commands_are_refused_with_a_sentence) {
    assert_int_equal(RUN("check", "--exec", "mail"), 2);
    assert_has(said, "exec: \"mail\" is not written as KIND=COMMAND");
    assert_int_equal(RUN("serve", "--store", "memory:", "--exec", "m l=true"), 2);
    assert_has(said, "is no name of a kind");
    assert_int_equal(RUN("check", "--exec", "a=true", "--exec", "a=false"), 2);
    assert_has(said, "has two commands");
    assert_int_equal(RUN("check", "--exec", "a=true", "--exec", "b=true", "--exec-workers", "4000"),
                     2);
    assert_has(said, "with 2 commands at most 2047 of each can run at once");
    assert_int_equal(RUN("check", "--exec", "a=true", "--exec-workers", "0"), 2);
    assert_int_equal(RUN("check", "--exec", "a=true", "--exec-grace", "never"), 2);
}

static void set_environment(void) {
    setenv("LEGWORK_EXEC", "up=tr a-z A-Z", 1);
}

TEST(commands_come_from_a_file_and_the_environment_too) {
    FILE *file = fopen("legwork.conf", "w");
    CHECK(file && fputs("[work]\nexec = up=tr a-z A-Z\nexec-workers = 1\n", file) >= 0
          && fclose(file) == 0);
    START("--config", "legwork.conf");
    submit("up", "x");
    await_end(1);
    assert_has(said, "\"state\":\"finished\"");
    served_stop(&s);
    served_start_with(&s, NULL, set_environment);
    submit("up", "x");
    await_end(2);
    assert_has(said, "\"state\":\"finished\"");
    served_stop(&s);
}
