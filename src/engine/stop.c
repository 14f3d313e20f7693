/* Stopping, and waiting for quiet. */
#include "engine/engine_internal.h"

static enum lw__stop_level level_of(lw_stop_mode mode) {
    return mode == LW_DROP ? LW__STOP_DROP : mode == LW_DRAIN ? LW__STOP_DRAIN : LW__STOP_DRAIN_ALL;
}

/* True: it is harder than before. */
static bool raise_level(lw_engine *engine, enum lw__stop_level level) {
    uint32_t seen = atomic_load(&engine->stop_level);
    do {
        if (seen >= (uint32_t)level)
            return false;
    } while (!atomic_compare_exchange_weak(&engine->stop_level, &seen, (uint32_t)level));
    return true;
}

/* What was claimed and not begun goes back, and what runs is asked to give up. A hand that begins
 * after this looks at the level itself. */
static void begin_drop(lw_engine *engine) {
    engine->store->ops->restrain(engine->store, LW__STORE_NO_CLAIM);
    LW__POINT("stop: no claims, none taken back");
    lw__hand_relieve_all(engine, false);
    lw__hand_end_all(engine, LW_REASON_DROPPED);
    lw__index_rouse_awaits(engine->index); /* handlers that wait for what will not run */
    lw__layer_rouse(engine);
}

static void begin_drain_all(lw_engine *engine) {
    uint64_t after = 0;
    engine->store->ops->restrain(engine->store, LW__STORE_NO_DELAY);
    while (engine->store->ops->bring_forward(engine->store, lw__engine_now(engine), &after))
        lw__engine_attend(engine);
    lw__engine_attend(engine);
}

static void go_to_level(lw_engine *engine, enum lw__stop_level level) {
    LW__POINT("stop: level raised, store not told");
    engine->store->ops->restrain(engine->store, LW__STORE_NO_PUT | LW__STORE_NO_RELEASE);
    lw__lot_wake_all(&engine->room); /* they are refused now */
    if (level == LW__STOP_DRAIN_ALL)
        begin_drain_all(engine);
    else if (level == LW__STOP_DROP)
        begin_drop(engine);
}

/* Another stop that finds the level raised already waits until that one is through with it. */
static void begin(lw_engine *engine, enum lw__stop_level level) {
    atomic_fetch_add(&engine->beginning, 1);
    if (raise_level(engine, level))
        go_to_level(engine, level);
    atomic_fetch_sub(&engine->beginning, 1);
    lw__lot_wake_all(&engine->quiet); /* what they wait for may be less now */
}

static bool has_workers(lw_engine *engine) {
    return atomic_load(&engine->is_started) && engine->set.workers > 0;
}

static bool is_quiet(lw_engine *engine) {
    enum lw__stop_level level = lw__engine_stop_level(engine);
    if (atomic_load(&engine->beginning) > 0 || !lw__answers_are_told(engine))
        return false;
    return engine->store->ops->is_quiet(engine->store,
                                        level != LW__STOP_DROP && has_workers(engine));
}

/* Nothing runs, and nothing will any more: whoever waits for more is told. (One that its program
 * drives is quiet at once, but it has stopped when that has run what it drains.) False: a queue was
 * resumed just now, and what that has begun has to end first. */
static bool conclude(lw_engine *engine) {
    struct lw__store *store = engine->store;
    enum lw__stop_level level = lw__engine_stop_level(engine);
    bool is_drained_too = level != LW__STOP_DROP && atomic_load(&engine->is_started);
    if (level == LW__RUNNING || atomic_load(&engine->has_stopped)
        || !store->ops->is_quiet(store, is_drained_too))
        return true;
    LW__POINT("stop: quiet, claims possible");
    store->ops->restrain(store, LW__STORE_NO_CLAIM);
    if (!store->ops->is_quiet(store, is_drained_too))
        return false;
    atomic_store(&engine->has_stopped, true);
    LW__POINT("stop: stopped, nobody told");
    lw__events_end(engine);
    lw__index_rouse_awaits(engine->index);
    lw__layer_rouse(engine);
    if (lw__engine_remote(engine))
        lw__engine_remote(engine)->rouse(store);
    return true;
}

static bool find_quiet(lw_engine *engine) {
    return is_quiet(engine) && conclude(engine);
}

void lw__stop_look(lw_engine *engine) {
    if (find_quiet(engine))
        lw__lot_wake_all(&engine->quiet);
}

/* False: the time is over, or this is a child that was forked in a callback. */
static bool wait_for_quiet(lw_engine *engine, uint64_t deadline) {
    for (;;) {
        struct lw__waiter me = {0};
        if (!has_workers(engine))
            lw__hand_tell_here(engine); /* nobody else would */
        if (lw__engine_is_forked(engine))
            return false;
        lw__lot_enter(&engine->quiet, &me);
        LW__POINT("quiet: entered, not looked");
        if (find_quiet(engine)) {
            lw__lot_leave(&engine->quiet, &me);
            return true;
        }
        if (!lw__lot_wait(&engine->quiet, &me, engine->set.clock, deadline))
            return find_quiet(engine);
    }
}

/* What runs is asked to give up, and so is what begins from now on. */
static void end_time(lw_engine *engine) {
    atomic_store(&engine->is_out_of_time, true);
    LW__POINT("stop: out of time, nobody asked");
    lw__hand_end_all(engine, LW_REASON_STOP);
}

uint64_t lw__stop_watch(lw_engine *engine, uint64_t now) {
    uint64_t deadline = atomic_load(&engine->stop_deadline);
    if (deadline > now)
        return deadline;
    if (atomic_exchange(&engine->stop_deadline, LW__NEVER) != LW__NEVER)
        end_time(engine);
    return LW__NEVER;
}

/* Nobody waits for it here: the scheduler looks at the time instead. The earliest deadline counts,
 * as it does of stops that wait. */
static int leave_to_scheduler(lw_engine *engine, uint64_t deadline) {
    if (deadline <= lw__engine_now(engine)) {
        end_time(engine);
        return LW_PENDING;
    }
    uint64_t seen = atomic_load(&engine->stop_deadline);
    while (deadline < seen
           && !atomic_compare_exchange_weak(&engine->stop_deadline, &seen, deadline))
        ;
    lw__scheduler_hasten(engine, deadline);
    return LW_PENDING;
}

static int check_times(const lw_engine *engine, int64_t timeout_ms) {
    int rc = lw__engine_check(engine);
    if (rc == LW_OK && (timeout_ms < -1 || timeout_ms > LW_TIMEOUT_MS_MAX))
        rc = LW_EINVAL;
    return rc;
}

/* What other processes have submitted before is to be drained, too, and is waited for. */
static void take_in(lw_engine *engine, int64_t timeout_ms) {
    struct lw__store *store = engine->store;
    if (store->ops->take_in && atomic_load(&engine->is_started)
        && lw__engine_stop_level(engine) == LW__RUNNING)
        store->ops->take_in(store, lw__deadline_in(lw__clock_system(), timeout_ms));
}

int lw_stop(lw_engine *engine, lw_stop_mode mode, int64_t timeout_ms) {
    int rc = check_times(engine, timeout_ms);
    if (rc < 0)
        return rc;
    if (mode != LW_DRAIN && mode != LW_DROP && mode != LW_DRAIN_ALL)
        return LW_EINVAL;
    uint64_t deadline = lw__deadline_in(engine->set.clock, timeout_ms);
    bool is_inside = lw__hand_is_inside(engine);
    if (mode != LW_DROP && !is_inside)
        take_in(engine, timeout_ms);
    begin(engine, level_of(mode));
    if (is_inside)
        return leave_to_scheduler(engine, deadline);
    if (!wait_for_quiet(engine, deadline)) {
        if (lw__engine_is_forked(engine))
            return LW_EFORKED;
        atomic_store(&engine->has_timed_out, true);
        end_time(engine);
        return LW_ETIMEDOUT;
    }
    lw__events_end(engine);
    return LW_OK;
}

int lw_wait_idle(lw_engine *engine, int64_t timeout_ms) {
    int rc = check_times(engine, timeout_ms);
    if (rc < 0 || lw__engine_remote(engine))
        return rc < 0 ? rc : LW_EINVAL;
    if (lw__hand_is_inside(engine))
        return LW_EDEADLOCK;
    uint64_t deadline = lw__deadline_in(engine->set.clock, timeout_ms);
    take_in(engine, timeout_ms);
    if (wait_for_quiet(engine, deadline))
        return LW_OK;
    return lw__engine_is_forked(engine) ? LW_EFORKED : LW_ETIMEDOUT;
}
