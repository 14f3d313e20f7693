/* The inside of cron expressions.
 *
 *     cron.c         open, close, the public calls          cron_every.c  @every
 *     cron_parse.c   an expression: fields, macros          cron_local.c  the next matching local
 *     cron_field.c   one field: lists, ranges, steps                      time, by bit masks
 *     cron_day.c     one item of a day field: L, W, #       cron_tick.c   the same in a zone
 *     cron_words.c   an expression for people
 *
 * A parsed expression is a bit mask a field. Finding the next local time that matches goes by
 * years, months and days: the days of a month that match are one mask, made in a few operations.
 * Local times become instants span by span of the zone (tz.h); spans that cannot have a tick are
 * passed over at once.
 */
#ifndef LW_CALENDAR_CRON_INTERNAL_H
#define LW_CALENDAR_CRON_INTERNAL_H

#include "calendar/zone.h"

#define LW__CRON_EVERY 1     /* @every: an interval, no fields */
#define LW__CRON_HOUR_STAR 2 /* the hour field begins with *: both passes, nothing in a gap */
#define LW__CRON_BOTH_DAYS 4 /* a day must match both day fields; otherwise either will do */

#define LW__CRON_ALL_60 (UINT64_MAX >> 4)
#define LW__CRON_ALL_HOURS 0xffffffu
#define LW__CRON_ALL_DAYS 0xfffffffeu
#define LW__CRON_ALL_MONTHS 0x1ffeu
#define LW__CRON_ALL_WEEKDAYS 0x7fu
#define LW__CRON_LAST 1u /* in `days` and `nearest`: the last day, the last weekday */

/* In `nth`: the bit of the n-th such weekday of a month, 1 to 5; 6 is the last one. */
#define LW__CRON_NTH_LAST 6
#define LW__CRON_NTH_BIT(weekday, n) (UINT64_C(1) << ((weekday)*LW__CRON_NTH_LAST + (n)-1))

/* Bit n stands for the value n; months from bit 1, weekdays from Sunday, bit 0. */
struct lw_cron {
    lw_zone *zone;
    union {
        uint64_t seconds;
        int64_t every_ms;
    };
    union {
        uint64_t minutes;
        int64_t offset_ms; /* below every_ms */
    };
    uint64_t nth;     /* TUE#2, 5L */
    uint32_t days;    /* bits 1 to 31; bit 0: L */
    uint32_t nearest; /* 15W; bit 0: LW */
    uint32_t hours;
    uint16_t months;
    uint8_t weekdays;
    uint8_t flags;
};

_Static_assert(sizeof(struct lw_cron) == 48, "legwork/cron.h says so");

/* ---- cron_parse.c ------------------------------------------------------------------------- */

/* Reads an expression into a zeroed cron that has its zone already. Returns LW_OK, or LW_EINVAL
 * with a sentence. */
int lw__cron_read(lw_cron *cron, const char *expression, int64_t offset_ms, lw_error *err);

/* ---- cron_field.c ------------------------------------------------------------------------- */

enum lw__cron_field_number {
    LW__CRON_SECOND,
    LW__CRON_MINUTE,
    LW__CRON_HOUR,
    LW__CRON_DAY,
    LW__CRON_MONTH,
    LW__CRON_WEEKDAY,
    LW__CRON_FIELD_COUNT
};

/* What a field may hold. */
struct lw__cron_field {
    enum lw__cron_field_number number;
    const char *name;
    const char *wanted; /* for sentences */
    int low, high;
    const char *const *names; /* three letters each, the first one for name_low; NULL: none */
    int name_count, name_low;
};

/* A field, or an item of one, while it is read. */
struct lw__cron_reader {
    lw_cron *cron;
    const char *expression; /* its beginning, to count positions from */
    const struct lw__cron_field *field;
    const char *at, *end; /* what is left of the item */
    const char *item;     /* its beginning */
    lw_error *err;
};

/* Reads one field, of which `reader` has expression, field, at and end. */
int lw__cron_field_read(struct lw__cron_reader *reader, const struct lw__cron_field *field);

/* Reads a value from `reader->at` on, a number or a name, and checks its bounds. */
int lw__cron_value_read(struct lw__cron_reader *reader, int *value);

/* Refuses what stands at `at`: its position, the item, and what is wrong with it. */
LW_PRINTF(3, 4)
int lw__cron_refuse(const struct lw__cron_reader *reader, const char *at, const char *format, ...);

/* ---- cron_day.c --------------------------------------------------------------------------- */

/* Reads L, LW, 15W, 5L, TUE#2. Returns 1: it was one; 0: it is none; LW_EINVAL. */
int lw__cron_day_read(struct lw__cron_reader *reader);

/* Explains why an expression has no tick: of its day fields. */
int lw__cron_refuse_never(const lw_cron *cron, const char *expression, lw_error *err);

/* ---- cron_every.c ------------------------------------------------------------------------- */

/* Reads what follows "@every". */
int lw__cron_every_read(lw_cron *cron, const char *expression, const char *at, int64_t offset_ms,
                        lw_error *err);

int64_t lw__cron_every_next(const lw_cron *cron, int64_t after_ms);
int64_t lw__cron_every_latest(const lw_cron *cron, int64_t until_ms);

/* ---- cron_local.c ------------------------------------------------------------------------- */

#define LW__CRON_NEVER (INT64_C(1) << 50)

/* The first local time that matches from `local` on, up to the end of the year `year_max`; else
 * LW__CRON_NEVER. */
int64_t lw__cron_local_next(const lw_cron *cron, int64_t local, int year_max);

/* The last one up to `local`, from 1969 on; else -LW__CRON_NEVER. */
int64_t lw__cron_local_latest(const lw_cron *cron, int64_t local);

/* ---- cron_tick.c -------------------------------------------------------------------------- */

/* The first tick strictly after an instant, or LW__CRON_NEVER. Seconds. */
int64_t lw__cron_tick_next(const lw_cron *cron, const struct lw__tz *tz, int64_t after);

/* The latest tick up to `until`, or anything up to `after` if there is none after that. */
int64_t lw__cron_tick_latest(const lw_cron *cron, const struct lw__tz *tz, int64_t after,
                             int64_t until);

#endif
