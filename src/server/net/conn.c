/* A connection on the loop. All system calls on its socket are here. */
#include "server/net/conn.h"

#include "server/memory.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#define READS_MAX 4 /* a turn: a peer that sends without a pause does not keep others waiting */

static void unsettle(struct lw__conn *conn) {
    if (conn->is_unsettled)
        return;
    conn->is_unsettled = true;
    conn->next_unsettled = conn->loop->unsettled;
    conn->loop->unsettled = conn;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

static int64_t next_deadline(const struct lw__conn *conn) {
    return conn->expected_at < conn->written_by ? conn->expected_at : conn->written_by;
}

/* The timer may fire too early, never too late. */
static void arm_timer(struct lw__conn *conn, int64_t now) {
    int64_t at = next_deadline(conn);
    if (at >= conn->timer_at || lw__conn_is_closed(conn))
        return;
    struct timeval in = lw__loop_interval(at > now ? at - now : 0);
    conn->timer_at = at;
    event_add(&conn->timer, &in);
}

void lw__conn_expect(struct lw__conn *conn, int64_t ms) {
    int64_t now = lw__loop_now_ms(conn->loop);
    conn->expected_at = ms < 0 ? LW__CONN_NEVER : now + ms;
    arm_timer(conn, now);
}

static void expire(struct lw__conn *conn, int64_t now) {
    if (conn->written_by <= now || (conn->is_lingering && conn->expected_at <= now)) {
        lw__conn_close(conn, conn->is_lingering ? 0 : ETIMEDOUT);
    } else if (conn->expected_at <= now) {
        conn->expected_at = LW__CONN_NEVER;
        conn->ops->on_deadline(conn);
    }
}

static void on_timer(evutil_socket_t fd, short what, void *arg) {
    struct lw__conn *conn = arg;
    struct lw__loop *loop = conn->loop;
    int64_t now = lw__loop_now_ms(loop);
    (void)fd, (void)what;
    conn->timer_at = LW__CONN_NEVER;
    expire(conn, now);
    arm_timer(conn, now);
    lw__loop_settle(loop);
}

/* ---- input --------------------------------------------------------------------------------- */

static void on_readable(evutil_socket_t fd, short what, void *arg);

/* Listens for input, or, while there is enough of it, for the peer's end alone. */
static void listen_for(struct lw__conn *conn, bool is_full) {
    if (conn->is_reading && conn->is_full == is_full)
        return;
    if (conn->is_reading)
        event_del(&conn->reading);
    short what = (short)((is_full ? EV_CLOSED : EV_READ) | EV_PERSIST);
    event_assign(&conn->reading, conn->loop->base, conn->fd, what, on_readable, conn);
    conn->is_reading = event_add(&conn->reading, NULL) == 0;
    conn->is_full = is_full;
}

static size_t room(const struct lw__conn *conn) {
    size_t max = conn->limits->in_max;
    size_t left = max > conn->view_size ? max - conn->view_size : 0;
    return left < LW__LOOP_SCRATCH ? left : LW__LOOP_SCRATCH;
}

/* An end that was told once is not waited for again: it would be told at once. */
static void listen_on(struct lw__conn *conn) {
    bool is_full = !conn->is_lingering && room(conn) == 0;
    if (!is_full || !conn->has_hung_up)
        listen_for(conn, is_full);
}

static void stop_reading(struct lw__conn *conn) {
    if (conn->is_reading)
        event_del(&conn->reading);
    conn->is_reading = false;
}

static void free_kept(struct lw__conn *conn) {
    conn->loop->bytes -= conn->kept_capacity;
    lw__server_free(conn->kept);
    conn->kept = NULL;
    conn->kept_capacity = 0;
}

/* Room for so many bytes in one piece. */
static bool reserve(struct lw__conn *conn, size_t size) {
    size_t capacity = conn->kept_capacity ? conn->kept_capacity : 1024;
    while (capacity < size)
        capacity *= 2;
    if (capacity == conn->kept_capacity)
        return true;
    char *kept = lw__server_memory.resize(NULL, conn->kept, conn->kept_capacity, capacity);
    if (!kept)
        return false;
    conn->loop->bytes += capacity - conn->kept_capacity;
    conn->kept = kept;
    conn->kept_capacity = capacity;
    return true;
}

/* What came is shown where it is, behind what was kept. */
static bool show(struct lw__conn *conn, const char *data, size_t size) {
    if (conn->view_size == 0) {
        conn->view = data;
        conn->view_size = size;
        return true;
    }
    if (!reserve(conn, conn->view_size + size))
        return false;
    memcpy(conn->kept + conn->view_size, data, size);
    conn->view = conn->kept;
    conn->view_size += size;
    return true;
}

/* What was not dropped moves to memory of the connection's own. */
static bool keep(struct lw__conn *conn) {
    if (conn->view_size == 0) {
        free_kept(conn);
        return true;
    }
    if (conn->view == conn->kept)
        return true;
    bool is_inside =
        conn->kept && conn->view >= conn->kept && conn->view < conn->kept + conn->kept_capacity;
    if (!is_inside && !reserve(conn, conn->view_size))
        return false;
    memmove(conn->kept, conn->view, conn->view_size);
    conn->view = conn->kept;
    return true;
}

void lw__conn_drop(struct lw__conn *conn, size_t size) {
    assert(size <= conn->view_size);
    conn->view += size;
    conn->view_size -= size;
    unsettle(conn);
}

/* A peer that was gone before it read what was sent has reset the connection; after its end that
 * shows here alone. */
static int error_of(const struct lw__conn *conn) {
    int code = 0;
    socklen_t size = sizeof code;
    return getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 ? errno : code;
}

static void end_input(struct lw__conn *conn) {
    int code = error_of(conn);
    conn->has_ended = true;
    stop_reading(conn);
    if (conn->is_lingering || code != 0)
        lw__conn_close(conn, code);
    else
        conn->ops->on_end(conn);
}

/* One read; false: there is nothing more to do now. */
static bool take_input(struct lw__conn *conn) {
    size_t wanted = conn->is_lingering ? LW__LOOP_SCRATCH : room(conn);
    if (wanted == 0)
        return false;
    ssize_t size = recv(conn->fd, conn->loop->scratch, wanted, 0);
    if (size < 0) {
        if (errno != EAGAIN && errno != EINTR)
            lw__conn_close(conn, errno);
        return false;
    }
    if (size == 0) {
        end_input(conn);
        return false;
    }
    if (conn->is_lingering)
        return true;
    if (!show(conn, conn->loop->scratch, (size_t)size)) {
        lw__conn_close(conn, ENOMEM);
        return false;
    }
    conn->ops->on_data(conn);
    if (!lw__conn_is_closed(conn) && !keep(conn))
        lw__conn_close(conn, ENOMEM);
    return (size_t)size == wanted;
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    struct lw__conn *conn = arg;
    struct lw__loop *loop = conn->loop;
    (void)fd;
    if (what & EV_CLOSED) {
        stop_reading(conn);
        conn->has_hung_up = true;
        conn->ops->on_hangup(conn);
    } else {
        for (int i = 0; i < READS_MAX && !lw__conn_is_closed(conn) && !conn->has_ended; i++)
            if (!take_input(conn))
                break;
    }
    if (!lw__conn_is_closed(conn))
        unsettle(conn);
    lw__loop_settle(loop);
}

bool lw__conn_is_alive(const struct lw__conn *conn) {
    char byte;
    if (lw__conn_is_closed(conn) || conn->has_ended)
        return false;
    ssize_t size = recv(conn->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR));
}

/* ---- output -------------------------------------------------------------------------------- */

static void on_writable(evutil_socket_t fd, short what, void *arg) {
    struct lw__conn *conn = arg;
    struct lw__loop *loop = conn->loop;
    (void)fd, (void)what;
    unsettle(conn);
    lw__loop_settle(loop);
}

static void clear_out(struct lw__conn *conn) {
    conn->loop->bytes -= conn->out.capacity;
    lw__buffer_clear(&conn->out);
    conn->out_sent = 0;
}

/* What was sent makes room, so that a peer that never takes all does not make it grow. */
static void drop_sent(struct lw__conn *conn) {
    size_t left = lw__conn_pending(conn);
    if (conn->out_sent < left)
        return;
    memmove(conn->out.data, conn->out.data + conn->out_sent, left);
    lw__buffer_cut(&conn->out, left);
    conn->out_sent = 0;
}

void lw__conn_send(struct lw__conn *conn, struct lw__buffer *buffer) {
    if (lw__conn_is_closed(conn)) {
        lw__buffer_clear(buffer);
        return;
    }
    size_t capacity = conn->out.capacity;
    int rc = LW_OK;
    if (conn->out.size == 0 && buffer->allocator == conn->out.allocator) {
        lw__buffer_clear(&conn->out);
        conn->out = *buffer;
        conn->out.limit = conn->limits->out_max;
        lw__buffer_init(buffer, buffer->allocator, buffer->limit);
    } else {
        drop_sent(conn);
        rc = lw__buffer_put(&conn->out, lw__buffer_slice(buffer));
        lw__buffer_clear(buffer);
    }
    conn->loop->bytes += conn->out.capacity - capacity;
    if (rc < 0)
        lw__conn_close(conn, ENOBUFS);
    else
        unsettle(conn);
}

/* The deadline is for a stride, or for all if that is less. */
static void note_progress(struct lw__conn *conn, size_t size) {
    conn->out_moved += size;
    if (conn->written_by != LW__CONN_NEVER && conn->out_moved < LW__CONN_STRIDE)
        return;
    int64_t now = lw__loop_now_ms(conn->loop);
    conn->out_moved = 0;
    conn->written_by = now + conn->limits->write_ms;
    arm_timer(conn, now);
}

static void await_writable(struct lw__conn *conn) {
    note_progress(conn, 0);
    if (conn->is_writing)
        return;
    conn->is_writing = event_add(&conn->writing, NULL) == 0;
}

static void all_is_sent(struct lw__conn *conn) {
    clear_out(conn);
    conn->written_by = LW__CONN_NEVER;
    if (conn->is_writing)
        event_del(&conn->writing);
    conn->is_writing = false;
    conn->ops->on_sent(conn);
}

static void write_out(struct lw__conn *conn) {
    while (!lw__conn_is_closed(conn) && lw__conn_pending(conn) > 0) {
        ssize_t size =
            send(conn->fd, conn->out.data + conn->out_sent, lw__conn_pending(conn), MSG_NOSIGNAL);
        if (size < 0 && errno == EINTR)
            continue;
        if (size < 0) {
            if (errno == EAGAIN)
                await_writable(conn);
            else
                lw__conn_close(conn, errno);
            return;
        }
        conn->out_sent += (size_t)size;
        if (conn->written_by != LW__CONN_NEVER)
            note_progress(conn, (size_t)size);
    }
    if (!lw__conn_is_closed(conn))
        all_is_sent(conn);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* On a unix socket what was sent counts until the peer has read it, and one that has only shut down
 * its side still can. */
static bool can_still_read(const struct lw__conn *conn) {
    struct pollfd peer = {.fd = conn->fd};
    int domain = 0;
    socklen_t size = sizeof domain;
    return getsockopt(conn->fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX
           && poll(&peer, 1, 0) == 0;
}

/* Bytes that were sent, and that the peer's system has not acknowledged. */
static bool has_unacknowledged(const struct lw__conn *conn) {
    int size = 0;
    return ioctl(conn->fd, SIOCOUTQ, &size) == 0 && size > 0 && !can_still_read(conn);
}

/* A peer whose end is here, but not its acknowledgement of what was sent before we saw it, has gone
 * without it; that its system says so by a reset may take a moment longer. */
static void linger(struct lw__conn *conn) {
    if (conn->has_ended || shutdown(conn->fd, SHUT_WR) < 0) {
        lw__conn_close(conn, conn->has_ended && has_unacknowledged(conn) ? EPIPE : 0);
        return;
    }
    conn->is_lingering = true;
    conn->view_size = 0;
    lw__conn_expect(conn, LW__CONN_LINGER_MS);
}

void lw__conn_finish(struct lw__conn *conn) {
    conn->is_finishing = true;
    unsettle(conn);
}

void lw__conn_close(struct lw__conn *conn, int code) {
    if (lw__conn_is_closed(conn))
        return;
    stop_reading(conn);
    event_del(&conn->writing);
    event_del(&conn->timer);
    close(conn->fd);
    conn->fd = -1;
    conn->view_size = 0;
    conn->loop->conn_count--;
    unsettle(conn);
    conn->ops->on_closed(conn, code);
}

static void free_conn(struct lw__conn *conn) {
    clear_out(conn);
    free_kept(conn);
    lw__server_free(conn);
}

void lw__conn_want_turn(struct lw__conn *conn) {
    conn->wants_turn = true;
    unsettle(conn);
}

/* The connection is still marked as unsettled: output of its turn goes out in the same pass. */
static void take_turn(struct lw__conn *conn) {
    if (!conn->wants_turn)
        return;
    conn->wants_turn = false;
    if (!lw__conn_is_closed(conn))
        conn->ops->on_turn(conn);
}

void lw__conn_settle(struct lw__conn *conn) {
    take_turn(conn);
    conn->is_unsettled = false; /* what follows may unsettle it again */
    if (!lw__conn_is_closed(conn) && lw__conn_pending(conn) > 0)
        write_out(conn);
    if (!lw__conn_is_closed(conn) && conn->is_finishing && !conn->is_lingering
        && lw__conn_pending(conn) == 0)
        linger(conn);
    if (!lw__conn_is_closed(conn) && !keep(conn))
        lw__conn_close(conn, ENOMEM);
    if (conn->is_unsettled)
        return;
    if (lw__conn_is_closed(conn))
        free_conn(conn);
    else if (!conn->has_ended)
        listen_on(conn);
}

/* ---- open ---------------------------------------------------------------------------------- */

struct lw__conn *lw__conn_open(struct lw__loop *loop, int fd, const struct lw__conn_ops *ops,
                               const struct lw__conn_limits *limits, void *user) {
    struct lw__conn *conn = lw__server_alloc(sizeof *conn);
    if (!conn)
        return NULL;
    *conn = (struct lw__conn){.loop = loop,
                              .ops = ops,
                              .limits = limits,
                              .user = user,
                              .fd = fd,
                              .expected_at = LW__CONN_NEVER,
                              .written_by = LW__CONN_NEVER,
                              .timer_at = LW__CONN_NEVER};
    lw__buffer_init(&conn->out, &lw__server_memory, limits->out_max);
    event_assign(&conn->writing, loop->base, fd, EV_WRITE | EV_PERSIST, on_writable, conn);
    event_assign(&conn->timer, loop->base, -1, 0, on_timer, conn);
    listen_for(conn, false);
    if (!conn->is_reading) {
        lw__server_free(conn);
        return NULL;
    }
    loop->conn_count++;
    return conn;
}
