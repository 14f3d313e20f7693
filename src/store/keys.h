/* From (kind, key) to the task that has it: an open-addressing hash table of tasks.
 *
 * A kind and key may stand for several tasks (retained ones); the table holds at most one per pair:
 * the one that keeps others out, or the youngest. Linear probing with backward-shift deletion, so
 * that there are no tombstones; it doubles at 3/4 of its places and halves at 1/8: 21 to 43 bytes a
 * key while it grows. The key's bytes stay with the task. The hash is keyed (SipHash-1-3 with a
 * secret that must be random), because keys come from outside.
 *
 * Threads: under the owner's lock, but for lw__keys_pair, which is best called before.
 */
#ifndef LW_STORE_KEYS_H
#define LW_STORE_KEYS_H

#include <legwork/runtime.h>

struct lw__task;

struct lw__keys_pair {
    uint32_t kind;
    const char *key;
    size_t key_size;
    uint64_t hash;
};

struct lw__keys_place {
    struct lw__task *task; /* NULL: free */
    uint64_t hash;
};

struct lw__keys {
    /* fixed after init */
    const lw_allocator *allocator;
    uint64_t secret[2];
    /* Whether the task is the one of this kind and key. */
    bool (*is_same)(const struct lw__task *task, uint32_t kind, const char *key, size_t key_size);
    /* guarded by the owner's lock */
    struct lw__keys_place *places; /* NULL: none yet */
    size_t capacity;               /* a power of two, or 0 */
    size_t count;
    size_t reserved; /* sets that were promised to need no memory, and were not made yet */
};

void lw__keys_init(struct lw__keys *keys, const lw_allocator *allocator, const uint64_t secret[2],
                   bool (*is_same)(const struct lw__task *task, uint32_t kind, const char *key,
                                   size_t key_size));
void lw__keys_free(struct lw__keys *keys);

/* The key is not copied. */
struct lw__keys_pair lw__keys_pair(const struct lw__keys *keys, uint32_t kind, const char *key,
                                   size_t key_size);

/* NULL: none. */
struct lw__task *lw__keys_find(const struct lw__keys *keys, const struct lw__keys_pair *pair);

/* Makes sure that the next `count` sets will not need memory, whatever is removed between them; an
 * earlier promise is void. False: there is none, and nothing has changed. */
bool lw__keys_reserve(struct lw__keys *keys, size_t count);

/* Puts a task in, or in the place of the one that has the kind and key. After lw__keys_reserve. */
void lw__keys_set(struct lw__keys *keys, const struct lw__keys_pair *pair, struct lw__task *task);

/* Asks for the cache line where a pair with this hash should stand. */
static inline void lw__keys_fetch(const struct lw__keys *keys, uint64_t hash) {
    if (keys->capacity > 0)
        __builtin_prefetch(&keys->places[hash & (keys->capacity - 1)], 1);
}

/* Takes out the pair that stands for this task, if there is one; `hash` is that of its pair. Never
 * needs memory (shrinking that fails is left for the next time). */
void lw__keys_remove(struct lw__keys *keys, uint64_t hash, const struct lw__task *task);

#endif
