/* The crew: which threads there are, and the places they hold.
 *
 * A place (struct lw__worker) outlives its threads: counters, the batch and the reserve stay in it
 * when one thread quits and another starts. While no live worker is left the ring is barred as
 * unmanned, so that a submitter notices for free and starts one, or is told that all are stuck.
 * Every thread that ends joins the one that ended before it; the last is joined by close.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "pool/pool_internal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* ---- threads -----------------------------------------------------------------------------------
 */

/* Handlers belong to the host's threads; but a fault of the task's own must reach its handler here.
 */
static void block_signals(sigset_t *before) {
    sigset_t mask;
    static const int own_faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    sigfillset(&mask);
    for (size_t i = 0; i < sizeof own_faults / sizeof *own_faults; i++)
        sigdelset(&mask, own_faults[i]);
    pthread_sigmask(SIG_SETMASK, &mask, before);
}

int lw__crew_start_thread(pthread_t *thread, void *(*run)(void *), void *arg, const char *name) {
    sigset_t before;
    block_signals(&before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_setname_np(*thread, name);
    return error;
}

static int start_worker_locked(struct lw__worker *w) {
    char name[16];
    snprintf(name, sizeof name, "%.11s-%u", w->runner.pool->set.name, w->runner.index % 1000u);
    return lw__crew_start_thread(&w->thread, lw__worker_main, w, name);
}

/* ---- places ------------------------------------------------------------------------------------
 */

static struct lw__worker *make_place(lw_pool *pool, uint32_t index) {
    const lw_allocator *allocator = &pool->set.allocator;
    struct lw__worker *w = lw__alloc_aligned(allocator, sizeof *w, LW__CACHE_LINE);
    if (!w)
        return NULL;
    memset(w, 0, sizeof *w);
    lw__runner_init(&w->runner, pool, index);
    lw__batch_init(&w->batch);
    w->mean_ns = LW__MEAN_CLIP_NS;
    w->long_mean_ns = LW__LONG_MEAN_CLIP_NS;
    w->gap_ns = LW__NS_PER_MS;
    return w;
}

void lw__crew_free_places(lw_pool *pool) {
    const lw_allocator *allocator = &pool->set.allocator;
    for (uint32_t i = 0; i < pool->worker_slots; i++) {
        struct lw__worker *w = pool->workers[i];
        lw__runner_free(&w->runner);
        lw__batch_free(&w->batch);
        if (w->reserve)
            lw__free(allocator, w->reserve, LW_POOL_RESERVE * sizeof *w->reserve);
        lw__free_aligned(allocator, w, sizeof *w, LW__CACHE_LINE);
    }
}

static struct lw__worker *free_place_locked(lw_pool *pool) LW__REQUIRES(pool->mu) {
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        if (pool->workers[i]->state == LW__WORKER_FREE)
            return pool->workers[i];
    struct lw__worker *w = make_place(pool, pool->worker_slots);
    if (w)
        pool->workers[pool->worker_slots++] = w;
    return w;
}

static void set_live_locked(lw_pool *pool, uint32_t live) LW__REQUIRES(pool->mu) {
    pool->live = live;
    if (live == 0)
        lw__ring_bar(&pool->ring, LW__RING_UNMANNED);
    else
        lw__ring_unbar(&pool->ring, LW__RING_UNMANNED);
}

/* ---- growing -----------------------------------------------------------------------------------
 */

static int grow_locked(lw_pool *pool, lw_error *err) LW__REQUIRES(pool->mu) {
    struct lw__worker *w = free_place_locked(pool);
    if (!w)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a worker of %zu bytes", sizeof *w);
    lw__batch_shelter(pool, &w->batch);
    w->is_dismissed = false;
    /* So that nobody else is woken meanwhile. */
    lw__expect_until(&pool->expected, lw__now(pool->set.clock) + LW__EXPECT_NS);
    int error = start_worker_locked(w);
    if (error != 0) {
        lw__expect_none(&pool->expected);
        lw__attention_wake_first(pool);
        return lw__error_set(err, LW_ESYSTEM, error, "the system gives no thread for worker %u: %s",
                             w->runner.index, strerrordesc_np(error));
    }
    w->state = LW__WORKER_LIVE;
    pool->threads++;
    if (pool->threads - pool->leaving > pool->threads_peak)
        pool->threads_peak = pool->threads - pool->leaving;
    set_live_locked(pool, pool->live + 1);
    return LW_OK;
}

static bool may_grow_locked(const lw_pool *pool) LW__REQUIRES(pool->mu) {
    return pool->live < pool->set.max_workers
           && pool->threads < pool->set.max_workers + pool->set.stuck_max;
}

int lw__crew_grow(lw_pool *pool, lw_error *err) {
    lw__mutex_lock(&pool->mu);
    int rc = may_grow_locked(pool) ? grow_locked(pool, err) : LW_EFULL;
    lw__mutex_unlock(&pool->mu);
    if (rc == LW_OK && lw__lot_count(&pool->room) > 0)
        lw__pool_offer_room(pool, false); /* it has made some */
    return rc;
}

int lw__crew_man(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    bool may_grow = may_grow_locked(pool), must_wait = !may_grow && pool->leaving > 0;
    int rc = LW_PENDING;
    if (pool->live == 0 && !must_wait)
        rc = may_grow ? grow_locked(pool, NULL) : LW_ESTUCK;
    lw__mutex_unlock(&pool->mu);
    if (must_wait)
        sched_yield(); /* its place is free in a moment */
    return rc < 0 ? rc : LW_PENDING;
}

/* ---- leaving -----------------------------------------------------------------------------------
 */

bool lw__crew_may_quit(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    lw__mutex_lock(&pool->mu);
    bool may_quit = pool->live > pool->set.min_workers && lw__pool_stop_mode(pool) == LW__OPEN
                    && lw__lot_count(&pool->room) == 0; /* a full queue is what it is there for */
    if (may_quit)
        set_live_locked(pool, pool->live - 1);
    if (may_quit && pool->live == 0 && !lw__pool_is_drained(pool)) {
        set_live_locked(pool, 1); /* something came in before the bar fell */
        may_quit = false;
    }
    if (may_quit) {
        w->state = LW__WORKER_LEAVING;
        pool->leaving++;
    }
    lw__mutex_unlock(&pool->mu);
    return may_quit;
}

/* The calling thread ends. True: it has to join *previous, which ended before it. In a pool that
 * was closed nobody will come and join the last. */
static bool remember_exit_locked(lw_pool *pool, pthread_t *previous) LW__REQUIRES(pool->mu) {
    bool has_previous = pool->has_last_exited;
    *previous = pool->last_exited;
    pool->last_exited = pthread_self();
    pool->has_last_exited = !pool->is_abandoned;
    if (pool->is_abandoned)
        pthread_detach(pthread_self());
    return has_previous;
}

void lw__crew_leave(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    pthread_t previous;
    int ignored;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &ignored); /* pthread_join would die of it */
    lw__worker_shift(w, false);
    atomic_store(&w->is_up, 0);
    w->streak = 0;
    lw__attention_withdraw(w);
    if (lw__pool_stop_mode(pool) != LW__OPEN)
        lw__attention_wake_all(pool); /* the others can go too */
    LW__POINT("leave: still counted");
    lw__mutex_lock(&pool->mu);
    if (w->state == LW__WORKER_LIVE)
        set_live_locked(pool, pool->live - 1);
    if (w->state == LW__WORKER_LEAVING)
        pool->leaving--;
    w->state = LW__WORKER_FREE;
    pool->threads--;
    if (pool->live == 0)
        lw__lot_wake_all(&pool->room); /* they would wait for nobody */
    bool has_previous = remember_exit_locked(pool, &previous);
    bool must_free = pool->is_abandoned && lw__pool_has_ended_locked(pool);
    lw__pool_announce_quiet(pool);
    lw__mutex_unlock(&pool->mu);
    if (has_previous)
        pthread_join(previous, NULL);
    if (must_free)
        lw__pool_free(pool);
}

void lw__crew_join_last(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    bool has_last = pool->has_last_exited;
    pthread_t last = pool->last_exited;
    pool->has_last_exited = false;
    lw__mutex_unlock(&pool->mu);
    if (has_last)
        pthread_join(last, NULL);
}

/* ---- losses ------------------------------------------------------------------------------------
 */

void lw__crew_write_off(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    lw_error err = {0};
    int rc = LW_OK;
    lw__batch_orphan(pool, &w->batch);
    lw__mutex_lock(&pool->mu);
    /* Unless it has come back in the meantime, and goes on. */
    bool is_still_stuck = atomic_load(&w->runner.ctx.signal) & LW__SIGNAL_STUCK;
    if (w->state == LW__WORKER_LIVE && is_still_stuck) {
        w->state = LW__WORKER_STUCK;
        set_live_locked(pool, pool->live - 1);
        rc = may_grow_locked(pool) ? grow_locked(pool, &err) : LW_EFULL;
    }
    bool is_unmanned = pool->live == 0;
    lw__mutex_unlock(&pool->mu);
    if (is_unmanned)
        lw__lot_wake_all(&pool->room); /* they would wait for nobody */
    if (rc < 0)
        lw__log(&pool->set.log, LW_LOG_ERROR, "pool", "a stuck worker was not replaced",
                LW__FIELD_TEXT("pool", pool->set.name), LW__FIELD_U64("worker", w->runner.index),
                LW__FIELD_TEXT("why", rc == LW_EFULL ? "stuck_max is reached" : err.message));
    lw__attention_withdraw(w);
}

bool lw__crew_take_back(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    lw__mutex_lock(&pool->mu);
    bool may_return = w->state == LW__WORKER_STUCK && pool->live < pool->set.max_workers;
    if (may_return) {
        w->state = LW__WORKER_LIVE;
        set_live_locked(pool, pool->live + 1);
    }
    bool may_stay = w->state == LW__WORKER_LIVE; /* also when it was not even written off yet */
    lw__mutex_unlock(&pool->mu);
    return may_stay;
}

static void hand_back_reserve(struct lw__worker *w) {
    while (w->reserve_count > 0) {
        struct lw__ring_item item = w->reserve[w->reserve_head];
        w->reserve_head = (w->reserve_head + 1) % LW_POOL_RESERVE;
        atomic_store(&w->reserved, --w->reserve_count);
        atomic_fetch_add(&w->direct, 1);
        atomic_fetch_add(&w->direct_settled, 1);
        atomic_fetch_add(&w->not_run, 1);
        lw__pool_drop(w->runner.pool, item);
    }
}

/* The place stays, a new thread goes on with its batch. Without one the batch is left to the
 * others, and the reserve, which only this worker can run, goes back to its owners. */
void lw__crew_replace_thread(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    pthread_t previous;
    int error = 0;
    bool has_previous = false;
    lw__mutex_lock(&pool->mu);
    if (!w->is_dismissed)
        error = start_worker_locked(w);
    bool is_replaced = !w->is_dismissed && error == 0;
    if (is_replaced)
        has_previous = remember_exit_locked(pool, &previous);
    lw__mutex_unlock(&pool->mu);
    if (is_replaced) {
        if (has_previous)
            pthread_join(previous, NULL);
        return;
    }
    if (error != 0)
        lw__log(&pool->set.log, LW_LOG_ERROR, "pool",
                "a worker whose task ended its thread was not replaced",
                LW__FIELD_TEXT("pool", pool->set.name), LW__FIELD_U64("worker", w->runner.index),
                LW__FIELD_TEXT("why", strerrordesc_np(error)));
    lw__batch_orphan(pool, &w->batch);
    hand_back_reserve(w);
    atomic_store(&w->settled, w->settled_here);
    lw__crew_leave(w);
}

/* ---- for the engine ----------------------------------------------------------------------- */

/* Its thread may be about to end the task: the exchange in lw__runner_end decides who was first. */
void lw__pool_write_off(lw_ctx *ctx, uint64_t number) {
    char *runner = (char *)ctx - offsetof(struct lw__runner, ctx);
    struct lw__worker *w = (struct lw__worker *)(void *)runner;
    uint64_t signal = atomic_load(&ctx->signal);
    do {
        if (signal >> LW__SIGNAL_SHIFT != number || signal & (LW__SIGNAL_IDLE | LW__SIGNAL_STUCK))
            return;
    } while (!atomic_compare_exchange_weak(&ctx->signal, &signal, signal | LW__SIGNAL_STUCK));
    lw__crew_write_off(w);
}

/* Another takes the place of a live worker. */
static int replace(lw_pool *pool, struct lw__worker *w) {
    int rc = LW_OK;
    lw__mutex_lock(&pool->mu);
    if (w->state == LW__WORKER_LIVE) {
        w->state = LW__WORKER_STUCK;
        set_live_locked(pool, pool->live - 1);
        rc = may_grow_locked(pool) ? grow_locked(pool, NULL) : LW_EFULL;
    }
    if (rc < 0) {
        w->state = LW__WORKER_LIVE;
        set_live_locked(pool, pool->live + 1);
    }
    lw__mutex_unlock(&pool->mu);
    return rc;
}

int lw__pool_replace(lw_ctx *ctx) {
    char *runner = (char *)ctx - offsetof(struct lw__runner, ctx);
    struct lw__worker *w = (struct lw__worker *)(void *)runner;
    lw_pool *pool = w->runner.pool;
    if (atomic_fetch_or(&ctx->signal, LW__SIGNAL_STUCK) & LW__SIGNAL_STUCK)
        return LW_OK;
    int rc = replace(pool, w);
    if (rc < 0) {
        atomic_fetch_and(&ctx->signal, ~(uint64_t)LW__SIGNAL_STUCK);
        return rc;
    }
    lw__batch_orphan(pool, &w->batch);
    lw__attention_withdraw(w);
    return LW_OK;
}

uint64_t lw__pool_task_number(const lw_ctx *ctx) {
    return atomic_load(&ctx->signal) >> LW__SIGNAL_SHIFT;
}
