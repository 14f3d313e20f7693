/* E9: how long a tracked task waits for its start when there is nothing else to do: after idleness,
 * and paced. The program that includes it defines
 *   registry, a struct tag
 *   registry_submit(registry, sample)   submits a task that calls start_stamp(sample)
 *   registry_await(registry)            returns when all tasks have ended */
#ifndef BENCH_START_LATENCY_H
#define BENCH_START_LATENCY_H

#include <stdlib.h>

#include "measure.h"

enum {
    START_IDLE_SAMPLES = 2000,
    START_PACED_SAMPLES = 10000,
};

#define START_IDLENESS_NS 300000
#define START_SLOT_NS 50000 /* 20,000 a second */
#define START_WAIT_NS 1000000000

typedef struct registry registry;

/* A cache line each, so that neighbours do not disturb each other. */
typedef struct start_sample {
    int64_t submit_ns;
    int64_t start_ns; /* 0: not yet */
} __attribute__((aligned(64))) start_sample;

static void registry_submit(registry *r, start_sample *s);
static void registry_await(registry *r);

static inline void start_stamp(start_sample *s) {
    bench_store(&s->start_ns, bench_now_ns());
}

static void start_submit(registry *r, start_sample *s) {
    s->submit_ns = bench_now_ns();
    registry_submit(r, s);
}

static void start_await(const start_sample *s) {
    while (bench_load(&s->start_ns) == 0) {
        bench_pause();
        if (bench_now_ns() > s->submit_ns + START_WAIT_NS)
            bench_die("a task did not start within a second");
    }
}

static void start_report(const char *name, const char *p50, const char *p99,
                         const start_sample *samples, long count) {
    int64_t *waits = (int64_t *)bench_alloc((size_t)count * sizeof *waits);
    for (long i = 0; i < count; i++)
        waits[i] = samples[i].start_ns - samples[i].submit_ns;
    bench_report(name, p50, (double)bench_percentile(waits, (size_t)count, 50), "ns");
    bench_report(name, p99, (double)bench_percentile(waits, (size_t)count, 99), "ns");
    free(waits);
}

/* All samples that a run needs, the warm-ups' included: a registry may look them up by their
 * number, which is that of their submit. */
static long start_sample_count(long tasks) {
    long idle = tasks > 0 ? tasks : (long)START_IDLE_SAMPLES;
    long paced = tasks > 0 ? tasks : (long)START_PACED_SAMPLES;
    return idle + idle / 20 + 1 + paced + paced / 10 + 1;
}

static start_sample *start_samples_alloc(long tasks) {
    size_t size = (size_t)start_sample_count(tasks) * sizeof(start_sample);
    start_sample *samples = (start_sample *)aligned_alloc(64, size);
    if (!samples)
        bench_die("out of memory");
    for (long i = 0; i < start_sample_count(tasks); i++)
        samples[i] = (start_sample){0, 0};
    return samples;
}

static void run_starts(const char *name, registry *r, start_sample *samples, long tasks) {
    long idle = tasks > 0 ? tasks : (long)START_IDLE_SAMPLES, idle_warm_up = idle / 20 + 1;
    long paced = tasks > 0 ? tasks : (long)START_PACED_SAMPLES, paced_warm_up = paced / 10 + 1;
    for (long i = 0; i < idle + idle_warm_up; i++) {
        bench_spin_until(bench_now_ns() + START_IDLENESS_NS);
        start_submit(r, &samples[i]);
        start_await(&samples[i]);
    }
    start_sample *next = samples + idle + idle_warm_up;
    int64_t begin_ns = bench_now_ns();
    for (long i = 0; i < paced + paced_warm_up; i++) {
        bench_spin_until(begin_ns + i * START_SLOT_NS);
        start_submit(r, &next[i]);
    }
    registry_await(r);
    start_report(name, "start_p50", "start_p99", samples + idle_warm_up, idle);
    start_report(name, "paced_p50", "paced_p99", next + paced_warm_up, paced);
}

#endif
