/* A task that kills its process: it is charged for that, again and again, until it is given up. */
#include "ledger.h"
#include "test.h"

#include <legwork/legwork.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BUDGET = 2, HARMLESS = 3 };

static lw_outcome kill_yourself(lw_ctx *ctx, const lw_task *task) {
    const int *ledger = lw_ctx_user(ctx);
    ledger_append(*ledger, (struct ledger_record){.event = LEDGER_BEGUN, .token = task->token});
    raise(SIGKILL);
    return lw_done(ctx);
}

static lw_outcome stay_harmless(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

static lw_engine *open_engine(int *ledger) {
    lw_engine *engine;
    lw_error err;
    if (lw_open(&engine, "sqlite:tasks.db", LW_ENGINE_OPTIONS(.workers = 1), &err) < 0)
        assert_string_equal(err.message, "");
    lw_handle(engine, "poison", kill_yourself,
              LW_HANDLER_OPTIONS(.retry = {.crashes = BUDGET, .min_ms = 1}, .user = ledger), NULL);
    lw_handle(engine, "harmless", stay_harmless, NULL, NULL);
    return engine;
}

/* The poison is first in line, and the others are claimed together with it. */
static void submit_all(int *ledger) {
    lw_engine *engine = open_engine(ledger);
    const lw_task *poison = LW_TASK(.kind = "poison", .priority = LW_ZERO);
    assert_status(lw_submit(engine, poison, NULL, NULL), LW_OK);
    for (int i = 0; i < HARMLESS; i++)
        assert_status(lw_submit(engine, LW_TASK(.kind = "harmless"), NULL, NULL), LW_OK);
    assert_status(lw_close(engine), LW_OK);
    _exit(0);
}

static void run_until_killed(int *ledger) {
    assert_status(lw_start(open_engine(ledger), NULL), LW_OK);
    for (;;)
        pause();
}

/* How it ended. */
static int live(void (*life)(int *ledger), int *ledger) {
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        life(ledger);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static bool check_end(void *user, const lw_snapshot *task) {
    bool is_poison = strcmp(task->kind, "poison") == 0;
    (void)user;
    assert_string_equal(lw_state_name(task->state), is_poison ? "failed" : "finished");
    assert_int_equal(task->crashes, is_poison ? BUDGET + 1 : 0);
    return true;
}

TEST(a_task_that_kills_its_process_is_given_up_and_others_are_not_charged) {
    int ledger = ledger_open("ledger");
    size_t count;
    assert_int_equal(live(submit_all, &ledger), 0);
    for (int i = 0; i <= BUDGET; i++)
        assert_int_equal(live(run_until_killed, &ledger), SIGKILL);

    lw_engine *engine = open_engine(&ledger);
    assert_status(lw_start(engine, NULL), LW_OK);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, 200000), LW_OK);
    assert_int_equal(lw_list(engine, NULL, check_end, NULL), HARMLESS + 1);
    assert_status(lw_close(engine), LW_OK);

    const struct ledger_record *begun = ledger_map(ledger, &count);
    assert_int_equal(count, BUDGET + 1);
    for (int i = 0; i < BUDGET; i++) /* lives that have hardly written give no token twice */
        CHECK(begun[i].token < begun[i + 1].token);
    close(ledger);
}

static void die_after_opening(int *ledger) {
    open_engine(ledger);
    _exit(0);
}

TEST(a_charge_is_durable_before_the_store_is_open) {
    int ledger = ledger_open("ledger");
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_int_equal(live(submit_all, &ledger), 0);
    assert_int_equal(live(run_until_killed, &ledger), SIGKILL);
    for (int i = 0; i < 5; i++)
        assert_int_equal(live(die_after_opening, &ledger), 0);
    lw_engine *engine = open_engine(&ledger);
    assert_status(lw_get(engine, 1, &task), LW_OK);
    assert_int_equal(task.crashes, 1);
    lw_snapshot_clear(&task);
    assert_status(lw_close(engine), LW_OK);
    close(ledger);
}
