/* Time as a handle: what o'clock it is, and how to wait for a moment.
 *
 * Reading and waiting belong together: a clock that a test holds still must also hold still whoever
 * sleeps on it. So every timed wait of Legwork is a wait on a 32-bit word (a futex) with a deadline
 * on a clock.
 */
#ifndef LW_BASE_CLOCK_H
#define LW_BASE_CLOCK_H

#include <legwork/runtime.h>
#include <stdatomic.h>

/* A deadline that never comes. */
#define LW__NEVER UINT64_MAX

/* What all clocks show when they begin, the system's when it has booted: some 73 years. What
 * happened before, as a file tells it, has its place on the clock as well; without that it would
 * all have happened at the boot. */
#define LW__CLOCK_BASE (UINT64_C(2300000000) * LW__NS_PER_S)

#define LW__NS_PER_US UINT64_C(1000)
#define LW__NS_PER_MS UINT64_C(1000000)
#define LW__NS_PER_S UINT64_C(1000000000)

struct lw_clock {
    /* Nanoseconds since some fixed moment, at least LW__CLOCK_BASE; never goes back. */
    uint64_t (*now)(lw_clock *clock);
    /* Sleeps while *word is `seen`, until somebody wakes the word or the deadline has come. May
     * return early for no reason: callers look at their condition again. */
    void (*wait)(lw_clock *clock, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline);
    /* Milliseconds since 1970, for people and for times given as such. Goes back when it is set:
     * never reckon how long something took from it. */
    int64_t (*wall_ms)(lw_clock *clock);
    /* Wall time minus now; NULL: it is found by looking at both. */
    int64_t (*offset_ms)(lw_clock *clock);
    bool is_real; /* time passes by itself */
};

/* The system's clocks: the monotonic one, and the one on the wall. */
lw_clock *lw__clock_system(void);

/* How long the calling thread has run on a processor, in ns: the kernel's count, at the price of a
 * system call. */
uint64_t lw__thread_cpu_ns(void);

static inline uint64_t lw__now(lw_clock *clock) {
    return clock->now(clock);
}

static inline int64_t lw__wall_ms(lw_clock *clock) {
    return clock->wall_ms(clock);
}

/* Wall time minus the clock's, of one moment: the thread may lose its core between the two looks,
 * and then it looks again. */
int64_t lw__wall_offset_ms(lw_clock *clock);

/* The moment `ms` from now; -1 (and anything negative) is never. Saturates instead of wrapping. */
uint64_t lw__deadline_in(lw_clock *clock, int64_t ms);

/* Moves a test clock on to this moment, or up to a ms past it. False: it cannot go that far. */
bool lw__test_clock_reach(lw_clock *clock, uint64_t moment);

#endif
