/* Tasks with names: what a program submits, what a handler is given, and what anybody can ask.
 *
 * A task has a kind (which handler runs it), a payload (bytes, copied) and perhaps a key (which
 * makes it unique within its kind). From the moment it is accepted it has an id and a state:
 *
 *                   +-----------> scheduled ------+------------------> aborted
 *                   |              |    ^         |  cancel, expiry      ^
 *     submit --> created           |due |retry    |                      |
 *                   |              v    |snooze   |                      |
 *                   +-----------> enqueued -------+                      |
 *                                  |    ^                                |
 *                           claim  |    | stop, snooze 0                 |
 *                                  v    |                                |
 *                                 started ----> finished | failed -------+
 *
 *     failed or aborted --> enqueued: retried by hand
 *
 *     created    accepted, not runnable yet: it waits for another task, or a fence holds it
 *     scheduled  waits for a time: a delay, or the back-off before the next attempt
 *     enqueued   could run: waits for a worker
 *     started    a handler has it
 *     finished   done
 *     failed     given up: attempts used up, or a permanent error. Can be retried by hand
 *     aborted    cancelled, expired, dropped, or what it waited for has failed
 *
 * The last three are terminal: the task stays for a while, to be looked at, and then leaves.
 */
#ifndef LEGWORK_TASK_H
#define LEGWORK_TASK_H

#include <legwork/api.h>
#include <legwork/ctx.h>
#include <legwork/runtime.h>
#include <legwork/status.h>

LW_BEGIN_DECLS

/* ---- limits ------------------------------------------------------------------------------- */

#define LW_NAME_MAX 64 /* bytes of the name of a kind or queue */
#define LW_KEY_MAX \
    256                           /* bytes of a key: UTF-8 without controls, invisible characters,
                                   * and those that turn the direction of writing */
#define LW_PAYLOAD_MAX (16 << 20) /* bytes of a payload, result, or partial result */
#define LW_CHECKPOINT_MAX 65536   /* bytes of a checkpoint: a position, not the work itself */
#define LW_TEXT_MAX 255           /* bytes of an error or a progress text; cut between letters */
#define LW_KINDS_MAX 65536        /* kinds that one engine can know (kind_count_max) */
#define LW_QUEUES_MAX 65536       /* queues, likewise (queue_count_max) */
#define LW_AFTER_MAX 64           /* tasks that one task can wait for */
#define LW_THEN_MAX 1000          /* successors of one attempt */
#define LW_SUBMIT_MAX 1000        /* tasks of one lw_submit_many */
#define LW_ERRORS_MAX 16          /* errors that are kept of a task: the first, and the last 15 */
#define LW_TASKS_MAX (1 << 30)    /* tasks in one engine, terminal ones included */

/* ---- words -------------------------------------------------------------------------------- */

/* Rises, is never reused, stays below 2^53. 0 is no id. */
typedef unsigned long long lw_id;

typedef struct lw_bytes {
    const void *data;
    size_t size;
} lw_bytes;

/* A string as bytes, without its ending zero. */
#if defined(__cplusplus)
#define LW_TEXT(text) (lw_bytes{(text), __builtin_strlen(text)})
#else
#define LW_TEXT(text) ((lw_bytes){.data = (text), .size = __builtin_strlen(text)})
#endif

/* name of the constant, number, name. Numbers are part of the ABI. */
#define LW_STATE_MAP(X)             \
    X(LW_CREATED, 1, "created")     \
    X(LW_SCHEDULED, 2, "scheduled") \
    X(LW_ENQUEUED, 3, "enqueued")   \
    X(LW_STARTED, 4, "started")     \
    X(LW_FINISHED, 5, "finished")   \
    X(LW_FAILED, 6, "failed")       \
    X(LW_ABORTED, 7, "aborted")

typedef enum lw_state {
#define LW_STATE_ENUM(constant, number, name) constant = number,
    LW_STATE_MAP(LW_STATE_ENUM)
#undef LW_STATE_ENUM
} lw_state;

/* The name of a state, "unknown" for a number that is none. Never NULL. Since: 0.2 */
LW_API const char *lw_state_name(lw_state state);

/* Whether a task in this state will never change again by itself. Since: 0.2 */
LW_API bool lw_state_is_terminal(lw_state state);

/* What ended an attempt that was not done. The last three are charged to the crash budget, apart
 * from the retries. */
#define LW_FAULT_MAP(X)                                                          \
    X(LW_FAULT_ERROR, 1, "error")     /* the handler said retry or fail */       \
    X(LW_FAULT_TIMEOUT, 2, "timeout") /* it gave up because its time was over */ \
    X(LW_FAULT_STUCK, 3, "stuck")     /* it went on long after that */           \
    X(LW_FAULT_CRASH, 4, "crash")     /* its thread, process or lease was lost */

typedef enum lw_fault {
#define LW_FAULT_ENUM(constant, number, name) constant = number,
    LW_FAULT_MAP(LW_FAULT_ENUM)
#undef LW_FAULT_ENUM
} lw_fault;

/* The name of a fault, "none" for 0, "unknown" for a number that is none. Never NULL. Since: 0.2 */
LW_API const char *lw_fault_name(lw_fault fault);

/* ---- outcomes: what a handler returns ----------------------------------------------------- */

/* Made by the functions below, inside the handler, as the last thing it does. */
typedef enum lw_outcome {
    LW_OUTCOME_DONE = 1,
    LW_OUTCOME_RETRY = 2,
    LW_OUTCOME_SNOOZE = 3,
    LW_OUTCOME_FAIL = 4,
    LW_OUTCOME_ABORT = 5
} lw_outcome;

/* The task is finished; with a result that snapshots show (copied). A result that is too large, or
 * successors that find no room, make it a retry instead (of a task with a `run`: a failure).
 * Since: 0.2 */
LW_API lw_outcome lw_done(lw_ctx *ctx);
LW_API lw_outcome lw_done_with(lw_ctx *ctx, lw_bytes result);

/* It did not work this time: again after the back-off of the kind's policy, or failed if attempts
 * or age are used up. The text is kept with the attempt. If the context was done by its timeout the
 * attempt counts as a timeout; by a cancellation, the task is aborted; by a stop, it does not
 * count. Since: 0.2 */
LW_API lw_outcome lw_retry(lw_ctx *ctx, const char *format, ...) LW_PRINTF(2, 3);

/* The same, but after this time (a server said Retry-After); 0: at once; negative, as of a moment
 * that is past: after the back-off of the policy; at most LW_TIMEOUT_MS_MAX. Since: 0.2 */
LW_API lw_outcome lw_retry_after(lw_ctx *ctx, int64_t ms, const char *format, ...) LW_PRINTF(3, 4);

/* Later; not counted as an attempt, no error. 0 or less: back into the queue, behind what is due;
 * at most LW_TIMEOUT_MS_MAX. Since: 0.2 */
LW_API lw_outcome lw_snooze(lw_ctx *ctx, int64_t ms);

/* It will never work: failed, whatever is left of the budget. Since: 0.2 */
LW_API lw_outcome lw_fail(lw_ctx *ctx, const char *format, ...) LW_PRINTF(2, 3);

/* Not wanted any more: aborted; in a flow the whole flow is. Since: 0.2 */
LW_API lw_outcome lw_abort(lw_ctx *ctx, const char *format, ...) LW_PRINTF(2, 3);

/* ---- a task ------------------------------------------------------------------------------- */

typedef struct lw_task lw_task;
typedef struct lw_snapshot lw_snapshot;

/* A handler: runs one attempt on a worker, with no lock held, and may call the engine. The task and
 * all that it points to live until the handler returns. */
typedef lw_outcome (*lw_handler)(lw_ctx *ctx, const lw_task *task);

/* How long a key keeps others out. */
typedef enum lw_key_scope {
    LW_KEY_DEFAULT = 0,    /* as the kind says, and that says LW_KEY_UNFINISHED */
    LW_KEY_UNFINISHED = 1, /* until its task is terminal */
    LW_KEY_RETAINED = 2,   /* until its task has left the registry */
    LW_KEY_WINDOW = 3 /* for key_window_ms from its acceptance, and while unfinished. If that is
                              longer than a finished task is retained, its key and times stay
                              until then, some 400 bytes in memory, and nothing else of it */
} lw_key_scope;

/* What becomes of a task when one that it waits for has failed or was aborted. (One that has left
 * counts as finished: those that fail stay much longer.) */
typedef enum lw_after_policy {
    LW_AFTER_ABORT = 0, /* it is aborted */
    LW_AFTER_RUN = 1    /* it runs all the same */
} lw_after_policy;

/* Given to lw_submit, and to the handler. The caller keeps what the pointers point to; all of it is
 * copied, except for `arg` and `user`. */
struct lw_task {
    size_t struct_size;
    const char *kind;  /* which handler. Required, unless `run` is given; then "call" by default */
    const char *queue; /* Default: "default" */
    const char *key;   /* makes it unique within its kind. Default: none */
    lw_bytes
        payload; /* data may be NULL if size is 0. In a handler it never is: there is a zero after
                    the last byte, and so an empty payload is "" */

    /* In memory only, instead of a handler by kind. After LW_OK exactly one of these gets `arg`:
     * the attempt that returns done, fail or abort; or on_drop, when the task ends in any other
     * way. If that attempt is done but its successors or its result cannot be accepted, the task
     * fails at once: what has returned so is never called again. */
    lw_handler run;
    void *arg;
    void (*on_drop)(void *arg);

    int64_t priority;     /* smaller first; LW_ZERO: 0 (in a handler, too, so that it can be passed
                             on). Default: 1000. At most UINT32_MAX */
    int64_t delay_ms;     /* not before this long from now. Default: at once */
    int64_t run_at_ms;    /* not before this wall time, in ms since 1970. Default: at once */
    int64_t start_by_ms;  /* aborted if it has not started by then, from now; must be after
                             delay_ms, and not after finish_by_ms: LW_EINVAL. Default: never */
    int64_t finish_by_ms; /* aborted if it has not finished by then, from now, or if a retry could
                             not begin before; what runs is asked to give up. Default: never.
                             On a disk these times go on while no process runs, by the wall clock:
                             if that was set back over a restart, none is longer than when it was
                             last written; if it was set forward, they have come so much nearer */

    lw_key_scope key_scope; /* Default: the kind's */
    int64_t key_window_ms;  /* for LW_KEY_WINDOW. Default: the kind's */

    const lw_id *after; /* runs after these are finished */
    size_t after_count; /* at most LW_AFTER_MAX */
    lw_after_policy after_policy;

    /* Told once when the task is terminal, on a thread of the engine with no lock held; the
     * snapshot lives as long as the call. Of a task in memory that has not ended at lw_close it is
     * told by that, with the state in which the task was left. Never called if the submit has
     * returned a negative status, LW_EUNSURE included (lw_submit_async: was told one), or
     * LW_EXISTS: `user` can be freed then. */
    void (*on_end)(void *user, const lw_snapshot *task);
    void *user;

    /* The caller's context: its deadline bounds the submit, as submit_timeout_ms does, and its end
     * the wait for room; its value travels with the task. */
    lw_ctx *ctx;
    int64_t submit_timeout_ms; /* how long to wait for room, instead of the queue's; LW_ZERO: not.
                                  If positive it bounds the wait for the disk, too; a client's
                                  waits for other connections and threads, but not its commit.
                                  (lw_submit_async is for those who cannot wait for a disk) */

    /* Set by the engine, for the handler: */
    lw_id id;
    unsigned attempt;    /* 1 for the first */
    uint64_t token;      /* of this attempt; no other ever has it */
    lw_bytes checkpoint; /* what an attempt before this one has saved last (lw_checkpoint), with a
                            zero after the last byte. data NULL: nothing */
};

/* The address of a task, to be written into the call that wants it: LW_TASK(.kind = "mail"). In C++
 * it is gone after the statement (legwork/api.h), and a program that keeps it, in an array of
 * pointers for one, hands over anything; clang warns of it. */
#define LW_TASK(...) LW_OPTIONS_OF(lw_task, .struct_size = sizeof(lw_task), __VA_ARGS__)

/* What a task that is a variable, or one of an array, begins with, in C and in C++ alike:
 *     const lw_task mails[] = {LW_TASK_INIT(.kind = "mail", .key = "ann"),
 *                              LW_TASK_INIT(.kind = "mail", .key = "bob")};
 *     const lw_task *both[] = {&mails[0], &mails[1]};
 *     lw_submit_many(engine, both, 2, ids, &err);
 * Fields are written in the order of their declaration: C++ wants it so. Since: 0.3 */
#define LW_TASK_INIT(...) \
    { .struct_size = sizeof(lw_task), __VA_ARGS__ }

/* ---- inside a handler --------------------------------------------------------------------- */

/* The `.user` of the handler's options; NULL for a context that is not a handler's. Since: 0.2 */
LW_API void *lw_ctx_user(lw_ctx *ctx);

/* Publishes how far it is; snapshots show it. `text` may be NULL, and is copied.
 * Returns LW_OK; LW_ENOMEM; LW_ELEASE: the attempt is not the task's present one any more;
 * LW_EINVAL: not a handler's context. Since: 0.2 */
LW_API int lw_progress(lw_ctx *ctx, uint64_t done, uint64_t total, const char *text);

/* Publishes a partial result, which replaces the one before; copied. Returns as lw_progress. */
LW_API int lw_partial(lw_ctx *ctx, lw_bytes result);

/* Saves a position, from which the next attempt can go on: it finds it as `task->checkpoint`,
 * whatever ended this one (a retry, a snooze, a stop, a crash). It replaces the one before. Copied,
 * at most LW_CHECKPOINT_MAX bytes. On a durable store it is durable when this returns, together
 * with all progress that was published before. Snapshots show it; it stays with its task until that
 * leaves, so that a failed task that is retried by hand goes on, too.
 *
 * lw_checkpoint_at publishes progress (as lw_progress) and the position in one step, so that
 * neither is ever seen, or found after a crash, without the other.
 *
 * Returns LW_OK; LW_EINVAL: not a handler's context, or too large, or NULL with a size; LW_ELEASE:
 * the attempt is not the task's present one any more, and nothing was saved; LW_ENOMEM; LW_EUNSURE:
 * it could not be written yet, and will be when that is possible again; LW_EFORKED. Since: 0.3 */
LW_API int lw_checkpoint(lw_ctx *ctx, lw_bytes position);
LW_API int lw_checkpoint_at(lw_ctx *ctx, lw_bytes position, uint64_t done, uint64_t total,
                            const char *text);

/* A successor: submitted together with the attempt's outcome, if that is done, and only then.
 * Checked at once. Its room is taken from the reserve for tasks that tasks submit. If its key is
 * taken when the outcome is settled, the task that has it stands for it, as with lw_submit, and
 * the outcome is what it would have been; of several successors with one key the first stands for
 * all. The key of the attempt's own task is free for a successor, because the task ends in the same
 * step: a chain of tasks can go on under one key.
 * Returns LW_OK; LW_EINVAL with a sentence, also for the kind and key of the attempt's own task if
 * that keeps its key beyond its end (LW_KEY_RETAINED, LW_KEY_WINDOW): the successor would never
 * run; LW_EFULL: more than LW_THEN_MAX, or payloads of more than the engine's byte_limit together,
 * or a name too many (as lw_submit); LW_ENOMEM. Since: 0.2 */
LW_API int lw_then(lw_ctx *ctx, const lw_task *task, lw_error *err);

/* ---- snapshots ---------------------------------------------------------------------------- */

typedef struct lw_progress_info {
    uint64_t done, total;
    const char *text; /* never NULL */
} lw_progress_info;

typedef struct lw_attempt_error {
    int64_t at_ms;    /* wall time */
    unsigned attempt; /* which */
    lw_fault fault;   /* 0: none, but the reason why the task was aborted */
    const char *text;
} lw_attempt_error;

/* A consistent copy of all that is known of a task at one moment. Pointers point into its own
 * memory, which is reused by the next call that fills it and freed by lw_snapshot_clear; it may
 * outlive the engine, but not the engine's allocator. Times are wall time in ms since 1970; 0: has
 * not happened. They are counted back from the wall clock as it is set when the copy is made: if it
 * is corrected, the times of earlier tasks are so, too. Very short tasks are run many at a time,
 * with one look at the clock: when one of these began and ended is known to within a few ms. */
struct lw_snapshot {
    lw_id id;
    lw_state state;
    const char *kind, *queue;
    const char *key;  /* NULL: none */
    lw_bytes payload; /* data NULL: it is empty */
    lw_bytes value;   /* that travels with it from its submitter, such as a trace id. Of a task that
                       waits, or has ended, it may be in the store's file only */
    uint32_t priority;

    unsigned attempts; /* begun and counted, the present one included */
    unsigned crashes;  /* of these, charged to the crash budget */
    unsigned snoozes;
    uint64_t token; /* of the present or last attempt */

    int64_t created_ms;                                     /* accepted */
    int64_t enqueued_ms;                                    /* last became runnable */
    int64_t started_ms;                                     /* last began */
    int64_t ended_ms;                                       /* became terminal */
    int64_t due_ms;                                         /* scheduled: until then */
    uint64_t created_ns, enqueued_ns, started_ns, ended_ns; /* the same on the engine's own clock */

    const char *holder;     /* started by somebody else (legwork/lease.h): who. NULL: not so */
    int64_t lease_until_ms; /* and until when it has it */

    bool is_stuck;      /* started, and past its hard deadline */
    bool is_cancelling; /* started, and has been asked to give up */

    lw_progress_info progress;
    lw_bytes partial, result; /* data NULL: none */
    lw_bytes checkpoint;      /* where the next attempt goes on; data NULL: at the beginning */

    const char *last_error;         /* never NULL; "" if there was none. Of an aborted task: why */
    const lw_attempt_error *errors; /* in order; the first, and the last ones */
    unsigned error_count;
    unsigned errors_dropped; /* that were between the first and the next */

    /* the engine's */
    void *memory;
    size_t memory_size;
    lw_allocator allocator;
};

/* An empty one, which needs no freeing. */
/* clang-format off */
#if defined(__cplusplus)
#define LW_SNAPSHOT_INIT {}
#else
#define LW_SNAPSHOT_INIT {0}
#endif
/* clang-format on */

/* Frees what a snapshot holds and makes it empty; NULL is fine. Since: 0.2 */
LW_API void lw_snapshot_clear(lw_snapshot *snapshot);

LW_END_DECLS

#endif
