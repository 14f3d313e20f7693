/* What only the day fields have: the last day, the nearest weekday, the n-th weekday of a month;
 * and why some days never come. */
#include "calendar/cron_internal.h"

#include "base/error.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

static bool is_letter_at(const struct lw__cron_reader *reader, size_t place, char letter) {
    return (size_t)(reader->end - reader->at) > place
           && (reader->at[place] == letter || reader->at[place] == letter - 'A' + 'a');
}

static size_t left(const struct lw__cron_reader *reader) {
    return (size_t)(reader->end - reader->at);
}

/* ---- day of month -------------------------------------------------------------------------- */

/* L, LW, 15W */
static int read_month_day(struct lw__cron_reader *reader) {
    int day = 0;
    if (is_letter_at(reader, 0, 'L')) {
        bool is_weekday = is_letter_at(reader, 1, 'W');
        if (left(reader) > 1u + is_weekday)
            return lw__cron_refuse(reader, reader->at + 1, "is not L or LW alone");
        if (is_weekday)
            reader->cron->nearest |= LW__CRON_LAST;
        else
            reader->cron->days |= LW__CRON_LAST;
        return 1;
    }
    if (left(reader) < 2 || !is_letter_at(reader, left(reader) - 1, 'W'))
        return 0;
    if (lw__cron_value_read(reader, &day) < 0)
        return LW_EINVAL;
    if (left(reader) > 1)
        return lw__cron_refuse(reader, reader->at, "is not one day with W behind it");
    reader->cron->nearest |= 1u << day;
    return 1;
}

/* ---- day of week --------------------------------------------------------------------------- */

/* 5L, FRIL, TUE#2 */
static int read_week_day(struct lw__cron_reader *reader) {
    bool has_number = memchr(reader->at, '#', left(reader)) != NULL;
    bool is_last = !has_number && left(reader) > 1 && is_letter_at(reader, left(reader) - 1, 'L');
    int weekday = 0;
    if (left(reader) == 1 && is_letter_at(reader, 0, 'L'))
        return lw__cron_refuse(reader, reader->at, "is no day (write 5L for the last Friday)");
    if (!has_number && !is_last)
        return 0;
    if (lw__cron_value_read(reader, &weekday) < 0)
        return LW_EINVAL;
    weekday %= 7;
    if (is_last) {
        if (left(reader) > 1)
            return lw__cron_refuse(reader, reader->at, "is not one day with L behind it");
        reader->cron->nth |= LW__CRON_NTH_BIT(weekday, LW__CRON_NTH_LAST);
        return 1;
    }
    if (left(reader) != 2 || reader->at[0] != '#' || reader->at[1] < '1' || reader->at[1] > '5')
        return lw__cron_refuse(reader, reader->at, "is not one day with #1 to #5 behind it");
    reader->cron->nth |= LW__CRON_NTH_BIT(weekday, reader->at[1] - '0');
    return 1;
}

int lw__cron_day_read(struct lw__cron_reader *reader) {
    return reader->field->number == LW__CRON_DAY ? read_month_day(reader) : read_week_day(reader);
}

/* ---- never --------------------------------------------------------------------------------- */

/* The first day that the day of month field names, 32 if it has L or LW. */
static int first_day(const lw_cron *cron) {
    uint32_t days = cron->days | cron->nearest;
    return days & LW__CRON_LAST || days == 0 ? 32 : __builtin_ctz(days);
}

static int longest_month(const lw_cron *cron) {
    static const int days[] = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    int longest = 0;
    for (int month = 1; month <= 12; month++)
        if (cron->months >> month & 1 && days[month] > longest)
            longest = days[month];
    return longest;
}

int lw__cron_refuse_never(const lw_cron *cron, const char *expression, lw_error *err) {
    int day = first_day(cron), longest = longest_month(cron);
    struct lw__quoted shown = lw__text_quote(expression);
    if (day <= 31 && day > longest)
        return lw__error_set(err, LW_EINVAL, 0,
                             "\"%s\" never comes: the month field has no month with a day %d, as "
                             "the day of month field wants it (the longest has %d)",
                             shown.text, day, longest);
    return lw__error_set(err, LW_EINVAL, 0,
                         "\"%s\" never comes: no day is both what the day of month field and what "
                         "the day of week field wants; both count, because one begins with * or ?",
                         shown.text);
}
