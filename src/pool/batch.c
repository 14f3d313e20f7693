/* Batches, and how they are taken back from behind a slow task.
 *
 * The owner claims item after item; that is on the way of every short task and must cost next to
 * nothing, while taking back is rare. So this is a Dekker protocol with all of its cost on the rare
 * side: the owner writes `next` and reads `end` with no fence between, the monitor writes `end`,
 * passes a barrier on every thread's behalf, and reads `next`. Either the owner sees that the end
 * has moved, and asks again under the mutex, or the monitor sees the claim and leaves that item
 * alone.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

void lw__batch_init(struct lw__batch *batch) {
    atomic_init(&batch->next, 0);
    atomic_init(&batch->end, 0);
    lw__mutex_init(&batch->mu);
    batch->orphan_next = batch->orphan_end = 0;
}

void lw__batch_free(struct lw__batch *batch) {
    lw__mutex_free(&batch->mu);
}

void lw__batch_start(struct lw__batch *batch, uint32_t count) {
    lw__mutex_lock(&batch->mu);
    atomic_store_explicit(&batch->next, 0, memory_order_relaxed);
    atomic_store_explicit(&batch->end, count, memory_order_relaxed);
    lw__mutex_unlock(&batch->mu);
}

/* The end has moved, or this is it. */
bool lw__batch_claim_again(struct lw__batch *batch, uint32_t index) {
    lw__mutex_lock(&batch->mu);
    bool is_mine = index < atomic_load_explicit(&batch->end, memory_order_relaxed);
    if (!is_mine) {
        atomic_store_explicit(&batch->next, 0, memory_order_relaxed);
        atomic_store_explicit(&batch->end, 0, memory_order_relaxed);
    }
    lw__mutex_unlock(&batch->mu);
    return is_mine;
}

bool lw__batch_orphan(lw_pool *pool, struct lw__batch *batch) {
    lw__mutex_lock(&batch->mu);
    uint32_t end = atomic_load_explicit(&batch->end, memory_order_relaxed);
    uint32_t orphans = 0;
    bool has_earlier = batch->orphan_next < batch->orphan_end; /* there is place for one range */
    if (!has_earlier && atomic_load_explicit(&batch->next, memory_order_relaxed) < end) {
        atomic_store_explicit(&batch->end, 0, memory_order_relaxed);
        lw__barrier_everywhere();
        LW__POINT("orphan: end withdrawn, next not looked at");
        uint32_t next = atomic_load_explicit(&batch->next, memory_order_relaxed);
        uint32_t kept = next < end ? next : end;
        atomic_store_explicit(&batch->end, kept, memory_order_relaxed);
        batch->orphan_next = kept;
        batch->orphan_end = end;
        orphans = end - kept;
        atomic_fetch_add(&pool->orphans, orphans);
    }
    lw__mutex_unlock(&batch->mu);
    return orphans > 0;
}

void lw__batch_shelter(lw_pool *pool, struct lw__batch *batch) {
    uint64_t position;
    lw__mutex_lock(&batch->mu);
    if (batch->orphan_next == batch->orphan_end
        && lw__ring_pop(&pool->ring, batch->items, 1, &position) == 1) {
        batch->orphan_next = 0;
        batch->orphan_end = 1;
        atomic_fetch_add(&pool->orphans, 1);
    }
    lw__mutex_unlock(&batch->mu);
}

static uint32_t adopt_from(lw_pool *pool, struct lw__batch *batch, struct lw__ring_item *items,
                           uint32_t max) {
    uint32_t n = 0;
    lw__mutex_lock(&batch->mu);
    while (n < max && batch->orphan_next < batch->orphan_end)
        items[n++] = batch->items[batch->orphan_next++]; /* one's own move down: no overlap harms */
    atomic_fetch_sub(&pool->orphans, n);
    lw__mutex_unlock(&batch->mu);
    return n;
}

uint32_t lw__batch_adopt(lw_pool *pool, struct lw__batch *own, struct lw__ring_item *items,
                         uint32_t max) {
    uint32_t n = own ? adopt_from(pool, own, items, max) : 0;
    if (n > 0)
        return n;
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots && n == 0; i++)
        n = adopt_from(pool, &pool->workers[i]->batch, items, max);
    lw__mutex_unlock(&pool->mu);
    return n;
}
