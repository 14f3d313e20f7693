/* Slow clients, silent ones, and very many of them. */
#include "served.h"
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;

static void expect(int code, const char *what, const char *body) {
    struct answer a = served_ask(&s, what, body);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

static void await_figure(const char *line) {
    served_await(&s, "GET /metrics", line, NULL, 0);
}

/* Waits for the end, and throws away what comes before it. */
static void assert_ends(int fd) {
    char bytes[4096];
    ssize_t got;
    while ((got = recv(fd, bytes, sizeof bytes, 0)) > 0)
        ;
    CHECK(got == 0 || errno == ECONNRESET);
}

TEST(a_head_that_does_not_end_is_answered_with_408) {
    served_start(&s, (const char *const[]){"--head-timeout", "1s", NULL});
    int fd = served_connect(&s);
    send_text(fd, "GET /healthz HTTP/1.1\r\nHost: loc");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 408);
    assert_true(a.is_last);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

TEST(a_body_that_does_not_come_is_answered_with_408) {
    served_start(&s, (const char *const[]){"--body-timeout", "1s", NULL});
    int fd = served_connect(&s);
    send_text(fd, "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
                  "Content-Length: 10\r\n\r\nabc");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 408);
    answer_free(&a);
    close(fd);
    expect(404, "GET /v1/tasks/1", NULL);
    served_stop(&s);
}

TEST(a_silent_connection_is_closed) {
    served_start(&s, (const char *const[]){"--idle-timeout", "1s", NULL});
    int fd = served_connect(&s);
    assert_ends(fd);
    close(fd);
    struct answer a;
    do { /* whoever needs a second to ask finds it closed, too */
        fd = served_connect(&s);
        send_request(fd, "GET /healthz", NULL, 0);
        a = read_answer(fd, false);
    } while (a.code == 0 && close(fd) == 0);
    assert_int_equal(a.code, 200);
    answer_free(&a);
    assert_ends(fd);
    close(fd);
    served_stop(&s);
}

TEST(a_client_that_does_not_read_is_closed_and_holds_nobody_up) {
    served_start(&s, (const char *const[]){"--write-timeout", "1s", NULL});
    size_t size = 8 << 20;
    char *payload = malloc(size + 1);
    memset(payload, 'x', size);
    payload[size] = '\0';
    expect(201, "POST /v1/queues/q/tasks?kind=k", payload);
    int fd = served_connect(&s);
    for (int i = 0; i < 50; i++)
        send_request(fd, "GET /v1/tasks/1", NULL, 0);
    expect(200, "GET /healthz", NULL);
    await_figure("legwork_http_connections 1\n"); /* the one that asks */
    close(fd);
    free(payload);
    served_stop(&s);
}

TEST(a_body_may_be_as_large_as_the_limit_and_no_larger) {
    served_start(&s, (const char *const[]){"--body-max", "1000", NULL});
    char body[1002];
    memset(body, 'x', sizeof body);
    body[1000] = '\0';
    expect(201, "POST /v1/queues/q/tasks?kind=k", body);
    body[1000] = 'x';
    body[1001] = '\0';
    expect(413, "POST /v1/queues/q/tasks?kind=k", body);
    int fd = served_connect(&s);
    send_text(fd, "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
                  "Transfer-Encoding: chunked\r\n\r\n3e8\r\n");
    send_all(fd, body, 1000);
    send_text(fd, "\r\n1\r\nx\r\n0\r\n\r\n");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 413);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

TEST(requests_under_way_are_bounded_together) {
    served_start(&s, (const char *const[]){"--buffers-max", "1MiB", NULL});
    int holders[3];
    char *half = calloc(1, 500000);
    for (int i = 0; i < 3; i++) {
        holders[i] = served_connect(&s);
        send_text(holders[i], "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 600000\r\n\r\n");
        send_all(holders[i], half, 500000);
    }
    int refused = 0;
    for (int i = 0; i < 3; i++) {
        send_all(holders[i], half, 100000);
        struct answer a = read_answer(holders[i], false);
        refused += a.code == 503;
        CHECK(a.code == 503 || a.code == 201);
        answer_free(&a);
        close(holders[i]);
    }
    CHECK(refused >= 1);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "small");
    free(half);
    served_stop(&s);
}

/* Answers that nobody takes count, too; and what an operator needs is answered all the same. */
TEST(answers_under_way_are_bounded_together) {
    int readers[40], count = 40 / (int)test_stride(3);
    served_start(&s, (const char *const[]){"--buffers-max", "24MiB", NULL});
    size_t size = 8 << 20;
    char *payload = malloc(size + 1);
    memset(payload, 'x', size);
    payload[size] = '\0';
    expect(201, "POST /v1/queues/q/tasks?kind=k", payload);
    for (int i = 0; i < count; i++) {
        readers[i] = served_connect(&s);
        send_request(readers[i], "GET /v1/tasks/1", NULL, 0);
    }
    int code;
    do {
        struct answer a = served_ask(&s, "GET /v1/tasks/2", NULL);
        code = a.code;
        answer_free(&a);
        CHECK(code == 404 || code == 503);
    } while (code != 503);
    expect(200, "GET /healthz", NULL);
    for (int i = 0; i < count; i++)
        close(readers[i]);
    await_figure("legwork_http_connections 1\n");
    expect(404, "GET /v1/tasks/2", NULL);
    free(payload);
    served_stop(&s);
}

/* It is told so although it speaks first; and whoever comes when there is room again is served,
 * even if those who were sent away are still there. */
TEST(one_connection_too_many_is_told_so) {
    enum { MANY = 300 };
    int crowd[MANY];
    served_start(&s, (const char *const[]){"--connections-max", "2", NULL});
    int first = served_connect(&s), second = served_connect(&s);
    send_request(second, "GET /healthz", NULL, 0);
    struct answer a = read_answer(second, false);
    assert_int_equal(a.code, 200);
    answer_free(&a);
    for (int i = 0; i < MANY; i++) {
        crowd[i] = served_connect(&s);
        send_request(crowd[i], "POST /v1/queues/q/tasks?kind=k", "payload", 7);
        a = read_answer(crowd[i], false);
        CHECK(a.code == 503 || (a.code == 0 && i > 200)); /* 0: so many are not told any more */
        CHECK(a.code == 0 || (strstr(a.head, "\r\nRetry-After: 1\r\n") && a.is_last));
        answer_free(&a);
    }
    close(first);
    int code;
    do { /* until it has seen that one has gone */
        int fd = served_connect(&s);
        send_request(fd, "GET /v1/tasks/1", NULL, 0);
        a = read_answer(fd, false);
        code = a.code;
        answer_free(&a);
        close(fd);
        CHECK(code == 0 || code == 503 || code == 404); /* 0: too many of those who are told */
    } while (code != 404);
    close(second);
    for (int i = 0; i < MANY; i++)
        close(crowd[i]);
    await_figure("legwork_http_connections 1\n");
    served_stop(&s);
}

/* ---- very many ----------------------------------------------------------------------------- */

static long resident_kib(void) {
    char path[64], line[256];
    long kib = -1;
    snprintf(path, sizeof path, "/proc/%d/status", (int)s.pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        sscanf(line, "VmRSS: %ld", &kib);
    fclose(file);
    return kib;
}

enum { BUSY = 500 }; /* besides the crowd */

/* As many as the limit of descriptors lets us have, on both sides. Under a sanitizer, where memory
 * is not measured, fewer will do. */
static int crowd_size(void) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    long most = limit.rlim_max > 1500 ? (long)limit.rlim_max - BUSY - 200 : BUSY;
    return (int)((most < 10000 ? most : 10000) / test_stride(5));
}

/* On many connections, which all wait for their answers together. */
static void submit_all_at_once(void) {
    int busy[BUSY];
    for (int i = 0; i < BUSY; i++) {
        busy[i] = served_connect(&s);
        send_request(busy[i], "POST /v1/queues/q/tasks?kind=k", "x", 1);
    }
    for (int i = 0; i < BUSY; i++) {
        struct answer a = read_answer(busy[i], false);
        assert_int_equal(a.code, 201);
        answer_free(&a);
        close(busy[i]);
    }
}

TEST(ten_thousand_idle_connections_take_little_memory_and_hold_up_nobody) {
    int count = crowd_size();
    int *crowd = malloc((size_t)count * sizeof *crowd);
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    long before = resident_kib();
    for (int i = 0; i < count; i++) {
        crowd[i] = served_connect(&s);
        send_request(crowd[i], "GET /v1/tasks/1", NULL, 0); /* all have been used once */
        struct answer a = read_answer(crowd[i], false);
        assert_int_equal(a.code, 200);
        answer_free(&a);
    }
    long each = (resident_kib() - before) * 1024 / count;
    printf("%d idle connections: %ld bytes each\n", count, each);
    if (!test_is_sanitized())
        CHECK(each <= 16384);
    submit_all_at_once();
    for (int i = 0; i < count; i++)
        close(crowd[i]);
    await_figure("legwork_http_connections 1\n");
    free(crowd);
    served_stop(&s);
}
