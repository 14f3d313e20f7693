/* UTF-8 by the table of the Unicode standard ("well-formed byte sequences"). */
#include "server/utf8.h"

/* By its first byte: how long a character is, and the range of its second byte. */
struct form {
    unsigned char first, last; /* first bytes */
    unsigned char length, second_min, second_max;
};

static const struct form forms[] = {
    {0x00, 0x7f, 1, 0x00, 0x00}, {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
    {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
    {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

static const struct form *find_form(unsigned char first) {
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (first >= forms[i].first && first <= forms[i].last)
            return &forms[i];
    return NULL;
}

size_t lw__utf8_measure(const char *at, const char *end) {
    const unsigned char *bytes = (const unsigned char *)at;
    const struct form *form = at < end ? find_form(bytes[0]) : NULL;
    if (!form || (size_t)(end - at) < form->length)
        return 0;
    if (form->length > 1 && (bytes[1] < form->second_min || bytes[1] > form->second_max))
        return 0;
    for (size_t i = 2; i < form->length; i++)
        if (bytes[i] < 0x80 || bytes[i] > 0xbf)
            return 0;
    return form->length;
}

bool lw__utf8_check(struct lw__slice slice) {
    const char *at = slice.data, *end = lw__slice_end(slice);
    while (at < end) {
        size_t length = (unsigned char)*at < 0x80 ? 1 : lw__utf8_measure(at, end);
        if (length == 0)
            return false;
        at += length;
    }
    return true;
}

size_t lw__utf8_write(uint32_t point, char into[4]) {
    if (point < 0x80) {
        into[0] = (char)point;
        return 1;
    }
    size_t length = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length - 1; i > 0; i--, point >>= 6)
        into[i] = (char)(0x80 | (point & 0x3f));
    into[0] = (char)((0xf00 >> length) & 0xff) | (char)point;
    return length;
}
