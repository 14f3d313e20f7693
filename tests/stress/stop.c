/* Stopping while others submit: whatever was accepted is run or dropped, exactly once; whatever was
 * refused is neither; after a drop has returned nothing starts. */
#include "stress_race.h"

#define PRODUCERS_MAX 3
#define SLIPS 16
#define RUNNING_MAX 16

static struct {
    lw_pool *pool;
    lw_overflow overflow;
    _Atomic uint32_t next_producer;
    _Atomic uint32_t has_dropped; /* a drop has returned, and what ran then is listed */
    _Atomic uint32_t started_late;
    void *running[RUNNING_MAX]; /* the arguments that were running when it had */
    int running_count;
    bool is_drop; /* some stop of this race is an LW_DROP */
    struct slip slips[PRODUCERS_MAX][SLIPS];
} race;

/* A drop that did not wait lists what runs; it may be between being listed and its first line. */
static bool was_running(const void *arg) {
    for (int i = 0; i < race.running_count; i++)
        if (race.running[i] == arg)
            return true;
    return false;
}

static void run_in_race(lw_ctx *ctx, void *arg) {
    if (atomic_load(&race.has_dropped) && !was_running(arg))
        atomic_fetch_add(&race.started_late, 1);
    run_slip(ctx, arg);
    if (chance(10))
        dawdle(50);
    if (chance(2))
        assert_status(lw_pool_stop(race.pool, race.is_drop ? LW_DROP : LW_DRAIN, 0), LW_PENDING);
}

/* Takes its time, so that a worker may be gone before the last one is dropped. */
static void drop_in_race(void *arg) {
    drop_slip(arg);
    if (chance(20))
        dawdle(100);
}

static void *produce(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_producer, 1)];
    for (int i = 0; i < SLIPS; i++) {
        if (submit_slip(race.pool, run_in_race, &slips[i]) == LW_ESTOPPING)
            break;
        if (chance(10))
            dawdle(50);
    }
    return NULL;
}

static void *produce_at_once(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_producer, 1)];
    lw_pool_task tasks[SLIPS];
    size_t accepted;
    for (int i = 0; i < SLIPS; i++)
        tasks[i] = (lw_pool_task){run_in_race, &slips[i]};
    int rc = lw_pool_submit_many(race.pool, tasks, SLIPS, &accepted);
    for (size_t i = 0; i < SLIPS; i++) {
        slips[i].is_given = true;
        slips[i].status = i < accepted ? LW_OK : rc;
    }
    return NULL;
}

static void note_what_runs(void) {
    lw_pool_run_info info[RUNNING_MAX];
    race.running_count = lw_pool_running(race.pool, info, RUNNING_MAX);
    CHECK(race.running_count <= RUNNING_MAX);
    for (int i = 0; i < race.running_count; i++)
        race.running[i] = info[i].arg;
}

static void *stop_somehow(void *arg) {
    (void)arg;
    static const int64_t timeouts[] = {0, 1, STRESS_HANG_MS, -1};
    dawdle(200);
    lw_stop_mode mode = race.is_drop && chance(60) ? LW_DROP : LW_DRAIN;
    int rc = lw_pool_stop(race.pool, mode, timeouts[dice(4)]);
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    return NULL;
}

static void *stop_by_dropping(void *arg) {
    (void)arg;
    dawdle(200);
    int rc = lw_pool_stop(race.pool, LW_DROP, chance(70) ? 0 : -1);
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    if (rc == LW_ETIMEDOUT)
        note_what_runs();
    atomic_store(&race.has_dropped, 1);
    return NULL;
}

static void *watch_idle(void *arg) {
    (void)arg;
    dawdle(200);
    await_idle(race.pool);
    return NULL;
}

static void check_slips(void) {
    for (int i = 0; i < PRODUCERS_MAX * SLIPS; i++) {
        struct slip *slip = &race.slips[i / SLIPS][i % SLIPS];
        check_slip(slip);
        if (!race.is_drop && race.overflow != LW_DROP_OLDEST)
            CHECK(atomic_load(&slip->dropped) == 0);
    }
    CHECK(atomic_load(&race.started_late) == 0);
}

static void race_stop(void) {
    struct actors actors = {.count = 0};
    static const int limits[] = {1, 2, 3, 8, 64};
    memset(&race, 0, sizeof race);
    race.is_drop = chance(50);
    race.overflow = (lw_overflow)dice(4);
    race.pool = open_race_pool(
        LW_POOL_OPTIONS(.min_workers = chance(20) ? LW_ZERO : between(1, 3), .max_workers = 3,
                        .idle_ms = chance(30) ? LW_ZERO : 1, .queue_limit = limits[dice(5)],
                        .overflow = race.overflow, .on_drop = drop_in_race,
                        .spin_percent = any_spin_percent()));
    for (int i = between(1, PRODUCERS_MAX); i > 0; i--)
        add_actor(&actors, chance(25) ? produce_at_once : produce, NULL);
    if (chance(30))
        add_actor(&actors, watch_idle, NULL);
    if (race.is_drop && chance(70))
        add_actor(&actors, stop_by_dropping, NULL);
    if (chance(30))
        add_actor(&actors, stop_somehow, NULL);
    stop_somehow(NULL);
    join_actors(&actors);
    /* Everything that a drain has accepted was run by its end, not only by the close. */
    stop(race.pool, race.is_drop ? LW_DROP : LW_DRAIN);
    check_slips();
    assert_status(lw_pool_close(race.pool), LW_OK);
    check_slips();
}

TEST(what_was_accepted_is_run_or_dropped_exactly_once) {
    run_races(3500, race_stop);
}

/* ---- the deadline of a drain ------------------------------------------------------------- */

/* Ends only because its context does. */
static void run_until_done(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    assert_status(lw_ctx_sleep(ctx, 10 * STRESS_HANG_MS), LW_ECANCELED);
    CHECK(lw_ctx_reason(ctx) == LW_REASON_STOP || lw_ctx_reason(ctx) == LW_REASON_DROPPED);
}

static void *produce_endless(void *arg) {
    (void)arg;
    struct slip *slips = race.slips[atomic_fetch_add(&race.next_producer, 1)];
    for (int i = 0; i < SLIPS; i++)
        if (submit_slip(race.pool, run_until_done, &slips[i]) == LW_ESTOPPING)
            break;
    return NULL;
}

static void race_drain_deadline(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.pool = open_race_pool(LW_POOL_OPTIONS(.min_workers = between(1, 3), .on_drop = drop_slip,
                                               .spin_percent = any_spin_percent()));
    for (int i = between(1, PRODUCERS_MAX); i > 0; i--)
        add_actor(&actors, produce_endless, NULL);
    if (chance(50))
        dawdle(200);
    int rc = lw_pool_stop(race.pool, LW_DRAIN, 0);
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    if (rc == LW_ETIMEDOUT && chance(80)) /* what ran is done, what starts later begins that way */
        stop(race.pool, LW_DRAIN);
    join_actors(&actors);
    stop_and_close(race.pool, LW_DRAIN);
    check_slips();
}

TEST(after_the_deadline_of_a_drain_no_context_stays_open) {
    run_races(1500, race_drain_deadline);
}
