/* Attention: which worker will look at the queue, and so whether a submitter has to wake one.
 *
 * Waking a sleeping thread costs the submitter 2 to 14 µs, a hundred times what the rest of a
 * submit costs. So the pool counts its attentive workers: those that will look at the queue before
 * they sleep or run something slow. A submitter that finds the count above zero goes on. Only at
 * zero, and if a worker sleeps, it wakes one; the worker that was woken wakes the next while there
 * is more.
 *
 * Which workers count? A worker that searches is attentive. One that is about to run a task
 * withdraws, because the task may take for ever. Where tasks are short (2 µs on average), though,
 * that would wake a second worker for what the first comes back to in a moment; measured with empty
 * tasks, it is the difference between 25 and several hundred ns a task. So a worker of short tasks
 * hurries: it takes batches and stays attentive while it runs them. What keeps this honest is the
 * monitor: every 2 ms it looks whether each hurrying worker has moved on; from one that has not it
 * revokes the attention, and hands what waits in its batch to others. That is the longest that a
 * task can wait behind an unexpectedly slow one while a worker sleeps.
 *
 * Attention is backed by running. A worker that was woken will look, but only when the kernel has
 * given it a core, and beside busy neighbours that can take milliseconds; a worker that spins may
 * have lost its core just now. Such a worker is not counted. It is *expected*, up to a moment
 * (base/expect.h): a submitter that finds nobody attentive relies on it until then, and wakes
 * another worker afterwards. So a wake that went astray costs LW__EXPECT_NS, not a slice of the
 * scheduler. (With woken and spinning workers counted, a task took 3.3 ms to its start
 * beside two endless loops on two cores, where a mutex and a condition variable took 19 µs.)
 *
 * No wake-up is lost. Each of these steps is sequentially consistent:
 *     submitter                            worker
 *     push                                 attentive-- (or expect none), [idle.count++]
 *     read attentive, idle.count,          read the ring
 *     whether one is expected
 * Either the worker sees the task, or the submitter sees that nobody attends and that nobody is
 * expected, and wakes a sleeper. An expected worker first gives its attention, then takes the
 * expectation back, and then looks: a submitter that has relied on it had pushed before that look.
 * A submitter that expects a worker before it has found one to wake, and finds none, takes the
 * expectation back and looks again. models/park.pml checks exactly this; tests/stress tries it with
 * pauses at every LW__POINT.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

#include <sched.h>

/* Wakes the newest or the oldest sleeper. False: nobody sleeps. */
static bool wake_one(lw_pool *pool, bool is_newest) {
    struct lw__lot *idle = &pool->idle;
    atomic_store_explicit(&pool->waker_cpu, sched_getcpu(), memory_order_relaxed);
    if (!(is_newest ? lw__lot_wake_newest(idle) : lw__lot_wake_oldest(idle)))
        return false;
    atomic_fetch_add_explicit(&pool->wakes, 1, memory_order_relaxed);
    return true;
}

static bool is_overdue(lw_pool *pool) {
    return lw__expect_is_overdue(&pool->expected, lw__now(pool->set.clock));
}

/* Wakes a worker that is expected already. False: all of them are up. Another submitter may have
 * relied on the expectation meanwhile: so the caller looks again, now that it is taken back. */
static bool wake_expected(lw_pool *pool) {
    LW__POINT("wake: expected, not yet woken");
    if (wake_one(pool, true))
        return true;
    lw__expect_none(&pool->expected);
    return false;
}

void lw__attention_wake_first(lw_pool *pool) {
    while (lw__attention_is_missing(pool) && lw__pool_has_work(pool) && is_overdue(pool)) {
        if (wake_expected(pool))
            return;
    }
}

/* A pool that drains wakes all that sleep now, the oldest first: a woken worker that finds another
 * one still running sleeps again. Waking until nobody sleeps would go on as long as that one
 * runs. */
void lw__attention_wake_all(lw_pool *pool) {
    for (uint32_t n = lw__lot_count(&pool->idle); n > 0; n--)
        if (!wake_one(pool, false))
            return;
}

/* Counted first: the monitor may revoke it the moment that it shows. */
void lw__attention_give(struct lw__worker *w) {
    atomic_fetch_add(&w->runner.pool->attentive, 1);
    LW__POINT("give: counted, not shown");
    if (atomic_exchange(&w->is_attending, 1) == 1)
        atomic_fetch_sub(&w->runner.pool->attentive, 1);
}

void lw__attention_come_up(struct lw__worker *w) {
    lw__attention_give(w);
    LW__POINT("come up: attentive, still expected");
    lw__expect_none(&w->runner.pool->expected);
    /* The monitor may have come late to revoke what this worker gave before it slept; then it has
     * relied on the expectation that is now taken back, and has woken nobody. */
    if (atomic_load(&w->is_attending) == 0)
        lw__attention_give(w);
}

void lw__attention_spin(struct lw__worker *w, uint64_t until) {
    lw_pool *pool = w->runner.pool;
    lw__expect_until(&pool->expected, until);
    LW__POINT("spin: expected, still attentive");
    if (atomic_exchange(&w->is_attending, 0) == 1)
        atomic_fetch_sub(&pool->attentive, 1);
    LW__POINT("spin: expected, not attentive");
}

void lw__attention_withdraw(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    if (atomic_exchange(&w->is_attending, 0) == 0)
        return;
    if (atomic_fetch_sub(&pool->attentive, 1) == 1) {
        LW__POINT("withdraw: nobody attends");
        lw__attention_wake_first(pool);
    }
}

/* The backlog counts in time, not in tasks: a thousand empty tasks are done before a woken worker
 * has opened its eyes. */
void lw__attention_reinforce(struct lw__worker *w, uint32_t taken) {
    lw_pool *pool = w->runner.pool;
    bool is_all = taken < LW__BATCH_MAX && taken * w->mean_ns < LW__BATCH_NS / 2;
    if (is_all || lw__lot_count(&pool->idle) == 0)
        return; /* looking at the tail would take its cache line away from the submitters */
    uint64_t attentive = atomic_load_explicit(&pool->attentive, memory_order_relaxed);
    if (lw__ring_depth(&pool->ring) * w->mean_ns <= LW__WAKE_WORTH_NS * (attentive + 1))
        return;
    if (is_overdue(pool) && !wake_expected(pool))
        lw__attention_wake_first(pool);
}

static bool has_reason_to_stay_up(lw_pool *pool) {
    return lw__pool_has_work(pool) || lw__pool_may_end(pool);
}

bool lw__attention_sleep(struct lw__worker *w, uint64_t deadline) {
    lw_pool *pool = w->runner.pool;
    lw__lot_enter(&pool->idle, &w->waiter);
    LW__POINT("sleep: announced, still attentive");
    if (atomic_exchange(&w->is_attending, 0) == 1)
        atomic_fetch_sub(&pool->attentive, 1);
    LW__POINT("sleep: not attentive, not asleep");
    bool is_woken = true;
    if (has_reason_to_stay_up(pool))
        lw__lot_leave(&pool->idle, &w->waiter);
    else
        is_woken = lw__lot_wait(&pool->idle, &w->waiter, pool->set.clock, deadline);
    LW__POINT("sleep: over, not attentive");
    if (is_woken)
        lw__attention_come_up(w);
    return is_woken;
}
