/* Zones: their names, their files, and what is refused. */
#include "calendar.h"
#include "pools.h"

#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static const struct zone_made berlin = {.rule = "CET-1CEST,M3.5.0,M10.5.0/3",
                                        .kinds = {{3600, false, "CET"}, {7200, true, "CEST"}},
                                        .changes = {{828234000, 1}, {846378000, 0}},
                                        .kind_count = 2,
                                        .change_count = 2};

static void write_file(const char *path, const void *bytes, size_t size) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* A folder "zones" in the test's own. */
static lw_zones *open_folder(void) {
    lw_zones *zones = NULL;
    unsigned char bytes[1024];
    size_t size = zone_bytes(&berlin, bytes, sizeof bytes);
    assert_int_equal(mkdir("zones", 0777), 0);
    assert_int_equal(mkdir("zones/Europe", 0777), 0);
    write_file("zones/Europe/Berlin", bytes, size);
    write_file("zones/Europe/Bern", bytes, size);
    write_file("zones/tzdata.zi", "# version 1\n", 12);
    write_file("secret", bytes, size);
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.folder = "zones"), NULL), LW_OK);
    return zones;
}

static void expect_refused(lw_zones *zones, const char *name, int status, const char *words) {
    lw_zone *zone = NULL;
    lw_error err = {0};
    assert_status(lw_zone_open(&zone, zones, name, &err), status);
    assert_status(lw_zone_open(&zone, zones, name, NULL), status);
    assert_null(zone);
    assert_sentence(&err, status, words);
}

/* ---- names --------------------------------------------------------------------------------- */

TEST(utc_and_offsets_need_no_file) {
    static const struct {
        const char *name, *known_as, *shown;
    } cases[] = {{"UTC", "UTC", "1970-01-01 00:00:00 +00:00 UTC"},
                 {"Etc/UTC", "UTC", "1970-01-01 00:00:00 +00:00 UTC"},
                 {"+00:00", "UTC", "1970-01-01 00:00:00 +00:00 UTC"},
                 {"UTC-0", "UTC", "1970-01-01 00:00:00 +00:00 UTC"},
                 {"+02:00", "+02:00", "1970-01-01 02:00:00 +02:00"},
                 {"UTC+2", "+02:00", "1970-01-01 02:00:00 +02:00"},
                 {"+2", "+02:00", "1970-01-01 02:00:00 +02:00"},
                 {"-0330", "-03:30", "1969-12-31 20:30:00 -03:30"},
                 {"UTC-03:30", "-03:30", "1969-12-31 20:30:00 -03:30"},
                 {"+18", "+18:00", "1970-01-01 18:00:00 +18:00"}};
    lw_zones *zones = NULL;
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.folder = "nowhere"), NULL), LW_OK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        lw_zone *zone = NULL;
        char text[64];
        assert_status(lw_zone_open(&zone, zones, cases[i].name, NULL), LW_OK);
        assert_string_equal(lw_zone_name(zone), cases[i].known_as);
        assert_status(lw_zone_format(zone, 0, text, sizeof text), LW_OK);
        assert_string_equal(text, cases[i].shown);
        lw_zone_close(zone);
    }
    expect_refused(zones, "+18:01", LW_EINVAL, "is no offset from -18:00 to +18:00");
    expect_refused(zones, "+02:60", LW_EINVAL, "is no offset");
    expect_refused(zones, "+123", LW_EINVAL, "is no offset");
    expect_refused(zones, "+", LW_EINVAL, "is no offset");
    expect_refused(zones, "UTC+2:00", LW_EINVAL, "is no offset");
    expect_refused(zones, "-12345", LW_EINVAL, "is no offset");
    expect_refused(zones, "GMT+2", LW_EINVAL, "could mean either direction");
    lw_zones_close(zones);
}

TEST(names_do_not_lead_out_of_the_folder) {
    static const char *const names[] = {
        "../secret",      "../../etc/passwd", "/etc/passwd",   "Europe/../../secret",
        "Europe//Berlin", "./Europe/Berlin",  "Europe/",       "",
        ".hidden",        "Europe/.hidden",   "Europe Berlin", "Europe\\Berlin",
        "Europe/Berlin\n"};
    lw_zones *zones = open_folder();
    for (size_t i = 0; i < COUNT_OF(names); i++)
        expect_refused(zones, names[i], LW_EINVAL, "is no name of a zone");
    char longest[LW_ZONE_NAME_MAX + 2];
    memset(longest, 'A', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    expect_refused(zones, longest, LW_EINVAL, "1 to 64 letters");
    longest[sizeof longest - 2] = 0;
    expect_refused(zones, longest, LW_ENOTFOUND, "is not in zones");
    lw_zones_close(zones);
}

TEST(an_unknown_zone_is_told_with_the_nearest_name) {
    lw_zones *zones = open_folder();
    expect_refused(zones, "Europe/Berlim", LW_ENOTFOUND, "did you mean \"Europe/Berlin\"?");
    expect_refused(zones, "Berlin", LW_ENOTFOUND, "did you mean \"Europe/Berlin\"?");
    expect_refused(zones, "berne", LW_ENOTFOUND, "did you mean \"Europe/Bern\"?");
    expect_refused(zones, "europe/berlin", LW_ENOTFOUND, "did you mean \"Europe/Berlin\"?");
    expect_refused(zones, "Mars/Olympus", LW_ENOTFOUND, "IANA names are wanted");
    expect_refused(zones, "Europe", LW_ENOTFOUND, "is not in zones"); /* a folder */
    expect_refused(zones, "Europe/Berlin/Mitte", LW_ENOTFOUND, "is not in zones");
    lw_zones_close(zones);
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.folder = "nowhere"), NULL), LW_OK);
    expect_refused(zones, "Europe/Berlin", LW_ENOTFOUND, "there is no folder nowhere");
    lw_zones_close(zones);
}

TEST(the_zones_of_the_system_are_found) {
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    char text[64];
    assert_status(lw_zones_open(&zones, NULL, NULL), LW_OK);
    assert_status(lw_zone_open(&zone, zones, "Europe/Berlin", NULL), LW_OK);
    assert_status(lw_zone_format(zone, INT64_C(1782864000250), text, sizeof text), LW_OK);
    assert_string_equal(text, "2026-07-01 02:00:00.250 +02:00 CEST");
    lw_zone_close(zone);
    expect_refused(zones, "Europe/Berln", LW_ENOTFOUND, "did you mean \"Europe/Berlin\"?");
    lw_zones_close(zones);
}

/* ---- sharing ------------------------------------------------------------------------------- */

TEST(a_zone_is_shared_by_all_who_use_it) {
    lw_test_memory *memory = NULL;
    lw_zones *zones = NULL;
    lw_cron *crons[1000];
    uint64_t before, after, blocks;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    assert_status(lw_zones_open(&zones,
                                LW_ZONES_OPTIONS(.allocator = lw_test_memory_allocator(memory)),
                                NULL),
                  LW_OK);
    for (size_t i = 0; i < COUNT_OF(crons); i++) {
        if (i == 1)
            lw_test_memory_usage(memory, NULL, &before, NULL);
        assert_status(lw_cron_parse(&crons[i], zones, "0 3 * * *",
                                    LW_CRON_OPTIONS(.zone = "Europe/Berlin"), NULL),
                      LW_OK);
        assert_ptr_equal(lw_cron_zone(crons[i]), lw_cron_zone(crons[0]));
    }
    lw_test_memory_usage(memory, NULL, &after, NULL);
    assert_int_equal((after - before) / (COUNT_OF(crons) - 1), 48);
    for (size_t i = 0; i < COUNT_OF(crons); i++)
        lw_cron_close(crons[i]);
    lw_zones_close(zones);
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

TEST(a_handle_has_up_to_4096_zones_in_use) {
    static lw_zone *open[LW_ZONES_MAX];
    static char name[LW_ZONES_MAX][16];
    lw_zones *zones = open_folder();
    unsigned char bytes[1024];
    size_t size = zone_bytes(&berlin, bytes, sizeof bytes);
    for (int i = 0; i < LW_ZONES_MAX; i++) {
        char path[64];
        snprintf(name[i], sizeof name[i], "Zone%d", i);
        snprintf(path, sizeof path, "zones/Zone%d", i);
        write_file(path, bytes, size);
        assert_status(lw_zone_open(&open[i], zones, name[i], NULL), LW_OK);
    }
    expect_refused(zones, "Europe/Berlin", LW_EFULL, "4096 zones are in use");
    lw_zone_close(open[7]);
    assert_status(lw_zone_open(&open[7], zones, "Europe/Berlin", NULL), LW_OK);
    for (int i = 0; i < LW_ZONES_MAX; i++)
        lw_zone_close(open[i]);
    lw_zones_close(zones);
}

/* ---- files that are no zones --------------------------------------------------------------- */

TEST(a_damaged_file_is_refused_with_what_is_wrong) {
    lw_zones *zones = open_folder();
    unsigned char bytes[1024], changed[1024];
    size_t size = zone_bytes(&berlin, bytes, sizeof bytes);
    enum { SECOND = 44, TIMES = 88, INDEXES = 104, KINDS = 106, LETTERS = 118 };
    static const struct {
        size_t place;
        unsigned char byte;
        const char *words;
    } cases[] = {{0, 'X', "is no TZif file"},
                 {4, 0, "of version 1"},
                 {34, 9, "cut off in its first block"},
                 {32, 9, "counts more entries than a file may have bytes"},
                 {SECOND, 'X', "is no TZif file"},
                 {SECOND + 34, 9, "cut off in its second block"},
                 {SECOND + 39, 0, "1 to 256 kinds"},
                 {SECOND + 43, 1, "abbreviations is no text"},
                 {TIMES, 0x7f, "clock changes are not in order"},
                 {INDEXES, 2, "to a kind of local time that is not there"},
                 {KINDS, 1, "offsets is 26 hours or more"},
                 {KINDS + 4, 2, "marked wrongly"},
                 {KINDS + 5, 9, "abbreviations is no text"},
                 {LETTERS, '\n', "abbreviations is no text"}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        memcpy(changed, bytes, size);
        changed[cases[i].place] = cases[i].byte;
        write_file("zones/Test", changed, size);
        expect_refused(zones, "Test", LW_ECORRUPT, cases[i].words);
        expect_refused(zones, "Test", LW_ECORRUPT, "the file of zone \"Test\" is damaged: ");
    }
    for (size_t cut = 0; cut < size; cut++) { /* wherever it ends */
        write_file("zones/Test", bytes, cut);
        expect_refused(zones, "Test", LW_ECORRUPT, "is damaged: ");
    }
    lw_zones_close(zones);
}

TEST(a_damaged_rule_is_refused) {
    static const char *const rules[] = {"CE-1",
                                        "CET",
                                        "CET-1CEST",
                                        "CET-1CEST,M3.5.0",
                                        "CET-99",
                                        "CET-1:60",
                                        "CET-1CEST,M13.5.0,M10.5.0",
                                        "CET-1CEST,M3.6.0,M10.5.0",
                                        "CET-1CEST,M3.5.7,M10.5.0",
                                        "CET-1CEST,J0,J5",
                                        "CET-1CEST,J366,J5",
                                        "CET-1CEST,366,5",
                                        "CET-1CEST,M3.5.0/168,M10.5.0",
                                        "CET-1CEST,M3.5.0,M10.5.0x",
                                        "<CET-1",
                                        "<C_T>-1",
                                        "ABCDEFGHIJKLMNOP-1",
                                        "CET-1CEST,M3.5.0,",
                                        "CET-1CEST,M3..0,M10.5.0"};
    lw_zones *zones = open_folder();
    for (size_t i = 0; i < COUNT_OF(rules); i++) {
        struct zone_made made = berlin;
        unsigned char bytes[1024];
        made.rule = rules[i];
        write_file("zones/Test", bytes, zone_bytes(&made, bytes, sizeof bytes));
        expect_refused(zones, "Test", LW_ECORRUPT, "the rule at its end, \"");
    }
    lw_zones_close(zones);
}

TEST(a_file_with_leap_seconds_is_refused) {
    lw_zones *zones = open_folder();
    unsigned char bytes[1024];
    size_t size = zone_bytes(&berlin, bytes, sizeof bytes);
    bytes[44 + 31] = 1;
    write_file("zones/Test", bytes, size);
    expect_refused(zones, "Test", LW_EINVAL, "counts leap seconds");
    lw_zones_close(zones);
}

TEST(a_file_may_have_64_kib) {
    lw_zones *zones = open_folder();
    static unsigned char bytes[LW_ZONE_FILE_MAX + 1];
    zone_bytes(&berlin, bytes, sizeof bytes);
    write_file("zones/Test", bytes, LW_ZONE_FILE_MAX + 1);
    expect_refused(zones, "Test", LW_EFULL, "has more than 65536 bytes");
    lw_zone *zone = NULL;
    write_file("zones/Test", bytes, LW_ZONE_FILE_MAX); /* what follows the rule is ignored */
    assert_status(lw_zone_open(&zone, zones, "Test", NULL), LW_OK);
    lw_zone_close(zone);
    lw_zones_close(zones);
}

TEST(a_fifo_in_place_of_a_file_holds_nobody_up) {
    lw_zones *zones = open_folder();
    assert_int_equal(mkfifo("zones/Test", 0666), 0);
    expect_refused(zones, "Test", LW_ENOTFOUND, "is not in zones");
    lw_zones_close(zones);
}

/* ---- options ------------------------------------------------------------------------------- */

TEST(bad_options_and_arguments_are_refused) {
    lw_zones *zones = NULL;
    lw_zone *zone = NULL;
    lw_error err = {0};
    lw_local_time local;
    lw_zone_change change;
    char text[64];
    assert_status(lw_zones_open(NULL, NULL, &err), LW_EINVAL);
    assert_status(lw_zones_open(&zones, &(lw_zones_options){.folder = "zones"}, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "use LW_ZONES_OPTIONS(...)");
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.check_ms = -1), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "check_ms is -1");
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.folder = ""), &err), LW_EINVAL);
    assert_status(lw_zones_open(&zones, NULL, &err), LW_OK);
    assert_status(lw_zone_open(NULL, zones, "UTC", &err), LW_EINVAL);
    assert_status(lw_zone_open(&zone, NULL, "UTC", &err), LW_EINVAL);
    assert_status(lw_zone_open(&zone, zones, NULL, &err), LW_EINVAL);
    assert_status(lw_zone_open(&zone, zones, "UTC", &err), LW_OK);
    assert_status(lw_zone_local(zone, -1, &local), LW_EINVAL);
    assert_status(lw_zone_local(zone, LW_TICK_MS_MAX + 1, &local), LW_EINVAL);
    assert_status(lw_zone_local(NULL, 0, &local), LW_EINVAL);
    assert_status(lw_zone_local(zone, 0, NULL), LW_EINVAL);
    assert_status(lw_zone_format(zone, 0, text, 0), LW_EINVAL);
    assert_status(lw_zone_format(zone, 0, NULL, 5), LW_EINVAL);
    assert_status(lw_zone_next_change(zone, -1, &change), LW_EINVAL);
    assert_status(lw_zone_next_change(zone, 0, NULL), LW_EINVAL);
    assert_status(lw_zones_refresh(NULL, 0, &err), LW_EINVAL);
    assert_status(lw_zones_refresh(zones, -1, &err), LW_EINVAL);
    assert_null(lw_zone_name(NULL));
    assert_int_equal(lw_zone_version(NULL), 0);
    lw_zone_close(zone);
    lw_zone_close(NULL);
    lw_zones_close(zones);
    lw_zones_close(NULL);
}
