/* The guard timeout ends a task's context: on a worker, and in a caller that runs one itself. */
#include "guarded.h"

#include "pool/ctx.h"

#include <poll.h>

/* ---- the timeout --------------------------------------------------------------------------- */

TEST(a_context_is_done_when_the_guard_timeout_has_passed_and_not_before) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    start_shown(g.pool, &shown);
    assert_int_equal(lw_ctx_left_ms(shown.ctx), TIMEOUT_MS);
    await_sleepers(g.clock, 1);
    advance(g.clock, 60);
    assert_int_equal(lw_ctx_left_ms(shown.ctx), 40);
    advance(g.clock, 39);
    CHECK(!lw_ctx_done(shown.ctx) && lw_ctx_left_ms(shown.ctx) == 1);
    await_sleepers(g.clock, 1);
    advance(g.clock, 1);
    await_that(lw_ctx_done(shown.ctx));
    assert_int_equal(lw_ctx_reason(shown.ctx), LW_REASON_TIMEOUT);
    assert_int_equal(lw_ctx_left_ms(shown.ctx), 0);
    assert_false(lw_ctx_stopping(shown.ctx));
    gate_open(&shown.gate);
    close_guarded(&g);
    assert_int_equal(tally_read(&g.reports), 0);
}

TEST(the_guard_timeout_wakes_a_task_that_sleeps_on_its_context) {
    struct guarded_pool g;
    struct gate gate = GATE;
    OPEN_GUARDED(&g, .min_workers = 1);
    assert_status(lw_pool_submit(g.pool, until_done_task, &gate), LW_OK);
    await_sleepers(g.clock, 2); /* the task and the monitor */
    advance(g.clock, TIMEOUT_MS);
    tally_await(&gate.passed, 1);
    close_guarded(&g);
}

TEST(the_guard_timeout_makes_the_descriptor_readable) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    for (int round = 0; round < 3; round++) { /* the worker's descriptor serves one after another */
        start_shown(g.pool, &shown);
        struct pollfd fd = {.fd = lw_ctx_fd(shown.ctx), .events = POLLIN};
        CHECK(fd.fd >= 0 && lw_ctx_fd(shown.ctx) == fd.fd);
        assert_int_equal(poll(&fd, 1, 0), 0);
        pass_timeout(&g, 0);
        assert_int_equal(poll(&fd, 1, 200000), 1);
        CHECK(fd.revents & POLLIN);
        gate_open(&shown.gate);
        assert_status(lw_pool_wait_idle(g.pool, -1), LW_OK);
    }
    close_guarded(&g);
}

TEST(a_descriptor_that_is_asked_for_after_the_end_is_readable_at_once) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    start_shown(g.pool, &shown);
    pass_timeout(&g, 0);
    await_that(lw_ctx_done(shown.ctx));
    struct pollfd fd = {.fd = lw_ctx_fd(shown.ctx), .events = POLLIN};
    assert_int_equal(poll(&fd, 1, 0), 1);
    gate_open(&shown.gate);
    close_guarded(&g);
}

TEST(every_task_has_a_guard_timeout_of_its_own) {
    struct guarded_pool g;
    struct shown one, two;
    OPEN_GUARDED(&g, .min_workers = 2);
    start_shown(g.pool, &one);
    advance(g.clock, TIMEOUT_MS / 2);
    start_shown(g.pool, &two);
    await_sleepers(g.clock, 1);
    advance(g.clock, TIMEOUT_MS / 2);
    await_that(lw_ctx_done(one.ctx));
    assert_false(lw_ctx_done(two.ctx));
    assert_int_equal(lw_ctx_left_ms(two.ctx), TIMEOUT_MS / 2);
    gate_open(&one.gate);
    gate_open(&two.gate);
    close_guarded(&g);
}

TEST(the_next_task_of_a_worker_starts_with_all_of_its_time) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    for (int round = 0; round < 5; round++) {
        start_shown(g.pool, &shown);
        assert_false(lw_ctx_done(shown.ctx));
        assert_int_equal(lw_ctx_left_ms(shown.ctx), TIMEOUT_MS);
        pass_timeout(&g, 0);
        await_that(lw_ctx_done(shown.ctx));
        gate_open(&shown.gate);
        assert_status(lw_pool_wait_idle(g.pool, -1), LW_OK);
    }
    close_guarded(&g);
    assert_int_equal(tally_read(&g.reports), 0); /* each ended in time */
}

TEST(an_end_that_comes_late_never_hits_the_next_task) {
    struct guarded_pool g;
    struct shown one, two;
    OPEN_GUARDED(&g, .min_workers = 1);
    start_shown(g.pool, &one);
    uint64_t number = atomic_load(&one.ctx->signal) >> LW__SIGNAL_SHIFT;
    gate_open(&one.gate);
    start_shown(g.pool, &two);
    assert_ptr_equal(one.ctx, two.ctx); /* the worker's */
    assert_false(lw__ctx_end(two.ctx, number, LW_REASON_TIMEOUT));
    assert_false(lw_ctx_done(two.ctx));
    assert_true(lw__ctx_end(two.ctx, number + 1, LW_REASON_TIMEOUT));
    assert_true(lw_ctx_done(two.ctx));
    gate_open(&two.gate);
    close_guarded(&g);
}

TEST(a_task_after_a_long_idle_time_is_guarded_too) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 10; i++)
            advance(g.clock, TIMEOUT_MS);
        start_shown(g.pool, &shown);
        pass_timeout(&g, 0);
        await_that(lw_ctx_done(shown.ctx));
        gate_open(&shown.gate);
        assert_status(lw_pool_wait_idle(g.pool, -1), LW_OK);
    }
    close_guarded(&g);
}

TEST(without_a_guard_timeout_a_task_may_run_for_ever) {
    struct shown shown;
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    start_shown(pool, &shown);
    assert_int_equal(lw_ctx_left_ms(shown.ctx), -1);
    advance(clock, LW_TIMEOUT_MS_MAX);
    CHECK(!lw_ctx_done(shown.ctx) && lw_ctx_left_ms(shown.ctx) == -1);
    gate_open(&shown.gate);
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* ---- tasks that the caller runs -------------------------------------------------------------- */

static void *submit_shown(void *arg) {
    void **both = arg;
    assert_status(lw_pool_submit(both[0], show_task, both[1]), LW_OK);
    return NULL;
}

TEST(a_task_that_the_caller_runs_is_guarded_too) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct shown shown = {.gate = GATE};
    OPEN_GUARDED(&g, .min_workers = 1, .queue_limit = 1, .overflow = LW_CALLER_RUNS);
    assert_status(lw_pool_submit(g.pool, until_done_task, &gate), LW_OK);
    tally_await(&gate.arrived, 1);
    submit_times(g.pool, tally_task, &gate.opened, 1);
    void *both[] = {g.pool, &shown};
    pthread_t thread = start_thread(submit_shown, both);
    tally_await(&shown.gate.arrived, 1);
    assert_int_equal(lw_ctx_left_ms(shown.ctx), TIMEOUT_MS);
    await_sleepers(g.clock, 2);
    advance(g.clock, TIMEOUT_MS);
    await_that(lw_ctx_done(shown.ctx));
    assert_int_equal(lw_ctx_reason(shown.ctx), LW_REASON_TIMEOUT);
    gate_open(&shown.gate);
    join_thread(thread);
    close_guarded(&g);
}

TEST(a_stuck_task_that_the_caller_runs_is_counted_and_reported_too) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct shown shown = {.gate = GATE};
    OPEN_GUARDED(&g, .min_workers = 1, .queue_limit = 1, .overflow = LW_CALLER_RUNS);
    get_stuck(&g, &gate); /* and its replacement … */
    struct gate other = GATE;
    assert_status(lw_pool_submit(g.pool, until_done_task, &other), LW_OK); /* … is occupied */
    tally_await(&other.arrived, 1);
    submit_times(g.pool, tally_task, &other.opened, 1);
    void *both[] = {g.pool, &shown};
    pthread_t thread = start_thread(submit_shown, both);
    tally_await(&shown.gate.arrived, 1);
    await_sleepers(g.clock, 2);
    advance(g.clock, TIMEOUT_MS);
    await_that(lw_ctx_done(shown.ctx));
    tally_await(&other.opened, 1); /* the worker has ended its task in time, and goes on */
    await_sleepers(g.clock, 1);
    advance(g.clock, GRACE_MS);
    tally_await(&g.reports, 2);
    assert_ptr_equal(g.last_report.fn, show_task);
    assert_ptr_equal(g.last_report.arg, &shown);
    assert_int_equal(g.last_report.worker, UINT32_MAX);
    assert_int_equal(stats_of(g.pool).stuck, 2);
    assert_int_equal(stats_of(g.pool).stuck_now, 2);
    gate_open(&shown.gate);
    join_thread(thread);
    assert_int_equal(stats_of(g.pool).stuck_now, 1);
    gate_open(&gate);
    close_guarded(&g);
}

/* ---- the system's clock ---------------------------------------------------------------------- */

/* On a busy machine the short task is stuck for a moment, too. */
static void count_stuck(void *user, const lw_pool_run_info *task) {
    CHECK(task->is_stuck && task->running_ms >= 5);
    if (task->fn == gate_task)
        tally_add(user, 1);
}

TEST(a_stuck_task_is_seen_on_the_systems_clock_too) {
    struct tally reports = TALLY, runs = TALLY;
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .task_timeout_ms = 5, .on_stuck = count_stuck,
                              .user = &reports);
    occupy(pool, &gate, 1);
    tally_await(&reports, 1);
    submit_times(pool, tally_task, &runs, 1);
    tally_await(&runs, 1);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
}
