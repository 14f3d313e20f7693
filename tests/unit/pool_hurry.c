/* Where tasks are short a worker takes several at once and runs them without looking up. These are
 * the promises that this must not break. On the system's clock: on a test clock nobody hurries. */
#include "pools.h"

#include "pool/pool_internal.h"

#include <stdatomic.h>

enum { WARM_UP = 4000, BATCH = 32 };

static atomic_long ticks;

static void tick(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    atomic_fetch_add_explicit(&ticks, 1, memory_order_relaxed);
}

/* Tasks so short and so many that workers hurry; then `first`, and ticks to fill a batch, at once,
 * so that they are probably taken together. Whether they are changes nothing that is asserted. */
static void hurry_into(lw_pool *pool, const lw_pool_task *first, int count) {
    lw_pool_task tasks[BATCH];
    submit_times(pool, tick, NULL, WARM_UP);
    for (int i = 0; i < BATCH; i++)
        tasks[i] = i < count ? first[i] : (lw_pool_task){tick, NULL};
    assert_status(lw_pool_submit_many(pool, tasks, BATCH, NULL), LW_OK);
}

TEST(what_waits_behind_a_slow_task_is_run_by_another_worker) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = 8192);
    for (int round = 0; round < test_scale(20, 1000); round++) {
        struct gate gate = GATE;
        long before = atomic_load(&ticks);
        hurry_into(pool, &(lw_pool_task){gate_task, &gate}, 1);
        tally_await(&gate.arrived, 1);
        await_that(atomic_load(&ticks) == before + WARM_UP + BATCH - 1);
        submit_times(pool, tick, NULL, 100); /* newcomers too */
        await_that(atomic_load(&ticks) == before + WARM_UP + BATCH - 1 + 100);
        gate_open(&gate);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    }
    close_pool(pool);
}

TEST(two_slow_tasks_that_were_taken_together_lose_nothing_behind_them) {
    lw_ctx *clock;
    assert_status(lw_ctx_open(&clock, NULL, NULL), LW_OK);
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 8192);
    for (int round = 0; round < test_scale(60, 3000); round++) {
        struct gate one = GATE, two = GATE;
        const lw_pool_task first[] = {{gate_task, &one}, {tick, NULL}, {gate_task, &two}};
        long before = atomic_load(&ticks);
        hurry_into(pool, first, 3);
        tally_await(&one.arrived, 1);
        await_that(stats_of(pool).queued == BATCH - 1); /* taken from it */
        gate_open(&one);
        tally_await(&two.arrived, 1);
        lw_ctx_sleep(clock, 5); /* nothing tells that the monitor has looked, every 2 ms */
        gate_open(&two);
        await_that(atomic_load(&ticks) == before + WARM_UP + BATCH - 2);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    }
    close_pool(pool);
    lw_ctx_close(clock);
}

static void leave(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    pthread_exit(NULL);
}

TEST(a_task_that_ends_its_thread_costs_none_of_those_taken_with_it) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 8192);
    for (int round = 0; round < test_scale(20, 1000); round++) {
        const lw_pool_task first[] = {{tick, NULL}, {leave, NULL}, {leave, NULL}};
        long before = atomic_load(&ticks);
        hurry_into(pool, first, 3);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        assert_int_equal(atomic_load(&ticks), before + WARM_UP + BATCH - 2);
        assert_int_equal(stats_of(pool).workers, 1);
    }
    close_pool(pool);
}

static void check_time_left(lw_ctx *ctx, void *arg) {
    (void)arg;
    int64_t left_ms = lw_ctx_left_ms(ctx);
    CHECK(left_ms > 3500000 && left_ms <= 3600000 && !lw_ctx_done(ctx));
}

TEST(a_short_task_knows_how_much_time_is_left) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .task_timeout_ms = 3600000);
    submit_times(pool, check_time_left, NULL, 20000);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK); /* a close would tell them to end */
    close_pool(pool);
}

TEST(a_task_among_short_ones_ends_at_its_guard_timeout) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 8192, .task_timeout_ms = 20);
    for (int round = 0; round < 5; round++) {
        struct gate gate = GATE;
        hurry_into(pool, &(lw_pool_task){until_done_task, &gate}, 1);
        tally_await(&gate.passed, 1);
    }
    close_pool(pool);
}

static void with_value(lw_ctx *ctx, void *arg) {
    (void)arg;
    size_t size;
    const void *value = lw_ctx_value(ctx, &size);
    assert_int_equal(size, 5);
    assert_memory_equal(value, "trace", 5);
}

static void without_value(lw_ctx *ctx, void *arg) {
    (void)arg;
    size_t size = 77;
    assert_null(lw_ctx_value(ctx, &size));
    assert_int_equal(size, 0);
}

TEST(what_came_along_with_one_short_task_is_not_seen_by_the_next) {
    enum { COUNT = 5000 };
    lw_ctx *ctx;
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = COUNT);
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = "trace", .value_size = 5), NULL),
                  LW_OK);
    for (int i = 0; i < COUNT; i++) {
        const lw_submit_options *options = LW_SUBMIT_OPTIONS(.ctx = i % 5 ? NULL : ctx);
        lw_pool_fn fn = i % 5 ? without_value : with_value;
        assert_status(lw_pool_submit_with(pool, fn, NULL, options, NULL), LW_OK);
    }
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
    lw_ctx_close(ctx);
}

/* Beside busy neighbours a worker has lost its core: a submitter that looks for room would only use
 * up its own. */
TEST(a_look_for_room_in_vain_makes_the_next_one_shorter) {
    enum { LOOKS = 8 };
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .max_workers = 1, .queue_limit = 2);
    uint32_t before = 0, shift = 0;
    occupy(pool, &gate, 1);
    submit_times(pool, tick, NULL, 2);
    for (int i = 0; i < LOOKS; i++) {
        atomic_store(&pool->mean_ns, 0); /* tasks are short, for all that it knows */
        assert_status(
            lw_pool_submit_with(pool, tick, NULL, LW_SUBMIT_OPTIONS(.timeout_ms = 1), NULL),
            LW_ETIMEDOUT);
        shift = atomic_load(&pool->room_spin_shift);
        CHECK(shift > before || i > 2);
        before = shift;
    }
    CHECK(shift >= 3);
    gate_open(&gate);
    close_pool(pool);
}
