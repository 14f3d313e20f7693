/* Whose file it is, which version its tables have, and how they get to the present one. */
#include "store/sqlite/file_internal.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

static const char *const migrations[] = {lw__sql_migration_1, lw__sql_migration_2};

const struct lw__sqlite_schema lw__sqlite_schema = {.migrations = migrations,
                                                    .version = LW__SQLITE_VERSION};

_Static_assert(sizeof migrations / sizeof *migrations == LW__SQLITE_VERSION,
               "a migration for every version");

#define LOOKING "look into the store"
#define MIGRATING "bring the tables of the store to this version"

struct identity {
    int64_t application_id, table_count;
    bool has_meta;
    bool is_utf16;
    int64_t version; /* 0: no tables of ours; -1: they do not say which */
};

/* ---- whose it is -------------------------------------------------------------------------- */

/* Reads the numbers of the first row. SQLITE_ROW; SQLITE_DONE: there is none; or an error. */
static int query(sqlite3 *db, const char *sql, int64_t *numbers, int count) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    code = sqlite3_step(statement);
    for (int i = 0; code == SQLITE_ROW && i < count; i++)
        numbers[i] = sqlite3_column_int64(statement, i);
    int end = sqlite3_finalize(statement);
    return code == SQLITE_ROW && end != SQLITE_OK ? end : code;
}

static int identify(sqlite3 *db, struct identity *identity, lw_error *err) {
    int64_t seen[4] = {0};
    int code = query(db, lw__sql_identity, seen, 4);
    *identity = (struct identity){.application_id = seen[0],
                                  .table_count = seen[1],
                                  .has_meta = seen[2] > 0,
                                  .is_utf16 = seen[3] != 0};
    if (code == SQLITE_ROW && identity->has_meta) {
        identity->version = -1;
        code = query(db, lw__sql_schema_get, &identity->version, 1);
    }
    return lw__sqlite_explain(db, code, LOOKING, err);
}

/* Why a file without our tables is not to get them. */
static int judge_new(const struct identity *identity, enum lw__sqlite_mode mode, const char *path,
                     lw_error *err) {
    if (identity->application_id == LW__SQLITE_APPLICATION_ID)
        return lw__error_set(err, LW_ECORRUPT, 0,
                             "the file is damaged: it is marked as Legwork's and has no table "
                             "legwork_meta: %s",
                             path);
    if (identity->application_id != 0 && mode != LW__SQLITE_GUEST)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the file is another program's: its application_id is 0x%08x, and "
                             "it has no table legwork_meta: %s",
                             (unsigned)identity->application_id, path);
    if (mode == LW__SQLITE_READER || mode == LW__SQLITE_CLIENT)
        return lw__error_set(err, LW_ENOTFOUND, 0,
                             "there are no tasks in this file yet, its owner makes their tables: "
                             "%s",
                             path);
    return LW_OK;
}

static int judge(const struct identity *identity, int version, enum lw__sqlite_mode mode,
                 const char *path, lw_error *err) {
    if (identity->is_utf16)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the text of the file is UTF-16, must be UTF-8: make it anew with "
                             "PRAGMA encoding = 'UTF-8', and copy its tables: %s",
                             path);
    if (!identity->has_meta)
        return judge_new(identity, mode, path, err);
    if (identity->version < 1)
        return lw__error_set(err, LW_ECORRUPT, 0,
                             "the file is damaged: legwork_meta does not say which version its "
                             "tables have: %s",
                             path);
    if (identity->version > version)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the file is from a newer Legwork: its tables have version %lld, and "
                             "this one knows %d: %s",
                             (long long)identity->version, version, path);
    if (identity->version < version && mode != LW__SQLITE_OWNER)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the tables of the file have version %lld, and an owner has to bring "
                             "them to %d first: %s",
                             (long long)identity->version, version, path);
    return LW_OK;
}

/* ---- migrations --------------------------------------------------------------------------- */

static int run(sqlite3 *db, const char *sql, lw_error *err) {
    return lw__sqlite_explain(db, sqlite3_exec(db, sql, NULL, NULL, NULL), MIGRATING, err);
}

/* Writes down which version it is, in the header as well if that is ours. */
static int stamp(sqlite3 *db, const struct identity *before, enum lw__sqlite_mode mode, int version,
                 lw_error *err) {
    char sql[200];
    bool is_new = before->table_count == 0 && mode != LW__SQLITE_GUEST;
    bool is_ours = is_new || before->application_id == LW__SQLITE_APPLICATION_ID;
    snprintf(sql, sizeof sql, "UPDATE legwork_meta SET value = %d WHERE key = 'schema';", version);
    int rc = run(db, sql, err);
    if (rc != LW_OK || !is_ours)
        return rc;
    snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d;",
             LW__SQLITE_APPLICATION_ID, version);
    return run(db, sql, err);
}

/* Inside a transaction: what was seen before it may have changed since. */
static int migrate_locked(const struct lw__sqlite_schema *schema, sqlite3 *db,
                          enum lw__sqlite_mode mode, const char *path, lw_error *err) {
    struct identity identity;
    int rc = identify(db, &identity, err);
    if (rc == LW_OK)
        rc = judge(&identity, schema->version, mode, path, err);
    if (rc != LW_OK || identity.version == schema->version)
        return rc;
    for (int64_t version = identity.version; rc == LW_OK && version < schema->version; version++)
        rc = run(db, schema->migrations[version], err);
    return rc == LW_OK ? stamp(db, &identity, mode, schema->version, err) : rc;
}

static int migrate(const struct lw__sqlite_schema *schema, sqlite3 *db, enum lw__sqlite_mode mode,
                   const char *path, lw_error *err) {
    int rc = run(db, lw__sql_begin, err);
    if (rc != LW_OK)
        return rc;
    rc = migrate_locked(schema, db, mode, path, err);
    if (rc == LW_OK)
        rc = run(db, lw__sql_commit, err);
    if (rc != LW_OK && !sqlite3_get_autocommit(db))
        sqlite3_exec(db, lw__sql_rollback, NULL, NULL, NULL);
    return rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* WAL is written into the file, so this is a write when it is not WAL yet. */
static int try_wal(sqlite3 *db, bool *is_wal) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, "PRAGMA journal_mode = WAL", -1, &statement, NULL);
    if (code == SQLITE_OK && (code = sqlite3_step(statement)) == SQLITE_ROW)
        *is_wal = strcmp((const char *)sqlite3_column_text(statement, 0), "wal") == 0;
    int end = sqlite3_finalize(statement);
    return end != SQLITE_OK ? end : code;
}

/* SQLite itself does not wait for another connection that is about to do the same. */
static int make_wal(sqlite3 *db, const struct identity *identity, const char *path, lw_error *err) {
    bool is_wal = false;
    struct lw__sqlite_patience patience = {.until = 0};
    /* Only a file without pages takes it; with it, room that is not needed any more can go back. */
    int code = identity->table_count > 0
                   ? SQLITE_OK
                   : sqlite3_exec(db, "PRAGMA auto_vacuum = INCREMENTAL", NULL, NULL, NULL);
    if (code == SQLITE_OK)
        code = try_wal(db, &is_wal);
    for (int i = 0; (code & 0xff) == SQLITE_BUSY && lw__sqlite_wait_for_lock(&patience, i); i++)
        code = try_wal(db, &is_wal);
    if (code == SQLITE_ROW && !is_wal)
        return lw__error_set(err, LW_ESYSTEM, 0,
                             "the store cannot be in WAL mode on this file system: %s", path);
    return lw__sqlite_explain(db, code, "make the store", err);
}

int lw__sqlite_schema_apply(const struct lw__sqlite_schema *schema, sqlite3 *db,
                            enum lw__sqlite_mode mode, const char *path, lw_error *err) {
    struct identity identity;
    int rc = identify(db, &identity, err);
    if (rc == LW_OK)
        rc = judge(&identity, schema->version, mode, path, err);
    if (rc != LW_OK || mode == LW__SQLITE_READER || mode == LW__SQLITE_CLIENT)
        return rc;
    rc = make_wal(db, &identity, path, err);
    if (rc == LW_OK && identity.version < schema->version)
        rc = migrate(schema, db, mode, path, err);
    return rc;
}
