/* The pool: runs fn(ctx, arg) on a bounded set of threads, from a bounded queue, and stops without
 * losing anything.
 *
 *     lw_pool *pool;
 *     if (lw_pool_open(&pool, LW_POOL_OPTIONS(.overflow = LW_REFUSE), &err) < 0)
 *         return complain(err.message);
 *     if (lw_pool_submit(pool, send_event, user) < 0)
 *         free(user); // refused: it stayed ours
 *     lw_pool_stop(pool, LW_DRAIN, 5000);
 *     lw_pool_close(pool);
 *
 * Ownership of arg: after LW_OK exactly one of fn and on_drop gets it. After a negative status it
 * is still the caller's. There is no third case, whatever the policy and however the pool stops.
 *
 * Order: tasks start in the order in which they were accepted, as far as several workers can;
 * nothing else is promised.
 *
 * Threads: every call on a pool may be made from any thread, from inside a task too, except
 * lw_pool_close, which nothing else may run beside. Callbacks (fn, on_drop, on_stuck) run with no
 * lock held and may call the pool; on_drop and on_stuck count as being inside a task, so that no
 * call from them waits.
 *
 * Fork: the threads stay in the parent. In the child every call on an inherited pool returns
 * LW_EFORKED and does nothing; open a new one there. A child that is forked inside a task or
 * callback must exec or _exit; if it returns from it, its thread ends, or, where that is the
 * program's own, the call returns.
 *
 * Signals: workers block all signals but those that a fault of their own raises, so that the
 * handlers of the host run on the host's threads.
 *
 * Threads that end: a task may end its thread (pthread_exit, pthread_cancel), and on_stuck the
 * monitor's (pthread_exit); the pool replaces it.
 * A cancellation that a task has left pending ends the thread after it, or a later one of the short
 * tasks that were taken together with it.
 */
#ifndef LEGWORK_POOL_H
#define LEGWORK_POOL_H

#include <legwork/api.h>
#include <legwork/ctx.h>
#include <legwork/runtime.h>
#include <legwork/status.h>

LW_BEGIN_DECLS

/* ---- limits ------------------------------------------------------------------------------- */

#define LW_POOL_WORKERS_MAX 4096    /* max_workers, and stuck_max */
#define LW_POOL_QUEUE_MAX (1 << 26) /* queue_limit: 67 million */
#define LW_POOL_RESERVE 256         /* tasks that tasks may submit past a full queue, per worker */
#define LW_POOL_NAME_MAX 12         /* bytes of a name: with a number it fits the kernel's 15 */

/* ---- options ------------------------------------------------------------------------------ */

/* What a submit does when the queue is full. Inside a task of the same pool LW_BLOCK and
 * LW_CALLER_RUNS never wait: the task goes to the worker's reserve and runs right after the present
 * one (or is handed back then, if the pool drops meanwhile); when that is full too it runs at once.
 */
typedef enum lw_overflow {
    LW_BLOCK = 0,       /* wait for room, up to submit_timeout_ms (LW_ETIMEDOUT) */
    LW_REFUSE = 1,      /* LW_EFULL: what an HTTP handler turns into 503 with Retry-After */
    LW_CALLER_RUNS = 2, /* run it in the submitting thread, under the guard timeout */
    LW_DROP_OLDEST = 3  /* make room: the task at the head goes to on_drop */
} lw_overflow;

/* What becomes of the queued tasks at a stop. */
typedef enum lw_stop_mode {
    LW_DRAIN = 0,    /* they run; contexts are done only at the stop's deadline */
    LW_DROP = 1,     /* they go to on_drop at once; contexts of running tasks are done at once */
    LW_DRAIN_ALL = 2 /* of an engine only: those that wait for a time run, too */
} lw_stop_mode;

/* A task: on the way, or given to lw_pool_submit_many. */
typedef void (*lw_pool_fn)(lw_ctx *ctx, void *arg);

typedef struct lw_pool_task {
    lw_pool_fn fn;
    void *arg;
} lw_pool_task;

/* A task that runs now. */
typedef struct lw_pool_run_info {
    lw_pool_fn fn;
    void *arg;
    uint32_t worker;    /* number of its worker; UINT32_MAX: it runs in a submitting thread */
    int64_t running_ms; /* since when; -1: it has only just begun */
    bool is_stuck;      /* it is past its guard timeout and its worker has been written off */
} lw_pool_run_info;

typedef struct lw_pool_options {
    size_t struct_size;

    /* Names the threads and the log lines: at most LW_POOL_NAME_MAX bytes, letters as in a key
     * (legwork/task.h). Default: "pool" */
    const char *name;

    /* Threads that are always there; LW_ZERO: none. Default: one per usable core */
    int min_workers;
    /* With the extra ones that appear when the queue is full. Default: min_workers */
    int max_workers;
    /* An extra worker quits after this long without work; -1: never, LW_ZERO: right after one task.
     * Default: 10,000 */
    int64_t idle_ms;

    /* Accepted tasks that no worker has taken yet. Default: 1024 */
    int queue_limit;
    /* What a submit does when it is full. Default: LW_BLOCK */
    lw_overflow overflow;
    /* How long LW_BLOCK waits; LW_ZERO: not at all. Default: as long as it takes */
    int64_t submit_timeout_ms;

    /* Guard timeout: a task's context is done this long after its start, and soon after that a task
     * that still runs counts as stuck. Default: none */
    int64_t task_timeout_ms;
    /* Threads beyond max_workers that may replace stuck ones; LW_ZERO: none. Default: 16 */
    int stuck_max;

    /* What share of one core idle workers may spend on looking for work before they sleep; -1:
     * none. Default: a little, where it is likely to pay. A larger share buys latency under load
     * with CPU: at 100 a worker stays awake through any pause of up to a millisecond. */
    int spin_percent;

    /* Gets the arg of every accepted task that will not run. Default: nobody does */
    void (*on_drop)(void *arg);
    /* Is told of every task that is found stuck, on the pool's monitor thread. Default: nobody is
     */
    void (*on_stuck)(void *user, const lw_pool_run_info *task);
    void *user; /* for on_stuck */

    const lw_log *log;             /* copied. Default: silence */
    lw_clock *clock;               /* Default: the system's */
    const lw_allocator *allocator; /* copied. Default: malloc */
} lw_pool_options;

#define LW_POOL_OPTIONS(...) \
    LW_OPTIONS_OF(lw_pool_options, .struct_size = sizeof(lw_pool_options), __VA_ARGS__)

typedef struct lw_pool lw_pool;

/* ---- open --------------------------------------------------------------------------------- */

/* Opens a pool and starts its min_workers. `options` may be NULL.
 * Returns LW_OK; LW_EINVAL with a sentence for options that make no sense (min above max, a queue
 * without limit …); LW_ENOMEM; LW_ESYSTEM when the system gives no thread. On failure *pool is NULL
 * and nothing is left behind. Owns: the caller closes it. Since: 0.1 */
LW_API int lw_pool_open(lw_pool **pool, const lw_pool_options *options, lw_error *err);

/* ---- submit ------------------------------------------------------------------------------- */

/* Hands over a task; a full queue is treated as the pool's overflow policy says.
 * Returns LW_OK: accepted (or, with LW_CALLER_RUNS, already run). Negative, and arg stays the
 * caller's: LW_EFULL (LW_REFUSE; or inside a task whose reserve and nesting are used up),
 * LW_ETIMEDOUT (LW_BLOCK with a timeout), LW_ESTOPPING, LW_ESTUCK, LW_EINVAL (NULL), LW_EFORKED;
 * LW_ENOMEM or LW_ESYSTEM when there is no worker and none can be started. Since: 0.1 */
LW_API int lw_pool_submit(lw_pool *pool, lw_pool_fn fn, void *arg);

/* The same, but never waits and never runs or drops anything: a full queue is LW_EFULL, whatever
 * the policy. Since: 0.1 */
LW_API int lw_pool_try_submit(lw_pool *pool, lw_pool_fn fn, void *arg);

/* Names one accepted task, for lw_pool_cancel. Never 0, never reused while the task lives. */
typedef uint64_t lw_ticket;

typedef struct lw_submit_options {
    size_t struct_size;
    /* The caller's context: its deadline and cancellation bound the wait for room, its value goes
     * with the task. May be the context of a running task. Default: none */
    lw_ctx *ctx;
    /* How long to wait for room, instead of submit_timeout_ms; LW_ZERO: not at all, -1: for ever */
    int64_t timeout_ms;
    /* Receives the task's ticket before the task can start. Default: none */
    lw_ticket *ticket;
} lw_submit_options;

#define LW_SUBMIT_OPTIONS(...) \
    LW_OPTIONS_OF(lw_submit_options, .struct_size = sizeof(lw_submit_options), __VA_ARGS__)

/* Hands over a task together with a context or for a ticket. Such a task costs a record of about
 * 200 bytes; plain ones live in the queue itself. Returns as lw_pool_submit, and: LW_ECANCELED or
 * LW_ETIMEDOUT when the caller's context ended while it waited for room; LW_ENOMEM. Under LW_BLOCK
 * only; the other policies do not wait. Since: 0.1 */
LW_API int lw_pool_submit_with(lw_pool *pool, lw_pool_fn fn, void *arg,
                               const lw_submit_options *options, lw_error *err);

/* Hands over many tasks at once, in order, for the price of a few.
 * Returns LW_OK when all were accepted; otherwise what lw_pool_submit would have said to the first
 * that was not. *accepted (may be NULL) is how many were: always a prefix; the rest is still the
 * caller's. Since: 0.1 */
LW_API int lw_pool_submit_many(lw_pool *pool, const lw_pool_task *tasks, size_t count,
                               size_t *accepted);

/* Runs fn(ctx, arg) on a worker and returns when it has ended. Inside a task of the same pool it
 * runs at once, in place. Waits for room like LW_BLOCK without a timeout, whatever the policy.
 * Returns LW_OK; LW_ECANCELED when a stop or LW_DROP_OLDEST dropped it before it ran (on_drop is
 * not called: arg never changed hands); LW_ESTOPPING, LW_ESTUCK, LW_EINVAL, LW_EFORKED, LW_ENOMEM,
 * LW_ESYSTEM, all as lw_pool_submit. Its task must not close the pool, for this call is still under
 * way. Since: 0.1 */
LW_API int lw_pool_run(lw_pool *pool, lw_pool_fn fn, void *arg);

/* Cancels one task. Returns LW_OK: it was still queued; its arg went to on_drop, before this call
 * returned. LW_PENDING: it runs; its context is done now, with LW_REASON_CANCELLED. LW_ENOTFOUND:
 * it has ended, or that was no ticket of this pool. LW_EINVAL, LW_EFORKED. A cancelled task keeps
 * its place in the queue until a worker comes by. Since: 0.1 */
LW_API int lw_pool_cancel(lw_pool *pool, lw_ticket ticket);

/* ---- wait and look -------------------------------------------------------------------------- */

/* Waits until nothing is queued and nothing runs, without stopping anybody; 0 looks once, -1 waits
 * for ever. Returns LW_OK: there was such a moment; LW_ETIMEDOUT; LW_EDEADLOCK inside a task of
 * this pool; LW_EINVAL; LW_EFORKED. Since: 0.1 */
LW_API int lw_pool_wait_idle(lw_pool *pool, int64_t timeout_ms);

/* Lists what runs now. Returns how many tasks run, and fills up to `max` of them into `out`; out
 * may be NULL when max is 0. Nobody is stopped for it, so short tasks may come and go while it
 * looks. LW_EINVAL, LW_EFORKED. Since: 0.1 */
LW_API int lw_pool_running(lw_pool *pool, lw_pool_run_info *out, size_t max);

/* A distribution of times, from samples: every slow task, and one in several fast ones. */
typedef struct lw_latency {
    uint64_t samples;
    uint64_t p50_ns, p90_ns, p99_ns, max_ns; /* within 25 % */
    double mean_ns;
} lw_latency;

typedef struct lw_pool_stats {
    uint64_t submitted; /* accepted */
    uint64_t run;       /* ended, whichever way */
    uint64_t refused;   /* negative answers to a submit */
    uint64_t dropped;   /* accepted, but handed to on_drop */
    uint64_t stuck;     /* declared stuck, so far */
    uint64_t stuck_now; /* of these, still running */
    uint64_t queued;    /* waiting now */
    uint64_t running;   /* running now */
    uint64_t workers;   /* threads now, stuck ones included */
    uint64_t workers_peak;
    uint64_t wakes; /* sleeping workers that were woken, so far */
    lw_latency queue_wait;
    lw_latency run_time;
} lw_pool_stats;

/* Reads the figures; each is right by itself, together they are of about the same moment.
 * Returns LW_OK, LW_EINVAL, LW_EFORKED. Since: 0.1 */
LW_API int lw_pool_get_stats(lw_pool *pool, lw_pool_stats *stats);

/* ---- stop --------------------------------------------------------------------------------- */

/* Stops the pool: refuses new tasks from now on (waiting submitters too), drains or drops the
 * queued ones, and waits for what runs, up to timeout_ms (0: not at all, -1: for ever). After an
 * LW_DROP has returned no further task starts. Returns LW_OK: everything has ended. LW_ETIMEDOUT:
 * something still runs, lw_pool_running lists it; under LW_DRAIN the contexts are done now, and
 * what is still queued goes on being run, so that a later stop can wait again, or drop. LW_PENDING:
 * called inside a task of this pool: the stop has begun, and nobody was waited for; under LW_DRAIN
 * the contexts are done when timeout_ms have passed all the same. LW_EINVAL,
 * LW_EFORKED. Idempotent, and any number at once; a later LW_DROP wins over an earlier LW_DRAIN,
 * never the reverse. Since: 0.1 */
LW_API int lw_pool_stop(lw_pool *pool, lw_stop_mode mode, int64_t timeout_ms);

/* Frees the pool; NULL is fine. A pool that nobody stopped is stopped first, as with LW_DROP and no
 * timeout. When a stop has timed out, what is queued is dropped and the tasks that still run are
 * left behind: the last of them frees the memory. Returns LW_OK; LW_PENDING: tasks were left
 * behind, or it was called inside a task of this pool, which then is the last to go; LW_EFORKED:
 * this is a forked child, whose copy is left alone. Threads: no other call on the pool may be under
 * way; a task that closes has to know that the submit which brought it has returned. Since: 0.1 */
LW_API int lw_pool_close(lw_pool *pool);

LW_END_DECLS

#endif
