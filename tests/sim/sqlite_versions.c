/* A program that changes while its resources are on their way: from a seed it is restarted with
 * other declarations of one flow, in which steps have other names, other needs, other flags, serve
 * other states, are done by people, or are not there. Whatever came before, in the end the
 * declaration of that moment brings every resource to its goal, by what a patient operator does;
 * nothing waits for ever, and no task is left that nobody would run. */
#include "test.h"

#include "base/random.h"
#include "engines.h"
#include "unsynced.h"

#include <inttypes.h>
#include <legwork/flow.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SITES = 4, NAMES = 6, VERSIONS = 6, TURNS = 12, PATIENCE = 200 };

static const char *const names[NAMES] = {"save", "files", "db", "boot", "mount", "wipe"};
static const char *const state_names[] = {"creating", "deleting", "parking"};

struct world {
    struct lw__random random;
    uint64_t seed;
    bool is_calm; /* steps succeed, nobody interferes */
    lw_clock *clock;
    lw_engine *engine;
    lw_step steps[NAMES];
    size_t step_count;
    bool has_parking;
};

static uint64_t below(struct world *w, uint64_t bound) {
    return lw__random_below(&w->random, bound);
}

static bool chance(struct world *w, unsigned percent) {
    return below(w, 100) < percent;
}

_Noreturn static void complain(const struct world *w, const char *id, const char *what) {
    fprintf(stderr, "seed %" PRIu64 ": %s: %s\n", w->seed, id, what);
    abort();
}

static const char *id_of(int site) {
    static const char *const ids[SITES] = {"a.org", "b.org", "c.org", "d.org"};
    return ids[site];
}

/* ---- a declaration ------------------------------------------------------------------------- */

static lw_outcome run_step(lw_ctx *ctx, const lw_task *task) {
    struct world *w = lw_ctx_user(ctx);
    (void)task;
    if (w->is_calm)
        return lw_done(ctx);
    switch (below(w, 8)) {
    case 0: return lw_fail(ctx, "never");
    case 1: return below(w, 4) == 0 ? lw_abort(ctx, "stop it") : lw_done(ctx);
    case 2:
    case 3:
    case 4: return lw_retry(ctx, "not yet");
    default: return lw_done(ctx);
    }
}

/* Each name is there or not, and the first step of a state needs nothing. */
static void declare(struct world *w) {
    const char *first[3] = {NULL, NULL, NULL};
    w->step_count = 0;
    w->has_parking = chance(w, 50);
    for (int i = 0; i < NAMES; i++) {
        int state = i == NAMES - 1                    ? 1
                    : chance(w, 15)                   ? 1
                    : w->has_parking && chance(w, 15) ? 2
                                                      : 0;
        if (i > 0 && i < NAMES - 1 && chance(w, 35))
            continue;
        if (i == 0)
            state = 0;
        lw_step *step = &w->steps[w->step_count++];
        *step = (lw_step){.name = names[i],
                          .run = chance(w, 85) ? run_step : NULL,
                          .state = state_names[state],
                          .retry = {.min_ms = 1000}};
        if (chance(w, 20))
            step->sets = i % 2 ? "one" : "two";
        for (size_t j = 0; step->sets && j + 1 < w->step_count; j++)
            if (w->steps[j].sets && strcmp(w->steps[j].sets, step->sets) == 0)
                step->sets = NULL;
        if (first[state] && chance(w, 50))
            step->needs[0] = first[state];
        else
            first[state] = step->sets ? step->sets : step->name;
    }
}

static void open_version(struct world *w) {
    lw_error err = {0};
    lw_flow flow = {.struct_size = sizeof flow,
                    .name = "site",
                    .steps = w->steps,
                    .states = {{.name = "creating", .goal = "running"},
                               {.name = "deleting", .goal = "deleted", .end = true}},
                    .user = w};
    bool has_steps = false;
    declare(w);
    flow.step_count = w->step_count;
    for (size_t i = 0; i < w->step_count; i++)
        has_steps |= strcmp(w->steps[i].state, "parking") == 0;
    if (w->has_parking)
        flow.states[2] = (lw_flow_state){.name = "parking", .goal = has_steps ? "parked" : NULL};
    int rc = lw_open(&w->engine, "sqlite:versions.db",
                     LW_ENGINE_OPTIONS(.workers = LW_ZERO, .clock = w->clock, .seed = 1), &err);
    if (rc == LW_OK)
        rc = lw_flow_register(w->engine, &flow, &err);
    if (rc == LW_OK)
        rc = lw_start(w->engine, &err);
    if (rc < 0)
        complain(w, "-", err.message);
}

/* ---- what happens -------------------------------------------------------------------------- */

static void must(struct world *w, const char *id, int rc) {
    if (rc < 0 && rc != LW_ENOTFOUND)
        complain(w, id, lw_status_text(rc));
}

static void act(struct world *w) {
    static lw_flow_status status;
    const char *id = id_of((int)below(w, SITES));
    bool is_there = lw_flow_get(w->engine, "site", id, &status) == LW_OK;
    switch (below(w, 6)) {
    case 0:
    case 1: must(w, id, lw_flow_start(w->engine, "site", id, LW_TEXT("x"), NULL)); break;
    case 2:
        must(w, id,
             lw_flow_move(w->engine, "site", id, state_names[below(w, w->has_parking ? 3 : 2)],
                          NULL));
        break;
    case 3:
        if (is_there && status.condition != LW_FLOW_ABORTED)
            must(w, id, lw_flow_resume(w->engine, "site", id, NULL));
        break;
    case 4:
        if (is_there && status.step_count > 0) {
            const lw_flow_step *step = &status.steps[below(w, status.step_count)];
            if (step->task && chance(w, 30))
                must(w, id, lw_cancel(w->engine, step->task));
            else if (status.condition == LW_FLOW_ACTIVE)
                must(w, id, lw_flow_set(w->engine, "site", id, step->flag, 0, NULL));
        }
        break;
    default: CHECK(lw_test_advance(w->engine, (int64_t)below(w, 3000)) >= 0); break;
    }
    if (chance(w, 60))
        CHECK(lw_test_run(w->engine) >= 0);
}

/* ---- in the end ---------------------------------------------------------------------------- */

static bool is_manual(const lw_flow_step *step) {
    return step->state == LW_STEP_MANUAL;
}

/* Does what a person would do who reads the status. True: there is nothing to do any more. */
static bool attend(struct world *w, const char *id) {
    static lw_flow_status status;
    int rc = lw_flow_get(w->engine, "site", id, &status);
    if (rc == LW_ENOTFOUND || (rc == LW_OK && status.condition == LW_FLOW_AT_GOAL))
        return true;
    must(w, id, rc);
    if (status.condition == LW_FLOW_ABORTED || status.step_count == 0) {
        must(w, id, lw_flow_move(w->engine, "site", id, "deleting", NULL));
        return false;
    }
    if (status.condition == LW_FLOW_HALTED)
        must(w, id, lw_flow_resume(w->engine, "site", id, NULL));
    for (unsigned i = 0; i < status.step_count; i++)
        if (is_manual(&status.steps[i]))
            must(w, id, lw_flow_set(w->engine, "site", id, status.steps[i].flag, 0, NULL));
    return false;
}

static void calm_down(struct world *w) {
    lw_engine_stats stats;
    w->is_calm = true;
    for (int site = 0; site < SITES; site++) {
        int patience = PATIENCE;
        while (!attend(w, id_of(site))) {
            CHECK(lw_test_advance(w->engine, 400000) >= 0);
            if (--patience == 0)
                complain(w, id_of(site), "it does not come to a goal");
        }
    }
    CHECK(lw_test_advance(w->engine, 400000) >= 0);
    assert_status(lw_get_stats(w->engine, &stats), LW_OK);
    if (stats.created + stats.scheduled + stats.enqueued + stats.started > 0)
        complain(w, "-", "a task is left that nobody runs");
    w->is_calm = false;
}

static void live(uint64_t seed) {
    static const char *const files[] = {"versions.db", "versions.db-owner", "versions.db-running"};
    struct world w = {.seed = seed, .clock = open_clock()};
    lw__random_seed(&w.random, seed);
    for (int version = 0; version < VERSIONS; version++) {
        open_version(&w);
        for (int turn = 0; turn < TURNS; turn++)
            act(&w);
        if (version == VERSIONS - 1 || chance(&w, 10))
            calm_down(&w);
        close_engine(w.engine);
    }
    lw_test_clock_close(w.clock);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
}

TEST(whatever_a_program_becomes_its_resources_come_to_a_goal) {
    const char *given = getenv("LW_SEED");
    uint64_t first = given ? strtoull(given, NULL, 10) : 1, count = given ? 1 : 300;
    stop_syncing();
    for (uint64_t seed = first; seed < first + count; seed++)
        live(seed);
}
