/* The process, and HTTP to it. What it leaves on the disk: site_audit.c. */
#include "site_manager.h"

#include "test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OPTIONS_MAX = 24 };

/* ---- the process -------------------------------------------------------------------------- */

static _Noreturn void become(const char *program, const char *const *options, int out) {
    const char *all[OPTIONS_MAX + 6] = {program, "--folder", "data", "--port", "0"};
    size_t count = 5;
    for (; *options; options++) {
        CHECK(count < OPTIONS_MAX + 5);
        all[count++] = *options;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(out, STDOUT_FILENO);
    execv(program, (char *const *)(uintptr_t)all);
    _exit(127);
}

/* "http://127.0.0.1:4711/sites" */
static uint16_t read_port(int fd) {
    char line[100] = "";
    size_t size = 0;
    ssize_t more;
    while (!strchr(line, '\n') && (more = read(fd, line + size, sizeof line - 1 - size)) > 0)
        size += (size_t)more;
    const char *colon = strrchr(line, ':');
    return strchr(line, '\n') && colon ? (uint16_t)strtol(colon + 1, NULL, 10) : 0;
}

bool site_manager_start(struct site_manager *manager, const char *program,
                        const char *const *options) {
    int out[2];
    CHECK(pipe2(out, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        CHECK(getppid() == parent);
        become(program, options, out[1]);
    }
    close(out[1]);
    *manager = (struct site_manager){.pid = pid, .pidfd = pidfd_open(pid, 0)};
    CHECK(manager->pidfd >= 0);
    manager->port = read_port(out[0]);
    close(out[0]);
    if (manager->port == 0)
        site_manager_kill(manager);
    return manager->pid != 0;
}

bool site_manager_dies_within(const struct site_manager *manager, int64_t us) {
    struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    struct pollfd death = {.fd = manager->pidfd, .events = POLLIN};
    return ppoll(&death, 1, &time, NULL) == 1;
}

static int end(struct site_manager *manager, int signal_number) {
    int status;
    kill(manager->pid, signal_number);
    CHECK(waitpid(manager->pid, &status, 0) == manager->pid);
    close(manager->pidfd);
    *manager = (struct site_manager){0};
    return status;
}

/* It may die of nothing else: a crash of its own would be one. */
void site_manager_kill(struct site_manager *manager) {
    if (manager->pid)
        assert_int_equal(end(manager, SIGKILL), SIGKILL);
}

int site_manager_stop(struct site_manager *manager) {
    return end(manager, SIGTERM);
}

/* ---- HTTP --------------------------------------------------------------------------------- */

static int dial(uint16_t port) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static bool send_all(int fd, const char *bytes, size_t size) {
    while (size > 0) {
        ssize_t sent = send(fd, bytes, size, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        bytes += sent;
        size -= (size_t)sent;
    }
    return true;
}

static bool send_request(int fd, const char *method, const char *path, const char *body) {
    char head[1024];
    size_t size = body ? strlen(body) : 0;
    snprintf(head, sizeof head,
             "%s %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
             "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %zu\r\n\r\n",
             method, path, size);
    return send_all(fd, head, strlen(head)) && send_all(fd, body, size);
}

/* What is cut off is no answer. */
static void read_reply(int fd, struct http_reply *reply) {
    size_t size = 0;
    ssize_t more;
    while ((more = recv(fd, reply->text + size, sizeof reply->text - 1 - size, 0)) > 0)
        size += (size_t)more;
    reply->text[size] = 0;
    const char *end_of_head = strstr(reply->text, "\r\n\r\n");
    const char *length = strcasestr(reply->text, "\r\nContent-Length:");
    if (!end_of_head || !length || strncmp(reply->text, "HTTP/1.1 ", 9) != 0)
        return;
    reply->body = end_of_head + 4;
    if ((size_t)strtol(length + 17, NULL, 10) == size - (size_t)(reply->body - reply->text))
        reply->status = (int)strtol(reply->text + 9, NULL, 10);
}

int http_ask(uint16_t port, const char *method, const char *path, const char *body,
             struct http_reply *reply) {
    reply->status = 0;
    reply->body = reply->text;
    reply->text[0] = 0;
    int fd = dial(port);
    if (fd < 0)
        return 0;
    if (send_request(fd, method, path, body))
        read_reply(fd, reply);
    close(fd);
    return reply->status;
}
