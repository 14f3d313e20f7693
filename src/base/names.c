/* Validation of names, and the edit distance between them. */
#include "base/names.h"

#include "base/error.h"
#include "base/text.h"

#include <legwork/task.h>
#include <stdio.h>
#include <string.h>

/* ---- sentences ----------------------------------------------------------------------------- */

static int refuse_byte(const char *what, const char *name, size_t at, const char *wanted,
                       lw_error *err) {
    unsigned char byte = (unsigned char)name[at];
    char letter[sizeof " 'c'"] = "";
    if (byte >= 0x20 && byte < 0x7f)
        snprintf(letter, sizeof letter, " '%c'", byte);
    return lw__error_set(err, LW_EINVAL, 0, "%s \"%s\" has the byte 0x%02x%s at position %zu, %s",
                         what, lw__text_quote(name).text, byte, letter, at + 1, wanted);
}

static int check_length(const char *what, const char *name, size_t max, lw_error *err) {
    if (!name)
        return lw__error_set(err, LW_EINVAL, 0, "%s is NULL, must have 1 to %zu bytes", what, max);
    size_t length = strlen(name);
    if (length >= 1 && length <= max)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0, "%s \"%s\" has %zu bytes, must have 1 to %zu", what,
                         lw__text_quote(name).text, length, max);
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

/* ---- keys, and other texts ---------------------------------------------------------------- */

/* Whether all letters can be shown, of a text that ends or was cut at `size`. */
static int check_letters(const char *what, const char *text, size_t size, lw_error *err) {
    static const char *const wanted[] = {
        [LW__TEXT_CONTROL] = "may not have control characters",
        [LW__TEXT_INVISIBLE] = "may not have invisible characters, or ones that turn the direction",
        [LW__TEXT_NO_UTF8] = "which begins no character of UTF-8"};
    for (size_t i = 0; i < size;) {
        enum lw__text_fault fault;
        size_t length = lw__text_letter(text + i, text + size, &fault);
        if (fault != LW__TEXT_FINE)
            return refuse_byte(what, text, i, wanted[fault], err);
        i += length;
    }
    return LW_OK;
}

int lw__key_check(const char *what, const char *key, size_t max, lw_error *err) {
    if (check_length(what, key, max, err) < 0)
        return LW_EINVAL;
    return check_letters(what, key, strlen(key), err);
}

int lw__shown_check(const char *what, const char *text, size_t max, lw_error *err) {
    size_t size = strnlen(text, max + 1);
    return check_letters(what, text, size > max ? lw__text_cut(text, max) : size, err);
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
