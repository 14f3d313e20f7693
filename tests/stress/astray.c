/* A wake-up that goes astray: a worker was woken, or a token sent, and the kernel does not let it
 * run for a while. The next submit must not rely on it.
 *
 * The tests keep the worker at a point that has a name, on its way up. */
#include "engine/engine_internal.h"
#include "engines.h"
#include "gate.h"
#include "pool/pool_internal.h"
#include "pools.h"

#include <stdatomic.h>
#include <string.h>

#define COMES_UP "sleep: over, not attentive"
#define SPINS "spin: expected, not attentive"
#define BEGINS "token: runs, nothing touched yet"

static const char *_Atomic kept_at; /* NULL: nobody is to be kept */
static struct gate kept = GATE;

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    const char *at = atomic_load(&kept_at);
    if (at && strcmp(name, at) == 0 && atomic_compare_exchange_strong(&kept_at, &at, NULL))
        gate_pass(&kept);
}

static void await_overdue(struct lw__expect *e) {
    await_that(atomic_load(&e->until) <= lw__now(lw__clock_system()));
}

/* ---- the pool ------------------------------------------------------------------------------ */

static lw_pool *open_asleep(lw_clock *clock) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .clock = clock);
    await_that(lw__lot_count(&pool->idle) == 2);
    return pool;
}

/* Both sleep: the first is woken and kept, the second has to be woken by the second submit. */
TEST(a_submit_wakes_another_worker_if_the_first_does_not_come_up) {
    struct tally ran = TALLY;
    lw_clock *clock = open_clock();
    lw_pool *pool = open_asleep(clock);
    atomic_store(&kept_at, COMES_UP);
    submit_times(pool, tally_task, &ran, 1);
    tally_await(&kept.arrived, 1);
    advance(clock, 1);
    submit_times(pool, tally_task, &ran, 1);
    tally_await(&ran, 2);
    gate_open(&kept);
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* A spinner that does not run is relied on no longer than a worker that was woken. */
TEST(a_submit_wakes_another_worker_if_a_spinner_has_lost_its_core) {
    struct tally ran = TALLY;
    atomic_store(&kept_at, SPINS);
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .spin_percent = 100);
    tally_await(&kept.arrived, 1);
    await_that(lw__lot_count(&pool->idle) == 1);
    await_overdue(&pool->expected);
    submit_times(pool, tally_task, &ran, 1);
    tally_await(&ran, 1);
    gate_open(&kept);
    close_pool(pool);
}

/* ---- the engine ---------------------------------------------------------------------------- */

static lw_outcome do_tally(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(lw_ctx_user(ctx), 1);
    return lw_done(ctx);
}

TEST(a_submit_sends_another_token_if_the_first_does_not_begin) {
    struct tally ran = TALLY;
    lw_engine *engine = OPEN_ON("memory:", .workers = 2);
    handle(engine, "count", do_tally, LW_HANDLER_OPTIONS(.user = &ran));
    atomic_store(&kept_at, BEGINS);
    start(engine);
    SUBMIT(engine, .kind = "count");
    tally_await(&kept.arrived, 1);
    await_overdue(&engine->expected);
    SUBMIT(engine, .kind = "count");
    tally_await(&ran, 2);
    gate_open(&kept);
    close_engine(engine);
}
