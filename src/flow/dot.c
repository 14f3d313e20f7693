/* The graph of a flow, for Graphviz. Names have nothing in them that would need quoting. */
#include "flow/flow_internal.h"

#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>

struct drawing {
    int (*write)(void *user, const char *text, size_t size);
    void *user;
    int status; /* what write said; negative: no more */
};

LW_PRINTF(2, 3)
static void draw(struct drawing *d, const char *format, ...) {
    char text[256]; /* names are short */
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (d->status >= 0)
        d->status = d->write(d->user, text, (size_t)size);
}

static void draw_step(struct drawing *d, const struct lw__step *step) {
    draw(d, "        \"%s\"%s;\n", step->name, step->run ? "" : " [style=dashed]");
}

/* The goal of a state has a name that no step has. */
static void draw_state(struct drawing *d, const struct lw__flow *flow,
                       const struct lw__flow_state *state, bool is_first) {
    draw(d, "    subgraph \"cluster_%s\" {\n        label=\"%s\";\n%s", state->name, state->name,
         is_first ? "        penwidth=2;\n" : "");
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (state->steps & LW__STEP_BIT(i))
            draw_step(d, &flow->steps[i]);
    }
    const char *rest = state->goal[0] ? state->goal : state->name;
    draw(d, "        \"%s.goal\" [label=\"%s\", shape=ellipse%s];\n    }\n", state->name, rest,
         state->is_end ? ", peripheries=2" : "");
}

static bool is_needed(const struct lw__flow *flow, unsigned place) {
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (flow->steps[i].needs & LW__STEP_BIT(place))
            return true;
    }
    return false;
}

/* All flags make the goal; the lines of those that others need would only confuse. */
static void draw_flag(struct drawing *d, const struct lw__flow *flow, unsigned place) {
    const struct lw__step *step = &flow->steps[place];
    for (unsigned i = 0; i < flow->step_count; i++) {
        if (flow->steps[i].needs & LW__STEP_BIT(place))
            draw(d, "    \"%s\" -> \"%s\" [label=\"%s\"];\n", step->name, flow->steps[i].name,
                 step->flag);
    }
    if (!is_needed(flow, place))
        draw(d, "    \"%s\" -> \"%s.goal\" [label=\"%s\"];\n", step->name,
             flow->states[step->state].name, step->flag);
}

int lw_flow_dot(const lw_flow *declaration, int (*write)(void *user, const char *text, size_t size),
                void *user, lw_error *err) {
    struct lw__flow flow;
    struct drawing d = {.write = write, .user = user};
    if (!write)
        return lw__error_set(err, LW_EINVAL, 0,
                             "there is nobody to write the graph: write is NULL");
    if (lw__flow_declare(declaration, &flow, err) < 0)
        return LW_EINVAL;
    draw(&d, "digraph \"%s\" {\n    rankdir=LR;\n    node [shape=box];\n", flow.name);
    for (unsigned i = 0; i < flow.state_count; i++)
        draw_state(&d, &flow, &flow.states[i], i == 0);
    for (unsigned i = 0; i < flow.step_count; i++)
        draw_flag(&d, &flow, i);
    draw(&d, "}\n");
    return d.status < 0 ? d.status : LW_OK;
}
