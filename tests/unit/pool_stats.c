/* The figures: in scenes whose numbers are known they are exactly these, and always add up. */
#include "pools.h"

#include <stdatomic.h>

static struct tally runs = TALLY, drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

struct figures {
    uint64_t submitted, run, dropped, queued, running, refused;
};

#define assert_figures(pool, ...) \
    assert_figures_at((pool), (struct figures){__VA_ARGS__}, __FILE__, __LINE__)

static void assert_figures_at(lw_pool *pool, struct figures f, const char *file, int line) {
    lw_pool_stats s = stats_of(pool);
    struct figures seen = {s.submitted, s.run, s.dropped, s.queued, s.running, s.refused};
    _assert_int_equal(seen.submitted, f.submitted, file, line);
    _assert_int_equal(seen.run, f.run, file, line);
    _assert_int_equal(seen.dropped, f.dropped, file, line);
    _assert_int_equal(seen.queued, f.queued, file, line);
    _assert_int_equal(seen.running, f.running, file, line);
    _assert_int_equal(seen.refused, f.refused, file, line);
    _assert_int_equal(s.submitted, s.run + s.dropped + s.queued + s.running, file, line);
}

TEST(a_new_pool_has_done_nothing) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    assert_figures(pool, 0);
    lw_pool_stats stats = stats_of(pool);
    CHECK(stats.stuck == 0 && stats.stuck_now == 0);
    CHECK(stats.workers == 2 && stats.workers_peak == 2);
    CHECK(stats.queue_wait.samples == 0 && stats.run_time.samples == 0);
    CHECK(stats.run_time.max_ns == 0 && stats.run_time.mean_ns == 0);
    close_pool(pool);
}

TEST(what_runs_and_what_waits_is_counted_until_it_has_ended) {
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = 5, .overflow = LW_REFUSE);
    occupy(pool, &gate, 2);
    submit_times(pool, tally_task, &runs, 5);
    assert_figures(pool, .submitted = 7, .running = 2, .queued = 5);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_EFULL);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_EFULL);
    assert_figures(pool, .submitted = 7, .running = 2, .queued = 5, .refused = 2);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_figures(pool, .submitted = 7, .run = 7, .refused = 2);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_figures(pool, .submitted = 7, .run = 7, .refused = 3);
    close_pool(pool);
}

TEST(what_has_run_is_counted_while_its_worker_goes_on) {
    struct gate first = GATE, second = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &first, 1);
    submit_times(pool, tally_task, &runs, 10);
    assert_status(lw_pool_submit(pool, gate_task, &second), LW_OK);
    gate_open(&first);
    tally_await(&second.arrived, 1);
    assert_figures(pool, .submitted = 12, .run = 11, .running = 1);
    gate_open(&second);
    close_pool(pool);
}

TEST(a_blocked_submit_that_gives_up_is_refused_once) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, LW_ZERO, NULL);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_ETIMEDOUT);
    assert_figures(full.pool, .submitted = 3, .running = 1, .queued = 2, .refused = 1);
    close_full(&full);
}

TEST(what_drop_oldest_and_a_drop_have_dropped_is_counted) {
    struct full_pool full;
    open_full(&full, LW_DROP_OLDEST, 0, count_drop);
    submit_times(full.pool, tally_task, &runs, 3);
    assert_figures(full.pool, .submitted = 6, .running = 1, .queued = 2, .dropped = 3);
    assert_status(lw_pool_stop(full.pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_figures(full.pool, .submitted = 6, .running = 1, .dropped = 5);
    assert_int_equal(tally_read(&drops), 5);
    gate_open(&full.gate);
    assert_status(lw_pool_stop(full.pool, LW_DROP, -1), LW_OK);
    assert_figures(full.pool, .submitted = 6, .run = 1, .dropped = 5);
    close_full(&full);
}

static lw_ticket submit_for_ticket(lw_pool *pool) {
    lw_ticket ticket;
    const lw_submit_options *options = LW_SUBMIT_OPTIONS(.ticket = &ticket);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, options, NULL), LW_OK);
    return ticket;
}

TEST(a_cancelled_task_is_dropped_once_and_no_longer_queued) {
    struct gate first = GATE, second = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    occupy(pool, &first, 1);
    lw_ticket ticket = submit_for_ticket(pool);
    submit_for_ticket(pool);
    assert_status(lw_pool_submit(pool, gate_task, &second), LW_OK);
    assert_status(lw_pool_cancel(pool, ticket), LW_OK);
    assert_figures(pool, .submitted = 4, .running = 1, .queued = 2, .dropped = 1);
    gate_open(&first);
    tally_await(&second.arrived, 1);
    assert_figures(pool, .submitted = 4, .run = 2, .running = 1, .dropped = 1);
    gate_open(&second);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_figures(pool, .submitted = 4, .run = 3, .dropped = 1);
    close_pool(pool);
}

TEST(a_cancelled_task_that_a_drop_finds_is_dropped_once) {
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    occupy(pool, &gate, 1);
    assert_status(lw_pool_cancel(pool, submit_for_ticket(pool)), LW_OK);
    submit_for_ticket(pool);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_figures(pool, .submitted = 3, .running = 1, .dropped = 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    assert_figures(pool, .submitted = 3, .run = 1, .dropped = 2);
    close_pool(pool);
}

static void *submit_gate(void *arg) {
    void **both = arg;
    assert_status(lw_pool_submit(both[0], gate_task, both[1]), LW_OK);
    return NULL;
}

TEST(a_task_that_the_caller_runs_counts_like_any_other) {
    struct full_pool full;
    struct gate gate = GATE;
    open_full(&full, LW_CALLER_RUNS, 0, NULL);
    void *both[] = {full.pool, &gate};
    pthread_t thread = start_thread(submit_gate, both);
    tally_await(&gate.arrived, 1);
    assert_figures(full.pool, .submitted = 4, .running = 2, .queued = 2);
    gate_open(&gate);
    join_thread(thread);
    assert_figures(full.pool, .submitted = 4, .running = 1, .queued = 2, .run = 1);
    close_full(&full);
}

struct inside {
    lw_pool *pool;
    struct gate gate;
};

static void submit_ten(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct inside *in = arg;
    submit_times(in->pool, tally_task, &runs, 10);
    gate_pass(&in->gate);
}

TEST(what_a_task_has_submitted_past_a_full_queue_is_queued_too) {
    struct inside in = {.gate = GATE};
    in.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1);
    assert_status(lw_pool_submit(in.pool, submit_ten, &in), LW_OK);
    tally_await(&in.gate.arrived, 1);
    assert_figures(in.pool, .submitted = 11, .running = 1, .queued = 10);
    gate_open(&in.gate);
    assert_status(lw_pool_wait_idle(in.pool, -1), LW_OK);
    assert_figures(in.pool, .submitted = 11, .run = 11);
    close_pool(in.pool);
}

TEST(what_a_task_has_submitted_past_a_full_queue_is_dropped_with_the_rest) {
    struct inside in = {.gate = GATE};
    in.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .on_drop = count_drop);
    assert_status(lw_pool_submit(in.pool, submit_ten, &in), LW_OK);
    tally_await(&in.gate.arrived, 1);
    assert_status(lw_pool_stop(in.pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&in.gate);
    assert_status(lw_pool_stop(in.pool, LW_DROP, -1), LW_OK);
    assert_figures(in.pool, .submitted = 11, .run = 1, .dropped = 10);
    assert_int_equal(tally_read(&drops), 10);
    close_pool(in.pool);
}

static void leave(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    pthread_exit(NULL);
}

TEST(a_task_that_ends_its_thread_has_run) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    submit_times(pool, leave, NULL, 10);
    assert_status(lw_pool_run(pool, leave, NULL), LW_OK);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_figures(pool, .submitted = 11, .run = 11);
    close_pool(pool);
}

/* ---- times --------------------------------------------------------------------------------- */

static bool is_near(uint64_t ns, uint64_t ms) {
    return ns >= ms * 750000 && ns <= ms * 1250000; /* within 25 % */
}

TEST(run_times_and_waits_are_measured_on_the_pools_clock) {
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    for (int round = 0; round < 10; round++) { /* of waits, some are measured */
        struct gate gate = GATE;
        occupy(pool, &gate, 1);
        submit_times(pool, tally_task, &runs, 200);
        advance(clock, 80);
        gate_open(&gate);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    }
    lw_pool_stats stats = stats_of(pool);
    CHECK(stats.run_time.samples >= 10 && stats.run_time.mean_ns > 0);
    assert_true(is_near(stats.run_time.max_ns, 80));
    CHECK(stats.queue_wait.samples >= 10);
    assert_true(is_near(stats.queue_wait.max_ns, 80));
    close_pool(pool);
    lw_test_clock_close(clock);
}

TEST(every_slow_task_is_in_the_distribution_of_run_times) {
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    for (int i = 1; i <= 100; i++) {
        struct gate gate = GATE;
        occupy(pool, &gate, 1);
        advance(clock, i > 90 ? 1000 : 10);
        gate_open(&gate);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    }
    lw_latency times = stats_of(pool).run_time;
    assert_int_equal(times.samples, 100);
    CHECK(is_near(times.p50_ns, 10) && is_near(times.p90_ns, 10) && is_near(times.p99_ns, 1000));
    CHECK(is_near(times.max_ns, 1000) && is_near((uint64_t)times.mean_ns, 109));
    close_pool(pool);
    lw_test_clock_close(clock);
}

static void tick(lw_ctx *ctx, void *arg) {
    (void)ctx;
    atomic_fetch_add((atomic_long *)arg, 1);
}

TEST(short_tasks_are_sampled) {
    atomic_long ticks = 0;
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    submit_times(pool, tick, (void *)&ticks, 50000);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    lw_pool_stats stats = stats_of(pool);
    const lw_latency *both[] = {&stats.run_time, &stats.queue_wait};
    for (int i = 0; i < 2; i++) {
        CHECK(both[i]->samples > 10 && both[i]->samples <= 50000 && both[i]->mean_ns > 0);
        CHECK(both[i]->p50_ns <= both[i]->p90_ns && both[i]->p90_ns <= both[i]->p99_ns);
        CHECK(both[i]->p50_ns > 0 && both[i]->p99_ns <= both[i]->max_ns + both[i]->max_ns / 4);
    }
    close_pool(pool);
}

TEST(the_wakes_of_sleeping_workers_are_counted) {
    atomic_long ticks = 0;
    lw_clock *clock = open_clock();
    lw_pool *pool =
        OPEN_POOL(.min_workers = LW_ZERO, .max_workers = 1, .idle_ms = 1000, .clock = clock);
    submit_times(pool, tick, (void *)&ticks, 1);
    for (int i = 0; i < 5; i++) {
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        await_sleepers(clock, 1);
        uint64_t wakes = stats_of(pool).wakes;
        submit_times(pool, tick, (void *)&ticks, 1);
        assert_int_equal(stats_of(pool).wakes, wakes + 1);
    }
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* ---- at any time --------------------------------------------------------------------------- */

struct crowd {
    lw_pool *pool;
    atomic_long ticks, accepted, refused;
    atomic_bool is_over;
};

static void *submit_crowd(void *arg) {
    struct crowd *crowd = arg;
    for (int i = 0; i < 20000; i++) {
        int rc = lw_pool_submit(crowd->pool, tick, (void *)&crowd->ticks);
        atomic_fetch_add(rc == LW_OK ? &crowd->accepted : &crowd->refused, 1);
    }
    return NULL;
}

static void *watch_crowd(void *arg) {
    struct crowd *crowd = arg;
    lw_pool_stats last = {0};
    while (!atomic_load(&crowd->is_over)) {
        lw_pool_stats now = stats_of(crowd->pool);
        CHECK(now.submitted >= last.submitted && now.run >= last.run);
        CHECK(now.refused >= last.refused && now.dropped >= last.dropped);
        CHECK(now.run <= now.submitted && now.run_time.samples >= last.run_time.samples);
        CHECK(now.queued <= 64 + 256 && now.running <= 2 + 3); /* with what was handed back */
        last = now;
    }
    return NULL;
}

static void crowd_pool(lw_overflow overflow) {
    struct crowd crowd = {0};
    pthread_t threads[3];
    crowd.pool =
        OPEN_POOL(.min_workers = 2, .queue_limit = 64, .overflow = overflow, .on_drop = count_drop);
    pthread_t watcher = start_thread(watch_crowd, &crowd);
    long drops_before = tally_read(&drops);
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(submit_crowd, &crowd);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
    assert_status(lw_pool_wait_idle(crowd.pool, -1), LW_OK);
    atomic_store(&crowd.is_over, true);
    join_thread(watcher);
    assert_figures(crowd.pool, .submitted = (uint64_t)atomic_load(&crowd.accepted),
                   .run = (uint64_t)atomic_load(&crowd.ticks),
                   .dropped = (uint64_t)(tally_read(&drops) - drops_before),
                   .refused = (uint64_t)atomic_load(&crowd.refused));
    close_pool(crowd.pool);
}

TEST(figures_can_be_read_at_any_time_and_are_exact_in_the_end) {
    crowd_pool(LW_BLOCK);
    crowd_pool(LW_REFUSE);
    crowd_pool(LW_CALLER_RUNS);
    crowd_pool(LW_DROP_OLDEST);
}
