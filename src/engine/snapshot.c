/* Snapshots: copies of a task for callers, made without holding anybody up.
 *
 * All that varies in size goes into one block, which the snapshot keeps for its next use: the
 * errors, then bytes on boundaries that any C type may have, then texts. What is copied from (spec,
 * errors, output) never changes once it is published and outlives the grace section, so that
 * measuring and copying see the same. */
#include "base/memory.h"
#include "engine/engine_internal.h"

#include <stdalign.h>
#include <string.h>

#define MEMORY_MIN 256

int64_t lw__engine_wall_ms(const lw_engine *engine, uint64_t at) {
    if (at == 0)
        return 0;
    return atomic_load_explicit(&engine->index->wall_offset_ms, memory_order_relaxed)
           + (int64_t)(at / LW__NS_PER_MS);
}

int64_t lw__engine_due_ms(const lw_engine *engine, uint64_t due) {
    return lw__engine_wall_ms(engine, due + LW__NS_PER_MS - 1);
}

/* ---- memory -------------------------------------------------------------------------------- */

void lw_snapshot_clear(lw_snapshot *snapshot) {
    if (!snapshot)
        return;
    lw__free(&snapshot->allocator, snapshot->memory, snapshot->memory_size);
    *snapshot = (lw_snapshot)LW_SNAPSHOT_INIT;
}

static bool is_same_allocator(const lw_allocator *a, const lw_allocator *b) {
    return a->resize == b->resize && a->user == b->user;
}

/* Room for so many bytes, of this allocator. On a failure the old block stays. */
static int reserve(lw_snapshot *snapshot, const lw_allocator *allocator, size_t size) {
    bool is_ours = snapshot->memory && is_same_allocator(&snapshot->allocator, allocator);
    if (is_ours && snapshot->memory_size >= size)
        return LW_OK;
    size_t wanted = size < MEMORY_MIN ? MEMORY_MIN : size + size / 4;
    void *memory = lw__alloc(allocator, wanted);
    if (!memory)
        return LW_ENOMEM;
    lw__free(&snapshot->allocator, snapshot->memory, snapshot->memory_size);
    snapshot->memory = memory;
    snapshot->memory_size = wanted;
    snapshot->allocator = *allocator;
    return LW_OK;
}

/* ---- measuring ----------------------------------------------------------------------------- */

static size_t round_up(size_t size) {
    return (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
}

/* With what the next boundary may cost. */
static size_t measure_bytes(size_t size) {
    return round_up(size + 1) + alignof(max_align_t);
}

static size_t measure_errors(const struct lw__errors *errors) {
    size_t head = sizeof *errors + errors->count * sizeof *errors->entries;
    return errors->count * sizeof(lw_attempt_error) + errors->size - head;
}

static size_t measure(const struct lw__task_view *view, const lw_snapshot *bare) {
    size_t size = strlen(bare->kind) + 1 + strlen(bare->queue) + 1;
    if (view->errors)
        size += measure_errors(view->errors);
    size += measure_bytes(view->payload_size);
    if (view->spec)
        size += measure_bytes(view->spec->value_size) + view->spec->key_size + 1;
    if (bare->holder)
        size += strlen(bare->holder) + 1;
    if (view->output)
        size += measure_bytes(view->output->partial_size) + measure_bytes(view->output->result_size)
                + measure_bytes(view->output->checkpoint_size) + view->output->text_size + 1;
    return size;
}

/* ---- copying ------------------------------------------------------------------------------- */

/* Fills the block from its beginning. */
struct pen {
    char *block;
    size_t used;
};

static const char *write_text(struct pen *pen, const char *text, size_t size) {
    char *at = pen->block + pen->used;
    memcpy(at, text, size);
    at[size] = 0;
    pen->used += size + 1;
    return at;
}

/* Bytes that are there but empty have an address all the same. */
static lw_bytes write_bytes(struct pen *pen, const char *data, size_t size, bool is_there) {
    if (!is_there)
        return (lw_bytes){NULL, 0};
    pen->used = round_up(pen->used);
    char *at = pen->block + pen->used;
    memcpy(at, data, size);
    at[size] = 0; /* a text can be printed as it is */
    pen->used += size + 1;
    return (lw_bytes){at, size};
}

static void write_errors(const lw_engine *engine, struct pen *pen, const struct lw__errors *errors,
                         lw_snapshot *snapshot) {
    lw_attempt_error *copies = (lw_attempt_error *)(void *)pen->block; /* the first in the block */
    pen->used += errors->count * sizeof *copies;
    for (uint32_t i = 0; i < errors->count; i++) {
        const struct lw__fault_entry *entry = &errors->entries[i];
        const char *text = (const char *)errors + entry->text_at;
        copies[i] = (lw_attempt_error){
            .at_ms = lw__engine_wall_ms(engine, entry->at),
            .attempt = entry->attempt,
            .fault = (lw_fault)entry->fault,
            .text = write_text(pen, text, strlen(text)),
        };
        snapshot->last_error = copies[i].text;
    }
    snapshot->errors = copies;
    snapshot->error_count = errors->count;
    snapshot->errors_dropped = errors->dropped;
}

static void write_spec(struct pen *pen, const struct lw__spec *spec, lw_snapshot *snapshot) {
    snapshot->payload =
        write_bytes(pen, lw__spec_payload(spec), spec->payload_size, spec->payload_size > 0);
    snapshot->value =
        write_bytes(pen, lw__spec_value(spec), spec->value_size, spec->value_size > 0);
    if (spec->key_size > 0)
        snapshot->key = write_text(pen, lw__spec_key(spec), spec->key_size);
}

/* For a payload that is in the file only. */
static void leave_room(struct pen *pen, size_t size, lw_snapshot *snapshot) {
    if (size == 0)
        return;
    pen->used = round_up(pen->used);
    snapshot->payload = (lw_bytes){pen->block + pen->used, size};
    pen->block[pen->used + size] = 0;
    pen->used += size + 1;
}

static void write_output(struct pen *pen, const struct lw__output *output, lw_snapshot *snapshot) {
    snapshot->partial = write_bytes(pen, lw__output_partial(output), output->partial_size,
                                    output->partial_size > 0);
    snapshot->result =
        write_bytes(pen, lw__output_result(output), output->result_size, output->has_result);
    snapshot->checkpoint = write_bytes(pen, lw__output_checkpoint(output), output->checkpoint_size,
                                       output->has_checkpoint);
    snapshot->progress.text = write_text(pen, output->bytes, output->text_size);
}

static void write_all(const lw_engine *engine, const struct lw__task_view *view,
                      lw_snapshot *snapshot) {
    struct pen pen = {snapshot->memory, 0};
    if (view->errors)
        write_errors(engine, &pen, view->errors, snapshot);
    if (view->spec)
        write_spec(&pen, view->spec, snapshot);
    else
        leave_room(&pen, view->payload_size, snapshot);
    if (view->output)
        write_output(&pen, view->output, snapshot);
    if (snapshot->holder)
        snapshot->holder = write_text(&pen, snapshot->holder, strlen(snapshot->holder));
    snapshot->kind = write_text(&pen, snapshot->kind, strlen(snapshot->kind));
    snapshot->queue = write_text(&pen, snapshot->queue, strlen(snapshot->queue));
}

/* ---- filling ------------------------------------------------------------------------------- */

/* What needs no memory; the names are those of the registry, which live as long as the engine. */
static void fill_bare(const lw_engine *engine, const struct lw__task_view *view,
                      lw_snapshot *snapshot) {
    bool is_started = view->state == LW_STARTED;
    *snapshot = (lw_snapshot){
        .id = view->id,
        .state = view->state,
        .kind = lw__kind_of(engine, view->kind)->name,
        .queue = lw__queue_of(engine, view->queue)->name,
        .priority = view->priority,
        .attempts = view->attempts,
        .crashes = view->crashes,
        .snoozes = view->snoozes,
        .token = view->token,
        .created_ns = view->created_at,
        .enqueued_ns = view->enqueued_at,
        .started_ns = view->started_at,
        .ended_ns = lw_state_is_terminal(view->state) ? view->due_at : 0,
        .is_stuck = is_started && view->flags & LW__TASK_STUCK,
        .is_cancelling = is_started && view->flags & LW__TASK_CANCELLING,
        .progress = {.done = view->output ? view->output->done : 0,
                     .total = view->output ? view->output->total : 0,
                     .text = ""},
        .last_error = "",
        .memory = snapshot->memory,
        .memory_size = snapshot->memory_size,
        .allocator = snapshot->allocator,
    };
    snapshot->created_ms = lw__engine_wall_ms(engine, snapshot->created_ns);
    snapshot->enqueued_ms = lw__engine_wall_ms(engine, snapshot->enqueued_ns);
    snapshot->started_ms = lw__engine_wall_ms(engine, snapshot->started_ns);
    snapshot->ended_ms = lw__engine_wall_ms(engine, snapshot->ended_ns);
    if (view->state == LW_SCHEDULED)
        snapshot->due_ms = lw__engine_due_ms(engine, view->due_at);
}

/* A lease with another token is of another attempt: the view is of a moment before or after. */
static void fill_lease(const lw_engine *engine, const struct lw__task_view *view,
                       lw_snapshot *snapshot) {
    const struct lw__lease *lease =
        view->state == LW_STARTED ? lw__lease_find(engine->index, view->id) : NULL;
    if (!lease || lease->token != view->token)
        return;
    snapshot->holder = lease->holder;
    snapshot->lease_until_ms = lw__engine_wall_ms(engine, atomic_load(&lease->until));
}

int lw__snapshot_fill(lw_engine *engine, const struct lw__task *task, lw_snapshot *snapshot,
                      bool *must_read) {
    struct lw__task_view view;
    lw__task_view(task, &view);
    lw__index_see_wall(engine->index);
    *must_read = !view.spec && view.payload_size > 0;
    fill_bare(engine, &view, snapshot);
    fill_lease(engine, &view, snapshot);
    int rc = reserve(snapshot, &engine->set.allocator, measure(&view, snapshot));
    if (rc == LW_OK)
        write_all(engine, &view, snapshot);
    else
        snapshot->holder = NULL; /* it does not live as long as the engine */
    return rc;
}

int lw__snapshot_read(lw_engine *engine, lw_snapshot *snapshot) {
    void *payload = (void *)snapshot->payload.data; /* in the snapshot's own block */
    int rc = engine->store->ops->read(engine->store, snapshot->id, payload, snapshot->payload.size);
    if (rc < 0)
        snapshot->payload = (lw_bytes){NULL, 0};
    return rc;
}
