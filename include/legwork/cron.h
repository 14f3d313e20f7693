/* Cron expressions and time zones: when something that repeats is due.
 *
 *     lw_zones *zones = NULL;
 *     lw_cron *nightly = NULL;
 *     int64_t tick;
 *     if (lw_zones_open(&zones, NULL, &err) < 0
 *         || lw_cron_parse(&nightly, zones, "0 3 * * MON-FRI",
 *                          LW_CRON_OPTIONS(.zone = "Europe/Berlin"), &err) < 0)
 *         return complain(err.message);
 *     if (lw_cron_next(nightly, now_ms, &tick) == LW_OK)
 *         ...
 *     lw_cron_close(nightly);
 *     lw_zones_close(zones);
 *
 * A tick is an instant at which an expression is due, in milliseconds since 1970 (UTC, without leap
 * seconds). Ticks are computed from the expression, the data of its zone and the instant handed in,
 * and from nothing else: nothing here reads a clock, an environment variable or the locale, and two
 * processes with the same zone data compute the same ticks. They lie between 1970 and 9999.
 *
 * An expression has 5 fields, or 6 of which the first is seconds:
 *     second        0-59                              * , - /
 *     minute        0-59                              * , - /
 *     hour          0-23                              * , - /
 *     day of month  1-31                              * , - / ? L LW 15W
 *     month         1-12 or JAN-DEC                   * , - /
 *     day of week   0-7 or SUN-SAT; 0, 7 are Sunday   * , - / ? 5L TUE#2
 * or it is @hourly, @daily, @midnight, @weekly, @monthly, @yearly, @annually, or "@every 90s".
 * docs/cron.md has the whole language. Of the two day fields either has to match, unless one begins
 * with * or is ?: then both have to.
 *
 * Where clocks change: an expression whose hour field begins with * runs through both passes of an
 * hour that comes twice, and has no tick in an hour that is left out. One with fixed hours has its
 * ticks in the first pass only, and all that fall into a gap become one at the first instant after
 * it, which is also the tick that may be due there anyway. @every counts milliseconds since 1970
 * and does not care.
 *
 * Zones come from the system's TZif files (RFC 9636, version 2 and later), and beyond their tables
 * from the rule at their end. They are read through a handle, lw_zones, which shares each zone
 * among all who use it and notices when its file has changed (lw_zones_refresh). Files are not
 * trusted: what is damaged is refused with a sentence.
 *
 * Threads: every call may be made from any thread; a close is the last call for its handle.
 */
#ifndef LEGWORK_CRON_H
#define LEGWORK_CRON_H

#include <legwork/api.h>
#include <legwork/runtime.h>
#include <legwork/status.h>

LW_BEGIN_DECLS

/* ---- limits ------------------------------------------------------------------------------- */

#define LW_CRON_EXPRESSION_MAX 255  /* bytes of an expression */
#define LW_CRON_WORDS_MAX 2048      /* room for the words of any expression, with the zero */
#define LW_CRON_EVERY_MS_MIN 100    /* the shortest interval of @every */
#define LW_CRON_COUNT_MAX 1000000   /* ticks that lw_cron_count counts at most */
#define LW_ZONE_NAME_MAX 64         /* bytes of the name of a zone */
#define LW_ZONE_ABBREVIATION_MAX 15 /* bytes of CET, CEST, +0330 */
#define LW_ZONE_FILE_MAX (64 << 10) /* bytes of a TZif file; those of the system have up to 4,000 */
#define LW_ZONE_OFFSET_S_MAX 64800  /* seconds of a zone given as its offset: 18 hours */
#define LW_ZONES_MAX 4096           /* zones that one handle has in use at a time */
#define LW_TICK_MS_MAX INT64_C(253402300799999) /* the end of 9999 in UTC */

/* ---- zones -------------------------------------------------------------------------------- */

/* The zones of a process: where they come from, and those that are in use. */
typedef struct lw_zones lw_zones;

/* One zone, shared by all who have opened it. */
typedef struct lw_zone lw_zone;

/* Gives the bytes of a zone's TZif file: writes at most `room` of them to `into` and how many there
 * are to *size. Returns LW_OK; LW_ENOTFOUND if there is no such zone; LW_EFULL if they are more
 * than `room`; another failure. `name` is one that a file in a folder of zones could have: no "..",
 * no "/" in front. Called by lw_zone_open, lw_cron_parse and lw_zones_refresh, on their threads and
 * with no lock held. */
typedef int (*lw_zone_loader)(void *user, const char *name, void *into, size_t room, size_t *size);

typedef struct lw_zones_options {
    size_t struct_size;
    const lw_allocator *allocator; /* Default: malloc */
    const char *folder;            /* of the TZif files. Default: "/usr/share/zoneinfo" */
    lw_zone_loader load;           /* gives the files instead of a folder. Default: none */
    void *user;                    /* for load */
    int64_t check_ms;              /* lw_zones_refresh looks at the files at most every so many ms,
                                    * 1 to LW_TIMEOUT_MS_MAX; LW_ZERO: at every call.
                                    * Default: 60,000 */
} lw_zones_options;

#define LW_ZONES_OPTIONS(...) \
    LW_OPTIONS_OF(lw_zones_options, .struct_size = sizeof(lw_zones_options), __VA_ARGS__)

/* Opens a handle; `options` may be NULL. Nothing is read yet, so a folder that is not there is told
 * by the first zone that is wanted.
 * Returns LW_OK; with a sentence: LW_EINVAL, LW_ENOMEM.
 * Owns: the folder's name is copied; the caller closes the handle. Since: 0.3 */
LW_API int lw_zones_open(lw_zones **zones, const lw_zones_options *options, lw_error *err);

/* Closes it, after everything that was opened with it: a zone or cron that is still open is a
 * programmer's error and ends the program. NULL is fine. Since: 0.3 */
LW_API void lw_zones_close(lw_zones *zones);

/* Looks whether the files of the zones in use have changed, unless it has done so less than
 * check_ms before `now_ms` (any clock; one that goes back is no reason to wait). A zone whose file
 * has become another one has the new data from then on, and another version; ticks that were
 * computed from the old data have to be computed again. Where the new file is broken or gone the
 * zone keeps what it has, and the problem is told once for each change of the file.
 * Returns how many zones have new data, 0 included; LW_EINVAL; with a sentence about the first zone
 * that has kept its old data: LW_ECORRUPT, LW_ENOTFOUND, LW_EFULL (the file is too large),
 * LW_ESYSTEM, LW_ENOMEM: others may have changed all the same, as their versions tell.
 * Since: 0.3 */
LW_API int lw_zones_refresh(lw_zones *zones, int64_t now_ms, lw_error *err);

/* Opens a zone by its name: an IANA name as its file is called ("Europe/Berlin"), "UTC", or a fixed
 * offset: "+02:00", "-0330", "+2", "UTC+02:00", "UTC-3". Neither UTC nor an offset needs a file.
 * Offsets are those of ISO 8601, positive east of Greenwich; "Etc/GMT-2" is a file and has the
 * opposite sign, and "GMT+2", which could be either, is refused.
 * Returns LW_OK; with a sentence: LW_EINVAL: no zone can be called so, or the file counts leap
 * seconds; LW_ENOTFOUND: there is no such zone, and the nearest name; LW_ECORRUPT: its file is
 * damaged; LW_EFULL: LW_ZONES_MAX, or the file is too large; LW_ENOMEM; LW_ESYSTEM: the file cannot
 * be read; what the loader has returned.
 * Owns: the caller closes it. Since: 0.3 */
LW_API int lw_zone_open(lw_zone **zone, lw_zones *zones, const char *name, lw_error *err);

/* Closes it; NULL is fine. Since: 0.3 */
LW_API void lw_zone_close(lw_zone *zone);

/* Its name: as it was given, but "UTC" for offsets of zero and "+02:00" for all others. Lives as
 * long as the zone. NULL for NULL. Since: 0.3 */
LW_API const char *lw_zone_name(const lw_zone *zone);

/* A number that changes whenever the zone has new data: a program notes it before it computes
 * ticks, and computes them again when it has changed. 0 for NULL. Since: 0.3 */
LW_API uint32_t lw_zone_version(const lw_zone *zone);

/* What clocks in a zone show. */
typedef struct lw_local_time {
    int year;  /* 1969 to 10000 */
    int month; /* 1 to 12 */
    int day;   /* 1 to 31 */
    int hour, minute, second, millisecond;
    int weekday;      /* 0: Sunday, to 6 */
    int32_t offset_s; /* seconds to add to UTC */
    bool is_dst;      /* daylight saving time, as the zone's data call it */
    char abbreviation[LW_ZONE_ABBREVIATION_MAX + 1]; /* "CEST", "+0330" */
} lw_local_time;

/* What clocks in the zone show at an instant from 0 to LW_TICK_MS_MAX.
 * Returns LW_OK, LW_EINVAL. Since: 0.3 */
LW_API int lw_zone_local(const lw_zone *zone, int64_t at_ms, lw_local_time *local);

/* The same as text: "2026-03-29 03:00:00 +02:00 CEST", with ".250" after the seconds if there are
 * milliseconds. `text` has `size` bytes; 64 are always enough, too little cuts it.
 * Returns as lw_zone_local; `text` is then ended by a zero. Since: 0.3 */
LW_API int lw_zone_format(const lw_zone *zone, int64_t at_ms, char *text, size_t size);

/* A clock change: the first instant at which the offset from UTC is another one. */
typedef struct lw_zone_change {
    int64_t at_ms;
    int32_t before_s; /* seconds to add to UTC before it */
    int32_t after_s;  /* and from it on */
} lw_zone_change;

/* The first clock change strictly after an instant from 0 to LW_TICK_MS_MAX. One where nothing but
 * the abbreviation changes is none.
 * Returns LW_OK; LW_ENOTFOUND: there is none up to 9999; LW_EINVAL. Since: 0.3 */
LW_API int lw_zone_next_change(const lw_zone *zone, int64_t after_ms, lw_zone_change *change);

/* ---- expressions -------------------------------------------------------------------------- */

/* An expression in a zone, parsed: 48 bytes, and its share of a zone. */
typedef struct lw_cron lw_cron;

typedef struct lw_cron_options {
    size_t struct_size;
    const char *zone;  /* its name, as lw_zone_open takes it. Default: "UTC" */
    int64_t offset_ms; /* of @every: its ticks are the multiples of the interval since 1970 plus
                        * this, 0 or more, modulo the interval; so schedules with the same interval
                        * need not be due together. Other expressions ignore it. Default: 0 */
} lw_cron_options;

#define LW_CRON_OPTIONS(...) \
    LW_OPTIONS_OF(lw_cron_options, .struct_size = sizeof(lw_cron_options), __VA_ARGS__)

/* Parses an expression; `options` may be NULL. What has no tick ever, such as the 30th of February,
 * is refused.
 * Returns LW_OK; with a sentence: LW_EINVAL, which names the field, the position in the expression
 * (counted from 1), what is there and what was wanted; as lw_zone_open for the zone; LW_ENOMEM.
 * Owns: the expression is not kept; the caller closes the cron. Since: 0.3 */
LW_API int lw_cron_parse(lw_cron **cron, lw_zones *zones, const char *expression,
                         const lw_cron_options *options, lw_error *err);

/* Closes it; NULL is fine. Since: 0.3 */
LW_API void lw_cron_close(lw_cron *cron);

/* Its zone. Owns: the cron; who wants to keep it opens it by its name. NULL for NULL. Since: 0.3 */
LW_API const lw_zone *lw_cron_zone(const lw_cron *cron);

/* The first tick strictly after an instant; *tick_ms is written on LW_OK only.
 * Returns LW_OK; LW_ENOTFOUND: there is none up to LW_TICK_MS_MAX; LW_EINVAL.
 * Takes well under a microsecond for usual expressions, and below 50 for the rarest: it goes by
 * years, months, days and clock changes, never by minutes. Since: 0.3 */
LW_API int lw_cron_next(const lw_cron *cron, int64_t after_ms, int64_t *tick_ms);

/* The latest tick that is strictly after `after_ms` and not after `until_ms`: the one to make up
 * for when many were missed. Returns and takes as lw_cron_next, however far the two are apart;
 * LW_ENOTFOUND: there is none between them. Since: 0.3 */
LW_API int lw_cron_latest(const lw_cron *cron, int64_t after_ms, int64_t until_ms,
                          int64_t *tick_ms);

/* Counts the ticks that are strictly after `after_ms` and not after `until_ms`, up to `max`, which
 * may be 1 to LW_CRON_COUNT_MAX. Takes no more than `max` calls of lw_cron_next and one more; for
 * @every it is a division.
 * Returns how many there are, or `max` if they are at least as many; LW_EINVAL. Since: 0.3 */
LW_API int lw_cron_count(const lw_cron *cron, int64_t after_ms, int64_t until_ms, int max);

/* The expression in words: "at 03:00 on Monday to Friday". `text` has `size` bytes and is ended by
 * a zero if size is not 0; LW_CRON_WORDS_MAX bytes are enough for any. The zone is not mentioned.
 * Returns how many bytes the words take without the zero, as snprintf does; LW_EINVAL.
 * Since: 0.3 */
LW_API int lw_cron_describe(const lw_cron *cron, char *text, size_t size);

LW_END_DECLS

#endif
