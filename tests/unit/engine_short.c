/* lw_submit_short, which compilers make out of lw_submit: whatever one says, the other does. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

/* The function of the library, whatever the compiler would make of a call. */
static int (*volatile submit_whole)(lw_engine *, const lw_task *, lw_id *, lw_error *) = lw_submit;

static lw_engine *open_driven_on(const char *url) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .task_limit = 4, .overflow = LW_REFUSE);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    return engine;
}

static void assert_same_bytes(lw_bytes a, lw_bytes b) {
    assert_int_equal(a.size, b.size);
    assert_true(a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}

static void assert_looks_like(lw_engine *engine, lw_id id, const lw_task *task) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_string_equal(s.kind, task->kind);
    assert_string_equal(s.queue, task->queue ? task->queue : "default");
    assert_string_equal(s.key ? s.key : "", task->key ? task->key : "");
    assert_same_bytes(s.payload, task->payload);
    assert_int_equal(s.priority, 1000);
    assert_int_equal(s.state, LW_ENQUEUED);
    lw_snapshot_clear(&s);
}

ENGINE_TEST(a_short_submit_accepts_what_it_is_given) {
    const lw_task tasks[] = {
        {.kind = "mail"},
        {.kind = "mail", .queue = "slow"},
        {.kind = "mail", .key = "ann"},
        {.kind = "mail", .queue = "slow", .key = "bob", .payload = {"a\0b", 3}},
    };
    lw_engine *engine = open_driven_on(url);
    for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
        const lw_task *t = &tasks[i];
        lw_id id = 0;
        assert_status(lw_submit_short(engine, t->kind, t->queue, t->key, t->payload, &id, NULL),
                      LW_OK);
        assert_looks_like(engine, id, t);
    }
    assert_int_equal(lw_test_run(engine), 4);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    close_engine(engine);
}

ENGINE_TEST(a_short_submit_finds_the_task_that_has_its_key) {
    lw_engine *engine = open_driven_on(url);
    lw_id first = SUBMIT(engine, .kind = "mail", .key = "ann"), id = 0;
    assert_status(lw_submit_short(engine, "mail", NULL, "ann", (lw_bytes){NULL, 0}, &id, NULL),
                  LW_EXISTS);
    assert_int_equal(id, first);
    assert_status(lw_submit_short(engine, "mail", NULL, "ann", (lw_bytes){NULL, 0}, NULL, NULL),
                  LW_EXISTS);
    close_engine(engine);
}

/* The same status and the same sentence. */
static void assert_same_refusal(lw_engine *engine, const lw_task *task) {
    lw_error short_err = {0}, whole_err = {0};
    lw_id id = 77;
    int rc =
        lw_submit_short(engine, task->kind, task->queue, task->key, task->payload, &id, &short_err);
    assert_true(rc < 0);
    assert_status(rc, submit_whole(engine, task, NULL, &whole_err));
    assert_string_equal(short_err.message, whole_err.message);
    assert_true(whole_err.message[0] != 0);
    assert_status(
        lw_submit_short(engine, task->kind, task->queue, task->key, task->payload, NULL, NULL), rc);
    assert_int_equal(id, 77);
}

#define ASSERT_SAME_REFUSAL(engine, ...) assert_same_refusal(engine, LW_TASK(__VA_ARGS__))

ENGINE_TEST(what_is_wrong_with_a_short_task_is_said_as_always) {
    char overlong[LW_NAME_MAX + 2];
    lw_engine *engine = open_driven_on(url);
    memset(overlong, 'x', sizeof overlong - 1);
    overlong[sizeof overlong - 1] = 0;
    ASSERT_SAME_REFUSAL(NULL, .kind = "mail");
    ASSERT_SAME_REFUSAL(engine, .kind = NULL);
    ASSERT_SAME_REFUSAL(engine, .kind = "");
    ASSERT_SAME_REFUSAL(engine, .kind = overlong);
    ASSERT_SAME_REFUSAL(engine, .kind = "ma il");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .queue = "");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .queue = overlong);
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .key = "");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .key = "a\nb");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .payload = {NULL, 1});
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .payload = {overlong, LW_PAYLOAD_MAX + 1});
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 0);
    close_engine(engine);
}

ENGINE_TEST(a_short_submit_finds_no_room_and_no_engine_that_accepts) {
    lw_engine *engine = open_driven_on(url);
    for (int i = 0; i < 4; i++)
        SUBMIT(engine, .kind = "mail");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail");
    ASSERT_SAME_REFUSAL(engine, .kind = "mail", .key = "ann");
    assert_int_equal(lw_test_run(engine), 4);
    assert_status(lw_stop(engine, LW_DRAIN, 0), LW_OK);
    ASSERT_SAME_REFUSAL(engine, .kind = "mail");
    close_engine(engine);
}

/* Fields that a short task does not have make it a whole one, constant or not. */
TEST(a_literal_with_more_is_submitted_whole) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id first = 0, second = 0, third = 0;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    volatile int64_t later_ms = 1000;
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .delay_ms = 1000), &first, NULL),
                  LW_OK);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .delay_ms = later_ms), &second, NULL),
                  LW_OK);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .priority = 7), &third, NULL), LW_OK);
    assert_int_equal(state_of(engine, first), LW_SCHEDULED);
    assert_int_equal(state_of(engine, second), LW_SCHEDULED);
    assert_status(lw_get(engine, third, &s), LW_OK);
    assert_int_equal(s.priority, 7);
    assert_status(lw_submit(engine, NULL, NULL, NULL), LW_EINVAL);
    lw_snapshot_clear(&s);
    close_engine(engine);
}
