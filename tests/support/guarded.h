/* guarded.h: a pool with a guard timeout on a clock that the test holds, and tasks that overrun it.
 */
#ifndef LW_TESTS_SUPPORT_GUARDED_H
#define LW_TESTS_SUPPORT_GUARDED_H

#include "pools.h"

enum { TIMEOUT_MS = 100, GRACE_MS = 10 }; /* a stuck task is seen within 10 of its deadline */

struct guarded_pool {
    lw_pool *pool;
    lw_clock *clock;
    struct tally reports; /* of stuck tasks */
    lw_pool_run_info last_report;
};

/* OPEN_GUARDED(&g, .min_workers = 1) */
#define OPEN_GUARDED(g, ...) open_guarded((g), LW_POOL_OPTIONS(__VA_ARGS__))
void open_guarded(struct guarded_pool *g, const lw_pool_options *options);
void close_guarded(struct guarded_pool *g); /* drains */

/* Lets the timeout of what runs pass; the monitor has looked when it returns, if only the monitor
 * and `others` more threads wait on the clock. */
void pass_timeout(struct guarded_pool *g, int others);

/* Makes one more task stuck, which waits at the gate. */
void get_stuck(struct guarded_pool *g, struct gate *gate);

/* A task that shows its context to the test, which may ask it while the task waits at the gate. */
struct shown {
    lw_ctx *ctx;
    struct gate gate;
};
void show_task(lw_ctx *ctx, void *shown);
void start_shown(lw_pool *pool, struct shown *shown);

#endif
