/* A store that is opened directly, answering as a server does: place.c asks, nobody else. */
#ifndef LW_CLI_PLACE_STORE_H
#define LW_CLI_PLACE_STORE_H

#include "cli/place.h"

int lw__store_list(struct lw__place *place, const lw_filter *filter, lw_error *err);
int lw__store_get(struct lw__place *place, lw_id id, int64_t wait_ms, lw_error *err);
int lw__store_explain(struct lw__place *place, lw_id id, lw_error *err);
int lw__store_submit(struct lw__place *place, const lw_task *task, lw_error *err);
int lw__store_flows(struct lw__place *place, const lw_flow_filter *filter, lw_error *err);
int lw__store_flow(struct lw__place *place, const char *flow, const char *id, lw_error *err);

#endif
