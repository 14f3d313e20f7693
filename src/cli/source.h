/* Where `legwork work` takes its tasks from: a server, or a store that it owns itself. Both lease
 * them, and so are one to the rest.
 *
 *     source_server.c   claims, extends and settles over HTTP (docs/http-api.md)
 *     source_store.c    the same by legwork/lease.h
 *
 * Every thread has a door of its own; those of a server are connections. */
#ifndef LW_CLI_SOURCE_H
#define LW_CLI_SOURCE_H

#include "cli/place.h"

#include <legwork/lease.h>

/* A task that was claimed. */
struct lw__claimed {
    lw_id id;
    uint64_t token;
    unsigned attempt;
    char kind[LW_NAME_MAX + 1], queue[LW_NAME_MAX + 1];
    char key[LW_KEY_MAX + 1];  /* "": none */
    char traceparent[64];      /* likewise */
    struct lw__buffer payload; /* the caller's: empty and usable before, and kept for the next */
};

/* How it went; the text is the error, the result the output. */
struct lw__outcome {
    lw_outcome outcome; /* done, retry, fail; snooze: back into the queue, not counted */
    struct lw__slice result;
    const char *text;
};

struct lw__source {
    const struct lw__source_ops *ops;
    const struct lw__common *common;
    const char *queue;
    int64_t lease_ms;
    int stop_fd;       /* readable from the moment on when nothing is claimed any more */
    lw_engine *engine; /* of a store */
};

struct lw__door; /* the source's own */

/* All return LW_OK or a status with a sentence. LW_EINVAL will be so the next time, too; others may
 * not: nobody answers, or it is full. */
struct lw__source_ops {
    /* Opens one; NULL if that fails: *code is the exit code, and the reason has been printed. */
    struct lw__door *(*open)(struct lw__source *source, int *code);
    void (*close)(struct lw__door *door);
    /* Waits for a task. LW_PENDING: there was none for some time, or it has to stop. */
    int (*claim)(struct lw__door *door, struct lw__claimed *task, lw_error *err);
    /* LW_PENDING: done, but it was cancelled. LW_ELEASE: the task is not ours any more. */
    int (*extend)(struct lw__door *door, lw_id id, uint64_t token, lw_error *err);
    int (*settle)(struct lw__door *door, lw_id id, uint64_t token, const struct lw__outcome *end,
                  lw_error *err);
};

/* Opens what common->url names: a server is asked by its doors, a store is owned from now on.
 * Returns false: *code is the exit code, and the reason has been printed. */
bool lw__source_open(struct lw__source *source, int *code);
void lw__source_close(struct lw__source *source); /* all doors are closed */

extern const struct lw__source_ops lw__source_server, lw__source_store;

#endif
