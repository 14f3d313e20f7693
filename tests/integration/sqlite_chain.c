/* A chain of tasks under one key, each the successor of the one before, in a process that is killed
 * in each of them: no link is lost, and none is there twice. */
#include "forks.h"
#include "test.h"

#include <legwork/legwork.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINKS = 6 };

static atomic_int *runs[LINKS + 1]; /* of the link of each number, over all processes */

static lw_outcome forge(lw_ctx *ctx, const lw_task *task) {
    int left = *(const int *)task->payload.data, next = left - 1;
    if (next > 0
        && lw_then(ctx, LW_TASK(.kind = "link", .key = task->key, .payload = {&next, sizeof next}),
                   NULL)
               < 0)
        return lw_fail(ctx, "no successor");
    if (atomic_fetch_add(runs[left], 1) == 0)
        raise(SIGKILL);
    return lw_done(ctx);
}

static lw_engine *open_chain(void) {
    lw_engine *engine;
    lw_error err;
    if (lw_open(&engine, "sqlite:tasks.db", LW_ENGINE_OPTIONS(.workers = 1), &err) < 0)
        assert_string_equal(err.message, "");
    assert_status(
        lw_handle(engine, "link", forge, LW_HANDLER_OPTIONS(.retry = {.min_ms = 1}), &err), LW_OK);
    return engine;
}

static void live(void) {
    lw_engine *engine = open_chain();
    if (lw_start(engine, NULL) < 0 || lw_stop(engine, LW_DRAIN_ALL, 200000) < 0)
        _exit(1);
    _exit(lw_close(engine) < 0);
}

TEST(a_chain_under_one_key_survives_a_kill_in_every_link) {
    int left = LINKS;
    for (int i = 0; i <= LINKS; i++)
        runs[i] = open_shared();
    lw_engine *engine = open_chain();
    assert_status(
        lw_submit(engine, LW_TASK(.kind = "link", .key = "chain", .payload = {&left, sizeof left}),
                  NULL, NULL),
        LW_OK);
    assert_status(lw_close(engine), LW_OK);
    for (int i = 0; i <= LINKS; i++) { /* the last life ends well */
        int status;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            live();
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        CHECK(i < LINKS ? WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL
                        : WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    for (int i = 1; i <= LINKS; i++)
        assert_int_equal(atomic_load(runs[i]), 2);
    lw_engine_stats stats;
    engine = open_chain();
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.finished, LINKS);
    assert_int_equal(stats.enqueued + stats.scheduled + stats.created, 0);
    assert_status(lw_close(engine), LW_OK);
}
