/* Settling: each verdict and what follows from it; stale tokens; successors; what attempts
 * publish; and being told. */
#include "stores.h"

#include <stdio.h>
#include <string.h>

/* ---- verdicts ----------------------------------------------------------------------------- */

STORE_TEST(finished_with_its_result_and_its_time) {
    struct lw__task *task = PUT(rig, .key = "a", .payload_size = 4);
    struct attempt attempt = start_this(rig, task);
    pass(rig, 7);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .has_result = true,
                         .result = LW_TEXT("42")),
                  LW_OK);
    assert_state(task, LW_FINISHED);
    assert_int_equal(lw__see(&task->due_at), rig->now);
    const struct lw__output *output = lw__see(&task->output);
    CHECK(output && output->has_result && output->result_size == 2);
    assert_empty(rig);
}

STORE_TEST(postponed_until_its_time_and_counted) {
    struct lw__task *task = PUT(rig, 0);
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_POSTPONE,
                         .due = rig->now + 5 * MS, .fault = LW_FAULT_ERROR, .text = "no luck"),
                  LW_OK);
    assert_state(task, LW_SCHEDULED);
    assert_int_equal(lw__see(&task->attempts), 1);
    assert_int_equal(lw__see(&task->crashes), 0);
    assert_string_equal(last_error(task), "no luck");
    assert_null(claim_one(rig).task);
    pass(rig, 5);
    rig->ops->sweep(rig->store, rig->now);
    assert_int_equal(run_next(rig), task->id);
    assert_int_equal(lw__see(&task->attempts), 2);
}

STORE_TEST(a_snooze_is_not_counted_and_one_for_no_time_is_enqueued_at_once) {
    struct lw__task *task = PUT(rig, 0);
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_POSTPONE,
                         .due = rig->now, .is_uncounted = true, .is_snooze = true),
                  LW_OK);
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lw__see(&task->attempts), 0);
    assert_int_equal(lw__see(&task->snoozes), 1);
}

STORE_TEST(given_back_it_stands_where_it_was) {
    struct lw__task *first = PUT(rig, 0), *second = PUT(rig, 0);
    assert_status(
        SETTLE(rig, start_this(rig, first), .verdict = LW__VERDICT_GIVE_BACK, .is_uncounted = true),
        LW_OK);
    assert_state(first, LW_ENQUEUED);
    assert_int_equal(lw__see(&first->attempts), 0);
    assert_int_equal(run_next(rig), first->id);
    assert_int_equal(run_next(rig), second->id);
}

STORE_TEST(failed_or_aborted_with_its_last_words) {
    struct lw__task *a = PUT(rig, 0), *b = PUT(rig, 0);
    assert_status(SETTLE(rig, start_this(rig, a), .verdict = LW__VERDICT_FAIL,
                         .fault = LW_FAULT_ERROR, .text = "never"),
                  LW_OK);
    assert_status(SETTLE(rig, start_this(rig, b), .verdict = LW__VERDICT_ABORT,
                         .fault = LW_FAULT_CRASH, .text = "not any more"),
                  LW_OK);
    assert_state(a, LW_FAILED);
    assert_state(b, LW_ABORTED);
    assert_string_equal(last_error(a), "never");
    assert_string_equal(last_error(b), "not any more");
    assert_int_equal(lw__see(&b->crashes), 1);
    assert_empty(rig);
}

STORE_TEST(of_many_errors_the_first_and_the_last_are_kept) {
    struct lw__task *task = PUT(rig, 0);
    char text[32];
    for (int i = 0; i < 3 * LW_ERRORS_MAX; i++) {
        snprintf(text, sizeof text, "error %d", i);
        assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_GIVE_BACK,
                             .fault = LW_FAULT_ERROR, .text = text),
                      LW_OK);
    }
    const struct lw__errors *errors = lw__see(&task->errors);
    assert_int_equal(errors->count, LW_ERRORS_MAX);
    assert_int_equal(errors->dropped, 2 * LW_ERRORS_MAX);
    assert_string_equal((const char *)errors + errors->entries[0].text_at, "error 0");
    assert_string_equal(last_error(task), text);
}

STORE_TEST(many_are_settled_at_once_each_by_itself) {
    enum { MANY = 10 };
    struct lw__settlement all[MANY];
    for (int i = 0; i < MANY; i++)
        PUT(rig, .key = (char[]){(char)('a' + i), 0});
    for (int i = 0; i < MANY; i++) {
        struct attempt attempt = start_one(rig);
        all[i] = (struct lw__settlement){.task = attempt.task,
                                         .token = attempt.token + (i == 3 ? 1000 : 0),
                                         .verdict = LW__VERDICT_FINISH};
    }
    rig->ops->settle(rig->store, rig->now, all, MANY);
    for (int i = 0; i < MANY; i++) {
        assert_status(all[i].status, i == 3 ? LW_ELEASE : LW_OK);
        assert_state(all[i].task, i == 3 ? LW_STARTED : LW_FINISHED);
    }
}

/* ---- stale tokens ------------------------------------------------------------------------- */

static void view(const struct lw__task *task, struct lw__task_view *out) {
    memset(out, 0, sizeof *out); /* the gaps between its fields, too */
    lw__task_view(task, out);
}

static void assert_untouched(const struct lw__task *task, const struct lw__task_view *before) {
    struct lw__task_view now;
    view(task, &now);
    assert_memory_equal(&now, before, sizeof now);
}

STORE_TEST(nothing_of_a_stale_attempt_is_applied) {
    struct lw__task *task = PUT(rig, .key = "a");
    struct attempt stale = start_this(rig, task);
    SETTLE(rig, stale, .verdict = LW__VERDICT_GIVE_BACK);
    struct attempt present = start_this(rig, task);
    struct lw__task_view before;
    view(task, &before);
    for (int verdict = LW__VERDICT_FINISH; verdict <= LW__VERDICT_ABORT; verdict++) {
        struct lw__put next = make_put(rig, WISH(.payload_size = 1));
        assert_status(SETTLE(rig, stale, .verdict = (enum lw__verdict)verdict, .due = rig->now + MS,
                             .has_result = true, .result = LW_TEXT("x"), .fault = LW_FAULT_CRASH,
                             .text = "lies", .successors = &next, .successor_count = 1),
                      LW_ELEASE);
        assert_untouched(task, &before);
        drop_put(rig, &next);
    }
    struct lw__publication publication = {.has_progress = true, .done = 1, .text = "lies"};
    assert_status(rig->ops->publish(rig->store, task, stale.token, &publication), LW_ELEASE);
    assert_untouched(task, &before);
    assert_null(claim_one(rig).task);
    finish(rig, present);
    assert_status(SETTLE(rig, present, .verdict = LW__VERDICT_FAIL), LW_ELEASE); /* only once */
    assert_state(task, LW_FINISHED);
    assert_empty(rig);
}

/* ---- successors --------------------------------------------------------------------------- */

STORE_TEST(successors_come_with_the_outcome) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt attempt = start_this(rig, task);
    struct lw__put next[] = {make_put(rig, WISH(.key = "a")),
                             make_put(rig, WISH(.after = {task->id})),
                             make_put(rig, WISH(.due = rig->now + MS))};
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = next,
                         .successor_count = 3),
                  LW_OK);
    assert_state(next[0].task, LW_ENQUEUED);
    assert_state(next[1].task, LW_ENQUEUED); /* it came after the very task */
    assert_state(next[2].task, LW_SCHEDULED);
}

STORE_TEST_WITH(an_outcome_whose_successors_do_not_fit_is_not_applied, .task_limit = 1,
                .reserve = 1) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt attempt = start_this(rig, task);
    struct lw__put next[] = {make_put(rig, WISH(.is_inside = true)),
                             make_put(rig, WISH(.is_inside = true))};
    struct lw__task_view before;
    view(task, &before);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .has_result = true,
                         .result = LW_TEXT("x"), .successors = next, .successor_count = 2),
                  LW_EFULL);
    assert_untouched(task, &before);
    assert_null(claim_one(rig).task);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = next,
                         .successor_count = 1),
                  LW_OK);
    assert_int_equal(run_next(rig), next[0].id);
    assert_empty(rig);
}

STORE_TEST(a_successor_whose_key_is_taken_is_there_already) {
    struct lw__task *other = PUT(rig, .key = "a", .due = rig->now + MS), *task = PUT(rig, 0);
    struct lw__put next = make_put(rig, WISH(.key = "a"));
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FINISH,
                         .successors = &next, .successor_count = 1),
                  LW_OK);
    assert_status(next.status, LW_EXISTS);
    assert_int_equal(next.id, other->id);
    drop_put(rig, &next);
}

/* A task and a successor of its own kind and key, settled. */
static struct lw__put settle_with_own_key(struct rig *rig, struct lw__task *task,
                                          enum lw__verdict verdict) {
    struct lw__put next = make_put(rig, WISH(.key = "a"));
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = verdict, .successors = &next,
                         .successor_count = 1),
                  LW_OK);
    return next;
}

STORE_TEST(a_successor_takes_the_key_that_its_task_leaves) {
    uint64_t id = PUT(rig, .key = "a")->id;
    struct lw__put next = settle_with_own_key(rig, find(rig, id), LW__VERDICT_FINISH);
    assert_status(next.status, LW_OK);
    CHECK(next.id != id);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    if (is_durable(rig))
        reopen_rig(rig);
    assert_state(find(rig, id), LW_FINISHED);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK); /* the key stays its successor's */
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_int_equal(run_next(rig), next.id);
    assert_status(TRY_PUT(rig, .key = "a"), LW_OK);
}

STORE_TEST(a_task_that_goes_on_keeps_its_key_from_its_successors) {
    struct lw__task *task = PUT(rig, .key = "a");
    struct lw__put next = settle_with_own_key(rig, task, LW__VERDICT_GIVE_BACK);
    assert_status(next.status, LW_EXISTS);
    assert_int_equal(next.id, task->id);
    drop_put(rig, &next);
}

STORE_TEST(a_key_that_lasts_beyond_the_end_is_not_left_to_a_successor) {
    const struct wish wishes[] = {
        {.key = "a", .key_scope = LW_KEY_RETAINED},
        {.key = "a", .key_scope = LW_KEY_WINDOW, .key_until = rig->now + 1000 * MS}};
    for (int i = 0; i < 2; i++) {
        uint64_t id = put(rig, &wishes[i])->id;
        struct lw__put next = settle_with_own_key(rig, find(rig, id), LW__VERDICT_FINISH);
        assert_status(next.status, LW_EXISTS);
        assert_int_equal(next.id, id);
        drop_put(rig, &next);
        assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    }
}

STORE_TEST(of_several_successors_with_the_key_of_their_task_the_first_stands_for_all) {
    struct lw__task *task = PUT(rig, .key = "a");
    struct lw__put next[3];
    for (int i = 0; i < 3; i++)
        next[i] = make_put(rig, WISH(.key = "a"));
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FINISH,
                         .successors = next, .successor_count = 3),
                  LW_OK);
    assert_status(next[0].status, LW_OK);
    for (int i = 1; i < 3; i++) {
        assert_status(next[i].status, LW_EXISTS);
        assert_int_equal(next[i].id, next[0].id);
        drop_put(rig, &next[i]);
    }
    assert_int_equal(run_next(rig), next[0].id);
    assert_empty(rig);
}

STORE_TEST_WITH(a_task_whose_successors_do_not_fit_has_its_key_again, .task_limit = 1,
                .reserve = 1) {
    struct lw__task *task = PUT(rig, .key = "a");
    struct attempt attempt = start_this(rig, task);
    struct lw__put next[2] = {make_put(rig, WISH(.key = "a", .is_inside = true)),
                              make_put(rig, WISH(.is_inside = true))};
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = next,
                         .successor_count = 2),
                  LW_EFULL);
    drop_put(rig, &next[0]);
    drop_put(rig, &next[1]);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    finish(rig, attempt);
    assert_status(TRY_PUT(rig, .key = "a"), LW_OK);
}

/* ---- publish ------------------------------------------------------------------------------ */

STORE_TEST(progress_and_partial_results_stand_beside_each_other) {
    struct attempt attempt = {PUT(rig, 0), 0};
    attempt = start_one(rig);
    struct lw__publication progress = {.has_progress = true, .done = 1, .total = 9, .text = "one"};
    struct lw__publication partial = {.has_partial = true, .partial = LW_TEXT("half")};
    assert_status(rig->ops->publish(rig->store, attempt.task, attempt.token, &progress), LW_OK);
    assert_status(rig->ops->publish(rig->store, attempt.task, attempt.token, &partial), LW_OK);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .has_result = true,
                         .result = LW_TEXT("all")),
                  LW_OK);
    const struct lw__output *output = lw__see(&attempt.task->output);
    assert_int_equal(output->done, 1);
    assert_int_equal(output->total, 9);
    assert_string_equal(output->bytes, "one");
    assert_memory_equal(output->bytes + 4, "half", 4);
    assert_memory_equal(output->bytes + 8, "all", 3);
}

/* ---- being told --------------------------------------------------------------------------- */

STORE_TEST(who_asked_to_be_told_is_told_once_and_the_task_stays_until_then) {
    struct lw__task *task = PUT(rig, .is_told = true);
    assert_null(rig->ops->next_told(rig->store));
    uint64_t wakes = rig->wakes;
    finish(rig, start_this(rig, task));
    CHECK(rig->wakes > wakes);
    assert_status(change(rig, task->id, LW__CHANGE_FORGET), LW_PENDING);
    CHECK(rig->ops->next_told(rig->store) == task);
    assert_null(rig->ops->next_told(rig->store));
    assert_status(change(rig, task->id, LW__CHANGE_FORGET), LW_PENDING);
    rig->ops->told(rig->store, rig->now, task);
    assert_status(change(rig, task->id, LW__CHANGE_FORGET), LW_OK);
}

STORE_TEST_WITH(failures_and_aborts_are_told_if_asked_for, .tells_failed = true) {
    struct lw__task *task = PUT(rig, 0), *aborted = PUT(rig, 0);
    SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FAIL);
    assert_status(change(rig, aborted->id, LW__CHANGE_CANCEL), LW_OK);
    CHECK(rig->ops->next_told(rig->store) == task);
    assert_null(rig->ops->next_told(rig->store)); /* not the aborted one */
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_PENDING);
    rig->ops->told(rig->store, rig->now, task);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_OK);
}

STORE_TEST_WITH(aborts_are_told_if_asked_for, .tells_aborted = true) {
    struct lw__task *task = PUT(rig, 0);
    assert_status(change(rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    CHECK(rig->ops->next_told(rig->store) == task);
    rig->ops->told(rig->store, rig->now, task);
}

STORE_TEST(an_argument_that_was_not_spent_has_to_be_handed_back) {
    struct lw__task *spent = PUT(rig, .is_call = true), *back = PUT(rig, .is_call = true);
    PUT(rig, .is_call = true, .due = rig->now + MS); /* still there at the end */
    finish(rig, start_this(rig, spent));
    assert_null(rig->ops->next_told(rig->store));
    assert_status(change(rig, back->id, LW__CHANGE_CANCEL), LW_OK);
    CHECK(rig->ops->next_told(rig->store) == back);
    assert_int_equal(drops, 0); /* that is up to the teller */
    rig->ops->told(rig->store, rig->now, back);
}

/* ---- waiting ------------------------------------------------------------------------------ */

STORE_TEST(who_waits_is_woken_when_the_task_has_ended_and_not_before) {
    struct lw__task *task = PUT(rig, 0), *other = PUT(rig, .due = rig->now + MS);
    struct lw__await first = {.id = task->id}, second = {.id = task->id}, third = {.id = other->id};
    struct lw__await left = {.id = task->id};
    assert_status(rig->ops->await(rig->store, &first), LW_OK);
    assert_status(rig->ops->await(rig->store, &second), LW_OK);
    assert_status(rig->ops->await(rig->store, &third), LW_OK);
    assert_status(rig->ops->await(rig->store, &left), LW_OK);
    rig->ops->unawait(rig->store, &left);
    struct attempt attempt = start_this(rig, task);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK);
    assert_int_equal(first.is_over, 0);
    finish(rig, start_this(rig, task));
    assert_int_equal(first.is_over, 1);
    assert_int_equal(second.is_over, 1);
    assert_int_equal(third.is_over, 0);
    assert_int_equal(left.is_over, 0);
    rig->ops->unawait(rig->store, &first);
    rig->ops->unawait(rig->store, &second);
    rig->ops->unawait(rig->store, &third);
    struct lw__await late = {.id = task->id}, nobody = {.id = 4711};
    assert_status(rig->ops->await(rig->store, &late), LW_PENDING);
    assert_status(rig->ops->await(rig->store, &nobody), LW_ENOTFOUND);
}

STORE_TEST(who_waits_still_finds_a_task_that_is_not_retained) {
    set_retention(rig, rig->kind, 0, 0);
    struct lw__task *task = PUT(rig, 0);
    uint64_t id = task->id;
    struct lw__await await = {.id = id};
    assert_status(rig->ops->await(rig->store, &await), LW_OK);
    finish(rig, start_this(rig, task));
    assert_int_equal(await.is_over, 1);
    assert_state(find(rig, id), LW_FINISHED);
    rig->ops->unawait(rig->store, &await);
    assert_null(find(rig, id));
}
