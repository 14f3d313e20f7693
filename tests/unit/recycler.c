/* A recycler hands freed blocks out again, keeps no more than it says, and loses none. */
#include "pools.h"
#include "test.h"

#include "base/memory.h"
#include "base/recycler.h"

#include <pthread.h>
#include <stddef.h>
#include <string.h>

static struct lw__recycler recycler;
static const lw_allocator *blocks; /* its allocator */
static lw_test_memory *memory;

static void open_recycler(void) {
    memory = open_memory();
    assert_true(lw__recycler_init(&recycler, lw_test_memory_allocator(memory)));
    blocks = &recycler.allocator;
}

static void close_recycler(void) {
    lw__recycler_free(&recycler);
    close_memory(memory);
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

static uint64_t blocks_out(void) {
    uint64_t count;
    lw_test_memory_usage(memory, &count, NULL, NULL);
    return count;
}

TEST(a_freed_block_is_the_next_of_its_size) {
    open_recycler();
    void *first = lw__alloc(blocks, 200);
    void *other = lw__alloc(blocks, 100);
    lw__free(blocks, first, 200);
    uint64_t before = allocations();
    assert_ptr_equal(lw__alloc(blocks, 256), first); /* rounded up, these are one size */
    assert_int_equal(allocations(), before);
    lw__free(blocks, first, 256);
    lw__free(blocks, other, 100);
    close_recycler();
}

TEST(large_blocks_pass_through) {
    open_recycler();
    uint64_t before = blocks_out();
    void *large = lw__alloc(blocks, LW__RECYCLER_MAX + 1);
    assert_int_equal(blocks_out(), before + 1);
    large = lw__resize(blocks, large, LW__RECYCLER_MAX + 1, 4 * LW__RECYCLER_MAX);
    lw__free(blocks, large, 4 * LW__RECYCLER_MAX);
    assert_int_equal(blocks_out(), before);
    close_recycler();
}

/* Of each size a chunk that is kept, and those that are in use because of blocks in the ring. */
TEST(what_a_burst_has_left_behind_is_given_back) {
    enum { BLOCKS = 40 * LW__RECYCLER_KEPT };
    static void *all[BLOCKS];
    open_recycler();
    uint64_t bytes;
    for (size_t size = LW__RECYCLER_STEP; size <= LW__RECYCLER_MAX; size += LW__RECYCLER_STEP) {
        for (int i = 0; i < BLOCKS; i++)
            all[i] = lw__alloc(blocks, size);
        for (int i = 0; i < BLOCKS; i++)
            lw__free(blocks, all[i], size);
    }
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    assert_true(bytes < LW__RECYCLER_SIZES * (LW__RECYCLER_KEPT * LW__RECYCLER_MAX + (512 << 10)));
    close_recycler();
}

TEST(blocks_are_aligned_for_any_type) {
    enum { BLOCKS = 1000 };
    static void *all[BLOCKS];
    open_recycler();
    for (size_t size = 1; size <= LW__RECYCLER_MAX; size += 100) {
        for (int i = 0; i < BLOCKS; i++) {
            all[i] = lw__alloc(blocks, size);
            assert_int_equal((uintptr_t)all[i] % _Alignof(max_align_t), 0);
            memset(all[i], 0xff, size);
        }
        for (int i = 0; i < BLOCKS; i++)
            lw__free(blocks, all[i], size);
    }
    close_recycler();
}

TEST(a_block_that_is_resized_keeps_its_bytes) {
    static const size_t sizes[] = {1, 128, 129, 300, 512, 513, 5000, 600, 512, 40, 2000, 7};
    open_recycler();
    size_t size = 1;
    unsigned char *block = lw__alloc(blocks, size);
    block[0] = 0;
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        block = lw__resize(blocks, block, size, sizes[i]);
        size_t kept = size < sizes[i] ? size : sizes[i];
        for (size_t k = 0; k < kept; k++)
            assert_int_equal(block[k], k % 251);
        size = sizes[i];
        for (size_t k = 0; k < size; k++)
            block[k] = (unsigned char)(k % 251);
    }
    lw__free(blocks, block, size);
    close_recycler();
}

TEST(without_memory_there_is_none_and_nothing_is_lost) {
    open_recycler();
    char *block = lw__alloc(blocks, 1000);
    block[0] = 'x';
    lw_test_memory_fail_at(memory, 1);
    assert_null(lw__alloc(blocks, 10));
    lw_test_memory_fail_at(memory, 1);
    assert_null(lw__resize(blocks, block, 1000, 10));
    assert_int_equal(block[0], 'x');
    lw__free(blocks, block, 1000);
    close_recycler();
}

TEST(one_that_cannot_be_made_leaves_nothing_behind) {
    memory = open_memory();
    for (uint64_t nth = 1; nth <= LW__RECYCLER_SIZES; nth++) {
        memset(&recycler, 0, sizeof recycler);
        lw_test_memory_fail_at(memory, nth);
        assert_false(lw__recycler_init(&recycler, lw_test_memory_allocator(memory)));
        lw__recycler_free(&recycler);
    }
    close_memory(memory);
}

enum { THREADS = 4, ROUNDS = 20000, HELD = 32 };

/* Each marks what it has: nobody else may get it meanwhile. */
static void *take_and_give(void *arg) {
    unsigned char *held[HELD] = {NULL}, mark = (unsigned char)(uintptr_t)arg;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = 1 + (size_t)(i % HELD) * 20;
        unsigned char **place = &held[i % HELD];
        if (*place) {
            assert_int_equal((*place)[0], mark);
            assert_int_equal((*place)[size - 1], mark);
            lw__free(blocks, *place, size);
        }
        *place = lw__alloc(blocks, size);
        memset(*place, mark, size);
    }
    for (int i = 0; i < HELD; i++)
        lw__free(blocks, held[i], 1 + (size_t)i * 20);
    return NULL;
}

TEST(threads_never_get_the_same_block) {
    pthread_t threads[THREADS];
    open_recycler();
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_recycler();
}
