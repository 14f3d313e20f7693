/* Resources whose flow is declared otherwise than when they were left: lw_start looks at all of
 * them before any step runs.
 *
 * The task of a step is stranded if the declaration of today has no use for it: the step was
 * renamed or taken out, serves another state, or is done from outside now. Nobody would ever run
 * it, or somebody would run it for a state that it does not serve. It is aborted; and in the same
 * transaction the resource goes on as its flags say: steps that are ready start, unless they have
 * failed before, which lw_flow_resume is for; if all flags of the state are set, that was the goal.
 *
 * Resources are changed one by one, each in a transaction, and a store that was left in the middle
 * of it is reviewed again. Three kinds of them are left alone:
 * - those of flows that are not registered here: another program may own them;
 * - those in a state that is not declared here, which are halted: a newer program may come back to
 *   them. Tasks of steps that would run here all the same are aborted;
 * - those with a stranded task that somebody has under a lease (none of this version: steps are not
 *   leased). It is asked to give up, and lw_flow_resume or the next start goes on.
 */
#include "flow/flow_internal.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/names.h"

#include <stdio.h>

#define LINES_MAX 64    /* steps and states that the log names; others are not named */
#define FLUSH_EACH 1000 /* resources that are changed between two waits for the disk */
#define TASKS_MAX (2 * LW_FLOW_STEPS_MAX) /* of a resource, in one look */
#define PASSES_MAX (LW__SCOPE_TASKS_MAX / TASKS_MAX + 2)

/* What the log says about one name. */
struct line {
    const struct lw__flow *flow;
    char name[LW_FLOW_NAME_MAX + 1]; /* of a step or, if is_state, of a state */
    bool is_state;
    uint64_t count;    /* tasks of the step; resources in the state */
    uint64_t started;  /* instead */
    uint64_t running;  /* of the tasks, those that somebody has */
    uint64_t roomless; /* resources that are halted because there was no room */
};

struct review {
    lw_engine *engine;
    struct lw__sight sight;
    /* what is to be done to the resource in sight */
    struct lw__scope_change change;
    const struct lw__scope_task *stranded[TASKS_MAX];
    size_t stranded_count, running_count;
    uint64_t aborted[TASKS_MAX];
    const char *reasons[TASKS_MAX];
    char texts[TASKS_MAX][LW_TEXT_MAX + 1];
    lw__step_set started;
    bool is_goal;
    size_t put_count;
    struct lw__put puts[LW_FLOW_STEPS_MAX];
    char bytes[LW__SCOPE_BYTES_MAX];
    /* so far */
    uint64_t changed;
    size_t line_count;
    struct line lines[LINES_MAX];
};

/* ---- what is stranded --------------------------------------------------------------------- */

static const struct lw__step *step_of(const struct lw__flow *flow,
                                      const struct lw__scope_task *task) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (flow->steps[i].kind_number == task->kind)
            return &flow->steps[i];
    }
    return NULL;
}

static bool is_stranded(const struct review *r, const struct lw__scope_task *task) {
    const struct lw__flow *flow = r->sight.flow;
    const struct lw__flow_state *state = lw__flow_state_of(flow, r->sight.record.state);
    const struct lw__step *step = step_of(flow, task);
    if (!state)
        return step && step->run;
    return !step || !step->run || &flow->states[step->state] != state;
}

static void find_stranded(struct review *r) {
    const struct lw__scope_copy *copy = &r->sight.copy;
    r->stranded_count = r->running_count = 0;
    for (size_t i = 0; i < copy->copied_count; i++) {
        const struct lw__scope_task *task = &copy->tasks[i];
        if (!is_stranded(r, task))
            continue;
        r->stranded[r->stranded_count++] = task;
        r->running_count += task->state == LW_STARTED;
    }
}

/* ---- what follows ------------------------------------------------------------------------- */

/* Steps that wait for lw_flow_resume: not even a new declaration brings them back by itself. */
static lw__step_set find_failed(const struct lw__flow *flow, const struct lw__record *record) {
    lw__step_set failed = 0;
    for (unsigned i = 0; i < flow->step_count; i++) {
        const struct lw__record_flag *flag = lw__record_find(record, flow->steps[i].flag);
        if (flag && flag->done_ms == 0 && !flag->is_resumed)
            failed |= LW__STEP_BIT(i);
    }
    return failed;
}

static void plan_goal(struct review *r, const struct lw__flow_state *state) {
    struct lw__record *record = &r->sight.record;
    int64_t now_ms = lw__layer_wall_ms(r->engine, lw__layer_now(r->engine));
    if (state->steps) {
        r->change.action = lw__steps_reach_goal(state, record, now_ms);
        r->is_goal = true;
    } else if (state->is_end) {
        r->change.action = LW__SCOPE_CLOSE;
    }
    r->change.has_bytes = true;
    r->change.bytes = (lw_bytes){r->bytes, lw__record_write(record, r->bytes)};
}

/* True: the resource is to be changed. */
static bool plan(struct review *r) {
    const struct lw__flow *flow = r->sight.flow;
    struct lw__record *record = &r->sight.record;
    const struct lw__flow_state *state = lw__flow_state_of(flow, record->state);
    bool is_over = !state || record->is_at_goal || record->is_aborted;
    bool has_all = state && (state->steps & ~lw__steps_done(flow, record)) == 0;
    r->change = (struct lw__scope_change){.action = LW__SCOPE_WRITE, .is_lazy = true};
    r->started = 0;
    r->is_goal = false;
    if (r->running_count > 0)
        return false;
    if (!is_over && has_all && (state->steps || state->is_end))
        plan_goal(r, state);
    else if (!is_over && r->stranded_count > 0)
        r->started = lw__steps_missing(flow, record, &r->sight.copy) & ~find_failed(flow, record);
    return r->stranded_count > 0 || r->change.has_bytes;
}

/* ---- saying why --------------------------------------------------------------------------- */

/* The step in the kind of a task, "<flow>.<step>". */
static const char *step_name(const struct review *r, const struct lw__scope_task *task) {
    const char *kind = lw__layer_kind_name(r->engine, task->kind);
    const char *dot = strchr(kind, '.');
    return dot ? dot + 1 : kind;
}

static const char *nearest_step(const struct lw__flow *flow, const char *name) {
    const char *known[LW_FLOW_STEPS_MAX];
    for (unsigned i = 0; i < flow->step_count; i++)
        known[i] = flow->steps[i].name;
    return lw__name_nearest(name, known, flow->step_count);
}

static const char *nearest_state(const struct lw__flow *flow, const char *name) {
    const char *known[LW_FLOW_STATES_MAX];
    for (unsigned i = 0; i < flow->state_count; i++)
        known[i] = flow->states[i].name;
    return lw__name_nearest(name, known, flow->state_count);
}

static int count_steps(lw__step_set steps) {
    return __builtin_popcount(steps);
}

static void write_started(const struct review *r, char *text, size_t size) {
    int count = count_steps(r->started);
    const struct lw__step *first =
        count > 0 ? &r->sight.flow->steps[__builtin_ctz(r->started)] : NULL;
    if (count == 0)
        snprintf(text, size, "nothing is started instead");
    else if (count == 1)
        snprintf(text, size, "\"%s\" is started", first->name);
    else
        snprintf(text, size, "\"%s\" and %d more are started", first->name, count - 1);
}

static void write_reason(const struct review *r, const struct lw__scope_task *task,
                         char text[LW_TEXT_MAX + 1]) {
    const struct lw__flow *flow = r->sight.flow;
    const struct lw__step *step = step_of(flow, task);
    char instead[LW_FLOW_NAME_MAX + 48];
    write_started(r, instead, sizeof instead);
    if (!step)
        snprintf(text, LW_TEXT_MAX + 1, "flow \"%s\" has no step \"%s\" any more: %s", flow->name,
                 step_name(r, task), instead);
    else if (!step->run)
        snprintf(text, LW_TEXT_MAX + 1,
                 "step \"%s\" of flow \"%s\" has no handler any more: lw_flow_set completes it",
                 step->name, flow->name);
    else
        snprintf(text, LW_TEXT_MAX + 1,
                 "step \"%s\" of flow \"%s\" serves the state \"%s\", not \"%s\", by now: %s",
                 step->name, flow->name, flow->states[step->state].name, r->sight.record.state,
                 instead);
}

static void list_aborted(struct review *r) {
    for (size_t i = 0; i < r->stranded_count; i++) {
        write_reason(r, r->stranded[i], r->texts[i]);
        r->reasons[i] = r->texts[i];
        r->aborted[i] = r->stranded[i]->id;
    }
    r->change.aborted = r->aborted;
    r->change.reasons = r->reasons;
    r->change.aborted_count = r->stranded_count;
}

/* ---- changing ----------------------------------------------------------------------------- */

static void drop_puts(struct review *r) {
    while (r->put_count > 0)
        lw__layer_drop_put(r->engine, &r->puts[--r->put_count]);
}

static int make_puts(struct review *r, lw_error *err) {
    const struct lw__flow *flow = r->sight.flow;
    int rc = LW_OK;
    r->put_count = 0;
    for (unsigned i = 0; rc == LW_OK && i < flow->step_count; i++) {
        const struct lw__layer_task task = lw__step_task(&flow->steps[i]);
        if (r->started & LW__STEP_BIT(i))
            rc = lw__layer_make_put(r->engine, &task, true, &r->puts[r->put_count++], err);
    }
    return rc;
}

static int change(struct review *r, lw_error *err) {
    struct lw__store *store = lw__layer_store(r->engine);
    const struct lw__scope_copy *copy = &r->sight.copy;
    int rc = make_puts(r, err);
    list_aborted(r);
    r->change.version = copy->version;
    if (rc == LW_OK)
        rc = store->ops->scope_change(store, lw__layer_now(r->engine), copy->id, copy->generation,
                                      &r->change, r->puts, r->put_count);
    if (rc < 0)
        drop_puts(r);
    return rc;
}

static void flush(struct review *r) {
    struct lw__store *store = lw__layer_store(r->engine);
    if (store->ops->flush)
        store->ops->flush(store); /* what a disk did not take now it takes later */
}

/* New tasks need room before the old ones leave theirs. *is_roomless: there was none even so, and
 * what is ready did not start. */
static int change_with_room(struct review *r, bool *is_roomless, lw_error *err) {
    *is_roomless = false;
    int rc = change(r, err);
    if (rc == LW_EFULL) {
        flush(r);
        rc = change(r, err);
    }
    if (rc == LW_EFULL) {
        *is_roomless = true;
        r->started = 0;
        rc = change(r, err);
    }
    return rc;
}

/* ---- the log ------------------------------------------------------------------------------ */

static struct line *line_of(struct review *r, const char *name, bool is_state) {
    for (size_t i = 0; i < r->line_count; i++) {
        struct line *line = &r->lines[i];
        if (line->flow == r->sight.flow && line->is_state == is_state
            && strcmp(line->name, name) == 0)
            return line;
    }
    if (r->line_count == LINES_MAX)
        return NULL;
    struct line *made = &r->lines[r->line_count++];
    *made = (struct line){.flow = r->sight.flow, .is_state = is_state};
    snprintf(made->name, sizeof made->name, "%s", name);
    return made;
}

static void count_stranded(struct review *r, bool is_roomless) {
    for (size_t i = 0; i < r->stranded_count; i++) {
        struct line *line = line_of(r, step_name(r, r->stranded[i]), false);
        if (!line)
            continue;
        bool is_running = r->stranded[i]->state == LW_STARTED;
        line->running += is_running;
        line->count += !is_running && r->running_count == 0;
        line->started += i == 0 ? (uint64_t)count_steps(r->started) : 0;
        line->roomless += i == 0 && is_roomless;
    }
}

static void count_state(struct review *r) {
    const struct lw__record *record = &r->sight.record;
    bool is_known = lw__flow_state_of(r->sight.flow, record->state) != NULL;
    struct line *line = is_known || record->is_at_goal ? NULL : line_of(r, record->state, true);
    if (line)
        line->count++;
}

static const char state_line[] =
    "resources are in a state that is not declared here: they are halted until lw_flow_move, or "
    "until it is declared again";
static const char step_line[] =
    "tasks of a step that is not declared here any more were aborted, and what is ready was "
    "started: nothing is to be done if the step was renamed or taken out";

static void write_line(const struct review *r, const struct line *line) {
    const lw_log *log = lw__layer_log(r->engine);
    if (line->is_state) {
        lw__log(log, LW_LOG_WARN, "flow", state_line, LW__FIELD_TEXT("flow", line->flow->name),
                LW__FIELD_TEXT("state", line->name), LW__FIELD_U64("resources", line->count),
                LW__FIELD_TEXT("nearest", nearest_state(line->flow, line->name)));
        return;
    }
    if (line->count > 0)
        lw__log(log, LW_LOG_WARN, "flow", step_line, LW__FIELD_TEXT("flow", line->flow->name),
                LW__FIELD_TEXT("step", line->name), LW__FIELD_U64("tasks", line->count),
                LW__FIELD_TEXT("nearest", nearest_step(line->flow, line->name)),
                LW__FIELD_U64("started", line->started));
    if (line->running > 0)
        lw__log(log, LW_LOG_WARN, "flow",
                "tasks of a step that is not declared here any more still run: they were asked to "
                "give up; then lw_flow_resume goes on",
                LW__FIELD_TEXT("flow", line->flow->name), LW__FIELD_TEXT("step", line->name),
                LW__FIELD_U64("tasks", line->running));
    if (line->roomless > 0)
        lw__log(log, LW_LOG_ERROR, "flow",
                "there was no room to start what is ready: resources are halted until "
                "lw_flow_resume",
                LW__FIELD_TEXT("flow", line->flow->name),
                LW__FIELD_U64("resources", line->roomless));
}

/* ---- all of them -------------------------------------------------------------------------- */

static void ask_running(struct review *r) {
    struct lw__store *store = lw__layer_store(r->engine);
    for (size_t i = 0; i < r->stranded_count; i++) {
        if (r->stranded[i]->state == LW_STARTED)
            store->ops->change(store, lw__layer_now(r->engine), r->stranded[i]->id,
                               LW__CHANGE_CANCEL);
    }
}

static void tell_goal(const struct review *r) {
    const struct lw__flow *flow = r->sight.flow;
    const struct lw__flow_state *state = lw__flow_state_of(flow, r->sight.record.state);
    if (r->is_goal)
        lw__flow_tell(flow, LW_FLOW_EVENT_GOAL, lw__flow_id_of(flow, r->sight.copy.name),
                      state->goal, NULL, NULL, r->sight.copy.generation);
}

/* The resource in sight. LW_OK: it is as it should be. LW_ECHANGED: look again. */
static int review_resource(struct review *r, lw_error *err) {
    bool is_roomless = false;
    find_stranded(r);
    if (!plan(r)) {
        ask_running(r);
        count_stranded(r, false);
        count_state(r);
        return LW_OK;
    }
    int rc = change_with_room(r, &is_roomless, err);
    if (rc == LW_ELEASE || rc == LW_ENOTFOUND)
        rc = LW_ECHANGED;
    if (rc < 0 && rc != LW_EUNSURE)
        return rc;
    count_stranded(r, is_roomless);
    tell_goal(r);
    if (++r->changed % FLUSH_EACH == 0)
        flush(r);
    return LW_ECHANGED;
}

/* LW_OK: there was one, after `*after`. LW_ENOTFOUND: that was the last. */
static int review_next(struct review *r, uint64_t *after, lw_error *err) {
    struct lw__store *store = lw__layer_store(r->engine);
    int rc = LW_ECHANGED;
    uint64_t id = 0;
    for (int pass = 0; rc == LW_ECHANGED && pass < PASSES_MAX; pass++) {
        const char *name = r->sight.copy.name;
        lw__sight_prepare(&r->sight, NULL);
        rc = store->ops->scope_next(store, *after, &r->sight.copy);
        if (rc < 0)
            return rc;
        if (id != 0 && r->sight.copy.id != id)
            return LW_OK; /* it has ended, and this is another one */
        id = r->sight.copy.id;
        r->sight.flow = lw__flow_named(r->engine, name, strcspn(name, "/"));
        if (r->sight.flow && lw__sight_read(&r->sight) == LW_OK)
            rc = review_resource(r, err);
    }
    *after = id;
    return rc == LW_ECHANGED ? LW_OK : rc;
}

int lw__flow_review(lw_engine *engine, lw_error *err) {
    const lw_allocator *allocator = lw__layer_allocator(engine);
    struct review *r = lw__alloc(allocator, sizeof *r);
    uint64_t after = 0;
    int rc = LW_OK;
    if (!r)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory to look at the resources of flows");
    r->engine = engine;
    r->changed = r->line_count = 0;
    while (rc == LW_OK)
        rc = review_next(r, &after, err);
    if (r->changed > 0)
        flush(r);
    for (size_t i = 0; i < r->line_count; i++)
        write_line(r, &r->lines[i]);
    lw__free(allocator, r, sizeof *r);
    if (rc == LW_ENOMEM)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory to look at the resources of flows");
    return rc == LW_ENOTFOUND ? LW_OK : rc;
}
