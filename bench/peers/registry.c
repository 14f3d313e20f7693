/* Peer: tasks that have an id and a state and can be asked about, as one writes it by hand in C: a
 * queue and a table under a mutex, a condition variable for the workers, one for those who wait.
 *
 * It takes 1,024 unfinished tasks and then makes the submitter wait, and keeps the last 100,000
 * finished ones, like the other registries. It signals after the unlock, and only if a worker
 * sleeps. */
#include <pthread.h>
#include <stdbool.h>

#include "../common/program.h"
#include "../common/start_latency.h"

enum { WORKERS = 2, LIMIT = 1024, RETAINED = 100000, SLOTS = RETAINED + LIMIT };

enum state { ENQUEUED, STARTED, FINISHED };

struct task {
    uint64_t id;
    enum state state;
    start_sample *sample;
    struct task *next; /* in the queue */
};

struct registry {
    pthread_t workers[WORKERS];
    /* guarded by mu */
    pthread_mutex_t mu;
    pthread_cond_t not_empty, not_full, is_idle;
    struct task slots[SLOTS]; /* by id: the oldest finished one makes way */
    struct task *first, **last;
    uint64_t last_id, unfinished;
    int sleeping; /* workers that were not signalled yet */
    bool is_stopping;
};

static struct task *take_locked(struct registry *r) {
    while (!r->first && !r->is_stopping) {
        r->sleeping++;
        pthread_cond_wait(&r->not_empty, &r->mu);
    }
    struct task *task = r->first;
    if (!task)
        return NULL;
    r->first = task->next;
    if (!r->first)
        r->last = &r->first;
    task->state = STARTED;
    return task;
}

static void *work(void *arg) {
    struct registry *r = arg;
    pthread_mutex_lock(&r->mu);
    for (struct task *task; (task = take_locked(r));) {
        pthread_mutex_unlock(&r->mu);
        start_stamp(task->sample);
        pthread_mutex_lock(&r->mu);
        task->state = FINISHED;
        if (r->unfinished-- == LIMIT)
            pthread_cond_signal(&r->not_full);
        if (r->unfinished == 0)
            pthread_cond_broadcast(&r->is_idle);
    }
    pthread_mutex_unlock(&r->mu);
    return NULL;
}

static void registry_submit(registry *r, start_sample *s) {
    pthread_mutex_lock(&r->mu);
    while (r->unfinished == LIMIT)
        pthread_cond_wait(&r->not_full, &r->mu);
    uint64_t id = ++r->last_id;
    struct task *task = &r->slots[id % SLOTS];
    *task = (struct task){.id = id, .state = ENQUEUED, .sample = s};
    *r->last = task;
    r->last = &task->next;
    r->unfinished++;
    bool has_sleeper = r->sleeping > 0;
    r->sleeping -= has_sleeper;
    pthread_mutex_unlock(&r->mu);
    if (has_sleeper)
        pthread_cond_signal(&r->not_empty);
}

static void registry_await(registry *r) {
    pthread_mutex_lock(&r->mu);
    while (r->unfinished > 0)
        pthread_cond_wait(&r->is_idle, &r->mu);
    pthread_mutex_unlock(&r->mu);
}

static void run_registry(const char *name, long tasks) {
    struct registry *r = bench_alloc(sizeof *r);
    start_sample *samples = start_samples_alloc(tasks);
    pthread_mutex_init(&r->mu, NULL);
    pthread_cond_init(&r->not_empty, NULL);
    pthread_cond_init(&r->not_full, NULL);
    pthread_cond_init(&r->is_idle, NULL);
    r->last = &r->first;
    for (int i = 0; i < WORKERS; i++)
        if (pthread_create(&r->workers[i], NULL, work, r) != 0)
            bench_die("cannot start a worker");
    run_starts(name, r, samples, tasks);
    for (uint64_t id = r->last_id; id > 0 && id + RETAINED > r->last_id; id--)
        if (r->slots[id % SLOTS].id != id || r->slots[id % SLOTS].state != FINISHED)
            bench_die("task %ld did not finish", (long)id);
    pthread_mutex_lock(&r->mu);
    r->is_stopping = true;
    pthread_mutex_unlock(&r->mu);
    pthread_cond_broadcast(&r->not_empty);
    for (int i = 0; i < WORKERS; i++)
        pthread_join(r->workers[i], NULL);
    free(samples);
    free(r);
}

static const bench_workload workloads[] = {{"E9", run_registry}};

int main(int argc, char **argv) {
    return bench_main(argc, argv, "registry", workloads, sizeof workloads / sizeof workloads[0]);
}
