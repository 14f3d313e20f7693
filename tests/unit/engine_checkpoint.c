/* Checkpoints: what a handler saves, and what the next attempt finds, on every store. */
#include "driven.h"
#include "stores.h"

#include <legwork/testing.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

/* ---- help --------------------------------------------------------------------------------- */

static lw_snapshot get(lw_engine *engine, lw_id id) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &snapshot), LW_OK);
    return snapshot;
}

static void assert_bytes(lw_bytes bytes, const char *text) {
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size + 1); /* with its zero */
}

/* ---- going on ----------------------------------------------------------------------------- */

/* Counts to ten, two each time; what it was given must not change under its hands. */
static lw_outcome count_to_ten(lw_ctx *ctx, const lw_task *task) {
    int at = 0, last;
    if (task->attempt == 1)
        assert_null(task->checkpoint.data);
    else
        CHECK(sscanf(task->checkpoint.data, "at %d", &at) == 1);
    assert_int_equal(at, 2 * (task->attempt - 1));
    for (last = at + 2; at < last; at++) {
        char position[32];
        snprintf(position, sizeof position, "at %d", at + 1);
        assert_status(lw_checkpoint_at(ctx, LW_TEXT(position), (uint64_t)at + 1, 10, position),
                      LW_OK);
    }
    if (task->checkpoint.data) {
        char before[32];
        snprintf(before, sizeof before, "at %d", at - 2);
        assert_bytes(task->checkpoint, before);
    }
    return at == 10 ? lw_done(ctx) : lw_retry(ctx, "more to do");
}

static void count_on(struct driven *d) {
    handle(d->engine, "count", count_to_ten, LW_HANDLER_OPTIONS(.retry = {.min_ms = 10}));
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "count");
    assert_int_equal(lw_test_run(d->engine), 1);
    lw_snapshot s = get(d->engine, id);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_bytes(s.checkpoint, "at 2");
    assert_int_equal(s.progress.done, 2);
    assert_string_equal(s.progress.text, "at 2");
    assert_int_equal(lw_test_advance(d->engine, 60000), 4);
    assert_status(lw_get(d->engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FINISHED);
    assert_int_equal(s.attempts, 5);
    assert_bytes(s.checkpoint, "at 10");
    lw_snapshot_clear(&s);
}

TEST(each_attempt_goes_on_where_the_one_before_was) {
    on_each_store(count_on);
}

/* One hand runs both: nothing of the one is shown to the other. */
static lw_outcome save_once(lw_ctx *ctx, const lw_task *task) {
    bool has_saved = task->checkpoint.data != NULL;
    assert_int_equal(has_saved, task->attempt > 1);
    assert_status(lw_checkpoint(ctx, LW_TEXT("x")), LW_OK);
    return has_saved ? lw_done(ctx) : lw_retry(ctx, "again");
}

static void save_by_turns(struct driven *d) {
    handle(d->engine, "save", save_once, LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO}));
    start(d->engine);
    for (int i = 0; i < 10; i++)
        SUBMIT(d->engine, .kind = "save");
    assert_int_equal(lw_test_run(d->engine), 20);
}

TEST(no_attempt_sees_the_position_of_another_task) {
    on_each_store(save_by_turns);
}

static lw_outcome save_and_stop(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    (void)task;
    assert_status(lw_checkpoint(ctx, LW_TEXT("half way")), LW_OK);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_PENDING);
    return lw_retry(ctx, "stopped");
}

static void stop_half_way(struct driven *d) {
    handle(d->engine, "save", save_and_stop, LW_HANDLER_OPTIONS(.user = d->engine));
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "save");
    lw_test_run(d->engine);
    if (strcmp(d->url, "memory:") != 0) {
        close_engine(d->engine);
        open_driven(d);
    }
    lw_snapshot s = get(d->engine, id);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_int_equal(s.attempts, 0); /* it was ended by the stop */
    assert_bytes(s.checkpoint, "half way");
    lw_snapshot_clear(&s);
}

TEST(a_stop_keeps_the_position_and_so_does_another_start) {
    on_each_store(stop_half_way);
}

static lw_outcome save_and_crash(lw_ctx *ctx, const lw_task *task) {
    if (task->attempt == 2) {
        assert_bytes(task->checkpoint, "before the crash");
        return lw_done(ctx);
    }
    assert_status(lw_checkpoint(ctx, LW_TEXT("before the crash")), LW_OK);
    pthread_exit(NULL);
}

TEST(an_attempt_that_loses_its_thread_has_saved_its_position) {
    const char *urls[STORES_MAX];
    for (size_t i = 0, count = list_stores(urls); i < count; i++) {
        lw_engine *engine;
        lw_snapshot s = LW_SNAPSHOT_INIT;
        assert_status(lw_open(&engine, urls[i], LW_ENGINE_OPTIONS(.workers = 1), NULL), LW_OK);
        handle(engine, "save", save_and_crash, LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO}));
        start(engine);
        assert_status(lw_wait(engine, SUBMIT(engine, .kind = "save"), -1, &s), LW_OK);
        assert_int_equal(s.state, LW_FINISHED);
        assert_int_equal(s.crashes, 1);
        lw_snapshot_clear(&s);
        close_engine(engine);
    }
}

/* ---- what cannot be ----------------------------------------------------------------------- */

static lw_outcome save_nonsense(lw_ctx *ctx, const lw_task *task) {
    static char large[LW_CHECKPOINT_MAX + 1];
    (void)task;
    assert_status(lw_checkpoint(ctx, LW_TEXT("good")), LW_OK);
    assert_status(lw_checkpoint(ctx, (lw_bytes){large, sizeof large}), LW_EINVAL);
    assert_status(lw_checkpoint(ctx, (lw_bytes){NULL, 1}), LW_EINVAL);
    assert_status(lw_checkpoint_at(ctx, (lw_bytes){NULL, 1}, 1, 2, "no"), LW_EINVAL);
    lw_snapshot s = get(lw_ctx_user(ctx), task->id);
    assert_bytes(s.checkpoint, "good");
    assert_int_equal(s.progress.done, 0);
    assert_status(lw_checkpoint_at(ctx, (lw_bytes){large, sizeof large - 1}, 1, 2, NULL), LW_OK);
    assert_status(lw_get(lw_ctx_user(ctx), task->id, &s), LW_OK);
    assert_int_equal(s.checkpoint.size, LW_CHECKPOINT_MAX);
    assert_string_equal(s.progress.text, "");
    assert_status(lw_checkpoint(ctx, (lw_bytes){NULL, 0}), LW_OK);
    assert_status(lw_get(lw_ctx_user(ctx), task->id, &s), LW_OK);
    assert_bytes(s.checkpoint, "");
    lw_snapshot_clear(&s);
    return lw_done(ctx);
}

static void run_nonsense(struct driven *d) {
    handle(d->engine, "save", save_nonsense, LW_HANDLER_OPTIONS(.user = d->engine));
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "save");
    assert_int_equal(lw_test_run(d->engine), 1);
    assert_int_equal(state_of(d->engine, id), LW_FINISHED);
}

TEST(what_is_no_position_is_refused_and_the_one_before_stays) {
    lw_ctx *ctx;
    on_each_store(run_nonsense);
    assert_status(lw_checkpoint(NULL, LW_TEXT("x")), LW_EINVAL);
    assert_status(lw_ctx_open(&ctx, NULL, NULL), LW_OK);
    assert_status(lw_checkpoint(ctx, LW_TEXT("x")), LW_EINVAL);
    assert_status(lw_checkpoint_at(ctx, LW_TEXT("x"), 1, 2, NULL), LW_EINVAL);
    lw_ctx_close(ctx);
}
