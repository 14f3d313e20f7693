/* Checkpoints: where the next attempt goes on; whatever ended the one before, and nothing of one
 * that is stale. */
#include "stores.h"

#include <string.h>

static int save(struct rig *rig, struct attempt attempt, const char *position) {
    struct lw__publication publication = {.has_checkpoint = true, .checkpoint = LW_TEXT(position)};
    return rig->ops->publish(rig->store, attempt.task, attempt.token, &publication);
}

#define assert_saved(task, position) assert_saved_at((task), (position), __LINE__)
static void assert_saved_at(const struct lw__task *task, const char *position, int line) {
    const struct lw__output *output = lw__see(&task->output);
    bool is_there = output && output->has_checkpoint;
    if (!position && !is_there)
        return;
    CHECK(position && is_there);
    if (output->checkpoint_size != strlen(position)
        || memcmp(lw__output_checkpoint(output), position, strlen(position)) != 0)
        fail_msg("line %d: %.*s, not %s", line, (int)output->checkpoint_size,
                 lw__output_checkpoint(output), position);
}

STORE_TEST(the_last_position_stays_over_whatever_ends_an_attempt) {
    struct lw__task *task = PUT(rig, .payload_size = 3);
    struct attempt attempt = start_this(rig, task);
    assert_saved(task, NULL);
    assert_status(save(rig, attempt, "page 1"), LW_OK);
    assert_status(save(rig, attempt, "page 12"), LW_OK);
    assert_saved(task, "page 12");
    SETTLE(rig, attempt, .verdict = LW__VERDICT_GIVE_BACK, .fault = LW_FAULT_ERROR, .text = "no");
    assert_saved(task, "page 12");
    attempt = start_this(rig, task);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now, .is_snooze = true);
    attempt = start_this(rig, task);
    assert_saved(task, "page 12");
    assert_status(save(rig, attempt, ""), LW_OK); /* of nothing is not none */
    assert_saved(task, "");
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH, .has_result = true,
                         .result = LW_TEXT("done")),
                  LW_OK);
    assert_saved(task, "");
    assert_memory_equal(lw__output_result(lw__see(&task->output)), "done", 4);
}

STORE_TEST(position_progress_and_partial_result_do_not_disturb_each_other) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt attempt = start_this(rig, task);
    struct lw__publication both = {.has_progress = true,
                                   .done = 3,
                                   .total = 9,
                                   .text = "three",
                                   .has_checkpoint = true,
                                   .checkpoint = LW_TEXT("at 3")};
    assert_status(rig->ops->publish(rig->store, task, attempt.token, &both), LW_OK);
    struct lw__publication partial = {.has_partial = true, .partial = LW_TEXT("part")};
    assert_status(rig->ops->publish(rig->store, task, attempt.token, &partial), LW_OK);
    const struct lw__output *output = lw__see(&task->output);
    assert_int_equal(output->done, 3);
    assert_string_equal(output->bytes, "three");
    assert_saved(task, "at 3");
    assert_status(save(rig, attempt, "at 4"), LW_OK);
    output = lw__see(&task->output);
    assert_int_equal(output->total, 9);
    assert_int_equal(output->partial_size, 4);
    assert_memory_equal(lw__output_partial(output), "part", 4);
    assert_saved(task, "at 4");
    finish(rig, attempt);
}

STORE_TEST(a_stale_attempt_saves_nothing) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt stale = start_this(rig, task);
    assert_status(save(rig, stale, "mine"), LW_OK);
    SETTLE(rig, stale, .verdict = LW__VERDICT_GIVE_BACK);
    assert_status(save(rig, stale, "too late"), LW_ELEASE);
    struct attempt present = start_this(rig, task);
    assert_status(save(rig, stale, "too late"), LW_ELEASE);
    assert_saved(task, "mine");
    finish(rig, present);
    assert_status(save(rig, present, "too late"), LW_ELEASE);
    assert_saved(task, "mine");
}

STORE_TEST(a_scope_that_has_moved_on_takes_no_position) {
    struct lw__scope_copy copy = {.capacity = 0};
    assert_status(
        rig->ops->scope_open(rig->store, rig->now, "site", (lw_bytes){NULL, 0}, NULL, 0, &copy),
        LW_OK);
    struct lw__task *task = PUT(rig, .scope = copy.id, .generation = copy.generation);
    struct attempt attempt = start_this(rig, task);
    assert_status(save(rig, attempt, "then"), LW_OK);
    struct lw__scope_change move = {.action = LW__SCOPE_MOVE};
    assert_status(rig->ops->scope_change(rig->store, rig->now, copy.id, 0, &move, NULL, 0), LW_OK);
    assert_status(save(rig, attempt, "now"), LW_ELEASE);
    assert_saved(task, "then");
    assert_status(SETTLE(rig, attempt, .verdict = LW__VERDICT_FINISH), LW_ELEASE);
}

STORE_TEST(retried_by_hand_it_goes_on_where_it_was) {
    struct lw__task *task = PUT(rig, 0);
    struct attempt attempt = start_this(rig, task);
    assert_status(save(rig, attempt, "page 5"), LW_OK);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_ERROR, .text = "no");
    assert_status(change(rig, task->id, LW__CHANGE_RETRY), LW_OK);
    assert_saved(task, "page 5");
    uint64_t id = task->id;
    if (is_durable(rig)) {
        reopen_rig(rig);
        task = find(rig, id);
        assert_saved(task, "page 5");
    }
    finish(rig, start_this(rig, task));
    assert_empty(rig);
}

/* The attempts are lost with the process; what they saved is not. */
STORE_TEST(it_is_there_when_the_store_is_opened_again) {
    struct lw__task *runs = PUT(rig, 0), *failed = PUT(rig, 0), *never = PUT(rig, 0);
    uint64_t runs_id = runs->id, failed_id = failed->id, never_id = never->id;
    if (!is_durable(rig))
        return;
    struct attempt attempt = start_this(rig, runs), other = start_this(rig, failed);
    assert_status(save(rig, attempt, "one"), LW_OK);
    assert_status(save(rig, attempt, "two"), LW_OK);
    assert_status(save(rig, other, "three"), LW_OK);
    SETTLE(rig, other, .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_ERROR, .text = "no");
    for (int i = 0; i < 2; i++) {
        reopen_rig(rig);
        assert_saved(find(rig, runs_id), "two");
        assert_saved(find(rig, failed_id), "three");
        assert_saved(find(rig, never_id), NULL);
    }
}
