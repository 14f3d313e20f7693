/* A put that no file has yet, and on which something relies that was accepted for good: a successor
 * of a handler, or a row of the outbox, finds its key taken by the put of a submit that still
 * waits. When the turn fails, the submit is refused; what has relied on it must run all the same.
 *
 * Another connection holds the file until the turn has failed. */
#include "engines.h"
#include "gate.h"
#include "own_sqlite.h"

#include <legwork/outbox_sqlite.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#define DB "tasks.db"
#define ANSWERING "pump: committed, not answered"
#define WRITING "pump: about to write"

static const char *_Atomic kept_at; /* NULL: nobody is to be kept */
static struct gate kept = GATE;

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    const char *at = atomic_load(&kept_at);
    if (at && strcmp(name, at) == 0 && atomic_compare_exchange_strong(&kept_at, &at, NULL))
        gate_pass(&kept);
}

static struct tally ran = TALLY, told = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&ran, 1);
    return lw_done(ctx);
}

static lw_outcome do_parent(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    (void)task;
    gate_pass(lw_ctx_user(ctx));
    assert_status(lw_then(ctx, LW_TASK(.kind = "k", .key = "k"), &err), LW_OK);
    return lw_done(ctx);
}

static lw_engine *open_store(struct gate *door) {
    lw_engine *engine = OPEN_ON("sqlite:" DB, .workers = 2);
    handle(engine, "k", do_count, NULL);
    handle(engine, "other", do_done, NULL);
    handle(engine, "parent", do_parent, LW_HANDLER_OPTIONS(.user = door));
    start(engine);
    return engine;
}

/* ---- the submit that waits ----------------------------------------------------------------- */

static void on_end_count(void *tally, const lw_snapshot *task) {
    (void)task;
    tally_add(tally, 1);
}

struct submit {
    lw_engine *engine;
    const char *kind, *key;
    int rc;
    pthread_t thread;
};

static void *submit_and_wait(void *arg) {
    struct submit *s = arg;
    s->rc = lw_submit(
        s->engine, LW_TASK(.kind = s->kind, .key = s->key, .on_end = on_end_count, .user = &told),
        NULL, NULL);
    return NULL;
}

static bool is_there(lw_engine *engine, const char *kind, const char *key) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    int rc = lw_find(engine, kind, key, &snapshot);
    lw_snapshot_clear(&snapshot);
    return rc == LW_OK;
}

/* Returns when its task is there, and waits for the file. */
static void start_submit(struct submit *s) {
    assert_int_equal(pthread_create(&s->thread, NULL, submit_and_wait, s), 0);
    await_that(is_there(s->engine, s->kind, s->key));
}

/* It is refused, and its callback never called: nobody knows whether it was accepted. */
static void expect_refused_and_run(struct submit *s, sqlite3 *holder, long others_told) {
    pthread_join(s->thread, NULL);
    assert_status(s->rc, LW_EUNSURE);
    run_sql(holder, "ROLLBACK");
    tally_await(&ran, 1);
    assert_status(lw_wait_idle(s->engine, 200000), LW_OK);
    close_engine(s->engine);
    assert_int_equal(tally_read(&ran), 1);
    assert_int_equal(tally_read(&told), others_told);
    assert_int_equal(ask(holder, "SELECT count(*) FROM legwork_outbox"), 0);
    assert_int_equal(ask(holder, "SELECT count(*) FROM legwork_history WHERE key = 'k'"), 1);
    sqlite3_close(holder);
}

/* ---- what relies on it --------------------------------------------------------------------- */

TEST(a_successor_runs_whose_key_was_taken_by_a_put_that_was_refused) {
    struct gate door = GATE;
    lw_engine *engine = open_store(&door);
    sqlite3 *holder = connect_db(DB);
    lw_id parent = SUBMIT(engine, .kind = "parent");
    struct submit s = {.engine = engine, .kind = "k", .key = "k"};
    tally_await(&door.arrived, 1);
    run_sql(holder, "BEGIN IMMEDIATE");
    start_submit(&s);
    gate_open(&door);
    await_that(state_of(engine, parent) == LW_FINISHED);
    expect_refused_and_run(&s, holder, 0);
}

TEST(a_row_of_the_outbox_runs_whose_key_was_taken_by_a_put_that_was_refused) {
    lw_error err = {0};
    struct gate door = GATE;
    lw_engine *engine = open_store(&door);
    sqlite3 *holder = connect_db(DB), *own = connect_db(DB);
    struct submit first = {.engine = engine, .kind = "other", .key = "first"};
    struct submit s = {.engine = engine, .kind = "k", .key = "k"};
    atomic_store(&kept_at, ANSWERING);
    start_submit(&first);
    tally_await(&kept.arrived, 1); /* the file is free, and the next turn has not begun */
    start_submit(&s);
    run_sql(own, "BEGIN IMMEDIATE");
    assert_status(lw_outbox_sqlite_put(own, LW_TASK(.kind = "k", .key = "k"), NULL, &err), LW_OK);
    run_sql(own, "COMMIT");
    sqlite3_close(own);
    run_sql(holder, "BEGIN IMMEDIATE");
    gate_open(&kept);
    pthread_join(first.thread, NULL);
    assert_status(first.rc, LW_OK);
    expect_refused_and_run(&s, holder, 1);
}

/* ---- a submit that nobody knows of ---------------------------------------------------------- */

/* Its time is over while it is being written. It runs; what the callback was given may be freed. */
TEST(a_submit_that_is_unsure_is_never_called_back) {
    struct gate door = GATE;
    lw_engine *engine = open_store(&door);
    atomic_store(&kept_at, WRITING);
    int rc = lw_submit(engine,
                       LW_TASK(.kind = "k", .key = "k", .submit_timeout_ms = 20,
                               .on_end = on_end_count, .user = &told),
                       NULL, NULL);
    while (rc == LW_ETIMEDOUT) /* its turn had not begun */
        rc = lw_submit(engine,
                       LW_TASK(.kind = "k", .key = "k", .submit_timeout_ms = 20,
                               .on_end = on_end_count, .user = &told),
                       NULL, NULL);
    assert_status(rc, LW_EUNSURE);
    gate_open(&kept);
    tally_await(&ran, 1);
    assert_status(lw_wait_idle(engine, 200000), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&told), 0);
}
