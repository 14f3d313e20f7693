#include "store/sqlite/reader.h"

#include "base/error.h"
#include "store/sqlite/file_internal.h"

#define READING "read a payload"
#define CONFIGURATION "PRAGMA cache_size = -256" /* KiB: every commit of the pump empties it */

void lw__reader_init(struct lw__reader *reader) {
    *reader = (struct lw__reader){.db = NULL};
    lw__mutex_init(&reader->mu);
}

/* ---- open and close ----------------------------------------------------------------------- */

static void close_locked(struct lw__reader *reader) {
    sqlite3_finalize(reader->ahead);
    sqlite3_finalize(reader->task);
    sqlite3_finalize(reader->history);
    sqlite3_close(reader->db);
    reader->ahead = reader->task = reader->history = NULL;
    reader->db = NULL;
}

void lw__reader_close(struct lw__reader *reader) {
    lw__mutex_lock(&reader->mu);
    close_locked(reader);
    lw__mutex_unlock(&reader->mu);
}

void lw__reader_lock(struct lw__reader *reader) {
    lw__mutex_lock(&reader->mu);
}

void lw__reader_unlock(struct lw__reader *reader) {
    lw__mutex_unlock(&reader->mu);
}

void lw__reader_free(struct lw__reader *reader) {
    close_locked(reader);
    lw__mutex_free(&reader->mu);
}

static int prepare(struct lw__reader *reader, const char *sql, sqlite3_stmt **statement) {
    return sqlite3_prepare_v3(reader->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL);
}

static int open_locked(struct lw__reader *reader, const struct lw__sqlite_file *file,
                       lw_error *err) {
    if (reader->db)
        return LW_OK;
    int code = sqlite3_open_v2(
        file->path, &reader->db,
        SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE, NULL);
    if (code == SQLITE_OK) {
        sqlite3_extended_result_codes(reader->db, 1);
        sqlite3_busy_handler(reader->db, lw__sqlite_wait_for_lock, &reader->patience);
        code = sqlite3_exec(reader->db, CONFIGURATION, NULL, NULL, NULL);
    }
    if (code == SQLITE_OK)
        code = prepare(reader, lw__sql_task_ahead, &reader->ahead);
    if (code == SQLITE_OK)
        code = prepare(reader, lw__sql_task_load, &reader->task);
    if (code == SQLITE_OK)
        code = prepare(reader, lw__sql_history_load, &reader->history);
    int rc = lw__sqlite_explain(reader->db, code, READING, err);
    if (rc == LW_OK)
        rc = lw__sqlite_place_check_database(file, err);
    if (rc < 0)
        close_locked(reader);
    return rc;
}

/* ---- reading ------------------------------------------------------------------------------ */

static lw_bytes bytes_at(sqlite3_stmt *row, int column) {
    const void *data = sqlite3_column_blob(row, column);
    return (lw_bytes){data, (size_t)sqlite3_column_bytes(row, column)};
}

static int keep(const lw_allocator *allocator, sqlite3_stmt *row, int column, uint64_t id,
                struct lw__lean_reads *reads, size_t *bytes, lw_error *err) {
    lw_bytes payload = bytes_at(row, column), value = bytes_at(row, column + 1);
    struct lw__spec *spec = lw__lean_make(allocator, payload, value);
    if (!spec)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a payload of %zu bytes",
                             payload.size);
    reads->all[reads->count++] = (struct lw__lean_read){.id = id, .spec = spec};
    *bytes += spec->size;
    return LW_OK;
}

/* One statement, one look at the file: the first rows from this id on. */
static int read_ahead(struct lw__reader *reader, const lw_allocator *allocator, uint64_t id,
                      struct lw__lean_reads *reads, lw_error *err) {
    sqlite3_stmt *s = reader->ahead;
    size_t bytes = 0;
    int code = SQLITE_DONE, rc = LW_OK;
    sqlite3_bind_int64(s, 1, (int64_t)id);
    sqlite3_bind_int(s, 2, LW__LEAN_READ_MAX);
    while (rc == LW_OK && bytes < LW__LEAN_READ_BYTES && (code = sqlite3_step(s)) == SQLITE_ROW)
        rc = keep(allocator, s, 1, (uint64_t)sqlite3_column_int64(s, 0), reads, &bytes, err);
    if (rc == LW_OK)
        rc = lw__sqlite_explain(reader->db, code, READING, err);
    sqlite3_reset(s);
    return rc;
}

static int read_row(struct lw__reader *reader, sqlite3_stmt *s, const lw_allocator *allocator,
                    uint64_t id, struct lw__lean_reads *reads, lw_error *err) {
    size_t bytes = 0;
    sqlite3_bind_int64(s, 1, (int64_t)id);
    int code = sqlite3_step(s);
    int rc = code == SQLITE_ROW ? keep(allocator, s, 0, id, reads, &bytes, err)
                                : lw__sqlite_explain(reader->db, code, READING, err);
    sqlite3_reset(s);
    return rc;
}

/* It may be on its way from one table to the other: twice is enough, unless it moves as often. */
static int read_one(struct lw__reader *reader, const lw_allocator *allocator, uint64_t id,
                    struct lw__lean_reads *reads, lw_error *err) {
    sqlite3_stmt *const tables[] = {reader->task, reader->history, reader->task, reader->history};
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && reads->count == 0 && i < sizeof tables / sizeof *tables; i++)
        rc = read_row(reader, tables[i], allocator, id, reads, err);
    return rc;
}

int lw__reader_read_locked(struct lw__reader *reader, const struct lw__sqlite_file *file,
                           const lw_allocator *allocator, uint64_t id, bool is_ahead,
                           struct lw__lean_reads *reads, lw_error *err) {
    reads->count = 0;
    int rc = open_locked(reader, file, err);
    if (rc == LW_OK)
        rc = is_ahead ? read_ahead(reader, allocator, id, reads, err)
                      : read_one(reader, allocator, id, reads, err);
    return rc;
}
