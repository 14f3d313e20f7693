/* The journal: what the index tells whoever makes it durable, and what waits until that is done.
 *
 * The index is changed first, in memory and under its mutex; each change of a task is noted here.
 * The pump (db/pump.h) takes what was noted, writes all of it in one transaction, and comes back:
 *
 *     put      the task is `created` and unsaved until it is durable; only then can it run
 *     change   a retry, a snooze: goes on at once; if it is lost, so is that attempt's count
 *     publish  what a running attempt says about itself; the last words of a turn only
 *     lease    somebody else runs it, and until when; unlease: no more. If the latter is lost, it
 *              is made up for when the store is opened again. A lease beside the put of its task
 *              is taken back with that
 *     end      what follows from an end (room, key, waiters, dependents, callbacks) waits until it
 *              is durable; readers may see the state a little earlier
 *     revive   retried by hand: from the history to the tasks
 *     leave    a terminal task leaves the history
 *     scope    a scope as it was when it was changed; scope_leave: it is gone
 *     kind     its retention is another one than it was, or than the default
 *
 * All that was noted under one hold of the mutex is written in one transaction: an end and its
 * successors, a batch of puts, a scope and what was put with its change.
 *
 * What cannot be written is refused (puts) or stays first in line (all else). A put stays, too, if
 * something relies on it that stays: a successor or a row of the outbox that found its key taken by
 * this put, or that comes after it. Its submitter is told LW_EUNSURE then. What there is no
 * memory to note is marked at its task or scope, and looked for before the next turn; only the
 * leave of a task and a kind are forgotten then, and made up for when the store is opened again.
 *
 * Threads: under the index's mutex.
 */
#ifndef LW_STORE_JOURNAL_H
#define LW_STORE_JOURNAL_H

#include "store/store.h"
#include "store/task.h"

#include <legwork/runtime.h>

struct lw__index;

enum lw__journal_op {
    LW__JOURNAL_NONE,
    LW__JOURNAL_PUT,
    LW__JOURNAL_THEN, /* a put that stands or falls with what is noted beside it: a successor's */
    LW__JOURNAL_CHANGE,
    LW__JOURNAL_PUBLISH,
    LW__JOURNAL_LEASE,
    LW__JOURNAL_END,
    LW__JOURNAL_REVIVE,
    LW__JOURNAL_LEAVE,
    LW__JOURNAL_UNLEASE, /* with what ended the lease */
    LW__JOURNAL_VOID,    /* a put that was refused, although it may have been written */
    LW__JOURNAL_SCOPE,
    LW__JOURNAL_SCOPE_LEAVE,
    LW__JOURNAL_KIND
};

/* A scope at one moment. */
struct lw__scope_image {
    size_t size; /* of this block */
    uint64_t id, generation, version;
    bool is_closed, is_unclean, has_lost;
    size_t name_size, byte_count;
    char name[]; /* with a zero; then its bytes */
};

/* What a kind retains, at one moment. */
struct lw__kind_image {
    const char *name; /* the kind's */
    struct lw__retention_settings retention[3];
};

struct lw__journal_entry {
    enum lw__journal_op op;
    bool is_held;    /* a put: others hold it as well */
    bool is_unclean; /* a put into a scope: a generation before it has lost an attempt */
    uint64_t id;
    union {
        struct lw__task *task;         /* NULL for a leave and a void: it is gone */
        struct lw__scope_image *image; /* of a scope; the entry's own */
        struct lw__kind_image *kind;   /* the entry's own */
    };
};

/* Bits of lw__task.notes. (There is always memory to note a put: whoever puts has reserved it.) */
#define LW__NOTE_LOST_REVIVE 0x01u /* there was no memory to note it */
#define LW__NOTE_LOST_CHANGE 0x02u
#define LW__NOTE_LOST_END 0x04u
#define LW__NOTE_LOST 0x07u
#define LW__NOTE_VOID 0x08u   /* its put is being taken back */
#define LW__NOTE_CHANGE 0x10u /* is in the batch that is being collected: once is enough */
#define LW__NOTE_PUBLISH 0x20u
#define LW__NOTE_LEASE 0x40u
#define LW__NOTE_DONE 0x80u /* its attempt was completed in a transaction of its own */

_Static_assert(LW__NOTE_LOST_REVIVE + LW__NOTE_LOST_CHANGE + LW__NOTE_LOST_END == LW__NOTE_LOST
                   && LW__NOTE_LOST + LW__NOTE_VOID + LW__NOTE_CHANGE + LW__NOTE_PUBLISH
                              + LW__NOTE_LEASE + LW__NOTE_DONE
                          == UINT8_MAX,
               "each has a bit of its own");

/* Who waits until what it did is durable; on its stack, unless it wants to be called. */
struct lw__journal_wait {
    uint64_t turn; /* it waits for this one */
    int status;    /* LW_OK, or why it is not durable */
    _Atomic uint32_t is_over;
    struct lw__journal_wait *next, **link;
    uint64_t take;                 /* how often the journal had been taken when it was announced */
    size_t entry_begin, entry_end; /* where its puts are noted, as long as they are not taken */
    /* Instead of that: called on the store's thread with no lock held, and then the wait is its
     * own. NULL: nobody is called */
    void (*over)(struct lw__journal_wait *wait);
    uint64_t id;                  /* for `over`: what was put or has ended, */
    int put_status;               /* LW_OK or LW_EXISTS */
    uint64_t first_put, last_put; /* the ids of the tasks that were put with it; 0: none */
    bool has_stayed;              /* the turn has failed, and these were not taken back */
};

struct lw__journal_batch {
    struct lw__journal_entry *entries;
    size_t count, capacity;
    size_t void_count; /* of the entries: LW__JOURNAL_NONE, their puts were withdrawn */
    struct lw__journal_wait *waits;
    uint32_t sleeper_count; /* of the waits: those that nobody calls */
};

struct lw__journal {
    /* fixed after open */
    const lw_allocator *allocator;
    void (*call)(void *user); /* something was noted; under the mutex */
    void *user;
    /* guarded by the index's mutex */
    struct lw__journal_batch batch;    /* what is being collected */
    uint64_t number;                   /* of its turn */
    uint64_t take;                     /* how often what was collected was taken away */
    uint64_t pending;                  /* entries that are not durable yet */
    bool has_lost_notes;               /* there was no memory for one: they have to be looked for */
    bool has_marks;                    /* LW__NOTE_CHANGE or _PUBLISH, at some tasks of it */
    bool has_needed_puts;              /* some puts that are not durable yet are needed */
    struct lw__journal_wait *for_ends; /* who waits for an end, or for a lost note, that is not
                                        * noted yet */
    /* atomic */
    _Atomic uint32_t told[2]; /* rises when a turn of even, or odd, number is over: slept on */
};

void lw__journal_init(struct lw__journal *journal, const lw_allocator *allocator,
                      void (*call)(void *user), void *user);
void lw__journal_free(struct lw__journal *journal);

/* Makes sure that the next `count` notes have room. False: no memory. */
bool lw__journal_reserve(struct lw__journal *journal, size_t count);

void lw__journal_note(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task);

/* Takes the image over, which may be filled until the mutex is released, or called off. There is
 * room for it. */
void lw__journal_note_scope(struct lw__journal *journal, struct lw__scope_image *image);
void lw__journal_cancel_scope(struct lw__journal *journal, const struct lw__scope_image *image);
void lw__journal_note_scope_leave(struct lw__journal *journal, uint64_t id);
void lw__journal_note_kind(struct lw__journal *journal, const char *name,
                           const struct lw__retention_settings retention[3]);

/* Takes back what was noted since the batch had `count` entries: puts of tasks that were withdrawn,
 * under the same hold of the mutex. */
void lw__journal_undo(struct lw__journal *journal, size_t count);

/* The caller is woken when all that it has noted under this hold of the mutex is durable, or is
 * not. */
void lw__journal_await_locked(struct lw__journal *journal, struct lw__journal_wait *wait);

/* The wait is of these puts, which were accepted under this hold of the mutex. */
void lw__journal_await_puts_locked(struct lw__journal *journal, struct lw__journal_wait *wait,
                                   const struct lw__put *puts, size_t count);

/* Something that is never taken back relies on this task: neither is its put, from now on. True: it
 * is not durable yet, and was not needed before. */
bool lw__journal_need(struct lw__journal *journal, struct lw__task *task);

/* Likewise, on all tasks that this one comes after. True: some of them were not needed before. */
bool lw__journal_need_before(struct lw__index *index, const struct lw__task *task);

/* Whether the end of a terminal task is noted, or durable: whatever is noted from now on is written
 * with it or after it. The state has to be looked at first: UNSAVED is set before it (step.h). If
 * not, its worker still has the task, or there was no memory to note it. */
static inline bool lw__journal_has_end(const struct lw__task *task) {
    /* Of a task that is saved the bit was never set: other fields share its bytes. */
    return !(lw__task_flags(task) & LW__TASK_UNSAVED) || task->is_end_noted;
}

/* wait->over is called when all of the task wait->id that could not be noted yet, its end for
 * instance, is durable, or is not. */
void lw__journal_await_end_locked(struct lw__journal *journal, struct lw__journal_wait *wait);

/* Takes what was collected, behind what `batch` has already. What could not be noted is looked for
 * before. False: there is nothing, or no memory to add it to what is there. */
bool lw__journal_take_locked(struct lw__index *index, struct lw__journal_batch *batch);

/* What comes from now on is of another turn. */
void lw__journal_close_locked(struct lw__journal *journal);

/* A batch is durable: lets its effects go. It is empty then, but for its waits. */
void lw__journal_flush_locked(struct lw__index *index, struct lw__journal_batch *batch,
                              uint64_t now);

/* A batch is not durable. Its puts are taken back, and those that were noted since: they would have
 * to wait behind it. Everything else of it stays in it, to be written again before anything new,
 * and so do puts that are needed, with all that were put in one step with them; these have no
 * callback any more.
 * is_unsure: it may be durable after all; what was taken back is removed then. All that wait for
 * either batch are in `batch` then, to be told. */
void lw__journal_fail_locked(struct lw__index *index, struct lw__journal_batch *batch,
                             bool is_unsure, uint64_t now);

/* Whether what the wait is for was not taken into a turn yet. */
static inline bool lw__journal_is_collected_locked(const struct lw__journal *journal,
                                                   const struct lw__journal_wait *wait) {
    return wait->take == journal->take;
}

/* Takes puts back that were noted together with this wait and are still being collected. Nobody is
 * told of the wait any more. Costs as much as was noted with it, whatever else was noted, unless
 * one of them has ended meanwhile. */
void lw__journal_withdraw_locked(struct lw__index *index, struct lw__journal_wait *wait,
                                 const struct lw__put *puts, size_t count, uint64_t now);

/* After the mutex was released: tells those who wait. One system call wakes all that sleep (one for
 * each took the pump 3 µs, and let each of them take its processor away). */
void lw__journal_tell(struct lw__journal *journal, struct lw__journal_batch *batch, int status);

/* Sleeps until it is told. */
void lw__journal_sleep(struct lw__journal *journal, struct lw__journal_wait *wait);

void lw__journal_free_batch(struct lw__journal *journal, struct lw__journal_batch *batch);

#endif
