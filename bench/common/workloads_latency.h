/* W4, W4i, W5: how long one task waits when there is nothing else to do. */
#ifndef BENCH_WORKLOADS_LATENCY_H
#define BENCH_WORKLOADS_LATENCY_H

enum {
    ROUND_TRIPS_MAX = 100000,
    ROUND_TRIPS_MIN = 20000,
    IDLE_SAMPLES = 2000,
    PACED_SAMPLES = 25000,
    LATENCY_QUEUE_LIMIT = 1024,
};

#define ROUND_TRIPS_NS 1500000000 /* the slow ones make fewer round trips than 100,000 */
#define IDLENESS_NS 300000
#define SLOT_NS 20000 /* 50,000 a second */
#define REST_NS 1000000000
#define SETTLE_NS 50000000

/* One task on its way; a cache line each, so that neighbours do not disturb each other. */
typedef struct sample {
    int64_t submit_ns;   /* the call began */
    int64_t accepted_ns; /* the call returned */
    int64_t start_ns;    /* the task began; 0 before */
    bench_task task;
} __attribute__((aligned(64))) sample;

BENCH_TASK(bump_task, arg) {
    ++*(int64_t *)arg;
}

BENCH_TASK(stamp_task, arg) {
    bench_store(&((sample *)arg)->start_ns, bench_now_ns());
}

static void sleep_ns(int64_t duration_ns) {
    struct timespec t = {(time_t)(duration_ns / 1000000000), (long)(duration_ns % 1000000000)};
    nanosleep(&t, NULL);
}

static void run_round_trips(const char *name, long tasks) {
    long count_max = tasks > 0 ? tasks : (long)ROUND_TRIPS_MAX, count = 0;
    int64_t *trips = (int64_t *)bench_alloc((size_t)count_max * sizeof *trips);
    /* What the task writes and what the caller reads each time must not share a cache line: that
     * would measure the benchmark. */
    struct {
        int64_t value;
    } __attribute__((aligned(128))) ran_count = {0};
    bench_task task __attribute__((aligned(128))) = {bump_task, &ran_count.value};
    bench_pool *pool = pool_open(2, LATENCY_QUEUE_LIMIT);
    bench_producer *producer = producer_open(pool);

    long warm_up = count_max / 20 + 1;
    for (long i = 0; i < warm_up; i++)
        producer_run(producer, &task);
    int64_t begin_ns = bench_now_ns();
    for (; count < count_max; count++) {
        int64_t start_ns = bench_now_ns();
        if (tasks == 0 && count >= ROUND_TRIPS_MIN && start_ns - begin_ns > ROUND_TRIPS_NS)
            break;
        producer_run(producer, &task);
        trips[count] = bench_now_ns() - start_ns;
    }
    producer_close(producer);
    pool_close(pool);
    if (ran_count.value != count + warm_up)
        bench_die("%ld tasks ran, %ld were submitted", (long)ran_count.value, count + warm_up);
    bench_report(name, "p50", (double)bench_percentile(trips, (size_t)count, 50), "ns");
    bench_report(name, "p99", (double)bench_percentile(trips, (size_t)count, 99), "ns");
    free(trips);
}

static void submit_sample(bench_producer *producer, sample *s) {
    s->task.fn = stamp_task;
    s->task.arg = s;
    s->submit_ns = bench_now_ns();
    producer_submit(producer, &s->task);
    s->accepted_ns = bench_now_ns();
}

static void await_sample(const sample *s) {
    int64_t deadline_ns = s->submit_ns + 1000000000;
    while (bench_load(&s->start_ns) == 0) {
        bench_pause();
        if (bench_now_ns() > deadline_ns)
            bench_die("a task did not start within a second");
    }
}

static sample *samples_alloc(long count) {
    sample *samples = (sample *)aligned_alloc(64, (size_t)count * sizeof *samples);
    if (!samples)
        bench_die("out of memory");
    memset((void *)samples, 0, (size_t)count * sizeof *samples);
    return samples;
}

/* Writes the percentile of submit-to-start, or of the cost of the submit call. */
static double sample_percentile(const sample *samples, long count, int is_start, double percent) {
    int64_t *values = (int64_t *)bench_alloc((size_t)count * sizeof *values);
    for (long i = 0; i < count; i++)
        values[i] =
            (is_start ? samples[i].start_ns : samples[i].accepted_ns) - samples[i].submit_ns;
    double result = (double)bench_percentile(values, (size_t)count, percent);
    free(values);
    return result;
}

/* CPU that the process uses while nobody wants anything of it, in cores. */
static double measure_idle_cores(void) {
    sleep_ns(SETTLE_NS);
    int64_t start_ns = bench_now_ns(), start_cpu_ns = bench_cpu_ns();
    sleep_ns(REST_NS);
    return (double)(bench_cpu_ns() - start_cpu_ns) / (double)(bench_now_ns() - start_ns);
}

static void run_after_idleness(const char *name, long tasks) {
    long count = tasks > 0 ? tasks : (long)IDLE_SAMPLES, warm_up = count / 20 + 1;
    sample *samples = samples_alloc(count + warm_up);
    bench_pool *pool = pool_open(2, LATENCY_QUEUE_LIMIT);
    bench_producer *producer = producer_open(pool);

    for (long i = 0; i < count + warm_up; i++) {
        bench_spin_until(bench_now_ns() + IDLENESS_NS);
        submit_sample(producer, &samples[i]);
        await_sample(&samples[i]);
        producer_rest(producer);
    }
    producer_drain(producer);
    double idle_cores = measure_idle_cores();
    producer_close(producer);
    pool_close(pool);
    bench_report(name, "start_p50", sample_percentile(samples + warm_up, count, 1, 50), "ns");
    bench_report(name, "start_p99", sample_percentile(samples + warm_up, count, 1, 99), "ns");
    bench_report(name, "submit_p50", sample_percentile(samples + warm_up, count, 0, 50), "ns");
    bench_report(name, "idle_cpu", idle_cores, "cores");
    free(samples);
}

static void submit_paced(bench_producer *producer, sample *samples, long count) {
    int64_t begin_ns = bench_now_ns();
    for (long i = 0; i < count; i++) {
        producer_rest(producer);
        bench_spin_until(begin_ns + i * SLOT_NS);
        submit_sample(producer, &samples[i]);
    }
}

static void run_paced(const char *name, long tasks) {
    long count = tasks > 0 ? tasks : (long)PACED_SAMPLES, warm_up = count / 10 + 1;
    sample *samples = samples_alloc(count + warm_up);
    bench_pool *pool = pool_open(2, LATENCY_QUEUE_LIMIT);
    bench_producer *producer = producer_open(pool);

    submit_paced(producer, samples, warm_up);
    int64_t start_ns = bench_now_ns(), start_cpu_ns = bench_cpu_ns();
    submit_paced(producer, samples + warm_up, count);
    double cores = (double)(bench_cpu_ns() - start_cpu_ns) / (double)(bench_now_ns() - start_ns);
    producer_drain(producer);
    for (long i = 0; i < count + warm_up; i++)
        await_sample(&samples[i]);
    producer_close(producer);
    pool_close(pool);
    bench_report(name, "p50", sample_percentile(samples + warm_up, count, 1, 50), "ns");
    bench_report(name, "p99", sample_percentile(samples + warm_up, count, 1, 99), "ns");
    bench_report(name, "cpu", cores, "cores");
    free(samples);
}

#endif
