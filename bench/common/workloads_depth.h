/* W6: what a queued task weighs, and whether a deep queue makes tasks slower.
 *
 * One worker is held by a gate task while the queue fills. The gate spins instead of sleeping: a
 * sleeping worker's wake-up would be the larger part of draining a thousand tasks. */
#ifndef BENCH_WORKLOADS_DEPTH_H
#define BENCH_WORKLOADS_DEPTH_H

enum { DEPTH_MAX = 1000000, DEPTH_PASSES_MAX = 101 };

typedef struct gate {
    int64_t has_started;
    int64_t is_open;
    int64_t open_ns; /* the gate task saw it: from here on the worker drains */
} gate;

typedef struct depth_run {
    int64_t ran_count; /* the one worker only, but for the last */
    int64_t wanted_count;
    int64_t end_ns;
    bench_latch all_done;
} depth_run;

BENCH_TASK(gate_task, arg) {
    gate *g = (gate *)arg;
    bench_store(&g->has_started, 1);
    while (!bench_load(&g->is_open))
        bench_pause();
    g->open_ns = bench_now_ns();
}

BENCH_TASK(depth_task, arg) {
    depth_run *run = (depth_run *)arg;
    if (++run->ran_count != run->wanted_count)
        return;
    run->end_ns = bench_now_ns();
    bench_latch_open(&run->all_done);
}

/* Fills the queue behind a gate, calls `when_full`, opens, and waits for the last. Nanoseconds per
 * task. */
static void pass_depth(bench_producer *producer, long depth, void (*when_full)(void *), void *arg,
                       double *fill_ns, double *drain_ns) {
    gate g = {0};
    depth_run run = {0};
    bench_task hold = {gate_task, &g}, task = {depth_task, &run};

    run.wanted_count = depth;
    producer_submit(producer, &hold);
    while (!bench_load(&g.has_started))
        bench_pause();
    int64_t start_ns = bench_now_ns();
    for (long i = 0; i < depth; i++)
        producer_submit(producer, &task);
    int64_t full_ns = bench_now_ns();
    if (when_full)
        when_full(arg);
    bench_store(&g.is_open, 1);
    bench_latch_wait(&run.all_done);
    producer_drain(producer);
    if (run.ran_count != depth)
        bench_die("%ld tasks ran, %ld were submitted", (long)run.ran_count, depth);
    *fill_ns = (double)(full_ns - start_ns) / (double)depth;
    *drain_ns = (double)(run.end_ns - g.open_ns) / (double)depth;
}

static void read_resident(void *arg) {
    *(int64_t *)arg = bench_resident_bytes();
}

static double median_of(double *values, long count) {
    int64_t picoseconds[DEPTH_PASSES_MAX];
    for (long i = 0; i < count; i++)
        picoseconds[i] = (int64_t)(values[i] * 1000);
    return (double)bench_percentile(picoseconds, (size_t)count, 50) / 1000;
}

static void report_depth(const char *name, bench_producer *producer, long depth,
                         const char *label) {
    double fill_ns[DEPTH_PASSES_MAX], drain_ns[DEPTH_PASSES_MAX];
    char metric[32];
    long passes = DEPTH_MAX / depth;
    passes = passes > DEPTH_PASSES_MAX ? (long)DEPTH_PASSES_MAX : passes < 3 ? 3 : passes;
    for (long i = 0; i < passes; i++)
        pass_depth(producer, depth, NULL, NULL, &fill_ns[i], &drain_ns[i]);
    snprintf(metric, sizeof metric, "fill_%s", label);
    bench_report(name, metric, median_of(fill_ns, passes), "ns");
    snprintf(metric, sizeof metric, "drain_%s", label);
    bench_report(name, metric, median_of(drain_ns, passes), "ns");
}

/* The weight counts from before the pool exists: what a system reserves at open is paid for, too.
 * It is taken in the first pass, which also touches all memory once, so that the timed ones do not.
 */
static void run_depths(const char *name, long tasks) {
    long depth_max = tasks > 0 ? tasks : (long)DEPTH_MAX;
    double fill_ns, drain_ns;
    int64_t full_bytes = 0, empty_bytes = bench_resident_bytes();
    bench_pool *pool = pool_open(1, (size_t)depth_max);
    bench_producer *producer = producer_open(pool);

    pass_depth(producer, depth_max, read_resident, &full_bytes, &fill_ns, &drain_ns);
    bench_report(name, "bytes", (double)(full_bytes - empty_bytes) / (double)depth_max, "bytes");
    if (tasks == 0) {
        report_depth(name, producer, 1000, "1k");
        report_depth(name, producer, 10000, "10k");
        report_depth(name, producer, 100000, "100k");
        report_depth(name, producer, 1000000, "1M");
    }
    producer_close(producer);
    pool_close(pool);
}

#endif
