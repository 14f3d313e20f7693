/* Looking. A payload may have to be read from the disk, and a filter may have to look at very many
 * tasks: all of it is done on threads of the pool. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/refuse.h"

static void refuse(struct lw__exchange *x) {
    lw__reply_status(x, LW_EINVAL, &x->err);
    lw__exchange_reply(x);
}

/* ---- one task ------------------------------------------------------------------------------ */

static void reply_missing(struct lw__exchange *x) {
    lw__refuse(&x->err, LW_ENOTFOUND, "there is no task %llu, or it has left", x->id);
    lw__reply_status(x, LW_ENOTFOUND, &x->err);
}

/* One that left right at its end: how it ended is all that is known. */
static void show_gone(struct lw__exchange *x) {
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_object(json);
    lw__json_key(json, "id");
    lw__json_put_uint(json, x->id);
    lw__json_key(json, "state");
    lw__json_put_text(json, lw_state_name(x->ended));
    lw__json_close(json);
}

static void show_one(struct lw__exchange *x) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    int rc = lw_get(x->server->engine, x->id, &task);
    if (rc == LW_OK)
        lw__show_task(lw__reply_json(x, 200), &task, LW__SHOW_ALL);
    else if (rc == LW_ENOTFOUND && x->ended)
        show_gone(x);
    else if (rc == LW_ENOTFOUND)
        reply_missing(x);
    else
        lw__reply_status(x, rc, NULL);
    lw_snapshot_clear(&task);
}

static void show_written(struct lw__exchange *x) {
    if (x->status == LW_OK) {
        lw__exchange_offload(x, show_one, NULL);
        return;
    }
    lw__reply_unwritten(x, LW__DONE_UNWRITTEN);
    lw__exchange_reply(x);
}

/* Whoever waits for an end is told of it when it is on the disk: a crash takes it back before. */
static void show_when_written(struct lw__exchange *x) {
    lw__exchange_await(x, show_written);
    int rc = lw_sync_async(x->server->engine, lw__exchange_called, x, &x->err);
    if (rc == LW_OK)
        return;
    lw__exchange_unawait(x);
    lw__exchange_offload(x, show_one, NULL);
}

static void answer_or_wait(struct lw__exchange *x) {
    int64_t left = x->wait_until - lw__loop_now_ms(&x->server->loop);
    if (left <= 0 || x->server->phase != LW__SERVING
        || lw_wait(x->server->engine, x->id, 0, NULL) != LW_PENDING)
        lw__exchange_offload(x, show_one, NULL);
    else if (lw__ends_has_ended(x))
        show_when_written(x);
    else
        lw__ends_park(x, left, answer_or_wait);
}

void lw__serve_get(struct lw__exchange *x) {
    int64_t wait;
    if (!lw__exchange_id(x, &x->id, &x->err)
        || !lw__exchange_duration(x, "wait", 0, &wait, &x->err)) {
        refuse(x);
        return;
    }
    if (wait > x->server->config->wait_max_ms)
        wait = x->server->config->wait_max_ms;
    x->wait_until = lw__loop_now_ms(&x->server->loop) + wait;
    answer_or_wait(x);
}

static void explain(struct lw__exchange *x) {
    lw_explanation why;
    int rc = lw_explain(x->server->engine, x->id, &why);
    if (rc == LW_ENOTFOUND) {
        reply_missing(x);
        return;
    }
    if (rc < 0) {
        lw__reply_status(x, rc, NULL);
        return;
    }
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_object(json);
    lw__json_key(json, "state");
    lw__json_put_text(json, lw_state_name(why.state));
    lw__json_key(json, "reasons");
    lw__json_array(json);
    for (unsigned i = 0; i < why.count; i++)
        lw__json_put_text(json, why.reasons[i]);
    lw__json_close(json);
    lw__json_close(json);
}

void lw__serve_explain(struct lw__exchange *x) {
    if (lw__exchange_id(x, &x->id, &x->err))
        lw__exchange_offload(x, explain, NULL);
    else
        refuse(x);
}

/* ---- many ---------------------------------------------------------------------------------- */

struct page {
    lw_filter filter;
    struct lw__json_writer *json;
    size_t count;
    lw_id last;
};

static bool show_next(void *user, const lw_snapshot *task) {
    struct page *page = user;
    lw__show_task(page->json, task, LW__SHOW_SHORT);
    page->count++;
    page->last = task->id;
    return page->json->out->status >= 0;
}

static void show_page(struct lw__exchange *x) {
    struct page *page = x->state;
    page->json = lw__reply_json(x, 200);
    lw__json_object(page->json);
    lw__json_key(page->json, "tasks");
    lw__json_array(page->json);
    int rc = lw_list(x->server->engine, &page->filter, show_next, page);
    if (rc < 0) {
        lw__reply_status(x, rc, NULL);
        return;
    }
    lw__json_close(page->json);
    if (page->count == page->filter.limit) {
        lw__json_key(page->json, "after");
        lw__json_put_uint(page->json, page->last);
    }
    lw__json_close(page->json);
}

static bool read_state(const struct lw__exchange *x, lw_state *state, lw_error *err) {
    static const char *const names[] = {"created",  "scheduled", "enqueued", "started",
                                        "finished", "failed",    "aborted",  NULL};
    const char *text = lw__exchange_query(x, "state");
    int index;
    if (!text)
        return true;
    if (lw__word_read("state", text, names, &index, err) < 0)
        return false;
    *state = (lw_state)(LW_CREATED + index);
    return true;
}

bool lw__filter_read(const struct lw__exchange *x, lw_filter *filter, lw_error *err) {
    *filter = (lw_filter){.struct_size = sizeof *filter,
                          .kind = lw__exchange_query(x, "kind"),
                          .queue = lw__exchange_query(x, "queue")};
    return read_state(x, &filter->state, err);
}

void lw__serve_list(struct lw__exchange *x) {
    int64_t limit, after, list_max = x->server->config->list_max;
    struct page *page = lw__exchange_keep(x, sizeof *page);
    x->state = page;
    if (!page) {
        lw__reply_status(x, LW_ENOMEM, NULL);
        lw__exchange_reply(x);
        return;
    }
    if (!lw__filter_read(x, &page->filter, &x->err)
        || !lw__exchange_number(x, "limit", list_max < 100 ? list_max : 100, 1, INT64_C(1) << 31,
                                &limit, &x->err)
        || !lw__exchange_number(x, "after", 0, 0, INT64_C(1) << 53, &after, &x->err)) {
        refuse(x);
        return;
    }
    page->filter.key = lw__exchange_query(x, "key");
    page->filter.limit = (size_t)(limit < list_max ? limit : list_max);
    page->filter.after = (lw_id)after;
    lw__exchange_offload(x, show_page, NULL);
}

/* ---- queues and kinds ---------------------------------------------------------------------- */

static void put_figure(struct lw__json_writer *json, const char *name, uint64_t figure) {
    lw__json_key(json, name);
    lw__json_put_uint(json, figure);
}

static bool show_queue(void *user, const lw_queue_stats *queue) {
    struct lw__json_writer *json = user;
    lw__json_object(json);
    lw__json_key(json, "name");
    lw__json_put_text(json, queue->name);
    lw__json_key(json, "is_paused");
    lw__json_put_bool(json, queue->is_paused);
    put_figure(json, "unfinished", queue->unfinished);
    put_figure(json, "enqueued", queue->enqueued);
    put_figure(json, "bytes", queue->bytes);
    put_figure(json, "submitted_total", queue->submitted_total);
    lw__json_close(json);
    return json->out->status >= 0;
}

static bool show_kind(void *user, const lw_kind_stats *kind) {
    struct lw__json_writer *json = user;
    lw__json_object(json);
    lw__json_key(json, "name");
    lw__json_put_text(json, kind->name);
    lw__json_key(json, "has_handler");
    lw__json_put_bool(json, kind->has_handler);
    put_figure(json, "created", kind->created);
    put_figure(json, "scheduled", kind->scheduled);
    put_figure(json, "enqueued", kind->enqueued);
    put_figure(json, "started", kind->started);
    put_figure(json, "finished", kind->finished);
    put_figure(json, "failed", kind->failed);
    put_figure(json, "aborted", kind->aborted);
    lw__json_close(json);
    return json->out->status >= 0;
}

static void show_queues(struct lw__exchange *x) {
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_array(json);
    int rc = lw_list_queues(x->server->engine, show_queue, json);
    if (rc < 0)
        lw__reply_status(x, rc, NULL);
    else
        lw__json_close(json);
}

static void show_kinds(struct lw__exchange *x) {
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_array(json);
    int rc = lw_list_kinds(x->server->engine, show_kind, json);
    if (rc < 0)
        lw__reply_status(x, rc, NULL);
    else
        lw__json_close(json);
}

void lw__serve_queues(struct lw__exchange *x) {
    lw__exchange_offload(x, show_queues, NULL);
}

void lw__serve_kinds(struct lw__exchange *x) {
    lw__exchange_offload(x, show_kinds, NULL);
}
