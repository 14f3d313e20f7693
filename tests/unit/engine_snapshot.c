/* Snapshots: what they show of a task, and what becomes of their memory. */
#include "engines.h"

#include <stdalign.h>
#include <stdio.h>
#include <string.h>

#define WALL INT64_C(946684800000) /* what a test clock shows at its beginning, at 1 s */

/* An engine that the test drives, on a clock that it holds. */
struct driven {
    lw_clock *clock;
    lw_engine *engine;
};

static struct driven open_driven(const lw_allocator *allocator) {
    struct driven d = {.clock = open_clock()};
    d.engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = d.clock, .allocator = allocator);
    return d;
}

static void close_driven(struct driven *d) {
    close_engine(d->engine);
    lw_test_clock_close(d->clock);
}

static lw_snapshot get(lw_engine *engine, lw_id id) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &snapshot), LW_OK);
    return snapshot;
}

static void assert_bytes(lw_bytes bytes, const char *text) {
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

static void assert_empty(const lw_snapshot *snapshot) {
    static const lw_snapshot empty = LW_SNAPSHOT_INIT;
    assert_memory_equal(snapshot, &empty, sizeof empty);
}

/* ---- what they show ------------------------------------------------------------------------ */

TEST(a_new_task_is_shown_as_it_was_submitted) {
    struct driven d = open_driven(NULL);
    lw_id id = SUBMIT(d.engine, .kind = "mail", .queue = "slow", .key = "ann", .priority = 7,
                      .payload = LW_TEXT("ann@example.org"));
    lw_snapshot s = get(d.engine, id);
    assert_int_equal(s.id, id);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_string_equal(s.kind, "mail");
    assert_string_equal(s.queue, "slow");
    assert_string_equal(s.key, "ann");
    assert_bytes(s.payload, "ann@example.org");
    assert_int_equal(s.priority, 7);
    assert_int_equal(s.attempts + s.crashes + s.snoozes + s.token, 0);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(an_ordinary_task_has_texts_that_are_empty_and_bytes_that_are_none) {
    struct driven d = open_driven(NULL);
    lw_snapshot s = get(d.engine, SUBMIT(d.engine, .kind = "mail"));
    assert_string_equal(s.queue, "default");
    assert_null(s.key);
    assert_int_equal(s.priority, 1000);
    assert_string_equal(s.progress.text, "");
    assert_string_equal(s.last_error, "");
    assert_null(s.payload.data);
    assert_null(s.partial.data);
    assert_null(s.result.data);
    assert_int_equal(s.payload.size + s.partial.size + s.result.size + s.error_count, 0);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(a_wall_clock_that_was_set_shows_in_the_next_look) {
    struct driven d = open_driven(NULL);
    lw_id id = SUBMIT(d.engine, .kind = "mail");
    lw_snapshot before = get(d.engine, id);
    assert_int_equal(before.created_ms, WALL);
    assert_status(lw_test_clock_set_wall(d.clock, WALL + 1000000), LW_OK);
    lw_snapshot after = get(d.engine, id);
    assert_int_equal(after.created_ms, WALL + 1000000);
    lw_snapshot_clear(&before);
    lw_snapshot_clear(&after);
    close_driven(&d);
}

TEST(times_are_wall_times_of_what_has_happened) {
    struct driven d = open_driven(NULL);
    handle(d.engine, "mail", do_done, NULL);
    start(d.engine);
    assert_status(lw_test_advance(d.engine, 500), 0);
    lw_id id = SUBMIT(d.engine, .kind = "mail", .delay_ms = 1000);
    lw_snapshot s = get(d.engine, id);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_int_equal(s.created_ms, WALL + 500);
    assert_int_equal(s.due_ms, WALL + 1500);
    assert_int_equal(s.enqueued_ms + s.started_ms + s.ended_ms, 0);
    assert_int_equal(s.enqueued_ns + s.started_ns + s.ended_ns, 0);

    assert_int_equal(lw_test_advance(d.engine, 5000), 1);
    assert_status(lw_get(d.engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.created_ms, WALL + 500);
    assert_int_equal(s.enqueued_ms, WALL + 1500);
    assert_int_equal(s.started_ms, WALL + 1500);
    assert_int_equal(s.ended_ms, WALL + 1500);
    assert_int_equal(s.due_ms, 0);
    assert_int_equal(s.ended_ns - s.created_ns, 1000000000);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

/* Looks at itself while it runs. */
static lw_outcome look_at_oneself(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    assert_status(lw_progress(ctx, 3, 10, "three of ten"), LW_OK);
    assert_status(lw_partial(ctx, LW_TEXT("so far")), LW_OK);
    lw_snapshot s = get(engine, task->id);
    assert_int_equal(s.state, LW_STARTED);
    assert_int_equal(s.attempts, 1);
    assert_int_equal(s.token, task->token);
    assert_int_equal(s.progress.done, 3);
    assert_int_equal(s.progress.total, 10);
    assert_string_equal(s.progress.text, "three of ten");
    assert_bytes(s.partial, "so far");
    assert_null(s.result.data);
    assert_false(s.is_cancelling);
    assert_status(lw_cancel(engine, task->id), LW_PENDING);
    assert_status(lw_get(engine, task->id, &s), LW_OK);
    assert_true(s.is_cancelling);
    assert_false(s.is_stuck);
    lw_snapshot_clear(&s);
    return lw_done_with(ctx, LW_TEXT("all"));
}

TEST(a_running_task_shows_how_far_it_is_and_a_finished_one_its_result) {
    struct driven d = open_driven(NULL);
    handle(d.engine, "look", look_at_oneself, LW_HANDLER_OPTIONS(.user = d.engine));
    start(d.engine);
    lw_id id = SUBMIT(d.engine, .kind = "look");
    assert_int_equal(lw_test_run(d.engine), 1);
    lw_snapshot s = get(d.engine, id);
    assert_int_equal(s.state, LW_FINISHED);
    assert_bytes(s.result, "all");
    assert_bytes(s.partial, "so far");
    assert_int_equal(s.progress.done, 3);
    assert_false(s.is_cancelling);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

static lw_outcome give_nothing(lw_ctx *ctx, const lw_task *task) {
    return task->payload.size > 0 ? lw_done_with(ctx, LW_TEXT("")) : lw_done(ctx);
}

TEST(an_empty_result_is_not_the_same_as_none) {
    struct driven d = open_driven(NULL);
    handle(d.engine, "nothing", give_nothing, NULL);
    start(d.engine);
    lw_id given = SUBMIT(d.engine, .kind = "nothing", .payload = LW_TEXT("x"));
    lw_id none = SUBMIT(d.engine, .kind = "nothing");
    assert_int_equal(lw_test_run(d.engine), 2);
    lw_snapshot s = get(d.engine, given);
    assert_non_null(s.result.data);
    assert_int_equal(s.result.size, 0);
    assert_status(lw_get(d.engine, none, &s), LW_OK);
    assert_null(s.result.data);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(errors_are_in_order_and_the_first_is_kept_for_ever) {
    struct driven d = open_driven(NULL);
    handle(d.engine, "retry", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000,
                                        .max_ms = 1000,
                                        .jitter_percent = LW_ZERO,
                                        .attempts = 20}));
    start(d.engine);
    lw_id id = SUBMIT(d.engine, .kind = "retry");
    assert_int_equal(lw_test_advance(d.engine, 2500), 3);
    lw_snapshot s = get(d.engine, id);
    assert_int_equal(s.error_count, 3);
    assert_int_equal(s.errors_dropped, 0);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(s.errors[i].attempt, i + 1);
        assert_int_equal(s.errors[i].fault, LW_FAULT_ERROR);
        assert_int_equal(s.errors[i].at_ms, WALL + 1000 * i);
    }
    assert_string_equal(s.errors[0].text, "again 1");
    assert_string_equal(s.last_error, "again 3");

    assert_int_equal(lw_test_advance(d.engine, 60000), 17);
    assert_status(lw_get(d.engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FAILED);
    assert_int_equal(s.attempts, 20);
    assert_int_equal(s.error_count, LW_ERRORS_MAX);
    assert_int_equal(s.errors_dropped, 4);
    assert_string_equal(s.errors[0].text, "again 1");
    assert_string_equal(s.errors[1].text, "again 6");
    assert_string_equal(s.errors[15].text, "again 20");
    assert_string_equal(s.last_error, "again 20");
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(an_aborted_task_says_why) {
    struct driven d = open_driven(NULL);
    lw_id id = SUBMIT(d.engine, .kind = "mail");
    assert_status(lw_cancel(d.engine, id), LW_OK);
    lw_snapshot s = get(d.engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error, "cancelled");
    assert_int_equal(s.error_count, 1);
    assert_int_equal(s.errors[0].fault, 0);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(bytes_can_be_read_as_any_type) {
    struct driven d = open_driven(NULL);
    struct record {
        long double number;
    } record = {0.5L};
    lw_id id = SUBMIT(d.engine, .kind = "mail", .key = "odd", .payload = {&record, sizeof record});
    lw_snapshot s = get(d.engine, id);
    assert_int_equal((uintptr_t)s.payload.data % alignof(max_align_t), 0);
    assert_true(((const struct record *)s.payload.data)->number == 0.5L);
    lw_snapshot_clear(&s);
    close_driven(&d);
}

/* ---- memory -------------------------------------------------------------------------------- */

TEST(memory_is_used_again_and_grows_when_it_must) {
    struct driven d = open_driven(NULL);
    char big[5000];
    memset(big, 'x', sizeof big);
    lw_id small = SUBMIT(d.engine, .kind = "mail", .payload = LW_TEXT("small"));
    lw_id large = SUBMIT(d.engine, .kind = "mail", .payload = {big, sizeof big});
    lw_snapshot s = get(d.engine, small);
    void *first = s.memory;
    assert_status(lw_get(d.engine, small, &s), LW_OK);
    assert_ptr_equal(s.memory, first);
    assert_status(lw_get(d.engine, large, &s), LW_OK);
    assert_int_equal(s.payload.size, sizeof big);
    assert_memory_equal(s.payload.data, big, sizeof big);
    void *second = s.memory;
    assert_status(lw_get(d.engine, small, &s), LW_OK);
    assert_ptr_equal(s.memory, second);
    assert_bytes(s.payload, "small");
    lw_snapshot_clear(&s);
    close_driven(&d);
}

TEST(a_snapshot_outlives_its_task_and_its_engine) {
    struct driven d = open_driven(NULL);
    lw_id id = SUBMIT(d.engine, .kind = "mail", .key = "ann", .payload = LW_TEXT("body"));
    assert_status(lw_cancel(d.engine, id), LW_OK);
    lw_snapshot s = get(d.engine, id);
    assert_status(lw_forget(d.engine, id), LW_OK);
    close_driven(&d);
    assert_string_equal(s.kind, "mail");
    assert_string_equal(s.queue, "default");
    assert_string_equal(s.key, "ann");
    assert_string_equal(s.last_error, "cancelled");
    assert_bytes(s.payload, "body");
    lw_snapshot_clear(&s);
}

TEST(memory_of_another_engine_goes_back_to_where_it_came_from) {
    lw_test_memory *one = open_memory(), *two = open_memory();
    struct driven a = open_driven(lw_test_memory_allocator(one));
    struct driven b = open_driven(lw_test_memory_allocator(two));
    lw_id in_a = SUBMIT(a.engine, .kind = "mail"), in_b = SUBMIT(b.engine, .kind = "letter");
    lw_snapshot s = get(a.engine, in_a);
    assert_status(lw_get(b.engine, in_b, &s), LW_OK);
    assert_string_equal(s.kind, "letter");
    close_driven(&a);
    close_memory(one);
    assert_status(lw_get(b.engine, in_b, &s), LW_OK);
    lw_snapshot_clear(&s);
    close_driven(&b);
    close_memory(two);
}

TEST(clearing_makes_it_empty_and_may_be_done_twice) {
    struct driven d = open_driven(NULL);
    lw_snapshot s = get(d.engine, SUBMIT(d.engine, .kind = "mail"));
    lw_snapshot_clear(&s);
    assert_empty(&s);
    lw_snapshot_clear(&s);
    assert_empty(&s);
    lw_snapshot_clear(NULL);
    close_driven(&d);
}

/* ---- failures ------------------------------------------------------------------------------ */

TEST(a_task_that_is_not_there_leaves_the_snapshot_empty) {
    struct driven d = open_driven(NULL);
    lw_id id = SUBMIT(d.engine, .kind = "mail");
    const lw_id unknown[] = {0, id + 1, id + 1000, UINT64_C(1) << 53, UINT64_MAX};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        lw_snapshot s = get(d.engine, id);
        assert_status(lw_get(d.engine, unknown[i], &s), LW_ENOTFOUND);
        assert_empty(&s);
    }
    close_driven(&d);
}

TEST(nonsense_is_refused) {
    struct driven d = open_driven(NULL);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(NULL, 1, &s), LW_EINVAL);
    assert_status(lw_get(d.engine, 1, NULL), LW_EINVAL);
    close_driven(&d);
}

TEST(without_memory_a_look_says_so_and_the_next_one_works) {
    for (uint64_t nth = 1;; nth++) {
        lw_test_memory *memory = open_memory();
        struct driven d = open_driven(lw_test_memory_allocator(memory));
        lw_id id = SUBMIT(d.engine, .kind = "mail", .payload = LW_TEXT("body"));
        lw_snapshot s = LW_SNAPSHOT_INIT;
        lw_test_memory_fail_at(memory, nth);
        int rc = lw_get(d.engine, id, &s);
        bool has_failed = lw_test_memory_has_failed(memory);
        assert_status(rc, has_failed ? LW_ENOMEM : LW_OK);
        if (has_failed)
            assert_empty(&s);
        lw_test_memory_fail_at(memory, 0);
        assert_status(lw_get(d.engine, id, &s), LW_OK);
        assert_bytes(s.payload, "body");
        lw_snapshot_clear(&s);
        close_driven(&d);
        close_memory(memory);
        if (!has_failed) {
            assert_int_equal(nth, 2); /* a snapshot takes one block */
            return;
        }
    }
}
