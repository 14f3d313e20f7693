/* Claiming: order, tokens, limits, pauses; and what can become of a claim before it begins. */
#include "stores.h"

static void assert_next(struct rig *rig, const struct lw__task *task) {
    assert_int_equal(run_next(rig), task ? task->id : 0);
}

STORE_TEST(the_smaller_priority_is_first_then_the_earlier_due_then_the_id) {
    struct lw__task *late = PUT(rig, .priority = 9);
    struct lw__task *waits = PUT(rig, .priority = 5, .due = rig->now + MS);
    struct lw__task *urgent = PUT(rig, .priority = 1);
    struct lw__task *also = PUT(rig, .priority = 1);
    pass(rig, 5);
    struct lw__task *younger = PUT(rig, .priority = 5);
    rig->ops->sweep(rig->store, rig->now);
    assert_next(rig, urgent);
    assert_next(rig, also);
    assert_next(rig, waits);
    assert_next(rig, younger);
    assert_next(rig, late);
    assert_next(rig, NULL);
}

STORE_TEST(a_batch_is_of_one_kind_and_its_tokens_follow_each_other) {
    uint16_t other = add_kind(rig, "report", UINT32_MAX);
    struct lw__task *tasks[] = {PUT(rig, 0), PUT(rig, 0), PUT(rig, .kind = other), PUT(rig, 0)};
    struct attempt got[8];
    assert_int_equal(claim(rig, got, 8), 2);
    CHECK(got[0].task == tasks[0] && got[1].task == tasks[1]);
    assert_int_equal(got[1].token, got[0].token + 1);
    struct attempt next = claim_one(rig);
    CHECK(next.task == tasks[2] && next.token > got[1].token);
    CHECK(claim_one(rig).task == tasks[3]);
}

STORE_TEST(a_token_is_never_given_again) {
    struct lw__task *task = PUT(rig, 0);
    uint64_t last = 0;
    for (int i = 0; i < 20; i++) {
        struct attempt attempt = start_this(rig, task);
        CHECK(attempt.token > last);
        last = attempt.token;
        assert_int_equal(lw__see(&task->token), last);
        assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK), LW_OK);
    }
    assert_int_equal(lw__see(&task->attempts), 20);
}

STORE_TEST(a_claim_says_what_is_left) {
    struct lw__task *tasks[2];
    struct lw__claim claim = {.tasks = tasks, .max = 2};
    for (int i = 0; i < 5; i++)
        PUT(rig, 0);
    rig->ops->claim(rig->store, rig->now, &claim);
    assert_int_equal(claim.count, 2);
    assert_int_equal(claim.left, 3);
    claim.max = 0;
    rig->ops->claim(rig->store, rig->now, &claim);
    assert_int_equal(claim.count, 0);
    assert_int_equal(claim.left, 3);
}

STORE_TEST(a_claim_accounts_for_what_has_ended) {
    PUT(rig, 0);
    PUT(rig, 0);
    struct attempt attempt = start_one(rig);
    CHECK(rig->ops->finish(rig->store, attempt.task, rig->now));
    assert_state(attempt.task, LW_FINISHED);
    struct lw__task *tasks[1];
    struct lw__claim claim = {.ended = &attempt.task, .ended_count = 1, .tasks = tasks, .max = 1};
    rig->ops->claim(rig->store, rig->now, &claim);
    assert_int_equal(claim.count, 1);
    struct lw__kind_figures figures;
    lw__index_kind_figures(rig->store->index, rig->kind, &figures, 1);
    assert_int_equal(figures.finished, 1);
    assert_int_equal(figures.claimed, 1);
}

STORE_TEST(a_kind_at_its_limit_is_skipped_until_one_has_ended) {
    uint16_t narrow = add_kind(rig, "narrow", 2);
    struct lw__task *tasks[3];
    for (int i = 0; i < 3; i++)
        tasks[i] = PUT(rig, .kind = narrow, .priority = 1);
    struct lw__task *other = PUT(rig, 0);
    struct attempt a = start_this(rig, tasks[0]), b = start_this(rig, tasks[1]);
    assert_next(rig, other);
    assert_next(rig, NULL);
    uint64_t wakes = rig->wakes;
    finish(rig, a);
    CHECK(rig->wakes > wakes);
    struct attempt c = claim_one(rig);
    CHECK(c.task == tasks[2]);
    rig->ops->unclaim(rig->store, rig->now, &c.task, 1);
    assert_next(rig, tasks[2]);
    finish(rig, b);
    assert_empty(rig);
}

STORE_TEST(a_kind_that_nobody_handles_waits) {
    uint16_t kind;
    assert_status(rig->ops->kind(rig->store, "unknown", &kind), LW_OK);
    struct lw__task *task = PUT(rig, .kind = kind);
    assert_next(rig, NULL);
    uint64_t wakes = rig->wakes;
    add_kind(rig, "unknown", UINT32_MAX);
    CHECK(rig->wakes > wakes);
    assert_next(rig, task);
}

STORE_TEST(a_paused_queue_gives_nothing_until_it_is_resumed) {
    struct lw__task *task = PUT(rig, 0);
    assert_status(rig->ops->pause(rig->store, "default", true), LW_OK);
    PUT(rig, 0); /* it goes on accepting */
    assert_next(rig, NULL);
    uint64_t wakes = rig->wakes;
    assert_status(rig->ops->pause(rig->store, "default", false), LW_OK);
    CHECK(rig->wakes > wakes);
    assert_next(rig, task);
    assert_status(rig->ops->pause(rig->store, "nobody's", true), LW_ENOTFOUND);
}

STORE_TEST(queues_take_turns_by_weight) {
    uint16_t heavy = add_queue(rig, "heavy", 3, UINT32_MAX);
    int of_heavy = 0;
    for (int i = 0; i < 40; i++) {
        PUT(rig, 0);
        PUT(rig, .queue = heavy);
    }
    for (int i = 0; i < 40; i++) {
        struct attempt attempt = start_one(rig);
        of_heavy += attempt.task->queue == heavy;
        finish(rig, attempt);
    }
    assert_int_equal(of_heavy, 30);
}

/* ---- before it begins --------------------------------------------------------------------- */

STORE_TEST(what_is_unclaimed_stands_where_it_was) {
    struct lw__task *tasks[] = {PUT(rig, 0), PUT(rig, 0), PUT(rig, 0)};
    struct attempt got[2];
    assert_int_equal(claim(rig, got, 2), 2);
    struct lw__task *back[] = {got[1].task, got[0].task};
    rig->ops->unclaim(rig->store, rig->now, back, 2);
    for (int i = 0; i < 3; i++)
        assert_next(rig, tasks[i]);
    assert_int_equal(lw__see(&tasks[0]->attempts), 1); /* a claim alone is no attempt */
}

STORE_TEST(one_that_is_cancelled_while_claimed_does_not_begin) {
    struct attempt a = {PUT(rig, .key = "a"), 0}, b = {PUT(rig, .key = "b"), 0};
    a = claim_one(rig);
    b = claim_one(rig);
    assert_status(change(rig, a.task->id, LW__CHANGE_CANCEL), LW_OK);
    assert_status(change(rig, b.task->id, LW__CHANGE_CANCEL), LW_OK);
    assert_state(a.task, LW_ABORTED);
    CHECK(!rig->ops->begin(rig->store, a.task, a.token, rig->now));
    assert_status(change(rig, a.task->id, LW__CHANGE_FORGET), LW_PENDING); /* its worker has it */
    assert_status(change(rig, a.task->id, LW__CHANGE_RETRY), LW_PENDING);
    rig->ops->account(rig->store, rig->now, &a.task, 1);
    rig->ops->unclaim(rig->store, rig->now, &b.task, 1); /* the other way to give it back */
    assert_state(b.task, LW_ABORTED);
    assert_empty(rig);
    assert_status(change(rig, a.task->id, LW__CHANGE_FORGET), LW_OK);
}

STORE_TEST(beginning_counts_stamps_and_starts) {
    struct lw__task *task = PUT(rig, 0);
    pass(rig, 3);
    start_this(rig, task);
    assert_state(task, LW_STARTED);
    assert_int_equal(lw__see(&task->attempts), 1);
    assert_int_equal(lw__see(&task->started_at), rig->now);
}

STORE_TEST(only_a_task_that_nobody_waits_for_finishes_without_a_settlement) {
    struct attempt plain = {PUT(rig, .payload_size = 5), 0};
    struct lw__await await = {.id = plain.task->id};
    assert_status(rig->ops->await(rig->store, &await), LW_OK);
    plain = start_one(rig);
    CHECK(!rig->ops->finish(rig->store, plain.task, rig->now));
    assert_state(plain.task, LW_STARTED);
    finish(rig, plain);
    assert_int_equal(await.is_over, 1);
    rig->ops->unawait(rig->store, &await);
}

/* In a file the end has to stand before the put that takes the key next: no end without a note. */
STORE_TEST(a_key_is_free_once_its_task_has_finished_whoever_accounts_for_it_and_when) {
    bool is_durable = rig->store->index->journal != NULL;
    struct attempt first = {PUT(rig, .key = "a"), 0};
    first = start_one(rig);
    assert_int_equal(rig->ops->finish(rig->store, first.task, rig->now), !is_durable);
    assert_state(first.task, is_durable ? LW_STARTED : LW_FINISHED);
    if (is_durable)
        finish(rig, first);
    struct lw__task *second = PUT(rig, .key = "a");
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS);
    if (!is_durable)
        rig->ops->account(rig->store, rig->now, &first.task, 1);
    assert_status(change(rig, first.task->id, LW__CHANGE_FORGET), LW_OK);
    assert_status(TRY_PUT(rig, .key = "a"), LW_EXISTS); /* the key stands for the second one */
    assert_next(rig, second);
}

/* ---- restraints --------------------------------------------------------------------------- */

STORE_TEST(nothing_is_claimed_after_no_claim) {
    PUT(rig, 0);
    rig->ops->restrain(rig->store, LW__STORE_NO_CLAIM);
    assert_null(claim_one(rig).task);
}

STORE_TEST(nothing_is_accepted_after_no_put_but_successors) {
    struct lw__task *task = PUT(rig, 0);
    rig->ops->restrain(rig->store, LW__STORE_NO_PUT);
    assert_status(TRY_PUT(rig, 0), LW_ESTOPPING);
    struct lw__put plain = make_put(rig, WISH(.priority = 1));
    uint64_t id;
    assert_status(rig->ops->put_plain(rig->store, rig->now, &plain, &id), LW_ESTOPPING);
    struct lw__put next = make_put(rig, WISH(.payload_size = 1, .is_inside = true));
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FINISH,
                         .successors = &next, .successor_count = 1),
                  LW_OK);
    assert_int_equal(run_next(rig), next.id);
}

STORE_TEST(nothing_is_released_after_no_release_and_all_of_it_by_bringing_forward) {
    enum { MANY = 3000 };
    for (int i = 0; i < MANY; i++)
        PUT(rig, .due = rig->now + MS);
    rig->ops->restrain(rig->store, LW__STORE_NO_RELEASE);
    pass(rig, 10);
    CHECK(rig->ops->sweep(rig->store, rig->now) == UINT64_MAX);
    assert_null(claim_one(rig).task);
    uint64_t after = 0;
    int calls = 1;
    while (rig->ops->bring_forward(rig->store, rig->now, &after))
        calls++;
    CHECK(calls > 1); /* a bounded lot at a time */
    struct attempt again = start_one(rig);
    assert_status(SETTLE(rig, again, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + MS), LW_OK);
    after = 0;
    while (rig->ops->bring_forward(rig->store, rig->now, &after)) {
    }
    assert_state(again.task, LW_SCHEDULED); /* each one once */
    for (int i = 1; i < MANY; i++)
        CHECK(run_next(rig));
    assert_next(rig, NULL);
}

STORE_TEST(what_is_brought_forward_comes_before_what_is_put_later) {
    struct lw__task *first = PUT(rig, .due = rig->now + 1000 * MS);
    struct lw__task *second = PUT(rig, .due = rig->now + 1000 * MS);
    uint64_t after = first->id;
    assert_status(change(rig, first->id, LW__CHANGE_EXPEDITE), LW_OK);
    while (rig->ops->bring_forward(rig->store, rig->now, &after)) {
    }
    pass(rig, 1);
    PUT(rig, 0);
    assert_next(rig, first);
    assert_next(rig, second);
}

STORE_TEST(quiet_is_nothing_claimed_or_told_and_if_asked_nothing_to_claim) {
    CHECK(rig->ops->is_quiet(rig->store, true));
    PUT(rig, .is_told = true);
    CHECK(rig->ops->is_quiet(rig->store, false));
    CHECK(!rig->ops->is_quiet(rig->store, true));
    struct attempt attempt = claim_one(rig);
    CHECK(!rig->ops->is_quiet(rig->store, false));
    CHECK(rig->ops->begin(rig->store, attempt.task, attempt.token, rig->now));
    finish(rig, attempt);
    CHECK(!rig->ops->is_quiet(rig->store, false)); /* to be told */
    struct lw__task *told = rig->ops->next_told(rig->store);
    CHECK(!rig->ops->is_quiet(rig->store, false)); /* being told */
    rig->ops->told(rig->store, rig->now, told);
    CHECK(rig->ops->is_quiet(rig->store, true));
}

STORE_TEST(the_oldest_of_a_queue_is_dropped_to_make_room) {
    uint16_t other = add_queue(rig, "other", 1, UINT32_MAX);
    PUT(rig, .queue = other);
    struct lw__task *urgent = PUT(rig, .priority = 1), *usual = PUT(rig, 0);
    struct lw__task *scheduled = PUT(rig, .due = rig->now + MS);
    CHECK(drop_oldest(rig));
    assert_state(urgent, LW_ABORTED);
    CHECK(last_error(urgent) != NULL);
    struct attempt attempt = claim_one(rig);
    CHECK(attempt.task);
    if (attempt.task != usual) { /* the other queue's turn */
        attempt = claim_one(rig);
        CHECK(attempt.task == usual);
    }
    CHECK(!drop_oldest(rig));
    assert_state(scheduled, LW_SCHEDULED);
    assert_state(usual, LW_ENQUEUED);
}
