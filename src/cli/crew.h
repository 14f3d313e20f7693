/* The threads of `legwork work`: hands, each with one task at a time, and keepers, who extend the
 * leases of the hands while their commands run. An extension waits for the server's disk; several
 * are on their way at a time: they share a commit, and one that waits holds up few others. */
#ifndef LW_CLI_CREW_H
#define LW_CLI_CREW_H

#include "cli/source.h"
#include "exec/exec.h"

#include <pthread.h>
#include <stdatomic.h>

#define LW__CREW_MAX 1024  /* hands */
#define LW__KEEPERS_MAX 16 /* as many as hands, but no more than this */

/* Why a command was interrupted; the last one that comes counts. */
enum lw__crew_why {
    LW__CREW_NOT = 0,
    LW__CREW_CANCELLED, /* the task */
    LW__CREW_HURRIED,   /* we are to stop: it goes back into its queue */
    LW__CREW_LOST       /* the lease: the task is not ours any more, and nothing is said of it */
};

struct lw__hand {
    struct lw__crew *crew;
    pthread_t thread;
    struct lw__door *door;
    struct lw__claimed task;
    /* guarded by mu */
    bool is_busy;  /* with the task, until that is settled */
    lw_ctx *ctx;   /* the command's */
    lw_ctx *lease; /* done when it is over; replaced when it is extended */
    enum lw__crew_why why;
    bool is_gone;        /* LW__CREW_LOST, because we were told so; else it was only not extended */
    atomic_bool is_void; /* the lease is lost; read by the one who runs the command */
};

struct lw__keeper {
    struct lw__crew *crew;
    size_t first; /* of its hands; the others follow at a distance of keeper_count */
    struct lw__door *door;
    pthread_t thread;
};

struct lw__crew {
    struct lw__source *source;
    const struct lw__exec *exec;
    int64_t timeout_ms; /* of a command; 0: none */
    bool is_verbose;

    size_t count, started; /* hands; their threads */
    struct lw__hand *hands;
    struct lw__keeper keepers[LW__KEEPERS_MAX];
    size_t keeper_count, keepers_started;
    int keeper_fd; /* readable: the keepers have to end */
    int idle_fd;   /* readable: no hand is there any more */

    atomic_bool must_stop;
    atomic_bool is_absent;  /* whom we ask */
    atomic_bool is_refused; /* what we ask for: it has stopped by itself */
    pthread_mutex_t mu;
    size_t alive; /* guarded by mu: hands whose threads run */
};

/* Opens the doors and starts the threads; source, exec, timeout_ms and is_verbose are set. Returns
 * false: *code is the exit code, and the reason has been printed. */
bool lw__crew_start(struct lw__crew *crew, size_t count, int *code);

/* What is claimed is finished, and nothing more is claimed; idle_fd tells when that is through.
 * Twice is fine. */
void lw__crew_stop(struct lw__crew *crew);

/* What runs is ended now, and goes back. */
void lw__crew_hurry(struct lw__crew *crew);

/* Commands whose lease is over are killed. To be called often. */
void lw__crew_check_leases(struct lw__crew *crew);

/* Waits for all threads, and closes the doors. After a stop. */
void lw__crew_end(struct lw__crew *crew);

#endif
