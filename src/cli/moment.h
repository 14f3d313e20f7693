/* Points in time: read as people write them, and shown in a zone. */
#ifndef LW_CLI_MOMENT_H
#define LW_CLI_MOMENT_H

#include "cli/render.h"

#include <legwork/cron.h>

/* How a moment is written, for the help. */
#define LW__MOMENT_FORMS "now, 2026-03-27, \"2026-03-27 14:30\", with a zone behind it or without"

/* Reads a moment: "now"; milliseconds since 1970, as the API shows times; or a date, perhaps with
 * a time of day (14:30, 14:30:05, after a space or a T), in the zone whose name stands behind it
 * ("Z", "+02:00", "Europe/Berlin"), or else in `zone`. Of a time of day that comes twice it is the
 * first pass; one that is left out is the end of the gap.
 * Returns LW_OK; with a sentence: LW_EINVAL, or as lw_zone_open for a zone. */
int lw__moment_read(const char *text, lw_zones *zones, const lw_zone *zone, int64_t now_ms,
                    int64_t *at_ms, lw_error *err);

/* "Fri 2026-03-27 14:30 CET": what clocks in the zone show, with seconds or without. */
struct lw__words lw__moment_in(const lw_zone *zone, int64_t at_ms, bool has_seconds);

/* "2026-03-27 13:30", in UTC. */
struct lw__words lw__moment_utc(int64_t at_ms, bool has_seconds);

/* Whether a moment is not at the beginning of a minute. */
bool lw__moment_has_seconds(int64_t at_ms);

/* "clocks go forward 1 h at 02:00 on 2026-03-29". */
struct lw__change_words {
    char text[128];
};
struct lw__change_words lw__change_words_of(const lw_zone_change *change);

#endif
