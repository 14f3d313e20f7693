/* The monitor: the one thread of a pool that looks at the time.
 *
 * It exists in pools with a guard timeout, in those where a worker has begun to hurry, and where a
 * task has begun a drain. It ends the contexts of tasks whose guard timeout has passed, or at the
 * drain's deadline, declares stuck those that go on regardless, and takes attention and batch away
 * from hurrying workers that do not move on (attention.c). It sleeps until the next moment at which
 * any of this can be needed: a task that starts now cannot be due before a whole timeout has
 * passed, so a guarded pool wakes it about once per timeout, not per task. When nobody works it
 * goes away altogether, until lw__monitor_call.
 */
#include "base/log.h"
#include "pool/pool_internal.h"

#define LINGER_TICKS 8 /* looks in vain before it goes away: being called back costs the worker */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

/* ---- one runner --------------------------------------------------------------------------------
 */

/* Notes since when the present task runs; false: none does. */
static bool note_task(struct lw__runner *r, uint64_t now) {
    uint64_t signal = atomic_load(&r->ctx.signal), number = signal >> LW__SIGNAL_SHIFT;
    if (signal & LW__SIGNAL_IDLE)
        return false;
    if (number == r->seen_number)
        return true;
    uint64_t started = atomic_load_explicit(&r->started, memory_order_acquire);
    r->seen_number = number;
    r->seen_at = started ? started : now;
    uint64_t unknown = 0, deadline = r->seen_at + r->pool->set.task_timeout_ns;
    if (r->pool->is_guarded && atomic_compare_exchange_strong(&r->ctx.deadline, &unknown, deadline)
        && atomic_load(&r->ctx.signal) >> LW__SIGNAL_SHIFT != number)
        atomic_compare_exchange_strong(&r->ctx.deadline, &deadline, 0); /* it was the next one's */
    return true;
}

static bool mark_stuck(struct lw__runner *r) {
    uint64_t signal = atomic_load(&r->ctx.signal);
    do {
        if (signal >> LW__SIGNAL_SHIFT != r->seen_number
            || signal & (LW__SIGNAL_IDLE | LW__SIGNAL_STUCK))
            return false;
    } while (!atomic_compare_exchange_weak(&r->ctx.signal, &signal, signal | LW__SIGNAL_STUCK));
    return true;
}

/* Ends what is overdue. Returns when to look again; *is_stuck: it has just been found stuck. */
static uint64_t guard(struct lw__runner *r, uint64_t now, bool *is_stuck) {
    uint64_t due = r->seen_at + r->pool->set.task_timeout_ns;
    if (now < due)
        return due;
    if (r->overdue_number != r->seen_number) { /* however late this look is, it gets its grace */
        r->overdue_number = r->seen_number;
        r->overdue_at = now;
        lw__ctx_end(&r->ctx, r->seen_number, LW_REASON_TIMEOUT);
    }
    if (now < r->overdue_at + LW__STUCK_GRACE_NS)
        return r->overdue_at + LW__STUCK_GRACE_NS;
    *is_stuck = mark_stuck(r);
    return LW__NEVER;
}

static void report_stuck(lw_pool *pool, const lw_pool_run_info *info) {
    atomic_fetch_add(&pool->stuck, 1);
    lw__log(&pool->set.log, LW_LOG_WARN, "pool", "a task ignores its guard timeout and is stuck",
            LW__FIELD_TEXT("pool", pool->set.name), LW__FIELD_I64("worker", (int32_t)info->worker),
            LW__FIELD_I64("running_ms", info->running_ms));
    if (pool->set.on_stuck)
        pool->set.on_stuck(pool->set.user, info);
    if (!lw__pool_is_alive(pool))
        pthread_exit(NULL); /* a child that was forked inside it: the rest is the parent's */
}

/* ---- workers -----------------------------------------------------------------------------------
 */

/* A hurrying worker that has not moved on for a whole tick is in a slow task. */
static void relieve(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    bool has_orphans = lw__batch_orphan(pool, &w->batch);
    LW__POINT("relieve: not revoked");
    lw__attention_withdraw(w);
    if (has_orphans)
        lw__attention_wake_first(pool);
}

static uint64_t watch_worker(struct lw__worker *w, uint64_t now) {
    struct lw__runner *r = &w->runner;
    bool is_hurrying = atomic_load(&w->is_hurrying) != 0, is_stuck = false;
    uint64_t next = is_hurrying ? now + LW__TICK_NS : LW__NEVER;
    if (!note_task(r, now))
        return next;
    if (is_hurrying && now - r->seen_at >= LW__TICK_NS)
        relieve(w);
    if (r->pool->is_guarded)
        next = earlier(next, guard(r, now, &is_stuck));
    if (is_stuck) {
        lw_pool_run_info info;
        bool is_there = lw__runner_describe(r, now, &info) && info.is_stuck;
        LW__POINT("stuck: marked, not written off");
        lw__crew_write_off(w);
        if (is_there) {
            info.running_ms = (int64_t)((now - r->seen_at) / LW__NS_PER_MS);
            report_stuck(r->pool, &info);
        }
    }
    return next;
}

/* ---- guests ------------------------------------------------------------------------------------
 */

/* Guests live on other threads' stacks: they are looked at under the lock, and the first that is
 * found stuck is reported after it. */
static uint64_t watch_guests(lw_pool *pool, uint64_t now) {
    uint64_t next = LW__NEVER;
    bool is_stuck = false;
    lw_pool_run_info info;
    lw__mutex_lock(&pool->mu);
    for (struct lw__runner *r = pool->guests; r && !is_stuck; r = r->next_guest) {
        if (!note_task(r, now))
            continue;
        next = earlier(next, guard(r, now, &is_stuck));
        if (is_stuck)
            is_stuck = lw__runner_describe(r, now, &info);
    }
    lw__mutex_unlock(&pool->mu);
    if (!is_stuck)
        return next;
    report_stuck(pool, &info);
    return now; /* there may be more */
}

/* ---- the thread --------------------------------------------------------------------------------
 */

/* Looks at everybody. Returns when to look again; *is_anybody: somebody is at work. */
static uint64_t watch_all(lw_pool *pool, uint64_t now, bool *is_anybody) {
    lw__mutex_lock(&pool->mu);
    uint32_t slots = pool->worker_slots; /* places are never taken away */
    lw__mutex_unlock(&pool->mu);
    uint64_t next = LW__NEVER;
    *is_anybody = pool->is_guarded && atomic_load(&pool->guest_count) > 0;
    for (uint32_t i = 0; i < slots; i++) {
        struct lw__worker *w = pool->workers[i];
        *is_anybody |= atomic_load(pool->is_guarded ? &w->is_up : &w->is_hurrying) != 0;
        next = earlier(next, watch_worker(w, now));
    }
    if (lw__lot_count(&pool->room) > 0)
        lw__pool_offer_room(pool, false);
    next = earlier(next, lw__pool_watch_stop(pool, now));
    if (!pool->is_guarded)
        return next;
    next = earlier(next, watch_guests(pool, now));
    return earlier(next, now + pool->set.task_timeout_ns); /* of a task that starts right now */
}

static bool must_end(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    bool must = pool->must_monitor_end;
    lw__mutex_unlock(&pool->mu);
    return must;
}

/* Sleeps without a time but a drain's, unless somebody has come to work since. */
static void go_away(lw_pool *pool, struct lw__waiter *me) {
    bool is_anybody;
    lw__lot_enter(&pool->monitor_lot, me);
    atomic_store(&pool->is_monitor_away, 1);
    watch_all(pool, lw__now(pool->set.clock), &is_anybody);
    if (is_anybody || must_end(pool))
        lw__lot_leave(&pool->monitor_lot, me);
    else
        lw__lot_wait(&pool->monitor_lot, me, pool->set.clock, atomic_load(&pool->stop_deadline));
    atomic_store(&pool->is_monitor_away, 0);
}

static void sleep_until(lw_pool *pool, struct lw__waiter *me, uint64_t next) {
    LW__POINT("monitor: has looked, not asleep");
    if (must_end(pool))
        lw__lot_leave(&pool->monitor_lot, me);
    else
        lw__lot_wait(&pool->monitor_lot, me, pool->set.clock, next);
}

static void monitor_left(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    pool->is_monitor_running = false;
    bool must_free = pool->is_abandoned && lw__pool_has_ended_locked(pool);
    lw__mutex_unlock(&pool->mu);
    if (must_free)
        lw__pool_free(pool);
}

struct monitor {
    struct lw__runner self; /* calls from on_stuck count as calls from inside: they never wait */
    struct lw__waiter me;
};

static bool start_thread_locked(lw_pool *pool) LW__REQUIRES(pool->mu);

/* on_stuck has ended the thread: another one goes on, unless the monitor is to end anyway. */
static void on_thread_ending(void *arg) {
    struct monitor *m = arg;
    lw_pool *pool = m->self.pool;
    if (!lw__pool_is_alive(pool))
        return;
    lw__lot_leave(&pool->monitor_lot, &m->me);
    atomic_store(&pool->is_monitor_away, 0);
    lw__runner_release_thread(&m->self);
    lw__runner_free(&m->self);
    lw__mutex_lock(&pool->mu);
    bool is_replaced = !pool->must_monitor_end && start_thread_locked(pool);
    lw__mutex_unlock(&pool->mu);
    if (is_replaced)
        pthread_detach(pthread_self());
    else
        monitor_left(pool);
}

static void watch_until_end(lw_pool *pool, struct lw__waiter *me) {
    unsigned idle_looks = 0;
    while (!must_end(pool)) {
        bool is_anybody;
        lw__lot_enter(&pool->monitor_lot, me); /* before it looks: else it might miss a rouse */
        uint64_t now = lw__now(pool->set.clock);
        uint64_t next = watch_all(pool, now, &is_anybody);
        idle_looks = is_anybody ? 0 : idle_looks + 1;
        if (idle_looks > (pool->is_guarded ? 1 : LINGER_TICKS)) {
            lw__lot_leave(&pool->monitor_lot, me);
            go_away(pool, me);
        } else {
            sleep_until(pool, me, pool->is_guarded ? next : now + LW__TICK_NS);
        }
    }
}

static void *monitor_main(void *arg) {
    lw_pool *pool = arg;
    struct monitor m = {.me = {0}};
    lw__runner_init(&m.self, pool, LW__GUEST);
    lw__runner_adopt_thread(&m.self);
    pthread_cleanup_push(on_thread_ending, &m);
    watch_until_end(pool, &m.me);
    pthread_cleanup_pop(0);
    lw__runner_release_thread(&m.self);
    lw__runner_free(&m.self);
    monitor_left(pool);
    return NULL;
}

/* ---- from outside ------------------------------------------------------------------------------
 */

static bool start_thread_locked(lw_pool *pool) LW__REQUIRES(pool->mu) {
    pthread_t thread;
    if (lw__crew_start_thread(&thread, monitor_main, pool, pool->set.name) != 0)
        return false;
    pool->monitor = thread;
    pool->is_monitor_running = true;
    atomic_store(&pool->has_monitor, 1);
    return true;
}

bool lw__monitor_start(lw_pool *pool) {
    if (LW__LIKELY(atomic_load_explicit(&pool->has_monitor, memory_order_acquire)))
        return true;
    lw__mutex_lock(&pool->mu);
    bool is_started = atomic_load(&pool->has_monitor) != 0;
    if (!is_started && !pool->must_monitor_end)
        is_started = start_thread_locked(pool);
    lw__mutex_unlock(&pool->mu);
    return is_started;
}

void lw__monitor_call(lw_pool *pool) {
    if (atomic_load(&pool->is_monitor_away) && atomic_exchange(&pool->is_monitor_away, 0))
        lw__lot_wake_newest(&pool->monitor_lot);
}

void lw__monitor_rouse(lw_pool *pool) {
    lw__lot_wake_all(&pool->monitor_lot);
}

void lw__monitor_stop(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    pool->must_monitor_end = true;
    bool is_running = pool->is_monitor_running;
    lw__mutex_unlock(&pool->mu);
    if (!atomic_load(&pool->has_monitor))
        return;
    lw__monitor_rouse(pool);
    if (is_running && pthread_equal(pool->monitor, pthread_self()))
        pthread_detach(pool->monitor);
    else
        pthread_join(pool->monitor, NULL);
}
