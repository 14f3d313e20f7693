/* Waiting for a resource. Whoever waits announces itself for its scope, looks, and then sleeps
 * until the scope has changed. */
#include "flow/flow_internal.h"

static bool rests(lw_flow_condition condition) {
    return condition != LW_FLOW_HELD && condition != LW_FLOW_ACTIVE;
}

static bool has_no_fence(const struct lw__sight *sight) {
    return sight->copy.open == 0;
}

struct waiting {
    lw_engine *engine;
    const struct lw__flow *flow;
    const char *id;
    bool is_for_fence;
    uint64_t birth; /* of what is waited for: another one may have its name later */
    struct lw__sight *sight;
};

/* LW_OK: it is there, or LW_ENOTFOUND: gone, which is the end of waiting; LW_PENDING: not yet. */
static int look(struct waiting *w) {
    int rc = lw__sight_take(w->engine, w->flow, w->id, w->sight);
    if (rc < 0)
        return rc;
    uint64_t birth = lw__sight_birth(w->sight);
    if (w->birth != 0 && birth != w->birth)
        return LW_ENOTFOUND;
    w->birth = birth;
    bool is_over = w->is_for_fence ? has_no_fence(w->sight) : rests(lw__sight_condition(w->sight));
    return is_over ? LW_OK : LW_PENDING;
}

static int wait_until(struct waiting *w, uint64_t deadline) {
    int rc = look(w), waited = LW_OK;
    while (rc == LW_PENDING && lw__layer_now(w->engine) < deadline) {
        struct lw__scope_await me = {.scope = w->sight->copy.id};
        if (lw__layer_runs(w->engine, me.scope))
            return LW_EDEADLOCK;
        lw__layer_announce(w->engine, &me);
        rc = look(w);
        if (rc == LW_PENDING && w->sight->copy.id == me.scope)
            waited = lw__layer_wait(w->engine, &me, deadline);
        lw__layer_withdraw(w->engine, &me);
        if (rc == LW_PENDING)
            rc = look(w);
        if (rc == LW_PENDING && waited < 0)
            return waited;
    }
    return rc;
}

/* What was seen may not be on the disk yet. If the disk fails, nobody knows. */
static int make_sure(lw_engine *engine, int rc) {
    struct lw__store *store = lw__layer_store(engine);
    if (rc == LW_OK && store->ops->flush && store->ops->flush(store) < 0)
        return LW_EUNSURE;
    return rc;
}

static void show(struct waiting *w, int rc, bool is_gone, lw_flow_status *status) {
    if (!status || rc < 0)
        return;
    if (!is_gone) {
        lw__sight_show(w->engine, w->sight, status);
        return;
    }
    lw__flow_show_gone(w->flow->name, w->id, status);
}

static int wait_for(struct waiting *w, int64_t timeout_ms, lw_flow_status *status) {
    int rc = wait_until(w, lw__layer_deadline(w->engine, timeout_ms));
    bool is_gone = rc == LW_ENOTFOUND && w->birth != 0;
    rc = make_sure(w->engine, is_gone ? LW_OK : rc);
    show(w, rc, is_gone, status);
    return rc;
}

static int wait(lw_engine *engine, const char *name, const char *id, int64_t timeout_ms,
                bool is_for_fence, lw_flow_status *status) {
    struct waiting w = {.engine = engine, .id = id, .is_for_fence = is_for_fence};
    int rc = lw__flow_find(engine, name, &w.flow, NULL);
    if (rc < 0)
        return rc;
    if (timeout_ms < -1 || timeout_ms > LW_TIMEOUT_MS_MAX || !id)
        return LW_EINVAL;
    w.sight = lw__sight_open(engine);
    if (!w.sight)
        return LW_ENOMEM;
    rc = wait_for(&w, timeout_ms, status);
    lw__sight_close(engine, w.sight);
    return rc;
}

int lw_flow_wait(lw_engine *engine, const char *flow, const char *id, int64_t timeout_ms,
                 lw_flow_status *status) {
    return wait(engine, flow, id, timeout_ms, false, status);
}

int lw_flow_wait_fence(lw_engine *engine, const char *flow, const char *id, int64_t timeout_ms,
                       lw_flow_status *status) {
    return wait(engine, flow, id, timeout_ms, true, status);
}
