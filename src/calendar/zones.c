/* The handle of zones: the table of those in use, and whether their files have changed. */
#include "calendar/zone.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"

#include <assert.h>
#include <string.h>

#define DEFAULT_FOLDER "/usr/share/zoneinfo"
#define DEFAULT_CHECK_MS 60000

/* ---- options ------------------------------------------------------------------------------- */

static lw_zones_options with_defaults(const lw_zones_options *given) {
    lw_zones_options o = given ? *given : *LW_ZONES_OPTIONS(.folder = NULL);
    if (!o.folder)
        o.folder = DEFAULT_FOLDER;
    if (o.check_ms == 0)
        o.check_ms = DEFAULT_CHECK_MS;
    if (o.check_ms == LW_ZERO)
        o.check_ms = 0;
    return o;
}

static int validate(const lw_zones_options *o, lw_error *err) {
    if (o->struct_size != sizeof *o)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "struct_size is %zu, this library wants %zu: use LW_ZONES_OPTIONS(...)", o->struct_size,
            sizeof *o);
    if (o->allocator && !o->allocator->resize)
        return lw__error_set(err, LW_EINVAL, 0, "allocator has no resize function");
    if (o->check_ms != LW_ZERO && (o->check_ms < 0 || o->check_ms > LW_TIMEOUT_MS_MAX))
        return lw__error_set(err, LW_EINVAL, 0,
                             "check_ms is %lld, must be 1 to %lld, 0 for the default or LW_ZERO",
                             (long long)o->check_ms, (long long)LW_TIMEOUT_MS_MAX);
    return o->folder ? lw__key_check("folder", o->folder, LW__ZONE_FOLDER_MAX, err) : LW_OK;
}

/* ---- open and close ------------------------------------------------------------------------ */

int lw_zones_open(lw_zones **zones, const lw_zones_options *options, lw_error *err) {
    if (!zones)
        return lw__error_set(err, LW_EINVAL, 0,
                             "zones is NULL: there is nowhere to put the handle");
    if (options && validate(options, err) < 0)
        return LW_EINVAL;
    lw_zones_options o = with_defaults(options);
    lw_zones *made = lw__alloc_zero(o.allocator, sizeof *made);
    if (!made)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a handle of zones");
    made->allocator = o.allocator;
    made->load = o.load;
    made->user = o.user;
    made->check_ms = o.check_ms;
    memcpy(made->folder, o.folder, strlen(o.folder));
    lw__mutex_init(&made->mu);
    *zones = made;
    return LW_OK;
}

void lw_zones_close(lw_zones *zones) {
    if (!zones)
        return;
    assert(zones->count == 0 && "a zone or cron is still open");
    lw__free(zones->allocator, zones->list, zones->room * sizeof(lw_zone *));
    lw__mutex_free(&zones->mu);
    lw__free(zones->allocator, zones, sizeof *zones);
}

/* ---- the table ----------------------------------------------------------------------------- */

/* The place of a name in the table, or the one where it would be put. */
static uint32_t find_place_locked(const lw_zones *zones, const char *name) {
    uint32_t low = 0, high = zones->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(zones->list[middle]->name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The zone of a name if it is in use, with one more reference. */
static lw_zone *find_locked(const lw_zones *zones, const char *name) {
    uint32_t place = find_place_locked(zones, name);
    if (place == zones->count || strcmp(zones->list[place]->name, name) != 0)
        return NULL;
    zones->list[place]->refs++;
    return zones->list[place];
}

static int reserve_locked(lw_zones *zones, lw_error *err) {
    if (zones->count == LW_ZONES_MAX)
        return lw__error_set(err, LW_EFULL, 0, "%d zones are in use, and no more can be",
                             LW_ZONES_MAX);
    if (zones->count < zones->room)
        return LW_OK;
    uint32_t room = zones->room > 0 ? zones->room * 2 : 8;
    lw_zone **list = lw__resize(zones->allocator, zones->list, zones->room * sizeof(lw_zone *),
                                room * sizeof(lw_zone *));
    if (!list)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for %u zones", room);
    zones->list = list;
    zones->room = room;
    return LW_OK;
}

static void insert_locked(lw_zones *zones, lw_zone *zone) {
    uint32_t place = find_place_locked(zones, zone->name);
    memmove(zones->list + place + 1, zones->list + place,
            (zones->count - place) * sizeof(lw_zone *));
    zones->list[place] = zone;
    zones->count++;
}

static void remove_locked(lw_zones *zones, const lw_zone *zone) {
    uint32_t place = find_place_locked(zones, zone->name);
    zones->count--;
    memmove(zones->list + place, zones->list + place + 1,
            (zones->count - place) * sizeof(lw_zone *));
}

/* ---- zones --------------------------------------------------------------------------------- */

static void free_zone(lw_zone *zone) {
    lw__tz_release(zone->tz, zone->zones->allocator);
    lw__free(zone->zones->allocator, zone, sizeof *zone);
}

/* Makes a zone that is not in the table yet. */
static int make_zone(lw_zone **zone, lw_zones *zones, const struct lw__zone_name *name,
                     lw_error *err) {
    lw_zone *made = lw__alloc_zero(zones->allocator, sizeof *made);
    if (!made)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a zone");
    made->zones = zones;
    made->is_fixed = name->is_fixed;
    made->refs = 1;
    made->version = 1;
    memcpy(made->name, name->text, sizeof made->name);
    if (!name->is_fixed && !zones->load)
        made->stamp = lw__zone_stamp(zones, made->name);
    int rc = name->is_fixed ? lw__tz_make_fixed(&made->tz, zones->allocator, name->offset_s,
                                                name->abbreviation, err)
                            : lw__zone_load(zones, made->name, &made->tz, err);
    if (rc < 0) {
        lw__free(zones->allocator, made, sizeof *made);
        return rc;
    }
    *zone = made;
    return LW_OK;
}

/* Puts a zone into the table, or takes the one that another thread has put there meanwhile. */
static int add_zone(lw_zone **zone, lw_zones *zones, lw_zone *made, lw_error *err) {
    lw__mutex_lock(&zones->mu);
    lw_zone *other = find_locked(zones, made->name);
    int rc = other ? LW_OK : reserve_locked(zones, err);
    if (rc == LW_OK && !other)
        insert_locked(zones, made);
    lw__mutex_unlock(&zones->mu);
    if (rc < 0 || other)
        free_zone(made);
    if (rc == LW_OK)
        *zone = other ? other : made;
    return rc;
}

int lw_zone_open(lw_zone **zone, lw_zones *zones, const char *name, lw_error *err) {
    struct lw__zone_name read;
    lw_zone *made = NULL;
    if (!zone || !zones || !name)
        return lw__error_set(err, LW_EINVAL, 0, "zone, zones or name is NULL");
    if (lw__zone_name_read(&read, name, err) < 0)
        return LW_EINVAL;
    lw__mutex_lock(&zones->mu);
    lw_zone *found = find_locked(zones, read.text);
    lw__mutex_unlock(&zones->mu);
    if (found) {
        *zone = found;
        return LW_OK;
    }
    int rc = make_zone(&made, zones, &read, err);
    return rc < 0 ? rc : add_zone(zone, zones, made, err);
}

void lw_zone_close(lw_zone *zone) {
    if (!zone)
        return;
    lw_zones *zones = zone->zones;
    lw__mutex_lock(&zones->mu);
    bool is_last = --zone->refs == 0;
    if (is_last)
        remove_locked(zones, zone);
    lw__mutex_unlock(&zones->mu);
    if (is_last)
        free_zone(zone);
}

/* ---- refresh ------------------------------------------------------------------------------- */

/* Replaces the data; those who are reading the old ones keep them until they are done. */
static void replace(lw_zone *zone, struct lw__tz *tz) {
    lw__brief_lock(&zone->lock);
    struct lw__tz *old = zone->tz;
    zone->tz = tz;
    lw__brief_unlock(&zone->lock);
    atomic_fetch_add(&zone->version, 1);
    lw__tz_release(old, zone->zones->allocator);
}

/* Looks whether the file of a zone is another one than the one that was read, and notes it. A
 * loader's bytes have to be read to know. */
static bool is_file_new(lw_zone *zone) {
    if (zone->zones->load)
        return true;
    struct lw__zone_stamp stamp = lw__zone_stamp(zone->zones, zone->name);
    bool is_new = !lw__zone_stamp_is(&stamp, &zone->stamp);
    zone->stamp = stamp;
    return is_new;
}

/* Refreshes one zone. Returns 1 if it has new data, 0 if not, or the failure, which is told once
 * for each change of the file, and for a loader as long as it stays the same. */
static int refresh_zone(lw_zone *zone, lw_error *err) {
    const lw_zones *zones = zone->zones;
    struct lw__tz *tz = NULL;
    if (zone->is_fixed || (!is_file_new(zone) && zone->failed != LW_ENOMEM))
        return 0;
    lw_error why = {.status = LW_OK};
    int before = zone->failed;
    zone->failed = lw__zone_load(zones, zone->name, &tz, &why);
    if (zone->failed < 0) {
        if (zones->load && zone->failed == before)
            return 0;
        return lw__error_set(err, zone->failed, why.native, "%s", why.message);
    }
    if (lw__tz_is_same(zone->tz, tz)) {
        lw__tz_release(tz, zones->allocator);
        return 0;
    }
    replace(zone, tz);
    return 1;
}

/* The zone after one by name (NULL: the first), with a reference; NULL: there is none. */
static lw_zone *take_next(lw_zones *zones, const lw_zone *previous) {
    lw_zone *next = NULL;
    lw__mutex_lock(&zones->mu);
    uint32_t place = previous ? find_place_locked(zones, previous->name) + 1 : 0;
    if (place < zones->count) {
        next = zones->list[place];
        next->refs++;
    }
    lw__mutex_unlock(&zones->mu);
    return next;
}

/* Whether it is time to look, and nobody else is about it. */
static bool begin_refresh(lw_zones *zones, int64_t now_ms) {
    lw__mutex_lock(&zones->mu);
    bool is_early = zones->was_checked && now_ms >= zones->checked_ms
                    && now_ms - zones->checked_ms < zones->check_ms;
    bool is_begun = !is_early && !zones->is_refreshing;
    if (is_begun) {
        zones->is_refreshing = zones->was_checked = true;
        zones->checked_ms = now_ms;
    }
    lw__mutex_unlock(&zones->mu);
    return is_begun;
}

static void end_refresh(lw_zones *zones) {
    lw__mutex_lock(&zones->mu);
    zones->is_refreshing = false;
    lw__mutex_unlock(&zones->mu);
}

int lw_zones_refresh(lw_zones *zones, int64_t now_ms, lw_error *err) {
    int changed = 0, failed = 0;
    if (!zones || now_ms < 0)
        return lw__error_set(err, LW_EINVAL, 0, "zones is NULL, or now_ms is negative");
    if (!begin_refresh(zones, now_ms))
        return 0;
    lw_zone *zone = take_next(zones, NULL);
    while (zone) {
        int rc = refresh_zone(zone, failed < 0 ? NULL : err);
        if (rc < 0 && failed == 0)
            failed = rc;
        if (rc > 0)
            changed += rc;
        lw_zone *next = take_next(zones, zone);
        lw_zone_close(zone);
        zone = next;
    }
    end_refresh(zones);
    return failed < 0 ? failed : changed;
}
