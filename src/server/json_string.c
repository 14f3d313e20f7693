/* What the strings of JSON mean. */
#include "server/json_string.h"

#include "server/json.h"
#include "server/utf8.h"

struct lw__json_letters lw__json_letters_of(struct lw__slice raw) {
    if (raw.size < 2 || raw.data[0] != '"')
        return (struct lw__json_letters){NULL, NULL};
    return (struct lw__json_letters){raw.data + 1, raw.data + raw.size - 1};
}

static int hex_digit(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int lw__json_hex4(const char *at, const char *end) {
    int value = 0;
    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int digit = hex_digit(at[i]);
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/* A \uXXXX, or two of them that make a pair; `at` is behind the u. */
static size_t read_unicode(struct lw__json_letters *letters, char into[4]) {
    int first = lw__json_hex4(letters->at, letters->end);
    letters->at += first < 0 ? letters->end - letters->at : 4;
    if (first < 0)
        return 0;
    uint32_t point = (uint32_t)first;
    if (point >= 0xd800 && point <= 0xdbff && letters->end - letters->at >= 6) {
        int second = lw__json_hex4(letters->at + 2, letters->end);
        letters->at += 6;
        point = 0x10000 + ((point - 0xd800) << 10) + (((uint32_t)second - 0xdc00) & 0x3ff);
    }
    return lw__utf8_write(point, into);
}

static size_t read_escape(struct lw__json_letters *letters, char into[4]) {
    static const char codes[] = "bfnrt", meanings[] = "\b\f\n\r\t";
    if (letters->at == letters->end)
        return 0;
    char code = *letters->at++;
    if (code == 'u')
        return read_unicode(letters, into);
    const char *found = code ? strchr(codes, code) : NULL;
    into[0] = found ? meanings[found - codes] : code;
    return 1;
}

size_t lw__json_letters_next(struct lw__json_letters *letters, char into[4]) {
    if (letters->at == letters->end)
        return 0;
    into[0] = *letters->at++;
    return into[0] == '\\' ? read_escape(letters, into) : 1;
}

uint32_t lw__json_hash(struct lw__slice raw) {
    struct lw__json_letters letters = lw__json_letters_of(raw);
    uint32_t hash = 2166136261u; /* FNV-1a: keys are short, and equal hashes are compared */
    char bytes[4];
    for (; letters.at < letters.end && *letters.at != '\\'; letters.at++)
        hash = (hash ^ (unsigned char)*letters.at) * 16777619u;
    for (size_t size; (size = lw__json_letters_next(&letters, bytes)) > 0;)
        for (size_t i = 0; i < size; i++)
            hash = (hash ^ (unsigned char)bytes[i]) * 16777619u;
    return hash;
}

/* One byte of a meaning at a time. */
struct meaning {
    struct lw__json_letters letters;
    char bytes[4];
    size_t at, size;
};

static int next_byte(struct meaning *meaning) {
    if (meaning->at == meaning->size) {
        meaning->at = 0;
        meaning->size = lw__json_letters_next(&meaning->letters, meaning->bytes);
        if (meaning->size == 0)
            return -1;
    }
    return (unsigned char)meaning->bytes[meaning->at++];
}

int lw__json_compare(struct lw__slice a, struct lw__slice b) {
    struct meaning x = {.letters = lw__json_letters_of(a)};
    struct meaning y = {.letters = lw__json_letters_of(b)};
    for (;;) {
        int left = next_byte(&x), right = next_byte(&y);
        if (left != right)
            return left < right ? -1 : 1;
        if (left < 0)
            return 0;
    }
}

/* ---- for those who read values -------------------------------------------------------------- */

bool lw__json_is(struct lw__json string, const char *text) {
    struct meaning meaning = {.letters = lw__json_letters_of(string.raw)};
    struct lw__slice plain;
    if (lw__json_plain(string, &plain))
        return lw__slice_is(plain, text);
    if (!meaning.letters.at)
        return false;
    for (;; text++) {
        int byte = next_byte(&meaning);
        if (byte < 0)
            return *text == 0;
        if (byte == 0 || byte != (unsigned char)*text)
            return false;
    }
}

bool lw__json_plain(struct lw__json string, struct lw__slice *text) {
    struct lw__json_letters letters = lw__json_letters_of(string.raw);
    if (!letters.at || memchr(letters.at, '\\', (size_t)(letters.end - letters.at)))
        return false;
    *text = lw__slice_between(letters.at, letters.end);
    return true;
}

int lw__json_unescape(struct lw__json string, char *into, size_t room, size_t *size) {
    struct lw__json_letters letters = lw__json_letters_of(string.raw);
    size_t at = 0, length;
    char bytes[4];
    struct lw__slice plain;
    if (!letters.at)
        return LW_EINVAL;
    if (lw__json_plain(string, &plain) && plain.size < room) {
        memcpy(into, plain.data, plain.size);
        letters.at = letters.end;
        at = plain.size;
    }
    while ((length = lw__json_letters_next(&letters, bytes)) > 0) {
        if (length >= room - at || room == 0)
            return LW_EFULL;
        memcpy(into + at, bytes, length);
        at += length;
    }
    if (room == 0)
        return LW_EFULL;
    into[at] = 0;
    if (size)
        *size = at;
    return LW_OK;
}
