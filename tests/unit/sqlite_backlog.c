/* sqlite_backlog.c: more payloads than an engine keeps in memory, as its users see them. */
#include "engines.h"

#include "store/lean.h"

#include <legwork/testing.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 256 << 10, COUNT = 3 * LW__RESIDENT_MAX / SIZE };

static _Atomic int wrong, ran, told;

static lw_engine *open_store(const lw_allocator *allocator) {
    lw_engine *engine;
    lw_error err = {0};
    assert_status(lw_open(&engine, "sqlite:tasks.db",
                          LW_ENGINE_OPTIONS(.workers = 2, .allocator = allocator,
                                            .byte_limit = 2LL * COUNT * SIZE),
                          &err),
                  LW_OK);
    return engine;
}

static bool is_payload(lw_bytes payload, int number) {
    const char *bytes = payload.data;
    return payload.size == SIZE && bytes[0] == (char)number && bytes[SIZE / 2] == (char)~number
           && bytes[SIZE] == 0;
}

static void submit_all(lw_engine *engine, lw_id *ids) {
    char *payload = calloc(1, SIZE);
    CHECK(payload != NULL);
    for (int i = 0; i < COUNT; i++) {
        payload[0] = (char)i;
        payload[SIZE / 2] = (char)~i;
        assert_status(
            lw_submit(engine, LW_TASK(.kind = "mail", .payload = {payload, SIZE}), &ids[i], NULL),
            LW_OK);
    }
    free(payload);
}

static void assert_all_are_there(lw_engine *engine, const lw_id *ids, lw_state state) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    for (int i = 0; i < COUNT; i++) {
        assert_status(lw_get(engine, ids[i], &snapshot), LW_OK);
        assert_int_equal(snapshot.state, state);
        CHECK(is_payload(snapshot.payload, i));
    }
    lw_snapshot_clear(&snapshot);
}

static bool look_at_one(void *user, const lw_snapshot *task) {
    int *count = user;
    CHECK(is_payload(task->payload, (*count)++));
    return true;
}

static void assert_all_are_listed(lw_engine *engine) {
    int count = 0;
    assert_int_equal(lw_list(engine, NULL, look_at_one, &count), COUNT);
}

static lw_outcome check_payload(lw_ctx *ctx, const lw_task *task) {
    wrong += !is_payload(task->payload, (int)task->id - 1);
    ran++;
    return task->attempt == 1 && task->id % 2 ? lw_retry_after(ctx, 0, "once more") : lw_done(ctx);
}

TEST(a_backlog_is_seen_and_run_as_if_it_was_in_memory) {
    lw_id ids[COUNT];
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    lw_engine *engine = open_store(NULL);
    submit_all(engine, ids);
    assert_all_are_there(engine, ids, LW_ENQUEUED);
    assert_status(lw_close(engine), LW_OK);
    engine = open_store(NULL);
    assert_all_are_there(engine, ids, LW_ENQUEUED);
    assert_all_are_listed(engine);
    assert_status(lw_handle(engine, "mail", check_payload, NULL, NULL), LW_OK);
    assert_status(lw_start(engine, NULL), LW_OK);
    assert_status(lw_wait(engine, ids[COUNT - 1], -1, &snapshot), LW_OK);
    CHECK(is_payload(snapshot.payload, COUNT - 1));
    lw_snapshot_clear(&snapshot);
    assert_status(lw_wait_idle(engine, -1), LW_OK);
    assert_int_equal(wrong, 0);
    assert_int_equal(ran, COUNT + COUNT / 2);
    assert_all_are_there(engine, ids, LW_FINISHED);
    assert_status(lw_close(engine), LW_OK);
}

TEST(a_backlog_of_large_payloads_takes_little_memory) {
    lw_id ids[COUNT];
    uint64_t bytes;
    lw_test_memory *memory;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    lw_engine *engine = open_store(lw_test_memory_allocator(memory));
    submit_all(engine, ids);
    lw_test_memory_usage(memory, NULL, &bytes, NULL);
    CHECK(bytes < LW__RESIDENT_MAX + SIZE);
    assert_status(lw_close(engine), LW_OK);
    lw_test_memory_close(memory);
}

static void on_failed(void *user, const lw_snapshot *task) {
    (void)user;
    wrong += !is_payload(task->payload, (int)task->id - 1);
    told++;
}

TEST(whoever_is_told_of_a_task_that_waited_sees_its_payload) {
    lw_id ids[COUNT];
    lw_engine *engine;
    assert_status(lw_open(&engine, "sqlite:tasks.db",
                          LW_ENGINE_OPTIONS(.workers = 1, .byte_limit = 2LL * COUNT * SIZE,
                                            .on_aborted = on_failed),
                          NULL),
                  LW_OK);
    submit_all(engine, ids);
    for (int i = 0; i < COUNT; i++)
        assert_status(lw_cancel(engine, ids[i]), LW_OK);
    assert_status(lw_start(engine, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    assert_int_equal(told, COUNT);
    assert_int_equal(wrong, 0);
    assert_status(lw_close(engine), LW_OK);
}
