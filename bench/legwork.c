/* Legwork itself, measured with the same workloads as its peers.
 *
 * LEGWORK_BENCH_SPIN in the environment is the option spin_percent: how much an idle worker looks
 * for work before it sleeps, which buys latency with CPU. */
#include <legwork/pool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/mutex.h"
#include "base/timer.h"

#define BENCH_SYSTEM "legwork"
#define BENCH_TASK(name, arg) static void name(__attribute__((unused)) lw_ctx *ctx, void *arg)
#define BENCH_HAS_TIMERS
typedef lw_pool_fn bench_fn;

#include "common/workloads.h"

/* 0 is the default: adaptive. */
static int spin_percent(void) {
    const char *given = getenv("LEGWORK_BENCH_SPIN");
    return given ? (int)strtol(given, NULL, 10) : 0;
}

/* A pool is an lw_pool and a producer is one, too: any thread may submit. */
static bench_pool *pool_open(int workers, size_t queue_limit) {
    lw_error err;
    lw_pool *pool;
    int rc = lw_pool_open(&pool,
                          LW_POOL_OPTIONS(.min_workers = workers, .queue_limit = (int)queue_limit,
                                          .spin_percent = spin_percent()),
                          &err);
    if (rc < 0)
        bench_die("cannot open the pool: %s", err.message);
    return (bench_pool *)pool;
}

static void pool_close(bench_pool *pool) {
    if (lw_pool_stop((lw_pool *)pool, LW_DRAIN, -1) != LW_OK
        || lw_pool_close((lw_pool *)pool) != LW_OK)
        bench_die("cannot close the pool");
}

static bench_producer *producer_open(bench_pool *pool) {
    return (bench_producer *)pool;
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    if (lw_pool_submit((lw_pool *)producer, task->fn, task->arg) != LW_OK)
        bench_die("a task was refused");
}

static void producer_run(bench_producer *producer, const bench_task *task) {
    if (lw_pool_run((lw_pool *)producer, task->fn, task->arg) != LW_OK)
        bench_die("a task was refused");
}

static void producer_rest(bench_producer *producer) {
    (void)producer;
}

static void producer_drain(bench_producer *producer) {
    (void)producer;
}

static void producer_close(bench_producer *producer) {
    (void)producer;
}

/* What a delayed task needs while it waits. */
typedef struct delayed_task {
    struct lw__timer timer;
    bench_task task;
} delayed_task;

/* The wheel behind one lock, as any thread may insert and cancel. The records are their owner's, as
 * with libuv: the timer is a part of whatever waits. Time is read once a turn, as libuv does it. */
struct bench_timers {
    uint64_t now_ns;
    struct lw__mutex mu;
    delayed_task *records;
    struct lw__timer_wheel wheel;
};

static bench_timers *timers_open(long count) {
    bench_timers *timers = bench_alloc(sizeof *timers);
    timers->now_ns = lw__now(lw__clock_system());
    lw__mutex_init(&timers->mu);
    timers->records = calloc((size_t)count, sizeof *timers->records);
    if (!timers->records)
        bench_die("no memory for %ld timers", count);
    lw__timer_init(&timers->wheel, timers->now_ns);
    return timers;
}

static uint64_t timers_insert(bench_timers *timers, long index, uint64_t delay_ms) {
    delayed_task *delayed = &timers->records[index];
    lw__mutex_lock(&timers->mu);
    *delayed = (delayed_task){.task = {count_task, timers}};
    lw__timer_set(&timers->wheel, &delayed->timer, timers->now_ns + delay_ms * LW__NS_PER_MS);
    lw__mutex_unlock(&timers->mu);
    return (uintptr_t)delayed;
}

static void timers_cancel(bench_timers *timers, uint64_t reference) {
    delayed_task *delayed = (delayed_task *)(uintptr_t)reference;
    lw__mutex_lock(&timers->mu);
    if (!lw__timer_cancel(&timers->wheel, &delayed->timer))
        bench_die("a timer is gone");
    lw__mutex_unlock(&timers->mu);
}

static long timers_count(bench_timers *timers) {
    return (long)timers->wheel.count;
}

static void timers_close(bench_timers *timers) {
    free(timers->records);
    lw__mutex_free(&timers->mu);
    free(timers);
}
