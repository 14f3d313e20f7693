/* Tasks from a server, over HTTP. */
#include "cli/source.h"

#include "server/api/api.h"
#include "server/memory.h"
#include "server/refuse.h"
#include "server/units.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define WAIT_MS 60000 /* of one claim */

struct lw__door {
    struct lw__source *source;
    struct lw__place *place;
    struct lw__buffer body;
};

/* ---- open and close ------------------------------------------------------------------------ */

static bool must_stop(const struct lw__source *source) {
    struct pollfd stop = {.fd = source->stop_fd, .events = POLLIN};
    return poll(&stop, 1, 0) > 0;
}

/* While a claim waits, and nothing has come: half of the connection is closed. A server that has
 * given us a task at this very moment still sends it, and one that has not knows that we are
 * gone. */
static void look_for_stop(void *user) {
    struct lw__door *door = user;
    if (must_stop(door->source))
        shutdown(door->place->client.fd, SHUT_WR);
}

static struct lw__door *open_door(struct lw__source *source, int *code) {
    struct lw__door *door = lw__server_alloc(sizeof *door);
    if (!door) {
        fprintf(stderr, "legwork: out of memory\n");
        *code = 1;
        return NULL;
    }
    door->source = source;
    lw__buffer_init(&door->body, &lw__server_memory, LW__ANSWER_MAX);
    door->place = lw__place_open(source->common, LW__TO_STEER, "work", code);
    if (door->place)
        return door;
    lw__server_free(door);
    return NULL;
}

static void close_door(struct lw__door *door) {
    lw__place_close(door->place);
    lw__buffer_clear(&door->body);
    lw__server_free(door);
}

/* ---- claim --------------------------------------------------------------------------------- */

/* Who has a task is shown with it. */
struct own_name {
    char text[64];
};

static struct own_name own_name(void) {
    struct own_name name;
    char host[40] = "somewhere"; /* of a longer name its beginning */
    gethostname(host, sizeof host - 1);
    snprintf(name.text, sizeof name.text, "%s:%ld", host, (long)getpid());
    return name;
}

static const char *claim_target(const struct lw__source *source, struct lw__target *target) {
    lw__target_begin(target, "/v1/queues/");
    lw__target_part(target, source->queue);
    lw__buffer_put_text(&target->out, "/claim");
    lw__target_query(target, "lease", lw__duration_write(source->lease_ms).text);
    lw__target_query(target, "wait", lw__duration_write(WAIT_MS).text);
    lw__target_query(target, "worker", own_name().text);
    return lw__target_end(target);
}

static int read_claimed(struct lw__json array, struct lw__claimed *task, lw_error *err) {
    struct lw__json_walk walk = lw__json_enter(array);
    struct lw__json key, one;
    char token[24];
    if (!lw__json_next(&walk, &key, &one))
        return LW_PENDING;
    task->id = (lw_id)lw__fact_number(one, "id");
    task->token = strtoull(lw__fact_text(one, "token", token, sizeof token), NULL, 10);
    task->attempt = (unsigned)lw__fact_number(one, "attempt");
    lw__fact_text(one, "kind", task->kind, sizeof task->kind);
    lw__fact_text(one, "queue", task->queue, sizeof task->queue);
    lw__fact_text(one, "key", task->key, sizeof task->key);
    lw__fact_text(one, "traceparent", task->traceparent, sizeof task->traceparent);
    lw__buffer_cut(&task->payload, 0);
    lw__fact_bytes(one, "payload", &task->payload);
    if (task->payload.status < 0) /* its lease runs out, and another worker gets it */
        return lw__refuse(err, LW_ENOMEM, "there is no memory for the payload of task %llu",
                          task->id);
    return LW_OK;
}

static int claim(struct lw__door *door, struct lw__claimed *task, lw_error *err) {
    struct lw__place *place = door->place;
    struct lw__target target;
    const char *path = claim_target(door->source, &target);
    if (!path)
        return lw__refuse(err, LW_EINVAL, "the name of the queue is too long");
    place->tick = look_for_stop;
    place->user = door;
    int rc = lw__place_post_body(place, path, (struct lw__slice){NULL, 0}, WAIT_MS, NULL, err);
    place->tick = NULL;
    if (rc == LW_OK)
        return read_claimed(place->json, task, err);
    return must_stop(door->source) ? LW_PENDING : rc;
}

/* ---- what becomes of it -------------------------------------------------------------------- */

static const char *task_target(struct lw__target *target, lw_id id, const char *verb,
                               uint64_t token) {
    char number[24];
    lw__target_begin(target, "/v1/tasks/");
    lw__buffer_put_uint(&target->out, id);
    lw__buffer_put_byte(&target->out, '/');
    lw__buffer_put_text(&target->out, verb);
    snprintf(number, sizeof number, "%llu", (unsigned long long)token);
    lw__target_query(target, "token", number);
    return lw__target_end(target);
}

static int post(struct lw__door *door, const char *path, struct lw__slice body, lw_error *err) {
    int code = 0;
    int rc = lw__place_post_body(door->place, path, body, 0, &code, err);
    if (code == 409 || code == 404)
        return LW_ELEASE; /* it is not ours any more */
    if (code >= 400 && code < 500)
        return LW_EINVAL;
    return rc == LW_OK && code == 202 ? LW_PENDING : rc;
}

static int extend(struct lw__door *door, lw_id id, uint64_t token, lw_error *err) {
    struct lw__target target;
    task_target(&target, id, "extend", token);
    lw__target_query(&target, "lease", lw__duration_write(door->source->lease_ms).text);
    return post(door, lw__target_end(&target), (struct lw__slice){NULL, 0}, err);
}

static void write_result(struct lw__door *door, struct lw__slice result) {
    struct lw__json_writer json;
    lw__json_write(&json, &door->body);
    lw__json_object(&json);
    lw__show_bytes(&json, "result", (lw_bytes){result.data, result.size});
    lw__json_close(&json);
}

static int settle(struct lw__door *door, lw_id id, uint64_t token, const struct lw__outcome *end,
                  lw_error *err) {
    static const char *const verbs[] = {[LW_OUTCOME_DONE] = "finish",
                                        [LW_OUTCOME_RETRY] = "retry",
                                        [LW_OUTCOME_SNOOZE] = "snooze",
                                        [LW_OUTCOME_FAIL] = "fail"};
    struct lw__target target;
    lw__buffer_cut(&door->body, 0);
    if (end->outcome == LW_OUTCOME_DONE && end->result.size > 0)
        write_result(door, end->result);
    else if (end->text)
        lw__buffer_put_text(&door->body, end->text);
    if (door->body.status < 0)
        return lw__refuse(err, door->body.status, "there is no memory for a result of %zu bytes",
                          end->result.size);
    int rc = post(door, task_target(&target, id, verbs[end->outcome], token),
                  lw__buffer_slice(&door->body), err);
    return rc == LW_PENDING ? LW_OK : rc;
}

const struct lw__source_ops lw__source_server = {
    .open = open_door, .close = close_door, .claim = claim, .extend = extend, .settle = settle};
