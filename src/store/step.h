/* The two steps of an attempt that do without the store's mutex: most tasks are begun and finished
 * by their worker alone (engine/run.c), and accounted for many at a time (plain.c).
 *
 * Threads: the worker that has claimed the task.
 */
#ifndef LW_STORE_STEP_H
#define LW_STORE_STEP_H

#include "base/points.h"
#include "store/index.h"

/* The attempt begins. False: the task was aborted since it was claimed, and is nobody's any more
 * but for lw__index_disclaim. */
LW__INLINE bool lw__step_begin(struct lw__index *index, struct lw__task *task, uint64_t token,
                               uint64_t now) {
    LW__POINT("begin: about to");
    lw__task_lock(task);
    bool is_ours = lw__task_state(task) == LW_ENQUEUED;
    if (__builtin_expect(is_ours, 1)) {
        lw__put(&task->token, token);
        lw__put(&task->attempts, lw__see(&task->attempts) + 1);
        lw__index_move_locked(index, task, LW__EVENT_START, now);
    }
    lw__task_unlock(task);
    return is_ours;
}

/* A key is free when its task's state says so. In a file the end has to stand before the put of
 * whoever takes the key next: there it is noted under the mutex. */
static inline uint32_t lw__step_slow_flags(const struct lw__index *index) {
    return LW__TASK_SLOW | LW__TASK_CANCELLING | LW__TASK_STUCK
           | (index->journal ? LW__TASK_KEYED : 0);
}

/* The attempt of a plain task is done: finished, at once. False: it is not plain, settle it. What
 * is left is to account for it. */
LW__INLINE bool lw__step_finish(struct lw__index *index, struct lw__task *task, uint64_t now) {
    LW__POINT("finish: about to");
    lw__task_lock(task);
    bool is_plain = !(lw__task_flags(task) & lw__step_slow_flags(index));
    /* The flag before the state: whoever sees the end without the task's lock (outbox_row.c) must
     * not take it for one that is durable. It is noted with the others' ends. */
    if (is_plain && __builtin_expect(index->journal != NULL, 0))
        lw__task_flag(task, LW__TASK_UNSAVED, 0);
    LW__POINT("finish: the first of flag and state is set");
    if (is_plain)
        lw__index_move_locked(index, task, LW__EVENT_FINISH, now);
    lw__task_unlock(task);
    return is_plain;
}

#endif
