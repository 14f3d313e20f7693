/* Rows that leave, many at a time, and the room that they leave behind.
 *
 * Tasks end, and leave the history, mostly in the order of their ids. So rows are not deleted one
 * by one: ids that follow each other are collected, and deleted by one statement (measured: 1,500
 * instructions a row instead of 4,500).
 *
 * SQLite uses the room again. When more than half of the file is free, after a long backlog, the
 * file is made shorter: by no more at a time than some pages for all that has left since. */
#include "store/sqlite/sqlite.h"

#define REMOVING "write to the store"
#define TIDY_ROWS 4096     /* so many leave between two looks */
#define ROWS_OF_PAGE 8     /* that have left, for each page that goes; more fit into one */
#define FREE_PAGES_MIN 512 /* not worth it below */

/* ---- rows --------------------------------------------------------------------------------- */

static struct lw__removal *removal_of(struct lw__sqlite *sqlite, enum lw__sql which) {
    switch (which) {
    case LW__SQL_TASK_DELETE: return &sqlite->task_removal;
    case LW__SQL_LEASE_DELETE: return &sqlite->lease_removal;
    default: return &sqlite->history_removal;
    }
}

static int remove_now(struct lw__sqlite *sqlite, enum lw__sql which, lw_error *err) {
    struct lw__removal *removal = removal_of(sqlite, which);
    sqlite3_stmt *s = sqlite->file->statements[which];
    if (removal->first == 0)
        return LW_OK;
    sqlite3_bind_int64(s, 1, (int64_t)removal->first);
    sqlite3_bind_int64(s, 2, (int64_t)removal->last);
    if (which != LW__SQL_LEASE_DELETE) /* those are small, and soon replaced */
        sqlite->removed_rows += removal->last - removal->first + 1;
    *removal = (struct lw__removal){0, 0};
    return lw__sqlite_file_run(sqlite->file, which, REMOVING, err);
}

int lw__sqlite_remove(struct lw__sqlite *sqlite, enum lw__sql which, uint64_t id, lw_error *err) {
    struct lw__removal *removal = removal_of(sqlite, which);
    int rc = LW_OK;
    if (removal->first > 0 && id == removal->last + 1) {
        removal->last = id;
    } else {
        rc = remove_now(sqlite, which, err);
        *removal = (struct lw__removal){id, id};
    }
    return rc;
}

int lw__sqlite_remove_before(struct lw__sqlite *sqlite, enum lw__sql which, uint64_t id,
                             lw_error *err) {
    const struct lw__removal *removal = removal_of(sqlite, which);
    bool is_among = id >= removal->first && id <= removal->last;
    return is_among ? remove_now(sqlite, which, err) : LW_OK;
}

int lw__sqlite_remove_tasks(struct lw__sqlite *sqlite, lw_error *err) {
    return remove_now(sqlite, LW__SQL_TASK_DELETE, err);
}

int lw__sqlite_remove_all(struct lw__sqlite *sqlite, lw_error *err) {
    int rc = remove_now(sqlite, LW__SQL_TASK_DELETE, err);
    if (rc == LW_OK)
        rc = remove_now(sqlite, LW__SQL_LEASE_DELETE, err);
    return rc == LW_OK ? remove_now(sqlite, LW__SQL_HISTORY_DELETE, err) : rc;
}

void lw__sqlite_remove_none(struct lw__sqlite *sqlite) {
    sqlite->task_removal = sqlite->history_removal = sqlite->lease_removal =
        (struct lw__removal){0, 0};
}

/* ---- room --------------------------------------------------------------------------------- */

static int ask(struct lw__sqlite *sqlite, enum lw__sql which, int64_t *number, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[which];
    int code = sqlite3_step(s);
    *number = code == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    int rc = lw__sqlite_explain(sqlite->file->db, code, REMOVING, err);
    sqlite3_reset(s);
    return rc;
}

/* The statement frees a page a step. */
static int shorten(struct lw__sqlite *sqlite, int64_t pages, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_SHORTEN];
    int code = SQLITE_ROW;
    for (int64_t i = 0; i < pages && code == SQLITE_ROW; i++)
        code = sqlite3_step(s);
    int rc = lw__sqlite_explain(sqlite->file->db, code, REMOVING, err);
    sqlite3_reset(s);
    return rc;
}

int lw__sqlite_tidy(struct lw__sqlite *sqlite, lw_error *err) {
    int64_t free_count = 0, page_count = 0, most = (int64_t)(sqlite->removed_rows / ROWS_OF_PAGE);
    if (sqlite->removed_rows < TIDY_ROWS)
        return LW_OK;
    sqlite->removed_rows = 0;
    int rc = ask(sqlite, LW__SQL_FREE_COUNT, &free_count, err);
    if (rc == LW_OK)
        rc = ask(sqlite, LW__SQL_PAGE_COUNT, &page_count, err);
    if (rc < 0 || free_count < FREE_PAGES_MIN || free_count < page_count / 2)
        return rc;
    int64_t pages = free_count - page_count / 4;
    return shorten(sqlite, pages < most ? pages : most, err);
}
