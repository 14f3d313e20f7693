/* Names to what they stand for. Every submit looks two names up, so that is done without a lock and
 * takes the same time however many there are.
 *
 * An open-addressed table, at most half full, probed one place after the other. Entries are only
 * ever added. When it gets too full, a larger one is published, and the old one is kept until the
 * end for those who still look there: all of them together are as large as the present one. A
 * reader of the old one may miss a name that was added since: then it takes the lock of whoever
 * adds, and looks again.
 *
 * Names come from outside. The seed, which nobody can foresee, decides where they stand, so that
 * nobody can choose names that all stand in one place.
 *
 * Threads: lw__name_table_add under a lock of the owner's; lw__name_table_find by anybody.
 */
#ifndef LW_BASE_NAME_TABLE_H
#define LW_BASE_NAME_TABLE_H

#include "base/names.h"

#include <legwork/runtime.h>
#include <stdatomic.h>
#include <stdbool.h>

/* First in what it stands for, which does not move and lives as long as the table. */
struct lw__name_entry {
    const char *name;
    struct lw__name_key key;
};

struct lw__name_array {
    struct lw__name_array *older;
    uint32_t mask; /* capacity - 1 */
    struct lw__name_entry *_Atomic at[];
};

struct lw__name_table {
    struct lw__name_array *_Atomic array; /* never NULL once it was opened */
    uint64_t seed;                        /* fixed */
    uint32_t count;                       /* the owner's */
};

/* False: no memory. */
bool lw__name_table_open(struct lw__name_table *table, const lw_allocator *allocator,
                         uint64_t seed);

/* One that was never opened may be closed, too, if it is zeroed. */
void lw__name_table_close(struct lw__name_table *table, const lw_allocator *allocator);

/* Makes sure that the next add finds room. False: no memory. */
bool lw__name_table_reserve(struct lw__name_table *table, const lw_allocator *allocator);

/* Adds a name that is not there, after a reserve. The name is not copied. */
void lw__name_table_add(struct lw__name_table *table, struct lw__name_entry *entry,
                        const char *name);

/* NULL: it is not there, or was added just now. */
LW__INLINE void *lw__name_table_find(const struct lw__name_table *table, const char *name) {
    const struct lw__name_key key = lw__name_key(name, table->seed);
    const struct lw__name_array *array = atomic_load_explicit(&table->array, memory_order_acquire);
    uint32_t at = key.hash & array->mask;
    struct lw__name_entry *entry = atomic_load_explicit(&array->at[at], memory_order_acquire);
    while (entry && !lw__name_is(entry->name, &entry->key, name, &key)) {
        at = (at + 1) & array->mask;
        entry = atomic_load_explicit(&array->at[at], memory_order_acquire);
    }
    return entry;
}

#endif
