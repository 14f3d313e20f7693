/* What operators do to tasks, and what time does: cancel, retry, forget, expedite; delays, limits,
 * retention, and a wall clock that is set. */
#include "stores.h"

#include <stdio.h>
#include <string.h>

/* ---- cancel ------------------------------------------------------------------------------- */

STORE_TEST(what_waits_is_aborted_at_once) {
    struct lw__task *enqueued = PUT(rig, .key = "a"), *scheduled = PUT(rig, .due = rig->now + MS);
    struct lw__task *created = PUT(rig, .after = {scheduled->id}, .after_policy = LW_AFTER_RUN);
    struct lw__task *limited = PUT(rig, .finish_by = rig->now + MS);
    struct lw__task *all[] = {enqueued, created, scheduled, limited};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        assert_status(change(rig, all[i]->id, LW__CHANGE_CANCEL), LW_OK);
        assert_state(all[i], LW_ABORTED);
        assert_string_equal(last_error(all[i]), "cancelled");
        assert_status(change(rig, all[i]->id, LW__CHANGE_CANCEL), LW_ENOTFOUND);
    }
    assert_int_equal(rig->cancels, 0);
    assert_empty(rig);
    assert_status(change(rig, 4711, LW__CHANGE_CANCEL), LW_ENOTFOUND);
}

STORE_TEST(what_runs_is_asked_to_give_up) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt attempt = start_this(rig, task);
    assert_status(change(rig, task->id, LW__CHANGE_CANCEL), LW_PENDING);
    assert_state(task, LW_STARTED);
    assert_int_equal(rig->cancelled, attempt.token);
    assert_int_equal(rig->reason, LW_REASON_CANCELLED);
    CHECK(lw__task_flags(task) & LW__TASK_CANCELLING);
    CHECK(!rig->ops->finish(rig->store, task, rig->now));
    SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK);
    CHECK(!(lw__task_flags(task) & LW__TASK_CANCELLING)); /* that was the other attempt */
}

/* ---- retry -------------------------------------------------------------------------------- */

STORE_TEST(a_failed_task_runs_again_with_a_new_budget_its_key_and_its_room) {
    struct lw__task *task = PUT(rig, .key = "a", .payload_size = 5);
    SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_CRASH,
           .text = "no");
    pass(rig, 5);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_OK);
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lw__see(&task->attempts), 0);
    assert_int_equal(lw__see(&task->crashes), 0);
    assert_string_equal(last_error(task), "no");
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    assert_int_equal(run_next(rig), task->id);
    assert_state(task, LW_FINISHED);
    assert_empty(rig);
}

STORE_TEST_WITH(a_retry_needs_its_key_and_room, .task_limit = 1) {
    struct lw__task *task = PUT(rig, .key = "a");
    assert_status(change(rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    struct lw__task *other = PUT(rig, .key = "a");
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_EXISTS);
    assert_state(task, LW_ABORTED);
    assert_int_equal(run_next(rig), other->id);
    PUT(rig, 0);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_EFULL);
    assert_state(task, LW_ABORTED);
    CHECK(run_next(rig));
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_OK);
}

STORE_TEST(what_cannot_be_retried_says_so) {
    struct lw__task *finished = PUT(rig, 0), *call = PUT(rig, .is_call = true);
    assert_int_equal(run_next(rig), finished->id);
    assert_status(change(rig, finished->id, LW__CHANGE_RETRY), LW_EINVAL);
    SETTLE(rig, start_this(rig, call), .verdict = LW__VERDICT_FAIL, .is_spent = true);
    assert_status(change(rig, call->id, LW__CHANGE_RETRY), LW_EINVAL);
    struct lw__task *enqueued = PUT(rig, 0);
    assert_status(change(rig, enqueued->id, LW__CHANGE_RETRY), LW_PENDING);
    start_this(rig, enqueued);
    assert_status(change(rig, enqueued->id, LW__CHANGE_RETRY), LW_PENDING);
    assert_status(change(rig, 4711, LW__CHANGE_RETRY), LW_ENOTFOUND);
}

STORE_TEST(a_scheduled_task_can_be_run_now) {
    for (int i = 0; i < 2; i++) {
        struct lw__task *task = PUT(rig, .due = rig->now + 100 * MS);
        enum lw__change how = i ? LW__CHANGE_RETRY : LW__CHANGE_EXPEDITE;
        assert_status(change(rig, task->id, how), LW_OK);
        assert_state(task, LW_ENQUEUED);
        assert_status(change(rig, task->id, LW__CHANGE_EXPEDITE), LW_PENDING);
        assert_int_equal(run_next(rig), task->id);
    }
    assert_empty(rig);
}

/* ---- forget ------------------------------------------------------------------------------- */

STORE_TEST(what_was_run_now_leaves_nothing_to_look_at_again) {
    struct lw__task *task = PUT(rig, .run_at_ms = lw__wall_ms(rig->clock) + 3600000,
                                .due = rig->now + UINT64_C(3600000) * MS);
    assert_state(task, LW_SCHEDULED);
    CHECK(rig->ops->sweep(rig->store, rig->now) != LW__NEVER);
    assert_status(change(rig, task->id, LW__CHANGE_EXPEDITE), LW_OK);
    assert_int_equal(rig->store->index->wall_count, 0);
    assert_true(rig->ops->sweep(rig->store, rig->now) == LW__NEVER);
}

STORE_TEST(only_what_has_ended_can_be_forgotten) {
    struct lw__task *task = PUT(rig, 0);
    uint64_t id = task->id;
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_PENDING);
    struct attempt attempt = start_this(rig, task);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_PENDING);
    finish(rig, attempt);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    assert_null(find(rig, id));
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_ENOTFOUND);
}

/* ---- sweep: delays ------------------------------------------------------------------------ */

STORE_TEST(a_sweep_releases_what_is_due_never_early_and_says_when_to_come_again) {
    struct lw__task *soon = PUT(rig, .due = rig->now + 10 * MS);
    struct lw__task *later = PUT(rig, .due = rig->now + 40 * MS);
    uint64_t due = rig->ops->sweep(rig->store, rig->now);
    CHECK(due > rig->now && due <= rig->now + 11 * MS);
    pass(rig, 9);
    rig->ops->sweep(rig->store, rig->now);
    assert_state(soon, LW_SCHEDULED);
    pass(rig, 1);
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now) {
    }
    assert_state(soon, LW_ENQUEUED);
    assert_state(later, LW_SCHEDULED);
    pass(rig, 30);
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now) {
    }
    assert_state(later, LW_ENQUEUED);
    CHECK(rig->ops->sweep(rig->store, rig->now) == UINT64_MAX);
}

STORE_TEST(a_sweep_does_a_bounded_lot) {
    enum { MANY = 5000 };
    for (int i = 0; i < MANY; i++)
        PUT(rig, .due = rig->now + MS);
    pass(rig, 2);
    int sweeps = 1, count = 0;
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now)
        sweeps++;
    CHECK(sweeps > 5);
    while (run_next(rig))
        count++;
    assert_int_equal(count, MANY);
}

/* ---- sweep: limits ------------------------------------------------------------------------ */

static void sweep_after(struct rig *rig, int64_t ms) {
    pass(rig, ms);
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now) {
    }
}

STORE_TEST(what_has_not_started_in_time_is_aborted) {
    struct lw__task *waits = PUT(rig, .start_by = rig->now + 10 * MS, .due = rig->now + 50 * MS);
    struct lw__task *queued = PUT(rig, .start_by = rig->now + 10 * MS, .priority = 9999);
    struct lw__task *started = PUT(rig, .start_by = rig->now + 10 * MS);
    struct attempt attempt = start_this(rig, started);
    struct attempt claimed = claim_one(rig);
    sweep_after(rig, 11);
    assert_state(waits, LW_ABORTED);
    assert_state(queued, LW_ABORTED);
    CHECK(claimed.task == queued && !rig->ops->begin(rig->store, queued, claimed.token, rig->now));
    rig->ops->account(rig->store, rig->now, &queued, 1);
    assert_state(started, LW_STARTED);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + MS);
    sweep_after(rig, 5);
    assert_int_equal(run_next(rig), started->id); /* it has begun in time */
    assert_empty(rig);
}

STORE_TEST(what_has_not_finished_in_time_is_aborted_or_asked_to_give_up) {
    struct lw__task *waits = PUT(rig, .finish_by = rig->now + 10 * MS, .due = rig->now + 50 * MS);
    struct lw__task *runs = PUT(rig, .finish_by = rig->now + 10 * MS);
    struct attempt attempt = start_this(rig, runs);
    sweep_after(rig, 11);
    assert_state(waits, LW_ABORTED);
    assert_state(runs, LW_STARTED);
    assert_int_equal(rig->cancelled, attempt.token);
    assert_int_equal(rig->reason, LW_REASON_TIMEOUT);
    /* It says that it goes on later, which it must not. */
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + 1000 * MS);
    CHECK(rig->hastened <= rig->now + MS);
    sweep_after(rig, 1);
    assert_state(runs, LW_ABORTED);
    assert_empty(rig);
}

STORE_TEST(both_limits_hold) {
    struct lw__task *task =
        PUT(rig, .start_by = rig->now + 10 * MS, .finish_by = rig->now + 30 * MS);
    struct attempt attempt = start_this(rig, task);
    sweep_after(rig, 15);
    assert_int_equal(rig->cancels, 0);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + 1000 * MS);
    sweep_after(rig, 20);
    assert_state(task, LW_ABORTED);
}

/* ---- sweep: retention --------------------------------------------------------------------- */

STORE_TEST(ended_tasks_leave_when_their_time_is_over) {
    set_retention(rig, rig->kind, 100 * MS, UINT64_MAX);
    uint64_t first = PUT(rig, .key = "a", .payload_size = 10)->id, second = PUT(rig, 0)->id;
    assert_int_equal(run_next(rig), first);
    pass(rig, 50);
    assert_int_equal(run_next(rig), second);
    sweep_after(rig, 51);
    assert_null(find(rig, first));
    CHECK(find(rig, second) != NULL);
    sweep_after(rig, 50);
    assert_null(find(rig, second));
}

/* Threads read the clock before they get the lock: another one may have moved it on meanwhile. */
STORE_TEST(what_does_not_stay_leaves_at_once_by_whatever_clock_it_ended) {
    set_retention(rig, rig->kind, 0, UINT64_MAX);
    uint64_t id = PUT(rig, 0)->id;
    rig->now -= MS;
    assert_status(change(rig, id, LW__CHANGE_CANCEL), LW_OK);
    rig->now += MS;
    assert_null(find(rig, id));
}

STORE_TEST(of_too_many_ended_tasks_the_oldest_leave) {
    uint64_t ids[10], blocks, blocks_after;
    set_retention(rig, rig->kind, UINT64_MAX, 4);
    for (int i = 0; i < 10; i++) {
        ids[i] = PUT(rig, .payload_size = 10)->id;
        assert_int_equal(run_next(rig), ids[i]);
    }
    for (int i = 0; i < 10; i++)
        CHECK((find(rig, ids[i]) != NULL) == (i >= 6));
    lw_test_memory_usage(rig->memory, &blocks, NULL, NULL);
    for (int i = 0; i < 5000; i++) {
        PUT(rig, .payload_size = 10);
        CHECK(run_next(rig));
    }
    lw_test_memory_usage(rig->memory, &blocks_after, NULL, NULL);
    CHECK(blocks_after <= blocks + 4); /* memory is given back */
}

/* Runs what is there as one batch. */
static void run_batch(struct rig *rig) {
    struct attempt attempts[LW__SETTLE_MAX];
    struct lw__task *ended[LW__SETTLE_MAX];
    uint32_t count = claim(rig, attempts, LW__SETTLE_MAX);
    for (uint32_t i = 0; i < count; i++) {
        ended[i] = attempts[i].task;
        CHECK(rig->ops->begin(rig->store, ended[i], attempts[i].token, rig->now));
        CHECK(rig->ops->finish(rig->store, ended[i], rig->now));
    }
    rig->ops->account(rig->store, rig->now, ended, count);
}

/* Those that are nothing but a record leave on a way of their own. */
STORE_TEST(plain_ones_and_others_leave_in_one_order) {
    enum { TASKS = 90, KEPT = 7 };
    set_retention(rig, rig->kind, UINT64_MAX, KEPT);
    for (int stretch = 1; stretch < 9; stretch++) {
        uint64_t ids[TASKS];
        for (int i = 0; i < TASKS; i++) {
            ids[i] = PUT(rig, .payload_size = i / stretch % 2 ? 10 : 0)->id;
            if (i % (5 * stretch) == 0)
                run_batch(rig);
        }
        run_batch(rig);
        struct lw__kind_figures figures;
        lw__index_kind_figures(rig->store->index, rig->kind, &figures, 1);
        assert_int_equal(figures.finished, stretch * TASKS);
        for (int i = 0; i < TASKS; i++)
            CHECK((find(rig, ids[i]) != NULL) == (i >= TASKS - KEPT));
    }
    set_retention(rig, rig->kind, UINT64_MAX, 0);
    assert_empty(rig);
}

STORE_TEST(a_task_that_ends_while_others_wait_for_it_leaves_nothing_behind) {
    set_retention(rig, rig->kind, 0, 0);
    uint64_t id = PUT(rig, 0)->id;
    PUT(rig, .after = {id}, .after_policy = LW_AFTER_RUN);
    assert_int_equal(run_next(rig), id);
    assert_null(find(rig, id));
    CHECK(run_next(rig));
    assert_int_equal(run_next(rig), 0);
}

/* ---- the wall clock ----------------------------------------------------------------------- */

STORE_TEST(a_wall_time_is_looked_at_again_when_the_clock_is_set) {
    int64_t wall = lw__wall_ms(rig->clock);
    struct lw__task *task =
        PUT(rig, .run_at_ms = wall + 3600000, .due = rig->now + 3600000ull * MS);
    struct lw__task *delay = PUT(rig, .due = rig->now + 3600000ull * MS);
    uint64_t next = rig->ops->sweep(rig->store, rig->now);
    CHECK(next <= rig->now + 60000ull * MS); /* it keeps an eye on it */
    lw_test_clock_set_wall(rig->clock, wall + 3600000);
    sweep_after(rig, 1);
    assert_state(task, LW_ENQUEUED);
    assert_state(delay, LW_SCHEDULED); /* that one is a span, and not touched */
    struct lw__task *back =
        PUT(rig, .run_at_ms = wall + 3600000 + 10000, .due = rig->now + 10000ull * MS);
    lw_test_clock_set_wall(rig->clock, wall);
    sweep_after(rig, 1);
    sweep_after(rig, 20000);
    assert_state(back, LW_SCHEDULED);
}

/* ---- bytes of what has ended -------------------------------------------------------------- */

static struct lw__retained *retained_of(struct rig *rig, enum lw__retained_list list) {
    return &lw__index_kind_at(rig->store->index, rig->kind)->retained[list];
}

static void bound_bytes(struct rig *rig, uint64_t byte_max) {
    struct lw__kind_options o = {.has_handler = true, .concurrency = UINT32_MAX};
    for (int i = 0; i < 3; i++)
        o.retention[i] = (struct lw__retention_settings){UINT64_MAX, UINT64_MAX, byte_max};
    rig->ops->set_kind(rig->store, rig->kind, &o);
}

/* With a key, so that a file does not take the payload out of memory. */
static uint64_t fail_one(struct rig *rig, int number) {
    char key[16];
    snprintf(key, sizeof key, "k%d", number);
    struct attempt attempt = start_this(rig, PUT(rig, .key = key, .payload_size = 1000));
    uint64_t id = attempt.task->id;
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FAIL, .text = "no"), LW_OK);
    return id;
}

STORE_TEST(the_oldest_leave_when_their_bytes_are_too_many) {
    struct lw__retained *failed = retained_of(rig, LW__RETAINED_FAILED);
    uint64_t ids[20];
    bound_bytes(rig, 10000);
    for (int i = 0; i < 20; i++)
        ids[i] = fail_one(rig, i);
    CHECK(failed->bytes <= 10000 && failed->count >= 5 && failed->count < 10);
    assert_null(find(rig, ids[0]));
    CHECK(find(rig, ids[19]));
    bound_bytes(rig, 3000);
    CHECK(failed->bytes <= 3000 && failed->count > 0);
    bound_bytes(rig, 999); /* one that is too large leaves at once */
    assert_int_equal(failed->count, 0);
    assert_null(find(rig, fail_one(rig, 20)));
}

STORE_TEST(bytes_that_are_retained_are_counted_to_the_last) {
    uint64_t id = fail_one(rig, 1), other = fail_one(rig, 2), third = fail_one(rig, 3);
    CHECK(retained_of(rig, LW__RETAINED_FAILED)->bytes > 3000);
    assert_status(change(rig, id, LW__CHANGE_RETRY), LW_OK);
    assert_int_equal(run_next(rig), id);
    assert_status(change(rig, other, LW__CHANGE_FORGET), LW_OK);
    if (is_durable(rig))
        reopen_rig(rig);
    CHECK(retained_of(rig, LW__RETAINED_FINISHED)->bytes > 1000);
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    assert_status(change(rig, third, LW__CHANGE_FORGET), LW_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(retained_of(rig, (enum lw__retained_list)i)->bytes, 0);
}
