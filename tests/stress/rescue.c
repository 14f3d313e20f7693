/* Workers that hurry, and those that are stuck: what waits behind a slow task is rescued by the
 * monitor, run exactly once, and no worker is lost over it. */
#include "stress_race.h"

#include "pool/ctx.h"

#define WORKERS_MAX 3
#define SLIPS 400

static struct {
    lw_pool *pool;
    uint32_t workers;
    uint32_t count;
    struct counter arrived;
    struct slip slips[SLIPS];
} race;

static void pass_by(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
}

/* Ends only when every worker has come to such a task. */
static void attend(lw_ctx *ctx, void *arg) {
    keep_calm(false);
    if (arg)
        run_slip(ctx, arg);
    uint32_t round = count_up(&race.arrived) / race.workers;
    await_count(&race.arrived, (round + 1) * race.workers);
}

static void hold_meeting(void) {
    for (uint32_t i = 0; i < race.workers; i++)
        assert_status(lw_pool_submit(race.pool, attend, NULL), LW_OK);
    await_idle(race.pool);
}

static void check_slips(void) {
    for (int i = 0; i < SLIPS; i++)
        check_slip(&race.slips[i]);
}

/* ---- hurrying ----------------------------------------------------------------------------- */

/* Short tasks, so many that workers hurry, and among them a meeting: each worker that comes to it
 * sits there with the rest of its batch behind it, perhaps the very tasks that it waits for. */
static void submit_flood(void) {
    static lw_pool_task tasks[SLIPS];
    size_t accepted;
    race.count = (uint32_t)between(SLIPS / 2, SLIPS);
    for (uint32_t i = 0; i < race.count; i++) {
        tasks[i] = (lw_pool_task){pass_by, &race.slips[i]};
        race.slips[i].is_given = true;
    }
    for (uint32_t first = race.count / 2, i = 0; i < race.workers; i++)
        tasks[first + i * (uint32_t)between(1, 8)].fn = attend;
    uint32_t meetings = 0;
    for (uint32_t i = 0; i < race.count; i++)
        meetings += tasks[i].fn == attend;
    for (uint32_t i = 0; meetings % race.workers != 0; i++, meetings++) {
        CHECK(tasks[race.count - 1 - i].fn == pass_by);
        tasks[race.count - 1 - i].fn = attend;
    }
    assert_status(lw_pool_submit_many(race.pool, tasks, race.count, &accepted), LW_OK);
    CHECK(accepted == race.count);
}

static void race_hurry(void) {
    memset(&race, 0, sizeof race);
    race.workers = (uint32_t)between(1, WORKERS_MAX);
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = (int)race.workers, .queue_limit = SLIPS,
                                       .on_drop = drop_slip,
                                       .task_timeout_ms = chance(30) ? 10 * STRESS_HANG_MS : 0,
                                       .spin_percent = any_spin_percent()));
    keep_calm(chance(70)); /* until the first of the meeting: pauses are no short tasks */
    submit_flood();
    if (chance(30)) {
        keep_calm(false);
        dawdle(200);
        stop_and_close(race.pool, LW_DRAIN);
    } else {
        await_idle(race.pool);
        stop_and_close(race.pool, LW_DROP);
    }
    check_slips();
}

TEST(what_waits_behind_a_slow_task_is_run_by_others) {
    run_races(600, race_hurry);
}

/* The same with nobody to wait for, and a drop: what was taken in batches is not lost either. */
static void run_slowly_at_times(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    if (chance(1)) {
        keep_calm(false);
        lw_ctx_sleep(ctx, 3); /* longer than the monitor's tick */
    }
}

static void race_batches(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.workers = (uint32_t)between(1, WORKERS_MAX);
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = (int)race.workers, .queue_limit = SLIPS,
                                       .on_drop = drop_slip, .spin_percent = any_spin_percent()));
    keep_calm(chance(70));
    for (int i = 0; i < SLIPS; i++)
        submit_slip(race.pool, run_slowly_at_times, &race.slips[i]);
    if (chance(50))
        lw_pool_stop(race.pool, LW_DROP, 0);
    stop(race.pool, chance(50) ? LW_DROP : LW_DRAIN);
    join_actors(&actors);
    check_slips();
    assert_status(lw_pool_close(race.pool), LW_OK);
}

TEST(no_task_of_a_batch_is_lost_or_run_twice) {
    run_races(900, race_batches);
}

/* ---- stuck -------------------------------------------------------------------------------- */

/* Ends at the very moment at which it is declared stuck. */
static void run_until_stuck(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    while (!(atomic_load(&ctx->signal) & LW__SIGNAL_STUCK))
        sched_yield();
    if (chance(20))
        dawdle(100);
    if (chance(20))
        pthread_exit(NULL);
}

/* Is stuck until a task that was submitted after it has run: on the thread that replaces it. */
static void run_until_next(lw_ctx *ctx, void *arg) {
    struct slip *slip = arg;
    run_slip(ctx, arg);
    while (atomic_load(&slip[1].ran) == 0)
        dawdle(200);
}

static void race_stuck(void) {
    memset(&race, 0, sizeof race);
    race.workers = (uint32_t)between(1, 2);
    int stuck = between(1, 2) * 2;
    race.pool = open_race_pool(
        LW_POOL_OPTIONS(.min_workers = (int)race.workers, .task_timeout_ms = 1, .stuck_max = 4,
                        .on_drop = drop_slip, .spin_percent = any_spin_percent()));
    for (int i = 0; i < stuck; i++)
        submit_slip(race.pool, chance(60) || i % 2 ? run_until_stuck : run_until_next,
                    &race.slips[i]);
    await_idle(race.pool);
    hold_meeting(); /* the pool has kept its capacity */
    lw_pool_stats stats;
    assert_status(lw_pool_get_stats(race.pool, &stats), LW_OK);
    CHECK(stats.workers_peak <= race.workers + 4);
    stop_and_close(race.pool, chance(50) ? LW_DRAIN : LW_DROP);
    check_slips();
}

TEST(a_stuck_worker_is_replaced_and_taken_back) {
    run_races(300, race_stuck);
}
