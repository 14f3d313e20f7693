/* Flows: what the store knows of resources. To steer one takes the program that has declared its
 * flow; so these routes only show. Looked at on threads of the pool, as tasks are. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/refuse.h"

/* ---- as JSON ------------------------------------------------------------------------------- */

static void put_text(struct lw__json_writer *json, const char *name, const char *text) {
    if (!text[0])
        return;
    lw__json_key(json, name);
    lw__json_put_text(json, text);
}

static void put_uint(struct lw__json_writer *json, const char *name, uint64_t number) {
    lw__json_key(json, name);
    lw__json_put_uint(json, number);
}

/* 0: has not happened, there is none. */
static void put_some(struct lw__json_writer *json, const char *name, uint64_t number) {
    if (number > 0)
        put_uint(json, name, number);
}

static void put_flag(struct lw__json_writer *json, const char *name, bool is_set) {
    if (!is_set)
        return;
    lw__json_key(json, name);
    lw__json_put_bool(json, true);
}

static void put_step(struct lw__json_writer *json, const lw_flow_step *step) {
    lw__json_object(json);
    put_text(json, "step", step->name);
    put_text(json, "flag", step->flag);
    put_text(json, "state", lw_step_state_name(step->state));
    put_some(json, "done_ms", (uint64_t)step->done_ms);
    put_some(json, "task", step->task);
    if (step->task)
        put_text(json, "task_state", lw_state_name(step->task_state));
    put_uint(json, "attempts", step->attempts);
    put_some(json, "due_ms", (uint64_t)step->due_ms);
    put_text(json, "error", step->error);
    lw__json_close(json);
}

static void put_history(struct lw__json_writer *json, const lw_flow_status *flow) {
    lw__json_key(json, "history");
    lw__json_array(json);
    for (unsigned i = 0; i < flow->history_count; i++) {
        lw__json_object(json);
        put_uint(json, "at_ms", (uint64_t)flow->history[i].at_ms);
        put_uint(json, "generation", flow->history[i].generation);
        put_text(json, "state", flow->history[i].state);
        lw__json_close(json);
    }
    lw__json_close(json);
    put_some(json, "history_dropped", flow->history_dropped);
}

static void put_all(struct lw__json_writer *json, const lw_flow_status *flow) {
    lw__json_key(json, "steps");
    lw__json_array(json);
    for (unsigned i = 0; i < flow->step_count; i++)
        put_step(json, &flow->steps[i]);
    lw__json_close(json);
    put_history(json, flow);
    if (flow->payload_size > 0)
        lw__show_bytes(json, "payload", (lw_bytes){flow->payload, flow->payload_size});
}

void lw__show_flow(struct lw__json_writer *json, const lw_flow_status *flow, enum lw__show how) {
    lw__json_object(json);
    put_uint(json, "number", flow->number);
    put_text(json, "flow", flow->flow);
    put_text(json, "id", flow->id);
    put_text(json, "state", flow->state);
    put_text(json, "condition", lw_flow_condition_name(flow->condition));
    put_text(json, "reason", flow->reason);
    put_uint(json, "generation", flow->generation);
    put_uint(json, "started_ms", (uint64_t)flow->started_ms);
    put_uint(json, "since_ms", (uint64_t)flow->since_ms);
    put_some(json, "open", flow->open);
    put_flag(json, "is_unclean", flow->is_unclean);
    put_flag(json, "is_partial", flow->is_partial);
    if (how == LW__SHOW_ALL)
        put_all(json, flow);
    lw__json_close(json);
}

static bool show_next(void *user, const lw_flow_status *flow) {
    struct lw__flow_page *page = user;
    lw__show_flow(page->json, flow, LW__SHOW_SHORT);
    page->count++;
    page->last = flow->number;
    return page->json->out->status >= 0;
}

int lw__show_flows(struct lw__json_writer *json, lw_engine *engine, struct lw__flow_page *page) {
    page->json = json;
    lw__json_object(json);
    lw__json_key(json, "flows");
    lw__json_array(json);
    int rc = lw_flow_browse(engine, &page->filter, show_next, page);
    if (rc < 0)
        return rc;
    lw__json_close(json);
    if (page->count == page->filter.limit)
        put_uint(json, "after", page->last);
    lw__json_close(json);
    return LW_OK;
}

/* ---- routes -------------------------------------------------------------------------------- */

static void show_one(struct lw__exchange *x) {
    lw_flow_status status;
    int rc = lw_flow_peek(x->server->engine, x->part, x->second, &status);
    if (rc == LW_OK)
        lw__show_flow(lw__reply_json(x, 200), &status, LW__SHOW_ALL);
    else if (rc == LW_ENOTFOUND)
        lw__reply_error(x, 404, "there is no %s/%s, or it has ended",
                        lw__slice_show(lw__slice_of(x->part)).text,
                        lw__slice_show(lw__slice_of(x->second)).text);
    else
        lw__reply_status(x, rc, NULL);
}

void lw__serve_flow(struct lw__exchange *x) {
    lw__exchange_offload(x, show_one, NULL);
}

static void show_page(struct lw__exchange *x) {
    int rc = lw__show_flows(lw__reply_json(x, 200), x->server->engine, x->state);
    if (rc < 0)
        lw__reply_status(x, rc, NULL);
}

static bool read_condition(const struct lw__exchange *x, lw_flow_condition *condition,
                           lw_error *err) {
#define CONDITION_NAME(constant, number, name) name,
    static const char *const names[] = {LW_FLOW_CONDITION_MAP(CONDITION_NAME) NULL};
#undef CONDITION_NAME
    const char *text = lw__exchange_query(x, "condition");
    int index;
    if (!text)
        return true;
    if (lw__word_read("condition", text, names, &index, err) < 0)
        return false;
    *condition = (lw_flow_condition)(LW_FLOW_HELD + index);
    return true;
}

static bool read_page(const struct lw__exchange *x, struct lw__flow_page *page, lw_error *err) {
    int64_t limit, after, list_max = x->server->config->list_max;
    page->filter = (lw_flow_filter){.struct_size = sizeof page->filter,
                                    .flow = lw__exchange_query(x, "flow"),
                                    .state = lw__exchange_query(x, "state")};
    if (!read_condition(x, &page->filter.condition, err)
        || !lw__exchange_number(x, "limit", list_max < 100 ? list_max : 100, 1, INT64_C(1) << 31,
                                &limit, err)
        || !lw__exchange_number(x, "after", 0, 0, INT64_C(1) << 53, &after, err))
        return false;
    page->filter.limit = (size_t)(limit < list_max ? limit : list_max);
    page->filter.after = (uint64_t)after;
    return true;
}

void lw__serve_flows(struct lw__exchange *x) {
    struct lw__flow_page *page = lw__exchange_keep(x, sizeof *page);
    x->state = page;
    if (page && read_page(x, page, &x->err)) {
        lw__exchange_offload(x, show_page, NULL);
        return;
    }
    lw__reply_status(x, page ? LW_EINVAL : LW_ENOMEM, page ? &x->err : NULL);
    lw__exchange_reply(x);
}
