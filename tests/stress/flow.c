/* Flows with real threads: steps that settle at the same moment, moves in the middle of it, and
 * waiters. The parts of a resource are made and removed by its steps, as in tests/sim/flow.c. */
#include "stress_engine.h"

#include <legwork/flow.h>

enum { SITES = 4, FAN = 6 };

static struct {
    lw_engine *engine;
    _Atomic uint32_t parts[SITES];
    _Atomic uint32_t goals[SITES];
    _Atomic uint64_t newest[SITES]; /* generation */
    _Atomic bool is_calm;
} race;

static const char *const names[SITES] = {"0", "1", "2", "3"};

static int part_of(const char *kind) {
    return kind[strlen(kind) - 1] - '0';
}

/* Nobody of an older generation works any more once one of a newer does. */
static void check_generation(lw_ctx *ctx, int site) {
    uint64_t mine = lw_flow_generation(ctx), newest = atomic_load(&race.newest[site]);
    while (mine > newest && !atomic_compare_exchange_weak(&race.newest[site], &newest, mine)) {
    }
    CHECK(mine >= atomic_load(&race.newest[site]));
}

static lw_outcome make_part(lw_ctx *ctx, const lw_task *task) {
    int site = task->key[0] - '0';
    check_generation(ctx, site);
    if (chance(30))
        dawdle(30);
    bool is_bad = !atomic_load(&race.is_calm) && chance(15);
    if (!is_bad || chance(50))
        atomic_fetch_or(&race.parts[site], 1u << part_of(task->kind));
    check_generation(ctx, site);
    return is_bad ? lw_retry(ctx, "again") : lw_done(ctx);
}

static lw_outcome remove_all(lw_ctx *ctx, const lw_task *task) {
    int site = task->key[0] - '0';
    check_generation(ctx, site);
    if (chance(30))
        dawdle(30);
    atomic_store(&race.parts[site], 0);
    return !atomic_load(&race.is_calm) && chance(15) ? lw_retry(ctx, "again") : lw_done(ctx);
}

static void on_event(void *user, const lw_flow_event *event) {
    (void)user;
    if (event->type == LW_FLOW_EVENT_GOAL)
        atomic_fetch_add(&race.goals[event->id[0] - '0'], 1);
}

#define PART(n)                                                                                 \
    {                                                                                           \
        .name = "part" #n, .run = make_part, .state = "creating", .retry = {.min_ms = LW_ZERO } \
    }

static const lw_step steps[] = {
    PART(0),
    PART(1),
    PART(2),
    PART(3),
    PART(4),
    {.name = "last5",
     .run = make_part,
     .state = "creating",
     .needs = {"part0", "part1", "part2", "part3", "part4"},
     .retry = {.min_ms = LW_ZERO}},
    {.name = "remove", .run = remove_all, .state = "deleting", .retry = {.min_ms = LW_ZERO}},
};

static void open_race(void) {
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(2, 4)));
    assert_status(lw_flow_register(race.engine,
                                   LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                           .states = {{"creating", .goal = "running"},
                                                      {"deleting", .goal = "gone", .end = true}},
                                           .on_event = on_event),
                                   NULL),
                  LW_OK);
    start_engine(race.engine);
}

/* ---- all at once -------------------------------------------------------------------------- */

static void race_to_the_goal(void) {
    open_race();
    atomic_store(&race.is_calm, true);
    for (int i = 0; i < SITES; i++)
        assert_status(lw_flow_start(race.engine, "site", names[i], LW_TEXT("x"), NULL), LW_OK);
    for (int i = 0; i < SITES; i++) {
        static lw_flow_status status;
        assert_status(lw_flow_wait(race.engine, "site", names[i], STRESS_HANG_MS, &status), LW_OK);
        assert_int_equal(status.condition, LW_FLOW_AT_GOAL);
        assert_int_equal(atomic_load(&race.parts[i]), (1u << FAN) - 1);
    }
    stop_and_close_engine(race.engine, LW_DRAIN);
    for (int i = 0; i < SITES; i++)
        assert_int_equal(atomic_load(&race.goals[i]), 1);
}

TEST(steps_that_settle_at_the_same_moment_reach_the_goal_once) {
    run_races(500, race_to_the_goal);
}

/* ---- moves in the middle ------------------------------------------------------------------ */

static void *create_and_delete(void *arg) {
    (void)arg;
    for (int i = 0; i < 12; i++) {
        const char *name = names[dice(SITES)];
        int rc = chance(50) ? lw_flow_start(race.engine, "site", name, LW_TEXT("x"), NULL)
                            : lw_flow_move(race.engine, "site", name, "deleting", NULL);
        CHECK(rc >= 0 || rc == LW_ENOTFOUND);
        if (chance(20))
            lw_flow_wait(race.engine, "site", name, dice(3), NULL);
        if (chance(40))
            dawdle(40);
    }
    return NULL;
}

static void race_create_and_delete(void) {
    struct actors actors = {.count = 0};
    open_race();
    for (int i = between(1, 3); i > 0; i--)
        add_actor(&actors, create_and_delete, NULL);
    join_actors(&actors);
    atomic_store(&race.is_calm, true);
    for (int i = 0; i < SITES; i++) {
        static lw_flow_status status;
        int rc = lw_flow_wait(race.engine, "site", names[i], STRESS_HANG_MS, &status);
        bool is_there = rc == LW_OK && status.condition == LW_FLOW_AT_GOAL;
        CHECK(rc == LW_ENOTFOUND || is_there || status.condition == LW_FLOW_GONE);
        assert_int_equal(atomic_load(&race.parts[i]), is_there ? (1u << FAN) - 1 : 0);
    }
    stop_and_close_engine(race.engine, any_stop_mode());
}

TEST(a_site_is_wholly_there_or_wholly_gone) {
    run_races(500, race_create_and_delete);
}
