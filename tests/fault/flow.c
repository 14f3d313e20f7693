/* Flows without memory: the n-th allocation fails, whatever it is for. What was refused is asked
 * for again, an attempt that could not be settled is made again, and nothing is lost or half
 * there. */
#include "flows.h"

#include <stdio.h>
#include <stdlib.h>

static const char X[] = "example.org";

/* Until it works: only one allocation fails. */
#define INSIST(call, wanted)                \
    do {                                    \
        int insisted_ = (call);             \
        if (insisted_ == LW_ENOMEM)         \
            insisted_ = (call);             \
        assert_status(insisted_, (wanted)); \
    } while (0)

static bool count_all(void *user, const lw_flow_status *status) {
    CHECK(status->id[0]);
    ++*(int *)user;
    return true;
}

static lw_flow_condition look(struct flow_rig *rig) {
    static lw_flow_status status;
    INSIST(lw_flow_get(rig->engine, "site", X, &status), LW_OK);
    return status.condition;
}

/* Until it rests: what could not be settled is tried again after a while. */
static void run_to_rest(struct flow_rig *rig, lw_flow_condition wanted) {
    for (int i = 0; i < 5 && look(rig) != wanted; i++)
        advance_flow(rig, 10000);
    assert_int_equal(look(rig), wanted);
}

static void live(struct flow_rig *rig) {
    int count = 0;
    rig->scripts[DBASE] = script_fail;
    INSIST(lw_flow_start(rig->engine, "site", X, LW_TEXT("x"), NULL), LW_OK);
    run_to_rest(rig, LW_FLOW_HALTED);
    rig->scripts[DBASE] = NULL;
    INSIST(lw_flow_resume(rig->engine, "site", X, NULL), LW_OK);
    run_to_rest(rig, LW_FLOW_AT_GOAL);
    INSIST(lw_flow_wait(rig->engine, "site", X, 0, NULL), LW_OK);
    INSIST(lw_flow_move(rig->engine, "site", X, "creating", NULL), LW_EXISTS);
    INSIST(lw_flow_move(rig->engine, "site", X, "suspended", NULL), LW_OK);
    rig->scripts[SAVE] = script_abort;
    INSIST(lw_flow_move(rig->engine, "site", X, "creating", NULL), LW_OK);
    run_to_rest(rig, LW_FLOW_ABORTED);
    rig->scripts[SAVE] = NULL;
    INSIST(lw_flow_move(rig->engine, "site", X, "creating", NULL), LW_OK);
    INSIST(lw_flow_set(rig->engine, "site", X, "metadata", 0, NULL), LW_OK);
    run_to_rest(rig, LW_FLOW_AT_GOAL);
    int listed = lw_flow_list(rig->engine, "site", 0, 0, count_all, &count);
    CHECK(listed == LW_ENOMEM || (listed == 1 && count == 1));
    count = 0;
    listed = lw_flow_browse(rig->engine, NULL, count_all, &count);
    CHECK(listed == LW_ENOMEM || (listed == 1 && count == 1));
    INSIST(lw_flow_peek(rig->engine, "site", X, &(lw_flow_status){0}), LW_OK);
    INSIST(lw_flow_move(rig->engine, "site", X, "deleting", NULL), LW_OK);
    for (int i = 0; i < 5; i++)
        advance_flow(rig, 10000);
    INSIST(lw_flow_wait(rig->engine, "site", X, 0, NULL), LW_ENOTFOUND);
    assert_int_equal(rig->runs[WIPE] >= 1, true);
}

static bool fail_at(const char *url, uint64_t nth) {
    struct flow_rig *rig = malloc(sizeof *rig);
    lw_test_memory *memory = open_memory();
    CHECK(rig != NULL);
    assert_status(try_open_flow_rig(rig, url, memory), LW_OK);
    lw_test_memory_fail_at(memory, nth);
    live(rig);
    bool has_failed = lw_test_memory_has_failed(memory);
    lw_test_memory_fail_at(memory, 0);
    close_flow_rig(rig);
    close_memory(memory);
    free(rig);
    return has_failed;
}

TEST(a_flow_survives_any_allocation_that_fails) {
    const char *urls[STORES_MAX];
    size_t count = list_stores(urls);
    for (size_t i = 0; i < count; i++) {
        uint64_t nth = 1;
        while (fail_at(urls[i], nth))
            nth++;
        CHECK(nth > 50);
        printf("%s: %llu allocations\n", urls[i], (unsigned long long)nth - 1);
    }
}

TEST(a_flow_that_cannot_be_registered_leaves_nothing) {
    for (uint64_t nth = 1, has_failed = 1; has_failed; nth++) {
        lw_test_memory *memory = open_memory();
        struct flow_rig rig = {.user = NULL};
        lw_error err = {0};
        lw_engine *engine =
            OPEN_ENGINE(.workers = LW_ZERO, .allocator = lw_test_memory_allocator(memory));
        lw_test_memory_fail_at(memory, nth);
        int rc = register_site(engine, &rig, &err);
        has_failed = lw_test_memory_has_failed(memory);
        assert_status(rc, has_failed ? LW_ENOMEM : LW_OK);
        lw_test_memory_fail_at(memory, 0);
        assert_status(lw_start(engine, NULL), rc);
        close_engine(engine);
        close_memory(memory);
    }
}

/* A reader meets names that are new to it. */
static bool peek_failing_at(const char *url, uint64_t nth) {
    static lw_flow_status status;
    lw_test_memory *memory = open_memory();
    lw_engine *reader = NULL;
    lw_error err = {0};
    assert_status(lw_open(&reader, url,
                          LW_ENGINE_OPTIONS(.role = LW_ROLE_READER,
                                            .allocator = lw_test_memory_allocator(memory)),
                          &err),
                  LW_OK);
    lw_test_memory_fail_at(memory, nth);
    INSIST(lw_flow_peek(reader, "site", X, &status), LW_OK);
    assert_string_equal(status.steps[status.step_count - 1].name, "db");
    bool has_failed = lw_test_memory_has_failed(memory);
    lw_test_memory_fail_at(memory, 0);
    close_engine(reader);
    close_memory(memory);
    return has_failed;
}

TEST(a_reader_of_flows_survives_any_allocation_that_fails) {
    const char *urls[STORES_MAX];
    size_t count = list_stores(urls);
    for (size_t i = 0; i < count; i++) {
        static struct flow_rig rig;
        uint64_t nth = 1;
        assert_status(try_open_flow_rig(&rig, urls[i], NULL), LW_OK);
        rig.scripts[DBASE] = script_retry;
        start_flow(&rig, X);
        run(&rig);
        assert_status(lw_flow_wait(rig.engine, "site", X, 0, NULL), LW_PENDING);
        while (is_flow_durable(&rig) && peek_failing_at(rig.url, nth))
            nth++;
        CHECK(!is_flow_durable(&rig) || nth > 2);
        close_flow_rig(&rig);
    }
}
