/* What a remote worker says about its attempts. The engine is told on the loop, without waiting for
 * the disk, and the answer goes out when it is there: many workers share a commit. What is long to
 * read is read by a thread of the pool. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/refuse.h"
#include "server/units.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#define ON_LOOP_MAX 65536 /* bytes of JSON that are read on the loop */

/* ---- answers ------------------------------------------------------------------------------- */

static void refuse(struct lw__exchange *x, int status) {
    lw__reply_status(x, status, &x->err);
    lw__exchange_reply(x);
}

static void answer_durable(struct lw__exchange *x) {
    if (x->status < 0)
        lw__reply_unwritten(x, LW__DONE_UNWRITTEN);
    lw__exchange_reply(x);
}

/* Sends the reply that is there, when all that was said is on the disk. */
static void reply_when_durable(struct lw__exchange *x) {
    if (x->server->is_volatile) {
        lw__exchange_reply(x);
        return;
    }
    lw__exchange_await(x, answer_durable);
    int rc = lw_sync_async(x->server->engine, lw__exchange_called, x, &x->err);
    if (rc == LW_OK)
        return;
    lw__exchange_unawait(x);
    lw__reply_unwritten(x, LW__DONE_UNWRITTEN);
    lw__exchange_reply(x);
}

/* 202: done, but the task was cancelled meanwhile, and the worker should give up. */
static void reply_said(struct lw__exchange *x, int rc, bool is_durable) {
    if (rc < 0) {
        refuse(x, rc);
        return;
    }
    lw__reply_empty(x, rc == LW_PENDING ? 202 : 204);
    if (is_durable)
        lw__exchange_reply(x);
    else
        reply_when_durable(x);
}

/* ---- parameters ---------------------------------------------------------------------------- */

static bool read_token(const char *text, uint64_t *token) {
    char *end;
    if (!text || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *token = strtoull(text, &end, 10);
    return *end == '\0' && errno == 0;
}

static bool read_attempt(struct lw__exchange *x, uint64_t *token) {
    if (!lw__exchange_id(x, &x->id, &x->err))
        return false;
    if (read_token(lw__exchange_query(x, "token"), token)) {
        lw__handed_show(x->server, x->id, *token);
        return true;
    }
    lw__refuse(&x->err, LW_EINVAL, "say which attempt it is: ?token=, as the claim has given it");
    return false;
}

/* The body as a string; NULL: no memory. */
static const char *body_text(struct lw__exchange *x) {
    char *text = lw__exchange_keep(x, x->body.size + 1);
    if (text && x->body.size > 0)
        memcpy(text, x->body.data, x->body.size);
    return text;
}

/* ---- outcomes ------------------------------------------------------------------------------ */

static const char *const outcome_names[] = {"finish", "fail", "retry", "snooze", NULL};
static const lw_outcome outcomes[] = {LW_OUTCOME_DONE, LW_OUTCOME_FAIL, LW_OUTCOME_RETRY,
                                      LW_OUTCOME_SNOOZE};

/* Of a retry, no time means that of the policy, and 0 means at once. */
static void set_wait(lw_settlement *end, bool is_given, int64_t ms) {
    bool is_at_once = end->outcome == LW_OUTCOME_RETRY && is_given && ms == 0;
    end->wait_ms = is_at_once ? LW_ZERO : ms;
}

static int read_successors(struct lw__exchange *x, struct lw__json array, lw_settlement *end,
                           lw_error *err) {
    struct lw__json_walk walk = lw__json_enter(array);
    struct lw__json key, part;
    size_t count = 0;
    if (lw__json_type(array) != LW__JSON_ARRAY)
        return lw__refuse(err, LW_EINVAL, "then must be an array of tasks");
    while (lw__json_next(&walk, &key, &part))
        count++;
    if (count > LW_THEN_MAX)
        return lw__refuse(err, LW_EINVAL, "then has %zu tasks, and at most %d are taken", count,
                          LW_THEN_MAX);
    lw_task *tasks = lw__exchange_keep(x, count * sizeof *tasks);
    const lw_task **pointers = lw__exchange_keep(x, count * sizeof *pointers);
    if (!tasks || !pointers)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    walk = lw__json_enter(array);
    for (size_t i = 0; lw__json_next(&walk, &key, &part); i++) {
        lw_error why;
        int rc = lw__envelope_read(x, part, &tasks[i], &why);
        if (rc < 0)
            return lw__refuse(err, rc, "task %zu of then: %s", i + 1, why.message);
        pointers[i] = &tasks[i];
    }
    end->then = pointers;
    end->then_count = count;
    return LW_OK;
}

/* Result and successors, of an object that was checked. */
static int read_result(struct lw__exchange *x, const struct lw__members *members,
                       lw_settlement *end, lw_error *err) {
    struct lw__json then;
    int rc = lw__member_bytes(x, members, "result", &end->result, err);
    if (rc == LW_OK && lw__member_find(members, "then", &then))
        rc = read_successors(x, then, end, err);
    return rc;
}

static int read_finish(struct lw__exchange *x, lw_settlement *end) {
    static const char *const names[] = {"result", "result_base64", "then", NULL};
    struct lw__json value;
    struct lw__members members;
    if (x->body.size == 0)
        return LW_OK;
    int rc = lw__document_read(x, &value, &x->err);
    if (rc == LW_OK)
        rc = lw__members_read(value, names, &members, &x->err);
    return rc == LW_OK ? read_result(x, &members, end, &x->err) : rc;
}

static int read_why(struct lw__exchange *x, lw_settlement *end) {
    const char *after = end->outcome == LW_OUTCOME_FAIL ? NULL : lw__exchange_query(x, "after");
    int64_t ms = 0;
    if (after && !lw__exchange_duration(x, "after", 0, &ms, &x->err))
        return LW_EINVAL;
    set_wait(end, after != NULL, ms);
    end->text = body_text(x);
    return end->text ? LW_OK : LW_ENOMEM;
}

/* On the loop, or on a thread of the pool if the body is long. The status is in x->status. */
static void settle_one(struct lw__exchange *x) {
    lw_settlement *end = x->state;
    x->status = end->outcome == LW_OUTCOME_DONE ? read_finish(x, end) : read_why(x, end);
    if (x->status < 0)
        return;
    x->status = lw_lease_settle(x->server->engine, end, 1, LW_NO_WAIT, &x->err);
    if (x->status == LW_OK)
        x->status = end->status;
}

static void settled_one(struct lw__exchange *x) {
    reply_said(x, x->status == LW_EUNSURE ? LW_OK : x->status, false);
}

void lw__serve_outcome(struct lw__exchange *x) {
    lw_settlement *end = lw__exchange_keep(x, sizeof *end);
    if (!end || !read_attempt(x, &end->token)) {
        refuse(x, end ? LW_EINVAL : LW_ENOMEM);
        return;
    }
    x->state = end;
    end->id = x->id;
    end->outcome = outcomes[x->route->id - LW__ROUTE_FINISH];
    if (x->body.size > ON_LOOP_MAX) {
        lw__exchange_offload(x, settle_one, settled_one);
        return;
    }
    settle_one(x);
    settled_one(x);
}

/* ---- many ---------------------------------------------------------------------------------- */

struct batch {
    size_t count;
    lw_settlement *ends;
};

static int read_ids(struct lw__exchange *x, const struct lw__members *members, lw_settlement *end,
                    const char **outcome, lw_error *err) {
    struct lw__json id;
    const char *token;
    uint64_t number = 0;
    int rc = lw__member_text(x, members, "token", &token, err);
    if (rc == LW_OK)
        rc = lw__member_text(x, members, "outcome", outcome, err);
    if (rc < 0)
        return rc;
    if (!lw__member_find(members, "id", &id) || lw__json_uint(id, &number, NULL) < 0 || number == 0)
        return lw__refuse(err, LW_EINVAL, "it needs the id of a task");
    end->id = number;
    if (!read_token(token, &end->token))
        return lw__refuse(err, LW_EINVAL, "it needs the token of its attempt");
    return *outcome ? LW_OK : lw__refuse(err, LW_EINVAL, "it needs an outcome");
}

static int read_end(struct lw__exchange *x, struct lw__json value, lw_settlement *end,
                    lw_error *err) {
    static const char *const names[] = {"id",   "token", "outcome", "result", "result_base64",
                                        "then", "error", "after",   NULL};
    const char *outcome = NULL, *after = NULL;
    struct lw__members members;
    int index;
    int64_t ms = 0;
    int rc = lw__members_read(value, names, &members, err);
    if (rc == LW_OK)
        rc = read_ids(x, &members, end, &outcome, err);
    if (rc == LW_OK)
        rc = lw__word_read("outcome", outcome, outcome_names, &index, err);
    if (rc < 0)
        return rc;
    end->outcome = outcomes[index];
    rc = read_result(x, &members, end, err);
    if (rc == LW_OK)
        rc = lw__member_text(x, &members, "error", &end->text, err);
    if (rc == LW_OK)
        rc = lw__member_text(x, &members, "after", &after, err);
    if (rc == LW_OK && after && lw__duration_read(lw__slice_of(after), &ms, err) < 0)
        rc = LW_EINVAL;
    set_wait(end, after != NULL, ms);
    return rc;
}

static int read_batch(struct lw__exchange *x, struct batch *batch) {
    size_t max = (size_t)x->server->config->batch_max;
    struct lw__json array;
    int rc = lw__document_read(x, &array, &x->err);
    if (rc < 0)
        return rc;
    const struct lw__json *parts = lw__array_read(x, array, max, &batch->count);
    if (parts && (batch->count == 0 || batch->count > max))
        return lw__refuse(&x->err, LW_EINVAL, "write an array of 1 to %zu outcomes", max);
    batch->ends = parts ? lw__exchange_keep(x, batch->count * sizeof *batch->ends) : NULL;
    if (!batch->ends)
        return LW_ENOMEM;
    for (size_t i = 0; i < batch->count; i++) {
        lw_error why;
        rc = read_end(x, parts[i], &batch->ends[i], &why);
        if (rc < 0)
            return lw__refuse(&x->err, rc, "outcome %zu of the array: %s", i + 1, why.message);
    }
    return LW_OK;
}

static void show_ends(struct lw__exchange *x, const struct batch *batch) {
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_array(json);
    for (size_t i = 0; i < batch->count; i++) {
        int status = batch->ends[i].status;
        lw__json_object(json);
        lw__json_key(json, "id");
        lw__json_put_uint(json, batch->ends[i].id);
        lw__json_key(json, "status");
        lw__json_put_text(json, lw_status_name(status == LW_EUNSURE ? LW_OK : status));
        if (status < 0 && status != LW_EUNSURE) {
            lw__json_key(json, "error");
            lw__json_put_text(json, lw_status_text(status));
        }
        lw__json_close(json);
    }
    lw__json_close(json);
}

static void read_ends(struct lw__exchange *x) {
    x->status = read_batch(x, x->state);
}

static void settle_ends(struct lw__exchange *x) {
    struct batch *batch = x->state;
    x->status = lw_lease_settle(x->server->engine, batch->ends, batch->count, LW_NO_WAIT, &x->err);
    if (x->status == LW_OK)
        show_ends(x, batch);
}

static void answer_ends(struct lw__exchange *x) {
    if (x->status < 0)
        refuse(x, x->status);
    else
        reply_when_durable(x);
}

/* The tokens show that the answers of the claims have arrived, and have to do so before they are
 * settled: a claim whose connection breaks meanwhile would give its tasks back. Of a batch that was
 * refused those before the wrong one have been read, and the others are 0. */
static void show_tokens(struct lw__exchange *x) {
    const struct batch *batch = x->state;
    for (size_t i = 0; batch->ends && i < batch->count; i++)
        lw__handed_show(x->server, batch->ends[i].id, batch->ends[i].token);
}

static void offload_settling(struct lw__exchange *x) {
    show_tokens(x);
    if (x->status < 0)
        refuse(x, x->status);
    else
        lw__exchange_offload(x, settle_ends, answer_ends);
}

void lw__serve_settle(struct lw__exchange *x) {
    x->state = lw__exchange_keep(x, sizeof(struct batch));
    if (!x->state) {
        refuse(x, LW_ENOMEM);
        return;
    }
    if (x->body.size > ON_LOOP_MAX) {
        lw__exchange_offload(x, read_ends, offload_settling);
        return;
    }
    read_ends(x);
    show_tokens(x);
    if (x->status == LW_OK)
        settle_ends(x);
    answer_ends(x);
}

/* ---- meanwhile ----------------------------------------------------------------------------- */

void lw__serve_extend(struct lw__exchange *x) {
    uint64_t token;
    int64_t lease;
    if (!read_attempt(x, &token) || !lw__exchange_lease(x, &lease, &x->err))
        refuse(x, LW_EINVAL);
    else
        reply_said(x, lw_lease_extend(x->server->engine, x->id, token, lease, LW_NO_WAIT), false);
}

void lw__serve_progress(struct lw__exchange *x) {
    uint64_t token;
    int64_t done, total;
    if (!read_attempt(x, &token) || !lw__exchange_number(x, "done", 0, 0, INT64_MAX, &done, &x->err)
        || !lw__exchange_number(x, "total", 0, 0, INT64_MAX, &total, &x->err)) {
        refuse(x, LW_EINVAL);
        return;
    }
    const char *text = body_text(x);
    int rc = text ? lw_lease_progress(x->server->engine, x->id, token, (uint64_t)done,
                                      (uint64_t)total, text)
                  : LW_ENOMEM;
    reply_said(x, rc, true);
}

void lw__serve_checkpoint(struct lw__exchange *x) {
    uint64_t token;
    if (!read_attempt(x, &token)) {
        refuse(x, LW_EINVAL);
    } else if (x->body.size > LW_CHECKPOINT_MAX) {
        lw__reply_error(x, 413, "a checkpoint has at most %d bytes, not %zu", LW_CHECKPOINT_MAX,
                        x->body.size);
        lw__exchange_reply(x);
    } else {
        lw_bytes position = {x->body.size ? x->body.data : "", x->body.size};
        reply_said(x, lw_lease_checkpoint(x->server->engine, x->id, token, position, LW_NO_WAIT),
                   false);
    }
}
