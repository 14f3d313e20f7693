/* The workloads of the pool, written once for every system that a C or C++ program can link.
 *
 * A system is a file that defines the adapter below and then includes this header, which brings
 * main(). It is a header and not a table of function pointers so that each system's calls are
 * compiled into the loops as its users would have them.
 *
 * The adapter:
 *   BENCH_SYSTEM                      the name of the system, a string
 *   BENCH_TASK(name, arg)             heads the definition of a task function in its signature
 *   bench_fn                          pointer to such a function
 *   bench_pool, bench_producer        struct tags, typedef'd in streams.h
 *   pool_open(workers, queue_limit)   a pool, workers started where the system lets one choose
 *   pool_close(pool)                  waits for what is queued
 *   producer_open(pool)               on the thread that will submit
 *   producer_submit(producer, task)   may wait for room; *task lives until the task has run
 *   producer_run(producer, task)      submits and blocks until the task is done, the way the
 *                                     system offers it
 *   producer_rest(producer)           called off the clock between paced submits: time to collect
 *                                     completions
 *   producer_drain(producer)          after the last submit; may block until the tasks have run
 *   producer_close(producer)
 * and, where it has timers, BENCH_HAS_TIMERS and what workloads_timers.h asks for. */
#ifndef BENCH_WORKLOADS_H
#define BENCH_WORKLOADS_H

#include <stdio.h>
#include <stdlib.h>

#include "program.h"
#include "streams.h"

static bench_pool *pool_open(int workers, size_t queue_limit);
static void pool_close(bench_pool *pool);
static void producer_run(bench_producer *producer, const bench_task *task);
static void producer_rest(bench_producer *producer);

#include "workloads_depth.h"
#include "workloads_latency.h"
#include "workloads_throughput.h"
#ifdef BENCH_HAS_TIMERS
#include "workloads_timers.h"
#endif

static const bench_workload bench_workloads[] = {
    {"W1", run_one_producer}, {"W1x", run_eight_workers}, {"W2", run_four_producers},
    {"W3", run_microseconds}, {"W4", run_round_trips},    {"W4i", run_after_idleness},
    {"W5", run_paced},        {"W6", run_depths},
#ifdef BENCH_HAS_TIMERS
    {"W7", run_timers},
#endif
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, BENCH_SYSTEM, bench_workloads,
                      sizeof bench_workloads / sizeof bench_workloads[0]);
}

#endif
