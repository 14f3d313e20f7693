/* @every: ticks at the multiples of an interval since 1970, plus an offset. No zone has a say. */
#include "calendar/cron_internal.h"

#include "base/error.h"
#include "base/text.h"
#include "calendar/date.h"

#include <string.h>

/* The unit at `*at`, in ms, and past it; 0: there is none. */
static int64_t take_unit(const char **at) {
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"ms", 1},      {"s", 1000},     {"m", 60000},
                 {"h", 3600000}, {"d", 86400000}, {"w", INT64_C(604800000)}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strncmp(*at, units[i].name, strlen(units[i].name)) == 0) {
            *at += strlen(units[i].name);
            return units[i].ms;
        }
    return 0;
}

/* Reads "90s" or "1h30m", larger units first. Returns -1 if it is none, or INT64_MAX if it is
 * longer than LW_TIMEOUT_MS_MAX. */
static int64_t read_interval(const char *at) {
    int64_t all = 0, last_unit = INT64_MAX;
    do {
        int64_t count = 0;
        if (*at < '0' || *at > '9')
            return -1;
        for (; *at >= '0' && *at <= '9'; at++)
            if (count <= LW_TIMEOUT_MS_MAX)
                count = count * 10 + (*at - '0');
        int64_t unit = take_unit(&at);
        if (unit == 0 || unit >= last_unit)
            return -1;
        last_unit = unit;
        all = count > LW_TIMEOUT_MS_MAX / unit || all > LW_TIMEOUT_MS_MAX - count * unit
                  ? INT64_MAX
                  : all + count * unit;
    } while (*at != 0 && *at != ' ' && *at != '\t' && all < INT64_MAX);
    return at[strspn(at, " \t")] == 0 || all == INT64_MAX ? all : -1;
}

int lw__cron_every_read(lw_cron *cron, const char *expression, const char *at, int64_t offset_ms,
                        lw_error *err) {
    at += strspn(at, " \t");
    int position = (int)(at - expression) + 1;
    int64_t every = read_interval(at);
    if (every < 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "@every, position %d: \"%s\" is no interval; wanted one such as 90s, "
                             "500ms, 15m, 1h30m, 2d or 1w",
                             position, lw__text_quote(at).text);
    if (every < LW_CRON_EVERY_MS_MIN || every > LW_TIMEOUT_MS_MAX)
        return lw__error_set(
            err, LW_EINVAL, 0, "@every, position %d: \"%s\" is too %s; wanted %d ms to %lld days",
            position, lw__text_quote(at).text, every < LW_CRON_EVERY_MS_MIN ? "short" : "long",
            LW_CRON_EVERY_MS_MIN, (long long)(LW_TIMEOUT_MS_MAX / 86400000));
    cron->flags = LW__CRON_EVERY;
    cron->every_ms = every;
    cron->offset_ms = offset_ms % every;
    return LW_OK;
}

/* The latest multiple up to an instant, which may be before 1970. */
int64_t lw__cron_every_latest(const lw_cron *cron, int64_t until_ms) {
    return lw__floor_div(until_ms - cron->offset_ms, cron->every_ms) * cron->every_ms
           + cron->offset_ms;
}

int64_t lw__cron_every_next(const lw_cron *cron, int64_t after_ms) {
    return lw__cron_every_latest(cron, after_ms) + cron->every_ms;
}
