/* The clock that a test holds: time stands still until lw_test_clock_advance.
 *
 * Who waits for a time is on a list. An advance wakes those whose time has come, again and again
 * until each of them has left the list: a wake that falls between a sleeper's last look and its
 * sleep would otherwise be lost. So when an advance returns, everyone it concerns is awake.
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "base/mutex.h"

#include <legwork/testing.h>
#include <sched.h>

#define NOW_FIRST (LW__CLOCK_BASE + LW__NS_PER_S)
#define NOW_MAX (LW__CLOCK_BASE + LW__NEVER / 2) /* three centuries; a timeout more does not wrap */
#define WALL_FIRST INT64_C(946684800000)         /* 2000-01-01T00:00:00Z */
#define WALL_SET_MAX INT64_C(253402300799999)    /* the end of 9999 */

struct sleeper {
    _Atomic uint32_t *word;
    uint64_t deadline;
    struct sleeper *next;
};

struct test_clock {
    lw_clock base;
    _Atomic uint64_t now;
    _Atomic int64_t wall_base; /* what the wall clock would have shown at NOW_FIRST */
    struct lw__mutex mu;
    struct sleeper *sleepers;         /* guarded by mu */
    _Atomic uint32_t sleeper_count;   /* written under mu */
    _Atomic uint32_t sleeper_changes; /* what lw_test_clock_await_sleepers sleeps on */
};

static uint64_t test_now(lw_clock *clock) {
    return atomic_load(&((struct test_clock *)clock)->now);
}

static void test_wait_until(struct test_clock *clock, _Atomic uint32_t *word, uint32_t seen,
                            uint64_t deadline) {
    struct sleeper me = {.word = word, .deadline = deadline};
    lw__mutex_lock(&clock->mu);
    bool is_due = atomic_load(&clock->now) >= deadline;
    if (!is_due) {
        me.next = clock->sleepers;
        clock->sleepers = &me;
        atomic_fetch_add(&clock->sleeper_count, 1);
        atomic_fetch_add(&clock->sleeper_changes, 1);
    }
    lw__mutex_unlock(&clock->mu);
    if (is_due)
        return;
    lw__futex_wake(&clock->sleeper_changes, INT32_MAX);
    lw__futex_wait(word, seen, LW__NEVER);

    lw__mutex_lock(&clock->mu);
    struct sleeper **link = &clock->sleepers;
    while (*link != &me)
        link = &(*link)->next;
    *link = me.next;
    atomic_fetch_sub(&clock->sleeper_count, 1);
    lw__mutex_unlock(&clock->mu);
}

static void test_wait(lw_clock *base, _Atomic uint32_t *word, uint32_t seen, uint64_t deadline) {
    if (deadline == LW__NEVER)
        lw__futex_wait(word, seen, LW__NEVER);
    else
        test_wait_until((struct test_clock *)base, word, seen, deadline);
}

static int64_t elapsed_ms(struct test_clock *clock) {
    return (int64_t)((atomic_load(&clock->now) - NOW_FIRST) / LW__NS_PER_MS);
}

static int64_t test_wall_ms(lw_clock *base) {
    struct test_clock *clock = (struct test_clock *)base;
    return atomic_load(&clock->wall_base) + elapsed_ms(clock);
}

int lw_test_clock_set_wall(lw_clock *base, int64_t unix_ms) {
    struct test_clock *clock = (struct test_clock *)base;
    if (!clock || clock->base.is_real || unix_ms < 0 || unix_ms > WALL_SET_MAX)
        return LW_EINVAL;
    atomic_store(&clock->wall_base, unix_ms - elapsed_ms(clock));
    return LW_OK;
}

int lw_test_clock_open(lw_clock **out) {
    if (!out)
        return LW_EINVAL;
    *out = NULL;
    struct test_clock *clock = lw__alloc_zero(NULL, sizeof *clock);
    if (!clock)
        return LW_ENOMEM;
    clock->base.now = test_now;
    clock->base.wait = test_wait;
    clock->base.wall_ms = test_wall_ms;
    atomic_init(&clock->now, NOW_FIRST);
    atomic_init(&clock->wall_base, WALL_FIRST);
    lw__mutex_init(&clock->mu);
    *out = &clock->base;
    return LW_OK;
}

/* Wakes whoever is due; true while one of them is still on the list. */
static bool wake_due(struct test_clock *clock) {
    bool is_any_due = false;
    uint64_t now = atomic_load(&clock->now);
    lw__mutex_lock(&clock->mu);
    for (struct sleeper *s = clock->sleepers; s; s = s->next) {
        if (s->deadline <= now) {
            lw__futex_wake(s->word, INT32_MAX);
            is_any_due = true;
        }
    }
    lw__mutex_unlock(&clock->mu);
    return is_any_due;
}

int lw_test_clock_advance(lw_clock *base, int64_t ms) {
    struct test_clock *clock = (struct test_clock *)base;
    if (!clock || clock->base.is_real || ms < 0)
        return LW_EINVAL;
    uint64_t now = atomic_load(&clock->now), later;
    do {
        later = now + (uint64_t)ms * LW__NS_PER_MS;
        if ((uint64_t)ms > NOW_MAX / LW__NS_PER_MS || later > NOW_MAX)
            return LW_EINVAL;
    } while (!atomic_compare_exchange_weak(&clock->now, &now, later));
    while (wake_due(clock))
        sched_yield();
    return LW_OK;
}

bool lw__test_clock_reach(lw_clock *clock, uint64_t moment) {
    uint64_t now = lw__now(clock);
    if (now >= moment)
        return true;
    uint64_t ms = (moment - now) / LW__NS_PER_MS + ((moment - now) % LW__NS_PER_MS > 0);
    return lw_test_clock_advance(clock, (int64_t)ms) == LW_OK;
}

int lw_test_clock_await_sleepers(lw_clock *base, int count, int64_t timeout_ms) {
    struct test_clock *clock = (struct test_clock *)base;
    if (!clock || clock->base.is_real || count < 0 || timeout_ms < -1
        || timeout_ms > LW_TIMEOUT_MS_MAX)
        return LW_EINVAL;
    lw_clock *real = lw__clock_system();
    uint64_t deadline = lw__deadline_in(real, timeout_ms);
    for (;;) {
        uint32_t changes = atomic_load(&clock->sleeper_changes);
        if (atomic_load(&clock->sleeper_count) >= (uint32_t)count)
            return LW_OK;
        if (lw__now(real) >= deadline)
            return LW_ETIMEDOUT;
        lw__futex_wait(&clock->sleeper_changes, changes, deadline);
    }
}

void lw_test_clock_close(lw_clock *base) {
    if (!base || base->is_real)
        return;
    struct test_clock *clock = (struct test_clock *)base;
    lw__mutex_free(&clock->mu);
    lw__free(NULL, clock, sizeof *clock);
}
