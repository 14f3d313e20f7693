/* The inside of a pool. To change it, read this page first; each file of the folder then has one
 * duty:
 *
 *     options.c   what the caller asked for, with defaults, validated
 *     pool.c      open and close
 *     submit.c    the way in: push, and what a full queue means
 *     call.c      a task whose submitter waits for its end
 *     attention.c who has to be woken, and when nobody has (the hot path's one clever idea)
 *     worker.c    the way through: take, run, settle, look for more, sleep
 *     hot.h       the inline functions on the way of every short task
 *     batch.c     what a worker has taken and not begun
 *     spin.c      looking for work a little longer before sleeping
 *     runner.c    one task's run: what workers and caller-run tasks have in common
 *     crew.c      the set of worker threads: start, quit, replace
 *     monitor.c   guard timeouts, stuck tasks, rescue of what waits behind a slow task
 *     record.c    tasks that carry a context or have a ticket
 *     stop.c      stop, wait until idle
 *     stats.c     figures, and the list of what runs
 *
 * Lock order: pool->mu, then ctx->mu, then any lot's mu; pool->records_mu is taken alone or before
 * ctx->mu. No callback of the user's (fn, on_drop, on_stuck, log) ever runs under a lock.
 */
#ifndef LW_POOL_INTERNAL_H
#define LW_POOL_INTERNAL_H

#include "base/clock.h"
#include "base/expect.h"
#include "base/histogram.h"
#include "base/lot.h"
#include "base/mutex.h"
#include "base/points.h"
#include "base/ring.h"
#include "base/slab.h"
#include "pool/ctx.h"
#include "pool/staff.h"

#include <legwork/pool.h>
#include <pthread.h>

#define LW__LIKELY(x) __builtin_expect(!!(x), 1)
#define LW__UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- limits and measured constants ---------------------------------------------------------- */

#define LW__BATCH_MAX 64       /* tasks that a worker takes at once, if they are short */
#define LW__NESTED_MAX 16      /* tasks run inside each other in one thread */
#define LW__SHORT_TASK_NS 2000 /* below this on average a worker hurries: see attention.c */
#define LW__BATCH_NS 8000      /* a batch is about this long at most */
/* one slow task among short ones moves the mean by 2 µs, not by seconds */
#define LW__MEAN_CLIP_NS 16000
#define LW__LONG_MEAN_CLIP_NS 1000000 /* from a millisecond on, a task is just slow */
/* a backlog of this much work per busy worker is worth waking another */
#define LW__WAKE_WORTH_NS 50000
/* blocked submitters are released when this much work's room is free */
#define LW__ROOM_WORTH_NS 500000
#define LW__TICK_NS (2 * LW__NS_PER_MS) /* how often the monitor looks at hurrying workers */
#define LW__HURRY_STREAK 8              /* batches without sleep before a worker may hurry */
/* from the end of the guard timeout to being declared stuck */
#define LW__STUCK_GRACE_NS (2 * LW__NS_PER_MS)

/* ---- one running task ----------------------------------------------------------------------- */

/* Internal statuses, positive: the task was run in place, and it … */
#define LW__GONE 98   /* … has closed the pool, which is freed */
#define LW__FORKED 99 /* … has returned in a forked child */

#define LW__GUEST UINT32_MAX /* the index of a runner that is no worker */

/* Whatever runs a task: a worker, or a submitting thread for as long as it runs one itself. */
struct lw__runner {
    lw_ctx ctx;
    /* fixed after open */
    lw_pool *pool;
    uint32_t index;
    /* atomic: what runs; valid while the signal's number stays the same */
    _Atomic(lw_pool_fn) fn;
    _Atomic(void *) arg;
    _Atomic uint64_t
        started; /* 0: within a batch of short ones, so the monitor notes when it first sees it */
    /* the running thread only */
    uint64_t number;          /* of the present task */
    void *call;               /* the lw_pool_run that it belongs to, if any */
    bool is_dropping;         /* it runs no task, but drops a backlog */
    struct lw__runner *outer; /* around this one in the same thread; see runner.c */
    /* monitor only */
    uint64_t seen_number;
    uint64_t seen_at;
    uint64_t overdue_number; /* its context was ended … */
    uint64_t overdue_at;     /* … then */
    /* guarded by pool->mu */
    struct lw__runner *next_guest, *previous_guest;
};

/* ---- a batch ------------------------------------------------------------------------------ */

/* Tasks that a worker has taken and not begun. While it is inside a task that turns out to be slow
 * the monitor makes them orphans, which any worker may take. */
struct lw__batch {
    _Atomic uint32_t next; /* the owner has claimed the items below this … */
    _Atomic uint32_t end;  /* … and may claim those below this */
    struct lw__mutex mu;
    uint32_t orphan_next, orphan_end; /* guarded by mu */
    struct lw__ring_item items[LW__BATCH_MAX];
};

/* ---- a worker ----------------------------------------------------------------------------- */

enum lw__worker_state {
    LW__WORKER_FREE,    /* no thread */
    LW__WORKER_LIVE,    /* takes tasks */
    LW__WORKER_STUCK,   /* written off, its thread still runs a task */
    LW__WORKER_LEAVING, /* on its way out, no longer counted as live */
};

struct lw__worker {
    struct lw__runner runner; /* first, so that one can be had from the other */
    /* guarded by pool->mu */
    enum lw__worker_state state;
    pthread_t thread;
    /* worker only */
    struct lw__record *record; /* of the present task */
    uint32_t mean_ns;          /* of a task, lately: decides on hurrying */
    uint32_t long_mean_ns;     /* the same, less clipped: for pool->mean_ns */
    uint32_t batch_count;      /* for sampling */
    uint32_t lull;             /* breaths between batches; see spin.c */
    uint32_t streak;           /* batches since it last slept */
    uint64_t idle_since;       /* when it last ran out of work; 0: it has not */
    uint64_t gap_ns;           /* how long it is out of work, lately */
    uint32_t poll_rounds;      /* for asking now and then */
    uint64_t asked_at;         /* when it last did; 0: it has slept since */
    uint64_t cpu_then;         /* how long its thread had run by then */
    bool has_just_woken;
    bool has_run;                  /* a task, since its thread has started */
    struct lw__ring_item *reserve; /* LW_POOL_RESERVE cells, made at the first use */
    uint32_t reserve_head, reserve_count;
    uint64_t settled_here; /* run or dropped: the next value of `settled` */
    bool is_direct;        /* the present task never was in the ring */
    bool is_dismissed;     /* it came back from being stuck, and its place is taken */
    /* the batch: what was taken and has not begun; see batch.c */
    struct lw__batch batch;
    /* atomic, written by the worker, read by anybody */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t
        settled;                             /* of what came through the ring: run or dropped */
    _Atomic uint64_t not_run;                /* of all settled here, dropped, or cancelled before */
    _Atomic uint32_t reserved;               /* reserve_count, for those who look */
    _Atomic uint64_t direct, direct_settled; /* taken from the reserve past the ring; ended */
    _Atomic uint32_t is_attending;           /* counts in pool->attentive */
    _Atomic uint32_t is_hurrying; /* tasks are short: batches, and attentive while running */
    _Atomic uint32_t is_up;       /* neither asleep nor looking for work for long */
    struct lw__histogram queue_wait;
    struct lw__histogram run_time;
    struct lw__waiter waiter;
};

/* ---- a task with a context or a ticket ------------------------------------------------------ */

enum lw__record_state { LW__RECORD_QUEUED, LW__RECORD_RUNNING, LW__RECORD_CANCELLED };

struct lw__record {
    lw_pool_fn fn;
    void *arg;
    lw_ticket ticket;
    /* guarded by pool->records_mu */
    enum lw__record_state state;
    struct lw__runner *runner; /* while it runs */
    uint64_t number;           /* of its run */
    uint32_t value_size;
    unsigned char value[LW_CTX_VALUE_MAX];
};

/* ---- the pool ----------------------------------------------------------------------------- */

/* Values of stop_mode: how far a stop has gone. They only grow. */
enum { LW__OPEN = 0, LW__DRAINING = 1, LW__DROPPING = 2 };

/* Options with every default filled in. */
struct lw__pool_settings {
    char name[LW_POOL_NAME_MAX + 1];
    uint32_t min_workers, max_workers, stuck_max;
    uint64_t queue_limit;
    uint64_t idle_ns;          /* LW__NEVER: extra workers stay */
    int64_t submit_timeout_ms; /* -1: for ever */
    uint64_t task_timeout_ns;  /* LW__NEVER: no guard */
    int spin_percent;          /* -1: none, 0: adaptive */
    lw_overflow overflow;
    void (*on_drop)(void *arg);
    void (*on_stuck)(void *user, const lw_pool_run_info *task);
    void *user;
    lw_log log;
    lw_clock *clock;
    lw_allocator allocator;
};

struct lw_pool {
    /* fixed after open */
    struct lw__pool_settings set;
    _Atomic uint32_t *is_alive; /* in a page that a fork wipes */
    bool is_guarded;            /* has a guard timeout */
    bool has_barrier;           /* lw__barrier_everywhere works */
    bool can_hurry;

    /* atomic, seldom written */
    _Alignas(LW__CACHE_LINE) _Atomic uint32_t stop_mode;
    _Atomic uint32_t
        birth_reason; /* tasks start with this reason to end: after the deadline of a drain */
    _Atomic uint64_t stop_deadline; /* of a drain that nobody waits for; LW__NEVER: none */
    _Atomic uint32_t
        attentive; /* workers that will look at the queue before they sleep or run something slow */
    struct lw__expect expected;       /* a worker that may not be running will do so, too */
    _Atomic uint64_t busy_until;      /* nobody spins: the machine was busy; 0: it never was */
    _Atomic uint32_t busy_ns;         /* how long that pause is; 0: there was none */
    _Atomic int waker_cpu;            /* the core of the thread that woke a worker last */
    _Atomic uint32_t orphans;         /* tasks in batches that any worker may take */
    _Atomic uint32_t mean_ns;         /* of a task, as the last worker saw it */
    _Atomic uint32_t hurrying;        /* workers that do */
    _Atomic uint32_t has_monitor;     /* the monitor's thread was started */
    _Atomic uint32_t is_monitor_away; /* it sleeps without a time: somebody must wake it */
    struct lw__lot idle;              /* workers without work; wake the newest */
    struct lw__lot room;              /* submitters that wait for room; wake the oldest */
    struct lw__lot quiet;             /* callers of stop and wait_idle */

    struct lw__ring ring;

    /* the idle worker that spins, one at a time */
    _Alignas(LW__CACHE_LINE) _Atomic uint32_t has_spinner;
    _Atomic uint32_t has_room_spinner; /* a submitter that waits for room, likewise */
    _Atomic uint32_t room_spin_shift;  /* how much shorter that one looks, by halves */
    /* spinner only */
    uint64_t spin_credit_ns;
    uint64_t spin_credit_at;

    /* one task at a time whose wait in the queue is measured */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t probe; /* position + 1; 0: none */
    _Atomic uint64_t probe_time;

    /* atomic, slow paths */
    _Alignas(LW__CACHE_LINE) _Atomic uint64_t
        settled_elsewhere; /* dropped from the ring by no worker */
    _Atomic uint64_t begun_by_guests, run_by_guests;
    _Atomic uint32_t shells;         /* cancelled tasks of which the record is still queued */
    _Atomic uint64_t room_turn_ends; /* until then the next submitter is not woken; see submit.c */
    _Atomic uint64_t refused;
    _Atomic uint64_t dropped; /* handed back to their owners */
    _Atomic uint64_t stuck;
    _Atomic uint64_t wakes;
    _Atomic uint32_t slow_callers; /* inside a submit that could not just push */
    _Atomic uint32_t guest_count;

    struct lw__mutex mu;
    /* guarded by mu */
    struct lw__worker **workers; /* max_workers + stuck_max places, filled as needed */
    uint32_t worker_slots;       /* places that have ever been filled */
    uint32_t threads;            /* live, stuck and leaving */
    uint32_t leaving;            /* of these, have quit and are on their way out */
    uint32_t live;               /* threads that take tasks */
    uint32_t threads_peak;
    struct lw__runner *guests;
    pthread_t last_exited; /* not joined yet */
    bool has_last_exited;
    bool has_timed_out; /* a stop has */
    bool is_abandoned;  /* closed; the last thread frees it */
    bool is_monitor_running;
    bool must_monitor_end;
    pthread_t monitor;
    struct lw__lot monitor_lot; /* the monitor sleeps here, alone */

    struct lw__mutex records_mu;
    struct lw__slab records; /* guarded by records_mu */
};

static inline bool lw__pool_is_alive(const lw_pool *pool) {
    return LW__LIKELY(atomic_load_explicit(pool->is_alive, memory_order_relaxed) != 0);
}

static inline uint32_t lw__pool_stop_mode(const lw_pool *pool) {
    return atomic_load_explicit(&pool->stop_mode, memory_order_seq_cst);
}

/* Whether there is something for a worker to take. */
static inline bool lw__pool_has_work(lw_pool *pool) {
    return atomic_load_explicit(&pool->orphans, memory_order_seq_cst) > 0
           || lw__ring_has_items(&pool->ring);
}

/* Whether everything that was accepted has been taken; not the opposite of the above, because a
 * submitter may be in the middle of putting something. */
static inline bool lw__pool_is_drained(lw_pool *pool) {
    return lw__ring_depth(&pool->ring) == 0
           && atomic_load_explicit(&pool->orphans, memory_order_seq_cst) == 0;
}

/* ---- options.c ---------------------------------------------------------------------------- */

int lw__pool_settle_options(struct lw__pool_settings *set, const lw_pool_options *options,
                            lw_error *err);

/* ---- attention.c -------------------------------------------------------------------------- */

/* After a push: wakes a worker if nobody would look otherwise. Inline, because every submit pays
 * for it. */
void lw__attention_wake_first(lw_pool *pool);

static inline bool lw__attention_is_missing(lw_pool *pool) {
    return atomic_load_explicit(&pool->attentive, memory_order_seq_cst) == 0
           && lw__lot_count(&pool->idle) > 0;
}

void lw__attention_give(struct lw__worker *w);    /* "I will look at the queue" */
void lw__attention_come_up(struct lw__worker *w); /* the same, of a worker that was expected */
/* An attentive worker spins: it is only expected, until then, and comes up when it ends. */
void lw__attention_spin(struct lw__worker *w, uint64_t until);
void lw__attention_withdraw(
    struct lw__worker *w); /* "I might not, for a while": passes the duty on */
void lw__attention_reinforce(struct lw__worker *w, uint32_t taken); /* a backlog wakes another */
bool lw__attention_sleep(struct lw__worker *w, uint64_t deadline);  /* false: the time ran out */
void lw__attention_wake_all(lw_pool *pool);

/* ---- submit.c ----------------------------------------------------------------------------- */

/* Hands the argument of an accepted task that will not run back to its owner. */
void lw__pool_hand_back(lw_pool *pool, void *arg);

/* The same for an item of the ring, whatever it is. */
void lw__pool_drop(lw_pool *pool, struct lw__ring_item item);

/* Lets blocked submitters go on if enough room is free: by workers after taking, and by the monitor
 * if they hurry, because then not at every take. */
void lw__pool_offer_room(lw_pool *pool, bool is_hurrying);

/* Submits an lw_pool_run. */
int lw__pool_submit_call(lw_pool *pool, void *call);

/* ---- call.c ------------------------------------------------------------------------------- */

/* The function of ring items that belong to an lw_pool_run, and what to do instead of running one.
 */
void lw__pool_run_call(lw_ctx *ctx, void *call);
void lw__pool_drop_call(void *call);
void lw__pool_end_call(struct lw__runner *runner); /* if the present task is one */

/* ---- runner.c ----------------------------------------------------------------------------- */

void lw__runner_init(struct lw__runner *r, lw_pool *pool, uint32_t index);
void lw__runner_free(struct lw__runner *r);

/* lw__runner_begin and lw__runner_end, between which a task runs, are in hot.h. This is the rest of
 * a begin in a pool that stops; false: it drops, and the task must not start. */
bool lw__runner_begin_late(struct lw__runner *r);

/* Says that the calling thread runs tasks of this runner. */
void lw__runner_adopt_thread(struct lw__runner *r);

/* A thread of the pool's own ends: what its thread-specific destructors call is no longer inside.
 */
void lw__runner_release_thread(const struct lw__runner *r);

/* Runs a task in the calling thread, as a guest of the pool. LW_OK; LW__GONE, LW__FORKED: it was
 * run, and the pool cannot be used any more; LW_ESTOPPING: it was not run, and that has been
 * counted. A record is freed in any case. */
int lw__runner_run_as_guest(lw_pool *pool, struct lw__ring_item item);

/* The worker whose thread is calling; NULL: none. *nested is how many tasks of this pool the thread
 * runs. */
struct lw__worker *lw__runner_current(const lw_pool *pool, uint32_t *nested);

/* Whether the caller is inside a task of this pool, or its monitor. */
bool lw__runner_is_inside(const lw_pool *pool);

/* Whether it is inside an on_drop of the backlog that its own thread drops. */
bool lw__runner_is_dropping(const lw_pool *pool);

/* Ends every running task for a reason. The flag that makes later ones end must have been set
 * before. */
void lw__runner_end_all(lw_pool *pool, lw_reason reason);

/* What a runner runs. False: nothing. */
bool lw__runner_describe(struct lw__runner *r, uint64_t now, lw_pool_run_info *info);

/* ---- crew.c ------------------------------------------------------------------------------- */

/* Starts one more worker if the limits allow. LW_OK, LW_EFULL: the limits do not, LW_ENOMEM,
 * LW_ESYSTEM. */
int lw__crew_grow(lw_pool *pool, lw_error *err);

/* The same when there is no live one at all. LW_ESTUCK: all that may be are stuck. */
int lw__crew_man(lw_pool *pool);

/* A worker's thread is about to end; false: it may not, there is work and nobody else. */
bool lw__crew_may_quit(struct lw__worker *w);
void lw__crew_leave(struct lw__worker *w);

/* The monitor found it stuck. A returning one asks whether it may go on. */
void lw__crew_write_off(struct lw__worker *w);
bool lw__crew_take_back(struct lw__worker *w);

/* A task has ended its thread. */
void lw__crew_replace_thread(struct lw__worker *w);

void lw__crew_join_last(lw_pool *pool);
void lw__crew_free_places(lw_pool *pool);

/* ---- worker.c ----------------------------------------------------------------------------- */

void *lw__worker_main(void *worker);

/* Changes gear: hurrying or strict. The worker's own thread. */
void lw__worker_shift(struct lw__worker *w, bool is_hurrying);

/* From inside one of the worker's own tasks: keeps an item until after it. False: no room, no
 * memory. */
bool lw__worker_reserve(struct lw__worker *w, struct lw__ring_item item);

/* ---- spin.c ------------------------------------------------------------------------------- */

/* Looks for work for a while; true: there is some. */
bool lw__spin_for_work(struct lw__worker *w);

/* Whether to spin at all: it was not forbidden, and the machine is not busy, as far as is known. */
bool lw__spin_may(const lw_pool *pool);

/* A breath between two batches, so that several tasks gather. */
void lw__spin_lull(struct lw__worker *w);
void lw__spin_tune_lull(struct lw__worker *w, uint32_t found, uint32_t max);

/* Work was found: notes how long the worker was out of it, for the next time. */
void lw__spin_learn(struct lw__worker *w);

/* ---- batch.c ------------------------------------------------------------------------------ */

void lw__batch_init(struct lw__batch *batch);
void lw__batch_free(struct lw__batch *batch);
void lw__batch_start(struct lw__batch *batch,
                     uint32_t count); /* the owner: items[0..count) are there */
bool lw__batch_claim_again(struct lw__batch *batch, uint32_t index); /* the slow half of it */
bool lw__batch_orphan(
    lw_pool *pool, struct lw__batch *batch); /* the monitor: what has not begun; true: something */

/* For a place without a thread: moves the oldest task of the ring there, where the thread that is
 * about to start finds it first, but any other may take it. So a submitter that has made the crew
 * grow has also made room for its own task. */
void lw__batch_shelter(lw_pool *pool, struct lw__batch *batch);

/* Takes up to max orphans of the pool, one's own first; `own` may be NULL. */
uint32_t lw__batch_adopt(lw_pool *pool, struct lw__batch *own, struct lw__ring_item *items,
                         uint32_t max);

/* ---- monitor.c ---------------------------------------------------------------------------- */

bool lw__monitor_start(lw_pool *pool);
void lw__monitor_call(lw_pool *pool);  /* wakes it if it is away */
void lw__monitor_rouse(lw_pool *pool); /* lets it look now, whatever it waits for */
void lw__monitor_stop(lw_pool *pool);  /* asks it to end, and joins it unless it is the caller */

/* ---- record.c ----------------------------------------------------------------------------- */

/* The function of ring items whose arg is a record. Never called. */
void lw__record_tag(lw_ctx *ctx, void *record);

struct lw__record *lw__record_make(lw_pool *pool, lw_pool_fn fn, void *arg, lw_ctx *values);
bool lw__record_start(struct lw__record *record,
                      struct lw__runner *runner); /* false: it was cancelled */
void lw__record_free(lw_pool *pool, struct lw__record *record);

/* Frees the record of a task that was not accepted. True: it has been cancelled, and handed back.
 * */
bool lw__record_refuse(lw_pool *pool, struct lw__record *record);
bool lw__record_drop(lw_pool *pool, struct lw__record *record,
                     void **arg); /* false: it was dropped before */

/* ---- stop.c ------------------------------------------------------------------------------- */

/* So many tasks of the ring have been settled, by no worker. */
void lw__pool_settle_elsewhere(lw_pool *pool, uint32_t count);

/* Whether a worker that finds nothing to do may end. */
bool lw__pool_may_end(lw_pool *pool);

/* Wakes callers of wait_idle and stop if what they wait for may be true. */
void lw__pool_announce_quiet(lw_pool *pool);
void lw__pool_begin_stop(lw_pool *pool, lw_stop_mode mode);

/* The monitor's: ends the time of a drain that was begun inside a task. Returns when. */
uint64_t lw__pool_watch_stop(lw_pool *pool, uint64_t now);
bool lw__pool_has_ended_locked(lw_pool *pool) LW__REQUIRES(pool->mu);

/* ---- pool.c ------------------------------------------------------------------------------- */

/* Frees everything, when no thread is left. */
void lw__pool_free(lw_pool *pool);

#endif
