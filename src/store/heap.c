/* A four-ary heap: half as deep as a binary one, and the children of an entry lie side by side. */
#include "store/heap.h"

#include "base/memory.h"

#include <assert.h>

#define ARITY LW__HEAP_ARITY

bool lw__heap_resize(struct lw__heap *heap, const lw_allocator *allocator, uint32_t capacity) {
    size_t old_size = heap->capacity * sizeof *heap->entries;
    struct lw__heap_entry *entries = NULL;
    assert(capacity >= heap->count);
    if (capacity > 0)
        entries = lw__resize(allocator, heap->entries, old_size, capacity * sizeof *entries);
    else
        lw__free(allocator, heap->entries, old_size);
    if (entries == NULL && capacity > 0)
        return false;
    heap->entries = entries;
    heap->capacity = capacity;
    return true;
}

static void put_at(struct lw__heap *heap, uint32_t at, struct lw__heap_entry entry) {
    heap->entries[at] = entry;
    *entry.index = at;
}

static void sift_up(struct lw__heap *heap, uint32_t at, struct lw__heap_entry entry) {
    while (at > 0) {
        uint32_t parent = (at - 1) / ARITY;
        if (!lw__order_key_before(&entry.key, &heap->entries[parent].key))
            break;
        put_at(heap, at, heap->entries[parent]);
        at = parent;
    }
    put_at(heap, at, entry);
}

/* The smallest child; there is at least one. */
static uint32_t first_child(const struct lw__heap *heap, uint32_t at) {
    uint32_t best = at * ARITY + 1;
    uint32_t end = heap->count - best < ARITY ? heap->count : best + ARITY;
    for (uint32_t i = best + 1; i < end; i++)
        if (lw__order_key_before(&heap->entries[i].key, &heap->entries[best].key))
            best = i;
    return best;
}

static void sift_down(struct lw__heap *heap, uint32_t at, struct lw__heap_entry entry) {
    while ((uint64_t)at * ARITY + 1 < heap->count) {
        uint32_t child = first_child(heap, at);
        if (!lw__order_key_before(&heap->entries[child].key, &entry.key))
            break;
        put_at(heap, at, heap->entries[child]);
        at = child;
    }
    put_at(heap, at, entry);
}

/* What stood at this place is overwritten. */
static void place_entry(struct lw__heap *heap, uint32_t at, struct lw__heap_entry entry) {
    if (at > 0 && lw__order_key_before(&entry.key, &heap->entries[(at - 1) / ARITY].key))
        sift_up(heap, at, entry);
    else
        sift_down(heap, at, entry);
}

void lw__heap_push(struct lw__heap *heap, const struct lw__order_key *key, uint32_t *index) {
    assert(heap->count < heap->capacity);
    heap->count++;
    sift_up(heap, heap->count - 1, (struct lw__heap_entry){.key = *key, .index = index});
}

void lw__heap_remove(struct lw__heap *heap, uint32_t at) {
    assert(at < heap->count);
    heap->count--;
    if (at < heap->count)
        place_entry(heap, at, heap->entries[heap->count]);
}

void lw__heap_rekey(struct lw__heap *heap, uint32_t at, const struct lw__order_key *key) {
    assert(at < heap->count);
    place_entry(heap, at, (struct lw__heap_entry){.key = *key, .index = heap->entries[at].index});
}
