/* Leases: tasks that somebody else runs. A server that hands tasks to workers elsewhere claims them
 * for a time; whoever has a task finishes it, or extends its lease, before that is over.
 *
 *     lw_snapshot task = LW_SNAPSHOT_INIT;
 *     if (lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "worker 7", .lease_ms = 30000), &task,
 *                        &err) == 1) {
 *         ...                                    (task.payload, task.attempts, task.checkpoint)
 *         lw_settlement end = {.id = task.id, .token = task.token, .outcome = LW_OUTCOME_DONE};
 *         lw_lease_settle(engine, &end, 1, 0, &err);
 *     }
 *
 * Which tasks: those of kinds that have no handler in this engine. What it has a handler for it
 * runs itself, and nobody can claim it; nor steps of a flow, whether or not that is registered
 * here, which others complete by lw_flow_set. Within what was asked for they come in order:
 * priority, then due time, then id. A paused queue gives none. The options of a kind (lw_handle
 * with a NULL handler) hold for its leases: concurrency, retry policy, retention; its timeout does
 * not, the lease is the deadline.
 *
 * The token: every call carries that of the attempt. When the attempt is not the present one any
 * more (its lease ran out, it was settled, its scope has moved on) the call is refused with
 * LW_ELEASE, and nothing of it is applied. One thing can be said again, by a worker that got no
 * answer: how the task ended (lw_lease_settle).
 *
 * The end of a lease: at its time, to the clock of the engine, the attempt is not the present one
 * any more, whether or not the engine has got round to it. The task is runnable again, and the
 * attempt is charged to the crash budget (LW_FAULT_CRASH), never to the retries; a task without
 * budget has failed.
 *
 * On a durable store the time of a lease, and of an extension, begins when it is written: not when
 * it was asked for, and nobody can lose a lease that it was not told of. While the store cannot
 * write (a full disk, a file that somebody holds, a commit that hangs) no lease ends, because its
 * holder could not be heard; when that is over, a lease that has ended meanwhile, or would soon,
 * lasts for one lease time more, unless its holder extends it.
 *
 * On a durable store a lease is durable when the claim returns. It survives a restart: until its
 * end the task is not run a second time, and its holder can go on as if nothing had happened. What
 * ran out meanwhile is taken back at lw_start. A stop does not wait for leases; after it has begun
 * nothing can be claimed, but all else still works until lw_close. lw_wait_idle does not wait for
 * them either.
 *
 * Cancelling: lw_cancel marks the task, and the next lw_lease_extend, _progress or _checkpoint
 * gives LW_PENDING instead of LW_OK: done, but it should give up. If it does not finish it is
 * aborted.
 *
 * on_end, on_failed and on_aborted are told as of any task; on_attempt is not.
 *
 * Threads: any. All calls wait for the disk, except for progress, unless they are told not to
 * (LW_NO_WAIT): then lw_sync_async tells when they are durable, for any number of them at once.
 */
#ifndef LEGWORK_LEASE_H
#define LEGWORK_LEASE_H

#include <legwork/engine.h>

LW_BEGIN_DECLS

#define LW_CLAIM_MAX 1000                 /* tasks of one claim */
#define LW_CLAIM_NAMES_MAX 64             /* queues, and kinds, that one claim can name */
#define LW_SETTLE_MAX 1000                /* settlements of one call */
#define LW_HOLDER_MAX 64                  /* bytes of the name of a holder, letters as in a key */
#define LW_LEASE_MS_MAX INT64_C(86400000) /* a day */
#define LW_LEASES_MAX (1 << 20)           /* at one time */

/* A flag: do not wait for the disk. */
#define LW_NO_WAIT 1u

/* A flag of a claim: leave tasks to others whose last lease this holder has let run out. A holder
 * that is frozen would get the same task again and again, each time charged as a crash. If there is
 * nothing else lw_lease_claim returns LW_ELEASE; without others claim again without the flag.
 * Since: 0.3 */
#define LW_LEAVE_LOST 2u

/* A flag of a claim: claim nothing, and only look. lw_lease_claim returns 1 if there is something
 * to claim, else 0; `tasks` may be NULL. Since: 0.3 */
#define LW_ONLY_LOOK 4u

/* ---- claim -------------------------------------------------------------------------------- */

typedef struct lw_claim_options {
    size_t struct_size;
    const char *holder; /* who gets them, for snapshots and lw_explain. Required; printable */
    const char *const *queues; /* from these. Default: from all */
    size_t queue_count;
    const char *const *kinds; /* of these; one that has a handler here is an error. Default: of all
                                 that have none */
    size_t kind_count;
    int max;          /* tasks, at most LW_CLAIM_MAX. Default: 1 */
    int64_t lease_ms; /* at most LW_LEASE_MS_MAX. Default: 30,000 */
    unsigned flags;   /* LW_NO_WAIT: tell nobody of the tasks before lw_sync_async says LW_OK; if it
                         says otherwise return them. LW_LEAVE_LOST, LW_ONLY_LOOK: see there.
                         Default: none */
} lw_claim_options;

#define LW_CLAIM_OPTIONS(...) \
    LW_OPTIONS_OF(lw_claim_options, .struct_size = sizeof(lw_claim_options), __VA_ARGS__)

/* Claims up to options->max tasks, without waiting for any; `tasks` has room for so many snapshots,
 * each empty (LW_SNAPSHOT_INIT) or used before. All that is needed is in there: id, token, kind,
 * payload, value, checkpoint, attempts, lease_until_ms. Names that nobody has used yet are no
 * error.
 * Returns how many, 0: there is nothing to claim now. LW_EINVAL with a sentence; LW_EFULL: there
 * are LW_LEASES_MAX; LW_ENOMEM; LW_ESTOPPING; LW_EUNSURE, LW_EBUSY, LW_ECORRUPT, LW_ESYSTEM: leases
 * cannot be written now (lw_get_store_health), and nothing was claimed; watches are told when
 * they can be written again; LW_EFORKED. Since: 0.3 */
LW_API int lw_lease_claim(lw_engine *engine, const lw_claim_options *options, lw_snapshot *tasks,
                          lw_error *err);

/* Submits a task, and leases it in the same step to a holder who waits for one: on a durable store
 * both are written at once, so that the holder waits for one write instead of two. That is if the
 * task can run at once and could be claimed, and its queue has nothing else to claim, which would
 * be before it. `options` says who waits (holder) and how long the lease is (lease_ms), and nothing
 * else. `leased`, empty or used before, is the task as lw_lease_claim shows it if it was leased,
 * with its token; otherwise it is empty, and the task waits for whoever claims it.
 * Tell the holder nothing before `done` has said LW_OK. If `done` says otherwise the task was not
 * accepted, and there is no lease; after LW_EUNSURE there may be one: return it.
 * Returns as lw_submit_async, with LW_OK whether or not it was leased; LW_EINVAL also for the
 * options. Since: 0.3 */
LW_API int lw_lease_submit(lw_engine *engine, const lw_task *task, const lw_claim_options *options,
                           lw_snapshot *leased, lw_submitted done, void *user, lw_error *err);

/* Gives a task back as if it had never been claimed: the attempt is not counted, and it stands
 * where it stood. For a worker that has gone before it got it.
 * Returns LW_OK; LW_ELEASE; LW_EUNSURE: done, and not written yet; LW_EINVAL; LW_EFORKED.
 * Since: 0.3 */
LW_API int lw_lease_return(lw_engine *engine, lw_id id, uint64_t token, unsigned flags);

/* ---- meanwhile ---------------------------------------------------------------------------- */

/* The lease ends in lease_ms from now, or when it would have ended anyway, if that is later.
 * Returns LW_OK; LW_PENDING: likewise, but the task was cancelled; LW_ELEASE; LW_ENOMEM;
 * LW_EUNSURE: done, and not written yet; LW_EINVAL; LW_EFORKED. Since: 0.3 */
LW_API int lw_lease_extend(lw_engine *engine, lw_id id, uint64_t token, int64_t lease_ms,
                           unsigned flags);

/* As lw_progress, lw_partial and lw_checkpoint, for whoever has the lease. Only the last waits for
 * the disk. Return as lw_lease_extend. Since: 0.3 */
LW_API int lw_lease_progress(lw_engine *engine, lw_id id, uint64_t token, uint64_t done,
                             uint64_t total, const char *text);
LW_API int lw_lease_partial(lw_engine *engine, lw_id id, uint64_t token, lw_bytes result);
LW_API int lw_lease_checkpoint(lw_engine *engine, lw_id id, uint64_t token, lw_bytes position,
                               unsigned flags);

/* ---- settle ------------------------------------------------------------------------------- */

/* What became of an attempt. */
typedef struct lw_settlement {
    lw_id id;
    uint64_t token;
    lw_outcome outcome;
    lw_bytes result;  /* of DONE; data NULL: none */
    const char *text; /* of RETRY, FAIL, ABORT: the error. Cut at LW_TEXT_MAX */
    int64_t wait_ms;  /* RETRY: after this time; 0: after the back-off of the kind's policy,
                         LW_ZERO: at once. SNOOZE: for this long; 0: back into the queue */
    const lw_task *const *then; /* of DONE: successors, submitted with it or not at all; their keys
                                   as with lw_then */
    size_t then_count;          /* at most LW_THEN_MAX */
    int status;                 /* out */
} lw_settlement;

/* Settles up to LW_SETTLE_MAX attempts, each by itself: its status says how it went. LW_OK;
 * LW_ELEASE; LW_EINVAL (outcome, times, sizes, a successor); LW_EFULL: no room for its successors;
 * LW_ENOMEM; LW_EUNSURE: settled, and not written yet. But for the first and the last the attempt
 * goes on as if nothing had been said, and can be settled otherwise.
 * DONE, FAIL and ABORT may be repeated: LW_OK again, and without any effect, as long as the task is
 * retained, has ended so, and no other attempt was there; also when the result or the text differs.
 * It is LW_ELEASE with successors if the attempt was completed by lw_outbox_sqlite_done, which has
 * none: nothing was submitted.
 * Returns LW_OK: all have a status; `err` is about the first that failed. LW_EINVAL: there are
 * none, or too many; LW_EFORKED. Since: 0.3 */
LW_API int lw_lease_settle(lw_engine *engine, lw_settlement *settlements, size_t count,
                           unsigned flags, lw_error *err);

/* ---- durable ------------------------------------------------------------------------------ */

/* Until all that the engine was told before is durable. In memory that is at once.
 * Returns LW_OK; LW_EUNSURE: it could not be written now; it will be when that is possible again;
 * LW_EINVAL; LW_EFORKED. Since: 0.3 */
LW_API int lw_sync(lw_engine *engine);

/* The same without waiting: `done` is called with the status, and 0 for the id, as by
 * lw_submit_async. Returns as that. Since: 0.3 */
LW_API int lw_sync_async(lw_engine *engine, lw_submitted done, void *user, lw_error *err);

/* ---- waiting for something to claim ------------------------------------------------------- */

/* For an event loop: a descriptor that is readable when there may be something to claim. Without
 * polling, and nothing is missed:
 *
 *     fd is readable:  while (lw_claim_watch_next(watch, queue) == 1)
 *                          claim from that queue for those who wait for it, until it gives nothing
 */
typedef struct lw_claim_watch lw_claim_watch;

/* Opens one for all queues. At first it tells of each that there is. Close it before the engine.
 * Returns LW_OK, LW_EINVAL, LW_ENOMEM, LW_ESYSTEM, LW_EFORKED. Since: 0.3 */
LW_API int lw_claim_watch_open(lw_engine *engine, lw_claim_watch **watch, lw_error *err);

/* To be polled for reading, not read or closed by the caller. Since: 0.3 */
LW_API int lw_claim_watch_fd(const lw_claim_watch *watch);

/* The next queue in which something may have become claimable since it was last told; `queue` has
 * room for LW_NAME_MAX + 1 bytes. Returns 1; 0: none, and the descriptor is not readable until
 * there is one; LW_EINVAL, LW_EFORKED. Threads: any, but who gets a queue has to see to it.
 * Since: 0.3 */
LW_API int lw_claim_watch_next(lw_claim_watch *watch, char *queue);

/* NULL is fine. Since: 0.3 */
LW_API void lw_claim_watch_close(lw_claim_watch *watch);

LW_END_DECLS

#endif
