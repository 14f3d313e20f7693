/* Listening sockets. */
#include "server/net/listener.h"

#include "server/refuse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG 1024
#define ACCEPTS_MAX 64 /* a turn */

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un un;
};

/* ---- addresses ----------------------------------------------------------------------------- */

static bool is_local(const union address *address) {
    switch (address->any.sa_family) {
    case AF_INET: return ntohl(address->v4.sin_addr.s_addr) >> 24 == 127;
    case AF_INET6: return IN6_IS_ADDR_LOOPBACK(&address->v6.sin6_addr);
    default: return address->any.sa_family == AF_UNIX;
    }
}

static int refuse_foreign(const char *text, lw_error *err) {
    return lw__refuse(
        err, LW_EINVAL,
        "%s is not a local address: Legwork listens on 127.0.0.1:PORT, [::1]:PORT and "
        "unix:PATH only, because it has no tokens and no TLS yet",
        lw__slice_show(lw__slice_of(text)).text);
}

static int read_unix(const char *path, union address *address, socklen_t *size, lw_error *err) {
    size_t length = strlen(path);
    if (length == 0 || length >= sizeof address->un.sun_path)
        return lw__refuse(err, LW_EINVAL, "the path of a unix socket has 1 to %zu bytes, not %zu",
                          sizeof address->un.sun_path - 1, length);
    address->un.sun_family = AF_UNIX;
    memcpy(address->un.sun_path, path, length + 1);
    *size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);
    return LW_OK;
}

static bool read_port(const char *text, uint16_t *port) {
    char *end;
    errno = 0;
    unsigned long number = strtoul(text, &end, 10);
    *port = htons((uint16_t)number);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number <= 65535;
}

static int read_tcp(const char *text, union address *address, socklen_t *size, lw_error *err) {
    const char *colon = strrchr(text, ':');
    char host[64];
    uint16_t port;
    if (!colon || (size_t)(colon - text) >= sizeof host || !read_port(colon + 1, &port))
        return lw__refuse(err, LW_EINVAL,
                          "%s is no address: write HOST:PORT, such as 127.0.0.1:7411, or unix:PATH",
                          lw__slice_show(lw__slice_of(text)).text);
    snprintf(host, sizeof host, "%.*s", (int)(colon - text), text);
    if (strcmp(host, "localhost") == 0)
        snprintf(host, sizeof host, "127.0.0.1");
    if (inet_pton(AF_INET, host, &address->v4.sin_addr) == 1) {
        address->v4.sin_family = AF_INET;
        address->v4.sin_port = port;
        *size = sizeof address->v4;
    } else if (strcmp(host, "[::1]") == 0) {
        address->v6.sin6_family = AF_INET6;
        address->v6.sin6_port = port;
        address->v6.sin6_addr = in6addr_loopback;
        *size = sizeof address->v6;
    } else {
        return refuse_foreign(text, err);
    }
    return is_local(address) ? LW_OK : refuse_foreign(text, err);
}

static int read_address(const char *text, union address *address, socklen_t *size, lw_error *err) {
    bool is_unix = strncmp(text, "unix:", 5) == 0;
    return is_unix ? read_unix(text + 5, address, size, err) : read_tcp(text, address, size, err);
}

int lw__listener_check(const char *text, lw_error *err) {
    union address address = {0};
    socklen_t size = 0;
    return read_address(text, &address, &size, err);
}

static void write_text(struct lw__listener *listener) {
    union address address = {0};
    socklen_t size = sizeof address;
    getsockname(listener->fd, &address.any, &size);
    listener->is_unix = address.any.sa_family == AF_UNIX;
    if (listener->is_unix && size > sizeof(sa_family_t) && !address.un.sun_path[0])
        snprintf(listener->text, sizeof listener->text, "unix:@%.*s",
                 (int)(size - sizeof(sa_family_t) - 1), address.un.sun_path + 1);
    else if (listener->is_unix)
        snprintf(listener->text, sizeof listener->text, "unix:%s", address.un.sun_path);
    else if (address.any.sa_family == AF_INET6)
        snprintf(listener->text, sizeof listener->text, "http://[::1]:%u",
                 ntohs(address.v6.sin6_port));
    else
        snprintf(
            listener->text, sizeof listener->text, "http://%s:%u",
            inet_ntop(AF_INET, &address.v4.sin_addr, (char[INET_ADDRSTRLEN]){0}, INET_ADDRSTRLEN),
            ntohs(address.v4.sin_port));
}

/* ---- accepting ----------------------------------------------------------------------------- */

static void rest(struct lw__listener *listener) {
    struct timeval in = lw__loop_interval(LW__LISTENER_REST_MS);
    lw__listener_pause(listener);
    event_add(&listener->resting, &in);
}

static void on_rested(evutil_socket_t fd, short what, void *arg) {
    struct lw__listener *listener = arg;
    (void)fd, (void)what;
    lw__loop_keep_spare(listener->loop);
    lw__listener_resume(listener);
}

/* Errors of a connection that came and went are no errors of the listener. */
static bool must_rest(int code) {
    return code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM;
}

static int accept_next(const struct lw__listener *listener) {
    return accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

/* The system looks for a descriptor before it looks for a connection: there may be none. */
static int accept_on_spare(struct lw__listener *listener) {
    struct lw__loop *loop = listener->loop;
    close(loop->spare_fd);
    loop->spare_fd = -1;
    int peer = accept_next(listener), code = errno;
    listener->is_sparing = peer >= 0;
    if (peer < 0)
        lw__loop_keep_spare(loop);
    errno = code;
    return peer;
}

static void on_acceptable(evutil_socket_t fd, short what, void *arg) {
    struct lw__listener *listener = arg;
    struct lw__loop *loop = listener->loop;
    (void)fd, (void)what;
    for (int i = 0; i < ACCEPTS_MAX && listener->is_accepting; i++) {
        int peer = accept_next(listener);
        if (peer < 0 && (errno == EMFILE || errno == ENFILE) && loop->spare_fd >= 0)
            peer = accept_on_spare(listener);
        if (peer < 0) {
            if (must_rest(errno))
                rest(listener);
            break;
        }
        if (!listener->is_unix) /* an answer is one write: nothing is gained by holding it back */
            setsockopt(peer, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        if (listener->is_sparing) /* until it is resumed, or as long as a rest takes */
            rest(listener);
        listener->accepted(listener->user, peer, listener);
        listener->is_sparing = false;
    }
    lw__loop_settle(loop);
}

void lw__listener_start(struct lw__listener *listener, lw__accepted accepted, void *user) {
    listener->accepted = accepted;
    listener->user = user;
    event_assign(&listener->accepting, listener->loop->base, listener->fd, EV_READ | EV_PERSIST,
                 on_acceptable, listener);
    event_assign(&listener->resting, listener->loop->base, -1, 0, on_rested, listener);
    lw__listener_resume(listener);
}

void lw__listener_pause(struct lw__listener *listener) {
    if (listener->is_accepting)
        event_del(&listener->accepting);
    listener->is_accepting = false;
}

void lw__listener_resume(struct lw__listener *listener) {
    if (listener->accepted && !listener->is_accepting && listener->fd >= 0)
        listener->is_accepting = event_add(&listener->accepting, NULL) == 0;
}

/* ---- open and close ------------------------------------------------------------------------ */

/* A socket that a dead server has left behind is removed; one that somebody listens on is not. */
static int clear_path(const union address *address, socklen_t size, lw_error *err) {
    struct stat status;
    const char *path = address->un.sun_path;
    if (lstat(path, &status) < 0)
        return LW_OK;
    if (!S_ISSOCK(status.st_mode))
        return lw__refuse(err, LW_EBUSY, "%s is there already, and is no socket", path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_taken = fd >= 0 && connect(fd, &address->any, size) == 0;
    if (fd >= 0)
        close(fd);
    if (is_taken)
        return lw__refuse(err, LW_EBUSY, "another server listens on %s", path);
    unlink(path);
    return LW_OK;
}

static int bind_and_listen(struct lw__listener *listener, const char *text,
                           const union address *address, socklen_t size, lw_error *err) {
    listener->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->fd >= 0) {
        setsockopt(listener->fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
        if (bind(listener->fd, &address->any, size) == 0) {
            if (address->any.sa_family == AF_UNIX)
                snprintf(listener->path, sizeof listener->path, "%s", address->un.sun_path);
            if (listener->path[0])
                chmod(listener->path, 0600);
            if (listen(listener->fd, BACKLOG) == 0)
                return LW_OK;
        }
    }
    int code = errno;
    lw__refuse(err, code == EADDRINUSE ? LW_EBUSY : LW_ESYSTEM, "cannot listen on %s: %s%s", text,
               strerror(code),
               code == EADDRINUSE ? ", perhaps by another server; choose another with --listen"
                                  : "");
    if (err)
        err->native = code;
    lw__listener_close(listener);
    return code == EADDRINUSE ? LW_EBUSY : LW_ESYSTEM;
}

int lw__listener_open(struct lw__listener *listener, struct lw__loop *loop, const char *text,
                      lw_error *err) {
    union address address = {0};
    socklen_t size = 0;
    *listener = (struct lw__listener){.loop = loop, .fd = -1};
    int rc = read_address(text, &address, &size, err);
    if (rc == LW_OK && address.any.sa_family == AF_UNIX)
        rc = clear_path(&address, size, err);
    if (rc == LW_OK)
        rc = bind_and_listen(listener, text, &address, size, err);
    if (rc == LW_OK)
        write_text(listener);
    return rc;
}

int lw__listener_adopt(struct lw__listener *listener, struct lw__loop *loop, int fd,
                       lw_error *err) {
    union address address = {0};
    socklen_t size = sizeof address, int_size = sizeof(int);
    int type = 0, listens = 0;
    *listener = (struct lw__listener){.loop = loop, .fd = fd, .is_inherited = true};
    getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &int_size);
    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &int_size);
    if (type != SOCK_STREAM || !listens || getsockname(fd, &address.any, &size) < 0)
        return lw__refuse(
            err, LW_EINVAL,
            "descriptor %d of LISTEN_FDS is no listening stream socket: the unit needs "
            "ListenStream=, and no Accept=yes",
            fd);
    write_text(listener);
    if (!is_local(&address))
        return refuse_foreign(listener->text, err);
    evutil_make_socket_nonblocking(fd);
    evutil_make_socket_closeonexec(fd);
    return LW_OK;
}

void lw__listener_close(struct lw__listener *listener) {
    if (listener->fd < 0)
        return;
    lw__listener_pause(listener);
    if (listener->accepted)
        event_del(&listener->resting);
    close(listener->fd);
    listener->fd = -1;
    if (listener->path[0])
        unlink(listener->path);
}
