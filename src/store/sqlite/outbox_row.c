#include "store/sqlite/outbox_row.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Columns of both statements; then those of outbox_scan.sql. Those of a spec are load.c's. */
enum { SEQ, OP, TASK_ID, TOKEN, BYTES };
enum { CREATED = 5 }; /* of outbox_words.sql */
enum { KIND = 5, QUEUE, KEY, PAYLOAD, VALUE, PRIORITY, DUE, RUN_AT };
enum { KEY_SCOPE = 15, KEY_UNTIL, AFTER, SCOPE = 19, GENERATION, DELAY, WRITTEN };

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

static void drop(const struct lw__outbox_row *row, const char *why) {
    bool is_submit = !has(row, TASK_ID);
    lw__log(row->sqlite->index->options.log, LW_LOG_ERROR, "outbox", "a row is dropped",
            LW__FIELD_TEXT("why", why), LW__FIELD_TEXT("op", text_at(row, OP)),
            LW__FIELD_U64("task", is_submit ? id_of(row) : number_at(row, TASK_ID)),
            LW__FIELD_TEXT("kind", is_submit ? text_at(row, KIND) : ""),
            LW__FIELD_TEXT("key", is_submit ? text_at(row, KEY) : ""));
}

void lw__outbox_row_take(const struct lw__outbox_row *row, int status) {
    struct lw__intake *intake = &row->sqlite->intake;
    if (status < 0)
        drop(row, lw_status_text(status));
    intake->taken[intake->count++] = lw__outbox_row_seq(row);
}

/* ---- what can be -------------------------------------------------------------------------- */

static int meet_names(struct lw__outbox_row *row, const char *kind, const char *queue) {
    struct lw__index *index = row->sqlite->index;
    int rc = index->hooks.meet ? index->hooks.meet(index->hooks.user, kind, queue) : LW_OK;
    if (rc == LW_OK)
        rc = lw__index_kind(&index->store, kind, &row->kind);
    if (rc == LW_OK)
        rc = lw__index_queue(&index->store, queue, &row->queue);
    return rc;
}

static const char *skip_space(const char *at) {
    return at + strspn(at, " \t\r\n");
}

/* JSON as the documents have it: [12, 13]. */
static bool is_list_of_ids(const char *text) {
    int count = 0;
    char *end;
    const char *at = skip_space(text);
    bool is_empty = *at == '[' && *skip_space(at + 1) == ']';
    if (*at != '[' || is_empty)
        return is_empty;
    for (; *at == '[' || *at == ','; count++) {
        at = skip_space(at + 1);
        if (*at < '1' || *at > '9' || strtoull(at, &end, 10) > LW__ID_MAX)
            return false;
        at = skip_space(end);
    }
    return *at == ']' && count <= LW_AFTER_MAX;
}

/* The table has refused most of it already, unless it is older than that. */
static void check(struct lw__outbox_row *row) {
    lw_error err = {0};
    bool is_late = has(row, DUE) && has(row, RUN_AT);
    bool is_window = strcmp(text_at(row, KEY_SCOPE), "window") == 0;
    if (has(row, KEY) && lw__key_check("key", text_at(row, KEY), LW_KEY_MAX, &err) < 0)
        snprintf(row->reason, sizeof row->reason, "%s", err.message);
    else if (is_late && number_at(row, RUN_AT) > 0 && number_at(row, DELAY) > 0)
        snprintf(row->reason, sizeof row->reason, "delay_ms and run_at_ms are both given");
    else if (is_window && !has(row, KEY_UNTIL))
        snprintf(row->reason, sizeof row->reason, "its key has a window without key_window_ms");
    else if (sqlite3_column_bytes(row->at, VALUE) > LW_CTX_VALUE_MAX)
        snprintf(row->reason, sizeof row->reason, "its value has %d bytes, must be at most %d",
                 sqlite3_column_bytes(row->at, VALUE), LW_CTX_VALUE_MAX);
    else if (has(row, AFTER) && !is_list_of_ids(text_at(row, AFTER)))
        snprintf(row->reason, sizeof row->reason,
                 "after_ids must be a JSON array of at most %d ids of tasks", LW_AFTER_MAX);
}

int lw__outbox_row_meet(struct lw__outbox_row *row) {
    row->reason[0] = 0;
    int rc = meet_names(row, text_at(row, KIND), text_at(row, QUEUE));
    if (rc == LW_EINVAL && meet_names(row, text_at(row, KIND), "default") == LW_OK) {
        snprintf(row->reason, sizeof row->reason, "there can be no queue %s", text_at(row, QUEUE));
        return LW_OK;
    }
    if (rc == LW_OK)
        check(row);
    return rc;
}

/* ---- submit ------------------------------------------------------------------------------- */

static uint64_t clock_at(const struct lw__outbox_row *row, int column) {
    return lw__sqlite_clock_ns(row->sqlite, sqlite3_column_int64(row->at, column));
}

/* A delay counts from when the row was written; if the wall clock was set back since, from now on:
 * it becomes no longer than it was. A wall time is what it is. */
static uint64_t due_of(const struct lw__outbox_row *row) {
    if (!has(row, DUE))
        return has(row, RUN_AT) ? clock_at(row, RUN_AT) : 0;
    uint64_t due = clock_at(row, DUE), written = clock_at(row, WRITTEN);
    return written > row->now ? row->now + (due - written) : due;
}

/* What the row does not say about its key its kind does. */
static void settle_key_locked(const struct lw__outbox_row *row, const struct lw__put *put) {
    const struct lw__kind *kind = lw__index_kind_at(row->sqlite->index, put->kind);
    struct lw__spec *spec = put->spec;
    if (!spec || spec->key_size == 0)
        return;
    if (!has(row, KEY_SCOPE) && kind->key_scope)
        spec->key_scope = kind->key_scope;
    if (spec->key_scope == LW_KEY_WINDOW && !has(row, KEY_UNTIL))
        spec->key_until = row->now + kind->key_window_ns;
}

/* A task that was put before this one is not here: it has found no room. */
static bool must_stay_locked(const struct lw__outbox_row *row, const struct lw__put *put) {
    const struct lw__spec *spec = put->stillborn ? NULL : put->spec;
    for (uint32_t i = 0; spec && i < spec->after_count; i++) {
        uint64_t id = spec->after[i];
        if (id >= LW__OUTSIDE_IDS && id < id_of(row)
            && !lw__index_has_been_locked(row->sqlite->index, id))
            return true;
    }
    return false;
}

/* A cancel may have made the task of this row already, in this turn (cancel_submit). */
static bool is_taken(const struct lw__outbox_row *row) {
    const struct lw__intake *intake = &row->sqlite->intake;
    int64_t seq = lw__outbox_row_seq(row);
    for (size_t i = 0; i < intake->count; i++) {
        if (intake->taken[i] == seq)
            return true;
    }
    return false;
}

/* Not of somebody who has numbered the rows himself, and used a number twice. */
static bool is_new_locked(const struct lw__outbox_row *row, uint64_t id) {
    return id > LW__OUTSIDE_IDS && id <= LW__ID_MAX && !lw__ids_find(&row->sqlite->index->ids, id);
}

/* Whether it can never run, because of this status; then it says why. */
static bool is_hopeless_locked(struct lw__outbox_row *row, const struct lw__put *put, int status) {
    const struct lw__index *index = row->sqlite->index;
    const struct lw__queue *queue = lw__index_queue_at(index, put->queue);
    uint64_t bytes = put->spec ? put->spec->payload_size : 0;
    uint64_t most = queue->byte_limit < index->options.byte_limit ? queue->byte_limit
                                                                  : index->options.byte_limit;
    if (put->stillborn || status >= 0 || status == LW_ENOMEM
        || (status == LW_EFULL && bytes <= most))
        return false;
    if (status == LW_EFULL)
        snprintf(row->reason, sizeof row->reason,
                 "its payload of %llu bytes can never fit: queue %s takes %llu",
                 (unsigned long long)bytes, queue->name, (unsigned long long)most);
    else if (put->scope)
        snprintf(row->reason, sizeof row->reason, "its scope has moved on, or is none");
    else
        snprintf(row->reason, sizeof row->reason, "it comes after a task that was never there");
    return true;
}

static int put_one_locked(struct lw__outbox_row *row, struct lw__put *put) {
    struct lw__index *index = row->sqlite->index;
    if (index->restraints & LW__STORE_NO_PUT)
        return LW_ESTOPPING;
    if (!is_new_locked(row, put->outside_id))
        return is_taken(row) ? LW_EXISTS : LW_EINVAL;
    settle_key_locked(row, put);
    if (must_stay_locked(row, put))
        return LW_PENDING;
    int rc = lw__index_put_locked(index, row->now, put, 1);
    if (!is_hopeless_locked(row, put, rc))
        return rc != LW_OK ? rc : put->status;
    put->stillborn = row->reason;
    put->scope = 0;
    rc = lw__index_put_locked(index, row->now, put, 1);
    return rc != LW_OK ? rc : put->status;
}

/* What is wrong in it does not come along, but its payload does: whoever finds it aborted wants to
 * know what it was about. */
static struct lw__spec *make_spec(const struct lw__outbox_row *row, bool *is_lost) {
    if (!row->reason[0] || row->is_cancelled)
        return lw__sqlite_outbox_spec(row->sqlite, row->at, is_lost);
    const void *payload = sqlite3_column_blob(row->at, PAYLOAD);
    lw_bytes bytes = {payload, (size_t)sqlite3_column_bytes(row->at, PAYLOAD)};
    struct lw__spec *spec = lw__lean_make(&row->sqlite->allocator, bytes, (lw_bytes){NULL, 0});
    *is_lost = !spec;
    return spec;
}

int lw__outbox_row_put(struct lw__outbox_row *row) {
    struct lw__index *index = row->sqlite->index;
    bool is_lost = false;
    struct lw__put put = {.kind = row->kind,
                          .queue = row->queue,
                          .priority = (uint32_t)number_at(row, PRIORITY),
                          .due = due_of(row),
                          .spec = make_spec(row, &is_lost),
                          .is_successor = true,
                          .outside_id = id_of(row),
                          .stillborn = row->reason[0] ? row->reason : NULL};
    if (!put.stillborn) {
        put.scope = number_at(row, SCOPE);
        put.generation = number_at(row, GENERATION);
    }
    lw__index_lock(index);
    int rc = is_lost ? LW_ENOMEM : put_one_locked(row, &put);
    lw__index_unlock(index);
    if (rc != LW_OK && put.spec)
        lw__free(&row->sqlite->allocator, put.spec, put.spec->size);
    return rc;
}

/* ---- all else ----------------------------------------------------------------------------- */

static lw_bytes bytes_of(const struct lw__outbox_row *row) {
    const void *data = sqlite3_column_blob(row->at, BYTES);
    return (lw_bytes){data, (size_t)sqlite3_column_bytes(row->at, BYTES)};
}

/* When the row was written, on the clock: in time or not, whenever it is looked at. */
static uint64_t written_at(const struct lw__outbox_row *row, const struct lw__task *task) {
    uint64_t at = lw__sqlite_clock_ns(row->sqlite, sqlite3_column_int64(row->at, CREATED));
    uint64_t since = lw__see(&task->started_at);
    at = at < since ? since : at;
    return at < row->now ? at : row->now;
}

/* Nobody else will say what became of the attempt: it is settled. A task of a scope is finished by
 * the next attempt, which finds that it is done. */
static int finish_leased_locked(const struct lw__outbox_row *row, struct lw__task *task) {
    struct lw__index *index = row->sqlite->index;
    bool is_scoped = lw__task_flags(task) & LW__TASK_SCOPED;
    struct lw__settlement s = {.is_leased = true,
                               .id = task->id,
                               .token = number_at(row, TOKEN),
                               .verdict = LW__VERDICT_FINISH,
                               .has_result = has(row, BYTES),
                               .result = bytes_of(row)};
    uint8_t was_done = task->notes & LW__NOTE_DONE;
    task->notes |= LW__NOTE_DONE;
    lw__index_settle_locked(index, written_at(row, task), &s, 1);
    if (s.status < 0)
        task->notes = (uint8_t)((task->notes & ~LW__NOTE_DONE) | was_done);
    return s.status == LW_OK && is_scoped ? LW_PENDING : s.status;
}

/* An attempt of this process settles itself, and then finishes the task, however it ends. */
static int finish_running_locked(const struct lw__outbox_row *row, struct lw__task *task) {
    struct lw__index *index = row->sqlite->index;
    struct lw__output *old = lw__see(&task->output), *output = NULL;
    if (has(row, BYTES))
        output = lw__output_make(&index->allocator, old, NULL, true, bytes_of(row));
    if (has(row, BYTES) && !output)
        return LW_ENOMEM;
    if (output) {
        lw__task_lock(task);
        lw__put(&task->output, output);
        lw__task_unlock(task);
        lw__index_retire_block_locked(index, old, old ? old->size : 0);
    }
    task->notes |= LW__NOTE_DONE;
    return LW_PENDING;
}

/* A row stays until the journal has what follows from it: then the turn that deletes it writes
 * that, or one before has. */
static int stay_until_noted_locked(const struct lw__index *index, uint64_t id) {
    return lw__index_is_noted_locked(index, id) ? LW_OK : LW_PENDING;
}

static int stay_until_noted(struct lw__index *index, uint64_t id) {
    lw__index_lock(index);
    int rc = stay_until_noted_locked(index, id);
    lw__index_unlock(index);
    return rc;
}

static int finish(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__index *index = row->sqlite->index;
    int rc;
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    if (!task || lw_state_is_terminal(lw__task_state(task)))
        rc = stay_until_noted_locked(index, id);
    else if (lw__lease_find(index, id))
        rc = finish_leased_locked(row, task);
    else if (task->notes & LW__NOTE_DONE) /* since it was opened, perhaps */
        rc = LW_PENDING;
    else if (lw__task_state(task) != LW_STARTED || lw__see(&task->token) != number_at(row, TOKEN))
        rc = LW_ELEASE;
    else
        rc = finish_running_locked(row, task);
    lw__index_unlock(index);
    return rc;
}

static int save(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__store *store = &row->sqlite->index->store;
    struct lw__publication publication = {.has_checkpoint = true, .checkpoint = bytes_of(row)};
    if (publication.checkpoint.size > LW_CHECKPOINT_MAX)
        return LW_EINVAL;
    int rc = lw__index_publish_by_id(store, row->now, id, number_at(row, TOKEN), &publication);
    if (rc == LW_ENOTFOUND) /* nobody needs it, once the end is written */
        return stay_until_noted(store->index, id);
    return rc == LW_PENDING ? LW_OK : rc; /* it is being cancelled: all is well */
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
    lw__index_lock(index);
    bool is_here = lw__ids_find(&index->ids, id) != NULL;
    lw__index_unlock(index);
    bool is_there = !is_here && find_submit(row, id, &s);
    sqlite3_reset(s);
    return is_there;
}

/* A task that is in the outbox itself: it need not find room first. */
static int cancel_submit(const struct lw__outbox_row *row, uint64_t id) {
    struct lw__outbox_row found = {.sqlite = row->sqlite, .now = row->now};
    if (!find_submit(row, id, &found.at)) {
        sqlite3_reset(found.at);
        return LW_OK;
    }
    int rc = lw__outbox_row_meet(&found);
    if (rc == LW_EFULL) { /* of names: both rows wait until there are fewer */
        sqlite3_reset(found.at);
        return LW_PENDING;
    }
    if (rc == LW_OK && !found.reason[0]) {
        found.is_cancelled = true;
        snprintf(found.reason, sizeof found.reason, "cancelled");
    }
    if (rc == LW_OK)
        rc = lw__outbox_row_put(&found);
    if (rc != LW_ESTOPPING && rc != LW_ENOMEM)
        lw__outbox_row_take(&found, rc);
    sqlite3_reset(found.at);
    return rc == LW_ESTOPPING ? LW_PENDING : rc == LW_ENOMEM ? rc : LW_OK;
}

/* Finds it among the rows that were obeyed, and takes it out of them. */
static bool was_obeyed(struct lw__intake *intake, int64_t seq) {
    size_t i = 0;
    while (i < intake->obeyed_count && intake->obeyed[i] != seq)
        i++;
    if (i == intake->obeyed_count)
        return false;
    intake->obeyed[i] = intake->obeyed[--intake->obeyed_count];
    return true;
}

/* Once is enough: the task may be retried by hand before the row is gone. (If there are too many of
 * them, one is obeyed again.) */
static void note_obeyed(struct lw__intake *intake, int64_t seq) {
    if (intake->obeyed_count < LW__OBEYED_MAX)
        intake->obeyed[intake->obeyed_count++] = seq;
}

static int change(const struct lw__outbox_row *row, uint64_t id, enum lw__change change) {
    struct lw__index *index = row->sqlite->index;
    struct lw__intake *intake = &row->sqlite->intake;
    int64_t seq = lw__outbox_row_seq(row);
    if (is_on_its_way(row, id))
        return change == LW__CHANGE_CANCEL ? cancel_submit(row, id) : LW_PENDING;
    if (!was_obeyed(intake, seq)
        && lw__index_change(&index->store, row->now, id, change) == LW_ENOMEM)
        return LW_ENOMEM; /* all else as an operator, who asks what became of it */
    int rc = stay_until_noted(index, id);
    if (rc == LW_PENDING)
        note_obeyed(intake, seq);
    return rc;
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
