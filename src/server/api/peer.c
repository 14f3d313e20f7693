/* A client on a connection, speaking HTTP/1.1.
 *
 * Requests are read one after the other and answered in their order. Usually the next one is begun
 * when the one before is answered; those whose routes allow it (LW__ROUTE_OVERLAPS: submits) are
 * begun at once, so that a client who sends many without waiting has them all in one commit. While
 * the client does not take its answers, nothing more is begun. The answer that says that it is the
 * last one has nothing begun behind it: a client may send the rest again elsewhere.
 *
 * Deadlines follow the phase: idle, within a head, within a body; none while we are working. */
#include "server/api/api.h"
#include "server/memory.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum phase { PHASE_NONE, PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_BUSY };

struct lw__peer {
    struct lw__server *server;
    struct lw__conn *conn; /* NULL: closed */
    struct lw__peer *next, **link;
    struct lw__http_parser parser;
    struct lw__exchange *first, **last; /* begun, or to be answered, in order */
    unsigned count;
    struct lw__exchange *incoming; /* its body is being read, or it waits for its turn */
    bool has_body;                 /* the incoming one is complete */
    bool must_invite;              /* it waits for 100 Continue */
    bool is_deaf;                  /* no request is read any more */
    bool is_last;                  /* the last answer was sent */
    bool is_turned_away;           /* it is one too many */
    bool is_spare;                 /* it has the spare descriptor, for one brief request */
    struct lw__exchange *handed;   /* answered with tasks, which may have been lost */
    uint64_t number;
    uint64_t heard_after; /* as of an exchange */
    enum phase phase;
    size_t body_moved; /* bytes since the deadline was set */
    unsigned inside;   /* functions on the stack that use it */
};

struct lw__conn *lw__peer_conn(struct lw__peer *peer) {
    return peer->conn;
}

/* ---- life ---------------------------------------------------------------------------------- */

static void enter(struct lw__peer *peer) {
    peer->inside++;
}

static void leave(struct lw__peer *peer) {
    if (--peer->inside == 0 && !peer->conn)
        lw__server_free(peer);
}

/* What was handed out has arrived, or was lost. */
static void release_handed(struct lw__peer *peer, bool is_lost) {
    for (struct lw__exchange *x = peer->handed, *next; x; x = next) {
        next = x->next;
        if (is_lost && x->lost)
            x->lost(x->server, x->state);
        lw__exchange_free(x);
    }
    peer->handed = NULL;
}

/* Exchanges that others work on come back by themselves, and find nobody. */
static void orphan(struct lw__exchange *x) {
    x->peer = NULL;
    if (x->is_ready)
        lw__exchange_reply(x);
    else if (!x->is_begun)
        lw__exchange_free(x);
    else if (x->abandon)
        x->abandon(x);
}

static void return_spare(struct lw__server *server) {
    lw__loop_keep_spare(&server->loop);
    for (size_t i = 0; i < server->listener_count; i++)
        lw__listener_resume(&server->listeners[i]);
}

static void on_closed(struct lw__conn *conn, int code) {
    struct lw__peer *peer = conn->user;
    enter(peer);
    peer->conn = NULL;
    release_handed(peer, code != 0 || lw__conn_pending(conn) > 0);
    for (struct lw__exchange *x = peer->first, *next; x; x = next) {
        next = x->next;
        orphan(x);
    }
    if (peer->incoming)
        lw__exchange_free(peer->incoming);
    peer->server->turned_away -= peer->is_turned_away;
    if (peer->is_spare)
        return_spare(peer->server);
    *peer->link = peer->next;
    if (peer->next)
        peer->next->link = peer->link;
    leave(peer);
}

/* ---- phases -------------------------------------------------------------------------------- */

static enum phase phase_of(const struct lw__peer *peer) {
    if (peer->incoming && !peer->has_body)
        return PHASE_BODY;
    if (peer->first || peer->incoming || peer->is_last)
        return PHASE_BUSY;
    return lw__conn_input(peer->conn).size > 0 ? PHASE_HEAD : PHASE_IDLE;
}

/* A connection that sends nothing keeps the spare descriptor for a moment only: many idle ones may
 * stand in the backlog before a request for the health. The first bytes give it the time for a
 * request; no phase of that has a deadline of its own. */
static void give_spare_time(struct lw__peer *peer) {
    if (peer->phase == PHASE_NONE)
        lw__conn_expect(peer->conn, LW__SPARE_MS);
    peer->phase = PHASE_BUSY;
}

static void set_deadline(struct lw__peer *peer) {
    const struct lw__serve_config *config = peer->server->config;
    enum phase phase = phase_of(peer);
    bool has_moved = phase == PHASE_BODY && peer->body_moved >= LW__CONN_STRIDE;
    if ((phase == peer->phase && !has_moved && phase != PHASE_IDLE) || peer->is_spare)
        return;
    peer->phase = phase;
    peer->body_moved = 0;
    switch (phase) {
    case PHASE_IDLE: lw__conn_expect(peer->conn, config->idle_timeout_ms); break;
    case PHASE_HEAD: lw__conn_expect(peer->conn, config->head_timeout_ms); break;
    case PHASE_BODY: lw__conn_expect(peer->conn, config->body_timeout_ms); break;
    default: lw__conn_expect(peer->conn, -1); break;
    }
}

/* ---- answering ----------------------------------------------------------------------------- */

static void put_number(struct lw__http_writer *writer, const char *name, const char *before,
                       unsigned long long number) {
    char memory[64];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, memory, sizeof memory);
    lw__buffer_put_text(&text, before);
    lw__buffer_put_uint(&text, number);
    lw__http_put(writer, name, lw__buffer_slice(&text));
}

static int write_answer(const struct lw__exchange *x, struct lw__buffer *out) {
    const struct lw__reply *reply = &x->reply;
    struct lw__http_writer writer;
    lw__http_start(&writer, out, x->terms, reply->code);
    if (reply->body.size > 0)
        lw__http_put(&writer, "Content-Type",
                     lw__slice_of(reply->type ? reply->type : "application/json"));
    if (reply->location)
        put_number(&writer, "Location", "/v1/tasks/", reply->location);
    if (reply->retry_after_s)
        put_number(&writer, "Retry-After", "", (unsigned)reply->retry_after_s);
    if (reply->allowed)
        lw__http_put(&writer, "Allow", lw__slice_of(lw__route_allow_of(reply->allowed).text));
    return lw__http_finish(&writer, lw__buffer_slice(&reply->body));
}

static void count_answer(const struct lw__exchange *x) {
    struct lw__server *server = x->server;
    size_t row = x->route ? x->route->id : LW__ROUTES;
    unsigned hundreds = (unsigned)x->reply.code / 100;
    server->answers[row][hundreds < 6 ? hundreds : 5]++;
}

static void answer(struct lw__peer *peer, struct lw__exchange *x) {
    struct lw__buffer out;
    lw__buffer_init(&out, &lw__server_memory, LW__ANSWER_MAX + 65536);
    bool goes_on = peer->server->phase == LW__SERVING || peer->first; /* those are begun */
    x->terms.keep_alive = x->terms.keep_alive && goes_on;
    bool is_written = write_answer(x, &out) == LW_OK;
    bool is_last = !x->terms.keep_alive;
    count_answer(x);
    if (x->lost) {
        lw__buffer_clear(&x->reply.body); /* only the ids are kept */
        x->next = peer->handed;
        peer->handed = x;
    } else {
        lw__exchange_free(x);
    }
    if (!is_written)
        lw__conn_close(peer->conn, ENOMEM);
    else
        lw__conn_send(peer->conn, &out);
    if (is_last && peer->conn) {
        peer->is_last = true;
        lw__conn_finish(peer->conn);
    }
}

static void answer_ready(struct lw__peer *peer) {
    struct lw__exchange *x;
    while (peer->conn && (x = peer->first) != NULL && x->is_ready) {
        peer->first = x->next;
        if (!peer->first)
            peer->last = &peer->first;
        peer->count--;
        x->next = NULL;
        x->peer = NULL;
        answer(peer, x);
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

static bool overlaps(const struct lw__exchange *x) {
    return x->route && (lw__services[x->route->id].flags & LW__OVERLAPS);
}

/* All that are begun allow others beside them, if the first does: the rest came after it. */
static bool can_begin(const struct lw__peer *peer, const struct lw__exchange *x) {
    return !peer->first || (overlaps(peer->first) && overlaps(x) && peer->count < LW__PIPELINE_MAX);
}

static const char too_much[] = "too many requests are under way: come back later";

static bool has_room(const struct lw__server *server, size_t size) {
    return server->body_bytes + server->loop.bytes + size <= (uint64_t)server->config->buffers_max;
}

/* By which an operator sees what is wrong. */
static bool is_vital(const struct lw__exchange *x) {
    return x->route->id == LW__ROUTE_METRICS || x->route->id == LW__ROUTE_HEALTHZ
           || x->route->id == LW__ROUTE_READYZ;
}

/* An answer may be large; vital ones are not. */
static bool is_over_budget(const struct lw__exchange *x) {
    return !is_vital(x) && !has_room(x->server, 0);
}

static void begin(struct lw__peer *peer, struct lw__exchange *x) {
    peer->incoming = NULL;
    peer->has_body = false;
    x->peer = peer;
    x->connection = peer->number;
    x->heard_after = peer->heard_after;
    x->is_begun = true;
    *peer->last = x;
    peer->last = &x->next;
    peer->count++;
    peer->is_deaf = !x->terms.keep_alive;
    if (!x->is_ready && is_over_budget(x)) {
        lw__reply_error(x, 503, "%s", too_much);
        x->is_ready = true;
    }
    if (!x->is_ready)
        lw__services[x->route->id].serve(x);
}

static void refuse_incoming(struct lw__peer *peer, int code, const char *sentence) {
    struct lw__exchange *x = peer->incoming;
    lw__reply_error(x, code, "%s", sentence);
    x->is_ready = true;
    x->terms.keep_alive = false;
    peer->has_body = true;
}

/* The parser has refused; what is there already is answered first. */
static void refuse_bytes(struct lw__peer *peer) {
    if (peer->incoming) {
        refuse_incoming(peer, peer->parser.refusal.status, peer->parser.refusal.sentence);
        return;
    }
    peer->incoming = lw__exchange_open_refused(peer->server, &peer->parser.refusal);
    peer->has_body = true;
    if (!peer->incoming)
        lw__conn_close(peer->conn, ENOMEM);
}

/* Behind the answers to the requests before it. */
static bool invite_body(struct lw__peer *peer) {
    struct lw__buffer out;
    if (peer->first)
        return false;
    peer->must_invite = false;
    lw__buffer_init(&out, &lw__server_memory, 256);
    lw__buffer_put_text(&out, lw__http_continue);
    lw__conn_send(peer->conn, &out);
    return peer->conn != NULL;
}

static void limit_to_vital(struct lw__peer *peer) {
    struct lw__exchange *x = peer->incoming;
    x->terms.keep_alive = false;
    if (!x->is_ready && !is_vital(x))
        refuse_incoming(peer, 503, "the server has no descriptors left: come back later");
}

/* False: there is nothing more to do now. */
static bool read_head(struct lw__peer *peer) {
    struct lw__http_request *request = &peer->server->request;
    struct lw__slice input = lw__conn_input(peer->conn);
    size_t used;
    if (input.size == 0)
        return false;
    switch (lw__http_head(&peer->parser, input.data, input.size, request, &used)) {
    case LW__HTTP_MORE: return false;
    case LW__HTTP_REFUSED: refuse_bytes(peer); return peer->conn != NULL;
    default: break;
    }
    peer->incoming = lw__exchange_open(peer->server, request);
    if (!peer->incoming) {
        lw__conn_close(peer->conn, ENOMEM);
        return false;
    }
    if (peer->is_spare)
        limit_to_vital(peer);
    peer->has_body = peer->incoming->is_ready && request->has_body; /* it is not read */
    peer->must_invite = request->expects_continue && !peer->incoming->is_ready;
    lw__conn_drop(peer->conn, used);
    return true;
}

static bool take_piece(struct lw__peer *peer, struct lw__slice piece) {
    struct lw__server *server = peer->server;
    struct lw__buffer *body = &peer->incoming->body;
    size_t before = body->capacity;
    if (!has_room(server, piece.size)) {
        refuse_incoming(peer, 503, too_much);
        return false;
    }
    int rc = lw__buffer_put(body, piece);
    server->body_bytes += body->capacity - before;
    peer->body_moved += piece.size;
    if (rc == LW_OK)
        return true;
    refuse_incoming(peer, rc == LW_EFULL ? 413 : 503, lw_status_text(rc));
    return false;
}

static bool read_body(struct lw__peer *peer) {
    struct lw__slice input = lw__conn_input(peer->conn), piece;
    size_t used;
    enum lw__http_event event = lw__http_body(&peer->parser, input.data, input.size, &piece, &used);
    bool has_more = true;
    switch (event) {
    case LW__HTTP_MORE: has_more = false; break;
    case LW__HTTP_PIECE: has_more = take_piece(peer, piece) || peer->has_body; break;
    case LW__HTTP_DONE: peer->has_body = true; break;
    case LW__HTTP_REFUSED: refuse_bytes(peer); return true;
    }
    lw__conn_drop(peer->conn, used);
    return has_more;
}

static bool step(struct lw__peer *peer) {
    if (peer->is_last || lw__conn_pending(peer->conn) > LW__ANSWER_HIGH)
        return false;
    if (!peer->incoming)
        return !peer->is_deaf && (!peer->first || overlaps(peer->first)) && read_head(peer);
    if (peer->must_invite)
        return invite_body(peer);
    if (!peer->has_body)
        return read_body(peer);
    if (!can_begin(peer, peer->incoming))
        return false;
    begin(peer, peer->incoming);
    return true;
}

/* Nothing more can come, and there is nothing left to do. */
static bool is_over(const struct lw__peer *peer) {
    return peer->conn->has_ended && !peer->first && !(peer->incoming && peer->has_body);
}

static void advance(struct lw__peer *peer) {
    if (peer->inside > 0 || !peer->conn)
        return; /* whoever is inside goes on */
    enter(peer);
    do {
        answer_ready(peer);
    } while (peer->conn && step(peer));
    answer_ready(peer);
    if (peer->conn && is_over(peer))
        lw__conn_finish(peer->conn);
    else if (peer->conn)
        set_deadline(peer);
    leave(peer);
}

/* Replies come from everywhere, also from within walks along lists of those who wait; an answer
 * begins the next request of its client, and that may change any of these lists. So it waits until
 * the callback of the loop is over. */
void lw__peer_ready(struct lw__peer *peer) {
    if (peer->inside == 0 && peer->conn)
        lw__conn_want_turn(peer->conn);
}

/* ---- what the connection says -------------------------------------------------------------- */

static void on_data(struct lw__conn *conn) {
    struct lw__peer *peer = conn->user;
    if (peer->is_spare)
        give_spare_time(peer);
    peer->heard_after = peer->server->claims.handed_total;
    if (peer->handed && lw__conn_pending(conn) == 0)
        release_handed(peer, false);
    advance(peer);
}

static void on_sent(struct lw__conn *conn) {
    advance(conn->user);
}

static void on_turn(struct lw__conn *conn) {
    advance(conn->user);
}

/* Whoever waits for something that may take long is gone, as far as we can tell; other answers are
 * on their way, and may find somebody who still reads. */
static void on_hangup(struct lw__conn *conn) {
    struct lw__peer *peer = conn->user;
    if (peer->first && peer->first->abandon)
        lw__conn_close(conn, 0);
}

static void on_end(struct lw__conn *conn) {
    struct lw__peer *peer = conn->user;
    if (peer->first && peer->first->abandon)
        lw__conn_close(conn, 0);
    else
        advance(peer);
}

static void on_deadline(struct lw__conn *conn) {
    struct lw__peer *peer = conn->user;
    static const struct lw__http_refusal late = {408, "the request took too long to arrive"};
    enter(peer);
    if (peer->phase == PHASE_BODY) {
        refuse_incoming(peer, late.status, late.sentence);
    } else if (peer->phase == PHASE_HEAD) {
        peer->incoming = lw__exchange_open_refused(peer->server, &late);
        peer->has_body = true;
    }
    if (!peer->incoming)
        lw__conn_close(conn, 0);
    peer->inside--; /* advance wants to be the only one */
    if (peer->conn)
        advance(peer);
    else
        lw__server_free(peer);
}

static const struct lw__conn_ops ops = {
    .on_data = on_data,
    .on_end = on_end,
    .on_hangup = on_hangup,
    .on_sent = on_sent,
    .on_turn = on_turn,
    .on_deadline = on_deadline,
    .on_closed = on_closed,
};

/* ---- open and close ------------------------------------------------------------------------ */

static struct lw__peer *open_peer(struct lw__server *server, int fd) {
    struct lw__peer *peer = lw__server_alloc(sizeof *peer);
    if (peer)
        peer->conn = lw__conn_open(&server->loop, fd, &ops, &server->conn_limits, peer);
    if (!peer || !peer->conn) {
        lw__server_free(peer);
        close(fd);
        return NULL;
    }
    peer->server = server;
    peer->last = &peer->first;
    lw__http_init(&peer->parser, &server->http_limits);
    peer->next = server->peers;
    peer->link = &server->peers;
    if (peer->next)
        peer->next->link = &peer->next;
    server->peers = peer;
    return peer;
}

/* One too many is told so, and its request is not read. If it were closed at once, the request that
 * it has sent would make the system throw the answer away; so it stays until it has read it, as
 * long as there are few of these. */
static void turn_away(struct lw__peer *peer) {
    static const struct lw__http_refusal full = {
        503, "there are as many connections as there may be: come back later"};
    peer->is_turned_away = true;
    if (++peer->server->turned_away > LW__TURNED_AWAY_MAX) {
        lw__conn_close(peer->conn, 0);
        return;
    }
    peer->incoming = lw__exchange_open_refused(peer->server, &full);
    peer->has_body = true;
    if (peer->incoming)
        advance(peer);
    else
        lw__conn_close(peer->conn, ENOMEM);
}

static void log_spare(struct lw__server *server) {
    const lw_log *log = server->log;
    char count[24];
    int64_t now = lw__loop_now_ms(&server->loop);
    lw_log_field fields[] = {
        {"connections", count},
        {"todo", "raise the limit of open files (LimitNOFILE=, ulimit -n), or lower "
                 "connections-max"},
    };
    if (!log || !log->write
        || (server->spare_logged_at && now - server->spare_logged_at < LW__SPARE_LOG_MS))
        return;
    server->spare_logged_at = now;
    snprintf(count, sizeof count, "%llu", (unsigned long long)server->loop.conn_count);
    log->write(log->user, &(lw_log_record){.level = LW_LOG_ERROR,
                                           .component = "server",
                                           .message = "file descriptors are used up",
                                           .fields = fields,
                                           .field_count = sizeof fields / sizeof *fields});
}

void lw__peer_accept(void *user, int fd, const struct lw__listener *listener) {
    struct lw__server *server = user;
    struct lw__peer *peer = open_peer(server, fd);
    if (!peer)
        return;
    peer->number = ++server->accepted_total;
    peer->is_spare = listener->is_sparing;
    if (peer->is_spare) {
        server->spared_total++;
        log_spare(server);
        lw__conn_expect(peer->conn, LW__SPARE_IDLE_MS);
    } else if (server->loop.conn_count - server->turned_away
               > (uint64_t)server->config->connections_max)
        turn_away(peer);
    else
        set_deadline(peer);
}

/* One that got its last answer ends by itself, when it has read it. */
static bool is_idle(const struct lw__peer *peer) {
    return !peer->first && !peer->incoming && !peer->is_last && lw__conn_pending(peer->conn) == 0;
}

void lw__peer_close_idle(struct lw__server *server) {
    for (struct lw__peer *peer = server->peers, *next; peer; peer = next) {
        next = peer->next;
        if (is_idle(peer))
            lw__conn_close(peer->conn, 0);
    }
}

void lw__peer_close_all(struct lw__server *server) {
    while (server->peers)
        lw__conn_close(server->peers->conn, 0);
}
