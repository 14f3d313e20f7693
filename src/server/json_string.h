/* What the strings of JSON mean, byte by byte. */
#ifndef LW_SERVER_JSON_STRING_H
#define LW_SERVER_JSON_STRING_H

#include "server/slice.h"

#include <stdint.h>
#include <string.h>

/* The first byte that does not stand for itself in a string: a quote, a backslash, a control byte
 * or what is beyond ASCII; or the end. Eight bytes at a time: of each word one bit a byte is left
 * for those that are one of these, and above the first of them perhaps for others. */
static inline const char *lw__json_skip_plain(const char *at, const char *end) {
    const uint64_t ones = UINT64_C(0x0101010101010101), tops = ones << 7;
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (uint64_t word; end - at >= 8; at += 8) {
        memcpy(&word, at, sizeof word);
        uint64_t quotes = word ^ ones * '"', slashes = word ^ ones * '\\';
        uint64_t found = (word | (word - ones * 0x20) | ((quotes - ones) & ~quotes)
                          | ((slashes - ones) & ~slashes))
                         & tops;
        if (found)
            return at + __builtin_ctzll(found) / 8;
    }
#endif
    while (at < end && (unsigned char)*at >= 0x20 && !(*at & 0x80) && *at != '"' && *at != '\\')
        at++;
    return at;
}

/* Reads the meaning of a string that was checked, a few bytes a step. */
struct lw__json_letters {
    const char *at, *end; /* between the quotes */
};

struct lw__json_letters lw__json_letters_of(struct lw__slice raw); /* with its quotes */

/* The next letter: 1 to 4 bytes; 0 at the end. */
size_t lw__json_letters_next(struct lw__json_letters *letters, char into[4]);

/* The four hex digits of a \u, -1 if they are none. */
int lw__json_hex4(const char *at, const char *end);

uint32_t lw__json_hash(struct lw__slice raw); /* of what it means */

/* As memcmp does, by what they mean. */
int lw__json_compare(struct lw__slice a, struct lw__slice b);

#endif
