/* Subcommands of `legwork`: one row each in main.c, which drives the dispatch and the help. */
#ifndef LW_CLI_COMMAND_H
#define LW_CLI_COMMAND_H

/* Exit codes of every command. */
enum lw__exit {
    LW__EXIT_OK = 0,
    LW__EXIT_FAILED = 1,    /* it was tried and did not work */
    LW__EXIT_USAGE = 2,     /* what was asked for makes no sense: a flag, a setting */
    LW__EXIT_ABSENT = 3,    /* no server answers, or there is no store */
    LW__EXIT_NOT_FOUND = 4, /* no such task or queue */
    LW__EXIT_BAD_END = 5,   /* the task that was waited for has failed or was aborted */
    LW__EXIT_NOT_YET = 6    /* it had not ended when the time was over */
};

struct lw__command {
    const char *name;
    int (*run)(int argc, const char *const *argv); /* without `legwork` and the name */
    const char *help;
};

/* serve.c */
int lw__command_serve(int argc, const char *const *argv);
int lw__command_check(int argc, const char *const *argv);

/* submit.c */
int lw__command_submit(int argc, const char *const *argv);

/* ls.c, show.c */
int lw__command_ls(int argc, const char *const *argv);
int lw__command_show(int argc, const char *const *argv);
int lw__command_explain(int argc, const char *const *argv);

/* watch.c */
int lw__command_watch(int argc, const char *const *argv);

/* steer.c */
int lw__command_retry(int argc, const char *const *argv);
int lw__command_cancel(int argc, const char *const *argv);
int lw__command_pause(int argc, const char *const *argv);
int lw__command_resume(int argc, const char *const *argv);
int lw__command_drain(int argc, const char *const *argv);

/* bench.c */
int lw__command_bench(int argc, const char *const *argv);

#endif
