/* A monitor that comes late: it wants to revoke what a hurrying worker gave before its slow task,
 * and is kept until that worker has slept and was woken again. It then takes attention that was
 * just given, and must not rely on the expectation of that same worker (models/park_revoke.pml).
 *
 * The monitor and the worker are kept at points that have names. Whether they meet as wanted is a
 * matter of chance, in about every second round; a round in which they do not proves nothing. */
#include "pool/pool_internal.h"
#include "pools.h"

#include <stdatomic.h>
#include <string.h>

#define LOOKS 100000 /* of a worker that waits for the monitor: some milliseconds */
#define SHORT_TASKS 20000
#define SLOW_NS (100 * LW__NS_PER_MS) /* the monitor has come by then, if it comes at all */

enum { OFF, CATCH_MONITOR, CATCH_WORKER };

static _Atomic int phase;
static _Atomic bool is_caught, must_go_on, is_revoked;
static _Thread_local bool is_monitor;

static void keep_monitor(void) {
    int wanted = CATCH_MONITOR;
    is_monitor = true;
    if (!atomic_compare_exchange_strong(&phase, &wanted, OFF))
        return;
    atomic_store(&is_caught, true);
    while (!atomic_load(&must_go_on)) /* it has 50 us */
        ;
}

static void keep_worker(void) {
    int wanted = CATCH_WORKER;
    if (!atomic_compare_exchange_strong(&phase, &wanted, OFF))
        return;
    atomic_store(&must_go_on, true);
    for (int i = 0; i < LOOKS && !atomic_load(&is_revoked); i++)
        ;
}

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    if (strcmp(name, "relieve: not revoked") == 0)
        keep_monitor();
    else if (is_monitor && strcmp(name, "withdraw: nobody attends") == 0)
        atomic_store(&is_revoked, true);
    else if (strcmp(name, "come up: attentive, still expected") == 0)
        keep_worker();
}

static void end_when_caught(lw_ctx *ctx, void *arg) {
    uint64_t end = lw__now(lw__clock_system()) + SLOW_NS;
    (void)ctx, (void)arg;
    while (!atomic_load(&is_caught) && lw__now(lw__clock_system()) < end)
        ;
}

static void end_when_the_other_runs(lw_ctx *ctx, void *arg) {
    (void)ctx;
    tally_await((struct tally *)arg, 1);
}

/* Two tasks, of which the first ends when the second has begun: both workers have to come. */
static void submit_two(lw_pool *pool) {
    struct tally second = TALLY;
    atomic_store(&phase, CATCH_WORKER);
    submit_times(pool, end_when_the_other_runs, &second, 1);
    submit_times(pool, tally_task, &second, 1);
    assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
}

TEST(a_late_revoke_does_not_rely_on_the_worker_that_it_revokes) {
    for (int i = 0; i < test_scale(120, 2000); i++) {
        struct tally ran = TALLY;
        lw_pool *pool = OPEN_POOL(.min_workers = 2, .spin_percent = -1);
        atomic_store(&is_caught, false);
        atomic_store(&must_go_on, false);
        atomic_store(&is_revoked, false);
        await_that(lw__lot_count(&pool->idle) == 2);
        atomic_store(&phase, CATCH_MONITOR);
        submit_times(pool, tally_task, &ran, SHORT_TASKS);
        submit_times(pool, end_when_caught, NULL, 1);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        await_that(lw__lot_count(&pool->idle) == 2);
        if (atomic_load(&is_caught))
            submit_two(pool);
        atomic_store(&phase, OFF);
        atomic_store(&must_go_on, true);
        close_pool(pool);
    }
}
