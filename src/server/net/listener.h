/* Listening sockets: on loopback, in the file system, or inherited from a service manager.
 *
 *     127.0.0.1:7411   [::1]:7411   localhost:7411   unix:/run/legwork/socket
 *
 * Anything else is refused: until there are tokens and TLS, whoever can connect can do everything.
 *
 * A service manager that keeps the sockets (LISTEN_FDS) lets them outlive this process: clients
 * that come while it restarts wait in the backlog and are not refused.
 *
 * When descriptors are used up, one connection at a time is accepted on the loop's spare one
 * (is_sparing); the others wait in the backlog. Its protocol should be done with it soon, and then
 * calls lw__loop_keep_spare and lw__listener_resume. */
#ifndef LW_SERVER_NET_LISTENER_H
#define LW_SERVER_NET_LISTENER_H

#include "server/net/loop.h"
#include "server/slice.h"

#define LW__LISTENERS_MAX 16
#define LW__LISTENER_TEXT_MAX 160 /* bytes of an address as text */
#define LW__LISTENER_REST_MS 100  /* without descriptors or memory it looks again after this */

struct lw__listener;

/* A connection came in: takes over the socket, or closes it. */
typedef void (*lw__accepted)(void *user, int fd, const struct lw__listener *listener);

struct lw__listener {
    struct lw__loop *loop;
    struct event accepting, resting;
    lw__accepted accepted;
    void *user;
    int fd; /* -1: closed */
    bool is_accepting;
    bool is_sparing; /* in the callback: the connection has the spare descriptor */
    bool is_unix, is_inherited;
    char path[LW__LISTENER_TEXT_MAX]; /* of a unix socket that is ours to remove; "": none */
    char text[LW__LISTENER_TEXT_MAX]; /* "http://127.0.0.1:7411", "unix:/run/legwork/socket" */
};

/* Whether it is an address that can be listened on: LW_OK, or LW_EINVAL with a sentence. */
int lw__listener_check(const char *address, lw_error *err);

/* Opens a listening socket on an address; port 0 takes a free one. Accepts nothing before
 * lw__listener_start. Returns LW_OK; LW_EINVAL: no address, or not a local one; LW_EBUSY: it is in
 * use; LW_ESYSTEM. */
int lw__listener_open(struct lw__listener *listener, struct lw__loop *loop, const char *address,
                      lw_error *err);

/* The same for a descriptor that was inherited. */
int lw__listener_adopt(struct lw__listener *listener, struct lw__loop *loop, int fd, lw_error *err);

void lw__listener_start(struct lw__listener *listener, lw__accepted accepted, void *user);

/* Lets new connections wait in the backlog, and takes them again. */
void lw__listener_pause(struct lw__listener *listener);
void lw__listener_resume(struct lw__listener *listener);

void lw__listener_close(struct lw__listener *listener);

#endif
