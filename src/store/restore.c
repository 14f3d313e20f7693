/* Tasks that come back from a file. Called in order of their ids, before anything else happens. */
#include "store/index.h"

#include "base/memory.h"

static struct lw__task *make_task(struct lw__index *index, const struct lw__restored *r) {
    return lw__index_make_task_locked(index, r->id, r->created_at);
}

/* It still waits for the wall time that it was put with: nothing has run yet, and nobody has
 * brought it forward. */
static bool is_wall(const struct lw__restored *r) {
    return r->spec->run_at_ms > 0 && r->token == 0
           && (r->state == LW_SCHEDULED || r->state == LW_CREATED);
}

static uint32_t flags_of(const struct lw__restored *r) {
    const struct lw__spec *spec = r->spec;
    uint32_t flags = r->is_reserved ? LW__TASK_RESERVED : 0;
    if (!spec)
        return flags;
    bool is_limited = spec->start_by != LW__NEVER || spec->finish_by != LW__NEVER;
    return flags | (spec->key_size > 0 ? LW__TASK_KEYED : 0) | (is_limited ? LW__TASK_LIMITED : 0)
           | (is_wall(r) ? LW__TASK_WALL : 0);
}

/* That is not in the file: of one that may have been, it is not before its acceptance. */
static uint64_t enqueued_at(const struct lw__restored *r) {
    bool is_delayed = r->state == LW_SCHEDULED && r->token == 0;
    return r->state == LW_CREATED || is_delayed ? 0 : r->created_at;
}

static void fill(struct lw__task *task, const struct lw__restored *r) {
    task->priority = r->priority;
    task->kind = r->kind;
    task->queue = r->queue;
    if (r->is_lean)
        lw__task_set_lean(task, r->payload_size);
    else
        lw__task_set_spec(task, r->spec);
    lw__put(&task->flags, (uint16_t)flags_of(r));
    lw__put(&task->enqueued_at, enqueued_at(r));
    lw__put(&task->started_at, r->started_at);
    lw__put(&task->due_at, r->due_at);
    lw__put(&task->attempts, r->attempts);
    lw__put(&task->crashes, r->crashes);
    lw__put(&task->snoozes, r->snoozes);
    lw__put(&task->token, r->token);
    lw__put(&task->errors, r->errors);
    lw__put(&task->output, r->output);
}

void lw__restored_copy(const struct lw__restored *r, struct lw__task *copy) {
    *copy = (struct lw__task){.id = r->id, .created_at = r->created_at};
    fill(copy, r);
    if (lw_state_is_terminal(r->state))
        lw__put(&copy->due_at, r->ended_at);
    lw__put(&copy->state, (uint8_t)r->state);
}

/* A terminal one is not moved there: it was. */
static void place_ended(struct lw__index *index, struct lw__task *task,
                        const struct lw__restored *r) {
    lw__put(&task->due_at, r->ended_at);
    lw__put(&task->state, (uint8_t)r->state);
    lw__retain_again_locked(index, task);
}

/* Of several tasks with one key one may keep others out, and that need not be the youngest. */
static void set_key(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__spec *spec = lw__task_spec(task);
    struct lw__put put = {.kind = task->kind, .queue = task->queue, .spec = spec};
    if (!lw__index_key_holder_locked(index, &put, now))
        lw__index_set_key_locked(index, task);
}

/* One that was let go, or retried by hand, does not wait for others again. */
static bool place_waiting(struct lw__index *index, struct lw__task *task, bool was_held,
                          bool is_stale, uint64_t now) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    const struct lw__spec *spec = lw__task_spec(task);
    kind->created++;
    index->created_count++;
    lw__index_move_locked(index, task, LW__EVENT_HOLD, now);
    bool can_wait = was_held && spec && spec->after_count > 0;
    if (can_wait && !lw__index_depend_locked(index, task))
        return false;
    if (is_stale)
        lw__index_abort_locked(index, task, now, "its scope has moved on");
    else if (spec && spec->is_doomed)
        lw__index_abort_after_locked(index, task, now);
    else if (!lw__index_must_wait(task))
        lw__index_release_put_locked(index, task, now, was_held);
    return true;
}

/* Somebody else runs it, and still may. */
static bool place_leased(struct lw__index *index, struct lw__task *task,
                         const struct lw__restored *r, uint64_t now) {
    if (!lw__lease_add_locked(index, task, r->token, now, r->lease_until, r->holder))
        return false;
    lw__index_move_locked(index, task, LW__EVENT_ENQUEUE, now);
    lw__index_move_locked(index, task, LW__EVENT_START, now);
    lw__put(&task->started_at, r->started_at);
    lw__task_flag(task, r->is_cancelling ? LW__TASK_CANCELLING : 0, 0);
    return true;
}

static void drop_blocks(struct lw__index *index, const struct lw__restored *r) {
    if (r->spec)
        lw__free(&index->allocator, r->spec, r->spec->size);
    if (r->errors)
        lw__free(&index->allocator, r->errors, r->errors->size);
    if (r->output)
        lw__free(&index->allocator, r->output, r->output->size);
}

static struct lw__task *take_in(struct lw__index *index, const struct lw__restored *r) {
    bool has_key = r->spec && r->spec->key_size > 0;
    bool has_room = lw__index_lane_locked(index, r->kind, r->queue)
                    && (!has_key || lw__keys_reserve(&index->keys, 1));
    struct lw__task *task = has_room ? make_task(index, r) : NULL;
    if (task)
        fill(task, r);
    else
        drop_blocks(index, r);
    return task;
}

int lw__index_restore_locked(struct lw__index *index, const struct lw__restored *r, uint64_t now) {
    bool has_ended = lw_state_is_terminal(r->state);
    struct lw__task *task = take_in(index, r);
    if (!task)
        return LW_ENOMEM;
    if (r->errors && index->options.tells_errors)
        lw__task_flag(task, LW__TASK_TOLD, 0);
    int rc = r->scope ? lw__scope_restore_member_locked(index, task, r->scope, r->generation,
                                                        r->is_unclean, r->state)
                      : LW_OK;
    if (rc == LW_ENOMEM)
        return rc;
    if (has_ended)
        place_ended(index, task, r);
    if (lw__task_flags(task) & LW__TASK_KEYED)
        set_key(index, task, now);
    if (has_ended)
        return LW_OK;
    lw__index_count_restored_locked(index, task);
    struct lw__kind *kind = lw__index_kind_of(index, task);
    if (r->scope
        && !kind->is_kept) { /* what follows from its end, a worker elsewhere cannot tell */
        kind->is_kept = true;
        lw__index_review_kind_locked(index, kind);
    }
    if (lw__task_flags(task) & LW__TASK_LIMITED)
        lw__index_set_limit_locked(index, task);
    bool was_held = r->state == LW_CREATED;
    bool is_placed = r->state == LW_STARTED
                         ? place_leased(index, task, r, now)
                         : place_waiting(index, task, was_held, rc == LW_ELEASE, now);
    return is_placed ? LW_OK : LW_ENOMEM;
}

void lw__index_charge_locked(struct lw__index *index, uint64_t id, uint64_t now) {
    struct lw__task *task = lw__ids_find(&index->ids, id);
    if (task && lw__task_flags(task) & LW__TASK_SCOPED && lw__task_spec(task)->member->link.next)
        lw__scope_note_lost_locked(index, task);
    if (!task || lw_state_is_terminal(lw__task_state(task)))
        return; /* its outcome was durable already */
    struct lw__errors *old = lw__see(&task->errors);
    uint32_t attempts = lw__see(&task->attempts) + 1;
    struct lw__errors *errors = lw__errors_add(&index->allocator, old, now, attempts,
                                               LW_FAULT_CRASH, "its process died while it ran");
    lw__task_lock(task);
    lw__put(&task->attempts, attempts);
    if (lw__see(&task->crashes) < UINT16_MAX)
        lw__put(&task->crashes, (uint16_t)(lw__see(&task->crashes) + 1));
    if (errors)
        lw__put(&task->errors, errors);
    if (errors && index->options.tells_errors)
        lw__task_flag(task, LW__TASK_TOLD, 0);
    lw__task_unlock(task);
    if (errors && old)
        lw__index_retire_block_locked(index, old, old->size);
    lw__index_kind_of(index, task)->crashed++;
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_CHANGE, task);
}
