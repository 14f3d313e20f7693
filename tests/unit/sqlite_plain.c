/* sqlite_plain.c: rows of plain tasks are written several at a time, and are the same as if each
 * were written by itself. */
#include "engines.h"
#include "own_sqlite.h"
#include "test.h"

#include <stdio.h>

#define PATH "tasks.db"

enum { MANY = 8 * 2 + 3 }; /* two statements for several, and three for one */

/* No two are the same. */
static void submit_all(lw_engine *engine, int count) {
    const lw_task *pointers[MANY];
    lw_task tasks[MANY];
    char payloads[MANY][16];
    lw_error err;
    for (int i = 0; i < count; i++) {
        int size = snprintf(payloads[i], sizeof payloads[i], "payload %d", i + 1);
        tasks[i] = *LW_TASK(.kind = i % 2 ? "odd" : "even", .queue = i % 3 ? "default" : "third",
                            .priority = 100 + (uint32_t)i, .payload = {payloads[i], (size_t)size});
        pointers[i] = &tasks[i];
    }
    assert_status(lw_submit_many(engine, pointers, (size_t)count, NULL, &err), LW_OK);
}

static lw_outcome say_payload(lw_ctx *ctx, const lw_task *task) {
    return lw_done_with(ctx, task->payload);
}

/* Ends are written from memory only if their task came after the store's first turn: there is one
 * task, with the id 1, before the others. */
static lw_engine *open_file(void) {
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 1);
    handle(engine, "odd", say_payload, NULL);
    handle(engine, "even", say_payload, NULL);
    SUBMIT(engine, .kind = "even");
    return engine;
}

/* Of the table, how many are as they were submitted. */
#define SAME(table)                                                                            \
    "WITH t AS (SELECT id - 1 AS n, * FROM " table " WHERE id > 1) SELECT count(*) FROM t"     \
    " WHERE kind = iif(n % 2, 'even', 'odd') AND queue = iif((n - 1) % 3, 'default', 'third')" \
    " AND priority = 99 + n AND CAST(payload AS TEXT) = 'payload ' || n AND created_ms > 0"    \
    " AND due_ms >= created_ms"

TEST(plain_tasks_that_come_together_have_rows_of_their_own) {
    lw_engine *engine = open_file();
    submit_all(engine, MANY);
    close_engine(engine);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), MANY + 1);
    assert_int_equal(
        ask(db, SAME("legwork_task") " AND state = 'enqueued' AND attempts = 0 AND token IS NULL"),
        MANY);
    sqlite3_close(db);
}

TEST(plain_tasks_that_end_together_have_rows_of_their_own) {
    lw_engine *engine = open_file();
    submit_all(engine, MANY);
    start(engine);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    close_engine(engine);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    assert_int_equal(
        ask(db, SAME("legwork_history") " AND state = 'finished' AND attempts = 1 AND crashes = 0"
                                        " AND ended_ms >= started_ms AND started_ms >= created_ms"
                                        " AND CAST(result AS TEXT) = 'payload ' || n"),
        MANY);
    assert_int_equal(ask(db, "SELECT count(DISTINCT token) FROM legwork_history"), MANY + 1);
    sqlite3_close(db);
}

/* A turn of which nobody knew whether it was written has left some behind. */
static void leave_behind(const char *table, const char *state, const char *columns,
                         const char *values) {
    char sql[512];
    sqlite3 *db = connect_db(PATH);
    snprintf(
        sql, sizeof sql,
        "INSERT INTO %s (id, kind, queue, state, priority, created_ms, due_ms%s)"
        " VALUES (3, 'odd', 'default', '%s', 1, 1, 1%s), (6, 'odd', 'default', '%s', 1, 1, 1%s)",
        table, columns, state, values, state, values);
    run_sql(db, sql);
    sqlite3_close(db);
}

TEST(rows_that_were_written_before_do_not_keep_the_others_out) {
    lw_engine *engine = open_file();
    leave_behind("legwork_task", "enqueued", "", "");
    leave_behind("legwork_history", "finished", ", ended_ms, attempts, crashes, snoozes",
                 ", 1, 1, 0, 0");
    submit_all(engine, MANY);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), MANY + 1);
    assert_int_equal(ask(db, SAME("legwork_task")), MANY - 2);
    start(engine);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history"), MANY + 1);
    assert_int_equal(ask(db, SAME("legwork_history")), MANY - 2);
    sqlite3_close(db);
}

static lw_outcome say_odd(lw_ctx *ctx, const lw_task *task) {
    bool is_odd = *(const char *)task->payload.data % 2;
    return is_odd ? lw_done_with(ctx, task->payload) : lw_done(ctx);
}

/* What is bound for one row is there for the next, unless that has something else. */
TEST(a_row_has_nothing_of_the_row_that_was_written_before_it) {
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 1);
    handle(engine, "say", say_odd, NULL);
    start(engine);
    SUBMIT(engine, .kind = "say", .payload = {"0", 1});
    for (int i = 0; i < MANY; i++)
        SUBMIT(engine, .kind = "say", .payload = {&"123"[i % 3], 1},
               .priority = 1 + (uint32_t)i % 2);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    close_engine(engine);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE id > 1"
                             " AND CAST(payload AS TEXT) = 1 + (id - 2) % 3"
                             " AND priority = 1 + (id - 2) % 2"
                             " AND result IS iif((id - 2) % 3 = 1, NULL, payload)"),
                     MANY);
    sqlite3_close(db);
}

/* Two workers end tasks in turns, while others are put. */
TEST(ends_that_come_out_of_order_leave_no_task_behind) {
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 2);
    handle(engine, "say", say_odd, NULL);
    start(engine);
    const lw_task *one = LW_TASK(.kind = "say", .payload = {"1", 1}), *tasks[MANY];
    for (int i = 0; i < MANY; i++)
        tasks[i] = one;
    for (int i = 0; i < 30; i++)
        assert_status(lw_submit_many(engine, tasks, MANY, NULL, NULL), LW_OK);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    close_engine(engine);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_history WHERE state = 'finished'"),
                     30 * MANY);
    sqlite3_close(db);
}
