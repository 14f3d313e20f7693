/* Clocks, memory, percentiles, a latch and output for the benchmark programs. */
#include "measure.h"

#include <linux/futex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CALIBRATION_ROUNDS = 9, CALIBRATION_CALLS = 4000 };

static int64_t read_clock(clockid_t id) {
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t bench_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t bench_cpu_ns(void) {
    return read_clock(CLOCK_PROCESS_CPUTIME_ID);
}

void bench_spin_until(int64_t until_ns) {
    while (bench_now_ns() < until_ns)
        bench_pause();
}

int64_t bench_resident_bytes(void) {
    return bench_resident_bytes_of(getpid());
}

int64_t bench_resident_bytes_of(int process) {
    char line[256];
    long kibibytes = -1;
    snprintf(line, sizeof line, "/proc/%d/smaps_rollup", process);
    FILE *file = fopen(line, "r");
    if (!file)
        bench_die("cannot read %s", line);
    while (kibibytes < 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "Anonymous: %ld kB", &kibibytes) != 1)
            kibibytes = -1;
    fclose(file);
    if (kibibytes < 0)
        bench_die("no Anonymous line in the smaps_rollup of process %d", process);
    return (int64_t)kibibytes * 1024;
}

static int compare_values(const void *a, const void *b) {
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

int64_t bench_percentile(int64_t *values, size_t count, double percent) {
    if (count == 0)
        bench_die("a percentile of no samples");
    qsort(values, count, sizeof *values, compare_values);
    size_t index = (size_t)(percent / 100.0 * (double)count);
    return values[index < count ? index : count - 1];
}

void bench_latch_wait(bench_latch *latch) {
    while (!__atomic_load_n(&latch->is_open, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &latch->is_open, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0);
}

void bench_latch_open(bench_latch *latch) {
    __atomic_store_n(&latch->is_open, 1, __ATOMIC_RELEASE);
    syscall(SYS_futex, &latch->is_open, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

void bench_report(const char *workload, const char *metric, double value, const char *unit) {
    printf("%s\t%s\t%.6g\t%s\n", workload, metric, value, unit);
    fflush(stdout);
}

void bench_die(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    exit(1);
}

void *bench_alloc(size_t size) {
    void *memory = malloc(size);
    if (!memory)
        bench_die("out of memory: %zu bytes", size);
    __asm__ volatile(
        ""
        : "+r"(memory)); /* else the compiler makes it a calloc, which touches nothing */
    memset(memory, 0, size);
    return memory;
}

/* Each step needs the result of the one before, so that neither core can run ahead of the other. */
uint64_t bench_burn(uint64_t iterations) {
    uint64_t x = iterations | 1;
    for (uint64_t i = 0; i < iterations; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        __asm__ volatile("" : "+r"(x)); /* keep the compiler from folding the loop */
    }
    return x;
}

/* Times rounds of calls and leaves them sorted, fastest first. */
static void time_burns(uint64_t iterations, int64_t *rounds) {
    for (int round = 0; round < CALIBRATION_ROUNDS; round++) {
        int64_t start = bench_now_ns();
        for (int call = 0; call < CALIBRATION_CALLS; call++)
            bench_burn(iterations);
        rounds[round] = bench_now_ns() - start;
    }
    bench_percentile(rounds, CALIBRATION_ROUNDS, 50);
}

double bench_burn_cost_ns(uint64_t iterations) {
    int64_t rounds[CALIBRATION_ROUNDS];
    time_burns(iterations, rounds);
    return (double)rounds[CALIBRATION_ROUNDS / 2] / CALIBRATION_CALLS;
}

/* By the fastest round: one that somebody else disturbed says nothing about the loop. */
uint64_t bench_burn_calibrate(void) {
    const uint64_t probe = 1000;
    int64_t rounds[CALIBRATION_ROUNDS];
    time_burns(probe, rounds); /* let the core reach its speed */
    time_burns(probe, rounds);
    return (uint64_t)((double)probe * 1000.0 * CALIBRATION_CALLS / (double)rounds[0] + 0.5);
}
