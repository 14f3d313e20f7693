/* Bytes and lines: which byte may stand where, and how a header line falls into name and value. */
#include "server/http_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>

/* The classes of the ASCII bytes, by RFC 9110 and 3986: tchar, pchar with / and ?, field-content,
 * HEXDIG, reg-name. The bytes above may be a part of values, and of nothing else. A test builds it
 * anew from the grammars. */
static const unsigned char classes[128] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  4,  0,  0,  0,  0,  0,  0,  /* 0x00 */
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  /* 0x10 */
    4,  23, 4,  5,  23, 23, 23, 23, 22, 22, 23, 23, 22, 23, 23, 6,  /* 0x20 */
    31, 31, 31, 31, 31, 31, 31, 31, 31, 31, 6,  22, 4,  22, 4,  6,  /* 0x30 */
    6,  31, 31, 31, 31, 31, 31, 23, 23, 23, 23, 23, 23, 23, 23, 23, /* 0x40 */
    23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 4,  4,  4,  5,  23, /* 0x50 */
    5,  31, 31, 31, 31, 31, 31, 23, 23, 23, 23, 23, 23, 23, 23, 23, /* 0x60 */
    23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 23, 4,  5,  4,  23, 0,  /* 0x70 */
};

const char *lw__http_span(const char *at, const char *end, int class) {
    for (; at < end; at++) {
        unsigned char byte = (unsigned char)*at;
        if (!((byte < 128 ? classes[byte] : LW__HTTP_VALUE) & class))
            break;
    }
    return at;
}

int lw__http_hex(char digit) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    char lower = (char)(digit | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

enum lw__http_event lw__http_refuse(struct lw__http_parser *parser, int status, const char *format,
                                    ...) {
    struct lw__http_refusal *refusal = &parser->refusal;
    va_list args;
    va_start(args, format);
    vsnprintf(refusal->sentence, sizeof refusal->sentence, format, args);
    va_end(args);
    refusal->status = status;
    parser->phase = LW__HTTP_IS_REFUSED;
    return LW__HTTP_REFUSED;
}

enum lw__http_event lw__http_line(struct lw__http_parser *parser, const char *data, size_t size,
                                  const struct lw__http_bound *bound, struct lw__slice *line) {
    assert(parser->line <= parser->seen && parser->seen <= size);
    if (size == 0)
        return LW__HTTP_MORE; /* nothing was read yet: data may be NULL */
    const char *begin = data + parser->line;
    const char *end =
        size > parser->seen ? memchr(data + parser->seen, '\n', size - parser->seen) : NULL;
    size_t length = end ? (size_t)(end - begin) : size - parser->line; /* with the CR */
    if (length > bound->max + 1)
        return lw__http_refuse(parser, bound->status, "%s has more than %zu bytes", bound->what,
                               bound->limit);
    if (!end) {
        parser->seen = size;
        return LW__HTTP_MORE;
    }
    if (length == 0 || end[-1] != '\r')
        return lw__http_refuse(parser, 400, "a line ends with LF alone, it must be CR LF");
    *line = (struct lw__slice){begin, length - 1};
    parser->line = parser->seen = (size_t)(end + 1 - data);
    return LW__HTTP_DONE;
}

static bool is_blank(char c) {
    return c == ' ' || c == '\t';
}

static struct lw__slice trim(const char *at, const char *end) {
    while (at < end && is_blank(*at))
        at++;
    while (at < end && is_blank(end[-1]))
        end--;
    return lw__slice_between(at, end);
}

/* Says what is wrong with a line whose name ends at `stop`, where no colon stands. */
static enum lw__http_event refuse_name(struct lw__http_parser *parser, struct lw__slice line,
                                       const char *stop) {
    if (stop == line.data && is_blank(*stop))
        return lw__http_refuse(parser, 400, "a header is folded over two lines, write it in one");
    if (stop == line.data + line.size)
        return lw__http_refuse(parser, 400, "the header \"%s\" has no colon",
                               lw__slice_show(line).text);
    if (is_blank(*stop))
        return lw__http_refuse(parser, 400, "a space stands before the colon of the header \"%s\"",
                               lw__slice_show(lw__slice_between(line.data, stop)).text);
    return lw__http_refuse(parser, 400, "the byte 0x%02x is in the name of the header \"%s\"",
                           (unsigned char)*stop, lw__slice_show(line).text);
}

enum lw__http_event lw__http_split(struct lw__http_parser *parser, struct lw__slice line,
                                   struct lw__http_field *field) {
    const char *end = line.data + line.size;
    const char *colon = lw__http_span(line.data, end, LW__HTTP_TOKEN);
    if (colon == end || *colon != ':')
        return refuse_name(parser, line, colon);
    if (colon == line.data)
        return lw__http_refuse(parser, 400, "a header has no name before its colon");
    const char *stop = lw__http_span(colon + 1, end, LW__HTTP_VALUE);
    field->name = lw__slice_between(line.data, colon);
    if (stop < end)
        return lw__http_refuse(parser, 400, "the byte 0x%02x is in the value of the header \"%s\"",
                               (unsigned char)*stop, lw__slice_show(field->name).text);
    field->value = trim(colon + 1, end);
    return LW__HTTP_DONE;
}
