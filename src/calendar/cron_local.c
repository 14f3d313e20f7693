/* The next and the latest local time that matches an expression, by year, month and day. */
#include "calendar/cron_internal.h"

#include "calendar/date.h"

#define YEAR_MIN 1969 /* a local time of 1970 in UTC can be of the year before */

/* ---- bits ---------------------------------------------------------------------------------- */

/* The first bit from `from` on; -1: none. */
static int next_bit(uint64_t mask, int from) {
    mask = from < 64 ? mask >> from : 0;
    return mask ? from + __builtin_ctzll(mask) : -1;
}

/* The last bit up to `from`; -1: none. */
static int latest_bit(uint64_t mask, int from) {
    mask = from < 0 ? 0 : mask << (63 - from);
    return mask ? from - __builtin_clzll(mask) : -1;
}

static int first_bit(uint64_t mask) {
    return __builtin_ctzll(mask);
}

static int last_bit(uint64_t mask) {
    return 63 - __builtin_clzll(mask);
}

/* ---- the time of day ----------------------------------------------------------------------- */

static int first_second(const lw_cron *cron) {
    return (first_bit(cron->hours) * 60 + first_bit(cron->minutes)) * 60 + first_bit(cron->seconds);
}

static int last_second(const lw_cron *cron) {
    return (last_bit(cron->hours) * 60 + last_bit(cron->minutes)) * 60 + last_bit(cron->seconds);
}

/* The first time of a day that matches, from a second of the day on; -1: none. */
static int next_second(const lw_cron *cron, int from) {
    int hour = from / 3600, minute = from / 60 % 60;
    if (cron->hours >> hour & 1) {
        int second = cron->minutes >> minute & 1 ? next_bit(cron->seconds, from % 60) : -1;
        if (second >= 0)
            return hour * 3600 + minute * 60 + second;
        minute = next_bit(cron->minutes, minute + 1);
        if (minute >= 0)
            return hour * 3600 + minute * 60 + first_bit(cron->seconds);
    }
    hour = next_bit(cron->hours, hour + 1);
    return hour < 0 ? -1 : hour * 3600 + first_bit(cron->minutes) * 60 + first_bit(cron->seconds);
}

static int latest_second(const lw_cron *cron, int from) {
    int hour = from / 3600, minute = from / 60 % 60;
    if (cron->hours >> hour & 1) {
        int second = cron->minutes >> minute & 1 ? latest_bit(cron->seconds, from % 60) : -1;
        if (second >= 0)
            return hour * 3600 + minute * 60 + second;
        minute = latest_bit(cron->minutes, minute - 1);
        if (minute >= 0)
            return hour * 3600 + minute * 60 + last_bit(cron->seconds);
    }
    hour = latest_bit(cron->hours, hour - 1);
    return hour < 0 ? -1 : hour * 3600 + last_bit(cron->minutes) * 60 + last_bit(cron->seconds);
}

/* ---- the days of a month ------------------------------------------------------------------- */

/* A month: its first day as a number and as a weekday, and how many it has. */
struct month {
    int year, number;
    int64_t first;
    int weekday, length;
};

static struct month month_of(int year, int number) {
    int64_t first = lw__date_days(year, number, 1);
    return (struct month){.year = year,
                          .number = number,
                          .first = first,
                          .weekday = lw__date_weekday(first),
                          .length = lw__date_month_days(year, number)};
}

/* The day from Monday to Friday of the same month that is nearest to a day. */
static int nearest_weekday(const struct month *month, int day) {
    int weekday = (month->weekday + day - 1) % 7;
    if (weekday == 6)
        return day > 1 ? day - 1 : day + 2;
    if (weekday == 0)
        return day < month->length ? day + 1 : day - 2;
    return day;
}

static uint32_t nearest_days(const lw_cron *cron, const struct month *month) {
    uint32_t days = 0, rest = cron->nearest & ~LW__CRON_LAST;
    for (; rest; rest &= rest - 1) {
        int day = first_bit(rest);
        if (day <= month->length)
            days |= 1u << nearest_weekday(month, day);
    }
    if (cron->nearest & LW__CRON_LAST) {
        int weekday = (month->weekday + month->length - 1) % 7;
        days |= 1u << (month->length - (weekday == 6 ? 1 : weekday == 0 ? 2 : 0));
    }
    return days;
}

static uint32_t nth_days(const lw_cron *cron, const struct month *month) {
    uint32_t days = 0;
    for (uint64_t rest = cron->nth; rest; rest &= rest - 1) {
        int bit = first_bit(rest), n = bit % LW__CRON_NTH_LAST + 1;
        int first = 1 + (bit / LW__CRON_NTH_LAST - month->weekday + 7) % 7;
        int day = first + 7 * (n - 1);
        if (n == LW__CRON_NTH_LAST)
            day = first + 28 <= month->length ? first + 28 : first + 21;
        if (day <= month->length)
            days |= 1u << day;
    }
    return days;
}

/* The days that match, as bits from 1 on. */
static uint32_t days_of(const lw_cron *cron, const struct month *month) {
    uint32_t all = LW__CRON_ALL_DAYS & (UINT32_MAX >> (31 - month->length));
    uint32_t days = cron->days;
    if (days & LW__CRON_LAST)
        days |= 1u << month->length;
    if (cron->nearest)
        days |= nearest_days(cron, month);
    /* the week, beginning with the weekday of the first day, five times */
    uint32_t week = ((uint32_t)cron->weekdays << 7 | cron->weekdays) >> month->weekday & 0x7f;
    uint32_t weekdays = (uint32_t)((uint64_t)week * 0x10204081 << 1);
    if (cron->nth)
        weekdays |= nth_days(cron, month);
    return (cron->flags & LW__CRON_BOTH_DAYS ? days & weekdays : days | weekdays) & all;
}

static bool has_month(const lw_cron *cron, int number) {
    return cron->months >> number & 1;
}

/* ---- searching ----------------------------------------------------------------------------- */

static int64_t next_month(const lw_cron *cron, int year, int number, int year_max) {
    for (;;) {
        int next = next_bit(cron->months, number + 1);
        year += next < 0;
        number = next < 0 ? first_bit(cron->months) : next;
        if (year > year_max)
            return LW__CRON_NEVER;
        struct month month = month_of(year, number);
        uint32_t days = days_of(cron, &month);
        if (days)
            return (month.first + first_bit(days) - 1) * LW__DAY_S + first_second(cron);
    }
}

int64_t lw__cron_local_next(const lw_cron *cron, int64_t local, int year_max) {
    int64_t day_number = lw__floor_div(local, LW__DAY_S);
    struct lw__date date = lw__date_of(day_number);
    if (has_month(cron, date.month)) {
        struct month month = month_of(date.year, date.month);
        uint32_t days = days_of(cron, &month);
        if (days >> date.day & 1) {
            int second = next_second(cron, (int)(local - day_number * LW__DAY_S));
            if (second >= 0)
                return day_number * LW__DAY_S + second;
        }
        int day = next_bit(days, date.day + 1);
        if (day >= 0)
            return (month.first + day - 1) * LW__DAY_S + first_second(cron);
    }
    return next_month(cron, date.year, date.month, year_max);
}

static int64_t latest_month(const lw_cron *cron, int year, int number) {
    for (;;) {
        int latest = latest_bit(cron->months, number - 1);
        year -= latest < 0;
        number = latest < 0 ? last_bit(cron->months) : latest;
        if (year < YEAR_MIN)
            return -LW__CRON_NEVER;
        struct month month = month_of(year, number);
        uint32_t days = days_of(cron, &month);
        if (days)
            return (month.first + last_bit(days) - 1) * LW__DAY_S + last_second(cron);
    }
}

int64_t lw__cron_local_latest(const lw_cron *cron, int64_t local) {
    int64_t day_number = lw__floor_div(local, LW__DAY_S);
    struct lw__date date = lw__date_of(day_number);
    if (has_month(cron, date.month)) {
        struct month month = month_of(date.year, date.month);
        uint32_t days = days_of(cron, &month);
        if (days >> date.day & 1) {
            int second = latest_second(cron, (int)(local - day_number * LW__DAY_S));
            if (second >= 0)
                return day_number * LW__DAY_S + second;
        }
        int day = latest_bit(days, date.day - 1);
        if (day >= 0)
            return (month.first + day - 1) * LW__DAY_S + last_second(cron);
    }
    return latest_month(cron, date.year, date.month);
}
