/* Cron expressions: what is read, and the sentences about what is not. */
#include "calendar.h"
#include "pools.h"

#include "calendar/cron_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two expressions that mean the same. */
static void expect_same(const char *a, const char *b) {
    lw_zones *zones = open_test_zones();
    lw_cron *one = parse_cron(zones, a, "UTC"), *other = parse_cron(zones, b, "UTC");
    if (memcmp(one, other, sizeof *one) != 0) {
        fprintf(stderr, "\"%s\" is not \"%s\"\n", a, b);
        abort();
    }
    lw_cron_close(one);
    lw_cron_close(other);
    lw_zones_close(zones);
}

/* It is refused with a sentence that has these words. */
static void expect_refused(const char *expression, const char *words) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = NULL;
    lw_error err = {0};
    assert_status(lw_cron_parse(&cron, zones, expression, NULL, &err), LW_EINVAL);
    assert_status(lw_cron_parse(&cron, zones, expression, NULL, NULL), LW_EINVAL);
    assert_null(cron);
    assert_sentence(&err, LW_EINVAL, words);
    lw_zones_close(zones);
}

/* ---- what is read -------------------------------------------------------------------------- */

TEST(five_fields_are_six_at_second_zero) {
    expect_same("1 2 3 4 5", "0 1 2 3 4 5");
    expect_same("  1\t2  3 4 5 ", "1 2 3 4 5");
}

TEST(lists_ranges_and_steps_add_up) {
    expect_same("1-5 * * * *", "1,2,3,4,5 * * * *");
    expect_same("*/15 * * * *", "0,15,30,45 * * * *");
    expect_same("5/15 * * * *", "5,20,35,50 * * * *");
    expect_same("10-30/10,7,7 * * * *", "7,10,20,30 * * * *");
    expect_same("* * * */5 *", "* * * 1,6,11 *");
    expect_same("0-59 * * * *", "* * * * *");
}

TEST(names_stand_for_months_and_weekdays_in_any_case) {
    expect_same("0 0 1 jan,MAR-May,Dec *", "0 0 1 1,3-5,12 *");
    expect_same("0 0 * * MON-FRI", "0 0 * * 1-5");
    expect_same("0 0 * * sun,Sat", "0 0 * * 0,6");
}

TEST(zero_and_seven_are_sunday) {
    expect_same("0 0 * * 7", "0 0 * * 0");
    expect_same("0 0 * * 5-7", "0 0 * * 5,6,0");
    expect_same("0 0 * * SAT-SUN", "0 0 * * 6,0");
    expect_same("0 0 * * 0-7", "0 0 * * 0-6");
    expect_same("0 0 * * 7L", "0 0 * * SUNL");
    expect_same("0 0 * * 7#2", "0 0 * * sun#2");
    expect_same("0 0 * * 5/2", "0 0 * * 5,7");
}

TEST(a_question_mark_is_a_star_of_the_day_fields) {
    expect_same("0 0 ? * 1", "0 0 * * 1");
    expect_same("0 0 1 * ?", "0 0 1 * *");
    expect_same("0 0 ? * ?", "0 0 * * *");
}

TEST(last_days_and_nearest_weekdays_are_read_in_lists) {
    expect_same("0 0 l,15w,lW,3 * ?", "0 0 3,LW,15W,L * ?");
    expect_same("0 0 * * FRIL,TUE#2", "0 0 * * 2#2,5L");
}

TEST(words_are_their_expressions) {
    expect_same("@hourly", "0 * * * *");
    expect_same("@daily", "0 0 * * *");
    expect_same("@midnight", "0 0 * * *");
    expect_same("@weekly", "0 0 * * 0");
    expect_same("@monthly", "0 0 1 * *");
    expect_same("@yearly", "0 0 1 1 *");
    expect_same(" @Annually ", "0 0 1 1 *");
}

TEST(intervals_are_read_with_units) {
    expect_same("@every 90s", "@every 1m30s");
    expect_same("@every 1w", "@every 7d");
    expect_same("@every 100ms", "@EVERY \t 100ms ");
    expect_same("@every 1d2h3m4s5ms", "@every 93784005ms");
}

/* ---- what is refused ----------------------------------------------------------------------- */

TEST(a_sentence_names_the_field_the_position_and_what_was_wanted) {
    expect_refused("60 * * * *", "minute field, position 1: \"60\" is too large; wanted 0 to 59");
    expect_refused("60 * * * * *", "second field, position 1: \"60\" is too large");
    expect_refused("0 24 * * *", "hour field, position 3: \"24\" is too large; wanted 0 to 23");
    expect_refused("0 0 0 * *", "day of month field, position 5: \"0\" is too small; wanted 1 to");
    expect_refused("0 0 1-32 * *", "day of month field, position 7: \"1-32\" is too large");
    expect_refused("0 0 * 1,13 *", "month field, position 9: \"13\" is too large; wanted 1 to 12");
    expect_refused("0 0 * * 8", "day of week field, position 9: \"8\" is too large; wanted 0 to 7");
    expect_refused("0 0 * * -1", "position 9: \"-1\" is no number here");
    expect_refused("0 x * * *", "hour field, position 3: \"x\" has letters");
    expect_refused("0 1,,2 * * *", "hour field, position 5: \"\" is empty");
    expect_refused("0 1, * * *", "hour field, position 5: \"\" is empty");
    expect_refused("0 1- * * *", "hour field, position 5: \"1-\" ends too early");
    expect_refused("0 1-2-3 * * *", "hour field, position 6: \"1-2-3\" goes on with '-'");
    expect_refused("*5 * * * *", "minute field, position 2: \"*5\" goes on with '5'");
    expect_refused("0 0 * * \x1b[m", "\\x1b");
}

TEST(an_unknown_name_is_told_with_the_nearest_one) {
    expect_refused("0 0 * * MOM", "position 9: \"MOM\" is no name (did you mean MON?)");
    expect_refused("0 0 * JUM *", "month field, position 7: \"JUM\" is no name (did you mean J");
    expect_refused("@dayly", "\"@dayly\" is no word for a schedule (did you mean @daily?)");
    expect_refused("@reboot", "submit a task when the program starts");
    expect_refused("@daily 5", "stands alone");
}

TEST(the_number_of_fields_is_told) {
    expect_refused("", "has 0 fields, wanted 5 or 6");
    expect_refused("* * * *", "has 4 fields, wanted 5 or 6");
    expect_refused("0 0 0 1 1 ? 2026", "has more than 6 fields");
    expect_refused("TZ=Europe/Berlin 0 3 * * *", "zone, which is given apart");
}

TEST(bounds_are_checked_before_anything_is_expanded) {
    expect_refused("0-4000000000 * * * *", "position 3: \"0-4000000000\" is too large");
    expect_refused("*/99999999999999999999 * * * *", "has a step that is not 1 to 59");
    expect_refused("*/0 * * * *", "has a step that is not 1 to 59");
    expect_refused("*/90 * * * *", "for longer intervals there is @every");
    expect_refused("*/x * * * *", "has no number as its step");
    expect_refused("*/ * * * *", "has no number as its step");
}

TEST(an_expression_has_up_to_255_bytes) {
    char text[LW_CRON_EXPRESSION_MAX + 2];
    memset(text, ' ', sizeof text);
    memcpy(text, "* * * * *", 9);
    text[LW_CRON_EXPRESSION_MAX + 1] = 0;
    expect_refused(text, "has more than 255 bytes");
    text[LW_CRON_EXPRESSION_MAX] = 0;
    expect_same(text, "* * * * *");
}

TEST(a_range_that_runs_backwards_is_told_with_how_to_write_it) {
    expect_refused("0 22-2 * * *", "\"22-2\" runs backwards (write 22-23,0-2)");
    expect_refused("0 0 * * FRI-MON", "\"FRI-MON\" runs backwards (write 5-6,0-1)");
}

TEST(the_letters_of_the_day_fields_stand_where_they_mean_something) {
    expect_refused("0 0 L-3 * *", "position 6: \"L-3\" is not L or LW alone");
    expect_refused("0 0 WL * *", "\"WL\" has letters");
    expect_refused("0 0 32W * *", "\"32W\" is too large");
    expect_refused("0 0 1-5W * *", "is not one day with W behind it");
    expect_refused("0 0 W * *", "\"W\" has letters");
    expect_refused("0 0 * * L", "write 5L for the last Friday");
    expect_refused("0 0 * * 5#6", "is not one day with #1 to #5 behind it");
    expect_refused("0 0 * * 5#", "is not one day with #1 to #5 behind it");
    expect_refused("0 0 * * MON-FRI#2", "is not one day with #1 to #5 behind it");
    expect_refused("0 L * * *", "hour field, position 3: \"L\" has letters");
    expect_refused("? * * * *", "is for the day fields only");
    expect_refused("0 0 ?,5 * *", "stands alone");
}

TEST(what_never_comes_is_refused_with_the_reason) {
    expect_refused("0 0 30 2 *", "no month with a day 30");
    expect_refused("0 0 31 2,4,6,9,11 ?", "no month with a day 31");
    expect_refused("0 0 30W FEB *", "no month with a day 30");
    expect_refused("0 0 */30 2 5#5", "no day is both");
    expect_refused("0 0 LW * */7", "no day is both"); /* the last weekday, if it is a Sunday */
    expect_same("0 0 30 2 1", "0 0 30 2 1");          /* the Mondays of February */
}

TEST(intervals_that_are_none_are_refused) {
    expect_refused("@every 50ms", "@every, position 8: \"50ms\" is too short; wanted 100 ms");
    expect_refused("@every 0s", "is too short");
    expect_refused("@every 10000d", "is too long");
    expect_refused("@every 99999999999999999999999h", "is too long");
    expect_refused("@every", "\"\" is no interval");
    expect_refused("@every 5", "is no interval");
    expect_refused("@every s", "is no interval");
    expect_refused("@every 5s5m", "is no interval");
    expect_refused("@every 5s 5m", "is no interval");
    expect_refused("@every -5s", "is no interval");
    expect_refused("@every 1.5h", "is no interval");
}

TEST(bad_arguments_are_refused) {
    lw_zones *zones = open_test_zones();
    lw_cron *cron = NULL;
    lw_error err = {0};
    int64_t tick;
    assert_status(lw_cron_parse(NULL, zones, "@daily", NULL, &err), LW_EINVAL);
    assert_status(lw_cron_parse(&cron, NULL, "@daily", NULL, &err), LW_EINVAL);
    assert_status(lw_cron_parse(&cron, zones, NULL, NULL, &err), LW_EINVAL);
    assert_status(lw_cron_parse(&cron, zones, "@daily", &(lw_cron_options){.zone = "UTC"}, &err),
                  LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "use LW_CRON_OPTIONS(...)");
    assert_status(lw_cron_parse(&cron, zones, "@every 1s", LW_CRON_OPTIONS(.offset_ms = -1), &err),
                  LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "offset_ms is -1, must be 0 or more");
    assert_status(lw_cron_next(NULL, 0, &tick), LW_EINVAL);
    assert_status(lw_cron_latest(NULL, 0, 1, &tick), LW_EINVAL);
    assert_status(lw_cron_count(NULL, 0, 1, 1), LW_EINVAL);
    assert_status(lw_cron_describe(NULL, NULL, 0), LW_EINVAL);
    cron = parse_cron(zones, "@daily", "UTC");
    assert_status(lw_cron_next(cron, 0, NULL), LW_EINVAL);
    assert_status(lw_cron_latest(cron, 0, 1, NULL), LW_EINVAL);
    assert_status(lw_cron_count(cron, 0, 1, 0), LW_EINVAL);
    assert_status(lw_cron_count(cron, 0, 1, LW_CRON_COUNT_MAX + 1), LW_EINVAL);
    assert_status(lw_cron_describe(cron, NULL, 5), LW_EINVAL);
    lw_cron_close(cron);
    lw_cron_close(NULL);
    assert_null(lw_cron_zone(NULL));
    lw_zones_close(zones);
}
