/* How long things took, counted in buckets. */
#include "cli/latency.h"
#include "test.h"

#include <string.h>

static struct lw__latency latency;

TEST(nothing_took_no_time) {
    assert_int_equal(lw__latency_quantile(&latency, 0.5), 0);
    assert_int_equal(lw__latency_quantile(&latency, 1), 0);
}

TEST(small_values_are_told_exactly) {
    for (uint64_t us = 1; us <= 50; us++)
        lw__latency_add(&latency, us);
    assert_int_equal(latency.count, 50);
    assert_int_equal(lw__latency_quantile(&latency, 0.5), 25);
    assert_int_equal(lw__latency_quantile(&latency, 0.9), 45);
    assert_int_equal(lw__latency_quantile(&latency, 1), 50);
}

/* One value alone is every quantile; so each bucket shows how far beside the truth it is. */
TEST(no_value_is_told_more_than_3_percent_wrong) {
    for (uint64_t us = 1; us < UINT64_C(1) << 36; us += us / 7 + 1) {
        memset(&latency, 0, sizeof latency);
        lw__latency_add(&latency, us);
        lw__latency_add(&latency, UINT64_C(1) << 40);
        uint64_t told = lw__latency_quantile(&latency, 0.5);
        CHECK(told >= us && (double)told <= (double)us * 1.0313);
    }
}

TEST(what_took_longest_is_told_as_it_was) {
    lw__latency_add(&latency, 1000);
    lw__latency_add(&latency, UINT64_MAX);
    assert_true(lw__latency_quantile(&latency, 1) == UINT64_MAX);
    assert_true(latency.max_us == UINT64_MAX);
    assert_in_range(lw__latency_quantile(&latency, 0.5), 1000, 1031);
}

TEST(merged_ones_are_as_if_they_had_been_one) {
    static struct lw__latency other, both;
    for (uint64_t us = 1; us < 100000; us *= 3) {
        lw__latency_add(&latency, us);
        lw__latency_add(&other, us * 2);
        lw__latency_add(&both, us);
        lw__latency_add(&both, us * 2);
    }
    lw__latency_merge(&latency, &other);
    assert_memory_equal(&latency, &both, sizeof both);
}
