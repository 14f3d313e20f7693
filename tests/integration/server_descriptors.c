/* Descriptors are used up by connections: the server says so, and can still be asked how it is. */
#include "served.h"
#include "test.h"

#include "gate.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DESCRIPTORS = 64, IDLE = 80 }; /* connections that wait in the backlog, and say nothing */

static struct served s;

static void have_few(void) {
    struct rlimit limit = {DESCRIPTORS, DESCRIPTORS};
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(126);
}

static bool is_logged(const char *part) {
    static char text[65536];
    FILE *file = fopen("log", "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return strstr(text, part) != NULL;
}

TEST(health_is_answered_and_the_log_says_it_when_descriptors_are_used_up) {
    int idle[DESCRIPTORS], count = 0;
    served_start_with(&s, NULL, have_few);
    while (!is_logged("file descriptors are used up")) {
        CHECK(count < DESCRIPTORS);
        idle[count++] = served_connect(&s);
        served_expect(&s, 200, "GET /healthz", NULL);
    }
    served_expect(&s, 200, "GET /readyz", NULL);
    struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k", "x");
    assert_int_equal(a.code, 503);
    assert_has(a.head, "Retry-After: 1\r\n");
    assert_has(a.head, "Connection: close\r\n");
    assert_has(a.body, "no descriptors");
    answer_free(&a);
    CHECK(!strstr(served_expect(&s, 200, "GET /metrics", NULL), "connections_spared_total 0\n"));

    for (int i = 0; i < count; i++)
        close(idle[i]);
    await_that(served_code(&s, "POST /v1/queues/q/tasks?kind=k", "x") == 201);
    served_stop(&s);
}

/* They stand before whoever asks, and each has the reserve in its turn. With a second for each the
 * answer would take 80 s, and the read ends after 50. */
TEST(health_is_answered_behind_many_connections_that_say_nothing) {
    int idle[DESCRIPTORS + IDLE], count = 0;
    struct timeval limit = {.tv_sec = 50};
    served_start_with(&s, NULL, have_few);
    while (count < DESCRIPTORS + IDLE)
        idle[count++] = served_connect(&s);
    int fd = served_connect(&s);
    CHECK(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) == 0);
    send_request(fd, "GET /healthz", NULL, 0);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 200);
    answer_free(&a);
    close(fd);
    CHECK(is_logged("file descriptors are used up"));
    for (int i = 0; i < count; i++)
        close(idle[i]);
    await_that(served_code(&s, "POST /v1/queues/q/tasks?kind=k", "x") == 201);
    served_stop(&s);
}
