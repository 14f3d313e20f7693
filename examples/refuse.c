/* Full means 503 now, not a growing backlog.
 *
 * Clients ask for a report every millisecond. A report takes 8 ms and two workers make them, so
 * that three requests in four are too many. They are told so at once, and what was accepted is made
 * soon: the queue is short.
 */
#include <legwork/pool.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct report {
    _Atomic int *made;
};

static void make_report(lw_ctx *ctx, void *arg) {
    struct report *report = arg;
    if (lw_ctx_sleep(ctx, 8) == LW_OK) /* the work; it heeds its context */
        atomic_fetch_add(report->made, 1);
    free(report);
}

/* ---- a web server, as far as we need one ------------------------------------------------- */

struct server {
    lw_pool *pool;
    _Atomic int made;
    int accepted, too_many, going_down, failed;
    int stopped; /* the status of the stop */
};

static void reply(int *count, char mark) {
    ++*count;
    putchar(mark);
    fflush(stdout);
}

/* What an HTTP handler does: the three answers that its client has to know. */
static void post_report(struct server *s) {
    struct report *report = malloc(sizeof *report); /* the task's: it outlives the request */
    if (!report) {
        reply(&s->failed, '!'); /* 500 */
        return;
    }
    *report = (struct report){.made = &s->made};
    int rc = lw_pool_try_submit(s->pool, make_report, report);
    if (rc < 0)
        free(report); /* refused: it stayed ours */
    switch (rc) {
    case LW_OK: reply(&s->accepted, '.'); break;          /* 202 */
    case LW_EFULL: reply(&s->too_many, 'x'); break;       /* 503, Retry-After: 2 */
    case LW_ESTOPPING: reply(&s->going_down, '-'); break; /* 503, going down */
    default: reply(&s->failed, '!');                      /* 500, lw_status_text(rc) */
    }
}

static void serve_one(struct server *s) {
    nanosleep(&(struct timespec){.tv_nsec = 1000 * 1000}, NULL); /* until the next one comes */
    post_report(s);
}

/* What SIGTERM starts, on a thread of its own: the server goes on answering meanwhile. */
static void *go_down(void *arg) {
    struct server *s = arg;
    s->stopped = lw_pool_stop(s->pool, LW_DRAIN, 5000);
    return NULL;
}

int main(void) {
    lw_error err;
    struct server s = {0};
    if (lw_pool_open(&s.pool, LW_POOL_OPTIONS(.min_workers = 2, .queue_limit = 4), &err) < 0)
        return fprintf(stderr, "%s\n", err.message), 1;

    for (int i = 0; i < 60; i++)
        serve_one(&s);
    pthread_t stopper;
    if (pthread_create(&stopper, NULL, go_down, &s) != 0)
        return 1;
    while (s.going_down < 6)
        serve_one(&s);
    pthread_join(stopper, NULL);
    lw_pool_close(s.pool);

    printf("\n\n. %3d times 202: %d reports were made\n", s.accepted, s.made);
    printf("x %3d times 503: try again later\n", s.too_many);
    printf("- %3d times 503: going down\n", s.going_down);
    return s.stopped < 0 || s.made != s.accepted || s.failed > 0;
}
