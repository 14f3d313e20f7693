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
 *
 * Spinning is for machines with a core to spare. A thread that spins uses up what the scheduler
 * owes it, and then waits behind its neighbours for whole slices of milliseconds, while a sleeper
 * runs at once when it is woken. So a spinner never yields its core (a yield asks to be put behind
 * them), and now and then asks the kernel how long it has run: if that is a slice less than has
 * passed, the machine is busy, and no thread spins in this pool for a while. That while grows as
 * long as each new try ends in the same way. (How often it has lost its core says less: on an idle
 * machine that was three times in 100 µs, and over at once.)
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

#include <sched.h>
#include <stddef.h>

#define FIRST_POLLS 32 /* before the clock is read at all: half a microsecond */
#define SHORT_SPIN_NS (10 * LW__NS_PER_US)
#define DEFAULT_PERCENT 13
#define LONG_SPIN_NS LW__NS_PER_MS /* idle for longer than this, a worker sleeps in any case */
#define GAP_CLIP_NS (100 * LW__NS_PER_US) /* so that one long pause is soon forgotten */
#define LULL_MAX 127                      /* breaths of about 15 ns: two microseconds */
#define TRUST_NS (5 * LW__NS_PER_US)      /* a spinner is expected so long after its last look */
#define CHECK_ROUNDS 64 /* of polls, between two questions to the kernel of 300 ns each */
#define LOSS_NS (500 * LW__NS_PER_US) /* a slice of a neighbour; the kernel's own work is shorter */
#define PAUSE_NS (20 * LW__NS_PER_MS)
#define PAUSE_NS_MAX (640 * LW__NS_PER_MS)

/* ---- a busy machine ----------------------------------------------------------------------- */

bool lw__spin_may(const lw_pool *pool) {
    uint64_t until = atomic_load_explicit(&pool->busy_until, memory_order_relaxed);
    if (pool->set.spin_percent < 0)
        return false;
    return until == 0 || lw__now(pool->set.clock) >= until;
}

/* A try that fails soon after the last pause makes the next pause twice as long. Two workers that
 * find it out at once do no harm. */
static void pause_spinning(lw_pool *pool, uint64_t now) {
    uint64_t until = atomic_load_explicit(&pool->busy_until, memory_order_relaxed);
    uint64_t pause_ns = atomic_load_explicit(&pool->busy_ns, memory_order_relaxed);
    bool is_again = pause_ns > 0 && now < until + pause_ns;
    pause_ns = is_again ? pause_ns * 2 : PAUSE_NS;
    pause_ns = pause_ns < PAUSE_NS_MAX ? pause_ns : PAUSE_NS_MAX;
    atomic_store_explicit(&pool->busy_ns, (uint32_t)pause_ns, memory_order_relaxed);
    atomic_store_explicit(&pool->busy_until, now + pause_ns, memory_order_relaxed);
}

/* Counts a round of polls, and now and then asks the kernel how long this thread has run since the
 * last time. True: so much less than has passed that a neighbour had its core; spinning pauses. */
static bool has_lost_core(struct lw__worker *w) {
    if (++w->poll_rounds % CHECK_ROUNDS != 0)
        return false;
    uint64_t now = lw__now(lw__clock_system()), cpu = lw__thread_cpu_ns();
    uint64_t passed = now - w->asked_at, ran = cpu - w->cpu_then;
    bool is_lost = w->asked_at != 0 && passed > ran + LOSS_NS;
    w->asked_at = now;
    w->cpu_then = cpu;
    if (is_lost)
        pause_spinning(w->runner.pool, lw__now(w->runner.pool->set.clock));
    return is_lost;
}

/* ---- an idle worker ----------------------------------------------------------------------- */

static bool poll(lw_pool *pool, int times) {
    for (int i = 0; i < times; i++) {
        lw__spin_pause();
        if (lw__pool_has_work(pool))
            return true;
    }
    return false;
}

/* Spins until `deadline`; true: there is something. *now is when it ended. */
static bool poll_until(struct lw__worker *w, uint64_t *now, uint64_t deadline) {
    lw_pool *pool = w->runner.pool;
    bool is_found = false;
    while (!is_found && *now < deadline) {
        lw__attention_spin(w, *now + TRUST_NS);
        is_found = poll(pool, 64);
        *now = lw__now(pool->set.clock);
        if (has_lost_core(w))
            break;
    }
    return is_found;
}

/* Spins for at most `wanted`, or not at all if there is not `needed` of credit. */
static bool spin_on_credit(struct lw__worker *w, uint64_t *now, uint64_t wanted, uint64_t needed) {
    lw_pool *pool = w->runner.pool;
    uint64_t start = *now, elapsed = start - pool->spin_credit_at;
    int percent = pool->set.spin_percent > 0 ? pool->set.spin_percent : DEFAULT_PERCENT;
    uint64_t credit = pool->spin_credit_ns + elapsed * (uint64_t)percent / 100;
    credit = credit < wanted ? credit : wanted; /* more is not kept: idleness must not add up */
    bool is_found = credit >= needed && poll_until(w, now, start + credit);
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
    bool is_busy = has_lost_core(w);
    if (poll(pool, FIRST_POLLS))
        return learn_gap(w, 0), true;
    uint64_t start = lw__now(pool->set.clock), now = start;
    w->idle_since = start;
    if (is_busy)
        return false;
    bool is_soon = w->gap_ns <= SHORT_SPIN_NS;
    bool is_found = is_soon && poll_until(w, &now, start + SHORT_SPIN_NS);
    if (!is_found && pool->set.spin_percent > 0)
        is_found = spin_on_credit(w, &now, LONG_SPIN_NS, 1);
    else if (!is_soon && w->has_just_woken)
        is_found = spin_on_credit(w, &now, SHORT_SPIN_NS, SHORT_SPIN_NS);
    if (atomic_load_explicit(&w->is_attending, memory_order_relaxed) == 0)
        lw__attention_come_up(w); /* whether or not the clock has moved meanwhile */
    if (is_found)
        lw__spin_learn(w);
    return is_found;
}

/* A worker that was woken onto the core of the submitter keeps it from going on: what it would wait
 * for cannot come. */
static bool is_beside_waker(const struct lw__worker *w) {
    return w->has_just_woken
           && sched_getcpu()
                  == atomic_load_explicit(&w->runner.pool->waker_cpu, memory_order_relaxed);
}

static bool may_spin(const struct lw__worker *w) {
    return lw__spin_may(w->runner.pool) && !is_beside_waker(w);
}

bool lw__pool_may_spin(const lw_ctx *ctx) {
    const char *runner = (const char *)ctx - offsetof(struct lw__runner, ctx);
    return may_spin((const struct lw__worker *)(const void *)runner);
}

bool lw__spin_for_work(struct lw__worker *w) {
    lw_pool *pool = w->runner.pool;
    bool is_found = false, is_worth_it = lw__pool_stop_mode(pool) == LW__OPEN && may_spin(w);
    if (is_worth_it && atomic_exchange(&pool->has_spinner, 1) == 0) {
        is_found = spin(w);
        atomic_store_explicit(&pool->has_spinner, 0, memory_order_release);
    }
    if (!is_found && w->idle_since == 0)
        w->idle_since = lw__now(pool->set.clock);
    if (!is_found)
        w->asked_at = 0;
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
