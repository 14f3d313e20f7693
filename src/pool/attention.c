/* Attention: who will look at the queue, and therefore whom a submitter has to wake.
 *
 * Waking a sleeping thread costs the submitter 2 to 14 µs, a hundred times what the rest of a
 * submit costs. So the pool counts its attentive workers: those that will look at the queue before
 * they sleep or run something slow. A submitter that finds the count above zero goes on. Only at
 * zero, and if someone sleeps, it wakes one; the one that was woken wakes the next while there is
 * more.
 *
 * Whose attention counts? A worker that searches is attentive. One that is about to run a task
 * withdraws, because the task may take for ever. Where tasks are short (2 µs on average), though,
 * that would wake a second worker for what the first comes back to in a moment; measured with empty
 * tasks, it is the difference between 25 and several hundred ns a task. So a worker of short tasks
 * hurries: it takes batches and stays attentive while it runs them. What keeps this honest is the
 * monitor: every 2 ms it looks whether each hurrying worker has moved on; from one that has not it
 * revokes the attention, and hands what waits in its batch to others. That is the longest that a
 * task can wait behind an unexpectedly slow one while a worker sleeps.
 *
 * No wake-up is lost. Pushing ends, and giving or withdrawing attention is, a sequentially
 * consistent read-modify-write, and what is looked at next is read sequentially consistent:
 *     submitter: push; read attentive, idle.count      worker: attentive--, [idle.count++]; read
 * ring so either the submitter sees that nobody attends, or the worker sees the task.
 * models/park.pml checks exactly this; tests/stress tries it with pauses at every LW__POINT.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

/* Wakes the newest or the oldest sleeper, whose attention the caller has counted already. */
static bool wake_counted(lw_pool *pool, bool is_newest) {
    struct lw__lot *idle = &pool->idle;
    if (!(is_newest ? lw__lot_wake_newest(idle) : lw__lot_wake_oldest(idle)))
        return false;
    atomic_fetch_add_explicit(&pool->wakes, 1, memory_order_relaxed);
    return true;
}

void lw__attention_wake_first(lw_pool *pool) {
    while (lw__attention_is_missing(pool) && lw__pool_has_work(pool)) {
        uint32_t none = 0;
        if (!atomic_compare_exchange_strong(&pool->attentive, &none, 1))
            return; /* somebody else wakes, or came by itself */
        LW__POINT("wake: counted, not yet woken");
        if (wake_counted(pool, true))
            return;
        /* All of them are up already. Another submitter may have relied on our count meanwhile: so
         * look again after taking it back. */
        atomic_fetch_sub(&pool->attentive, 1);
    }
}

/* Wakes one more, whoever attends already. False: nobody sleeps. */
static bool wake_another(lw_pool *pool, bool is_newest) {
    atomic_fetch_add(&pool->attentive, 1);
    if (wake_counted(pool, is_newest))
        return true;
    LW__POINT("wake: counted, nobody sleeps");
    if (atomic_fetch_sub(&pool->attentive, 1) == 1) /* somebody may have relied on it: as above */
        lw__attention_wake_first(pool);
    return false;
}

/* Those who sleep now, and the oldest first: in a pool that drains, who is woken finds that another
 * one still runs, and sleeps again. Waking until nobody sleeps would go on as long as that one
 * runs.
 */
void lw__attention_wake_all(lw_pool *pool) {
    for (uint32_t n = lw__lot_count(&pool->idle); n > 0; n--)
        if (!wake_another(pool, false))
            return;
}

/* Counted first: the monitor may revoke it the moment that it shows. */
void lw__attention_give(struct lw__worker *w) {
    atomic_fetch_add(&w->runner.pool->attentive, 1);
    LW__POINT("give: counted, not shown");
    if (atomic_exchange(&w->is_attending, 1) == 1)
        atomic_fetch_sub(&w->runner.pool->attentive, 1);
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
    wake_another(pool, true);
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
    if (has_reason_to_stay_up(pool)) {
        if (lw__lot_leave(&pool->idle, &w->waiter))
            return lw__attention_give(w), true;
    } else {
        is_woken = lw__lot_wait(&pool->idle, &w->waiter, pool->set.clock, deadline);
    }
    if (is_woken)
        atomic_store(&w->is_attending, 1); /* whoever woke us has counted us */
    return is_woken;
}
