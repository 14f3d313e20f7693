/* Requests: what is read, what is refused and with which status, however the bytes arrive. */
#include "test.h"

#include "transcript.h"

#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

/* A literal with all its bytes, zeros too. */
#define BYTES(literal) ((struct lw__slice){(literal), sizeof(literal) - 1})

static char memory[2][64 << 10];

/* The transcript, which must be the same for bytes one by one, a few at a time and all at once. */
static const char *read_as(struct lw__slice text, const struct lw__http_limits *limits,
                           int *status) {
    struct lw__buffer whole;
    lw__buffer_init_fixed(&whole, memory[0], sizeof memory[0] - 1);
    *status = transcribe(text, text.size + 1, limits, &whole);
    memory[0][whole.size] = 0;
    for (size_t step = 1; step < 12; step++) {
        struct lw__buffer pieces;
        lw__buffer_init_fixed(&pieces, memory[1], sizeof memory[1] - 1);
        assert_int_equal(transcribe(text, step, limits, &pieces), *status);
        memory[1][pieces.size] = 0;
        assert_string_equal(memory[1], memory[0]);
    }
    return memory[0];
}

static const char *read_text(const char *text) {
    int status;
    return read_as(lw__slice_of(text), &transcript_limits, &status);
}

static void assert_refused(struct lw__slice text, int status, const char *part) {
    int actual;
    const char *transcript = read_as(text, &transcript_limits, &actual);
    if (actual != status || !strstr(transcript, part)) {
        fprintf(stderr, "should be %d with \"%s\":\n%.*s\n-- but is:\n%s\n", status, part,
                (int)text.size, text.data, transcript);
        abort();
    }
}

/* ---- what is read --------------------------------------------------------------------------- */

TEST(a_request_falls_into_its_parts) {
    assert_string_equal(read_text("POST /v1/queues/mail/tasks?kind=a%20b&x HTTP/1.1\r\n"
                                  "Host: localhost:80\r\nX-Odd:  two  words \t\r\nEmpty:\r\n"
                                  "content-length: 5\r\n\r\nhello"),
                        "POST 1.1 keep length=5\npath=/v1/queues/mail/tasks\n"
                        "query=kind=a%20b&x\nhost=localhost:80\nHost: localhost:80\n"
                        "X-Odd: two  words\nEmpty: \ncontent-length: 5\nhello\ndone\nmore\n");
}

TEST(requests_in_a_row_are_read_one_by_one) {
    assert_string_equal(read_text("GET / HTTP/1.1\r\nHost: a\r\n\r\n"
                                  "PUT /x HTTP/1.1\r\nHost: b\r\nContent-Length: 2\r\n\r\nab"
                                  "\r\nHEAD /y? HTTP/1.1\r\nHost: c\r\n\r\n"
                                  "DELETE /z HTTP/1.1\r\nHost:"),
                        "GET 1.1 keep length=0\npath=/\nhost=a\nHost: a\n\ndone\n"
                        "PUT 1.1 keep length=2\npath=/x\nhost=b\nHost: b\nContent-Length: 2\nab\n"
                        "done\nHEAD 1.1 keep length=0\npath=/y\nquery=\nhost=c\nHost: c\n\ndone\n"
                        "more\n");
}

TEST(chunks_are_put_together_and_trailers_are_dropped) {
    assert_string_equal(
        read_text("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\n\r\n"
                  "5\r\nhello\r\n00A;name=value; other\r\n, you\r\nall\r\n0\r\n"
                  "Checksum: 12\r\nX: y\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n"),
        "POST 1.1 keep chunked length=0\npath=/\nhost=a\nHost: a\nTransfer-Encoding: Chunked\n"
        "hello, you\r\nall\ndone\nGET 1.1 keep length=0\npath=/\nhost=a\nHost: a\n\ndone\nmore\n");
}

/* Nothing of a body is copied: the piece is where the bytes came in. */
TEST(a_body_that_has_arrived_is_one_piece_of_the_callers_own_bytes) {
    static const char text[] = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhelloGET";
    struct lw__http_parser parser;
    struct lw__http_request request;
    struct lw__slice piece;
    size_t used, more;
    lw__http_init(&parser, &transcript_limits);
    assert_int_equal(lw__http_head(&parser, text, sizeof text - 1, &request, &used), LW__HTTP_DONE);
    assert_ptr_equal(request.path.data, text + 5);
    assert_int_equal(lw__http_body(&parser, text + used, sizeof text - 1 - used, &piece, &more),
                     LW__HTTP_PIECE);
    assert_ptr_equal(piece.data, text + used);
    assert_int_equal(piece.size, 5);
    assert_int_equal(lw__http_body(&parser, text + used + 5, 3, &piece, &more), LW__HTTP_DONE);
    assert_int_equal(more, 0);
}

static void assert_first_line(const char *text, const char *line) {
    const char *transcript = read_text(text);
    if (strncmp(transcript, line, strlen(line)) != 0)
        assert_string_equal(transcript, line);
}

TEST(connections_are_kept_as_the_version_and_the_client_say) {
    assert_first_line("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 keep ");
    assert_first_line("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET 1.1 close ");
    assert_first_line("GET / HTTP/1.1\r\nHost: a\r\nConnection: x, CLOSE\r\n\r\n",
                      "GET 1.1 close ");
    assert_first_line("GET / HTTP/1.1\r\nHost: a\r\nConnection: x\r\nconnection:close\r\n\r\n",
                      "GET 1.1 close ");
    assert_first_line("GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, \"close\r\n\r\n",
                      "GET 1.1 close "); /* in doubt, closed */
    assert_first_line("GET / HTTP/1.0\r\n\r\n", "GET 1.0 close ");
    assert_first_line("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "GET 1.0 keep ");
    assert_first_line("GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "GET 1.0 close ");
}

TEST(an_expectation_is_told_when_a_body_waits_for_it) {
    assert_first_line("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\n"
                      "Content-Length: 3\r\n\r\n",
                      "PUT 1.1 keep expects length=3");
    assert_first_line("PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"
                      "Expect: 100-continue\r\n\r\n",
                      "PUT 1.1 keep chunked expects");
    assert_first_line("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n",
                      "PUT 1.1 keep length=0"); /* no body */
    assert_first_line("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n",
                      "PUT 1.0 close length=3");
}

TEST(a_target_may_have_a_scheme_and_a_host_which_wins) {
    assert_string_equal(
        read_text("GET HTTP://example.org:8080/a?b HTTP/1.1\r\nHost: other\r\n\r\n"),
        "GET 1.1 keep length=0\npath=/a\nquery=b\nhost=example.org:8080\n"
        "Host: other\n\ndone\nmore\n");
    assert_string_equal(read_text("GET http://[::1]?x HTTP/1.1\r\nHost: [::1]\r\n\r\n"),
                        "GET 1.1 keep length=0\npath=/\nquery=x\nhost=[::1]\nHost: [::1]\n\n"
                        "done\nmore\n");
    assert_string_equal(read_text("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n"),
                        "OPTIONS 1.1 keep length=0\npath=*\nhost=a\nHost: a\n\ndone\nmore\n");
}

TEST(a_header_is_found_whatever_its_case) {
    static const char text[] = "GET / HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nx-one: 2\r\n\r\n";
    struct lw__http_parser parser;
    struct lw__http_request request;
    struct lw__slice value;
    size_t used;
    lw__http_init(&parser, &transcript_limits);
    assert_int_equal(lw__http_head(&parser, text, sizeof text - 1, &request, &used), LW__HTTP_DONE);
    CHECK(lw__http_find(&request, "x-ONE", &value) && lw__slice_is(value, "1"));
    CHECK(!lw__http_find(&request, "x-on", &value));
}

/* ---- what is refused ------------------------------------------------------------------------ */

#define HOST "Host: a\r\n"
#define GET_WITH(headers) BYTES("GET / HTTP/1.1\r\n" HOST headers "\r\n")
#define CHUNKS(body) BYTES("POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n" body)

TEST(lines_that_do_not_end_in_cr_lf_are_refused) {
    assert_refused(BYTES("GET / HTTP/1.1\nHost: a\n\n"), 400, "LF alone");
    assert_refused(GET_WITH("X: y\n"), 400, "LF alone");
    assert_refused(BYTES("GET / HTTP/1.1\r\n" HOST "\n"), 400, "LF alone");
    assert_refused(BYTES("\nGET / HTTP/1.1\r\n" HOST "\r\n"), 400, "LF alone");
    assert_refused(GET_WITH("X: y\rZ: 1\r\n"), 400, "0x0d");
    assert_refused(GET_WITH("X: y\r\r\n"), 400, "0x0d");
    assert_refused(BYTES("GET / HTTP/1.1\r\r\n" HOST "\r\n"), 400, "HTTP/1.1\\x0d");
    assert_refused(BYTES("\r\n\r\nGET / HTTP/1.1\r\n" HOST "\r\n"), 400, "empty lines");
}

TEST(control_bytes_are_refused_wherever_they_are) {
    assert_refused(BYTES("GET /\0 HTTP/1.1\r\n" HOST "\r\n"), 400, "0x00");
    assert_refused(BYTES("G\0T / HTTP/1.1\r\n" HOST "\r\n"), 400, "G\\x00T");
    assert_refused(GET_WITH("X\0: y\r\n"), 400, "0x00");
    assert_refused(GET_WITH("X: y\0z\r\n"), 400, "0x00");
    assert_refused(GET_WITH("X: \x7f\r\n"), 400, "0x7f");
    assert_refused(GET_WITH("X: \x1b[2J\r\n"), 400, "0x1b");
    assert_refused(CHUNKS("5\0\r\nhello\r\n0\r\n\r\n"), 400, "size of a chunk");
}

TEST(headers_out_of_shape_are_refused) {
    assert_refused(GET_WITH("X : y\r\n"), 400, "before the colon");
    assert_refused(GET_WITH("X\t: y\r\n"), 400, "before the colon");
    assert_refused(GET_WITH("X: y\r\n folded\r\n"), 400, "folded");
    assert_refused(GET_WITH("X: y\r\n\tfolded\r\n"), 400, "folded");
    assert_refused(BYTES("GET / HTTP/1.1\r\n Host: a\r\n\r\n"), 400, "folded");
    assert_refused(GET_WITH("just words\r\n"), 400, "before the colon");
    assert_refused(GET_WITH("word\r\n"), 400, "no colon");
    assert_refused(GET_WITH(": y\r\n"), 400, "no name");
    assert_refused(GET_WITH("X(y): z\r\n"), 400, "0x28");
    assert_refused(GET_WITH("\xc3\xa4: z\r\n"), 400, "0xc3");
}

TEST(two_lengths_are_refused_even_equal_ones) {
    assert_refused(GET_WITH("Content-Length: 5\r\nContent-Length: 5\r\n"), 400,
                   "second Content-Length");
    assert_refused(GET_WITH("Content-Length: 5\r\ncontent-length: 6\r\n"), 400,
                   "second Content-Length");
    assert_refused(GET_WITH("Content-Length: 5, 5\r\n"), 400, "\"5, 5\", must be a number");
    assert_refused(GET_WITH("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n"), 400, "both");
    assert_refused(GET_WITH("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n"), 400, "both");
    assert_refused(GET_WITH("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 400,
                   "second Transfer-Encoding");
}

TEST(lengths_that_are_no_numbers_are_refused) {
    static const char *const wrong[] = {"-1", "+1", "0x10", "1e3", "1 2", "", "1.", "\xd9\xa1"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: %s\r\n\r\n",
                 wrong[i]);
        assert_refused(lw__slice_of(text), 400, "must be a number");
    }
}

TEST(a_body_that_is_too_large_is_refused_before_it_comes) {
    assert_refused(GET_WITH("Content-Length: 1001\r\n"), 413, "at most 1000");
    assert_refused(GET_WITH("Content-Length: 10737418240\r\n"), 413, "at most 1000");
    assert_refused(GET_WITH("Content-Length: 18446744073709551616\r\n"), 413, "at most 1000");
    assert_refused(GET_WITH("Content-Length: 184467440737095516160000\r\n"), 413, "at most 1000");
    assert_first_line("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 00001000\r\n\r\n",
                      "PUT 1.1 keep length=1000");
    assert_refused(CHUNKS("3e9\r\n"), 413, "more than 1000");
    assert_refused(CHUNKS("3\r\nabc\r\n3e6\r\n"), 413, "more than 1000");
    assert_refused(CHUNKS("ffffffffffffffff\r\n"), 413, "more than 1000");
    assert_refused(CHUNKS("1\r\na\r\nffffffffffffffff\r\n"), 413, "more than 1000");
}

TEST(chunks_out_of_shape_are_refused) {
    static const char *const wrong[] = {"\r\n",
                                        "g\r\n",
                                        "0x5\r\n",
                                        "-5\r\n",
                                        "+5\r\n",
                                        " 5\r\n",
                                        "5 \r\n",
                                        "5 ;x\r\n",
                                        ";x\r\n",
                                        "10000000000000000\r\n",
                                        "00000000000000005\r\n",
                                        "5;\x01\r\n",
                                        "5\n"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[200];
        snprintf(text, sizeof text,
                 "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%s", wrong[i]);
        assert_refused(lw__slice_of(text), 400, i + 1 < COUNT_OF(wrong) ? "size of a chunk" : "LF");
    }
    assert_refused(CHUNKS("5\r\nhello!\r\n"), 400, "does not end where");
    assert_refused(CHUNKS("5\r\nhello\n"), 400, "does not end where");
    assert_refused(CHUNKS("5\r\nhello\rx"), 400, "does not end where");
}

TEST(trailers_out_of_shape_are_refused) {
    assert_refused(CHUNKS("0\r\nX : y\r\n\r\n"), 400, "before the colon");
    assert_refused(CHUNKS("0\r\nX: y\n\r\n"), 400, "LF alone");
    assert_refused(CHUNKS("0\r\nContent-Length: 5\r\n\r\n"), 400, "after the body");
    assert_refused(CHUNKS("0\r\ntransfer-encoding: chunked\r\n\r\n"), 400, "after the body");
    assert_refused(CHUNKS("0\r\nHOST: b\r\n\r\n"), 400, "after the body");
}

TEST(a_host_is_there_once_and_is_one) {
    assert_refused(BYTES("GET / HTTP/1.1\r\n\r\n"), 400, "no Host");
    assert_refused(BYTES("GET http://a/ HTTP/1.1\r\n\r\n"), 400, "no Host");
    assert_refused(GET_WITH("Host: a\r\n"), 400, "second Host");
    assert_refused(BYTES("GET / HTTP/1.0\r\nhost: a\r\nHOST: b\r\n\r\n"), 400, "second Host");
    static const char *const wrong[] = {"",     "a b", "a/b", "user@a", "a:b", ":80",
                                        "[::1", "[]",  "[x]", "[::1]x", "a[b", "a:80:80"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[200];
        snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", wrong[i]);
        assert_refused(lw__slice_of(text), 400, "must be a name or address");
    }
}

TEST(codings_methods_versions_and_expectations_that_are_not_known_are_said_so) {
    assert_refused(GET_WITH("Transfer-Encoding: gzip\r\n"), 501, "only chunked");
    assert_refused(GET_WITH("Transfer-Encoding: gzip, chunked\r\n"), 501, "only chunked");
    assert_refused(GET_WITH("Transfer-Encoding: chunked;q=1\r\n"), 501, "only chunked");
    assert_refused(GET_WITH("Transfer-Encoding:\r\n"), 501, "only chunked");
    assert_refused(BYTES("GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400, "HTTP/1.0");
    assert_refused(GET_WITH("Expect: 200-ok\r\n"), 417, "100-continue");
    assert_refused(BYTES("BREW / HTTP/1.1\r\n"), 501, "\"BREW\"");
    assert_refused(BYTES("get / HTTP/1.1\r\n"), 501, "\"get\"");
    assert_refused(BYTES("CONNECT a:80 HTTP/1.1\r\n"), 501, "\"CONNECT\"");
    assert_refused(BYTES("GET / HTTP/2.0\r\n"), 505, "HTTP/2.0");
    assert_refused(BYTES("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 501, "\"PRI\"");
    assert_refused(BYTES("GET / HTTP/1.2\r\n"), 505, "HTTP/1.2");
    assert_refused(BYTES("GET / HTTP/0.9\r\n"), 505, "HTTP/0.9");
}

TEST(request_lines_out_of_shape_are_refused_as_soon_as_they_are_there) {
    assert_refused(BYTES("GET /\r\n"), 400, "no version");
    assert_refused(BYTES("GET\r\n"), 400, "no HTTP request");
    assert_refused(BYTES("GET  / HTTP/1.1\r\n"), 400, "0x20");
    assert_refused(BYTES("GET /  HTTP/1.1\r\n"), 400, "0x20");
    assert_refused(BYTES("GET  HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES(" GET / HTTP/1.1\r\n"), 400, "no method");
    assert_refused(BYTES("GET / HTTP/1.1 \r\n"), 400, "must be HTTP/1.1");
    assert_refused(BYTES("GET / http/1.1\r\n"), 400, "must be HTTP/1.1");
    assert_refused(BYTES("GET / HTTP/1.10\r\n"), 400, "must be HTTP/1.1");
    assert_refused(BYTES("GET / HTTP/11\r\n"), 400, "must be HTTP/1.1");
    assert_refused(BYTES("GE(T / HTTP/1.1\r\n"), 400, "no method");
    assert_refused(BYTES("\x16\x03\x01\x02\x00\x01\r\n"), 400, "no HTTP request");
    assert_refused(BYTES("GET path HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES("GET * HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES("GET ftp://a/ HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES("GET http:///a HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES("GET http://u@a/ HTTP/1.1\r\n"), 400, "must begin with /");
    assert_refused(BYTES("GET /a#b HTTP/1.1\r\n"), 400, "write it as %23");
    assert_refused(BYTES("GET /\xc3\xa4 HTTP/1.1\r\n"), 400, "write it as %C3");
    assert_refused(BYTES("GET /{a} HTTP/1.1\r\n"), 400, "write it as %7B");
    assert_refused(BYTES("GET /%4 HTTP/1.1\r\n"), 400, "hex digits");
    assert_refused(BYTES("GET /%zz HTTP/1.1\r\n"), 400, "hex digits");
    assert_refused(BYTES("GET /%00%4g HTTP/1.1\r\n"), 400, "hex digits");
}

/* ---- limits --------------------------------------------------------------------------------- */

/* A request with a path, a header and a number of headers of the given sizes. */
static struct lw__slice sized_request(size_t line, size_t field, size_t fields) {
    static char text[8 << 10];
    size_t at = 0;
    at += (size_t)snprintf(text, sizeof text, "GET /%0*d HTTP/1.1\r\n", (int)(line - 14), 0);
    at += (size_t)snprintf(text + at, sizeof text - at, "Host: a\r\n");
    if (field > 0)
        at += (size_t)snprintf(text + at, sizeof text - at, "X: %0*d\r\n", (int)(field - 3), 0);
    for (size_t i = 0; i < fields; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "A:\r\n");
    at += (size_t)snprintf(text + at, sizeof text - at, "\r\n");
    return (struct lw__slice){text, at};
}

static void assert_read(struct lw__slice text) {
    int status;
    const char *transcript = read_as(text, &transcript_limits, &status);
    assert_int_equal(status, 0);
    assert_non_null(strstr(transcript, "done\n"));
}

TEST(each_limit_lets_pass_what_it_says_and_not_a_byte_more) {
    assert_read(sized_request(100, 0, 0));
    assert_refused(sized_request(101, 0, 0), 414, "the first line has more than 100 bytes");
    assert_read(sized_request(20, 80, 0));
    assert_refused(sized_request(20, 81, 0), 431, "a header has more than 80 bytes");
    assert_read(sized_request(20, 0, 7));
    assert_refused(sized_request(20, 0, 8), 431, "more than 8 headers");
    assert_refused(sized_request(20, 0, 1000), 431, "more than 8 headers");
}

TEST(the_head_has_a_limit_of_its_own) {
    struct lw__http_limits limits = transcript_limits;
    struct lw__slice text = sized_request(50, 40, 5);
    int status;
    limits.head_max = text.size - 4; /* the end of the last header, and the empty line */
    read_as(text, &limits, &status);
    assert_int_equal(status, 0);
    limits.head_max--;
    const char *transcript = read_as(text, &limits, &status);
    assert_int_equal(status, 431);
    assert_non_null(strstr(transcript, "the head has more than"));
    text.size -= 60; /* a part of it is enough */
    limits.head_max = text.size - 20;
    read_as(text, &limits, &status);
    assert_int_equal(status, 431);
}

TEST(ten_thousand_headers_are_refused_at_the_first_too_many) {
    static char text[128 << 10];
    struct lw__http_limits limits = {8192, 8192, 1 << 20, LW__HTTP_FIELDS_MAX, 1000};
    struct lw__http_parser parser;
    struct lw__http_request request;
    size_t used, at = (size_t)snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\n");
    for (int i = 0; i < 10000; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "H%d: v\r\n", i);
    lw__http_init(&parser, &limits);
    assert_int_equal(lw__http_head(&parser, text, at, &request, &used), LW__HTTP_REFUSED);
    assert_int_equal(parser.refusal.status, 431);
    assert_int_equal(parser.lines, LW__HTTP_FIELDS_MAX + 2); /* with the request line */
}

TEST(extensions_and_trailers_have_limits_too) {
    char text[4096];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "PUT / HTTP/1.1\r\nHost: a\r\n"
                                 "Transfer-Encoding: chunked\r\n\r\n");
    size_t body = at;
    for (int i = 0; i < 20; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "1;%020d\r\nx\r\n", 0);
    assert_refused((struct lw__slice){text, at}, 431, "bytes of extensions");
    at = body + (size_t)snprintf(text + body, sizeof text - body, "1;%0300d\r\n", 0);
    assert_refused((struct lw__slice){text, at}, 400, "more than 256 bytes");
    at = body + (size_t)snprintf(text + body, sizeof text - body, "0\r\n");
    for (int i = 0; i < 9; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "A: b\r\n");
    assert_refused((struct lw__slice){text, at}, 431, "trailers");
    at = body + (size_t)snprintf(text + body, sizeof text - body, "0\r\nA: %080d\r\n", 0);
    assert_refused((struct lw__slice){text, at}, 431, "a trailer has more than 80 bytes");
    at = body + (size_t)snprintf(text + body, sizeof text - body, "0\r\n");
    for (int i = 0; i < 5; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "A: %070d\r\n", 0);
    assert_refused((struct lw__slice){text, at}, 431, "bytes of them");
}

TEST(a_refusal_stays_and_its_sentence_is_printable) {
    static const char text[] = "\x1b[31m\x07\n";
    struct lw__http_parser parser;
    struct lw__http_request request;
    struct lw__slice piece;
    size_t used;
    lw__http_init(&parser, &transcript_limits);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(lw__http_head(&parser, text, 7, &request, &used), LW__HTTP_REFUSED);
        assert_int_equal(used, 0);
    }
    assert_int_equal(lw__http_body(&parser, text, 7, &piece, &used), LW__HTTP_REFUSED);
    int status;
    const char *transcript = read_as(BYTES("\x1b[31m\"\\\r\n"), &transcript_limits, &status);
    for (const char *c = transcript; *c; c++)
        CHECK((*c >= 0x20 && *c < 0x7f) || *c == '\n');
}

/* A slow sender's bytes are looked at once each: the place is kept. */
TEST(each_byte_of_a_head_is_looked_at_once) {
    static char text[1 << 20];
    static const struct lw__http_limits limits = {sizeof text, 10, sizeof text, 8, 0};
    struct lw__http_parser parser;
    struct lw__http_request request;
    size_t used;
    memset(text, 'a', sizeof text);
    lw__http_init(&parser, &limits);
    for (size_t size = 1; size <= sizeof text; size++) {
        assert_int_equal(lw__http_head(&parser, text, size, &request, &used), LW__HTTP_MORE);
        assert_int_equal(parser.seen, size);
    }
}

/* ---- bytes ---------------------------------------------------------------------------------- */

static bool is_one_of(int byte, const char *others) {
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z')
           || (byte >= '0' && byte <= '9') || (byte != 0 && strchr(others, byte));
}

/* Puts one byte at the end of `before`, and `after` behind it; whether that is read. */
static bool is_read_with(const char *before, int byte, const char *after) {
    char text[200];
    int length = snprintf(text, sizeof text, "%s%c%s", before, byte, after);
    struct lw__http_parser parser;
    struct lw__http_request request;
    size_t used;
    lw__http_init(&parser, &transcript_limits);
    return lw__http_head(&parser, text, (size_t)length, &request, &used) == LW__HTTP_DONE;
}

TEST(every_byte_is_accepted_where_the_grammar_has_it_and_nowhere_else) {
    for (int byte = 0; byte < 256; byte++) {
        bool is_value = byte == '\t' || (byte >= ' ' && byte < 0x7f) || byte >= 0x80;
        assert_int_equal(is_read_with("GET /a", byte, "b HTTP/1.1\r\nHost: a\r\n\r\n"),
                         byte != '%' && is_one_of(byte, "-._~!$&'()*+,;=:@/?"));
        assert_int_equal(is_read_with("GET / HTTP/1.1\r\nHost: a\r\nX", byte, "y: z\r\n\r\n"),
                         byte == ':' || is_one_of(byte, "!#$%&'*+-.^_`|~"));
        assert_int_equal(is_read_with("GET / HTTP/1.1\r\nHost: a\r\nX: y", byte, "z\r\n\r\n"),
                         is_value);
        assert_int_equal(is_read_with("GET / HTTP/1.1\r\nHost: a", byte, "b\r\n\r\n"),
                         is_one_of(byte, "-._~!$&'()*+,;=%"));
    }
}
