/* Where two of the pool's promises meet: what each test tells was once broken. */
#include "guarded.h"

#include <stdatomic.h>

enum { LONG_MS = 1000000 }; /* a wait that shows on a test clock; it never passes by itself */

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

struct submitter {
    lw_pool *pool;
    lw_ctx *ctx;
    struct tally *runs;
    lw_ticket ticket;
    int rc;
};

static void *submit_for_ticket(void *arg) {
    struct submitter *s = arg;
    s->rc = lw_pool_submit_with(s->pool, tally_task, s->runs,
                                LW_SUBMIT_OPTIONS(.ctx = s->ctx, .ticket = &s->ticket), NULL);
    return NULL;
}

static void *submit_plainly(void *arg) {
    struct submitter *s = arg;
    s->rc = lw_pool_submit(s->pool, tally_task, s->runs);
    return NULL;
}

/* ---- room -------------------------------------------------------------------------------------
 */

TEST(a_little_room_is_enough_for_a_blocked_submitter_when_the_worker_turns_to_a_slow_task) {
    enum { LIMIT = 8 };
    struct gate first = GATE, slow = GATE;
    struct tally runs = TALLY;
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = LIMIT, .spin_percent = -1,
                              .submit_timeout_ms = LONG_MS, .clock = clock);
    for (int i = 0; i < 200; i++) /* the pool learns that its tasks are short */
        assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    occupy(pool, &first, 1);
    submit_times(pool, tally_task, &runs, 2);
    submit_times(pool, gate_task, &slow, 1);
    submit_times(pool, tally_task, &runs, LIMIT - 3);
    struct submitter blocked = {.pool = pool, .runs = &runs};
    pthread_t thread = start_thread(submit_plainly, &blocked);
    await_sleepers(clock, 1);
    gate_open(&first);
    tally_await(&slow.arrived, 1); /* three places are free */
    join_thread(thread);
    assert_status(blocked.rc, LW_OK);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_EFULL);
    gate_open(&slow);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 200 + LIMIT - 1 + 3);
    close_pool(pool);
    lw_test_clock_close(clock);
}

struct producer {
    lw_pool *pool;
    struct gate slow;
    atomic_bool must_end, has_ended;
};

static void do_nothing(lw_ctx *ctx, void *arg) {
    (void)ctx, (void)arg;
}

static void *produce(void *arg) {
    struct producer *p = arg;
    while (!atomic_load(&p->must_end))
        assert_status(lw_pool_submit(p->pool, do_nothing, NULL), LW_OK);
    atomic_store(&p->has_ended, true);
    return NULL;
}

static void end_producer_and_be_slow(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct producer *p = arg;
    atomic_store(&p->must_end, true);
    gate_pass(&p->slow);
}

TEST(a_worker_that_hurries_into_a_slow_task_keeps_no_submitter_from_the_room_there_is) {
    enum { LIMIT = 1024 };
    for (long round = 0; round < test_scale(20, 500); round++) {
        struct producer p = {.pool = OPEN_POOL(.min_workers = 1, .queue_limit = LIMIT),
                             .slow = GATE};
        pthread_t thread = start_thread(produce, &p);
        await_that(stats_of(p.pool).submitted > 4 * LIMIT);
        assert_status(lw_pool_submit(p.pool, end_producer_and_be_slow, &p), LW_OK);
        tally_await(&p.slow.arrived, 1);
        await_that(atomic_load(&p.has_ended) || stats_of(p.pool).queued >= LIMIT);
        gate_open(&p.slow);
        join_thread(thread);
        close_pool(p.pool);
    }
}

TEST(many_submitters_can_wait_for_room_with_a_ticket_each) {
    enum { COUNT = 600 };
    static struct submitter blocked[COUNT];
    static pthread_t threads[COUNT];
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .stuck_max = LW_ZERO,
                              .submit_timeout_ms = LONG_MS, .clock = clock);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 1);
    for (int i = 0; i < COUNT; i++) {
        blocked[i] = (struct submitter){.pool = pool, .runs = &runs};
        threads[i] = start_thread(submit_for_ticket, &blocked[i]);
    }
    await_sleepers(clock, COUNT); /* all of them, none was sent away */
    gate_open(&gate);
    for (int i = 0; i < COUNT; i++) {
        join_thread(threads[i]);
        assert_status(blocked[i].rc, LW_OK);
    }
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), COUNT + 1);
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* ---- a ticket whose task is not in the queue yet ----------------------------------------------
 */

TEST(submitters_that_a_stop_sends_away_are_gone_before_the_close_and_leave_nothing) {
    enum { COUNT = 3 };
    for (long round = 0; round < test_scale(100, 5000); round++) {
        struct gate gate = GATE;
        struct tally runs = TALLY;
        struct submitter blocked[COUNT];
        pthread_t threads[COUNT];
        lw_ctx *ctx;
        lw_clock *clock = open_clock();
        lw_test_memory *memory = open_memory();
        assert_status(lw_ctx_open(&ctx,
                                  LW_CTX_OPTIONS(.value = "trace", .value_size = 5, .clock = clock),
                                  NULL),
                      LW_OK);
        lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .submit_timeout_ms = LONG_MS,
                                  .clock = clock, .allocator = lw_test_memory_allocator(memory));
        assert_status(lw_pool_submit(pool, until_done_task, &gate), LW_OK);
        tally_await(&gate.arrived, 1);
        submit_times(pool, tally_task, &runs, 1);
        for (int i = 0; i < COUNT; i++) {
            blocked[i] = (struct submitter){.pool = pool, .ctx = ctx, .runs = &runs};
            threads[i] = start_thread(submit_for_ticket, &blocked[i]);
        }
        await_sleepers(clock, COUNT + 1); /* and the task */
        assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
        close_pool(pool);
        close_memory(memory);
        for (int i = 0; i < COUNT; i++) {
            join_thread(threads[i]);
            assert_status(blocked[i].rc, LW_ESTOPPING);
            assert_int_equal(blocked[i].ticket, 0);
        }
        assert_int_equal(tally_read(&runs), 0);
        lw_ctx_close(ctx);
        lw_test_clock_close(clock);
    }
}

/* A pool with one task running, one queued, and one whose submitter waits: that one is cancelled,
 * and then `go` lets its submitter go on. */
static void cancel_while_waiting(void (*go)(struct full_pool *full), uint64_t queued_then) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, LONG_MS, count_drop);
    struct submitter blocked = {.pool = full.pool, .runs = &runs};
    pthread_t thread = start_thread(submit_for_ticket, &blocked);
    await_sleepers(full.clock, 1);
    lw_ticket ticket = blocked.ticket;
    assert_status(lw_pool_cancel(full.pool, ticket), LW_OK);
    assert_int_equal(tally_read(&drops), 1);
    assert_status(lw_pool_cancel(full.pool, ticket), LW_ENOTFOUND);
    go(&full);
    join_thread(thread);
    assert_status(blocked.rc, LW_OK); /* the argument has changed hands */
    assert_status(lw_pool_cancel(full.pool, ticket), LW_ENOTFOUND);
    assert_int_equal(stats_of(full.pool).queued, queued_then);
    assert_int_equal(stats_of(full.pool).refused, 0);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 1);
    assert_int_equal(tally_read(&runs), 0);
}

static void let_its_time_pass(struct full_pool *full) {
    advance(full->clock, LONG_MS);
}

TEST(a_task_that_is_cancelled_while_its_submitter_waits_counts_as_accepted_when_no_room_comes) {
    cancel_while_waiting(let_its_time_pass, 2);
}

static void make_room(struct full_pool *full) {
    gate_open(&full->gate);
    assert_status(lw_pool_wait_idle(full->pool, -1), LW_OK);
}

TEST(a_task_that_is_cancelled_while_its_submitter_waits_does_not_run_when_room_comes) {
    cancel_while_waiting(make_room, 0);
}

/* ---- closing and stopping inside --------------------------------------------------------------
 */

struct closing {
    lw_pool *pool;
    struct gate busy;
    int threads_before;
    bool must_be_last;
};

static void close_it(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct closing *c = arg;
    assert_status(lw_pool_close(c->pool), LW_PENDING);
    if (c->must_be_last)
        await_that(thread_count() <= c->threads_before + test_is_sanitized());
}

/* The first task fills the queue, the second is run by the caller and closes the pool. */
static void close_within_many(size_t count, bool must_be_last, int expected) {
    struct tally runs = TALLY;
    struct closing c = {
        .busy = GATE, .threads_before = thread_count(), .must_be_last = must_be_last};
    size_t accepted = 77;
    long drops_before = tally_read(&drops);
    lw_test_memory *memory = open_memory();
    c.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .overflow = LW_CALLER_RUNS,
                       .on_drop = count_drop, .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_pool_submit(c.pool, until_done_task, &c.busy), LW_OK);
    tally_await(&c.busy.arrived, 1);
    const lw_pool_task tasks[] = {{tally_task, &runs}, {close_it, &c}, {tally_task, &runs}};
    assert_status(lw_pool_submit_many(c.pool, tasks, count, &accepted), expected);
    assert_int_equal(accepted, 2);
    await_that(is_all_freed(memory));
    close_memory(memory);
    tally_await(&c.busy.passed, 1);
    assert_int_equal(tally_read(&drops), drops_before + 1); /* the queued one */
    assert_int_equal(tally_read(&runs), 0);
    await_that(thread_count() <= c.threads_before + test_is_sanitized());
}

TEST(a_task_that_closes_the_pool_within_submit_many_is_the_last_to_be_accepted) {
    close_within_many(3, true, LW_ESTOPPING);
}

TEST(a_last_task_that_closes_the_pool_within_submit_many_is_no_failure) {
    close_within_many(2, true, LW_OK);
}

TEST(a_close_within_submit_many_may_race_the_last_worker_on_its_way_out) {
    for (long round = 0; round < test_scale(200, 5000); round++)
        close_within_many(3, false, LW_ESTOPPING);
}

static lw_pool *dropping_pool;

static void wait_and_stop_inside(void *arg) {
    (void)arg;
    assert_status(lw_pool_wait_idle(dropping_pool, -1), LW_EDEADLOCK);
    assert_status(lw_pool_stop(dropping_pool, LW_DRAIN, -1), LW_PENDING);
    assert_status(lw_pool_stop(dropping_pool, LW_DROP, -1), LW_PENDING);
    tally_add(&drops, 1);
}

static lw_pool *open_dropping(struct gate *gate, struct tally *runs) {
    dropping_pool = OPEN_POOL(.min_workers = 1, .queue_limit = 2, .overflow = LW_DROP_OLDEST,
                              .on_drop = wait_and_stop_inside);
    occupy(dropping_pool, gate, 1);
    submit_times(dropping_pool, tally_task, runs, 2);
    return dropping_pool;
}

TEST(on_drop_in_a_submitter_that_makes_room_may_stop_the_pool_and_waits_for_nobody) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = open_dropping(&gate, &runs);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_int_equal(tally_read(&drops), 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
}

TEST(on_drop_in_a_stop_may_stop_the_pool_and_waits_for_nobody) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = open_dropping(&gate, &runs);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT); /* it is not inside any more */
    assert_int_equal(tally_read(&drops), 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
}

TEST(a_close_after_a_stop_that_timed_out_leaves_nobody_behind_once_nothing_runs) {
    for (long round = 0; round < test_scale(200, 5000); round++) {
        struct gate gate = GATE;
        lw_pool *pool = OPEN_POOL(.min_workers = 4);
        occupy(pool, &gate, 1);
        assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
        gate_open(&gate);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        close_pool(pool);
    }
}

/* ---- who looks at the queue, and at the time --------------------------------------------------
 */

struct leaver {
    lw_pool *pool;
    struct gate held, slow;
    struct tally runs;
};

/* Gets another worker to be held at a gate, fills the queue, and leaves something slow behind. */
static void leave_slow_task_in_reserve(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct leaver *l = arg;
    submit_times(l->pool, gate_task, &l->held, 1);
    while (lw_pool_try_submit(l->pool, tally_task, &l->runs) == LW_OK)
        ;
    tally_await(&l->held.arrived, 1);
    while (lw_pool_try_submit(l->pool, tally_task, &l->runs) == LW_OK)
        ;
    submit_times(l->pool, gate_task, &l->slow, 1);
    pthread_exit(NULL);
}

TEST(a_slow_task_left_in_reserve_by_one_that_ended_its_thread_hides_no_new_task_from_a_sleeper) {
    struct leaver l = {.held = GATE, .slow = GATE, .runs = TALLY};
    struct tally probes = TALLY;
    lw_clock *clock = open_clock();
    l.pool = OPEN_POOL(.min_workers = 1, .max_workers = 2, .idle_ms = LONG_MS, .queue_limit = 4,
                       .spin_percent = -1, .clock = clock);
    assert_status(lw_pool_submit(l.pool, leave_slow_task_in_reserve, &l), LW_OK);
    tally_await(&l.slow.arrived, 1); /* in the new thread, past the full queue */
    gate_open(&l.held);
    await_sleepers(clock, 1); /* the other one: it would quit after idle_ms */
    assert_int_equal(stats_of(l.pool).queued, 0);
    assert_status(lw_pool_submit(l.pool, tally_task, &probes), LW_OK);
    tally_await(&probes, 1);
    gate_open(&l.slow);
    assert_status(lw_pool_stop(l.pool, LW_DRAIN, -1), LW_OK);
    close_pool(l.pool);
    lw_test_clock_close(clock);
}

/* True: in a real while nobody has come back to wait for a time. A longer while would find more,
 * a shorter one alarms nobody for nothing. */
static bool does_nobody_wait_after(lw_clock *clock, int64_t ms) {
    advance(clock, ms);
    return lw_test_clock_await_sleepers(clock, 1, 200) == LW_ETIMEDOUT;
}

TEST(the_monitor_goes_away_after_a_stuck_worker_has_come_back_to_a_place_that_is_taken) {
    struct guarded_pool g;
    struct gate gate = GATE;
    OPEN_GUARDED(&g, .min_workers = 1);
    get_stuck(&g, &gate);
    gate_open(&gate);
    await_that(stats_of(g.pool).workers == 1);
    await_that(does_nobody_wait_after(g.clock, 10 * TIMEOUT_MS));
    struct gate again = GATE;
    get_stuck(&g, &again); /* and it is back when it is needed */
    gate_open(&again);
    close_guarded(&g);
}
