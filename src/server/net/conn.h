/* A connection: bytes in both directions, with limits and deadlines. It knows nothing of what the
 * bytes mean; a protocol stands on it by a table of callbacks.
 *
 * Input. While the protocol has not dropped bytes they stay, up to in_max; then nothing more is
 * read, so that a peer who sends faster than it is served is slowed down by TCP. An idle connection
 * has no buffer.
 *
 * Output. What is sent is kept until the peer takes it, and goes out when the present callback is
 * over. A peer that takes less than LW__CONN_STRIDE bytes in write_ms is closed. How much may be
 * waiting is for the protocol to say: it should produce nothing more while lw__conn_pending is not
 * 0.
 *
 * Deadlines. The protocol says by when it expects something (lw__conn_expect); it is told when that
 * has passed, once. One timer a connection serves both directions, and is not moved when a deadline
 * is put off: it looks when it fires.
 *
 * The end. on_end: the peer sends no more, but may still read (it has shut down its side, or it is
 * gone: nobody can tell until something is written). on_hangup: the same, while there is still
 * something to be read. on_closed is the last call, exactly once, whoever closed it; its code is 0
 * only if the peer has not ended before it had what was sent. Threads: the loop's. */
#ifndef LW_SERVER_NET_CONN_H
#define LW_SERVER_NET_CONN_H

#include "server/buffer.h"
#include "server/net/loop.h"

#define LW__CONN_STRIDE 16384    /* bytes that must move within a deadline */
#define LW__CONN_LINGER_MS 2000  /* for the peer to read the last answer, and close */
#define LW__CONN_NEVER INT64_MAX /* a deadline */

struct lw__conn;

struct lw__conn_ops {
    void (*on_data)(struct lw__conn *conn);             /* new bytes: lw__conn_input */
    void (*on_end)(struct lw__conn *conn);              /* there will be no more */
    void (*on_hangup)(struct lw__conn *conn);           /* likewise, behind what was not read */
    void (*on_sent)(struct lw__conn *conn);             /* the system has taken all output */
    void (*on_turn)(struct lw__conn *conn);             /* of lw__conn_want_turn */
    void (*on_deadline)(struct lw__conn *conn);         /* of lw__conn_expect */
    void (*on_closed)(struct lw__conn *conn, int code); /* errno; 0: as it should be */
};

struct lw__conn_limits {
    size_t in_max;
    size_t out_max;
    int64_t write_ms;
};

struct lw__conn {
    /* fixed after open */
    struct lw__loop *loop;
    const struct lw__conn_ops *ops;
    const struct lw__conn_limits *limits;
    void *user; /* the protocol's */
    int fd;     /* -1: closed */

    struct event reading; /* EV_READ; EV_CLOSED while the input is full */
    struct event writing, timer;
    bool is_reading, is_full, is_writing;
    bool has_ended;    /* read its last byte */
    bool has_hung_up;  /* on_hangup was told */
    bool is_finishing; /* to be closed when all is sent */
    bool is_lingering; /* all is sent; waits for the peer's end */
    bool is_unsettled;
    bool wants_turn; /* on_turn is to be called */
    struct lw__conn *next_unsettled;

    char *kept; /* input that was not dropped */
    size_t kept_capacity;
    const char *view; /* kept, or the loop's scratch */
    size_t view_size;

    struct lw__buffer out;
    size_t out_sent;  /* of its bytes */
    size_t out_moved; /* since the deadline was set */

    int64_t expected_at, written_by; /* deadlines */
    int64_t timer_at;                /* when the timer fires */
};

/* Takes over a connected socket, which is not blocking. NULL: there is no memory; the socket is
 * still the caller's. */
struct lw__conn *lw__conn_open(struct lw__loop *loop, int fd, const struct lw__conn_ops *ops,
                               const struct lw__conn_limits *limits, void *user);

/* Now; on_closed is called before it returns. Closing twice is fine. */
void lw__conn_close(struct lw__conn *conn, int code);

/* When all is sent: says so to the peer, reads on and throws away until the peer has closed, or for
 * LW__CONN_LINGER_MS. (Closing with something unread would take the answer away from the peer.) */
void lw__conn_finish(struct lw__conn *conn);

/* The bytes that are there. They stay where they are until the callback is over, or one drops. */
static inline struct lw__slice lw__conn_input(const struct lw__conn *conn) {
    return (struct lw__slice){conn->view, conn->view_size};
}
void lw__conn_drop(struct lw__conn *conn, size_t size);

/* Sends what is in the buffer, which is empty afterwards. Out of memory, or over out_max, closes
 * the connection. */
void lw__conn_send(struct lw__conn *conn, struct lw__buffer *buffer);

/* Bytes that the peer has not taken yet. */
static inline size_t lw__conn_pending(const struct lw__conn *conn) {
    return conn->out.size - conn->out_sent;
}

/* In so many ms on_deadline is called; -1: not. Replaces the one before. */
void lw__conn_expect(struct lw__conn *conn, int64_t ms);

/* Calls on_turn when the present callback of the loop is over: for work of this connection that
 * must not begin while somebody up the stack is busy with others. Twice before that is once. */
void lw__conn_want_turn(struct lw__conn *conn);

/* Whether the peer is there, as far as the system knows at this moment: no end, no reset. */
bool lw__conn_is_alive(const struct lw__conn *conn);

static inline bool lw__conn_is_closed(const struct lw__conn *conn) {
    return conn->fd < 0;
}

/* The loop's. */
void lw__conn_settle(struct lw__conn *conn);

#endif
