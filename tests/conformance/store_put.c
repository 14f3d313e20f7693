/* Accepting: all or none, and what stands in the way: keys, room, dependencies. */
#include "stores.h"

#include <stdio.h>
#include <string.h>

/* ---- order of life ------------------------------------------------------------------------ */

STORE_TEST(what_is_put_is_enqueued_with_its_times_and_an_id_that_rises) {
    struct lw__task *first = PUT(rig, .payload_size = 10), *second = PUT(rig, 0);
    assert_state(first, LW_ENQUEUED);
    CHECK(first->id > 0 && second->id > first->id);
    assert_int_equal(first->created_at, rig->now);
    assert_int_equal(lw__see(&first->enqueued_at), rig->now);
    assert_int_equal(lw__see(&first->attempts), 0);
    CHECK(rig->wakes > 0);
}

STORE_TEST(ids_are_never_used_again) {
    uint64_t id = PUT(rig, 0)->id;
    assert_int_equal(run_next(rig), id);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    assert_null(find(rig, id));
    CHECK(PUT(rig, 0)->id > id);
}

STORE_TEST(a_plain_put_is_as_good_as_a_put) {
    struct lw__put one = make_put(rig, WISH(.priority = 7));
    uint64_t id = 0;
    assert_status(rig->ops->put_plain(rig->store, rig->now, &one, &id), LW_OK);
    struct lw__task *task = find(rig, id);
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(task->priority, 7);
    assert_int_equal(lw__see(&task->due_at), rig->now);
    assert_int_equal(run_next(rig), id);
    assert_state(task, LW_FINISHED);
    assert_empty(rig);
}

STORE_TEST(a_task_that_is_not_due_is_scheduled_and_hastens_the_sweeper) {
    struct lw__task *task = PUT(rig, .due = rig->now + 50 * MS);
    assert_state(task, LW_SCHEDULED);
    CHECK(rig->hastened > rig->now && rig->hastened <= rig->now + 51 * MS);
    assert_null(claim_one(rig).task);
    assert_state(PUT(rig, .due = rig->now), LW_ENQUEUED);
}

/* ---- all or none -------------------------------------------------------------------------- */

static uint64_t count_tasks(struct rig *rig) {
    uint64_t count = 0;
    for (struct lw__task *task = lw__ids_find_from(&rig->store->index->ids, 1); task;
         task = lw__ids_find_from(&rig->store->index->ids, task->id + 1))
        count++;
    return count;
}

STORE_TEST(of_a_batch_with_one_bad_task_nothing_is_accepted) {
    struct lw__put puts[] = {make_put(rig, WISH(.key = "a", .payload_size = 3)),
                             make_put(rig, WISH(.due = rig->now + MS)),
                             make_put(rig, WISH(.finish_by = rig->now + MS)),
                             make_put(rig, WISH(.after = {4711}))};
    assert_status(rig->ops->put(rig->store, rig->now, puts, 4), LW_EINVAL);
    assert_status(puts[3].status, LW_EINVAL);
    assert_int_equal(count_tasks(rig), 0);
    assert_null(claim_one(rig).task);
    assert_int_equal(rig->move_count, 0);
    assert_empty(rig);
    for (size_t i = 0; i < COUNT_OF(puts); i++)
        drop_put(rig, &puts[i]);
    PUT(rig, .key = "a"); /* its key is free */
}

STORE_TEST(what_the_outs_of_a_put_were_before_does_not_matter) {
    struct lw__put puts[2] = {make_put(rig, WISH(.after = {99})),
                              make_put(rig, WISH(.priority = 1))};
    puts[1].task = (struct lw__task *)(void *)rig;
    puts[1].is_counted = puts[1].is_reserved = true;
    assert_status(rig->ops->put(rig->store, rig->now, puts, 2), LW_EINVAL);
    assert_empty(rig);
    drop_put(rig, &puts[0]);
}

STORE_TEST(a_batch_is_accepted_whole_and_in_order) {
    enum { MANY = 300 };
    struct lw__put puts[MANY];
    char key[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "k%d", i);
        puts[i] = make_put(rig, WISH(.key = key));
    }
    assert_status(rig->ops->put(rig->store, rig->now, puts, MANY), LW_OK);
    for (int i = 0; i < MANY; i++) {
        assert_status(puts[i].status, LW_OK);
        assert_int_equal(puts[i].id, puts[0].id + (uint64_t)i);
        assert_int_equal(run_next(rig), puts[i].id);
    }
}

STORE_TEST(a_batch_of_nothing_is_fine) {
    assert_status(rig->ops->put(rig->store, rig->now, NULL, 0), LW_OK);
}

/* ---- keys --------------------------------------------------------------------------------- */

STORE_TEST(a_key_is_taken_until_its_task_has_ended) {
    uint64_t id = 0;
    struct lw__task *task = PUT(rig, .key = "a");
    assert_status(try_put(rig, WISH(.key = "a"), &id), LW_EXISTS);
    assert_int_equal(id, task->id);
    struct attempt attempt = start_this(rig, task);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + MS),
                  LW_OK);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_status(change(rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    assert_status(TRY_PUT(rig, .key = "a"), LW_OK);
}

STORE_TEST(a_key_is_of_its_kind) {
    uint16_t other = add_kind(rig, "report", UINT32_MAX);
    PUT(rig, .key = "a");
    PUT(rig, .key = "a", .kind = other);
    PUT(rig, .key = "aa");
    PUT(rig, .key = "b");
}

STORE_TEST(a_key_for_as_long_as_its_task_is_retained) {
    struct lw__task *task = PUT(rig, .key = "a", .key_scope = LW_KEY_RETAINED);
    assert_int_equal(run_next(rig), task->id);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_status(change(rig, task->id, LW__CHANGE_FORGET), LW_OK);
    PUT(rig, .key = "a");
}

STORE_TEST(a_key_for_a_window_outlives_its_task_and_not_the_window) {
    set_retention(rig, rig->kind, 0, 0); /* the task would leave at once */
    uint64_t until = rig->now + 10 * MS, other;
    uint64_t id = PUT(rig, .key = "a", .key_scope = LW_KEY_WINDOW, .key_until = until)->id;
    assert_int_equal(run_next(rig), id);
    assert_status(try_put(rig, WISH(.key = "a"), &other), LW_EXISTS);
    assert_int_equal(other, id);
    pass(rig, 11);
    rig->ops->sweep(rig->store, rig->now);
    assert_null(find(rig, id));
    PUT(rig, .key = "a");
}

/* There may be as many as the window is long, whatever is retained. */
STORE_TEST(a_finished_task_that_stays_for_its_key_is_nothing_but_that) {
    set_retention(rig, rig->kind, 0, 0);
    struct lw__index *index = rig->store->index;
    struct lw__task *task = PUT(rig, .key = "a", .key_scope = LW_KEY_WINDOW, .payload_size = 5000,
                                .key_until = rig->now + 10 * MS);
    uint64_t id = task->id;
    struct attempt attempt = start_this(rig, task);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .has_result = true,
                         .result = {"result", 6}),
                  LW_OK);
    assert_ptr_equal(find(rig, id), task);
    assert_int_equal(index->lingering, 1);
    assert_int_equal(lw__task_payload_size(task), 0);
    assert_string_equal(lw__spec_key(lw__task_spec(task)), "a");
    assert_true(lw__task_spec(task)->size < 1000);
    assert_null(lw__see(&task->output));
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    pass(rig, 11);
    rig->ops->sweep(rig->store, rig->now);
    assert_null(find(rig, id));
    assert_int_equal(index->lingering, 0);
}

STORE_TEST(a_window_that_is_over_does_not_free_the_key_of_an_unfinished_task) {
    PUT(rig, .key = "a", .key_scope = LW_KEY_WINDOW, .key_until = rig->now + MS);
    pass(rig, 5);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
}

STORE_TEST(a_key_twice_in_a_batch_is_there_once) {
    struct lw__put puts[] = {make_put(rig, WISH(.key = "a")), make_put(rig, WISH(.key = "b")),
                             make_put(rig, WISH(.key = "a"))};
    assert_status(rig->ops->put(rig->store, rig->now, puts, 3), LW_OK);
    assert_status(puts[2].status, LW_EXISTS);
    assert_int_equal(puts[2].id, puts[0].id);
    drop_put(rig, &puts[2]);
    CHECK(run_next(rig) && run_next(rig));
    assert_int_equal(run_next(rig), 0);
    assert_empty(rig);
}

/* ---- room --------------------------------------------------------------------------------- */

STORE_TEST_WITH(room_is_taken_from_acceptance_to_the_end, .task_limit = 2) {
    struct lw__task *task = PUT(rig, 0);
    PUT(rig, .due = rig->now + MS);
    assert_status(TRY_PUT(rig, 0), LW_EFULL);
    struct attempt attempt = start_this(rig, task);
    assert_status(TRY_PUT(rig, 0), LW_EFULL);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK), LW_OK); /* needs none */
    assert_status(TRY_PUT(rig, 0), LW_EFULL);
    assert_int_equal(run_next(rig), task->id);
    PUT(rig, 0);
    struct lw__put one = make_put(rig, WISH(.priority = 1));
    uint64_t id;
    assert_status(rig->ops->put_plain(rig->store, rig->now, &one, &id), LW_EFULL);
}

STORE_TEST_WITH(bytes_are_room_too, .byte_limit = 100) {
    PUT(rig, .payload_size = 60);
    assert_status(TRY_PUT(rig, .payload_size = 41), LW_EFULL);
    PUT(rig, .payload_size = 40);
    assert_status(TRY_PUT(rig, .payload_size = 1), LW_EFULL);
    PUT(rig, 0); /* one without bytes */
    CHECK(run_next(rig));
    PUT(rig, .payload_size = 60);
}

STORE_TEST(a_queue_has_room_of_its_own) {
    uint16_t narrow = add_queue(rig, "narrow", 1, 1);
    PUT(rig, .queue = narrow);
    assert_status(TRY_PUT(rig, .queue = narrow), LW_EFULL);
    PUT(rig, 0);
}

STORE_TEST_WITH(a_batch_that_does_not_fit_whole_takes_nothing, .task_limit = 3) {
    struct lw__put puts[4];
    for (int i = 0; i < 4; i++)
        puts[i] = make_put(rig, WISH(.priority = 1));
    assert_status(rig->ops->put(rig->store, rig->now, puts, 4), LW_EFULL);
    assert_empty(rig);
    assert_status(rig->ops->put(rig->store, rig->now, puts, 3), LW_OK);
}

STORE_TEST_WITH(of_several_with_one_key_one_needs_room, .task_limit = 2, .byte_limit = 100) {
    struct lw__put puts[5];
    for (int i = 0; i < 5; i++)
        puts[i] = make_put(rig, WISH(.key = i == 3 ? "b" : "a", .payload_size = 50));
    assert_status(rig->ops->put(rig->store, rig->now, puts, 5), LW_OK);
    for (int i = 0; i < 5; i++) {
        bool is_first = i == 0 || i == 3;
        assert_status(puts[i].status, is_first ? LW_OK : LW_EXISTS);
        assert_int_equal(puts[i].id, i == 3 ? puts[0].id + 1 : puts[0].id);
        if (!is_first)
            drop_put(rig, &puts[i]);
    }
    while (run_next(rig)) {
    }
    assert_empty(rig);
}

/* ---- dropping for room -------------------------------------------------------------------- */

/* A batch of tasks of this many bytes each. */
static int put_batch(struct rig *rig, uint16_t queue, int count, size_t bytes) {
    struct lw__put puts[8];
    for (int i = 0; i < count; i++)
        puts[i] = make_put(rig, WISH(.queue = queue, .payload_size = bytes));
    int rc = put_dropping(rig, puts, (size_t)count);
    for (int i = 0; rc < 0 && i < count; i++)
        drop_put(rig, &puts[i]);
    return rc;
}

static int count_in(struct rig *rig, lw_state state) {
    int count = 0;
    for (struct lw__task *task = lw__ids_find_from(&rig->store->index->ids, 1); task;
         task = lw__ids_find_from(&rig->store->index->ids, task->id + 1))
        count += state_of_task(task) == state;
    return count;
}

STORE_TEST_WITH(nothing_is_dropped_in_vain, .task_limit = 10) {
    for (int i = 0; i < 5; i++)
        PUT(rig, .due = rig->now + MS);
    for (int i = 0; i < 5; i++)
        PUT(rig, 0);
    assert_status(put_batch(rig, rig->queue, 6, 0), LW_EFULL);
    assert_int_equal(count_in(rig, LW_ENQUEUED), 5);
    assert_int_equal(count_in(rig, LW_ABORTED), 0);
    assert_status(put_batch(rig, rig->queue, 3, 0), LW_OK);
    assert_int_equal(count_in(rig, LW_ENQUEUED), 5);
    assert_int_equal(count_in(rig, LW_ABORTED), 3);
    assert_int_equal(count_in(rig, LW_SCHEDULED), 5);
}

STORE_TEST_WITH(nothing_is_dropped_for_bytes_that_it_does_not_have, .byte_limit = 1000) {
    PUT(rig, .due = rig->now + MS, .payload_size = 500);
    for (int i = 0; i < 100; i++)
        PUT(rig, .payload_size = 5);
    assert_status(TRY_PUT(rig, .payload_size = 501, .may_drop = true), LW_EFULL);
    assert_int_equal(count_in(rig, LW_ABORTED), 0);
    assert_status(TRY_PUT(rig, .payload_size = 14, .may_drop = true), LW_OK);
    assert_int_equal(count_in(rig, LW_ABORTED), 3);
}

STORE_TEST_WITH(nothing_is_dropped_for_one_that_cannot_be_accepted_anyway, .task_limit = 2) {
    struct lw__task *task = PUT(rig, .key = "a");
    PUT(rig, 0);
    assert_status(TRY_PUT(rig, .after = {4711}, .may_drop = true), LW_EINVAL);
    assert_status(TRY_PUT(rig, .key = "a", .may_drop = true), LW_EXISTS);
    struct lw__put puts[] = {make_put(rig, WISH(.payload_size = 1)),
                             make_put(rig, WISH(.after = {4711}))};
    assert_status(put_dropping(rig, puts, 2), LW_EINVAL);
    drop_put(rig, &puts[0]);
    drop_put(rig, &puts[1]);
    assert_int_equal(count_in(rig, LW_ABORTED), 0);
    assert_state(task, LW_ENQUEUED);
}

/* What would be dropped for the second has the key of the first. */
STORE_TEST_WITH(nothing_is_dropped_for_a_key_that_cannot_be_had_anyway, .task_limit = 2) {
    struct lw__task *holder = PUT(rig, .key = "a");
    PUT(rig, 0);
    assert_status(TRY_PUT(rig, .key = "a", .after = {4711}), LW_EINVAL);
    struct lw__put puts[] = {make_put(rig, WISH(.key = "a", .after = {4711})),
                             make_put(rig, WISH(.key = "b"))};
    assert_status(put_dropping(rig, puts, 2), LW_EINVAL);
    drop_put(rig, &puts[0]);
    drop_put(rig, &puts[1]);
    assert_int_equal(count_in(rig, LW_ABORTED), 0);
    assert_state(holder, LW_ENQUEUED);
}

/* What is dropped for the second has the key of the first, which needs room then. */
STORE_TEST_WITH(a_key_that_comes_free_by_dropping_needs_room_too, .task_limit = 2) {
    struct lw__task *holder = PUT(rig, .key = "a"), *other = PUT(rig, .due = rig->now + MS);
    struct lw__put puts[] = {make_put(rig, WISH(.key = "a")), make_put(rig, WISH(.key = "b"))};
    assert_status(put_dropping(rig, puts, 2), LW_EFULL);
    assert_state(holder, LW_ENQUEUED);
    assert_status(change(rig, other->id, LW__CHANGE_EXPEDITE), LW_OK);
    assert_status(put_dropping(rig, puts, 2), LW_OK);
    assert_status(puts[0].status, LW_OK);
    assert_state(holder, LW_ABORTED);
    assert_state(other, LW_ABORTED);
}

/* The one queue has too many, and both together have. */
STORE_TEST_WITH(each_queue_of_a_batch_makes_room_for_its_own, .task_limit = 6) {
    uint16_t narrow = add_queue(rig, "narrow", 1, 2);
    struct lw__task *first = PUT(rig, .queue = narrow), *second = PUT(rig, .queue = narrow);
    struct lw__task *others[4];
    for (int i = 0; i < 4; i++)
        others[i] = PUT(rig, 0);
    struct lw__put puts[3] = {make_put(rig, WISH(.queue = rig->queue)),
                              make_put(rig, WISH(.queue = narrow)),
                              make_put(rig, WISH(.queue = rig->queue))};
    assert_status(put_dropping(rig, puts, 3), LW_OK);
    assert_state(first, LW_ABORTED);
    assert_state(second, LW_ENQUEUED);
    for (int i = 0; i < 4; i++)
        assert_state(others[i], i < 2 ? LW_ABORTED : LW_ENQUEUED);
}

STORE_TEST_WITH(the_place_of_one_of_the_reserve_is_nobody_elses, .task_limit = 1, .reserve = 1) {
    PUT(rig, .due = rig->now + MS);
    struct lw__task *reserved = PUT(rig, .is_inside = true);
    assert_status(TRY_PUT(rig, .may_drop = true), LW_EFULL);
    assert_state(reserved, LW_ENQUEUED);
}

/* ---- the reserve -------------------------------------------------------------------------- */

STORE_TEST_WITH(tasks_of_tasks_have_a_reserve, .task_limit = 1, .reserve = 2) {
    struct lw__task *task = PUT(rig, 0);
    PUT(rig, .is_inside = true);
    PUT(rig, .is_inside = true);
    assert_status(TRY_PUT(rig, .is_inside = true), LW_EFULL);
    assert_int_equal(run_next(rig), task->id);
    PUT(rig, 0); /* what is in the reserve takes nobody's room */
    assert_status(TRY_PUT(rig, 0), LW_EFULL);
    while (run_next(rig)) {
    }
    assert_empty(rig);
}

STORE_TEST_WITH(one_that_is_taken_needs_no_room_and_is_claimed, .task_limit = 1) {
    PUT(rig, 0);
    struct lw__put one = make_put(rig, WISH(.is_taken = true));
    if (is_durable(rig)) { /* that would have to wait for the disk first */
        assert_status(rig->ops->put(rig->store, rig->now, &one, 1), LW_EFULL);
        return;
    }
    assert_status(rig->ops->put(rig->store, rig->now, &one, 1), LW_OK);
    CHECK(one.token > 0);
    assert_state(one.task, LW_ENQUEUED);
    struct attempt other = claim_one(rig);
    CHECK(other.task && other.task != one.task && other.token != one.token);
    assert_null(claim_one(rig).task);
    CHECK(!rig->ops->is_quiet(rig->store, false));
    CHECK(rig->ops->begin(rig->store, one.task, one.token, rig->now));
    finish(rig, (struct attempt){one.task, one.token});
    assert_state(one.task, LW_FINISHED);
}

STORE_TEST_WITH(the_reserve_has_a_limit_of_bytes_too, .byte_limit = 100, .reserve = 10) {
    PUT(rig, .payload_size = 100);
    PUT(rig, .payload_size = 60, .is_inside = true);
    assert_status(TRY_PUT(rig, .payload_size = 41, .is_inside = true), LW_EFULL);
    PUT(rig, .payload_size = 40, .is_inside = true);
    assert_status(TRY_PUT(rig, .payload_size = 1, .is_inside = true), LW_EFULL);
    assert_int_equal(rig->store->index->reserve_used, 2);
    if (is_durable(rig))
        reopen_rig(rig);
    assert_status(TRY_PUT(rig, .payload_size = 1, .is_inside = true), LW_EFULL);
    while (run_next(rig)) {
    }
    assert_int_equal(rig->store->index->reserve_bytes, 0);
    assert_empty(rig);
}

/* ---- dependencies ------------------------------------------------------------------------- */

STORE_TEST(one_after_others_is_created_until_all_have_finished) {
    struct lw__task *a = PUT(rig, 0), *b = PUT(rig, 0);
    struct lw__task *task = PUT(rig, .after = {a->id, b->id, a->id});
    assert_state(task, LW_CREATED);
    assert_int_equal(run_next(rig), a->id);
    assert_state(task, LW_CREATED);
    assert_int_equal(run_next(rig), b->id);
    assert_state(task, LW_ENQUEUED);
    assert_state(PUT(rig, .after = {a->id}), LW_ENQUEUED);
    assert_state(PUT(rig, .after = {a->id}, .due = rig->now + MS), LW_SCHEDULED);
}

STORE_TEST(one_after_others_still_waits_for_its_time) {
    struct lw__task *a = PUT(rig, 0), *task = PUT(rig, .after = {a->id}, .due = rig->now + 20 * MS);
    assert_state(task, LW_CREATED);
    assert_int_equal(run_next(rig), a->id);
    assert_state(task, LW_SCHEDULED);
}

STORE_TEST(what_comes_after_a_failure_is_aborted_or_runs_all_the_same) {
    struct lw__task *a = PUT(rig, 0);
    struct lw__task *no = PUT(rig, .after = {a->id});
    struct lw__task *yes = PUT(rig, .after = {a->id}, .after_policy = LW_AFTER_RUN);
    struct lw__task *then = PUT(rig, .after = {no->id});
    SETTLE(rig, start_this(rig, a), .verdict = LW__VERDICT_FAIL);
    assert_state(no, LW_ABORTED);
    assert_state(then, LW_ABORTED);
    assert_state(yes, LW_ENQUEUED);
    assert_state(PUT(rig, .after = {a->id}), LW_ABORTED); /* and who comes later */
    assert_state(PUT(rig, .after = {no->id}, .after_policy = LW_AFTER_RUN), LW_ENQUEUED);
    while (run_next(rig)) {
    }
    assert_empty(rig);
}

STORE_TEST(a_long_chain_of_dependents_ends_with_its_first) {
    long links = 100000 / test_stride(5); /* by recursion it would end the stack */
    uint64_t id = PUT(rig, .due = rig->now + MS)->id, first = id;
    for (long i = 0; i < links; i++)
        id = PUT(rig, .after = {id})->id;
    assert_status(change(rig, first, LW__CHANGE_CANCEL), LW_OK);
    assert_state(find(rig, id), LW_ABORTED);
    assert_empty(rig);
}

STORE_TEST(a_dependency_on_what_never_was_is_refused) {
    assert_status(TRY_PUT(rig, .after = {1}), LW_EINVAL);
    struct lw__task *task = PUT(rig, 0);
    assert_status(TRY_PUT(rig, .after = {task->id, task->id + 1}), LW_EINVAL);
}

/* ---- figures ------------------------------------------------------------------------------ */

STORE_TEST(kinds_and_queues_have_one_number_for_one_name) {
    uint16_t kind, queue;
    assert_status(rig->ops->kind(rig->store, "mail", &kind), LW_OK);
    assert_status(rig->ops->queue(rig->store, "default", &queue), LW_OK);
    assert_int_equal(kind, rig->kind);
    assert_int_equal(queue, rig->queue);
    assert_status(rig->ops->kind(rig->store, "other", &kind), LW_OK);
    CHECK(kind != rig->kind);
}

TEST(a_url_that_no_store_has_is_refused_and_the_nearest_is_named) {
    struct lw__store *store;
    struct lw__store_options options = {.allocator = NULL};
    lw_error err;
    assert_status(lw__store_open(&store, "memori:", &options, &err), LW_EINVAL);
    CHECK(strstr(err.message, "memory:"));
    assert_status(lw__store_open(&store, "memory", &options, &err), LW_EINVAL);
}
