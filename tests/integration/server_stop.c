/* Start, stop, restart, settings. */
#include "served.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct served s;
static char said[8192];

static int code_of(const char *what, const char *body) {
    struct answer a = served_ask(&s, what, body);
    int code = a.code;
    answer_free(&a);
    return code;
}

static void assert_said(const char *part) {
    if (!strstr(said, part))
        fprintf(stderr, "\"%s\" is not in: %s\n", part, said);
    CHECK(strstr(said, part) != NULL);
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
    assert_said("serve");
    assert_int_equal(RUN("serve", "--help"), 0);
    assert_said("--idle-timeout");
    assert_int_equal(RUN("version"), 0);
    assert_said("legwork ");
}

TEST(two_servers_do_not_share_a_store) {
    served_start(&s, NULL);
    assert_int_equal(RUN("serve", "--listen", "127.0.0.1:0", "--store", "sqlite:tasks.db"), 1);
    assert_said("tasks.db");
    assert_int_equal(code_of("GET /healthz", NULL), 200);
    served_stop(&s);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* Until the server says so: it reads the file in its own time. */
static void await_code(int code, const char *what, const char *body) {
    while (code_of(what, body) != code)
        ;
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
    struct answer a = {0};
    do {
        answer_free(&a);
        a = served_ask(&s, "GET /metrics", NULL);
    } while (!strstr(a.body, "legwork_http_waiting_requests 1\n"));
    answer_free(&a);
    kill(s.pid, SIGTERM);
    a = read_answer(fd, false);
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

TEST(a_drain_is_a_stop) {
    served_start(&s, NULL);
    assert_int_equal(code_of("POST /v1/drain", NULL), 202);
    assert_int_equal(served_wait(&s), 0);
}

/* ---- a service manager --------------------------------------------------------------------- */

static int listening = -1;

static void open_listening(struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listening >= 0);
    CHECK(bind(listening, (struct sockaddr *)address, size) == 0 && listen(listening, 64) == 0);
    CHECK(getsockname(listening, (struct sockaddr *)address, &size) == 0);
}

static void hand_over(void) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (listening == 3)
        listening = dup(3);
    dup2(listening, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", pid, 1);
}

TEST(clients_wait_while_a_server_with_handed_over_sockets_restarts) {
    struct sockaddr_in address;
    open_listening(&address);
    served_start_with(&s, NULL, hand_over);
    assert_int_equal(s.port, ntohs(address.sin_port));
    assert_int_equal(code_of("POST /v1/queues/q/tasks?kind=k", "x"), 201);
    served_kill(&s);
    int fd = served_connect(&s); /* nobody is there, and it is not refused */
    send_request(fd, "GET /v1/tasks/1", NULL, 0);
    served_start_with(&s, NULL, hand_over);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 200);
    answer_free(&a);
    close(fd);
    served_stop(&s);
    close(listening);
}

static void tell_us(void) {
    setenv("NOTIFY_SOCKET", "@legwork-test-notify", 1);
}

static void assert_told(int fd, const char *what) {
    char text[256] = "";
    CHECK(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, what);
}

TEST_WITH(a_manager_is_told_when_it_is_ready_and_when_it_stops, .alone = true) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, "\0legwork-test-notify", 20);
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + 20)) == 0);
    served_start_with(&s, NULL, tell_us);
    assert_told(fd, "READY=1");
    kill(s.pid, SIGTERM);
    assert_told(fd, "STOPPING=1");
    assert_int_equal(served_wait(&s), 0);
    close(fd);
}
