/* Answers with tasks that their workers may not have read.
 *
 * One table holds every task of such an answer, by id, until the exchange of the answer is freed. A
 * request with the token of one of them, on whichever connection, shows that the whole answer has
 * arrived: the tasks stay with their worker even if the connection of the claim breaks later.
 *
 * Another table holds the answers by worker: its name, or without one its connection. A worker in
 * there may be frozen, and gets no more tasks. It leaves the table when the answer is shown to have
 * arrived, or by a claim of the same name on any connection that was sent later: then the worker
 * moves, though it is not known to have the answer. */
#include "server/api/api.h"

/* ---- tasks --------------------------------------------------------------------------------- */

static struct lw__given **tasks_like(struct lw__server *server, lw_id id) {
    return &server->claims.handed[id % LW__HANDED_BUCKETS];
}

static void enter_task(struct lw__exchange *x, struct lw__given *given) {
    struct lw__given **first = tasks_like(x->server, given->id);
    given->x = x;
    given->next = *first;
    given->link = first;
    if (given->next)
        given->next->link = &given->next;
    *first = given;
}

static void leave_task(struct lw__given *given) {
    *given->link = given->next;
    if (given->next)
        given->next->link = given->link;
}

/* ---- workers ------------------------------------------------------------------------------- */

static struct lw__exchange **workers_like(const struct lw__exchange *x) {
    const char *name = lw__exchange_query(x, "worker");
    uint64_t hash = name ? 2166136261u : x->connection;
    for (; name && *name; name++)
        hash = (uint32_t)(hash ^ (unsigned char)*name) * 16777619u;
    return &x->server->claims.untaken[hash % LW__CLAIMS_BUCKETS];
}

static bool is_of_same_worker(const struct lw__exchange *a, const struct lw__exchange *b) {
    const char *a_name = lw__exchange_query(a, "worker"), *b_name = lw__exchange_query(b, "worker");
    if (!a_name || !b_name)
        return !a_name && !b_name && a->connection == b->connection;
    return strcmp(a_name, b_name) == 0;
}

static void enter_worker(struct lw__exchange *x) {
    struct lw__exchange **first = workers_like(x);
    x->untaken_next = *first;
    x->untaken_link = first;
    if (x->untaken_next)
        x->untaken_next->untaken_link = &x->untaken_next;
    *first = x;
}

static void leave_worker(struct lw__exchange *x) {
    if (!x->untaken_link)
        return;
    *x->untaken_link = x->untaken_next;
    if (x->untaken_next)
        x->untaken_next->untaken_link = x->untaken_link;
    x->untaken_link = NULL;
}

void lw__handed_hear(const struct lw__exchange *x) {
    for (struct lw__exchange *one = *workers_like(x), *next; one; one = next) {
        next = one->untaken_next;
        if (one->handed_number <= x->heard_after && is_of_same_worker(one, x))
            leave_worker(one);
    }
}

bool lw__handed_is_behind(const struct lw__exchange *x) {
    const struct lw__exchange *one = *workers_like(x);
    while (one && !is_of_same_worker(one, x))
        one = one->untaken_next;
    return one != NULL;
}

/* ---- both ---------------------------------------------------------------------------------- */

void lw__handed_enter(struct lw__exchange *x, struct lw__given *given, size_t count) {
    x->given = given;
    x->given_count = count;
    x->handed_number = ++x->server->claims.handed_total;
    for (size_t i = 0; i < count; i++)
        enter_task(x, &given[i]);
    enter_worker(x);
}

void lw__handed_leave(struct lw__exchange *x) {
    for (size_t i = 0; i < x->given_count; i++)
        leave_task(&x->given[i]);
    x->given_count = 0;
    leave_worker(x);
}

void lw__handed_show(struct lw__server *server, lw_id id, uint64_t token) {
    struct lw__given *given = *tasks_like(server, id);
    while (given && (given->id != id || given->token != token))
        given = given->next;
    if (!given)
        return;
    given->x->lost = NULL;
    lw__handed_leave(given->x);
}
