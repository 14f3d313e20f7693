/* Flows: a resource moves from its first state to its goal by tasks that drive each other, or is
 * safely moved elsewhere in the middle of it, whatever crashes.
 *
 *     static const lw_step steps[] = {
 *         {.name = "save-metadata", .run = save_metadata, .state = "creating", .sets = "metadata"},
 *         {.name = "create-files",  .run = create_files,  .state = "creating",
 *          .needs = {"metadata"}, .sets = "files"},
 *         {.name = "create-db",     .run = create_db,     .state = "creating",
 *          .needs = {"metadata"}, .sets = "db"},
 *         {.name = "delete-site",   .run = delete_site,   .state = "deleting", .sets = "gone"},
 *     };
 *     lw_flow_register(engine, LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
 *                                      .states = {{.name = "creating", .goal = "running"},
 *                                                 {.name = "deleting", .goal = "deleted",
 *                                                  .end = true}}),
 *                      &err);
 *     lw_start(engine, &err);
 *     lw_flow_start(engine, "site", "example.org", LW_TEXT("..."), &err);
 *     ...
 *     lw_flow_move(engine, "site", "example.org", "deleting", &err);
 *
 * A flow is declared as data: states, and steps that each serve one state, need flags and set one.
 * One resource of it has an id and a status: its state, the flags that are set, its generation. A
 * step starts when the flags that it needs are set; those that do not need each other run in
 * parallel. A step's success, the flag that it sets, and the tasks of the steps that become ready
 * by that are one transaction; so is the last flag of a state and the goal of that state, which is
 * reached exactly once. There is no rollback: a step retries for ever, or as its policy says, or
 * the flow is moved to another state.
 *
 * A move is a fence. It begins a new generation, without flags. Tasks of older generations that
 * wait are aborted; those that run are asked to give up through their context at once
 * (LW_REASON_CANCELLED); and the first steps of the new state are held until each of these has
 * returned or was lost, so that no two generations work at the same time. What comes late of an
 * older generation (an outcome, a flag, successors, progress) is refused and has no effect.
 * Generations are of the whole store, rise and never repeat: a handler can give its own to systems
 * outside as a fencing token (lw_flow_generation).
 *
 * A step is a handler like any other (legwork/task.h). It finds the id of its resource in
 * task->key and what the flow was started with in task->payload. It may run more than once, and
 * must not mind. It returns
 *     lw_done         its flag is set
 *     lw_flow_skip    the same: it found that all was done before
 *     lw_retry, lw_retry_after, lw_snooze   as everywhere
 *     lw_fail         given up, as after the last attempt: the flow is halted, and other steps that
 *                     need not wait for this one go on; lw_flow_resume, lw_flow_set or
 *                     lw_flow_move take it from there
 *     lw_abort        the whole flow is aborted, with this reason: no step goes on, what runs is
 *                     asked to give up; lw_flow_move takes it from there
 * The task of a step has the kind "<flow>.<step>", for lists, figures and lw_test_fail_next.
 *
 * To start a flow within a transaction of one's own, submit a task of the kind "<flow>:start" with
 * the id as its key and the payload, through the outbox or any other way: when it runs, the flow is
 * started, unless it is there already.
 *
 * A program may come back with another declaration while resources are on their way. A flag that is
 * set stays set, by its name: who renames a step keeps what is done by keeping `sets`. lw_start
 * looks at every resource of the flows that are registered, before any step runs:
 * - The task of a step that is not declared any more (it was renamed or taken out), serves another
 *   state, or has no handler any more, is aborted, with a reason that lw_explain shows; and in the
 *   same transaction every step that is ready starts, so the renamed one under its new name, with a
 *   fresh budget. One that has failed before stays halted. The log has a line for each such step:
 *   how many tasks, and the nearest name that is declared.
 * - If all flags of its state are set by now, the resource is at its goal.
 * - One in a state that is not declared is halted, and its tasks stay for whoever declares it
 *   again; lw_flow_move takes it from there.
 * Otherwise a new step that has become ready is halted until lw_flow_resume. A flow that is not
 * registered is not touched: another program may own it.
 *
 * Threads: every call may be made from any thread, from handlers too, except lw_flow_register
 * (before lw_start). Fork: as the engine (LW_EFORKED).
 */
#ifndef LEGWORK_FLOW_H
#define LEGWORK_FLOW_H

#include <legwork/engine.h>

LW_BEGIN_DECLS

/* ---- limits ------------------------------------------------------------------------------- */

#define LW_FLOW_NAME_MAX 31      /* bytes of the name of a flow, state, step or flag */
#define LW_FLOW_ID_MAX 200       /* bytes of an id, letters as in a key */
#define LW_FLOW_PAYLOAD_MAX 8192 /* bytes that a flow is started with */
#define LW_FLOW_STATES_MAX 8     /* states of a flow */
#define LW_FLOW_STEPS_MAX 32     /* steps of a flow */
#define LW_FLOW_NEEDS_MAX 8      /* flags that a step needs */
#define LW_FLOW_HISTORY_MAX 16   /* moves that are kept: the first, and the last 15 */
#define LW_FLOW_TEXT_MAX 119     /* bytes of an error or reason that are kept */
#define LW_FLOWS_MAX 64          /* flows of an engine */

/* ---- declaration -------------------------------------------------------------------------- */

/* What drives a resource on, in one state. */
typedef struct lw_step {
    const char *name;
    lw_handler run;    /* NULL: somebody else does it, a person perhaps, and calls lw_flow_set */
    const char *state; /* which it serves */
    const char *needs[LW_FLOW_NEEDS_MAX]; /* flags of the same state. Default: none */
    const char *sets;                     /* the flag that says that it is done. Default: name */

    lw_retry_policy retry;        /* Default: for ever; from 3 s, factor 2, at most 5 minutes;
                                     100 crashes */
    int64_t timeout_ms, stuck_ms; /* of an attempt, as in lw_handler_options */
    int concurrency;              /* attempts of this step at once, of all resources. Default: as
                                     many as workers */
    int64_t priority;             /* of its tasks, as in lw_task */
    const char *queue;            /* Default: the flow's */
    void *user;                   /* lw_ctx_user. Default: the flow's */
} lw_step;

/* An array of steps, and how many they are: .steps = LW_STEPS(steps) */
#define LW_STEPS(array) (array), .step_count = sizeof(array) / sizeof *(array)

/* A state with steps has a goal: the name of where the resource is when all flags of the state are
 * set. One without steps has none: it is where a resource rests. */
typedef struct lw_flow_state {
    const char *name;
    const char *goal;
    bool end; /* the resource is gone when the goal is reached (without steps: at once), and its id
                 is free for a new start */
} lw_flow_state;

typedef enum lw_flow_event_type {
    LW_FLOW_EVENT_STARTED = 1,
    LW_FLOW_EVENT_FLAG = 2,    /* `flag` was set, by `step` or from outside */
    LW_FLOW_EVENT_GOAL = 3,    /* `state` is the goal that was reached */
    LW_FLOW_EVENT_MOVED = 4,   /* to `state` */
    LW_FLOW_EVENT_HALTED = 5,  /* `step` has failed: `text` */
    LW_FLOW_EVENT_ABORTED = 6, /* `step` has aborted the flow: `text` */
    LW_FLOW_EVENT_RESUMED = 7
} lw_flow_event_type;

/* What has happened to a resource; lives as long as the call. Texts are never NULL. */
typedef struct lw_flow_event {
    lw_flow_event_type type;
    const char *flow, *id, *state, *step, *flag, *text;
    uint64_t generation;
} lw_flow_event;

/* A declaration. Copied by lw_flow_register, with all that it points to. */
typedef struct lw_flow {
    size_t struct_size;
    const char *name;
    const lw_step *steps; /* LW_STEPS */
    size_t step_count;
    lw_flow_state states[LW_FLOW_STATES_MAX]; /* the first is the one that it starts in */
    const char *queue;                        /* Default: "default" */
    lw_retention retention;                   /* of the tasks of its steps */

    /* Told after it has happened, once, by the thread that made it happen and with no lock held; a
     * durable store may not have written it yet. What happens while a process dies is not told
     * again: the status knows it. It must return soon: that thread is a worker, which runs nothing
     * meanwhile, or the caller of lw_flow_start and its kin; what takes long is better submitted as
     * a task. (The engine's own on_failed and on_aborted are told of the tasks of steps, too.) */
    void (*on_event)(void *user, const lw_flow_event *event);
    void *user;
} lw_flow;

#define LW_FLOW(...) LW_OPTIONS_OF(lw_flow, .struct_size = sizeof(lw_flow), __VA_ARGS__)

/* Registers a flow. What cannot work is refused with a sentence: names that are wrong, missing or
 * there twice; a flag that is needed and nobody sets, or set in another state only; steps that wait
 * for each other in a circle; a goal that cannot be reached.
 * Returns LW_OK; LW_EINVAL; LW_ENOMEM. lw_start gives what the first wrong one has said, too.
 * Threads: before lw_start. Since: 0.3 */
LW_API int lw_flow_register(lw_engine *engine, const lw_flow *flow, lw_error *err);

/* Writes the graph of a flow in the language of Graphviz, in pieces: a cluster a state, steps by
 * the flags they need and set, and the goal. Steps without a handler are dashed.
 * Returns LW_OK; what `write` returned, if that was negative; LW_EINVAL with a sentence, as
 * lw_flow_register, and nothing was written. Since: 0.3 */
LW_API int lw_flow_dot(const lw_flow *flow, int (*write)(void *user, const char *text, size_t size),
                       void *user, lw_error *err);

/* ---- status ------------------------------------------------------------------------------- */

/* How it is with a resource in its state. */
#define LW_FLOW_CONDITION_MAP(X)                                                          \
    X(LW_FLOW_HELD, 1, "held")       /* the fence: attempts of an older generation run */ \
    X(LW_FLOW_ACTIVE, 2, "active")   /* steps are under way, or wait for lw_flow_set */   \
    X(LW_FLOW_HALTED, 3, "halted")   /* a step has failed for good */                     \
    X(LW_FLOW_ABORTED, 4, "aborted") /* a step has aborted the flow */                    \
    X(LW_FLOW_AT_GOAL, 5, "at goal") /* or in a state without steps */                    \
    X(LW_FLOW_GONE, 6, "gone")       /* it has ended, and its id is free */

typedef enum lw_flow_condition {
#define LW_FLOW_CONDITION_ENUM(constant, number, name) constant = number,
    LW_FLOW_CONDITION_MAP(LW_FLOW_CONDITION_ENUM)
#undef LW_FLOW_CONDITION_ENUM
} lw_flow_condition;

/* The name of a condition, "unknown" for a number that is none. Never NULL. Since: 0.3 */
LW_API const char *lw_flow_condition_name(lw_flow_condition condition);

#define LW_STEP_STATE_MAP(X)                                                               \
    X(LW_STEP_WAITING, 1, "waiting") /* for the flags that it needs */                     \
    X(LW_STEP_HELD, 2, "held")       /* by the fence */                                    \
    X(LW_STEP_ACTIVE, 3, "active")   /* it has a task */                                   \
    X(LW_STEP_MANUAL, 4, "manual")   /* ready, and lw_flow_set is waited for */            \
    X(LW_STEP_DONE, 5, "done")                                                             \
    X(LW_STEP_SKIPPED, 6, "skipped") /* done: there was nothing to do */                   \
    X(LW_STEP_HALTED, 7, "halted")   /* ready, and its task has failed or was cancelled */ \
    X(LW_STEP_ABORTED, 8, "aborted") /* it was not done when the flow was aborted */

typedef enum lw_step_state {
#define LW_STEP_STATE_ENUM(constant, number, name) constant = number,
    LW_STEP_STATE_MAP(LW_STEP_STATE_ENUM)
#undef LW_STEP_STATE_ENUM
} lw_step_state;

/* The name of a step's state, "unknown" for a number that is none. Never NULL. Since: 0.3 */
LW_API const char *lw_step_state_name(lw_step_state state);

/* A step of the present state, or of the one that led to the present goal. */
typedef struct lw_flow_step {
    char name[LW_FLOW_NAME_MAX + 1];
    char flag[LW_FLOW_NAME_MAX + 1];
    lw_step_state state;
    int64_t done_ms; /* when its flag was set; wall time in ms since 1970. 0: it is not */
    lw_id task;      /* that is not terminal; 0: none */
    lw_state task_state;
    unsigned attempts; /* of that task so far, or that it took in the end */
    int64_t due_ms;    /* the task is tried again then; 0: it does not wait for a time */
    /* The last error of this step in this generation: of the present task, or of one before it. It
     * stays when the step is done, by its handler or by lw_flow_set, when it is halted and resumed,
     * when the flow is aborted, and in the next process; a move begins without. "": none */
    char error[LW_FLOW_TEXT_MAX + 1];
} lw_flow_step;

/* A state or goal that the resource has come to. */
typedef struct lw_flow_move_info {
    int64_t at_ms;
    uint64_t generation;
    char state[LW_FLOW_NAME_MAX + 1];
} lw_flow_move_info;

/* A consistent copy of all that is known of a resource at one moment. Plain data, which owns
 * nothing and needs no freeing; some 17 KB. */
typedef struct lw_flow_status {
    uint64_t number; /* of this resource in its store: for paging */
    char flow[LW_FLOW_NAME_MAX + 1];
    char id[LW_FLOW_ID_MAX + 1];
    char state[LW_FLOW_NAME_MAX + 1]; /* or goal */
    lw_flow_condition condition;
    char reason[LW_FLOW_TEXT_MAX + 1]; /* halted, aborted: why; otherwise "" */
    uint64_t generation;
    uint64_t version;   /* rises with every change */
    int64_t started_ms; /* lw_flow_start */
    int64_t since_ms;   /* in this state */
    unsigned open;      /* held: attempts of older generations that still run */
    bool is_unclean;    /* an attempt of an older generation was lost, or not waited for */
    bool is_partial;    /* lw_flow_peek: the flow is not registered here */
    unsigned step_count;
    lw_flow_step steps[LW_FLOW_STEPS_MAX]; /* as declared */
    unsigned history_count;
    unsigned history_dropped; /* that were between the first and the next */
    lw_flow_move_info history[LW_FLOW_HISTORY_MAX];
    size_t payload_size;
    char payload[LW_FLOW_PAYLOAD_MAX + 1]; /* with a zero after the last byte */
} lw_flow_status;

/* ---- from outside ------------------------------------------------------------------------- */

/* Starts a resource: its status and the tasks of its first steps come together or not at all.
 * Returns LW_OK: accepted; with a durable store it is on disk. LW_EXISTS (> 0): the id is taken,
 * nothing was done. Negative with a sentence: LW_EINVAL; LW_ENOTFOUND: no such flow; LW_EFULL: no
 * room for its tasks, or too many resources; LW_ESTOPPING; LW_ENOMEM; LW_EUNSURE: the disk failed,
 * and it may be there or not: repeat it; LW_EFORKED. It never waits for room. Owns: all is copied.
 * Since: 0.3 */
LW_API int lw_flow_start(lw_engine *engine, const char *flow, const char *id, lw_bytes payload,
                         lw_error *err);

/* The same, and with LW_OK and LW_EXISTS *status (may be NULL) is how it is with the id.
 * Since: 0.3 */
LW_API int lw_flow_start_get(lw_engine *engine, const char *flow, const char *id, lw_bytes payload,
                             lw_flow_status *status, lw_error *err);

/* Moves a resource to a state: a new generation, as described above. A later move supersedes one
 * whose steps are still held. Uses the reserve of room that is there for tasks inside.
 * Returns LW_OK; LW_PENDING (> 0): moved, and held until what runs has ended (lw_flow_wait_fence);
 * LW_EXISTS (> 0): it is in that state already, or at its goal, and nothing was done (a halted or
 * aborted one is moved all the same, and so begins again). Negative with a sentence: LW_ENOTFOUND:
 * no such flow or id; others as lw_flow_start. Since: 0.3 */
LW_API int lw_flow_move(lw_engine *engine, const char *flow, const char *id, const char *state,
                        lw_error *err);

/* Sets a flag of the present state, and so completes its step from outside; what follows is as if
 * the step had done so. If the step has a task that waits, that ends without running; one that runs
 * goes on, and nothing follows from it. `generation`: that the caller has seen, 0: any.
 * Returns LW_OK, also if it was set before; LW_ELEASE: there is another generation by now;
 * LW_ENOTFOUND: no such flow, id, or flag of the present state; LW_PENDING (> 0): the flags that
 * its step needs are not all set, or the fence stands, and nothing was done; LW_EINVAL: the flow is
 * aborted, or at its goal; others as lw_flow_start. Since: 0.3 */
LW_API int lw_flow_set(lw_engine *engine, const char *flow, const char *id, const char *flag,
                       uint64_t generation, lw_error *err);

/* Gives the steps of a halted resource that have no task any more a new one, with a fresh budget,
 * in the same generation.
 * Returns LW_OK; LW_PENDING (> 0): it is not halted, nothing was done; LW_ENOTFOUND; LW_EINVAL: it
 * is aborted; others as lw_flow_start. Since: 0.3 */
LW_API int lw_flow_resume(lw_engine *engine, const char *flow, const char *id, lw_error *err);

/* An operator's last resort: the fence does not wait any more for what still runs (a hung handler),
 * and the held steps start. They are told that it is unclean.
 * Returns LW_OK, also if no fence stands; LW_ENOTFOUND; others as lw_flow_start. Since: 0.3 */
LW_API int lw_flow_force(lw_engine *engine, const char *flow, const char *id, lw_error *err);

/* ---- looking ------------------------------------------------------------------------------ */

/* Shows what is decided, which a durable store may still be writing: a crash at that moment takes
 * it back. lw_flow_wait returns what is on disk.
 * Returns LW_OK; LW_ENOTFOUND: no such flow or id; LW_EINVAL; LW_ENOMEM; LW_ECORRUPT: its record is
 * damaged; LW_EFORKED. Since: 0.3 */
LW_API int lw_flow_get(lw_engine *engine, const char *flow, const char *id, lw_flow_status *status);

/* Waits until the resource rests: at a goal, halted, aborted or gone; `status` (may be NULL) says
 * which; of one that is gone it has flow, id and condition alone. With a durable store that is on
 * disk then. 0 looks once, -1 waits for ever. If it is moved meanwhile the wait goes on. A step
 * that waits for lw_flow_set is no rest.
 * Returns LW_OK: it rests. LW_PENDING: not yet; the status shows how far it is. LW_ENOTFOUND: no
 * such flow or id; one that was gone before the call, too. LW_EDEADLOCK: a step would wait for its
 * own flow, or a handler without a timeout for steps that no worker is left for (the last worker
 * that waits is replaced, as in lw_wait). LW_ESTOPPING: it does not, and the engine has stopped
 * (inside a handler: it drops). LW_EUNSURE: it rests, but the disk failed. LW_EINVAL, LW_ENOMEM,
 * LW_ECORRUPT, LW_EFORKED. Since: 0.3 */
LW_API int lw_flow_wait(lw_engine *engine, const char *flow, const char *id, int64_t timeout_ms,
                        lw_flow_status *status);

/* Waits until no fence stands: nothing of an older generation runs. Returns as lw_flow_wait.
 * Since: 0.3 */
LW_API int lw_flow_wait_fence(lw_engine *engine, const char *flow, const char *id,
                              int64_t timeout_ms, lw_flow_status *status);

/* Calls `each` for the resources of a flow in the order of their start, those with a number above
 * `after`, at most `limit` (0: 100), until it returns false. The status lives as long as the call.
 * Returns how many were shown; LW_ENOTFOUND: no such flow; LW_EINVAL; LW_ENOMEM; LW_EFORKED.
 * Since: 0.3 */
LW_API int lw_flow_list(lw_engine *engine, const char *flow, uint64_t after, size_t limit,
                        bool (*each)(void *user, const lw_flow_status *status), void *user);

/* ---- looking from elsewhere --------------------------------------------------------------- */

/* These look at resources of flows that this program has not registered as well: a server, an
 * operator's tool, a reader or client of a store (lw_open, .role = LW_ROLE_READER). Of a registered
 * flow they show what lw_flow_get shows; of another (status->is_partial) what the store knows:
 * state, generation, history, payload; the flags that are set, and the errors of what has failed;
 * and the tasks that are under way. What only the declaration says is not there:
 * - steps that have not begun are not among `steps`. Neither is known which step sets which flag,
 *   unless they have the same name: an entry has a name (it has a task), or a flag, or both; and
 *   its state may be 0;
 * - the condition is 0 (its name is "unknown") if nothing is under way and nothing has failed: the
 *   resource may rest in a state without steps, wait for lw_flow_set, or be halted.
 * To move a resource or set a flag takes the program that has the declaration.
 *
 * On a store that another process owns it is what is on disk; what its owner runs is told, but not
 * in which attempt. A resource that is not at its goal costs a look at all unfinished tasks there.
 */

/* Returns LW_OK; LW_ENOTFOUND: no such resource; LW_EINVAL; LW_ENOMEM; LW_EFORKED; LW_ECORRUPT: its
 * record is damaged; on a store that another process owns also why that cannot be read: LW_EBUSY,
 * LW_ESYSTEM. Since: 0.3 */
LW_API int lw_flow_peek(lw_engine *engine, const char *flow, const char *id,
                        lw_flow_status *status);

/* Which resources. */
typedef struct lw_flow_filter {
    size_t struct_size;
    const char *flow;            /* Default: of all flows */
    const char *state;           /* or goal. Default: any */
    lw_flow_condition condition; /* Default: any */
    uint64_t after;              /* those with a number above this. Default: from the first */
    size_t limit;                /* Default: 100 */
} lw_flow_filter;

#define LW_FLOW_FILTER(...) \
    LW_OPTIONS_OF(lw_flow_filter, .struct_size = sizeof(lw_flow_filter), __VA_ARGS__)

/* Calls `each` for the resources that match (NULL: all), in the order of their start, until it
 * returns false. The status lives as long as the call. One whose record is damaged is left out.
 * Returns how many were shown; LW_EINVAL; others as lw_flow_peek. Since: 0.3 */
LW_API int lw_flow_browse(lw_engine *engine, const lw_flow_filter *filter,
                          bool (*each)(void *user, const lw_flow_status *status), void *user);

/* ---- inside a step ------------------------------------------------------------------------ */

/* The generation that this attempt works for: a fencing token for systems outside, which refuse
 * what comes with a smaller one than they have seen. 0 for a context that is not a step's.
 * Since: 0.3 */
LW_API uint64_t lw_flow_generation(lw_ctx *ctx);

/* Whether an attempt of an older generation was lost (its process or thread died), or was not
 * waited for (lw_flow_force): then it may have left something half done, or, in systems outside,
 * something of it may still arrive. Since: 0.3 */
LW_API bool lw_flow_is_unclean(lw_ctx *ctx);

/* Done, and there was nothing to do: it had been done before. Since: 0.3 */
LW_API lw_outcome lw_flow_skip(lw_ctx *ctx);

LW_END_DECLS

#endif
