/* Fork: the threads stay in the parent; in the child every call on an inherited pool says so, and
 * nothing hangs. */
#include "forks.h"
#include "pools.h"

#include <stdatomic.h>
#include <unistd.h>

static void tick(lw_ctx *ctx, void *arg) {
    (void)ctx;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* Every call there is. */
static void expect_forked(lw_pool *pool, atomic_int *runs) {
    lw_pool_stats stats;
    lw_pool_run_info info;
    lw_error err;
    size_t accepted = 77;
    lw_pool_task task = {tick, runs};
    lw_ticket ticket;
    assert_status(lw_pool_submit(pool, tick, runs), LW_EFORKED);
    assert_status(lw_pool_try_submit(pool, tick, runs), LW_EFORKED);
    assert_status(lw_pool_submit_with(pool, tick, runs, LW_SUBMIT_OPTIONS(.ticket = &ticket), &err),
                  LW_EFORKED);
    assert_sentence(&err, LW_EFORKED, "fork");
    assert_status(lw_pool_submit_many(pool, &task, 1, &accepted), LW_EFORKED);
    assert_int_equal(accepted, 0);
    assert_status(lw_pool_run(pool, tick, runs), LW_EFORKED);
    assert_status(lw_pool_cancel(pool, 1), LW_EFORKED);
    assert_status(lw_pool_wait_idle(pool, -1), LW_EFORKED);
    assert_status(lw_pool_running(pool, &info, 1), LW_EFORKED);
    assert_status(lw_pool_get_stats(pool, &stats), LW_EFORKED);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_EFORKED);
    assert_status(lw_pool_close(pool), LW_EFORKED);
}

TEST(in_a_forked_child_every_call_on_an_inherited_pool_says_so) {
    atomic_int *runs = open_shared();
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    pid_t child = fork();
    if (child == 0) {
        begin_child();
        expect_forked(pool, runs);
        _exit(0);
    }
    expect_good_end(child);
    assert_int_equal(atomic_load(runs), 0);
    assert_status(lw_pool_run(pool, tick, runs), LW_OK); /* the parent's goes on */
    assert_int_equal(atomic_load(runs), 1);
    close_pool(pool);
}

TEST(a_forked_child_may_open_a_pool_of_its_own) {
    atomic_int *runs = open_shared();
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    pid_t child = fork_when_settled();
    if (child == 0) {
        begin_child();
        lw_pool *own = OPEN_POOL(.min_workers = 1);
        assert_status(lw_pool_run(own, tick, runs), LW_OK);
        close_pool(own);
        _exit(0);
    }
    expect_good_end(child);
    assert_int_equal(atomic_load(runs), 1);
    close_pool(pool);
}

static atomic_bool must_rest;

static void *keep_busy(void *arg) {
    struct tally runs = TALLY;
    while (!atomic_load(&must_rest)) {
        lw_pool_stats stats;
        lw_ticket ticket;
        lw_pool_submit_with(arg, tally_task, &runs, LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL);
        lw_pool_cancel(arg, ticket);
        lw_pool_get_stats(arg, &stats);
        lw_pool_running(arg, NULL, 0);
    }
    assert_status(lw_pool_wait_idle(arg, -1), LW_OK);
    return NULL;
}

static void *keep_looking(void *arg) {
    while (!atomic_load(&must_rest)) {
        lw_pool_stats stats;
        lw_pool_get_stats(arg, &stats);
    }
    return NULL;
}

TEST(a_fork_in_the_midst_of_everything_hangs_nothing) {
    atomic_int *runs = open_shared();
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .max_workers = 4, .queue_limit = 4, .idle_ms = 1);
    pthread_t threads[] = {start_thread(keep_busy, pool), start_thread(keep_busy, pool)};
    for (int i = 0; i < test_scale(30, 1000); i++) {
        pid_t child = fork();
        if (child == 0) {
            begin_child();
            expect_forked(pool, runs);
            _exit(0);
        }
        expect_good_end(child);
    }
    atomic_store(&must_rest, true);
    join_thread(threads[0]);
    join_thread(threads[1]);
    close_pool(pool);
    assert_int_equal(atomic_load(runs), 0);
}

/* ---- inside a task ------------------------------------------------------------------------- */

struct forker {
    lw_pool *pool;
    atomic_int *runs; /* in either process */
    pid_t child;
    struct tally forked;
};

static void fork_and_exit(lw_ctx *ctx, void *arg) {
    struct forker *f = arg;
    f->child = fork();
    if (f->child == 0) {
        begin_child();
        CHECK(lw_ctx_done(ctx) && lw_ctx_reason(ctx) == LW_REASON_FORKED);
        assert_int_equal(lw_ctx_left_ms(ctx), 0);
        assert_status(lw_ctx_sleep(ctx, 1000000), LW_ECANCELED);
        expect_forked(f->pool, f->runs);
        _exit(0);
    }
    CHECK(!lw_ctx_done(ctx) && lw_ctx_reason(ctx) == LW_REASON_NONE);
    tally_add(&f->forked, 1);
}

static void fork_inside(lw_pool_fn fn, int runs_wanted) {
    struct forker f = {.runs = open_shared(), .forked = TALLY};
    f.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .task_timeout_ms = 1000000);
    for (int i = 0; i < 20; i++) {
        atomic_store(f.runs, 0);
        assert_status(lw_pool_submit(f.pool, fn, &f), LW_OK);
        tally_await(&f.forked, i + 1);
        expect_good_end(f.child);
        assert_status(lw_pool_wait_idle(f.pool, -1), LW_OK);
        assert_int_equal(atomic_load(f.runs), runs_wanted);
    }
    close_pool(f.pool);
}

TEST(a_child_that_is_forked_inside_a_task_is_told_and_may_exit) {
    fork_inside(fork_and_exit, 0);
}

static void fork_and_return(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct forker *f = arg;
    for (int i = 0; i < 10; i++) /* most of them wait for the end of this task */
        assert_status(lw_pool_submit(f->pool, tick, (void *)f->runs), LW_OK);
    f->child = fork();
    if (f->child == 0)
        begin_child();
    else
        tally_add(&f->forked, 1);
}

TEST(the_thread_of_a_child_that_returns_from_its_task_ends_and_runs_nothing_more) {
    fork_inside(fork_and_return, 10);
}

static void only_fork(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct forker *f = arg;
    f->child = fork();
    if (f->child == 0)
        begin_child();
}

TEST(a_child_that_returns_from_a_task_among_short_ones_runs_none_of_the_others) {
    enum { SHORT = 4000, AFTER = 31 };
    struct forker f = {.runs = open_shared()};
    lw_pool_task tasks[1 + AFTER] = {{only_fork, &f}};
    for (int i = 1; i <= AFTER; i++)
        tasks[i] = (lw_pool_task){tick, (void *)f.runs};
    f.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 8192);
    for (int round = 1; round <= 20; round++) {
        submit_times(f.pool, tick, (void *)f.runs, SHORT); /* so that they are taken together */
        assert_status(lw_pool_submit_many(f.pool, tasks, 1 + AFTER, NULL), LW_OK);
        assert_status(lw_pool_wait_idle(f.pool, -1), LW_OK);
        expect_good_end(f.child);
        assert_int_equal(atomic_load(f.runs), round * (SHORT + AFTER));
    }
    close_pool(f.pool);
}

TEST(a_child_that_returns_from_a_task_that_the_caller_ran_goes_on_in_the_callers_code) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, NULL);
    struct forker f = {.pool = full.pool, .runs = open_shared(), .forked = TALLY};
    pid_t parent = getpid();
    pthread_t looker = start_thread(keep_looking, full.pool); /* takes locks */
    for (int i = 0; i < 20; i++) {
        int rc = lw_pool_submit(full.pool, fork_and_return, &f);
        if (getpid() != parent) {
            assert_status(rc, LW_OK);
            expect_forked(full.pool, f.runs);
            _exit(0);
        }
        assert_status(rc, LW_OK);
        expect_good_end(f.child);
    }
    atomic_store(&must_rest, true);
    join_thread(looker);
    assert_int_equal(atomic_load(f.runs), 200);
    close_full(&full);
}

/* ---- inside a callback --------------------------------------------------------------------- */

static struct forker callback;
static pid_t callback_parent;

static void fork_at_first_drop(void *runs) {
    if (getpid() != callback_parent)
        atomic_fetch_add((atomic_int *)runs, 1);
    if (callback.child != 0)
        return;
    callback.child = fork();
    if (callback.child == 0) {
        callback.child = getpid();
        begin_child();
    }
}

TEST(a_child_that_returns_from_on_drop_drops_nothing_more) {
    struct gate gate = GATE;
    callback = (struct forker){.runs = open_shared()};
    callback_parent = getpid();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = fork_at_first_drop);
    occupy(pool, &gate, 1);
    submit_times(pool, tick, (void *)callback.runs, 100);
    int rc = lw_pool_stop(pool, LW_DROP, 0);
    if (getpid() != callback_parent) {
        assert_status(rc, LW_EFORKED);
        _exit(0);
    }
    expect_good_end(callback.child);
    assert_int_equal(atomic_load(callback.runs), 0);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    close_pool(pool);
}

static void fork_when_stuck(void *user, const lw_pool_run_info *task) {
    (void)task;
    struct forker *f = user;
    f->child = fork();
    if (f->child == 0)
        begin_child();
    else
        tally_add(&f->forked, 1);
}

TEST(the_monitor_of_a_child_that_returns_from_on_stuck_ends) {
    struct gate gate = GATE;
    callback = (struct forker){.runs = open_shared(), .forked = TALLY};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .task_timeout_ms = 1, .on_stuck = fork_when_stuck,
                              .user = &callback);
    occupy(pool, &gate, 1);
    tally_await(&callback.forked, 1);
    expect_good_end(callback.child);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
}
