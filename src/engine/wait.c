/* Looking at tasks, and waiting for their end. Readers hold up nobody: each copies one task within
 * a short grace section. */
#include "engine/engine_internal.h"

#include <limits.h>
#include <string.h>

#define LIST_LIMIT_DEFAULT 100

/* ---- one task ------------------------------------------------------------------------------ */

/* A submit makes a task known before it is complete; until it has a state it is not there. (The
 * state is written after all that is fixed, so that who has seen it may read that.) */
static bool is_there(const struct lw__task *task) {
    return task && lw__task_state(task) != 0;
}

/* How a task is, for those who wait for its end. */
struct sight {
    lw_state state;
    bool is_over; /* it has ended, and a durable store has written that */
};

/* An end that is not written yet is none for those who wait: a crash would take it back. (The flag
 * is set before the state, and cleared when the end is written.) */
static void see(const struct lw__task *task, lw_state state, struct sight *sight) {
    sight->state = state;
    sight->is_over = lw_state_is_terminal(state) && !(lw__task_flags(task) & LW__TASK_UNSAVED);
}

/* Copies a task; if nobody wants a copy it just says how it is. */
static int look(lw_engine *engine, lw_id id, lw_snapshot *snapshot, struct sight *sight) {
    struct lw__index *index = engine->index;
    bool must_read = false;
    int rc = LW_ENOTFOUND;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    if (is_there(task)) {
        LW__POINT("look: found, not copied");
        rc = snapshot ? lw__snapshot_fill(engine, task, snapshot, &must_read) : LW_OK;
        see(task, snapshot ? snapshot->state : lw__task_state(task), sight);
    }
    lw__grace_leave(&index->grace, ticket);
    return rc == LW_OK && must_read ? lw__snapshot_read(engine, snapshot) : rc;
}

/* A snapshot that could not be filled is empty, so that nobody takes an old one for the new one. */
static int get(lw_engine *engine, lw_id id, lw_snapshot *snapshot) {
    struct sight sight;
    int rc = lw__engine_remote(engine) ? lw__client_get(engine, id, snapshot)
                                       : look(engine, id, snapshot, &sight);
    if (rc < 0)
        lw_snapshot_clear(snapshot);
    return rc;
}

int lw_get(lw_engine *engine, lw_id id, lw_snapshot *snapshot) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    return snapshot ? get(engine, id, snapshot) : LW_EINVAL;
}

int lw_get_state(lw_engine *engine, lw_id id, lw_state *state) {
    lw_snapshot copy = LW_SNAPSHOT_INIT;
    struct sight sight = {.state = (lw_state)0};
    int rc = lw__engine_check(engine);
    if (rc < 0 || !state)
        return rc < 0 ? rc : LW_EINVAL;
    if (lw__engine_remote(engine)) {
        rc = lw__client_get(engine, id, &copy);
        sight.state = copy.state;
        lw_snapshot_clear(&copy);
    } else {
        rc = look(engine, id, NULL, &sight);
    }
    if (rc == LW_OK)
        *state = sight.state;
    return rc;
}

/* ---- by key -------------------------------------------------------------------------------- */

static lw_id find_id(struct lw__index *index, uint16_t kind, const char *key) {
    struct lw__keys_pair pair = lw__keys_pair(&index->keys, kind, key, strlen(key));
    lw__brief_lock(&index->mu);
    const struct lw__task *task = lw__keys_find(&index->keys, &pair);
    lw_id id = task ? task->id : 0;
    lw__brief_unlock(&index->mu);
    return id;
}

int lw_find(lw_engine *engine, const char *kind, const char *key, lw_snapshot *snapshot) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (!kind || !key || !snapshot)
        return LW_EINVAL;
    if (lw__engine_remote(engine)) {
        rc = lw__client_find(engine, kind, key, snapshot);
        if (rc < 0)
            lw_snapshot_clear(snapshot);
        return rc;
    }
    const struct lw__kind_info *info = lw__registry_find_kind(engine, kind);
    return get(engine, info ? find_id(engine->index, info->number, key) : 0, snapshot);
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* It will not end here any more. A handler that waited for what a drop does not start would keep
 * the engine from stopping. */
static bool is_given_up(lw_engine *engine, lw_state state) {
    if (atomic_load(&engine->has_stopped))
        return true;
    return lw__engine_stop_level(engine) == LW__STOP_DROP && state != LW_STARTED
           && lw__hand_is_inside(engine);
}

/* Until the task, which is in this state, ends, or the deadline. False: it would be for ever. */
static bool sleep_until(lw_engine *engine, struct lw__await *me, uint64_t deadline,
                        lw_state state) {
    lw_clock *clock = engine->set.clock;
    enum lw__pass pass = LW__PASS_LOOK;
    while (!atomic_load(&me->is_over) && lw__now(clock) < deadline && pass != LW__PASS_NEVER
           && !is_given_up(engine, state)) {
        pass = lw__driver_pass(engine, deadline);
        if (pass == LW__PASS_WAIT)
            clock->wait(clock, &me->is_over, 0, deadline);
    }
    return pass != LW__PASS_NEVER;
}

/* The same for a handler, whose worker may have to be replaced. */
static bool sleep_inside(lw_engine *engine, struct lw__await *me, uint64_t deadline,
                         lw_state state) {
    struct lw__nested nested = {.id = me->id, .is_bounded = deadline != LW__NEVER};
    if (!lw__nested_enter(engine, &nested))
        return false;
    bool is_worthwhile = sleep_until(engine, me, deadline, state);
    if (!lw__engine_is_forked(engine))
        lw__nested_leave(engine, &nested);
    return is_worthwhile;
}

/* Sleeps, and looks. The look comes before the announcement is taken back: as long as a waiter is
 * announced the store may keep the task for it. *is_vain: to wait on would be for ever. */
static int await_end(lw_engine *engine, lw_id id, uint64_t deadline, lw_snapshot *snapshot,
                     struct sight *sight, bool *is_vain) {
    struct lw__store *store = engine->store;
    struct lw__await me = {.id = id};
    bool is_announced = store->ops->await(store, &me) == LW_OK;
    LW__POINT("await: announced, not asleep");
    *is_vain = false;
    if (is_announced)
        *is_vain = lw__hand_is_inside(engine) ? !sleep_inside(engine, &me, deadline, sight->state)
                                              : !sleep_until(engine, &me, deadline, sight->state);
    int rc = look(engine, id, snapshot, sight);
    LW__POINT("await: looked, still announced");
    if (is_announced)
        store->ops->unawait(store, &me);
    return rc;
}

/* It was there and is not any more: it has ended, and nobody can tell how. */
static int end_unseen(lw_snapshot *snapshot) {
    if (snapshot)
        snapshot->state = (lw_state)0;
    return LW_OK;
}

/* Looks once more: it may have been the last to end. LW_PENDING: it is to be waited for after
 * all. */
static int give_up(lw_engine *engine, lw_id id, lw_snapshot *snapshot, struct sight *sight) {
    int rc = look(engine, id, snapshot, sight);
    if (rc == LW_ENOTFOUND)
        return end_unseen(snapshot);
    if (rc < 0 || sight->is_over)
        return rc;
    return is_given_up(engine, sight->state) ? LW_ESTOPPING : LW_PENDING;
}

/* A task that was retried by hand before we could look is waited for again. One that waits for its
 * own task is told so, however soon its time is over; is_look: it does not want to wait. */
static int wait_until(lw_engine *engine, lw_id id, uint64_t deadline, bool is_look,
                      lw_snapshot *snapshot) {
    struct sight sight;
    bool is_vain = false;
    int rc = look(engine, id, snapshot, &sight);
    if (rc < 0)
        return rc;
    while (!sight.is_over) {
        if (is_given_up(engine, sight.state) && deadline > lw__engine_now(engine)
            && (rc = give_up(engine, id, snapshot, &sight)) != LW_PENDING)
            return rc;
        if (is_vain)
            return lw__engine_is_forked(engine) ? LW_EFORKED
                   : lw__hand_is_inside(engine) ? LW_EDEADLOCK
                                                : LW_PENDING;
        if (!is_look && lw__hand_runs(engine, id))
            return LW_EDEADLOCK;
        if (lw__engine_now(engine) >= deadline)
            return LW_PENDING;
        rc = await_end(engine, id, deadline, snapshot, &sight, &is_vain);
        if (rc == LW_ENOTFOUND)
            return end_unseen(snapshot);
        if (rc < 0)
            return rc;
    }
    return LW_OK;
}

int lw_wait(lw_engine *engine, lw_id id, int64_t timeout_ms, lw_snapshot *snapshot) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (timeout_ms < -1 || timeout_ms > LW_TIMEOUT_MS_MAX)
        return LW_EINVAL;
    uint64_t deadline = lw__deadline_in(engine->set.clock, timeout_ms);
    rc = lw__engine_remote(engine) ? lw__client_wait(engine, id, deadline, snapshot)
                                   : wait_until(engine, id, deadline, timeout_ms == 0, snapshot);
    if (rc < 0 && rc != LW_ESTOPPING)
        lw_snapshot_clear(snapshot);
    return rc;
}

/* ---- many ---------------------------------------------------------------------------------- */

/* A filter, with names found. */
struct wanted {
    lw_state state; /* 0: any */
    bool is_unfinished;
    const struct lw__kind_info *kind; /* NULL: any */
    const struct lw__queue_info *queue;
    const char *key;
    size_t key_size;
};

static int check_filter(const lw_filter *filter) {
    bool is_fine = filter->struct_size == sizeof *filter && (unsigned)filter->state <= LW_ABORTED;
    return is_fine ? LW_OK : LW_EINVAL;
}

/* False: nothing can match, because the engine has never heard of a name. */
static bool resolve(lw_engine *engine, const lw_filter *filter, struct wanted *wanted) {
    *wanted = (struct wanted){
        .state = filter->state,
        .is_unfinished = filter->is_unfinished,
        .kind = filter->kind ? lw__registry_find_kind(engine, filter->kind) : NULL,
        .queue = filter->queue ? lw__registry_find_queue(engine, filter->queue) : NULL,
        .key = filter->key,
        .key_size = filter->key ? strlen(filter->key) : 0,
    };
    return (wanted->kind || !filter->kind) && (wanted->queue || !filter->queue);
}

static bool suits_state(const struct wanted *wanted, lw_state state) {
    return (wanted->state == 0 || wanted->state == state)
           && !(wanted->is_unfinished && lw_state_is_terminal(state));
}

static bool suits_key(const struct wanted *wanted, const struct lw__spec *spec) {
    return !wanted->key
           || (spec && spec->key_size == wanted->key_size && wanted->key_size > 0
               && memcmp(lw__spec_key(spec), wanted->key, wanted->key_size) == 0);
}

static bool suits(const struct wanted *wanted, const struct lw__task *task) {
    return is_there(task) && suits_state(wanted, lw__task_state(task))
           && (!wanted->kind || task->kind == wanted->kind->number)
           && (!wanted->queue || task->queue == wanted->queue->number)
           && suits_key(wanted, lw__task_spec(task));
}

/* Looks at the first task above *after. LW_OK: the snapshot shows it; LW_PENDING: it does not
 * suit. */
static int look_at_next(lw_engine *engine, const struct wanted *wanted, lw_id *after,
                        lw_snapshot *snapshot) {
    struct lw__index *index = engine->index;
    bool must_read = false;
    int rc = LW_ENOTFOUND;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find_from(&index->ids, *after + 1);
    if (task) {
        *after = task->id;
        rc = suits(wanted, task) ? lw__snapshot_fill(engine, task, snapshot, &must_read)
                                 : LW_PENDING;
    }
    lw__grace_leave(&index->grace, ticket);
    if (rc == LW_OK && !suits_state(wanted, snapshot->state))
        rc = LW_PENDING; /* it has changed between the two looks */
    if (rc == LW_OK && must_read && (rc = lw__snapshot_read(engine, snapshot)) == LW_ENOTFOUND)
        rc = LW_PENDING; /* it has left since */
    return rc;
}

static int list(lw_engine *engine, const struct wanted *wanted, lw_id after, size_t limit,
                bool (*each)(void *user, const lw_snapshot *task), void *user) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    size_t shown = 0;
    bool is_enough = false;
    int rc = LW_OK;
    while (!is_enough && shown < limit && after < UINT64_MAX) {
        rc = look_at_next(engine, wanted, &after, &snapshot);
        if (rc < 0)
            break;
        if (rc == LW_OK) {
            shown++;
            is_enough = !each(user, &snapshot);
        }
    }
    lw_snapshot_clear(&snapshot);
    return rc < 0 && rc != LW_ENOTFOUND ? rc : (int)shown;
}

int lw_list(lw_engine *engine, const lw_filter *filter,
            bool (*each)(void *user, const lw_snapshot *task), void *user) {
    const lw_filter all = {.struct_size = sizeof all};
    struct wanted wanted;
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    if (!filter)
        filter = &all;
    if (!each || check_filter(filter) < 0)
        return LW_EINVAL;
    size_t limit = filter->limit > 0 ? filter->limit : LIST_LIMIT_DEFAULT;
    limit = limit < INT_MAX ? limit : INT_MAX;
    if (lw__engine_remote(engine))
        return lw__client_list(engine, filter, limit, each, user);
    if (!resolve(engine, filter, &wanted))
        return 0;
    return list(engine, &wanted, filter->after, limit, each, user);
}
