/* Subcommands of `legwork`: one row each in main.c, which drives the dispatch and the help. */
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

struct lw__command {
    const char *name;
    int (*run)(int argc, const char *const *argv); /* without `legwork` and the name */
    const char *help;                              /* what it does, in a line */
};

extern const struct lw__command lw__commands[];
extern const size_t lw__command_count;

/* help.c */
int lw__command_help(int argc, const char *const *argv);
int lw__command_version(int argc, const char *const *argv);
int lw__command_refuse(const char *name); /* there is none of this name */

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

/* bench.c */
int lw__command_bench(int argc, const char *const *argv);

#endif
