/* What the program is told when a task has ended: callbacks, arguments left over, the log. */
#include "engines.h"

#include <stdatomic.h>
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

/* Two workers may be in callbacks at once. */
static void write_diary(const char *letter, const lw_snapshot *task) {
    static pthread_mutex_t pen = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&pen);
    size_t used = strlen(diary.letters);
    snprintf(diary.letters + used, sizeof diary.letters - used, "%s", letter);
    if (task) {
        diary.last = *task;
        snprintf(diary.error, sizeof diary.error, "%s", task->last_error);
    }
    pthread_mutex_unlock(&pen);
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
    assert_int_equal(strlen(diary.letters), 6);
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

TEST(a_close_tells_what_nobody_has_told) {
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

#define LINES_MAX 32

/* Each as "level message key=value ...", but for engine and queue, which are what they are. */
static struct {
    int count;
    char text[LINES_MAX][320];
} lines;

static void keep_line(void *user, const lw_log_record *record) {
    (void)user;
    if (strcmp(record->component, "engine") != 0 || record->level < LW_LOG_INFO)
        return;
    assert_true(lines.count < LINES_MAX);
    char *text = lines.text[lines.count++];
    size_t size = sizeof lines.text[0], at = 0;
    at += (size_t)snprintf(text, size, "%s %s", lw_log_level_name(record->level), record->message);
    for (size_t i = 0; i < record->field_count; i++) {
        const lw_log_field *field = &record->fields[i];
        if (strcmp(field->key, "engine") == 0)
            assert_string_equal(field->value, "post");
        else if (strcmp(field->key, "queue") == 0)
            assert_string_equal(field->value, "default");
        else
            at += (size_t)snprintf(text + at, size - at, " %s=%s", field->key, field->value);
    }
}

static const lw_log line_log = {.write = keep_line};

static lw_outcome do_retry_twice(lw_ctx *ctx, const lw_task *task) {
    return task->attempt < 3 ? lw_retry(ctx, "try %u", task->attempt) : lw_done(ctx);
}

static lw_engine *open_logged(const char *url, lw_clock *clock) {
    lw_engine *engine =
        OPEN_ON(url, .workers = LW_ZERO, .log = &line_log, .clock = clock, .name = "post");
    const lw_retry_policy policy = {.min_ms = 100, .factor = 1, .jitter_percent = LW_ZERO};
    lw_retry_policy twice = policy, often = policy;
    twice.attempts = 2;
    often.attempts = 40;
    handle(engine, "mail", do_done, NULL);
    handle(engine, "exhaust", exhaust, LW_HANDLER_OPTIONS(.retry = twice));
    handle(engine, "often", exhaust, LW_HANDLER_OPTIONS(.retry = often));
    handle(engine, "twice", do_retry_twice, LW_HANDLER_OPTIONS(.retry = policy));
    start(engine);
    lines.count = 0;
    return engine;
}

static void assert_lines(const char *const *expected, int count) {
    for (int i = 0; i < count && i < lines.count; i++)
        assert_string_equal(lines.text[i], expected[i]);
    assert_int_equal(lines.count, count);
}
#define ASSERT_LINES(...)                            \
    assert_lines((const char *const[]){__VA_ARGS__}, \
                 (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

ENGINE_TEST(a_failed_task_is_logged_once_with_its_errors_and_how_long_it_took) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_logged(url, clock);
    SUBMIT(engine, .kind = "exhaust");
    SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_advance(engine, 1000), 3);
    ASSERT_LINES("warn an attempt ended with an error id=1 kind=exhaust attempt=1 fault=error "
                 "after_ms=0 error=try 1",
                 "warn a task has failed id=1 kind=exhaust attempts=2 total_ms=100 error=try 2");
    close_engine(engine);
    lw_test_clock_close(clock);
}

ENGINE_TEST(the_errors_of_a_task_that_finished_in_the_end_are_logged_then) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_logged(url, clock);
    SUBMIT(engine, .kind = "twice", .payload = LW_TEXT("body"));
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(lines.count, 0);
    if (is_durable_url(url)) { /* whichever process sees the end */
        close_engine(engine);
        engine = open_logged(url, clock);
    }
    assert_int_equal(lw_test_advance(engine, 1000), 2);
    ASSERT_LINES("info an attempt ended with an error id=1 kind=twice attempt=1 fault=error "
                 "after_ms=0 error=try 1",
                 "info an attempt ended with an error id=1 kind=twice attempt=2 fault=error "
                 "after_ms=100 error=try 2",
                 "info a task has finished after errors id=1 kind=twice attempts=3 total_ms=200");
    close_engine(engine);
    lw_test_clock_close(clock);
}

ENGINE_TEST(an_aborted_task_is_logged_if_it_ever_began) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_logged(url, clock);
    assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "mail", .delay_ms = 1000)), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "twice");
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_int_equal(lw_test_run(engine), 0);
    ASSERT_LINES("info an attempt ended with an error id=2 kind=twice attempt=1 fault=error "
                 "after_ms=0 error=try 1",
                 "info a task was aborted id=2 kind=twice attempts=1 total_ms=0 why=cancelled");
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(of_many_errors_a_bounded_number_is_logged) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_logged("memory:", clock);
    SUBMIT(engine, .kind = "often");
    assert_int_equal(lw_test_advance(engine, 100000), 40);
    assert_int_equal(lines.count, LW_ERRORS_MAX + 1); /* the first, how many not, the last 15 */
    assert_non_null(strstr(lines.text[0], "error=try 1"));
    assert_string_equal(lines.text[1], "warn errors of more attempts were not kept id=1 count=24");
    assert_non_null(strstr(lines.text[2], "error=try 26"));
    assert_non_null(strstr(lines.text[LW_ERRORS_MAX], "error=try 40"));
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(an_error_that_was_logged_is_not_logged_again_after_a_retry_by_hand) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_logged("memory:", clock);
    lw_id id = SUBMIT(engine, .kind = "exhaust");
    assert_int_equal(lw_test_advance(engine, 1000), 2);
    lines.count = 0;
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    assert_int_equal(lw_test_advance(engine, 1000), 2);
    assert_int_equal(lines.count, 2);
    assert_non_null(strstr(lines.text[0], "attempt=1 fault=error after_ms=1000 error=try 1"));
    assert_non_null(strstr(lines.text[1], "error=try 2"));
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

/* ---- those that end because of one another -------------------------------------------------- */

enum { LISTED_MAX = 200 };
struct list {
    lw_id ids[LISTED_MAX];
    int count;
};

static void list_one(void *user, const lw_snapshot *task) {
    struct list *list = user;
    if (list->count < LISTED_MAX)
        list->ids[list->count++] = task->id;
}

/* Their ids rise: first the cause, then those that waited for it, then those that waited for
 * them; of these the first submitted first, also if the table of who waits has grown. */
ENGINE_TEST(the_cause_is_told_before_what_ended_because_of_it) {
    enum { WAIT = 90 };
    struct list list = {.count = 0};
    lw_engine *engine = OPEN_ON(url, .workers = 1, .on_aborted = list_one, .user = &list);
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "by-hand"), middle = 0;
    for (int i = 0; i < WAIT; i++) {
        lw_id id = SUBMIT(engine, .kind = "by-hand", .after = &first, .after_count = 1);
        middle = i == WAIT / 2 ? id : middle;
    }
    SUBMIT(engine, .kind = "by-hand", .after = &middle, .after_count = 1);
    assert_status(lw_cancel(engine, first), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, FOREVER), LW_OK);
    assert_int_equal(list.count, WAIT + 2);
    for (int i = 0; i < list.count; i++)
        assert_int_equal(list.ids[i], first + (lw_id)i);
    close_engine(engine);
}

/* ---- callbacks that are slow ---------------------------------------------------------------- */

static _Atomic int slow_count, told_before;

static void tell_slowly(void *user, const lw_snapshot *task) {
    (void)task;
    gate_pass(user);
    atomic_fetch_add(&slow_count, 1);
}

static uint64_t untold(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.untold;
}

/* Dropping makes room in the queue, and a task that waits for its callback. The last that is
 * dropped is not dropped in vain. */
ENGINE_TEST(what_has_ended_and_was_not_told_is_bounded) {
    enum { LIMIT = 1024, TRIES = 4 * LIMIT };
    struct gate slow = GATE;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .task_limit = LIMIT, .overflow = LW_DROP_OLDEST,
                                .on_aborted = tell_slowly, .user = &slow);
    int accepted = 0;
    start(engine);
    for (int i = 0; i < TRIES; i++) {
        lw_error err;
        int rc = lw_submit(engine, LW_TASK(.kind = "by-hand"), NULL, &err);
        accepted += rc == LW_OK;
        if (rc < 0)
            assert_sentence(&err, LW_EFULL, "room");
    }
    assert_int_equal(accepted, 2 * LIMIT);
    assert_int_equal(untold(engine), LIMIT);
    gate_open(&slow);
    await_that(untold(engine) == 0);
    SUBMIT(engine, .kind = "by-hand");
    assert_status(lw_stop(engine, LW_DROP, FOREVER), LW_OK);
    close_engine(engine);
}

TEST(submitters_that_wait_get_in_when_it_was_told) {
    enum { LIMIT = 1024 };
    struct gate slow = GATE;
    lw_engine *engine =
        OPEN_ENGINE(.workers = 1, .task_limit = LIMIT, .on_aborted = tell_slowly, .user = &slow);
    start(engine);
    for (int i = 0; i < LIMIT; i++)
        assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "by-hand")), LW_OK);
    assert_status(
        lw_submit(engine, LW_TASK(.kind = "by-hand", .submit_timeout_ms = LW_ZERO), NULL, NULL),
        LW_ETIMEDOUT);
    gate_open(&slow);
    SUBMIT(engine, .kind = "by-hand"); /* waits */
    assert_status(lw_stop(engine, LW_DROP, FOREVER), LW_OK);
    close_engine(engine);
}

static _Atomic int give_up_count;

static lw_outcome do_give_up(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    atomic_fetch_add(&give_up_count, 1);
    return lw_abort(ctx, "enough");
}

/* It would end as one more that has to be told. */
TEST(a_caller_runs_nothing_while_too_much_is_untold) {
    enum { LIMIT = 1024 };
    struct gate slow = GATE;
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = LIMIT, .overflow = LW_CALLER_RUNS,
                                    .on_aborted = tell_slowly, .user = &slow);
    handle(engine, "give-up", do_give_up, NULL);
    start(engine);
    for (int i = 0; i < LIMIT; i++)
        assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "by-hand")), LW_OK);
    assert_status(
        lw_submit(engine, LW_TASK(.kind = "give-up", .submit_timeout_ms = LW_ZERO), NULL, NULL),
        LW_ETIMEDOUT);
    assert_int_equal(atomic_load(&give_up_count), 0);
    assert_int_equal(untold(engine), LIMIT);
    gate_open(&slow);
    assert_status(lw_wait(engine, SUBMIT(engine, .kind = "give-up"), FOREVER, NULL), LW_OK);
    assert_int_equal(atomic_load(&give_up_count), 1);
    assert_status(lw_stop(engine, LW_DROP, FOREVER), LW_OK);
    close_engine(engine);
}

static lw_outcome do_look(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    atomic_store(&told_before, atomic_load(&slow_count));
    return lw_done(ctx);
}

TEST(tasks_run_while_there_is_still_much_to_tell) {
    enum { CANCELLED = 500 };
    struct gate slow = GATE;
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .on_aborted = tell_slowly, .user = &slow);
    handle(engine, "look", do_look, NULL);
    start(engine);
    for (int i = 0; i < CANCELLED; i++)
        assert_status(lw_cancel(engine, SUBMIT(engine, .kind = "by-hand")), LW_OK);
    tally_await(&slow.arrived, 1); /* the worker is in the first of the callbacks */
    lw_id id = SUBMIT(engine, .kind = "look");
    gate_open(&slow);
    assert_status(lw_wait(engine, id, FOREVER, NULL), LW_OK);
    await_that(untold(engine) == 0);
    assert_true(atomic_load(&told_before) < CANCELLED);
    assert_status(lw_stop(engine, LW_DROP, FOREVER), LW_OK);
    close_engine(engine);
}
