/* What tests share that send every route what nobody should: the routes as requests, and both ways
 * into the server. For one file a program: all of it is static. */
#ifndef LW_TESTS_SUPPORT_ABUSE_H
#define LW_TESTS_SUPPORT_ABUSE_H

#include "served.h"
#include "server/routes.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static struct served s;

/* What holds for one holds for the other. */
enum door { TCP, UNIX, DOORS };

static inline void start(const char *flag, const char *value) {
    served_start(&s, (const char *const[]){"--socket", "socket", flag, value, NULL});
}

static inline int enter(enum door door) {
    int fd = door == TCP ? served_connect(&s) : connect_unix("socket");
    CHECK(fd >= 0);
    return fd;
}

/* A path of the route: each {part} is 1. */
static inline void fill_path(const struct lw__route *route, char *path, size_t room) {
    size_t size = 0;
    for (const char *at = route->path; *at && size + 1 < room; at++) {
        path[size++] = *at == '{' ? '1' : *at;
        if (*at == '{')
            at = strchr(at, '}');
    }
    path[size] = '\0';
}

/* What a route needs besides, so that its body is looked at. */
static inline const char *query_of(const struct lw__route *route) {
    if (route->id == LW__ROUTE_SUBMIT)
        return "?kind=k";
    return strstr(route->query, "token") ? "?token=1" : "";
}

static inline void assert_lives(void) {
    struct answer a = served_ask(&s, "GET /healthz", NULL);
    assert_int_equal(a.code, 200);
    answer_free(&a);
}

#endif
