/* Memory goes through the allocator that was given, and its test twin counts and fails. */
#include "test.h"

#include "base/memory.h"
#include "base/poison.h"

#include <legwork/testing.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lw_test_memory *open_memory(void) {
    lw_test_memory *memory;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    return memory;
}

static void assert_usage(const lw_test_memory *memory, uint64_t blocks, uint64_t bytes) {
    uint64_t blocks_seen, bytes_seen;
    lw_test_memory_usage(memory, &blocks_seen, &bytes_seen, NULL);
    assert_int_equal(blocks_seen, blocks);
    assert_int_equal(bytes_seen, bytes);
}

static bool is_filled_with(const void *ptr, size_t size, int byte) {
    for (size_t i = 0; i < size; i++)
        if (((const unsigned char *)ptr)[i] != byte)
            return false;
    return true;
}

TEST(no_allocator_means_the_default_one) {
    char *ptr = lw__alloc(NULL, 10);
    memset(ptr, 7, 10);
    ptr = lw__resize(NULL, ptr, 10, 100000);
    assert_true(is_filled_with(ptr, 10, 7));
    lw__free(NULL, ptr, 100000);
    ptr = lw__alloc_zero(lw__allocator_default(), 50);
    assert_true(is_filled_with(ptr, 50, 0));
    lw__free(lw__allocator_default(), ptr, 50);
    lw__free(NULL, NULL, 50);
}

TEST(a_block_of_any_size_keeps_its_bytes_when_it_is_resized) {
    static const size_t sizes[] = {1, 10000, 65535, 65536, 65537, 5000000, 400000, 65536, 10};
    size_t size = 1;
    unsigned char *ptr = lw__alloc(NULL, size);
    memset(ptr, 7, size);
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++) {
        ptr = lw__resize(NULL, ptr, size, sizes[i]);
        assert_non_null(ptr);
        assert_true(is_filled_with(ptr, size < sizes[i] ? size : sizes[i], 7));
        size = sizes[i];
        memset(ptr, 7, size);
    }
    lw__free(NULL, ptr, size);
    ptr = lw__alloc_zero(NULL, 1 << 20);
    assert_true(is_filled_with(ptr, 1 << 20, 0));
    lw__free(NULL, ptr, 1 << 20);
}

#if !defined(LW__HAS_ASAN) /* it keeps what was freed, to find out who still uses it */
static long resident_kb(void) {
    long all = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%ld %ld", &all, &resident), 2);
    fclose(file);
    return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Also after the first was freed, from when on malloc keeps such blocks. */
TEST(large_blocks_return_to_the_system) {
    enum { BLOCKS = 500, SIZE = 80000 };
    static void *blocks[BLOCKS];
    void *others[BLOCKS];
    long before_kb = resident_kb();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = lw__alloc(NULL, SIZE);
            memset(blocks[i], 1, SIZE);
            others[i] = lw__alloc(NULL, 100); /* between them, and these stay a little longer */
        }
        assert_true(resident_kb() > before_kb + 30000);
        for (int i = 0; i < BLOCKS; i++)
            lw__free(NULL, blocks[i], SIZE);
        assert_true(resident_kb() < before_kb + 10000);
        for (int i = 0; i < BLOCKS; i++)
            lw__free(NULL, others[i], 100);
    }
}
#endif

TEST(blocks_come_from_and_return_to_the_allocator_that_was_given) {
    lw_test_memory *memory = open_memory();
    const lw_allocator *a = lw_test_memory_allocator(memory);

    void *one = lw__alloc(a, 10);
    void *two = lw__alloc_zero(a, 20);
    assert_usage(memory, 2, 30);
    assert_true(is_filled_with(two, 20, 0)); /* the twin hands out junk */
    two = lw__resize(a, two, 20, 200);
    assert_usage(memory, 2, 210);
    assert_true(is_filled_with(two, 20, 0));
    two = lw__resize(a, two, 200, 5);
    assert_usage(memory, 2, 15);
    lw__free(a, one, 10);
    lw__free(a, two, 5);
    lw__free(a, NULL, 5);
    assert_usage(memory, 0, 0);
    lw_test_memory_close(memory);
}

TEST(aligned_blocks_are_aligned_and_leak_nothing) {
    lw_test_memory *memory = open_memory();
    const lw_allocator *a = lw_test_memory_allocator(memory);
    for (size_t align = 1; align <= 4096; align *= 2)
        for (size_t size = 1; size < 300; size += 37) {
            void *ptr = lw__alloc_aligned(a, size, align);
            assert_int_equal((uintptr_t)ptr % align, 0);
            memset(ptr, 0xff, size);
            lw__free_aligned(a, ptr, size, align);
        }
    lw__free_aligned(a, NULL, 10, 64);
    assert_usage(memory, 0, 0);
    lw_test_memory_close(memory);
}

TEST(an_aligned_block_of_impossible_size_is_refused) {
    assert_null(lw__alloc_aligned(NULL, SIZE_MAX - 10, 64));
}

TEST(exactly_the_nth_allocation_fails_and_only_once) {
    lw_test_memory *memory = open_memory();
    const lw_allocator *a = lw_test_memory_allocator(memory);
    for (uint64_t nth = 1; nth <= 5; nth++) {
        lw_test_memory_fail_at(memory, nth);
        for (uint64_t call = 1; call <= 7; call++) {
            assert_int_equal(lw_test_memory_has_failed(memory), call > nth);
            void *ptr = lw__alloc(a, 8);
            assert_int_equal(ptr == NULL, call == nth);
            lw__free(a, ptr, 8);
        }
    }
    lw_test_memory_fail_at(memory, 1);
    lw_test_memory_fail_at(memory, 0);
    void *ptr = lw__alloc(a, 8);
    assert_non_null(ptr);
    assert_false(lw_test_memory_has_failed(memory));
    lw__free(a, ptr, 8);
    lw_test_memory_close(memory);
}

TEST(when_growing_fails_the_old_block_is_untouched) {
    lw_test_memory *memory = open_memory();
    const lw_allocator *a = lw_test_memory_allocator(memory);
    void *ptr = lw__alloc_zero(a, 16);
    lw_test_memory_fail_at(memory, 1);
    assert_null(lw__resize(a, ptr, 16, 32));
    assert_usage(memory, 1, 16);
    assert_true(is_filled_with(ptr, 16, 0));

    lw_test_memory_fail_at(memory, 1);
    assert_non_null(lw__resize(a, ptr, 16, 8)); /* shrinking never fails */
    lw__free(a, ptr, 8);
    lw_test_memory_close(memory);
}

TEST(a_block_given_back_with_the_wrong_size_ends_the_program) {
    pid_t child = fork();
    if (child == 0) {
        lw_test_memory *memory = open_memory();
        const lw_allocator *a = lw_test_memory_allocator(memory);
        close(STDERR_FILENO); /* its message would look like a failure of this test */
        lw__free(a, lw__alloc(a, 8), 9);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

enum { ROUNDS = 2000 };

static void *allocate_and_free(void *arg) {
    const lw_allocator *a = lw_test_memory_allocator(arg);
    for (size_t i = 1; i <= ROUNDS; i++) {
        void *ptr = lw__alloc(a, i);
        if (ptr != NULL)
            lw__free(a, ptr, i);
    }
    return NULL;
}

TEST(several_threads_may_use_one_test_memory) {
    lw_test_memory *memory = open_memory();
    pthread_t threads[4];
    uint64_t calls;
    lw_test_memory_fail_at(memory, ROUNDS);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, allocate_and_free, memory), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    assert_int_equal(calls, 4 * ROUNDS);
    assert_true(lw_test_memory_has_failed(memory));
    assert_usage(memory, 0, 0);
    lw_test_memory_close(memory);
}
