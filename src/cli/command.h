/* Subcommands of `legwork`: one row each in main.c, which drives the dispatch and the help. */
#ifndef LW_CLI_COMMAND_H
#define LW_CLI_COMMAND_H

/* Exit codes of every command. */
enum lw__exit {
    LW__EXIT_OK = 0,
    LW__EXIT_FAILED = 1, /* it was tried and did not work */
    LW__EXIT_USAGE = 2   /* what was asked for makes no sense: a flag, a setting */
};

struct lw__command {
    const char *name;
    int (*run)(int argc, const char *const *argv); /* without `legwork` and the name */
    const char *help;
};

int lw__command_serve(int argc, const char *const *argv);
int lw__command_check(int argc, const char *const *argv);

#endif
