/* A kind and key lead to the task that was set last, and memory is needed only where it is said. */
#include "test.h"

#include "base/random.h"
#include "store/keys.h"

#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct lw__keys keys;
static lw_test_memory *memory;
static uint64_t looks; /* at tasks */

/* What stands for a task here. */
struct thing {
    uint32_t kind;
    char key[20];
    size_t key_size;
};

static struct lw__task *task_of(const struct thing *thing) {
    return (struct lw__task *)(uintptr_t)thing;
}

static bool is_same(const struct lw__task *task, uint32_t kind, const char *key, size_t key_size) {
    const struct thing *thing = (const struct thing *)(uintptr_t)task;
    looks++;
    return thing->kind == kind && thing->key_size == key_size
           && memcmp(thing->key, key, key_size) == 0;
}

static void open_keys_with(uint64_t secret0, uint64_t secret1) {
    const uint64_t secret[2] = {secret0, secret1};
    assert_status(lw_test_memory_open(&memory), LW_OK);
    lw__keys_init(&keys, lw_test_memory_allocator(memory), secret, is_same);
}

static void open_keys(void) {
    open_keys_with(0x0123456789abcdef, 0xfedcba9876543210);
}

static void close_keys(void) {
    uint64_t blocks;
    lw__keys_free(&keys);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static struct thing make_thing(uint32_t kind, uint64_t number) {
    struct thing thing = {.kind = kind};
    int size = snprintf(thing.key, sizeof thing.key, "k%llx", (unsigned long long)number);
    thing.key_size = (size_t)size;
    return thing;
}

static struct lw__keys_pair pair_of(const struct thing *thing) {
    return lw__keys_pair(&keys, thing->kind, thing->key, thing->key_size);
}

static struct lw__task *find(const struct thing *thing) {
    struct lw__keys_pair pair = pair_of(thing);
    return lw__keys_find(&keys, &pair);
}

static void set(const struct thing *thing) {
    struct lw__keys_pair pair = pair_of(thing);
    lw__keys_set(&keys, &pair, task_of(thing));
}

static void add(const struct thing *thing) {
    assert_true(lw__keys_reserve(&keys, 1));
    set(thing);
}

static void take_out(const struct thing *thing) {
    lw__keys_remove(&keys, pair_of(thing).hash, task_of(thing));
}

/* ---- what it finds ---- */

TEST(a_key_is_found_until_it_is_removed) {
    struct thing thing = make_thing(3, 1);
    open_keys();
    assert_null(find(&thing));
    take_out(&thing);
    add(&thing);
    assert_ptr_equal(find(&thing), task_of(&thing));
    assert_int_equal(keys.count, 1);
    take_out(&thing);
    assert_null(find(&thing));
    assert_int_equal(keys.count, 0);
    close_keys();
}

TEST(kinds_have_keys_of_their_own) {
    struct thing a = make_thing(1, 7), b = make_thing(2, 7);
    open_keys();
    add(&a);
    assert_null(find(&b));
    add(&b);
    assert_ptr_equal(find(&a), task_of(&a));
    assert_ptr_equal(find(&b), task_of(&b));
    take_out(&a);
    assert_null(find(&a));
    assert_ptr_equal(find(&b), task_of(&b));
    close_keys();
}

TEST(keys_are_bytes_of_any_length) {
    static const struct thing all[] = {
        {1, "", 0}, {1, "\0", 1}, {1, "\0\0", 2}, {1, "12345678", 8}, {1, "12345678\0", 9},
    };
    enum { COUNT = sizeof all / sizeof *all };
    open_keys();
    for (int i = 0; i < COUNT; i++) {
        assert_null(find(&all[i]));
        add(&all[i]);
    }
    for (int i = 0; i < COUNT; i++)
        assert_ptr_equal(find(&all[i]), task_of(&all[i]));
    close_keys();
}

TEST(a_set_replaces_and_only_the_one_that_stands_there_is_removed) {
    struct thing first = make_thing(1, 7), second = first;
    open_keys();
    add(&first);
    add(&second);
    assert_int_equal(keys.count, 1);
    assert_ptr_equal(find(&first), task_of(&second));
    take_out(&first);
    assert_ptr_equal(find(&first), task_of(&second));
    take_out(&second);
    assert_null(find(&first));
    close_keys();
}

/* ---- the hash: SipHash-1-3, as CPython 3.11 gives it for the same bytes and secrets ---- */

static uint64_t hash_of(uint32_t kind, const char *key, size_t key_size) {
    return lw__keys_pair(&keys, kind, key, key_size).hash;
}

TEST(hashes_are_those_of_siphash_1_3) {
    char longest[302];
    memset(longest, 'x', sizeof longest);
    longest[0] = (char)0xff;
    longest[1] = (char)0x80;
    open_keys_with(0, 0);
    assert_int_equal(hash_of(0, "", 0), 0xbd60acb658c79e45);
    assert_int_equal(hash_of(0, "a", 1), 0x0c9972277e54d711);
    assert_int_equal(hash_of(7, "nightly-report", 14), 0x1e18064eef517f2f);
    assert_int_equal(hash_of(7, "12345678", 8), 0x76479320fc302cbe);
    assert_int_equal(hash_of(UINT32_MAX, longest, sizeof longest), 0x36e9d4f1cf9c0114);
    close_keys();
    open_keys_with(0x65121defe496063e, 0xb30647aa540bb9c8);
    assert_int_equal(hash_of(0, "", 0), 0x1125bd1c7b0a0c6f);
    assert_int_equal(hash_of(7, "nightly-report", 14), 0xdba47876a7f68f6e);
    assert_int_equal(hash_of(UINT32_MAX, longest, sizeof longest), 0x15cf4737b3d8df1c);
    close_keys();
}

/* ---- random use against an array ---- */

enum { THINGS = 2000 };

static struct thing things[THINGS][2]; /* two tasks of each pair */
static struct thing *standing[THINGS];

static void check_all(void) {
    size_t count = 0;
    for (int i = 0; i < THINGS; i++) {
        assert_ptr_equal(find(&things[i][0]), standing[i] ? task_of(standing[i]) : NULL);
        count += standing[i] != NULL;
    }
    assert_int_equal(keys.count, count);
}

TEST(random_use_is_as_with_an_array) {
    struct lw__random random;
    lw__random_seed(&random, 20250119);
    open_keys();
    for (uint32_t i = 0; i < THINGS; i++)
        things[i][0] = things[i][1] = make_thing(i % 7, i / 7);
    for (int step = 0; step < 100000; step++) {
        uint64_t i = lw__random_below(&random, THINGS);
        struct thing *thing = &things[i][lw__random_below(&random, 2)];
        /* Tides, so that it grows and shrinks. */
        if (lw__random_below(&random, 100) < (step / 20000 % 2 == 0 ? 80 : 5)) {
            add(thing);
            standing[i] = thing;
        } else {
            take_out(thing);
            standing[i] = standing[i] == thing ? NULL : standing[i];
        }
        assert_ptr_equal(find(thing), standing[i] ? task_of(standing[i]) : NULL);
        if (step % 5000 == 0)
            check_all();
    }
    check_all();
    close_keys();
}

TEST(a_task_is_looked_at_only_when_it_is_the_one) {
    open_keys();
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i][0] = make_thing(1, i);
        add(&things[i][0]);
    }
    assert_int_equal(looks, 0);
    for (uint32_t i = 0; i < THINGS; i++)
        assert_non_null(find(&things[i][0]));
    assert_int_equal(looks, THINGS);
    close_keys();
}

/* ---- memory ---- */

static uint64_t bytes(void) {
    uint64_t count;
    lw_test_memory_usage(memory, NULL, &count, NULL);
    return count;
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

TEST(no_keys_take_no_memory) {
    struct thing thing = make_thing(1, 1);
    open_keys();
    assert_null(find(&thing));
    take_out(&thing);
    assert_int_equal(allocations(), 0);
    close_keys();
}

TEST(memory_follows_the_number_of_keys) {
    enum { COUNT = 100000 };
    struct thing *all = calloc(COUNT, sizeof *all);
    assert_non_null(all);
    open_keys();
    for (uint32_t i = 0; i < COUNT; i++) {
        all[i] = make_thing(1, i);
        add(&all[i]);
        assert_true(i < 16 || bytes() <= (i + 1) * 43);
    }
    for (uint32_t i = COUNT; i-- > 0;) {
        take_out(&all[i]);
        assert_true(i < 16 || bytes() <= i * 8 * 16);
    }
    assert_true(bytes() <= 16 * 16);
    close_keys();
    free(all);
}

TEST(breathing_around_a_border_does_not_allocate) {
    open_keys();
    for (uint32_t i = 0; i < THINGS; i++)
        things[i][0] = make_thing(1, i);
    for (uint32_t border = 1; border < 1600; border++) {
        add(&things[border][0]);
        uint64_t before = allocations();
        for (int i = 0; i < 3; i++) {
            take_out(&things[border][0]);
            add(&things[border][0]);
        }
        assert_int_equal(allocations(), before);
    }
    close_keys();
}

TEST(a_reserve_without_memory_says_so_and_changes_nothing) {
    uint64_t failures = 0;
    for (uint64_t nth = 1;; nth++) {
        open_keys();
        lw_test_memory_fail_at(memory, nth);
        for (uint32_t i = 0; i < 500; i++) {
            things[i][0] = make_thing(1, i);
            if (!lw__keys_reserve(&keys, 1)) {
                failures++;
                for (uint32_t j = 0; j < i; j++)
                    assert_ptr_equal(find(&things[j][0]), task_of(&things[j][0]));
                assert_int_equal(keys.count, i);
                assert_true(lw__keys_reserve(&keys, 1));
            }
            set(&things[i][0]);
        }
        bool has_failed = lw_test_memory_has_failed(memory);
        close_keys();
        if (!has_failed)
            break;
    }
    assert_int_equal(failures, 7); /* 16 to 1024 places */
    open_keys();
    assert_false(lw__keys_reserve(&keys, SIZE_MAX));
    close_keys();
}

TEST(what_was_reserved_needs_no_memory_whatever_is_removed_meanwhile) {
    open_keys();
    for (uint32_t i = 0; i < THINGS; i++)
        things[i][0] = make_thing(1, i);
    for (uint32_t i = 0; i < 1000; i++)
        add(&things[i][0]);
    assert_true(lw__keys_reserve(&keys, 1000));
    lw_test_memory_fail_at(memory, 1);
    for (uint32_t i = 0; i < 1000; i++)
        take_out(&things[i][0]);
    assert_int_equal(keys.count, 0);
    for (uint32_t i = 0; i < 1000; i++)
        set(&things[i][0]);
    assert_false(lw_test_memory_has_failed(memory));
    close_keys();
}

TEST(a_remove_that_gets_no_memory_to_shrink_is_as_good) {
    open_keys();
    for (uint32_t i = 0; i < THINGS; i++) {
        things[i][0] = make_thing(1, i);
        add(&things[i][0]);
    }
    uint64_t failures = 0;
    for (uint32_t i = 0; i < THINGS; i++) {
        lw_test_memory_fail_at(memory, 1);
        take_out(&things[i][0]);
        failures += lw_test_memory_has_failed(memory);
        assert_null(find(&things[i][0]));
        if (i + 1 < THINGS)
            assert_non_null(find(&things[i + 1][0]));
    }
    assert_true(failures > 0);
    assert_int_equal(keys.count, 0);
    close_keys();
}

TEST(a_set_that_was_not_reserved_ends_the_program) {
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct thing a = make_thing(1, 1), b = make_thing(1, 2);
        open_keys();
        add(&a);
        close(STDERR_FILENO); /* its message would look like a failure of this test */
        set(&b);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
