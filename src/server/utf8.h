/* Strict UTF-8: nothing longer than needed, no surrogates, nothing beyond U+10FFFF. */
#ifndef LW_SERVER_UTF8_H
#define LW_SERVER_UTF8_H

#include "server/slice.h"

#include <stdint.h>

/* The bytes of the character that begins here, 1 to 4; 0 if none does, or it is cut off. */
size_t lw__utf8_measure(const char *at, const char *end);

/* Whether all of it is UTF-8. */
bool lw__utf8_check(struct lw__slice slice);

/* Writes a code point, which is no surrogate and at most 0x10ffff. Returns its bytes. */
size_t lw__utf8_write(uint32_t point, char into[4]);

#endif
