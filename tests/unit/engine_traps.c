/* The traps that naive registries and pools of this field fall into, one test each. */
#include "engines.h"

#include <stdatomic.h>
#include <stdio.h>

#define LONG_MS 200000

static struct gate gate = GATE;
static struct tally runs = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(endless_submits_to_a_slow_handler_leave_memory_flat) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = 100, .overflow = LW_REFUSE,
                                    .allocator = lw_test_memory_allocator(memory));
    uint64_t early, late;
    int refused = 0;
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    for (int i = 0; i < 1000; i++)
        refused += lw_submit(engine, LW_TASK(.kind = "slow", .payload = LW_TEXT("x")), NULL, NULL)
                   == LW_EFULL;
    assert_int_equal(refused, 900);
    lw_test_memory_usage(memory, NULL, &early, NULL);
    for (int i = 0; i < 20000; i++)
        lw_submit(engine, LW_TASK(.kind = "slow", .payload = LW_TEXT("x")), NULL, NULL);
    lw_test_memory_usage(memory, NULL, &late, NULL);
    assert_int_equal(late, early);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
    close_memory(memory);
}

TEST(a_stream_of_tasks_leaves_memory_flat) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine =
        OPEN_ENGINE(.workers = 2, .task_limit = 64, .allocator = lw_test_memory_allocator(memory));
    uint64_t early = 0, late;
    handle(engine, "mail", do_count, LW_HANDLER_OPTIONS(.retention = {.finished_max = 100}));
    start(engine);
    for (int i = 0; i < 60000; i++) {
        SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("payload"));
        if (i == 20000)
            lw_test_memory_usage(memory, NULL, &early, NULL);
    }
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    lw_test_memory_usage(memory, NULL, &late, NULL);
    assert_true(late < early + (64 << 10));
    close_engine(engine);
    close_memory(memory);
}

TEST(one_worker_and_a_queue_of_one_with_all_failing_does_not_dead_lock) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = 1);
    lw_engine_stats stats;
    handle(engine, "bad", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1, .attempts = 3}));
    start(engine);
    for (int i = 0; i < 50; i++)
        SUBMIT(engine, .kind = "bad"); /* blocks until the one before has used its attempts up */
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    await_that((lw_get_stats(engine, &stats), stats.failed_total) == 50);
    assert_int_equal(stats.retried_total, 100);
    close_engine(engine);
}

static lw_outcome do_breed(lw_ctx *ctx, const lw_task *task) {
    int left = *(const int *)task->payload.data - 1;
    for (int i = 0; left > 0 && i < 2; i++)
        assert_status(lw_submit(lw_ctx_user(ctx),
                                LW_TASK(.kind = "breed", .payload = {&left, sizeof left}), NULL,
                                NULL),
                      LW_OK);
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(tasks_that_submit_tasks_into_a_full_queue_do_not_dead_lock) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .task_limit = 1);
    int depth = 8;
    handle(engine, "breed", do_breed, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    SUBMIT(engine, .kind = "breed", .payload = {&depth, sizeof depth});
    tally_await(&runs, 255);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

struct poller {
    lw_engine *engine;
    lw_id id;
    _Atomic bool must_end;
    _Atomic long polls;
};

static void *poll_without_rest(void *arg) {
    struct poller *p = arg;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    while (!atomic_load(&p->must_end)) {
        assert_status(lw_get(p->engine, p->id, &s), LW_OK);
        atomic_fetch_add(&p->polls, 1);
    }
    lw_snapshot_clear(&s);
    return NULL;
}

TEST(polling_without_rest_starves_no_submitter) {
    struct poller p = {.engine = OPEN_ENGINE(.workers = 1)};
    pthread_t threads[4];
    handle(p.engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate, .concurrency = 1));
    handle(p.engine, "mail", do_count, NULL);
    p.id = SUBMIT(p.engine, .kind = "unknown");
    start(p.engine);
    for (int i = 0; i < 4; i++)
        threads[i] = start_thread(poll_without_rest, &p);
    await_that(atomic_load(&p.polls) > 1000);
    for (int i = 0; i < 5000; i++)
        SUBMIT(p.engine, .kind = "mail");
    tally_await(&runs, 5000);
    atomic_store(&p.must_end, true);
    for (int i = 0; i < 4; i++)
        join_thread(threads[i]);
    close_engine(p.engine);
}

static bool count(void *user, const lw_snapshot *task) {
    (void)task;
    ++*(int *)user;
    return true;
}

TEST(no_task_is_forgotten_at_a_stop) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    int left = 0;
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 500; i++)
        SUBMIT(engine, .kind = "gate", .delay_ms = i % 2 ? 100000 : 0);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_true(lw_list(engine, LW_FILTER(.is_unfinished = true, .limit = 1000), count, &left) > 0);
    assert_int_equal(left, 501); /* that of the gate was asked to give up, and is left as well */
    close_engine(engine);
}

TEST(the_end_of_a_request_does_not_kill_its_task) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    lw_ctx *request;
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    assert_status(lw_ctx_open(&request, LW_CTX_OPTIONS(.timeout_ms = 1), NULL), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "gate", .ctx = request);
    tally_await(&gate.arrived, 1);
    assert_status(lw_ctx_cancel(request), LW_OK);
    lw_ctx_close(request);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(an_idle_engine_with_many_waiting_tasks_has_nothing_to_do) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_count, NULL);
    start(engine);
    for (int i = 0; i < 100000; i++)
        SUBMIT(engine, .kind = "mail", .delay_ms = 1000000 + i);
    assert_int_equal(lw_test_advance(engine, 999999), 0);
    assert_int_equal(lw_test_advance(engine, 1), 1);
    assert_int_equal(lw_test_advance(engine, 99999), 99999);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_long_task_does_not_hold_up_the_short_ones_behind_it) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "mail", do_count, NULL);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    for (int i = 0; i < 3000; i++) /* until the workers hurry */
        SUBMIT(engine, .kind = "mail");
    SUBMIT(engine, .kind = "gate");
    for (int i = 0; i < 3000; i++)
        SUBMIT(engine, .kind = "mail");
    tally_await(&runs, 6000);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static lw_outcome do_sometimes_long(lw_ctx *ctx, const lw_task *task) {
    if (task->payload.size > 0)
        gate_pass(&gate);
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(a_long_task_of_a_kind_that_was_short_does_not_hold_up_its_own_kind) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "mail", do_sometimes_long, NULL);
    start(engine);
    for (int i = 0; i < 6000; i++)
        SUBMIT(engine, .kind = "mail", .payload = {"x", i == 3000});
    tally_await(&runs, 5999);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}
