/* The terminal and the clock: what the commands print on, and when. */
#ifndef LW_CLI_SCREEN_H
#define LW_CLI_SCREEN_H

#include "cli/render.h"

#define LW__SCREEN_MAX ((size_t)256 << 20) /* bytes of one page */

int64_t lw__now_ms(void); /* wall time */

/* An empty page, and its way out; it is empty and usable afterwards. */
void lw__page_begin(struct lw__buffer *page);
void lw__page_print(struct lw__buffer *page, FILE *file);

/* Bytes of a task: as they are to a file or pipe, harmless on a terminal, where a last line is
 * ended. */
void lw__print_bytes(struct lw__slice bytes, const struct lw__style *style);

/* A spinner on standard error, if that is a terminal; otherwise nothing. lw__spinner_turn is called
 * as often as one likes. */
struct lw__spinner {
    struct lw__style style;
    unsigned turns;
    int64_t since_ms;
    bool is_shown;
    char what[128];
};
void lw__spinner_begin(struct lw__spinner *spinner);
void lw__spinner_turn(void *spinner);
void lw__spinner_end(struct lw__spinner *spinner); /* wipes it */

#endif
