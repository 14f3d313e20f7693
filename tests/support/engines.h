/* engines.h: what tests of the engine share. Everything here asserts that it works. */
#ifndef LW_TESTS_SUPPORT_ENGINES_H
#define LW_TESTS_SUPPORT_ENGINES_H

#include "pools.h"

#include <legwork/engine.h>

/* OPEN_ENGINE(.workers = LW_ZERO, .clock = clock): one that is open and not started yet. */
#define OPEN_ENGINE(...) open_engine(LW_ENGINE_OPTIONS(__VA_ARGS__))
lw_engine *open_engine(const lw_engine_options *options);

/* ENGINE_TEST(a_sentence_about_what_holds) { lw_engine *engine = OPEN_ON(url, .workers = 1); … }
 * runs on every store that this build has, each time in an empty folder. */
#define ENGINE_TEST(name)                   \
    static void name##_on(const char *url); \
    TEST(name) {                            \
        each_engine_url(name##_on);         \
    }                                       \
    static void name##_on(const char *url)
void each_engine_url(void (*body)(const char *url));

#define OPEN_ON(url, ...) open_on(url, LW_ENGINE_OPTIONS(__VA_ARGS__))
lw_engine *open_on(const char *url, const lw_engine_options *options);
bool is_durable_url(const char *url);
void close_engine(lw_engine *engine); /* LW_OK and nothing less */

void handle(lw_engine *engine, const char *kind, lw_handler run, const lw_handler_options *options);
void start(lw_engine *engine);

/* SUBMIT(engine, .kind = "mail"): its id. */
#define SUBMIT(engine, ...) submit(engine, LW_TASK(__VA_ARGS__))
lw_id submit(lw_engine *engine, const lw_task *task);

/* The state of a task; 0: there is none. */
lw_state state_of(lw_engine *engine, lw_id id);

/* Handlers. */
lw_outcome do_done(lw_ctx *ctx, const lw_task *task);
lw_outcome do_fail(lw_ctx *ctx, const lw_task *task);  /* "no" */
lw_outcome do_retry(lw_ctx *ctx, const lw_task *task); /* "again <attempt>" */

/* With a gate as its lw_ctx_user: waits there; then done, or given up if its context is done. */
lw_outcome do_gate(lw_ctx *ctx, const lw_task *task);

#endif
