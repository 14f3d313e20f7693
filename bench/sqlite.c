/* Legwork on a file: tasks that are durable when the submit returns.
 *
 * All options are the defaults, history and retention included, but for 2 workers and room for the
 * million that S5 and S6 keep waiting. */
#include <legwork/engine.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/durable.h"
#include "common/program.h"

enum {
    WORKERS = 2,
    BATCH = LW_SUBMIT_MAX,
    HISTORY_BATCHES = 120, /* to warm up: from 100,000 finished tasks on the oldest leave */
    STREAM_BATCHES = 200,
    DEPTH_BATCHES = 100,
    DEPTH_WARM_UP_BATCHES = 20,
};

#define URL "sqlite:tasks.db"
#define KIND "count"

/* What the handler writes down. */
typedef struct books {
    int64_t done_count;
    int64_t start_ns; /* of the latest */
    bool is_gated;    /* S6: a task needs a permit to end */
    sem_t permits;
    sem_t ended_batches; /* posted at each thousandth task */
} books;

static const char payload[PAYLOAD_SIZE] = "a task of a hundred bytes";

/* ---- the engine --------------------------------------------------------------------------- */

static void wait_for(sem_t *semaphore) {
    while (sem_wait(semaphore) != 0)
        continue;
}

static lw_outcome count_task(lw_ctx *ctx, const lw_task *task) {
    books *b = lw_ctx_user(ctx);
    bench_store(&b->start_ns, bench_now_ns());
    if (task->payload.size != PAYLOAD_SIZE)
        bench_die("a task came with %zu bytes", task->payload.size);
    if (b->is_gated)
        wait_for(&b->permits);
    if (__atomic_add_fetch(&b->done_count, 1, __ATOMIC_ACQ_REL) % BATCH == 0)
        sem_post(&b->ended_batches);
    return lw_done(ctx);
}

static void open_books(books *b, bool is_gated) {
    *b = (books){.is_gated = is_gated};
    sem_init(&b->permits, 0, 0);
    sem_init(&b->ended_batches, 0, 0);
}

/* Not started yet: tasks can be submitted, and wait. */
static lw_engine *open_idle(books *b, const lw_allocator *allocator) {
    lw_error err;
    lw_engine *engine;
    if (lw_open(&engine, URL,
                LW_ENGINE_OPTIONS(.workers = WORKERS, .task_limit = 2 * WAITING,
                                  .allocator = allocator),
                &err)
        < 0)
        bench_die("cannot open the engine: %s", err.message);
    int rc = lw_handle(engine, KIND, count_task, LW_HANDLER_OPTIONS(.user = b), NULL);
    if (rc < 0)
        bench_die("cannot register the handler: %d", rc);
    return engine;
}

static lw_engine *open_started(books *b, bool is_gated) {
    lw_error err;
    open_books(b, is_gated);
    lw_engine *engine = open_idle(b, NULL);
    if (lw_start(engine, &err) < 0)
        bench_die("cannot start the engine: %s", err.message);
    return engine;
}

/* Checks in the engine's own books that each task ran once, and that the others are still there. */
static void check_counts(lw_engine *engine, const books *b, uint64_t waiting_count) {
    lw_engine_stats stats;
    uint64_t done_count = (uint64_t)bench_load(&b->done_count);
    if (lw_get_stats(engine, &stats) != LW_OK || stats.finished_total != done_count
        || stats.enqueued != waiting_count || stats.submitted_total != done_count + waiting_count)
        bench_die("%llu tasks were run, %llu finished and %llu left, of %llu that were accepted",
                  (unsigned long long)done_count, (unsigned long long)stats.finished_total,
                  (unsigned long long)stats.enqueued, (unsigned long long)stats.submitted_total);
}

static void close_drained(lw_engine *engine, const books *b) {
    if (lw_stop(engine, LW_DRAIN_ALL, -1) != LW_OK)
        bench_die("cannot stop the engine");
    check_counts(engine, b, 0);
    if (lw_close(engine) != LW_OK)
        bench_die("cannot close the engine");
}

static void close_waiting(lw_engine *engine) {
    if (lw_stop(engine, LW_DROP, -1) != LW_OK || lw_close(engine) != LW_OK)
        bench_die("cannot stop and close the engine");
}

static void wait_idle(lw_engine *engine) {
    if (lw_wait_idle(engine, -1) != LW_OK)
        bench_die("cannot wait for the end");
}

static const lw_task task_of_all = {
    .struct_size = sizeof(lw_task), .kind = KIND, .payload = {payload, PAYLOAD_SIZE}};

static void submit_one(void *user, int number) {
    lw_error err;
    (void)number;
    if (lw_submit(user, &task_of_all, NULL, &err) != LW_OK)
        bench_die("a task was not accepted: %s", err.message);
}

static void submit_batches(lw_engine *engine, long count) {
    const lw_task *tasks[BATCH];
    lw_error err;
    for (int i = 0; i < BATCH; i++)
        tasks[i] = &task_of_all;
    for (long i = 0; i < count; i++)
        if (lw_submit_many(engine, tasks, BATCH, NULL, &err) != LW_OK)
            bench_die("a batch was not accepted: %s", err.message);
}

/* ---- S1, S2: callers that wait until their task is durable -------------------------------- */

static void report_callers(const char *name, int callers) {
    books b;
    lw_engine *engine = open_started(&b, false);
    call_for(CALLING_WARM_UP_NS, callers, submit_one, engine);
    wait_idle(engine);
    int64_t begin_ns = bench_now_ns();
    int64_t count = call_for(CALLING_NS, callers, submit_one, engine);
    wait_idle(engine);
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    close_drained(engine, &b);
    bench_report(name, "task", elapsed_ns / (double)count / NS_PER_US, "µs");
}

static void run_many_callers(const char *name, long tasks) {
    (void)tasks;
    report_callers(name, CALLERS);
}

static void run_one_by_one(const char *name, long tasks) {
    (void)tasks;
    report_callers(name, 1);
}

/* ---- S3: batches -------------------------------------------------------------------------- */

static void run_batches(const char *name, long tasks) {
    books b;
    long batches = tasks > 0 ? (tasks + BATCH - 1) / BATCH : (long)STREAM_BATCHES;
    lw_engine *engine = open_started(&b, false);
    submit_batches(engine, HISTORY_BATCHES);
    wait_idle(engine);
    int64_t cpu_ns = bench_cpu_ns(), begin_ns = bench_now_ns();
    submit_batches(engine, batches);
    wait_idle(engine);
    double task_count = (double)batches * BATCH;
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    cpu_ns = bench_cpu_ns() - cpu_ns;
    close_drained(engine, &b);
    bench_report(name, "task", elapsed_ns / task_count / NS_PER_US, "µs");
    bench_report(name, "cpu", (double)cpu_ns / task_count / NS_PER_US, "µs");
}

/* ---- S4: from submit to start ------------------------------------------------------------- */

typedef struct idler {
    lw_engine *engine;
    books books;
} idler;

/* Returns when its end is durable too: else the next one would wait for that. */
static int64_t start_once(void *user) {
    idler *i = user;
    int64_t begin_ns = bench_now_ns();
    submit_one(i->engine, 0);
    wait_idle(i->engine);
    return bench_load(&i->books.start_ns) - begin_ns;
}

static void run_after_idleness(const char *name, long tasks) {
    idler i;
    i.engine = open_started(&i.books, false);
    report_starts(name, start_once, &i, tasks);
    close_drained(i.engine, &i.books);
}

/* ---- S5: a million waiting tasks ---------------------------------------------------------- */

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

static void report_weight(const char *name, const char *metric, int64_t bytes, long count) {
    bench_report(name, metric, (double)bytes / (double)count, "bytes");
}

/* `memory` is the kernel's count, as SQLite's own memory does not come from the engine's
 * allocator. */
static void weigh_filled(const char *name, books *b, long count) {
    int64_t bytes = 0, resident_bytes = bench_resident_bytes();
    lw_allocator allocator = {resize_counted, &bytes};
    lw_engine *engine = open_idle(b, &allocator);
    submit_batches(engine, count / BATCH);
    report_weight(name, "memory", bench_resident_bytes() - resident_bytes, count);
    report_weight(name, "allocated", bench_load(&bytes), count);
    check_counts(engine, b, (uint64_t)count);
    close_waiting(engine);
    report_weight(name, "file", folder_bytes("."), count);
}

static void report_open(const char *name, books *b, long count) {
    lw_engine_stats stats;
    int64_t bytes = 0, begin_ns = bench_now_ns();
    lw_allocator allocator = {resize_counted, &bytes};
    lw_engine *engine = open_idle(b, &allocator);
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    if (lw_get_stats(engine, &stats) != LW_OK || stats.enqueued != (uint64_t)count)
        bench_die("%llu tasks are there after the open", (unsigned long long)stats.enqueued);
    bench_report(name, "open", elapsed_ns / NS_PER_MS, "ms");
    report_weight(name, "allocated_at_open", bench_load(&bytes), count);
    close_waiting(engine);
}

static void run_waiting(const char *name, long tasks) {
    books b;
    long count = (tasks > 0 ? tasks : (long)WAITING) / BATCH * BATCH;
    open_books(&b, false);
    weigh_filled(name, &b, count);
    report_open(name, &b, count);
}

/* ---- S6: what a task costs while others wait ---------------------------------------------- */

/* Passes batches through the engine with at most two of them beyond those that wait. What ends is
 * always the oldest, so that both ends of what is in the file are in use. */
static void pass_batches(lw_engine *engine, books *b, long count) {
    for (long i = 0; i < count; i++) {
        submit_batches(engine, 1);
        for (int permit = 0; permit < BATCH; permit++)
            sem_post(&b->permits);
        if (i > 0)
            wait_for(&b->ended_batches);
    }
    wait_for(&b->ended_batches);
}

static void report_depth(const char *name, const char *depth, lw_engine *engine, books *b) {
    char metric[32];
    double task_count = DEPTH_BATCHES * (double)BATCH;
    int64_t cpu_ns = bench_cpu_ns(), begin_ns = bench_now_ns();
    pass_batches(engine, b, DEPTH_BATCHES);
    double elapsed_ns = (double)(bench_now_ns() - begin_ns);
    cpu_ns = bench_cpu_ns() - cpu_ns;
    bench_report(name, depth, elapsed_ns / task_count / NS_PER_US, "µs");
    snprintf(metric, sizeof metric, "cpu_%s", depth);
    bench_report(name, metric, (double)cpu_ns / task_count / NS_PER_US, "µs");
}

/* The first stop does not wait: from then on nothing starts, and those that run can be let go. */
static void close_gated(lw_engine *engine, books *b, uint64_t waiting_count) {
    int64_t done_count = bench_load(&b->done_count);
    lw_stop(engine, LW_DROP, 0);
    for (int i = 0; i < WORKERS; i++)
        sem_post(&b->permits);
    if (lw_stop(engine, LW_DROP, -1) != LW_OK)
        bench_die("cannot stop the engine");
    done_count = bench_load(&b->done_count) - done_count;
    check_counts(engine, b, waiting_count - (uint64_t)done_count);
    if (lw_close(engine) != LW_OK)
        bench_die("cannot close the engine");
}

/* One engine whose backlog grows. */
static void run_depths(const char *name, long tasks) {
    static const struct {
        const char *label;
        long added_batches, warm_up_batches;
    } steps[] = {
        {"1k", 1, HISTORY_BATCHES},
        {"100k", 99, DEPTH_WARM_UP_BATCHES},
        {"1M", 900, DEPTH_WARM_UP_BATCHES},
    };
    books b;
    uint64_t waiting_count = 0;
    lw_engine *engine = open_started(&b, true);
    (void)tasks;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        submit_batches(engine, steps[i].added_batches);
        waiting_count += (uint64_t)steps[i].added_batches * BATCH;
        pass_batches(engine, &b, steps[i].warm_up_batches);
        report_depth(name, steps[i].label, engine, &b);
    }
    close_gated(engine, &b, waiting_count);
}

static const bench_workload workloads[] = {
    {"S1", run_many_callers},   {"S2", run_one_by_one}, {"S3", run_batches},
    {"S4", run_after_idleness}, {"S5", run_waiting},    {"S6", run_depths},
};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "legwork", workloads, sizeof workloads / sizeof workloads[0]);
}
