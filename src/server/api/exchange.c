/* A request and its answer. */
#include "server/api/api.h"
#include "server/memory.h"
#include "server/refuse.h"
#include "server/units.h"

#include <assert.h>
#include <errno.h>
#include <stdalign.h>
#include <stdlib.h>

/* ---- open and free ------------------------------------------------------------------------- */

static struct lw__exchange *open_empty(struct lw__server *server) {
    struct lw__exchange *x = lw__server_alloc(sizeof *x);
    if (!x)
        return NULL;
    x->server = server;
    lw__buffer_init(&x->body, &lw__server_memory, (size_t)server->config->body_max);
    lw__buffer_init(&x->reply.body, &lw__server_memory, LW__ANSWER_MAX);
    return x;
}

void lw__exchange_free(struct lw__exchange *x) {
    lw__exchange_clear_timer(x);
    lw__handed_leave(x);
    x->server->body_bytes -= x->body.capacity;
    lw__buffer_clear(&x->body);
    lw__buffer_clear(&x->reply.body);
    for (struct lw__keepsake *kept = x->keepsakes, *next; kept; kept = next) {
        next = kept->next;
        lw__server_free(kept);
    }
    lw__server_free(x);
}

static struct lw__keepsake *open_keepsake(struct lw__exchange *x, size_t size) {
    size_t block = x->keepsakes ? x->keepsakes->size * 4 : LW__KEEPSAKE_MIN;
    if (block > LW__KEEPSAKE_MAX)
        block = LW__KEEPSAKE_MAX;
    if (block < size)
        block = size;
    struct lw__keepsake *kept = lw__server_alloc(sizeof *kept + block);
    if (!kept)
        return NULL;
    kept->size = block;
    kept->next = x->keepsakes;
    x->keepsakes = kept;
    return kept;
}

void *lw__exchange_keep(struct lw__exchange *x, size_t size) {
    struct lw__keepsake *kept = x->keepsakes;
    size = (size + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (!kept || size > kept->size - kept->used)
        kept = open_keepsake(x, size);
    if (!kept)
        return NULL;
    void *memory = kept->bytes + kept->used;
    kept->used += size;
    return memory;
}

/* ---- out of a head ------------------------------------------------------------------------- */

static int find_route(struct lw__exchange *x, const struct lw__http_request *request,
                      lw_error *err) {
    struct lw__route_match match = {0};
    char *memory = lw__exchange_keep(x, request->path.size + 1);
    if (!memory)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    int rc =
        lw__route_find(request->method, request->path, memory, request->path.size + 1, &match, err);
    x->route = match.route;
    x->part = match.part;
    x->second = match.second;
    x->reply.allowed = match.route ? 0 : match.allowed;
    return rc;
}

static int read_query(struct lw__exchange *x, const struct lw__http_request *request,
                      lw_error *err) {
    char *memory = lw__exchange_keep(x, request->query.size + 1);
    if (!memory)
        return lw__refuse(err, LW_ENOMEM, "out of memory");
    return lw__route_read_query(x->route, request->query, memory, request->query.size + 1,
                                &x->query, err);
}

static bool has_only(const char *text, size_t size, char c) {
    while (size > 0 && text[size - 1] == c)
        size--;
    return size == 0;
}

/* W3C trace context: a version that is none, and ids of zeros, are not to be used. */
static bool is_traceparent(struct lw__slice value) {
    if (value.size != LW__TRACEPARENT_SIZE)
        return false;
    for (size_t i = 0; i < value.size; i++) {
        bool is_dash = i == 2 || i == 35 || i == 52;
        char c = value.data[i];
        if (is_dash ? c != '-' : !((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
            return false;
    }
    return !has_only(value.data, 2, 'f') && !has_only(value.data + 3, 32, '0')
           && !has_only(value.data + 36, 16, '0');
}

/* One that is wrong is passed over, as the rules want. */
static void read_traceparent(struct lw__exchange *x, const struct lw__http_request *request) {
    struct lw__slice value;
    if (lw__http_find(request, "traceparent", &value) && is_traceparent(value))
        memcpy(x->traceparent, value.data, value.size);
}

static void refuse_early(struct lw__exchange *x, const struct lw__http_request *request, int code,
                         const char *sentence) {
    lw__reply_error(x, code, "%s", sentence);
    x->is_ready = true;
    if (request->has_body)
        x->terms.keep_alive = false; /* it would have to be read first */
}

static int code_of_refusal(const struct lw__exchange *x, int status) {
    if (status == LW_ENOMEM)
        return 503;
    if (status != LW_ENOTFOUND)
        return 400;
    return x->reply.allowed ? 405 : 404;
}

static void prepare(struct lw__exchange *x, const struct lw__http_request *request) {
    lw_error err;
    x->terms = request->terms;
    read_traceparent(x, request);
    int rc = find_route(x, request, &err);
    if (rc == LW_OK)
        rc = read_query(x, request, &err);
    if (rc == LW_OK && request->has_body && !(lw__services[x->route->id].flags & LW__HAS_BODY))
        rc = lw__refuse(&err, LW_EINVAL, "this request takes no body");
    bool changes = request->method != LW__HTTP_GET && request->method != LW__HTTP_HEAD;
    lw_error door;
    if (lw__guard(request, changes, &door) < 0)
        refuse_early(x, request, 403, door.message);
    else if (rc < 0)
        refuse_early(x, request, code_of_refusal(x, rc), err.message);
}

struct lw__exchange *lw__exchange_open(struct lw__server *server,
                                       const struct lw__http_request *request) {
    struct lw__exchange *x = open_empty(server);
    if (x)
        prepare(x, request);
    return x;
}

struct lw__exchange *lw__exchange_open_refused(struct lw__server *server,
                                               const struct lw__http_refusal *refusal) {
    struct lw__exchange *x = open_empty(server);
    if (x) {
        x->terms = (struct lw__http_terms){.minor = 1, .keep_alive = false};
        lw__reply_error(x, refusal->status, "%s", refusal->sentence);
        x->is_ready = true;
    }
    return x;
}

/* ---- parameters ---------------------------------------------------------------------------- */

const char *lw__exchange_query(const struct lw__exchange *x, const char *name) {
    return lw__route_parameter(&x->query, name);
}

bool lw__exchange_duration(const struct lw__exchange *x, const char *name, int64_t fallback,
                           int64_t *ms, lw_error *err) {
    const char *text = lw__exchange_query(x, name);
    lw_error why;
    *ms = fallback;
    if (!text || lw__duration_read(lw__slice_of(text), ms, &why) == LW_OK)
        return true;
    lw__refuse(err, LW_EINVAL, "%s: %s", name, why.message);
    return false;
}

/* Unlike in options of the library, 0 is no default: who writes it means no time. */
bool lw__exchange_lease(const struct lw__exchange *x, int64_t *ms, lw_error *err) {
    if (!lw__exchange_duration(x, "lease", x->server->config->lease_ms, ms, err))
        return false;
    if (*ms >= 1 && *ms <= LW_LEASE_MS_MAX)
        return true;
    lw__refuse(err, LW_EINVAL, "lease is %s, and must be from 1ms to %s",
               lw__slice_show(lw__slice_of(lw__exchange_query(x, "lease"))).text,
               lw__duration_write(LW_LEASE_MS_MAX).text);
    return false;
}

bool lw__number_read(const char *text, int64_t min, int64_t max, int64_t *number) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    *number = value;
    bool has_digit =
        text[0] == '-' ? text[1] >= '0' && text[1] <= '9' : text[0] >= '0' && text[0] <= '9';
    return has_digit && *end == '\0' && errno == 0 && value >= min && value <= max;
}

bool lw__exchange_number(const struct lw__exchange *x, const char *name, int64_t fallback,
                         int64_t min, int64_t max, int64_t *number, lw_error *err) {
    const char *text = lw__exchange_query(x, name);
    *number = fallback;
    if (!text || lw__number_read(text, min, max, number))
        return true;
    lw__refuse(err, LW_EINVAL, "%s is %s, and must be a number from %lld to %lld", name,
               lw__slice_show(lw__slice_of(text)).text, (long long)min, (long long)max);
    return false;
}

bool lw__exchange_id(const struct lw__exchange *x, lw_id *id, lw_error *err) {
    int64_t number;
    if (!lw__number_read(x->part, 1, INT64_C(1) << 53, &number)) {
        lw__refuse(err, LW_EINVAL, "%s is no id of a task",
                   lw__slice_show(lw__slice_of(x->part)).text);
        return false;
    }
    *id = (lw_id)number;
    return true;
}

/* ---- elsewhere ----------------------------------------------------------------------------- */

static void come_back(struct lw__post *post) {
    struct lw__exchange *x = (struct lw__exchange *)post;
    assert(x->server->under_way > 0);
    x->server->under_way--;
    if (x->then)
        x->then(x);
    else
        lw__exchange_reply(x);
}

void lw__exchange_await(struct lw__exchange *x, void (*then)(struct lw__exchange *x)) {
    x->server->under_way++;
    x->then = then;
    x->post.run = come_back;
}

void lw__exchange_unawait(struct lw__exchange *x) {
    x->server->under_way--;
}

void lw__exchange_called(void *exchange, int status, lw_id id) {
    struct lw__exchange *x = exchange;
    x->status = status;
    if (id > 0) /* a sync has none, and may be about the task that x->id says */
        x->id = id;
    lw__loop_post(&x->server->loop, &x->post);
}

void lw__exchange_return(struct lw__exchange *x, int status) {
    x->status = status;
    come_back(&x->post);
}

static void run_work(lw_ctx *ctx, void *exchange) {
    struct lw__exchange *x = exchange;
    (void)ctx;
    x->work(x);
    lw__loop_post(&x->server->loop, &x->post);
}

void lw__exchange_offload(struct lw__exchange *x, void (*work)(struct lw__exchange *x),
                          void (*then)(struct lw__exchange *x)) {
    x->work = work;
    lw__exchange_await(x, then);
    int rc = lw_pool_try_submit(x->server->pool, run_work, x);
    if (rc == LW_OK)
        return;
    lw__exchange_unawait(x);
    lw__reply_status(x, rc, NULL);
    lw__exchange_reply(x);
}

bool lw__exchange_is_alive(const struct lw__exchange *x) {
    return x->peer && lw__conn_is_alive(lw__peer_conn(x->peer));
}

/* ---- parking ------------------------------------------------------------------------------- */

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    struct lw__exchange *x = arg;
    struct lw__loop *loop = &x->server->loop;
    (void)fd, (void)what;
    x->has_timer = false;
    x->work(x);
    lw__loop_settle(loop);
}

void lw__exchange_set_timer(struct lw__exchange *x, int64_t ms,
                            void (*due)(struct lw__exchange *x)) {
    struct timeval in = lw__loop_interval(ms);
    lw__exchange_clear_timer(x);
    x->work = due;
    event_assign(&x->timer, x->server->loop.base, -1, 0, on_timer, x);
    x->has_timer = event_add(&x->timer, &in) == 0;
}

void lw__exchange_clear_timer(struct lw__exchange *x) {
    if (x->has_timer)
        event_del(&x->timer);
    x->has_timer = false;
}
