/* An engine without workers on a test clock, as a program's own tests use it: time passes where the
 * program waits, deadlines hold, and nothing hangs. */
#include "engines.h"

#include "base/clock.h"

#include <legwork/testing.h>
#include <string.h>

static lw_clock *the_clock;
static lw_engine *engine;
static struct tally stuck = TALLY, drops = TALLY, runs = TALLY;
static int status;
static int64_t advance_ms, sleep_ms;
static lw_reason reason;

static void note_stuck(void *user, const lw_snapshot *task) {
    (void)user;
    assert_true(task->is_stuck);
    tally_add(&stuck, 1);
}

#define OPEN(...) \
    open_on_clock(LW_ENGINE_OPTIONS(.workers = LW_ZERO, .on_stuck = note_stuck, __VA_ARGS__))
static void open_on_clock(const lw_engine_options *options) {
    lw_engine_options on_clock = *options;
    the_clock = on_clock.clock = open_clock();
    engine = open_engine(&on_clock);
}

static void close_all(void) {
    close_engine(engine);
    lw_test_clock_close(the_clock);
}

static int64_t now_ms(void) {
    return (int64_t)(lw__now(the_clock) / LW__NS_PER_MS);
}

static int64_t beginning;
#define BEGIN() (beginning = now_ms())
#define PASSED() (now_ms() - beginning)

static lw_fault first_fault(lw_id id) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    lw_fault fault = s.error_count > 0 ? s.errors[0].fault : (lw_fault)0;
    lw_snapshot_clear(&s);
    return fault;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

/* Talks to something slow. */
static lw_outcome do_slow(lw_ctx *ctx, const lw_task *task) {
    if (task->attempt > 1)
        return lw_done(ctx);
    assert_false(lw_ctx_done(ctx));
    assert_status(lw_test_clock_advance(the_clock, advance_ms), LW_OK);
    reason = lw_ctx_reason(ctx);
    return lw_retry(ctx, "slow");
}

static lw_id run_slow(int64_t ms, lw_handler run) {
    OPEN();
    handle(engine, "slow", run, LW_HANDLER_OPTIONS(.timeout_ms = 1000, .stuck_ms = 500));
    start(engine);
    advance_ms = ms;
    lw_id id = SUBMIT(engine, .kind = "slow");
    assert_int_equal(lw_test_run(engine), 1);
    return id;
}

TEST(a_context_is_done_when_the_clock_was_moved_past_its_deadline) {
    lw_id id = run_slow(999, do_slow);
    assert_int_equal(reason, LW_REASON_NONE);
    assert_int_equal(first_fault(id), LW_FAULT_ERROR);
    close_all();
    id = run_slow(1000, do_slow);
    assert_int_equal(reason, LW_REASON_TIMEOUT);
    assert_int_equal(first_fault(id), LW_FAULT_TIMEOUT);
    assert_int_equal(tally_read(&stuck), 0);
    close_all();
}

static lw_outcome do_slow_unasked(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_test_clock_advance(the_clock, advance_ms);
    return lw_retry(ctx, "slow");
}

TEST(an_attempt_that_never_asks_has_timed_out_all_the_same_or_was_stuck) {
    lw_id id = run_slow(1499, do_slow_unasked);
    assert_int_equal(first_fault(id), LW_FAULT_TIMEOUT);
    assert_int_equal(tally_read(&stuck), 0);
    close_all();
    id = run_slow(1500, do_slow_unasked);
    assert_int_equal(first_fault(id), LW_FAULT_STUCK);
    assert_int_equal(tally_read(&stuck), 1);
    close_all();
}

TEST(a_task_that_must_be_finished_by_a_time_is_asked_to_give_up_then) {
    OPEN();
    handle(engine, "slow", do_slow, NULL);
    start(engine);
    advance_ms = 3000;
    lw_id id = SUBMIT(engine, .kind = "slow", .finish_by_ms = 3000);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(reason, LW_REASON_TIMEOUT);
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    close_all();
}

/* ---- sleeping ------------------------------------------------------------------------------ */

static lw_outcome do_sleep(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    BEGIN();
    status = lw_ctx_sleep(ctx, sleep_ms);
    assert_int_equal(PASSED(), status == LW_OK ? sleep_ms : 1000);
    reason = lw_ctx_reason(ctx);
    return status == LW_OK ? lw_done(ctx) : lw_fail(ctx, "too long");
}

static lw_id run_sleep(int64_t ms) {
    sleep_ms = ms;
    lw_id id = SUBMIT(engine, .kind = "sleep");
    assert_int_equal(lw_test_run(engine), 1);
    return id;
}

TEST(a_sleep_moves_the_clock_but_not_past_the_deadline) {
    OPEN();
    handle(engine, "sleep", do_sleep, LW_HANDLER_OPTIONS(.timeout_ms = 1000));
    start(engine);
    assert_int_equal(state_of(engine, run_sleep(10)), LW_FINISHED);
    assert_status(status, LW_OK);
    assert_int_equal(state_of(engine, run_sleep(5000)), LW_FAILED);
    assert_status(status, LW_ECANCELED);
    assert_int_equal(reason, LW_REASON_TIMEOUT);
    close_all();
}

TEST(a_sleep_inside_an_advance_counts_as_part_of_it) {
    OPEN();
    handle(engine, "sleep", do_sleep, NULL);
    start(engine);
    sleep_ms = 600;
    SUBMIT(engine, .kind = "sleep");
    lw_id id = SUBMIT(engine, .kind = "sleep", .delay_ms = 100);
    int64_t before = now_ms();
    assert_int_equal(lw_test_advance(engine, 1000), 2); /* at 0, and at 600: it could not earlier */
    assert_int_equal(now_ms() - before, 1200);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_all();
}

/* ---- waiting ------------------------------------------------------------------------------- */

TEST(a_wait_drives_the_engine_until_the_task_has_ended_or_its_time_is_over) {
    OPEN();
    handle(engine, "mail", do_done, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail", .delay_ms = 5000);
    BEGIN();
    assert_status(lw_wait(engine, id, 100, NULL), LW_PENDING);
    assert_int_equal(PASSED(), 100);
    assert_status(lw_wait(engine, id, 60000, NULL), LW_OK);
    assert_int_equal(PASSED(), 5000);
    id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_wait(engine, id, -1, NULL), LW_OK);
    assert_int_equal(PASSED(), 5000);
    close_all();
}

TEST(a_wait_for_what_never_comes_says_so) {
    OPEN();
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "unhandled");
    assert_status(lw_wait(engine, id, -1, NULL), LW_PENDING);
    close_all();
}

TEST(before_the_start_a_wait_lets_the_time_pass) {
    OPEN();
    handle(engine, "mail", do_done, NULL);
    lw_id id = SUBMIT(engine, .kind = "mail");
    BEGIN();
    assert_status(lw_wait(engine, id, 100, NULL), LW_PENDING);
    assert_int_equal(PASSED(), 100);
    close_all();
}

static void expect_event(lw_events *events, int64_t timeout_ms, lw_state to, int64_t passed_ms) {
    lw_event event;
    assert_status(lw_events_next(events, &event, timeout_ms), LW_OK);
    assert_int_equal(event.to, to);
    assert_int_equal(PASSED(), passed_ms);
}

TEST(a_reader_of_events_drives_the_engine_until_there_is_one_or_its_time_is_over) {
    OPEN();
    handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.retention = {.finished_ms = -1}));
    start(engine);
    lw_events *events = NULL;
    lw_event event;
    assert_status(lw_events_open(engine, &events, 0), LW_OK);
    BEGIN();
    SUBMIT(engine, .kind = "mail", .delay_ms = 5000);
    expect_event(events, 0, LW_CREATED, 0);
    expect_event(events, 0, LW_SCHEDULED, 0);
    assert_status(lw_events_next(events, &event, 100), LW_ETIMEDOUT);
    assert_int_equal(PASSED(), 100);
    expect_event(events, 60000, LW_ENQUEUED, 5000);
    expect_event(events, -1, LW_STARTED, 5000);
    expect_event(events, -1, LW_FINISHED, 5000);
    assert_status(lw_events_next(events, &event, -1), LW_ETIMEDOUT); /* nothing is due any more */
    SUBMIT(engine, .kind = "mail", .delay_ms = 5000);
    expect_event(events, -1, LW_CREATED, 5000);
    expect_event(events, -1, LW_SCHEDULED, 5000);
    expect_event(events, -1, LW_ENQUEUED, 10000);
    lw_events_close(events);
    close_all();
}

static lw_events *read_inside;

static lw_outcome do_read(lw_ctx *ctx, const lw_task *task) {
    lw_event event;
    (void)task;
    while (lw_events_next(read_inside, &event, 0) == LW_OK) {
    }
    BEGIN();
    assert_status(lw_events_next(read_inside, &event, 100), LW_ETIMEDOUT);
    assert_int_equal(PASSED(), 100);
    assert_status(lw_events_next(read_inside, &event, -1), LW_EDEADLOCK);
    return lw_done(ctx);
}

TEST(inside_a_handler_no_event_can_come_and_a_reader_is_told_so) {
    OPEN();
    handle(engine, "read", do_read, NULL);
    start(engine);
    assert_status(lw_events_open(engine, &read_inside, 0), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "read");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    lw_events_close(read_inside);
    close_all();
}

static lw_outcome do_wait(lw_ctx *ctx, const lw_task *task) {
    lw_id other = task->id + 1;
    BEGIN();
    assert_status(lw_wait(engine, other, 100, NULL), LW_PENDING);
    assert_int_equal(PASSED(), 100);
    assert_status(lw_wait(engine, other, -1, NULL), LW_EDEADLOCK);
    return lw_done(ctx);
}

TEST(inside_a_handler_nothing_else_can_run_and_a_wait_says_so) {
    OPEN();
    handle(engine, "wait", do_wait, NULL);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "wait");
    SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 2);
    close_all();
}

TEST(a_submit_that_waits_for_room_drives_the_engine_meanwhile) {
    lw_error err;
    OPEN(.task_limit = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    BEGIN();
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .submit_timeout_ms = 100), NULL, &err),
                  LW_ETIMEDOUT);
    assert_non_null(strstr(err.message, "no room"));
    assert_int_equal(PASSED(), 100);
    lw_id second = SUBMIT(engine, .kind = "unhandled");
    assert_int_equal(PASSED(), 1000);
    assert_int_equal(state_of(engine, first), LW_FINISHED);
    assert_int_equal(state_of(engine, second), LW_ENQUEUED);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, &err), LW_ETIMEDOUT);
    close_all();
}

/* ---- failures on order --------------------------------------------------------------------- */

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static lw_outcome do_run(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(failures_of_a_kind_that_nobody_knows_are_not_ordered_after_the_start) {
    OPEN();
    handle(engine, "mail", do_run, NULL);
    assert_status(lw_test_fail_next(engine, "early", 1, LW_OUTCOME_FAIL, "no"), LW_OK);
    start(engine);
    assert_status(lw_test_fail_next(engine, "mial", 1, LW_OUTCOME_FAIL, "no"), LW_ENOTFOUND);
    assert_status(lw_test_fail_next(engine, "mial", 0, LW_OUTCOME_FAIL, "no"), LW_ENOTFOUND);
    assert_status(lw_test_fail_next(engine, "no name", 1, LW_OUTCOME_FAIL, "no"), LW_EINVAL);
    assert_status(lw_test_fail_next(engine, "mail", 1, LW_OUTCOME_FAIL, "no"), LW_OK);
    assert_status(lw_test_fail_next(engine, "late", 1, LW_OUTCOME_FAIL, "no"), LW_ENOTFOUND);
    SUBMIT(engine, .kind = "late", .run = do_run);
    assert_status(lw_test_fail_next(engine, "late", 1, LW_OUTCOME_FAIL, "no"), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(tally_read(&runs), 0);
    close_all();
}

TEST(an_argument_that_no_function_has_had_is_dropped) {
    OPEN();
    start(engine);
    lw_id id = SUBMIT(engine, .run = do_run, .on_drop = count_drop);
    assert_status(lw_test_fail_next(engine, "call", 1, LW_OUTCOME_FAIL, "no"), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    assert_int_equal(tally_read(&drops), 1);
    SUBMIT(engine, .run = do_run, .on_drop = count_drop);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(tally_read(&runs), 1);
    close_all();
    assert_int_equal(tally_read(&drops), 1);
}
