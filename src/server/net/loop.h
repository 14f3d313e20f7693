/* The loop: one thread on which all connections live, and the door through which other threads come
 * back to it.
 *
 * Everything in net/ and api/ is called on the loop's thread, but for lw__loop_post. No callback on
 * it may wait: what has to wait for a disk is handed to others, who post when they are through.
 *
 * Each callback of libevent's ends with lw__loop_settle: connections that want a turn get it,
 * answers that were written meanwhile go out with one system call a connection, and connections
 * that were closed are freed, so that nobody up the stack holds one that is gone. */
#ifndef LW_SERVER_NET_LOOP_H
#define LW_SERVER_NET_LOOP_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <legwork/status.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define LW__LOOP_SCRATCH 65536 /* bytes that are read at once */

struct lw__conn;

/* Something to be done on the loop. It belongs to whoever posts it, until it runs. */
struct lw__post {
    struct lw__post *next;
    void (*run)(struct lw__post *post);
};

struct lw__loop {
    struct event_base *base;
    struct evutil_monotonic_timer *clock;
    struct event bell; /* on bell_fd: something was posted */
    int bell_fd;       /* -1: not open */

    pthread_mutex_t mu;
    struct lw__post *first, **last; /* guarded by mu */

    /* the loop's thread */
    int spare_fd; /* for a connection when descriptors are used up; -1: there is none now */
    struct lw__conn *unsettled; /* connections with something to write or to free */
    uint64_t conn_count;
    uint64_t bytes; /* that connections hold in buffers */
    char scratch[LW__LOOP_SCRATCH];
};

/* Returns LW_OK; LW_ENOMEM; LW_ESYSTEM. On failure nothing is left behind. */
int lw__loop_open(struct lw__loop *loop, lw_error *err);
void lw__loop_close(struct lw__loop *loop); /* all connections are closed already */

/* Runs until lw__loop_end. */
void lw__loop_run(struct lw__loop *loop);
void lw__loop_end(struct lw__loop *loop);

/* Reserves the spare descriptor again, if there is one to be had. */
void lw__loop_keep_spare(struct lw__loop *loop);

/* Runs it on the loop, soon. Threads: any. */
void lw__loop_post(struct lw__loop *loop, struct lw__post *post);

/* The end of every callback. */
void lw__loop_settle(struct lw__loop *loop);

/* On a clock that never goes back. */
int64_t lw__loop_now_ms(const struct lw__loop *loop);

static inline struct timeval lw__loop_interval(int64_t ms) {
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = (ms % 1000) * 1000};
}

#endif
