/* Stopping, and waiting until idle: whoever waits for the pool sleeps in the lot `quiet`. */
#include "pool/pool_internal.h"

#include <sched.h>

/* ---- idle --------------------------------------------------------------------------------------
 */

static uint64_t settled(lw_pool *pool) {
    uint64_t sum = atomic_load(&pool->settled_elsewhere);
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        sum += atomic_load(&pool->workers[i]->settled);
    lw__mutex_unlock(&pool->mu);
    return sum;
}

/* What was settled is read first, what was accepted last; both only grow and the former is never
 * more than the latter. So if they are equal they were at the first reading, and that was an idle
 * moment. */
static bool is_idle(lw_pool *pool) {
    uint64_t done = settled(pool);
    return atomic_load(&pool->guest_count) == 0 && done == lw__ring_accepted(&pool->ring);
}

void lw__pool_announce_quiet(lw_pool *pool) {
    if (lw__lot_count(&pool->quiet) > 0)
        lw__lot_wake_all(&pool->quiet);
}

/* Sleeps until `is_reached`; false: the deadline came first. */
static bool await(lw_pool *pool, bool (*is_reached)(lw_pool *), uint64_t deadline) {
    while (!is_reached(pool)) {
        struct lw__waiter me = {0};
        lw__lot_enter(&pool->quiet, &me);
        LW__POINT("quiet: announced, not looked");
        if (is_reached(pool))
            return lw__lot_leave(&pool->quiet, &me), true;
        if (!lw__lot_wait(&pool->quiet, &me, pool->set.clock, deadline))
            return is_reached(pool);
    }
    return true;
}

static int check_wait(const lw_pool *pool, int64_t timeout_ms) {
    if (!pool || timeout_ms < -1 || timeout_ms > LW_TIMEOUT_MS_MAX)
        return LW_EINVAL;
    return lw__pool_is_alive(pool) ? LW_OK : LW_EFORKED;
}

int lw_pool_wait_idle(lw_pool *pool, int64_t timeout_ms) {
    int rc = check_wait(pool, timeout_ms);
    if (rc < 0)
        return rc;
    if (lw__runner_is_inside(pool))
        return LW_EDEADLOCK;
    uint64_t deadline = lw__deadline_in(pool->set.clock, timeout_ms);
    return await(pool, is_idle, deadline) ? LW_OK : LW_ETIMEDOUT;
}

/* It may have been the last that workers and callers of wait_idle waited for. */
void lw__pool_settle_elsewhere(lw_pool *pool, uint32_t count) {
    atomic_fetch_add(&pool->settled_elsewhere, count);
    lw__pool_announce_quiet(pool);
    if (lw__pool_stop_mode(pool) != LW__OPEN)
        lw__attention_wake_all(pool);
}

/* What a worker may end for. In a drain everything must have ended, not just been taken: a task
 * that runs may wait for one that is still in its worker's own batch, and somebody must be there to
 * run it. */
bool lw__pool_may_end(lw_pool *pool) {
    switch (lw__pool_stop_mode(pool)) {
    case LW__OPEN: return false;
    case LW__DRAINING: return settled(pool) == lw__ring_accepted(&pool->ring);
    default: return lw__pool_is_drained(pool);
    }
}

/* ---- stop --------------------------------------------------------------------------------------
 */

bool lw__pool_has_ended_locked(lw_pool *pool) {
    bool is_monitor_in_the_way = pool->is_abandoned && pool->is_monitor_running;
    return pool->threads == 0 && atomic_load(&pool->guest_count) == 0 && !is_monitor_in_the_way;
}

static bool has_ended(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    bool has = lw__pool_has_ended_locked(pool);
    lw__mutex_unlock(&pool->mu);
    return has;
}

/* Whether no task runs nor will: what is left are threads on their way out. */
static bool has_only_to_leave(lw_pool *pool) {
    if (lw__pool_stop_mode(pool) != LW__DROPPING)
        return is_idle(pool);
    bool is_any_running = atomic_load(&pool->guest_count) > 0;
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        is_any_running |= !(atomic_load(&pool->workers[i]->runner.ctx.signal) & LW__SIGNAL_IDLE);
    lw__mutex_unlock(&pool->mu);
    return !is_any_running;
}

/* What workers have taken and not begun counts as queued too. False: there was nothing. */
static bool recall_batches(lw_pool *pool) {
    bool is_any = false;
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        is_any |= lw__batch_orphan(pool, &pool->workers[i]->batch);
    lw__mutex_unlock(&pool->mu);
    return is_any;
}

/* Until the ring is empty: a submitter that was accepted before the bar fell may still be putting
 * its task. Workers that are in between help, since whatever they take now they drop too. In a
 * child that was forked inside an on_drop nothing is touched any more. */
static void drop_queued(lw_pool *pool) {
    struct lw__ring_item items[LW__BATCH_MAX];
    while (lw__pool_is_alive(pool) && !lw__pool_is_drained(pool)) {
        uint64_t position;
        uint32_t n = lw__batch_adopt(pool, NULL, items, LW__BATCH_MAX);
        if (n == 0)
            n = lw__ring_pop(&pool->ring, items, LW__BATCH_MAX, &position);
        for (uint32_t i = 0; i < n; i++)
            lw__pool_drop(pool, items[i]);
        if (!lw__pool_is_alive(pool))
            return;
        lw__pool_settle_elsewhere(pool, n);
        if (n == 0)
            sched_yield();
    }
}

/* An on_drop that stops the pool leaves the rest to this loop, or each would be called inside the
 * one before it. */
static void drop_backlog(lw_pool *pool) {
    struct lw__runner self = {.pool = pool, .index = LW__GUEST, .is_dropping = true};
    if (lw__runner_is_dropping(pool))
        return;
    lw__runner_adopt_thread(&self);
    do
        drop_queued(pool);
    while (lw__pool_is_alive(pool) && (recall_batches(pool) || !lw__pool_is_drained(pool)));
    lw__runner_release_thread(&self);
}

void lw__pool_begin_stop(lw_pool *pool, lw_stop_mode mode) {
    uint32_t wanted = mode == LW_DROP ? LW__DROPPING : LW__DRAINING;
    /* The ring first: a worker that sees the mode and an empty ring leaves, so nothing may come
     * after. */
    lw__ring_bar(&pool->ring, LW__RING_CLOSED);
    LW__POINT("stop: ring closed, mode not set");
    uint32_t current = atomic_load(&pool->stop_mode);
    while (current < wanted && !atomic_compare_exchange_weak(&pool->stop_mode, &current, wanted))
        ;
    LW__POINT("stop: mode set");
    lw__lot_wake_all(&pool->room);
    recall_batches(pool); /* or they would be forgotten behind a slow task until that ends */
    if (mode == LW_DROP) {
        lw__runner_end_all(pool, LW_REASON_DROPPED);
        drop_backlog(pool);
        if (!lw__pool_is_alive(pool))
            return;
        lw__pool_announce_quiet(pool); /* the last worker may have left before the last drop */
    } else if (!lw__pool_is_drained(pool)) {
        lw__crew_man(pool); /* the last worker may have been lost when there was no thread */
    }
    lw__attention_wake_all(pool);
}

static void end_drain(lw_pool *pool) {
    atomic_store(&pool->birth_reason, LW_REASON_STOP); /* for those that start from now on */
    lw__runner_end_all(pool, LW_REASON_STOP);
}

uint64_t lw__pool_watch_stop(lw_pool *pool, uint64_t now) {
    uint64_t deadline = atomic_load(&pool->stop_deadline);
    if (deadline > now)
        return deadline;
    if (atomic_exchange(&pool->stop_deadline, LW__NEVER) != LW__NEVER)
        end_drain(pool);
    return LW__NEVER;
}

/* Nobody waits for it here: the monitor looks at the time instead. The earliest deadline counts, as
 * it does of stops that wait. Without a thread for the monitor it is over at once. */
static int leave_to_monitor(lw_pool *pool, uint64_t deadline) {
    uint64_t seen = atomic_load(&pool->stop_deadline);
    if (deadline <= lw__now(pool->set.clock)
        || (deadline != LW__NEVER && !lw__monitor_start(pool))) {
        end_drain(pool);
        return LW_PENDING;
    }
    while (deadline < seen && !atomic_compare_exchange_weak(&pool->stop_deadline, &seen, deadline))
        ;
    lw__monitor_rouse(pool);
    return LW_PENDING;
}

int lw_pool_stop(lw_pool *pool, lw_stop_mode mode, int64_t timeout_ms) {
    int rc = mode == LW_DRAIN || mode == LW_DROP ? check_wait(pool, timeout_ms) : LW_EINVAL;
    if (rc < 0)
        return rc;
    uint64_t deadline = lw__deadline_in(pool->set.clock, timeout_ms);
    lw__pool_begin_stop(pool, mode);
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    if (lw__runner_is_inside(pool))
        return lw__pool_stop_mode(pool) == LW__DRAINING ? leave_to_monitor(pool, deadline)
                                                        : LW_PENDING;
    if (await(pool, has_ended, deadline)
        || (has_only_to_leave(pool) && await(pool, has_ended, LW__NEVER))) {
        drop_backlog(pool); /* nothing, unless nobody was left to drain it */
        return LW_OK;
    }
    if (mode == LW_DRAIN)
        end_drain(pool);
    lw__mutex_lock(&pool->mu);
    pool->has_timed_out = true;
    lw__mutex_unlock(&pool->mu);
    return LW_ETIMEDOUT;
}

/* ---- close -------------------------------------------------------------------------------------
 */

static bool has_no_callers(lw_pool *pool) {
    lw__mutex_lock(&pool->mu); /* whoever leaves does so under it, and is gone when it is free */
    bool has = atomic_load(&pool->slow_callers) == 0;
    lw__mutex_unlock(&pool->mu);
    return has;
}

/* Leaves the pool to those that are still in it. False: nobody is. */
static bool abandon(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    pool->is_abandoned = true;
    bool is_anybody_left = !lw__pool_has_ended_locked(pool);
    lw__mutex_unlock(&pool->mu);
    return is_anybody_left;
}

int lw_pool_close(lw_pool *pool) {
    if (!pool)
        return LW_OK;
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    bool is_inside = lw__runner_is_inside(pool);
    lw__mutex_lock(&pool->mu);
    bool must_wait = !is_inside && !pool->has_timed_out;
    lw__mutex_unlock(&pool->mu);
    if (must_wait)
        lw_pool_stop(pool, LW_DROP, -1);
    else
        lw__pool_begin_stop(pool, LW_DROP);
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    if (!is_inside && has_only_to_leave(pool))
        await(pool, has_ended, LW__NEVER);
    await(pool, has_no_callers, LW__NEVER);
    lw__monitor_stop(pool);
    if (abandon(pool)) /* the caller may be the monitor itself */
        return LW_PENDING;
    lw__pool_free(pool);
    return LW_OK;
}
