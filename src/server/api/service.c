/* Which function serves a route, and what it may do. */
#include "server/api/api.h"
#include "server/api/handlers.h"

const struct lw__service lw__services[LW__ROUTES] = {
    [LW__ROUTE_SUBMIT] = {lw__serve_submit, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_SUBMIT_MANY] = {lw__serve_submit_many, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_LIST] = {lw__serve_list, 0},
    [LW__ROUTE_GET] = {lw__serve_get, 0},
    [LW__ROUTE_EXPLAIN] = {lw__serve_explain, 0},
    [LW__ROUTE_FORGET] = {lw__serve_forget, 0},
    [LW__ROUTE_CANCEL] = {lw__serve_cancel, 0},
    [LW__ROUTE_RUN] = {lw__serve_run, 0},
    [LW__ROUTE_RUN_MANY] = {lw__serve_run_many, 0},
    [LW__ROUTE_CLAIM] = {lw__serve_claim, 0},
    [LW__ROUTE_FINISH] = {lw__serve_outcome, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_FAIL] = {lw__serve_outcome, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_RETRY] = {lw__serve_outcome, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_SNOOZE] = {lw__serve_outcome, LW__OVERLAPS},
    [LW__ROUTE_EXTEND] = {lw__serve_extend, 0},
    [LW__ROUTE_PROGRESS] = {lw__serve_progress, LW__HAS_BODY},
    [LW__ROUTE_CHECKPOINT] = {lw__serve_checkpoint, LW__HAS_BODY},
    [LW__ROUTE_SETTLE] = {lw__serve_settle, LW__HAS_BODY | LW__OVERLAPS},
    [LW__ROUTE_QUEUES] = {lw__serve_queues, 0},
    [LW__ROUTE_PAUSE] = {lw__serve_pause, 0},
    [LW__ROUTE_RESUME] = {lw__serve_resume, 0},
    [LW__ROUTE_KINDS] = {lw__serve_kinds, 0},
    [LW__ROUTE_FLOWS] = {lw__serve_flows, 0},
    [LW__ROUTE_FLOW] = {lw__serve_flow, 0},
    [LW__ROUTE_DRAIN] = {lw__serve_drain, 0},
    [LW__ROUTE_METRICS] = {lw__serve_metrics, 0},
    [LW__ROUTE_HEALTHZ] = {lw__serve_health, 0},
    [LW__ROUTE_READYZ] = {lw__serve_ready, 0},
};
