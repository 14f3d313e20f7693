/* Contexts of a caller's own: deadlines, cancelling, sleeping, the descriptor, the value. */
#include "pools.h"

#include "base/clock.h"

#include <poll.h>
#include <string.h>
#include <sys/resource.h>

/* OPEN_CTX(.timeout_ms = 10, .clock = clock) */
#define OPEN_CTX(...) open_ctx(LW_CTX_OPTIONS(__VA_ARGS__))
static lw_ctx *open_ctx(const lw_ctx_options *options) {
    lw_ctx *ctx;
    lw_error err = {.message = "no message"};
    assert_status(lw_ctx_open(&ctx, options, &err), LW_OK);
    assert_non_null(ctx);
    assert_string_equal(err.message, "no message"); /* written on failure only */
    return ctx;
}

static void assert_done(lw_ctx *ctx, lw_reason reason) {
    assert_true(lw_ctx_done(ctx));
    assert_int_equal(lw_ctx_reason(ctx), reason);
    assert_int_equal(lw_ctx_left_ms(ctx), 0);
    assert_false(lw_ctx_stopping(ctx));
    assert_status(lw_ctx_sleep(ctx, 0), LW_ECANCELED);
    assert_status(lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX), LW_ECANCELED);
}

static void assert_not_done(lw_ctx *ctx, int64_t left_ms) {
    assert_false(lw_ctx_done(ctx));
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_NONE);
    assert_int_equal(lw_ctx_left_ms(ctx), left_ms);
    assert_false(lw_ctx_stopping(ctx));
}

static bool is_readable(int fd, int timeout_ms) {
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    int rc = poll(&entry, 1, timeout_ms);
    CHECK(rc == 0 || (rc == 1 && entry.revents == POLLIN));
    return rc == 1;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

TEST(a_context_without_a_deadline_is_never_done_by_itself) {
    static const int64_t none[] = {0, -1};
    for (size_t i = 0; i < 2; i++) {
        lw_clock *clock = open_clock();
        lw_ctx *ctx = OPEN_CTX(.timeout_ms = none[i], .clock = clock);
        assert_not_done(ctx, -1);
        advance(clock, LW_TIMEOUT_MS_MAX);
        assert_not_done(ctx, -1);
        lw_ctx_close(ctx);
        lw_test_clock_close(clock);
    }
}

TEST(a_context_is_done_at_its_deadline_and_not_before) {
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 100, .clock = clock);
    assert_not_done(ctx, 100);
    advance(clock, 1);
    assert_not_done(ctx, 99);
    advance(clock, 98);
    assert_not_done(ctx, 1);
    advance(clock, 1);
    assert_done(ctx, LW_REASON_TIMEOUT);
    advance(clock, 1000);
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(the_longest_timeout_is_taken_as_it_is) {
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = LW_TIMEOUT_MS_MAX, .clock = clock);
    assert_not_done(ctx, LW_TIMEOUT_MS_MAX);
    advance(clock, LW_TIMEOUT_MS_MAX - 1);
    assert_not_done(ctx, 1);
    advance(clock, 1);
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(a_timeout_of_zero_is_done_at_once) {
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = LW_ZERO, .clock = clock);
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
    ctx = OPEN_CTX(.timeout_ms = LW_ZERO);
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
}

/* A clock in nanoseconds, which the one of legwork/testing.h does not tell. */
struct fine_clock {
    lw_clock base;
    uint64_t now;
};

static uint64_t fine_now(lw_clock *clock) {
    return ((struct fine_clock *)clock)->now;
}

TEST(what_is_left_is_rounded_up) {
    struct fine_clock clock = {.base = {.now = fine_now}, .now = 12345678};
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 3, .clock = &clock.base);
    uint64_t deadline = clock.now + 3 * LW__NS_PER_MS;
    static const struct {
        uint64_t left_ns;
        int64_t left_ms;
    } cases[] = {{3000000, 3}, {2999999, 3}, {2000001, 3}, {2000000, 2},
                 {1000001, 2}, {1000000, 1}, {999999, 1},  {1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        clock.now = deadline - cases[i].left_ns;
        assert_int_equal(lw_ctx_left_ms(ctx), cases[i].left_ms);
        assert_false(lw_ctx_done(ctx));
    }
    clock.now = deadline;
    assert_int_equal(lw_ctx_left_ms(ctx), 0); /* asked first of all */
    assert_true(lw_ctx_done(ctx));
    lw_ctx_close(ctx);
}

TEST(a_deadline_passes_on_the_real_clock_too) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 2);
    await_that(lw_ctx_done(ctx));
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
}

/* ---- cancelling ---------------------------------------------------------------------------- */

TEST(cancelling_ends_a_context_for_good) {
    lw_clock *clock = open_clock();
    lw_ctx *bounded = OPEN_CTX(.timeout_ms = 10, .clock = clock);
    lw_ctx *unbounded = OPEN_CTX(.clock = clock);
    assert_status(lw_ctx_cancel(bounded), LW_OK);
    assert_status(lw_ctx_cancel(unbounded), LW_OK);
    assert_done(bounded, LW_REASON_CANCELLED);
    assert_done(unbounded, LW_REASON_CANCELLED);
    assert_status(lw_ctx_cancel(bounded), LW_OK); /* twice is fine */
    advance(clock, 10);
    assert_done(bounded, LW_REASON_CANCELLED); /* the first reason stays */
    lw_ctx_close(bounded);
    lw_ctx_close(unbounded);
    lw_test_clock_close(clock);
}

TEST(a_deadline_that_came_first_stays_the_reason) {
    lw_clock *clock = open_clock();
    lw_ctx *asked = OPEN_CTX(.timeout_ms = 10, .clock = clock);
    lw_ctx *unasked = OPEN_CTX(.timeout_ms = 10, .clock = clock);
    advance(clock, 10);
    assert_true(lw_ctx_done(asked));
    assert_status(lw_ctx_cancel(asked), LW_OK);
    assert_status(lw_ctx_cancel(unasked), LW_OK);
    assert_done(asked, LW_REASON_TIMEOUT);
    assert_done(unasked, LW_REASON_TIMEOUT);
    lw_ctx_close(asked);
    lw_ctx_close(unasked);
    lw_test_clock_close(clock);
}

static void *cancel(void *ctx) {
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_CANCELLED);
    return NULL;
}

TEST(several_threads_may_cancel_at_once) {
    for (int round = 0; round < test_scale(200, 20000); round++) {
        pthread_t threads[3];
        lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
        for (int i = 0; i < 3; i++)
            threads[i] = start_thread(cancel, ctx);
        for (int i = 0; i < 3; i++)
            join_thread(threads[i]);
        lw_ctx_close(ctx);
    }
}

/* ---- sleeping ------------------------------------------------------------------------------ */

struct nap {
    lw_ctx *ctx;
    int64_t ms;
    int rc;
    pthread_t thread;
};

static void *run_nap(void *arg) {
    struct nap *nap = arg;
    nap->rc = lw_ctx_sleep(nap->ctx, nap->ms);
    return NULL;
}

static void begin_nap(struct nap *nap, lw_ctx *ctx, int64_t ms) {
    *nap = (struct nap){.ctx = ctx, .ms = ms};
    nap->thread = start_thread(run_nap, nap);
}

static int end_nap(struct nap *nap) {
    join_thread(nap->thread);
    return nap->rc;
}

TEST(a_sleep_lasts_as_long_as_it_should) {
    struct nap naps[3];
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 1000, .clock = clock);
    assert_status(lw_ctx_sleep(ctx, 0), LW_OK);
    for (int i = 0; i < 3; i++)
        begin_nap(&naps[i], ctx, 10 + 10 * i);
    await_sleepers(clock, 3);
    for (int i = 0; i < 3; i++) {
        advance(clock, 9);
        assert_status(lw_test_clock_await_sleepers(clock, 3 - i, 200000), LW_OK);
        advance(clock, 1);
        assert_status(end_nap(&naps[i]), LW_OK);
    }
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(a_sleep_ends_at_the_deadline_of_its_context) {
    struct nap longer, as_long, endless;
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 10, .clock = clock);
    begin_nap(&longer, ctx, 11);
    begin_nap(&as_long, ctx, 10);
    begin_nap(&endless, ctx, INT64_MAX);
    await_sleepers(clock, 3);
    advance(clock, 10);
    assert_status(end_nap(&longer), LW_ECANCELED);
    assert_status(end_nap(&as_long), LW_ECANCELED);
    assert_status(end_nap(&endless), LW_ECANCELED);
    assert_done(ctx, LW_REASON_TIMEOUT);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(cancelling_wakes_everyone_who_sleeps) {
    struct nap naps[4];
    lw_clock *clock = open_clock();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 1000000, .clock = clock);
    for (int i = 0; i < 4; i++)
        begin_nap(&naps[i], ctx, i % 2 ? 2000 : INT64_MAX);
    await_sleepers(clock, 4);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    for (int i = 0; i < 4; i++)
        assert_status(end_nap(&naps[i]), LW_ECANCELED);
    assert_done(ctx, LW_REASON_CANCELLED);
    lw_ctx_close(ctx);
    lw_test_clock_close(clock);
}

TEST(a_cancel_while_somebody_falls_asleep_is_never_missed) {
    for (int round = 0; round < test_scale(500, 50000); round++) {
        struct nap nap;
        lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
        begin_nap(&nap, ctx, INT64_MAX);
        assert_status(lw_ctx_cancel(ctx), LW_OK); /* before, while or after it lies down */
        assert_status(end_nap(&nap), LW_ECANCELED);
        lw_ctx_close(ctx);
    }
}

TEST(contexts_do_not_wake_each_others_sleepers) {
    struct nap one, other;
    lw_clock *clock = open_clock();
    lw_ctx *first = OPEN_CTX(.clock = clock), *second = OPEN_CTX(.clock = clock);
    begin_nap(&one, first, 100);
    begin_nap(&other, second, 100);
    await_sleepers(clock, 2);
    assert_status(lw_ctx_cancel(first), LW_OK);
    assert_status(end_nap(&one), LW_ECANCELED);
    assert_not_done(second, -1);
    advance(clock, 100);
    assert_status(end_nap(&other), LW_OK);
    lw_ctx_close(first);
    lw_ctx_close(second);
    lw_test_clock_close(clock);
}

TEST(a_sleep_on_the_real_clock_ends_by_itself) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 100000);
    uint64_t start = lw__now(lw__clock_system());
    assert_status(lw_ctx_sleep(ctx, 3), LW_OK);
    CHECK(lw__now(lw__clock_system()) >= start + 3 * LW__NS_PER_MS);
    lw_ctx_close(ctx);
    ctx = OPEN_CTX(.timeout_ms = 3);
    assert_status(lw_ctx_sleep(ctx, 100000), LW_ECANCELED);
    lw_ctx_close(ctx);
}

/* ---- the descriptor ------------------------------------------------------------------------ */

TEST(a_descriptor_is_made_when_it_is_asked_for_and_closed_with_its_context) {
    int before = fd_count();
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 100000);
    assert_int_equal(fd_count(), before);
    int fd = lw_ctx_fd(ctx);
    CHECK(fd >= 0);
    assert_int_equal(lw_ctx_fd(ctx), fd); /* the same one every time */
    assert_int_equal(fd_count(), before + 1);
    assert_false(is_readable(fd, 0));
    lw_ctx_close(ctx);
    assert_int_equal(fd_count(), before);
}

TEST(cancelling_makes_the_descriptor_readable) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
    int fd = lw_ctx_fd(ctx);
    assert_false(is_readable(fd, 0));
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_true(is_readable(fd, 200000));
    assert_true(is_readable(fd, 0)); /* and it stays so */
    assert_int_equal(lw_ctx_fd(ctx), fd);
    assert_true(is_readable(fd, 0));
    lw_ctx_close(ctx);
}

TEST(a_descriptor_asked_for_after_the_end_is_readable) {
    lw_ctx *cancelled = OPEN_CTX(.timeout_ms = 100000);
    assert_status(lw_ctx_cancel(cancelled), LW_OK);
    assert_true(is_readable(lw_ctx_fd(cancelled), 200000));
    lw_ctx_close(cancelled);
    lw_ctx *overdue = OPEN_CTX(.timeout_ms = LW_ZERO);
    assert_true(is_readable(lw_ctx_fd(overdue), 200000));
    lw_ctx_close(overdue);
}

TEST(at_the_deadline_the_descriptor_becomes_readable_by_itself) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 5);
    int fd = lw_ctx_fd(ctx);
    assert_true(is_readable(fd, 200000)); /* nobody asks the context meanwhile */
    assert_done(ctx, LW_REASON_TIMEOUT);
    assert_true(is_readable(fd, 0));
    lw_ctx_close(ctx);
}

TEST(a_cancel_before_the_deadline_makes_the_descriptor_readable_at_once) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = LW_TIMEOUT_MS_MAX);
    int fd = lw_ctx_fd(ctx);
    assert_false(is_readable(fd, 0));
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_true(is_readable(fd, 200000));
    lw_ctx_close(ctx);
}

/* The kernel's timer cannot follow a test clock: the descriptor does when somebody asks. */
TEST(on_a_test_clock_the_descriptor_follows_when_the_context_is_asked) {
    lw_clock *clock = open_clock();
    lw_ctx *early = OPEN_CTX(.timeout_ms = 1, .clock = clock);
    lw_ctx *late = OPEN_CTX(.timeout_ms = 1, .clock = clock);
    int fd = lw_ctx_fd(early);
    assert_false(is_readable(fd, 20));
    advance(clock, 1);
    assert_true(lw_ctx_done(early));
    assert_true(is_readable(fd, 200000));
    assert_true(is_readable(lw_ctx_fd(late), 200000)); /* asking for it is asking, too */
    lw_ctx_close(early);
    lw_ctx_close(late);
    lw_test_clock_close(clock);
}

static void *poll_fd(void *arg) {
    assert_true(is_readable(*(int *)arg, 200000));
    return NULL;
}

TEST(several_threads_may_poll_one_descriptor) {
    for (int round = 0; round < test_scale(100, 5000); round++) {
        pthread_t threads[3];
        lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
        int fd = lw_ctx_fd(ctx);
        for (int i = 0; i < 3; i++)
            threads[i] = start_thread(poll_fd, &fd);
        assert_status(lw_ctx_cancel(ctx), LW_OK);
        for (int i = 0; i < 3; i++)
            join_thread(threads[i]);
        lw_ctx_close(ctx);
    }
}

static void *ask_fd(void *ctx) {
    int fd = lw_ctx_fd(ctx);
    CHECK(fd >= 0);
    assert_true(is_readable(fd, 200000));
    return NULL;
}

TEST(a_cancel_while_somebody_asks_for_the_descriptor_is_never_missed) {
    for (int round = 0; round < test_scale(300, 20000); round++) {
        lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
        pthread_t asker = start_thread(ask_fd, ctx);
        assert_status(lw_ctx_cancel(ctx), LW_OK);
        join_thread(asker);
        lw_ctx_close(ctx);
    }
}

TEST(when_the_system_has_no_descriptor_it_is_said_and_a_later_try_can_succeed) {
    struct rlimit before, none;
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_status(lw_ctx_fd(ctx), LW_ESYSTEM);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    int fd = lw_ctx_fd(ctx);
    CHECK(fd >= 0);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_true(is_readable(fd, 200000));
    lw_ctx_close(ctx);
}

/* ---- the value ----------------------------------------------------------------------------- */

static void assert_value(lw_ctx *ctx, const void *bytes, size_t size) {
    size_t seen = 12345;
    const void *value = lw_ctx_value(ctx, &seen);
    assert_int_equal(seen, size);
    assert_memory_equal(value, bytes, size);
    assert_ptr_equal(lw_ctx_value(ctx, NULL), value);
}

TEST(a_value_is_copied_at_open) {
    char source[16] = "trace-id-4711", wanted[16];
    memcpy(wanted, source, sizeof wanted);
    lw_ctx *ctx = OPEN_CTX(.value = source, .value_size = sizeof source);
    memset(source, 'x', sizeof source);
    assert_value(ctx, wanted, sizeof wanted);
    lw_ctx_close(ctx);
}

TEST(up_to_128_bytes_travel_and_not_one_more) {
    unsigned char bytes[LW_CTX_VALUE_MAX + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 3);
    for (size_t size = 1; size <= LW_CTX_VALUE_MAX; size++) {
        lw_ctx *ctx = OPEN_CTX(.value = bytes, .value_size = size);
        assert_value(ctx, bytes, size);
        lw_ctx_close(ctx);
    }
    lw_ctx *ctx = (lw_ctx *)bytes;
    lw_error err;
    assert_status(
        lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = bytes, .value_size = sizeof bytes), &err),
        LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "129");
    assert_sentence(&err, LW_EINVAL, "128");
    assert_null(ctx);
}

TEST(without_a_value_there_is_none) {
    size_t size = 12345;
    lw_ctx *ctx = OPEN_CTX(.value = "ignored", .value_size = 0);
    assert_null(lw_ctx_value(ctx, &size));
    assert_int_equal(size, 0);
    assert_null(lw_ctx_value(ctx, NULL));
    lw_ctx_close(ctx);
}

TEST(a_value_outlives_the_end_of_its_context) {
    lw_ctx *ctx = OPEN_CTX(.value = "abc", .value_size = 4);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    assert_value(ctx, "abc", 4);
    lw_ctx_close(ctx);
}

/* ---- given to a task ----------------------------------------------------------------------- */

struct traveller {
    struct gate gate;
    char value[LW_CTX_VALUE_MAX];
    size_t size;
    int cancel_rc;
    bool was_done;
};

static void report_value(lw_ctx *ctx, void *arg) {
    struct traveller *t = arg;
    gate_pass(&t->gate);
    const void *value = lw_ctx_value(ctx, &t->size);
    if (value)
        memcpy(t->value, value, t->size);
    t->cancel_rc = lw_ctx_cancel(ctx);
    lw_ctx_close(ctx); /* nothing: it is the pool's */
    t->was_done = lw_ctx_done(ctx) || lw_ctx_reason(ctx) != LW_REASON_NONE;
    tally_add(&t->gate.passed, 1);
}

TEST(a_task_has_its_own_copy_of_the_value_and_none_of_the_end) {
    struct traveller t = {.gate = GATE};
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    lw_ctx *ctx = OPEN_CTX(.value = "trace", .value_size = 6, .timeout_ms = 10, .clock = clock);
    assert_status(lw_pool_submit_with(pool, report_value, &t, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
                  LW_OK);
    tally_await(&t.gate.arrived, 1);
    assert_status(lw_ctx_cancel(ctx), LW_OK);
    advance(clock, 10);
    lw_ctx_close(ctx);
    gate_open(&t.gate);
    tally_await(&t.gate.passed, 2);
    assert_int_equal(t.size, 6);
    assert_string_equal(t.value, "trace");
    assert_false(t.was_done);
    assert_status(t.cancel_rc, LW_EINVAL); /* only its pool may end it */
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* A value does not stay on in the worker for the next task. */
TEST(the_next_task_of_a_worker_has_no_value_of_the_last) {
    struct traveller first = {.gate = GATE}, second = {.gate = GATE};
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    lw_ctx *ctx = OPEN_CTX(.value = "trace", .value_size = 6);
    gate_open(&first.gate);
    gate_open(&second.gate);
    assert_status(
        lw_pool_submit_with(pool, report_value, &first, LW_SUBMIT_OPTIONS(.ctx = ctx), NULL),
        LW_OK);
    assert_status(lw_pool_submit(pool, report_value, &second), LW_OK);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(first.size, 6);
    assert_int_equal(second.size, 0);
    lw_ctx_close(ctx);
    close_pool(pool);
}

/* ---- bad input, and names ------------------------------------------------------------------ */

TEST(no_context_is_never_done_and_refuses_the_rest) {
    size_t size = 12345;
    assert_false(lw_ctx_done(NULL));
    assert_false(lw_ctx_stopping(NULL));
    assert_int_equal(lw_ctx_reason(NULL), LW_REASON_NONE);
    assert_int_equal(lw_ctx_left_ms(NULL), -1);
    assert_status(lw_ctx_sleep(NULL, 1), LW_EINVAL);
    assert_status(lw_ctx_fd(NULL), LW_EINVAL);
    assert_null(lw_ctx_value(NULL, &size));
    assert_int_equal(size, 0);
    assert_null(lw_ctx_value(NULL, NULL));
    assert_status(lw_ctx_cancel(NULL), LW_EINVAL);
    lw_ctx_close(NULL);
}

TEST(a_negative_sleep_is_refused) {
    lw_ctx *ctx = OPEN_CTX(.timeout_ms = 0);
    assert_status(lw_ctx_sleep(ctx, -1), LW_EINVAL);
    assert_status(lw_ctx_sleep(ctx, LW_ZERO), LW_EINVAL);
    assert_status(lw_ctx_sleep(ctx, INT64_MIN), LW_EINVAL);
    assert_not_done(ctx, -1);
    lw_ctx_close(ctx);
}

TEST(a_context_needs_no_options_and_leaves_no_byte) {
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    assert_not_done(ctx, -1);
    lw_ctx_close(ctx);
    lw_test_memory *memory = open_memory();
    ctx = OPEN_CTX(.timeout_ms = 10000, .value = "v", .value_size = 1,
                   .allocator = lw_test_memory_allocator(memory));
    assert_false(is_all_freed(memory));
    CHECK(lw_ctx_fd(ctx) >= 0);
    lw_ctx_close(ctx);
    close_memory(memory);
}

TEST(every_reason_has_its_word) {
    assert_string_equal(lw_reason_name(LW_REASON_NONE), "none");
    assert_string_equal(lw_reason_name(LW_REASON_TIMEOUT), "timeout");
    assert_string_equal(lw_reason_name(LW_REASON_CANCELLED), "cancelled");
    assert_string_equal(lw_reason_name(LW_REASON_DROPPED), "dropped");
    assert_string_equal(lw_reason_name(LW_REASON_STOP), "stop");
    assert_string_equal(lw_reason_name(LW_REASON_FORKED), "forked");
    static const int none[] = {6, 7, 1000, -1, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_string_equal(lw_reason_name((lw_reason)none[i]), "unknown");
}
