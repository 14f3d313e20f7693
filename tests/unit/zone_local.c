/* What clocks show, and when they change: by the table of a file, and by the rule behind it. */
#include "calendar.h"

#include <string.h>

static const struct zone_made *made;

static int load(void *user, const char *name, void *into, size_t room, size_t *size) {
    (void)user;
    (void)name;
    *size = zone_bytes(made, into, room);
    return LW_OK;
}

struct opened {
    lw_zones *zones;
    lw_zone *zone;
};

static struct opened open_zone(const struct zone_made *wanted) {
    struct opened opened = {NULL, NULL};
    lw_error err;
    made = wanted;
    assert_status(lw_zones_open(&opened.zones, LW_ZONES_OPTIONS(.load = load), NULL), LW_OK);
    int rc = lw_zone_open(&opened.zone, opened.zones, "Any/Zone", &err);
    assert_status(rc, LW_OK);
    return opened;
}

static void close_zone(struct opened opened) {
    lw_zone_close(opened.zone);
    lw_zones_close(opened.zones);
}

static void expect_shown(const lw_zone *zone, const char *at, const char *wanted) {
    char text[64];
    assert_status(lw_zone_format(zone, at_utc(at), text, sizeof text), LW_OK);
    assert_string_equal(text, wanted);
}

/* The first change after an instant, and from which offset to which. */
static void expect_change(const lw_zone *zone, const char *after, const char *at, int before,
                          int offset) {
    lw_zone_change change;
    assert_status(lw_zone_next_change(zone, at_utc(after), &change), LW_OK);
    assert_int_equal(change.at_ms, at_utc(at));
    assert_int_equal(change.before_s, before);
    assert_int_equal(change.after_s, offset);
}

TEST(all_that_a_clock_shows_is_told) {
    struct opened opened = open_zone(&(struct zone_made){
        .rule = "CET-1CEST,M3.5.0,M10.5.0/3", .kinds = {{3600, false, "CET"}}, .kind_count = 1});
    lw_local_time local;
    assert_status(lw_zone_local(opened.zone, at_utc("2026-06-30 23:05:06") + 789, &local), LW_OK);
    assert_int_equal(local.year, 2026);
    assert_int_equal(local.month, 7);
    assert_int_equal(local.day, 1);
    assert_int_equal(local.hour, 1);
    assert_int_equal(local.minute, 5);
    assert_int_equal(local.second, 6);
    assert_int_equal(local.millisecond, 789);
    assert_int_equal(local.weekday, 3);
    assert_int_equal(local.offset_s, 7200);
    assert_true(local.is_dst);
    assert_string_equal(local.abbreviation, "CEST");
    close_zone(opened);
}

TEST(the_table_holds_until_its_last_change_and_the_rule_from_then_on) {
    struct opened opened = open_zone(&(struct zone_made){
        .rule = "CET-1CEST,M3.5.0,M10.5.0/3",
        .kinds = {{3208, false, "LMT"}, {3600, false, "CET"}, {7200, true, "CEST"}},
        .changes = {{31536000, 1}, {828234000, 2}, {846378000, 1}},
        .kind_count = 3,
        .change_count = 3});
    expect_shown(opened.zone, "1970-01-01 00:00:00", "1970-01-01 00:53:28 +00:53:28 LMT");
    expect_shown(opened.zone, "1971-01-01 00:00:00", "1971-01-01 01:00:00 +01:00 CET");
    expect_shown(opened.zone, "1980-07-01 00:00:00", "1980-07-01 01:00:00 +01:00 CET");
    expect_shown(opened.zone, "1996-07-01 00:00:00", "1996-07-01 02:00:00 +02:00 CEST");
    expect_shown(opened.zone, "2226-07-01 00:00:00", "2226-07-01 02:00:00 +02:00 CEST");
    expect_change(opened.zone, "1970-01-01 00:00:00", "1971-01-01 00:00:00", 3208, 3600);
    expect_change(opened.zone, "1971-01-01 00:00:00", "1996-03-31 01:00:00", 3600, 7200);
    expect_change(opened.zone, "1996-03-31 01:00:00", "1996-10-27 01:00:00", 7200, 3600);
    expect_change(opened.zone, "1996-10-27 01:00:00", "1997-03-30 01:00:00", 3600, 7200);
    expect_change(opened.zone, "9998-12-01 00:00:00", "9999-03-28 01:00:00", 3600, 7200);
    lw_zone_change change;
    assert_status(lw_zone_next_change(opened.zone, at_utc("9999-11-30 00:00:00"), &change),
                  LW_ENOTFOUND);
    close_zone(opened);
}

TEST(a_change_of_nothing_but_the_abbreviation_is_shown_and_no_clock_change) {
    struct opened opened = open_zone(
        &(struct zone_made){.rule = "",
                            .kinds = {{3600, false, "OLD"}, {3600, true, "NEW"}, {0, false, "END"}},
                            .changes = {{1000000000, 1}, {1500000000, 2}},
                            .kind_count = 3,
                            .change_count = 2});
    expect_shown(opened.zone, "2001-09-09 01:46:39", "2001-09-09 02:46:39 +01:00 OLD");
    expect_shown(opened.zone, "2001-09-09 01:46:40", "2001-09-09 02:46:40 +01:00 NEW");
    expect_change(opened.zone, "1990-01-01 00:00:00", "2017-07-14 02:40:00", 3600, 0);
    close_zone(opened);
}

TEST(rules_have_days_by_month_by_number_and_times_of_another_day) {
    static const struct {
        const char *rule, *after, *at;
        int before, offset;
    } cases[] = {
        /* the last Sunday but one hour before midnight; 26 hours after Thursday: Friday */
        {"<-02>2<-01>,M3.5.0/-1,M10.5.0/0", "2026-01-01 00:00:00", "2026-03-29 01:00:00", -7200,
         -3600},
        {"IST-2IDT,M3.4.4/26,M10.5.0", "2026-01-01 00:00:00", "2026-03-27 00:00:00", 7200, 10800},
        /* south of the equator the year begins in summer */
        {"NZST-12NZDT,M9.5.0,M4.1.0/3", "2026-01-01 00:00:00", "2026-04-04 14:00:00", 46800, 43200},
        /* day 60 is 1 March in leap years too, day 59 from 0 is 29 February then */
        {"AAA0BBB,J60/0,J300/0", "2028-01-01 00:00:00", "2028-03-01 00:00:00", 0, 3600},
        {"AAA0BBB,59/0,299/0", "2028-01-01 00:00:00", "2028-02-29 00:00:00", 0, 3600},
        {"AAA0BBB,59/0,299/0", "2027-01-01 00:00:00", "2027-03-01 00:00:00", 0, 3600},
        /* two hours of daylight saving time; less than standard time, as Ireland's winter */
        {"AAA0BBB-2,M3.5.0,M10.5.0", "2026-01-01 00:00:00", "2026-03-29 02:00:00", 0, 7200},
        {"IST-1GMT0,M10.5.0,M3.5.0/1", "2026-01-01 00:00:00", "2026-03-29 01:00:00", 0, 3600}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct opened opened = open_zone(&(struct zone_made){
            .rule = cases[i].rule, .kinds = {{0, false, "AAA"}}, .kind_count = 1});
        expect_change(opened.zone, cases[i].after, cases[i].at, cases[i].before, cases[i].offset);
        close_zone(opened);
    }
}

TEST(daylight_saving_time_for_ever_has_no_clock_changes) {
    struct opened opened = open_zone(&(struct zone_made){
        .rule = "XXX3EDT4,0/0,J365/23", .kinds = {{-14400, true, "EDT"}}, .kind_count = 1});
    lw_zone_change change;
    assert_status(lw_zone_next_change(opened.zone, 0, &change), LW_ENOTFOUND);
    expect_shown(opened.zone, "2026-01-01 03:00:00", "2025-12-31 23:00:00 -04:00 EDT");
    EXPECT_TICKS(opened.zones, "30 23,0 * * *", "Any/Zone", "2026-01-01 03:00:00",
                 "2025-12-31 23:30:00 -04:00 EDT", "2026-01-01 00:30:00 -04:00 EDT");
    close_zone(opened);
}
