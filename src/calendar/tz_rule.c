/* Reading a POSIX TZ string, and the events of a year by it. */
#include "calendar/tz_rule.h"

#include "base/error.h"
#include "calendar/date.h"

#include <assert.h>
#include <string.h>

/* ---- reading ------------------------------------------------------------------------------ */

struct reader {
    const char *at, *end;
};

static bool take(struct reader *reader, char c) {
    if (reader->at == reader->end || *reader->at != c)
        return false;
    reader->at++;
    return true;
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A number of up to three digits from low to high. */
static bool take_number(struct reader *reader, int low, int high, int *number) {
    int digits = 0, value = 0;
    for (; reader->at < reader->end && is_digit(*reader->at) && digits < 4; digits++)
        value = value * 10 + (*reader->at++ - '0');
    *number = value;
    return digits > 0 && digits < 4 && value >= low && value <= high;
}

/* [+-]hh[:mm[:ss]] */
static bool take_time(struct reader *reader, int hours_max, int32_t *seconds) {
    bool is_negative = take(reader, '-');
    int hours, minutes = 0, rest = 0;
    if (!is_negative)
        (void)take(reader, '+');
    if (!take_number(reader, 0, hours_max, &hours))
        return false;
    if (take(reader, ':')) {
        if (!take_number(reader, 0, 59, &minutes))
            return false;
        if (take(reader, ':') && !take_number(reader, 0, 59, &rest))
            return false;
    }
    *seconds = hours * 3600 + minutes * 60 + rest;
    if (is_negative)
        *seconds = -*seconds;
    return true;
}

/* Three letters or more, or anything of letters, digits, + and - in angle brackets. */
static bool take_abbreviation(struct reader *reader, struct lw__tz_kind *kind) {
    bool is_quoted = take(reader, '<');
    size_t size = 0;
    memset(kind->abbreviation, 0, sizeof kind->abbreviation);
    for (; reader->at < reader->end; reader->at++) {
        char c = *reader->at;
        if (!is_letter(c) && !(is_quoted && (is_digit(c) || c == '+' || c == '-')))
            break;
        if (size == LW_ZONE_ABBREVIATION_MAX)
            return false;
        kind->abbreviation[size++] = c;
    }
    return size >= 3 && (!is_quoted || take(reader, '>'));
}

/* ",M3.5.0/2": a comma, a day, and a time that is 02:00 if it is not given. */
static bool take_day(struct reader *reader, struct lw__tz_day *day) {
    *day = (struct lw__tz_day){.time_s = 2 * 3600};
    if (!take(reader, ','))
        return false;
    if (take(reader, 'M')) {
        day->form = LW__TZ_MONTH_WEEK_DAY;
        if (!take_number(reader, 1, 12, &day->month) || !take(reader, '.')
            || !take_number(reader, 1, 5, &day->week) || !take(reader, '.')
            || !take_number(reader, 0, 6, &day->day))
            return false;
    } else if (take(reader, 'J')) {
        day->form = LW__TZ_JULIAN;
        if (!take_number(reader, 1, 365, &day->day))
            return false;
    } else {
        day->form = LW__TZ_ZERO_BASED;
        if (!take_number(reader, 0, 365, &day->day))
            return false;
    }
    return !take(reader, '/') || take_time(reader, 167, &day->time_s);
}

/* POSIX has offsets west of Greenwich; they are east of it everywhere else. */
static bool take_offset(struct reader *reader, struct lw__tz_kind *kind) {
    int32_t west;
    if (!take_time(reader, 25, &west))
        return false;
    kind->offset_s = -west;
    return true;
}

static bool read_rule(struct reader *reader, struct lw__tz_rule *rule) {
    if (!take_abbreviation(reader, &rule->standard) || !take_offset(reader, &rule->standard))
        return false;
    if (reader->at == reader->end)
        return true;
    rule->has_dst = true;
    rule->daylight = (struct lw__tz_kind){.is_dst = true};
    if (!take_abbreviation(reader, &rule->daylight))
        return false;
    rule->daylight.offset_s = rule->standard.offset_s + 3600;
    if (reader->at < reader->end && *reader->at != ',' && !take_offset(reader, &rule->daylight))
        return false;
    return take_day(reader, &rule->start) && take_day(reader, &rule->end)
           && reader->at == reader->end && rule->daylight.offset_s < LW__TZ_OFFSET_S_LIMIT;
}

int lw__tz_rule_read(struct lw__tz_rule *rule, const char *text, size_t size, lw_error *err) {
    struct reader reader = {text, text + size};
    *rule = (struct lw__tz_rule){.has_dst = false};
    if (read_rule(&reader, rule))
        return LW_OK;
    return lw__error_set(err, LW_ECORRUPT, 0,
                         "the rule at its end, \"%.*s\", cannot be read from position %d on",
                         (int)(size < 64 ? size : 64), text, (int)(reader.at - text) + 1);
}

/* ---- events -------------------------------------------------------------------------------- */

static int64_t day_in_year(const struct lw__tz_day *day, int year) {
    int64_t first = lw__date_days(year, 1, 1);
    switch (day->form) {
    case LW__TZ_JULIAN: return first + day->day - 1 + (day->day >= 60 && lw__date_is_leap(year));
    case LW__TZ_ZERO_BASED: return first + day->day;
    case LW__TZ_MONTH_WEEK_DAY: break;
    }
    first = lw__date_days(year, day->month, 1);
    int in_month = (day->day - lw__date_weekday(first) + 7) % 7 + 7 * (day->week - 1);
    return first + in_month - (in_month >= lw__date_month_days(year, day->month) ? 7 : 0);
}

#define REACH_MAX 3
#define EVENTS_MAX (2 * (2 * REACH_MAX + 1))

struct event {
    int64_t at;
    bool is_start;
};

static struct event start_of(const struct lw__tz_rule *rule, int year) {
    int64_t local = day_in_year(&rule->start, year) * LW__DAY_S + rule->start.time_s;
    return (struct event){local - rule->standard.offset_s, true};
}

static struct event end_of(const struct lw__tz_rule *rule, int year) {
    int64_t local = day_in_year(&rule->end, year) * LW__DAY_S + rule->end.time_s;
    return (struct event){local - rule->daylight.offset_s, false};
}

/* Puts an event in its place. One at the same instant as another comes after it, so that a rule of
 * daylight saving time for ever, whose end is the next year's start, means that. */
static void insert(struct event *events, int count, struct event event) {
    for (; count > 0 && events[count - 1].at > event.at; count--)
        events[count] = events[count - 1];
    events[count] = event;
}

/* How far back events matter: two that are as near as this can overlap in local time. */
#define NEAR_S (4 * LW__DAY_S)

/* The events of the years around one, in order. False: they may not be all that is needed to say
 * what holds at `at` and what was shown shortly before. Those of the years -3 to +3 always are,
 * because an event is less than nine days away from its year. */
static bool list_events(const struct lw__tz_rule *rule, int year, int reach, int64_t at,
                        struct event *events, int *count) {
    bool is_enough = true;
    *count = 0;
    for (int y = year - reach; y <= year + reach; y++) {
        struct event start = start_of(rule, y), end = end_of(rule, y);
        insert(events, (*count)++, start);
        insert(events, (*count)++, end);
        if (y == year - reach)
            is_enough = start.at <= at - NEAR_S && end.at <= at - NEAR_S;
        if (y == year + reach)
            is_enough = is_enough && start.at > at && end.at > at;
    }
    return is_enough;
}

static const struct lw__tz_kind *kind_from(const struct lw__tz_rule *rule, bool is_start) {
    return is_start ? &rule->daylight : &rule->standard;
}

/* The latest local time shown before an event: that of the event itself by the offset before it.
 * Two events at one instant have nothing in between. What was before the first event is too long
 * ago to matter. */
static int64_t shown_before(const struct lw__tz_rule *rule, const struct event *events, int i) {
    if (i > 0 && events[i - 1].at == events[i].at)
        return INT64_MIN;
    bool was_dst = i > 0 ? events[i - 1].is_start : !events[i].is_start;
    return events[i].at + kind_from(rule, was_dst)->offset_s;
}

struct lw__tz_rule_span lw__tz_rule_at(const struct lw__tz_rule *rule, int64_t since, int64_t at) {
    struct event events[EVENTS_MAX];
    int count, last = 0;
    int year = lw__date_of(lw__floor_div(at, LW__DAY_S)).year;
    if (!list_events(rule, year, 1, at, events, &count))
        (void)list_events(rule, year, REACH_MAX, at, events, &count);
    int64_t high = INT64_MIN;
    for (int i = 0; i < count && events[i].at <= at; i++) {
        int64_t shown = events[i].at > since ? shown_before(rule, events, i) : INT64_MIN;
        if (shown > high)
            high = shown;
        last = i;
    }
    assert(last + 1 < count && events[last].at <= at);
    return (struct lw__tz_rule_span){.from = events[last].at,
                                     .to = events[last + 1].at,
                                     .high = high,
                                     .kind = kind_from(rule, events[last].is_start)};
}
