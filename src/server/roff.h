/* Texts as roff, the language of man pages: nothing of a text is taken for a request, and what one
 * would type (hyphens, quotes, backslashes) comes out as it is.
 *
 * Threads: any. */
#ifndef LW_SERVER_ROFF_H
#define LW_SERVER_ROFF_H

#include "server/buffer.h"

/* A text that begins a line, or several; a sentence begins a new one, as roff wants it. */
void lw__roff_put(struct lw__buffer *out, const char *text);

/* Lines that stay as they are. */
void lw__roff_put_lines(struct lw__buffer *out, const char *text);

/* What a command line is made of: --flags bold, NAMES italic. */
void lw__roff_put_synopsis(struct lw__buffer *out, struct lw__slice text);

#endif
