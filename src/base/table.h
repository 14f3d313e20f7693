/* A table of pointers by number, which grows: numbers are given one after the other, entries are
 * set once and never change.
 *
 * Threads: it is grown and set under a lock of its owner's, and read by anybody without one. Arrays
 * that have become too small are kept until the end, because readers may still look at them; all of
 * them together are as large as the present one.
 */
#ifndef LW_BASE_TABLE_H
#define LW_BASE_TABLE_H

#include <legwork/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct lw__table_array {
    struct lw__table_array *older;
    uint32_t capacity;
    void *_Atomic at[];
};

/* Zeroed: empty. */
struct lw__table {
    struct lw__table_array *_Atomic array;
};

/* Room for the numbers below `count`. False: no memory, and nothing has changed. */
bool lw__table_reserve(struct lw__table *table, const lw_allocator *allocator, uint32_t count);

/* There must be room. */
void lw__table_set(struct lw__table *table, uint32_t number, void *entry);

/* For a number whose room was reserved before the caller could have heard of it. NULL: not set. */
static inline void *lw__table_get(const struct lw__table *table, uint32_t number) {
    const struct lw__table_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    return atomic_load_explicit(&array->at[number], memory_order_acquire);
}

/* Numbers below this may be asked for. */
static inline uint32_t lw__table_capacity(const struct lw__table *table) {
    const struct lw__table_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    return array ? array->capacity : 0;
}

void lw__table_free(struct lw__table *table, const lw_allocator *allocator);

#endif
