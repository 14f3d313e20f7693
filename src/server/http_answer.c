/* The head of an answer, for clients: the command line and the load generator. */
#include "server/http_internal.h"

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/* HTTP/1.1 200 OK; the reason may be missing. */
static enum lw__http_event read_status_line(struct lw__http_parser *parser, struct lw__slice line,
                                            struct lw__http_answer *answer) {
    const char *at = line.data, *end = line.data + line.size;
    struct lw__slice version = {at, line.size < 8 ? line.size : 8};
    if (lw__http_version(parser, version, &answer->minor) == LW__HTTP_REFUSED)
        return LW__HTTP_REFUSED;
    at += 8;
    if (end - at < 4 || at[0] != ' ' || at[1] < '1' || at[1] > '5' || !is_digit(at[2])
        || !is_digit(at[3]) || (end - at > 4 && at[4] != ' ')
        || lw__http_span(at, end, LW__HTTP_VALUE) != end)
        return lw__http_refuse(parser, 400, "\"%s\" is no status line", lw__slice_show(line).text);
    answer->code = (at[1] - '0') * 100 + (at[2] - '0') * 10 + (at[3] - '0');
    return LW__HTTP_DONE;
}

static enum lw__http_event read_first(struct lw__http_parser *parser, struct lw__slice line,
                                      void *message) {
    return read_status_line(parser, line, message);
}

static enum lw__http_event understand(struct lw__http_parser *parser, const char *at,
                                      const char *end, void *message) {
    struct lw__http_answer *answer = message;
    struct lw__http_notes notes = {0};
    answer->field_count = 0;
    while (end - at > 2) {
        struct lw__http_field *field = &answer->fields[answer->field_count++];
        if (lw__http_split(parser, lw__http_cut_line(&at, end), field) == LW__HTTP_REFUSED
            || lw__http_note(parser, field, &notes) == LW__HTTP_REFUSED)
            return LW__HTTP_REFUSED;
    }
    answer->length = notes.length;
    answer->has_length = notes.lengths > 0;
    answer->is_chunked = notes.codings > 0;
    answer->keep_alive = lw__http_keeps_alive(&notes, answer->minor);
    return lw__http_check_notes(parser, &notes, answer->minor);
}

/* What comes after the head. */
static int next_phase(struct lw__http_answer *answer, enum lw__http_method asked) {
    answer->is_interim = answer->code < 200;
    answer->has_body =
        asked != LW__HTTP_HEAD && !answer->is_interim && answer->code != 204 && answer->code != 304;
    if (answer->is_interim)
        return LW__HTTP_IN_HEAD;
    if (!answer->has_body || answer->has_length)
        return LW__HTTP_IN_BODY;
    if (answer->is_chunked)
        return LW__HTTP_IN_CHUNK_SIZE;
    answer->keep_alive = false;
    return LW__HTTP_IN_REST;
}

enum lw__http_event lw__http_answer(struct lw__http_parser *parser, const char *data, size_t size,
                                    enum lw__http_method asked, struct lw__http_answer *answer,
                                    size_t *used) {
    static const struct lw__http_kind answers = {read_first, understand};
    enum lw__http_event event = lw__http_scan(parser, data, size, &answers, answer, used);
    if (event == LW__HTTP_DONE) {
        parser->phase = next_phase(answer, asked);
        parser->left = answer->has_body ? answer->length : 0;
    }
    return event;
}

bool lw__http_find_in_answer(const struct lw__http_answer *answer, const char *name,
                             struct lw__slice *value) {
    return lw__http_find_among(answer->fields, answer->field_count, name, value);
}
