/* A declaration: checked, and copied. All that cannot work is found here, before anything runs. */
#include "flow/flow_internal.h"

#include "base/error.h"
#include "base/names.h"
#include "base/text.h"

#include <stdio.h>
#include <string.h>

/* ---- names -------------------------------------------------------------------------------- */

/* Letters, digits, _ and -: what parts names (. : /) is not in them. */
static bool is_name(const char *name) {
    size_t size = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");
    return size >= 1 && size <= LW_FLOW_NAME_MAX && name[size] == 0;
}

static int check_name(const char *what, const char *name, lw_error *err) {
    if (!name)
        return lw__error_set(err, LW_EINVAL, 0, "the name of a %s is missing", what);
    if (!is_name(name))
        return lw__error_set(err, LW_EINVAL, 0,
                             "%s \"%s\" must have 1 to %d letters, digits, _ and -", what,
                             lw__text_quote(name).text, LW_FLOW_NAME_MAX);
    return LW_OK;
}

static int copy_name(const char *what, const char *name, char copy[LW_FLOW_NAME_MAX + 1],
                     lw_error *err) {
    if (check_name(what, name, err) < 0)
        return LW_EINVAL;
    memcpy(copy, name, strlen(name) + 1);
    return LW_OK;
}

/* "flow.step", "flow:start" */
static void name_kind(char kind[LW__FLOW_KIND_MAX + 1], const char *flow, char separator,
                      const char *name) {
    size_t size = strlen(flow);
    memcpy(kind, flow, size);
    kind[size] = separator;
    memcpy(kind + size + 1, name, strlen(name) + 1);
}

int lw__flow_unknown(int rc, const char *what, const char *name, const char *const *known,
                     size_t count, lw_error *err) {
    const char *nearest = lw__name_nearest(name, known, count);
    return lw__error_set(err, rc, 0,
                         nearest ? "%s \"%s\" is not known; did you mean \"%s\"?"
                                 : "%s \"%s\" is not known",
                         what, lw__text_quote(name).text, nearest);
}

/* ---- states ------------------------------------------------------------------------------- */

static const struct lw__flow_state *find_state(const struct lw__flow *flow, const char *name) {
    for (unsigned i = 0; i < flow->state_count; i++) {
        if (strcmp(flow->states[i].name, name) == 0)
            return &flow->states[i];
    }
    return NULL;
}

static int add_state(struct lw__flow *flow, const lw_flow_state *declared, lw_error *err) {
    struct lw__flow_state *state = &flow->states[flow->state_count];
    if (copy_name("state", declared->name, state->name, err) < 0)
        return LW_EINVAL;
    if (declared->goal && copy_name("goal", declared->goal, state->goal, err) < 0)
        return LW_EINVAL;
    if (find_state(flow, state->name))
        return lw__error_set(err, LW_EINVAL, 0, "state \"%s\" is there twice", state->name);
    state->is_end = declared->end;
    flow->state_count++;
    return LW_OK;
}

static int check_goals(const struct lw__flow *flow, lw_error *err) {
    for (unsigned i = 0; i < flow->state_count; i++) {
        const struct lw__flow_state *state = &flow->states[i];
        if (state->goal[0] && find_state(flow, state->goal))
            return lw__error_set(err, LW_EINVAL, 0,
                                 "goal \"%s\" of state \"%s\" is a state itself: a goal is where "
                                 "a resource rests",
                                 state->goal, state->name);
    }
    return LW_OK;
}

static int add_states(struct lw__flow *flow, const lw_flow *declared, lw_error *err) {
    for (int i = 0; i < LW_FLOW_STATES_MAX && declared->states[i].name; i++) {
        if (add_state(flow, &declared->states[i], err) < 0)
            return LW_EINVAL;
    }
    if (flow->state_count == 0)
        return lw__error_set(err, LW_EINVAL, 0, "there are no states: a flow starts in the first");
    return check_goals(flow, err);
}

/* ---- steps -------------------------------------------------------------------------------- */

static int place_step(struct lw__flow *flow, const lw_step *declared, struct lw__step *step,
                      lw_error *err) {
    const char *known[LW_FLOW_STATES_MAX];
    for (unsigned i = 0; i < flow->state_count; i++)
        known[i] = flow->states[i].name;
    if (!declared->state)
        return lw__error_set(err, LW_EINVAL, 0, "step \"%s\" serves no state: .state is missing",
                             step->name);
    const struct lw__flow_state *state = find_state(flow, declared->state);
    if (!state) {
        char what[64];
        snprintf(what, sizeof what, "step \"%s\": state", step->name);
        return lw__flow_unknown(LW_EINVAL, what, declared->state, known, flow->state_count, err);
    }
    step->state = (unsigned)(state - flow->states);
    return LW_OK;
}

static int check_unique(const struct lw__flow *flow, const struct lw__step *step, lw_error *err) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        const struct lw__step *other = &flow->steps[i];
        if (strcmp(other->name, step->name) == 0)
            return lw__error_set(err, LW_EINVAL, 0, "step \"%s\" is there twice", step->name);
        if (other->state == step->state && strcmp(other->flag, step->flag) == 0)
            return lw__error_set(err, LW_EINVAL, 0,
                                 "steps \"%s\" and \"%s\" both set the flag \"%s\": which is done?",
                                 other->name, step->name, step->flag);
    }
    return LW_OK;
}

static int copy_queue(const lw_flow *flow, const lw_step *declared, struct lw__step *step,
                      lw_error *err) {
    const char *queue = declared->queue ? declared->queue : flow->queue;
    if (!queue)
        return LW_OK;
    if (lw__name_check("queue", queue, err) < 0)
        return LW_EINVAL;
    memcpy(step->queue, queue, strlen(queue) + 1);
    return LW_OK;
}

static int add_step(struct lw__flow *flow, const lw_flow *declaration, const lw_step *declared,
                    lw_error *err) {
    struct lw__step *step = &flow->steps[flow->step_count];
    if (copy_name("step", declared->name, step->name, err) < 0
        || copy_name("flag", declared->sets ? declared->sets : declared->name, step->flag, err) < 0
        || place_step(flow, declared, step, err) < 0 || check_unique(flow, step, err) < 0
        || copy_queue(declaration, declared, step, err) < 0)
        return LW_EINVAL;
    name_kind(step->kind, flow->name, '.', step->name);
    step->flow = flow;
    step->run = declared->run;
    step->priority = declared->priority;
    flow->states[step->state].steps |= LW__STEP_BIT(flow->step_count);
    flow->step_count++;
    return LW_OK;
}

static int add_steps(struct lw__flow *flow, const lw_flow *declared, lw_error *err) {
    if (declared->step_count > LW_FLOW_STEPS_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "there are %zu steps, must be at most %d",
                             declared->step_count, LW_FLOW_STEPS_MAX);
    if (declared->step_count > 0 && !declared->steps)
        return lw__error_set(err, LW_EINVAL, 0, "there are %zu steps, but .steps is NULL",
                             declared->step_count);
    for (size_t i = 0; i < declared->step_count; i++) {
        if (add_step(flow, declared, &declared->steps[i], err) < 0)
            return LW_EINVAL;
    }
    return LW_OK;
}

/* ---- needs -------------------------------------------------------------------------------- */

static const struct lw__step *find_setter(const struct lw__flow *flow, unsigned state,
                                          const char *flag) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (flow->steps[i].state == state && strcmp(flow->steps[i].flag, flag) == 0)
            return &flow->steps[i];
    }
    return NULL;
}

static int refuse_need(const struct lw__flow *flow, const struct lw__step *step, const char *flag,
                       lw_error *err) {
    const char *known[LW_FLOW_STEPS_MAX], *nearest;
    size_t count = 0;
    for (unsigned i = 0; i < flow->step_count; i++) {
        const struct lw__step *other = &flow->steps[i];
        if (other->state == step->state)
            known[count++] = other->flag;
        else if (strcmp(other->flag, flag) == 0)
            return lw__error_set(err, LW_EINVAL, 0,
                                 "step \"%s\" of state \"%s\" is never reached: its flag \"%s\" is "
                                 "set in state \"%s\" only",
                                 step->name, flow->states[step->state].name, flag,
                                 flow->states[other->state].name);
    }
    nearest = lw__name_nearest(flag, known, count);
    return lw__error_set(err, LW_EINVAL, 0,
                         nearest ? "step \"%s\" is never reached: nobody sets the flag \"%.31s\"; "
                                   "did you mean \"%s\"?"
                                 : "step \"%s\" is never reached: nobody sets the flag \"%.31s\"",
                         step->name, flag, nearest);
}

static int add_needs(struct lw__flow *flow, const lw_flow *declared, lw_error *err) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        struct lw__step *step = &flow->steps[i];
        for (int k = 0; k < LW_FLOW_NEEDS_MAX; k++) {
            const char *flag = declared->steps[i].needs[k];
            const struct lw__step *setter = flag ? find_setter(flow, step->state, flag) : NULL;
            if (flag && !setter)
                return refuse_need(flow, step, flag, err);
            if (setter)
                step->needs |= LW__STEP_BIT(setter - flow->steps);
        }
    }
    return LW_OK;
}

/* ---- can it get there? -------------------------------------------------------------------- */

/* All that can be done: what needs only what can be done before. */
static lw__step_set find_reachable(const struct lw__flow *flow) {
    lw__step_set reached = 0, before;
    do {
        before = reached;
        for (unsigned i = 0; i < flow->step_count; i++) {
            if ((flow->steps[i].needs & ~reached) == 0)
                reached |= LW__STEP_BIT(i);
        }
    } while (reached != before);
    return reached;
}

static unsigned first_of(lw__step_set set) {
    return (unsigned)__builtin_ctz(set);
}

/* From a step that is never reached, along what it waits for, until one comes again. */
static void describe_circle(const struct lw__flow *flow, lw__step_set stuck, char *text,
                            size_t size) {
    unsigned at = first_of(stuck);
    for (lw__step_set seen = 0; !(seen & LW__STEP_BIT(at));
         at = first_of(flow->steps[at].needs & stuck))
        seen |= LW__STEP_BIT(at);
    unsigned first = at;
    size_t used = 0;
    do {
        used += (size_t)snprintf(text + used, size - used, "%s waits for ", flow->steps[at].name);
        at = first_of(flow->steps[at].needs & stuck);
    } while (at != first && used + LW_FLOW_NAME_MAX < size);
    if (used < size)
        snprintf(text + used, size - used, "%s", flow->steps[at].name);
}

static int check_circles(const struct lw__flow *flow, lw_error *err) {
    lw__step_set all = 0;
    for (unsigned i = 0; i < flow->step_count; i++)
        all |= LW__STEP_BIT(i);
    lw__step_set stuck = all & ~find_reachable(flow);
    if (stuck == 0)
        return LW_OK;
    char circle[128];
    describe_circle(flow, stuck, circle, sizeof circle);
    const struct lw__flow_state *state = &flow->states[flow->steps[first_of(stuck)].state];
    return lw__error_set(err, LW_EINVAL, 0,
                         "state \"%s\" goes round in a circle and never reaches its goal: %s",
                         state->name, circle);
}

static int check_states(const struct lw__flow *flow, lw_error *err) {
    for (unsigned i = 0; i < flow->state_count; i++) {
        const struct lw__flow_state *state = &flow->states[i];
        if (state->steps && !state->goal[0])
            return lw__error_set(err, LW_EINVAL, 0,
                                 "state \"%s\" has steps and no goal: .goal is missing",
                                 state->name);
        if (!state->steps && state->goal[0])
            return lw__error_set(err, LW_EINVAL, 0,
                                 "goal \"%s\" is never reached: state \"%s\" has no steps",
                                 state->goal, state->name);
    }
    if (flow->states[0].is_end && !flow->states[0].steps)
        return lw__error_set(err, LW_EINVAL, 0,
                             "the first state \"%s\" is an end without steps: nothing would start",
                             flow->states[0].name);
    return check_circles(flow, err);
}

/* ---- all ---------------------------------------------------------------------------------- */

static int declare(const lw_flow *declared, struct lw__flow *flow, lw_error *err) {
    if (add_states(flow, declared, err) < 0 || add_steps(flow, declared, err) < 0
        || add_needs(flow, declared, err) < 0)
        return LW_EINVAL;
    return check_states(flow, err);
}

int lw__flow_declare(const lw_flow *declared, struct lw__flow *flow, lw_error *err) {
    lw_error detail = {0};
    memset(flow, 0, sizeof *flow);
    if (!declared)
        return lw__error_set(err, LW_EINVAL, 0, "the flow is NULL");
    if (declared->struct_size != sizeof *declared)
        return lw__error_set(err, LW_EINVAL, 0,
                             "struct_size is %zu, must be %zu: fill it by LW_FLOW, and build with "
                             "the header of this library",
                             declared->struct_size, sizeof *declared);
    if (copy_name("flow", declared->name, flow->name, err) < 0)
        return LW_EINVAL;
    name_kind(flow->start_kind, flow->name, ':', "start");
    flow->on_event = declared->on_event;
    flow->user = declared->user;
    if (declare(declared, flow, &detail) < 0)
        return lw__error_set(err, LW_EINVAL, 0, "flow \"%s\": %s", flow->name, detail.message);
    return LW_OK;
}
