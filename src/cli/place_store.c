/* A store without a server: what the library says, written as the server would write it. */
#include "cli/place_store.h"

#include "server/api/api.h"
#include "server/refuse.h"

static void begin(struct lw__place *place, struct lw__json_writer *json) {
    lw__buffer_cut(&place->body, 0);
    place->is_absent = false;
    lw__json_write(json, &place->body);
}

static int end(struct lw__place *place, lw_error *err) {
    place->json.raw = lw__buffer_slice(&place->body);
    if (place->body.status < 0)
        return lw__refuse(err, place->body.status, "there is too much to show: ask for less");
    return LW_OK;
}

static int refuse_task(int status, lw_id id, lw_error *err) {
    if (status == LW_ENOTFOUND)
        return lw__refuse(err, status, "there is no task %llu, or it has left", id);
    return lw__refuse(err, status, "task %llu cannot be read: %s", id, lw_status_text(status));
}

/* ---- look ---------------------------------------------------------------------------------- */

struct page {
    struct lw__json_writer json;
    size_t count;
    lw_id last;
};

static bool show_next(void *user, const lw_snapshot *task) {
    struct page *page = user;
    lw__show_task(&page->json, task, LW__SHOW_SHORT);
    page->count++;
    page->last = task->id;
    return page->json.out->status >= 0;
}

int lw__store_list(struct lw__place *place, const lw_filter *filter, lw_error *err) {
    struct page page = {.count = 0};
    begin(place, &page.json);
    lw__json_object(&page.json);
    lw__json_key(&page.json, "tasks");
    lw__json_array(&page.json);
    int rc = lw_list(place->engine, filter, show_next, &page);
    if (rc < 0)
        return lw__refuse(err, rc, "the store cannot be read: %s", lw_status_text(rc));
    lw__json_close(&page.json);
    if (page.count == filter->limit) {
        lw__json_key(&page.json, "after");
        lw__json_put_uint(&page.json, page.last);
    }
    lw__json_close(&page.json);
    return end(place, err);
}

/* In steps, so that whoever waits can be shown that it goes on. */
static void await_end(struct lw__place *place, lw_id id, int64_t wait_ms) {
    for (int64_t waited = 0; waited < wait_ms; waited += LW__CLIENT_TICK_MS) {
        if (lw_wait(place->engine, id, LW__CLIENT_TICK_MS, NULL) != LW_PENDING)
            return;
        if (place->tick)
            place->tick(place->user);
    }
}

int lw__store_get(struct lw__place *place, lw_id id, int64_t wait_ms, lw_error *err) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    struct lw__json_writer json;
    await_end(place, id, wait_ms);
    int rc = lw_get(place->engine, id, &task);
    if (rc == LW_OK) {
        begin(place, &json);
        lw__show_task(&json, &task, LW__SHOW_ALL);
        rc = end(place, err);
    } else {
        refuse_task(rc, id, err);
    }
    lw_snapshot_clear(&task);
    return rc;
}

int lw__store_explain(struct lw__place *place, lw_id id, lw_error *err) {
    struct lw__json_writer json;
    lw_explanation why;
    int rc = lw_explain(place->engine, id, &why);
    if (rc < 0)
        return refuse_task(rc, id, err);
    begin(place, &json);
    lw__json_object(&json);
    lw__json_key(&json, "state");
    lw__json_put_text(&json, lw_state_name(why.state));
    lw__json_key(&json, "reasons");
    lw__json_array(&json);
    for (unsigned i = 0; i < why.count; i++)
        lw__json_put_text(&json, why.reasons[i]);
    lw__json_close(&json);
    lw__json_close(&json);
    return end(place, err);
}

/* ---- flows --------------------------------------------------------------------------------- */

int lw__store_flows(struct lw__place *place, const lw_flow_filter *filter, lw_error *err) {
    struct lw__flow_page page = {.filter = *filter};
    struct lw__json_writer json;
    begin(place, &json);
    int rc = lw__show_flows(&json, place->engine, &page);
    if (rc < 0)
        return lw__refuse(err, rc, "the store cannot be read: %s", lw_status_text(rc));
    return end(place, err);
}

int lw__store_flow(struct lw__place *place, const char *flow, const char *id, lw_error *err) {
    struct lw__json_writer json;
    lw_flow_status status;
    int rc = lw_flow_peek(place->engine, flow, id, &status);
    if (rc < 0)
        return lw__refuse(
            err, rc,
            rc == LW_ENOTFOUND ? "there is no %s/%s, or it has ended" : "%s/%s cannot be read",
            lw__slice_show(lw__slice_of(flow)).text, lw__slice_show(lw__slice_of(id)).text);
    begin(place, &json);
    lw__show_flow(&json, &status, LW__SHOW_ALL);
    return end(place, err);
}

/* ---- submit -------------------------------------------------------------------------------- */

int lw__store_submit(struct lw__place *place, const lw_task *task, lw_error *err) {
    struct lw__json_writer json;
    lw_id id = 0;
    int rc = lw_submit(place->engine, task, &id, err);
    if (rc < 0)
        return rc;
    begin(place, &json);
    lw__json_object(&json);
    lw__json_key(&json, "id");
    lw__json_put_uint(&json, id);
    lw__json_key(&json, "existed");
    lw__json_put_bool(&json, rc == LW_EXISTS);
    lw__json_close(&json);
    return end(place, err);
}
