/* What the programs of the durable suite share, so that all of them do the same to the same disk.
 *
 * Each runs in a folder of its own, which was empty when it was started. */
#ifndef BENCH_DURABLE_H
#define BENCH_DURABLE_H

#include <dirent.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

#include "measure.h"

enum {
    CALLERS = 64, /* of S1 */
    PAYLOAD_SIZE = 100,
    IDLE_SAMPLES = 200, /* of S4 */
    IDLE_NS = 2000000,
    WAITING = 1000000, /* of S5 */
};

#define CALLING_NS 1000000000
#define CALLING_WARM_UP_NS 300000000
#define NS_PER_US 1000.0
#define NS_PER_MS 1000000.0

/* ---- S1, S2: threads that do one thing after another -------------------------------------- */

typedef void (*bench_act)(void *user, int number);

typedef struct caller {
    bench_act act;
    void *user;
    int number;
    int64_t until_ns;
    int64_t call_count;
    pthread_t thread;
} caller;

static void *call_until_over(void *arg) {
    caller *c = arg;
    do {
        c->act(c->user, c->number);
        c->call_count++;
    } while (bench_now_ns() < c->until_ns);
    return NULL;
}

/* Lets `count` threads call `act` for so long; returns how often it was called. A time and not a
 * number of calls, as the systems differ by far more than what one could wait for. */
static inline int64_t call_for(int64_t duration_ns, int count, bench_act act, void *user) {
    caller callers[CALLERS];
    int64_t call_count = 0, until_ns = bench_now_ns() + duration_ns;
    for (int i = 0; i < count; i++) {
        callers[i] = (caller){.act = act, .user = user, .number = i, .until_ns = until_ns};
        if (pthread_create(&callers[i].thread, NULL, call_until_over, &callers[i]) != 0)
            bench_die("cannot start a caller");
    }
    for (int i = 0; i < count; i++) {
        pthread_join(callers[i].thread, NULL);
        call_count += callers[i].call_count;
    }
    return call_count;
}

/* ---- S4: one call after idleness ---------------------------------------------------------- */

/* Sleeps, as on two cores a spinning caller would be in the way of what it measures. */
static void rest(void) {
    const struct timespec idleness = {.tv_nsec = IDLE_NS};
    nanosleep(&idleness, NULL);
}

/* once(user) returns how long it took until the task had started. */
static void report_starts(const char *name, int64_t (*once)(void *user), void *user, long samples) {
    size_t count = samples > 0 ? (size_t)samples : IDLE_SAMPLES;
    int64_t *starts_ns = bench_alloc(count * sizeof *starts_ns);
    for (size_t i = 0; i < count / 10; i++)
        once(user); /* to warm up */
    for (size_t i = 0; i < count; i++) {
        rest();
        starts_ns[i] = once(user);
    }
    double p50_ns = (double)bench_percentile(starts_ns, count, 50);
    bench_report(name, "start_p50", p50_ns / NS_PER_US, "µs");
    double p99_ns = (double)bench_percentile(starts_ns, count, 99);
    bench_report(name, "start_p99", p99_ns / NS_PER_US, "µs");
    free(starts_ns);
}

/* ---- S5: what is on the disk -------------------------------------------------------------- */

/* Bytes of all files in a folder. */
static inline int64_t folder_bytes(const char *path) {
    int64_t bytes = 0;
    struct stat status;
    DIR *folder = opendir(path);
    if (!folder)
        bench_die("cannot read the folder %s", path);
    for (struct dirent *entry; (entry = readdir(folder));)
        if (fstatat(dirfd(folder), entry->d_name, &status, 0) == 0 && S_ISREG(status.st_mode))
            bytes += status.st_size;
    closedir(folder);
    return bytes;
}

#endif
