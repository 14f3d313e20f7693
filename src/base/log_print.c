/* lw_log_print: a record as one line of text.
 *
 * What is printed may come from anywhere (a task's name, an error of a handler), so that nothing in
 * it can end the line, begin a false one, move a terminal's cursor or turn the direction of what
 * follows: what cannot be shown (text.h) is escaped. */
#include "base/text.h"

#include <legwork/runtime.h>

#include <stdio.h>
#include <string.h>

/* One line, composed first and then written at once, so that those of several threads do not mix.
 */
struct line {
    char bytes[4096]; /* a longer one ends in line_cut */
    size_t used;
    bool is_cut;
};

static const char line_cut[] = "...\n"; /* there is always room left for it */

static void append(struct line *line, const char *bytes, size_t size) {
    if (line->is_cut || size > sizeof line->bytes - sizeof line_cut - line->used) {
        line->is_cut = true;
        return;
    }
    memcpy(line->bytes + line->used, bytes, size);
    line->used += size;
}

static void append_text(struct line *line, const char *text) {
    append(line, text, strlen(text));
}

static void append_escape(struct line *line, unsigned char byte) {
    static const char letters[] = {['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    char escape[5];
    if (byte < sizeof letters && letters[byte] != 0)
        snprintf(escape, sizeof escape, "\\%c", letters[byte]);
    else
        snprintf(escape, sizeof escape, "\\x%02x", byte);
    append_text(line, escape);
}

static void append_escaped(struct line *line, const char *text, bool is_quoted) {
    for (const char *at = text, *end = text + strlen(text); at < end;) {
        enum lw__text_fault fault;
        size_t size = lw__text_letter(at, end, &fault);
        for (size_t i = 0; fault != LW__TEXT_FINE && i < size; i++)
            append_escape(line, (unsigned char)at[i]);
        if (fault == LW__TEXT_FINE && is_quoted && (*at == '"' || *at == '\\'))
            append(line, (const char[]){'\\', *at}, 2);
        else if (fault == LW__TEXT_FINE)
            append(line, at, size);
        at += size;
    }
}

static bool needs_quotes(const char *value) {
    if (*value == '\0')
        return true;
    for (const char *at = value, *end = value + strlen(value); at < end;) {
        enum lw__text_fault fault;
        size_t size = lw__text_letter(at, end, &fault);
        if (fault != LW__TEXT_FINE || strchr(" \"\\=", *at) != NULL)
            return true;
        at += size;
    }
    return false;
}

static const char *text_of(const char *text) {
    return text != NULL ? text : "";
}

static void append_field(struct line *line, const lw_log_field *field) {
    const char *value = text_of(field->value);
    bool is_quoted = needs_quotes(value);
    append_text(line, " ");
    append_escaped(line, text_of(field->key), false);
    append_text(line, is_quoted ? "=\"" : "=");
    append_escaped(line, value, is_quoted);
    append_text(line, is_quoted ? "\"" : "");
}

void lw_log_print(void *user, const lw_log_record *record) {
    FILE *file = user != NULL ? user : stderr;
    struct line line = {.used = 0};

    if (record == NULL)
        return;
    append_text(&line, lw_log_level_name(record->level));
    append_text(&line, " ");
    append_escaped(&line, text_of(record->component), false);
    append_text(&line, ": ");
    append_escaped(&line, text_of(record->message), false);
    for (size_t i = 0; record->fields != NULL && i < record->field_count; i++)
        append_field(&line, &record->fields[i]);

    const char *end = line.is_cut ? line_cut : "\n";
    memcpy(line.bytes + line.used, end, strlen(end));
    line.used += strlen(end);
    fwrite(line.bytes, 1, line.used, file);
    fflush(file); /* the last line before a crash is the one that matters */
}
