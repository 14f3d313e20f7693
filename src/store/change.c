/* What an operator wants of one task. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

/* A task that is aborted, but not in the file: whoever cancels it once more, because the first
 * answer was LW_EUNSURE or is still awaited by another thread, has to wait for that, too. */
static bool is_abort_unwritten(const struct lw__index *index, const struct lw__task *task) {
    return index->journal && lw__task_state(task) == LW_ABORTED
           && lw__task_flags(task) & LW__TASK_UNSAVED;
}

static int cancel(struct lw__index *index, struct lw__task *task, uint64_t now) {
    lw_state state = lw__task_state(task);
    if (is_abort_unwritten(index, task))
        return LW_OK;
    if (lw_state_is_terminal(state))
        return LW_ENOTFOUND;
    if (state == LW_STARTED) {
        lw__index_ask_locked(index, task, LW_REASON_CANCELLED);
        return LW_PENDING;
    }
    if (lw__index_abort_locked(index, task, now, "cancelled"))
        return LW_OK;
    return lw_state_is_terminal(lw__task_state(task)) ? LW_ENOTFOUND : LW_PENDING;
}

static int expedite(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (lw__task_state(task) != LW_SCHEDULED)
        return LW_PENDING;
    lw__index_run_now_locked(index, task, now);
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_CHANGE, task);
    return LW_OK;
}

/* Otherwise its worker, or whoever tells its end, still has it. */
static bool has_been_told(const struct lw__task *task) {
    return task->link.next && !(lw__task_flags(task) & LW__TASK_TELLING);
}

/* A failed or aborted task gets a new budget, its room and its key again. */
static int revive(struct lw__index *index, struct lw__task *task, uint64_t now) {
    struct lw__spec *spec = lw__task_spec(task);
    bool has_key = spec && spec->key_size > 0;
    if (!has_been_told(task))
        return LW_PENDING;
    if (spec && spec->run)
        return LW_EINVAL; /* its argument was handed back */
    struct lw__put put = {.kind = task->kind,
                          .queue = task->queue,
                          .spec = spec,
                          .payload_size = lw__task_payload_size(task)};
    struct lw__task *holder = has_key ? lw__index_key_holder_locked(index, &put, now) : NULL;
    if (holder && holder != task)
        return LW_EXISTS;
    if (has_key && !lw__keys_reserve(&index->keys, 1))
        return LW_ENOMEM;
    struct lw__errors *old = lw__see(&task->errors);
    struct lw__errors *errors = lw__errors_retry(&index->allocator, old, now);
    if (!errors)
        return LW_ENOMEM;
    bool is_scoped = lw__task_flags(task) & LW__TASK_SCOPED;
    int rc = is_scoped ? lw__scope_check_rejoin_locked(index, task) : LW_OK;
    if (rc == LW_OK)
        rc = lw__index_count_in_locked(index, &put);
    if (rc != LW_OK) {
        lw__free(&index->allocator, errors, errors->size);
        return rc;
    }
    if (is_scoped)
        lw__scope_rejoin_locked(index, task);
    lw__unretain_locked(index, task);
    lw__task_lock(task);
    lw__put(&task->attempts, 0);
    lw__put(&task->crashes, 0);
    lw__put(&task->errors, errors);
    lw__put(&task->due_at, now);
    lw__task_flag(task, has_key ? LW__TASK_KEYED : 0,
                  LW__TASK_RESERVED | LW__TASK_WALL | LW__TASK_LIMITED | LW__TASK_DRAINED);
    lw__index_move_locked(index, task, LW__EVENT_REVIVE, now);
    lw__task_unlock(task);
    if (old)
        lw__index_retire_block_locked(index, old, old->size);
    if (has_key)
        lw__index_set_key_locked(index, task);
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_REVIVE, task);
    memset(&task->place, 0, sizeof task->place);
    lw__index_line_up_locked(index, task);
    return LW_OK;
}

static int retry(struct lw__index *index, struct lw__task *task, uint64_t now) {
    switch (lw__task_state(task)) {
    case LW_SCHEDULED: return expedite(index, task, now);
    case LW_FAILED:
    case LW_ABORTED: return revive(index, task, now);
    case LW_FINISHED: return LW_EINVAL;
    default: return LW_PENDING;
    }
}

static int forget(struct lw__index *index, struct lw__task *task) {
    if (!lw_state_is_terminal(lw__task_state(task)) || !has_been_told(task))
        return LW_PENDING;
    lw__unretain_locked(index, task);
    lw__index_leave_locked(index, task);
    return LW_OK;
}

int lw__index_change_locked(struct lw__index *index, uint64_t now, uint64_t id,
                            enum lw__change change) {
    int rc = LW_ENOTFOUND;
    struct lw__task *task = lw__ids_find(&index->ids, id);
    if (task && !lw__index_is_pinned(task)) {
        switch (change) {
        case LW__CHANGE_CANCEL: rc = cancel(index, task, now); break;
        case LW__CHANGE_RETRY: rc = retry(index, task, now); break;
        case LW__CHANGE_FORGET: rc = forget(index, task); break;
        case LW__CHANGE_EXPEDITE: rc = expedite(index, task, now); break;
        }
    }
    lw__grace_collect(&index->grace);
    return rc;
}

int lw__index_change(struct lw__store *store, uint64_t now, uint64_t id, enum lw__change change) {
    lw__index_lock(store->index);
    int rc = lw__index_change_locked(store->index, now, id, change);
    lw__index_unlock(store->index);
    return rc;
}

bool lw__index_is_noted_locked(const struct lw__index *index, uint64_t id) {
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    if (!task)
        return true;
    bool is_terminal = lw_state_is_terminal(lw__task_state(task));
    return !(task->notes & LW__NOTE_LOST) && (!is_terminal || lw__journal_has_end(task));
}

bool lw__index_mark_stuck(struct lw__index *index, uint64_t id, uint64_t token) {
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_it = false;
    if (task) {
        lw__task_lock(task);
        is_it = lw__task_state(task) == LW_STARTED && lw__see(&task->token) == token;
        if (is_it)
            lw__task_flag(task, LW__TASK_STUCK, 0);
        lw__task_unlock(task);
    }
    lw__index_unlock(index);
    return is_it;
}
