/* How long things took: counts by duration, in memory of a fixed size.
 *
 * Each power of two of microseconds is cut into 32 buckets of one width, so that what is told is
 * never more than 3 % beside the truth; below 64 us it is exact. Zeroed memory is an empty one.
 * Threads: one at a time. */
#ifndef LW_CLI_LATENCY_H
#define LW_CLI_LATENCY_H

#include <stdint.h>

#define LW__LATENCY_SHARE_BITS 5  /* 32 buckets a power of two */
#define LW__LATENCY_VALUE_BITS 36 /* 19 hours; what took longer is in the last bucket */
#define LW__LATENCY_BUCKETS \
    ((LW__LATENCY_VALUE_BITS - LW__LATENCY_SHARE_BITS + 1) << LW__LATENCY_SHARE_BITS)

struct lw__latency {
    uint64_t count, sum_us, max_us;
    uint64_t counts[LW__LATENCY_BUCKETS];
};

void lw__latency_add(struct lw__latency *latency, uint64_t us);
void lw__latency_merge(struct lw__latency *into, const struct lw__latency *from);

/* What a share of `quantile` (0.99) of all did not exceed; 0 if there are none. */
uint64_t lw__latency_quantile(const struct lw__latency *latency, double quantile);

#endif
