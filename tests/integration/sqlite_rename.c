/* A program comes back with steps under other names, and is killed at every write of its start and
 * of what follows; then either of the two programs, the new one or that of before, brings every
 * resource to its goal, and no task is left behind. */
#include "cut_vfs.h"
#include "test.h"

#include <legwork/flow.h>
#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "sites.db"

enum { SITES = 5 };

static lw_outcome do_done(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

static lw_outcome do_retry(lw_ctx *ctx, const lw_task *task) {
    return lw_retry(ctx, "no %u", task->attempt);
}

/* One of its steps keeps its name, and one of those that do not keeps its flag. */
static lw_engine *open_program(bool is_new, lw_handler run) {
    const lw_step steps[] = {
        {.name = "save", .run = do_done, .state = "creating"},
        {.name = is_new ? "make-files" : "create-files",
         .run = run,
         .state = "creating",
         .needs = {"save"}},
        {.name = is_new ? "make-db" : "create-db",
         .run = run,
         .state = "creating",
         .needs = {"save"},
         .sets = "db"},
        {.name = "boot", .run = run, .state = "creating", .needs = {"db"}},
    };
    lw_engine *engine = NULL;
    lw_error err = {0};
    int rc = lw_open(&engine, "sqlite:" DB, LW_ENGINE_OPTIONS(.workers = LW_ZERO), &err);
    if (rc == LW_OK)
        rc = lw_flow_register(engine,
                              LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                      .states = {{.name = "creating", .goal = "running"}}),
                              &err);
    if (rc == LW_OK)
        rc = lw_start(engine, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return engine;
}

static void leave_in_flight(void) {
    lw_engine *engine = open_program(false, do_retry);
    for (int i = 0; i < SITES; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d.org", i);
        assert_status(lw_flow_start(engine, "site", id, LW_TEXT("x"), NULL), LW_OK);
    }
    CHECK(lw_test_run(engine) > 0);
    assert_status(lw_close(engine), LW_OK);
}

static void rename_and_run(void) {
    lw_engine *engine = open_program(true, do_done);
    CHECK(lw_test_run(engine) > 0);
    assert_status(lw_close(engine), LW_OK);
}

/* What the program of before has to do again is halted, as its flags have other names. */
static void bring_home(lw_engine *engine, const char *id) {
    static lw_flow_status status;
    assert_status(lw_flow_get(engine, "site", id, &status), LW_OK);
    if (status.condition == LW_FLOW_HALTED)
        assert_status(lw_flow_resume(engine, "site", id, NULL), LW_OK);
    for (unsigned i = 0; i < status.step_count; i++) /* one may wait for its next try */
        if (status.steps[i].due_ms > 0)
            assert_status(lw_retry_now(engine, status.steps[i].task, NULL), LW_OK);
    CHECK(lw_test_run(engine) >= 0);
    assert_status(lw_flow_get(engine, "site", id, &status), LW_OK);
    if (status.condition != LW_FLOW_AT_GOAL)
        fprintf(stderr, "%s: %s, %s\n", id, status.state, status.reason);
    assert_int_equal(status.condition, LW_FLOW_AT_GOAL);
}

static void audit(bool is_new) {
    lw_engine *engine = open_program(is_new, do_done);
    lw_engine_stats stats;
    CHECK(lw_test_run(engine) >= 0);
    for (int i = 0; i < SITES; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d.org", i);
        bring_home(engine, id);
    }
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.created + stats.scheduled + stats.enqueued + stats.started, 0);
    assert_status(lw_close(engine), LW_OK);
}

/* In a process of its own; true: it was killed. */
static bool run_child(uint64_t deadly_call, void (*body)(void)) {
    pid_t child = fork();
    if (child == 0) {
        cut_vfs_install(); /* it does not really sync, which is quicker */
        if (deadly_call > 0)
            cut_vfs_order((struct cut_order){CUT_KILL, CUT_ANY, deadly_call, 1});
        body();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void audit_new(void) {
    audit(true);
}

static void audit_old(void) {
    audit(false);
}

static void kill_at_every_call(void (*audit_child)(void)) {
    static const char *const names[] = {DB, DB "-wal", DB "-shm", DB "-owner", DB "-running"};
    uint64_t call = 1;
    bool was_killed = true;
    for (; was_killed; call += (uint64_t)test_stride(4)) {
        fprintf(stderr, "killed at call %llu\n", (unsigned long long)call);
        CHECK(!run_child(0, leave_in_flight));
        was_killed = run_child(call, rename_and_run);
        CHECK(!run_child(0, audit_child));
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            unlink(names[i]);
    }
    printf("killed at calls up to the %lluth\n", (unsigned long long)call);
    CHECK(call > 10);
}

TEST(killed_at_any_write_of_a_renaming_start_the_new_program_goes_on) {
    kill_at_every_call(audit_new);
}

TEST(killed_at_any_write_of_a_renaming_start_the_program_of_before_goes_on) {
    kill_at_every_call(audit_old);
}
