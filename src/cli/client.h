/* A blocking connection to a server: one request at a time, by HTTP over TCP or a unix socket. */
#ifndef LW_CLI_CLIENT_H
#define LW_CLI_CLIENT_H

#include "server/http.h"

#include <legwork/status.h>

#define LW__CLIENT_ANSWER_MAX ((size_t)128 << 20) /* bytes of an answer */
#define LW__CLIENT_HOST_MAX 256
#define LW__CLIENT_SILENCE_MS 30000 /* a server that says nothing for so long is given up */
#define LW__CLIENT_TICK_MS 100

struct lw__client {
    const char *url;
    char host[LW__CLIENT_HOST_MAX]; /* with the port, as Host: has it */
    char path[LW__CLIENT_HOST_MAX]; /* of a unix socket; "": TCP */
    int fd;                         /* -1: not connected */
    struct lw__buffer in, out;
    void (*tick)(void *user); /* called every LW__CLIENT_TICK_MS of waiting; may be NULL */
    void *user;
};

/* Reads a URL, http://HOST:PORT or unix:PATH, and connects. The URL must outlive it.
 * Returns LW_OK; LW_EINVAL: it is none; LW_ESYSTEM: nobody answers there, with what to do. */
int lw__client_open(struct lw__client *client, const char *url, lw_error *err);
void lw__client_close(struct lw__client *client);

/* Asks; `body` may be empty; the server is given wait_ms beyond the usual time. *code is the
 * answer's, and `into` gets its body.
 * Returns LW_OK, whatever the code; LW_ESYSTEM, LW_ETIMEDOUT, LW_ENOMEM, LW_EINVAL. */
int lw__client_ask(struct lw__client *client, enum lw__http_method method, const char *target,
                   struct lw__slice body, int64_t wait_ms, int *code, struct lw__buffer *into,
                   lw_error *err);

#endif
