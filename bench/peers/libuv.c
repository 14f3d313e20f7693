/* Peer: libuv's thread pool (uv_queue_work) and its timers.
 *
 * A request belongs to a loop and is given back by that loop's thread, so each producer has a loop
 * of its own and a stock of requests, one for each place in the queue; when the stock is empty it
 * runs its loop. */
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define BENCH_SYSTEM "libuv"
#define BENCH_TASK(name, arg) static void name(void *arg)
#define BENCH_HAS_TIMERS
typedef void (*bench_fn)(void *arg);

#include "../common/workloads.h"

struct bench_pool {
    size_t limit;
};

struct bench_producer {
    uv_loop_t loop;
    uv_work_t *requests;
    uv_work_t *free_list; /* linked through `data` */
};

/* The pool is one per process; its size is read when the first request comes. */
static bench_pool *pool_open(int workers, size_t queue_limit) {
    char size[16];
    bench_pool *pool = bench_alloc(sizeof *pool);
    snprintf(size, sizeof size, "%d", workers);
    setenv("UV_THREADPOOL_SIZE", size, 1);
    pool->limit = queue_limit;
    return pool;
}

static void pool_close(bench_pool *pool) {
    free(pool);
}

static bench_producer *producer_open(bench_pool *pool) {
    bench_producer *producer = bench_alloc(sizeof *producer);
    size_t stock = pool->limit + 1; /* and one for the task that runs */
    producer->requests = calloc(stock, sizeof *producer->requests);
    if (!producer->requests || uv_loop_init(&producer->loop) != 0)
        bench_die("cannot open a loop");
    for (size_t i = 0; i < stock; i++) {
        producer->requests[i].data = producer->free_list;
        producer->free_list = &producer->requests[i];
    }
    producer->loop.data = producer;
    return producer;
}

static void run_request(uv_work_t *request) {
    const bench_task *task = request->data;
    task->fn(task->arg);
}

static void give_back(uv_work_t *request, int status) {
    bench_producer *producer = request->loop->data;
    if (status != 0)
        bench_die("a request was cancelled");
    request->data = producer->free_list;
    producer->free_list = request;
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    while (!producer->free_list)
        uv_run(&producer->loop, UV_RUN_ONCE);
    uv_work_t *request = producer->free_list;
    producer->free_list = request->data;
    request->data = (void *)task;
    if (uv_queue_work(&producer->loop, request, run_request, give_back) != 0)
        bench_die("uv_queue_work failed");
}

static void producer_run(bench_producer *producer, const bench_task *task) {
    producer_submit(producer, task);
    uv_run(&producer->loop, UV_RUN_DEFAULT);
}

static void producer_rest(bench_producer *producer) {
    uv_run(&producer->loop, UV_RUN_NOWAIT);
}

static void producer_drain(bench_producer *producer) {
    uv_run(&producer->loop, UV_RUN_DEFAULT);
}

static void producer_close(bench_producer *producer) {
    uv_loop_close(&producer->loop);
    free(producer->requests);
    free(producer);
}

struct bench_timers {
    uv_loop_t loop;
    uv_timer_t *handles;
    long count;
    long fired_count;
};

/* Handles that are initialised once and used again: cheaper than a uv_timer_init and uv_close for
 * each task. */
static bench_timers *timers_open(long count) {
    bench_timers *timers = bench_alloc(sizeof *timers);
    timers->handles = calloc((size_t)count, sizeof *timers->handles);
    if (!timers->handles || uv_loop_init(&timers->loop) != 0)
        bench_die("cannot open a loop");
    for (long i = 0; i < count; i++)
        uv_timer_init(&timers->loop, &timers->handles[i]);
    timers->loop.data = timers;
    return timers;
}

static void note_fired(uv_timer_t *handle) {
    ((bench_timers *)handle->loop->data)->fired_count++;
}

static uint64_t timers_insert(bench_timers *timers, long index, uint64_t delay_ms) {
    uv_timer_t *handle = &timers->handles[index];
    uv_timer_start(handle, note_fired, delay_ms, 0);
    timers->count++;
    return (uintptr_t)handle;
}

static void timers_cancel(bench_timers *timers, uint64_t reference) {
    uv_timer_stop((uv_timer_t *)(uintptr_t)reference);
    timers->count--;
}

static long timers_count(bench_timers *timers) {
    uv_run(&timers->loop, UV_RUN_NOWAIT);
    return timers->count - timers->fired_count;
}

static void timers_close(bench_timers *timers) {
    free(timers->handles);
    free(timers);
}
