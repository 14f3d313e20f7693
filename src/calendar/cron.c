/* Cron expressions: the public calls. */
#include "calendar/cron_internal.h"

#include "base/error.h"
#include "base/memory.h"

/* ---- open and close ------------------------------------------------------------------------ */

static int check_options(const lw_cron_options *o, lw_error *err) {
    if (o->struct_size != sizeof *o)
        return lw__error_set(err, LW_EINVAL, 0,
                             "struct_size is %zu, this library wants %zu: use LW_CRON_OPTIONS(...)",
                             o->struct_size, sizeof *o);
    if (o->offset_ms < 0)
        return lw__error_set(err, LW_EINVAL, 0, "offset_ms is %lld, must be 0 or more",
                             (long long)o->offset_ms);
    return LW_OK;
}

int lw_cron_parse(lw_cron **cron, lw_zones *zones, const char *expression,
                  const lw_cron_options *options, lw_error *err) {
    lw_cron read = {.zone = NULL};
    if (!cron || !zones || !expression)
        return lw__error_set(err, LW_EINVAL, 0, "cron, zones or expression is NULL");
    if (options && check_options(options, err) < 0)
        return LW_EINVAL;
    const char *zone = options && options->zone ? options->zone : "UTC";
    int rc = lw__cron_read(&read, expression, options ? options->offset_ms : 0, err);
    if (rc < 0)
        return rc;
    rc = lw_zone_open(&read.zone, zones, zone, err);
    if (rc < 0)
        return rc;
    lw_cron *made = lw__alloc(zones->allocator, sizeof *made);
    if (!made) {
        lw_zone_close(read.zone);
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a cron expression");
    }
    *made = read;
    *cron = made;
    return LW_OK;
}

void lw_cron_close(lw_cron *cron) {
    if (!cron)
        return;
    lw_zone *zone = cron->zone;
    lw__free(zone->zones->allocator, cron, sizeof *cron);
    lw_zone_close(zone);
}

const lw_zone *lw_cron_zone(const lw_cron *cron) {
    return cron ? cron->zone : NULL;
}

/* ---- ticks --------------------------------------------------------------------------------- */

/* The first tick after an instant, or one that is after LW_TICK_MS_MAX. */
static int64_t next_tick(const lw_cron *cron, const struct lw__tz *tz, int64_t after_ms) {
    if (after_ms < -1)
        after_ms = -1;
    if (after_ms >= LW_TICK_MS_MAX)
        return INT64_MAX;
    if (cron->flags & LW__CRON_EVERY)
        return lw__cron_every_next(cron, after_ms);
    return lw__cron_tick_next(cron, tz, lw__zone_second(after_ms)) * 1000;
}

int lw_cron_next(const lw_cron *cron, int64_t after_ms, int64_t *tick_ms) {
    if (!cron || !tick_ms)
        return LW_EINVAL;
    struct lw__tz *tz = lw__zone_hold(cron->zone);
    int64_t tick = next_tick(cron, tz, after_ms);
    lw__zone_release(cron->zone, tz);
    if (tick > LW_TICK_MS_MAX)
        return LW_ENOTFOUND;
    *tick_ms = tick;
    return LW_OK;
}

int lw_cron_latest(const lw_cron *cron, int64_t after_ms, int64_t until_ms, int64_t *tick_ms) {
    if (!cron || !tick_ms)
        return LW_EINVAL;
    if (after_ms < -1)
        after_ms = -1;
    if (until_ms > LW_TICK_MS_MAX)
        until_ms = LW_TICK_MS_MAX;
    if (until_ms <= after_ms)
        return LW_ENOTFOUND;
    int64_t tick;
    if (cron->flags & LW__CRON_EVERY) {
        tick = lw__cron_every_latest(cron, until_ms);
    } else {
        struct lw__tz *tz = lw__zone_hold(cron->zone);
        tick = lw__cron_tick_latest(cron, tz, lw__zone_second(after_ms), lw__zone_second(until_ms));
        lw__zone_release(cron->zone, tz);
        tick = tick < 0 ? -1 : tick * 1000;
    }
    if (tick <= after_ms)
        return LW_ENOTFOUND;
    *tick_ms = tick;
    return LW_OK;
}

static int count_every(const lw_cron *cron, int64_t after_ms, int64_t until_ms, int max) {
    int64_t first = lw__cron_every_next(cron, after_ms);
    if (first > until_ms)
        return 0;
    int64_t count = (until_ms - first) / cron->every_ms + 1;
    return count < max ? (int)count : max;
}

int lw_cron_count(const lw_cron *cron, int64_t after_ms, int64_t until_ms, int max) {
    if (!cron || max < 1 || max > LW_CRON_COUNT_MAX)
        return LW_EINVAL;
    if (after_ms < -1)
        after_ms = -1;
    if (until_ms > LW_TICK_MS_MAX)
        until_ms = LW_TICK_MS_MAX;
    if (until_ms <= after_ms)
        return 0;
    if (cron->flags & LW__CRON_EVERY)
        return count_every(cron, after_ms, until_ms, max);
    int count = 0;
    struct lw__tz *tz = lw__zone_hold(cron->zone);
    while (count < max && (after_ms = next_tick(cron, tz, after_ms)) <= until_ms)
        count++;
    lw__zone_release(cron->zone, tz);
    return count;
}
