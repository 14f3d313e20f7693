#include "base/text.h"

#include <stdbool.h>

#define LETTER_MAX 4 /* bytes */

static bool is_continued(char byte) {
    return ((unsigned char)byte & 0xc0) == 0x80;
}

static size_t letter_size(char first) {
    unsigned char byte = (unsigned char)first;
    return byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : byte >= 0xc0 ? 2 : 1;
}

size_t lw__text_cut(const char *text, size_t max) {
    size_t last = max; /* where the last letter begins */
    do {
        if (last == 0)
            return max;
        last--;
    } while (is_continued(text[last]) && max - last < LETTER_MAX);
    return last + letter_size(text[last]) > max ? last : max;
}
