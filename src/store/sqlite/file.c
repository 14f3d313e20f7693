/* Opens and closes the file of an SQLite store. */
#include "store/sqlite/file.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "store/sqlite/file_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define BUSY_SHORT_US 100 /* pauses at first */
#define BUSY_SHORT_COUNT 500

static const char *const texts[] = {
#define TEXT(constant, file) [LW__SQL_##constant] = lw__sql_##file,
    LW__SQL_MAP(TEXT)
#undef TEXT
};

static int make_file(struct lw__sqlite_file **file, const char *path, enum lw__sqlite_mode mode,
                     const lw_allocator *allocator, lw_error *err) {
    size_t length = strlen(path), size = sizeof **file + length + 1;
    *file = lw__alloc_zero(allocator, size);
    if (*file == NULL)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory to open the store");
    (*file)->allocator = allocator;
    (*file)->mode = mode;
    (*file)->owner = -1;
    (*file)->size = size;
    memcpy((*file)->path, path, length);
    return LW_OK;
}

/* SQLite would quietly open a file that it may not write to as read-only. */
static int refuse_readonly(const char *path, lw_error *err) {
    int error = faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0 ? errno : EROFS;
    return lw__error_set(err, LW_ESYSTEM, error, "the store is read-only (%s): %s",
                         strerrordesc_np(error), path);
}

/* SQLite's own patience has ever longer pauses: between two of them a busy writer would get the
 * lock again and again. */
int lw__sqlite_wait_for_lock(void *arg, int count) {
    struct lw__sqlite_patience *patience = arg;
    uint64_t now = lw__now(lw__clock_system()), ms = patience->ms;
    if (patience->until == 0 || (count == 0 && !patience->is_shared))
        patience->until = now + (ms ? ms : LW__SQLITE_BUSY_MS) * LW__NS_PER_MS;
    if (now >= patience->until) {
        if (patience->checkpoint)
            sqlite3_interrupt(patience->checkpoint);
        return 0;
    }
    _Atomic uint32_t never = 0;
    uint64_t us = count < BUSY_SHORT_COUNT ? BUSY_SHORT_US : 1000;
    lw__futex_wait(&never, 0, now + us * LW__NS_PER_US);
    return 1;
}

static int refuse_guest(const char *path, lw_error *err) {
    return lw__error_set(err, LW_ENOTFOUND, 0, "there is no store yet, its owner makes it: %s",
                         path);
}

static int connect_db(struct lw__sqlite_file *file, bool can_create, lw_error *err) {
    bool is_reader = file->mode == LW__SQLITE_READER;
    bool is_guest = is_reader || file->mode == LW__SQLITE_CLIENT;
    int flags = is_reader                 ? SQLITE_OPEN_READONLY
                : can_create && !is_guest ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
                                          : SQLITE_OPEN_READWRITE;
    if (is_guest && access(file->path, F_OK) != 0 && errno == ENOENT)
        return refuse_guest(file->path, err);
    int code = sqlite3_open_v2(file->path, &file->db,
                               flags | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE,
                               file->log.below ? file->log.name : NULL);
    if (code != SQLITE_OK)
        return lw__sqlite_explain(file->db, file->db ? sqlite3_extended_errcode(file->db) : code,
                                  "open the store", err);
    sqlite3_extended_result_codes(file->db, 1);
    sqlite3_busy_handler(file->db, lw__sqlite_wait_for_lock, &file->patience);
    lw__sqlite_checkpoint_init(file);
    if (!is_reader && sqlite3_db_readonly(file->db, "main") == 1)
        return refuse_readonly(file->path, err);
    return LW_OK;
}

static int configure(struct lw__sqlite_file *file, lw_error *err) {
    int code = sqlite3_exec(file->db, lw__sql_configure, NULL, NULL, NULL);
    return lw__sqlite_explain(file->db, code, "set up the store", err);
}

static int prepare(struct lw__sqlite_file *file, lw_error *err) {
    for (int i = 0; i < LW__SQL_COUNT; i++) {
        int code = sqlite3_prepare_v3(file->db, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                      &file->statements[i], NULL);
        if (code == SQLITE_ERROR) /* no such table, no such column */
            return lw__error_set(err, LW_ECORRUPT, code,
                                 "the file is damaged: its tables are not those of version %d: %s",
                                 LW__SQLITE_VERSION, sqlite3_errmsg(file->db));
        if (code != SQLITE_OK)
            return lw__sqlite_explain(file->db, code, "read the tables of the store", err);
    }
    return LW_OK;
}

static int probe(struct lw__sqlite_file *file, lw_error *err) {
    int code = sqlite3_step(file->statements[LW__SQL_PROBE]);
    int rc = lw__sqlite_explain(file->db, code, "read the tables of the store", err);
    sqlite3_reset(file->statements[LW__SQL_PROBE]);
    return rc;
}

/* Whoever is not to make the store is not told of a directory that is not there, either. */
static int resolve(const char *path, char resolved[PATH_MAX], enum lw__sqlite_mode mode,
                   lw_error *err) {
    lw_error why = {0};
    int rc = lw__sqlite_path_resolve(path, resolved, &why);
    if (rc == LW_OK)
        return LW_OK;
    if (rc == LW_ESYSTEM && why.native == ENOENT && mode != LW__SQLITE_OWNER)
        return refuse_guest(path, err);
    return lw__error_set(err, rc, why.native, "%s", why.message);
}

/* A -wal file that was left beside a restored database may be the reason; it stays as it is. */
static void explain_log(struct lw__sqlite_file *file, lw_error *err) {
    const char *slash = strrchr(file->path, '/'), *name = slash ? slash + 1 : file->path;
    lw_error why = err ? *err : (lw_error){0};
    if (file->db)
        sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    if (!file->has_lost_log)
        lw__error_set(err, LW_ECORRUPT, why.native,
                      "%s; if it was restored: remove %s-wal and %s-shm, restore it again",
                      why.message, name, name);
}

int lw__sqlite_file_open(struct lw__sqlite_file **out, const char *path, enum lw__sqlite_mode mode,
                         const lw_allocator *allocator, lw_error *err) {
    char resolved[PATH_MAX];
    struct lw__sqlite_file *file = NULL;

    *out = NULL;
    int rc = resolve(path, resolved, mode, err);
    if (rc == LW_OK)
        rc = make_file(&file, resolved, mode, allocator, err);
    if (rc == LW_OK && mode == LW__SQLITE_OWNER)
        rc = lw__sqlite_owner_take(file->path, &file->owner, &file->left, err);
    if (rc == LW_OK)
        rc = lw__sqlite_identity_check_log(file, err);
    if (rc == LW_OK && mode != LW__SQLITE_READER && !lw__sqlite_wal_announce(&file->log))
        rc = lw__error_set(err, LW_ENOMEM, 0, "no memory to open the store");
    if (rc == LW_OK)
        rc = connect_db(file, true, err);
    if (rc == LW_OK)
        rc = lw__sqlite_identity_check(file, err);
    if (rc == LW_OK)
        rc = lw__sqlite_schema_apply(&lw__sqlite_schema, file->db, mode, file->path, err);
    if (rc == LW_OK)
        rc = configure(file, err);
    if (rc == LW_OK)
        rc = prepare(file, err);
    if (rc == LW_OK)
        rc = probe(file, err);
    if (rc == LW_OK && mode == LW__SQLITE_OWNER)
        rc = lw__sqlite_identity_mark(file, err);
    if (rc == LW_ECORRUPT && file->left.is_open)
        explain_log(file, err);
    if (rc != LW_OK) {
        lw__sqlite_file_close(file);
        return rc;
    }
    lw__sqlite_place_note(file);
    *out = file;
    return LW_OK;
}

static void disconnect(struct lw__sqlite_file *file) {
    for (int i = 0; i < LW__SQL_COUNT; i++) {
        sqlite3_finalize(file->statements[i]);
        file->statements[i] = NULL;
    }
    file->puts = file->ends = (struct lw__sqlite_bounds){0};
    int code = sqlite3_close(file->db);
    assert(code == SQLITE_OK); /* otherwise something of it is still in use */
    file->db = NULL;
}

/* What is in memory belongs to the file that it was read from, and to no other of that name. */
int lw__sqlite_file_reopen(struct lw__sqlite_file *file, lw_error *err) {
    int rc = lw__sqlite_place_check_database(file, err);
    if (rc < 0)
        return rc;
    disconnect(file);
    rc = connect_db(file, false, err);
    if (rc == LW_OK)
        rc = configure(file, err);
    if (rc == LW_OK)
        rc = prepare(file, err);
    if (rc == LW_OK)
        rc = probe(file, err);
    if (rc == LW_OK)
        rc = lw__sqlite_place_check_database(file, err);
    if (rc == LW_OK)
        lw__sqlite_place_note_wal(file);
    else
        disconnect(file);
    return rc;
}

void lw__sqlite_file_close(struct lw__sqlite_file *file) {
    if (file == NULL)
        return;
    bool is_in_place =
        file->database.number != 0 && lw__sqlite_place_check_database(file, NULL) == LW_OK;
    bool is_closed = is_in_place && !(file->is_given_up && file->left.is_open);
    disconnect(file);
    lw__sqlite_wal_forget(&file->log);
    lw__sqlite_owner_release(file->owner, is_closed);
    lw__free(file->allocator, file, file->size);
}

int lw__sqlite_file_run(struct lw__sqlite_file *file, enum lw__sql which, const char *doing,
                        lw_error *err) {
    sqlite3_stmt *statement = file->statements[which];
    int code = sqlite3_step(statement);
    int rc = lw__sqlite_explain(file->db, code, doing, err);
    sqlite3_reset(statement);
    return rc;
}
