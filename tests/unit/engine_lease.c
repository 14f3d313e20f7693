/* Leases as a server uses them: claim, extend, settle, return; watches; and what is refused. On
 * every store, driven by the test on a clock that it holds, but for what needs threads. */
#include "driven.h"
#include "stores.h"

#include <legwork/flow.h>
#include <legwork/lease.h>
#include <legwork/testing.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

/* ---- help --------------------------------------------------------------------------------- */

#define LEASE_TEST(name)                     \
    static void name##_on(struct driven *d); \
    TEST(name) {                             \
        on_each_store(name##_on);            \
    }                                        \
    static void name##_on(struct driven *d)

static lw_snapshot get(lw_engine *engine, lw_id id) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &snapshot), LW_OK);
    return snapshot;
}

static void assert_bytes(lw_bytes bytes, const char *text) {
    assert_int_equal(bytes.size, strlen(text));
    assert_memory_equal(bytes.data, text, bytes.size);
}

#define CLAIM(engine, tasks, ...) claim_from((engine), (tasks), LW_CLAIM_OPTIONS(__VA_ARGS__))
static int claim_from(lw_engine *engine, lw_snapshot *tasks, const lw_claim_options *options) {
    lw_error err = {0};
    int rc = lw_lease_claim(engine, options, tasks, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    CHECK(rc >= 0);
    return rc;
}

static lw_settlement take_one(lw_engine *engine) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_int_equal(CLAIM(engine, &task, .holder = "w", .lease_ms = 1000), 1);
    lw_settlement settlement = {.id = task.id, .token = task.token};
    lw_snapshot_clear(&task);
    return settlement;
}

static int settle_one(lw_engine *engine, lw_settlement settlement) {
    assert_status(lw_lease_settle(engine, &settlement, 1, 0, NULL), LW_OK);
    return settlement.status;
}

/* ---- claim -------------------------------------------------------------------------------- */

LEASE_TEST(a_claimed_task_comes_with_all_that_a_worker_needs) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_explanation why;
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = "trace", .value_size = 5), NULL),
                  LW_OK);
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail", .key = "ann", .payload = LW_TEXT("hello"),
                      .ctx = ctx, .priority = 7);
    lw_ctx_close(ctx);
    assert_int_equal(CLAIM(d->engine, &task, .holder = "worker 7", .lease_ms = 5000), 1);
    assert_int_equal(task.id, id);
    assert_int_equal(task.state, LW_STARTED);
    assert_int_equal(task.attempts, 1);
    CHECK(task.token != 0);
    assert_string_equal(task.kind, "mail");
    assert_string_equal(task.queue, "default");
    assert_string_equal(task.key, "ann");
    assert_bytes(task.payload, "hello");
    assert_bytes(task.value, "trace");
    assert_null(task.checkpoint.data);
    assert_string_equal(task.holder, "worker 7");
    assert_int_equal(task.lease_until_ms, task.started_ms + 5000);
    lw_snapshot seen = get(d->engine, id);
    assert_string_equal(seen.holder, "worker 7");
    assert_int_equal(seen.lease_until_ms, task.lease_until_ms);
    assert_status(lw_explain(d->engine, id, &why), LW_OK);
    CHECK(strstr(why.reasons[0], "worker 7 has it") && strstr(why.reasons[0], "lease until"));
    assert_int_equal(CLAIM(d->engine, &task, .holder = "worker 8"), 0);
    lw_settlement end = {
        .id = id, .token = seen.token, .outcome = LW_OUTCOME_DONE, .result = LW_TEXT("sent")};
    assert_status(settle_one(d->engine, end), LW_OK);
    assert_status(lw_get(d->engine, id, &seen), LW_OK);
    assert_int_equal(seen.state, LW_FINISHED);
    assert_null(seen.holder);
    assert_int_equal(seen.lease_until_ms, 0);
    assert_bytes(seen.result, "sent");
    assert_status(settle_one(d->engine, end), LW_OK); /* it is said again, and done once */
    lw_snapshot_clear(&seen);
    lw_snapshot_clear(&task);
}

/* The answer was lost, and the worker says it again: it has no effect, and the same answer. */
LEASE_TEST(an_end_that_is_said_again_is_answered_again) {
    static const struct {
        lw_outcome outcome;
        lw_state state;
    } ends[] = {{LW_OUTCOME_FAIL, LW_FAILED},
                {LW_OUTCOME_ABORT, LW_ABORTED},
                {LW_OUTCOME_DONE, LW_FINISHED}};
    const lw_task *next = LW_TASK(.kind = "next", .queue = "next");
    start(d->engine);
    for (size_t i = 0; i < 3; i++) {
        lw_id id = SUBMIT(d->engine, .kind = "mail");
        lw_settlement end = take_one(d->engine);
        end.outcome = ends[i].outcome;
        if (end.outcome == LW_OUTCOME_DONE) {
            end.result = LW_TEXT("sent");
            end.then = &next;
            end.then_count = 1;
        } else {
            end.text = "why";
        }
        for (int k = 0; k < 3; k++)
            assert_status(settle_one(d->engine, end), LW_OK);
        lw_snapshot s = get(d->engine, id);
        assert_int_equal(s.state, ends[i].state);
        assert_int_equal(s.attempts, 1);
        assert_int_equal(s.error_count, end.outcome == LW_OUTCOME_DONE ? 0 : 1);
        if (end.outcome == LW_OUTCOME_DONE)
            assert_bytes(s.result, "sent");
        lw_snapshot_clear(&s);
        for (size_t k = 0; k < 3; k++) { /* something else was not said */
            lw_settlement other = {.id = id, .token = end.token, .outcome = ends[k].outcome};
            assert_status(settle_one(d->engine, other), k == i ? LW_OK : LW_ELEASE);
        }
        lw_settlement again = {.id = id, .token = end.token, .outcome = LW_OUTCOME_RETRY};
        assert_status(settle_one(d->engine, again), LW_ELEASE);
        end.token++;
        assert_status(settle_one(d->engine, end), LW_ELEASE);
    }
    const char *queue = "next"; /* its successor was submitted once */
    lw_snapshot tasks[2] = {LW_SNAPSHOT_INIT, LW_SNAPSHOT_INIT};
    assert_int_equal(
        CLAIM(d->engine, tasks, .holder = "w", .queues = &queue, .queue_count = 1, .max = 2), 1);
    lw_snapshot_clear(&tasks[0]);
}

LEASE_TEST(an_end_that_is_said_twice_in_one_call_is_one) {
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine), ends[2];
    end.outcome = LW_OUTCOME_DONE;
    ends[0] = ends[1] = end;
    assert_status(lw_lease_settle(d->engine, ends, 2, 0, NULL), LW_OK);
    assert_status(ends[0].status, LW_OK);
    assert_status(ends[1].status, LW_OK);
    assert_int_equal(state_of(d->engine, id), LW_FINISHED);
}

/* Another attempt was there since. */
LEASE_TEST(an_end_of_an_earlier_attempt_is_refused_although_the_task_ended_so) {
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement lost = take_one(d->engine);
    lw_test_advance(d->engine, 1001);
    lw_settlement end = take_one(d->engine);
    lost.outcome = end.outcome = LW_OUTCOME_DONE;
    assert_status(settle_one(d->engine, end), LW_OK);
    assert_int_equal(state_of(d->engine, id), LW_FINISHED);
    assert_status(settle_one(d->engine, lost), LW_ELEASE);
    assert_status(settle_one(d->engine, end), LW_OK);
}

LEASE_TEST(a_look_claims_nothing) {
    const char *other = "other";
    start(d->engine);
    assert_int_equal(CLAIM(d->engine, NULL, .holder = "w", .flags = LW_ONLY_LOOK), 0);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    SUBMIT(d->engine, .kind = "mail");
    assert_int_equal(CLAIM(d->engine, NULL, .holder = "w", .max = 9, .flags = LW_ONLY_LOOK), 1);
    assert_int_equal(CLAIM(d->engine, NULL, .holder = "w", .queues = &other, .queue_count = 1,
                           .flags = LW_ONLY_LOOK),
                     0);
    assert_int_equal(state_of(d->engine, id), LW_ENQUEUED);
    take_one(d->engine);
    take_one(d->engine);
    assert_int_equal(CLAIM(d->engine, NULL, .holder = "w", .flags = LW_ONLY_LOOK), 0);
}

static int claim_not_lost(lw_engine *engine, const char *holder, lw_id *id) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    int rc = lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = holder, .flags = LW_LEAVE_LOST),
                            &task, NULL);
    *id = rc == 1 ? task.id : 0;
    lw_snapshot_clear(&task);
    return rc;
}

LEASE_TEST(a_holder_can_leave_what_it_has_lost_to_others) {
    lw_id id;
    start(d->engine);
    lw_id lost = SUBMIT(d->engine, .kind = "mail");
    take_one(d->engine); /* for "w" */
    lw_test_advance(d->engine, 1001);
    if (strcmp(d->url, "memory:") != 0) { /* it is known after a restart, too */
        close_engine(d->engine);
        open_driven(d);
        start(d->engine);
    }
    assert_status(claim_not_lost(d->engine, "w", &id), LW_ELEASE);
    assert_int_equal(state_of(d->engine, lost), LW_ENQUEUED);
    lw_id other = SUBMIT(d->engine, .kind = "call"); /* of another kind: it is not behind it */
    assert_int_equal(claim_not_lost(d->engine, "w", &id), 1);
    assert_int_equal(id, other);
    assert_int_equal(claim_not_lost(d->engine, "ww", &id), 1);
    assert_int_equal(id, lost);
    assert_int_equal(claim_not_lost(d->engine, "w", &id), 0);
}

/* Nor is a holder passed over for a task that it gave back by itself. */
LEASE_TEST(a_holder_gets_a_task_again_that_it_has_retried) {
    lw_id id;
    start(d->engine);
    lw_id retried = SUBMIT(d->engine, .kind = "mail");
    take_one(d->engine);
    lw_test_advance(d->engine, 1001);
    lw_settlement again = take_one(d->engine);
    again.outcome = LW_OUTCOME_RETRY;
    again.wait_ms = LW_ZERO;
    assert_status(settle_one(d->engine, again), LW_OK);
    assert_int_equal(claim_not_lost(d->engine, "w", &id), 1);
    assert_int_equal(id, retried);
}

LEASE_TEST(what_has_a_handler_here_is_run_here_and_nobody_can_claim_it) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    const char *mail = "mail", *unknown = "unknown";
    handle(d->engine, "mail", do_done, NULL);
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 0);
    assert_status(lw_lease_claim(d->engine,
                                 LW_CLAIM_OPTIONS(.holder = "w", .kinds = &mail, .kind_count = 1),
                                 &task, &err),
                  LW_EINVAL);
    CHECK(strstr(err.message, "has a handler here"));
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w", .kinds = &unknown, .kind_count = 1), 0);
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w", .queues = &unknown, .queue_count = 1),
                     0);
    assert_int_equal(lw_test_run(d->engine), 1);
    assert_int_equal(state_of(d->engine, id), LW_FINISHED);
    lw_snapshot_clear(&task);
}

/* Its end has to be told to the flow. */
LEASE_TEST(a_step_that_a_person_does_is_not_claimed) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    const char *kind = "order.sign";
    static const lw_step steps[] = {{.name = "sign", .state = "open"}};
    assert_status(lw_flow_register(d->engine,
                                   LW_FLOW(.name = "order", .steps = LW_STEPS(steps),
                                           .states = {{"open", .goal = "signed"}}),
                                   &err),
                  LW_OK);
    start(d->engine);
    assert_status(lw_flow_start(d->engine, "order", "7", LW_TEXT(""), &err), LW_OK);
    lw_test_run(d->engine);
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 0);
    assert_status(lw_lease_claim(d->engine,
                                 LW_CLAIM_OPTIONS(.holder = "w", .kinds = &kind, .kind_count = 1),
                                 &task, &err),
                  LW_EINVAL);
    CHECK(strstr(err.message, "is of a flow"));
}

static lw_outcome sign(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

static void open_order(lw_engine *engine, bool has_flow) {
    static const lw_step steps[] = {{.name = "sign", .run = sign, .state = "open"}};
    lw_error err = {0};
    if (has_flow)
        assert_status(lw_flow_register(engine,
                                       LW_FLOW(.name = "order", .steps = LW_STEPS(steps),
                                               .states = {{"open", .goal = "signed"}}),
                                       &err),
                      LW_OK);
    start(engine);
}

/* Such as a server on the file of a program: it knows nothing of the flow, and a worker of its
 * would finish the step without the flow hearing of it. */
LEASE_TEST(a_step_is_not_claimed_where_its_flow_is_not_known_either) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    open_order(d->engine, true);
    assert_status(lw_flow_start(d->engine, "order", "7", LW_TEXT(""), &err), LW_OK);
    if (strcmp(d->url, "memory:") == 0)
        return;
    close_engine(d->engine);
    open_driven(d);
    open_order(d->engine, false);
    SUBMIT(d->engine, .kind = "mail");
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 1);
    assert_string_equal(task.kind, "mail");
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 0);
    close_engine(d->engine);
    open_driven(d);
    open_order(d->engine, true);
    lw_test_run(d->engine);
    assert_status(lw_flow_wait(d->engine, "order", "7", 0, NULL), LW_OK); /* at its goal */
    lw_snapshot_clear(&task);
}

LEASE_TEST(a_claim_takes_as_many_as_it_may_of_the_queues_and_kinds_it_names) {
    lw_snapshot tasks[4] = {LW_SNAPSHOT_INIT};
    const char *queues[] = {"a", "b"}, *kinds[] = {"mail", "sms"};
    start(d->engine);
    SUBMIT(d->engine, .kind = "mail", .queue = "c");
    SUBMIT(d->engine, .kind = "fax", .queue = "a");
    lw_id last = SUBMIT(d->engine, .kind = "sms", .queue = "b", .priority = 2000);
    lw_id first = SUBMIT(d->engine, .kind = "mail", .queue = "a");
    assert_int_equal(CLAIM(d->engine, tasks, .holder = "w", .queues = queues, .queue_count = 2,
                           .kinds = kinds, .kind_count = 2, .max = 4),
                     2);
    assert_int_equal(tasks[0].id, first);
    assert_int_equal(tasks[1].id, last);
    assert_int_equal(CLAIM(d->engine, tasks, .holder = "w", .max = 1), 1);
    for (int i = 0; i < 4; i++)
        lw_snapshot_clear(&tasks[i]);
}

/* More than stays in memory: the rest is read from the file. */
LEASE_TEST(payloads_and_values_are_there_wherever_they_were_kept) {
    enum { LARGE = 64 << 10, COUNT = 100 };
    static char payload[LARGE];
    static lw_snapshot tasks[COUNT];
    lw_ctx *ctx;
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.value = "trace", .value_size = 5), NULL),
                  LW_OK);
    start(d->engine);
    for (int i = 0; i < COUNT; i++) {
        memset(payload, 'a' + i % 26, sizeof payload);
        SUBMIT(d->engine, .kind = "mail", .payload = {payload, sizeof payload}, .ctx = ctx);
    }
    lw_ctx_close(ctx);
    assert_int_equal(CLAIM(d->engine, tasks, .holder = "w", .max = COUNT), COUNT);
    for (int i = 0; i < COUNT; i++) {
        memset(payload, 'a' + i % 26, sizeof payload);
        assert_int_equal(tasks[i].payload.size, sizeof payload);
        assert_memory_equal(tasks[i].payload.data, payload, sizeof payload);
        assert_bytes(tasks[i].value, "trace");
        assert_status(lw_lease_return(d->engine, tasks[i].id, tasks[i].token, 0), LW_OK);
    }
    assert_int_equal(CLAIM(d->engine, tasks, .holder = "w"), 1);
    assert_bytes(tasks[0].value, "trace");
    for (int i = 0; i < COUNT; i++)
        lw_snapshot_clear(&tasks[i]);
}

/* ---- the end of a lease ------------------------------------------------------------------- */

LEASE_TEST(a_lease_that_runs_out_is_a_crash_and_costs_no_retry) {
    handle(d->engine, "mail", NULL, LW_HANDLER_OPTIONS(.retry = {.attempts = 1, .crashes = 2}));
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    for (unsigned i = 1; i <= 3; i++) {
        lw_settlement lost = take_one(d->engine);
        lw_test_advance(d->engine, 999);
        assert_int_equal(state_of(d->engine, id), LW_STARTED);
        lw_test_advance(d->engine, 2);
        lw_snapshot s = get(d->engine, id);
        assert_int_equal(s.state, i < 3 ? LW_ENQUEUED : LW_FAILED);
        assert_int_equal(s.crashes, i);
        assert_string_equal(s.last_error, "the lease of w ran out");
        assert_int_equal(s.errors[s.error_count - 1].fault, LW_FAULT_CRASH);
        lw_snapshot_clear(&s);
        lost.outcome = LW_OUTCOME_DONE;
        assert_status(settle_one(d->engine, lost), LW_ELEASE);
        assert_status(lw_lease_extend(d->engine, lost.id, lost.token, 1000, 0), LW_ELEASE);
        assert_status(lw_lease_return(d->engine, lost.id, lost.token, 0), LW_ELEASE);
        assert_status(lw_lease_progress(d->engine, lost.id, lost.token, 1, 2, "x"), LW_ELEASE);
        assert_status(lw_lease_checkpoint(d->engine, lost.id, lost.token, LW_TEXT("x"), 0),
                      LW_ELEASE);
    }
}

/* The clock has passed its end, and nobody has swept yet: that makes no difference. */
LEASE_TEST(a_lease_is_over_at_its_time_and_not_when_it_is_noticed) {
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement late = take_one(d->engine);
    late.outcome = LW_OUTCOME_DONE;
    advance(d->clock, 999);
    assert_status(lw_lease_progress(d->engine, id, late.token, 1, 2, "in time"), LW_OK);
    advance(d->clock, 1);
    assert_int_equal(state_of(d->engine, id), LW_STARTED);
    assert_status(settle_one(d->engine, late), LW_ELEASE);
    assert_status(lw_lease_extend(d->engine, id, late.token, 1000, 0), LW_ELEASE);
    assert_status(lw_lease_return(d->engine, id, late.token, 0), LW_ELEASE);
    assert_status(lw_lease_progress(d->engine, id, late.token, 2, 2, "late"), LW_ELEASE);
    assert_status(lw_lease_partial(d->engine, id, late.token, LW_TEXT("x")), LW_ELEASE);
    assert_status(lw_lease_checkpoint(d->engine, id, late.token, LW_TEXT("x"), 0), LW_ELEASE);
    lw_test_run(d->engine);
    lw_snapshot s = get(d->engine, id);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_int_equal(s.crashes, 1);
    assert_string_equal(s.progress.text, "in time");
    lw_snapshot_clear(&s);
}

LEASE_TEST(extended_in_time_it_goes_on_for_as_long_as_it_takes) {
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine);
    for (int i = 0; i < 5; i++) {
        lw_test_advance(d->engine, 900);
        assert_status(lw_lease_extend(d->engine, id, end.token, 1000, 0), LW_OK);
        assert_status(lw_lease_extend(d->engine, id, end.token, 1, LW_NO_WAIT), LW_OK);
    }
    assert_status(lw_cancel(d->engine, id), LW_PENDING);
    assert_status(lw_lease_extend(d->engine, id, end.token, 1000, 0), LW_PENDING);
    assert_status(lw_lease_progress(d->engine, id, end.token, 1, 2, "x"), LW_PENDING);
    end.outcome = LW_OUTCOME_RETRY;
    assert_status(settle_one(d->engine, end), LW_OK);
    lw_snapshot s = get(d->engine, id);
    assert_int_equal(s.state, LW_ABORTED);
    assert_string_equal(s.last_error, "cancelled");
    lw_snapshot_clear(&s);
}

LEASE_TEST(returned_it_has_cost_nothing) {
    start(d->engine);
    lw_id first = SUBMIT(d->engine, .kind = "mail");
    SUBMIT(d->engine, .kind = "mail");
    lw_settlement claimed = take_one(d->engine);
    assert_int_equal(claimed.id, first);
    assert_status(lw_lease_return(d->engine, first, claimed.token, 0), LW_OK);
    assert_status(lw_lease_return(d->engine, first, claimed.token, 0), LW_ELEASE);
    lw_snapshot s = get(d->engine, first);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_int_equal(s.attempts + s.crashes + s.snoozes + s.error_count, 0);
    lw_snapshot_clear(&s);
    assert_int_equal(take_one(d->engine).id, first);
}

/* ---- settle ------------------------------------------------------------------------------- */

LEASE_TEST(each_outcome_means_what_it_means_for_a_handler) {
    handle(d->engine, "mail", NULL,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 50, .jitter_percent = LW_ZERO, .attempts = 2}));
    start(d->engine);
    const struct {
        lw_outcome outcome;
        int64_t wait_ms;
        lw_state state;
        int64_t due_in_ms;
        unsigned attempts, snoozes;
    } cases[] = {
        {LW_OUTCOME_DONE, 0, LW_FINISHED, 0, 1, 0},
        {LW_OUTCOME_FAIL, 0, LW_FAILED, 0, 1, 0},
        {LW_OUTCOME_ABORT, 0, LW_ABORTED, 0, 1, 0},
        {LW_OUTCOME_RETRY, 0, LW_SCHEDULED, 50, 1, 0},
        {LW_OUTCOME_RETRY, 700, LW_SCHEDULED, 700, 1, 0},
        {LW_OUTCOME_SNOOZE, 700, LW_SCHEDULED, 700, 0, 1},
        {LW_OUTCOME_SNOOZE, 0, LW_ENQUEUED, 0, 0, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        lw_id id = SUBMIT(d->engine, .kind = "mail");
        lw_settlement end = take_one(d->engine);
        assert_int_equal(end.id, id);
        end.outcome = cases[i].outcome;
        end.wait_ms = cases[i].wait_ms;
        end.text = "words";
        assert_status(settle_one(d->engine, end), LW_OK);
        lw_snapshot s = get(d->engine, id);
        assert_int_equal(s.state, cases[i].state);
        assert_int_equal(s.attempts, cases[i].attempts);
        assert_int_equal(s.snoozes, cases[i].snoozes);
        if (s.state == LW_SCHEDULED)
            assert_int_equal(s.due_ms, s.started_ms + cases[i].due_in_ms);
        if (cases[i].outcome == LW_OUTCOME_FAIL || cases[i].outcome == LW_OUTCOME_ABORT)
            assert_string_equal(s.last_error, "words");
        lw_snapshot_clear(&s);
        lw_cancel(d->engine, id);
    }
    lw_id id = SUBMIT(d->engine, .kind = "mail"); /* twice is enough */
    for (int i = 0; i < 2; i++) {
        lw_settlement end = take_one(d->engine);
        end.outcome = LW_OUTCOME_RETRY;
        end.wait_ms = LW_ZERO;
        assert_status(settle_one(d->engine, end), LW_OK);
    }
    assert_int_equal(state_of(d->engine, id), LW_FAILED);
}

LEASE_TEST(progress_and_position_are_there_for_the_next_who_has_it) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine);
    assert_status(lw_lease_progress(d->engine, id, end.token, 3, 9, "three"), LW_OK);
    assert_status(lw_lease_partial(d->engine, id, end.token, LW_TEXT("part")), LW_OK);
    assert_status(lw_lease_checkpoint(d->engine, id, end.token, LW_TEXT("at 3"), 0), LW_OK);
    lw_test_advance(d->engine, 1001);
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 1);
    assert_bytes(task.checkpoint, "at 3");
    assert_bytes(task.partial, "part");
    assert_int_equal(task.progress.done, 3);
    assert_int_equal(task.attempts, 2);
    lw_snapshot_clear(&task);
}

LEASE_TEST(successors_come_with_the_outcome_or_not_at_all) {
    lw_queue(d->engine, "narrow", LW_QUEUE_OPTIONS(.limit = 1), NULL);
    start(d->engine);
    const lw_task *good[] = {LW_TASK(.kind = "next", .queue = "other", .payload = LW_TEXT("x")),
                             LW_TASK(.kind = "next", .queue = "other", .key = "k")};
    const lw_task *bad[] = {good[0], LW_TASK(.kind = "no good")};
    lw_error err = {0};
    lw_engine_stats stats;
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine);
    end.outcome = LW_OUTCOME_DONE;
    end.then = bad;
    end.then_count = 2;
    assert_status(lw_lease_settle(d->engine, &end, 1, 0, &err), LW_OK);
    assert_status(end.status, LW_EINVAL);
    CHECK(strstr(err.message, "successor 2"));
    assert_int_equal(state_of(d->engine, id), LW_STARTED); /* it can be said otherwise */
    end.then = good;
    assert_status(lw_lease_settle(d->engine, &end, 1, 0, &err), LW_OK);
    assert_status(end.status, LW_OK);
    assert_int_equal(state_of(d->engine, id), LW_FINISHED);
    assert_status(lw_get_stats(d->engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 3);
    assert_int_equal(stats.enqueued, 2);
}

LEASE_TEST(a_successor_may_have_the_key_of_a_leased_task_that_leaves_it) {
    const struct {
        lw_key_scope scope;
        int status;
    } cases[] = {
        {LW_KEY_UNFINISHED, LW_OK}, {LW_KEY_RETAINED, LW_EINVAL}, {LW_KEY_WINDOW, LW_EINVAL}};
    start(d->engine);
    for (int i = 0; i < 3; i++) {
        lw_error err = {0};
        lw_engine_stats stats;
        const lw_task *own = LW_TASK(.kind = "mail", .key = "k");
        lw_id id = SUBMIT(d->engine, .kind = "mail", .key = "k", .key_scope = cases[i].scope,
                          .key_window_ms = 60000);
        lw_settlement end = take_one(d->engine);
        assert_int_equal(end.id, id);
        end.outcome = LW_OUTCOME_DONE;
        end.then = &own;
        end.then_count = 1;
        assert_status(lw_lease_settle(d->engine, &end, 1, 0, &err), LW_OK);
        assert_status(end.status, cases[i].status);
        if (cases[i].status < 0)
            CHECK(strstr(err.message, "successor 1") && strstr(err.message, "LW_KEY_"));
        end.then_count = 0;
        assert_status(lw_lease_settle(d->engine, &end, 1, 0, &err), LW_OK);
        assert_status(end.status, LW_OK);
        assert_status(lw_get_stats(d->engine, &stats), LW_OK);
        assert_int_equal(stats.enqueued, cases[i].status == LW_OK);
        if (cases[i].status == LW_OK) {
            end = take_one(d->engine);
            CHECK(end.id != id);
            end.outcome = LW_OUTCOME_DONE;
            assert_status(lw_lease_settle(d->engine, &end, 1, 0, &err), LW_OK);
        }
        assert_status(lw_forget(d->engine, id), LW_OK);
    }
}

enum { MANY = 1000 };

LEASE_TEST(a_thousand_are_settled_at_once_and_answered_singly) {
    static lw_snapshot tasks[MANY];
    static lw_settlement ends[MANY];
    lw_error err = {0};
    start(d->engine);
    for (int i = 0; i < MANY; i += 100) {
        const lw_task *task = LW_TASK(.kind = "mail", .payload = LW_TEXT("x")), *batch[100];
        for (int k = 0; k < 100; k++)
            batch[k] = task;
        assert_status(lw_submit_many(d->engine, batch, 100, NULL, NULL), LW_OK);
    }
    assert_int_equal(CLAIM(d->engine, tasks, .holder = "w", .max = MANY), MANY);
    for (int i = 0; i < MANY; i++) {
        ends[i] = (lw_settlement){.id = tasks[i].id,
                                  .token = tasks[i].token + (i % 100 == 7 ? 1000000 : 0),
                                  .outcome = i % 100 == 9 ? (lw_outcome)99 : LW_OUTCOME_DONE};
        lw_snapshot_clear(&tasks[i]);
    }
    assert_status(lw_lease_settle(d->engine, ends, MANY, 0, &err), LW_OK);
    for (int i = 0; i < MANY; i++) {
        int expected = i % 100 == 7 ? LW_ELEASE : i % 100 == 9 ? LW_EINVAL : LW_OK;
        assert_status(ends[i].status, expected);
        assert_int_equal(state_of(d->engine, ends[i].id),
                         expected == LW_OK ? LW_FINISHED : LW_STARTED);
    }
    CHECK(strstr(err.message, "settlement ") != NULL);
    assert_status(lw_lease_settle(d->engine, ends, MANY + 1, 0, &err), LW_EINVAL);
    assert_status(lw_lease_settle(d->engine, ends, 0, 0, &err), LW_EINVAL);
    assert_status(lw_lease_settle(d->engine, NULL, 1, 0, NULL), LW_EINVAL);
    assert_status(lw_lease_settle(d->engine, ends, 1, 2, NULL), LW_EINVAL);
}

/* The age of one that was retried by hand counts from then, on the disk as well. */
LEASE_TEST(a_lease_that_runs_out_of_an_old_task_is_tried_again_if_it_was_retried) {
    const lw_handler_options *options =
        LW_HANDLER_OPTIONS(.retry = {.crashes = 10, .max_age_ms = 5000});
    handle(d->engine, "mail", NULL, options);
    start(d->engine);
    lw_id id = SUBMIT(d->engine, .kind = "mail");
    take_one(d->engine);
    lw_test_advance(d->engine, 10000);
    assert_int_equal(state_of(d->engine, id), LW_ENQUEUED); /* it ran out at 1 s */
    take_one(d->engine);
    lw_test_advance(d->engine, 10000);
    assert_int_equal(state_of(d->engine, id), LW_FAILED); /* at 11 s */
    assert_status(lw_retry_now(d->engine, id, NULL), LW_OK);
    if (strcmp(d->url, "memory:") != 0) {
        close_engine(d->engine);
        open_driven(d);
        handle(d->engine, "mail", NULL, options);
        start(d->engine);
    }
    take_one(d->engine);
    lw_test_advance(d->engine, 2000);
    assert_int_equal(state_of(d->engine, id), LW_ENQUEUED);
    lw_settlement end = take_one(d->engine);
    lw_test_advance(d->engine, 500);
    end.outcome = LW_OUTCOME_RETRY;
    assert_status(settle_one(d->engine, end), LW_OK);
    assert_int_equal(state_of(d->engine, id), LW_SCHEDULED);
    lw_test_advance(d->engine, 10000);
    take_one(d->engine);
    lw_test_advance(d->engine, 2000);
    assert_int_equal(state_of(d->engine, id), LW_FAILED);
}

/* ---- restart, stop ------------------------------------------------------------------------ */

LEASE_TEST(a_lease_outlives_the_engine_that_gave_it) {
    start(d->engine);
    lw_id kept = SUBMIT(d->engine, .kind = "mail"), lost = SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine), gone = take_one(d->engine);
    assert_status(lw_lease_extend(d->engine, kept, end.token, 60000, 0), LW_OK);
    if (strcmp(d->url, "memory:") == 0)
        return;
    close_engine(d->engine);
    advance(d->clock, 2000);
    open_driven(d);
    start(d->engine);
    lw_test_run(d->engine);
    lw_snapshot s = get(d->engine, kept);
    assert_int_equal(s.state, LW_STARTED);
    assert_string_equal(s.holder, "w");
    assert_int_equal(s.crashes, 0);
    assert_status(lw_get(d->engine, lost, &s), LW_OK);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_int_equal(s.crashes, 1);
    lw_snapshot_clear(&s);
    gone.outcome = end.outcome = LW_OUTCOME_DONE;
    assert_status(settle_one(d->engine, gone), LW_ELEASE);
    assert_status(settle_one(d->engine, end), LW_OK);
    assert_int_equal(state_of(d->engine, kept), LW_FINISHED);
}

LEASE_TEST(a_stop_waits_for_no_lease_and_takes_its_outcome) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    start(d->engine);
    SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine);
    SUBMIT(d->engine, .kind = "mail");
    assert_status(lw_stop(d->engine, LW_DRAIN, 0), LW_OK);
    assert_status(lw_lease_claim(d->engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL),
                  LW_ESTOPPING);
    assert_status(lw_lease_extend(d->engine, end.id, end.token, 1000, 0), LW_OK);
    end.outcome = LW_OUTCOME_DONE;
    assert_status(settle_one(d->engine, end), LW_OK);
}

/* ---- watches ------------------------------------------------------------------------------ */

static bool is_readable(const lw_claim_watch *watch) {
    struct pollfd p = {.fd = lw_claim_watch_fd(watch), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* All queues that it tells, as one text. */
static const char *told(lw_claim_watch *watch) {
    static char text[256];
    char queue[LW_NAME_MAX + 1];
    size_t at = 0;
    text[0] = 0;
    while (lw_claim_watch_next(watch, queue) == 1)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s ", queue);
    CHECK(!is_readable(watch));
    return text;
}

LEASE_TEST(a_watch_tells_of_each_queue_in_which_something_can_be_claimed) {
    lw_claim_watch *watch;
    lw_snapshot task = LW_SNAPSHOT_INIT;
    handle(d->engine, "own", do_done, NULL);
    handle(d->engine, "one", NULL, LW_HANDLER_OPTIONS(.concurrency = 1));
    start(d->engine);
    assert_status(lw_claim_watch_open(d->engine, &watch, NULL), LW_OK);
    assert_string_equal(told(watch), "default ");
    SUBMIT(d->engine, .kind = "own", .queue = "a"); /* not to be claimed */
    CHECK(!is_readable(watch));
    SUBMIT(d->engine, .kind = "one", .queue = "b");
    SUBMIT(d->engine, .kind = "one", .queue = "b", .delay_ms = 10);
    SUBMIT(d->engine, .kind = "mail", .queue = "c");
    CHECK(is_readable(watch));
    assert_string_equal(told(watch), "b c ");
    lw_test_advance(d->engine, 20); /* the delay is over */
    assert_string_equal(told(watch), "b ");
    const char *b = "b";
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w", .queues = &b, .queue_count = 1,
                           .max = 1, .lease_ms = 100),
                     1);
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w", .queues = &b, .queue_count = 1), 0);
    assert_string_equal(told(watch), "");
    lw_test_advance(d->engine, 101); /* the limit of the kind is free, and so is the task */
    assert_string_equal(told(watch), "b ");
    assert_status(lw_pause(d->engine, "c"), LW_OK);
    assert_string_equal(told(watch), "");
    assert_status(lw_resume(d->engine, "c"), LW_OK);
    assert_string_equal(told(watch), "c ");
    assert_int_equal(CLAIM(d->engine, &task, .holder = "w"), 1);
    assert_status(lw_lease_return(d->engine, task.id, task.token, 0), LW_OK);
    CHECK(is_readable(watch));
    lw_claim_watch_close(watch);
    lw_claim_watch_close(NULL);
    assert_int_equal(lw_claim_watch_fd(NULL), -1);
    lw_snapshot_clear(&task);
}

/* ---- threads ------------------------------------------------------------------------------ */

enum { WORKERS = 4, TASKS = 400 };

struct crowd {
    lw_engine *engine;
    struct tally done;
};

/* A worker elsewhere: waits at the descriptor, claims, and finishes. */
static void *work(void *arg) {
    struct crowd *crowd = arg;
    lw_claim_watch *watch;
    lw_snapshot task = LW_SNAPSHOT_INIT;
    char queue[LW_NAME_MAX + 1];
    assert_status(lw_claim_watch_open(crowd->engine, &watch, NULL), LW_OK);
    while (tally_read(&crowd->done) < TASKS) {
        struct pollfd p = {.fd = lw_claim_watch_fd(watch), .events = POLLIN};
        poll(&p, 1, 50); /* others may take the last ones */
        while (lw_claim_watch_next(watch, queue) == 1) {
        }
        while (CLAIM(crowd->engine, &task, .holder = "w", .lease_ms = 60000) == 1) {
            lw_settlement end = {.id = task.id, .token = task.token, .outcome = LW_OUTCOME_DONE};
            assert_status(settle_one(crowd->engine, end), LW_OK);
            tally_add(&crowd->done, 1);
        }
    }
    lw_claim_watch_close(watch);
    lw_snapshot_clear(&task);
    return NULL;
}

TEST(several_workers_share_what_is_submitted_and_each_task_is_done_once) {
    const char *urls[STORES_MAX];
    for (size_t i = 0, count = list_stores(urls); i < count; i++) {
        struct crowd crowd = {.done = TALLY};
        pthread_t workers[WORKERS];
        lw_engine_stats stats;
        assert_status(lw_open(&crowd.engine, urls[i], LW_ENGINE_OPTIONS(.workers = 1), NULL),
                      LW_OK);
        start(crowd.engine);
        for (int k = 0; k < WORKERS; k++)
            workers[k] = start_thread(work, &crowd);
        for (int k = 0; k < TASKS; k++)
            SUBMIT(crowd.engine, .kind = "mail", .queue = k % 2 ? "a" : "b");
        for (int k = 0; k < WORKERS; k++)
            join_thread(workers[k]);
        assert_status(lw_get_stats(crowd.engine, &stats), LW_OK);
        assert_int_equal(stats.finished_total, TASKS);
        assert_int_equal(stats.crashed_total, 0);
        close_engine(crowd.engine);
    }
}

static void on_synced(void *user, int status, lw_id id) {
    assert_status(status, LW_OK);
    assert_int_equal(id, 0);
    tally_add(user, 1);
}

TEST(without_waiting_one_call_tells_when_all_of_it_is_durable) {
    const char *urls[STORES_MAX];
    for (size_t i = 0, count = list_stores(urls); i < count; i++) {
        lw_engine *engine;
        struct tally synced = TALLY;
        lw_snapshot task = LW_SNAPSHOT_INIT;
        lw_error err = {0};
        assert_status(lw_open(&engine, urls[i], LW_ENGINE_OPTIONS(.workers = 1), NULL), LW_OK);
        start(engine);
        lw_id id = SUBMIT(engine, .kind = "mail");
        assert_int_equal(CLAIM(engine, &task, .holder = "w", .flags = LW_NO_WAIT), 1);
        assert_status(lw_sync_async(engine, on_synced, &synced, &err), LW_OK);
        tally_await(&synced, 1);
        lw_settlement end = {.id = id, .token = task.token, .outcome = LW_OUTCOME_DONE};
        assert_status(lw_lease_settle(engine, &end, 1, LW_NO_WAIT, &err), LW_OK);
        assert_status(end.status, LW_OK);
        assert_status(lw_sync(engine), LW_OK);
        assert_int_equal(state_of(engine, id), LW_FINISHED);
        assert_status(lw_sync_async(engine, NULL, NULL, &err), LW_EINVAL);
        assert_status(lw_sync_async(NULL, on_synced, NULL, NULL), LW_EINVAL);
        assert_status(lw_sync(NULL), LW_EINVAL);
        lw_snapshot_clear(&task);
        close_engine(engine);
    }
}

/* ---- with the submit ---------------------------------------------------------------------- */

struct told {
    int calls, status;
    lw_id id;
};

static void on_submitted(void *user, int status, lw_id id) {
    struct told *told = user;
    told->calls++;
    told->status = status;
    told->id = id;
}

static void submit_to(lw_engine *engine, const lw_task *task, lw_snapshot *leased,
                      struct told *told) {
    lw_error err = {0};
    int rc = lw_lease_submit(engine, task, LW_CLAIM_OPTIONS(.holder = "w", .lease_ms = 1000),
                             leased, on_submitted, told, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    lw_test_run(engine);
}

LEASE_TEST(a_task_is_submitted_to_a_holder_who_waits_for_it) {
    struct told told = {.calls = 0};
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    start(d->engine);
    submit_to(d->engine, LW_TASK(.kind = "mail", .key = "k", .payload = LW_TEXT("hello")), &leased,
              &told);
    assert_int_equal(told.calls, 1);
    assert_status(told.status, LW_OK);
    assert_int_equal(leased.id, told.id);
    assert_int_equal(leased.state, LW_STARTED);
    assert_int_equal(leased.attempts, 1);
    assert_int_equal(leased.lease_until_ms, leased.started_ms + 1000);
    assert_string_equal(leased.holder, "w");
    assert_bytes(leased.payload, "hello");
    lw_settlement end = {.id = leased.id, .token = leased.token, .outcome = LW_OUTCOME_DONE};
    submit_to(d->engine, LW_TASK(.kind = "mail", .key = "k"), &leased, &told);
    assert_status(told.status, LW_EXISTS);
    assert_int_equal(told.id, end.id);
    CHECK(leased.token == 0 && leased.id == 0);
    assert_status(settle_one(d->engine, end), LW_OK);
    assert_int_equal(state_of(d->engine, end.id), LW_FINISHED);
}

LEASE_TEST(what_a_holder_cannot_have_at_once_is_submitted_for_others) {
    struct told told = {.calls = 0};
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    assert_status(lw_lease_submit(d->engine, LW_TASK(.kind = "mail"),
                                  LW_CLAIM_OPTIONS(.holder = "w"), &leased, on_submitted, &told,
                                  NULL),
                  LW_OK);
    assert_int_equal(leased.token, 0); /* it is not started yet */
    handle(d->engine, "own", do_done, NULL);
    start(d->engine);
    submit_to(d->engine, LW_TASK(.kind = "mail"), &leased, &told); /* the first is before it */
    CHECK(leased.token == 0 && told.calls == 2);
    submit_to(d->engine, LW_TASK(.kind = "own", .queue = "q"), &leased, &told);
    CHECK(leased.token == 0 && told.calls == 3);
    submit_to(d->engine, LW_TASK(.kind = "mail", .queue = "q", .delay_ms = 5), &leased, &told);
    CHECK(leased.token == 0 && told.calls == 4);
    for (lw_id id = 1; id <= 2; id++) {
        lw_settlement end = take_one(d->engine);
        assert_int_equal(end.id, id);
        end.outcome = LW_OUTCOME_DONE;
        assert_status(settle_one(d->engine, end), LW_OK);
    }
}

LEASE_TEST(a_submit_for_a_holder_takes_who_and_how_long_and_nothing_else) {
    static const struct {
        lw_claim_options options;
        const char *words;
    } wrong[] = {
        {{.struct_size = sizeof(lw_claim_options)}, "holder"},
        {{.struct_size = sizeof(lw_claim_options), .holder = "w", .max = 2}, "only holder"},
        {{.struct_size = sizeof(lw_claim_options), .holder = "w", .flags = LW_NO_WAIT},
         "only holder"},
        {{.struct_size = sizeof(lw_claim_options), .holder = "w", .lease_ms = -1}, "lease_ms"},
        {{.struct_size = 1, .holder = "w"}, "LW_CLAIM_OPTIONS"},
    };
    struct told told = {.calls = 0};
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    const lw_task *task = LW_TASK(.kind = "mail");
    const lw_claim_options *right = LW_CLAIM_OPTIONS(.holder = "w");
    start(d->engine);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lw_error err = {0};
        assert_status(
            lw_lease_submit(d->engine, task, &wrong[i].options, &leased, on_submitted, &told, &err),
            LW_EINVAL);
        CHECK(strstr(err.message, wrong[i].words) != NULL);
    }
    assert_status(lw_lease_submit(d->engine, task, right, NULL, on_submitted, &told, NULL),
                  LW_EINVAL);
    assert_status(lw_lease_submit(d->engine, task, right, &leased, NULL, NULL, NULL), LW_EINVAL);
    assert_status(lw_lease_submit(d->engine, NULL, right, &leased, on_submitted, &told, NULL),
                  LW_EINVAL);
    assert_status(lw_lease_submit(NULL, task, right, &leased, on_submitted, &told, NULL),
                  LW_EINVAL);
    lw_test_run(d->engine);
    assert_int_equal(told.calls, 0);
}

/* ---- what cannot be ----------------------------------------------------------------------- */

static void refuse(lw_engine *engine, const lw_claim_options *options, const char *words) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_error err = {0};
    assert_status(lw_lease_claim(engine, options, &task, &err), LW_EINVAL);
    if (!strstr(err.message, words))
        fprintf(stderr, "%s, not: %s\n", err.message, words);
    CHECK(strstr(err.message, words) != NULL);
    assert_status(lw_lease_claim(engine, options, &task, NULL), LW_EINVAL);
}

static void refuse_end(lw_engine *engine, lw_settlement end, const char *words) {
    lw_error err = {0};
    assert_status(lw_lease_settle(engine, &end, 1, 0, &err), LW_OK);
    assert_status(end.status, LW_EINVAL);
    if (!strstr(err.message, words))
        fprintf(stderr, "%s, not: %s\n", err.message, words);
    CHECK(strstr(err.message, words) != NULL);
}

LEASE_TEST(nonsense_is_refused_with_a_sentence) {
    static char large[LW_PAYLOAD_MAX + 1];
    static const char long_name[] =
        "a name that is much longer than the sixty-four bytes that a holder may have, by far";
    const char *wrong = "a b", *names[LW_CLAIM_NAMES_MAX + 1] = {"a"};
    lw_error err = {0};
    lw_claim_watch *watch;
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w"), "not been started");
    start(d->engine);
    refuse(NULL, LW_CLAIM_OPTIONS(.holder = "w"), "engine is NULL");
    refuse(d->engine, NULL, "NULL");
    refuse(d->engine, &(lw_claim_options){.holder = "w"}, "LW_CLAIM_OPTIONS");
    refuse(d->engine, LW_CLAIM_OPTIONS(.max = 1), "no holder");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = ""), "no holder");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "a\nb"), "control characters");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = long_name), "1 to 64");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .max = LW_CLAIM_MAX + 1), "max is 1001");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .max = -1), "max is -1");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .lease_ms = -1), "lease_ms is -1");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .lease_ms = LW_LEASE_MS_MAX + 1), "lease_ms");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .flags = 8), "LW_NO_WAIT");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .queues = &wrong, .queue_count = 1), "queue");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .kinds = &wrong, .kind_count = 1), "kind");
    refuse(d->engine, LW_CLAIM_OPTIONS(.holder = "w", .kind_count = 1), "not NULL");
    refuse(d->engine,
           LW_CLAIM_OPTIONS(.holder = "w", .queues = names, .queue_count = LW_CLAIM_NAMES_MAX + 1),
           "at most 64");
    assert_status(lw_lease_claim(d->engine, LW_CLAIM_OPTIONS(.holder = "w"), NULL, &err),
                  LW_EINVAL);

    SUBMIT(d->engine, .kind = "mail");
    lw_settlement end = take_one(d->engine), bad = end;
    refuse_end(d->engine, bad, "0 is no outcome");
    bad =
        (lw_settlement){.id = end.id, .token = end.token, .outcome = LW_OUTCOME_DONE, .wait_ms = 5};
    refuse_end(d->engine, bad, "wait_ms");
    bad.outcome = LW_OUTCOME_RETRY;
    bad.wait_ms = -1;
    refuse_end(d->engine, bad, "wait_ms is -1");
    bad.wait_ms = 0;
    bad.result = LW_TEXT("x");
    refuse_end(d->engine, bad, "only an attempt that is done");
    bad.outcome = LW_OUTCOME_DONE;
    bad.result = (lw_bytes){large, sizeof large};
    refuse_end(d->engine, bad, "result has 16777217 bytes");
    bad.result = (lw_bytes){NULL, 0};
    bad.then_count = LW_THEN_MAX + 1;
    refuse_end(d->engine, bad, "1001 successors");
    assert_status(lw_lease_extend(d->engine, end.id, end.token, 0, 0), LW_EINVAL);
    assert_status(lw_lease_extend(d->engine, end.id, end.token, 1000, 9), LW_EINVAL);
    assert_status(lw_lease_extend(NULL, end.id, end.token, 1000, 0), LW_EINVAL);
    assert_status(lw_lease_return(d->engine, end.id, end.token, 9), LW_EINVAL);
    assert_status(lw_lease_checkpoint(d->engine, end.id, end.token,
                                      (lw_bytes){large, LW_CHECKPOINT_MAX + 1}, 0),
                  LW_EINVAL);
    assert_status(lw_lease_partial(d->engine, end.id, end.token, (lw_bytes){NULL, 1}), LW_EINVAL);
    assert_status(lw_lease_progress(d->engine, 0, 0, 1, 2, NULL), LW_ELEASE);
    assert_status(lw_lease_extend(d->engine, UINT64_MAX, 1, 1000, 0), LW_ELEASE);
    assert_status(lw_claim_watch_open(NULL, &watch, &err), LW_EINVAL);
    assert_status(lw_claim_watch_open(d->engine, NULL, &err), LW_EINVAL);
    assert_status(lw_claim_watch_next(NULL, NULL), LW_EINVAL);
    end.outcome = LW_OUTCOME_DONE;
    assert_status(settle_one(d->engine, end), LW_OK); /* after all of that */
}
