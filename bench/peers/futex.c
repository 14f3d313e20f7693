/* The yardstick of W4i: one bare futex wake, with nothing around it.
 *
 * A thread is parked in FUTEX_WAIT for 300 µs, then woken; no pool whose workers sleep can start a
 * task sooner than this thread starts, nor be told of it more cheaply than by this one call. */
#include "../common/measure.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { SAMPLES = 2000, IDLENESS_NS = 300000 };

typedef struct sleeper {
    int wake_count; /* the futex: how often it was woken */
    int wanted_count;
    int64_t start_ns __attribute__((aligned(64))); /* of the latest wake; 0 before */
} sleeper;

static void *sleep_and_stamp(void *arg) {
    sleeper *s = arg;
    for (int seen = 0; seen < s->wanted_count; seen++) {
        while (__atomic_load_n(&s->wake_count, __ATOMIC_ACQUIRE) == seen)
            syscall(SYS_futex, &s->wake_count, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        bench_store(&s->start_ns, bench_now_ns());
    }
    return NULL;
}

/* Wakes the sleeper once; returns wake-to-start and puts the cost of the call into *call_ns. */
static int64_t wake_once(sleeper *s, int64_t *call_ns) {
    bench_store(&s->start_ns, 0);
    bench_spin_until(bench_now_ns() + IDLENESS_NS);
    int64_t begin_ns = bench_now_ns();
    __atomic_add_fetch(&s->wake_count, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &s->wake_count, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    *call_ns = bench_now_ns() - begin_ns;
    while (bench_load(&s->start_ns) == 0)
        bench_pause();
    return bench_load(&s->start_ns) - begin_ns;
}

static void measure(const char *name, int count) {
    int warm_up = count / 20 + 1;
    int64_t *starts_ns = bench_alloc((size_t)(count + warm_up) * sizeof *starts_ns);
    int64_t *calls_ns = bench_alloc((size_t)(count + warm_up) * sizeof *calls_ns);
    sleeper s = {.wanted_count = count + warm_up};
    pthread_t thread;

    if (pthread_create(&thread, NULL, sleep_and_stamp, &s) != 0)
        bench_die("cannot start a thread");
    for (int i = 0; i < count + warm_up; i++)
        starts_ns[i] = wake_once(&s, &calls_ns[i]);
    pthread_join(thread, NULL);
    size_t kept = (size_t)count;
    bench_report(name, "start_p50", (double)bench_percentile(starts_ns + warm_up, kept, 50), "ns");
    bench_report(name, "submit_p50", (double)bench_percentile(calls_ns + warm_up, kept, 50), "ns");
    free(starts_ns);
    free(calls_ns);
}

int main(int argc, char **argv) {
    if (argc < 2 || argc > 3 || strcmp(argv[1], "W4i") != 0)
        bench_die("usage: %s W4i [wakes]", argv[0]);
    measure(argv[1], argc == 3 ? (int)strtol(argv[2], NULL, 10) : SAMPLES);
    return 0;
}
