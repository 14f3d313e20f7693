/* What an operator can do to tasks and queues. */
#include "engines.h"

#include <sched.h>
#include <stdatomic.h>

#define FOREVER (-1)

static struct gate gate = GATE;

static lw_engine *open_driven(lw_clock *clock) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .task_limit = 3);
    handle(engine, "mail", do_done, NULL);
    handle(engine, "fail", do_fail, NULL);
    start(engine);
    return engine;
}

static lw_id submit_failed(lw_engine *engine, const char *key) {
    lw_id id = SUBMIT(engine, .kind = "fail", .key = key);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    return id;
}

/* ---- cancel -------------------------------------------------------------------------------- */

TEST(a_waiting_task_is_cancelled_at_once) {
    lw_engine *engine = open_driven(NULL);
    lw_id enqueued = SUBMIT(engine, .kind = "mail");
    lw_id scheduled = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    lw_id created = SUBMIT(engine, .kind = "mail", .after = &scheduled, .after_count = 1);
    assert_status(lw_cancel(engine, created), LW_OK);
    assert_status(lw_cancel(engine, scheduled), LW_OK);
    assert_status(lw_cancel(engine, enqueued), LW_OK);
    assert_int_equal(state_of(engine, created), LW_ABORTED);
    assert_int_equal(state_of(engine, scheduled), LW_ABORTED);
    assert_int_equal(state_of(engine, enqueued), LW_ABORTED);
    assert_int_equal(lw_test_run(engine), 0);
    close_engine(engine);
}

TEST(what_is_not_there_or_has_ended_cannot_be_cancelled) {
    lw_engine *engine = open_driven(NULL);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_cancel(engine, id), LW_ENOTFOUND);
    assert_status(lw_cancel(engine, id + 1), LW_ENOTFOUND);
    assert_status(lw_cancel(engine, 0), LW_ENOTFOUND);
    assert_status(lw_cancel(NULL, id), LW_EINVAL);
    close_engine(engine);
}

TEST(a_running_task_is_asked_to_give_up) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "gate");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    tally_await(&gate.arrived, 1);
    assert_status(lw_cancel(engine, id), LW_PENDING);
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_true(s.is_cancelling);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, FOREVER, &s), LW_OK);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error, "gave up");
    lw_snapshot_clear(&s);
    close_engine(engine);
}

static void *submit_in_thread(void *engine) {
    SUBMIT(engine, .kind = "mail");
    return NULL;
}

TEST(a_cancelled_task_makes_room_for_a_blocked_submitter) {
    lw_clock *clock = open_clock();
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .task_limit = 1, .submit_timeout_ms = 1000);
    lw_id id = SUBMIT(engine, .kind = "mail");
    pthread_t thread = start_thread(submit_in_thread, engine);
    await_sleepers(clock, 1);
    assert_status(lw_cancel(engine, id), LW_OK);
    join_thread(thread);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- retry --------------------------------------------------------------------------------- */

TEST(a_failed_task_runs_again_with_a_fresh_budget) {
    lw_engine *engine = open_driven(NULL);
    lw_id id = submit_failed(engine, NULL);
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    assert_status(lw_retry_now(engine, id, NULL), LW_PENDING);
    assert_int_equal(lw_test_run(engine), 1);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FAILED);
    assert_int_equal(s.attempts, 1);
    assert_int_equal(s.error_count, 2);
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(a_scheduled_task_runs_now) {
    lw_engine *engine = open_driven(NULL);
    lw_id id = SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    assert_int_equal(lw_test_run(engine), 0);
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(a_refused_retry_says_why) {
    lw_engine *engine = open_driven(NULL);
    lw_error err = {0};
    lw_id failed = submit_failed(engine, NULL), finished = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_retry_now(engine, finished, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "has finished");
    assert_status(lw_retry_now(engine, finished, NULL), LW_EINVAL);
    assert_status(lw_retry_now(engine, 99, &err), LW_ENOTFOUND);
    assert_sentence(&err, LW_ENOTFOUND, "no task 99");
    assert_status(lw_retry_now(NULL, failed, &err), LW_EINVAL);
    assert_int_equal(err.status, LW_EINVAL);
    for (int i = 0; i < 3; i++)
        SUBMIT(engine, .kind = "mail");
    assert_status(lw_retry_now(engine, failed, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "room");
    assert_int_equal(lw_test_run(engine), 3);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    assert_status(lw_retry_now(engine, failed, &err), LW_ESTOPPING);
    assert_sentence(&err, LW_ESTOPPING, "stopping");
    close_engine(engine);
}

TEST(a_function_and_its_argument_are_not_retried) {
    lw_engine *engine = open_driven(NULL);
    lw_error err = {0};
    int arg;
    lw_id id = SUBMIT(engine, .run = do_fail, .arg = &arg);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_retry_now(engine, id, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "argument");
    close_engine(engine);
}

TEST(a_task_whose_key_was_taken_meanwhile_is_not_retried) {
    lw_engine *engine = open_driven(NULL);
    lw_error err = {0};
    lw_id first = submit_failed(engine, "ann");
    lw_id second = SUBMIT(engine, .kind = "fail", .key = "ann");
    assert_status(lw_retry_now(engine, first, &err), LW_EXISTS);
    assert_int_equal(err.status, 0); /* no failure */
    assert_status(lw_cancel(engine, second), LW_OK);
    assert_status(lw_retry_now(engine, first, &err), LW_OK);
    lw_id id = 0;
    assert_status(lw_submit(engine, LW_TASK(.kind = "fail", .key = "ann"), &id, NULL), LW_EXISTS);
    assert_int_equal(id, first);
    close_engine(engine);
}

TEST(many_are_retried_at_once_and_what_cannot_be_is_passed_over) {
    lw_engine *engine = open_driven(NULL);
    lw_id failed = submit_failed(engine, NULL), keyed = submit_failed(engine, "k");
    lw_id finished = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    lw_id scheduled = SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    const lw_id ids[] = {failed, 999, finished, keyed, failed, scheduled};
    size_t retried = 7;
    assert_status(lw_retry_many(engine, ids, 6, &retried), LW_OK);
    assert_int_equal(retried, 3);
    assert_int_equal(state_of(engine, failed), LW_ENQUEUED);
    assert_int_equal(state_of(engine, keyed), LW_ENQUEUED);
    assert_int_equal(state_of(engine, scheduled), LW_ENQUEUED);
    assert_int_equal(lw_test_run(engine), 3);
    assert_status(lw_retry_many(engine, ids, 1, NULL), LW_OK);
    assert_status(lw_retry_many(engine, NULL, 1, &retried), LW_EINVAL);
    assert_status(lw_retry_many(engine, ids, 0, NULL), LW_EINVAL);
    assert_status(lw_retry_many(engine, ids, LW_RETRY_MAX + 1, NULL), LW_EINVAL);
    assert_status(lw_retry_many(NULL, ids, 1, NULL), LW_EINVAL);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_OK);
    assert_status(lw_retry_many(engine, ids, 1, &retried), LW_ESTOPPING);
    assert_int_equal(retried, 0);
    close_engine(engine);
}

/* ---- forget -------------------------------------------------------------------------------- */

TEST(only_what_has_ended_is_forgotten) {
    lw_engine *engine = open_driven(NULL);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_forget(engine, id), LW_PENDING);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_forget(engine, id), LW_OK);
    assert_int_equal(state_of(engine, id), 0);
    assert_status(lw_forget(engine, id), LW_ENOTFOUND);
    assert_status(lw_forget(engine, 0), LW_ENOTFOUND);
    assert_status(lw_forget(NULL, id), LW_EINVAL);
    close_engine(engine);
}

/* ---- pause --------------------------------------------------------------------------------- */

TEST(a_paused_queue_accepts_and_starts_nothing) {
    lw_engine *engine = open_driven(NULL);
    lw_id before = SUBMIT(engine, .kind = "mail", .queue = "slow");
    assert_status(lw_pause(engine, "slow"), LW_OK);
    assert_status(lw_pause(engine, "slow"), LW_OK);
    lw_id after = SUBMIT(engine, .kind = "mail", .queue = "slow");
    lw_id other = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, other), LW_FINISHED);
    assert_int_equal(state_of(engine, before), LW_ENQUEUED);
    assert_status(lw_resume(engine, "slow"), LW_OK);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, after), LW_FINISHED);
    assert_status(lw_resume(engine, "slow"), LW_OK);
    close_engine(engine);
}

static struct {
    atomic_int begun;
    atomic_bool must_hold, is_held, is_released;
} held;

static lw_outcome do_hold(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    atomic_fetch_add(&held.begun, 1);
    if (atomic_load(&held.must_hold)) {
        atomic_store(&held.is_held, true);
        while (!atomic_load(&held.is_released))
            sched_yield();
    }
    return lw_done(ctx);
}

static bool is_nothing_started(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.started == 0;
}

/* The only worker is inside a short task, with others of its batch behind it. */
TEST(after_a_pause_has_returned_nothing_of_the_queue_starts) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "short", do_hold, NULL);
    start(engine);
    for (int round = 0; round < test_scale(20, 1000); round++) {
        atomic_store(&held.is_held, false);
        atomic_store(&held.is_released, false);
        int wanted = atomic_load(&held.begun) + 1500;
        for (int i = 0; i < 3000; i++)
            SUBMIT(engine, .kind = "short");
        await_that(atomic_load(&held.begun) >= wanted);
        atomic_store(&held.must_hold, true);
        SUBMIT(engine, .kind = "short"); /* in case all have been run */
        await_that(atomic_load(&held.is_held));
        assert_status(lw_pause(engine, "default"), LW_OK);
        int begun = atomic_load(&held.begun);
        atomic_store(&held.must_hold, false);
        atomic_store(&held.is_released, true);
        await_that(is_nothing_started(engine));
        assert_int_equal(atomic_load(&held.begun), begun);
        assert_status(lw_resume(engine, "default"), LW_OK);
        assert_status(lw_wait_idle(engine, FOREVER), LW_OK);
    }
    close_engine(engine);
}

TEST(a_queue_that_nobody_named_cannot_be_paused) {
    lw_engine *engine = open_driven(NULL);
    assert_status(lw_pause(engine, "slow"), LW_ENOTFOUND);
    assert_status(lw_resume(engine, "slow"), LW_ENOTFOUND);
    assert_status(lw_pause(engine, NULL), LW_EINVAL);
    assert_status(lw_resume(engine, NULL), LW_EINVAL);
    assert_status(lw_pause(NULL, "slow"), LW_EINVAL);
    assert_status(lw_resume(NULL, "slow"), LW_EINVAL);
    close_engine(engine);
}

TEST(a_resumed_queue_finds_a_worker) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_status(lw_pause(engine, "default"), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_wait(engine, id, 0, NULL), LW_PENDING);
    assert_status(lw_resume(engine, "default"), LW_OK);
    assert_status(lw_wait(engine, id, FOREVER, NULL), LW_OK);
    close_engine(engine);
}
