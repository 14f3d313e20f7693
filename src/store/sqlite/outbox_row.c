#include "store/sqlite/outbox_row.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <string.h>

/* Columns of both statements; then those of outbox_scan.sql. Those of a spec are load.c's. */
enum { SEQ, OP, TASK_ID, TOKEN, BYTES };
enum { KIND = 5, QUEUE, KEY, PRIORITY = 10, DUE, RUN_AT };
enum { KEY_SCOPE = 15, KEY_UNTIL, SCOPE = 19, GENERATION };

static bool has(const struct lw__outbox_row *row, int column) {
    return sqlite3_column_type(row->at, column) != SQLITE_NULL;
}

static const char *text_at(const struct lw__outbox_row *row, int column) {
    const void *text = sqlite3_column_text(row->at, column);
    return text ? text : "";
}

static uint64_t number_at(const struct lw__outbox_row *row, int column) {
    return (uint64_t)sqlite3_column_int64(row->at, column);
}

int64_t lw__outbox_row_seq(const struct lw__outbox_row *row) {
    return sqlite3_column_int64(row->at, SEQ);
}

/* The task that a row becomes. */
static uint64_t id_of(const struct lw__outbox_row *row) {
    return LW__OUTSIDE_IDS + number_at(row, SEQ);
}

void lw__outbox_row_drop(const struct lw__outbox_row *row, const char *why) {
    bool is_submit = has(row, TASK_ID) == 0;
    lw__log(row->sqlite->index->options.log, LW_LOG_ERROR, "outbox", "a row is dropped",
            LW__FIELD_TEXT("why", why), LW__FIELD_TEXT("op", text_at(row, OP)),
            LW__FIELD_U64("task", is_submit ? id_of(row) : number_at(row, TASK_ID)),
            LW__FIELD_TEXT("kind", is_submit ? text_at(row, KIND) : ""),
            LW__FIELD_TEXT("key", is_submit ? text_at(row, KEY) : ""));
}

/* ---- submit ------------------------------------------------------------------------------- */

int lw__outbox_row_meet(struct lw__outbox_row *row) {
    struct lw__index *index = row->sqlite->index;
    const char *kind = text_at(row, KIND), *queue = text_at(row, QUEUE);
    int rc = index->hooks.meet ? index->hooks.meet(index->hooks.user, kind, queue) : LW_OK;
    if (rc == LW_OK)
        rc = lw__index_kind(&index->store, kind, &row->kind);
    if (rc == LW_OK)
        rc = lw__index_queue(&index->store, queue, &row->queue);
    return rc == LW_EFULL ? LW_EINVAL : rc; /* there are too many names: no end makes room */
}

static uint64_t due_of(const struct lw__outbox_row *row) {
    int column = has(row, DUE) ? DUE : RUN_AT;
    return has(row, column)
               ? lw__sqlite_clock_ns(row->sqlite, sqlite3_column_int64(row->at, column))
               : 0;
}

/* What the row does not say about its key its kind does. */
static void settle_key_locked(const struct lw__outbox_row *row, const struct lw__put *put) {
    const struct lw__kind *kind = row->sqlite->index->kinds[put->kind];
    struct lw__spec *spec = put->spec;
    if (!spec || spec->key_size == 0)
        return;
    if (!has(row, KEY_SCOPE) && kind->key_scope)
        spec->key_scope = kind->key_scope;
    if (spec->key_scope == LW_KEY_WINDOW && !has(row, KEY_UNTIL))
        spec->key_until = row->now + kind->key_window_ns;
}

/* A task that was put before this one is not here: it has found no room. */
static bool must_stay_locked(const struct lw__outbox_row *row, const struct lw__spec *spec) {
    for (uint32_t i = 0; spec && i < spec->after_count; i++) {
        uint64_t id = spec->after[i];
        if (id >= LW__OUTSIDE_IDS && id < id_of(row)
            && !lw__index_has_been_locked(row->sqlite->index, id))
            return true;
    }
    return false;
}

/* Not of somebody who has numbered the rows himself, and used a number twice. */
static bool is_new_locked(const struct lw__outbox_row *row, uint64_t id) {
    return id > LW__OUTSIDE_IDS && id <= LW__ID_MAX && !lw__ids_find(&row->sqlite->index->ids, id);
}

static int put_one(const struct lw__outbox_row *row, struct lw__put *put) {
    struct lw__index *index = row->sqlite->index;
    int rc;
    lw__brief_lock(&index->mu);
    settle_key_locked(row, put);
    if (index->restraints & LW__STORE_NO_PUT)
        rc = LW_ESTOPPING;
    else if (!is_new_locked(row, put->outside_id))
        rc = LW_EINVAL;
    else if (must_stay_locked(row, put->spec))
        rc = LW_PENDING;
    else
        rc = lw__index_put_locked(index, row->now, put, 1);
    lw__brief_unlock(&index->mu);
    return rc != LW_OK ? rc : put->status;
}

int lw__outbox_row_put(struct lw__outbox_row *row) {
    struct lw__sqlite *sqlite = row->sqlite;
    bool is_lost = false;
    struct lw__put put = {.kind = row->kind,
                          .queue = row->queue,
                          .priority = (uint32_t)number_at(row, PRIORITY),
                          .due = due_of(row),
                          .spec = lw__sqlite_outbox_spec(sqlite, row->at, &is_lost),
                          .is_successor = true,
                          .outside_id = id_of(row),
                          .scope = number_at(row, SCOPE),
                          .generation = number_at(row, GENERATION)};
    int rc = is_lost ? LW_ENOMEM : put_one(row, &put);
    if (rc != LW_OK && put.spec)
        lw__free(&sqlite->allocator, put.spec, put.spec->size);
    return rc;
}

/* ---- all else ----------------------------------------------------------------------------- */

/* It only sees to it that the attempt finishes the task, however it ends. */
static int finish(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__index *index = row->sqlite->index;
    uint64_t token = number_at(row, TOKEN);
    int rc = LW_OK;
    lw__brief_lock(&index->mu);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_over = !task || lw_state_is_terminal(lw__task_state(task));
    bool is_known = !is_over && task->notes & LW__NOTE_DONE; /* since it was opened, perhaps */
    if (!is_over && !is_known
        && (lw__task_state(task) != LW_STARTED || lw__see(&task->token) != token)) {
        rc = LW_ELEASE;
    } else if (!is_over) {
        task->notes |= LW__NOTE_DONE;
        rc = LW_PENDING;
    }
    lw__brief_unlock(&index->mu);
    return rc;
}

static int save(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__store *store = &row->sqlite->index->store;
    struct lw__publication publication = {
        .has_checkpoint = true,
        .checkpoint = {sqlite3_column_blob(row->at, BYTES),
                       (size_t)sqlite3_column_bytes(row->at, BYTES)}};
    if (publication.checkpoint.size > LW_CHECKPOINT_MAX)
        return LW_EINVAL;
    int rc = lw__index_publish_by_id(store, row->now, id, number_at(row, TOKEN), &publication);
    return rc == LW_ENOTFOUND || rc == LW_PENDING ? LW_OK
                                                  : rc; /* nobody needs it, or all is well */
}

/* Brings the scan to the row that becomes this task. False: there is none. */
static bool find_submit(const struct lw__outbox_row *row, uint64_t id, sqlite3_stmt **found) {
    sqlite3_stmt *s = row->sqlite->file->statements[LW__SQL_OUTBOX_SCAN];
    if (id < LW__OUTSIDE_IDS)
        return false;
    sqlite3_bind_int64(s, 1, (int64_t)(id - LW__OUTSIDE_IDS));
    sqlite3_bind_int64(s, 2, (int64_t)(id - LW__OUTSIDE_IDS));
    sqlite3_bind_int(s, 3, 1);
    *found = s;
    return sqlite3_step(s) == SQLITE_ROW;
}

/* Whether the task is in the outbox itself. */
static bool is_on_its_way(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__index *index = row->sqlite->index;
    sqlite3_stmt *s = NULL;
    lw__brief_lock(&index->mu);
    bool is_here = lw__ids_find(&index->ids, id) != NULL;
    lw__brief_unlock(&index->mu);
    bool is_there = !is_here && find_submit(row, id, &s);
    sqlite3_reset(s);
    return is_there;
}

static int change(const struct lw__outbox_row *row, uint64_t id, enum lw__change change) {
    if (is_on_its_way(row, id))
        return LW_PENDING;
    int rc = lw__index_change(&row->sqlite->index->store, row->now, id, change);
    return rc == LW_ENOMEM ? rc : LW_OK; /* as an operator, who asks what became of it */
}

int lw__outbox_row_obey(struct lw__outbox_row *row) {
    const char *op = text_at(row, OP);
    uint64_t id = number_at(row, TASK_ID);
    if (strcmp(op, "cancel") == 0)
        return change(row, id, LW__CHANGE_CANCEL);
    if (strcmp(op, "retry") == 0)
        return change(row, id, LW__CHANGE_RETRY);
    if (strcmp(op, "forget") == 0)
        return change(row, id, LW__CHANGE_FORGET);
    if (strcmp(op, "finish") == 0)
        return finish(row, id);
    if (strcmp(op, "checkpoint") == 0)
        return save(row, id);
    return LW_EINVAL;
}
