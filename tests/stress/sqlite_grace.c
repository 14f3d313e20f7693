/* What the store's thread does in a grace section: it must not need a lock there, because whoever
 * has the lock and no memory waits for the section's end. */
#include "engine/engine_internal.h"
#include "engines.h"
#include "gate.h"

#include <string.h>

static struct gate writing = GATE;
static struct tally written = TALLY;
static _Atomic bool is_armed;

void lw__test_point(const char *name);

void lw__test_point(const char *name) {
    if (!atomic_load(&is_armed))
        return;
    if (strcmp(name, "pump: about to write") == 0)
        gate_pass(&writing);
    if (strcmp(name, "pump: written, still a reader") == 0)
        tally_add(&written, 1);
}

static lw_outcome do_nothing(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    return lw_done(ctx);
}

TEST(what_a_kind_retains_is_written_while_somebody_has_the_lock) {
    lw_engine *engine;
    assert_status(lw_open(&engine, "sqlite:tasks.db", NULL, NULL), LW_OK);
    atomic_store(&is_armed, true);
    assert_status(lw_handle(engine, "mail", do_nothing,
                            LW_HANDLER_OPTIONS(.retention = {.finished_max = 7}), NULL),
                  LW_OK);
    tally_await(&writing.arrived, 1);
    lw__index_lock(engine->index);
    gate_open(&writing);
    tally_await(&written, 1);
    lw__index_unlock(engine->index);
    assert_status(lw_close(engine), LW_OK);
}
