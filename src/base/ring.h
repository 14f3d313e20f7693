/* A bounded queue for many producers and many consumers, without locks: Vyukov's ring.
 *
 * Each cell has a turn number. A cell is free for position p when its turn is p, full when it is p
 * + 1, and free for the next lap when it is p + capacity. Items (16 bytes) and turns (4 bytes)
 * stand in two arrays, so that a queued task costs 20 bytes and a consumer that takes a batch finds
 * 16 turns in one cache line.
 *
 * Three bits of the tail bar producers: because they have to read the tail anyway, refusing them
 * (closed, full until drained, no worker there) costs nothing on the way of a task, and what was
 * accepted before a bar fell is exactly what the tail says: nothing can slip in behind.
 */
#ifndef LW_BASE_RING_H
#define LW_BASE_RING_H

#include <legwork/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define LW__CACHE_LINE 128 /* two lines: the processor fetches them in pairs */

struct lw__ring_item {
    void (*fn)(void); /* cast to what it is */
    void *arg;
};

/* Bars. */
#define LW__RING_CLOSED (UINT64_C(1) << 63) /* for good */
#define LW__RING_GATED \
    (UINT64_C(1) << 62) /* full, and stays so until some of it has been drained */
#define LW__RING_UNMANNED (UINT64_C(1) << 61) /* nobody would take it */
#define LW__RING_BARS (LW__RING_CLOSED | LW__RING_GATED | LW__RING_UNMANNED)

struct lw__ring {
    /* fixed after open */
    struct lw__ring_item *items;
    _Atomic uint32_t *turns;
    uint64_t mask;  /* capacity - 1 */
    uint64_t limit; /* at most this many queued; capacity is the next power of two */
    size_t size;    /* of the allocation, for freeing */
    /* atomic, written by producers */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t tail; /* next position to fill, with the bars */
    _Atomic uint64_t
        head_seen; /* a head that was true once: spares producers reading the real one */
    /* atomic, written by consumers */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t head; /* next position to take */
};

enum lw__ring_result {
    LW__RING_PUSHED,
    LW__RING_FULL,
    LW__RING_BARRED,
};

/* Makes a ring for `limit` items, 1 or more. False: no memory. */
bool lw__ring_init(struct lw__ring *ring, const lw_allocator *allocator, uint64_t limit);
void lw__ring_free(struct lw__ring *ring, const lw_allocator *allocator);

/* What became of a push. */
struct lw__ring_push {
    uint64_t pass;     /* in: bars that do not hold for this one */
    uint64_t bars;     /* out, BARRED: what it was barred by */
    uint64_t count;    /* out, PUSHED: how many were put, from the first on */
    uint64_t position; /* out, PUSHED: of the first */
};

/* Puts up to `count` items, 1 or more. The last step of it is a sequentially consistent exchange,
 * so that a load after it is ordered behind it. */
enum lw__ring_result lw__ring_push(struct lw__ring *ring, const struct lw__ring_item *items,
                                   uint64_t count, struct lw__ring_push *push);

/* Takes up to `max` items in order and returns how many; the position of the first in *position. */
uint32_t lw__ring_pop(struct lw__ring *ring, struct lw__ring_item *items, uint32_t max,
                      uint64_t *position);

/* Whether the item at the head is there. Sequentially consistent. */
static inline bool lw__ring_has_items(struct lw__ring *ring) {
    for (uint64_t head = atomic_load_explicit(&ring->head, memory_order_seq_cst);;) {
        uint32_t turn = atomic_load_explicit(&ring->turns[head & ring->mask], memory_order_seq_cst);
        if (turn == (uint32_t)(head + 1))
            return true;
        uint64_t again = atomic_load_explicit(&ring->head, memory_order_seq_cst);
        if (again == head)
            return false;
        head = again;
    }
}

/* Items accepted and not yet taken; a moment's truth. */
static inline uint64_t lw__ring_depth(struct lw__ring *ring) {
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_seq_cst);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_seq_cst) & ~LW__RING_BARS;
    return tail - head;
}

/* How many items were ever accepted. */
static inline uint64_t lw__ring_accepted(struct lw__ring *ring) {
    return atomic_load_explicit(&ring->tail, memory_order_seq_cst) & ~LW__RING_BARS;
}

static inline void lw__ring_bar(struct lw__ring *ring, uint64_t bar) {
    atomic_fetch_or(&ring->tail, bar);
}

static inline void lw__ring_unbar(struct lw__ring *ring, uint64_t bar) {
    atomic_fetch_and(&ring->tail, ~bar);
}

#endif
