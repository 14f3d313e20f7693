#include "own_sqlite.h"

#include "test.h"

#include <stdio.h>

#define BUSY_MS 30000

static void expect(sqlite3 *db, int code, int wanted, const char *sql) {
    if (code != wanted)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    assert_int_equal(code, wanted);
}

sqlite3 *connect_db(const char *path) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, BUSY_MS);
    return db;
}

void run_sql(sqlite3 *db, const char *sql) {
    expect(db, sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK, sql);
}

long long ask(sqlite3 *db, const char *sql) {
    sqlite3_stmt *s = NULL;
    expect(db, sqlite3_prepare_v2(db, sql, -1, &s, NULL), SQLITE_OK, sql);
    expect(db, sqlite3_step(s), SQLITE_ROW, sql);
    long long value = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return value;
}
