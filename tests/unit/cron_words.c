/* Expressions in words, for people. */
#include "calendar.h"

#include <stdio.h>
#include <string.h>

static void expect_words(const char *expression, const char *wanted) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = parse_cron(zones, expression, "UTC");
    char text[LW_CRON_WORDS_MAX];
    int length = lw_cron_describe(cron, text, sizeof text);
    assert_string_equal(text, wanted);
    assert_int_equal(length, strlen(wanted));
    lw_cron_close(cron);
    lw_zones_close(zones);
}

TEST(times_of_the_day_are_told_one_by_one_if_they_are_few) {
    expect_words("0 3 * * *", "at 03:00");
    expect_words("0 3,15 * * *", "at 03:00 and 15:00");
    expect_words("30,0 3,15 * * *", "at 03:00, 03:30, 15:00 and 15:30");
    expect_words("15 30 23 * * *", "at 23:30:15");
}

TEST(repeated_times_are_told_by_their_step) {
    expect_words("* * * * *", "every minute");
    expect_words("*/5 * * * *", "every 5 minutes");
    expect_words("@hourly", "every hour");
    expect_words("0 */2 * * *", "every 2 hours");
    expect_words("* * * * * *", "every second");
    expect_words("*/10 * * * * *", "every 10 seconds");
    expect_words("5 * * * *", "at minute 5 of every hour");
    expect_words("0,5-9 * * * *", "at minutes 0 and 5 to 9 of every hour");
    expect_words("*/5 9-17 * * *", "every 5 minutes in the hours 9 to 17");
    expect_words("30 * 3 * * *", "at second 30 of every minute in the hour 3");
    expect_words("*/25 * * * *", "at minutes 0, 25 and 50 of every hour");
    expect_words("0 9-17 * * *", "at minute 0 in the hours 9 to 17");
    expect_words("* */6 * * *", "every minute in every 6th hour");
}

TEST(days_are_told_as_they_are_joined) {
    expect_words("0 3 * * MON-FRI", "at 03:00 on Monday to Friday");
    expect_words("0 3 * * 0,6", "at 03:00 on Saturday and Sunday");
    expect_words("0 3 1,2,3,15 * *", "at 03:00 on the 1st to 3rd and 15th of the month");
    expect_words("0 3 13 * FRI", "at 03:00 on the 13th of the month or on Friday");
    expect_words("0 3 13 * */5", "at 03:00 on Friday and Sunday if that is the 13th of the month");
    expect_words("0 3 1-31 * MON", "at 03:00");
    expect_words("0 3 L,LW,15W,22 * ?", "at 03:00 on the 22nd or the last day or the weekday "
                                        "nearest to the 15th or the last weekday of the month");
    expect_words("0 3 ? * TUE#2,5L", "at 03:00 on the 2nd Tuesday or the last Friday of the month");
    expect_words("0 3 11 1,6-8 *", "at 03:00 on the 11th of the month in January and June to "
                                   "August");
    expect_words("@yearly", "at 00:00 on the 1st of the month in January");
}

TEST(intervals_are_told_in_units) {
    expect_words("@every 90s", "every 90 seconds");
    expect_words("@every 5400s", "every 1 hour 30 minutes");
    expect_words("@every 1h", "every hour");
    expect_words("@every 250ms", "every 250 ms");
    expect_words("@every 2d", "every 2 days");
}

TEST(words_that_do_not_fit_are_cut_and_their_length_is_told) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = parse_cron(zones, "0 3 * * MON-FRI", "UTC");
    char text[8] = "xxxxxxx";
    assert_int_equal(lw_cron_describe(cron, NULL, 0), 28);
    assert_int_equal(lw_cron_describe(cron, text, 6), 28);
    assert_string_equal(text, "at 03");
    assert_int_equal(lw_cron_describe(cron, text, 1), 28);
    assert_string_equal(text, "");
    lw_cron_close(cron);
    lw_zones_close(zones);
}

TEST(the_longest_words_fit_into_the_room_that_is_promised) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron =
        parse_cron(zones,
                   "1-59/2,8 1-59/2,8 1-23/2,8 1-31/2,8,L,LW,1W,3W,5W,7W,9W,11W,13W,"
                   "15W,17W,19W,21W,23W,25W,27W,29W,31W 1-12/2,8 "
                   "0#1,0#2,0#3,0#4,0#5,1#1,1#2,1#3,1#4,1#5,3#1,3#2,3#3,3#4,3L,5L,0-5/2",
                   "UTC");
    assert_true(lw_cron_describe(cron, NULL, 0) < LW_CRON_WORDS_MAX);
    lw_cron_close(cron);
    lw_zones_close(zones);
}
