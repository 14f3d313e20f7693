/* The head of a request. */
#include "server/http_internal.h"

static const char *const methods[LW__HTTP_METHODS] = {
#define METHOD_NAME(name) #name,
    LW__HTTP_METHOD_MAP(METHOD_NAME)
#undef METHOD_NAME
};

const char *lw__http_method_name(enum lw__http_method method) {
    return methods[method];
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

bool lw__http_is_host(struct lw__slice host) {
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
        if (!lw__http_is_host(lw__slice_between(at, stop)))
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
        || lw__http_version(parser, lw__slice_between(last, end), &request->terms.minor)
               == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    return read_target(parser, lw__slice_between(first + 1, last - 1), request);
}

/* ---- what the headers say ------------------------------------------------------------------- */

static enum lw__http_event note_host(struct lw__http_parser *parser, struct lw__slice value,
                                     struct lw__http_request *request,
                                     struct lw__http_notes *notes) {
    if (notes->hosts++ > 0)
        return lw__http_refuse(parser, 400, "there is a second Host");
    if (!lw__http_is_host(value))
        return lw__http_refuse(parser, 400, "Host is \"%s\", must be a name or address",
                               lw__slice_show(value).text);
    if (request->host.size == 0) /* a host in the target wins */
        request->host = value;
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

static enum lw__http_event note_field(struct lw__http_parser *parser,
                                      const struct lw__http_field *field,
                                      struct lw__http_request *request,
                                      struct lw__http_notes *notes) {
    if (lw__slice_is_caseless(field->name, "host"))
        return note_host(parser, field->value, request, notes);
    if (lw__slice_is_caseless(field->name, "expect"))
        return note_expect(parser, field->value, request);
    return lw__http_note(parser, field, notes);
}

/* What the headers mean together. */
static enum lw__http_event conclude(struct lw__http_parser *parser,
                                    struct lw__http_request *request,
                                    const struct lw__http_notes *notes) {
    unsigned minor = request->terms.minor;
    if (minor == 1 && notes->hosts == 0)
        return lw__http_refuse(parser, 400, "there is no Host");
    if (lw__http_check_notes(parser, notes, minor) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    request->length = notes->length;
    request->is_chunked = notes->codings > 0;
    request->terms.keep_alive = lw__http_keeps_alive(notes, minor);
    request->has_body = request->is_chunked || request->length > 0;
    request->expects_continue = request->expects_continue && request->has_body;
    return LW__HTTP_DONE;
}

/* ---- the whole head ------------------------------------------------------------------------- */

static enum lw__http_event read_first(struct lw__http_parser *parser, struct lw__slice line,
                                      void *message) {
    return read_request_line(parser, line, message);
}

static enum lw__http_event understand(struct lw__http_parser *parser, const char *at,
                                      const char *end, void *message) {
    struct lw__http_request *request = message;
    struct lw__http_notes notes = {0};
    request->expects_continue = false;
    request->field_count = 0;
    while (end - at > 2) {
        struct lw__http_field *field = &request->fields[request->field_count++];
        if (lw__http_split(parser, lw__http_cut_line(&at, end), field) == LW__HTTP_REFUSED
            || note_field(parser, field, request, &notes) == LW__HTTP_REFUSED)
            return LW__HTTP_REFUSED;
    }
    return conclude(parser, request, &notes);
}

enum lw__http_event lw__http_head(struct lw__http_parser *parser, const char *data, size_t size,
                                  struct lw__http_request *request, size_t *used) {
    static const struct lw__http_kind requests = {read_first, understand};
    enum lw__http_event event = lw__http_scan(parser, data, size, &requests, request, used);
    if (event == LW__HTTP_DONE) {
        parser->phase = request->is_chunked ? LW__HTTP_IN_CHUNK_SIZE : LW__HTTP_IN_BODY;
        parser->left = request->length;
    }
    return event;
}

bool lw__http_find(const struct lw__http_request *request, const char *name,
                   struct lw__slice *value) {
    return lw__http_find_among(request->fields, request->field_count, name, value);
}
