/* Requests that a client has sent behind one that waits: the answer to the first one begins them,
 * while the server is still busy with others who wait. */
#include "served.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OTHERS 8

static struct served s;

static void start_in_memory(void) {
    served_start(&s, (const char *const[]){"--store", "memory:", NULL});
}

static void await_waiting(int count) {
    char line[64];
    snprintf(line, sizeof line, "legwork_http_waiting_requests %d\n", count);
    served_await(&s, "GET /metrics", line, NULL, 0);
}

static int expect_answer(int fd, int code, const char *part) {
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, code);
    assert_has(a.body, part);
    answer_free(&a);
    return fd;
}

/* A client whose claim waits, with another request behind it; and others who wait after it. */
static int park_with_behind(const char *behind, const char *body, int others[OTHERS]) {
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    send_request(fd, behind, body, body ? strlen(body) : 0);
    await_waiting(1);
    for (int i = 0; i < OTHERS; i++) {
        others[i] = served_connect(&s);
        send_request(others[i], "POST /v1/queues/q/claim?wait=5m", NULL, 0);
        await_waiting(2 + i);
    }
    return fd;
}

static void close_all(int fd, const int others[OTHERS]) {
    close(fd);
    for (int i = 0; i < OTHERS; i++)
        close(others[i]);
}

/* The drain sends all away who wait, and it is begun by the answer to the first of them. */
TEST(a_drain_behind_a_claim_sends_the_others_away) {
    int others[OTHERS];
    start_in_memory();
    int fd = park_with_behind("POST /v1/drain", NULL, others);
    served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "x");
    expect_answer(fd, 200, "[{\"id\":1,");
    expect_answer(fd, 202, "");
    for (int i = 0; i < OTHERS; i++)
        expect_answer(others[i], 503, "stopping");
    close_all(fd, others);
    assert_int_equal(served_wait(&s), 0);
}

/* Two tasks at once: the walk goes on behind the drain. */
TEST(a_drain_behind_a_claim_loses_no_task) {
    int others[OTHERS];
    start_in_memory();
    int fd = park_with_behind("POST /v1/drain", NULL, others);
    served_expect(&s, 201, "POST /v1/tasks",
                  "[{\"kind\":\"k\",\"queue\":\"q\"},{\"kind\":\"k\",\"queue\":\"q\"}]");
    expect_answer(fd, 200, "[{\"id\":1,");
    expect_answer(others[0], 200, "[{\"id\":2,");
    expect_answer(fd, 202, "");
    for (int i = 1; i < OTHERS; i++)
        expect_answer(others[i], 503, "stopping");
    close_all(fd, others);
    assert_int_equal(served_wait(&s), 0);
}

/* The class: whatever is begun by an answer changes no list that somebody walks. */
TEST(any_request_behind_a_claim_leaves_those_who_wait_alone) {
    static const struct {
        const char *what, *body;
        int code;
    } behind[] = {
        {"POST /v1/queues/q/claim?wait=1ms", NULL, 200},
        {"POST /v1/queues/q/tasks?kind=k", "x", 201},
        {"POST /v1/queues/q/pause", NULL, 204},
        {"POST /v1/queues/q/resume", NULL, 204},
        {"GET /v1/tasks/1?wait=1ms", NULL, 200},
        {"GET /metrics", NULL, 200},
    };
    for (size_t i = 0; i < sizeof behind / sizeof *behind; i++) {
        int others[OTHERS];
        start_in_memory();
        int fd = park_with_behind(behind[i].what, behind[i].body, others);
        served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "x");
        expect_answer(fd, 200, "[{\"id\":1,");
        expect_answer(fd, behind[i].code, "");
        served_expect(&s, 204, "POST /v1/queues/q/resume", NULL);
        for (int k = 0; k < OTHERS; k++)
            served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "x");
        for (int k = 0; k < OTHERS; k++)
            expect_answer(others[k], 200, "[{\"id\":");
        close_all(fd, others);
        served_stop(&s);
    }
}
