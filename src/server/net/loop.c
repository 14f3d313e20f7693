/* The loop, on libevent's core. Posts come by a list and an eventfd, which is rung only when the
 * list was empty: a burst of answers costs one wake-up. */
#include "server/net/loop.h"

#include "server/net/conn.h"
#include "server/refuse.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- posts --------------------------------------------------------------------------------- */

void lw__loop_post(struct lw__loop *loop, struct lw__post *post) {
    post->next = NULL;
    pthread_mutex_lock(&loop->mu);
    bool was_empty = loop->first == NULL;
    *loop->last = post;
    loop->last = &post->next;
    pthread_mutex_unlock(&loop->mu);
    if (was_empty) {
        ssize_t rung = write(loop->bell_fd, &(uint64_t){1}, sizeof(uint64_t));
        assert(rung == sizeof(uint64_t));
    }
}

static struct lw__post *take_posts(struct lw__loop *loop) {
    pthread_mutex_lock(&loop->mu);
    struct lw__post *first = loop->first;
    loop->first = NULL;
    loop->last = &loop->first;
    pthread_mutex_unlock(&loop->mu);
    return first;
}

static void run_posts(evutil_socket_t fd, short what, void *arg) {
    struct lw__loop *loop = arg;
    uint64_t rings;
    (void)what;
    if (read(fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
        return;
    for (struct lw__post *post = take_posts(loop), *next; post; post = next) {
        next = post->next;
        post->run(post);
    }
    lw__loop_settle(loop);
}

/* ---- time ---------------------------------------------------------------------------------- */

int64_t lw__loop_now_ms(const struct lw__loop *loop) {
    struct timeval now;
    evutil_gettime_monotonic(loop->clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

void lw__loop_settle(struct lw__loop *loop) {
    struct lw__conn *conn;
    while ((conn = loop->unsettled) != NULL) {
        loop->unsettled = conn->next_unsettled;
        lw__conn_settle(conn);
    }
}

/* ---- open, run, close ---------------------------------------------------------------------- */

static int open_base(struct lw__loop *loop) {
    struct event_config *config = event_config_new();
    if (!config)
        return LW_ENOMEM;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK | EVENT_BASE_FLAG_IGNORE_ENV);
    loop->base = event_base_new_with_config(config);
    event_config_free(config);
    loop->clock = evutil_monotonic_timer_new();
    if (!loop->base || !loop->clock)
        return LW_ENOMEM;
    return evutil_configure_monotonic_time(loop->clock, 0) < 0 ? LW_ESYSTEM : LW_OK;
}

static int open_bell(struct lw__loop *loop) {
    loop->bell_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (loop->bell_fd < 0)
        return LW_ESYSTEM;
    event_assign(&loop->bell, loop->base, loop->bell_fd, EV_READ | EV_PERSIST, run_posts, loop);
    return event_add(&loop->bell, NULL) < 0 ? LW_ENOMEM : LW_OK;
}

/* A copy of any other: it is never used as what it is. */
void lw__loop_keep_spare(struct lw__loop *loop) {
    if (loop->spare_fd < 0)
        loop->spare_fd = fcntl(loop->bell_fd, F_DUPFD_CLOEXEC, 0);
}

int lw__loop_open(struct lw__loop *loop, lw_error *err) {
    *loop = (struct lw__loop){.bell_fd = -1, .spare_fd = -1};
    loop->last = &loop->first;
    pthread_mutex_init(&loop->mu, NULL);
    int rc = open_base(loop);
    if (rc == LW_OK)
        rc = open_bell(loop);
    if (rc == LW_OK)
        lw__loop_keep_spare(loop);
    if (rc < 0) {
        lw__refuse(err, rc, "the event loop cannot be opened: %s", strerror(errno));
        lw__loop_close(loop);
    }
    return rc;
}

void lw__loop_close(struct lw__loop *loop) {
    assert(loop->conn_count == 0);
    if (loop->bell_fd >= 0) {
        event_del(&loop->bell);
        close(loop->bell_fd);
    }
    if (loop->spare_fd >= 0)
        close(loop->spare_fd);
    if (loop->clock)
        evutil_monotonic_timer_free(loop->clock);
    if (loop->base)
        event_base_free(loop->base);
    pthread_mutex_destroy(&loop->mu);
}

void lw__loop_run(struct lw__loop *loop) {
    event_base_dispatch(loop->base);
}

void lw__loop_end(struct lw__loop *loop) {
    event_base_loopbreak(loop->base);
}
