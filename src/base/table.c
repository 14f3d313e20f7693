/* A table of pointers by number. */
#include "base/table.h"

#include "base/memory.h"

#include <assert.h>

enum { CAPACITY_MIN = 16 };

static size_t size_of(uint32_t capacity) {
    return sizeof(struct lw__table_array) + capacity * sizeof(void *);
}

bool lw__table_reserve(struct lw__table *table, const lw_allocator *allocator, uint32_t count) {
    struct lw__table_array *old = atomic_load(&table->array);
    if (old && count <= old->capacity)
        return true;
    uint32_t capacity = old ? old->capacity : CAPACITY_MIN;
    while (capacity < count)
        capacity *= 2;
    struct lw__table_array *array = lw__alloc_zero(allocator, size_of(capacity));
    if (!array)
        return false;
    array->older = old;
    array->capacity = capacity;
    for (uint32_t i = 0; old && i < old->capacity; i++)
        atomic_init(&array->at[i], atomic_load_explicit(&old->at[i], memory_order_relaxed));
    atomic_store_explicit(&table->array, array, memory_order_release);
    return true;
}

void lw__table_set(struct lw__table *table, uint32_t number, void *entry) {
    struct lw__table_array *array = atomic_load(&table->array);
    assert(array && number < array->capacity);
    atomic_store_explicit(&array->at[number], entry, memory_order_release);
}

void lw__table_free(struct lw__table *table, const lw_allocator *allocator) {
    struct lw__table_array *older;
    for (struct lw__table_array *array = atomic_load(&table->array); array; array = older) {
        older = array->older;
        lw__free(allocator, array, size_of(array->capacity));
    }
    atomic_store(&table->array, NULL);
}
