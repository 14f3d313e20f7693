/* What a flow costs beside plain tasks: resources with four steps, one after the other, and chains
 * of four tasks of which each submits the next (lw_then), in turns in the same process. All options
 * are the defaults, but for 2 workers. About BACKLOG resources or chains are under way at once, at
 * most: in memory the callers are quicker than the workers, and the backlog would grow for as long
 * as they call. */
#include <legwork/flow.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/durable.h"
#include "common/program.h"

enum { WORKERS = 2, STEPS = 4, ROUNDS = 3, BACKLOG = 4096 };

#define ROUND_NS 500000000

typedef struct books {
    lw_engine *engine;
    int64_t started_count; /* numbers are ids */
    int64_t done_count;    /* steps, or tasks */
    int64_t under_way;     /* resources or chains */
    pthread_mutex_t mu;
    pthread_cond_t has_room;
} books;

static const char payload[PAYLOAD_SIZE] = "a task of a hundred bytes";

/* ---- handlers ----------------------------------------------------------------------------- */

static lw_outcome count_step(lw_ctx *ctx, const lw_task *task) {
    books *b = lw_ctx_user(ctx);
    if (task->payload.size != PAYLOAD_SIZE)
        bench_die("a step came with %zu bytes", task->payload.size);
    __atomic_add_fetch(&b->done_count, 1, __ATOMIC_RELAXED);
    return lw_done(ctx);
}

/* The last one of a resource or chain makes room for others. */
static lw_outcome count_last_step(lw_ctx *ctx, const lw_task *task) {
    books *b = lw_ctx_user(ctx);
    lw_outcome outcome = count_step(ctx, task);
    if (__atomic_sub_fetch(&b->under_way, 1, __ATOMIC_RELAXED) == BACKLOG / 2) {
        pthread_mutex_lock(&b->mu);
        pthread_cond_broadcast(&b->has_room);
        pthread_mutex_unlock(&b->mu);
    }
    return outcome;
}

/* Who finds the backlog full waits until half of it is gone: not every end wakes a caller. */
static void await_room(books *b) {
    if (bench_load(&b->under_way) >= BACKLOG) {
        pthread_mutex_lock(&b->mu);
        while (bench_load(&b->under_way) > BACKLOG / 2)
            pthread_cond_wait(&b->has_room, &b->mu);
        pthread_mutex_unlock(&b->mu);
    }
    __atomic_add_fetch(&b->under_way, 1, __ATOMIC_RELAXED);
}

static const char *const kinds[] = {"first", "second", "third", "fourth"};

static lw_outcome count_task(lw_ctx *ctx, const lw_task *task) {
    for (int i = 0; i + 1 < STEPS; i++)
        if (strcmp(task->kind, kinds[i]) == 0
            && lw_then(ctx, LW_TASK(.kind = kinds[i + 1], .payload = task->payload), NULL) != LW_OK)
            bench_die("a successor was refused");
    bool is_last = strcmp(task->kind, kinds[STEPS - 1]) == 0;
    return is_last ? count_last_step(ctx, task) : count_step(ctx, task);
}

static const lw_step steps[STEPS] = {
    {.name = "a", .run = count_step, .state = "on"},
    {.name = "b", .run = count_step, .state = "on", .needs = {"a"}},
    {.name = "c", .run = count_step, .state = "on", .needs = {"b"}},
    {.name = "d", .run = count_last_step, .state = "on", .needs = {"c"}},
};

static void open_engine(books *b, const char *url) {
    lw_error err = {0};
    *b = (books){.mu = PTHREAD_MUTEX_INITIALIZER, .has_room = PTHREAD_COND_INITIALIZER};
    int rc = lw_open(&b->engine, url, LW_ENGINE_OPTIONS(.workers = WORKERS), &err);
    for (int i = 0; rc == LW_OK && i < STEPS; i++)
        rc = lw_handle(b->engine, kinds[i], count_task, LW_HANDLER_OPTIONS(.user = b), NULL);
    if (rc == LW_OK)
        rc = lw_flow_register(b->engine,
                              LW_FLOW(.name = "chain", .steps = LW_STEPS(steps),
                                      .states = {{"on", .goal = "off", .end = true}}, .user = b),
                              &err);
    if (rc == LW_OK)
        rc = lw_start(b->engine, &err);
    if (rc < 0)
        bench_die("cannot open the engine: %s", err.message);
}

/* ---- one round ---------------------------------------------------------------------------- */

static void start_chain(void *user, int number) {
    books *b = user;
    lw_error err;
    (void)number;
    await_room(b);
    lw_task *task = &(lw_task){
        .struct_size = sizeof *task, .kind = kinds[0], .payload = {payload, PAYLOAD_SIZE}};
    if (lw_submit(b->engine, task, NULL, &err) != LW_OK)
        bench_die("a task was not accepted: %s", err.message);
}

static void start_flow(void *user, int number) {
    books *b = user;
    lw_error err;
    char id[32];
    (void)number;
    snprintf(id, sizeof id, "%lld",
             (long long)__atomic_add_fetch(&b->started_count, 1, __ATOMIC_RELAXED));
    lw_bytes body = {payload, PAYLOAD_SIZE};
    await_room(b);
    if (lw_flow_start(b->engine, "chain", id, body, &err) != LW_OK)
        bench_die("a flow was not accepted: %s", err.message);
}

typedef struct cost {
    double ns, cpu_ns, count;
} cost;

/* Until all of it is done, and each once. */
static void add_round(books *b, bench_act start, int64_t duration_ns, cost *sum) {
    int64_t before = bench_load(&b->done_count);
    int64_t cpu_ns = bench_cpu_ns(), begin_ns = bench_now_ns();
    int64_t count = STEPS * call_for(duration_ns, CALLERS, start, b);
    if (lw_wait_idle(b->engine, -1) != LW_OK)
        bench_die("cannot wait for the end");
    sum->ns += (double)(bench_now_ns() - begin_ns);
    sum->cpu_ns += (double)(bench_cpu_ns() - cpu_ns);
    sum->count += (double)count;
    if (bench_load(&b->done_count) - before != count)
        bench_die("%lld steps were done of %lld", (long long)bench_load(&b->done_count) - before,
                  (long long)count);
}

static void report(const char *name, const char *metric, double ns, double count) {
    bench_report(name, metric, ns / count / NS_PER_US, "µs");
}

static void run_on(const char *name, const char *url) {
    books b;
    cost warm_up = {0}, task = {0}, step = {0};
    open_engine(&b, url);
    add_round(&b, start_chain, CALLING_WARM_UP_NS, &warm_up);
    add_round(&b, start_flow, CALLING_WARM_UP_NS, &warm_up);
    for (int i = 0; i < ROUNDS; i++) {
        add_round(&b, start_chain, ROUND_NS, &task);
        add_round(&b, start_flow, ROUND_NS, &step);
    }
    if (lw_close(b.engine) != LW_OK)
        bench_die("cannot close the engine");
    report(name, "task", task.ns, task.count);
    report(name, "step", step.ns, step.count);
    report(name, "cpu_task", task.cpu_ns, task.count);
    report(name, "cpu_step", step.cpu_ns, step.count);
}

static void run_sqlite(const char *name, long tasks) {
    (void)tasks;
    run_on(name, "sqlite:tasks.db");
}

static void run_memory(const char *name, long tasks) {
    (void)tasks;
    run_on(name, "memory:");
}

static const bench_workload workloads[] = {{"F1", run_sqlite}, {"F2", run_memory}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "legwork", workloads, sizeof workloads / sizeof workloads[0]);
}
