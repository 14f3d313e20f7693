/* Who waits for a task to end: threads in lw_wait, and tasks that come after it. */
#include "store/index.h"

#include "base/memory.h"
#include "base/points.h"

#include <stdio.h>

/* ---- threads ------------------------------------------------------------------------------ */

int lw__index_await(struct lw__store *store, struct lw__await *await) {
    struct lw__index *index = store->index;
    int rc = LW_ENOTFOUND;
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, await->id);
    if (task) {
        lw__task_lock(task);
        bool is_over = lw_state_is_terminal(lw__task_state(task))
                       && !(lw__task_flags(task) & LW__TASK_UNSAVED);
        rc = is_over ? LW_PENDING : LW_OK;
        if (rc == LW_OK)
            lw__task_flag(task, LW__TASK_WAITED, 0);
        lw__task_unlock(task);
    }
    if (rc == LW_OK) {
        struct lw__await **bucket = &index->awaits[await->id % LW__AWAIT_BUCKETS];
        await->next = *bucket;
        await->link = bucket;
        if (*bucket)
            (*bucket)->link = &await->next;
        *bucket = await;
        atomic_store(&await->is_over, 0);
    }
    lw__index_unlock(index);
    return rc;
}

static void unlink_await(struct lw__await *await) {
    *await->link = await->next;
    if (await->next)
        await->next->link = await->link;
}

void lw__index_unawait(struct lw__store *store, struct lw__await *await) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    unlink_await(await);
    struct lw__task *task = lw__ids_find(&index->ids, await->id);
    if (task && lw__index_is_pinned(task) && !lw__index_is_awaited_locked(index, await->id)) {
        lw__index_remove_locked(index, task);
        lw__grace_collect(&index->grace);
    }
    lw__index_unlock(index);
}

static void wake(struct lw__await *await) {
    atomic_store(&await->is_over, 1);
    LW__POINT("await: over, not woken");
    lw__futex_wake(&await->is_over, INT32_MAX);
}

void lw__index_wake_awaits_locked(struct lw__index *index, uint64_t id) {
    for (struct lw__await *await = index->awaits[id % LW__AWAIT_BUCKETS]; await;
         await = await->next) {
        if (await->id == id)
            wake(await);
    }
}

void lw__index_rouse_awaits(struct lw__index *index) {
    lw__index_lock(index);
    for (size_t i = 0; i < LW__AWAIT_BUCKETS; i++) {
        for (struct lw__await *await = index->awaits[i]; await; await = await->next)
            wake(await);
    }
    lw__index_unlock(index);
}

bool lw__index_is_awaited_locked(const struct lw__index *index, uint64_t id) {
    const struct lw__await *await = index->awaits[id % LW__AWAIT_BUCKETS];
    while (await && await->id != id)
        await = await->next;
    return await != NULL;
}

/* ---- tasks -------------------------------------------------------------------------------- */

static size_t bucket_of(const struct lw__index *index, uint64_t on) {
    return (size_t)(on * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (index->dependency_buckets - 1);
}

static void link_dependency(struct lw__dependency **link, struct lw__dependency *dependency) {
    dependency->next = *link;
    dependency->link = link;
    if (*link)
        (*link)->link = &dependency->next;
    *link = dependency;
}

static void unlink_dependency(struct lw__dependency *dependency) {
    *dependency->link = dependency->next;
    if (dependency->next)
        dependency->next->link = dependency->link;
}

/* Those of one bucket stand in it with the newest first. */
static void add_dependency(struct lw__index *index, struct lw__dependency *dependency) {
    link_dependency(&index->dependencies[bucket_of(index, dependency->on)], dependency);
}

static void add_sibling(struct lw__spec *spec, struct lw__dependency *dependency) {
    dependency->sibling = spec->dependencies;
    dependency->sibling_link = &spec->dependencies;
    if (spec->dependencies)
        spec->dependencies->sibling_link = &dependency->sibling;
    spec->dependencies = dependency;
}

static void remove_sibling(struct lw__dependency *dependency) {
    *dependency->sibling_link = dependency->sibling;
    if (dependency->sibling)
        dependency->sibling->sibling_link = dependency->sibling_link;
}

static bool grow_dependencies(struct lw__index *index) {
    size_t old_count = index->dependency_buckets, count = old_count ? old_count * 2 : 64;
    if (old_count > 0 && index->dependency_count < old_count)
        return true;
    struct lw__dependency **old = index->dependencies;
    struct lw__dependency **buckets = lw__alloc_zero(&index->allocator, count * sizeof *buckets);
    if (!buckets)
        return false;
    index->dependencies = buckets;
    index->dependency_buckets = count;
    for (size_t i = 0; i < old_count; i++) {
        struct lw__dependency *oldest = NULL, *d;
        while ((d = old[i]) != NULL) { /* turned round, and below once more */
            unlink_dependency(d);
            link_dependency(&oldest, d);
        }
        while ((d = oldest) != NULL) {
            unlink_dependency(d);
            add_dependency(index, d);
        }
    }
    if (old)
        lw__free(&index->allocator, old, old_count * sizeof *old);
    return true;
}

static bool depend_on(struct lw__index *index, struct lw__task *task, struct lw__task *on) {
    if (!grow_dependencies(index))
        return false;
    struct lw__dependency *dependency = lw__alloc(&index->allocator, sizeof *dependency);
    if (!dependency)
        return false;
    dependency->on = on->id;
    dependency->task = task;
    add_dependency(index, dependency);
    add_sibling(lw__task_spec(task), dependency);
    index->dependency_count++;
    lw__task_spec(task)->after_left++;
    lw__task_flag(on, LW__TASK_AWAITED, 0);
    return true;
}

/* A task that has ended counts as such once its end is noted: a dependent must not run before the
 * end that it waits for is durable. */
static bool has_ended(const struct lw__task *task) {
    return lw_state_is_terminal(lw__task_state(task)) && lw__journal_has_end(task);
}

bool lw__index_depend_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    spec->dependencies = NULL;
    spec->after_left = 0;
    spec->is_doomed = false;
    for (uint32_t i = 0; i < spec->after_count; i++) {
        struct lw__task *on = lw__ids_find(&index->ids, spec->after[i]);
        if (!on)
            continue; /* it has left, and what leaves had finished: others stay much longer */
        lw__task_lock(on);
        lw_state state = lw__task_state(on);
        bool is_over = has_ended(on), can_wait = is_over || depend_on(index, task, on);
        lw__task_unlock(on);
        if (!can_wait) {
            lw__index_undepend_locked(index, task);
            return false;
        }
        if (is_over && state != LW_FINISHED && spec->after_policy == LW_AFTER_ABORT)
            spec->is_doomed = true;
    }
    return true;
}

static void drop_dependency(struct lw__index *index, struct lw__dependency *dependency) {
    unlink_dependency(dependency);
    remove_sibling(dependency);
    lw__task_spec(dependency->task)->after_left--;
    index->dependency_count--;
    lw__free(&index->allocator, dependency, sizeof *dependency);
}

void lw__index_undepend_locked(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    while (spec && spec->dependencies) {
        LW__POINT("undepend: looks at one");
        drop_dependency(index, spec->dependencies);
    }
}

/* The first of those it waits for that is there and did not finish; 0: it has left. */
static uint64_t find_unfinished(const struct lw__index *index, const struct lw__spec *spec,
                                lw_state *state) {
    for (uint32_t i = 0; i < spec->after_count; i++) {
        const struct lw__task *other = lw__ids_find(&index->ids, spec->after[i]);
        *state = other ? lw__task_state(other) : LW_FINISHED;
        if (*state == LW_FAILED || *state == LW_ABORTED)
            return spec->after[i];
    }
    return 0;
}

void lw__index_abort_after_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    char why[80] = "a task that it waited for did not finish";
    lw_state state;
    uint64_t other = find_unfinished(index, lw__task_spec(task), &state);
    if (other != 0)
        snprintf(why, sizeof why, "task %llu, which it waited for, %s", (unsigned long long)other,
                 state == LW_FAILED ? "has failed" : "was aborted");
    lw__index_abort_locked(index, task, now, why);
}

/* One of those it waited for has ended. */
static void step_forward(struct lw__index *index, struct lw__task *task, bool is_finished,
                         uint64_t now) {
    const struct lw__spec *spec = lw__task_spec(task);
    if (!is_finished && spec->after_policy == LW_AFTER_ABORT) {
        lw__index_abort_after_locked(index, task, now);
        return;
    }
    if (spec->after_left == 0 && !(spec->member && spec->member->is_held))
        lw__index_release_locked(index, task, now);
}

static void release(struct lw__index *index, struct lw__task *task, uint64_t now, bool can_delay) {
    uint64_t due = lw__see(&task->due_at);
    if (lw__task_flags(task) & LW__TASK_WALL) { /* the clock may have been set since */
        uint64_t wall_due = lw__index_wall_due_locked(index, task, now);
        due = wall_due > now || due > now ? wall_due : due;
        lw__task_lock(task);
        lw__put(&task->due_at, due);
        lw__task_unlock(task);
    }
    lw__index_kind_of(index, task)->created--;
    index->created_count--;
    if (due > now && can_delay)
        lw__index_schedule_locked(index, task, LW__EVENT_DELAY, due, now);
    else
        lw__index_enqueue_locked(index, task, LW__EVENT_ENQUEUE, now);
}

void lw__index_release_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (lw__task_flags(task) & LW__TASK_UNSAVED)
        return; /* when it is durable, it is looked at again */
    release(index, task, now, !(index->restraints & LW__STORE_NO_DELAY));
    if (index->journal) /* or else it would wait again for one that was retried since */
        lw__journal_note(index->journal, LW__JOURNAL_CHANGE, task);
}

void lw__index_release_put_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                                  bool was_held) {
    release(index, task, now, !was_held || !(index->restraints & LW__STORE_NO_DELAY));
}

/* Moves those that wait for this task from their bucket to a list of their own, the oldest
 * first. */
static void take_dependents(struct lw__index *index, uint64_t on, struct lw__dependency **first) {
    struct lw__dependency *next;
    *first = NULL;
    for (struct lw__dependency *d = index->dependencies[bucket_of(index, on)]; d; d = next) {
        next = d->next;
        if (d->on != on)
            continue;
        unlink_dependency(d);
        link_dependency(first, d);
    }
}

void lw__index_release_dependents_locked(struct lw__index *index, const struct lw__task *task,
                                         uint64_t now) {
    bool is_finished = lw__task_state(task) == LW_FINISHED;
    struct lw__dependency *first;
    take_dependents(index, task->id, &first);
    while (first) { /* a step may drop others of them, too */
        struct lw__task *dependent = first->task;
        drop_dependency(index, first);
        step_forward(index, dependent, is_finished, now);
    }
}

/* Their tasks are gone already. */
void lw__index_free_dependencies(struct lw__index *index) {
    for (size_t i = 0; i < index->dependency_buckets; i++) {
        struct lw__dependency *next;
        for (struct lw__dependency *d = index->dependencies[i]; d; d = next) {
            next = d->next;
            lw__free(&index->allocator, d, sizeof *d);
        }
    }
    if (index->dependencies)
        lw__free(&index->allocator, index->dependencies,
                 index->dependency_buckets * sizeof *index->dependencies);
}
