/* Zones in use, and where they come from.
 *
 *     zones.c         the handle: the table of zones in use, refresh
 *     zone.c          one zone: local times, clock changes
 *     zone_name.c     what a zone may be called; offsets
 *     zone_load.c     its file, or the loader's bytes
 *     zone_nearest.c  the name that was probably meant
 *     tzif.c, tz.c, tz_rule.c   the bytes of a file, the data, the rule at its end
 *
 * Locks: `mu` of the handle guards the table and the counts of references; `lock` of a zone only
 * the pointer to its data, which never change: who reads them takes a reference. Neither is held
 * while a file is read or the loader is called, nor both at once.
 */
#ifndef LW_CALENDAR_ZONE_H
#define LW_CALENDAR_ZONE_H

#include "base/brief.h"
#include "base/mutex.h"
#include "calendar/tz.h"

#include <sys/types.h>
#include <time.h>

#define LW__ZONE_FOLDER_MAX 1023 /* bytes of the folder's name */

/* By what a file is known to be the same as before. */
struct lw__zone_stamp {
    int error; /* errno, if it cannot be looked at */
    dev_t device;
    ino_t number;
    off_t size;
    struct timespec changed;
};

struct lw_zone {
    /* fixed after open */
    lw_zones *zones;
    bool is_fixed; /* UTC or an offset: there is no file */
    char name[LW_ZONE_NAME_MAX + 1];
    /* atomic */
    _Atomic uint32_t version;
    /* guarded by lock */
    struct lw__brief lock;
    struct lw__tz *tz;
    /* guarded by zones->mu */
    uint32_t refs;
    /* of the one thread that refreshes */
    struct lw__zone_stamp stamp; /* of the file before it was read last, if there is no loader */
    int failed;                  /* what reading it has given */
};

struct lw_zones {
    /* fixed after open */
    const lw_allocator *allocator;
    lw_zone_loader load; /* NULL: files of the folder */
    void *user;
    int64_t check_ms;
    char folder[LW__ZONE_FOLDER_MAX + 1];
    /* guarded by mu */
    struct lw__mutex mu;
    lw_zone **list; /* by name */
    uint32_t count, room;
    bool is_refreshing, was_checked;
    int64_t checked_ms;
};

/* The data of a zone, with a reference that the caller gives back by lw__zone_release. */
struct lw__tz *lw__zone_hold(const lw_zone *zone);
void lw__zone_release(const lw_zone *zone, struct lw__tz *tz);

/* The whole second that an instant lies in. */
int64_t lw__zone_second(int64_t at_ms);

/* ---- zone_name.c -------------------------------------------------------------------------- */

/* What a name says by itself. */
struct lw__zone_name {
    bool is_fixed; /* UTC or an offset */
    int32_t offset_s;
    char text[LW_ZONE_NAME_MAX + 1];             /* as the table has it */
    char abbreviation[LW_ZONE_ABBREVIATION_MAX]; /* of a fixed one: "UTC", "+02", "+0330" */
};

/* Returns LW_OK, or LW_EINVAL with a sentence: no zone can be called so. */
int lw__zone_name_read(struct lw__zone_name *read, const char *name, lw_error *err);

/* Writes "+02:00", or "+02:00:30" where there are seconds. */
#define LW__ZONE_OFFSET_SIZE sizeof "+24:00:00"
void lw__zone_offset_write(char text[LW__ZONE_OFFSET_SIZE], int32_t offset_s);

/* ---- zone_load.c -------------------------------------------------------------------------- */

/* Reads the data of a zone that is in a file. Returns as lw_zone_open. */
int lw__zone_load(const lw_zones *zones, const char *name, struct lw__tz **tz, lw_error *err);

/* What the file of a zone looks like now. */
struct lw__zone_stamp lw__zone_stamp(const lw_zones *zones, const char *name);

bool lw__zone_stamp_is(const struct lw__zone_stamp *a, const struct lw__zone_stamp *b);

/* ---- zone_nearest.c ----------------------------------------------------------------------- */

#define LW__ZONE_LISTED_MAX \
    2048 /* names of a folder that are looked at; the system has about 600 */

/* Finds the name in the folder that is nearest to one that is not there, or to the part after its
 * last slash ("Berlin"). False: there is none, or no memory to look. */
bool lw__zone_nearest(const lw_zones *zones, const char *wanted,
                      char nearest[LW_ZONE_NAME_MAX + 1]);

#endif
