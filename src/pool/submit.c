/* The way in. Submitting is a push and a look whether anybody attends; everything else here is
 * about what happens when the push fails.
 */
#include "base/error.h"
#include "base/futex.h"
#include "pool/pool_internal.h"

/* One task in ten or so has its wait in the queue measured: every 64th, and any that has to wake
 * somebody, which costs so much that reading the clock does not count. */
#define PROBE_MASK 63

#define ROOM_TURN_NS (200 * LW__NS_PER_US)
#define ROOM_SPIN_NS (60 * LW__NS_PER_US) /* about what sleeping and being woken takes */
#define ROOM_SPIN_SHIFT_MAX 5             /* of that at least a 32nd is tried */

struct submission {
    struct lw__ring_item item;
    lw_ctx *ctx; /* the caller's, or NULL */
    lw_overflow policy;
    int64_t timeout_ms; /* of LW_BLOCK; -1: for ever */
    uint64_t deadline;  /* the same as a moment, once it has had to wait; 0 before */
    struct lw__waiter me;
    bool has_waited;
    bool is_held;              /* counts in pool->slow_callers, so that a close waits for it */
    bool is_counted;           /* its refusal has been */
    struct lw__record *record; /* of the task, if it has one */
};

/* ---- the fast way ------------------------------------------------------------------------------
 */

static void set_probe(lw_pool *pool, uint64_t position) {
    if (atomic_load_explicit(&pool->probe, memory_order_relaxed) != 0)
        return;
    atomic_store_explicit(&pool->probe_time, lw__now(pool->set.clock), memory_order_relaxed);
    atomic_store_explicit(&pool->probe, position + 1, memory_order_release);
}

static inline void after_push(lw_pool *pool, const struct lw__ring_push *push) {
    LW__POINT("submit: pushed, attention not looked at");
    bool must_wake = lw__attention_is_missing(pool);
    if (LW__UNLIKELY(must_wake || (push->position & PROBE_MASK) == 0))
        set_probe(pool, push->position);
    if (LW__UNLIKELY(must_wake))
        lw__attention_wake_first(pool);
}

static int submit_and_say(lw_pool *pool, struct submission *s);

static inline struct lw__ring_item item_of(lw_pool_fn fn, void *arg) {
    return (struct lw__ring_item){.fn = (void (*)(void))fn, .arg = arg};
}

static inline int check_call(const lw_pool *pool, lw_pool_fn fn) {
    if (LW__UNLIKELY(!pool || !fn))
        return LW_EINVAL;
    return lw__pool_is_alive(pool) ? LW_OK : LW_EFORKED;
}

static inline bool push_one(lw_pool *pool, struct lw__ring_item item) {
    struct lw__ring_push push = {0};
    if (LW__UNLIKELY(lw__ring_push(&pool->ring, &item, 1, &push) != LW__RING_PUSHED))
        return false;
    after_push(pool, &push);
    return true;
}

int lw_pool_submit(lw_pool *pool, lw_pool_fn fn, void *arg) {
    int rc = check_call(pool, fn);
    if (LW__UNLIKELY(rc < 0))
        return rc;
    if (LW__LIKELY(push_one(pool, item_of(fn, arg))))
        return LW_OK;
    struct submission s = {.item = item_of(fn, arg),
                           .policy = pool->set.overflow,
                           .timeout_ms = pool->set.submit_timeout_ms};
    return submit_and_say(pool, &s);
}

int lw_pool_try_submit(lw_pool *pool, lw_pool_fn fn, void *arg) {
    int rc = check_call(pool, fn);
    if (LW__UNLIKELY(rc < 0))
        return rc;
    if (LW__LIKELY(push_one(pool, item_of(fn, arg))))
        return LW_OK;
    struct submission s = {.item = item_of(fn, arg), .policy = LW_REFUSE};
    return submit_and_say(pool, &s);
}

/* ---- waiting for room --------------------------------------------------------------------------
 */

/* Room for one is enough, except while workers hurry: then a submitter is let go only when it can
 * put many before it has to wait again, because each wait costs as much as hundreds of short
 * tasks. If one of them turns out slow the monitor lets it go with less. */
static uint64_t enough_room(lw_pool *pool) {
    if (atomic_load(&pool->hurrying) == 0)
        return 1;
    uint64_t mean_ns = atomic_load_explicit(&pool->mean_ns, memory_order_relaxed);
    uint64_t half = (pool->ring.limit + 1) / 2, room = LW__ROOM_WORTH_NS / (mean_ns + 1) + 1;
    return room < half ? room : half;
}

static bool has_room(lw_pool *pool, uint64_t needed) {
    return lw__ring_depth(&pool->ring) + needed <= pool->ring.limit;
}

/* As long as one submitter keeps a hurrying worker busy, waking the others only makes them compete:
 * they take turns, in the order in which they came. The queue running dry ends the turn. */
static bool is_next_turn(lw_pool *pool) {
    if (atomic_load(&pool->hurrying) == 0)
        return true;
    uint64_t now = lw__now(pool->set.clock);
    if (lw__ring_depth(&pool->ring) > 0
        && now < atomic_load_explicit(&pool->room_turn_ends, memory_order_relaxed))
        return false;
    atomic_store_explicit(&pool->room_turn_ends, now + ROOM_TURN_NS, memory_order_relaxed);
    return true;
}

void lw__pool_offer_room(lw_pool *pool, bool is_hurrying) {
    if (!has_room(pool, is_hurrying ? enough_room(pool) : 1))
        return;
    lw__ring_unbar(&pool->ring, LW__RING_GATED);
    if (!is_hurrying || is_next_turn(pool))
        lw__lot_wake_oldest(&pool->room);
}

static uint64_t bars_now(lw_pool *pool) {
    return atomic_load(&pool->ring.tail) & LW__RING_BARS;
}

/* Why a waiting submitter should not sleep (on). LW_PENDING: it should. LW_OK: it should try again.
 */
static int reason_to_go(lw_pool *pool, struct submission *s) {
    lw_reason reason = lw_ctx_reason(s->ctx);
    if (bars_now(pool) & (LW__RING_CLOSED | LW__RING_UNMANNED))
        return LW_OK;
    if (reason != LW_REASON_NONE)
        return reason == LW_REASON_TIMEOUT ? LW_ETIMEDOUT : LW_ECANCELED;
    return has_room(pool, enough_room(pool)) ? LW_OK : LW_PENDING;
}

/* A task's context is ended by its pool; a caller's own one has to be watched by whoever waits. */
static uint64_t wait_until(const struct submission *s) {
    if (!s->ctx || s->ctx->stop_mode)
        return s->deadline;
    uint64_t deadline = atomic_load(&s->ctx->deadline);
    return deadline < s->deadline ? deadline : s->deadline;
}

/* Sleeps until there may be room. The gate is shut while anybody waits, for everyone: otherwise
 * those who come later would take what the waiting ones wait for. */
static int sleep_for_room(lw_pool *pool, struct submission *s) {
    if (s->has_waited)
        lw__lot_enter_again(&pool->room, &s->me);
    else
        lw__lot_enter(&pool->room, &s->me);
    s->has_waited = true;
    lw__ring_bar(&pool->ring, LW__RING_GATED);
    LW__POINT("room: gate shut, room not looked at");
    /* An extra worker stays if it sees us here (lw__crew_may_quit); one that has just quit did not,
     * but then there is place for another. */
    bool has_grown =
        pool->set.max_workers > pool->set.min_workers && lw__crew_grow(pool, NULL) == LW_OK;
    int rc = has_grown ? LW_OK : reason_to_go(pool, s);
    if (rc != LW_PENDING) {
        lw__lot_leave(&pool->room, &s->me);
        if (rc == LW_OK)
            lw__pool_offer_room(pool, true); /* there is room, but the gate is shut, even by us */
    } else if (!lw__lot_wait(&pool->room, &s->me, pool->set.clock, wait_until(s))) {
        rc = reason_to_go(pool, s);
        if (rc == LW_PENDING)
            rc = LW_ETIMEDOUT;
    }
    if (lw__lot_count(&pool->room) == 0)
        lw__ring_unbar(&pool->ring, LW__RING_GATED);
    return rc < 0 ? rc : LW_PENDING;
}

/* Where tasks are short the room is there sooner than this thread could fall asleep and be woken.
 * One submitter at a time looks for it; the others sleep and leave the cores to those who work. A
 * look in vain halves the next one, and a look that pays doubles it: beside busy neighbours the
 * worker has lost its core, and a sleeper gets one back at once. The submitter does not yield: that
 * would ask to be put behind all neighbours. (Beside two endless loops on two cores W1 took 1,930
 * ns with yields and 170 without, W2 300 and 90.) */
static bool spin_for_room(lw_pool *pool) {
    uint64_t mean_ns = atomic_load_explicit(&pool->mean_ns, memory_order_relaxed);
    if (mean_ns > LW__SHORT_TASK_NS / 4 || pool->set.spin_percent < 0
        || atomic_exchange(&pool->has_room_spinner, 1) != 0)
        return false;
    bool is_found = false;
    uint32_t shift = atomic_load_explicit(&pool->room_spin_shift, memory_order_relaxed);
    uint64_t deadline = lw__now(pool->set.clock) + (ROOM_SPIN_NS >> shift);
    while (!is_found && lw__now(pool->set.clock) < deadline) {
        for (int i = 0; i < 64; i++)
            lw__spin_pause();
        is_found = has_room(pool, enough_room(pool)) || bars_now(pool) & ~LW__RING_GATED;
    }
    shift = is_found ? (shift > 0 ? shift - 1 : 0) : shift + (shift < ROOM_SPIN_SHIFT_MAX);
    atomic_store_explicit(&pool->room_spin_shift, shift, memory_order_relaxed);
    atomic_store_explicit(&pool->has_room_spinner, 0, memory_order_release);
    return is_found;
}

static int wait_for_room(lw_pool *pool, struct submission *s) {
    if (s->timeout_ms == 0)
        return LW_ETIMEDOUT;
    if (!s->has_waited && lw__lot_count(&pool->room) == 0 && spin_for_room(pool))
        return LW_PENDING;
    if (s->deadline == 0)
        s->deadline = lw__deadline_in(pool->set.clock, s->timeout_ms);
    struct lw__ctx_watch watch = {.lot = &pool->room, .waiter = &s->me};
    if (!s->is_held)
        atomic_fetch_add(&pool->slow_callers, 1);
    s->is_held = true;
    if (s->ctx)
        lw__ctx_watch(s->ctx, &watch);
    int rc = sleep_for_room(pool, s);
    if (s->ctx)
        lw__ctx_unwatch(s->ctx, &watch);
    if (rc < 0)
        lw__pool_offer_room(pool, false); /* the wake that it took may belong to the next one */
    return rc;
}

/* From here on a close may free the pool. */
static void let_go(lw_pool *pool) {
    lw__mutex_lock(&pool->mu);
    atomic_fetch_sub(&pool->slow_callers, 1);
    lw__pool_announce_quiet(pool);
    lw__mutex_unlock(&pool->mu);
}

/* ---- the policies ------------------------------------------------------------------------------
 */

void lw__pool_hand_back(lw_pool *pool, void *arg) {
    atomic_fetch_add(&pool->dropped, 1);
    if (!pool->set.on_drop || !lw__pool_is_alive(pool))
        return; /* what a forked child has of others is the parent's */
    struct lw__runner self = {.pool = pool, .index = LW__GUEST}; /* calls from it never wait */
    lw__runner_adopt_thread(&self);
    pool->set.on_drop(arg);
    lw__runner_release_thread(&self);
}

void lw__pool_drop(lw_pool *pool, struct lw__ring_item item) {
    lw_pool_fn fn = (lw_pool_fn)item.fn;
    void *arg = item.arg;
    if (fn == lw__pool_run_call) {
        atomic_fetch_add(&pool->dropped, 1);
        lw__pool_drop_call(item.arg);
    } else if (fn != lw__record_tag || lw__record_drop(pool, item.arg, &arg)) {
        lw__pool_hand_back(pool, arg);
    }
}

static int drop_oldest(lw_pool *pool) {
    struct lw__ring_item oldest;
    uint64_t position;
    if (lw__ring_pop(&pool->ring, &oldest, 1, &position) == 1) {
        lw__pool_drop(pool, oldest);
        LW__POINT("oldest: dropped, not settled");
        if (!lw__pool_is_alive(pool))
            return LW_EFORKED;
        lw__pool_settle_elsewhere(pool, 1);
    }
    return LW_PENDING;
}

/* After this the pool may be gone: the guest has counted its refusal and freed its record itself.
 * */
static int run_here(lw_pool *pool, struct submission *s) {
    s->is_counted = true;
    s->record = NULL;
    return lw__runner_run_as_guest(pool, s->item);
}

/* Inside a task nothing waits: first the worker's reserve, then at once, in place. */
static int submit_inside(lw_pool *pool, struct submission *s, struct lw__worker *w,
                         uint32_t nested) {
    if (w && lw__worker_reserve(w, s->item))
        return LW_OK;
    return nested < LW__NESTED_MAX ? run_here(pool, s) : LW_EFULL;
}

static int on_full(lw_pool *pool, struct submission *s) {
    if (s->policy == LW_REFUSE)
        return LW_EFULL;
    if (s->policy == LW_DROP_OLDEST)
        return drop_oldest(pool);
    uint32_t nested;
    struct lw__worker *w = lw__runner_current(pool, &nested);
    if (nested > 0)
        return submit_inside(pool, s, w, nested);
    if (s->policy == LW_CALLER_RUNS)
        return run_here(pool, s);
    return wait_for_room(pool, s);
}

/* Unless the task was cancelled by its ticket while its submitter still waited: then its argument
 * has gone to on_drop, as if it had been accepted. */
static int refuse(lw_pool *pool, const struct submission *s, int rc) {
    if (s->record && lw__record_refuse(pool, s->record))
        return LW_OK;
    if (!s->is_counted)
        atomic_fetch_add(&pool->refused, 1);
    return rc;
}

/* Whether to try again (LW_PENDING) after a bar. */
static int on_bar(lw_pool *pool, uint64_t bars) {
    if (!(bars & LW__RING_CLOSED))
        return lw__crew_man(pool);
    lw__pool_announce_quiet(pool); /* what it dropped to make room may have been the last of all */
    return LW_ESTOPPING;
}

/* One try: LW_OK, LW_PENDING: try again, or why not. */
static int try_once(lw_pool *pool, struct submission *s) {
    /* Making room by dropping, and the gate, which reserves room, exclude each other. */
    struct lw__ring_push push = {.pass = s->policy == LW_DROP_OLDEST ? LW__RING_GATED : 0};
    if (lw__ring_push(&pool->ring, &s->item, 1, &push) == LW__RING_PUSHED) {
        after_push(pool, &push);
        if (s->has_waited && lw__lot_count(&pool->room) > 0)
            lw__pool_offer_room(pool, true);
        return LW_OK;
    }
    if (push.bars & (LW__RING_CLOSED | LW__RING_UNMANNED))
        return on_bar(pool, push.bars);
    bool has_grown = lw__crew_grow(pool, NULL) == LW_OK; /* and has taken one out of the ring */
    return has_grown ? LW_PENDING : on_full(pool, s);
}

static int submit_slowly(lw_pool *pool, struct submission *s) {
    int rc;
    do
        rc = try_once(pool, s);
    while (rc == LW_PENDING);
    if (rc < 0)
        rc = refuse(pool, s, rc);
    if (s->is_held)
        let_go(pool);
    return rc;
}

/* What the caller is told: where the pool has gone meanwhile the task has been run all the same. */
static int submit_and_say(lw_pool *pool, struct submission *s) {
    int rc = submit_slowly(pool, s);
    return rc < 0 ? rc : LW_OK;
}

/* ---- with a context, or for a ticket -----------------------------------------------------------
 */

static int validate_with(const lw_pool *pool, lw_pool_fn fn, const lw_submit_options *o,
                         lw_error *err) {
    if (!pool)
        return lw__error_set(err, LW_EINVAL, 0, "the pool is NULL");
    if (!fn)
        return lw__error_set(err, LW_EINVAL, 0, "the function to run is NULL");
    if (!lw__pool_is_alive(pool))
        return lw__error_set(err, LW_EFORKED, 0,
                             "this pool belongs to the parent process: open one after the fork");
    if (o->struct_size != sizeof *o)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "struct_size is %zu, this library wants %zu: use LW_SUBMIT_OPTIONS(...)",
            o->struct_size, sizeof *o);
    if (o->timeout_ms < LW_ZERO || o->timeout_ms > LW_TIMEOUT_MS_MAX)
        return lw__error_set(err, LW_EINVAL, 0,
                             "timeout_ms is %lld, must be 1 to %lld, -1 (for ever) or LW_ZERO",
                             (long long)o->timeout_ms, (long long)LW_TIMEOUT_MS_MAX);
    return LW_OK;
}

int lw_pool_submit_with(lw_pool *pool, lw_pool_fn fn, void *arg, const lw_submit_options *options,
                        lw_error *err) {
    lw_submit_options o = {.struct_size = sizeof o};
    int rc = validate_with(pool, fn, options ? options : &o, err);
    if (rc < 0)
        return rc;
    if (options)
        o = *options;
    struct submission s = {.item = item_of(fn, arg),
                           .ctx = o.ctx,
                           .policy = pool->set.overflow,
                           .timeout_ms = o.timeout_ms == 0         ? pool->set.submit_timeout_ms
                                         : o.timeout_ms == LW_ZERO ? 0
                                                                   : o.timeout_ms};
    bool needs_record = o.ticket || (o.ctx && o.ctx->value_size > 0);
    if (needs_record) {
        s.record = lw__record_make(pool, fn, arg, o.ctx);
        if (!s.record)
            return lw__error_set(err, refuse(pool, &s, LW_ENOMEM), 0,
                                 "no memory for a record of %zu bytes", sizeof *s.record);
        s.item = item_of(lw__record_tag, s.record);
        if (o.ticket)
            *o.ticket = s.record->ticket;
    }
    rc = submit_and_say(pool, &s);
    if (rc >= 0)
        return rc;
    if (o.ticket)
        *o.ticket = 0;
    return lw__error_set(err, rc, 0, "the task was not accepted: %s", lw_status_text(rc));
}

/* ---- an lw_pool_run ----------------------------------------------------------------------------
 */

int lw__pool_submit_call(lw_pool *pool, void *call) {
    struct submission s = {
        .item = item_of(lw__pool_run_call, call), .policy = LW_BLOCK, .timeout_ms = -1};
    uint32_t nested;
    lw__runner_current(pool, &nested);
    if (LW__UNLIKELY(nested > 0)) /* as deep as the caller goes: to it this is a function call */
        return lw__runner_run_as_guest(pool, s.item);
    return LW__LIKELY(push_one(pool, s.item)) ? LW_OK : submit_slowly(pool, &s);
}

/* ---- many --------------------------------------------------------------------------------------
 */

#define CHUNK 64

/* Puts up to CHUNK tasks; returns how many. */
static size_t push_chunk(lw_pool *pool, const lw_pool_task *tasks, size_t n) {
    struct lw__ring_item items[CHUNK];
    for (size_t i = 0; i < n; i++)
        items[i] = item_of(tasks[i].fn, tasks[i].arg);
    struct lw__ring_push push = {0};
    if (lw__ring_push(&pool->ring, items, n, &push) != LW__RING_PUSHED)
        return 0;
    after_push(pool, &push);
    return push.count;
}

static int submit_next(lw_pool *pool, const lw_pool_task *task) {
    struct submission s = {.item = item_of(task->fn, task->arg),
                           .policy = pool->set.overflow,
                           .timeout_ms = pool->set.submit_timeout_ms};
    return submit_slowly(pool, &s);
}

static int check_many(const lw_pool *pool, const lw_pool_task *tasks, size_t count) {
    if (!pool || (count > 0 && !tasks))
        return LW_EINVAL;
    for (size_t i = 0; i < count; i++)
        if (!tasks[i].fn)
            return LW_EINVAL;
    return lw__pool_is_alive(pool) ? LW_OK : LW_EFORKED;
}

int lw_pool_submit_many(lw_pool *pool, const lw_pool_task *tasks, size_t count, size_t *accepted) {
    size_t done = 0;
    int rc = check_many(pool, tasks, count);
    while (rc == LW_OK && done < count) {
        size_t left = count - done;
        size_t n = push_chunk(pool, tasks + done, left < CHUNK ? left : CHUNK);
        if (n == 0) {
            rc = submit_next(pool, &tasks[done]);
            n = rc >= 0;
        }
        done += n;
    }
    if (rc > 0) /* the last one was run here, and has closed the pool or forked */
        rc = done == count ? LW_OK : rc == LW__FORKED ? LW_EFORKED : LW_ESTOPPING;
    if (accepted)
        *accepted = done;
    return rc;
}
