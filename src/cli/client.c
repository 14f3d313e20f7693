/* A blocking connection to a server. The bytes are the codec's (server/http.h); here are the
 * sockets and the patience. */
#include "cli/client.h"

#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define READ_SIZE 65536
#define REQUEST_MAX ((size_t)64 << 20)

static const struct lw__http_limits limits = {.line_max = 8192,
                                              .field_max = 8192,
                                              .head_max = 65536,
                                              .fields_max = LW__HTTP_FIELDS_MAX,
                                              .body_max = LW__CLIENT_ANSWER_MAX};

/* ---- connecting ---------------------------------------------------------------------------- */

static int refuse_absent(const struct lw__client *client, int native, lw_error *err) {
    const char *how = client->path[0] ? "legwork serve --socket PATH" : "legwork serve";
    lw__refuse(err, LW_ESYSTEM,
               "no server answers at %s (%s). Start one with `%s`, or say where it is with --url",
               client->url, strerror(native), how);
    if (err)
        err->native = native;
    return LW_ESYSTEM;
}

static int connect_unix(struct lw__client *client, lw_error *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(client->path) >= sizeof address.sun_path)
        return lw__refuse(err, LW_EINVAL, "the path of the socket is too long: %s", client->url);
    memcpy(address.sun_path, client->path, strlen(client->path) + 1);
    client->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (client->fd < 0 || connect(client->fd, (void *)&address, sizeof address) < 0)
        return refuse_absent(client, errno, err);
    return LW_OK;
}

/* "[::1]:7411" or "localhost:7411", in its two parts. */
static int split_host(const struct lw__client *client, char *name, const char **port) {
    const char *mark = strrchr(client->host, ':');
    if (!mark || mark == client->host || !mark[1]
        || strspn(mark + 1, "0123456789") != strlen(mark + 1))
        return LW_EINVAL;
    size_t size = (size_t)(mark - client->host);
    bool is_bracketed = client->host[0] == '[' && client->host[size - 1] == ']';
    memcpy(name, client->host + is_bracketed, size - 2 * is_bracketed);
    name[size - 2 * is_bracketed] = '\0';
    *port = mark + 1;
    return LW_OK;
}

static int connect_to_any(struct lw__client *client, const struct addrinfo *list, lw_error *err) {
    int native = ECONNREFUSED;
    for (; list; list = list->ai_next) {
        client->fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol);
        if (client->fd >= 0 && connect(client->fd, list->ai_addr, list->ai_addrlen) == 0)
            return LW_OK;
        native = errno;
        if (client->fd >= 0)
            close(client->fd);
        client->fd = -1;
    }
    return refuse_absent(client, native, err);
}

static int connect_tcp(struct lw__client *client, lw_error *err) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    char name[LW__CLIENT_HOST_MAX];
    const char *port;
    struct addrinfo *list = NULL;
    if (split_host(client, name, &port) < 0)
        return lw__refuse(err, LW_EINVAL, "%s has no host and port: write http://127.0.0.1:7411",
                          client->url);
    int failed = getaddrinfo(name, port, &hints, &list);
    if (failed)
        return lw__refuse(err, LW_ESYSTEM, "%s: there is no host %s (%s): check --url", client->url,
                          name, gai_strerror(failed));
    int rc = connect_to_any(client, list, err);
    freeaddrinfo(list);
    return rc;
}

static int connect_again(struct lw__client *client, lw_error *err) {
    lw__buffer_cut(&client->in, 0);
    return client->path[0] ? connect_unix(client, err) : connect_tcp(client, err);
}

static void hang_up(struct lw__client *client) {
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

static int read_url(struct lw__client *client, const char *url, lw_error *err) {
    static const char http[] = "http://", local[] = "unix:";
    bool is_unix = strncmp(url, local, sizeof local - 1) == 0;
    if (!is_unix && strncmp(url, http, sizeof http - 1) != 0)
        return lw__refuse(err, LW_EINVAL,
                          "%s is no URL that is known here: http://HOST:PORT, unix:PATH, or "
                          "sqlite:FILE",
                          lw__slice_show(lw__slice_of(url)).text);
    const char *rest = url + (is_unix ? sizeof local : sizeof http) - 1;
    size_t size = is_unix ? strlen(rest) : strcspn(rest, "/");
    if (size == 0 || size >= LW__CLIENT_HOST_MAX || (!is_unix && rest[size] && rest[size + 1]))
        return lw__refuse(err, LW_EINVAL, "%s: after the host and port nothing is expected",
                          lw__slice_show(lw__slice_of(url)).text);
    memcpy(is_unix ? client->path : client->host, rest, size);
    if (is_unix)
        memcpy(client->host, "localhost", sizeof "localhost");
    return LW_OK;
}

int lw__client_open(struct lw__client *client, const char *url, lw_error *err) {
    void (*tick)(void *) = client->tick;
    *client = (struct lw__client){.url = url, .fd = -1, .tick = tick, .user = client->user};
    lw__buffer_init(&client->in, &lw__server_memory, LW__CLIENT_ANSWER_MAX + READ_SIZE);
    lw__buffer_init(&client->out, &lw__server_memory, REQUEST_MAX);
    int rc = read_url(client, url, err);
    return rc == LW_OK ? connect_again(client, err) : rc;
}

void lw__client_close(struct lw__client *client) {
    hang_up(client);
    lw__buffer_clear(&client->in);
    lw__buffer_clear(&client->out);
}

/* ---- asking -------------------------------------------------------------------------------- */

static int refuse_broken(const struct lw__client *client, const char *why, lw_error *err) {
    return lw__refuse(err, LW_ESYSTEM,
                      "the server at %s broke off (%s): whether it did what was asked is not "
                      "known; look with `legwork ls`",
                      client->url, why);
}

static int send_all(struct lw__client *client, lw_error *err) {
    for (size_t sent = 0; sent < client->out.size;) {
        ssize_t size =
            send(client->fd, client->out.data + sent, client->out.size - sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && (errno == EPIPE || errno == ECONNRESET))
            return LW_OK; /* it may have answered before it broke off */
        if (size < 0)
            return refuse_broken(client, strerror(errno), err);
        sent += (size_t)size;
    }
    return LW_OK;
}

/* Until there is something to read. */
static int await(struct lw__client *client, int64_t patience_ms, lw_error *err) {
    struct pollfd waiting = {.fd = client->fd, .events = POLLIN};
    for (int64_t waited = 0; waited <= patience_ms; waited += LW__CLIENT_TICK_MS) {
        if (poll(&waiting, 1, LW__CLIENT_TICK_MS) > 0)
            return LW_OK;
        if (client->tick)
            client->tick(client->user);
    }
    return lw__refuse(err, LW_ETIMEDOUT, "the server at %s does not answer: is it overloaded?",
                      client->url);
}

static int read_more(struct lw__client *client, int64_t patience_ms, bool *is_over, lw_error *err) {
    int rc = await(client, patience_ms, err);
    if (rc < 0)
        return rc;
    char *room = lw__buffer_take(&client->in, READ_SIZE);
    if (!room)
        return lw__refuse(err, client->in.status, "the answer of %s is too large", client->url);
    ssize_t size = recv(client->fd, room, READ_SIZE, 0);
    lw__buffer_cut(&client->in, client->in.size - READ_SIZE + (size > 0 ? (size_t)size : 0));
    if (size < 0 && errno != EINTR)
        return refuse_broken(client, strerror(errno), err);
    *is_over = size == 0;
    return LW_OK;
}

static void drop(struct lw__buffer *buffer, size_t size) {
    if (size == 0)
        return;
    memmove(buffer->data, buffer->data + size, buffer->size - size);
    lw__buffer_cut(buffer, buffer->size - size);
}

static int refuse_answer(const struct lw__client *client, const struct lw__http_parser *parser,
                         lw_error *err) {
    return lw__refuse(err, LW_ESYSTEM, "what answers at %s is no legwork: %s", client->url,
                      parser->refusal.sentence);
}

/* The head of the answer, interim ones passed over. */
static int read_head(struct lw__client *client, struct lw__http_parser *parser,
                     enum lw__http_method method, int64_t wait_ms, struct lw__http_answer *answer,
                     lw_error *err) {
    bool is_over = false;
    for (;;) {
        size_t used = 0;
        enum lw__http_event event =
            lw__http_answer(parser, client->in.data, client->in.size, method, answer, &used);
        drop(&client->in, used);
        if (event == LW__HTTP_DONE && !answer->is_interim)
            return LW_OK;
        if (event == LW__HTTP_REFUSED)
            return refuse_answer(client, parser, err);
        if (event == LW__HTTP_DONE)
            continue;
        if (is_over)
            return refuse_broken(client, "without an answer", err);
        int rc = read_more(client, wait_ms + LW__CLIENT_SILENCE_MS, &is_over, err);
        if (rc < 0)
            return rc;
    }
}

static int read_body(struct lw__client *client, struct lw__http_parser *parser,
                     struct lw__buffer *into, lw_error *err) {
    bool is_over = false;
    for (;;) {
        struct lw__slice piece = {NULL, 0};
        size_t used = 0;
        enum lw__http_event event =
            lw__http_body(parser, client->in.data, client->in.size, &piece, &used);
        if (event == LW__HTTP_MORE && is_over)
            event = lw__http_hang_up(parser, client->in.size == 0);
        if (event == LW__HTTP_PIECE)
            lw__buffer_put(into, piece);
        drop(&client->in, used);
        if (event == LW__HTTP_DONE)
            return into->status < 0 ? lw__refuse(err, into->status, "the answer is too large")
                                    : LW_OK;
        if (event == LW__HTTP_REFUSED)
            return refuse_answer(client, parser, err);
        if (event == LW__HTTP_PIECE)
            continue;
        int rc = read_more(client, LW__CLIENT_SILENCE_MS, &is_over, err);
        if (rc < 0)
            return rc;
    }
}

static int write_request(struct lw__client *client, enum lw__http_method method, const char *target,
                         struct lw__slice body, lw_error *err) {
    struct lw__http_writer writer;
    lw__buffer_cut(&client->out, 0);
    lw__http_ask(&writer, &client->out, method, lw__slice_of(target), lw__slice_of(client->host));
    int rc = lw__http_finish(&writer, body);
    return rc < 0 ? lw__refuse(err, rc, "this cannot be asked: %s", target) : LW_OK;
}

int lw__client_ask(struct lw__client *client, enum lw__http_method method, const char *target,
                   struct lw__slice body, int64_t wait_ms, int *code, struct lw__buffer *into,
                   lw_error *err) {
    struct lw__http_parser parser;
    struct lw__http_answer answer = {.code = 0};
    lw__http_init(&parser, &limits);
    lw__buffer_cut(into, 0);
    int rc = client->fd < 0 ? connect_again(client, err) : LW_OK;
    if (rc == LW_OK)
        rc = write_request(client, method, target, body, err);
    if (rc == LW_OK)
        rc = send_all(client, err);
    if (rc == LW_OK)
        rc = read_head(client, &parser, method, wait_ms, &answer, err);
    if (rc == LW_OK)
        rc = read_body(client, &parser, into, err);
    if (rc < 0 || !answer.keep_alive)
        hang_up(client);
    *code = answer.code;
    return rc;
}
