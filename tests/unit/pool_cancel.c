/* Tickets, and cancelling one task by its ticket. */
#include "pools.h"

#include <stdatomic.h>

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static lw_ticket submit_for_ticket(lw_pool *pool, lw_pool_fn fn, void *arg) {
    lw_ticket ticket = 0;
    assert_status(lw_pool_submit_with(pool, fn, arg, LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL),
                  LW_OK);
    assert_int_not_equal(ticket, 0);
    return ticket;
}

TEST(a_queued_task_that_is_cancelled_goes_to_on_drop_before_the_call_returns) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, 0, count_drop);
    gate_open(&full.gate);
    assert_status(lw_pool_wait_idle(full.pool, -1), LW_OK);
    struct gate gate = GATE;
    occupy(full.pool, &gate, 1);
    lw_ticket ticket = submit_for_ticket(full.pool, tally_task, &runs);
    assert_status(lw_pool_cancel(full.pool, ticket), LW_OK);
    assert_int_equal(tally_read(&drops), 1);
    assert_status(lw_pool_cancel(full.pool, ticket), LW_ENOTFOUND);
    gate_open(&gate);
    close_full(&full);
    assert_int_equal(tally_read(&runs), 0);
    assert_int_equal(tally_read(&drops), 1);
}

TEST(a_running_task_that_is_cancelled_is_told_so) {
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    lw_ticket ticket = submit_for_ticket(pool, until_done_task, &gate);
    tally_await(&gate.arrived, 1);
    assert_status(lw_pool_cancel(pool, ticket), LW_PENDING);
    tally_await(&gate.passed, 1);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_status(lw_pool_cancel(pool, ticket), LW_ENOTFOUND);
    close_pool(pool);
    assert_int_equal(tally_read(&drops), 0);
}

struct held {
    struct gate gate;
    lw_reason reason;
    bool is_stopping;
};

static void note_reason(lw_ctx *ctx, void *arg) {
    struct held *held = arg;
    gate_pass(&held->gate);
    held->reason = lw_ctx_reason(ctx);
    held->is_stopping = lw_ctx_stopping(ctx);
}

TEST(a_cancelled_task_sees_that_as_its_reason_and_not_a_stop) {
    struct held held = {.gate = GATE};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    lw_ticket ticket = submit_for_ticket(pool, note_reason, &held);
    tally_await(&held.gate.arrived, 1);
    assert_status(lw_pool_cancel(pool, ticket), LW_PENDING);
    assert_status(lw_pool_cancel(pool, ticket), LW_PENDING); /* it still runs */
    gate_open(&held.gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(held.reason, LW_REASON_CANCELLED);
    assert_false(held.is_stopping);
    close_pool(pool);
}

TEST(the_next_task_of_the_same_worker_is_not_cancelled_with_it) {
    struct held first = {.gate = GATE}, second = {.gate = GATE};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    gate_open(&second.gate);
    lw_ticket ticket = submit_for_ticket(pool, note_reason, &first);
    submit_for_ticket(pool, note_reason, &second);
    tally_await(&first.gate.arrived, 1);
    assert_status(lw_pool_cancel(pool, ticket), LW_PENDING);
    gate_open(&first.gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(second.reason, LW_REASON_NONE);
    close_pool(pool);
}

struct own_ticket {
    lw_pool *pool;
    lw_ticket ticket;
    struct tally runs;
};

static void cancel_oneself(lw_ctx *ctx, void *arg) {
    struct own_ticket *own = arg;
    assert_status(lw_pool_cancel(own->pool, own->ticket), LW_PENDING);
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_CANCELLED);
    tally_add(&own->runs, 1);
}

TEST(a_task_finds_its_ticket_written_and_may_cancel_itself) {
    for (int i = 0; i < 500; i++) {
        struct own_ticket own = {.pool = OPEN_POOL(.min_workers = 1), .runs = TALLY};
        assert_status(lw_pool_submit_with(own.pool, cancel_oneself, &own,
                                          LW_SUBMIT_OPTIONS(.ticket = &own.ticket), NULL),
                      LW_OK);
        tally_await(&own.runs, 1);
        close_pool(own.pool);
    }
}

TEST(a_task_that_the_caller_runs_has_a_ticket_too) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, count_drop);
    struct own_ticket own = {.pool = full.pool, .runs = TALLY};
    assert_status(lw_pool_submit_with(full.pool, cancel_oneself, &own,
                                      LW_SUBMIT_OPTIONS(.ticket = &own.ticket), NULL),
                  LW_OK);
    assert_int_equal(tally_read(&own.runs), 1);
    assert_status(lw_pool_cancel(full.pool, own.ticket), LW_ENOTFOUND);
    close_full(&full);
}

TEST(tickets_of_tasks_that_live_are_all_different) {
    enum { COUNT = 500 };
    struct gate gate = GATE;
    lw_ticket tickets[COUNT];
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = COUNT);
    occupy(pool, &gate, 1);
    for (int i = 0; i < COUNT; i++) {
        tickets[i] = submit_for_ticket(pool, tally_task, &runs);
        for (int j = 0; j < i; j++)
            CHECK(tickets[i] != tickets[j]);
    }
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    for (int i = 0; i < COUNT; i++)
        assert_status(lw_pool_cancel(pool, tickets[i]), LW_ENOTFOUND);
    assert_int_equal(tally_read(&runs), COUNT);
    close_pool(pool);
}

TEST(an_old_ticket_never_hits_a_later_task) {
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    lw_ticket old = submit_for_ticket(pool, tally_task, &runs);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    struct gate gate = GATE;
    occupy(pool, &gate, 1);
    for (int i = 0; i < 100; i++) {
        submit_for_ticket(pool, tally_task, &runs);
        assert_status(lw_pool_cancel(pool, old), LW_ENOTFOUND);
    }
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 101);
    close_pool(pool);
}

TEST(what_is_no_ticket_of_this_pool_finds_nothing) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *one = OPEN_POOL(.min_workers = 1), *two = OPEN_POOL(.min_workers = 1);
    occupy(one, &gate, 1);
    occupy(two, &gate, 1);
    lw_ticket of_one = submit_for_ticket(one, tally_task, &runs);
    submit_for_ticket(two, tally_task, &runs);
    assert_status(lw_pool_cancel(two, of_one), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(one, of_one + 1), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(one, UINT64_MAX), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(one, 1), LW_ENOTFOUND);
    assert_status(lw_pool_cancel(one, 0), LW_EINVAL);
    assert_status(lw_pool_cancel(NULL, of_one), LW_EINVAL);
    gate_open(&gate);
    assert_status(lw_pool_stop(one, LW_DRAIN, -1), LW_OK);
    assert_status(lw_pool_stop(two, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 2);
    close_pool(one);
    close_pool(two);
}

TEST(cancelled_tasks_leave_neither_memory_nor_places_behind) {
    struct tally runs = TALLY;
    lw_test_memory *memory = open_memory();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 4, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    for (int round = 0; round < 200; round++) {
        struct gate gate = GATE;
        occupy(pool, &gate, 1);
        for (int i = 0; i < 4; i++)
            assert_status(lw_pool_cancel(pool, submit_for_ticket(pool, tally_task, &runs)), LW_OK);
        gate_open(&gate);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    }
    assert_int_equal(tally_read(&drops), 800);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
    close_memory(memory);
}

TEST(a_cancelled_task_is_not_dropped_once_more_by_a_stop_or_by_drop_oldest) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 2, .overflow = LW_DROP_OLDEST,
                              .on_drop = count_drop);
    occupy(pool, &gate, 1);
    lw_ticket one = submit_for_ticket(pool, tally_task, &runs);
    lw_ticket two = submit_for_ticket(pool, tally_task, &runs);
    assert_status(lw_pool_cancel(pool, one), LW_OK);
    assert_status(lw_pool_cancel(pool, two), LW_OK);
    submit_times(pool, tally_task, &runs, 1); /* in the place of the first */
    assert_int_equal(tally_read(&drops), 2);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&drops), 3);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    assert_int_equal(tally_read(&drops), 3);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
}

static void submit_and_cancel_inside(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct own_ticket *own = arg;
    submit_times(own->pool, tally_task, &own->runs, 1); /* fills the queue */
    lw_ticket ticket = submit_for_ticket(own->pool, tally_task, &own->runs);
    assert_status(lw_pool_cancel(own->pool, ticket), LW_OK);
    assert_int_equal(tally_read(&drops), 1);
}

TEST(a_task_that_waits_behind_the_one_that_submitted_it_can_be_cancelled) {
    struct own_ticket own = {.runs = TALLY};
    own.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .on_drop = count_drop);
    assert_status(lw_pool_submit(own.pool, submit_and_cancel_inside, &own), LW_OK);
    assert_status(lw_pool_wait_idle(own.pool, -1), LW_OK);
    assert_int_equal(tally_read(&own.runs), 1);
    assert_int_equal(tally_read(&drops), 1);
    close_pool(own.pool);
}

/* ---- racing -------------------------------------------------------------------------------- */

struct race {
    lw_pool *pool;
    atomic_int runs;
};

static atomic_int dropped_races;

static void run_race(lw_ctx *ctx, void *arg) {
    (void)ctx;
    atomic_fetch_add(&((struct race *)arg)->runs, 1);
}

static void drop_race(void *arg) {
    (void)arg;
    atomic_fetch_add(&dropped_races, 1);
}

TEST(a_cancel_that_races_its_task_either_drops_it_or_leaves_it_alone) {
    struct race race = {.pool = OPEN_POOL(.min_workers = 2, .on_drop = drop_race)};
    long rounds = test_scale(20000, 1000000);
    int cancelled = 0;
    for (long i = 0; i < rounds; i++) {
        lw_ticket ticket = submit_for_ticket(race.pool, run_race, &race);
        cancelled += lw_pool_cancel(race.pool, ticket) == LW_OK;
    }
    assert_status(lw_pool_stop(race.pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(atomic_load(&dropped_races), cancelled);
    assert_int_equal(atomic_load(&race.runs), rounds - cancelled);
    close_pool(race.pool);
}
