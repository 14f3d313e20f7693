/* flows.h: what tests of flows share. Everything here asserts that it works.
 *
 *     FLOW_TEST(a_step_runs_after_what_it_needs) {
 *         start_flow(rig, "x");
 *         run(rig);
 *         ...
 *     }
 *
 * runs on every store, with an engine without threads on a clock that the test holds, and the flow
 * "site": creating (save, then files and db, then boot after db) to running; deleting (wipe) to
 * deleted, an end; and suspended, without steps. What its steps do is up to the test (script), and
 * is to be done if the test says nothing. */
#ifndef LW_TESTS_SUPPORT_FLOWS_H
#define LW_TESTS_SUPPORT_FLOWS_H

#include "engines.h"
#include "stores.h"

#include <legwork/flow.h>
#include <legwork/testing.h>

enum flow_step { SAVE, FILES, DBASE, BOOT, WIPE, FLOW_STEPS };
extern const char *const step_names[FLOW_STEPS];

struct flow_rig;

/* What a step does instead of nothing. */
typedef lw_outcome (*step_script)(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task);

enum { EVENTS_MAX = 64 };

struct flow_rig {
    char url[64];
    lw_clock *clock;
    lw_test_memory *memory;
    lw_engine *engine;
    step_script scripts[FLOW_STEPS];
    _Atomic int runs[FLOW_STEPS];             /* attempts that have begun */
    _Atomic uint64_t generations[FLOW_STEPS]; /* of the last one */
    _Atomic bool is_unclean[FLOW_STEPS];
    _Atomic int event_count; /* the events themselves are read when nobody runs any more */
    struct {
        lw_flow_event_type type;
        char id[64], state[32], step[32], flag[32], text[128];
        uint64_t generation;
    } events[EVENTS_MAX];
    void *user; /* the test's */
};

void each_flow_store(void (*body)(struct flow_rig *rig));

#define FLOW_TEST(name)                          \
    static void name##_on(struct flow_rig *rig); \
    TEST(name) {                                 \
        each_flow_store(name##_on);              \
    }                                            \
    static void name##_on(struct flow_rig *rig)

/* The parts, for loops of their own. Opening gives a status; the engine is started. */
int try_open_flow_rig(struct flow_rig *rig, const char *url, lw_test_memory *memory);
void close_flow_rig(struct flow_rig *rig);
bool is_flow_durable(const struct flow_rig *rig);
void reopen_flow_rig(struct flow_rig *rig); /* of a durable store */

/* Registers the flow "site", for engines with threads. `user` is the rig. */
int register_site(lw_engine *engine, struct flow_rig *rig, lw_error *err);

int run(struct flow_rig *rig); /* attempts that were run */
int advance_flow(struct flow_rig *rig, int64_t ms);

void start_flow(struct flow_rig *rig, const char *id);
int move(struct flow_rig *rig, const char *id, const char *state);
lw_flow_status status_of(struct flow_rig *rig, const char *id);
bool is_gone(struct flow_rig *rig, const char *id);
lw_flow_condition condition_of(struct flow_rig *rig, const char *id);
lw_flow_step step_of(struct flow_rig *rig, const char *id, enum flow_step step);

/* The state or goal, and how it is with it. */
#define assert_flow(rig, id, state, condition) \
    assert_flow_at((rig), (id), (state), (condition), __FILE__, __LINE__)
void assert_flow_at(struct flow_rig *rig, const char *id, const char *state,
                    lw_flow_condition condition, const char *file, int line);

/* How often an event of this type was told. */
int count_events(const struct flow_rig *rig, lw_flow_event_type type);

/* Scripts. */
lw_outcome script_retry(struct flow_rig *rig, lw_ctx *ctx,
                        const lw_task *task);                                   /* "no <attempt>" */
lw_outcome script_fail(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task); /* "never" */
lw_outcome script_abort(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task); /* "stop it" */
lw_outcome script_skip(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task);
lw_outcome script_delete(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task); /* moves itself */

#endif
