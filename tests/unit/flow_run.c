/* Start and run: steps drive each other to the goal; retries, skips, failures, aborts; flags from
 * outside. */
#include "flows.h"

#include <stdio.h>
#include <string.h>

static const char X[] = "example.org";

/* ---- start -------------------------------------------------------------------------------- */

FLOW_TEST(a_start_makes_the_status_and_the_first_task) {
    start_flow(rig, X);
    lw_flow_status status = status_of(rig, X);
    assert_string_equal(status.id, X);
    assert_string_equal(status.state, "creating");
    assert_int_equal(status.condition, LW_FLOW_ACTIVE);
    assert_string_equal(status.reason, "");
    CHECK(status.generation > 0 && status.number > 0 && status.started_ms > 0);
    assert_int_equal(status.since_ms, status.started_ms);
    assert_int_equal(status.step_count, 4);
    assert_int_equal(status.steps[0].state, LW_STEP_ACTIVE);
    assert_int_equal(status.steps[0].task_state, LW_ENQUEUED);
    CHECK(status.steps[0].task > 0);
    for (int i = 1; i < 4; i++) {
        assert_int_equal(status.steps[i].state, LW_STEP_WAITING);
        assert_int_equal(status.steps[i].task, 0);
    }
    assert_int_equal(status.history_count, 1);
    assert_string_equal(status.history[0].state, "creating");
    assert_int_equal(status.history[0].generation, status.generation);
    assert_int_equal(status.payload_size, 4);
    assert_string_equal(status.payload, "body");
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_STARTED), 1);
}

FLOW_TEST(the_same_id_again_exists_and_shows_its_status) {
    lw_flow_status status = {.number = 0};
    lw_error err = {0};
    assert_status(lw_flow_start_get(rig->engine, "site", X, LW_TEXT("mine"), &status, &err), LW_OK);
    uint64_t generation = status.generation;
    assert_status(lw_flow_start(rig->engine, "site", X, LW_TEXT("other"), &err), LW_EXISTS);
    assert_status(lw_flow_start_get(rig->engine, "site", X, LW_TEXT("other"), &status, &err),
                  LW_EXISTS);
    assert_string_equal(status.payload, "mine");
    assert_int_equal(status.generation, generation);
    assert_int_equal(run(rig), 4); /* nothing is done twice */
    assert_status(lw_flow_start_get(rig->engine, "site", X, LW_TEXT(""), NULL, &err), LW_EXISTS);
}

FLOW_TEST(resources_do_not_know_each_other) {
    start_flow(rig, "a");
    start_flow(rig, "b");
    rig->scripts[DBASE] = script_fail;
    run(rig);
    start_flow(rig, "a/b");
    rig->scripts[DBASE] = NULL;
    run(rig);
    assert_flow(rig, "a", "creating", LW_FLOW_HALTED);
    assert_flow(rig, "b", "creating", LW_FLOW_HALTED);
    assert_flow(rig, "a/b", "running", LW_FLOW_AT_GOAL);
}

/* ---- run ---------------------------------------------------------------------------------- */

static lw_outcome look_at_files(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_ACTIVE); /* both at the same time */
    assert_int_equal(step_of(rig, X, DBASE).state, LW_STEP_ACTIVE);
    return lw_done(ctx);
}

FLOW_TEST(steps_drive_each_other_to_the_goal) {
    rig->scripts[FILES] = look_at_files;
    start_flow(rig, X);
    uint64_t generation = status_of(rig, X).generation;
    assert_int_equal(run(rig), 4);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    lw_flow_status status = status_of(rig, X);
    assert_int_equal(status.generation, generation);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rig->runs[i], 1);
        assert_int_equal(rig->generations[i], generation);
        assert_int_equal(status.steps[i].state, LW_STEP_DONE);
        CHECK(status.steps[i].done_ms > 0);
        assert_int_equal(status.steps[i].attempts, 1);
    }
    assert_int_equal(status.history_count, 2);
    assert_string_equal(status.history[1].state, "running");
    assert_int_equal(status.history[1].generation, generation);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_FLAG), 4);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_GOAL), 1);
    assert_string_equal(rig->events[1].flag, "metadata");
    assert_string_equal(rig->events[1].step, "save");
    assert_string_equal(rig->events[rig->event_count - 1].state, "running");
    assert_string_equal(rig->events[rig->event_count - 1].id, X);
}

static lw_outcome look_at_task(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    assert_string_equal(task->key, X);
    assert_int_equal(task->payload.size, 4);
    assert_string_equal(task->payload.data, "body");
    assert_string_equal(task->kind, "site.boot");
    assert_int_equal(task->attempt, 1);
    CHECK(task->id > 0 && task->token > 0);
    CHECK(lw_ctx_user(ctx) == rig);
    CHECK(!lw_flow_is_unclean(ctx));
    CHECK(lw_flow_generation(ctx) == status_of(rig, X).generation);
    return lw_done(ctx);
}

FLOW_TEST(a_step_finds_id_payload_and_generation) {
    rig->scripts[BOOT] = look_at_task;
    start_flow(rig, X);
    run(rig);
    assert_int_equal(rig->runs[BOOT], 1);
    assert_int_equal(lw_flow_generation(NULL), 0);
    CHECK(!lw_flow_is_unclean(NULL));
}

FLOW_TEST(a_step_retries_for_ever_from_3_seconds_on) {
    static const int64_t waits[] = {3, 6, 12, 24, 48, 96, 192, 300, 300, 300};
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_DONE);
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        lw_flow_step step = step_of(rig, X, DBASE);
        lw_flow_status status = status_of(rig, X);
        char text[16];
        snprintf(text, sizeof text, "no %zu", i + 1);
        assert_int_equal(status.condition, LW_FLOW_ACTIVE);
        assert_int_equal(step.state, LW_STEP_ACTIVE);
        assert_int_equal(step.task_state, LW_SCHEDULED);
        assert_int_equal(step.attempts, i + 1);
        assert_string_equal(step.error, text);
        int64_t wait_ms = step.due_ms - lw__wall_ms(rig->clock);
        CHECK(wait_ms >= waits[i] * 899 && wait_ms <= waits[i] * 1101); /* jitter: a tenth */
        advance_flow(rig, wait_ms + 1);
        assert_int_equal(rig->runs[DBASE], i + 2);
    }
    rig->scripts[DBASE] = NULL;
    advance_flow(rig, 400000);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(step_of(rig, X, DBASE).attempts, COUNT_OF(waits) + 2);
}

FLOW_TEST(a_step_that_was_done_before_is_skipped) {
    rig->scripts[FILES] = script_skip;
    start_flow(rig, X);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_SKIPPED);
    CHECK(step_of(rig, X, FILES).done_ms > 0);
    assert_int_equal(step_of(rig, X, DBASE).state, LW_STEP_DONE);
}

static lw_outcome submit_more(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.kind = "mail"), NULL), LW_OK);
    return lw_done_with(ctx, LW_TEXT("result"));
}

FLOW_TEST(a_step_can_have_successors_and_a_result_of_its_own) {
    rig->scripts[SAVE] = submit_more;
    start_flow(rig, X);
    lw_id id = step_of(rig, X, SAVE).task;
    run(rig);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(rig->engine, id, &s), LW_OK);
    assert_memory_equal(s.result.data, "result", 6);
    lw_engine_stats stats;
    assert_status(lw_get_stats(rig->engine, &stats), LW_OK);
    assert_int_equal(stats.enqueued, 1); /* nobody has a handler for mail */
    lw_snapshot_clear(&s);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
}

/* ---- halted ------------------------------------------------------------------------------- */

FLOW_TEST(a_step_that_fails_for_good_halts_the_flow_and_others_go_on) {
    rig->scripts[DBASE] = script_fail;
    start_flow(rig, X);
    run(rig);
    lw_flow_status status = status_of(rig, X);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    assert_string_equal(status.reason, "db: never");
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_DONE);
    assert_int_equal(step_of(rig, X, BOOT).state, LW_STEP_WAITING);
    lw_flow_step db = step_of(rig, X, DBASE);
    assert_int_equal(db.state, LW_STEP_HALTED);
    assert_int_equal(db.attempts, 1);
    assert_string_equal(db.error, "never");
    assert_int_equal(db.task, 0);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_HALTED), 1);
    assert_string_equal(rig->events[rig->event_count - 1].text, "never");
    assert_string_equal(rig->events[rig->event_count - 1].step, "db");
    advance_flow(rig, 3600000);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED); /* not by itself */
}

FLOW_TEST(a_halted_flow_is_resumed) {
    lw_error err = {0};
    rig->scripts[DBASE] = rig->scripts[FILES] = script_fail;
    start_flow(rig, X);
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_PENDING);
    run(rig);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    uint64_t generation = status_of(rig, X).generation;
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_OK);
    assert_flow(rig, X, "creating", LW_FLOW_ACTIVE);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_RESUMED), 1);
    run(rig);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED); /* again */
    rig->scripts[DBASE] = rig->scripts[FILES] = NULL;
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_OK);
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_PENDING);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(rig->runs[DBASE], 3);
    assert_int_equal(rig->runs[BOOT], 1);
    assert_int_equal(status_of(rig, X).generation, generation);
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_PENDING);
}

FLOW_TEST(the_task_of_a_halted_step_can_be_retried_as_any_other) {
    rig->scripts[SAVE] = script_fail;
    start_flow(rig, X);
    lw_id id = step_of(rig, X, SAVE).task;
    run(rig);
    rig->scripts[SAVE] = NULL;
    assert_status(lw_retry_now(rig->engine, id, NULL), LW_OK);
    assert_flow(rig, X, "creating", LW_FLOW_ACTIVE);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
}

FLOW_TEST(a_step_whose_task_was_cancelled_is_halted) {
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_cancel(rig->engine, step_of(rig, X, DBASE).task), LW_OK);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    assert_string_equal(status_of(rig, X).reason, "db: cancelled");
    rig->scripts[DBASE] = NULL;
    assert_status(lw_flow_resume(rig->engine, "site", X, NULL), LW_OK);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
}

FLOW_TEST(a_step_that_crashes_is_tried_again_a_hundred_times) {
    start_flow(rig, X);
    assert_status(lw_test_fail_next(rig->engine, "site.save", 101, (lw_outcome)0, NULL), LW_OK);
    for (int i = 0; i < 110 && condition_of(rig, X) == LW_FLOW_ACTIVE; i++)
        advance_flow(rig, 400000);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    assert_int_equal(step_of(rig, X, SAVE).attempts, 101);
    assert_int_equal(rig->runs[SAVE], 0);
}

/* ---- aborted ------------------------------------------------------------------------------ */

FLOW_TEST(a_step_aborts_the_whole_flow) {
    lw_error err = {0};
    rig->scripts[FILES] = script_abort;
    start_flow(rig, X);
    uint64_t generation = status_of(rig, X).generation;
    lw_id db = 0;
    assert_int_equal(run(rig), 2); /* save and files; db was there, too */
    lw_flow_status status = status_of(rig, X);
    assert_flow(rig, X, "creating", LW_FLOW_ABORTED);
    assert_string_equal(status.reason, "stop it");
    CHECK(status.generation > generation);
    assert_int_equal(step_of(rig, X, SAVE).state, LW_STEP_DONE);
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_ABORTED);
    assert_string_equal(step_of(rig, X, FILES).error, "stop it");
    assert_int_equal(step_of(rig, X, DBASE).state, LW_STEP_ABORTED);
    assert_int_equal(step_of(rig, X, DBASE).task, db);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_ABORTED), 1);
    assert_string_equal(rig->events[rig->event_count - 1].text, "stop it");
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_EINVAL);
    CHECK(strstr(err.message, "aborted"));
    assert_status(lw_flow_set(rig->engine, "site", X, "db", 0, &err), LW_EINVAL);
    assert_status(lw_flow_start(rig->engine, "site", X, LW_TEXT(""), NULL), LW_EXISTS);
    rig->scripts[FILES] = NULL;
    assert_status(move(rig, X, "creating"), LW_OK);
    assert_flow(rig, X, "creating", LW_FLOW_ACTIVE);
    assert_int_equal(step_of(rig, X, SAVE).state, LW_STEP_ACTIVE); /* flags are of a generation */
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
}

FLOW_TEST(an_aborted_flow_is_moved_to_its_end) {
    rig->scripts[SAVE] = script_abort;
    start_flow(rig, X);
    run(rig);
    assert_status(move(rig, X, "deleting"), LW_OK);
    run(rig);
    CHECK(is_gone(rig, X));
}

/* ---- from outside ------------------------------------------------------------------------- */

FLOW_TEST(a_flag_set_from_outside_completes_its_step) {
    lw_error err = {0};
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, "first");
    start_flow(rig, X);
    assert_status(lw_flow_set(rig->engine, "site", X, "db", 0, &err), LW_PENDING); /* not ready */
    run(rig);
    int runs = rig->runs[DBASE];
    uint64_t generation = status_of(rig, X).generation;
    assert_status(lw_flow_set(rig->engine, "site", X, "db", generation + 1, &err), LW_ELEASE);
    assert_status(lw_flow_set(rig->engine, "site", X, "db", generation - 1, &err), LW_ELEASE);
    CHECK(strstr(err.message, "generation"));
    assert_int_equal(step_of(rig, X, BOOT).state, LW_STEP_WAITING);
    assert_status(lw_flow_set(rig->engine, "site", X, "db", generation, &err), LW_OK);
    assert_int_equal(step_of(rig, X, BOOT).state, LW_STEP_ACTIVE);
    assert_int_equal(step_of(rig, X, DBASE).state, LW_STEP_DONE);
    assert_status(lw_flow_set(rig->engine, "site", X, "db", generation, &err), LW_OK);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(rig->runs[DBASE], runs); /* its task has ended without running */
    assert_int_equal(step_of(rig, X, DBASE).task, 0);
    assert_int_equal(rig->runs[BOOT], 1);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_FLAG), 4 + 2);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_GOAL), 1);
    assert_status(lw_flow_set(rig->engine, "site", X, "nonsense", 0, &err), LW_ENOTFOUND);
    assert_status(lw_flow_set(rig->engine, "site", X, "metdata", 0, &err), LW_ENOTFOUND);
    assert_string_equal(err.message,
                        "state \"creating\" of flow \"site\" has no flag \"metdata\"; did "
                        "you mean \"metadata\"?");
    assert_status(lw_flow_set(rig->engine, "site", X, "gone", 0, &err), LW_ENOTFOUND);
    CHECK(strstr(err.message, "no flag \"gone\""));
}

FLOW_TEST(a_halted_step_can_be_completed_from_outside_and_that_may_be_the_goal) {
    rig->scripts[BOOT] = script_fail;
    start_flow(rig, X);
    run(rig);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    assert_status(lw_flow_set(rig->engine, "site", X, "booted", 0, NULL), LW_OK);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_GOAL), 1);
    assert_int_equal(step_of(rig, X, BOOT).state, LW_STEP_DONE);
    assert_status(lw_flow_set(rig->engine, "site", X, "booted", 0, NULL), LW_OK);
}

static lw_outcome set_own_flag(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    assert_status(lw_flow_set(rig->engine, "site", task->key, "db", 0, NULL), LW_OK);
    assert_int_equal(step_of(rig, X, BOOT).state, LW_STEP_ACTIVE);
    return rig->runs[DBASE] == 1 ? lw_retry(ctx, "not quite") : lw_done(ctx);
}

FLOW_TEST(what_a_step_says_after_its_flag_was_set_has_no_effect) {
    rig->scripts[DBASE] = set_own_flag;
    start_flow(rig, X);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(rig->runs[BOOT], 1);
    advance_flow(rig, 60000);
    assert_int_equal(rig->runs[DBASE], 1);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_FLAG), 4);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_GOAL), 1);
}

TEST(work_by_a_person_is_a_step_without_a_handler) {
    const lw_step steps[] = {
        {.name = "ask", .run = do_done, .state = "open"},
        {.name = "approve", .state = "open", .needs = {"ask"}},
        {.name = "pay", .run = do_done, .state = "open", .needs = {"approve"}}};
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    lw_flow_status status;
    assert_status(lw_flow_register(engine,
                                   LW_FLOW(.name = "order", .steps = LW_STEPS(steps),
                                           .states = {{"open", .goal = "paid"}}),
                                   NULL),
                  LW_OK);
    start(engine);
    assert_status(lw_flow_start(engine, "order", "7", LW_TEXT(""), NULL), LW_OK);
    assert_status(lw_flow_set(engine, "order", "7", "approve", 0, NULL), LW_PENDING);
    lw_test_run(engine);
    assert_status(lw_flow_get(engine, "order", "7", &status), LW_OK);
    assert_int_equal(status.condition, LW_FLOW_ACTIVE);
    assert_int_equal(status.steps[1].state, LW_STEP_MANUAL);
    assert_status(lw_flow_resume(engine, "order", "7", NULL), LW_PENDING);
    assert_status(lw_flow_set(engine, "order", "7", "approve", status.generation, NULL), LW_OK);
    lw_test_run(engine);
    assert_status(lw_flow_get(engine, "order", "7", &status), LW_OK);
    assert_string_equal(status.state, "paid");
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- room --------------------------------------------------------------------------------- */

TEST(a_start_without_room_is_refused_and_leaves_nothing) {
    struct flow_rig rig = {.clock = open_clock()};
    lw_error err = {0};
    lw_flow_status status;
    rig.engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 2, .clock = rig.clock);
    assert_status(register_site(rig.engine, &rig, NULL), LW_OK);
    start(rig.engine);
    start_flow(&rig, "a");
    start_flow(&rig, "b");
    assert_status(lw_flow_start(rig.engine, "site", "c", LW_TEXT(""), &err), LW_EFULL);
    CHECK(strstr(err.message, "no room"));
    assert_status(lw_flow_get(rig.engine, "site", "c", &status), LW_ENOTFOUND);
    assert_status(move(&rig, "a", "deleting"), LW_OK); /* from the reserve */
    run(&rig);
    CHECK(is_gone(&rig, "a"));
    assert_flow(&rig, "b", "running", LW_FLOW_AT_GOAL); /* so did its steps */
    start_flow(&rig, "c");
    close_engine(rig.engine);
    lw_test_clock_close(rig.clock);
}

/* ---- lists -------------------------------------------------------------------------------- */

struct seen {
    int count, max;
    char ids[8][LW_FLOW_ID_MAX + 1];
    uint64_t last;
};

static bool note_seen(void *user, const lw_flow_status *status) {
    struct seen *seen = user;
    snprintf(seen->ids[seen->count++], sizeof seen->ids[0], "%s", status->id);
    seen->last = status->number;
    return seen->count < seen->max;
}

FLOW_TEST(resources_are_listed_in_the_order_of_their_start) {
    struct seen seen = {.max = 8};
    const char *ids[] = {"c", "a", "b"};
    for (int i = 0; i < 3; i++)
        start_flow(rig, ids[i]);
    assert_int_equal(lw_flow_list(rig->engine, "site", 0, 0, note_seen, &seen), 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(seen.ids[i], ids[i]);
    seen.count = 0;
    assert_int_equal(lw_flow_list(rig->engine, "site", 0, 2, note_seen, &seen), 2);
    assert_int_equal(lw_flow_list(rig->engine, "site", seen.last, 2, note_seen, &seen), 1);
    assert_string_equal(seen.ids[2], "b");
    seen = (struct seen){.max = 1};
    assert_int_equal(lw_flow_list(rig->engine, "site", 0, 0, note_seen, &seen), 1);
    assert_int_equal(lw_flow_list(rig->engine, "none", 0, 0, note_seen, &seen), LW_ENOTFOUND);
    assert_int_equal(lw_flow_list(rig->engine, "site", 0, 0, NULL, NULL), LW_EINVAL);
}

/* ---- by a task ---------------------------------------------------------------------------- */

FLOW_TEST(a_task_of_its_own_kind_starts_a_flow) {
    lw_id id = SUBMIT(rig->engine, .kind = "site:start", .key = X, .payload = LW_TEXT("body"));
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_string_equal(status_of(rig, X).payload, "body");
    assert_int_equal(state_of(rig->engine, id), LW_FINISHED);
    id = SUBMIT(rig->engine, .kind = "site:start", .key = X);
    run(rig);
    assert_int_equal(state_of(rig->engine, id), LW_FINISHED); /* it is there, which is fine */
    assert_int_equal(rig->runs[SAVE], 1);
    id = SUBMIT(rig->engine, .kind = "site:start");
    run(rig);
    assert_int_equal(state_of(rig->engine, id), LW_FAILED);
}

/* ---- a store that was closed -------------------------------------------------------------- */

FLOW_TEST(a_flow_goes_on_after_the_store_was_closed) {
    if (!is_flow_durable(rig))
        return;
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    reopen_flow_rig(rig);
    assert_flow(rig, X, "creating", LW_FLOW_ACTIVE);
    run(rig);
    uint64_t generation = status_of(rig, X).generation;
    reopen_flow_rig(rig);
    assert_int_equal(status_of(rig, X).generation, generation);
    assert_int_equal(step_of(rig, X, FILES).state, LW_STEP_DONE);
    assert_int_equal(step_of(rig, X, DBASE).state, LW_STEP_ACTIVE);
    assert_string_equal(step_of(rig, X, DBASE).error, "no 1");
    rig->scripts[DBASE] = NULL;
    advance_flow(rig, 10000);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(rig->runs[FILES], 1);
    reopen_flow_rig(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(move(rig, X, "deleting"), LW_OK);
    run(rig);
    reopen_flow_rig(rig);
    CHECK(is_gone(rig, X));
    start_flow(rig, X);
    CHECK(status_of(rig, X).generation > generation);
}
