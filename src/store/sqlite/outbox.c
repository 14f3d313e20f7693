/* The outbox, on a connection of the program's own (legwork/outbox_sqlite.h). */
#include "store/sqlite/outbox.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/names.h"
#include "pool/ctx.h"
#include "store/check.h"
#include "store/sqlite/file_internal.h"
#include "store/store.h"

#include <legwork/outbox_sqlite.h>
#include <string.h>

#define PUTTING "put a task into the outbox"
#define FINISHING "complete the task"
#define SAVING "save the position of the task"

/* ---- checks ------------------------------------------------------------------------------- */

static int check_local(const lw_task *task, lw_error *err) {
    if (task->run)
        return lw__error_set(err, LW_EINVAL, 0,
                             "run is a function of this process: a task in the outbox has a kind, "
                             "and whoever owns the store has its handler");
    if (task->on_end)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "on_end is a function of this process: a task in the outbox is told to "
            "whoever owns the store");
    return LW_OK;
}

static int check_keys(const lw_task *task, lw_error *err) {
    if (task->key_scope == LW_KEY_WINDOW && task->key_window_ms == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "key_scope is LW_KEY_WINDOW, but no key_window_ms is given");
    for (size_t i = 0; i < task->after_count; i++) {
        if (task->after[i] == 0 || task->after[i] > INT64_MAX)
            return lw__error_set(err, LW_EINVAL, 0, "after names a task that has never been there");
    }
    return LW_OK;
}

int lw__outbox_check(const lw_task *task, lw_error *err) {
    int rc = lw__check_task(task, err);
    if (rc == LW_OK)
        rc = check_local(task, err);
    if (rc == LW_OK)
        rc = lw__check_fields(task, err);
    if (rc == LW_OK)
        rc = lw__name_check("kind", task->kind, err);
    if (rc == LW_OK && task->queue)
        rc = lw__name_check("queue", task->queue, err);
    return rc == LW_OK ? check_keys(task, err) : rc;
}

/* ---- a row -------------------------------------------------------------------------------- */

static void bind_text(sqlite3_stmt *s, int at, const char *text) {
    if (text)
        sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
}

static void bind_time(sqlite3_stmt *s, int at, int64_t ms) {
    if (ms > 0)
        sqlite3_bind_int64(s, at, ms);
}

static void bind_bytes(sqlite3_stmt *s, int at, const void *data, size_t size) {
    if (size > 0)
        sqlite3_bind_blob64(s, at, data, size, SQLITE_STATIC);
}

static void bind_after(sqlite3_stmt *s, int at, const lw_task *task) {
    if (task->after_count == 0)
        return;
    sqlite3_str *json = sqlite3_str_new(NULL);
    for (size_t i = 0; i < task->after_count; i++)
        sqlite3_str_appendf(json, "%s%llu", i ? "," : "[", task->after[i]);
    sqlite3_str_appendall(json, "]");
    sqlite3_bind_text(s, at, sqlite3_str_finish(json), -1, sqlite3_free);
    bind_text(s, at + 1, task->after_policy == LW_AFTER_RUN ? "run" : "abort");
}

void lw__outbox_bind(sqlite3_stmt *s, const lw_task *task) {
    static const char *const scopes[] = {NULL, "unfinished", "retained", "window"};
    size_t value_size = 0;
    const void *value = task->ctx ? lw_ctx_value(task->ctx, &value_size) : NULL;
    int64_t priority = task->priority == 0 ? 1000 : task->priority == LW_ZERO ? 0 : task->priority;
    sqlite3_clear_bindings(s);
    bind_text(s, 1, task->kind);
    bind_text(s, 2, task->queue ? task->queue : "default");
    bind_text(s, 3, task->key);
    bind_bytes(s, 4, task->payload.data, task->payload.size);
    bind_bytes(s, 5, value, value_size);
    sqlite3_bind_int64(s, 6, priority);
    bind_time(s, 7, task->delay_ms);
    bind_time(s, 8, task->run_at_ms);
    bind_time(s, 9, task->start_by_ms);
    bind_time(s, 10, task->finish_by_ms);
    bind_text(s, 11, task->key ? scopes[task->key_scope] : NULL);
    bind_time(s, 12, task->key ? task->key_window_ms : 0);
    bind_after(s, 13, task);
}

/* ---- on the program's connection ---------------------------------------------------------- */

static int prepare_statement(sqlite3 *db, const char *sql, const char *doing, sqlite3_stmt **s,
                             lw_error *err) {
    if (!db)
        return lw__error_set(err, LW_EINVAL, 0, "the connection is NULL");
    int code = sqlite3_prepare_v2(db, sql, -1, s, NULL);
    if ((code & 0xff) == SQLITE_ERROR && strstr(sqlite3_errmsg(db), "no such table"))
        return lw__error_set(err, LW_ENOTFOUND, code,
                             "cannot %s: the main file of this connection has no tables of "
                             "Legwork (those of an ATTACHed one do not count, its commit is "
                             "another); call lw_outbox_sqlite_prepare, or open an engine on the "
                             "file, first",
                             doing);
    return lw__sqlite_explain(db, code, doing, err);
}

/* The statement is one of its own, so that nothing of it is left on the connection. */
static int run_statement(sqlite3 *db, sqlite3_stmt *s, const char *doing, lw_error *err) {
    int rc = lw__sqlite_explain(db, sqlite3_step(s), doing, err);
    sqlite3_finalize(s);
    return rc;
}

_Static_assert(LW_OUTBOX_SQLITE_ID(0) == LW__OUTSIDE_IDS, "what is promised is what is done");

int lw_outbox_sqlite_put(sqlite3 *db, const lw_task *task, lw_id *id, lw_error *err) {
    sqlite3_stmt *s = NULL;
    if (id)
        *id = 0;
    int rc = lw__outbox_check(task, err);
    if (rc == LW_OK)
        rc = prepare_statement(db, lw__sql_outbox_put, PUTTING, &s, err);
    if (rc < 0)
        return rc;
    lw__outbox_bind(s, task);
    int64_t before = sqlite3_last_insert_rowid(db);
    rc = run_statement(db, s, PUTTING, err);
    if (rc == LW_OK && id)
        *id = LW_OUTBOX_SQLITE_ID((lw_id)sqlite3_last_insert_rowid(db));
    sqlite3_set_last_insert_rowid(db, before); /* the program may want to know its own */
    return rc;
}

/* Something about the present attempt of a handler: its id and token, and perhaps bytes. */
static int tell(sqlite3 *db, lw_ctx *ctx, const char *sql, const lw_bytes *bytes, const char *doing,
                lw_error *err) {
    sqlite3_stmt *s = NULL;
    if (!ctx || !ctx->task || ctx->task->token == 0)
        return lw__error_set(err, LW_EINVAL, 0, "this is not the context of a handler");
    int rc = prepare_statement(db, sql, doing, &s, err);
    if (rc < 0)
        return rc;
    sqlite3_bind_int64(s, 1, (int64_t)ctx->task->id);
    sqlite3_bind_int64(s, 2, (int64_t)ctx->task->token);
    if (bytes)
        sqlite3_bind_blob64(s, 3, bytes->size > 0 ? bytes->data : "", bytes->size, SQLITE_STATIC);
    int64_t before = sqlite3_last_insert_rowid(db);
    rc = run_statement(db, s, doing, err);
    sqlite3_set_last_insert_rowid(db, before);
    if (rc == LW_OK && sqlite3_changes(db) == 0)
        return lw__error_set(err, LW_ELEASE, 0,
                             "this attempt of task %llu is not its present one, or its flow has "
                             "moved on, or the task is not in this file",
                             ctx->task->id);
    ctx->has_written_outside |= rc == LW_OK;
    return rc;
}

int lw_outbox_sqlite_done(sqlite3 *db, lw_ctx *ctx, lw_error *err) {
    return tell(db, ctx, lw__sql_outbox_done, NULL, FINISHING, err);
}

int lw_outbox_sqlite_checkpoint(sqlite3 *db, lw_ctx *ctx, lw_bytes position, lw_error *err) {
    if (position.size > LW_CHECKPOINT_MAX || (position.size > 0 && !position.data))
        return lw__error_set(err, LW_EINVAL, 0,
                             "the position has %zu bytes, must be at most %d, and not NULL",
                             position.size, LW_CHECKPOINT_MAX);
    return tell(db, ctx, lw__sql_outbox_checkpoint, &position, SAVING, err);
}

int lw_outbox_sqlite_prepare(sqlite3 *db, lw_error *err) {
    if (!db)
        return lw__error_set(err, LW_EINVAL, 0, "the connection is NULL");
    if (!sqlite3_get_autocommit(db))
        return lw__error_set(
            err, LW_EINVAL, 0,
            "the connection is in a transaction: tables are made before it begins");
    const char *path = sqlite3_db_filename(db, "main");
    if (!path || !*path)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the connection has no file, which an engine could open");
    return lw__sqlite_schema_apply(&lw__sqlite_schema, db, LW__SQLITE_GUEST, path, err);
}
