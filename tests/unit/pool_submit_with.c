/* Submitting with a caller's context: it bounds the wait for room, and its value travels. */
#include "pools.h"

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

/* A submit on a thread of its own, because it blocks. */
struct submit {
    lw_pool *pool;
    lw_ctx *ctx;
    int64_t timeout_ms;
    lw_pool_fn fn;
    void *arg;
    int rc;
    lw_error err;
    pthread_t thread;
};

static void *run_submit(void *arg) {
    struct submit *s = arg;
    s->rc =
        lw_pool_submit_with(s->pool, s->fn, s->arg,
                            LW_SUBMIT_OPTIONS(.ctx = s->ctx, .timeout_ms = s->timeout_ms), &s->err);
    return NULL;
}

static int end_submit(struct submit *s) {
    join_thread(s->thread);
    return s->rc;
}

/* ---- with a caller's context --------------------------------------------------------------- */

static lw_ctx *open_ctx(const lw_ctx_options *options) {
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, options, NULL), LW_OK);
    return ctx;
}

TEST(the_deadline_of_the_callers_context_bounds_the_wait_for_room) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 0, count_drop);
    lw_ctx *ctx = open_ctx(LW_CTX_OPTIONS(.timeout_ms = 50, .clock = full.clock));
    struct submit s = {.pool = full.pool, .ctx = ctx, .fn = tally_task, .arg = &drops};
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    advance(full.clock, 50);
    assert_status(end_submit(&s), LW_ETIMEDOUT);
    assert_sentence(&s.err, LW_ETIMEDOUT, "accepted");
    lw_ctx_close(ctx);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(cancelling_the_callers_context_ends_the_wait_for_room) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 0, count_drop);
    lw_ctx *ctx = open_ctx(LW_CTX_OPTIONS(.timeout_ms = 5000, .clock = full.clock));
    struct submit s = {.pool = full.pool, .ctx = ctx, .fn = tally_task, .arg = &drops};
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_status(end_submit(&s), LW_ECANCELED);
    assert_sentence(&s.err, LW_ECANCELED, "cancel");
    lw_ctx_close(ctx);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(a_context_that_has_ended_does_not_wait_at_all) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 0, count_drop);
    lw_ctx *ctx = open_ctx(NULL);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_status(
        lw_pool_submit_with(full.pool, tally_task, &drops, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
        LW_ECANCELED);
    lw_ctx_close(ctx);
    ctx = open_ctx(LW_CTX_OPTIONS(.timeout_ms = LW_ZERO, .clock = full.clock));
    assert_status(
        lw_pool_submit_with(full.pool, tally_task, &drops, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
        LW_ETIMEDOUT);
    lw_ctx_close(ctx);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

struct seen {
    struct gate gate;
    lw_reason reason;
};

static void pass_and_note_reason(lw_ctx *ctx, void *arg) {
    struct seen *seen = arg;
    gate_pass(&seen->gate);
    seen->reason = lw_ctx_reason(ctx);
    CHECK(lw_ctx_left_ms(ctx) == -1);
}

TEST(a_task_does_not_end_because_the_context_it_was_submitted_with_has) {
    struct seen seen = {.gate = GATE, .reason = LW_REASON_FORKED};
    lw_clock *clock = open_clock();
    lw_ctx *ctx =
        open_ctx(LW_CTX_OPTIONS(.timeout_ms = 10, .clock = clock, .value = "x", .value_size = 1));
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    assert_status(
        lw_pool_submit_with(pool, pass_and_note_reason, &seen, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
        LW_OK);
    tally_await(&seen.gate.arrived, 1);
    advance(clock, 1000);
    CHECK(lw_ctx_done(ctx) && lw_ctx_cancel(ctx) == LW_OK);
    gate_open(&seen.gate);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_int_equal(seen.reason, LW_REASON_NONE);
    close_pool(pool);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(a_context_that_has_ended_does_not_matter_where_there_is_room) {
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    lw_ctx *ctx = open_ctx(NULL);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
                  LW_OK);
    tally_await(&runs, 1);
    lw_ctx_close(ctx);
    close_pool(pool);
}

TEST(a_timeout_at_submit_stands_instead_of_the_pools) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 1000, count_drop);
    struct submit s = {.pool = full.pool, .timeout_ms = 30, .fn = tally_task, .arg = &drops};
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    advance(full.clock, 30);
    assert_status(end_submit(&s), LW_ETIMEDOUT);
    s.timeout_ms = LW_ZERO;
    run_submit(&s);
    assert_status(s.rc, LW_ETIMEDOUT);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(a_timeout_of_for_ever_at_submit_outlasts_the_pools) {
    struct full_pool full;
    struct tally runs = TALLY;
    open_full(&full, LW_BLOCK, LW_ZERO, count_drop);
    struct submit s = {.pool = full.pool, .timeout_ms = -1, .fn = tally_task, .arg = &runs};
    s.thread = start_thread(run_submit, &s);
    gate_open(&full.gate);
    assert_status(end_submit(&s), LW_OK);
    close_full(&full);
    assert_int_equal(tally_read(&runs), 1);
}

TEST(the_nearer_of_timeout_and_deadline_ends_the_wait) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 0, count_drop);
    lw_ctx *ctx = open_ctx(LW_CTX_OPTIONS(.timeout_ms = 50, .clock = full.clock));
    struct submit s = {.pool = full.pool, .ctx = ctx, .timeout_ms = 20};
    s.fn = tally_task;
    s.arg = &drops;
    s.thread = start_thread(run_submit, &s);
    await_sleepers(full.clock, 1);
    advance(full.clock, 20);
    assert_status(end_submit(&s), LW_ETIMEDOUT);
    assert_false(lw_ctx_done(ctx));
    lw_ctx_close(ctx);
    close_full(&full);
}

struct hop {
    lw_pool *to;
    int rc;
    struct tally started;
};

static void submit_elsewhere(lw_ctx *ctx, void *arg) {
    struct hop *hop = arg;
    tally_add(&hop->started, 1);
    hop->rc = lw_pool_submit_with(hop->to, tally_task, &drops,
                                  LW_SUBMIT_OPTIONS(.ctx = ctx, .timeout_ms = 1000000), NULL);
}

TEST(the_end_of_a_running_task_ends_its_wait_for_room_in_another_pool) {
    struct full_pool full;
    lw_ticket ticket;
    open_full(&full, LW_BLOCK, 0, count_drop);
    struct hop hop = {.to = full.pool, .started = TALLY};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = full.clock);
    assert_status(lw_pool_submit_with(pool, submit_elsewhere, &hop,
                                      LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL),
                  LW_OK);
    await_sleepers(full.clock, 1);
    assert_status(lw_pool_cancel(pool, ticket), LW_PENDING);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_status(hop.rc, LW_ECANCELED);
    close_pool(pool);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

TEST(the_guard_timeout_of_a_running_task_ends_its_wait_for_room_in_another_pool) {
    struct full_pool full;
    open_full(&full, LW_BLOCK, 0, count_drop);
    struct hop hop = {.to = full.pool, .started = TALLY};
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = full.clock, .task_timeout_ms = 100);
    assert_status(lw_pool_submit(pool, submit_elsewhere, &hop), LW_OK);
    await_sleepers(full.clock, 2); /* the wait, and the monitor */
    advance(full.clock, 100);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
    assert_status(hop.rc, LW_ETIMEDOUT);
    close_pool(pool);
    close_full(&full);
    assert_int_equal(tally_read(&drops), 0);
}

/* ---- what comes along ---------------------------------------------------------------------- */

struct luggage {
    lw_pool *pool;
    unsigned char bytes[LW_CTX_VALUE_MAX];
    size_t size;
    int hops;
    struct tally arrived;
};

static void check_luggage(lw_ctx *ctx, void *arg) {
    struct luggage *luggage = arg;
    size_t size = 77;
    const void *bytes = lw_ctx_value(ctx, &size);
    assert_int_equal(size, luggage->size);
    if (size == 0)
        assert_null(bytes);
    else
        assert_memory_equal(bytes, luggage->bytes, size);
    assert_ptr_equal(lw_ctx_value(ctx, NULL), bytes);
    if (luggage->hops-- > 0)
        assert_status(lw_pool_submit_with(luggage->pool, check_luggage, luggage,
                                          LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
                      LW_OK);
    tally_add(&luggage->arrived, 1);
}

static void carry(lw_pool *pool, size_t size, int hops) {
    struct luggage luggage = {.pool = pool, .size = size, .hops = hops, .arrived = TALLY};
    unsigned char sent[LW_CTX_VALUE_MAX];
    for (size_t i = 0; i < sizeof sent; i++)
        luggage.bytes[i] = sent[i] = (unsigned char)(i * 7 + size);
    lw_ctx *ctx = open_ctx(LW_CTX_OPTIONS(.value = sent, .value_size = size));
    sent[0] ^= 0xff; /* it was copied at open */
    assert_status(
        lw_pool_submit_with(pool, check_luggage, &luggage, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
        LW_OK);
    lw_ctx_close(ctx); /* and again at submit */
    tally_await(&luggage.arrived, hops + 1);
}

TEST(the_value_of_the_callers_context_travels_with_the_task_and_on_to_its_own) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    for (size_t size = 0; size <= LW_CTX_VALUE_MAX; size++)
        carry(pool, size, 3);
    close_pool(pool);
}

TEST(the_value_reaches_a_task_that_the_caller_runs) {
    struct full_pool full;
    open_full(&full, LW_CALLER_RUNS, 0, count_drop);
    carry(full.pool, LW_CTX_VALUE_MAX, 0);
    close_full(&full);
}

TEST(a_plain_task_finds_no_value_after_one_that_had_one) {
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    struct luggage none = {.arrived = TALLY};
    carry(pool, 16, 0);
    assert_status(lw_pool_submit(pool, check_luggage, &none), LW_OK);
    tally_await(&none.arrived, 1);
    close_pool(pool);
}

TEST(submit_with_needs_neither_options_nor_an_error_and_leaves_the_error_alone_on_success) {
    struct tally runs = TALLY;
    lw_error err = {.status = 77, .message = "untouched"};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, NULL, NULL), LW_OK);
    assert_status(lw_pool_submit_with(pool, tally_task, &runs, NULL, &err), LW_OK);
    assert_int_equal(err.status, 77);
    assert_string_equal(err.message, "untouched");
    tally_await(&runs, 2);
    close_pool(pool);
}
