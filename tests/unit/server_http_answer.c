/* Answers: what is written, and that a buffer never holds half of one. */
#include "test.h"

#include "server/http.h"

#include <assert.h>
#include <stdio.h>

static char memory[1024];
static const struct lw__http_terms plain = {.minor = 1, .keep_alive = true};

static struct lw__buffer fixed(size_t capacity) {
    struct lw__buffer out;
    assert(capacity < sizeof memory);
    memset(memory, '#', sizeof memory);
    lw__buffer_init_fixed(&out, memory, capacity);
    return out;
}

static void assert_out(const struct lw__buffer *out, const char *expected) {
    char text[sizeof memory];
    snprintf(text, sizeof text, "%.*s", (int)out->size, out->data);
    assert_string_equal(text, expected);
}

TEST(an_answer_has_a_status_headers_a_length_and_a_body) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, plain, 201);
    assert_status(lw__http_put(&writer, "Location", lw__slice_of("/v1/tasks/7")), LW_OK);
    assert_status(lw__http_put(&writer, "X-Empty", (struct lw__slice){0}), LW_OK);
    assert_status(lw__http_finish(&writer, lw__slice_of("{\"id\":7}")), LW_OK);
    assert_out(&out, "HTTP/1.1 201 Created\r\nLocation: /v1/tasks/7\r\nX-Empty: \r\n"
                     "Content-Length: 8\r\n\r\n{\"id\":7}");
}

TEST(the_terms_of_the_request_decide_on_connection_and_body) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, (struct lw__http_terms){.minor = 1}, 200);
    assert_status(lw__http_finish(&writer, lw__slice_of("x")), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx");
    out = fixed(1000);
    lw__http_start(&writer, &out, (struct lw__http_terms){.keep_alive = true}, 200);
    assert_status(lw__http_finish(&writer, lw__slice_of("x")), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: keep-alive\r\n\r\nx");
    out = fixed(1000);
    lw__http_start(&writer, &out,
                   (struct lw__http_terms){.minor = 1, .keep_alive = true, .is_head = true}, 404);
    assert_status(lw__http_finish(&writer, lw__slice_of("gone")), LW_OK);
    assert_out(&out, "HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\n");
}

TEST(answers_that_have_no_body_have_no_length) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, plain, 204);
    assert_status(lw__http_finish(&writer, lw__slice_of("not sent")), LW_OK);
    assert_out(&out, "HTTP/1.1 204 No Content\r\n\r\n");
    out = fixed(1000);
    lw__http_start(&writer, &out, plain, 304);
    assert_status(lw__http_announce(&writer, 12), LW_OK);
    assert_out(&out, "HTTP/1.1 304 Not Modified\r\n\r\n");
    out = fixed(1000);
    lw__http_start(&writer, &out, plain, 200);
    assert_status(lw__http_announce(&writer, UINT64_MAX), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n");
}

TEST(a_header_cannot_smuggle_another_one_in) {
    static const char *const values[] = {"a\r\nX: y", "a\nb", "a\rb", "a\x01", "\x7f"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct lw__buffer out = fixed(1000);
        struct lw__http_writer writer;
        lw__http_start(&writer, &out, plain, 200);
        assert_status(lw__http_put(&writer, "X", lw__slice_of(values[i])), LW_EINVAL);
        assert_status(lw__http_put(&writer, "Y", lw__slice_of("fine")), LW_EINVAL);
        assert_status(lw__http_finish(&writer, lw__slice_of("body")), LW_EINVAL);
        assert_int_equal(out.size, 0);
        assert_status(out.status, LW_OK);
    }
    static const char *const names[] = {
        "", "a b", "a:", "a\r\n", "Content-Length", "CONNECTION", "transfer-encoding"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct lw__buffer out = fixed(1000);
        struct lw__http_writer writer;
        lw__http_start(&writer, &out, plain, 200);
        assert_status(lw__http_put(&writer, names[i], lw__slice_of("1")), LW_EINVAL);
    }
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, plain, 200);
    assert_status(lw__http_put(&writer, "X", (struct lw__slice){"a\0b", 3}), LW_EINVAL);
}

TEST(an_answer_that_does_not_fit_leaves_nothing_behind) {
    size_t whole = 0;
    for (size_t room = 200; room + 1 > 0; room--) {
        struct lw__buffer out = fixed(room + 6);
        struct lw__http_writer writer;
        lw__buffer_put_text(&out, "before");
        lw__http_start(&writer, &out, plain, 200);
        lw__http_put(&writer, "X", lw__slice_of("y"));
        int status = lw__http_finish(&writer, lw__slice_of("body"));
        if (status == LW_OK) {
            whole = out.size;
            continue;
        }
        assert_status(status, LW_EFULL);
        CHECK(room + 6 < whole);
        assert_out(&out, "before");
        assert_int_equal(memory[room + 6], '#');
    }
    assert_int_equal(whole, 6 + 48);
}

TEST(a_stream_goes_in_chunks_that_end) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, plain, 200);
    assert_status(lw__http_stream(&writer), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    lw__buffer_cut(&out, 0); /* sent */
    assert_status(lw__http_piece(&writer, lw__slice_of("0123456789abcdef")), LW_OK);
    assert_status(lw__http_piece(&writer, lw__slice_of("")), LW_OK);
    assert_status(lw__http_piece(&writer, lw__slice_of("x")), LW_OK);
    assert_out(&out, "10\r\n0123456789abcdef\r\n1\r\nx\r\n");
    lw__buffer_cut(&out, 0);
    assert_status(lw__http_end(&writer), LW_OK);
    assert_out(&out, "0\r\n\r\n");
}

TEST(a_piece_that_does_not_fit_can_be_tried_again) {
    struct lw__buffer out = fixed(60);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, plain, 200);
    assert_status(lw__http_stream(&writer), LW_OK);
    size_t head = out.size;
    assert_status(lw__http_piece(&writer, lw__slice_of("0123456789abcdef")), LW_EFULL);
    assert_int_equal(out.size, head);
    lw__buffer_cut(&out, 0);
    assert_status(lw__http_piece(&writer, lw__slice_of("0123456789abcdef")), LW_OK);
    assert_out(&out, "10\r\n0123456789abcdef\r\n");
}

TEST(a_stream_to_an_old_client_ends_with_the_connection) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    lw__http_start(&writer, &out, (struct lw__http_terms){.keep_alive = true}, 200);
    assert_status(lw__http_stream(&writer), LW_OK);
    CHECK(!writer.terms.keep_alive);
    assert_status(lw__http_piece(&writer, lw__slice_of("plain")), LW_OK);
    assert_status(lw__http_end(&writer), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nplain");
}

TEST(a_stream_for_head_is_a_head) {
    struct lw__buffer out = fixed(1000);
    struct lw__http_writer writer;
    struct lw__http_terms terms = plain;
    terms.is_head = true;
    lw__http_start(&writer, &out, terms, 200);
    assert_status(lw__http_stream(&writer), LW_OK);
    assert_status(lw__http_piece(&writer, lw__slice_of("plain")), LW_OK);
    assert_status(lw__http_end(&writer), LW_OK);
    assert_out(&out, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
}

TEST(every_status_that_a_parser_gives_has_a_reason) {
    static const int codes[] = {400, 413, 414, 417, 431, 501, 505};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        CHECK(strcmp(lw__http_reason(codes[i]), "Unknown") != 0);
    assert_string_equal(lw__http_reason(299), "Unknown");
}
