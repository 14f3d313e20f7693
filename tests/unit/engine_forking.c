/* Children that are forked inside handlers and callbacks, and return from them: nothing of the
 * parent's engine runs there, and nothing hangs. */
#include "engines.h"
#include "forks.h"

#include <legwork/testing.h>
#include <pthread.h>
#include <unistd.h>

#define LONG_MS 200000

static atomic_int *in_child; /* calls of the program's functions, there */
static atomic_bool has_forked;
static _Atomic pid_t child;
static pid_t parent;

static void begin(void) {
    if (!in_child)
        in_child = open_shared();
    parent = getpid();
    atomic_store(&has_forked, false);
    atomic_store(&child, 0);
}

static void note_call(void) {
    if (getpid() != parent)
        atomic_fetch_add(in_child, 1);
}

/* The first one to come here forks. */
static void fork_once(void) {
    note_call();
    if (atomic_exchange(&has_forked, true))
        return;
    pid_t pid = fork();
    if (pid == 0)
        begin_child();
    else
        atomic_store(&child, pid);
}

static void expect_nothing_in_child(void) {
    await_that(atomic_load(&child) != 0);
    expect_good_end(atomic_load(&child));
    assert_int_equal(atomic_load(in_child), 0);
}

/* ---- handlers ------------------------------------------------------------------------------ */

static lw_outcome do_note(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    note_call();
    return lw_done(ctx);
}

static lw_outcome do_fork(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    fork_once();
    if (getpid() != parent) {
        lw_error err;
        assert_int_equal(lw_ctx_reason(ctx), LW_REASON_FORKED);
        assert_status(lw_then(ctx, LW_TASK(.kind = "note"), &err), LW_EFORKED);
        assert_status(lw_progress(ctx, 1, 2, NULL), LW_EFORKED);
    }
    return lw_done(ctx);
}

static lw_outcome do_fork_and_fail(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    fork_once();
    return lw_fail(ctx, "no");
}

static void fork_in_handler(const char *url, lw_handler run, lw_state wanted) {
    begin();
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "note", do_note, NULL);
    handle(engine, "fork", run, LW_HANDLER_OPTIONS(.timeout_ms = 1000000));
    SUBMIT(engine, .kind = "note");
    lw_id id = SUBMIT(engine, .kind = "fork");
    for (int i = 0; i < 20; i++)
        SUBMIT(engine, .kind = "note");
    start(engine);
    expect_nothing_in_child();
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_int_equal(state_of(engine, id), wanted);
    close_engine(engine);
}

ENGINE_TEST(a_child_that_returns_from_a_handler_runs_nothing_of_its_parents) {
    fork_in_handler(url, do_fork, LW_FINISHED);
    fork_in_handler(url, do_fork_and_fail, LW_FAILED);
}

static lw_outcome do_perhaps_fork(lw_ctx *ctx, const lw_task *task) {
    task->attempt > 0 && task->id % 5000 == 4000 ? fork_once() : note_call();
    return lw_done(ctx);
}

TEST(a_child_that_returns_from_one_of_many_short_tasks_runs_none_of_the_others) {
    begin();
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "short", do_perhaps_fork, NULL);
    for (int i = 0; i < 6000; i++)
        SUBMIT(engine, .kind = "short");
    start(engine);
    expect_nothing_in_child();
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

/* ---- on the program's own thread ----------------------------------------------------------- */

TEST(a_child_that_returns_from_a_handler_that_the_caller_ran_goes_on_in_the_callers_code) {
    begin();
    struct gate gate = GATE;
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = 1, .overflow = LW_CALLER_RUNS);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "fork", do_fork, NULL);
    start(engine);
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    int rc = lw_submit(engine, LW_TASK(.kind = "fork"), NULL, NULL);
    if (getpid() != parent) {
        assert_status(rc, LW_OK);
        assert_status(lw_submit(engine, LW_TASK(.kind = "fork"), NULL, NULL), LW_EFORKED);
        _exit(0);
    }
    assert_status(rc, LW_OK);
    expect_nothing_in_child();
    gate_open(&gate);
    close_engine(engine);
}

static void fork_at_end(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    fork_once();
}

static void expect_forked(int rc) {
    if (getpid() == parent)
        return;
    assert_status(rc, LW_EFORKED);
    _exit(0);
}

ENGINE_TEST(a_driven_engine_says_so_in_the_child) {
    lw_clock *clock = NULL;
    assert_status(lw_test_clock_open(&clock), LW_OK);
    for (int way = 0; way < 4; way++) {
        begin();
        lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .clock = clock);
        handle(engine, "fork", way < 2 ? do_fork : do_note, NULL);
        start(engine);
        for (int i = 0; i < 3; i++)
            SUBMIT(engine, .kind = "fork", .on_end = way == 2 ? fork_at_end : NULL,
                   .delay_ms = way == 1 ? 1000 : 0);
        lw_id last = SUBMIT(engine, .kind = "fork", .on_end = way == 3 ? fork_at_end : NULL,
                            .delay_ms = way == 3 ? 100000 : 0);
        expect_forked(way == 1 ? lw_test_advance(engine, 1000) : lw_test_run(engine));
        assert_status(lw_cancel(engine, last), way == 3 ? LW_OK : LW_ENOTFOUND);
        expect_forked(lw_stop(engine, LW_DRAIN, 0)); /* tells what was cancelled */
        expect_nothing_in_child();
        close_engine(engine);
    }
    lw_test_clock_close(clock);
}

/* ---- callbacks ----------------------------------------------------------------------------- */

static void fork_at_drop(void *arg) {
    (void)arg;
    fork_once();
}

static void fork_when_submitted(void *user, int status, lw_id id) {
    (void)user, (void)status, (void)id;
    fork_once();
}

static void note_at_end(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    note_call();
}

static lw_outcome do_retry_noting(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    note_call();
    return lw_retry(ctx, "again");
}

static lw_outcome do_until_done(lw_ctx *ctx, const lw_task *task) {
    struct gate *gate = lw_ctx_user(ctx);
    (void)task;
    note_call();
    tally_add(&gate->arrived, 1);
    tally_await(&gate->opened, 1);
    return lw_done(ctx);
}

static void drain(lw_engine *engine) {
    expect_nothing_in_child();
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

ENGINE_TEST(a_child_that_returns_from_on_end_runs_nothing_of_its_parents) {
    begin();
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "note", do_note, NULL);
    for (int i = 0; i < 20; i++)
        SUBMIT(engine, .kind = "note", .on_end = fork_at_end);
    start(engine);
    drain(engine);
}

TEST(a_child_that_returns_from_on_failed_runs_nothing_of_its_parents) {
    begin();
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .on_failed = fork_at_end);
    handle(engine, "note", do_note, NULL);
    handle(engine, "fail", do_fail, NULL);
    for (int i = 0; i < 20; i++)
        SUBMIT(engine, .kind = i % 4 == 3 ? "fail" : "note", .on_end = note_at_end);
    start(engine);
    drain(engine);
}

TEST(a_child_that_returns_from_on_attempt_runs_nothing_of_its_parents) {
    begin();
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .on_attempt = fork_at_end);
    handle(engine, "again", do_retry_noting, LW_HANDLER_OPTIONS(.retry = {.attempts = 1}));
    for (int i = 0; i < 20; i++)
        SUBMIT(engine, .kind = "again", .on_end = note_at_end);
    start(engine);
    drain(engine);
}

TEST(a_child_that_returns_from_on_drop_runs_nothing_of_its_parents) {
    begin();
    struct gate gate = GATE;
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 5; i++)
        assert_status(lw_cancel(engine, SUBMIT(engine, .run = do_note, .on_drop = fork_at_drop)),
                      LW_OK);
    gate_open(&gate);
    drain(engine);
}

TEST(a_child_that_returns_from_the_answer_to_a_submit_runs_nothing_of_its_parents) {
    begin();
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "note", do_note, NULL);
    for (int i = 0; i < 20; i++)
        assert_status(
            lw_submit_async(engine, LW_TASK(.kind = "note"), fork_when_submitted, NULL, NULL),
            LW_OK);
    start(engine);
    drain(engine);
}

TEST(a_child_that_returns_from_on_stuck_runs_nothing_of_its_parents) {
    begin();
    struct gate gate = GATE;
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .on_stuck = fork_at_end);
    handle(engine, "stuck", do_until_done,
           LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = LW_ZERO, .user = &gate));
    handle(engine, "note", do_note, NULL);
    start(engine);
    for (int i = 0; i < 2; i++)
        SUBMIT(engine, .kind = "stuck", .on_end = note_at_end);
    expect_nothing_in_child();
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}
