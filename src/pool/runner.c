/* One task's run: what workers, and submitting threads that run a task themselves, have in common.
 */
#include "pool/hot.h"

#include "base/futex.h"

void lw__runner_init(struct lw__runner *r, lw_pool *pool, uint32_t index) {
    lw__ctx_init(&r->ctx, pool->set.clock, &pool->stop_mode, pool->is_alive);
    r->ctx.guard_ns = pool->set.task_timeout_ns;
    r->pool = pool;
    r->index = index;
    atomic_init(&r->fn, NULL);
    atomic_init(&r->arg, NULL);
    atomic_init(&r->started, 0);
    r->number = 0;
    r->seen_number = 0;
    r->seen_at = 0;
    r->overdue_number = 0;
    r->overdue_at = 0;
    r->call = NULL;
    r->is_dropping = false;
    r->outer = NULL;
    r->next_guest = r->previous_guest = NULL;
}

void lw__runner_free(struct lw__runner *r) {
    lw__ctx_free(&r->ctx);
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

void lw__runner_release_thread(const struct lw__runner *r) {
    innermost = r->outer;
}

struct lw__worker *lw__runner_current(const lw_pool *pool, uint32_t *nested) {
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

bool lw__runner_is_inside(const lw_pool *pool) {
    uint32_t nested;
    lw__runner_current(pool, &nested);
    return nested > 0;
}

bool lw__runner_is_dropping(const lw_pool *pool) {
    const struct lw__runner *r = innermost;
    while (r && (r->pool != pool || !r->is_dropping))
        r = r->outer;
    return r != NULL;
}

/* ---- guests ------------------------------------------------------------------------------------
 */

struct guest {
    struct lw__runner runner; /* first, so that one can be had from the other */
    lw_pool_fn fn;
    void *arg;
    struct lw__record *record;
    bool has_run;
    int gone; /* LW__GONE or LW__FORKED: the pool cannot be used after this */
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

/* True: the pool has been closed, and is freed by this thread or by another on its way out. */
static bool unregister_guest(struct lw__runner *r) {
    lw_pool *pool = r->pool;
    innermost = r->outer;
    lw__mutex_lock(&pool->mu);
    *(r->previous_guest ? &r->previous_guest->next_guest : &pool->guests) = r->next_guest;
    if (r->next_guest)
        r->next_guest->previous_guest = r->previous_guest;
    atomic_fetch_sub(&pool->guest_count, 1);
    bool is_closed = pool->is_abandoned;
    bool must_free = is_closed && lw__pool_has_ended_locked(pool);
    lw__pool_announce_quiet(pool); /* under mu: once it is released the pool may be closed */
    lw__mutex_unlock(&pool->mu);
    lw__runner_free(r);
    if (must_free)
        lw__pool_free(pool);
    return is_closed;
}

/* Also the clean-up handler, when the task ends its thread. */
static void finish_guest(void *arg) {
    struct guest *g = arg;
    if (!lw__pool_is_alive(g->runner.pool)) { /* a forked child: the rest is the parent's */
        innermost = g->runner.outer;
        g->gone = LW__FORKED;
        return;
    }
    lw__pool_end_call(&g->runner);
    lw__runner_end(&g->runner);
    if (g->has_run)
        atomic_fetch_add(&g->runner.pool->run_by_guests, 1);
    if (g->record)
        lw__record_free(g->runner.pool, g->record);
    if (unregister_guest(&g->runner))
        g->gone = LW__GONE;
}

static int refuse_guest(struct guest *g) {
    bool is_cancelled = g->record && lw__record_refuse(g->runner.pool, g->record);
    g->record = NULL;
    if (is_cancelled)
        return LW_OK;
    atomic_fetch_add(&g->runner.pool->refused, 1);
    return LW_ESTOPPING;
}

static int run_guest(struct guest *g) {
    lw_pool *pool = g->runner.pool;
    if (lw__pool_stop_mode(pool) != LW__OPEN
        || !lw__runner_begin(&g->runner, g->fn, g->arg, lw__now(pool->set.clock)))
        return refuse_guest(g);
    if (pool->is_guarded)
        lw__monitor_call(pool);
    atomic_fetch_add(&pool->begun_by_guests, 1);
    g->has_run = !g->record || lw__record_start(g->record, &g->runner);
    if (g->has_run)
        g->fn(&g->runner.ctx, g->arg);
    return LW_OK;
}

static int run_guest_and_clean_up(struct guest *g) {
    int rc;
    pthread_cleanup_push(finish_guest, g);
    rc = run_guest(g);
    pthread_cleanup_pop(1);
    return rc == LW_OK ? g->gone : rc;
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

bool lw__runner_begin_late(struct lw__runner *r) {
    lw_pool *pool = r->pool;
    if (lw__pool_stop_mode(pool) == LW__DROPPING) {
        lw__runner_end(r);
        return false;
    }
    uint32_t reason = atomic_load(&pool->birth_reason);
    if (reason != LW_REASON_NONE)
        lw__ctx_end(&r->ctx, r->number, (lw_reason)reason);
    return true;
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
