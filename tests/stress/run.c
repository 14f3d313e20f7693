/* lw_pool_run: callers that wait for the end of their task, while the pool stops. */
#include "stress_race.h"

#define CALLERS_MAX 6
#define SLIPS 6

static struct {
    lw_pool *pool;
    _Atomic uint32_t next_caller;
    struct slip slips[CALLERS_MAX][SLIPS];
} race;

static void run_inner(lw_ctx *ctx, void *arg) {
    (void)ctx;
    *(int *)arg = 1;
}

static void run_outer(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    if (chance(20))
        dawdle(50);
    int has_run = 0;
    if (chance(20)) { /* inside a task it runs in place; a stop refuses it */
        int rc = lw_pool_run(race.pool, run_inner, &has_run);
        CHECK(rc == LW_OK ? has_run == 1 : rc == LW_ESTOPPING && has_run == 0);
    }
    if (chance(5))
        pthread_exit(NULL); /* the caller is told all the same */
}

static void *call(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_caller, 1)];
    for (int i = 0; i < SLIPS; i++) {
        int rc = lw_pool_run(race.pool, run_outer, &slips[i]);
        CHECK(rc == LW_OK || rc == LW_ECANCELED || rc == LW_ESTOPPING);
        CHECK(atomic_load(&slips[i].ran) == (rc == LW_OK));
        CHECK(atomic_load(&slips[i].dropped) == 0); /* it never changed hands */
    }
    return NULL;
}

static void race_calls(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = chance(20) ? LW_ZERO : between(1, 3),
                                       .max_workers = 3, .idle_ms = 1, .queue_limit = between(1, 4),
                                       .overflow = (lw_overflow)dice(4), .on_drop = drop_slip,
                                       .spin_percent = any_spin_percent()));
    for (int i = between(1, CALLERS_MAX); i > 0; i--)
        add_actor(&actors, call, NULL);
    dawdle(300);
    stop(race.pool, chance(70) ? LW_DROP : LW_DRAIN);
    join_actors(&actors);
    stop_and_close(race.pool, LW_DROP);
}

TEST(every_caller_is_told_what_became_of_its_task) {
    run_races(1500, race_calls);
}
