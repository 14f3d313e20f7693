/* Lanes: who asks next, and what; when it is over; and what is counted. */
#include "cli/load.h"

#include "server/memory.h"
#include "server/refuse.h"

#include <errno.h>
#include <event2/util.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define EVENTS_MAX 256
#define US_PER_S UINT64_C(1000000)

/* ---- time ---------------------------------------------------------------------------------- */

uint64_t lw__load_now_us(const struct lw__load *load) {
    struct timeval now;
    evutil_gettime_monotonic(load->clock, &now);
    return (uint64_t)now.tv_sec * US_PER_S + (uint64_t)now.tv_usec;
}

double lw__load_seconds(const struct lw__load_figures *figures) {
    return (double)(figures->ended_us - figures->begun_us) / (double)US_PER_S;
}

static bool is_counting(const struct lw__load *load) {
    return load->is_warm && load->figures.ended_us == 0;
}

static void begin_counting(struct lw__load *load, uint64_t now) {
    load->figures = (struct lw__load_figures){.begun_us = now};
    load->is_warm = true;
}

/* Of a plan in time, what ends later is not counted; a plan in tasks ends with the last one. */
static void end_counting(struct lw__load *load, uint64_t now) {
    if (!load->is_warm)
        begin_counting(load, now);
    if (load->figures.ended_us == 0)
        load->figures.ended_us = now;
}

/* ---- lanes --------------------------------------------------------------------------------- */

static void rest(struct lw__load *load, struct lw__load_lane *lane) {
    lane->next = NULL;
    *load->resting_last = lane;
    load->resting_last = &lane->next;
    load->resting_count++;
}

static struct lw__load_lane *take_resting(struct lw__load *load) {
    struct lw__load_lane *lane = load->resting;
    load->resting = lane->next;
    if (!load->resting)
        load->resting_last = &load->resting;
    load->resting_count--;
    return lane;
}

static int ask(struct lw__load_lane *lane, enum lw__load_step step, uint32_t wanted,
               lw_error *err) {
    lane->step = step;
    lane->wanted = wanted;
    lane->asked_us = lw__load_now_us(lane->conn->load);
    return lw__load_conn_ask(lane->conn, lane, err);
}

/* How many tasks the next life has; 0: there is none. */
static uint32_t take_share(struct lw__load *load) {
    uint64_t share = load->options.batch;
    if (load->is_ending)
        return 0;
    if (load->plan.tasks > 0) {
        share = share < load->left ? share : load->left;
        load->left -= share;
    }
    return (uint32_t)share;
}

/* A life, which is due at `begun_us`. */
static int begin_life(struct lw__load_lane *lane, uint64_t begun_us, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    bool is_drain = load->plan.mode == LW__LOAD_DRAIN;
    uint32_t share = take_share(load);
    if (share == 0) {
        rest(load, lane);
        return LW_OK;
    }
    int rc = ask(lane, is_drain ? LW__LOAD_CLAIM : LW__LOAD_SUBMIT, share, err);
    lane->begun_us = begun_us ? begun_us : lane->asked_us;
    if (begun_us)
        lane->asked_us = begun_us;
    return rc;
}

/* The life of a lane is over. With a rate the next one begins when it is due. */
static int begin_next(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    if (load->plan.rate <= 0)
        return begin_life(lane, 0, err);
    rest(load, lane);
    return LW_OK;
}

static int claim_next(struct lw__load_lane *lane, lw_error *err) {
    uint32_t batch = lane->conn->load->options.batch;
    return ask(lane, LW__LOAD_CLAIM, lane->credit < batch ? lane->credit : batch, err);
}

/* ---- answers ------------------------------------------------------------------------------- */

static void count_tasks(struct lw__load *load, uint32_t count) {
    if (is_counting(load))
        load->figures.tasks += count;
}

static int after_submit(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    if (load->plan.mode == LW__LOAD_SUBMITS) {
        count_tasks(load, lane->wanted);
        return begin_next(lane, err);
    }
    lane->credit += lane->wanted;
    return claim_next(lane, err);
}

static int after_claim(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    if (lane->count > 0)
        return ask(lane, LW__LOAD_SETTLE, lane->count, err);
    if (load->plan.mode == LW__LOAD_DRAIN) {
        rest(load, lane);
        return LW_OK;
    }
    return lw__refuse(err, LW_ENOTFOUND,
                      "tasks were submitted to the queue %s and none can be claimed: is it paused "
                      "(legwork resume %s), or does somebody else work on it?",
                      load->options.queue, load->options.queue);
}

static int after_settle(struct lw__load_lane *lane, uint64_t now, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    count_tasks(load, lane->count);
    if (load->plan.mode == LW__LOAD_DRAIN)
        return begin_life(lane, 0, err);
    lane->credit -= lane->count < lane->credit ? lane->count : lane->credit;
    if (lane->credit > 0)
        return claim_next(lane, err); /* the answer had no room for all */
    if (is_counting(load))
        lw__latency_add(&load->figures.lives, now - lane->begun_us);
    return begin_next(lane, err);
}

int lw__load_answered(struct lw__load_lane *lane, lw_error *err) {
    struct lw__load *load = lane->conn->load;
    uint64_t now = lw__load_now_us(load);
    load->heard_us = now;
    if (is_counting(load))
        lw__latency_add(&load->figures.steps[lane->step], now - lane->asked_us);
    switch (lane->step) {
    case LW__LOAD_SUBMIT: return after_submit(lane, err);
    case LW__LOAD_CLAIM: return after_claim(lane, err);
    default: return after_settle(lane, now, err);
    }
}

/* ---- the plan ------------------------------------------------------------------------------ */

/* All lanes at once, or those that are due. */
static int begin_all(struct lw__load *load, lw_error *err) {
    int rc = LW_OK;
    for (uint32_t i = load->resting_count; rc == LW_OK && i > 0; i--)
        rc = begin_life(take_resting(load), 0, err);
    for (uint32_t i = 0; rc == LW_OK && i < load->options.connections; i++)
        rc = lw__load_conn_flush(&load->conns[i], err);
    return rc;
}

static int begin_due(struct lw__load *load, uint64_t now, lw_error *err) {
    uint64_t step = (uint64_t)((double)load->options.batch / load->plan.rate * (double)US_PER_S);
    int rc = LW_OK;
    while (rc == LW_OK && load->due_us <= now && load->resting && !load->is_ending) {
        struct lw__load_lane *lane = take_resting(load);
        rc = begin_life(lane, load->due_us, err);
        if (rc == LW_OK)
            rc = lw__load_conn_flush(lane->conn, err);
        load->due_us += step > 0 ? step : 1;
    }
    return rc;
}

static bool is_plan_over(const struct lw__load *load, uint64_t now) {
    const struct lw__load_plan *plan = &load->plan;
    uint64_t until = load->figures.begun_us + plan->for_us;
    return load->was_stopped || (load->is_warm && plan->for_us > 0 && now >= until)
           || (plan->tasks > 0 && load->left == 0);
}

/* What the time brings. */
static int go_on(struct lw__load *load, uint64_t started_us, lw_error *err) {
    uint64_t now = lw__load_now_us(load);
    if (!load->is_warm && now - started_us >= load->plan.warm_up_us)
        begin_counting(load, now);
    if (!load->is_ending && is_plan_over(load, now)) {
        load->is_ending = true;
        if (load->left > 0 || load->plan.tasks == 0)
            end_counting(load, now);
    }
    if (load->resting_count < load->lane_count
        && now - load->heard_us > LW__LOAD_SILENCE_MS * UINT64_C(1000))
        return lw__refuse(err, LW_ETIMEDOUT, "the server at %s does not answer: is it overloaded?",
                          load->options.url);
    return load->plan.rate > 0 ? begin_due(load, now, err) : LW_OK;
}

/* Milliseconds until something has to be done without being told; a rate has a timer besides. */
static int patience_of(const struct lw__load *load) {
    uint64_t now = lw__load_now_us(load);
    uint64_t until = load->figures.begun_us + load->plan.for_us;
    if (!load->is_warm)
        return 1;
    if (load->plan.for_us == 0 || load->is_ending)
        return LW__LOAD_TICK_MS;
    uint64_t ms = until > now ? (until - now) / 1000 + 1 : 0;
    return ms < LW__LOAD_TICK_MS ? (int)ms : LW__LOAD_TICK_MS;
}

static void set_timer(const struct lw__load *load) {
    uint64_t now = lw__load_now_us(load);
    uint64_t in = load->due_us > now ? load->due_us - now : 1;
    if (load->plan.rate <= 0 || !load->resting || load->is_ending)
        return; /* whoever is answered makes it look again */
    const struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(in / US_PER_S), .tv_nsec = (long)(in % US_PER_S * 1000)}};
    timerfd_settime(load->timer_fd, 0, &at, NULL);
}

/* Once: no further life begins. Twice: nothing is waited for any more. */
static int hear_signal(struct lw__load *load, lw_error *err) {
    struct signalfd_siginfo info;
    if (read(load->plan.stop_fd, &info, sizeof info) < 0)
        return LW_OK;
    if (load->was_stopped)
        return lw__refuse(err, LW_ESTOPPING, "interrupted again, before all answers were there");
    load->was_stopped = true;
    return LW_OK;
}

static int serve_event(struct lw__load *load, const struct epoll_event *event, lw_error *err) {
    uint64_t count;
    if (event->data.ptr == &load->plan.stop_fd)
        return hear_signal(load, err);
    if (event->data.ptr != &load->timer_fd)
        return lw__load_conn_serve(event->data.ptr, err);
    ssize_t size = read(load->timer_fd, &count, sizeof count);
    return size < 0 && errno != EAGAIN ? LW_ESYSTEM : LW_OK;
}

static int wait_and_serve(struct lw__load *load, lw_error *err) {
    struct epoll_event events[EVENTS_MAX];
    set_timer(load);
    int count = epoll_wait(load->epoll_fd, events, EVENTS_MAX, patience_of(load));
    if (count < 0 && errno != EINTR)
        return lw__refuse(err, LW_ESYSTEM, "cannot wait for answers: %s", strerror(errno));
    int rc = LW_OK;
    for (int i = 0; rc == LW_OK && i < count; i++)
        rc = serve_event(load, &events[i], err);
    return rc;
}

static void tick(const struct lw__load *load, uint64_t *ticked_us) {
    uint64_t now = lw__load_now_us(load);
    if (!load->plan.tick || now - *ticked_us < LW__LOAD_TICK_MS * UINT64_C(1000))
        return;
    *ticked_us = now;
    load->plan.tick(load->plan.user);
}

static bool is_over(const struct lw__load *load) {
    bool is_drained = load->plan.mode == LW__LOAD_DRAIN;
    return load->resting_count == load->lane_count && (load->is_ending || is_drained);
}

static int begin_plan(struct lw__load *load, const struct lw__load_plan *plan, lw_error *err) {
    struct epoll_event stop = {.events = EPOLLIN, .data = {.ptr = &load->plan.stop_fd}};
    load->plan = *plan;
    load->left = plan->tasks;
    load->is_warm = load->is_ending = load->was_stopped = false;
    load->heard_us = load->due_us = lw__load_now_us(load);
    load->figures = (struct lw__load_figures){.begun_us = load->due_us};
    if (plan->warm_up_us == 0)
        begin_counting(load, load->due_us);
    if (plan->stop_fd >= 0 && epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, plan->stop_fd, &stop) < 0)
        return lw__refuse(err, LW_ESYSTEM, "cannot wait for a signal: %s", strerror(errno));
    return plan->rate > 0 ? LW_OK : begin_all(load, err);
}

int lw__load_run(struct lw__load *load, const struct lw__load_plan *plan, lw_error *err) {
    int rc = begin_plan(load, plan, err);
    uint64_t started_us = load->due_us, ticked_us = started_us;
    while (rc == LW_OK && !is_over(load)) {
        rc = wait_and_serve(load, err);
        if (rc == LW_OK)
            rc = go_on(load, started_us, err);
        tick(load, &ticked_us);
    }
    end_counting(load, lw__load_now_us(load));
    if (plan->stop_fd >= 0)
        epoll_ctl(load->epoll_fd, EPOLL_CTL_DEL, plan->stop_fd, NULL);
    return rc;
}

/* ---- open and close ------------------------------------------------------------------------ */

/* Bytes that are JSON: a string, or, if there is no room for quotes, a digit. */
static int make_payload(struct lw__load *load) {
    size_t size = load->options.payload_size;
    lw__buffer_init(&load->payload, &lw__server_memory, LW__LOAD_REQUEST_MAX);
    char *bytes = size > 0 ? lw__buffer_take(&load->payload, size) : NULL;
    if (!bytes)
        return load->payload.status;
    memset(bytes, 'x', size);
    bytes[0] = bytes[size - 1] = size > 1 ? '"' : '1';
    return LW_OK;
}

static int open_waiting(struct lw__load *load, lw_error *err) {
    struct epoll_event due = {.events = EPOLLIN, .data = {.ptr = &load->timer_fd}};
    load->clock = evutil_monotonic_timer_new();
    if (!load->clock || evutil_configure_monotonic_time(load->clock, EV_MONOT_PRECISE) < 0)
        return lw__refuse(err, LW_ENOMEM, "there is no clock");
    load->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    load->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (load->epoll_fd < 0 || load->timer_fd < 0
        || epoll_ctl(load->epoll_fd, EPOLL_CTL_ADD, load->timer_fd, &due) < 0)
        return lw__refuse(err, LW_ESYSTEM, "cannot wait for answers: %s", strerror(errno));
    return LW_OK;
}

static int open_conns(struct lw__load *load, lw_error *err) {
    uint32_t count = load->options.connections;
    load->conns = lw__server_alloc(count * sizeof *load->conns);
    if (!load->conns)
        return lw__refuse(err, LW_ENOMEM, "out of memory for %u connections", count);
    for (uint32_t i = 0; i < count; i++) {
        load->conns[i].load = load;
        load->conns[i].fd = -1;
    }
    for (uint32_t i = 0; i < count; i++) {
        int rc = lw__load_conn_open(&load->conns[i], err);
        if (rc < 0)
            return rc;
    }
    return LW_OK;
}

/* One of each connection, then the second ones: so that a rate is spread over all. */
static void rest_all(struct lw__load *load) {
    for (uint32_t i = 0; i < load->options.in_flight; i++)
        for (uint32_t k = 0; k < load->options.connections; k++)
            rest(load, &load->conns[k].lanes[i]);
    load->lane_count = load->resting_count;
}

int lw__load_open(struct lw__load *load, const struct lw__load_options *options, lw_error *err) {
    *load = (struct lw__load){.options = *options, .epoll_fd = -1, .timer_fd = -1};
    load->resting_last = &load->resting;
    lw__buffer_init(&load->submit, &lw__server_memory, LW__LOAD_REQUEST_MAX);
    lw__buffer_init(&load->claim, &lw__server_memory, LW__LOAD_REQUEST_MAX);
    if (make_payload(load) < 0)
        return lw__refuse(err, LW_ENOMEM, "out of memory for a payload");
    int rc = open_waiting(load, err);
    if (rc == LW_OK)
        rc = open_conns(load, err);
    if (rc < 0)
        return rc;
    rest_all(load);
    rc = options->protocol->prepare(load);
    return rc < 0 ? lw__refuse(err, rc, "a request is too large: a smaller --size or --batch helps")
                  : LW_OK;
}

void lw__load_close(struct lw__load *load) {
    for (uint32_t i = 0; load->conns && i < load->options.connections; i++)
        lw__load_conn_close(&load->conns[i]);
    lw__server_free(load->conns);
    if (load->epoll_fd >= 0)
        close(load->epoll_fd);
    if (load->timer_fd >= 0)
        close(load->timer_fd);
    if (load->clock)
        evutil_monotonic_timer_free(load->clock);
    lw__buffer_clear(&load->payload);
    lw__buffer_clear(&load->submit);
    lw__buffer_clear(&load->claim);
}
