/* Asking a server, or a store, for the same things. */
#include "cli/place.h"

#include "cli/command.h"
#include "cli/place_store.h"
#include "server/memory.h"
#include "server/refuse.h"
#include "server/units.h"

#include <stdio.h>

/* ---- open ---------------------------------------------------------------------------------- */

bool lw__place_is_store(const char *url) {
    return strncmp(url, "sqlite:", 7) == 0 || strncmp(url, "memory:", 7) == 0;
}

static int open_store(struct lw__place *place, const struct lw__common *common, enum lw__need need,
                      const char *command, lw_error *err) {
    lw_role role = need == LW__TO_LOOK ? LW_ROLE_READER : LW_ROLE_CLIENT;
    if (need == LW__TO_STEER)
        return lw__refuse(err, LW_EINVAL,
                          "%s needs the server: give its address with --url. A store can be "
                          "opened for ls, show, explain, watch, flows and submit only",
                          command);
    if (strncmp(common->url, "memory:", 7) == 0)
        return lw__refuse(err, LW_EINVAL, "memory: is of one process: ask its server instead");
    int rc = lw_open(&place->engine, common->url, LW_ENGINE_OPTIONS(.role = role), err);
    place->is_absent = rc == LW_ENOTFOUND;
    if (rc == LW_OK && common->is_verbose)
        fprintf(stderr, "legwork: opened the store %s as a %s\n", common->url,
                role == LW_ROLE_READER ? "reader" : "client");
    return rc;
}

static int open_server(struct lw__place *place, const struct lw__common *common, lw_error *err) {
    int rc = lw__client_open(&place->client, common->url, err);
    place->is_absent = rc == LW_ESYSTEM;
    if (rc == LW_OK && common->is_verbose)
        fprintf(stderr, "legwork: asks the server at %s\n", common->url);
    return rc;
}

struct lw__place *lw__place_open(const struct lw__common *common, enum lw__need need,
                                 const char *command, int *code) {
    lw_error err = {.status = LW_ENOMEM, .message = "out of memory"};
    struct lw__place *place = lw__server_alloc(sizeof *place);
    if (!place) {
        fprintf(stderr, "legwork: %s\n", err.message);
        *code = LW__EXIT_FAILED;
        return NULL;
    }
    place->client.fd = -1;
    lw__buffer_init(&place->body, &lw__server_memory, LW__CLIENT_ANSWER_MAX);
    int rc = lw__place_is_store(common->url) ? open_store(place, common, need, command, &err)
                                             : open_server(place, common, &err);
    if (rc == LW_OK)
        return place;
    *code = lw__place_complain(place, &err);
    lw__place_close(place);
    return NULL;
}

void lw__place_close(struct lw__place *place) {
    if (!place)
        return;
    lw_close(place->engine);
    lw__client_close(&place->client);
    lw__buffer_clear(&place->body);
    lw__server_free(place);
}

int lw__place_complain(const struct lw__place *place, const lw_error *err) {
    fprintf(stderr, "legwork: %s\n", err->message);
    if (place->is_absent)
        return LW__EXIT_ABSENT;
    if (err->status == LW_ENOTFOUND)
        return LW__EXIT_NOT_FOUND;
    return err->status == LW_EINVAL ? LW__EXIT_USAGE : LW__EXIT_FAILED;
}

void lw__place_print(const struct lw__place *place) {
    fwrite(place->json.raw.data, 1, place->json.raw.size, stdout);
    putchar('\n');
}

/* ---- asking a server ----------------------------------------------------------------------- */

static int status_of(int code) {
    switch (code) {
    case 400: return LW_EINVAL;
    case 404: return LW_ENOTFOUND;
    case 409: return LW_ECHANGED;
    case 503: return LW_EFULL;
    default: return LW_ESYSTEM;
    }
}

static int read_answer(struct lw__place *place, int code, lw_error *err) {
    static const char null[] = "null";
    const struct lw__json_limits limits = {
        .depth_max = LW__JSON_DEPTH_MAX, .keys = place->keys, .keys_max = LW__PLACE_KEYS_MAX};
    struct lw__json_error wrong;
    char sentence[LW_ERROR_MESSAGE_MAX];
    if (place->body.size == 0)
        lw__buffer_put_text(&place->body, null);
    if (lw__json_read(lw__buffer_slice(&place->body), &limits, &place->json, &wrong) < 0)
        return lw__refuse(err, LW_ESYSTEM, "what answers at %s is no legwork (%d, no JSON)",
                          place->client.url, code);
    if (code < 400)
        return LW_OK;
    lw__fact_text(place->json, "error", sentence, sizeof sentence);
    return lw__refuse(err, status_of(code), "%s", sentence[0] ? sentence : lw__http_reason(code));
}

static int ask(struct lw__place *place, enum lw__http_method method, struct lw__target *target,
               struct lw__slice body, int64_t wait_ms, int *code, lw_error *err) {
    const char *text = lw__target_end(target);
    int got = 0;
    if (!text)
        return lw__refuse(err, LW_EINVAL, "what is asked for is too long");
    place->client.tick = place->tick;
    place->client.user = place->user;
    place->is_absent = false;
    int rc = lw__client_ask(&place->client, method, text, body, wait_ms, &got, &place->body, err);
    place->is_absent = rc == LW_ESYSTEM && got == 0 && place->client.fd < 0;
    if (code)
        *code = got;
    return rc == LW_OK ? read_answer(place, got, err) : rc;
}

static int look(struct lw__place *place, struct lw__target *target, int64_t wait_ms,
                lw_error *err) {
    return ask(place, LW__HTTP_GET, target, (struct lw__slice){NULL, 0}, wait_ms, NULL, err);
}

static void put_number(struct lw__target *target, const char *name, unsigned long long number) {
    char text[32];
    snprintf(text, sizeof text, "%llu", number);
    if (name)
        lw__target_query(target, name, text);
    else
        lw__target_part(target, text);
}

int lw__place_list(struct lw__place *place, const lw_filter *filter, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_list(place, filter, err);
    lw__target_begin(&target, "/v1/tasks");
    lw__target_query(&target, "state", filter->state ? lw_state_name(filter->state) : NULL);
    lw__target_query(&target, "queue", filter->queue);
    lw__target_query(&target, "kind", filter->kind);
    lw__target_query(&target, "key", filter->key);
    if (filter->after)
        put_number(&target, "after", filter->after);
    if (filter->limit)
        put_number(&target, "limit", filter->limit);
    return look(place, &target, 0, err);
}

int lw__place_get(struct lw__place *place, lw_id id, int64_t wait_ms, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_get(place, id, wait_ms, err);
    lw__target_begin(&target, "/v1/tasks/");
    put_number(&target, NULL, id);
    if (wait_ms > 0)
        lw__target_query(&target, "wait", lw__duration_write(wait_ms).text);
    return look(place, &target, wait_ms, err);
}

int lw__place_explain(struct lw__place *place, lw_id id, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_explain(place, id, err);
    lw__target_begin(&target, "/v1/tasks/");
    put_number(&target, NULL, id);
    lw__buffer_put_text(&target.out, "/explain");
    return look(place, &target, 0, err);
}

int lw__place_submit(struct lw__place *place, const lw_task *task, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_submit(place, task, err);
    lw__target_begin(&target, "/v1/queues/");
    lw__target_part(&target, task->queue);
    lw__buffer_put_text(&target.out, "/tasks");
    lw__target_query(&target, "kind", task->kind);
    lw__target_query(&target, "key", task->key);
    if (task->delay_ms > 0)
        lw__target_query(&target, "delay", lw__duration_write(task->delay_ms).text);
    if (task->priority)
        put_number(&target, "priority",
                   task->priority == LW_ZERO ? 0 : (unsigned long long)task->priority);
    return ask(place, LW__HTTP_POST, &target,
               (struct lw__slice){task->payload.data, task->payload.size}, 0, NULL, err);
}

int lw__place_flows(struct lw__place *place, const lw_flow_filter *filter, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_flows(place, filter, err);
    lw__target_begin(&target, "/v1/flows");
    lw__target_query(&target, "flow", filter->flow);
    lw__target_query(&target, "state", filter->state);
    lw__target_query(&target, "condition",
                     filter->condition ? lw_flow_condition_name(filter->condition) : NULL);
    if (filter->after)
        put_number(&target, "after", filter->after);
    if (filter->limit)
        put_number(&target, "limit", filter->limit);
    return look(place, &target, 0, err);
}

int lw__place_flow(struct lw__place *place, const char *flow, const char *id, lw_error *err) {
    struct lw__target target;
    if (place->engine)
        return lw__store_flow(place, flow, id, err);
    lw__target_begin(&target, "/v1/flows/");
    lw__target_part(&target, flow);
    lw__buffer_put_byte(&target.out, '/');
    lw__target_part(&target, id);
    return look(place, &target, 0, err);
}

int lw__place_post_body(struct lw__place *place, const char *path, struct lw__slice body,
                        int64_t wait_ms, int *code, lw_error *err) {
    struct lw__target target;
    lw__target_begin(&target, path);
    return ask(place, LW__HTTP_POST, &target, body, wait_ms, code, err);
}

int lw__place_post(struct lw__place *place, const char *path, int *code, lw_error *err) {
    return lw__place_post_body(place, path, (struct lw__slice){NULL, 0}, 0, code, err);
}
