/* What every C and C++ program of the suite measures with: clocks, memory, percentiles, a latch,
 * output.
 *
 * Shared by programs in two languages, hence compiler builtins instead of <stdatomic.h>, which C++
 * lacks. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Monotonic wall time, and CPU time of the whole process, both in nanoseconds. */
int64_t bench_now_ns(void);
int64_t bench_cpu_ns(void);

/* Keeps this thread on its core until the clock says `until_ns`. */
void bench_spin_until(int64_t until_ns);

/* Resident bytes of heap and stacks, without mapped files such as the program's own code; counted
 * page by page, because the kernel's cheap counters lag by megabytes. */
int64_t bench_resident_bytes(void);
int64_t bench_resident_bytes_of(int process);

/* Sorts `values` and returns the value below which `percent` of them lie. */
int64_t bench_percentile(int64_t *values, size_t count, double percent);

/* A one-shot door that one thread waits at and another opens; it sleeps in the kernel, never spins.
 */
typedef struct bench_latch {
    int is_open;
} bench_latch;
void bench_latch_wait(bench_latch *latch);
void bench_latch_open(bench_latch *latch);

/* One result line: workload, metric, value, unit, parted by tabs. */
void bench_report(const char *workload, const char *metric, double value, const char *unit);

/* Ends the program with a sentence on stderr: a wrong result must never become a figure. */
__attribute__((noreturn, format(printf, 1, 2))) void bench_die(const char *format, ...);

/* malloc that ends the program instead of failing; memory is zeroed and thereby resident. */
void *bench_alloc(size_t size);

/* Turns the processor's multiplier `iterations` times; about 2 ns each, no memory, no clock. */
uint64_t bench_burn(uint64_t iterations);

/* How many iterations of bench_burn take 1 µs here and now. */
uint64_t bench_burn_calibrate(void);

/* What one call of bench_burn(iterations) costs on an otherwise idle thread, in nanoseconds. */
double bench_burn_cost_ns(uint64_t iterations);

static inline void bench_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static inline int64_t bench_load(const int64_t *value) {
    return __atomic_load_n(value, __ATOMIC_ACQUIRE);
}

static inline void bench_store(int64_t *value, int64_t wanted) {
    __atomic_store_n(value, wanted, __ATOMIC_RELEASE);
}

#ifdef __cplusplus
}
#endif

#endif
