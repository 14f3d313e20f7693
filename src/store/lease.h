/* Leases: attempts that somebody else runs, for a time. What they are for stands in store.h
 * (lease, extend); this is how they are kept.
 *
 * A leased task is `started` like one that a worker has, counts for its kind, and is settled in the
 * same way; only that nobody here waits for it, and that the sweep settles it when its time is
 * over.
 * Readers find a lease by the id of its task, inside a grace section: it is the task's present one
 * if it has its token.
 *
 * A holder hears of its lease, and of an extension, when that is durable: its time begins then, and
 * it cannot run out before. While nothing can be written no holder can be heard either, so no lease
 * runs out: when that is over, a lease whose time has passed, or is about to, begins once more. It
 * does so once: a holder that says nothing in that time, either, is gone.
 *
 * Threads: under the index's mutex, but for the find.
 */
#ifndef LW_STORE_LEASE_H
#define LW_STORE_LEASE_H

#include "store/ids.h"
#include "store/store.h"

struct lw__lease {
    struct lw__alarm alarm; /* at its end */
    struct lw__task *task;  /* fixed, like id, token, size and holder */
    uint64_t id, token;
    _Atomic uint64_t until;
    uint64_t length;   /* what it was asked for, in ns; guarded by mu, like the flags */
    bool is_unwritten; /* its claim or extension is not durable: it has no alarm */
    bool is_put_off;   /* its time is over, but nothing could be written: it has no alarm */
    bool has_grace;    /* it got a second time for that, and its holder has said nothing since */
    bool is_returned;  /* its holder gave it back before the put of its task was durable */
    size_t size;       /* of this block */
    char holder[];
};

struct lw__leases {
    struct lw__ids ids;     /* of tasks, to leases; its nodes are retired with those of the tasks */
    _Atomic uint64_t count; /* written under the mutex */
    uint64_t put_off;       /* of these: is_put_off; guarded by mu */
};

struct lw__index;

void lw__leases_init(struct lw__index *index);
void lw__leases_free(struct lw__index *index);

/* NULL: nobody else has the task. Inside a grace section, or under the mutex. */
struct lw__lease *lw__lease_find(const struct lw__index *index, uint64_t id);

/* The lease that a task has according to the file; its kind is counted. False: no memory, and
 * nothing has changed. */
bool lw__lease_add_locked(struct lw__index *index, struct lw__task *task, uint64_t token,
                          uint64_t now, uint64_t until, const char *holder);

/* Leases a task that is being put to put->holder, and sets put->token. False: somebody else comes
 * first, or it cannot run now; nothing has changed, and it is to be enqueued. */
bool lw__lease_put_locked(struct lw__index *index, struct lw__task *task, struct lw__put *put,
                          uint64_t now);

/* The put of its task is taken back: as if it had never been leased, in the file as well. */
void lw__lease_take_back_locked(struct lw__index *index, struct lw__lease *lease);

/* Its time is over: it can be neither settled nor extended, and the sweep takes it back soon. */
bool lw__lease_is_over_locked(const struct lw__index *index, const struct lw__lease *lease,
                              uint64_t now);

/* The put of this task is durable: if its lease was returned before that, anybody can have it. */
void lw__lease_put_written_locked(struct lw__index *index, const struct lw__task *task,
                                  uint64_t now);

/* The last note of this task's lease is durable: its time begins. */
void lw__lease_written_locked(struct lw__index *index, const struct lw__task *task, uint64_t now);

/* A turn was written. has_stalled: after a time in which nothing could be. */
void lw__leases_go_on_locked(struct lw__index *index, uint64_t now, bool has_stalled);

/* The attempt was settled. The task may be gone, unless there is a journal. */
void lw__lease_drop_locked(struct lw__index *index, struct lw__lease *lease);

/* The sweep's: its time is over, perhaps. */
void lw__lease_ring_locked(struct lw__index *index, struct lw__lease *lease, uint64_t now);

/* Says that the queue has something to claim, if the lane has. */
void lw__lease_announce_locked(struct lw__index *index, const struct lw__lane *lane);

/* The same of all of them. */
void lw__lease_announce_all_locked(struct lw__index *index);

int lw__index_lease(struct lw__store *store, uint64_t now, struct lw__lease_claim *claim);

/* Gives tasks back that nobody has heard of, as if they had never been leased. */
void lw__index_unlease(struct lw__store *store, uint64_t now, const struct lw__lease_claim *claim);

int lw__index_extend(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                     uint64_t until);

#endif
