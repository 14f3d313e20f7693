/* Handlers that wait for tasks (lw_wait): a worker that waits is replaced if no other is left, and
 * a wait that could never end is refused. */
#include "engines.h"

#include <legwork/lease.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define FOREVER (-1)
#define LONG_MS 200000

static struct gate gate = GATE;
static struct tally refused = TALLY, ran = TALLY;

static struct {
    _Atomic int count;
    char why[256];
} line; /* the one about a wait for ever */

static void keep_line(void *user, const lw_log_record *record) {
    (void)user;
    if (!strstr(record->message, "for ever"))
        return;
    atomic_fetch_add(&line.count, 1);
    for (size_t i = 0; i < record->field_count; i++)
        if (strcmp(record->fields[i].key, "why") == 0)
            snprintf(line.why, sizeof line.why, "%s", record->fields[i].value);
}

static const lw_log line_log = {.write = keep_line};

/* Submits one level less, and waits for it: its result is the number of levels below that were
 * waited for. */
static lw_outcome do_nest(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    int left = *(const int *)task->payload.data - 1, depth = 0;
    lw_snapshot child = LW_SNAPSHOT_INIT;
    lw_id id;
    tally_add(&ran, 1);
    if (left < 0)
        return lw_done_with(ctx, (lw_bytes){&depth, sizeof depth});
    assert_status(
        lw_submit(engine, LW_TASK(.kind = task->kind, .payload = {&left, sizeof left}), &id, NULL),
        LW_OK);
    int rc = lw_wait(engine, id, FOREVER, &child);
    if (rc == LW_OK) {
        assert_int_equal(child.state, LW_FINISHED);
        depth = *(const int *)child.result.data + 1;
    } else {
        assert_status(rc, LW_EDEADLOCK);
        tally_add(&refused, 1);
    }
    lw_snapshot_clear(&child);
    return lw_done_with(ctx, (lw_bytes){&depth, sizeof depth});
}

static int nest(lw_engine *engine, int levels) {
    lw_snapshot top = LW_SNAPSHOT_INIT;
    lw_id id = SUBMIT(engine, .kind = "nest", .payload = {&levels, sizeof levels});
    assert_status(lw_wait(engine, id, LONG_MS, &top), LW_OK);
    int depth = *(const int *)top.result.data;
    lw_snapshot_clear(&top);
    return depth;
}

static lw_engine *open_nest(const char *url, int workers, int stuck_max, int concurrency) {
    lw_engine *engine = OPEN_ON(url, .workers = workers, .stuck_max = stuck_max, .log = &line_log);
    handle(engine, "nest", do_nest, LW_HANDLER_OPTIONS(.user = engine, .concurrency = concurrency));
    start(engine);
    return engine;
}

/* ---- replaced ------------------------------------------------------------------------------ */

ENGINE_TEST(a_handler_waits_for_its_child_with_one_worker) {
    lw_engine *engine = open_nest(url, 1, 0, 0);
    for (int i = 0; i < 20; i++)
        assert_int_equal(nest(engine, 1), 1);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&refused), 0);
}

ENGINE_TEST(a_child_may_wait_for_a_child_as_deep_as_workers_can_be_replaced) {
    lw_engine *engine = open_nest(url, 1, 8, 0);
    assert_int_equal(nest(engine, 8), 8);
    assert_int_equal(tally_read(&refused), 0);
    close_engine(engine);
}

TEST(threads_that_replace_others_are_bounded_and_leave_again) {
    lw_engine *engine = open_nest("memory:", 1, 3, 0);
    lw_engine_stats stats;
    int threads = thread_count();
    assert_int_equal(nest(engine, 3), 3);
    await_that(lw_get_stats(engine, &stats) == LW_OK && stats.workers == 1);
    await_that(thread_count() <= threads);
    assert_int_equal(nest(engine, 3), 3); /* and can be had again */
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    assert_int_equal(stats.stuck_total, 0);
    close_engine(engine);
}

/* Many at once, of which each waits for two levels. */
ENGINE_TEST(many_handlers_wait_for_children_at_once) {
    enum { MANY = 60 };
    lw_engine *engine = open_nest(url, 2, 0, 0);
    lw_id ids[MANY];
    int levels = 2;
    for (int i = 0; i < MANY; i++)
        ids[i] = SUBMIT(engine, .kind = "nest", .payload = {&levels, sizeof levels});
    for (int i = 0; i < MANY; i++)
        assert_status(lw_wait(engine, ids[i], LONG_MS, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static lw_task child_task; /* of do_wait_child */
static int64_t child_timeout_ms;
static _Atomic int child_rc;
static _Atomic lw_id child_id;

static lw_outcome do_wait_child(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    lw_task child = child_task;
    lw_id id, after = task->id;
    if (child.after_count > 0)
        child.after = &after;
    assert_status(lw_submit(engine, &child, &id, NULL), LW_OK);
    atomic_store(&child_id, id);
    atomic_store(&child_rc, lw_wait(engine, id, child_timeout_ms, NULL));
    return lw_done(ctx);
}

static lw_engine *open_parent(int workers, int stuck_max) {
    lw_engine *engine = OPEN_ENGINE(.workers = workers, .stuck_max = stuck_max, .log = &line_log);
    handle(engine, "parent", do_wait_child, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "child", do_done, NULL);
    child_timeout_ms = FOREVER;
    atomic_store(&child_rc, 1000);
    atomic_store(&child_id, 0);
    return engine;
}

static void run_parent(lw_engine *engine, int rc) {
    lw_id id = SUBMIT(engine, .kind = "parent");
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    assert_status(atomic_load(&child_rc), rc);
    assert_status(lw_wait(engine, atomic_load(&child_id), LONG_MS, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, LONG_MS), LW_OK);
    close_engine(engine);
}

TEST(a_child_that_is_scheduled_for_later_is_waited_for) {
    lw_engine *engine = open_parent(1, 0);
    child_task = *LW_TASK(.kind = "child", .delay_ms = 2);
    start(engine);
    run_parent(engine, LW_OK);
}

TEST(a_wait_with_a_timeout_replaces_its_worker_too) {
    lw_engine *engine = open_parent(1, 0);
    child_task = *LW_TASK(.kind = "child");
    child_timeout_ms = LONG_MS;
    start(engine);
    run_parent(engine, LW_OK);
}

/* ---- for ever ------------------------------------------------------------------------------ */

TEST(a_wait_that_no_worker_is_left_for_is_refused_and_the_log_says_why) {
    lw_engine *engine = open_parent(1, LW_ZERO);
    child_task = *LW_TASK(.kind = "child");
    start(engine);
    run_parent(engine, LW_EDEADLOCK);
    assert_int_equal(atomic_load(&line.count), 1);
    assert_non_null(strstr(line.why, "worker"));
}

TEST(a_nest_that_is_deeper_than_workers_can_be_replaced_is_refused_at_the_bottom) {
    lw_engine *engine = open_nest("memory:", 1, 2, 0);
    assert_int_equal(nest(engine, 5), 2);
    tally_await(&ran, 6); /* those that nobody waits for submit more, which a stop would refuse */
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&ran), 6); /* each has run in the end */
    assert_true(tally_read(&refused) >= 1);
}

TEST(a_wait_for_a_kind_whose_attempts_all_wait_is_refused) {
    lw_engine *engine = open_nest("memory:", 4, 0, 1);
    assert_int_equal(nest(engine, 1), 0);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&refused), 1);
    assert_non_null(strstr(line.why, "concurrency"));
    engine = open_nest("memory:", 4, 0, 3);
    assert_int_equal(nest(engine, 2), 2);
    assert_true(nest(engine, 3) < 3); /* whoever is the last to wait is refused */
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&refused), 2);
    assert_int_equal(tally_read(&ran), 2 + 3 + 4); /* each has run in the end */
}

TEST(a_child_that_comes_after_its_parent_cannot_be_waited_for) {
    lw_engine *engine = open_parent(4, 0);
    child_task = *LW_TASK(.kind = "child", .after_count = 1);
    start(engine);
    run_parent(engine, LW_EDEADLOCK);
}

static lw_id pair[2];

static lw_outcome do_wait_other(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    tally_add(&gate.arrived, 1);
    tally_await(&gate.arrived, 2);
    tally_await(&gate.opened, 1);
    int rc = lw_wait(engine, pair[task->id == pair[0]], FOREVER, NULL);
    CHECK(rc == LW_OK || rc == LW_EDEADLOCK);
    if (rc == LW_EDEADLOCK)
        tally_add(&refused, 1);
    return lw_done(ctx);
}

TEST(of_two_that_wait_for_each_other_the_second_is_refused) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .log = &line_log);
    handle(engine, "pair", do_wait_other, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    for (int i = 0; i < 2; i++)
        pair[i] = SUBMIT(engine, .kind = "pair");
    tally_await(&gate.arrived, 2);
    gate_open(&gate);
    for (int i = 0; i < 2; i++)
        assert_status(lw_wait(engine, pair[i], LONG_MS, NULL), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&refused), 1);
    assert_non_null(strstr(line.why, "each other"));
}

TEST(without_workers_nobody_could_run_it) {
    lw_engine *engine = open_parent(LW_ZERO, 0);
    child_task = *LW_TASK(.kind = "child");
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "parent");
    assert_int_equal(lw_test_run(engine), 2);
    assert_status(atomic_load(&child_rc), LW_EDEADLOCK);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    assert_int_equal(state_of(engine, atomic_load(&child_id)), LW_FINISHED);
    close_engine(engine);
}

/* ---- not for ever -------------------------------------------------------------------------- */

static void expect_still_waiting(lw_engine *engine, lw_id parent) {
    await_that(atomic_load(&child_id) != 0);
    assert_int_equal(state_of(engine, parent), LW_STARTED);
    assert_int_equal(atomic_load(&line.count), 0);
}

TEST(a_child_that_somebody_else_runs_is_waited_for_without_a_worker) {
    lw_engine *engine = open_parent(1, LW_ZERO);
    child_task = *LW_TASK(.kind = "elsewhere");
    start(engine);
    lw_id parent = SUBMIT(engine, .kind = "parent");
    expect_still_waiting(engine, parent);
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_int_equal(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "worker"), &task, NULL), 1);
    lw_settlement end = {.id = task.id, .token = task.token, .outcome = LW_OUTCOME_DONE};
    assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    assert_status(end.status, LW_OK);
    lw_snapshot_clear(&task);
    assert_status(lw_wait(engine, parent, LONG_MS, NULL), LW_OK);
    assert_status(atomic_load(&child_rc), LW_OK);
    close_engine(engine);
}

TEST(a_child_in_a_paused_queue_is_waited_for) {
    lw_engine *engine = open_parent(1, LW_ZERO);
    child_task = *LW_TASK(.kind = "child", .queue = "slow");
    lw_queue(engine, "slow", NULL, NULL);
    assert_status(lw_pause(engine, "slow"), LW_OK);
    start(engine);
    lw_id parent = SUBMIT(engine, .kind = "parent");
    expect_still_waiting(engine, parent);
    assert_status(lw_cancel(engine, atomic_load(&child_id)), LW_OK);
    assert_status(lw_wait(engine, parent, LONG_MS, NULL), LW_OK);
    assert_status(atomic_load(&child_rc), LW_OK);
    close_engine(engine);
}

static lw_outcome do_wait_or_pass(lw_ctx *ctx, const lw_task *task) {
    if (task->payload.size > 0)
        return do_wait_child(ctx, task);
    gate_pass(&gate);
    return lw_done(ctx);
}

/* One of its kind's two places is held by an attempt that will end. */
TEST(a_child_waits_for_a_place_that_will_be_free) {
    lw_engine *engine = open_parent(4, 0);
    handle(engine, "both", do_wait_or_pass, LW_HANDLER_OPTIONS(.user = engine, .concurrency = 2));
    child_task = *LW_TASK(.kind = "both");
    start(engine);
    SUBMIT(engine, .kind = "both");
    tally_await(&gate.arrived, 1);
    lw_id parent = SUBMIT(engine, .kind = "both", .payload = LW_TEXT("x"));
    expect_still_waiting(engine, parent);
    gate_open(&gate);
    assert_status(lw_wait(engine, parent, LONG_MS, NULL), LW_OK);
    assert_status(atomic_load(&child_rc), LW_OK);
    close_engine(engine);
}

TEST(a_wait_with_a_timeout_ends_by_itself) {
    lw_engine *engine = open_parent(1, LW_ZERO);
    child_task = *LW_TASK(.kind = "child");
    child_timeout_ms = 1;
    start(engine);
    run_parent(engine, LW_PENDING);
}

/* ---- callbacks, stops ---------------------------------------------------------------------- */

static lw_engine *told_engine;

static void wait_in_callback(void *user, const lw_snapshot *task) {
    lw_id id;
    (void)user, (void)task;
    assert_status(lw_submit(told_engine, LW_TASK(.kind = "child"), &id, NULL), LW_OK);
    assert_status(lw_wait(told_engine, id, FOREVER, NULL), LW_OK);
    tally_add(&ran, 1);
}

TEST(a_callback_may_wait_for_a_task_too) {
    lw_engine *engine = told_engine = open_parent(1, 0);
    start(engine);
    SUBMIT(engine, .kind = "child", .on_end = wait_in_callback);
    tally_await(&ran, 1);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static lw_outcome do_await_event(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    lw_events *events;
    lw_event event = {0};
    lw_id id;
    (void)task;
    assert_status(lw_events_open(engine, &events, 0), LW_OK);
    assert_status(lw_submit(engine, LW_TASK(.kind = "child"), &id, NULL), LW_OK);
    while (event.id != id || event.to != LW_FINISHED)
        assert_status(lw_events_next(events, &event, FOREVER), LW_OK);
    lw_events_close(events);
    return lw_done(ctx);
}

static lw_outcome do_child(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

TEST(a_handler_waits_for_an_event_of_its_child_with_one_worker) {
    lw_engine *engine = OPEN_ON("memory:", .workers = 1);
    handle(engine, "parent", do_await_event, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "child", do_child, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "parent");
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    close_engine(engine);
}

TEST(a_stop_that_drops_ends_the_wait) {
    lw_engine *engine = open_parent(1, 0);
    child_task = *LW_TASK(.kind = "child", .delay_ms = 3600000);
    start(engine);
    lw_id parent = SUBMIT(engine, .kind = "parent");
    expect_still_waiting(engine, parent);
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_status(atomic_load(&child_rc), LW_ESTOPPING);
    close_engine(engine);
}
