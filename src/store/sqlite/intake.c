/* What other connections ask for: rows of the outbox become tasks of the index, and the turn that
 * writes these deletes the rows. The pump's thread only.
 *
 * What finds no room stays in the outbox, in order within its queue, until something has ended. A
 * row that no task can be made of (SQL from elsewhere is checked by the table, and here) is dropped
 * with a record in the log.
 *
 * A position that a handler has saved in its own transaction is published, as if by the handler.
 *
 * A completion by the handler's own transaction stays until its attempt is settled: it only sees to
 * it that this finishes the task. If the process dies before, the next open applies it.
 *
 * Who has written is found out by SQLite's data_version. When to look is told by inotify: other
 * processes write to the -wal file when they commit, and the descriptor of the database stays
 * SQLite's alone.
 */
#include "store/sqlite/sqlite.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <unistd.h>

#define FULL_QUEUES_MAX 64

/* Columns of outbox_scan.sql. Those of a spec are load.c's. */
enum column { SEQ, OP, TASK_ID, TOKEN, BYTES, KIND, QUEUE, KEY, PRIORITY = 10, DUE, RUN_AT };
enum { KEY_SCOPE = 15, KEY_UNTIL, SCOPE = 19, GENERATION };

struct scan {
    struct lw__sqlite *sqlite;
    sqlite3_stmt *row;
    uint64_t now;
    uint16_t full[FULL_QUEUES_MAX]; /* queues that others wait for already */
    size_t full_count;
};

static bool has(const struct scan *scan, int column) {
    return sqlite3_column_type(scan->row, column) != SQLITE_NULL;
}

static const char *text_at(const struct scan *scan, int column) {
    const void *text = sqlite3_column_text(scan->row, column);
    return text ? text : "";
}

/* The task that a row becomes. */
static uint64_t id_of(const struct scan *scan) {
    return LW__OUTSIDE_IDS + (uint64_t)sqlite3_column_int64(scan->row, SEQ);
}

static void drop(const struct scan *scan, const char *why) {
    lw__log(scan->sqlite->index->options.log, LW_LOG_ERROR, "outbox", "a row is dropped",
            LW__FIELD_TEXT("why", why), LW__FIELD_TEXT("op", text_at(scan, OP)),
            LW__FIELD_TEXT("kind", text_at(scan, KIND)), LW__FIELD_TEXT("key", text_at(scan, KEY)));
}

/* ---- submit ------------------------------------------------------------------------------- */

static uint64_t due_of(const struct scan *scan) {
    int column = has(scan, DUE) ? DUE : RUN_AT;
    return has(scan, column)
               ? lw__sqlite_clock_ns(scan->sqlite, sqlite3_column_int64(scan->row, column))
               : 0;
}

static int name_put(const struct scan *scan, struct lw__put *put) {
    struct lw__index *index = scan->sqlite->index;
    const char *kind = text_at(scan, KIND), *queue = text_at(scan, QUEUE);
    int rc = index->hooks.meet ? index->hooks.meet(index->hooks.user, kind, queue) : LW_OK;
    if (rc == LW_OK)
        rc = lw__index_kind(&index->store, kind, &put->kind);
    return rc == LW_OK ? lw__index_queue(&index->store, queue, &put->queue) : rc;
}

/* What the row does not say about its key its kind does. */
static void settle_key_locked(const struct scan *scan, const struct lw__put *put) {
    const struct lw__kind *kind = scan->sqlite->index->kinds[put->kind];
    struct lw__spec *spec = put->spec;
    if (!spec || spec->key_size == 0)
        return;
    if (!has(scan, KEY_SCOPE) && kind->key_scope)
        spec->key_scope = kind->key_scope;
    if (spec->key_scope == LW_KEY_WINDOW && !has(scan, KEY_UNTIL))
        spec->key_until = scan->now + kind->key_window_ns;
}

/* A task that was put before this one is not here: it has found no room. */
static bool is_on_its_way_locked(const struct scan *scan, uint64_t id) {
    return id >= LW__OUTSIDE_IDS && id < id_of(scan)
           && !lw__index_has_been_locked(scan->sqlite->index, id);
}

static bool must_stay_locked(const struct scan *scan, const struct lw__spec *spec) {
    for (uint32_t i = 0; spec && i < spec->after_count; i++) {
        if (is_on_its_way_locked(scan, spec->after[i]))
            return true;
    }
    return false;
}

/* Not of somebody who has numbered the rows himself, and used a number twice. */
static bool is_new_locked(const struct scan *scan, uint64_t id) {
    return id > LW__OUTSIDE_IDS && id <= LW__ID_MAX && !lw__ids_find(&scan->sqlite->index->ids, id);
}

static int put_one(const struct scan *scan, struct lw__put *put) {
    struct lw__index *index = scan->sqlite->index;
    int rc;
    lw__brief_lock(&index->mu);
    settle_key_locked(scan, put);
    if (index->restraints & LW__STORE_NO_PUT)
        rc = LW_ESTOPPING;
    else if (!is_new_locked(scan, put->outside_id))
        rc = LW_EINVAL;
    else if (must_stay_locked(scan, put->spec))
        rc = LW_PENDING;
    else
        rc = lw__index_put_locked(index, scan->now, put, 1);
    lw__brief_unlock(&index->mu);
    return rc != LW_OK ? rc : put->status;
}

static bool is_known_full(const struct scan *scan, uint16_t queue) {
    for (size_t i = 0; i < scan->full_count; i++) {
        if (scan->full[i] == queue)
            return true;
    }
    return false;
}

/* It is not taken back when the turn fails: nobody waits for it, and the row may be gone. */
static int take_submit(struct scan *scan) {
    struct lw__sqlite *sqlite = scan->sqlite;
    bool is_lost = false;
    struct lw__put put = {.priority = (uint32_t)sqlite3_column_int64(scan->row, PRIORITY),
                          .due = due_of(scan),
                          .is_successor = true,
                          .outside_id = id_of(scan),
                          .scope = (uint64_t)sqlite3_column_int64(scan->row, SCOPE),
                          .generation = (uint64_t)sqlite3_column_int64(scan->row, GENERATION)};
    int rc = name_put(scan, &put);
    if (rc == LW_OK && is_known_full(scan, put.queue))
        return LW_EFULL;
    if (rc == LW_OK) {
        put.spec = lw__sqlite_outbox_spec(sqlite, scan->row, &is_lost);
        rc = is_lost ? LW_ENOMEM : put_one(scan, &put);
    }
    if (rc != LW_OK && put.spec)
        lw__free(&sqlite->allocator, put.spec, put.spec->size);
    if (rc == LW_EFULL && scan->full_count < FULL_QUEUES_MAX)
        scan->full[scan->full_count++] = put.queue;
    return rc;
}

/* ---- all else ----------------------------------------------------------------------------- */

/* LW_PENDING: the row stays. */
static int take_finish(const struct scan *scan, uint64_t id) {
    struct lw__index *index = scan->sqlite->index;
    uint64_t token = (uint64_t)sqlite3_column_int64(scan->row, TOKEN);
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

static int take_checkpoint(const struct scan *scan, uint64_t id) {
    struct lw__store *store = &scan->sqlite->index->store;
    uint64_t token = (uint64_t)sqlite3_column_int64(scan->row, TOKEN);
    struct lw__publication publication = {
        .has_checkpoint = true,
        .checkpoint = {sqlite3_column_blob(scan->row, BYTES),
                       (size_t)sqlite3_column_bytes(scan->row, BYTES)}};
    if (publication.checkpoint.size > LW_CHECKPOINT_MAX)
        return LW_EINVAL;
    uint64_t now = lw__now(scan->sqlite->index->options.clock);
    int rc = lw__index_publish_by_id(store, now, id, token, &publication);
    return rc == LW_ENOTFOUND || rc == LW_PENDING ? LW_OK
                                                  : rc; /* nobody needs it, or all is well */
}

static int take_change(const struct scan *scan, uint64_t id, enum lw__change change) {
    struct lw__index *index = scan->sqlite->index;
    lw__brief_lock(&index->mu);
    bool must_stay = is_on_its_way_locked(scan, id);
    lw__brief_unlock(&index->mu);
    if (must_stay)
        return LW_PENDING;
    int rc = lw__index_change(&scan->sqlite->index->store, scan->now, id, change);
    return rc == LW_ENOMEM ? rc : LW_OK; /* as an operator, who asks what became of it */
}

static int take_row(struct scan *scan) {
    const char *op = text_at(scan, OP);
    uint64_t id = (uint64_t)sqlite3_column_int64(scan->row, TASK_ID);
    if (strcmp(op, "submit") == 0)
        return take_submit(scan);
    if (strcmp(op, "cancel") == 0)
        return take_change(scan, id, LW__CHANGE_CANCEL);
    if (strcmp(op, "retry") == 0)
        return take_change(scan, id, LW__CHANGE_RETRY);
    if (strcmp(op, "forget") == 0)
        return take_change(scan, id, LW__CHANGE_FORGET);
    if (strcmp(op, "finish") == 0)
        return take_finish(scan, id);
    if (strcmp(op, "checkpoint") == 0)
        return take_checkpoint(scan, id);
    return LW_EINVAL;
}

/* ---- all rows ----------------------------------------------------------------------------- */

/* LW_OK: go on; otherwise that is enough for now. */
static int follow(struct scan *scan, int rc) {
    struct lw__intake *intake = &scan->sqlite->intake;
    switch (rc) {
    case LW_EFULL:
    case LW_PENDING: intake->has_left = true; return LW_OK;
    case LW_ESTOPPING: intake->has_left = true; return rc;
    case LW_ENOMEM: intake->has_left = intake->has_ended = true; return rc;
    case LW_OK:
    case LW_EXISTS: break;
    default: drop(scan, lw_status_text(rc));
    }
    intake->taken[intake->count++] = sqlite3_column_int64(scan->row, SEQ);
    return LW_OK;
}

/* Up to the first row that stays, all are here or have been. */
static void note_progress(const struct scan *scan) {
    struct lw__index *index = scan->sqlite->index;
    if (scan->sqlite->intake.has_left)
        return;
    lw__brief_lock(&index->mu);
    index->outside_from = id_of(scan) + 1;
    lw__brief_unlock(&index->mu);
}

/* Returns how many are to be deleted, or what stood in the way. */
static int scan_rows(struct lw__sqlite *sqlite) {
    struct lw__intake *intake = &sqlite->intake;
    struct scan scan = {.sqlite = sqlite,
                        .row = sqlite->file->statements[LW__SQL_OUTBOX_SCAN],
                        .now = lw__now(sqlite->index->options.clock)};
    int code = SQLITE_DONE, rc = LW_OK, rows = 0;
    intake->has_left = intake->has_ended = false;
    sqlite3_bind_int(scan.row, 1, LW__INTAKE_MAX);
    while (rc == LW_OK && (code = sqlite3_step(scan.row)) == SQLITE_ROW) {
        rows++;
        rc = follow(&scan, take_row(&scan));
        note_progress(&scan);
    }
    bool is_more = rows == LW__INTAKE_MAX && intake->count > 0;
    if (is_more)
        intake->has_left = intake->has_ended = true; /* the next turn goes on */
    if (rc == LW_OK && code != SQLITE_DONE)
        rc = lw__sqlite_explain(sqlite->file->db, code, "read the outbox", NULL);
    sqlite3_reset(scan.row);
    return intake->count > 0 ? (int)intake->count : rc == LW_ESTOPPING ? 0 : rc;
}

/* ---- when to look ------------------------------------------------------------------------- */

/* Negative: it cannot be told. */
static int64_t data_version(struct lw__sqlite *sqlite) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_DATA_VERSION];
    int64_t version = sqlite3_step(s) == SQLITE_ROW ? sqlite3_column_int64(s, 0) : -1;
    sqlite3_reset(s);
    return version;
}

/* Whoever has begun to write holds the lock until its commit is seen by all. */
static int wait_for_writer(struct lw__sqlite *sqlite) {
    int rc = lw__sqlite_file_run(sqlite->file, LW__SQL_BEGIN, "look into the outbox", NULL);
    if (rc == LW_OK)
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_COMMIT, "look into the outbox", NULL);
    return rc;
}

int lw__sqlite_intake(void *db, bool is_sure) {
    struct lw__sqlite *sqlite = db;
    struct lw__intake *intake = &sqlite->intake;
    if (!atomic_load_explicit(&intake->is_open, memory_order_acquire))
        return 0;
    bool is_first = intake->version <= 0; /* what was heard of others before was not looked at */
    int rc = is_sure || is_first ? wait_for_writer(sqlite) : LW_OK;
    int64_t version = rc == LW_OK ? data_version(sqlite) : -1;
    if (version < 0)
        return LW_EBUSY;
    if (version == intake->version && !(intake->has_left && intake->has_ended))
        return 0;
    rc = scan_rows(sqlite);
    if (rc >= 0)
        intake->version = version;
    return rc;
}

int lw__sqlite_intake_write(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[LW__SQL_OUTBOX_DELETE];
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && i < sqlite->intake.count; i++) {
        sqlite3_bind_int64(s, 1, sqlite->intake.taken[i]);
        rc = lw__sqlite_file_run(sqlite->file, LW__SQL_OUTBOX_DELETE, "write to the store", err);
    }
    return rc;
}

/* ---- watching ----------------------------------------------------------------------------- */

/* The file is there as long as this process has the database open, but may be another one after a
 * re-open. */
int lw__sqlite_watch(void *db) {
    struct lw__sqlite *sqlite = db;
    struct lw__intake *intake = &sqlite->intake;
    char name[PATH_MAX];
    if (intake->is_watching)
        return intake->inotify;
    if (intake->inotify < 0)
        intake->inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    snprintf(name, sizeof name, "%.*s-wal", LW__SQLITE_PATH_MAX, sqlite->file->path);
    intake->is_watching =
        intake->inotify >= 0 && inotify_add_watch(intake->inotify, name, IN_MODIFY) >= 0;
    intake->is_new |= intake->is_watching;
    if (intake->is_watching)
        return intake->inotify;
    if (!intake->has_warned)
        lw__log(sqlite->index->options.log, LW_LOG_WARN, "outbox",
                "inotify is not to be had: looking from time to time",
                LW__FIELD_TEXT("why", strerrordesc_np(errno)));
    intake->has_warned = true;
    return -1;
}

bool lw__sqlite_heed(void *db) {
    struct lw__intake *intake = &((struct lw__sqlite *)db)->intake;
    _Alignas(struct inotify_event) char buffer[1024]; /* no names: many fit */
    bool has_heard = intake->is_new;
    intake->is_new = false;
    ssize_t size;
    while ((size = read(intake->inotify, buffer, sizeof buffer)) > 0) {
        has_heard = true;
        for (ssize_t at = 0; at < size;) {
            struct inotify_event event;
            memcpy(&event, buffer + at, sizeof event);
            if (event.mask & IN_IGNORED)
                intake->is_watching = false;
            at += (ssize_t)(sizeof event + event.len);
        }
    }
    return has_heard;
}

void lw__sqlite_intake_close(struct lw__sqlite *sqlite) {
    if (sqlite->intake.inotify >= 0)
        close(sqlite->intake.inotify);
}
