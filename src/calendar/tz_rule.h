/* The rule at the end of a TZif file: when clocks change in the years beyond its table.
 *
 * It is a POSIX TZ string with the extensions of RFC 9636: "CET-1CEST,M3.5.0,M10.5.0/3". Each year
 * has two events, the start and the end of daylight saving time, on days given by month, week and
 * weekday, or by their number in the year. */
#ifndef LW_CALENDAR_TZ_RULE_H
#define LW_CALENDAR_TZ_RULE_H

#include <legwork/cron.h>

/* What clocks show for a while: an offset and what people call it. */
struct lw__tz_kind {
    int32_t offset_s;
    bool is_dst;
    char abbreviation[LW_ZONE_ABBREVIATION_MAX + 1];
};

#define LW__TZ_OFFSET_S_LIMIT (26 * 3600) /* offsets of zones are below it, either way (RFC 9636) */

enum lw__tz_day_form {
    LW__TZ_MONTH_WEEK_DAY, /* M3.5.0: its week 5 is the last */
    LW__TZ_JULIAN,         /* J60: 1 to 365, never the leap day */
    LW__TZ_ZERO_BASED      /* 59: 0 to 365, with the leap day */
};

/* The day of an event and its wall-clock time there, -167 to 167 hours. */
struct lw__tz_day {
    enum lw__tz_day_form form;
    int month, week, day; /* only day, but for the first form */
    int32_t time_s;
};

struct lw__tz_rule {
    bool has_dst; /* otherwise `standard` is all there is */
    struct lw__tz_kind standard, daylight;
    struct lw__tz_day start, end; /* of daylight saving time */
};

/* Reads a rule. Returns LW_OK, or LW_ECORRUPT with a sentence; *rule is then undefined. */
int lw__tz_rule_read(struct lw__tz_rule *rule, const char *text, size_t size, lw_error *err);

/* Two clock changes, one after the other, and what holds in between: from `from`, before `to`. */
struct lw__tz_rule_span {
    int64_t from, to;
    int64_t high; /* the latest local time that clocks have shown before `from`, since `since` */
    const struct lw__tz_kind *kind;
};

/* What holds at an instant, by a rule with has_dst that holds itself since `since`. `at` is in the
 * years 2 to 11,000. */
struct lw__tz_rule_span lw__tz_rule_at(const struct lw__tz_rule *rule, int64_t since, int64_t at);

#endif
