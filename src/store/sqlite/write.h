/* What write.c and plain.c share: from a task in memory to the parameters of a statement. */
#ifndef LW_STORE_SQLITE_WRITE_H
#define LW_STORE_SQLITE_WRITE_H

#include "store/sqlite/sqlite.h"

#define LW__SQLITE_WRITING "write to the store"

static inline void lw__sqlite_bind_text(sqlite3_stmt *s, int at, const char *text) {
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

static inline void lw__sqlite_bind_blob(sqlite3_stmt *s, int at, const void *data, size_t size) {
    if (size > 0)
        sqlite3_bind_blob64(s, at, data, size, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, at);
}

/* Times are the clock's ns in memory and wall time in ms in the file. */
static inline int64_t lw__sqlite_wall_ms(const struct lw__sqlite *sqlite, uint64_t at) {
    return sqlite->offset_ms + (int64_t)(at / LW__NS_PER_MS);
}

/* LW__NEVER and 0: none. */
static inline void lw__sqlite_bind_time(const struct lw__sqlite *sqlite, sqlite3_stmt *s, int at,
                                        uint64_t ns) {
    if (ns == 0 || ns == LW__NEVER)
        sqlite3_bind_null(s, at);
    else
        sqlite3_bind_int64(s, at, lw__sqlite_wall_ms(sqlite, ns));
}

static inline void lw__sqlite_bind_count(sqlite3_stmt *s, int at, uint64_t value) {
    if (value > 0)
        sqlite3_bind_int64(s, at, (int64_t)value);
    else
        sqlite3_bind_null(s, at);
}

/* ---- row.c -------------------------------------------------------------------------------- */

/* Where the parameters of a row begin, and what is known to be bound to them. */
struct lw__sqlite_place {
    sqlite3_stmt *s;
    int at;
    struct lw__sqlite_bound *bound;
};

/* Of parameters of which nothing is known: all are bound. */
#define LW__SQLITE_UNKNOWN (&(struct lw__sqlite_bound){.has_value = true, .has_result = true})

/* What a row of a task says of its state. */
const char *lw__sqlite_row_state(const struct lw__task_view *view, bool is_held, uint64_t now);

/* The parameters that every row of a task begins with, and those that its end adds. */
#define LW__SQLITE_ROW_PARAMETERS 9
#define LW__SQLITE_END_PARAMETERS 7
void lw__sqlite_bind_row(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                         const struct lw__task_view *view, const char *state, uint64_t due);
void lw__sqlite_bind_end(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                         const struct lw__task_view *view);

/* ---- plain.c ------------------------------------------------------------------------------ */

/* Writes the puts, or the ends, of plain tasks that `entries` begins with, and sets *rc. Returns of
 * how many; 0: the first is something else. */
size_t lw__sqlite_write_plain(struct lw__sqlite *sqlite,
                              const struct lw__journal_entry *const *entries, size_t count, int *rc,
                              lw_error *err);

#endif
