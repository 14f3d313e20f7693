/* What an operator wants. The engine waits for the disk in these: threads of the pool. */
#include "server/api/api.h"
#include "server/api/handlers.h"
#include "server/refuse.h"

#include <poll.h>
#include <stdio.h>

#define RUN_PAGE LW_RETRY_MAX /* tasks of runMany that are looked at in one go */
#define TOLD_MS_MAX 5000      /* how long a request waits until the end of its task is written */

/* ---- one task ------------------------------------------------------------------------------ */

static void refuse_id(struct lw__exchange *x) {
    lw__reply_status(x, LW_EINVAL, &x->err);
    lw__exchange_reply(x);
}

static void offload_for_id(struct lw__exchange *x, void (*work)(struct lw__exchange *x)) {
    if (lw__exchange_id(x, &x->id, &x->err))
        lw__exchange_offload(x, work, NULL);
    else
        refuse_id(x);
}

static void reply_for_id(struct lw__exchange *x, int rc) {
    if (rc == LW_OK) {
        lw__reply_empty(x, 204);
    } else if (rc == LW_EUNSURE) {
        lw__reply_unwritten(x, LW__DONE_UNWRITTEN);
    } else if (rc == LW_ENOTFOUND) {
        lw__refuse(&x->err, rc, "there is no task %llu that this could be done to", x->id);
        lw__reply_status(x, rc, &x->err);
    } else {
        lw__reply_status(x, rc, &x->err);
    }
}

/* The state of the task; 0: there is none. */
static lw_state state_of(const struct lw__exchange *x) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_state state = lw_get(x->server->engine, x->id, &task) == LW_OK ? task.state : (lw_state)0;
    lw_snapshot_clear(&task);
    return state;
}

/* Nothing can be done to a task between its end and the moment when that is written, and told to
 * all who wait for it: a change that is refused for that is tried again. Returns what the change
 * said; or why the end cannot be written; or LW_ETIMEDOUT. */
static int change_when_told(struct lw__exchange *x, int (*change)(struct lw__exchange *x)) {
    lw_store_health health = {.status = LW_OK};
    for (int waited_ms = 0; waited_ms < TOLD_MS_MAX; waited_ms++) {
        int rc = change(x);
        if (rc != LW_PENDING || !lw_state_is_terminal(state_of(x)))
            return rc;
        if (lw_get_store_health(x->server->engine, &health) == LW_OK && health.status < 0)
            return health.status;
        poll(NULL, 0, 1);
    }
    return lw__refuse(&x->err, LW_ETIMEDOUT,
                      "task %llu has ended just now, and that is still being written: try it again",
                      x->id);
}

/* One that is aborted already, by this request sent before perhaps, is what was asked for. */
static void cancel(struct lw__exchange *x) {
    int rc = lw_cancel(x->server->engine, x->id);
    if (rc == LW_PENDING)
        lw__reply_empty(x, 202);
    else if (rc == LW_ENOTFOUND && state_of(x) == LW_ABORTED)
        lw__reply_empty(x, 204);
    else
        reply_for_id(x, rc);
}

void lw__serve_cancel(struct lw__exchange *x) {
    offload_for_id(x, cancel);
}

static int try_forget(struct lw__exchange *x) {
    return lw_forget(x->server->engine, x->id);
}

static void forget(struct lw__exchange *x) {
    int rc = change_when_told(x, try_forget);
    if (rc == LW_PENDING)
        lw__refuse(&x->err, rc, "task %llu has not ended: cancel it first", x->id);
    reply_for_id(x, rc);
}

void lw__serve_forget(struct lw__exchange *x) {
    offload_for_id(x, forget);
}

static int try_run(struct lw__exchange *x) {
    return lw_retry_now(x->server->engine, x->id, &x->err);
}

static void run_one(struct lw__exchange *x) {
    int rc = change_when_told(x, try_run);
    if (rc == LW_EINVAL) /* it has finished: nothing is wrong with the request */
        lw__reply_error(x, 409, "%s", x->err.message);
    else if (rc == LW_EXISTS)
        lw__reply_error(x, 409, "the key of task %llu is taken by another task", x->id);
    else if (rc == LW_PENDING) /* it is on its way anyway */
        lw__reply_empty(x, 202);
    else
        reply_for_id(x, rc);
}

void lw__serve_run(struct lw__exchange *x) {
    offload_for_id(x, run_one);
}

/* ---- all that match ------------------------------------------------------------------------ */

struct choice {
    lw_filter filter;
    bool is_dry;
    uint64_t count;
    lw_id ids[RUN_PAGE];
    size_t found;
};

static bool note(void *user, const lw_snapshot *task) {
    struct choice *choice = user;
    choice->filter.after = task->id;
    choice->ids[choice->found++] = task->id;
    return choice->found < RUN_PAGE;
}

static int run_noted(struct lw__exchange *x, struct choice *choice) {
    size_t count = choice->found;
    int rc = LW_OK;
    if (!choice->is_dry && count > 0)
        rc = lw_retry_many(x->server->engine, choice->ids, choice->found, &count);
    choice->count += count;
    return rc;
}

/* Those that fail again meanwhile have ids that were passed already: it comes to an end. */
static int run_state(struct lw__exchange *x, struct choice *choice, lw_state state) {
    choice->filter.state = state;
    choice->filter.after = 0;
    choice->filter.limit = RUN_PAGE;
    do {
        choice->found = 0;
        int rc = lw_list(x->server->engine, &choice->filter, note, choice);
        if (rc >= 0)
            rc = run_noted(x, choice);
        if (rc < 0)
            return rc;
    } while (choice->found == RUN_PAGE);
    return LW_OK;
}

static void refuse_many(struct lw__exchange *x, const struct choice *choice, int rc) {
    char done[128];
    snprintf(done, sizeof done,
             "%llu tasks run again as soon as that can be written; ask again for the others",
             (unsigned long long)choice->count);
    if (rc == LW_EUNSURE)
        lw__reply_unwritten(x, done);
    else
        lw__reply_status(x, rc, NULL);
}

static void run_many(struct lw__exchange *x) {
    struct choice *choice = x->state;
    lw_state wanted = choice->filter.state;
    int rc = run_state(x, choice, wanted ? wanted : LW_FAILED);
    if (rc == LW_OK && !wanted)
        rc = run_state(x, choice, LW_ABORTED);
    if (rc < 0) {
        refuse_many(x, choice, rc);
        return;
    }
    struct lw__json_writer *json = lw__reply_json(x, 200);
    lw__json_object(json);
    lw__json_key(json, "count");
    lw__json_put_uint(json, choice->count);
    lw__json_close(json);
}

static bool read_choice(struct lw__exchange *x, struct choice *choice, lw_error *err) {
    static const char *const words[] = {"no", "yes", NULL};
    const char *dry = lw__exchange_query(x, "dry_run");
    int index = 0;
    if (!lw__filter_read(x, &choice->filter, err)
        || (dry && lw__word_read("dry_run", dry, words, &index, err) < 0))
        return false;
    choice->is_dry = index == 1;
    lw_state state = choice->filter.state;
    if (state == 0 || state == LW_FAILED || state == LW_ABORTED || state == LW_SCHEDULED)
        return true;
    lw__refuse(err, LW_EINVAL, "state %s: only failed, aborted and scheduled tasks can be run now",
               lw_state_name(state));
    return false;
}

void lw__serve_run_many(struct lw__exchange *x) {
    struct choice *choice = lw__exchange_keep(x, sizeof *choice);
    x->state = choice;
    if (choice && read_choice(x, choice, &x->err)) {
        lw__exchange_offload(x, run_many, NULL);
        return;
    }
    lw__reply_status(x, choice ? LW_EINVAL : LW_ENOMEM, &x->err);
    lw__exchange_reply(x);
}

/* ---- queues, and all of it ----------------------------------------------------------------- */

static void reply_for_queue(struct lw__exchange *x, int rc) {
    if (rc == LW_OK)
        lw__reply_empty(x, 204);
    else if (rc == LW_ENOTFOUND)
        lw__reply_error(x, 404, "there is no queue %s", lw__slice_show(lw__slice_of(x->part)).text);
    else
        lw__reply_status(x, rc, NULL);
}

static void pause_queue(struct lw__exchange *x) {
    reply_for_queue(x, lw_pause(x->server->engine, x->part));
}

static void resume_queue(struct lw__exchange *x) {
    reply_for_queue(x, lw_resume(x->server->engine, x->part));
}

void lw__serve_pause(struct lw__exchange *x) {
    lw__exchange_offload(x, pause_queue, NULL);
}

void lw__serve_resume(struct lw__exchange *x) {
    lw__exchange_offload(x, resume_queue, NULL);
}

void lw__serve_drain(struct lw__exchange *x) {
    struct lw__server *server = x->server;
    lw__reply_empty(x, 202);
    lw__exchange_reply(x);
    if (server->phase == LW__SERVING)
        lw__server_drain(server);
}
