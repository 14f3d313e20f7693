/* Start, stop, settings. */
#include "gate.h"
#include "served.h"
#include "test.h"

#include <errno.h>
#include <legwork/version.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;
static char said[8192];

static int code_of(const char *what, const char *body) {
    return served_code(&s, what, body);
}

static void assert_said(const char *part) {
    assert_has(said, part);
}

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

/* ---- settings ------------------------------------------------------------------------------ */

TEST(addresses_that_are_not_local_are_refused_with_a_sentence) {
    static const char *const foreign[] = {"0.0.0.0:80", "192.0.2.1:80", "[::]:80", "example.org:80",
                                          "128.0.0.1:80"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        assert_int_equal(RUN("serve", "--store", "memory:", "--listen", foreign[i]), 2);
        assert_said("is not a local address");
    }
    assert_int_equal(RUN("serve", "--store", "memory:", "--listen", "nonsense"), 2);
    assert_said("HOST:PORT");
    assert_int_equal(RUN("serve", "--store", "memory:", "--listen", "127.0.0.1:99999"), 2);
}

TEST(a_wrong_setting_names_the_nearest_right_one) {
    assert_int_equal(RUN("check", "--body-mx", "1MiB"), 2);
    assert_said("body-max");
    assert_int_equal(RUN("check", "--body-max", "1MiB"), 0);
    assert_said("body-max = 1MiB");
    assert_int_equal(RUN("serv"), 2);
    assert_said("did you mean serve?");
    assert_int_equal(RUN("serve", "--help"), 0);
    assert_said("--idle-timeout");
}

TEST(the_command_and_the_server_say_their_version) {
    assert_int_equal(RUN("version"), 0);
    assert_string_equal(said, "legwork " LW_VERSION "\n");
    assert_int_equal(RUN("--version"), 0);
    assert_string_equal(said, "legwork " LW_VERSION "\n");
    served_start(&s, NULL);
    assert_string_equal(served_expect(&s, 200, "GET /healthz", NULL), "ok " LW_VERSION "\n");
    served_stop(&s);
}

TEST(two_servers_do_not_share_a_store) {
    served_start(&s, NULL);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", s.port);
    assert_int_equal(RUN("serve", "--listen", "127.0.0.1:0", "--store", "sqlite:tasks.db"), 1);
    assert_said("tasks.db");
    assert_said("end that first, or keep other tasks elsewhere");
    assert_int_equal(RUN("serve", "--listen", address, "--store", "memory:"), 1);
    assert_said("choose another with --listen");
    assert_int_equal(code_of("GET /healthz", NULL), 200);
    served_stop(&s);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Until the server says so: it reads the file in its own time. */
static void await_code(int code, const char *what, const char *body) {
    await_that(code_of(what, body) == code);
}

TEST(sighup_reads_the_settings_again) {
    char body[2001];
    memset(body, 'x', 2000);
    body[2000] = '\0';
    write_file("legwork.conf", "[limits]\nbody-max = 1KiB\n");
    served_start(&s, (const char *const[]){"--config", "legwork.conf", NULL});
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", body), 413);
    write_file("legwork.conf", "[limits]\nbody-max = 4KiB\n");
    kill(s.pid, SIGHUP);
    await_code(201, "POST /v1/queues/q/tasks?kind=k", body);
    write_file("legwork.conf", "[limits]\nbody-mox = 1KiB\n"); /* stays as it was */
    kill(s.pid, SIGHUP);
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", body), 201);
    served_stop(&s);
}

/* ---- the unix socket ----------------------------------------------------------------------- */

TEST(a_unix_socket_is_served_too_and_a_stale_one_is_replaced) {
    const char *const flags[] = {"--socket", "socket", NULL};
    served_start(&s, flags);
    served_kill(&s); /* leaves it behind */
    assert_int_equal(access("socket", F_OK), 0);
    served_start(&s, flags);
    int fd = connect_unix("socket");
    CHECK(fd >= 0);
    send_request(fd, "POST /v1/queues/q/tasks?kind=k", "x", 1);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    answer_free(&a);
    close(fd);
    assert_int_equal(RUN("serve", "--listen", "", "--socket", "socket", "--store", "memory:"), 1);
    assert_said("another server listens");
    served_stop(&s);
    assert_int_equal(access("socket", F_OK), -1);
}

/* ---- stop ---------------------------------------------------------------------------------- */

TEST(a_stop_answers_those_who_wait) {
    served_start(&s, NULL);
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", "x"), 201);
    int idle = served_connect(&s), fd = served_connect(&s);
    send_request(fd, "GET /v1/tasks/1?wait=5m", NULL, 0);
    served_await(&s, "GET /metrics", "legwork_http_waiting_requests 1\n", NULL, 0);
    kill(s.pid, SIGTERM);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 200);
    assert_true(a.is_last);
    answer_free(&a);
    assert_int_equal(served_wait(&s), 0);
    assert_int_equal(recv(idle, &(char){0}, 1, 0), 0);
    close(idle);
    close(fd);
}

TEST(any_number_of_signals_is_one_clean_end) {
    for (int i = 0; i < 10; i++) {
        served_start(&s, NULL);
        assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", "x"), 201);
        for (int j = 0; j < 1 + i * 3; j++)
            kill(s.pid, j % 2 ? SIGINT : SIGTERM);
        assert_int_equal(served_wait(&s), 0);
    }
}

/* Whoever knows that it is there may send one. */
TEST(a_signal_right_after_the_greeting_is_heard) {
    for (int i = 0; i < 20; i++) {
        served_start(&s, (const char *const[]){"--store", "memory:", NULL});
        if (i % 2)
            kill(s.pid, SIGHUP);
        served_stop(&s);
    }
}

TEST(a_drain_is_a_stop) {
    served_start(&s, NULL);
    assert_int_equal(code_of("POST /v1/drain", NULL), 202);
    assert_int_equal(served_wait(&s), 0);
}

/* Until the server has so many of these: "connections", "waiting_requests". */
static void await_figure(const char *name, int count) {
    char line[64];
    snprintf(line, sizeof line, "\nlegwork_http_%s %d\n", name, count);
    served_await(&s, "GET /metrics", line, NULL, 0);
}

static long long claim_token(void) {
    struct answer a = served_ask(&s, "POST /v1/queues/q/claim?lease=1h&worker=w", NULL);
    long long token = number_in(a.body, "token");
    CHECK(a.code == 200 && token > 0);
    answer_free(&a);
    return token;
}

/* Whatever clients are doing: a stop is not held up by them. A worker's lease goes on. */
TEST(a_stop_waits_for_no_client) {
    enum { SLOW_BODY, SLOW_HEAD, POLL, CLAIM, DEAF, CLIENTS };
    int fds[CLIENTS];
    char what[128];
    size_t size = test_is_sanitized() ? 1 << 20 : 8 << 20; /* it is written in a second, too */
    char *payload = calloc(1, size + 1);
    memset(payload, 'x', size);
    served_start(&s, (const char *const[]){"--stop-timeout", "1h", NULL});
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", "x"), 201);
    assert_int_equal(code_of("POST /v1/queues/other/tasks?kind=k", payload), 201);
    long long token = claim_token();
    for (int i = 0; i < CLIENTS; i++)
        fds[i] = served_connect(&s);
    send_text(fds[SLOW_BODY], "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
                              "Content-Length: 10\r\n\r\nabc");
    send_text(fds[SLOW_HEAD], "POST /v1/queues/q/tasks?ki");
    send_request(fds[POLL], "GET /v1/tasks/1?wait=5m", NULL, 0);
    send_request(fds[CLAIM], "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    send_request(fds[DEAF], "GET /v1/tasks/2", NULL, 0);
    await_figure("waiting_requests", 2);
    kill(s.pid, SIGTERM);
    struct answer a = read_answer(fds[CLAIM], false);
    assert_int_equal(a.code, 503);
    CHECK(a.is_last && strstr(a.head, "\r\nRetry-After: "));
    answer_free(&a);
    a = read_answer(fds[POLL], false);
    CHECK(a.code == 200 && a.is_last && strstr(a.body, "\"state\":\"started\""));
    answer_free(&a);
    assert_int_equal(served_wait(&s), 0);
    a = read_answer(fds[SLOW_BODY], false); /* told, or not: it was not accepted */
    CHECK(a.code == 0 || a.code == 503);
    answer_free(&a);
    served_start(&s, NULL);
    assert_int_equal(code_of("GET /v1/tasks/3", NULL), 404);
    snprintf(what, sizeof what, "POST /v1/tasks/1/finish?token=%lld", token);
    assert_int_equal(code_of(what, NULL), 204);
    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    free(payload);
    served_stop(&s);
}

/* Answers that were sent are read, although the server has not read all that was sent to it; what
 * was accepted was answered. A stop that comes after the last request has nobody left to tell. */
TEST(a_stop_takes_no_answer_away) {
    enum { REQUESTS = 200 };
    static const char payload[2000] = "x"; /* more than the server reads ahead */
    served_start(&s, NULL);
    int fd = served_connect(&s);
    for (int i = 0; i < REQUESTS; i++)
        send_request(fd, "POST /v1/queues/q/tasks?kind=k", payload, sizeof payload);
    int accepted = 0;
    bool is_last = false;
    for (int i = 0; i < REQUESTS && !is_last; i++) {
        struct answer a = read_answer(fd, false);
        CHECK(a.code == 201 || a.code == 503);
        accepted += a.code == 201;
        is_last = a.is_last;
        answer_free(&a);
        if (i == 0)
            kill(s.pid, SIGTERM);
    }
    assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
    close(fd);
    assert_int_equal(served_wait(&s), 0);
    served_start(&s, NULL);
    char what[64];
    snprintf(what, sizeof what, "GET /v1/tasks/%d", accepted);
    assert_int_equal(code_of(what, NULL), 200);
    snprintf(what, sizeof what, "GET /v1/tasks/%d", accepted + 1);
    assert_int_equal(code_of(what, NULL), 404);
    served_stop(&s);
}
