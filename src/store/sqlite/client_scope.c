/* Scopes where another process owns the store: copied from the file.
 *
 * There is no index on the scopes of tasks, so that those of one scope are found by looking at all
 * that have not ended: whoever does not want them should not ask (task_capacity 0). */
#include "store/sqlite/sqlite.h"

#include <string.h>

/* ---- its tasks ---------------------------------------------------------------------------- */

static void copy_text(char *into, size_t room, const unsigned char *text) {
    size_t size = text ? strnlen((const char *)text, room - 1) : 0;
    if (size > 0)
        memcpy(into, text, size);
    into[size] = 0;
}

static int copy_task(struct lw__sqlite *sqlite, sqlite3_stmt *row, struct lw__scope_task *task) {
    struct lw__index *index = sqlite->index;
    const char *kind = (const char *)sqlite3_column_text(row, 1);
    const char *queue = (const char *)sqlite3_column_text(row, 2);
    int rc = index->hooks.meet ? index->hooks.meet(index->hooks.user, kind, queue) : LW_OK;
    *task = (struct lw__scope_task){.id = (uint64_t)sqlite3_column_int64(row, 0)};
    if (rc == LW_OK)
        rc = lw__index_kind(&index->store, kind, &task->kind);
    task->state = lw__sqlite_state_named((const char *)sqlite3_column_text(row, 3));
    task->attempts = (uint32_t)sqlite3_column_int64(row, 4);
    task->due_at = lw__sqlite_clock_ns(sqlite, sqlite3_column_int64(row, 5));
    copy_text(task->error, sizeof task->error, sqlite3_column_text(row, 7));
    if (task->state == LW_ENQUEUED && lw__sqlite_client_runs(sqlite, task->id))
        task->state = LW_STARTED;
    return rc;
}

/* What is left of older generations is what the fence waits for: what did not run was aborted. */
static int copy_row(struct lw__sqlite *sqlite, sqlite3_stmt *row, struct lw__scope_copy *copy) {
    if ((uint64_t)sqlite3_column_int64(row, 6) != copy->generation) {
        copy->open++;
        return LW_OK;
    }
    copy->task_count++;
    if (copy->copied_count == copy->task_capacity)
        return LW_OK;
    return copy_task(sqlite, row, &copy->tasks[copy->copied_count++]);
}

static int copy_tasks(struct lw__sqlite *sqlite, struct lw__scope_copy *copy) {
    sqlite3_stmt *row = NULL;
    int rc = LW_OK;
    int code = sqlite3_prepare_v2(sqlite->file->db, lw__sql_scope_tasks, -1, &row, NULL);
    if (code == SQLITE_OK)
        sqlite3_bind_int64(row, 1, (int64_t)copy->id);
    while (rc == LW_OK && code != SQLITE_DONE && (code == SQLITE_OK || code == SQLITE_ROW)) {
        code = sqlite3_step(row);
        if (code == SQLITE_ROW)
            rc = copy_row(sqlite, row, copy);
    }
    if (rc == LW_OK && code != SQLITE_DONE)
        rc = lw__sqlite_explain(sqlite->file->db, code, "read the store", NULL);
    sqlite3_finalize(row);
    return rc;
}

/* ---- a scope ------------------------------------------------------------------------------ */

static void copy_scope(sqlite3_stmt *row, struct lw__scope_copy *copy) {
    const void *bytes = sqlite3_column_blob(row, 5);
    copy->id = (uint64_t)sqlite3_column_int64(row, 0);
    copy_text(copy->name, sizeof copy->name, sqlite3_column_text(row, 1));
    copy->generation = (uint64_t)sqlite3_column_int64(row, 2);
    copy->version = (uint64_t)sqlite3_column_int64(row, 3);
    copy->is_unclean = sqlite3_column_int(row, 4) != 0;
    copy->size = (size_t)sqlite3_column_bytes(row, 5);
    copy->task_count = copy->open = 0;
    copy->copied_count = 0;
    size_t size = copy->size < copy->capacity ? copy->size : copy->capacity;
    if (size > 0)
        memcpy(copy->bytes, bytes, size);
}

/* One statement of two may be of another moment: a scope that moves between them looks as if its
 * fence stood, which it does right then. */
static int take(struct lw__sqlite *sqlite, sqlite3_stmt *row, struct lw__scope_copy *copy) {
    int code = sqlite3_step(row);
    int rc = code == SQLITE_DONE
                 ? LW_ENOTFOUND
                 : lw__sqlite_explain(sqlite->file->db, code, "read the store", NULL);
    if (rc == LW_OK)
        copy_scope(row, copy);
    if (rc == LW_OK && copy->task_capacity > 0)
        rc = copy_tasks(sqlite, copy);
    sqlite3_reset(row);
    sqlite3_clear_bindings(row);
    return rc;
}

int lw__sqlite_client_scope_find(struct lw__store *store, const char *name,
                                 struct lw__scope_copy *copy) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__sqlite_client_lock(sqlite);
    int rc = lw__sqlite_client_look(sqlite, NULL);
    sqlite3_stmt *row = sqlite->file->statements[LW__SQL_SCOPE_FIND];
    if (rc == LW_OK) {
        sqlite3_bind_text(row, 1, name, -1, SQLITE_STATIC);
        rc = take(sqlite, row, copy);
    }
    lw__sqlite_client_unlock(sqlite);
    return rc;
}

int lw__sqlite_client_scope_next(struct lw__store *store, uint64_t after,
                                 struct lw__scope_copy *copy) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__sqlite_client_lock(sqlite);
    int rc = lw__sqlite_client_look(sqlite, NULL);
    sqlite3_stmt *row = sqlite->file->statements[LW__SQL_SCOPE_NEXT];
    if (rc == LW_OK) {
        sqlite3_bind_int64(row, 1, after < INT64_MAX ? (int64_t)after : INT64_MAX);
        rc = take(sqlite, row, copy);
    }
    lw__sqlite_client_unlock(sqlite);
    return rc;
}
