/* Accepting tasks: ids, room, and what happens when there is none. */
#include "engines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define LONG_MS 200000 /* only ever waited for when something is broken */

static struct tally runs = TALLY, drops = TALLY, ends = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static void count_end(void *user, const lw_snapshot *task) {
    (void)task;
    tally_add(user, 1);
}

static lw_engine_stats figures(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats;
}

static int try_submit(lw_engine *engine, const lw_task *task) {
    return lw_submit(engine, task, NULL, NULL);
}

/* One worker that waits at the gate, and room for `limit` tasks in all. */
struct full {
    lw_engine *engine;
    struct gate gate;
};

static void fill_up(struct full *full, lw_overflow overflow, int64_t submit_timeout_ms) {
    full->gate = (struct gate)GATE;
    full->engine = OPEN_ENGINE(.workers = 1, .task_limit = 3, .overflow = overflow,
                               .submit_timeout_ms = submit_timeout_ms);
    handle(full->engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &full->gate));
    handle(full->engine, "mail", do_count, NULL);
    handle(full->engine, "by-hand", NULL, LW_HANDLER_OPTIONS(.retry = {.min_ms = 3600000}));
    start(full->engine);
    SUBMIT(full->engine, .kind = "gate");
    tally_await(&full->gate.arrived, 1);
    SUBMIT(full->engine, .kind = "mail");
    SUBMIT(full->engine, .kind = "mail");
}

/* The same without workers, on a clock: nobody but submitters sleeps there. */
static lw_engine *open_still(lw_clock *clock, int64_t submit_timeout_ms) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .clock = clock,
                                    .submit_timeout_ms = submit_timeout_ms);
    SUBMIT(engine, .kind = "mail");
    return engine;
}

static void empty(struct full *full) {
    gate_open(&full->gate);
    assert_status(lw_stop(full->engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(full->engine);
}

/* ---- ids ----------------------------------------------------------------------------------- */

TEST(ids_rise_and_stay_below_2_to_the_53) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id last = 0;
    for (int i = 0; i < 5000; i++) {
        lw_id id = SUBMIT(engine, .kind = "mail");
        assert_true(id > last && id < UINT64_C(1) << 53);
        last = id;
    }
    close_engine(engine);
}

static void *collect_ids(void *arg) {
    lw_id last = 0;
    for (int i = 0; i < 2000; i++) {
        lw_id id = SUBMIT(arg, .kind = "mail");
        CHECK(id > last);
        last = id;
    }
    return NULL;
}

TEST(ids_rise_for_each_of_many_submitters_and_none_is_given_twice) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    pthread_t threads[4];
    handle(engine, "mail", do_count, NULL);
    start(engine);
    for (int i = 0; i < 4; i++)
        threads[i] = start_thread(collect_ids, engine);
    for (int i = 0; i < 4; i++)
        join_thread(threads[i]);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_int_equal(figures(engine).finished_total, 8000);
    assert_int_equal(tally_read(&runs), 8000);
    close_engine(engine);
}

TEST(an_id_may_be_left_out) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .key = "ann"), NULL, NULL), LW_OK);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .key = "ann"), NULL, NULL), LW_EXISTS);
    close_engine(engine);
}

/* ---- what travels -------------------------------------------------------------------------- */

static lw_task seen;
static char seen_payload[64], seen_key[64];

static lw_outcome do_look(lw_ctx *ctx, const lw_task *task) {
    seen = *task;
    if (task->payload.size > 0)
        memcpy(seen_payload, task->payload.data, task->payload.size);
    snprintf(seen_key, sizeof seen_key, "%s", task->key ? task->key : "");
    return lw_done(ctx);
}

TEST(a_handler_is_given_what_was_submitted_and_the_caller_keeps_its_own) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    char payload[] = "a \0 payload", key[] = "ann", queue[] = "slow", kind[] = "look";
    handle(engine, "look", do_look, NULL);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = kind, .key = key, .queue = queue, .priority = 7,
                      .payload = {payload, sizeof payload});
    memset(payload, 'x', sizeof payload);
    memset(key, 'x', 3);
    memset(queue, 'x', 4);
    memset(kind, 'x', 4);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(seen.id, id);
    assert_int_equal(seen.attempt, 1);
    assert_int_not_equal(seen.token, 0);
    assert_int_equal(seen.priority, 7);
    assert_string_equal(seen.kind, "look");
    assert_string_equal(seen.queue, "slow");
    assert_string_equal(seen_key, "ann");
    assert_int_equal(seen.payload.size, sizeof payload);
    assert_memory_equal(seen_payload, "a \0 payload", sizeof payload);
    close_engine(engine);
}

static bool is_aligned;

static lw_outcome do_align(lw_ctx *ctx, const lw_task *task) {
    uintptr_t payload = (uintptr_t)task->payload.data;
    uintptr_t value = (uintptr_t)lw_ctx_value(ctx, NULL);
    is_aligned = (payload | value) % _Alignof(max_align_t) == 0;
    return lw_done(ctx);
}

TEST(a_handler_can_read_payload_and_value_as_any_type) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_ctx *request;
    handle(engine, "align", do_align, NULL);
    start(engine);
    assert_status(lw_ctx_open(&request, LW_CTX_OPTIONS(.value = "abc", .value_size = 3), NULL),
                  LW_OK);
    for (size_t size = 1; size < 20; size++) {
        char key[32] = "kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk";
        key[size] = 0;
        is_aligned = false;
        SUBMIT(engine, .kind = "align", .key = key, .payload = {"0123456789012345678", size},
               .ctx = size % 2 ? request : NULL);
        assert_int_equal(lw_test_run(engine), 1);
        assert_true(is_aligned);
    }
    lw_ctx_close(request);
    close_engine(engine);
}

TEST(an_ordinary_task_after_another_shows_nothing_of_that) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    int argument = 0;
    handle(engine, "look", do_look, NULL);
    start(engine);
    SUBMIT(engine, .kind = "look", .key = "ann", .payload = LW_TEXT("secret"), .run = do_look,
           .arg = &argument, .priority = 1);
    SUBMIT(engine, .kind = "look");
    assert_int_equal(lw_test_run(engine), 2);
    assert_null(seen.key);
    assert_null(seen.arg);
    assert_null(seen.run);
    assert_int_equal(seen.payload.size, 0);
    assert_string_equal(seen.queue, "default");
    assert_int_equal(seen.priority, 1000);
    close_engine(engine);
}

static lw_outcome do_argument(lw_ctx *ctx, const lw_task *task) {
    assert_string_equal(task->kind, "call");
    tally_add(task->arg, 1);
    return lw_done(ctx);
}

TEST(a_function_with_its_argument_needs_no_kind) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    struct tally tally = TALLY;
    start(engine);
    SUBMIT(engine, .run = do_argument, .arg = &tally);
    SUBMIT(engine, .run = do_argument, .arg = &tally);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(tally_read(&tally), 2);
    close_engine(engine);
}

static char seen_value[LW_CTX_VALUE_MAX];
static size_t seen_value_size;
static bool was_done;

static lw_outcome do_value(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    const void *value = lw_ctx_value(ctx, &seen_value_size);
    if (value)
        memcpy(seen_value, value, seen_value_size);
    was_done = lw_ctx_done(ctx);
    return task->attempt == 1 ? lw_retry(ctx, "once more") : lw_done(ctx);
}

TEST(the_value_of_the_callers_context_travels_and_its_end_does_not) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    lw_ctx *request;
    lw_id id;
    handle(engine, "mail", do_value, NULL);
    start(engine);
    assert_status(lw_ctx_open(&request,
                              LW_CTX_OPTIONS(.value = "trace-7", .value_size = 8, .clock = clock,
                                             .timeout_ms = 1000),
                              NULL),
                  LW_OK);
    id = SUBMIT(engine, .kind = "mail", .ctx = request);
    assert_status(lw_ctx_cancel(request), LW_OK);
    lw_ctx_close(request);
    assert_int_equal(lw_test_run(engine), 1);
    assert_false(was_done);
    assert_int_equal(seen_value_size, 8);
    assert_string_equal(seen_value, "trace-7");
    memset(seen_value, 0, sizeof seen_value);
    assert_int_equal(lw_test_advance(engine, 10000), 1); /* with the retry, too */
    assert_string_equal(seen_value, "trace-7");
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    SUBMIT(engine, .kind = "mail");
    lw_test_run(engine);
    assert_int_equal(seen_value_size, 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_context_that_is_done_does_not_keep_a_task_out_when_there_is_room) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_ctx *request;
    assert_status(lw_ctx_open(&request, NULL, NULL), LW_OK);
    assert_status(lw_ctx_cancel(request), LW_OK);
    SUBMIT(engine, .kind = "mail", .ctx = request);
    lw_ctx_close(request);
    close_engine(engine);
}

/* ---- LW_REFUSE ----------------------------------------------------------------------------- */

TEST(a_full_engine_refuses) {
    struct full full;
    lw_error err = {0};
    fill_up(&full, LW_REFUSE, 0);
    assert_status(lw_submit(full.engine, LW_TASK(.kind = "mail"), NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "room");
    assert_int_equal(figures(full.engine).refused_total, 1);
    empty(&full);
}

TEST(what_waits_for_a_time_or_another_takes_room_too) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 3, .overflow = LW_REFUSE);
    lw_id id = SUBMIT(engine, .kind = "mail");
    lw_id delayed = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    SUBMIT(engine, .kind = "mail", .after = &id, .after_count = 1);
    assert_status(try_submit(engine, LW_TASK(.kind = "mail")), LW_EFULL);
    assert_status(lw_cancel(engine, delayed), LW_OK);
    SUBMIT(engine, .kind = "mail");
    assert_status(try_submit(engine, LW_TASK(.kind = "mail")), LW_EFULL);
    close_engine(engine);
}

TEST(a_task_keeps_its_room_until_its_end_so_that_a_retry_needs_none) {
    lw_clock *clock = open_clock();
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .task_limit = 1, .overflow = LW_REFUSE);
    handle(engine, "again", do_retry,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000, .jitter_percent = LW_ZERO, .attempts = 3}));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "again");
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(try_submit(engine, LW_TASK(.kind = "again")), LW_EFULL);
    assert_int_equal(lw_test_advance(engine, 3000), 2);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    SUBMIT(engine, .kind = "again");
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(bytes_are_bounded_too) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .byte_limit = 10, .overflow = LW_REFUSE);
    handle(engine, "mail", do_count, NULL);
    start(engine);
    SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("12345"));
    SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("67890"));
    SUBMIT(engine, .kind = "mail"); /* one without bytes */
    assert_status(try_submit(engine, LW_TASK(.kind = "mail", .payload = LW_TEXT("x"))), LW_EFULL);
    assert_int_equal(figures(engine).task_bytes, 10);
    assert_int_equal(lw_test_run(engine), 3);
    assert_int_equal(figures(engine).task_bytes, 0);
    SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("1234567890"));
    close_engine(engine);
}

TEST(a_queue_has_limits_of_its_own) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .overflow = LW_REFUSE);
    assert_status(lw_queue(engine, "few", LW_QUEUE_OPTIONS(.limit = 2), NULL), LW_OK);
    assert_status(lw_queue(engine, "light", LW_QUEUE_OPTIONS(.byte_limit = 3), NULL), LW_OK);
    SUBMIT(engine, .kind = "mail", .queue = "few");
    SUBMIT(engine, .kind = "mail", .queue = "few");
    assert_status(try_submit(engine, LW_TASK(.kind = "mail", .queue = "few")), LW_EFULL);
    SUBMIT(engine, .kind = "mail", .queue = "light", .payload = LW_TEXT("abc"));
    assert_status(
        try_submit(engine, LW_TASK(.kind = "mail", .queue = "light", .payload = LW_TEXT("d"))),
        LW_EFULL);
    SUBMIT(engine, .kind = "mail", .queue = "light");
    SUBMIT(engine, .kind = "mail");
    close_engine(engine);
}

TEST(a_queue_may_refuse_where_the_engine_blocks) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1);
    assert_status(lw_queue(engine, "web", LW_QUEUE_OPTIONS(.overflow = LW_REFUSE), NULL), LW_OK);
    SUBMIT(engine, .kind = "mail");
    assert_status(try_submit(engine, LW_TASK(.kind = "mail", .queue = "web")), LW_EFULL);
    close_engine(engine);
}

/* ---- LW_BLOCK ------------------------------------------------------------------------------ */

static void *submit_mail(void *engine) {
    SUBMIT(engine, .kind = "mail");
    return NULL;
}

TEST(a_blocked_submitter_goes_on_when_there_is_room) {
    struct full full;
    pthread_t threads[5];
    fill_up(&full, LW_BLOCK, 0);
    for (int i = 0; i < 5; i++)
        threads[i] = start_thread(submit_mail, full.engine);
    gate_open(&full.gate);
    for (int i = 0; i < 5; i++)
        join_thread(threads[i]);
    empty(&full);
    assert_int_equal(tally_read(&runs), 7);
}

TEST(a_block_ends_at_its_timeout) {
    struct full full;
    lw_error err = {0};
    fill_up(&full, LW_BLOCK, 1);
    assert_status(lw_submit(full.engine, LW_TASK(.kind = "mail"), NULL, &err), LW_ETIMEDOUT);
    assert_sentence(&err, LW_ETIMEDOUT, "room");
    assert_status(try_submit(full.engine, LW_TASK(.kind = "mail", .submit_timeout_ms = LW_ZERO)),
                  LW_ETIMEDOUT);
    empty(&full);
}

struct patient {
    lw_engine *engine;
    const lw_task *task;
    int status;
};

static void *submit_patiently(void *arg) {
    struct patient *p = arg;
    p->status = lw_submit(p->engine, p->task, NULL, NULL);
    return NULL;
}

/* A submitter that waits for room on the clock of the test. */
static pthread_t start_patient(struct patient *p, lw_clock *clock, int sleepers) {
    pthread_t thread = start_thread(submit_patiently, p);
    await_sleepers(clock, sleepers);
    return thread;
}

TEST(a_task_says_itself_how_long_its_submit_waits) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_still(clock, LW_ZERO);
    struct patient p = {engine, LW_TASK(.kind = "mail", .submit_timeout_ms = 1000), 0};
    pthread_t thread = start_patient(&p, clock, 1);
    advance(clock, 999);
    await_sleepers(clock, 1);
    advance(clock, 1);
    join_thread(thread);
    assert_status(p.status, LW_ETIMEDOUT);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(the_callers_context_bounds_the_wait) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_still(clock, 100000);
    lw_ctx *request;
    assert_status(lw_ctx_open(&request, LW_CTX_OPTIONS(.timeout_ms = 500, .clock = clock), NULL),
                  LW_OK);
    struct patient p = {engine, LW_TASK(.kind = "mail", .ctx = request), 0};
    pthread_t thread = start_patient(&p, clock, 1);
    advance(clock, 500);
    join_thread(thread);
    assert_status(p.status, LW_ETIMEDOUT);
    lw_ctx_close(request);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(cancelling_the_callers_context_ends_the_wait) {
    struct full full;
    lw_ctx *request;
    fill_up(&full, LW_BLOCK, 0);
    assert_status(lw_ctx_open(&request, NULL, NULL), LW_OK);
    struct patient p = {full.engine, LW_TASK(.kind = "mail", .ctx = request), 0};
    pthread_t thread = start_thread(submit_patiently, &p);
    assert_status(lw_ctx_cancel(request), LW_OK);
    join_thread(thread);
    assert_status(p.status, LW_ECANCELED);
    lw_ctx_close(request);
    empty(&full);
}

TEST(a_stop_ends_the_wait) {
    struct full full;
    fill_up(&full, LW_BLOCK, 0);
    struct patient p = {full.engine, LW_TASK(.kind = "mail"), 0};
    pthread_t thread = start_thread(submit_patiently, &p);
    assert_status(lw_stop(full.engine, LW_DRAIN, 0), LW_ETIMEDOUT);
    join_thread(thread);
    assert_status(p.status, LW_ESTOPPING);
    empty(&full);
}

/* Each queue is full; who waits for one of them must not sleep through the room of the other. */
TEST(who_waits_for_one_queue_does_not_stand_in_the_way_of_another) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_count, NULL);
    assert_status(
        lw_queue(engine, "a", LW_QUEUE_OPTIONS(.limit = 1, .submit_timeout_ms = 100000), NULL),
        LW_OK);
    assert_status(
        lw_queue(engine, "b", LW_QUEUE_OPTIONS(.limit = 1, .submit_timeout_ms = 100000), NULL),
        LW_OK);
    start(engine);
    lw_id in_a = SUBMIT(engine, .kind = "mail", .queue = "a");
    lw_id in_b = SUBMIT(engine, .kind = "mail", .queue = "b");
    struct patient a = {engine, LW_TASK(.kind = "mail", .queue = "a"), 0};
    struct patient b = {engine, LW_TASK(.kind = "mail", .queue = "b"), 0};
    pthread_t first = start_patient(&a, clock, 1), second = start_patient(&b, clock, 2);
    assert_status(lw_cancel(engine, in_b), LW_OK);
    join_thread(second);
    assert_status(b.status, LW_OK);
    assert_status(lw_cancel(engine, in_a), LW_OK);
    join_thread(first);
    assert_status(a.status, LW_OK);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_small_task_may_pass_a_large_one_that_waits_for_room) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock, .byte_limit = 10,
                                    .submit_timeout_ms = 100000);
    lw_id six = SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("123456"));
    lw_id four = SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("1234"));
    struct patient large = {engine, LW_TASK(.kind = "mail", .payload = LW_TEXT("1234567")), 0};
    struct patient small = {engine, LW_TASK(.kind = "mail", .payload = LW_TEXT("123")), 0};
    pthread_t first = start_patient(&large, clock, 1), second = start_patient(&small, clock, 2);
    assert_status(lw_cancel(engine, four), LW_OK);
    join_thread(second);
    assert_status(small.status, LW_OK);
    assert_status(lw_cancel(engine, six), LW_OK);
    join_thread(first);
    assert_status(large.status, LW_OK);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- what never fits ----------------------------------------------------------------------- */

TEST(what_could_never_fit_is_refused_and_not_waited_for) {
    const lw_overflow policies[] = {LW_BLOCK, LW_REFUSE, LW_DROP_OLDEST};
    for (int i = 0; i < 3; i++) {
        lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .byte_limit = 10, .task_limit = 3,
                                        .overflow = policies[i]);
        lw_id id = SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("1234"));
        const lw_task *many[] = {LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail"),
                                 LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail")};
        lw_error err = {0};
        int rc = lw_submit(engine, LW_TASK(.kind = "mail", .payload = LW_TEXT("12345678901")), NULL,
                           &err);
        assert_true(rc == LW_EINVAL || rc == LW_EFULL);
        assert_sentence(&err, rc, "");
        rc = lw_submit_many(engine, many, 4, NULL, &err);
        assert_true(rc == LW_EINVAL || rc == LW_EFULL);
        assert_int_equal(state_of(engine, id), LW_ENQUEUED); /* and nobody was dropped for it */
        close_engine(engine);
    }
}

/* ---- LW_DROP_OLDEST ------------------------------------------------------------------------ */

TEST(the_first_of_the_queue_makes_room_for_the_newest) {
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 2, .overflow = LW_DROP_OLDEST);
    start(engine);
    lw_id first =
        SUBMIT(engine, .run = do_count, .on_drop = count_drop, .on_end = count_end, .user = &ends);
    lw_id second = SUBMIT(engine, .run = do_count, .on_drop = count_drop);
    lw_id third = SUBMIT(engine, .run = do_count, .on_drop = count_drop);
    assert_int_equal(state_of(engine, first), LW_ABORTED);
    assert_int_equal(state_of(engine, second), LW_ENQUEUED);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, third), LW_FINISHED);
    assert_int_equal(tally_read(&drops), 1);
    assert_int_equal(tally_read(&ends), 1);
    assert_int_equal(tally_read(&runs), 2);
    close_engine(engine);
    assert_int_equal(tally_read(&drops), 1);
}

TEST(what_waits_for_a_time_is_not_dropped) {
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 2, .overflow = LW_DROP_OLDEST);
    lw_id delayed = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    lw_id waiting = SUBMIT(engine, .kind = "mail", .delay_ms = 1000);
    assert_status(try_submit(engine, LW_TASK(.kind = "mail")), LW_EFULL);
    assert_int_equal(state_of(engine, delayed), LW_SCHEDULED);
    assert_int_equal(state_of(engine, waiting), LW_SCHEDULED);
    close_engine(engine);
}

TEST(bytes_make_as_many_go_as_it_takes) {
    lw_engine *engine =
        OPEN_ENGINE(.workers = LW_ZERO, .byte_limit = 10, .overflow = LW_DROP_OLDEST);
    lw_id ids[3];
    for (int i = 0; i < 3; i++)
        ids[i] = SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("123"));
    SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("1234567"));
    assert_int_equal(state_of(engine, ids[0]), LW_ABORTED);
    assert_int_equal(state_of(engine, ids[1]), LW_ABORTED);
    assert_int_equal(state_of(engine, ids[2]), LW_ENQUEUED);
    close_engine(engine);
}

TEST(only_the_queue_that_is_full_loses_tasks) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .overflow = LW_DROP_OLDEST);
    assert_status(lw_queue(engine, "few", LW_QUEUE_OPTIONS(.limit = 1), NULL), LW_OK);
    lw_id other = SUBMIT(engine, .kind = "mail");
    lw_id old = SUBMIT(engine, .kind = "mail", .queue = "few");
    const lw_task *tasks[] = {LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail", .queue = "few")};
    assert_status(lw_submit_many(engine, tasks, 2, NULL, NULL), LW_OK);
    assert_int_equal(state_of(engine, other), LW_ENQUEUED);
    assert_int_equal(state_of(engine, old), LW_ABORTED);
    close_engine(engine);
}

/* ---- LW_CALLER_RUNS ------------------------------------------------------------------------ */

static pthread_t ran_on;
static int ran_attempt;

static lw_outcome do_where(lw_ctx *ctx, const lw_task *task) {
    ran_on = pthread_self();
    ran_attempt = (int)task->attempt;
    return task->attempt == 1 && task->payload.size > 0 ? lw_retry(ctx, "not yet") : lw_done(ctx);
}

TEST(a_full_queue_makes_the_caller_run_the_first_attempt) {
    struct full full;
    fill_up(&full, LW_CALLER_RUNS, 0);
    lw_id id = SUBMIT(full.engine, .run = do_where, .on_drop = count_drop);
    assert_true(pthread_equal(ran_on, pthread_self()));
    assert_int_equal(state_of(full.engine, id), LW_FINISHED);
    empty(&full);
    assert_int_equal(tally_read(&drops), 0);
}

static lw_id failed_first;

static void *submit_failing(void *arg) {
    struct full *full = arg;
    failed_first =
        SUBMIT(full->engine, .run = do_where, .kind = "by-hand", .payload = LW_TEXT("fail first"));
    return NULL;
}

/* The caller is let go when there is room for what waits for its next attempt. */
TEST(what_fails_in_the_caller_waits_for_room_and_is_retried_by_workers) {
    struct full full;
    fill_up(&full, LW_CALLER_RUNS, 0);
    pthread_t caller = start_thread(submit_failing, &full);
    await_that(figures(full.engine).scheduled == 1);
    assert_int_equal(ran_attempt, 1);
    gate_open(&full.gate);
    join_thread(caller);
    assert_status(lw_retry_now(full.engine, failed_first, NULL), LW_OK);
    assert_status(lw_wait(full.engine, failed_first, LONG_MS, NULL), LW_OK);
    assert_int_equal(ran_attempt, 2);
    assert_false(pthread_equal(ran_on, pthread_self()));
    empty(&full);
}

static lw_outcome do_later(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_snooze(ctx, 3600000);
}

/* One that finds no room in time goes, and its argument with it. */
static void pile_up(int64_t byte_limit, int64_t task_limit, size_t size) {
    static const char bytes[100];
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = task_limit, .clock = clock,
                                    .byte_limit = byte_limit, .overflow = LW_CALLER_RUNS,
                                    .submit_timeout_ms = LW_ZERO);
    lw_snapshot last = LW_SNAPSHOT_INIT;
    lw_id id = 0;
    handle(engine, "later", do_later, NULL);
    start(engine);
    SUBMIT(engine, .kind = "later", .delay_ms = 1, .payload = {bytes, size});
    for (int i = 0; i < 50; i++)
        id = SUBMIT(engine, .run = do_later, .on_drop = count_drop, .payload = {bytes, size});
    assert_int_equal(figures(engine).scheduled, 1);
    assert_int_equal(figures(engine).task_bytes, size);
    assert_int_equal(figures(engine).aborted_total, 50);
    assert_status(lw_get(engine, id, &last), LW_OK);
    assert_string_equal(last.last_error, "there was no room to try it again");
    lw_snapshot_clear(&last);
    lw_test_run(engine);
    assert_int_equal(tally_read(&drops), 50);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(what_fails_in_callers_never_piles_up_beyond_the_limit_of_tasks) {
    drops = (struct tally)TALLY;
    pile_up(0, 1, 0);
}

TEST(what_fails_in_callers_never_piles_up_beyond_the_limit_of_bytes) {
    drops = (struct tally)TALLY;
    pile_up(100, 0, 100);
}

/* Nothing that must not run yet is run by a caller. */
static void open_small(struct full *full, lw_clock *clock) {
    full->gate = (struct gate)GATE;
    full->engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .clock = clock,
                               .overflow = LW_CALLER_RUNS, .submit_timeout_ms = LW_ZERO);
    handle(full->engine, "mail", do_count, NULL);
    start(full->engine);
    SUBMIT(full->engine, .kind = "mail", .delay_ms = 100000);
}

TEST(a_caller_runs_nothing_that_waits_for_a_time_or_another) {
    struct full full;
    lw_clock *clock = open_clock();
    open_small(&full, clock);
    lw_id first = 1;
    assert_status(try_submit(full.engine, LW_TASK(.kind = "mail", .delay_ms = 5)), LW_ETIMEDOUT);
    assert_status(
        try_submit(full.engine, LW_TASK(.kind = "mail", .after = &first, .after_count = 1)),
        LW_ETIMEDOUT);
    assert_int_equal(tally_read(&runs), 0);
    close_engine(full.engine);
    lw_test_clock_close(clock);
}

TEST(a_caller_runs_nothing_that_nobody_handles) {
    struct full full;
    open_small(&full, NULL);
    assert_status(try_submit(full.engine, LW_TASK(.kind = "unknown")), LW_ETIMEDOUT);
    assert_int_equal(figures(full.engine).failed_total, 0);
    close_engine(full.engine);
}

TEST(a_caller_runs_nothing_of_a_paused_queue) {
    struct full full;
    open_small(&full, NULL);
    assert_status(lw_pause(full.engine, "default"), LW_OK);
    assert_status(try_submit(full.engine, LW_TASK(.kind = "mail")), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&runs), 0);
    close_engine(full.engine);
}

TEST(a_caller_keeps_to_the_concurrency_of_the_kind) {
    struct full full = {.gate = GATE};
    full.engine = OPEN_ENGINE(.workers = 1, .task_limit = 1, .overflow = LW_CALLER_RUNS,
                              .submit_timeout_ms = LW_ZERO);
    handle(full.engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &full.gate, .concurrency = 1));
    start(full.engine);
    SUBMIT(full.engine, .kind = "gate");
    tally_await(&full.gate.arrived, 1);
    assert_status(try_submit(full.engine, LW_TASK(.kind = "gate")), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&full.gate.arrived), 1);
    empty(&full);
}

static lw_outcome do_inner(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_engine *engine = lw_ctx_user(ctx);
    SUBMIT(engine, .kind = "mail");
    assert_status(lw_wait_idle(engine, 0), LW_EDEADLOCK);
    return lw_done(ctx);
}

TEST(a_caller_that_runs_an_attempt_is_inside) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .clock = clock,
                                    .overflow = LW_CALLER_RUNS);
    handle(engine, "mail", do_count, NULL);
    handle(engine, "inner", do_inner, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    SUBMIT(engine, .kind = "mail");
    lw_id id = SUBMIT(engine, .kind = "inner");
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    assert_int_equal(lw_test_run(engine), 2);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- many ---------------------------------------------------------------------------------- */

TEST(many_are_accepted_all_or_none) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 3, .overflow = LW_REFUSE);
    handle(engine, "mail", do_count, NULL);
    start(engine);
    const lw_task *tasks[] = {LW_TASK(.kind = "mail", .key = "a", .payload = LW_TEXT("x")),
                              LW_TASK(.kind = "mail", .delay_ms = 3600000),
                              LW_TASK(.kind = "mail")};
    lw_id ids[3] = {0}, one = SUBMIT(engine, .kind = "mail");
    lw_error err = {0};
    assert_status(lw_submit_many(engine, tasks, 3, ids, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "");
    assert_int_equal(figures(engine).submitted_total, 1);
    assert_int_equal(figures(engine).task_bytes, 0);
    assert_status(lw_find(engine, "mail", "a", &(lw_snapshot)LW_SNAPSHOT_INIT), LW_ENOTFOUND);
    assert_status(lw_cancel(engine, one), LW_OK);
    assert_status(lw_submit_many(engine, tasks, 3, ids, &err), LW_OK);
    assert_true(one < ids[0] && ids[0] < ids[1] && ids[1] < ids[2]);
    assert_int_equal(lw_test_run(engine), 2);
    close_engine(engine);
}

TEST(one_bad_task_of_many_is_named_by_its_number) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_error err = {0};
    const lw_task *tasks[] = {LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail", .delay_ms = -4),
                              LW_TASK(.kind = "mail")};
    assert_status(lw_submit_many(engine, tasks, 3, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "2 of 3");
    assert_sentence(&err, LW_EINVAL, "delay_ms is -4");
    tasks[1] = NULL;
    assert_status(lw_submit_many(engine, tasks, 3, NULL, &err), LW_EINVAL);
    lw_id never = 999;
    tasks[1] = LW_TASK(.kind = "mail", .after = &never, .after_count = 1);
    assert_status(lw_submit_many(engine, tasks, 3, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "2 of 3");
    assert_int_equal(figures(engine).submitted_total, 0);
    assert_status(lw_submit_many(engine, tasks, LW_SUBMIT_MAX + 1, NULL, &err), LW_EINVAL);
    assert_status(lw_submit_many(engine, NULL, 2, NULL, &err), LW_EINVAL);
    assert_status(lw_submit_many(engine, NULL, 0, NULL, &err), LW_OK);
    close_engine(engine);
}

static void *submit_three(void *engine) {
    const lw_task *tasks[] = {LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail"),
                              LW_TASK(.kind = "mail")};
    assert_status(lw_submit_many(engine, tasks, 3, NULL, NULL), LW_OK);
    return NULL;
}

TEST(many_wait_until_there_is_room_for_all) {
    struct full full;
    fill_up(&full, LW_BLOCK, 0);
    pthread_t thread = start_thread(submit_three, full.engine);
    gate_open(&full.gate);
    join_thread(thread);
    empty(&full);
    assert_int_equal(tally_read(&runs), 5);
}

/* ---- inside -------------------------------------------------------------------------------- */

static int inside_ok, inside_full;

static lw_outcome do_submit_ten(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    for (int i = 0; i < 10; i++) {
        int rc = lw_submit(lw_ctx_user(ctx), LW_TASK(.kind = "mail"), NULL, NULL);
        CHECK(rc == LW_OK || rc == LW_EFULL);
        rc == LW_OK ? inside_ok++ : inside_full++;
    }
    return lw_done(ctx);
}

TEST(tasks_submit_into_their_reserve_and_never_wait) {
    const lw_overflow policies[] = {LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS};
    for (int i = 0; i < 3; i++) {
        lw_engine *engine =
            OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .reserve = 4, .overflow = policies[i]);
        inside_ok = inside_full = 0;
        handle(engine, "many", do_submit_ten, LW_HANDLER_OPTIONS(.user = engine));
        handle(engine, "mail", do_count, NULL);
        start(engine);
        SUBMIT(engine, .kind = "many");
        assert_int_equal(lw_test_run(engine), 5);
        assert_int_equal(inside_ok, 4);
        assert_int_equal(inside_full, 6);
        SUBMIT(engine, .kind = "many"); /* the reserve is there again */
        assert_int_equal(lw_test_run(engine), 5);
        close_engine(engine);
    }
}

TEST(without_a_reserve_a_task_is_refused_when_it_is_full) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 3, .reserve = LW_ZERO);
    handle(engine, "many", do_submit_ten, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "mail", do_count, NULL);
    start(engine);
    SUBMIT(engine, .kind = "many");
    assert_int_equal(lw_test_run(engine), 3);
    assert_int_equal(inside_ok, 2);
    close_engine(engine);
}

TEST(the_reserve_is_not_for_those_outside) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .overflow = LW_REFUSE);
    SUBMIT(engine, .kind = "mail");
    assert_status(try_submit(engine, LW_TASK(.kind = "mail")), LW_EFULL);
    close_engine(engine);
}

static void submit_one_more(void *user, const lw_snapshot *task) {
    (void)task;
    SUBMIT(user, .kind = "mail");
}

TEST(a_callback_submits_without_waiting) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .task_limit = 2);
    struct gate gate = GATE;
    handle(engine, "mail", do_count, NULL);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "gate", .on_end = submit_one_more, .user = engine);
    SUBMIT(engine, .kind = "mail", .on_end = submit_one_more, .user = engine);
    gate_open(&gate);
    tally_await(&runs, 3);
    close_engine(engine);
}

/* ---- what a handler gets ------------------------------------------------------------------- */

static int empty_count;

static lw_outcome do_expect_empty(lw_ctx *ctx, const lw_task *task) {
    assert_int_equal(task->payload.size, 0);
    assert_string_equal(task->payload.data, "");
    empty_count++;
    return lw_done(ctx);
}

/* Whatever the task before it on the same worker had, and whether that is still there. */
TEST(an_empty_payload_is_an_empty_text_of_its_own) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "empty", do_expect_empty,
           LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO}));
    handle(engine, "mail", do_count, LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO}));
    start(engine);
    for (int i = 0; i < 3; i++) {
        SUBMIT(engine, .kind = "empty", .start_by_ms = 1000);
        SUBMIT(engine, .kind = "empty");
        SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("something"));
        SUBMIT(engine, .kind = "empty", .payload = LW_TEXT(""));
        SUBMIT(engine, .kind = "empty", .key = "k");
        SUBMIT(engine, .kind = "empty");
        assert_int_equal(lw_test_run(engine), 6);
    }
    assert_int_equal(empty_count, 15);
    close_engine(engine);
}
