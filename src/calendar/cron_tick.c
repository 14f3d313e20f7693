/* Ticks in a zone: local times that match, made instants.
 *
 * Clocks go forward evenly through a span (tz.h) and jump between two. With an hour field that
 * begins with *, every local time of every span counts: a second pass has ticks again, a gap has
 * none. With fixed hours, a span counts from the latest local time that was shown before it
 * (`high`): what lies below is a second pass. If `high` is below the span's first local time, what
 * lies in between is a gap, and a match in it makes the span's first instant a tick.
 *
 * A match that is far away is not looked for span by span: no span that ends more than the largest
 * offset before it can hold it, or have a gap that does.
 */
#include "calendar/cron_internal.h"

#define YEAR_MAX 10000                /* a local time of 9999 in UTC can be of the year after */
#define REACH_S LW__TZ_OFFSET_S_LIMIT /* local times are nearer than this to their instants */
#define TICK_S_MAX (LW_TICK_MS_MAX / 1000)

static bool has_fixed_hours(const lw_cron *cron) {
    return !(cron->flags & LW__CRON_HOUR_STAR);
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* ---- forward ------------------------------------------------------------------------------- */

/* The first match from `low` on. */
struct match {
    int64_t low, at;
};

static struct match match_from(const lw_cron *cron, int64_t low) {
    return (struct match){low, lw__cron_local_next(cron, low, YEAR_MAX)};
}

/* Whether all spans from `to` on, as far as they end before a match can be near, have nothing: no
 * match before match->at, and no clock that is set back to before match->low. */
static bool may_jump(const lw_cron *cron, const struct match *match, int64_t to) {
    return match->at - REACH_S > to && (has_fixed_hours(cron) || to >= match->low + REACH_S);
}

int64_t lw__cron_tick_next(const lw_cron *cron, const struct lw__tz *tz, int64_t after) {
    bool is_fixed = has_fixed_hours(cron);
    struct lw__span span = lw__tz_span_at(tz, after);
    int64_t low = after + 1 + span.offset_s;
    struct match match = match_from(cron, is_fixed ? larger(low, span.high) : low);
    while (match.at >= span.to + span.offset_s) {
        if (span.to > TICK_S_MAX)
            return LW__CRON_NEVER;
        if (may_jump(cron, &match, span.to)) {
            if (match.at - REACH_S > TICK_S_MAX)
                return LW__CRON_NEVER;
            span = lw__tz_span_at(tz, match.at - REACH_S);
            continue;
        }
        span = lw__tz_span_at(tz, span.to);
        low = span.from + span.offset_s;
        if (is_fixed && match.at < low)
            return span.from; /* in the gap */
        if (!is_fixed && (low < match.low || low > match.at))
            match = match_from(cron, low);
    }
    return match.at - span.offset_s;
}

/* ---- backward ------------------------------------------------------------------------------ */

/* The latest match up to `high`. */
struct latest {
    int64_t high, at;
};

static struct latest latest_to(const lw_cron *cron, int64_t high) {
    return (struct latest){high, lw__cron_local_latest(cron, high)};
}

int64_t lw__cron_tick_latest(const lw_cron *cron, const struct lw__tz *tz, int64_t after,
                             int64_t until) {
    bool is_fixed = has_fixed_hours(cron);
    struct lw__span span = lw__tz_span_at(tz, until);
    struct latest latest = latest_to(cron, until + span.offset_s);
    for (;;) {
        int64_t low = span.from + span.offset_s;
        if (latest.at >= (is_fixed ? larger(low, span.high) : low))
            return latest.at - span.offset_s;
        if (is_fixed && latest.at < low && latest.at >= span.high)
            return span.from; /* in the gap */
        if (span.from <= after + 1)
            return after; /* ticks of earlier spans are too early */
        if (latest.at + REACH_S < span.from && span.from + REACH_S < latest.high) {
            span = lw__tz_span_at(tz, larger(latest.at + REACH_S, after));
            continue;
        }
        int64_t end = span.from - 1;
        span = lw__tz_span_at(tz, end);
        end += span.offset_s;
        if (end > latest.high || end < latest.at)
            latest = latest_to(cron, end);
    }
}
