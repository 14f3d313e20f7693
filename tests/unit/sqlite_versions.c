/* A program that comes back with another declaration of its flow, while resources are on their way:
 * steps that were renamed, taken out, moved to another state or given to people, states that are
 * not there any more, and flows that are another program's. */
#include "engines.h"

#include <legwork/flow.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL "sqlite:tasks.db"

static const char X[] = "example.org";

/* ---- programs ----------------------------------------------------------------------------- */

/* A declaration, and what was told and logged under it. */
struct program {
    const char *name; /* of its flow; NULL: "site" */
    lw_step steps[8];
    lw_flow_state states[4]; /* none: creating (running) and deleting (an end) */
    int workers;             /* 0: the test runs it */
    int64_t limit;           /* of tasks. 0: the default */
    /* what has happened */
    lw_engine *engine;
    _Atomic int goals; /* workers tell of them, too */
    char log[4096];
};

static void keep_line(void *user, const lw_log_record *record) {
    struct program *program = user;
    size_t at = strlen(program->log), size = sizeof program->log;
    if (strcmp(record->component, "flow") != 0)
        return;
    at += (size_t)snprintf(program->log + at, size - at, "%s: %s;",
                           lw_log_level_name(record->level), record->message);
    for (size_t i = 0; i < record->field_count && at < size; i++)
        at += (size_t)snprintf(program->log + at, size - at, " %s=%s", record->fields[i].key,
                               record->fields[i].value);
    if (at < size)
        snprintf(program->log + at, size - at, "\n");
}

static void note_event(void *user, const lw_flow_event *event) {
    struct program *program = user;
    program->goals += event->type == LW_FLOW_EVENT_GOAL;
}

static void declare(struct program *program, lw_flow *flow) {
    static const lw_flow_state usual[] = {{.name = "creating", .goal = "running"},
                                          {.name = "deleting", .goal = "deleted", .end = true}};
    *flow = (lw_flow){.struct_size = sizeof *flow,
                      .name = program->name ? program->name : "site",
                      .steps = program->steps,
                      .on_event = note_event,
                      .user = program};
    while (flow->step_count < sizeof program->steps / sizeof *program->steps
           && program->steps[flow->step_count].name)
        flow->step_count++;
    if (program->states[0].name)
        memcpy(flow->states, program->states, sizeof program->states);
    else
        memcpy(flow->states, usual, sizeof usual);
}

static void open_program(struct program *program) {
    lw_error err = {0};
    lw_flow flow;
    const lw_log log = {.write = keep_line, .user = program};
    declare(program, &flow);
    program->log[0] = 0;
    program->goals = 0;
    assert_status(
        lw_open(&program->engine, URL,
                LW_ENGINE_OPTIONS(.workers = program->workers ? program->workers : LW_ZERO,
                                  .task_limit = program->limit, .log = &log),
                &err),
        LW_OK);
    assert_status(lw_flow_register(program->engine, &flow, &err), LW_OK);
    assert_status(lw_start(program->engine, &err), LW_OK);
}

static void close_program(struct program *program) {
    close_engine(program->engine);
    program->engine = NULL;
}

static void run_all(struct program *program) {
    CHECK(lw_test_run(program->engine) >= 0);
}

static lw_flow_status status_of(struct program *program) {
    lw_flow_status status;
    assert_status(lw_flow_get(program->engine, program->name ? program->name : "site", X, &status),
                  LW_OK);
    return status;
}

static void start_site(struct program *program) {
    assert_status(lw_flow_start(program->engine, "site", X, LW_TEXT("x"), NULL), LW_OK);
    run_all(program);
}

static lw_id task_of(struct program *program, const char *step) {
    lw_flow_status status = status_of(program);
    for (unsigned i = 0; i < status.step_count; i++)
        if (strcmp(status.steps[i].name, step) == 0)
            return status.steps[i].task;
    return 0;
}

static uint64_t unfinished(struct program *program) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(program->engine, &stats), LW_OK);
    return stats.created + stats.scheduled + stats.enqueued + stats.started;
}

static void assert_at(struct program *program, const char *state, lw_flow_condition condition) {
    lw_flow_status status = status_of(program);
    assert_string_equal(status.state, state);
    assert_int_equal(status.condition, condition);
}

static void assert_explained(struct program *program, lw_id id, const char *words) {
    lw_explanation why;
    assert_status(lw_explain(program->engine, id, &why), LW_OK);
    for (unsigned i = 0; i < why.count; i++)
        if (strstr(why.reasons[i], words))
            return;
    fprintf(stderr, "\"%s\" does not say \"%s\"\n", why.count > 0 ? why.reasons[0] : "", words);
    abort();
}

static void assert_logged(const struct program *program, const char *words) {
    if (!strstr(program->log, words)) {
        fprintf(stderr, "\"%s\" is not in the log:\n%s", words, program->log);
        abort();
    }
}

/* Closes the one and opens the other. */
static void become(struct program *old, struct program *new) {
    close_program(old);
    open_program(new);
}

#define WITH(step_name, handler) \
    { .name = step_name, .run = handler, .state = "creating" }
#define WITH_AFTER(step_name, handler, needed)                                      \
    {                                                                               \
        .name = step_name, .run = handler, .state = "creating", .needs = { needed } \
    }
#define WIPE \
    { .name = "wipe", .run = do_done, .state = "deleting" }

static struct program old_program(lw_handler files) {
    return (struct program){.steps = {WITH("save", do_done),
                                      WITH_AFTER("create-files", files, "save"),
                                      WITH_AFTER("boot", do_done, "create-files"), WIPE}};
}

static struct program new_program(lw_handler files) {
    return (struct program){.steps = {WITH("save", do_done),
                                      WITH_AFTER("make-files", files, "save"),
                                      WITH_AFTER("boot", do_done, "make-files"), WIPE}};
}

/* ---- a step that was renamed --------------------------------------------------------------- */

TEST(a_step_that_was_renamed_in_flight_starts_under_its_new_name) {
    struct program old = old_program(do_retry), new = new_program(do_done);
    open_program(&old);
    start_site(&old);
    lw_id stranded = task_of(&old, "create-files");
    CHECK(stranded > 0);
    become(&old, &new);
    assert_int_equal(state_of(new.engine, stranded), LW_ABORTED);
    assert_explained(&new, stranded,
                     "flow \"site\" has no step \"create-files\" any more: "
                     "\"make-files\" is started");
    assert_at(&new, "creating", LW_FLOW_ACTIVE);
    CHECK(task_of(&new, "make-files") > 0);
    assert_logged(&new, "warn: tasks of a step that is not declared here any more were aborted");
    assert_logged(&new, "flow=site step=create-files tasks=1 nearest=make-files started=1");
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(unfinished(&new), 0);
    become(&new, &new); /* and that is all there is to say */
    assert_string_equal(new.log, "");
    close_program(&new);
}

TEST(a_program_of_before_takes_it_back) {
    struct program old = old_program(do_retry), new = new_program(do_retry);
    open_program(&old);
    start_site(&old);
    become(&old, &new);
    run_all(&new);
    old.steps[1].run = do_done;
    become(&new, &old);
    assert_logged(&old, "step=make-files tasks=1 nearest=create-files started=1");
    run_all(&old);
    assert_at(&old, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(unfinished(&old), 0);
    close_program(&old);
}

/* It was enqueued, and had not run. */
TEST(a_renamed_step_that_had_not_begun_starts_under_its_new_name) {
    struct program old = {.steps = {WITH("create-files", do_done)}};
    struct program new = {.steps = {WITH("make-files", do_done)}};
    old.states[0] = new.states[0] = (lw_flow_state){.name = "creating", .goal = "running"};
    open_program(&old);
    assert_status(lw_flow_start(old.engine, "site", X, LW_TEXT("x"), NULL), LW_OK);
    become(&old, &new);
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    close_program(&new);
}

TEST(who_renames_a_step_and_keeps_its_flag_keeps_what_is_done) {
    struct program old = {
        .steps = {WITH("save", do_done), WITH_AFTER("files", do_retry, "saved"), WIPE}};
    struct program new = {
        .steps = {WITH("store", do_fail), WITH_AFTER("files", do_done, "saved"), WIPE}};
    old.steps[0].sets = new.steps[0].sets = "saved";
    open_program(&old);
    start_site(&old);
    become(&old, &new);
    assert_string_equal(new.log, "");
    assert_int_equal(status_of(&new).steps[0].state, LW_STEP_DONE);
    assert_status(lw_retry_now(new.engine, task_of(&new, "files"), NULL), LW_OK);
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    close_program(&new);
}

TEST(other_steps_of_the_resource_go_on_as_they_were) {
    struct program old = {
        .steps = {WITH("a", do_retry), WITH("b", do_retry), WITH("c", do_fail), WIPE}};
    struct program new = {
        .steps = {WITH("a", do_retry), WITH("bb", do_done), WITH("c", do_done), WIPE}};
    open_program(&old);
    start_site(&old);
    lw_id a = task_of(&old, "a");
    become(&old, &new);
    run_all(&new);
    lw_flow_status status = status_of(&new);
    assert_int_equal(status.steps[0].task, a);
    assert_int_equal(status.steps[0].attempts, 1);
    assert_int_equal(status.steps[1].state, LW_STEP_DONE);
    assert_int_equal(status.steps[2].state, LW_STEP_HALTED); /* until it is resumed */
    assert_string_equal(status.steps[2].error, "no");
    assert_int_equal(status.condition, LW_FLOW_HALTED);
    close_program(&new);
}

TEST(a_step_that_was_resumed_and_then_renamed_goes_on) {
    struct program old = {.steps = {WITH("create-files", do_fail), WIPE}};
    struct program new = {.steps = {WITH("make-files", do_done), WIPE}};
    old.steps[0].sets = new.steps[0].sets = "files";
    open_program(&old);
    start_site(&old);
    assert_at(&old, "creating", LW_FLOW_HALTED);
    assert_status(lw_flow_resume(old.engine, "site", X, NULL), LW_OK);
    become(&old, &new);
    assert_string_equal(status_of(&new).steps[0].error, "no");
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    close_program(&new);
}

/* ---- a step that is not there any more ------------------------------------------------------ */

TEST(a_step_that_was_taken_out_was_the_last_before_the_goal) {
    struct program old = {.steps = {WITH("save", do_done), WITH("count", do_retry), WIPE}};
    struct program new = {.steps = {WITH("save", do_done), WIPE}};
    open_program(&old);
    start_site(&old);
    become(&old, &new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(new.goals, 1);
    assert_int_equal(unfinished(&new), 0);
    become(&new, &new);
    assert_int_equal(new.goals, 0);
    close_program(&new);
}

/* There is no task then that anybody could miss. */
TEST(a_step_of_a_person_that_was_taken_out_was_the_last_before_the_goal) {
    struct program old = {.steps = {WITH("save", do_done), WITH("approve", NULL), WIPE}};
    struct program new = {.steps = {WITH("save", do_done), WIPE}};
    open_program(&old);
    start_site(&old);
    assert_at(&old, "creating", LW_FLOW_ACTIVE);
    become(&old, &new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(new.goals, 1);
    close_program(&new);
}

TEST(the_end_of_a_resource_comes_with_the_last_step_that_is_left) {
    struct program old = {.steps = {WITH("save", do_done),
                                    {.name = "unmount", .run = do_done, .state = "deleting"},
                                    {.name = "wipe", .run = do_retry, .state = "deleting"}}};
    struct program new = {
        .steps = {WITH("save", do_done), {.name = "unmount", .run = do_done, .state = "deleting"}}};
    lw_flow_status status;
    open_program(&old);
    start_site(&old);
    assert_status(lw_flow_move(old.engine, "site", X, "deleting", NULL), LW_OK);
    run_all(&old);
    become(&old, &new);
    assert_status(lw_flow_get(new.engine, "site", X, &status), LW_ENOTFOUND);
    assert_int_equal(unfinished(&new), 0);
    assert_int_equal(new.goals, 1);
    assert_status(lw_flow_start(new.engine, "site", X, LW_TEXT("x"), NULL), LW_OK);
    close_program(&new);
}

TEST(a_step_that_people_do_now_waits_for_them) {
    struct program old = {.steps = {WITH("save", do_done), WITH("approve", do_retry), WIPE}};
    struct program new = {.steps = {WITH("save", do_done), WITH("approve", NULL), WIPE}};
    open_program(&old);
    start_site(&old);
    lw_id stranded = task_of(&old, "approve");
    become(&old, &new);
    assert_explained(&new, stranded, "has no handler any more: lw_flow_set completes it");
    assert_int_equal(status_of(&new).steps[1].state, LW_STEP_MANUAL);
    assert_at(&new, "creating", LW_FLOW_ACTIVE);
    assert_int_equal(unfinished(&new), 0);
    assert_status(lw_flow_set(new.engine, "site", X, "approve", 0, NULL), LW_OK);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    close_program(&new);
}

TEST(a_step_that_serves_another_state_now_does_not_run_in_this_one) {
    struct program old = {.steps = {WITH("save", do_done), WITH("sweep", do_retry), WIPE}};
    struct program new = {.steps = {WITH("save", do_done),
                                    WITH("polish", do_done),
                                    {.name = "sweep", .run = do_fail, .state = "deleting"}}};
    open_program(&old);
    start_site(&old);
    lw_id stranded = task_of(&old, "sweep");
    become(&old, &new);
    assert_explained(
        &new, stranded,
        "serves the state \"deleting\", not \"creating\", by now: \"polish\" is started");
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    close_program(&new);
}

/* Whoever set its flag from outside did not wait for its task. */
TEST(a_task_that_was_left_at_the_goal_is_stranded_as_well) {
    struct program old = {.steps = {WITH("create-files", do_retry), WIPE}};
    struct program new = {.steps = {WITH("make-files", do_done), WIPE}};
    open_program(&old);
    start_site(&old);
    assert_status(lw_flow_set(old.engine, "site", X, "create-files", 0, NULL), LW_OK);
    assert_int_equal(unfinished(&old), 1);
    become(&old, &new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(unfinished(&new), 0);
    assert_int_equal(new.goals, 0);
    close_program(&new);
}

/* ---- a state that is not there any more ----------------------------------------------------- */

TEST(a_state_that_is_not_declared_is_said_and_its_tasks_wait_for_whoever_declares_it) {
    struct program old = {
        .steps = {WITH("save", do_done), {.name = "pack", .run = do_retry, .state = "archiving"}},
        .states = {{.name = "creating", .goal = "running"},
                   {.name = "archiving", .goal = "archived"}}};
    struct program new = {
        .steps = {WITH("save", do_done)},
        .states = {{.name = "creating", .goal = "running"}, {.name = "archived"}}};
    open_program(&old);
    start_site(&old);
    assert_status(lw_flow_move(old.engine, "site", X, "archiving", NULL), LW_OK);
    run_all(&old);
    lw_id pack = task_of(&old, "pack");
    become(&old, &new);
    assert_logged(&new, "resources are in a state that is not declared here");
    assert_logged(&new, "flow=site state=archiving resources=1 nearest=archived");
    assert_at(&new, "archiving", LW_FLOW_HALTED);
    assert_int_equal(state_of(new.engine, pack), LW_SCHEDULED);
    assert_explained(&new, pack, "flow \"site\" has no step \"pack\" here, nor the state");
    old.steps[1].run = do_done;
    become(&new, &old);
    assert_int_equal(task_of(&old, "pack"), pack);
    become(&old, &new);
    assert_status(lw_flow_move(new.engine, "site", X, "creating", NULL), LW_OK);
    run_all(&new);
    assert_at(&new, "running", LW_FLOW_AT_GOAL);
    assert_int_equal(unfinished(&new), 0);
    close_program(&new);
}

/* ---- whose it is not ------------------------------------------------------------------------ */

TEST(a_flow_that_is_not_registered_here_is_left_alone) {
    struct program old = old_program(do_retry), other = old_program(do_done);
    other.name = "mail";
    open_program(&old);
    start_site(&old);
    lw_id task = task_of(&old, "create-files");
    become(&old, &other);
    assert_string_equal(other.log, "");
    assert_int_equal(state_of(other.engine, task), LW_SCHEDULED);
    assert_explained(&other, task, "is a step of a flow that this program has not registered");
    old.steps[1].run = do_done;
    become(&other, &old);
    assert_int_equal(task_of(&old, "create-files"), task);
    close_program(&old);
}

TEST(a_reader_of_the_store_settles_nothing) {
    struct program old = old_program(do_retry), new = new_program(do_done);
    lw_engine *reader;
    lw_flow flow;
    open_program(&old);
    start_site(&old);
    lw_id task = task_of(&old, "create-files");
    declare(&new, &flow);
    assert_status(lw_open(&reader, URL, LW_ENGINE_OPTIONS(.role = LW_ROLE_READER), NULL), LW_OK);
    CHECK(lw_flow_register(reader, &flow, NULL) < 0);
    CHECK(lw_start(reader, NULL) < 0);
    close_engine(reader);
    assert_int_equal(state_of(old.engine, task), LW_SCHEDULED);
    close_program(&old);
}

/* ---- many ----------------------------------------------------------------------------------- */

enum { MANY = 2500 };

static void start_many(struct program *program, int count) {
    char id[32];
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%d.org", i);
        assert_status(lw_flow_start(program->engine, "site", id, LW_TEXT("x"), NULL), LW_OK);
    }
}

static void await_many(struct program *program, int count) {
    char id[32];
    lw_flow_status status;
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%d.org", i);
        assert_status(lw_flow_wait(program->engine, "site", id, -1, &status), LW_OK);
        assert_int_equal(status.condition, LW_FLOW_AT_GOAL);
    }
}

TEST(thousands_of_resources_are_settled_in_one_start_and_one_line) {
    struct program old = {.steps = {WITH("create-files", do_done), WIPE}};
    struct program new = {.steps = {WITH("make-files", do_done), WIPE}, .workers = 2};
    open_program(&old);
    start_many(&old, MANY);
    become(&old, &new);
    assert_logged(&new, "step=create-files tasks=2500 nearest=make-files started=2500");
    CHECK(strchr(new.log, '\n') == new.log + strlen(new.log) - 1);
    await_many(&new, MANY);
    close_program(&new);
}

/* The old ones leave their room in the same transaction in which the new ones need it. */
TEST(a_store_that_is_full_is_settled_as_well) {
    struct program old = {.steps = {WITH("create-files", do_done), WIPE}, .limit = 50};
    struct program new = {.steps = {WITH("make-files", do_done), WIPE}, .limit = 50, .workers = 1};
    open_program(&old);
    start_many(&old, 50);
    assert_status(lw_flow_start(old.engine, "site", "one more", LW_TEXT("x"), NULL), LW_EFULL);
    become(&old, &new);
    assert_logged(&new, "tasks=50 nearest=make-files started=50");
    await_many(&new, 50);
    close_program(&new);
}

/* ---- a declaration that has not changed ---------------------------------------------------- */

TEST(a_resource_that_is_held_by_nobody_is_not_touched_by_a_start) {
    struct program old = old_program(do_retry);
    open_program(&old);
    start_site(&old);
    lw_flow_status before = status_of(&old);
    become(&old, &old);
    lw_flow_status after = status_of(&old);
    assert_int_equal(after.version, before.version);
    assert_int_equal(task_of(&old, "create-files"), before.steps[1].task);
    assert_string_equal(old.log, "");
    close_program(&old);
}
