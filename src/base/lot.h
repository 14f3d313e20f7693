/* A parking lot: the one way in which threads of Legwork sleep until another thread has something
 * for them.
 *
 * It is an eventcount that knows its sleepers, so that a wake can choose the newest (idle workers:
 * the warm one works, the cold ones get old and quit) or the oldest (blocked submitters: first
 * come, first served). Its use:
 *
 *     sleeper                                  waker
 *     lw__lot_enter(lot, &me);                 make the condition true;
 *     if (condition)                           if (lw__lot_count(lot) > 0)
 *         lw__lot_leave(lot, &me);                 lw__lot_wake_newest(lot);
 *     else
 *         lw__lot_wait(lot, &me, ...);
 *
 * No wake-up is lost as long as both conditions are read with memory_order_seq_cst after the step
 * above them: either the sleeper sees the condition or the waker sees the sleeper. models/park.pml
 * checks the pool's use of it. A wake is addressed: a sleeper that was chosen has been woken, even
 * if it changes its mind at that moment.
 */
#ifndef LW_BASE_LOT_H
#define LW_BASE_LOT_H

#include "base/clock.h"
#include "base/mutex.h"

#include <stdatomic.h>
#include <stdbool.h>

/* One sleeper; usually on its own stack. Zero it before the first use. */
struct lw__waiter {
    _Atomic uint32_t is_woken;
    struct lw__waiter *newer, *older; /* guarded by the lot's mu */
    bool is_listed;                   /* guarded by the lot's mu */
};

struct lw__lot {
    struct lw__mutex mu;
    struct lw__waiter *newest, *oldest; /* guarded by mu */
    _Atomic uint32_t count;             /* written under mu, read by anybody */
};

void lw__lot_init(struct lw__lot *lot);
void lw__lot_free(struct lw__lot *lot);

/* Announces that the caller is about to sleep; look at the condition after this. */
void lw__lot_enter(struct lw__lot *lot, struct lw__waiter *me);

/* The same, for one that was woken in vain: it keeps its turn as the oldest. */
void lw__lot_enter_again(struct lw__lot *lot, struct lw__waiter *me);

/* Takes the announcement back. False: a wake had been given to the caller already, who now has to
 * act on it. */
bool lw__lot_leave(struct lw__lot *lot, struct lw__waiter *me);

/* Sleeps until woken or the deadline. True: woken. False: the time ran out, and the caller has left
 * the lot. */
bool lw__lot_wait(struct lw__lot *lot, struct lw__waiter *me, lw_clock *clock, uint64_t deadline);

/* Wakes one. False: nobody slept. */
bool lw__lot_wake_newest(struct lw__lot *lot);
bool lw__lot_wake_oldest(struct lw__lot *lot);

/* Wakes this one, if it is in the lot. */
void lw__lot_wake_this(struct lw__lot *lot, struct lw__waiter *w);

/* Wakes everyone who sleeps now. */
void lw__lot_wake_all(struct lw__lot *lot);

static inline uint32_t lw__lot_count(struct lw__lot *lot) {
    return atomic_load_explicit(&lot->count, memory_order_seq_cst);
}

#endif
