/* guarded.c: see guarded.h. */
#include "guarded.h"

static void note_stuck(void *user, const lw_pool_run_info *task) {
    struct guarded_pool *g = user;
    g->last_report = *task;
    tally_add(&g->reports, 1);
}

void open_guarded(struct guarded_pool *g, const lw_pool_options *options) {
    lw_pool_options all = *options;
    *g = (struct guarded_pool){.clock = open_clock(), .reports = TALLY};
    all.clock = g->clock;
    all.task_timeout_ms = TIMEOUT_MS;
    all.on_stuck = note_stuck;
    all.user = g;
    g->pool = open_pool(&all);
}

void close_guarded(struct guarded_pool *g) {
    assert_status(lw_pool_stop(g->pool, LW_DRAIN, -1), LW_OK);
    close_pool(g->pool);
    lw_test_clock_close(g->clock);
}

void pass_timeout(struct guarded_pool *g, int others) {
    await_sleepers(g->clock, 1 + others);
    advance(g->clock, TIMEOUT_MS);
    await_sleepers(g->clock, 1 + others);
}

void get_stuck(struct guarded_pool *g, struct gate *gate) {
    long before = tally_read(&g->reports);
    occupy(g->pool, gate, 1);
    pass_timeout(g, 0);
    advance(g->clock, GRACE_MS);
    tally_await(&g->reports, before + 1);
}

void show_task(lw_ctx *ctx, void *arg) {
    struct shown *shown = arg;
    shown->ctx = ctx;
    gate_pass(&shown->gate);
}

void start_shown(lw_pool *pool, struct shown *shown) {
    *shown = (struct shown){.gate = GATE};
    assert_status(lw_pool_submit(pool, show_task, shown), LW_OK);
    tally_await(&shown->gate.arrived, 1);
}
