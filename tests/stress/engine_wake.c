/* No worker sleeps while something can be claimed or told. */
#include "stress_engine.h"

#define PRODUCERS_MAX 3
#define ROUNDS 12

static struct {
    lw_engine *engine;
    uint32_t wanted;
    struct counter ended, is_told, is_stuck, may_go;
} race;

static lw_outcome do_counted(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    count_up(&race.ended);
    return lw_done(ctx);
}

static lw_outcome do_dawdle(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    dawdle(100);
    return lw_done(ctx);
}

/* It ends only when all others have: those behind it must not wait for it. */
static lw_outcome do_block(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    await_count(&race.ended, race.wanted);
    return lw_done(ctx);
}

static lw_engine *open_engine_with(int workers) {
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = workers));
    const lw_retention none = {.finished_ms = LW_ZERO, .aborted_ms = LW_ZERO};
    const lw_handler_options *options =
        chance(50) ? LW_HANDLER_OPTIONS(.retention = none) : LW_HANDLER_OPTIONS(.user = NULL);
    lw_handle(race.engine, "short", do_short, options, NULL);
    lw_handle(race.engine, "dawdle", do_dawdle, options, NULL);
    lw_handle(race.engine, "counted", do_counted, options, NULL);
    lw_handle(race.engine, "block", do_block, options, NULL);
    return race.engine;
}

/* ---- one after the other ---------------------------------------------------------------- */

static void *submit_and_wait(void *arg) {
    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        lw_id id, last = 0;
        for (int k = between(1, 4); k > 0; k--) {
            const char *kind = chance(30) ? "dawdle" : "short";
            assert_status(lw_submit(race.engine, LW_TASK(.kind = kind), &id, NULL), LW_OK);
            last = id;
        }
        int rc = lw_wait(race.engine, last, STRESS_HANG_MS, NULL);
        CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
    }
    return NULL;
}

static void race_one_by_one(void) {
    struct actors actors = {.count = 0};
    start_engine(open_engine_with(between(1, 8)));
    for (int i = between(1, PRODUCERS_MAX); i > 0; i--)
        add_actor(&actors, submit_and_wait, NULL);
    join_actors(&actors);
    assert_status(lw_wait_idle(race.engine, STRESS_HANG_MS), LW_OK);
    stop_and_close_engine(race.engine, any_stop_mode());
}

TEST(what_is_submitted_is_run_whoever_sleeps) {
    run_races(300, race_one_by_one);
}

/* ---- behind a slow one ------------------------------------------------------------------ */

static void *submit_counted(void *arg) {
    uint32_t count = *(uint32_t *)arg;
    for (uint32_t i = 0; i < count; i++) {
        assert_status(lw_submit(race.engine, LW_TASK(.kind = "counted"), NULL, NULL), LW_OK);
        if (chance(2))
            dawdle(20);
    }
    return NULL;
}

/* Everything that is not the slow one has to end, with the other worker alone. */
static void race_behind_slow(void) {
    struct actors actors = {.count = 0};
    start_engine(open_engine_with(between(2, 4)));
    uint32_t before = (uint32_t)between(0, 300), after = (uint32_t)between(1, 40);
    race.wanted = before + after;
    if (chance(50)) {
        submit_counted(&before);
        lw_submit(race.engine, LW_TASK(.kind = "block"), NULL, NULL);
        submit_counted(&after);
    } else {
        add_actor(&actors, submit_counted, &before);
        add_actor(&actors, submit_counted, &after);
        dawdle(200);
        lw_submit(race.engine, LW_TASK(.kind = "block"), NULL, NULL);
    }
    join_actors(&actors);
    await_count(&race.ended, race.wanted);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(a_slow_task_holds_up_none_behind_it) {
    run_races(150, race_behind_slow);
}

/* The slow one is the last of a batch, and a few are left in the store. */
static void race_behind_last_of_batch(void) {
    const lw_task short_one = *LW_TASK(.kind = "counted"), slow = *LW_TASK(.kind = "block");
    const lw_task *tasks[200];
    start_engine(open_engine_with(2));
    uint32_t count = (uint32_t)between(64, 200), at = (uint32_t)dice(count);
    for (uint32_t i = 0; i < count; i++)
        tasks[i] = i == at ? &slow : &short_one;
    race.wanted = 200 + count - 1;
    uint32_t first = 200;
    submit_counted(&first);
    assert_status(lw_submit_many(race.engine, tasks, count, NULL, NULL), LW_OK);
    await_count(&race.ended, race.wanted);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(a_slow_last_task_of_a_batch_holds_up_none) {
    run_races(100, race_behind_last_of_batch);
}

/* ---- callbacks -------------------------------------------------------------------------- */

static void on_end_wait(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    count_up(&race.is_told);
    await_count(&race.ended, race.wanted);
}

static void race_behind_callback(void) {
    start_engine(open_engine_with(between(2, 3)));
    race.wanted = (uint32_t)between(1, 20);
    if (chance(50))
        make_hands_hurry(race.engine, "short", 300);
    if (chance(50)) { /* told by a worker that has run nothing */
        lw_id id;
        lw_submit(race.engine, LW_TASK(.kind = "short", .delay_ms = 60000, .on_end = on_end_wait),
                  &id, NULL);
        assert_status(lw_cancel(race.engine, id), LW_OK);
    } else {
        lw_submit(race.engine, LW_TASK(.kind = "short", .on_end = on_end_wait), NULL, NULL);
    }
    if (chance(70))
        await_count(&race.is_told, 1);
    submit_counted(&race.wanted);
    await_count(&race.ended, race.wanted);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(a_slow_callback_holds_up_no_task) {
    run_races(250, race_behind_callback);
}

static void on_end_told(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    count_up(&race.is_told);
}

static lw_outcome do_await_told(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    await_count(&race.is_told, race.wanted);
    return lw_done(ctx);
}

/* An end is told even if the worker that could has just taken a slow task. */
static void race_told_beside_slow(void) {
    lw_id ids[4];
    open_engine_with(between(2, 3));
    lw_handle(race.engine, "await", do_await_told, NULL, NULL);
    start_engine(race.engine);
    race.wanted = (uint32_t)between(1, 4);
    for (uint32_t i = 0; i < race.wanted; i++)
        lw_submit(race.engine, LW_TASK(.kind = "short", .delay_ms = 60000, .on_end = on_end_told),
                  &ids[i], NULL);
    if (chance(60))
        make_hands_hurry(race.engine, "short", between(1, 200));
    lw_submit(race.engine, LW_TASK(.kind = "await"), NULL, NULL);
    for (uint32_t i = 0; i < race.wanted; i++)
        lw_cancel(race.engine, ids[i]);
    await_count(&race.is_told, race.wanted);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(an_end_is_told_beside_a_slow_task) {
    run_races(300, race_told_beside_slow);
}

/* ---- stuck ------------------------------------------------------------------------------ */

static void on_stuck(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    count_up(&race.is_stuck);
}

/* Goes on past its deadlines until it is let go. */
static lw_outcome do_stick(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    await_count(&race.may_go, 1);
    return lw_done(ctx);
}

/* All workers are stuck and none is replaced: the first that comes back goes on with the rest. */
static void race_all_stuck(void) {
    struct actors actors = {.count = 0};
    uint32_t count = (uint32_t)between(1, 4), workers = (uint32_t)between(1, 2);
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = (int)workers, .on_stuck = on_stuck,
                                                     .stuck_max = chance(70) ? LW_ZERO : 1));
    lw_handle(race.engine, "stick", do_stick,
              LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = chance(50) ? LW_ZERO : 1), NULL);
    lw_handle(race.engine, "counted", do_counted, NULL, NULL);
    start_engine(race.engine);
    for (uint32_t i = 0; i < workers; i++)
        assert_status(lw_submit(race.engine, LW_TASK(.kind = "stick"), NULL, NULL), LW_OK);
    if (chance(80))
        await_count(&race.is_stuck, workers);
    add_actor(&actors, submit_counted, &count);
    if (chance(50))
        dawdle(50);
    count_up(&race.may_go);
    join_actors(&actors);
    await_count(&race.ended, count);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(when_all_were_stuck_whoever_returns_goes_on) {
    run_races(150, race_all_stuck);
}

/* An attempt ends just as it is declared stuck: its worker is neither lost nor counted twice. */
static lw_outcome do_end_near_deadline(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_ctx_sleep(ctx, 1000);
    if (chance(50))
        dawdle(50);
    count_up(&race.ended);
    return lw_done(ctx);
}

static void race_nearly_stuck(void) {
    int count = between(1, 4);
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 2)));
    lw_handle(race.engine, "near", do_end_near_deadline,
              LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = LW_ZERO), NULL);
    lw_handle(race.engine, "counted", do_counted, NULL, NULL);
    start_engine(race.engine);
    for (int i = 0; i < count; i++) {
        lw_submit(race.engine, LW_TASK(.kind = "near"), NULL, NULL);
        await_count(&race.ended, (uint32_t)(2 * i + 1));
        dawdle(100);
        lw_submit(race.engine, LW_TASK(.kind = "counted"), NULL, NULL);
        await_count(&race.ended, (uint32_t)(2 * i + 2));
    }
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(an_attempt_may_end_as_it_is_declared_stuck) {
    run_races(150, race_nearly_stuck);
}
