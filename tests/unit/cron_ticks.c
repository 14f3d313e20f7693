/* Ticks: days, clock changes, intervals, and the ends of time. */
#include "calendar.h"

#include <stdlib.h>

/* ---- days ---------------------------------------------------------------------------------- */

TEST(days_of_month_and_week_are_joined_as_cron_does) {
    lw_zones *zones = open_test_zones();
    /* both restricted: either; 2026-03-13 is a Friday */
    EXPECT_TICKS(zones, "0 0 10 3 FRI", "UTC", "2026-03-05 00:00:00",
                 "2026-03-06 00:00:00 +00:00 UTC", "2026-03-10 00:00:00 +00:00 UTC",
                 "2026-03-13 00:00:00 +00:00 UTC");
    /* one is all days: the other alone */
    EXPECT_TICKS(zones, "0 0 * 3 FRI", "UTC", "2026-03-05 00:00:00",
                 "2026-03-06 00:00:00 +00:00 UTC", "2026-03-13 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 10 3 ?", "UTC", "2026-03-05 00:00:00",
                 "2026-03-10 00:00:00 +00:00 UTC", "2027-03-10 00:00:00 +00:00 UTC");
    /* one begins with *: both */
    EXPECT_TICKS(zones, "0 0 */5 3 FRI", "UTC", "2026-03-01 00:00:00",
                 "2026-03-06 00:00:00 +00:00 UTC", "2027-03-26 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 13 * */5", "UTC", "2026-03-01 00:00:00",
                 "2026-03-13 00:00:00 +00:00 UTC", "2026-09-13 00:00:00 +00:00 UTC",
                 "2026-11-13 00:00:00 +00:00 UTC");
    lw_zones_close(zones);
}

TEST(last_days_nearest_weekdays_and_nth_weekdays) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0 0 L * *", "UTC", "2028-01-15 00:00:00", "2028-01-31 00:00:00 +00:00 UTC",
                 "2028-02-29 00:00:00 +00:00 UTC", "2028-03-31 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 LW * *", "UTC", "2026-01-01 00:00:00", /* a Saturday and a Sunday */
                 "2026-01-30 00:00:00 +00:00 UTC", "2026-02-27 00:00:00 +00:00 UTC",
                 "2026-03-31 00:00:00 +00:00 UTC");
    /* 1 August 2026 is a Saturday, 31 May a Sunday, 15 November a Sunday */
    EXPECT_TICKS(zones, "0 0 1W 8 *", "UTC", "2026-01-01 00:00:00",
                 "2026-08-03 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 31W * *", "UTC", "2026-04-01 00:00:00",
                 "2026-05-29 00:00:00 +00:00 UTC", "2026-07-31 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 15W 11 *", "UTC", "2026-01-01 00:00:00",
                 "2026-11-16 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 * * 5L", "UTC", "2026-01-01 00:00:00",
                 "2026-01-30 00:00:00 +00:00 UTC", "2026-02-27 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 * * TUE#2", "UTC", "2026-09-01 00:00:00",
                 "2026-09-08 00:00:00 +00:00 UTC", "2026-10-13 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "0 0 * * MON#5", "UTC", "2026-01-01 00:00:00",
                 "2026-03-30 00:00:00 +00:00 UTC", "2026-06-29 00:00:00 +00:00 UTC");
    lw_zones_close(zones);
}

TEST(rare_days_are_found_across_a_century_without_a_leap_day) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0 0 29 2 *", "UTC", "2096-03-01 00:00:00",
                 "2104-02-29 00:00:00 +00:00 UTC");
    EXPECT_TICKS(zones, "30 2 29 2 */7", "Test/Berlin", "2088-03-01 00:00:00", /* Sundays */
                 "2128-02-29 02:30:00 +01:00 CET", "2156-02-29 02:30:00 +01:00 CET");
    EXPECT_TICKS(zones, "30 * 29 2 */7", "Test/Berlin", "2128-02-29 22:00:00",
                 "2128-02-29 23:30:00 +01:00 CET", "2156-02-29 00:30:00 +01:00 CET");
    lw_zones_close(zones);
}

TEST(seconds_are_the_first_of_six_fields) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "30,15 59 23 31 12 *", "UTC", "2026-06-01 00:00:00",
                 "2026-12-31 23:59:15 +00:00 UTC", "2026-12-31 23:59:30 +00:00 UTC",
                 "2027-12-31 23:59:15 +00:00 UTC");
    lw_zones_close(zones);
}

/* ---- a gap: 2026-03-29 02:00 to 03:00 in Test/Berlin --------------------------------------- */

TEST(with_fixed_hours_all_ticks_of_a_gap_become_one_after_it) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "*/10 2 * * *", "Test/Berlin", "2026-03-28 02:00:00",
                 "2026-03-29 03:00:00 +02:00 CEST", "2026-03-30 02:00:00 +02:00 CEST");
    EXPECT_TICKS(zones, "30 2 * * *", "Test/Berlin", "2026-03-28 01:00:00",
                 "2026-03-28 02:30:00 +01:00 CET", "2026-03-29 03:00:00 +02:00 CEST",
                 "2026-03-30 02:30:00 +02:00 CEST");
    lw_zones_close(zones);
}

TEST(the_tick_after_a_gap_is_merged_with_one_that_is_due_there) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0 1-4 * * *", "Test/Berlin", "2026-03-29 00:00:00",
                 "2026-03-29 03:00:00 +02:00 CEST", "2026-03-29 04:00:00 +02:00 CEST");
    EXPECT_TICKS(zones, "0,30 2,3 * * *", "Test/Berlin", "2026-03-29 00:00:00",
                 "2026-03-29 03:00:00 +02:00 CEST", "2026-03-29 03:30:00 +02:00 CEST",
                 "2026-03-30 02:00:00 +02:00 CEST");
    lw_zones_close(zones);
}

TEST(with_a_star_for_the_hour_a_gap_has_nothing) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "30 * * * *", "Test/Berlin", "2026-03-29 00:00:00",
                 "2026-03-29 01:30:00 +01:00 CET", "2026-03-29 03:30:00 +02:00 CEST");
    EXPECT_TICKS(zones, "0 */2 * * *", "Test/Berlin", "2026-03-28 23:30:00",
                 "2026-03-29 04:00:00 +02:00 CEST", "2026-03-29 06:00:00 +02:00 CEST");
    lw_zones_close(zones);
}

TEST(a_whole_day_that_is_left_out_is_one_tick_too) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0 8,20 * * *", "Test/Apia", "2011-12-30 00:00:00",
                 "2011-12-29 20:00:00 -10:00", "2011-12-31 00:00:00 +14:00",
                 "2011-12-31 08:00:00 +14:00");
    EXPECT_TICKS(zones, "0 */12 * * *", "Test/Apia", "2011-12-29 21:00:00",
                 "2011-12-29 12:00:00 -10:00", "2011-12-31 00:00:00 +14:00",
                 "2011-12-31 12:00:00 +14:00");
    EXPECT_TICKS(zones, "0 0 30 12 ?", "Test/Apia", "2011-01-01 00:00:00",
                 "2011-12-31 00:00:00 +14:00", "2012-12-30 00:00:00 +14:00");
    lw_zones_close(zones);
}

/* ---- an overlap: 2026-10-25 02:00 to 03:00, twice ------------------------------------------ */

TEST(with_fixed_hours_only_the_first_pass_of_an_overlap_has_ticks) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0,30 2,3 * * *", "Test/Berlin", "2026-10-24 23:00:00",
                 "2026-10-25 02:00:00 +02:00 CEST", "2026-10-25 02:30:00 +02:00 CEST",
                 "2026-10-25 03:00:00 +01:00 CET", "2026-10-25 03:30:00 +01:00 CET",
                 "2026-10-26 02:00:00 +01:00 CET");
    /* from the second pass on */
    EXPECT_TICKS(zones, "30 2 * * *", "Test/Berlin", "2026-10-25 01:00:00",
                 "2026-10-26 02:30:00 +01:00 CET");
    lw_zones_close(zones);
}

TEST(with_a_star_for_the_hour_both_passes_have_ticks) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "30 * * * *", "Test/Berlin", "2026-10-24 23:00:00",
                 "2026-10-25 01:30:00 +02:00 CEST", "2026-10-25 02:30:00 +02:00 CEST",
                 "2026-10-25 02:30:00 +01:00 CET", "2026-10-25 03:30:00 +01:00 CET");
    EXPECT_TICKS(zones, "15 */2 * * *", "Test/Berlin", "2026-10-24 23:00:00",
                 "2026-10-25 02:15:00 +02:00 CEST", "2026-10-25 02:15:00 +01:00 CET",
                 "2026-10-25 04:15:00 +01:00 CET");
    lw_zones_close(zones);
}

TEST(a_whole_day_may_come_twice) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "0 9 * * *", "Test/West", "2012-05-31 20:00:00",
                 "2012-06-01 09:00:00 +12:00", "2012-06-02 09:00:00 -12:00");
    EXPECT_TICKS(zones, "0 */12 1 6 *", "Test/West", "2012-05-01 00:00:00",
                 "2012-06-01 00:00:00 +12:00", "2012-06-01 12:00:00 +12:00",
                 "2012-06-01 00:00:00 -12:00", "2012-06-01 12:00:00 -12:00",
                 "2013-06-01 00:00:00 -12:00");
    lw_zones_close(zones);
}

TEST(half_an_hour_of_daylight_saving_time_is_treated_alike) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "15,45 1,2 * * *", "Test/Howe", "2026-04-04 12:00:00",
                 "2026-04-05 01:15:00 +11:00", "2026-04-05 01:45:00 +11:00",
                 "2026-04-05 02:15:00 +10:30", "2026-04-05 02:45:00 +10:30");
    EXPECT_TICKS(zones, "15,45 2 * * *", "Test/Howe", "2026-10-03 12:00:00",
                 "2026-10-04 02:30:00 +11:00", "2026-10-04 02:45:00 +11:00");
    lw_zones_close(zones);
}

TEST(intervals_do_not_care_about_clock_changes) {
    lw_zones *zones = open_test_zones();
    EXPECT_TICKS(zones, "@every 1h", "Test/Berlin", "2026-10-24 22:30:00",
                 "2026-10-25 01:00:00 +02:00 CEST", "2026-10-25 02:00:00 +02:00 CEST",
                 "2026-10-25 02:00:00 +01:00 CET", "2026-10-25 03:00:00 +01:00 CET");
    lw_zones_close(zones);
}

/* ---- intervals ----------------------------------------------------------------------------- */

TEST(intervals_are_aligned_to_1970_and_an_offset) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = NULL;
    int64_t tick;
    assert_status(
        lw_cron_parse(&cron, zones, "@every 250ms", LW_CRON_OPTIONS(.offset_ms = 1000000110), NULL),
        LW_OK);
    assert_status(lw_cron_next(cron, INT64_C(1700000000000), &tick), LW_OK);
    assert_int_equal(tick, INT64_C(1700000000110));
    assert_status(lw_cron_next(cron, tick, &tick), LW_OK);
    assert_int_equal(tick, INT64_C(1700000000360));
    assert_status(lw_cron_latest(cron, 0, tick + 249, &tick), LW_OK);
    assert_int_equal(tick, INT64_C(1700000000360));
    assert_int_equal(lw_cron_count(cron, tick, tick + 1000, 100), 4);
    assert_int_equal(lw_cron_count(cron, 0, LW_TICK_MS_MAX, LW_CRON_COUNT_MAX), LW_CRON_COUNT_MAX);
    assert_status(lw_cron_next(cron, -5, &tick), LW_OK);
    assert_int_equal(tick, 110);
    assert_status(lw_cron_latest(cron, -5, 109, &tick), LW_ENOTFOUND);
    lw_cron_close(cron);
    lw_zones_close(zones);
}

/* ---- the ends of time ---------------------------------------------------------------------- */

TEST(ticks_are_strictly_after_an_instant_to_the_millisecond) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = parse_cron(zones, "* * * * *", "UTC");
    int64_t tick;
    assert_status(lw_cron_next(cron, 59999, &tick), LW_OK);
    assert_int_equal(tick, 60000);
    assert_status(lw_cron_next(cron, 60000, &tick), LW_OK);
    assert_int_equal(tick, 120000);
    assert_status(lw_cron_next(cron, 60001, &tick), LW_OK);
    assert_int_equal(tick, 120000);
    assert_status(lw_cron_latest(cron, 60000, 119999, &tick), LW_ENOTFOUND);
    assert_status(lw_cron_latest(cron, 59999, 119999, &tick), LW_OK);
    assert_int_equal(tick, 60000);
    assert_int_equal(lw_cron_count(cron, 59999, 120000, 10), 2);
    assert_int_equal(lw_cron_count(cron, 60000, 119999, 10), 0);
    assert_int_equal(lw_cron_count(cron, 0, 3600000, 10), 10);
    lw_cron_close(cron);
    lw_zones_close(zones);
}

TEST(ticks_lie_between_1970_and_9999) {
    lw_zones *zones = open_test_zones();
    static const char *const names[] = {"UTC", "+14:00", "-12:00", "Test/Berlin"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lw_cron *cron = parse_cron(zones, "0 * * * *", names[i]);
        int64_t tick;
        assert_status(lw_cron_next(cron, INT64_MIN, &tick), LW_OK);
        assert_int_equal(tick, 0);
        assert_status(lw_cron_latest(cron, INT64_MIN, 0, &tick), LW_OK);
        assert_int_equal(tick, 0);
        assert_status(lw_cron_latest(cron, INT64_MIN, -1, &tick), LW_ENOTFOUND);
        assert_status(lw_cron_next(cron, LW_TICK_MS_MAX - 3600000, &tick), LW_OK);
        assert_int_equal(tick, LW_TICK_MS_MAX + 1 - 3600000);
        assert_status(lw_cron_next(cron, tick, &tick), LW_ENOTFOUND);
        assert_status(lw_cron_next(cron, INT64_MAX, &tick), LW_ENOTFOUND);
        assert_status(lw_cron_latest(cron, 0, INT64_MAX, &tick), LW_OK);
        assert_int_equal(tick, LW_TICK_MS_MAX + 1 - 3600000);
        assert_int_equal(lw_cron_count(cron, LW_TICK_MS_MAX - 7200000, INT64_MAX, 10), 2);
        lw_cron_close(cron);
    }
    lw_zones_close(zones);
}

TEST(no_expression_takes_steps_minute_by_minute) {
    /* forty years and back again for each of many instants would not end in time otherwise */
    lw_zones *zones = open_test_zones();
    lw_cron *cron = parse_cron(zones, "59 59 23 29 2 */7", "Test/Berlin");
    int64_t tick, latest;
    for (int64_t at = 0; at < test_scale(100000, 1000000); at++) {
        assert_status(lw_cron_next(cron, at * 10000000, &tick), LW_OK);
        assert_status(lw_cron_latest(cron, 0, tick, &latest), LW_OK);
        assert_int_equal(latest, tick);
    }
    lw_cron_close(cron);
    lw_zones_close(zones);
}
