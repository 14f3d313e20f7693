/* The way in: what a full queue means under each policy, one task or many. */
#include "pools.h"

#include <stdatomic.h>

static struct tally drops = TALLY;
static void *last_drop;

static void note_drop(void *arg) {
    last_drop = arg;
    tally_add(&drops, 1);
}

/* A submit on a thread of its own, because it blocks. */
struct submit {
    lw_pool *pool;
    int64_t timeout_ms;
    lw_pool_fn fn;
    void *arg;
    int rc;
    pthread_t thread;
};

static void *run_submit(void *arg) {
    struct submit *s = arg;
    if (s->timeout_ms)
        s->rc = lw_pool_submit_with(s->pool, s->fn, s->arg,
                                    LW_SUBMIT_OPTIONS(.timeout_ms = s->timeout_ms), NULL);
    else
        s->rc = lw_pool_submit(s->pool, s->fn, s->arg);
    return NULL;
}

static int end_submit(struct submit *s) {
    join_thread(s->thread);
    return s->rc;
}

/* ---- order --------------------------------------------------------------------------------- */

enum { MANY = 1000 };
static int order[MANY];
static atomic_int order_count;

static void note_order(lw_ctx *ctx, void *arg) {
    (void)ctx;
    order[atomic_fetch_add(&order_count, 1)] = (int)(intptr_t)arg;
}

static void check_order(int count, int first) {
    assert_int_equal(atomic_load(&order_count), count);
    for (int i = 0; i < count; i++)
        assert_int_equal(order[i], first + i);
}

TEST(one_worker_runs_tasks_in_the_order_of_their_acceptance) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 7);
    for (intptr_t i = 0; i < MANY; i++)
        assert_status(lw_pool_submit(pool, note_order, (void *)i), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    check_order(MANY, 0);
    close_pool(pool);
}

/* ---- block --------------------------------------------------------------------------------- */

TEST(block_waits_for_room_and_then_hands_over) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, 1000, note_drop);
    struct submit s = {.pool = full.pool, .fn = tally_task, .arg = &runs};
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    assert_int_equal(stats_of(full.pool).queued, 2);
    gate_open(&full.gate);
    assert_status(end_submit(&s), LW_OK);
    tally_await(&runs, 1);
    assert_int_equal(tally_read(&full.queued), 2);
    close_full(&full);
}

TEST(block_gives_up_when_its_time_has_passed_and_not_before) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, 1000, note_drop);
    struct submit s = {.pool = full.pool, .fn = tally_task, .arg = &runs};
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    advance(full.clock, 999);
    await_sleepers(full.clock, 1);
    advance(full.clock, 1);
    assert_status(end_submit(&s), LW_ETIMEDOUT);
    close_full(&full);
    assert_int_equal(tally_read(&runs), 0);
}

TEST(block_with_no_time_gives_up_at_once) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, LW_ZERO, note_drop);
    assert_status(lw_pool_submit(full.pool, tally_task, &drops), LW_ETIMEDOUT);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(many_blocked_submitters_all_get_through) {
    enum { SUBMITTERS = 16 };
    struct full_pool full;
    struct submit s[SUBMITTERS];
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, 1000, note_drop);
    for (int i = 0; i < SUBMITTERS; i++) {
        s[i] = (struct submit){.pool = full.pool, .fn = tally_task, .arg = &runs};
        s[i].thread = start_thread(run_submit, &s[i]);
    }
    await_sleepers(full.clock, SUBMITTERS);
    gate_open(&full.gate);
    for (int i = 0; i < SUBMITTERS; i++)
        assert_status(end_submit(&s[i]), LW_OK);
    tally_await(&runs, SUBMITTERS);
    close_full(&full);
}

TEST(a_blocked_submitter_that_gives_up_takes_nobody_elses_turn) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, 1000, note_drop);
    struct submit first = {.pool = full.pool, .fn = tally_task, .arg = &runs, .timeout_ms = 10};
    struct submit second = {.pool = full.pool, .fn = tally_task, .arg = &runs};
    first.thread = start_thread(run_submit, &first);
    await_sleepers(full.clock, 1);
    second.thread = start_thread(run_submit, &second);
    await_sleepers(full.clock, 2);
    advance(full.clock, 10);
    assert_status(end_submit(&first), LW_ETIMEDOUT);
    gate_open(&full.gate);
    assert_status(end_submit(&second), LW_OK);
    tally_await(&runs, 1);
    close_full(&full);
}

/* ---- refuse, caller runs, drop the oldest -------------------------------------------------- */

TEST(refuse_says_full_and_accepts_again_when_there_is_room) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_REFUSE, 0, note_drop);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_EFULL);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_EFULL);
    gate_open(&full.gate);
    assert_status(lw_pool_wait_idle(full.pool, -1), LW_OK);
    assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_OK);
    tally_await(&runs, 1);
    close_full(&full);
    assert_int_equal(tally_read(&runs), 1);
}

static void note_thread(lw_ctx *ctx, void *arg) {
    CHECK(ctx != NULL && !lw_ctx_done(ctx) && !lw_ctx_stopping(ctx));
    *(pthread_t *)arg = pthread_self();
}

TEST(caller_runs_runs_in_the_submitting_thread_before_it_returns) {
    struct full_pool full;
    pthread_t thread = 0;
    open_full(&full, LW_CALLER_RUNS, 0, note_drop);
    assert_status(lw_pool_submit(full.pool, note_thread, &thread), LW_OK);
    assert_true(pthread_equal(thread, pthread_self()));
    assert_int_equal(tally_read(&full.queued), 0);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

static void list_running(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct full_pool *full = arg;
    lw_pool_run_info infos[2];
    assert_int_equal(lw_pool_running(full->pool, infos, 2), 2);
    int mine = infos[0].arg == arg ? 0 : 1;
    assert_ptr_equal(infos[mine].fn, list_running);
    assert_ptr_equal(infos[mine].arg, arg);
    assert_int_equal(infos[mine].worker, UINT32_MAX);
}

TEST(a_task_that_the_caller_runs_is_on_the_list_of_what_runs) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, note_drop);
    assert_status(lw_pool_submit(full.pool, list_running, &full), LW_OK);
    assert_int_equal(lw_pool_running(full.pool, NULL, 0), 1);
    close_full(&full);
}

TEST(drop_oldest_hands_the_head_of_the_queue_to_on_drop) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_DROP_OLDEST, 0, note_drop);
    int numbers[3];
    for (int i = 0; i < 2; i++) {
        assert_status(lw_pool_submit(full.pool, tally_task, &runs), LW_OK);
        assert_ptr_equal(last_drop, &full.queued); /* in the submitter, before it returned */
        assert_int_equal(tally_read(&drops), i + 1);
    }
    assert_status(lw_pool_submit(full.pool, note_order, numbers), LW_OK);
    assert_ptr_equal(last_drop, &runs);
    close_full(&full);
    assert_int_equal(tally_read(&runs), 1);
    assert_int_equal(atomic_load(&order_count), 1);
    assert_int_equal(tally_read(&full.queued), 0);
}

TEST(try_submit_never_waits_runs_or_drops_whatever_the_policy) {
    const lw_overflow policies[] = {LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS, LW_DROP_OLDEST};
    for (int i = 0; i < 4; i++) {
        struct full_pool full;
        struct tally runs = TALLY;
        open_full(&full, policies[i], 0, note_drop);
        assert_status(lw_pool_try_submit(full.pool, tally_task, &runs), LW_EFULL);
        gate_open(&full.gate);
        assert_status(lw_pool_wait_idle(full.pool, -1), LW_OK);
        assert_status(lw_pool_try_submit(full.pool, tally_task, &runs), LW_OK);
        close_full(&full);
        assert_int_equal(tally_read(&runs), 1);
    }
    assert_int_equal(tally_read(&drops), 0);
}

/* ---- many ---------------------------------------------------------------------------------- */

static void fill_tasks(lw_pool_task *tasks, int count) {
    for (intptr_t i = 0; i < count; i++)
        tasks[i] = (lw_pool_task){note_order, (void *)i};
}

TEST(many_tasks_at_once_are_accepted_in_order) {
    lw_pool_task tasks[MANY];
    size_t accepted = 0;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 10);
    fill_tasks(tasks, MANY);
    assert_status(lw_pool_submit_many(pool, tasks, MANY / 2, &accepted), LW_OK);
    assert_int_equal(accepted, MANY / 2);
    assert_status(lw_pool_submit_many(pool, tasks + MANY / 2, MANY / 2, NULL), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    check_order(MANY, 0);
    close_pool(pool);
}

/* What becomes of 10 tasks when two find room. */
static void submit_ten(lw_overflow overflow, int64_t timeout_ms, int rc, size_t accepted_wanted) {
    lw_pool_task tasks[10];
    struct gate gate = GATE;
    size_t accepted = 77;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 2, .overflow = overflow,
                              .submit_timeout_ms = timeout_ms, .on_drop = note_drop);
    occupy(pool, &gate, 1);
    fill_tasks(tasks, 10);
    assert_status(lw_pool_submit_many(pool, tasks, 10, &accepted), rc);
    assert_int_equal(accepted, accepted_wanted);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
}

TEST(many_under_refuse_accepts_a_prefix) {
    submit_ten(LW_REFUSE, 0, LW_EFULL, 2);
    check_order(2, 0);
}

TEST(many_under_block_accepts_a_prefix_when_the_time_is_over) {
    submit_ten(LW_BLOCK, LW_ZERO, LW_ETIMEDOUT, 2);
    check_order(2, 0);
}

TEST(many_under_caller_runs_accepts_all_and_runs_the_rest) {
    submit_ten(LW_CALLER_RUNS, 0, LW_OK, 10);
    assert_int_equal(atomic_load(&order_count), 10);
}

TEST(many_under_drop_oldest_accepts_all_and_keeps_the_last) {
    submit_ten(LW_DROP_OLDEST, 0, LW_OK, 10);
    check_order(2, 8);
    assert_int_equal(tally_read(&drops), 8);
}

TEST(many_of_none_is_fine_and_one_without_a_function_spoils_all) {
    lw_pool_task tasks[3];
    size_t accepted = 77;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    fill_tasks(tasks, 3);
    assert_status(lw_pool_submit_many(pool, tasks, 0, &accepted), LW_OK);
    assert_int_equal(accepted, 0);
    assert_status(lw_pool_submit_many(pool, NULL, 0, NULL), LW_OK);
    tasks[2].fn = NULL;
    accepted = 77;
    assert_status(lw_pool_submit_many(pool, tasks, 3, &accepted), LW_EINVAL);
    assert_int_equal(accepted, 0);
    assert_status(lw_pool_submit_many(pool, NULL, 3, &accepted), LW_EINVAL);
    assert_status(lw_pool_submit_many(NULL, tasks, 1, &accepted), LW_EINVAL);
    close_pool(pool);
    assert_int_equal(atomic_load(&order_count), 0);
}
