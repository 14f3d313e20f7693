/* transcript.h: what the HTTP parser says about some bytes, as text. The bytes come in steps of any
 * size, each time in a block of their own that ends where they end: so a pointer that is kept, or a
 * byte read too many, is something that a sanitizer sees; and however the bytes are cut, the
 * transcript must be the same. For the unit tests and the fuzz target. */
#ifndef LW_TESTS_SUPPORT_TRANSCRIPT_H
#define LW_TESTS_SUPPORT_TRANSCRIPT_H

#include "server/http.h"

#include <assert.h>
#include <stdlib.h>

static const struct lw__http_limits transcript_limits = {
    .line_max = 100, .field_max = 80, .head_max = 300, .fields_max = 8, .body_max = 1000};

struct transcript {
    struct lw__http_parser parser;
    const char *text;
    size_t size, step;
    size_t dropped, arrived; /* of text */
    struct lw__buffer *out;
};

static void transcript_slice(struct lw__buffer *out, const char *name, struct lw__slice slice) {
    lw__buffer_put_text(out, name);
    lw__buffer_put(out, slice);
    lw__buffer_put_text(out, "\n");
}

static void transcript_request(struct lw__buffer *out, const struct lw__http_request *r) {
    lw__buffer_print(out, "%s 1.%u%s%s%s length=%llu\n", lw__http_method_name(r->method),
                     r->terms.minor, r->terms.keep_alive ? " keep" : " close",
                     r->is_chunked ? " chunked" : "", r->expects_continue ? " expects" : "",
                     (unsigned long long)r->length);
    assert(r->terms.is_head == (r->method == LW__HTTP_HEAD));
    assert(r->has_body == (r->is_chunked || r->length > 0));
    assert(r->has_query || r->query.size == 0);
    assert(r->path.size > 0 && (r->path.data[0] == '/' || r->path.data[0] == '*'));
    transcript_slice(out, "path=", r->path);
    if (r->has_query)
        transcript_slice(out, "query=", r->query);
    transcript_slice(out, "host=", r->host);
    for (size_t i = 0; i < r->field_count; i++) {
        lw__buffer_put(out, r->fields[i].name);
        transcript_slice(out, ": ", r->fields[i].value);
    }
}

/* What has arrived and was not dropped, in a block of exactly its size. */
static char *transcript_copy(const struct transcript *t, size_t *size) {
    *size = t->arrived - t->dropped;
    char *copy = malloc(*size + (*size == 0));
    if (*size > 0)
        memcpy(copy, t->text + t->dropped, *size);
    return copy;
}

static enum lw__http_event transcript_head(struct transcript *t) {
    struct lw__http_request request;
    size_t size, used;
    char *copy = transcript_copy(t, &size);
    enum lw__http_event event = lw__http_head(&t->parser, copy, size, &request, &used);
    assert(used <= size && (event == LW__HTTP_DONE) == (used > 0) && event != LW__HTTP_PIECE);
    if (event == LW__HTTP_DONE)
        transcript_request(t->out, &request);
    t->dropped += used;
    free(copy);
    return event;
}

static enum lw__http_event transcript_body(struct transcript *t) {
    struct lw__slice piece;
    size_t size, used;
    char *copy = transcript_copy(t, &size);
    enum lw__http_event event = lw__http_body(&t->parser, copy, size, &piece, &used);
    assert(used <= size && (event == LW__HTTP_PIECE) == (piece.size > 0));
    assert(piece.size == 0 || (piece.data >= copy && piece.data + piece.size <= copy + size));
    lw__buffer_put(t->out, piece);
    t->dropped += used;
    free(copy);
    if (event == LW__HTTP_DONE)
        lw__buffer_put_text(t->out, "\ndone\n");
    return event;
}

/* Writes the transcript of all requests in `text`, which comes in steps of so many bytes. Returns
 * the status of the refusal that ended it, 0 if the parser would read on. */
static inline int transcribe(struct lw__slice text, size_t step,
                             const struct lw__http_limits *limits, struct lw__buffer *out) {
    struct transcript t = {.text = text.data, .size = text.size, .step = step, .out = out};
    bool in_body = false;
    lw__http_init(&t.parser, limits);
    for (;;) {
        enum lw__http_event event = in_body ? transcript_body(&t) : transcript_head(&t);
        if (event == LW__HTTP_REFUSED) {
            lw__buffer_print(out, "%d %s\n", t.parser.refusal.status, t.parser.refusal.sentence);
            return t.parser.refusal.status;
        }
        if (event == LW__HTTP_DONE)
            in_body = !in_body;
        if (event != LW__HTTP_MORE)
            continue;
        if (t.arrived == t.size) {
            lw__buffer_put_text(out, in_body ? "\nmore body\n" : "more\n");
            return 0;
        }
        t.arrived += t.size - t.arrived < step ? t.size - t.arrived : step;
    }
}

/* ---- answers -------------------------------------------------------------------------------- */

/* The head of an answer; *in_body is whether a body follows. */
static enum lw__http_event transcript_answer(struct transcript *t, enum lw__http_method asked,
                                             bool *in_body) {
    struct lw__http_answer answer;
    size_t size, used;
    char *copy = transcript_copy(t, &size);
    enum lw__http_event event = lw__http_answer(&t->parser, copy, size, asked, &answer, &used);
    assert(used <= size && (event == LW__HTTP_DONE) == (used > 0) && event != LW__HTTP_PIECE);
    if (event == LW__HTTP_DONE) {
        lw__buffer_print(t->out, "%d 1.%u %s%s\n", answer.code, answer.minor,
                         answer.keep_alive ? "keep" : "close", answer.is_interim ? " interim" : "");
        for (size_t i = 0; i < answer.field_count; i++) {
            lw__buffer_put(t->out, answer.fields[i].name);
            transcript_slice(t->out, ": ", answer.fields[i].value);
        }
        *in_body = !answer.is_interim;
    }
    t->dropped += used;
    free(copy);
    return event;
}

/* The same for answers, which the end of the connection follows. */
static inline int transcribe_answers(struct lw__slice text, enum lw__http_method asked, size_t step,
                                     const struct lw__http_limits *limits, struct lw__buffer *out) {
    struct transcript t = {.text = text.data, .size = text.size, .step = step, .out = out};
    bool in_body = false;
    lw__http_init(&t.parser, limits);
    for (;;) {
        enum lw__http_event event =
            in_body ? transcript_body(&t) : transcript_answer(&t, asked, &in_body);
        if (event == LW__HTTP_DONE && t.parser.phase == 0)
            in_body = false;
        if (event == LW__HTTP_MORE && t.arrived == t.size) {
            event = lw__http_hang_up(&t.parser, t.dropped == t.size);
            if (event == LW__HTTP_DONE) {
                lw__buffer_put_text(out, "end\n");
                return 0;
            }
        }
        if (event == LW__HTTP_REFUSED) {
            lw__buffer_print(out, "%d %s\n", t.parser.refusal.status, t.parser.refusal.sentence);
            return t.parser.refusal.status;
        }
        if (event == LW__HTTP_MORE)
            t.arrived += t.size - t.arrived < step ? t.size - t.arrived : step;
    }
}

#endif
