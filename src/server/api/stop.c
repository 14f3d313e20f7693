/* Signals, and the stop.
 *
 *     serving -> draining   SIGTERM, SIGINT, POST /v1/drain. Submits and claims get 503, waits are
 *                           answered, what was claimed can still be settled. A thread of its own
 *                           waits in lw_stop for what runs, up to the timeout; what runs longer
 *                           is asked to give up then, and is given some time for that.
 *     draining -> hurrying  the second signal: what runs is asked to give up now, and HURRY_MS
 *                           later nobody is waited for any more.
 *     then                  answers that are on their way go out, for at most a second.
 *
 * What was accepted is on the disk, whichever way it ends. */
#include "server/api/api.h"
#include "server/net/manager.h"

#include <signal.h>

#define HURRY_MS 10000  /* for what runs to give up, after the second signal */
#define LAST_CALL_MS 20 /* how often it is looked whether all answers are out */
#define LAST_CALLS 50

static void say(const struct lw__server *server, const char *message) {
    const lw_log *log = server->log;
    if (log && log->write && (log->level ? log->level : LW_LOG_INFO) <= LW_LOG_INFO)
        log->write(log->user, &(lw_log_record){
                                  .level = LW_LOG_INFO, .component = "server", .message = message});
}

/* ---- the last steps ------------------------------------------------------------------------ */

static bool is_quiet(const struct lw__server *server) {
    return server->under_way == 0 && server->loop.conn_count == 0;
}

static void on_last_call(evutil_socket_t fd, short what, void *arg) {
    struct lw__server *server = arg;
    struct timeval in = lw__loop_interval(LAST_CALL_MS);
    (void)fd, (void)what;
    lw__peer_close_idle(server);
    lw__loop_settle(&server->loop);
    if (is_quiet(server) || ++server->last_calls > LAST_CALLS)
        lw__loop_end(&server->loop);
    else
        event_add(&server->last_call, &in);
}

static void begin_last_call(struct lw__server *server) {
    if (server->is_leaving)
        return;
    server->is_leaving = true;
    for (size_t i = 0; i < server->listener_count; i++)
        lw__listener_close(&server->listeners[i]);
    event_assign(&server->last_call, server->loop.base, -1, 0, on_last_call, server);
    on_last_call(-1, 0, server);
}

static void on_stopped(struct lw__post *post) {
    struct lw__server *server =
        (struct lw__server *)((char *)post - offsetof(struct lw__server, stopped));
    server->has_stopped = true;
    begin_last_call(server);
}

static void *stop_engine(void *arg) {
    struct lw__server *server = arg;
    server->stop_status = lw_stop(server->engine, LW_DRAIN, server->config->stop_timeout_ms);
    if (server->stop_status == LW_ETIMEDOUT && server->give_up_ms > 0)
        lw_stop(server->engine, LW_DROP, server->give_up_ms);
    lw__loop_post(&server->loop, &server->stopped);
    return NULL;
}

/* ---- the first steps ----------------------------------------------------------------------- */

static void drain(struct lw__server *server) {
    server->phase = LW__DRAINING;
    say(server, "stopping: waits for what runs; a second signal hurries it");
    lw__manager_tell("STOPPING=1");
    server->stopped.run = on_stopped;
    server->has_stopper = pthread_create(&server->stopper, NULL, stop_engine, server) == 0;
    lw__ends_call_all(&server->ends);
    lw__claims_refuse_all(server);
    if (!server->has_stopper)
        begin_last_call(server);
}

static void on_hurried(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    begin_last_call(arg);
}

static void hurry(struct lw__server *server) {
    struct timeval in = lw__loop_interval(HURRY_MS);
    server->phase = LW__HURRYING;
    say(server, "stopping now: what runs is asked to give up");
    lw_stop(server->engine, LW_DROP, 0);
    event_assign(&server->hurrying, server->loop.base, -1, 0, on_hurried, server);
    event_add(&server->hurrying, &in);
}

void lw__server_drain(struct lw__server *server) {
    if (server->phase == LW__SERVING)
        drain(server);
    else if (server->phase == LW__DRAINING)
        hurry(server);
}

/* ---- signals ------------------------------------------------------------------------------- */

static void on_stop_signal(evutil_socket_t number, short what, void *arg) {
    struct lw__server *server = arg;
    (void)number, (void)what;
    lw__server_drain(server);
    lw__loop_settle(&server->loop);
}

static void on_reload_signal(evutil_socket_t number, short what, void *arg) {
    struct lw__server *server = arg;
    (void)number, (void)what;
    if (!server->on_reload || server->phase != LW__SERVING)
        return;
    lw__manager_tell_reloading();
    server->on_reload(server->user);
    lw__manager_tell("READY=1");
}

/* When the loop is over it is ignored again: one more signal does not kill us while we close. */
static void add_signal(struct lw__server *server, int number, event_callback_fn call) {
    struct event *event = &server->signals[server->signal_count++];
    signal(number, SIG_IGN);
    event_assign(event, server->loop.base, number, EV_SIGNAL | EV_PERSIST, call, server);
    event_add(event, NULL);
}

void lw__stop_listen(struct lw__server *server) {
    signal(SIGPIPE, SIG_IGN);
    add_signal(server, SIGTERM, on_stop_signal);
    add_signal(server, SIGINT, on_stop_signal);
    add_signal(server, SIGHUP, on_reload_signal);
}

int lw__stop_finish(struct lw__server *server) {
    for (size_t i = 0; i < server->signal_count; i++)
        event_del(&server->signals[i]);
    if (server->phase == LW__HURRYING)
        event_del(&server->hurrying);
    if (server->has_stopper && !server->has_stopped)
        return LW_PENDING;
    if (server->has_stopper)
        pthread_join(server->stopper, NULL);
    return server->under_way > 0 ? LW_PENDING : server->stop_status;
}
