/* Waiting for the end of a task, and finding one by its key. */
#include "engines.h"

#include "base/clock.h"

#include <stdatomic.h>
#include <string.h>

#define FOREVER (-1)

/* One worker that waits at a gate in each task of the kind "gate". */
static struct gate gate = GATE;

static lw_engine *open_gated(void) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "fail", do_fail, NULL);
    start(engine);
    return engine;
}

static void close_gated(lw_engine *engine) {
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, FOREVER), LW_OK);
    close_engine(engine);
}

/* A thread in lw_wait. */
struct waiter {
    lw_engine *engine;
    lw_id id;
    int64_t timeout_ms;
    lw_snapshot snapshot;
    int rc;
    pthread_t thread;
};

static void *wait_in_thread(void *arg) {
    struct waiter *w = arg;
    w->rc = lw_wait(w->engine, w->id, w->timeout_ms, &w->snapshot);
    return NULL;
}

static void begin_wait(struct waiter *w, lw_engine *engine, lw_id id, int64_t timeout_ms) {
    *w = (struct waiter){.engine = engine, .id = id, .timeout_ms = timeout_ms};
    w->thread = start_thread(wait_in_thread, w);
}

static void assert_woken(struct waiter *w, int status, lw_state state) {
    join_thread(w->thread);
    assert_status(w->rc, status);
    assert_int_equal(w->snapshot.id, w->id);
    assert_int_equal(w->snapshot.state, state);
    lw_snapshot_clear(&w->snapshot);
}

/* ---- without threads ----------------------------------------------------------------------- */

TEST(what_has_ended_is_not_waited_for) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "fail", do_fail, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "fail");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(engine, id, 0, &s), LW_PENDING);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_status(lw_wait(engine, id, 0, NULL), LW_PENDING);
    assert_int_equal(lw_test_run(engine), 1);
    for (int64_t timeout_ms = -1; timeout_ms <= 1; timeout_ms++) {
        assert_status(lw_wait(engine, id, timeout_ms, &s), LW_OK);
        assert_int_equal(s.state, LW_FAILED);
        assert_string_equal(s.last_error, "no");
        assert_status(lw_wait(engine, id, timeout_ms, NULL), LW_OK);
    }
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(nonsense_is_refused) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id id = SUBMIT(engine, .kind = "mail");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(NULL, id, 0, &s), LW_EINVAL);
    assert_status(lw_wait(engine, id, -2, &s), LW_EINVAL);
    assert_status(lw_wait(engine, id, LW_TIMEOUT_MS_MAX + 1, &s), LW_EINVAL);
    assert_status(lw_wait(engine, id, 0, &s), LW_PENDING);
    assert_status(lw_wait(engine, id + 1, FOREVER, &s), LW_ENOTFOUND);
    assert_null(s.memory);
    assert_status(lw_wait(engine, id + 1, FOREVER, NULL), LW_ENOTFOUND);
    assert_status(lw_wait(engine, 0, FOREVER, NULL), LW_ENOTFOUND);
    close_engine(engine);
}

static lw_outcome wait_for_oneself(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(engine, task->id, FOREVER, &s), LW_EDEADLOCK);
    assert_status(lw_wait(engine, task->id, 1, &s), LW_EDEADLOCK);
    assert_status(lw_wait(engine, task->id, 0, &s), LW_PENDING); /* only a look */
    assert_int_equal(s.state, LW_STARTED);
    lw_snapshot_clear(&s);
    return lw_done(ctx);
}

static void run_wait_for_oneself(lw_clock *clock) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "self", wait_for_oneself, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "self");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(a_handler_cannot_wait_for_its_own_task) {
    run_wait_for_oneself(NULL);
}

/* Whoever looks at it loses the core for a second. */
static uint64_t leap(lw_clock *clock) {
    static _Atomic uint64_t now = LW__CLOCK_BASE + LW__NS_PER_S;
    (void)clock;
    return atomic_fetch_add(&now, LW__NS_PER_S);
}

TEST(a_handler_on_a_busy_machine_cannot_wait_for_its_own_task_either) {
    lw_clock clock = *lw__clock_system();
    clock.now = leap;
    run_wait_for_oneself(&clock);
}

TEST(without_memory_a_wait_says_so) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
    lw_id id = SUBMIT(engine, .kind = "mail");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_test_memory_fail_at(memory, 1);
    assert_status(lw_wait(engine, id, FOREVER, &s), LW_ENOMEM);
    assert_null(s.kind);
    assert_status(lw_wait(engine, id, 0, NULL), LW_PENDING);
    close_engine(engine);
    close_memory(memory);
}

/* ---- with threads -------------------------------------------------------------------------- */

TEST(all_who_wait_are_woken_by_the_end) {
    lw_engine *engine = open_gated();
    lw_id id = SUBMIT(engine, .kind = "gate"), other = SUBMIT(engine, .kind = "fail");
    struct waiter waiters[4];
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 3; i++)
        begin_wait(&waiters[i], engine, id, FOREVER);
    begin_wait(&waiters[3], engine, other, FOREVER);
    gate_open(&gate);
    for (int i = 0; i < 3; i++)
        assert_woken(&waiters[i], LW_OK, LW_FINISHED);
    assert_woken(&waiters[3], LW_OK, LW_FAILED);
    close_gated(engine);
}

TEST(a_cancelled_task_wakes_who_waits_for_it) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    lw_id id = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    struct waiter waiter;
    begin_wait(&waiter, engine, id, 5000);
    await_sleepers(clock, 1);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_woken(&waiter, LW_OK, LW_ABORTED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_wait_ends_at_its_time_and_shows_how_far_the_task_is) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    lw_id id = SUBMIT(engine, .kind = "mail");
    struct waiter waiter;
    begin_wait(&waiter, engine, id, 1000);
    await_sleepers(clock, 1);
    advance(clock, 999);
    await_sleepers(clock, 1);
    advance(clock, 1);
    assert_woken(&waiter, LW_PENDING, LW_ENQUEUED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* A task without retention stays until those who waited for it have looked. */
TEST(who_waits_sees_a_task_that_leaves_at_its_end) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("body"));
    struct waiter waiters[2];
    for (int i = 0; i < 2; i++)
        begin_wait(&waiters[i], engine, id, 5000);
    await_sleepers(clock, 2);
    assert_int_equal(lw_test_run(engine), 1);
    for (int i = 0; i < 2; i++)
        assert_woken(&waiters[i], LW_OK, LW_FINISHED);
    assert_status(lw_wait(engine, id, FOREVER, NULL), LW_ENOTFOUND);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_task_that_runs_again_is_waited_for_again) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail");
    struct waiter waiter;
    begin_wait(&waiter, engine, id, 5000);
    await_sleepers(clock, 1);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_status(lw_retry_now(engine, id, NULL), LW_OK); /* perhaps before the waiter has looked */
    assert_int_equal(lw_test_run(engine), 1);
    join_thread(waiter.thread);
    assert_status(waiter.rc, LW_OK);
    assert_true(lw_state_is_terminal(waiter.snapshot.state));
    lw_snapshot_clear(&waiter.snapshot);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- by key -------------------------------------------------------------------------------- */

TEST(a_task_is_found_by_its_kind_and_key) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id ann = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_id letter = SUBMIT(engine, .kind = "letter", .key = "ann");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_find(engine, "mail", "ann", &s), LW_OK);
    assert_int_equal(s.id, ann);
    assert_string_equal(s.key, "ann");
    assert_status(lw_find(engine, "letter", "ann", &s), LW_OK);
    assert_int_equal(s.id, letter);
    const char *const unknown[][2] = {
        {"mail", "bob"}, {"mail", "an"},    {"mail", "annn"},
        {"mail", ""},    {"parcel", "ann"}, {"", ""},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_status(lw_find(engine, unknown[i][0], unknown[i][1], &s), LW_ENOTFOUND);
        assert_int_equal(s.id, 0);
    }
    assert_status(lw_find(NULL, "mail", "ann", &s), LW_EINVAL);
    assert_status(lw_find(engine, NULL, "ann", &s), LW_EINVAL);
    assert_status(lw_find(engine, "mail", NULL, &s), LW_EINVAL);
    assert_status(lw_find(engine, "mail", "ann", NULL), LW_EINVAL);
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(a_key_stands_for_its_youngest_task_until_that_has_left) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id first = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_cancel(engine, first), LW_OK);
    assert_status(lw_find(engine, "mail", "ann", &s), LW_OK);
    assert_int_equal(s.id, first);
    assert_int_equal(s.state, LW_ABORTED);
    lw_id second = SUBMIT(engine, .kind = "mail", .key = "ann");
    assert_status(lw_find(engine, "mail", "ann", &s), LW_OK);
    assert_int_equal(s.id, second);
    assert_status(lw_cancel(engine, second), LW_OK);
    assert_status(lw_forget(engine, second), LW_OK);
    assert_status(lw_find(engine, "mail", "ann", &s), LW_ENOTFOUND);
    lw_snapshot_clear(&s);
    close_engine(engine);
}
