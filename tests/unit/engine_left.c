/* Tasks that are left unfinished when an engine in memory is closed: each is told once, with the
 * state in which it was left, and one line of the log counts them. */
#include "engines.h"
#include "forks.h"

#include <legwork/lease.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what was told ------------------------------------------------------------------------- */

enum { SLIPS = 8 };

/* What `user` and `arg` of one task point to. */
struct slip {
    int ends, drops;
    bool was_dropped_first;
    lw_state state;    /* that was told last */
    void (*act)(void); /* in on_end */
};

static struct slip slips[SLIPS];
static lw_engine *the_engine;
static struct gate gate = GATE;
static struct tally told = TALLY;

static void note_end(void *user, const lw_snapshot *task) {
    struct slip *slip = user;
    slip->ends++;
    slip->state = task->state;
    tally_add(&told, 1);
    if (slip->act)
        slip->act();
}

static void note_drop(void *arg) {
    struct slip *slip = arg;
    slip->drops++;
    slip->was_dropped_first = slip->ends == 0;
}

#define TOLD(i) .on_end = note_end, .user = &slips[i]
#define CALL(i) .run = do_done, .arg = &slips[i], .on_drop = note_drop

static void assert_told(int i, lw_state state) {
    assert_int_equal(slips[i].ends, 1);
    assert_int_equal(slips[i].state, state);
}

static struct {
    int count;
    char text[256];
} left_line; /* the one about tasks that were left */

static void keep_line(void *user, const lw_log_record *record) {
    (void)user;
    if (!strstr(record->message, "left"))
        return;
    left_line.count++;
    int at =
        snprintf(left_line.text, sizeof left_line.text, "%s", lw_log_level_name(record->level));
    for (size_t i = 0; i < record->field_count; i++)
        at += snprintf(left_line.text + at, sizeof left_line.text - (size_t)at, " %s=%s",
                       record->fields[i].key, record->fields[i].value);
}

static const lw_log line_log = {.write = keep_line};

/* ---- in every state ------------------------------------------------------------------------ */

static void begin(int workers, bool must_start) {
    memset(slips, 0, sizeof slips);
    memset(&left_line, 0, sizeof left_line);
    the_engine = OPEN_ENGINE(.workers = workers, .log = &line_log);
    handle(the_engine, "mail", do_done, NULL);
    if (must_start)
        start(the_engine);
}

/* One of each state that is not started, and one that finishes before if there is a worker. */
static void submit_all(void) {
    lw_id first = SUBMIT(the_engine, .kind = "mail", .delay_ms = 60000, TOLD(0));
    SUBMIT(the_engine, .kind = "mail", .after = &first, .after_count = 1, TOLD(1));
    SUBMIT(the_engine, .kind = "elsewhere", .payload = LW_TEXT("payload"), .key = "k", TOLD(2));
    SUBMIT(the_engine, .delay_ms = 60000, CALL(3), TOLD(3));
    SUBMIT(the_engine, .delay_ms = 60000, CALL(4));
    SUBMIT(the_engine, .kind = "elsewhere"); /* nobody asks */
}

static void assert_all_told(void) {
    assert_told(0, LW_SCHEDULED);
    assert_told(1, LW_CREATED);
    assert_told(2, LW_ENQUEUED);
    assert_told(3, LW_SCHEDULED);
    for (int i = 3; i < 5; i++)
        assert_int_equal(slips[i].drops, 1);
    assert_false(slips[3].was_dropped_first);
    assert_int_equal(left_line.count, 1);
    assert_string_equal(left_line.text,
                        "warn engine=legwork created=1 scheduled=3 enqueued=2 started=0");
}

TEST(a_task_that_was_left_is_told_once_at_the_close) {
    begin(2, true);
    lw_id done = SUBMIT(the_engine, .kind = "mail", TOLD(5));
    assert_status(lw_wait(the_engine, done, 200000, NULL), LW_OK);
    tally_await(&told, 1);
    submit_all();
    close_engine(the_engine); /* nobody has stopped it */
    assert_all_told();
    assert_told(5, LW_FINISHED);
}

TEST(a_stop_before_the_close_changes_nothing) {
    const lw_stop_mode modes[] = {LW_DROP, LW_DRAIN};
    for (int i = 0; i < 2; i++) {
        begin(2, true);
        submit_all();
        assert_status(lw_stop(the_engine, modes[i], 200000), LW_OK);
        assert_int_equal(slips[0].ends, 0); /* it is there, for lw_list to show */
        assert_int_equal(left_line.count, 0);
        close_engine(the_engine);
        assert_all_told();
    }
}

TEST(an_engine_without_workers_and_one_that_was_never_started_tell_too) {
    begin(LW_ZERO, true);
    submit_all();
    close_engine(the_engine);
    assert_all_told();
    begin(2, false);
    submit_all();
    close_engine(the_engine);
    assert_all_told();
}

TEST(nothing_is_said_if_nothing_was_left) {
    begin(1, true);
    SUBMIT(the_engine, .kind = "mail", TOLD(0));
    assert_status(lw_stop(the_engine, LW_DRAIN, 200000), LW_OK);
    close_engine(the_engine);
    assert_told(0, LW_FINISHED);
    assert_int_equal(left_line.count, 0);
}

TEST(a_task_that_is_leased_was_left_started) {
    begin(1, true);
    SUBMIT(the_engine, .kind = "elsewhere", TOLD(0));
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_int_equal(lw_lease_claim(the_engine, LW_CLAIM_OPTIONS(.holder = "worker"), &task, NULL),
                     1);
    lw_snapshot_clear(&task);
    close_engine(the_engine);
    assert_told(0, LW_STARTED);
    assert_string_equal(left_line.text,
                        "warn engine=legwork created=0 scheduled=0 enqueued=0 started=1");
}

TEST(what_is_on_a_disk_is_not_lost_and_not_told) {
    memset(&left_line, 0, sizeof left_line);
    the_engine = OPEN_ON("sqlite:tasks.db", .workers = 1, .log = &line_log);
    lw_id id = SUBMIT(the_engine, .kind = "elsewhere", TOLD(0));
    close_engine(the_engine);
    assert_int_equal(slips[0].ends, 0);
    assert_int_equal(left_line.count, 0);
    the_engine = OPEN_ON("sqlite:tasks.db", .workers = 1);
    assert_int_equal(state_of(the_engine, id), LW_ENQUEUED);
    close_engine(the_engine);
}

/* ---- what runs longer than the close ------------------------------------------------------- */

static lw_outcome pass_gate(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    gate_pass(&gate);
    return lw_done(ctx);
}

TEST(a_task_that_still_runs_at_the_close_is_told_when_it_has_ended) {
    lw_test_memory *memory = open_memory();
    the_engine =
        OPEN_ENGINE(.workers = 1, .log = &line_log, .allocator = lw_test_memory_allocator(memory));
    handle(the_engine, "gate", pass_gate, NULL);
    start(the_engine);
    SUBMIT(the_engine, .kind = "gate", TOLD(0));
    tally_await(&gate.arrived, 1);
    SUBMIT(the_engine, .kind = "gate", TOLD(1));
    SUBMIT(the_engine, CALL(2), TOLD(2));
    assert_status(lw_stop(the_engine, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_close(the_engine), LW_PENDING);
    assert_told(1, LW_ENQUEUED);
    assert_told(2, LW_ENQUEUED);
    assert_int_equal(slips[2].drops, 1);
    assert_int_equal(slips[0].ends, 0);
    assert_string_equal(left_line.text,
                        "warn engine=legwork created=0 scheduled=0 enqueued=2 started=1");
    gate_open(&gate);
    await_that(is_all_freed(memory));
    assert_told(0, LW_FINISHED);
    assert_told(1, LW_ENQUEUED);
    assert_int_equal(slips[2].drops, 1);
    assert_int_equal(left_line.count, 1);
    close_memory(memory);
}

static lw_outcome give_up_late(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    gate_pass(&gate);
    return lw_retry(ctx, "not this time");
}

TEST(a_task_that_gives_up_after_the_close_is_told_as_it_was_left) {
    lw_test_memory *memory = open_memory();
    the_engine = OPEN_ENGINE(.workers = 1, .allocator = lw_test_memory_allocator(memory));
    start(the_engine);
    SUBMIT(the_engine, .run = give_up_late, .arg = &slips[0], .on_drop = note_drop, TOLD(0));
    tally_await(&gate.arrived, 1);
    assert_status(lw_stop(the_engine, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_close(the_engine), LW_PENDING);
    gate_open(&gate);
    await_that(is_all_freed(memory));
    assert_told(0, LW_ENQUEUED);
    assert_int_equal(slips[0].drops, 1);
    close_memory(memory);
}

/* ---- calls from inside --------------------------------------------------------------------- */

static lw_id other; /* of slips[1], which is told after slips[0] */

static void call_engine(void) {
    lw_engine *engine = the_engine;
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_engine_stats stats;
    lw_explanation why;
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_ESTOPPING);
    assert_status(lw_submit_async(engine, LW_TASK(.kind = "mail"), NULL, NULL, NULL), LW_EINVAL);
    assert_status(lw_wait(engine, other, -1, NULL), LW_ESTOPPING);
    assert_status(lw_wait_idle(engine, -1), LW_EDEADLOCK);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_PENDING);
    assert_status(lw_close(engine), LW_EDEADLOCK);
    assert_status(lw_get(engine, other, &task), LW_OK);
    assert_int_equal(task.state, LW_SCHEDULED);
    assert_status(lw_retry_now(engine, other, NULL), LW_ESTOPPING);
    assert_status(lw_forget(engine, other), LW_PENDING);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_status(lw_explain(engine, other, &why), LW_OK);
    lw_snapshot_clear(&task);
}

static void cancel_other(void) {
    assert_status(lw_cancel(the_engine, other), LW_OK);
}

static void cancel_first(void) {
    assert_status(lw_cancel(the_engine, other - 1), LW_OK);
}

static void close_with(int workers, bool must_start, void (*first)(void), void (*second)(void),
                       lw_state second_state) {
    begin(workers, must_start);
    SUBMIT(the_engine, .delay_ms = 60000, CALL(0), TOLD(0));
    other = SUBMIT(the_engine, .delay_ms = 60000, CALL(1), TOLD(1));
    slips[0].act = first;
    slips[1].act = second;
    close_engine(the_engine);
    assert_told(0, LW_SCHEDULED);
    assert_told(1, second_state);
    assert_int_equal(slips[0].drops, 1);
    assert_int_equal(slips[1].drops, 1);
}

TEST(a_callback_at_the_close_may_call_the_engine) {
    const int workers[] = {2, LW_ZERO, 2};
    for (int i = 0; i < 3; i++) {
        close_with(workers[i], i < 2, call_engine, NULL, LW_SCHEDULED);
        close_with(workers[i], i < 2, cancel_other, NULL, LW_ABORTED);
        close_with(workers[i], i < 2, NULL, cancel_first, LW_SCHEDULED);
    }
}

static void end_thread(void) {
    pthread_exit(NULL);
}

static void *close_in_thread(void *engine) {
    lw_close(engine);
    return NULL;
}

TEST(a_callback_may_end_the_thread_that_closes_and_another_closes_then) {
    begin(1, true);
    submit_all();
    slips[0].act = slips[1].act = end_thread;
    join_thread(start_thread(close_in_thread, the_engine));
    close_engine(the_engine);
    assert_told(0, LW_SCHEDULED);
    assert_told(1, LW_CREATED);
    assert_told(2, LW_ENQUEUED);
    assert_told(3, LW_SCHEDULED);
    assert_int_equal(slips[3].drops, 1);
    assert_int_equal(slips[4].drops, 1);
}

TEST(a_callback_may_end_the_thread_that_frees_the_engine) {
    lw_test_memory *memory = open_memory();
    the_engine = OPEN_ENGINE(.workers = 2, .allocator = lw_test_memory_allocator(memory));
    start(the_engine);
    for (int i = 0; i < 2; i++)
        SUBMIT(the_engine, .run = give_up_late, .arg = &slips[i], .on_drop = note_drop, TOLD(i));
    tally_await(&gate.arrived, 2);
    slips[0].act = slips[1].act = end_thread;
    assert_status(lw_stop(the_engine, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_close(the_engine), LW_PENDING);
    gate_open(&gate);
    await_that(is_all_freed(memory));
    for (int i = 0; i < 2; i++) {
        assert_told(i, LW_ENQUEUED);
        assert_int_equal(slips[i].drops, 1);
    }
    close_memory(memory);
}

/* ---- fork ---------------------------------------------------------------------------------- */

static pid_t parent, child;

static void fork_here(void) {
    child = fork_when_settled();
    if (child == 0)
        begin_child();
}

TEST(a_child_that_is_forked_in_a_callback_at_the_close_touches_nothing) {
    const int workers[] = {LW_ZERO, 2};
    for (int i = 0; i < 2; i++) {
        parent = getpid();
        begin(workers[i], true);
        submit_all();
        slips[0].act = fork_here;
        int rc = lw_close(the_engine);
        if (getpid() != parent)
            _exit(rc == LW_EFORKED && slips[1].ends == 0 && slips[3].drops == 0 ? 0 : 1);
        assert_status(rc, LW_OK);
        expect_good_end(child);
        assert_all_told();
    }
}

TEST(an_inherited_engine_tells_nothing_in_a_child) {
    begin(1, true);
    submit_all();
    pid_t pid = fork_when_settled();
    if (pid == 0)
        _exit(lw_close(the_engine) == LW_EFORKED && slips[0].ends == 0 ? 0 : 1);
    expect_good_end(pid);
    close_engine(the_engine);
    assert_all_told();
}

/* ---- memory -------------------------------------------------------------------------------- */

static void free_user(void *user, const lw_snapshot *task) {
    (void)task;
    free(user);
    tally_add(&told, 1);
}

/* Of the many whose `user` nobody else would free. */
TEST(every_user_can_be_freed_at_the_end_of_its_task) {
    enum { MANY = 3000 };
    the_engine = OPEN_ENGINE(.workers = 2);
    handle(the_engine, "mail", do_done, NULL);
    start(the_engine);
    for (int i = 0; i < MANY; i++)
        SUBMIT(the_engine, .kind = "mail", .delay_ms = i % 3 == 0 ? 60000 : 0, .on_end = free_user,
               .user = malloc(16));
    close_engine(the_engine);
    assert_int_equal(tally_read(&told), MANY);
}

TEST(a_task_is_told_without_memory_for_a_snapshot) {
    lw_test_memory *memory = open_memory();
    the_engine = OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
    SUBMIT(the_engine, .kind = "mail", .payload = LW_TEXT("payload"), TOLD(0));
    lw_test_memory_fail_at(memory, 1);
    close_engine(the_engine);
    assert_told(0, LW_ENQUEUED);
    close_memory(memory);
}
