/* The engine: accepts tasks with names, runs them on a bounded set of workers, retries them until
 * they are done, and can tell at any time how far each of them is.
 *
 *     lw_engine *engine;
 *     if (lw_open(&engine, "memory:", NULL, &err) < 0)
 *         return complain(err.message);
 *     lw_handle(engine, "send-email", send_email, LW_HANDLER_OPTIONS(.timeout_ms = 30000), &err);
 *     if (lw_start(engine, &err) < 0)
 *         return complain(err.message);
 *     lw_submit(engine, LW_TASK(.kind = "send-email", .payload = LW_TEXT("ann@example.org")), &id,
 *               &err);
 *     ...
 *     lw_stop(engine, LW_DRAIN, 10000);
 *     lw_close(engine);
 *
 * Order: within a queue by priority (smaller first), then the time at which a task was due, then
 * id; kinds at their concurrency limit are skipped; queues take turns by weight. Nothing else is
 * promised.
 *
 * Room: an accepted task keeps its place until it is terminal, so that a retry never needs room.
 * Tasks that tasks submit have a reserve, and never wait.
 *
 * Clocks: delays, back-off and timeouts run on a clock that never goes back; `run_at_ms` is wall
 * time and is looked at again when the clock was set, within a minute.
 *
 * Threads: every call may be made from any thread, from handlers and callbacks too, except
 * lw_handle and lw_queue (before lw_start) and lw_close (nothing else beside it). Callbacks run on
 * a thread of the engine with no lock held; submits from them never wait for room. A handler or
 * callback may end its thread (pthread_exit): the engine replaces it, and the attempt has crashed.
 *
 * Fork: in a forked child every call on an inherited engine gives LW_EFORKED and does nothing. A
 * child that is forked inside a handler or callback must exec or _exit; if it returns from it,
 * nothing more of the engine runs there: its thread ends, or, where that is the program's own
 * (LW_CALLER_RUNS, an engine without workers), the call returns: lw_submit what it would, for the
 * handler has run, all others LW_EFORKED.
 */
#ifndef LEGWORK_ENGINE_H
#define LEGWORK_ENGINE_H

#include <legwork/api.h>
#include <legwork/ctx.h>
#include <legwork/pool.h> /* lw_overflow, lw_stop_mode, lw_latency */
#include <legwork/runtime.h>
#include <legwork/status.h>
#include <legwork/task.h>

LW_BEGIN_DECLS

#define LW_WORKERS_MAX LW_POOL_WORKERS_MAX

/* ---- policies ----------------------------------------------------------------------------- */

/* When to try again. The first wait is min; each of the next `doublings` waits is `factor` times
 * the one before; then it grows by the last of these each time; never more than max, but for the
 * jitter. With the defaults but min 10 s, max 300 s and 3 doublings: 10, 20, 40, 80, 160, 240, 300,
 * 300 s. */
typedef struct lw_retry_policy {
    int64_t min_ms;     /* LW_ZERO: never wait. Default: 1,000 */
    int64_t max_ms;     /* -1: none. Default: 3,600,000: an hour; or min_ms, if that is more */
    double factor;      /* 1 or more. Default: 2 */
    int doublings;      /* LW_ZERO: linear from the start. Default: until max */
    int jitter_percent; /* each wait is made longer or shorter by up to this, but stays 1 ms or
                           more. At most 100. LW_ZERO: none. Default: 10 */
    int attempts;       /* given up after so many, crashes apart. Default: never */
    int64_t max_age_ms; /* failed instead of retried when it is older than this, since it was
                           submitted, or retried by hand (lw_retry_now). Default: never */
    int crashes;        /* attempts that may end by timeout, stuck or crash, at most 10,000; -1:
                           any, LW_ZERO: none. Default: 3 */
} lw_retry_policy;

/* How long terminal tasks stay, to be looked at. -1: for ever; LW_ZERO: not at all. A store on disk
 * keeps what a kind was last registered with: it holds for owners that do not register it, too. One
 * that does says it anew, with the defaults for what it leaves out. */
typedef struct lw_retention {
    int64_t finished_ms;  /* Default: 900,000: 15 minutes */
    int64_t finished_max; /* per kind; the oldest leave earlier. Default: 100,000 */
    int64_t failed_ms;    /* Default: 86,400,000: a day */
    int64_t failed_max;   /* Default: 100,000 */
    int64_t aborted_ms;   /* Default: as finished_ms */
    int64_t aborted_max;  /* Default: as finished_max */
    int64_t byte_max;     /* per kind and for each of the three: bytes of memory that their
                             payloads, results and errors take; the oldest leave earlier, one
                             that is larger at once. (On disk: what of these is in memory as
                             well, such as results.) Default: 268,435,456: 256 MiB */
} lw_retention;

/* ---- open --------------------------------------------------------------------------------- */

typedef struct lw_engine lw_engine;

/* What a process is to a store that several have open. One owns it and runs the tasks; the others
 * open it with the role of a client or reader, before it or after it, whether it is there or not.
 *
 * A client submits, looks and waits; it runs nothing, and recovers nothing. What it submits is on
 * disk when the call returns, and the owner takes it in at once. Its differences:
 *   lw_submit     gives the id, and never LW_EXISTS: if the key is taken when the owner takes it
 *                 in, the task is dropped. Look for what has a key by lw_find. LW_EFULL: task_limit
 *                 tasks, or byte_limit bytes of payloads, both as this client has them, wait for
 *                 being taken in; whatever the policy, it does not wait for room.
 *   run, on_end   are refused: they would be of this process.
 *   lw_get etc.   show what is on disk. A task is `created` until the owner has taken it in;
 *                 `started` is known without the time. lw_find and lw_list with a filter read all
 *                 tasks that there are.
 *   lw_cancel, lw_retry_now, lw_forget   ask the owner: LW_PENDING, or LW_ENOTFOUND.
 *   lw_wait       LW_ESTOPPING: this engine was stopped; what becomes of the task is the owner's.
 *   lw_get_stats  counts the states, and nothing else.
 *   lw_handle, lw_queue, lw_start, lw_pause, lw_wait_idle, lw_events_open, lw_metrics_write,
 *   lw_get_store_health are the owner's: LW_EINVAL.
 * A reader is a client that may not even write to the file: LW_EINVAL where a client asks. */
typedef enum lw_role { LW_ROLE_OWNER = 0, LW_ROLE_CLIENT = 1, LW_ROLE_READER = 2 } lw_role;

typedef struct lw_engine_options {
    size_t struct_size;
    const char *name; /* of threads, log lines and figures: at most LW_POOL_NAME_MAX bytes, letters
                         as in a key. Default: "legwork" */
    int workers;      /* threads that run handlers. LW_ZERO: none; the program drives the engine
                         itself (legwork/testing.h). Default: one per usable core */
    int stuck_max;    /* threads that may replace stuck ones, and ones that wait for a task
                         (lw_wait). LW_ZERO: none. Default: 16 */

    /* Unfinished tasks, over all queues, waiting ones included, and bytes of their payloads. */
    int64_t task_limit;   /* at most LW_TASKS_MAX. Default: 1,000,000 */
    int64_t byte_limit;   /* -1: no limit. Default: 1 GiB */
    int64_t reserve;      /* tasks that tasks may submit beyond a full queue; their payloads have
                                  byte_limit bytes of their own, too. LW_ZERO: none. Default:
                                  1,000 */
    lw_overflow overflow; /* what a submit does when it is full, unless the queue says
                                  otherwise. Default: LW_BLOCK */
    int64_t submit_timeout_ms; /* how long LW_BLOCK waits; LW_ZERO: not at all. Default: as long as
                                  it takes */

    /* Told after a task of any kind ended in one of these ways, with all its errors; on a thread of
     * the engine. on_stuck: it still runs; be brief, other deadlines wait meanwhile. on_attempt: an
     * attempt that this engine has run ended with an error (every one is told, also the last of a
     * task that does not stay); the snapshot is taken afterwards, so that the task may have gone
     * on. */
    void (*on_failed)(void *user, const lw_snapshot *task);
    void (*on_aborted)(void *user, const lw_snapshot *task);
    void (*on_stuck)(void *user, const lw_snapshot *task);
    void (*on_attempt)(void *user, const lw_snapshot *task);
    void *user;

    uint64_t seed;                 /* of the jitter. Default: from the system */
    const lw_log *log;             /* copied. When a task has failed (a warning), was aborted, or
                                      has finished after errors, it gets the errors of its attempts
                                      that were kept, each once, and how long all took; of one that
                                      was aborted before it ever began at LW_LOG_DEBUG only.
                                      Default: silence */
    lw_clock *clock;               /* Default: the system's */
    const lw_allocator *allocator; /* copied. Default: malloc */
    lw_role role;                  /* Default: LW_ROLE_OWNER */

    /* Names that the engine may know. A kind or queue becomes known when it is declared or its
     * first task is accepted, and stays until lw_close; a submit that brings one too many is
     * LW_EFULL. A file is opened with those that its tasks have, retained ones included, even if
     * they are more, and without the others. */
    int kind_count_max;  /* at most LW_KINDS_MAX, which is the default. Since: 0.3 */
    int queue_count_max; /* "default" included; at most LW_QUEUES_MAX, which is the default.
                            Since: 0.3 */
} lw_engine_options;

#define LW_ENGINE_OPTIONS(...) \
    LW_OPTIONS_OF(lw_engine_options, .struct_size = sizeof(lw_engine_options), __VA_ARGS__)

/* Opens an engine on a store: "memory:" keeps tasks in memory, "sqlite:PATH" in a file. `options`
 * may be NULL. Tasks can be submitted from now on; they run after lw_start.
 * Returns LW_OK; with a sentence: LW_EINVAL; LW_EBUSY: another process owns the store;
 * LW_ENOTFOUND: a client or reader, and there is no store yet; LW_ECORRUPT; LW_ENOMEM; LW_ESYSTEM.
 * Owns: the caller closes it. Since: 0.2 */
LW_API int lw_open(lw_engine **engine, const char *url, const lw_engine_options *options,
                   lw_error *err);

typedef struct lw_handler_options {
    size_t struct_size;
    int concurrency;    /* attempts of this kind at once. Default: as many as workers */
    int64_t timeout_ms; /* soft deadline of an attempt, counted from its begin: its context is done.
                           Default: none */
    int64_t stuck_ms;   /* hard deadline, counted from the soft one, or from the task's finish_by_ms
                           if that is earlier: declared stuck, and its worker replaced. LW_ZERO: at
                           once, -1: never. Default: 5,000. Without timeout_ms and finish_by_ms
                           nothing is ever stuck */
    lw_retry_policy retry;
    lw_retention retention;
    lw_key_scope key_scope; /* of keys whose task does not say. Default: LW_KEY_UNFINISHED */
    int64_t key_window_ms;  /* for LW_KEY_WINDOW, the kind's (which needs it) or a task's */
    void *user;             /* lw_ctx_user */
} lw_handler_options;

#define LW_HANDLER_OPTIONS(...) \
    LW_OPTIONS_OF(lw_handler_options, .struct_size = sizeof(lw_handler_options), __VA_ARGS__)

/* Registers the handler of a kind. An error is told here (`err` may be NULL), and again by
 * lw_start, so that a program may look at that one only. `run` may be NULL: the kind then has
 * options but no handler here.
 * Returns LW_OK; with a sentence: LW_EINVAL, also if the kind has a handler already; LW_EFULL: it
 * is one more than kind_count_max; LW_ENOMEM.
 * Threads: before lw_start. Since: 0.2; `err`: 0.3 */
LW_API int lw_handle(lw_engine *engine, const char *kind, lw_handler run,
                     const lw_handler_options *options, lw_error *err);

typedef struct lw_queue_options {
    size_t struct_size;
    int weight;                /* turns that it gets, 1 to 1,000. Default: 1 */
    int64_t limit;             /* unfinished tasks in it. Default: the engine's task_limit */
    int64_t byte_limit;        /* bytes of their payloads; -1: no limit. Default: the engine's */
    int overflow;              /* an lw_overflow, but 0, which is LW_BLOCK, leaves it to the engine;
                                  LW_ZERO: LW_BLOCK, whatever the engine says. Default: the
                                  engine's */
    int64_t submit_timeout_ms; /* LW_ZERO: not at all, -1: as long as it takes. Default: the
                                  engine's */
} lw_queue_options;

#define LW_QUEUE_OPTIONS(...) \
    LW_OPTIONS_OF(lw_queue_options, .struct_size = sizeof(lw_queue_options), __VA_ARGS__)

/* Declares a queue with options; others come into being when a task names them. Returns (LW_EFULL:
 * queue_count_max) and threads as lw_handle. Since: 0.2; `err`: 0.3 */
LW_API int lw_queue(lw_engine *engine, const char *name, const lw_queue_options *options,
                    lw_error *err);

/* Starts the workers. From now on the log is told of each kind that has tasks and no handler, once
 * (64 kinds at most), with the kind that was probably meant: a warning if there is one like it.
 * Returns LW_OK; what the first lw_handle or lw_queue that failed has returned, with its sentence;
 * LW_EINVAL when it was started before; LW_ESTOPPING; LW_ENOMEM; LW_ESYSTEM. Since: 0.2 */
LW_API int lw_start(lw_engine *engine, lw_error *err);

/* ---- submit ------------------------------------------------------------------------------- */

/* Accepts a task. *id (may be NULL) is its id. A kind or queue that nobody has named before comes
 * into being with its first task that is accepted; what is refused leaves no trace. A kind without
 * a handler is from then on for tasks that wait for one, or for functions (run): the others get
 * LW_EINVAL.
 * Without room the queue's `overflow` says what happens. Under LW_CALLER_RUNS the caller runs the
 * first attempt itself, before this returns. If that says retry or snooze, the task needs room to
 * wait for the next one: the caller waits for that, as under LW_BLOCK, and if there is none in time
 * the task is aborted (and LW_OK returned: it was accepted). So there are never more tasks beyond
 * the limits than there are callers. On a store that writes to a disk it waits for room in the
 * first place. Under LW_DROP_OLDEST the first ones of the queue that wait for a worker are aborted,
 * as many as it takes, by count and bytes; if all of them were not enough, none is: LW_EFULL.
 * While callbacks are far behind there is room for tasks that handlers submit only, under every
 * policy: if as many tasks have ended and were not told as task_limit allows (1,024 at least), or
 * with more bytes of payloads than byte_limit.
 * Returns LW_OK: accepted. LW_EXISTS (> 0): its key is taken; *id is the task that has it, and
 * nothing was accepted (arg stays the caller's). Negative, and arg stays the caller's: LW_EINVAL
 * with a sentence, also if its key is taken; LW_EFULL (LW_REFUSE, or inside a handler when the
 * reserve is used up; nothing to drop; more than there ever is room for; or, under every policy and
 * at once, its kind or queue is new and one more than kind_count_max or queue_count_max: the
 * sentence says which); LW_ETIMEDOUT,
 * LW_ECANCELED (the wait for room ended, or the task's time was over before it was written);
 * the sentence of these names the limit, what is there and what was wanted;
 * LW_ESTOPPING; LW_ENOMEM; LW_EFORKED. On a store that is a file also, with a sentence:
 * LW_ESYSTEM (the disk is full or fails, or the file is gone), LW_EBUSY
 * (another connection has held the file for more than about 5 s), LW_ECORRUPT (it is damaged):
 * nothing was accepted, and it can be repeated once that is over; LW_EUNSURE: nobody knows, repeat
 * it under its key; also if the task's time (submit_timeout_ms, ctx) was over while it was being
 * written, or if it could not be written now and a successor or a row of the outbox has found its
 * key taken by this task meanwhile: then it is written later. Since: 0.2 */
LW_API int lw_submit(lw_engine *engine, const lw_task *task, lw_id *id, lw_error *err);

/* The same for a task that has nothing but these; queue and key may be NULL, the payload empty.
 * Programs in C and C++ need not call it: gcc makes it out of lw_submit wherever it sees that the
 * task is such a one (the end of this header), so that LW_TASK(...), 224 bytes that are mostly
 * zero, is not even built. For bindings it is a call without a struct. Since: 0.3 */
LW_API int lw_submit_short(lw_engine *engine, const char *kind, const char *queue, const char *key,
                           lw_bytes payload, lw_id *id, lw_error *err);

/* Accepts up to LW_SUBMIT_MAX tasks, all or none: an array of pointers to tasks that live until it
 * returns (LW_TASK_INIT, legwork/task.h). ids (may be NULL) has room for `count`; a task
 * whose key is taken gets the id of the one that has it, also if that is one of these, and is no
 * failure; it needs no room. What to do without room
 * (policy, context, timeout) is what holds for the first of them; LW_BLOCK waits until there is
 * room for all, LW_DROP_OLDEST makes room for all, in the queues that they go to, or drops nothing.
 * Returns LW_OK; LW_EXISTS if some existed; what lw_submit says of the first that cannot be
 * accepted, with its number in the sentence if it is the task that is wrong. Since: 0.2 */
LW_API int lw_submit_many(lw_engine *engine, const lw_task *const *tasks, size_t count, lw_id *ids,
                          lw_error *err);

/* How a submit went, once it is known: LW_OK or LW_EXISTS with the id, as lw_submit returns them;
 * or why it was not accepted after all: LW_EUNSURE, LW_ESYSTEM, LW_EBUSY, LW_ECORRUPT. */
typedef void (*lw_submitted)(void *user, int status, lw_id id);

/* Submits without waiting for the disk: `done` is called when the task is durable, or is not. In
 * memory that is at once; the call is made all the same. It waits for room as lw_submit does, and
 * what is under way takes room: a program that must never wait has LW_REFUSE, or gives
 * .submit_timeout_ms = LW_ZERO. A client writes to the disk before this returns.
 *
 * `done` runs on a thread that the engine has for this alone, with no lock held, perhaps before
 * this returns; a slow one delays others. The order of the calls is not promised. Handlers may be
 * there first: the task can have ended by then. lw_stop and lw_close wait for the calls, so that
 * each is made exactly once; those that a stop did not wait for are made before the engine is
 * freed, and must not call it any more then. An engine without workers calls inside lw_test_run,
 * lw_test_advance, lw_stop and lw_close.
 * Returns LW_OK: `done` will be called. Negative, and it never is, as lw_submit; LW_EFULL also, at
 * once and whatever the policy, when as many calls are outstanding as there may be tasks, the
 * reserve included; LW_ESYSTEM: there is no thread for it. Since: 0.3 */
LW_API int lw_submit_async(lw_engine *engine, const lw_task *task, lw_submitted done, void *user,
                           lw_error *err);

/* ---- look --------------------------------------------------------------------------------- */

/* Fills a snapshot. No submitter or worker is held up, however often it is called.
 * Returns LW_OK; LW_ENOTFOUND: there never was such a task, or it has left; LW_ENOMEM; LW_EBUSY,
 * LW_ECORRUPT, LW_ESYSTEM: its payload is in the file of a store, and cannot be read now; all of
 * these leave the snapshot empty; LW_EINVAL; LW_EFORKED. Since: 0.2 */
LW_API int lw_get(lw_engine *engine, lw_id id, lw_snapshot *snapshot);

/* The state of a task alone, without a copy. Returns LW_OK; LW_ENOTFOUND; LW_EINVAL; LW_EFORKED; a
 * client's as lw_get. Since: 0.3 */
LW_API int lw_get_state(lw_engine *engine, lw_id id, lw_state *state);

/* As lw_get, by kind and key; of several the youngest. Since: 0.2 */
LW_API int lw_find(lw_engine *engine, const char *kind, const char *key, lw_snapshot *snapshot);

/* Waits until the task is terminal; 0 looks once, -1 waits for ever. `snapshot` may be NULL. On a
 * durable store it waits until the end is written, too: the task never runs again after LW_OK.
 * Returns LW_OK: it is. LW_PENDING: it is not yet, or that is not written yet; the snapshot shows
 * how far it is. LW_ESTOPPING: likewise, and the engine has stopped, whoever stopped it (inside a
 * handler: it drops, and the task does not run); the snapshot shows how it was left. LW_ENOTFOUND,
 * LW_ENOMEM, LW_EINVAL, LW_EFORKED; a client's as lw_get; LW_EDEADLOCK: a handler would wait for
 * its own task, or for ever. A task that does not stay after its end (lw_retention) stays until
 * those who wait for it have seen it; if it leaves just as a wait begins, that has LW_OK and a
 * snapshot from before, with the state 0.
 * Handlers and callbacks may wait, too, also for tasks that they have submitted. If all other
 * workers wait as well, the worker is replaced, for as long as this attempt takes, within
 * stuck_max: so a child runs even if there is one worker. A wait without a timeout that nothing but
 * a cancel could end is LW_EDEADLOCK instead, and a line of the log says why: no worker is left,
 * and stuck_max is used up (or the engine has no workers, and its driver waits); all attempts that
 * the kind's concurrency allows wait themselves; the task waits for the one that waits, by its own
 * lw_wait or by `after`. A task that somebody else may run (legwork/lease.h), or that is in a
 * paused queue, is waited for. A wait with a timeout ends by that: LW_PENDING. (For work that comes
 * after a task `after` and lw_then take no worker at all.)
 * Since: 0.2 */
LW_API int lw_wait(lw_engine *engine, lw_id id, int64_t timeout_ms, lw_snapshot *snapshot);

/* Which tasks to list; a field left 0 or NULL does not restrict. */
typedef struct lw_filter {
    size_t struct_size;
    lw_state state;
    bool is_unfinished; /* only those that are not terminal */
    const char *kind, *queue, *key;
    lw_id after;  /* ids above this, for paging */
    size_t limit; /* at most so many. Default: 100 */
} lw_filter;

#define LW_FILTER(...) LW_OPTIONS_OF(lw_filter, .struct_size = sizeof(lw_filter), __VA_ARGS__)

/* Calls `each` for the tasks that match, by rising id, until it returns false. Each snapshot is
 * consistent and lives as long as the call; tasks come and go in the meantime.
 * Returns how many were shown; LW_EINVAL; LW_ENOMEM, LW_EBUSY, LW_ECORRUPT, LW_ESYSTEM as lw_get;
 * LW_EFORKED. Since: 0.2 */
LW_API int lw_list(lw_engine *engine, const lw_filter *filter,
                   bool (*each)(void *user, const lw_snapshot *task), void *user);

#define LW_EXPLAIN_MAX 8

/* Why a task does not run, the most important reason first. */
typedef struct lw_explanation {
    lw_state state;
    unsigned count;
    char reasons[LW_EXPLAIN_MAX][LW_ERROR_MESSAGE_MAX]; /* sentences */
} lw_explanation;

/* Returns LW_OK, LW_ENOTFOUND, LW_EINVAL, LW_EFORKED; a client's as lw_get. Since: 0.2 */
LW_API int lw_explain(lw_engine *engine, lw_id id, lw_explanation *explanation);

/* ---- steer -------------------------------------------------------------------------------- */

/* Aborts a task that waits, at once (LW_OK); asks one that runs to give up, through its context
 * (LW_PENDING): it ends aborted if it gives up because of that, which is to say, returns anything
 * but done or a failure for good. LW_ENOTFOUND: there is none, or it is terminal. LW_EUNSURE: it is
 * done, and not on disk yet; that follows, unless the process dies. The same call again, or of
 * another thread meanwhile, waits for that: LW_OK if it is written by then; LW_ENOTFOUND if it was
 * before. LW_EINVAL, LW_EFORKED. A
 * client's question may not get to the file: LW_EBUSY, LW_ECORRUPT, LW_ESYSTEM, and LW_EUNSURE if
 * nobody knows. Since: 0.2 */
LW_API int lw_cancel(lw_engine *engine, lw_id id);

/* Runs a failed or aborted task again, with a fresh budget, or a scheduled one now.
 * Returns LW_OK; LW_EXISTS: its key is taken by another meanwhile; LW_PENDING: it is on its way
 * anyway, or its end is still being told (the callbacks have not returned) and nothing was done;
 * LW_ENOTFOUND; LW_EINVAL: it has finished, or its argument was handed back; LW_EFULL; LW_ENOMEM;
 * LW_ESTOPPING; LW_EFORKED; LW_EUNSURE and a client's troubles as lw_cancel. Since: 0.2 */
LW_API int lw_retry_now(lw_engine *engine, lw_id id, lw_error *err);

#define LW_RETRY_MAX 1000 /* tasks of one call */

/* The same of many, with one wait for the disk. *retried (NULL: not wanted) counts those that run
 * because of it, or, of a client, that the owner was asked for; what lw_retry_now would refuse is
 * passed over.
 * Returns LW_OK; LW_EUNSURE: done, and not written yet; LW_EINVAL: none, or more than LW_RETRY_MAX;
 * LW_ESTOPPING; LW_EFORKED. Since: 0.3 */
LW_API int lw_retry_many(lw_engine *engine, const lw_id *ids, size_t count, size_t *retried);

/* Lets a terminal task leave now. Returns LW_OK, LW_ENOTFOUND, LW_PENDING: it is not terminal,
 * LW_EINVAL, LW_EFORKED; LW_EUNSURE and a client's troubles as lw_cancel. Since: 0.2 */
LW_API int lw_forget(lw_engine *engine, lw_id id);

/* A paused queue accepts tasks and starts none: once lw_pause has returned no attempt of it begins,
 * but of a submit that runs it in its own thread (LW_CALLER_RUNS) at that moment. A pause ends with
 * the process, whatever the store: one that is to last is paused after each lw_open, before
 * lw_start, and declared before that (lw_queue), because otherwise it may not be there yet.
 * Returns LW_OK; LW_ENOTFOUND: neither a task nor lw_queue has named it; LW_EINVAL; LW_EFORKED.
 * Since: 0.2 */
LW_API int lw_pause(lw_engine *engine, const char *queue);
LW_API int lw_resume(lw_engine *engine, const char *queue);

/* ---- events and figures ------------------------------------------------------------------- */

/* A change of state. */
typedef struct lw_event {
    lw_id id;
    lw_state from, to; /* from is 0 when it was accepted */
    uint64_t at_ns;    /* on the engine's clock */
    uint64_t lost;     /* events that this stream has lost right before this one */
    char kind[LW_NAME_MAX + 1];
} lw_event;

typedef struct lw_events lw_events;

/* Opens a stream of all changes of state from now on. It keeps the last `capacity` (1 to 1,048,576;
 * 0: 1,024) that were not read yet; a slow reader loses the oldest and is told how many. A task's
 * events come in their order. Returns LW_OK, LW_EINVAL, LW_ENOMEM, LW_EFORKED. Since: 0.2 */
LW_API int lw_events_open(lw_engine *engine, lw_events **events, size_t capacity);

/* The next event. Waits up to timeout_ms (0: not at all, -1: for ever). Inside a handler the last
 * worker that waits is replaced, within stuck_max, as in lw_wait.
 * Returns LW_OK; LW_ETIMEDOUT; LW_ESTOPPING: the engine has stopped, whoever stopped it and whether
 * or not that was waited for, and all was read; LW_EINVAL; LW_EFORKED. Since: 0.2 */
LW_API int lw_events_next(lw_events *events, lw_event *event, int64_t timeout_ms);

/* Closes it, before the engine; NULL is fine. Since: 0.2 */
LW_API void lw_events_close(lw_events *events);

typedef struct lw_engine_stats {
    uint64_t created, scheduled, enqueued, started; /* tasks in these states now */
    uint64_t finished, failed, aborted;             /* retained now */
    uint64_t submitted_total, existed_total, refused_total;
    uint64_t finished_total, failed_total, aborted_total;
    uint64_t retried_total, crashed_total, snoozed_total, stuck_total, swept_total;
    uint64_t task_bytes; /* payloads of unfinished tasks */
    uint64_t workers;    /* threads now */
    uint64_t untold;     /* have ended, and callbacks about that are still to come, or under way */
    uint64_t keys_kept;  /* have ended and left, but for a key whose window lasts longer */
} lw_engine_stats;

/* Returns LW_OK, LW_EINVAL, LW_EFORKED; a client's as lw_get. Since: 0.2 */
LW_API int lw_get_stats(lw_engine *engine, lw_engine_stats *stats);

/* Whether what is accepted can be written. */
typedef struct lw_store_health {
    int status;       /* LW_OK: it can. Otherwise why it cannot now, until that has gone by */
    lw_error last;    /* what stood in the way the last time, even if that is over; its status is
                          LW_OK if nothing ever did */
    const char *code; /* the same as a word for programs; NULL: nothing. "store_full": no room on
                          the disk; "store_busy": another connection holds the file; "store_slow":
                          a commit takes longer than 5 s, and may still come through;
                          "store_missing": it was deleted, moved or replaced; "store_taken": another
                          owner has it, because somebody deleted the lock, and this one is halted
                          for good; "store_read_only", "store_damaged", "store_failing",
                          "no_memory" */
    uint64_t errors_total; /* how often something could not be written, or read */
    uint64_t pending;      /* changes that are not written yet */
    int64_t commit_age_ms; /* since the last commit, or since it was opened; -1: there is no disk */
} lw_store_health;

/* How the store does. While it cannot write, nothing is accepted or claimed, no attempt starts, and
 * it tries again by itself, every two seconds at least. Does not wait for a disk. What a commit
 * would find (a full disk, a file that another holds) it knows of after the next commit; that the
 * file is gone it sees at once.
 * Returns LW_OK; LW_EINVAL: also for a client; LW_EFORKED. Since: 0.3 */
LW_API int lw_get_store_health(lw_engine *engine, lw_store_health *health);

/* Whether a library below a store of this URL has a fault that is known to harm such stores, such
 * as SQLite before 3.51.3. Opens nothing. True: fault->message says which, and what to do;
 * Legwork's own connections avoid it. False: none is known, or there is no such store.
 * Threads: any. Since: 0.3 */
LW_API bool lw_store_has_fault(const char *url, lw_error *fault);

/* Figures of one queue, of one moment. */
typedef struct lw_queue_stats {
    const char *name;
    bool is_paused;
    uint64_t unfinished; /* tasks */
    uint64_t enqueued;   /* of these, that wait for a worker */
    uint64_t bytes;      /* of the payloads of unfinished ones */
    uint64_t submitted_total;
} lw_queue_stats;

/* Figures of one kind, likewise. */
typedef struct lw_kind_stats {
    const char *name;
    bool has_handler;                               /* here */
    uint64_t created, scheduled, enqueued, started; /* tasks in these states now */
    uint64_t finished, failed, aborted;             /* retained now */
    uint64_t submitted_total;
} lw_kind_stats;

/* Calls `each` for every queue, or kind, that was ever named, until it returns false. The names
 * live as long as the engine. Returns how many were shown; LW_EINVAL; LW_EFORKED. Since: 0.3 */
LW_API int lw_list_queues(lw_engine *engine, bool (*each)(void *user, const lw_queue_stats *queue),
                          void *user);
LW_API int lw_list_kinds(lw_engine *engine, bool (*each)(void *user, const lw_kind_stats *kind),
                         void *user);

/* Writes all figures, per queue and kind, in the OpenMetrics text format, in pieces.
 * Returns LW_OK; what `write` returned, if that was negative; LW_EINVAL, LW_ENOMEM, LW_EFORKED.
 * Since: 0.2 */
LW_API int lw_metrics_write(lw_engine *engine,
                            int (*write)(void *user, const char *text, size_t size), void *user);

/* ---- stop --------------------------------------------------------------------------------- */

/* Stops: refuses new tasks from now on; then LW_DROP starts nothing more and asks what runs to give
 * up, LW_DRAIN runs what is due now, LW_DRAIN_ALL also what waits for a time (now, each once: what
 * fails again stays). What clients and the outbox have committed before a drain is taken in first,
 * within its time and for half a minute at most, as far as there is room. Waits for all that up to
 * timeout_ms (0: not at all, -1: for ever); what runs longer than that is asked to give up then. A
 * drain goes on after that, with contexts that are done from the start. An attempt that gives up
 * because of the stop does not count. Nothing is thrown away: what did not run stays in the state
 * it is in, for lw_list with .is_unfinished to show.
 * Returns LW_OK: nothing runs any more, all callbacks have returned, and under the two drains
 * nothing is left that a worker here could run. What cannot run stays, enqueued or not: in a paused
 * queue, of a kind without a handler (a worker elsewhere may hold a lease on it), in an engine that
 * was not started, after a task that stays; so it does after that, too, even if the queue is
 * resumed. An engine without workers runs nothing in here. A drop waits for a file that cannot be
 * written or read for about 6 s at most (lw_close tries once more, for about 3 s): ends that are
 * not written by then run again another time. Drains wait until it works again.
 * LW_ETIMEDOUT: something still runs or waits; a later stop can wait again. LW_PENDING: called
 * inside a handler or callback: the stop has begun, and nobody was waited for; contexts are done
 * when timeout_ms have passed all the same. LW_EINVAL, LW_EFORKED. Idempotent, any number at once;
 * of several stops the hardest wins, in whatever order they come: drop over drain over drain all.
 * Since: 0.2 */
LW_API int lw_stop(lw_engine *engine, lw_stop_mode mode, int64_t timeout_ms);

/* Waits, without stopping, until nothing runs, all callbacks have returned, and nothing waits that
 * a worker here could run now. What clients and the outbox have committed before is taken in first,
 * as by a drain. So scheduled tasks do not count, nor does what cannot run: see lw_stop.
 * lw_get_stats has the numbers.
 * Returns LW_OK: there was such a moment; LW_ETIMEDOUT, LW_EDEADLOCK inside a handler, LW_EINVAL,
 * LW_EFORKED. Since: 0.2 */
LW_API int lw_wait_idle(lw_engine *engine, int64_t timeout_ms);

/* Frees the engine; NULL is fine. One that nobody stopped, or only from inside a handler or
 * callback, is stopped first, as with LW_DROP and no timeout. Snapshots stay as they are.
 * Tasks in memory that did not end are lost with the engine: of each on_end is told, once, with the
 * state in which it was left; then its argument goes to on_drop. That is done on the calling
 * thread, with no lock held; the callbacks may call the engine, which has stopped (lw_submit:
 * LW_ESTOPPING, lw_close: LW_EDEADLOCK). One line of the log, a warning, says how many there were
 * in which state. Tasks on a disk are not lost, and not told. With LW_PENDING the tasks that still
 * run are told when their handlers have returned, on the thread that frees the memory.
 * Returns LW_OK; LW_PENDING: a stop had returned LW_ETIMEDOUT, handlers or callbacks still run, and
 * the last of them frees the memory; LW_EDEADLOCK: called inside a handler or callback, and nothing
 * was done; LW_EFORKED. Since: 0.2 */
LW_API int lw_close(lw_engine *engine);

/* ---- what lw_submit is compiled to -------------------------------------------------------- */

/* gcc clears a struct of this size by `rep stos`, slowly. (Bench, in turns, ns a task: E1 111 and
 * 91, E1x4 125 and 106, E2 558 and 481, E8 282 and 259; clang does without.) Define LW_NO_INLINE to
 * have plain calls: who puts a function of his own in place of lw_submit (--wrap, LD_PRELOAD, a
 * mock) would not see the short ones otherwise. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__OPTIMIZE__) && !defined(LW_NO_INLINE)

/* 0: it has nothing but what lw_submit_short takes. */
extern __inline__ __attribute__((__gnu_inline__, __always_inline__)) uint64_t lw__task_has_more(
    const lw_task *task) {
    return (task->struct_size ^ sizeof *task) | (uintptr_t)task->run | (uintptr_t)task->arg
           | (uintptr_t)task->on_drop | (uint64_t)task->priority | (uint64_t)task->delay_ms
           | (uint64_t)task->run_at_ms | (uint64_t)task->start_by_ms | (uint64_t)task->finish_by_ms
           | (uint64_t)task->key_scope | (uint64_t)task->key_window_ms | (uintptr_t)task->after
           | task->after_count | (uint64_t)task->after_policy | (uintptr_t)task->on_end
           | (uintptr_t)task->user | (uintptr_t)task->ctx | (uint64_t)task->submit_timeout_ms;
}

/* The function of the library, by another name. */
LW_API int lw__submit_called(lw_engine *engine, const lw_task *task, lw_id *id,
                             lw_error *err) __asm__("lw_submit");

/* Where it is not inlined, as in a function for another processor, the library's is called. */
extern __inline__ __attribute__((__gnu_inline__)) int lw_submit(lw_engine *engine,
                                                                const lw_task *task, lw_id *id,
                                                                lw_error *err) {
    uint64_t has_more = task ? lw__task_has_more(task) : 1;
    if (__builtin_constant_p(has_more) && has_more == 0)
        return lw_submit_short(engine, task->kind, task->queue, task->key, task->payload, id, err);
    return lw__submit_called(engine, task, id, err);
}

#endif

LW_END_DECLS

#endif
