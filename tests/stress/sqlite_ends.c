/* An end that no file has yet: a worker finishes a plain task, or finds that it was cancelled, by
 * itself, and tells the store later. Whoever relies on the end meanwhile (a dependent, the row that
 * completed it, the caller of a cancel, the next holder of its key) must not be ahead of the file.
 *
 * The tests keep a worker at a point that has a name, between the end and its account. */
#include "engines.h"
#include "gate.h"
#include "own_sqlite.h"

#include <legwork/outbox_sqlite.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "tasks.db"
#define FINISHED "hand: settled, not hidden"
#define FINISHING "finish: the first of flag and state is set"
#define CLAIMED "begin: about to"
#define TICKED "relieve: cursor read"
#define TURNS 20 /* of the store: whoever waits for the next one has had it by then */

/* ---- points ------------------------------------------------------------------------------- */

static const char *_Atomic kept_at; /* NULL: nobody is to be kept */
static struct gate kept = GATE;

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    const char *at = atomic_load(&kept_at);
    if (at && strcmp(name, at) == 0 && atomic_compare_exchange_strong(&kept_at, &at, NULL))
        gate_pass(&kept);
}

/* ---- the file ------------------------------------------------------------------------------ */

static lw_engine *open_store(int workers) {
    lw_engine *engine = NULL;
    lw_error err = {0};
    int rc = lw_open(&engine, "sqlite:" DB, LW_ENGINE_OPTIONS(.workers = workers), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return engine;
}

static bool has_end(sqlite3 *db, lw_id id) {
    char sql[100];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM legwork_history WHERE id = %llu", id);
    return ask(db, sql) == 1;
}

static lw_outcome do_tally(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

/* The owner has looked into the outbox, and what it found there is committed. */
static void await_look(sqlite3 *db) {
    run_sql(db, "INSERT INTO legwork_outbox (kind) VALUES ('marker')");
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox WHERE kind = 'marker'") == 0);
}

/* ---- a completion -------------------------------------------------------------------------- */

static const char *dies_at = FINISHED;

static lw_outcome do_effect(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = lw_ctx_user(ctx);
    lw_error err = {0};
    (void)task;
    run_sql(db, "BEGIN IMMEDIATE; INSERT INTO effect VALUES (1)");
    if (ask(db, "SELECT is_position FROM setting"))
        assert_status(lw_outbox_sqlite_checkpoint(db, ctx, LW_TEXT("half"), &err), LW_OK);
    else
        assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    run_sql(db, "COMMIT");
    atomic_store(&kept_at, dies_at);
    return lw_done(ctx);
}

static void handle_effect(lw_engine *engine, sqlite3 *db) {
    handle(engine, "effect", do_effect,
           LW_HANDLER_OPTIONS(.user = db, .retry = {.min_ms = LW_ZERO, .crashes = -1}));
    handle(engine, "marker", do_done, NULL);
}

static void die_before_the_account(void) {
    sqlite3 *desk = connect_db(DB), *db = connect_db(DB);
    lw_engine *engine = open_store(2);
    handle_effect(engine, desk);
    SUBMIT(engine, .kind = "effect");
    start(engine);
    tally_await(&kept.arrived, 1);
    await_look(db);
    kill(getpid(), SIGKILL);
}

static void let_a_child(void (*live)(void)) {
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        live();
        _exit(1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static sqlite3 *prepare_effects(bool is_position) {
    lw_error err = {0};
    sqlite3 *db = connect_db(DB);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    run_sql(db, "CREATE TABLE effect (n INTEGER); CREATE TABLE setting (is_position INTEGER)");
    run_sql(db, is_position ? "INSERT INTO setting VALUES (1)" : "INSERT INTO setting VALUES (0)");
    return db;
}

static void expect_one_effect(void) {
    sqlite3 *db = prepare_effects(false);
    let_a_child(die_before_the_account);
    lw_engine *engine = open_store(1);
    gate_open(&kept);
    handle_effect(engine, db);
    start(engine);
    assert_status(lw_wait_idle(engine, 200000), LW_OK);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM effect"), 1);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
    sqlite3_close(db);
}

TEST(a_completion_stays_in_the_file_until_the_end_of_its_task_is_there) {
    expect_one_effect();
}

/* Between the two steps of a plain end, which the store looks at without the task's lock. */
TEST(a_completion_stays_in_the_file_while_its_task_is_being_finished) {
    dies_at = FINISHING;
    expect_one_effect();
}

TEST(a_position_stays_in_the_file_until_the_end_of_its_task_is_there) {
    sqlite3 *db = prepare_effects(true);
    let_a_child(die_before_the_account);
    /* The owner may have looked before the end, too: then the task has the position, as a blob. */
    assert_int_equal(
        ask(db, "SELECT (SELECT count(*) FROM legwork_outbox WHERE op = 'checkpoint')"
                " + (SELECT count(*) FROM legwork_task WHERE checkpoint = CAST('half' AS BLOB))"),
        1);
    sqlite3_close(db);
}

/* ---- a callback ---------------------------------------------------------------------------- */

static void on_end_pass(void *gate, const lw_snapshot *task) {
    (void)task;
    gate_pass(gate);
}

/* One worker: it runs the first, then the gate, then tells the end of the first after it has run
 * the last. */
TEST(an_end_does_not_wait_for_the_callback_of_another) {
    struct gate door = GATE, told = GATE;
    struct tally ran = TALLY;
    lw_engine *engine = open_store(1);
    sqlite3 *db = connect_db(DB);
    handle(engine, "door", do_gate, LW_HANDLER_OPTIONS(.user = &door));
    handle(engine, "plain", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_id first = SUBMIT(engine, .kind = "plain", .on_end = on_end_pass, .user = &told);
    SUBMIT(engine, .kind = "door");
    start(engine);
    tally_await(&door.arrived, 1);
    await_that(has_end(db, first));
    lw_id last = SUBMIT(engine, .kind = "plain");
    gate_open(&door);
    tally_await(&told.arrived, 1);
    tally_await(&ran, 2);
    await_that(has_end(db, last));
    gate_open(&told);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- a dependent --------------------------------------------------------------------------- */

static _Atomic uint64_t awaited;

static lw_outcome do_first(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    atomic_store(&kept_at, FINISHED);
    return lw_done(ctx);
}

static lw_outcome do_dependent(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    CHECK(has_end(lw_ctx_user(ctx), atomic_load(&awaited)));
    return lw_done(ctx);
}

TEST(a_dependent_begins_when_the_end_that_it_waits_for_is_in_the_file) {
    struct tally ran = TALLY;
    lw_engine *engine = open_store(2);
    sqlite3 *db = connect_db(DB);
    handle(engine, "first", do_first, NULL);
    handle(engine, "dependent", do_dependent, LW_HANDLER_OPTIONS(.user = db));
    handle(engine, "other", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    lw_id first = SUBMIT(engine, .kind = "first");
    atomic_store(&awaited, first);
    tally_await(&kept.arrived, 1);
    assert_int_equal(state_of(engine, first), LW_FINISHED);
    lw_id second = SUBMIT(engine, .kind = "dependent", .after = &first, .after_count = 1);
    SUBMIT(engine, .kind = "other"); /* comes after it, if that can run */
    tally_await(&ran, 1);
    gate_open(&kept);
    assert_status(lw_wait(engine, second, 200000, NULL), LW_OK);
    assert_int_equal(state_of(engine, second), LW_FINISHED);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- a wait -------------------------------------------------------------------------------- */

struct wait {
    lw_engine *engine;
    lw_id id;
    bool was_written;
};

static void *wait_for_end(void *arg) {
    struct wait *w = arg;
    sqlite3 *db = connect_db(DB);
    assert_status(lw_wait(w->engine, w->id, -1, NULL), LW_OK);
    w->was_written = has_end(db, w->id);
    sqlite3_close(db);
    return NULL;
}

TEST(a_wait_that_begins_after_the_end_is_over_when_that_is_in_the_file) {
    lw_engine *engine = open_store(1);
    lw_snapshot now = LW_SNAPSHOT_INIT;
    lw_state state;
    pthread_t thread;
    handle(engine, "first", do_first, NULL);
    start(engine);
    struct wait w = {.engine = engine, .id = SUBMIT(engine, .kind = "first")};
    tally_await(&kept.arrived, 1);
    assert_status(lw_get_state(engine, w.id, &state), LW_OK);
    assert_int_equal(state, LW_FINISHED);
    assert_status(lw_wait(engine, w.id, 0, &now), LW_PENDING);
    assert_int_equal(now.state, LW_FINISHED);
    assert_status(lw_wait(engine, w.id, 20, NULL), LW_PENDING);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_end, &w), 0);
    gate_open(&kept);
    pthread_join(thread, NULL);
    CHECK(w.was_written);
    assert_status(lw_wait(engine, w.id, 0, NULL), LW_OK);
    lw_snapshot_clear(&now);
    close_engine(engine);
}

/* ---- a cancel ------------------------------------------------------------------------------ */

struct cancel {
    lw_engine *engine;
    lw_id id;
    int rc;
    struct tally returned;
};

static void *cancel(void *arg) {
    struct cancel *c = arg;
    c->rc = lw_cancel(c->engine, c->id);
    tally_add(&c->returned, 1);
    return NULL;
}

/* A worker has claimed the task, and has not begun. */
static lw_id keep_claimed(lw_engine *engine, const char *key) {
    lw_id id = SUBMIT(engine, .kind = "never", .key = key);
    atomic_store(&kept_at, CLAIMED);
    start(engine);
    tally_await(&kept.arrived, 1);
    return id;
}

static void expect_cancelled(lw_engine *engine, sqlite3 *db, lw_id id, struct tally *begun) {
    CHECK(has_end(db, id));
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    assert_int_equal(tally_read(begun), 0);
}

/* So is the answer to whoever cancels it meanwhile, too. */
TEST(a_cancel_that_says_ok_is_in_the_file) {
    struct tally begun = TALLY;
    pthread_t threads[2];
    lw_engine *engine = open_store(1);
    sqlite3 *db = connect_db(DB);
    handle(engine, "never", do_tally, LW_HANDLER_OPTIONS(.user = &begun));
    struct cancel c = {.engine = engine, .id = keep_claimed(engine, NULL), .returned = TALLY};
    struct cancel again = {.engine = engine, .id = c.id, .returned = TALLY};
    assert_int_equal(pthread_create(&threads[0], NULL, cancel, &c), 0);
    await_that(state_of(engine, c.id) == LW_ABORTED);
    assert_int_equal(pthread_create(&threads[1], NULL, cancel, &again), 0);
    for (int i = 0; i < TURNS; i++)
        SUBMIT(engine, .kind = "other");
    CHECK(tally_read(&c.returned) + tally_read(&again.returned) == 0 || has_end(db, c.id));
    gate_open(&kept);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_status(c.rc, LW_OK);
    CHECK(again.rc == LW_OK || again.rc == LW_ENOTFOUND); /* it may have come when all was over */
    expect_cancelled(engine, db, c.id, &begun);
    lw_close(engine);
    sqlite3_close(db);
}

TEST(a_cancel_of_another_process_stays_in_the_file_until_the_end_is_there) {
    struct tally begun = TALLY;
    char sql[200];
    lw_engine *engine = open_store(1);
    sqlite3 *db = connect_db(DB);
    handle(engine, "never", do_tally, LW_HANDLER_OPTIONS(.user = &begun));
    handle(engine, "marker", do_done, NULL);
    lw_id id = keep_claimed(engine, NULL);
    snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', %llu)",
             id);
    run_sql(db, sql);
    await_look(db);
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    CHECK(has_end(db, id) || ask(db, "SELECT count(*) FROM legwork_outbox") == 1);
    gate_open(&kept);
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox") == 0);
    expect_cancelled(engine, db, id, &begun);
    close_engine(engine);
    sqlite3_close(db);
}

TEST(a_key_is_not_free_before_the_end_of_its_cancelled_task_is_noted) {
    struct tally begun = TALLY;
    pthread_t thread;
    lw_engine *engine = open_store(1);
    sqlite3 *db = connect_db(DB);
    handle(engine, "never", do_tally, LW_HANDLER_OPTIONS(.user = &begun));
    struct cancel c = {.engine = engine, .id = keep_claimed(engine, "k"), .returned = TALLY};
    assert_int_equal(pthread_create(&thread, NULL, cancel, &c), 0);
    await_that(state_of(engine, c.id) == LW_ABORTED);
    lw_submit(engine, LW_TASK(.kind = "never", .key = "k"), NULL, NULL);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task WHERE key = 'k'"), 1);
    gate_open(&kept);
    pthread_join(thread, NULL);
    expect_cancelled(engine, db, c.id, &begun);
    assert_status(lw_submit(engine, LW_TASK(.kind = "never", .key = "k"), NULL, NULL), LW_OK);
    tally_await(&begun, 1);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- a cancel while the scheduler is busy --------------------------------------------------- */

enum { SHORT_TASKS = 1000, SLOW_AT = 500, CANCELS = 5 };

static struct {
    struct gate door;
    _Atomic int begun;
    _Atomic lw_id slow;
} batch = {.door = GATE};

/* All are of one kind, so that a worker claims many at once; one of them does not return. */
static lw_outcome do_short_or_slow(lw_ctx *ctx, const lw_task *task) {
    if (atomic_fetch_add(&batch.begun, 1) == SLOW_AT) {
        atomic_store(&batch.slow, task->id);
        gate_pass(&batch.door);
    }
    return lw_done(ctx);
}

/* The scheduler takes tasks back that wait behind a slow one in its worker's batch; but it is in a
 * callback, on_stuck for instance, and that may be what cancels. */
TEST(a_cancel_of_a_claimed_task_waits_neither_for_the_one_before_nor_for_the_scheduler) {
    const lw_task task = *LW_TASK(.kind = "short");
    const lw_task *tasks[SHORT_TASKS];
    lw_engine *engine = open_store(1);
    sqlite3 *db = connect_db(DB);
    handle(engine, "short", do_short_or_slow, NULL);
    for (int i = 0; i < SHORT_TASKS; i++)
        tasks[i] = &task;
    assert_status(lw_submit_many(engine, tasks, SHORT_TASKS, NULL, NULL), LW_OK);
    atomic_store(&kept_at, TICKED); /* if the worker is quick enough to claim many */
    start(engine);
    tally_await(&batch.door.arrived, 1);
    for (lw_id id = batch.slow + 1; id <= batch.slow + CANCELS; id++) {
        assert_status(lw_cancel(engine, id), LW_OK);
        CHECK(has_end(db, id));
    }
    atomic_store(&kept_at, NULL);
    gate_open(&kept);
    gate_open(&batch.door);
    close_engine(engine);
    sqlite3_close(db);
}
