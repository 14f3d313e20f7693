/* Grace periods by two epochs.
 *
 * A reader counts itself into the epoch that it sees, and looks again whether that still is the
 * epoch. Both this and the writer's change of epoch followed by its look at the counts are
 * sequentially consistent: so either the writer sees the reader, or the reader sees the change, and
 * tries again. A count of the epoch before can therefore only fall (but for such readers on their
 * way out again), and one look at each stripe is enough to know that all of them have left.
 *
 * The epoch e changes to e + 1 only when no reader of e - 1 is left. What was retired in e may be
 * known to readers of e - 1 and e: the former have left when e + 1 begins, and when the latter have
 * left too it is freed. Readers of e + 1 cannot know it, because it was out of reach before.
 *
 * Tried on paper and dropped: the usual three epochs, of which each reader publishes its own; it
 * needs a registry of threads.
 */
#include "base/grace.h"

#include "base/memory.h"
#include "base/points.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>

enum { CAPACITY_MIN = 64, CAPACITY_KEPT = 1024, CAPACITY_MAX = 1 << 30 };

void lw__grace_init(struct lw__grace *grace, const lw_allocator *allocator,
                    lw__grace_free_fn free_fn, void *user) {
    *grace = (struct lw__grace){.allocator = allocator, .free_fn = free_fn, .user = user};
}

/* ---- readers ---- */

/* Threads are told apart by their address, whose middle bits differ from one to the next. */
static uint32_t choose_stripe(void) {
    uint64_t mixed = (uintptr_t)pthread_self() * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)((mixed >> 40) * LW__GRACE_STRIPES >> 24);
}

uint32_t lw__grace_enter(struct lw__grace *grace) {
    uint32_t stripe = choose_stripe();
    for (;;) {
        uint32_t epoch = atomic_load_explicit(&grace->epoch, memory_order_relaxed);
        LW__POINT("grace.enter");
        atomic_fetch_add(&grace->stripes[stripe].readers[epoch & 1], 1);
        if (atomic_load(&grace->epoch) == epoch)
            return stripe << 1 | (epoch & 1);
        atomic_fetch_sub(&grace->stripes[stripe].readers[epoch & 1], 1);
    }
}

void lw__grace_leave(struct lw__grace *grace, uint32_t ticket) {
    assert(ticket < 2 * LW__GRACE_STRIPES);
    _Atomic uint32_t *readers = &grace->stripes[ticket >> 1].readers[ticket & 1];
    uint32_t before = atomic_fetch_sub_explicit(readers, 1, memory_order_release);
    assert(before > 0);
    (void)before;
}

/* ---- turning the epoch ---- */

static uint32_t current_epoch(struct lw__grace *grace) {
    return atomic_load_explicit(&grace->epoch, memory_order_relaxed);
}

static bool has_readers(struct lw__grace *grace, uint32_t epoch) {
    for (int i = 0; i < LW__GRACE_STRIPES; i++)
        if (atomic_load(&grace->stripes[i].readers[epoch & 1]) > 0)
            return true;
    return false;
}

static void free_until(struct lw__grace *grace, uint32_t end) {
    /* By distance: if free_fn retires and that has to wait, more is freed meanwhile. */
    while ((int32_t)(end - grace->old) > 0) {
        struct lw__grace_item item = grace->items[grace->old++ & (grace->capacity - 1)];
        grace->free_fn(grace->user, item.ptr, item.detail);
    }
}

/* Begins the next epoch if the readers of the one before have left, and frees what only they could
 * know. */
static bool turn_epoch(struct lw__grace *grace) {
    uint32_t epoch = current_epoch(grace);
    if (has_readers(grace, epoch - 1))
        return false;
    uint32_t end = grace->young;
    grace->young = grace->end;
    LW__POINT("grace.turn");
    atomic_store(&grace->epoch, epoch + 1);
    free_until(grace, end);
    return true;
}

/* Until all that are inside now have left: those of the epoch before, then those of this one. */
static void wait_for_readers(struct lw__grace *grace) {
    for (int turns = 0; turns < 2;)
        if (turn_epoch(grace))
            turns++;
        else
            sched_yield();
}

void lw__grace_free(struct lw__grace *grace) {
    assert(!has_readers(grace, 0) && !has_readers(grace, 1));
    while (grace->old != grace->end)
        turn_epoch(grace);
    lw__free(grace->allocator, grace->items, grace->capacity * sizeof *grace->items);
    grace->items = NULL;
    grace->capacity = 0;
}

/* ---- what was retired ---- */

static uint32_t retired_count(const struct lw__grace *grace) {
    return grace->end - grace->old;
}

static bool grow(struct lw__grace *grace, uint32_t count) {
    uint64_t wanted = (uint64_t)retired_count(grace) + count;
    uint64_t capacity = grace->capacity > 0 ? grace->capacity : CAPACITY_MIN;
    while (capacity < wanted)
        capacity *= 2;
    if (capacity > CAPACITY_MAX)
        return false;
    struct lw__grace_item *items = lw__alloc(grace->allocator, capacity * sizeof *items);
    if (items == NULL)
        return false;
    for (uint32_t i = grace->old; i != grace->end; i++)
        items[i & (capacity - 1)] = grace->items[i & (grace->capacity - 1)];
    lw__free(grace->allocator, grace->items, grace->capacity * sizeof *items);
    grace->items = items;
    grace->capacity = (uint32_t)capacity;
    return true;
}

bool lw__grace_reserve(struct lw__grace *grace, uint32_t count) {
    return grace->capacity - retired_count(grace) >= count || grow(grace, count);
}

void lw__grace_retire(struct lw__grace *grace, void *ptr, uintptr_t detail) {
    if (lw__grace_reserve(grace, 1)) {
        grace->items[grace->end++ & (grace->capacity - 1)] = (struct lw__grace_item){ptr, detail};
        return;
    }
    wait_for_readers(grace);
    grace->free_fn(grace->user, ptr, detail);
}

/* After a reader that stayed for long, when `count` were retired. The ring is empty, so that
 * nothing in it moves. */
static void shrink(struct lw__grace *grace, uint32_t count) {
    if (grace->old != grace->end || grace->capacity <= CAPACITY_KEPT
        || count >= grace->capacity / 8)
        return;
    size_t size = grace->capacity * sizeof *grace->items;
    struct lw__grace_item *items = lw__resize(grace->allocator, grace->items, size, size / 2);
    if (items == NULL)
        return;
    grace->items = items;
    grace->capacity /= 2;
}

void lw__grace_collect(struct lw__grace *grace) {
    uint32_t count = retired_count(grace);
    if (count == 0)
        return;
    while (grace->old != grace->end && turn_epoch(grace)) {
    }
    shrink(grace, count);
}

/* Whoever is inside after both turns came after the first of them, and so after what was before. */
bool lw__grace_pass(struct lw__grace *grace) {
    uint32_t count = retired_count(grace);
    bool has_passed = turn_epoch(grace) && turn_epoch(grace);
    shrink(grace, count);
    return has_passed;
}
