#include "base/text.h"

#include <legwork/runtime.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define LETTER_MAX 4 /* bytes */

/* ---- cutting ------------------------------------------------------------------------------- */

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

/* ---- letters ------------------------------------------------------------------------------- */

/* By its first byte: how long a character is, and the range of its second byte, which excludes what
 * is longer than needed, surrogates, and what lies beyond U+10FFFF. */
struct utf8_form {
    unsigned char first, last; /* first bytes */
    unsigned char length, second_min, second_max;
};

static const struct utf8_form utf8_forms[] = {
    {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf}, {0xe1, 0xec, 3, 0x80, 0xbf},
    {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
    {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
};

/* The length of the character beyond ASCII that begins here, 0 if none does. */
static size_t measure_wide(const unsigned char *bytes, size_t left) {
    for (size_t i = 0; i < sizeof utf8_forms / sizeof *utf8_forms; i++) {
        const struct utf8_form *form = &utf8_forms[i];
        if (bytes[0] < form->first || bytes[0] > form->last)
            continue;
        if (left < form->length || bytes[1] < form->second_min || bytes[1] > form->second_max)
            return 0;
        for (size_t at = 2; at < form->length; at++)
            if ((bytes[at] & 0xc0) != 0x80)
                return 0;
        return form->length;
    }
    return 0;
}

static uint32_t point_of(const unsigned char *bytes, size_t length) {
    uint32_t point = bytes[0] & (0xffu >> (length + 1));
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (bytes[i] & 0x3fu);
    return point;
}

/* Those of Unicode's format characters and fillers that are not seen themselves. Joiners of emoji
 * and of some scripts are among them: that keys which look the same are the same is worth more. */
static bool is_invisible(uint32_t point) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00ad, 0x00ad}, /* soft hyphen */
        {0x034f, 0x034f}, /* combining grapheme joiner */
        {0x061c, 0x061c}, /* Arabic letter mark */
        {0x115f, 0x1160}, /* Hangul fillers */
        {0x180b, 0x180f}, /* Mongolian selectors and vowel separator */
        {0x200b, 0x200f}, /* zero-width space and joiners, left-to-right and right-to-left marks */
        {0x2028, 0x202e}, /* separators of lines and paragraphs, embeddings and overrides */
        {0x2060, 0x206f}, /* word joiner, invisible operators, isolates, deprecated controls */
        {0x3164, 0x3164}, /* Hangul filler */
        {0xfeff, 0xfeff}, /* byte order mark */
        {0xffa0, 0xffa0}, /* Hangul filler, of half width */
        {0xfff9, 0xfffb}, /* interlinear annotation */
        {0xe0000, 0xe007f}, /* tags */
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (point >= ranges[i].first && point <= ranges[i].last)
            return true;
    return false;
}

size_t lw__text_letter(const char *at, const char *end, enum lw__text_fault *fault) {
    const unsigned char *bytes = (const unsigned char *)at;
    if (bytes[0] < 0x80) {
        *fault = bytes[0] < 0x20 || bytes[0] == 0x7f ? LW__TEXT_CONTROL : LW__TEXT_FINE;
        return 1;
    }
    size_t length = measure_wide(bytes, (size_t)(end - at));
    uint32_t point = length > 0 ? point_of(bytes, length) : 0;
    *fault = length == 0           ? LW__TEXT_NO_UTF8
             : point < 0xa0        ? LW__TEXT_CONTROL
             : is_invisible(point) ? LW__TEXT_INVISIBLE
                                   : LW__TEXT_FINE;
    return length > 0 ? length : 1;
}

/* ---- showing ------------------------------------------------------------------------------- */

/* Writes a letter, or the escapes of its bytes; returns how long that is. */
static size_t show_letter(char into[4 * LETTER_MAX], const char *at, size_t size, bool is_escaped) {
    static const char digits[] = "0123456789abcdef";
    if (!is_escaped) {
        memcpy(into, at, size);
        return size;
    }
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)at[i];
        memcpy(into + 4 * i, (const char[]){'\\', 'x', digits[byte >> 4], digits[byte & 15]}, 4);
    }
    return 4 * size;
}

size_t lw_text_show(char *into, size_t room, const char *text, size_t size) {
    size_t all = 0, used = 0;
    for (size_t i = 0; i < size;) {
        enum lw__text_fault fault;
        char shown[4 * LETTER_MAX];
        size_t step = lw__text_letter(text + i, text + size, &fault);
        size_t length = show_letter(shown, text + i, step, fault != LW__TEXT_FINE);
        if (used == all && length < room - used) { /* nothing was left out so far */
            memcpy(into + used, shown, length);
            used += length;
        }
        all += length;
        i += step;
    }
    if (room > 0)
        into[used] = 0;
    return all;
}

struct lw__quoted lw__text_quote(const char *text) {
    struct lw__quoted quoted = {{0}};
    size_t used = 0;
    if (!text)
        text = "(none)";
    const char *end = text + strnlen(text, LW__QUOTED_MAX + LETTER_MAX);
    while (text < end) {
        enum lw__text_fault fault;
        char shown[4 * LETTER_MAX];
        size_t step = lw__text_letter(text, end, &fault);
        bool is_escaped = fault != LW__TEXT_FINE || *text == '"' || *text == '\\';
        size_t length = show_letter(shown, text, step, is_escaped);
        if (used + length > LW__QUOTED_MAX)
            break;
        memcpy(quoted.text + used, shown, length);
        used += length;
        text += step;
    }
    memcpy(quoted.text + used, *text ? "..." : "", *text ? sizeof "..." : 1);
    return quoted;
}

void lw__text_print(char into[LW_ERROR_MESSAGE_MAX], const char *format, va_list args) {
    static const char cut[] = "...";
    char raw[LW_ERROR_MESSAGE_MAX];
    int length = vsnprintf(raw, sizeof raw, format, args);
    size_t size = length < 0 ? 0 : (size_t)length;
    bool is_cut = size >= sizeof raw;
    if (is_cut)
        size = lw__text_cut(raw, sizeof raw - 1);
    size_t all = lw_text_show(into, LW_ERROR_MESSAGE_MAX, raw, size);
    if (!is_cut && all < LW_ERROR_MESSAGE_MAX)
        return;
    size_t room = LW_ERROR_MESSAGE_MAX - sizeof cut, used = strlen(into);
    memcpy(into + (used > room ? lw__text_cut(into, room) : used), cut, sizeof cut);
}
