/* Handlers and callbacks that wait for tasks, or for resources of flows (lw_wait, lw_flow_wait
 * inside).
 *
 * A worker that waits runs nothing meanwhile. If all of them did so, no task that they wait for
 * could run. Therefore the last one that is not waiting is replaced before it waits, as a stuck
 * worker is (pool/staff.h), within stuck_max; its thread is given back when its token ends.
 *
 * A wait without a timeout that could never end is refused instead. Every such wait is looked at
 * before it begins, together with those that are under way: it could never end if the task waits
 * for a place of its kind, or for a worker, and all of these are held by waits of the same sort; if
 * it runs, and its own handler is in such a wait; or if it comes after such a task. To find out,
 * all waits count as blocked at first, and those that can end are released until nothing changes.
 * What anybody may do from outside (resume a queue, finish a task under a lease, start the engine)
 * counts as possible, and a wait with a timeout as one that ends. So a task is refused only if
 * nobody but an operator who cancels it could help.
 *
 * No set of waits that block each other comes into being, because the one that would complete it is
 * refused, and only a wait adds to it. (An engine whose workers are stuck beyond stuck_max loses
 * workers later, too: those who wait then wait for that.) */
#include "base/log.h"
#include "engine/engine_internal.h"
#include "pool/staff.h"

#include <sched.h>

#define AFTER_DEPTH_MAX 16 /* of tasks that come after tasks; deeper ones count as possible */

/* Why a task could not run; the first reason that was found. */
enum obstacle { NO_OBSTACLE, NO_WORKER, NO_PLACE, NO_END };

static const char *const sentences[] = {
    [NO_OBSTACLE] = "",
    [NO_WORKER] = "no worker is left to run it: all of them wait, and stuck_max allows no more",
    [NO_PLACE] = "its kind has as many attempts as its concurrency allows, and all of them wait",
    [NO_END] = "those that wait, wait for each other",
};

/* What one look is about; under the store's lock and hands_mu. */
struct judging {
    lw_engine *engine;
    uint32_t free_workers; /* that are not in a blocked wait, or could be had */
    enum obstacle obstacle;
};

/* ---- hands --------------------------------------------------------------------------------- */

/* The worker of a wait's thread; NULL: it is none, or its place is taken by another already. */
static struct lw__hand *worker_of(const struct lw__nested *wait) {
    struct lw__hand *hand = wait->hand;
    while (hand && !(hand->engine == wait->hand->engine && hand->pool_ctx))
        hand = hand->outer;
    return hand && !atomic_load(&hand->is_stuck) ? hand : NULL;
}

/* How many attempts of this kind the thread of a wait is in. */
static uint32_t count_places(const struct lw__nested *wait, uint16_t kind) {
    uint32_t count = 0;
    for (const struct lw__hand *hand = wait->hand; hand; hand = hand->outer) {
        const struct lw__task *task = atomic_load(&hand->task);
        count += hand->engine == wait->hand->engine && task && task->kind == kind;
    }
    return count;
}

/* Whether the thread of a wait runs this task. */
static bool runs(const struct lw__nested *wait, uint64_t id) {
    for (const struct lw__hand *hand = wait->hand; hand; hand = hand->outer) {
        const struct lw__task *task = atomic_load(&hand->task);
        if (hand->engine == wait->hand->engine && task && task->id == id)
            return true;
    }
    return false;
}

/* Workers that can run tasks or wait: all, but for those that are stuck and were not replaced. */
static uint32_t count_present(const lw_engine *engine, uint32_t stuck) {
    uint32_t lost = stuck > engine->set.stuck_max ? stuck - engine->set.stuck_max : 0;
    return engine->set.workers > lost ? engine->set.workers - lost : 0;
}

/* Those whose place is taken by another, or was. */
static uint32_t count_stuck_locked(const lw_engine *engine) {
    uint32_t count = 0;
    for (const struct lw__hand *hand = engine->hands; hand; hand = hand->next)
        count += hand->pool_ctx && atomic_load(&hand->is_stuck);
    return count;
}

static uint32_t count_waiting_locked(const lw_engine *engine, bool only_blocked) {
    uint32_t count = 0;
    for (const struct lw__nested *wait = engine->nested; wait; wait = wait->next)
        count += (wait->is_blocked || !only_blocked) && worker_of(wait);
    return count;
}

/* ---- could it ever end? -------------------------------------------------------------------- */

static bool refuse(struct judging *j, enum obstacle obstacle) {
    j->obstacle = obstacle;
    return false;
}

/* Whether one that is not in a blocked wait will give its place to the next. */
static bool gets_place(struct judging *j, const struct lw__task *task) {
    const struct lw__kind *kind = lw__index_kind_of(j->engine->index, task);
    bool has_one = lw__task_state(task) == LW_ENQUEUED && !task->place.lane;
    if (has_one || kind->claimed < kind->concurrency)
        return true;
    uint64_t blocked = 0;
    for (const struct lw__nested *wait = j->engine->nested; wait; wait = wait->next)
        blocked += wait->is_blocked ? count_places(wait, task->kind) : 0;
    return blocked < kind->claimed || refuse(j, NO_PLACE);
}

/* An engine without workers runs nothing while the thread that drives it waits inside. */
static bool gets_worker(struct judging *j) {
    const lw_engine *engine = j->engine;
    bool is_driven = true;
    if (engine->set.workers > 0)
        return j->free_workers > 0 || refuse(j, NO_WORKER);
    for (const struct lw__nested *wait = engine->nested; wait; wait = wait->next)
        is_driven &= !(wait->is_blocked && wait->is_driver);
    return is_driven || refuse(j, NO_WORKER);
}

/* Its attempt ends, unless that is in a blocked wait. */
static bool attempt_ends(struct judging *j, uint64_t id) {
    for (const struct lw__nested *wait = j->engine->nested; wait; wait = wait->next) {
        if (wait->is_blocked && runs(wait, id))
            return refuse(j, NO_END);
    }
    return true;
}

static bool task_ends(struct judging *j, uint64_t id, int depth);

static bool all_before_end(struct judging *j, const struct lw__task *task, int depth) {
    const struct lw__spec *spec = lw__task_spec(task);
    const struct lw__dependency *on = spec ? spec->dependencies : NULL;
    while (on && task_ends(j, on->on, depth + 1))
        on = on->sibling;
    return on == NULL;
}

static bool task_ends(struct judging *j, uint64_t id, int depth) {
    struct lw__index *index = j->engine->index;
    if (id == 0)
        return gets_worker(j);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    lw_state state = task ? lw__task_state(task) : LW_FINISHED;
    if (lw_state_is_terminal(state) || depth > AFTER_DEPTH_MAX)
        return true;
    if (state == LW_STARTED)
        return attempt_ends(j, id);
    if (!lw__index_kind_of(index, task)->has_handler || lw__index_queue_of(index, task)->is_paused
        || !atomic_load(&j->engine->is_started))
        return true; /* somebody else may run it, or let it run */
    return all_before_end(j, task, depth) && gets_place(j, task) && gets_worker(j);
}

/* Releases the waits that can end, as far as is known by now. False: there are none. */
static bool release_some_locked(lw_engine *engine, struct judging *j) {
    bool has_changed = false;
    for (struct lw__nested *wait = engine->nested; wait; wait = wait->next) {
        if (wait->is_blocked && task_ends(j, wait->id, 0)) {
            wait->is_blocked = false;
            has_changed = true;
        }
    }
    return has_changed;
}

/* can_replace: the worker that wants to wait can be replaced. Mostly the first look is enough. */
static bool is_for_ever_locked(struct judging *j, const struct lw__nested *me, bool can_replace) {
    lw_engine *engine = j->engine;
    uint32_t present = count_present(engine, count_stuck_locked(engine));
    bool can_end;
    for (struct lw__nested *wait = engine->nested; wait; wait = wait->next)
        wait->is_blocked = !wait->is_bounded;
    do {
        uint32_t blocked = count_waiting_locked(engine, true);
        j->free_workers = (present > blocked ? present - blocked : 0) + can_replace;
        can_end = task_ends(j, me->id, 0);
    } while (!can_end && release_some_locked(engine, j));
    if (!can_end)
        task_ends(j, me->id, 0); /* for its own obstacle */
    return !can_end;
}

/* ---- waiting ------------------------------------------------------------------------------- */

enum plan { WAIT, REPLACE, REFUSE };

/* may_replace: not after that has failed. */
static enum plan judge(struct judging *j, struct lw__nested *me, bool may_replace) {
    lw_engine *engine = j->engine;
    lw__index_lock(engine->index);
    lw__mutex_lock(&engine->hands_mu);
    uint32_t stuck = count_stuck_locked(engine);
    bool is_worker = worker_of(me) != NULL;
    bool can_replace = may_replace && is_worker && stuck < engine->set.stuck_max;
    bool is_last = is_worker && count_waiting_locked(engine, false) >= count_present(engine, stuck);
    enum plan plan = is_last && can_replace ? REPLACE : WAIT;
    if (!me->is_bounded && is_for_ever_locked(j, me, can_replace))
        plan = REFUSE;
    lw__mutex_unlock(&engine->hands_mu);
    lw__index_unlock(engine->index);
    return plan;
}

/* The hand's token ends with what it runs now: its place in the pool is another's. */
static void give_up_place(lw_engine *engine, struct lw__hand *hand) {
    lw__mutex_lock(&engine->hands_mu);
    if (!atomic_exchange(&hand->is_stuck, true))
        atomic_fetch_sub(&engine->tokens, 1);
    lw__mutex_unlock(&engine->hands_mu);
    atomic_store(&engine->has_news, 1);
    lw__engine_attend(engine);
}

/* LW_OK; LW_EFULL: a thread is on its way out, and has to be gone first; else: there is none. */
static int replace(lw_engine *engine, const struct lw__nested *me) {
    struct lw__hand *hand = worker_of(me);
    if (!hand)
        return LW_OK; /* declared stuck in the meantime */
    int rc = lw__pool_replace(hand->pool_ctx);
    if (rc == LW_OK)
        give_up_place(engine, hand);
    return rc;
}

static void enter(lw_engine *engine, struct lw__nested *me) {
    me->hand = lw__hand_innermost();
    while (me->hand->engine != engine)
        me->hand = me->hand->outer;
    me->is_driver = lw__driver_is_here(engine);
    lw__mutex_lock(&engine->hands_mu);
    me->next = engine->nested;
    me->link = &engine->nested;
    if (me->next)
        me->next->link = &me->next;
    engine->nested = me;
    lw__mutex_unlock(&engine->hands_mu);
}

static void log_refusal(const lw_engine *engine, const struct lw__nested *me,
                        enum obstacle obstacle) {
    const struct lw__task *task = atomic_load(&me->hand->task);
    lw__log(&engine->set.log, LW_LOG_WARN, "engine", "a handler would wait for a task for ever",
            LW__FIELD_TEXT("engine", engine->set.name), LW__FIELD_U64("id", task ? task->id : 0),
            LW__FIELD_U64("waits_for", me->id), LW__FIELD_TEXT("why", sentences[obstacle]));
}

bool lw__nested_enter(lw_engine *engine, struct lw__nested *me) {
    bool may_replace = true;
    enum plan plan;
    struct judging j = {.engine = engine};
    enter(engine, me);
    while ((plan = judge(&j, me, may_replace)) == REPLACE) {
        int rc = replace(engine, me);
        if (rc == LW_OK)
            return true;
        if (rc == LW_EFULL)
            sched_yield();
        else
            may_replace = false;
    }
    if (plan == WAIT)
        return true;
    lw__nested_leave(engine, me);
    log_refusal(engine, me, j.obstacle);
    return false;
}

void lw__nested_leave(lw_engine *engine, struct lw__nested *me) {
    lw__mutex_lock(&engine->hands_mu);
    *me->link = me->next;
    if (me->next)
        me->next->link = me->link;
    lw__mutex_unlock(&engine->hands_mu);
}
