#include "api.h"

#include <arpa/inet.h>
#include <microhttpd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_MAX 8192
#define CONNECTIONS_MAX 256
#define IDLE_SECONDS 30
#define THREADS 4
#define RETRY_AFTER_SECONDS "2"

struct api {
    struct MHD_Daemon *daemon;
    struct service *service;
};

/* A request, while it comes in. */
struct request {
    struct MHD_PostProcessor *form; /* NULL: it has none */
    size_t body_size;
    bool is_bad; /* a field is too long, or no text */
    char domain[LW_FLOW_ID_MAX + 2], title[SERVICE_TITLE_MAX + 2];
};

/* What is answered. */
struct reply {
    unsigned status;
    struct text json;
    const char *allow;
    char location[LW_FLOW_ID_MAX + 16]; /* "": none */
};

/* ---- answers ------------------------------------------------------------------------------ */

static void say(struct reply *reply, unsigned status, const char *sentence) {
    reply->status = status;
    reply->json.size = 0;
    text_add(&reply->json, "{\"message\":");
    text_add_json(&reply->json, sentence);
    text_add(&reply->json, "}");
}

static void say_error(struct reply *reply, const lw_error *err) {
    say(reply,
        err->status == LW_EINVAL      ? MHD_HTTP_BAD_REQUEST
        : err->status == LW_ENOTFOUND ? MHD_HTTP_NOT_FOUND
                                      : MHD_HTTP_SERVICE_UNAVAILABLE,
        err->message);
}

static void say_accepted(struct reply *reply, const char *domain, const char *sentence) {
    say(reply, MHD_HTTP_ACCEPTED, sentence);
    snprintf(reply->location, sizeof reply->location, "/sites/%.*s", LW_FLOW_ID_MAX, domain);
}

static enum MHD_Result send_reply(struct MHD_Connection *connection, struct reply *reply) {
    if (reply->json.is_broken) {
        free(reply->json.bytes);
        return MHD_NO; /* out of memory: hang up */
    }
    struct MHD_Response *response =
        MHD_create_response_from_buffer(reply->json.size, reply->json.bytes, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(reply->json.bytes);
        return MHD_NO;
    }
    MHD_add_response_header(response, "Content-Type", "application/json");
    if (*reply->location)
        MHD_add_response_header(response, "Location", reply->location);
    if (reply->allow)
        MHD_add_response_header(response, "Allow", reply->allow);
    if (reply->status == MHD_HTTP_SERVICE_UNAVAILABLE)
        MHD_add_response_header(response, "Retry-After", RETRY_AFTER_SECONDS);
    enum MHD_Result sent = MHD_queue_response(connection, reply->status, response);
    MHD_destroy_response(response);
    return sent;
}

/* ---- the four calls ----------------------------------------------------------------------- */

struct call {
    struct service *service;
    struct MHD_Connection *connection;
    const struct request *request;
    const char *id;
};

static void post_site(const struct call *call, struct reply *reply) {
    const struct request *request = call->request;
    lw_error err = {0};
    if (!request->form || request->is_bad) {
        say(reply, MHD_HTTP_BAD_REQUEST, "send a form with the fields domain and title");
        return;
    }
    int rc = service_create(call->service, request->domain, request->title, &err);
    if (rc < 0)
        say_error(reply, &err);
    else if (rc == LW_EXISTS)
        say(reply, MHD_HTTP_CONFLICT, "this domain is taken");
    else
        say_accepted(reply, request->domain, "it is being created");
}

/* Again is as good as once. */
static void delete_site(const struct call *call, struct reply *reply) {
    lw_error err = {0};
    if (service_delete(call->service, call->id, &err) < 0)
        say_error(reply, &err);
    else
        say_accepted(reply, call->id, "it is being deleted");
}

static void get_site(const struct call *call, struct reply *reply) {
    lw_error err = {0};
    reply->status = MHD_HTTP_OK;
    if (service_show(call->service, call->id, &reply->json, &err) < 0)
        say_error(reply, &err);
}

static void get_sites(const struct call *call, struct reply *reply) {
    const char *text =
        MHD_lookup_connection_value(call->connection, MHD_GET_ARGUMENT_KIND, "after");
    char *end = NULL;
    uint64_t after = text ? strtoull(text, &end, 10) : 0;
    lw_error err = {0};
    reply->status = MHD_HTTP_OK;
    if (text && (!*text || *end))
        say(reply, MHD_HTTP_BAD_REQUEST, "after has to be the number of a site");
    else if (service_list(call->service, after, &reply->json, &err) < 0)
        say_error(reply, &err);
}

static const struct route {
    const char *method;
    bool has_id;
    void (*run)(const struct call *call, struct reply *reply);
} routes[] = {
    {"POST", false, post_site},
    {"GET", false, get_sites},
    {"GET", true, get_site},
    {"DELETE", true, delete_site},
};

/* NULL: the path is not one of ours; "": all sites. */
static const char *id_in(const char *path) {
    static const char prefix[] = "/sites";
    if (strncmp(path, prefix, sizeof prefix - 1) != 0)
        return NULL;
    path += sizeof prefix - 1;
    return *path == '/' ? path + 1 : *path ? NULL : path;
}

static void answer(const struct call *call, const char *method, struct reply *reply) {
    if (!call->id) {
        say(reply, MHD_HTTP_NOT_FOUND, "there is /sites and /sites/{domain}");
        return;
    }
    if (call->request->body_size > BODY_MAX) {
        say(reply, MHD_HTTP_CONTENT_TOO_LARGE, "a request has at most 8192 bytes");
        return;
    }
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++) {
        if (strcmp(method, routes[i].method) == 0 && !*call->id != routes[i].has_id) {
            routes[i].run(call, reply);
            return;
        }
    }
    say(reply, MHD_HTTP_METHOD_NOT_ALLOWED, "this cannot be done here");
    reply->allow = *call->id ? "GET, DELETE" : "GET, POST";
}

/* ---- requests as they come in ------------------------------------------------------------- */

static bool copy_piece(char *field, size_t room, const char *data, uint64_t at, size_t size) {
    if (at + size >= room || memchr(data, 0, size))
        return false;
    memcpy(field + at, data, size);
    field[at + size] = 0;
    return true;
}

static enum MHD_Result take_field(void *user, enum MHD_ValueKind kind, const char *key,
                                  const char *file, const char *type, const char *encoding,
                                  const char *data, uint64_t at, size_t size) {
    struct request *request = user;
    (void)kind, (void)file, (void)type, (void)encoding;
    bool is_good = true;
    if (size > 0 && strcmp(key, "domain") == 0)
        is_good = copy_piece(request->domain, sizeof request->domain, data, at, size);
    else if (size > 0 && strcmp(key, "title") == 0)
        is_good = copy_piece(request->title, sizeof request->title, data, at, size);
    request->is_bad |= !is_good;
    return MHD_YES;
}

static enum MHD_Result begin_request(struct MHD_Connection *connection, const char *method,
                                     void **slot) {
    struct request *request = calloc(1, sizeof *request);
    if (!request)
        return MHD_NO;
    if (strcmp(method, "POST") == 0)
        request->form = MHD_create_post_processor(connection, 1024, take_field, request);
    *slot = request;
    return MHD_YES;
}

static void take_body(struct request *request, const char *data, size_t size) {
    request->body_size += size;
    if (request->form && request->body_size <= BODY_MAX
        && MHD_post_process(request->form, data, size) != MHD_YES)
        request->is_bad = true;
}

static enum MHD_Result on_request(void *user, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data,
                                  size_t *size, void **slot) {
    struct api *api = user;
    struct request *request = *slot;
    struct reply reply = {0};
    (void)version;
    if (!request)
        return begin_request(connection, method, slot);
    if (*size > 0) {
        take_body(request, data, *size);
        *size = 0;
        return MHD_YES;
    }
    struct call call = {api->service, connection, request, id_in(path)};
    answer(&call, method, &reply);
    return send_reply(connection, &reply);
}

static void on_completed(void *user, struct MHD_Connection *connection, void **slot,
                         enum MHD_RequestTerminationCode code) {
    struct request *request = *slot;
    (void)user, (void)connection, (void)code;
    if (request && request->form)
        MHD_destroy_post_processor(request->form);
    free(request);
    *slot = NULL;
}

/* ---- open, close -------------------------------------------------------------------------- */

struct api *api_open(struct service *service, uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct api *api = calloc(1, sizeof *api);
    if (!api)
        return NULL;
    api->service = service;
    api->daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO, port, NULL, NULL, on_request, api,
        MHD_OPTION_SOCK_ADDR, (struct sockaddr *)&address, MHD_OPTION_NOTIFY_COMPLETED,
        on_completed, NULL, MHD_OPTION_THREAD_POOL_SIZE, (unsigned)THREADS,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)IDLE_SECONDS, MHD_OPTION_END);
    if (api->daemon)
        return api;
    free(api);
    return NULL;
}

uint16_t api_port(const struct api *api) {
    return MHD_get_daemon_info(api->daemon, MHD_DAEMON_INFO_BIND_PORT)->port;
}

void api_close(struct api *api) {
    if (!api)
        return;
    MHD_stop_daemon(api->daemon);
    free(api);
}
