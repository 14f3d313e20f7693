/* When to try again: a retry policy with its defaults, and the wait after each failure.
 *
 * The wait after the n-th failure, without jitter, with d doublings:
 *     n <= d + 1:  min * factor^(n - 1)
 *     later:       min * factor^d * (n - d), so that it grows by the same each time
 * and never more than max. Jitter moves a wait by up to its percentage either way, each moment in
 * between equally likely: to max plus the percentage at most, and never below 1 ms, so that a wait
 * stays a wait. A min of zero means no wait at all, and has no jitter.
 */
#ifndef LW_ENGINE_RETRY_H
#define LW_ENGINE_RETRY_H

#include "base/random.h"

#include <legwork/engine.h>

#define LW__RETRY_CRASHES_MAX 10000 /* of a budget: counters of crashes have 16 bits */

struct lw__retry {
    uint64_t min_ns; /* 0: no waits */
    uint64_t max_ns;
    double factor;           /* finite, 1 or more */
    uint32_t doublings;      /* UINT32_MAX: until max */
    uint32_t jitter_percent; /* 0 to 100 */
    uint32_t attempts;       /* UINT32_MAX: for ever */
    uint32_t crashes;        /* that are forgiven; UINT32_MAX: any number */
    uint64_t max_age_ns;     /* LW__NEVER: none */
};

/* Fills in defaults, refuses nonsense. `in` may be NULL: all defaults.
 * Returns LW_OK; LW_EINVAL with a sentence about the first wrong field; *out is then untouched. */
int lw__retry_settle(struct lw__retry *out, const lw_retry_policy *in, lw_error *err);

/* How long to wait after so many failures (1: the first attempt has failed; 0: not at all).
 * `random` NULL: without jitter. Takes the same short time for any number of failures. Threads:
 * any; `random` is the caller's. */
uint64_t lw__retry_wait_ns(const struct lw__retry *retry, uint32_t failures,
                           struct lw__random *random);

#endif
