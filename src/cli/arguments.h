/* What stands behind a subcommand: flags, by a table as for the server's settings, and words, in
 * any order; and the help, from the same table. */
#ifndef LW_CLI_ARGUMENTS_H
#define LW_CLI_ARGUMENTS_H

#include "server/config.h"

#define LW__WORDS_MAX 256
#define LW__ROFF_FLAG "--roff"                  /* of every command, for `legwork help --man` */
#define LW__DEFAULT_URL "http://127.0.0.1:7411" /* where serve listens by itself */

/* The first member of the values of every command that talks to a server or a store. */
struct lw__common {
    const char *url;
    bool is_json, is_verbose;
};

/* Their rows, which begin every table. */
/* clang-format off */
#define LW__COMMON_AT(field) .offset = offsetof(struct lw__common, field)
#define LW__COMMON_ROWS                                                                      \
    {NULL, "url", .type = LW__CONFIG_TEXT, LW__COMMON_AT(url), .fallback = "",               \
     .argument = "URL",                                                                      \
     .help = "Whom to ask: http://HOST:PORT, unix:PATH, or sqlite:FILE without a server."},  \
    {NULL, "json", .type = LW__CONFIG_SWITCH, LW__COMMON_AT(is_json), .fallback = "no",      \
     .help = "Print JSON, for scripts."},                                                    \
    {NULL, "verbose", .type = LW__CONFIG_SWITCH, LW__COMMON_AT(is_verbose),                  \
     .fallback = "no", .letter = 'v', .help = "Say who was asked, and how."}
/* clang-format on */

/* A command as its help tells it. */
struct lw__usage {
    const char *line;    /* "show ID..." */
    const char *about;   /* what it does: lines */
    const char *example; /* lines; may be NULL */
    struct lw__config_table table;
    size_t words_min, words_max;
    bool is_local; /* asks nobody: no URL, and no exit codes of tasks */
};

struct lw__arguments {
    struct lw__config config;
    size_t count;
    const char *words[LW__WORDS_MAX];
};

/* Reads all of them into `values`, whose first member is a struct lw__common. LEGWORK_URL is used
 * if no --url is given, and else the address where `legwork serve` listens by default.
 * Returns true: go on, and lw__arguments_clear at the end. False: *code is how to end; the help
 * (--help), the man page (LW__ROFF_FLAG, alone) or what is wrong has been printed. */
bool lw__arguments_read(struct lw__arguments *arguments, const struct lw__usage *usage, int argc,
                        const char *const *argv, void *values, int *code);
void lw__arguments_clear(struct lw__arguments *arguments);

/* A task's id. */
int lw__id_read(const char *text, unsigned long long *id, lw_error *err);

#endif
