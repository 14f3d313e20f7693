/* Tasks that come back from a file. Called in order of their ids, before anything else happens. */
#include "store/index.h"

static struct lw__task *make_task(struct lw__index *index, const struct lw__restored *r) {
    uint64_t last_id = index->last_id;
    index->last_id = r->id - 1; /* it gets this very id */
    struct lw__task *task = lw__index_make_task_locked(index, r->created_at);
    if (index->last_id < last_id)
        index->last_id = last_id;
    return task;
}

static uint32_t flags_of(const struct lw__restored *r) {
    const struct lw__spec *spec = r->spec;
    uint32_t flags = r->is_reserved ? LW__TASK_RESERVED : 0;
    if (!spec)
        return flags;
    bool is_limited = spec->start_by != LW__NEVER || spec->finish_by != LW__NEVER;
    return flags | (spec->key_size > 0 ? LW__TASK_KEYED : 0) | (is_limited ? LW__TASK_LIMITED : 0)
           | (spec->run_at_ms > 0 && r->state == LW_SCHEDULED ? LW__TASK_WALL : 0);
}

static void fill(struct lw__task *task, const struct lw__restored *r) {
    task->priority = r->priority;
    task->kind = r->kind;
    task->queue = r->queue;
    task->spec = r->spec;
    lw__put(&task->flags, (uint16_t)flags_of(r));
    lw__put(&task->enqueued_at, r->created_at);
    lw__put(&task->started_at, r->started_at);
    lw__put(&task->due_at, r->due_at);
    lw__put(&task->attempts, r->attempts);
    lw__put(&task->crashes, r->crashes);
    lw__put(&task->snoozes, r->snoozes);
    lw__put(&task->token, r->token);
    lw__put(&task->errors, r->errors);
    lw__put(&task->output, r->output);
}

/* A terminal one is not moved there: it was. */
static void place_ended(struct lw__index *index, struct lw__task *task,
                        const struct lw__restored *r, uint64_t now) {
    lw__put(&task->due_at, r->ended_at);
    lw__put(&task->state, (uint8_t)r->state);
    lw__retain_locked(index, task, now);
}

static bool place_waiting(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    kind->created++;
    index->created_count++;
    lw__index_move_locked(index, task, LW__EVENT_HOLD, now);
    if (task->spec && task->spec->after_count > 0 && !lw__index_depend_locked(index, task))
        return false;
    if (task->spec && task->spec->is_doomed)
        lw__index_abort_locked(index, task, now, "a task that it waited for did not finish");
    else if (!lw__index_must_wait(task))
        lw__index_release_locked(index, task, now);
    return true;
}

int lw__index_restore_locked(struct lw__index *index, const struct lw__restored *r, uint64_t now) {
    bool has_key = r->spec && r->spec->key_size > 0;
    if (!lw__index_lane_locked(index, r->kind, r->queue)
        || (has_key && !lw__keys_reserve(&index->keys, 1)))
        return LW_ENOMEM;
    struct lw__task *task = make_task(index, r);
    if (!task)
        return LW_ENOMEM;
    fill(task, r);
    if (has_key)
        lw__keys_set(&index->keys, r->kind, lw__spec_key(r->spec), r->spec->key_size, task);
    if (lw_state_is_terminal(r->state)) {
        place_ended(index, task, r, now);
        return LW_OK;
    }
    lw__index_count_restored_locked(index, task);
    if (lw__task_flags(task) & LW__TASK_LIMITED)
        lw__index_set_limit_locked(index, task);
    return place_waiting(index, task, now) ? LW_OK : LW_ENOMEM;
}
