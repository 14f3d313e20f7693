#include "base/brief.h"

#include "base/clock.h"
#include "base/futex.h"

#define LOOKS 24      /* some 10 microseconds */
#define PAUSES_MAX 16 /* between two looks: each one takes the line away from who has it */

static bool try_lock(struct lw__brief *lock) {
    uint32_t free = 0;
    return atomic_load_explicit(&lock->word, memory_order_relaxed) == 0
           && atomic_compare_exchange_weak_explicit(&lock->word, &free, 1, memory_order_acquire,
                                                    memory_order_relaxed);
}

void lw__brief_wait(struct lw__brief *lock) {
    for (int i = 0, pauses = 1; i < LOOKS;
         i++, pauses = pauses < PAUSES_MAX ? pauses * 2 : pauses) {
        for (int j = 0; j < pauses; j++)
            lw__spin_pause();
        if (try_lock(lock))
            return;
    }
    /* Whoever sleeps takes it as 2: it cannot know whether it was the only one. */
    while (atomic_exchange_explicit(&lock->word, 2, memory_order_acquire) != 0)
        lw__futex_wait(&lock->word, 2, LW__NEVER);
}

void lw__brief_wake(struct lw__brief *lock) {
    lw__futex_wake(&lock->word, 1);
}
