/* The four clocks of a task: soft and hard deadline of an attempt, start_by and finish_by. */
#include "engines.h"

#include <string.h>

#define LONG_MS 200000

static lw_snapshot look(lw_engine *engine, lw_id id) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    return s;
}

/* ---- soft ---------------------------------------------------------------------------------- */

static struct tally arrived = TALLY;

static lw_outcome do_until_done(lw_ctx *ctx, const lw_task *task) {
    tally_add(&arrived, 1);
    if (task->attempt > 1)
        return lw_done(ctx);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_TIMEOUT);
    assert_int_equal(lw_ctx_left_ms(ctx), 0);
    return lw_retry(ctx, "too slow");
}

TEST(an_attempt_that_gives_up_at_its_deadline_is_a_timeout) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "task", do_until_done,
           LW_HANDLER_OPTIONS(.timeout_ms = 5, .retry = {.min_ms = 1, .attempts = 1}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "task");
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    lw_snapshot s = look(engine, id);
    assert_int_equal(s.state, LW_FINISHED); /* it was charged to the crashes, not to the attempts */
    assert_int_equal(s.attempts, 2);
    assert_int_equal(s.crashes, 1);
    assert_int_equal(s.errors[0].fault, LW_FAULT_TIMEOUT);
    assert_string_equal(s.errors[0].text, "too slow");
    lw_snapshot_clear(&s);
    close_engine(engine);
}

static int64_t left_ms;

static lw_outcome do_left(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    left_ms = lw_ctx_left_ms(ctx);
    return lw_done(ctx);
}

TEST(a_handler_sees_how_long_it_has) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "task", do_left, LW_HANDLER_OPTIONS(.timeout_ms = 3000));
    handle(engine, "free", do_left, NULL);
    start(engine);
    SUBMIT(engine, .kind = "task");
    lw_test_run(engine);
    assert_int_equal(left_ms, 3000);
    SUBMIT(engine, .kind = "task", .finish_by_ms = 500);
    lw_test_run(engine);
    assert_int_equal(left_ms, 500);
    SUBMIT(engine, .kind = "free");
    lw_test_run(engine);
    assert_int_equal(left_ms, -1);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- hard ---------------------------------------------------------------------------------- */

static struct tally reports = TALLY;

static void on_stuck(void *user, const lw_snapshot *task) {
    (void)user;
    assert_int_equal(task->state, LW_STARTED);
    assert_true(task->is_stuck);
    tally_add(&reports, 1);
}

/* Deaf: it ends when the gate is opened and not before. */
static struct gate gate = GATE;

static lw_outcome do_deaf(lw_ctx *ctx, const lw_task *task) {
    if (task->attempt > 1)
        return lw_done(ctx);
    gate_pass(&gate);
    return task->payload.size > 0 ? lw_retry(ctx, "at last") : lw_done(ctx);
}

static lw_engine *open_stuck(int workers, int stuck_max) {
    lw_engine *engine =
        OPEN_ENGINE(.workers = workers, .stuck_max = stuck_max, .on_stuck = on_stuck);
    handle(engine, "deaf", do_deaf,
           LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = 1, .retry = {.min_ms = 1}));
    handle(engine, "mail", do_done, NULL);
    start(engine);
    return engine;
}

TEST(a_stuck_worker_is_replaced_and_its_task_goes_on_until_it_ends) {
    lw_engine *engine = open_stuck(1, 1);
    lw_id deaf = SUBMIT(engine, .kind = "deaf");
    tally_await(&reports, 1);
    for (int i = 0; i < 50; i++)
        assert_status(lw_wait(engine, SUBMIT(engine, .kind = "mail"), LONG_MS, NULL), LW_OK);
    lw_snapshot s = look(engine, deaf);
    assert_int_equal(s.state, LW_STARTED);
    assert_true(s.is_stuck);
    lw_snapshot_clear(&s);
    gate_open(&gate);
    assert_status(lw_wait(engine, deaf, LONG_MS, NULL), LW_OK);
    s = look(engine, deaf);
    assert_int_equal(s.state, LW_FINISHED); /* late, but done */
    assert_false(s.is_stuck);
    assert_int_equal(s.crashes, 0);
    lw_snapshot_clear(&s);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&reports), 1);
}

static void end_thread(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    tally_add(&reports, 1);
    pthread_exit(NULL);
}

TEST(on_stuck_may_end_its_thread_and_the_engine_still_knows_the_time) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .stuck_max = 4, .on_stuck = end_thread);
    handle(engine, "deaf", do_deaf, LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = 1));
    handle(engine, "mail", do_done, NULL);
    start(engine);
    for (int i = 1; i <= 3; i++) {
        SUBMIT(engine, .kind = "deaf");
        tally_await(&reports, i);
        lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 1);
        assert_status(lw_wait(engine, later, LONG_MS, NULL), LW_OK);
    }
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&reports), 3);
}

TEST(a_stuck_attempt_that_fails_in_the_end_is_charged_to_the_crashes) {
    lw_engine *engine = open_stuck(1, 1);
    lw_id deaf = SUBMIT(engine, .kind = "deaf", .payload = LW_TEXT("retry"));
    tally_await(&reports, 1);
    gate_open(&gate);
    assert_status(lw_wait(engine, deaf, LONG_MS, NULL), LW_OK);
    lw_snapshot s = look(engine, deaf);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.crashes, 1);
    assert_int_equal(s.errors[0].fault, LW_FAULT_STUCK);
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(when_all_are_stuck_tasks_wait_and_run_when_one_comes_back) {
    for (int round = 0; round < 20; round++) {
        gate = (struct gate)GATE;
        reports = (struct tally)TALLY;
        lw_engine *engine = open_stuck(2, LW_ZERO);
        lw_engine_stats stats;
        SUBMIT(engine, .kind = "deaf");
        SUBMIT(engine, .kind = "deaf");
        tally_await(&reports, 2);
        lw_id mail = SUBMIT(engine, .kind = "mail");
        assert_int_equal(state_of(engine, mail), LW_ENQUEUED);
        assert_status(lw_get_stats(engine, &stats), LW_OK);
        assert_int_equal(stats.stuck_total, 2);
        gate_open(&gate);
        assert_status(lw_wait(engine, mail, LONG_MS, NULL), LW_OK);
        assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
        close_engine(engine);
    }
}

TEST(after_many_that_were_stuck_there_are_as_many_workers_as_before) {
    lw_engine *engine = open_stuck(2, 2);
    for (int round = 1; round <= 5; round++) {
        gate = (struct gate)GATE;
        lw_id a = SUBMIT(engine, .kind = "deaf"), b = SUBMIT(engine, .kind = "deaf");
        tally_await(&reports, 2 * round);
        assert_status(lw_wait(engine, SUBMIT(engine, .kind = "mail"), LONG_MS, NULL), LW_OK);
        gate_open(&gate);
        assert_status(lw_wait(engine, a, LONG_MS, NULL), LW_OK);
        assert_status(lw_wait(engine, b, LONG_MS, NULL), LW_OK);
    }
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

TEST(a_kind_that_is_never_stuck_keeps_its_worker) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .clock = clock, .on_stuck = on_stuck);
    handle(engine, "gate", do_gate,
           LW_HANDLER_OPTIONS(.user = &gate, .timeout_ms = 10, .stuck_ms = -1,
                              .retry = {.crashes = LW_ZERO}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    advance(clock, 3600000);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, -1, NULL), LW_OK);
    assert_int_equal(tally_read(&reports), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- start_by, finish_by ------------------------------------------------------------------- */

static int snoozes_left;

static lw_outcome do_snooze(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return snoozes_left-- > 0 ? lw_snooze(ctx, 2000) : lw_done(ctx);
}

static lw_engine *open_driven(lw_clock *clock) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_done, NULL);
    handle(engine, "snooze", do_snooze, NULL);
    handle(engine, "again", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .factor = 1, .jitter_percent = LW_ZERO}));
    start(engine);
    return engine;
}

#define IN_2100 INT64_C(4102444800000)

TEST(what_has_not_started_in_time_is_aborted_in_whatever_it_waits) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    lw_id never = SUBMIT(engine, .kind = "unknown");
    lw_id enqueued = SUBMIT(engine, .kind = "unknown", .start_by_ms = 1000);
    lw_id delayed = SUBMIT(engine, .kind = "mail", .start_by_ms = 1000, .run_at_ms = IN_2100);
    lw_id held =
        SUBMIT(engine, .kind = "mail", .start_by_ms = 1000, .after = &never, .after_count = 1);
    lw_id fine = SUBMIT(engine, .kind = "mail", .start_by_ms = 1000, .delay_ms = 999);
    lw_test_advance(engine, 999);
    assert_int_equal(state_of(engine, enqueued), LW_ENQUEUED);
    assert_int_equal(state_of(engine, fine), LW_FINISHED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, enqueued), LW_ABORTED);
    assert_int_equal(state_of(engine, delayed), LW_ABORTED);
    assert_int_equal(state_of(engine, held), LW_ABORTED);
    assert_int_equal(state_of(engine, never), LW_ENQUEUED);
    lw_snapshot s = look(engine, enqueued);
    assert_non_null(strstr(s.last_error, "started"));
    lw_snapshot_clear(&s);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(workers_begin_nothing_whose_time_was_over_before_they_were_started) {
    enum { COUNT = 64 };
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .clock = clock);
    lw_id start_by[COUNT], finish_by[COUNT];
    handle(engine, "mail", do_done, NULL);
    for (int i = 0; i < COUNT; i++) {
        start_by[i] = SUBMIT(engine, .kind = "mail", .start_by_ms = 1000);
        finish_by[i] = SUBMIT(engine, .kind = "mail", .finish_by_ms = 1000);
    }
    lw_test_clock_advance(clock, 1000);
    start(engine);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(state_of(engine, start_by[i]), LW_ABORTED);
        assert_int_equal(state_of(engine, finish_by[i]), LW_ABORTED);
    }
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_task_that_has_started_once_has_started) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    snoozes_left = 1;
    lw_id snoozed = SUBMIT(engine, .kind = "snooze", .start_by_ms = 1000);
    lw_id retried = SUBMIT(engine, .kind = "again", .start_by_ms = 500);
    lw_test_advance(engine, 3000);
    assert_int_equal(state_of(engine, snoozed), LW_FINISHED);
    assert_int_equal(state_of(engine, retried), LW_SCHEDULED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(what_has_not_finished_in_time_is_ended) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    lw_id waiting = SUBMIT(engine, .kind = "unknown", .finish_by_ms = 3500);
    lw_id retried = SUBMIT(engine, .kind = "again", .finish_by_ms = 3500);
    lw_id fine = SUBMIT(engine, .kind = "mail", .finish_by_ms = 3500);
    lw_test_advance(engine, 3499);
    assert_int_equal(state_of(engine, waiting), LW_ENQUEUED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, waiting), LW_ABORTED);
    lw_snapshot s = look(engine, retried);
    assert_int_equal(s.state, LW_ABORTED);
    assert_true(s.attempts >= 3);
    lw_snapshot_clear(&s);
    assert_int_equal(state_of(engine, fine), LW_FINISHED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

ENGINE_TEST(what_would_be_retried_too_late_says_so_beside_the_error) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .clock = clock);
    handle(engine, "again", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 5000}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "again", .finish_by_ms = 3000);
    assert_int_equal(lw_test_run(engine), 1);
    lw_snapshot s = look(engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_int_equal(s.error_count, 2);
    assert_string_equal(s.errors[0].text, "again 1");
    assert_int_equal(s.errors[0].fault, LW_FAULT_ERROR);
    assert_string_equal(s.last_error,
                        "it cannot be finished in time: its next attempt would be too late");
    assert_int_equal(s.errors[1].fault, 0);
    assert_int_equal(s.errors[1].attempt, 1);
    lw_snapshot_clear(&s);
    close_engine(engine);
    lw_test_clock_close(clock);
}

static lw_outcome do_outlast(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX), LW_ECANCELED);
    return lw_retry(ctx, "interrupted");
}

TEST(what_gives_up_because_its_time_to_finish_is_over_says_so_beside_the_error) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "outlast", do_outlast, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "outlast", .finish_by_ms = 3000);
    assert_int_equal(lw_test_run(engine), 1);
    lw_snapshot s = look(engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.errors[0].text, "interrupted");
    assert_int_equal(s.errors[0].fault, LW_FAULT_TIMEOUT);
    assert_string_equal(s.last_error, "it was not finished in time");
    lw_snapshot_clear(&s);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_running_task_is_told_when_its_time_to_finish_is_over) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "task", do_until_done, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "task", .finish_by_ms = 5);
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    int state = (int)state_of(engine, id);
    assert_true(state == LW_ABORTED || state == LW_FAILED);
    close_engine(engine);
}

TEST(both_limits_hold_for_one_task) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    lw_id id = SUBMIT(engine, .kind = "again", .start_by_ms = 1000, .finish_by_ms = 5000);
    lw_test_advance(engine, 10000);
    lw_snapshot s = look(engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_in_range(s.attempts, 4, 5);
    lw_snapshot_clear(&s);
    close_engine(engine);
    lw_test_clock_close(clock);
}
