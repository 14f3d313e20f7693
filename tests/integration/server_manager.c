/* A service manager: sockets that it hands over, and what it is told. */
#include "served.h"
#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static struct served s;
static char said[8192];

static int code_of(const char *what, const char *body) {
    return served_code(&s, what, body);
}

static void assert_said(const char *part) {
    assert_has(said, part);
}

/* ---- sockets ------------------------------------------------------------------------------- */

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

/* Two of them, one in the file system. */
static int listening_too = -1;

static void hand_over_two(void) {
    int first = fcntl(listening, F_DUPFD, 10), second = fcntl(listening_too, F_DUPFD, 10);
    dup2(first, 3);
    dup2(second, 4);
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    setenv("LISTEN_FDS", "2", 1);
    setenv("LISTEN_PID", pid, 1);
}

TEST(several_sockets_are_taken_over_and_left_alone) {
    struct sockaddr_in address;
    struct sockaddr_un un = {.sun_family = AF_UNIX, .sun_path = "handed-over"};
    open_listening(&address);
    listening_too = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listening_too >= 0 && bind(listening_too, (struct sockaddr *)&un, sizeof un) == 0
          && listen(listening_too, 64) == 0);
    for (int i = 0; i < 2; i++) {
        served_start_with(&s, NULL, hand_over_two);
        assert_int_equal(code_of("GET /healthz", NULL), 200);
        int fd = connect_unix("handed-over");
        CHECK(fd >= 0);
        send_request(fd, "GET /healthz", NULL, 0);
        struct answer a = read_answer(fd, false);
        assert_int_equal(a.code, 200);
        answer_free(&a);
        close(fd);
        served_stop(&s);
        assert_int_equal(access("handed-over", F_OK), 0); /* it is the manager's */
    }
    close(listening);
    close(listening_too);
}

static int handed;
static bool is_for_us;

static void hand_over_one(void) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid() + !is_for_us);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", pid, 1);
    dup2(fcntl(handed, F_DUPFD, 10), 3);
}

/* Its exit code; where it would listen by itself is no address. */
static int run_handed(int fd, bool is_ours) {
    handed = fd;
    is_for_us = is_ours;
    return served_run_with(
        (const char *const[]){"serve", "--store", "memory:", "--listen", "nonsense", NULL}, said,
        sizeof said, hand_over_one);
}

TEST(sockets_that_cannot_be_taken_over_are_refused_with_a_sentence) {
    struct sockaddr_in any = {.sin_family = AF_INET};
    int file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int deaf = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(deaf, (struct sockaddr *)&any, sizeof any) == 0);
    assert_int_equal(run_handed(file, true), 2);
    assert_said("descriptor 3 of LISTEN_FDS is no listening stream socket");
    assert_int_equal(run_handed(deaf, true), 2);
    assert_said("ListenStream=");
    CHECK(listen(deaf, 1) == 0);
    assert_int_equal(run_handed(deaf, true), 2);
    assert_said("is not a local address");
    assert_int_equal(run_handed(deaf, false), 2); /* meant for another process */
    assert_said("HOST:PORT");
    close(file);
    close(deaf);
}

/* ---- messages ------------------------------------------------------------------------------ */

/* In the abstract name space, or in a folder. */
static char notify_name[108];

static void tell_us(void) {
    setenv("NOTIFY_SOCKET", notify_name, 1);
}

static int open_notify(bool is_abstract) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    char folder[64];
    if (is_abstract)
        snprintf(notify_name, sizeof notify_name, "@legwork-test-%d", (int)getpid());
    else
        CHECK(getcwd(folder, sizeof folder)
              && snprintf(notify_name, sizeof notify_name, "%s/notify", folder) > 0);
    size_t size = strlen(notify_name);
    memcpy(address.sun_path, notify_name, size);
    if (is_abstract)
        address.sun_path[0] = '\0';
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(bind(fd, (struct sockaddr *)&address, (socklen_t)(sizeof(sa_family_t) + size)) == 0);
    struct timeval limit = {.tv_sec = 200};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static void assert_told(int fd, const char *what) {
    char text[256] = "";
    CHECK(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_string_equal(text, what);
}

static void assert_told_reloading(int fd, struct timespec since) {
    char text[256] = "";
    long long micros = 0;
    CHECK(recv(fd, text, sizeof text - 1, 0) > 0);
    assert_int_equal(sscanf(text, "RELOADING=1\nMONOTONIC_USEC=%lld", &micros), 1);
    CHECK(micros >= (long long)since.tv_sec * 1000000 + since.tv_nsec / 1000);
    assert_told(fd, "READY=1");
}

TEST(a_manager_is_told_when_it_is_ready_reloads_and_stops) {
    for (int i = 0; i < 2; i++) {
        struct timespec now;
        int fd = open_notify(i == 0);
        served_start_with(&s, NULL, tell_us);
        assert_told(fd, "READY=1");
        /* clang's thread sanitizer loses a signal that comes while a thread makes its place for
         * signals, at its first blocking call: an answer shows that the loop is past that. */
        assert_int_equal(code_of("GET /healthz", NULL), 200);
        CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
        kill(s.pid, SIGHUP);
        assert_told_reloading(fd, now);
        kill(s.pid, SIGTERM);
        assert_told(fd, "STOPPING=1");
        assert_int_equal(served_wait(&s), 0);
        CHECK(recv(fd, &(char){0}, 1, MSG_DONTWAIT) < 0);
        close(fd);
    }
}
