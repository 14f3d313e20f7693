/* Names to what they stand for: the side that adds. */
#include "base/name_table.h"

#include "base/memory.h"

#include <assert.h>

enum { CAPACITY_MIN = 64 };

static size_t size_of(uint32_t capacity) {
    return sizeof(struct lw__name_array) + capacity * sizeof(struct lw__name_entry *);
}

static struct lw__name_array *make_array(const lw_allocator *allocator, uint32_t capacity) {
    struct lw__name_array *array = lw__alloc_zero(allocator, size_of(capacity));
    if (array)
        array->mask = capacity - 1;
    return array;
}

static void place(struct lw__name_array *array, struct lw__name_entry *entry) {
    uint32_t at = entry->key.hash & array->mask;
    while (atomic_load_explicit(&array->at[at], memory_order_relaxed))
        at = (at + 1) & array->mask;
    atomic_store_explicit(&array->at[at], entry, memory_order_release);
}

bool lw__name_table_open(struct lw__name_table *table, const lw_allocator *allocator,
                         uint64_t seed) {
    struct lw__name_array *array = make_array(allocator, CAPACITY_MIN);
    atomic_store(&table->array, array);
    table->seed = seed;
    table->count = 0;
    return array != NULL;
}

void lw__name_table_close(struct lw__name_table *table, const lw_allocator *allocator) {
    struct lw__name_array *older;
    for (struct lw__name_array *array = atomic_load(&table->array); array; array = older) {
        older = array->older;
        lw__free(allocator, array, size_of(array->mask + 1));
    }
    atomic_store(&table->array, NULL);
}

bool lw__name_table_reserve(struct lw__name_table *table, const lw_allocator *allocator) {
    struct lw__name_array *old = atomic_load(&table->array);
    uint32_t capacity = old->mask + 1;
    if (table->count < capacity / 2)
        return true;
    struct lw__name_array *array = make_array(allocator, 2 * capacity);
    if (!array)
        return false;
    for (uint32_t i = 0; i < capacity; i++) {
        struct lw__name_entry *entry = atomic_load_explicit(&old->at[i], memory_order_relaxed);
        if (entry)
            place(array, entry);
    }
    array->older = old;
    atomic_store_explicit(&table->array, array, memory_order_release);
    return true;
}

void lw__name_table_add(struct lw__name_table *table, struct lw__name_entry *entry,
                        const char *name) {
    struct lw__name_array *array = atomic_load(&table->array);
    assert(table->count <= array->mask / 2);
    entry->name = name;
    entry->key = lw__name_key(name, table->seed);
    table->count++;
    place(array, entry);
}
