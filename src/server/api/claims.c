/* Claiming, and who waits for something to claim.
 *
 * A claim is made on the loop, for a client that is there at that moment, and without waiting for
 * the disk; the answer goes out when the lease is on it. From then until the client shows that it
 * has the answer (it sends something, closes in good order, or uses one of its tokens on any
 * connection: handed.c), the exchange keeps the ids: if the connection breaks instead, the tasks
 * are returned as if nobody had ever had them.
 *
 * Who finds nothing is parked in a list by queue. A task that is submitted while somebody waits is
 * leased to the first of them in the step that puts it, and goes out when both are on the disk: one
 * write instead of two. Whatever else may have become claimable the engine tells by a descriptor,
 * queue by queue; those who wait there are served in the order in which they came, until nothing is
 * left. A told queue that nobody waits for is forgotten: whoever comes tries first.
 *
 * A worker may have many claims that wait, and be frozen. A worker that has not taken its last
 * answer (handed.c) gets no tasks by its claims that wait; when there is something that nobody else
 * wants, these are answered without tasks, and a worker that moves claims again at once. A claim
 * that it has sent ahead on that connection gets what is there, and never waits. A task whose lease
 * ran out goes to other workers first, if any wait. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/memory.h"

#include <stdio.h>

#define BYTES_WANTED (8 << 20) /* of an answer; then it has enough tasks */
#define CHUNK_MAX 64           /* tasks of one claim at the engine */
#define QUEUES_AT_ONCE 1024    /* that are served before others have the loop */

/* What a claim asks for, and what it has got: while it is made, in memory of the loop's; one that
 * waits has none. */
struct claim {
    int64_t n, lease_ms;
    size_t count;
    struct lw__given *given;
};

/* ---- giving back --------------------------------------------------------------------------- */

static void return_all(struct lw__server *server, void *state) {
    struct claim *claim = state;
    for (size_t i = 0; i < claim->count; i++)
        lw_lease_return(server->engine, claim->given[i].id, claim->given[i].token, LW_NO_WAIT);
    claim->count = 0;
}

/* The answer will not have the tasks after all. */
static void take_back(struct lw__exchange *x) {
    lw__handed_leave(x);
    return_all(x->server, x->state);
}

/* ---- taking -------------------------------------------------------------------------------- */

static void put_text(struct lw__json_writer *json, const char *name, const char *text) {
    lw__json_key(json, name);
    lw__json_put_text(json, text);
}

static void show_claimed(struct lw__json_writer *json, const lw_snapshot *task, int64_t lease_ms) {
    char token[24];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, token, sizeof token);
    lw__buffer_put_uint(&text, task->token);
    lw__json_object(json);
    lw__json_key(json, "id");
    lw__json_put_uint(json, task->id);
    lw__json_key(json, "token");
    lw__json_put_string(json, lw__buffer_slice(&text));
    put_text(json, "kind", task->kind);
    put_text(json, "queue", task->queue);
    if (task->key)
        put_text(json, "key", task->key);
    lw__json_key(json, "attempt");
    lw__json_put_uint(json, task->attempts);
    lw__json_key(json, "lease_ms");
    lw__json_put_int(json, lease_ms);
    lw__show_bytes(json, "payload", task->payload);
    lw__show_base64(json, "checkpoint_base64", task->checkpoint);
    if (task->value.size == LW__TRACEPARENT_SIZE) {
        lw__json_key(json, "traceparent");
        lw__json_put_string(json, (struct lw__slice){task->value.data, task->value.size});
    }
    lw__json_close(json);
}

/* Into the answer, or, if it does not fit, back. */
static bool take(struct lw__exchange *x, struct claim *claim, const lw_snapshot *task) {
    struct lw__buffer *body = &x->reply.body;
    struct lw__json_writer before = x->json;
    size_t size = body->size;
    show_claimed(&x->json, task, claim->lease_ms);
    if (body->status >= 0) {
        claim->given[claim->count++] = (struct lw__given){.id = task->id, .token = task->token};
        return true;
    }
    lw__buffer_cut(body, size);
    x->json = before;
    lw_lease_return(x->server->engine, task->id, task->token, LW_NO_WAIT);
    return false;
}

/* The first alone: then it is known how large they are. */
static int chunk_of(const struct claim *claim, size_t largest, size_t body_size) {
    size_t left = (size_t)claim->n - claim->count;
    size_t room = body_size < BYTES_WANTED ? BYTES_WANTED - body_size : 0;
    size_t chunk = claim->count == 0 ? 1 : room / (largest * 2 + 256);
    chunk = chunk < left ? chunk : left;
    return (int)(chunk < CHUNK_MAX ? chunk : CHUNK_MAX);
}

/* The holder of what a claim gets: the worker's name, or else its connection, written into `text`.
 * Connections are numbered from 1 again after a restart: the worst of it is that a worker is passed
 * over once, for a task that another one of its number has lost. */
static const char *holder_of(const struct lw__exchange *x, char text[LW_HOLDER_MAX + 1]) {
    const char *name = lw__exchange_query(x, "worker");
    if (name)
        return name;
    snprintf(text, LW_HOLDER_MAX + 1, "an unnamed worker on connection %llu",
             (unsigned long long)x->connection);
    return text;
}

static int claim_chunk(struct lw__exchange *x, const struct claim *claim, int chunk,
                       bool leaves_lost, lw_snapshot *tasks) {
    char text[LW_HOLDER_MAX + 1];
    return lw_lease_claim(x->server->engine,
                          LW_CLAIM_OPTIONS(.holder = holder_of(x, text), .queues = &x->part,
                                           .queue_count = 1, .max = chunk,
                                           .lease_ms = claim->lease_ms,
                                           .flags = LW_NO_WAIT | (leaves_lost ? LW_LEAVE_LOST : 0)),
                          tasks, &x->err);
}

/* As many as there are, up to n. Returns the status of the engine, or LW_OK; LW_ELEASE: there are
 * only tasks that its worker has lost before. */
static int claim_all(struct lw__exchange *x, struct claim *claim, bool leaves_lost) {
    lw_snapshot tasks[CHUNK_MAX];
    size_t largest = 0;
    int got = 0, chunk, used = claim->n < CHUNK_MAX ? (int)claim->n : CHUNK_MAX;
    bool fits = true;
    claim->given = x->server->claims.given;
    for (int i = 0; i < used; i++)
        tasks[i] = (lw_snapshot)LW_SNAPSHOT_INIT;
    lw__json_array(lw__reply_json(x, 200));
    while (fits && (chunk = chunk_of(claim, largest, x->reply.body.size)) > 0) {
        got = claim_chunk(x, claim, chunk, leaves_lost, tasks);
        for (int i = 0; i < got; i++) {
            largest = tasks[i].payload.size > largest ? tasks[i].payload.size : largest;
            fits = take(x, claim, &tasks[i]) && fits;
        }
        if (got < chunk)
            break;
    }
    lw__json_close(&x->json);
    for (int i = 0; i < used; i++)
        lw_snapshot_clear(&tasks[i]);
    return got < 0 && claim->count == 0 ? got : LW_OK;
}

/* ---- answering ----------------------------------------------------------------------------- */

/* Nobody can tell one that only does not send any more from one that has gone. */
static const char half_open[] = "a worker that has shut down its side of the connection gets no "
                                "tasks: keep it open until the answer is there";

static void answer_claimed(struct lw__exchange *x) {
    if (x->status < 0) {
        take_back(x);
        lw__reply_status(x, x->status, NULL);
    }
    if (x->status >= 0 && x->peer && !lw__exchange_is_alive(x)) {
        take_back(x); /* its end is known, and just not told yet */
        lw__reply_error(x, 400, "%s", half_open);
    }
    lw__exchange_reply(x);
}

static void refuse(struct lw__exchange *x, int status) {
    lw__reply_status(x, status, &x->err);
    lw__exchange_reply(x);
}

static bool keep_given(struct lw__exchange *x) {
    struct claim *claim = x->state;
    size_t size = claim->count * sizeof *claim->given;
    struct lw__given *kept = lw__exchange_keep(x, size);
    if (!kept)
        return false;
    memcpy(kept, claim->given, size);
    claim->given = kept;
    lw__handed_enter(x, kept, claim->count);
    return true;
}

static void refuse_given(struct lw__exchange *x, int status) {
    x->lost = NULL;
    take_back(x);
    refuse(x, status);
}

/* The answer is there, and goes out when somebody says that its leases are durable. False: there is
 * no memory for that, and x is answered. */
static bool await_writing(struct lw__exchange *x) {
    if (!keep_given(x)) {
        refuse_given(x, LW_ENOMEM);
        return false;
    }
    x->lost = return_all;
    lw__exchange_await(x, answer_claimed);
    return true;
}

static void hand_out(struct lw__exchange *x) {
    if (!await_writing(x))
        return;
    if (x->server->is_volatile) {
        lw__exchange_return(x, LW_OK);
        return;
    }
    int rc = lw_sync_async(x->server->engine, lw__exchange_called, x, &x->err);
    if (rc == LW_OK)
        return;
    lw__exchange_unawait(x);
    refuse_given(x, rc);
}

/* ---- waiting ------------------------------------------------------------------------------- */

static struct lw__waiters *waiters_of(struct lw__claims *claims, const char *queue) {
    uint32_t hash = 2166136261u;
    for (; *queue; queue++)
        hash = (hash ^ (unsigned char)*queue) * 16777619u;
    return &claims->queues[hash % LW__WAITERS_BUCKETS];
}

static void unpark(struct lw__exchange *x) {
    struct lw__waiters *waiters = waiters_of(&x->server->claims, x->part);
    *x->wait_link = x->wait_next;
    if (x->wait_next)
        x->wait_next->wait_link = x->wait_link;
    else
        waiters->last = x->wait_link;
    x->abandon = NULL;
    x->server->parked--;
    lw__exchange_clear_timer(x);
}

static void abandon(struct lw__exchange *x) {
    unpark(x);
    lw__exchange_free(x);
}

/* With the answer that is there: no tasks; unless there may be some that cannot be given away. */
static void time_is_over(struct lw__exchange *x) {
    lw_store_health health = {.status = LW_OK};
    unpark(x);
    if (lw_get_store_health(x->server->engine, &health) == LW_OK && health.status < 0)
        refuse(x, health.status);
    else
        lw__exchange_reply(x);
}

static void park(struct lw__exchange *x, int64_t ms) {
    struct lw__waiters *waiters = waiters_of(&x->server->claims, x->part);
    x->wait_next = NULL;
    x->wait_link = waiters->last;
    *waiters->last = x;
    waiters->last = &x->wait_next;
    x->abandon = abandon;
    x->server->parked++;
    lw__exchange_set_timer(x, ms, time_is_over);
}

/* One walk along those who wait in a queue. */
struct walk {
    struct lw__server *server;
    const char *queue;
    bool leaves_lost; /* nobody gets a task that it has lost before */
    unsigned served;
    unsigned passed;      /* who did not get such a task */
    unsigned behind;      /* whose workers have not taken their last answer */
    bool is_nothing_left; /* in the queue */
};

static void serve_waiter(struct walk *walk, struct lw__exchange *x) {
    struct claim *claim = x->state;
    if (lw__handed_is_behind(x)) {
        walk->behind++;
        return;
    }
    if (!lw__exchange_is_alive(x))
        return; /* its end is on its way to us */
    int rc = claim_all(x, claim, walk->leaves_lost);
    if (rc == LW_ELEASE) {
        walk->passed++;
        return;
    }
    walk->is_nothing_left = rc == LW_OK && claim->count == 0;
    if (walk->is_nothing_left)
        return;
    walk->served++;
    unpark(x);
    if (rc < 0)
        refuse(x, rc);
    else
        hand_out(x);
}

static void walk_queue(struct walk *walk) {
    struct lw__exchange *next;
    walk->served = walk->passed = walk->behind = 0;
    struct lw__exchange *x = waiters_of(&walk->server->claims, walk->queue)->first;
    for (; x && !walk->is_nothing_left; x = next) {
        next = x->wait_next;
        if (strcmp(x->part, walk->queue) == 0)
            serve_waiter(walk, x);
    }
}

static bool has_something(struct lw__server *server, const char *queue) {
    return lw_lease_claim(server->engine,
                          LW_CLAIM_OPTIONS(.holder = "legwork", .queues = &queue, .queue_count = 1,
                                           .flags = LW_ONLY_LOOK),
                          NULL, NULL)
           > 0;
}

/* They come back at once, unless they are frozen. */
static void send_behind_away(struct lw__server *server, const char *queue) {
    struct lw__exchange *next;
    for (struct lw__exchange *x = waiters_of(&server->claims, queue)->first; x; x = next) {
        next = x->wait_next;
        if (strcmp(x->part, queue) == 0 && lw__handed_is_behind(x))
            time_is_over(x);
    }
}

/* Whoever was passed over is asked again behind the others, and gets it if there are none. */
static void serve_queue(struct lw__server *server, const char *queue) {
    struct walk walk = {.server = server, .queue = queue, .leaves_lost = true};
    do {
        walk_queue(&walk);
        walk.leaves_lost = walk.served > 0;
    } while (walk.passed > 0 && !walk.is_nothing_left);
    if (walk.behind > 0 && !walk.is_nothing_left && has_something(server, queue))
        send_behind_away(server, queue);
}

/* ---- a task that comes in while somebody waits --------------------------------------------- */

static struct lw__exchange *first_waiter(struct lw__server *server, const char *queue) {
    struct lw__exchange *x = waiters_of(&server->claims, queue)->first;
    while (x
           && (strcmp(x->part, queue) != 0 || lw__handed_is_behind(x) || !lw__exchange_is_alive(x)))
        x = x->wait_next;
    return x;
}

/* It is not in the way of others who wait: there was nothing else to claim. False: the task went
 * back to its queue. */
static bool answer_waiter(struct lw__exchange *waiter, const lw_snapshot *task) {
    struct claim *claim = waiter->state;
    claim->given = waiter->server->claims.given;
    claim->count = 0;
    lw__json_array(lw__reply_json(waiter, 200));
    bool fits = take(waiter, claim, task);
    lw__json_close(&waiter->json);
    if (!fits)
        return false;
    unpark(waiter);
    return await_writing(waiter);
}

int lw__claims_submit(struct lw__exchange *x, const lw_task *task) {
    char text[LW_HOLDER_MAX + 1];
    lw_engine *engine = x->server->engine;
    struct lw__exchange *waiter =
        first_waiter(x->server, task->queue ? task->queue : "default"); /* of legwork/task.h */
    if (!waiter)
        return lw_submit_async(engine, task, lw__exchange_called, x, &x->err);
    const struct claim *claim = waiter->state;
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    int rc = lw_lease_submit(
        engine, task,
        LW_CLAIM_OPTIONS(.holder = holder_of(waiter, text), .lease_ms = claim->lease_ms), &leased,
        lw__exchange_called, x, &x->err);
    if (rc == LW_OK && leased.token && answer_waiter(waiter, &leased))
        x->waiter = waiter;
    lw_snapshot_clear(&leased);
    return rc;
}

/* ---- what has become claimable -------------------------------------------------------------- */

static void on_claimable(evutil_socket_t fd, short what, void *arg) {
    struct lw__server *server = arg;
    char queue[LW_NAME_MAX + 1];
    (void)fd, (void)what;
    for (int i = 0; i < QUEUES_AT_ONCE && lw_claim_watch_next(server->claims.watch, queue) == 1;
         i++)
        serve_queue(server, queue);
    lw__loop_settle(&server->loop);
}

void lw__claims_refuse_all(struct lw__server *server) {
    for (size_t i = 0; i < LW__WAITERS_BUCKETS; i++)
        while (server->claims.queues[i].first) {
            struct lw__exchange *x = server->claims.queues[i].first;
            unpark(x);
            refuse(x, LW_ESTOPPING);
        }
}

/* ---- the route ----------------------------------------------------------------------------- */

static bool read_claim(struct lw__exchange *x, int64_t *n, int64_t *lease, int64_t *wait) {
    const struct lw__serve_config *config = x->server->config;
    if (!lw__exchange_number(x, "n", 1, 1, INT64_C(1) << 31, n, &x->err)
        || !lw__exchange_lease(x, lease, &x->err)
        || !lw__exchange_duration(x, "wait", 0, wait, &x->err))
        return false;
    *n = *n < config->claim_max ? *n : config->claim_max;
    *wait = *wait < config->wait_max_ms ? *wait : config->wait_max_ms;
    return true;
}

/* What its worker has lost before goes to others who wait, and else to it. */
static int claim_for_newcomer(struct lw__exchange *x, struct claim *claim) {
    int rc = claim_all(x, claim, true);
    if (rc != LW_ELEASE)
        return rc;
    serve_queue(x->server, x->part);
    return claim_all(x, claim, false);
}

/* A claim that was sent before the last answer was read: the client pipelines. It gets tasks that
 * are there now, as a larger n of the claim before would have got them; an empty answer would tell
 * a client that sends first and reads later that the queue is empty. It gets none that its worker
 * has lost, so that a frozen one is charged once for each, and it does not wait. */
static int claim_for_pipeliner(struct lw__exchange *x, struct claim *claim) {
    int rc = claim_all(x, claim, true);
    return rc == LW_ELEASE ? LW_OK : rc;
}

void lw__serve_claim(struct lw__exchange *x) {
    int64_t n, lease, wait;
    if (!read_claim(x, &n, &lease, &wait)) {
        refuse(x, LW_EINVAL);
        return;
    }
    struct claim *claim = lw__exchange_keep(x, sizeof *claim);
    if (!claim) {
        refuse(x, LW_ENOMEM);
        return;
    }
    x->state = claim;
    claim->n = n;
    claim->lease_ms = lease;
    lw__handed_hear(x);
    bool is_behind = lw__handed_is_behind(x);
    int rc = is_behind ? claim_for_pipeliner(x, claim) : claim_for_newcomer(x, claim);
    if (rc < 0)
        refuse(x, rc);
    else if (claim->count > 0)
        hand_out(x);
    else if (wait > 0 && !is_behind && x->server->phase == LW__SERVING)
        park(x, wait);
    else
        lw__exchange_reply(x);
}

/* ---- open and close ------------------------------------------------------------------------ */

int lw__claims_open(struct lw__server *server, lw_error *err) {
    struct lw__claims *claims = &server->claims;
    for (size_t i = 0; i < LW__WAITERS_BUCKETS; i++)
        claims->queues[i].last = &claims->queues[i].first;
    int rc = lw_claim_watch_open(server->engine, &claims->watch, err);
    if (rc < 0)
        return rc;
    event_assign(&claims->readable, server->loop.base, lw_claim_watch_fd(claims->watch),
                 EV_READ | EV_PERSIST, on_claimable, server);
    event_add(&claims->readable, NULL);
    return LW_OK;
}

void lw__claims_close(struct lw__server *server) {
    if (!server->claims.watch)
        return;
    event_del(&server->claims.readable);
    lw_claim_watch_close(server->claims.watch);
}
