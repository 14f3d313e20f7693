/* Texts from outside: cutting them, and which of their letters can be shown.
 *
 * The one rule of what may reach a terminal or a log line: letters of well-formed UTF-8, but for
 * controls and for what has no look of its own and changes that of others (characters that turn the
 * direction of writing, have no width, or separate lines). Names and keys with anything else are
 * refused (names.h); in texts that nobody can refuse it is escaped (lw_text_show,
 * legwork/runtime.h). */
#ifndef LW_BASE_TEXT_H
#define LW_BASE_TEXT_H

#include <legwork/status.h>
#include <stdarg.h>
#include <stddef.h>

/* How many of the first max bytes of a longer text to keep, so that no letter of UTF-8 is torn
 * apart; nothing after them is looked at. Of what is not UTF-8 at most 3 bytes are given up. */
size_t lw__text_cut(const char *text, size_t max);

/* Why a letter cannot be shown. */
enum lw__text_fault {
    LW__TEXT_FINE,
    LW__TEXT_CONTROL,   /* U+0000 to U+001F, U+007F to U+009F */
    LW__TEXT_INVISIBLE, /* it turns the direction, has no width, or separates lines */
    LW__TEXT_NO_UTF8
};

/* The bytes of the letter that begins here and ends before `end`, 1 to 4, and whether it can be
 * shown; of what is no UTF-8 one byte. at < end. */
size_t lw__text_letter(const char *at, const char *end, enum lw__text_fault *fault);

/* Bytes of a text in a sentence; about as much as there is room for. */
#define LW__QUOTED_MAX 48

/* The beginning of a text as a sentence shows it between quotes: quotes, backslashes and what
 * cannot be shown are \xNN; "..." stands for what was cut off. NULL is shown as "(none)". */
struct lw__quoted {
    char text[LW__QUOTED_MAX + sizeof "..."];
};
struct lw__quoted lw__text_quote(const char *text);

/* Prints a sentence. Whatever an argument has brought along, it can be shown: the rest is escaped.
 * One that is too long ends in "...". No argument may point into it. */
void lw__text_print(char into[LW_ERROR_MESSAGE_MAX], const char *format, va_list args)
    LW_PRINTF(2, 0);

#endif
