/* Validation of names, and the edit distance between them. */
#include "base/names.h"

#include "base/error.h"

#include <legwork/task.h>
#include <stdio.h>
#include <string.h>

/* ---- sentences ----------------------------------------------------------------------------- */

#define SHOWN_MAX 48 /* of a name in a sentence; that is about as much as there is room for */

/* The beginning of a name, with every byte that a terminal might not show
 * as \xNN; if it was cut, it ends in "...". */
struct shown {
    char text[SHOWN_MAX + sizeof "\\xNN..."];
};

static struct shown show(const char *name) {
    struct shown shown = {{0}};
    size_t at = 0;
    for (; *name != 0 && at < SHOWN_MAX; name++) {
        unsigned char byte = (unsigned char)*name;
        bool is_plain = byte >= 0x20 && byte < 0x7f && byte != '"' && byte != '\\';
        at += (size_t)snprintf(shown.text + at, sizeof shown.text - at, is_plain ? "%c" : "\\x%02x",
                               byte);
    }
    if (*name != 0)
        snprintf(shown.text + at, sizeof shown.text - at, "...");
    return shown;
}

static int refuse_byte(const char *what, const char *name, size_t at, const char *wanted,
                       lw_error *err) {
    unsigned char byte = (unsigned char)name[at];
    char letter[sizeof " 'c'"] = "";
    if (byte >= 0x20 && byte < 0x7f)
        snprintf(letter, sizeof letter, " '%c'", byte);
    return lw__error_set(err, LW_EINVAL, 0, "%s \"%s\" has the byte 0x%02x%s at position %zu, %s",
                         what, show(name).text, byte, letter, at + 1, wanted);
}

static int check_length(const char *what, const char *name, size_t max, lw_error *err) {
    if (!name)
        return lw__error_set(err, LW_EINVAL, 0, "%s is NULL, must have 1 to %zu bytes", what, max);
    size_t length = strlen(name);
    if (length >= 1 && length <= max)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0, "%s \"%s\" has %zu bytes, must have 1 to %zu", what,
                         show(name).text, length, max);
}

/* ---- names --------------------------------------------------------------------------------- */

/* Not isalnum, which asks the locale. */
static bool is_name_byte(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.'
           || c == '_' || c == '-' || c == '/' || c == ':';
}

int lw__name_check(const char *what, const char *name, lw_error *err) {
    if (check_length(what, name, LW_NAME_MAX, err) < 0)
        return LW_EINVAL;
    for (size_t i = 0; name[i] != 0; i++)
        if (!is_name_byte(name[i]))
            return refuse_byte(what, name, i, "may have letters, digits and . _ - / : only", err);
    return LW_OK;
}

/* ---- keys ---------------------------------------------------------------------------------- */

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

/* The length of the character that begins here, 0 if none does. The ending zero continues no
 * character, so nothing is read past it. */
static size_t measure_wide(const char *text) {
    const unsigned char *bytes = (const unsigned char *)text;
    for (size_t i = 0; i < sizeof utf8_forms / sizeof *utf8_forms; i++) {
        const struct utf8_form *form = &utf8_forms[i];
        if (bytes[0] < form->first || bytes[0] > form->last)
            continue;
        if (bytes[1] < form->second_min || bytes[1] > form->second_max)
            return 0;
        for (size_t at = 2; at < form->length; at++)
            if (bytes[at] < 0x80 || bytes[at] > 0xbf)
                return 0;
        return form->length;
    }
    return 0;
}

int lw__key_check(const char *key, lw_error *err) {
    if (check_length("key", key, LW_KEY_MAX, err) < 0)
        return LW_EINVAL;
    for (size_t i = 0; key[i] != 0;) {
        unsigned char byte = (unsigned char)key[i];
        if (byte < 0x20 || byte == 0x7f)
            return refuse_byte("key", key, i, "may not have control bytes", err);
        size_t length = byte < 0x80 ? 1 : measure_wide(key + i);
        if (length == 0)
            return refuse_byte("key", key, i, "which begins no character of UTF-8", err);
        i += length;
    }
    return LW_OK;
}

/* ---- the nearest name ---------------------------------------------------------------------- */

#define FAR ((size_t)LW_NAME_MAX * 4) /* more edits than any two names can need */

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static size_t least(size_t a, size_t b) {
    return a < b ? a : b;
}

/* Edits that make b of a (optimal string alignment), or anything above `limit` if it takes more.
 * Both have at most LW_NAME_MAX letters, and their lengths differ by at most `limit`: what is
 * farther from the diagonal than that is not looked at. */
static size_t distance(const char *a, size_t a_length, const char *b, size_t b_length,
                       size_t limit) {
    size_t rows[3][LW_NAME_MAX + 2];
    size_t *older = rows[0], *old = rows[1], *row = rows[2];
    for (size_t j = 0; j <= b_length; j++)
        old[j] = j;
    for (size_t i = 1; i <= a_length; i++) {
        size_t from = i > limit ? i - limit : 1, to = least(i + limit, b_length);
        size_t best = row[from - 1] = from == 1 ? i : FAR;
        for (size_t j = from; j <= to; j++) {
            char x = lower(a[i - 1]), y = lower(b[j - 1]);
            row[j] = least(least(old[j], row[j - 1]) + 1, old[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == lower(b[j - 2]) && y == lower(a[i - 2]))
                row[j] = least(row[j], older[j - 2] + 1);
            best = least(best, row[j]);
        }
        row[to + 1] = FAR;
        if (best > limit)
            return best; /* the least of a row never falls */
        size_t *spare = older;
        older = old;
        old = row;
        row = spare;
    }
    return old[b_length];
}

const char *lw__name_nearest(const char *wanted, const char *const *known, size_t count) {
    size_t length = wanted ? strnlen(wanted, LW_NAME_MAX + 1) : 0;
    const char *nearest = NULL;
    size_t edits = FAR; /* to the nearest one */
    if (length == 0 || length > LW_NAME_MAX || !known)
        return NULL;
    for (size_t i = 0; i < count && edits > 0; i++) {
        size_t other = known[i] ? strnlen(known[i], LW_NAME_MAX + 1) : 0;
        size_t longer = other > length ? other : length, shorter = least(other, length);
        size_t limit = least(longer / 3, edits - 1);
        if (other == 0 || longer > LW_NAME_MAX || longer - shorter > limit)
            continue;
        size_t found = distance(wanted, length, known[i], other, limit);
        if (found <= limit) {
            nearest = known[i];
            edits = found;
        }
    }
    return nearest;
}
