/* Requests that nobody should send, to every route: each costs its own connection, and no more. */
#include "abuse.h"
#include "server/utf8.h"
#include "test.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

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
    {"other version", " HTTP/2.0\r\nHost: localhost\r\n\r\n", NULL, 0, 505},
    {"10,000 headers", HEAD "\r\n", "A: b\r\n", 10000, 431},
    {"long header", HEAD "\r\n", "A123456789012345", 1000, 431},
    {"unknown expectation", HEAD "Expect: cake\r\n\r\n", NULL, 0, 417},
    {"bytes beyond ASCII in the path", "\xff" HEAD "\r\n", NULL, 0, 400},
    {"query with half an escape", "?kind=%f" HEAD "\r\n", NULL, 0, 400},
    {"fragment", "#here" HEAD "\r\n", NULL, 0, 400},
};

/* Likewise, but what was asked for is understood: it is refused, and the connection goes on. */
static const struct abuse understood[] = {
    {"foreign Host", " HTTP/1.1\r\nHost: evil.example\r\n\r\n", NULL, 0, 403},
    {"Host that begins as a local one", " HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n\r\n", NULL,
     0, 403},
    {"name of another machine", " HTTP/1.1\r\nHost: localhost.evil.example:80\r\n\r\n", NULL, 0,
     403},
    {"query that is not UTF-8", "?kind=%ff" HEAD "\r\n", NULL, 0, 400},
    {"query with a zero byte", "?kind=a%00b" HEAD "\r\n", NULL, 0, 400},
    {"query that is not known", "?kin=a" HEAD "\r\n", NULL, 0, 400},
};

#define TABLE (sizeof table / sizeof *table)
#define ALL (TABLE + sizeof understood / sizeof *understood)

/* ---- sending ------------------------------------------------------------------------------- */

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
static void assert_refused(int fd, const char *route, const char *name, int code, bool stays) {
    struct answer a = read_answer(fd, false);
    bool is_right = code ? a.code == code : a.code == 400 || a.code == 413;
    if (!is_right)
        fprintf(stderr, "%s, %s: %d %s\n", route, name, a.code, a.body ? a.body : "");
    CHECK(is_right);
    if (a.is_last == stays)
        fprintf(stderr, "%s, %s: %s\n", route, name, a.head);
    CHECK(a.is_last == !stays);
    if (!stays)
        assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
    CHECK(strncmp(a.body, "{\"error\":\"", 10) == 0);
    answer_free(&a);
}

TEST(every_route_refuses_malformed_requests) {
    start(NULL, NULL);
    for (size_t r = 0; r < LW__ROUTES; r++) {
        for (size_t i = 0; i < ALL * DOORS; i++) {
            bool stays = i / DOORS >= TABLE;
            const struct abuse *abuse = stays ? &understood[i / DOORS - TABLE] : &table[i / DOORS];
            int fd = enter(i % DOORS);
            send_abuse(fd, abuse, &lw__routes[r]);
            assert_refused(fd, lw__routes[r].name, abuse->name, abuse->code, stays);
            close(fd);
        }
        assert_lives();
    }
    served_stop(&s);
}

/* A zero byte cannot be in the table. */
TEST(every_route_refuses_a_zero_byte) {
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        const struct lw__route *route = &lw__routes[i / DOORS];
        char path[256], text[512];
        fill_path(route, path, sizeof path);
        for (int in_path = 0; in_path < 2; in_path++) {
            int fd = enter(i % DOORS);
            int size = snprintf(text, sizeof text, "%s %s%c" HEAD "A: b%c\r\n\r\n",
                                lw__http_method_name(route->method), path, in_path ? '\0' : '?',
                                in_path ? 'c' : '\0');
            send_all(fd, text, (size_t)size);
            assert_refused(fd, route->name, "zero byte", 400, false);
            close(fd);
        }
    }
    assert_lives();
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
        assert_refused(fd, "garbage", "bytes", garbage[i].code, false);
        close(fd);
    }
    int fd = served_connect(&s);
    send_text(fd, "GET /");
    for (int i = 0; i < 1000; i++)
        send_text(fd, "0123456789012345678901234567890123456789");
    assert_refused(fd, "garbage", "long line", 414, false);
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
    abuse_json("POST /v1/tasks/1/finish?token=1");
    assert_no_json("POST /v1/tasks", "", 0);
    assert_no_json("POST /v1/settle", "", 0);
    assert_lives();
    served_stop(&s);
}

/* ---- bodies, to every route ---------------------------------------------------------------- */

struct body {
    const char *name;
    const char *bytes;
    size_t size; /* 0: that of the text */
    int repeat;  /* so often */
};

static const struct body bodies[] = {
    {"JSON of a million arrays", "[", 0, 1000000},
    {"JSON of a million objects", "{\"a\":", 0, 1000000},
    {"not UTF-8", "{\"kind\":\"\xff\xc0\x80\"}", 0, 1},
    {"duplicate keys", "{\"kind\":\"k\",\"kind\":\"k\"}", 0, 1},
    {"zero bytes", "{\"kind\":\"k\"}\0\0", 14, 1},
    {"half a surrogate", "{\"kind\":\"\\udc00\"}", 0, 1},
};

/* A payload is whatever it is; all others refuse these, and tell why. */
static void send_body(int fd, const struct lw__route *route, const struct body *body) {
    char path[256], what[512];
    size_t size = body->size ? body->size : strlen(body->bytes);
    char *bytes = malloc(size * (size_t)body->repeat);
    for (int i = 0; i < body->repeat; i++)
        memcpy(bytes + (size_t)i * size, body->bytes, size);
    fill_path(route, path, sizeof path);
    snprintf(what, sizeof what, "%s %s%s", lw__http_method_name(route->method), path,
             query_of(route));
    send_request(fd, what, bytes, size * (size_t)body->repeat);
    struct answer a = read_answer(fd, false);
    int least = route->id == LW__ROUTE_SUBMIT ? 201 : 400;
    int most = route->id == LW__ROUTE_SUBMIT ? 201 : 499;
    if (a.code < least || a.code > most)
        fprintf(stderr, "%s, %s: %d %s\n", route->name, body->name, a.code, a.body ? a.body : "");
    CHECK(a.code >= least && a.code <= most);
    CHECK(a.code == 201 || strncmp(a.body, "{\"error\":\"", 10) == 0);
    answer_free(&a);
    free(bytes);
}

TEST(every_route_refuses_bodies_that_it_cannot_use) {
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        for (size_t j = 0; j < sizeof bodies / sizeof *bodies; j++) {
            int fd = enter(i % DOORS);
            send_body(fd, &lw__routes[i / DOORS], &bodies[j]);
            close(fd);
        }
        assert_lives();
    }
    served_stop(&s);
}

/* What a worker says is shown to others, as text that is one. */
TEST(texts_that_are_no_text_are_shown_as_one) {
    static const char *const says[] = {
        "fail?token=", "retry?after=1h&token=", "progress?done=1&token="};
    served_start(&s, NULL);
    for (int i = 0; i < 3; i++) {
        char what[128];
        struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k", "x");
        long long id = number_in(a.body, "id");
        answer_free(&a);
        a = served_ask(&s, "POST /v1/queues/q/claim", NULL);
        snprintf(what, sizeof what, "POST /v1/tasks/%lld/%s%lld", id, says[i],
                 number_in(a.body, "token"));
        answer_free(&a);
        int fd = served_connect(&s);
        send_request(fd, what, "a\xff\xc0\x80\n\x1b[2J\"\\b\0c", 14);
        a = read_answer(fd, false);
        assert_int_equal(a.code, 204);
        answer_free(&a);
        close(fd);
        snprintf(what, sizeof what, "GET /v1/tasks/%lld", id);
        a = served_ask(&s, what, NULL);
        assert_int_equal(a.code, 200);
        CHECK(lw__utf8_check((struct lw__slice){a.body, a.size}));
        CHECK(!memchr(a.body, '\x1b', a.size) && !memchr(a.body, '\n', a.size));
        answer_free(&a);
    }
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

static int code_of(const char *request) {
    int fd = served_connect(&s);
    send_text(fd, request);
    struct answer a = read_answer(fd, false);
    int code = a.code;
    answer_free(&a);
    close(fd);
    return code;
}

static int code_with(const char *what, const char *header) {
    char text[512];
    snprintf(text, sizeof text,
             "%s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\nContent-Length: 1\r\n\r\nx", what, s.port,
             header);
    return code_of(text);
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
    assert_int_equal(code_with(submit, "Sec-Fetch-Site: same-site"), 403);
    assert_int_equal(code_with(submit, "Sec-Fetch-Site: none"), 201); /* the user's own */
    served_stop(&s);
}

TEST(an_origin_without_a_name_is_nobodys_even_where_no_host_is_said) {
#define SUBMIT_1_0 "POST /v1/queues/q/tasks?kind=k HTTP/1.0\r\nContent-Length: 0\r\n"
    served_start(&s, NULL);
    assert_int_equal(code_of(SUBMIT_1_0 "\r\n"), 201);
    assert_int_equal(code_of(SUBMIT_1_0 "Origin: http://\r\n\r\n"), 403);
    served_stop(&s);
}

/* None of them, whatever it is that they would change; and no answer tells a browser otherwise. */
TEST(every_route_that_changes_something_is_shut_to_other_origins) {
    static const char *const signs[] = {"Origin: https://evil.example", "Origin: null",
                                        "Sec-Fetch-Site: cross-site"};
    start(NULL, NULL);
    for (size_t i = 0; i < LW__ROUTES * DOORS; i++) {
        const struct lw__route *route = &lw__routes[i / DOORS];
        char path[256], text[512];
        fill_path(route, path, sizeof path);
        for (int j = 0; j < 3; j++) {
            int fd = enter(i % DOORS);
            snprintf(text, sizeof text, "%s %s%s HTTP/1.1\r\nHost: localhost\r\n%s\r\n\r\n",
                     lw__http_method_name(route->method), path, query_of(route), signs[j]);
            send_text(fd, text);
            struct answer a = read_answer(fd, false);
            CHECK((a.code == 403) == (route->method != LW__HTTP_GET));
            CHECK(strcasestr(a.head, "\r\nAccess-Control-") == NULL);
            answer_free(&a);
            close(fd);
        }
    }
    assert_lives(); /* drain was one of them */
    served_stop(&s);
}
