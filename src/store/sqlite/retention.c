/* How long terminal tasks stay is said by whoever registers their kind, and stays in the file: an
 * owner that does not know the kind, or has not registered it yet, lets go no more than that. */
#include "store/sqlite/sqlite.h"

#include "base/error.h"
#include "base/names.h"

#include <string.h>

static int64_t number_of(uint64_t value, uint64_t unit) {
    return value == UINT64_MAX ? -1 : (int64_t)(value / unit);
}

int lw__sqlite_write_retention(struct lw__sqlite *sqlite, const struct lw__kind_image *image,
                               lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_RETENTION_PUT];
    sqlite3_bind_text(s, 1, image->name, -1, SQLITE_STATIC);
    for (int i = 0; i < 3; i++) {
        const struct lw__retention_settings *settings = &image->retention[i];
        sqlite3_bind_int64(s, 2 + 2 * i, number_of(settings->ttl_ns, LW__NS_PER_MS));
        sqlite3_bind_int64(s, 3 + 2 * i, number_of(settings->max, 1));
    }
    sqlite3_bind_int64(s, 8, number_of(image->retention[0].byte_max, 1)); /* of all three */
    return lw__sqlite_file_run(sqlite->file, LW__SQL_RETENTION_PUT, "write to the store", err);
}

/* Of a kind that has no task only this is known: it does not count as one before it has.
 * Somebody may have written here by hand: what is no kind, or no number, changes nothing. */
static void read_number(sqlite3_stmt *row, int column, uint64_t unit, uint64_t *value) {
    int64_t number = sqlite3_column_int64(row, column);
    if (sqlite3_column_type(row, column) == SQLITE_INTEGER)
        *value = number < 0 || number > LW_TIMEOUT_MS_MAX ? UINT64_MAX : (uint64_t)number * unit;
}

static int load_kind(struct lw__sqlite *sqlite, sqlite3_stmt *row) {
    const char *name = (const char *)sqlite3_column_text(row, 0);
    struct lw__past_kind *kind;
    if (lw__name_check("kind", name, NULL) < 0)
        return LW_OK;
    int rc = lw__index_add_past_kind(sqlite->index, &kind);
    if (rc < 0)
        return rc;
    memcpy(kind->name, name, strlen(name));
    for (int i = 0; i < 3; i++) {
        struct lw__retention_settings *settings = &kind->retention[i];
        read_number(row, 1 + 2 * i, LW__NS_PER_MS, &settings->ttl_ns);
        read_number(row, 2 + 2 * i, 1, &settings->max);
        read_number(row, 7, 1, &settings->byte_max);
    }
    return LW_OK;
}

int lw__sqlite_load_retention(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *row = sqlite->file->statements[LW__SQL_RETENTION_SCAN];
    int code, rc = LW_OK;
    sqlite3_bind_int(row, 1, LW__PAST_KINDS_MAX);
    while (rc == LW_OK && (code = sqlite3_step(row)) == SQLITE_ROW)
        rc = load_kind(sqlite, row);
    if (rc < 0)
        lw__error_set(err, rc, 0, "cannot read the store: %s", lw_status_text(rc));
    else
        rc = lw__sqlite_explain(sqlite->file->db, code, "read the store", err);
    sqlite3_reset(row);
    return rc;
}
