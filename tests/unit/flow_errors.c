/* The last error of a step: it is that of its present task or of one before, and stays until a new
 * generation, whatever becomes of the step, and in whichever process somebody looks. */
#include "flows.h"

#include <stdio.h>
#include <string.h>

static const char X[] = "example.org";

/* What every look says: this process, the next one, and a program without the declaration. */
static void assert_error(struct flow_rig *rig, enum flow_step step, const char *error) {
    assert_string_equal(step_of(rig, X, step).error, error);
    if (!is_flow_durable(rig))
        return;
    reopen_flow_rig(rig);
    assert_string_equal(step_of(rig, X, step).error, error);
}

static lw_outcome script_retry_once(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    return task->attempt == 1 ? script_retry(rig, ctx, task) : lw_done(ctx);
}

static void resume(struct flow_rig *rig) {
    lw_error err = {0};
    assert_status(lw_flow_resume(rig->engine, "site", X, &err), LW_OK);
}

FLOW_TEST(a_step_that_is_done_shows_the_last_error_on_the_way) {
    rig->scripts[DBASE] = script_retry_once;
    start_flow(rig, X);
    run(rig);
    assert_error(rig, DBASE, "no 1");
    advance_flow(rig, 400000);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "no 1");
    assert_error(rig, FILES, "");
}

FLOW_TEST(the_error_that_halted_a_step_stays_when_it_is_resumed_and_done) {
    rig->scripts[DBASE] = script_fail;
    start_flow(rig, X);
    run(rig);
    assert_error(rig, DBASE, "never");
    rig->scripts[DBASE] = NULL;
    resume(rig);
    assert_error(rig, DBASE, "never");
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "never");
}

FLOW_TEST(an_error_after_halt_and_resume_is_the_last_one_when_it_is_done) {
    rig->scripts[DBASE] = script_fail;
    start_flow(rig, X);
    run(rig);
    rig->scripts[DBASE] = script_retry_once;
    resume(rig);
    run(rig);
    assert_error(rig, DBASE, "no 1");
    advance_flow(rig, 400000);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "no 1");
}

FLOW_TEST(a_step_without_a_reason_to_fail_shows_the_error_before) {
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_test_fail_next(rig->engine, "site.db", 1, LW_OUTCOME_FAIL, NULL), LW_OK);
    advance_flow(rig, 400000);
    assert_flow(rig, X, "creating", LW_FLOW_HALTED);
    assert_error(rig, DBASE, "no 1");
}

FLOW_TEST(the_error_of_a_step_whose_task_was_cancelled_says_so) {
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_cancel(rig->engine, step_of(rig, X, DBASE).task), LW_OK);
    assert_string_equal(status_of(rig, X).reason, "db: cancelled");
    assert_int_equal(step_of(rig, X, DBASE).attempts, 1);
    assert_error(rig, DBASE, "cancelled");
    rig->scripts[DBASE] = NULL;
    resume(rig);
    assert_error(rig, DBASE, "cancelled");
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "cancelled");
}

FLOW_TEST(a_step_that_was_completed_from_outside_keeps_its_error_and_attempts) {
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_flow_set(rig->engine, "site", X, "db", 0, NULL), LW_OK);
    assert_error(rig, DBASE, "no 1");
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "no 1");
    assert_int_equal(step_of(rig, X, DBASE).attempts, 1);
}

static lw_outcome abort_on_second(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    return task->attempt == 1 ? script_retry(rig, ctx, task) : script_abort(rig, ctx, task);
}

FLOW_TEST(the_steps_of_an_aborted_flow_keep_their_errors_until_it_is_moved) {
    rig->scripts[FILES] = abort_on_second;
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_retry_now(rig->engine, step_of(rig, X, FILES).task, NULL), LW_OK);
    run(rig);
    assert_flow(rig, X, "creating", LW_FLOW_ABORTED);
    assert_error(rig, FILES, "stop it");
    assert_error(rig, DBASE, "no 1");
    assert_int_equal(step_of(rig, X, DBASE).attempts, 1);
    rig->scripts[FILES] = rig->scripts[DBASE] = NULL;
    assert_status(move(rig, X, "creating"), LW_OK);
    assert_error(rig, FILES, "");
    assert_error(rig, DBASE, "");
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "");
}

static lw_outcome fail_and_say_who(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    *(lw_id *)rig->user = task->id;
    return script_fail(rig, ctx, task);
}

FLOW_TEST(a_failed_task_that_is_retried_by_hand_shows_its_error_too) {
    lw_id id = 0;
    rig->user = &id;
    rig->scripts[DBASE] = fail_and_say_who;
    start_flow(rig, X);
    run(rig);
    rig->scripts[DBASE] = NULL;
    assert_status(lw_retry_now(rig->engine, id, NULL), LW_OK);
    assert_string_equal(step_of(rig, X, DBASE).error, "never");
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_error(rig, DBASE, "never");
}

/* A program without the declaration sees what the store has. */
FLOW_TEST(who_looks_from_elsewhere_sees_the_same_errors) {
    lw_flow_status status;
    lw_engine *reader;
    lw_error err = {0};
    if (!is_flow_durable(rig))
        return;
    rig->scripts[DBASE] = script_retry_once;
    rig->scripts[FILES] = script_retry;
    start_flow(rig, X);
    run(rig);
    assert_status(lw_cancel(rig->engine, step_of(rig, X, FILES).task), LW_OK);
    advance_flow(rig, 4000);
    assert_status(lw_open(&reader, rig->url, LW_ENGINE_OPTIONS(.role = LW_ROLE_READER), &err),
                  LW_OK);
    assert_status(lw_flow_peek(reader, "site", X, &status), LW_OK);
    int seen = 0;
    for (unsigned i = 0; i < status.step_count; i++) {
        const lw_flow_step *step = &status.steps[i];
        bool is_db = strcmp(step->flag, "db") == 0, is_files = strcmp(step->flag, "files") == 0;
        if (is_db)
            assert_string_equal(step->error, "no 1");
        if (is_files)
            assert_string_equal(step->error, "cancelled");
        seen += is_db || is_files;
    }
    assert_int_equal(seen, 2);
    assert_int_equal(status.condition, LW_FLOW_HALTED);
    assert_status(lw_close(reader), LW_OK);
}
