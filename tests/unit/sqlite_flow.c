/* Flows on an SQLite file: steps that complete in their own transactions, starts in a transaction
 * of the program's, and processes that die while a fence stands. */
#include "flows.h"
#include "own_sqlite.h"

#include <legwork/outbox_sqlite.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

static const char X[] = "example.org";

/* An engine with threads, and a connection of the program's own. */
struct office {
    struct flow_rig rig;
    sqlite3 *db;
    struct tally moved;
    struct gate gate;
    struct tally begun;
};

static void open_office(struct office *office) {
    lw_error err = {0};
    office->rig.user = office;
    office->moved = office->begun = (struct tally)TALLY;
    office->gate = (struct gate)GATE;
    assert_status(lw_open(&office->rig.engine, URL, LW_ENGINE_OPTIONS(.workers = 2), &err), LW_OK);
    assert_status(register_site(office->rig.engine, &office->rig, &err), LW_OK);
    office->db = connect_db(DB);
    run_sql(office->db, "CREATE TABLE IF NOT EXISTS entry (n INTEGER)");
    start(office->rig.engine);
}

static void close_office(struct office *office) {
    close_engine(office->rig.engine);
    sqlite3_close(office->db);
}

static lw_flow_condition await_rest(struct office *office) {
    lw_flow_status status;
    assert_status(lw_flow_wait(office->rig.engine, "site", X, -1, &status), LW_OK);
    return status.condition;
}

/* ---- a step's own transaction ------------------------------------------------------------- */

static lw_outcome enter(struct flow_rig *rig, lw_ctx *ctx, const char *end) {
    struct office *office = rig->user;
    lw_error err = {0};
    run_sql(office->db, "BEGIN IMMEDIATE; INSERT INTO entry VALUES (1)");
    assert_status(lw_outbox_sqlite_done(office->db, ctx, &err), LW_OK);
    run_sql(office->db, end);
    return lw_done(ctx);
}

static lw_outcome enter_and_say_done(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return enter(rig, ctx, "COMMIT");
}

static lw_outcome enter_and_say_retry(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)task;
    enter(rig, ctx, "COMMIT");
    return lw_retry(ctx, "and yet it is done");
}

static lw_outcome enter_and_say_fail(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)task;
    enter(rig, ctx, "COMMIT");
    return lw_fail(ctx, "and yet it is done");
}

static lw_outcome enter_and_die(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)task;
    enter(rig, ctx, "COMMIT");
    _exit(9);
}

static void run_entering(step_script script) {
    static struct office office;
    office = (struct office){.rig.scripts[DBASE] = script};
    open_office(&office);
    start_flow(&office.rig, X);
    assert_int_equal(await_rest(&office), LW_FLOW_AT_GOAL);
    assert_int_equal(office.rig.runs[DBASE], 1);
    assert_int_equal(ask(office.db, "SELECT count(*) FROM entry"), 1);
    close_office(&office);
    assert_int_equal(count_events(&office.rig, LW_FLOW_EVENT_HALTED), 0);
}

TEST(a_step_completes_in_its_own_transaction) {
    run_entering(enter_and_say_done);
}

TEST(what_a_step_has_committed_counts_and_not_what_it_says_then) {
    run_entering(enter_and_say_retry);
}

TEST(even_if_it_says_that_it_has_failed) {
    run_entering(enter_and_say_fail);
}

static void die_in(step_script script, enum flow_step step) {
    pid_t child = fork();
    if (child == 0) {
        static struct office own;
        own.rig.scripts[step] = script;
        open_office(&own);
        start_flow(&own.rig, X);
        for (;;)
            pause();
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 9);
}

TEST(a_process_that_dies_right_after_that_commit_has_done_the_step) {
    static struct office office;
    die_in(enter_and_die, DBASE);
    open_office(&office);
    assert_int_equal(await_rest(&office), LW_FLOW_AT_GOAL);
    assert_int_equal(office.rig.runs[DBASE], 0);
    assert_int_equal(office.rig.runs[BOOT], 1);
    assert_int_equal(ask(office.db, "SELECT count(*) FROM entry"), 1);
    close_office(&office);
    office.db = connect_db(DB);
    assert_int_equal(ask(office.db, "SELECT count(*) FROM legwork_outbox"), 0);
    sqlite3_close(office.db);
}

static lw_outcome enter_too_late(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    struct office *office = rig->user;
    lw_error err = {0};
    assert_status(move(rig, task->key, "deleting"), LW_PENDING);
    run_sql(office->db, "BEGIN IMMEDIATE; INSERT INTO entry VALUES (1)");
    assert_status(lw_outbox_sqlite_done(office->db, ctx, &err), LW_ELEASE);
    CHECK(strstr(err.message, "its flow has moved on"));
    assert_status(lw_outbox_sqlite_checkpoint(office->db, ctx, LW_TEXT("here"), &err), LW_ELEASE);
    run_sql(office->db, "ROLLBACK");
    tally_add(&office->moved, 1);
    return lw_done(ctx);
}

TEST(an_old_generation_cannot_complete_in_its_own_transaction_either) {
    static struct office office;
    office = (struct office){.rig.scripts[DBASE] = enter_too_late};
    open_office(&office);
    start_flow(&office.rig, X);
    tally_await(&office.moved, 1);
    int rc = lw_flow_wait(office.rig.engine, "site", X, -1, NULL);
    CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
    CHECK(is_gone(&office.rig, X));
    assert_int_equal(ask(office.db, "SELECT count(*) FROM entry"), 0);
    close_office(&office);
}

/* ---- a start in a transaction of the program's --------------------------------------------- */

static void put_start(sqlite3 *db, const char *end) {
    lw_error err = {0};
    run_sql(db, "BEGIN IMMEDIATE; INSERT INTO entry VALUES (7)");
    assert_status(
        lw_outbox_sqlite_put(
            db, LW_TASK(.kind = "site:start", .key = X, .payload = LW_TEXT("body")), NULL, &err),
        LW_OK);
    run_sql(db, end);
}

TEST(a_flow_starts_if_and_only_if_the_programs_transaction_commits) {
    static struct office office;
    lw_flow_status status;
    open_office(&office);
    put_start(office.db, "ROLLBACK");
    put_start(office.db, "COMMIT");
    await_that(lw_flow_get(office.rig.engine, "site", X, &status) == LW_OK);
    assert_int_equal(await_rest(&office), LW_FLOW_AT_GOAL);
    assert_string_equal(status.payload, "body");
    assert_int_equal(ask(office.db, "SELECT count(*) FROM entry"), 1);
    close_office(&office);
    assert_int_equal(count_events(&office.rig, LW_FLOW_EVENT_STARTED), 1);
}

/* ---- a program that has changed ------------------------------------------------------------ */

static lw_engine *open_program(bool is_new) {
    const lw_step steps[] = {{.name = "a", .run = do_done, .state = "on"},
                             {.name = "b", .state = "on", .needs = {"a"}},
                             {.name = "c", .run = do_done, .state = "on", .needs = {"a"}}};
    lw_flow flow = {.struct_size = sizeof flow,
                    .name = "f",
                    .steps = steps,
                    .step_count = is_new ? 3 : 2,
                    .states = {{"on", .goal = "off"}}};
    lw_engine *engine;
    assert_status(lw_open(&engine, URL, LW_ENGINE_OPTIONS(.workers = LW_ZERO), NULL), LW_OK);
    assert_status(lw_flow_register(engine, &flow, NULL), LW_OK);
    start(engine);
    CHECK(lw_test_run(engine) >= 0);
    return engine;
}

TEST(a_new_step_of_an_old_resource_is_halted_until_it_is_resumed) {
    lw_flow_status status;
    lw_engine *engine = open_program(false);
    assert_status(lw_flow_start(engine, "f", X, LW_TEXT(""), NULL), LW_OK);
    CHECK(lw_test_run(engine) == 1);
    close_engine(engine);
    engine = open_program(true);
    assert_status(lw_flow_get(engine, "f", X, &status), LW_OK);
    assert_int_equal(status.condition, LW_FLOW_HALTED);
    assert_int_equal(status.steps[0].state, LW_STEP_DONE);
    assert_int_equal(status.steps[1].state, LW_STEP_MANUAL);
    assert_int_equal(status.steps[2].state, LW_STEP_HALTED);
    assert_string_equal(status.reason, "c: it has no task");
    assert_status(lw_flow_resume(engine, "f", X, NULL), LW_OK);
    assert_status(lw_flow_set(engine, "f", X, "b", 0, NULL), LW_OK);
    CHECK(lw_test_run(engine) == 1);
    assert_status(lw_flow_get(engine, "f", X, &status), LW_OK);
    assert_string_equal(status.state, "off");
    close_engine(engine);
    engine = open_program(false); /* back to the old one: what it does not know stays */
    assert_status(lw_flow_get(engine, "f", X, &status), LW_OK);
    assert_string_equal(status.state, "off");
    close_engine(engine);
}

/* ---- a process that dies while the fence stands -------------------------------------------- */

static lw_outcome move_and_die(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)ctx;
    assert_status(move(rig, task->key, "deleting"), LW_PENDING);
    _exit(9);
}

static lw_outcome move_back_and_forth_and_die(struct flow_rig *rig, lw_ctx *ctx,
                                              const lw_task *task) {
    assert_status(move(rig, task->key, "suspended"), LW_PENDING);
    return move_and_die(rig, ctx, task);
}

static void audit_unclean(bool is_opened_twice) {
    static struct office office;
    office = (struct office){.rig.user = NULL};
    if (is_opened_twice) { /* and nothing runs in between */
        lw_engine *engine;
        assert_status(lw_open(&engine, URL, NULL, NULL), LW_OK);
        close_engine(engine);
    }
    open_office(&office);
    int rc = lw_flow_wait(office.rig.engine, "site", X, -1, NULL);
    CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
    CHECK(is_gone(&office.rig, X));
    assert_int_equal(office.rig.runs[WIPE], 1);
    CHECK(office.rig.is_unclean[WIPE]);
    close_office(&office);
}

TEST(who_was_held_when_the_process_died_is_told_that_it_is_unclean) {
    die_in(move_and_die, FILES);
    audit_unclean(false);
}

TEST(and_is_told_so_after_another_open_too) {
    die_in(move_back_and_forth_and_die, FILES);
    audit_unclean(true);
}

static lw_outcome die(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    (void)rig;
    (void)ctx;
    (void)task;
    _exit(9);
}

TEST(an_attempt_that_died_makes_a_later_move_unclean) {
    static struct office office;
    die_in(die, FILES);
    office = (struct office){.rig.scripts[FILES] = script_retry};
    open_office(&office);
    await_that(step_of(&office.rig, X, FILES).task_state == LW_SCHEDULED);
    CHECK(move(&office.rig, X, "deleting") >= 0);
    await_that(is_gone(&office.rig, X));
    CHECK(office.rig.is_unclean[WIPE]);
    close_office(&office);
}
