/* Closing right after, or instead of, a stop, while tasks still run: they are left behind, and the
 * last of them frees everything. */
#include "stress_race.h"

#include <legwork/testing.h>

#define SLIPS 12

static struct {
    lw_pool *pool;
    lw_test_memory *memory;
    struct counter gate; /* tasks of this race end when it is 1 */
    struct slip slips[SLIPS];
    struct counter submitted; /* the call that brought the closing task has returned */
    struct counter closed;    /* by a task */
} race;

static void run_past_gate(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    await_count(&race.gate, 1);
    if (chance(30))
        dawdle(50);
    if (chance(20))
        pthread_exit(NULL);
}

static void run_and_close(lw_ctx *ctx, void *arg) {
    run_slip(ctx, arg);
    await_count(&race.submitted, 1); /* nothing else may run beside a close */
    assert_status(lw_pool_close(race.pool), LW_PENDING);
    count_up(&race.closed);
}

static void *open_gate(void *arg) {
    (void)arg;
    dawdle(100);
    count_up(&race.gate);
    return NULL;
}

/* The pool belongs to nobody now: the last thread gives its memory back. */
static void await_freed(void) {
    uint64_t blocks = 1;
    while (blocks > 0) {
        lw_test_memory_usage(race.memory, &blocks, NULL, NULL);
        sched_yield();
    }
}

static void submit_all(void) {
    int count = between(1, SLIPS);
    for (int i = 0; i < count; i++)
        submit_slip(race.pool, run_past_gate, &race.slips[i]);
}

static void close_with_what_runs(void) {
    static const int64_t timeouts[] = {0, 0, 1, STRESS_HANG_MS};
    int rc = LW_OK;
    for (int stops = between(0, 2); stops > 0; stops--)
        rc = lw_pool_stop(race.pool, chance(50) ? LW_DRAIN : LW_DROP, timeouts[dice(4)]);
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    int closed = lw_pool_close(race.pool);
    CHECK(closed == LW_OK || (rc == LW_ETIMEDOUT && closed == LW_PENDING));
}

static void close_from_inside(void) {
    static struct slip closer;
    memset(&closer, 0, sizeof closer);
    count_up(&race.gate);
    assert_status(lw_pool_submit(race.pool, run_and_close, &closer), LW_OK);
    count_up(&race.submitted);
    await_count(&race.closed, 1);
}

static void race_close(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    assert_status(lw_test_memory_open(&race.memory), LW_OK);
    bool is_inside = chance(20);
    race.pool =
        open_race_pool(LW_POOL_OPTIONS(.min_workers = between(1, 3), .max_workers = 3, .idle_ms = 1,
                                       .on_drop = drop_slip, .task_timeout_ms = chance(30) ? 1 : 0,
                                       .spin_percent = any_spin_percent(),
                                       .allocator = lw_test_memory_allocator(race.memory)));
    submit_all();
    if (!is_inside)
        add_actor(&actors, open_gate, NULL);
    if (chance(50))
        dawdle(100);
    if (is_inside)
        close_from_inside();
    else
        close_with_what_runs();
    join_actors(&actors);
    await_freed();
    for (int i = 0; i < SLIPS; i++)
        check_slip(&race.slips[i]);
    lw_test_memory_close(race.memory);
}

TEST(what_a_close_leaves_behind_frees_itself) {
    run_races(1200, race_close);
}
