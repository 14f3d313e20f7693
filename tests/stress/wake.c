/* Lost wake-ups: a worker that sleeps while work is queued.
 *
 * Waiting for tasks to be done finds few of them, because sooner or later another submit wakes
 * somebody. So here tasks wait for each other: as many as there are workers, each of which ends
 * only when all of them run. If one worker is not woken, they wait for ever.
 */
#include "stress_race.h"

#define WORKERS_MAX 4

/* ---- a meeting of all workers ------------------------------------------------------------ */

struct meeting {
    lw_pool *pool;
    uint32_t size;
    struct counter arrived; /* over all rounds */
    _Atomic uint32_t seats; /* not yet given to a producer */
};

static void attend(lw_ctx *ctx, void *arg) {
    struct meeting *m = arg;
    (void)ctx;
    uint32_t round = count_up(&m->arrived) / m->size;
    await_count(&m->arrived, (round + 1) * m->size);
}

static void pass_by(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
}

static bool take_seat(struct meeting *m) {
    uint32_t seats = atomic_load(&m->seats);
    while (seats > 0)
        if (atomic_compare_exchange_weak(&m->seats, &seats, seats - 1))
            return true;
    return false;
}

static void *invite(void *arg) {
    struct meeting *m = arg;
    while (take_seat(m)) {
        if (chance(20))
            dawdle(20);
        if (chance(10))
            assert_status(lw_pool_submit(m->pool, pass_by, NULL), LW_OK);
        assert_status(lw_pool_submit(m->pool, attend, m), LW_OK);
    }
    return NULL;
}

static void hold_meeting(struct meeting *m, int producers) {
    struct actors actors = {.count = 0};
    atomic_store(&m->seats, m->size);
    for (int i = 1; i < producers; i++)
        add_actor(&actors, invite, m);
    invite(m);
    join_actors(&actors);
    await_idle(m->pool);
}

static void race_meeting(void) {
    int workers = between(1, WORKERS_MAX), producers = between(1, 3);
    struct meeting m = {.size = (uint32_t)workers};
    m.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = workers, .spin_percent = any_spin_percent()));
    for (int rounds = between(1, 3); rounds > 0; rounds--)
        hold_meeting(&m, producers);
    stop_and_close(m.pool, chance(50) ? LW_DRAIN : LW_DROP);
}

TEST(no_worker_sleeps_while_work_is_queued) {
    run_races(2500, race_meeting);
}

/* ---- a meeting that is announced in one call, and one that a task invites to ------------- */

static void race_meeting_at_once(void) {
    int workers = between(2, WORKERS_MAX);
    struct meeting m = {.size = (uint32_t)workers};
    lw_pool_task tasks[2 * WORKERS_MAX];
    m.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = workers, .spin_percent = any_spin_percent()));
    for (int rounds = between(1, 4); rounds > 0; rounds--) {
        size_t count = 0, accepted;
        for (int i = 0; i < workers; i++) {
            if (chance(20))
                tasks[count++] = (lw_pool_task){pass_by, NULL};
            tasks[count++] = (lw_pool_task){attend, &m};
        }
        assert_status(lw_pool_submit_many(m.pool, tasks, count, &accepted), LW_OK);
        CHECK(accepted == count);
        if (chance(50))
            await_idle(m.pool);
    }
    stop_and_close(m.pool, LW_DRAIN);
}

TEST(a_burst_wakes_as_many_as_it_takes) {
    run_races(1500, race_meeting_at_once);
}

static void invite_all(lw_ctx *ctx, void *arg) {
    struct meeting *m = arg;
    for (uint32_t i = 1; i < m->size; i++)
        assert_status(lw_pool_submit(m->pool, attend, m), LW_OK);
    attend(ctx, arg);
}

static void race_meeting_from_inside(void) {
    int workers = between(2, WORKERS_MAX);
    struct meeting m = {.size = (uint32_t)workers};
    m.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = workers, .spin_percent = any_spin_percent()));
    for (int rounds = between(1, 3); rounds > 0; rounds--) {
        assert_status(lw_pool_submit(m.pool, invite_all, &m), LW_OK);
        await_idle(m.pool);
    }
    stop_and_close(m.pool, LW_DRAIN);
}

TEST(tasks_that_a_task_submits_wake_others) {
    run_races(1000, race_meeting_from_inside);
}

/* ---- workers that come and go ------------------------------------------------------------ */

#define SLIPS 12

struct crowd {
    lw_pool *pool;
    struct slip slips[4][SLIPS];
    _Atomic uint32_t next;
};

static void *submit_and_wait(void *arg) {
    struct crowd *crowd = arg;
    struct slip *slips = crowd->slips[atomic_fetch_add(&crowd->next, 1)];
    for (int i = 0; i < SLIPS; i++) {
        int rc = submit_slip(crowd->pool, run_slip, &slips[i]);
        CHECK(rc == LW_OK || rc == LW_EFULL);
        if (chance(30))
            await_idle(crowd->pool);
        else if (chance(30))
            dawdle(1000); /* long enough for a worker to quit */
    }
    return NULL;
}

static void race_dynamic(void) {
    int max = between(1, 3), producers = between(1, 3);
    struct crowd crowd = {.next = 0};
    struct actors actors = {.count = 0};
    lw_pool_stats stats;
    crowd.pool = open_race_pool(
        LW_POOL_OPTIONS(.min_workers = chance(70) ? LW_ZERO : 1, .max_workers = max,
                        .spin_percent = any_spin_percent(), .queue_limit = between(1, 3),
                        .idle_ms = chance(60) ? LW_ZERO : 1));
    for (int i = 1; i < producers; i++)
        add_actor(&actors, submit_and_wait, &crowd);
    submit_and_wait(&crowd);
    join_actors(&actors);
    await_idle(crowd.pool);
    assert_status(lw_pool_get_stats(crowd.pool, &stats), LW_OK);
    CHECK(stats.workers_peak <= (uint64_t)max);
    for (int i = 0; i < producers * SLIPS; i++) {
        check_slip(&crowd.slips[i / SLIPS][i % SLIPS]);
        CHECK(atomic_load(&crowd.slips[i / SLIPS][i % SLIPS].dropped) == 0);
    }
    stop_and_close(crowd.pool, chance(50) ? LW_DRAIN : LW_DROP);
}

TEST(workers_that_quit_leave_nothing_behind) {
    run_races(1000, race_dynamic);
}
