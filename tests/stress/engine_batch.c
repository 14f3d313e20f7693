/* Batches that are taken back while their owner finishes them, and handlers that end their thread
 * in the midst of one: each task runs exactly once. */
#include "stress_engine.h"

#define TASKS 400
#define PRODUCERS 2

static struct {
    lw_engine *engine;
    struct counter done;
    _Atomic bool may_exit;
    _Atomic uint32_t next_producer, exits;
    uint32_t slow_percent_of_ten;
    _Atomic uint8_t begun[PRODUCERS * TASKS + 1], finished[PRODUCERS * TASKS + 1]; /* by id */
} race;

/* Long enough for the scheduler to notice, now and then. */
static void linger(void) {
    _Atomic uint32_t word = 0;
    lw__futex_wait(&word, 0, lw__now(lw__clock_system()) + (1 + dice(5)) * LW__NS_PER_MS);
}

static lw_outcome do_once(lw_ctx *ctx, const lw_task *task) {
    CHECK(task->id <= PRODUCERS * TASKS);
    CHECK(atomic_fetch_add(&race.begun[task->id], 1) == task->attempt - 1);
    CHECK(atomic_load(&race.finished[task->id]) == 0);
    if (dice(1000) < race.slow_percent_of_ten)
        linger();
    if (atomic_load(&race.may_exit) && task->attempt == 1 && dice(100) == 0) {
        atomic_fetch_add(&race.exits, 1);
        pthread_exit(NULL);
    }
    if (task->attempt == 1 && dice(50) == 0)
        return lw_retry(ctx, "again");
    CHECK(atomic_fetch_add(&race.finished[task->id], 1) == 0);
    count_up(&race.done);
    return lw_done(ctx);
}

static void *produce(void *arg) {
    const lw_task one = *LW_TASK(.kind = "once");
    const lw_task *tasks[TASKS];
    (void)arg;
    for (int i = 0; i < TASKS; i++)
        tasks[i] = &one;
    for (int left = TASKS; left > 0;) {
        int count = chance(30) ? between(1, left < 80 ? left : 80) : 1;
        assert_status(lw_submit_many(race.engine, tasks, (size_t)count, NULL, NULL), LW_OK);
        left -= count;
        if (chance(1))
            dawdle(100);
    }
    return NULL;
}

/* on_attempt is a callback in the midst of a batch, and may be slow or end its thread, too. */
static void on_attempt(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    if (chance(5))
        linger();
    if (atomic_load(&race.may_exit) && chance(10))
        pthread_exit(NULL);
}

static void race_batches(bool may_exit) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.may_exit = may_exit;
    race.slow_percent_of_ten = (uint32_t)between(0, 10);
    race.engine = open_race_engine(
        LW_ENGINE_OPTIONS(.workers = between(1, 4), .on_attempt = chance(30) ? on_attempt : NULL,
                          .task_limit = chance(30) ? between(100, 300) : 0));
    lw_handle(race.engine, "once", do_once,
              LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO, .crashes = -1},
                                 .retention = {.finished_ms = chance(50) ? LW_ZERO : 0}),
              NULL);
    start_engine(race.engine);
    int producers = between(1, PRODUCERS);
    for (int i = 0; i < producers; i++)
        add_actor(&actors, produce, NULL);
    join_actors(&actors);
    await_count(&race.done, (uint32_t)(producers * TASKS));
    assert_status(lw_wait_idle(race.engine, STRESS_HANG_MS), LW_OK);
    lw_engine_stats stats;
    assert_status(lw_get_stats(race.engine, &stats), LW_OK);
    assert_int_equal(stats.finished_total, producers * TASKS);
    assert_int_equal(stats.crashed_total, atomic_load(&race.exits));
    assert_int_equal(stats.enqueued + stats.started + stats.scheduled, 0);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

static void race_relieved(void) {
    race_batches(false);
}

TEST(each_task_of_a_batch_runs_once_whoever_takes_it_back) {
    run_races(100, race_relieved);
}

static void race_exits(void) {
    race_batches(true);
}

TEST(a_handler_that_ends_its_thread_loses_nothing_of_its_batch) {
    run_races(100, race_exits);
}
