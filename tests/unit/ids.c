/* Ids are found, alone and in order, beside writers too; what is empty costs nothing. */
#include "test.h"

#include "base/memory.h"
#include "base/mutex.h"
#include "base/random.h"
#include "store/ids.h"

#include <legwork/testing.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lw__grace grace;
static struct lw__ids ids;
static lw_test_memory *memory;

/* What stands for a task here. */
struct thing {
    _Atomic uint64_t id;
};

static struct lw__task *task_of(const struct thing *thing) {
    return (struct lw__task *)(uintptr_t)thing;
}

static const struct thing *thing_of(struct lw__task *task) {
    return (const struct thing *)(uintptr_t)task;
}

static void free_retired(void *user, void *ptr, uintptr_t detail) {
    assert_null(user);
    if (detail == LW__IDS_DETAIL) {
        lw__ids_free_node(&ids, ptr);
        return;
    }
    lw__free(grace.allocator, ptr, sizeof(struct thing)); /* which poisons it */
}

static void open_ids(void) {
    assert_status(lw_test_memory_open(&memory), LW_OK);
    lw__grace_init(&grace, lw_test_memory_allocator(memory), free_retired, NULL);
    lw__ids_init(&ids, lw_test_memory_allocator(memory), &grace);
}

static void close_ids(void) {
    uint64_t blocks;
    lw__ids_free(&ids);
    lw__grace_free(&grace);
    assert_int_equal(ids.bytes, 0);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

/* Where nobody looks into a task, its id is as good as a pointer, if it is not NULL. */
static struct lw__task *fake_task(uint64_t id) {
    return (struct lw__task *)(uintptr_t)(id ^ 0x5555555555555555);
}

static void insert(uint64_t id) {
    assert_true(lw__ids_insert(&ids, id, fake_task(id)));
}

static void append(uint64_t id) {
    assert_true(lw__ids_append(&ids, id, fake_task(id)));
}

static void remove_id(uint64_t id) {
    lw__ids_remove(&ids, id);
    lw__grace_collect(&grace);
}

static void assert_found(uint64_t id) {
    assert_ptr_equal(lw__ids_find(&ids, id), fake_task(id));
    assert_ptr_equal(lw__ids_find_from(&ids, id), fake_task(id));
}

/* ---- one thread ---- */

TEST(an_empty_tree_has_nothing_and_takes_nothing) {
    open_ids();
    assert_null(lw__ids_find(&ids, 0));
    assert_null(lw__ids_find(&ids, UINT64_MAX));
    assert_null(lw__ids_find_from(&ids, 0));
    assert_int_equal(allocations(), 0);
    close_ids();
}

TEST(rising_ids_are_found_until_they_are_removed) {
    enum { COUNT = 300000 };
    open_ids();
    for (uint64_t id = 1; id <= COUNT; id++) {
        insert(id);
        assert_int_equal(ids.count, id);
    }
    for (uint64_t id = 1; id <= COUNT; id++)
        assert_found(id);
    assert_null(lw__ids_find(&ids, 0));
    assert_null(lw__ids_find(&ids, COUNT + 1));
    assert_null(lw__ids_find_from(&ids, COUNT + 1));
    for (uint64_t id = 1; id <= COUNT; id++) {
        remove_id(id);
        assert_null(lw__ids_find(&ids, id));
        assert_int_equal(ids.count, COUNT - id);
        assert_ptr_equal(lw__ids_find_from(&ids, 0), id < COUNT ? fake_task(id + 1) : NULL);
    }
    close_ids();
}

/* In any order, with gaps, over the borders of leaves, and the last leaf among them. */
TEST(many_are_removed_as_one_by_one) {
    enum { COUNT = 1000 };
    uint64_t removed[COUNT];
    open_ids();
    for (uint64_t id = 1; id <= COUNT; id++)
        insert(id);
    uint32_t count = 0;
    for (uint64_t id = 2; id <= COUNT; id += 2)
        removed[count++] = id;
    lw__ids_remove_many(&ids, removed, 0);
    assert_int_equal(ids.count, COUNT);
    lw__ids_remove_many(&ids, removed, count);
    assert_int_equal(ids.count, COUNT / 2);
    for (uint64_t id = 1; id <= COUNT; id++)
        assert_ptr_equal(lw__ids_find(&ids, id), id % 2 == 0 ? NULL : fake_task(id));
    for (count = 0; count < COUNT / 2; count++) /* to and fro between leaves */
        removed[count] = count % 2 == 0 ? 1 + count : COUNT - count;
    lw__ids_remove_many(&ids, removed, count);
    assert_int_equal(ids.count, 0);
    assert_null(lw__ids_find_from(&ids, 0));
    lw__grace_collect(&grace);
    assert_true(ids.bytes < 2 * 1024); /* but for the leaf of the last insert */
    insert(COUNT + 1);
    assert_found(COUNT + 1);
    close_ids();
}

TEST(a_million_ids_cost_nine_bytes_each) {
    uint64_t bytes;
    open_ids();
    for (uint64_t id = 1; id <= 1000000; id++)
        insert(id);
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    assert_int_equal(ids.bytes, bytes);
    assert_true(bytes < 9000000);
    close_ids();
}

TEST(filling_a_leaf_takes_memory_once) {
    open_ids();
    insert(6400);
    uint64_t before = allocations();
    for (uint64_t id = 6401; id < 6464; id++)
        insert(id);
    assert_int_equal(allocations(), before);
    close_ids();
}

TEST(one_task_at_a_time_takes_memory_for_one_in_many) {
    open_ids();
    for (uint64_t id = 1000; id < 2000; id++) {
        insert(id);
        assert_found(id);
        remove_id(id);
        assert_null(lw__ids_find_from(&ids, 0));
    }
    assert_true(allocations() <= 2 * 1000 / 64 + 3);
    assert_true(ids.bytes < 1024); /* the last leaf alone */
    close_ids();
}

TEST(memory_follows_the_ids_that_are_there) {
    open_ids();
    size_t most = 0;
    for (uint64_t id = 0; id < 300000; id++) {
        insert(id);
        if (id >= 1000)
            remove_id(id - 1000);
        most = ids.bytes > most ? ids.bytes : most;
    }
    assert_true(most < 25 * 600); /* 17 leaves, and a few forks at the large borders */
    for (uint64_t id = 299000; id < 300000; id++)
        remove_id(id);
    assert_true(ids.bytes < 1024);
    insert(UINT64_C(1) << 40); /* now that leaf goes, too */
    lw__grace_collect(&grace);
    assert_true(ids.bytes < 1024);
    close_ids();
}

/* What an append leaves behind: one empty leaf, until the next call that may retire. */
TEST(an_append_retires_nothing) {
    open_ids();
    append(1);
    remove_id(1);
    size_t one_leaf = ids.bytes;
    append(1000);
    lw__grace_collect(&grace);
    assert_true(ids.bytes >= 2 * one_leaf);
    assert_null(lw__ids_find(&ids, 1));
    assert_ptr_equal(lw__ids_find_from(&ids, 0), fake_task(1000));
    insert(2000);
    lw__grace_collect(&grace);
    assert_int_equal(ids.bytes, 3 * one_leaf); /* two leaves, and a fork */
    remove_id(1000);
    assert_int_equal(ids.bytes, one_leaf);
    remove_id(2000);
    append(3000); /* leaves the leaf of 2000 behind, */
    append(2001); /* which is filled again */
    remove_id(3000);
    assert_found(2001);
    remove_id(2001);
    assert_int_equal(ids.bytes, one_leaf);
    close_ids();
}

TEST(late_ids_are_no_deeper_than_early_ones) {
    uint64_t before = 0;
    for (int round = 0; round < 2; round++) {
        open_ids();
        for (uint64_t id = 0; id < 10000; id++)
            insert((round << 30) + id);
        assert_true(round == 0 || allocations() == before);
        before = allocations();
        close_ids();
    }
}

TEST(ids_at_the_ends_of_the_range_live_side_by_side) {
    static const uint64_t all[] = {
        0,
        1,
        63,
        64,
        4095,
        4096,
        0x1fffffffffffff,
        0x20000000000000,
        0xfffffffffffffff,
        0x1000000000000000,
        UINT64_MAX - 64,
        UINT64_MAX - 63,
        UINT64_MAX,
    };
    enum { COUNT = sizeof all / sizeof *all };
    _Static_assert(COUNT == 13, "a prime, so that each step comes to all");
    for (uint64_t step = 1; step < COUNT; step++) { /* in various orders */
        open_ids();
        for (uint64_t i = 0; i < COUNT; i++)
            insert(all[i * step % COUNT]);
        for (int i = 0; i < COUNT; i++)
            assert_found(all[i]);
        for (int i = 0; i + 1 < COUNT; i++)
            assert_ptr_equal(lw__ids_find_from(&ids, all[i] + 1), fake_task(all[i + 1]));
        assert_null(lw__ids_find(&ids, 2));
        assert_null(lw__ids_find(&ids, 0x10000000000000));
        assert_null(lw__ids_find(&ids, UINT64_MAX - 1));
        for (uint64_t i = 0; i < COUNT && step % 2 == 0; i++) /* else they are left to the end */
            remove_id(all[i * step % COUNT]);
        assert_true(step % 2 == 1 || lw__ids_find_from(&ids, 0) == NULL);
        close_ids();
    }
}

static void assert_aborts(void (*body)(void)) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        close(STDERR_FILENO); /* its message would look like a failure of this test */
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

static void insert_twice(void) {
    insert(5);
    insert(5);
}

static void remove_unknown(void) {
    insert(5);
    insert(4096 * 3 + 5);
    lw__ids_remove(&ids, 4096 * 2 + 5);
}

static void remove_unknown_beside_others(void) {
    const uint64_t removed[] = {5, 7, 6};
    insert(5);
    insert(6);
    lw__ids_remove_many(&ids, removed, 3);
}

static void remove_twice(void) {
    const uint64_t removed[] = {5, 5};
    insert(5);
    insert(6);
    lw__ids_remove_many(&ids, removed, 2);
}

TEST(an_id_twice_or_unknown_ends_the_program) {
    open_ids();
    assert_aborts(insert_twice);
    assert_aborts(remove_unknown);
    assert_aborts(remove_unknown_beside_others);
    assert_aborts(remove_twice);
    close_ids();
}

/* ---- random use against a sorted array ---- */

enum { LIVE_MAX = 3000 };

static uint64_t live[LIVE_MAX + 1];
static uint32_t live_count;

/* The number of live ids below. */
static uint32_t rank_of(uint64_t id) {
    uint32_t low = 0, high = live_count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (live[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void toggle(uint64_t id, bool wants_more) {
    uint32_t rank = rank_of(id);
    bool is_there = rank < live_count && live[rank] == id;
    if (!wants_more && live_count > 0) {
        rank = rank < live_count ? rank : live_count - 1;
        remove_id(live[rank]);
        live_count--;
        memmove(&live[rank], &live[rank + 1], (live_count - rank) * sizeof *live);
    } else if (wants_more && !is_there && live_count < LIVE_MAX) {
        if (live_count % 3 == 0)
            insert(id);
        else
            append(id);
        memmove(&live[rank + 1], &live[rank], (live_count - rank) * sizeof *live);
        live[rank] = id;
        live_count++;
    }
}

static void assert_as_model(uint64_t id) {
    uint32_t rank = rank_of(id);
    bool is_there = rank < live_count && live[rank] == id;
    assert_ptr_equal(lw__ids_find(&ids, id), is_there ? fake_task(id) : NULL);
    assert_ptr_equal(lw__ids_find_from(&ids, id), rank < live_count ? fake_task(live[rank]) : NULL);
    assert_int_equal(ids.count, live_count);
}

/* Crowded, spread, or both: groups of neighbours that lie far apart. */
static uint64_t any_id(struct lw__random *random, int shape) {
    static const int widths[] = {12, 18, 30, 53, 64};
    uint64_t wide = lw__random_next(random) >> (64 - widths[shape % 5]);
    if (shape >= 5)
        wide = (wide & ~UINT64_C(0x3ffff)) * 0x9e3779b9 + (wide & 0xff);
    return wide;
}

TEST(random_use_is_as_with_a_sorted_array) {
    struct lw__random random;
    lw__random_seed(&random, 20250118);
    for (int shape = 0; shape < 10; shape++) {
        open_ids();
        live_count = 0;
        for (int i = 0; i < 20000; i++) {
            bool wants_more = lw__random_below(&random, 100) < (i / 4000 % 2 == 0 ? 80 : 20);
            toggle(any_id(&random, shape), wants_more);
            assert_as_model(any_id(&random, shape));
            if (live_count > 0)
                assert_as_model(live[lw__random_below(&random, live_count)] + i % 3 - 1);
        }
        while (live_count > 0)
            toggle(any_id(&random, shape), false);
        assert_true(ids.bytes < 1024);
        close_ids();
    }
}

/* ---- no memory ---- */

static void assert_still_there(const uint64_t *all, uint32_t count, uint64_t missing) {
    assert_int_equal(ids.count, count);
    assert_null(lw__ids_find(&ids, missing));
    for (uint32_t i = 0; i < count; i++)
        assert_found(all[i]);
}

TEST(an_insert_without_memory_changes_nothing) {
    static const uint64_t all[] = {70, 71, 130, 5000, UINT64_C(1) << 40, 1, 300000, UINT64_MAX};
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        open_ids();
        lw_test_memory_fail_at(memory, nth);
        for (uint32_t i = 0; i < sizeof all / sizeof *all; i++) {
            size_t bytes = ids.bytes;
            if (lw__ids_insert(&ids, all[i], fake_task(all[i])))
                continue;
            failures++;
            assert_int_equal(ids.bytes, bytes);
            assert_still_there(all, i, all[i]);
            insert(all[i]); /* and now it works */
        }
        bool has_failed = lw_test_memory_has_failed(memory);
        for (uint32_t i = 0; i < sizeof all / sizeof *all; i++)
            remove_id(all[i]);
        assert_null(lw__ids_find_from(&ids, 0));
        close_ids();
        if (!has_failed)
            break;
    }
    assert_true(failures >= sizeof all / sizeof *all);
}

TEST(a_remove_without_memory_works) {
    open_ids();
    for (uint64_t i = 0; i < 1000; i++)
        insert(i * 1000);
    for (uint64_t i = 0; i < 1000; i++) {
        lw_test_memory_fail_at(memory, 1);
        lw__ids_remove(&ids, i * 1000);
    }
    assert_null(lw__ids_find_from(&ids, 0));
    close_ids();
}

/* ---- readers beside a writer ---- */

enum { READER_THREADS = 3, RANGE = 1 << 15, LASTING_STEP = 997, RISING = 1 << 20 };

static struct lw__mutex mu;
static _Atomic bool is_over;
static struct thing *things[RANGE];    /* guarded by mu */
static _Atomic uint64_t tail = RISING; /* about the last of the rising ids */

/* Some ids are there from the beginning to the end. */
static bool is_lasting(uint64_t id) {
    return id < RANGE && id % LASTING_STEP == 0;
}

static struct thing *insert_thing(uint64_t id) {
    struct thing *thing = lw__alloc(grace.allocator, sizeof *thing);
    assert_non_null(thing);
    atomic_init(&thing->id, id);
    assert_true(lw__ids_insert(&ids, id, task_of(thing)));
    return thing;
}

static void remove_thing(struct thing *thing) {
    lw__ids_remove(&ids, atomic_load(&thing->id));
    lw__grace_retire(&grace, thing, 0);
}

static void look(struct lw__random *random) {
    uint64_t id = lw__random_below(random, RANGE + 2000);
    if (id >= RANGE)
        id = atomic_load_explicit(&tail, memory_order_relaxed) + 1000 - (id - RANGE);
    struct lw__task *found = lw__ids_find(&ids, id);
    struct lw__task *next = lw__ids_find_from(&ids, id);
    if (id % 64 == 0)
        sched_yield(); /* with the pointers in hand */
    if (found != NULL)
        CHECK(atomic_load(&thing_of(found)->id) == id);
    CHECK(found != NULL || !is_lasting(id));
    if (next != NULL)
        CHECK(atomic_load(&thing_of(next)->id) >= id);
    uint64_t lasting = (id + LASTING_STEP - 1) / LASTING_STEP * LASTING_STEP;
    if (is_lasting(lasting))
        CHECK(next != NULL && atomic_load(&thing_of(next)->id) <= lasting);
}

static void *keep_looking(void *arg) {
    struct lw__random random;
    lw__random_seed(&random, (uintptr_t)arg);
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        uint32_t ticket = lw__grace_enter(&grace);
        look(&random);
        lw__grace_leave(&grace, ticket);
    }
    return NULL;
}

/* Lists everything, one find after another, as a page of tasks does. */
static void *keep_listing(void *arg) {
    while (!atomic_load_explicit(&is_over, memory_order_relaxed)) {
        uint64_t from = 0, lasting = 0;
        for (struct lw__task *task; from < RANGE;) {
            uint32_t ticket = lw__grace_enter(&grace);
            task = lw__ids_find_from(&ids, from);
            uint64_t id = task != NULL ? atomic_load(&thing_of(task)->id) : RANGE;
            lw__grace_leave(&grace, ticket);
            CHECK(id >= from);
            lasting += is_lasting(id);
            from = id + 1;
        }
        CHECK(lasting == (RANGE - 1) / LASTING_STEP + 1);
    }
    return arg;
}

/* Here and there a whole stretch comes or goes, so that nodes do. */
static void toggle_stretch(struct lw__random *random) {
    uint64_t size = UINT64_C(1) << lw__random_below(random, 10);
    uint64_t start = lw__random_below(random, RANGE - size);
    bool comes = lw__random_below(random, 2);
    for (uint64_t id = start; id < start + size; id++) {
        if (is_lasting(id) || comes != (things[id] == NULL))
            continue;
        if (!comes)
            remove_thing(things[id]);
        things[id] = comes ? insert_thing(id) : NULL;
    }
}

/* And one id after another comes far behind and goes soon, so that the root grows and shrinks. */
static void rise(uint64_t *next, uint64_t count) {
    static struct thing *last[16];
    for (uint64_t i = 0; i < count; i++, (*next)++) {
        struct thing **thing = &last[*next % 16];
        if (*thing != NULL)
            remove_thing(*thing);
        *thing = insert_thing(*next);
        atomic_store_explicit(&tail, *next, memory_order_relaxed);
        if (i % 8 == 0 && *next < UINT64_C(1) << 50)
            *next += *next / 2;
    }
}

static void write_all_the_time(long rounds) {
    struct lw__random random;
    lw__random_seed(&random, 99);
    uint64_t next = RISING;
    for (long i = 0; i < rounds; i++) {
        lw__mutex_lock(&mu);
        toggle_stretch(&random);
        rise(&next, 8);
        if (next >= UINT64_C(1) << 50)
            next = RISING + (uint64_t)i * 1000000;
        lw__grace_collect(&grace);
        lw__mutex_unlock(&mu);
    }
}

TEST(readers_find_what_is_there_while_a_writer_is_at_work) {
    pthread_t threads[READER_THREADS];
    open_ids();
    lw__mutex_init(&mu);
    for (uint64_t id = 0; id < RANGE; id += LASTING_STEP)
        things[id] = insert_thing(id);
    for (int i = 0; i < READER_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, i > 0 ? keep_looking : keep_listing,
                                        (void *)(uintptr_t)i),
                         0);
    write_all_the_time(test_scale(10000, 300000) / (test_is_sanitized() ? 10 : 1));
    atomic_store(&is_over, true);
    for (int i = 0; i < READER_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (struct lw__task *task; (task = lw__ids_find_from(&ids, 0)) != NULL;) {
        lw__ids_remove(&ids, atomic_load(&thing_of(task)->id));
        lw__grace_retire(&grace, task, 0);
    }
    assert_int_equal(ids.count, 0);
    lw__mutex_free(&mu);
    close_ids();
}
