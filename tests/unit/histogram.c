/* Histograms count every value in the right bucket and tell quantiles to within 12.5 %. */
#include "test.h"

#include "base/histogram.h"
#include "base/random.h"

#include <pthread.h>
#include <stdlib.h>

enum { LAST = LW__HISTOGRAM_BUCKETS - 1 };

TEST(bucket_bounds_rise_and_enclose_their_values) {
    for (unsigned i = 0; i < LAST; i++) {
        uint64_t start = lw__histogram_bucket_start(i);
        uint64_t end = lw__histogram_bucket_start(i + 1);
        assert_true(start < end);
        assert_int_equal(lw__histogram_bucket(start), i);
        assert_int_equal(lw__histogram_bucket(end - 1), i);
        assert_true(end - start <= 1 || end - start <= start / 4);
    }
}

TEST(the_last_bucket_holds_everything_from_2_to_the_42_on) {
    assert_int_equal(lw__histogram_bucket_start(LAST), UINT64_C(1) << 42);
    assert_int_equal(lw__histogram_bucket((UINT64_C(1) << 42) - 1), LAST - 1);
    assert_int_equal(lw__histogram_bucket(UINT64_C(1) << 42), LAST);
    assert_int_equal(lw__histogram_bucket(UINT64_MAX), LAST);
    assert_int_equal(lw__histogram_bucket_start(LAST + 1), UINT64_MAX);
}

TEST(an_empty_histogram_has_quantiles_of_zero) {
    struct lw__histogram_snapshot snapshot = {0};
    assert_int_equal(lw__histogram_quantile(&snapshot, 0), 0);
    assert_int_equal(lw__histogram_quantile(&snapshot, 0.5), 0);
    assert_int_equal(lw__histogram_quantile(&snapshot, 1), 0);
}

TEST(merging_adds_counts_and_sums_and_keeps_the_maximum) {
    struct lw__histogram one = {0}, two = {0};
    struct lw__histogram_snapshot snapshot = {0};
    lw__histogram_record(&one, 0);
    lw__histogram_record(&one, 3);
    lw__histogram_record(&two, 1000);
    lw__histogram_record(&two, 3);
    lw__histogram_merge(&snapshot, &two);
    lw__histogram_merge(&snapshot, &one);
    assert_int_equal(snapshot.count, 4);
    assert_int_equal(snapshot.sum_ns, 1006);
    assert_int_equal(snapshot.max_ns, 1000);
    assert_int_equal(snapshot.counts[3], 2);
}

TEST(the_maximum_is_exact_even_in_the_last_bucket) {
    struct lw__histogram histogram = {0};
    struct lw__histogram_snapshot snapshot = {0};
    lw__histogram_record(&histogram, 97);
    lw__histogram_record(&histogram, 111); /* in the same bucket */
    lw__histogram_merge(&snapshot, &histogram);
    assert_int_equal(lw__histogram_quantile(&snapshot, 1), 111);

    histogram = (struct lw__histogram){0};
    snapshot = (struct lw__histogram_snapshot){0};
    lw__histogram_record(&histogram, 5);
    lw__histogram_record(&histogram, UINT64_MAX / 2);
    lw__histogram_merge(&snapshot, &histogram);
    assert_int_equal(lw__histogram_quantile(&snapshot, 1), UINT64_MAX / 2);
    assert_int_equal(lw__histogram_quantile(&snapshot, 0.9), UINT64_MAX / 2);
    assert_int_equal(lw__histogram_quantile(&snapshot, 0.5), 5);
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Compares with the exact quantile of the sorted values. */
TEST(quantiles_are_within_an_eighth_of_the_exact_ones) {
    enum { VALUES = 20000 };
    static uint64_t values[VALUES];
    static const double quantiles[] = {0, 0.001, 0.1, 0.25, 0.5, 0.9, 0.99, 0.999, 1};
    struct lw__random random;
    lw__random_seed(&random, 7);

    for (int shift = 22; shift < 62; shift++) {
        struct lw__histogram histogram = {0};
        struct lw__histogram_snapshot snapshot = {0};
        for (int i = 0; i < VALUES; i++) { /* spread over all magnitudes up to 64 - shift bits */
            values[i] = lw__random_next(&random) >> shift;
            values[i] >>= lw__random_below(&random, (uint64_t)(64 - shift));
            lw__histogram_record(&histogram, values[i]);
        }
        lw__histogram_merge(&snapshot, &histogram);
        qsort(values, VALUES, sizeof *values, compare);
        for (size_t i = 0; i < sizeof quantiles / sizeof *quantiles; i++) {
            double rank = quantiles[i] * VALUES;
            size_t at = rank <= 1 ? 0 : (size_t)rank - ((double)(size_t)rank == rank);
            uint64_t exact = values[at];
            uint64_t told = lw__histogram_quantile(&snapshot, quantiles[i]);
            assert_in_range(told, exact - exact / 8, exact + exact / 8);
        }
    }
}

static void *record_many(void *arg) {
    for (uint64_t i = 0; i < 100000; i++)
        lw__histogram_record(arg, i);
    return NULL;
}

TEST(reading_while_another_thread_records_never_goes_back) {
    static struct lw__histogram histogram;
    pthread_t writer;
    uint64_t count = 0;
    assert_int_equal(pthread_create(&writer, NULL, record_many, &histogram), 0);
    while (count < 100000) {
        struct lw__histogram_snapshot snapshot = {0};
        lw__histogram_merge(&snapshot, &histogram);
        assert_true(snapshot.count >= count);
        count = snapshot.count;
    }
    pthread_join(writer, NULL);
    assert_int_equal(count, 100000);
}
