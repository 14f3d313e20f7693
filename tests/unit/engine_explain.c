/* Why a task does not run: the sentences, and their order. Most of it on an engine without threads
 * and on a test clock, which begins at 2000-01-01. */
#include "engines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static lw_engine *engine;
static lw_clock *test_clock;
static struct gate gate = GATE;

static void open_driven(void) {
    test_clock = open_clock();
    engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = test_clock);
}

static void close_driven(void) {
    close_engine(engine);
    lw_test_clock_close(test_clock);
}

static lw_explanation explain(lw_id id) {
    lw_explanation explanation;
    memset(&explanation, 0xaa, sizeof explanation);
    assert_status(lw_explain(engine, id, &explanation), LW_OK);
    assert_int_equal(explanation.state, state_of(engine, id));
    CHECK(explanation.count > 0 && explanation.count <= LW_EXPLAIN_MAX);
    for (unsigned i = 0; i < explanation.count; i++) {
        size_t length = strnlen(explanation.reasons[i], LW_ERROR_MESSAGE_MAX);
        CHECK(length > 10 && length < LW_ERROR_MESSAGE_MAX);
    }
    return explanation;
}

/* EXPECT(id, "the first reason", "the second"): these and no others. */
#define EXPECT(id, ...)                                 \
    expect_at((id), (const char *const[]){__VA_ARGS__}, \
              sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), __LINE__)

static void expect_at(lw_id id, const char *const *reasons, size_t count, int line) {
    lw_explanation explanation = explain(id);
    for (size_t i = 0; i < count || i < explanation.count; i++) {
        const char *wanted = i < count ? reasons[i] : "(none)";
        const char *seen = i < explanation.count ? explanation.reasons[i] : "(none)";
        if (strcmp(wanted, seen) != 0)
            fprintf(stderr, "line %d: reason %zu of task %llu\n", line, i, id);
        assert_string_equal(seen, wanted);
    }
}

#define EXPECT_FIRST(id, reason) assert_string_equal(explain(id).reasons[0], reason)

static lw_outcome snooze(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_snooze(ctx, 90000);
}

/* Fails the first attempt and snoozes the second. */
static lw_outcome fail_and_snooze(lw_ctx *ctx, const lw_task *task) {
    return task->attempt == 1 ? lw_retry(ctx, "no") : lw_snooze(ctx, 5000);
}

/* ---- scheduled ---------------------------------------------------------------------------- */

static void handle_retried(const char *kind) {
    handle(
        engine, kind, do_done,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 12000, .jitter_percent = LW_ZERO, .attempts = 4}));
}

TEST(a_retry_says_until_when_after_which_attempt_and_why) {
    open_driven();
    handle_retried("mail");
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_test_fail_next(engine, "mail", 2, LW_OUTCOME_RETRY, "smtp said 421"), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    EXPECT(id, "it is scheduled until 2000-01-01T00:00:12Z, in 12 s: the back-off after attempt 1 "
               "(smtp said 421)");
    assert_int_equal(lw_test_advance(engine, 12000), 1);
    EXPECT(id, "it is scheduled until 2000-01-01T00:00:36Z, in 24 s: the back-off after attempt 2 "
               "(smtp said 421)");
    advance(test_clock, 23500);
    EXPECT(id,
           "it is scheduled until 2000-01-01T00:00:36Z, in 500 ms: the back-off after attempt 2 "
           "(smtp said 421)");
    close_driven();
}

TEST(a_delay_a_wall_time_and_a_snooze_are_told_apart) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    handle(engine, "snooze", snooze, NULL);
    handle(engine, "both", fail_and_snooze,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .jitter_percent = LW_ZERO}));
    start(engine);
    EXPECT(SUBMIT(engine, .kind = "plain", .delay_ms = 3 * 3600 * 1000),
           "it is scheduled until 2000-01-01T03:00:00Z, in 3 h: it was submitted with a delay");
    EXPECT(SUBMIT(engine, .kind = "plain", .run_at_ms = INT64_C(946684800000) + 5 * 86400000),
           "it is scheduled until 2000-01-06T00:00:00Z, in 5 days: it was submitted for this time");
    lw_id snoozed = SUBMIT(engine, .kind = "snooze"), both = SUBMIT(engine, .kind = "both");
    assert_int_equal(lw_test_run(engine), 2);
    EXPECT(snoozed, "it is scheduled until 2000-01-01T00:01:30Z, in 90 s: its handler put it off");
    assert_int_equal(lw_test_advance(engine, 1000), 1);
    EXPECT(both, "it is scheduled until 2000-01-01T00:00:06Z, in 5 s: its handler put it off");
    close_driven();
}

static lw_outcome sleep_on(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK ? lw_done(ctx) : lw_retry(ctx, "gave up");
}

TEST(an_attempt_that_a_stop_has_ended_is_no_snooze) {
    engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "sleep", sleep_on, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "sleep");
    await_that(state_of(engine, id) == LW_STARTED);
    assert_status(lw_stop(engine, LW_DRAIN, 1), LW_ETIMEDOUT);
    await_that(state_of(engine, id) == LW_SCHEDULED);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    EXPECT(id, "the engine has stopped, and starts nothing more",
           "its attempt gave up because of the stop, and it is not started again");
    close_engine(engine);
}

/* A delay of so long reads like this. */
static void assert_rounds(int64_t ms, const char *words) {
    char wanted[32];
    lw_id id = SUBMIT(engine, .kind = "plain", .delay_ms = ms);
    lw_explanation explanation = explain(id);
    snprintf(wanted, sizeof wanted, ", in %s:", words);
    if (!strstr(explanation.reasons[0], wanted))
        assert_string_equal(explanation.reasons[0], wanted);
}

TEST(a_time_is_rounded_to_the_nearest_and_an_hour_is_60_minutes) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    start(engine);
    assert_rounds(999, "999 ms");
    assert_rounds(1499, "1 s");
    assert_rounds(1500, "2 s");
    assert_rounds(119499, "119 s");
    assert_rounds(119500, "2 min");
    assert_rounds(3599900, "60 min");
    assert_rounds(3600000, "60 min");
    assert_rounds(7169999, "119 min");
    assert_rounds(7170000, "2 h");
    assert_rounds(47 * 3600000 + 1800000, "2 days");
    assert_rounds(INT64_C(5) * 86400000 - 1, "5 days");
    close_driven();
}

TEST(what_stands_in_the_way_later_is_told_after_the_time) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    SUBMIT(engine, .kind = "plain"); /* a stop has to wait for it */
    lw_id id = SUBMIT(engine, .kind = "mial", .queue = "night", .delay_ms = 140000);
    assert_status(lw_pause(engine, "night"), LW_OK);
    EXPECT(id,
           "it is scheduled until 2000-01-01T00:02:20Z, in 2 min: it was submitted with a delay",
           "the engine has not been started",
           "its kind \"mial\" has no handler here, and no worker elsewhere has claimed it",
           "its queue \"night\" is paused");
    start(engine);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    EXPECT(id,
           "it is scheduled until 2000-01-01T00:02:20Z, in 2 min: it was submitted with a delay",
           "the engine is stopping (drain): it runs only what is due",
           "its kind \"mial\" has no handler here, and no worker elsewhere has claimed it",
           "its queue \"night\" is paused");
    close_driven();
}

TEST(when_nothing_more_is_started_that_is_told_before_the_time) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "plain");
    lw_id later = SUBMIT(engine, .kind = "plain", .delay_ms = 5000);
    lw_id after = SUBMIT(engine, .kind = "plain", .after = &later, .after_count = 1);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    assert_int_equal(state_of(engine, first), LW_FINISHED);
    EXPECT(later, "the engine has stopped, and starts nothing more",
           "it is scheduled until 2000-01-01T00:00:05Z, in 5 s: it was submitted with a delay");
    EXPECT(after, "the engine has stopped, and starts nothing more",
           "it waits for task 2, which is scheduled");
    close_driven();
}

static lw_id asked_in_drop[3];
static lw_explanation in_drop[3];

static lw_outcome drop_and_explain(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_stop(engine, LW_DROP, 1000), LW_PENDING);
    for (int i = 0; i < 3; i++)
        assert_status(lw_explain(engine, asked_in_drop[i], &in_drop[i]), LW_OK);
    return lw_done(ctx);
}

TEST(a_stop_that_drops_comes_first_for_every_state) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    handle(engine, "drop", drop_and_explain, NULL);
    start(engine);
    SUBMIT(engine, .kind = "drop");
    asked_in_drop[0] = SUBMIT(engine, .kind = "plain");
    asked_in_drop[1] = SUBMIT(engine, .kind = "plain", .delay_ms = 5000);
    asked_in_drop[2] =
        SUBMIT(engine, .kind = "plain", .after = &asked_in_drop[1], .after_count = 1);
    assert_int_equal(lw_test_run(engine), 1);
    for (int i = 0; i < 3; i++) {
        assert_string_equal(in_drop[i].reasons[0],
                            "the engine is stopping (drop): it starts nothing more");
        EXPECT_FIRST(asked_in_drop[i], "the engine has stopped, and starts nothing more");
    }
    close_driven();
}

TEST(a_long_error_is_quoted_in_part_and_no_letter_is_torn) {
    char text[LW_TEXT_MAX + 1] =
        "x"; /* then letters of two bytes: any cut by bytes would tear one */
    for (int i = 1; i + 2 < LW_TEXT_MAX; i += 2)
        memcpy(text + i, "\xc3\xa9", 3);
    open_driven();
    handle_retried("mail");
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_test_fail_next(engine, "mail", 1, LW_OUTCOME_RETRY, text), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    lw_explanation explanation = explain(id);
    const char *end = strstr(explanation.reasons[0], "\xc3\xa9...)");
    assert_non_null(end);
    assert_string_equal(end, "\xc3\xa9...)");
    close_driven();
}

/* ---- created ------------------------------------------------------------------------------ */

static lw_explanation from_inside;
static lw_id asked_inside;

static lw_outcome explain_other(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_explain(engine, asked_inside, &from_inside), LW_OK);
    return lw_done(ctx);
}

TEST(a_task_that_waits_says_for_which_and_how_far_that_is) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    handle(engine, "look", explain_other, NULL);
    start(engine);
    lw_id on[3] = {SUBMIT(engine, .kind = "look"),
                   SUBMIT(engine, .kind = "plain", .delay_ms = 1000),
                   SUBMIT(engine, .kind = "plain", .delay_ms = 2000)};
    lw_id id = SUBMIT(engine, .kind = "plain", .after = on, .after_count = 3);
    EXPECT(id, "it waits for task 1, which is enqueued, and 2 more");
    asked_inside = id;
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(from_inside.state, LW_CREATED);
    assert_string_equal(from_inside.reasons[0],
                        "it waits for task 1, which is started, and 2 more");
    EXPECT(id, "it waits for task 2, which is scheduled, and 1 more");
    assert_int_equal(lw_test_advance(engine, 1000), 1);
    EXPECT(id, "it waits for task 3, which is scheduled");
    assert_status(lw_pause(engine, "default"), LW_OK);
    EXPECT(id, "it waits for task 3, which is scheduled", "its queue \"default\" is paused");
    close_driven();
}

TEST(a_task_that_waits_twice_for_another_counts_it_once) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    start(engine);
    lw_id a = SUBMIT(engine, .kind = "plain", .delay_ms = 1000);
    lw_id b = SUBMIT(engine, .kind = "plain", .delay_ms = 2000);
    lw_id id = SUBMIT(engine, .kind = "plain", .after = (lw_id[]){a, b, a}, .after_count = 3);
    EXPECT(id, "it waits for task 1, which is scheduled, and 1 more");
    lw_id same = SUBMIT(engine, .kind = "plain", .after = (lw_id[]){b, b}, .after_count = 2);
    EXPECT(same, "it waits for task 2, which is scheduled");
    assert_int_equal(lw_test_advance(engine, 1000), 1);
    EXPECT(id, "it waits for task 2, which is scheduled");
    assert_int_equal(lw_test_advance(engine, 1000), 3);
    close_driven();
}

/* ---- enqueued ----------------------------------------------------------------------------- */

#define MIAL                                                                          \
    "its kind \"mial\" has no handler here, and no worker elsewhere has claimed it; " \
    "did you mean \"mail\"?"

TEST(an_engine_that_was_not_started_a_missing_handler_and_a_pause_are_told_in_this_order) {
    open_driven();
    handle(engine, "mail", do_done, NULL);
    lw_id id = SUBMIT(engine, .kind = "mail"), odd = SUBMIT(engine, .kind = "mial", .queue = "q");
    EXPECT(id, "the engine has not been started");
    assert_status(lw_pause(engine, "q"), LW_OK);
    EXPECT(odd, "the engine has not been started", MIAL, "its queue \"q\" is paused");
    start(engine);
    EXPECT(odd, MIAL, "its queue \"q\" is paused");
    assert_status(lw_resume(engine, "q"), LW_OK);
    EXPECT(odd, MIAL);
    assert_int_equal(lw_test_run(engine), 1);
    /* and it stays */
    EXPECT(odd, MIAL);
    close_driven();
}

TEST(a_kind_without_a_handler_names_the_nearest_that_has_one) {
    open_driven();
    for (int i = 0; i < 200; i++) { /* more than are looked at in one go */
        char kind[16];
        snprintf(kind, sizeof kind, "kind-%d", i);
        handle(engine, kind, do_done, NULL);
        if (i == 70)
            handle(engine, "send-email", do_done, NULL);
    }
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "sendEmail"), far = SUBMIT(engine, .kind = "backup");
    SUBMIT(engine, .kind = "sendemail"); /* nearer, but it has no handler, either */
    EXPECT(id,
           "its kind \"sendEmail\" has no handler here, and no worker elsewhere has claimed it; "
           "did you mean \"send-email\"?");
    EXPECT(far, "its kind \"backup\" has no handler here, and no worker elsewhere has claimed it");
    close_driven();
}

TEST(a_stop_that_drops_is_the_first_reason_and_one_that_drains_the_last) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    SUBMIT(engine, .kind = "plain"); /* a stop has to wait for it */
    lw_id id = SUBMIT(engine, .kind = "none");
    start(engine);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, 0), LW_OK);
    EXPECT(id, "its kind \"none\" has no handler here, and no worker elsewhere has claimed it",
           "the engine is stopping (drain all): what waits for a time runs now, but only once");
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    EXPECT(id, "its kind \"none\" has no handler here, and no worker elsewhere has claimed it",
           "the engine is stopping (drain): it runs only what is due");
    assert_status(lw_stop(engine, LW_DROP, 0), LW_OK);
    EXPECT(id, "the engine has stopped, and starts nothing more",
           "its kind \"none\" has no handler here, and no worker elsewhere has claimed it");
    close_driven();
}

TEST(tasks_of_its_queue_that_come_first_are_counted) {
    open_driven();
    handle(engine, "a", do_done, NULL);
    handle(engine, "b", do_done, NULL);
    start(engine);
    static const char driven[] = "the engine has no workers: the program drives it";
    lw_id first = SUBMIT(engine, .kind = "a");
    EXPECT(first, driven);
    lw_id second = SUBMIT(engine, .kind = "b");
    EXPECT(second, driven, "1 task of its queue is before it");
    for (int i = 0; i < 3; i++) {
        SUBMIT(engine, .kind = "a", .priority = 10 + i);
        SUBMIT(engine, .kind = "b", .priority = 2000);
        SUBMIT(engine, .kind = "none"); /* cannot run, and so stands in nobody's way */
        SUBMIT(engine, .kind = "a", .queue = "other");
    }
    EXPECT(first, driven, "3 tasks of its queue are before it");
    EXPECT(second, driven, "4 tasks of its queue are before it");
    lw_id last = SUBMIT(engine, .kind = "a", .priority = 3000);
    EXPECT(last, driven, "8 tasks of its queue are before it");
    close_driven();
}

/* By a plain count, whatever the structure of the order: priorities, delays, holes. */
TEST(the_count_of_those_before_is_right_for_every_task) {
    enum { COUNT = 150 };
    lw_id ids[COUNT];
    int64_t priorities[COUNT];
    open_driven();
    handle(engine, "a", do_done, NULL);
    handle(engine, "b", do_done, NULL);
    start(engine);
    for (int i = 0; i < COUNT; i++) {
        priorities[i] = 100 + i * 7 % 6;
        ids[i] = SUBMIT(engine, .kind = i % 3 ? "a" : "b", .priority = priorities[i]);
    }
    for (int i = 0; i < COUNT; i += 10) {
        assert_status(lw_cancel(engine, ids[i]), LW_OK);
        priorities[i] = INT64_MAX;
    }
    for (int i = 0; i < COUNT; i++) {
        if (priorities[i] == INT64_MAX)
            continue;
        unsigned before = 0;
        for (int j = 0; j < COUNT; j++)
            before += priorities[j] < priorities[i] || (priorities[j] == priorities[i] && j < i);
        lw_explanation explanation = explain(ids[i]);
        if (before == 0) {
            assert_int_equal(explanation.count, 1);
            continue;
        }
        char wanted[64];
        snprintf(wanted, sizeof wanted, "%u task%s of its queue %s before it", before,
                 before == 1 ? "" : "s", before == 1 ? "is" : "are");
        assert_string_equal(explanation.reasons[1], wanted);
    }
    close_driven();
}

TEST(of_very_many_before_it_a_bounded_number_is_counted) {
    open_driven();
    handle(engine, "a", do_done, NULL);
    start(engine);
    for (int i = 0; i < 20000; i++)
        SUBMIT(engine, .kind = "a");
    lw_explanation middle = explain(5001); /* in a run whole blocks are counted at once */
    assert_string_equal(middle.reasons[1], "5000 tasks of its queue are before it");
    for (int i = 0; i < 20000; i++)
        SUBMIT(engine, .kind = "a");
    lw_explanation explanation = explain(SUBMIT(engine, .kind = "a"));
    unsigned long long counted;
    assert_int_equal(sscanf(explanation.reasons[1], "more than %llu tasks", &counted), 1);
    CHECK(counted > 1000 && counted < 40000);
    close_driven();
}

/* ---- workers ------------------------------------------------------------------------------ */

static void open_threaded(int workers, int stuck_max) {
    engine = OPEN_ENGINE(.workers = workers, .stuck_max = stuck_max);
    gate = (struct gate)GATE;
}

static void close_threaded(void) {
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
}

TEST(a_kind_at_its_limit_says_which_tasks_run) {
    open_threaded(4, 0);
    handle(engine, "one", do_gate, LW_HANDLER_OPTIONS(.concurrency = 1, .user = &gate));
    handle(engine, "two", do_gate, LW_HANDLER_OPTIONS(.concurrency = 2, .user = &gate));
    start(engine);
    for (int i = 0; i < 2; i++)
        SUBMIT(engine, .kind = "two");
    SUBMIT(engine, .kind = "one");
    tally_await(&gate.arrived, 3);
    EXPECT(SUBMIT(engine, .kind = "one"),
           "its kind \"one\" may run 1 at once, and this runs: task 3");
    lw_explanation explanation = explain(SUBMIT(engine, .kind = "two"));
    assert_int_equal(explanation.count, 1);
    if (strstr(explanation.reasons[0], "tasks 1, 2") == NULL)
        assert_string_equal(explanation.reasons[0],
                            "its kind \"two\" may run 2 at once, and these run: tasks 2, 1");
    close_threaded();
}

TEST(of_many_that_run_some_are_named) {
    open_threaded(10, 0);
    handle(engine, "ten", do_gate, LW_HANDLER_OPTIONS(.concurrency = 10, .user = &gate));
    start(engine);
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .kind = "ten");
    tally_await(&gate.arrived, 10);
    lw_explanation explanation = explain(SUBMIT(engine, .kind = "ten"));
    assert_non_null(strstr(explanation.reasons[0], "its kind \"ten\" may run 10 at once"));
    assert_non_null(strstr(explanation.reasons[0], " and 2 more"));
    close_threaded();
}

TEST(busy_workers_are_a_reason) {
    open_threaded(2, 0);
    handle(engine, "wait", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "plain", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "wait");
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 2);
    lw_id id = SUBMIT(engine, .kind = "plain");
    EXPECT(id, "all 2 workers are busy");
    EXPECT(SUBMIT(engine, .kind = "plain"), "all 2 workers are busy",
           "1 task of its queue is before it");
    close_threaded();

    open_threaded(1, 0);
    handle(engine, "wait", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    id = SUBMIT(engine, .kind = "plain", .run = do_done);
    EXPECT(id, "the only worker is busy");
    close_threaded();
}

TEST(stuck_workers_are_a_reason_when_none_is_left) {
    test_clock = open_clock();
    gate = (struct gate)GATE;
    engine = OPEN_ENGINE(.workers = 1, .stuck_max = LW_ZERO, .clock = test_clock);
    handle(engine, "wait", do_gate,
           LW_HANDLER_OPTIONS(.timeout_ms = 1000, .stuck_ms = 2000, .user = &gate));
    start(engine);
    lw_id stuck = SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    EXPECT(stuck, "it runs since 0 ms on attempt 1");
    lw_id id = SUBMIT(engine, .kind = "wait");
    lw_snapshot task = LW_SNAPSHOT_INIT;
    while (!task.is_stuck) { /* the hard deadline counts from when the soft one was noticed */
        advance(test_clock, 100);
        assert_status(lw_get(engine, stuck, &task), LW_OK);
    }
    await_that(strstr(explain(id).reasons[0], "stuck") != NULL);
    EXPECT(id, "all workers are stuck in tasks that ignore their deadline");
    lw_explanation explanation = explain(stuck);
    assert_int_equal(explanation.count, 2);
    assert_string_equal(explanation.reasons[0],
                        "it is stuck: it goes on long after its time was over");
    assert_non_null(strstr(explanation.reasons[1], "on attempt 1"));
    lw_snapshot_clear(&task);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, -1, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    close_driven();
}

/* ---- started, and the ends ---------------------------------------------------------------- */

static lw_outcome explain_self(lw_ctx *ctx, const lw_task *task) {
    if (task->attempt == 1)
        return lw_retry(ctx, "once more");
    advance(test_clock, 3000);
    assert_status(lw_cancel(engine, task->id), LW_PENDING);
    assert_status(lw_explain(engine, task->id, &from_inside), LW_OK);
    return lw_done(ctx);
}

TEST(a_running_task_says_since_when_and_that_it_was_asked_to_give_up) {
    open_driven();
    handle(engine, "self", explain_self, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "self");
    assert_int_equal(lw_test_advance(engine, 60000), 2);
    assert_int_equal(from_inside.state, LW_STARTED);
    assert_int_equal(from_inside.count, 2);
    assert_string_equal(from_inside.reasons[0], "it runs since 3 s on attempt 2");
    assert_string_equal(from_inside.reasons[1], "it has been asked to give up");
    explain(id);
    close_driven();
}

TEST(ends_say_when_after_how_many_attempts_and_why) {
    open_driven();
    handle(engine, "plain", do_done, NULL);
    handle(engine, "fail", do_fail, NULL);
    handle(engine, "retry", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.attempts = 2, .min_ms = LW_ZERO}));
    start(engine);
    lw_id done = SUBMIT(engine, .kind = "plain"), failed = SUBMIT(engine, .kind = "fail");
    lw_id retried = SUBMIT(engine, .kind = "retry");
    lw_id cancelled = SUBMIT(engine, .kind = "plain", .delay_ms = 1000);
    assert_status(lw_cancel(engine, cancelled), LW_OK);
    lw_test_run(engine);
    advance(test_clock, 61000);
    EXPECT(done, "it finished 61 s ago, after 1 attempt");
    EXPECT(failed, "it failed 61 s ago, after 1 attempt: no");
    EXPECT(retried, "it failed 61 s ago, after 2 attempts: again 2");
    EXPECT(cancelled, "it was aborted 61 s ago, after 0 attempts: cancelled");
    close_driven();
}

/* ---- edges -------------------------------------------------------------------------------- */

TEST(nonsense_is_refused_and_what_never_was_is_not_found) {
    lw_explanation explanation;
    open_driven();
    lw_id id = SUBMIT(engine, .kind = "plain");
    assert_status(lw_explain(NULL, id, &explanation), LW_EINVAL);
    assert_status(lw_explain(engine, id, NULL), LW_EINVAL);
    static const lw_id odd[] = {0, 2, 1 << 20, UINT64_C(1) << 53, UINT64_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_status(lw_explain(engine, odd[i], &explanation), LW_ENOTFOUND);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_status(lw_forget(engine, id), LW_OK);
    assert_status(lw_explain(engine, id, &explanation), LW_ENOTFOUND);
    close_driven();
}

TEST(in_a_forked_child_nothing_is_explained) {
    open_driven();
    lw_id id = SUBMIT(engine, .kind = "plain");
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        lw_explanation explanation;
        _exit(lw_explain(engine, id, &explanation) == LW_EFORKED ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    close_driven();
}

static _Atomic bool must_end;

static void *explain_all(void *arg) {
    lw_id id = 1;
    while (!atomic_load(&must_end)) {
        lw_explanation explanation;
        int rc = lw_explain(engine, id, &explanation);
        CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
        CHECK(rc != LW_OK || (explanation.count > 0 && explanation.reasons[0][0] != 0));
        id = rc == LW_OK ? id + 7 : id % 1000 + 1;
    }
    return arg;
}

TEST(tasks_that_run_and_leave_can_be_explained_all_the_while) {
    long count = test_scale(test_is_sanitized() ? 3000 : 20000, 500000);
    engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "gone", do_done,
           LW_HANDLER_OPTIONS(.concurrency = 1, .retention = {.finished_ms = LW_ZERO}));
    handle(engine, "plain", do_done, LW_HANDLER_OPTIONS(.retention = {.finished_max = 100}));
    handle(
        engine, "retry", do_retry,
        LW_HANDLER_OPTIONS(.retry = {.min_ms = 1, .attempts = 2}, .retention = {.failed_max = 1}));
    start(engine);
    pthread_t first = start_thread(explain_all, NULL), second = start_thread(explain_all, NULL);
    for (long i = 0; i < count; i++)
        SUBMIT(engine, .kind = i % 3 == 0 ? "gone" : i % 3 == 1 ? "plain" : "retry");
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    atomic_store(&must_end, true);
    join_thread(first);
    join_thread(second);
    close_engine(engine);
}
