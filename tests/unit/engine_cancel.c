/* Cancelling while other things happen. (What lw_cancel returns is in engine_steer.c.) */
#include "engines.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define LONG_MS 200000

static struct tally arrived = TALLY;

/* Waits until its context is done, and then does what its payload says. */
static lw_outcome do_until_done(lw_ctx *ctx, const lw_task *task) {
    const char *how = task->payload.data;
    tally_add(&arrived, 1);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_CANCELLED);
    switch (how[0]) {
    case 'r': return lw_retry(ctx, "gave up");
    case 's': return lw_snooze(ctx, 1000);
    case 'f': return lw_fail(ctx, "broken");
    case 'x': pthread_exit(NULL);
    default: return lw_done(ctx);
    }
}

static void assert_ends(const char *how, lw_state state, const char *word) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    long before = tally_read(&arrived);
    handle(engine, "task", do_until_done, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "task", .payload = LW_TEXT(how));
    tally_await(&arrived, before + 1);
    assert_status(lw_cancel(engine, id), LW_PENDING);
    int rc = lw_cancel(engine, id); /* twice is fine */
    assert_true(rc == LW_PENDING || rc == LW_ENOTFOUND);
    assert_status(lw_wait(engine, id, LONG_MS, &s), LW_OK);
    assert_int_equal(s.state, state);
    assert_non_null(strstr(s.last_error, word));
    assert_false(s.is_cancelling);
    lw_snapshot_clear(&s);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

TEST(a_handler_that_gives_up_because_of_it_ends_aborted) {
    assert_ends("retry", LW_ABORTED, "gave up");
}

TEST(a_handler_that_snoozes_because_of_it_ends_aborted_and_says_why) {
    assert_ends("snooze", LW_ABORTED, "cancel");
}

TEST(a_handler_that_is_done_all_the_same_has_finished) {
    assert_ends("done", LW_FINISHED, "");
}

TEST(a_handler_that_fails_for_good_has_failed) {
    assert_ends("fail", LW_FAILED, "broken");
}

TEST(a_handler_that_ends_its_thread_because_of_it_ends_aborted) {
    assert_ends("x", LW_ABORTED, "");
}

static lw_outcome do_cancel_itself(lw_ctx *ctx, const lw_task *task) {
    assert_status(lw_cancel(lw_ctx_user(ctx), task->id), LW_PENDING);
    assert_true(lw_ctx_done(ctx));
    return lw_retry(ctx, "as I wished");
}

TEST(a_handler_may_cancel_its_own_task) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "task", do_cancel_itself, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "task");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    close_engine(engine);
}

TEST(what_was_cancelled_does_not_reach_the_next_attempt_of_another) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "task", do_cancel_itself, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "gate", do_done, NULL);
    start(engine);
    for (int i = 0; i < 10; i++) {
        SUBMIT(engine, .kind = "task");
        lw_id id = SUBMIT(engine, .kind = "gate");
        lw_test_run(engine);
        assert_int_equal(state_of(engine, id), LW_FINISHED);
    }
    close_engine(engine);
}

/* ---- against workers ----------------------------------------------------------------------- */

enum { TASKS = 4000 };

static _Atomic int ran[TASKS], dropped[TASKS];
static int slots[TASKS];

static lw_outcome do_slot(lw_ctx *ctx, const lw_task *task) {
    int slot = *(int *)task->arg;
    if (lw_ctx_done(ctx))
        return lw_retry(ctx, "gave up");
    atomic_fetch_add(&ran[slot], 1);
    return lw_done(ctx);
}

static void drop_slot(void *arg) {
    atomic_fetch_add(&dropped[*(int *)arg], 1);
}

static _Atomic lw_id newest;

static void *cancel_some(void *engine) {
    for (lw_id id = 1; id <= TASKS; id++) {
        while (atomic_load(&newest) < id)
            sched_yield();
        if (id % 2)
            lw_cancel(engine, id);
    }
    return NULL;
}

TEST(cancels_that_race_with_workers_lose_no_task_and_no_argument) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    lw_engine_stats stats;
    start(engine);
    pthread_t thread = start_thread(cancel_some, engine);
    for (int i = 0; i < TASKS; i++) {
        slots[i] = i;
        atomic_store(&newest,
                     SUBMIT(engine, .run = do_slot, .arg = &slots[i], .on_drop = drop_slot));
    }
    join_thread(thread);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.finished_total + stats.aborted_total, TASKS);
    close_engine(engine);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(ran[i] + dropped[i], 1);
}
