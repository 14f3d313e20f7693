/* What the strings of JSON mean, byte by byte. */
#ifndef LW_SERVER_JSON_STRING_H
#define LW_SERVER_JSON_STRING_H

#include "server/slice.h"

#include <stdint.h>

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
