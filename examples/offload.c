/* The request stays fast however slow analytics is.
 *
 * Requests come in every millisecond. Each has an event to send to an analytics service that needs
 * 10 ms for an answer, and never answers one in twenty. The request hands the event to a pool and
 * goes on. An event without an answer is given up at the guard timeout, which the task's own poll()
 * notices through lw_ctx_fd.
 */
#include <legwork/pool.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define REQUESTS 400

struct tally {
    _Atomic int answered, given_up, dropped;
};

struct event {
    int request;
    struct tally *tally;
};

/* ---- the analytics service: a descriptor that becomes readable when its answer is there -- */

static int analytics_send(const struct event *event) {
    struct itimerspec answer = {.it_value = {.tv_nsec = 10 * 1000 * 1000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (fd >= 0 && event->request % 20 != 0)
        timerfd_settime(fd, 0, &answer, NULL);
    return fd;
}

/* ---- the task ---------------------------------------------------------------------------- */

/* After LW_OK exactly one of these two gets the event: send_event, or drop_event. */
static void send_event(lw_ctx *ctx, void *arg) {
    struct event *event = arg;
    int answer = analytics_send(event), end = lw_ctx_fd(ctx);
    struct pollfd fds[] = {{.fd = answer, .events = POLLIN}, {.fd = end, .events = POLLIN}};
    while (answer >= 0 && end >= 0 && !lw_ctx_done(ctx) && !fds[0].revents)
        poll(fds, 2, -1); /* wakes for the answer, and for the end of the context */
    atomic_fetch_add(fds[0].revents ? &event->tally->answered : &event->tally->given_up, 1);
    if (answer >= 0)
        close(answer);
    free(event);
}

static void drop_event(void *arg) {
    struct event *event = arg;
    atomic_fetch_add(&event->tally->dropped, 1);
    free(event);
}

/* ---- the requests ------------------------------------------------------------------------ */

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void await_request(double start_ms, int request) {
    double left_ms = start_ms + request - now_ms();
    if (left_ms > 0)
        nanosleep(&(struct timespec){.tv_nsec = (long)(left_ms * 1e6)}, NULL);
}

/* Serves all requests; returns how long the slowest had to do with its event. */
static double serve(lw_pool *pool, struct tally *tally, int *refused) {
    double slowest_ms = 0, first_ms = now_ms();
    for (int i = 1; i <= REQUESTS; i++) {
        await_request(first_ms, i);
        double start_ms = now_ms();
        struct event *event = malloc(sizeof *event);
        if (event) {
            *event = (struct event){.request = i, .tally = tally};
            if (lw_pool_submit(pool, send_event, event) < 0) {
                free(event); /* refused: it stayed ours */
                ++*refused;
            }
        }
        double took_ms = now_ms() - start_ms;
        if (took_ms > slowest_ms)
            slowest_ms = took_ms;
    }
    return slowest_ms;
}

int main(void) {
    lw_error err;
    lw_pool *pool = NULL;
    struct tally tally = {0};
    int refused = 0;
    if (lw_pool_open(&pool,
                     LW_POOL_OPTIONS(.min_workers = 8, .max_workers = 64, .queue_limit = 1024,
                                     .task_timeout_ms = 50, .overflow = LW_CALLER_RUNS,
                                     .on_drop = drop_event),
                     &err)
        < 0)
        return fprintf(stderr, "%s\n", err.message), 1;

    printf("%d requests, one a millisecond; analytics takes 10 ms, and never answers one in 20\n",
           REQUESTS);
    double slowest_ms = serve(pool, &tally, &refused);
    int rc = lw_pool_stop(pool, LW_DRAIN, 5000); /* LW_ETIMEDOUT: lw_pool_running() lists who */
    lw_pool_stats stats = {0};
    lw_pool_get_stats(pool, &stats);
    lw_pool_close(pool);

    printf("  slowest hand-over   %6.2f ms\n", slowest_ms);
    printf("  events answered     %6d\n", tally.answered);
    printf("  given up at 50 ms   %6d\n", tally.given_up);
    printf("  dropped, refused    %6d\n", tally.dropped + refused);
    printf("  threads at most     %6d\n", (int)stats.workers_peak);
    bool is_complete = tally.answered + tally.given_up + tally.dropped + refused == REQUESTS;
    puts(is_complete && rc == LW_OK ? "stopped cleanly; every event met exactly one end"
                                    : "something was lost");
    return !is_complete || rc < 0;
}
