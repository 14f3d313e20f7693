/* Load on a server: many connections on one thread, what they ask, and how long the answers took.
 *
 *     load.c       lanes: who asks next, and what; figures; the end
 *     load_conn.c  sockets, bytes in and out
 *     load_http.c  the protocol: a Legwork server by HTTP
 *
 * A connection has lanes, as many as it may have requests under way. A lane lives the life of a
 * task, or of a batch of them, over and over: it submits, claims as many as it has submitted (which
 * may be those of another lane, but there are always enough), and settles what it got. So after the
 * last life nothing is left. Answers of a connection come in the order of its requests.
 *
 * With a rate, lives begin when they are due and not when a lane is free; how long they took is
 * counted from there, so that a server that stalls does not make the figures look better.
 *
 * What is spoken is a table of functions; another protocol needs another table and nothing
 * else. Threads: one at a time. */
#ifndef LW_CLI_LOAD_H
#define LW_CLI_LOAD_H

#include "cli/latency.h"
#include "server/buffer.h"
#include "server/http.h"

#include <legwork/status.h>

#define LW__LOAD_CONNECTIONS_MAX 20000
#define LW__LOAD_IN_FLIGHT_MAX 64 /* as many as the server begins */
#define LW__LOAD_BATCH_MAX 1000
#define LW__LOAD_ANSWER_MAX ((size_t)128 << 20) /* bytes */
#define LW__LOAD_REQUEST_MAX ((size_t)128 << 20)
#define LW__LOAD_TICK_MS 100
#define LW__LOAD_SILENCE_MS 30000 /* a server that answers nobody for so long is given up */

enum lw__load_step { LW__LOAD_SUBMIT, LW__LOAD_CLAIM, LW__LOAD_SETTLE, LW__LOAD_STEPS };

enum lw__load_mode {
    LW__LOAD_LIVES,   /* submit, claim, settle */
    LW__LOAD_SUBMITS, /* submit alone */
    LW__LOAD_DRAIN    /* claim and settle until nothing is left */
};

struct lw__load;

struct lw__load_given {
    uint64_t id, token;
};

struct lw__load_lane {
    struct lw__load_conn *conn;
    struct lw__load_lane *next; /* of those that rest */
    enum lw__load_step step;
    uint64_t begun_us, asked_us;
    uint32_t wanted;              /* tasks of the request: to submit, or to claim */
    uint32_t credit;              /* submitted, and not claimed yet */
    uint32_t count;               /* claimed, and to be settled */
    struct lw__load_given *given; /* those */
};

struct lw__load_conn {
    struct lw__load *load;
    int fd; /* -1: none */
    bool is_writing;
    struct lw__buffer in, out;
    size_t in_used, out_sent;
    struct lw__load_lane *lanes;
    struct lw__load_lane **asked; /* a ring: whose answers are awaited, in order */
    uint32_t asked_first, asked_count;

    /* the protocol's */
    struct lw__http_parser parser;
    bool is_in_body;
    int code;
    struct lw__buffer body;
};

/* What is spoken. */
struct lw__load_protocol {
    /* Writes what is always the same, once. Returns a status of a buffer. */
    int (*prepare)(struct lw__load *load);
    /* Appends the request of the lane's present step. Returns the buffer's status. */
    int (*ask)(struct lw__load_lane *lane, struct lw__buffer *out);
    /* Reads an answer, or as much of it as is there; *used bytes are done with. Returns LW_OK: it
     * was complete, and of a claim lane->given has what was got; LW_PENDING: more must come; or a
     * status with a sentence. */
    int (*read)(struct lw__load_lane *lane, const char *data, size_t size, size_t *used,
                lw_error *err);
};

struct lw__load_options {
    const struct lw__load_protocol *protocol;
    /* Makes a connected socket, or returns a status with a sentence. */
    int (*connect)(void *user, lw_error *err);
    void *user;
    const char *url;   /* for sentences */
    const char *host;  /* of HTTP */
    const char *queue; /* and the kind */
    uint32_t connections, in_flight, batch;
    size_t payload_size;
    bool waits; /* claims wait until there is something */
};

struct lw__load_plan {
    enum lw__load_mode mode;
    uint64_t warm_up_us; /* before anything is counted */
    uint64_t for_us;     /* 0: no limit */
    uint64_t tasks;      /* 0: no limit */
    double rate;         /* tasks a second; 0: as many as can be */
    int stop_fd;         /* a signalfd, not blocking: at the first signal no further life begins,
                          * at the second all is left as it is; -1: none */
    void (*tick)(void *user); /* every LW__LOAD_TICK_MS; may be NULL */
    void *user;
};

struct lw__load_figures {
    uint64_t tasks; /* that ended, or in LW__LOAD_SUBMITS were accepted */
    uint64_t begun_us, ended_us;
    struct lw__latency steps[LW__LOAD_STEPS];
    struct lw__latency lives; /* from submit to settled */
};

struct lw__load {
    struct lw__load_options options;
    struct lw__load_plan plan;
    struct evutil_monotonic_timer *clock;
    int epoll_fd, timer_fd;
    struct lw__load_conn *conns;
    struct lw__buffer payload;       /* JSON, so that the server shows it as it is */
    struct lw__buffer submit, claim; /* requests of a full batch, written once */

    struct lw__load_figures figures;
    struct lw__load_lane *resting, **resting_last;
    uint32_t resting_count, lane_count;
    uint64_t left;   /* tasks to begin, of plan.tasks */
    uint64_t due_us; /* with a rate: when the next life begins */
    uint64_t heard_us;
    bool is_warm, is_ending, was_stopped;
};

/* Connects all. Returns LW_OK; LW_EINVAL, LW_ENOMEM, LW_ESYSTEM with a sentence, and
 * lw__load_close is to be called all the same. */
int lw__load_open(struct lw__load *load, const struct lw__load_options *options, lw_error *err);
void lw__load_close(struct lw__load *load);

/* Runs to the end of the plan, and until all that was begun has ended. load->figures say how it
 * went, also after a failure. May be called again after LW_OK.
 * Returns LW_OK; LW_EFULL: the server refused; LW_ESYSTEM: it broke off; LW_ETIMEDOUT: it is
 * silent; LW_ENOTFOUND: what was submitted could not be claimed; LW_ESTOPPING: a second signal. */
int lw__load_run(struct lw__load *load, const struct lw__load_plan *plan, lw_error *err);

double lw__load_seconds(const struct lw__load_figures *figures);
uint64_t lw__load_now_us(const struct lw__load *load);

/* ---- between the files ---------------------------------------------------------------------- */

int lw__load_conn_open(struct lw__load_conn *conn, lw_error *err);
void lw__load_conn_close(struct lw__load_conn *conn);
/* Asks for the lane's step; it goes out with lw__load_conn_flush. */
int lw__load_conn_ask(struct lw__load_conn *conn, struct lw__load_lane *lane, lw_error *err);
int lw__load_conn_flush(struct lw__load_conn *conn, lw_error *err);
/* The system says that something can be read or written. */
int lw__load_conn_serve(struct lw__load_conn *conn, lw_error *err);
/* load.c: the answer of this lane is there. */
int lw__load_answered(struct lw__load_lane *lane, lw_error *err);

extern const struct lw__load_protocol lw__load_http;

#endif
