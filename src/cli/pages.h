/* Man pages, made of the tables that flags, help and settings are made of. The build writes each of
 * them by `legwork help --man PAGE`, and `make install` installs them. */
#ifndef LW_CLI_PAGES_H
#define LW_CLI_PAGES_H

#include "cli/arguments.h"

/* legwork-NAME(1), on standard output. Returns the exit code. */
int lw__page_print_command(const struct lw__usage *usage);

/* legwork-cron(1), of a command with verbs, each of which has a page of its own. */
struct lw__command;
int lw__page_print_verbs(const struct lw__command *owner);

/* legwork-serve(1): its options are settings. */
int lw__page_print_serve(const struct lw__usage *usage, const struct lw__config_table *settings);

int lw__page_print_legwork(void);                                   /* legwork(1) */
int lw__page_print_conf(const struct lw__config_table *settings);   /* legwork.conf(5) */
int lw__page_print_sample(const struct lw__config_table *settings); /* the sample file */

#endif
