/* The n-th allocation fails, for every operation of the store port that allocates and every n
 * until it passes. Each time: LW_ENOMEM and nothing has happened, or the operation did without;
 * nothing leaks, and the same again succeeds. */
#include "stores.h"

#include <string.h>

static bool has_failed; /* an allocation has, in this round */

/* Calls the body on a fresh store with n = 1, 2, 3 … until no allocation fails any more. The
 * body orders the failure and calls it off. Returns how many there were, of the store that had
 * fewest. */
static uint64_t until_clean(void (*body)(struct rig *rig, uint64_t nth)) {
    static struct rig rig;
    uint64_t fewest = UINT64_MAX;
    const char *urls[STORES_MAX];
    for (size_t i = 0; i < list_stores(urls); i++) {
        uint64_t nth = 0;
        do {
            CHECK(++nth < 200);
            has_failed = false;
            lw_test_memory *memory = open_memory();
            assert_status(
                try_open_rig(&rig, urls[i], &(struct rig_options){.task_limit = 0}, memory), LW_OK);
            rig.queue = add_queue(&rig, "default", 1, UINT32_MAX);
            rig.kind = add_kind(&rig, "mail", UINT32_MAX);
            body(&rig, nth);
            close_rig(&rig);
            close_memory(memory);
        } while (has_failed);
        fewest = nth - 1 < fewest ? nth - 1 : fewest;
    }
    return fewest;
}

static void call_off(struct rig *rig) {
    has_failed |= lw_test_memory_has_failed(rig->memory);
    lw_test_memory_fail_at(rig->memory, 0);
}

/* All figures of the store, to see that nothing has happened. */
struct figures {
    struct lw__store_figures store;
    struct lw__kind_figures kind;
    uint64_t scopes, dependencies, keys;
};

static struct figures figures_of(struct rig *rig) {
    struct figures f = {0};
    struct lw__index *index = rig->store->index;
    lw__index_figures(index, &f.store);
    lw__index_kind_figures(index, rig->kind, &f.kind, 1);
    f.scopes = index->scopes.count;
    f.dependencies = index->dependency_count;
    f.keys = index->keys.count;
    return f;
}

/* Field by field: what is between them may be anything. */
static void assert_unchanged(struct rig *rig, const struct figures *before) {
    struct figures now = figures_of(rig);
#define SAME(field) assert_int_equal(now.field, before->field)
    SAME(store.kind_count), SAME(store.queue_count), SAME(store.unfinished), SAME(store.bytes);
    SAME(store.reserve_used), SAME(store.existed), SAME(store.swept), SAME(store.untold);
    SAME(store.lingering), SAME(store.is_durable), SAME(store.is_halted), SAME(store.errors);
    SAME(store.committed_at), SAME(store.pending);
    SAME(kind.has_handler), SAME(kind.concurrency), SAME(kind.claimed), SAME(kind.created);
    SAME(kind.scheduled), SAME(kind.enqueued), SAME(kind.submitted), SAME(kind.finished);
    SAME(kind.failed), SAME(kind.aborted), SAME(kind.retried), SAME(kind.crashed);
    SAME(kind.snoozed), SAME(scopes), SAME(dependencies), SAME(keys);
#undef SAME
    assert_memory_equal(now.kind.retained, before->kind.retained, sizeof now.kind.retained);
    assert_string_equal(now.kind.name, before->kind.name);
}

/* Whether the call was refused for lack of memory, which calls the failure off. */
static bool was_refused(struct rig *rig, int rc, const struct figures *before) {
    call_off(rig);
    CHECK(has_failed || rc != LW_ENOMEM);
    if (rc == LW_ENOMEM)
        assert_unchanged(rig, before);
    return rc == LW_ENOMEM;
}

static void fail_at(struct rig *rig, uint64_t nth) {
    lw_test_memory_fail_at(rig->memory, nth);
}

/* ---- open --------------------------------------------------------------------------------- */

TEST(a_store_that_cannot_be_opened_says_so_and_leaves_nothing) {
    const char *urls[STORES_MAX];
    for (size_t i = 0; i < list_stores(urls); i++) {
        int rc = LW_ENOMEM;
        for (uint64_t nth = 1; rc == LW_ENOMEM; nth++) {
            static struct rig rig;
            lw_test_memory *memory = open_memory();
            lw_test_memory_fail_at(memory, nth);
            rc = try_open_rig(&rig, urls[i], &(struct rig_options){.task_limit = 0}, memory);
            CHECK(lw_test_memory_has_failed(memory) == (rc == LW_ENOMEM));
            if (rc == LW_OK)
                close_rig(&rig);
            close_memory(memory);
            CHECK(rc == LW_OK || rc == LW_ENOMEM);
        }
    }
}

static void name_things(struct rig *rig, uint64_t nth) {
    uint16_t kind, queue;
    fail_at(rig, nth);
    int of_kind = rig->ops->kind(rig->store, "other", &kind);
    int of_queue = rig->ops->queue(rig->store, "other", &queue);
    call_off(rig);
    CHECK((of_kind == LW_ENOMEM) + (of_queue == LW_ENOMEM) == has_failed);
    assert_status(rig->ops->kind(rig->store, "other", &kind), LW_OK);
    assert_status(rig->ops->queue(rig->store, "other", &queue), LW_OK);
    PUT(rig, .kind = kind, .queue = queue);
}

TEST(kinds_and_queues_without_memory_are_there_the_next_time) {
    CHECK(until_clean(name_things) >= 2);
}

/* ---- put ---------------------------------------------------------------------------------- */

enum { BATCH = 6 };

static void make_batch(struct rig *rig, struct lw__put *puts, uint64_t on, uint64_t scope,
                       uint64_t generation) {
    puts[0] = make_put(rig, WISH(.priority = 1, .is_taken = !is_durable(rig)));
    puts[1] = make_put(rig, WISH(.key = "a", .payload_size = 5));
    puts[2] = make_put(rig, WISH(.key = "b", .finish_by = rig->now + MS));
    puts[3] = make_put(rig, WISH(.due = rig->now + MS));
    puts[4] = make_put(rig, WISH(.scope = scope, .generation = generation));
    puts[5] = make_put(rig, WISH(.after = {on}));
}

static void drop_batch(struct rig *rig, struct lw__put *puts) {
    for (int i = 0; i < BATCH; i++)
        drop_put(rig, &puts[i]);
}

static void put_batch(struct rig *rig, uint64_t nth) {
    struct lw__put puts[BATCH];
    struct lw__scope_copy scope = {.bytes = NULL};
    uint64_t on = PUT(rig, .due = rig->now + MS)->id;
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("x"), NULL, 0, &scope),
                  LW_OK);
    make_batch(rig, puts, on, scope.id, scope.generation);
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = rig->ops->put(rig->store, rig->now, puts, BATCH);
    if (was_refused(rig, rc, &before)) {
        drop_batch(rig, puts);
        make_batch(rig, puts, on, scope.id, scope.generation);
        rc = rig->ops->put(rig->store, rig->now, puts, BATCH);
    }
    assert_status(rc, LW_OK);
    for (int i = 0; i < BATCH; i++)
        assert_status(puts[i].status, LW_OK);
    assert_int_equal(figures_of(rig).kind.submitted, before.kind.submitted + BATCH);
}

TEST(a_batch_without_memory_is_refused_whole_and_the_next_is_not) {
    CHECK(until_clean(put_batch) >= 5);
}

/* ---- settle ------------------------------------------------------------------------------- */

static struct lw__put successors[2];

static void make_successors(struct rig *rig) {
    successors[0] = make_put(rig, WISH(.scope = LW__SCOPE_THIS, .key = "n"));
    successors[1] = make_put(rig, WISH(.key = "m", .payload_size = 9));
}

static void settle_one(struct rig *rig, uint64_t nth) {
    struct lw__scope_copy scope = {.bytes = NULL};
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("x"), NULL, 0, &scope),
                  LW_OK);
    struct lw__task *task = PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct attempt attempt = start_this(rig, task);
    struct lw__task *sibling = PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct lw__scope_change change = {
        .action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = LW_TEXT("moved")};
    struct lw__settlement s = {.verdict = LW__VERDICT_FINISH,
                               .has_result = true,
                               .result = LW_TEXT("42"),
                               .successors = successors,
                               .successor_count = 2,
                               .scope = &change};
    make_successors(rig);
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = settle(rig, attempt, &s);
    if (was_refused(rig, rc, &before)) {
        assert_state(task, LW_STARTED);
        assert_state(sibling, LW_ENQUEUED);
        drop_put(rig, &successors[0]);
        drop_put(rig, &successors[1]);
        make_successors(rig);
        rc = settle(rig, attempt, &s);
    }
    assert_status(rc, LW_OK);
    assert_state(task, LW_FINISHED);
    assert_state(sibling, LW_ABORTED);
    assert_state(successors[0].task, LW_ENQUEUED);
    assert_state(successors[1].task, LW_ENQUEUED);
}

TEST(an_outcome_without_memory_is_not_applied_and_the_next_is) {
    CHECK(until_clean(settle_one) >= 4);
}

/* A task whose successor has its own key. */
static void settle_own_key(struct rig *rig, uint64_t nth) {
    struct lw__task *task = PUT(rig, .key = "own");
    struct attempt attempt = start_this(rig, task);
    for (int i = 0; i < 2; i++) /* not so few that the next ones need no memory */
        PUT(rig, .due = rig->now + MS);
    successors[0] = make_put(rig, WISH(.key = "own"));
    successors[1] = make_put(rig, WISH(.after = {task->id}));
    struct lw__settlement s = {
        .verdict = LW__VERDICT_FINISH, .successors = successors, .successor_count = 2};
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = settle(rig, attempt, &s);
    if (was_refused(rig, rc, &before)) {
        assert_status(TRY_PUT(rig, .key = "own"), LW_EXISTS);
        drop_put(rig, &successors[0]);
        drop_put(rig, &successors[1]);
        successors[0] = make_put(rig, WISH(.key = "own"));
        successors[1] = make_put(rig, WISH(.after = {task->id}));
        rc = settle(rig, attempt, &s);
    }
    assert_status(rc, LW_OK);
    assert_status(successors[0].status, LW_OK);
    assert_state(task, LW_FINISHED);
}

TEST(a_task_has_its_key_again_if_there_was_no_memory_for_its_successors) {
    CHECK(until_clean(settle_own_key) >= 1);
}

/* What must not fail does not: errors are told without their last words. */
static void end_all(struct rig *rig, uint64_t nth) {
    struct lw__task *fails = PUT(rig, 0), *aborts = PUT(rig, .key = "a"), *waits;
    struct attempt attempt = start_this(rig, fails);
    waits = PUT(rig, .after = {fails->id});
    fail_at(rig, nth);
    assert_status(
        SETTLE(rig, attempt, .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_ERROR, .text = "no"),
        LW_OK);
    assert_status(change(rig, aborts->id, LW__CHANGE_CANCEL), LW_OK);
    assert_state(fails, LW_FAILED);
    assert_state(aborts, LW_ABORTED);
    assert_state(waits, LW_ABORTED);
    assert_status(change(rig, fails->id, LW__CHANGE_FORGET), LW_OK);
    call_off(rig);
    assert_empty(rig);
}

TEST(ends_need_no_memory) {
    CHECK(until_clean(end_all) >= 2);
}

/* ---- publish ------------------------------------------------------------------------------ */

static void publish_one(struct rig *rig, uint64_t nth) {
    struct attempt attempt = {PUT(rig, 0), 0};
    attempt = start_one(rig);
    struct lw__publication publication = {.has_progress = true, .done = 7, .text = "x"};
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = rig->ops->publish(rig->store, attempt.task, attempt.token, &publication);
    if (was_refused(rig, rc, &before)) {
        assert_null(lw__see(&attempt.task->output));
        rc = rig->ops->publish(rig->store, attempt.task, attempt.token, &publication);
    }
    assert_status(rc, LW_OK);
    assert_int_equal(lw__see(&attempt.task->output)->done, 7);
}

TEST(a_publication_without_memory_is_refused_and_the_next_is_not) {
    CHECK(until_clean(publish_one) >= 1);
}

/* ---- scopes ------------------------------------------------------------------------------- */

static void open_one(struct rig *rig, uint64_t nth) {
    struct lw__put one = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    struct lw__scope_copy copy = {.bytes = NULL};
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("x"), &one, 1, &copy);
    if (was_refused(rig, rc, &before)) {
        assert_status(rig->ops->scope_find(rig->store, "s", &copy), LW_ENOTFOUND);
        drop_put(rig, &one);
        one = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
        rc = rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("x"), &one, 1, &copy);
    }
    assert_status(rc, LW_OK);
    assert_state(one.task, LW_ENQUEUED);
    assert_int_equal(copy.task_count, 1);
}

TEST(a_scope_without_memory_is_not_there_and_the_next_is) {
    CHECK(until_clean(open_one) >= 4);
}

static void move_one(struct rig *rig, uint64_t nth) {
    struct lw__scope_copy scope = {.bytes = NULL}, after = {.bytes = NULL};
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT("x"), NULL, 0, &scope),
                  LW_OK);
    struct lw__task *runs = PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct attempt attempt = start_this(rig, runs);
    struct lw__task *waits = PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct lw__put one = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
    struct lw__scope_change change = {
        .action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = LW_TEXT("moved")};
    struct figures before = figures_of(rig);
    fail_at(rig, nth);
    int rc = rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, &one, 1);
    if (was_refused(rig, rc, &before)) {
        assert_status(rig->ops->scope_find(rig->store, "s", &after), LW_OK);
        assert_int_equal(after.generation, scope.generation);
        assert_int_equal(after.task_count, 2);
        assert_state(waits, LW_ENQUEUED);
        assert_int_equal(rig->cancels, 0);
        drop_put(rig, &one);
        one = make_put(rig, WISH(.scope = LW__SCOPE_THIS));
        rc = rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, &one, 1);
    }
    assert_status(rc, LW_OK);
    assert_state(waits, LW_ABORTED);
    assert_state(one.task, LW_CREATED);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_state(one.task, LW_ENQUEUED);
}

TEST(a_move_without_memory_has_not_happened_and_the_next_has) {
    CHECK(until_clean(move_one) >= 2);
}
