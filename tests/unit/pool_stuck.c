/* A task that goes on after its guard timeout is stuck: counted, reported, and its worker replaced,
 * up to stuck_max. */
#include "guarded.h"

#include <string.h>

/* ---- stuck --------------------------------------------------------------------------------- */

TEST(a_task_that_ignores_its_timeout_is_counted_and_reported_as_what_it_is) {
    struct guarded_pool g;
    struct gate gate = GATE;
    lw_pool_run_info info;
    OPEN_GUARDED(&g, .min_workers = 1);
    get_stuck(&g, &gate);
    assert_ptr_equal(g.last_report.fn, gate_task);
    assert_ptr_equal(g.last_report.arg, &gate);
    assert_int_equal(g.last_report.worker, 0);
    assert_true(g.last_report.is_stuck);
    CHECK(g.last_report.running_ms >= TIMEOUT_MS
          && g.last_report.running_ms <= TIMEOUT_MS + GRACE_MS);
    lw_pool_stats stats = stats_of(g.pool);
    assert_int_equal(stats.stuck, 1);
    assert_int_equal(stats.stuck_now, 1);
    assert_int_equal(lw_pool_running(g.pool, &info, 1), 1);
    CHECK(info.is_stuck && info.arg == &gate);
    gate_open(&gate);
    await_that(stats_of(g.pool).stuck_now == 0);
    assert_int_equal(stats_of(g.pool).stuck, 1);
    close_guarded(&g);
}

TEST(a_task_that_ends_soon_after_its_timeout_is_not_stuck) {
    struct guarded_pool g;
    struct shown shown;
    OPEN_GUARDED(&g, .min_workers = 1);
    start_shown(g.pool, &shown);
    pass_timeout(&g, 0);
    await_that(lw_ctx_done(shown.ctx));
    gate_open(&shown.gate);
    assert_status(lw_pool_wait_idle(g.pool, -1), LW_OK);
    advance(g.clock, 10 * TIMEOUT_MS);
    assert_status(lw_pool_run(g.pool, tally_task, &shown.gate.passed), LW_OK);
    assert_int_equal(stats_of(g.pool).stuck, 0);
    assert_int_equal(stats_of(g.pool).workers_peak, 1);
    close_guarded(&g);
}

TEST(a_stuck_worker_is_replaced_so_that_the_pool_keeps_its_capacity) {
    struct guarded_pool g;
    struct gate gate = GATE, other = GATE;
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 2);
    get_stuck(&g, &gate);
    assert_int_equal(stats_of(g.pool).workers, 3);
    occupy(g.pool, &other, 2); /* two at once, as before */
    gate_open(&other);
    submit_times(g.pool, tally_task, &runs, 100);
    tally_await(&runs, 100);
    gate_open(&gate);
    await_that(stats_of(g.pool).workers == 2); /* the one that came back is one too many */
    close_guarded(&g);
}

TEST(what_was_queued_behind_a_stuck_task_runs) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 1);
    occupy(g.pool, &gate, 1);
    submit_times(g.pool, tally_task, &runs, 50);
    pass_timeout(&g, 0);
    advance(g.clock, GRACE_MS);
    tally_await(&runs, 50);
    gate_open(&gate);
    close_guarded(&g);
}

/* ---- all stuck ----------------------------------------------------------------------------- */

enum { STUCK_MAX = 2 };

static void expect_stuck(lw_pool *pool) {
    lw_error err;
    lw_ticket ticket;
    size_t accepted = 77;
    lw_pool_task task = {tally_task, NULL};
    assert_status(lw_pool_submit(pool, tally_task, NULL), LW_ESTUCK);
    assert_status(lw_pool_try_submit(pool, tally_task, NULL), LW_ESTUCK);
    assert_status(lw_pool_run(pool, tally_task, NULL), LW_ESTUCK);
    assert_status(lw_pool_submit_many(pool, &task, 1, &accepted), LW_ESTUCK);
    assert_int_equal(accepted, 0);
    assert_status(
        lw_pool_submit_with(pool, tally_task, NULL, LW_SUBMIT_OPTIONS(.ticket = &ticket), &err),
        LW_ESTUCK);
    assert_sentence(&err, LW_ESTUCK, "stuck");
}

TEST(when_all_are_stuck_submits_are_told_and_threads_are_not_more_than_allowed) {
    struct guarded_pool g;
    struct gate gates[1 + STUCK_MAX];
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 1, .stuck_max = STUCK_MAX);
    for (int i = 0; i <= STUCK_MAX; i++) {
        gates[i] = (struct gate)GATE;
        get_stuck(&g, &gates[i]);
    }
    expect_stuck(g.pool);
    lw_pool_stats stats = stats_of(g.pool);
    assert_int_equal(stats.stuck_now, 1 + STUCK_MAX);
    assert_int_equal(stats.workers, 1 + STUCK_MAX);
    assert_int_equal(stats.workers_peak, 1 + STUCK_MAX);
    assert_int_equal(stats.refused, 5);

    gate_open(&gates[1]); /* one of them returns */
    await_that(lw_pool_try_submit(g.pool, tally_task, &runs) == LW_OK);
    tally_await(&runs, 1);
    gate_open(&gates[0]);
    gate_open(&gates[2]);
    await_that(stats_of(g.pool).workers == 1);
    assert_status(lw_pool_run(g.pool, tally_task, &runs), LW_OK);
    assert_int_equal(stats_of(g.pool).stuck, 1 + STUCK_MAX);
    close_guarded(&g);
}

TEST(where_no_stuck_worker_may_be_replaced_one_is_enough) {
    struct guarded_pool g;
    struct gate gate = GATE;
    OPEN_GUARDED(&g, .min_workers = 1, .stuck_max = LW_ZERO);
    get_stuck(&g, &gate);
    assert_int_equal(stats_of(g.pool).workers, 1);
    expect_stuck(g.pool);
    gate_open(&gate);
    await_that(lw_pool_try_submit(g.pool, gate_task, &gate) == LW_OK);
    close_guarded(&g);
}

struct blocked {
    lw_pool *pool;
    struct tally *runs;
    int rc;
};

static void *submit_blocking(void *arg) {
    struct blocked *b = arg;
    b->rc = lw_pool_submit(b->pool, tally_task, b->runs);
    return NULL;
}

TEST(blocked_submitters_are_told_when_the_last_worker_is_stuck) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct tally runs = TALLY;
    struct blocked blocked[3];
    pthread_t threads[3];
    OPEN_GUARDED(&g, .min_workers = 1, .stuck_max = LW_ZERO, .queue_limit = 1,
                 .submit_timeout_ms = 1000000);
    occupy(g.pool, &gate, 1);
    submit_times(g.pool, tally_task, &runs, 1);
    for (int i = 0; i < 3; i++) {
        blocked[i] = (struct blocked){.pool = g.pool, .runs = &runs};
        threads[i] = start_thread(submit_blocking, &blocked[i]);
    }
    await_sleepers(g.clock, 4); /* and the monitor */
    advance(g.clock, TIMEOUT_MS);
    await_sleepers(g.clock, 4);
    advance(g.clock, GRACE_MS);
    for (int i = 0; i < 3; i++) {
        join_thread(threads[i]);
        assert_status(blocked[i].rc, LW_ESTUCK);
    }
    gate_open(&gate);
    tally_await(&runs, 1); /* what was accepted runs after all */
    close_guarded(&g);
    assert_int_equal(tally_read(&runs), 1);
}

TEST(a_blocked_submitter_gets_the_room_that_a_replacement_makes) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 1, .queue_limit = 1, .submit_timeout_ms = 1000000);
    occupy(g.pool, &gate, 1);
    submit_times(g.pool, tally_task, &runs, 1);
    struct blocked blocked = {.pool = g.pool, .runs = &runs};
    pthread_t thread = start_thread(submit_blocking, &blocked);
    await_sleepers(g.clock, 2);
    advance(g.clock, TIMEOUT_MS);
    await_sleepers(g.clock, 2);
    advance(g.clock, GRACE_MS);
    join_thread(thread);
    assert_status(blocked.rc, LW_OK);
    tally_await(&runs, 2);
    gate_open(&gate);
    close_guarded(&g);
}

TEST(a_drop_of_a_pool_whose_workers_are_all_stuck_drops_what_is_queued) {
    struct guarded_pool g;
    struct gate gate = GATE;
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 1, .stuck_max = LW_ZERO);
    occupy(g.pool, &gate, 1);
    submit_times(g.pool, tally_task, &runs, 5);
    pass_timeout(&g, 0);
    advance(g.clock, GRACE_MS);
    tally_await(&g.reports, 1);
    assert_status(lw_pool_stop(g.pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_int_equal(stats_of(g.pool).dropped, 5);
    assert_int_equal(stats_of(g.pool).queued, 0);
    gate_open(&gate);
    close_guarded(&g);
    assert_int_equal(tally_read(&runs), 0);
}

/* ---- a stuck task that ends its thread, or is left behind ----------------------------------- */

static void pass_and_exit(lw_ctx *ctx, void *gate) {
    (void)ctx;
    gate_pass(gate);
    pthread_exit(NULL);
}

TEST(a_stuck_task_that_ends_its_thread_costs_no_worker) {
    struct guarded_pool g;
    struct tally runs = TALLY;
    OPEN_GUARDED(&g, .min_workers = 1);
    for (int round = 1; round <= 5; round++) {
        struct gate gate = GATE;
        assert_status(lw_pool_submit(g.pool, pass_and_exit, &gate), LW_OK);
        tally_await(&gate.arrived, 1);
        pass_timeout(&g, 0);
        advance(g.clock, GRACE_MS);
        tally_await(&g.reports, round);
        gate_open(&gate);
        await_that(stats_of(g.pool).workers == 1);
        assert_status(lw_pool_run(g.pool, tally_task, &runs), LW_OK);
    }
    close_guarded(&g);
}

TEST(a_stuck_task_that_is_left_behind_frees_the_pool_when_it_ends) {
    struct guarded_pool g;
    struct gate gate = GATE;
    lw_test_memory *memory = open_memory();
    OPEN_GUARDED(&g, .min_workers = 2, .allocator = lw_test_memory_allocator(memory));
    get_stuck(&g, &gate);
    assert_status(lw_pool_stop(g.pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_pool_close(g.pool), LW_PENDING);
    assert_false(is_all_freed(memory));
    gate_open(&gate);
    await_that(is_all_freed(memory));
    close_memory(memory);
    lw_test_clock_close(g.clock);
}

/* ---- what on_stuck may do -------------------------------------------------------------------- */

static struct gate stuck_gate = GATE;
static lw_pool *stuck_pool;
static struct tally hook_calls = TALLY;

/* The hook for the tests below, on a pool with a clock of its own. */
static lw_pool *open_hooked(lw_clock *clock, void (*hook)(void *, const lw_pool_run_info *),
                            const lw_allocator *allocator) {
    return stuck_pool = OPEN_POOL(.min_workers = 1, .task_timeout_ms = TIMEOUT_MS, .clock = clock,
                                  .on_stuck = hook, .user = &hook_calls, .allocator = allocator);
}

static void call_hook(lw_pool *pool, lw_clock *clock) {
    occupy(pool, &stuck_gate, 1);
    await_sleepers(clock, 1);
    advance(clock, TIMEOUT_MS);
    await_sleepers(clock, 1);
    advance(clock, GRACE_MS);
    tally_await(&hook_calls, 1);
}

static void call_pool(void *user, const lw_pool_run_info *task) {
    lw_pool_run_info info;
    lw_pool_stats stats;
    CHECK(task->arg == &stuck_gate);
    assert_status(lw_pool_submit(stuck_pool, tally_task, &stuck_gate.passed), LW_OK);
    assert_status(lw_pool_get_stats(stuck_pool, &stats), LW_OK);
    assert_int_equal(stats.stuck, 1);
    CHECK(lw_pool_running(stuck_pool, &info, 1) >= 1);
    assert_status(lw_pool_wait_idle(stuck_pool, -1), LW_EDEADLOCK);
    assert_status(lw_pool_stop(stuck_pool, LW_DRAIN, -1), LW_PENDING);
    tally_add(user, 1);
}

TEST(on_stuck_may_call_the_pool_and_even_stop_it) {
    lw_clock *clock = open_clock();
    lw_pool *pool = open_hooked(clock, call_pool, NULL);
    call_hook(pool, clock);
    tally_await(&stuck_gate.passed, 1);
    gate_open(&stuck_gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
    lw_test_clock_close(clock);
}

static struct tally ended_threads = TALLY;

static void end_thread(void *user, const lw_pool_run_info *task) {
    (void)user, (void)task;
    tally_add(&ended_threads, 1);
    pthread_exit(NULL);
}

TEST(on_stuck_may_end_its_thread_and_the_guard_stays) {
    struct gate deaf = GATE, heeding = GATE;
    /* Each of the six may be stuck, even who heeds its context: the worker may lose its core. */
    lw_pool *pool =
        OPEN_POOL(.min_workers = 1, .stuck_max = 6, .task_timeout_ms = 1, .on_stuck = end_thread);
    for (int i = 1; i <= 3; i++) {
        assert_status(lw_pool_submit(pool, gate_task, &deaf), LW_OK);
        tally_await(&ended_threads, i);
        assert_status(lw_pool_submit(pool, until_done_task, &heeding), LW_OK);
        tally_await(&heeding.passed, i); /* its context is done */
    }
    gate_open(&deaf);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
}

static void close_and_end_thread(void *user, const lw_pool_run_info *task) {
    (void)task;
    assert_status(lw_pool_close(stuck_pool), LW_PENDING);
    tally_add(user, 1);
    pthread_exit(NULL);
}

TEST(on_stuck_may_close_the_pool_and_end_its_thread) {
    lw_clock *clock = open_clock();
    lw_test_memory *memory = open_memory();
    call_hook(open_hooked(clock, close_and_end_thread, lw_test_memory_allocator(memory)), clock);
    gate_open(&stuck_gate);
    await_that(is_all_freed(memory));
    close_memory(memory);
    lw_test_clock_close(clock);
}

static void close_it(void *user, const lw_pool_run_info *task) {
    (void)task;
    assert_status(lw_pool_close(stuck_pool), LW_PENDING);
    tally_add(user, 1);
}

TEST(on_stuck_may_close_the_pool) {
    lw_clock *clock = open_clock();
    lw_test_memory *memory = open_memory();
    call_hook(open_hooked(clock, close_it, lw_test_memory_allocator(memory)), clock);
    assert_false(is_all_freed(memory));
    gate_open(&stuck_gate);
    await_that(is_all_freed(memory));
    close_memory(memory);
    lw_test_clock_close(clock);
}

static void close_when_all_have_left(void *user, const lw_pool_run_info *task) {
    (void)task;
    gate_open(&stuck_gate);
    assert_status(lw_pool_stop(stuck_pool, LW_DROP, 0), LW_PENDING);
    await_that(stats_of(stuck_pool).workers == 0);
    assert_status(lw_pool_close(stuck_pool), LW_PENDING); /* the monitor itself is still in it */
    tally_add(user, 1);
}

TEST(on_stuck_may_close_a_pool_that_all_workers_have_left) {
    lw_clock *clock = open_clock();
    lw_test_memory *memory = open_memory();
    call_hook(open_hooked(clock, close_when_all_have_left, lw_test_memory_allocator(memory)),
              clock);
    await_that(is_all_freed(memory));
    close_memory(memory);
    lw_test_clock_close(clock);
}

/* ---- the log --------------------------------------------------------------------------------- */

static void note_warning(void *user, const lw_log_record *record) {
    if (record->level == LW_LOG_WARN && strstr(record->message, "stuck") != NULL) {
        assert_string_equal(record->component, "pool");
        assert_string_equal(record->fields[0].key, "pool");
        assert_string_equal(record->fields[0].value, "mail");
        tally_add(user, 1);
    }
}

TEST(a_stuck_task_is_a_warning_in_the_log) {
    struct guarded_pool g;
    struct tally warnings = TALLY;
    struct gate gate = GATE;
    const lw_log log = {.write = note_warning, .user = &warnings};
    OPEN_GUARDED(&g, .min_workers = 1, .name = "mail", .log = &log);
    get_stuck(&g, &gate);
    assert_int_equal(tally_read(&warnings), 1);
    gate_open(&gate);
    close_guarded(&g);
}
