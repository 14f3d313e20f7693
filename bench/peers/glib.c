/* Peer: GLib's GThreadPool, exclusive, and its timeout sources.
 *
 * Its queue has no bound and gets none here: watching g_thread_pool_unprocessed() made it slower
 * (measured, once in 256 submits: W2 370 instead of 160 ns). */
#include <glib.h>

#define BENCH_SYSTEM "glib"
#define BENCH_TASK(name, arg) static void name(void *arg)
#define BENCH_HAS_TIMERS
typedef void (*bench_fn)(void *arg);

#include "../common/workloads.h"

struct bench_pool {
    GThreadPool *threads;
};

struct bench_producer {
    bench_pool *pool;
    GMutex mu;
    GCond done;
    gboolean is_done;
    const bench_task *task;
};

static void run_pushed(gpointer data, gpointer unused) {
    const bench_task *task = data;
    (void)unused;
    task->fn(task->arg);
}

static bench_pool *pool_open(int workers, size_t queue_limit) {
    bench_pool *pool = bench_alloc(sizeof *pool);
    pool->threads = g_thread_pool_new(run_pushed, NULL, workers, TRUE, NULL);
    (void)queue_limit;
    if (!pool->threads)
        bench_die("cannot open the pool");
    return pool;
}

static void pool_close(bench_pool *pool) {
    g_thread_pool_free(pool->threads, FALSE, TRUE);
    free(pool);
}

static bench_producer *producer_open(bench_pool *pool) {
    bench_producer *producer = bench_alloc(sizeof *producer);
    producer->pool = pool;
    g_mutex_init(&producer->mu);
    g_cond_init(&producer->done);
    return producer;
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    g_thread_pool_push(producer->pool->threads, (gpointer)task, NULL);
}

static void run_and_tell(void *arg) {
    bench_producer *producer = arg;
    producer->task->fn(producer->task->arg);
    g_mutex_lock(&producer->mu);
    producer->is_done = TRUE;
    g_cond_signal(&producer->done);
    g_mutex_unlock(&producer->mu);
}

static void producer_run(bench_producer *producer, const bench_task *task) {
    bench_task telling = {run_and_tell, producer};
    producer->task = task;
    producer->is_done = FALSE;
    g_thread_pool_push(producer->pool->threads, &telling, NULL);
    g_mutex_lock(&producer->mu);
    while (!producer->is_done)
        g_cond_wait(&producer->done, &producer->mu);
    g_mutex_unlock(&producer->mu);
}

static void producer_rest(bench_producer *producer) {
    (void)producer;
}

static void producer_drain(bench_producer *producer) {
    (void)producer;
}

static void producer_close(bench_producer *producer) {
    free(producer);
}

struct bench_timers {
    GMainContext *context;
    long count;
};

static bench_timers *timers_open(long count) {
    bench_timers *timers = bench_alloc(sizeof *timers);
    timers->context = g_main_context_new();
    (void)count;
    return timers;
}

static uint64_t timers_insert(bench_timers *timers, long index, uint64_t delay_ms) {
    GSource *source = g_timeout_source_new((guint)delay_ms);
    (void)index;
    g_source_attach(source, timers->context);
    timers->count++;
    return (uintptr_t)source;
}

static void timers_cancel(bench_timers *timers, uint64_t reference) {
    GSource *source = (GSource *)(uintptr_t)reference;
    g_source_destroy(source);
    g_source_unref(source);
    timers->count--;
}

static long timers_count(bench_timers *timers) {
    return timers->count;
}

static void timers_close(bench_timers *timers) {
    g_main_context_unref(timers->context);
    free(timers);
}
