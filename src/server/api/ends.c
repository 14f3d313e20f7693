/* Who waits for the end of a task.
 *
 * While somebody waits, one thread reads the engine's stream of events; it looks each end up among
 * those who wait, and hands them to the loop. A stream that has lost events says so: then all who
 * wait look for themselves. Who parks looks at the task again after it has entered the table, and
 * once more when the stream was opened for it: so no end falls between the look and the wait. */
#include "server/api/api.h"

#define LOOK_MS 1000     /* how soon the thread notices that it has to end */
#define EVENTS_MAX 65536 /* that the stream keeps */

/* ---- the table of those who wait, all under mu --------------------------------------------- */

static struct lw__exchange **bucket_of(struct lw__ends *ends, lw_id id) {
    return &ends->waiting[id % LW__ENDS_BUCKETS];
}

static void enter_locked(struct lw__ends *ends, struct lw__exchange *x) {
    struct lw__exchange **link = bucket_of(ends, x->id);
    x->wait_next = *link;
    x->wait_link = link;
    if (*link)
        (*link)->wait_link = &x->wait_next;
    *link = x;
    ends->count++;
}

static void leave_locked(struct lw__ends *ends, struct lw__exchange *x) {
    *x->wait_link = x->wait_next;
    if (x->wait_next)
        x->wait_next->wait_link = x->wait_link;
    x->wait_link = NULL;
    ends->count--;
}

/* From those who wait to those whom the loop looks at. */
static void call_locked(struct lw__ends *ends, struct lw__exchange *x) {
    leave_locked(ends, x);
    if (!ends->is_posted)
        lw__loop_post(&ends->server->loop, &ends->post);
    ends->is_posted = true;
    x->wait_next = ends->over;
    x->wait_link = &ends->over;
    if (ends->over)
        ends->over->wait_link = &x->wait_next;
    ends->over = x;
    ends->count++; /* until the loop has it */
}

static void call_all_locked(struct lw__ends *ends) {
    for (size_t i = 0; i < LW__ENDS_BUCKETS; i++)
        while (ends->waiting[i])
            call_locked(ends, ends->waiting[i]);
}

static void call_id_locked(struct lw__ends *ends, lw_id id, lw_state state) {
    for (struct lw__exchange *x = *bucket_of(ends, id), *next; x; x = next) {
        next = x->wait_next;
        if (x->id == id) {
            x->ended = state;
            call_locked(ends, x);
        }
    }
}

/* ---- the thread ---------------------------------------------------------------------------- */

static bool is_wanted(struct lw__ends *ends) {
    pthread_mutex_lock(&ends->mu);
    while (ends->count == 0 && !ends->must_end)
        pthread_cond_wait(&ends->wanted, &ends->mu);
    bool must_end = ends->must_end;
    pthread_mutex_unlock(&ends->mu);
    return !must_end;
}

/* False: nobody waits any more. Who comes after this opens a new stream. */
static bool hear(struct lw__ends *ends, int rc, const lw_event *event) {
    pthread_mutex_lock(&ends->mu);
    if (rc == LW_OK && event->lost > 0)
        call_all_locked(ends);
    if (rc == LW_OK && lw_state_is_terminal(event->to))
        call_id_locked(ends, event->id, event->to);
    if (rc != LW_OK && rc != LW_ETIMEDOUT)
        ends->must_end = true; /* the engine has stopped */
    bool is_enough = ends->count == 0 || ends->must_end;
    if (is_enough)
        ends->is_streaming = false;
    pthread_mutex_unlock(&ends->mu);
    return !is_enough;
}

static void listen_while_wanted(struct lw__ends *ends, lw_events *stream) {
    lw_event event;
    int rc;
    pthread_mutex_lock(&ends->mu);
    ends->is_streaming = true;
    call_all_locked(ends);
    pthread_mutex_unlock(&ends->mu);
    do {
        rc = lw_events_next(stream, &event, LOOK_MS);
    } while (hear(ends, rc, &event));
}

static void *run(void *arg) {
    struct lw__ends *ends = arg;
    lw_events *stream;
    while (is_wanted(ends)) {
        if (lw_events_open(ends->server->engine, &stream, EVENTS_MAX) < 0)
            break;
        listen_while_wanted(ends, stream);
        lw_events_close(stream);
    }
    pthread_mutex_lock(&ends->mu);
    ends->must_end = true; /* who comes now does not wait */
    call_all_locked(ends);
    pthread_mutex_unlock(&ends->mu);
    return NULL;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void unpark(struct lw__exchange *x) {
    x->server->parked--;
    x->abandon = NULL;
    lw__exchange_clear_timer(x);
}

static struct lw__exchange *take_over(struct lw__ends *ends) {
    pthread_mutex_lock(&ends->mu);
    struct lw__exchange *x = ends->over;
    ends->is_posted = x != NULL;
    if (x)
        leave_locked(ends, x);
    pthread_mutex_unlock(&ends->mu);
    return x;
}

static void serve_over(struct lw__post *post) {
    struct lw__ends *ends = (struct lw__ends *)((char *)post - offsetof(struct lw__ends, post));
    struct lw__exchange *x;
    while ((x = take_over(ends)) != NULL) {
        unpark(x);
        x->then(x);
    }
}

static void leave(struct lw__exchange *x) {
    struct lw__ends *ends = &x->server->ends;
    pthread_mutex_lock(&ends->mu);
    leave_locked(ends, x);
    pthread_mutex_unlock(&ends->mu);
    unpark(x);
}

static void leave_for_good(struct lw__exchange *x) {
    leave(x);
    lw__exchange_free(x);
}

static void time_is_over(struct lw__exchange *x) {
    leave(x);
    x->then(x);
}

/* False: nothing will be heard any more. */
static bool enter(struct lw__ends *ends, struct lw__exchange *x) {
    pthread_mutex_lock(&ends->mu);
    bool can_wait = !ends->must_end;
    if (can_wait)
        enter_locked(ends, x);
    pthread_cond_signal(&ends->wanted);
    pthread_mutex_unlock(&ends->mu);
    return can_wait;
}

bool lw__ends_has_ended(const struct lw__exchange *x) {
    lw_state state;
    return lw_get_state(x->server->engine, x->id, &state) != LW_OK || lw_state_is_terminal(state);
}

void lw__ends_park(struct lw__exchange *x, int64_t ms, void (*then)(struct lw__exchange *x)) {
    x->then = then;
    if (!enter(&x->server->ends, x)) {
        x->wait_until = 0;
        then(x);
        return;
    }
    x->abandon = leave_for_good;
    x->server->parked++;
    if (lw__ends_has_ended(x))
        time_is_over(x);
    else
        lw__exchange_set_timer(x, ms, time_is_over);
}

void lw__ends_call_all(struct lw__ends *ends) {
    pthread_mutex_lock(&ends->mu);
    call_all_locked(ends);
    pthread_mutex_unlock(&ends->mu);
}

int lw__ends_open(struct lw__ends *ends, struct lw__server *server) {
    *ends = (struct lw__ends){.server = server, .post = {.run = serve_over}};
    pthread_mutex_init(&ends->mu, NULL);
    pthread_cond_init(&ends->wanted, NULL);
    ends->has_thread = pthread_create(&ends->thread, NULL, run, ends) == 0;
    return ends->has_thread ? LW_OK : LW_ESYSTEM;
}

void lw__ends_close(struct lw__ends *ends) {
    if (!ends->has_thread)
        return;
    pthread_mutex_lock(&ends->mu);
    ends->must_end = true;
    pthread_cond_signal(&ends->wanted);
    pthread_mutex_unlock(&ends->mu);
    pthread_join(ends->thread, NULL);
    ends->has_thread = false;
    pthread_cond_destroy(&ends->wanted);
    pthread_mutex_destroy(&ends->mu);
}
