/* docs/schema.md is a promise to other languages: its SQL is run here as it is written there. */
#include "engines.h"
#include "own_sqlite.h"

#include <legwork/lease.h>
#include <legwork/outbox_sqlite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DB "tasks.db"

/* The document of the tree that this file is of. */
static char *read_document(void) {
    char path[4096];
    const char *at = strstr(__FILE__, "tests/unit/");
    CHECK(at != NULL);
    snprintf(path, sizeof path, "%.*sdocs/schema.md", (int)(at - __FILE__), __FILE__);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    char *text = calloc(1, 1 << 20);
    CHECK(text != NULL && fread(text, 1, (1 << 20) - 1, file) > 0);
    fclose(file);
    return text;
}

/* The SQL after a heading, cut out of the text. */
static char *cut_sql(char *text, const char *heading) {
    char *at = strstr(text, heading);
    CHECK(at != NULL);
    at = strstr(at, "```sql\n");
    CHECK(at != NULL);
    at += strlen("```sql\n");
    char *end = strstr(at, "```");
    CHECK(end != NULL);
    return strndup(at, (size_t)(end - at));
}

/* Each statement by itself; how many there were. */
static int run_each(sqlite3 *db, const char *sql) {
    int count = 0;
    for (const char *rest = sql; *rest; count++) {
        sqlite3_stmt *s = NULL;
        int code = sqlite3_prepare_v2(db, rest, -1, &s, &rest);
        while (code == SQLITE_OK && s && (code = sqlite3_step(s)) == SQLITE_ROW) {
            code = SQLITE_OK;
        }
        if (code != SQLITE_OK && code != SQLITE_DONE)
            fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
        CHECK(code == SQLITE_OK || code == SQLITE_DONE);
        sqlite3_finalize(s);
        rest += strspn(rest, " \n");
    }
    return count;
}

static struct tally runs = TALLY;

static lw_outcome check_email(lw_ctx *ctx, const lw_task *task) {
    assert_string_equal(task->payload.data, "ann@example.org");
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(the_sql_that_submits_does_what_the_document_says) {
    char *text = read_document(), *sql = cut_sql(text, "## Submitting");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine *engine = OPEN_ON("sqlite:" DB, .workers = 1);
    handle(engine, "send-email", check_email, NULL);
    start(engine);
    sqlite3 *db = connect_db(DB);
    CHECK(run_each(db, sql) >= 3);
    tally_await(&runs, 1);
    await_that(state_of(engine, LW_OUTBOX_SQLITE_ID(1)) == LW_FINISHED);
    await_that(lw_find(engine, "invoice", "order 17", &s) == LW_OK && s.state == LW_SCHEDULED);
    assert_int_equal(s.id, LW_OUTBOX_SQLITE_ID(2));
    assert_string_equal(s.queue, "slow");
    assert_int_equal(s.payload.size, 2);
    assert_memory_equal(s.payload.data, "\x0a\x11", 2);
    lw_snapshot_clear(&s);
    free(sql);
    sql = cut_sql(text, "## Looking");
    CHECK(run_each(db, sql) >= 3); /* on tables that have something in them */
    sqlite3_close(db);
    close_engine(engine);
    free(sql);
    free(text);
}

static void bind(sqlite3_stmt *s, const char *name, const char *value) {
    int at = sqlite3_bind_parameter_index(s, name);
    if (at > 0)
        sqlite3_bind_text(s, at, value, -1, SQLITE_STATIC);
}

/* Returns what its one row says: how many rows were changed. */
static int run_finish(sqlite3 *db, const char *sql, const char *task, const char *token) {
    int changed = -1;
    for (const char *rest = sql; *rest;) {
        sqlite3_stmt *s = NULL;
        assert_int_equal(sqlite3_prepare_v2(db, rest, -1, &s, &rest), SQLITE_OK);
        bind(s, ":task", task);
        bind(s, ":token", token);
        bind(s, ":result", "the result");
        if (sqlite3_step(s) == SQLITE_ROW)
            changed = sqlite3_column_int(s, 0);
        assert_int_equal(sqlite3_finalize(s), SQLITE_OK);
        rest += strspn(rest, " \n");
    }
    return changed;
}

TEST(the_sql_that_finishes_does_so_for_whoever_has_the_lease) {
    char *text = read_document(), *sql = cut_sql(text, "## Finishing"), token[40];
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    lw_engine *engine = OPEN_ON("sqlite:" DB, .workers = 1);
    start(engine);
    assert_int_equal(SUBMIT(engine, .kind = "remote"), 1);
    const lw_claim_options *options = LW_CLAIM_OPTIONS(.holder = "w", .lease_ms = 600000);
    assert_int_equal(lw_lease_claim(engine, options, &s, &err), 1);
    snprintf(token, sizeof token, "%llu", (unsigned long long)s.token);
    sqlite3 *db = connect_db(DB);
    assert_int_equal(run_finish(db, sql, "1", "4711"), 0);
    assert_int_equal(run_finish(db, sql, "2", token), 0);
    assert_int_equal(state_of(engine, 1), LW_STARTED);
    assert_int_equal(run_finish(db, sql, "1", token), 1);
    assert_status(lw_wait(engine, 1, -1, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_string_equal(s.result.data, "the result");
    lw_snapshot_clear(&s);
    sqlite3_close(db);
    close_engine(engine);
    free(sql);
    free(text);
}

TEST(a_transaction_with_that_sql_is_accepted_or_not_as_a_whole) {
    char *text = read_document(), *sql = cut_sql(text, "## Submitting");
    close_engine(OPEN_ON("sqlite:" DB, .workers = 1));
    sqlite3 *db = connect_db(DB);
    run_each(db, "BEGIN");
    run_each(db, sql);
    run_each(db, "ROLLBACK");
    lw_engine *reader = OPEN_ON("sqlite:" DB, .role = LW_ROLE_READER);
    lw_engine_stats stats;
    assert_status(lw_get_stats(reader, &stats), LW_OK);
    assert_int_equal(stats.created, 0);
    run_each(db, "BEGIN");
    run_each(db, sql);
    run_each(db, "COMMIT");
    assert_status(lw_get_stats(reader, &stats), LW_OK);
    assert_int_equal(stats.created, 2);
    close_engine(reader);
    sqlite3_close(db);
    free(sql);
    free(text);
}
