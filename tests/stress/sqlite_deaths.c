/* A process dies at a point that has a name, at its first, second, third … pass; the next one finds
 * what the file has, and goes on. Chance, as in the crash tests, finds these moments rarely:
 * between a commit and its answer, between an effect and its settlement.
 *
 * The child kills itself at the point; one that gets to its end says so: there are no more passes.
 */
#include "engines.h"
#include "gate.h"
#include "own_sqlite.h"

#include <legwork/outbox_sqlite.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "tasks.db"
#define COMMITTED "pump: committed, not answered"
#define WRITTEN "pump: written, not committed"
#define RAN "hand: ran, not settled"
#define FINISHED "hand: settled, not hidden"

enum { PASSES_MAX = 200 };

/* ---- points ------------------------------------------------------------------------------- */

static const char *deadly; /* NULL: none */
static _Atomic int passes_left;

/* The owner has looked into the outbox, and what it found there is committed: whoever relies on an
 * end that is not written has done so by then. Nobody knows the task of this row. */
static void await_look(void) {
    sqlite3 *db = connect_db(DB);
    run_sql(db, "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', 777)");
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox WHERE task_id = 777") == 0);
    sqlite3_close(db);
}

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    if (!deadly || strcmp(name, deadly) != 0 || atomic_fetch_sub(&passes_left, 1) != 1)
        return;
    if (strcmp(name, FINISHED) == 0)
        await_look();
    kill(getpid(), SIGKILL);
}

/* Lets a child do it, which dies at the nth pass. False: it came to its end before. */
static bool dies_at(const char *point, int nth, void (*live)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        deadly = point;
        atomic_store(&passes_left, nth);
        live();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
    return status != 0;
}

static void remove_store(void) {
    static const char *const names[] = {DB, DB "-wal", DB "-shm", DB "-owner", DB "-running"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
}

/* Each pass on a store of its own. */
static int die_at_each(const char *point, void (*prepare)(void), void (*live)(void),
                       void (*audit)(bool is_dead)) {
    int nth = 0;
    bool is_dead;
    do {
        assert_true(++nth < PASSES_MAX);
        remove_store();
        prepare();
        is_dead = dies_at(point, nth, live);
        audit(is_dead);
    } while (is_dead);
    return nth - 1;
}

/* ---- the file ------------------------------------------------------------------------------ */

static long long ask_once(const char *sql) {
    sqlite3 *db = connect_db(DB);
    long long value = ask(db, sql);
    sqlite3_close(db);
    return value;
}

static lw_engine *open_store(void) {
    lw_engine *engine = NULL;
    lw_error err = {0};
    int rc = lw_open(&engine, "sqlite:" DB, LW_ENGINE_OPTIONS(.workers = 1), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return engine;
}

static void do_nothing(void) {}

/* ---- a submit ------------------------------------------------------------------------------ */

static void submit_under_key(void) {
    lw_engine *engine = open_store();
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .key = "k"), NULL, NULL), LW_OK);
    close_engine(engine);
}

/* Whoever was not answered repeats it. */
static int repeat_submit(void) {
    lw_engine *engine = open_store();
    int rc = lw_submit(engine, LW_TASK(.kind = "mail", .key = "k"), NULL, NULL);
    close_engine(engine);
    assert_int_equal(ask_once("SELECT count(*) FROM legwork_task WHERE key = 'k'"), 1);
    return rc;
}

static void expect_it_there(bool is_dead) {
    (void)is_dead;
    assert_status(repeat_submit(), LW_EXISTS);
}

/* Its own turn is the first. */
static void expect_it_gone_once(bool is_dead) {
    static int passes;
    assert_status(repeat_submit(), is_dead && passes++ == 0 ? LW_OK : LW_EXISTS);
}

TEST(a_submit_that_was_committed_and_not_answered_is_there_once) {
    assert_true(die_at_each(COMMITTED, do_nothing, submit_under_key, expect_it_there) > 0);
}

TEST(a_submit_that_was_not_committed_is_accepted_the_next_time) {
    assert_true(die_at_each(WRITTEN, do_nothing, submit_under_key, expect_it_gone_once) > 0);
}

/* ---- an effect ----------------------------------------------------------------------------- */

enum { ENTRIES = 3 };

static bool is_outside; /* completed in the handler's own transaction */
static bool is_keyed;   /* otherwise its worker finishes it alone, and says so later */
static bool is_chain;   /* each comes after the one before */

/* Entries of the program and their tasks, in one transaction each. */
static void accept_entries(void) {
    sqlite3 *db = connect_db(DB);
    lw_error err = {0};
    lw_id last = 0, id = 0;
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    run_sql(db, "CREATE TABLE entry (n INTEGER PRIMARY KEY); CREATE TABLE effect (n INTEGER)");
    for (int i = 1; i <= ENTRIES; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d", i);
        run_sql(db, "BEGIN IMMEDIATE; INSERT INTO entry (n) VALUES (NULL)");
        lw_task task = {.struct_size = sizeof task,
                        .kind = "effect",
                        .key = is_keyed ? number : NULL,
                        .payload = LW_TEXT(number),
                        .after = &last,
                        .after_count = is_chain && i > 1};
        assert_status(lw_outbox_sqlite_put(db, &task, &id, &err), LW_OK);
        last = id;
        run_sql(db, "COMMIT");
    }
    sqlite3_close(db);
}

static lw_outcome do_effect(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = lw_ctx_user(ctx);
    lw_error err = {0};
    char sql[100];
    snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO effect VALUES (%s)",
             (const char *)task->payload.data);
    run_sql(db, sql);
    if (is_outside)
        assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    run_sql(db, "COMMIT");
    return lw_done(ctx);
}

static void run_entries(void) {
    sqlite3 *desk = connect_db(DB), *db = connect_db(DB);
    lw_engine *engine = open_store();
    handle(engine, "effect", do_effect,
           LW_HANDLER_OPTIONS(.user = desk, .retry = {.min_ms = LW_ZERO, .crashes = -1}));
    start(engine);
    await_that(ask(db, "SELECT count(*) FROM legwork_history") == ENTRIES);
    close_engine(engine);
    sqlite3_close(desk);
    sqlite3_close(db);
}

/* What is left runs: in the end each has an effect. */
static void audit_effects(long long times_max) {
    run_entries();
    sqlite3 *db = connect_db(DB);
    assert_int_equal(ask(db, "SELECT count(DISTINCT n) FROM effect"), ENTRIES);
    assert_true(ask(db, "SELECT max(times) FROM (SELECT count(*) AS times FROM effect GROUP BY n)")
                <= times_max);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE state = 'finished'"),
                     ENTRIES);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    sqlite3_close(db);
}

static void expect_one(bool is_dead) {
    (void)is_dead;
    audit_effects(1);
}

static void expect_one_or_two(bool is_dead) {
    audit_effects(is_dead ? 2 : 1);
}

static void die_at_all(void (*audit)(bool is_dead)) {
    assert_int_equal(die_at_each(RAN, accept_entries, run_entries, audit), ENTRIES);
    assert_int_equal(ask_once("SELECT count(*) FROM effect"), ENTRIES); /* nobody died at last */
    assert_int_equal(die_at_each(FINISHED, accept_entries, run_entries, audit), ENTRIES);
    assert_true(die_at_each(WRITTEN, accept_entries, run_entries, audit) > 1);
    assert_true(die_at_each(COMMITTED, accept_entries, run_entries, audit) > 1);
}

TEST(an_effect_in_the_transaction_of_its_completion_is_there_exactly_once) {
    is_outside = is_keyed = true;
    die_at_all(expect_one);
}

TEST(so_is_the_effect_of_a_task_that_its_worker_finishes_alone) {
    is_outside = true;
    die_at_all(expect_one);
}

TEST(any_other_effect_is_there_at_least_once_and_twice_if_a_death_came_between) {
    is_keyed = true;
    die_at_all(expect_one_or_two);
}

/* A dependent has run: then the task that it came after does not run again. */
static void expect_order(bool is_dead) {
    audit_effects(is_dead ? 2 : 1);
    assert_int_equal(ask_once("SELECT count(*) FROM effect AS late JOIN effect AS early"
                              " ON late.rowid > early.rowid AND late.n < early.n"),
                     0);
}

TEST(nothing_runs_again_after_what_came_after_it) {
    is_chain = true;
    die_at_all(expect_order);
}
