/* Whole-number options: what they may be, and what 0, -1 and LW_ZERO stand for. */
#ifndef LW_ENGINE_RANGE_H
#define LW_ENGINE_RANGE_H

#include "base/clock.h"

#include <legwork/status.h>

/* An option as it was given, and what it may be. 0, the default, is always fine. */
struct lw__range {
    const char *name;
    int64_t value, min, max;
    bool may_be_zero, may_be_none; /* LW_ZERO, -1 */
};

/* Returns LW_OK, or LW_EINVAL with a sentence about the first that is out of its range. */
int lw__ranges_check(const struct lw__range *ranges, size_t count, lw_error *err);

/* 0 is the default, LW_ZERO zero, -1 whatever `none` is here. */
static inline int64_t lw__choose(int64_t given, int64_t default_value, int64_t none) {
    return given == 0 ? default_value : given == LW_ZERO ? 0 : given == -1 ? none : given;
}

/* The same for a number of which none (-1, as a default too) is UINT64_MAX. */
static inline uint64_t lw__choose_count(int64_t given, int64_t default_value) {
    int64_t count = lw__choose(given, default_value, -1);
    return count < 0 ? UINT64_MAX : (uint64_t)count;
}

/* The same for a time; LW__NEVER if there is none. */
static inline uint64_t lw__choose_ns(int64_t given_ms, int64_t default_ms) {
    int64_t ms = lw__choose(given_ms, default_ms, -1);
    return ms < 0 ? LW__NEVER : (uint64_t)ms * LW__NS_PER_MS;
}

#endif
