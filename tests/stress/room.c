/* Waiting for room: nobody sleeps while there is some, and nobody who gives up takes a wake along.
 */
#include "stress_race.h"

#define PRODUCERS_MAX 6
#define SLIPS 8

/* ---- exactly as many as there is room for ------------------------------------------------- */

/* No task ends before all have been accepted, and just so many fit in: a submitter that is not
 * told of room that a worker has made waits for ever. */
static struct {
    lw_pool *pool;
    uint32_t count;
    struct counter accepted;
} crowd;

static void run_until_accepted(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    await_count(&crowd.accepted, crowd.count);
}

static void *submit_one(void *arg) {
    (void)arg;
    assert_status(lw_pool_submit(crowd.pool, run_until_accepted, NULL), LW_OK);
    count_up(&crowd.accepted);
    return NULL;
}

static void race_exact_room(void) {
    int workers = between(1, 3), limit = between(1, 2);
    struct actors actors = {.count = 0};
    crowd.count = (uint32_t)(workers + limit);
    crowd.pool = open_race_pool(LW_POOL_OPTIONS(.min_workers = workers, .queue_limit = limit,
                                                .spin_percent = any_spin_percent()));
    for (int rounds = between(1, 2); rounds > 0; rounds--) {
        atomic_store(&crowd.accepted.value, 0);
        for (uint32_t i = 1; i < crowd.count; i++)
            add_actor(&actors, submit_one, NULL);
        submit_one(NULL);
        join_actors(&actors);
        await_idle(crowd.pool);
    }
    stop_and_close(crowd.pool, LW_DRAIN);
}

TEST(no_submitter_sleeps_while_there_is_room) {
    run_races(1300, race_exact_room);
}

/* ---- those who give up -------------------------------------------------------------------- */

static struct {
    lw_pool *pool;
    lw_overflow overflow;
    _Atomic uint32_t next_producer;
    struct slip slips[PRODUCERS_MAX][SLIPS];
    struct counter leaving; /* producers that have ended; as many as there are cancellers … */
    lw_ctx *ctx;            /* … who end this one */
} race;

static void run_short(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    if (chance(10))
        dawdle(50);
}

static int submit_bounded(struct slip *slip) {
    lw_ticket ticket;
    slip->is_given = true;
    switch (dice(4)) {
    case 0:
        slip->status = lw_pool_submit_with(race.pool, run_short, slip,
                                           LW_SUBMIT_OPTIONS(.timeout_ms = 1), NULL);
        break;
    case 1:
        slip->status =
            lw_pool_submit_with(race.pool, run_short, slip,
                                LW_SUBMIT_OPTIONS(.ctx = race.ctx, .ticket = &ticket), NULL);
        break;
    case 2: slip->status = lw_pool_run(race.pool, run_short, slip); break;
    default: slip->status = lw_pool_submit(race.pool, run_short, slip); break;
    }
    return slip->status;
}

static void *produce(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_producer, 1)];
    for (int i = 0; i < SLIPS; i++) {
        int rc = submit_bounded(&slips[i]);
        CHECK(rc == LW_OK || rc == LW_ETIMEDOUT || rc == LW_ECANCELED);
    }
    return NULL;
}

static void *cancel(void *arg) {
    (void)arg;
    dawdle(200);
    assert_status(lw_ctx_cancel(race.ctx), LW_OK);
    return NULL;
}

static void race_give_up(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.overflow = chance(70) ? LW_BLOCK : LW_DROP_OLDEST;
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = between(1, 2), .max_workers = 2, .idle_ms = 1,
                                       .queue_limit = between(1, 3), .overflow = race.overflow,
                                       .on_drop = drop_slip, .spin_percent = any_spin_percent()));
    assert_status(lw_ctx_open(&race.ctx, LW_CTX_OPTIONS(.timeout_ms = between(1, 3)), NULL), LW_OK);
    for (int i = between(2, PRODUCERS_MAX) - 1; i > 0; i--)
        add_actor(&actors, produce, NULL);
    if (chance(50))
        add_actor(&actors, cancel, NULL);
    produce(NULL);
    join_actors(&actors); /* those without a limit of time get in, sooner or later */
    await_idle(race.pool);
    for (int i = 0; i < PRODUCERS_MAX * SLIPS; i++) {
        struct slip *slip = &race.slips[i / SLIPS][i % SLIPS];
        check_slip(slip);
        if (race.overflow == LW_BLOCK)
            CHECK(atomic_load(&slip->dropped) == 0);
    }
    lw_ctx_close(race.ctx);
    stop_and_close(race.pool, chance(50) ? LW_DRAIN : LW_DROP);
}

TEST(who_gives_up_waiting_takes_no_wake_along) {
    run_races(1000, race_give_up);
}
