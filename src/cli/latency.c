#include "cli/latency.h"

#define SHARES (UINT64_C(1) << LW__LATENCY_SHARE_BITS)

/* Values below 2 * SHARES have a bucket each. */
static unsigned bucket_of(uint64_t us) {
    if (us < 2 * SHARES)
        return (unsigned)us;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(us);
    if (exponent >= LW__LATENCY_VALUE_BITS)
        return LW__LATENCY_BUCKETS - 1;
    unsigned shift = exponent - LW__LATENCY_SHARE_BITS;
    return (shift << LW__LATENCY_SHARE_BITS) + (unsigned)(us >> shift);
}

/* The largest value of a bucket. */
static uint64_t last_of(unsigned bucket) {
    if (bucket < 2 * SHARES)
        return bucket;
    unsigned shift = (bucket >> LW__LATENCY_SHARE_BITS) - 1;
    uint64_t share = (bucket & (SHARES - 1)) + SHARES;
    return ((share + 1) << shift) - 1;
}

void lw__latency_add(struct lw__latency *latency, uint64_t us) {
    latency->count++;
    latency->sum_us += us;
    latency->max_us = us > latency->max_us ? us : latency->max_us;
    latency->counts[bucket_of(us)]++;
}

void lw__latency_merge(struct lw__latency *into, const struct lw__latency *from) {
    into->count += from->count;
    into->sum_us += from->sum_us;
    into->max_us = from->max_us > into->max_us ? from->max_us : into->max_us;
    for (unsigned i = 0; i < LW__LATENCY_BUCKETS; i++)
        into->counts[i] += from->counts[i];
}

uint64_t lw__latency_quantile(const struct lw__latency *latency, double quantile) {
    double wanted = quantile * (double)latency->count;
    uint64_t seen = 0;
    for (unsigned i = 0; i < LW__LATENCY_BUCKETS - 1; i++) {
        seen += latency->counts[i];
        if (seen > 0 && (double)seen >= wanted)
            return last_of(i) < latency->max_us ? last_of(i) : latency->max_us;
    }
    return latency->max_us;
}
