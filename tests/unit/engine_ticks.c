/* What the scheduler does between its looks at the time: it ticks, while somebody needs that. */
#include "engines.h"

#include "engine/engine_internal.h"

#include <sched.h>

#define LONG_MS 200000 /* only ever waited for when something is broken */

static struct tally reports = TALLY;

static void on_stuck(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    tally_add(&reports, 1);
}

/* Whether it stays the same for a while. Nobody but the scheduler could change it, and that may,
 * for what it has heard already, once or twice. */
static bool is_still_at_last(_Atomic uint32_t *call) {
    bool is_still = false;
    for (int i = 0; i < 5 && !is_still; i++) {
        uint32_t seen = atomic_load(call);
        for (int k = 0; k < 2000; k++)
            sched_yield();
        is_still = atomic_load(call) == seen;
    }
    return is_still;
}

/* A submitter that finds no worker to call asks for ticks, and so does the scheduler itself. It
 * used to take that for a call, at once, again and again. */
TEST(while_all_workers_are_stuck_the_scheduler_sleeps_between_its_ticks) {
    lw_clock *clock = open_clock();
    struct gate gate = GATE;
    lw_engine *engine =
        OPEN_ENGINE(.workers = 1, .stuck_max = LW_ZERO, .clock = clock, .on_stuck = on_stuck);
    handle(engine, "deaf", do_gate,
           LW_HANDLER_OPTIONS(.user = &gate, .timeout_ms = 5, .stuck_ms = 5));
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "deaf");
    tally_await(&gate.arrived, 1);
    for (int ms = 0; ms < 10; ms++) {
        await_sleepers(clock, 1);
        assert_status(lw_test_clock_advance(clock, 1), LW_OK);
    }
    tally_await(&reports, 1);
    lw_id last = 0;
    for (int i = 0; i < 100; i++)
        last = SUBMIT(engine, .kind = "mail");
    assert_true(is_still_at_last(&engine->call));
    gate_open(&gate);
    assert_status(lw_wait(engine, last, LONG_MS, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- room ---------------------------------------------------------------------------------- */

/* Makes the hand hurry in its next turn. */
static lw_outcome do_hurry(lw_ctx *ctx, const lw_task *task) {
    struct lw__hand *hand = ctx->owner;
    (void)task;
    hand->mean_ns = 0;
    hand->streak = LW__HAND_STREAK;
    return lw_done(ctx);
}

/* And leaves it something to do. */
static lw_outcome do_go_on(lw_ctx *ctx, const lw_task *task) {
    if (!lw_ctx_stopping(ctx))
        assert_status(lw_then(ctx, LW_TASK(.kind = task->kind), NULL), LW_OK);
    return do_hurry(ctx, task);
}

/* A hand that hurries offers room when half of it is free, and here that is never so. */
TEST(who_waits_for_room_gets_it_beside_hands_that_hurry_for_ever) {
    enum { LIMIT = 8, ROUNDS = 200 };
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = LIMIT, .overflow = LW_BLOCK,
                                    .submit_timeout_ms = LONG_MS);
    handle(engine, "chain", do_go_on, NULL);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    for (int i = 0; i < LIMIT - 2; i++)
        SUBMIT(engine, .kind = "mail", .delay_ms = 3600000);
    SUBMIT(engine, .kind = "chain");
    for (int i = 0; i < ROUNDS; i++)
        SUBMIT(engine, .kind = "mail");
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    close_engine(engine);
}

/* ---- memory -------------------------------------------------------------------------------- */

static bool is_all_free(struct lw__index *index) {
    lw__index_lock(index);
    bool is_free = !lw__index_has_retired(index);
    lw__index_unlock(index);
    return is_free;
}

/* A reader that stays through a burst keeps what leaves; afterwards nobody comes along any more. */
TEST(what_a_reader_has_kept_is_freed_when_all_is_idle) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "mail", do_hurry, LW_HANDLER_OPTIONS(.retention = {.finished_max = LW_ZERO}));
    start(engine);
    uint32_t ticket = lw__grace_enter(&engine->index->grace);
    for (int i = 0; i < 2000; i++)
        SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("ann@example.org"));
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    assert_false(is_all_free(engine->index));
    lw__grace_leave(&engine->index->grace, ticket);
    while (!is_all_free(engine->index))
        sched_yield();
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}
