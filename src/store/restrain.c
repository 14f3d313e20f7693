/* What a stop wants of the store. */
#include "store/index.h"

#define LOOK_MAX 1024 /* tasks that are looked at while the mutex is held */

void lw__index_restrain(struct lw__store *store, uint32_t bits) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    index->restraints |= bits;
    lw__index_unlock(index);
}

static void bring_one_forward(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (lw__task_state(task) != LW_SCHEDULED || lw__task_flags(task) & LW__TASK_DRAINED)
        return;
    lw__index_run_now_locked(index, task, now);
    lw__task_lock(task);
    lw__task_flag(task, LW__TASK_DRAINED, 0);
    lw__task_unlock(task);
}

bool lw__index_bring_forward(struct lw__store *store, uint64_t now, uint64_t *after) {
    struct lw__index *index = store->index;
    struct lw__task *task = NULL;
    lw__index_lock(index);
    for (int i = 0; i < LOOK_MAX; i++) {
        task = lw__ids_find_from(&index->ids, *after + 1);
        if (!task)
            break;
        *after = task->id;
        bring_one_forward(index, task, now);
    }
    lw__index_unlock(index);
    return task != NULL;
}

bool lw__index_is_quiet(struct lw__store *store, bool is_drained_too) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    bool can_claim = index->order.ready_count > 0 && !(index->restraints & LW__STORE_NO_CLAIM);
    bool is_quiet =
        index->claimed == 0 && index->telling_count == 0 && !(is_drained_too && can_claim);
    lw__index_unlock(index);
    return is_quiet;
}
