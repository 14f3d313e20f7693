/* An expectation: somebody will look, up to a moment.
 *
 * A thread that was woken, or spins, will look for work; but it may not be running, and beside busy
 * neighbours it can take milliseconds until it is. So others rely on it for a while, and then wake
 * another. pool/attention.c says why, and how no wake-up is lost; the engine does the same with its
 * tokens (engine/attention.c).
 *
 *     who waits for work                     who brings some
 *     show that it looks (a count);          make it visible;
 *     lw__expect_none(e);                    if nobody looks and lw__expect_is_overdue(e, now):
 *     look                                       wake somebody; if there is nobody to wake:
 *                                                lw__expect_none(e), and look from the beginning
 */
#ifndef LW_BASE_EXPECT_H
#define LW_BASE_EXPECT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* How long a thread that was woken is relied on: about twice what a wake-up takes on a virtual
 * machine. */
#define LW__EXPECT_NS 50000

struct lw__expect {
    _Atomic uint64_t until; /* 0: nobody is expected */
};

static inline void lw__expect_until(struct lw__expect *e, uint64_t until) {
    atomic_store(&e->until, until);
}

static inline void lw__expect_none(struct lw__expect *e) {
    if (atomic_load_explicit(&e->until, memory_order_relaxed) != 0)
        atomic_store(&e->until, 0);
}

/* True: nobody is expected, or it has taken too long. From now on somebody is expected whom the
 * caller has to wake. */
static inline bool lw__expect_is_overdue(struct lw__expect *e, uint64_t now) {
    uint64_t until = atomic_load(&e->until);
    return until <= now && atomic_compare_exchange_strong(&e->until, &until, now + LW__EXPECT_NS);
}

#endif
