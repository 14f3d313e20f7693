/* The inside of flows.
 *
 *     declare.c   a declaration, checked and copied   run.c     attempts of steps
 *     dot.c       its graph                           steer.c   start, move, set, resume, force
 *     register.c  flows of an engine                  status.c  the status as a program sees it
 *     record.c    the status as bytes, and back       wait.c    waiting for it
 *     peek.c      the status without a declaration    review.c  what other declarations have left
 *     steps.c     what is ready, and what follows from a flag
 *
 * A resource is a scope of the store (store/store.h), named "<flow>/<id>"; its bytes are the
 * record. Steps are tasks of that scope, of the kind "<flow>.<step>", without key and payload: what
 * they need is in the record. So all that is known of a resource is in the store, changes in one
 * transaction with its tasks, and is gone with it; there is nothing in memory to keep up to date.
 *
 * That a step is under way is not in the record, either: it is, if the scope has a task of its kind
 * that has not ended. A step that could be under way and is not has failed, or was cancelled, or
 * was new in the declaration: the flow is halted then, whatever the reason.
 *
 * Every change is computed from a copy of the scope, and refused by the store if the scope has
 * changed meanwhile (its version); then it is computed again. No locks are needed here.
 */
#ifndef LW_FLOW_FLOW_INTERNAL_H
#define LW_FLOW_FLOW_INTERNAL_H

#include "engine/layer.h"

#include <legwork/flow.h>
#include <string.h>

#define LW__FLOW_KIND_MAX (2 * LW_FLOW_NAME_MAX + 1)
#define LW__FLOW_SCOPE_MAX (LW_FLOW_NAME_MAX + 1 + LW_FLOW_ID_MAX)

_Static_assert(LW__FLOW_KIND_MAX <= LW_NAME_MAX, "kinds of steps have names");
_Static_assert(LW__FLOW_SCOPE_MAX <= LW__SCOPE_NAME_MAX, "resources have names");

/* ---- declare.c ---------------------------------------------------------------------------- */

struct lw__flow;

/* A set of steps, by their places in lw__flow.steps. */
typedef uint32_t lw__step_set;
_Static_assert(LW_FLOW_STEPS_MAX <= 32, "a set of steps is a word");

struct lw__step {
    struct lw__flow *flow;
    char name[LW_FLOW_NAME_MAX + 1];
    char flag[LW_FLOW_NAME_MAX + 1];
    char kind[LW__FLOW_KIND_MAX + 1];
    char queue[LW_NAME_MAX + 1]; /* "": the default one */
    lw_handler run;              /* NULL: lw_flow_set */
    unsigned state;              /* its place in lw__flow.states */
    lw__step_set needs;          /* whose flags it needs */
    int64_t priority;
    uint16_t kind_number; /* once it is registered */
};

struct lw__flow_state {
    char name[LW_FLOW_NAME_MAX + 1];
    char goal[LW_FLOW_NAME_MAX + 1]; /* "": none */
    bool is_end;
    lw__step_set steps; /* that serve it */
};

struct lw__flow {
    char name[LW_FLOW_NAME_MAX + 1];
    char start_kind[LW__FLOW_KIND_MAX + 1]; /* "<flow>:start" */
    lw_engine *engine;                      /* once it is registered */
    unsigned state_count, step_count;
    struct lw__flow_state states[LW_FLOW_STATES_MAX];
    struct lw__step steps[LW_FLOW_STEPS_MAX];
    void (*on_event)(void *user, const lw_flow_event *event);
    void *user;
};

/* Checks a declaration and copies it. LW_OK, LW_EINVAL with a sentence. */
int lw__flow_declare(const lw_flow *declaration, struct lw__flow *flow, lw_error *err);

/* The sentence about a name that is not known, with the nearest one that is. Returns rc. */
int lw__flow_unknown(int rc, const char *what, const char *name, const char *const *known,
                     size_t count, lw_error *err);

#define LW__STEP_BIT(place) ((lw__step_set)1 << (place))

/* ---- record.c ----------------------------------------------------------------------------- */

/* What is known of a flag, by its name: declarations may change between two runs of a program. */
struct lw__record_flag {
    char name[LW_FLOW_NAME_MAX + 1];
    int64_t done_ms; /* 0: it is not set */
    uint32_t attempts;
    bool is_skipped;
    bool is_resumed; /* it is not set, its step has failed, and was given another task since */
    char error[LW_FLOW_TEXT_MAX + 1];
};

/* The bytes of a resource's scope, taken apart. */
struct lw__record {
    char state[LW_FLOW_NAME_MAX + 1]; /* also when its goal is reached */
    bool is_at_goal, is_aborted;
    char reason[LW_FLOW_TEXT_MAX + 1];
    unsigned history_count, history_dropped;
    lw_flow_move_info history[LW_FLOW_HISTORY_MAX]; /* generation 0: the present one */
    unsigned flag_count;
    struct lw__record_flag flags[LW_FLOW_STEPS_MAX];
    lw_bytes payload; /* where the bytes are that it was read from, or the caller's */
};

/* LW_OK, LW_ECORRUPT. */
int lw__record_read(struct lw__record *record, lw_bytes bytes);

/* Into a buffer of LW__SCOPE_BYTES_MAX, which is enough for all. Returns how many bytes. */
size_t lw__record_write(const struct lw__record *record, char *buffer);

/* Begins a state: without flags. `generation` is that of the state before. */
void lw__record_begin(struct lw__record *record, const char *state, int64_t now_ms,
                      uint64_t generation);

/* One more line of the history, in the present generation. */
void lw__record_note(struct lw__record *record, const char *state, int64_t now_ms);

/* The flag of this name; the second one makes it. NULL: there is none, or no room. */
const struct lw__record_flag *lw__record_find(const struct lw__record *record, const char *flag);
struct lw__record_flag *lw__record_flag(struct lw__record *record, const char *flag);

/* Notes what is known of the task of a step: its attempts and, if it has one, its last error.
 * Returns the step's flag; NULL: no room. */
struct lw__record_flag *lw__record_note_task(struct lw__record *record, const char *flag,
                                             uint32_t attempts, const char *error);

/* Copies a text, cut if need be, into a line. */
void lw__record_copy_text(char copy[LW_FLOW_TEXT_MAX + 1], const char *text);

/* ---- steps.c: no state of its own, no effects ---------------------------------------------- */

/* NULL: this program does not know it. */
const struct lw__flow_state *lw__flow_state_of(const struct lw__flow *flow, const char *name);

/* The step that sets this flag in this state; NULL: none. */
const struct lw__step *lw__flow_setter(const struct lw__flow *flow,
                                       const struct lw__flow_state *state, const char *flag);

/* Of the record's state: whose flags are set; what could be under way, as all that it needs is set
 * and it is not done; and what of that has to be under way and is not, as far as `copy` has
 * tasks. */
lw__step_set lw__steps_done(const struct lw__flow *flow, const struct lw__record *record);
lw__step_set lw__steps_ready(const struct lw__flow *flow, const struct lw__record *record);
lw__step_set lw__steps_missing(const struct lw__flow *flow, const struct lw__record *record,
                               const struct lw__scope_copy *copy);

/* The task of a step that has not ended; NULL: none. */
const struct lw__scope_task *lw__step_task_in(const struct lw__step *step,
                                              const struct lw__scope_copy *copy);

/* A flag is set, and what follows from that: steps that are ready now, and perhaps the goal. */
struct lw__advance {
    lw__step_set started; /* those with a handler */
    bool is_goal;
    enum lw__scope_action action; /* of the scope */
};

struct lw__advance lw__steps_advance(const struct lw__step *step, struct lw__record *record,
                                     int64_t now_ms);

/* The goal of a state is reached. Returns what becomes of the scope by that. */
enum lw__scope_action lw__steps_reach_goal(const struct lw__flow_state *state,
                                           struct lw__record *record, int64_t now_ms);

static inline struct lw__layer_task lw__step_task(const struct lw__step *step) {
    return (struct lw__layer_task){.kind = step->kind,
                                   .queue = step->queue[0] ? step->queue : NULL,
                                   .priority = step->priority};
}

/* The id in the name of a scope. */
static inline const char *lw__flow_id_of(const struct lw__flow *flow, const char *name) {
    size_t size = strlen(flow->name);
    return strncmp(name, flow->name, size) == 0 && name[size] == '/' ? name + size + 1 : NULL;
}

/* ---- register.c --------------------------------------------------------------------------- */

/* LW_OK; LW_EINVAL, LW_EFORKED, LW_ENOTFOUND with a sentence. */
int lw__flow_find(const lw_engine *engine, const char *name, const struct lw__flow **flow,
                  lw_error *err);

/* The flow of a name that is not ended by a zero; NULL: it is not registered. */
const struct lw__flow *lw__flow_named(const lw_engine *engine, const char *name, size_t size);

/* ---- review.c ----------------------------------------------------------------------------- */

/* Settles what the declarations of before have left and those of now cannot go on with. LW_OK;
 * LW_ENOMEM with a sentence: repeat it. Before any worker runs. */
int lw__flow_review(lw_engine *engine, lw_error *err);

/* ---- run.c -------------------------------------------------------------------------------- */

extern const struct lw__layer lw__flow_layer;

/* The handler of every step, around the program's own. */
lw_outcome lw__step_run(lw_ctx *ctx, const lw_task *task);

/* What a step's handler is given, for as long as it runs. */
struct lw__step_frame {
    lw_task task;
    struct lw__scope_copy copy;
    char bytes[LW__SCOPE_BYTES_MAX + 1];
};

/* 0: run it, with what is in the frame; otherwise it has ended without. */
lw_outcome lw__step_open(lw_ctx *ctx, const lw_task *task, struct lw__step_frame *frame);

/* The handler of "<flow>:start". */
lw_outcome lw__flow_run_start(lw_ctx *ctx, const lw_task *task);

/* Calls on_event. `step` may be NULL; texts too. */
void lw__flow_tell(const struct lw__flow *flow, lw_flow_event_type type, const char *id,
                   const char *state, const struct lw__step *step, const char *text,
                   uint64_t generation);

/* ---- status.c ----------------------------------------------------------------------------- */

/* A resource as it is at one moment. */
struct lw__sight {
    const struct lw__flow *flow; /* NULL: it is not registered here */
    struct lw__scope_copy copy;
    struct lw__record record;
    struct lw__scope_task tasks[2 * LW_FLOW_STEPS_MAX];
    char bytes[LW__SCOPE_BYTES_MAX];
};

/* The second one takes the next with a number above `after`. NULL as `id` or LW_EINVAL: no id.
 * LW_OK; LW_ENOTFOUND; LW_EINVAL; LW_ECORRUPT. */
int lw__sight_take(lw_engine *engine, const struct lw__flow *flow, const char *id,
                   struct lw__sight *sight);
int lw__sight_take_next(lw_engine *engine, const struct lw__flow *flow, uint64_t after,
                        struct lw__sight *sight);

/* Before a look of one's own, and after it: LW_OK, LW_ECORRUPT. */
void lw__sight_prepare(struct lw__sight *sight, const struct lw__flow *flow);
int lw__sight_read(struct lw__sight *sight);

lw_flow_condition lw__sight_condition(const struct lw__sight *sight); /* of a registered flow */
void lw__sight_show(lw_engine *engine, const struct lw__sight *sight, lw_flow_status *status);

/* The status of a resource that has ended: there is no more to say than which one it was. */
void lw__flow_show_gone(const char *flow, const char *id, lw_flow_status *status);

/* Of the first start of what has this name now. */
uint64_t lw__sight_birth(const struct lw__sight *sight);

/* peek.c: the steps, the condition and the reason, as far as they are known without a flow. */
void lw__sight_show_partial(lw_engine *engine, const struct lw__sight *sight,
                            lw_flow_status *status);

struct lw__sight *lw__sight_open(lw_engine *engine); /* NULL: no memory */
void lw__sight_close(lw_engine *engine, struct lw__sight *sight);

#endif
