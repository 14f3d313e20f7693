/* The inside of the engine.
 *
 *     engine.c     open, start, close                  scheduler.c  the thread that knows the time
 *     registry.c   kinds and queues by name            stop.c       stop, wait_idle
 *     spec.c       a task as submitted, checked        wait.c       lw_wait, _get, _find, _list
 *     submit.c     accept; what to do when it is full  snapshot.c   copies for callers
 *     answers.c    who submitted without waiting       client.c     where another process owns
 *                                                                   the store
 *     hand.c       who runs attempts: turns, gears     tell.c       callbacks and log, at the end
 *     run.c        an attempt, a batch: the hot path   events.c     streams of state changes
 *     attempt.c    what a handler can call             explain.c    why a task does not run
 *     series.c     names with figures of their own
 *     verdict.c    from outcome to settlement          metrics.c    figures
 *     oversight.c  what others do to hands             steer.c      cancel, retry, forget, pause
 *     attention.c  is a worker looking?                testing.c    an engine without threads
 *     lease.c, lease_settle.c   attempts that others   watch.c      who waits for such
 *                  run                                 leftovers.c  tasks that a close leaves
 *     nested.c     handlers that wait for tasks
 *     options.c, range.c, retry.c                      settled options; how long a retry waits
 *     unhandled.c  kinds without a handler, for the log
 *     layer.c      what the layers above may use: their say in settlements, scopes that change
 *
 * A task's way: lw_submit puts it into the store; if no worker is looking, one token goes to the
 * pool; a worker that runs a token (a hand) takes turns: settle what it has run, claim, run; until
 * there is nothing more. All that is known of a task is in the store; the engine knows only who
 * runs what.
 *
 * Two gears, as in the pool. A strict hand claims one task and withdraws its attention before it
 * runs it. One whose tasks have been short for a while hurries: it claims up to 248 at once, keeps
 * its attention, reads the clock once a batch, and the scheduler looks every 2 ms whether it is
 * stuck behind a slow one; then what was not begun goes back.
 *
 * Locks, in this order: a hand's mu; the store's lock and a task's lock (store/index.h); hands_mu;
 * alarms_mu; events_mu; registry_mu; series_mu; scopes_mu; watches_mu; the answers' mu and
 * scheduler_mu, each alone. No callback of the program runs under any of them.
 */
#ifndef LW_ENGINE_ENGINE_INTERNAL_H
#define LW_ENGINE_ENGINE_INTERNAL_H

#include "base/expect.h"
#include "base/histogram.h"
#include "base/lot.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/name_table.h"
#include "base/points.h"
#include "base/recycler.h"
#include "base/table.h"
#include "engine/layer.h"
#include "engine/options.h"
#include "pool/ctx.h"
#include "store/index.h"
#include "store/journal.h"
#include "store/store.h"

#define LW__HAND_BATCH LW__CLAIM_MAX
#define LW__HAND_TICK_NS (2 * LW__NS_PER_MS) /* how soon a slow task in a batch is noticed */
#define LW__HAND_SHORT_NS 2000               /* tasks shorter than this on average may be batched */
#define LW__HAND_BATCH_NS 50000              /* and this is how long a batch should take */
#define LW__HAND_STREAK 8                    /* after so many turns without a pause */
#define LW__SCOPE_AWAIT_BUCKETS 64

/* How hard the engine stops; only ever rises. */
enum lw__stop_level { LW__RUNNING, LW__STOP_DRAIN_ALL, LW__STOP_DRAIN, LW__STOP_DROP };

/* How long attempts waited and ran; of a kind, or of a queue. */
struct lw__latencies {
    struct lw__mutex mu;
    const struct lw__series_name *whose; /* guarded by mu; NULL: those of all without a place */
    struct lw__histogram wait, run;      /* guarded by mu; read by anybody */
};

/* Kinds, and queues, that have series of their own in the figures; the others are summed: series.c.
 * As many as an operator can look at, and as a scrape of some 10,000 lines can hold. */
#define LW__SERIES_MAX 100
#define LW__SERIES_COUNTERS 7 /* of a kind; a queue has the first four */

/* Part of a kind or queue; zeroed: it has no place. */
struct lw__series_name {
    struct lw__latencies *_Atomic latencies; /* its own; NULL: those of the others */
    /* guarded by series_mu */
    uint32_t place; /* and one more; 0: none */
    bool is_declared;
    uint64_t seen; /* tasks submitted, at the last review */
};

struct lw__series_place {
    struct lw__series_name *name;
    struct lw__latencies *latencies;        /* fixed */
    uint64_t base[LW__SERIES_COUNTERS];     /* what it had when it got the place */
    uint64_t activity;                      /* submits between the last two reviews */
    uint64_t counters[LW__SERIES_COUNTERS]; /* at the last one */
};

struct lw__series_candidate {
    struct lw__series_name *name;
    uint64_t activity;
    uint64_t counters[LW__SERIES_COUNTERS];
};

struct lw__series {
    uint32_t counter_count; /* fixed */
    struct lw__latencies others;
    /* guarded by series_mu */
    _Atomic uint32_t count; /* read by anybody */
    uint32_t candidate_count;
    uint64_t reviewed_at;
    uint64_t gone[LW__SERIES_COUNTERS]; /* what series had that have ended */
    struct lw__series_place places[LW__SERIES_MAX];
    struct lw__series_candidate candidates[LW__SERIES_MAX]; /* of the present review */
};

/* What the engine knows of a kind beyond the store. Its first cache line is what a submit of a
 * plain task reads. */
struct lw__kind_info {
    struct lw__name_entry entry; /* first; fixed */
    /* fixed after lw_start, or after the kind was first seen */
    lw_handler run;
    uint16_t number;
    _Atomic bool is_call;      /* no handler, but tasks that bring a function along */
    _Atomic bool is_awaiting;  /* no handler, and tasks that wait for one */
    _Atomic bool is_unhandled; /* noted to be told: unhandled.c */
    bool is_registered;
    char name[LW_NAME_MAX + 1];
    struct lw__kind_settings set;
    const struct lw__layer *layer; /* whose kind it is (layer.h); NULL: the program's */
    void *layer_user;
    struct lw__series_name series;
    /* guarded by mu */
    struct lw__mutex mu;
    int fail_count; /* lw_test_fail_next */
    lw_outcome fail_outcome;
    char fail_text[LW_TEXT_MAX + 1];
    _Atomic bool has_failures_ordered;
};

struct lw__queue_info {
    struct lw__name_entry entry; /* first; fixed */
    uint16_t number;
    bool is_registered;
    char name[LW_NAME_MAX + 1];
    struct lw__queue_settings set;
    _Atomic uint32_t waiting; /* submitters that wait for room for one task without bytes */
    struct lw__series_name series;
};

/* What the handler has said so far; the hand's own thread only. */
struct lw__say {
    bool has_more; /* than an outcome: there is something to forget */
    bool has_wait, has_result;
    uint64_t wait_ns; /* retry_after, snooze */
    void *result;
    size_t result_size;
    char text[LW_TEXT_MAX + 1];
    struct lw__put *successors;
    size_t successor_count, successor_capacity;
    uint64_t successor_bytes; /* payloads of those of lw_then */
    uint32_t bits;            /* lw__layer_note */
    const char *refusal;      /* a call that could not be honoured: the attempt fails with this */
};

/* Whoever runs attempts: a pool's worker with a token, a submitter (LW_CALLER_RUNS), or a test. */
struct lw__hand {
    lw_ctx ctx; /* of the present attempt; its owner is the hand */
    lw_engine *engine;
    struct lw__hand *outer;        /* of the same thread */
    struct lw__hand *next, **link; /* in engine->hands; guarded by hands_mu */
    _Atomic uint64_t *running;     /* where the store wants to see what it runs; NULL: nowhere */
    lw_ctx *pool_ctx;              /* of the token; NULL: no worker */

    /* the present attempt: written by the hand's thread, read under hands_mu */
    _Atomic uint64_t token;   /* 0: none */
    _Atomic uint64_t task_id; /* while there is a token: the task itself may be gone for others */
    struct lw__task *_Atomic task;
    _Atomic bool is_stuck; /* written off: its token ends with the attempt */

    /* the hand's own thread */
    uint64_t number;
    struct lw__kind_info *kind;
    uint64_t started; /* the time that it has read last, for the present attempt or its batch */
    lw_task shown;
    char *checkpoint; /* that it shows: a copy, because the handler may save another. NULL: none */
    struct lw__say say;
    bool is_ordered;  /* how the attempt ends (lw_test_fail_next): no handler was called */
    uint64_t to_tell; /* the task whose attempt on_attempt is to hear of; 0: none */
    bool is_holding;  /* that task, so that it does not leave before */
    struct lw__await hold;
    uint32_t mean_ns, streak, lull;
    bool has_followers; /* its last task was not alone: others were claimed with it, or left */
    bool is_hurrying;
    size_t left;  /* tasks that could be claimed after the last claim */
    uint32_t ran; /* tasks of the batch that have been run */
    bool must_tell;
    bool has_settled;          /* tasks one by one, since the last turn */
    bool is_half_free;         /* the store had room for as many tasks again, then */
    _Atomic bool is_attentive; /* cleared by the scheduler, too */
    _Atomic bool is_time_old;  /* set by the scheduler: `started` was read a tick ago, or more */
    uint32_t batch_number;

    /* guarded by alarms_mu */
    struct lw__timer alarm;
    bool is_overdue; /* the soft deadline has passed; the alarm is for the hard one */
    uint64_t alarm_token;
    uint64_t alarm_at; /* the soft deadline */
    uint64_t stuck_ns; /* from that to the hard one */

    /* a batch: see hand.c */
    struct lw__mutex mu;
    _Atomic uint64_t cursor; /* lw__cursor */
    struct lw__task *_Atomic batch[LW__HAND_BATCH];
    uint64_t batch_token;             /* of batch[0]; written under mu, by the owner */
    uint16_t first_kind, first_queue; /* of batch[0], the owner's */
    uint64_t first_enqueued;
    uint32_t accounted;   /* guarded by mu: the store knows that these have ended */
    uint64_t seen_cursor; /* the scheduler's */
    char apart[LW__LINE]; /* from the next one */
};

/* Where a batch stands: its number, the next task and the end of what is left to its hand. */
static inline uint64_t lw__cursor(uint32_t number, uint32_t next, uint32_t end) {
    return (uint64_t)number << 32 | next << 16 | end;
}

static inline uint32_t lw__cursor_next(uint64_t cursor) {
    return (uint32_t)(cursor >> 16 & 0xffff);
}

static inline uint32_t lw__cursor_end(uint64_t cursor) {
    return (uint32_t)(cursor & 0xffff);
}

/* A handler or callback that waits for a task, for a resource of a flow, or for an event; on its
 * stack, until its wait is over. */
struct lw__nested {
    uint64_t id;     /* the task that it waits for; 0: something else, that needs a worker */
    bool is_bounded; /* it has a timeout */
    /* nested.c: */
    struct lw__hand *hand; /* the innermost of its thread */
    bool is_driver;        /* its thread drives an engine without workers */
    struct lw__nested *next, **link;
    bool is_blocked; /* while it is looked at: it could never end */
};

/* Somebody who submitted without waiting. */
struct lw__answer {
    struct lw__journal_wait wait; /* first */
    lw_engine *engine;
    lw_submitted done;
    void *user;
    struct lw__answer *next;
};

/* Who is to be told how its submit went: answers.c. */
struct lw__answers {
    struct lw__mutex mu;
    bool has_thread;  /* guarded by mu */
    pthread_t thread; /* likewise */
    struct lw__brief list_mu;
    struct lw__answer *first, **last; /* can be told; guarded by list_mu */
    bool must_call;                   /* the thread has found none; guarded by list_mu */
    _Atomic uint32_t call;            /* what the thread sleeps on */
    _Atomic uint32_t must_end;
    _Atomic uint64_t count; /* under way, to be told, or being told */
};

/* Kinds that have tasks and no handler, in the order of their first tasks. */
#define LW__UNHANDLED_MAX 64 /* that are told; of more, only that there are */

struct lw__unhandled {
    /* atomic */
    _Atomic uint32_t count, told;
    struct lw__kind_info *_Atomic kinds[LW__UNHANDLED_MAX]; /* NULL: about to be written */
    _Atomic bool is_all_told;                               /* that no kind has a handler */
};

struct lw_engine {
    /* fixed after open */
    struct lw__engine_settings set;
    struct lw__store *store;
    struct lw__index *index;
    /* For what is the store's, or will be (specs): the recycler's, unless the program has brought
     * an allocator along. */
    const lw_allocator *blocks;
    struct lw__recycler recycler;
    _Atomic uint32_t *is_alive; /* 0 in a forked child */
    bool has_barrier;           /* lw__barrier_everywhere works */
    lw_pool *pool;              /* NULL: before start, and without workers */

    /* atomic */
    _Alignas(64) _Atomic uint32_t has_news; /* something can be claimed or told; see attention.c */
    _Atomic uint32_t attentive;             /* tokens that run and will look before they end */
    struct lw__expect expected;             /* a token that was sent will look, too */
    _Atomic uint32_t tokens;                /* in the pool, queued or run */
    _Atomic uint32_t hurrying;
    _Atomic uint64_t recent;                  /* the last time that a hand has read */
    _Alignas(64) _Atomic uint32_t stop_level; /* enum lw__stop_level */
    _Atomic bool is_out_of_time;              /* a stop is past its deadline */
    _Atomic bool has_timed_out;               /* one that was waited for: a close does not wait */
    _Atomic bool has_stopped;                 /* and whoever waits for more was told */
    _Atomic bool has_logged_left;             /* at the close, tasks that were left unfinished */
    _Atomic uint64_t stop_deadline;           /* of one that nobody waits for; LW__NEVER: none */
    _Atomic uint32_t beginning;               /* stops that have not told everybody yet */
    _Atomic bool is_started;
    _Atomic uintptr_t driver; /* the thread that drives it, if it has no workers: testing.c */
    _Atomic uint64_t refused, stuck_total;
    _Atomic uint32_t event_streams; /* how many */

    _Alignas(64) struct lw__lot room; /* submitters that wait for room */
    _Atomic uint64_t offers;          /* of room to them */
    _Atomic bool has_lingerer;        /* one of them looks again before it sleeps */
    struct lw__lot quiet;             /* stop, wait_idle */

    /* found by anybody, added under registry_mu, never removed */
    struct lw__name_table kinds, queues;
    struct lw__table kind_infos, queue_infos; /* by number */
    struct lw__queue_info *default_queue;
    struct lw__queue_info unnamed_queue; /* instead of one that is not known yet */
    struct lw__mutex registry_mu;
    bool is_loaded; /* the store's own names are known: limits hold. Fixed after open */
    struct lw__mutex series_mu;
    struct lw__series kind_series, queue_series;
    int start_status; /* of the first registration that failed; guarded by registry_mu */
    lw_error start_error;

    struct lw__mutex hands_mu;
    struct lw__hand *hands;    /* all that run something */
    struct lw__nested *nested; /* those of them that wait for a task */
    struct lw__hand *free_hands;
    struct lw__hand *all_hands; /* of tokens; fixed after start */
    uint32_t hand_count;
    struct lw__random random; /* jitter; guarded by hands_mu */

    struct lw__mutex alarms_mu;
    struct lw__timer_wheel alarms; /* deadlines of attempts */
    uint64_t alarms_planned;       /* when the scheduler looks at them */

    /* the scheduler */
    struct lw__mutex scheduler_mu;
    pthread_t scheduler; /* guarded by scheduler_mu */
    bool has_scheduler;
    _Atomic uint32_t must_end;
    _Atomic uint32_t call;         /* what it sleeps on: changes when it has to look */
    _Atomic uint64_t sleeps_until; /* then it looks, unless it is called */
    _Atomic bool is_ticking;       /* meanwhile it sees every 2 ms to what runs */

    struct lw__mutex events_mu;
    struct lw_events *streams; /* guarded by events_mu */
    bool has_events_ended;     /* likewise: a stream says so when all was read */

    struct lw__mutex scopes_mu;
    struct lw__scope_await *scope_awaits[LW__SCOPE_AWAIT_BUCKETS]; /* guarded by scopes_mu */
    _Atomic uint32_t scope_await_count;

    struct {
        void *data;
        const struct lw__annex_ops *ops; /* NULL: none */
    } annexes[LW__ANNEXES];              /* fixed after start */

    struct lw__answers answers;
    struct lw__unhandled unhandled;

    struct lw__mutex watches_mu;
    struct lw_claim_watch *watches; /* guarded by watches_mu */

    bool has_told_left; /* the close's: all that was left unfinished */

    /* tokens, answers, and whoever will close it: the last one frees it */
    _Atomic uint32_t holders;
};

static inline bool lw__engine_is_alive(const lw_engine *engine) {
    return atomic_load_explicit(engine->is_alive, memory_order_relaxed) != 0;
}

/* After every callback of the program: it may have returned in a child that was forked inside it.
 * All that is left there is to go back to whoever called, without a touch: locks may be held by
 * threads that are not there, and files are the parent's. */
static inline bool lw__engine_is_forked(const lw_engine *engine) {
    return __builtin_expect(!lw__engine_is_alive(engine), 0);
}

static inline enum lw__stop_level lw__engine_stop_level(const lw_engine *engine) {
    return (enum lw__stop_level)atomic_load_explicit(&engine->stop_level, memory_order_seq_cst);
}

static inline uint64_t lw__engine_now(const lw_engine *engine) {
    return lw__now(engine->set.clock);
}

/* The time for stamping a task: while a hand hurries, the one that it read for its batch, at most a
 * tick ago. (Reading the clock is 30 of some 100 ns of a submit.) */
static inline uint64_t lw__engine_recent(const lw_engine *engine) {
    if (atomic_load_explicit(&engine->hurrying, memory_order_relaxed) == 0)
        return lw__engine_now(engine);
    return atomic_load_explicit(&engine->recent, memory_order_relaxed);
}

/* ---- engine.c ----------------------------------------------------------------------------- */

/* LW_OK, LW_EINVAL for NULL, LW_EFORKED: the first thing that every public call asks. */
int lw__engine_check(const lw_engine *engine);
/* The same with a sentence. */
int lw__engine_check_told(const lw_engine *engine, lw_error *err);
void lw__engine_free(lw_engine *engine);
void lw__engine_release(lw_engine *engine); /* one holder less */

/* ---- registry.c --------------------------------------------------------------------------- */

int lw__registry_open(lw_engine *engine); /* LW_OK, LW_ENOMEM */
void lw__registry_free(lw_engine *engine);

/* At open: the default queue, and the names of tasks that are in the store already. */
int lw__registry_load(lw_engine *engine, lw_error *err);

/* Finds the kind or makes it: LW_OK; with a sentence LW_EINVAL, LW_EFULL (too many), LW_ENOMEM. */
int lw__registry_kind(lw_engine *engine, const char *name, struct lw__kind_info **info,
                      lw_error *err);
int lw__registry_queue(lw_engine *engine, const char *name, struct lw__queue_info **info,
                       lw_error *err);

/* A task of a kind that has no handler is about to be put, with a function or without: the kind is
 * for the one sort or the other from then on. False: for the other. */
bool lw__registry_use(lw_engine *engine, struct lw__kind_info *info, bool is_call);

/* Whether it is for this sort already, or has a handler; whether it could be. */
bool lw__registry_is_used(const struct lw__kind_info *info, bool is_call);
bool lw__registry_can_use(const struct lw__kind_info *info, bool is_call);

/* NULL: there is none of this name. */
struct lw__kind_info *lw__registry_find_kind(lw_engine *engine, const char *name);
struct lw__queue_info *lw__registry_find_queue(lw_engine *engine, const char *name);

static inline struct lw__kind_info *lw__kind_of(const lw_engine *engine, uint16_t number) {
    return lw__table_get(&engine->kind_infos, number);
}

static inline struct lw__queue_info *lw__queue_of(const lw_engine *engine, uint16_t number) {
    return lw__table_get(&engine->queue_infos, number);
}

/* ---- series.c ----------------------------------------------------------------------------- */

void lw__series_init(struct lw__series *series, uint64_t now);
void lw__series_free(struct lw__series *series, const lw_allocator *allocator);

/* A sample of this name. Without a lock. */
void lw__series_record(struct lw__series *series, struct lw__series_name *name, uint64_t wait_ns,
                       uint64_t run_ns);

/* A new name, which has counted nothing yet, gets a place if one is left: reserved before. False:
 * no memory. */
bool lw__series_reserve(struct lw__series *series, const lw_allocator *allocator);
void lw__series_enter(struct lw__series *series, struct lw__series_name *name);

/* One that was declared, with these counters, gets a place, if need be one of a name that was not;
 * `read` tells what that has counted. */
void lw__series_declare(
    struct lw__series *series, struct lw__series_name *name, const uint64_t *counters,
    void (*read)(void *user, const struct lw__series_name *name, uint64_t *counters), void *user);

/* A review: begun (false: it is not time), of each name, ended. */
bool lw__series_begin_review(struct lw__series *series, uint64_t now);
void lw__series_review(struct lw__series *series, struct lw__series_name *name,
                       const uint64_t *counters);
void lw__series_end_review(struct lw__series *series);

/* The counters of a name with a place, as its series shows them; and those of the others, made of
 * the sum over all without a place. */
void lw__series_subtract_base(const struct lw__series *series, const struct lw__series_name *name,
                              uint64_t *counters);
void lw__series_complete_others(const struct lw__series *series, uint64_t *counters);

/* ---- spec.c ------------------------------------------------------------------------------- */

/* Checks a task and makes a put of it. LW_OK, LW_EINVAL with a sentence, LW_ENOMEM. The put then
 * owns a spec, which lw__spec_free frees if it was not accepted. *now is brought up to date if
 * times matter. */
int lw__spec_make(lw_engine *engine, const lw_task *task, uint64_t *now, struct lw__put *put,
                  lw_error *err);

/* The same in steps, so that a task that is refused leaves no trace and costs little: first all but
 * the names and a large payload; put->is_unnamed: the kind or the queue is new, or is used in a new
 * way, and may have no number; put->is_uncopied: the payload is still the caller's. Then the names
 * are registered: LW_OK, or with a sentence LW_EINVAL, LW_ENOMEM, LW_EFULL (there are too many
 * names); and the payload is copied. */
int lw__spec_prepare(lw_engine *engine, const lw_task *task, uint64_t *now, struct lw__put *put,
                     lw_error *err);
int lw__spec_name(lw_engine *engine, const lw_task *task, struct lw__put *put, lw_error *err);
void lw__spec_copy(const lw_task *task, struct lw__put *put);
void lw__spec_free(lw_engine *engine, struct lw__put *put);

/* Whether the put can be a successor of this task, which has not ended: LW_OK; LW_EINVAL with a
 * sentence: it has the kind and key of the task, which keeps its key after its end. */
int lw__spec_check_then(const struct lw__task *task, const struct lw__put *put, lw_error *err);

/* A kind, perhaps a queue, and nothing else: for the store's put_plain. Names the kind and queue of
 * one; false: they are not known yet, or need a closer look. */
bool lw__spec_is_plain(const lw_task *task);
bool lw__spec_name_plain(lw_engine *engine, const char *kind, const char *queue,
                         struct lw__put *put);

/* ---- submit.c ----------------------------------------------------------------------------- */

/* By when the caller wants to know how the submit of this task went, which was checked: by its
 * submit_timeout_ms or its context. LW__NEVER: however long it takes. */
uint64_t lw__submit_deadline(const lw_engine *engine, const lw_task *task);

/* Whom a task that is submitted is to be leased to. */
struct lw__submit_lease {
    const char *holder; /* NULL: nobody */
    uint64_t ns;
    struct lw__leased leased; /* out; token 0: it is not leased */
};

/* As lw_submit_async; `lease` may be NULL. */
int lw__submit_and_lease(lw_engine *engine, const lw_task *task, struct lw__submit_lease *lease,
                         lw_submitted done, void *user, lw_error *err);

/* After the store may have got room: lets a blocked submitter try. */
static inline void lw__submit_offer_room(lw_engine *engine) {
    if (__builtin_expect(lw__lot_count(&engine->room) > 0, 0)) {
        atomic_fetch_add(&engine->offers, 1);
        lw__lot_wake_oldest(&engine->room);
    }
}

/* ---- client.c ----------------------------------------------------------------------------- */

/* Where another process owns the store, these stand for what the engine does itself. */

static inline const struct lw__remote_ops *lw__engine_remote(const lw_engine *engine) {
    return engine->store->ops->remote;
}

int lw__client_submit(lw_engine *engine, const lw_task *const *tasks, size_t count, lw_id *ids,
                      lw_error *err);
int lw__client_get(lw_engine *engine, lw_id id, lw_snapshot *snapshot);
int lw__client_find(lw_engine *engine, const char *kind, const char *key, lw_snapshot *snapshot);
int lw__client_wait(lw_engine *engine, lw_id id, uint64_t deadline, lw_snapshot *snapshot);
int lw__client_list(lw_engine *engine, const lw_filter *filter, size_t limit,
                    bool (*each)(void *user, const lw_snapshot *task), void *user);
int lw__client_look(lw_engine *engine, lw_id id, struct lw__outlook *outlook);
int lw__client_change(lw_engine *engine, lw_id id, enum lw__change change, lw_error *err);
int lw__client_get_stats(lw_engine *engine, lw_engine_stats *stats);

/* LW_EINVAL with a sentence: this is the owner's. */
int lw__client_refuse(const lw_engine *engine, const char *what, lw_error *err);

/* ---- unhandled.c -------------------------------------------------------------------------- */

/* A task of this kind was accepted, and it has no handler. Under any lock; a kind counts once. */
void lw__unhandled_note(lw_engine *engine, struct lw__kind_info *info);

/* Tells the log of those that were noted since; nothing before lw_start. The second, for lw_start,
 * notes those that came with the store before. Both: no lock held; look whether this is a forked
 * child then. */
void lw__unhandled_tell(lw_engine *engine);
void lw__unhandled_start(lw_engine *engine);

static inline bool lw__unhandled_is_any(lw_engine *engine) {
    uint32_t told = atomic_load_explicit(&engine->unhandled.told, memory_order_relaxed);
    return told <= LW__UNHANDLED_MAX
           && told < atomic_load_explicit(&engine->unhandled.count, memory_order_relaxed);
}

/* The kind with a handler whose name is like that of this one; NULL: none is. */
struct lw__neighbour {
    const char *nearest;
    bool has_handlers; /* at least one kind has */
};
struct lw__neighbour lw__unhandled_nearest(const lw_engine *engine, const char *kind);

/* ---- answers.c ---------------------------------------------------------------------------- */

void lw__answers_init(lw_engine *engine);

/* One that is under way from now on, and will be given or dropped. NULL, with a sentence: LW_EFULL,
 * LW_ENOMEM, LW_ESYSTEM. */
struct lw__answer *lw__answer_open(lw_engine *engine, lw_submitted done, void *user, lw_error *err);
void lw__answer_drop(struct lw__answer *answer);

/* It is known how it went: the answer is told, and freed. Also the store's (wait.over). */
void lw__answer_give(struct lw__journal_wait *wait);

/* Calls those that can be told, on the calling thread; returns how many. */
uint32_t lw__answers_tell(lw_engine *engine);

static inline bool lw__answers_are_told(lw_engine *engine) {
    return atomic_load(&engine->answers.count) == 0;
}

/* Ends the thread. must_wait: when it has told all; otherwise it does so by itself. */
void lw__answers_stop(lw_engine *engine, bool must_wait);
void lw__answers_free(lw_engine *engine); /* the store is closed: the last are told */

/* ---- attention.c -------------------------------------------------------------------------- */

/* After anything that may have made something claimable: brings a worker if none is looking. */
void lw__attention_call(lw_engine *engine);

static inline void lw__engine_attend(lw_engine *engine) {
    if (atomic_load_explicit(&engine->has_news, memory_order_seq_cst)
        && atomic_load_explicit(&engine->attentive, memory_order_seq_cst) == 0)
        lw__attention_call(engine);
}

void lw__hand_attend(struct lw__hand *hand);   /* "I will look" */
void lw__hand_withdraw(struct lw__hand *hand); /* "I might not": look, or attend, after this */

/* ---- hand.c ------------------------------------------------------------------------------- */

void lw__hand_init(struct lw__hand *hand, lw_engine *engine);
void lw__hand_free(struct lw__hand *hand);

/* A token: the pool's task. */
void lw__hand_run_token(lw_ctx *pool_ctx, void *engine);
void lw__hand_drop_token(void *engine);

/* Takes the hand into the list of those that run something, and makes it the thread's innermost. */
void lw__hand_enter(struct lw__hand *hand);
void lw__hand_leave(struct lw__hand *hand);
void lw__hand_desert(
    struct lw__hand *hand); /* in a forked child: leaves all but the thread alone */

/* Tells what has to be told on the calling thread, which counts as inside meanwhile; after it, look
 * whether this is a forked child. */
void lw__hand_tell_here(lw_engine *engine);

/* The innermost hand of the calling thread; through `outer` those around it. NULL: none. */
struct lw__hand *lw__hand_innermost(void);

/* Whether the calling thread is inside a handler or callback of this engine. */
bool lw__hand_is_inside(const lw_engine *engine);

/* Whether the calling thread runs this very task. */
bool lw__hand_runs(const lw_engine *engine, uint64_t id);

/* Runs one claimed task in the calling thread, to its end. */
void lw__hand_run_guest(lw_engine *engine, struct lw__task *task, uint64_t token);

/* Tells the store that the tasks of the batch before `upto` have ended. Under the hand's mutex. */
void lw__hand_account_locked(struct lw__hand *hand, uint32_t upto, uint64_t now);

/* Claims and runs as many as the gear allows, and tells what has ended. Returns how many were run,
 * *told how many were told; both 0: nothing to do, or this is a forked child. */
uint32_t lw__hand_turn(struct lw__hand *hand, uint32_t *told);

/* ---- oversight.c -------------------------------------------------------------------------- */

/* The attempt with this token is past its hard deadline. */
void lw__hand_declare_stuck(lw_engine *engine, uint64_t token);

/* Takes back what hands have not begun: a tick's, the scheduler's, from slow ones alone. Otherwise
 * from all, and what the store does not let be claimed any more has not begun when this returns, or
 * never will. */
void lw__hand_relieve_all(lw_engine *engine, bool is_tick);

/* The store's hook: the attempt with this token is asked to give up. */
void lw__hand_cancel(void *engine, uint64_t token, lw_reason reason);

/* Ends all contexts, for a stop. */
void lw__hand_end_all(lw_engine *engine, lw_reason reason);

/* ---- run.c -------------------------------------------------------------------------------- */

/* What became of an attempt. */
enum lw__ran {
    LW__RAN_PLAIN,   /* plain and finished, or aborted since it was claimed: account for it */
    LW__RAN_SETTLED, /* by itself */
    LW__RAN_FORKED   /* this is a child that was forked in a callback: touch nothing */
};

/* Runs one claimed task; all of the hand's batch, false: this is a forked child. */
enum lw__ran lw__hand_run_task(struct lw__hand *hand, struct lw__task *task, uint64_t token);
bool lw__hand_run_batch(struct lw__hand *hand, uint32_t count);

/* The steps of that, for simulated handlers. Begin: false: the task was aborted since it was
 * claimed. Open: what the handler gets, and its deadlines. Crash instead of end: its thread is
 * lost. */
bool lw__hand_begin(struct lw__hand *hand, struct lw__task *task, uint64_t token);
void lw__attempt_open(struct lw__hand *hand, struct lw__task *task);
void lw__attempt_close(struct lw__hand *hand);
enum lw__ran lw__hand_end(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                          lw_outcome outcome);
void lw__hand_crash(struct lw__hand *hand);

/* ---- attempt.c ---------------------------------------------------------------------------- */

/* The hand of a handler's context; NULL: it is none. */
struct lw__hand *lw__attempt_of(lw_ctx *ctx);

/* What the handler has said, for more of it: the only way to add something. */
static inline struct lw__say *lw__attempt_say(struct lw__hand *hand) {
    hand->say.has_more = true;
    return &hand->say;
}

/* Where the next successor goes, which counts when successor_count says so; NULL: no memory. */
struct lw__put *lw__attempt_new_successor(struct lw__hand *hand);

/* ---- verdict.c ---------------------------------------------------------------------------- */

/* Writes what an attempt's outcome means for its task, and settles it. `fault` LW_FAULT_CRASH:
 * there is no outcome. */
void lw__verdict_settle(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                        lw_outcome outcome, lw_fault fault);

/* What a retry depends on, beside the settlement's fault. */
struct lw__ruling {
    const struct lw__kind_info *kind;
    uint32_t attempts, crashes; /* of the task, the present attempt included */
    uint64_t since;             /* its age counts from then */
    uint64_t finish_by;
    bool has_wait; /* the attempt has said when */
    uint64_t wait_ns;
};

/* Whether it is tried again, and when: the verdict and its due time. */
void lw__verdict_retry(lw_engine *engine, const struct lw__ruling *ruling,
                       struct lw__settlement *settlement, uint64_t now);
uint64_t lw__verdict_due(const lw_engine *engine, uint64_t wait, uint64_t now);

/* Calls on_attempt, if the attempt that was settled last is worth it; when the hand has let go of
 * it. */
void lw__verdict_tell(struct lw__hand *hand);

/* ---- layer.c (and layer.h) ----------------------------------------------------------------- */

/* Settles, with what the layer has to add if the kind is one's. */
void lw__layer_settle(struct lw__hand *hand, struct lw__settlement *s, lw_outcome outcome,
                      uint64_t now);
void lw__layer_free_annexes(lw_engine *engine);
int lw__layer_start_annexes(lw_engine *engine, lw_error *err);
bool lw__layer_explain(const lw_engine *engine, const char *kind, char text[LW_ERROR_MESSAGE_MAX]);

/* ---- tell.c ------------------------------------------------------------------------------- */

/* Tells what has ended and has to be told, at most `max` of them; returns how many. */
uint32_t lw__tell(lw_engine *engine, uint32_t max);
bool lw__tell_is_wanted(const lw_engine *engine);

/* ---- leftovers.c -------------------------------------------------------------------------- */

/* At the close: tells of tasks in memory that are unfinished, and of those that have ended and were
 * not told. is_last: nothing runs any more, and nobody else looks; otherwise tasks that run are
 * left out. False: this is a child that was forked in a callback. */
bool lw__leftovers_tell(lw_engine *engine, bool is_last);

/* ---- nested.c ----------------------------------------------------------------------------- */

/* Before the calling thread, which is inside, waits for the task me->id: sees to it that a worker
 * is left. False: it would wait for ever, and has not entered; the log says why. */
bool lw__nested_enter(lw_engine *engine, struct lw__nested *me);
void lw__nested_leave(lw_engine *engine, struct lw__nested *me);

/* ---- snapshot.c --------------------------------------------------------------------------- */

/* Fills a snapshot from a task, inside a grace section. LW_OK; LW_ENOMEM: it has what needs no
 * memory, with names that live as long as the engine. *must_read: its payload is in the file of the
 * store only; there is room for it, and the second fills that, outside of the section: LW_OK, or
 * what the store says (store.h, read), and it has no payload. */
int lw__snapshot_fill(lw_engine *engine, const struct lw__task *task, lw_snapshot *snapshot,
                      bool *must_read);
int lw__snapshot_read(lw_engine *engine, lw_snapshot *snapshot);

/* Wall time of a moment on the engine's clock; 0 for 0. */
int64_t lw__engine_wall_ms(const lw_engine *engine, uint64_t at);

/* The first ms of wall time at which something is due. */
int64_t lw__engine_due_ms(const lw_engine *engine, uint64_t due);

/* ---- metrics.c ---------------------------------------------------------------------------- */

/* Counts one attempt in the histograms of its kind and of its queue. */
/* Names with options of their own have series of their own. */
void lw__metrics_declare_kind(lw_engine *engine, struct lw__kind_info *info);
void lw__metrics_declare_queue(lw_engine *engine, struct lw__queue_info *info);

void lw__metrics_sample(lw_engine *engine, uint16_t kind, uint16_t queue, uint64_t wait_ns,
                        uint64_t run_ns);

/* ---- events.c ----------------------------------------------------------------------------- */

/* The store's hook: a task has changed its state. Under the task's lock: only notes it. */
void lw__events_note(void *engine, const struct lw__task *task, lw_state from, lw_state to,
                     uint64_t now);

/* The engine has stopped: readers are told when they have read all. */
void lw__events_end(lw_engine *engine);

/* ---- lease.c ------------------------------------------------------------------------------ */

/* LW_OK; LW_EINVAL, LW_EFORKED with a sentence: also for an engine that does not own its store. */
int lw__lease_check(const lw_engine *engine, lw_error *err);

/* After something was done under a lease: waits until it is durable, unless the flags say not to,
 * and calls whoever can go on. LW_OK, LW_EUNSURE. */
int lw__lease_sync(lw_engine *engine, unsigned flags);

/* ---- watch.c ------------------------------------------------------------------------------ */

/* The store's hook: something of this queue can be claimed under a lease. */
void lw__watch_note(void *engine, uint16_t queue);

/* ---- scheduler.c -------------------------------------------------------------------------- */

bool lw__scheduler_start(lw_engine *engine);
void lw__scheduler_stop(lw_engine *engine);

/* Something is due at this time: wakes the scheduler if it sleeps longer. Also the store's hook. */
void lw__scheduler_hasten(void *engine, uint64_t due);
void lw__scheduler_call(lw_engine *engine); /* now */

/* Something has come up that needs its ticks (scheduler.c, needs_ticks). */
void lw__scheduler_need_ticks(lw_engine *engine);

/* One look at everything that is due, and when to look again: LW__NEVER in a forked child. */
uint64_t lw__scheduler_look(lw_engine *engine, uint64_t now);

/* Ends the attempts whose time is over, or declares them stuck. */
void lw__alarms_ring(lw_engine *engine, uint64_t now);

/* Deadlines of an attempt; the hand's thread. */
void lw__alarm_set(struct lw__hand *hand, uint64_t token, uint64_t deadline);
void lw__alarm_cancel(struct lw__hand *hand);

/* ---- testing.c ---------------------------------------------------------------------------- */

/* Makes the calling thread the one that drives the engine; whether it is. */
void lw__driver_set(lw_engine *engine);
bool lw__driver_is_here(const lw_engine *engine);

/* What becomes of a wait in an engine without workers on a test clock. */
enum lw__pass {
    LW__PASS_WAIT, /* it is none of these, or another thread drives it: sleep */
    LW__PASS_LOOK, /* something has happened, or time has passed: look again */
    LW__PASS_NEVER /* nothing is due any more: it would be for ever */
};

/* Instead of sleeping until the deadline, whoever drives the engine runs what is due, or moves the
 * clock on to where the next thing is; inside a handler, where nothing else can run, to the
 * deadline. */
enum lw__pass lw__driver_pass(lw_engine *engine, uint64_t deadline);

/* ---- stop.c ------------------------------------------------------------------------------- */

/* The scheduler's: ends the time of a stop that was begun inside a handler. Returns when. */
uint64_t lw__stop_watch(lw_engine *engine, uint64_t now);

/* After something has ended: wakes those who wait for quiet. When it was the last of an engine that
 * stops, nobody may be waiting for that, but readers of events, and for tasks. */
void lw__stop_look(lw_engine *engine);

static inline bool lw__stop_is_under_way(const lw_engine *engine) {
    return atomic_load_explicit(&engine->stop_level, memory_order_relaxed) != LW__RUNNING
           && !atomic_load_explicit(&engine->has_stopped, memory_order_relaxed);
}

static inline void lw__stop_announce(lw_engine *engine) {
    if (__builtin_expect(lw__lot_count(&engine->quiet) > 0 || lw__stop_is_under_way(engine), 0))
        lw__stop_look(engine);
}

#endif
