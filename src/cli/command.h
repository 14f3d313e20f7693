/* Subcommands of `legwork`: one row each in main.c, which drives the dispatch, the help and the man
 * pages. A command that stands for many things to do has verbs, `legwork cron next`: one row each
 * in a table of its own, with the same effect. */
#ifndef LW_CLI_COMMAND_H
#define LW_CLI_COMMAND_H

#include <stddef.h>

/* Exit codes of every command: constant, number, for the help. */
#define LW__EXIT_MAP(X)                             \
    X(OK, 0, "done")                                \
    X(FAILED, 1, "did not work")                    \
    X(USAGE, 2, "wrong usage")                      \
    X(ABSENT, 3, "no server or store there")        \
    X(NOT_FOUND, 4, "no such task, queue or flow")  \
    X(BAD_END, 5, "the task failed or was aborted") \
    X(NOT_YET, 6, "it has not ended yet")

enum lw__exit {
#define LW__EXIT_ENUM(constant, number, text) LW__EXIT_##constant = (number),
    LW__EXIT_MAP(LW__EXIT_ENUM)
#undef LW__EXIT_ENUM
};

/* A table of commands ends with one that has no name. */
struct lw__command {
    const char *name;
    int (*run)(int argc, const char *const *argv); /* without `legwork` and the name; NULL: verbs */
    const char *help;                              /* what it does, in a line */
    const struct lw__command *verbs;
};

extern const struct lw__command lw__commands[];

/* command.c */

/* The command, or the verb of one, whose name a line begins with: "cron next EXPRESSION". *size is
 * how many bytes the name has, as it stands there. NULL: there is none; *size is 0, or the size of
 * the command's name if that has no such verb. */
const struct lw__command *lw__command_of(const char *line, size_t *size);

/* Runs what argv[0] names in a table. `owner` has it as its verbs; NULL: it is lw__commands. */
int lw__command_run(const struct lw__command *owner, int argc, const char *const *argv);

/* Prints that there is no command of this name, and the nearest. Returns the exit code. */
int lw__command_refuse(const struct lw__command *owner, const char *name);

/* help.c */
int lw__command_help(int argc, const char *const *argv);
int lw__command_version(int argc, const char *const *argv);
void lw__help_print_verbs(const struct lw__command *owner);

/* serve.c */
int lw__command_serve(int argc, const char *const *argv);
int lw__command_check(int argc, const char *const *argv);

/* submit.c */
int lw__command_submit(int argc, const char *const *argv);

/* ls.c, show.c */
int lw__command_ls(int argc, const char *const *argv);
int lw__command_show(int argc, const char *const *argv);
int lw__command_explain(int argc, const char *const *argv);

/* flows.c */
int lw__command_flows(int argc, const char *const *argv);

/* watch.c */
int lw__command_watch(int argc, const char *const *argv);

/* work.c */
int lw__command_work(int argc, const char *const *argv);

/* steer.c */
int lw__command_retry(int argc, const char *const *argv);
int lw__command_cancel(int argc, const char *const *argv);
int lw__command_pause(int argc, const char *const *argv);
int lw__command_resume(int argc, const char *const *argv);
int lw__command_drain(int argc, const char *const *argv);

/* cron.c */
extern const struct lw__command lw__cron_verbs[];

/* bench.c */
int lw__command_bench(int argc, const char *const *argv);

#endif
