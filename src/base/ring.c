/* Vyukov's bounded ring, with batches on both ends. See ring.h.
 *
 * The 32-bit turns repeat after 2^32 positions; that is harmless, because whoever read one claims
 * its cell by a compare-and-swap of the 64-bit head or tail, which does not repeat.
 */
#include "base/ring.h"

#include "base/memory.h"

#include <string.h>

bool lw__ring_init(struct lw__ring *ring, const lw_allocator *allocator, uint64_t limit) {
    uint64_t capacity =
        2; /* with one cell "full" and "free for the next lap" would be the same turn */
    while (capacity < limit)
        capacity *= 2;
    size_t size = capacity * (sizeof *ring->items + sizeof *ring->turns);
    char *memory = lw__alloc_aligned(allocator, size, LW__CACHE_LINE);
    if (!memory)
        return false;
    ring->items = (struct lw__ring_item *)memory;
    ring->turns = (_Atomic uint32_t *)(memory + capacity * sizeof *ring->items);
    ring->mask = capacity - 1;
    ring->limit = limit;
    ring->size = size;
    for (uint64_t i = 0; i < capacity; i++)
        atomic_init(&ring->turns[i], (uint32_t)i);
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head_seen, 0);
    atomic_init(&ring->head, 0);
    return true;
}

void lw__ring_free(struct lw__ring *ring, const lw_allocator *allocator) {
    if (ring->items)
        lw__free_aligned(allocator, ring->items, ring->size, LW__CACHE_LINE);
    ring->items = NULL;
}

/* How many cells from `tail` on, up to `count`, are free. A consumer that has moved the head may
 * still be copying: its cells count as taken until their turn says so. */
static uint64_t free_cells(struct lw__ring *ring, uint64_t tail, uint64_t count) {
    uint64_t n = 0;
    while (n < count) {
        uint32_t turn =
            atomic_load_explicit(&ring->turns[(tail + n) & ring->mask], memory_order_acquire);
        if (turn != (uint32_t)(tail + n))
            break;
        n++;
    }
    return n;
}

/* Room below the limit as seen from `tail`; looks at the real head only when the remembered one
 * leaves none. */
static uint64_t room(struct lw__ring *ring, uint64_t tail, uint64_t count) {
    uint64_t used = tail - atomic_load_explicit(&ring->head_seen, memory_order_relaxed);
    if (used + count > ring->limit) {
        uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
        atomic_store_explicit(&ring->head_seen, head, memory_order_relaxed);
        used = tail - head;
    }
    if (used >= ring->limit) /* also when `tail` is so old that the head has passed it */
        return 0;
    uint64_t left = ring->limit - used;
    return left < count ? left : count;
}

/* Claims up to `count` cells for a producer: 0 when there is no room or a bar. */
static inline uint64_t claim_cells(struct lw__ring *ring, uint64_t count,
                                   struct lw__ring_push *push) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    for (;;) {
        push->bars = tail & LW__RING_BARS & ~push->pass;
        if (push->bars)
            return 0;
        uint64_t position = tail & ~LW__RING_BARS;
        uint64_t n = free_cells(ring, position, room(ring, position, count));
        if (n == 0) {
            uint64_t again = atomic_load_explicit(&ring->tail, memory_order_relaxed);
            if (again == tail)
                return 0;
            tail = again;
        } else if (atomic_compare_exchange_weak(&ring->tail, &tail, tail + n)) {
            push->position = position;
            return push->count = n;
        }
    }
}

enum lw__ring_result lw__ring_push(struct lw__ring *ring, const struct lw__ring_item *items,
                                   uint64_t count, struct lw__ring_push *push) {
    uint64_t n = claim_cells(ring, count, push);
    if (n == 0)
        return push->bars ? LW__RING_BARRED : LW__RING_FULL;
    uint64_t first = push->position, last = first + n - 1;
    for (uint64_t i = 0; i < n; i++)
        ring->items[(first + i) & ring->mask] = items[i];
    for (uint64_t p = first; p < last; p++)
        atomic_store_explicit(&ring->turns[p & ring->mask], (uint32_t)(p + 1),
                              memory_order_release);
    atomic_exchange(&ring->turns[last & ring->mask], (uint32_t)(last + 1));
    return LW__RING_PUSHED;
}

uint32_t lw__ring_pop(struct lw__ring *ring, struct lw__ring_item *items, uint32_t max,
                      uint64_t *position) {
    uint32_t n;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    do {
        for (n = 0; n < max; n++) {
            uint32_t turn =
                atomic_load_explicit(&ring->turns[(head + n) & ring->mask], memory_order_acquire);
            if (turn != (uint32_t)(head + n + 1))
                break;
        }
        if (n == 0) {
            uint64_t again = atomic_load_explicit(&ring->head, memory_order_relaxed);
            if (again == head)
                return 0;
            head = again;
        }
    } while (n == 0 || !atomic_compare_exchange_weak(&ring->head, &head, head + n));

    for (uint32_t i = 0; i < n; i++)
        items[i] = ring->items[(head + i) & ring->mask];
    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(&ring->turns[(head + i) & ring->mask],
                              (uint32_t)(head + i + ring->mask + 1), memory_order_release);
    *position = head;
    return n;
}
