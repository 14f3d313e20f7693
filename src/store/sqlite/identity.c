/* Which store a file is, and whether a -wal file is its own.
 *
 * Names and inodes do not tell: a backup can be copied over the database in place, and a whole
 * store to another disk. Two rows of legwork_meta do:
 *
 * - `store_id`, a random number that the first owner writes, and that every copy has. The -owner
 *   file has it, too, as long as the store is open. After a kill a database without it (an empty
 *   one, or one that has just got its tables from a program's own connection) is not the store.
 * - `commit_number`, which grows with every turn of the owner. When a checkpoint has moved all into
 *   the database, the -owner file notes the number: the database file by itself has at least that
 *   one from then on. The -wal file is begun anew after a checkpoint, and fits any state since
 *   then: it has all pages that have changed. It does not fit an older state. So, after a kill, a
 *   database that has a smaller number by itself is an older copy, and the -wal file beside it
 *   would damage it.
 *
 * A refusal of the second kind leads to the deletion of the -wal file, and so it needs proof: a
 * number that was read, and is too small. A database that a kill left in the midst of a checkpoint
 * may be unreadable without its -wal file, and is not refused. A number begins with the wall time,
 * so that a store that was restored, and has gone on from there, has greater ones than the copies
 * of what was before. */
#include "store/sqlite/file_internal.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define ID_KEY "store_id"
#define NUMBER_KEY "commit_number"
#define DOING "note which store it is"

static const char *base_name(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* ---- refusals ----------------------------------------------------------------------------- */

static int refuse_other(const struct lw__sqlite_file *file, const char *what, lw_error *err) {
    const char *name = base_name(file->path);
    return lw__error_set(err, LW_ESYSTEM, ENOENT,
                         "%s, so it is not the store that was not closed: remove %s-wal and "
                         "%s-shm and restore that; or remove %s-owner to use this file: %s",
                         what, name, name, name, file->path);
}

static int refuse_log(const struct lw__sqlite_file *file, lw_error *err) {
    const char *name = base_name(file->path);
    return lw__error_set(err, LW_ESYSTEM, ENOENT,
                         "the database is an older copy, and %s-wal is not its own and would "
                         "damage it: remove %s-wal and %s-shm, and start again: %s",
                         name, name, name, file->path);
}

/* The -wal file may have been copied along with it. */
static int refuse_stranger(const struct lw__sqlite_file *file, lw_error *err) {
    const char *name = base_name(file->path);
    return lw__error_set(
        err, LW_ESYSTEM, ENOENT,
        "the file is another store than the one that was not closed: to use it "
        "remove %s-owner; and %s-wal and %s-shm, too, unless they came with it: %s",
        name, name, name, file->path);
}

/* ---- before anything is changed ----------------------------------------------------------- */

/* SQLITE_ROW; SQLITE_DONE: there is no such row; SQLITE_ERROR: no such table; or another error. */
static int read_meta(sqlite3 *db, const char *key, int64_t *value) {
    sqlite3_stmt *statement = NULL;
    int code = sqlite3_prepare_v2(db, lw__sql_meta_get, -1, &statement, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_bind_text(statement, 1, key, -1, SQLITE_STATIC);
    code = sqlite3_step(statement);
    bool is_number = code == SQLITE_ROW && sqlite3_column_type(statement, 0) == SQLITE_INTEGER;
    if (is_number)
        *value = sqlite3_column_int64(statement, 0);
    sqlite3_finalize(statement);
    return code == SQLITE_ROW && !is_number ? SQLITE_DONE : code;
}

/* Reads the database file by itself: "immutable" keeps SQLite away from the -wal file. SQLite opens
 * and closes it, since a close of ours would drop the locks of a program's other connections. */
static sqlite3 *open_alone(const char *path) {
    char uri[3 * LW__SQLITE_PATH_MAX + 32] = "file:";
    size_t size = strlen(uri);
    sqlite3 *db = NULL;
    for (const char *at = path; *at && size < sizeof uri - 20; at++)
        size += (size_t)(*at == '%' || *at == '#' || *at == '?'
                             ? snprintf(uri + size, 4, "%%%02X", (unsigned char)*at)
                             : snprintf(uri + size, 2, "%c", *at));
    snprintf(uri + size, sizeof uri - size, "?immutable=1");
    int code = sqlite3_open_v2(uri, &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
    if (code == SQLITE_OK)
        return db;
    sqlite3_close(db);
    return NULL;
}

static off_t size_of_log(const char *path) {
    char name[PATH_MAX];
    struct stat st;
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, path);
    return stat(name, &st) == 0 ? st.st_size : -1;
}

int lw__sqlite_identity_check_log(struct lw__sqlite_file *file, lw_error *err) {
    const struct lw__sqlite_mark *left = &file->left;
    int64_t id = 0, number = 0;
    off_t size = size_of_log(file->path);
    file->has_lost_log = left->is_open && size < 0;
    if (!left->is_open || left->number == 0 || size <= 0)
        return LW_OK;
    sqlite3 *db = open_alone(file->path);
    if (!db)
        return LW_OK; /* the open says what it is */
    bool has_id = read_meta(db, ID_KEY, &id) == SQLITE_ROW;
    bool has_number = read_meta(db, NUMBER_KEY, &number) == SQLITE_ROW;
    sqlite3_close(db);
    if (has_id && id != left->id)
        return refuse_stranger(file, err);
    return has_id && has_number && number < left->number ? refuse_log(file, err) : LW_OK;
}

/* Until it is known to be the store, a close leaves the -wal file as it is. */
static void keep_log(struct lw__sqlite_file *file, bool must_keep) {
    sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, (int)must_keep, NULL);
}

int lw__sqlite_identity_check(struct lw__sqlite_file *file, lw_error *err) {
    const struct lw__sqlite_mark *left = &file->left;
    int64_t id = 0;
    if (!left->is_open)
        return LW_OK;
    keep_log(file, true);
    int code = read_meta(file->db, ID_KEY, &id);
    if (code == SQLITE_ERROR)
        return refuse_other(file, "the file has no tables of Legwork", err);
    int rc = lw__sqlite_explain(file->db, code, "look which store it is", err);
    if (rc < 0)
        return rc;
    if (left->id != 0 && code == SQLITE_DONE)
        return refuse_other(file, "the file was never open as a store, or is a very old copy", err);
    if (left->id != 0 && id != left->id)
        return refuse_other(file, "the file is another store", err);
    keep_log(file, false);
    return LW_OK;
}

/* ---- the marks of this owner -------------------------------------------------------------- */

int lw__sqlite_identity_put_number(struct lw__sqlite_file *file, int64_t number, lw_error *err) {
    sqlite3_stmt *put = file->statements[LW__SQL_META_PUT];
    sqlite3_bind_text(put, 1, NUMBER_KEY, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, number);
    return lw__sqlite_file_run(file, LW__SQL_META_PUT, DOING, err);
}

static int put_id(struct lw__sqlite_file *file, int64_t *id, lw_error *err) {
    struct lw__random random;
    sqlite3_stmt *put = file->statements[LW__SQL_META_PUT];
    int rc = lw__random_seed_from_system(&random, err);
    if (rc < 0)
        return rc;
    *id = (int64_t)(lw__random_next(&random) >> 1) | 1;
    sqlite3_bind_text(put, 1, ID_KEY, -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, *id);
    return lw__sqlite_file_run(file, LW__SQL_META_PUT, DOING, err);
}

static int put_both(struct lw__sqlite_file *file, int64_t *id, int64_t *number, lw_error *err) {
    int64_t last = 0, wall_ms = lw__wall_ms(lw__clock_system());
    int code = read_meta(file->db, NUMBER_KEY, &last);
    if (code == SQLITE_ROW || code == SQLITE_DONE)
        code = read_meta(file->db, ID_KEY, id);
    int rc = lw__sqlite_explain(file->db, code, DOING, err);
    if (rc == LW_OK && *id == 0)
        rc = put_id(file, id, err);
    *number = last >= wall_ms ? last + 1 : wall_ms;
    return rc == LW_OK ? lw__sqlite_identity_put_number(file, *number, err) : rc;
}

int lw__sqlite_identity_mark(struct lw__sqlite_file *file, lw_error *err) {
    int64_t id = 0, number = 0;
    int rc = lw__sqlite_file_run(file, LW__SQL_BEGIN, DOING, err);
    if (rc < 0)
        return rc;
    rc = put_both(file, &id, &number, err);
    if (rc == LW_OK)
        rc = lw__sqlite_file_run(file, LW__SQL_COMMIT, DOING, err);
    if (rc < 0 && !sqlite3_get_autocommit(file->db))
        lw__sqlite_file_run(file, LW__SQL_ROLLBACK, DOING, NULL);
    if (rc < 0)
        return rc;
    bool is_known = file->left.is_open && file->left.id == id;
    file->mark = (struct lw__sqlite_mark){
        .is_open = true, .id = id, .number = is_known ? file->left.number : 0};
    file->commit_number = number;
    lw__sqlite_checkpoint_now(file);
    lw__sqlite_owner_mark(file->owner, &file->mark);
    return LW_OK;
}

void lw__sqlite_identity_moved(struct lw__sqlite_file *file) {
    if (!file->mark.is_open || file->mark.number == file->commit_number)
        return;
    file->mark.number = file->commit_number;
    lw__sqlite_owner_mark(file->owner, &file->mark);
}
