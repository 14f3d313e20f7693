/* What the files of the configuration share.
 *
 *     config.c         rows, values, flags, environment
 *     config_file.c    the file, by way of inih
 *     config_print.c   help, man page, sample, values */
#ifndef LW_SERVER_CONFIG_INTERNAL_H
#define LW_SERVER_CONFIG_INTERNAL_H

#include "server/config.h"
#include "server/units.h"

/* The row of that name; NULL if there is none. */
const struct lw__config_row *lw__config_find(const struct lw__config_table *table,
                                             struct lw__slice name);

/* A count, duration or size as one would write it. */
struct lw__units_text lw__config_number(const struct lw__config_row *row, int64_t number);

/* Sets a row's value from text, if none from a better place is there. `where` begins the sentence,
 * if it is refused: "legwork.conf:12: body-max". */
int lw__config_set(struct lw__config *config, const struct lw__config_row *row,
                   enum lw__config_source source, struct lw__slice text, const char *where,
                   lw_error *err);

#endif
