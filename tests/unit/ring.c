/* The ring: bounded, in order, for many producers and consumers, and barred when told to. */
#include "pools.h"

#include "base/ring.h"

#include <sched.h>
#include <stdlib.h>

/* A ring on a memory that is found empty at the end. */
struct fixture {
    lw_test_memory *memory;
    struct lw__ring ring;
};

static void set_up(struct fixture *f, uint64_t limit) {
    f->memory = open_memory();
    assert_true(lw__ring_init(&f->ring, lw_test_memory_allocator(f->memory), limit));
}

static void tear_down(struct fixture *f) {
    lw__ring_free(&f->ring, lw_test_memory_allocator(f->memory));
    lw__ring_free(&f->ring, lw_test_memory_allocator(f->memory)); /* again is fine */
    close_memory(f->memory);
}

static void no_function(void) {}

static struct lw__ring_item item_of(uintptr_t number) {
    return (struct lw__ring_item){.fn = no_function, .arg = (void *)number};
}

/* Pushes the numbers from `first` on; how many were taken, 0 for none. */
static uint64_t push_from(struct lw__ring *ring, uintptr_t first, uint64_t count) {
    struct lw__ring_item items[300];
    struct lw__ring_push push = {0};
    CHECK(count <= 300);
    for (uint64_t i = 0; i < count; i++)
        items[i] = item_of(first + i);
    uint64_t accepted = lw__ring_accepted(ring);
    enum lw__ring_result result = lw__ring_push(ring, items, count, &push);
    if (result != LW__RING_PUSHED) {
        assert_int_equal(result, LW__RING_FULL);
        assert_int_equal(lw__ring_accepted(ring), accepted);
        return 0;
    }
    assert_int_equal(push.position, accepted);
    assert_int_equal(push.bars, 0);
    assert_int_equal(lw__ring_accepted(ring), accepted + push.count);
    return push.count;
}

/* Pops up to `max` and asserts that they are the numbers from `first` on. */
static uint32_t pop_from(struct lw__ring *ring, uintptr_t first, uint32_t max) {
    struct lw__ring_item items[300];
    uint64_t position = UINT64_MAX, taken = lw__ring_accepted(ring) - lw__ring_depth(ring);
    CHECK(max <= 300);
    uint32_t n = lw__ring_pop(ring, items, max, &position);
    CHECK(n <= max);
    for (uint32_t i = 0; i < n; i++) {
        assert_ptr_equal(items[i].arg, (void *)(first + i));
        CHECK(items[i].fn == no_function);
    }
    if (n > 0)
        assert_int_equal(position, taken);
    return n;
}

/* ---- limits -------------------------------------------------------------------------------- */

TEST(a_ring_holds_exactly_its_limit) {
    static const uint64_t limits[] = {1, 2, 3, 4, 5, 7, 8, 9, 100, 127, 128, 129, 255, 256, 257};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct fixture f;
        set_up(&f, limits[i]);
        uintptr_t next_in = 0, next_out = 0;
        for (int lap = 0; lap < 5; lap++) {
            while (push_from(&f.ring, next_in, 1) == 1)
                next_in++;
            assert_int_equal(lw__ring_depth(&f.ring), limits[i]);
            assert_int_equal(next_in - next_out, limits[i]);
            assert_int_equal(pop_from(&f.ring, next_out++, 1), 1);
            assert_int_equal(push_from(&f.ring, next_in++, 1), 1); /* one out, one in … */
            assert_int_equal(push_from(&f.ring, next_in, 1), 0);   /* … and no more */
            while (pop_from(&f.ring, next_out, 1) == 1)
                next_out++;
            assert_int_equal(next_out, next_in);
            assert_int_equal(lw__ring_depth(&f.ring), 0);
        }
        tear_down(&f);
    }
}

TEST(a_place_costs_no_more_than_24_bytes) {
    struct fixture f;
    uint64_t bytes, blocks;
    set_up(&f, 1 << 16);
    lw_test_memory_usage(f.memory, &blocks, &bytes, NULL);
    assert_int_equal(blocks, 1);
    CHECK(bytes <= 24 * (1 << 16));
    tear_down(&f);
}

TEST(without_memory_there_is_no_ring) {
    struct lw__ring ring = {0};
    lw_test_memory *memory = open_memory();
    lw_test_memory_fail_at(memory, 1);
    assert_false(lw__ring_init(&ring, lw_test_memory_allocator(memory), 10));
    lw__ring_free(&ring, lw_test_memory_allocator(memory));
    close_memory(memory);
}

/* ---- batches ------------------------------------------------------------------------------- */

TEST(a_batch_that_does_not_fit_is_put_from_its_first_on) {
    struct fixture f;
    set_up(&f, 10);
    assert_int_equal(push_from(&f.ring, 0, 7), 7);
    assert_int_equal(push_from(&f.ring, 7, 7), 3);
    assert_int_equal(push_from(&f.ring, 10, 7), 0);
    assert_int_equal(pop_from(&f.ring, 0, 4), 4);
    assert_int_equal(push_from(&f.ring, 10, 7), 4);
    assert_int_equal(pop_from(&f.ring, 4, 300), 10);
    assert_int_equal(push_from(&f.ring, 14, 300), 10);
    assert_int_equal(pop_from(&f.ring, 14, 300), 10);
    assert_int_equal(pop_from(&f.ring, 24, 300), 0);
    tear_down(&f);
}

TEST(a_pop_takes_what_is_there_and_nothing_from_an_empty_ring) {
    struct fixture f;
    set_up(&f, 64);
    assert_int_equal(pop_from(&f.ring, 0, 1), 0);
    assert_false(lw__ring_has_items(&f.ring));
    assert_int_equal(push_from(&f.ring, 0, 5), 5);
    assert_true(lw__ring_has_items(&f.ring));
    assert_int_equal(pop_from(&f.ring, 0, 0), 0);
    assert_int_equal(pop_from(&f.ring, 0, 3), 3);
    assert_int_equal(pop_from(&f.ring, 3, 3), 2);
    assert_false(lw__ring_has_items(&f.ring));
    tear_down(&f);
}

/* Batches of changing sizes on both ends; what is in the ring is always a run of numbers. */
TEST(order_and_count_are_kept_over_many_laps) {
    static const uint64_t limits[] = {1, 2, 3, 6, 8, 13, 64, 100};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct fixture f;
        set_up(&f, limits[i]);
        uintptr_t next_in = 0, next_out = 0;
        for (uint64_t step = 0; step < 20000; step++) {
            uint64_t put = 1 + step * 7 % (limits[i] + 3);
            uint32_t max = 1 + (uint32_t)(step * 5 % (limits[i] + 2));
            uint64_t room = limits[i] - (next_in - next_out);
            uint64_t n = push_from(&f.ring, next_in, put);
            assert_int_equal(n, put < room ? put : room);
            next_in += n;
            assert_int_equal(lw__ring_depth(&f.ring), next_in - next_out);
            assert_int_equal(lw__ring_accepted(&f.ring), next_in);
            uint32_t taken = pop_from(&f.ring, next_out, max);
            assert_int_equal(taken, next_in - next_out < max ? next_in - next_out : max);
            next_out += taken;
        }
        CHECK(next_in > 1000 * (limits[i] < 13 ? limits[i] : 13));
        tear_down(&f);
    }
}

/* A cell's turn has 8 bits, of which a lap takes two values; positions have more than 32 bits. */
TEST(a_ring_goes_on_when_its_turns_wrap) {
    struct fixture f;
    set_up(&f, 6);
    uint64_t start = (UINT64_C(1) << 32) - 8 * 128; /* 8 cells, 128 laps: all turns are 0 again */
    atomic_store(&f.ring.head, start);
    atomic_store(&f.ring.tail, start);
    uintptr_t next_in = 0, next_out = 0;
    for (int step = 0; step < 2000; step++) {
        next_in += push_from(&f.ring, next_in, 4);
        next_out += pop_from(&f.ring, next_out, 3);
    }
    CHECK(lw__ring_accepted(&f.ring) > UINT64_C(1) << 32);
    assert_int_equal(lw__ring_accepted(&f.ring), start + next_in);
    assert_int_equal(lw__ring_depth(&f.ring), next_in - next_out);
    tear_down(&f);
}

static void other_function(void) {}

/* The ring keeps its turns in bits of the function's address. */
TEST(an_item_comes_out_as_it_went_in) {
    static const uintptr_t args[] = {0, 1, UINTPTR_MAX, UINTPTR_MAX - 1, UINTPTR_MAX / 2 + 1};
    struct fixture f;
    set_up(&f, 3);
    for (int step = 0; step < 2000; step++) {
        struct lw__ring_item item = {.fn = step % 2 ? no_function : other_function,
                                     .arg = (void *)args[step % 5]};
        struct lw__ring_item out = item_of(4711);
        struct lw__ring_push push = {0};
        uint64_t position;
        assert_int_equal(lw__ring_push(&f.ring, &item, 1, &push), LW__RING_PUSHED);
        assert_int_equal(lw__ring_pop(&f.ring, &out, 1, &position), 1);
        CHECK(out.fn == item.fn && out.arg == item.arg);
        assert_int_equal(position, push.position);
    }
    tear_down(&f);
}

/* ---- bars ---------------------------------------------------------------------------------- */

static enum lw__ring_result push_passing(struct lw__ring *ring, uint64_t pass, uint64_t *bars) {
    struct lw__ring_item item = item_of(1);
    struct lw__ring_push push = {.pass = pass};
    enum lw__ring_result result = lw__ring_push(ring, &item, 1, &push);
    *bars = push.bars;
    return result;
}

TEST(a_bar_refuses_and_is_reported) {
    static const uint64_t all[] = {LW__RING_CLOSED, LW__RING_GATED, LW__RING_UNMANNED};
    struct fixture f;
    uint64_t bars;
    set_up(&f, 10);
    for (size_t i = 0; i < 3; i++) {
        lw__ring_bar(&f.ring, all[i]);
        assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_BARRED);
        assert_true(bars == all[i]);
        assert_int_equal(push_passing(&f.ring, LW__RING_BARS & ~all[i], &bars), LW__RING_BARRED);
        assert_true(bars == all[i]);
        assert_int_equal(lw__ring_accepted(&f.ring), i);
        assert_int_equal(push_passing(&f.ring, all[i], &bars), LW__RING_PUSHED);
        assert_true(bars == 0);
        lw__ring_unbar(&f.ring, all[i]);
        assert_int_equal(lw__ring_depth(&f.ring), i + 1);
        assert_int_equal(lw__ring_accepted(&f.ring), i + 1);
    }
    tear_down(&f);
}

TEST(of_several_bars_those_that_hold_are_reported) {
    struct fixture f;
    uint64_t bars;
    set_up(&f, 10);
    lw__ring_bar(&f.ring, LW__RING_GATED);
    lw__ring_bar(&f.ring, LW__RING_UNMANNED);
    lw__ring_bar(&f.ring, LW__RING_UNMANNED); /* again is the same */
    assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_BARRED);
    assert_true(bars == (LW__RING_GATED | LW__RING_UNMANNED));
    assert_int_equal(push_passing(&f.ring, LW__RING_GATED, &bars), LW__RING_BARRED);
    assert_true(bars == LW__RING_UNMANNED);
    lw__ring_unbar(&f.ring, LW__RING_UNMANNED);
    assert_int_equal(push_passing(&f.ring, LW__RING_GATED, &bars), LW__RING_PUSHED);
    lw__ring_unbar(&f.ring, LW__RING_CLOSED); /* which was not there */
    assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_BARRED);
    assert_true(bars == LW__RING_GATED);
    lw__ring_unbar(&f.ring, LW__RING_GATED);
    assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_PUSHED);
    tear_down(&f);
}

TEST(a_barred_ring_can_be_emptied) {
    struct fixture f;
    uint64_t bars;
    set_up(&f, 4);
    assert_int_equal(push_from(&f.ring, 0, 4), 4);
    lw__ring_bar(&f.ring, LW__RING_CLOSED);
    assert_int_equal(lw__ring_depth(&f.ring), 4);
    assert_int_equal(pop_from(&f.ring, 0, 3), 3);
    assert_int_equal(lw__ring_depth(&f.ring), 1);
    assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_BARRED);
    assert_true(lw__ring_has_items(&f.ring));
    assert_int_equal(pop_from(&f.ring, 3, 3), 1);
    assert_int_equal(lw__ring_accepted(&f.ring), 4);
    tear_down(&f);
}

TEST(a_bar_is_reported_even_of_a_full_ring_and_passing_it_makes_no_room) {
    struct fixture f;
    uint64_t bars;
    set_up(&f, 3);
    assert_int_equal(push_from(&f.ring, 0, 3), 3);
    lw__ring_bar(&f.ring, LW__RING_GATED);
    assert_int_equal(push_passing(&f.ring, 0, &bars), LW__RING_BARRED);
    assert_true(bars == LW__RING_GATED);
    assert_int_equal(push_passing(&f.ring, LW__RING_GATED, &bars), LW__RING_FULL);
    assert_true(bars == 0);
    tear_down(&f);
}

/* ---- many at once -------------------------------------------------------------------------- */

enum { THREADS_MAX = 4 };

/* Each producer puts its own numbers in order, in batches; each consumer sees every producer's
 * numbers in ascending order, and together they get each exactly once. */
struct traffic {
    struct lw__ring ring;
    long per_producer;
    _Atomic long left; /* items that no consumer has got yet */
    _Atomic unsigned char *seen;
};

struct party {
    struct traffic *traffic;
    long id;
    uint32_t batch;
    pthread_t thread;
};

static void *produce(void *arg) {
    struct party *p = arg;
    struct traffic *t = p->traffic;
    struct lw__ring_item items[32];
    for (long sent = 0; sent < t->per_producer;) {
        uint64_t count = p->batch;
        if ((long)count > t->per_producer - sent)
            count = (uint64_t)(t->per_producer - sent);
        for (uint64_t i = 0; i < count; i++)
            items[i] = item_of((uintptr_t)(p->id * t->per_producer + sent + (long)i));
        struct lw__ring_push push = {0};
        enum lw__ring_result result = lw__ring_push(&t->ring, items, count, &push);
        CHECK(result == LW__RING_PUSHED || result == LW__RING_FULL);
        if (result == LW__RING_PUSHED) {
            CHECK(push.count >= 1 && push.count <= count);
            CHECK(push.position + push.count <= atomic_load(&t->ring.head) + t->ring.limit);
            sent += (long)push.count;
        } else {
            sched_yield();
        }
    }
    return NULL;
}

static void *consume(void *arg) {
    struct party *p = arg;
    struct traffic *t = p->traffic;
    struct lw__ring_item items[32];
    long last[THREADS_MAX];
    for (int i = 0; i < THREADS_MAX; i++)
        last[i] = -1;
    while (atomic_load(&t->left) > 0) {
        uint64_t position;
        uint32_t n = lw__ring_pop(&t->ring, items, p->batch, &position);
        for (uint32_t i = 0; i < n; i++) {
            long number = (long)(uintptr_t)items[i].arg, producer = number / t->per_producer;
            CHECK(items[i].fn == no_function);
            CHECK(number > last[producer]);
            last[producer] = number;
            assert_int_equal(atomic_fetch_add(&t->seen[number], 1), 0);
        }
        if (n == 0)
            sched_yield();
        atomic_fetch_sub(&t->left, n);
    }
    return NULL;
}

static void run_traffic(int producers, int consumers, uint64_t limit, uint32_t batch, long count) {
    struct traffic t = {.per_producer = count / producers};
    long total = t.per_producer * producers;
    struct party parties[2 * THREADS_MAX];
    assert_true(lw__ring_init(&t.ring, NULL, limit));
    t.seen = calloc((size_t)total, sizeof *t.seen);
    atomic_store(&t.left, total);
    for (int i = 0; i < producers + consumers; i++) {
        parties[i] = (struct party){.traffic = &t, .id = i, .batch = batch};
        parties[i].thread = start_thread(i < producers ? produce : consume, &parties[i]);
    }
    while (atomic_load(&t.left) > 0) {
        CHECK(lw__ring_depth(&t.ring) <= (uint64_t)total); /* it may be asked at any time */
        sched_yield();
    }
    for (int i = 0; i < producers + consumers; i++)
        join_thread(parties[i].thread);
    for (long i = 0; i < total; i++)
        assert_int_equal(atomic_load(&t.seen[i]), 1);
    assert_int_equal(lw__ring_accepted(&t.ring), total);
    assert_int_equal(lw__ring_depth(&t.ring), 0);
    assert_false(lw__ring_has_items(&t.ring));
    free((void *)t.seen);
    lw__ring_free(&t.ring, NULL);
}

TEST(one_producer_and_one_consumer_lose_and_double_nothing) {
    run_traffic(1, 1, 100, 1, test_scale(50000, 10000000));
    run_traffic(1, 1, 100, 16, test_scale(200000, 10000000));
}

TEST(many_producers_and_one_consumer_lose_and_double_nothing) {
    run_traffic(4, 1, 13, 1, test_scale(50000, 10000000));
    run_traffic(4, 1, 64, 7, test_scale(100000, 10000000));
}

TEST(one_producer_and_many_consumers_lose_and_double_nothing) {
    run_traffic(1, 4, 13, 1, test_scale(50000, 10000000));
    run_traffic(1, 4, 64, 7, test_scale(100000, 10000000));
}

TEST(many_producers_and_many_consumers_lose_and_double_nothing) {
    run_traffic(3, 3, 1, 1, test_scale(20000, 2000000));
    run_traffic(3, 3, 2, 2, test_scale(20000, 2000000));
    run_traffic(4, 4, 48, 5, test_scale(100000, 10000000));
    run_traffic(2, 2, 1024, 32, test_scale(200000, 10000000));
}

/* ---- bars that fall in the middle of it ----------------------------------------------------- */

struct closing {
    struct lw__ring ring;
    _Atomic long pushed;
};

static void *push_until_closed(void *arg) {
    struct closing *c = arg;
    for (;;) {
        struct lw__ring_item item = item_of(1);
        struct lw__ring_push push = {0};
        switch (lw__ring_push(&c->ring, &item, 1, &push)) {
        case LW__RING_PUSHED: atomic_fetch_add(&c->pushed, 1); break;
        case LW__RING_BARRED: assert_true(push.bars == LW__RING_CLOSED); return NULL;
        case LW__RING_FULL: sched_yield(); break;
        }
    }
}

/* What the tail says when the bar falls is final, and all of it can be taken. */
TEST(nothing_slips_in_behind_a_bar) {
    for (int round = 0; round < test_scale(300, 5000); round++) {
        struct closing c = {.pushed = 0};
        pthread_t threads[2];
        struct lw__ring_item items[8];
        uint64_t position, accepted;
        long taken = 0;
        assert_true(lw__ring_init(&c.ring, NULL, 30));
        for (int i = 0; i < 2; i++)
            threads[i] = start_thread(push_until_closed, &c);
        while (taken < round)
            taken += lw__ring_pop(&c.ring, items, 8, &position);
        lw__ring_bar(&c.ring, LW__RING_CLOSED);
        accepted = lw__ring_accepted(&c.ring);
        while (lw__ring_depth(&c.ring) > 0) /* one that was accepted may not be there yet */
            taken += lw__ring_pop(&c.ring, items, 8, &position);
        assert_int_equal(taken, accepted);
        for (int i = 0; i < 2; i++)
            join_thread(threads[i]);
        assert_int_equal(atomic_load(&c.pushed), accepted);
        assert_int_equal(lw__ring_accepted(&c.ring), accepted);
        lw__ring_free(&c.ring, NULL);
    }
}
