/* Back-off. Reckoned in doubles: a whole number of milliseconds up to LW_TIMEOUT_MS_MAX is exact in
 * one even as nanoseconds, and so are its doublings; what is too large for an integer becomes
 * infinite instead of wrapping, and then is max. */
#include "engine/retry.h"

#include "base/error.h"
#include "engine/range.h"

#include <float.h>
#include <limits.h>

#define DEFAULT_MIN_MS 1000
#define DEFAULT_MAX_MS 3600000
#define DEFAULT_FACTOR 2.0
#define DEFAULT_JITTER_PERCENT 10
#define DEFAULT_CRASHES 3

/* ---- settling ------------------------------------------------------------------------------ */

static int validate(const lw_retry_policy *p, lw_error *err) {
    const struct lw__range ranges[] = {
        {"retry.min_ms", p->min_ms, 1, LW_TIMEOUT_MS_MAX, true, false},
        {"retry.max_ms", p->max_ms, 1, LW_TIMEOUT_MS_MAX, false, true},
        {"retry.doublings", p->doublings, 1, INT_MAX, true, true},
        {"retry.jitter_percent", p->jitter_percent, 1, 100, true, true},
        {"retry.attempts", p->attempts, 1, INT_MAX, false, true},
        {"retry.max_age_ms", p->max_age_ms, 1, LW_TIMEOUT_MS_MAX, false, true},
        {"retry.crashes", p->crashes, 1, LW__RETRY_CRASHES_MAX, true, true},
    };
    if (lw__ranges_check(ranges, sizeof ranges / sizeof *ranges, err) < 0)
        return LW_EINVAL;
    bool is_factor = p->factor == 0 || (p->factor >= 1 && p->factor <= DBL_MAX); /* not of NaN */
    if (!is_factor)
        return lw__error_set(err, LW_EINVAL, 0,
                             "retry.factor is %g, must be a finite number of 1 or more", p->factor);
    return LW_OK;
}

static int choose_times(struct lw__retry *out, const lw_retry_policy *p, lw_error *err) {
    int64_t min = lw__choose(p->min_ms, DEFAULT_MIN_MS, -1);
    int64_t max =
        lw__choose(p->max_ms, min > DEFAULT_MAX_MS ? min : DEFAULT_MAX_MS, LW_TIMEOUT_MS_MAX);
    if (max < min)
        return lw__error_set(err, LW_EINVAL, 0,
                             "retry.max_ms is %lld, must be at least retry.min_ms, which is %lld",
                             (long long)max, (long long)min);
    out->min_ns = (uint64_t)min * LW__NS_PER_MS;
    out->max_ns = (uint64_t)max * LW__NS_PER_MS;
    out->max_age_ns = lw__choose_ns(p->max_age_ms, -1);
    return LW_OK;
}

int lw__retry_settle(struct lw__retry *out, const lw_retry_policy *in, lw_error *err) {
    static const lw_retry_policy defaults;
    const lw_retry_policy *p = in ? in : &defaults;
    struct lw__retry retry = {0};
    int rc = validate(p, err);
    if (rc == LW_OK)
        rc = choose_times(&retry, p, err);
    if (rc < 0)
        return rc;
    retry.factor = p->factor == 0 ? DEFAULT_FACTOR : p->factor;
    retry.doublings = (uint32_t)lw__choose(p->doublings, UINT32_MAX, UINT32_MAX);
    retry.jitter_percent = (uint32_t)lw__choose(p->jitter_percent, DEFAULT_JITTER_PERCENT, 0);
    retry.attempts = (uint32_t)lw__choose(p->attempts, UINT32_MAX, UINT32_MAX);
    retry.crashes = (uint32_t)lw__choose(p->crashes, DEFAULT_CRASHES, UINT32_MAX);
    *out = retry;
    return LW_OK;
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* By squaring: at most 32 rounds. */
static double power(double base, uint32_t exponent) {
    double result = 1;
    for (; exponent > 0; exponent >>= 1) {
        if (exponent & 1)
            result *= base;
        base *= base;
    }
    return result;
}

static uint64_t wait_without_jitter(const struct lw__retry *retry, uint32_t failures) {
    uint32_t before = failures - 1;
    uint32_t grown = before < retry->doublings ? before : retry->doublings;
    double times = (double)(before - grown) + 1;
    double wait = (double)retry->min_ns * power(retry->factor, grown) * times;
    return wait < (double)retry->max_ns ? (uint64_t)(wait + 0.5) : retry->max_ns;
}

static uint64_t with_jitter(uint64_t wait, uint32_t percent, struct lw__random *random) {
    uint64_t spread = wait / 100 * percent + wait % 100 * percent / 100; /* never wraps */
    uint64_t low = wait - spread, high = wait + spread;
    if (low < LW__NS_PER_MS)
        low = LW__NS_PER_MS; /* which `wait` is at least */
    return low + lw__random_below(random, high - low + 1);
}

uint64_t lw__retry_wait_ns(const struct lw__retry *retry, uint32_t failures,
                           struct lw__random *random) {
    if (failures == 0 || retry->min_ns == 0)
        return 0;
    uint64_t wait = wait_without_jitter(retry, failures);
    return random ? with_jitter(wait, retry->jitter_percent, random) : wait;
}
