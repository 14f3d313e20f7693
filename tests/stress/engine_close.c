/* A close right after a stop that has timed out: handlers are left behind, and the last frees the
 * engine. (Worth most under the address sanitizer.) */
#include "stress_engine.h"

#define TASKS 10

static struct {
    lw_engine *engine;
    struct counted_memory memory;
    struct counter may_go;
    struct slip slips[TASKS];
    _Atomic int told[TASKS];
} race;

static lw_outcome run_and_wait(lw_ctx *ctx, const lw_task *task) {
    struct slip *slip = task->arg;
    if (chance(50))
        await_count(&race.may_go, 1);
    if (chance(30))
        dawdle(50);
    if (chance(20)) { /* the engine is there as long as its handler is */
        lw_submit(race.engine, LW_TASK(.kind = "short"), NULL, NULL);
        lw_progress(ctx, 1, 2, "half");
    }
    if (chance(30))
        return lw_retry(ctx, "later");
    atomic_fetch_add(&slip->ran, 1);
    if (chance(10))
        pthread_exit(NULL); /* not kept after all */
    return lw_done(ctx);
}

static void *let_go(void *arg) {
    (void)arg;
    dawdle(300);
    count_up(&race.may_go);
    return NULL;
}

static void on_failed(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    dawdle(20);
}

/* Once for each, whenever it ended, or however it was left. */
static void on_end(void *user, const lw_snapshot *task) {
    (void)task;
    atomic_fetch_add((_Atomic int *)user, 1);
    if (chance(10))
        CHECK(lw_submit(race.engine, LW_TASK(.kind = "short"), NULL, NULL) <= LW_EXISTS);
    if (chance(10))
        lw_cancel(race.engine, dice(TASKS) + 1);
    if (chance(5))
        dawdle(20);
}

static void open_engine(void) {
    memset(&race, 0, sizeof race);
    const lw_allocator allocator = {resize_counted, &race.memory};
    race.engine = open_race_engine(
        LW_ENGINE_OPTIONS(.workers = between(1, 4), .allocator = &allocator, .on_failed = on_failed,
                          .on_attempt = chance(30) ? on_failed : NULL));
    lw_handle(race.engine, "call", NULL,
              LW_HANDLER_OPTIONS(.timeout_ms = chance(30) ? 1 : 0, .stuck_ms = LW_ZERO,
                                 .retry = {.min_ms = LW_ZERO, .attempts = 3}),
              NULL);
    lw_handle(race.engine, "short", do_short, NULL, NULL);
    start_engine(race.engine);
}

static void submit_all(void) {
    for (int i = 0; i < TASKS; i++) {
        race.slips[i].is_given = true;
        lw_task task =
            *LW_TASK(.run = run_and_wait, .arg = &race.slips[i], .on_drop = drop_slip,
                     .delay_ms = chance(20) ? 1 : 0, .on_end = on_end, .user = &race.told[i]);
        race.slips[i].status = lw_submit(race.engine, &task, NULL, NULL);
        assert_status(race.slips[i].status, LW_OK);
    }
}

/* One that has ended its thread after it had kept its argument has it handed back, or runs
 * again. */
static void check_all(void) {
    for (int i = 0; i < TASKS; i++) {
        CHECK(atomic_load(&race.slips[i].ran) + atomic_load(&race.slips[i].dropped) >= 1
              && atomic_load(&race.slips[i].dropped) <= 1);
        CHECK(atomic_load(&race.told[i]) == 1);
    }
}

static void race_close(void) {
    struct actors actors = {.count = 0};
    open_engine();
    submit_all();
    if (chance(70))
        add_actor(&actors, let_go, NULL);
    if (chance(50))
        dawdle(200);
    lw_stop(race.engine, any_stop_mode(), between(0, 1));
    int rc = lw_close(race.engine);
    CHECK(rc == LW_OK || rc == LW_PENDING);
    count_up(&race.may_go);
    join_actors(&actors);
    await_no_blocks(&race.memory);
    check_all();
}

TEST(the_last_handler_left_behind_frees_the_engine) {
    run_races(800, race_close);
}

/* ---- guests ----------------------------------------------------------------------------- */

static void on_stuck(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
}

static lw_outcome do_near_deadline(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_ctx_sleep(ctx, 1000); /* until its time is over */
    if (chance(50))
        dawdle(30);
    return lw_done(ctx);
}

static void *run_as_guest(void *arg) {
    (void)arg;
    for (int i = 0; i < 3; i++)
        lw_submit(race.engine, LW_TASK(.kind = "near"), NULL, NULL);
    return NULL;
}

/* A submitter that runs its task itself is found stuck as it leaves: what knows of it is on its
 * stack. */
static void race_guest(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.engine =
        open_race_engine(LW_ENGINE_OPTIONS(.workers = 1, .task_limit = 1,
                                           .overflow = LW_CALLER_RUNS, .on_stuck = on_stuck));
    lw_handle(race.engine, "near", do_near_deadline,
              LW_HANDLER_OPTIONS(.timeout_ms = 1, .stuck_ms = LW_ZERO), NULL);
    start_engine(race.engine);
    for (int i = 0; i < 3; i++)
        add_actor(&actors, run_as_guest, NULL);
    join_actors(&actors);
    stop_and_close_engine(race.engine, LW_DRAIN);
}

TEST(a_guest_may_leave_as_it_is_declared_stuck) {
    run_races(150, race_guest);
}

/* ---- start ------------------------------------------------------------------------------ */

static void *start_it(void *arg) {
    (void)arg;
    int rc = lw_start(race.engine, NULL);
    CHECK(rc == LW_OK || rc == LW_ESTOPPING);
    return NULL;
}

static void race_start(void) {
    struct actors actors = {.count = 0};
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 2)));
    lw_handle(race.engine, "short", do_short, NULL, NULL);
    add_actor(&actors, start_it, NULL);
    for (int i = between(0, 5); i > 0; i--)
        lw_submit(race.engine, LW_TASK(.kind = "short"), NULL, NULL);
    dawdle(100);
    lw_stop(race.engine, any_stop_mode(), 0);
    join_actors(&actors);
    stop_and_close_engine(race.engine, any_stop_mode());
}

TEST(a_stop_may_come_while_it_is_started) {
    run_races(300, race_start);
}
