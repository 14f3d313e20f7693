/* What the file has to say, beside what the program was told: see errands.h. */
#include "errands_internal.h"

#include "test.h"

#include <stdio.h>
#include <string.h>

/* ---- looking into the file ---------------------------------------------------------------- */

sqlite3 *open_file(void) {
    sqlite3 *db;
    CHECK(sqlite3_open_v2(ERRANDS_DB, &db, SQLITE_OPEN_READWRITE, NULL) == SQLITE_OK);
    return db;
}

int64_t ask_file(sqlite3 *db, const char *sql) {
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    CHECK(s);
    int code = sqlite3_step(s);
    CHECK(code == SQLITE_ROW || code == SQLITE_DONE);
    int64_t answer = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_finalize(s);
    return answer;
}

void assert_file_is_whole(sqlite3 *db) {
    sqlite3_stmt *s = NULL;
    CHECK(sqlite3_prepare_v2(db, "PRAGMA integrity_check", -1, &s, NULL) == SQLITE_OK);
    CHECK(sqlite3_step(s) == SQLITE_ROW);
    assert_string_equal((const char *)sqlite3_column_text(s, 0), "ok");
    sqlite3_finalize(s);
}

#define ALL_TASKS                                                                               \
    "(SELECT id, kind, key, payload, state, checkpoint FROM legwork_task UNION ALL SELECT id, " \
    "kind, key, payload, state, checkpoint FROM legwork_history)"

static int64_t count_where(sqlite3 *db, const char *where, const char *text, uint64_t id) {
    char *sql = sqlite3_mprintf("SELECT count(*) FROM " ALL_TASKS " WHERE %s", where);
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(db, sql, -1, &s, NULL) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    CHECK(s);
    sqlite3_bind_text(s, 1, text, -1, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (sqlite3_int64)id);
    CHECK(sqlite3_step(s) == SQLITE_ROW);
    int64_t count = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_free(sql);
    return count;
}

/* ---- the audit ---------------------------------------------------------------------------- */

static void audit_accepted(sqlite3 *db, const struct errand *errand) {
    int64_t there = count_where(db, "id = ?2 AND key = ?1 AND CAST(payload AS TEXT) = ?1",
                                errand->key, errand->id);
    if (there == 0 && !errand->is_forgetting)
        fprintf(stderr, "%s (task %llu) was accepted and is lost\n", errand->key, errand->id);
    CHECK(there == 1 || errand->is_forgetting);
    CHECK(there == 0 || !errand->is_forgotten);
    lw_state told = (lw_state)atomic_load(&errand->told);
    const char *state = errand->is_cancelled               ? "aborted"
                        : told != 0 && !errand->is_retried ? lw_state_name(told)
                                                           : NULL;
    if (state && there > 0)
        assert_int_equal(count_where(db, "id = ?2 AND state = ?1", state, errand->id), 1);
}

static void audit_page(sqlite3 *db, const struct errand *errand) {
    char page[24];
    snprintf(page, sizeof page, "%ld", atomic_load(&errand->page));
    if (strcmp(errand->kind, "pages") == 0)
        assert_int_equal(count_where(db, "id = ?2 AND ifnull(CAST(checkpoint AS TEXT), '0') >= ?1",
                                     page, errand->id),
                         1);
}

/* An effect in the transaction of its completion is there once when its task has finished, and at
 * most once before: nobody may have looked at the completion yet. */
static void audit_effect(sqlite3 *db, const struct errand *errand) {
    char sql[80];
    if (strcmp(errand->kind, "effect") != 0)
        return;
    bool has_table = ask_file(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'effect'") > 0;
    snprintf(sql, sizeof sql, "SELECT count(*) FROM effect WHERE key = '%s'", errand->key);
    int64_t times = has_table ? ask_file(db, sql) : 0;
    int64_t ended = count_where(db, "key = ?1 AND state = 'finished'", errand->key, 0);
    if (times > 1 || times < ended)
        fprintf(stderr, "%s has %lld effects, ended %lld\n", errand->key, (long long)times,
                (long long)ended);
    CHECK(times <= 1 && times >= ended);
}

static void audit_errand(sqlite3 *db, const struct errand *errand) {
    int64_t times = count_where(db, "key = ?1", errand->key, 0);
    if (times > 1)
        fprintf(stderr, "%s is there %lld times\n", errand->key, (long long)times);
    CHECK(times <= 1);
    audit_effect(db, errand);
    if (errand->id) {
        audit_accepted(db, errand);
        audit_page(db, errand);
    }
}

/* All of it, or nothing. */
static void audit_atomicity(sqlite3 *db) {
    for (int lap = 0; lap < LAPS; lap++) {
        char pattern[KEY_SIZE];
        snprintf(pattern, sizeof pattern, "b%d.%%", lap);
        int64_t batch = count_where(db, "key LIKE ?1", pattern, 0);
        CHECK(batch == 0 || batch == BATCH);
        snprintf(pattern, sizeof pattern, "p%d.%%", lap);
        int64_t children = count_where(db, "key LIKE ?1", pattern, 0);
        snprintf(pattern, sizeof pattern, "p%d", lap);
        int64_t ended = count_where(db, "key = ?1 AND state = 'finished'", pattern, 0);
        if (children != 2 * ended)
            fprintf(stderr, "%s: %lld children, ended %lld\n", pattern, (long long)children,
                    (long long)ended);
        CHECK(children == 2 * ended);
        snprintf(pattern, sizeof pattern, "a%d", lap);
        CHECK(count_where(db, "key = ?1 AND state = 'finished'", pattern, 0) <= ended);
    }
}

static bool is_known(const struct errands *e, const char *key) {
    for (int i = 0; i < e->count; i++) {
        size_t size = strlen(e->all[i].key);
        if (strncmp(e->all[i].key, key, size) == 0 && (!key[size] || key[size] == '.'))
            return true;
    }
    return false;
}

static void audit_origin(const struct errands *e, sqlite3 *db) {
    sqlite3_stmt *s = NULL;
    CHECK(
        sqlite3_prepare_v2(db, "SELECT key FROM " ALL_TASKS " WHERE key IS NOT NULL", -1, &s, NULL)
        == SQLITE_OK);
    while (sqlite3_step(s) == SQLITE_ROW)
        CHECK(is_known(e, (const char *)sqlite3_column_text(s, 0)));
    sqlite3_finalize(s);
    int64_t plain = count_where(db, "kind = 'plain'", NULL, 0);
    CHECK(plain >= e->plain_accepted && plain <= e->plain_asked);
}

void errands_audit_file(const struct errands *e) {
    sqlite3 *db = open_file();
    assert_file_is_whole(db);
    for (int i = 0; i < e->count; i++)
        audit_errand(db, &e->all[i]);
    audit_atomicity(db);
    audit_origin(e, db);
    int64_t last = ask_file(db, "SELECT value FROM legwork_meta WHERE key = 'last_id'");
    CHECK(last >= (int64_t)e->last_id);
    CHECK(last >= ask_file(db, "SELECT max(id) FROM " ALL_TASKS));
    sqlite3_close(db);
}
