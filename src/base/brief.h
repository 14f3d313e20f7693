/* A lock for what is held briefly and wanted by everybody: the store's. A thread that has to wait
 * spins for longer than the longest hold, and then sleeps, for the holder must have been preempted.
 * (Measured on two cores: waking a sleeper costs 40 µs, the longest hold is some 5; with a pthread
 * mutex, even an adaptive one, the engine spent most of its time in futex. Fifty yields before the
 * sleep cost up to a third on a crowded machine, E1x4 131 ns instead of 99, E2 727 instead of 519:
 * a yield asks to be put behind all neighbours.)
 */
#ifndef LW_BASE_BRIEF_H
#define LW_BASE_BRIEF_H

#include "base/mutex.h"

#include <stdatomic.h>
#include <stdint.h>

/* Zeroed memory is one that is free. */
struct LW__CAPABILITY lw__brief {
    _Atomic uint32_t word; /* 0: free, 1: held, 2: held, and somebody sleeps */
};

void lw__brief_wait(struct lw__brief *lock); /* the slow half of a lock: takes it */
void lw__brief_wake(struct lw__brief *lock); /* the slow half of an unlock */

static inline void lw__brief_lock(struct lw__brief *lock) LW__ACQUIRE(lock) LW__UNCHECKED {
    uint32_t free = 0;
    if (__builtin_expect(!atomic_compare_exchange_strong_explicit(
                             &lock->word, &free, 1, memory_order_acquire, memory_order_relaxed),
                         0))
        lw__brief_wait(lock);
}

static inline void lw__brief_unlock(struct lw__brief *lock) LW__RELEASE(lock) LW__UNCHECKED {
    if (__builtin_expect(atomic_exchange_explicit(&lock->word, 0, memory_order_release) == 2, 0))
        lw__brief_wake(lock);
}

#endif
