/* Health, readiness, figures. */
#include "server/api/api.h"
#include "server/api/handlers.h"

#include <legwork/version.h>

void lw__serve_health(struct lw__exchange *x) {
    lw__reply_text(x, 200, "");
    lw__buffer_print(&x->reply.body, "ok %s\n", lw_version());
    lw__exchange_reply(x);
}

static void refuse_ready(struct lw__exchange *x, const lw_store_health *health) {
    lw__reply_text(x, 503, "");
    lw__buffer_print(&x->reply.body, "%s: %s\n", health->code ? health->code : "store_failing",
                     health->last.message);
    x->reply.retry_after_s = 1;
}

void lw__serve_ready(struct lw__exchange *x) {
    lw_store_health health = {.status = LW_OK};
    if (x->server->phase != LW__SERVING)
        lw__reply_text(x, 503, "stopping\n");
    else if (lw_get_store_health(x->server->engine, &health) == LW_OK && health.status < 0)
        refuse_ready(x, &health);
    else
        lw__reply_text(x, 200, "ready\n");
    lw__exchange_reply(x);
}

/* ---- figures ------------------------------------------------------------------------------- */

static void write_gauge(struct lw__buffer *out, const char *name, const char *unit,
                        const char *help, uint64_t value) {
    lw__buffer_print(out, "# TYPE legwork_%s gauge\n", name);
    if (unit)
        lw__buffer_print(out, "# UNIT legwork_%s %s\n", name, unit);
    lw__buffer_print(out, "# HELP legwork_%s %s\nlegwork_%s %llu\n", name, help, name,
                     (unsigned long long)value);
}

static void write_answers(struct lw__buffer *out, const char *route, const uint64_t answers[6]) {
    for (int i = 2; i < 6; i++)
        if (answers[i] > 0)
            lw__buffer_print(out, "legwork_http_answers_total{route=\"%s\",code=\"%dxx\"} %llu\n",
                             route, i, (unsigned long long)answers[i]);
}

static void write_routes(struct lw__buffer *out, const struct lw__server *server) {
    lw__buffer_put_text(out, "# TYPE legwork_http_answers counter\n"
                             "# HELP legwork_http_answers Answers by route and code.\n");
    for (size_t i = 0; i < LW__ROUTES; i++)
        write_answers(out, lw__routes[i].name, server->answers[i]);
    write_answers(out, "none", server->answers[LW__ROUTES]);
}

/* The loop's own figures, in memory of the exchange: the pool's thread may not look at them. */
static void write_server(struct lw__buffer *out, const struct lw__server *server) {
    write_gauge(out, "http_connections", NULL, "Connections that are open.",
                server->loop.conn_count);
    write_gauge(out, "http_waiting_requests", NULL,
                "Requests that wait for a task, or for its end.", server->parked);
    write_gauge(out, "http_buffer_bytes", "bytes", "Requests and answers that are under way.",
                server->loop.bytes + server->body_bytes);
    lw__buffer_print(out,
                     "# TYPE legwork_http_connections_accepted counter\n"
                     "# HELP legwork_http_connections_accepted Connections so far.\n"
                     "legwork_http_connections_accepted_total %llu\n",
                     (unsigned long long)server->accepted_total);
    lw__buffer_print(out,
                     "# TYPE legwork_http_connections_spared counter\n"
                     "# HELP legwork_http_connections_spared Connections that came when no "
                     "descriptor was left but the spare one.\n"
                     "legwork_http_connections_spared_total %llu\n",
                     (unsigned long long)server->spared_total);
    write_routes(out, server);
}

static int append(void *user, const char *text, size_t size) {
    return lw__buffer_put(user, (struct lw__slice){text, size});
}

static const char end_mark[] = "# EOF\n";

/* The engine's text first, without its end; ours was put into the body of the request. */
static void write_metrics(struct lw__exchange *x) {
    struct lw__buffer *out = &x->reply.body;
    x->reply.code = 200;
    x->reply.type = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    int rc = lw_metrics_write(x->server->engine, append, out);
    size_t mark = sizeof end_mark - 1;
    if (rc == LW_OK && out->size >= mark
        && memcmp(out->data + out->size - mark, end_mark, mark) == 0)
        lw__buffer_cut(out, out->size - mark);
    lw__buffer_put(out, lw__buffer_slice(&x->body));
    lw__buffer_put_text(out, end_mark);
    if (rc < 0 && out->status >= 0) {
        lw__reply_status(x, rc, NULL);
    }
}

void lw__serve_metrics(struct lw__exchange *x) {
    size_t before = x->body.capacity;
    write_server(&x->body, x->server);
    x->server->body_bytes += x->body.capacity - before;
    lw__exchange_offload(x, write_metrics, NULL);
}
