/* Stopping an engine: what runs, what stays, what is handed back. */
#include "engines.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#define LONG_MS 200000

static struct tally runs = TALLY, drops = TALLY;
static struct gate gate = GATE;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

static lw_outcome do_until_done(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&gate.arrived, 1);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    assert_true(lw_ctx_stopping(ctx));
    return lw_retry(ctx, "stopped");
}

static bool count_state(void *user, const lw_snapshot *task) {
    ((int *)user)[task->state]++;
    return true;
}

/* How many unfinished tasks are in each state. */
static void list_left(lw_engine *engine, int counts[8]) {
    memset(counts, 0, 8 * sizeof *counts);
    assert_true(
        lw_list(engine, LW_FILTER(.is_unfinished = true, .limit = 100000), count_state, counts)
        >= 0);
}

static lw_engine *open_one(void) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "mail", do_count, NULL);
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "wait", do_until_done, NULL);
    handle(engine, "again", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 100000}));
    start(engine);
    return engine;
}

/* ---- modes --------------------------------------------------------------------------------- */

TEST(a_drain_runs_what_is_due_and_leaves_what_waits_for_a_time) {
    lw_engine *engine = open_one();
    int left[8];
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 100; i++)
        SUBMIT(engine, .kind = "mail");
    lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    SUBMIT(engine, .kind = "mail", .after = &later, .after_count = 1);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 100);
    list_left(engine, left);
    assert_int_equal(left[LW_SCHEDULED], 1);
    assert_int_equal(left[LW_CREATED], 1);
    assert_int_equal(left[LW_ENQUEUED] + left[LW_STARTED], 0);
    close_engine(engine);
}

TEST(a_drain_of_all_runs_what_waits_for_a_time_once) {
    lw_engine *engine = open_one();
    int left[8];
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .kind = "mail", .delay_ms = 100000 + i);
    lw_id again = SUBMIT(engine, .kind = "again");
    await_that(state_of(engine, again) == LW_SCHEDULED);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 10);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, again, &s), LW_OK);
    assert_int_equal(s.state, LW_SCHEDULED);
    assert_int_equal(s.attempts, 2);
    lw_snapshot_clear(&s);
    list_left(engine, left);
    assert_int_equal(left[LW_SCHEDULED], 1);
    close_engine(engine);
}

TEST(a_drain_is_through_when_nothing_is_left_that_could_run) {
    lw_engine *engine = open_one();
    int left[8];
    SUBMIT(engine, .kind = "mail", .queue = "slow");
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    assert_status(lw_pause(engine, "slow"), LW_OK);
    lw_id paused = SUBMIT(engine, .kind = "mail", .queue = "slow");
    lw_id unknown = SUBMIT(engine, .kind = "nobody-handles-this");
    SUBMIT(engine, .kind = "mail", .after = &unknown, .after_count = 1);
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    SUBMIT(engine, .kind = "mail");
    assert_status(lw_stop(engine, LW_DRAIN_ALL, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 2);
    assert_int_equal(state_of(engine, paused), LW_ENQUEUED);
    assert_int_equal(state_of(engine, unknown), LW_ENQUEUED);
    list_left(engine, left);
    assert_int_equal(left[LW_ENQUEUED], 2);
    assert_int_equal(left[LW_CREATED], 1);
    close_engine(engine);
}

TEST(after_a_drain_that_is_through_a_queue_can_be_resumed_and_starts_nothing) {
    lw_engine *engine = open_one();
    lw_explanation why;
    SUBMIT(engine, .kind = "mail", .queue = "slow");
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    assert_status(lw_pause(engine, "slow"), LW_OK);
    lw_id paused = SUBMIT(engine, .kind = "mail", .queue = "slow");
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_status(lw_resume(engine, "slow"), LW_OK);
    assert_status(lw_wait(engine, paused, -1, NULL), LW_ESTOPPING);
    assert_status(lw_explain(engine, paused, &why), LW_OK);
    assert_int_equal(why.count, 1);
    assert_string_equal(why.reasons[0], "the engine has stopped, and starts nothing more");
    assert_status(lw_stop(engine, LW_DRAIN_ALL, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 1);
    assert_int_equal(state_of(engine, paused), LW_ENQUEUED);
    close_engine(engine);
}

TEST(an_engine_that_was_not_started_drains_nothing) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "mail", do_count, NULL);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_status(lw_wait_idle(engine, LONG_MS), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    close_engine(engine);
}

TEST(a_drop_starts_nothing_more_and_asks_what_runs_to_give_up) {
    lw_engine *engine = open_one();
    lw_snapshot s = LW_SNAPSHOT_INIT;
    int left[8];
    lw_id waiting = SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 100; i++)
        SUBMIT(engine, .kind = "mail");
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 0);
    assert_status(lw_get(engine, waiting, &s), LW_OK);
    assert_int_equal(s.state, LW_ENQUEUED);
    assert_int_equal(s.attempts, 0); /* it does not count */
    assert_int_equal(s.error_count, 0);
    lw_snapshot_clear(&s);
    list_left(engine, left);
    assert_int_equal(left[LW_ENQUEUED], 101);
    close_engine(engine);
}

TEST(a_stop_waits_as_long_as_it_is_told_and_can_be_called_again) {
    lw_engine *engine = open_one();
    lw_id id = SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_ETIMEDOUT);
    assert_status(lw_stop(engine, LW_DRAIN, 1), LW_ETIMEDOUT);
    assert_int_equal(state_of(engine, id), LW_STARTED);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    close_engine(engine);
}

static lw_outcome do_ask_why(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_STOP);
    assert_status(lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX), LW_ECANCELED);
    tally_add(&runs, 1);
    return lw_retry(ctx, "there is no time");
}

TEST(after_the_deadline_of_a_drain_what_begins_is_asked_to_give_up_too) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    lw_snapshot s = LW_SNAPSHOT_INIT;
    int left[8];
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    handle(engine, "why", do_ask_why, NULL);
    start(engine);
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    lw_id id = SUBMIT(engine, .kind = "why");
    SUBMIT(engine, .kind = "why");
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_int_equal(tally_read(&runs), 2);
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_int_equal(s.attempts, 0); /* it does not count */
    assert_int_equal(s.error_count, 0);
    lw_snapshot_clear(&s);
    list_left(engine, left);
    assert_int_equal(left[LW_SCHEDULED], 3); /* with the one that was at the gate */
    close_engine(engine);
}

TEST(a_harder_mode_wins_over_a_drain_that_waits) {
    lw_engine *engine = open_one();
    int left[8];
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    SUBMIT(engine, .kind = "mail");
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK); /* not softer again */
    list_left(engine, left);
    assert_int_equal(left[LW_ENQUEUED], 2);
    assert_int_equal(tally_read(&runs), 0);
    close_engine(engine);
}

static void *stop_engine(void *engine) {
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    return NULL;
}

TEST(a_drain_wins_over_a_drain_of_all_that_comes_later) {
    lw_engine *engine = open_one();
    lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 3600000);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, LONG_MS), LW_OK);
    assert_int_equal(state_of(engine, later), LW_SCHEDULED);
    close_engine(engine);
}

TEST(any_number_may_stop_at_once) {
    lw_engine *engine = open_one();
    pthread_t threads[8];
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 8; i++)
        threads[i] = start_thread(stop_engine, engine);
    gate_open(&gate);
    for (int i = 0; i < 8; i++)
        join_thread(threads[i]);
    close_engine(engine);
}

TEST(nonsense_is_refused) {
    lw_engine *engine = open_one();
    assert_status(lw_stop(engine, (lw_stop_mode)17, 0), LW_EINVAL);
    assert_status(lw_stop(engine, LW_DRAIN, -2), LW_EINVAL);
    assert_status(lw_stop(engine, LW_DRAIN, LW_TIMEOUT_MS_MAX + 1), LW_EINVAL);
    assert_status(lw_stop(NULL, LW_DRAIN, 0), LW_EINVAL);
    SUBMIT(engine, .kind = "mail"); /* nothing has begun */
    tally_await(&runs, 1);
    close_engine(engine);
}

/* ---- from inside --------------------------------------------------------------------------- */

static lw_outcome do_stop(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    lw_stop_mode mode = task->payload.size > 0 ? LW_DROP : LW_DRAIN;
    assert_status(lw_stop(engine, mode, -1), LW_PENDING);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_ESTOPPING);
    assert_true(lw_ctx_stopping(ctx));
    assert_int_equal(lw_ctx_done(ctx), mode == LW_DROP);
    return lw_done(ctx);
}

TEST(a_handler_may_stop_its_engine) {
    for (int is_drop = 0; is_drop < 2; is_drop++) {
        lw_engine *engine = OPEN_ENGINE(.workers = 1);
        handle(engine, "stop", do_stop, LW_HANDLER_OPTIONS(.user = engine));
        handle(engine, "mail", do_count, NULL);
        lw_id id = SUBMIT(engine, .kind = "stop", .payload = {"x", (size_t)is_drop});
        lw_id mail = SUBMIT(engine, .kind = "mail");
        start(engine);
        assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
        assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
        assert_int_equal(state_of(engine, id), LW_FINISHED);
        assert_int_equal(state_of(engine, mail), is_drop ? LW_ENQUEUED : LW_FINISHED);
        close_engine(engine);
    }
}

static lw_outcome do_drain_for_a_moment(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_await(&gate.arrived, 1);
    assert_status(lw_stop(lw_ctx_user(ctx), LW_DRAIN, 1), LW_PENDING);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    assert_int_equal(lw_ctx_reason(ctx), LW_REASON_STOP);
    return lw_done(ctx);
}

TEST(the_deadline_of_a_drain_that_a_handler_has_begun_ends_contexts) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "wait", do_until_done, NULL);
    handle(engine, "stop", do_drain_for_a_moment, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "why", do_ask_why, NULL);
    lw_id waiting = SUBMIT(engine, .kind = "wait");
    lw_id stopping = SUBMIT(engine, .kind = "stop");
    SUBMIT(engine, .kind = "why");
    start(engine);
    await_that(state_of(engine, waiting) == LW_SCHEDULED);
    await_that(state_of(engine, stopping) == LW_FINISHED);
    tally_await(&runs, 1);
    assert_status(lw_stop(engine, LW_DRAIN, LONG_MS), LW_OK);
    close_engine(engine);
}

static lw_outcome do_close(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_true(lw_close(lw_ctx_user(ctx)) < 0);
    return lw_done(ctx);
}

TEST(a_handler_may_not_close_its_engine) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "close", do_close, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "close");
    lw_test_run(engine);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

/* ---- who waits for more --------------------------------------------------------------------- */

struct onlooker {
    lw_engine *engine;
    lw_events *events;
    lw_id id;
    int rc;
    lw_state state;
    pthread_t thread;
};

static void *read_to_the_end(void *arg) {
    struct onlooker *o = arg;
    lw_event event;
    while ((o->rc = lw_events_next(o->events, &event, -1)) == LW_OK)
        o->state = event.to;
    return NULL;
}

static void *wait_for_task(void *arg) {
    struct onlooker *o = arg;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    o->rc = lw_wait(o->engine, o->id, -1, &s);
    o->state = s.state;
    lw_snapshot_clear(&s);
    return NULL;
}

static struct onlooker *begin_reading(lw_engine *engine) {
    static struct onlooker reader;
    reader = (struct onlooker){.engine = engine};
    assert_status(lw_events_open(engine, &reader.events, 0), LW_OK);
    reader.thread = start_thread(read_to_the_end, &reader);
    return &reader;
}

static struct onlooker *begin_waiting(lw_engine *engine, lw_id id) {
    static struct onlooker waiter;
    waiter = (struct onlooker){.engine = engine, .id = id};
    waiter.thread = start_thread(wait_for_task, &waiter);
    return &waiter;
}

static void expect_told(struct onlooker *o, lw_state state) {
    join_thread(o->thread);
    assert_status(o->rc, LW_ESTOPPING);
    assert_int_equal(o->state, state);
    lw_events_close(o->events);
}

TEST(readers_and_waiters_are_told_when_a_stop_that_a_handler_has_begun_is_through) {
    for (int is_drop = 0; is_drop < 2; is_drop++) {
        lw_engine *engine = OPEN_ENGINE(.workers = 1);
        handle(engine, "stop", do_stop, LW_HANDLER_OPTIONS(.user = engine));
        struct onlooker *reader = begin_reading(engine);
        lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
        struct onlooker *waiter = begin_waiting(engine, later);
        SUBMIT(engine, .kind = "stop", .payload = {"x", (size_t)is_drop});
        start(engine);
        expect_told(reader, LW_FINISHED);
        expect_told(waiter, LW_SCHEDULED);
        assert_status(lw_wait(engine, later, 0, NULL), LW_PENDING);
        assert_status(lw_wait(engine, later, -1, NULL), LW_ESTOPPING);
        close_engine(engine);
    }
}

TEST(readers_and_waiters_are_told_when_a_stop_that_has_timed_out_is_through_after_all) {
    for (int is_drop = 0; is_drop < 2; is_drop++) {
        struct gate own = GATE;
        lw_engine *engine = OPEN_ENGINE(.workers = 1);
        handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &own));
        start(engine);
        struct onlooker *reader = begin_reading(engine);
        SUBMIT(engine, .kind = "gate");
        tally_await(&own.arrived, 1);
        struct onlooker *waiter =
            begin_waiting(engine, SUBMIT(engine, .kind = "mail", .delay_ms = 100000));
        assert_status(lw_stop(engine, is_drop ? LW_DROP : LW_DRAIN, 0), LW_ETIMEDOUT);
        gate_open(&own);
        expect_told(reader, is_drop ? LW_ENQUEUED : LW_SCHEDULED);
        expect_told(waiter, LW_SCHEDULED);
        close_engine(engine);
    }
}

TEST(waiters_are_told_by_a_stop_that_is_waited_for) {
    lw_engine *engine = open_one();
    struct onlooker *waiter =
        begin_waiting(engine, SUBMIT(engine, .kind = "mail", .delay_ms = 100000));
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    expect_told(waiter, LW_SCHEDULED);
    close_engine(engine);
}

static lw_outcome do_wait_for_another(lw_ctx *ctx, const lw_task *task) {
    lw_id other = 0;
    memcpy(&other, task->payload.data, sizeof other);
    tally_add(&gate.arrived, 1);
    assert_status(lw_wait(lw_ctx_user(ctx), other, -1, NULL), LW_ESTOPPING);
    return lw_retry(ctx, "stopped");
}

TEST(a_handler_that_waits_for_what_a_drop_does_not_start_does_not_hold_it_up) {
    lw_engine *engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "other", do_wait_for_another, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    SUBMIT(engine, .kind = "other", .payload = {&later, sizeof later});
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* most likely it sleeps by then */
    assert_status(lw_stop(engine, LW_DROP, LONG_MS), LW_OK);
    close_engine(engine);
}

/* ---- close --------------------------------------------------------------------------------- */

TEST(a_close_without_a_stop_drops) {
    lw_engine *engine = open_one();
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    for (int i = 0; i < 10; i++)
        SUBMIT(engine, .run = do_count, .on_drop = count_drop);
    close_engine(engine);
    assert_int_equal(tally_read(&runs), 0);
    assert_int_equal(tally_read(&drops), 10);
}

TEST(a_handler_that_still_runs_at_the_close_frees_the_engine_when_it_ends) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = 1, .allocator = lw_test_memory_allocator(memory));
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    SUBMIT(engine, .kind = "gate");
    tally_await(&gate.arrived, 1);
    SUBMIT(engine, .run = do_count, .on_drop = count_drop);
    assert_status(lw_stop(engine, LW_DROP, 0), LW_ETIMEDOUT);
    assert_status(lw_close(engine), LW_PENDING);
    gate_open(&gate);
    await_that(is_all_freed(memory));
    assert_int_equal(tally_read(&drops), 1);
    close_memory(memory);
}

static lw_outcome do_wind_down(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&gate.arrived, 1);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    for (int i = 0; i < 1000; i++)
        sched_yield(); /* whoever does not wait is through by then */
    tally_add(&runs, 1);
    return lw_done(ctx);
}

TEST(a_close_after_a_stop_that_a_handler_has_begun_waits) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "wait", do_wind_down, NULL);
    handle(engine, "stop", do_stop, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    SUBMIT(engine, .kind = "wait");
    tally_await(&gate.arrived, 1);
    lw_id id = SUBMIT(engine, .kind = "stop");
    assert_status(lw_wait(engine, id, LONG_MS, NULL), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&runs), 1);
}

TEST(threads_and_descriptors_are_gone_after_a_close) {
    lw_engine *warm = open_one();
    close_engine(warm);
    int threads = thread_count(), fds = fd_count();
    for (int i = 0; i < 5; i++) {
        lw_engine *engine = open_one();
        SUBMIT(engine, .kind = "mail");
        close_engine(engine);
    }
    await_that(thread_count() == threads);
    assert_int_equal(fd_count(), fds);
}

/* ---- every argument once ------------------------------------------------------------------- */

enum { SLIPS = 2000, SUBMITTERS = 3 };

struct slip {
    _Atomic int ran, dropped;
    int status;
    lw_id id;
    bool has_snoozed; /* its handler's */
};

struct submitter {
    lw_engine *engine;
    struct slip slips[SLIPS];
};

static lw_outcome do_slip(lw_ctx *ctx, const lw_task *task) {
    struct slip *slip = task->arg;
    switch (task->id % 8) {
    case 0:
        if (task->attempt == 1)
            return lw_retry(ctx, "once more");
        break;
    case 1:
        if (!slip->has_snoozed) {
            slip->has_snoozed = true;
            return lw_snooze(ctx, task->id % 16 == 1 ? 0 : 1);
        }
        break;
    case 2: atomic_fetch_add(&slip->ran, 1); return lw_fail(ctx, "no");
    case 3: atomic_fetch_add(&slip->ran, 1); return lw_abort(ctx, "not wanted");
    case 4: return lw_retry(ctx, "never"); /* its attempts are used up: on_drop has it */
    default: break;
    }
    atomic_fetch_add(&slip->ran, 1);
    return lw_done(ctx);
}

static void drop_slip(void *arg) {
    atomic_fetch_add(&((struct slip *)arg)->dropped, 1);
}

static void *submit_slips(void *arg) {
    struct submitter *s = arg;
    for (int i = 0; i < SLIPS; i++) {
        struct slip *slip = &s->slips[i];
        slip->status =
            lw_submit(s->engine,
                      LW_TASK(.run = do_slip, .kind = "slip", .arg = slip, .on_drop = drop_slip,
                              .delay_ms = i % 16 == 0 ? 100000 : 0),
                      &slip->id, NULL);
        CHECK(slip->status == LW_OK || slip->status == LW_ESTOPPING);
        if (i % 11 == 0 && slip->status == LW_OK)
            lw_cancel(s->engine, slip->id);
    }
    return NULL;
}

static void race_a_stop(lw_stop_mode mode, int limit) {
    static struct submitter all[SUBMITTERS];
    pthread_t threads[SUBMITTERS];
    int left[8];
    lw_engine_stats stats;
    memset(all, 0, sizeof all);
    lw_engine *engine = OPEN_ENGINE(.workers = 2, .task_limit = limit);
    handle(engine, "slip", NULL, LW_HANDLER_OPTIONS(.retry = {.attempts = 2, .min_ms = LW_ZERO}));
    start(engine);
    for (int i = 0; i < SUBMITTERS; i++) {
        all[i].engine = engine;
        threads[i] = start_thread(submit_slips, &all[i]);
    }
    await_that((lw_get_stats(engine, &stats), stats.submitted_total) > 500
               || stats.scheduled >= (uint64_t)limit);
    assert_status(lw_stop(engine, mode, LONG_MS), LW_OK);
    for (int i = 0; i < SUBMITTERS; i++)
        join_thread(threads[i]);
    assert_status(lw_stop(engine, mode, LONG_MS), LW_OK);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    list_left(engine, left);
    uint64_t unfinished = (uint64_t)(left[LW_CREATED] + left[LW_SCHEDULED] + left[LW_ENQUEUED]);
    assert_int_equal(left[LW_STARTED], 0);
    assert_int_equal(stats.finished_total + stats.failed_total + stats.aborted_total + unfinished,
                     stats.submitted_total); /* run, refused, or left and listed */
    if (mode != LW_DROP)
        assert_int_equal(left[LW_ENQUEUED], 0);
    close_engine(engine);
    for (int i = 0; i < SUBMITTERS; i++)
        for (int k = 0; k < SLIPS; k++) {
            struct slip *slip = &all[i].slips[k];
            assert_int_equal(slip->ran + slip->dropped, slip->status == LW_OK);
        }
}

TEST(a_drop_among_submitters_loses_no_task_and_hands_each_argument_back_once) {
    for (int i = 0; i < 5; i++)
        race_a_stop(LW_DROP, 1000000);
}

TEST(a_drain_among_submitters_loses_no_task_and_hands_each_argument_back_once) {
    for (int i = 0; i < 5; i++)
        race_a_stop(LW_DRAIN, 1000000);
}

TEST(a_drain_of_all_among_submitters_loses_no_task_and_hands_each_argument_back_once) {
    for (int i = 0; i < 5; i++)
        race_a_stop(LW_DRAIN_ALL, 1000000);
}

TEST(submitters_that_wait_for_room_are_refused_by_a_stop) {
    for (int i = 0; i < 5; i++)
        race_a_stop(LW_DROP, 10);
}
