/* Rows of plain tasks, which most are: a kind, a queue and a payload. They are written with what is
 * not NULL in them, and a row of the history from memory instead of from the row before it.
 *
 * Those that follow each other in the journal go into one statement of several rows (measured: a
 * row of a task takes 6,600 instructions of SQLite instead of 9,300). */
#include "store/sqlite/write.h"

enum { ROWS = LW__SQLITE_ROWS }; /* of task_put_many.sql and history_put_many.sql */

/* ---- one row ------------------------------------------------------------------------------ */

static bool is_plain(const struct lw__task *task, const struct lw__task_view *view) {
    return !(view->flags & LW__TASK_RESERVED)
           && (view->spec ? lw__lean_can_go(view->spec) : !lw__task_is_lean(task));
}

/* Whether it has said something while it ran. */
static bool has_published(const struct lw__output *output) {
    return output
           && (output->done || output->total || output->text_size || output->partial_size
               || output->has_checkpoint);
}

/* Whether all that its row has is known without a look: also, by now, its time of creation. */
static bool is_row_known(const struct lw__sqlite *sqlite, const struct lw__task *task,
                         const struct lw__task_view *view) {
    return is_plain(task, view) && view->created_at > sqlite->offset_since && !view->errors
           && !has_published(view->output);
}

/* ---- puts and ends ------------------------------------------------------------------------ */

/* A plain entry, and the task as it was when it was looked at. */
struct row {
    const struct lw__journal_entry *entry;
    struct lw__task_view view;
};

struct form {
    enum lw__sql one, many;
    int parameters; /* of a row */
    void (*bind)(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                 const struct row *row);
};

static void bind_put(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                     const struct row *row) {
    uint64_t now = lw__now(sqlite->index->options.clock);
    const char *state = lw__sqlite_row_state(&row->view, row->entry->is_held, now);
    lw__sqlite_bind_row(sqlite, place, &row->view, state, row->view.due_at);
}

static void bind_end(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                     const struct row *row) {
    const struct lw__task_view *view = &row->view;
    struct lw__sqlite_place end = {place->s, place->at + LW__SQLITE_ROW_PARAMETERS, place->bound};
    lw__sqlite_bind_row(sqlite, place, view, lw_state_name(view->state),
                        view->enqueued_at ? view->enqueued_at : view->created_at);
    lw__sqlite_bind_end(sqlite, &end, view);
}

static const struct form put_form = {LW__SQL_TASK_PUT_PLAIN, LW__SQL_TASK_PUT_MANY,
                                     LW__SQLITE_ROW_PARAMETERS, bind_put};
static const struct form end_form = {LW__SQL_HISTORY_PUT_PLAIN, LW__SQL_HISTORY_PUT_MANY,
                                     LW__SQLITE_ROW_PARAMETERS + LW__SQLITE_END_PARAMETERS,
                                     bind_end};

static const struct form *form_of(const struct lw__journal_entry *entry) {
    if (entry->op == LW__JOURNAL_PUT || entry->op == LW__JOURNAL_THEN)
        return &put_form;
    return entry->op == LW__JOURNAL_END ? &end_form : NULL;
}

static bool view_row(const struct lw__sqlite *sqlite, const struct form *form,
                     const struct lw__journal_entry *entry, struct row *row) {
    if (form_of(entry) != form)
        return false;
    row->entry = entry;
    lw__task_view(entry->task, &row->view);
    return form == &put_form ? is_plain(entry->task, &row->view)
                             : is_row_known(sqlite, entry->task, &row->view);
}

/* ---- statements --------------------------------------------------------------------------- */

static int step(struct lw__sqlite *sqlite, sqlite3_stmt *s, bool *is_there, lw_error *err) {
    int code = sqlite3_step(s);
    *is_there = code == SQLITE_CONSTRAINT_PRIMARYKEY;
    int rc =
        *is_there ? LW_OK : lw__sqlite_explain(sqlite->file->db, code, LW__SQLITE_WRITING, err);
    sqlite3_reset(s);
    return rc;
}

static struct lw__sqlite_bounds *bounds_of(struct lw__sqlite *sqlite, const struct form *form) {
    return form == &put_form ? &sqlite->file->puts : &sqlite->file->ends;
}

/* A row may have been written before, by a turn of which nobody knew. */
static int write_each(struct lw__sqlite *sqlite, const struct form *form, const struct row *rows,
                      size_t count, lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[form->one];
    struct lw__sqlite_bound *bound = &bounds_of(sqlite, form)->one;
    bool is_there;
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && i < count; i++) {
        form->bind(sqlite, &(struct lw__sqlite_place){s, 1, bound}, &rows[i]);
        rc = step(sqlite, s, &is_there, err);
    }
    return rc;
}

/* If one of them is there already, those before it are now, too. */
static int write_many(struct lw__sqlite *sqlite, const struct form *form, const struct row *rows,
                      lw_error *err) {
    sqlite3_stmt *s = sqlite->file->statements[form->many];
    struct lw__sqlite_bounds *bounds = bounds_of(sqlite, form);
    bool is_there;
    for (int i = 0; i < ROWS; i++)
        form->bind(sqlite,
                   &(struct lw__sqlite_place){s, 1 + i * form->parameters, &bounds->many[i]},
                   &rows[i]);
    int rc = step(sqlite, s, &is_there, err);
    return is_there ? write_each(sqlite, form, rows, ROWS, err) : rc;
}

static int remove_each(struct lw__sqlite *sqlite, const struct row *rows, size_t count,
                       lw_error *err) {
    int rc = LW_OK;
    for (size_t i = 0; rc == LW_OK && i < count; i++)
        rc = lw__sqlite_remove(sqlite, LW__SQL_TASK_DELETE, rows[i].view.id, err);
    return rc;
}

size_t lw__sqlite_write_plain(struct lw__sqlite *sqlite,
                              const struct lw__journal_entry *const *entries, size_t count, int *rc,
                              lw_error *err) {
    struct row rows[ROWS];
    const struct form *form = form_of(entries[0]);
    size_t found = 0;
    while (form && found < ROWS && found < count
           && view_row(sqlite, form, entries[found], &rows[found]))
        found++;
    if (found == 0)
        return 0;
    *rc = found == ROWS ? write_many(sqlite, form, rows, err)
                        : write_each(sqlite, form, rows, found, err);
    if (*rc == LW_OK && form == &end_form)
        *rc = remove_each(sqlite, rows, found, err);
    return found;
}
