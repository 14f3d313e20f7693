/* The journal: what the index tells whoever makes it durable, and what waits until that is done.
 *
 * The index is changed first, in memory and under its mutex; each change of a task is noted here.
 * The pump (db/pump.h) takes what was noted, writes all of it in one transaction, and comes back:
 *
 *     put      the task is `created` and unsaved until it is durable; only then can it run
 *     change   a retry, a snooze: goes on at once; if it is lost, so is that attempt's count
 *     end      what follows from an end (room, key, waiters, dependents, callbacks) waits until it
 *              is durable; readers may see the state a little earlier
 *     revive   retried by hand: from the history to the tasks
 *     leave    a terminal task leaves the history
 *
 * All that was noted under one hold of the mutex is written in one transaction: an end and its
 * successors, a batch of puts.
 *
 * Threads: under the index's mutex.
 */
#ifndef LW_STORE_JOURNAL_H
#define LW_STORE_JOURNAL_H

#include "store/task.h"

#include <legwork/runtime.h>

struct lw__index;

enum lw__journal_op {
    LW__JOURNAL_PUT,
    LW__JOURNAL_THEN, /* the put of a successor: it stands or falls with the end before it */
    LW__JOURNAL_CHANGE,
    LW__JOURNAL_END,
    LW__JOURNAL_REVIVE,
    LW__JOURNAL_LEAVE
};

struct lw__journal_entry {
    enum lw__journal_op op;
    uint64_t id;
    struct lw__task *task; /* NULL for a leave: it is gone */
};

/* Who waits until what it did is durable; on its stack. */
struct lw__journal_wait {
    uint64_t batch;           /* it is in this one */
    int status;               /* LW_OK, or why it is not durable */
    _Atomic uint32_t is_over; /* to be waited for */
    struct lw__journal_wait *next;
};

struct lw__journal_batch {
    struct lw__journal_entry *entries;
    size_t count, capacity;
    struct lw__journal_wait *waits;
};

struct lw__journal {
    /* fixed after open */
    const lw_allocator *allocator;
    void (*call)(void *user); /* something was noted; under the mutex */
    void *user;
    /* guarded by the index's mutex */
    struct lw__journal_batch batch; /* what is being collected */
    uint64_t number;                /* of it */
    bool is_flushing;               /* effects are being let go: ends are not noted again */
    uint64_t pending;               /* entries that are not durable yet */
    bool has_lost_notes; /* there was no memory for one: all unsaved tasks have to be looked for */
};

void lw__journal_init(struct lw__journal *journal, const lw_allocator *allocator,
                      void (*call)(void *user), void *user);
void lw__journal_free(struct lw__journal *journal);

/* Makes sure that the next `count` notes have room. False: no memory. */
bool lw__journal_reserve(struct lw__journal *journal, size_t count);

void lw__journal_note(struct lw__journal *journal, enum lw__journal_op op, struct lw__task *task);

/* The caller is woken when all that it has noted under this hold of the mutex is durable, or is
 * not. */
void lw__journal_await_locked(struct lw__journal *journal, struct lw__journal_wait *wait);

/* Takes what was collected, and begins a new batch with the memory of `empty`. */
void lw__journal_take_locked(struct lw__journal *journal, struct lw__journal_batch *empty);

/* A batch is durable: lets its effects go. */
void lw__journal_flush_locked(struct lw__index *index, struct lw__journal_batch *batch,
                              uint64_t now);

/* It is not, and will not be: takes the puts back. Everything else stays noted for the next
 * batch. */
void lw__journal_fail_locked(struct lw__index *index, struct lw__journal_batch *batch,
                             uint64_t now);

/* After the mutex was released: tells those who wait. */
void lw__journal_tell(struct lw__journal_batch *batch, int status);

#endif
