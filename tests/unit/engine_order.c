/* What runs next: priority, then due time, then id; kinds at their limit are skipped; queues take
 * turns by weight. */
#include "engines.h"

#include <stdatomic.h>
#include <string.h>

enum { MOST = 4096 };

static lw_id order[MOST];
static char queues[MOST];
static int ran;

static lw_outcome do_note(lw_ctx *ctx, const lw_task *task) {
    order[ran] = task->id;
    queues[ran++] = task->queue[0];
    return lw_done(ctx);
}

static lw_engine *open_driven(lw_clock *clock) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "task", do_note, NULL);
    handle(engine, "other", do_note, NULL);
    return engine;
}

TEST(smaller_priorities_come_first_and_the_default_is_1000) {
    lw_engine *engine = open_driven(NULL);
    start(engine);
    lw_id ids[6] = {SUBMIT(engine, .kind = "task", .priority = UINT32_MAX),
                    SUBMIT(engine, .kind = "task", .priority = 1001),
                    SUBMIT(engine, .kind = "other"),
                    SUBMIT(engine, .kind = "task", .priority = 999),
                    SUBMIT(engine, .kind = "other", .priority = 1),
                    SUBMIT(engine, .kind = "task", .priority = LW_ZERO)};
    assert_int_equal(lw_test_run(engine), 6);
    for (int i = 0; i < 6; i++)
        assert_int_equal(order[i], ids[5 - i]);
    close_engine(engine);
}

TEST(within_a_priority_the_one_that_was_due_first_comes_first) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    start(engine);
    lw_id late = SUBMIT(engine, .kind = "task", .delay_ms = 300);
    lw_id early = SUBMIT(engine, .kind = "other", .delay_ms = 100);
    assert_status(lw_pause(engine, "default"), LW_OK);
    lw_test_advance(engine, 200);
    lw_id middle = SUBMIT(engine, .kind = "task");
    lw_test_advance(engine, 200);
    lw_id last = SUBMIT(engine, .kind = "other");
    assert_status(lw_resume(engine, "default"), LW_OK);
    assert_int_equal(lw_test_run(engine), 4);
    assert_int_equal(order[0], early);
    assert_int_equal(order[1], middle);
    assert_int_equal(order[2], late);
    assert_int_equal(order[3], last);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(at_the_same_time_ids_decide_whatever_the_kind) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    start(engine);
    lw_id ids[50];
    for (int i = 0; i < 50; i++)
        ids[i] = SUBMIT(engine, .kind = i % 3 ? "task" : "other");
    assert_int_equal(lw_test_run(engine), 50);
    assert_memory_equal(order, ids, sizeof ids);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(any_mixture_comes_out_in_order) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_driven(clock);
    start(engine);
    static struct {
        int64_t priority, due;
        lw_id id;
    } tasks[500];
    unsigned dice = 12345;
    assert_status(lw_pause(engine, "default"), LW_OK);
    for (int i = 0; i < 500; i++) {
        dice = dice * 1103515245 + 12345;
        int64_t delay = dice >> 16 & 31, priority = 1 + (dice >> 24 & 7);
        tasks[i].priority = priority;
        tasks[i].due = delay;
        tasks[i].id = SUBMIT(engine, .kind = dice & 0x1000 ? "task" : "other", .delay_ms = delay,
                             .priority = priority);
    }
    lw_test_advance(engine, 100);
    assert_status(lw_resume(engine, "default"), LW_OK);
    assert_int_equal(lw_test_run(engine), 500);
    for (int i = 1; i < 500; i++) {
        lw_id a = order[i - 1] - tasks[0].id, b = order[i] - tasks[0].id;
        CHECK(tasks[a].priority < tasks[b].priority
              || (tasks[a].priority == tasks[b].priority
                  && (tasks[a].due < tasks[b].due
                      || (tasks[a].due == tasks[b].due && tasks[a].id < tasks[b].id))));
    }
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(queues_take_turns_by_weight) {
    lw_engine *engine = open_driven(NULL);
    int counts[128] = {0};
    assert_status(lw_queue(engine, "a", LW_QUEUE_OPTIONS(.weight = 5), NULL), LW_OK);
    assert_status(lw_queue(engine, "b", LW_QUEUE_OPTIONS(.weight = 3), NULL), LW_OK);
    assert_status(lw_queue(engine, "c", NULL, NULL), LW_OK);
    start(engine);
    for (int i = 0; i < 900; i++) { /* the heavy ones were submitted last */
        SUBMIT(engine, .kind = "task", .queue = "c");
        SUBMIT(engine, .kind = "task", .queue = "b");
        SUBMIT(engine, .kind = "task", .queue = "a");
    }
    assert_int_equal(lw_test_run(engine), 2700);
    for (int i = 0; i < 900; i++)
        counts[(unsigned char)queues[i]]++;
    assert_in_range(counts['a'], 490, 510);
    assert_in_range(counts['b'], 290, 310);
    assert_in_range(counts['c'], 90, 110);
    close_engine(engine);
}

TEST(a_queue_that_was_empty_for_long_has_saved_no_turns) {
    lw_engine *engine = open_driven(NULL);
    start(engine);
    for (int i = 0; i < 1000; i++)
        SUBMIT(engine, .kind = "task", .queue = "a");
    assert_int_equal(lw_test_run(engine), 1000);
    ran = 0;
    for (int i = 0; i < 100; i++) {
        SUBMIT(engine, .kind = "task", .queue = "a");
        SUBMIT(engine, .kind = "task", .queue = "b");
    }
    lw_test_run(engine);
    int b = 0;
    for (int i = 0; i < 100; i++)
        b += queues[i] == 'b';
    assert_in_range(b, 40, 60);
    close_engine(engine);
}

/* Long enough for other workers to look, and to find that the kind is at its limit. */
static lw_outcome do_note_slowly(lw_ctx *ctx, const lw_task *task) {
    lw_ctx_sleep(ctx, 1);
    return do_note(ctx, task);
}

TEST(queues_of_a_kind_at_its_limit_take_turns_too) {
    lw_engine *engine = OPEN_ENGINE(.workers = 4);
    int counts[128] = {0};
    handle(engine, "one", do_note_slowly, LW_HANDLER_OPTIONS(.concurrency = 1));
    assert_status(lw_queue(engine, "a", LW_QUEUE_OPTIONS(.weight = 3), NULL), LW_OK);
    for (int i = 0; i < 60; i++) {
        SUBMIT(engine, .kind = "one", .queue = "a");
        SUBMIT(engine, .kind = "one", .queue = "b");
        SUBMIT(engine, .kind = "one", .queue = "c");
    }
    start(engine);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    for (int i = 0; i < 60; i++)
        counts[(unsigned char)queues[i]]++;
    /* 36 of 60 by weight, 20 without; beside busy neighbours 31 were seen. */
    assert_in_range(counts['a'], 28, 44);
    assert_in_range(counts['b'], 6, 18);
    assert_in_range(counts['c'], 6, 18);
    close_engine(engine);
}

/* ---- kinds --------------------------------------------------------------------------------- */

static struct gate gate = GATE;
static struct tally finished = TALLY;

static lw_outcome do_tally(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&finished, 1);
    return lw_done(ctx);
}

TEST(a_kind_at_its_limit_is_skipped_and_keeps_no_worker_from_others) {
    lw_engine *engine = OPEN_ENGINE(.workers = 3);
    handle(engine, "slow", do_gate, LW_HANDLER_OPTIONS(.user = &gate, .concurrency = 1));
    handle(engine, "fast", do_tally, NULL);
    start(engine);
    for (int i = 0; i < 5; i++)
        SUBMIT(engine, .kind = "slow", .priority = 1);
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 100; i++)
        SUBMIT(engine, .kind = "fast");
    tally_await(&finished, 100);
    assert_int_equal(tally_read(&gate.arrived), 1);
    gate_open(&gate);
    tally_await(&gate.passed, 5);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
}

static _Atomic int inside, most;

static lw_outcome do_inside(lw_ctx *ctx, const lw_task *task) {
    int now = atomic_fetch_add(&inside, 1) + 1, seen = atomic_load(&most);
    while (now > seen && !atomic_compare_exchange_weak(&most, &seen, now))
        ;
    atomic_fetch_sub(&inside, 1);
    tally_add(&finished, 1);
    return task->id % 7 == 0 && task->attempt == 1 ? lw_retry(ctx, "again") : lw_done(ctx);
}

TEST(no_more_attempts_of_a_kind_run_at_once_than_it_says) {
    lw_engine *engine = OPEN_ENGINE(.workers = 6);
    handle(engine, "few", do_inside, LW_HANDLER_OPTIONS(.concurrency = 2, .retry = {.min_ms = 1}));
    start(engine);
    for (int i = 0; i < 3000; i++)
        SUBMIT(engine, .kind = "few", .queue = i % 2 ? "a" : "b");
    tally_await(&finished, 3000);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    assert_in_range(atomic_load(&most), 1, 2);
    close_engine(engine);
}

TEST(a_kind_that_nobody_registered_stays_enqueued) {
    lw_engine *engine = open_driven(NULL);
    lw_explanation why;
    start(engine);
    lw_id unknown = SUBMIT(engine, .kind = "unknown", .priority = 1);
    lw_id known = SUBMIT(engine, .kind = "task");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, known), LW_FINISHED);
    assert_int_equal(state_of(engine, unknown), LW_ENQUEUED);
    assert_status(lw_explain(engine, unknown, &why), LW_OK);
    assert_non_null(strstr(why.reasons[0], "handler"));
    close_engine(engine);
}

TEST(a_kind_with_options_but_no_handler_stays_enqueued_too) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "elsewhere", NULL, LW_HANDLER_OPTIONS(.concurrency = 3));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "elsewhere");
    assert_int_equal(lw_test_run(engine), 0);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    close_engine(engine);
}

TEST(a_function_under_the_name_of_an_unknown_kind_does_not_discard_its_tasks) {
    lw_engine *engine = open_driven(NULL);
    start(engine);
    lw_id waiting = SUBMIT(engine, .kind = "unknown");
    lw_id id = 0;
    lw_error err = {0};
    int rc = lw_submit(engine, LW_TASK(.kind = "unknown", .run = do_note), &id, &err);
    if (rc < 0)
        assert_sentence(&err, LW_EINVAL, "unknown");
    lw_test_run(engine);
    assert_int_equal(state_of(engine, waiting), LW_ENQUEUED);
    close_engine(engine);
}
