/* A bounded queue for many producers and many consumers, without locks: Vyukov's ring.
 *
 * Each cell has a turn. On lap n (position / capacity) a cell is free for a producer when its turn
 * is 2n, full when it is 2n + 1, and free for the next lap when it is 2n + 2. The turn stands in
 * the top byte of the function's address, which no address in user space uses (57-bit ones
 * included): so an item is 16 bytes and nothing else, and comes to the consumer in the one cache
 * line that it looks at anyway. (With turns in an array of their own a task cost 20 bytes and a
 * hand-over between two cores 60 ns more.)
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
/* full, and stays so until some of it has been drained */
#define LW__RING_GATED (UINT64_C(1) << 62)
#define LW__RING_UNMANNED (UINT64_C(1) << 61) /* nobody would take it */
#define LW__RING_BARS (LW__RING_CLOSED | LW__RING_GATED | LW__RING_UNMANNED)

struct lw__ring_cell {
    _Atomic uint64_t word; /* turn << 56 | address of the function */
    void *arg;             /* whose turn it is */
};

struct lw__ring {
    /* fixed after open */
    struct lw__ring_cell *cells;
    uint64_t mask;  /* capacity - 1 */
    uint64_t limit; /* at most this many queued; capacity is the next power of two */
    unsigned shift; /* capacity is 1 << shift */
    size_t size;    /* of the allocation, for freeing */
    /* atomic, written by producers */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t tail; /* next position to fill, with the bars */
    _Atomic uint64_t
        head_seen; /* a head that was true once: spares producers reading the real one */
    /* atomic, written by consumers */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t head; /* next position to take */
};

#define LW__RING_TURN_SHIFT 56

/* The turn of a position's cell, in place: free for a producer, or (is_full) for a consumer. */
static inline uint64_t lw__ring_turn(const struct lw__ring *ring, uint64_t position, bool is_full) {
    return ((position >> ring->shift) * 2 + is_full) << LW__RING_TURN_SHIFT;
}

static inline bool lw__ring_is_turn(uint64_t word, uint64_t turn) {
    return (word ^ turn) >> LW__RING_TURN_SHIFT == 0;
}

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
    for (uint64_t head = atomic_load(&ring->head);;) {
        uint64_t word = atomic_load(&ring->cells[head & ring->mask].word);
        if (lw__ring_is_turn(word, lw__ring_turn(ring, head, true)))
            return true;
        uint64_t again = atomic_load(&ring->head);
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
