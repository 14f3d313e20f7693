/* The head of a request.
 *
 * It is looked at twice: as it comes in, for the ends of lines and the limits, so that too much is
 * noticed while it is little; and once it is whole, for what it says. The request line is read as
 * soon as it is there: whoever speaks something else than HTTP is told at once. */
#include "server/http_internal.h"

#include <assert.h>

static const char *const methods[LW__HTTP_METHODS] = {
#define METHOD_NAME(name) #name,
    LW__HTTP_METHOD_MAP(METHOD_NAME)
#undef METHOD_NAME
};

const char *lw__http_method_name(enum lw__http_method method) {
    return methods[method];
}

void lw__http_init(struct lw__http_parser *parser, const struct lw__http_limits *limits) {
    assert(limits->fields_max <= LW__HTTP_FIELDS_MAX);
    *parser = (struct lw__http_parser){.limits = limits};
}

/* ---- the request line ----------------------------------------------------------------------- */

static enum lw__http_event read_method(struct lw__http_parser *parser, struct lw__slice text,
                                       struct lw__http_request *request) {
    const char *end = text.data + text.size;
    if (text.size == 0 || lw__http_span(text.data, end, LW__HTTP_TOKEN) != end)
        return lw__http_refuse(parser, 400, "\"%s\" is no method, and this is no HTTP request",
                               lw__slice_show(text).text);
    for (int i = 0; i < LW__HTTP_METHODS; i++)
        if (lw__slice_is(text, methods[i])) {
            request->method = (enum lw__http_method)i;
            request->terms.is_head = i == LW__HTTP_HEAD;
            return LW__HTTP_DONE;
        }
    return lw__http_refuse(parser, 501, "the method \"%s\" is not known here",
                           lw__slice_show(text).text);
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

static enum lw__http_event read_version(struct lw__http_parser *parser, struct lw__slice text,
                                        struct lw__http_request *request) {
    const char *v = text.data;
    if (text.size != 8 || memcmp(v, "HTTP/", 5) != 0 || !is_digit(v[5]) || v[6] != '.'
        || !is_digit(v[7]))
        return lw__http_refuse(parser, 400, "a request line ends in \"%s\", must end in HTTP/1.1",
                               lw__slice_show(text).text);
    if (v[5] != '1' || v[7] > '1')
        return lw__http_refuse(parser, 505, "%.8s is not spoken here, use HTTP/1.1", v);
    request->terms.minor = (unsigned char)(v[7] - '0');
    return LW__HTTP_DONE;
}

/* Bytes that may stand in a target, and two hex digits after every %. */
static enum lw__http_event check_target(struct lw__http_parser *parser, struct lw__slice target) {
    const char *end = target.data + target.size;
    const char *stop = lw__http_span(target.data, end, LW__HTTP_TARGET);
    if (stop < end)
        return lw__http_refuse(parser, 400, "the target has the byte 0x%02x, write it as %%%02X",
                               (unsigned char)*stop, (unsigned char)*stop);
    for (const char *at = target.data; (at = memchr(at, '%', (size_t)(end - at))); at += 3)
        if (end - at < 3 || lw__http_hex(at[1]) < 0 || lw__http_hex(at[2]) < 0)
            return lw__http_refuse(parser, 400,
                                   "a %% in the target has no two hex digits after it");
    return LW__HTTP_DONE;
}

/* A name or address, and perhaps a port. */
static bool is_host(struct lw__slice host) {
    const char *at = host.data, *end = at + host.size;
    if (host.size > 0 && *at == '[') {
        do
            at++;
        while (at < end && (lw__http_hex(*at) >= 0 || *at == ':' || *at == '.'));
        if (at == end || *at != ']' || at == host.data + 1)
            return false;
        at++;
    } else if ((at = lw__http_span(at, end, LW__HTTP_HOST)) == host.data) {
        return false;
    }
    if (at < end && *at++ != ':')
        return false;
    while (at < end && is_digit(*at))
        at++;
    return at == end;
}

/* Whether a target has a scheme and a host; *rest is what follows it. */
static bool split_absolute(struct lw__slice target, struct lw__slice *host,
                           struct lw__slice *rest) {
    static const char *const schemes[] = {"http://", "https://"};
    for (size_t i = 0; i < 2; i++) {
        size_t length = strlen(schemes[i]);
        if (target.size < length
            || !lw__slice_is_caseless((struct lw__slice){target.data, length}, schemes[i]))
            continue;
        const char *at = target.data + length, *end = target.data + target.size;
        const char *stop = at;
        while (stop < end && *stop != '/' && *stop != '?')
            stop++;
        if (!is_host(lw__slice_between(at, stop)))
            return false;
        *host = lw__slice_between(at, stop);
        *rest = lw__slice_between(stop, end);
        return true;
    }
    return false;
}

static enum lw__http_event read_target(struct lw__http_parser *parser, struct lw__slice target,
                                       struct lw__http_request *request) {
    struct lw__slice rest = target;
    request->target = target;
    bool is_absolute = split_absolute(target, &request->host, &rest);
    if (check_target(parser, is_absolute ? rest : target) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    bool is_star = request->method == LW__HTTP_OPTIONS && lw__slice_is(target, "*");
    bool is_path = target.size > 0 && target.data[0] == '/';
    if (!is_star && !is_path && !is_absolute)
        return lw__http_refuse(parser, 400, "the target \"%s\" must begin with /",
                               lw__slice_show(target).text);
    const char *end = rest.data + rest.size;
    const char *mark = rest.size > 0 ? memchr(rest.data, '?', rest.size) : NULL;
    request->path = lw__slice_between(rest.data, mark ? mark : end);
    if (request->path.size == 0)
        request->path = lw__slice_of("/");
    request->has_query = mark != NULL;
    if (mark)
        request->query = lw__slice_between(mark + 1, end);
    return LW__HTTP_DONE;
}

static enum lw__http_event read_request_line(struct lw__http_parser *parser, struct lw__slice line,
                                             struct lw__http_request *request) {
    const char *end = line.data + line.size, *last = end;
    const char *first = memchr(line.data, ' ', line.size);
    request->host = request->query = (struct lw__slice){0};
    request->terms = (struct lw__http_terms){0};
    if (!first)
        return lw__http_refuse(parser, 400, "\"%s\" is no HTTP request", lw__slice_show(line).text);
    while (last[-1] != ' ')
        last--;
    if (last - 1 == first)
        return lw__http_refuse(parser, 400, "the request line \"%s\" has no version",
                               lw__slice_show(line).text);
    if (read_method(parser, lw__slice_between(line.data, first), request) == LW__HTTP_REFUSED
        || read_version(parser, lw__slice_between(last, end), request) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    return read_target(parser, lw__slice_between(first + 1, last - 1), request);
}

/* ---- what the headers say ------------------------------------------------------------------- */

/* What is noted of the headers that the codec itself heeds. */
struct notes {
    unsigned hosts, lengths, codings;
    bool says_close, says_keep_alive;
};

static enum lw__http_event note_host(struct lw__http_parser *parser, struct lw__slice value,
                                     struct lw__http_request *request, struct notes *notes) {
    if (notes->hosts++ > 0)
        return lw__http_refuse(parser, 400, "there is a second Host");
    if (!is_host(value))
        return lw__http_refuse(parser, 400, "Host is \"%s\", must be a name or address",
                               lw__slice_show(value).text);
    if (request->host.size == 0) /* a host in the target wins */
        request->host = value;
    return LW__HTTP_DONE;
}

static enum lw__http_event note_length(struct lw__http_parser *parser, struct lw__slice value,
                                       struct lw__http_request *request, struct notes *notes) {
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
    request->length = length;
    return LW__HTTP_DONE;
}

static enum lw__http_event note_coding(struct lw__http_parser *parser, struct lw__slice value,
                                       struct lw__http_request *request, struct notes *notes) {
    if (notes->codings++ > 0)
        return lw__http_refuse(parser, 400, "there is a second Transfer-Encoding");
    if (!lw__slice_is_caseless(value, "chunked"))
        return lw__http_refuse(parser, 501, "Transfer-Encoding is \"%s\", only chunked is known",
                               lw__slice_show(value).text);
    request->is_chunked = true;
    return LW__HTTP_DONE;
}

static enum lw__http_event note_expect(struct lw__http_parser *parser, struct lw__slice value,
                                       struct lw__http_request *request) {
    if (!lw__slice_is_caseless(value, "100-continue"))
        return lw__http_refuse(parser, 417, "Expect is \"%s\", only 100-continue is known",
                               lw__slice_show(value).text);
    request->expects_continue = request->terms.minor == 1; /* in HTTP/1.0 it means nothing */
    return LW__HTTP_DONE;
}

/* A list of words with commas between them; all but two of them are somebody else's. */
static void note_connection(struct lw__slice value, struct notes *notes) {
    const char *at = value.data, *end = at + value.size;
    while (at < end) {
        const char *stop = lw__http_span(at, end, LW__HTTP_TOKEN);
        struct lw__slice word = lw__slice_between(at, stop);
        notes->says_close |= lw__slice_is_caseless(word, "close");
        notes->says_keep_alive |= lw__slice_is_caseless(word, "keep-alive");
        at = stop + (stop < end);
    }
}

static enum lw__http_event note_field(struct lw__http_parser *parser,
                                      const struct lw__http_field *field,
                                      struct lw__http_request *request, struct notes *notes) {
    if (lw__slice_is_caseless(field->name, "host"))
        return note_host(parser, field->value, request, notes);
    if (lw__slice_is_caseless(field->name, "content-length"))
        return note_length(parser, field->value, request, notes);
    if (lw__slice_is_caseless(field->name, "transfer-encoding"))
        return note_coding(parser, field->value, request, notes);
    if (lw__slice_is_caseless(field->name, "expect"))
        return note_expect(parser, field->value, request);
    if (lw__slice_is_caseless(field->name, "connection"))
        note_connection(field->value, notes);
    return LW__HTTP_DONE;
}

/* What the headers mean together. */
static enum lw__http_event conclude(struct lw__http_parser *parser,
                                    struct lw__http_request *request, const struct notes *notes) {
    unsigned minor = request->terms.minor;
    if (minor == 1 && notes->hosts == 0)
        return lw__http_refuse(parser, 400, "there is no Host");
    if (notes->lengths > 0 && notes->codings > 0)
        return lw__http_refuse(parser, 400, "there are both Content-Length and Transfer-Encoding");
    if (minor == 0 && notes->codings > 0)
        return lw__http_refuse(parser, 400, "HTTP/1.0 has no Transfer-Encoding");
    request->terms.keep_alive = !notes->says_close && (minor == 1 || notes->says_keep_alive);
    request->has_body = request->is_chunked || request->length > 0;
    request->expects_continue = request->expects_continue && request->has_body;
    return LW__HTTP_DONE;
}

/* ---- the whole head ------------------------------------------------------------------------- */

/* The next line of a head that is whole. */
static struct lw__slice cut_line(const char **at, const char *end) {
    const char *stop = memchr(*at, '\n', (size_t)(end - *at));
    struct lw__slice line = lw__slice_between(*at, stop - 1);
    *at = stop + 1;
    return line;
}

static enum lw__http_event understand(struct lw__http_parser *parser, const char *at,
                                      const char *end, struct lw__http_request *request) {
    struct notes notes = {0};
    request->is_chunked = request->expects_continue = false;
    request->length = 0;
    request->field_count = 0;
    if (read_request_line(parser, cut_line(&at, end), request) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    while (end - at > 2) {
        struct lw__http_field *field = &request->fields[request->field_count++];
        if (lw__http_split(parser, cut_line(&at, end), field) == LW__HTTP_REFUSED
            || note_field(parser, field, request, &notes) == LW__HTTP_REFUSED)
            return LW__HTTP_REFUSED;
    }
    return conclude(parser, request, &notes);
}

/* The line that begins the head: 0, or 2 if an empty line came before it. */
static size_t head_start(const char *data) {
    return data[0] == '\r' ? 2 : 0;
}

static enum lw__http_event finish_head(struct lw__http_parser *parser, const char *data,
                                       struct lw__http_request *request, size_t *used) {
    size_t size = parser->line;
    if (understand(parser, data + head_start(data), data + size, request) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    parser->phase = request->is_chunked ? LW__HTTP_IN_CHUNK_SIZE : LW__HTTP_IN_BODY;
    parser->left = request->length;
    parser->line = parser->seen = parser->lines = parser->extras = 0;
    parser->body_size = 0;
    *used = size;
    return LW__HTTP_DONE;
}

/* Takes note of a line that has come in whole, and is not empty. */
static enum lw__http_event count_line(struct lw__http_parser *parser, struct lw__slice line,
                                      struct lw__http_request *request) {
    const struct lw__http_limits *limits = parser->limits;
    if (parser->lines++ == 0)
        return read_request_line(parser, line, request);
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
        return (struct lw__http_bound){max, 414, "the request line", max};
    return (struct lw__http_bound){max, 431, "a header", max};
}

enum lw__http_event lw__http_head(struct lw__http_parser *parser, const char *data, size_t size,
                                  struct lw__http_request *request, size_t *used) {
    *used = 0;
    if (parser->phase == LW__HTTP_IS_REFUSED)
        return LW__HTTP_REFUSED;
    assert(parser->phase == LW__HTTP_IN_HEAD);
    for (;;) {
        struct lw__slice line;
        struct lw__http_bound bound = bound_line(parser);
        bool is_first = parser->lines == 0;
        enum lw__http_event event = lw__http_line(parser, data, size, &bound, &line);
        if (event != LW__HTTP_DONE)
            return event;
        if (line.size == 0 && !is_first)
            return finish_head(parser, data, request, used);
        if (line.size == 0 && parser->line > 2)
            return lw__http_refuse(parser, 400, "there are empty lines before the request line");
        if (line.size > 0 && count_line(parser, line, request) == LW__HTTP_REFUSED)
            return LW__HTTP_REFUSED;
    }
}

bool lw__http_find(const struct lw__http_request *request, const char *name,
                   struct lw__slice *value) {
    for (size_t i = 0; i < request->field_count; i++)
        if (lw__slice_is_caseless(request->fields[i].name, name)) {
            *value = request->fields[i].value;
            return true;
        }
    return false;
}
