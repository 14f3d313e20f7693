/* One zone: what its clocks show, and when they change. */
#include "calendar/zone.h"

#include "calendar/date.h"

#include <stdio.h>
#include <string.h>

struct lw__tz *lw__zone_hold(const lw_zone *zone) {
    if (zone->is_fixed) /* its data never change, and live as long as the zone */
        return zone->tz;
    struct lw__brief *lock = (struct lw__brief *)&zone->lock;
    lw__brief_lock(lock);
    struct lw__tz *tz = zone->tz;
    atomic_fetch_add_explicit(&tz->refs, 1, memory_order_relaxed);
    lw__brief_unlock(lock);
    return tz;
}

void lw__zone_release(const lw_zone *zone, struct lw__tz *tz) {
    if (!zone->is_fixed)
        lw__tz_release(tz, zone->zones->allocator);
}

int64_t lw__zone_second(int64_t at_ms) {
    return lw__floor_div(at_ms, 1000);
}

const char *lw_zone_name(const lw_zone *zone) {
    return zone ? zone->name : NULL;
}

uint32_t lw_zone_version(const lw_zone *zone) {
    return zone ? atomic_load(&zone->version) : 0;
}

static bool is_instant(int64_t at_ms) {
    return at_ms >= 0 && at_ms <= LW_TICK_MS_MAX;
}

/* ---- local times --------------------------------------------------------------------------- */

int lw_zone_local(const lw_zone *zone, int64_t at_ms, lw_local_time *local) {
    if (!zone || !local || !is_instant(at_ms))
        return LW_EINVAL;
    struct lw__tz *tz = lw__zone_hold(zone);
    const struct lw__tz_kind *kind = lw__tz_kind_at(tz, at_ms / 1000);
    int64_t shown = at_ms / 1000 + kind->offset_s;
    int64_t days = lw__floor_div(shown, LW__DAY_S);
    int second = (int)(shown - days * LW__DAY_S);
    struct lw__date date = lw__date_of(days);
    *local = (lw_local_time){.year = date.year,
                             .month = date.month,
                             .day = date.day,
                             .hour = second / 3600,
                             .minute = second / 60 % 60,
                             .second = second % 60,
                             .millisecond = (int)(at_ms % 1000),
                             .weekday = lw__date_weekday(days),
                             .offset_s = kind->offset_s,
                             .is_dst = kind->is_dst};
    memcpy(local->abbreviation, kind->abbreviation, sizeof local->abbreviation);
    lw__zone_release(zone, tz);
    return LW_OK;
}

int lw_zone_format(const lw_zone *zone, int64_t at_ms, char *text, size_t size) {
    lw_local_time local;
    char offset[LW__ZONE_OFFSET_SIZE], fraction[sizeof ".999"] = "";
    if (!text || size == 0 || lw_zone_local(zone, at_ms, &local) < 0)
        return LW_EINVAL;
    lw__zone_offset_write(offset, local.offset_s);
    if (local.millisecond > 0)
        snprintf(fraction, sizeof fraction, ".%03u", (unsigned)local.millisecond % 1000);
    /* an abbreviation like "+0330" says nothing more */
    bool is_named = local.abbreviation[0] != '+' && local.abbreviation[0] != '-';
    snprintf(text, size, "%04d-%02d-%02d %02d:%02d:%02d%s %s%s%s", local.year, local.month,
             local.day, local.hour, local.minute, local.second, fraction, offset,
             is_named ? " " : "", is_named ? local.abbreviation : "");
    return LW_OK;
}

/* ---- clock changes ------------------------------------------------------------------------- */

int lw_zone_next_change(const lw_zone *zone, int64_t after_ms, lw_zone_change *change) {
    if (!zone || !change || !is_instant(after_ms))
        return LW_EINVAL;
    struct lw__tz *tz = lw__zone_hold(zone);
    struct lw__span span = lw__tz_span_at(tz, after_ms / 1000);
    int rc = LW_ENOTFOUND;
    while (rc != LW_OK && span.to <= LW_TICK_MS_MAX / 1000) {
        struct lw__span next = lw__tz_span_at(tz, span.to);
        if (next.offset_s != span.offset_s) {
            *change = (lw_zone_change){
                .at_ms = next.from * 1000, .before_s = span.offset_s, .after_s = next.offset_s};
            rc = LW_OK;
        }
        span = next;
    }
    lw__zone_release(zone, tz);
    return rc;
}
