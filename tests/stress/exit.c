/* Tasks that end their thread, by pthread_exit or by being cancelled: the pool keeps its capacity
 * and loses nothing. */
#include "stress_race.h"

#define WORKERS_MAX 3
#define SLIPS 12

static struct {
    lw_pool *pool;
    uint32_t workers;
    struct counter arrived;
    _Atomic uint32_t next_producer;
    struct slip slips[2][SLIPS];
    bool is_stopped; /* by a stop that races with the producers */
} race;

static void run_and_maybe_exit(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    if (chance(10)) /* goes to the reserve, or to the queue: a new thread must find it there */
        submit_slip(race.pool, run_slip, (struct slip *)arg + SLIPS / 2);
    switch (dice(4)) {
    case 0: pthread_exit(NULL);
    case 1:
        if (chance(30)) {
            pthread_cancel(pthread_self());
            pthread_testcancel();
        }
        break;
    default: break;
    }
}

/* Only the first half is submitted from outside; each may submit one of the second half. */
static void *produce(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_producer, 1)];
    for (int i = 0; i < SLIPS / 2; i++)
        if (submit_slip(race.pool, run_and_maybe_exit, &slips[i]) == LW_ESTOPPING)
            break;
    return NULL;
}

/* As in wake.c: only if every worker has a thread do they all arrive. */
static void attend(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    count_up(&race.arrived);
    await_count(&race.arrived, race.workers);
}

static void race_exit(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.workers = (uint32_t)between(1, WORKERS_MAX);
    race.is_stopped = chance(40);
    lw_overflow overflow = chance(70) ? LW_BLOCK : LW_CALLER_RUNS; /* producers end too, then */
    race.pool = open_race_pool(
        LW_POOL_OPTIONS(.min_workers = (int)race.workers, .overflow = overflow,
                        .on_drop = drop_slip,
                        .queue_limit = between(overflow == LW_BLOCK ? 1 : WORKERS_MAX, 16),
                        .spin_percent = any_spin_percent()));
    add_actor(&actors, produce, NULL);
    if (chance(50))
        add_actor(&actors, produce, NULL);
    if (race.is_stopped) {
        dawdle(200);
        stop(race.pool, chance(50) ? LW_DRAIN : LW_DROP);
    }
    join_actors(&actors);
    await_idle(race.pool);
    if (!race.is_stopped) {
        for (uint32_t i = 0; i < race.workers; i++)
            assert_status(lw_pool_submit(race.pool, attend, NULL), LW_OK);
        await_idle(race.pool);
    }
    stop(race.pool, LW_DRAIN);
    for (int i = 0; i < 2 * SLIPS; i++)
        check_slip(&race.slips[i / SLIPS][i % SLIPS]);
    assert_status(lw_pool_close(race.pool), LW_OK);
}

TEST(a_task_that_ends_its_thread_costs_no_worker) {
    run_races(1200, race_exit);
}
