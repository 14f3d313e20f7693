/* Accepting tasks. A single one goes to the engine without waiting: the engine calls back when it
 * is on the disk, and all that came meanwhile share the commit. Arrays, and what is long to read,
 * go to a thread of the pool. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/refuse.h"

#define ON_LOOP_MAX 65536 /* bytes of JSON that are read on the loop */

/* ---- answers ------------------------------------------------------------------------------- */

static void answer_submitted(struct lw__exchange *x) {
    if (x->waiter)
        lw__exchange_return(x->waiter, x->status);
    x->waiter = NULL;
    if (x->status < 0) {
        lw__reply_status(x, x->status, &x->err);
    } else {
        bool existed = x->status == LW_EXISTS;
        struct lw__json_writer *json = lw__reply_json(x, existed ? 200 : 201);
        x->reply.location = x->id;
        lw__json_object(json);
        lw__json_key(json, "id");
        lw__json_put_uint(json, x->id);
        lw__json_key(json, "existed");
        lw__json_put_bool(json, existed);
        lw__json_close(json);
    }
    lw__exchange_reply(x);
}

static void answer_refused(struct lw__exchange *x, int status, const lw_error *err) {
    lw__reply_status(x, status, err);
    lw__exchange_reply(x);
}

/* ---- one ----------------------------------------------------------------------------------- */

/* The trace goes along as the value of a context, which the engine copies. */
static int open_trace(const struct lw__exchange *x, lw_ctx **ctx, lw_error *err) {
    *ctx = NULL;
    if (!x->traceparent[0])
        return LW_OK;
    return lw_ctx_open(
        ctx, LW_CTX_OPTIONS(.value = x->traceparent, .value_size = LW__TRACEPARENT_SIZE), err);
}

/* After LW_OK the exchange is the engine's, until it calls back. */
static int submit_durably(struct lw__exchange *x, const lw_task *task) {
    lw__exchange_await(x, answer_submitted);
    int rc = lw__claims_submit(x, task);
    if (rc < 0)
        lw__exchange_unawait(x);
    return rc;
}

/* In memory it is accepted when the call returns, and a full store refuses: nothing waits. */
static int submit_at_once(struct lw__exchange *x, const lw_task *task) {
    int rc = x->status = lw_submit(x->server->engine, task, &x->id, &x->err);
    if (rc >= 0)
        answer_submitted(x); /* it may be gone now */
    return rc;
}

static void submit(struct lw__exchange *x, lw_task *task) {
    bool is_volatile = x->server->is_volatile;
    int rc = open_trace(x, &task->ctx, &x->err);
    if (rc == LW_OK)
        rc = is_volatile ? submit_at_once(x, task) : submit_durably(x, task);
    lw_ctx_close(task->ctx);
    if (rc < 0)
        answer_refused(x, rc, &x->err);
}

static bool read_task(struct lw__exchange *x, lw_task *task, lw_error *err) {
    *task = (lw_task){.struct_size = sizeof *task,
                      .kind = lw__exchange_query(x, "kind"),
                      .queue = x->part,
                      .key = lw__exchange_query(x, "key"),
                      .payload = {x->body.data, x->body.size}};
    if (!task->kind || !task->kind[0]) {
        lw__refuse(err, LW_EINVAL, "say which kind of task it is: ?kind=NAME");
        return false;
    }
    if (!lw__exchange_number(x, "priority", 1000, 0, UINT32_MAX, &task->priority, err)
        || !lw__exchange_duration(x, "delay", 0, &task->delay_ms, err))
        return false;
    task->priority = task->priority == 0 ? LW_ZERO : task->priority;
    return true;
}

void lw__serve_submit(struct lw__exchange *x) {
    lw_task task;
    if (read_task(x, &task, &x->err))
        submit(x, &task);
    else
        answer_refused(x, LW_EINVAL, &x->err);
}

/* ---- as JSON ------------------------------------------------------------------------------- */

static void submit_envelope(struct lw__exchange *x, struct lw__json value) {
    lw_task task;
    int rc = lw__envelope_read(x, value, &task, &x->err);
    if (rc < 0)
        answer_refused(x, rc, &x->err);
    else
        submit(x, &task);
}

/* Tasks of an array, with pointers to them. */
struct batch {
    size_t count;
    const struct lw__json *parts;
    lw_task *tasks;
    const lw_task **pointers;
    lw_id *ids;
};

static int open_batch(struct lw__exchange *x, struct lw__json array, struct batch *batch) {
    size_t max = (size_t)x->server->config->batch_max;
    batch->parts = lw__array_read(x, array, max, &batch->count);
    if (!batch->parts)
        return LW_ENOMEM;
    if (batch->count == 0 || batch->count > max)
        return lw__refuse(&x->err, LW_EINVAL, "an array has 1 to %zu tasks, not %zu", max,
                          batch->count);
    batch->tasks = lw__exchange_keep(x, batch->count * sizeof *batch->tasks);
    batch->pointers = lw__exchange_keep(x, batch->count * sizeof *batch->pointers);
    batch->ids = lw__exchange_keep(x, batch->count * sizeof *batch->ids);
    return batch->tasks && batch->pointers && batch->ids ? LW_OK : LW_ENOMEM;
}

static int read_batch(struct lw__exchange *x, struct batch *batch, lw_ctx *ctx) {
    lw_error why;
    for (size_t i = 0; i < batch->count; i++) {
        int rc = lw__envelope_read(x, batch->parts[i], &batch->tasks[i], &why);
        if (rc < 0)
            return lw__refuse(&x->err, rc, "task %zu of the array: %s", i + 1, why.message);
        batch->tasks[i].ctx = ctx;
        batch->pointers[i] = &batch->tasks[i];
    }
    return LW_OK;
}

static void show_batch(struct lw__exchange *x, const struct batch *batch, bool existed) {
    struct lw__json_writer *json = lw__reply_json(x, existed ? 200 : 201);
    lw__json_object(json);
    lw__json_key(json, "ids");
    lw__json_array(json);
    for (size_t i = 0; i < batch->count; i++)
        lw__json_put_uint(json, batch->ids[i]);
    lw__json_close(json);
    lw__json_key(json, "existed");
    lw__json_put_bool(json, existed);
    lw__json_close(json);
}

static void submit_array(struct lw__exchange *x, struct lw__json array) {
    struct batch batch = {0};
    lw_ctx *ctx = NULL;
    int rc = open_batch(x, array, &batch);
    if (rc == LW_OK)
        rc = open_trace(x, &ctx, &x->err);
    if (rc == LW_OK)
        rc = read_batch(x, &batch, ctx);
    if (rc == LW_OK)
        rc = lw_submit_many(x->server->engine, batch.pointers, batch.count, batch.ids, &x->err);
    if (rc < 0)
        lw__reply_status(x, rc, &x->err);
    else
        show_batch(x, &batch, rc == LW_EXISTS);
    lw_ctx_close(ctx);
}

/* On a thread of the pool; a single task comes back to the loop. */
static void read_document(struct lw__exchange *x) {
    struct lw__json value;
    x->status = lw__document_read(x, &value, &x->err);
    if (x->status < 0)
        lw__reply_status(x, x->status, &x->err);
    else if (lw__json_type(value) == LW__JSON_ARRAY)
        submit_array(x, value);
    else if ((x->state = lw__exchange_keep(x, sizeof value)) != NULL)
        memcpy(x->state, &value, sizeof value);
    else
        lw__reply_status(x, LW_ENOMEM, NULL);
}

static void read_on(struct lw__exchange *x) {
    if (x->state)
        submit_envelope(x, *(const struct lw__json *)x->state);
    else
        lw__exchange_reply(x);
}

static bool is_array(const struct lw__buffer *body) {
    size_t i = 0;
    while (i < body->size && strchr(" \t\r\n", body->data[i]) && body->data[i])
        i++;
    return i < body->size && body->data[i] == '[';
}

void lw__serve_submit_many(struct lw__exchange *x) {
    struct lw__json value;
    if (is_array(&x->body) || x->body.size > ON_LOOP_MAX) {
        lw__exchange_offload(x, read_document, read_on);
        return;
    }
    int rc = lw__document_read(x, &value, &x->err);
    if (rc < 0)
        answer_refused(x, rc, &x->err);
    else
        submit_envelope(x, value);
}
