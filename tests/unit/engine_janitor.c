/* Terminal tasks leave after their time, or when they are too many, and give their memory back. */
#include "engines.h"

#include <stdio.h>

static lw_clock *clock_of_test;
static lw_test_memory *memory;

static lw_engine *open_kept(const lw_retention *retention) {
    clock_of_test = open_clock();
    memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock_of_test,
                                    .allocator = lw_test_memory_allocator(memory));
    handle(engine, "good", do_done, LW_HANDLER_OPTIONS(.retention = *retention));
    handle(engine, "bad", do_fail, LW_HANDLER_OPTIONS(.retention = *retention));
    start(engine);
    return engine;
}

static void close_kept(lw_engine *engine) {
    close_engine(engine);
    close_memory(memory);
    lw_test_clock_close(clock_of_test);
}

static lw_id submit_aborted(lw_engine *engine) {
    lw_id id = SUBMIT(engine, .kind = "good");
    assert_status(lw_cancel(engine, id), LW_OK);
    return id;
}

static lw_engine_stats figures(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats;
}

TEST(each_state_has_a_time_to_live_of_its_own) {
    lw_engine *engine =
        open_kept(&(lw_retention){.finished_ms = 1000, .failed_ms = 2000, .aborted_ms = 3000});
    lw_id good = SUBMIT(engine, .kind = "good"), bad = SUBMIT(engine, .kind = "bad");
    lw_test_run(engine);
    lw_id aborted = submit_aborted(engine);
    lw_test_advance(engine, 999);
    assert_int_equal(state_of(engine, good), LW_FINISHED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, good), 0);
    lw_test_advance(engine, 999);
    assert_int_equal(state_of(engine, bad), LW_FAILED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, bad), 0);
    lw_test_advance(engine, 999);
    assert_int_equal(state_of(engine, aborted), LW_ABORTED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, aborted), 0);
    assert_int_equal(figures(engine).swept_total, 3);
    close_kept(engine);
}

TEST(by_default_finished_ones_stay_a_quarter_of_an_hour_and_failed_ones_a_day) {
    lw_engine *engine = open_kept(&(lw_retention){0});
    lw_id good = SUBMIT(engine, .kind = "good"), bad = SUBMIT(engine, .kind = "bad");
    lw_test_run(engine);
    lw_id aborted = submit_aborted(engine);
    lw_test_advance(engine, 900000 - 1);
    assert_int_equal(state_of(engine, good), LW_FINISHED);
    assert_int_equal(state_of(engine, aborted), LW_ABORTED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, good), 0);
    assert_int_equal(state_of(engine, aborted), 0);
    lw_test_advance(engine, 86400000 - 900000 - 1);
    assert_int_equal(state_of(engine, bad), LW_FAILED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, bad), 0);
    close_kept(engine);
}

TEST(when_there_are_too_many_the_oldest_leave) {
    lw_engine *engine = open_kept(&(lw_retention){.finished_max = 10, .failed_max = 5});
    lw_id good[30], bad[30];
    for (int i = 0; i < 30; i++) {
        good[i] = SUBMIT(engine, .kind = "good");
        bad[i] = SUBMIT(engine, .kind = "bad");
    }
    lw_test_run(engine);
    for (int i = 0; i < 30; i++) {
        assert_int_equal(state_of(engine, good[i]), i < 20 ? 0 : LW_FINISHED);
        assert_int_equal(state_of(engine, bad[i]), i < 25 ? 0 : LW_FAILED);
    }
    assert_int_equal(figures(engine).finished, 10);
    assert_int_equal(figures(engine).failed, 5);
    close_kept(engine);
}

TEST(what_is_not_to_stay_leaves_at_once) {
    lw_engine *engine = open_kept(
        &(lw_retention){.finished_ms = LW_ZERO, .failed_max = LW_ZERO, .aborted_ms = LW_ZERO});
    lw_id good = SUBMIT(engine, .kind = "good"), bad = SUBMIT(engine, .kind = "bad");
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, good), 0);
    assert_int_equal(state_of(engine, bad), 0);
    assert_int_equal(state_of(engine, submit_aborted(engine)), 0);
    close_kept(engine);
}

TEST(what_is_to_stay_for_ever_stays) {
    lw_engine *engine = open_kept(&(lw_retention){.finished_ms = -1, .finished_max = -1});
    lw_id first = SUBMIT(engine, .kind = "good");
    for (int i = 0; i < 1000; i++)
        SUBMIT(engine, .kind = "good");
    lw_test_run(engine);
    lw_test_advance(engine, INT64_C(86400000) * 365);
    assert_int_equal(state_of(engine, first), LW_FINISHED);
    assert_int_equal(figures(engine).finished, 1001);
    close_kept(engine);
}

TEST(unfinished_tasks_never_leave) {
    lw_engine *engine = open_kept(&(lw_retention){.finished_ms = 1000, .finished_max = 1});
    lw_id delayed = SUBMIT(engine, .kind = "good", .delay_ms = INT64_C(86400000) * 30);
    lw_id unknown = SUBMIT(engine, .kind = "unknown");
    lw_id held = SUBMIT(engine, .kind = "good", .after = &unknown, .after_count = 1);
    lw_test_advance(engine, INT64_C(86400000) * 29);
    assert_int_equal(state_of(engine, delayed), LW_SCHEDULED);
    assert_int_equal(state_of(engine, unknown), LW_ENQUEUED);
    assert_int_equal(state_of(engine, held), LW_CREATED);
    close_kept(engine);
}

TEST(a_retried_task_lives_anew) {
    lw_engine *engine = open_kept(&(lw_retention){.failed_ms = 2000});
    lw_id bad = SUBMIT(engine, .kind = "bad");
    lw_test_run(engine);
    lw_test_advance(engine, 1500);
    assert_status(lw_retry_now(engine, bad, NULL), LW_OK);
    lw_test_run(engine);
    lw_test_advance(engine, 1999);
    assert_int_equal(state_of(engine, bad), LW_FAILED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, bad), 0);
    close_kept(engine);
}

/* ---- memory -------------------------------------------------------------------------------- */

static lw_outcome do_much(lw_ctx *ctx, const lw_task *task) {
    lw_progress(ctx, 1, 2, "half");
    lw_partial(ctx, LW_TEXT("a part"));
    if (task->id % 3 == 0 && task->attempt < 3)
        return lw_retry(ctx, "try %u", task->attempt);
    return task->id % 5 == 0 ? lw_fail(ctx, "no") : lw_done_with(ctx, task->payload);
}

static uint64_t bytes_now(void) {
    uint64_t bytes;
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    return bytes;
}

static lw_outcome do_echo(lw_ctx *ctx, const lw_task *task) {
    return lw_done_with(ctx, task->payload);
}

/* 1 MiB in and 1 MiB out, fifty times. */
TEST(when_their_bytes_are_too_many_the_oldest_leave) {
    enum { SIZE = 1 << 20, MAX = 5 << 20 };
    static const char payload[SIZE];
    clock_of_test = open_clock();
    memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock_of_test,
                                    .allocator = lw_test_memory_allocator(memory));
    handle(engine, "echo", do_echo, LW_HANDLER_OPTIONS(.retention = {.byte_max = MAX}));
    start(engine);
    uint64_t before = bytes_now();
    lw_id last = 0;
    for (int i = 0; i < 50; i++) {
        last = SUBMIT(engine, .kind = "echo", .payload = {payload, SIZE});
        assert_int_equal(lw_test_run(engine), 1);
    }
    assert_in_range(bytes_now() - before, 0, MAX + SIZE);
    assert_int_equal(figures(engine).finished, 2);
    assert_int_equal(state_of(engine, last), LW_FINISHED);
    close_kept(engine);
}

TEST(memory_is_flat_over_many_generations) {
    clock_of_test = open_clock();
    memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock_of_test,
                                    .allocator = lw_test_memory_allocator(memory));
    handle(engine, "much", do_much,
           LW_HANDLER_OPTIONS(.retention = {.finished_ms = 1000, .failed_ms = 1000},
                              .retry = {.min_ms = 10}));
    start(engine);
    uint64_t early = 0;
    for (int generation = 0; generation < 60; generation++) {
        lw_id id = 0;
        for (int i = 0; i < 500; i++) {
            char key[32];
            snprintf(key, sizeof key, "%d-%d", generation, i);
            id = SUBMIT(engine, .kind = "much", .payload = LW_TEXT("some bytes"), .key = key,
                        .after = &id, .after_count = i % 7 == 6, .after_policy = LW_AFTER_RUN,
                        .start_by_ms = 100000);
        }
        lw_test_advance(engine, 10000);
        assert_int_equal(figures(engine).finished + figures(engine).failed, 0);
        if (generation == 10)
            early = bytes_now();
    }
    assert_true(bytes_now() <= early + early / 4);
    close_kept(engine);
}

TEST(memory_of_many_is_given_back_when_they_have_left) {
    lw_engine *engine = open_kept(&(lw_retention){.finished_ms = 1000});
    SUBMIT(engine, .kind = "good");
    lw_test_run(engine);
    uint64_t empty = bytes_now();
    for (int i = 0; i < 50000; i++)
        SUBMIT(engine, .kind = "good", .payload = LW_TEXT("0123456789"));
    lw_test_run(engine);
    uint64_t full = bytes_now();
    lw_test_advance(engine, 10000);
    assert_true(full > empty + 50000 * 100);
    assert_true(bytes_now() - empty < (full - empty) / 4);
    close_kept(engine);
}
