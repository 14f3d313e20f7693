/* The parking lot: a list of sleepers under a mutex, each asleep on a word of its own. */
#include "base/lot.h"

#include "base/futex.h"

#include <stddef.h>

void lw__lot_init(struct lw__lot *lot) {
    lw__mutex_init(&lot->mu);
    lot->newest = lot->oldest = NULL;
    atomic_init(&lot->count, 0);
}

void lw__lot_free(struct lw__lot *lot) {
    lw__mutex_free(&lot->mu);
}

static void unlist_locked(struct lw__lot *lot, struct lw__waiter *w) {
    *(w->newer ? &w->newer->older : &lot->newest) = w->older;
    *(w->older ? &w->older->newer : &lot->oldest) = w->newer;
    w->newer = w->older = NULL;
    w->is_listed = false;
    atomic_fetch_sub(&lot->count, 1);
}

static void list_locked(struct lw__lot *lot, struct lw__waiter *me) {
    atomic_store_explicit(&me->is_woken, 0, memory_order_relaxed);
    me->is_listed = true;
    atomic_fetch_add(&lot->count, 1);
}

void lw__lot_enter(struct lw__lot *lot, struct lw__waiter *me) {
    lw__mutex_lock(&lot->mu);
    me->newer = NULL;
    me->older = lot->newest;
    *(lot->newest ? &lot->newest->newer : &lot->oldest) = me;
    lot->newest = me;
    list_locked(lot, me);
    lw__mutex_unlock(&lot->mu);
}

void lw__lot_enter_again(struct lw__lot *lot, struct lw__waiter *me) {
    lw__mutex_lock(&lot->mu);
    me->older = NULL;
    me->newer = lot->oldest;
    *(lot->oldest ? &lot->oldest->older : &lot->newest) = me;
    lot->oldest = me;
    list_locked(lot, me);
    lw__mutex_unlock(&lot->mu);
}

bool lw__lot_leave(struct lw__lot *lot, struct lw__waiter *me) {
    lw__mutex_lock(&lot->mu);
    bool was_listed = me->is_listed;
    if (was_listed)
        unlist_locked(lot, me);
    lw__mutex_unlock(&lot->mu);
    return was_listed;
}

bool lw__lot_wait(struct lw__lot *lot, struct lw__waiter *me, lw_clock *clock, uint64_t deadline) {
    while (atomic_load_explicit(&me->is_woken, memory_order_acquire) == 0) {
        if (deadline != LW__NEVER && lw__now(clock) >= deadline)
            return !lw__lot_leave(lot, me);
        clock->wait(clock, &me->is_woken, 0, deadline);
    }
    return true;
}

/* Takes a sleeper out and marks it woken, both under the lock: a mark that came later could fall on
 * its next sleep. From then on it may return, and its stack frame be gone: what follows the lock
 * uses only the address of the word, never what stands there. */
static _Atomic uint32_t *choose_locked(struct lw__lot *lot, struct lw__waiter *w) {
    unlist_locked(lot, w);
    atomic_store_explicit(&w->is_woken, 1, memory_order_release);
    return &w->is_woken;
}

static bool wake_one(struct lw__lot *lot, bool is_newest) {
    lw__mutex_lock(&lot->mu);
    struct lw__waiter *w = is_newest ? lot->newest : lot->oldest;
    _Atomic uint32_t *word = w ? choose_locked(lot, w) : NULL;
    lw__mutex_unlock(&lot->mu);
    if (word)
        lw__futex_wake(word, 1);
    return word != NULL;
}

bool lw__lot_wake_newest(struct lw__lot *lot) {
    return wake_one(lot, true);
}

bool lw__lot_wake_oldest(struct lw__lot *lot) {
    return wake_one(lot, false);
}

void lw__lot_wake_this(struct lw__lot *lot, struct lw__waiter *w) {
    lw__mutex_lock(&lot->mu);
    _Atomic uint32_t *word = w->is_listed ? choose_locked(lot, w) : NULL;
    lw__mutex_unlock(&lot->mu);
    if (word)
        lw__futex_wake(word, 1);
}

void lw__lot_wake_all(struct lw__lot *lot) {
    for (uint32_t count = lw__lot_count(lot); count > 0 && lw__lot_wake_oldest(lot); count--)
        ;
}
