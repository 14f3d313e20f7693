/* Tasks from a store that this process owns. */
#include "cli/source.h"

#include "cli/command.h"
#include "server/memory.h"
#include "server/refuse.h"

#include <poll.h>
#include <stdio.h>

#define LOOK_MS 60000 /* how long a claim waits at most */

struct lw__door {
    struct lw__source *source;
    lw_claim_watch *watch;
    lw_snapshot snapshot;
};

/* ---- open and close ------------------------------------------------------------------------ */

static void close_door(struct lw__door *door) {
    lw_claim_watch_close(door->watch);
    lw_snapshot_clear(&door->snapshot);
    lw__server_free(door);
}

static struct lw__door *open_door(struct lw__source *source, int *code) {
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    struct lw__door *door = lw__server_alloc(sizeof *door);
    if (door && lw_claim_watch_open(source->engine, &door->watch, &err) == LW_OK) {
        door->source = source;
        return door;
    }
    fprintf(stderr, "legwork: %s\n", err.message);
    lw__server_free(door);
    *code = LW__EXIT_FAILED;
    return NULL;
}

/* ---- claim --------------------------------------------------------------------------------- */

static int keep_claimed(const lw_snapshot *from, struct lw__claimed *task) {
    task->id = from->id;
    task->token = from->token;
    task->attempt = from->attempts;
    snprintf(task->kind, sizeof task->kind, "%s", from->kind);
    snprintf(task->queue, sizeof task->queue, "%s", from->queue);
    snprintf(task->key, sizeof task->key, "%s", from->key ? from->key : "");
    snprintf(task->traceparent, sizeof task->traceparent, "%.*s",
             from->value.size < sizeof task->traceparent ? (int)from->value.size : 0,
             from->value.data ? (const char *)from->value.data : "");
    lw__buffer_cut(&task->payload, 0);
    return lw__buffer_put(&task->payload,
                          (struct lw__slice){from->payload.data, from->payload.size});
}

static int claim_one(struct lw__door *door, struct lw__claimed *task, lw_error *err) {
    const struct lw__source *source = door->source;
    const lw_claim_options *options =
        LW_CLAIM_OPTIONS(.holder = "legwork work", .queues = &source->queue, .queue_count = 1,
                         .lease_ms = source->lease_ms);
    int rc = lw_lease_claim(source->engine, options, &door->snapshot, err);
    if (rc <= 0)
        return rc < 0 ? rc : LW_PENDING;
    rc = keep_claimed(&door->snapshot, task);
    if (rc == LW_OK)
        return LW_OK;
    lw_lease_return(source->engine, task->id, task->token, 0);
    return lw__refuse(err, rc, "there is no memory for the payload of task %llu", task->id);
}

/* Until there may be something. */
static void await_news(struct lw__door *door) {
    char queue[LW_NAME_MAX + 1];
    struct pollfd polls[] = {{.fd = door->source->stop_fd, .events = POLLIN},
                             {.fd = lw_claim_watch_fd(door->watch), .events = POLLIN}};
    poll(polls, 2, LOOK_MS);
    while (lw_claim_watch_next(door->watch, queue) == 1) {
    }
}

static int claim(struct lw__door *door, struct lw__claimed *task, lw_error *err) {
    int rc = claim_one(door, task, err);
    if (rc != LW_PENDING)
        return rc;
    await_news(door);
    return LW_PENDING;
}

/* ---- what becomes of it -------------------------------------------------------------------- */

static int explain(int rc, lw_id id, lw_error *err) {
    if (rc < 0 && rc != LW_EUNSURE)
        return lw__refuse(err, rc, "task %llu: %s", id, lw_status_text(rc));
    return rc == LW_EUNSURE ? LW_OK : rc; /* it will be written when that is possible */
}

static int extend(struct lw__door *door, lw_id id, uint64_t token, lw_error *err) {
    const struct lw__source *source = door->source;
    return explain(lw_lease_extend(source->engine, id, token, source->lease_ms, 0), id, err);
}

static int settle(struct lw__door *door, lw_id id, uint64_t token, const struct lw__outcome *end,
                  lw_error *err) {
    lw_settlement one = {.id = id, .token = token, .outcome = end->outcome, .text = end->text};
    if (end->result.size > 0)
        one.result = (lw_bytes){end->result.data, end->result.size};
    int rc = lw_lease_settle(door->source->engine, &one, 1, 0, err);
    return explain(rc < 0 ? rc : one.status, id, err);
}

const struct lw__source_ops lw__source_store = {
    .open = open_door, .close = close_door, .claim = claim, .extend = extend, .settle = settle};
