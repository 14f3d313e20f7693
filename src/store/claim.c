/* Taking tasks for workers.
 *
 * A claimed task is still enqueued until its attempt begins (step.h); whoever aborts it meanwhile
 * only moves it, and leaves what follows from that to the worker that has it (end.c). So a claimed
 * task stays where it is in memory until its worker has settled it. */
#include "store/step.h"

/* The lane that is next and whose kind has a place; NULL: none. */
static struct lw__lane *next_lane(struct lw__index *index) {
    if (__builtin_expect(index->short_kinds != NULL, 0))
        lw__index_open_some_locked(index);
    struct lw__lane *lane = lw__order_next(&index->order);
    while (lane) {
        struct lw__queue *queue = lw__index_queue_of_lane(lane);
        if (__builtin_expect(queue->withheld != NULL, 0)) {
            lw__index_open_queue_locked(index, queue); /* whose turn it still is */
            lane = lw__order_next(&index->order);
        }
        if (__builtin_expect(!lw__kind_is_full(lane->kind), 1))
            return lane;
        lw__index_withhold_locked(index, lane);
        lane = lw__order_next(&index->order);
    }
    return NULL;
}

static uint32_t take(struct lw__index *index, struct lw__claim *claim) {
    if (claim->max == 0 || index->restraints & LW__STORE_NO_CLAIM || index->is_halted)
        return 0;
    struct lw__lane *lane = next_lane(index);
    if (!lane)
        return 0;
    struct lw__kind *kind = lane->kind;
    /* Of a kind with a limit a batch would keep places from others. */
    bool is_limited = kind->concurrency != UINT32_MAX;
    uint32_t count =
        lw__order_take(&index->order, claim->tasks, is_limited ? 1 : claim->max, &lane);
    kind->claimed += count;
    index->claimed += count;
    if (is_limited && lw__kind_is_full(kind))
        lw__index_withhold_locked(index, lane);
    return count;
}

void lw__index_take_locked(struct lw__index *index, struct lw__claim *claim) {
    claim->count = take(index, claim);
    claim->token = index->last_token + 1;
    index->last_token += claim->count;
    claim->left = index->order.ready_count;
    claim->has_told = lw__link_first(&index->telling) != NULL;
    claim->is_half_free = index->unfinished <= index->options.task_limit / 2;
}

void lw__index_count_out_kind_locked(struct lw__index *index, struct lw__kind *kind,
                                     uint32_t count) {
    kind->claimed -= count;
    if (kind->concurrency != UINT32_MAX && kind->withheld)
        lw__index_open_withheld_locked(index, kind, count);
}

void lw__index_disclaim_locked(struct lw__index *index, struct lw__kind *kind, uint32_t count) {
    index->claimed -= count;
    lw__index_count_out_kind_locked(index, kind, count);
}

void lw__index_unclaim(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                       uint32_t count) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    for (uint32_t i = 0; i < count; i++) {
        struct lw__task *task = tasks[i];
        if (lw__task_state(task) == LW_ENQUEUED) {
            lw__index_line_up_locked(index, task);
        } else {
            lw__index_end_locked(index, task, now); /* aborted while it was claimed */
        }
        lw__index_disclaim_locked(index, lw__index_kind_of(index, task), 1);
    }
    lw__index_unlock(index);
}

bool lw__index_begin(struct lw__store *store, struct lw__task *task, uint64_t token, uint64_t now) {
    return lw__step_begin(store->index, task, token, now);
}

bool lw__index_finish(struct lw__store *store, struct lw__task *task, uint64_t now) {
    return lw__step_finish(store->index, task, now);
}
