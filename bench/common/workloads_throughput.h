/* W1, W1x, W2, W3: how long a task takes when there are always more. */
#ifndef BENCH_WORKLOADS_THROUGHPUT_H
#define BENCH_WORKLOADS_THROUGHPUT_H

#include "streams.h"

enum { QUEUE_LIMIT = 1024 };

BENCH_TASK(count_task, arg) {
    tally_add((tally *)arg);
}

BENCH_TASK(burn_task, arg) {
    tally *t = (tally *)arg;
    bench_burn(t->burn_iterations);
    tally_add(t);
}

/* Returns nanoseconds per task. */
static double measure_streams(int workers, int producers, bench_fn fn, tally *t, long tasks) {
    bench_pool *pool = pool_open(workers, QUEUE_LIMIT);
    double task_ns = measure_rate(pool, producers, fn, t, tasks);
    pool_close(pool);
    tally_check(t);
    return task_ns;
}

static void run_one_producer(const char *name, long tasks) {
    tally t = {0};
    bench_report(name, "task", measure_streams(2, 1, count_task, &t, tasks), "ns");
}

static void run_eight_workers(const char *name, long tasks) {
    tally t = {0};
    bench_report(name, "task", measure_streams(8, 1, count_task, &t, tasks), "ns");
}

static void run_four_producers(const char *name, long tasks) {
    tally t = {0};
    bench_report(name, "task", measure_streams(2, 4, count_task, &t, tasks), "ns");
}

/* The ideal is two cores that do nothing but the tasks. It is measured before and after, because
 * the machine's speed may drift between the two. */
static void run_microseconds(const char *name, long tasks) {
    tally t = {0};
    t.burn_iterations = bench_burn_calibrate();
    double before_ns = bench_burn_cost_ns(t.burn_iterations);
    double task_ns = measure_streams(2, 1, burn_task, &t, tasks);
    double after_ns = bench_burn_cost_ns(t.burn_iterations);
    double ideal_ns = (before_ns + after_ns) / 2 / 2;
    bench_report(name, "task", task_ns, "ns");
    bench_report(name, "ideal", ideal_ns, "ns");
    bench_report(name, "over_ideal", task_ns / ideal_ns, "x");
}

#endif
