/* Spinning: an idle worker looks a little longer before it sleeps, because falling asleep and being
 * woken costs both sides dearly: measured on a virtual machine, 10 µs of the worker's and 12 µs of
 * the submitter's time, and 20 to 40 µs until the task starts.
 *
 * One worker at a time spins. If work has lately been arriving within the time that sleeping would
 * cost, it looks for that long: by itself that is never worse than twice the best choice. Otherwise
 * it spins on credit, which grows with time, so that over any while spinning takes no more than a
 * given share of one core. By default that is a small one, spent where it pays best: just after a
 * worker was woken, when the next task is nearer than usual because time has passed until it was
 * up. A program that wants lower latency buys it with spin_percent.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

#include <sched.h>

#define FIRST_POLLS 32 /* before the clock is read at all: half a microsecond */
#define SHORT_SPIN_NS (10 * LW__NS_PER_US)
#define DEFAULT_PERCENT 13
#define LONG_SPIN_NS LW__NS_PER_MS /* idle for longer than this, a worker sleeps in any case */
#define GAP_CLIP_NS (100 * LW__NS_PER_US) /* so that one long pause is soon forgotten */
#define LULL_MAX 127                      /* breaths of about 15 ns: two microseconds */

static bool poll(lw_pool *pool, int times) {
    for (int i = 0; i < times; i++) {
        lw__spin_pause();
        if (lw__pool_has_work(pool))
            return true;
    }
    return false;
}

/* Spins until `deadline`; true: there is something. *now is when it ended. */
static bool poll_until(lw_pool *pool, uint64_t *now, uint64_t deadline) {
    bool is_found = false;
    while (!is_found && *now < deadline) {
        is_found = poll(pool, 64);
        if (!is_found)
            sched_yield(); /* whoever brings the work may wait for this very core */
        *now = lw__now(pool->set.clock);
    }
    return is_found;
}

/* Spins for at most `wanted`, or not at all if there is not `needed` of credit. */
static bool spin_on_credit(lw_pool *pool, uint64_t *now, uint64_t wanted, uint64_t needed) {
    uint64_t start = *now, elapsed = start - pool->spin_credit_at;
    int percent = pool->set.spin_percent > 0 ? pool->set.spin_percent : DEFAULT_PERCENT;
    uint64_t credit = pool->spin_credit_ns + elapsed * (uint64_t)percent / 100;
    credit = credit < wanted ? credit : wanted; /* more is not kept: idleness must not add up */
    bool is_found = credit >= needed && poll_until(pool, now, start + credit);
    uint64_t spent = *now - start;
    pool->spin_credit_ns = spent < credit ? credit - spent : 0;
    pool->spin_credit_at = start;
    return is_found;
}

static void learn_gap(struct lw__worker *w, uint64_t gap_ns) {
    w->gap_ns = (3 * w->gap_ns + (gap_ns < GAP_CLIP_NS ? gap_ns : GAP_CLIP_NS)) / 4;
}

static bool spin(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    if (poll(pool, FIRST_POLLS))
        return learn_gap(w, 0), true;
    uint64_t start = lw__now(pool->set.clock), now = start;
    w->idle_since = start;
    bool is_soon = w->gap_ns <= SHORT_SPIN_NS;
    bool is_found = is_soon && poll_until(pool, &now, start + SHORT_SPIN_NS);
    if (!is_found && pool->set.spin_percent > 0)
        is_found = spin_on_credit(pool, &now, LONG_SPIN_NS, 1);
    else if (!is_soon && w->has_just_woken)
        is_found = spin_on_credit(pool, &now, SHORT_SPIN_NS, SHORT_SPIN_NS);
    if (is_found)
        lw__spin_learn(w);
    return is_found;
}

bool lw__spin_for_work(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    bool is_found = false;
    bool is_worth_it = pool->set.spin_percent >= 0 && lw__pool_stop_mode(pool) == LW__OPEN;
    if (is_worth_it && atomic_exchange(&pool->has_spinner, 1) == 0) {
        is_found = spin(w);
        atomic_store_explicit(&pool->has_spinner, 0, memory_order_release);
    }
    if (!is_found && w->idle_since == 0)
        w->idle_since = lw__now(pool->set.clock);
    w->has_just_woken = false;
    return is_found;
}

void lw__spin_learn(struct lw__worker *w) {
    if (w->idle_since == 0)
        return;
    learn_gap(w, lw__now(w->runner.pool->set.clock) - w->idle_since);
    w->idle_since = 0;
}

/* A worker as fast as the submitter would take every task singly, the moment it is there, and both
 * would spend their time on passing one cache line to and fro: 110 ns a task, where the work itself
 * is 20. So a hurrying worker that keeps finding just a few tasks waits a little before it looks
 * again, until it finds a whole batch each time; but not if it has found nothing. */
void lw__spin_lull(struct lw__worker *w) {
    for (uint32_t i = 0; i < w->lull; i++)
        lw__spin_pause();
}

void lw__spin_tune_lull(struct lw__worker *w, uint32_t found, uint32_t max) {
    if (found == 0)
        w->lull = 0;
    else if (found == max)
        w->lull /= 2;
    else if (w->lull < LULL_MAX)
        w->lull = w->lull * 2 + 1;
}
