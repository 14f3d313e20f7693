/* What a durable store has to bring back when it is opened again. The model (store_model.c) closes
 * and opens in the middle of everything; here stands what it does not look at. On the other stores
 * these tests are over before they begin. */
#include "stores.h"

#include <string.h>

#define DURABLE_TEST(name)                  \
    static void name##_if(struct rig *rig); \
    STORE_TEST(name) {                      \
        if (is_durable(rig))                \
            name##_if(rig);                 \
    }                                       \
    static void name##_if(struct rig *rig)

static void sweep(struct rig *rig) {
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now) {
    }
}

/* ---- one task ----------------------------------------------------------------------------- */

DURABLE_TEST(a_task_comes_back_as_it_was_put) {
    uint64_t due = rig->now + UINT64_C(5000) * MS, id;
    id = PUT(rig, .key = "a", .priority = 7, .due = due, .start_by = due + MS,
             .finish_by = due + 2 * MS, .payload_size = 100)
             ->id;
    uint64_t created = find(rig, id)->created_at;
    pass(rig, 10);
    reopen_rig(rig);
    const struct lw__task *task = find(rig, id);
    assert_state(task, LW_SCHEDULED);
    assert_int_equal(task->created_at, created);
    assert_int_equal(lw__see(&task->due_at), due);
    assert_int_equal(task->priority, 7);
    assert_int_equal(lw__task_spec(task)->start_by, due + MS);
    assert_int_equal(lw__task_spec(task)->finish_by, due + 2 * MS);
    assert_int_equal(lw__task_spec(task)->payload_size, 100);
    assert_string_equal(lw__spec_key(lw__task_spec(task)), "a");
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    pass(rig, 5003);
    sweep(rig);
    assert_state(find(rig, id), LW_ABORTED); /* too late */
    assert_empty(rig);
}

DURABLE_TEST(a_wall_time_holds_although_the_clock_is_set_while_it_is_closed) {
    int64_t wall = lw__wall_ms(rig->clock);
    uint64_t at = PUT(rig, .run_at_ms = wall + 60000, .due = rig->now + 60000ull * MS)->id;
    lw_test_clock_set_wall(rig->clock, wall + 50000);
    reopen_rig(rig);
    assert_int_equal(lw__see(&find(rig, at)->due_at), rig->now + 10000ull * MS);
    pass(rig, 10000);
    sweep(rig);
    assert_int_equal(run_next(rig), at);
}

DURABLE_TEST(a_back_off_is_not_taken_for_a_wall_time) {
    int64_t wall = lw__wall_ms(rig->clock);
    struct lw__task *task = PUT(rig, .run_at_ms = wall);
    uint64_t id = task->id, due = rig->now + 700 * MS;
    SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_POSTPONE, .due = due);
    reopen_rig(rig);
    assert_state(find(rig, id), LW_SCHEDULED);
    assert_int_equal(lw__see(&find(rig, id)->due_at), due);
}

/* Ten days back, while it is closed. */
static void set_back(struct rig *rig) {
    lw_test_clock_set_wall(rig->clock, lw__wall_ms(rig->clock) - INT64_C(864000000));
    reopen_rig(rig);
}

DURABLE_TEST(a_delay_or_back_off_does_not_grow_when_the_clock_is_set_back) {
    uint64_t delayed = PUT(rig, .due = rig->now + 5000ull * MS)->id;
    struct lw__task *task = PUT(rig, 0);
    uint64_t retried = task->id;
    struct attempt attempt = start_this(rig, task);
    pass(rig, 3000); /* it takes long, and then waits for a moment */
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + 700 * MS,
           .fault = LW_FAULT_ERROR, .text = "no");
    pass(rig, 100);
    set_back(rig);
    assert_int_equal(lw__see(&find(rig, retried)->due_at), rig->now + 700 * MS);
    assert_true(lw__see(&find(rig, delayed)->due_at) <= rig->now + 5000ull * MS);
    pass(rig, 5000);
    sweep(rig);
    assert_state(find(rig, delayed), LW_ENQUEUED);
    assert_state(find(rig, retried), LW_ENQUEUED);
}

DURABLE_TEST(a_wall_time_is_one_when_the_clock_is_set_back) {
    int64_t wall = lw__wall_ms(rig->clock);
    uint64_t at = PUT(rig, .run_at_ms = wall + 60000, .due = rig->now + 60000ull * MS)->id;
    set_back(rig);
    assert_int_equal(lw__see(&find(rig, at)->due_at), rig->now + UINT64_C(864060000) * MS);
}

DURABLE_TEST(attempts_errors_and_what_was_published_come_back) {
    struct lw__publication said = {.has_progress = true,
                                   .done = 3,
                                   .total = 9,
                                   .text = "page \"3\"\n",
                                   .has_partial = true,
                                   .partial = LW_TEXT("half")};
    struct lw__task *task = PUT(rig, 0);
    uint64_t id = task->id;
    struct attempt attempt = start_this(rig, task);
    assert_status(rig->ops->publish(rig->store, task, attempt.token, &said), LW_OK);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + MS,
           .fault = LW_FAULT_CRASH, .text = "a \"quoted\"\ttext");
    reopen_rig(rig);
    task = find(rig, id);
    const struct lw__output *output = lw__see(&task->output);
    assert_int_equal(lw__see(&task->attempts), 1);
    assert_int_equal(lw__see(&task->crashes), 1);
    assert_string_equal(last_error(task), "a \"quoted\"\ttext");
    CHECK(output && output->done == 3 && output->total == 9);
    assert_string_equal(output->bytes, "page \"3\"\n");
    assert_int_equal(output->partial_size, 4);
    assert_memory_equal(output->bytes + output->text_size + 1, "half", 4);
}

DURABLE_TEST(a_result_comes_back_even_if_it_is_nothing) {
    static const char *const results[] = {"42", ""};
    for (int i = 0; i < 2; i++) {
        struct lw__task *task = PUT(rig, 0);
        uint64_t id = task->id;
        SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FINISH, .has_result = true,
               .result = {results[i], strlen(results[i])});
        uint64_t ended = lw__see(&task->due_at);
        pass(rig, 3);
        reopen_rig(rig);
        assert_state(find(rig, id), LW_FINISHED);
        assert_int_equal(lw__see(&find(rig, id)->due_at), ended);
        const struct lw__output *output = lw__see(&find(rig, id)->output);
        CHECK(output && output->has_result && output->result_size == strlen(results[i]));
    }
}

DURABLE_TEST(what_was_brought_forward_or_retried_by_hand_stays_so) {
    uint64_t soon = PUT(rig, .due = rig->now + 1000 * MS)->id;
    struct lw__task *failed = PUT(rig, .finish_by = rig->now + 50 * MS);
    uint64_t again = failed->id;
    SETTLE(rig, start_this(rig, failed), .verdict = LW__VERDICT_FAIL, .text = "no");
    assert_status(change(rig, soon, LW__CHANGE_EXPEDITE), LW_OK);
    assert_status(change(rig, again, LW__CHANGE_RETRY), LW_OK);
    reopen_rig(rig);
    assert_state(find(rig, soon), LW_ENQUEUED);
    assert_state(find(rig, again), LW_ENQUEUED);
    assert_int_equal(lw__see(&find(rig, again)->attempts), 0);
    assert_string_equal(last_error(find(rig, again)), "no");
    pass(rig, 100); /* the limit went with the retry */
    sweep(rig);
    CHECK(run_next(rig) && run_next(rig));
    assert_state(find(rig, again), LW_FINISHED);
}

/* ---- several tasks ------------------------------------------------------------------------ */

DURABLE_TEST(the_order_comes_back) {
    uint64_t ids[5];
    ids[3] = PUT(rig, .priority = 5)->id;
    ids[0] = PUT(rig, .priority = 1)->id;
    pass(rig, 1);
    ids[4] = PUT(rig, .priority = 5)->id;
    ids[1] = PUT(rig, .priority = 1)->id;
    ids[2] = PUT(rig, .priority = 2)->id;
    reopen_rig(rig);
    for (int i = 0; i < 5; i++)
        assert_int_equal(run_next(rig), ids[i]);
}

DURABLE_TEST(no_id_and_no_token_is_given_twice) {
    struct lw__task *task = PUT(rig, 0);
    uint64_t id = task->id;
    struct attempt attempt = start_this(rig, task); /* nothing is written of that */
    SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    reopen_rig(rig);
    struct lw__task *next = PUT(rig, 0);
    CHECK(next->id > id);
    CHECK(start_this(rig, next).token > attempt.token);
}

DURABLE_TEST(what_waits_for_others_still_does) {
    uint64_t first = PUT(rig, 0)->id, second = PUT(rig, .due = rig->now + 1000 * MS)->id;
    uint64_t both = PUT(rig, .after = {first, second})->id;
    uint64_t anyway = PUT(rig, .after = {second}, .after_policy = LW_AFTER_RUN)->id;
    reopen_rig(rig);
    assert_state(find(rig, both), LW_CREATED);
    assert_int_equal(run_next(rig), first);
    reopen_rig(rig);
    assert_state(find(rig, both), LW_CREATED);
    assert_status(change(rig, second, LW__CHANGE_CANCEL), LW_OK);
    assert_state(find(rig, both), LW_ABORTED);
    assert_state(find(rig, anyway), LW_ENQUEUED);
    reopen_rig(rig);
    assert_state(find(rig, both), LW_ABORTED);
    assert_int_equal(run_next(rig), anyway);
    assert_empty(rig);
}

DURABLE_TEST(the_reserve_stays_in_use) {
    struct lw__store_figures figures;
    PUT(rig, .is_inside = true);
    rig->store->index->options.task_limit = rig->options.task_limit = 1;
    rig->store->index->options.reserve = rig->options.reserve = 1;
    PUT(rig, .is_inside = true);
    reopen_rig(rig);
    lw__index_figures(rig->store->index, &figures);
    assert_int_equal(figures.unfinished, 2);
    assert_int_equal(figures.reserve_used, 1);
    assert_status(TRY_PUT(rig, .is_inside = true), LW_EFULL);
}

/* ---- keys and retention ------------------------------------------------------------------- */

DURABLE_TEST(keys_of_ended_tasks_keep_others_out_as_long_as_they_did) {
    uint64_t window = rig->now + 1000 * MS;
    PUT(rig, .key = "unfinished");
    PUT(rig, .key = "retained", .key_scope = LW_KEY_RETAINED);
    PUT(rig, .key = "window", .key_scope = LW_KEY_WINDOW, .key_until = window);
    while (run_next(rig)) {
    }
    reopen_rig(rig);
    PUT(rig, .key = "unfinished");
    assert_status(TRY_PUT(rig, .key = "retained"), LW_EXISTS);
    assert_status(TRY_PUT(rig, .key = "window"), LW_EXISTS);
    pass(rig, 1001);
    PUT(rig, .key = "window");
}

/* The older one was retried, and so it has the key. */
DURABLE_TEST(the_key_is_with_the_one_that_had_it_last) {
    struct lw__task *old = PUT(rig, .key = "a", .key_scope = LW_KEY_RETAINED);
    uint64_t id = old->id;
    SETTLE(rig, start_this(rig, old), .verdict = LW__VERDICT_FAIL);
    assert_status(change(rig, id, LW__CHANGE_RETRY), LW_OK);
    assert_status(change(rig, id, LW__CHANGE_CANCEL), LW_OK);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    reopen_rig(rig);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    reopen_rig(rig);
    PUT(rig, .key = "a");
}

DURABLE_TEST(what_is_retained_leaves_as_its_kind_says_then) {
    uint64_t ids[4];
    for (int i = 0; i < 4; i++)
        ids[i] = PUT(rig, 0)->id;
    struct attempt attempts[4];
    for (int i = 0; i < 4; i++)
        attempts[i] = start_one(rig);
    for (int i = 3; i >= 0; i--) { /* the last one ends first */
        finish(rig, attempts[i]);
        pass(rig, 10);
    }
    reopen_rig(rig);
    set_retention(rig, rig->kind, UINT64_MAX, 3);
    assert_null(find(rig, ids[3]));
    set_retention(rig, rig->kind, 15 * MS, UINT64_MAX);
    CHECK(find(rig, ids[0]) && !find(rig, ids[1]) && !find(rig, ids[2]));
    pass(rig, 10);
    sweep(rig);
    assert_null(find(rig, ids[0]));
    reopen_rig(rig);
    for (int i = 0; i < 4; i++)
        assert_null(find(rig, ids[i]));
}

/* ---- scopes ------------------------------------------------------------------------------- */

DURABLE_TEST(a_scope_comes_back_with_its_bytes_generation_and_tasks) {
    struct lw__scope_copy scope = {.bytes = NULL}, again = {.bytes = NULL};
    struct lw__put first = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("one"), &first, 1, &scope), LW_OK);
    struct lw__put next = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    struct lw__scope_change move = {
        .action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = LW_TEXT("moved")};
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &move, &next, 1),
                  LW_OK);
    reopen_rig(rig);
    char bytes[16];
    again = (struct lw__scope_copy){.bytes = bytes, .capacity = sizeof bytes};
    assert_status(rig->ops->scope_find(rig->store, "s", &again), LW_OK);
    assert_int_equal(again.id, scope.id);
    assert_int_equal(again.generation, move.new_generation);
    assert_int_equal(again.version, move.new_version);
    assert_int_equal(again.task_count, 1);
    assert_int_equal(again.size, 5);
    assert_memory_equal(bytes, "moved", 5);
    assert_state(find(rig, first.id), LW_ABORTED);
    assert_int_equal(lw__task_spec(find(rig, next.id))->member->generation, move.new_generation);
    assert_int_equal(run_next(rig), next.id);
    assert_status(
        rig->ops->scope_change(rig->store, rig->now, scope.id, scope.generation, &move, NULL, 0),
        LW_ELEASE);
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &move, NULL, 0), LW_OK);
    CHECK(move.new_generation > again.generation);
}

DURABLE_TEST(a_closed_scope_does_not_come_back_and_its_id_neither) {
    struct lw__scope_copy scope = {.bytes = NULL}, other = {.bytes = NULL};
    struct lw__scope_change close = {.action = LW__SCOPE_CLOSE};
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT(""), NULL, 0, &scope),
                  LW_OK);
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &close, NULL, 0),
                  LW_OK);
    reopen_rig(rig);
    assert_status(rig->ops->scope_find(rig->store, "s", &other), LW_ENOTFOUND);
    assert_int_equal(rig->store->index->scopes.count, 0);
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT(""), NULL, 0, &other),
                  LW_OK);
    CHECK(other.id > scope.id && other.generation > close.new_generation);
}

DURABLE_TEST(that_an_attempt_of_a_scope_was_lost_is_not_forgotten) {
    struct lw__scope_copy scope = {.bytes = NULL};
    struct lw__put first = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT(""), &first, 1, &scope),
                  LW_OK);
    SETTLE(rig, start_one(rig), .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_CRASH, .text = "");
    reopen_rig(rig);
    struct lw__put next = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    struct lw__scope_change move = {.action = LW__SCOPE_MOVE};
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &move, &next, 1),
                  LW_OK);
    CHECK(lw__task_spec(next.task)->member->is_unclean);
    uint64_t id = next.id;
    reopen_rig(rig);
    CHECK(lw__task_spec(find(rig, id))->member->is_unclean);
}
