/* Settings from four places, described once.
 *
 * A program describes its settings as a table of rows. The table alone decides what the flags, the
 * environment, the file, the help, the man page and the sample file have:
 *
 *     a row "body-max" in [limits]:   --body-max 1MiB   LEGWORK_BODY_MAX=1MiB   body-max = 1MiB
 *
 * Flags win over the environment, that over the file, and that over the defaults, in whichever
 * order they are read: so the flags can come first, and name the file. Every value is checked,
 * even one that loses. A name that is not known is refused, and the nearest one that is known is
 * told; only in the environment it is a warning, because others put names there, too (a service
 * called legwork has Kubernetes set LEGWORK_PORT and LEGWORK_SERVICE_HOST; so no row is called
 * "port").
 *
 * Threads: one at a time a config. */
#ifndef LW_SERVER_CONFIG_H
#define LW_SERVER_CONFIG_H

#include "server/buffer.h"
#include "server/slice.h"

#include <legwork/runtime.h>
#include <legwork/status.h>
#include <stdint.h>

/* ---- the table ------------------------------------------------------------------------------ */

#define LW__CONFIG_ROWS_MAX 64
#define LW__CONFIG_NAME_MAX 32        /* bytes of a row's name */
#define LW__CONFIG_TEXT_MAX 4096      /* bytes of a value */
#define LW__CONFIG_LIST_MAX 64        /* values of a list */
#define LW__CONFIG_FILE_MAX (1 << 16) /* bytes of a file */

enum lw__config_type {
    LW__CONFIG_TEXT,     /* const char *, never NULL: may be empty */
    LW__CONFIG_COUNT,    /* int64_t */
    LW__CONFIG_DURATION, /* int64_t, in ms: server/units.h */
    LW__CONFIG_SIZE,     /* int64_t, in bytes: server/units.h */
    LW__CONFIG_SWITCH,   /* bool: yes, no */
    LW__CONFIG_CHOICE,   /* int: the index of one of `choices` */
    LW__CONFIG_LIST      /* struct lw__config_list: may be given several times */
};

struct lw__config_list {
    size_t count;
    const char *items[LW__CONFIG_LIST_MAX];
};

struct lw__config_row {
    const char *section; /* of the file; rows of one stand together. NULL: not in the file */
    const char *name;    /* small letters, digits and - */
    enum lw__config_type type;
    size_t offset;              /* of the value, in the program's struct */
    const char *fallback;       /* the default, as one would write it; of a list it is empty */
    int64_t min, max;           /* of a count, duration or size */
    const char *const *choices; /* of a choice; NULL ends them */
    const char *argument;       /* "ADDRESS", in the help */
    const char *help;           /* a sentence or two */
    bool needs_restart;         /* one that runs does not take it up when it reads them again */
    char letter;                /* of a command's flag: -n beside --count; 0: none */
};

struct lw__config_table {
    const struct lw__config_row *rows;
    size_t count;
};

/* ---- reading -------------------------------------------------------------------------------- */

enum lw__config_source {
    LW__CONFIG_DEFAULT,
    LW__CONFIG_FILE,
    LW__CONFIG_ENVIRONMENT,
    LW__CONFIG_FLAG
};

struct lw__config_block; /* a text that is kept */

struct lw__config {
    const struct lw__config_table *table;
    void *values; /* the program's struct */
    const lw_allocator *allocator;
    struct lw__config_block *blocks;
    unsigned char sources[LW__CONFIG_ROWS_MAX]; /* where each value is from */
    const char *const *others; /* variables that are known besides, and that nobody is warned of;
                                * NULL ends them. The program's; after lw__config_init: NULL */
};

/* Fills the struct with the defaults. The table, the struct and the allocator must outlive it;
 * texts in the struct live until lw__config_clear. Returns LW_OK or LW_ENOMEM. */
int lw__config_init(struct lw__config *config, const struct lw__config_table *table, void *values,
                    const lw_allocator *allocator);
void lw__config_clear(struct lw__config *config);

/* Reads --name VALUE, --name=VALUE, and --name or --no-name for a switch. It stops at the first
 * argument that is no flag and behind --: *rest is its index. With --help or -h *wants_help is
 * true. Returns LW_OK; LW_EINVAL with a sentence; LW_ENOMEM. */
int lw__config_flags(struct lw__config *config, int argc, const char *const *argv, int *rest,
                     bool *wants_help, lw_error *err);

/* Reads what begins with LEGWORK_ in an environment (as `environ` is). One that is empty counts as
 * not there. warn (may be NULL) is told of names that are not known. Returns as above. */
int lw__config_environment(struct lw__config *config, const char *const *environment,
                           void (*warn)(void *user, const char *sentence), void *user,
                           lw_error *err);

/* Reads a file; `name` is for sentences. Sections, key = value, comments on lines of their own
 * after # or ;, and an indented line goes on with the value before it. Returns as above; a file
 * that cannot be read is LW_ESYSTEM, with errno. */
int lw__config_text(struct lw__config *config, const char *name, struct lw__slice text,
                    lw_error *err);
int lw__config_file(struct lw__config *config, const char *path, lw_error *err);

/* ---- writing -------------------------------------------------------------------------------- */

void lw__config_write_help(const struct lw__config_table *table, struct lw__buffer *out);
void lw__config_write_sample(const struct lw__config_table *table, struct lw__buffer *out);

/* roff, without its head: the flags, and the keys of the file by their sections. */
void lw__config_write_man(const struct lw__config_table *table, struct lw__buffer *out);
void lw__config_write_man_file(const struct lw__config_table *table, struct lw__buffer *out);

/* The values as they are, in the form of a file, and where each is from. */
void lw__config_write_values(const struct lw__config *config, struct lw__buffer *out);

/* The first row that needs a restart and is not the same in these two, which have one table; NULL:
 * there is none behind `after` (NULL: from the beginning). */
const struct lw__config_row *lw__config_differs(const struct lw__config *a,
                                                const struct lw__config *b,
                                                const struct lw__config_row *after);

/* LEGWORK_BODY_MAX for body-max. */
struct lw__config_variable {
    char name[sizeof "LEGWORK_" + LW__CONFIG_NAME_MAX];
};
struct lw__config_variable lw__config_variable_of(const struct lw__config_row *row);

#endif
