/* W7: a million delayed tasks, inserted and then cancelled in the order of insertion.
 *
 * The delays are random between a minute and an hour, so that none fires and no order helps.
 * The weight is what the system needs for each; the list of references that the workload keeps to
 * cancel them by is not counted for anybody. What the adapter brings: timers_open(count) may
 * allocate the handles that a user of the system owns timers_insert(timers, index, delay)   delay
 * in milliseconds; returns what timers_cancel is to get timers_cancel(timers, reference)
 *   timers_count(timers)                  how many wait now
 *   timers_close(timers) */
#ifndef BENCH_WORKLOADS_TIMERS_H
#define BENCH_WORKLOADS_TIMERS_H

enum { TIMERS_COUNT = 1000000, TIMERS_PASSES = 3 };

#define DELAY_MS_MIN 60000
#define DELAY_MS_SPREAD 3600000

typedef struct bench_timers bench_timers;

static bench_timers *timers_open(long count);
static uint64_t timers_insert(bench_timers *timers, long index, uint64_t delay_ms);
static void timers_cancel(bench_timers *timers, uint64_t reference);
static long timers_count(bench_timers *timers);
static void timers_close(bench_timers *timers);

static uint64_t next_delay_ms(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return DELAY_MS_MIN + *state % DELAY_MS_SPREAD;
}

/* What is to be inserted, and what came of it. */
typedef struct timer_plan {
    long count;
    uint32_t *delays_ms;
    uint64_t *references;
} timer_plan;

static void timer_plan_init(timer_plan *plan, long count) {
    uint64_t state = 88172645463325252u;
    plan->count = count;
    plan->delays_ms = (uint32_t *)bench_alloc((size_t)count * sizeof *plan->delays_ms);
    plan->references = (uint64_t *)bench_alloc((size_t)count * sizeof *plan->references);
    for (long i = 0; i < count; i++)
        plan->delays_ms[i] = (uint32_t)next_delay_ms(&state);
}

/* Both return nanoseconds per timer. */
static double time_inserts(bench_timers *timers, const timer_plan *plan) {
    int64_t start_ns = bench_now_ns();
    for (long i = 0; i < plan->count; i++)
        plan->references[i] = timers_insert(timers, i, plan->delays_ms[i]);
    int64_t end_ns = bench_now_ns();
    if (timers_count(timers) != plan->count)
        bench_die("%ld timers wait, %ld were inserted", timers_count(timers), plan->count);
    return (double)(end_ns - start_ns) / (double)plan->count;
}

static double time_cancels(bench_timers *timers, const timer_plan *plan) {
    int64_t start_ns = bench_now_ns();
    for (long i = 0; i < plan->count; i++)
        timers_cancel(timers, plan->references[i]);
    int64_t end_ns = bench_now_ns();
    if (timers_count(timers) != 0)
        bench_die("%ld timers wait after all were cancelled", timers_count(timers));
    return (double)(end_ns - start_ns) / (double)plan->count;
}

/* The first pass touches all memory and gives the weight; the timed ones find it warm. */
static void run_timers(const char *name, long tasks) {
    timer_plan plan;
    double insert_ns[TIMERS_PASSES], cancel_ns[TIMERS_PASSES];
    timer_plan_init(&plan, tasks > 0 ? tasks : (long)TIMERS_COUNT);

    int64_t empty_bytes = bench_resident_bytes();
    bench_timers *timers = timers_open(plan.count);
    time_inserts(timers, &plan);
    int64_t full_bytes = bench_resident_bytes();
    time_cancels(timers, &plan);
    for (int i = 0; i < TIMERS_PASSES; i++) {
        insert_ns[i] = time_inserts(timers, &plan);
        cancel_ns[i] = time_cancels(timers, &plan);
    }
    timers_close(timers);
    bench_report(name, "insert", median_of(insert_ns, TIMERS_PASSES), "ns");
    bench_report(name, "cancel", median_of(cancel_ns, TIMERS_PASSES), "ns");
    bench_report(name, "bytes", (double)(full_bytes - empty_bytes) / (double)plan.count, "bytes");
    free(plan.delays_ms);
    free(plan.references);
}

#endif
