/* The table of routes, the router, and docs/openapi.json, which must say the same. */
#include "test.h"

#include "server/json.h"
#include "server/routes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

static struct lw__route_match match;
static char memory[256];
static lw_error err;

static int find(enum lw__http_method method, const char *path) {
    size_t size = strlen(path);
    char *block = malloc(size); /* ends where it ends */
    memcpy(block, path, size);
    err = (lw_error){0};
    int status =
        lw__route_find(method, (struct lw__slice){block, size}, memory, size + 1, &match, &err);
    free(block);
    return status;
}

static void assert_route(enum lw__http_method method, const char *path, enum lw__route_id id,
                         const char *part) {
    assert_status(find(method, path), LW_OK);
    assert_string_equal(match.route->name, lw__routes[id].name);
    assert_int_equal(match.route->id, id);
    if (part)
        assert_string_equal(match.part, part);
    else
        assert_null(match.part);
}

/* ---- the router ----------------------------------------------------------------------------- */

TEST(paths_and_methods_find_their_route) {
    assert_route(LW__HTTP_POST, "/v1/queues/mail/tasks", LW__ROUTE_SUBMIT, "mail");
    assert_route(LW__HTTP_POST, "/v1/tasks", LW__ROUTE_SUBMIT_MANY, NULL);
    assert_route(LW__HTTP_GET, "/v1/tasks", LW__ROUTE_LIST, NULL);
    assert_route(LW__HTTP_GET, "/v1/tasks/12", LW__ROUTE_GET, "12");
    assert_route(LW__HTTP_HEAD, "/v1/tasks/12", LW__ROUTE_GET, "12");
    assert_route(LW__HTTP_DELETE, "/v1/tasks/12", LW__ROUTE_FORGET, "12");
    assert_route(LW__HTTP_POST, "/v1/tasks/12/finish", LW__ROUTE_FINISH, "12");
    assert_route(LW__HTTP_GET, "/metrics", LW__ROUTE_METRICS, NULL);
    assert_route(LW__HTTP_POST, "/v1/queues/a%2Fb%3A%C3%A4+/claim", LW__ROUTE_CLAIM,
                 "a/b:\xc3\xa4+");
}

TEST(a_path_may_have_two_parts) {
    assert_route(LW__HTTP_GET, "/v1/flows/site/a%2Fb", LW__ROUTE_FLOW, "site");
    assert_string_equal(match.second, "a/b");
    assert_route(LW__HTTP_GET, "/v1/flows", LW__ROUTE_FLOWS, NULL);
    assert_status(find(LW__HTTP_GET, "/v1/flows/site/%ff"), LW_EINVAL);
    assert_string_equal(err.message, "id is \"%ff\", which is not UTF-8");
    assert_status(find(LW__HTTP_GET, "/v1/flows/site"), LW_ENOTFOUND);
    assert_status(find(LW__HTTP_GET, "/v1/flows/site/a/b"), LW_ENOTFOUND);
}

TEST(every_route_is_found_by_its_own_path) {
    for (size_t i = 0; i < LW__ROUTES; i++) {
        assert_int_equal(lw__routes[i].id, i);
        assert_status(find(lw__routes[i].method, lw__routes[i].path), LW_OK);
        assert_ptr_equal(match.route, &lw__routes[i]); /* no other one is before it */
    }
}

TEST(paths_that_nobody_has_are_not_found) {
    static const char *const wrong[] = {"/",
                                        "/v1",
                                        "/v1/",
                                        "/v1/tasks/",
                                        "/v1//tasks",
                                        "//v1/tasks",
                                        "/v1/tasks/1/",
                                        "/v1/tasks//run",
                                        "/v1/tasks/1/runs",
                                        "/V1/tasks",
                                        "/v1/tasksx",
                                        "/v1/task",
                                        "*",
                                        "/v1/tasks/1/run/x",
                                        "/v1/queues//tasks",
                                        "v1/tasks",
                                        "/v1/%74asks",
                                        "/metrics/"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(find(LW__HTTP_POST, wrong[i]), LW_ENOTFOUND);
        assert_int_equal(match.allowed, 0);
        assert_null(match.route);
        assert_non_null(strstr(err.message, "there is nothing at "));
    }
}

TEST(a_method_that_a_path_does_not_have_is_told_those_that_it_has) {
    assert_status(find(LW__HTTP_POST, "/v1/tasks/12"), LW_ENOTFOUND);
    assert_string_equal(lw__route_allow_of(match.allowed).text, "GET, HEAD, DELETE");
    assert_string_equal(err.message, "/v1/tasks/12 does not take POST, but GET, HEAD, DELETE");
    assert_status(find(LW__HTTP_GET, "/v1/settle"), LW_ENOTFOUND);
    assert_string_equal(lw__route_allow_of(match.allowed).text, "POST");
    assert_string_equal(lw__route_allow_of((1u << LW__HTTP_METHODS) - 1).text,
                        "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

TEST(a_part_that_is_no_text_is_refused_by_its_name) {
    assert_status(find(LW__HTTP_GET, "/v1/tasks/%ff"), LW_EINVAL);
    assert_string_equal(err.message, "id is \"%ff\", which is not UTF-8");
    assert_status(find(LW__HTTP_POST, "/v1/queues/%00/tasks"), LW_EINVAL);
    assert_string_equal(err.message, "queue is \"%00\", with a zero byte");
}

TEST(a_route_reads_its_own_parameters_and_no_others) {
    struct lw__route_query query;
    const struct lw__route *route = &lw__routes[LW__ROUTE_SUBMIT];
    assert_status(lw__route_read_query(route, lw__slice_of("key=a%20b&kind=mail"), memory,
                                       sizeof memory, &query, &err),
                  LW_OK);
    assert_string_equal(lw__route_parameter(&query, "kind"), "mail");
    assert_string_equal(lw__route_parameter(&query, "key"), "a b");
    assert_null(lw__route_parameter(&query, "delay"));
    assert_status(
        lw__route_read_query(route, lw__slice_of("dealy=1s"), memory, sizeof memory, &query, &err),
        LW_EINVAL);
    assert_string_equal(err.message,
                        "the parameter \"dealy\" is not known here; did you mean \"delay\"?");
    assert_status(lw__route_read_query(&lw__routes[LW__ROUTE_METRICS], lw__slice_of("x=1"), memory,
                                       sizeof memory, &query, &err),
                  LW_EINVAL);
    for (size_t i = 0; i < LW__ROUTES; i++) /* each table of names fits */
        assert_status(lw__route_read_query(&lw__routes[i], lw__slice_of(""), memory, sizeof memory,
                                           &query, &err),
                      LW_OK);
}

/* ---- the document --------------------------------------------------------------------------- */

static struct lw__json_key keys[4096];
static char text[256 << 10];

static struct lw__json read_document(void) {
    static const struct lw__json_limits limits = {64, keys, 4096};
    struct lw__json_error wrong = {.sentence = ""};
    struct lw__json document;
    FILE *file = fopen(DOCS "/openapi.json", "rb");
    assert_non_null(file);
    size_t size = fread(text, 1, sizeof text, file);
    fclose(file);
    if (lw__json_read((struct lw__slice){text, size}, &limits, &document, &wrong) < 0)
        assert_string_equal(wrong.sentence, "");
    return document;
}

static struct lw__json member(struct lw__json object, const char *name) {
    struct lw__json part;
    if (!lw__json_find(object, name, &part)) {
        fprintf(stderr, "no member %s in %.*s\n", name,
                object.raw.size < 300 ? (int)object.raw.size : 300, object.raw.data);
        abort();
    }
    return part;
}

static void assert_means(struct lw__json string, const char *expected) {
    char meaning[512];
    assert_status(lw__json_unescape(string, meaning, sizeof meaning, NULL), LW_OK);
    assert_string_equal(meaning, expected);
}

static size_t count_parts(struct lw__json value) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    size_t count = 0;
    while (lw__json_next(&walk, &key, &part))
        count++;
    return count;
}

/* Whether an operation has the parameter, in the path or in the query. */
static void assert_parameter(struct lw__json operation, const char *name, size_t size,
                             const char *in) {
    struct lw__json_walk walk = lw__json_enter(member(operation, "parameters"));
    struct lw__json key, part;
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%.*s", (int)size, name);
    while (lw__json_next(&walk, &key, &part))
        if (lw__json_is(member(part, "name"), wanted) && lw__json_is(member(part, "in"), in))
            return;
    fprintf(stderr, "no parameter %s in %s: %.*s\n", wanted, in, (int)operation.raw.size,
            operation.raw.data);
    abort();
}

static void assert_operation(const struct lw__route *route, struct lw__json operation) {
    size_t count = 0;
    assert_means(member(operation, "operationId"), route->name);
    assert_means(member(operation, "summary"), route->summary);
    for (const char *part = strchr(route->path, '{'); part; part = strchr(part + 1, '{')) {
        assert_parameter(operation, part + 1, strcspn(part + 1, "}"), "path");
        count++;
    }
    for (const char *at = route->query; *at; count++) {
        size_t size = strcspn(at, " ");
        assert_parameter(operation, at, size, "query");
        at += size + (at[size] == ' ');
    }
    struct lw__json parameters;
    assert_int_equal(
        lw__json_find(operation, "parameters", &parameters) ? count_parts(parameters) : 0, count);
    CHECK(count_parts(member(operation, "responses")) > 0);
}

TEST(the_document_has_every_route_as_the_table_has_it) {
    struct lw__json paths = member(read_document(), "paths");
    for (size_t i = 0; i < LW__ROUTES; i++) {
        char method[16] = "";
        const char *name = lw__http_method_name(lw__routes[i].method);
        for (size_t j = 0; name[j]; j++)
            method[j] = (char)tolower(name[j]);
        assert_operation(&lw__routes[i], member(member(paths, lw__routes[i].path), method));
    }
}

TEST(the_document_has_no_other_routes) {
    struct lw__json_walk walk = lw__json_enter(member(read_document(), "paths"));
    struct lw__json key, part;
    size_t count = 0;
    while (lw__json_next(&walk, &key, &part))
        count += count_parts(part);
    assert_int_equal(count, LW__ROUTES);
}

/* "#/components/schemas/Task" */
static void assert_resolves(struct lw__json document, struct lw__json reference) {
    char path[128], *at = path;
    assert_status(lw__json_unescape(reference, path, sizeof path, NULL), LW_OK);
    struct lw__json here = document;
    while ((at = strchr(at, '/'))) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 1, "/"), at + 1);
        here = member(here, name);
        at++;
    }
}

static size_t resolve_all(struct lw__json document, struct lw__json value) {
    struct lw__json_walk walk = lw__json_enter(value);
    struct lw__json key, part;
    size_t count = 0;
    while (lw__json_next(&walk, &key, &part)) {
        if (lw__json_is(key, "$ref")) {
            assert_resolves(document, part);
            count++;
        }
        count += resolve_all(document, part);
    }
    return count;
}

TEST(every_reference_of_the_document_leads_somewhere) {
    struct lw__json document = read_document();
    CHECK(lw__slice_is(member(document, "openapi").raw, "\"3.1.0\""));
    CHECK(resolve_all(document, document) > 50);
}
