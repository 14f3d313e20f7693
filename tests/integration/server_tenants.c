/* A queue for each tenant: ten thousand of them, and what is left of them after a restart. */
#include "served.h"
#include "test.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TENANTS = 10000, BATCH = 100 };

static struct served s;

/* Requests that are sent together, and answered one after the other. */
struct batch {
    int fd, count;
    size_t size;
    char text[BATCH * 256];
};

__attribute__((format(printf, 2, 3))) static void add(struct batch *batch, const char *format,
                                                      ...) {
    char what[192];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    batch->size +=
        (size_t)snprintf(batch->text + batch->size, sizeof batch->text - batch->size,
                         "%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n", what);
    CHECK(batch->size < sizeof batch->text);
    batch->count++;
}

static void send_batch(struct batch *batch) {
    send_all(batch->fd, batch->text, batch->size);
    batch->size = 0;
}

static void expect_next(struct batch *batch, int code, struct answer *a) {
    *a = read_answer(batch->fd, false);
    if (a->code != code)
        fprintf(stderr, "%s\n", a->body);
    assert_int_equal(a->code, code);
}

static void expect_all(struct batch *batch, int code) {
    struct answer a;
    for (; batch->count > 0; batch->count--) {
        expect_next(batch, code, &a);
        answer_free(&a);
    }
}

static void submit_to(struct batch *batch, int from, int to) {
    for (int i = from; i < to; i++)
        add(batch, "POST /v1/queues/tenant-%d/tasks?kind=mail", i);
    send_batch(batch);
    expect_all(batch, 201);
}

/* A worker of each tenant claims its task and finishes it. */
static void finish_in(struct batch *batch, int from, int to, long long *ids) {
    struct answer claimed[BATCH];
    for (int i = from; i < to; i++)
        add(batch, "POST /v1/queues/tenant-%d/claim?worker=w-%d", i, i);
    send_batch(batch);
    for (int i = from; i < to; i++)
        expect_next(batch, 200, &claimed[i - from]);
    batch->count = 0;
    for (int i = from; i < to; i++) {
        char queue[64], token[32] = "";
        const char *body = claimed[i - from].body;
        snprintf(queue, sizeof queue, "\"queue\":\"tenant-%d\"", i);
        assert_has(body, queue);
        const char *at = strstr(body, "\"token\":\"");
        CHECK(at && sscanf(at, "\"token\":\"%31[0-9]", token) == 1);
        ids[i] = number_in(body, "id");
        add(batch, "POST /v1/tasks/%lld/finish?token=%s", ids[i], token);
        answer_free(&claimed[i - from]);
    }
    send_batch(batch);
    expect_all(batch, 204);
}

static void forget(struct batch *batch, const long long *ids, int from, int to) {
    for (int i = from; i < to; i++)
        add(batch, "DELETE /v1/tasks/%lld", ids[i]);
    send_batch(batch);
    expect_all(batch, 204);
}

static int count_queues(void) {
    struct answer a = served_ask(&s, "GET /v1/queues", NULL);
    int count = 0;
    assert_int_equal(a.code, 200);
    for (const char *at = a.body; (at = strstr(at, "\"name\":\"tenant-")); at++)
        count++;
    answer_free(&a);
    return count;
}

static void check_figures(void) {
    struct answer a = served_ask(&s, "GET /metrics", NULL);
    int series = 0;
    assert_int_equal(a.code, 200);
    for (const char *at = a.body; (at = strstr(at, "legwork_queue_tasks{queue=")); at++)
        series++;
    assert_int_equal(series, 101);
    assert_has(a.body, "legwork_known_queues 10001\n");
    assert_has(a.body, "legwork_queue_tasks{queue=\"(other)\"} ");
    assert_true(a.size < 2 << 20);
    FILE *promtool = popen("promtool check metrics >said 2>&1", "w");
    CHECK(promtool != NULL);
    fputs(a.body, promtool);
    int status = pclose(promtool);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
    assert_int_equal(system("grep -v 'no help text$' said"), 1 << 8); /* nothing else is said */
    answer_free(&a);
}

TEST(a_queue_for_each_of_10000_tenants_works_and_a_restart_forgets_idle_ones) {
    static long long ids[TENANTS];
    served_start(&s, NULL);
    struct batch batch = {.fd = served_connect(&s)};
    for (int i = 0; i < TENANTS; i += BATCH)
        submit_to(&batch, i, i + BATCH);
    check_figures();
    for (int i = 0; i < TENANTS; i += BATCH)
        finish_in(&batch, i, i + BATCH, ids);
    assert_int_equal(count_queues(), TENANTS);
    for (int i = 0; i < TENANTS - 3 * BATCH; i += BATCH) /* the last 300 are retained */
        forget(&batch, ids, i, i + BATCH);
    submit_to(&batch, 0, BATCH); /* the first 100 have something to do */
    assert_int_equal(count_queues(), TENANTS);
    close(batch.fd);
    served_stop(&s);
    served_start(&s, NULL);
    assert_int_equal(count_queues(), 4 * BATCH);
    batch = (struct batch){.fd = served_connect(&s)};
    finish_in(&batch, 0, BATCH, ids);
    close(batch.fd);
    served_stop(&s);
}

/* Each in a queue of its own: whoever gets a task is the one who waits for it. */
TEST(claims_that_wait_in_2000_queues_are_each_answered_by_their_own_task) {
    enum { WAITING = 2000 };
    static int fds[WAITING];
    served_start(&s, (const char *const[]){"--store", "memory:", NULL});
    for (int i = 0; i < WAITING; i++) {
        char what[128];
        snprintf(what, sizeof what, "POST /v1/queues/tenant-%d/claim?wait=60s", i);
        fds[i] = served_connect(&s);
        send_request(fds[i], what, NULL, 0);
    }
    served_await(&s, "GET /metrics", "legwork_http_waiting_requests 2000\n", NULL, 0);
    struct batch batch = {.fd = served_connect(&s)};
    for (int i = 0; i < WAITING; i += BATCH)
        submit_to(&batch, i, i + BATCH);
    for (int i = 0; i < WAITING; i++) {
        char queue[64];
        struct answer a = read_answer(fds[i], false);
        snprintf(queue, sizeof queue, "\"queue\":\"tenant-%d\"", i);
        assert_int_equal(a.code, 200);
        assert_has(a.body, queue);
        answer_free(&a);
        close(fds[i]);
    }
    close(batch.fd);
    served_stop(&s);
}

TEST(a_queue_too_many_is_503_with_the_limit_and_what_to_do) {
    served_start(&s, (const char *const[]){"--queues-max", "3", "--kinds-max", "2", NULL});
    served_expect(&s, 201, "POST /v1/queues/a/tasks?kind=k", "x");
    served_expect(&s, 201, "POST /v1/queues/b/tasks?kind=l", "x");
    struct answer a = served_ask(&s, "POST /v1/queues/c/tasks?kind=k", "x");
    assert_int_equal(a.code, 503);
    assert_has(a.head, "\r\nRetry-After: ");
    assert_has(a.body, "\"LW_EFULL\"");
    assert_has(a.body, "3 are known");
    assert_has(a.body, "queues-max");
    answer_free(&a);
    assert_has(served_expect(&s, 503, "POST /v1/queues/a/tasks?kind=m", "x"), "kinds-max");
    assert_has(served_expect(&s, 503, "POST /v1/tasks",
                             "[{\"kind\":\"k\",\"queue\":\"a\"},{\"kind\":\"k\",\"queue\":\"c\"}]"),
               "2 of 2");
    served_expect(&s, 201, "POST /v1/queues/b/tasks?kind=k", "x");
    served_stop(&s);
    served_start(&s, NULL); /* with a larger limit */
    served_expect(&s, 201, "POST /v1/queues/c/tasks?kind=m", "x");
    served_stop(&s);
}
