/* Successors: submitted together with the outcome, if that is done, and only then. */
#include "engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct tally runs = TALLY, drops = TALLY;
static lw_outcome how_it_ends;
static int then_status;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static lw_outcome end(lw_ctx *ctx) {
    switch (how_it_ends) {
    case LW_OUTCOME_RETRY: return lw_retry(ctx, "again");
    case LW_OUTCOME_FAIL: return lw_fail(ctx, "no");
    case LW_OUTCOME_ABORT: return lw_abort(ctx, "not wanted");
    case LW_OUTCOME_SNOOZE: return lw_snooze(ctx, 1000);
    default: return lw_done(ctx);
    }
}

static lw_outcome do_then(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    then_status = lw_then(ctx, LW_TASK(.kind = "next", .payload = LW_TEXT("payload")), NULL);
    lw_engine_stats stats;
    assert_status(lw_get_stats(lw_ctx_user(ctx), &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 1); /* nothing yet */
    return end(ctx);
}

static lw_engine *open_with(lw_handler run, const lw_engine_options *options) {
    lw_engine *engine = open_engine(options);
    handle(engine, "first", run,
           LW_HANDLER_OPTIONS(.user = engine, .retry = {.attempts = 1, .min_ms = 1000}));
    handle(engine, "next", do_count, NULL);
    start(engine);
    return engine;
}

static lw_engine *open_driven(lw_handler run) {
    return open_with(run, LW_ENGINE_OPTIONS(.workers = LW_ZERO));
}

TEST(a_successor_is_submitted_with_the_outcome) {
    lw_engine *engine = open_driven(do_then);
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2);
    assert_status(then_status, LW_OK);
    assert_int_equal(tally_read(&runs), 1);
    close_engine(engine);
}

TEST(only_an_attempt_that_is_done_has_successors) {
    const lw_outcome others[] = {LW_OUTCOME_RETRY, LW_OUTCOME_FAIL, LW_OUTCOME_ABORT,
                                 LW_OUTCOME_SNOOZE};
    for (int i = 0; i < 4; i++) {
        lw_test_memory *memory = open_memory();
        lw_engine *engine =
            open_with(do_then, LW_ENGINE_OPTIONS(.workers = LW_ZERO,
                                                 .allocator = lw_test_memory_allocator(memory)));
        how_it_ends = others[i];
        SUBMIT(engine, .kind = "first");
        assert_int_equal(lw_test_run(engine), 1);
        close_engine(engine);
        close_memory(memory);
    }
    assert_int_equal(tally_read(&runs), 0);
}

static lw_outcome do_then_exit(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.run = do_count, .on_drop = count_drop), NULL), LW_OK);
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .payload = LW_TEXT("x")), NULL), LW_OK);
    pthread_exit(NULL);
}

TEST(an_attempt_that_crashes_has_none) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "first", do_then_exit, LW_HANDLER_OPTIONS(.retry = {.crashes = LW_ZERO}));
    handle(engine, "next", do_count, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_status(lw_wait(engine, id, 200000, NULL), LW_OK);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&runs), 0);
    assert_int_equal(tally_read(&drops), 1);
}

/* ---- arguments ----------------------------------------------------------------------------- */

static lw_outcome do_then_call(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.run = do_count, .on_drop = count_drop), NULL), LW_OK);
    assert_status(lw_then(ctx, LW_TASK(.run = do_count, .on_drop = count_drop), NULL), LW_OK);
    return end(ctx);
}

TEST(the_argument_of_a_successor_that_was_not_submitted_is_handed_back) {
    lw_engine *engine = open_driven(do_then_call);
    how_it_ends = LW_OUTCOME_FAIL;
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(tally_read(&drops), 2);
    how_it_ends = LW_OUTCOME_DONE;
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 3);
    assert_int_equal(tally_read(&drops), 2);
    assert_int_equal(tally_read(&runs), 2);
    close_engine(engine);
}

/* Frees its argument, as whoever is done with it may. */
static lw_outcome do_take_then_many(lw_ctx *ctx, const lw_task *task) {
    free(task->arg);
    tally_add(&runs, 1);
    for (int i = 0; i < 2; i++)
        assert_status(lw_then(ctx, LW_TASK(.run = do_count, .on_drop = count_drop), NULL), LW_OK);
    return lw_done(ctx);
}

static lw_outcome do_take_and_say_too_much(lw_ctx *ctx, const lw_task *task) {
    free(task->arg);
    tally_add(&runs, 1);
    return lw_done_with(ctx, (lw_bytes){"x", LW_PAYLOAD_MAX + 1});
}

static void free_drop(void *arg) {
    free(arg);
    tally_add(&drops, 1);
}

TEST(a_function_that_was_done_never_gets_its_argument_again) {
    const struct {
        lw_handler run;
        const char *error;
        int successor_drops;
    } cases[] = {{do_take_then_many, "room", 2}, {do_take_and_say_too_much, "LW_PAYLOAD_MAX", 0}};
    lw_snapshot s = LW_SNAPSHOT_INIT;
    for (int i = 0; i < 2; i++) {
        lw_clock *clock = open_clock();
        lw_engine *engine =
            OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .task_limit = 1, .reserve = LW_ZERO);
        start(engine);
        long ran = tally_read(&runs), dropped = tally_read(&drops);
        lw_id id = SUBMIT(engine, .run = cases[i].run, .arg = malloc(8), .on_drop = free_drop);
        assert_int_equal(lw_test_advance(engine, 3600000), 1);
        assert_status(lw_get(engine, id, &s), LW_OK);
        assert_int_equal(s.state, LW_FAILED);
        assert_non_null(strstr(s.last_error, cases[i].error));
        close_engine(engine);
        lw_test_clock_close(clock);
        assert_int_equal(tally_read(&runs) - ran, 1);
        assert_int_equal(tally_read(&drops) - dropped, cases[i].successor_drops);
    }
    lw_snapshot_clear(&s);
}

/* ---- keys ---------------------------------------------------------------------------------- */

static lw_outcome do_then_key(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    for (int i = 0; i < 3; i++)
        assert_status(lw_then(ctx,
                              LW_TASK(.kind = "call", .key = "one", .run = do_count,
                                      .on_drop = count_drop, .payload = LW_TEXT("bytes")),
                              NULL),
                      LW_OK);
    return lw_done(ctx);
}

TEST(a_successor_whose_key_is_taken_is_no_failure_and_nothing_leaks) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine =
        open_with(do_then_key, LW_ENGINE_OPTIONS(.workers = LW_ZERO,
                                                 .allocator = lw_test_memory_allocator(memory)));
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    assert_int_equal(tally_read(&runs), 1);
    assert_int_equal(tally_read(&drops), 2);
    close_engine(engine);
    close_memory(memory);
}

/* A chain: each link submits the next one under its own key. */
static lw_outcome do_chain_key(lw_ctx *ctx, const lw_task *task) {
    int left = *(const int *)task->payload.data - 1;
    assert_string_equal(task->key, "chain");
    for (int i = 0; left > 0 && i < 2; i++) /* of two the first stands for both */
        assert_status(
            lw_then(ctx,
                    LW_TASK(.kind = "first", .key = task->key, .payload = {&left, sizeof left}),
                    NULL),
            LW_OK);
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void chain_by_key(const char *url, int workers) {
    enum { LINKS = 20 };
    long before = tally_read(&runs);
    lw_engine *engine = OPEN_ON(url, .workers = workers);
    int left = LINKS;
    handle(engine, "first", do_chain_key, NULL);
    start(engine);
    SUBMIT(engine, .kind = "first", .key = "chain", .payload = {&left, sizeof left});
    if (workers == LW_ZERO)
        lw_test_run(engine);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    assert_int_equal(tally_read(&runs) - before, LINKS);
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.finished, LINKS);
    assert_int_equal(stats.existed_total, LINKS - 1);
    close_engine(engine);
}

ENGINE_TEST(a_successor_may_have_the_key_of_its_own_task) {
    chain_by_key(url, LW_ZERO);
}

ENGINE_TEST(a_chain_under_one_key_runs_on_workers) {
    chain_by_key(url, 2);
}

static lw_outcome do_then_kept_key(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    assert_status(lw_then(ctx, LW_TASK(.kind = "first", .key = task->key), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, lw_ctx_user(ctx));
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .key = task->key), &err), LW_OK);
    if (strcmp(task->key, "own") != 0)
        return lw_abort(ctx, "enough");
    assert_status(lw_then(ctx, LW_TASK(.kind = "first", .key = "other"), &err), LW_OK);
    return lw_done(ctx);
}

ENGINE_TEST(a_task_that_keeps_its_key_beyond_its_end_has_no_successor_of_that_key) {
    const struct {
        lw_key_scope scope;
        const char *name;
    } cases[] = {{LW_KEY_RETAINED, "LW_KEY_RETAINED"}, {LW_KEY_WINDOW, "LW_KEY_WINDOW"}};
    for (int i = 0; i < 2; i++) {
        lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO);
        handle(engine, "first", do_then_kept_key,
               LW_HANDLER_OPTIONS(.key_scope = cases[i].scope, .key_window_ms = 60000,
                                  .user = (void *)(uintptr_t)cases[i].name));
        handle(engine, "next", do_count, NULL);
        start(engine);
        lw_id id = SUBMIT(engine, .kind = "first", .key = "own");
        lw_test_run(engine);
        assert_int_equal(state_of(engine, id), LW_FINISHED);
        assert_int_equal(state_of(engine, id + 1), LW_FINISHED);
        assert_int_equal(state_of(engine, id + 2), LW_ABORTED);
        for (lw_id each = id; each < id + 3; each++)
            assert_status(lw_forget(engine, each), LW_OK);
        close_engine(engine);
    }
}

/* ---- refused ------------------------------------------------------------------------------- */

static lw_outcome do_then_bad(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    lw_engine *engine = lw_ctx_user(ctx);
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.kind = ""), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "kind");
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .delay_ms = -1), &err), LW_EINVAL);
    assert_status(lw_then(ctx, NULL, &err), LW_EINVAL);
    assert_status(lw_then(NULL, LW_TASK(.kind = "next"), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "handler");
    assert_status(lw_submit(engine, LW_TASK(.kind = "next"), NULL, NULL), LW_OK);
    return lw_done(ctx);
}

TEST(a_bad_successor_is_refused_at_once_and_the_attempt_goes_on) {
    lw_engine *engine = open_driven(do_then_bad);
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

static int how_many;

static lw_outcome do_then_many(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_error err = {0};
    for (int i = 0; i < how_many && i < LW_THEN_MAX; i++)
        assert_status(lw_then(ctx, LW_TASK(.kind = "next"), NULL), LW_OK);
    if (how_many > LW_THEN_MAX) {
        assert_status(lw_then(ctx, LW_TASK(.kind = "next"), &err), LW_EFULL);
        assert_sentence(&err, LW_EFULL, "1000");
    }
    return lw_done_with(ctx, LW_TEXT("result"));
}

TEST(an_attempt_has_at_most_a_thousand_successors) {
    lw_engine *engine = open_driven(do_then_many);
    how_many = LW_THEN_MAX + 1;
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 1 + LW_THEN_MAX);
    close_engine(engine);
}

/* In two attempts: what the first had said is forgotten with it. */
static lw_outcome do_then_large(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .payload = LW_TEXT("123456")), NULL), LW_OK);
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .payload = LW_TEXT("12345")), &err),
                  LW_EFULL);
    assert_sentence(&err, LW_EFULL, "byte_limit");
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .payload = LW_TEXT("1234")), NULL), LW_OK);
    assert_status(lw_then(ctx, LW_TASK(.kind = "next"), NULL), LW_OK);
    return task->attempt == 1 ? lw_retry_after(ctx, 0, "again") : lw_done(ctx);
}

TEST(successors_have_as_many_bytes_as_there_is_room_for) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .byte_limit = 10);
    handle(engine, "first", do_then_large, NULL);
    handle(engine, "next", do_count, NULL);
    start(engine);
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2 + 3);
    close_engine(engine);
}

static struct tally told = TALLY;

static void tell(void *user, const lw_snapshot *task) {
    (void)user;
    assert_non_null(strstr(task->last_error, "room"));
    tally_add(&told, 1);
}

TEST(successors_that_find_no_room_make_the_attempt_fail_and_none_of_them_is_there) {
    lw_engine *engine =
        open_with(do_then_many, LW_ENGINE_OPTIONS(.workers = LW_ZERO, .task_limit = 2, .reserve = 5,
                                                  .on_attempt = tell));
    lw_engine_stats stats;
    how_many = 7; /* one fits, five are of the reserve */
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 1);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FAILED);
    assert_non_null(strstr(s.last_error, "room"));
    assert_int_equal(s.result.size, 0);
    lw_snapshot_clear(&s);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 1);
    assert_int_equal(tally_read(&told), 1);
    how_many = 6;
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 7);
    close_engine(engine);
}

static lw_outcome do_then_after_nobody(lw_ctx *ctx, const lw_task *task) {
    lw_id never = task->id + 1000;
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .after = &never, .after_count = 1), NULL),
                  LW_OK);
    assert_status(lw_then(ctx, LW_TASK(.kind = "next"), NULL), LW_OK);
    return lw_done(ctx);
}

TEST(successors_that_wait_for_what_never_was_make_the_attempt_fail) {
    lw_engine *engine = open_driven(do_then_after_nobody);
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    assert_int_equal(tally_read(&runs), 0);
    close_engine(engine);
}

/* ---- with others --------------------------------------------------------------------------- */

static lw_outcome do_then_after_me(lw_ctx *ctx, const lw_task *task) {
    assert_status(lw_then(ctx, LW_TASK(.kind = "next", .after = &task->id, .after_count = 1), NULL),
                  LW_OK);
    return lw_done(ctx);
}

TEST(a_successor_may_wait_for_its_own_predecessor) {
    lw_engine *engine = open_driven(do_then_after_me);
    SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(tally_read(&runs), 1);
    close_engine(engine);
}

static lw_outcome do_chain(lw_ctx *ctx, const lw_task *task) {
    int left = *(const int *)task->payload.data - 1;
    if (left > 0)
        assert_status(lw_then(ctx, LW_TASK(.kind = "first", .payload = {&left, sizeof left}), NULL),
                      LW_OK);
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(a_long_chain_of_successors_keeps_one_place) {
    lw_engine *engine =
        open_with(do_chain, LW_ENGINE_OPTIONS(.workers = 2, .task_limit = 1, .reserve = 2));
    int left = 1000;
    SUBMIT(engine, .kind = "first", .payload = {&left, sizeof left});
    tally_await(&runs, 1000);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
}

static lw_outcome do_then_and_stop(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.kind = "next"), NULL), LW_OK);
    assert_status(lw_stop(lw_ctx_user(ctx), LW_DRAIN, 0), LW_PENDING);
    return lw_done(ctx);
}

TEST(a_stop_that_has_begun_still_takes_successors) {
    lw_engine *engine = open_driven(do_then_and_stop);
    lw_id id = SUBMIT(engine, .kind = "first");
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    assert_int_equal(tally_read(&runs), 1);
    close_engine(engine);
}
