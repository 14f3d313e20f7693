/* Whose turn it is: the queues of an order that have something ready, by weight (order.h says by
 * which rule). A turn takes as many steps as the logarithm of their number; queues that have
 * nothing ready are not looked at.
 *
 *     eligible   queues whose pass is not ahead of the order's: a heap by what it would be after
 *                their turn
 *     waiting    the others: a heap by their pass. The order's pass only ever grows, and those that
 *                it reaches become eligible
 *
 * Threads: under the owner's lock.
 */
#ifndef LW_STORE_TURNS_H
#define LW_STORE_TURNS_H

#include "store/order.h"

/* Passes wrap around; those of active queues are never far apart. */
static inline bool lw__pass_is_ahead(uint64_t pass, uint64_t of) {
    return (int64_t)(pass - of) > 0;
}

/* Room for one more queue. False: no memory. */
bool lw__turns_reserve(struct lw__order *order);
void lw__turns_free(struct lw__order *order);

/* The queue has something ready from now on, or no more. */
void lw__turns_enter(struct lw__order *order, struct lw__order_queue *queue);
void lw__turns_leave(struct lw__order *order, struct lw__order_queue *queue);

/* Puts a queue that was charged into its place, and others that the order's pass has reached. */
void lw__turns_settle(struct lw__order *order, struct lw__order_queue *queue);

/* NULL: none has anything ready. All may be waiting, when one that had less than its share has
 * left. */
static inline struct lw__order_queue *lw__turns_next(const struct lw__order *order) {
    return order->eligible_count > 0 ? order->eligible[0]
           : order->active_count > 0 ? order->waiting[0]
                                     : NULL;
}

static inline void lw__turns_charge(struct lw__order *order, struct lw__order_queue *queue,
                                    uint32_t turns) {
    if (lw__pass_is_ahead(queue->pass, order->pass))
        order->pass = queue->pass;
    queue->pass += turns * queue->stride;
    order->pass += turns * order->stride;
    if (__builtin_expect(order->active_count > 1, 0))
        lw__turns_settle(order, queue);
}

#endif
