/* Very short tasks are run many at a time, and the clock is not read for each: what has a deadline,
 * or turns out to be slow, must not notice. */
#include "engines.h"

#include "engine/engine_internal.h"

#define ROUND 5000
#define ROUNDS_MAX 100
#define TIMEOUT_MS 600000
#define ENOUGH 1000

/* One worker runs one after the other: its own. */
static struct {
    uint64_t last_end; /* of the handler before */
    unsigned hurried, early;
    uint64_t slow_id, slow_began, slow_ended;
} seen;

static uint64_t clock_now(void) {
    return lw__now(lw__clock_system());
}

/* Makes it hurry in its next turn, however slow a sanitizer makes it. */
static const struct lw__hand *spur(const lw_ctx *ctx) {
    struct lw__hand *hand = ctx->owner;
    hand->mean_ns = 0;
    hand->streak = LW__HAND_STREAK;
    return hand;
}

static lw_engine *open_with(lw_handler run, const lw_handler_options *options) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "task", run, options);
    start(engine);
    return engine;
}

static void run_round(lw_engine *engine) {
    for (int i = 0; i < ROUND; i++)
        SUBMIT(engine, .kind = "task");
    assert_status(lw_wait_idle(engine, -1), LW_OK);
}

static lw_outcome do_look_at_deadline(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    uint64_t began = atomic_load(&ctx->deadline) - TIMEOUT_MS * LW__NS_PER_MS;
    seen.early += began < seen.last_end;
    seen.hurried += spur(ctx)->is_hurrying;
    seen.last_end = clock_now();
    return lw_done(ctx);
}

TEST(the_time_of_an_attempt_counts_from_its_own_begin) {
    lw_engine *engine =
        open_with(do_look_at_deadline, LW_HANDLER_OPTIONS(.timeout_ms = TIMEOUT_MS));
    for (int i = 0; i < ROUNDS_MAX && seen.hurried < ENOUGH; i++)
        run_round(engine);
    close_engine(engine);
    assert_true(seen.hurried >= ENOUGH);
    assert_int_equal(seen.early, 0);
}

static lw_outcome do_look_at_gear(lw_ctx *ctx, const lw_task *task) {
    struct lw__hand *hand = ctx->owner;
    (void)task;
    hand->mean_ns = 0;
    seen.hurried += hand->is_hurrying;
    return lw_done(ctx);
}

/* The token that has run the last task has ended, too. */
static void await_rest(lw_engine *engine) {
    lw_engine_stats stats;
    do
        assert_status(lw_get_stats(engine, &stats), LW_OK);
    while (stats.enqueued + stats.started > 0 || atomic_load(&engine->tokens) > 0);
}

/* A hand that hurries keeps its attention while it looks for more, and may lose its core by then:
 * tasks that come one by one are not worth that. */
TEST(a_hand_does_not_hurry_for_tasks_that_come_one_by_one) {
    lw_engine *engine = open_with(do_look_at_gear, NULL);
    for (int i = 0; i < 300; i++) {
        SUBMIT(engine, .kind = "task");
        await_rest(engine);
        for (uint64_t end = clock_now() + 30 * LW__NS_PER_US; clock_now() < end;)
            ;
    }
    close_engine(engine);
    assert_int_equal(seen.hurried, 0);
}

/* Three ticks of the scheduler have begun since: two looks at this hand are over. */
static void linger(const lw_engine *engine) {
    for (int ticks = 0; ticks < 3; ticks++) {
        uint64_t recent = atomic_load(&engine->recent);
        while (atomic_load(&engine->recent) == recent)
            sched_yield();
    }
}

static lw_outcome do_linger_once(lw_ctx *ctx, const lw_task *task) {
    const struct lw__hand *hand = spur(ctx);
    if (seen.slow_id == 0 && hand->is_hurrying) {
        seen.slow_id = task->id;
        seen.slow_began = clock_now();
        linger(hand->engine);
        seen.slow_ended = clock_now();
    }
    return lw_done(ctx);
}

TEST(a_slow_task_among_many_short_ones_shows_how_long_it_took) {
    lw_engine *engine = open_with(do_linger_once, LW_HANDLER_OPTIONS(.retention.finished_max = -1));
    lw_snapshot s = LW_SNAPSHOT_INIT;
    for (int i = 0; i < ROUNDS_MAX && seen.slow_id == 0; i++)
        run_round(engine);
    assert_status(lw_get(engine, seen.slow_id, &s), LW_OK);
    assert_true(s.started_ns <= seen.slow_began);
    assert_true(s.ended_ns >= seen.slow_ended);
    lw_snapshot_clear(&s);
    close_engine(engine);
}
