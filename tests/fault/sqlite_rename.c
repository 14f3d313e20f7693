/* A program that comes back with a step under another name, and has no memory for one thing of what
 * lw_start does then: it says so, and the next try does it. */
#include "engines.h"

#include <legwork/flow.h>
#include <legwork/testing.h>
#include <unistd.h>

static const char X[] = "example.org";

/* Only one allocation fails. */
static void insist_on_start(lw_engine *engine) {
    int rc = lw_start(engine, NULL);
    if (rc == LW_ENOMEM)
        rc = lw_start(engine, NULL);
    assert_status(rc, LW_OK);
}

#define RENAMED_URL "sqlite:renamed.db"

static lw_engine *open_renamed(const char *step, lw_test_memory *memory) {
    const lw_step steps[] = {{.name = step, .run = do_done, .state = "creating"}};
    lw_error err = {0};
    lw_engine *engine = OPEN_ON(RENAMED_URL, .workers = LW_ZERO,
                                .allocator = memory ? lw_test_memory_allocator(memory) : NULL);
    assert_status(lw_flow_register(engine,
                                   LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                           .states = {{.name = "creating", .goal = "running"}}),
                                   &err),
                  LW_OK);
    return engine;
}

static bool rename_failing_at(uint64_t nth) {
    static lw_flow_status status;
    const char *const files[] = {"renamed.db", "renamed.db-owner", "renamed.db-running"};
    lw_engine *engine = open_renamed("create-files", NULL);
    assert_status(lw_start(engine, NULL), LW_OK);
    assert_status(lw_flow_start(engine, "site", X, LW_TEXT("x"), NULL), LW_OK);
    close_engine(engine);
    lw_test_memory *memory = open_memory();
    engine = open_renamed("make-files", memory);
    lw_test_memory_fail_at(memory, nth);
    insist_on_start(engine);
    bool has_failed = lw_test_memory_has_failed(memory);
    lw_test_memory_fail_at(memory, 0);
    CHECK(lw_test_run(engine) == 1);
    assert_status(lw_flow_get(engine, "site", X, &status), LW_OK);
    assert_string_equal(status.state, "running");
    close_engine(engine);
    close_memory(memory);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    return has_failed;
}

TEST(a_renamed_step_survives_any_allocation_that_fails) {
    uint64_t nth = 1;
    while (rename_failing_at(nth))
        nth++;
    CHECK(nth > 5);
}
