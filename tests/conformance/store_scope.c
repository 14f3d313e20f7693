/* Scopes: what is put, settled and published for a generation; the move, and the fence that it
 * puts up; what a change does at once or not at all. */
#include "stores.h"

#include <string.h>

#define THIS .scope = LW__SCOPE_THIS

static struct lw__scope_copy look(struct rig *rig, const char *name) {
    struct lw__scope_copy copy = {.bytes = NULL};
    assert_status(rig->ops->scope_find(rig->store, name, &copy), LW_OK);
    return copy;
}

static bool is_there(struct rig *rig, const char *name) {
    struct lw__scope_copy copy = {.bytes = NULL};
    return rig->ops->scope_find(rig->store, name, &copy) == LW_OK;
}

static void assert_bytes(struct rig *rig, const char *name, const char *text) {
    char bytes[LW__SCOPE_BYTES_MAX];
    struct lw__scope_copy copy = {.bytes = bytes, .capacity = sizeof bytes};
    assert_status(rig->ops->scope_find(rig->store, name, &copy), LW_OK);
    assert_int_equal(copy.size, strlen(text));
    assert_memory_equal(bytes, text, copy.size);
}

/* Opens a scope, with one task in it if `task` is not NULL. */
static struct lw__scope_copy open_scope(struct rig *rig, const char *name, struct lw__task **task) {
    struct lw__put one = make_put(rig, WISH(THIS));
    struct lw__scope_copy copy = {.bytes = NULL};
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, name, LW_TEXT("new"), &one, task ? 1 : 0, &copy),
        LW_OK);
    if (task)
        *task = one.task;
    else
        drop_put(rig, &one);
    return copy;
}

/* Moves it, with one task of the new generation if `task` is not NULL. The generation. */
static uint64_t move_scope(struct rig *rig, uint64_t scope, struct lw__task **task) {
    struct lw__put one = make_put(rig, WISH(THIS));
    struct lw__scope_change change = {
        .action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = LW_TEXT("moved")};
    assert_status(
        rig->ops->scope_change(rig->store, rig->now, scope, 0, &change, &one, task ? 1 : 0), LW_OK);
    if (task)
        *task = one.task;
    else
        drop_put(rig, &one);
    return change.new_generation;
}

static int act(struct rig *rig, uint64_t scope, enum lw__scope_action action) {
    struct lw__scope_change change = {.action = action};
    return rig->ops->scope_change(rig->store, rig->now, scope, 0, &change, NULL, 0);
}

static bool is_unclean(const struct lw__task *task) {
    return lw__task_spec(task)->member->is_unclean;
}

/* ---- open --------------------------------------------------------------------------------- */

STORE_TEST(a_scope_and_its_first_task_come_together) {
    struct lw__task *task;
    struct lw__scope_copy scope = open_scope(rig, "site/1", &task);
    CHECK(scope.id > 0 && scope.generation > 0 && scope.version > 0);
    assert_string_equal(scope.name, "site/1");
    assert_int_equal(scope.task_count, 1);
    assert_int_equal(scope.open, 0);
    assert_int_equal(rig->scope_changed, scope.id);
    assert_bytes(rig, "site/1", "new");
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lw__task_spec(task)->member->scope, scope.id);
    assert_int_equal(lw__task_spec(task)->member->generation, scope.generation);
    assert_int_equal(rig->move_count, is_durable(rig) ? 2 : 1); /* only the disk has held it */
    assert_int_equal(run_next(rig), task->id);
    assert_int_equal(look(rig, "site/1").task_count, 0);
}

STORE_TEST(a_name_is_there_once_and_the_one_that_has_it_is_shown) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL), other = {.bytes = NULL};
    struct lw__put one = make_put(rig, WISH(THIS));
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, "a", LW_TEXT("other"), &one, 1, &other),
        LW_EXISTS);
    assert_int_equal(other.id, scope.id);
    assert_int_equal(other.generation, scope.generation);
    assert_bytes(rig, "a", "new");
    assert_null(claim_one(rig).task);
    drop_put(rig, &one);
    CHECK(open_scope(rig, "b", NULL).generation > scope.generation);
}

STORE_TEST_WITH(a_scope_whose_tasks_are_refused_is_not_there, .task_limit = 1) {
    struct lw__put two[] = {make_put(rig, WISH(THIS)), make_put(rig, WISH(THIS))};
    assert_status(rig->ops->scope_open(rig->store, rig->now, "a", LW_TEXT(""), two, 2, NULL),
                  LW_EFULL);
    CHECK(!is_there(rig, "a"));
    assert_empty(rig);
    assert_status(rig->ops->scope_open(rig->store, rig->now, "a", LW_TEXT(""), two, 1, NULL),
                  LW_OK);
    drop_put(rig, &two[1]);
}

STORE_TEST(names_and_bytes_have_limits) {
    static char name[LW__SCOPE_NAME_MAX + 2], bytes[LW__SCOPE_BYTES_MAX + 1];
    lw_bytes most = {bytes, LW__SCOPE_BYTES_MAX}, more = {bytes, LW__SCOPE_BYTES_MAX + 1};
    memset(name, 'n', sizeof name - 1);
    assert_status(rig->ops->scope_open(rig->store, rig->now, "", most, NULL, 0, NULL), LW_EINVAL);
    assert_status(rig->ops->scope_open(rig->store, rig->now, name, most, NULL, 0, NULL), LW_EINVAL);
    name[LW__SCOPE_NAME_MAX] = 0;
    assert_status(rig->ops->scope_open(rig->store, rig->now, name, more, NULL, 0, NULL), LW_EINVAL);
    assert_status(rig->ops->scope_open(rig->store, rig->now, name, most, NULL, 0, NULL), LW_OK);
    struct lw__scope_copy scope = look(rig, name);
    assert_int_equal(scope.size, LW__SCOPE_BYTES_MAX);
    struct lw__scope_change change = {.has_bytes = true, .bytes = more};
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, NULL, 0),
                  LW_EINVAL);
    assert_int_equal(look(rig, name).version, scope.version);
}

STORE_TEST(a_copy_takes_what_fits) {
    char bytes[2] = "";
    struct lw__scope_copy copy = {.bytes = bytes, .capacity = 2};
    open_scope(rig, "a", NULL);
    assert_status(rig->ops->scope_find(rig->store, "a", &copy), LW_OK);
    assert_int_equal(copy.size, 3);
    assert_memory_equal(bytes, "ne", 2);
}

STORE_TEST(scopes_are_listed_by_id) {
    struct lw__scope_copy copy = {.bytes = NULL};
    uint64_t ids[3] = {open_scope(rig, "c", NULL).id, open_scope(rig, "a", NULL).id,
                       open_scope(rig, "b", NULL).id};
    assert_status(act(rig, ids[1], LW__SCOPE_CLOSE), LW_OK);
    assert_status(rig->ops->scope_next(rig->store, 0, &copy), LW_OK);
    assert_int_equal(copy.id, ids[0]);
    assert_status(rig->ops->scope_next(rig->store, copy.id, &copy), LW_OK);
    assert_int_equal(copy.id, ids[2]);
    assert_status(rig->ops->scope_next(rig->store, copy.id, &copy), LW_ENOTFOUND);
    assert_status(rig->ops->scope_next(rig->store, UINT64_MAX, &copy), LW_ENOTFOUND);
}

STORE_TEST(a_stopping_store_opens_no_scope_but_takes_what_is_settled) {
    struct lw__task *task;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    rig->ops->restrain(rig->store, LW__STORE_NO_PUT);
    struct lw__put one = make_put(rig, WISH(THIS));
    struct lw__scope_change change = {.action = LW__SCOPE_WRITE};
    assert_status(rig->ops->scope_open(rig->store, rig->now, "b", LW_TEXT(""), NULL, 0, NULL),
                  LW_ESTOPPING);
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, &one, 1),
                  LW_ESTOPPING);
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, NULL, 0),
                  LW_OK);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = &one,
                         .successor_count = 1, .scope = &change),
                  LW_OK);
}

/* ---- put ---------------------------------------------------------------------------------- */

STORE_TEST(a_put_is_for_the_present_generation) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    PUT(rig, .scope = scope.id, .generation = scope.generation);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = scope.generation - 1), LW_ELEASE);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = 0), LW_ELEASE);
    assert_status(TRY_PUT(rig, .scope = scope.id + 1, .generation = scope.generation), LW_ELEASE);
    assert_status(TRY_PUT(rig, THIS), LW_EINVAL);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = scope.generation, .is_taken = true),
                  LW_EINVAL);
    uint64_t generation = move_scope(rig, scope.id, NULL);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = scope.generation), LW_ELEASE);
    PUT(rig, .scope = scope.id, .generation = generation);
    assert_int_equal(look(rig, "a").task_count, 1);
}

STORE_TEST(a_batch_with_a_task_of_an_old_generation_is_refused_whole) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    struct lw__put puts[] = {
        make_put(rig, WISH(.scope = scope.id, .generation = scope.generation)),
        make_put(rig, WISH(.scope = scope.id, .generation = scope.generation - 1))};
    assert_status(rig->ops->put(rig->store, rig->now, puts, 2), LW_ELEASE);
    assert_int_equal(look(rig, "a").task_count, 0);
    assert_empty(rig);
    drop_put(rig, &puts[0]);
    drop_put(rig, &puts[1]);
}

STORE_TEST(a_scope_has_room_for_so_many_tasks_and_a_move_for_as_many_again) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    for (int i = 0; i < LW__SCOPE_TASKS_MAX; i++)
        PUT(rig, .scope = scope.id, .generation = scope.generation);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = scope.generation), LW_EFULL);
    CHECK(run_next(rig));
    PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct lw__task *held;
    move_scope(rig, scope.id, &held);
    assert_int_equal(look(rig, "a").task_count, 1);
    assert_int_equal(run_next(rig), held->id);
    assert_empty(rig);
}

/* ---- change ------------------------------------------------------------------------------- */

STORE_TEST(a_write_that_is_based_on_what_has_changed_is_refused) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    struct lw__scope_change mine = {
        .version = scope.version, .has_bytes = true, .bytes = LW_TEXT("mine")};
    struct lw__scope_change late = {
        .version = scope.version, .has_bytes = true, .bytes = LW_TEXT("late")};
    uint64_t id = scope.id, generation = scope.generation;
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, generation, &mine, NULL, 0),
                  LW_OK);
    assert_int_equal(mine.new_generation, generation);
    CHECK(mine.new_version > scope.version);
    struct lw__put one = make_put(rig, WISH(THIS));
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, generation, &late, &one, 1),
                  LW_ECHANGED);
    assert_bytes(rig, "a", "mine");
    assert_null(claim_one(rig).task);
    late.version = mine.new_version;
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, generation, &late, &one, 1),
                  LW_OK); /* the very same put */
    assert_bytes(rig, "a", "late");
    assert_int_equal(run_next(rig), one.id);
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, generation + 1, &late, NULL, 0),
                  LW_ELEASE);
    assert_status(rig->ops->scope_change(rig->store, rig->now, id + 1, 0, &late, NULL, 0),
                  LW_ENOTFOUND);
}

STORE_TEST(a_change_without_bytes_leaves_them) {
    uint64_t id = open_scope(rig, "a", NULL).id;
    assert_status(act(rig, id, LW__SCOPE_MOVE), LW_OK);
    assert_bytes(rig, "a", "new");
    struct lw__scope_change none = {.has_bytes = true};
    assert_status(rig->ops->scope_change(rig->store, rig->now, id, 0, &none, NULL, 0), LW_OK);
    assert_bytes(rig, "a", "");
}

STORE_TEST_WITH(a_move_whose_tasks_are_refused_has_not_happened, .task_limit = 2) {
    struct lw__task *waits;
    struct lw__scope_copy scope = open_scope(rig, "a", &waits), after;
    struct lw__put two[] = {make_put(rig, WISH(THIS)), make_put(rig, WISH(THIS))};
    struct lw__scope_change change = {
        .action = LW__SCOPE_MOVE, .has_bytes = true, .bytes = LW_TEXT("moved")};
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, two, 2),
                  LW_EFULL);
    after = look(rig, "a");
    assert_int_equal(after.generation, scope.generation);
    assert_int_equal(after.version, scope.version);
    assert_int_equal(after.task_count, 1);
    assert_bytes(rig, "a", "new");
    assert_state(waits, LW_ENQUEUED);
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &change, two, 1),
                  LW_OK);
    drop_put(rig, &two[1]);
    CHECK(change.new_generation > scope.generation);
    assert_state(waits, LW_ABORTED);
    assert_state(two[0].task, LW_ENQUEUED);
}

/* ---- settle ------------------------------------------------------------------------------- */

STORE_TEST(outcome_successors_and_bytes_are_one_step) {
    struct lw__task *task;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    struct lw__put next = make_put(rig, WISH(THIS));
    struct lw__scope_change change = {
        .version = scope.version + 1, .has_bytes = true, .bytes = LW_TEXT("flag")};
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = &next,
                         .successor_count = 1, .scope = &change),
                  LW_ECHANGED);
    assert_state(task, LW_STARTED);
    assert_bytes(rig, "a", "new");
    change.version = scope.version;
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = &next,
                         .successor_count = 1, .scope = &change),
                  LW_OK);
    assert_state(task, LW_FINISHED);
    assert_bytes(rig, "a", "flag");
    assert_state(next.task, LW_ENQUEUED);
    assert_int_equal(lw__task_spec(next.task)->member->generation, scope.generation);
    assert_int_equal(run_next(rig), next.id);
    assert_empty(rig);
}

STORE_TEST(successors_of_a_scope_need_no_change_and_a_change_needs_a_scope) {
    struct lw__task *task, *plain = PUT(rig, .priority = 1);
    open_scope(rig, "a", &task);
    struct lw__scope_change change = {.action = LW__SCOPE_WRITE};
    struct attempt attempt = start_this(rig, plain);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .scope = &change), LW_EINVAL);
    struct lw__put next = make_put(rig, WISH(THIS));
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = &next,
                         .successor_count = 1),
                  LW_EINVAL);
    assert_state(plain, LW_STARTED);
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FINISH,
                         .successors = &next, .successor_count = 1),
                  LW_OK);
    assert_int_equal(look(rig, "a").task_count, 1);
}

STORE_TEST(a_settlement_can_move_its_scope_and_close_it) {
    struct lw__task *task, *sibling;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    sibling = PUT(rig, .scope = scope.id, .generation = scope.generation);
    struct lw__put next = make_put(rig, WISH(THIS));
    struct lw__scope_change change = {.action = LW__SCOPE_MOVE};
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_ABORT,
                         .successors = &next, .successor_count = 1, .scope = &change),
                  LW_OK);
    assert_state(sibling, LW_ABORTED);
    assert_state(next.task, LW_ENQUEUED); /* nobody to wait for: the settling one has ended */
    CHECK(change.new_generation > scope.generation);
    assert_int_equal(lw__task_spec(next.task)->member->generation, change.new_generation);
    change.action = LW__SCOPE_CLOSE;
    assert_status(
        SETTLE(rig, start_this(rig, next.task), .verdict = LW__VERDICT_FINISH, .scope = &change),
        LW_OK);
    CHECK(!is_there(rig, "a"));
    assert_empty(rig);
}

/* ---- the move ----------------------------------------------------------------------------- */

STORE_TEST(a_move_aborts_what_waits_and_asks_what_runs) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    uint64_t s = scope.id, g = scope.generation;
    struct lw__task *runs = PUT(rig, .scope = s, .generation = g);
    struct attempt attempt = start_this(rig, runs);
    struct lw__task *claimed = PUT(rig, .scope = s, .generation = g);
    struct attempt other = claim_one(rig);
    struct lw__task *enqueued = PUT(rig, .scope = s, .generation = g);
    struct lw__task *scheduled = PUT(rig, .scope = s, .generation = g, .due = rig->now + MS);
    struct lw__task *created = PUT(rig, .scope = s, .generation = g, .after = {scheduled->id},
                                   .after_policy = LW_AFTER_RUN);
    struct lw__task *stranger = PUT(rig, .after = {scheduled->id}, .after_policy = LW_AFTER_RUN);
    struct lw__task *held;
    move_scope(rig, s, &held);
    assert_int_equal(rig->cancels, 1);
    assert_int_equal(rig->cancelled, attempt.token);
    assert_int_equal(rig->reason, LW_REASON_CANCELLED);
    assert_state(runs, LW_STARTED);
    assert_state(claimed, LW_ABORTED);
    CHECK(!rig->ops->begin(rig->store, claimed, other.token, rig->now));
    assert_state(enqueued, LW_ABORTED);
    assert_state(scheduled, LW_ABORTED);
    assert_state(created, LW_ABORTED);
    assert_string_equal(last_error(created), "its scope has moved on");
    assert_state(stranger, LW_ENQUEUED); /* whose scope has not moved */
    assert_state(held, LW_CREATED);
    assert_int_equal(look(rig, "a").open, 1); /* the claimed one had not begun */
    assert_int_equal(look(rig, "a").task_count, 1);
    rig->ops->account(rig->store, rig->now, &claimed, 1);
    assert_state(held, LW_CREATED);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK), LW_ELEASE);
    assert_state(held, LW_ENQUEUED);
    CHECK(!is_unclean(held));
    assert_int_equal(run_next(rig), stranger->id);
    assert_int_equal(run_next(rig), held->id);
    assert_empty(rig);
}

STORE_TEST(the_fence_waits_for_each_and_holds_all) {
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    struct attempt attempts[3];
    for (int i = 0; i < 3; i++) {
        PUT(rig, .scope = scope.id, .generation = scope.generation);
        attempts[i] = start_one(rig);
    }
    struct lw__task *held;
    uint64_t generation = move_scope(rig, scope.id, &held);
    struct lw__task *later = PUT(rig, .scope = scope.id, .generation = generation);
    struct lw__task *delayed =
        PUT(rig, .scope = scope.id, .generation = generation, .due = rig->now + MS);
    struct lw__task *third =
        PUT(rig, .scope = scope.id, .generation = generation, .after = {held->id});
    for (int i = 0; i < 3; i++) {
        assert_int_equal(look(rig, "a").open, 3 - i);
        assert_state(held, LW_CREATED);
        assert_state(later, LW_CREATED);
        assert_state(delayed, LW_CREATED);
        uint64_t changes = rig->scope_changes;
        assert_status(SETTLE(rig, attempts[i], .verdict = LW__VERDICT_FINISH), LW_ELEASE);
        assert_int_equal(rig->scope_changes, changes + (i == 2));
    }
    assert_state(held, LW_ENQUEUED);
    assert_state(later, LW_ENQUEUED);
    assert_state(delayed, LW_SCHEDULED);
    assert_state(third, LW_CREATED);
    assert_int_equal(run_next(rig), held->id);
    assert_state(third, LW_ENQUEUED);
    assert_state(PUT(rig, .scope = scope.id, .generation = generation), LW_ENQUEUED);
}

STORE_TEST(what_waits_for_a_task_and_the_fence_waits_for_both) {
    struct lw__task *runs, *other = PUT(rig, .priority = 1);
    struct lw__scope_copy scope = open_scope(rig, "a", &runs);
    struct attempt first = start_this(rig, other), attempt = start_this(rig, runs);
    uint64_t generation = move_scope(rig, scope.id, NULL);
    struct lw__task *held =
        PUT(rig, .scope = scope.id, .generation = generation, .after = {other->id});
    finish(rig, first);
    assert_state(held, LW_CREATED);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FAIL), LW_ELEASE);
    assert_state(held, LW_ENQUEUED);
}

STORE_TEST(nothing_of_an_old_generation_is_applied_but_its_end) {
    for (int verdict = LW__VERDICT_FINISH; verdict <= LW__VERDICT_ABORT; verdict++) {
        char name[] = {(char)('a' + verdict), 0};
        struct lw__task *task;
        struct lw__scope_copy scope = open_scope(rig, name, &task);
        struct attempt attempt = start_this(rig, task);
        move_scope(rig, scope.id, NULL);
        struct lw__publication publication = {.has_progress = true, .done = 1, .text = ""};
        assert_status(rig->ops->publish(rig->store, task, attempt.token, &publication), LW_ELEASE);
        struct lw__put next[] = {make_put(rig, WISH(THIS)), make_put(rig, WISH(.key = "plain"))};
        struct lw__scope_change change = {.has_bytes = true, .bytes = LW_TEXT("garbage")};
        assert_status(SETTLE(rig, attempt, .verdict = (enum lw__verdict)verdict,
                             .due = rig->now + MS, .has_result = true, .result = LW_TEXT("x"),
                             .text = "mine", .fault = LW_FAULT_ERROR, .successors = next,
                             .successor_count = 2, .scope = &change),
                      LW_ELEASE);
        assert_state(task, LW_ABORTED);
        assert_null(lw__see(&task->output));
        assert_string_equal(last_error(task), "its scope has moved on");
        assert_bytes(rig, name, "moved");
        assert_null(claim_one(rig).task);
        drop_put(rig, &next[0]);
        drop_put(rig, &next[1]);
        assert_empty(rig); /* its claim and its room are free */
        assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    }
}

STORE_TEST(a_later_move_supersedes_one_that_waits) {
    struct lw__task *runs, *first, *second;
    struct lw__scope_copy scope = open_scope(rig, "a", &runs);
    struct attempt attempt = start_this(rig, runs);
    uint64_t middle = move_scope(rig, scope.id, &first);
    uint64_t last = move_scope(rig, scope.id, &second);
    CHECK(last > middle && middle > scope.generation);
    assert_state(first, LW_ABORTED);
    assert_state(second, LW_CREATED);
    assert_int_equal(rig->cancels, 1); /* it has been asked */
    assert_int_equal(look(rig, "a").open, 1);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_ABORT), LW_ELEASE);
    assert_state(second, LW_ENQUEUED);
    assert_int_equal(run_next(rig), second->id);
    assert_empty(rig);
}

STORE_TEST(attempts_of_several_generations_hold_up_the_last) {
    struct lw__task *a, *b, *c;
    struct lw__scope_copy scope = open_scope(rig, "a", &a);
    struct attempt first = start_this(rig, a);
    move_scope(rig, scope.id, &b);
    assert_status(act(rig, scope.id, LW__SCOPE_FORCE), LW_OK);
    struct attempt second = start_this(rig, b);
    move_scope(rig, scope.id, &c);
    assert_int_equal(look(rig, "a").open, 1);
    assert_status(SETTLE(rig, second, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_state(c, LW_ENQUEUED);
    CHECK(is_unclean(c)); /* the first, which nobody waited for, still runs */
    assert_status(SETTLE(rig, first, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_int_equal(run_next(rig), c->id);
    assert_empty(rig);
}

/* ---- unclean ------------------------------------------------------------------------------ */

STORE_TEST(a_lost_attempt_makes_the_next_generation_unclean) {
    struct lw__task *task, *held, *next;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    move_scope(rig, scope.id, &held);
    CHECK(!look(rig, "a").is_unclean);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now,
                         .fault = LW_FAULT_CRASH, .text = "its thread ended"),
                  LW_ELEASE);
    assert_state(held, LW_ENQUEUED);
    CHECK(is_unclean(held) && look(rig, "a").is_unclean);
    CHECK(is_unclean(PUT(rig, .scope = scope.id, .generation = look(rig, "a").generation)));
    move_scope(rig, scope.id, &next); /* what ran in between was clean */
    CHECK(!is_unclean(next) && !look(rig, "a").is_unclean);
}

STORE_TEST(an_attempt_that_was_lost_before_the_move_makes_it_unclean_too) {
    struct lw__task *task, *held;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    assert_status(SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_POSTPONE,
                         .due = rig->now + MS, .fault = LW_FAULT_CRASH, .text = "lost"),
                  LW_OK);
    CHECK(!look(rig, "a").is_unclean);
    move_scope(rig, scope.id, &held);
    assert_state(held, LW_ENQUEUED);
    CHECK(is_unclean(held));
    move_scope(rig, scope.id, &held);
    CHECK(!is_unclean(held)); /* that was two generations ago */
}

STORE_TEST(unclean_stays_so_while_the_fence_stands) {
    struct lw__task *held;
    struct lw__scope_copy scope = open_scope(rig, "a", NULL);
    struct attempt attempts[2];
    for (int i = 0; i < 2; i++) {
        PUT(rig, .scope = scope.id, .generation = scope.generation);
        attempts[i] = start_one(rig);
    }
    move_scope(rig, scope.id, NULL);
    SETTLE(rig, attempts[0], .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_CRASH);
    move_scope(rig, scope.id, &held);
    SETTLE(rig, attempts[1], .verdict = LW__VERDICT_FAIL);
    CHECK(is_unclean(held));
}

STORE_TEST(an_operator_can_force_the_fence) {
    struct lw__task *task, *held;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    move_scope(rig, scope.id, &held);
    assert_status(act(rig, scope.id, LW__SCOPE_FORCE), LW_OK);
    assert_state(held, LW_ENQUEUED);
    CHECK(is_unclean(held));
    assert_int_equal(look(rig, "a").open, 0);
    assert_state(task, LW_STARTED);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_state(task, LW_ABORTED);
    assert_int_equal(run_next(rig), held->id);
    assert_empty(rig);
    assert_status(act(rig, scope.id, LW__SCOPE_FORCE), LW_OK); /* nothing to force */
}

/* ---- close -------------------------------------------------------------------------------- */

STORE_TEST(a_closed_scope_is_gone_and_its_name_free) {
    struct lw__task *task;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    assert_status(act(rig, scope.id, LW__SCOPE_CLOSE), LW_OK);
    assert_state(task, LW_ABORTED);
    CHECK(!is_there(rig, "a"));
    assert_status(act(rig, scope.id, LW__SCOPE_WRITE), LW_ENOTFOUND);
    assert_status(TRY_PUT(rig, .scope = scope.id, .generation = scope.generation), LW_ELEASE);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_ELEASE);
    struct lw__scope_copy again = open_scope(rig, "a", &task);
    CHECK(again.id != scope.id && again.generation > scope.generation);
}

STORE_TEST(a_name_that_is_opened_again_is_held_up_by_what_still_runs) {
    struct lw__task *task, *next;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    assert_status(act(rig, scope.id, LW__SCOPE_CLOSE), LW_OK);
    assert_int_equal(rig->cancelled, attempt.token);
    CHECK(!is_there(rig, "a"));
    struct lw__scope_copy again = open_scope(rig, "a", &next);
    CHECK(again.generation > scope.generation);
    assert_int_equal(again.open, 1);
    assert_bytes(rig, "a", "new");
    assert_state(next, LW_CREATED);
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_state(next, LW_ENQUEUED);
}

STORE_TEST(a_closed_scope_goes_with_its_last_attempt) {
    uint64_t blocks = 0, after;
    set_retention(rig, rig->kind, 0, 0);
    for (int i = 0; i < 200; i++) {
        struct lw__task *task;
        if (i == 100)
            lw_test_memory_usage(rig->memory, &blocks, NULL, NULL);
        struct lw__scope_copy scope = open_scope(rig, "a", &task);
        struct attempt attempt = start_this(rig, task);
        assert_status(act(rig, scope.id, LW__SCOPE_CLOSE), LW_OK);
        assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
        assert_null(lw__scope_find_locked(rig->store->index, scope.id));
    }
    lw_test_memory_usage(rig->memory, &after, NULL, NULL);
    CHECK(after <= blocks); /* tables that have their size, and nothing that grows */
}

STORE_TEST_WITH(a_name_whose_second_opening_fails_stays_closed, .task_limit = 1) {
    struct lw__task *task;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt attempt = start_this(rig, task);
    assert_status(act(rig, scope.id, LW__SCOPE_CLOSE), LW_OK);
    struct lw__put one = make_put(rig, WISH(THIS));
    assert_status(rig->ops->scope_open(rig->store, rig->now, "a", LW_TEXT("x"), &one, 1, NULL),
                  LW_EFULL);
    CHECK(!is_there(rig, "a"));
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
    assert_null(lw__scope_find_locked(rig->store->index, scope.id));
    drop_put(rig, &one);
}

/* ---- operators ---------------------------------------------------------------------------- */

STORE_TEST(a_failed_task_of_the_present_generation_can_be_retried) {
    struct lw__task *task, *held;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FAIL);
    assert_int_equal(look(rig, "a").task_count, 0);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_OK);
    assert_int_equal(look(rig, "a").task_count, 1);
    struct attempt attempt = start_this(rig, task);
    move_scope(rig, scope.id, &held);
    assert_state(held, LW_CREATED); /* it belongs to the scope again */
    assert_status(change(rig, held->id, LW__CHANGE_CANCEL), LW_OK);
    assert_status(change(rig, held->id, LW__CHANGE_RETRY), LW_PENDING); /* the fence stands */
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FAIL), LW_ELEASE);
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_ELEASE);
    assert_status(change(rig, held->id, LW__CHANGE_RETRY), LW_OK);
    assert_int_equal(run_next(rig), held->id);
    assert_empty(rig);
}

STORE_TEST(a_cancelled_task_leaves_its_scope_and_the_fence) {
    struct lw__task *task, *held;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    struct attempt claimed = claim_one(rig);
    assert_status(change(rig, task->id, LW__CHANGE_CANCEL), LW_OK); /* its worker still has it */
    move_scope(rig, scope.id, &held);
    assert_state(held, LW_ENQUEUED);
    assert_int_equal(rig->cancels, 0);
    rig->ops->account(rig->store, rig->now, &claimed.task, 1);
    assert_int_equal(run_next(rig), held->id);
    assert_empty(rig);
}

STORE_TEST(what_holds_a_task_can_be_looked_up) {
    struct lw__task *task, *held;
    struct lw__scope_copy scope = open_scope(rig, "a", &task);
    start_this(rig, task);
    move_scope(rig, scope.id, &held);
    struct lw__outlook outlook;
    assert_status(lw__index_look(rig->store->index, held->id, &outlook), LW_OK);
    assert_int_equal(outlook.fence_left, 1);
    assert_int_equal(outlook.after_left, 0);
}
