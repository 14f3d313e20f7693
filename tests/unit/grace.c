/* What is retired is freed once, when no reader can know it any more, and no later than need be. */
#include "gate.h"
#include "test.h"

#include "base/grace.h"
#include "base/memory.h"
#include "base/random.h"

#include <legwork/testing.h>
#include <sched.h>

static struct lw__grace grace;
static lw_test_memory *memory;

enum { FREED_MAX = 20000 };
static uintptr_t freed[FREED_MAX]; /* the details, in order */
static uint32_t freed_count;

static void note_free(void *user, void *ptr, uintptr_t detail) {
    assert_ptr_equal(user, &memory);
    assert_ptr_equal(ptr, (char *)&freed + detail);
    CHECK(freed_count < FREED_MAX);
    freed[freed_count++] = detail;
}

static void open_grace(lw__grace_free_fn free_fn) {
    assert_status(lw_test_memory_open(&memory), LW_OK);
    lw__grace_init(&grace, lw_test_memory_allocator(memory), free_fn, &memory);
    freed_count = 0;
}

static void close_grace(void) {
    uint64_t blocks;
    lw__grace_free(&grace);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static uint64_t allocations(void) {
    uint64_t calls;
    lw_test_memory_usage(memory, NULL, NULL, &calls);
    return calls;
}

static uint64_t bytes(void) {
    uint64_t count;
    lw_test_memory_usage(memory, NULL, &count, NULL);
    return count;
}

static void retire(uintptr_t detail) {
    lw__grace_retire(&grace, (char *)&freed + detail, detail);
}

/* ---- one thread ---- */

TEST(without_readers_a_collect_frees_everything_in_order) {
    open_grace(note_free);
    for (uint32_t i = 0; i < 1000; i++)
        retire(i);
    assert_int_equal(freed_count, 0);
    lw__grace_collect(&grace);
    assert_int_equal(freed_count, 1000);
    for (uint32_t i = 0; i < 1000; i++)
        assert_int_equal(freed[i], i);
    lw__grace_collect(&grace);
    assert_int_equal(freed_count, 1000);
    close_grace();
}

TEST(a_reader_keeps_what_was_retired_after_it_came) {
    open_grace(note_free);
    uint32_t ticket = lw__grace_enter(&grace);
    for (uintptr_t i = 0; i < 10; i++) {
        retire(i);
        lw__grace_collect(&grace);
        lw__grace_collect(&grace);
        assert_int_equal(freed_count, 0);
    }
    lw__grace_leave(&grace, ticket);
    lw__grace_collect(&grace);
    assert_int_equal(freed_count, 10);
    close_grace();
}

TEST(readers_that_come_in_the_next_epoch_do_not_keep_it) {
    open_grace(note_free);
    uint32_t before = lw__grace_enter(&grace);
    retire(1);
    lw__grace_collect(&grace);
    uint32_t after = lw__grace_enter(&grace);
    lw__grace_leave(&grace, before);
    lw__grace_collect(&grace);
    assert_int_equal(freed_count, 1);
    lw__grace_leave(&grace, after);
    close_grace();
}

TEST(readers_that_relieve_each_other_do_not_keep_things_for_ever) {
    open_grace(note_free);
    uint32_t ticket = lw__grace_enter(&grace);
    for (uintptr_t i = 0; i < 100; i++) {
        retire(i);
        lw__grace_collect(&grace);
        uint32_t next = lw__grace_enter(&grace); /* somebody is inside at every moment */
        lw__grace_leave(&grace, ticket);
        lw__grace_collect(&grace);
        assert_true(freed_count >= i); /* the last one may have to wait for the next relief */
        ticket = next;
    }
    lw__grace_leave(&grace, ticket);
    close_grace();
}

TEST(a_pass_says_whether_somebody_may_still_be_looking) {
    open_grace(note_free);
    retire(1);
    assert_true(lw__grace_pass(&grace)); /* and what was retired is free */
    assert_int_equal(freed_count, 1);
    uint32_t before = lw__grace_enter(&grace);
    assert_false(lw__grace_pass(&grace));
    uint32_t after = lw__grace_enter(&grace); /* in the next epoch, and still it may know */
    lw__grace_leave(&grace, before);
    assert_false(lw__grace_pass(&grace));
    lw__grace_leave(&grace, after);
    assert_true(lw__grace_pass(&grace));
    close_grace();
}

TEST(a_section_within_a_section_does_not_end_the_outer_one) {
    open_grace(note_free);
    uint32_t outer = lw__grace_enter(&grace);
    retire(1);
    lw__grace_collect(&grace);
    lw__grace_leave(&grace, lw__grace_enter(&grace));
    lw__grace_collect(&grace);
    assert_int_equal(freed_count, 0);
    lw__grace_leave(&grace, outer);
    close_grace();
}

TEST(a_free_frees_what_was_retired_in_both_epochs) {
    open_grace(note_free);
    uint32_t ticket = lw__grace_enter(&grace);
    retire(1);
    lw__grace_collect(&grace);
    retire(2);
    lw__grace_leave(&grace, ticket);
    close_grace();
    assert_int_equal(freed_count, 2);
}

static void retire_two_more(void *user, void *ptr, uintptr_t detail) {
    note_free(user, ptr, detail);
    for (int i = 0; i < 2 && detail > 0; i++)
        retire(detail - 1);
}

TEST(a_free_function_may_retire_more_with_memory_and_without) {
    open_grace(retire_two_more);
    for (uint32_t round = 0; round < 3; round++) {
        for (int i = 0; i < 60; i++)
            retire(3);
        lw_test_memory_fail_at(memory, round == 0);
        lw__grace_collect(&grace);
        assert_int_equal(lw_test_memory_has_failed(memory), round == 0);
        assert_int_equal(freed_count, (round + 1) * 60 * (1 + 2 + 4 + 8));
    }
    close_grace();
}

/* ---- random use against a model: for each thing the readers that may know it ---- */

enum { READERS_MAX = 12, STEPS = 6000 };

static struct {
    bool is_inside[READERS_MAX];
    uint32_t tickets[READERS_MAX];
    uint32_t knows[STEPS]; /* bits of readers, by thing */
    bool is_freed[STEPS];
    uint32_t waiting_count;
} model;

static void check_free(void *user, void *ptr, uintptr_t detail) {
    (void)user, (void)ptr;
    assert_int_equal(model.knows[detail], 0);
    assert_false(model.is_freed[detail]);
    model.is_freed[detail] = true;
    model.waiting_count--;
}

static void model_retire(uint32_t thing) {
    for (int r = 0; r < READERS_MAX; r++)
        model.knows[thing] |= (uint32_t)model.is_inside[r] << r;
    model.waiting_count++;
    lw__grace_retire(&grace, &model, thing);
}

static void model_move(int reader, uint32_t things) {
    model.is_inside[reader] = !model.is_inside[reader];
    if (model.is_inside[reader]) {
        model.tickets[reader] = lw__grace_enter(&grace);
        return;
    }
    for (uint32_t i = 0; i < things; i++)
        model.knows[i] &= ~(UINT32_C(1) << reader);
    lw__grace_leave(&grace, model.tickets[reader]);
}

TEST(nothing_is_freed_that_a_reader_may_know_and_everything_when_nobody_is_inside) {
    struct lw__random random;
    lw__random_seed(&random, 20250117);
    open_grace(check_free);
    uint32_t things = 0;
    for (int step = 0; step < STEPS; step++) {
        uint64_t dice = lw__random_below(&random, 10);
        if (dice < 4)
            model_retire(things++);
        else if (dice < 8)
            model_move((int)lw__random_below(&random, READERS_MAX), things);
        else
            lw__grace_collect(&grace);
        if (step % 500 == 499) {
            for (int r = 0; r < READERS_MAX; r++)
                if (model.is_inside[r])
                    model_move(r, things);
            lw__grace_collect(&grace);
            assert_int_equal(model.waiting_count, 0);
        }
    }
    CHECK(things > 2000);
    close_grace();
}

/* ---- memory ---- */

TEST(steady_use_does_not_allocate) {
    open_grace(note_free);
    uint64_t before = 0;
    for (int round = 0; round < 200; round++) {
        uint32_t ticket = lw__grace_enter(&grace);
        for (uintptr_t i = 0; i < 50; i++)
            retire(i);
        lw__grace_collect(&grace);
        lw__grace_leave(&grace, ticket);
        lw__grace_collect(&grace);
        if (round == 1)
            before = allocations();
    }
    assert_int_equal(freed_count, 200 * 50);
    assert_int_equal(allocations(), before);
    close_grace();
}

TEST(what_was_reserved_is_retired_without_memory) {
    for (uint32_t count = 1; count < 700; count = count * 2 + 1) {
        open_grace(note_free);
        uint32_t ticket = lw__grace_enter(&grace); /* a wait would hang */
        for (uint32_t i = 0; i < count; i++)
            retire(i);
        lw_test_memory_fail_at(memory, 1);
        assert_false(lw__grace_reserve(&grace, 5000));
        assert_true(lw__grace_reserve(&grace, 5000));
        lw_test_memory_fail_at(memory, 1);
        for (uint32_t i = 0; i < 5000; i++)
            retire(i);
        assert_false(lw_test_memory_has_failed(memory));
        assert_int_equal(freed_count, 0);
        lw__grace_leave(&grace, ticket);
        close_grace();
        assert_int_equal(freed_count, 5000 + count);
    }
}

TEST(more_than_could_ever_be_counted_is_not_reserved) {
    open_grace(note_free);
    retire(1);
    assert_false(lw__grace_reserve(&grace, UINT32_MAX));
    assert_false(lw__grace_reserve(&grace, UINT32_C(1) << 30));
    close_grace();
}

TEST(after_a_reader_that_stayed_long_the_memory_is_given_back_bit_by_bit) {
    open_grace(note_free);
    uint32_t ticket = lw__grace_enter(&grace);
    for (uintptr_t i = 0; i < 10000; i++)
        retire(i);
    lw__grace_leave(&grace, ticket);
    assert_true(bytes() >= 10000 * sizeof(struct lw__grace_item));
    for (uintptr_t i = 0; i < 10; i++) {
        lw__grace_collect(&grace);
        retire(i);
    }
    assert_true(bytes() <= 1024 * sizeof(struct lw__grace_item));
    close_grace();
}

/* The numbers of the places wrap at 2^32. */
TEST(the_ring_goes_on_past_the_end_of_its_numbers) {
    open_grace(note_free);
    grace.old = grace.young = grace.end = UINT32_MAX - 100;
    atomic_store(&grace.epoch, UINT32_MAX);
    for (uintptr_t i = 0; i < 300; i++) {
        uint32_t ticket = lw__grace_enter(&grace);
        retire(i);
        lw__grace_collect(&grace);
        assert_int_equal(freed_count, i);
        lw__grace_leave(&grace, ticket);
        lw__grace_collect(&grace);
        assert_int_equal(freed_count, i + 1);
        assert_int_equal(freed[i], i);
    }
    close_grace();
}

/* ---- threads ---- */

static struct gate inside = GATE;
static _Atomic bool has_left;

static void *stay_inside(void *arg) {
    (void)arg;
    uint32_t ticket = lw__grace_enter(&grace);
    gate_pass(&inside);
    for (int i = 0; i < 1000; i++)
        sched_yield();
    atomic_store(&has_left, true);
    lw__grace_leave(&grace, ticket);
    return NULL;
}

static void check_left(void *user, void *ptr, uintptr_t detail) {
    assert_true(atomic_load(&has_left));
    note_free(user, ptr, detail);
}

/* The reader is of this epoch, or of the one before. */
static void retire_without_memory(bool is_of_this_epoch) {
    pthread_t thread;
    open_grace(check_left);
    assert_true(lw__grace_reserve(&grace, 1));
    uint32_t room = grace.capacity;
    assert_int_equal(pthread_create(&thread, NULL, stay_inside, NULL), 0);
    tally_await(&inside.arrived, 1);
    for (uintptr_t i = 0; i < room; i++)
        retire(i);
    if (!is_of_this_epoch)
        lw__grace_collect(&grace);
    lw_test_memory_fail_at(memory, 1);
    gate_open(&inside);
    retire(room);
    assert_true(lw_test_memory_has_failed(memory));
    assert_int_equal(freed_count, room + 1);
    assert_int_equal(freed[room], room);
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_grace();
}

TEST(a_retire_without_memory_waits_for_the_readers_of_this_epoch) {
    retire_without_memory(true);
}

TEST(a_retire_without_memory_waits_for_the_readers_of_the_epoch_before) {
    retire_without_memory(false);
}

TEST(threads_are_spread_over_the_stripes) {
    pthread_t threads[32];
    open_grace(note_free);
    for (int i = 0; i < 32; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, stay_inside, NULL), 0);
    tally_await(&inside.arrived, 32);
    uint32_t used = 0, most = 0;
    for (int i = 0; i < LW__GRACE_STRIPES; i++) {
        uint32_t readers = atomic_load(&grace.stripes[i].readers[0]);
        used += readers > 0;
        most = readers > most ? readers : most;
    }
    assert_true(used >= LW__GRACE_STRIPES / 2);
    assert_true(most <= 16);
    gate_open(&inside);
    for (int i = 0; i < 32; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    close_grace();
}

/* Readers follow a few pointers that a writer changes all the time. */
enum { SHARED = 4, ALIVE = 0x600d, READER_THREADS = 3 };

struct thing {
    uint32_t mark;
};

static struct thing *_Atomic shared[SHARED];
static _Atomic bool is_over;

static void kill_thing(void *user, void *ptr, uintptr_t detail) {
    (void)user, (void)detail;
    ((struct thing *)ptr)->mark = 0;
    lw__free(grace.allocator, ptr, sizeof(struct thing));
}

static struct thing *new_thing(void) {
    struct thing *thing = lw__alloc(grace.allocator, sizeof *thing);
    assert_non_null(thing);
    thing->mark = ALIVE;
    return thing;
}

static void *read_things(void *arg) {
    for (uint32_t i = 0; !atomic_load_explicit(&is_over, memory_order_relaxed); i++) {
        uint32_t ticket = lw__grace_enter(&grace);
        struct thing *thing = atomic_load_explicit(&shared[i % SHARED], memory_order_acquire);
        if (i % 64 == 0)
            sched_yield(); /* with the pointer in hand */
        CHECK(thing->mark == ALIVE);
        lw__grace_leave(&grace, ticket);
    }
    return arg;
}

TEST(readers_on_other_threads_never_see_what_was_freed) {
    pthread_t threads[READER_THREADS];
    struct lw__random random;
    lw__random_seed(&random, 7);
    open_grace(kill_thing);
    for (int i = 0; i < SHARED; i++)
        atomic_store(&shared[i], new_thing());
    for (int i = 0; i < READER_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_things, NULL), 0);
    long rounds = test_scale(200000, 5000000) / (test_is_sanitized() ? 10 : 1);
    for (long i = 0; i < rounds; i++) {
        struct thing *old = atomic_exchange_explicit(&shared[lw__random_below(&random, SHARED)],
                                                     new_thing(), memory_order_acq_rel);
        uint64_t dice = lw__random_below(&random, 6);
        if (dice < 2 && lw__grace_pass(&grace)) {
            kill_thing(NULL, old, 0);
            continue;
        }
        lw__grace_retire(&grace, old, 0);
        if (dice > 3)
            lw__grace_collect(&grace);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < READER_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < SHARED; i++)
        lw__grace_retire(&grace, atomic_load(&shared[i]), 0);
    close_grace();
}
