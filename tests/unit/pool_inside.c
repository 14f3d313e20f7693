/* Submitting from inside a task, which never dead-locks; and lw_pool_run, which waits for the end
 * of what it submits. */
#include "pools.h"

#include <stdatomic.h>

static atomic_long runs;
static struct tally drops = TALLY;

static void count_run(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
    atomic_fetch_add(&runs, 1);
}

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

/* The narrowest pool: one worker, a queue of one. */
static lw_pool *open_narrow(lw_overflow overflow) {
    return OPEN_POOL(.min_workers = 1, .queue_limit = 1, .overflow = overflow,
                     .on_drop = count_drop);
}

static void close_idle(lw_pool *pool) {
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    close_pool(pool);
}

/* ---- chains -------------------------------------------------------------------------------- */

struct chain {
    lw_pool *pool;
    long left;
};

static void next_link(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct chain *chain = arg;
    if (--chain->left > 0)
        assert_status(lw_pool_submit(chain->pool, next_link, chain), LW_OK);
}

static void run_chain(lw_overflow overflow) {
    struct chain chain = {.pool = open_narrow(overflow), .left = 100000};
    assert_status(lw_pool_submit(chain.pool, next_link, &chain), LW_OK);
    assert_status(lw_pool_wait_idle(chain.pool, -1), LW_OK);
    assert_int_equal(chain.left, 0);
    close_pool(chain.pool);
}

TEST(a_task_that_submits_itself_again_a_hundred_thousand_times_ends) {
    run_chain(LW_BLOCK);
    run_chain(LW_CALLER_RUNS);
    run_chain(LW_REFUSE);
    run_chain(LW_DROP_OLDEST);
}

/* ---- fan-outs ------------------------------------------------------------------------------ */

struct fan {
    lw_pool *pool;
    int width;
    long accepted, refused;
};

static void fan_out(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct fan *fan = arg;
    for (int i = 0; i < fan->width; i++) {
        int rc = lw_pool_submit(fan->pool, count_run, NULL);
        CHECK(rc == LW_OK || rc == LW_EFULL);
        rc == LW_OK ? fan->accepted++ : fan->refused++;
    }
}

TEST(a_task_that_submits_ten_thousand_gets_all_of_them_run) {
    const lw_overflow policies[] = {LW_BLOCK, LW_CALLER_RUNS};
    for (int i = 0; i < 2; i++) {
        struct fan fan = {.pool = open_narrow(policies[i]), .width = 10000};
        assert_status(lw_pool_submit(fan.pool, fan_out, &fan), LW_OK);
        close_idle(fan.pool);
        assert_int_equal(fan.accepted, 10000);
        assert_int_equal(atomic_exchange(&runs, 0), 10000);
    }
}

TEST(inside_a_task_refuse_still_refuses) {
    struct fan fan = {.pool = open_narrow(LW_REFUSE), .width = 10};
    assert_status(lw_pool_submit(fan.pool, fan_out, &fan), LW_OK);
    close_idle(fan.pool);
    assert_int_equal(fan.accepted, 1);
    assert_int_equal(fan.refused, 9);
    assert_int_equal(atomic_load(&runs), 1);
}

TEST(inside_a_task_drop_oldest_still_drops_the_oldest) {
    struct fan fan = {.pool = open_narrow(LW_DROP_OLDEST), .width = 10};
    assert_status(lw_pool_submit(fan.pool, fan_out, &fan), LW_OK);
    close_idle(fan.pool);
    assert_int_equal(fan.accepted, 10);
    assert_int_equal(atomic_load(&runs), 1);
    assert_int_equal(tally_read(&drops), 9);
}

static void fan_out_in_every_way(lw_ctx *ctx, void *arg) {
    struct fan *fan = arg;
    lw_pool_task tasks[100];
    size_t accepted;
    lw_ticket ticket;
    for (int i = 0; i < 100; i++)
        tasks[i] = (lw_pool_task){count_run, NULL};
    for (int i = 0; i < 10; i++) {
        assert_status(lw_pool_submit_many(fan->pool, tasks, 100, &accepted), LW_OK);
        assert_int_equal(accepted, 100);
        assert_status(lw_pool_submit_with(fan->pool, count_run, NULL,
                                          LW_SUBMIT_OPTIONS(.ctx = ctx, .ticket = &ticket), NULL),
                      LW_OK);
        int rc = lw_pool_try_submit(fan->pool, count_run, NULL);
        CHECK(rc == LW_OK || rc == LW_EFULL);
        fan->accepted += rc == LW_OK;
        assert_status(lw_pool_run(fan->pool, count_run, NULL), LW_OK);
    }
}

TEST(every_way_to_submit_works_inside_a_task_of_a_full_pool) {
    struct fan fan = {.pool = open_narrow(LW_BLOCK)};
    assert_status(lw_pool_submit(fan.pool, fan_out_in_every_way, &fan), LW_OK);
    close_idle(fan.pool);
    assert_int_equal(atomic_load(&runs), 10 * 102 + fan.accepted);
}

/* ---- trees --------------------------------------------------------------------------------- */

struct tree {
    lw_pool *pool;
    atomic_long accepted;
};

static struct tree tree;

/* Each node submits six below it, until five levels are done. What is refused at the end of reserve
 * and nesting is the only thing that may be. */
static void grow_node(lw_ctx *ctx, void *arg) {
    (void)ctx;
    intptr_t levels = (intptr_t)arg;
    atomic_fetch_add(&runs, 1);
    for (int i = 0; i < 6 && levels > 0; i++) {
        int rc = lw_pool_submit(tree.pool, grow_node, (void *)(levels - 1));
        CHECK(rc == LW_OK || rc == LW_EFULL);
        atomic_fetch_add(&tree.accepted, rc == LW_OK);
    }
}

static void grow_tree(int workers, lw_overflow overflow) {
    tree.pool = OPEN_POOL(.min_workers = workers, .queue_limit = 1, .overflow = overflow);
    atomic_store(&tree.accepted, 0);
    atomic_store(&runs, 0);
    assert_status(lw_pool_submit(tree.pool, grow_node, (void *)5), LW_OK);
    assert_status(lw_pool_wait_idle(tree.pool, -1), LW_OK);
    assert_int_equal(atomic_load(&runs), atomic_load(&tree.accepted) + 1);
    close_pool(tree.pool);
}

TEST(tasks_that_submit_tasks_at_every_level_never_dead_lock) {
    for (int workers = 1; workers <= 3; workers++) {
        grow_tree(workers, LW_BLOCK);
        assert_int_equal(atomic_load(&runs), 1 + 6 + 36 + 216 + 1296 + 7776);
        grow_tree(workers, LW_CALLER_RUNS);
        assert_int_equal(atomic_load(&runs), 1 + 6 + 36 + 216 + 1296 + 7776);
    }
}

struct descent {
    lw_pool *pool;
    int depth, deepest, rc;
};

/* With the reserve full, each submit runs its task at once, inside the present one. */
static void descend(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct descent *d = arg;
    if (++d->depth > d->deepest)
        d->deepest = d->depth;
    int rc = d->depth < 1000 ? lw_pool_submit(d->pool, descend, d) : LW_OK;
    if (rc < 0)
        d->rc = rc;
    d->depth--;
}

static void fill_and_descend(lw_ctx *ctx, void *arg) {
    struct descent *d = arg;
    for (int i = 0; i < LW_POOL_RESERVE + 1; i++)
        assert_status(lw_pool_submit(d->pool, count_run, NULL), LW_OK);
    assert_int_equal(atomic_load(&runs), 0); /* they wait their turn … */
    assert_status(lw_pool_submit(d->pool, count_run, NULL), LW_OK);
    assert_int_equal(atomic_load(&runs), 1); /* … and this one cannot */
    descend(ctx, arg);
}

TEST(where_reserve_and_nesting_are_used_up_a_submit_inside_is_refused) {
    struct descent d = {.pool = open_narrow(LW_BLOCK)};
    assert_status(lw_pool_submit(d.pool, fill_and_descend, &d), LW_OK);
    close_idle(d.pool);
    assert_status(d.rc, LW_EFULL);
    CHECK(d.deepest > 2 && d.deepest < 100);
    assert_int_equal(atomic_load(&runs), LW_POOL_RESERVE + 2);
}

TEST(inside_a_task_that_the_caller_runs_a_submit_never_waits_either) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, count_drop);
    struct fan fan = {.pool = full.pool, .width = 50};
    assert_status(lw_pool_submit(full.pool, fan_out, &fan), LW_OK);
    assert_int_equal(fan.accepted, 50);
    assert_int_equal(atomic_load(&runs), 50);
    close_full(&full);
}

/* ---- run ----------------------------------------------------------------------------------- */

struct run {
    lw_pool *pool;
    pthread_t thread;
    int depth;
};

static void note_thread(lw_ctx *ctx, void *arg) {
    CHECK(ctx != NULL && !lw_ctx_done(ctx));
    ((struct run *)arg)->thread = pthread_self();
}

TEST(run_runs_on_a_worker_and_returns_after_the_end) {
    struct run run = {.pool = OPEN_POOL(.min_workers = 1)};
    for (int i = 0; i < 1000; i++) {
        run.thread = pthread_self();
        assert_status(lw_pool_run(run.pool, note_thread, &run), LW_OK);
        assert_false(pthread_equal(run.thread, pthread_self()));
    }
    close_pool(run.pool);
}

static void run_inside(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct run *run = arg;
    assert_status(lw_pool_run(run->pool, note_thread, run), LW_OK);
    assert_true(pthread_equal(run->thread, pthread_self()));
    if (run->depth-- > 0)
        assert_status(lw_pool_run(run->pool, run_inside, run), LW_OK);
}

TEST(run_inside_a_task_runs_in_place_however_deep) {
    struct run run = {.pool = open_narrow(LW_BLOCK), .depth = 100};
    assert_status(lw_pool_run(run.pool, run_inside, &run), LW_OK);
    assert_int_equal(run.depth, -1);
    close_pool(run.pool);
}

static void *run_many(void *arg) {
    for (int i = 0; i < 3000; i++)
        assert_status(lw_pool_run(arg, count_run, NULL), LW_OK);
    return NULL;
}

TEST(many_threads_may_run_at_once_whatever_the_policy) {
    const lw_overflow policies[] = {LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS};
    for (int p = 0; p < 3; p++) {
        pthread_t threads[4];
        lw_pool *pool = open_narrow(policies[p]);
        for (int i = 0; i < 4; i++)
            threads[i] = start_thread(run_many, pool);
        for (int i = 0; i < 4; i++)
            join_thread(threads[i]);
        assert_int_equal(atomic_exchange(&runs, 0), 12000);
        close_pool(pool);
    }
}

static void *run_one(void *arg) {
    return (void *)(intptr_t)lw_pool_run(arg, count_run, NULL);
}

static int join_run(pthread_t thread) {
    void *rc;
    assert_int_equal(pthread_join(thread, &rc), 0);
    return (int)(intptr_t)rc;
}

TEST(run_waits_for_room_even_where_submit_is_refused) {
    struct full_pool full;
    open_full(&full, LW_REFUSE, 0, count_drop);
    pthread_t thread = start_thread(run_one, full.pool);
    assert_status(lw_pool_submit(full.pool, count_run, NULL), LW_EFULL);
    gate_open(&full.gate);
    assert_status(join_run(thread), LW_OK);
    close_full(&full);
    assert_int_equal(atomic_load(&runs), 1);
}

TEST(a_run_that_drop_oldest_dropped_is_cancelled_without_on_drop) {
    struct gate gate = GATE;
    lw_pool *pool = open_narrow(LW_DROP_OLDEST);
    occupy(pool, &gate, 1);
    pthread_t thread = start_thread(run_one, pool);
    await_that(stats_of(pool).queued == 1);
    assert_status(lw_pool_submit(pool, count_run, NULL), LW_OK);
    assert_status(join_run(thread), LW_ECANCELED);
    assert_int_equal(tally_read(&drops), 0);
    gate_open(&gate);
    close_idle(pool);
    assert_int_equal(atomic_load(&runs), 1);
}

static void show_run(lw_ctx *ctx, void *arg) {
    (void)ctx;
    lw_pool_run_info info = {0};
    struct run *run = arg;
    assert_int_equal(lw_pool_running(run->pool, &info, 1), 1);
    assert_ptr_equal(info.fn, show_run);
    assert_ptr_equal(info.arg, arg);
}

TEST(a_run_is_listed_as_what_it_is) {
    struct run run = {.pool = OPEN_POOL(.min_workers = 1)};
    assert_status(lw_pool_run(run.pool, show_run, &run), LW_OK);
    close_pool(run.pool);
}

/* ---- two pools ----------------------------------------------------------------------------- */

struct bounce {
    lw_pool *pools[2];
    atomic_int left;
};

static void bounce_over(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct bounce *b = arg;
    int left = atomic_fetch_sub(&b->left, 1) - 1;
    if (left > 0)
        assert_status(lw_pool_submit(b->pools[left % 2], bounce_over, b), LW_OK);
}

TEST(two_pools_in_one_process_hand_tasks_to_each_other) {
    struct bounce b = {.pools = {open_narrow(LW_BLOCK), open_narrow(LW_CALLER_RUNS)}};
    atomic_store(&b.left, 20000);
    assert_status(lw_pool_submit(b.pools[0], bounce_over, &b), LW_OK);
    await_that(atomic_load(&b.left) == 0);
    close_idle(b.pools[0]);
    close_idle(b.pools[1]);
}

static void ask_other(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct bounce *b = arg;
    assert_status(lw_pool_wait_idle(b->pools[1], -1), LW_OK); /* inside the other one only */
    assert_status(lw_pool_wait_idle(b->pools[0], -1), LW_EDEADLOCK);
    assert_status(lw_pool_run(b->pools[1], count_run, NULL), LW_OK);
    assert_status(lw_pool_stop(b->pools[1], LW_DRAIN, -1), LW_OK);
}

TEST(a_task_may_wait_for_and_stop_another_pool) {
    struct bounce b = {.pools = {open_narrow(LW_BLOCK), open_narrow(LW_BLOCK)}};
    assert_status(lw_pool_run(b.pools[0], ask_other, &b), LW_OK);
    assert_int_equal(atomic_load(&runs), 1);
    close_pool(b.pools[0]);
    close_pool(b.pools[1]);
}
