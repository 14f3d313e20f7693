/* Heads, of requests and of answers: lines as they come in, and the headers that say where a body
 * ends.
 *
 * A head is looked at twice: as it comes in, for the ends of lines and the limits, so that too much
 * is noticed while it is little; and once it is whole, for what it says. Its first line is read as
 * soon as it is there: whoever speaks something else than HTTP is told at once. */
#include "server/http_internal.h"

#include <assert.h>

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

void lw__http_init(struct lw__http_parser *parser, const struct lw__http_limits *limits) {
    assert(limits->fields_max <= LW__HTTP_FIELDS_MAX);
    *parser = (struct lw__http_parser){.limits = limits};
}

enum lw__http_event lw__http_version(struct lw__http_parser *parser, struct lw__slice text,
                                     unsigned char *minor) {
    const char *v = text.data;
    if (text.size != 8 || memcmp(v, "HTTP/", 5) != 0 || !is_digit(v[5]) || v[6] != '.'
        || !is_digit(v[7]))
        return lw__http_refuse(parser, 400, "\"%s\" is no version, must be HTTP/1.1",
                               lw__slice_show(text).text);
    if (v[5] != '1' || v[7] > '1')
        return lw__http_refuse(parser, 505, "%.8s is not spoken here, use HTTP/1.1", v);
    *minor = (unsigned char)(v[7] - '0');
    return LW__HTTP_DONE;
}

bool lw__http_find_among(const struct lw__http_field *fields, size_t count, const char *name,
                         struct lw__slice *value) {
    for (size_t i = 0; i < count; i++)
        if (lw__slice_is_caseless(fields[i].name, name)) {
            *value = fields[i].value;
            return true;
        }
    return false;
}

/* ---- where a body ends ---------------------------------------------------------------------- */

static enum lw__http_event note_length(struct lw__http_parser *parser, struct lw__slice value,
                                       struct lw__http_notes *notes) {
    uint64_t length = 0;
    bool is_number = value.size > 0, is_huge = false;
    if (notes->lengths++ > 0)
        return lw__http_refuse(parser, 400, "there is a second Content-Length");
    for (size_t i = 0; i < value.size && is_number; i++) {
        is_number = is_digit(value.data[i]);
        is_huge = is_huge || length > (UINT64_MAX - 9) / 10;
        length = length * 10 + (unsigned char)(value.data[i] - '0');
    }
    if (!is_number)
        return lw__http_refuse(parser, 400, "Content-Length is \"%s\", must be a number",
                               lw__slice_show(value).text);
    if (is_huge || length > parser->limits->body_max)
        return lw__http_refuse(parser, 413, "the body has %s bytes, at most %llu are accepted",
                               lw__slice_show(value).text,
                               (unsigned long long)parser->limits->body_max);
    notes->length = length;
    return LW__HTTP_DONE;
}

static enum lw__http_event note_coding(struct lw__http_parser *parser, struct lw__slice value,
                                       struct lw__http_notes *notes) {
    if (notes->codings++ > 0)
        return lw__http_refuse(parser, 400, "there is a second Transfer-Encoding");
    if (!lw__slice_is_caseless(value, "chunked"))
        return lw__http_refuse(parser, 501, "Transfer-Encoding is \"%s\", only chunked is known",
                               lw__slice_show(value).text);
    return LW__HTTP_DONE;
}

/* A list of words with commas between them; all but two of them are somebody else's. */
static void note_connection(struct lw__slice value, struct lw__http_notes *notes) {
    const char *at = value.data, *end = at + value.size;
    while (at < end) {
        const char *stop = lw__http_span(at, end, LW__HTTP_TOKEN);
        struct lw__slice word = lw__slice_between(at, stop);
        notes->says_close |= lw__slice_is_caseless(word, "close");
        notes->says_keep_alive |= lw__slice_is_caseless(word, "keep-alive");
        at = stop + (stop < end);
    }
}

enum lw__http_event lw__http_note(struct lw__http_parser *parser,
                                  const struct lw__http_field *field,
                                  struct lw__http_notes *notes) {
    if (lw__slice_is_caseless(field->name, "content-length"))
        return note_length(parser, field->value, notes);
    if (lw__slice_is_caseless(field->name, "transfer-encoding"))
        return note_coding(parser, field->value, notes);
    if (lw__slice_is_caseless(field->name, "connection"))
        note_connection(field->value, notes);
    return LW__HTTP_DONE;
}

enum lw__http_event lw__http_check_notes(struct lw__http_parser *parser,
                                         const struct lw__http_notes *notes, unsigned minor) {
    if (notes->lengths > 0 && notes->codings > 0)
        return lw__http_refuse(parser, 400, "there are both Content-Length and Transfer-Encoding");
    if (minor == 0 && notes->codings > 0)
        return lw__http_refuse(parser, 400, "HTTP/1.0 has no Transfer-Encoding");
    return LW__HTTP_DONE;
}

bool lw__http_keeps_alive(const struct lw__http_notes *notes, unsigned minor) {
    return !notes->says_close && (minor == 1 || notes->says_keep_alive);
}

/* ---- lines ---------------------------------------------------------------------------------- */

struct lw__slice lw__http_cut_line(const char **at, const char *end) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    struct lw__slice line = lw__slice_between(*at, stop - 1);
    *at = stop + 1;
    return line;
}

/* Where the head begins: at 0, or at 2 if an empty line came before it. */
static size_t head_start(const char *data) {
    return data[0] == '\r' ? 2 : 0;
}

/* has_first: the first line was read in this very call, into this very message. */
static enum lw__http_event finish_head(struct lw__http_parser *parser, const char *data,
                                       const struct lw__http_kind *kind, void *message,
                                       bool has_first, size_t *used) {
    size_t size = parser->line;
    const char *at = data + head_start(data);
    struct lw__slice first = lw__http_cut_line(&at, data + size);
    if (!has_first && kind->read_first(parser, first, message) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    if (kind->understand(parser, at, data + size, message) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    parser->line = parser->seen = parser->lines = parser->extras = 0;
    parser->body_size = 0;
    *used = size;
    return LW__HTTP_DONE;
}

/* Takes note of a line that has come in whole, and is not empty. */
static enum lw__http_event count_line(struct lw__http_parser *parser, struct lw__slice line,
                                      const struct lw__http_kind *kind, void *message) {
    const struct lw__http_limits *limits = parser->limits;
    if (parser->lines++ == 0)
        return kind->read_first(parser, line, message);
    if (parser->lines - 1 > limits->fields_max)
        return lw__http_refuse(parser, 431, "there are more than %zu headers", limits->fields_max);
    return LW__HTTP_DONE;
}

/* The bound of the next line: its own, or what is left of the head's. */
static struct lw__http_bound bound_line(const struct lw__http_parser *parser) {
    const struct lw__http_limits *limits = parser->limits;
    size_t left = limits->head_max > parser->line ? limits->head_max - parser->line : 0;
    size_t max = parser->lines == 0 ? limits->line_max : limits->field_max;
    if (left < max)
        return (struct lw__http_bound){left, 431, "the head", limits->head_max};
    if (parser->lines == 0)
        return (struct lw__http_bound){max, 414, "the first line", max};
    return (struct lw__http_bound){max, 431, "a header", max};
}

enum lw__http_event lw__http_scan(struct lw__http_parser *parser, const char *data, size_t size,
                                  const struct lw__http_kind *kind, void *message, size_t *used) {
    *used = 0;
    if (parser->phase == LW__HTTP_IS_REFUSED)
        return LW__HTTP_REFUSED;
    assert(parser->phase == LW__HTTP_IN_HEAD);
    bool has_first = parser->lines == 0;
    for (;;) {
        struct lw__slice line;
        struct lw__http_bound bound = bound_line(parser);
        bool is_first = parser->lines == 0;
        enum lw__http_event event = lw__http_line(parser, data, size, &bound, &line);
        if (event != LW__HTTP_DONE)
            return event;
        if (line.size == 0 && !is_first)
            return finish_head(parser, data, kind, message, has_first, used);
        if (line.size == 0 && parser->line > 2)
            return lw__http_refuse(parser, 400, "there are empty lines before the head");
        if (line.size > 0 && count_line(parser, line, kind, message) == LW__HTTP_REFUSED)
            return LW__HTTP_REFUSED;
    }
}
