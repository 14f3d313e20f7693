/* What follows when a task has become terminal. */
#include "store/index.h"

#include "base/memory.h"
#include "base/points.h"

static void count_end(struct lw__index *index, const struct lw__task *task) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    struct lw__queue *queue = lw__index_queue_of(index, task);
    switch (lw__task_state(task)) {
    case LW_FINISHED: kind->finished++, queue->finished++; break;
    case LW_FAILED: kind->failed++, queue->failed++; break;
    default: kind->aborted++, queue->aborted++; break;
    }
}

static bool must_be_told(const struct lw__index *index, const struct lw__task *task) {
    lw_state state = lw__task_state(task);
    const struct lw__spec *spec = lw__task_spec(task);
    return lw__task_flags(task) & LW__TASK_TOLD
           || (state == LW_FAILED && index->options.tells_failed)
           || (state == LW_ABORTED && index->options.tells_aborted)
           || (spec && spec->on_drop && !(lw__task_flags(task) & LW__TASK_SPENT));
}

/* Until it was told it can be neither forgotten nor retried. */
static void set_telling(struct lw__task *task, bool is_telling) {
    lw__task_lock(task);
    lw__task_flag(task, is_telling ? LW__TASK_TELLING : 0, is_telling ? 0 : LW__TASK_TELLING);
    lw__task_unlock(task);
}

static void tell_or_retain(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (must_be_told(index, task)) {
        set_telling(task, true);
        lw__link_append(&index->telling, task);
        index->telling_count++;
        index->telling_bytes += lw__task_payload_size(task);
        index->hooks.wake(index->hooks.user);
    } else {
        if (index->journal)
            lw__lean_shed_locked(index, task);
        lw__retain_locked(index, task, now);
    }
}

/* Ending one can end its dependents, and so theirs: a chain of tasks must not be a chain of
 * calls. Each is told before those that have ended because of it. */
static void release_dependents(struct lw__index *index, struct lw__task *task, uint64_t now) {
    lw__link_append(&index->releasing, task);
    if (index->is_releasing)
        return;
    index->is_releasing = true;
    while ((task = lw__link_first(&index->releasing))) {
        lw__link_remove(task);
        if (lw__task_flags(task) & LW__TASK_AWAITED)
            lw__index_release_dependents_locked(index, task, now);
        tell_or_retain(index, task, now);
    }
    index->is_releasing = false;
}

void lw__index_end_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (!index->journal) {
        lw__index_end_durable_locked(index, task, now);
        return;
    }
    task->link.next = task->link.previous = NULL; /* not told, not retained: nobody's yet */
    task->is_end_noted = false;
    lw__journal_note(index->journal, LW__JOURNAL_END, task);
}

void lw__index_end_durable_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    uint32_t flags = lw__task_flags(task);
    count_end(index, task);
    lw__index_count_out_locked(index, task);
    if (flags & LW__TASK_LIMITED)
        lw__timer_cancel(&index->alarms, &lw__task_spec(task)->limit.timer);
    if (flags & LW__TASK_WAITED)
        lw__index_wake_awaits_locked(index, task->id);
    task->link.next = task->link.previous = NULL;
    if (flags & LW__TASK_SCOPED)
        lw__scope_leave_locked(index, task, now);
    if (flags & LW__TASK_AWAITED || index->is_releasing)
        release_dependents(index, task, now);
    else
        tell_or_retain(index, task, now);
}

static void take_out_locked(struct lw__index *index, struct lw__task *task) {
    const struct lw__lane *lane = task->place.lane;
    lw__order_remove(&index->order, task);
    if (lane->count == 0)
        lw__index_pass_place_locked(index, lane->kind);
}

void lw__index_detach_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__kind *kind = lw__index_kind_of(index, task);
    switch (lw__task_state(task)) {
    case LW_CREATED:
        if (lw__task_spec(task)) /* others wait for the disk only */
            lw__index_undepend_locked(index, task);
        kind->created--;
        index->created_count--;
        break;
    case LW_SCHEDULED:
        lw__timer_cancel(&index->scheduled, &task->timer);
        lw__index_unschedule_locked(index, task);
        break;
    case LW_ENQUEUED:
        if (task->place.lane)
            take_out_locked(index, task);
        break;
    default: break;
    }
    if (lw__task_flags(task) & LW__TASK_LIMITED)
        lw__timer_cancel(&index->alarms, &lw__task_spec(task)->limit.timer);
}

/* Nobody runs it, and nobody is about to. */
static bool is_idle(const struct lw__task *task) {
    lw_state state = lw__task_state(task);
    return state == LW_CREATED || state == LW_SCHEDULED
           || (state == LW_ENQUEUED && task->place.lane);
}

bool lw__index_abort_idle_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                                 const char *reason) {
    bool was_idle = is_idle(task);
    if (was_idle)
        lw__index_detach_locked(index, task);
    struct lw__errors *old = lw__see(&task->errors);
    struct lw__errors *errors =
        lw__errors_add(&index->allocator, old, now, lw__see(&task->attempts), 0, reason);
    LW__POINT("abort: looked, not moved");
    lw__task_lock(task);
    /* If a worker has it, it may have begun or even finished since we looked: that takes no
     * mutex. */
    bool can_abort = was_idle || lw__task_state(task) == LW_ENQUEUED;
    if (can_abort && errors)
        lw__put(&task->errors, errors); /* without memory it goes without saying */
    if (can_abort && index->journal)
        lw__task_flag(task, LW__TASK_UNSAVED, 0); /* whoever has claimed it notes the end */
    if (can_abort)
        lw__index_move_locked(index, task, LW__EVENT_ABORT, now);
    lw__task_unlock(task);
    /* Not under the task's lock: retiring may wait for readers, and they wait for that lock. */
    struct lw__errors *unused = !can_abort ? errors : errors ? old : NULL;
    if (unused)
        lw__index_retire_block_locked(index, unused, unused->size);
    if (can_abort && lw__task_flags(task) & LW__TASK_SCOPED)
        lw__scope_note_abort_locked(index, task, reason);
    if (was_idle)
        lw__index_end_locked(index, task, now);
    return can_abort;
}

bool lw__index_abort_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                            const char *reason) {
    if (lw__index_abort_idle_locked(index, task, now, reason))
        return true;
    lw__index_ask_locked(index, task, LW_REASON_CANCELLED);
    return false;
}

/* Asks a started task to give up. */
void lw__index_ask_locked(struct lw__index *index, struct lw__task *task, lw_reason reason) {
    lw__task_lock(task);
    bool is_started = lw__task_state(task) == LW_STARTED;
    uint64_t token = lw__see(&task->token);
    if (is_started && reason == LW_REASON_CANCELLED)
        lw__task_flag(task, LW__TASK_CANCELLING, 0);
    lw__task_unlock(task);
    LW__POINT("ask: flagged, not asked");
    if (is_started && index->journal && lw__lease_find(index, task->id))
        lw__journal_note(index->journal, LW__JOURNAL_LEASE, task); /* it survives a restart */
    if (is_started)
        index->hooks.cancel(index->hooks.user, token, reason);
}

void lw__index_leave_locked(struct lw__index *index, struct lw__task *task) {
    if (lw__task_flags(task) & LW__TASK_WAITED && lw__index_is_awaited_locked(index, task->id))
        lw__index_pin(task);
    else
        lw__index_remove_locked(index, task);
}

void lw__index_remove_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_LEAVE, task);
    if (lw__task_flags(task) & LW__TASK_KEYED)
        lw__keys_remove(&index->keys, spec->key_hash, task);
    lw__ids_remove(&index->ids, task->id);
    if (spec && index->journal)
        lw__lean_count_out_locked(index, spec);
    lw__index_free_whole_locked(index, task, true);
}

/* ---- telling ------------------------------------------------------------------------------ */

struct lw__task *lw__index_next_told(struct lw__store *store) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__task *task = lw__link_first(&index->telling);
    if (task)
        lw__link_remove(task);
    lw__index_unlock(index);
    return task;
}

void lw__index_told(struct lw__store *store, uint64_t now, struct lw__task *task) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    index->telling_count--;
    index->telling_bytes -= lw__task_payload_size(task);
    set_telling(task, false);
    if (index->journal)
        lw__lean_shed_locked(index, task);
    lw__retain_locked(index, task, now);
    lw__index_unlock(index);
}

/* Whether a worker of this process has it. */
static bool is_held_here(struct lw__index *index, const struct lw__task *task) {
    switch (lw__task_state(task)) {
    case LW_STARTED: return lw__lease_find(index, task->id) == NULL;
    case LW_ENQUEUED: return task->place.lane == NULL;
    default: return false;
    }
}

bool lw__index_take_left(struct lw__index *index, uint64_t id, bool is_last,
                         struct lw__left *left) {
    *left = (struct lw__left){.on_end = NULL};
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    struct lw__spec *spec = task ? lw__task_spec(task) : NULL;
    if (spec && !lw_state_is_terminal(lw__task_state(task))
        && (is_last || !is_held_here(index, task))) {
        bool is_spent = lw__task_flags(task) & LW__TASK_SPENT;
        *left = (struct lw__left){.on_end = spec->on_end,
                                  .user = spec->user,
                                  .on_drop = is_spent ? NULL : spec->on_drop,
                                  .arg = spec->arg};
        spec->on_end = NULL;
        lw__task_lock(task);
        lw__task_flag(task, LW__TASK_SPENT, LW__TASK_TOLD);
        lw__task_unlock(task);
    }
    lw__index_unlock(index);
    return left->on_end || left->on_drop;
}
