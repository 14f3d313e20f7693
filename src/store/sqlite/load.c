/* From the file into the index, when a store is opened. */
#include "store/sqlite/sqlite.h"

#include "base/error.h"
#include "base/memory.h"

#include <legwork/lease.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOADING "read the store"

/* ---- time --------------------------------------------------------------------------------- */

/* What lies before the clock's beginning (LW__CLOCK_BASE before the boot) is its beginning. */
uint64_t lw__sqlite_clock_ns(const struct lw__sqlite *sqlite, int64_t wall_ms) {
    int64_t ms = wall_ms - atomic_load(&sqlite->index->wall_offset_ms);
    return ms > 0 ? (uint64_t)ms * LW__NS_PER_MS : 1;
}

/* ---- columns ------------------------------------------------------------------------------ */

/* The columns that both scans have, by name: their numbers differ. */
struct columns {
    int key, state, priority, created, due, started, ended, attempts, crashes, snoozes, token;
    int payload, value, result, errors, errors_dropped, run_at, start_by, finish_by, key_scope;
    int key_until, after_ids, after_policy, scope, generation, is_unclean, is_reserved;
    int done, total, text, partial, checkpoint;
    int payload_size, value_size; /* 0: these bytes are there for whoever asks */
};

#define IS_CANCELLING 32 /* of tasks that are not terminal */

static const struct columns task_columns = {
    .key = 3,
    .state = 4,
    .priority = 5,
    .created = 6,
    .due = 7,
    .started = 8,
    .ended = -1,
    .attempts = 9,
    .crashes = 10,
    .snoozes = 11,
    .token = 12,
    .payload = 13,
    .value = 14,
    .result = -1,
    .errors = 15,
    .errors_dropped = 16,
    .done = 17,
    .total = 18,
    .text = 19,
    .partial = 20,
    .run_at = 21,
    .start_by = 22,
    .finish_by = 23,
    .key_scope = 24,
    .key_until = 25,
    .after_ids = 26,
    .after_policy = 27,
    .scope = 28,
    .generation = 29,
    .is_unclean = 30,
    .is_reserved = 31,
    .checkpoint = 33,
    .payload_size = 34,
    .value_size = 35,
};

static const struct columns history_columns = {
    .key = 3,
    .state = 4,
    .priority = 5,
    .created = 6,
    .due = 7,
    .started = 8,
    .ended = 9,
    .attempts = 10,
    .crashes = 11,
    .snoozes = 12,
    .token = 13,
    .payload = 14,
    .value = 15,
    .result = 16,
    .errors = 17,
    .errors_dropped = 18,
    .done = 19,
    .total = 20,
    .text = 21,
    .partial = 22,
    .run_at = 23,
    .start_by = -1,
    .finish_by = -1,
    .key_scope = 24,
    .key_until = 25,
    .after_ids = 26,
    .after_policy = 27,
    .scope = 28,
    .generation = 29,
    .is_unclean = 30,
    .is_reserved = 31,
    .checkpoint = 32,
    .payload_size = 33,
    .value_size = 34,
};

/* Of the outbox; what is not here is not asked for. */
static const struct columns outbox_columns = {
    .key = 7,
    .payload = 8,
    .value = 9,
    .run_at = 12,
    .start_by = 13,
    .finish_by = 14,
    .key_scope = 15,
    .key_until = 16,
    .after_ids = 17,
    .after_policy = 18,
    .scope = 19,
    .created = 22,
    .started = -1,
};

struct loader {
    struct lw__sqlite *sqlite;
    sqlite3_stmt *row;
    const struct columns *at;
    uint64_t now;
};

static bool has(const struct loader *l, int column) {
    return column >= 0 && sqlite3_column_type(l->row, column) != SQLITE_NULL;
}

static uint64_t time_at(const struct loader *l, int column, uint64_t none) {
    return has(l, column) ? lw__sqlite_clock_ns(l->sqlite, sqlite3_column_int64(l->row, column))
                          : none;
}

/* Something that has happened. If the wall clock was set back since, it was just now. */
static uint64_t past(const struct loader *l, uint64_t at) {
    return at < l->now ? at : l->now;
}

static uint64_t past_at(const struct loader *l, int column, uint64_t none) {
    return past(l, time_at(l, column, none));
}

/* The last that is known to have happened before `due` was written. What shows a later time was
 * written before the wall clock was set back: 0, if there is nothing else. */
static uint64_t last_event(const struct loader *l, const struct lw__errors *errors, uint64_t due) {
    uint64_t last = time_at(l, has(l, l->at->started) ? l->at->started : l->at->created, 0);
    uint64_t erred = errors && errors->count > 0 ? errors->entries[errors->count - 1].at : 0;
    last = erred > last && erred <= due ? erred : last;
    return last <= due ? last : 0;
}

/* Something to come, that was written after `since`: if the wall clock was set back meanwhile, it
 * is no further off than it was then. */
static uint64_t future(const struct loader *l, uint64_t at, uint64_t since) {
    return at > l->now && at - since < at - l->now ? l->now + (at - since) : at;
}

/* What could run then can run, whatever the wall clock shows now. A wall time that was asked for is
 * one, until it has run. */
static uint64_t due_at(const struct loader *l, const struct lw__restored *r) {
    bool is_wall = r->token == 0 && has(l, l->at->run_at);
    uint64_t due = time_at(l, l->at->due, 1);
    return r->state == LW_ENQUEUED ? past(l, due)
           : is_wall               ? due
                                   : future(l, due, last_event(l, r->errors, due));
}

/* A deadline, or the end of a window, was written to come so long after the last that is known to
 * have happened: if the wall clock was set back since, it comes no later than that from now on. If
 * it was set forward, that is as if nobody had run meanwhile. */
static uint64_t limit(const struct loader *l, const struct lw__errors *errors, uint64_t at) {
    return at == 0 || at == LW__NEVER ? at : future(l, at, last_event(l, errors, at));
}

static void limit_spec(const struct loader *l, struct lw__spec *spec,
                       const struct lw__errors *errors) {
    spec->start_by = limit(l, errors, spec->start_by);
    spec->finish_by = limit(l, errors, spec->finish_by);
    spec->key_until = limit(l, errors, spec->key_until);
}

static lw_bytes bytes_at(const struct loader *l, int column) {
    if (!has(l, column))
        return (lw_bytes){NULL, 0};
    return (lw_bytes){sqlite3_column_blob(l->row, column),
                      (size_t)sqlite3_column_bytes(l->row, column)};
}

static const char *text_at(const struct loader *l, int column) {
    return has(l, column) ? (const char *)sqlite3_column_text(l->row, column) : NULL;
}

lw_state lw__sqlite_state_named(const char *name) {
    for (int state = LW_CREATED; state <= LW_ABORTED; state++) {
        if (strcmp(lw_state_name((lw_state)state), name) == 0)
            return (lw_state)state;
    }
    return LW_ENQUEUED;
}

/* ---- blocks ------------------------------------------------------------------------------- */

static lw_key_scope scope_named(const char *name) {
    return !name                           ? LW_KEY_UNFINISHED
           : strcmp(name, "retained") == 0 ? LW_KEY_RETAINED
           : strcmp(name, "window") == 0   ? LW_KEY_WINDOW
                                           : LW_KEY_UNFINISHED;
}

/* The ids of a JSON array of numbers, which this library has written. */
static uint32_t parse_ids(const char *json, uint64_t *ids) {
    uint32_t count = 0;
    char *end;
    for (const char *at = json ? json : ""; *at && count < LW_AFTER_MAX; at = end) {
        while (*at && (*at < '0' || *at > '9'))
            at++;
        if (!*at)
            break;
        ids[count++] = strtoull(at, &end, 10);
    }
    return count;
}

static void fill_bytes(struct lw__spec *spec, const char *key, lw_bytes value, lw_bytes payload) {
    char *at = (char *)&spec->after[spec->after_count];
    if (key)
        memcpy(at, key, spec->key_size);
    at[spec->key_size] = 0;
    if (value.size > 0)
        memcpy((char *)lw__spec_value(spec), value.data, value.size);
    at = (char *)lw__spec_payload(spec);
    if (payload.size > 0)
        memcpy(at, payload.data, payload.size);
    at[payload.size] = 0;
}

/* NULL and *is_lost: no memory. */
static struct lw__spec *load_spec(const struct loader *l, bool *is_lost) {
    uint64_t after[LW_AFTER_MAX];
    uint32_t after_count = parse_ids(text_at(l, l->at->after_ids), after);
    const char *key = text_at(l, l->at->key), *policy = text_at(l, l->at->after_policy);
    lw_bytes payload = bytes_at(l, l->at->payload), value = bytes_at(l, l->at->value);
    if (!key && payload.size == 0 && value.size == 0 && after_count == 0 && !has(l, l->at->run_at)
        && !has(l, l->at->start_by) && !has(l, l->at->finish_by) && !has(l, l->at->scope))
        return NULL;
    size_t key_size = key ? strlen(key) : 0;
    size_t size = lw__spec_size(after_count, key_size, value.size, payload.size);
    struct lw__spec *spec = lw__alloc_zero(&l->sqlite->allocator, size);
    *is_lost = !spec;
    if (!spec)
        return NULL;
    spec->size = size;
    spec->start_by = time_at(l, l->at->start_by, LW__NEVER);
    spec->finish_by = time_at(l, l->at->finish_by, LW__NEVER);
    spec->run_at_ms = has(l, l->at->run_at) ? sqlite3_column_int64(l->row, l->at->run_at) : 0;
    spec->key_scope = scope_named(text_at(l, l->at->key_scope));
    spec->key_until = time_at(l, l->at->key_until, 0);
    spec->after_policy = policy && strcmp(policy, "run") == 0 ? LW_AFTER_RUN : LW_AFTER_ABORT;
    spec->after_count = after_count;
    spec->key_size = (uint32_t)key_size;
    spec->value_size = (uint32_t)value.size;
    spec->payload_size = (uint32_t)payload.size;
    memcpy(spec->after, after, after_count * sizeof *after);
    fill_bytes(spec, key, value, payload);
    return spec;
}

struct lw__spec *lw__sqlite_outbox_spec(struct lw__sqlite *sqlite, sqlite3_stmt *row,
                                        bool *is_lost) {
    struct loader l = {.sqlite = sqlite,
                       .row = row,
                       .at = &outbox_columns,
                       .now = lw__now(sqlite->index->options.clock)};
    struct lw__spec *spec = load_spec(&l, is_lost);
    if (spec)
        limit_spec(&l, spec, NULL);
    return spec;
}

static struct lw__output *load_output(const struct loader *l, bool *is_lost) {
    lw_bytes result = bytes_at(l, l->at->result), partial = bytes_at(l, l->at->partial);
    bool has_result = has(l, l->at->result), has_partial = has(l, l->at->partial);
    bool has_checkpoint = has(l, l->at->checkpoint);
    if (!has_result && !has_partial && !has_checkpoint && !has(l, l->at->done))
        return NULL;
    struct lw__publication publication = {.has_progress = has(l, l->at->done),
                                          .has_partial = has_partial,
                                          .has_checkpoint = has_checkpoint,
                                          .partial = partial,
                                          .checkpoint = bytes_at(l, l->at->checkpoint),
                                          .text = text_at(l, l->at->text)};
    if (publication.has_progress) {
        publication.done = (uint64_t)sqlite3_column_int64(l->row, l->at->done);
        publication.total = (uint64_t)sqlite3_column_int64(l->row, l->at->total);
    }
    struct lw__output *output =
        lw__output_make(&l->sqlite->allocator, NULL, &publication, has_result, result);
    *is_lost = *is_lost || !output;
    return output;
}

/* SQLite reads the JSON that it keeps. */
static struct lw__errors *load_errors(const struct loader *l, bool *is_lost) {
    static const char sql[] = "SELECT value ->> 'at_ms', value ->> 'attempt', value ->> 'fault',"
                              " value ->> 'text', value ->> 'retried_ms' FROM json_each(?1)";
    const char *json = text_at(l, l->at->errors);
    sqlite3_stmt *s = NULL;
    struct lw__errors *errors = NULL;
    if (!json || sqlite3_prepare_v2(l->sqlite->file->db, sql, -1, &s, NULL) != SQLITE_OK)
        return NULL;
    sqlite3_bind_text(s, 1, json, -1, SQLITE_STATIC);
    while (sqlite3_step(s) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 2);
        const char *text = (const char *)sqlite3_column_text(s, 3);
        uint32_t fault = 0;
        for (uint32_t f = LW_FAULT_ERROR; name && f <= LW_FAULT_CRASH; f++)
            fault = strcmp(lw_fault_name((lw_fault)f), name) == 0 ? f : fault;
        struct lw__errors *more =
            lw__errors_add(&l->sqlite->allocator, errors,
                           lw__sqlite_clock_ns(l->sqlite, sqlite3_column_int64(s, 0)),
                           (uint32_t)sqlite3_column_int(s, 1), fault, text ? text : "");
        *is_lost = *is_lost || !more;
        if (errors)
            lw__free(&l->sqlite->allocator, errors, errors->size);
        errors = more;
        if (errors && sqlite3_column_type(s, 4) != SQLITE_NULL)
            errors->retried_at =
                past(l, lw__sqlite_clock_ns(l->sqlite, sqlite3_column_int64(s, 4)));
    }
    sqlite3_finalize(s);
    if (errors && has(l, l->at->errors_dropped))
        errors->dropped = (uint32_t)sqlite3_column_int(l->row, l->at->errors_dropped);
    return errors;
}

/* ---- rows --------------------------------------------------------------------------------- */

static void drop_blocks(const struct loader *l, const struct lw__restored *r) {
    const lw_allocator *allocator = &l->sqlite->allocator;
    if (r->spec)
        lw__free(allocator, r->spec, r->spec->size);
    if (r->errors)
        lw__free(allocator, r->errors, r->errors->size);
    if (r->output)
        lw__free(allocator, r->output, r->output->size);
}

static uint64_t lease_end(const struct loader *l, int64_t until_ms, int64_t started_ms) {
    uint64_t started = lw__sqlite_clock_ns(l->sqlite, started_ms);
    uint64_t until = future(l, lw__sqlite_clock_ns(l->sqlite, until_ms), started);
    uint64_t longest = l->now + LW_LEASE_MS_MAX * LW__NS_PER_MS;
    return until < longest ? until : longest;
}

/* Who has a task that is started. Without a lease it is nobody's: its claim was never answered. */
static void load_lease(const struct loader *l, struct lw__restored *r, char *holder, size_t size) {
    sqlite3_stmt *s = l->sqlite->file->statements[LW__SQL_LEASE_GET];
    if (r->state != LW_STARTED)
        return;
    sqlite3_bind_int64(s, 1, (int64_t)r->id);
    sqlite3_bind_int64(s, 2, (int64_t)r->token);
    if (sqlite3_step(s) == SQLITE_ROW) {
        snprintf(holder, size, "%s", (const char *)sqlite3_column_text(s, 0));
        r->holder = holder;
        r->lease_until = lease_end(l, sqlite3_column_int64(s, 1), sqlite3_column_int64(s, 2));
        r->is_cancelling = has(l, IS_CANCELLING);
    } else {
        r->state = LW_ENQUEUED;
    }
    sqlite3_reset(s);
}

static int read_row(const struct loader *l, struct lw__restored *r) {
    struct lw__store *store = &l->sqlite->index->store;
    bool is_lost = false;
    lw_state state = lw__sqlite_state_named(text_at(l, l->at->state));
    *r = (struct lw__restored){
        .id = (uint64_t)sqlite3_column_int64(l->row, 0),
        .state = state,
        .priority = (uint32_t)sqlite3_column_int64(l->row, l->at->priority),
        .created_at = past_at(l, l->at->created, 1),
        .started_at = past_at(l, l->at->started, 0),
        .ended_at = past_at(l, l->at->ended, 1),
        .attempts = (uint32_t)sqlite3_column_int64(l->row, l->at->attempts),
        .crashes = (uint16_t)sqlite3_column_int64(l->row, l->at->crashes),
        .snoozes = (uint16_t)sqlite3_column_int64(l->row, l->at->snoozes),
        .token = has(l, l->at->token) ? (uint64_t)sqlite3_column_int64(l->row, l->at->token) : 0,
        .is_reserved = has(l, l->at->is_reserved),
        .scope = (uint64_t)sqlite3_column_int64(l->row, l->at->scope),
        .generation = (uint64_t)sqlite3_column_int64(l->row, l->at->generation),
        .is_unclean = has(l, l->at->is_unclean),
    };
    int rc = lw__index_kind(store, text_at(l, 1), &r->kind);
    if (rc == LW_OK)
        rc = lw__index_queue(store, text_at(l, 2), &r->queue);
    if (rc < 0)
        return rc;
    r->spec = load_spec(l, &is_lost);
    r->payload_size = (uint32_t)sqlite3_column_int64(l->row, l->at->payload_size);
    r->is_lean = !r->spec && (r->payload_size > 0 || has(l, l->at->value_size));
    r->errors = load_errors(l, &is_lost);
    if (r->spec)
        limit_spec(l, r->spec, r->errors);
    r->output = load_output(l, &is_lost);
    r->due_at = due_at(l, r);
    if (is_lost)
        drop_blocks(l, r);
    return is_lost ? LW_ENOMEM : LW_OK;
}

int lw__sqlite_read_copy(struct lw__sqlite *sqlite, sqlite3_stmt *row, struct lw__restored *r) {
    struct loader l = {.sqlite = sqlite,
                       .row = row,
                       .at = &history_columns,
                       .now = lw__now(sqlite->index->options.clock)};
    return read_row(&l, r);
}

static int load_row(const struct loader *l) {
    struct lw__restored r;
    char holder[LW_NAME_MAX + 1];
    int rc = read_row(l, &r);
    if (rc < 0)
        return rc;
    load_lease(l, &r, holder, sizeof holder);
    lw__index_lock(l->sqlite->index);
    rc = lw__index_restore_locked(l->sqlite->index, &r, l->now);
    lw__index_unlock(l->sqlite->index);
    return rc;
}

static int load_rows(struct lw__sqlite *sqlite, enum lw__sql which, const struct columns *columns,
                     lw_error *err) {
    sqlite3_stmt *row = sqlite->file->statements[which];
    struct loader l = {
        .sqlite = sqlite, .row = row, .at = columns, .now = lw__now(sqlite->index->options.clock)};
    int code, rc = LW_OK;
    sqlite3_bind_int64(row, 1, 0);
    while (rc == LW_OK && (code = sqlite3_step(row)) == SQLITE_ROW)
        rc = load_row(&l);
    if (rc < 0)
        lw__error_set(err, rc, 0, "cannot " LOADING ": %s", lw_status_text(rc));
    else if (code != SQLITE_DONE)
        rc = lw__sqlite_explain(sqlite->file->db, code, LOADING, err);
    sqlite3_reset(row);
    return rc;
}

/* ---- scopes ------------------------------------------------------------------------------- */

static int load_scope(struct lw__sqlite *sqlite, sqlite3_stmt *row) {
    const void *bytes = sqlite3_column_blob(row, 7), *name = sqlite3_column_text(row, 1);
    size_t name_size = (size_t)sqlite3_column_bytes(row, 1);
    size_t byte_count = (size_t)sqlite3_column_bytes(row, 7);
    size_t size = sizeof(struct lw__scope_image) + name_size + 1 + byte_count;
    struct lw__scope_image *image = lw__alloc_zero(&sqlite->allocator, size);
    if (!image)
        return LW_ENOMEM;
    image->id = (uint64_t)sqlite3_column_int64(row, 0);
    image->generation = (uint64_t)sqlite3_column_int64(row, 2);
    image->version = (uint64_t)sqlite3_column_int64(row, 3);
    image->is_closed = sqlite3_column_int(row, 4) != 0;
    image->is_unclean = sqlite3_column_int(row, 5) != 0;
    image->has_lost = sqlite3_column_int(row, 6) != 0;
    image->name_size = name_size;
    image->byte_count = byte_count;
    memcpy(image->name, name, name_size);
    if (byte_count > 0)
        memcpy(image->name + name_size + 1, bytes, byte_count);
    lw__index_lock(sqlite->index);
    int rc = lw__scope_restore_locked(sqlite->index, image);
    lw__index_unlock(sqlite->index);
    lw__free(&sqlite->allocator, image, size);
    return rc;
}

static int load_scopes(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *row = sqlite->file->statements[LW__SQL_SCOPE_SCAN];
    int code, rc = LW_OK;
    while (rc == LW_OK && (code = sqlite3_step(row)) == SQLITE_ROW)
        rc = load_scope(sqlite, row);
    if (rc < 0)
        lw__error_set(err, rc, 0, "cannot " LOADING ": %s", lw_status_text(rc));
    else if (code != SQLITE_DONE)
        rc = lw__sqlite_explain(sqlite->file->db, code, LOADING, err);
    sqlite3_reset(row);
    return rc;
}

/* ---- all ---------------------------------------------------------------------------------- */

static uint64_t get_meta(struct lw__sqlite *sqlite, const char *name) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_META_GET];
    sqlite3_bind_text(s, 1, name, -1, SQLITE_STATIC);
    uint64_t value = sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 0;
    sqlite3_reset(s);
    return value;
}

/* The first id of the outbox that is not here, nor has been. */
static uint64_t next_outside(struct lw__sqlite *sqlite) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_OUTBOX_NEXT];
    uint64_t seq = sqlite3_step(s) == SQLITE_ROW ? (uint64_t)sqlite3_column_int64(s, 0) : 1;
    sqlite3_reset(s);
    return LW__OUTSIDE_IDS + seq;
}

/* What was completed by a process that has died since. */
static int apply_outbox(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3 *db = sqlite->file->db;
    int rc = lw__sqlite_file_run(sqlite->file, LW__SQL_BEGIN, LOADING, err);
    if (rc < 0)
        return rc;
    rc = lw__sqlite_check_owner(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_explain(db, sqlite3_exec(db, lw__sql_outbox_apply, NULL, NULL, NULL),
                                LOADING, err);
    if (rc == LW_OK)
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_COMMIT, LOADING, err);
    if (rc < 0 && !sqlite3_get_autocommit(db))
        lw__sqlite_file_run(sqlite->file, LW__SQL_ROLLBACK, LOADING, NULL);
    return rc;
}

/* Tasks of scopes that were completed so: whoever claims them finishes them. */
static int mark_done(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__index *index = sqlite->index;
    sqlite3_stmt *row = sqlite->file->statements[LW__SQL_OUTBOX_FINISHED];
    int code;
    lw__index_lock(index);
    while ((code = sqlite3_step(row)) == SQLITE_ROW) {
        struct lw__task *task = lw__ids_find(&index->ids, (uint64_t)sqlite3_column_int64(row, 0));
        if (task)
            task->notes |= LW__NOTE_DONE;
    }
    lw__index_unlock(index);
    int rc = code == SQLITE_DONE ? LW_OK : lw__sqlite_explain(sqlite->file->db, code, LOADING, err);
    sqlite3_reset(row);
    return rc;
}

/* Terminal tasks first: others may come after them. */
int lw__sqlite_load(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__index *index = sqlite->index;
    int rc = apply_outbox(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_load_retention(sqlite, err);
    if (rc == LW_OK)
        rc = load_scopes(sqlite, err);
    if (rc == LW_OK)
        rc = load_rows(sqlite, LW__SQL_HISTORY_SCAN, &history_columns, err);
    if (rc == LW_OK)
        rc = load_rows(sqlite, LW__SQL_TASK_SCAN, &task_columns, err);
    if (rc == LW_OK)
        rc = mark_done(sqlite, err);
    lw__index_lock(index);
    lw__retained_sort_locked(index);
    lw__scopes_review_locked(index);
    lw__index_unlock(index);
    struct lw__scopes *scopes = &index->scopes;
    uint64_t last_scope = get_meta(sqlite, "last_scope");
    scopes->last_id = scopes->last_id > last_scope ? scopes->last_id : last_scope;
    scopes->last_generation = get_meta(sqlite, "last_generation");
    uint64_t last_id = get_meta(sqlite, "last_id"), last_token = get_meta(sqlite, "last_token");
    index->last_id = index->last_id > last_id ? index->last_id : last_id;
    index->last_token = last_token; /* more than were given: see set_tokens_aside in write.c */
    index->outside_from = next_outside(sqlite);
    return rc;
}
