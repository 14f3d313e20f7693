/* Reading of latency histograms; recording is in the header, where it is inlined. */
#include "base/histogram.h"

#include <assert.h>

uint64_t lw__histogram_bucket_start(unsigned bucket) {
    assert(bucket <= LW__HISTOGRAM_BUCKETS);
    if (bucket < 4)
        return bucket;
    if (bucket == LW__HISTOGRAM_BUCKETS)
        return UINT64_MAX;
    return (uint64_t)(4 + bucket % 4) << (bucket / 4 - 1);
}

void lw__histogram_merge(struct lw__histogram_snapshot *snapshot,
                         const struct lw__histogram *histogram) {
    for (unsigned i = 0; i < LW__HISTOGRAM_BUCKETS; i++) {
        uint64_t count = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        snapshot->counts[i] += count;
        snapshot->count += count;
    }
    snapshot->sum_ns += atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed);
    uint64_t max_ns = atomic_load_explicit(&histogram->max_ns, memory_order_relaxed);
    if (max_ns > snapshot->max_ns)
        snapshot->max_ns = max_ns;
}

/* The bucket's middle: nothing in it is further away than half its width, an eighth of its start.
 */
static uint64_t middle_of(unsigned bucket) {
    uint64_t start = lw__histogram_bucket_start(bucket);
    uint64_t end = lw__histogram_bucket_start(bucket + 1);
    return start + (end - 1 - start) / 2;
}

uint64_t lw__histogram_quantile(const struct lw__histogram_snapshot *snapshot, double quantile) {
    assert(quantile >= 0 && quantile <= 1);
    double rank = quantile * (double)snapshot->count;
    uint64_t seen = 0;

    if (rank >= (double)snapshot->count)
        return snapshot->max_ns;
    for (unsigned i = 0; i < LW__HISTOGRAM_BUCKETS - 1; i++) {
        seen += snapshot->counts[i];
        if (seen > 0 && (double)seen >= rank)
            return middle_of(i) < snapshot->max_ns ? middle_of(i) : snapshot->max_ns;
    }
    return snapshot->max_ns; /* somewhere in the last bucket, which has no middle */
}
