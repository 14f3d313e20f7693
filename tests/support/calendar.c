/* Zones that tests bring along, and ticks as texts. */
#include "calendar.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- TZif files ---------------------------------------------------------------------------- */

struct bytes {
    unsigned char *at;
    size_t size, room;
};

static void put(struct bytes *bytes, const void *data, size_t size) {
    assert_true(bytes->room - bytes->size >= size);
    memcpy(bytes->at + bytes->size, data, size);
    bytes->size += size;
}

static void put_number(struct bytes *bytes, uint64_t number, int width) {
    for (int shift = 8 * (width - 1); shift >= 0; shift -= 8)
        put(bytes, &(unsigned char){(unsigned char)(number >> shift)}, 1);
}

static void put_header(struct bytes *bytes, size_t changes, size_t kinds, size_t letters) {
    put(bytes, "TZif2\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20);
    for (int i = 0; i < 3; i++)
        put_number(bytes, 0, 4);
    put_number(bytes, changes, 4);
    put_number(bytes, kinds, 4);
    put_number(bytes, letters, 4);
}

size_t zone_bytes(const struct zone_made *made, unsigned char *into, size_t room) {
    struct bytes bytes = {into, 0, room};
    size_t letters = 0;
    for (size_t i = 0; i < made->kind_count; i++)
        letters += strlen(made->kinds[i].abbreviation) + 1;
    put_header(&bytes, 0, 0, 0);
    put_header(&bytes, made->change_count, made->kind_count, letters);
    for (size_t i = 0; i < made->change_count; i++)
        put_number(&bytes, (uint64_t)made->changes[i].at, 8);
    for (size_t i = 0; i < made->change_count; i++)
        put_number(&bytes, made->changes[i].kind, 1);
    size_t place = 0;
    for (size_t i = 0; i < made->kind_count; i++) {
        put_number(&bytes, (uint64_t)(int64_t)made->kinds[i].offset_s, 4);
        put_number(&bytes, made->kinds[i].is_dst, 1);
        put_number(&bytes, place, 1);
        place += strlen(made->kinds[i].abbreviation) + 1;
    }
    for (size_t i = 0; i < made->kind_count; i++)
        put(&bytes, made->kinds[i].abbreviation, strlen(made->kinds[i].abbreviation) + 1);
    put(&bytes, "\n", 1);
    put(&bytes, made->rule, strlen(made->rule));
    put(&bytes, "\n", 1);
    return bytes.size;
}

/* ---- zones --------------------------------------------------------------------------------- */

static const struct zone_made test_zones[] = {
    {.name = "Test/Berlin",
     .rule = "CET-1CEST,M3.5.0,M10.5.0/3",
     .kinds = {{3600, false, "CET"}},
     .kind_count = 1},
    {.name = "Test/Howe",
     .rule = "<+1030>-10:30<+11>-11,M10.1.0,M4.1.0",
     .kinds = {{37800, false, "+1030"}},
     .kind_count = 1},
    {.name = "Test/Apia",
     .rule = "",
     .kinds = {{-36000, false, "-10"}, {50400, false, "+14"}},
     .changes = {{1325239200, 1}},
     .kind_count = 2,
     .change_count = 1},
    {.name = "Test/West",
     .rule = "",
     .kinds = {{43200, false, "+12"}, {-43200, false, "-12"}},
     .changes = {{1338552000, 1}},
     .kind_count = 2,
     .change_count = 1}};

static int load_test_zone(void *user, const char *name, void *into, size_t room, size_t *size) {
    (void)user;
    for (size_t i = 0; i < sizeof test_zones / sizeof *test_zones; i++)
        if (strcmp(test_zones[i].name, name) == 0) {
            *size = zone_bytes(&test_zones[i], into, room);
            return LW_OK;
        }
    return LW_ENOTFOUND;
}

lw_zones *open_test_zones(void) {
    lw_zones *zones = NULL;
    assert_status(lw_zones_open(&zones, LW_ZONES_OPTIONS(.load = load_test_zone), NULL), LW_OK);
    return zones;
}

/* ---- ticks --------------------------------------------------------------------------------- */

int64_t at_utc(const char *text) {
    struct tm tm = {0};
    const char *end = strptime(text, "%Y-%m-%d %H:%M:%S", &tm);
    assert_true(end && *end == 0);
    return (int64_t)timegm(&tm) * 1000;
}

lw_cron *parse_cron(lw_zones *zones, const char *expression, const char *zone) {
    lw_cron *cron = NULL;
    lw_error err = {0};
    int rc = lw_cron_parse(&cron, zones, expression, LW_CRON_OPTIONS(.zone = zone), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return cron;
}

void expect_ticks(lw_zones *zones, const char *expression, const char *zone, const char *after,
                  const char *const *wanted, size_t count) {
    lw_cron *cron = parse_cron(zones, expression, zone);
    int64_t begin = at_utc(after), at = begin, tick, latest;
    char text[64];
    for (size_t i = 0; i < count; i++) {
        assert_status(lw_cron_next(cron, at, &tick), LW_OK);
        assert_status(lw_zone_format(lw_cron_zone(cron), tick, text, sizeof text), LW_OK);
        assert_string_equal(text, wanted[i]);
        assert_true(tick > at);
        assert_status(lw_cron_latest(cron, begin, tick, &latest), LW_OK);
        assert_int_equal(latest, tick);
        assert_status(lw_cron_latest(cron, at, tick - 1, &latest), LW_ENOTFOUND);
        at = tick;
    }
    assert_int_equal(lw_cron_count(cron, begin, at, 1000), count);
    lw_cron_close(cron);
}
