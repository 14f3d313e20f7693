/* Cancelling by ticket while the task waits, starts, runs, ends, or is dropped. */
#include "stress_race.h"

#define SLIPS 12

struct ticketed {
    struct slip slip; /* first: the argument */
    _Atomic uint64_t ticket;
    _Atomic uint32_t reason; /* of its context, if it waited for its end */
};

static struct {
    lw_pool *pool;
    struct ticketed tasks[SLIPS];
    _Atomic uint32_t is_over; /* those that wait for their cancellation may go */
} race;

static void run_ticketed(lw_ctx *ctx, void *arg) {
    struct ticketed *task = arg;
    run_slip(ctx, arg);
    if (dice(3) > 0)
        return;
    while (!lw_ctx_done(ctx) && !atomic_load(&race.is_over))
        sched_yield();
    atomic_store(&task->reason, lw_ctx_reason(ctx));
}

static void *cancel_any(void *arg) {
    (void)arg;
    for (int i = 0; i < 2 * SLIPS; i++) {
        struct ticketed *task = &race.tasks[dice(SLIPS)];
        lw_ticket ticket = atomic_load(&task->ticket);
        if (ticket == 0)
            continue;
        int rc = lw_pool_cancel(race.pool, ticket);
        uint32_t ran = atomic_load(&task->slip.ran), dropped = atomic_load(&task->slip.dropped);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_ENOTFOUND);
        CHECK(rc != LW_OK || (dropped == 1 && ran == 0));
        CHECK(rc != LW_PENDING || dropped == 0);
        if (chance(20))
            dawdle(50);
    }
    return NULL;
}

static void *submit_all(void *arg) {
    (void)arg;
    for (int i = 0; i < SLIPS; i++) {
        struct ticketed *task = &race.tasks[i];
        lw_ticket ticket;
        task->slip.is_given = true;
        task->slip.status = lw_pool_submit_with(race.pool, run_ticketed, task,
                                                LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL);
        CHECK((task->slip.status == LW_OK) == (ticket != 0));
        atomic_store(&task->ticket, ticket);
    }
    return NULL;
}

static void check_tasks(void) {
    for (int i = 0; i < SLIPS; i++) {
        check_slip(&race.tasks[i].slip);
        lw_ticket ticket = atomic_load(&race.tasks[i].ticket);
        if (ticket != 0)
            assert_status(lw_pool_cancel(race.pool, ticket), LW_ENOTFOUND);
    }
}

static void race_cancel(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = between(1, 3), .queue_limit = between(1, 16),
                                       .on_drop = drop_slip, .overflow = (lw_overflow)dice(4),
                                       .spin_percent = any_spin_percent()));
    add_actor(&actors, cancel_any, NULL);
    if (chance(50))
        add_actor(&actors, cancel_any, NULL);
    if (chance(50)) { /* a stop races with both */
        add_actor(&actors, submit_all, NULL);
        dawdle(200);
        lw_pool_stop(race.pool, chance(60) ? LW_DROP : LW_DRAIN, 0);
    } else {
        if (chance(50))
            atomic_store(&race.is_over, 1);
        add_actor(&actors, submit_all, NULL);
        dawdle(200);
    }
    atomic_store(&race.is_over, 1);
    join_actors(&actors);
    await_idle(race.pool);
    stop(race.pool, LW_DRAIN);
    check_tasks();
    assert_status(lw_pool_close(race.pool), LW_OK);
}

TEST(a_cancelled_task_is_run_or_dropped_but_not_both) {
    run_races(1200, race_cancel);
}
