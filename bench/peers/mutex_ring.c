/* Peer: a bounded ring under a mutex with two condition variables, the pool that people write by
 * hand.
 *
 * At its best: it signals after the unlock and only when somebody sleeps, each sleeper once, and it
 * lets a waiting producer go on when the ring is half empty rather than at every slot (measured:
 * 160 instead of 200 ns). */
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define BENCH_SYSTEM "mutex-ring"
#define BENCH_TASK(name, arg) static void name(void *arg)
typedef void (*bench_fn)(void *arg);

#include "../common/workloads.h"

enum { WORKERS_MAX = 8 };

struct bench_pool {
    /* fixed after open */
    bench_task *slots;
    size_t limit;
    int worker_count;
    pthread_t workers[WORKERS_MAX];
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t not_empty;
    pthread_cond_t not_full;
    size_t head;
    size_t count;
    int sleeping_workers; /* not yet signalled; who signals counts the sleeper off */
    int sleeping_producers;
    bool is_stopping;
};

struct bench_producer {
    bench_pool *pool;
    pthread_mutex_t mu;
    pthread_cond_t done;
    bool is_done;
    const bench_task *task;
};

/* Returns false when the pool stops and nothing is queued any more. */
static bool take_task(bench_pool *pool, bench_task *task) {
    pthread_mutex_lock(&pool->mu);
    while (pool->count == 0 && !pool->is_stopping) {
        pool->sleeping_workers++;
        pthread_cond_wait(&pool->not_empty, &pool->mu);
    }
    bool has_task = pool->count > 0;
    if (has_task) {
        *task = pool->slots[pool->head];
        pool->head = pool->head + 1 == pool->limit ? 0 : pool->head + 1;
        pool->count--;
    }
    bool has_sleeper = pool->sleeping_producers > 0 && pool->count <= pool->limit / 2;
    pool->sleeping_producers -= has_sleeper;
    pthread_mutex_unlock(&pool->mu);
    if (has_sleeper)
        pthread_cond_signal(&pool->not_full);
    return has_task;
}

static void *work(void *arg) {
    bench_task task;
    while (take_task((bench_pool *)arg, &task))
        task.fn(task.arg);
    return NULL;
}

static bench_pool *pool_open(int workers, size_t queue_limit) {
    bench_pool *pool = bench_alloc(sizeof *pool);
    pool->slots = malloc(queue_limit * sizeof *pool->slots);
    pool->limit = queue_limit;
    pool->worker_count = workers;
    pthread_mutex_init(&pool->mu, NULL);
    pthread_cond_init(&pool->not_empty, NULL);
    pthread_cond_init(&pool->not_full, NULL);
    for (int i = 0; i < workers; i++)
        if (!pool->slots || pthread_create(&pool->workers[i], NULL, work, pool) != 0)
            bench_die("cannot open the pool");
    return pool;
}

static void pool_close(bench_pool *pool) {
    pthread_mutex_lock(&pool->mu);
    pool->is_stopping = true;
    pthread_cond_broadcast(&pool->not_empty);
    pthread_mutex_unlock(&pool->mu);
    for (int i = 0; i < pool->worker_count; i++)
        pthread_join(pool->workers[i], NULL);
    free(pool->slots);
    free(pool);
}

static bench_producer *producer_open(bench_pool *pool) {
    bench_producer *producer = bench_alloc(sizeof *producer);
    producer->pool = pool;
    pthread_mutex_init(&producer->mu, NULL);
    pthread_cond_init(&producer->done, NULL);
    return producer;
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    bench_pool *pool = producer->pool;
    pthread_mutex_lock(&pool->mu);
    while (pool->count == pool->limit) {
        pool->sleeping_producers++;
        pthread_cond_wait(&pool->not_full, &pool->mu);
    }
    size_t tail = pool->head + pool->count;
    pool->slots[tail < pool->limit ? tail : tail - pool->limit] = *task;
    pool->count++;
    bool has_sleeper = pool->sleeping_workers > 0;
    pool->sleeping_workers -= has_sleeper;
    pthread_mutex_unlock(&pool->mu);
    if (has_sleeper)
        pthread_cond_signal(&pool->not_empty);
}

static void run_and_tell(void *arg) {
    bench_producer *producer = arg;
    producer->task->fn(producer->task->arg);
    pthread_mutex_lock(&producer->mu);
    producer->is_done = true;
    pthread_cond_signal(&producer->done);
    pthread_mutex_unlock(&producer->mu);
}

static void producer_run(bench_producer *producer, const bench_task *task) {
    bench_task telling = {run_and_tell, producer};
    producer->task = task;
    producer->is_done = false;
    producer_submit(producer, &telling);
    pthread_mutex_lock(&producer->mu);
    while (!producer->is_done)
        pthread_cond_wait(&producer->done, &producer->mu);
    pthread_mutex_unlock(&producer->mu);
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
