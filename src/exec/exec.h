/* Commands as workers: a task's payload goes to a command's standard input, what it prints is the
 * result, its exit code is the outcome. docs/guides/commands.md says what a command sees.
 *
 *     server process                                  helper process, one thread
 *     run.c     one command, on one thread   order    helper.c   spawns each command in a process
 *     judge.c   what its end means          ------>              group of its own, signals it when
 *     kinds.c   commands as handlers        report               asked, reaps it; when the server
 *     order.c   what goes between the two   <------              is gone kills all of them
 *
 * The helper is forked by lw__exec_open, before there is any thread, and never runs the server's
 * code again. It knows the commands from that moment: an order has the number of one and never its
 * text. The bytes of a command do not pass through it: with an order come the command's ends of
 * three pipes, and one end of a socket of this one command (the control), on which a letter asks
 * for a signal and the end is reported. So each thread that runs a command has all of its own, and
 * there is nothing to share or to lock.
 *
 * The server's death, however it comes, closes the socket of the orders. The helper then kills all
 * groups, and after them whatever has left its group (it is the reaper of all of them), and ends. A
 * control that is closed without a report kills its own group.
 *
 * Signals: the helper leads a session of its own and blocks what a terminal or a manager sends to
 * all; it ends with the server. */
#ifndef LW_EXEC_EXEC_H
#define LW_EXEC_EXEC_H

#include "server/buffer.h"
#include "server/config.h"

#include <legwork/engine.h>
#include <stdatomic.h>
#include <sys/types.h>

#define LW__EXEC_KINDS_MAX LW__CONFIG_LIST_MAX
#define LW__EXEC_ERRORS_MAX 4096 /* bytes of the end of standard error that are kept */
#define LW__EXEC_HURRY_MS 1000   /* from TERM to KILL when a stop hurries, if grace_ms is more */
#define LW__EXEC_EXIT_RETRY 75   /* EX_TEMPFAIL of sysexits.h */
#define LW__EXEC_TRACE_SIZE 55   /* bytes of a traceparent of version 00 */

/* ---- the helper ----------------------------------------------------------------------------- */

struct lw__exec_options {
    const char *const *const *commands; /* argument lists, each ended by NULL */
    size_t command_count;
    size_t running_max;      /* commands at once */
    int64_t output_max;      /* bytes of a result */
    int64_t grace_ms;        /* from TERM to KILL */
    int64_t attempts;        /* after so many a command that fails has failed for good; 0: never */
    int64_t (*now_ms)(void); /* wall time, for LEGWORK_DEADLINE */
};

struct lw__exec {
    struct lw__exec_options options; /* the commands are the helper's alone */
    int orders;                      /* -1: there is no helper */
    pid_t helper;
};

/* Forks the helper. Before any thread is started, and before descriptors are opened or limits
 * raised that commands should not have. From then on SIGPIPE is ignored in this process.
 * Returns LW_OK; LW_ESYSTEM with a sentence. */
int lw__exec_open(struct lw__exec *exec, const struct lw__exec_options *options, lw_error *err);

/* Ends the helper, and with it whatever is left of any command; waits for that. One that was never
 * opened, of zeros or with orders -1, is fine. */
void lw__exec_close(struct lw__exec *exec);

/* ---- one command ---------------------------------------------------------------------------- */

/* What it is run for. All of it is the caller's. */
struct lw__exec_job {
    size_t command; /* which */
    lw_id id;
    unsigned attempt;
    const char *kind, *queue;
    const char *key;              /* NULL: none */
    struct lw__slice traceparent; /* of size 0: none */
    lw_bytes payload;
    const atomic_bool *is_void; /* true when ctx is done: kill it at once. NULL: never */
};

enum lw__exec_how {
    LW__EXEC_EXITED = 1,  /* code: of the exit */
    LW__EXEC_SIGNALLED,   /* code: the signal */
    LW__EXEC_NOT_STARTED, /* code: errno */
    LW__EXEC_HELPER_GONE, /* the helper has died, and the command with it */
};

struct lw__exec_end {
    enum lw__exec_how how;
    int code;
    bool is_asked;    /* to end: the context was done, or it printed too much */
    bool is_killed;   /* it was given the time, and then killed */
    bool is_too_long; /* its output */
    lw_reason reason; /* of the context, when it was asked; or LW_REASON_NONE */
    struct lw__buffer output;
    size_t error_size;
    char errors[LW__EXEC_ERRORS_MAX]; /* the last bytes of standard error */
};

/* Runs a command and waits for its end. When ctx is done, or when it prints more than output_max,
 * its group gets TERM, and KILL when grace_ms have passed. Threads: any number.
 * Owns: lw__exec_end_clear frees what is in *end. */
void lw__exec_run(const struct lw__exec *exec, const struct lw__exec_job *job, lw_ctx *ctx,
                  struct lw__exec_end *end);
void lw__exec_end_clear(struct lw__exec_end *end);

/* ---- what its end means --------------------------------------------------------------------- */

struct lw__exec_verdict {
    lw_outcome outcome;         /* done, retry or fail */
    char text[LW_TEXT_MAX + 1]; /* of the last two: why, and the end of standard error */
};

/* `attempt` counts from 1; output_max and attempts are of the options. */
struct lw__exec_verdict lw__exec_judge(const struct lw__exec_end *end, unsigned attempt,
                                       const struct lw__exec_options *options);

/* ---- commands as handlers ------------------------------------------------------------------- */

/* KIND=COMMAND, of a setting. The command is run by /bin/sh. */
struct lw__exec_kind {
    char name[LW_NAME_MAX + 1];
    const char *argv[4];
    size_t command;
    const struct lw__exec *exec;
};

struct lw__exec_kinds {
    size_t count;
    struct lw__exec_kind all[LW__EXEC_KINDS_MAX];
    const char *const *commands[LW__EXEC_KINDS_MAX]; /* for the options */
};

/* Reads them; the texts of the list are used on. Returns LW_OK, or LW_EINVAL with a sentence. */
int lw__exec_kinds_read(struct lw__exec_kinds *kinds, const struct lw__config_list *list,
                        lw_error *err);

/* Registers them with an engine that has not started: each at most `workers` at once, each attempt
 * with a soft deadline of timeout_ms (0: none). `kinds` and `exec` must outlive the engine.
 * Returns as lw_handle. */
int lw__exec_kinds_handle(struct lw__exec_kinds *kinds, const struct lw__exec *exec,
                          lw_engine *engine, int64_t workers, int64_t timeout_ms);

#endif
