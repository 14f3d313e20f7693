/* From the journal to the file. The pump's thread only. */
#include "store/sqlite/write.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static sqlite3_stmt *statement(struct lw__sqlite *sqlite, enum lw__sql which) {
    return sqlite->file->statements[which];
}

static int run(struct lw__sqlite *sqlite, enum lw__sql which, lw_error *err) {
    return lw__sqlite_file_run(sqlite->file, which, LW__SQLITE_WRITING, err);
}

/* ---- texts that hold lists ---------------------------------------------------------------- */

/* Errors and dependencies as JSON, in SQLite's own memory, so that it can be bound without a
 * copy. */
static char *errors_as_json(struct lw__sqlite *sqlite, const struct lw__errors *errors) {
    sqlite3_str *json = sqlite3_str_new(NULL);
    for (uint32_t i = 0; i < errors->count; i++) {
        const struct lw__fault_entry *entry = &errors->entries[i];
        const char *text = (const char *)errors + entry->text_at;
        const char *fault = entry->fault ? lw_fault_name((lw_fault)entry->fault) : "aborted";
        sqlite3_str_appendf(json, "%s{\"at_ms\":%lld,\"attempt\":%u,\"fault\":\"%s\",\"text\":\"",
                            i ? "," : "[", (long long)lw__sqlite_wall_ms(sqlite, entry->at),
                            entry->attempt, fault);
        for (; *text; text++) {
            if (*text == '"' || *text == '\\')
                sqlite3_str_appendchar(json, 1, '\\');
            if ((unsigned char)*text < 0x20)
                sqlite3_str_appendf(json, "\\u%04x", (unsigned char)*text);
            else
                sqlite3_str_appendchar(json, 1, *text);
        }
        sqlite3_str_appendall(json, "\"");
        if (i == 0 && errors->retried_at > 0) /* the first is never dropped */
            sqlite3_str_appendf(json, ",\"retried_ms\":%lld",
                                (long long)lw__sqlite_wall_ms(sqlite, errors->retried_at));
        sqlite3_str_appendall(json, "}");
    }
    sqlite3_str_appendall(json, "]");
    return sqlite3_str_finish(json);
}

static void bind_errors(struct lw__sqlite *sqlite, sqlite3_stmt *s, int at,
                        const struct lw__errors *errors) {
    char *json = errors && errors->count > 0 ? errors_as_json(sqlite, errors) : NULL;
    if (json)
        sqlite3_bind_text(s, at, json, -1, sqlite3_free);
    else
        sqlite3_bind_null(s, at);
    lw__sqlite_bind_count(s, at + 1, errors ? errors->dropped : 0);
}

static void bind_after(sqlite3_stmt *s, int at, const struct lw__spec *spec) {
    if (!spec || spec->after_count == 0) {
        sqlite3_bind_null(s, at);
        sqlite3_bind_null(s, at + 1);
        return;
    }
    sqlite3_str *json = sqlite3_str_new(NULL);
    for (uint32_t i = 0; i < spec->after_count; i++)
        sqlite3_str_appendf(json, "%s%llu", i ? "," : "[", (unsigned long long)spec->after[i]);
    sqlite3_str_appendall(json, "]");
    sqlite3_bind_text(s, at, sqlite3_str_finish(json), -1, sqlite3_free);
    lw__sqlite_bind_text(s, at + 1, spec->after_policy == LW_AFTER_RUN ? "run" : "abort");
}

/* ---- entries ------------------------------------------------------------------------------ */

static void bind_key(struct lw__sqlite *sqlite, sqlite3_stmt *s, const struct lw__spec *spec) {
    static const char *const scopes[] = {NULL, "unfinished", "retained", "window"};
    bool has_key = spec && spec->key_size > 0;
    lw__sqlite_bind_text(s, 10, has_key ? lw__spec_key(spec) : NULL);
    lw__sqlite_bind_text(s, 11, has_key ? scopes[spec->key_scope] : NULL);
    lw__sqlite_bind_time(sqlite, s, 12,
                         has_key && spec->key_scope == LW_KEY_WINDOW ? spec->key_until : 0);
}

/* It may have been written before, by a turn of which nobody knew. */
static int run_put(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_TASK_PUT);
    int code = sqlite3_step(s);
    int rc = code == SQLITE_CONSTRAINT_PRIMARYKEY
                 ? LW_OK
                 : lw__sqlite_explain(sqlite->file->db, code, LW__SQLITE_WRITING, err);
    sqlite3_reset(s);
    return rc;
}

static int write_put(struct lw__sqlite *sqlite, const struct lw__journal_entry *entry,
                     lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_TASK_PUT);
    struct lw__task_view view;
    lw__task_view(entry->task, &view);
    const struct lw__spec *spec = view.spec;
    uint64_t now = lw__now(sqlite->index->options.clock);
    lw__sqlite_bind_row(sqlite, &(struct lw__sqlite_place){s, 1, LW__SQLITE_UNKNOWN}, &view,
                        lw__sqlite_row_state(&view, entry->is_held, now), view.due_at);
    bind_key(sqlite, s, spec);
    lw__sqlite_bind_count(s, 13, spec ? (uint64_t)spec->run_at_ms : 0);
    lw__sqlite_bind_time(sqlite, s, 14, spec ? spec->start_by : 0);
    lw__sqlite_bind_time(sqlite, s, 15, spec ? spec->finish_by : 0);
    bind_after(s, 16, spec);
    const struct lw__member *member = spec ? spec->member : NULL;
    lw__sqlite_bind_count(s, 18, member ? member->scope : 0);
    lw__sqlite_bind_count(s, 19, member ? member->generation : 0);
    lw__sqlite_bind_count(s, 20, entry->is_unclean);
    lw__sqlite_bind_count(s, 21, (view.flags & LW__TASK_RESERVED) != 0);
    return run_put(sqlite, err);
}

/* The lease under which somebody else runs the present attempt; NULL: it is this process. */
static const struct lw__lease *lease_of(struct lw__sqlite *sqlite,
                                        const struct lw__task_view *view) {
    const struct lw__lease *lease =
        view->state == LW_STARTED ? lw__lease_find(sqlite->index, view->id) : NULL;
    return lease && lease->token == view->token ? lease : NULL;
}

/* One that has ended meanwhile is told of by what comes later in this turn, or in the next. */
static int write_lease(struct lw__sqlite *sqlite, const struct lw__task *task, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_LEASE_PUT);
    struct lw__task_view view;
    lw__task_view(task, &view);
    const struct lw__lease *lease = lease_of(sqlite, &view);
    if (!lease)
        return LW_OK;
    int rc = lw__sqlite_remove_before(sqlite, LW__SQL_LEASE_DELETE, view.id, err);
    if (rc < 0)
        return rc;
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    sqlite3_bind_int64(s, 2, (int64_t)view.token);
    lw__sqlite_bind_text(s, 3, lease->holder);
    lw__sqlite_bind_time(sqlite, s, 4, view.started_at);
    lw__sqlite_bind_time(sqlite, s, 5, atomic_load(&lease->until));
    rc = run(sqlite, LW__SQL_LEASE_PUT, err);
    if (rc < 0)
        return rc;
    s = statement(sqlite, LW__SQL_TASK_LEASE);
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    sqlite3_bind_int64(s, 2, (int64_t)view.token);
    lw__sqlite_bind_time(sqlite, s, 3, view.started_at);
    sqlite3_bind_int64(s, 4, view.attempts);
    lw__sqlite_bind_count(s, 5, (view.flags & LW__TASK_CANCELLING) != 0);
    return run(sqlite, LW__SQL_TASK_LEASE, err);
}

static int write_change(struct lw__sqlite *sqlite, const struct lw__task *task, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_TASK_CHANGE);
    struct lw__task_view view;
    lw__task_view(task, &view);
    if (lw_state_is_terminal(view.state))
        return LW_OK; /* its end comes later in this turn, or in the next */
    bool is_leased = lease_of(sqlite, &view) != NULL;
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    lw__sqlite_bind_text(
        s, 2,
        is_leased ? "started"
                  : lw__sqlite_row_state(&view, true, lw__now(sqlite->index->options.clock)));
    lw__sqlite_bind_time(sqlite, s, 3, view.due_at);
    lw__sqlite_bind_time(sqlite, s, 4, view.started_at);
    sqlite3_bind_int64(s, 5, view.attempts - (view.state == LW_STARTED && !is_leased));
    sqlite3_bind_int64(s, 6, view.crashes);
    sqlite3_bind_int64(s, 7, view.snoozes);
    /* Tokens up to this one are over: not that of an attempt that runs here by now. */
    lw__sqlite_bind_count(s, 8, view.token - (view.state == LW_STARTED && !is_leased));
    bind_errors(sqlite, s, 9, view.errors);
    /* no more, if it was retried by hand */
    bool is_limited = view.spec && view.flags & LW__TASK_LIMITED;
    lw__sqlite_bind_time(sqlite, s, 11, is_limited ? view.spec->start_by : 0);
    lw__sqlite_bind_time(sqlite, s, 12, is_limited ? view.spec->finish_by : 0);
    lw__sqlite_bind_count(s, 13,
                          view.spec && view.spec->member ? view.spec->member->is_unclean : 0);
    lw__sqlite_bind_count(s, 14, (view.flags & LW__TASK_CANCELLING) != 0);
    return run(sqlite, LW__SQL_TASK_CHANGE, err);
}

static int write_end(struct lw__sqlite *sqlite, const struct lw__task *task, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_HISTORY_PUT);
    struct lw__task_view view;
    lw__task_view(task, &view);
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    lw__sqlite_bind_text(s, 2, lw_state_name(view.state));
    lw__sqlite_bind_time(sqlite, s, 3, view.enqueued_at ? view.enqueued_at : view.created_at);
    lw__sqlite_bind_end(sqlite, &(struct lw__sqlite_place){s, 4, LW__SQLITE_UNKNOWN}, &view);
    bind_errors(sqlite, s, 11, view.errors);
    int rc = run(sqlite, LW__SQL_HISTORY_PUT, err);
    return rc == LW_OK ? lw__sqlite_remove(sqlite, LW__SQL_TASK_DELETE, view.id, err) : rc;
}

/* What moves back must find its row gone from where it was, and from where it goes. */
static int write_revive(struct lw__sqlite *sqlite, const struct lw__task *task, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_HISTORY_REVIVE);
    struct lw__task_view view;
    lw__task_view(task, &view);
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    lw__sqlite_bind_time(sqlite, s, 2, view.due_at);
    lw__sqlite_bind_count(s, 3, (view.flags & LW__TASK_RESERVED) != 0);
    bind_errors(sqlite, s, 4, view.errors);
    int rc = lw__sqlite_remove_all(sqlite, err);
    if (rc == LW_OK)
        rc = run(sqlite, LW__SQL_HISTORY_REVIVE, err);
    if (rc == LW_OK)
        rc = lw__sqlite_remove(sqlite, LW__SQL_HISTORY_DELETE, view.id, err);
    return rc == LW_OK ? lw__sqlite_remove_all(sqlite, err) : rc;
}

static int write_publish(struct lw__sqlite *sqlite, const struct lw__task *task, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_TASK_PUBLISH);
    struct lw__task_view view;
    lw__task_view(task, &view);
    const struct lw__output *output = view.output;
    sqlite3_bind_int64(s, 1, (int64_t)view.id);
    sqlite3_bind_int64(s, 2, (int64_t)output->done);
    sqlite3_bind_int64(s, 3, (int64_t)output->total);
    lw__sqlite_bind_text(s, 4, output->bytes);
    lw__sqlite_bind_blob(s, 5, lw__output_partial(output), output->partial_size);
    if (output->has_checkpoint) /* of nothing, perhaps */
        sqlite3_bind_blob64(s, 6, lw__output_checkpoint(output), output->checkpoint_size,
                            SQLITE_STATIC);
    else
        sqlite3_bind_null(s, 6);
    return run(sqlite, LW__SQL_TASK_PUBLISH, err);
}

static int write_scope(struct lw__sqlite *sqlite, const struct lw__scope_image *image,
                       lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_SCOPE_PUT);
    sqlite3_bind_int64(s, 1, (int64_t)image->id);
    lw__sqlite_bind_text(s, 2, image->name);
    sqlite3_bind_int64(s, 3, (int64_t)image->generation);
    sqlite3_bind_int64(s, 4, (int64_t)image->version);
    sqlite3_bind_int(s, 5, image->is_closed);
    sqlite3_bind_int(s, 6, image->is_unclean);
    sqlite3_bind_int(s, 7, image->has_lost);
    lw__sqlite_bind_blob(s, 8, image->name + image->name_size + 1, image->byte_count);
    return run(sqlite, LW__SQL_SCOPE_PUT, err);
}

static int write_scope_leave(struct lw__sqlite *sqlite, uint64_t id, lw_error *err) {
    sqlite3_bind_int64(statement(sqlite, LW__SQL_SCOPE_DELETE), 1, (int64_t)id);
    return run(sqlite, LW__SQL_SCOPE_DELETE, err);
}

static int write_entry(struct lw__sqlite *sqlite, const struct lw__journal_entry *entry,
                       lw_error *err) {
    switch (entry->op) {
    case LW__JOURNAL_NONE: return LW_OK;
    case LW__JOURNAL_PUT:
    case LW__JOURNAL_THEN: return write_put(sqlite, entry, err);
    case LW__JOURNAL_CHANGE: return write_change(sqlite, entry->task, err);
    case LW__JOURNAL_END: return write_end(sqlite, entry->task, err);
    case LW__JOURNAL_REVIVE: return write_revive(sqlite, entry->task, err);
    case LW__JOURNAL_LEAVE:
        return lw__sqlite_remove(sqlite, LW__SQL_HISTORY_DELETE, entry->id, err);
    case LW__JOURNAL_VOID: return lw__sqlite_remove(sqlite, LW__SQL_TASK_DELETE, entry->id, err);
    case LW__JOURNAL_LEASE: return write_lease(sqlite, entry->task, err);
    case LW__JOURNAL_UNLEASE:
        return lw__sqlite_remove(sqlite, LW__SQL_LEASE_DELETE, entry->id, err);
    case LW__JOURNAL_PUBLISH: return write_publish(sqlite, entry->task, err);
    case LW__JOURNAL_SCOPE: return write_scope(sqlite, entry->image, err);
    case LW__JOURNAL_KIND: return lw__sqlite_write_retention(sqlite, entry->kind, err);
    case LW__JOURNAL_SCOPE_LEAVE: return write_scope_leave(sqlite, entry->id, err);
    }
    return LW_OK;
}

/* ---- their order -------------------------------------------------------------------------- */

enum { WINDOW = 256 };

/* Of a window of the journal what can be written in another order than it was noted: callers and
 * workers take turns there, and several workers end each its own tasks. Sorted, rows that are
 * neighbours in the file come together. A row is put before it ends, and ends before it leaves. */
enum group { PUTS, ENDS, REMOVALS, GROUP_COUNT, NO_GROUP = GROUP_COUNT };

struct window {
    size_t counts[GROUP_COUNT];
    const struct lw__journal_entry *entries[GROUP_COUNT][WINDOW];
};

static enum group group_of(enum lw__journal_op op) {
    switch (op) {
    case LW__JOURNAL_PUT:
    case LW__JOURNAL_THEN: return PUTS;
    case LW__JOURNAL_END: return ENDS;
    case LW__JOURNAL_LEAVE:
    case LW__JOURNAL_VOID:
    case LW__JOURNAL_UNLEASE: return REMOVALS;
    default: return NO_GROUP;
    }
}

static int compare_ids(const void *left, const void *right) {
    const struct lw__journal_entry *const *a = left, *const *b = right;
    return ((*a)->id > (*b)->id) - ((*a)->id < (*b)->id);
}

/* Mostly they are already. */
static void sort(const struct lw__journal_entry **entries, size_t count) {
    size_t i = 1;
    while (i < count && entries[i - 1]->id < entries[i]->id)
        i++;
    if (i < count)
        qsort(entries, count, sizeof *entries, compare_ids);
}

static int write_group(struct lw__sqlite *sqlite, const struct lw__journal_entry *const *entries,
                       size_t count, lw_error *err) {
    int rc = LW_OK;
    for (size_t i = 0, written; rc == LW_OK && i < count; i += written) {
        written = lw__sqlite_write_plain(sqlite, &entries[i], count - i, &rc, err);
        if (written == 0) {
            rc = write_entry(sqlite, entries[i], err);
            written = 1;
        }
    }
    return rc;
}

/* Whether one may end here that is put here: then its id is not below all that are put. */
static bool ends_own(const struct window *window) {
    size_t ends = window->counts[ENDS];
    uint64_t last = ends > 0 ? window->entries[ENDS][ends - 1]->id : 0;
    for (size_t i = 0; i < window->counts[PUTS]; i++) {
        if (window->entries[PUTS][i]->id <= last)
            return true;
    }
    return false;
}

/* Rows that end go first, so that pages which they leave are there for those that come: one that
 * becomes free SQLite would write as well. */
static int write_ends(struct lw__sqlite *sqlite, struct window *window, lw_error *err) {
    int rc = write_group(sqlite, window->entries[ENDS], window->counts[ENDS], err);
    if (rc == LW_OK && window->counts[PUTS] > 0)
        rc = lw__sqlite_remove_tasks(sqlite, err);
    window->counts[ENDS] = 0;
    return rc;
}

static int write_window(struct lw__sqlite *sqlite, struct window *window, lw_error *err) {
    int rc = LW_OK;
    sqlite->intake.has_ended |= window->counts[ENDS] > 0;
    sort(window->entries[ENDS], window->counts[ENDS]);
    if (!ends_own(window))
        rc = write_ends(sqlite, window, err);
    for (int group = 0; rc == LW_OK && group < GROUP_COUNT; group++) {
        rc = write_group(sqlite, window->entries[group], window->counts[group], err);
        window->counts[group] = 0;
    }
    return rc;
}

static int write_entries(void *db, const struct lw__journal_entry *entries, size_t count,
                         lw_error *err) {
    struct lw__sqlite *sqlite = db;
    struct window window;
    int rc = LW_OK;
    memset(window.counts, 0, sizeof window.counts);
    for (size_t i = 0; rc == LW_OK && i < count; i++) {
        enum group group = group_of(entries[i].op);
        if (group == NO_GROUP || window.counts[group] == WINDOW)
            rc = write_window(sqlite, &window, err);
        if (rc == LW_OK && group == NO_GROUP)
            rc = write_entry(sqlite, &entries[i], err);
        else if (rc == LW_OK)
            window.entries[group][window.counts[group]++] = &entries[i];
    }
    return rc == LW_OK ? write_window(sqlite, &window, err) : rc;
}

/* ---- transactions ------------------------------------------------------------------------- */

/* When the clock has been set, rows that are there already keep the times that they have. */
static void look_at_clock(struct lw__sqlite *sqlite) {
    int64_t offset_ms = lw__index_see_wall(sqlite->index);
    if (sqlite->offset_since > 0 && offset_ms == sqlite->offset_ms)
        return;
    sqlite->offset_ms = offset_ms;
    sqlite->offset_since = lw__now(sqlite->index->options.clock);
}

static void start(void *db, bool has_failed) {
    struct lw__sqlite *sqlite = db;
    sqlite->file->patience = (struct lw__sqlite_patience){
        .ms = has_failed ? LW__SQLITE_BUSY_MS - LW__PUMP_RETRY_MS_MAX : LW__SQLITE_BUSY_MS,
        .is_shared = true};
}

static int put_meta(struct lw__sqlite *sqlite, const char *name, uint64_t value, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_META_PUT);
    lw__sqlite_bind_text(s, 1, name);
    sqlite3_bind_int64(s, 2, (int64_t)value);
    return run(sqlite, LW__SQL_META_PUT, err);
}

/* ---- whose the file is -------------------------------------------------------------------- */

/* The lock on the -owner file keeps others out as long as that file is there. If somebody deletes
 * it, a second owner can come; so each owner writes a nonce into the file when it opens it, and
 * whoever finds another one than its own, in the transaction that it is about to write in, is not
 * the owner any more. What it has in memory is out of date from that moment on, for good. */

#define OWNER_KEY "owner_nonce"

static int refuse_ousted(const struct lw__sqlite *sqlite, lw_error *err) {
    char who[40] = "";
    int64_t pid = lw__sqlite_owner_find(sqlite->file->path);
    if (pid > 0)
        snprintf(who, sizeof who, " (process %lld)", (long long)pid);
    return lw__error_set(err, LW_ESYSTEM, ESTALE,
                         "another owner has taken the store%s: its -owner file was deleted, or its "
                         "tables were replaced; nothing is written or accepted here any more, "
                         "stop this process: %s",
                         who, sqlite->file->path);
}

int lw__sqlite_check_owner(struct lw__sqlite *sqlite, lw_error *err) {
    sqlite3_stmt *s = statement(sqlite, LW__SQL_META_GET);
    lw__sqlite_bind_text(s, 1, OWNER_KEY);
    int code = sqlite3_step(s);
    bool is_mine = code == SQLITE_ROW && sqlite3_column_int64(s, 0) == sqlite->nonce;
    int rc = lw__sqlite_explain(sqlite->file->db, code, "look whose the store is", err);
    sqlite3_reset(s);
    sqlite->is_ousted |= rc == LW_OK && !is_mine;
    return rc == LW_OK && !is_mine ? refuse_ousted(sqlite, err) : rc;
}

static int begin(void *db, lw_error *err) {
    struct lw__sqlite *sqlite = db;
    look_at_clock(db);
    if (sqlite->is_ousted)
        return refuse_ousted(sqlite, err);
    int rc = lw__sqlite_place_check(sqlite->file, err);
    if (rc == LW_OK)
        rc = run(db, LW__SQL_BEGIN, err);
    if (rc < 0)
        return rc;
    rc = lw__sqlite_check_owner(sqlite, err);
    if (rc < 0)
        run(db, LW__SQL_ROLLBACK, NULL);
    return rc;
}

/* Ends a transaction of its own: commits it, or nothing of it counts. */
static int end(struct lw__sqlite *sqlite, int rc, lw_error *err) {
    if (rc == LW_OK)
        rc = run(sqlite, LW__SQL_COMMIT, err);
    if (rc < 0 && !sqlite3_get_autocommit(sqlite->file->db))
        run(sqlite, LW__SQL_ROLLBACK, NULL);
    return rc;
}

int lw__sqlite_take_over(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__random random;
    int rc = lw__random_seed_from_system(&random, err);
    if (rc == LW_OK)
        rc = run(sqlite, LW__SQL_BEGIN, err);
    if (rc < 0)
        return rc;
    sqlite->nonce = (int64_t)(lw__random_next(&random) >> 1);
    rc = put_meta(sqlite, OWNER_KEY, (uint64_t)sqlite->nonce, err);
    return end(sqlite, rc, err);
}

/* ---- tokens ------------------------------------------------------------------------------- */

/* An attempt begins without a write: so tokens are set aside in the file before they are given,
 * more of them than tasks can be claimed between two commits. */
static int set_tokens_aside(struct lw__sqlite *sqlite, uint64_t last_token, lw_error *err) {
    uint64_t bound = last_token + LW_TASKS_MAX;
    if (sqlite->token_bound >= last_token + LW_TASKS_MAX / 2)
        return LW_OK;
    int rc = put_meta(sqlite, "last_token", bound, err);
    if (rc == LW_OK)
        sqlite->token_bound = bound;
    return rc;
}

int lw__sqlite_set_tokens_aside(struct lw__sqlite *sqlite, lw_error *err) {
    int rc = begin(sqlite, err);
    if (rc < 0)
        return rc;
    rc = put_meta(sqlite, "over_token", sqlite->index->last_token, err);
    if (rc == LW_OK)
        rc = set_tokens_aside(sqlite, sqlite->index->last_token, err);
    return end(sqlite, rc, err);
}

void lw__sqlite_note_close(struct lw__sqlite *sqlite) {
    struct lw__index *index = sqlite->index;
    start(sqlite, false);
    bool is_over =
        sqlite->pump.failures == 0 && index->journal->pending == 0 && index->claimed == 0;
    if (is_over && begin(sqlite, NULL) == LW_OK)
        end(sqlite, put_meta(sqlite, "over_token", index->last_token, NULL), NULL);
}

/* ---- the end of a turn -------------------------------------------------------------------- */

/* Whether a commit that failed has left nothing behind. SQLite rolls back whatever has failed; but
 * what it had written by then may be whole, and count after a crash. Only a write that found no
 * room has cut it short for sure. */
static bool is_undone(const struct lw__sqlite *sqlite, int code) {
    return !sqlite3_get_autocommit(sqlite->file->db) || (code & 0xff) == SQLITE_FULL;
}

static int doubt(struct lw__sqlite *sqlite, lw_error *err) {
    lw_error detail = *err;
    sqlite->is_unsure = true;
    return lw__error_set(err, LW_EUNSURE, detail.native, "%s", detail.message);
}

/* The counters go with what they have counted, so that no id is ever given twice. */
static int commit(void *db, lw_error *err) {
    struct lw__sqlite *sqlite = db;
    struct lw__sqlite_file *file = sqlite->file;
    struct lw__index *index = sqlite->index;
    lw__index_lock(index);
    uint64_t last_id = index->last_id, last_token = index->last_token;
    uint64_t last_scope = index->scopes.last_id, generation = index->scopes.last_generation;
    lw__index_unlock(index);
    int rc = lw__sqlite_remove_all(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_tidy(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_intake_write(sqlite, err);
    if (rc == LW_OK)
        rc = put_meta(sqlite, "last_id", last_id, err);
    if (rc == LW_OK)
        rc = lw__sqlite_identity_put_number(file, file->commit_number + 1, err);
    if (rc == LW_OK)
        rc = set_tokens_aside(sqlite, last_token, err);
    if (rc == LW_OK && generation != sqlite->last_generation) /* few have scopes at all */
        rc = put_meta(sqlite, "last_scope", last_scope, err);
    if (rc == LW_OK && generation != sqlite->last_generation)
        rc = put_meta(sqlite, "last_generation", generation, err);
    if (rc < 0)
        return rc;
    sqlite->file->log.is_committing = true;
    rc = run(sqlite, LW__SQL_COMMIT, err);
    sqlite->file->log.is_committing = false;
    if (rc < 0)
        return is_undone(sqlite, sqlite3_extended_errcode(sqlite->file->db)) ? rc
                                                                             : doubt(sqlite, err);
    file->commit_number++;
    lw__sqlite_checkpoint_if_long(file);
    sqlite->intake.count = 0;
    sqlite->last_generation = generation;
    return LW_OK;
}

static void rollback(void *db) {
    struct lw__sqlite *sqlite = db;
    lw__sqlite_remove_none(sqlite);
    sqlite->token_bound = 0; /* perhaps not in the file: the next turn writes it anew */
    if (!sqlite3_get_autocommit(sqlite->file->db))
        run(sqlite, LW__SQL_ROLLBACK, NULL);
}

const struct lw__db_ops lw__sqlite_db_ops = {
    .start = start,
    .begin = begin,
    .write = write_entries,
    .commit = commit,
    .rollback = rollback,
    .recover = lw__sqlite_recover,
    .intake = lw__sqlite_intake,
    .watch = lw__sqlite_watch,
    .heed = lw__sqlite_heed,
};
