/* What programs and operators do to a resource: start, move, set, resume, force.
 *
 * All but the first look at the resource, compute what it is to be, and have the store change it if
 * it is still as it was; otherwise they look again. */
#include "flow/flow_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "base/text.h"

#include <stdio.h>

/* A change that is being made; on the heap, as it is large. */
struct steering {
    lw_engine *engine;
    const struct lw__flow *flow;
    const char *id;
    lw_error *err;
    /* what the caller wants */
    const struct lw__flow_state *state;
    const char *flag;
    uint64_t generation;
    /* what it comes to */
    struct lw__scope_change change;
    lw_id expedited;             /* the task of a step that was completed from outside */
    const struct lw__step *step; /* which was */
    bool is_goal;
    size_t put_count;
    struct lw__put puts[LW_FLOW_STEPS_MAX];
    struct lw__sight sight;
    char bytes[LW__SCOPE_BYTES_MAX];
};

/* ---- the parts ---------------------------------------------------------------------------- */

static int open_steering(lw_engine *engine, const char *flow_name, const char *id, lw_error *err,
                         struct steering **out) {
    const struct lw__flow *flow;
    int rc = lw__flow_find(engine, flow_name, &flow, err);
    if (rc < 0)
        return rc;
    if (!id)
        return lw__error_set(err, LW_EINVAL, 0, "the id is NULL");
    struct steering *s = lw__alloc(lw__layer_allocator(engine), sizeof *s);
    if (!s)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory to change \"%s/%s\"", flow->name, id);
    memset(s, 0, offsetof(struct steering, puts));
    s->engine = engine;
    s->flow = flow;
    s->id = id;
    s->err = err;
    *out = s;
    return LW_OK;
}

static void drop_puts(struct steering *s) {
    while (s->put_count > 0)
        lw__layer_drop_put(s->engine, &s->puts[--s->put_count]);
}

static int close_steering(struct steering *s, int rc) {
    lw__free(lw__layer_allocator(s->engine), s, sizeof *s);
    return rc;
}

static int64_t now_ms(const struct steering *s) {
    return lw__layer_wall_ms(s->engine, lw__layer_now(s->engine));
}

/* Tasks for these steps. What keeps a resource going may use the reserve; what starts may not. */
static int put_steps(struct steering *s, lw__step_set steps, bool is_inside) {
    int rc = LW_OK;
    for (unsigned i = 0; rc == LW_OK && i < s->flow->step_count; i++) {
        const struct lw__step *step = &s->flow->steps[i];
        const struct lw__layer_task task = lw__step_task(step);
        if (steps & LW__STEP_BIT(i) && step->run)
            rc = lw__layer_make_put(s->engine, &task, is_inside, &s->puts[s->put_count++], s->err);
    }
    return rc;
}

static void set_bytes(struct steering *s) {
    s->change.has_bytes = true;
    s->change.bytes = (lw_bytes){s->bytes, lw__record_write(&s->sight.record, s->bytes)};
}

static int explain(const struct steering *s, int rc) {
    switch (rc) {
    case LW_ENOTFOUND:
        return lw__error_set(s->err, rc, 0, "there is no \"%s/%s\"", s->flow->name,
                             lw__text_quote(s->id).text);
    case LW_EFULL:
        return lw__error_set(s->err, rc, 0,
                             "there is no room for the steps of \"%s/%s\": try again later",
                             s->flow->name, lw__text_quote(s->id).text);
    case LW_ESTOPPING:
        return lw__error_set(s->err, rc, 0, "the engine is stopping and accepts no tasks");
    case LW_ECORRUPT:
        return lw__error_set(s->err, rc, 0, "the status of \"%s/%s\" is damaged", s->flow->name,
                             lw__text_quote(s->id).text);
    default: return lw__error_set(s->err, rc, 0, "%s", lw_status_text(rc));
    }
}

/* ---- changing ----------------------------------------------------------------------------- */

/* LW_OK: it was changed. LW_ECHANGED: not, it is another one by now. */
static int change(struct steering *s) {
    struct lw__store *store = lw__layer_store(s->engine);
    const struct lw__scope_copy *copy = &s->sight.copy;
    s->change.version = copy->version;
    int rc = store->ops->scope_change(store, lw__layer_now(s->engine), copy->id, copy->generation,
                                      &s->change, s->puts, s->put_count);
    if (rc < 0)
        drop_puts(s);
    else
        lw__layer_attend(s->engine);
    if (rc == LW_ELEASE)
        rc = LW_ECHANGED;
    return rc < 0 && rc != LW_ECHANGED ? explain(s, rc) : rc;
}

/* `plan` says what is to be: LW_OK; or, if nothing is, what the caller gets to hear. */
static int look_and_change(struct steering *s, int (*plan)(struct steering *s)) {
    int rc;
    do {
        s->change = (struct lw__scope_change){.action = LW__SCOPE_WRITE};
        rc = lw__sight_take(s->engine, s->flow, s->id, &s->sight);
        if (rc < 0)
            return explain(s, rc);
        rc = plan(s);
        if (rc == LW_OK)
            rc = change(s);
        else
            drop_puts(s);
    } while (rc == LW_ECHANGED);
    return rc;
}

static void tell(const struct steering *s, lw_flow_event_type type, const char *state,
                 uint64_t generation) {
    lw__flow_tell(s->flow, type, s->id, state, s->step, NULL, generation);
}

/* ---- start -------------------------------------------------------------------------------- */

static int check_start(const struct steering *s, lw_bytes payload) {
    int rc = lw__key_check("the id", s->id, LW_FLOW_ID_MAX, s->err);
    if (rc < 0)
        return rc;
    if (payload.size > LW_FLOW_PAYLOAD_MAX || (payload.size > 0 && !payload.data))
        return lw__error_set(s->err, LW_EINVAL, 0,
                             "the payload has %zu bytes, must have at most %d, and not be NULL",
                             payload.size, LW_FLOW_PAYLOAD_MAX);
    return LW_OK;
}

static int open_scope(struct steering *s) {
    struct lw__store *store = lw__layer_store(s->engine);
    char name[LW__FLOW_SCOPE_MAX + 1];
    snprintf(name, sizeof name, "%s/%s", s->flow->name, s->id);
    s->sight.copy = (struct lw__scope_copy){.bytes = NULL};
    int rc = store->ops->scope_open(store, lw__layer_now(s->engine), name, s->change.bytes, s->puts,
                                    s->put_count, &s->sight.copy);
    return rc < 0 ? explain(s, rc) : rc;
}

static int start(struct steering *s, lw_bytes payload) {
    struct lw__record *record = &s->sight.record;
    int rc = check_start(s, payload);
    if (rc < 0)
        return rc;
    memset(record, 0, sizeof *record);
    record->payload = payload;
    lw__record_begin(record, s->flow->states[0].name, now_ms(s), 0);
    set_bytes(s);
    rc = put_steps(s, lw__steps_ready(s->flow, record), false);
    if (rc == LW_OK)
        rc = open_scope(s);
    if (rc != LW_OK)
        drop_puts(s);
    else
        lw__layer_attend(s->engine);
    return rc;
}

int lw_flow_start(lw_engine *engine, const char *flow, const char *id, lw_bytes payload,
                  lw_error *err) {
    struct steering *s;
    int rc = open_steering(engine, flow, id, err, &s);
    if (rc < 0)
        return rc;
    rc = start(s, payload);
    if (rc == LW_OK)
        tell(s, LW_FLOW_EVENT_STARTED, s->flow->states[0].name, s->sight.copy.generation);
    return close_steering(s, rc);
}

/* One that was there and is gone since was not in the way. */
int lw_flow_start_get(lw_engine *engine, const char *flow, const char *id, lw_bytes payload,
                      lw_flow_status *status, lw_error *err) {
    int rc, seen;
    if (!status)
        return lw_flow_start(engine, flow, id, payload, err);
    do {
        rc = lw_flow_start(engine, flow, id, payload, err);
        if (rc < 0)
            return rc;
        seen = lw_flow_get(engine, flow, id, status);
    } while (rc == LW_EXISTS && seen == LW_ENOTFOUND);
    if (seen == LW_ENOTFOUND) {
        lw__flow_show_gone(flow, id, status);
        return rc;
    }
    return seen < 0 ? lw__error_set(err, seen, 0, "%s", lw_status_text(seen)) : rc;
}

/* ---- move --------------------------------------------------------------------------------- */

static int find_state(struct steering *s, const char *name) {
    const char *known[LW_FLOW_STATES_MAX];
    if (!name)
        return lw__error_set(s->err, LW_EINVAL, 0, "the state is NULL");
    s->state = lw__flow_state_of(s->flow, name);
    if (s->state)
        return LW_OK;
    for (unsigned i = 0; i < s->flow->state_count; i++)
        known[i] = s->flow->states[i].name;
    return lw__flow_unknown(LW_EINVAL, "state", name, known, s->flow->state_count, s->err);
}

static int plan_move(struct steering *s) {
    struct lw__record *record = &s->sight.record;
    lw_flow_condition condition = lw__sight_condition(&s->sight);
    bool is_there = strcmp(record->state, s->state->name) == 0;
    if (is_there && condition != LW_FLOW_HALTED && condition != LW_FLOW_ABORTED)
        return LW_EXISTS;
    lw__record_begin(record, s->state->name, now_ms(s), s->sight.copy.generation);
    set_bytes(s);
    bool is_end = s->state->is_end && !s->state->steps;
    s->change.action = is_end ? LW__SCOPE_CLOSE : LW__SCOPE_MOVE;
    return put_steps(s, lw__steps_ready(s->flow, record), true);
}

/* Whether what was moved is held. */
static bool is_held(struct steering *s) {
    return lw__sight_take(s->engine, s->flow, s->id, &s->sight) == LW_OK
           && s->sight.copy.generation == s->change.new_generation && s->sight.copy.open > 0;
}

int lw_flow_move(lw_engine *engine, const char *flow, const char *id, const char *state,
                 lw_error *err) {
    struct steering *s;
    int rc = open_steering(engine, flow, id, err, &s);
    if (rc < 0)
        return rc;
    rc = find_state(s, state);
    if (rc == LW_OK)
        rc = look_and_change(s, plan_move);
    if (rc == LW_OK) {
        tell(s, LW_FLOW_EVENT_MOVED, s->state->name, s->change.new_generation);
        rc = is_held(s) ? LW_PENDING : LW_OK;
    }
    return close_steering(s, rc);
}

/* ---- set ---------------------------------------------------------------------------------- */

static int find_setter(struct steering *s) {
    const struct lw__record *record = &s->sight.record;
    const struct lw__flow_state *state = lw__flow_state_of(s->flow, record->state);
    s->step = state ? lw__flow_setter(s->flow, state, s->flag) : NULL;
    if (s->step)
        return LW_OK;
    const char *known[LW_FLOW_STEPS_MAX];
    for (unsigned i = 0; i < s->flow->step_count; i++)
        known[i] = state && state->steps & LW__STEP_BIT(i) ? s->flow->steps[i].flag : NULL;
    const char *nearest = lw__name_nearest(s->flag, known, s->flow->step_count);
    return lw__error_set(
        s->err, LW_ENOTFOUND, 0, "state \"%s\" of flow \"%s\" has no flag \"%s\"%s%s%s",
        record->state, s->flow->name, lw__text_quote(s->flag).text,
        nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* LW_OK: the flag can be set. LW_EXISTS: it is. */
static int check_set(struct steering *s) {
    const struct lw__record *record = &s->sight.record;
    if (s->generation != 0 && s->generation != s->sight.copy.generation)
        return lw__error_set(
            s->err, LW_ELEASE, 0, "\"%s/%s\" has generation %llu, and not %llu any more",
            s->flow->name, lw__text_quote(s->id).text, (unsigned long long)s->sight.copy.generation,
            (unsigned long long)s->generation);
    int rc = find_setter(s);
    if (rc < 0)
        return rc;
    lw__step_set bit = LW__STEP_BIT(s->step - s->flow->steps);
    if (lw__steps_done(s->flow, record) & bit)
        return LW_EXISTS;
    if (record->is_aborted || record->is_at_goal)
        return lw__error_set(s->err, LW_EINVAL, 0, "\"%s/%s\" is %s: it has no steps to complete",
                             s->flow->name, lw__text_quote(s->id).text,
                             record->is_aborted ? "aborted" : "at its goal");
    bool is_ready = s->sight.copy.open == 0 && lw__steps_ready(s->flow, record) & bit;
    return is_ready ? LW_OK : LW_PENDING;
}

static int plan_set(struct steering *s) {
    struct lw__record *record = &s->sight.record;
    int rc = check_set(s);
    if (rc != LW_OK)
        return rc;
    if (!lw__record_flag(record, s->step->flag))
        return lw__error_set(s->err, LW_EFULL, 0,
                             "the record of \"%s/%s\" is full of flags that are not declared",
                             s->flow->name, lw__text_quote(s->id).text);
    const struct lw__scope_task *task = lw__step_task_in(s->step, &s->sight.copy);
    s->expedited = task ? task->id : 0;
    if (task)
        lw__record_note_task(record, s->step->flag, task->attempts, task->error);
    struct lw__advance advance = lw__steps_advance(s->step, record, now_ms(s));
    s->change.action = advance.action;
    s->is_goal = advance.is_goal;
    set_bytes(s);
    return put_steps(s, advance.started, true);
}

/* The step's own task, if it waits for a time, ends now instead of then. */
static void expedite(const struct steering *s) {
    struct lw__store *store = lw__layer_store(s->engine);
    if (s->expedited == 0)
        return;
    store->ops->change(store, lw__layer_now(s->engine), s->expedited, LW__CHANGE_EXPEDITE);
    lw__layer_attend(s->engine);
}

int lw_flow_set(lw_engine *engine, const char *flow, const char *id, const char *flag,
                uint64_t generation, lw_error *err) {
    struct steering *s;
    int rc = open_steering(engine, flow, id, err, &s);
    if (rc < 0)
        return rc;
    s->flag = flag;
    s->generation = generation;
    rc = flag ? look_and_change(s, plan_set)
              : lw__error_set(err, LW_EINVAL, 0, "the name of the flag is NULL");
    if (rc == LW_OK) {
        const struct lw__flow_state *state = &s->flow->states[s->step->state];
        expedite(s);
        tell(s, LW_FLOW_EVENT_FLAG, state->name, s->sight.copy.generation);
        if (s->is_goal)
            tell(s, LW_FLOW_EVENT_GOAL, state->goal, s->sight.copy.generation);
    }
    return close_steering(s, rc == LW_EXISTS ? LW_OK : rc);
}

/* ---- resume, force ------------------------------------------------------------------------ */

/* Steps that have failed before do so no more: their record says that they were given a task. */
static void note_resumed(struct steering *s, lw__step_set steps) {
    struct lw__record *record = &s->sight.record;
    for (unsigned i = 0; i < s->flow->step_count; i++) {
        const char *name = s->flow->steps[i].flag;
        if (!(steps & LW__STEP_BIT(i)) || !lw__record_find(record, name))
            continue;
        lw__record_flag(record, name)->is_resumed = true;
    }
    set_bytes(s);
}

static int plan_resume(struct steering *s) {
    const struct lw__record *record = &s->sight.record;
    if (record->is_aborted)
        return lw__error_set(s->err, LW_EINVAL, 0,
                             "\"%s/%s\" is aborted: lw_flow_move takes it from there",
                             s->flow->name, lw__text_quote(s->id).text);
    lw__step_set missing = lw__steps_missing(s->flow, record, &s->sight.copy);
    if (missing == 0 || s->sight.copy.open > 0)
        return LW_PENDING;
    note_resumed(s, missing);
    return put_steps(s, missing, true);
}

int lw_flow_resume(lw_engine *engine, const char *flow, const char *id, lw_error *err) {
    struct steering *s;
    int rc = open_steering(engine, flow, id, err, &s);
    if (rc < 0)
        return rc;
    rc = look_and_change(s, plan_resume);
    if (rc == LW_OK)
        tell(s, LW_FLOW_EVENT_RESUMED, s->sight.record.state, s->sight.copy.generation);
    return close_steering(s, rc);
}

static int plan_force(struct steering *s) {
    s->change.action = LW__SCOPE_FORCE;
    return LW_OK;
}

int lw_flow_force(lw_engine *engine, const char *flow, const char *id, lw_error *err) {
    struct steering *s;
    int rc = open_steering(engine, flow, id, err, &s);
    if (rc < 0)
        return rc;
    rc = look_and_change(s, plan_force);
    return close_steering(s, rc);
}
