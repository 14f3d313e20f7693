/* Whatever has become due: delays and back-offs, limits of tasks, retention; and wall times, when
 * the clock was set. */
#include "store/index.h"

#define SWEEP_MAX 256 /* of each sort, while the mutex is held */
#define WALL_CHECK_NS \
    (60 * LW__NS_PER_S)  /* how soon a set clock is noticed while a task waits for it */
#define WALL_STEP_MS 100 /* less is drift */

void lw__index_unschedule_locked(struct lw__index *index, struct lw__task *task) {
    lw__index_kind_of(index, task)->scheduled--;
    index->scheduled_count--;
    if (lw__task_flags(task) & LW__TASK_WALL)
        index->wall_count--;
}

/* It is due now: otherwise it would stand behind all that came meanwhile. */
void lw__index_run_now_locked(struct lw__index *index, struct lw__task *task, uint64_t now) {
    lw__timer_cancel(&index->scheduled, &task->timer);
    lw__index_unschedule_locked(index, task);
    lw__task_lock(task);
    lw__task_flag(task, 0, LW__TASK_WALL);
    lw__put(&task->due_at, now);
    lw__task_unlock(task);
    lw__index_enqueue_locked(index, task, LW__EVENT_ENQUEUE, now);
}

static void ring_scheduled(struct lw__index *index, struct lw__task *task, uint64_t now) {
    if (lw__task_state(task) != LW_SCHEDULED) { /* terminal; it stayed for its key */
        lw__task_lock(task);
        lw__task_flag(task, 0, LW__TASK_LINGERS);
        lw__task_unlock(task);
        index->lingering--;
        lw__index_leave_locked(index, task);
        index->swept++;
        return;
    }
    lw__index_unschedule_locked(index, task);
    lw__task_lock(task);
    lw__task_flag(task, 0, LW__TASK_WALL);
    lw__task_unlock(task);
    lw__index_enqueue_locked(index, task, LW__EVENT_ENQUEUE, now);
}

/* ---- start_by and finish_by --------------------------------------------------------------- */

/* A worker that has it begins without the mutex: one that could not be aborted was in time. */
static void ring_limit(struct lw__index *index, struct lw__spec *spec, uint64_t now) {
    struct lw__task *task = spec->task;
    lw_state state = lw__task_state(task);
    if (lw_state_is_terminal(state))
        return;
    bool is_idle = state != LW_STARTED, is_over = now >= spec->finish_by;
    bool is_late = now >= spec->start_by && lw__see(&task->started_at) == 0;
    if (is_idle && is_over
        && lw__index_abort_idle_locked(index, task, now, "it was not finished in time"))
        return;
    if (is_idle && is_late && !is_over
        && lw__index_abort_idle_locked(index, task, now, "it was not started in time"))
        return;
    if (is_over)
        lw__index_ask_locked(index, task, LW_REASON_TIMEOUT);
    else if (spec->finish_by != LW__NEVER)
        lw__timer_set(&index->alarms, &spec->limit.timer, spec->finish_by);
}

static void ring_alarm(struct lw__index *index, struct lw__alarm *alarm, uint64_t now) {
    switch (alarm->type) {
    case LW__ALARM_LIMIT:
        ring_limit(index, LW__TIMER_OWNER(alarm, struct lw__spec, limit), now);
        break;
    case LW__ALARM_RETAINED:
        lw__retained_trim_locked(index, LW__TIMER_OWNER(alarm, struct lw__retained, alarm), now);
        break;
    case LW__ALARM_LEASE:
        lw__lease_ring_locked(index, LW__TIMER_OWNER(alarm, struct lw__lease, alarm), now);
        break;
    }
}

/* ---- wall time ---------------------------------------------------------------------------- */

uint64_t lw__index_wall_due_locked(const struct lw__index *index, const struct lw__task *task,
                                   uint64_t now) {
    int64_t wait_ms = lw__task_spec(task)->run_at_ms - lw__wall_ms(index->options.clock);
    return wait_ms > 0 ? now + (uint64_t)wait_ms * LW__NS_PER_MS : now;
}

static void reschedule_wall(struct lw__index *index, struct lw__task *task, uint64_t now) {
    uint64_t due = lw__index_wall_due_locked(index, task, now);
    lw__timer_cancel(&index->scheduled, &task->timer);
    lw__task_lock(task);
    lw__put(&task->due_at, due);
    lw__task_unlock(task);
    lw__timer_set(&index->scheduled, &task->timer, due);
}

int64_t lw__index_see_wall(struct lw__index *index) {
    int64_t offset = lw__wall_offset_ms(index->options.clock);
    int64_t known = atomic_load_explicit(&index->wall_offset_ms, memory_order_relaxed);
    if (offset < known + WALL_STEP_MS && offset > known - WALL_STEP_MS)
        return known;
    atomic_store_explicit(&index->wall_offset_ms, offset, memory_order_relaxed);
    return offset;
}

/* The clock was set: all that waits for a wall time is looked at again. */
static void check_wall(struct lw__index *index, uint64_t now) {
    int64_t offset = lw__index_see_wall(index);
    if (offset == index->wall_planned_ms)
        return;
    index->wall_planned_ms = offset;
    if (index->wall_count == 0)
        return;
    for (struct lw__task *task = lw__ids_find_from(&index->ids, 1); task;
         task = lw__ids_find_from(&index->ids, task->id + 1)) {
        if (lw__task_state(task) == LW_SCHEDULED && lw__task_flags(task) & LW__TASK_WALL)
            reschedule_wall(index, task, now);
    }
}

/* ---- all ---------------------------------------------------------------------------------- */

static uint64_t next_due(const struct lw__index *index, uint64_t now) {
    bool can_release = !(index->restraints & LW__STORE_NO_RELEASE);
    uint64_t due = can_release ? lw__timer_next_due(&index->scheduled) : LW__NEVER;
    uint64_t alarm = lw__timer_next_due(&index->alarms);
    if (alarm < due)
        due = alarm;
    if (index->wall_count > 0 && due > now + WALL_CHECK_NS)
        due = now + WALL_CHECK_NS;
    if (lw__index_has_retired(index) && due > now + LW__RETIRED_NS)
        due = now + LW__RETIRED_NS;
    return due;
}

uint64_t lw__index_sweep(struct lw__store *store, uint64_t now) {
    struct lw__index *index = store->index;
    struct lw__timer *timer;
    lw__index_lock(index);
    check_wall(index, now);
    bool can_release = !(index->restraints & LW__STORE_NO_RELEASE);
    for (int i = 0; can_release && i < SWEEP_MAX; i++) {
        timer = lw__timer_pop(&index->scheduled, now);
        if (!timer)
            break;
        ring_scheduled(index, LW__TIMER_OWNER(timer, struct lw__task, timer), now);
    }
    for (int i = 0; i < SWEEP_MAX && (timer = lw__timer_pop(&index->alarms, now)); i++)
        ring_alarm(index, LW__TIMER_OWNER(timer, struct lw__alarm, timer), now);
    lw__grace_collect(&index->grace);
    index->planned = next_due(index, now);
    uint64_t due = index->planned;
    lw__index_unlock(index);
    return due;
}
