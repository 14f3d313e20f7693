/* Vyukov's bounded ring, with batches on both ends. See ring.h.
 *
 * Turns repeat after 128 laps; that is harmless, because whoever read one claims its cell by a
 * compare-and-swap of the 64-bit head or tail, which does not repeat.
 */
#include "base/ring.h"

#include "base/futex.h"
#include "base/memory.h"
#include "base/points.h"

#include <string.h>

#define CELLS_AHEAD 16 /* how far ahead a producer asks for cache lines: four of them */
#define BACK_OFF_BREATHS 64

bool lw__ring_init(struct lw__ring *ring, const lw_allocator *allocator, uint64_t limit) {
    unsigned shift = 0;
    while (UINT64_C(1) << shift < limit)
        shift++;
    size_t size = sizeof *ring->cells << shift;
    ring->cells = lw__alloc_aligned(allocator, size, LW__CACHE_LINE);
    if (!ring->cells)
        return false;
    memset((void *)ring->cells, 0, size); /* every cell is free on lap 0 */
    ring->mask = (UINT64_C(1) << shift) - 1;
    ring->limit = limit;
    ring->shift = shift;
    ring->size = size;
    atomic_init(&ring->tail, 0);
    atomic_init(&ring->head_seen, 0);
    atomic_init(&ring->head, 0);
    return true;
}

void lw__ring_free(struct lw__ring *ring, const lw_allocator *allocator) {
    if (ring->cells)
        lw__free_aligned(allocator, ring->cells, ring->size, LW__CACHE_LINE);
    ring->cells = NULL;
}

/* How many cells from `tail` on, up to `count`, are free. A consumer that has moved the head may
 * still be copying: its cells count as taken until their turn says so. */
static uint64_t free_cells(struct lw__ring *ring, uint64_t tail, uint64_t count) {
    uint64_t n = 0;
    while (n < count) {
        const struct lw__ring_cell *cell = &ring->cells[(tail + n) & ring->mask];
        uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
        if (!lw__ring_is_turn(word, lw__ring_turn(ring, tail + n, false)))
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

/* Another producer was faster. Leaving it alone for a microsecond lets it put a few dozen items
 * while it has the cache lines; fighting for each costs both more (measured with four producers on
 * two cores: 33 ns an item instead of 40). */
static inline void back_off(void) {
    for (int i = 0; i < BACK_OFF_BREATHS; i++)
        lw__spin_pause();
}

/* Claims up to `count` cells for a producer: 0 when there is no room or a bar. */
static inline uint64_t claim_cells(struct lw__ring *ring, uint64_t count,
                                   struct lw__ring_push *push) {
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    lw__fetch_to_write(&ring->cells[tail & ring->mask]); /* an idle consumer is looking at it */
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
        } else {
            back_off();
            tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
        }
    }
}

static inline uint64_t full_word(const struct lw__ring *ring, uint64_t position,
                                 struct lw__ring_item item) {
    return (uint64_t)(uintptr_t)item.fn | lw__ring_turn(ring, position, true);
}

enum lw__ring_result lw__ring_push(struct lw__ring *ring, const struct lw__ring_item *items,
                                   uint64_t count, struct lw__ring_push *push) {
    uint64_t n = claim_cells(ring, count, push);
    if (n == 0)
        return push->bars ? LW__RING_BARRED : LW__RING_FULL;
    uint64_t first = push->position, last = first + n - 1;
    /* Consumers had the cells last, one lap ago; fetched only when needed, each line would hold up
     * the producer for as long as several pushes take (50 ns a push became 25). */
    lw__fetch_to_write(&ring->cells[(last + CELLS_AHEAD) & ring->mask]);
    for (uint64_t p = first; p < last; p++) {
        struct lw__ring_cell *cell = &ring->cells[p & ring->mask];
        cell->arg = items[p - first].arg;
        atomic_store_explicit(&cell->word, full_word(ring, p, items[p - first]),
                              memory_order_release);
    }
    struct lw__ring_cell *cell = &ring->cells[last & ring->mask];
    cell->arg = items[n - 1].arg;
    LW__POINT("push: accepted, not there");
    atomic_exchange(&cell->word, full_word(ring, last, items[n - 1]));
    return LW__RING_PUSHED;
}

/* How many cells from `head` on, up to `max`, are full. */
static inline uint32_t full_cells(struct lw__ring *ring, uint64_t head, uint32_t max) {
    uint32_t n = 0;
    while (n < max) {
        const struct lw__ring_cell *cell = &ring->cells[(head + n) & ring->mask];
        uint64_t word = atomic_load_explicit(&cell->word, memory_order_acquire);
        if (!lw__ring_is_turn(word, lw__ring_turn(ring, head + n, true)))
            break;
        n++;
    }
    return n;
}

uint32_t lw__ring_pop(struct lw__ring *ring, struct lw__ring_item *items, uint32_t max,
                      uint64_t *position) {
    uint32_t n;
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    do {
        n = full_cells(ring, head, max);
        if (n == 0) {
            uint64_t again = atomic_load_explicit(&ring->head, memory_order_relaxed);
            if (again == head)
                return 0;
            head = again;
        }
    } while (n == 0 || !atomic_compare_exchange_weak(&ring->head, &head, head + n));
    LW__POINT("pop: taken, cells not free");

    for (uint32_t i = 0; i < n; i++) {
        struct lw__ring_cell *cell = &ring->cells[(head + i) & ring->mask];
        uint64_t word = atomic_load_explicit(&cell->word, memory_order_relaxed);
        uint64_t address = word & ((UINT64_C(1) << LW__RING_TURN_SHIFT) - 1);
        items[i].fn = (void (*)(void))(uintptr_t)address;
        items[i].arg = cell->arg;
        uint64_t next_lap = lw__ring_turn(ring, head + i + ring->mask + 1, false);
        atomic_store_explicit(&cell->word, next_lap, memory_order_release);
    }
    *position = head;
    return n;
}
