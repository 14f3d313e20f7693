/* The body of a request: so many bytes, or chunks. */
#include "server/http_internal.h"

#include <assert.h>

static enum lw__http_event end_request(struct lw__http_parser *parser) {
    lw__http_init(parser, parser->limits);
    return LW__HTTP_DONE;
}

/* Passes on what is there of the bytes to come. */
static enum lw__http_event pass(struct lw__http_parser *parser, const char *data, size_t size,
                                struct lw__slice *piece, size_t *used) {
    if (size == 0)
        return LW__HTTP_MORE;
    size_t count = parser->left < size ? (size_t)parser->left : size;
    *piece = (struct lw__slice){data, count};
    *used += count;
    parser->left -= count;
    return LW__HTTP_PIECE;
}

/* Passes on all there is: where it ends, the connection does. */
static enum lw__http_event pass_rest(struct lw__http_parser *parser, const char *data, size_t size,
                                     struct lw__slice *piece, size_t *used) {
    parser->left = parser->limits->body_max - parser->body_size;
    if (size > 0 && parser->left == 0)
        return lw__http_refuse(parser, 413, "the body has more than %llu bytes",
                               (unsigned long long)parser->limits->body_max);
    enum lw__http_event event = pass(parser, data, size, piece, used);
    parser->body_size += piece->size;
    return event;
}

/* ---- chunks --------------------------------------------------------------------------------- */

/* The size of a chunk: at most 16 hex digits, and then nothing or extensions. */
static enum lw__http_event read_size(struct lw__http_parser *parser, struct lw__slice line) {
    const struct lw__http_limits *limits = parser->limits;
    const char *end = line.data + line.size;
    const char *stop = lw__http_span(line.data, end, LW__HTTP_HEX);
    uint64_t size = 0;
    if (stop == line.data || stop - line.data > 16 || (stop < end && *stop != ';')
        || lw__http_span(stop, end, LW__HTTP_VALUE) != end)
        return lw__http_refuse(parser, 400, "\"%s\" is no size of a chunk",
                               lw__slice_show(line).text);
    for (const char *at = line.data; at < stop; at++)
        size = size << 4 | (unsigned)lw__http_hex(*at);
    if (size > limits->body_max - parser->body_size)
        return lw__http_refuse(parser, 413, "the body has more than %llu bytes",
                               (unsigned long long)limits->body_max);
    parser->extras += (size_t)(end - stop);
    if (parser->extras > limits->head_max)
        return lw__http_refuse(parser, 431, "the chunks have more than %zu bytes of extensions",
                               limits->head_max);
    parser->left = size;
    parser->body_size += size;
    parser->phase = size > 0 ? LW__HTTP_IN_CHUNK_DATA : LW__HTTP_IN_TRAILERS;
    return LW__HTTP_DONE;
}

/* Trailers are checked and dropped: nothing that is known here is sent as one. */
static enum lw__http_event read_trailer(struct lw__http_parser *parser, struct lw__slice line) {
    static const char *const forbidden[] = {"content-length", "transfer-encoding", "host"};
    const struct lw__http_limits *limits = parser->limits;
    struct lw__http_field field;
    if (lw__http_split(parser, line, &field) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    for (size_t i = 0; i < sizeof forbidden / sizeof *forbidden; i++)
        if (lw__slice_is_caseless(field.name, forbidden[i]))
            return lw__http_refuse(parser, 400, "%s comes after the body", forbidden[i]);
    parser->extras += line.size;
    if (++parser->lines > limits->fields_max || parser->extras > limits->head_max)
        return lw__http_refuse(parser, 431, "there are more than %zu trailers or %zu bytes of them",
                               limits->fields_max, limits->head_max);
    return LW__HTTP_DONE;
}

/* A line outside of the data: a size or a trailer. It is dropped at once. */
static enum lw__http_event read_line(struct lw__http_parser *parser, const char *data, size_t size,
                                     size_t *used) {
    bool is_size = parser->phase == LW__HTTP_IN_CHUNK_SIZE;
    size_t max = is_size ? LW__HTTP_CHUNK_LINE_MAX : parser->limits->field_max;
    struct lw__http_bound bound = {max, is_size ? 400 : 431,
                                   is_size ? "the line of a chunk's size" : "a trailer", max};
    struct lw__slice line;
    enum lw__http_event event = lw__http_line(parser, data, size, &bound, &line);
    if (event != LW__HTTP_DONE)
        return event;
    *used += parser->line;
    parser->line = parser->seen = 0;
    if (is_size)
        return read_size(parser, line);
    return line.size == 0 ? end_request(parser) : read_trailer(parser, line);
}

static enum lw__http_event read_chunk_end(struct lw__http_parser *parser, const char *data,
                                          size_t size, size_t *used) {
    if ((size > 0 && data[0] != '\r') || (size > 1 && data[1] != '\n'))
        return lw__http_refuse(parser, 400, "a chunk does not end where its size says");
    if (size < 2)
        return LW__HTTP_MORE;
    *used += 2;
    parser->phase = LW__HTTP_IN_CHUNK_SIZE;
    return LW__HTTP_DONE;
}

static enum lw__http_event read_data(struct lw__http_parser *parser, const char *data, size_t size,
                                     struct lw__slice *piece, size_t *used) {
    enum lw__http_event event = pass(parser, data, size, piece, used);
    if (parser->left == 0)
        parser->phase = LW__HTTP_IN_CHUNK_END;
    return event;
}

/* ---- both ----------------------------------------------------------------------------------- */

/* One step; DONE if there is another one to take at once. */
static enum lw__http_event step(struct lw__http_parser *parser, const char *data, size_t size,
                                struct lw__slice *piece, size_t *used) {
    switch (parser->phase) {
    case LW__HTTP_IN_BODY:
        return parser->left == 0 ? end_request(parser) : pass(parser, data, size, piece, used);
    case LW__HTTP_IN_REST: return pass_rest(parser, data, size, piece, used);
    case LW__HTTP_IN_CHUNK_DATA: return read_data(parser, data, size, piece, used);
    case LW__HTTP_IN_CHUNK_END: return read_chunk_end(parser, data, size, used);
    case LW__HTTP_IN_CHUNK_SIZE:
    case LW__HTTP_IN_TRAILERS: return read_line(parser, data, size, used);
    default: return LW__HTTP_REFUSED;
    }
}

enum lw__http_event lw__http_body(struct lw__http_parser *parser, const char *data, size_t size,
                                  struct lw__slice *piece, size_t *used) {
    enum lw__http_event event;
    *used = 0;
    *piece = (struct lw__slice){0};
    assert(parser->phase != LW__HTTP_IN_HEAD);
    do
        event = step(parser, data + *used, size - *used, piece, used);
    while (event == LW__HTTP_DONE && parser->phase != LW__HTTP_IN_HEAD);
    return event;
}

enum lw__http_event lw__http_hang_up(struct lw__http_parser *parser, bool is_empty) {
    if (parser->phase == LW__HTTP_IS_REFUSED)
        return LW__HTTP_REFUSED;
    bool is_between = parser->phase == LW__HTTP_IN_HEAD && is_empty;
    if (is_between || parser->phase == LW__HTTP_IN_REST)
        return end_request(parser);
    return lw__http_refuse(parser, 400, "the connection ended in the middle of a message");
}
