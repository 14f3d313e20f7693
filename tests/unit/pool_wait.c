/* Waiting until a pool is idle, without stopping anybody. */
#include "pools.h"

#include <stdatomic.h>

struct wait {
    lw_pool *pool;
    int64_t timeout_ms;
    int rc;
    atomic_bool is_over;
    pthread_t thread;
};

static void *run_wait(void *arg) {
    struct wait *wait = arg;
    wait->rc = lw_pool_wait_idle(wait->pool, wait->timeout_ms);
    atomic_store(&wait->is_over, true);
    return NULL;
}

static void begin_wait(struct wait *wait, lw_pool *pool, int64_t timeout_ms) {
    *wait = (struct wait){.pool = pool, .timeout_ms = timeout_ms};
    wait->thread = start_thread(run_wait, wait);
}

static int end_wait(struct wait *wait) {
    join_thread(wait->thread);
    return wait->rc;
}

TEST(a_pool_that_has_nothing_to_do_is_idle) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    assert_status(lw_pool_wait_idle(pool, 0), LW_OK);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    close_pool(pool);
    pool = OPEN_POOL(.min_workers = LW_ZERO);
    assert_status(lw_pool_wait_idle(pool, 0), LW_OK);
    close_pool(pool);
}

TEST(a_pool_is_not_idle_while_a_task_runs) {
    struct gate gate = GATE;
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    occupy(pool, &gate, 1);
    assert_status(lw_pool_wait_idle(pool, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(tally_read(&gate.passed), 1);
    assert_status(lw_pool_wait_idle(pool, 0), LW_OK);
    close_pool(pool);
}

TEST(a_pool_is_not_idle_until_everything_that_was_queued_has_ended) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    occupy(pool, &gate, 2);
    submit_times(pool, tally_task, &runs, 100);
    assert_status(lw_pool_wait_idle(pool, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 100);
    close_pool(pool);
}

static void *submit_gate(void *arg) {
    void **both = arg;
    assert_status(lw_pool_submit(both[0], gate_task, both[1]), LW_OK);
    return NULL;
}

TEST(a_pool_is_not_idle_while_a_caller_runs_a_task) {
    struct full_pool full;
    struct gate gate = GATE;
    open_full(&full, LW_CALLER_RUNS, 0, NULL);
    void *both[] = {full.pool, &gate};
    pthread_t thread = start_thread(submit_gate, both);
    tally_await(&gate.arrived, 1);
    gate_open(&full.gate);
    tally_await(&full.queued, 2);
    await_that(stats_of(full.pool).running == 1); /* only the caller's is left */
    assert_status(lw_pool_wait_idle(full.pool, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_pool_wait_idle(full.pool, -1), LW_OK);
    join_thread(thread);
    close_full(&full);
}

TEST(a_wait_ends_when_its_time_has_passed_and_not_before) {
    struct full_pool full;
    struct wait wait;
    open_full(&full, LW_BLOCK, 0, NULL);
    begin_wait(&wait, full.pool, 200);
    await_sleepers(full.clock, 1);
    advance(full.clock, 199);
    await_sleepers(full.clock, 1);
    assert_false(atomic_load(&wait.is_over));
    advance(full.clock, 1);
    assert_status(end_wait(&wait), LW_ETIMEDOUT);
    close_full(&full);
}

TEST(a_wait_ends_as_soon_as_the_pool_is_idle) {
    struct full_pool full;
    struct wait waits[4];
    open_full(&full, LW_BLOCK, 0, NULL);
    for (int i = 0; i < 4; i++)
        begin_wait(&waits[i], full.pool, i % 2 ? 200 : 500);
    await_sleepers(full.clock, 4);
    gate_open(&full.gate);
    for (int i = 0; i < 4; i++)
        assert_status(end_wait(&waits[i]), LW_OK);
    assert_int_equal(tally_read(&full.queued), 2);
    close_full(&full);
}

TEST(a_wait_stops_nobody) {
    struct full_pool full;
    struct wait wait;
    struct tally runs = TALLY;
    open_full(&full, LW_REFUSE, 0, NULL);
    begin_wait(&wait, full.pool, 1000);
    await_sleepers(full.clock, 1);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_EFULL); /* not LW_ESTOPPING */
    gate_open(&full.gate);
    assert_status(end_wait(&wait), LW_OK);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_OK);
    tally_await(&runs, 1);
    close_full(&full);
}

struct offspring {
    lw_pool *pool;
    int left;
};

/* Past a queue of one: some of them wait elsewhere until this one has ended. */
static void submit_more(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct offspring *o = arg;
    for (int i = 0; i < 2 && o->left > 0; i++) {
        o->left--;
        assert_status(lw_pool_submit(o->pool, submit_more, o), LW_OK);
    }
}

TEST(a_wait_outlasts_what_tasks_submit_meanwhile) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1);
    for (int round = 0; round < 500; round++) {
        struct offspring o = {.pool = pool, .left = 100};
        assert_status(lw_pool_submit(pool, submit_more, &o), LW_OK);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        assert_int_equal(o.left, 0);
    }
    close_pool(pool);
}

TEST(a_wait_ends_when_what_is_queued_is_cancelled_or_dropped) {
    struct gate gate = GATE;
    struct wait wait;
    lw_ticket ticket;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &gate, 1);
    assert_status(
        lw_pool_submit_with(pool, gate_task, &gate, LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL),
        LW_OK);
    assert_status(lw_pool_cancel(pool, ticket), LW_OK);
    begin_wait(&wait, pool, -1);
    gate_open(&gate);
    assert_status(end_wait(&wait), LW_OK);
    assert_int_equal(tally_read(&gate.arrived), 1);
    close_pool(pool);
}

TEST(a_wait_that_a_stop_overtakes_ends) {
    struct gate gate = GATE;
    struct wait wait;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 10);
    begin_wait(&wait, pool, -1);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(end_wait(&wait), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    close_pool(pool);
}

static void wait_inside(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct wait *wait = arg;
    wait->rc = lw_pool_wait_idle(wait->pool, wait->timeout_ms);
}

TEST(inside_a_task_a_wait_would_be_for_itself) {
    const int64_t times[] = {0, 1000, -1};
    struct wait wait = {.pool = OPEN_POOL(.min_workers = 1)};
    for (int i = 0; i < 3; i++) {
        wait.timeout_ms = times[i];
        assert_status(lw_pool_run(wait.pool, wait_inside, &wait), LW_OK);
        assert_status(wait.rc, LW_EDEADLOCK);
    }
    close_pool(wait.pool);
}

TEST(inside_a_task_that_the_caller_runs_a_wait_would_be_for_itself) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, NULL);
    struct wait wait = {.pool = full.pool, .timeout_ms = -1};
    assert_status(lw_pool_submit(full.pool, wait_inside, &wait), LW_OK);
    assert_status(wait.rc, LW_EDEADLOCK);
    close_full(&full);
}

static void tick(lw_ctx *ctx, void *arg) {
    (void)ctx;
    atomic_fetch_add((atomic_long *)arg, 1);
}

TEST(after_each_wait_everything_submitted_before_it_has_ended) {
    atomic_long ticks = 0;
    long submitted = 0;
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    for (long round = 0; round < test_scale(5000, 200000); round++) {
        submit_times(pool, tick, (void *)&ticks, 1 + round % 3);
        submitted += 1 + round % 3;
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        assert_int_equal(atomic_load(&ticks), submitted);
    }
    close_pool(pool);
}
