/* stress_engine.h: what stress tests of the engine share, on top of stress_race.h. To be included
 * by one file of a program. */
#ifndef LW_TESTS_SUPPORT_STRESS_ENGINE_H
#define LW_TESTS_SUPPORT_STRESS_ENGINE_H

#include "stress_race.h"

#include <legwork/engine.h>

static inline lw_engine *open_race_engine(const lw_engine_options *options) {
    lw_engine *engine;
    lw_error err = {0};
    if (lw_open(&engine, "memory:", options, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return engine;
}

static inline void start_engine(lw_engine *engine) {
    assert_status(lw_start(engine, NULL), LW_OK);
}

static inline void stop_engine(lw_engine *engine, lw_stop_mode mode) {
    assert_status(lw_stop(engine, mode, STRESS_HANG_MS), LW_OK);
}

static inline void stop_and_close_engine(lw_engine *engine, lw_stop_mode mode) {
    stop_engine(engine, mode);
    assert_status(lw_close(engine), LW_OK);
}

static inline lw_stop_mode any_stop_mode(void) {
    static const lw_stop_mode modes[] = {LW_DRAIN, LW_DROP, LW_DRAIN_ALL};
    return modes[dice(3)];
}

/* It must not be waited for in vain: a task that can run, runs. */
static inline void await_end(lw_engine *engine, lw_id id) {
    assert_status(lw_wait(engine, id, STRESS_HANG_MS, NULL), LW_OK);
}

/* Plain tasks, until workers hurry; of a kind whose handler is short. */
static inline void make_hands_hurry(lw_engine *engine, const char *kind, int count) {
    for (int i = 0; i < count; i++)
        assert_status(lw_submit(engine, LW_TASK(.kind = kind), NULL, NULL), LW_OK);
}

static inline lw_outcome do_short(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

/* ---- memory that is counted ----------------------------------------------------------------- */

/* An allocator that knows how many blocks are out: when there are none the engine is gone. */
struct counted_memory {
    _Atomic uint32_t blocks;
};

static inline void *resize_counted(void *user, void *ptr, size_t old_size, size_t new_size) {
    struct counted_memory *memory = user;
    (void)old_size;
    if (new_size == 0) {
        free(ptr);
        if (ptr && atomic_fetch_sub(&memory->blocks, 1) == 1)
            lw__futex_wake(&memory->blocks, INT32_MAX);
        return NULL;
    }
    void *block = realloc(ptr, new_size);
    if (block && !ptr)
        atomic_fetch_add(&memory->blocks, 1);
    return block;
}

static inline void await_no_blocks(struct counted_memory *memory) {
    uint32_t seen;
    while ((seen = atomic_load(&memory->blocks)) > 0)
        lw__futex_wait(&memory->blocks, seen, LW__NEVER);
}

#endif
