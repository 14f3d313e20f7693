/* A four-ary heap by key. Entries carry their key, so that sifting reads nothing but the array;
 * each points to where its owner wants to know its index, so that it can be removed from the
 * middle.
 *
 * Threads: under the owner's lock.
 */
#ifndef LW_STORE_HEAP_H
#define LW_STORE_HEAP_H

#include <legwork/runtime.h>

#define LW__HEAP_ARITY 4 /* children of the entry i: 4i + 1 to 4i + 4 */

/* What decides who is first. */
struct lw__order_key {
    uint64_t due, id;
    uint32_t priority;
};

static inline bool lw__order_key_before(const struct lw__order_key *a,
                                        const struct lw__order_key *b) {
    if (a->priority != b->priority)
        return a->priority < b->priority;
    return a->due != b->due ? a->due < b->due : a->id < b->id;
}

struct lw__heap_entry {
    struct lw__order_key key;
    uint32_t *index; /* in what is kept here: the index of this entry */
};

/* Zeroed: empty. */
struct lw__heap {
    struct lw__heap_entry *entries; /* the first is the smallest */
    uint32_t count, capacity;
};

/* A capacity of at least count; 0 frees the array. False: no memory, and nothing has changed. */
bool lw__heap_resize(struct lw__heap *heap, const lw_allocator *allocator, uint32_t capacity);

/* There must be room. */
void lw__heap_push(struct lw__heap *heap, const struct lw__order_key *key, uint32_t *index);

void lw__heap_remove(struct lw__heap *heap, uint32_t at);

/* Gives an entry another key. */
void lw__heap_rekey(struct lw__heap *heap, uint32_t at, const struct lw__order_key *key);

#endif
