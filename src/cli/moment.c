/* Points in time, read and shown. */
#include "cli/moment.h"

#include "server/refuse.h"

#include <string.h>

#define DAY_MS INT64_C(86400000)
#define REACH_MS (2 * DAY_MS) /* no clock differs from UTC by so much */

/* ---- dates ---------------------------------------------------------------------------------- */

struct date {
    int year, month, day, hour, minute, second;
};

/* Days since 1970, of the calendar that we use, whenever it was. */
static int64_t day_of(int year, int month, int day) {
    int64_t years = month > 2 ? year : year - 1; /* which begin in March */
    int64_t months = (month + 9) % 12;
    return 365 * years + years / 4 - years / 100 + years / 400 + (153 * months + 2) / 5 + day - 1
           - 719468;
}

static int days_of_month(int year, int month) {
    int next = month == 12 ? 1 : month + 1;
    return (int)(day_of(month == 12 ? year + 1 : year, next, 1) - day_of(year, month, 1));
}

static int64_t clock_ms(const struct date *date) {
    return day_of(date->year, date->month, date->day) * DAY_MS
           + ((date->hour * 60 + date->minute) * 60 + date->second) * INT64_C(1000);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* As many digits as are wanted, and a number up to `max`. */
static bool take_number(const char **at, int digits, int max, int *number) {
    *number = 0;
    for (int i = 0; i < digits; i++, ++*at) {
        if (**at < '0' || **at > '9')
            return false;
        *number = *number * 10 + (**at - '0');
    }
    return *number <= max;
}

static bool take(const char **at, char c) {
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool take_time(const char **at, struct date *date) {
    if (!take_number(at, 2, 23, &date->hour) || !take(at, ':')
        || !take_number(at, 2, 59, &date->minute))
        return false;
    return !take(at, ':') || take_number(at, 2, 59, &date->second);
}

static bool take_date(const char **at, struct date *date) {
    *date = (struct date){0};
    if (!take_number(at, 4, 9999, &date->year) || !take(at, '-')
        || !take_number(at, 2, 12, &date->month) || !take(at, '-')
        || !take_number(at, 2, 31, &date->day))
        return false;
    if (date->year < 1970 || date->month < 1 || date->day < 1
        || date->day > days_of_month(date->year, date->month))
        return false;
    bool has_time = (**at == 'T' || **at == ' ') && (*at)[1] >= '0' && (*at)[1] <= '9';
    if (!has_time)
        return true;
    ++*at;
    return take_time(at, date);
}

/* The first instant at which clocks show this, span by span between clock changes. */
static int64_t instant_of(const lw_zone *zone, int64_t shown_ms) {
    int64_t begin = shown_ms > REACH_MS ? shown_ms - REACH_MS : 0;
    lw_local_time local;
    lw_zone_change change;
    lw_zone_local(zone, begin, &local);
    for (int64_t offset_ms = local.offset_s * INT64_C(1000);; offset_ms = change.after_s * 1000) {
        int64_t at = shown_ms - offset_ms;
        if (at < begin)
            return begin; /* in the gap before this span */
        if (lw_zone_next_change(zone, begin, &change) != LW_OK || at < change.at_ms)
            return at;
        begin = change.at_ms;
    }
}

static int read_date(const char *text, lw_zones *zones, const lw_zone *zone, int64_t *at_ms,
                     lw_error *err) {
    struct date date;
    const char *at = text;
    lw_zone *own = NULL;
    if (!take_date(&at, &date))
        return lw__refuse(err, LW_EINVAL, "\"%s\" is no time; wanted " LW__MOMENT_FORMS,
                          lw__slice_show(lw__slice_of(text)).text);
    at += *at == ' ';
    int rc = *at ? lw_zone_open(&own, zones, strcmp(at, "Z") == 0 ? "UTC" : at, err) : LW_OK;
    if (rc < 0)
        return rc;
    *at_ms = instant_of(own ? own : zone, clock_ms(&date));
    lw_zone_close(own);
    if (*at_ms <= LW_TICK_MS_MAX)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "\"%s\" is too late: there are no ticks after the year 9999",
                      lw__slice_show(lw__slice_of(text)).text);
}

int lw__moment_read(const char *text, lw_zones *zones, const lw_zone *zone, int64_t now_ms,
                    int64_t *at_ms, lw_error *err) {
    size_t digits = strspn(text, "0123456789");
    if (strcmp(text, "now") == 0) {
        *at_ms = now_ms;
        return LW_OK;
    }
    if (digits < 5 || text[digits] != '\0')
        return read_date(text, zones, zone, at_ms, err);
    *at_ms = 0;
    for (size_t i = 0; i < digits && *at_ms <= LW_TICK_MS_MAX; i++)
        *at_ms = *at_ms * 10 + (text[i] - '0');
    if (*at_ms <= LW_TICK_MS_MAX)
        return LW_OK;
    return lw__refuse(err, LW_EINVAL, "%s is more than the %lld milliseconds up to the year 9999",
                      lw__slice_show(lw__slice_of(text)).text, (long long)LW_TICK_MS_MAX);
}

/* ---- showing -------------------------------------------------------------------------------- */

bool lw__moment_has_seconds(int64_t at_ms) {
    return at_ms % 60000 != 0;
}

static int put_clock(char *text, size_t room, const lw_local_time *local, bool has_seconds) {
    int size = snprintf(text, room, "%04d-%02d-%02d %02d:%02d", local->year, local->month,
                        local->day, local->hour, local->minute);
    if (has_seconds)
        size += snprintf(text + size, room - (size_t)size, ":%02d", local->second);
    if (has_seconds && local->millisecond > 0)
        size += snprintf(text + size, room - (size_t)size, ".%03d", local->millisecond);
    return size;
}

struct lw__words lw__moment_in(const lw_zone *zone, int64_t at_ms, bool has_seconds) {
    static const char *const days[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    struct lw__words words = {""};
    lw_local_time local;
    if (lw_zone_local(zone, at_ms, &local) != LW_OK)
        return words;
    int size = snprintf(words.text, sizeof words.text, "%s ", days[local.weekday]);
    size += put_clock(words.text + size, sizeof words.text - (size_t)size, &local, has_seconds);
    snprintf(words.text + size, sizeof words.text - (size_t)size, " %s", local.abbreviation);
    return words;
}

/* What a clock shows that is ahead of UTC by so much: the calendar of UTC, at another instant. */
static lw_local_time clock_of(int64_t at_ms, int64_t ahead_ms) {
    lw_local_time local = {0};
    lw_zones *zones = NULL;
    lw_zone *utc = NULL;
    if (lw_zones_open(&zones, NULL, NULL) == LW_OK
        && lw_zone_open(&utc, zones, "UTC", NULL) == LW_OK)
        lw_zone_local(utc, at_ms + ahead_ms, &local);
    lw_zone_close(utc);
    lw_zones_close(zones);
    return local;
}

struct lw__words lw__moment_utc(int64_t at_ms, bool has_seconds) {
    struct lw__words words = {""};
    lw_local_time local = clock_of(at_ms, 0);
    put_clock(words.text, sizeof words.text, &local, has_seconds);
    return words;
}

/* "1 h", "30 min", "23 h 56 min". */
static struct lw__words size_of(int32_t seconds) {
    struct lw__words words;
    int minutes = (seconds < 0 ? -seconds : seconds) / 60;
    if (minutes % 60 == 0)
        snprintf(words.text, sizeof words.text, "%d h", minutes / 60);
    else if (minutes < 60)
        snprintf(words.text, sizeof words.text, "%d min", minutes);
    else
        snprintf(words.text, sizeof words.text, "%d h %d min", minutes / 60, minutes % 60);
    return words;
}

struct lw__change_words lw__change_words_of(const lw_zone_change *change) {
    struct lw__change_words words;
    int32_t by = change->after_s - change->before_s;
    lw_local_time local = clock_of(change->at_ms, change->before_s * INT64_C(1000));
    snprintf(words.text, sizeof words.text, "clocks go %s %s at %02d:%02d on %04d-%02d-%02d",
             by > 0 ? "forward" : "back", size_of(by).text, local.hour, local.minute, local.year,
             local.month, local.day);
    return words;
}
