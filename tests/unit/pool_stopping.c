/* A stop from inside a task, and what running tasks see of a stop. */
#include "pools.h"

#include <poll.h>

/* A stop on a thread of its own. */
struct stop {
    lw_pool *pool;
    lw_stop_mode mode;
    int64_t timeout_ms;
    int rc;
    pthread_t thread;
};

static void *run_stop(void *arg) {
    struct stop *stop = arg;
    stop->rc = lw_pool_stop(stop->pool, stop->mode, stop->timeout_ms);
    return NULL;
}

static void begin_stop(struct stop *stop) {
    stop->thread = start_thread(run_stop, stop);
}

static int end_stop(struct stop *stop) {
    join_thread(stop->thread);
    return stop->rc;
}

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

/* After a stop that timed out, close would leave behind what is about to end. */
static void end_pool(lw_pool *pool) {
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    close_pool(pool);
}

/* ---- from inside --------------------------------------------------------------------------- */

struct inside {
    lw_pool *pool;
    lw_stop_mode mode;
    struct gate gate;
    int rc, submit_rc, idle_rc;
    bool was_stopping;
};

static void stop_inside(lw_ctx *ctx, void *arg) {
    struct inside *in = arg;
    gate_pass(&in->gate);
    in->rc = lw_pool_stop(in->pool, in->mode, 100000);
    in->was_stopping = lw_ctx_stopping(ctx);
    in->submit_rc = lw_pool_submit(in->pool, stop_inside, arg);
}

static void stop_from_inside(lw_stop_mode mode, long runs_wanted) {
    struct tally runs = TALLY;
    struct inside in = {.mode = mode, .gate = GATE};
    in.pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    assert_status(lw_pool_submit(in.pool, stop_inside, &in), LW_OK);
    submit_times(in.pool, tally_task, &runs, 20);
    gate_open(&in.gate);
    await_that(stats_of(in.pool).workers == 0); /* by itself */
    assert_status(in.rc, LW_PENDING);
    assert_true(in.was_stopping);
    assert_status(in.submit_rc, LW_ESTOPPING);
    assert_int_equal(tally_read(&runs), runs_wanted);
    assert_int_equal(tally_read(&drops), 20 - runs_wanted);
    assert_status(lw_pool_stop(in.pool, LW_DRAIN, 0), LW_OK);
    close_pool(in.pool);
}

TEST(a_drain_from_inside_a_task_begins_and_does_not_wait) {
    stop_from_inside(LW_DRAIN, 20);
}

TEST(a_drop_from_inside_a_task_begins_and_does_not_wait) {
    stop_from_inside(LW_DROP, 0);
}

TEST(a_stop_from_inside_a_task_that_the_caller_runs_does_not_wait) {
    struct gate gate = GATE;
    struct inside in = {.mode = LW_DROP, .gate = GATE};
    in.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .overflow = LW_CALLER_RUNS);
    occupy(in.pool, &gate, 1);
    submit_times(in.pool, tally_task, &drops, 1);
    gate_open(&in.gate);
    assert_status(lw_pool_submit(in.pool, stop_inside, &in), LW_OK);
    assert_status(in.rc, LW_PENDING);
    assert_status(in.submit_rc, LW_ESTOPPING);
    gate_open(&gate);
    close_pool(in.pool);
    assert_int_equal(tally_read(&drops), 0);
}

struct late {
    struct gate gate;
    lw_pool *pool;
    lw_reason reasons[3];
};

static void outlast_stop(lw_ctx *ctx, void *arg) {
    struct late *late = arg;
    tally_add(&late->gate.arrived, 1);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    late->reasons[0] = lw_ctx_reason(ctx);
}

static void drain_for_a_moment(lw_ctx *ctx, void *arg) {
    struct late *late = arg;
    tally_await(&late->gate.arrived, 1);
    gate_pass(&late->gate); /* all are submitted */
    assert_status(lw_pool_stop(late->pool, LW_DRAIN, 1), LW_PENDING);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    late->reasons[1] = lw_ctx_reason(ctx);
}

static void start_late(lw_ctx *ctx, void *arg) {
    struct late *late = arg;
    late->reasons[2] = lw_ctx_reason(ctx);
}

static void drain_inside(int64_t guard_ms) {
    struct late late = {.gate = GATE};
    late.pool = OPEN_POOL(.min_workers = 2, .task_timeout_ms = guard_ms);
    assert_status(lw_pool_submit(late.pool, outlast_stop, &late), LW_OK);
    assert_status(lw_pool_submit(late.pool, drain_for_a_moment, &late), LW_OK);
    assert_status(lw_pool_submit(late.pool, start_late, &late), LW_OK);
    gate_open(&late.gate);
    await_that(stats_of(late.pool).workers == 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(late.reasons[i], LW_REASON_STOP);
    close_pool(late.pool);
}

TEST(the_deadline_of_a_drain_that_a_task_has_begun_ends_contexts) {
    drain_inside(-1);
    drain_inside(1000000);
}

static lw_pool *dropping_pool;

static void stop_when_dropped(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
    assert_status(lw_pool_stop(dropping_pool, LW_DROP, -1), LW_PENDING);
}

TEST(on_drop_may_stop_the_pool) {
    struct gate gate = GATE;
    dropping_pool = OPEN_POOL(.min_workers = 1, .queue_limit = 5, .overflow = LW_DROP_OLDEST,
                              .on_drop = stop_when_dropped);
    occupy(dropping_pool, &gate, 1);
    submit_times(dropping_pool, tally_task, NULL, 5);
    assert_status(lw_pool_submit(dropping_pool, tally_task, NULL), LW_ESTOPPING);
    assert_int_equal(tally_read(&drops), 5);
    gate_open(&gate);
    end_pool(dropping_pool);
}

static long drop_depth, drop_depth_max;

static void stop_deeper(void *arg) {
    (void)arg;
    drop_depth++;
    if (drop_depth_max < drop_depth)
        drop_depth_max = drop_depth;
    stop_when_dropped(arg);
    drop_depth--;
}

TEST(an_on_drop_that_stops_the_pool_is_not_called_inside_itself) {
    struct gate gate = GATE;
    dropping_pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1000, .on_drop = stop_deeper);
    occupy(dropping_pool, &gate, 1);
    submit_times(dropping_pool, tally_task, NULL, 1000);
    assert_status(lw_pool_stop(dropping_pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&drops), 1000);
    assert_int_equal(drop_depth_max, 1);
    gate_open(&gate);
    end_pool(dropping_pool);
}

/* ---- what a task sees of it ---------------------------------------------------------------- */

/* Waits until its context changes and tells; the test says when to look. */
struct report {
    struct gate gate;
    bool is_stopping, is_done;
    lw_reason reason;
};

static void report_ctx(lw_ctx *ctx, void *arg) {
    struct report *report = arg;
    CHECK(!lw_ctx_stopping(ctx) && !lw_ctx_done(ctx) && lw_ctx_reason(ctx) == LW_REASON_NONE);
    gate_pass(&report->gate);
    report->is_stopping = lw_ctx_stopping(ctx);
    report->is_done = lw_ctx_done(ctx);
    report->reason = lw_ctx_reason(ctx);
}

static struct report see_stop(lw_stop_mode mode, bool must_time_out) {
    struct report report = {.gate = GATE};
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    struct stop stop = {.pool = pool, .mode = mode, .timeout_ms = 10};
    assert_status(lw_pool_submit(pool, report_ctx, &report), LW_OK);
    tally_await(&report.gate.arrived, 1);
    begin_stop(&stop);
    await_sleepers(clock, 1);
    if (must_time_out) {
        advance(clock, 10);
        assert_status(end_stop(&stop), LW_ETIMEDOUT);
    }
    gate_open(&report.gate);
    if (!must_time_out)
        assert_status(end_stop(&stop), LW_OK);
    end_pool(pool);
    lw_test_clock_close(clock);
    return report;
}

TEST(under_a_drain_a_task_sees_stopping_but_is_not_done) {
    struct report report = see_stop(LW_DRAIN, false);
    CHECK(report.is_stopping && !report.is_done && report.reason == LW_REASON_NONE);
}

TEST(at_the_deadline_of_a_drain_a_task_is_done_because_of_the_stop) {
    struct report report = see_stop(LW_DRAIN, true);
    CHECK(report.is_stopping && report.is_done && report.reason == LW_REASON_STOP);
}

TEST(under_a_drop_a_task_is_done_at_once) {
    struct report report = see_stop(LW_DROP, false);
    CHECK(report.is_stopping && report.is_done && report.reason == LW_REASON_DROPPED);
}

TEST(the_first_reason_to_end_stays) {
    struct report report = {.gate = GATE};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_submit(pool, report_ctx, &report), LW_OK);
    tally_await(&report.gate.arrived, 1);
    assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&report.gate);
    end_pool(pool);
    assert_int_equal(report.reason, LW_REASON_STOP);
}

static void note_reason(lw_ctx *ctx, void *arg) {
    *(lw_reason *)arg = lw_ctx_reason(ctx);
}

TEST(tasks_that_start_after_the_deadline_of_a_drain_are_done_from_the_start) {
    struct gate gate = GATE;
    lw_reason reasons[3] = {LW_REASON_NONE};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &gate, 1);
    for (int i = 0; i < 3; i++)
        assert_status(lw_pool_submit(pool, note_reason, &reasons[i]), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(reasons[i], LW_REASON_STOP);
    close_pool(pool);
}

static void poll_ctx(lw_ctx *ctx, void *arg) {
    struct gate *gate = arg;
    struct pollfd fd = {.fd = lw_ctx_fd(ctx), .events = POLLIN};
    CHECK(fd.fd >= 0);
    assert_int_equal(poll(&fd, 1, 0), 0);
    tally_add(&gate->arrived, 1);
    assert_int_equal(poll(&fd, 1, 200000), 1);
    CHECK(lw_ctx_done(ctx));
    tally_add(&gate->passed, 1);
}

static void end_sleepers(lw_stop_mode mode) {
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    assert_status(lw_pool_submit(pool, poll_ctx, &gate), LW_OK);
    assert_status(lw_pool_submit(pool, until_done_task, &gate), LW_OK);
    tally_await(&gate.arrived, 2);
    int rc = lw_pool_stop(pool, mode, 0); /* they may be quick to end */
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    tally_await(&gate.passed, 2);
    end_pool(pool);
}

TEST(a_drop_wakes_tasks_that_sleep_or_poll_on_their_context) {
    end_sleepers(LW_DROP);
}

TEST(the_deadline_of_a_drain_wakes_tasks_that_sleep_or_poll_on_their_context) {
    end_sleepers(LW_DRAIN);
}
