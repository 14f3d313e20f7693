/* The port: what the engine needs of a store, and nothing of how it does it.
 *
 *     put      accepts tasks, all or none: keys, room, dependencies and scopes are checked in the
 *              same atomic step
 *     claim    takes runnable tasks for a worker, in order
 *     begin    an attempt of a claimed task starts, unless the task was aborted meanwhile
 *     settle   writes what became of attempts, and all that follows from it: results, errors,
 *              successors
 *     publish  what a running attempt says about itself
 *     change   what an operator wants: cancel, retry, forget
 *     sweep    whatever has become due: delays, limits, retention
 *     scope_…  what the tasks of one resource have in common, and the fence between generations
 *     find     looks without holding anybody up
 *
 * A store that keeps the order of its tasks in memory is made of the index (index.h); its tasks are
 * struct lw__task, which the engine may read inside a grace section. Times are on the engine's
 * clock.
 *
 * The store calls back through its hooks only: never into the port, and `wake` and `cancel` with
 * its mutex held, so that they must not call it either.
 */
#ifndef LW_STORE_STORE_H
#define LW_STORE_STORE_H

#include "base/clock.h"
#include "store/task.h"

#include <legwork/engine.h>

struct lw__index;
struct lw__journal_wait;

/* ---- what the store is told at open ------------------------------------------------------- */

struct lw__store_hooks {
    void *user;
    /* Something can be claimed or told that could not before. Under the store's lock. */
    void (*wake)(void *user);
    /* Something is due earlier than the last sweep was told. Under the store's lock. */
    void (*hasten)(void *user, uint64_t due);
    /* The attempt with this token is asked to give up. Under the store's lock. */
    void (*cancel)(void *user, uint64_t token, lw_reason reason);
    /* The calling thread is about to wait for the end of a task that a worker had claimed, and that
     * was aborted before it began: workers give back what they have not begun, which notes that
     * end. No lock is held. NULL: nobody cares */
    void (*relieve)(void *user);
    /* Something of this queue can be claimed under a lease that could not before. Under the store's
     * mutex. NULL: nobody cares */
    void (*claimable)(void *user, uint16_t queue);
    /* A scope was changed, its fence has opened, it was closed, or a task of its present generation
     * has ended without being finished. Under the store's lock. NULL: nobody cares */
    void (*scope_changed)(void *user, uint64_t scope);
    /* A task of the present generation of a scope is aborted without an attempt that could say so:
     * it was cancelled, or dropped to make room. Writes what the scope's bytes are from now on, at
     * most LW__SCOPE_BYTES_MAX, and returns how many; 0: they stay. Under the store's mutex: it
     * computes. NULL: nobody cares */
    size_t (*scope_aborted)(void *user, const struct lw__task *task, const char *reason,
                            lw_bytes old, char *bytes);
    /* What waited for the disk can go on: room, quiet, something to claim. No lock is held; on a
     * thread of the store. NULL: nobody cares */
    void (*settled)(void *user);
    /* A task of this kind and queue comes in that was not put through the port. No lock is held; on
     * a thread of the store. LW_OK, or why it cannot be: LW_EINVAL, LW_ENOMEM; LW_EFULL: there
     * are too many names. NULL: nobody cares */
    int (*meet)(void *user, const char *kind, const char *queue);
    /* A task has changed its state; called while *listeners is not 0, or always if that is NULL.
     * With the task's lock held: it may only note it. NULL: nobody cares */
    const _Atomic uint32_t *listeners;
    void (*moved)(void *user, const struct lw__task *task, lw_state from, lw_state to,
                  uint64_t now);
};

struct lw__store_options {
    const lw_allocator *allocator;
    const lw_log *log;
    lw_clock *clock;
    lw_role role;
    uint64_t task_limit, byte_limit, reserve;
    uint64_t resident_limit; /* bytes of payloads in memory that the file has, too; lean.h */
    uint32_t worker_slots;   /* workers that may run tasks at once; see index->running */
    bool is_synchronous; /* no thread of its own: what a call does to the file it does itself, and
                            * all of it before it returns */
    uint64_t secret[2];  /* for hashing keys */
    bool tells_failed, tells_aborted; /* ended tasks of these states are told (lw__store_told) */
    bool tells_errors;                /* and those that have errors, in whatever state they end */
    struct lw__store_hooks hooks;
};

struct lw__retention_settings {
    uint64_t ttl_ns;   /* UINT64_MAX: for ever */
    uint64_t max;      /* UINT64_MAX: any number */
    uint64_t byte_max; /* of their blocks in memory: payloads, errors, outputs; likewise */
};

#define LW__RETAINED_BYTES (UINT64_C(256) << 20) /* byte_max by default */

struct lw__kind_options {
    bool has_handler;
    bool is_kept;                               /* no leases, even without a handler */
    uint32_t concurrency;                       /* UINT32_MAX: any */
    struct lw__retention_settings retention[3]; /* finished, failed, aborted */
    uint32_t crashes;       /* that a task may have: the budget for leases that run out */
    uint64_t max_age_ns;    /* older ones are not tried again then */
    lw_key_scope key_scope; /* of keys that come in without saying; 0: none */
    uint64_t key_window_ns;
    void *user; /* the engine's */
};

/* ---- put ---------------------------------------------------------------------------------- */

/* Ids from here on are not of the store's counter: those of tasks that others have put into an
 * outbox, which has a counter of its own. */
#define LW__OUTSIDE_IDS UINT64_C(1000000000000000)
#define LW__ID_MAX ((UINT64_C(1) << 53) - 1)

/* A kind or queue that has no number yet: from here on, equal ones for equal names. For
 * lw__index_judge only. */
#define LW__UNNAMED 65536

_Static_assert(LW_KINDS_MAX <= LW__UNNAMED && LW_QUEUES_MAX <= LW__UNNAMED,
               "a task has 16 bits for the number of its kind, and of its queue: all are used");

struct lw__put {
    /* in: all checked by the engine */
    uint32_t kind, queue;
    uint32_t priority;
    bool is_unnamed, is_uncopied; /* the engine's */
    uint64_t due;                 /* not before; 0: at once */
    struct lw__spec *spec;        /* taken over when accepted; NULL: nothing out of the ordinary */
    bool is_successor;            /* of an attempt, or part of a change, in the same step */
    bool is_inside;               /* from a task: may use the reserve */
    bool may_drop;                /* of the first: for lack of room others may go; see `put` */
    bool is_taken;                /* claimed at once, for the caller who runs it: no room needed, as
                            * long as what has ended is told in time. A store that writes to a disk
                            * has no room for such: LW_EFULL */
    uint64_t scope;               /* 0: none; or LW__SCOPE_THIS. With a spec, and not taken */
    uint64_t generation;          /* of the scope, unless it is LW__SCOPE_THIS */
    uint32_t payload_size;        /* of a task that is there already, and lean */
    uint64_t outside_id;          /* that it has already; 0: it gets the next one */
    const char *stillborn; /* it is accepted and aborted in one step, for this reason: it needs no
                            * room and waits for nobody. NULL: it may live */
    const char *holder;    /* leased to this holder in the same step, if it can run at once and its
                            * queue has nothing else to claim; when the put is taken back there is
                            * no lease either. NULL: for whoever claims it */
    uint64_t lease_ns;     /* for so long */
    /* out */
    bool is_counted, is_reserved; /* the store's */
    bool is_double;               /* has the kind and key of one before it: the same task */
    uint32_t drops;               /* of the first: how many times others were dropped for these */
    int status;                   /* LW_OK, LW_EXISTS, or why not */
    uint64_t id;
    uint64_t token; /* of the attempt, if it is taken or leased; 0: it is not leased */
    struct lw__task *task;
};

/* ---- claim -------------------------------------------------------------------------------- */

struct lw__claim {
    /* in */
    struct lw__task *const *ended; /* as for `account`; may be NULL if there are none */
    uint32_t ended_count;
    struct lw__task **tasks; /* room for max */
    uint32_t max;            /* at most LW__CLAIM_MAX */
    /* out */
    uint32_t count;    /* tasks taken */
    uint64_t token;    /* of the attempt of the first; the others have the numbers after it */
    size_t left;       /* that could be claimed besides */
    bool has_told;     /* something waits for being told */
    bool is_half_free; /* at least half of the room for tasks is free */
};

/* ---- leases ------------------------------------------------------------------------------- */

#define LW__LEASES_MAX (1 << 20)

struct lw__leased {
    uint64_t id, token;
};

struct lw__lease_claim {
    /* in */
    const char *holder;
    uint64_t until;
    const uint16_t *queues, *kinds; /* which */
    uint32_t queue_count;           /* 0: all */
    uint32_t kind_count;            /* 0: all that have no handler */
    uint32_t max;                   /* 0: only whether claims can be made now */
    bool leaves_lost;               /* not those whose last lease the holder has let run out */
    bool only_looks;                /* takes nothing */
    struct lw__leased *leased;      /* room for max */
    /* out */
    uint32_t count;
    bool has_left; /* there are some that it had before */
    bool has_some; /* of one that only looks: there is something */
};

/* ---- settle ------------------------------------------------------------------------------- */

enum lw__verdict {
    LW__VERDICT_FINISH,
    LW__VERDICT_POSTPONE,  /* again at `due`: back-off, snooze */
    LW__VERDICT_GIVE_BACK, /* again at once */
    LW__VERDICT_FAIL,
    LW__VERDICT_ABORT
};

struct lw__settlement {
    struct lw__task *task;
    uint64_t token;
    enum lw__verdict verdict;
    uint64_t due;
    bool is_uncounted; /* the attempt does not count: a stop, a snooze */
    bool is_snooze;
    bool is_spent;            /* the handler had the argument for good */
    bool has_written_outside; /* the handler has completed it, or saved a position, in a transaction
                                 of its own, perhaps: that is looked at first. If it is completed it
                                 is finished, whatever the verdict says */
    lw_fault fault;           /* 0: no error to keep */
    const char *text;         /* of the error */
    const char *why;          /* it is aborted, if that is not what the error says. NULL: it is */
    bool has_result;
    lw_bytes result;
    struct lw__put *successors;
    size_t successor_count;
    bool is_leased; /* by whoever has the lease: task is NULL, the store finds it by its id */
    uint64_t id;
    struct lw__scope_change *scope; /* of the task's scope, in the same step; NULL: none */
    int status; /* out: LW_OK, LW_ELEASE, or why the successors or the change were refused;
                   LW_EXISTS: nothing was done, because the handler has completed it outside, and
                   its scope has to hear of that: settle it as finished */
};

/* ---- scopes ------------------------------------------------------------------------------- */

/* A scope is what the tasks that serve one resource have in common: a name, some bytes that say how
 * far it is, and a generation. A move gives it the next generation, and then
 * - tasks of older generations that wait are aborted, and those that run are asked to give up;
 * - whatever is put, settled or published for an older generation is refused with LW_ELEASE, and
 *   none of it is applied: a settlement just ends its claim, and the task is aborted;
 * - tasks of the new generation are held (created) while any attempt of an older one runs: the
 *   fence. They are told (struct lw__member, is_unclean) whether all of these were settled, or one
 *   was lost: LW_FAULT_CRASH, or an operator did not want to wait for it.
 * A later move does the same to tasks that are held. Generations are of the whole store and never
 * repeat, so that one is a fencing token for systems outside, too.
 *
 * What is put together with a change is checked (keys, room) before tasks are aborted. */

#define LW__SCOPE_NAME_MAX LW_KEY_MAX
#define LW__SCOPE_BYTES_MAX 16384 /* of what a scope says about itself */
#define LW__SCOPE_TASKS_MAX 4096  /* unfinished ones of a generation: a move touches them all */
#define LW__SCOPES_MAX (1 << 20)

/* The scope that is opened or changed by the call, or the settling task's; in the generation that
 * it has then. */
#define LW__SCOPE_THIS UINT64_MAX

enum lw__scope_action {
    LW__SCOPE_WRITE, /* the bytes; the generation stays */
    LW__SCOPE_MOVE,  /* to a new generation */
    LW__SCOPE_CLOSE, /* the name is free. Otherwise a move: whoever opens the name again is held up
                      * by what still runs */
    LW__SCOPE_FORCE  /* the fence does not wait any more for what runs */
};

struct lw__scope_change {
    enum lw__scope_action action;
    uint64_t version; /* that it is based on: LW_ECHANGED if there is another by now; 0: any */
    bool has_bytes;   /* otherwise they stay as they are */
    lw_bytes bytes;
    const uint64_t *aborted; /* tasks of its present generation that end with it, unless one has
                                begun meanwhile: that stays */
    size_t aborted_count;
    const char *const *reasons; /* for each of them */
    bool is_lazy;               /* the call does not wait for the disk: `flush` does */
    /* out */
    uint64_t new_generation, new_version;
};

/* A task of a scope, at the moment when that was copied. */
struct lw__scope_task {
    uint64_t id;
    uint16_t kind;
    lw_state state;
    uint32_t attempts;
    uint64_t due_at;
    bool is_held;
    char error[LW_TEXT_MAX + 1]; /* the last one; "": none */
};

struct lw__scope_copy {
    /* in */
    void *bytes;
    size_t capacity; /* LW__SCOPE_BYTES_MAX is enough for all; NULL and 0: not wanted */
    struct lw__scope_task *tasks; /* of this generation, in order of their acceptance */
    size_t task_capacity;         /* 0: not wanted */
    /* out */
    size_t size; /* of the bytes, which were copied as far as they fit */
    uint64_t id, generation;
    uint64_t version;    /* rises with every change */
    uint32_t task_count; /* unfinished ones of this generation */
    uint32_t open;       /* attempts of older generations that the fence waits for */
    bool is_unclean;     /* one of those was lost */
    size_t copied_count; /* of tasks */
    char name[LW__SCOPE_NAME_MAX + 1];
};

/* ---- publish ------------------------------------------------------------------------------ */

struct lw__publication {
    bool has_progress, has_partial, has_checkpoint;
    bool is_leased;           /* by whoever has the lease, if anybody has */
    bool has_written_outside; /* as in a settlement: an older checkpoint may be on its way */
    uint64_t done, total;
    const char *text;
    lw_bytes partial;
    lw_bytes checkpoint; /* durable when the call returns */
};

/* ---- change ------------------------------------------------------------------------------- */

enum lw__change { LW__CHANGE_CANCEL, LW__CHANGE_RETRY, LW__CHANGE_FORGET, LW__CHANGE_EXPEDITE };

/* ---- figures ------------------------------------------------------------------------------ */

struct lw__kind_figures {
    const char *name;
    bool has_handler;
    uint32_t concurrency;
    uint64_t claimed;
    uint64_t created, scheduled, enqueued;
    uint64_t retained[3];
    uint64_t submitted, finished, failed, aborted, retried, crashed, snoozed;
};

struct lw__queue_figures {
    const char *name;
    bool is_paused;
    uint64_t unfinished, bytes, enqueued;
    uint64_t limit, byte_limit;
    uint64_t submitted, finished, failed, aborted; /* ever */
};

/* ---- the port ----------------------------------------------------------------------------- */

struct lw__store;

/* Who waits for a task to end; on the waiter's stack. */
struct lw__await {
    uint64_t id;
    _Atomic uint32_t is_over; /* to be waited for */
    struct lw__await *next, **link;
};

/* Which task of a store that another process owns is to be copied. */
struct lw__wanted {
    uint64_t from, to;              /* ids; the first that suits is taken */
    lw_state state;                 /* 0: any */
    bool is_unfinished;             /* only those that are not terminal */
    const char *kind, *queue, *key; /* NULL: any */
};

/* What a store that another process owns can do instead of all that is below: its tasks are copied
 * from where they are, and whatever is to become of them is asked for. Any thread. */
struct lw__remote_ops {
    /* Copies a task; its blocks are the caller's, until `drop`. LW_OK; LW_ENOTFOUND; LW_ENOMEM; or
     * why it cannot be read: LW_EBUSY, LW_ECORRUPT, LW_ESYSTEM, with a sentence. */
    int (*copy)(struct lw__store *store, const struct lw__wanted *wanted, struct lw__task *copy,
                lw_error *err);
    void (*drop)(struct lw__store *store, struct lw__task *copy);

    /* How many tasks are in which state, by lw_state. Returns as copy. */
    int (*count)(struct lw__store *store, uint64_t counts[LW_ABORTED + 1]);

    /* All or none, and durable when it returns; LW_EINVAL: one cannot be, or this is a reader;
     * LW_EFULL, LW_EUNSURE, or as copy, with a sentence. patience_ms: for how long it may wait for
     * other connections, LW_ETIMEDOUT then; 0: as long as it is used to, LW_EBUSY then. */
    int (*submit)(struct lw__store *store, const lw_task *const *tasks, size_t count, lw_id *ids,
                  uint64_t patience_ms, lw_error *err);
    int (*ask)(struct lw__store *store, uint64_t id, enum lw__change change, lw_error *err);

    /* A number that is another after each change by others; -1: it cannot be told. And sleeps
     * until it is another than this, or the deadline of the system's clock; perhaps less. */
    int64_t (*version)(struct lw__store *store);
    void (*await)(struct lw__store *store, int64_t version, uint64_t deadline);

    /* Nobody sleeps in `await` any more, from now on. */
    void (*rouse)(struct lw__store *store);

    /* The process that owns the store; 0: none does; -1: one that has not said its number. */
    int64_t (*owner)(struct lw__store *store);
};

struct lw__store_ops {
    const char *scheme; /* "memory" */
    /* Whether a library below it has a known fault; a sentence says which. NULL: there is none. */
    bool (*has_fault)(lw_error *fault);
    /* NULL: it is this process's own. Otherwise the port is of an empty index but for open, close,
     * names, looking at scopes, and stop. */
    const struct lw__remote_ops *remote;
    int (*open)(struct lw__store **store, const char *rest, const struct lw__store_options *options,
                lw_error *err);
    void (*close)(struct lw__store *store);
    /* Before the close: the engine could not be opened, so nothing was ever used. NULL: all the
     * same. */
    void (*abandon)(struct lw__store *store);

    /* Kinds and queues have been set: tasks that others have submitted may come in. NULL: there are
     * no others. */
    void (*start)(struct lw__store *store);

    /* The number of a kind or queue, which is made if there is none: LW_OK, LW_EFULL, LW_ENOMEM. */
    int (*kind)(struct lw__store *store, const char *name, uint16_t *kind);
    int (*queue)(struct lw__store *store, const char *name, uint16_t *queue);
    void (*set_kind)(struct lw__store *store, uint16_t kind,
                     const struct lw__kind_options *options);
    void (*set_queue)(struct lw__store *store, uint16_t queue, uint32_t weight, uint64_t limit,
                      uint64_t byte_limit);
    int (*pause)(struct lw__store *store, const char *queue, bool is_paused); /* LW_ENOTFOUND */

    /* All or none. LW_OK: each put has its status, LW_OK or LW_EXISTS. Otherwise the first that
     * could not be accepted has it: LW_EFULL (no room in its queue or at all), LW_EINVAL (a
     * dependency on a task that never was), LW_ELEASE (its scope has another generation); or
     * LW_ENOMEM.
     *
     * If they may drop, and lack nothing but room, the first enqueued tasks of their queues are
     * aborted until there is enough for all, in the same step; or none, if that were in vain. Where
     * an end has to be durable there is room then: if it is LW_EFULL and `drops` has grown, flush
     * and try again. */
    int (*put)(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count);

    /* As put, until a deadline of the store's clock; also LW_ETIMEDOUT: it had to wait for the disk
     * until then, and nothing was put; LW_EUNSURE. NULL: `put` does not wait. */
    int (*put_by)(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count,
                  uint64_t deadline);

    /* The same for one task, without waiting until it is durable: wait->over is called then, with
     * what was put. Unless it is LW_OK nobody is called. NULL: it is durable when `put` returns. */
    int (*put_and_call)(struct lw__store *store, uint64_t now, struct lw__put *put,
                        struct lw__journal_wait *wait);

    /* The same for one task with a kind, queue and priority and nothing else, in one quick step. */
    int (*put_plain)(struct lw__store *store, uint64_t now, const struct lw__put *put,
                     uint64_t *id);

    /* Accounts for what has ended (as `account`), then takes tasks, all of one kind and in
     * order: one step, because it is what a worker does between two batches. */
    void (*claim)(struct lw__store *store, uint64_t now, struct lw__claim *claim);

    /* The attempt of a claimed task begins, with the token that it was claimed with. False: it was
     * aborted since; what is left is to account for it. Takes no lock, like finish.
     *
     * What is claimed is always a task of the index, whatever the store: the engine takes the steps
     * of step.h itself where these are the store's own, which is cheaper than by the table. */
    bool (*begin)(struct lw__store *store, struct lw__task *task, uint64_t token, uint64_t now);

    /* The attempt is done, and nothing is to be kept of it: finished at once, if the task is a
     * plain one; what is left is to account for it. False: it is not, settle it. */
    bool (*finish)(struct lw__store *store, struct lw__task *task, uint64_t now);

    /* Puts claimed tasks that have not begun back where they were. */
    void (*unclaim)(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                    uint32_t count);

    /* Claimed tasks of one kind and queue (1 to LW__CLAIM_MAX) have ended without a settlement:
     * they were finished by `finish`, or aborted before they began. Does what follows from
     * that. */
    void (*account)(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                    uint32_t count);

    /* Takes tasks of kinds without a handler for somebody else, in order, and begins their
     * attempts. LW_OK, with or without any; or nothing was taken: LW_EFULL (LW__LEASES_MAX),
     * LW_ESTOPPING, LW_ENOMEM, or why their payloads cannot be read. A lease that runs out is
     * settled by the sweep: LW_FAULT_CRASH. */
    int (*lease)(struct lw__store *store, uint64_t now, struct lw__lease_claim *claim);

    /* The lease ends at `until`, if that is later than it does now. LW_OK; LW_PENDING: the task is
     * asked to give up; LW_ELEASE: it is not the present attempt, or its time is over, whether or
     * not the sweep has been there; LW_ENOMEM. */
    int (*extend)(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                  uint64_t until);

    /* As publish, for a lease: publication->is_leased. LW_ENOTFOUND: the task has ended. */
    int (*publish_leased)(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                          const struct lw__publication *publication);

    /* As flush, without waiting: wait->over is called then. NULL: it is durable already. */
    void (*flush_and_call)(struct lw__store *store, struct lw__journal_wait *wait);

    /* Settles up to LW__SETTLE_MAX attempts, each by itself: its status says how it went. */
    void (*settle)(struct lw__store *store, uint64_t now, struct lw__settlement *settlements,
                   size_t count);

    /* LW_OK, LW_ELEASE, LW_ENOMEM; LW_EUNSURE: a checkpoint could not be written yet. */
    int (*publish)(struct lw__store *store, struct lw__task *task, uint64_t token,
                   const struct lw__publication *publication);
    int (*change)(struct lw__store *store, uint64_t now, uint64_t id, enum lw__change change);

    /* Makes a scope and puts its first tasks, or neither: LW_OK; LW_EXISTS: its name is taken,
     * nothing was put; LW_EINVAL (the name is empty or too long, or there are too many bytes);
     * LW_EFULL (LW__SCOPES_MAX); LW_ENOMEM; LW_ESTOPPING; or why the tasks were refused. *copy
     * (NULL: not wanted) is the new scope, or the one that has the name. */
    int (*scope_open)(struct lw__store *store, uint64_t now, const char *name, lw_bytes bytes,
                      struct lw__put *puts, size_t count, struct lw__scope_copy *copy);

    /* Changes a scope and puts tasks, or neither: LW_OK; LW_ENOTFOUND; LW_ELEASE: it has another
     * generation (0: any will do); LW_ECHANGED: it has another version; LW_EINVAL; LW_ENOMEM; or
     * why the tasks were refused. */
    int (*scope_change)(struct lw__store *store, uint64_t now, uint64_t id, uint64_t generation,
                        struct lw__scope_change *change, struct lw__put *puts, size_t count);

    /* Copies the scope of this name, or the first with an id above `after`: LW_OK, LW_ENOTFOUND; of
     * a remote store also why it cannot be read. */
    int (*scope_find)(struct lw__store *store, const char *name, struct lw__scope_copy *copy);
    int (*scope_next)(struct lw__store *store, uint64_t after, struct lw__scope_copy *copy);

    /* Copies the payload of a task that a view shows without its spec: so many bytes. LW_OK;
     * LW_ENOTFOUND: it has left meanwhile; LW_EBUSY, LW_ECORRUPT, LW_ESYSTEM, LW_ENOMEM: it cannot
     * be read now. NULL: no task is ever lean. */
    int (*read)(struct lw__store *store, uint64_t id, void *payload, size_t size);

    /* Returns when all that was changed so far is durable: LW_OK, LW_EUNSURE. NULL: it always
     * is. */
    int (*flush)(struct lw__store *store);

    /* Does what has become due, at most a bounded lot of it. Returns when to come again (at once if
     * there is more); UINT64_MAX: never, unless `hasten` says so. */
    uint64_t (*sweep)(struct lw__store *store, uint64_t now);

    /* The next task that has ended and has to be told; NULL: none. The teller hands it back when it
     * has told it. */
    struct lw__task *(*next_told)(struct lw__store *store);
    void (*told)(struct lw__store *store, uint64_t now, struct lw__task *task);

    /* Announces a waiter. LW_OK: it will be woken when the task ends; LW_ENOTFOUND; LW_PENDING: it
     * has ended already, there is nothing to wait for. */
    int (*await)(struct lw__store *store, struct lw__await *await);
    void (*unawait)(struct lw__store *store, struct lw__await *await);

    /* Takes in what other connections have committed before this, as far as there is room for it;
     * until the deadline of the system's clock, or until nothing can be written. NULL: there are no
     * others. */
    void (*take_in)(struct lw__store *store, uint64_t deadline);

    /* How it does. *trouble is what lw__index_trouble has said, and is_halted what that has
     * returned; if nothing was in its way, looks whether its files are still there. Returns a word
     * for programs for what is in *trouble then: "store_full"; NULL: there is nothing. NULL
     * instead of this: there is nothing that could fail. Any thread; does not wait. */
    const char *(*examine)(struct lw__store *store, bool *is_halted, lw_error *trouble);

    /* What the store does not do any more: bits of LW__STORE_NO_... Bits are only ever added. */
    void (*restrain)(struct lw__store *store, uint32_t bits);

    /* Lets the scheduled tasks that were not brought forward before run now, a bounded lot of them
     * with ids above *after. False: that was all. */
    bool (*bring_forward)(struct lw__store *store, uint64_t now, uint64_t *after);

    /* Whether nothing is claimed or being told; and, if asked, nothing can be claimed. */
    bool (*is_quiet)(struct lw__store *store, bool is_drained_too);
};

/* What every store has. */
struct lw__store {
    const struct lw__store_ops *ops;
    struct lw__index *index; /* where its tasks are */
};

#define LW__SETTLE_MAX 64
#define LW__CLAIM_MAX \
    248 /* two blocks of a run: a claim costs its locks once (half as many: 5 %) */

#define LW__STORE_NO_PUT 1u     /* put gives LW_ESTOPPING, but for successors */
#define LW__STORE_NO_RELEASE 2u /* scheduled tasks stay so */
#define LW__STORE_NO_CLAIM 4u
#define LW__STORE_NO_DELAY 8u /* what has waited for others does not wait for a time, too */
#define LW__STORE_NO_HOOK 16u /* `settled` is not called any more, nor is it being called */

/* Opens the store that a URL names. LW_EINVAL: none has this scheme; the sentence suggests one. */
int lw__store_open(struct lw__store **store, const char *url,
                   const struct lw__store_options *options, lw_error *err);

#endif
