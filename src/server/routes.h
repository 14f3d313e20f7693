/* The HTTP API as one table of routes. The router, the metrics (a route's name is a label), and a
 * test that compares docs/openapi.json with it are driven by this table and by nothing else.
 *
 * The worker's outcomes (finish, fail, retry, snooze) carry the token of their attempt and end it;
 * an operator's "again, now" is called run, so that the two are never taken for each other. */
#ifndef LW_SERVER_ROUTES_H
#define LW_SERVER_ROUTES_H

#include "server/http.h"
#include "server/query.h"

#include <legwork/status.h>

/* constant, method, path, name, query parameters, what it does. A {part} of a path is one segment,
 * percent-decoded and not empty. */
#define LW__ROUTE_MAP(X)                                                                       \
    X(SUBMIT, POST, "/v1/queues/{queue}/tasks", "submit", "kind key delay priority",           \
      "Submits a task; the body is its payload, byte for byte")                                \
    X(SUBMIT_MANY, POST, "/v1/tasks", "submitMany", "",                                        \
      "Submits one task or an array of them, all or none")                                     \
    X(LIST, GET, "/v1/tasks", "list", "state queue kind key after limit",                      \
      "Lists tasks, by rising ids")                                                            \
    X(GET, GET, "/v1/tasks/{id}", "get", "wait",                                               \
      "Shows a task; with wait, when it is terminal or the time is over")                      \
    X(EXPLAIN, GET, "/v1/tasks/{id}/explain", "explain", "",                                   \
      "Says in sentences why a task is where it is")                                           \
    X(FORGET, DELETE, "/v1/tasks/{id}", "forget", "", "Removes a terminal task")               \
    X(CANCEL, POST, "/v1/tasks/{id}/cancel", "cancel", "",                                     \
      "Aborts a task, or asks the attempt that runs to give up")                               \
    X(RUN, POST, "/v1/tasks/{id}/run", "run", "",                                              \
      "Runs a failed or aborted task again, or a scheduled one now")                           \
    X(RUN_MANY, POST, "/v1/run", "runMany", "state queue kind dry_run",                        \
      "Does that for all tasks that match, or says how many they are")                         \
    X(CLAIM, POST, "/v1/queues/{queue}/claim", "claim", "n wait lease worker",                 \
      "Leases up to n tasks to a worker; with wait, when there is one or the time is over")    \
    X(FINISH, POST, "/v1/tasks/{id}/finish", "finish", "token",                                \
      "Ends an attempt: done, with a result and perhaps successors")                           \
    X(FAIL, POST, "/v1/tasks/{id}/fail", "fail", "token", "Ends an attempt: failed for good")  \
    X(RETRY, POST, "/v1/tasks/{id}/retry", "retry", "token after",                             \
      "Ends an attempt: try again, after the policy's back-off or a given time")               \
    X(SNOOZE, POST, "/v1/tasks/{id}/snooze", "snooze", "token after",                          \
      "Ends an attempt: later, and not counted as one")                                        \
    X(EXTEND, POST, "/v1/tasks/{id}/extend", "extend", "token lease",                          \
      "Extends the lease of an attempt")                                                       \
    X(PROGRESS, POST, "/v1/tasks/{id}/progress", "progress", "token done total",               \
      "Publishes how far an attempt is; the body is a text")                                   \
    X(CHECKPOINT, POST, "/v1/tasks/{id}/checkpoint", "checkpoint", "token",                    \
      "Saves where the next attempt would go on; the body is the position")                    \
    X(SETTLE, POST, "/v1/settle", "settle", "", "Ends many attempts, each answered by itself") \
    X(QUEUES, GET, "/v1/queues", "queues", "", "Lists the queues with their figures")          \
    X(PAUSE, POST, "/v1/queues/{queue}/pause", "pause", "", "Lets no task of a queue start")   \
    X(RESUME, POST, "/v1/queues/{queue}/resume", "resume", "", "Lets them start again")        \
    X(KINDS, GET, "/v1/kinds", "kinds", "", "Lists the kinds with their figures")              \
    X(FLOWS, GET, "/v1/flows", "flows", "flow state condition after limit",                    \
      "Lists the resources of flows, in the order of their start")                             \
    X(FLOW, GET, "/v1/flows/{flow}/{id}", "flow", "",                                          \
      "Shows a resource: its state, flags, steps and history")                                 \
    X(CRON_NEXT, GET, "/v1/cron/next", "cronNext", "expression zone from_ms n offset",         \
      "Says when a cron expression is due next, and what it means")                            \
    X(DRAIN, POST, "/v1/drain", "drain", "",                                                   \
      "Accepts no more tasks, runs what is due, and stops the server")                         \
    X(METRICS, GET, "/metrics", "metrics", "", "The figures, as OpenMetrics")                  \
    X(HEALTHZ, GET, "/healthz", "healthz", "", "Whether the server lives")                     \
    X(READYZ, GET, "/readyz", "readyz", "", "Whether it accepts tasks")

enum lw__route_id {
#define LW__ROUTE_ENUM(constant, method, path, name, query, summary) LW__ROUTE_##constant,
    LW__ROUTE_MAP(LW__ROUTE_ENUM)
#undef LW__ROUTE_ENUM
        LW__ROUTES /* how many there are */
};

struct lw__route {
    enum lw__route_id id;
    enum lw__http_method method; /* one with GET answers to HEAD, too */
    const char *path;
    const char *name;
    const char *query; /* names, with spaces between them */
    const char *summary;
};

extern const struct lw__route lw__routes[LW__ROUTES];

#define LW__ROUTE_QUERY_MAX 8 /* parameters of a route */

/* What a request asks for. */
struct lw__route_match {
    const struct lw__route *route; /* NULL: none */
    char *part;       /* what stands for {queue}, {id} or {flow}; NULL: the path has none */
    char *second;     /* of a path with two, the other one */
    unsigned allowed; /* without a route: the methods that this path has, a bit
                                    * 1 << lw__http_method each */
};

/* Finds the route of a request. The parts are written into the caller's memory, of at least
 * path.size + 1 bytes.
 * Returns LW_OK; LW_ENOTFOUND: no such path (404), or, if allowed is not 0, not with this method
 * (405); LW_EINVAL: a part that is not UTF-8 (400); each with a sentence. */
int lw__route_find(enum lw__http_method method, struct lw__slice path, char *memory, size_t room,
                   struct lw__route_match *match, lw_error *err);

/* The value of an Allow header: "GET, HEAD, DELETE". */
struct lw__route_allow {
    char text[64];
};
struct lw__route_allow lw__route_allow_of(unsigned allowed);

/* The parameters of a request. It points into itself: it is not to be copied. */
struct lw__route_query {
    struct lw__query_field fields[LW__ROUTE_QUERY_MAX];
    size_t count;
    char names[128];
};

/* Reads a route's query. The values are in the caller's memory, of at least query.size + 1 bytes.
 * Returns as lw__query_read: a parameter that the route does not have is refused. */
int lw__route_read_query(const struct lw__route *route, struct lw__slice query, char *memory,
                         size_t room, struct lw__route_query *result, lw_error *err);

/* The value of a parameter that the route has; NULL: it was not given. */
const char *lw__route_parameter(const struct lw__route_query *query, const char *name);

#endif
