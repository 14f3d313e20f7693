/* From a task in memory to the parameters of its row. What is bound stays so when a statement is
 * reset, and most rows have most in common with the one that was there before: to bind that again
 * takes longer than to see that it is the same. */
#include "store/sqlite/write.h"

/* What this process runs is runnable again if it dies. Most that are created just wait for this
 * very write. One that has ended meanwhile gets a row for its end to find. */
const char *lw__sqlite_row_state(const struct lw__task_view *view, bool is_held, uint64_t now) {
    if (view->state == LW_SCHEDULED)
        return "scheduled";
    if (view->state != LW_CREATED)
        return "enqueued";
    return is_held ? "created" : view->due_at > now ? "scheduled" : "enqueued";
}

/* Of names that live as long as the store: one that has the same address is the same. */
static void keep_text(const struct lw__sqlite_place *place, int column, const char **bound,
                      const char *text) {
    if (*bound == text)
        return;
    lw__sqlite_bind_text(place->s, place->at + column, text);
    *bound = text;
}

static void keep_number(const struct lw__sqlite_place *place, int column, uint64_t *bound,
                        uint64_t number) {
    if (*bound == number + 1)
        return;
    sqlite3_bind_int64(place->s, place->at + column, (int64_t)number);
    *bound = number + 1;
}

static void bind_rare(const struct lw__sqlite_place *place, int column, bool *is_bound,
                      const void *data, size_t size) {
    sqlite3_bind_blob64(place->s, place->at + column, data, size, SQLITE_STATIC);
    *is_bound = true;
}

static void bind_none(const struct lw__sqlite_place *place, int column, bool *is_bound) {
    if (*is_bound)
        sqlite3_bind_null(place->s, place->at + column);
    *is_bound = false;
}

void lw__sqlite_bind_row(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                         const struct lw__task_view *view, const char *state, uint64_t due) {
    const struct lw__spec *spec = view->spec;
    struct lw__sqlite_bound *bound = place->bound;
    sqlite3_stmt *s = place->s;
    int at = place->at;
    sqlite3_bind_int64(s, at, (int64_t)view->id);
    keep_text(place, 1, &bound->kind, lw__index_kind_at(sqlite->index, view->kind)->name);
    keep_text(place, 2, &bound->queue, lw__index_queue_at(sqlite->index, view->queue)->name);
    keep_text(place, 3, &bound->state, state);
    keep_number(place, 4, &bound->priority, view->priority);
    lw__sqlite_bind_time(sqlite, s, at + 5, view->created_at);
    lw__sqlite_bind_time(sqlite, s, at + 6, due);
    lw__sqlite_bind_blob(s, at + 7, spec ? lw__spec_payload(spec) : NULL,
                         spec ? spec->payload_size : 0);
    if (spec && spec->value_size > 0)
        bind_rare(place, 8, &bound->has_value, lw__spec_value(spec), spec->value_size);
    else
        bind_none(place, 8, &bound->has_value);
}

void lw__sqlite_bind_end(const struct lw__sqlite *sqlite, const struct lw__sqlite_place *place,
                         const struct lw__task_view *view) {
    const struct lw__output *output = view->output;
    struct lw__sqlite_bound *bound = place->bound;
    lw__sqlite_bind_time(sqlite, place->s, place->at, view->started_at);
    lw__sqlite_bind_time(sqlite, place->s, place->at + 1, view->due_at);
    keep_number(place, 2, &bound->attempts, view->attempts);
    keep_number(place, 3, &bound->crashes, view->crashes);
    keep_number(place, 4, &bound->snoozes, view->snoozes);
    lw__sqlite_bind_count(place->s, place->at + 5, view->token);
    if (output && output->has_result) /* of nothing, perhaps */
        bind_rare(place, 6, &bound->has_result, lw__output_result(output), output->result_size);
    else
        bind_none(place, 6, &bound->has_result);
}
