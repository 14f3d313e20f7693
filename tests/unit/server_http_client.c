/* The other side: requests that are written, answers that are read. */
#include "test.h"

#include "transcript.h"

#include <stdio.h>

static char memory[2][16 << 10];

/* What is said of an answer that comes in steps and is followed by the end of the connection. */
static const char *read_answer_by(const char *text, enum lw__http_method asked, size_t step,
                                  char *into, size_t room) {
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, into, room - 1);
    transcribe_answers(lw__slice_of(text), asked, step, &transcript_limits, &out);
    assert_status(out.status, LW_OK);
    into[out.size] = 0;
    return into;
}

static const char *read_answer_to(const char *text, enum lw__http_method asked) {
    read_answer_by(text, asked, strlen(text) + 1, memory[0], sizeof memory[0]);
    for (size_t step = 1; step < 9; step++)
        assert_string_equal(read_answer_by(text, asked, step, memory[1], sizeof memory[1]),
                            memory[0]);
    return memory[0];
}

static const char *read_answer(const char *text) {
    return read_answer_to(text, LW__HTTP_GET);
}

TEST(answers_end_by_length_chunks_or_connection) {
    assert_string_equal(read_answer("HTTP/1.1 200 OK\r\nX: y\r\nContent-Length: 2\r\n\r\nab"
                                    "HTTP/1.1 404 \r\nContent-Length: 0\r\n\r\n"),
                        "200 1.1 keep\nX: y\nContent-Length: 2\nab\ndone\n"
                        "404 1.1 keep\nContent-Length: 0\n\ndone\nend\n");
    assert_string_equal(read_answer("HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n"
                                    "1\r\na\r\n2\r\nbc\r\n0\r\n\r\n"),
                        "200 1.1 keep\nTransfer-Encoding: chunked\nabc\ndone\nend\n");
    assert_string_equal(read_answer("HTTP/1.0 200 OK\r\n\r\nall the rest"),
                        "200 1.0 close\nall the restend\n");
    assert_string_equal(read_answer("HTTP/1.1 200 OK\r\n\r\n"), "200 1.1 close\nend\n");
    assert_string_equal(read_answer("HTTP/1.1 200 OK\r\nConnection: close\r\n"
                                    "Content-Length: 1\r\n\r\nx"),
                        "200 1.1 close\nConnection: close\nContent-Length: 1\nx\ndone\nend\n");
}

TEST(some_answers_have_no_body_whatever_they_say) {
    assert_string_equal(read_answer("HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 x\r\n"
                                    "Content-Length: 9\r\n\r\n"),
                        "204 1.1 keep\n\ndone\n304 1.1 keep\nContent-Length: 9\n\ndone\nend\n");
    assert_string_equal(read_answer_to("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"
                                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
                                       LW__HTTP_HEAD),
                        "200 1.1 keep\nContent-Length: 9\n\ndone\n"
                        "200 1.1 keep\nTransfer-Encoding: chunked\n\ndone\nend\n");
    assert_string_equal(read_answer("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\n"
                                    "Content-Length: 1\r\n\r\nx"),
                        "100 1.1 keep interim\n201 1.1 keep\nContent-Length: 1\nx\ndone\nend\n");
}

TEST(answers_out_of_shape_are_refused) {
    static const char *const wrong[][2] = {
        {"HTTP/1.1 20 OK\r\n", "no status line"},
        {"HTTP/1.1 2000 OK\r\n", "no status line"},
        {"HTTP/1.1 600 OK\r\n", "no status line"},
        {"HTTP/1.1 099 OK\r\n", "no status line"},
        {"HTTP/1.1  200 OK\r\n", "no status line"},
        {"HTTP/1.1 200 \x01\r\n", "no status line"},
        {"HTTP/1.1\r\n", "no status line"},
        {"HTTP/2.0 200 OK\r\n", "not spoken here"},
        {"HTTP\r\n", "no version"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "no version"},
        {"HTTP/1.1 200 OK\n", "LF alone"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", "second"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", "both"},
        {"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "HTTP/1.0"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n", "at most 1000"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", "in the middle"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n", "in the middle"},
        {"HTTP/1.1 200 OK\r\nContent", "in the middle"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char *transcript = read_answer(wrong[i][0]);
        if (!strstr(transcript, wrong[i][1]))
            assert_string_equal(transcript, wrong[i][1]);
    }
}

TEST(a_body_without_a_length_has_the_limit_too) {
    char text[2000];
    int head = snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\n\r\n");
    memset(text + head, 'x', 1001);
    text[head + 1000] = 0;
    assert_non_null(strstr(read_answer(text), "xend\n"));
    text[head + 1000] = 'x';
    text[head + 1001] = 0;
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, memory[0], sizeof memory[0]);
    assert_int_equal(
        transcribe_answers(lw__slice_of(text), LW__HTTP_GET, 500, &transcript_limits, &out), 413);
}

TEST(headers_of_an_answer_are_found) {
    static const char text[] = "HTTP/1.1 503 x\r\nRetry-After: 3\r\n\r\n";
    struct lw__http_parser parser;
    struct lw__http_answer answer;
    struct lw__slice value;
    size_t used;
    lw__http_init(&parser, &transcript_limits);
    assert_int_equal(lw__http_answer(&parser, text, sizeof text - 1, LW__HTTP_GET, &answer, &used),
                     LW__HTTP_DONE);
    CHECK(lw__http_find_in_answer(&answer, "retry-after", &value) && lw__slice_is(value, "3"));
    CHECK(!lw__http_find_in_answer(&answer, "location", &value));
}

/* ---- requests ------------------------------------------------------------------------------- */

static char page[512];

static int ask(enum lw__http_method method, const char *target, const char *host, const char *body,
               struct lw__buffer *out) {
    struct lw__http_writer writer;
    lw__buffer_init_fixed(out, page, sizeof page - 1);
    memset(page, 0, sizeof page);
    lw__http_ask(&writer, out, method, lw__slice_of(target), lw__slice_of(host));
    lw__http_put(&writer, "Accept", lw__slice_of("*/*"));
    return lw__http_finish(&writer, lw__slice_of(body));
}

TEST(requests_are_written_as_the_parser_reads_them) {
    struct lw__buffer out, transcript;
    assert_status(ask(LW__HTTP_POST, "/v1/tasks?x=%20", "[::1]:80", "", &out), LW_OK);
    assert_string_equal(page, "POST /v1/tasks?x=%20 HTTP/1.1\r\nHost: [::1]:80\r\n"
                              "Accept: */*\r\nContent-Length: 0\r\n\r\n");
    assert_status(ask(LW__HTTP_GET, "/", "a", "", &out), LW_OK);
    assert_string_equal(page, "GET / HTTP/1.1\r\nHost: a\r\nAccept: */*\r\n\r\n");
    assert_status(ask(LW__HTTP_PUT, "/a", "a", "body", &out), LW_OK);
    lw__buffer_init_fixed(&transcript, memory[0], sizeof memory[0]);
    assert_int_equal(transcribe(lw__buffer_slice(&out), 1000, &transcript_limits, &transcript), 0);
    memory[0][transcript.size] = 0;
    assert_string_equal(memory[0], "PUT 1.1 keep length=4\npath=/a\nhost=a\nHost: a\n"
                                   "Accept: */*\nContent-Length: 4\nbody\ndone\nmore\n");
}

TEST(a_request_that_nobody_would_accept_is_not_written) {
    struct lw__buffer out;
    static const char *const wrong[][2] = {{"", "a"},      {"x", "a"},   {"/ x", "a"},
                                           {"/\r\n", "a"}, {"/", ""},    {"/", "a\r\nX: y"},
                                           {"/", "a b"},   {"/#x", "a"}, {"*", "a"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(ask(LW__HTTP_GET, wrong[i][0], wrong[i][1], "", &out), LW_EINVAL);
        assert_int_equal(out.size, 0);
    }
}

TEST(a_hang_up_between_messages_is_no_error) {
    struct lw__http_parser parser;
    lw__http_init(&parser, &transcript_limits);
    assert_int_equal(lw__http_hang_up(&parser, true), LW__HTTP_DONE);
    assert_int_equal(lw__http_hang_up(&parser, false), LW__HTTP_REFUSED);
    assert_int_equal(lw__http_hang_up(&parser, true), LW__HTTP_REFUSED);
}
