/* Every public call with NULL, nothing, too much and nonsense: a status, a sentence, no trace. */
#include "engines.h"

#include <string.h>

static lw_engine *open_driven(void) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    return engine;
}

static bool see(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    return true;
}

static int write_nothing(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return 0;
}

TEST(no_engine_is_refused_by_every_call) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_explanation why;
    lw_engine_stats stats;
    lw_error err = {0};
    const lw_task *tasks[] = {LW_TASK(.kind = "mail")};
    assert_status(lw_handle(NULL, "mail", do_done, NULL, NULL), LW_EINVAL);
    assert_status(lw_queue(NULL, "slow", NULL, NULL), LW_EINVAL);
    assert_status(lw_start(NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "NULL");
    assert_status(lw_submit(NULL, tasks[0], NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "NULL");
    assert_status(lw_submit_many(NULL, tasks, 1, NULL, &err), LW_EINVAL);
    assert_status(lw_get(NULL, 1, &s), LW_EINVAL);
    assert_status(lw_find(NULL, "mail", "ann", &s), LW_EINVAL);
    assert_status(lw_wait(NULL, 1, 0, &s), LW_EINVAL);
    assert_status(lw_list(NULL, NULL, see, NULL), LW_EINVAL);
    assert_status(lw_explain(NULL, 1, &why), LW_EINVAL);
    assert_status(lw_cancel(NULL, 1), LW_EINVAL);
    assert_status(lw_retry_now(NULL, 1, &err), LW_EINVAL);
    assert_status(lw_forget(NULL, 1), LW_EINVAL);
    assert_status(lw_pause(NULL, "default"), LW_EINVAL);
    assert_status(lw_resume(NULL, "default"), LW_EINVAL);
    assert_status(lw_get_stats(NULL, &stats), LW_EINVAL);
    assert_status(lw_metrics_write(NULL, write_nothing, NULL), LW_EINVAL);
    assert_status(lw_stop(NULL, LW_DRAIN, 0), LW_EINVAL);
    assert_status(lw_wait_idle(NULL, 0), LW_EINVAL);
    assert_status(lw_test_run(NULL), LW_EINVAL);
    assert_status(lw_test_advance(NULL, 1), LW_EINVAL);
    assert_status(lw_test_fail_next(NULL, "mail", 1, LW_OUTCOME_FAIL, NULL), LW_EINVAL);
    assert_status(lw_close(NULL), LW_OK);
    lw_snapshot_clear(NULL);
}

TEST(no_place_for_the_answer_is_refused) {
    lw_engine *engine = open_driven();
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, NULL), LW_EINVAL);
    assert_status(lw_find(engine, "mail", "ann", NULL), LW_EINVAL);
    assert_status(lw_find(engine, NULL, "ann", &s), LW_EINVAL);
    assert_status(lw_find(engine, "mail", NULL, &s), LW_EINVAL);
    assert_status(lw_explain(engine, id, NULL), LW_EINVAL);
    assert_status(lw_get_stats(engine, NULL), LW_EINVAL);
    assert_status(lw_list(engine, NULL, NULL, NULL), LW_EINVAL);
    assert_status(lw_metrics_write(engine, NULL, NULL), LW_EINVAL);
    assert_status(lw_pause(engine, NULL), LW_EINVAL);
    assert_status(lw_resume(engine, NULL), LW_EINVAL);
    close_engine(engine);
}

TEST(ids_that_are_none_are_not_found) {
    lw_engine *engine = open_driven();
    lw_id ids[] = {0, 1, UINT64_C(1) << 53, UINT64_MAX, UINT64_MAX - 1, UINT64_C(1) << 32};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        lw_snapshot s = LW_SNAPSHOT_INIT;
        lw_explanation why;
        lw_error err = {0};
        assert_status(lw_get(engine, ids[i], &s), LW_ENOTFOUND);
        assert_status(lw_wait(engine, ids[i], -1, &s), LW_ENOTFOUND);
        assert_status(lw_explain(engine, ids[i], &why), LW_ENOTFOUND);
        assert_status(lw_cancel(engine, ids[i]), LW_ENOTFOUND);
        assert_status(lw_forget(engine, ids[i]), LW_ENOTFOUND);
        assert_status(lw_retry_now(engine, ids[i], &err), LW_ENOTFOUND);
        assert_sentence(&err, LW_ENOTFOUND, "task");
        assert_int_equal(lw_list(engine, LW_FILTER(.after = ids[i]), see, NULL), 0);
    }
    close_engine(engine);
}

/* ---- tasks --------------------------------------------------------------------------------- */

static void assert_refused(lw_engine *engine, const lw_task *task, const char *word) {
    lw_error err = {0};
    lw_id id = 77;
    assert_status(lw_submit(engine, task, &id, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, word);
    assert_int_equal(id, 77);
    assert_status(lw_submit(engine, task, NULL, NULL), LW_EINVAL);
}

TEST(tasks_that_make_no_sense_are_refused_with_what_was_seen) {
    lw_engine *engine = open_driven();
    lw_engine_stats stats;
    char name[LW_NAME_MAX + 2];
    static char bytes[1];
    lw_id first = 1;
    memset(name, 'n', sizeof name);
    name[LW_NAME_MAX + 1] = 0;
    assert_refused(engine, NULL, "NULL");
    assert_refused(engine, LW_TASK(.kind = NULL), "kind");
    assert_refused(engine, LW_TASK(.kind = ""), "kind");
    assert_refused(engine, LW_TASK(.kind = name), "65");
    assert_refused(engine, LW_TASK(.kind = "a\tb"), "kind");
    assert_refused(engine, LW_TASK(.kind = "mail", .queue = ""), "queue");
    assert_refused(engine, LW_TASK(.kind = "mail", .queue = name), "queue");
    assert_refused(engine, LW_TASK(.kind = "mail", .queue = "a\nb"), "queue");
    assert_refused(engine, LW_TASK(.kind = "mail", .payload = {NULL, 5}), "5 bytes");
    assert_refused(engine, LW_TASK(.kind = "mail", .payload = {bytes, LW_PAYLOAD_MAX + 1}),
                   "16777217");
    assert_refused(engine, LW_TASK(.kind = "mail", .payload = {bytes, SIZE_MAX}), "payload");
    assert_refused(engine, LW_TASK(.kind = "mail", .priority = -1), "priority is -1");
    assert_refused(engine, LW_TASK(.kind = "mail", .priority = INT64_C(1) << 32), "priority");
    assert_refused(engine, LW_TASK(.kind = "mail", .priority = INT64_MIN), "priority");
    assert_refused(engine, LW_TASK(.kind = "mail", .delay_ms = -1), "delay_ms is -1");
    assert_refused(engine, LW_TASK(.kind = "mail", .delay_ms = INT64_MAX), "delay_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .start_by_ms = -5), "start_by_ms is -5");
    assert_refused(engine, LW_TASK(.kind = "mail", .start_by_ms = -1), "start_by_ms is -1");
    assert_refused(engine, LW_TASK(.kind = "mail", .finish_by_ms = -1), "finish_by_ms is -1");
    assert_refused(engine, LW_TASK(.kind = "mail", .finish_by_ms = INT64_MAX), "finish_by_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .run_at_ms = -1), "run_at_ms is -1");
    assert_refused(engine, LW_TASK(.kind = "mail", .run_at_ms = INT64_MAX), "run_at_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .run_at_ms = 5, .delay_ms = 5), "both");
    assert_refused(engine, LW_TASK(.kind = "mail", .delay_ms = 10, .start_by_ms = 10),
                   "delay_ms is 10, must be less than start_by_ms, which is 10");
    assert_refused(engine, LW_TASK(.kind = "mail", .delay_ms = 11, .finish_by_ms = 10),
                   "delay_ms is 11, must be at most finish_by_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .start_by_ms = 11, .finish_by_ms = 10),
                   "start_by_ms is 11, must be at most finish_by_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .key_window_ms = -1), "key_window_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .key_scope = (lw_key_scope)9), "key_scope is 9");
    assert_refused(engine, LW_TASK(.kind = "mail", .key_scope = (lw_key_scope)-1), "key_scope");
    assert_refused(engine, LW_TASK(.kind = "mail", .after = &first, .after_count = SIZE_MAX),
                   "after_count");
    assert_refused(engine, LW_TASK(.kind = "mail", .after_policy = (lw_after_policy)3),
                   "after_policy is 3");
    assert_refused(engine, LW_TASK(.kind = "mail", .submit_timeout_ms = -3), "submit_timeout_ms");
    assert_refused(engine, LW_TASK(.kind = "mail", .arg = bytes), "arg");
    lw_task other = *LW_TASK(.kind = "mail");
    other.struct_size--;
    assert_refused(engine, &other, "LW_TASK lives to the end of its statement");
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 0);
    assert_int_equal(lw_test_run(engine), 0);
    close_engine(engine);
}

TEST(the_largest_that_is_allowed_is_accepted) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    static char payload[LW_PAYLOAD_MAX];
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "mail", .payload = {payload, sizeof payload});
    SUBMIT(engine, .kind = "mail", .priority = UINT32_MAX, .start_by_ms = LW_TIMEOUT_MS_MAX,
           .finish_by_ms = LW_TIMEOUT_MS_MAX);
    SUBMIT(engine, .kind = "mail", .delay_ms = 9, .start_by_ms = 10, .finish_by_ms = 10);
    lw_id late = SUBMIT(engine, .kind = "mail", .delay_ms = LW_TIMEOUT_MS_MAX);
    SUBMIT(engine, .kind = "mail", .run_at_ms = INT64_C(4102444800000)); /* 2100 */
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, late), LW_SCHEDULED);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- handlers ------------------------------------------------------------------------------ */

static lw_outcome do_nonsense(lw_ctx *ctx, const lw_task *task) {
    static char byte[1];
    (void)task;
    assert_status(lw_partial(ctx, (lw_bytes){NULL, 3}), LW_EINVAL);
    assert_status(lw_partial(ctx, (lw_bytes){byte, SIZE_MAX}), LW_EINVAL);
    assert_status(lw_progress(ctx, UINT64_MAX, 0, NULL), LW_OK);
    return lw_done_with(ctx, (lw_bytes){NULL, 3});
}

TEST(a_result_that_is_none_makes_the_attempt_fail) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    handle(engine, "bad", do_nonsense, LW_HANDLER_OPTIONS(.retry = {.attempts = 1}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "bad");
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_int_equal(s.state, LW_FAILED);
    assert_non_null(strstr(s.last_error, "result"));
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(a_context_that_is_no_handlers_is_refused) {
    lw_ctx *own;
    assert_status(lw_ctx_open(&own, NULL, NULL), LW_OK);
    lw_ctx *contexts[] = {NULL, own};
    for (int i = 0; i < 2; i++) {
        lw_error err = {0};
        assert_status(lw_progress(contexts[i], 1, 2, "x"), LW_EINVAL);
        assert_status(lw_partial(contexts[i], LW_TEXT("x")), LW_EINVAL);
        assert_status(lw_then(contexts[i], LW_TASK(.kind = "x"), &err), LW_EINVAL);
        assert_null(lw_ctx_user(contexts[i]));
        assert_int_equal(lw_done(contexts[i]), LW_OUTCOME_DONE);
        assert_int_equal(lw_retry(contexts[i], "%d", 1), LW_OUTCOME_RETRY);
        assert_int_equal(lw_snooze(contexts[i], 5), LW_OUTCOME_SNOOZE);
        assert_int_equal(lw_fail(contexts[i], "x"), LW_OUTCOME_FAIL);
        assert_int_equal(lw_abort(contexts[i], "x"), LW_OUTCOME_ABORT);
        assert_int_equal(lw_done_with(contexts[i], LW_TEXT("x")), LW_OUTCOME_DONE);
    }
    lw_ctx_close(own);
}

TEST(the_helpers_of_tests_refuse_nonsense_too) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    assert_status(lw_test_run(engine), LW_EINVAL); /* not started */
    start(engine);
    assert_status(lw_test_advance(engine, -1), LW_EINVAL);
    assert_status(lw_test_advance(engine, INT64_MAX), LW_EINVAL);
    assert_status(lw_test_fail_next(engine, NULL, 1, LW_OUTCOME_FAIL, ""), LW_EINVAL);
    assert_status(lw_test_fail_next(engine, "x", -1, LW_OUTCOME_FAIL, ""), LW_EINVAL);
    assert_status(lw_test_fail_next(engine, "x", 1, LW_OUTCOME_DONE, ""), LW_EINVAL);
    assert_status(lw_test_fail_next(engine, "", 1, LW_OUTCOME_FAIL, ""), LW_EINVAL);
    close_engine(engine);
    lw_test_clock_close(clock);
    engine = OPEN_ENGINE(.workers = 1);
    start(engine);
    assert_status(lw_test_run(engine), LW_EINVAL); /* it has workers */
    assert_status(lw_test_advance(engine, 1), LW_EINVAL);
    close_engine(engine);
}

TEST(numbers_that_are_no_state_have_a_name_too) {
    assert_string_equal(lw_state_name((lw_state)0), "unknown");
    assert_string_equal(lw_state_name((lw_state)99), "unknown");
    assert_string_equal(lw_state_name(LW_ABORTED), "aborted");
    assert_non_null(lw_fault_name((lw_fault)0));
    assert_non_null(lw_fault_name((lw_fault)99));
    assert_false(lw_state_is_terminal((lw_state)0));
    assert_false(lw_state_is_terminal(LW_STARTED));
    assert_true(lw_state_is_terminal(LW_FAILED));
}
