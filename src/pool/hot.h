/* The few functions that every short task passes, inline: together they cost about as much as the
 * one atomic increment of an empty task, 9 of 20 ns a task on the worker's side; as calls they
 * were 11.
 */
#ifndef LW_POOL_HOT_H
#define LW_POOL_HOT_H

#include "base/futex.h"
#include "pool/pool_internal.h"

/* Where there is a guard the monitor may be declaring this task stuck just now: the exchange
 * decides which of the two was first. */
static inline uint64_t lw__runner_end(struct lw__runner *r) {
    uint64_t idle = r->number << LW__SIGNAL_SHIFT | LW__SIGNAL_IDLE, last = 0;
    if (r->pool->is_guarded)
        last = atomic_exchange(&r->ctx.signal, idle);
    else
        atomic_store_explicit(&r->ctx.signal, idle, memory_order_release);
    if (LW__UNLIKELY(atomic_load_explicit(&r->ctx.has_fd_out, memory_order_relaxed)))
        lw__ctx_recall_fd(&r->ctx);
    return last;
}

/* The order matters to three readers. lw_pool_running wants fn and arg to belong to the number:
 * they are written while the signal says idle. A stop wants that a task either shows in
 * the signal or sees the stop: it passes lw__barrier_everywhere between setting the mode and
 * reading the signals, and so this side needs no fence. The monitor wants `started` before the
 * number. */
static inline bool lw__runner_begin(struct lw__runner *r, lw_pool_fn fn, void *arg,
                                    uint64_t started) {
    lw_pool *pool = r->pool;
    uint64_t number = ++r->number;
    atomic_store_explicit(&r->fn, fn, memory_order_release);
    atomic_store_explicit(&r->arg, arg, memory_order_release);
    atomic_store_explicit(&r->started, started, memory_order_release);
    if (pool->is_guarded)
        atomic_store_explicit(&r->ctx.deadline, started ? started + pool->set.task_timeout_ns : 0,
                              memory_order_relaxed);
    uint64_t signal = number << LW__SIGNAL_SHIFT;
    if (LW__LIKELY(pool->has_barrier))
        atomic_store_explicit(&r->ctx.signal, signal, memory_order_release);
    else
        atomic_store_explicit(&r->ctx.signal, signal, memory_order_seq_cst);
    lw__barrier_light();
    LW__POINT("begin: shown, stop not looked at");
    if (LW__LIKELY(atomic_load_explicit(&pool->stop_mode, memory_order_seq_cst) == LW__OPEN))
        return true;
    return lw__runner_begin_late(r);
}

/* The next item of the owner's batch; batch.c says why there is no fence. */
static inline bool lw__batch_claim(struct lw__batch *batch, struct lw__ring_item *item) {
    uint32_t index = atomic_load_explicit(&batch->next, memory_order_relaxed);
    atomic_store_explicit(&batch->next, index + 1, memory_order_relaxed);
    lw__barrier_light();
    LW__POINT("batch: claimed, end not looked at");
    if (LW__UNLIKELY(index >= atomic_load_explicit(&batch->end, memory_order_relaxed))
        && !lw__batch_claim_again(batch, index))
        return false;
    *item = batch->items[index];
    return true;
}

#endif
