/* Which route a request means. */
#include "server/routes.h"

#include "server/refuse.h"

#include <assert.h>
#include <stdio.h>

const struct lw__route lw__routes[LW__ROUTES] = {
#define ROUTE_ROW(constant, verb, where, called, parameters, says) \
    {.id = LW__ROUTE_##constant,                                   \
     .method = LW__HTTP_##verb,                                    \
     .path = (where),                                              \
     .name = (called),                                             \
     .query = (parameters),                                        \
     .summary = (says)},
    LW__ROUTE_MAP(ROUTE_ROW)
#undef ROUTE_ROW
};

/* ---- paths ---------------------------------------------------------------------------------- */

#define PARTS_MAX 2

/* Whether a path has the shape of a route's; `parts` is what stands for its {part}s. */
static bool fits(const char *pattern, struct lw__slice path, struct lw__slice parts[PARTS_MAX]) {
    const char *at = path.data, *end = lw__slice_end(path);
    size_t count = 0;
    while (*pattern) {
        if (*pattern == '{') {
            const char *begin = at;
            while (at < end && *at != '/')
                at++;
            if (at == begin)
                return false;
            assert(count < PARTS_MAX);
            parts[count++] = lw__slice_between(begin, at);
            pattern = strchr(pattern, '}') + 1;
        } else if (at == end || *at++ != *pattern++) {
            return false;
        }
    }
    return at == end;
}

static bool answers(const struct lw__route *route, enum lw__http_method method) {
    return route->method == method || (route->method == LW__HTTP_GET && method == LW__HTTP_HEAD);
}

/* `name` begins behind a brace; it is only needed to say what is wrong. */
static int decode_part(struct lw__slice part, const char *name, char *memory, size_t room,
                       lw_error *err) {
    char what[32];
    int rc = lw__percent_decode(part, false, memory, room, "", NULL);
    if (rc == LW_OK)
        return LW_OK;
    snprintf(what, sizeof what, "%.*s", (int)strcspn(name, "}"), name);
    return lw__percent_decode(part, false, memory, room, what, err);
}

/* One after another, each ended by a zero: together they are shorter than the path. */
static int decode_parts(const struct lw__slice parts[PARTS_MAX], char *memory, size_t room,
                        struct lw__route_match *match, lw_error *err) {
    char **const into[PARTS_MAX] = {&match->part, &match->second};
    const char *name = strchr(match->route->path, '{');
    int rc = LW_OK;
    for (size_t i = 0; name && rc == LW_OK; i++, name = strchr(name + 1, '{')) {
        *into[i] = memory;
        rc = decode_part(parts[i], name + 1, memory, room, err);
        size_t size = rc == LW_OK ? strlen(memory) + 1 : 0;
        memory += size;
        room -= size;
    }
    return rc;
}

int lw__route_find(enum lw__http_method method, struct lw__slice path, char *memory, size_t room,
                   struct lw__route_match *match, lw_error *err) {
    struct lw__slice parts[PARTS_MAX];
    *match = (struct lw__route_match){.route = NULL};
    for (size_t i = 0; i < LW__ROUTES; i++) {
        if (!fits(lw__routes[i].path, path, parts))
            continue;
        if (answers(&lw__routes[i], method)) {
            match->route = &lw__routes[i];
            return decode_parts(parts, memory, room, match, err);
        }
        match->allowed |= 1u << lw__routes[i].method;
    }
    if (match->allowed == 0)
        return lw__refuse(err, LW_ENOTFOUND, "there is nothing at %s", lw__slice_show(path).text);
    if (match->allowed & 1u << LW__HTTP_GET)
        match->allowed |= 1u << LW__HTTP_HEAD;
    return lw__refuse(err, LW_ENOTFOUND, "%s does not take %s, but %s", lw__slice_show(path).text,
                      lw__http_method_name(method), lw__route_allow_of(match->allowed).text);
}

struct lw__route_allow lw__route_allow_of(unsigned allowed) {
    struct lw__route_allow allow = {""};
    size_t at = 0;
    for (int i = 0; i < LW__HTTP_METHODS; i++)
        if (allowed & 1u << i)
            at +=
                (size_t)snprintf(allow.text + at, sizeof allow.text - at, "%s%s",
                                 at > 0 ? ", " : "", lw__http_method_name((enum lw__http_method)i));
    assert(at < sizeof allow.text);
    return allow;
}

/* ---- queries -------------------------------------------------------------------------------- */

int lw__route_read_query(const struct lw__route *route, struct lw__slice query, char *memory,
                         size_t room, struct lw__route_query *result, lw_error *err) {
    size_t size = strlen(route->query);
    assert(size < sizeof result->names);
    memcpy(result->names, route->query, size + 1);
    result->count = 0;
    for (char *at = result->names; *at;) {
        assert(result->count < LW__ROUTE_QUERY_MAX);
        char *stop = at + strcspn(at, " ");
        result->fields[result->count++].name = at;
        at = stop + (*stop == ' ');
        *stop = 0;
    }
    return lw__query_read(query, result->fields, result->count, memory, room, err);
}

const char *lw__route_parameter(const struct lw__route_query *query, const char *name) {
    for (size_t i = 0; i < query->count; i++)
        if (strcmp(query->fields[i].name, name) == 0)
            return query->fields[i].value;
    assert(!"a parameter of the route");
    return NULL;
}
