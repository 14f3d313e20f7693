/* Streams of tasks from several threads, timed from the first submit to the end of the last task.
 * The task that ends last takes the time itself, so that nobody has to watch the counter and
 * thereby disturb it.
 *
 * Needs bench_fn and the four calls of a producer that are declared below: see workloads.h. */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H

#include <pthread.h>

#include "measure.h"

typedef struct bench_pool bench_pool;
typedef struct bench_producer bench_producer;

typedef struct bench_task {
    bench_fn fn;
    void *arg;
} bench_task;

static bench_producer *producer_open(bench_pool *pool);
static void producer_submit(bench_producer *producer, const bench_task *task);
static void producer_drain(bench_producer *producer);
static void producer_close(bench_producer *producer);

enum { PRODUCERS_MAX = 4 };

#define WARM_UP_NS 150000000
#define MEASURE_NS 500000000

/* Shared by all tasks of a run; one cache line, which each task touches once. */
typedef struct tally {
    int64_t done_count;
    int64_t wanted_count;
    int64_t end_ns;
    uint64_t burn_iterations;
    bench_latch all_done;
} __attribute__((aligned(64))) tally;

typedef struct stream {
    bench_pool *pool;
    const bench_task *task;
    long count;
    pthread_barrier_t *start;
    int64_t start_ns;
} stream;

static inline void tally_add(tally *t) {
    if (__atomic_add_fetch(&t->done_count, 1, __ATOMIC_ACQ_REL) != t->wanted_count)
        return;
    t->end_ns = bench_now_ns();
    bench_latch_open(&t->all_done);
}

static void *submit_stream(void *arg) {
    stream *s = (stream *)arg;
    bench_producer *producer = producer_open(s->pool);
    pthread_barrier_wait(s->start);
    s->start_ns = bench_now_ns();
    for (long i = 0; i < s->count; i++)
        producer_submit(producer, s->task);
    producer_drain(producer);
    producer_close(producer);
    return NULL;
}

/* Runs `count` tasks from `producers` threads; returns nanoseconds from the first submit to the
 * last end. */
static int64_t time_streams(bench_pool *pool, int producers, bench_fn fn, tally *t, long count) {
    pthread_barrier_t start;
    pthread_t threads[PRODUCERS_MAX];
    stream streams[PRODUCERS_MAX];
    bench_task task = {fn, t};
    int64_t start_ns = INT64_MAX;

    t->done_count = 0;
    t->wanted_count = count / producers * producers;
    t->all_done.is_open = 0;
    pthread_barrier_init(&start, NULL, (unsigned)producers);
    for (int i = 0; i < producers; i++) {
        stream s = {pool, &task, count / producers, &start, 0};
        streams[i] = s;
        if (pthread_create(&threads[i], NULL, submit_stream, &streams[i]) != 0)
            bench_die("cannot start a producer");
    }
    for (int i = 0; i < producers; i++) {
        pthread_join(threads[i], NULL);
        start_ns = streams[i].start_ns < start_ns ? streams[i].start_ns : start_ns;
    }
    bench_latch_wait(&t->all_done);
    pthread_barrier_destroy(&start);
    return t->end_ns - start_ns;
}

/* Warms up with ever longer runs and returns how many tasks take about MEASURE_NS. */
static long find_count(bench_pool *pool, int producers, bench_fn fn, tally *t) {
    for (long count = 10000;; count *= 2) {
        int64_t elapsed_ns = time_streams(pool, producers, fn, t, count);
        if (elapsed_ns >= WARM_UP_NS)
            return (long)((double)count * MEASURE_NS / (double)elapsed_ns);
    }
}

/* Returns nanoseconds per task; with 0 tasks of as many as take about MEASURE_NS. */
static double measure_rate(bench_pool *pool, int producers, bench_fn fn, tally *t, long tasks) {
    long count = tasks;
    if (tasks > 0)
        time_streams(pool, producers, fn, t, tasks / 10 + producers);
    else
        count = find_count(pool, producers, fn, t);
    int64_t elapsed_ns = time_streams(pool, producers, fn, t, count);
    return (double)elapsed_ns / (double)t->wanted_count;
}

/* Comes after the close: only then can no task come any more that should not have run. */
static void tally_check(const tally *t) {
    if (t->done_count != t->wanted_count || t->wanted_count < 1)
        bench_die("%ld tasks ran, %ld were submitted", (long)t->done_count, (long)t->wanted_count);
}

#endif
