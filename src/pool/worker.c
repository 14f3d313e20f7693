/* A worker: takes, runs, settles; looks for more, sleeps, quits.
 *
 * Two gears. Strict: one task at a time, attention withdrawn while it runs, its time measured.
 * Hurrying, after a streak of short tasks without sleep: batches, attention kept, every eighth
 * batch measured. attention.c says why.
 */
#include "base/futex.h"
#include "base/memory.h"
#include "pool/hot.h"

/* ---- one task ----------------------------------------------------------------------------------
 */

/* These have one writer. */
static void add_one(_Atomic uint64_t *counter) {
    uint64_t count = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, count + 1, memory_order_relaxed);
}

static void drop_instead(struct lw__worker *w, struct lw__ring_item item) {
    add_one(&w->not_run);
    lw__pool_drop(w->runner.pool, item);
}

/* What follows a task, whichever way it ended. */
static void finish_task(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    if (LW__UNLIKELY(!lw__pool_is_alive(pool)))
        pthread_exit(NULL); /* a child that was forked inside the task: the rest is the parent's */
    uint64_t last = lw__runner_end(&w->runner);
    if (w->record) {
        w->runner.ctx.value_size = 0;
        lw__record_free(pool, w->record);
        w->record = NULL;
    }
    if (LW__UNLIKELY(last & LW__SIGNAL_STUCK))
        w->is_dismissed = !lw__crew_take_back(w);
}

static void run_record(struct lw__worker *w, struct lw__ring_item item, uint64_t started) {
    struct lw__record *record = item.arg;
    if (!lw__runner_begin(&w->runner, record->fn, record->arg, started)) {
        drop_instead(w, item);
        return;
    }
    w->record = record;
    if (lw__record_start(record, &w->runner))
        record->fn(&w->runner.ctx, record->arg);
    else
        add_one(&w->not_run);
    finish_task(w);
}

static void run_item(struct lw__worker *w, struct lw__ring_item item, uint64_t started) {
    lw_pool_fn fn = (lw_pool_fn)item.fn;
    if (LW__UNLIKELY(fn == lw__record_tag)) {
        run_record(w, item, started);
    } else if (LW__LIKELY(lw__runner_begin(&w->runner, fn, item.arg, started))) {
        fn(&w->runner.ctx, item.arg);
        finish_task(w);
    } else {
        drop_instead(w, item);
    }
}

/* ---- the reserve: what tasks submitted while the queue was full ---------------------------------
 */

bool lw__worker_reserve(struct lw__worker *w, struct lw__ring_item item) {
    const lw_allocator *allocator = &w->runner.pool->set.allocator;
    if (!w->reserve)
        w->reserve = lw__alloc(allocator, LW_POOL_RESERVE * sizeof *w->reserve);
    if (!w->reserve || w->reserve_count == LW_POOL_RESERVE)
        return false;
    w->reserve[(w->reserve_head + w->reserve_count++) % LW_POOL_RESERVE] = item;
    atomic_store_explicit(&w->reserved, w->reserve_count, memory_order_relaxed);
    return true;
}

static bool pop_reserve(struct lw__worker *w, struct lw__ring_item *item) {
    if (w->reserve_count == 0)
        return false;
    *item = w->reserve[w->reserve_head];
    w->reserve_head = (w->reserve_head + 1) % LW_POOL_RESERVE;
    atomic_store_explicit(&w->reserved, --w->reserve_count, memory_order_relaxed);
    return true;
}

/* Others may help as soon as there is room in the queue; until then this worker does it itself. */
static void run_reserve(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    struct lw__ring_item item;
    while (pop_reserve(w, &item)) {
        struct lw__ring_push push = {0};
        if (lw__ring_push(&pool->ring, &item, 1, &push) == LW__RING_PUSHED) {
            if (lw__attention_is_missing(pool))
                lw__attention_wake_first(pool);
            continue;
        }
        add_one(&w->direct);
        w->is_direct = true;
        run_item(w, item, lw__now(pool->set.clock));
        pthread_testcancel(); /* as in heed_cancellation */
        w->is_direct = false;
        add_one(&w->direct_settled);
    }
}

/* ---- batches -----------------------------------------------------------------------------------
 */

static uint32_t smooth(uint32_t mean_ns, uint64_t task_ns, uint64_t clip_ns) {
    return (uint32_t)((7 * (uint64_t)mean_ns + (task_ns < clip_ns ? task_ns : clip_ns)) / 8);
}

static void learn_task_time(struct lw__worker *w, uint64_t task_ns) {
    lw_pool *pool = w->runner.pool;
    lw__histogram_record(&w->run_time, task_ns);
    w->mean_ns = smooth(w->mean_ns, task_ns, LW__MEAN_CLIP_NS);
    w->long_mean_ns = smooth(w->long_mean_ns, task_ns, LW__LONG_MEAN_CLIP_NS);
    uint32_t shown = atomic_load_explicit(&pool->mean_ns, memory_order_relaxed);
    if (w->long_mean_ns > shown + shown / 4 || w->long_mean_ns < shown - shown / 4)
        atomic_store_explicit(&pool->mean_ns, w->long_mean_ns, memory_order_relaxed);
}

/* In sequence with reading whether somebody waits for the pool to become idle. */
static void publish_settled(struct lw__worker *w) {
    atomic_store(&w->settled, w->settled_here);
}

/* Runs what the batch holds; also what is left of it after a task has ended its thread. */
static void run_claimed(struct lw__worker *w, uint64_t started) {
    struct lw__ring_item item;
    while (lw__batch_claim(&w->batch, &item)) {
        run_item(w, item, started);
        w->settled_here++;
    }
}

/* A task may have cancelled its thread and ended without noticing: then the thread ends here, and
 * not in the midst of the next task. (Once a batch: it costs 2.5 ns.) on_thread_ending counts. */
static void heed_cancellation(struct lw__worker *w) {
    w->settled_here--;
    pthread_testcancel();
    w->settled_here++;
}

static void run_batch(struct lw__worker *w, uint32_t n) {
    lw_pool *pool = w->runner.pool;
    bool is_hurrying = atomic_load_explicit(&w->is_hurrying, memory_order_relaxed) != 0;
    if (is_hurrying && n > 1)
        lw__attention_reinforce(w, n);
    else if (!is_hurrying)
        lw__attention_withdraw(w);

    bool is_timed = !is_hurrying || w->batch_count++ % 8 == 0;
    uint64_t start = is_timed ? lw__now(pool->set.clock) : 0;
    if (n == 1) {
        struct lw__ring_item item = w->batch.items[0];
        __builtin_prefetch(item.arg);
        run_item(w, item, start);
        w->settled_here++;
    } else {
        lw__batch_start(&w->batch, n);
        run_claimed(w, is_hurrying ? 0 : start);
    }
    heed_cancellation(w);
    if (is_timed)
        learn_task_time(w, (lw__now(pool->set.clock) - start) / n);
    if (LW__UNLIKELY(w->reserve_count > 0))
        run_reserve(w);
    atomic_store_explicit(&w->settled, w->settled_here, memory_order_release);
    w->streak++;
    w->has_run = true;
    /* Not "give" when it was kept: the monitor may have revoked it meanwhile, though. */
    if (!is_hurrying || !atomic_load_explicit(&w->is_attending, memory_order_relaxed))
        lw__attention_give(w);
}

void lw__worker_shift(struct lw__worker *w, bool is_hurrying) {
    lw_pool *pool = w->runner.pool;
    if (atomic_exchange(&w->is_hurrying, is_hurrying) == is_hurrying)
        return;
    if (is_hurrying) {
        atomic_fetch_add(&pool->hurrying, 1);
    } else {
        atomic_fetch_sub(&pool->hurrying, 1);
        if (lw__lot_count(&pool->room) > 0)
            lw__pool_offer_room(pool, false); /* less room is enough now */
    }
}

/* How many to take at once, and the change of gear that goes with it. */
static uint32_t choose_gear(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    bool is_hurrying = atomic_load_explicit(&w->is_hurrying, memory_order_relaxed) != 0;
    bool must_hurry = pool->can_hurry && w->mean_ns < LW__SHORT_TASK_NS
                      && w->streak >= LW__HURRY_STREAK && (is_hurrying || lw__monitor_start(pool));
    if (must_hurry != is_hurrying) {
        lw__worker_shift(w, must_hurry);
        if (must_hurry && pool->is_guarded)
            lw__monitor_rouse(pool); /* from now on it has to look more often */
        else if (must_hurry)
            lw__monitor_call(pool);
    }
    if (!must_hurry)
        return 1;
    uint32_t n = LW__BATCH_NS / (w->mean_ns + 1);
    return n > LW__BATCH_MAX ? LW__BATCH_MAX : n;
}

static void measure_queue_wait(struct lw__worker *w, uint64_t position, uint32_t n) {
    lw_pool *pool = w->runner.pool;
    uint64_t probe = atomic_load_explicit(&pool->probe, memory_order_acquire);
    if (probe == 0 || probe - 1 >= position + n)
        return;
    uint64_t time = atomic_load_explicit(&pool->probe_time, memory_order_relaxed);
    if (!atomic_compare_exchange_strong(&pool->probe, &probe, 0))
        return;
    /* If it was taken before its time was written, it did not wait to speak of. */
    uint64_t now = probe - 1 < position ? time : lw__now(pool->set.clock);
    lw__histogram_record(&w->queue_wait, now > time ? now - time : 1);
}

static uint32_t take_from_ring(struct lw__worker *w, uint32_t max) {
    lw_pool *pool = w->runner.pool;
    uint64_t position;
    if (max > 1)
        lw__spin_lull(w);
    uint32_t n = lw__ring_pop(&pool->ring, w->batch.items, max, &position);
    if (max > 1)
        lw__spin_tune_lull(w, n, max);
    if (n > 0) {
        if (LW__UNLIKELY(lw__lot_count(&pool->room) > 0))
            lw__pool_offer_room(pool, max > 1);
        measure_queue_wait(w, position, n);
    }
    return n;
}

static uint32_t take(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    uint32_t max = choose_gear(w), n = 0;
    /* acquire: whoever took orphans out of this worker's own batch has finished reading it */
    if (LW__UNLIKELY(atomic_load_explicit(&pool->orphans, memory_order_acquire) > 0))
        n = lw__batch_adopt(pool, &w->batch, w->batch.items, max);
    return n > 0 ? n : take_from_ring(w, max);
}

/* ---- between batches ---------------------------------------------------------------------------
 */

static void get_up(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    lw__spin_learn(w);
    w->has_just_woken = true;
    if (atomic_exchange(&w->is_up, 1) == 0 && pool->is_guarded)
        lw__monitor_call(pool);
}

static uint64_t idle_deadline(lw_pool *pool) {
    if (pool->set.idle_ns == LW__NEVER || lw__pool_stop_mode(pool) != LW__OPEN)
        return LW__NEVER;
    lw__mutex_lock(&pool->mu);
    bool is_extra = pool->live > pool->set.min_workers;
    lw__mutex_unlock(&pool->mu);
    return is_extra ? lw__now(pool->set.clock) + pool->set.idle_ns : LW__NEVER;
}

/* The queue is empty. False: the thread may end. */
static bool await_work(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    publish_settled(w);
    if (LW__UNLIKELY(lw__lot_count(&pool->quiet) > 0))
        lw__pool_announce_quiet(pool);
    if (lw__pool_may_end(pool))
        return false;
    if (lw__spin_for_work(w))
        return true;
    w->streak = 0;
    lw__worker_shift(w, false);
    atomic_store(&w->is_up, 0);
    bool is_woken = lw__attention_sleep(w, idle_deadline(pool));
    if (!is_woken && lw__crew_may_quit(w))
        return false;
    if (!is_woken)
        lw__attention_give(w);
    get_up(w);
    return true;
}

/* idle_ms = LW_ZERO: an extra worker is there for one task. */
static bool has_done_its_one_task(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    return LW__UNLIKELY(pool->set.idle_ns == 0) && w->has_run && lw__crew_may_quit(w);
}

static void work(struct lw__worker *w) {
    for (;;) {
        if (LW__UNLIKELY(!lw__pool_is_alive(w->runner.pool)))
            pthread_exit(NULL); /* a child that was forked inside a task has returned from it */
        uint32_t n = take(w);
        if (n > 0)
            run_batch(w, n);
        else if (!await_work(w))
            return;
        if (LW__UNLIKELY(w->is_dismissed) || has_done_its_one_task(w))
            return;
    }
}

/* A task has called pthread_exit, or was cancelled: the thread cannot be saved, its place can. */
static void on_thread_ending(void *arg) {
    struct lw__worker *w = arg;
    if (!lw__pool_is_alive(w->runner.pool))
        return;
    lw__pool_end_call(&w->runner);
    finish_task(w);
    if (w->is_direct)
        add_one(&w->direct_settled);
    else
        w->settled_here++;
    w->is_direct = false;
    lw__runner_release_thread(&w->runner);
    lw__crew_replace_thread(w); /* from here on the place belongs to another thread */
}

void *lw__worker_main(void *arg) {
    struct lw__worker *w = arg;
    pthread_cleanup_push(on_thread_ending, w);
    w->runner.outer = NULL;
    lw__runner_adopt_thread(&w->runner);
    get_up(w);
    w->asked_at = 0; /* the kernel counts by thread, and this is another one */
    w->has_run = false;
    run_claimed(w, 0); /* after a task that has ended the thread before this one */
    run_reserve(w);
    lw__attention_come_up(w);
    if (!w->is_dismissed)
        work(w);
    publish_settled(w);
    pthread_cleanup_pop(0);
    lw__runner_release_thread(&w->runner);
    lw__crew_leave(w);
    return NULL;
}
