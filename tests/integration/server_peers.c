/* Clients that are slow, half gone or gone, at every route: each costs its own connection, and no
 * more. */
#include "abuse.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

static int write_head(const struct lw__route *route, char *text, size_t room, const char *fields) {
    char path[256];
    fill_path(route, path, sizeof path);
    return snprintf(text, room, "%s %s%s HTTP/1.1\r\nHost: localhost\r\n%s",
                    lw__http_method_name(route->method), path, query_of(route), fields);
}

/* A request that does not come to its end is answered with 408, or with what is wrong already. */
static void stall_all(const char *fields, const char *name) {
    int fds[LW__ROUTES * DOORS];
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        char text[512];
        int size = write_head(&lw__routes[i / DOORS], text, sizeof text, fields);
        fds[i] = enter(i % DOORS);
        send_all(fds[i], text, (size_t)size);
    }
    assert_lives(); /* nobody else is held up */
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        struct answer a = read_answer(fds[i], false);
        if (a.code != 408 && a.code != 400)
            fprintf(stderr, "%s, %s: %d\n", lw__routes[i / DOORS].name, name, a.code);
        CHECK((a.code == 408 || a.code == 400) && a.is_last);
        assert_int_equal(recv(fds[i], &(char){0}, 1, 0), 0);
        answer_free(&a);
        close(fds[i]);
    }
}

TEST(every_route_ends_with_slow_clients) {
    start("--head-timeout", "1s");
    stall_all("A: ", "slow head");
    served_stop(&s);
    start("--body-timeout", "1s");
    stall_all("Content-Length: 5\r\n\r\nabc", "slow body");
    stall_all("Transfer-Encoding: chunked\r\n\r\n5\r\nabc", "slow chunk");
    served_stop(&s);
}

/* One byte after the other, each in time: the head as a whole has the deadline. */
TEST(a_head_that_drips_is_ended_too) {
    start("--head-timeout", "1s");
    int fd = enter(TCP);
    struct answer a;
    send_text(fd, "GET /healthz HTTP/1.1\r\nA: ");
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    while (poll(&answer, 1, 20) == 0)
        send_text(fd, "b");
    a = read_answer(fd, false);
    assert_int_equal(a.code, 408);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

static bool can_be_tried(const struct lw__route *route) {
    return route->id != LW__ROUTE_DRAIN; /* which would do what it is asked for */
}

/* Whoever sends no more can still read: it gets its answer, and then the end. */
TEST(every_route_answers_a_half_open_peer) {
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        const struct lw__route *route = &lw__routes[i / DOORS];
        char text[512];
        if (!can_be_tried(route))
            continue;
        int fd = enter(i % DOORS), size = write_head(route, text, sizeof text, "\r\n");
        send_all(fd, text, (size_t)size);
        shutdown(fd, SHUT_WR);
        struct answer a = read_answer(fd, false);
        CHECK(a.code >= 200);
        assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
        answer_free(&a);
        close(fd);
    }
    assert_lives();
    served_stop(&s);
}

/* Half a request, and the end: nothing is done, and nobody is answered. */
TEST(half_a_request_is_none) {
    static const char *const halves[] = {"A: b\r\n", "Content-Length: 5\r\n\r\nabc",
                                         "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"};
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        for (size_t j = 0; j < 3; j++) {
            char text[512];
            int fd = enter(i % DOORS);
            int size = write_head(&lw__routes[i / DOORS], text, sizeof text, halves[j]);
            send_all(fd, text, (size_t)size);
            shutdown(fd, SHUT_WR);
            struct answer a = read_answer(fd, false);
            CHECK(a.code == 0 || (a.code == 400 && j > 0)); /* it takes no body */
            answer_free(&a);
            close(fd);
        }
    }
    struct answer a = served_ask(&s, "GET /v1/tasks", NULL);
    CHECK(strncmp(a.body, "{\"tasks\":[]", 11) == 0);
    answer_free(&a);
    served_stop(&s);
}

/* A reset instead of an end, at any moment. */
TEST(a_reset_costs_its_own_connection) {
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS * 4; i++) {
        const struct lw__route *route = &lw__routes[i / 4 / DOORS];
        char text[512];
        if (!can_be_tried(route))
            continue;
        int fd = enter(i % DOORS), size = write_head(route, text, sizeof text, "\r\n");
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        send_all(fd, text, i / DOORS % 2 ? (size_t)size : (size_t)size / 2);
        if (i / DOORS % 4 == 3)
            CHECK(recv(fd, &(char){0}, 1, 0) == 1);
        close(fd);
    }
    assert_lives();
    served_stop(&s);
}
