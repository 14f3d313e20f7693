/* Cancels that race with the beginning and the end of attempts, and limits that do. */
#include "stress_engine.h"

#define TASKS 8

struct errand {
    _Atomic uint32_t begun, done, ended;
    _Atomic bool is_aborted; /* lw_cancel said so */
    lw_state state;
    lw_id id;
};

static struct {
    lw_engine *engine;
    struct counter ended;
    struct errand errands[TASKS];
} race;

static struct errand *errand_of(const lw_task *task) {
    struct errand *errand;
    memcpy(&errand, task->payload.data, sizeof errand);
    return errand;
}

static lw_outcome do_errand(lw_ctx *ctx, const lw_task *task) {
    struct errand *errand = errand_of(task);
    CHECK(!atomic_load(&errand->is_aborted) && atomic_load(&errand->ended) == 0);
    atomic_fetch_add(&errand->begun, 1);
    if (chance(30))
        dawdle(50);
    if (lw_ctx_done(ctx) && chance(50))
        return lw_retry(ctx, "gave up");
    atomic_fetch_add(&errand->done, 1);
    return lw_done(ctx);
}

/* Runs until it is cancelled, one attempt after the other. */
static lw_outcome do_for_ever(lw_ctx *ctx, const lw_task *task) {
    struct errand *errand = errand_of(task);
    CHECK(!atomic_load(&errand->is_aborted) && atomic_load(&errand->ended) == 0);
    atomic_fetch_add(&errand->begun, 1);
    return chance(50) ? lw_retry(ctx, "again") : lw_snooze(ctx, (int64_t)dice(2));
}

static void on_errand_end(void *user, const lw_snapshot *task) {
    struct errand *errand = user;
    errand->state = task->state;
    CHECK(atomic_fetch_add(&errand->ended, 1) == 0);
    count_up(&race.ended);
}

static void open_engine(void) {
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 3)));
    const lw_retry_policy eager = {.min_ms = LW_ZERO};
    const lw_retention none = {.finished_ms = LW_ZERO, .aborted_ms = LW_ZERO};
    lw_handle(race.engine, "errand", do_errand, LW_HANDLER_OPTIONS(.retry = eager), NULL);
    lw_handle(race.engine, "ever", do_for_ever, LW_HANDLER_OPTIONS(.retry = eager), NULL);
    lw_handle(race.engine, "short", do_short, LW_HANDLER_OPTIONS(.retention = none), NULL);
    start_engine(race.engine);
}

static void submit_errand(struct errand *errand, const char *kind, int64_t start_by_ms) {
    lw_task task = *LW_TASK(.kind = kind, .payload = {&errand, sizeof errand},
                            .on_end = on_errand_end, .user = errand, .start_by_ms = start_by_ms);
    assert_status(lw_submit(race.engine, &task, &errand->id, NULL), LW_OK);
}

static void *cancel_all(void *arg) {
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        struct errand *errand = &race.errands[i];
        dawdle(20);
        int rc = lw_cancel(race.engine, errand->id);
        if (rc == LW_OK) /* it has not begun, or waits for its next attempt: it never will */
            atomic_store(&errand->is_aborted, true);
        CHECK(rc == LW_OK || rc == LW_PENDING || rc == LW_ENOTFOUND);
    }
    return NULL;
}

static void race_cancel(void) {
    struct actors actors = {.count = 0};
    open_engine();
    if (chance(50))
        make_hands_hurry(race.engine, "short", 200);
    for (int i = 0; i < TASKS; i++)
        submit_errand(&race.errands[i], "errand", 0);
    for (int i = between(1, 2); i > 0; i--)
        add_actor(&actors, cancel_all, NULL);
    join_actors(&actors);
    await_count(&race.ended, TASKS);
    stop_and_close_engine(race.engine, LW_DRAIN);
    for (int i = 0; i < TASKS; i++) {
        struct errand *errand = &race.errands[i];
        assert_int_equal(atomic_load(&errand->ended), 1);
        assert_int_equal(errand->state, atomic_load(&errand->done) ? LW_FINISHED : LW_ABORTED);
        if (atomic_load(&errand->is_aborted))
            assert_int_equal(errand->state, LW_ABORTED);
    }
}

TEST(a_cancelled_task_ends_once_and_aborted_ones_do_not_run) {
    run_races(250, race_cancel);
}

/* A cancel is not lost between two attempts. */
static void race_cancel_for_ever(void) {
    struct actors actors = {.count = 0};
    open_engine();
    for (int i = 0; i < TASKS; i++)
        submit_errand(&race.errands[i], "ever", 0);
    dawdle(200);
    add_actor(&actors, cancel_all, NULL);
    join_actors(&actors);
    await_count(&race.ended, TASKS);
    stop_and_close_engine(race.engine, LW_DRAIN);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(race.errands[i].state, LW_ABORTED);
}

TEST(a_cancelled_task_is_not_tried_again) {
    run_races(500, race_cancel_for_ever);
}

/* ---- limits ----------------------------------------------------------------------------- */

static lw_outcome do_heed(lw_ctx *ctx, const lw_task *task) {
    struct errand *errand = errand_of(task);
    atomic_fetch_add(&errand->begun, 1);
    for (int i = 0; i < 20 && !lw_ctx_done(ctx); i++)
        dawdle(20);
    return lw_ctx_done(ctx) ? lw_retry(ctx, "asked to give up") : lw_done(ctx);
}

/* What has begun in time is not disturbed by the limit of its start. */
static void race_start_by(void) {
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 2)));
    lw_handle(race.engine, "heed", do_heed, NULL, NULL);
    start_engine(race.engine);
    for (int i = 0; i < TASKS; i++)
        submit_errand(&race.errands[i], "heed", 1);
    await_count(&race.ended, TASKS);
    stop_and_close_engine(race.engine, LW_DRAIN);
    for (int i = 0; i < TASKS; i++) {
        struct errand *errand = &race.errands[i];
        assert_int_equal(errand->state, atomic_load(&errand->begun) ? LW_FINISHED : LW_ABORTED);
    }
}

TEST(what_has_begun_in_time_is_left_alone) {
    run_races(300, race_start_by);
}
