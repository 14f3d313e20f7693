/* engines.c: see engines.h. */
#include "engines.h"

#include "store/stores.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

lw_engine *open_on(const char *url, const lw_engine_options *options) {
    lw_engine *engine;
    lw_error err = {0};
    if (lw_open(&engine, url, options, &err) < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(err.status, LW_OK);
    return engine;
}

lw_engine *open_engine(const lw_engine_options *options) {
    return open_on("memory:", options);
}

bool is_durable_url(const char *url) {
    return strcmp(url, "memory:") != 0;
}

static const char *current_url;

static void tell_url(int signal) {
    (void)signal;
    if (write(STDERR_FILENO, current_url, strlen(current_url)) > 0)
        (void)!write(STDERR_FILENO, ": the store\n", 12);
}

void each_engine_url(void (*body)(const char *url)) {
    static const char *const urls[] = {"memory:", "sqlite:tasks.db"};
    void (*own)(int) = signal(SIGABRT, tell_url);
    if (own != SIG_DFL)
        signal(SIGABRT, own); /* the test says it itself */
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        size_t scheme = strcspn(urls[i], ":");
        for (size_t k = 0; lw__stores[k]; k++) {
            current_url = urls[i];
            if (strncmp(lw__stores[k]->scheme, urls[i], scheme) == 0)
                body(urls[i]);
        }
    }
}

void close_engine(lw_engine *engine) {
    assert_status(lw_close(engine), LW_OK);
}

void handle(lw_engine *engine, const char *kind, lw_handler run,
            const lw_handler_options *options) {
    assert_status(lw_handle(engine, kind, run, options, NULL), LW_OK);
}

void start(lw_engine *engine) {
    lw_error err = {0};
    if (lw_start(engine, &err) < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(err.status, LW_OK);
}

lw_id submit(lw_engine *engine, const lw_task *task) {
    lw_id id = 0;
    lw_error err = {0};
    int rc = lw_submit(engine, task, &id, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return id;
}

lw_state state_of(lw_engine *engine, lw_id id) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    int rc = lw_get(engine, id, &snapshot);
    if (rc != LW_ENOTFOUND)
        assert_status(rc, LW_OK);
    lw_state state = snapshot.state;
    lw_snapshot_clear(&snapshot);
    return state;
}

lw_outcome do_done(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

lw_outcome do_fail(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_fail(ctx, "no");
}

lw_outcome do_retry(lw_ctx *ctx, const lw_task *task) {
    return lw_retry(ctx, "again %u", task->attempt);
}

lw_outcome do_gate(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    gate_pass(lw_ctx_user(ctx));
    return lw_ctx_done(ctx) ? lw_retry(ctx, "gave up") : lw_done(ctx);
}
