#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static bool make_room(struct text *text, size_t more) {
    size_t wanted = text->size + more + 1, capacity = text->capacity ? text->capacity : 256;
    if (text->is_broken || wanted > TEXT_MAX)
        return false;
    while (capacity < wanted)
        capacity *= 2;
    if (capacity == text->capacity)
        return true;
    char *bytes = realloc(text->bytes, capacity);
    if (!bytes)
        return false;
    text->bytes = bytes;
    text->capacity = capacity;
    return true;
}

void text_add(struct text *text, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int size = vsnprintf(NULL, 0, format, args);
    if (size >= 0 && make_room(text, (size_t)size)) {
        vsnprintf(text->bytes + text->size, (size_t)size + 1, format, again);
        text->size += (size_t)size;
    } else {
        text->is_broken = true;
    }
    va_end(again);
    va_end(args);
}

void text_add_json(struct text *text, const char *value) {
    text_add(text, "\"");
    for (const char *at = value; *at; at++) {
        if (*at == '"' || *at == '\\')
            text_add(text, "\\%c", *at);
        else if ((unsigned char)*at < ' ')
            text_add(text, "\\u%04x", (unsigned)*at);
        else
            text_add(text, "%c", *at);
    }
    text_add(text, "\"");
}
