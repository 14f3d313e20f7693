/* Closing: a pool that nobody stopped, one whose stop timed out, and one from inside a task. */
#include "pools.h"

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

struct inside {
    lw_pool *pool;
    struct gate gate;
    int rc;
    bool was_stopping;
};

TEST(a_close_without_stop_drops_and_waits) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    assert_status(lw_pool_submit(pool, until_done_task, &gate), LW_OK);
    tally_await(&gate.arrived, 1);
    submit_times(pool, tally_task, &runs, 10);
    close_pool(pool);
    assert_int_equal(tally_read(&gate.passed), 1);
    assert_int_equal(tally_read(&drops), 10);
    assert_int_equal(tally_read(&runs), 0);
}

static void *do_nothing(void *arg) {
    return arg;
}

TEST(a_close_after_a_stop_that_timed_out_leaves_what_runs_behind_to_free_the_pool) {
    struct gate gate = GATE;
    lw_test_memory *memory = open_memory();
    join_thread(start_thread(do_nothing, NULL)); /* sanitizers have threads too */
    int threads = thread_count(), fds = fd_count();
    lw_pool *pool = OPEN_POOL(.min_workers = 3, .task_timeout_ms = 1000000, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    occupy(pool, &gate, 3);
    submit_times(pool, tally_task, NULL, 7);
    assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    assert_status(lw_pool_close(pool), LW_PENDING);
    assert_int_equal(tally_read(&drops), 7); /* before it returned */
    assert_false(is_all_freed(memory));
    gate_open(&gate);
    await_that(is_all_freed(memory) && thread_count() == threads);
    assert_int_equal(fd_count(), fds);
    close_memory(memory);
}

TEST(a_close_after_a_second_stop_that_succeeded_leaves_nothing) {
    struct gate gate = GATE;
    lw_test_memory *memory = open_memory();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .allocator = lw_test_memory_allocator(memory));
    occupy(pool, &gate, 1);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    close_pool(pool);
    close_memory(memory);
}

static void close_inside(lw_ctx *ctx, void *arg) {
    struct inside *in = arg;
    tally_await(&in->gate.opened, 1); /* nothing may run beside a close, not even its submit */
    in->rc = lw_pool_close(in->pool);
    in->was_stopping = lw_ctx_stopping(ctx) && lw_ctx_reason(ctx) == LW_REASON_DROPPED;
    tally_add(&in->gate.passed, 1);
}

TEST(a_close_from_inside_a_task_is_completed_by_that_task) {
    for (int round = 0; round < test_scale(100, 5000); round++) {
        lw_test_memory *memory = open_memory();
        struct inside in = {.gate = GATE};
        in.pool = OPEN_POOL(.min_workers = 1 + round % 3, .on_drop = count_drop,
                            .task_timeout_ms = round % 2 ? 100000 : 0,
                            .allocator = lw_test_memory_allocator(memory));
        assert_status(lw_pool_submit(in.pool, close_inside, &in), LW_OK);
        gate_open(&in.gate);
        tally_await(&in.gate.passed, 1);
        assert_status(in.rc, LW_PENDING);
        assert_true(in.was_stopping);
        await_that(is_all_freed(memory));
        close_memory(memory);
    }
}

TEST(a_close_from_inside_a_task_that_the_caller_runs_is_completed_by_that_task) {
    struct gate gate = GATE;
    lw_test_memory *memory = open_memory();
    struct inside in = {.gate = GATE};
    in.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .overflow = LW_CALLER_RUNS,
                        .on_drop = count_drop, .allocator = lw_test_memory_allocator(memory));
    occupy(in.pool, &gate, 1);
    submit_times(in.pool, tally_task, NULL, 1);
    gate_open(&in.gate);
    assert_status(lw_pool_submit(in.pool, close_inside, &in), LW_OK);
    assert_status(in.rc, LW_PENDING);
    assert_int_equal(tally_read(&drops), 1);
    gate_open(&gate);
    await_that(is_all_freed(memory));
    close_memory(memory);
}

TEST(closing_no_pool_is_fine) {
    assert_status(lw_pool_close(NULL), LW_OK);
}
