/* The n-th allocation fails, for every call of the engine that allocates and for every n until it
 * passes. Each time: a status and a sentence; nothing leaks, nothing is half there, and the engine
 * still works. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

static struct tally runs = TALLY, drops = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

/* As in tests/fault/pool.c: the body orders the failure itself. Returns how many there were. */
static uint64_t until_clean(void (*body)(lw_test_memory *memory, uint64_t nth)) {
    for (uint64_t nth = 1;; nth++) {
        CHECK(nth < 500);
        lw_test_memory *memory = open_memory();
        body(memory, nth);
        bool has_failed = lw_test_memory_has_failed(memory);
        close_memory(memory);
        if (!has_failed)
            return nth - 1;
    }
}

/* Ends the order, so that what follows is not hit by it; true: it has been carried out. */
static bool end_order(lw_test_memory *memory) {
    bool has_failed = lw_test_memory_has_failed(memory);
    lw_test_memory_fail_at(memory, 0);
    return has_failed;
}

/* Lets until_clean know of a failure after end_order. */
static void remember(lw_test_memory *memory, bool has_failed) {
    const lw_allocator *allocator = lw_test_memory_allocator(memory);
    lw_test_memory_fail_at(memory, has_failed);
    if (has_failed)
        assert_null(allocator->resize(allocator->user, NULL, 0, 1));
}

static lw_engine *open_driven(lw_test_memory *memory, lw_clock *clock) {
    return OPEN_ENGINE(.workers = LW_ZERO, .clock = clock,
                       .allocator = lw_test_memory_allocator(memory));
}

static void assert_works(lw_engine *engine) {
    lw_id id = SUBMIT(engine, .run = do_count, .payload = LW_TEXT("works"));
    assert_true(lw_test_run(engine) >= 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
}

/* ---- open, register, start ----------------------------------------------------------------- */

static void open_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_error err = {0};
    lw_engine *engine = (lw_engine *)&err;
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_open(
        &engine, "memory:",
        LW_ENGINE_OPTIONS(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory)),
        nth % 2 ? &err : NULL);
    if (lw_test_memory_has_failed(memory)) {
        assert_status(rc, LW_ENOMEM);
        if (nth % 2)
            assert_sentence(&err, LW_ENOMEM, "memory");
        assert_null(engine);
        assert_true(is_all_freed(memory));
    } else {
        lw_test_memory_fail_at(memory, 0);
        start(engine);
        assert_works(engine);
        close_engine(engine);
    }
}

TEST(an_open_without_memory_says_so_and_leaves_nothing) {
    assert_true(until_clean(open_or_say_why) >= 3);
}

static void register_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_engine *engine = open_driven(memory, NULL);
    lw_error err = {0};
    lw_test_memory_fail_at(memory, nth);
    int handled = lw_handle(engine, "mail", do_count, NULL, NULL);
    int queued = lw_queue(engine, "slow", LW_QUEUE_OPTIONS(.weight = 3), NULL);
    bool has_failed = end_order(memory);
    int rc = lw_start(engine, &err);
    if (handled < 0 || queued < 0) {
        assert_true(has_failed);
        assert_status(handled < 0 ? handled : queued, LW_ENOMEM);
        assert_status(rc, LW_ENOMEM);
        assert_sentence(&err, LW_ENOMEM, "memory");
    } else {
        assert_status(rc, LW_OK);
        assert_works(engine);
    }
    close_engine(engine);
    remember(memory, has_failed);
}

TEST(a_registration_without_memory_is_told_at_the_start) {
    assert_true(until_clean(register_or_say_why) >= 2);
}

static void start_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .allocator = lw_test_memory_allocator(memory));
    lw_error err = {0};
    handle(engine, "mail", do_count, NULL);
    SUBMIT(engine, .kind = "mail");
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_start(engine, &err);
    if (rc < 0) {
        assert_true(lw_test_memory_has_failed(memory));
        assert_status(rc, LW_ENOMEM);
        assert_sentence(&err, LW_ENOMEM, "memory");
        start(engine); /* it may be tried again */
    }
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
}

TEST(a_start_without_memory_says_so_and_may_be_tried_again) {
    long before = tally_read(&runs);
    uint64_t count = until_clean(start_or_say_why);
    assert_true(count >= 2);
    assert_int_equal(tally_read(&runs) - before, (long)count + 1);
}

/* ---- submit -------------------------------------------------------------------------------- */

static const lw_task *to_submit;

static void submit_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_engine *engine = open_driven(memory, NULL);
    lw_error err = {0};
    lw_engine_stats stats;
    long before = tally_read(&drops) + tally_read(&runs);
    lw_id id = SUBMIT(engine, .kind = "first", .delay_ms = 100000);
    assert_int_equal(id, 1);
    start(engine);
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_submit(engine, to_submit, &id, &err);
    bool has_failed = end_order(memory);
    if (rc != LW_OK) { /* some that fail can be done without */
        assert_true(has_failed);
        assert_status(rc, LW_ENOMEM);
        assert_sentence(&err, LW_ENOMEM, "memory");
    }
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, rc < 0 ? 1 : 2);
    assert_int_equal(stats.task_bytes, rc < 0 ? 0 : to_submit->payload.size);
    if (rc < 0)
        assert_status(lw_submit(engine, to_submit, &id, NULL), LW_OK);
    close_engine(engine);
    long after = tally_read(&drops) + tally_read(&runs);
    assert_int_equal(after - before, to_submit->on_drop ? 1 : 0);
    remember(memory, has_failed);
}

TEST(a_submit_without_memory_says_so_and_nothing_of_it_is_there) {
    lw_id first = 1;
    const lw_task *tasks[] = {
        LW_TASK(.kind = "mail"),
        LW_TASK(.kind = "mail", .queue = "new", .payload = LW_TEXT("payload"), .key = "key"),
        LW_TASK(.kind = "mail", .delay_ms = 1000, .start_by_ms = 5000),
        LW_TASK(.kind = "mail", .after = &first, .after_count = 1),
        LW_TASK(.run = do_count, .on_drop = count_drop),
    };
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        to_submit = tasks[i];
        assert_true(until_clean(submit_or_say_why) >= 1);
    }
}

static void submit_many_or_say_why(lw_test_memory *memory, uint64_t nth) {
    lw_engine *engine = open_driven(memory, NULL);
    lw_engine_stats stats;
    lw_id first = SUBMIT(engine, .kind = "first", .delay_ms = 100000), ids[5];
    handle(engine, "mail", do_count, NULL);
    start(engine);
    const lw_task *tasks[] = {
        LW_TASK(.kind = "mail", .key = "a", .payload = LW_TEXT("1")),
        LW_TASK(.kind = "mail", .queue = "q", .key = "b"),
        LW_TASK(.kind = "mail", .after = &first, .after_count = 1, .key = "c"),
        LW_TASK(.kind = "mail", .delay_ms = 100000, .finish_by_ms = 500000),
        LW_TASK(.kind = "other"),
    };
    lw_test_memory_fail_at(memory, nth);
    int rc = lw_submit_many(engine, tasks, 5, ids, NULL);
    bool has_failed = end_order(memory);
    if (rc != LW_OK) {
        assert_true(has_failed);
        assert_status(rc, LW_ENOMEM);
    }
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, rc < 0 ? 1 : 6);
    assert_int_equal(stats.created + stats.scheduled + stats.enqueued, rc < 0 ? 1 : 6);
    assert_int_equal(lw_test_run(engine), rc < 0 ? 0 : 2);
    close_engine(engine);
    remember(memory, has_failed);
}

TEST(many_without_memory_are_all_refused) {
    assert_true(until_clean(submit_many_or_say_why) >= 5);
}

/* ---- run ----------------------------------------------------------------------------------- */

static lw_outcome do_everything(lw_ctx *ctx, const lw_task *task) {
    int rc = lw_progress(ctx, 1, 2, "half");
    CHECK(rc == LW_OK || rc == LW_ENOMEM);
    rc = lw_partial(ctx, LW_TEXT("part"));
    CHECK(rc == LW_OK || rc == LW_ENOMEM);
    rc = lw_checkpoint(ctx, LW_TEXT("here"));
    CHECK(rc == LW_OK || rc == LW_ENOMEM);
    if (task->attempt == 1)
        return lw_retry(ctx, "again");
    rc = lw_then(
        ctx, LW_TASK(.kind = "next", .key = "next", .run = do_count, .on_drop = count_drop), NULL);
    CHECK(rc == LW_OK || rc == LW_ENOMEM);
    return lw_done_with(ctx, LW_TEXT("result"));
}

static void run_all_the_same(lw_test_memory *memory, uint64_t nth) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(memory, clock);
    handle(engine, "much", do_everything, LW_HANDLER_OPTIONS(.retry = {.min_ms = 10}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "much", .key = "k", .payload = LW_TEXT("p"));
    lw_id after = SUBMIT(engine, .run = do_count, .after = &id, .after_count = 1);
    lw_test_memory_fail_at(memory, nth);
    lw_test_advance(engine, 60000);
    bool has_failed = end_order(memory);
    assert_int_equal(state_of(engine, id), LW_FINISHED); /* perhaps with an attempt more */
    assert_int_equal(state_of(engine, after), LW_FINISHED);
    close_engine(engine);
    remember(memory, has_failed);
    lw_test_clock_close(clock);
}

TEST(tasks_get_to_their_end_when_memory_fails_once) {
    assert_true(until_clean(run_all_the_same) >= 4);
}

/* ---- steer --------------------------------------------------------------------------------- */

static void steer_all_the_same(lw_test_memory *memory, uint64_t nth) {
    lw_engine *engine = open_driven(memory, NULL);
    handle(engine, "bad", do_fail, NULL);
    start(engine);
    lw_id failed = SUBMIT(engine, .kind = "bad", .key = "k");
    lw_test_run(engine);
    lw_id waiting = SUBMIT(engine, .kind = "bad", .delay_ms = 100000);
    lw_test_memory_fail_at(memory, nth);
    assert_status(lw_cancel(engine, waiting), LW_OK);
    int rc = lw_retry_now(engine, failed, NULL);
    CHECK(rc == LW_OK || rc == LW_ENOMEM);
    assert_int_equal(lw_test_run(engine), rc == LW_OK);
    bool has_failed = end_order(memory);
    assert_int_equal(state_of(engine, waiting), LW_ABORTED);
    assert_int_equal(state_of(engine, failed), LW_FAILED);
    assert_status(lw_forget(engine, waiting), LW_OK);
    close_engine(engine);
    remember(memory, has_failed);
}

TEST(a_cancel_and_a_failure_need_no_memory) {
    until_clean(steer_all_the_same);
}
