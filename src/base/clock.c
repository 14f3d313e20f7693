/* The system's clock: CLOCK_MONOTONIC, plus LW__CLOCK_BASE, and futex waits with absolute deadlines
 * on it; and CLOCK_REALTIME for the time of day. */
#include "base/clock.h"

#include "base/futex.h"

#include <time.h>

static uint64_t system_now(lw_clock *clock) {
    (void)clock;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return LW__CLOCK_BASE + (uint64_t)t.tv_sec * LW__NS_PER_S + (uint64_t)t.tv_nsec;
}

static void system_wait(lw_clock *clock, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline) {
    (void)clock;
    lw__futex_wait(word, seen, deadline);
}

static int64_t system_wall_ms(lw_clock *clock) {
    (void)clock;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + (int64_t)((uint64_t)t.tv_nsec / LW__NS_PER_MS);
}

#define OFFSET_LOOKS 16
#define OFFSET_GAP_NS 200000 /* between two looks; it is good enough then */

static int64_t coarse_ns(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * (int64_t)LW__NS_PER_S + t.tv_nsec;
}

/* The kernel sets both coarse clocks with its tick, at once. Every snapshot asks: they are read
 * without a look at the processor's counter, which waits for all loads before it (a snapshot took
 * 650 ns with three looks at the exact clocks, 500 like this). */
static int64_t system_offset_ms(lw_clock *clock) {
    (void)clock;
    int64_t before, offset;
    int looks = OFFSET_LOOKS;
    do {
        before = coarse_ns(CLOCK_MONOTONIC_COARSE);
        offset = coarse_ns(CLOCK_REALTIME_COARSE) - before;
    } while (coarse_ns(CLOCK_MONOTONIC_COARSE) != before && --looks > 0);
    return offset / (int64_t)LW__NS_PER_MS - (int64_t)(LW__CLOCK_BASE / LW__NS_PER_MS);
}

lw_clock *lw__clock_system(void) {
    static lw_clock clock = {.now = system_now,
                             .wait = system_wait,
                             .wall_ms = system_wall_ms,
                             .offset_ms = system_offset_ms,
                             .is_real = true}; /* never written */
    return &clock;
}

uint64_t lw__thread_cpu_ns(void) {
    struct timespec t = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * LW__NS_PER_S + (uint64_t)t.tv_nsec;
}

static int64_t find_offset_ms(lw_clock *clock) {
    uint64_t least = LW__NEVER;
    int64_t offset = 0;
    for (int i = 0; i < OFFSET_LOOKS && least > OFFSET_GAP_NS; i++) {
        uint64_t before = lw__now(clock);
        int64_t wall = lw__wall_ms(clock);
        uint64_t gap = lw__now(clock) - before;
        if (gap >= least)
            continue;
        least = gap;
        offset = wall - (int64_t)((before + gap / 2) / LW__NS_PER_MS);
    }
    return offset;
}

int64_t lw__wall_offset_ms(lw_clock *clock) {
    return clock->offset_ms ? clock->offset_ms(clock) : find_offset_ms(clock);
}

uint64_t lw__deadline_in(lw_clock *clock, int64_t ms) {
    if (ms < 0)
        return LW__NEVER;
    uint64_t now = lw__now(clock), ns = (uint64_t)ms * LW__NS_PER_MS;
    bool is_too_far = (uint64_t)ms > LW__NEVER / LW__NS_PER_MS || ns > LW__NEVER - now;
    return is_too_far ? LW__NEVER : now + ns;
}
