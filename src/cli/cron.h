/* What the verbs of `legwork cron` share. */
#ifndef LW_CLI_CRON_H
#define LW_CLI_CRON_H

struct lw__buffer;

/* caret.c: the expression, and below it a caret under the place that a sentence about it names; of
 * a sentence that names none, nothing. */
void lw__cron_put_caret(struct lw__buffer *out, const char *expression, const char *sentence);

/* cron.c: prints the sentence, and on a terminal the lines with the caret. */
void lw__cron_complain(const char *expression, const char *sentence);

/* cron_next.c */
int lw__command_cron_next(int argc, const char *const *argv);

#endif
