/* The HTTP API: what its files share.
 *
 *     server.c    open, run, stop                 submit.c    routes that accept tasks
 *     peer.c      a client on a connection        envelope.c  tasks as JSON, read
 *     exchange.c  a request and its answer        look.c      routes that show
 *     reply.c     answers                         show.c      tasks as JSON, written
 *     service.c   which function serves a route   ends.c      who waits for the end of a task
 *     guard.c     whom to refuse at the door      steer.c     routes of an operator
 *     health.c    health, readiness, figures      work.c      routes of a worker
 *     stop.c      signals, drain                  claims.c    who waits for a task
 *     cron.c      when expressions are due        flows.c     routes that show resources
 *
 * A request's way: the peer reads its head, the guard and the table of routes (server/routes.h)
 * decide on it, the body is read, and the route's function is called, on the loop. It must not
 * wait. It ends with one of
 *
 *     lw__exchange_reply    the answer is there
 *     lw__exchange_offload  a thread of the pool makes the answer, waiting as it likes
 *     lw__exchange_await    the engine will call back (lw_submit_async and its kin)
 *     parking               it waits for a task or its end: ends.c, claims.c
 *
 * When the client goes away meanwhile, x->peer is NULL and the answer is thrown away.
 *
 * Threads: all of it on the loop's, but for functions given to lw__exchange_offload, which see only
 * what belongs to the exchange: its parameters, body, state and reply. */
#ifndef LW_SERVER_API_API_H
#define LW_SERVER_API_API_H

#include "server/http.h"
#include "server/json.h"
#include "server/net/conn.h"
#include "server/net/listener.h"
#include "server/routes.h"
#include "server/serve_config.h"

#include <legwork/legwork.h>
#include <stddef.h>

#define LW__PIPELINE_MAX 64       /* requests of one connection that are under way */
#define LW__TURNED_AWAY_MAX 256   /* connections beyond the limit, that are told so */
#define LW__SPARE_MS 1000         /* for a request on the spare descriptor */
#define LW__SPARE_IDLE_MS 50      /* until its first byte */
#define LW__SPARE_LOG_MS 60000    /* between two records that descriptors are used up */
#define LW__ANSWER_MAX (64 << 20) /* bytes of an answer */
#define LW__ANSWER_HIGH 65536     /* bytes not taken: no further request is begun */
#define LW__TRACEPARENT_SIZE 55   /* of version 00 */
#define LW__SHOWN_DEPTH 16        /* of JSON inside of our own JSON; what is deeper is base64 */

struct lw__server;
struct lw__peer;
struct lw__exchange;

/* ---- services ------------------------------------------------------------------------------- */

enum lw__service_flags {
    LW__HAS_BODY = 1, /* others are refused one */
    LW__OVERLAPS = 2, /* the next request of a connection may begin before this is answered */
};

struct lw__service {
    void (*serve)(struct lw__exchange *x);
    unsigned flags;
};

extern const struct lw__service lw__services[LW__ROUTES];

/* ---- an exchange ---------------------------------------------------------------------------- */

struct lw__reply {
    int code;
    const char *type; /* Content-Type; NULL: application/json */
    lw_id location;   /* of a task that was accepted; 0: none */
    int retry_after_s;
    unsigned allowed; /* methods, of a 405 */
    struct lw__buffer body;
};

/* A block of memory that lives as long as its exchange, given away bit by bit. */
struct lw__keepsake {
    struct lw__keepsake *next;
    size_t size, used;
    _Alignas(max_align_t) char bytes[];
};

#define LW__KEEPSAKE_MIN 512 /* bytes of the first block; the next ones are larger */
#define LW__KEEPSAKE_MAX 65536

struct lw__exchange {
    struct lw__post post; /* first */
    struct lw__server *server;
    struct lw__peer *peer; /* NULL: the client is gone. The loop's alone */
    struct lw__exchange *next;
    const struct lw__route *route; /* NULL: there is none */
    struct lw__http_terms terms;
    bool is_begun, is_ready;
    uint64_t connection;  /* the number of the one that it came on */
    uint64_t heard_after; /* lw__claims.handed_total when bytes came on that for the last time */

    const char *part;   /* {queue}, {id} or {flow}; NULL: the path has none */
    const char *second; /* {id} behind a {flow} */
    struct lw__route_query query;
    char traceparent[LW__TRACEPARENT_SIZE + 1]; /* "": none */
    struct lw__buffer body;
    struct lw__keepsake *keepsakes;

    struct lw__reply reply;
    struct lw__json_writer json;

    void (*work)(struct lw__exchange *x);    /* on a thread of the pool */
    void (*then)(struct lw__exchange *x);    /* on the loop, when work or the engine is through */
    void (*abandon)(struct lw__exchange *x); /* parked, and the client has gone: unpark and free */
    void (*lost)(struct lw__server *server, void *state); /* the answer never reached the client */
    void *state;                                          /* the route's; a keepsake */
    struct lw__given *given; /* tasks in its answer that the client may not have: handed.c */
    size_t given_count;
    uint64_t handed_number; /* of that answer: lw__claims.handed_total with it */
    struct lw__exchange *untaken_next, **untaken_link;
    int status;
    lw_id id;
    lw_error err;

    struct lw__exchange *waiter; /* a claim whose answer has the task that this one submits */

    struct event timer; /* while it is parked */
    bool has_timer;
    struct lw__exchange *wait_next, **wait_link;
    lw_state ended;     /* 0: not seen */
    int64_t wait_until; /* on the loop's clock */
};

/* Makes an exchange out of a head that was read; NULL: no memory. If it cannot be served its reply
 * is there already (is_ready). */
struct lw__exchange *lw__exchange_open(struct lw__server *server,
                                       const struct lw__http_request *request);
struct lw__exchange *lw__exchange_open_refused(struct lw__server *server,
                                               const struct lw__http_refusal *refusal);
void lw__exchange_free(struct lw__exchange *x);

/* Memory that goes with the exchange; zeros. NULL: none. Threads: whose turn it is. */
void *lw__exchange_keep(struct lw__exchange *x, size_t size);

/* The value of a parameter; NULL: was not given. */
const char *lw__exchange_query(const struct lw__exchange *x, const char *name);

/* Values of parameters, checked; the fallback if there is none. False: err says what is wrong. */
bool lw__exchange_duration(const struct lw__exchange *x, const char *name, int64_t fallback,
                           int64_t *ms, lw_error *err);
bool lw__exchange_lease(const struct lw__exchange *x, int64_t *ms, lw_error *err);
bool lw__exchange_number(const struct lw__exchange *x, const char *name, int64_t fallback,
                         int64_t min, int64_t max, int64_t *number, lw_error *err);
bool lw__exchange_id(const struct lw__exchange *x, lw_id *id, lw_error *err); /* of the path */
bool lw__number_read(const char *text, int64_t min, int64_t max, int64_t *number);

/* Answers. These fill the reply in, on any thread; lw__exchange_reply sends it. */
struct lw__json_writer *lw__reply_json(struct lw__exchange *x, int code);
void lw__reply_empty(struct lw__exchange *x, int code);
void lw__reply_text(struct lw__exchange *x, int code, const char *text);
LW_PRINTF(3, 4) void lw__reply_error(struct lw__exchange *x, int code, const char *format, ...);
/* What the engine said; err may be NULL. */
void lw__reply_status(struct lw__exchange *x, int status, const lw_error *err);
/* A change that the engine has made and cannot write yet (LW_EUNSURE): the sentence `done` says how
 * far it is, and the reason follows. */
void lw__reply_unwritten(struct lw__exchange *x, const char *done);
/* `done` of steering and of a worker's outcomes: unlike a submit they are not taken back. */
#define LW__DONE_UNWRITTEN                                          \
    "it is done, and will be written as soon as that is possible, " \
    "unless the server dies before"

/* The answer is complete. x is gone afterwards, or soon. No other request is begun, and no other
 * exchange freed, before the callback of the loop is over: lists can be walked meanwhile. */
void lw__exchange_reply(struct lw__exchange *x);

/* work(x) on a thread of the pool, and then a reply, or then(x) on the loop if that is not NULL. */
void lw__exchange_offload(struct lw__exchange *x, void (*work)(struct lw__exchange *x),
                          void (*then)(struct lw__exchange *x));

/* The engine is about to be asked to call lw__exchange_called(x, ...), or else nobody will and
 * lw__exchange_unawait is called. Then then(x) is called on the loop. */
void lw__exchange_await(struct lw__exchange *x, void (*then)(struct lw__exchange *x));
void lw__exchange_unawait(struct lw__exchange *x);
void lw__exchange_called(void *x, int status, lw_id id); /* an lw_submitted; threads: any */
void lw__exchange_return(struct lw__exchange *x,
                         int status); /* the same, on the loop and at once */

/* Whether the client is there to get an answer, at this very moment. */
bool lw__exchange_is_alive(const struct lw__exchange *x);

/* A timer for one that is parked. */
void lw__exchange_set_timer(struct lw__exchange *x, int64_t ms,
                            void (*due)(struct lw__exchange *x));
void lw__exchange_clear_timer(struct lw__exchange *x);

/* ---- a peer --------------------------------------------------------------------------------- */

void lw__peer_accept(void *server, int fd, const struct lw__listener *listener); /* lw__accepted */
void lw__peer_close_idle(struct lw__server *server); /* those without a request */
void lw__peer_close_all(struct lw__server *server);
void lw__peer_ready(struct lw__peer *peer); /* the reply of one of its exchanges is there */
struct lw__conn *lw__peer_conn(struct lw__peer *peer);

/* ---- at the door ---------------------------------------------------------------------------- */

/* Returns LW_OK, or LW_EINVAL with a sentence: it is a page of somebody else that asks. */
int lw__guard(const struct lw__http_request *request, bool changes, lw_error *err);

/* ---- who waits ------------------------------------------------------------------------------ */

/* For the end of a task: ends.c. One thread reads the engine's events while somebody waits. */
#define LW__ENDS_BUCKETS 1024

struct lw__ends {
    struct lw__server *server;
    pthread_mutex_t mu;
    pthread_cond_t wanted;
    pthread_t thread;
    bool has_thread;                                /* the loop's */
    bool must_end, is_streaming, is_posted;         /* guarded by mu, as all below */
    size_t count;                                   /* of those that wait */
    struct lw__exchange *waiting[LW__ENDS_BUCKETS]; /* by id */
    struct lw__exchange *over;                      /* that the loop has to look at */
    struct lw__post post;
};

int lw__ends_open(struct lw__ends *ends, struct lw__server *server);
void lw__ends_close(struct lw__ends *ends);    /* after the engine has stopped */
void lw__ends_call_all(struct lw__ends *ends); /* they look again */
/* Parks x until task x->id has ended, or so many ms have passed, or it may have ended; then(x) is
 * called, and looks. x->ended says how it ended, if that was heard. */
void lw__ends_park(struct lw__exchange *x, int64_t ms, void (*then)(struct lw__exchange *x));

/* Whether task x->id has ended, written or not, or is gone. */
bool lw__ends_has_ended(const struct lw__exchange *x);

/* For something to claim: claims.c. */
#define LW__CLAIMS_BUCKETS 256
#define LW__WAITERS_BUCKETS 4096 /* as many may wait as there are connections, each in its queue */

struct lw__waiters {
    struct lw__exchange *first, **last;
};

/* A task in an answer. The last three are of handed.c. */
struct lw__given {
    lw_id id;
    uint64_t token;
    struct lw__exchange *x; /* whose answer it is */
    struct lw__given *next, **link;
};

#define LW__HANDED_BUCKETS 4096

struct lw__claims {
    struct lw__given given[LW_CLAIM_MAX]; /* of the claim that is being made */
    lw_claim_watch *watch;                /* NULL: not open */
    struct event readable;
    struct lw__waiters queues[LW__WAITERS_BUCKETS]; /* by a hash of the name */
    /* handed.c */
    uint64_t handed_total;                            /* answers with tasks, so far */
    struct lw__given *handed[LW__HANDED_BUCKETS];     /* by id */
    struct lw__exchange *untaken[LW__CLAIMS_BUCKETS]; /* by worker */
};

/* Submits the task of x as lw_submit_async does, and leases it to the first worker that waits in
 * its queue. x->waiter is the claim of that worker then (NULL: the task was not leased), and is to
 * be returned by lw__exchange_return when x is, with the status of x. */
int lw__claims_submit(struct lw__exchange *x, const lw_task *task);

int lw__claims_open(struct lw__server *server, lw_error *err);
void lw__claims_close(struct lw__server *server);
void lw__claims_refuse_all(struct lw__server *server); /* it stops */

/* Answers with tasks that their workers may not have read: handed.c. The answer of x has these;
 * `given` is a keepsake of x. */
void lw__handed_enter(struct lw__exchange *x, struct lw__given *given, size_t count);
/* The tasks of x are known to have arrived, or are taken back, or x is about to be freed. */
void lw__handed_leave(struct lw__exchange *x);
/* A request has named this token: the answer that it was in has arrived, and is never lost. */
void lw__handed_show(struct lw__server *server, lw_id id, uint64_t token);
/* The worker of this claim moves, if the claim came after the last tasks that it got. */
void lw__handed_hear(const struct lw__exchange *x);
/* Whether the worker of this claim has shown no sign of life since it got tasks. */
bool lw__handed_is_behind(const struct lw__exchange *x);

/* Which tasks are asked for by state, queue and kind. False: err says what is wrong. */
bool lw__filter_read(const struct lw__exchange *x, lw_filter *filter, lw_error *err);

/* ---- JSON ----------------------------------------------------------------------------------- */

enum lw__show { LW__SHOW_SHORT, LW__SHOW_ALL };
void lw__show_task(struct lw__json_writer *json, const lw_snapshot *task, enum lw__show how);
/* As a member "name" if it is JSON itself, or else as name_base64. */
void lw__show_bytes(struct lw__json_writer *json, const char *name, lw_bytes bytes);

void lw__show_base64(struct lw__json_writer *json, const char *name, lw_bytes bytes);

void lw__show_flow(struct lw__json_writer *json, const lw_flow_status *flow, enum lw__show how);

/* {"flows": [...], "after": ...}. Returns LW_OK, or what lw_flow_browse said. */
struct lw__flow_page {
    lw_flow_filter filter;
    struct lw__json_writer *json;
    size_t count;
    uint64_t last;
};
int lw__show_flows(struct lw__json_writer *json, lw_engine *engine, struct lw__flow_page *page);

/* Reads the body as a document; LW_EINVAL with a sentence. */
int lw__document_read(struct lw__exchange *x, struct lw__json *value, lw_error *err);

/* The parts of an array, up to `max` of them, as keepsakes of x; *count is how many it has, and 0
 * of what is no array. NULL: no memory. */
struct lw__json *lw__array_read(struct lw__exchange *x, struct lw__json array, size_t max,
                                size_t *count);

/* Reads a task; its strings are keepsakes of x. Returns LW_OK, LW_EINVAL, LW_ENOMEM. */
int lw__envelope_read(struct lw__exchange *x, struct lw__json value, lw_task *task, lw_error *err);

/* The members of an object, found in one walk. */
#define LW__MEMBERS_MAX 12

struct lw__members {
    const char *const *names;               /* that are known; NULL ends them */
    struct lw__json parts[LW__MEMBERS_MAX]; /* without text: was not there */
};

/* Returns LW_OK, or LW_EINVAL with a sentence: no object, or a member that is not known. */
int lw__members_read(struct lw__json value, const char *const *names, struct lw__members *members,
                     lw_error *err);
bool lw__member_find(const struct lw__members *members, const char *name, struct lw__json *part);
/* A string; NULL: there is none. Returns LW_OK, LW_EINVAL, LW_ENOMEM. */
int lw__member_text(struct lw__exchange *x, const struct lw__members *members, const char *name,
                    const char **text, lw_error *err);
/* Bytes that are given as NAME (JSON as it is) or NAME_base64. */
int lw__member_bytes(struct lw__exchange *x, const struct lw__members *members, const char *name,
                     lw_bytes *bytes, lw_error *err);

/* The index of a word; LW_EINVAL with the nearest one. NULL ends the words. */
int lw__word_read(const char *what, const char *text, const char *const *words, int *index,
                  lw_error *err);

/* ---- the server ----------------------------------------------------------------------------- */

enum lw__server_phase { LW__SERVING, LW__DRAINING, LW__HURRYING };

struct lw__server {
    struct lw__loop loop;
    const struct lw__serve_config *config;
    lw_engine *engine;
    bool is_volatile; /* the store has no disk to wait for; set before lw__server_run */
    lw_pool *pool;
    const lw_log *log;
    int64_t give_up_ms; /* how long what runs has to give up after stop_timeout; likewise */

    struct lw__listener listeners[LW__LISTENERS_MAX];
    size_t listener_count;

    struct lw__conn_limits conn_limits;
    struct lw__http_limits http_limits;
    struct lw__peer *peers;
    uint64_t turned_away; /* of these: too many, and told so */
    uint64_t under_way;   /* exchanges that a thread or the engine will come back with */
    uint64_t parked;
    uint64_t body_bytes;
    struct lw__http_request request; /* the one that is being read */

    struct lw__ends ends;
    struct lw__claims claims;

    struct event signals[4];
    size_t signal_count;
    enum lw__server_phase phase;
    pthread_t stopper; /* runs lw_stop */
    bool has_stopper, has_stopped;
    struct lw__post stopped; /* the stopper is through */
    int stop_status;         /* what lw_stop returned */
    struct event hurrying;
    struct event last_call; /* for answers that are on their way, when all is stopped */
    int last_calls;
    bool is_leaving;

    void (*on_reload)(void *user);
    void *user;

    uint64_t accepted_total;
    uint64_t spared_total;               /* of these: on the spare descriptor */
    int64_t spare_logged_at;             /* on the loop's clock; 0: never */
    uint64_t answers[LW__ROUTES + 1][6]; /* by route and hundreds; the last for what has none */
};

/* Opens the engine's door. `config`, `engine` and `log` must outlive it. Returns LW_OK, or a
 * status with a sentence. */
int lw__server_open(struct lw__server *server, const struct lw__serve_config *config,
                    lw_engine *engine, const lw_log *log, lw_error *err);

/* Serves until a stop is through: SIGTERM, SIGINT or lw__server_drain. Returns LW_OK;
 * LW_ETIMEDOUT: something still runs, or did not run; LW_PENDING: a thread is still inside of the
 * engine, and nothing can be closed: the process should end. */
int lw__server_run(struct lw__server *server);
void lw__server_close(struct lw__server *server);

/* Stops: what runs may end, within the drain timeout; the second time it is asked to give up. */
void lw__server_drain(struct lw__server *server);

/* stop.c, for server.c */
void lw__stop_listen(struct lw__server *server); /* for signals */
int lw__stop_finish(struct lw__server *server);  /* after the loop has ended */

/* The configuration has changed: limits and deadlines hold from now on. */
void lw__server_apply(struct lw__server *server);

#endif
