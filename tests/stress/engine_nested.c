/* Handlers that wait for children, for each other and for anything else, with few workers, places
 * and replacements: none of them waits for ever. */
#include "stress_engine.h"

#define KINDS 3
#define PRODUCERS 2
#define TASKS 6

static const char *const kinds[KINDS] = {"wide", "narrow", "two"};

static struct {
    lw_engine *engine;
    _Atomic lw_id last; /* a task that was submitted lately */
} race;

static int submit_level(int left, lw_id *id) {
    lw_task task = *LW_TASK(.kind = kinds[dice(KINDS)], .payload = {&left, sizeof left});
    int rc = lw_submit(race.engine, &task, id, NULL);
    CHECK(rc == LW_OK || rc == LW_EFULL || rc == LW_ESTOPPING);
    if (rc == LW_OK)
        atomic_store(&race.last, *id);
    return rc;
}

static lw_outcome run_level(lw_ctx *ctx, const lw_task *task) {
    int left = *(const int *)task->payload.data - 1;
    lw_id id = 0;
    for (int i = between(0, 2); left >= 0 && i > 0; i--) {
        if (chance(75) ? submit_level(left, &id) < 0 : (id = atomic_load(&race.last)) == 0)
            continue;
        if (chance(20))
            dawdle(20);
        int rc = lw_wait(race.engine, id, chance(15) ? between(0, 2) : -1, NULL);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_EDEADLOCK || rc == LW_ESTOPPING
              || rc == LW_ENOTFOUND);
    }
    if (chance(2))
        pthread_exit(NULL);
    return lw_done(ctx);
}

static void *produce(void *arg) {
    lw_id ids[TASKS] = {0};
    (void)arg;
    for (int i = 0; i < TASKS; i++)
        submit_level(between(0, 3), &ids[i]);
    for (int i = 0; i < TASKS; i++) {
        if (ids[i] > 0 && chance(10))
            lw_cancel(race.engine, ids[i]);
        int rc = ids[i] > 0 ? lw_wait(race.engine, ids[i], STRESS_HANG_MS, NULL) : LW_OK;
        CHECK(rc == LW_OK || rc == LW_ESTOPPING || rc == LW_ENOTFOUND);
    }
    return NULL;
}

static void *stop_early(void *arg) {
    (void)arg;
    dawdle(300);
    stop_engine(race.engine, chance(50) ? LW_DROP : LW_DRAIN);
    return NULL;
}

static void race_nested(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.engine =
        open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 3),
                                           .stuck_max = chance(30) ? LW_ZERO : between(1, 4)));
    for (int i = 0; i < KINDS; i++)
        lw_handle(race.engine, kinds[i], run_level,
                  LW_HANDLER_OPTIONS(.concurrency = i, .retry = {.crashes = LW_ZERO}), NULL);
    start_engine(race.engine);
    for (int i = 0; i < PRODUCERS; i++)
        add_actor(&actors, produce, NULL);
    if (chance(20))
        add_actor(&actors, stop_early, NULL);
    join_actors(&actors);
    stop_engine(race.engine, LW_DRAIN);
    assert_status(lw_close(race.engine), LW_OK);
}

TEST(nobody_waits_for_ever) {
    run_races(600, race_nested);
}
