/* The outbox of an SQLite store: tasks that a program accepts in its own transaction, and attempts
 * that a handler completes in its own. */
#include "engines.h"
#include "gate.h"
#include "own_sqlite.h"

#include "pool/ctx.h"
#include "store/sqlite/sqlite.h"

#include <dirent.h>
#include <legwork/lease.h>
#include <legwork/outbox_sqlite.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

/* ---- help --------------------------------------------------------------------------------- */

/* One that every test has, with its tables. */
static sqlite3 *prepare_db(void) {
    lw_error err = {0};
    sqlite3 *db = connect_db(DB);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    return db;
}

#define OPEN_STORE(...) open_store(LW_ENGINE_OPTIONS(.workers = 2, __VA_ARGS__))
static lw_engine *open_store(const lw_engine_options *options) {
    lw_engine *engine;
    lw_error err = {0};
    int rc = lw_open(&engine, URL, options, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return engine;
}

#define PUT(db, ...) put(db, LW_TASK(__VA_ARGS__))
static void put(sqlite3 *db, const lw_task *task) {
    lw_error err = {0};
    lw_id id = 77;
    int rc = lw_outbox_sqlite_put(db, task, &id, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    CHECK(id > LW_OUTBOX_SQLITE_ID(0));
}

static lw_outcome do_tally(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

static lw_engine *start_tallying(struct tally *tally) {
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = tally));
    start(engine);
    return engine;
}

/* Until nothing is left in the outbox. */
static void await_taken(sqlite3 *db) {
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox") == 0);
}

/* ---- put ---------------------------------------------------------------------------------- */

TEST(a_task_runs_when_the_transaction_has_committed_and_not_before) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    run_sql(db, "BEGIN; CREATE TABLE account (cents INTEGER); INSERT INTO account VALUES (5)");
    PUT(db, .kind = "mail", .payload = LW_TEXT("you have money"));
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 1);
    assert_int_equal(tally_read(&ran), 0);
    run_sql(db, "COMMIT");
    tally_await(&ran, 1);
    await_taken(db);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history"), 1);
    assert_int_equal(ask(db, "SELECT cents FROM account"), 5);
    sqlite3_close(db);
}

TEST(each_of_many_single_commits_is_noticed_by_an_idle_owner) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    for (int i = 1; i <= test_scale(100, 3000); i++) {
        PUT(db, .kind = "mail");
        tally_await(&ran, i);
    }
    close_engine(engine);
    sqlite3_close(db);
}

TEST(a_rolled_back_transaction_has_submitted_nothing) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    run_sql(db, "BEGIN");
    PUT(db, .kind = "mail");
    run_sql(db, "ROLLBACK");
    PUT(db, .kind = "mail");
    tally_await(&ran, 1);
    await_taken(db);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 1);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history"), 1);
    sqlite3_close(db);
}

TEST(what_was_put_while_nobody_owned_the_store_runs_after_the_next_start) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    run_sql(db, "BEGIN");
    for (int i = 0; i < 2500; i++)
        PUT(db, .kind = "mail");
    run_sql(db, "COMMIT");
    lw_engine *engine = start_tallying(&ran);
    tally_await(&ran, 2500);
    await_taken(db);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 2500);
    sqlite3_close(db);
}

/* Big enough for SQLite to write pages before the commit: the first sign is no commit. */
TEST(a_transaction_that_takes_its_time_is_waited_for) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    run_sql(db, "CREATE TABLE ballast (x); PRAGMA cache_size = 2");
    lw_engine *engine = start_tallying(&ran);
    run_sql(db, "BEGIN");
    PUT(db, .kind = "mail");
    for (int i = 0; i < 20; i++)
        run_sql(db, "INSERT INTO ballast VALUES (randomblob(100000))");
    sqlite3_sleep(50); /* the owner has heard of it, and cannot see it */
    assert_int_equal(tally_read(&ran), 0);
    run_sql(db, "COMMIT");
    tally_await(&ran, 1);
    close_engine(engine);
    sqlite3_close(db);
}

struct producer {
    pthread_t thread;
    int count;
};

static void *produce(void *arg) {
    struct producer *producer = arg;
    sqlite3 *db = connect_db(DB);
    for (int i = 0; i < producer->count; i++) {
        run_sql(db, "BEGIN IMMEDIATE");
        PUT(db, .kind = "mail");
        run_sql(db, "COMMIT");
    }
    sqlite3_close(db);
    return NULL;
}

TEST(outboxes_and_submits_at_once_lose_nothing_and_double_nothing) {
    struct tally ran = TALLY;
    struct producer producers[3];
    int count = test_is_sanitized() ? 30 : 100;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    for (int i = 0; i < 3; i++) {
        producers[i].count = count;
        assert_int_equal(pthread_create(&producers[i].thread, NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < count; i++)
        SUBMIT(engine, .kind = "mail");
    for (int i = 0; i < 3; i++)
        pthread_join(producers[i].thread, NULL);
    tally_await(&ran, 4L * count);
    await_taken(db);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 4 * count);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history"), 4 * count);
    sqlite3_close(db);
}

/* ---- what a task says --------------------------------------------------------------------- */

static lw_snapshot find(lw_engine *engine, const char *kind, const char *key) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    await_that(lw_find(engine, kind, key, &snapshot) == LW_OK);
    return snapshot;
}

TEST(all_that_a_task_says_arrives) {
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    start(engine); /* nobody handles these: they wait */
    PUT(db, .kind = "first", .key = "a");
    lw_snapshot first = find(engine, "first", "a");
    PUT(db, .kind = "odd/kind", .queue = "slow", .key = "k ü", .priority = 7,
        .payload = ((lw_bytes){"\0\1\2", 3}), .delay_ms = 3600000, .start_by_ms = 7200000,
        .finish_by_ms = 7300000);
    lw_snapshot s = find(engine, "odd/kind", "k ü");
    assert_string_equal(s.queue, "slow");
    assert_int_equal(s.priority, 7);
    assert_int_equal(s.payload.size, 3);
    assert_memory_equal(s.payload.data, "\0\1\2", 3);
    await_that(state_of(engine, s.id) == LW_SCHEDULED);
    lw_get(engine, s.id, &s);
    CHECK(s.due_ms - s.created_ms > 3590000 && s.due_ms - s.created_ms <= 3600001);
    PUT(db, .kind = "second", .key = "b", .after = &first.id, .after_count = 1,
        .priority = LW_ZERO);
    lw_snapshot second = find(engine, "second", "b");
    assert_int_equal(second.priority, 0);
    assert_int_equal(second.state, LW_CREATED);
    assert_status(lw_cancel(engine, first.id), LW_OK);
    await_that(state_of(engine, second.id) == LW_ABORTED);
    await_taken(db);
    lw_snapshot_clear(&first);
    lw_snapshot_clear(&second);
    lw_snapshot_clear(&s);
    close_engine(engine);
    assert_int_equal(
        ask(db, "SELECT finish_by_ms - start_by_ms FROM legwork_task WHERE kind = 'odd/kind'"),
        100000);
    sqlite3_close(db);
}

static lw_outcome do_check_value(lw_ctx *ctx, const lw_task *task) {
    size_t size = 0;
    const void *value = lw_ctx_value(ctx, &size);
    CHECK(size == 8 && memcmp(value, "trace-17", 8) == 0);
    return do_tally(ctx, task);
}

TEST(the_value_of_the_callers_context_travels_with_the_task) {
    struct tally ran = TALLY;
    lw_ctx *ctx;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_check_value, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = "trace-17", .value_size = 8), NULL),
                  LW_OK);
    PUT(db, .kind = "mail", .ctx = ctx);
    lw_ctx_close(ctx);
    tally_await(&ran, 1);
    close_engine(engine);
    sqlite3_close(db);
}

TEST(a_key_that_is_taken_makes_the_row_go_away) {
    struct gate gate = GATE;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "one");
    tally_await(&gate.arrived, 1);
    PUT(db, .kind = "mail", .key = "one");
    PUT(db, .kind = "mail", .key = "two");
    PUT(db, .kind = "mail", .key = "two");
    await_taken(db);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, -1, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history"), 2);
    sqlite3_close(db);
}

TEST(a_kinds_own_scope_of_keys_holds_for_the_outbox_too) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_tally,
           LW_HANDLER_OPTIONS(.user = &ran, .key_scope = LW_KEY_RETAINED));
    start(engine);
    PUT(db, .kind = "mail", .key = "one");
    tally_await(&ran, 1);
    PUT(db, .kind = "mail", .key = "one");
    await_taken(db);
    PUT(db, .kind = "mail", .key = "one", .key_scope = LW_KEY_UNFINISHED);
    await_taken(db);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 1); /* it is the first one's scope that keeps others out */
    sqlite3_close(db);
}

TEST(what_finds_no_room_waits_in_the_outbox_and_others_pass_it) {
    struct gate gate = GATE;
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_queue(engine, "narrow", LW_QUEUE_OPTIONS(.limit = 2), NULL);
    start(engine);
    run_sql(db, "BEGIN");
    for (int i = 0; i < 10; i++)
        PUT(db, .kind = "slow", .queue = "narrow");
    PUT(db, .kind = "mail");
    run_sql(db, "COMMIT");
    tally_await(&ran, 1);
    tally_await(&gate.arrived, 2);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 8);
    gate_open(&gate);
    tally_await(&gate.passed, 10);
    await_taken(db);
    close_engine(engine);
    sqlite3_close(db);
}

/* As many rows in one transaction; the payload of each is its number. */
static void put_many(sqlite3 *db, const char *kind, const char *queue, int count) {
    char sql[300];
    snprintf(sql, sizeof sql,
             "INSERT INTO legwork_outbox (kind, queue, payload)"
             " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
             " SELECT '%s', '%s', CAST(i AS TEXT) FROM n",
             count, kind, queue);
    run_sql(db, sql);
}

TEST(thousands_that_find_no_room_hide_nobody_behind_them) {
    struct gate gate = GATE;
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate, .concurrency = 1));
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_queue(engine, "narrow", LW_QUEUE_OPTIONS(.limit = 2), NULL);
    start(engine);
    put_many(db, "slow", "narrow", 2 * LW__INTAKE_MAX + 10);
    tally_await(&gate.arrived, 1);
    PUT(db, .kind = "mail");
    tally_await(&ran, 1);
    put_many(db, "mail", "default", 2 * LW__INTAKE_MAX + 10);
    tally_await(&ran, 2 * LW__INTAKE_MAX + 11);
    await_that(ask(db, "SELECT count(*) FROM legwork_outbox") == 2 * LW__INTAKE_MAX + 8);
    gate_open(&gate);
    close_engine(engine);
    sqlite3_close(db);
}

static lw_outcome do_in_order(lw_ctx *ctx, const lw_task *task) {
    struct tally *last = lw_ctx_user(ctx);
    assert_int_equal(strtol(task->payload.data, NULL, 10), tally_read(last) + 1);
    tally_add(last, 1);
    return lw_done(ctx);
}

/* Rounds take several turns, and new rows come meanwhile. */
TEST(those_that_wait_for_room_are_taken_in_in_their_order) {
    struct tally first = TALLY, second = TALLY;
    int count = 1000;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "first", do_in_order, LW_HANDLER_OPTIONS(.user = &first, .concurrency = 1));
    handle(engine, "second", do_in_order, LW_HANDLER_OPTIONS(.user = &second, .concurrency = 1));
    lw_queue(engine, "first", LW_QUEUE_OPTIONS(.limit = 40), NULL);
    lw_queue(engine, "second", LW_QUEUE_OPTIONS(.limit = 30), NULL);
    put_many(db, "first", "first", count);
    put_many(db, "second", "second", 2 * count);
    start(engine);
    tally_await(&first, 100);
    char sql[200];
    for (int i = 1; i <= 200; i++) {
        snprintf(sql, sizeof sql,
                 "INSERT INTO legwork_outbox (kind, queue, payload) VALUES"
                 " ('first', 'first', '%d'), ('second', 'second', '%d')",
                 count + i, 2 * count + i);
        run_sql(db, sql);
    }
    tally_await(&first, count + 200);
    tally_await(&second, 2 * count + 200);
    await_taken(db);
    close_engine(engine);
    sqlite3_close(db);
}

static void put_number(sqlite3 *db, const char *kind, int number) {
    char text[20];
    snprintf(text, sizeof text, "%d", number);
    PUT(db, .kind = kind, .queue = kind, .payload = LW_TEXT(text));
}

struct line {
    struct gate gate; /* of the first */
    struct tally last;
};

/* The third submits the fifth, while the fourth is far behind. */
static lw_outcome do_line(lw_ctx *ctx, const lw_task *task) {
    struct line *line = lw_ctx_user(ctx);
    int number = (int)strtol(task->payload.data, NULL, 10);
    assert_int_equal(number, tally_read(&line->last) + 1);
    if (number == 1)
        gate_pass(&line->gate);
    if (number == 3) {
        sqlite3 *db = connect_db(DB);
        put_number(db, "line", 5);
        sqlite3_close(db);
    }
    tally_add(&line->last, 1);
    return lw_done(ctx);
}

TEST(a_new_row_does_not_pass_one_that_a_round_has_not_reached_yet) {
    struct line line = {.gate = GATE, .last = TALLY};
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "line", do_line, LW_HANDLER_OPTIONS(.user = &line, .concurrency = 1));
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_queue(engine, "line", LW_QUEUE_OPTIONS(.limit = 2), NULL);
    lw_queue(engine, "narrow", LW_QUEUE_OPTIONS(.limit = 1), NULL);
    run_sql(db, "BEGIN");
    for (int i = 1; i <= 3; i++)
        put_number(db, "line", i);
    put_many(db, "nobodys", "narrow", 30 * LW__INTAKE_MAX);
    put_number(db, "line", 4);
    PUT(db, .kind = "mail");
    run_sql(db, "COMMIT");
    start(engine);
    tally_await(&ran, 1); /* all have been looked at */
    gate_open(&line.gate);
    tally_await(&line.last, 5);
    close_engine(engine);
    sqlite3_close(db);
}

TEST(one_that_comes_after_a_row_without_room_waits_for_that_row_alone) {
    struct gate gate = GATE;
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_queue(engine, "narrow", LW_QUEUE_OPTIONS(.limit = 1), NULL);
    start(engine);
    PUT(db, .kind = "slow", .queue = "narrow");
    tally_await(&gate.arrived, 1);
    lw_id held, after;
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail", .queue = "narrow"), &held, NULL),
                  LW_OK);
    assert_status(lw_outbox_sqlite_put(
                      db, LW_TASK(.kind = "mail", .after = &held, .after_count = 1), &after, NULL),
                  LW_OK);
    PUT(db, .kind = "mail");
    tally_await(&ran, 1);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 2);
    gate_open(&gate);
    tally_await(&ran, 3);
    await_that(state_of(engine, after) == LW_FINISHED);
    await_taken(db);
    close_engine(engine);
    sqlite3_close(db);
}

static void refuse(sqlite3 *db, const lw_task *task, const char *words) {
    lw_error err = {0};
    lw_id id = 77;
    assert_status(lw_outbox_sqlite_put(db, task, &id, &err), LW_EINVAL);
    assert_int_equal(id, 0);
    if (!strstr(err.message, words))
        fprintf(stderr, "%s, not: %s\n", err.message, words);
    CHECK(strstr(err.message, words) != NULL);
}

static void do_nothing(void *user, const lw_snapshot *task) {
    (void)user;
    (void)task;
}

TEST(a_task_that_cannot_be_is_refused_and_the_transaction_goes_on) {
    lw_id none = 0;
    lw_error err = {0};
    sqlite3 *db = prepare_db();
    run_sql(db, "BEGIN");
    refuse(db, NULL, "NULL");
    refuse(db, LW_TASK(.queue = "q"), "no kind");
    refuse(db, LW_TASK(.kind = "a b"), "kind");
    refuse(db, LW_TASK(.kind = "mail", .queue = ""), "queue");
    refuse(db, LW_TASK(.kind = "mail", .key = "\n"), "key");
    refuse(db, LW_TASK(.kind = "mail", .delay_ms = -1), "delay_ms");
    refuse(db, LW_TASK(.kind = "mail", .priority = -5), "priority");
    refuse(db, LW_TASK(.kind = "mail", .run = do_done), "run");
    refuse(db, LW_TASK(.kind = "mail", .on_end = do_nothing), "on_end");
    refuse(db, LW_TASK(.kind = "mail", .after = &none, .after_count = 1), "after");
    refuse(db, LW_TASK(.kind = "mail", .key = "k", .key_scope = LW_KEY_WINDOW), "key_window_ms");
    refuse(db, LW_TASK(.kind = "mail", .payload = ((lw_bytes){"", LW_PAYLOAD_MAX + 1})), "payload");
    PUT(db, .kind = "mail");
    run_sql(db, "COMMIT");
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 1);
    assert_status(lw_outbox_sqlite_put(NULL, LW_TASK(.kind = "mail"), NULL, &err), LW_EINVAL);
    assert_status(lw_outbox_sqlite_put(NULL, LW_TASK(.kind = "mail"), NULL, NULL), LW_EINVAL);
    sqlite3_close(db);
}

/* ---- tables ------------------------------------------------------------------------------- */

TEST(without_tables_a_sentence_says_what_to_do) {
    lw_error err = {0};
    sqlite3 *db = connect_db(DB);
    run_sql(db, "CREATE TABLE account (cents INTEGER); PRAGMA application_id = 4711;"
                "PRAGMA user_version = 3");
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), NULL, &err), LW_ENOTFOUND);
    CHECK(strstr(err.message, "lw_outbox_sqlite_prepare") != NULL);
    assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_schema"), 1);
    run_sql(db, "BEGIN");
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_EINVAL);
    CHECK(strstr(err.message, "transaction") != NULL);
    run_sql(db, "ROLLBACK");
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    assert_status(lw_outbox_sqlite_prepare(NULL, &err), LW_EINVAL);
    PUT(db, .kind = "mail");
    assert_int_equal(ask(db, "PRAGMA application_id"), 4711);
    assert_int_equal(ask(db, "PRAGMA user_version"), 3);
    sqlite3_close(db);
    struct tally ran = TALLY; /* and an engine can own it */
    lw_engine *engine = start_tallying(&ran);
    tally_await(&ran, 1);
    close_engine(engine);
}

TEST(the_header_of_an_empty_file_stays_the_programs) {
    sqlite3 *db = prepare_db();
    assert_int_equal(ask(db, "PRAGMA application_id"), 0);
    assert_int_equal(ask(db, "PRAGMA user_version"), 0);
    sqlite3_close(db);
    assert_int_equal(sqlite3_open(":memory:", &db), SQLITE_OK);
    assert_status(lw_outbox_sqlite_prepare(db, NULL), LW_EINVAL);
    sqlite3_close(db);
}

TEST(a_connection_that_may_not_write_is_told_so) {
    lw_error err = {0};
    sqlite3 *writer = prepare_db(), *db;
    assert_int_equal(sqlite3_open(DB, &db), SQLITE_OK); /* without patience */
    run_sql(writer, "BEGIN IMMEDIATE");
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), NULL, &err), LW_EBUSY);
    run_sql(writer, "ROLLBACK");
    sqlite3_close(db);
    assert_int_equal(sqlite3_open_v2(DB, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), NULL, &err), LW_ESYSTEM);
    sqlite3_close(db);
    sqlite3_close(writer);
}

/* ---- plain SQL ---------------------------------------------------------------------------- */

TEST(plain_sql_submits_and_steers) {
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    start(engine);
    run_sql(db, "INSERT INTO legwork_outbox (kind, key, payload) VALUES ('invoice', 'x', 'text')");
    lw_snapshot s = find(engine, "invoice", "x");
    assert_int_equal(s.payload.size, 4);
    assert_memory_equal(s.payload.data, "text", 4);
    assert_int_equal(s.priority, 1000);
    assert_string_equal(s.queue, "default");
    char sql[200];
    snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', %llu)",
             s.id);
    run_sql(db, sql);
    await_that(state_of(engine, s.id) == LW_ABORTED);
    snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox (op, task_id) VALUES ('retry', %llu)",
             s.id);
    await_taken(db);
    run_sql(db, sql);
    await_that(state_of(engine, s.id) == LW_ENQUEUED);
    await_taken(db);
    lw_snapshot_clear(&s);
    close_engine(engine);
    sqlite3_close(db);
}

/* The transaction goes on, without the row. */
static void refuse_sql(sqlite3 *db, const char *row, const char *words) {
    char sql[400], *message = NULL;
    snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox %s", row);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, &message), SQLITE_CONSTRAINT);
    if (!strstr(message, words))
        fprintf(stderr, "%s, not: %s\n", message, words);
    CHECK(strstr(message, words) != NULL);
    sqlite3_free(message);
}

TEST(a_row_that_no_task_can_be_is_refused_in_its_own_transaction) {
    sqlite3 *db = prepare_db();
    run_sql(db, "BEGIN");
    refuse_sql(db, "(kind) VALUES ('send email')", "letters, digits");
    refuse_sql(db, "(kind) VALUES ('send' || char(0))", "letters, digits");
    refuse_sql(db, "(kind, queue) VALUES ('mail', 'grün')", "letters, digits");
    refuse_sql(db, "(kind, key) VALUES ('mail', 'a' || char(10) || 'b')", "key has a control");
    refuse_sql(db, "(kind, key) VALUES ('mail', 'a' || char(127))", "key has a control");
    refuse_sql(db, "(kind, key) VALUES ('mail', 'a' || char(0) || 'b')", "key has a control");
    refuse_sql(db, "(kind, delay_ms, run_at_ms) VALUES ('mail', 60000, 1)", "both given");
    refuse_sql(db, "(kind, key, key_scope) VALUES ('mail', 'w', 'window')", "key_window_ms");
    refuse_sql(db, "(kind, value) VALUES ('mail', zeroblob(129))", "128 bytes");
    refuse_sql(db, "(op, task_id, token, bytes) VALUES ('checkpoint', 1, 1, zeroblob(65537))",
               "65536 bytes");
    refuse_sql(db, "(op, task_id, token, bytes) VALUES ('finish', 1, 1, zeroblob(16777217))",
               "16777216 bytes");
    refuse_sql(db, "(op, task_id) VALUES ('cancel', 0)", "from 1 on");
    refuse_sql(db, "(op, task_id, token) VALUES ('finish', 1, 0)", "from 1 on");
    run_sql(db, "INSERT INTO legwork_outbox (kind, queue, key, value, key_scope, key_window_ms)"
                " VALUES ('a-Z/0:9._', 'b-1', 'grün ]^-', zeroblob(128), 'window', 1);"
                "COMMIT");
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 1);
    sqlite3_close(db);
}

static void count_drops(void *user, const lw_log_record *record) {
    if (strcmp(record->component, "outbox") == 0 && record->level == LW_LOG_ERROR)
        tally_add(user, 1);
}

TEST(a_row_that_is_no_task_is_dropped_with_a_record_and_holds_up_nobody) {
    struct tally ran = TALLY, drops = TALLY;
    lw_log log = {.write = count_drops, .user = &drops};
    sqlite3 *db = prepare_db();
    run_sql(db, "DROP TRIGGER legwork_outbox_submit;" /* as it was before */
                "INSERT INTO legwork_outbox (kind) VALUES ('a b');"
                "INSERT INTO legwork_outbox (kind, delay_ms) VALUES ('later', 9223372036854775807);"
                "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', 12345);");
    PUT(db, .kind = "mail");
    lw_engine *engine = OPEN_STORE(.log = &log);
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    tally_await(&ran, 1);
    run_sql(db, "INSERT INTO legwork_outbox (op, task_id, token) VALUES"
                " ('checkpoint', 1000000000000002, 1)"); /* the second of these */
    await_taken(db);
    close_engine(engine);
    assert_int_equal(tally_read(&drops), 2);
    assert_int_equal(tally_read(&ran), 1);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task WHERE state = 'scheduled'"), 1);
    sqlite3_close(db);
}

TEST(a_row_that_is_cancelled_before_the_owner_looks_is_an_aborted_task_and_no_error) {
    struct tally drops = TALLY;
    lw_log log = {.write = count_drops, .user = &drops};
    sqlite3 *db = prepare_db();
    char sql[200];
    PUT(db, .kind = "mail");
    lw_id id = LW_OUTBOX_SQLITE_ID((lw_id)ask(db, "SELECT seq FROM legwork_outbox"));
    snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', %llu)",
             id);
    run_sql(db, sql);
    lw_engine *engine = OPEN_STORE(.log = &log);
    start(engine);
    await_taken(db);
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    close_engine(engine);
    assert_int_equal(tally_read(&drops), 0);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE state = 'aborted'"), 1);
    sqlite3_close(db);
}

/* The next row of the outbox is found as an aborted task that says why. */
static void await_stillborn(lw_engine *engine, lw_id id, const char *words) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    await_that(lw_get(engine, id, &s) == LW_OK && s.state == LW_ABORTED);
    assert_string_equal(s.kind, "mail");
    assert_int_equal(s.attempts, 0);
    if (!strstr(s.last_error, words))
        fprintf(stderr, "%s, not: %s\n", s.last_error, words);
    CHECK(strstr(s.last_error, words) != NULL);
    assert_int_equal(s.payload.size, 3);
    lw_snapshot_clear(&s);
}

static void put_stillborn(lw_engine *engine, sqlite3 *db, const char *columns, const char *values,
                          const char *words) {
    char sql[1000];
    snprintf(sql, sizeof sql,
             "INSERT INTO legwork_outbox (kind, payload, %s) VALUES ('mail', 'abc', %s)", columns,
             values);
    run_sql(db, sql);
    await_stillborn(engine, LW_OUTBOX_SQLITE_ID((lw_id)sqlite3_last_insert_rowid(db)), words);
}

TEST(a_row_that_can_never_run_becomes_an_aborted_task_with_a_reason) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    run_sql(db, "DROP TRIGGER legwork_outbox_submit"); /* as it was before */
    put_stillborn(engine, db, "after_ids", "'[7777]'", "after a task that was never there");
    put_stillborn(engine, db, "after_ids", "'[1,]'", "JSON array");
    put_stillborn(engine, db, "after_ids", "'{\"a\": 1}'", "JSON array");
    put_stillborn(engine, db, "after_ids",
                  "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 65)"
                  " SELECT json_group_array(1000000000000001) FROM n)",
                  "at most 64 ids");
    put_stillborn(engine, db, "key", "CAST(x'61ff' AS TEXT)", "UTF-8");
    put_stillborn(engine, db, "key", "'a' || char(10)", "key");
    put_stillborn(engine, db, "value", "zeroblob(129)", "129 bytes");
    put_stillborn(engine, db, "delay_ms, run_at_ms", "60000, 1", "both given");
    put_stillborn(engine, db, "key, key_scope", "'w', 'window'", "key_window_ms");
    put_stillborn(engine, db, "queue", "'grün'", "no queue grün");
    put_stillborn(engine, db, "scope, generation", "12, 13", "scope");
    await_taken(db);
    assert_int_equal(tally_read(&ran), 0);
    run_sql(db, "INSERT INTO legwork_outbox (kind, after_ids) VALUES"
                " ('mail', ' [ 1000000000000001 ,1000000000000002]'), ('mail', '[]')");
    await_taken(db);
    tally_await(&ran, 1); /* the other one comes after those that were aborted */
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE state = 'aborted'"), 12);
    sqlite3_close(db);
}

TEST(a_row_that_can_never_fit_becomes_an_aborted_task_and_its_queue_goes_on) {
    struct tally ran = TALLY;
    char payload[200] = {0};
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner", .byte_limit = 5000);
    handle(engine, "mail", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    lw_queue(engine, "small", LW_QUEUE_OPTIONS(.byte_limit = 100), NULL);
    start(engine);
    run_sql(db, "BEGIN");
    PUT(db, .kind = "mail", .queue = "small", .key = "big", .payload = {payload, 200});
    PUT(db, .kind = "mail", .queue = "small", .payload = {payload, 100});
    for (int i = 0; i < 5; i++)
        PUT(db, .kind = "mail", .queue = "small");
    run_sql(db,
            "INSERT INTO legwork_outbox (kind, payload) VALUES ('mail', zeroblob(5001)); COMMIT");
    tally_await(&ran, 6);
    lw_snapshot s = find(engine, "mail", "big");
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error,
                        "its payload of 200 bytes can never fit: queue small takes 100");
    lw_snapshot_clear(&s);
    await_taken(db);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 6);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE state = 'aborted'"), 2);
    sqlite3_close(db);
}

/* ---- done --------------------------------------------------------------------------------- */

enum ending { AS_DONE, AS_RETRY, ROLLED_BACK, DEAD };

struct ledger {
    sqlite3 *db;
    enum ending ending;
    int others; /* tasks that it submits, before it says that it is done */
    struct tally ran;
};

/* Its effect, and its completion, in one transaction. */
static lw_outcome do_ledger(lw_ctx *ctx, const lw_task *task) {
    struct ledger *ledger = lw_ctx_user(ctx);
    lw_error err = {0};
    run_sql(ledger->db, "BEGIN IMMEDIATE; INSERT INTO entry VALUES (1)");
    if (ledger->others > 0)
        put_many(ledger->db, "other", "default", ledger->others);
    assert_status(lw_outbox_sqlite_done(ledger->db, ctx, &err), LW_OK);
    bool is_taken_back = ledger->ending == ROLLED_BACK && task->attempt == 1;
    run_sql(ledger->db, is_taken_back ? "ROLLBACK" : "COMMIT");
    if (ledger->ending == DEAD)
        _exit(9);
    tally_add(&ledger->ran, 1);
    return is_taken_back || ledger->ending == AS_RETRY ? lw_retry(ctx, "again") : lw_done(ctx);
}

static lw_engine *open_ledger(struct ledger *ledger) {
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "entry", do_ledger,
           LW_HANDLER_OPTIONS(.user = ledger, .concurrency = 1, .retry = {.min_ms = LW_ZERO}));
    start(engine);
    return engine;
}

static void run_ledger(enum ending ending, int rounds) {
    struct ledger ledger = {.db = prepare_db(), .ending = ending, .ran = TALLY};
    run_sql(ledger.db, "CREATE TABLE entry (n INTEGER)");
    lw_engine *engine = open_ledger(&ledger);
    for (int i = 0; i < rounds; i++) {
        lw_snapshot s = LW_SNAPSHOT_INIT;
        lw_id id = SUBMIT(engine, .kind = "entry");
        assert_status(lw_wait(engine, id, -1, &s), LW_OK);
        assert_int_equal(s.state, LW_FINISHED);
        lw_snapshot_clear(&s);
    }
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&ledger.ran), ending == ROLLED_BACK ? 2 * rounds : rounds);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM entry"), rounds);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM legwork_history"), rounds);
    sqlite3_close(ledger.db);
}

TEST(a_task_completed_in_the_handlers_transaction_is_finished_once) {
    run_ledger(AS_DONE, 50);
}

TEST(it_is_finished_whatever_else_the_handler_says_after_the_commit) {
    run_ledger(AS_RETRY, 50);
}

TEST(it_is_finished_however_many_submits_come_before_its_completion) {
    struct ledger ledger = {
        .db = prepare_db(), .ending = AS_RETRY, .others = 5 * LW__INTAKE_MAX, .ran = TALLY};
    run_sql(ledger.db, "CREATE TABLE entry (n INTEGER)");
    lw_engine *engine = open_ledger(&ledger);
    lw_id id = SUBMIT(engine, .kind = "entry");
    await_that(lw_state_is_terminal(state_of(engine, id)));
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM entry"), 1);
    sqlite3_close(ledger.db);
}

TEST(it_is_finished_however_many_rows_wait_for_room_before_its_completion) {
    struct ledger ledger = {.db = prepare_db(), .ending = AS_RETRY, .ran = TALLY};
    run_sql(ledger.db, "CREATE TABLE entry (n INTEGER)");
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "entry", do_ledger,
           LW_HANDLER_OPTIONS(.user = &ledger, .retry = {.min_ms = LW_ZERO}));
    lw_queue(engine, "narrow", LW_QUEUE_OPTIONS(.limit = 2), NULL);
    start(engine);
    put_many(ledger.db, "nobodys", "narrow", LW__INTAKE_MAX + 10);
    await_that(ask(ledger.db, "SELECT count(*) FROM legwork_outbox") == LW__INTAKE_MAX + 8);
    lw_id id = SUBMIT(engine, .kind = "entry");
    await_that(lw_state_is_terminal(state_of(engine, id)));
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM entry"), 1);
    sqlite3_close(ledger.db);
}

TEST(after_a_rollback_it_is_what_the_handler_says) {
    run_ledger(ROLLED_BACK, 50);
}

TEST(a_process_that_dies_right_after_the_commit_has_finished_the_task) {
    struct ledger ledger = {.ending = AS_DONE, .ran = TALLY};
    sqlite3 *db = prepare_db();
    run_sql(db, "CREATE TABLE entry (n INTEGER)");
    PUT(db, .kind = "entry", .key = "one");
    sqlite3_close(db); /* not across a fork */
    pid_t child = fork();
    if (child == 0) {
        struct ledger own = {.db = connect_db(DB), .ending = DEAD, .ran = TALLY};
        open_ledger(&own);
        for (;;)
            pause();
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 9);
    ledger.db = connect_db(DB);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM entry"), 1);
    lw_engine *engine = open_ledger(&ledger);
    lw_snapshot s = find(engine, "entry", "one");
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, 1);
    lw_snapshot_clear(&s);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&ledger.ran), 0);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM entry"), 1);
    assert_int_equal(ask(ledger.db, "SELECT count(*) FROM legwork_outbox"), 0);
    sqlite3_close(ledger.db);
}

TEST(a_completion_of_a_stale_attempt_changes_nothing) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    run_sql(db, "INSERT INTO legwork_task (id, kind, queue, state, priority, created_ms, due_ms,"
                " attempts, crashes, snoozes, token)"
                " VALUES (5, 'mail', 'default', 'enqueued', 1000, 1, 1, 3, 0, 0, 100);"
                "UPDATE legwork_meta SET value = 100 WHERE key = 'last_token';"
                "UPDATE legwork_meta SET value = 5 WHERE key = 'last_id';"
                "INSERT INTO legwork_outbox (op, task_id, token) VALUES ('finish', 5, 99)");
    lw_engine *engine = start_tallying(&ran);
    tally_await(&ran, 1);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
    sqlite3_close(db);
}

/* A task with this state and token, and with a lease unless `until` is NULL. */
static void make_task_row(sqlite3 *db, int id, const char *state, const char *token,
                          const char *until) {
    char sql[600];
    snprintf(sql, sizeof sql,
             "INSERT INTO legwork_task (id, kind, queue, state, priority, created_ms, due_ms,"
             " attempts, token, checkpoint)"
             " VALUES (%d, 'none', 'default', '%s', 1000, 1, 1, 3, %s, x'41')",
             id, state, token);
    run_sql(db, sql);
    if (!until)
        return;
    snprintf(sql, sizeof sql, "INSERT INTO legwork_lease VALUES (%d, %s, 'w', 1, %s)", id, token,
             until);
    run_sql(db, sql);
}

static void say(sqlite3 *db, const char *op, int id, int token) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "INSERT INTO legwork_outbox (op, task_id, token, bytes) VALUES ('%s', %d, %d, 'BB')",
             op, id, token);
    run_sql(db, sql);
}

/* What an owner finds at its start is judged as if it had been there. */
TEST(what_a_stale_attempt_has_written_is_refused_at_open_too) {
    enum { RETRIED = 1, LOST, LEASED, LATE, FUTURE, DIED, OTHER, EARLIER, LAST };
    static const char *const words[] = {"checkpoint", "finish"};
    for (int i = 0; i < 2; i++) {
        sqlite3 *db = prepare_db();
        run_sql(db, "UPDATE legwork_meta SET value = 100 WHERE key = 'last_token';"
                    "UPDATE legwork_meta SET value = 20 WHERE key = 'last_id';"
                    "INSERT OR REPLACE INTO legwork_meta VALUES ('over_token', 80)");
        make_task_row(db, EARLIER, "enqueued", "NULL", NULL);
        say(db, words[i], EARLIER, 80);
        make_task_row(db, RETRIED, "scheduled", "90", NULL);
        make_task_row(db, LOST, "enqueued", "91", NULL);
        make_task_row(db, LEASED, "started", "92", "9000000000000");
        make_task_row(db, LATE, "started", "93", "1000");
        make_task_row(db, FUTURE, "enqueued", "NULL", NULL);
        make_task_row(db, DIED, "enqueued", "95", NULL);
        make_task_row(db, OTHER, "started", "97", "9000000000000");
        for (int id = RETRIED; id <= LATE; id++)
            say(db, words[i], id, 89 + id);
        say(db, words[i], FUTURE, 101);
        say(db, words[i], DIED, 96);
        say(db, words[i], OTHER, 98);
        lw_engine *engine = OPEN_STORE(.name = "owner");
        for (int id = RETRIED; id < LAST; id++) {
            lw_snapshot s = LW_SNAPSHOT_INIT;
            bool counts = id == LEASED || id == DIED;
            assert_status(lw_get(engine, (lw_id)id, &s), LW_OK);
            assert_int_equal(s.checkpoint.size, counts && i == 0 ? 2 : 1);
            assert_int_equal(s.state == LW_FINISHED, counts && i == 1);
            assert_int_equal(s.result.size, counts && i == 1 ? 2 : 0);
            assert_int_equal(s.attempts, id == DIED && i == 1 ? 4 : 3);
            lw_snapshot_clear(&s);
        }
        close_engine(engine);
        assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
        run_sql(db, "DELETE FROM legwork_task; DELETE FROM legwork_lease");
        sqlite3_close(db);
    }
}

TEST(nothing_is_finished_by_a_token_that_was_over_when_its_owner_closed) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    lw_id id = SUBMIT(engine, .kind = "nobodys");
    SUBMIT(engine, .kind = "mail");
    tally_await(&ran, 1);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
    int64_t token = ask(db, "SELECT token FROM legwork_history");
    CHECK(token > 0);
    say(db, "finish", (int)id, (int)token); /* that of the other one */
    engine = OPEN_STORE(.name = "owner");
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    close_engine(engine);
    sqlite3_close(db);
}

/* Its task's row says that this attempt is over. */
static lw_outcome do_too_late(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = connect_db(DB);
    lw_error err = {0};
    char sql[200];
    (void)task;
    for (uint64_t more = 0; more < 2; more++) {
        snprintf(sql, sizeof sql, "BEGIN; UPDATE legwork_task SET token = %llu",
                 (unsigned long long)(ctx->task->token + more));
        run_sql(db, sql);
        assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_ELEASE);
        assert_status(lw_outbox_sqlite_checkpoint(db, ctx, LW_TEXT("x"), &err), LW_ELEASE);
        assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
        run_sql(db, "ROLLBACK");
    }
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    sqlite3_close(db);
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

TEST(an_attempt_that_is_over_cannot_complete_its_task) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_too_late, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    SUBMIT(engine, .kind = "mail");
    tally_await(&ran, 1);
    await_taken(db);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- finished from outside ---------------------------------------------------------------- */

static void claim_one(lw_engine *engine, lw_id id, lw_snapshot *s) {
    lw_error err = {0};
    assert_int_equal(
        lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w", .lease_ms = 600000), s, &err), 1);
    assert_int_equal(s->id, id);
}

static void finish_by_sql(sqlite3 *db, lw_id id, unsigned long long token) {
    char sql[200];
    snprintf(sql, sizeof sql,
             "INSERT INTO legwork_outbox (op, task_id, token, bytes)"
             " VALUES ('finish', %llu, %llu, 'the result')",
             id, token);
    run_sql(db, sql);
}

static void assert_finished_with_result(lw_engine *engine, lw_id id) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(engine, id, -1, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, 1);
    assert_int_equal(s.result.size, 10);
    assert_memory_equal(s.result.data, "the result", 10);
    lw_snapshot_clear(&s);
}

TEST(a_leased_task_is_finished_as_soon_as_its_worker_has_committed_that) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "remote");
    claim_one(engine, id, &s);
    finish_by_sql(db, id, s.token + 1); /* another attempt, which there is not */
    await_taken(db);
    assert_int_equal(state_of(engine, id), LW_STARTED);
    finish_by_sql(db, id, s.token);
    assert_finished_with_result(engine, id);
    await_taken(db);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_lease"), 0);
    assert_status(lw_lease_extend(engine, id, s.token, 1000, 0), LW_ELEASE);
    lw_snapshot_clear(&s);
    close_engine(engine);
    engine = OPEN_STORE(.name = "owner"); /* and it is in the file */
    assert_finished_with_result(engine, id);
    close_engine(engine);
    sqlite3_close(db);
}

/* The row has no successors, and so they were never submitted. */
TEST(a_settlement_after_a_completion_must_not_lose_its_successors) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    const lw_task *next = LW_TASK(.kind = "next");
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "remote");
    claim_one(engine, id, &s);
    finish_by_sql(db, id, s.token);
    assert_finished_with_result(engine, id);
    lw_settlement plain = {.id = id, .token = s.token, .outcome = LW_OUTCOME_DONE};
    lw_settlement more = plain;
    more.then = &next;
    more.then_count = 1;
    assert_status(lw_lease_settle(engine, &more, 1, 0, NULL), LW_OK);
    assert_status(more.status, LW_ELEASE);
    assert_status(lw_lease_settle(engine, &plain, 1, 0, NULL), LW_OK);
    assert_status(plain.status, LW_OK); /* a repetition, which loses nothing */
    lw_snapshot_clear(&s);
    close_engine(engine);
    sqlite3_close(db);
}

static lw_outcome do_by_sql(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *db = connect_db(DB);
    finish_by_sql(db, task->id, ctx->task->token);
    sqlite3_close(db);
    for (int i = 0; i < 3; i++) /* what it says meanwhile does not cost it its result */
        lw_progress(ctx, (uint64_t)i, 3, "still here");
    ctx->has_written_outside = true;
    return lw_retry(ctx, "again");
}

TEST(a_result_that_was_committed_by_sql_is_the_tasks_result) {
    sqlite3 *db = prepare_db();
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_by_sql, NULL);
    start(engine);
    assert_finished_with_result(engine, SUBMIT(engine, .kind = "mail"));
    await_taken(db);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- where -------------------------------------------------------------------------------- */

TEST(tables_of_an_attached_file_do_not_count) {
    lw_error err = {0};
    sqlite3_close(prepare_db());
    sqlite3 *db = connect_db("own.db");
    run_sql(db, "CREATE TABLE account (cents INTEGER); ATTACH '" DB "' AS tasks; BEGIN");
    assert_status(lw_outbox_sqlite_put(db, LW_TASK(.kind = "mail"), NULL, &err), LW_ENOTFOUND);
    CHECK(strstr(err.message, "ATTACH") != NULL);
    assert_int_equal(ask(db, "SELECT count(*) FROM tasks.legwork_outbox"), 0);
    run_sql(db, "COMMIT");
    sqlite3_close(db);
}

static lw_outcome do_attached(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    sqlite3 *db = connect_db("own.db");
    (void)task;
    run_sql(db, "ATTACH '" DB "' AS tasks");
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_ENOTFOUND);
    assert_status(lw_outbox_sqlite_checkpoint(db, ctx, LW_TEXT("x"), &err), LW_ENOTFOUND);
    sqlite3_close(db);
    db = connect_db(DB);
    run_sql(db, "CREATE TABLE own (x INTEGER PRIMARY KEY); INSERT INTO own VALUES (4711)");
    PUT(db, .kind = "other");
    assert_int_equal(sqlite3_last_insert_rowid(db), 4711);
    assert_status(lw_outbox_sqlite_checkpoint(db, ctx, LW_TEXT("x"), &err), LW_OK);
    assert_int_equal(sqlite3_last_insert_rowid(db), 4711);
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    assert_int_equal(sqlite3_last_insert_rowid(db), 4711);
    sqlite3_close(db);
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

TEST(a_handlers_connection_stays_as_it_was) {
    struct tally ran = TALLY;
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_attached, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    SUBMIT(engine, .kind = "mail");
    tally_await(&ran, 1);
    close_engine(engine);
}

static lw_outcome do_wrong_file(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_error err = {0};
    sqlite3 *other = connect_db("other.db");
    assert_status(lw_outbox_sqlite_done(other, ctx, &err), LW_ENOTFOUND);
    assert_status(lw_outbox_sqlite_prepare(other, &err), LW_OK);
    assert_status(lw_outbox_sqlite_done(other, ctx, &err), LW_ELEASE);
    CHECK(strstr(err.message, "not in this file") != NULL);
    sqlite3_close(other);
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

TEST(only_a_handler_can_complete_and_only_in_its_own_store) {
    struct tally ran = TALLY;
    lw_ctx *ctx;
    lw_error err = {0};
    sqlite3 *db = prepare_db();
    assert_status(lw_outbox_sqlite_done(db, NULL, &err), LW_EINVAL);
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_EINVAL);
    lw_ctx_close(ctx);
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "mail", do_wrong_file, LW_HANDLER_OPTIONS(.user = &ran));
    start(engine);
    SUBMIT(engine, .kind = "mail");
    tally_await(&ran, 1);
    close_engine(engine);
    sqlite3_close(db);
}

/* ---- checkpoints -------------------------------------------------------------------------- */

enum { STEPS = 6 };

struct steps {
    sqlite3 *db;
    enum ending ending; /* of each attempt */
    bool is_mixed;      /* every other position is saved outside of the transaction */
};

static int position_of(lw_bytes bytes) {
    int at = 0;
    CHECK(!bytes.data || sscanf(bytes.data, "step %d", &at) == 1);
    return at;
}

/* A step of work and where to go on, in one transaction: no step is done twice, nor left out. */
static lw_outcome do_steps(lw_ctx *ctx, const lw_task *task) {
    struct steps *steps = lw_ctx_user(ctx);
    int at = position_of(task->checkpoint) + 1;
    char text[64];
    lw_error err = {0};
    snprintf(text, sizeof text, "BEGIN IMMEDIATE; INSERT INTO step VALUES (%d)", at);
    run_sql(steps->db, text);
    snprintf(text, sizeof text, "step %d", at);
    assert_status(lw_outbox_sqlite_checkpoint(steps->db, ctx, LW_TEXT(text), &err), LW_OK);
    bool is_taken_back = steps->ending == ROLLED_BACK && task->attempt % 2 == 1;
    run_sql(steps->db, is_taken_back ? "ROLLBACK" : "COMMIT");
    if (steps->ending == DEAD)
        _exit(9);
    if (steps->is_mixed) { /* a step of its own, after the one of the transaction */
        snprintf(text, sizeof text, "INSERT INTO step VALUES (%d)", ++at);
        run_sql(steps->db, text);
        snprintf(text, sizeof text, "step %d", at);
        assert_status(lw_checkpoint(ctx, LW_TEXT(text)), LW_OK);
    }
    return at >= STEPS && !is_taken_back ? lw_done(ctx) : lw_retry(ctx, "more to do");
}

static lw_engine *open_steps(struct steps *steps) {
    lw_engine *engine = OPEN_STORE(.name = "owner");
    handle(engine, "steps", do_steps,
           LW_HANDLER_OPTIONS(.user = steps, .retry = {.min_ms = LW_ZERO, .crashes = -1}));
    start(engine);
    return engine;
}

static void assert_each_step_once(sqlite3 *db) {
    assert_int_equal(ask(db, "SELECT count(*) FROM step"), STEPS);
    assert_int_equal(ask(db, "SELECT count(DISTINCT n) FROM step"), STEPS);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
}

static void run_steps(enum ending ending, bool is_mixed, unsigned attempts) {
    struct steps steps = {.db = prepare_db(), .ending = ending, .is_mixed = is_mixed};
    run_sql(steps.db, "CREATE TABLE step (n INTEGER)");
    lw_engine *engine = open_steps(&steps);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_wait(engine, SUBMIT(engine, .kind = "steps"), -1, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, attempts);
    lw_snapshot_clear(&s);
    close_engine(engine);
    assert_each_step_once(steps.db);
    sqlite3_close(steps.db);
}

TEST(a_position_saved_in_the_handlers_transaction_is_where_the_next_attempt_goes_on) {
    run_steps(AS_RETRY, false, STEPS);
}

TEST(after_a_rollback_the_position_is_the_one_before) {
    run_steps(ROLLED_BACK, false, 2 * STEPS);
}

TEST(of_positions_saved_in_both_ways_the_last_one_counts) {
    run_steps(AS_RETRY, true, STEPS / 2);
}

TEST(a_process_that_dies_right_after_the_commit_has_saved_its_position) {
    struct steps steps = {.ending = AS_RETRY};
    sqlite3 *db = prepare_db();
    run_sql(db, "CREATE TABLE step (n INTEGER)");
    PUT(db, .kind = "steps", .key = "one");
    sqlite3_close(db); /* not across a fork */
    for (int i = 1; i <= 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            struct steps own = {.db = connect_db(DB), .ending = DEAD};
            open_steps(&own);
            for (;;)
                pause();
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(WEXITSTATUS(status), 9);
    }
    steps.db = connect_db(DB);
    assert_int_equal(ask(steps.db, "SELECT max(n) FROM step"), 3);
    lw_engine *engine = open_steps(&steps);
    lw_snapshot s = find(engine, "steps", "one");
    assert_status(lw_wait(engine, s.id, -1, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, STEPS);
    assert_int_equal(s.crashes, 3);
    lw_snapshot_clear(&s);
    close_engine(engine);
    assert_each_step_once(steps.db);
    sqlite3_close(steps.db);
}

static lw_outcome save_and_die(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_checkpoint_at(ctx, LW_TEXT("step 4"), 4, 9, "four"), LW_OK);
    _exit(9);
}

TEST(a_position_is_on_disk_when_the_call_returns) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    pid_t child = fork();
    if (child == 0) {
        lw_engine *engine = OPEN_STORE(.name = "owner");
        handle(engine, "steps", save_and_die, NULL);
        start(engine);
        SUBMIT(engine, .kind = "steps");
        for (;;)
            pause();
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 9);
    lw_engine *engine = OPEN_STORE(.name = "owner");
    assert_status(lw_get(engine, 1, &s), LW_OK);
    assert_int_equal(position_of(s.checkpoint), 4);
    assert_int_equal(s.progress.done, 4);
    assert_string_equal(s.progress.text, "four");
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(a_position_of_a_stale_attempt_or_a_huge_one_changes_nothing) {
    sqlite3 *db = prepare_db();
    run_sql(db, "DROP TRIGGER legwork_outbox_word;" /* as it was before */
                "INSERT INTO legwork_task (id, kind, queue, state, priority, created_ms, due_ms,"
                " attempts, crashes, snoozes, token, checkpoint)"
                " VALUES (5, 'none', 'default', 'enqueued', 1000, 1, 1, 3, 0, 0, 100, x'41');"
                "UPDATE legwork_meta SET value = 100 WHERE key = 'last_token';"
                "UPDATE legwork_meta SET value = 5 WHERE key = 'last_id';"
                "INSERT INTO legwork_outbox (op, task_id, token, bytes)"
                " VALUES ('checkpoint', 5, 99, 'B'), ('checkpoint', 5, 100, zeroblob(65537))");
    lw_engine *engine = OPEN_STORE(.name = "owner");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, 5, &s), LW_OK);
    assert_int_equal(s.checkpoint.size, 1);
    assert_memory_equal(s.checkpoint.data, "A", 1);
    lw_snapshot_clear(&s);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_outbox"), 0);
    close_engine(engine);
    sqlite3_close(db);
}

TEST(what_is_no_position_is_refused) {
    lw_ctx *ctx;
    lw_error err = {0};
    sqlite3 *db = prepare_db();
    static char large[LW_CHECKPOINT_MAX + 1];
    assert_status(lw_outbox_sqlite_checkpoint(db, NULL, LW_TEXT("x"), &err), LW_EINVAL);
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    assert_status(lw_outbox_sqlite_checkpoint(db, ctx, LW_TEXT("x"), &err), LW_EINVAL);
    CHECK(strstr(err.message, "handler") != NULL);
    assert_status(lw_outbox_sqlite_checkpoint(db, ctx, (lw_bytes){large, sizeof large}, &err),
                  LW_EINVAL);
    CHECK(strstr(err.message, "65537 bytes") != NULL);
    assert_status(lw_outbox_sqlite_checkpoint(db, ctx, (lw_bytes){NULL, 1}, NULL), LW_EINVAL);
    lw_ctx_close(ctx);
    sqlite3_close(db);
}

/* ---- asleep ------------------------------------------------------------------------------- */

/* How often the pump's thread has gone to sleep by itself. */
static long count_naps(void) {
    DIR *folder = opendir("/proc/self/task");
    struct dirent *entry;
    long naps = -1;
    while ((entry = readdir(folder))) {
        char name[300], text[4096] = "";
        snprintf(name, sizeof name, "/proc/self/task/%s/status", entry->d_name);
        FILE *file = fopen(name, "r");
        if (!file)
            continue;
        size_t size = fread(text, 1, sizeof text - 1, file);
        text[size] = 0;
        fclose(file);
        const char *found = strstr(text, "\nvoluntary_ctxt_switches:");
        if (strstr(text, "legwork-db") && found)
            naps = strtol(found + strlen("\nvoluntary_ctxt_switches:"), NULL, 10);
    }
    closedir(folder);
    return naps;
}

static bool sleeps_for_a_second(void) {
    long naps = count_naps();
    sqlite3_sleep(1000);
    return count_naps() == naps;
}

TEST_WITH(an_idle_owner_does_not_wake_up, .alone = true) {
    struct tally ran = TALLY;
    sqlite3 *db = prepare_db();
    lw_engine *engine = start_tallying(&ran);
    PUT(db, .kind = "mail");
    tally_await(&ran, 1);
    await_taken(db);
    CHECK(count_naps() > 0);
    await_that(sleeps_for_a_second()); /* what has to be looked at once more is, at some time */
    close_engine(engine);
    sqlite3_close(db);
}
