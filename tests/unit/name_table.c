/* Names and numbers to what they stand for, while the tables grow under those who read. */
#include "test.h"

#include "base/name_table.h"
#include "base/table.h"

#include <legwork/testing.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAMES = 65536, READERS = 3 };

struct named {
    struct lw__name_entry entry;
    uint32_t number;
    char name[16];
};

struct tables {
    struct lw__name_table names;
    struct lw__table numbers;
    _Atomic uint32_t count; /* names up to this one are there */
};

static struct named *make_named(uint32_t number) {
    struct named *named = calloc(1, sizeof *named);
    CHECK(named != NULL);
    named->number = number;
    snprintf(named->name, sizeof named->name, "tenant-%u", number);
    return named;
}

static void add(struct tables *t, uint32_t number) {
    struct named *named = make_named(number);
    CHECK(lw__name_table_reserve(&t->names, NULL));
    CHECK(lw__table_reserve(&t->numbers, NULL, number + 1));
    lw__table_set(&t->numbers, number, named);
    lw__name_table_add(&t->names, &named->entry, named->name);
    atomic_store(&t->count, number + 1);
}

static void open_tables(struct tables *t) {
    *t = (struct tables){.count = 0};
    assert_true(lw__name_table_open(&t->names, NULL, 4711));
}

static void close_tables(struct tables *t) {
    for (uint32_t i = 0; i < t->count; i++)
        free(lw__table_get(&t->numbers, i));
    lw__name_table_close(&t->names, NULL);
    lw__table_free(&t->numbers, NULL);
}

static void assert_there(const struct tables *t, uint32_t number) {
    char name[16];
    snprintf(name, sizeof name, "tenant-%u", number);
    const struct named *named = lw__name_table_find(&t->names, name);
    CHECK(named != NULL && named->number == number);
    CHECK(lw__table_get(&t->numbers, number) == named);
}

TEST(every_name_is_found_and_no_other) {
    struct tables t;
    open_tables(&t);
    assert_null(lw__name_table_find(&t.names, "tenant-0"));
    for (uint32_t i = 0; i < NAMES; i++)
        add(&t, i);
    for (uint32_t i = 0; i < NAMES; i++)
        assert_there(&t, i);
    assert_null(lw__name_table_find(&t.names, "tenant-65536"));
    assert_null(lw__name_table_find(&t.names, ""));
    assert_int_equal(t.names.count, NAMES);
    close_tables(&t);
}

static uint32_t steps_to(const struct lw__name_table *table, const struct named *named) {
    const struct lw__name_array *array = atomic_load(&table->array);
    uint32_t at = named->entry.key.hash & array->mask, steps = 1;
    for (; atomic_load(&array->at[at]) != &named->entry; at = (at + 1) & array->mask)
        steps++;
    return steps;
}

/* Looking up is a step or two, and it does not matter how many there are. */
TEST(looking_up_takes_as_many_steps_among_65536_names_as_among_16) {
    struct tables t;
    open_tables(&t);
    for (uint32_t i = 0; i < NAMES; i++) {
        add(&t, i);
        if (i != 15 && i != NAMES - 1)
            continue;
        uint64_t all = 0;
        for (uint32_t k = 0; k <= i; k++)
            all += steps_to(&t.names, lw__table_get(&t.numbers, k));
        assert_true(all <= 2 * (i + 1));
    }
    close_tables(&t);
}

static void *read_all(void *arg) {
    const struct tables *t = arg;
    for (uint32_t round = 0, count = 0; count < NAMES; round++) {
        count = atomic_load(&t->count);
        for (uint32_t i = round % 7; i < count; i += 101)
            assert_there(t, i);
    }
    return NULL;
}

TEST(readers_find_what_is_there_while_the_tables_grow) {
    struct tables t;
    pthread_t readers[READERS];
    open_tables(&t);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_all, &t) == 0);
    for (uint32_t i = 0; i < NAMES; i++)
        add(&t, i);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
    close_tables(&t);
}

/* Where names stand is not to be foreseen by whoever chooses them. */
TEST(another_seed_is_another_order) {
    unsigned same = 0;
    for (unsigned i = 0; i < 1000; i++) {
        char name[16];
        snprintf(name, sizeof name, "tenant-%u", i);
        same += lw__name_key(name, 1).hash % 1024 == lw__name_key(name, 2).hash % 1024;
    }
    assert_true(same < 20);
}
