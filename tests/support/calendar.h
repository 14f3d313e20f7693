/* Zones that tests bring along, and ticks as texts. */
#ifndef LW_TESTS_SUPPORT_CALENDAR_H
#define LW_TESTS_SUPPORT_CALENDAR_H

#include "test.h"

#include <legwork/cron.h>

/* ---- zones --------------------------------------------------------------------------------- */

/* What a zone of a test is made of; `rule` is a POSIX TZ string or "". Without changes the first
 * kind holds until the rule does. */
struct zone_made {
    const char *name;
    const char *rule;
    struct {
        int32_t offset_s;
        bool is_dst;
        const char *abbreviation;
    } kinds[8];
    struct {
        int64_t at;
        unsigned char kind;
    } changes[8];
    size_t kind_count, change_count;
};

/* Writes its TZif file to `into`; returns how many bytes that are. */
size_t zone_bytes(const struct zone_made *made, unsigned char *into, size_t room);

/* A handle whose zones are these, and "test/..." that a test adds or changes:
 *   Test/Berlin  CET-1CEST,M3.5.0,M10.5.0/3 (02:00 to 03:00, and back at 03:00)
 *   Test/Howe    half an hour of daylight saving time: <+1030>-10:30<+11>-11,M10.1.0,M4.1.0
 *   Test/Apia    -10:00 until 2011-12-30 10:00 UTC, +14:00 from then on: a day is left out
 *   Test/West    +12:00 until 2012-06-01 12:00 UTC, -12:00 from then on: a day comes twice */
lw_zones *open_test_zones(void);

/* ---- ticks --------------------------------------------------------------------------------- */

/* "2026-03-29 01:00:00" in UTC, as ms since 1970. */
int64_t at_utc(const char *text);

lw_cron *parse_cron(lw_zones *zones, const char *expression, const char *zone);

/* Asserts the ticks after an instant (UTC), as texts in the zone ("2026-03-29 03:00:00 +02:00
 * CEST"); that lw_cron_latest finds each of them, and lw_cron_count all. */
#define EXPECT_TICKS(zones, expression, zone, after, ...)                                    \
    expect_ticks((zones), (expression), (zone), (after), (const char *const[]){__VA_ARGS__}, \
                 sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))
void expect_ticks(lw_zones *zones, const char *expression, const char *zone, const char *after,
                  const char *const *wanted, size_t count);

#endif
