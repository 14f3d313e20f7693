/* Spinning: an idle worker looks a little longer before it sleeps, because falling asleep and being
 * woken costs both sides dearly: measured on a virtual machine, 10 µs of the worker's and 12 µs of
 * the submitter's time, and 20 to 40 µs until the task starts.
 *
 * One worker at a time spins. First it looks for about as long as sleeping would cost; that never
 * costs more than twice the best choice. Beyond that it spins only if work has lately been arriving
 * soon enough to be worth it, and then on credit: over time this takes at most a quarter of one
 * core, whatever the arrivals. A program that wants the latency at any price sets spin_us.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

#define SHORT_POLLS 256                   /* of about 20 ns */
#define LONG_SPIN_NS (50 * LW__NS_PER_US) /* gaps up to this are worth spinning for */
#define GAP_CLIP_NS LW__NS_PER_MS         /* one long pause is forgotten after a dozen short ones */
#define CREDIT_SHARE 4                    /* earns 1 ns of spinning in this many ns */
#define CREDIT_MAX_NS (100 * (int64_t)LW__NS_PER_US)

static bool must_look_up(lw_pool *pool) {
    return lw__pool_has_work(pool) || lw__pool_stop_mode(pool) != LW__OPEN;
}

static bool spin_short(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    for (uint32_t i = 0; i < w->lull; i++)
        lw__spin_pause();
    for (int i = 0; i < SHORT_POLLS; i++) {
        lw__spin_pause();
        if (must_look_up(pool))
            return true;
    }
    return false;
}

/* Spins until `deadline`; returns whether work came. *now is when it ended. */
static bool spin_until(lw_pool *pool, uint64_t *now, uint64_t deadline) {
    while (*now < deadline) {
        for (int i = 0; i < 8; i++) {
            lw__spin_pause();
            if (must_look_up(pool))
                return true;
        }
        *now = lw__now(pool->set.clock);
    }
    return false;
}

static bool spin_on_credit(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    uint64_t start = lw__now(pool->set.clock), now = start;
    if (w->idle_since == 0)
        w->idle_since = start;
    int64_t earned = (int64_t)((start - pool->spin_credit_at) / CREDIT_SHARE);
    pool->spin_credit_at = start;
    pool->spin_credit_ns += earned;
    if (pool->spin_credit_ns > CREDIT_MAX_NS)
        pool->spin_credit_ns = CREDIT_MAX_NS;
    if (w->gap_ns > LONG_SPIN_NS || pool->spin_credit_ns < (int64_t)w->gap_ns)
        return false;
    bool is_found = spin_until(pool, &now, start + 2 * w->gap_ns);
    pool->spin_credit_ns -= (int64_t)(now - start);
    return is_found;
}

bool lw__spin_for_work(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    if (pool->set.spin_ns < 0 || atomic_exchange(&pool->has_spinner, 1) != 0)
        return false;
    bool is_found = spin_short(w);
    if (!is_found && pool->set.spin_ns == 0) {
        is_found = spin_on_credit(w);
    } else if (!is_found) {
        uint64_t now = lw__now(pool->set.clock);
        is_found = spin_until(pool, &now, now + (uint64_t)pool->set.spin_ns);
    }
    atomic_store_explicit(&pool->has_spinner, 0, memory_order_release);
    return is_found;
}

void lw__spin_learn(struct lw__worker *w) {
    if (w->idle_since == 0)
        return;
    uint64_t gap = lw__now(w->runner.pool->set.clock) - w->idle_since;
    w->idle_since = 0;
    w->gap_ns = (3 * w->gap_ns + (gap < GAP_CLIP_NS ? gap : GAP_CLIP_NS)) / 4;
}
