/* One task's run: what workers, and submitting threads that run a task themselves, have in common.
 */
#include "pool/pool_internal.h"

#include "base/futex.h"

void lw__runner_init(struct lw__runner *r, lw_pool *pool, uint32_t index) {
    lw__ctx_init(&r->ctx, pool->set.clock, &pool->stop_mode, pool->is_alive);
    r->pool = pool;
    r->index = index;
    atomic_init(&r->fn, NULL);
    atomic_init(&r->arg, NULL);
    atomic_init(&r->started, 0);
    r->number = 0;
    r->seen_number = 0;
    r->seen_at = 0;
    r->outer = NULL;
    r->next_guest = r->previous_guest = NULL;
}

void lw__runner_free(struct lw__runner *r) {
    lw__ctx_free(&r->ctx);
}

/* The order matters to three readers. lw_pool_running wants fn and arg to belong to the number:
 * they are written while the signal says idle. A dropping stop wants that a task either shows in
 * the signal or sees the stop: it passes lw__barrier_everywhere between setting the mode and
 * reading the signals, and so this side needs no fence. The monitor wants `started` before the
 * number. */
bool lw__runner_begin(struct lw__runner *r, lw_pool_fn fn, void *arg, uint64_t started) {
    lw_pool *pool = r->pool;
    uint64_t number = ++r->number;
    atomic_store_explicit(&r->fn, fn, memory_order_release);
    atomic_store_explicit(&r->arg, arg, memory_order_release);
    atomic_store_explicit(&r->started, started, memory_order_release);
    if (pool->is_guarded)
        atomic_store_explicit(&r->ctx.deadline, started ? started + pool->set.task_timeout_ns : 0,
                              memory_order_relaxed);
    uint64_t reason = atomic_load_explicit(&pool->birth_reason, memory_order_relaxed);
    uint64_t signal = number << LW__SIGNAL_SHIFT | reason;
    if (LW__LIKELY(pool->has_barrier))
        atomic_store_explicit(&r->ctx.signal, signal, memory_order_release);
    else
        atomic_store_explicit(&r->ctx.signal, signal, memory_order_seq_cst);
    lw__barrier_light();
    LW__POINT("begin: shown, stop not looked at");
    if (LW__LIKELY(atomic_load_explicit(&pool->stop_mode, memory_order_seq_cst) != LW__DROPPING))
        return true;
    lw__runner_end(r);
    return false;
}

/* Where there is a guard the monitor may be declaring this task stuck just now: the exchange
 * decides which of the two was first. */
uint64_t lw__runner_end(struct lw__runner *r) {
    uint64_t idle = r->number << LW__SIGNAL_SHIFT | LW__SIGNAL_IDLE, last = 0;
    if (r->pool->is_guarded)
        last = atomic_exchange(&r->ctx.signal, idle);
    else
        atomic_store_explicit(&r->ctx.signal, idle, memory_order_release);
    if (LW__UNLIKELY(atomic_load_explicit(&r->ctx.has_fd_out, memory_order_relaxed)))
        lw__ctx_recall_fd(&r->ctx);
    return last;
}

/* ---- who is who --------------------------------------------------------------------------------
 */

/* The innermost runner of this thread; through `outer` those around it, of this and other pools.
 * The one thing here that hangs on no handle: it answers "am I inside a task?" without one. */
static _Thread_local struct lw__runner *innermost;

void lw__runner_adopt_thread(struct lw__runner *r) {
    r->outer = innermost;
    innermost = r;
}

struct lw__worker *lw__runner_current(lw_pool *pool, uint32_t *nested) {
    struct lw__worker *found = NULL;
    *nested = 0;
    for (struct lw__runner *r = innermost; r; r = r->outer) {
        if (r->pool != pool)
            continue;
        ++*nested;
        if (r->index != LW__GUEST)
            found = (struct lw__worker *)r;
    }
    return found;
}

bool lw__runner_is_inside(lw_pool *pool) {
    uint32_t nested;
    lw__runner_current(pool, &nested);
    if (nested > 0)
        return true;
    lw__mutex_lock(&pool->mu);
    bool is_monitor = pool->is_monitor_running && pthread_equal(pool->monitor, pthread_self());
    lw__mutex_unlock(&pool->mu);
    return is_monitor;
}

/* ---- guests ------------------------------------------------------------------------------------
 */

struct guest {
    struct lw__runner runner; /* first, so that one can be had from the other */
    lw_pool_fn fn;
    void *arg;
    struct lw__record *record;
};

static void register_guest(struct lw__runner *r) {
    lw_pool *pool = r->pool;
    lw__runner_adopt_thread(r);
    lw__mutex_lock(&pool->mu);
    r->next_guest = pool->guests;
    if (r->next_guest)
        r->next_guest->previous_guest = r;
    pool->guests = r;
    atomic_fetch_add(&pool->guest_count, 1);
    lw__mutex_unlock(&pool->mu);
}

static void unregister_guest(struct lw__runner *r) {
    lw_pool *pool = r->pool;
    innermost = r->outer;
    lw__mutex_lock(&pool->mu);
    *(r->previous_guest ? &r->previous_guest->next_guest : &pool->guests) = r->next_guest;
    if (r->next_guest)
        r->next_guest->previous_guest = r->previous_guest;
    atomic_fetch_sub(&pool->guest_count, 1);
    bool must_free = pool->is_abandoned && lw__pool_has_ended_locked(pool);
    lw__pool_announce_quiet(pool); /* under mu: once it is released the pool may be closed */
    lw__mutex_unlock(&pool->mu);
    lw__runner_free(r);
    if (must_free)
        lw__pool_free(pool);
}

/* Also the clean-up handler, when the task ends its thread. */
static void finish_guest(void *arg) {
    struct guest *g = arg;
    lw__runner_end(&g->runner);
    if (g->record)
        lw__record_free(g->runner.pool, g->record);
    unregister_guest(&g->runner);
}

static int run_guest(struct guest *g) {
    lw_pool *pool = g->runner.pool;
    if (lw__pool_stop_mode(pool) != LW__OPEN
        || !lw__runner_begin(&g->runner, g->fn, g->arg, lw__now(pool->set.clock))) {
        g->record = NULL; /* stays the submitter's */
        return LW_ESTOPPING;
    }
    if (pool->is_guarded)
        lw__monitor_call(pool);
    atomic_fetch_add(&pool->run_by_guests, 1);
    if (!g->record || lw__record_start(g->record, &g->runner))
        g->fn(&g->runner.ctx, g->arg);
    return LW_OK;
}

static int run_guest_and_clean_up(struct guest *g) {
    int rc;
    pthread_cleanup_push(finish_guest, g);
    rc = run_guest(g);
    pthread_cleanup_pop(1);
    return rc;
}

int lw__runner_run_as_guest(lw_pool *pool, struct lw__ring_item item) {
    struct guest guest = {.fn = (lw_pool_fn)item.fn, .arg = item.arg};
    if (guest.fn == lw__record_tag) {
        guest.record = item.arg;
        guest.fn = guest.record->fn;
        guest.arg = guest.record->arg;
    }
    lw__runner_init(&guest.runner, pool, LW__GUEST);
    register_guest(&guest.runner);
    return run_guest_and_clean_up(&guest);
}

/* ---- all of them -------------------------------------------------------------------------------
 */

static void end_present(struct lw__runner *r, lw_reason reason) {
    uint64_t signal = atomic_load(&r->ctx.signal);
    lw__ctx_end(&r->ctx, signal >> LW__SIGNAL_SHIFT, reason);
}

void lw__runner_end_all(lw_pool *pool, lw_reason reason) {
    if (pool->has_barrier)
        lw__barrier_everywhere();
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        end_present(&pool->workers[i]->runner, reason);
    for (struct lw__runner *r = pool->guests; r; r = r->next_guest)
        end_present(r, reason);
    lw__mutex_unlock(&pool->mu);
}

bool lw__runner_describe(struct lw__runner *r, uint64_t now, lw_pool_run_info *info) {
    for (;;) {
        uint64_t signal = atomic_load_explicit(&r->ctx.signal, memory_order_acquire);
        if (signal & LW__SIGNAL_IDLE)
            return false;
        uint64_t started = atomic_load_explicit(&r->started, memory_order_acquire);
        info->fn = atomic_load_explicit(&r->fn, memory_order_acquire);
        info->arg = atomic_load_explicit(&r->arg, memory_order_acquire);
        info->worker = r->index;
        info->running_ms = started == 0 ? -1 : (int64_t)((now - started) / LW__NS_PER_MS);
        info->is_stuck = (signal & LW__SIGNAL_STUCK) != 0;
        uint64_t again = atomic_load_explicit(&r->ctx.signal, memory_order_acquire);
        if (again >> LW__SIGNAL_SHIFT == signal >> LW__SIGNAL_SHIFT && !(again & LW__SIGNAL_IDLE))
            return true;
    }
}
