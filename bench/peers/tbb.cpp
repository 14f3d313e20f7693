/* Peer: oneTBB, task_arena::enqueue.
 *
 * By itself it has one worker fewer than cores, for it expects the caller to help; here the caller
 * only submits, so it is allowed as many as the workload wants. The arena keeps a place for a
 * caller although none joins: measured, W1 takes 370 ns so and 450 without. Its queue has no bound,
 * and one made of two counters gained nothing. */
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>

#include <atomic>
#include <cstddef>

#define BENCH_SYSTEM "tbb"
#define BENCH_TASK(name, arg) static void name(void *arg)
typedef void (*bench_fn)(void *arg);

#include "../common/workloads.h"

struct bench_pool {
    explicit bench_pool(int workers)
        : control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(workers) + 1),
          arena(workers + 1, 1) {}

    tbb::global_control control;
    tbb::task_arena arena;
};

struct bench_producer {
    bench_pool *pool;
    std::atomic<bool>
        is_done; /* here and not on the caller's stack: the notify comes after the store */
};

static bench_pool *pool_open(int workers, size_t) {
    bench_pool *pool = new bench_pool(workers);
    pool->arena.initialize();
    return pool;
}

/* The arena has no wait for enqueued tasks; whoever submits knows when its own have run. */
static void pool_close(bench_pool *pool) {
    delete pool;
}

static bench_producer *producer_open(bench_pool *pool) {
    return new bench_producer{pool, {false}};
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    producer->pool->arena.enqueue([task] { task->fn(task->arg); });
}

static void producer_run(bench_producer *producer, const bench_task *task) {
    producer->is_done.store(false, std::memory_order_relaxed);
    producer->pool->arena.enqueue([task, producer] {
        task->fn(task->arg);
        producer->is_done.store(true, std::memory_order_release);
        producer->is_done.notify_one();
    });
    producer->is_done.wait(false, std::memory_order_acquire);
}

static void producer_rest(bench_producer *) {}

static void producer_drain(bench_producer *) {}

static void producer_close(bench_producer *producer) {
    delete producer;
}
