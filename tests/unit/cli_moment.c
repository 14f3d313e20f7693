/* Points in time on the command line: read, and shown; and the caret below an expression. */
#include "cli/cron.h"
#include "cli/moment.h"
#include "pools.h"

static const int64_t now = INT64_C(1774600000000);

static lw_error err;

/* Reads a moment for the clocks of a zone; -1: it was refused, and err says why. */
static int64_t moment(const char *text, const char *zone_name) {
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    int64_t at = 0;
    assert_status(lw_zones_open(&zones, NULL, &err), LW_OK);
    assert_status(lw_zone_open(&zone, zones, zone_name, &err), LW_OK);
    err = (lw_error){0};
    int rc = lw__moment_read(text, zones, zone, now, &at, &err);
    lw_zone_close(zone);
    lw_zones_close(zones);
    return rc == LW_OK ? at : -1;
}

#define MINUTES(days, hours, minutes) \
    (((INT64_C(24) * (days) + (hours)) * 60 + (minutes)) * INT64_C(60000))

TEST(dates_are_read_in_the_zone_that_they_are_for) {
    assert_int_equal(moment("1970-01-02", "UTC"), MINUTES(1, 0, 0));
    assert_int_equal(moment("1970-01-02 03:04", "UTC"), MINUTES(1, 3, 4));
    assert_int_equal(moment("1970-01-02T03:04:05", "UTC"), MINUTES(1, 3, 4) + 5000);
    assert_int_equal(moment("1970-01-02 03:04", "+02:00"), MINUTES(1, 1, 4));
    assert_int_equal(moment("2026-03-27", "Europe/Berlin"), INT64_C(1774566000000));
    assert_int_equal(moment("2000-02-29", "UTC"), INT64_C(951782400000));
    assert_int_equal(moment("9999-12-31", "UTC"), INT64_C(253402214400000));
}

TEST(a_zone_behind_a_date_is_the_one_that_counts) {
    assert_int_equal(moment("1970-01-02Z", "Europe/Berlin"), MINUTES(1, 0, 0));
    assert_int_equal(moment("1970-01-02 03:04Z", "Europe/Berlin"), MINUTES(1, 3, 4));
    assert_int_equal(moment("1970-01-02T03:04:05+02:00", "Europe/Berlin"), MINUTES(1, 1, 4) + 5000);
    assert_int_equal(moment("1970-01-02 03:04 -03:30", "UTC"), MINUTES(1, 6, 34));
    assert_int_equal(moment("2026-07-01 12:00 Europe/Berlin", "UTC"), INT64_C(1782900000000));
    assert_int_equal(moment("2026-07-01 Europe/Berln", "UTC"), -1);
    assert_sentence(&err, LW_ENOTFOUND, "Europe/Berlin");
}

TEST(now_and_milliseconds_are_moments_too) {
    assert_int_equal(moment("now", "UTC"), now);
    assert_int_equal(moment("1774700000000", "UTC"), INT64_C(1774700000000));
    assert_int_equal(moment("253402300799999", "UTC"), LW_TICK_MS_MAX);
    assert_int_equal(moment("253402300800000", "UTC"), -1);
    assert_int_equal(moment("99999999999999999999999999", "UTC"), -1);
    assert_sentence(&err, LW_EINVAL, "is more than");
}

/* 29 March 2026: 02:00 to 03:00 is left out; 25 October: it comes twice. */
TEST(times_that_clocks_leave_out_or_show_twice_are_one_instant) {
    const int64_t forward = INT64_C(1774746000000), back = INT64_C(1792890000000);
    assert_int_equal(moment("2026-03-29 01:59", "Europe/Berlin"), forward - 60000);
    assert_int_equal(moment("2026-03-29 02:00", "Europe/Berlin"), forward);
    assert_int_equal(moment("2026-03-29 02:30", "Europe/Berlin"), forward);
    assert_int_equal(moment("2026-03-29 03:00", "Europe/Berlin"), forward);
    assert_int_equal(moment("2026-03-29 03:01", "Europe/Berlin"), forward + 60000);
    assert_int_equal(moment("2026-10-25 02:30", "Europe/Berlin"), back - 1800000);
    assert_int_equal(moment("2026-10-25 03:00", "Europe/Berlin"), back + 3600000);
    assert_int_equal(moment("2011-12-30 12:00", "Pacific/Apia"), INT64_C(1325239200000));
}

TEST(what_is_no_moment_is_refused) {
    static const char *const wrong[] = {"",
                                        "tomorrow",
                                        "2026",
                                        "2026-13-01",
                                        "2026-00-01",
                                        "2026-02-29",
                                        "2026-04-31",
                                        "2026-4-1",
                                        "1969-12-31",
                                        "2026-03-27 24:00",
                                        "2026-03-27T",
                                        "2026-03-27 12:60",
                                        "2026-03-27 12",
                                        "2026-03-27  1",
                                        "-1",
                                        "12345678x",
                                        "\x1b[31m2026-03-27"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(moment(wrong[i], "UTC"), -1);
    assert_int_equal(moment("\x1b[31m", "UTC"), -1);
    assert_sentence(&err, LW_EINVAL, "\\x1b[31m\" is no time");
}

TEST(moments_are_shown_in_their_zone_and_in_utc) {
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    assert_status(lw_zones_open(&zones, NULL, NULL), LW_OK);
    assert_status(lw_zone_open(&zone, zones, "Europe/Berlin", NULL), LW_OK);
    int64_t at = INT64_C(1774746000000);
    assert_string_equal(lw__moment_in(zone, at, false).text, "Sun 2026-03-29 03:00 CEST");
    assert_string_equal(lw__moment_in(zone, at + 5250, true).text,
                        "Sun 2026-03-29 03:00:05.250 CEST");
    assert_string_equal(lw__moment_utc(at, false).text, "2026-03-29 01:00");
    CHECK(!lw__moment_has_seconds(at) && lw__moment_has_seconds(at + 1));
    lw_zone_close(zone);
    lw_zones_close(zones);
}

TEST(clock_changes_are_told_by_what_clocks_show_before_them) {
    const lw_zone_change forward = {INT64_C(1774746000000), 3600, 7200};
    const lw_zone_change back = {INT64_C(1792890000000), 7200, 3600};
    const lw_zone_change half = {INT64_C(1774746000000), 39600, 37800};
    assert_string_equal(lw__change_words_of(&forward).text,
                        "clocks go forward 1 h at 02:00 on 2026-03-29");
    assert_string_equal(lw__change_words_of(&back).text,
                        "clocks go back 1 h at 03:00 on 2026-10-25");
    assert_string_equal(lw__change_words_of(&half).text,
                        "clocks go back 30 min at 12:00 on 2026-03-29");
}

/* ---- carets --------------------------------------------------------------------------------- */

static char memory[4096];

static const char *caret(const char *expression, const char *sentence) {
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, memory, sizeof memory);
    lw__cron_put_caret(&out, expression, sentence);
    lw__buffer_put_byte(&out, '\0');
    return out.data;
}

static const char *caret_of(const char *expression) {
    lw_zones *zones = NULL;
    lw_cron *cron = NULL;
    assert_status(lw_zones_open(&zones, NULL, NULL), LW_OK);
    assert_status(lw_cron_parse(&cron, zones, expression, NULL, &err), LW_EINVAL);
    lw_zones_close(zones);
    return caret(expression, err.message);
}

TEST(a_caret_stands_below_the_mistake) {
    assert_string_equal(caret_of("0 25 * * *"), "  0 25 * * *\n    ^\n");
    assert_string_equal(caret_of("61 * * * *"), "  61 * * * *\n  ^\n");
    assert_string_equal(caret_of("0 0 * * fry"), "  0 0 * * fry\n          ^\n");
    assert_string_equal(caret_of("@every 9q"), "  @every 9q\n         ^\n");
    assert_string_equal(caret_of("0 0 1, * *"), "  0 0 1, * *\n        ^\n");
}

/* A tab is shown as four characters, and a letter of two bytes is one. */
TEST(a_caret_is_below_what_is_shown_and_not_below_what_was_given) {
    assert_string_equal(caret_of("0\t25 * * *"), "  0\\x0925 * * *\n       ^\n");
    assert_string_equal(caret("\xc3\xa4 x", "hour field, position 4: \"x\""),
                        "  \xc3\xa4 x\n    ^\n");
}

TEST(without_a_place_there_is_no_caret) {
    assert_string_equal(caret_of("0 0 30 2 *"), "");
    assert_string_equal(caret_of("1, position 3 2"), ""); /* words of the expression name none */
    assert_string_equal(caret("short", "hour field, position 99: \"x\""), "");
    assert_string_equal(caret("short", "hour field, position x"), "");
}
