/* The status of resources whose flow this program may not have registered: what the store has, read
 * without knowing what it was meant for. */
#include "flow/flow_internal.h"

#include "base/memory.h"

#include <stdio.h>

/* ---- steps -------------------------------------------------------------------------------- */

/* The step in the kind of a task, "<flow>.<step>". */
static const char *step_in(const char *kind, const char *flow) {
    size_t size = strlen(flow);
    return strncmp(kind, flow, size) == 0 && kind[size] == '.' ? kind + size + 1 : kind;
}

static lw_flow_step *add_step(lw_flow_status *status) {
    return status->step_count < LW_FLOW_STEPS_MAX ? &status->steps[status->step_count++] : NULL;
}

static void show_flag(const struct lw__record *record, const struct lw__record_flag *flag,
                      lw_flow_step *shown) {
    memcpy(shown->flag, flag->name, sizeof shown->flag);
    shown->done_ms = flag->done_ms;
    shown->attempts = flag->attempts;
    memcpy(shown->error, flag->error, sizeof shown->error);
    if (flag->done_ms > 0)
        shown->state = flag->is_skipped ? LW_STEP_SKIPPED : LW_STEP_DONE;
    else if (record->is_aborted)
        shown->state = LW_STEP_ABORTED;
}

/* By default a flag has the name of its step. */
static lw_flow_step *find_step(lw_flow_status *status, const char *name) {
    for (unsigned i = 0; i < status->step_count; i++)
        if (strcmp(status->steps[i].flag, name) == 0 && status->steps[i].task == 0)
            return &status->steps[i];
    return NULL;
}

static void show_task(lw_engine *engine, const struct lw__sight *sight,
                      const struct lw__scope_task *task, lw_flow_status *status) {
    const char *name = step_in(lw__layer_kind_name(engine, task->kind), status->flow);
    lw_flow_step *shown = find_step(status, name);
    if (!shown)
        shown = add_step(status);
    if (!shown)
        return;
    snprintf(shown->name, sizeof shown->name, "%s", name);
    shown->task = task->id;
    shown->task_state = task->state;
    shown->attempts = task->attempts;
    if (shown->done_ms == 0)
        shown->state = sight->copy.open > 0 ? LW_STEP_HELD : LW_STEP_ACTIVE;
    if (task->error[0])
        lw__record_copy_text(shown->error, task->error);
    if (task->state == LW_SCHEDULED)
        shown->due_ms = lw__layer_due_ms(engine, task->due_at);
}

/* ---- what it means ------------------------------------------------------------------------ */

/* A flag that is not set and known all the same is of a step that has failed; unless one of the
 * tasks, which have other names, is its next try. */
static bool find_failed(lw_flow_status *status) {
    bool has_failed = false;
    for (unsigned i = 0; i < status->step_count; i++)
        if (status->steps[i].task && !status->steps[i].flag[0])
            return false;
    for (unsigned i = 0; i < status->step_count; i++) {
        lw_flow_step *step = &status->steps[i];
        if (step->state != 0)
            continue;
        step->state = LW_STEP_HALTED;
        if (!has_failed) {
            char text[LW_FLOW_NAME_MAX + LW_FLOW_TEXT_MAX + sizeof ": "];
            snprintf(text, sizeof text, "%s: %s", step->flag, step->error);
            lw__record_copy_text(status->reason, text);
        }
        has_failed = true;
    }
    return has_failed;
}

static lw_flow_condition condition_of(const struct lw__sight *sight, lw_flow_status *status) {
    if (sight->record.is_aborted)
        return LW_FLOW_ABORTED;
    if (sight->copy.open > 0)
        return LW_FLOW_HELD;
    if (sight->record.is_at_goal)
        return LW_FLOW_AT_GOAL;
    if (find_failed(status))
        return LW_FLOW_HALTED;
    return sight->copy.copied_count > 0 ? LW_FLOW_ACTIVE : (lw_flow_condition)0;
}

void lw__sight_show_partial(lw_engine *engine, const struct lw__sight *sight,
                            lw_flow_status *status) {
    const struct lw__record *record = &sight->record;
    status->is_partial = true;
    for (unsigned i = 0; i < record->flag_count; i++) /* there are no more than there is room for */
        show_flag(record, &record->flags[i], &status->steps[status->step_count++]);
    for (size_t i = 0; i < sight->copy.copied_count; i++)
        show_task(engine, sight, &sight->copy.tasks[i], status);
    memcpy(status->reason, record->reason, sizeof status->reason);
    status->condition = condition_of(sight, status);
}

/* ---- looking ------------------------------------------------------------------------------ */

static void choose_flow(lw_engine *engine, struct lw__sight *sight) {
    const char *name = sight->copy.name;
    sight->flow = lw__flow_named(engine, name, strcspn(name, "/"));
}

static int look(lw_engine *engine, const char *name, uint64_t after, size_t tasks,
                struct lw__sight *sight) {
    struct lw__store *store = lw__layer_store(engine);
    lw__sight_prepare(sight, NULL);
    sight->copy.task_capacity = tasks;
    return name ? store->ops->scope_find(store, name, &sight->copy)
                : store->ops->scope_next(store, after, &sight->copy);
}

/* The resource of this name, or the next one. Its tasks are looked for if it needs any, because
 * that can be dear. LW_ECORRUPT: its record is; sight->copy.id is its number all the same. */
static int take(lw_engine *engine, const char *name, uint64_t after, struct lw__sight *sight) {
    int rc = look(engine, name, after, 0, sight);
    if (rc == LW_OK)
        rc = lw__sight_read(sight);
    if (rc == LW_OK && !sight->record.is_at_goal && !sight->record.is_aborted) {
        char found[LW__SCOPE_NAME_MAX + 1];
        uint64_t number = sight->copy.id;
        memcpy(found, sight->copy.name, sizeof found);
        rc = look(engine, found, 0, sizeof sight->tasks / sizeof *sight->tasks, sight);
        if (rc == LW_OK)
            rc = lw__sight_read(sight);
        if (rc == LW_ENOTFOUND && !name) { /* it has gone meanwhile: as good as damaged */
            sight->copy.id = number;
            rc = LW_ECORRUPT;
        }
    }
    choose_flow(engine, sight);
    return rc;
}

int lw_flow_peek(lw_engine *engine, const char *flow, const char *id, lw_flow_status *status) {
    char name[LW__FLOW_SCOPE_MAX + 1];
    int rc = lw__layer_check(engine, NULL);
    if (rc < 0 || !flow || !id || !status)
        return rc < 0 ? rc : LW_EINVAL;
    if (strnlen(flow, LW_FLOW_NAME_MAX + 1) > LW_FLOW_NAME_MAX || strchr(flow, '/')
        || strnlen(id, LW_FLOW_ID_MAX + 1) > LW_FLOW_ID_MAX)
        return LW_ENOTFOUND;
    struct lw__sight *sight = lw__sight_open(engine);
    if (!sight)
        return LW_ENOMEM;
    snprintf(name, sizeof name, "%s/%s", flow, id);
    rc = take(engine, name, 0, sight);
    if (rc == LW_OK)
        lw__sight_show(engine, sight, status);
    lw__sight_close(engine, sight);
    return rc;
}

/* ---- many --------------------------------------------------------------------------------- */

#define BROWSE_LIMIT_DEFAULT 100

struct browsing {
    lw_flow_filter filter;
    bool (*each)(void *user, const lw_flow_status *status);
    void *user;
    int shown;
    struct lw__sight sight;
    lw_flow_status status;
};

static bool matches(const lw_flow_filter *filter, const lw_flow_status *status) {
    return (!filter->flow || strcmp(filter->flow, status->flow) == 0)
           && (!filter->state || strcmp(filter->state, status->state) == 0)
           && (!filter->condition || filter->condition == status->condition);
}

/* LW_OK: there was one, whether it was shown or not. */
static int browse_next(lw_engine *engine, struct browsing *b, bool *is_enough) {
    int rc = take(engine, NULL, b->filter.after, &b->sight);
    if (rc < 0 && rc != LW_ECORRUPT)
        return rc;
    b->filter.after = b->sight.copy.id;
    if (rc == LW_ECORRUPT || !strchr(b->sight.copy.name, '/'))
        return LW_OK;
    lw__sight_show(engine, &b->sight, &b->status);
    if (!matches(&b->filter, &b->status))
        return LW_OK;
    b->shown++;
    *is_enough = !b->each(b->user, &b->status) || (size_t)b->shown == b->filter.limit;
    return LW_OK;
}

int lw_flow_browse(lw_engine *engine, const lw_flow_filter *filter,
                   bool (*each)(void *user, const lw_flow_status *status), void *user) {
    int rc = lw__layer_check(engine, NULL);
    if (rc < 0 || !each || (filter && filter->struct_size != sizeof *filter))
        return rc < 0 ? rc : LW_EINVAL;
    const lw_allocator *allocator = lw__layer_allocator(engine);
    struct browsing *b = lw__alloc(allocator, sizeof *b);
    bool is_enough = false;
    if (!b)
        return LW_ENOMEM;
    b->filter = filter ? *filter : (lw_flow_filter){.flow = NULL};
    b->each = each;
    b->user = user;
    b->shown = 0;
    if (b->filter.limit == 0 || b->filter.limit > INT32_MAX)
        b->filter.limit = b->filter.limit == 0 ? BROWSE_LIMIT_DEFAULT : INT32_MAX;
    while (rc == LW_OK && !is_enough)
        rc = browse_next(engine, b, &is_enough);
    int shown = b->shown;
    lw__free(allocator, b, sizeof *b);
    return rc < 0 && rc != LW_ENOTFOUND ? rc : shown;
}
