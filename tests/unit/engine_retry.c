/* Outcomes of attempts: retries, back-off, budgets, and what is kept of them. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

#define LONG_MS 200000
#define NO_JITTER .jitter_percent = LW_ZERO

struct world {
    lw_engine *engine;
    lw_clock *clock;
};

/* One kind "task" with this handler and these options, driven by hand. */
static struct world open_world(lw_handler run, const lw_handler_options *options) {
    struct world w = {.clock = open_clock()};
    w.engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = w.clock);
    handle(w.engine, "task", run, options);
    start(w.engine);
    return w;
}

static void close_world(struct world *w) {
    close_engine(w->engine);
    lw_test_clock_close(w->clock);
}

static lw_snapshot look(lw_engine *engine, lw_id id) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    return s;
}

/* ---- back-off ------------------------------------------------------------------------------ */

TEST(the_waits_of_the_policy_come_out_exactly) {
    static const int64_t waits_s[] = {10, 20, 40, 80, 160, 240, 300, 300};
    struct world w = open_world(
        do_retry,
        LW_HANDLER_OPTIONS(.retry = {
                               .min_ms = 10000, .max_ms = 300000, .doublings = 3, NO_JITTER}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(lw_test_advance(w.engine, waits_s[i] * 1000 - 1), 0);
        assert_int_equal(state_of(w.engine, id), LW_SCHEDULED);
        assert_int_equal(lw_test_advance(w.engine, 1), 1);
    }
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.attempts, 9);
    assert_int_equal(s.crashes, 0);
    lw_snapshot_clear(&s);
    close_world(&w);
}

TEST(jitter_spreads_the_waits_by_no_more_than_it_says) {
    struct world w = open_world(
        do_retry,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 10000, .factor = 1, .jitter_percent = 20}));
    bool is_spread = false;
    for (int i = 0; i < 50; i++) {
        lw_id id = SUBMIT(w.engine, .kind = "task");
        assert_int_equal(lw_test_run(w.engine), 1);
        lw_snapshot s = look(w.engine, id);
        int64_t wait = s.due_ms - s.started_ms;
        assert_in_range(wait, 8000, 12001);
        is_spread |= wait != 10000;
        lw_snapshot_clear(&s);
        assert_status(lw_cancel(w.engine, id), LW_OK);
    }
    assert_true(is_spread);
    close_world(&w);
}

TEST(without_a_wait_it_is_retried_at_once_and_others_get_their_turn) {
    struct world w =
        open_world(do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO, .attempts = 5}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 5);
    assert_int_equal(state_of(w.engine, id), LW_FAILED);
    close_world(&w);
}

/* ---- budgets ------------------------------------------------------------------------------- */

TEST(a_task_fails_when_its_attempts_are_used_up) {
    struct world w =
        open_world(do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .attempts = 3}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 3);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_FAILED);
    assert_int_equal(s.attempts, 3);
    assert_string_equal(s.last_error, "again 3");
    assert_int_equal(s.error_count, 3);
    assert_string_equal(s.errors[0].text, "again 1");
    assert_int_equal(s.errors[1].attempt, 2);
    assert_int_equal(s.errors[2].fault, LW_FAULT_ERROR);
    lw_snapshot_clear(&s);
    close_world(&w);
}

TEST(without_a_number_of_attempts_it_goes_on_for_ever) {
    struct world w = open_world(do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1, .max_ms = 1}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    lw_test_advance(w.engine, 2000);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_true(s.attempts > 500);
    lw_snapshot_clear(&s);
    close_world(&w);
}

TEST(a_task_that_is_too_old_fails_instead_of_being_retried) {
    struct world w = open_world(
        do_retry,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .factor = 1, NO_JITTER, .max_age_ms = 4500}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 100000), 6); /* at 0, 1, 2, 3, 4, 5 s */
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_FAILED);
    assert_string_equal(s.last_error, "again 6");
    lw_snapshot_clear(&s);
    close_world(&w);
}

/* Otherwise it would be too old again at its first error, and the budget not fresh. */
TEST(the_age_of_a_task_that_is_retried_by_hand_counts_from_then) {
    struct world w = open_world(
        do_retry,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .factor = 1, NO_JITTER, .max_age_ms = 4500}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 100000), 6);
    for (int i = 0; i < 2; i++) {
        assert_status(lw_retry_now(w.engine, id, NULL), LW_OK);
        assert_int_equal(lw_test_advance(w.engine, 100000), 6);
        assert_int_equal(state_of(w.engine, id), LW_FAILED);
    }
    close_world(&w);
}

TEST(a_permanent_failure_ends_it_whatever_is_left) {
    struct world w = open_world(do_fail, LW_HANDLER_OPTIONS(.retry = {.attempts = 100}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 1);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_FAILED);
    assert_string_equal(s.last_error, "no");
    lw_snapshot_clear(&s);
    close_world(&w);
}

static lw_outcome do_abort(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_abort(ctx, "not wanted by %s", "anybody");
}

TEST(a_handler_can_abort_its_task) {
    struct world w = open_world(do_abort, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error, "not wanted by anybody");
    lw_snapshot_clear(&s);
    close_world(&w);
}

/* ---- a crash is no retry ------------------------------------------------------------------- */

TEST(crashes_are_charged_to_a_budget_of_their_own) {
    struct world w = open_world(
        do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .attempts = 2, .crashes = 2}));
    assert_status(lw_test_fail_next(w.engine, "task", 2, (lw_outcome)0, "boom"), LW_OK);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 4); /* 2 crashes, and then 2 attempts */
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_FAILED);
    assert_int_equal(s.attempts, 4);
    assert_int_equal(s.crashes, 2);
    assert_int_equal(s.errors[0].fault, LW_FAULT_CRASH);
    assert_int_equal(s.errors[2].fault, LW_FAULT_ERROR);
    lw_snapshot_clear(&s);
    close_world(&w);
}

TEST(a_task_fails_when_its_crash_budget_is_used_up) {
    struct world w = open_world(
        do_done, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .attempts = 100, .crashes = 2}));
    assert_status(lw_test_fail_next(w.engine, "task", 100, (lw_outcome)0, "boom"), LW_OK);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 3);
    assert_int_equal(state_of(w.engine, id), LW_FAILED);
    close_world(&w);
}

TEST(by_default_three_crashes_are_survived_and_with_none_the_first_is_the_end) {
    struct world w = open_world(do_done, NULL);
    assert_status(lw_test_fail_next(w.engine, "task", 3, (lw_outcome)0, "boom"), LW_OK);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 60000), 4);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    close_world(&w);
    w = open_world(do_done, LW_HANDLER_OPTIONS(.retry = {.crashes = LW_ZERO}));
    assert_status(lw_test_fail_next(w.engine, "task", 1, (lw_outcome)0, "boom"), LW_OK);
    id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 1);
    assert_int_equal(state_of(w.engine, id), LW_FAILED);
    close_world(&w);
}

/* ---- retry after, snooze ------------------------------------------------------------------- */

static int64_t after_ms;

static lw_outcome do_retry_after(lw_ctx *ctx, const lw_task *task) {
    return task->attempt < 3 ? lw_retry_after(ctx, after_ms, "later") : lw_done(ctx);
}

TEST(a_server_may_say_when_to_come_again) {
    after_ms = 77000;
    struct world w = open_world(do_retry_after, LW_HANDLER_OPTIONS(.retry = {.attempts = 3}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    assert_int_equal(lw_test_advance(w.engine, 76999), 0);
    assert_int_equal(lw_test_advance(w.engine, 1), 1);
    assert_int_equal(lw_test_advance(w.engine, 77000), 1);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.error_count, 2);
    lw_snapshot_clear(&s);
    close_world(&w);
}

/* It was reckoned from a date that is past by now: without the back-off the task would run at full
 * speed until the server can be reached again. */
TEST(a_time_that_is_past_leaves_it_to_the_policy) {
    after_ms = -1;
    struct world w = open_world(
        do_retry_after,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .jitter_percent = LW_ZERO, .attempts = 3}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    assert_int_equal(lw_test_advance(w.engine, 999), 0);
    assert_int_equal(lw_test_advance(w.engine, 1), 1);
    assert_int_equal(lw_test_advance(w.engine, 2000), 1);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    close_world(&w);
}

TEST(a_task_is_due_when_its_snapshot_says_so) {
    struct world w = open_world(do_retry_after, LW_HANDLER_OPTIONS(.retry = {.min_ms = 100}));
    after_ms = -1; /* with jitter: due in the middle of a ms */
    for (int i = 0; i < 20; i++) {
        lw_id id = SUBMIT(w.engine, .kind = "task");
        assert_int_equal(lw_test_run(w.engine), 1);
        lw_snapshot s = look(w.engine, id);
        int64_t wait_ms = s.due_ms - s.started_ms; /* no time has passed since */
        assert_int_equal(lw_test_advance(w.engine, wait_ms - 1), 0);
        assert_int_equal(lw_test_advance(w.engine, 1), 1);
        assert_status(lw_cancel(w.engine, id), LW_OK);
        lw_snapshot_clear(&s);
    }
    close_world(&w);
}

TEST(absurd_times_of_a_server_are_bounded) {
    after_ms = INT64_MAX;
    struct world w = open_world(do_retry_after, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    assert_int_equal(state_of(w.engine, id), LW_SCHEDULED);
    assert_int_equal(lw_test_advance(w.engine, 3600000), 0);
    after_ms = INT64_MIN;
    assert_status(lw_retry_now(w.engine, id, NULL), LW_OK);
    assert_true(lw_test_run(w.engine) >= 1);
    close_world(&w);
}

static int naps;

static lw_outcome do_snooze(lw_ctx *ctx, const lw_task *task) {
    assert_int_equal(task->attempt, 1);
    return naps-- > 0 ? lw_snooze(ctx, 5000) : lw_done(ctx);
}

TEST(a_snooze_is_no_attempt_and_no_error) {
    naps = 10;
    struct world w = open_world(do_snooze, LW_HANDLER_OPTIONS(.retry = {.attempts = 1}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 1);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_int_equal(s.attempts, 0);
    lw_snapshot_clear(&s);
    assert_int_equal(lw_test_advance(w.engine, 50000), 10);
    s = look(w.engine, id);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, 1);
    assert_int_equal(s.snoozes, 10);
    assert_int_equal(s.error_count, 0);
    lw_snapshot_clear(&s);
    close_world(&w);
}

static lw_outcome do_snooze_0(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return naps-- > 0 ? lw_snooze(ctx, 0) : lw_done(ctx);
}

TEST(a_snooze_of_nothing_goes_back_into_the_queue) {
    naps = 3;
    struct world w = open_world(do_snooze_0, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 4);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    close_world(&w);
}

TEST(a_count_of_snoozes_does_not_begin_anew) {
    naps = 70000;
    struct world w = open_world(do_snooze_0, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_run(w.engine), 70001);
    lw_snapshot s = look(w.engine, id);
    assert_true(s.snoozes >= 65535);
    lw_snapshot_clear(&s);
    close_world(&w);
}

/* ---- what is kept -------------------------------------------------------------------------- */

TEST(the_first_error_and_the_last_fifteen_are_kept) {
    struct world w = open_world(
        do_retry,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .factor = 1, NO_JITTER, .attempts = 40}));
    lw_id id = SUBMIT(w.engine, .kind = "task");
    assert_int_equal(lw_test_advance(w.engine, 3600000), 40);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(s.error_count, LW_ERRORS_MAX);
    assert_int_equal(s.errors_dropped, 24);
    assert_int_equal(s.errors[0].attempt, 1);
    for (unsigned i = 1; i < s.error_count; i++) {
        assert_int_equal(s.errors[i].attempt, 25 + i);
        assert_true(s.errors[i].at_ms > s.errors[i - 1].at_ms);
    }
    assert_string_equal(s.errors[0].text, "again 1");
    assert_string_equal(s.last_error, "again 40");
    lw_snapshot_clear(&s);
    close_world(&w);
}

static lw_outcome do_long_text(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    char text[2000];
    memset(text, 'e', sizeof text);
    text[sizeof text - 1] = 0;
    return lw_fail(ctx, "%s", text);
}

TEST(a_long_error_is_cut) {
    struct world w = open_world(do_long_text, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    lw_test_run(w.engine);
    lw_snapshot s = look(w.engine, id);
    assert_int_equal(strlen(s.last_error), LW_TEXT_MAX);
    lw_snapshot_clear(&s);
    close_world(&w);
}

static char long_words[2000]; /* of letters with two bytes */

static lw_outcome do_long_words(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_progress(ctx, 1, 2, long_words), LW_OK);
    return lw_fail(ctx, "%s", long_words);
}

static void assert_whole(const char *text) {
    assert_int_equal(strlen(text), LW_TEXT_MAX - 1);
    assert_memory_equal(text, long_words, LW_TEXT_MAX - 1);
}

TEST(errors_and_progress_are_cut_between_letters) {
    for (size_t i = 0; i + 2 < sizeof long_words; i += 2)
        memcpy(long_words + i, "\xc3\xa9", 2);
    struct world w = open_world(do_long_words, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task"), other = SUBMIT(w.engine, .kind = "task");
    lw_test_run(w.engine);
    lw_snapshot s = look(w.engine, id);
    assert_whole(s.last_error);
    assert_whole(s.progress.text);
    assert_status(lw_retry_now(w.engine, other, NULL), LW_OK);
    assert_status(lw_test_fail_next(w.engine, "task", 1, LW_OUTCOME_FAIL, long_words), LW_OK);
    lw_test_run(w.engine);
    assert_status(lw_get(w.engine, other, &s), LW_OK);
    assert_whole(s.last_error);
    lw_snapshot_clear(&s);
    close_world(&w);
}

/* ---- hooks --------------------------------------------------------------------------------- */

static struct tally told_attempts = TALLY, told_failed = TALLY;
static unsigned last_attempts, last_errors;

static void on_attempt(void *user, const lw_snapshot *task) {
    assert_string_equal(user, "the program's");
    last_attempts = task->attempts;
    last_errors = task->error_count;
    tally_add(&told_attempts, 1);
}

static void on_failed(void *user, const lw_snapshot *task) {
    assert_string_equal(user, "the program's");
    assert_int_equal(task->state, LW_FAILED);
    assert_int_equal(task->error_count, 3);
    assert_string_equal(task->last_error, "again 3");
    tally_add(&told_failed, 1);
}

TEST(every_attempt_that_was_not_done_is_told_and_the_end_once) {
    char user[] = "the program's";
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .on_attempt = on_attempt,
                                    .on_failed = on_failed, .user = user);
    handle(engine, "task", do_retry, LW_HANDLER_OPTIONS(.retry = {.attempts = 3}));
    handle(engine, "fine", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "fine");
    SUBMIT(engine, .kind = "task");
    lw_test_run(engine);
    assert_int_equal(tally_read(&told_attempts), 1);
    assert_int_equal(last_attempts, 1);
    assert_int_equal(last_errors, 1);
    lw_test_advance(engine, 3600000);
    assert_int_equal(tally_read(&told_attempts), 3);
    assert_int_equal(tally_read(&told_failed), 1);
    close_engine(engine);
    lw_test_clock_close(clock);
}

static struct tally told_ends = TALLY;

static void note_attempt(void *user, const lw_snapshot *task) {
    (void)user;
    tally_add(&told_attempts, 1);
    tally_add(&told_ends, task->state == LW_FAILED);
    assert_int_equal(task->error_count, task->attempts);
}

ENGINE_TEST(the_last_attempt_of_a_task_that_does_not_stay_is_told_too) {
    lw_clock *clock = open_clock();
    lw_engine *engine =
        OPEN_ON(url, .workers = LW_ZERO, .clock = clock, .on_attempt = note_attempt);
    handle(engine, "task", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.attempts = 3}, .retention = {.failed_ms = LW_ZERO}));
    handle(engine, "fail", do_fail, LW_HANDLER_OPTIONS(.retention = {.failed_ms = LW_ZERO}));
    start(engine);
    long told = tally_read(&told_attempts), ends = tally_read(&told_ends);
    lw_id id = SUBMIT(engine, .kind = "task"), other = SUBMIT(engine, .kind = "fail");
    lw_test_advance(engine, 3600000);
    assert_int_equal(tally_read(&told_attempts) - told, 4);
    assert_int_equal(tally_read(&told_ends) - ends, 2);
    assert_int_equal(state_of(engine, id), 0);
    assert_int_equal(state_of(engine, other), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- handlers that misbehave --------------------------------------------------------------- */

static lw_outcome what_it_returns;

static lw_outcome do_return(lw_ctx *ctx, const lw_task *task) {
    (void)ctx, (void)task;
    return what_it_returns;
}

TEST(a_handler_that_returns_no_outcome_has_failed_and_is_told_so) {
    const int nonsense[] = {0, 6, 99, -1, -2147483647};
    for (size_t i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
        what_it_returns = (lw_outcome)nonsense[i];
        struct world w =
            open_world(do_return, LW_HANDLER_OPTIONS(.retry = {.attempts = 2, .crashes = LW_ZERO}));
        lw_id id = SUBMIT(w.engine, .kind = "task");
        assert_int_equal(lw_test_advance(w.engine, 3600000), 2);
        lw_snapshot s = look(w.engine, id);
        assert_int_equal(s.state, LW_FAILED);
        assert_int_equal(s.errors[0].fault, LW_FAULT_ERROR);
        assert_non_null(strstr(s.last_error, "outcome"));
        lw_snapshot_clear(&s);
        close_world(&w);
    }
}

static lw_outcome do_say_much(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_retry_after(ctx, 100000, "first thought");
    lw_fail(ctx, "second thought");
    lw_done_with(ctx, LW_TEXT("third"));
    return lw_done(ctx);
}

TEST(the_last_word_of_a_handler_counts) {
    struct world w = open_world(do_say_much, NULL);
    lw_id id = SUBMIT(w.engine, .kind = "task");
    lw_test_run(w.engine);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    close_world(&w);
}

static struct tally exits = TALLY;

static lw_outcome do_exit(lw_ctx *ctx, const lw_task *task) {
    tally_add(&exits, 1);
    if (task->attempt == 1)
        pthread_exit(NULL);
    return lw_done(ctx);
}

TEST(a_handler_that_ends_its_thread_has_crashed_and_no_worker_is_lost) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    lw_id ids[20];
    lw_snapshot s = LW_SNAPSHOT_INIT;
    handle(engine, "task", do_exit, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1}));
    start(engine);
    for (int i = 0; i < 20; i++)
        ids[i] = SUBMIT(engine, .kind = "task");
    for (int i = 0; i < 20; i++) {
        assert_status(lw_wait(engine, ids[i], LONG_MS, &s), LW_OK);
        assert_int_equal(s.state, LW_FINISHED);
        assert_int_equal(s.attempts, 2);
        assert_int_equal(s.crashes, 1);
        assert_int_equal(s.errors[0].fault, LW_FAULT_CRASH);
    }
    assert_int_equal(tally_read(&exits), 40);
    lw_snapshot_clear(&s);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static void exit_in_hook(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    pthread_exit(NULL);
}

TEST(a_hook_that_ends_its_thread_loses_no_worker_and_no_task) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .on_attempt = exit_in_hook);
    handle(engine, "task", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1, .attempts = 2},
                              .retention = {.failed_ms = LW_ZERO}));
    handle(engine, "fine", do_done, NULL);
    start(engine);
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .kind = "task");
    assert_status(lw_wait(engine, SUBMIT(engine, .kind = "fine"), LONG_MS, NULL), LW_OK);
    lw_engine_stats stats;
    await_that((lw_get_stats(engine, &stats), stats.failed_total) == 10);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static lw_outcome do_exit_quickly(lw_ctx *ctx, const lw_task *task) {
    if (task->id % 100 == 0 && task->attempt == 1)
        pthread_exit(NULL);
    return lw_done(ctx);
}

TEST(a_thread_that_ends_in_the_middle_of_many_short_tasks_loses_none_of_them) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    lw_engine_stats stats;
    handle(engine, "task", do_exit_quickly, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1}));
    start(engine);
    for (int i = 0; i < 5000; i++)
        SUBMIT(engine, .kind = "task");
    await_that((lw_get_stats(engine, &stats), stats.finished_total) == 5000);
    assert_int_equal(stats.crashed_total, 50);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

/* ---- by hand ------------------------------------------------------------------------------- */

TEST(a_task_that_is_retried_by_hand_has_its_limits_of_time_behind_it) {
    struct world w = open_world(do_done, NULL);
    assert_status(lw_pause(w.engine, "default"), LW_OK);
    lw_id late = SUBMIT(w.engine, .kind = "task", .finish_by_ms = 1000);
    lw_test_advance(w.engine, 2000);
    assert_status(lw_resume(w.engine, "default"), LW_OK);
    assert_int_equal(state_of(w.engine, late), LW_ABORTED);
    assert_status(lw_test_fail_next(w.engine, "task", 1, LW_OUTCOME_RETRY, "once more"), LW_OK);
    assert_status(lw_retry_now(w.engine, late, NULL), LW_OK);
    assert_int_equal(lw_test_advance(w.engine, 60000), 2);
    lw_snapshot s = look(w.engine, late);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.crashes, 0);
    lw_snapshot_clear(&s);
    close_world(&w);
}
