/* The server as a process, and a client of raw bytes. */
#include "served.h"

#include "gate.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS_MAX 32
#define ANSWER_S 200 /* at most, for an answer to come: a test has 600 */

#ifndef LEGWORK_COMMAND
#define LEGWORK_COMMAND "legwork"
#endif

/* ---- the process --------------------------------------------------------------------------- */

static void run_server(int out, const char *const *flags) {
    const char *argv[FLAGS_MAX + 8] = {LEGWORK_COMMAND, "serve",   "--listen",
                                       "127.0.0.1:0",   "--store", "sqlite:tasks.db"};
    size_t count = 6;
    for (; flags && *flags && count < FLAGS_MAX; flags++)
        argv[count++] = *flags;
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* it does not outlive a test that fails */
    dup2(out, STDOUT_FILENO);
    execv(LEGWORK_COMMAND, (char *const *)argv);
    _exit(127);
}

static int read_port(FILE *out) {
    char line[512];
    int port = 0;
    while (port == 0 && fgets(line, sizeof line, out))
        sscanf(line, "legwork serves http://127.0.0.1:%d", &port);
    return port;
}

void served_start(struct served *s, const char *const *flags) {
    served_start_with(s, flags, NULL);
}

void served_start_with(struct served *s, const char *const *flags, void (*prepare)(void)) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    s->pid = fork();
    CHECK(s->pid >= 0);
    if (s->pid == 0) {
        close(ends[0]);
        if (prepare)
            prepare();
        run_server(ends[1], flags);
    }
    close(ends[1]);
    FILE *out = fdopen(ends[0], "r");
    CHECK(out != NULL);
    s->port = read_port(out);
    CHECK(s->port > 0);
    fclose(out); /* what it prints afterwards goes nowhere: SIGPIPE is ignored there */
}

static void run_command(int out, const char *const *arguments) {
    const char *argv[FLAGS_MAX] = {LEGWORK_COMMAND};
    for (size_t count = 1; *arguments && count + 1 < FLAGS_MAX; arguments++)
        argv[count++] = *arguments;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    execv(LEGWORK_COMMAND, (char *const *)argv);
    _exit(127);
}

static void spawn(struct served *c, const char *const *arguments, int out, void (*prepare)(void)) {
    c->pid = fork();
    CHECK(c->pid >= 0);
    if (c->pid != 0)
        return;
    if (prepare)
        prepare();
    run_command(out, arguments);
}

void served_spawn_on(struct served *c, const char *const *arguments, int out) {
    spawn(c, arguments, out, NULL);
}

static void spawn_on_pipe(struct served *c, const char *const *arguments, int *out,
                          void (*prepare)(void)) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    spawn(c, arguments, ends[1], prepare);
    close(ends[1]);
    *out = ends[0];
}

void served_spawn(struct served *c, const char *const *arguments, int *out) {
    spawn_on_pipe(c, arguments, out, NULL);
}

int served_wait_said(struct served *c, int out, char *said, size_t room) {
    size_t size = 0;
    for (ssize_t got; size + 1 < room && (got = read(out, said + size, room - 1 - size)) > 0;)
        size += (size_t)got;
    said[size] = '\0';
    close(out);
    return served_wait(c);
}

int served_run(const char *const *arguments, char *said, size_t room) {
    return served_run_with(arguments, said, room, NULL);
}

int served_run_with(const char *const *arguments, char *said, size_t room, void (*prepare)(void)) {
    struct served c = {0};
    int out;
    spawn_on_pipe(&c, arguments, &out, prepare);
    return served_wait_said(&c, out, said, room);
}

int served_wait(struct served *s) {
    int status = 0;
    CHECK(waitpid(s->pid, &status, 0) == s->pid);
    s->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void served_stop(struct served *s) {
    CHECK(kill(s->pid, SIGTERM) == 0);
    assert_int_equal(served_wait(s), 0);
}

void served_kill(struct served *s) {
    CHECK(kill(s->pid, SIGKILL) == 0);
    assert_int_equal(served_wait(s), 128 + SIGKILL);
}

void served_freeze(const struct served *s) {
    int status = 0;
    CHECK(kill(s->pid, SIGSTOP) == 0);
    CHECK(waitpid(s->pid, &status, WUNTRACED) == s->pid && WIFSTOPPED(status));
}

/* ---- bytes --------------------------------------------------------------------------------- */

static void set_limit(int fd) {
    struct timeval limit = {.tv_sec = ANSWER_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

int connect_unix(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    set_limit(fd);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

int served_connect(const struct served *s) {
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    set_limit(fd);
    return fd;
}

/* A server that has heard enough may close: that is for the answer to tell. */
void send_all(int fd, const void *bytes, size_t size) {
    const char *at = bytes;
    while (size > 0) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EINTR)
            return;
        at += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
}

void send_text(int fd, const char *text) {
    send_all(fd, text, strlen(text));
}

void send_request(int fd, const char *what, const void *body, size_t size) {
    char head[4096];
    int length = snprintf(head, sizeof head, "%s HTTP/1.1\r\nHost: localhost\r\n", what);
    if (body)
        length +=
            snprintf(head + length, sizeof head - (size_t)length, "Content-Length: %zu\r\n", size);
    length += snprintf(head + length, sizeof head - (size_t)length, "\r\n");
    CHECK((size_t)length < sizeof head);
    if (body && (size_t)length + size < sizeof head) { /* one write, as real clients do */
        memcpy(head + length, body, size);
        send_all(fd, head, (size_t)length + size);
        return;
    }
    send_all(fd, head, (size_t)length);
    if (body)
        send_all(fd, body, size);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* With a limit of time a call ends with EINTR, too, when the process was stopped and goes on. */
static ssize_t receive(int fd, char *bytes, size_t size) {
    ssize_t got;
    do
        got = recv(fd, bytes, size, 0);
    while (got < 0 && errno == EINTR);
    return got;
}

/* One byte at a time up to the empty line: what follows is the body's, or the next answer's. */
static char *read_head(int fd) {
    size_t size = 0, capacity = 4096;
    char *head = malloc(capacity);
    CHECK(head != NULL);
    for (;;) {
        ssize_t got = receive(fd, head + size, 1);
        if (got < 0 && errno == EAGAIN)
            test_check_failed("an answer comes", __FILE__, __LINE__);
        if (got <= 0)
            break;
        head[++size] = '\0';
        CHECK(size + 1 < capacity);
        if (size >= 4 && memcmp(head + size - 4, "\r\n\r\n", 4) == 0)
            return head;
    }
    free(head);
    return NULL;
}

static size_t length_of(const char *head) {
    const char *field = strcasestr(head, "\r\nContent-Length:");
    return field ? (size_t)strtoull(field + strlen("\r\nContent-Length:"), NULL, 10) : 0;
}

static void read_body(int fd, struct answer *a) {
    while (a->size > 0) {
        size_t have = 0;
        while (have < a->size) {
            ssize_t got = receive(fd, a->body + have, a->size - have);
            CHECK(got > 0);
            have += (size_t)got;
        }
        return;
    }
}

struct answer read_answer(int fd, bool is_head) {
    struct answer a = {0};
    do {
        free(a.head);
        a.head = read_head(fd);
        if (!a.head)
            return (struct answer){0};
        CHECK(sscanf(a.head, "HTTP/1.1 %d", &a.code) == 1);
    } while (a.code == 100);
    a.size = is_head ? 0 : length_of(a.head);
    a.body = calloc(1, a.size + 1);
    CHECK(a.body != NULL);
    a.is_last = strcasestr(a.head, "\r\nConnection: close") != NULL;
    read_body(fd, &a);
    return a;
}

void answer_free(struct answer *a) {
    free(a->head);
    free(a->body);
    *a = (struct answer){0};
}

struct answer served_ask(const struct served *s, const char *what, const char *body) {
    int fd = served_connect(s);
    send_request(fd, what, body, body ? strlen(body) : 0);
    struct answer a = read_answer(fd, strncmp(what, "HEAD ", 5) == 0);
    close(fd);
    return a;
}

const char *served_expect(const struct served *s, int code, const char *what, const char *body) {
    static struct answer a;
    answer_free(&a);
    a = served_ask(s, what, body);
    if (a.code != code)
        fprintf(stderr, "%s: %d %s\n", what, a.code, a.body ? a.body : "");
    assert_int_equal(a.code, code);
    return a.body;
}

int served_code(const struct served *s, const char *what, const char *body) {
    struct answer a = served_ask(s, what, body);
    int code = a.code;
    answer_free(&a);
    return code;
}

static bool says(const struct served *s, const char *what, const char *part, char *said,
                 size_t room) {
    struct answer a = served_ask(s, what, NULL);
    bool is_there = a.body && strstr(a.body, part);
    if (said)
        snprintf(said, room, "%s", a.body ? a.body : "");
    answer_free(&a);
    return is_there;
}

void served_await(const struct served *s, const char *what, const char *part, char *said,
                  size_t room) {
    await_that(says(s, what, part, said, room));
}

void assert_has(const char *text, const char *part) {
    if (!strstr(text, part))
        fprintf(stderr, "\"%s\" is not in: %s\n", part, text);
    CHECK(strstr(text, part) != NULL);
}

long long number_in(const char *json, const char *name) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "\"%s\":", name);
    const char *at = strstr(json, wanted);
    if (!at)
        return -1;
    at += strlen(wanted);
    return strtoll(*at == '"' ? at + 1 : at, NULL, 10);
}
