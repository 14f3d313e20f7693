/* Which steps are done, ready or missing, and what follows when a flag is set. */
#include "flow/flow_internal.h"

const struct lw__flow_state *lw__flow_state_of(const struct lw__flow *flow, const char *name) {
    for (unsigned i = 0; i < flow->state_count; i++) {
        if (strcmp(flow->states[i].name, name) == 0)
            return &flow->states[i];
    }
    return NULL;
}

const struct lw__step *lw__flow_setter(const struct lw__flow *flow,
                                       const struct lw__flow_state *state, const char *flag) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (state->steps & LW__STEP_BIT(i) && strcmp(flow->steps[i].flag, flag) == 0)
            return &flow->steps[i];
    }
    return NULL;
}

lw__step_set lw__steps_done(const struct lw__flow *flow, const struct lw__record *record) {
    const struct lw__flow_state *state = lw__flow_state_of(flow, record->state);
    lw__step_set done = 0;
    for (unsigned i = 0; state && i < record->flag_count; i++) {
        const struct lw__step *step = lw__flow_setter(flow, state, record->flags[i].name);
        if (step && record->flags[i].done_ms > 0)
            done |= LW__STEP_BIT(step - flow->steps);
    }
    return done;
}

static lw__step_set ready_after(const struct lw__flow *flow, const struct lw__flow_state *state,
                                lw__step_set done) {
    lw__step_set ready = 0;
    for (unsigned i = 0; i < flow->step_count; i++) {
        if ((flow->steps[i].needs & ~done) == 0)
            ready |= LW__STEP_BIT(i);
    }
    return ready & state->steps & ~done;
}

lw__step_set lw__steps_ready(const struct lw__flow *flow, const struct lw__record *record) {
    const struct lw__flow_state *state = lw__flow_state_of(flow, record->state);
    bool is_over = !state || record->is_aborted || record->is_at_goal;
    return is_over ? 0 : ready_after(flow, state, lw__steps_done(flow, record));
}

const struct lw__scope_task *lw__step_task_in(const struct lw__step *step,
                                              const struct lw__scope_copy *copy) {
    for (size_t i = 0; i < copy->copied_count; i++) {
        if (copy->tasks[i].kind == step->kind_number)
            return &copy->tasks[i];
    }
    return NULL;
}

lw__step_set lw__steps_missing(const struct lw__flow *flow, const struct lw__record *record,
                               const struct lw__scope_copy *copy) {
    lw__step_set ready = lw__steps_ready(flow, record), missing = 0;
    for (unsigned i = 0; i < flow->step_count; i++) {
        const struct lw__step *step = &flow->steps[i];
        if (ready & LW__STEP_BIT(i) && step->run && !lw__step_task_in(step, copy))
            missing |= LW__STEP_BIT(i);
    }
    return missing;
}

static lw__step_set with_handler(const struct lw__flow *flow, lw__step_set set) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (!flow->steps[i].run)
            set &= ~LW__STEP_BIT(i);
    }
    return set;
}

enum lw__scope_action lw__steps_reach_goal(const struct lw__flow_state *state,
                                           struct lw__record *record, int64_t now_ms) {
    record->is_at_goal = true;
    lw__record_note(record, state->goal, now_ms);
    return state->is_end ? LW__SCOPE_CLOSE : LW__SCOPE_WRITE;
}

struct lw__advance lw__steps_advance(const struct lw__step *step, struct lw__record *record,
                                     int64_t now_ms) {
    const struct lw__flow *flow = step->flow;
    const struct lw__flow_state *state = &flow->states[step->state];
    struct lw__advance advance = {.action = LW__SCOPE_WRITE};
    lw__step_set ready_before = lw__steps_ready(flow, record);
    struct lw__record_flag *flag = lw__record_flag(record, step->flag);
    flag->done_ms = now_ms > 0 ? now_ms : 1; /* 0 means never */
    lw__step_set done = lw__steps_done(flow, record);
    advance.started = with_handler(flow, lw__steps_ready(flow, record) & ~ready_before);
    advance.is_goal = (state->steps & ~done) == 0;
    if (advance.is_goal)
        advance.action = lw__steps_reach_goal(state, record, now_ms);
    return advance;
}
