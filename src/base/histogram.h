/* Histograms of latencies: how often took it how long, from 1 ns to more than an hour.
 *
 * Log-linear buckets: each power of two is cut into 4 buckets of the same width, so that a bucket
 * is never wider than a quarter of its lower bound and a quantile is told to within 12.5 %. The
 * values 0 to 3 have a bucket each; everything from 2^42 ns (73 minutes) on is in the last one.
 *
 * Threads: one writer per histogram, for which recording is two additions without a lock prefix;
 * any number of readers at any time. So each worker has its own (1.3 KiB) and a reader merges them
 * all into a snapshot, in which the counts of several moments may be mixed but never torn or lost.
 */
#ifndef LW_BASE_HISTOGRAM_H
#define LW_BASE_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define LW__HISTOGRAM_VALUE_BITS 42 /* values that need more bits are in the last bucket */
#define LW__HISTOGRAM_BUCKETS (4 * (LW__HISTOGRAM_VALUE_BITS - 1) + 1)

/* Zeroed memory is an empty one. Atomic, written by one thread. */
struct lw__histogram {
    _Atomic uint64_t counts[LW__HISTOGRAM_BUCKETS];
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t max_ns;
};

/* Plain data: zero it, merge histograms into it, then read it. */
struct lw__histogram_snapshot {
    uint64_t count; /* always the sum of counts */
    uint64_t sum_ns;
    uint64_t max_ns;
    uint64_t counts[LW__HISTOGRAM_BUCKETS];
};

/* The bucket of a value: for values below 4 the value itself, else four per power of two. */
static inline unsigned lw__histogram_bucket(uint64_t ns) {
    if (ns < 4)
        return (unsigned)ns;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(ns);
    if (exponent >= LW__HISTOGRAM_VALUE_BITS)
        return LW__HISTOGRAM_BUCKETS - 1;
    return 4 * (exponent - 1) + (unsigned)(ns >> (exponent - 2) & 3);
}

/* The smallest value of a bucket. Its largest is one less than the smallest of the next; the last
 * bucket has none. For LW__HISTOGRAM_BUCKETS itself this is UINT64_MAX. */
uint64_t lw__histogram_bucket_start(unsigned bucket);

/* Adds one value. The owner's thread only. */
static inline void lw__histogram_record(struct lw__histogram *histogram, uint64_t ns) {
    _Atomic uint64_t *count = &histogram->counts[lw__histogram_bucket(ns)];
    /* With a single writer a load and a store make an addition; readers need them whole, no more.
     */
    atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    uint64_t sum_ns = atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    atomic_store_explicit(&histogram->sum_ns, sum_ns + ns, memory_order_relaxed);
    if (ns > atomic_load_explicit(&histogram->max_ns, memory_order_relaxed))
        atomic_store_explicit(&histogram->max_ns, ns, memory_order_relaxed);
}

/* Adds what a histogram has counted so far to a snapshot. Any thread. */
void lw__histogram_merge(struct lw__histogram_snapshot *snapshot,
                         const struct lw__histogram *histogram);

/* The value that a share of `quantile` (0.99: the 99th percentile) of all values does not exceed,
 * to within 12.5 %, and exactly below 4 ns; the maximum for 1 and for whatever is in the last
 * bucket. 0 if nothing was recorded. */
uint64_t lw__histogram_quantile(const struct lw__histogram_snapshot *snapshot, double quantile);

#endif
