/* Back-off: the waits of a policy, and what a policy may say. */
#include "pools.h"

#include "base/clock.h"
#include "engine/retry.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static struct lw__retry settle(lw_retry_policy policy) {
    struct lw__retry retry;
    lw_error err = {.message = "no message"};
    if (lw__retry_settle(&retry, &policy, &err) != LW_OK)
        fprintf(stderr, "%s\n", err.message);
    assert_status(lw__retry_settle(&retry, &policy, NULL), LW_OK);
    return retry;
}

#define SETTLE(...) settle((lw_retry_policy){__VA_ARGS__})

static void assert_waits(const struct lw__retry *retry, const uint64_t *ms, size_t count) {
    for (size_t i = 0; i < count; i++)
        assert_int_equal(lw__retry_wait_ns(retry, (uint32_t)i + 1, NULL), ms[i] * LW__NS_PER_MS);
}

#define ASSERT_WAITS(retry, ...)                       \
    do {                                               \
        const uint64_t waits[] = {__VA_ARGS__};        \
        assert_waits((retry), waits, COUNT_OF(waits)); \
    } while (0)

/* ---- waits --------------------------------------------------------------------------------- */

TEST(waits_double_then_grow_evenly_then_stay) {
    struct lw__retry retry = SETTLE(.min_ms = 10000, .max_ms = 300000, .doublings = 3);
    ASSERT_WAITS(&retry, 10000, 20000, 40000, 80000, 160000, 240000, 300000, 300000);
}

TEST(by_default_waits_double_from_a_second_to_an_hour) {
    struct lw__retry retry;
    assert_status(lw__retry_settle(&retry, NULL, NULL), LW_OK);
    ASSERT_WAITS(&retry, 1000, 2000, 4000, 8000, 16000, 32000, 64000, 128000, 256000, 512000,
                 1024000, 2048000, 3600000, 3600000);
}

TEST(without_doublings_waits_grow_evenly_from_the_start) {
    struct lw__retry retry = SETTLE(.min_ms = 7, .max_ms = 30, .doublings = LW_ZERO);
    ASSERT_WAITS(&retry, 7, 14, 21, 28, 30, 30);
}

TEST(with_one_doubling_it_is_the_second_wait_that_is_doubled) {
    struct lw__retry retry = SETTLE(.min_ms = 10, .max_ms = 1000, .factor = 3, .doublings = 1);
    ASSERT_WAITS(&retry, 10, 30, 60, 90, 120);
}

TEST(a_factor_need_not_be_whole) {
    struct lw__retry retry = SETTLE(.min_ms = 1000, .max_ms = 5000, .factor = 1.5);
    ASSERT_WAITS(&retry, 1000, 1500, 2250, 3375, 5000);
    retry = SETTLE(.min_ms = 1000, .max_ms = 1300, .factor = 1.1);
    ASSERT_WAITS(&retry, 1000, 1100, 1210, 1300);
}

TEST(a_factor_of_one_never_grows_until_the_doublings_are_over) {
    struct lw__retry retry = SETTLE(.min_ms = 50, .factor = 1);
    ASSERT_WAITS(&retry, 50, 50, 50);
    assert_int_equal(lw__retry_wait_ns(&retry, UINT32_MAX, NULL), 50 * LW__NS_PER_MS);
    retry = SETTLE(.min_ms = 50, .max_ms = 130, .factor = 1, .doublings = 2);
    ASSERT_WAITS(&retry, 50, 50, 50, 100, 130);
}

TEST(who_has_not_failed_does_not_wait) {
    struct lw__retry retry = SETTLE(.min_ms = 50);
    struct lw__random random;
    lw__random_seed(&random, 1);
    assert_int_equal(lw__retry_wait_ns(&retry, 0, NULL), 0);
    assert_int_equal(lw__retry_wait_ns(&retry, 0, &random), 0);
}

TEST(a_min_of_zero_never_waits) {
    static const double factors[] = {0, 1, 2, DBL_MAX};
    struct lw__random random;
    lw__random_seed(&random, 1);
    for (size_t i = 0; i < COUNT_OF(factors); i++) {
        struct lw__retry retry = SETTLE(.min_ms = LW_ZERO, .factor = factors[i]);
        assert_int_equal(lw__retry_wait_ns(&retry, 1, &random), 0);
        assert_int_equal(lw__retry_wait_ns(&retry, 1000, NULL), 0);
        assert_int_equal(lw__retry_wait_ns(&retry, UINT32_MAX, &random), 0);
    }
}

TEST(the_longest_waits_are_exact) {
    struct lw__retry retry = SETTLE(.min_ms = LW_TIMEOUT_MS_MAX - 1, .max_ms = LW_TIMEOUT_MS_MAX);
    ASSERT_WAITS(&retry, LW_TIMEOUT_MS_MAX - 1, LW_TIMEOUT_MS_MAX);
    retry = SETTLE(.min_ms = LW_TIMEOUT_MS_MAX / 2 - 1, .max_ms = -1);
    ASSERT_WAITS(&retry, LW_TIMEOUT_MS_MAX / 2 - 1, LW_TIMEOUT_MS_MAX - 2, LW_TIMEOUT_MS_MAX);
}

static const int64_t extreme_ms[] = {1, 3, 1000, 3600000, LW_TIMEOUT_MS_MAX - 1, LW_TIMEOUT_MS_MAX};
static const double extreme_factors[] = {1, 1 + DBL_EPSILON, 1.0001, 2, 1e9, 1e300, DBL_MAX};
static const int extreme_doublings[] = {0, LW_ZERO, 1, 3, 31, 64, 1024, INT_MAX};
static const uint32_t extreme_failures[] = {
    1, 2, 3, 4, 5, 32, 33, 64, 65, 1000, 100000, INT32_MAX, (uint32_t)INT32_MAX + 1, UINT32_MAX};

/* That waits lie between min and max, and do not fall, whatever is asked. */
static void assert_sane(const struct lw__retry *retry, struct lw__random *random) {
    uint64_t before = 0;
    for (size_t i = 0; i < COUNT_OF(extreme_failures); i++) {
        uint64_t wait = lw__retry_wait_ns(retry, extreme_failures[i], NULL);
        CHECK(wait >= retry->min_ns && wait <= retry->max_ns);
        CHECK(wait >= before);
        before = wait;
        uint64_t moved = lw__retry_wait_ns(retry, extreme_failures[i], random);
        uint64_t spread = wait / 100 * retry->jitter_percent + retry->jitter_percent;
        CHECK(moved >= LW__NS_PER_MS && moved <= wait + spread && moved + spread >= wait);
        CHECK(moved <= retry->max_ns + retry->max_ns / 100 * retry->jitter_percent);
    }
}

TEST(no_policy_and_no_number_of_failures_overflows) {
    struct lw__random random;
    lw__random_seed(&random, 42);
    for (size_t i = 0; i < COUNT_OF(extreme_ms); i++)
        for (size_t j = i; j < COUNT_OF(extreme_ms); j++)
            for (size_t f = 0; f < COUNT_OF(extreme_factors); f++)
                for (size_t d = 0; d < COUNT_OF(extreme_doublings); d++) {
                    struct lw__retry retry =
                        SETTLE(.min_ms = extreme_ms[i], .max_ms = extreme_ms[j],
                               .factor = extreme_factors[f], .doublings = extreme_doublings[d],
                               .jitter_percent = 100);
                    assert_sane(&retry, &random);
                }
}

/* A loop over the failures would take minutes. */
TEST_WITH(the_last_of_all_failures_costs_no_more_than_the_first, .seconds = 20) {
    struct lw__retry retry = SETTLE(.min_ms = 1, .max_ms = -1, .factor = 1 + DBL_EPSILON);
    for (uint32_t i = 0; i < 1000; i++)
        CHECK(lw__retry_wait_ns(&retry, UINT32_MAX - i, NULL) >= LW__NS_PER_MS);
}

/* ---- jitter -------------------------------------------------------------------------------- */

struct extremes {
    uint64_t least, most;
    double mean;
};

static struct extremes draw(const struct lw__retry *retry, uint32_t failures) {
    enum { DRAWS = 20000 };
    struct lw__random random;
    struct extremes seen = {.least = UINT64_MAX};
    lw__random_seed(&random, 7);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t wait = lw__retry_wait_ns(retry, failures, &random);
        seen.least = wait < seen.least ? wait : seen.least;
        seen.most = wait > seen.most ? wait : seen.most;
        seen.mean += (double)wait / DRAWS;
    }
    return seen;
}

TEST(jitter_goes_both_ways_by_up_to_its_percentage) {
    struct lw__retry retry = SETTLE(.min_ms = 100000);
    struct extremes seen = draw(&retry, 1);
    uint64_t wait = 100000 * LW__NS_PER_MS, spread = wait / 10;
    CHECK(seen.least >= wait - spread && seen.most <= wait + spread);
    CHECK(seen.least < wait - spread * 98 / 100 && seen.most > wait + spread * 98 / 100);
    CHECK(seen.mean > (double)wait * 0.999 && seen.mean < (double)wait * 1.001);
}

TEST(jitter_of_the_longest_wait_has_its_full_width) {
    struct lw__retry retry = SETTLE(.min_ms = LW_TIMEOUT_MS_MAX, .jitter_percent = 100);
    struct extremes seen = draw(&retry, 1);
    CHECK(seen.least < retry.min_ns / 100 && seen.most > retry.min_ns / 100 * 199);
}

TEST(jitter_may_exceed_the_max_by_its_percentage_and_no_more) {
    struct lw__retry retry = SETTLE(.min_ms = 1000, .max_ms = 9000, .jitter_percent = 50);
    struct extremes seen = draw(&retry, 100);
    CHECK(seen.most > 9000 * LW__NS_PER_MS && seen.most <= 13500 * LW__NS_PER_MS);
    CHECK(seen.least < 9000 * LW__NS_PER_MS && seen.least >= 4500 * LW__NS_PER_MS);
}

TEST(jitter_leaves_a_wait_of_a_millisecond) {
    struct lw__retry retry = SETTLE(.min_ms = 1, .max_ms = 1, .jitter_percent = 100);
    struct extremes seen = draw(&retry, 3);
    CHECK(seen.least >= LW__NS_PER_MS && seen.most <= 2 * LW__NS_PER_MS);
    CHECK(seen.most > LW__NS_PER_MS);
    retry = SETTLE(.min_ms = 20, .max_ms = 20, .jitter_percent = 100);
    CHECK(draw(&retry, 1).least >= LW__NS_PER_MS);
}

TEST(without_jitter_waits_are_exact) {
    static const int none[] = {LW_ZERO, -1};
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        struct lw__retry retry = SETTLE(.min_ms = 777, .jitter_percent = none[i]);
        struct extremes seen = draw(&retry, 2);
        assert_int_equal(seen.least, 1554 * LW__NS_PER_MS);
        assert_int_equal(seen.most, 1554 * LW__NS_PER_MS);
    }
}

TEST(the_same_seed_gives_the_same_waits) {
    struct lw__retry retry = SETTLE(.min_ms = 1000);
    struct lw__random one, same;
    lw__random_seed(&one, 5);
    lw__random_seed(&same, 5);
    for (uint32_t i = 1; i < 100; i++)
        assert_int_equal(lw__retry_wait_ns(&retry, i, &one), lw__retry_wait_ns(&retry, i, &same));
}

/* ---- policies ------------------------------------------------------------------------------ */

static void assert_is_default(const struct lw__retry *retry) {
    assert_int_equal(retry->min_ns, 1000 * LW__NS_PER_MS);
    assert_int_equal(retry->max_ns, 3600000 * LW__NS_PER_MS);
    assert_true(retry->factor == 2.0);
    assert_int_equal(retry->doublings, UINT32_MAX);
    assert_int_equal(retry->jitter_percent, 10);
    assert_int_equal(retry->attempts, UINT32_MAX);
    assert_int_equal(retry->crashes, 3);
    assert_true(retry->max_age_ns == LW__NEVER);
}

TEST(a_policy_that_says_nothing_has_the_defaults) {
    struct lw__retry retry = SETTLE(.min_ms = 0);
    assert_is_default(&retry);
    assert_status(lw__retry_settle(&retry, NULL, NULL), LW_OK);
    assert_is_default(&retry);
}

TEST(a_policy_keeps_what_it_says) {
    struct lw__retry retry =
        SETTLE(.min_ms = 2, .max_ms = 3, .factor = 4.5, .doublings = 6, .jitter_percent = 7,
               .attempts = 8, .max_age_ms = 9, .crashes = 10);
    assert_int_equal(retry.min_ns, 2 * LW__NS_PER_MS);
    assert_int_equal(retry.max_ns, 3 * LW__NS_PER_MS);
    assert_true(retry.factor == 4.5);
    assert_int_equal(retry.doublings, 6);
    assert_int_equal(retry.jitter_percent, 7);
    assert_int_equal(retry.attempts, 8);
    assert_int_equal(retry.max_age_ns, 9 * LW__NS_PER_MS);
    assert_int_equal(retry.crashes, 10);
}

TEST(minus_one_is_none_and_lw_zero_a_real_zero) {
    struct lw__retry retry = SETTLE(.max_ms = -1, .doublings = -1, .jitter_percent = -1,
                                    .attempts = -1, .max_age_ms = -1, .crashes = -1);
    assert_int_equal(retry.max_ns, (uint64_t)LW_TIMEOUT_MS_MAX * LW__NS_PER_MS);
    assert_int_equal(retry.doublings, UINT32_MAX);
    assert_int_equal(retry.jitter_percent, 0);
    assert_int_equal(retry.attempts, UINT32_MAX);
    assert_true(retry.max_age_ns == LW__NEVER);
    assert_int_equal(retry.crashes, UINT32_MAX);
    retry = SETTLE(.min_ms = LW_ZERO, .doublings = LW_ZERO, .jitter_percent = LW_ZERO,
                   .crashes = LW_ZERO);
    assert_int_equal(retry.min_ns, 0);
    assert_int_equal(retry.doublings, 0);
    assert_int_equal(retry.jitter_percent, 0);
    assert_int_equal(retry.crashes, 0);
}

TEST(the_default_max_is_never_below_min) {
    struct lw__retry retry = SETTLE(.min_ms = 3600001);
    assert_int_equal(retry.max_ns, 3600001 * LW__NS_PER_MS);
    retry = SETTLE(.min_ms = 3599999);
    assert_int_equal(retry.max_ns, 3600000 * LW__NS_PER_MS);
}

/* Refuses a policy, leaves *out alone and takes a NULL error. */
static lw_error refuse(const lw_retry_policy *policy) {
    struct lw__retry retry, untouched;
    lw_error err = {0};
    memset(&retry, 0x5a, sizeof retry);
    memset(&untouched, 0x5a, sizeof untouched);
    assert_status(lw__retry_settle(&retry, policy, &err), LW_EINVAL);
    assert_status(lw__retry_settle(&retry, policy, NULL), LW_EINVAL);
    assert_memory_equal(&retry, &untouched, sizeof retry);
    return err;
}

/* Each of the values for a field is refused with a sentence that has its name and the value. */
#define REFUSE_EACH(field, ...)                                                      \
    do {                                                                             \
        const int64_t values[] = {__VA_ARGS__};                                      \
        for (size_t i = 0; i < COUNT_OF(values); i++) {                              \
            lw_retry_policy policy = {.field = (__typeof__(policy.field))values[i]}; \
            char said[64];                                                           \
            snprintf(said, sizeof said, "retry." #field " is %lld, must be ",        \
                     (long long)values[i]);                                          \
            lw_error err = refuse(&policy);                                          \
            assert_sentence(&err, LW_EINVAL, said);                                  \
        }                                                                            \
    } while (0)

TEST(numbers_out_of_range_are_refused) {
    REFUSE_EACH(min_ms, -1, -3, INT64_MIN, LW_TIMEOUT_MS_MAX + 1, INT64_MAX);
    REFUSE_EACH(max_ms, LW_ZERO, -3, INT64_MIN, LW_TIMEOUT_MS_MAX + 1, INT64_MAX);
    REFUSE_EACH(doublings, -3, INT_MIN);
    REFUSE_EACH(jitter_percent, -3, 101, INT_MIN, INT_MAX);
    REFUSE_EACH(attempts, LW_ZERO, -3, INT_MIN);
    REFUSE_EACH(max_age_ms, LW_ZERO, -3, INT64_MIN, LW_TIMEOUT_MS_MAX + 1, INT64_MAX);
    REFUSE_EACH(crashes, -3, LW__RETRY_CRASHES_MAX + 1, INT_MIN, INT_MAX);
}

TEST(factors_below_one_and_those_that_are_no_number_are_refused) {
    static const struct {
        double factor;
        const char *seen;
    } bad[] = {{0.5, "0.5"},     {-1, "-1"},        {-2, "-2"},   {-INFINITY, "-inf"},
               {0.999, "0.999"}, {INFINITY, "inf"}, {NAN, "nan"}, {-1e308, "-1e+308"}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        lw_error err = refuse(&(lw_retry_policy){.factor = bad[i].factor});
        assert_sentence(&err, LW_EINVAL, "retry.factor is ");
        assert_sentence(&err, LW_EINVAL, bad[i].seen);
        assert_sentence(&err, LW_EINVAL, "1 or more");
    }
}

TEST(a_max_below_the_min_is_refused) {
    lw_error err = refuse(&(lw_retry_policy){.min_ms = 11, .max_ms = 10});
    assert_sentence(&err, LW_EINVAL, "retry.max_ms is 10");
    assert_sentence(&err, LW_EINVAL, "11");
    err = refuse(&(lw_retry_policy){.max_ms = 999}); /* below the default min */
    assert_sentence(&err, LW_EINVAL, "1000");
    assert_int_equal(SETTLE(.min_ms = LW_ZERO, .max_ms = 1).max_ns, LW__NS_PER_MS);
}
