/* Comparing slices, and showing them in sentences. */
#include "server/slice.h"

#include <stdio.h>

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

bool lw__slice_has_letters(struct lw__slice slice, const char *text) {
    for (size_t i = 0; i < slice.size; i++)
        if (lower(slice.data[i]) != lower(text[i]))
            return false;
    return true;
}

struct lw__shown lw__slice_show(struct lw__slice slice) {
    struct lw__shown shown = {{0}};
    size_t at = 0, i = 0;
    for (; i < slice.size && i < LW__SHOWN_MAX; i++) {
        unsigned char byte = (unsigned char)slice.data[i];
        bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
        at += (size_t)snprintf(shown.text + at, sizeof shown.text - at, is_plain ? "%c" : "\\x%02x",
                               byte);
    }
    if (i < slice.size)
        snprintf(shown.text + at, sizeof shown.text - at, "...");
    return shown;
}
