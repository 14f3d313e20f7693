/* Every limit is the one that was set: what reaches it passes, what is beyond it is refused. */
#include "served.h"
#include "test.h"

#include <legwork/task.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;

static void start(const char *flag, const char *value) {
    served_start(&s, (const char *const[]){flag, value, NULL});
}

static int code_of(const char *what, const char *body) {
    return served_code(&s, what, body);
}

/* Sends a request as it is; returns the code. */
static int code_of_text(const char *text) {
    int fd = served_connect(&s);
    send_text(fd, text);
    struct answer a = read_answer(fd, false);
    int code = a.code;
    answer_free(&a);
    close(fd);
    return code;
}

static const char *fill(char *text, size_t size, char c) {
    memset(text, c, size);
    text[size] = '\0';
    return text;
}

/* ---- heads --------------------------------------------------------------------------------- */

/* "GET /healthz?...": a line of so many bytes, with its end. */
static int code_of_line(int size) {
    char text[1024], query[1024];
    int rest = size - (int)strlen("GET /healthz? HTTP/1.1\r\n");
    snprintf(text, sizeof text, "GET /healthz?%s HTTP/1.1\r\nHost: localhost\r\n\r\n",
             fill(query, (size_t)rest, '&'));
    return code_of_text(text);
}

TEST(a_request_line_has_its_limit) {
    start("--line-max", "256");
    assert_int_equal(code_of_line(250), 200);
    assert_int_equal(code_of_line(300), 414);
    served_stop(&s);
}

static int code_of_header(int size, int times) {
    char text[8192] = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n", value[1024];
    size_t at = strlen(text);
    for (int i = 0; i < times; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "A%d: %s\r\n", i,
                               fill(value, (size_t)size, 'x'));
    snprintf(text + at, sizeof text - at, "\r\n");
    return code_of_text(text);
}

TEST(a_header_has_its_limit) {
    start("--header-max", "256");
    assert_int_equal(code_of_header(240, 1), 200);
    assert_int_equal(code_of_header(300, 1), 431);
    served_stop(&s);
}

TEST(headers_together_have_their_limit) {
    start("--head-max", "1KiB");
    assert_int_equal(code_of_header(100, 8), 200);
    assert_int_equal(code_of_header(100, 12), 431);
    served_stop(&s);
    start("--headers-max", "4");
    assert_int_equal(code_of_header(1, 3), 200); /* and Host */
    assert_int_equal(code_of_header(1, 4), 431);
    served_stop(&s);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static int code_of_depth(int depth) {
    char body[256], open[64], closed[64];
    snprintf(body, sizeof body, "{\"kind\":\"k\",\"payload\":%s%s}",
             fill(open, (size_t)depth - 1, '['), fill(closed, (size_t)depth - 1, ']'));
    return code_of("POST /v1/tasks", body);
}

TEST(json_has_its_limits) {
    char body[4096] = "{\"kind\":\"k\",\"payload\":{\"k0\":0";
    start("--json-depth-max", "8");
    assert_int_equal(code_of_depth(8), 201);
    assert_int_equal(code_of_depth(9), 400);
    served_stop(&s);
    start("--json-keys-max", "64");
    size_t at = strlen(body);
    for (int i = 1; i < 60; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, ",\"k%d\":0", i);
    snprintf(body + at, sizeof body - at, "}}");
    assert_int_equal(code_of("POST /v1/tasks", body), 201);
    for (int i = 60; i < 70; i++)
        at += (size_t)snprintf(body + at, sizeof body - at, ",\"k%d\":0", i);
    snprintf(body + at, sizeof body - at, "}}");
    assert_int_equal(code_of("POST /v1/tasks", body), 400);
    served_stop(&s);
}

/* ---- how many ------------------------------------------------------------------------------ */

static int count_of(const char *what, int code) {
    struct answer a = served_ask(&s, what, NULL);
    int count = 0;
    assert_int_equal(a.code, code);
    for (const char *at = a.body; (at = strstr(at, "{\"id\":")) != NULL; at++)
        count++;
    answer_free(&a);
    return count;
}

TEST(batches_claims_and_pages_have_their_limits) {
    static const char three[] = "[{\"kind\":\"k\"},{\"kind\":\"k\"},{\"kind\":\"k\"}]";
    start("--batch-max", "2");
    assert_int_equal(code_of("POST /v1/tasks", "[{\"kind\":\"k\"},{\"kind\":\"k\"}]"), 201);
    assert_int_equal(code_of("POST /v1/tasks", three), 400);
    served_stop(&s);
    start("--claim-max", "2");
    assert_int_equal(code_of("POST /v1/tasks", three), 201);
    assert_int_equal(count_of("POST /v1/queues/default/claim?n=5", 200), 2);
    served_stop(&s);
    start("--list-max", "2");
    assert_int_equal(count_of("GET /v1/tasks", 200), 2);
    assert_int_equal(count_of("GET /v1/tasks?limit=5", 200), 2);
    assert_int_equal(count_of("GET /v1/tasks?limit=1", 200), 1);
    served_stop(&s);
}

/* An hour is asked for, and not waited for. */
TEST(waits_have_their_limit) {
    start("--wait-max", "50ms");
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k&delay=1h", "x"), 201);
    assert_int_equal(code_of("GET /v1/tasks/1?wait=1h", NULL), 200);
    assert_int_equal(count_of("POST /v1/queues/q/claim?wait=1h", 200), 0);
    served_stop(&s);
}

TEST(payloads_together_have_their_limit) {
    size_t size = 600 * 1024;
    char *payload = malloc(size + 1);
    fill(payload, size, 'x');
    start("--payloads-max", "1MiB");
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", payload), 201);
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", payload), 503);
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", "small"), 201);
    free(payload);
    served_stop(&s);
}

/* ---- names --------------------------------------------------------------------------------- */

TEST(names_and_keys_have_their_limits) {
    char name[LW_NAME_MAX + 2], key[LW_KEY_MAX + 2], what[1024];
    start(NULL, NULL);
    for (int beyond = 0; beyond < 2; beyond++) {
        int code = beyond ? 400 : 201;
        fill(name, (size_t)LW_NAME_MAX + (size_t)beyond, 'n');
        fill(key, (size_t)LW_KEY_MAX + (size_t)beyond, 'k');
        snprintf(what, sizeof what, "POST /v1/queues/%s/tasks?kind=k", name);
        assert_int_equal(code_of(what, "x"), code);
        snprintf(what, sizeof what, "POST /v1/queues/q/tasks?kind=%s", name);
        assert_int_equal(code_of(what, "x"), code);
        snprintf(what, sizeof what, "POST /v1/queues/q/tasks?kind=k&key=%s", key);
        assert_int_equal(code_of(what, "x"), code);
    }
    served_stop(&s);
}
