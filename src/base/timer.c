/* A hierarchical timer wheel.
 *
 * A tick is a number of 48 bits, read as 8 digits of 6 bits. A timer is kept at the level of the
 * highest digit in which its tick differs from the base, in the slot that this digit names. So all
 * slots lie ahead of the base, the lowest level that has any timers has the earliest, and there it
 * is the lowest slot: two steps through bitmaps. On level 0 a slot is one tick. When the time of a
 * slot on a higher level comes, the base moves to its start and its timers go to lower levels.
 * Between two such moments the base may follow the clock without touching anything: it stays below
 * all slots.
 *
 * Emptying a slot is done in portions, for there may be a million timers in it while somebody waits
 * for the lock. It comes before all else, since what is left in the slot may be due before what has
 * left.
 *
 * To walk through a ring means to wait for memory at each step, as the next address is known only
 * when a timer is there. A slot has four rings that are walked in turns: then four loads are under
 * way at once. The price is the order within a tick.
 *
 * Measured with a million timers, random times within 1 s | 1 h, ns each (a Xeon with 2 MiB of L2;
 * "scattered": timers are picked in random order from 40 MB):
 *
 *                          set   scattered   cancel   scattered       fire
 *     this wheel          8-10       30-55    10-25       15-30   90 | 150
 *     one ring per slot   8-10       25-55     7-16       12-35  250 | 310
 *     four-ary heap      10-13       14-30    20-33       35-65  280 | 280
 *
 * The heap also needs 24 bytes for each timer that is set, and may not get them.
 */
#include "base/timer.h"

#include <assert.h>

/* The most timers that one call moves to lower levels. */
enum { PORTION = 512 };

enum { SLOTS = LW__TIMER_SLOTS, BITS = LW__TIMER_LEVEL_BITS, STRANDS = LW__TIMER_STRANDS };

/* Rounded up: never early. */
static uint64_t tick_of_due(uint64_t ns) {
    return ns / LW__TIMER_TICK_NS + (ns % LW__TIMER_TICK_NS != 0);
}

static unsigned slot_of(uint64_t tick, uint64_t base_tick) {
    unsigned highest_bit = 63 - (unsigned)__builtin_clzll((tick ^ base_tick) | 1);
    unsigned level = highest_bit / BITS;
    unsigned digit = (unsigned)(tick >> level * BITS) % SLOTS;
    return level * SLOTS + digit;
}

static bool is_empty(const struct lw__timer_slot *slot) {
    for (unsigned i = 0; i < STRANDS; i++)
        if (slot->strands[i].next != &slot->strands[i])
            return false;
    return true;
}

/* Puts a timer into the slot of its tick. */
static void link_timer(struct lw__timer_wheel *wheel, struct lw__timer *timer) {
    unsigned slot = slot_of(timer->tick, wheel->base_tick);
    struct lw__timer_link *head = &wheel->slots[slot].strands[wheel->strand_in++ % STRANDS];
    struct lw__timer_link *last = head->prev;
    timer->link = (struct lw__timer_link){.next = head, .prev = last};
    last->next = head->prev = &timer->link;
    wheel->occupied[slot / SLOTS] |= UINT64_C(1) << slot % SLOTS;
}

static void unlink_timer(struct lw__timer_wheel *wheel, struct lw__timer *timer) {
    struct lw__timer_link *next = timer->link.next, *prev = timer->link.prev;
    prev->next = next;
    next->prev = prev;
    timer->link.next = NULL;
    if (next != prev)
        return;
    /* Only the head of the ring is left, and so it tells which slot it was. */
    size_t slot = (size_t)((char *)next - (char *)wheel->slots) / sizeof *wheel->slots;
    if (is_empty(&wheel->slots[slot]))
        wheel->occupied[slot / SLOTS] &= ~(UINT64_C(1) << slot % SLOTS);
}

void lw__timer_init(struct lw__timer_wheel *wheel, uint64_t now_ns) {
    *wheel = (struct lw__timer_wheel){.base_tick = now_ns / LW__TIMER_TICK_NS};
    for (unsigned slot = 0; slot < LW__TIMER_LEVELS * SLOTS; slot++)
        for (unsigned i = 0; i < STRANDS; i++) {
            struct lw__timer_link *head = &wheel->slots[slot].strands[i];
            head->next = head->prev = head;
        }
}

void lw__timer_set(struct lw__timer_wheel *wheel, struct lw__timer *timer, uint64_t due_ns) {
    uint64_t tick = tick_of_due(due_ns);
    assert(!lw__timer_is_set(timer));
    timer->tick = tick > wheel->base_tick ? tick : wheel->base_tick;
    link_timer(wheel, timer);
    wheel->count++;
}

bool lw__timer_cancel(struct lw__timer_wheel *wheel, struct lw__timer *timer) {
    if (!lw__timer_is_set(timer))
        return false;
    unlink_timer(wheel, timer);
    wheel->count--;
    return true;
}

/* The slot whose turn is next, and the tick at which it is; there must be a timer. */
static unsigned first_slot(const struct lw__timer_wheel *wheel, uint64_t *tick) {
    unsigned level = 0;
    if (wheel->emptying != 0) {
        *tick = wheel->base_tick;
        return wheel->emptying;
    }
    while (wheel->occupied[level] == 0)
        level++;
    unsigned digit = (unsigned)__builtin_ctzll(wheel->occupied[level]);
    uint64_t digits_above = wheel->base_tick >> level * BITS >> BITS;
    *tick = (digits_above << BITS | digit) << level * BITS;
    return level * SLOTS + digit;
}

/* A timer of the slot, of each ring in turn; NULL if it is empty. */
static struct lw__timer *next_timer(struct lw__timer_wheel *wheel, unsigned slot) {
    for (unsigned i = 0; i < STRANDS; i++) {
        const struct lw__timer_link *head =
            &wheel->slots[slot].strands[wheel->strand_out++ % STRANDS];
        if (head->next != head)
            return LW__TIMER_OWNER(head->next, struct lw__timer, link);
    }
    return NULL;
}

/* Moves the timers of a slot to lower levels, as many as the portion allows. Returns whether the
 * slot is empty now. */
static bool empty_slot(struct lw__timer_wheel *wheel, unsigned slot, int *portion) {
    struct lw__timer *timer;
    wheel->emptying = slot;
    while ((timer = next_timer(wheel, slot)) != NULL) {
        if ((*portion)-- == 0)
            return false;
        unlink_timer(wheel, timer);
        link_timer(wheel, timer);
    }
    wheel->emptying = 0;
    return true;
}

struct lw__timer *lw__timer_pop(struct lw__timer_wheel *wheel, uint64_t now_ns) {
    uint64_t now_tick = now_ns / LW__TIMER_TICK_NS, tick;
    int portion = PORTION;

    while (wheel->count > 0) {
        unsigned slot = first_slot(wheel, &tick);
        if (tick > now_tick)
            break;
        wheel->base_tick = tick;
        if (slot < SLOTS) {
            struct lw__timer *timer = next_timer(wheel, slot);
            lw__timer_cancel(wheel, timer);
            return timer;
        }
        if (!empty_slot(wheel, slot, &portion))
            return NULL;
    }
    if (wheel->count == 0)
        wheel->emptying = 0; /* the last timers in it were cancelled */
    if (now_tick > wheel->base_tick)
        wheel->base_tick = now_tick; /* so that what is set next is on a low level */
    return NULL;
}

uint64_t lw__timer_next_due(const struct lw__timer_wheel *wheel) {
    uint64_t tick;
    if (wheel->count == 0)
        return UINT64_MAX;
    first_slot(wheel, &tick);
    return tick <= UINT64_MAX / LW__TIMER_TICK_NS ? tick * LW__TIMER_TICK_NS : UINT64_MAX;
}
