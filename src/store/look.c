/* What stands between a task and its start, copied under the mutex. */
#include "store/index.h"

#include <stdio.h>

#define LOOKS_MAX 256 /* blocks and tasks of the order that are looked at while the mutex is held */

/* ---- who is before it --------------------------------------------------------------------- */

struct census {
    struct lw__order_key key; /* of the task */
    uint64_t before;
    uint32_t looks; /* left */
    bool is_cut;    /* there were not enough */
};

static bool is_before(const struct census *census, const struct lw__task *task) {
    struct lw__order_key key = {
        .due = lw__see(&task->due_at), .id = task->id, .priority = task->priority};
    return lw__order_key_before(&key, &census->key);
}

static bool can_look(struct census *census) {
    if (census->looks == 0)
        census->is_cut = true;
    else
        census->looks--;
    return !census->is_cut;
}

static void count_in_block(struct census *census, const struct lw__run_block *block) {
    for (uint32_t i = block->begin; i < block->end && can_look(census); i++) {
        if (!block->items[i])
            continue;
        if (!is_before(census, block->items[i]))
            return;
        census->before++;
    }
}

/* A run is in order: of each block but the last that counts the first task is not looked at. */
static void count_in_run(struct census *census, const struct lw__run *run) {
    if (run->priority > census->key.priority)
        return;
    for (const struct lw__run_block *block = run->first; block && can_look(census);
         block = block->next) {
        const struct lw__run_block *next = block->next;
        bool is_all_before = run->priority < census->key.priority
                             || (next && is_before(census, next->items[next->begin]));
        if (!is_all_before) {
            count_in_block(census, block);
            return;
        }
        census->before += block->end - block->begin - block->hole_count;
    }
}

static void count_in_lane(struct census *census, const struct lw__lane *lane) {
    for (uint32_t i = 0; i < lane->run_count; i++)
        count_in_run(census, &lane->runs[i]);
    for (uint32_t i = 0; i < lane->heap.count && can_look(census); i++)
        census->before += lw__order_key_before(&lane->heap.entries[i].key, &census->key);
}

/* A lane of a kind that is full may not have been withheld yet. */
static bool is_shut(const struct lw__lane *lane) {
    return lane->shut || lw__kind_is_full(lane->kind);
}

static void count_before_locked(const struct lw__task *task, struct lw__outlook *outlook) {
    const struct lw__lane *own = task->place.lane;
    struct census census = {
        .key = {.due = lw__see(&task->due_at), .id = task->id, .priority = task->priority},
        .looks = LOOKS_MAX};
    if (is_shut(own))
        return; /* it does not wait for them */
    for (const struct lw__lane *lane = own->queue->lanes; lane && can_look(&census);
         lane = lane->next_of_queue) {
        if (!is_shut(lane))
            count_in_lane(&census, lane);
    }
    outlook->before = census.before;
    outlook->is_before_cut = census.is_cut;
}

/* ---- the rest ----------------------------------------------------------------------------- */

static bool waits_for(const struct lw__spec *spec, uint64_t id) {
    const struct lw__dependency *dependency = spec->dependencies;
    while (dependency && dependency->on != id)
        dependency = dependency->sibling;
    return dependency != NULL;
}

/* How many it waits for, and the first of them. That may have ended, if its end is not durable. */
static void look_at_after_locked(struct lw__index *index, const struct lw__spec *spec,
                                 struct lw__outlook *outlook) {
    for (uint32_t i = 0; i < spec->after_count; i++) {
        if (lw__spec_is_repeated(spec, i) || !waits_for(spec, spec->after[i]))
            continue;
        if (outlook->after_left++ > 0)
            continue;
        const struct lw__task *on = lw__ids_find(&index->ids, spec->after[i]);
        outlook->after = spec->after[i];
        outlook->after_state = on ? lw__task_state(on) : LW_FINISHED;
    }
}

static void copy_last_error(const struct lw__errors *errors, struct lw__outlook *outlook) {
    if (!errors || errors->count == 0)
        return;
    const struct lw__fault_entry *last = &errors->entries[errors->count - 1];
    outlook->error_at = last->at;
    outlook->error_attempt = last->attempt;
    snprintf(outlook->error, sizeof outlook->error, "%s", (const char *)errors + last->text_at);
}

void lw__index_look_at(const struct lw__task *task, struct lw__outlook *outlook) {
    lw__task_view(task, &outlook->view);
    copy_last_error(outlook->view.errors, outlook);
}

static void look_locked(struct lw__index *index, struct lw__task *task,
                        struct lw__outlook *outlook) {
    const struct lw__kind *kind = lw__index_kind_of(index, task);
    struct lw__task_view *view = &outlook->view;
    lw__index_look_at(task, outlook);
    outlook->has_handler = kind->has_handler;
    outlook->concurrency = kind->concurrency;
    outlook->claimed = kind->claimed;
    outlook->is_paused = lw__index_queue_of(index, task)->is_paused;
    if (view->state == LW_CREATED && view->spec)
        look_at_after_locked(index, view->spec, outlook);
    if (view->state == LW_CREATED && view->spec && view->spec->member)
        outlook->fence_left = lw__scope_find_locked(index, view->spec->member->scope)->open;
    if (view->state == LW_ENQUEUED && task->place.lane)
        count_before_locked(task, outlook);
    const struct lw__lease *lease =
        view->state == LW_STARTED ? lw__lease_find(index, task->id) : NULL;
    if (lease) {
        outlook->lease_until = lease->until;
        snprintf(outlook->holder, sizeof outlook->holder, "%s", lease->holder);
    }
    outlook->is_claimed = view->state == LW_ENQUEUED && !task->place.lane;
    view->spec = NULL;
    view->errors = NULL;
    view->output = NULL;
}

int lw__index_look(struct lw__index *index, uint64_t id, struct lw__outlook *outlook) {
    *outlook = (struct lw__outlook){.before = 0};
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    if (task)
        look_locked(index, task, outlook);
    lw__index_unlock(index);
    return task ? LW_OK : LW_ENOTFOUND;
}
