/* A slab hands out objects that stay apart, refuses stale tickets, and gives memory back. */
#include "test.h"

#include "base/random.h"
#include "base/slab.h"

#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OBJECT_SIZE = 56, PER_CHUNK = 2048 /* of that size */ };

static struct lw__slab slab;
static lw_test_memory *memory;

static void open_slab(size_t object_size, uint32_t limit) {
    assert_status(lw_test_memory_open(&memory), LW_OK);
    lw__slab_init(&slab, lw_test_memory_allocator(memory), object_size, limit, "tasks_max");
}

static void close_slab(void) {
    uint64_t blocks;
    lw__slab_free(&slab);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static void *take(void) {
    void *object = NULL;
    assert_status(lw__slab_take(&slab, &object, NULL), LW_OK);
    return object;
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

TEST(an_object_is_found_by_index_and_ticket_until_it_is_given_back) {
    open_slab(OBJECT_SIZE, 10);
    void *object = take();
    uint64_t ticket = lw__slab_ticket(object);
    assert_int_equal((uint32_t)ticket, lw__slab_index(object));
    assert_ptr_equal(lw__slab_at(&slab, lw__slab_index(object)), object);
    assert_ptr_equal(lw__slab_find(&slab, ticket), object);
    lw__slab_give(&slab, object);
    assert_null(lw__slab_find(&slab, ticket));
    close_slab();
}

TEST(a_stale_ticket_does_not_find_the_next_object_in_its_slot) {
    open_slab(OBJECT_SIZE, 1);
    uint64_t stale = 0;
    for (int i = 0; i < 1000; i++) {
        void *object = take();
        uint64_t ticket = lw__slab_ticket(object);
        assert_int_equal((uint32_t)ticket, 0); /* the very same slot */
        assert_null(lw__slab_find(&slab, stale));
        assert_ptr_equal(lw__slab_find(&slab, ticket), object);
        lw__slab_give(&slab, object);
        stale = ticket;
    }
    close_slab();
}

TEST(a_stale_ticket_is_refused_even_after_its_chunk_was_freed_and_allocated_again) {
    open_slab(OBJECT_SIZE, 3 * PER_CHUNK);
    static uint64_t stale[3 * PER_CHUNK];
    static void *objects[3 * PER_CHUNK];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 3 * PER_CHUNK; i++)
            objects[i] = take();
        for (int i = 0; i < 3 * PER_CHUNK; i++)
            assert_null(lw__slab_find(&slab, stale[i]));
        for (int i = 0; i < 3 * PER_CHUNK; i++) {
            stale[i] = lw__slab_ticket(objects[i]);
            lw__slab_give(&slab, objects[i]);
        }
        assert_int_equal(slab.chunk_count, 1);
        assert_int_equal(slab.directory_used, 3); /* numbers of chunks are used again */
        for (int i = 0; i < 3 * PER_CHUNK; i++)
            assert_null(lw__slab_find(&slab, stale[i]));
    }
    close_slab();
}

TEST(numbers_that_never_were_tickets_find_nothing) {
    open_slab(OBJECT_SIZE, 100);
    assert_null(lw__slab_find(&slab, 0));
    void *object = take();
    uint64_t ticket = lw__slab_ticket(object);
    assert_null(lw__slab_find(&slab, 0));
    assert_null(lw__slab_find(&slab, UINT64_MAX));
    assert_null(lw__slab_find(&slab, ticket + 1));
    assert_null(lw__slab_find(&slab, ticket + 1000000));
    assert_null(lw__slab_find(&slab, ticket + (UINT64_C(1) << 32)));
    /* What the memory of a slot that was never taken happens to look like. */
    assert_null(lw__slab_find(&slab, UINT64_C(0xa5a5a5a500000001)));
    close_slab();
}

TEST(no_ticket_is_zero_when_generations_wrap) {
    open_slab(OBJECT_SIZE, 2);
    slab.generation = UINT32_MAX;
    void *object = take(); /* index 0 */
    assert_true(lw__slab_ticket(object) != 0);
    assert_ptr_equal(lw__slab_find(&slab, lw__slab_ticket(object)), object);
    close_slab();
}

TEST(at_the_limit_a_take_is_refused_by_name) {
    open_slab(OBJECT_SIZE, 3);
    void *objects[3], *more = NULL;
    lw_error err;
    for (int i = 0; i < 3; i++)
        objects[i] = take();
    assert_status(lw__slab_take(&slab, &more, &err), LW_EFULL);
    assert_string_equal(err.message, "tasks_max is 3, and all are taken");
    assert_null(more);
    lw__slab_give(&slab, objects[1]);
    assert_status(lw__slab_take(&slab, &more, NULL), LW_OK);
    close_slab();
}

TEST(a_take_that_finds_no_memory_fails_cleanly) {
    for (uint64_t nth = 1;; nth++) {
        open_slab(OBJECT_SIZE, 20 * PER_CHUNK); /* the directory grows, too */
        lw_test_memory_fail_at(memory, nth);
        uint32_t failures = 0;
        for (uint32_t i = 0; i < 20 * PER_CHUNK; i++) {
            void *object;
            int status = lw__slab_take(&slab, &object, NULL);
            failures += status == LW_ENOMEM;
            assert_int_equal(slab.taken_count, i + 1 - failures);
        }
        bool has_failed = lw_test_memory_has_failed(memory);
        assert_int_equal(failures, has_failed);
        close_slab();
        if (!has_failed)
            break;
    }
}

TEST(empty_chunks_are_given_back_but_for_one) {
    open_slab(OBJECT_SIZE, 10 * PER_CHUNK);
    static void *objects[10 * PER_CHUNK];
    assert_int_equal(lw__slab_bytes(&slab), 0);
    for (int i = 0; i < 10 * PER_CHUNK; i++)
        objects[i] = take();
    assert_int_equal(slab.chunk_count, 10);
    for (int i = 0; i < 10 * PER_CHUNK; i++)
        lw__slab_give(&slab, objects[i]);
    assert_int_equal(slab.chunk_count, 1);
    assert_true(lw__slab_bytes(&slab) < 256 * 1024);
    close_slab();
}

TEST(breathing_around_the_border_of_a_chunk_does_not_allocate) {
    open_slab(OBJECT_SIZE, 10 * PER_CHUNK);
    for (int i = 0; i < 2 * PER_CHUNK; i++)
        take();
    lw__slab_give(&slab, take());
    uint64_t before = allocations();
    for (int i = 0; i < 1000; i++)
        lw__slab_give(&slab, take());
    assert_int_equal(allocations(), before);
    close_slab();
}

TEST(a_million_small_objects_cost_eight_bytes_each_on_top) {
    open_slab(40, 1000000);
    for (int i = 0; i < 1000000; i++)
        take();
    uint64_t bytes;
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    assert_int_equal(lw__slab_bytes(&slab), bytes);
    assert_true(bytes < 48500000); /* half a byte for all else */
    close_slab();
}

TEST(memory_is_no_more_than_the_limit_needs) {
    open_slab(OBJECT_SIZE, 3);
    take();
    assert_true(lw__slab_bytes(&slab) < 1024);
    close_slab();
}

TEST(giving_back_twice_ends_the_program) {
    pid_t child = fork();
    if (child == 0) {
        open_slab(OBJECT_SIZE, 3);
        void *object = take();
        take();
        close(STDERR_FILENO); /* its message would look like a failure of this test */
        lw__slab_give(&slab, object);
        lw__slab_give(&slab, object);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

/* ---- random takes and gives against a plain array ---- */

enum { LIVE_MAX = 5000, STALE_MAX = 1000 };

struct live {
    unsigned char *object;
    uint64_t ticket;
    unsigned char mark; /* all bytes of the object */
};

static void assert_intact(const struct live *live, size_t size) {
    assert_ptr_equal(lw__slab_find(&slab, live->ticket), live->object);
    assert_ptr_equal(lw__slab_at(&slab, (uint32_t)live->ticket), live->object);
    assert_int_equal(lw__slab_ticket(live->object), live->ticket);
    assert_int_equal((uintptr_t)live->object % 8, 0);
    for (size_t i = 0; i < size; i++)
        assert_int_equal(live->object[i], live->mark);
}

TEST(objects_stay_apart_and_tickets_true_under_random_use) {
    static struct live live[LIVE_MAX];
    static uint64_t stale[STALE_MAX];
    struct lw__random random;
    uint64_t seed = 20240817;
    printf("seed %llu\n", (unsigned long long)seed);
    lw__random_seed(&random, seed);

    for (size_t size = 1; size < 700; size = size * 3 + 1) {
        uint32_t count = 0;
        uint64_t stale_count = 0;
        open_slab(size, LIVE_MAX);
        for (int i = 0; i < 60000; i++) {
            /* Tides, so that chunks fill up and run empty. */
            bool rises = lw__random_below(&random, 100) < (i / 10000 % 2 == 0 ? 70 : 30);
            if (rises && count < LIVE_MAX) {
                struct live *l = &live[count++];
                *l = (struct live){.object = take(), .mark = (unsigned char)i};
                l->ticket = lw__slab_ticket(l->object);
                memset(l->object, l->mark, size);
            } else if (count > 0) {
                struct live *l = &live[lw__random_below(&random, count)];
                assert_intact(l, size);
                lw__slab_give(&slab, l->object);
                stale[stale_count++ % STALE_MAX] = l->ticket;
                *l = live[--count];
            }
            assert_int_equal(slab.taken_count, count);
            assert_true(slab.chunk_count <= ((uint32_t)LIVE_MAX >> slab.chunk_shift) + 1);
            if (stale_count > STALE_MAX)
                assert_null(lw__slab_find(&slab, stale[lw__random_below(&random, STALE_MAX)]));
        }
        for (uint32_t i = 0; i < count; i++)
            assert_intact(&live[i], size);
        close_slab();
    }
}
