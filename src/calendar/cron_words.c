/* An expression in words, made of its masks: what is said is what is computed. */
#include "calendar/cron_internal.h"

#include <stdarg.h>
#include <stdio.h>

/* A text that grows; what does not fit is counted and left out. */
struct writer {
    char *text;
    size_t size, used;
};

LW_PRINTF(2, 3) static void put(struct writer *writer, const char *format, ...) {
    va_list args;
    bool is_room = writer->used < writer->size;
    va_start(args, format);
    int length = vsnprintf(is_room ? writer->text + writer->used : NULL,
                           is_room ? writer->size - writer->used : 0, format, args);
    va_end(args);
    writer->used += length > 0 ? (size_t)length : 0;
}

/* ---- lists --------------------------------------------------------------------------------- */

typedef void (*put_value)(struct writer *writer, int value);

static int last_of_run(uint64_t mask, int first) {
    int last = first;
    while (last < 63 && mask >> (last + 1) & 1)
        last++;
    return last - first >= 2 ? last : first; /* two neighbours are just two values */
}

static void put_separator(struct writer *writer, bool is_first, bool is_last) {
    if (!is_first)
        put(writer, "%s", is_last ? " and " : ", ");
}

/* "0, 5 to 9 and 30" */
static void put_list(struct writer *writer, uint64_t mask, put_value value) {
    bool is_first = true;
    while (mask) {
        int first = __builtin_ctzll(mask), last = last_of_run(mask, first);
        mask = last < 63 ? mask & ~(UINT64_MAX >> (63 - last)) : 0;
        put_separator(writer, is_first, mask == 0);
        value(writer, first);
        if (last > first) {
            put(writer, " to ");
            value(writer, last);
        }
        is_first = false;
    }
}

static void put_number(struct writer *writer, int value) {
    put(writer, "%d", value);
}

static void put_ordinal(struct writer *writer, int value) {
    int last = value % 100 / 10 == 1 ? 0 : value % 10;
    put(writer, "%d%s", value, last == 1 ? "st" : last == 2 ? "nd" : last == 3 ? "rd" : "th");
}

static void put_month(struct writer *writer, int value) {
    static const char *const names[] = {"",        "January",  "February", "March",  "April",
                                        "May",     "June",     "July",     "August", "September",
                                        "October", "November", "December"};
    put(writer, "%s", names[value]);
}

/* Counted from Monday, 0, so that the weekend is at the end. */
static void put_weekday(struct writer *writer, int value) {
    static const char *const names[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                        "Friday", "Saturday", "Sunday"};
    put(writer, "%s", names[value]);
}

/* ---- the time of day ----------------------------------------------------------------------- */

struct unit {
    const char *name;
    uint64_t mask, all;
    int count; /* 60 or 24 */
};

/* The n of every n-th one from 0 on, if they divide the whole; 0: it is no such mask. */
static int step_of(const struct unit *unit) {
    for (int step = 1; step <= unit->count / 2; step++) {
        uint64_t mask = 0;
        for (int value = 0; value < unit->count; value += step)
            mask |= UINT64_C(1) << value;
        if (mask == unit->mask && unit->count % step == 0)
            return step;
    }
    return 0;
}

/* "every 5 minutes", "at minutes 5 and 10" */
static void put_smallest(struct writer *writer, const struct unit *unit) {
    int step = step_of(unit);
    if (step == 1) {
        put(writer, "every %s", unit->name);
    } else if (step > 1) {
        put(writer, "every %d %ss", step, unit->name);
    } else {
        put(writer, "at %s%s ", unit->name, __builtin_popcountll(unit->mask) == 1 ? "" : "s");
        put_list(writer, unit->mask, put_number);
    }
}

/* " in every 2nd hour", " in the hours 9 to 17"; of all of them only if `is_needed`. */
static void put_larger(struct writer *writer, const struct unit *unit, bool is_needed) {
    int step = step_of(unit);
    if (step == 1) {
        if (is_needed)
            put(writer, " of every %s", unit->name);
    } else if (step > 1) {
        put(writer, " in every ");
        put_ordinal(writer, step);
        put(writer, " %s", unit->name);
    } else {
        put(writer, " in the %s%s ", unit->name, __builtin_popcountll(unit->mask) == 1 ? "" : "s");
        put_list(writer, unit->mask, put_number);
    }
}

#define TIMES_MAX 4 /* so many times of the day are told one by one */

static int count_times(const lw_cron *cron) {
    return __builtin_popcountll(cron->seconds) * __builtin_popcountll(cron->minutes)
           * __builtin_popcount(cron->hours);
}

/* "at 03:00 and 15:30:05" */
static void put_times(struct writer *writer, const lw_cron *cron) {
    int count = count_times(cron), done = 0;
    put(writer, "at ");
    for (uint64_t hours = cron->hours; hours; hours &= hours - 1)
        for (uint64_t minutes = cron->minutes; minutes; minutes &= minutes - 1)
            for (uint64_t seconds = cron->seconds; seconds; seconds &= seconds - 1) {
                put_separator(writer, done == 0, done == count - 1);
                done++;
                put(writer, "%02d:%02d", __builtin_ctzll(hours), __builtin_ctzll(minutes));
                if (cron->seconds != 1)
                    put(writer, ":%02d", __builtin_ctzll(seconds));
            }
}

static void put_time(struct writer *writer, const lw_cron *cron) {
    struct unit second = {"second", cron->seconds, LW__CRON_ALL_60, 60};
    struct unit minute = {"minute", cron->minutes, LW__CRON_ALL_60, 60};
    struct unit hour = {"hour", cron->hours, LW__CRON_ALL_HOURS, 24};
    if (count_times(cron) <= TIMES_MAX) {
        put_times(writer, cron);
    } else if (cron->seconds != 1) {
        put_smallest(writer, &second);
        put_larger(writer, &minute, step_of(&second) == 0);
        put_larger(writer, &hour, minute.mask != minute.all && step_of(&minute) == 0);
    } else if (cron->minutes == 1 && step_of(&hour) > 0) {
        put_smallest(writer, &hour); /* "every 2 hours" */
    } else {
        put_smallest(writer, &minute);
        put_larger(writer, &hour, step_of(&minute) == 0);
    }
}

/* ---- days ---------------------------------------------------------------------------------- */

static bool has_all_days(const lw_cron *cron) {
    return (cron->days & LW__CRON_ALL_DAYS) == LW__CRON_ALL_DAYS;
}

static bool has_all_weekdays(const lw_cron *cron) {
    return cron->weekdays == LW__CRON_ALL_WEEKDAYS;
}

/* "the 1st and 15th, the last day" */
static void put_month_days(struct writer *writer, const lw_cron *cron) {
    uint64_t days = cron->days & LW__CRON_ALL_DAYS, nearest = cron->nearest & LW__CRON_ALL_DAYS;
    const char * or = "";
    if (days) {
        put(writer, "the ");
        put_list(writer, days, put_ordinal);
        or = " or ";
    }
    if (cron->days & LW__CRON_LAST) {
        put(writer, "%sthe last day", or);
        or = " or ";
    }
    if (nearest) {
        put(writer, "%sthe weekday nearest to the ", or);
        put_list(writer, nearest, put_ordinal);
        or = " or ";
    }
    if (cron->nearest & LW__CRON_LAST)
        put(writer, "%sthe last weekday", or);
    put(writer, " of the month");
}

/* "Monday to Friday", "the 2nd Tuesday or the last Friday of the month" */
static void put_week_days(struct writer *writer, const lw_cron *cron) {
    uint32_t from_monday = cron->weekdays >> 1 | (uint32_t)(cron->weekdays & 1) << 6;
    const char * or = "";
    if (from_monday) {
        put_list(writer, from_monday, put_weekday);
        or = " or ";
    }
    for (uint64_t rest = cron->nth; rest; rest &= rest - 1) {
        int bit = __builtin_ctzll(rest), n = bit % LW__CRON_NTH_LAST + 1;
        put(writer, "%sthe ", or);
        if (n == LW__CRON_NTH_LAST)
            put(writer, "last");
        else
            put_ordinal(writer, n);
        put(writer, " ");
        put_weekday(writer, (bit / LW__CRON_NTH_LAST + 6) % 7);
        or = " or ";
    }
    if (cron->nth)
        put(writer, " of the month");
}

static void put_days(struct writer *writer, const lw_cron *cron) {
    bool is_both = cron->flags & LW__CRON_BOTH_DAYS;
    bool any_day = has_all_days(cron), any_weekday = has_all_weekdays(cron);
    if ((any_day && any_weekday) || (!is_both && (any_day || any_weekday)))
        return;
    put(writer, " on ");
    if (any_day) {
        put_week_days(writer, cron);
        return;
    }
    if (is_both && !any_weekday) {
        put_week_days(writer, cron);
        put(writer, " if that is ");
        put_month_days(writer, cron);
        return;
    }
    put_month_days(writer, cron);
    if (!any_weekday) {
        put(writer, " or on ");
        put_week_days(writer, cron);
    }
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* "every 1 hour 30 minutes" */
static void put_every(struct writer *writer, const lw_cron *cron) {
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {
        {"day", 86400000}, {"hour", 3600000}, {"minute", 60000}, {"second", 1000}, {"ms", 1}};
    int64_t left = cron->every_ms;
    put(writer, "every");
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int64_t count = left / units[i].ms;
        if (left < 120000 && i == 2)
            count = 0; /* 90 seconds */
        left -= count * units[i].ms;
        if (count == 1 && left == 0 && count * units[i].ms == cron->every_ms && units[i].ms > 1)
            put(writer, " %s", units[i].name);
        else if (count > 0)
            put(writer, " %lld %s%s", (long long)count, units[i].name,
                count == 1 || units[i].ms == 1 ? "" : "s");
    }
}

int lw_cron_describe(const lw_cron *cron, char *text, size_t size) {
    if (!cron || (!text && size > 0))
        return LW_EINVAL;
    struct writer writer = {text, size, 0};
    if (size > 0)
        text[0] = 0;
    if (cron->flags & LW__CRON_EVERY) {
        put_every(&writer, cron);
        return (int)writer.used;
    }
    put_time(&writer, cron);
    put_days(&writer, cron);
    if (cron->months != LW__CRON_ALL_MONTHS) {
        put(&writer, " in ");
        put_list(&writer, cron->months, put_month);
    }
    return (int)writer.used;
}
