/* A connection of the load: bytes out, bytes in, and whose answers they are. */
#include "cli/load.h"

#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 65536

static int refuse_broken(const struct lw__load_conn *conn, const char *why, lw_error *err) {
    return lw__refuse(err, LW_ESYSTEM,
                      "the server at %s broke off (%s): is it still there? Its log says more",
                      conn->load->options.url, why);
}

/* ---- open and close ------------------------------------------------------------------------ */

static int listen_for(struct lw__load_conn *conn, int how, uint32_t events) {
    struct epoll_event event = {.events = events, .data = {.ptr = conn}};
    return epoll_ctl(conn->load->epoll_fd, how, conn->fd, &event);
}

static int open_lanes(struct lw__load_conn *conn) {
    const struct lw__load_options *options = &conn->load->options;
    uint32_t count = options->in_flight;
    conn->lanes = lw__server_alloc(count * sizeof *conn->lanes);
    conn->asked = lw__server_alloc(count * sizeof *conn->asked);
    if (!conn->lanes || !conn->asked)
        return LW_ENOMEM;
    for (uint32_t i = 0; i < count; i++) {
        struct lw__load_lane *lane = &conn->lanes[i];
        lane->conn = conn;
        lane->given = lw__server_alloc(options->batch * sizeof *lane->given);
        if (!lane->given)
            return LW_ENOMEM;
    }
    return LW_OK;
}

int lw__load_conn_open(struct lw__load_conn *conn, lw_error *err) {
    const struct lw__load_options *options = &conn->load->options;
    lw__buffer_init(&conn->in, &lw__server_memory, LW__LOAD_ANSWER_MAX + READ_SIZE);
    lw__buffer_init(&conn->out, &lw__server_memory, LW__LOAD_REQUEST_MAX);
    lw__buffer_init(&conn->body, &lw__server_memory, LW__LOAD_ANSWER_MAX);
    if (open_lanes(conn) < 0)
        return lw__refuse(err, LW_ENOMEM, "out of memory for %u connections", options->connections);
    int fd = options->connect(options->user, err);
    if (fd < 0)
        return fd;
    conn->fd = fd;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int)); /* in vain on a unix socket */
    if (fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || listen_for(conn, EPOLL_CTL_ADD, EPOLLIN) < 0)
        return lw__refuse(err, LW_ESYSTEM, "a connection cannot be waited for: %s",
                          strerror(errno));
    return LW_OK;
}

void lw__load_conn_close(struct lw__load_conn *conn) {
    if (conn->fd >= 0)
        close(conn->fd);
    for (uint32_t i = 0; conn->lanes && i < conn->load->options.in_flight; i++)
        lw__server_free(conn->lanes[i].given);
    lw__server_free(conn->lanes);
    lw__server_free(conn->asked);
    lw__buffer_clear(&conn->in);
    lw__buffer_clear(&conn->out);
    lw__buffer_clear(&conn->body);
}

/* ---- out ----------------------------------------------------------------------------------- */

int lw__load_conn_ask(struct lw__load_conn *conn, struct lw__load_lane *lane, lw_error *err) {
    uint32_t last = (conn->asked_first + conn->asked_count) % conn->load->options.in_flight;
    int rc = conn->load->options.protocol->ask(lane, &conn->out);
    if (rc < 0)
        return lw__refuse(err, rc, "a request is too large: ask for a smaller --size or --batch");
    conn->asked[last] = lane;
    conn->asked_count++;
    return LW_OK;
}

/* Listens for room to write, or no longer. */
static int await_room(struct lw__load_conn *conn, bool is_writing, lw_error *err) {
    if (conn->is_writing == is_writing)
        return LW_OK;
    conn->is_writing = is_writing;
    uint32_t events = EPOLLIN | (is_writing ? (uint32_t)EPOLLOUT : 0);
    return listen_for(conn, EPOLL_CTL_MOD, events) < 0 ? refuse_broken(conn, strerror(errno), err)
                                                       : LW_OK;
}

int lw__load_conn_flush(struct lw__load_conn *conn, lw_error *err) {
    while (conn->out_sent < conn->out.size) {
        ssize_t size = send(conn->fd, conn->out.data + conn->out_sent,
                            conn->out.size - conn->out_sent, MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0 && errno == EAGAIN)
            return await_room(conn, true, err);
        if (size < 0)
            return refuse_broken(conn, strerror(errno), err);
        conn->out_sent += (size_t)size;
    }
    lw__buffer_cut(&conn->out, 0);
    conn->out_sent = 0;
    return await_room(conn, false, err);
}

/* ---- in ------------------------------------------------------------------------------------ */

/* All answers that are there. */
static int read_answers(struct lw__load_conn *conn, lw_error *err) {
    const struct lw__load_options *options = &conn->load->options;
    int rc = LW_OK;
    while (rc == LW_OK && conn->asked_count > 0) {
        struct lw__load_lane *lane = conn->asked[conn->asked_first];
        size_t used = 0;
        rc = options->protocol->read(lane, conn->in.data + conn->in_used,
                                     conn->in.size - conn->in_used, &used, err);
        conn->in_used += used;
        if (rc != LW_OK)
            break;
        conn->asked_first = (conn->asked_first + 1) % options->in_flight;
        conn->asked_count--;
        rc = lw__load_answered(lane, err);
    }
    return rc == LW_PENDING ? LW_OK : rc;
}

static void drop_used(struct lw__load_conn *conn) {
    size_t left = conn->in.size - conn->in_used;
    if (conn->in_used > 0 && left > 0)
        memmove(conn->in.data, conn->in.data + conn->in_used, left);
    lw__buffer_cut(&conn->in, left);
    conn->in_used = 0;
}

/* One read; *is_all: there was no more. */
static int take_input(struct lw__load_conn *conn, bool *is_all, lw_error *err) {
    char *room = lw__buffer_take(&conn->in, READ_SIZE);
    if (!room)
        return lw__refuse(err, conn->in.status, "an answer of the server is too large");
    ssize_t size = recv(conn->fd, room, READ_SIZE, 0);
    lw__buffer_cut(&conn->in, conn->in.size - READ_SIZE + (size > 0 ? (size_t)size : 0));
    *is_all = size < READ_SIZE;
    if (size < 0 && errno != EAGAIN && errno != EINTR)
        return refuse_broken(conn, strerror(errno), err);
    if (size == 0)
        return refuse_broken(conn, "it closed the connection", err);
    return size < 0 ? LW_PENDING : LW_OK;
}

int lw__load_conn_serve(struct lw__load_conn *conn, lw_error *err) {
    bool is_all = false;
    int rc = LW_OK;
    while (rc == LW_OK && !is_all) {
        rc = take_input(conn, &is_all, err);
        if (rc == LW_OK)
            rc = read_answers(conn, err);
        drop_used(conn);
    }
    return rc < 0 ? rc : lw__load_conn_flush(conn, err);
}
