/* Days of the Gregorian calendar as numbers, for years 1 and later. */
#ifndef LW_CALENDAR_DATE_H
#define LW_CALENDAR_DATE_H

#include <stdbool.h>
#include <stdint.h>

#define LW__DAY_S 86400

struct lw__date {
    int year, month, day; /* 1 to 12, 1 to 31 */
};

/* Rounds down, as % and / do not. divisor > 0. */
static inline int64_t lw__floor_div(int64_t value, int64_t divisor) {
    return value / divisor - (value % divisor < 0);
}

static inline bool lw__date_is_leap(int year) {
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static inline int lw__date_month_days(int year, int month) {
    return month == 2 ? 28 + lw__date_is_leap(year) : 30 + ((month + (month >> 3)) & 1);
}

/* Days since 1970-01-01. Years are counted from March here, so that the leap day is the last. */
static inline int64_t lw__date_days(int year, int month, int day) {
    int from_march = (month + 9) % 12, y = year - (month <= 2);
    int64_t before = (int64_t)365 * y + y / 4 - y / 100 + y / 400;
    return before + (153 * from_march + 2) / 5 + day - 1 - 719468;
}

/* The date that is so many days after 1970-01-01. */
static inline struct lw__date lw__date_of(int64_t days) {
    int64_t z = days + 719468, era = lw__floor_div(z, 146097);
    int of_era = (int)(z - era * 146097);
    int y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int of_year = of_era - (365 * y + y / 4 - y / 100);
    int from_march = (5 * of_year + 2) / 153;
    int month = from_march < 10 ? from_march + 3 : from_march - 9;
    return (struct lw__date){.year = (int)(era * 400) + y + (month <= 2),
                             .month = month,
                             .day = of_year - (153 * from_march + 2) / 5 + 1};
}

/* 0: Sunday. */
static inline int lw__date_weekday(int64_t days) {
    return (int)((days % 7 + 11) % 7); /* 1970-01-01 was a Thursday */
}

#endif
