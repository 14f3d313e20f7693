/* Leases: attempts that somebody else runs. Who gets what, when it ends, what is refused, and what
 * is there after a restart. */
#include "stores.h"

#include <stdio.h>
#include <string.h>

enum { LEASE = 100 }; /* ms */

/* A kind that nobody handles here, and its options. */
static uint16_t add_remote(struct rig *rig, const char *name, uint32_t concurrency,
                           uint32_t crashes) {
    uint16_t kind;
    struct lw__kind_options o = {
        .concurrency = concurrency, .crashes = crashes, .max_age_ns = UINT64_MAX};
    for (int i = 0; i < 3; i++)
        o.retention[i] = (struct lw__retention_settings){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    assert_status(rig->ops->kind(rig->store, name, &kind), LW_OK);
    rig->ops->set_kind(rig->store, kind, &o);
    return kind;
}

static uint16_t remote(struct rig *rig) {
    return add_remote(rig, "remote", UINT32_MAX, 2);
}

static int sync_store(struct rig *rig) {
    return rig->ops->flush ? rig->ops->flush(rig->store) : LW_OK;
}

static uint32_t lease_from(struct rig *rig, struct lw__lease_claim *claim) {
    claim->holder = claim->holder ? claim->holder : "worker 7";
    claim->until = claim->until ? claim->until : rig->now + (uint64_t)LEASE * MS;
    assert_status(rig->ops->lease(rig->store, rig->now, claim), LW_OK);
    assert_status(sync_store(rig), LW_OK);
    return claim->count;
}

static struct lw__leased lease_one(struct rig *rig) {
    struct lw__leased leased = {0};
    struct lw__lease_claim claim = {.max = 1, .leased = &leased};
    lease_from(rig, &claim);
    return leased;
}

#define SETTLE_LEASE(rig, leased, ...) \
    settle_lease((rig), (leased), &(struct lw__settlement){__VA_ARGS__})
static int settle_lease(struct rig *rig, struct lw__leased leased, struct lw__settlement *s) {
    s->is_leased = true;
    s->id = leased.id;
    s->token = leased.token;
    rig->ops->settle(rig->store, rig->now, s, 1);
    assert_status(sync_store(rig), LW_OK);
    return s->status;
}

static void sweep(struct rig *rig) {
    rig->ops->sweep(rig->store, rig->now);
}

static void view(const struct lw__task *task, struct lw__task_view *out) {
    memset(out, 0, sizeof *out);
    lw__task_view(task, out);
}

/* ---- claim -------------------------------------------------------------------------------- */

STORE_TEST(a_lease_is_given_of_what_has_no_handler_here_and_of_nothing_else) {
    uint16_t kind = remote(rig);
    struct lw__task *own = PUT(rig, 0), *task = PUT(rig, .kind = kind, .payload_size = 5);
    struct lw__leased leased[4];
    struct lw__lease_claim claim = {.max = 4, .leased = leased};
    assert_int_equal(lease_from(rig, &claim), 1);
    assert_int_equal(leased[0].id, task->id);
    assert_state(task, LW_STARTED);
    assert_int_equal(lw__see(&task->token), leased[0].token);
    assert_int_equal(lw__see(&task->attempts), 1);
    const struct lw__lease *lease = lw__lease_find(rig->store->index, task->id);
    assert_string_equal(lease->holder, "worker 7");
    assert_int_equal(lease->until, rig->now + LEASE * MS);
    assert_state(own, LW_ENQUEUED);
    assert_int_equal(run_next(rig), own->id);
    assert_null(claim_one(rig).task); /* no worker of this process gets it */
    assert_status(SETTLE_LEASE(rig, leased[0], .verdict = LW__VERDICT_FINISH), LW_OK);
    assert_state(task, LW_FINISHED);
    assert_null(lw__lease_find(rig->store->index, task->id));
    assert_empty(rig);
}

STORE_TEST(leases_are_given_in_order_over_kinds_and_queues) {
    uint16_t a = remote(rig), b = add_remote(rig, "other", UINT32_MAX, 3);
    uint16_t slow = add_queue(rig, "slow", 1, UINT32_MAX);
    uint64_t ids[5];
    ids[3] = PUT(rig, .kind = a)->id;
    ids[4] = PUT(rig, .kind = b, .queue = slow)->id;
    ids[1] = PUT(rig, .kind = b, .priority = 5)->id;
    ids[2] = PUT(rig, .kind = a, .priority = 5, .queue = slow)->id;
    ids[0] = PUT(rig, .kind = a, .priority = 1)->id;
    struct lw__leased leased[5];
    struct lw__lease_claim claim = {.max = 5, .leased = leased};
    assert_int_equal(lease_from(rig, &claim), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(leased[i].id, ids[i]);
        if (i > 0)
            CHECK(leased[i].token > leased[i - 1].token);
        assert_status(SETTLE_LEASE(rig, leased[i], .verdict = LW__VERDICT_FINISH), LW_OK);
    }
    assert_empty(rig);
}

STORE_TEST(a_claim_gets_only_the_queues_and_kinds_that_it_names) {
    uint16_t a = remote(rig), b = add_remote(rig, "other", UINT32_MAX, 3);
    uint16_t slow = add_queue(rig, "slow", 1, UINT32_MAX);
    uint64_t there = PUT(rig, .kind = b, .queue = slow)->id;
    PUT(rig, .kind = a, .queue = slow);
    PUT(rig, .kind = b);
    struct lw__leased leased[4];
    struct lw__lease_claim claim = {.max = 4,
                                    .leased = leased,
                                    .queues = &slow,
                                    .queue_count = 1,
                                    .kinds = &b,
                                    .kind_count = 1};
    assert_int_equal(lease_from(rig, &claim), 1);
    assert_int_equal(leased[0].id, there);
    assert_int_equal(lease_from(rig, &claim), 0);
    claim.queue_count = 0;
    assert_int_equal(lease_from(rig, &claim), 1);
    claim.kind_count = 0;
    assert_int_equal(lease_from(rig, &claim), 1);
}

STORE_TEST(a_paused_queue_and_a_kind_at_its_limit_give_no_leases) {
    uint16_t kind = add_remote(rig, "two", 2, 3);
    for (int i = 0; i < 4; i++)
        PUT(rig, .kind = kind);
    assert_status(rig->ops->pause(rig->store, "default", true), LW_OK);
    assert_int_equal(lease_one(rig).id, 0);
    assert_status(rig->ops->pause(rig->store, "default", false), LW_OK);
    struct lw__leased leased[4];
    struct lw__lease_claim claim = {.max = 4, .leased = leased};
    assert_int_equal(lease_from(rig, &claim), 2);
    assert_int_equal(lease_one(rig).id, 0);
    assert_status(SETTLE_LEASE(rig, leased[0], .verdict = LW__VERDICT_FINISH), LW_OK);
    CHECK(lease_one(rig).id != 0);
    assert_int_equal(lease_one(rig).id, 0);
}

STORE_TEST(a_store_that_stops_gives_no_leases_but_takes_what_becomes_of_them) {
    uint16_t kind = remote(rig);
    PUT(rig, .kind = kind);
    PUT(rig, .kind = kind);
    struct lw__leased leased = lease_one(rig), none;
    struct lw__lease_claim claim = {
        .holder = "w", .until = rig->now + MS, .max = 1, .leased = &none};
    rig->ops->restrain(rig->store, LW__STORE_NO_PUT | LW__STORE_NO_CLAIM);
    assert_status(rig->ops->lease(rig->store, rig->now, &claim), LW_ESTOPPING);
    CHECK(rig->ops->is_quiet(rig->store, true)); /* nobody waits for it */
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_OK);
}

STORE_TEST(there_are_never_more_leases_than_there_may_be) {
    struct lw__leased leased;
    struct lw__lease_claim claim = {
        .holder = "w", .until = rig->now + MS, .max = 1, .leased = &leased};
    struct lw__task *task = PUT(rig, .kind = remote(rig));
    rig->store->index->leases.count += LW__LEASES_MAX; /* as if there were so many */
    assert_status(rig->ops->lease(rig->store, rig->now, &claim), LW_EFULL);
    rig->store->index->leases.count -= LW__LEASES_MAX;
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lease_one(rig).id, task->id);
}

/* ---- in the step that puts ------------------------------------------------------------------ */

#define PUT_FOR(rig, holder_name, ...) \
    PUT(rig, .holder = (holder_name), .lease_ms = LEASE, __VA_ARGS__)

STORE_TEST(a_task_is_leased_in_the_step_that_puts_it_to_whoever_waits_for_it) {
    uint16_t kind = remote(rig);
    struct lw__task *task = PUT_FOR(rig, "w", .kind = kind, .key = "k", .payload_size = 5);
    assert_state(task, LW_STARTED);
    const struct lw__lease *lease = lw__lease_find(rig->store->index, task->id);
    assert_string_equal(lease->holder, "w");
    assert_int_equal(lease->token, lw__see(&task->token));
    assert_int_equal(lease->until, rig->now + LEASE * MS);
    assert_int_equal(lw__see(&task->attempts), 1);
    assert_int_equal(lease_one(rig).id, 0);
    assert_status(TRY_PUT(rig, .kind = kind, .key = "k", .holder = "v", .lease_ms = LEASE),
                  LW_EXISTS);
    struct lw__leased leased = {task->id, lw__see(&task->token)};
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_OK);
    assert_state(task, LW_FINISHED);
    assert_empty(rig);
}

STORE_TEST(a_lease_of_a_put_that_is_given_back_is_for_whoever_claims_it) {
    uint16_t kind = add_remote(rig, "one", 1, 2);
    struct lw__task *task = PUT_FOR(rig, "w", .kind = kind);
    struct lw__leased leased = {task->id, lw__see(&task->token)};
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_GIVE_BACK, .is_uncounted = true),
                  LW_OK);
    assert_state(task, LW_ENQUEUED);
    leased = lease_one(rig);
    assert_int_equal(leased.id, task->id);
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_OK);
    assert_empty(rig);
}

STORE_TEST(a_lease_of_a_put_runs_out_like_any_other) {
    struct lw__task *task = PUT_FOR(rig, "w", .kind = remote(rig));
    pass(rig, LEASE + 1);
    sweep(rig);
    assert_state(task, LW_ENQUEUED);
    assert_string_equal(last_error(task), "the lease of w ran out");
}

STORE_TEST(a_put_is_not_leased_where_others_come_first_or_it_cannot_run) {
    uint16_t kind = remote(rig), one = add_remote(rig, "one", 1, 2);
    uint16_t slow = add_queue(rig, "slow", 1, UINT32_MAX);
    struct lw__task *first = PUT(rig, .kind = kind, .priority = 5);
    assert_state(PUT_FOR(rig, "w", .kind = kind, .priority = 1), LW_ENQUEUED);
    struct lw__task *running = PUT_FOR(rig, "w", .kind = one, .queue = slow);
    assert_state(running, LW_STARTED); /* another queue */
    struct lw__task *second = PUT_FOR(rig, "w", .kind = one, .queue = slow);
    assert_state(second, LW_ENQUEUED); /* its kind is at its limit */
    assert_state(PUT_FOR(rig, "w", .kind = kind, .queue = slow, .due = rig->now + MS),
                 LW_SCHEDULED);
    assert_state(PUT_FOR(rig, "w", .kind = kind, .queue = slow, .after = {first->id}), LW_CREATED);
    struct lw__task *own = PUT_FOR(rig, "w", .queue = slow);
    assert_state(own, LW_ENQUEUED);
    assert_int_equal(run_next(rig), own->id); /* it has a handler here */
    assert_status(rig->ops->pause(rig->store, "slow", true), LW_OK);
    assert_state(PUT_FOR(rig, "w", .kind = kind, .queue = slow), LW_ENQUEUED);
    assert_status(rig->ops->pause(rig->store, "slow", false), LW_OK);
    struct lw__leased leased = {running->id, lw__see(&running->token)};
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_OK);
    struct lw__lease_claim claim = {.max = 1,
                                    .leased = &leased,
                                    .queues = &slow,
                                    .queue_count = 1,
                                    .kinds = &one,
                                    .kind_count = 1};
    assert_int_equal(lease_from(rig, &claim), 1);
    assert_int_equal(leased.id, second->id);
}

STORE_TEST(a_store_that_stops_or_has_all_leases_leases_no_put) {
    uint16_t kind = remote(rig);
    rig->store->index->leases.count += LW__LEASES_MAX; /* as if there were so many */
    struct lw__task *task = PUT_FOR(rig, "w", .kind = kind);
    rig->store->index->leases.count -= LW__LEASES_MAX;
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lease_one(rig).id, task->id);
    rig->ops->restrain(rig->store, LW__STORE_NO_CLAIM);
    assert_state(PUT_FOR(rig, "w", .kind = kind), LW_ENQUEUED);
}

STORE_TEST(a_lease_of_a_put_is_there_after_a_restart) {
    uint16_t kind = remote(rig);
    if (!is_durable(rig))
        return;
    struct lw__task *task = PUT_FOR(rig, "w", .kind = kind, .payload_size = 5);
    uint64_t id = task->id, token = lw__see(&task->token);
    reopen_rig(rig);
    remote(rig);
    assert_state(find(rig, id), LW_STARTED);
    assert_int_equal(lw__lease_find(rig->store->index, id)->token, token);
    assert_string_equal(lw__lease_find(rig->store->index, id)->holder, "w");
    CHECK(rig->store->index->last_token >= token); /* nobody else ever gets it */
}

/* ---- the end of a lease ------------------------------------------------------------------- */

STORE_TEST(a_lease_that_runs_out_is_charged_as_a_crash_until_the_budget_is_used_up) {
    uint16_t kind = remote(rig);
    struct lw__task *task = PUT(rig, .kind = kind);
    for (uint32_t i = 1; i <= 3; i++) {
        struct lw__leased leased = lease_one(rig);
        assert_int_equal(leased.id, task->id);
        pass(rig, LEASE - 1);
        sweep(rig);
        assert_state(task, LW_STARTED);
        pass(rig, 2);
        sweep(rig);
        assert_state(task, i < 3 ? LW_ENQUEUED : LW_FAILED);
        assert_int_equal(lw__see(&task->crashes), i);
        assert_int_equal(lw__see(&task->attempts), i);
        assert_string_equal(last_error(task), "the lease of worker 7 ran out");
        const struct lw__errors *errors = lw__see(&task->errors);
        assert_int_equal(errors->entries[errors->count - 1].fault, LW_FAULT_CRASH);
        assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    }
    assert_empty(rig);
}

STORE_TEST(a_task_that_is_too_old_has_failed_when_its_lease_runs_out) {
    uint16_t kind = remote(rig);
    struct lw__kind_options o = {
        .concurrency = UINT32_MAX, .crashes = 9, .max_age_ns = 3 * LEASE / 2 * (uint64_t)MS};
    for (int i = 0; i < 3; i++)
        o.retention[i] = (struct lw__retention_settings){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    rig->ops->set_kind(rig->store, kind, &o);
    struct lw__task *task = PUT(rig, .kind = kind);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(lease_one(rig).id, task->id);
        pass(rig, LEASE);
        sweep(rig);
        assert_state(task, i == 0 ? LW_ENQUEUED : LW_FAILED);
    }
    assert_empty(rig);
}

STORE_TEST(a_lease_that_is_extended_ends_later_and_never_earlier) {
    uint16_t kind = remote(rig);
    struct lw__task *task = PUT(rig, .kind = kind);
    struct lw__leased leased = lease_one(rig);
    for (int i = 0; i < 3; i++) {
        pass(rig, LEASE - 10);
        sweep(rig);
        assert_status(
            rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + LEASE * MS),
            LW_OK);
        assert_status(
            rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + MS), LW_OK);
        assert_status(sync_store(rig), LW_OK);
    }
    assert_state(task, LW_STARTED);
    pass(rig, LEASE + 1);
    sweep(rig);
    assert_state(task, LW_ENQUEUED);
    assert_status(
        rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + LEASE * MS),
        LW_ELEASE);
    assert_status(rig->ops->extend(rig->store, rig->now, 4711, 1, rig->now + MS), LW_ELEASE);
}

/* Nobody is told of a lease, or of its extension, before that is written. */
STORE_TEST(the_time_of_a_lease_begins_when_it_is_written) {
    uint16_t kind = remote(rig);
    struct lw__task *task = PUT(rig, .kind = kind);
    struct lw__leased leased;
    struct lw__lease_claim claim = {
        .max = 1, .leased = &leased, .holder = "w", .until = rig->now + (uint64_t)LEASE * MS};
    if (!is_durable(rig))
        return;
    assert_status(rig->ops->lease(rig->store, rig->now, &claim), LW_OK);
    for (int i = 0; i < 2; i++) {
        pass(rig, 5 * LEASE);
        sweep(rig); /* it is written at the end of this */
        pass(rig, LEASE - 1);
        sweep(rig);
        assert_state(task, LW_STARTED);
        assert_int_equal(lw__see(&task->crashes), 0);
        if (i == 0)
            assert_status(rig->ops->extend(rig->store, rig->now, leased.id, leased.token,
                                           rig->now + LEASE * MS),
                          LW_OK);
    }
    pass(rig, 2);
    sweep(rig);
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lw__see(&task->crashes), 1);
}

/* What is in the file for it is what its holder was told, not what it asked for. */
STORE_TEST(a_lease_that_was_long_in_being_written_is_all_there_after_a_restart) {
    uint16_t kind = remote(rig);
    uint64_t id = PUT(rig, .kind = kind)->id;
    struct lw__leased leased;
    struct lw__lease_claim claim = {
        .max = 1, .leased = &leased, .holder = "w", .until = rig->now + (uint64_t)LEASE * MS};
    if (!is_durable(rig))
        return;
    assert_status(rig->ops->lease(rig->store, rig->now, &claim), LW_OK);
    pass(rig, 5 * LEASE);
    assert_status(sync_store(rig), LW_OK);
    reopen_rig(rig);
    remote(rig);
    pass(rig, LEASE - 10);
    sweep(rig);
    assert_state(find(rig, id), LW_STARTED);
    pass(rig, 20);
    sweep(rig);
    assert_state(find(rig, id), LW_ENQUEUED);
}

STORE_TEST(nothing_of_a_lost_lease_is_applied) {
    uint16_t kind = remote(rig);
    struct lw__task *task = PUT(rig, .kind = kind);
    struct lw__leased stale = lease_one(rig);
    pass(rig, LEASE + 1);
    sweep(rig);
    struct lw__leased present = lease_one(rig);
    assert_int_equal(present.id, stale.id);
    struct lw__task_view before, after;
    view(task, &before);
    struct lw__publication lies = {.is_leased = true,
                                   .has_progress = true,
                                   .text = "lies",
                                   .has_checkpoint = true,
                                   .checkpoint = LW_TEXT("lies")};
    assert_status(rig->ops->publish_leased(rig->store, rig->now, stale.id, stale.token, &lies),
                  LW_ELEASE);
    assert_status(
        rig->ops->extend(rig->store, rig->now, stale.id, stale.token, rig->now + 9 * LEASE * MS),
        LW_ELEASE);
    assert_int_equal(lw__lease_find(rig->store->index, stale.id)->until, rig->now + LEASE * MS);
    for (int verdict = LW__VERDICT_FINISH; verdict <= LW__VERDICT_ABORT; verdict++) {
        struct lw__put next = make_put(rig, WISH(.payload_size = 1));
        assert_status(SETTLE_LEASE(rig, stale, .verdict = (enum lw__verdict)verdict,
                                   .has_result = true, .result = LW_TEXT("lies"), .text = "lies",
                                   .successors = &next, .successor_count = 1),
                      LW_ELEASE);
        drop_put(rig, &next);
    }
    view(task, &after);
    assert_memory_equal(&before, &after, sizeof before);
    lies.checkpoint = LW_TEXT("true");
    assert_status(rig->ops->publish_leased(rig->store, rig->now, present.id, present.token, &lies),
                  LW_OK);
    assert_status(SETTLE_LEASE(rig, present, .verdict = LW__VERDICT_FINISH), LW_OK);
    lies.is_leased = true;
    assert_status(rig->ops->publish_leased(rig->store, rig->now, present.id, present.token, &lies),
                  LW_ENOTFOUND);
    assert_empty(rig);
}

/* What a worker of this process runs is not to be had by a lease, even if its token is known. */
STORE_TEST(an_attempt_of_a_worker_is_not_settled_by_a_lease) {
    struct attempt attempt = start_this(rig, PUT(rig, 0));
    struct lw__leased leased = {attempt.task->id, attempt.token};
    struct lw__publication publication = {.is_leased = true, .has_progress = true, .text = ""};
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_status(
        rig->ops->publish_leased(rig->store, rig->now, leased.id, leased.token, &publication),
        LW_ELEASE);
    assert_status(rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + MS),
                  LW_ELEASE);
    finish(rig, attempt);
    assert_empty(rig);
}

STORE_TEST(given_back_it_was_never_claimed_and_stands_where_it_stood) {
    uint16_t kind = remote(rig);
    struct lw__task *first = PUT(rig, .kind = kind), *second = PUT(rig, .kind = kind);
    struct lw__leased leased = lease_one(rig);
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_GIVE_BACK, .is_uncounted = true),
                  LW_OK);
    assert_int_equal(lw__see(&first->attempts), 0);
    assert_int_equal(lw__see(&first->crashes), 0);
    assert_null(lw__see(&first->errors));
    pass(rig, 2 * LEASE);
    sweep(rig);
    assert_state(first, LW_ENQUEUED);
    assert_int_equal(lease_one(rig).id, first->id);
    assert_int_equal(lease_one(rig).id, second->id);
}

STORE_TEST(a_cancelled_lease_is_told_so_and_ends_aborted) {
    uint16_t kind = remote(rig);
    struct lw__task *retried = PUT(rig, .kind = kind), *lost = PUT(rig, .kind = kind);
    struct lw__leased leased = lease_one(rig);
    lease_one(rig);
    assert_status(change(rig, retried->id, LW__CHANGE_CANCEL), LW_PENDING);
    assert_status(change(rig, lost->id, LW__CHANGE_CANCEL), LW_PENDING);
    assert_status(
        rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + LEASE * MS),
        LW_PENDING);
    assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + MS),
                  LW_OK);
    assert_state(retried, LW_ABORTED);
    pass(rig, LEASE + 1);
    sweep(rig);
    assert_state(lost, LW_ABORTED);
    assert_empty(rig);
}

/* ---- scopes ------------------------------------------------------------------------------- */

static struct lw__scope_copy scope_named(struct rig *rig, const char *name) {
    struct lw__scope_copy copy = {.capacity = 0};
    assert_status(rig->ops->scope_find(rig->store, name, &copy), LW_OK);
    return copy;
}

static uint64_t move_scope(struct rig *rig, uint64_t id) {
    struct lw__scope_change move = {.action = LW__SCOPE_MOVE};
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, 0, &move, NULL, 0), LW_OK);
    return move.new_generation;
}

/* The fence waits for whoever has the lease: until it settles, or has lost it. */
static void fence_a_lease(struct rig *rig, bool is_lost, bool is_reopened) {
    uint16_t kind = remote(rig);
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, "site", (lw_bytes){NULL, 0}, NULL, 0, NULL),
        LW_OK);
    struct lw__scope_copy scope = scope_named(rig, "site");
    PUT(rig, .kind = kind, .scope = scope.id, .generation = scope.generation);
    struct lw__leased leased = lease_one(rig);
    uint64_t generation = move_scope(rig, scope.id);
    uint64_t held = PUT(rig, .kind = kind, .scope = scope.id, .generation = generation)->id;
    if (is_reopened) {
        reopen_rig(rig);
        kind = remote(rig);
    }
    assert_state(find(rig, held), LW_CREATED);
    assert_int_equal(scope_named(rig, "site").open, 1);
    assert_int_equal(lease_one(rig).id, 0);
    assert_status(
        rig->ops->extend(rig->store, rig->now, leased.id, leased.token, rig->now + 9 * LEASE * MS),
        LW_ELEASE);
    if (is_lost) {
        pass(rig, LEASE + 1);
        sweep(rig);
    } else {
        assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    }
    assert_state(find(rig, leased.id), LW_ABORTED);
    assert_state(find(rig, held), LW_ENQUEUED);
    assert_int_equal(scope_named(rig, "site").is_unclean, is_lost);
    assert_int_equal(lw__task_spec(find(rig, held))->member->is_unclean, is_lost);
}

/* Whoever had it has completed it in a transaction of its own, and its scope has not heard of it:
 * the lease ends all the same, and the next attempt tells. */
static void end_done(struct rig *rig, bool is_lost) {
    uint16_t kind = remote(rig);
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, "site", (lw_bytes){NULL, 0}, NULL, 0, NULL),
        LW_OK);
    struct lw__scope_copy scope = scope_named(rig, "site");
    PUT(rig, .kind = kind, .scope = scope.id, .generation = scope.generation);
    struct lw__leased leased = lease_one(rig);
    find(rig, leased.id)->notes |= LW__NOTE_DONE;
    if (is_lost) {
        pass(rig, LEASE + 1);
        sweep(rig);
    } else {
        assert_status(SETTLE_LEASE(rig, leased, .verdict = LW__VERDICT_FAIL,
                                   .fault = LW_FAULT_ERROR, .text = "no"),
                      LW_OK);
    }
    assert_state(find(rig, leased.id), LW_ENQUEUED);
    assert_int_equal(lw__see(&find(rig, leased.id)->attempts), 0);
    assert_int_equal(lease_one(rig).id, leased.id);
}

STORE_TEST(a_lease_of_something_done_ends_when_it_runs_out) {
    end_done(rig, true);
}

STORE_TEST(a_lease_of_something_done_ends_when_it_is_settled) {
    end_done(rig, false);
}

STORE_TEST(a_fence_waits_until_the_lease_is_settled) {
    fence_a_lease(rig, false, false);
}

STORE_TEST(a_fence_opens_unclean_when_the_lease_was_lost) {
    fence_a_lease(rig, true, false);
}

STORE_TEST(a_fence_stands_after_a_restart_until_the_lease_is_settled) {
    if (is_durable(rig))
        fence_a_lease(rig, false, true);
}

STORE_TEST(a_fence_stands_after_a_restart_until_the_lease_is_lost) {
    if (is_durable(rig))
        fence_a_lease(rig, true, true);
}

/* ---- restart ------------------------------------------------------------------------------ */

STORE_TEST(a_lease_is_there_when_the_store_is_opened_again) {
    uint16_t kind = remote(rig);
    uint64_t ids[3];
    struct lw__leased leased[3];
    for (int i = 0; i < 3; i++)
        ids[i] = PUT(rig, .kind = kind, .key = (char[]){(char)('a' + i), 0})->id;
    struct lw__lease_claim claim = {.max = 2, .leased = leased};
    assert_int_equal(lease_from(rig, &claim), 2);
    assert_status(
        rig->ops->extend(rig->store, rig->now, ids[0], leased[0].token, rig->now + 3 * LEASE * MS),
        LW_OK);
    assert_status(sync_store(rig), LW_OK);
    assert_status(change(rig, ids[0], LW__CHANGE_CANCEL), LW_PENDING);
    assert_status(sync_store(rig), LW_OK);
    if (!is_durable(rig))
        return;
    for (int round = 0; round < 2; round++) {
        reopen_rig(rig);
        remote(rig);
        struct lw__task *task = find(rig, ids[0]);
        assert_state(task, LW_STARTED);
        assert_int_equal(lw__see(&task->token), leased[0].token);
        assert_int_equal(lw__see(&task->attempts), 1);
        assert_int_equal(lw__see(&task->crashes), 0);
        CHECK(lw__task_flags(task) & LW__TASK_CANCELLING);
        assert_string_equal(lw__lease_find(rig->store->index, ids[0])->holder, "worker 7");
        assert_state(find(rig, ids[2]), LW_ENQUEUED);
    }
    pass(rig, LEASE + 1); /* the second has run out */
    sweep(rig);
    assert_state(find(rig, ids[1]), LW_ENQUEUED);
    assert_int_equal(lw__see(&find(rig, ids[1])->crashes), 1);
    assert_state(find(rig, ids[0]), LW_STARTED);
    struct lw__leased next = lease_one(rig);
    CHECK(next.id == ids[2] && next.token > leased[1].token); /* it was due before that */
    assert_status(SETTLE_LEASE(rig, leased[0], .verdict = LW__VERDICT_FINISH), LW_OK);
    assert_status(SETTLE_LEASE(rig, leased[1], .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    reopen_rig(rig);
    assert_state(find(rig, ids[0]), LW_FINISHED);
    assert_state(find(rig, ids[1]), LW_ENQUEUED);
    assert_state(find(rig, ids[2]), LW_STARTED);
    assert_int_equal(lw__see(&find(rig, ids[1])->crashes), 1);
}

STORE_TEST(a_lease_that_ended_is_not_there_when_the_store_is_opened_again) {
    uint16_t kind = remote(rig);
    static const enum lw__verdict verdicts[] = {LW__VERDICT_FINISH, LW__VERDICT_POSTPONE,
                                                LW__VERDICT_GIVE_BACK, LW__VERDICT_FAIL};
    static const lw_state states[] = {LW_FINISHED, LW_SCHEDULED, LW_ENQUEUED, LW_FAILED};
    uint64_t ids[4];
    if (!is_durable(rig))
        return;
    for (int i = 0; i < 4; i++)
        ids[i] = PUT(rig, .kind = kind)->id;
    for (int i = 0; i < 4; i++) {
        struct lw__leased leased = lease_one(rig);
        assert_int_equal(leased.id, ids[i]);
        assert_status(SETTLE_LEASE(rig, leased, .verdict = verdicts[i],
                                   .due = rig->now + 1000 * (uint64_t)MS),
                      LW_OK);
        if (verdicts[i] == LW__VERDICT_GIVE_BACK) /* and once more, at once */
            assert_int_equal(lease_one(rig).id, ids[i]);
    }
    reopen_rig(rig);
    for (int i = 0; i < 4; i++)
        assert_state(find(rig, ids[i]), i == 2 ? LW_STARTED : states[i]);
    assert_int_equal(rig->store->index->leases.count, 1);
}

STORE_TEST(a_lease_does_not_grow_when_the_clock_is_set_back) {
    enum { DAY = 86400000 };
    uint16_t kind = remote(rig);
    if (!is_durable(rig))
        return;
    PUT(rig, .kind = kind);
    PUT(rig, .kind = kind);
    struct lw__leased brief = lease_one(rig), often = lease_one(rig);
    for (int days = 1; days <= 3; days++) {
        uint64_t until = rig->now + (uint64_t)days * DAY * MS;
        assert_status(rig->ops->extend(rig->store, rig->now, often.id, often.token, until), LW_OK);
    }
    assert_status(sync_store(rig), LW_OK);
    lw_test_clock_set_wall(rig->clock, lw__wall_ms(rig->clock) - INT64_C(10) * DAY);
    reopen_rig(rig);
    uint64_t ends = lw__lease_find(rig->store->index, brief.id)->until;
    assert_int_equal(ends, rig->now + (uint64_t)LEASE * MS);
    ends = lw__lease_find(rig->store->index, often.id)->until;
    assert_int_equal(ends, rig->now + (uint64_t)DAY * MS); /* no lease is longer */
}
