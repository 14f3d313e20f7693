/* Legwork's engine, with the workloads of peers/go/tracked.go and peers/java/Tracked.java: tasks
 * that have an id and a state and can be asked about.
 *
 * Everybody has 2 workers, takes 1,024 unfinished tasks and then makes the submitter wait, and
 * keeps the last 100,000 finished ones, so that in the steady state each task that ends makes
 * another one leave. */
#include <legwork/engine.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_SYSTEM "legwork"
typedef lw_handler bench_fn;

#include "common/program.h"
#include "common/start_latency.h"
#include "common/streams.h"

enum {
    WORKERS = 2,
    UNFINISHED_LIMIT = 1024,
    RETRYING_LIMIT = 65536, /* a thousand would all wait for their retry most of the time */
    RETAINED = 100000,
    WEIGHED = 1000000,
    RECENT = 8192, /* a power of two */
    READERS = 2,
    SNAPSHOTS_PER_S = 100000,
    WATCH_PAIRS = 31, /* of passes; short ones, as the machine changes its mood within seconds */
    WATCH_PART = 8,   /* of the tasks of an ordinary run, in each pass */
    RETAINED_PASSES = 15,
    RETAINED_PART = 4,
    DUE_MS_MIN = 2000,
    DUE_MS_SPREAD = 2000,
    KEY_SIZE = 24,
    PAYLOAD_SIZE = 32,
};

#define KIND "count"
#define NS_PER_MS 1000000
#define NS_PER_S 1000000000
#define PPM 1000000
#define SEED 88172645463325252u

/* ---- the engine as streams.h wants it ----------------------------------------------------- */

struct bench_pool {
    lw_engine *engine;
    uint64_t *recent;   /* E4: the ids accepted last; one producer writes, readers read */
    uint64_t submitted; /* by the one producer, where recent or has_keys is set */
    bool has_keys, has_payloads;
};

typedef struct engine_plan {
    lw_handler run;
    void *counts;       /* the handler's: a tally, but for E9 */
    int64_t task_limit; /* unfinished tasks */
    int64_t retained;
    const lw_allocator *allocator;
} engine_plan;

static lw_outcome count_task(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(lw_ctx_user(ctx));
    return lw_done(ctx);
}

static lw_outcome count_every_third_later(lw_ctx *ctx, const lw_task *task) {
    if (task->id % 3 == 0 && task->attempt == 1)
        return lw_retry(ctx, "not yet");
    return count_task(ctx, task);
}

/* Not started yet: tasks can be submitted, and wait. */
static lw_engine *open_idle(const engine_plan *plan) {
    lw_error err;
    lw_engine *engine;
    int rc = lw_open(&engine, "memory:",
                     LW_ENGINE_OPTIONS(.workers = WORKERS, .task_limit = plan->task_limit,
                                       .allocator = plan->allocator),
                     &err);
    if (rc < 0)
        bench_die("cannot open the engine: %s", err.message);
    rc = lw_handle(
        engine, KIND, plan->run,
        LW_HANDLER_OPTIONS(.user = plan->counts, .retention = {.finished_max = plan->retained},
                           .retry = {.min_ms = 1, .max_ms = 1, .jitter_percent = LW_ZERO}),
        NULL);
    if (rc < 0)
        bench_die("cannot register the handler: %d", rc);
    return engine;
}

static void start_engine(lw_engine *engine) {
    lw_error err;
    if (lw_start(engine, &err) < 0)
        bench_die("cannot start the engine: %s", err.message);
}

static bench_pool pool_open(const engine_plan *plan) {
    bench_pool pool = {.engine = open_idle(plan)};
    start_engine(pool.engine);
    return pool;
}

/* Also checks that what was accepted has finished, in the engine's own books. */
static void close_engine(lw_engine *engine, const tally *counts) {
    lw_engine_stats stats;
    if (lw_stop(engine, LW_DRAIN_ALL, -1) != LW_OK || lw_get_stats(engine, &stats) != LW_OK)
        bench_die("cannot stop the engine");
    if (stats.finished_total != stats.submitted_total)
        bench_die("%llu tasks were finished, %llu were accepted",
                  (unsigned long long)stats.finished_total,
                  (unsigned long long)stats.submitted_total);
    if (lw_close(engine) != LW_OK)
        bench_die("cannot close the engine");
    tally_check(counts);
}

static bench_producer *producer_open(bench_pool *pool) {
    return (bench_producer *)pool;
}

/* In decimal, as the peers do it. */
static const char *format_key(char *key, uint64_t number) {
    char *at = key + KEY_SIZE - 1;
    *at = '\0';
    do {
        *--at = (char)('0' + number % 10);
    } while (number /= 10);
    return at;
}

static void check_submit(int rc, const lw_error *err) {
    if (rc != LW_OK)
        bench_die("a task was not accepted: %s", rc < 0 ? err->message : "its key is taken");
}

static lw_id submit_plain(lw_engine *engine) {
    lw_error err;
    lw_id id;
    check_submit(lw_submit(engine, LW_TASK(.kind = KIND), &id, &err), &err);
    return id;
}

static void submit_keyed(lw_engine *engine, const char *key) {
    lw_error err;
    check_submit(lw_submit(engine, LW_TASK(.kind = KIND, .key = key), NULL, &err), &err);
}

static void submit_payload(lw_engine *engine) {
    static const char bytes[PAYLOAD_SIZE] = "ann@example.org";
    const lw_bytes payload = {bytes, sizeof bytes};
    lw_error err;
    check_submit(lw_submit(engine, LW_TASK(.kind = KIND, .payload = payload), NULL, &err), &err);
}

static void submit_delayed(lw_engine *engine, int64_t delay_ms) {
    lw_error err;
    check_submit(lw_submit(engine, LW_TASK(.kind = KIND, .delay_ms = delay_ms), NULL, &err), &err);
}

static void producer_submit(bench_producer *producer, const bench_task *task) {
    bench_pool *pool = (bench_pool *)producer;
    char key[KEY_SIZE];
    (void)task; /* the kind's handler, registered at open */
    if (pool->has_payloads) {
        submit_payload(pool->engine);
        return;
    }
    if (pool->has_keys) {
        submit_keyed(pool->engine, format_key(key, ++pool->submitted));
        return;
    }
    lw_id id = submit_plain(pool->engine);
    if (pool->recent)
        __atomic_store_n(&pool->recent[pool->submitted++ % RECENT], id, __ATOMIC_RELAXED);
}

static void producer_drain(bench_producer *producer) {
    (void)producer;
}

static void producer_close(bench_producer *producer) {
    (void)producer;
}

/* ---- E1, E1x4, E2, E3, E7, E8: how long a task takes when there are always more -------------- */

/* What the tasks of a stream have. */
enum { NOTHING, KEYS, PAYLOADS };

static void report_rate(const char *name, const engine_plan *plan, int what, int producers,
                        long tasks) {
    bench_pool pool = pool_open(plan);
    pool.has_keys = what == KEYS;
    pool.has_payloads = what == PAYLOADS;
    double task_ns = measure_rate(&pool, producers, plan->run, plan->counts, tasks);
    close_engine(pool.engine, plan->counts);
    bench_report(name, "task", task_ns, "ns");
}

static void run_one_producer(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, RETAINED, NULL};
    report_rate(name, &plan, NOTHING, 1, tasks);
}

static void run_four_producers(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, RETAINED, NULL};
    report_rate(name, &plan, NOTHING, 4, tasks);
}

static void run_keyed(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, RETAINED, NULL};
    report_rate(name, &plan, KEYS, 1, tasks);
}

static void run_loaded(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, RETAINED, NULL};
    report_rate(name, &plan, PAYLOADS, 1, tasks);
}

static void run_retried(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_every_third_later, &t, RETRYING_LIMIT, RETAINED, NULL};
    report_rate(name, &plan, NOTHING, 1, tasks);
}

/* First fills the registries, then measures with one leaving for each that comes; all of them take
 * turns in one process, as it is how they compare that counts. */
static void run_retained(const char *name, long tasks) {
    static const long retained[] = {1000, 10000, 100000, 1000000};
    static const char *const labels[] = {"1k", "10k", "100k", "1M"};
    enum { SIZES = sizeof retained / sizeof *retained };
    tally tallies[SIZES] = {{0}};
    bench_pool pools[SIZES];
    int64_t elapsed_ns[SIZES][RETAINED_PASSES];

    for (int i = 0; i < SIZES; i++) {
        engine_plan plan = {count_task, &tallies[i], UNFINISHED_LIMIT, retained[i], NULL};
        pools[i] = pool_open(&plan);
        time_streams(&pools[i], 1, plan.run, &tallies[i], retained[i]);
    }
    long count = tasks > 0 ? tasks : find_count(&pools[0], 1, count_task, &tallies[0]);
    count = count / RETAINED_PART + 1;
    for (int pass = 0; pass < RETAINED_PASSES; pass++) {
        for (int i = 0; i < SIZES; i++)
            elapsed_ns[i][pass] = time_streams(&pools[i], 1, count_task, &tallies[i], count);
    }
    for (int i = 0; i < SIZES; i++) {
        close_engine(pools[i].engine, &tallies[i]);
        bench_report(name, labels[i],
                     (double)bench_percentile(elapsed_ns[i], RETAINED_PASSES, 50) / (double)count,
                     "ns");
    }
}

/* ---- E4: submits while others look -------------------------------------------------------- */

typedef struct reader {
    const bench_pool *pool;
    uint64_t random;
    const int64_t *is_over;
    int64_t taken_count;
    pthread_t thread;
} reader;

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void take_snapshot(reader *r, lw_snapshot *snapshot) {
    lw_id id =
        __atomic_load_n(&r->pool->recent[next_random(&r->random) % RECENT], __ATOMIC_RELAXED);
    int rc = lw_get(r->pool->engine, id, snapshot);
    if (rc != LW_OK || snapshot->id != id)
        bench_die("task %llu is not there: %d", id, rc);
}

/* Sleeps between bursts, as spinning would take a core from those that it watches. */
static void *watch(void *arg) {
    reader *r = arg;
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    const struct timespec pause = {.tv_nsec = NS_PER_MS};
    int64_t start_ns = bench_now_ns();
    while (!bench_load(r->is_over)) {
        int64_t due_count = (bench_now_ns() - start_ns) * (SNAPSHOTS_PER_S / READERS) / NS_PER_S;
        for (; r->taken_count < due_count; r->taken_count++)
            take_snapshot(r, &snapshot);
        nanosleep(&pause, NULL);
    }
    lw_snapshot_clear(&snapshot);
    return NULL;
}

typedef struct watching {
    int64_t taken_count, time_ns; /* of all passes */
} watching;

/* time_streams while others take snapshots. */
static int64_t time_watched(bench_pool *pool, tally *t, long count, watching *all) {
    reader readers[READERS];
    int64_t is_over = 0, start_ns = bench_now_ns();
    for (int i = 0; i < READERS; i++) {
        readers[i] = (reader){.pool = pool, .random = SEED + (unsigned)i, .is_over = &is_over};
        if (pthread_create(&readers[i].thread, NULL, watch, &readers[i]) != 0)
            bench_die("cannot start a reader");
    }
    int64_t elapsed_ns = time_streams(pool, 1, count_task, t, count);
    bench_store(&is_over, 1);
    for (int i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        all->taken_count += readers[i].taken_count;
    }
    all->time_ns += bench_now_ns() - start_ns;
    return elapsed_ns;
}

static void check_watching(const watching *all) {
    double rate = (double)all->taken_count * NS_PER_S / (double)all->time_ns;
    if (rate < 0.9 * SNAPSHOTS_PER_S)
        bench_die("only %.0f snapshots were taken a second", rate);
}

/* Both take turns in one process, as E4 is a ratio: the median of those of neighbours. Who is first
 * changes from pair to pair. */
static void run_watched(const char *name, long tasks) {
    tally t = {0};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, RETAINED, NULL};
    bench_pool pool = pool_open(&plan);
    int64_t watched_ns[WATCH_PAIRS], rates_ppm[WATCH_PAIRS];
    watching all = {0};

    pool.recent = bench_alloc(RECENT * sizeof *pool.recent);
    long count = find_count(&pool, 1, plan.run, &t);
    count = (tasks > 0 ? tasks : count) / WATCH_PART;
    for (int i = 0; i < WATCH_PAIRS; i++) {
        int64_t alone_ns = 0;
        for (int turn = 0; turn < 2; turn++) {
            if (turn == i % 2)
                alone_ns = time_streams(&pool, 1, plan.run, &t, count);
            else
                watched_ns[i] = time_watched(&pool, &t, count, &all);
        }
        rates_ppm[i] = alone_ns * PPM / watched_ns[i];
    }
    close_engine(pool.engine, &t);
    free(pool.recent);
    check_watching(&all);
    bench_report(name, "task",
                 (double)bench_percentile(watched_ns, WATCH_PAIRS, 50) / (double)count, "ns");
    bench_report(name, "rate_of_E1", (double)bench_percentile(rates_ppm, WATCH_PAIRS, 50) / PPM,
                 "x");
}

/* ---- E5: what a task weighs --------------------------------------------------------------- */

static void *resize_counted(void *user, void *ptr, size_t old_size, size_t new_size) {
    void *memory = NULL;
    if (new_size == 0)
        free(ptr);
    else if (!(memory = realloc(ptr, new_size)))
        return NULL;
    __atomic_add_fetch((int64_t *)user, (int64_t)new_size - (int64_t)(ptr ? old_size : 0),
                       __ATOMIC_RELAXED);
    return memory;
}

/* Everything that the engine has is shared out among the tasks, what it takes at open included. */
static void report_weight(const char *name, const char *metric, int64_t bytes, long count) {
    bench_report(name, metric, (double)bytes / (double)count, "bytes");
}

static void weigh_waiting(const char *name, long count) {
    tally t = {.wanted_count = count};
    int64_t bytes = 0, resident_bytes = bench_resident_bytes();
    lw_allocator allocator = {resize_counted, &bytes};
    engine_plan plan = {count_task, &t, count, RETAINED, &allocator};
    lw_engine *engine = open_idle(&plan);
    for (long i = 0; i < count; i++)
        submit_plain(engine);
    report_weight(name, "waiting", bench_load(&bytes), count);
    report_weight(name, "waiting_resident", bench_resident_bytes() - resident_bytes, count);
    start_engine(engine);
    bench_latch_wait(&t.all_done);
    close_engine(engine, &t);
    if (bytes != 0)
        bench_die("%ld bytes were not given back", (long)bytes);
}

static void weigh_finished(const char *name, long count) {
    tally t = {0};
    lw_engine_stats stats;
    int64_t bytes = 0;
    lw_allocator allocator = {resize_counted, &bytes};
    engine_plan plan = {count_task, &t, UNFINISHED_LIMIT, count, &allocator};
    bench_pool pool = pool_open(&plan);
    time_streams(&pool, 1, plan.run, &t, count);
    if (lw_wait_idle(pool.engine, -1) != LW_OK || lw_get_stats(pool.engine, &stats) != LW_OK
        || stats.finished != (uint64_t)count)
        bench_die("not all tasks are there");
    report_weight(name, "finished", bench_load(&bytes), count);
    close_engine(pool.engine, &t);
}

/* The waiting ones first, in fresh memory: their resident bytes show that the allocator is told of
 * everything. */
static void run_weights(const char *name, long tasks) {
    long count = tasks > 0 ? tasks : (long)WEIGHED;
    weigh_waiting(name, count);
    weigh_finished(name, count);
}

/* ---- E6: delayed tasks -------------------------------------------------------------------- */

/* All are due within two seconds that begin two seconds after the start, however long the inserting
 * takes. The CPU time of all of it, as nobody could wait any faster. */
static void run_delayed(const char *name, long tasks) {
    long count = tasks > 0 ? tasks : (long)WEIGHED;
    tally t = {.wanted_count = count};
    engine_plan plan = {count_task, &t, count, RETAINED, NULL};
    bench_pool pool = pool_open(&plan);
    uint64_t random = SEED;
    int64_t cpu_ns = bench_cpu_ns(), start_ns = bench_now_ns();

    for (long i = 0; i < count; i++) {
        int64_t due_ms = DUE_MS_MIN + (int64_t)(next_random(&random) % DUE_MS_SPREAD);
        int64_t delay_ms = due_ms - (bench_now_ns() - start_ns) / NS_PER_MS;
        submit_delayed(pool.engine, delay_ms > 0 ? delay_ms : 1);
    }
    int64_t inserted_ns = bench_now_ns();
    bench_latch_wait(&t.all_done);
    cpu_ns = bench_cpu_ns() - cpu_ns;
    close_engine(pool.engine, &t);
    bench_report(name, "cpu", (double)cpu_ns / (double)count, "ns");
    bench_report(name, "insert", (double)(inserted_ns - start_ns) / (double)count, "ns");
}

/* ---- E9: submit to start ------------------------------------------------------------------ */

/* One thread submits, so that ids follow the samples. */
struct registry {
    lw_engine *engine;
    start_sample *samples;
    lw_id first_id;
};

static lw_outcome stamp_task(lw_ctx *ctx, const lw_task *task) {
    const registry *r = lw_ctx_user(ctx);
    start_stamp(&r->samples[task->id - r->first_id]);
    return lw_done(ctx);
}

static void registry_submit(registry *r, start_sample *s) {
    (void)s;
    submit_plain(r->engine);
}

static void registry_await(registry *r) {
    if (lw_wait_idle(r->engine, -1) != LW_OK)
        bench_die("the engine does not become idle");
}

static void run_start_latency(const char *name, long tasks) {
    registry r = {.samples = start_samples_alloc(tasks), .first_id = 1};
    lw_engine_stats stats;
    tally t = {0};
    engine_plan plan = {stamp_task, (tally *)(void *)&r, UNFINISHED_LIMIT, RETAINED, NULL};
    r.engine = open_idle(&plan);
    start_engine(r.engine);
    run_starts(name, &r, r.samples, tasks);
    if (lw_get_stats(r.engine, &stats) != LW_OK)
        bench_die("there are no figures");
    t.done_count = (int64_t)stats.finished_total;
    t.wanted_count = start_sample_count(tasks);
    close_engine(r.engine, &t);
    free(r.samples);
}

static const bench_workload workloads[] = {
    {"E1", run_one_producer},  {"E1x4", run_four_producers}, {"E2", run_keyed},
    {"E3", run_retried},       {"E4", run_watched},          {"E5", run_weights},
    {"E6", run_delayed},       {"E7", run_retained},         {"E8", run_loaded},
    {"E9", run_start_latency},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, BENCH_SYSTEM, workloads, sizeof workloads / sizeof workloads[0]);
}
