/* The order of what is runnable: which task is next.
 *
 * Within a queue: priority (smaller first), then due time, then id. Lanes that are shut (their kind
 * is at its limit, has no handler, or the queue is paused) are skipped. Queues take turns by
 * weight.
 *
 *     order ── its queues that have something ready, and whose turn it is (stride scheduling)
 *       queue ── a heap of its ready lanes, by the key of their first task
 *         lane = one kind in one queue ── up to 4 runs, and a heap
 *           run = tasks of one priority in rising order (due, id), an array in blocks
 *
 * Nearly all tasks come in order, so they are appended to the run of their priority and taken from
 * its front: an array, so that taking 64 tasks from a lane reads 8 cache lines and none of the
 * tasks. What comes out of order (a timer that fired late, a fifth priority) goes to the lane's
 * heap. Removing from the middle leaves a hole; a block without tasks is freed, wherever it is, but
 * for a few that are kept.
 *
 * Turns: a queue's pass grows by 1 / weight with each turn, and so says how much it has had for its
 * weight; the order's pass grows by 1 / (weights of all that are active), as that of a queue would
 * that had exactly its share. Of the queues that are not ahead of it the one comes next whose pass
 * would be smallest after its turn. That keeps every queue within one turn of its share at any
 * time. (The plain rule, smallest pass first, lets heavy queues run ahead by as many turns as there
 * are light ones.) A queue that was away starts at the order's pass.
 *
 * A lane is ready when it is not empty and not shut. The owner shuts and opens lanes.
 *
 * What somebody else may claim comes from lanes that are shut, and offered: queues and kinds each
 * have a heap of theirs, and the order one of the queues that have some, all by the key of the
 * first task. So a claim looks at what it can have, and at nothing else.
 *
 * Threads: under the owner's lock.
 */
#ifndef LW_STORE_ORDER_H
#define LW_STORE_ORDER_H

#include "store/heap.h"
#include "store/run.h"
#include "store/task.h"

#include <legwork/runtime.h>

#define LW__LANE_RUNS 4 /* priorities of a lane that have a run of their own */
#define LW__ORDER_WEIGHT_MAX 1000
#define LW__ORDER_TURN (UINT64_C(1) << 40) /* what a turn costs a queue of weight 1 */
#define LW__NOWHERE UINT32_MAX             /* an index: not in there */

/* What a lane, a queue and the order change for each task stands first in them, so that it is one
 * cache line each where the owner aligns them: whoever takes the lock on another core has to fetch
 * it. */
struct lw__lane {
    struct lw__order_queue *queue; /* fixed */
    size_t count;
    uint32_t ready_index; /* in queue->ready, or LW__NOWHERE */
    uint32_t run_count;
    struct lw__run runs[LW__LANE_RUNS]; /* by priority, none of them empty */
    void *kind;                         /* fixed: the owner's */
    struct lw__lane *next_of_queue;     /* fixed */
    struct lw__lane *next_of_kind;      /* the owner's: lanes of the same kind */
    uint32_t shut; /* reasons why nothing is taken from it: bits, the owner's */
    bool is_offered;
    uint32_t offer_index[2];    /* in `offers`, or LW__NOWHERE */
    struct lw__heap *offers[2]; /* fixed: its queue's, its kind's */
    /* the owner's: while it is withheld, in lists of its kind and of its queue */
    struct lw__lane *next_withheld, **withheld_link;
    struct lw__lane *next_in_queue, **in_queue_link;
    struct lw__heap heap;
    struct lw__task *strays, *last_stray; /* a list in order: those for which there was no memory */
};

struct lw__order_queue {
    size_t count;    /* tasks in all of its lanes, shut ones included */
    uint64_t pass;   /* what it has had, while active; wraps around */
    uint64_t stride; /* what a turn costs: 1 / weight */
    uint32_t weight;
    uint32_t active_index; /* among the eligible or waiting ones; LW__NOWHERE: nothing ready */
    struct lw__lane *lanes;
    uint32_t lane_count;
    bool is_waiting;         /* while active; see turns.h */
    bool is_interrupted;     /* while not: a shut lane has tasks, and it comes back for them */
    struct lw__heap ready;   /* lanes. While there is one only, its key is not kept up to date */
    struct lw__heap offered; /* lanes */
    uint32_t offer_index;    /* in order->offering, or LW__NOWHERE: nothing offered */
};

/* What the order knows of a kind. Zeroed: it has no lanes. */
struct lw__order_kind {
    struct lw__heap offered; /* lanes */
    uint32_t lane_count;
};

struct lw__order {
    size_t count;          /* tasks in all lanes */
    size_t ready_count;    /* tasks in lanes that are ready: 0 means nothing can be taken */
    uint64_t stride, pass; /* 1 / active_weight; what a queue with exactly its share has had */
    struct lw__order_queue **eligible;     /* queues with something ready; see turns.h */
    uint32_t eligible_count, active_count; /* these, and with those that wait */
    struct lw__run_block *spare;           /* empty blocks, for all lanes */
    uint32_t spare_count;
    uint32_t active_weight; /* of all active queues together */
    struct lw__order_queue **waiting;
    uint32_t active_capacity, queue_count;
    uint64_t looks;           /* comparisons of queues so far: what turns cost, for tests */
    struct lw__heap offering; /* queues with something offered, by their first task */
    size_t bytes;             /* of all blocks, heaps and the lists of what is ready */
    const lw_allocator *allocator;
};

void lw__order_init(struct lw__order *order, const lw_allocator *allocator);

/* The queue, the lane and the kind are the owner's memory, zeroed. False: no memory. Lanes and
 * queues are only ever added; a new one makes sure that later calls find room among the ready
 * ones. */
bool lw__order_add_queue(struct lw__order *order, struct lw__order_queue *queue, uint32_t weight);
bool lw__order_add_lane(struct lw__order *order, struct lw__order_queue *queue,
                        struct lw__lane *lane, void *kind, struct lw__order_kind *order_kind);

/* From 1 to LW__ORDER_WEIGHT_MAX. The queue starts afresh, with neither debt nor credit. */
void lw__order_set_weight(struct lw__order *order, struct lw__order_queue *queue, uint32_t weight);

/* At the end: lanes before their queue, the order last, and no other call in between. Tasks that
 * are still in there are not touched. What is zeroed and was never added may be freed, too. */
void lw__order_free_lane(struct lw__order *order, struct lw__lane *lane);
void lw__order_free_queue(struct lw__order *order, struct lw__order_queue *queue);
void lw__order_free_kind(struct lw__order *order, struct lw__order_kind *kind);
void lw__order_free(struct lw__order *order);

/* Makes sure that `count` inserts into the lane, at any place, will not need memory, until
 * something is taken or removed from it. False: there is none. For whoever would rather refuse a
 * task than crawl. */
bool lw__order_reserve(struct lw__order *order, struct lw__lane *lane, size_t count);

/* Adds a task by its priority, due_at and id, and sets its place. Cannot fail: without memory
 * the task is chained in order to others of that fate, which takes a walk along them, until
 * there is some again. */
void lw__order_insert(struct lw__order *order, struct lw__lane *lane, struct lw__task *task);

/* Takes a task out, wherever it stands. Its place.lane is NULL then. */
void lw__order_remove(struct lw__order *order, struct lw__task *task);

/* Says why nothing may be taken from the lane; 0: nothing stands in the way. */
void lw__order_shut(struct lw__order *order, struct lw__lane *lane, uint32_t reasons);

/* Says whether somebody else may have what is in the lane, which is shut. */
void lw__order_offer(struct lw__order *order, struct lw__lane *lane, bool is_offered);

/* The offered lane whose first task comes before all others: of a queue or kind, of all. NULL:
 * there is none. */
struct lw__lane *lw__offers_first(const struct lw__heap *offers, bool is_of_kind);
struct lw__lane *lw__order_first_offered(const struct lw__order *order);

/* One of them, in no order, from 0 to offers->count - 1; one of the queues that have some, from 0
 * to order->offering.count - 1. */
struct lw__lane *lw__offers_at(const struct lw__heap *offers, bool is_of_kind, uint32_t at);
struct lw__order_queue *lw__order_offering_at(const struct lw__order *order, uint32_t at);

/* The lane that is next, NULL if none is ready; the first task of a lane, NULL if it is empty. */
struct lw__lane *lw__order_next(const struct lw__order *order);
struct lw__task *lw__lane_first(const struct lw__lane *lane);

/* Takes up to max tasks from the front of the lane that is next, as long as it stays the next
 * one. Returns how many, 0: nothing is ready. *lane is where they came from. Nothing is read or
 * written of a task that comes from a run with no rival in its queue (another ready lane, or the
 * heap, with a task of that priority or a smaller one): it would wait for memory at each of them.
 * The second, before anybody looks at the tasks, says that they are nowhere. */
uint32_t lw__order_take(struct lw__order *order, struct lw__task **tasks, uint32_t max,
                        struct lw__lane **lane);

static inline void lw__order_forget(struct lw__task *const *tasks, uint32_t count) {
    for (uint32_t i = 0; i < count; i++)
        tasks[i]->place = (struct lw__place){0};
}

/* The first by key of all tasks of a queue, shut lanes included; NULL: none. For LW_DROP_OLDEST. */
struct lw__task *lw__order_oldest(const struct lw__order_queue *queue);

/* Calls `each` for every task of the lane, in no order, until it returns false; nothing may be
 * changed meanwhile. False: it was cut short. */
bool lw__order_each(const struct lw__lane *lane, bool (*each)(void *user, struct lw__task *task),
                    void *user);

#endif
