/* The index: all tasks of a store, in memory. It knows the order of what is runnable, the keys, the
 * room, the delays, the dependencies and what is retained; the memory store is nothing but this,
 * and the SQLite store is this and a journal.
 *
 *     index.c     kinds and queues; open, close         order.c, run.c   what is next
 *     put.c       accept (plain.c: the hot path)        ids.c  keys.c    find
 *     room.c      limits, and dropping to keep them
 *     claim.c     take, put back (step.h: begin, end)   retained.c       terminal tasks, by age
 *     withhold.c  lanes of kinds at their limit         turns.c          whose turn it is
 *     settle.c    outcomes of attempts                  awaits.c         who waits for whom
 *     end.c       what follows from a terminal state    blocks.c         spec, errors, output
 *     change.c    cancel, retry, forget                 sweep.c          what is due
 *     figures.c   counters, copied                      look.c           what a task waits for
 *     lease.c     attempts that somebody else runs
 *     scope.c, scopes.c   what tasks of one resource have in common
 *     lean.c      what need not be in memory, because a file has it
 *
 * Locks: `back`, then `mu`, then a task's lock (task.h), then nothing. Nearly everybody takes both
 * (lw__index_lock). Of the hot paths (plain.c) a put takes `mu` alone, and what follows from an end
 * begins under `back` alone: a submitter needs the lock for every task, so that it would wait for
 * as long as workers have it. What is written under both may be read under either. Hooks `wake`,
 * `hasten` and `cancel` run under mu, `moved` under the task's lock.
 *
 * Nothing here knows threads or reads a clock: `now` is handed in. With one thread it is a step
 * function, which is how the simulation runs it.
 */
#ifndef LW_STORE_INDEX_H
#define LW_STORE_INDEX_H

#include "base/brief.h"
#include "base/futex.h"
#include "base/grace.h"
#include "base/mutex.h"
#include "base/name_table.h"
#include "base/slab.h"
#include "base/table.h"
#include "store/ids.h"
#include "store/journal.h"
#include "store/keys.h"
#include "store/lean.h"
#include "store/lease.h"
#include "store/order.h"
#include "store/scope.h"
#include "store/store.h"

/* Which list a terminal task is retained in. */
enum lw__retained_list { LW__RETAINED_FINISHED, LW__RETAINED_FAILED, LW__RETAINED_ABORTED };

/* The settings are written under both locks, the rest under back. */
struct lw__retained {
    struct lw__task_link ring; /* oldest first */
    uint64_t count, bytes;
    struct lw__retention_settings settings;
    struct lw__kind *kind;
    struct lw__alarm alarm; /* for its oldest */
};

/* Reasons why a lane is shut. LW__SHUT_LIMIT: it was found to be next while its kind was at its
 * limit, and is withheld (withhold.c); others of the kind may not have it. */
#define LW__SHUT_NO_HANDLER 1u
#define LW__SHUT_LIMIT 2u
#define LW__SHUT_PAUSED 4u

/* Kinds, queues and lanes begin with what changes for each task, on a cache line of their own: with
 * the lock it goes from core to core. */
struct lw__kind {
    uint64_t unfinished, created, scheduled;       /* tasks now */
    uint64_t submitted, finished, failed, aborted; /* ever */
    uint32_t claimed;                              /* being run, or about to be */
    uint32_t concurrency;
    struct lw__retained retained[3];
    uint16_t number;
    bool has_handler;
    bool is_kept; /* no leases: by its options, or because tasks of scopes were found in the file */
    uint32_t crashes; /* that a task may have */
    uint64_t max_age_ns;
    void *user; /* the engine's */
    lw_key_scope key_scope;
    uint64_t key_window_ns;
    struct lw__lane *lanes;
    struct lw__order_kind order;
    struct lw__lane *withheld, **last_withheld; /* lanes that wait for a place; see withhold.c */
    struct lw__kind *next_short, **short_link;  /* while there are some */
    uint64_t retried, crashed, snoozed;         /* ever */
    struct lw__name_entry entry;
    char name[LW_NAME_MAX + 1];
};

/* Kinds of a queue whose lanes stand in an array, by number; those of other kinds stand in a table
 * (index.c). A queue takes no more memory for kinds that it does not have. */
#define LW__LANES_BY_NUMBER 64

struct lw__queue {
    uint64_t limit;
    uint64_t unfinished;          /* tasks now */
    uint64_t submitted, finished; /* ever */
    struct lw__order_queue order;
    struct lw__lane **lanes; /* by kind; NULL: none yet */
    uint32_t lane_capacity;  /* at most LW__LANES_BY_NUMBER */
    uint16_t number;
    bool is_paused;
    uint64_t byte_limit, bytes;
    uint64_t failed, aborted;
    struct lw__lane *withheld;    /* of its lanes, those that wait for a place; see withhold.c */
    struct lw__lane **more_lanes; /* open-addressed, by kind: at most half full */
    uint32_t more_count, more_capacity;
    struct lw__queue *next_in_set; /* room.c's, while the locks are held */
    bool is_in_set;                /* likewise */
    struct lw__name_entry entry;
    char name[LW_NAME_MAX + 1];
};

/* What a kind was registered with the last time, as a file has it. The kind itself is not known
 * before it has a task, or is registered again. */
struct lw__past_kind {
    char name[LW_NAME_MAX + 1];
    struct lw__retention_settings retention[3];
};

#define LW__PAST_KINDS_MAX 1024 /* all others have the defaults */

/* A dependency: `task` waits for the one with this id. It is in two lists, and knows what points to
 * it in each, so that it is taken out without a walk: thousands may wait for one task. */
struct lw__dependency {
    uint64_t on;
    struct lw__task *task;
    struct lw__dependency *next, **link;            /* of the same bucket */
    struct lw__dependency *sibling, **sibling_link; /* of the same task */
};

#define LW__AWAIT_BUCKETS 64

/* Free tasks as an array, so that the cache lines of the next ones can be asked for early: they
 * were last written on another core. Filled under `back`, emptied under `mu`, and each side writes
 * where the other reads once for many of them. A few batches of them, or they would go to the slab
 * and come back (256 instead: 9 % with four submitters). */
#define LW__MAGAZINE 1024

struct lw__magazine {
    /* written under back, read under mu */
    _Alignas(64) _Atomic uint32_t end; /* up to here they can be taken */
    /* guarded by back */
    _Alignas(64) uint32_t filled; /* up to here there are some; `end` follows, when back is given */
    uint32_t begin_seen;          /* spares_begin, as it was once */
    struct lw__task_link *surplus; /* those for which there is no place; NULL unless back is held */
    _Alignas(64) struct lw__task *items[LW__MAGAZINE];
};

struct lw__index {
    struct lw__store store; /* first */
    /* fixed after open: read by all at every step, so that nothing that changes may share their
     * cache lines (a task took 244 ns with `journal` behind `ids`, 204 like this) */
    lw_allocator allocator;
    struct lw__store_options options;
    struct lw__store_hooks hooks;
    _Atomic uint64_t *running; /* a place for each worker: the id that it runs. NULL: nobody asks */
    struct lw__journal *journal; /* NULL: nothing is made durable */

    _Alignas(64) struct lw__grace grace; /* readers from any thread; the rest under back */
    _Alignas(64) struct lw__ids ids;

    /* one line for what changes with each task, and one in the order */
    _Alignas(64) struct lw__brief mu;
    struct lw__brief back;
    /* guarded by mu */
    _Atomic uint32_t spares_begin;
    uint64_t last_id, last_token;
    uint64_t unfinished;
    uint64_t reserve_used; /* of these: tasks of the reserve */
    uint64_t claimed;      /* by workers of this process; leases are counted apart */
    uint64_t last_due;     /* of what was enqueued at its submit: such due times never go back */
    struct lw__magazine spares; /* tasks that have left, to be used again first; back's */
    _Alignas(64) struct lw__order order;
    struct lw__slab tasks;
    uint64_t bytes, reserve_bytes; /* of what is unfinished, and of that in the reserve */
    uint64_t outside_from;         /* ids from outside: those below this are here, or have been */
    uint64_t resident;             /* bytes of specs that a file has, too */
    struct lw__keys keys;
    const struct lw__task *ending; /* while its successors are put: the task that ends with them */
    struct lw__timer_wheel scheduled; /* tasks that wait for a time */
    struct lw__timer_wheel alarms;
    uint64_t planned;             /* when the sweeper will look again, if nobody hastens it */
    struct lw__task_link telling; /* ended, not told yet */
    uint64_t telling_count;       /* those, and those that are being told; */
    uint64_t telling_bytes;       /* their payloads */
    struct lw__await *awaits[LW__AWAIT_BUCKETS];
    struct lw__task_link releasing; /* ended, their dependents not told yet */
    bool is_releasing;
    struct lw__leases leases;
    struct lw__scopes scopes;
    bool is_unfenced;                     /* in tests only: a move does not wait for what runs */
    struct lw__dependency **dependencies; /* buckets by `on` */
    size_t dependency_buckets, dependency_count;
    _Alignas(64) struct lw__table kinds; /* this and what follows is read for each task, and */
    struct lw__table queues;             /* seldom written */
    uint32_t kind_count, queue_count;
    uint32_t restraints;            /* LW__STORE_NO_... */
    struct lw__kind *short_kinds;   /* kinds with lanes that are withheld; see withhold.c */
    bool is_halted;                 /* outcomes cannot be written: nothing new starts */
    _Atomic int64_t wall_offset_ms; /* wall time minus the clock's, by lw__index_see_wall */
    _Alignas(64) uint64_t scheduled_count, created_count;
    uint64_t existed, swept;
    uint64_t lingering;      /* tasks that are nothing but their key any more */
    int64_t wall_planned_ms; /* the same, when tasks that wait for it were last placed */
    uint64_t wall_count;     /* tasks that wait for a wall time */
    lw_error trouble;        /* why something could not be written or read, the last time */
    uint64_t errors;         /* how often that was so */
    uint64_t committed_at;   /* the last commit, or the open; the clock's */
    uint64_t halted_at;      /* while is_halted: since when */
    uint64_t turn_began_at;  /* since when something is being written; 0: nothing is */
    uint64_t busy_since;     /* since when its transaction is open, on the system's clock: a disk
                                knows no other; 0: none is */
    struct lw__name_table kind_names, queue_names; /* to entries; guarded by both locks */
    struct lw__kind **last_short_kind;
    struct lw__past_kind *past_kinds; /* fixed after open */
    uint32_t past_kind_count;
};

#define LW__SLOW_NS (5 * LW__NS_PER_S) /* a commit that takes longer counts as a halt */

_Static_assert(offsetof(struct lw__index, spares) - offsetof(struct lw__index, mu) == 64
                   && offsetof(struct lw__kind, retained) == 64
                   && offsetof(struct lw__lane, runs[1]) == 64,
               "what each task changes fills a line");

/* ---- index.c ------------------------------------------------------------------------------ */

void lw__index_give_surplus_locked(struct lw__index *index);

/* How soon to look again whether readers have left who kept what was retired: without tasks that
 * come and go nobody else would. */
#define LW__RETIRED_NS (50 * LW__NS_PER_MS)

static inline bool lw__index_has_retired(const struct lw__index *index) {
    return index->grace.old != index->grace.end;
}

/* Under back, before that is given: what was freed can be used again. */
static inline void lw__index_show_spares(struct lw__index *index) {
    if (atomic_load_explicit(&index->spares.end, memory_order_relaxed) != index->spares.filled)
        atomic_store_explicit(&index->spares.end, index->spares.filled, memory_order_release);
}

static inline void lw__index_lock(struct lw__index *index) LW__ACQUIRE(&index->mu) LW__UNCHECKED {
    lw__brief_lock(&index->back);
    lw__brief_lock(&index->mu);
}

static inline void lw__index_unlock(struct lw__index *index) LW__RELEASE(&index->mu) LW__UNCHECKED {
    if (__builtin_expect(index->spares.surplus != NULL, 0))
        lw__index_give_surplus_locked(index);
    lw__index_show_spares(index);
    lw__brief_unlock(&index->mu);
    lw__brief_unlock(&index->back);
}

int lw__index_open(struct lw__index **index, const struct lw__store_ops *ops,
                   const struct lw__store_options *options, lw_error *err);
void lw__index_close(struct lw__store *store);
int lw__index_kind(struct lw__store *store, const char *name, uint16_t *kind);
int lw__index_queue(struct lw__store *store, const char *name, uint16_t *queue);
void lw__index_set_kind(struct lw__store *store, uint16_t kind,
                        const struct lw__kind_options *options);
/* At open, before any kind is there: adds what is known of one that may come. LW_OK, LW_ENOMEM;
 * LW_EFULL: there are LW__PAST_KINDS_MAX. */
int lw__index_add_past_kind(struct lw__index *index, struct lw__past_kind **added);
void lw__kind_set_default_retention(struct lw__retention_settings retention[3]);
void lw__index_set_queue(struct lw__store *store, uint16_t queue, uint32_t weight, uint64_t limit,
                         uint64_t byte_limit);
int lw__index_pause(struct lw__store *store, const char *queue, bool is_paused);

/* By number. Without a lock, too: they live as long as the index. */
static inline struct lw__kind *lw__index_kind_at(const struct lw__index *index, uint32_t number) {
    return lw__table_get(&index->kinds, number);
}

static inline struct lw__queue *lw__index_queue_at(const struct lw__index *index, uint32_t number) {
    return lw__table_get(&index->queues, number);
}

static inline struct lw__kind *lw__index_kind_of(struct lw__index *index,
                                                 const struct lw__task *task) {
    return lw__index_kind_at(index, task->kind);
}

static inline struct lw__queue *lw__index_queue_of(struct lw__index *index,
                                                   const struct lw__task *task) {
    return lw__index_queue_at(index, task->queue);
}

static inline struct lw__queue *lw__index_queue_of_lane(const struct lw__lane *lane) {
    return (struct lw__queue *)(void *)((char *)lane->queue - offsetof(struct lw__queue, order));
}

/* The lane of a kind in a queue; NULL: there is none yet. */
struct lw__lane *lw__index_find_far_lane(const struct lw__queue *queue, uint32_t kind);

static inline struct lw__lane *lw__index_find_lane(const struct lw__queue *queue, uint32_t kind) {
    return __builtin_expect(kind < queue->lane_capacity, 1) ? queue->lanes[kind]
                                                            : lw__index_find_far_lane(queue, kind);
}

/* The same, made if need be; NULL: no memory. */
struct lw__lane *lw__index_lane_locked(struct lw__index *index, uint32_t kind, uint32_t queue);

/* Opens or shuts the lanes of a kind, after its limit or handler has changed. */
void lw__index_review_kind_locked(struct lw__index *index, struct lw__kind *kind);

/* Shuts a lane for these reasons, or opens it, and offers it to others if they may have it. */
void lw__index_shut_lane_locked(struct lw__index *index, struct lw__lane *lane, uint32_t reasons);

/* Whether a kind has as many attempts as it may have. */
static inline bool lw__kind_is_full(const struct lw__kind *kind) {
    return kind->claimed >= kind->concurrency;
}

/* Frees later, when no reader can be looking. A NULL block is fine. Under back. The second: with
 * all its blocks, and at once if nobody can (lw__grace_pass). */
void lw__index_retire_task_locked(struct lw__index *index, struct lw__task *task);
void lw__index_free_whole_locked(struct lw__index *index, struct lw__task *task, bool can_be_seen);
void lw__index_retire_block_locked(struct lw__index *index, void *block, size_t size);

/* A zeroed task with this id (0: the next one), which readers can find, but do not take for one
 * before it has a state. Under mu. NULL: no memory. */
struct lw__task *lw__index_make_task_locked(struct lw__index *index, uint64_t id, uint64_t now);

/* Moves a task (lw__task_move) with its lock taken, and tells the hook. */
void lw__index_move(struct lw__index *index, struct lw__task *task, enum lw__task_event event,
                    uint64_t now);

/* Whether somebody wants to hear of moves. */
static inline bool lw__index_is_heard(const struct lw__index *index) {
    return index->hooks.listeners
               ? atomic_load_explicit(index->hooks.listeners, memory_order_relaxed) > 0
               : index->hooks.moved != NULL;
}

/* The same for one whose lock is held. */
LW__INLINE void lw__index_move_locked(struct lw__index *index, struct lw__task *task,
                                      enum lw__task_event event, uint64_t now) {
    lw_state from = lw__task_move(task, event, now);
    if (__builtin_expect(lw__index_is_heard(index), 0))
        index->hooks.moved(index->hooks.user, task, from, lw__task_state(task), now);
}

/* ---- put.c -------------------------------------------------------------------------------- */

int lw__index_put(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count);
int lw__index_put_locked(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count);

/* What a put would say, and nothing is done: kinds and queues need not have a number yet, nor a
 * kind that gets its first function a handler. */
int lw__index_judge(struct lw__index *index, uint64_t now, struct lw__put *puts, size_t count);

/* Puts an enqueued task into the order; the second for one whose lane is known. */
void lw__index_line_up_locked(struct lw__index *index, struct lw__task *task);
void lw__index_line_up_in_locked(struct lw__index *index, struct lw__lane *lane,
                                 struct lw__task *task);

/* Moves a task to enqueued by the event, and lines it up. */
void lw__index_enqueue_locked(struct lw__index *index, struct lw__task *task,
                              enum lw__task_event event, uint64_t now);

/* Moves a task to scheduled by the event, until `due`. */
void lw__index_schedule_locked(struct lw__index *index, struct lw__task *task,
                               enum lw__task_event event, uint64_t due, uint64_t now);

/* The second half of that, for one that has been moved already. */
void lw__index_place_scheduled_locked(struct lw__index *index, struct lw__task *task, uint64_t due);

/* Says to the sweeper that something is due earlier than it thinks. */
void lw__index_hasten_locked(struct lw__index *index, uint64_t due);

/* The kind and key of a spec that has one. Whoever asks first finds its hash: best before the mutex
 * is taken, and before the spec is anybody else's. */
struct lw__keys_pair lw__index_pair(const struct lw__index *index, uint32_t kind,
                                    struct lw__spec *spec);

/* The task that keeps this key from others; NULL: it is free. A task that ends in this very step
 * (index->ending) counts as ended: its successors may have its key. */
struct lw__task *lw__index_key_holder_locked(struct lw__index *index, const struct lw__put *put,
                                             uint64_t now);

/* From now on the key of this task stands for it. There is room in the table. */
void lw__index_set_key_locked(struct lw__index *index, struct lw__task *task);

/* Whether there is or was a task with this id; one that waits in an outbox is not here yet. */
bool lw__index_has_been_locked(const struct lw__index *index, uint64_t id);

/* Whether something holds a task in `created`. */
bool lw__index_must_wait(const struct lw__task *task);

/* Takes back a task that was put and could not be made durable. Those that came to wait for it do
 * as if it was aborted. */
void lw__index_take_back_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* Its end is not durable yet, and nobody will be called back then: its submitter was told that it
 * may not have been accepted. */
void lw__index_disarm_locked(struct lw__index *index, const struct lw__task *task);

/* Sets the alarm for start_by or finish_by. */
void lw__index_set_limit_locked(struct lw__index *index, struct lw__task *task);

/* ---- room.c ------------------------------------------------------------------------------- */

/* What has ended takes no room, but memory until it was told: if callbacks are slower than drops
 * and cancels nobody but tasks may submit until they have caught up. As many may be untold as
 * unfinished, and this many at least: a small engine is not full because of one callback. */
#define LW__UNTOLD_MIN 1024

static inline bool lw__room_is_untold_locked(const struct lw__index *index) {
    return (index->telling_count >= LW__UNTOLD_MIN
            && index->telling_count >= index->options.task_limit)
           || index->telling_bytes > index->options.byte_limit;
}

/* Whether there is room for one that was not put yet; takes it, whether or not there is; gives it
 * back, if it was taken. */
bool lw__room_is_there_locked(const struct lw__index *index, const struct lw__put *put);
void lw__room_take_locked(struct lw__index *index, struct lw__put *put);
void lw__room_give_back_locked(struct lw__index *index, struct lw__put *put);

/* Aborts what is enqueued in the queues of these puts, those whose status is LW_OK, the first
 * first, until all of them fit; with a journal they do when that is durable. Each queue makes good
 * its own lack, then all of them that of the engine, in the order of the puts. False: aborting all
 * of it would not be enough, and nothing was. Also if it were not enough for those whose keys come
 * free thereby: those lack room next. */
bool lw__room_drop_locked(struct lw__index *index, uint64_t now, struct lw__put *puts,
                          size_t count);
bool lw__room_can_drop_locked(struct lw__index *index, struct lw__put *puts, size_t count);

/* The limit that stands in the way of puts, for a sentence. */
enum lw__room_limit {
    LW__ROOM_IS_THERE,    /* by now */
    LW__ROOM_TASKS,       /* the engine's task_limit */
    LW__ROOM_BYTES,       /* the engine's byte_limit */
    LW__ROOM_OF_QUEUE,    /* the queue's limit */
    LW__ROOM_QUEUE_BYTES, /* the queue's byte_limit */
    LW__ROOM_UNTOLD       /* callbacks are far behind */
};

struct lw__room_lack {
    enum lw__room_limit limit;
    uint64_t used, wanted, most; /* tasks or bytes; wanted > most: there never is room */
    size_t at;                   /* the first put that has no room */
};

/* What the first of these puts that finds no room lacks, if those before it had theirs. */
struct lw__room_lack lw__room_lack(struct lw__index *index, const struct lw__put *puts,
                                   size_t count);

/* For one that was put as taken, and is to be tried again. LW_OK: it can stay; LW_EFULL: there is
 * more than there is room for. The second aborts it, if that is still so. */
int lw__room_stay(struct lw__index *index, uint64_t id);
void lw__room_evict(struct lw__index *index, uint64_t now, uint64_t id);

/* Takes room: LW_OK, LW_EFULL. Gives back the room of a task. */
int lw__index_count_in_locked(struct lw__index *index, struct lw__put *put);
void lw__index_count_out_locked(struct lw__index *index, const struct lw__task *task);

/* Counts a task that came back, whether or not there is room. */
void lw__index_count_restored_locked(struct lw__index *index, const struct lw__task *task);

/* ---- restore.c ---------------------------------------------------------------------------- */

/* A task as a file has kept it. The blocks are taken over. */
struct lw__restored {
    uint64_t id;
    lw_state state;
    uint16_t kind, queue;
    uint32_t priority;
    uint64_t created_at, due_at, started_at, ended_at; /* on the clock */
    uint32_t attempts;
    uint16_t crashes, snoozes;
    uint64_t token;
    bool is_reserved;
    uint64_t scope, generation; /* 0: none; else there is a spec, and the scope was restored */
    bool is_unclean;
    bool is_lean; /* has a spec, that stays in the file; then this is its */
    uint32_t payload_size;
    struct lw__spec *spec;
    struct lw__errors *errors;
    struct lw__output *output;
    const char *holder; /* started: who has it */
    uint64_t lease_until;
    bool is_cancelling;
};

/* Makes a task of it that is in no index, and nobody else's; with its blocks. */
void lw__restored_copy(const struct lw__restored *restored, struct lw__task *copy);

/* LW_OK, LW_ENOMEM. */
int lw__index_restore_locked(struct lw__index *index, const struct lw__restored *restored,
                             uint64_t now);

/* The process that ran this task has died: an attempt is charged to its crash budget. */
void lw__index_charge_locked(struct lw__index *index, uint64_t id, uint64_t now);

/* ---- plain.c ------------------------------------------------------------------------------ */

int lw__index_put_plain(struct lw__store *store, uint64_t now, const struct lw__put *put,
                        uint64_t *id);
void lw__index_claim(struct lw__store *store, uint64_t now, struct lw__claim *claim);
void lw__index_account(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                       uint32_t count);

/* ---- claim.c ------------------------------------------------------------------------------ */

/* The half of a claim that takes; the places of the tasks are left as they are. */
void lw__index_take_locked(struct lw__index *index, struct lw__claim *claim);
void lw__index_unclaim(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                       uint32_t count);

/* The steps of an attempt: step.h has them. */
bool lw__index_begin(struct lw__store *store, struct lw__task *task, uint64_t token, uint64_t now);
bool lw__index_finish(struct lw__store *store, struct lw__task *task, uint64_t now);

/* A claim has ended, whatever became of the task; the second: by a lease. */
void lw__index_disclaim_locked(struct lw__index *index, struct lw__kind *kind, uint32_t count);
void lw__index_count_out_kind_locked(struct lw__index *index, struct lw__kind *kind,
                                     uint32_t count);

/* ---- withhold.c --------------------------------------------------------------------------- */

/* The kind of a lane is full: the lane is withheld. */
void lw__index_withhold_locked(struct lw__index *index, struct lw__lane *lane);

/* Opens lanes of a kind that were withheld: as many as it has places, `count` at most. */
void lw__index_open_withheld_locked(struct lw__index *index, struct lw__kind *kind, uint32_t count);

/* Opens those of a queue whose kinds have a place. */
void lw__index_open_queue_locked(struct lw__index *index, struct lw__queue *queue);

/* Opens a few of any kind that has a place, at each claim. */
void lw__index_open_some_locked(struct lw__index *index);

/* An open lane was emptied, or its queue paused, without a claim: another may have its place. */
static inline void lw__index_pass_place_locked(struct lw__index *index, struct lw__kind *kind) {
    if (kind->withheld)
        lw__index_open_withheld_locked(index, kind, 1);
}

/* ---- settle.c ----------------------------------------------------------------------------- */

void lw__index_settle(struct lw__store *store, uint64_t now, struct lw__settlement *settlements,
                      size_t count);
void lw__index_settle_locked(struct lw__index *index, uint64_t now,
                             struct lw__settlement *settlements, size_t count);
int lw__index_publish(struct lw__store *store, struct lw__task *task, uint64_t token,
                      const struct lw__publication *publication);

/* The same for a task that may have ended, or be gone: LW_ENOTFOUND. LW_PENDING: as LW_OK, but it
 * is asked to give up. */
int lw__index_publish_by_id(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                            const struct lw__publication *publication);

/* ---- end.c -------------------------------------------------------------------------------- */

/* What follows when a task has become terminal: room, key, waiters, dependents, retention. */
void lw__index_end_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* The same, once the end is durable. */
void lw__index_end_durable_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* Aborts a task that does not run: moves it, keeps the reason, and ends it. False: it runs, or has
 * ended; the second asks it to give up then. */
bool lw__index_abort_idle_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                                 const char *reason);
bool lw__index_abort_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                            const char *reason);

/* Asks a started task to give up. */
void lw__index_ask_locked(struct lw__index *index, struct lw__task *task, lw_reason reason);

/* What is to be called for a task that is left unfinished when a store in memory is closed. */
struct lw__left {
    void (*on_end)(void *user, const lw_snapshot *task); /* NULL: nobody */
    void *user;
    void (*on_drop)(void *arg); /* NULL: nobody */
    void *arg;
};

/* Takes that out of an unfinished task: nobody else calls it, not even if the task ends after all.
 * is_last: nobody runs anything; otherwise a task that a worker of this process has is left alone.
 * False: there is nothing to call. */
bool lw__index_take_left(struct lw__index *index, uint64_t id, bool is_last, struct lw__left *left);

/* Takes a task that does not run out of the order, the timers and the dependencies. */
void lw__index_detach_locked(struct lw__index *index, struct lw__task *task);

/* A terminal task leaves; at once, or when those who wait for it have looked. */
void lw__index_leave_locked(struct lw__index *index, struct lw__task *task);
void lw__index_remove_locked(struct lw__index *index, struct lw__task *task);

/* One that only stays for its waiters is a ring of its own. */
static inline void lw__index_pin(struct lw__task *task) {
    task->link.next = task->link.previous = &task->link;
}

static inline bool lw__index_is_pinned(const struct lw__task *task) {
    return lw_state_is_terminal(lw__task_state(task)) && !(lw__task_flags(task) & LW__TASK_LINGERS)
           && task->link.next == &task->link;
}

struct lw__task *lw__index_next_told(struct lw__store *store);
void lw__index_told(struct lw__store *store, uint64_t now, struct lw__task *task);

/* ---- retained.c --------------------------------------------------------------------------- */

static inline void lw__ring_init_links(struct lw__task_link *head) {
    head->next = head->previous = head;
}

void lw__link_append(struct lw__task_link *head, struct lw__task *task);
void lw__link_remove(struct lw__task *task);
struct lw__task *lw__link_first(const struct lw__task_link *head); /* NULL: none */

/* A terminal task is kept for as long as its kind says. */
void lw__retain_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* The same in three steps, for finished ones of one kind. Under back alone: keep each; take out
 * those that have to go, at most `max`, as long as there is nothing left to do but to take them out
 * of the ids and keys, and to free them. Then under both: what the second could not do. */
void lw__retain_plain(struct lw__kind *kind, struct lw__task *const *tasks, uint32_t count);
uint32_t lw__retain_choose(struct lw__kind *kind, uint64_t now, struct lw__task **leaving,
                           uint64_t *ids, uint32_t max);
void lw__retain_rest_locked(struct lw__index *index, struct lw__kind *kind, uint64_t now);

/* One that comes back from a file, where it was retained: in any order, and nothing leaves. Then
 * all of them are put in order. */
void lw__retain_again_locked(struct lw__index *index, struct lw__task *task);
void lw__retained_sort_locked(struct lw__index *index);

/* The settings have changed. */
void lw__retained_review_locked(struct lw__index *index, struct lw__retained *retained,
                                uint64_t now);

/* Takes one out again, to forget or revive it. */
void lw__unretain_locked(struct lw__index *index, struct lw__task *task);

/* Lets those go whose time is over or who are too many; a bounded lot. */
void lw__retained_trim_locked(struct lw__index *index, struct lw__retained *retained, uint64_t now);

/* ---- awaits.c ----------------------------------------------------------------------------- */

int lw__index_await(struct lw__store *store, struct lw__await *await);
void lw__index_unawait(struct lw__store *store, struct lw__await *await);
void lw__index_wake_awaits_locked(struct lw__index *index, uint64_t id);
void lw__index_rouse_awaits(struct lw__index *index); /* all: what they wait for may be in vain */
bool lw__index_is_awaited_locked(const struct lw__index *index, uint64_t id);

/* Notes for whom a task waits; those that have ended are settled at once. False: no memory. */
bool lw__index_depend_locked(struct lw__index *index, struct lw__task *task);

/* One that it waits for did not finish: it is aborted, and says which. */
void lw__index_abort_after_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* Nothing holds the task any more: it can run, or waits for its time. */
void lw__index_release_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* The same for one whose put has become durable, or that comes back from a file: there is nothing
 * to be written of that. was_held: others have held it, too. */
void lw__index_release_put_locked(struct lw__index *index, struct lw__task *task, uint64_t now,
                                  bool was_held);
void lw__index_undepend_locked(struct lw__index *index, struct lw__task *task);
void lw__index_free_dependencies(struct lw__index *index);
void lw__index_release_dependents_locked(struct lw__index *index, const struct lw__task *task,
                                         uint64_t now);

/* ---- blocks.c ----------------------------------------------------------------------------- */

/* All NULL: no memory. */
struct lw__errors *lw__errors_add(const lw_allocator *allocator, const struct lw__errors *old,
                                  uint64_t at, uint32_t attempt, uint32_t fault, const char *text);
/* The same errors, of a task that is retried by hand now. */
struct lw__errors *lw__errors_retry(const lw_allocator *allocator, const struct lw__errors *old,
                                    uint64_t now);
struct lw__output *lw__output_make(const lw_allocator *allocator, const struct lw__output *old,
                                   const struct lw__publication *publication, bool has_result,
                                   lw_bytes result);

/* ---- figures.c ---------------------------------------------------------------------------- */

#define LW__FIGURES_MAX 64 /* copied in one go, while the mutex is held */

struct lw__store_figures {
    uint32_t kind_count, queue_count;
    uint64_t unfinished, bytes, reserve_used; /* now */
    uint64_t existed, swept;                  /* ever */
    uint64_t untold, lingering;               /* now */
    bool is_durable;                          /* there is a journal, and the rest of it counts */
    bool is_halted;
    uint64_t errors, committed_at, pending;
};

void lw__index_figures(struct lw__index *index, struct lw__store_figures *figures);

/* The sentence to a status of the store: what stood in its way, if that is what it means. Returns
 * the status. */
int lw__index_explain_status(struct lw__index *index, int status, lw_error *err);

/* Whether the transaction of a turn is open for longer than LW__SLOW_NS. */
bool lw__index_is_slow_locked(const struct lw__index *index);

/* What stood in its way the last time. Returns whether it still does. A turn that takes long is in
 * its way, too: LW_ESYSTEM, with ETIMEDOUT as the native code. */
bool lw__index_trouble(struct lw__index *index, lw_error *trouble);

/* Of kinds or queues from number `first` on, at most `max` and LW__FIGURES_MAX. Returns how many;
 * 0: there are no more. Names live as long as the store. */
uint32_t lw__index_kind_figures(struct lw__index *index, uint32_t first,
                                struct lw__kind_figures *figures, uint32_t max);
uint32_t lw__index_queue_figures(struct lw__index *index, uint32_t first,
                                 struct lw__queue_figures *figures, uint32_t max);

/* Of the lanes from the cursor on, which begins zeroed and is moved along; *count of them. False:
 * that was all. */
struct lw__lane_cursor {
    uint32_t queue;
    const struct lw__lane *lane; /* of that queue, the last that was told; NULL: none yet */
};

struct lw__lane_figures {
    uint16_t queue, kind;
    uint64_t enqueued;
};

bool lw__index_lane_figures(struct lw__index *index, struct lw__lane_cursor *cursor,
                            struct lw__lane_figures *figures, uint32_t max, uint32_t *count);

/* ---- look.c ------------------------------------------------------------------------------- */

/* What stands between a task and its start, at one moment. */
struct lw__outlook {
    struct lw__task_view view; /* without the blocks */
    uint64_t error_at;         /* of the last error; 0: none */
    uint32_t error_attempt;
    uint32_t after_left;  /* created: tasks that it waits for */
    uint64_t after;       /* the first of them, */
    lw_state after_state; /* and how far that is */
    uint32_t fence_left;  /* created: attempts that the fence of its scope waits for */
    bool has_handler, is_paused;
    bool is_claimed;               /* enqueued, and a worker has it */
    bool is_before_cut;            /* there are even more before it */
    uint32_t concurrency, claimed; /* of its kind */
    uint64_t lease_until;          /* started, by somebody else: until when */
    char holder[LW_NAME_MAX + 1];  /* and who; "": not so */
    uint64_t before;               /* enqueued: runnable tasks of its queue that come first */
    char error[LW_TEXT_MAX + 1];
};

/* The part of it that the task itself tells, with its blocks. */
void lw__index_look_at(const struct lw__task *task, struct lw__outlook *outlook);

/* LW_OK, LW_ENOTFOUND. */
int lw__index_look(struct lw__index *index, uint64_t id, struct lw__outlook *outlook);

/* ---- change.c, sweep.c, find.c ------------------------------------------------------------ */

void lw__index_restrain(struct lw__store *store, uint32_t bits);
bool lw__index_bring_forward(struct lw__store *store, uint64_t now, uint64_t *after);
bool lw__index_is_quiet(struct lw__store *store, bool is_drained_too);
/* The attempt with this token goes on past its hard deadline. False: it has ended. */
bool lw__index_mark_stuck(struct lw__index *index, uint64_t id, uint64_t token);
int lw__index_change(struct lw__store *store, uint64_t now, uint64_t id, enum lw__change change);
int lw__index_change_locked(struct lw__index *index, uint64_t now, uint64_t id,
                            enum lw__change change);

/* Whether the journal has all that became of the task so far. If not, a worker has it that has not
 * accounted for its end yet, or there was no memory. */
bool lw__index_is_noted_locked(const struct lw__index *index, uint64_t id);
uint64_t lw__index_sweep(struct lw__store *store, uint64_t now);

/* A scheduled task does not wait for its time any more. */
void lw__index_run_now_locked(struct lw__index *index, struct lw__task *task, uint64_t now);

/* Looks whether the wall clock was set, and returns wall_offset_ms. Whoever shows or writes wall
 * times calls it first. From any thread, without a lock. */
int64_t lw__index_see_wall(struct lw__index *index);

/* When a task with a run_at is due, by what the wall clock shows now. */
uint64_t lw__index_wall_due_locked(const struct lw__index *index, const struct lw__task *task,
                                   uint64_t now);

/* A task is no longer scheduled: counts only. */
void lw__index_unschedule_locked(struct lw__index *index, struct lw__task *task);

#endif
