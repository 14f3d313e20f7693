/* Texts from outside that are longer than there is room for. */
#ifndef LW_BASE_TEXT_H
#define LW_BASE_TEXT_H

#include <stddef.h>

/* How many of the first max bytes of a longer text to keep, so that no letter of UTF-8 is torn
 * apart; nothing after them is looked at. Of what is not UTF-8 at most 3 bytes are given up. */
size_t lw__text_cut(const char *text, size_t max);

#endif
