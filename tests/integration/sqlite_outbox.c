/* Two processes on one file: one accepts tasks in its own transactions, the other owns the store
 * and runs them, completing each in a transaction with its effect. Both are killed again and again.
 * In the end there is exactly one effect for each entry that was committed, and none for others. */
#include "engines.h"
#include "forks.h"
#include "gate.h"
#include "own_sqlite.h"

#include <legwork/outbox_sqlite.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "bank.db"

/* What both have committed, seen by all processes: SQLite does not go through a fork. */
static atomic_int *entries, *effects;

static void make_tables(void) {
    lw_error err = {0};
    entries = open_shared();
    effects = entries + 1;
    sqlite3 *db = connect_db(DB);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    run_sql(db, "CREATE TABLE entry (n INTEGER PRIMARY KEY); CREATE TABLE effect (n INTEGER)");
    sqlite3_close(db);
}

/* ---- the one that accepts ----------------------------------------------------------------- */

static void accept_one(sqlite3 *db, bool is_taken_back) {
    char number[32];
    run_sql(db, "BEGIN IMMEDIATE; INSERT INTO entry (n) VALUES (NULL)");
    snprintf(number, sizeof number, "%lld", (long long)sqlite3_last_insert_rowid(db));
    assert_status(
        lw_outbox_sqlite_put(
            db, LW_TASK(.kind = "effect", .key = number, .payload = LW_TEXT(number)), NULL, NULL),
        LW_OK);
    run_sql(db, is_taken_back ? "ROLLBACK" : "COMMIT");
    *entries += !is_taken_back;
}

static void be_accepting(void) {
    sqlite3 *db = connect_db(DB);
    for (int i = 0;; i++) {
        accept_one(db, i % 5 == 4);
        sqlite3_sleep(1);
    }
}

/* ---- the one that runs -------------------------------------------------------------------- */

static lw_outcome do_effect(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = lw_ctx_user(ctx);
    lw_error err = {0};
    char sql[100];
    snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO effect VALUES (%s)",
             (const char *)task->payload.data);
    run_sql(db, sql);
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    run_sql(db, "COMMIT");
    ++*effects;
    return task->id % 3 == 0 ? lw_retry(ctx, "not sure") : lw_done(ctx);
}

/* On a machine with more to do than it can, the other one may have the file for longer than an open
 * waits. */
static lw_engine *own(sqlite3 *db) {
    lw_engine *engine;
    lw_error err = {0};
    int rc = LW_EBUSY;
    while (rc == LW_EBUSY)
        rc = lw_open(&engine, "sqlite:" DB, LW_ENGINE_OPTIONS(.workers = 2), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    handle(engine, "effect", do_effect,
           LW_HANDLER_OPTIONS(.user = db, .concurrency = 1,
                              .retry = {.min_ms = LW_ZERO, .crashes = -1}));
    start(engine);
    return engine;
}

static void be_owning(void) {
    own(connect_db(DB));
    for (;;)
        pause();
}

/* ---- killing ------------------------------------------------------------------------------ */

static pid_t spawn(void (*be)(void)) {
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be();
    }
    return child;
}

static void kill_one(pid_t child) {
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

/* Until both have done something since the last kill, and a bit longer. */
static void let_work(int bit_ms) {
    int entries_before = *entries, effects_before = *effects;
    await_that(*entries >= entries_before + 3 && *effects > effects_before);
    sqlite3_sleep(bit_ms);
}

TEST(whatever_is_killed_each_committed_entry_has_exactly_one_effect) {
    make_tables();
    pid_t accepting = spawn(be_accepting), owning = spawn(be_owning);
    for (int round = 0; round < test_scale(12, 200); round++) {
        let_work(round * 37 % 60);
        if (round % 3 != 1) {
            kill_one(owning);
            owning = spawn(be_owning);
        } else {
            kill_one(accepting);
            accepting = spawn(be_accepting);
        }
    }
    kill_one(accepting);
    kill_one(owning);

    sqlite3 *db = connect_db(DB), *desk = connect_db(DB);
    lw_engine *engine = own(desk);
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox") == 0);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    CHECK(ask(db, "SELECT count(*) FROM entry") > 20);
    assert_int_equal(ask(db, "SELECT count(*) FROM entry WHERE n NOT IN (SELECT n FROM effect)"),
                     0);
    assert_int_equal(ask(db, "SELECT count(*) FROM effect WHERE n NOT IN (SELECT n FROM entry)"),
                     0);
    assert_int_equal(ask(db, "SELECT count(*) - count(DISTINCT n) FROM effect"), 0);
    sqlite3_close(desk);
    sqlite3_close(db);
}

/* ---- noticing ----------------------------------------------------------------------------- */

/* SQLite does not go through a fork: it is there before anything is opened, and sends when it is
 * told to. */
static pid_t spawn_sender(int *told) {
    int ends[2];
    char byte;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        sqlite3 *db = connect_db(DB);
        while (read(ends[0], &byte, 1) == 1)
            accept_one(db, false);
        sqlite3_close(db);
        _exit(0);
    }
    close(ends[0]);
    *told = ends[1];
    return child;
}

TEST(an_idle_owner_notices_another_process_at_once) {
    int told, status;
    make_tables();
    pid_t sender = spawn_sender(&told);
    sqlite3 *desk = connect_db(DB), *db = connect_db(DB);
    lw_engine *engine = own(desk);
    for (int i = 1; i <= test_scale(20, 500); i++) {
        assert_int_equal(write(told, "!", 1), 1);
        await_that(ask(db, "SELECT count(*) FROM effect") == i);
    }
    close(told);
    assert_int_equal(waitpid(sender, &status, 0), sender);
    assert_int_equal(status, 0);
    close_engine(engine);
    sqlite3_close(desk);
    sqlite3_close(db);
}
