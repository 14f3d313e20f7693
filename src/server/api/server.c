/* Open, run, close. */
#include "server/api/api.h"
#include "server/memory.h"
#include "server/net/manager.h"
#include "server/refuse.h"

#include <string.h>

#define THREADS 16          /* of the pool: what waits for the disk holds one each */
#define POOL_QUEUE_MAX 4096 /* requests that wait for one; then they get 503 */

void lw__server_apply(struct lw__server *server) {
    const struct lw__serve_config *config = server->config;
    int64_t head = config->head_max > config->line_max ? config->head_max : config->line_max;
    server->http_limits = (struct lw__http_limits){
        .line_max = (size_t)config->line_max,
        .field_max = (size_t)config->header_max,
        .head_max = (size_t)config->head_max,
        .fields_max = (size_t)config->headers_max,
        .body_max = (uint64_t)config->body_max,
    };
    server->conn_limits = (struct lw__conn_limits){
        .in_max = (size_t)head + 4096, /* so that the parser refuses what is too long, not we */
        .out_max = 2 * (size_t)LW__ANSWER_MAX,
        .write_ms = config->write_timeout_ms,
    };
}

/* ---- listening ----------------------------------------------------------------------------- */

static int adopt_listeners(struct lw__server *server, lw_error *err) {
    int count = lw__manager_take_fds();
    if (count > LW__LISTENERS_MAX - 2)
        return lw__refuse(err, LW_EINVAL, "LISTEN_FDS has %d sockets, and at most %d are taken",
                          count, LW__LISTENERS_MAX - 2);
    for (int i = 0; i < count; i++) {
        int rc = lw__listener_adopt(&server->listeners[server->listener_count], &server->loop,
                                    LW__MANAGER_FIRST_FD + i, err);
        if (rc < 0)
            return rc;
        server->listener_count++;
    }
    return LW_OK;
}

static int open_listener(struct lw__server *server, const char *address, lw_error *err) {
    int rc =
        lw__listener_open(&server->listeners[server->listener_count], &server->loop, address, err);
    if (rc == LW_OK)
        server->listener_count++;
    return rc;
}

static int open_socket(struct lw__server *server, lw_error *err) {
    char address[LW__LISTENER_TEXT_MAX];
    struct lw__buffer text;
    lw__buffer_init_fixed(&text, address, sizeof address);
    lw__buffer_put_text(&text, "unix:");
    lw__buffer_put_text(&text, server->config->socket);
    lw__buffer_put_byte(&text, '\0');
    if (text.status < 0)
        return lw__refuse(err, LW_EINVAL, "the path of the socket is too long");
    return open_listener(server, address, err);
}

/* Sockets that were handed over are all there is: the manager decides where to listen. */
static int open_listeners(struct lw__server *server, lw_error *err) {
    const struct lw__serve_config *config = server->config;
    int rc = adopt_listeners(server, err);
    if (rc < 0 || server->listener_count > 0)
        return rc;
    if (config->listen[0])
        rc = open_listener(server, config->listen, err);
    if (rc == LW_OK && config->socket[0])
        rc = open_socket(server, err);
    if (rc == LW_OK && server->listener_count == 0)
        return lw__refuse(err, LW_EINVAL, "there is nowhere to listen: give --listen or --socket");
    return rc;
}

/* ---- open and close ------------------------------------------------------------------------ */

static int open_rest(struct lw__server *server, lw_error *err) {
    int rc = lw_pool_open(&server->pool,
                          LW_POOL_OPTIONS(.name = "http", .min_workers = THREADS,
                                          .queue_limit = POOL_QUEUE_MAX, .overflow = LW_REFUSE),
                          err);
    if (rc == LW_OK)
        rc = open_listeners(server, err);
    if (rc == LW_OK && lw__ends_open(&server->ends, server) < 0)
        rc = lw__refuse(err, LW_ESYSTEM, "no thread can be started");
    if (rc == LW_OK)
        rc = lw__claims_open(server, err);
    return rc;
}

int lw__server_open(struct lw__server *server, const struct lw__serve_config *config,
                    lw_engine *engine, const lw_log *log, lw_error *err) {
    memset(server, 0, sizeof *server);
    server->config = config;
    server->engine = engine;
    server->log = log;
    lw__server_apply(server);
    int rc = lw__loop_open(&server->loop, err);
    if (rc < 0)
        return rc;
    rc = open_rest(server, err);
    if (rc < 0)
        lw__server_close(server);
    else
        lw__stop_listen(server); /* before anybody is told that it is there, and sends one */
    return rc;
}

void lw__server_close(struct lw__server *server) {
    for (size_t i = 0; i < server->listener_count; i++)
        lw__listener_close(&server->listeners[i]);
    lw__peer_close_all(server);
    lw__loop_settle(&server->loop);
    if (server->pool) {
        lw_pool_stop(server->pool, LW_DRAIN, -1);
        lw_pool_close(server->pool);
    }
    lw__ends_close(&server->ends);
    lw__claims_close(server);
    lw__loop_close(&server->loop);
}

/* ---- run ----------------------------------------------------------------------------------- */

int lw__server_run(struct lw__server *server) {
    for (size_t i = 0; i < server->listener_count; i++)
        lw__listener_start(&server->listeners[i], lw__peer_accept, server);
    lw__manager_tell("READY=1");
    lw__loop_run(&server->loop);
    return lw__stop_finish(server);
}
