/* The n-th allocation fails, for every call that allocates and for every n until it passes; and the
 * system gives no thread. Each time: a status and a sentence, or the way out that the header
 * describes; nothing leaks, nobody is lost, and the pool still works. */
#include "pools.h"

#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static void assert_works(lw_pool *pool) {
    struct tally runs = TALLY;
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
}

/* Calls the body with a fresh memory and n = 1, 2, 3 … until no allocation fails any more. The body
 * orders the failure itself, when it has come to what it tests. Returns how many there were. */
static uint64_t until_clean(void (*body)(lw_test_memory *memory, uint64_t nth)) {
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 100);
        lw_test_memory *memory = open_memory();
        body(memory, nth);
        bool has_failed = lw_test_memory_has_failed(memory);
        close_memory(memory);
        if (!has_failed)
            return nth - 1;
    }
}

/* Sanitizers start threads of their own with the first one, which must not look like a leak. */
static void *do_nothing(void *arg) {
    return arg;
}

static int settled_thread_count(void) {
    join_thread(start_thread(do_nothing, NULL));
    return thread_count();
}

/* ---- lw_pool_open -------------------------------------------------------------------------- */

static lw_pool_options open_options;

static void open_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_pool_options o = open_options;
    lw_error err = {0};
    lw_pool *pool = (lw_pool *)&err;
    int fds = fd_count();
    o.allocator = lw_test_memory_allocator(memory);
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_pool_open(&pool, &o, nth % 2 ? &err : NULL);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, LW_ENOMEM);
        if (nth % 2)
            assert_sentence(&err, LW_ENOMEM, "memory");
        assert_null(pool);
        assert_true(is_all_freed(memory));
    } else {
        assert_status(rc, LW_OK);
        lw_test_memory_fail_at(memory, 0);
        assert_works(pool);
        close_pool(pool);
    }
    assert_int_equal(fd_count(), fds);
}

TEST(an_open_without_memory_says_so_and_leaves_nothing) {
    int threads = settled_thread_count();
    const lw_pool_options all[] = {
        {.min_workers = 1},
        {.min_workers = 4, .queue_limit = 1},
        {.min_workers = 2, .max_workers = 9, .idle_ms = 5},
        {.min_workers = 2, .task_timeout_ms = 60000},
        {.min_workers = LW_ZERO, .max_workers = 2},
        {.min_workers = LW_ZERO, .max_workers = 2, .task_timeout_ms = 60000},
    };
    static const uint64_t failures[] = {4, 7, 5, 5, 3, 3}; /* the pool, two tables, each worker */
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        open_options = all[i];
        open_options.struct_size = sizeof open_options;
        uint64_t count = until_clean(open_or_say_why);
        CHECK(count >= failures[i]);
        await_that(thread_count() == threads);
    }
}

/* ---- lw_ctx_open --------------------------------------------------------------------------- */

static void open_ctx_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_error err = {0};
    lw_ctx *ctx = (lw_ctx *)&err;
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_ctx_open(&ctx,
                         LW_CTX_OPTIONS(.timeout_ms = 1000, .value = "abc", .value_size = 4,
                                        .allocator = lw_test_memory_allocator(memory)),
                         &err);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, LW_ENOMEM);
        assert_sentence(&err, LW_ENOMEM, "memory");
        assert_null(ctx);
    } else {
        assert_status(rc, LW_OK);
        CHECK(lw_ctx_fd(ctx) >= 0); /* whatever else is done with it takes none */
        assert_status(lw_ctx_cancel(ctx), LW_OK);
        lw_ctx_close(ctx);
    }
}

TEST(a_context_without_memory_says_so_and_leaves_nothing) {
    CHECK(until_clean(open_ctx_or_say_why) >= 1);
}

/* ---- a task with a context or for a ticket -------------------------------------------------- */

struct traveller {
    struct tally runs;
    char value[8];
    size_t size;
};

static void note_value(lw_ctx *ctx, void *arg) {
    struct traveller *t = arg;
    const void *value = lw_ctx_value(ctx, &t->size);
    CHECK(t->size <= sizeof t->value);
    if (value)
        memcpy(t->value, value, t->size);
    tally_add(&t->runs, 1);
}

static void submit_one_with(lw_test_memory *memory, uint64_t nth) {
    struct traveller t = {.runs = TALLY};
    lw_ticket ticket = 0;
    lw_error err = {0};
    lw_ctx *ctx;
    long dropped_before = tally_read(&drops);
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = "abc", .value_size = 4), NULL), LW_OK);
    const lw_submit_options *o = LW_SUBMIT_OPTIONS(.ctx = ctx, .ticket = &ticket);
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_pool_submit_with(pool, note_value, &t, o, &err);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, LW_ENOMEM);
        assert_sentence(&err, LW_ENOMEM, "memory");
        assert_int_equal(stats_of(pool).refused, 1);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        assert_int_equal(tally_read(&t.runs), 0); /* it stayed ours … */
        rc = lw_pool_submit_with(pool, note_value, &t, o, &err);
    }
    assert_status(rc, LW_OK);
    CHECK(ticket != 0);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&t.runs), 1); /* … until it was accepted */
    assert_int_equal(tally_read(&drops), dropped_before);
    assert_string_equal(t.value, "abc");
    lw_ctx_close(ctx);
    close_pool(pool);
}

TEST(a_submit_with_a_context_without_memory_is_refused_and_the_next_is_not) {
    CHECK(until_clean(submit_one_with) >= 2);
}

enum { MANY = 1500 }; /* several chunks of records, and more than their directory first holds */

static void submit_many_with(lw_test_memory *memory, uint64_t nth) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_ticket ticket;
    long accepted = 0, refused = 0, cancelled = 0, dropped_before = tally_read(&drops);
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = MANY, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    occupy(pool, &gate, 1);
    lw_test_memory_fail_at(memory, nth);
    for (int i = 0; i < MANY; i++) {
        int rc = lw_pool_submit_with(pool, tally_task, &runs, LW_SUBMIT_OPTIONS(.ticket = &ticket),
                                     NULL);
        CHECK(rc == LW_OK || rc == LW_ENOMEM);
        accepted += rc == LW_OK;
        refused += rc == LW_ENOMEM;
        if (rc == LW_OK && i % 3 == 0) {
            assert_status(lw_pool_cancel(pool, ticket), LW_OK);
            cancelled++;
        }
    }
    assert_int_equal(refused, lw_test_memory_has_failed(memory));
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), accepted - cancelled);
    assert_int_equal(tally_read(&drops) - dropped_before, cancelled);
    close_pool(pool);
}

TEST(of_many_tickets_exactly_those_without_memory_are_refused) {
    CHECK(until_clean(submit_many_with) >= 4);
}

/* ---- inside a task: the reserve ------------------------------------------------------------- */

enum { INSIDE = 10 };

struct family {
    lw_test_memory *memory;
    uint64_t nth;
    lw_pool *pool;
    bool has_tickets;
    struct tally runs;
    int rc[INSIDE];
};

static void submit_inside(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct family *f = arg;
    lw_ticket ticket;
    lw_test_memory_fail_at(f->memory, f->nth);
    for (int i = 0; i < INSIDE; i++)
        f->rc[i] = f->has_tickets ? lw_pool_submit_with(f->pool, tally_task, &f->runs,
                                                        LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL)
                                  : lw_pool_submit(f->pool, tally_task, &f->runs);
}

static lw_overflow inside_overflow;

static void submit_into_reserve(lw_test_memory *memory, uint64_t nth) {
    struct family f = {.memory = memory, .nth = nth, .runs = TALLY};
    f.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .overflow = inside_overflow,
                       .on_drop = count_drop, .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_pool_run(f.pool, submit_inside, &f), LW_OK);
    for (int i = 0; i < INSIDE; i++)
        assert_status(f.rc[i], LW_OK); /* without a reserve it runs at once */
    assert_status(lw_pool_wait_idle(f.pool, -1), LW_OK);
    assert_int_equal(tally_read(&f.runs), INSIDE);
    assert_works(f.pool);
    close_pool(f.pool);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(a_task_that_submits_past_a_full_queue_needs_no_memory_for_it) {
    inside_overflow = LW_BLOCK;
    CHECK(until_clean(submit_into_reserve) >= 1);
    inside_overflow = LW_CALLER_RUNS;
    CHECK(until_clean(submit_into_reserve) >= 1);
}

static void submit_tickets_into_reserve(lw_test_memory *memory, uint64_t nth) {
    struct family f = {.memory = memory, .nth = nth, .has_tickets = true, .runs = TALLY};
    int accepted = 0;
    f.pool = OPEN_POOL(.min_workers = 1, .queue_limit = 1, .on_drop = count_drop,
                       .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_pool_run(f.pool, submit_inside, &f), LW_OK);
    for (int i = 0; i < INSIDE; i++) {
        CHECK(f.rc[i] == LW_OK || f.rc[i] == LW_ENOMEM);
        accepted += f.rc[i] == LW_OK;
    }
    CHECK(accepted >= INSIDE - 1);
    assert_status(lw_pool_stop(f.pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&f.runs), accepted);
    close_pool(f.pool);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(a_task_that_submits_for_tickets_past_a_full_queue_loses_none) {
    CHECK(until_clean(submit_tickets_into_reserve) >= 3);
}

/* ---- growing ------------------------------------------------------------------------------- */

/* A full queue and a busy worker: the next submit wants another worker, which there is no memory
 * for. Then the policy decides, as it does when there may be none. */
static lw_overflow grow_overflow;

static void submit_to_grow(lw_test_memory *memory, uint64_t nth) {
    static const int answers[] = {[LW_BLOCK] = LW_ETIMEDOUT,
                                  [LW_REFUSE] = LW_EFULL,
                                  [LW_CALLER_RUNS] = LW_OK,
                                  [LW_DROP_OLDEST] = LW_OK};
    struct gate gate = GATE;
    struct tally runs = TALLY, others = TALLY;
    long dropped_before = tally_read(&drops);
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .max_workers = 2, .queue_limit = 1,
                              .overflow = grow_overflow, .submit_timeout_ms = LW_ZERO,
                              .on_drop = count_drop, .allocator = lw_test_memory_allocator(memory));
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &others, 1);
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_pool_submit(pool, tally_task, &runs);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, answers[grow_overflow]);
        assert_int_equal(stats_of(pool).workers, 1);
        assert_int_equal(tally_read(&others), 0);
        assert_int_equal(tally_read(&runs), grow_overflow == LW_CALLER_RUNS);
        assert_int_equal(tally_read(&drops) - dropped_before, grow_overflow == LW_DROP_OLDEST);
        rc = lw_pool_submit(pool, gate_task, &gate); /* now it can grow */
    }
    assert_status(rc, LW_OK);
    assert_int_equal(stats_of(pool).workers_peak, 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    lw_pool_stats stats = stats_of(pool);
    assert_int_equal(stats.submitted, stats.run + stats.dropped);
    assert_int_equal(tally_read(&others) + tally_read(&runs) + tally_read(&gate.passed)
                         + tally_read(&drops) - dropped_before,
                     stats.submitted);
    close_pool(pool);
}

TEST(a_pool_that_cannot_grow_does_what_its_policy_says) {
    for (grow_overflow = LW_BLOCK; grow_overflow <= LW_DROP_OLDEST; grow_overflow++)
        CHECK(until_clean(submit_to_grow) >= 1);
}

/* ---- the first worker ---------------------------------------------------------------------- */

/* A pool with no worker starts one at a submit: the one case where a plain submit allocates. */
static int first_way;

static int submit_first(lw_pool *pool, struct tally *runs) {
    lw_pool_task task = {.fn = tally_task, .arg = runs};
    size_t accepted = 4711;
    lw_error err = {0};
    int rc;
    switch (first_way) {
    case 0: return lw_pool_submit(pool, tally_task, runs);
    case 1: return lw_pool_try_submit(pool, tally_task, runs);
    case 2: return lw_pool_run(pool, tally_task, runs);
    case 3:
        rc = lw_pool_submit_many(pool, &task, 1, &accepted);
        assert_int_equal(accepted, rc == LW_OK);
        return rc;
    default:
        rc = lw_pool_submit_with(pool, tally_task, runs, NULL, &err);
        if (rc < 0)
            assert_sentence(&err, rc, "not accepted");
        return rc;
    }
}

static void start_first(lw_test_memory *memory, uint64_t nth) {
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = LW_ZERO, .max_workers = 1, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    lw_test_memory_fail_at(memory, nth);
    int rc = submit_first(pool, &runs);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, LW_ENOMEM);
        lw_pool_stats stats = stats_of(pool);
        assert_int_equal(stats.refused, 1);
        assert_int_equal(stats.submitted + stats.workers, 0);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        rc = submit_first(pool, &runs);
    }
    assert_status(rc, LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
    assert_int_equal(tally_read(&drops), 0);
    close_pool(pool);
}

TEST(a_submit_that_cannot_start_the_first_worker_is_refused_and_the_next_is_not) {
    for (first_way = 0; first_way < 5; first_way++)
        CHECK(until_clean(start_first) >= 1);
}

/* ---- a stuck worker ------------------------------------------------------------------------ */

static struct tally logged = TALLY;

static void log_errors(void *user, const lw_log_record *record) {
    (void)user;
    if (record->level == LW_LOG_ERROR && strstr(record->message, "not replaced"))
        tally_add(&logged, 1);
}

static void stick(lw_test_memory *memory, uint64_t nth) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    long logged_before = tally_read(&logged);
    lw_clock *clock = open_clock();
    lw_log log = {.write = log_errors};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .task_timeout_ms = 10, .stuck_max = 1, .log = &log,
                              .clock = clock, .allocator = lw_test_memory_allocator(memory));
    occupy(pool, &gate, 1);
    lw_test_memory_fail_at(memory, nth);
    await_that((advance(clock, 1), stats_of(pool).stuck == 1));
    bool has_failed = lw_test_memory_has_failed(memory);
    assert_int_equal(tally_read(&logged) - logged_before, has_failed);
    /* Whoever submits next finds nobody and tries again. */
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    assert_int_equal(stats_of(pool).workers, 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
    close_pool(pool);
    lw_test_clock_close(clock);
}

TEST(a_stuck_worker_that_cannot_be_replaced_is_at_the_next_submit) {
    CHECK(until_clean(stick) >= 1);
}

/* ---- what takes no memory ------------------------------------------------------------------- */

TEST(plain_submits_waits_looks_and_stops_allocate_nothing) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool_task tasks[100];
    lw_pool_run_info info[4];
    lw_test_memory *memory = open_memory();
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .task_timeout_ms = 60000, .on_drop = count_drop,
                              .allocator = lw_test_memory_allocator(memory));
    lw_test_memory_fail_at(memory, 1);
    occupy(pool, &gate, 2);
    for (size_t i = 0; i < COUNT_OF(tasks); i++)
        tasks[i] = (lw_pool_task){.fn = tally_task, .arg = &runs};
    assert_status(lw_pool_submit_many(pool, tasks, COUNT_OF(tasks), NULL), LW_OK);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, NULL, NULL), LW_OK);
    assert_int_equal(lw_pool_running(pool, info, 4), 2);
    assert_status(lw_pool_wait_idle(pool, 0), LW_ETIMEDOUT);
    assert_status(lw_pool_cancel(pool, 4711), LW_ENOTFOUND);
    gate_open(&gate);
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(stats_of(pool).run, COUNT_OF(tasks) + 6);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), COUNT_OF(tasks) + 4);
    assert_false(lw_test_memory_has_failed(memory));
    close_memory(memory);
}

/* ---- no thread ----------------------------------------------------------------------------- */

/* From now on a new thread would have a stack that no address space can hold, or again a fitting
 * one. (A limit on processes would not bind root.) */
static void allow_threads(bool is_allowed) {
    pthread_attr_t attr;
    assert_int_equal(pthread_attr_init(&attr), 0);
    size_t size = is_allowed ? (size_t)1 << 20 : (size_t)1 << 47;
    assert_int_equal(pthread_attr_setstacksize(&attr, size), 0);
    assert_int_equal(pthread_setattr_default_np(&attr), 0);
    pthread_attr_destroy(&attr);
}

TEST(an_open_without_a_thread_says_so_and_leaves_nothing) {
    static const int64_t timeouts[] = {-1, 60000};
    lw_test_memory *memory = open_memory();
    int threads = settled_thread_count(), fds = fd_count();
    allow_threads(false);
    for (size_t i = 0; i < COUNT_OF(timeouts); i++) {
        lw_error err = {0};
        lw_pool *pool = (lw_pool *)&err;
        assert_status(lw_pool_open(&pool,
                                   LW_POOL_OPTIONS(.min_workers = 2, .task_timeout_ms = timeouts[i],
                                                   .allocator = lw_test_memory_allocator(memory)),
                                   &err),
                      LW_ESYSTEM);
        assert_sentence(&err, LW_ESYSTEM, "thread");
        CHECK(err.native > 0);
        assert_null(pool);
        assert_true(is_all_freed(memory));
    }
    allow_threads(true);
    await_that(thread_count() == threads);
    assert_int_equal(fd_count(), fds);
    close_memory(memory);
}

TEST(a_submit_that_gets_no_thread_for_the_first_worker_is_refused_and_the_next_is_not) {
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = LW_ZERO, .max_workers = 1, .on_drop = count_drop);
    allow_threads(false);
    for (first_way = 0; first_way < 5; first_way++)
        assert_status(submit_first(pool, &runs), LW_ESYSTEM);
    assert_int_equal(stats_of(pool).refused, 5);
    allow_threads(true);
    for (first_way = 0; first_way < 5; first_way++)
        assert_status(submit_first(pool, &runs), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 5);
    assert_int_equal(tally_read(&drops), 0);
    close_pool(pool);
}

TEST(a_pool_that_gets_no_thread_to_grow_does_what_its_policy_says) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool =
        OPEN_POOL(.min_workers = 1, .max_workers = 2, .queue_limit = 1, .overflow = LW_CALLER_RUNS);
    occupy(pool, &gate, 1);
    allow_threads(false);
    submit_times(pool, tally_task, &runs, 5);
    CHECK(tally_read(&runs) >= 3); /* one may be set aside for the worker that did not come */
    assert_int_equal(stats_of(pool).workers, 1);
    allow_threads(true);
    submit_times(pool, tally_task, &runs, 5);
    assert_int_equal(stats_of(pool).workers, 2);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 10);
    close_pool(pool);
}

/* A task ends its thread, and there is none to take its place. */
static void end_thread(lw_ctx *ctx, void *gate) {
    (void)ctx;
    gate_pass(gate);
    pthread_exit(NULL);
}

TEST(a_worker_whose_thread_is_not_replaced_is_at_the_next_submit) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_test_memory *memory = open_memory();
    lw_log log = {.write = log_errors};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop, .log = &log,
                              .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_pool_submit(pool, end_thread, &gate), LW_OK);
    tally_await(&gate.arrived, 1);
    allow_threads(false);
    gate_open(&gate);
    tally_await(&logged, 1);
    await_that(stats_of(pool).workers == 0);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_ESYSTEM);
    allow_threads(true);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
    close_pool(pool);
    close_memory(memory);
}

/* What was queued behind it waits for nobody, until a stop runs it or gives it back. */
static void lose_last_worker(lw_stop_mode mode, bool has_threads_again, long runs_wanted) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_test_memory *memory = open_memory();
    lw_log log = {.write = log_errors};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop, .log = &log,
                              .allocator = lw_test_memory_allocator(memory));
    assert_status(lw_pool_submit(pool, end_thread, &gate), LW_OK);
    tally_await(&gate.arrived, 1);
    submit_times(pool, tally_task, &runs, 7);
    allow_threads(false);
    gate_open(&gate);
    tally_await(&logged, 1);
    await_that(stats_of(pool).workers == 0);
    allow_threads(has_threads_again);
    assert_status(lw_pool_stop(pool, mode, -1), LW_OK);
    assert_int_equal(tally_read(&runs), runs_wanted);
    assert_int_equal(tally_read(&drops), 7 - runs_wanted);
    assert_int_equal(stats_of(pool).queued, 0);
    close_pool(pool);
    close_memory(memory);
}

TEST(a_drop_after_the_last_worker_was_lost_gives_everything_back) {
    lose_last_worker(LW_DROP, false, 0);
}

TEST(a_drain_after_the_last_worker_was_lost_gives_everything_back) {
    lose_last_worker(LW_DRAIN, false, 0);
}

TEST(a_drain_after_the_last_worker_was_lost_runs_everything_if_it_gets_a_thread) {
    lose_last_worker(LW_DRAIN, true, 7);
}
