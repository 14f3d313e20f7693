/* A forked child has nothing but the handle, and every call on it says so. */
#include "engines.h"
#include "forks.h"

#include <sys/wait.h>
#include <unistd.h>

static lw_engine *engine;
static lw_id id;

static bool see(void *user, const lw_snapshot *task) {
    (void)user, (void)task;
    return true;
}

static int write_nothing(void *user, const char *text, size_t size) {
    (void)user, (void)text, (void)size;
    return 0;
}

/* Each call, in the child. */
static int ask(int which) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_explanation why;
    lw_engine_stats stats;
    lw_error err;
    const lw_task *tasks[] = {LW_TASK(.kind = "mail")};
    switch (which) {
    case 0: return lw_handle(engine, "other", do_done, NULL, NULL);
    case 1: return lw_queue(engine, "other", NULL, NULL);
    case 2: return lw_start(engine, &err);
    case 3: return lw_submit(engine, tasks[0], NULL, &err);
    case 4: return lw_submit_many(engine, tasks, 1, NULL, &err);
    case 5: return lw_get(engine, id, &s);
    case 6: return lw_find(engine, "mail", "ann", &s);
    case 7: return lw_wait(engine, id, -1, &s);
    case 8: return lw_list(engine, NULL, see, NULL);
    case 9: return lw_explain(engine, id, &why);
    case 10: return lw_cancel(engine, id);
    case 11: return lw_retry_now(engine, id, &err);
    case 12: return lw_forget(engine, id);
    case 13: return lw_pause(engine, "default");
    case 14: return lw_resume(engine, "default");
    case 15: return lw_get_stats(engine, &stats);
    case 16: return lw_metrics_write(engine, write_nothing, NULL);
    case 17: return lw_stop(engine, LW_DRAIN, -1);
    case 18: return lw_wait_idle(engine, -1);
    case 19: return lw_test_run(engine);
    case 20: return lw_test_fail_next(engine, "mail", 1, LW_OUTCOME_FAIL, "");
    default: return lw_close(engine);
    }
}

static int in_child(int (*check)(void)) {
    pid_t child = fork_when_settled();
    if (child == 0)
        _exit(check());
    int status = 0;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The number of the first call that did not say so, or 100. */
static int ask_all(void) {
    for (int i = 0; i <= 21; i++)
        if (ask(i) != LW_EFORKED)
            return i;
    return 100;
}

TEST(every_call_says_that_the_engine_is_the_parents) {
    engine = OPEN_ENGINE(.workers = 2);
    struct gate gate = GATE;
    handle(engine, "mail", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    start(engine);
    id = SUBMIT(engine, .kind = "mail", .key = "ann");
    tally_await(&gate.arrived, 1);
    assert_int_equal(in_child(ask_all), 100);
    gate_open(&gate);
    assert_status(lw_wait(engine, id, 200000, NULL), LW_OK);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
}

static int use_a_new_one(void) {
    lw_engine *own = OPEN_ENGINE(.workers = 1);
    handle(own, "mail", do_done, NULL);
    start(own);
    lw_id own_id = SUBMIT(own, .kind = "mail");
    assert_status(lw_wait(own, own_id, 200000, NULL), LW_OK);
    close_engine(own);
    return 100;
}

TEST(a_child_may_open_an_engine_of_its_own) {
    engine = OPEN_ENGINE(.workers = 1);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_int_equal(in_child(use_a_new_one), 100);
    assert_status(lw_wait(engine, SUBMIT(engine, .kind = "mail"), 200000, NULL), LW_OK);
    close_engine(engine);
}
