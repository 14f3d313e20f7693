/* What the program is told when a task has ended: callbacks, arguments left over, the log. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

#define FOREVER (-1)

/* What happened, one letter each: e on_end, f on_failed, a on_aborted, d on_drop. */
struct diary {
    char letters[16];
    lw_snapshot last; /* of the last callback; without its memory */
    char error[LW_TEXT_MAX + 1];
    bool ends_thread; /* in each callback */
};

static struct diary diary;
static struct tally told = TALLY;

static void write_diary(const char *letter, const lw_snapshot *task) {
    size_t used = strlen(diary.letters);
    snprintf(diary.letters + used, sizeof diary.letters - used, "%s", letter);
    if (task) {
        diary.last = *task;
        snprintf(diary.error, sizeof diary.error, "%s", task->last_error);
    }
    tally_add(&told, 1);
    if (diary.ends_thread)
        pthread_exit(NULL);
}

static void note_end(void *user, const lw_snapshot *task) {
    assert_string_equal(user, "submitter");
    write_diary("e", task);
}

static void note_failed(void *user, const lw_snapshot *task) {
    assert_string_equal(user, "program");
    assert_int_equal(task->state, LW_FAILED);
    write_diary("f", task);
}

static void note_aborted(void *user, const lw_snapshot *task) {
    assert_string_equal(user, "program");
    assert_int_equal(task->state, LW_ABORTED);
    write_diary("a", task);
}

static void note_drop(void *arg) {
    assert_string_equal(arg, "argument");
    write_diary("d", NULL);
}

#define CALLBACKS .on_failed = note_failed, .on_aborted = note_aborted, .user = (void *)"program"
#define ON_END .on_end = note_end, .user = (void *)"submitter"
#define ARGUMENT .arg = (void *)"argument", .on_drop = note_drop

static lw_outcome exhaust(lw_ctx *ctx, const lw_task *task) {
    return lw_retry(ctx, "try %u", task->attempt);
}

static lw_engine *open_driven(const lw_engine_options *options) {
    lw_engine *engine = open_engine(options);
    handle(engine, "mail", do_done, NULL);
    handle(engine, "fail", do_fail, NULL);
    handle(engine, "exhaust", exhaust,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 100, .attempts = 2, .jitter_percent = LW_ZERO}));
    handle(engine, "call", NULL, LW_HANDLER_OPTIONS(.retry = {.attempts = 1}));
    start(engine);
    return engine;
}

#define OPEN_DRIVEN(...) open_driven(LW_ENGINE_OPTIONS(.workers = LW_ZERO, __VA_ARGS__))

/* ---- callbacks ----------------------------------------------------------------------------- */

TEST(a_finished_task_is_told_to_its_submitter_alone) {
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS);
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "ann", ON_END);
    assert_string_equal(diary.letters, "");
    assert_int_equal(lw_test_run(engine), 1);
    assert_string_equal(diary.letters, "e");
    assert_int_equal(diary.last.id, id);
    assert_int_equal(diary.last.state, LW_FINISHED);
    assert_int_equal(lw_test_run(engine), 0);
    assert_string_equal(diary.letters, "e");
    close_engine(engine);
}

TEST(a_failed_task_is_told_with_its_last_error) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS, .clock = clock);
    lw_id id = SUBMIT(engine, .kind = "exhaust", ON_END);
    assert_int_equal(lw_test_run(engine), 1);
    assert_string_equal(diary.letters, "");
    assert_int_equal(lw_test_advance(engine, 1000), 1);
    assert_string_equal(diary.letters, "ef");
    assert_int_equal(diary.last.id, id);
    assert_int_equal(diary.last.attempts, 2);
    assert_int_equal(diary.last.error_count, 2);
    assert_string_equal(diary.error, "try 2");
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(an_aborted_task_is_told_with_the_reason) {
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS);
    lw_id id = SUBMIT(engine, .kind = "mail", ON_END);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_int_equal(lw_test_run(engine), 0);
    assert_string_equal(diary.letters, "ea");
    assert_string_equal(diary.error, "cancelled");
    close_engine(engine);
}

TEST(tasks_without_on_end_are_told_to_the_program_too) {
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS);
    SUBMIT(engine, .kind = "fail");
    assert_int_equal(lw_test_run(engine), 1);
    assert_string_equal(diary.letters, "f");
    close_engine(engine);
}

static void use_engine(void *user, const lw_snapshot *task) {
    lw_engine *engine = user;
    assert_int_equal(state_of(engine, task->id), LW_FINISHED);
    assert_status(lw_wait(engine, task->id, FOREVER, NULL), LW_OK);
    SUBMIT(engine, .kind = "mail");
}

TEST(a_callback_may_call_the_engine) {
    lw_engine *engine = OPEN_DRIVEN(.task_limit = 1);
    lw_id id = SUBMIT(engine, .kind = "mail", .on_end = use_engine, .user = engine);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(a_stop_waits_for_the_callbacks) {
    lw_engine *engine = open_driven(LW_ENGINE_OPTIONS(.workers = 2, CALLBACKS));
    for (int i = 0; i < 3; i++)
        SUBMIT(engine, .kind = "fail", ON_END);
    assert_status(lw_stop(engine, LW_DRAIN, FOREVER), LW_OK);
    assert_int_equal(tally_read(&told), 6);
    close_engine(engine);
}

TEST(what_was_not_told_yet_is_neither_forgotten_nor_retried) {
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS);
    lw_id id = SUBMIT(engine, .kind = "mail", ON_END);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_status(lw_forget(engine, id), LW_PENDING);
    assert_status(lw_retry_now(engine, id, NULL), LW_PENDING);
    assert_int_equal(lw_test_run(engine), 0);
    assert_string_equal(diary.letters, "ea");
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_string_equal(diary.letters, "eae");
    assert_status(lw_forget(engine, id), LW_OK);
    close_engine(engine);
}

TEST_WITH(a_close_tells_what_nobody_has_told, .seconds = 20) {
    lw_engine *engine = open_engine(LW_ENGINE_OPTIONS(CALLBACKS));
    lw_id id = SUBMIT(engine, .kind = "mail", .run = do_done, ARGUMENT, ON_END);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_string_equal(diary.letters, "");
    close_engine(engine); /* it was never started */
    assert_string_equal(diary.letters, "ead");
}

/* ---- arguments ----------------------------------------------------------------------------- */

static lw_outcome take(lw_ctx *ctx, const lw_task *task) {
    assert_string_equal(task->arg, "argument");
    return lw_done(ctx);
}

static lw_outcome take_and_fail(lw_ctx *ctx, const lw_task *task) {
    assert_string_equal(task->arg, "argument");
    return lw_fail(ctx, "no");
}

static lw_outcome leave_it(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_retry(ctx, "later");
}

TEST(an_argument_that_its_function_took_is_not_dropped) {
    lw_engine *engine = OPEN_DRIVEN(.user = NULL);
    SUBMIT(engine, .run = take, ARGUMENT);
    SUBMIT(engine, .run = take_and_fail, ARGUMENT);
    assert_int_equal(lw_test_run(engine), 2);
    close_engine(engine);
    assert_string_equal(diary.letters, "");
}

TEST(an_argument_that_nobody_took_is_dropped_once_and_last) {
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS);
    SUBMIT(engine, .run = leave_it, ARGUMENT, ON_END);
    assert_int_equal(lw_test_run(engine), 1);
    assert_string_equal(diary.letters, "efd");
    lw_id id = SUBMIT(engine, .run = take, ARGUMENT, .delay_ms = 1000);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_int_equal(lw_test_run(engine), 0);
    assert_string_equal(diary.letters, "efdad");
    close_engine(engine);
    assert_string_equal(diary.letters, "efdad");
}

/* ---- callbacks that end their thread --------------------------------------------------------- */

TEST(a_callback_that_ends_its_thread_keeps_nobody_from_being_told) {
    diary.ends_thread = true;
    lw_engine *engine = open_driven(LW_ENGINE_OPTIONS(.workers = 1, CALLBACKS));
    lw_id id = SUBMIT(engine, .run = leave_it, ARGUMENT, ON_END);
    assert_status(lw_wait(engine, id, FOREVER, NULL), LW_OK);
    tally_await(&told, 3);
    lw_id next = SUBMIT(engine, .kind = "mail");
    assert_status(lw_wait(engine, next, FOREVER, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, FOREVER), LW_OK);
    assert_string_equal(diary.letters, "efd");
    assert_status(lw_forget(engine, id), LW_OK); /* it was handed back */
    close_engine(engine);
}

/* ---- the log ------------------------------------------------------------------------------- */

struct lines {
    int count;
    lw_log_level level;
    char text[512]; /* message key=value ... */
};

static void keep_line(void *user, const lw_log_record *record) {
    struct lines *lines = user;
    if (strcmp(record->component, "engine") != 0 || record->level < LW_LOG_INFO)
        return;
    lines->count++;
    lines->level = record->level;
    size_t at = (size_t)snprintf(lines->text, sizeof lines->text, "%s", record->message);
    for (size_t i = 0; i < record->field_count; i++)
        at += (size_t)snprintf(lines->text + at, sizeof lines->text - at, " %s=%s",
                               record->fields[i].key, record->fields[i].value);
}

TEST(a_failed_task_is_logged_once_with_how_long_it_took) {
    lw_clock *clock = open_clock();
    struct lines lines = {0};
    const lw_log log = {.write = keep_line, .user = &lines};
    lw_engine *engine = OPEN_DRIVEN(.log = &log, .clock = clock, .name = "post");
    lw_id id = SUBMIT(engine, .kind = "exhaust");
    SUBMIT(engine, .kind = "mail", ON_END);
    assert_int_equal(lw_test_advance(engine, 1000), 3);
    assert_int_equal(lines.count, 1);
    assert_int_equal(lines.level, LW_LOG_WARN);
    char expected[512];
    snprintf(expected, sizeof expected,
             "a task has failed engine=post id=%llu kind=exhaust queue=default attempts=2 "
             "total_ms=100 error=try 2",
             id);
    assert_string_equal(lines.text, expected);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- without memory ------------------------------------------------------------------------ */

static void tell_without_memory(uint64_t nth, bool *has_failed) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine = OPEN_DRIVEN(CALLBACKS, .allocator = lw_test_memory_allocator(memory));
    lw_id id = SUBMIT(engine, .run = leave_it, ARGUMENT, ON_END, .payload = LW_TEXT("body"));
    memset(&diary, 0, sizeof diary);
    lw_test_memory_fail_at(memory, nth);
    assert_int_equal(lw_test_run(engine), 1);
    *has_failed = lw_test_memory_has_failed(memory);
    lw_test_memory_fail_at(memory, 0);
    assert_string_equal(diary.letters, "efd");
    assert_int_equal(diary.last.id, id);
    assert_int_equal(diary.last.attempts, 1);
    close_engine(engine);
    close_memory(memory);
}

TEST(what_has_ended_is_told_even_without_memory) {
    bool has_failed = true;
    uint64_t nth = 0;
    while (has_failed)
        tell_without_memory(++nth, &has_failed);
    assert_true(nth > 1);
}
