/* Timers: millions of moments to come, set and cancelled in O(1) and without an allocation.
 *
 * A timer is 24 bytes inside whatever waits. Its owner, one thread that sleeps, runs a loop:
 *
 *     now = clock;
 *     lock;   while ((timer = lw__timer_pop(&wheel, now))) collect it;
 *             due = lw__timer_next_due(&wheel);   unlock;
 *     do what was collected;
 *     if (due > now) sleep until due, or until a timer is set that is due earlier;
 *
 * What is promised:
 * - Never early. Times are rounded up to a tick of 1 ms, so that a timer fires less than a tick
 *   after its time, plus whatever the owner is late.
 * - In order of their ticks; within a tick in no order. A time that has passed counts as the
 *   earliest tick that there still is.
 * - Nothing to do while nothing is due: there is no tick to follow. Whoever waits for a far moment
 *   wakes the owner at most 7 times on the way, 4 times within 4 hours.
 * - Any time can be set, up to the end of the clock in 584 years, and the clock may jump ahead by
 *   any step: what that costs depends on the number of timers that fire, not on the step.
 *
 * Threads: not safe; the caller locks, and no call holds it up for much longer than 0.1 ms.
 */
#ifndef LW_BASE_TIMER_H
#define LW_BASE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LW__TIMER_TICK_NS UINT64_C(1000000)
#define LW__TIMER_LEVELS 8
#define LW__TIMER_LEVEL_BITS 6
#define LW__TIMER_SLOTS (1 << LW__TIMER_LEVEL_BITS) /* per level */
#define LW__TIMER_STRANDS 4

struct lw__timer_link {
    struct lw__timer_link *next, *prev;
};

/* Embedded by what waits; zeroed memory is a timer that is not set. It must not move while set. */
struct lw__timer {
    struct lw__timer_link link; /* next is NULL while not set */
    uint64_t tick;
};

/* The timers of one slot, spread over rings whose heads these are. */
struct lw__timer_slot {
    struct lw__timer_link strands[LW__TIMER_STRANDS];
};

/* All guarded by the caller's lock. */
struct lw__timer_wheel {
    uint64_t base_tick;                  /* levels count from here; nothing is set earlier */
    size_t count;                        /* timers that are set */
    unsigned emptying;                   /* the slot whose timers go to lower levels; 0: none */
    unsigned strand_in, strand_out;      /* whose turn it is to get and to give a timer */
    uint64_t occupied[LW__TIMER_LEVELS]; /* a bit for each slot that has timers */
    struct lw__timer_slot slots[LW__TIMER_LEVELS * LW__TIMER_SLOTS];
};

/* Makes an empty wheel of 32 KiB, which needs no freeing and must not move. now_ns and all other
 * times are of the same clock, which never goes back. */
void lw__timer_init(struct lw__timer_wheel *wheel, uint64_t now_ns);

/* Sets a timer that is not set. Cannot fail. If lw__timer_next_due is earlier than it was, the
 * owner has to be woken. */
void lw__timer_set(struct lw__timer_wheel *wheel, struct lw__timer *timer, uint64_t due_ns);

/* Takes a timer back. Returns false if it is not set: it never was, or was popped. */
bool lw__timer_cancel(struct lw__timer_wheel *wheel, struct lw__timer *timer);

static inline bool lw__timer_is_set(const struct lw__timer *timer) {
    return timer->link.next != NULL;
}

/* Takes out the first timer whose time has come at now_ns; it may be set again at once. NULL if
 * there is none, or if it would take too long to find it: lw__timer_next_due is then not later than
 * now_ns, and one calls again after letting others have the lock. */
struct lw__timer *lw__timer_pop(struct lw__timer_wheel *wheel, uint64_t now_ns);

/* When lw__timer_pop has something to do next: at the earliest timer's tick, or before, to sort
 * timers that are far away. UINT64_MAX if no timer is set. */
uint64_t lw__timer_next_due(const struct lw__timer_wheel *wheel);

/* What embeds a timer: LW__TIMER_OWNER(timer, struct task, timer_member). */
#define LW__TIMER_OWNER(timer, type, member) \
    ((type *)(void *)((char *)(timer)-offsetof(type, member)))

#endif
