/* Writing JSON. */
#include "server/base64.h"
#include "server/json.h"
#include "server/json_string.h"
#include "server/utf8.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

void lw__json_write(struct lw__json_writer *writer, struct lw__buffer *out) {
    *writer = (struct lw__json_writer){.out = out};
}

/* ---- marks ---------------------------------------------------------------------------------- */

/* What stands before the next part: a comma, if it is not the first one. */
static void separate(struct lw__json_writer *writer) {
    if (writer->has_parts & 1)
        lw__buffer_put_byte(writer->out, ',');
    writer->has_parts |= 1;
}

/* A value begins. */
static void begin(struct lw__json_writer *writer) {
    bool in_object = writer->depth > 0 && (writer->in_object & 1);
    assert(in_object == writer->has_key);
    if (!writer->has_key)
        separate(writer);
    writer->has_key = false;
}

static void open_level(struct lw__json_writer *writer, bool is_object) {
    begin(writer);
    assert(writer->depth < LW__JSON_WRITE_DEPTH_MAX - 1);
    writer->depth++;
    writer->in_object = writer->in_object << 1 | is_object;
    writer->has_parts <<= 1;
    lw__buffer_put_byte(writer->out, is_object ? '{' : '[');
}

void lw__json_object(struct lw__json_writer *writer) {
    open_level(writer, true);
}

void lw__json_array(struct lw__json_writer *writer) {
    open_level(writer, false);
}

void lw__json_close(struct lw__json_writer *writer) {
    assert(writer->depth > 0 && !writer->has_key);
    lw__buffer_put_byte(writer->out, writer->in_object & 1 ? '}' : ']');
    writer->depth--;
    writer->in_object >>= 1;
    writer->has_parts >>= 1;
}

/* ---- strings -------------------------------------------------------------------------------- */

static void put_escape(struct lw__buffer *out, unsigned char byte) {
    static const char codes[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *found = byte ? strchr(codes, byte) : NULL;
    if (found)
        lw__buffer_print(out, "\\%c", letters[found - codes]);
    else
        lw__buffer_print(out, "\\u%04x", byte);
}

/* The first byte that cannot go as it is, or the end. */
static const char *find_special(const char *at, const char *end) {
    while ((at = lw__json_skip_plain(at, end)) < end) {
        size_t length = *at & 0x80 ? lw__utf8_measure(at, end) : 0;
        if (length == 0)
            break;
        at += length;
    }
    return at;
}

/* As it is, in one piece: of most strings nothing is special. */
static void put_plain(struct lw__buffer *out, struct lw__slice text) {
    char *taken = lw__buffer_take(out, text.size + 2);
    if (!taken)
        return;
    taken[0] = taken[text.size + 1] = '"';
    if (text.size > 0)
        memcpy(taken + 1, text.data, text.size);
}

static void put_quoted(struct lw__buffer *out, struct lw__slice text) {
    const char *at = text.data, *end = lw__slice_end(text);
    const char *stop = find_special(at, end);
    if (stop == end) {
        put_plain(out, text);
        return;
    }
    lw__buffer_put_byte(out, '"');
    for (; at < end; stop = find_special(at, end)) {
        lw__buffer_put(out, lw__slice_between(at, stop));
        if (stop < end && (unsigned char)*stop >= 0x80)
            lw__buffer_put_text(out, "\xef\xbf\xbd");
        else if (stop < end)
            put_escape(out, (unsigned char)*stop);
        at = stop + (stop < end);
    }
    lw__buffer_put_byte(out, '"');
}

void lw__json_key(struct lw__json_writer *writer, const char *name) {
    assert(writer->depth > 0 && (writer->in_object & 1) && !writer->has_key);
    separate(writer);
    put_quoted(writer->out, lw__slice_of(name));
    lw__buffer_put_byte(writer->out, ':');
    writer->has_key = true;
}

void lw__json_put_string(struct lw__json_writer *writer, struct lw__slice text) {
    begin(writer);
    put_quoted(writer->out, text);
}

void lw__json_put_text(struct lw__json_writer *writer, const char *text) {
    if (text)
        lw__json_put_string(writer, lw__slice_of(text));
    else
        lw__json_put_null(writer);
}

void lw__json_put_base64(struct lw__json_writer *writer, struct lw__slice bytes) {
    begin(writer);
    lw__buffer_put_byte(writer->out, '"');
    lw__base64_write(writer->out, bytes);
    lw__buffer_put_byte(writer->out, '"');
}

/* ---- other values --------------------------------------------------------------------------- */

void lw__json_put_raw(struct lw__json_writer *writer, struct lw__slice raw) {
    begin(writer);
    lw__buffer_put(writer->out, raw);
}

static void put_word(struct lw__json_writer *writer, const char *word) {
    lw__json_put_raw(writer, lw__slice_of(word));
}

void lw__json_put_null(struct lw__json_writer *writer) {
    put_word(writer, "null");
}

void lw__json_put_bool(struct lw__json_writer *writer, bool is_true) {
    put_word(writer, is_true ? "true" : "false");
}

void lw__json_put_int(struct lw__json_writer *writer, int64_t number) {
    begin(writer);
    if (number < 0)
        lw__buffer_put_byte(writer->out, '-');
    lw__buffer_put_uint(writer->out, number < 0 ? 0 - (uint64_t)number : (uint64_t)number);
}

void lw__json_put_uint(struct lw__json_writer *writer, uint64_t number) {
    begin(writer);
    lw__buffer_put_uint(writer->out, number);
}

void lw__json_put_double(struct lw__json_writer *writer, double number) {
    char text[40];
    int digits = 15;
    if (!isfinite(number)) {
        lw__json_put_null(writer);
        return;
    }
    do
        snprintf(text, sizeof text, "%.*g", digits, number);
    while (digits++ < 17 && strtod(text, NULL) != number);
    char *point = text + strcspn(text, ".,"); /* as the program's locale has it */
    if (*point)
        *point = '.';
    put_word(writer, text);
}
