/* Operators at work: retry, forget, cancel, pause and resume, all at once. */
#include "stress_engine.h"

#define TASKS 24
#define OPERATORS 3

static struct {
    lw_engine *engine;
    lw_id ids[TASKS];
    _Atomic uint32_t running[TASKS + 1];
    _Atomic bool is_calm; /* from now on everything works */
} race;

static lw_outcome do_what_it_can(lw_ctx *ctx, const lw_task *task) {
    CHECK(task->id <= TASKS);
    CHECK(atomic_fetch_add(&race.running[task->id], 1) == 0);
    if (chance(20))
        dawdle(30);
    atomic_fetch_sub(&race.running[task->id], 1);
    switch (atomic_load(&race.is_calm) ? 9 : dice(6)) {
    case 0: return lw_fail(ctx, "no");
    case 1: return lw_retry_after(ctx, 60000, "much later");
    case 2: return lw_retry(ctx, "again");
    case 3: return lw_snooze(ctx, (int64_t)dice(2) * 60000);
    default: return lw_done(ctx);
    }
}

static void change_one(lw_id id) {
    int rc;
    switch (dice(4)) {
    case 0:
        rc = lw_cancel(race.engine, id);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_ENOTFOUND);
        break;
    case 1:
        rc = lw_forget(race.engine, id);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_ENOTFOUND);
        break;
    default:
        rc = lw_retry_now(race.engine, id, NULL);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_ENOTFOUND || rc == LW_EINVAL
              || rc == LW_EXISTS || rc == LW_EFULL);
        break;
    }
}

static void *operate(void *arg) {
    (void)arg;
    for (int i = 0; i < 60; i++) {
        switch (dice(8)) {
        case 0: lw_pause(race.engine, "default"); break;
        case 1: lw_resume(race.engine, "default"); break;
        default: change_one(race.ids[dice(TASKS)]); break;
        }
        if (chance(20))
            dawdle(20);
    }
    return NULL;
}

/* Whoever is scheduled runs now, whoever is enqueued runs since the queue is open: all can end. */
static void end_all(void) {
    atomic_store(&race.is_calm, true);
    assert_status(lw_resume(race.engine, "default"), LW_OK);
    for (int i = 0; i < TASKS; i++) {
        lw_snapshot snapshot = LW_SNAPSHOT_INIT;
        int rc = lw_get(race.engine, race.ids[i], &snapshot);
        while (rc == LW_OK && !lw_state_is_terminal(snapshot.state)) {
            lw_retry_now(race.engine, race.ids[i], NULL);
            if (lw_wait(race.engine, race.ids[i], 1, NULL) != LW_PENDING)
                break;
            rc = lw_get(race.engine, race.ids[i], &snapshot);
        }
        lw_snapshot_clear(&snapshot);
    }
    assert_status(lw_wait_idle(race.engine, STRESS_HANG_MS), LW_OK);
}

static void check_figures(void) {
    lw_engine_stats s;
    assert_status(lw_get_stats(race.engine, &s), LW_OK);
    assert_int_equal(s.created + s.scheduled + s.enqueued + s.started, 0);
    assert_int_equal(s.submitted_total, TASKS);
    assert_int_equal(s.task_bytes, 0);
    assert_true(s.finished + s.failed + s.aborted <= TASKS);
}

static void race_steer(void) {
    struct actors operators = {.count = 0};
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 3)));
    const lw_retention none = {.finished_ms = LW_ZERO};
    lw_handle(race.engine, "what", do_what_it_can,
              LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO}, .retention = none,
                                 .concurrency = chance(30) ? 1 : 0),
              NULL);
    start_engine(race.engine);
    for (int i = 0; i < TASKS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        lw_task task = *LW_TASK(.kind = "what", .key = chance(30) ? key : NULL,
                                .payload = LW_TEXT("bytes"), .delay_ms = chance(30) ? 60000 : 0);
        assert_status(lw_submit(race.engine, &task, &race.ids[i], NULL), LW_OK);
    }
    for (int i = between(2, OPERATORS); i > 0; i--)
        add_actor(&operators, operate, NULL);
    join_actors(&operators);
    end_all();
    check_figures();
    stop_and_close_engine(race.engine, any_stop_mode());
}

TEST(operators_can_do_everything_at_once) {
    run_races(500, race_steer);
}
