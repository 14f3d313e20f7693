/* Keys: what is unique, for how long, and who is told. */
#include "engines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static struct tally runs = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

static void never(void *arg) {
    (void)arg;
    CHECK(!"called");
}

struct world {
    lw_engine *engine;
    lw_clock *clock;
};

static struct world open_world(void) {
    struct world w = {.clock = open_clock()};
    w.engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = w.clock);
    handle(w.engine, "mail", do_count, LW_HANDLER_OPTIONS(.retention = {.finished_ms = 60000}));
    handle(w.engine, "bad", do_fail, NULL);
    handle(w.engine, "again", do_retry, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1000}));
    handle(w.engine, "kept", do_count,
           LW_HANDLER_OPTIONS(.key_scope = LW_KEY_RETAINED, .retention = {.finished_ms = 5000}));
    handle(w.engine, "windowed", do_count,
           LW_HANDLER_OPTIONS(.key_scope = LW_KEY_WINDOW, .key_window_ms = 10000,
                              .retention = {.finished_ms = 2000}));
    start(w.engine);
    return w;
}

static void close_world(struct world *w) {
    close_engine(w->engine);
    lw_test_clock_close(w->clock);
}

/* The id that a second submit is told. */
static lw_id existing(lw_engine *engine, const lw_task *task) {
    lw_id id = 0;
    assert_status(lw_submit(engine, task, &id, NULL), LW_EXISTS);
    return id;
}

/* ---- scopes -------------------------------------------------------------------------------- */

TEST(a_key_keeps_others_out_while_its_task_is_unfinished) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "mail", .key = "ann");
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "mail", .key = "ann")), id);
    assert_int_equal(lw_test_run(w.engine), 1);
    lw_id next = SUBMIT(w.engine, .kind = "mail", .key = "ann");
    assert_true(next > id);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    close_world(&w);
}

TEST(a_key_holds_in_every_state_that_is_not_an_end) {
    struct world w = open_world();
    lw_id delayed = SUBMIT(w.engine, .kind = "mail", .key = "delayed", .delay_ms = 1000);
    lw_id held =
        SUBMIT(w.engine, .kind = "mail", .key = "held", .after = &delayed, .after_count = 1);
    lw_id retried = SUBMIT(w.engine, .kind = "again", .key = "retried");
    assert_int_equal(lw_test_run(w.engine), 1);
    assert_int_equal(state_of(w.engine, retried), LW_SCHEDULED);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "mail", .key = "delayed")), delayed);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "mail", .key = "held")), held);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "again", .key = "retried")), retried);
    close_world(&w);
}

TEST(keys_are_unique_per_kind_whatever_the_queue) {
    struct world w = open_world();
    lw_id a = SUBMIT(w.engine, .kind = "mail", .key = "ann");
    lw_id b = SUBMIT(w.engine, .kind = "bad", .key = "ann");
    assert_int_not_equal(a, b);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "mail", .key = "ann", .queue = "other")),
                     a);
    SUBMIT(w.engine, .kind = "mail", .key = "ann2");
    SUBMIT(w.engine, .kind = "mail", .key = "an");
    close_world(&w);
}

TEST(a_key_is_free_after_a_failure_and_an_abort) {
    struct world w = open_world();
    lw_id failed = SUBMIT(w.engine, .kind = "bad", .key = "ann");
    lw_test_run(w.engine);
    lw_id next = SUBMIT(w.engine, .kind = "bad", .key = "ann");
    assert_int_not_equal(failed, next);
    assert_status(lw_cancel(w.engine, next), LW_OK);
    SUBMIT(w.engine, .kind = "bad", .key = "ann");
    close_world(&w);
}

TEST(a_retained_key_keeps_others_out_until_its_task_has_left) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "kept", .key = "ann");
    lw_test_run(w.engine);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "kept", .key = "ann")), id);
    lw_test_advance(w.engine, 4999);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "kept", .key = "ann")), id);
    lw_test_advance(w.engine, 1);
    assert_int_equal(state_of(w.engine, id), 0);
    SUBMIT(w.engine, .kind = "kept", .key = "ann");
    close_world(&w);
}

TEST(forgetting_a_task_frees_its_retained_key) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "kept", .key = "ann");
    lw_test_run(w.engine);
    assert_status(lw_forget(w.engine, id), LW_OK);
    SUBMIT(w.engine, .kind = "kept", .key = "ann");
    close_world(&w);
}

TEST(a_task_may_say_another_scope_than_its_kind) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "mail", .key = "ann", .key_scope = LW_KEY_RETAINED);
    SUBMIT(w.engine, .kind = "kept", .key = "bob", .key_scope = LW_KEY_UNFINISHED);
    lw_test_run(w.engine);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "mail", .key = "ann")), id);
    SUBMIT(w.engine, .kind = "kept", .key = "bob");
    close_world(&w);
}

TEST(a_window_keeps_others_out_from_the_acceptance_on_even_when_its_task_has_left) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "windowed", .key = "ann");
    lw_test_run(w.engine);
    lw_test_advance(w.engine, 9999); /* retained for 2 s only, but its key is not free yet */
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "windowed", .key = "ann")), id);
    lw_test_advance(w.engine, 1);
    lw_id next = SUBMIT(w.engine, .kind = "windowed", .key = "ann");
    assert_int_equal(state_of(w.engine, id), 0);
    assert_true(next > id);
    close_world(&w);
}

TEST(a_window_that_is_over_still_keeps_others_out_while_unfinished) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "windowed", .key = "ann", .delay_ms = 30000);
    lw_test_advance(w.engine, 20000);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "windowed", .key = "ann")), id);
    lw_test_advance(w.engine, 10000);
    assert_int_equal(state_of(w.engine, id), LW_FINISHED);
    SUBMIT(w.engine, .kind = "windowed", .key = "ann");
    close_world(&w);
}

TEST(a_window_needs_a_length) {
    struct world w = open_world();
    lw_error err = {0};
    assert_status(lw_submit(w.engine,
                            LW_TASK(.kind = "mail", .key = "ann", .key_scope = LW_KEY_WINDOW), NULL,
                            &err),
                  LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "key_window_ms");
    SUBMIT(w.engine, .kind = "mail", .key = "ann", .key_scope = LW_KEY_WINDOW, .key_window_ms = 5);
    close_world(&w);
}

TEST(one_that_stays_for_its_key_alone_can_be_forgotten) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "windowed", .key = "ann");
    lw_test_run(w.engine);
    lw_test_advance(w.engine, 5000);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "windowed", .key = "ann")), id);
    assert_status(lw_forget(w.engine, id), LW_OK);
    lw_id next = SUBMIT(w.engine, .kind = "windowed", .key = "ann");
    lw_test_advance(w.engine, 60000);
    assert_int_equal(state_of(w.engine, next), 0);
    close_world(&w);
}

TEST(one_that_failed_and_stays_for_its_key_alone_can_be_retried) {
    lw_clock *clock = open_clock();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", do_count,
           LW_HANDLER_OPTIONS(.key_scope = LW_KEY_WINDOW, .key_window_ms = 10000,
                              .retention = {.failed_ms = 2000}));
    start(engine);
    assert_status(lw_test_fail_next(engine, "mail", 1, LW_OUTCOME_FAIL, "no"), LW_OK);
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_test_run(engine);
    lw_test_advance(engine, 5000);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    assert_status(lw_retry_now(engine, id, NULL), LW_OK);
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    lw_test_advance(engine, 3600000);
    assert_int_equal(state_of(engine, id), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- retried by hand ----------------------------------------------------------------------- */

TEST(a_failed_task_that_is_retried_by_hand_takes_its_key_again) {
    struct world w = open_world();
    lw_id id = SUBMIT(w.engine, .kind = "bad", .key = "ann");
    lw_test_run(w.engine);
    assert_status(lw_retry_now(w.engine, id, NULL), LW_OK);
    assert_int_equal(existing(w.engine, LW_TASK(.kind = "bad", .key = "ann")), id);
    lw_test_run(w.engine);
    lw_id next = SUBMIT(w.engine, .kind = "bad", .key = "ann");
    lw_error err = {0};
    assert_status(lw_retry_now(w.engine, id, &err), LW_EXISTS);
    assert_int_equal(state_of(w.engine, id), LW_FAILED);
    assert_status(lw_cancel(w.engine, next), LW_OK);
    assert_status(lw_retry_now(w.engine, id, NULL), LW_OK);
    close_world(&w);
}

/* ---- what is refused, what is not ---------------------------------------------------------- */

TEST(keys_that_are_none_are_refused) {
    struct world w = open_world();
    char long_key[LW_KEY_MAX + 2];
    memset(long_key, 'k', sizeof long_key);
    long_key[LW_KEY_MAX + 1] = 0;
    const char *bad[] = {"", "tab\there", "new\nline", "del\x7f", "\x01", long_key};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lw_error err = {0};
        assert_status(lw_submit(w.engine, LW_TASK(.kind = "mail", .key = bad[i]), NULL, &err),
                      LW_EINVAL);
        assert_sentence(&err, LW_EINVAL, "key");
    }
    long_key[LW_KEY_MAX] = 0;
    SUBMIT(w.engine, .kind = "mail", .key = long_key);
    SUBMIT(w.engine, .kind = "mail", .key = "Käse 🧀 with spaces");
    close_world(&w);
}

TEST(what_exists_takes_no_room_and_keeps_nothing_of_the_second) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .task_limit = 1, .overflow = LW_REFUSE,
                                    .allocator = lw_test_memory_allocator(memory));
    uint64_t before, after;
    lw_engine_stats stats;
    lw_id id = SUBMIT(engine, .kind = "mail", .key = "ann");
    lw_test_memory_usage(memory, NULL, &before, NULL);
    for (int i = 0; i < 100; i++)
        assert_int_equal(existing(engine, LW_TASK(.kind = "mail", .key = "ann",
                                                  .payload = LW_TEXT("some payload"))),
                         id);
    lw_test_memory_usage(memory, NULL, &after, NULL);
    assert_int_equal(after, before);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.existed_total, 100);
    assert_int_equal(stats.submitted_total, 1);
    close_engine(engine);
    close_memory(memory);
}

/* Of a kind that is known, and of a new one. */
ENGINE_TEST(many_with_one_key_need_room_for_one) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .task_limit = 2, .overflow = LW_REFUSE);
    const lw_task *task = LW_TASK(.kind = "mail", .key = "a"), *tasks[] = {task, task, task};
    const lw_task *other = LW_TASK(.kind = "new", .queue = "new", .key = "a");
    const lw_task *others[] = {other, other, other};
    lw_id ids[3];
    lw_error err = {0};
    SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    assert_status(lw_submit_many(engine, tasks, 3, ids, &err), LW_EXISTS);
    assert_true(ids[0] == ids[1] && ids[1] == ids[2]);
    assert_status(lw_submit_many(engine, others, 3, ids, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "task_limit of 2"); /* and not: never */
    assert_status(lw_cancel(engine, ids[0]), LW_OK);
    assert_status(lw_submit_many(engine, others, 3, ids, &err), LW_EXISTS);
    close_engine(engine);
}

TEST(an_argument_whose_key_exists_stays_the_callers) {
    struct world w = open_world();
    struct tally drops = TALLY;
    SUBMIT(w.engine, .kind = "call", .key = "ann", .run = do_count);
    lw_id id = 0;
    assert_status(lw_submit(w.engine,
                            LW_TASK(.kind = "call", .key = "ann", .run = do_count, .arg = &drops,
                                    .on_drop = never),
                            &id, NULL),
                  LW_EXISTS);
    assert_int_equal(lw_test_run(w.engine), 1);
    close_world(&w);
}

/* ---- many ---------------------------------------------------------------------------------- */

TEST(many_tasks_with_keys_are_accepted_at_once) {
    struct world w = open_world();
    char keys[LW_SUBMIT_MAX][16];
    lw_task tasks[LW_SUBMIT_MAX];
    const lw_task *pointers[LW_SUBMIT_MAX];
    lw_id ids[LW_SUBMIT_MAX];
    for (int i = 0; i < LW_SUBMIT_MAX; i++) {
        snprintf(keys[i], sizeof keys[i], "key-%d", i);
        tasks[i] = *LW_TASK(.kind = "mail", .key = keys[i]);
        pointers[i] = &tasks[i];
    }
    assert_status(lw_submit_many(w.engine, pointers, LW_SUBMIT_MAX, ids, NULL), LW_OK);
    for (int i = 0; i < LW_SUBMIT_MAX; i++)
        assert_int_equal(existing(w.engine, &tasks[i]), ids[i]);
    assert_int_equal(lw_test_run(w.engine), LW_SUBMIT_MAX);
    close_world(&w);
}

TEST(within_one_submit_a_key_is_unique_too) {
    struct world w = open_world();
    const lw_task *tasks[] = {LW_TASK(.kind = "mail", .key = "ann"), LW_TASK(.kind = "mail"),
                              LW_TASK(.kind = "mail", .key = "ann"),
                              LW_TASK(.kind = "mail", .key = "bob")};
    lw_id ids[4];
    assert_status(lw_submit_many(w.engine, tasks, 4, ids, NULL), LW_EXISTS);
    assert_int_equal(ids[2], ids[0]);
    assert_true(ids[0] < ids[1] && ids[1] < ids[3]);
    assert_int_equal(lw_test_run(w.engine), 3);
    close_world(&w);
}

/* ---- all at once --------------------------------------------------------------------------- */

enum { TRIGGERS = 1000 };

struct triggers {
    lw_engine *engine;
    struct gate gate;
    _Atomic int accepted, existed;
    _Atomic lw_id id;
};

static void *trigger(void *arg) {
    struct triggers *t = arg;
    lw_id id = 0, none = 0;
    gate_pass(&t->gate);
    int rc = lw_submit(t->engine, LW_TASK(.kind = "report", .key = "today"), &id, NULL);
    CHECK(rc == LW_OK || rc == LW_EXISTS);
    atomic_fetch_add(rc == LW_OK ? &t->accepted : &t->existed, 1);
    CHECK(atomic_compare_exchange_strong(&t->id, &none, id) || none == id);
    return NULL;
}

TEST(a_heavy_task_triggered_by_a_thousand_threads_at_once_runs_once) {
    static pthread_t threads[TRIGGERS];
    static struct gate running = GATE;
    struct triggers t = {.engine = OPEN_ENGINE(.workers = 4), .gate = GATE};
    int count = test_is_sanitized() ? 200 : TRIGGERS;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    handle(t.engine, "report", do_gate, LW_HANDLER_OPTIONS(.user = &running));
    start(t.engine);
    for (int i = 0; i < count; i++)
        threads[i] = start_thread(trigger, &t);
    tally_await(&t.gate.arrived, count);
    gate_open(&t.gate);
    for (int i = 0; i < count; i++)
        join_thread(threads[i]);
    gate_open(&running);
    assert_int_equal(t.accepted, 1);
    assert_int_equal(t.existed, count - 1);
    assert_status(lw_wait(t.engine, t.id, 200000, &s), LW_OK);
    assert_int_equal(s.attempts, 1);
    assert_int_equal(tally_read(&running.arrived), 1);
    lw_snapshot_clear(&s);
    close_engine(t.engine);
}

/* ---- while runs go on ---------------------------------------------------------------------- */

static _Atomic int inside, most_inside;

static lw_outcome do_alone(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    int now = atomic_fetch_add(&inside, 1) + 1;
    if (now > atomic_load(&most_inside))
        atomic_store(&most_inside, now);
    atomic_fetch_sub(&inside, 1);
    return lw_done(ctx);
}

static void *submit_again_and_again(void *engine) {
    for (int i = 0; i < 3000; i++) {
        lw_id id = 0;
        int rc = lw_submit(engine, LW_TASK(.kind = "alone", .key = "one"), &id, NULL);
        CHECK((rc == LW_OK || rc == LW_EXISTS) && id != 0);
    }
    return NULL;
}

TEST(tasks_of_one_key_never_run_beside_each_other) {
    lw_engine *engine = OPEN_ENGINE(.workers = 4);
    pthread_t threads[4];
    lw_engine_stats stats;
    handle(engine, "alone", do_alone, NULL);
    start(engine);
    for (int i = 0; i < 4; i++)
        threads[i] = start_thread(submit_again_and_again, engine);
    for (int i = 0; i < 4; i++)
        join_thread(threads[i]);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(atomic_load(&most_inside), 1);
    assert_int_equal(stats.submitted_total + stats.existed_total, 12000);
    assert_int_equal(stats.finished_total, stats.submitted_total);
    close_engine(engine);
}
