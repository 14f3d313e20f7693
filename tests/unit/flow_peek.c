/* Resources as they are seen where their flow is not registered: by an owner that came later, and
 * by a reader while the owner is there. */
#include "flows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char X[] = "example.org";

/* An engine that has never heard of the flow; NULL: this store cannot be had by two. */
static lw_engine *open_reader(const struct flow_rig *rig) {
    lw_engine *engine = NULL;
    lw_error err = {0};
    if (!is_flow_durable(rig))
        return NULL;
    assert_status(lw_open(&engine, rig->url,
                          LW_ENGINE_OPTIONS(.role = LW_ROLE_READER, .clock = rig->clock), &err),
                  LW_OK);
    return engine;
}

/* What a reader sees, when all that has happened is on disk. */
static lw_flow_status peek(struct flow_rig *rig, const char *id) {
    lw_engine *reader = open_reader(rig);
    lw_flow_status known = status_of(rig, id), seen;
    do
        assert_status(lw_flow_peek(reader, "site", id, &seen), LW_OK);
    while (seen.version != known.version);
    lw_close(reader);
    CHECK(seen.is_partial);
    assert_string_equal(seen.flow, "site");
    assert_string_equal(seen.id, id);
    assert_string_equal(seen.state, known.state);
    assert_int_equal(seen.number, known.number);
    assert_int_equal(seen.generation, known.generation);
    assert_int_equal(seen.started_ms, known.started_ms);
    assert_int_equal(seen.since_ms, known.since_ms);
    assert_int_equal(seen.history_count, known.history_count);
    assert_string_equal(seen.payload, known.payload);
    return seen;
}

static const lw_flow_step *step_named(const lw_flow_status *status, const char *name) {
    for (unsigned i = 0; i < status->step_count; i++)
        if (strcmp(status->steps[i].name, name) == 0 || strcmp(status->steps[i].flag, name) == 0)
            return &status->steps[i];
    fprintf(stderr, "there is no %s\n", name);
    abort();
}

FLOW_TEST(a_registered_flow_is_seen_in_full) {
    lw_flow_status seen, known;
    start_flow(rig, X);
    memset(&seen, 0, sizeof seen);
    memset(&known, 0, sizeof known);
    assert_status(lw_flow_peek(rig->engine, "site", X, &seen), LW_OK);
    assert_status(lw_flow_get(rig->engine, "site", X, &known), LW_OK);
    assert_memory_equal(&seen, &known, sizeof seen);
    CHECK(!seen.is_partial);
    assert_string_equal(seen.flow, "site");
    assert_int_equal(seen.step_count, 4);
}

/* What is known of an active resource, whoever looks. */
static void assert_active(const lw_flow_status *seen, const lw_flow_step *db) {
    const lw_flow_step *step = step_named(seen, "metadata");
    assert_int_equal(seen->condition, LW_FLOW_ACTIVE);
    assert_int_equal(seen->step_count, 3);
    assert_int_equal(step->state, LW_STEP_DONE);
    assert_string_equal(step->name, ""); /* nobody here knows which one sets it */
    CHECK(step->done_ms > 0);
    assert_int_equal(step_named(seen, "files")->state, LW_STEP_DONE);
    step = step_named(seen, "db");
    assert_int_equal(step->state, LW_STEP_ACTIVE);
    assert_int_equal(step->task, db->task);
    assert_int_equal(step->task_state, LW_SCHEDULED);
    assert_int_equal(step->attempts, 1);
    assert_string_equal(step->error, "no 1");
    assert_int_equal(step->due_ms / 1000, db->due_ms / 1000);
}

FLOW_TEST(without_the_declaration_flags_and_tasks_are_seen) {
    lw_flow_status seen;
    lw_error err = {0};
    if (!is_flow_durable(rig))
        return;
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    lw_flow_step db = step_of(rig, X, DBASE);
    seen = peek(rig, X);
    assert_active(&seen, &db);
    assert_status(lw_close(rig->engine), LW_OK); /* and by an owner that comes later */
    lw_engine *owner = NULL;
    assert_status(
        lw_open(&owner, rig->url, LW_ENGINE_OPTIONS(.workers = LW_ZERO, .clock = rig->clock), &err),
        LW_OK);
    assert_status(lw_flow_peek(owner, "site", X, &seen), LW_OK);
    assert_active(&seen, &db);
    CHECK(seen.is_partial);
    assert_status(lw_flow_get(owner, "site", X, &seen), LW_ENOTFOUND);
    assert_status(lw_flow_move(owner, "site", X, "deleting", &err), LW_ENOTFOUND);
    rig->engine = owner;
    reopen_flow_rig(rig);
}

FLOW_TEST(without_the_declaration_it_is_seen_that_a_step_has_failed) {
    if (!is_flow_durable(rig))
        return;
    rig->scripts[DBASE] = script_fail;
    start_flow(rig, X);
    run(rig);
    lw_flow_status seen = peek(rig, X);
    assert_int_equal(seen.condition, LW_FLOW_HALTED);
    assert_string_equal(seen.reason, "db: never");
    assert_int_equal(step_named(&seen, "db")->state, LW_STEP_HALTED);
    assert_int_equal(step_named(&seen, "db")->attempts, 1);
    rig->scripts[DBASE] = script_retry;
    assert_status(lw_flow_resume(rig->engine, "site", X, NULL), LW_OK);
    seen = peek(rig, X);
    assert_int_equal(seen.condition, LW_FLOW_ACTIVE);
    assert_int_equal(step_named(&seen, "db")->state, LW_STEP_ACTIVE);
    assert_string_equal(step_named(&seen, "db")->flag, "db");
}

FLOW_TEST(without_the_declaration_a_goal_and_an_abort_are_seen) {
    if (!is_flow_durable(rig))
        return;
    start_flow(rig, X);
    run(rig);
    lw_flow_status seen = peek(rig, X);
    assert_int_equal(seen.condition, LW_FLOW_AT_GOAL);
    assert_string_equal(seen.state, "running");
    assert_status(move(rig, X, "suspended"), LW_OK);
    assert_int_equal(peek(rig, X).condition, 0); /* it may rest, or wait */
    rig->scripts[SAVE] = script_abort;
    start_flow(rig, "b");
    run(rig);
    seen = peek(rig, "b");
    assert_int_equal(seen.condition, LW_FLOW_ABORTED);
    assert_string_equal(seen.reason, "stop it");
    assert_int_equal(step_named(&seen, "metadata")->state, LW_STEP_ABORTED);
}

static lw_outcome delete_and_peek(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    lw_outcome outcome = script_delete(rig, ctx, task);
    lw_flow_status seen = peek(rig, task->key);
    assert_int_equal(seen.condition, LW_FLOW_HELD);
    assert_int_equal(seen.open, 1);
    assert_int_equal(step_named(&seen, "wipe")->state, LW_STEP_HELD);
    assert_int_equal(seen.history_count, 2);
    return outcome;
}

FLOW_TEST(without_the_declaration_a_fence_is_seen) {
    if (!is_flow_durable(rig))
        return;
    rig->scripts[SAVE] = delete_and_peek;
    start_flow(rig, X);
    run(rig);
    assert_int_equal(rig->runs[SAVE], 1);
    CHECK(is_gone(rig, X));
}

/* ---- many --------------------------------------------------------------------------------- */

struct seen {
    int count, max;
    uint64_t last;
    char names[8][256];
};

static bool note_seen(void *user, const lw_flow_status *status) {
    struct seen *seen = user;
    snprintf(seen->names[seen->count++], sizeof seen->names[0], "%s/%s", status->flow, status->id);
    seen->last = status->number;
    return seen->count != seen->max;
}

static void browse_all(lw_engine *engine) {
    struct seen seen = {0};
    assert_int_equal(lw_flow_browse(engine, NULL, note_seen, &seen), 3);
    assert_string_equal(seen.names[0], "site/a");
    assert_string_equal(seen.names[2], "site/c");
    seen = (struct seen){.count = 0};
    assert_int_equal(lw_flow_browse(engine, LW_FLOW_FILTER(.limit = 2), note_seen, &seen), 2);
    assert_int_equal(
        lw_flow_browse(engine, LW_FLOW_FILTER(.limit = 2, .after = seen.last), note_seen, &seen),
        1);
    assert_string_equal(seen.names[2], "site/c");
    seen = (struct seen){.max = 1};
    assert_int_equal(lw_flow_browse(engine, NULL, note_seen, &seen), 1);
    seen = (struct seen){.count = 0};
    assert_int_equal(lw_flow_browse(engine, LW_FLOW_FILTER(.state = "running"), note_seen, &seen),
                     2);
    assert_string_equal(seen.names[1], "site/c");
    assert_int_equal(
        lw_flow_browse(engine, LW_FLOW_FILTER(.condition = LW_FLOW_HALTED), note_seen, &seen), 1);
    assert_string_equal(seen.names[2], "site/b");
    assert_int_equal(lw_flow_browse(engine, LW_FLOW_FILTER(.flow = "sit"), note_seen, &seen), 0);
    assert_int_equal(lw_flow_browse(engine,
                                    LW_FLOW_FILTER(.flow = "site", .state = "creating",
                                                   .condition = LW_FLOW_HALTED),
                                    note_seen, &seen),
                     1);
}

FLOW_TEST(resources_are_browsed_by_flow_state_and_condition) {
    start_flow(rig, "a");
    run(rig);
    rig->scripts[DBASE] = script_fail;
    start_flow(rig, "b");
    run(rig);
    rig->scripts[DBASE] = NULL;
    start_flow(rig, "c");
    run(rig);
    browse_all(rig->engine);
    lw_engine *reader = open_reader(rig);
    if (!reader)
        return;
    peek(rig, "c"); /* all is on disk */
    browse_all(reader);
    lw_close(reader);
}

FLOW_TEST(what_cannot_be_looked_at_is_refused) {
    lw_flow_status status;
    struct seen seen = {0};
    char longest[LW_FLOW_ID_MAX + 2];
    memset(longest, 'i', sizeof longest);
    longest[sizeof longest - 1] = 0;
    start_flow(rig, X);
    assert_status(lw_flow_peek(NULL, "site", X, &status), LW_EINVAL);
    assert_status(lw_flow_peek(rig->engine, NULL, X, &status), LW_EINVAL);
    assert_status(lw_flow_peek(rig->engine, "site", NULL, &status), LW_EINVAL);
    assert_status(lw_flow_peek(rig->engine, "site", X, NULL), LW_EINVAL);
    assert_status(lw_flow_peek(rig->engine, "site", "none", &status), LW_ENOTFOUND);
    assert_status(lw_flow_peek(rig->engine, "none", X, &status), LW_ENOTFOUND);
    assert_status(lw_flow_peek(rig->engine, "site", longest, &status), LW_ENOTFOUND);
    assert_status(lw_flow_peek(rig->engine, longest, X, &status), LW_ENOTFOUND);
    assert_status(lw_flow_peek(rig->engine, "site/example", "org", &status), LW_ENOTFOUND);
    assert_int_equal(lw_flow_browse(NULL, NULL, note_seen, &seen), LW_EINVAL);
    assert_int_equal(lw_flow_browse(rig->engine, NULL, NULL, NULL), LW_EINVAL);
    assert_int_equal(lw_flow_browse(rig->engine, &(lw_flow_filter){0}, note_seen, &seen),
                     LW_EINVAL);
}
