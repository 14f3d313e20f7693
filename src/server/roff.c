/* Texts as roff. */
#include "server/roff.h"

#define WIDTH 76 /* of a line, about */

static void put_byte(struct lw__buffer *out, char byte) {
    switch (byte) {
    case '-': lw__buffer_put_text(out, "\\-"); break;
    case '\\': lw__buffer_put_text(out, "\\e"); break;
    case '\'': lw__buffer_put_text(out, "\\(aq"); break;
    case '`': lw__buffer_put_text(out, "\\(ga"); break;
    case '~': lw__buffer_put_text(out, "\\(ti"); break;
    case '^': lw__buffer_put_text(out, "\\(ha"); break;
    default: lw__buffer_put_byte(out, byte);
    }
}

static void put(struct lw__buffer *out, const char *text, bool is_filled) {
    size_t line = out->size;
    for (const char *at = text; *at; at++) {
        bool is_new = at > text && at[-1] == '.';
        if (*at == '.' && line == out->size)
            lw__buffer_put_text(out, "\\&");
        if (is_filled && *at == ' '
            && (is_new || out->size - line + 2 * strcspn(at + 1, " ") > WIDTH))
            lw__buffer_put_byte(out, '\n');
        else
            put_byte(out, *at);
        if (out->size > 0 && out->data[out->size - 1] == '\n')
            line = out->size;
    }
}

void lw__roff_put(struct lw__buffer *out, const char *text) {
    put(out, text, true);
}

void lw__roff_put_lines(struct lw__buffer *out, const char *text) {
    put(out, text, false);
}

/* ---- synopsis ------------------------------------------------------------------------------- */

static bool is_name(char c) {
    return (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_flag(char c) {
    return c == '-' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* How many bytes from `at` on are in this font. */
static size_t run_of(bool (*is_in)(char c), const char *at, const char *end) {
    size_t size = 0;
    while (at + size < end && is_in(at[size]))
        size++;
    return size;
}

static void put_in_font(struct lw__buffer *out, char font, struct lw__slice text) {
    lw__buffer_print(out, "\\f%c", font);
    for (size_t i = 0; i < text.size; i++)
        put_byte(out, text.data[i]);
    lw__buffer_put_text(out, "\\fR");
}

void lw__roff_put_synopsis(struct lw__buffer *out, struct lw__slice text) {
    const char *at = text.data, *end = lw__slice_end(text);
    while (at < end) {
        size_t name = run_of(is_name, at, end), flag = run_of(is_flag, at, end);
        if (name > 0)
            put_in_font(out, 'I', (struct lw__slice){at, name});
        else if (flag > 0)
            put_in_font(out, 'B', (struct lw__slice){at, flag});
        else
            put_byte(out, *at);
        at += name > 0 ? name : flag > 0 ? flag : 1;
    }
}
