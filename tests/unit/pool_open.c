/* Opening and closing: what a pool is by default, and that it leaves nothing behind. The options
 * that make no sense are in pool_badinput.c. */
#include "pools.h"

#include <sched.h>

static void *do_nothing(void *arg) {
    return arg;
}

/* What the process has. Sanitizers start a thread of their own with the first. */
struct traces {
    int threads, fds;
    lw_test_memory *memory;
};

static void begin_traces(struct traces *t) {
    join_thread(start_thread(do_nothing, NULL));
    *t = (struct traces){.memory = open_memory()};
    t->threads = thread_count();
    t->fds = fd_count();
}

static void expect_no_traces(struct traces *t) {
    assert_true(is_all_freed(t->memory));
    assert_int_equal(fd_count(), t->fds);
    await_that(thread_count() == t->threads);
}

TEST(a_pool_needs_no_options) {
    struct tally runs = TALLY;
    cpu_set_t cores;
    assert_int_equal(sched_getaffinity(0, sizeof cores, &cores), 0);
    lw_pool *pool = open_pool(NULL);
    assert_int_equal(stats_of(pool).workers, CPU_COUNT(&cores));
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), 1);
}

TEST(a_queue_holds_1024_tasks_by_default_and_blocks_then) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 1024);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_EFULL);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs,
                                      LW_SUBMIT_OPTIONS(.timeout_ms = LW_ZERO), NULL),
                  LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 1024);
    close_pool(pool);
}

TEST(a_queue_holds_exactly_as_many_as_it_was_asked_to) {
    const int limits[] = {1, 2, 3, 7, 8, 9, 1000};
    for (int i = 0; i < 7; i++) {
        struct gate gate = GATE;
        struct tally runs = TALLY;
        lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = limits[i]);
        for (int round = 0; round < 2; round++) {
            gate = (struct gate)GATE;
            occupy(pool, &gate, 1);
            for (int n = 0; n < limits[i]; n++)
                assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_OK);
            assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_EFULL);
            gate_open(&gate);
            assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        }
        assert_int_equal(tally_read(&runs), 2 * limits[i]);
        close_pool(pool);
    }
}

TEST(an_open_that_succeeds_leaves_the_error_alone) {
    lw_pool *pool;
    lw_error err = {.status = 77, .message = "untouched"};
    assert_status(lw_pool_open(&pool, NULL, &err), LW_OK);
    assert_int_equal(err.status, 77);
    assert_string_equal(err.message, "untouched");
    close_pool(pool);
}

TEST(a_name_is_one_that_a_log_and_a_terminal_can_hold) {
    static const char *const bad[] = {"x/y\n", "", "thirteen-long", "\xe2\x80\xae", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lw_pool *pool = NULL;
        lw_error err = {0};
        assert_status(lw_pool_open(&pool, LW_POOL_OPTIONS(.name = bad[i]), &err), LW_EINVAL);
        assert_sentence(&err, LW_EINVAL,
                        i == 0 ? "name \"x/y\\x0a\" has the byte 0x0a" : "name \"");
        assert_null(pool);
    }
}

TEST(options_are_copied) {
    char name[] = "mail";
    struct tally runs = TALLY;
    lw_allocator allocator;
    lw_test_memory *memory = open_memory();
    allocator = *lw_test_memory_allocator(memory);
    lw_pool_options options = {
        .struct_size = sizeof options, .name = name, .min_workers = 1, .allocator = &allocator};
    lw_pool *pool = open_pool(&options);
    name[0] = 0;
    allocator = (lw_allocator){0};
    options = (lw_pool_options){0};
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    close_pool(pool);
    close_memory(memory);
}

TEST(a_pool_takes_all_of_its_memory_from_the_allocator_it_was_given) {
    struct gate gate = GATE;
    lw_test_memory *memory = open_memory();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1000,
                              .allocator = lw_test_memory_allocator(memory));
    uint64_t before, after;
    lw_test_memory_usage(memory, NULL, &before, NULL);
    CHECK(before > 16000); /* the queue alone */
    occupy(pool, &gate, 1);
    submit_times(pool, gate_task, &gate, 1000); /* plain tasks live in the queue itself */
    lw_test_memory_usage(memory, NULL, &after, NULL);
    assert_int_equal(after, before);
    gate_open(&gate);
    close_pool(pool);
    close_memory(memory);
}

TEST(two_pools_in_one_process_know_nothing_of_each_other) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *one = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .name = "one");
    lw_pool *two = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .name = "two");
    occupy(one, &gate, 1);
    submit_times(one, tally_task, &runs, 1);
    assert_status(lw_pool_try_submit(one, tally_task, &runs), LW_EFULL);
    for (int i = 0; i < 100; i++)
        assert_status(lw_pool_run(two, tally_task, &runs), LW_OK);
    assert_int_equal(tally_read(&runs), 100);
    assert_int_equal(stats_of(one).submitted, 2);
    close_pool(two);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(one, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 101);
    close_pool(one);
}

static void use_once(lw_ctx *ctx, void *arg) {
    CHECK(lw_ctx_fd(ctx) >= 0);
    tally_add(arg, 1);
}

TEST(a_pool_that_was_used_in_every_way_leaves_nothing_behind) {
    struct traces traces;
    struct tally runs = TALLY;
    begin_traces(&traces);
    for (int i = 0; i < test_scale(200, 10000); i++) {
        lw_ticket ticket;
        lw_pool *pool = OPEN_POOL(.min_workers = 1, .max_workers = 3, .queue_limit = 1,
                                  .task_timeout_ms = i % 2 ? 1000000 : 0, .idle_ms = 1,
                                  .allocator = lw_test_memory_allocator(traces.memory));
        for (int n = 0; n < 5; n++)
            assert_status(lw_pool_submit_with(pool, use_once, &runs,
                                              LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL),
                          LW_OK);
        assert_status(lw_pool_run(pool, use_once, &runs), LW_OK);
        if (i % 3 > 0)
            assert_status(lw_pool_stop(pool, i % 3 == 1 ? LW_DRAIN : LW_DROP, -1), LW_OK);
        close_pool(pool);
        assert_true(is_all_freed(traces.memory));
        assert_int_equal(fd_count(), traces.fds);
    }
    expect_no_traces(&traces);
    close_memory(traces.memory);
}

TEST(a_hundred_thousand_open_and_close_cycles_leave_nothing_behind) {
    struct traces traces;
    int cycles = test_is_sanitized() ? 5000 : 100000;
    begin_traces(&traces);
    for (int i = 0; i < cycles; i++) {
        lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1,
                                  .allocator = lw_test_memory_allocator(traces.memory));
        close_pool(pool);
        if (i % 1000 == 0)
            expect_no_traces(&traces);
    }
    expect_no_traces(&traces);
    close_memory(traces.memory);
}
