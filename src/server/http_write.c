/* Writing answers, and requests. */
#include "server/http_internal.h"

#include <assert.h>

const char lw__http_continue[] = "HTTP/1.1 100 Continue\r\n\r\n";

static const struct {
    int status;
    const char *reason;
} reasons[] = {
    {200, "OK"},
    {201, "Created"},
    {202, "Accepted"},
    {204, "No Content"},
    {304, "Not Modified"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {422, "Unprocessable Content"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {507, "Insufficient Storage"},
};

const char *lw__http_reason(int status) {
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}

void lw__http_start(struct lw__http_writer *writer, struct lw__buffer *out,
                    struct lw__http_terms terms, int code) {
    assert(code >= 200 && code <= 599);
    *writer = (struct lw__http_writer){.out = out,
                                       .terms = terms,
                                       .code = code,
                                       .start = out->size,
                                       .needs_length = true,
                                       .status = LW_OK};
    lw__buffer_put_text(out, "HTTP/1.1 ");
    lw__buffer_put_uint(out, (uint64_t)code);
    lw__buffer_put_byte(out, ' ');
    lw__buffer_put_text(out, lw__http_reason(code));
    lw__buffer_put_text(out, "\r\n");
}

static bool is_all(struct lw__slice text, int class) {
    const char *end = lw__slice_end(text);
    return text.size > 0 && lw__http_span(text.data, end, class) == end;
}

void lw__http_ask(struct lw__http_writer *writer, struct lw__buffer *out,
                  enum lw__http_method method, struct lw__slice target, struct lw__slice host) {
    *writer = (struct lw__http_writer){
        .out = out, .terms = {.minor = 1, .keep_alive = true}, .start = out->size, .status = LW_OK};
    writer->needs_length =
        method == LW__HTTP_POST || method == LW__HTTP_PUT || method == LW__HTTP_PATCH;
    if (!is_all(target, LW__HTTP_TARGET) || target.data[0] != '/' || !lw__http_is_host(host))
        writer->status = LW_EINVAL;
    lw__buffer_print(out, "%s ", lw__http_method_name(method));
    lw__buffer_put(out, target);
    lw__buffer_put_text(out, " HTTP/1.1\r\nHost: ");
    lw__buffer_put(out, host);
    lw__buffer_put_text(out, "\r\n");
}

/* ---- the head ------------------------------------------------------------------------------- */

static bool may_put(const char *name, struct lw__slice value) {
    static const char *const own[] = {"connection", "content-length", "transfer-encoding"};
    struct lw__slice text = lw__slice_of(name);
    const char *name_end = name + text.size, *value_end = lw__slice_end(value);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (lw__slice_is_caseless(text, own[i]))
            return false;
    return text.size > 0 && lw__http_span(name, name_end, LW__HTTP_TOKEN) == name_end
           && lw__http_span(value.data, value_end, LW__HTTP_VALUE) == value_end;
}

static void put_field(struct lw__buffer *out, const char *name, struct lw__slice value) {
    lw__buffer_put_text(out, name);
    lw__buffer_put_text(out, ": ");
    lw__buffer_put(out, value);
    lw__buffer_put_text(out, "\r\n");
}

/* What went wrong so far; if something did, nothing of it stays in the buffer. */
static int settle(struct lw__http_writer *writer) {
    int status = writer->status < 0 ? writer->status : writer->out->status;
    if (status < 0) {
        lw__buffer_cut(writer->out, writer->start);
        writer->status = status;
    }
    return status;
}

int lw__http_put(struct lw__http_writer *writer, const char *name, struct lw__slice value) {
    if (writer->status == LW_OK && !may_put(name, value))
        writer->status = LW_EINVAL;
    if (writer->status == LW_OK)
        put_field(writer->out, name, value);
    return writer->status;
}

static void end_head(struct lw__http_writer *writer) {
    const struct lw__http_terms *terms = &writer->terms;
    if (!terms->keep_alive)
        lw__buffer_put_text(writer->out, "Connection: close\r\n");
    else if (terms->minor == 0)
        lw__buffer_put_text(writer->out, "Connection: keep-alive\r\n");
    lw__buffer_put_text(writer->out, "\r\n");
}

static bool is_bodiless(int code) {
    return code == 204 || code == 304;
}

static void put_head(struct lw__http_writer *writer, uint64_t length) {
    if (!is_bodiless(writer->code) && (length > 0 || writer->needs_length)) {
        lw__buffer_put_text(writer->out, "Content-Length: ");
        lw__buffer_put_uint(writer->out, length);
        lw__buffer_put_text(writer->out, "\r\n");
    }
    end_head(writer);
}

int lw__http_announce(struct lw__http_writer *writer, uint64_t length) {
    put_head(writer, length);
    return settle(writer);
}

int lw__http_finish(struct lw__http_writer *writer, struct lw__slice body) {
    put_head(writer, body.size);
    if (!writer->terms.is_head && !is_bodiless(writer->code))
        lw__buffer_put(writer->out, body);
    return settle(writer);
}

/* ---- streams -------------------------------------------------------------------------------- */

int lw__http_stream(struct lw__http_writer *writer) {
    assert(!is_bodiless(writer->code));
    writer->is_chunked = writer->terms.minor == 1;
    if (writer->is_chunked)
        lw__buffer_put_text(writer->out, "Transfer-Encoding: chunked\r\n");
    else
        writer->terms.keep_alive = false; /* the end of the connection is the end of the body */
    end_head(writer);
    writer->is_streaming = writer->status == LW_OK && writer->out->status == LW_OK;
    return settle(writer);
}

/* A failure is the piece's alone: it can be tried again when there is room. What came before it may
 * have left the buffer already. */
static int settle_piece(struct lw__http_writer *writer) {
    int status = settle(writer);
    writer->status = LW_OK;
    return status;
}

int lw__http_piece(struct lw__http_writer *writer, struct lw__slice piece) {
    assert(writer->is_streaming);
    if (piece.size == 0 || writer->terms.is_head)
        return LW_OK;
    writer->start = writer->out->size;
    if (writer->is_chunked)
        lw__buffer_print(writer->out, "%zx\r\n", piece.size);
    lw__buffer_put(writer->out, piece);
    if (writer->is_chunked)
        lw__buffer_put_text(writer->out, "\r\n");
    return settle_piece(writer);
}

int lw__http_end(struct lw__http_writer *writer) {
    assert(writer->is_streaming);
    writer->start = writer->out->size;
    if (writer->is_chunked && !writer->terms.is_head)
        lw__buffer_put_text(writer->out, "0\r\n\r\n");
    return settle_piece(writer);
}
