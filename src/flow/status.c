/* The status of a resource, as a program sees it. */
#include "flow/flow_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"

#include <stdio.h>

const char *lw_flow_condition_name(lw_flow_condition condition) {
    switch (condition) {
#define CASE(constant, number, name) \
    case constant: return name;
        LW_FLOW_CONDITION_MAP(CASE)
    }
    return "unknown";
}

const char *lw_step_state_name(lw_step_state state) {
    switch (state) {
        LW_STEP_STATE_MAP(CASE)
#undef CASE
    }
    return "unknown";
}

/* ---- taking a look ------------------------------------------------------------------------ */

struct lw__sight *lw__sight_open(lw_engine *engine) {
    return lw__alloc(lw__layer_allocator(engine), sizeof(struct lw__sight));
}

void lw__sight_close(lw_engine *engine, struct lw__sight *sight) {
    lw__free(lw__layer_allocator(engine), sight, sizeof *sight);
}

void lw__sight_prepare(struct lw__sight *sight, const struct lw__flow *flow) {
    sight->flow = flow;
    sight->copy =
        (struct lw__scope_copy){.bytes = sight->bytes,
                                .capacity = sizeof sight->bytes,
                                .tasks = sight->tasks,
                                .task_capacity = sizeof sight->tasks / sizeof *sight->tasks};
}

int lw__sight_read(struct lw__sight *sight) {
    return lw__record_read(&sight->record, (lw_bytes){sight->bytes, sight->copy.size});
}

int lw__sight_take(lw_engine *engine, const struct lw__flow *flow, const char *id,
                   struct lw__sight *sight) {
    struct lw__store *store = lw__layer_store(engine);
    char name[LW__FLOW_SCOPE_MAX + 1];
    if (!id)
        return LW_EINVAL;
    if (strnlen(id, LW_FLOW_ID_MAX + 1) > LW_FLOW_ID_MAX)
        return LW_ENOTFOUND;
    snprintf(name, sizeof name, "%s/%s", flow->name, id);
    lw__sight_prepare(sight, flow);
    int rc = store->ops->scope_find(store, name, &sight->copy);
    return rc < 0 ? rc : lw__sight_read(sight);
}

int lw__sight_take_next(lw_engine *engine, const struct lw__flow *flow, uint64_t after,
                        struct lw__sight *sight) {
    struct lw__store *store = lw__layer_store(engine);
    int rc;
    do {
        lw__sight_prepare(sight, flow);
        rc = store->ops->scope_next(store, after, &sight->copy);
        after = sight->copy.id;
    } while (rc == LW_OK && !lw__flow_id_of(flow, sight->copy.name));
    return rc < 0 ? rc : lw__sight_read(sight);
}

uint64_t lw__sight_birth(const struct lw__sight *sight) {
    uint64_t first = sight->record.history[0].generation;
    return first ? first : sight->copy.generation;
}

/* ---- what it means ------------------------------------------------------------------------ */

lw_flow_condition lw__sight_condition(const struct lw__sight *sight) {
    const struct lw__flow *flow = sight->flow;
    const struct lw__record *record = &sight->record;
    const struct lw__flow_state *state = lw__flow_state_of(flow, record->state);
    if (record->is_aborted)
        return LW_FLOW_ABORTED;
    if (sight->copy.open > 0)
        return LW_FLOW_HELD;
    if (record->is_at_goal || (state && !state->steps))
        return LW_FLOW_AT_GOAL;
    bool is_halted = !state || lw__steps_missing(flow, record, &sight->copy);
    return is_halted ? LW_FLOW_HALTED : LW_FLOW_ACTIVE;
}

static lw_step_state step_state(const struct lw__sight *sight, const struct lw__step *step,
                                const struct lw__scope_task *task) {
    const struct lw__record *record = &sight->record;
    const struct lw__record_flag *flag = lw__record_find(record, step->flag);
    lw__step_set bit = LW__STEP_BIT(step - sight->flow->steps);
    if (flag && flag->done_ms > 0)
        return flag->is_skipped ? LW_STEP_SKIPPED : LW_STEP_DONE;
    if (record->is_aborted)
        return LW_STEP_ABORTED;
    if (!(lw__steps_ready(sight->flow, record) & bit))
        return LW_STEP_WAITING;
    if (sight->copy.open > 0)
        return LW_STEP_HELD;
    return !step->run ? LW_STEP_MANUAL : task ? LW_STEP_ACTIVE : LW_STEP_HALTED;
}

static void show_step(lw_engine *engine, const struct lw__sight *sight, const struct lw__step *step,
                      lw_flow_step *shown) {
    const struct lw__record_flag *flag = lw__record_find(&sight->record, step->flag);
    const struct lw__scope_task *task = lw__step_task_in(step, &sight->copy);
    memcpy(shown->name, step->name, sizeof shown->name);
    memcpy(shown->flag, step->flag, sizeof shown->flag);
    shown->state = step_state(sight, step, task);
    if (flag) {
        shown->done_ms = flag->done_ms;
        shown->attempts = flag->attempts;
        memcpy(shown->error, flag->error, sizeof shown->error);
    }
    if (!task)
        return;
    shown->task = task->id;
    shown->task_state = task->state;
    shown->attempts = task->attempts;
    if (task->error[0])
        lw__record_copy_text(shown->error, task->error);
    if (task->state == LW_SCHEDULED)
        shown->due_ms = lw__layer_due_ms(engine, task->due_at);
}

/* Of an aborted flow its own; of a halted one that of the first step that is missing. */
static void show_reason(const struct lw__sight *sight, lw_flow_status *status) {
    memcpy(status->reason, sight->record.reason, sizeof status->reason);
    if (status->condition != LW_FLOW_HALTED)
        return;
    if (status->step_count == 0)
        lw__record_copy_text(status->reason, "this program does not know its state");
    for (unsigned i = 0; i < status->step_count; i++) {
        const lw_flow_step *step = &status->steps[i];
        if (step->state != LW_STEP_HALTED)
            continue;
        char text[LW_FLOW_NAME_MAX + LW_FLOW_TEXT_MAX + sizeof ": "];
        snprintf(text, sizeof text, "%s: %s", step->name,
                 step->error[0] ? step->error : "it has no task");
        lw__record_copy_text(status->reason, text);
        return;
    }
}

static void show_history(const struct lw__sight *sight, lw_flow_status *status) {
    const struct lw__record *record = &sight->record;
    const lw_flow_move_info *last = &record->history[record->history_count - 1];
    status->history_count = record->history_count;
    status->history_dropped = record->history_dropped;
    for (unsigned i = 0; i < record->history_count; i++) {
        status->history[i] = record->history[i];
        if (status->history[i].generation == 0)
            status->history[i].generation = sight->copy.generation;
    }
    status->started_ms = record->history[0].at_ms;
    status->since_ms = last->at_ms;
    memcpy(status->state, record->is_at_goal ? last->state : record->state, sizeof status->state);
}

static void show_declared(lw_engine *engine, const struct lw__sight *sight,
                          lw_flow_status *status) {
    const struct lw__flow *flow = sight->flow;
    const struct lw__flow_state *state = lw__flow_state_of(flow, sight->record.state);
    status->condition = lw__sight_condition(sight);
    for (unsigned i = 0; state && i < flow->step_count; i++) {
        if (state->steps & LW__STEP_BIT(i))
            show_step(engine, sight, &flow->steps[i], &status->steps[status->step_count++]);
    }
    show_reason(sight, status);
}

/* The name of a scope is "<flow>/<id>". */
static void show_name(const struct lw__sight *sight, lw_flow_status *status) {
    const char *name = sight->copy.name;
    size_t size = strcspn(name, "/");
    snprintf(status->flow, sizeof status->flow, "%.*s", (int)size, name);
    snprintf(status->id, sizeof status->id, "%s", name + size + (name[size] == '/'));
}

void lw__sight_show(lw_engine *engine, const struct lw__sight *sight, lw_flow_status *status) {
    const struct lw__record *record = &sight->record;
    memset(status, 0, sizeof *status);
    show_name(sight, status);
    status->number = sight->copy.id;
    status->generation = sight->copy.generation;
    status->version = sight->copy.version;
    status->open = sight->copy.open;
    status->is_unclean = sight->copy.is_unclean;
    show_history(sight, status);
    if (sight->flow)
        show_declared(engine, sight, status);
    else
        lw__sight_show_partial(engine, sight, status);
    status->payload_size = record->payload.size;
    if (record->payload.size > 0)
        memcpy(status->payload, record->payload.data, record->payload.size);
}

void lw__flow_show_gone(const char *flow, const char *id, lw_flow_status *status) {
    memset(status, 0, sizeof *status);
    snprintf(status->flow, sizeof status->flow, "%s", flow);
    snprintf(status->id, sizeof status->id, "%s", id);
    status->condition = LW_FLOW_GONE;
}

/* ---- get, list ---------------------------------------------------------------------------- */

int lw_flow_get(lw_engine *engine, const char *name, const char *id, lw_flow_status *status) {
    const struct lw__flow *flow;
    int rc = lw__flow_find(engine, name, &flow, NULL);
    if (rc < 0 || !status)
        return rc < 0 ? rc : LW_EINVAL;
    struct lw__sight *sight = lw__sight_open(engine);
    if (!sight)
        return LW_ENOMEM;
    rc = lw__sight_take(engine, flow, id, sight);
    if (rc == LW_OK)
        lw__sight_show(engine, sight, status);
    lw__sight_close(engine, sight);
    return rc;
}

#define LIST_LIMIT_DEFAULT 100

struct listing {
    struct lw__sight sight;
    lw_flow_status status;
};

/* One that is damaged is not shown. */
static int list(lw_engine *engine, const struct lw__flow *flow, uint64_t after, size_t limit,
                bool (*each)(void *user, const lw_flow_status *status), void *user,
                struct listing *listing) {
    int shown = 0, rc = LW_OK;
    bool is_enough = false;
    while (!is_enough && (size_t)shown < limit && rc != LW_ENOTFOUND) {
        rc = lw__sight_take_next(engine, flow, after, &listing->sight);
        after = listing->sight.copy.id;
        if (rc < 0)
            continue;
        lw__sight_show(engine, &listing->sight, &listing->status);
        shown++;
        is_enough = !each(user, &listing->status);
    }
    return shown;
}

int lw_flow_list(lw_engine *engine, const char *name, uint64_t after, size_t limit,
                 bool (*each)(void *user, const lw_flow_status *status), void *user) {
    const struct lw__flow *flow;
    int rc = lw__flow_find(engine, name, &flow, NULL);
    if (rc < 0 || !each)
        return rc < 0 ? rc : LW_EINVAL;
    const lw_allocator *allocator = lw__layer_allocator(engine);
    struct listing *listing = lw__alloc(allocator, sizeof *listing);
    if (!listing)
        return LW_ENOMEM;
    limit = limit == 0 ? LIST_LIMIT_DEFAULT : limit > INT32_MAX ? INT32_MAX : limit;
    int shown = list(engine, flow, after, limit, each, user, listing);
    lw__free(allocator, listing, sizeof *listing);
    return shown;
}
