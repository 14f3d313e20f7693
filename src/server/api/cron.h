/* When a cron expression is due, as JSON: for the API, and for `legwork cron next`. */
#ifndef LW_SERVER_API_CRON_H
#define LW_SERVER_API_CRON_H

#include "server/json.h"

#include <legwork/cron.h>

#define LW__CRON_NEXT_MAX 1000 /* ticks of an answer */

struct lw__cron_question {
    const char *expression, *zone;
    int64_t offset_ms; /* of @every */
    int64_t from_ms;   /* ticks after this */
    int64_t count;
};

/* {"expression": ..., "zone": ..., "words": ..., "ticks": [{"at_ms": ..., "local": ...}]}; a tick
 * before which the zone's clocks have changed, since the one before it or since from_ms, has a
 * "change", too.
 * Returns LW_OK, or what lw_cron_parse said, with its sentence; then `json` is not to be used. */
int lw__show_cron(struct lw__json_writer *json, lw_zones *zones,
                  const struct lw__cron_question *question, lw_error *err);

#endif
