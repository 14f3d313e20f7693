/* A put with a deadline.
 *
 * The caller may leave before the pump has told it, so the wait cannot be on the caller's stack.
 * Whoever is the second to be through with it, pump or caller, frees it. */
#include "store/db/bounded.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/memory.h"

enum { WAITING, TOLD, LEFT }; /* the states of a wait */

struct bounded {
    struct lw__journal_wait wait; /* first */
    _Atomic uint32_t state;
    const lw_allocator *allocator; /* the index's */
};

static void free_bounded(struct bounded *bounded) {
    lw__free(bounded->allocator, bounded, sizeof *bounded);
}

static void tell(struct lw__journal_wait *wait) {
    struct bounded *bounded = (struct bounded *)wait;
    if (atomic_exchange(&bounded->state, TOLD) == LEFT)
        free_bounded(bounded);
    else
        lw__futex_wake(&bounded->state, 1); /* its memory may be gone */
}

/* The store keeps specs of tasks that it has, or has had. */
static void forget(struct lw__put *puts, size_t count, int status) {
    for (size_t i = 0; i < count; i++) {
        if (puts[i].task)
            puts[i].spec = NULL;
        puts[i].task = NULL;
        puts[i].status = status;
    }
}

/* Whether somebody may rely on it already: it was told that the key is taken, waits for its end, or
 * comes after it. */
static bool is_relied_on_locked(const struct lw__index *index, const struct lw__task *task) {
    uint32_t flags = lw__task_flags(task);
    return task->is_found || task->is_needed || flags & LW__TASK_AWAITED
           || (flags & LW__TASK_WAITED && lw__index_is_awaited_locked(index, task->id));
}

/* False: the turn has begun, or somebody may rely on one of these. */
static bool withdraw_locked(struct lw__index *index, struct bounded *bounded,
                            const struct lw__put *puts, size_t count) {
    if (!lw__journal_is_collected_locked(index->journal, &bounded->wait))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (puts[i].task && is_relied_on_locked(index, puts[i].task))
            return false;
    }
    lw__journal_withdraw_locked(index, &bounded->wait, puts, count, lw__now(index->options.clock));
    return true;
}

/* Whether its end may be told, or has been. Then the turn is over, and the pump about to tell. */
static bool is_over_locked(const struct lw__index *index, const struct lw__put *put) {
    const struct lw__task *task = lw__ids_find(&index->ids, put->id);
    return !task
           || (lw_state_is_terminal(lw__task_state(task))
               && !(lw__task_flags(task) & LW__TASK_UNSAVED));
}

/* The caller does not wait any longer: it is told that nobody knows, and then no callback may come.
 * False: the pump has told it, or is about to. */
static bool leave_locked(struct lw__index *index, struct bounded *bounded,
                         const struct lw__put *puts, size_t count) {
    uint32_t state = WAITING;
    for (size_t i = 0; i < count; i++) {
        if (puts[i].task && is_over_locked(index, &puts[i]))
            return false;
    }
    if (!atomic_compare_exchange_strong(&bounded->state, &state, LEFT))
        return false;
    for (size_t i = 0; i < count; i++) {
        if (puts[i].task)
            lw__index_disarm_locked(index, lw__ids_find(&index->ids, puts[i].id));
    }
    return true;
}

static void sleep_until_told(struct lw__pump *pump, struct bounded *bounded, uint64_t deadline) {
    lw_clock *clock = pump->index->options.clock;
    while (atomic_load(&bounded->state) == WAITING && lw__now(clock) < deadline)
        clock->wait(clock, &bounded->state, WAITING, deadline);
}

static int take_answer(struct bounded *bounded) {
    while (atomic_load(&bounded->state) == WAITING)
        lw__futex_wait(&bounded->state, WAITING, LW__NEVER);
    int status = bounded->wait.status;
    free_bounded(bounded);
    return status;
}

/* Frees the wait, or leaves it to the pump. */
static int await_until(struct lw__pump *pump, struct bounded *bounded, const struct lw__put *puts,
                       size_t count, uint64_t deadline) {
    struct lw__index *index = pump->index;
    sleep_until_told(pump, bounded, deadline);
    if (atomic_load(&bounded->state) == TOLD)
        return take_answer(bounded);
    lw__index_lock(index);
    bool is_withdrawn = withdraw_locked(index, bounded, puts, count);
    bool has_left = !is_withdrawn && leave_locked(index, bounded, puts, count);
    lw__index_unlock(index);
    if (is_withdrawn)
        free_bounded(bounded);
    return is_withdrawn ? LW_ETIMEDOUT : has_left ? LW_EUNSURE : take_answer(bounded);
}

int lw__bounded_put(struct lw__pump *pump, uint64_t now, struct lw__put *puts, size_t count,
                    uint64_t deadline) {
    struct lw__index *index = pump->index;
    struct bounded *bounded = lw__alloc_zero(&index->allocator, sizeof *bounded);
    if (!bounded)
        return LW_ENOMEM;
    bounded->wait.over = tell;
    bounded->allocator = &index->allocator;
    lw__index_lock(index);
    int rc = index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING
                                                  : lw__index_put_locked(index, now, puts, count);
    if (rc >= 0)
        lw__journal_await_puts_locked(index->journal, &bounded->wait, puts, count);
    lw__index_unlock(index);
    if (rc < 0) {
        free_bounded(bounded);
        return rc;
    }
    if (pump->is_synchronous)
        lw__pump_run(pump);
    int status = await_until(pump, bounded, puts, count, deadline);
    if (status >= 0)
        return rc;
    forget(puts, count, status);
    return status;
}
