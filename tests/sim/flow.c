/* The race: sites are created and deleted at random moments, by steps that are slow, fail, do half
 * of their work, ignore that they are asked to give up, or die; on a virtual clock, in one thread,
 * from a seed. Whatever happens a site is wholly there or wholly gone in the end, its name is free
 * again, and no two generations ever work on it at the same time. The same without the fence has to
 * find garbage: else the test would be blind. */
#include "test.h"

#include "base/random.h"
#include "engine/engine_internal.h"
#include "flow/flow_internal.h"
#include "pools.h"

#include <inttypes.h>
#include <legwork/testing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SITES = 6, WORKERS = 4, STEPS = 600, CALM_STEPS = 20000 };
enum { SAVE, FILES, DB, BOOT, WIPE };

/* What a step of creating leaves in the world: the first half of its work, then all of it. */
#define HALF(step) (1u << (step))
#define WHOLE(step) (16u << (step))
#define ALL 0xffu

/* A site as it really is; none of it is Legwork's. */
struct site {
    unsigned parts;
    uint64_t newest;    /* the newest generation that has worked on it */
    uint64_t last_goal; /* the generation that has reached a goal last */
};

/* A worker, and the script of what it runs. */
struct worker {
    struct lw__hand hand;
    struct lw__task *task; /* NULL: it is idle */
    uint64_t token, generation;
    int site, step;
    uint64_t half_at, whole_at, ends_at; /* LW__NEVER: not at all */
    bool is_deaf, is_crash;
    lw_outcome outcome;
    struct lw__step_frame frame;
};

struct world {
    struct lw__random random;
    uint64_t seed;
    bool is_calm, is_unfenced;
    lw_clock *clock;
    lw_engine *engine;
    struct site sites[SITES];
    struct worker workers[WORKERS];
    long races, held, garbage; /* moves; those that something still ran at; what was left */
};

static uint64_t below(struct world *w, uint64_t bound) {
    return lw__random_below(&w->random, bound);
}

static bool chance(struct world *w, unsigned percent) {
    return !w->is_calm && below(w, 100) < percent;
}

static const char *name_of(int site) {
    static const char *const names[SITES] = {"a.org", "b.org", "c.org", "d.org", "e.org", "f.org"};
    return names[site];
}

static int site_named(const char *name) {
    int site = 0;
    while (strcmp(name_of(site), name) != 0)
        site++;
    return site;
}

_Noreturn static void complain(const struct world *w, int site, const char *what) {
    fprintf(stderr, "seed %" PRIu64 ": %s: %s (parts %02x)\n", w->seed, name_of(site), what,
            w->sites[site].parts);
    abort();
}

/* Something is left that should not be, or is not there. */
static void expect(struct world *w, int site, bool is_so, const char *what) {
    if (is_so)
        return;
    w->garbage++;
    if (!w->is_unfenced)
        complain(w, site, what);
}

/* ---- what the steps really do ------------------------------------------------------------- */

static void work(struct world *w, const struct worker *worker, bool is_half) {
    struct site *site = &w->sites[worker->site];
    expect(w, worker->site, worker->generation >= site->newest, "an old generation still works");
    if (worker->step == WIPE)
        site->parts = is_half ? site->parts & ALL >> 2 : 0; /* the first halves go last */
    else
        site->parts |= is_half ? HALF(worker->step) : WHOLE(worker->step);
}

static void check_alone(struct world *w, const struct worker *me) {
    for (int i = 0; i < WORKERS; i++) {
        const struct worker *other = &w->workers[i];
        if (other->task && other != me && other->site == me->site)
            expect(w, me->site, other->generation == me->generation,
                   "two generations work at the same time");
    }
}

/* Told when it has happened: what the program may rely on then. */
static void on_event(void *user, const lw_flow_event *event) {
    struct world *w = user;
    int place = site_named(event->id);
    struct site *site = &w->sites[place];
    if (event->type == LW_FLOW_EVENT_STARTED)
        expect(w, place, site->parts == 0, "something was there before the start");
    if (event->type != LW_FLOW_EVENT_GOAL)
        return;
    if (event->generation <= site->last_goal)
        complain(w, place, "a goal is reached twice");
    site->last_goal = event->generation;
    bool is_running = strcmp(event->state, "running") == 0;
    expect(w, place, site->parts == (is_running ? ALL : 0),
           is_running ? "it runs and is not whole" : "it is deleted, and something is left");
}

/* ---- workers ------------------------------------------------------------------------------ */

static int step_named(const char *kind) {
    static const char *const kinds[] = {"site.save", "site.files", "site.db", "site.boot",
                                        "site.wipe"};
    int step = 0;
    while (strcmp(kinds[step], kind) != 0)
        step++;
    return step;
}

static void plan(struct world *w, struct worker *worker, uint64_t now) {
    static const uint64_t lengths[] = {0, 1, 10, 200, 3000, 20000};
    uint64_t length = w->is_calm ? 1 : lengths[below(w, 6)];
    uint64_t *at[] = {&worker->half_at, &worker->whole_at, &worker->ends_at};
    for (int i = 0; i < 3; i++) {
        now += below(w, length + 1) * LW__NS_PER_MS;
        *at[i] = now;
    }
    worker->is_deaf = chance(w, 50);
    worker->is_crash = chance(w, 8);
    worker->outcome = chance(w, 25)  ? LW_OUTCOME_RETRY
                      : chance(w, 2) ? LW_OUTCOME_FAIL
                      : chance(w, 1) ? LW_OUTCOME_ABORT
                                     : LW_OUTCOME_DONE;
    bool must_fall_short = worker->is_crash || worker->outcome != LW_OUTCOME_DONE;
    if (must_fall_short && chance(w, 60))
        worker->whole_at = LW__NEVER;
    if (must_fall_short && chance(w, 30))
        worker->half_at = worker->whole_at = LW__NEVER;
}

static lw_outcome say(lw_ctx *ctx, lw_outcome outcome) {
    switch (outcome) {
    case LW_OUTCOME_DONE: return lw_done(ctx);
    case LW_OUTCOME_FAIL: return lw_fail(ctx, "never");
    case LW_OUTCOME_ABORT: return lw_abort(ctx, "not wanted");
    default: return lw_retry(ctx, "again");
    }
}

static void end(struct world *w, struct worker *worker, lw_outcome outcome) {
    struct lw__task *task = worker->task;
    lw__attempt_close(&worker->hand);
    worker->task = NULL;
    if (lw__hand_end(&worker->hand, task, worker->token, outcome) == LW__RAN_PLAIN)
        complain(w, 0, "the task of a step was finished as a plain one");
}

static bool begin(struct world *w, struct worker *worker) {
    struct lw__store *store = w->engine->store;
    struct lw__task *task;
    struct lw__claim claim = {.tasks = &task, .max = 1};
    uint64_t now = lw__engine_now(w->engine);
    store->ops->claim(store, now, &claim);
    if (claim.count == 0)
        return false;
    worker->hand.started = now;
    if (!lw__hand_begin(&worker->hand, task, claim.token)) {
        store->ops->account(store, now, &task, 1);
        return true;
    }
    lw__attempt_open(&worker->hand, task);
    worker->task = task;
    worker->token = claim.token;
    lw_outcome early = lw__step_open(&worker->hand.ctx, &worker->hand.shown, &worker->frame);
    if (early) {
        end(w, worker, early);
        return true;
    }
    worker->site = site_named(worker->frame.task.key);
    worker->step = step_named(worker->hand.shown.kind);
    worker->generation = lw_flow_generation(&worker->hand.ctx);
    struct site *site = &w->sites[worker->site];
    expect(w, worker->site, worker->generation >= site->newest, "an old generation begins");
    check_alone(w, worker);
    if (worker->step == BOOT)
        expect(w, worker->site, site->parts & WHOLE(DB), "it is booted without its database");
    site->newest = worker->generation;
    plan(w, worker, now);
    return true;
}

static bool go_on(struct world *w, struct worker *worker) {
    uint64_t now = lw__engine_now(w->engine);
    if (now >= worker->half_at) {
        worker->half_at = LW__NEVER;
        work(w, worker, true);
    }
    bool must_give_up = !worker->is_deaf && lw_ctx_done(&worker->hand.ctx);
    if (must_give_up && now < worker->ends_at) {
        end(w, worker, lw_retry(&worker->hand.ctx, "gave up"));
        return true;
    }
    if (now >= worker->whole_at) {
        worker->whole_at = LW__NEVER;
        work(w, worker, false);
    }
    if (now < worker->ends_at)
        return false;
    if (worker->is_crash) {
        worker->task = NULL;
        lw__hand_crash(&worker->hand);
    } else {
        end(w, worker, say(&worker->hand.ctx, worker->outcome));
    }
    return true;
}

static void play(struct world *w, struct worker *worker) {
    while (worker->task ? go_on(w, worker) : begin(w, worker)) {
        /* until it has to wait */
    }
}

static void play_all(struct world *w) {
    int first = (int)below(w, WORKERS);
    for (int i = 0; i < WORKERS; i++)
        play(w, &w->workers[(first + i) % WORKERS]);
}

static void pass_time(struct world *w, uint64_t ms) {
    lw_test_clock_advance(w->clock, (int64_t)ms);
    uint64_t now = lw__engine_now(w->engine);
    while (lw__scheduler_look(w->engine, now) <= now) {
        /* a bounded lot each time */
    }
}

/* ---- programs and operators --------------------------------------------------------------- */

static void start_site(struct world *w, int site) {
    int rc = lw_flow_start(w->engine, "site", name_of(site), LW_TEXT("x"), NULL);
    if (rc != LW_OK && rc != LW_EXISTS)
        complain(w, site, "it cannot be started");
}

static void move_site(struct world *w, int site, const char *state) {
    int rc = lw_flow_move(w->engine, "site", name_of(site), state, NULL);
    if (rc < 0 && rc != LW_ENOTFOUND)
        complain(w, site, "it cannot be moved");
    w->races += rc == LW_OK || rc == LW_PENDING;
    w->held += rc == LW_PENDING;
}

static void steer(struct world *w, int site) {
    switch (below(w, 10)) {
    case 0: move_site(w, site, "creating"); break;
    case 1: move_site(w, site, "suspended"); break;
    case 2: lw_flow_resume(w->engine, "site", name_of(site), NULL); break;
    case 3:
    case 4:
    case 5: start_site(w, site); break;
    default: move_site(w, site, "deleting"); break;
    }
}

static void live(struct world *w) {
    static const uint64_t spans[] = {1, 1, 5, 50, 500, 4000, 30000};
    for (int i = 0; i < STEPS; i++) {
        switch (below(w, 4)) {
        case 0: steer(w, (int)below(w, SITES)); break;
        case 1: pass_time(w, spans[below(w, 7)]); break;
        default: play(w, &w->workers[below(w, WORKERS)]); break;
        }
    }
}

/* ---- the end ------------------------------------------------------------------------------ */

static bool has_workers_running(const struct world *w) {
    bool is_any = false;
    for (int i = 0; i < WORKERS; i++)
        is_any |= w->workers[i].task != NULL;
    return is_any;
}

/* True: it is where it should be in the end. */
static bool settle_site(struct world *w, int site, bool is_wanted) {
    static lw_flow_status status;
    int rc = lw_flow_get(w->engine, "site", name_of(site), &status);
    if (rc == LW_ENOTFOUND)
        return true;
    if (status.condition == LW_FLOW_HALTED)
        lw_flow_resume(w->engine, "site", name_of(site), NULL);
    bool is_creating = strcmp(status.state, "creating") == 0;
    if (status.condition == LW_FLOW_ABORTED || strcmp(status.state, "suspended") == 0
        || (is_creating && !is_wanted))
        move_site(w, site, "deleting");
    return strcmp(status.state, "running") == 0;
}

static void check_site(struct world *w, int site) {
    static lw_flow_status status;
    bool is_there = lw_flow_get(w->engine, "site", name_of(site), &status) == LW_OK;
    expect(w, site, w->sites[site].parts == (is_there ? ALL : 0),
           is_there ? "it runs, and is not whole" : "it is gone, and something is left");
}

/* Luck has ended: everything comes to its end. */
static void settle_world(struct world *w) {
    unsigned wanted = (unsigned)below(w, 1u << SITES), settled = 0;
    w->is_calm = true;
    for (int i = 0; settled < SITES || has_workers_running(w); i++) {
        if (i == CALM_STEPS)
            complain(w, 0, "it does not come to an end");
        pass_time(w, 1000);
        play_all(w);
        settled = 0;
        for (int site = 0; site < SITES; site++)
            settled += settle_site(w, site, wanted >> site & 1);
    }
    for (int site = 0; site < SITES; site++)
        check_site(w, site);
}

/* ---- a world ------------------------------------------------------------------------------ */

static lw_outcome never(lw_ctx *ctx, const lw_task *task) {
    (void)ctx;
    (void)task;
    abort(); /* the workers play the handlers */
}

static const lw_step steps[] = {
    {.name = "save", .run = never, .state = "creating"},
    {.name = "files", .run = never, .state = "creating", .needs = {"save"}},
    {.name = "db", .run = never, .state = "creating", .needs = {"save"}},
    {.name = "boot", .run = never, .state = "creating", .needs = {"db"}},
    {.name = "wipe", .run = never, .state = "deleting"},
};

static void open_world(struct world *w, uint64_t seed, bool is_unfenced) {
    lw_error err = {0};
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->is_unfenced = is_unfenced;
    lw__random_seed(&w->random, seed);
    w->clock = open_clock();
    assert_status(
        lw_open(&w->engine, "memory:",
                LW_ENGINE_OPTIONS(.workers = LW_ZERO, .clock = w->clock, .seed = seed + 1), &err),
        LW_OK);
    assert_status(lw_flow_register(w->engine,
                                   LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                           .states = {{"creating", .goal = "running"},
                                                      {"deleting", .goal = "deleted", .end = true},
                                                      {.name = "suspended"}},
                                           .retention = {.finished_ms = LW_ZERO,
                                                         .failed_ms = LW_ZERO,
                                                         .aborted_ms = LW_ZERO},
                                           .on_event = on_event, .user = w),
                                   &err),
                  LW_OK);
    assert_status(lw_start(w->engine, &err), LW_OK);
    if (is_unfenced)
        assert_status(lw_test_unfence(w->engine), LW_OK);
    for (int i = 0; i < WORKERS; i++) {
        lw__hand_init(&w->workers[i].hand, w->engine);
        lw__hand_enter(&w->workers[i].hand);
    }
}

static void close_world(struct world *w) {
    for (int i = WORKERS - 1; i >= 0; i--) {
        lw__hand_leave(&w->workers[i].hand);
        lw__hand_free(&w->workers[i].hand);
    }
    assert_status(lw_close(w->engine), LW_OK);
    lw_test_clock_close(w->clock);
}

struct result {
    long races, held, garbage;
};

static struct result run_world(uint64_t seed, bool is_unfenced) {
    static struct world w;
    open_world(&w, seed, is_unfenced);
    live(&w);
    settle_world(&w);
    close_world(&w);
    return (struct result){w.races, w.held, w.garbage};
}

static uint64_t first_seed(void) {
    const char *text = getenv("LW_SEED");
    return text && *text ? strtoull(text, NULL, 10) : 1;
}

static void run_races(uint64_t seed, long wanted) {
    long races = 0, held = 0;
    uint64_t first = seed;
    for (; races < wanted; seed++) {
        struct result one = run_world(seed, false);
        races += one.races;
        held += one.held;
    }
    printf("%ld races, %ld of them while steps ran, seeds %" PRIu64 " to %" PRIu64
           ": nothing is left\n",
           races, held, first, seed - 1);
}

TEST(a_site_is_wholly_there_or_wholly_gone_whatever_races) {
    run_races(first_seed(), test_scale(50000, 500000) / test_stride(10));
}

TEST(and_so_it_is_with_other_seeds) {
    run_races(first_seed() + 1000000, test_scale(50000, 500000) / test_stride(10));
}

TEST(without_the_fence_garbage_is_found) {
    struct result sum = {.races = 0};
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct result one = run_world(seed, true);
        sum.races += one.races;
        sum.garbage += one.garbage;
    }
    printf("%ld races without a fence left garbage %ld times\n", sum.races, sum.garbage);
    CHECK(sum.garbage > 0);
}
