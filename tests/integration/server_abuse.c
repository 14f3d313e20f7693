/* Requests that nobody should send, to every route: each costs its own connection, and no more. */
#include "served.h"
#include "server/routes.h"
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;

/* ---- the table ----------------------------------------------------------------------------- */

/* What is sent behind the method and the path, and the code of the answer; 0: 400 or 413. */
struct abuse {
    const char *name;
    const char *text;
    const char *many; /* sent so often before the text's last empty line */
    int times;
    int code;
};

#define HEAD " HTTP/1.1\r\nHost: localhost\r\n"

static const struct abuse table[] = {
    {"bare LF", " HTTP/1.1\nHost: localhost\n\n", NULL, 0, 400},
    {"bare LF in headers", HEAD "A: b\nC: d\r\n\r\n", NULL, 0, 400},
    {"bare CR", HEAD "A: b\rC: d\r\n\r\n", NULL, 0, 400},
    {"folded header", HEAD "A: b\r\n c\r\n\r\n", NULL, 0, 400},
    {"space before the colon", HEAD "A : b\r\n\r\n", NULL, 0, 400},
    {"two Content-Lengths", HEAD "Content-Length: 1\r\nContent-Length: 1\r\n\r\nx", NULL, 0, 400},
    {"length with chunks", HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
     NULL, 0, 400},
    {"length that is no number", HEAD "Content-Length: +1\r\n\r\nx", NULL, 0, 400},
    {"length beyond 2^64", HEAD "Content-Length: 99999999999999999999\r\n\r\n", NULL, 0, 0},
    {"declared 10 GiB", HEAD "Content-Length: 10737418240\r\n\r\nx", NULL, 0, 413},
    {"chunk overflow", HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", NULL, 0, 0},
    {"chunk that is no number", HEAD "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", NULL, 0, 400},
    {"other coding", HEAD "Transfer-Encoding: gzip\r\n\r\n", NULL, 0, 501},
    {"no Host", " HTTP/1.1\r\n\r\n", NULL, 0, 400},
    {"two Hosts", HEAD "Host: localhost\r\n\r\n", NULL, 0, 400},
    {"foreign Host", " HTTP/1.1\r\nHost: evil.example\r\n\r\n", NULL, 0, 403},
    {"other version", " HTTP/2.0\r\nHost: localhost\r\n\r\n", NULL, 0, 505},
    {"10,000 headers", HEAD "\r\n", "A: b\r\n", 10000, 431},
    {"long header", HEAD "\r\n", "A123456789012345", 1000, 431},
    {"unknown expectation", HEAD "Expect: cake\r\n\r\n", NULL, 0, 417},
};

#define TABLE (sizeof table / sizeof *table)

/* ---- sending ------------------------------------------------------------------------------- */

/* A path of the route, and a query that it has. */
static void fill_path(const struct lw__route *route, char *path, size_t room) {
    const char *brace = strchr(route->path, '{');
    if (!brace) {
        snprintf(path, room, "%s", route->path);
        return;
    }
    snprintf(path, room, "%.*s1%s", (int)(brace - route->path), route->path,
             strchr(brace, '}') + 1);
}

static void send_abuse(int fd, const struct abuse *abuse, const struct lw__route *route) {
    char path[256], text[1024];
    fill_path(route, path, sizeof path);
    int size = snprintf(text, sizeof text, "%s %s%s", lw__http_method_name(route->method), path,
                        abuse->text);
    size_t before = abuse->many ? (size_t)size - 2 : (size_t)size;
    send_all(fd, text, before);
    for (int i = 0; i < abuse->times; i++)
        send_text(fd, abuse->many);
    send_all(fd, text + before, (size_t)size - before);
}

/* An answer of the right code, and then the end of the connection. */
static void assert_refused(int fd, const char *route, const char *name, int code) {
    struct answer a = read_answer(fd, false);
    bool is_right = code ? a.code == code : a.code == 400 || a.code == 413;
    if (!is_right)
        fprintf(stderr, "%s, %s: %d %s\n", route, name, a.code, a.body ? a.body : "");
    CHECK(is_right);
    if (code != 403) {
        CHECK(a.is_last);
        assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
    }
    CHECK(strncmp(a.body, "{\"error\":\"", 10) == 0);
    answer_free(&a);
}

static void assert_lives(void) {
    struct answer a = served_ask(&s, "GET /healthz", NULL);
    assert_int_equal(a.code, 200);
    answer_free(&a);
}

TEST_WITH(every_route_refuses_malformed_requests, .seconds = 120) {
    served_start(&s, NULL);
    for (size_t r = 0; r < LW__ROUTES; r++) {
        for (size_t i = 0; i < TABLE; i++) {
            int fd = served_connect(&s);
            send_abuse(fd, &table[i], &lw__routes[r]);
            assert_refused(fd, lw__routes[r].name, table[i].name, table[i].code);
            close(fd);
        }
        assert_lives();
    }
    served_stop(&s);
}

TEST(bytes_that_are_no_request_are_refused) {
    static const struct {
        const char *text;
        size_t size;
        int code;
    } garbage[] = {
        {"\0\0\0\0\r\n\r\n", 8, 400},
        {"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 29, 400},
        {"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n", 28, 400},
        {"BREW /pot HTTP/1.1\r\nHost: a\r\n\r\n", 32, 501},
        {"\x16\x03\x01\x02\x00\x01\r\n\r\n", 10, 400},
    };
    served_start(&s, NULL);
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++) {
        int fd = served_connect(&s);
        send_all(fd, garbage[i].text, garbage[i].size);
        assert_refused(fd, "garbage", "bytes", garbage[i].code);
        close(fd);
    }
    int fd = served_connect(&s);
    send_text(fd, "GET /");
    for (int i = 0; i < 1000; i++)
        send_text(fd, "0123456789012345678901234567890123456789");
    assert_refused(fd, "garbage", "long line", 414);
    close(fd);
    assert_lives();
    served_stop(&s);
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static void assert_no_json(const char *what, const char *body, size_t size) {
    int fd = served_connect(&s);
    send_request(fd, what, body, size);
    struct answer a = read_answer(fd, false);
    if (a.code != 400)
        fprintf(stderr, "%s %.60s: %d %s\n", what, body, a.code, a.body ? a.body : "");
    assert_int_equal(a.code, 400);
    answer_free(&a);
    close(fd);
}

static void abuse_json(const char *what) {
    static const char *const wrong[] = {
        "",
        "{",
        "nul",
        "{\"a\":1,\"a\":2}",
        "[1,]",
        "{\"kind\":\"\xff\"}",
        "\"\\ud800\"",
        "{'a':1}",
        "[\"a\nb\"]",
        "01",
        "1 2",
        "\xef\xbb\xbf{}",
        "[NaN]",
        "{\"kind\":\"k\"}x",
        "\"\x01\"",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_no_json(what, wrong[i], strlen(wrong[i]));
    size_t depth = 1000000;
    char *deep = malloc(depth);
    memset(deep, '[', depth);
    assert_no_json(what, deep, depth);
    free(deep);
}

TEST(bodies_that_are_no_json_are_refused) {
    served_start(&s, NULL);
    abuse_json("POST /v1/tasks");
    abuse_json("POST /v1/settle");
    assert_lives();
    served_stop(&s);
}

/* ---- cuts ---------------------------------------------------------------------------------- */

static const char stream[] =
    "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc"
    "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
    "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=y\r\nc\r\n0\r\nA: b\r\n\r\n"
    "GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
    "HEAD /v1/tasks HTTP/1.1\r\nHost: localhost\r\n\r\n"
    "POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\n"
    "[{\"kind\":\"a\"},{\"kind\":3}]"
    "POST /v1/queues/q/claim?n=2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    "GET /never HTTP/1.1\r\nHost: localhost\r\n\r\n";

/* Each piece is read by the server before the next is sent: it has taken it off the socket. */
static void send_in_pieces(int fd, unsigned seed) {
    size_t size = sizeof stream - 1;
    for (size_t at = 0; at < size;) {
        seed = seed * 1103515245u + 12345u;
        size_t piece = 1 + (seed >> 16) % (seed & 1 ? 7 : 200);
        piece = piece < size - at ? piece : size - at;
        send_all(fd, stream + at, piece);
        at += piece;
        if (seed & 2)
            assert_lives(); /* takes longer than a turn of the loop */
    }
}

TEST(however_the_bytes_are_cut_the_answers_are_the_same) {
    static const int codes[] = {201, 201, 404, 200, 400, 200, 200};
    served_start(&s, NULL);
    for (unsigned seed = 1; seed <= (unsigned)test_scale(30, 1000); seed++) {
        int fd = served_connect(&s);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
        send_in_pieces(fd, seed);
        for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
            struct answer a = read_answer(fd, i == 3);
            assert_int_equal(a.code, codes[i]);
            if (i == 5)
                CHECK(strstr(a.body, "\"payload_base64\":\"YWJj\"") != NULL);
            answer_free(&a);
        }
        assert_int_equal(recv(fd, &(char){0}, 1, 0), 0); /* and nothing after the last */
        close(fd);
    }
    served_stop(&s);
}

/* ---- browsers ------------------------------------------------------------------------------ */

static int code_with(const char *what, const char *header) {
    char text[512];
    int fd = served_connect(&s);
    snprintf(text, sizeof text,
             "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\nContent-Length: 1\r\n\r\nx", what, s.port,
             header);
    send_text(fd, text);
    struct answer a = read_answer(fd, false);
    int code = a.code;
    answer_free(&a);
    close(fd);
    return code;
}

TEST(pages_of_other_origins_change_nothing) {
    static const char submit[] = "POST /v1/queues/q/tasks?kind=k";
    char own[64];
    served_start(&s, NULL);
    snprintf(own, sizeof own, "Origin: http://127.0.0.1:%d", s.port);
    assert_int_equal(code_with(submit, own), 201);
    assert_int_equal(code_with(submit, "Sec-Fetch-Site: same-origin"), 201);
    assert_int_equal(code_with(submit, "Origin: http://evil.example"), 403);
    assert_int_equal(code_with(submit, "Origin: null"), 403);
    assert_int_equal(code_with(submit, "Origin: http://127.0.0.1:1"), 403);
    assert_int_equal(code_with(submit, "Sec-Fetch-Site: cross-site"), 403);
    assert_int_equal(code_with("DELETE /v1/tasks/1", "Origin: http://evil.example"), 403);
    served_stop(&s);
}
