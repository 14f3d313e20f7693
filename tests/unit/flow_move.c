/* Moves: a new generation, the fence before it, what comes late, ends; waiting for all of it. */
#include "flows.h"

#include "engine/engine_internal.h"

#include <stdio.h>
#include <string.h>

static const char X[] = "example.org";

/* ---- the fence, on one thread: a step moves its own flow while it runs -------------------- */

FLOW_TEST(a_move_aborts_what_waits_and_starts_the_new_state) {
    rig->scripts[DBASE] = script_retry;
    start_flow(rig, X);
    run(rig);
    uint64_t generation = status_of(rig, X).generation;
    lw_id old = step_of(rig, X, DBASE).task;
    assert_status(move(rig, X, "deleting"), LW_OK);
    assert_int_equal(state_of(rig->engine, old), LW_ABORTED);
    lw_flow_status status = status_of(rig, X);
    assert_flow(rig, X, "deleting", LW_FLOW_ACTIVE);
    CHECK(status.generation > generation);
    assert_int_equal(status.step_count, 1);
    assert_int_equal(status.history_count, 2);
    assert_int_equal(status.history[0].generation, generation);
    assert_int_equal(status.history[1].generation, status.generation);
    assert_string_equal(status.payload, "body");
    assert_int_equal(run(rig), 1);
    CHECK(is_gone(rig, X));
    CHECK(rig->generations[WIPE] > generation);
    CHECK(!rig->is_unclean[WIPE]);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_MOVED), 1);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_GOAL), 1);
    assert_status(move(rig, X, "deleting"), LW_ENOTFOUND);
}

static lw_outcome delete_and_look(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    lw_outcome outcome = script_delete(rig, ctx, task);
    assert_flow(rig, X, "deleting", LW_FLOW_HELD);
    assert_int_equal(status_of(rig, X).open, 1);
    assert_int_equal(step_of(rig, X, WIPE).state, LW_STEP_HELD);
    assert_int_equal(step_of(rig, X, WIPE).task_state, LW_CREATED);
    assert_status(lw_progress(ctx, 1, 2, "late"), LW_ELEASE);
    assert_status(lw_then(ctx, LW_TASK(.kind = "late"), NULL), LW_OK);
    assert_status(lw_flow_set(rig->engine, "site", X, "gone", 0, NULL), LW_PENDING);
    assert_status(lw_flow_wait_fence(rig->engine, "site", X, 0, NULL), LW_PENDING);
    assert_status(lw_flow_wait_fence(rig->engine, "site", X, -1, NULL), LW_EDEADLOCK);
    return outcome;
}

FLOW_TEST(what_runs_holds_up_the_new_state_and_has_no_effect_any_more) {
    rig->scripts[FILES] = delete_and_look;
    start_flow(rig, X);
    assert_int_equal(run(rig), 3); /* save, files, wipe; never db or boot */
    CHECK(is_gone(rig, X));
    assert_int_equal(rig->runs[DBASE] + rig->runs[BOOT], 0);
    assert_int_equal(rig->runs[WIPE], 1);
    CHECK(!rig->is_unclean[WIPE]);
    assert_int_equal(count_events(rig, LW_FLOW_EVENT_FLAG), 2); /* metadata, gone */
    lw_engine_stats stats;
    assert_status(lw_get_stats(rig->engine, &stats), LW_OK);
    assert_int_equal(stats.enqueued, 0); /* nor was its successor submitted */
}

static lw_outcome delete_and_say_nothing(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    script_delete(rig, ctx, task);
    return (lw_outcome)0;
}

FLOW_TEST(an_attempt_that_returns_nonsense_has_returned_all_the_same) {
    rig->scripts[FILES] = delete_and_say_nothing;
    start_flow(rig, X);
    run(rig);
    CHECK(is_gone(rig, X));
    CHECK(!rig->is_unclean[WIPE]);
}

FLOW_TEST(a_lost_attempt_makes_the_next_generation_unclean) {
    start_flow(rig, X);
    run(rig);
    start_flow(rig, "y");
    assert_status(lw_test_fail_next(rig->engine, "site.save", 1, (lw_outcome)0, NULL), LW_OK);
    run(rig);
    assert_status(move(rig, "y", "deleting"), LW_OK);
    CHECK(status_of(rig, "y").is_unclean);
    run(rig);
    CHECK(is_gone(rig, "y"));
    CHECK(rig->is_unclean[WIPE]);
    assert_status(move(rig, X, "deleting"), LW_OK);
    run(rig);
    CHECK(!rig->is_unclean[WIPE]);
}

static lw_outcome move_twice(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    assert_status(move(rig, task->key, "deleting"), LW_PENDING);
    lw_id first = step_of(rig, task->key, WIPE).task;
    uint64_t generation = status_of(rig, task->key).generation;
    assert_status(move(rig, task->key, "deleting"), LW_EXISTS);
    assert_status(move(rig, task->key, "suspended"), LW_PENDING);
    assert_int_equal(state_of(rig->engine, first), LW_ABORTED);
    assert_flow(rig, task->key, "suspended", LW_FLOW_HELD);
    CHECK(status_of(rig, task->key).generation > generation);
    return lw_done(ctx);
}

FLOW_TEST(a_later_move_supersedes_one_that_waits) {
    rig->scripts[DBASE] = move_twice;
    start_flow(rig, X);
    run(rig);
    assert_flow(rig, X, "suspended", LW_FLOW_AT_GOAL);
    assert_int_equal(rig->runs[WIPE], 0);
    assert_status(move(rig, X, "suspended"), LW_EXISTS);
    rig->scripts[DBASE] = NULL;
    assert_status(move(rig, X, "creating"), LW_OK);
    run(rig);
    assert_flow(rig, X, "running", LW_FLOW_AT_GOAL);
    assert_status(move(rig, X, "creating"), LW_EXISTS); /* it is at its goal */
}

static lw_outcome delete_and_force(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    lw_outcome outcome = script_delete(rig, ctx, task);
    assert_status(lw_flow_force(rig->engine, "site", X, NULL), LW_OK);
    assert_flow(rig, X, "deleting", LW_FLOW_ACTIVE);
    assert_int_equal(step_of(rig, X, WIPE).task_state, LW_ENQUEUED);
    return outcome;
}

FLOW_TEST(an_operator_forces_the_fence_and_the_step_is_told) {
    rig->scripts[SAVE] = delete_and_force;
    start_flow(rig, X);
    run(rig);
    CHECK(is_gone(rig, X));
    CHECK(rig->is_unclean[WIPE]);
    start_flow(rig, X);
    assert_status(lw_flow_force(rig->engine, "site", X, NULL), LW_OK); /* nothing to force */
}

FLOW_TEST(without_the_fence_nobody_waits) {
    assert_status(lw_test_unfence(NULL), LW_EINVAL);
    assert_status(lw_test_unfence(rig->engine), LW_OK);
    start_flow(rig, X);
    run(rig);
    assert_status(move(rig, X, "deleting"), LW_OK);
    run(rig);
    CHECK(is_gone(rig, X));
}

/* ---- ends --------------------------------------------------------------------------------- */

FLOW_TEST(an_end_frees_the_id_for_a_new_start) {
    uint64_t generation = 0;
    for (int i = 0; i < 3; i++) {
        start_flow(rig, X);
        CHECK(status_of(rig, X).generation > generation);
        generation = status_of(rig, X).generation;
        assert_int_equal(status_of(rig, X).history_count, 1);
        if (i > 0)
            run(rig);
        assert_status(move(rig, X, "deleting"), LW_OK);
        run(rig);
        CHECK(is_gone(rig, X));
    }
}

FLOW_TEST(the_history_keeps_the_first_and_the_last) {
    start_flow(rig, X);
    for (int i = 0; i < 20; i++) {
        lw_test_clock_advance(rig->clock, 1000);
        assert_status(move(rig, X, i % 2 ? "creating" : "suspended"), LW_OK);
    }
    lw_flow_status status = status_of(rig, X);
    assert_int_equal(status.history_count, LW_FLOW_HISTORY_MAX);
    assert_int_equal(status.history_dropped, 21 - LW_FLOW_HISTORY_MAX);
    assert_int_equal(status.history[0].at_ms, status.started_ms);
    assert_int_equal(status.history[1].at_ms - status.started_ms, 6000);
    for (unsigned i = 1; i < status.history_count; i++) {
        CHECK(status.history[i].generation > status.history[i - 1].generation);
        CHECK(status.history[i].at_ms > status.history[i - 1].at_ms);
    }
    assert_int_equal(status.history[LW_FLOW_HISTORY_MAX - 1].generation, status.generation);
    assert_int_equal(status.since_ms, status.history[LW_FLOW_HISTORY_MAX - 1].at_ms);
}

TEST(an_end_without_steps_is_reached_at_once) {
    const lw_step steps[] = {{.name = "a", .run = do_retry, .state = "s"}};
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    lw_flow_status status;
    assert_status(lw_flow_register(engine,
                                   LW_FLOW(.name = "f", .steps = LW_STEPS(steps),
                                           .states = {{"s", .goal = "g"}, {"x", .end = true}}),
                                   NULL),
                  LW_OK);
    start(engine);
    assert_status(lw_flow_start(engine, "f", "1", LW_TEXT(""), NULL), LW_OK);
    lw_test_run(engine);
    assert_status(lw_flow_move(engine, "f", "1", "x", NULL), LW_OK);
    assert_status(lw_flow_get(engine, "f", "1", &status), LW_ENOTFOUND);
    assert_int_equal(lw_test_advance(engine, 100000), 0); /* its step was aborted */
    assert_status(lw_flow_start(engine, "f", "1", LW_TEXT(""), NULL), LW_OK);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- threads ------------------------------------------------------------------------------ */

struct bench {
    struct flow_rig rig;
    struct gate gate;
    struct tally begun;
    bool is_deaf;
};

static lw_outcome wait_at_gate(struct flow_rig *rig, lw_ctx *ctx, const lw_task *task) {
    struct bench *bench = rig->user;
    (void)task;
    tally_add(&bench->begun, 1);
    if (bench->is_deaf)
        gate_pass(&bench->gate);
    else
        lw_ctx_sleep(ctx, 60000); /* until it is asked to give up */
    return lw_ctx_done(ctx) ? lw_retry(ctx, "gave up") : lw_done(ctx);
}

static void await_waiters(struct bench *bench, unsigned count) {
    await_that(atomic_load(&bench->rig.engine->scope_await_count) == count);
}

static struct bench *open_bench(bool is_deaf) {
    static struct bench bench;
    bench = (struct bench){.gate = GATE, .begun = TALLY, .is_deaf = is_deaf};
    bench.rig.user = &bench;
    bench.rig.engine = OPEN_ENGINE(.workers = 3);
    bench.rig.scripts[DBASE] = wait_at_gate;
    assert_status(register_site(bench.rig.engine, &bench.rig, NULL), LW_OK);
    start(bench.rig.engine);
    return &bench;
}

TEST(a_running_step_learns_of_a_move_through_its_context) {
    struct bench *bench = open_bench(false);
    start_flow(&bench->rig, X);
    tally_await(&bench->begun, 1);
    CHECK(move(&bench->rig, X, "deleting") >= 0);
    await_that(is_gone(&bench->rig, X)); /* long before a minute has passed */
    assert_int_equal(bench->rig.runs[WIPE], 1);
    close_engine(bench->rig.engine);
}

static void *wait_for_fence(void *user) {
    struct bench *bench = user;
    lw_flow_status status;
    assert_status(lw_flow_wait_fence(bench->rig.engine, "site", X, -1, &status), LW_OK);
    CHECK(tally_read(&bench->begun) == 1 && status.open == 0);
    return NULL;
}

static void *wait_for_end(void *user) {
    struct bench *bench = user;
    lw_flow_status status;
    assert_status(lw_flow_wait(bench->rig.engine, "site", X, -1, &status), LW_OK);
    assert_int_equal(status.condition, LW_FLOW_GONE);
    assert_string_equal(status.flow, "site");
    assert_string_equal(status.id, X);
    return NULL;
}

TEST(the_fence_is_waited_for_with_a_timeout) {
    struct bench *bench = open_bench(true);
    lw_flow_status status;
    start_flow(&bench->rig, X);
    tally_await(&bench->begun, 1);
    assert_status(move(&bench->rig, X, "deleting"), LW_PENDING);
    do /* another step may have been running, too */
        assert_status(lw_flow_wait_fence(bench->rig.engine, "site", X, 0, &status), LW_PENDING);
    while (status.open > 1);
    assert_int_equal(status.open, 1);
    assert_status(lw_flow_wait_fence(bench->rig.engine, "site", X, 20, &status), LW_PENDING);
    assert_int_equal(status.condition, LW_FLOW_HELD);
    assert_status(lw_flow_wait(bench->rig.engine, "site", X, 20, &status), LW_PENDING);
    pthread_t fence = start_thread(wait_for_fence, bench), end = start_thread(wait_for_end, bench);
    await_waiters(bench, 2);
    gate_open(&bench->gate);
    join_thread(fence);
    join_thread(end);
    assert_int_equal(bench->rig.runs[WIPE], 1);
    close_engine(bench->rig.engine);
}

static void *wait_until_it_rests(void *user) {
    struct bench *bench = user;
    lw_flow_status status;
    assert_status(lw_flow_wait(bench->rig.engine, "site", X, -1, &status), LW_OK);
    return (void *)(intptr_t)status.condition;
}

static lw_flow_condition rest_after(struct bench *bench, step_script last) {
    void *condition;
    bench->rig.scripts[BOOT] = last;
    start_flow(&bench->rig, X);
    pthread_t thread = start_thread(wait_until_it_rests, bench);
    tally_await(&bench->begun, 1);
    await_waiters(bench, 1);
    gate_open(&bench->gate);
    CHECK(pthread_join(thread, &condition) == 0);
    close_engine(bench->rig.engine);
    return (lw_flow_condition)(intptr_t)condition;
}

TEST(a_wait_ends_at_the_goal) {
    assert_int_equal(rest_after(open_bench(true), NULL), LW_FLOW_AT_GOAL);
}

TEST(a_wait_ends_when_the_flow_is_halted) {
    assert_int_equal(rest_after(open_bench(true), script_fail), LW_FLOW_HALTED);
}

TEST(a_wait_ends_when_the_flow_is_aborted) {
    assert_int_equal(rest_after(open_bench(true), script_abort), LW_FLOW_ABORTED);
}

TEST(a_wait_ends_when_the_task_of_a_step_is_cancelled) {
    struct bench *bench = open_bench(true);
    void *condition;
    bench->rig.scripts[FILES] = script_retry;
    start_flow(&bench->rig, X);
    pthread_t thread = start_thread(wait_until_it_rests, bench);
    tally_await(&bench->begun, 1);
    await_that(step_of(&bench->rig, X, FILES).task_state == LW_SCHEDULED);
    await_waiters(bench, 1);
    CHECK(lw_cancel(bench->rig.engine, step_of(&bench->rig, X, FILES).task) >= 0);
    CHECK(pthread_join(thread, &condition) == 0); /* even if it has been tried again just now */
    assert_int_equal((intptr_t)condition, LW_FLOW_HALTED);
    gate_open(&bench->gate);
    close_engine(bench->rig.engine);
}

TEST(a_wait_is_for_the_resource_and_not_for_the_next_one_of_that_name) {
    struct bench *bench = open_bench(true);
    start_flow(&bench->rig, X);
    pthread_t thread = start_thread(wait_for_end, bench);
    tally_await(&bench->begun, 1);
    await_waiters(bench, 1);
    assert_status(move(&bench->rig, X, "deleting"), LW_PENDING);
    gate_open(&bench->gate);
    await_that(is_gone(&bench->rig, X));
    bench->gate = (struct gate)GATE;
    start_flow(&bench->rig, X); /* and rests nowhere */
    tally_await(&bench->begun, 2);
    join_thread(thread);
    gate_open(&bench->gate);
    close_engine(bench->rig.engine);
}
