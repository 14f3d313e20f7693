/* Submitters that wait for room get in or are told, whatever becomes of the tasks before them. */
#include "stress_engine.h"

#define PRODUCERS 3
#define TASKS 24

static struct {
    lw_engine *engine;
    _Atomic uint64_t accepted;
    _Atomic lw_id last;
    struct counter is_over;
} race;

/* Every way in which an attempt can end. */
static lw_outcome do_anything(lw_ctx *ctx, const lw_task *task) {
    if (chance(10))
        dawdle(50);
    if (task->attempt > 2)
        return lw_done(ctx);
    switch (dice(10)) {
    case 0: return lw_fail(ctx, "no");
    case 1: return lw_abort(ctx, "not wanted");
    case 2: return lw_retry(ctx, "again");
    case 3: return lw_retry_after(ctx, 1, "later");
    case 4: return task->attempt == 1 && chance(50) ? lw_snooze(ctx, 0) : lw_done(ctx);
    case 5: return lw_done_with(ctx, LW_TEXT("result"));
    default: return lw_done(ctx);
    }
}

static void submit_one(lw_ctx *ctx) {
    char bytes[64] = {0};
    lw_task task = *LW_TASK(.kind = chance(50) ? "plain" : "any");
    lw_id id = 0;
    if (chance(30))
        task.queue = "narrow";
    if (chance(20))
        task.payload = (lw_bytes){bytes, 1 + dice(sizeof bytes)};
    if (chance(10))
        task.start_by_ms = 2;
    if (chance(10))
        task.delay_ms = 1;
    if (chance(10))
        task.submit_timeout_ms = chance(50) ? 1 : LW_ZERO;
    task.ctx = ctx;
    int rc = lw_submit(race.engine, &task, &id, NULL);
    if (rc == LW_OK) {
        atomic_fetch_add(&race.accepted, 1);
        atomic_store(&race.last, id);
    } else {
        CHECK((rc == LW_ETIMEDOUT && task.submit_timeout_ms) || (rc == LW_ECANCELED && ctx));
    }
}

static void submit_some(void) {
    lw_task one = *LW_TASK(.kind = "plain"), other = *LW_TASK(.kind = "any", .queue = "narrow");
    const lw_task *tasks[] = {&one, &other, &one};
    size_t count = 1 + dice(3);
    int rc = lw_submit_many(race.engine, tasks, count, NULL, NULL);
    CHECK(rc == LW_OK || rc == LW_EFULL); /* they never fit */
    if (rc == LW_OK)
        atomic_fetch_add(&race.accepted, count);
}

static void *produce(void *arg) {
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        if (chance(5))
            submit_some();
        else
            submit_one(NULL);
    }
    return NULL;
}

static void *cancel_ctx(void *ctx) {
    dawdle(200);
    lw_ctx_cancel(ctx);
    return NULL;
}

/* One that has a context, which is cancelled while it waits. */
static void *produce_within(void *arg) {
    struct actors actors = {.count = 0};
    lw_ctx *ctx;
    (void)arg;
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    add_actor(&actors, cancel_ctx, ctx);
    for (int i = 0; i < 4; i++)
        submit_one(ctx);
    join_actors(&actors);
    lw_ctx_close(ctx);
    return NULL;
}

static void *cancel_some(void *arg) {
    (void)arg;
    while (atomic_load(&race.is_over.value) == 0) {
        lw_id last = atomic_load(&race.last);
        if (last > 0)
            lw_cancel(race.engine, last - dice(last < 4 ? last : 4));
        dawdle(50);
    }
    return NULL;
}

static void open_engine(void) {
    const lw_retry_policy eager = {.min_ms = LW_ZERO};
    const lw_retention none = {.finished_ms = LW_ZERO, .failed_ms = LW_ZERO, .aborted_ms = LW_ZERO};
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 4),
                                                     .task_limit = between(1, chance(50) ? 4 : 64),
                                                     .byte_limit = chance(50) ? 64 : 0));
    lw_handle(race.engine, "plain", do_short, LW_HANDLER_OPTIONS(.retention = none), NULL);
    lw_handle(
        race.engine, "any", do_anything,
        LW_HANDLER_OPTIONS(.retry = eager, .retention = none, .concurrency = chance(20) ? 1 : 0),
        NULL);
    lw_queue(race.engine, "narrow", LW_QUEUE_OPTIONS(.limit = between(1, 3)), NULL);
    start_engine(race.engine);
}

static void check_all_ended(void) {
    lw_engine_stats stats;
    assert_status(lw_stop(race.engine, LW_DRAIN_ALL, STRESS_HANG_MS), LW_OK);
    assert_status(lw_get_stats(race.engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, atomic_load(&race.accepted));
    assert_int_equal(stats.finished_total + stats.failed_total + stats.aborted_total
                         + stats.scheduled,
                     stats.submitted_total);
    assert_status(lw_close(race.engine), LW_OK);
}

static void race_for_room(void) {
    struct actors producers = {.count = 0}, helpers = {.count = 0};
    open_engine();
    if (chance(60))
        add_actor(&helpers, cancel_some, NULL);
    for (int i = between(2, PRODUCERS); i > 0; i--)
        add_actor(&producers, produce, NULL);
    if (chance(30))
        add_actor(&producers, produce_within, NULL);
    join_actors(&producers);
    count_up(&race.is_over);
    join_actors(&helpers);
    check_all_ended();
}

TEST(whoever_waits_for_room_gets_in_or_is_told) {
    run_races(200, race_for_room);
}

/* ---- nobody gets in --------------------------------------------------------------------- */

static void *produce_until_stopped(void *arg) {
    (void)arg;
    int rc;
    do {
        rc = lw_submit(race.engine, LW_TASK(.kind = chance(50) ? "plain" : "any"), NULL, NULL);
        if (rc == LW_OK)
            atomic_fetch_add(&race.accepted, 1);
    } while (rc == LW_OK);
    assert_status(rc, LW_ESTOPPING);
    return NULL;
}

static void race_stop_for_room(void) {
    struct actors producers = {.count = 0};
    open_engine();
    for (int i = between(1, PRODUCERS); i > 0; i--)
        add_actor(&producers, produce_until_stopped, NULL);
    dawdle(300);
    stop_engine(race.engine, any_stop_mode());
    join_actors(&producers);
    lw_engine_stats stats;
    assert_status(lw_get_stats(race.engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, atomic_load(&race.accepted));
    assert_status(lw_close(race.engine), LW_OK);
}

TEST(a_stop_tells_all_that_wait_for_room) {
    run_races(500, race_stop_for_room);
}
