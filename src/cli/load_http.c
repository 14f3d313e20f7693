/* The protocol of the load: a Legwork server by HTTP. One task goes as a body, byte for byte; a
 * batch as JSON. */
#include "cli/load.h"

#include "server/json.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <stdlib.h>

#define SETTLE_SIZE 80 /* bytes of JSON for one outcome */

static const struct lw__http_limits limits = {.line_max = 8192,
                                              .field_max = 8192,
                                              .head_max = 65536,
                                              .fields_max = LW__HTTP_FIELDS_MAX,
                                              .body_max = LW__LOAD_ANSWER_MAX};

/* ---- asking -------------------------------------------------------------------------------- */

static int put_request(const struct lw__load *load, struct lw__buffer *out, const char *target,
                       struct lw__slice body) {
    struct lw__http_writer writer;
    lw__http_ask(&writer, out, LW__HTTP_POST, lw__slice_of(target),
                 lw__slice_of(load->options.host));
    return lw__http_finish(&writer, body);
}

static void put_tasks(const struct lw__load *load, struct lw__buffer *body, uint32_t count) {
    struct lw__json_writer json;
    lw__json_write(&json, body);
    lw__json_array(&json);
    for (uint32_t i = 0; i < count; i++) {
        lw__json_object(&json);
        lw__json_key(&json, "queue");
        lw__json_put_text(&json, load->options.queue);
        lw__json_key(&json, "kind");
        lw__json_put_text(&json, load->options.queue);
        if (load->payload.size > 0) {
            lw__json_key(&json, "payload");
            lw__json_put_raw(&json, lw__buffer_slice(&load->payload));
        }
        lw__json_close(&json);
    }
    lw__json_close(&json);
}

static int put_one(const struct lw__load *load, struct lw__buffer *out) {
    char target[256];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, target, sizeof target);
    lw__buffer_print(&text, "/v1/queues/%s/tasks?kind=%s%c", load->options.queue,
                     load->options.queue, '\0');
    return put_request(load, out, target, lw__buffer_slice(&load->payload));
}

static int put_many(const struct lw__load *load, struct lw__buffer *out, uint32_t count) {
    struct lw__buffer body;
    lw__buffer_init(&body, &lw__server_memory, LW__LOAD_REQUEST_MAX);
    put_tasks(load, &body, count);
    int rc = body.status < 0 ? body.status
                             : put_request(load, out, "/v1/tasks", lw__buffer_slice(&body));
    lw__buffer_clear(&body);
    return rc;
}

static int put_submit(const struct lw__load *load, struct lw__buffer *out, uint32_t count) {
    return load->options.batch == 1 ? put_one(load, out) : put_many(load, out, count);
}

static int put_claim(const struct lw__load *load, struct lw__buffer *out, uint32_t count) {
    char target[256];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, target, sizeof target);
    lw__buffer_print(&text, "/v1/queues/%s/claim?n=%u%s%c", load->options.queue, count,
                     load->options.waits ? "&wait=30s" : "", '\0');
    return put_request(load, out, target, (struct lw__slice){NULL, 0});
}

static int put_finish(const struct lw__load *load, struct lw__buffer *out,
                      const struct lw__load_given *given) {
    char target[128];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, target, sizeof target);
    lw__buffer_put_text(&text, "/v1/tasks/");
    lw__buffer_put_uint(&text, given->id);
    lw__buffer_put_text(&text, "/finish?token=");
    lw__buffer_put_uint(&text, given->token);
    lw__buffer_put_byte(&text, '\0');
    return put_request(load, out, target, (struct lw__slice){NULL, 0});
}

static int put_settle(const struct lw__load *load, struct lw__buffer *out,
                      const struct lw__load_lane *lane) {
    struct lw__buffer body;
    lw__buffer_init(&body, &lw__server_memory, (size_t)LW__LOAD_BATCH_MAX * SETTLE_SIZE);
    for (uint32_t i = 0; i < lane->count; i++) {
        lw__buffer_put_text(&body, i > 0 ? ",{\"id\":" : "[{\"id\":");
        lw__buffer_put_uint(&body, lane->given[i].id);
        lw__buffer_put_text(&body, ",\"token\":\"");
        lw__buffer_put_uint(&body, lane->given[i].token);
        lw__buffer_put_text(&body, "\",\"outcome\":\"finish\"}");
    }
    lw__buffer_put_byte(&body, ']');
    int rc = body.status < 0 ? body.status
                             : put_request(load, out, "/v1/settle", lw__buffer_slice(&body));
    lw__buffer_clear(&body);
    return rc;
}

static int ask(struct lw__load_lane *lane, struct lw__buffer *out) {
    const struct lw__load *load = lane->conn->load;
    bool is_full = lane->wanted == load->options.batch;
    switch (lane->step) {
    case LW__LOAD_SUBMIT:
        return is_full ? lw__buffer_put(out, lw__buffer_slice(&load->submit))
                       : put_submit(load, out, lane->wanted);
    case LW__LOAD_CLAIM:
        return is_full ? lw__buffer_put(out, lw__buffer_slice(&load->claim))
                       : put_claim(load, out, lane->wanted);
    default:
        return load->options.batch == 1 ? put_finish(load, out, lane->given)
                                        : put_settle(load, out, lane);
    }
}

static int prepare(struct lw__load *load) {
    int rc = put_submit(load, &load->submit, load->options.batch);
    for (uint32_t i = 0; i < load->options.connections; i++)
        lw__http_init(&load->conns[i].parser, &limits);
    return rc < 0 ? rc : put_claim(load, &load->claim, load->options.batch);
}

/* ---- answers ------------------------------------------------------------------------------- */

static int refuse_answer(const struct lw__load_conn *conn, const char *why, lw_error *err) {
    return lw__refuse(err, LW_ESYSTEM, "what answers at %s is no legwork: %s",
                      conn->load->options.url, why);
}

/* What the server says is wrong, in its own words. */
static int refuse_code(const struct lw__load_conn *conn, lw_error *err) {
    char sentence[LW_ERROR_MESSAGE_MAX] = "";
    struct lw__json body = {lw__buffer_slice(&conn->body)}, part;
    if (lw__json_find(body, "error", &part))
        lw__json_unescape(part, sentence, sizeof sentence, NULL);
    return lw__refuse(err, conn->code == 503 ? LW_EFULL : LW_ESYSTEM, "the server refused (%d): %s",
                      conn->code, sentence[0] ? sentence : lw__http_reason(conn->code));
}

/* An id or a token: a number, which may be in quotes. */
static uint64_t number_of(struct lw__json value) {
    struct lw__slice text = value.raw;
    uint64_t number = 0;
    for (size_t i = 0; i < text.size; i++)
        if (text.data[i] >= '0' && text.data[i] <= '9')
            number = number * 10 + (uint64_t)(text.data[i] - '0');
    return number;
}

static struct lw__load_given read_given(struct lw__json task) {
    struct lw__load_given given = {0, 0};
    struct lw__json_walk walk = lw__json_enter(task);
    struct lw__json key, part;
    while ((given.id == 0 || given.token == 0) && lw__json_next(&walk, &key, &part)) {
        if (lw__json_is(key, "id"))
            given.id = number_of(part);
        else if (lw__json_is(key, "token"))
            given.token = number_of(part);
    }
    return given;
}

static int read_claim(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load_conn *conn = lane->conn;
    struct lw__json array = {lw__buffer_slice(&conn->body)}, key, part;
    struct lw__json_walk walk = lw__json_enter(array);
    lane->count = 0;
    while (lw__json_next(&walk, &key, &part)) {
        struct lw__load_given given = read_given(part);
        if (given.id == 0 || given.token == 0 || lane->count == lane->wanted)
            return refuse_answer(conn, "its claims have no ids, or too many", err);
        lane->given[lane->count++] = given;
    }
    return LW_OK;
}

/* Each outcome is answered by itself. */
static int read_settled(struct lw__load_conn *conn, lw_error *err) {
    struct lw__json array = {lw__buffer_slice(&conn->body)}, key, part, status;
    struct lw__json_walk walk = lw__json_enter(array);
    while (lw__json_next(&walk, &key, &part))
        if (!lw__json_find(part, "status", &status) || !lw__json_is(status, "LW_OK"))
            return lw__refuse(err, LW_ESYSTEM, "a task could not be finished: %s",
                              lw__slice_show(part.raw).text);
    return LW_OK;
}

static int read_whole(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load_conn *conn = lane->conn;
    if (conn->code >= 300)
        return refuse_code(conn, err);
    if (lane->step == LW__LOAD_CLAIM)
        return read_claim(lane, err);
    return lane->step == LW__LOAD_SETTLE ? read_settled(conn, err) : LW_OK;
}

static enum lw__http_event read_head(struct lw__load_conn *conn, const char *data, size_t size,
                                     size_t *used) {
    struct lw__http_answer answer;
    enum lw__http_event event =
        lw__http_answer(&conn->parser, data, size, LW__HTTP_POST, &answer, used);
    if (event != LW__HTTP_DONE || answer.is_interim)
        return event;
    conn->code = answer.code;
    conn->is_in_body = true;
    lw__buffer_cut(&conn->body, 0);
    return event;
}

static enum lw__http_event read_body(struct lw__load_conn *conn, const char *data, size_t size,
                                     size_t *used) {
    struct lw__slice piece = {NULL, 0};
    enum lw__http_event event = lw__http_body(&conn->parser, data, size, &piece, used);
    if (event == LW__HTTP_PIECE)
        lw__buffer_put(&conn->body, piece);
    conn->is_in_body = event != LW__HTTP_DONE;
    return event;
}

static int read_some(struct lw__load_lane *lane, const char *data, size_t size, size_t *used,
                     lw_error *err) {
    struct lw__load_conn *conn = lane->conn;
    for (*used = 0;;) {
        bool was_in_body = conn->is_in_body;
        size_t step = 0;
        enum lw__http_event event = was_in_body
                                        ? read_body(conn, data + *used, size - *used, &step)
                                        : read_head(conn, data + *used, size - *used, &step);
        *used += step;
        if (event == LW__HTTP_REFUSED)
            return refuse_answer(conn, conn->parser.refusal.sentence, err);
        if (event == LW__HTTP_MORE)
            return LW_PENDING;
        if (conn->body.status < 0)
            return lw__refuse(err, conn->body.status, "an answer of the server is too large");
        if (event == LW__HTTP_DONE && was_in_body)
            return read_whole(lane, err);
    }
}

const struct lw__load_protocol lw__load_http = {.prepare = prepare, .ask = ask, .read = read_some};
