/* Tasks that wait for others. */
#include "engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static lw_id order[128];
static int ran;

static lw_outcome do_note(lw_ctx *ctx, const lw_task *task) {
    order[ran++] = task->id;
    return lw_done(ctx);
}

static lw_engine *open_driven(lw_clock *clock) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "task", do_note, NULL);
    handle(engine, "bad", do_fail, NULL);
    handle(engine, "again", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .attempts = 2}));
    start(engine);
    return engine;
}

static lw_id submit_after(lw_engine *engine, lw_id id, lw_after_policy policy) {
    return SUBMIT(engine, .kind = "task", .after = &id, .after_count = 1, .after_policy = policy);
}

TEST(a_task_runs_after_the_one_it_waits_for) {
    lw_engine *engine = open_driven(NULL);
    lw_id first = SUBMIT(engine, .kind = "task", .priority = 2000);
    lw_id second =
        SUBMIT(engine, .kind = "task", .priority = LW_ZERO, .after = &first, .after_count = 1);
    assert_int_equal(state_of(engine, second), LW_CREATED);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(order[0], first);
    assert_int_equal(order[1], second);
    close_engine(engine);
}

TEST(a_task_waits_for_all_of_them_and_there_may_be_64) {
    lw_engine *engine = open_driven(NULL);
    lw_id ids[LW_AFTER_MAX + 1];
    lw_error err = {0};
    for (int i = 0; i <= LW_AFTER_MAX; i++)
        ids[i] = SUBMIT(engine, .kind = "task");
    lw_id last =
        SUBMIT(engine, .kind = "task", .priority = 1, .after = ids, .after_count = LW_AFTER_MAX);
    assert_status(lw_submit(engine,
                            LW_TASK(.kind = "task", .after = ids, .after_count = LW_AFTER_MAX + 1),
                            NULL, &err),
                  LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "after_count is 65");
    assert_int_equal(lw_test_run(engine), LW_AFTER_MAX + 2);
    int at = 0;
    while (order[at] != last)
        at++;
    assert_int_equal(at, LW_AFTER_MAX); /* then its priority counts */
    close_engine(engine);
}

TEST(the_same_one_twice_is_waited_for_once) {
    lw_engine *engine = open_driven(NULL);
    lw_id first = SUBMIT(engine, .kind = "task"), bad = SUBMIT(engine, .kind = "bad");
    lw_id twice[] = {first, first}, mixed[] = {bad, first, bad};
    lw_id second = SUBMIT(engine, .kind = "task", .after = twice, .after_count = 2);
    lw_id third = SUBMIT(engine, .kind = "task", .after = mixed, .after_count = 3);
    assert_int_equal(lw_test_run(engine), 3);
    assert_int_equal(state_of(engine, second), LW_FINISHED);
    assert_int_equal(state_of(engine, third), LW_ABORTED);
    close_engine(engine);
}

TEST(what_waits_for_a_failure_is_aborted_and_says_so) {
    lw_engine *engine = open_driven(NULL);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_id bad = SUBMIT(engine, .kind = "bad");
    lw_id aborted = submit_after(engine, bad, LW_AFTER_ABORT);
    lw_id runs = submit_after(engine, bad, LW_AFTER_RUN);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, runs), LW_FINISHED);
    assert_status(lw_get(engine, aborted, &s), LW_OK);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error, "task 1, which it waited for, has failed");
    lw_id late = submit_after(engine, aborted, LW_AFTER_ABORT);
    assert_status(lw_get(engine, late, &s), LW_OK);
    assert_string_equal(s.last_error, "task 2, which it waited for, was aborted");
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(what_waits_for_a_cancelled_one_is_aborted) {
    lw_engine *engine = open_driven(NULL);
    lw_id first = SUBMIT(engine, .kind = "task");
    lw_id second = submit_after(engine, first, LW_AFTER_ABORT);
    lw_id third = submit_after(engine, second, LW_AFTER_ABORT);
    lw_id anyway = submit_after(engine, third, LW_AFTER_RUN);
    assert_status(lw_cancel(engine, first), LW_OK);
    assert_int_equal(state_of(engine, second), LW_ABORTED);
    assert_int_equal(state_of(engine, third), LW_ABORTED);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, anyway), LW_FINISHED);
    close_engine(engine);
}

TEST(a_retry_is_no_end) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    lw_id first = SUBMIT(engine, .kind = "again");
    lw_id second = submit_after(engine, first, LW_AFTER_ABORT);
    lw_test_run(engine);
    assert_int_equal(state_of(engine, second), LW_CREATED);
    lw_test_advance(engine, 10000);
    assert_int_equal(state_of(engine, second), LW_ABORTED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(what_has_ended_already_is_not_waited_for) {
    lw_engine *engine = open_driven(NULL);
    lw_id good = SUBMIT(engine, .kind = "task"), bad = SUBMIT(engine, .kind = "bad");
    lw_test_run(engine);
    assert_int_equal(state_of(engine, submit_after(engine, good, LW_AFTER_ABORT)), LW_ENQUEUED);
    assert_int_equal(state_of(engine, submit_after(engine, bad, LW_AFTER_RUN)), LW_ENQUEUED);
    assert_int_equal(state_of(engine, submit_after(engine, bad, LW_AFTER_ABORT)), LW_ABORTED);
    close_engine(engine);
}

TEST(what_never_was_cannot_be_waited_for) {
    lw_engine *engine = open_driven(NULL);
    lw_id ids[] = {0, 1, 77, UINT64_MAX};
    for (int i = 0; i < 4; i++) {
        lw_error err = {0};
        assert_status(lw_submit(engine, LW_TASK(.kind = "task", .after = &ids[i], .after_count = 1),
                                NULL, &err),
                      LW_EINVAL);
        assert_sentence(&err, LW_EINVAL, "after");
    }
    assert_status(lw_submit(engine, LW_TASK(.kind = "task", .after_count = 1), NULL, NULL),
                  LW_EINVAL);
    assert_int_equal(lw_test_run(engine), 0);
    close_engine(engine);
}

TEST(a_delay_holds_from_the_submit_on_and_after_the_others) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    lw_id first = SUBMIT(engine, .kind = "task", .delay_ms = 1000);
    lw_id soon = SUBMIT(engine, .kind = "task", .delay_ms = 500, .after = &first, .after_count = 1);
    lw_id late =
        SUBMIT(engine, .kind = "task", .delay_ms = 3000, .after = &first, .after_count = 1);
    lw_test_advance(engine, 999);
    assert_int_equal(state_of(engine, soon), LW_CREATED);
    lw_test_advance(engine, 1);
    assert_int_equal(state_of(engine, soon), LW_FINISHED);
    assert_int_equal(state_of(engine, late), LW_SCHEDULED);
    lw_test_advance(engine, 2000);
    assert_int_equal(state_of(engine, late), LW_FINISHED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(what_waits_can_be_cancelled_and_is_not_run_later) {
    lw_engine *engine = open_driven(NULL);
    lw_id first = SUBMIT(engine, .kind = "task");
    lw_id second = submit_after(engine, first, LW_AFTER_RUN);
    assert_status(lw_cancel(engine, second), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, second), LW_ABORTED);
    close_engine(engine);
}

TEST(one_that_ends_without_a_trace_releases_its_dependents) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "task", do_note, LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO}));
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "task");
    submit_after(engine, first, LW_AFTER_ABORT);
    assert_int_equal(lw_test_run(engine), 2);
    close_engine(engine);
}

static lw_engine *open_chain(lw_handler first, long length, lw_after_policy policy, lw_id *last) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "first", first, NULL);
    handle(engine, "task", do_done, NULL);
    start(engine);
    *last = SUBMIT(engine, .kind = "first");
    for (long i = 0; i < length; i++)
        *last = submit_after(engine, *last, policy);
    return engine;
}

static int long_chain(void) {
    return (int)(200000 / test_stride(5));
}

TEST(a_long_chain_runs_one_after_the_other) {
    lw_id last;
    lw_engine *engine = open_chain(do_done, long_chain(), LW_AFTER_ABORT, &last);
    assert_int_equal(lw_test_run(engine), long_chain() + 1);
    assert_int_equal(state_of(engine, last), LW_FINISHED);
    close_engine(engine);
}

TEST(a_long_chain_after_a_failure_is_aborted_to_its_end) {
    lw_id last;
    lw_engine *engine = open_chain(do_fail, long_chain(), LW_AFTER_ABORT, &last);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, last), LW_ABORTED);
    close_engine(engine);
}

TEST(many_may_wait_for_one) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "task", do_done, NULL);
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "task");
    for (int i = 0; i < 100000; i++)
        submit_after(engine, first, LW_AFTER_ABORT);
    assert_int_equal(lw_test_run(engine), 100001);
    close_engine(engine);
}

TEST(an_engine_closes_with_tasks_that_wait_for_each_other) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
    lw_id id = SUBMIT(engine, .kind = "task");
    for (int i = 0; i < 100; i++)
        id = submit_after(engine, id, LW_AFTER_ABORT);
    close_engine(engine);
    close_memory(memory);
}
