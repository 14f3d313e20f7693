/* What the engine needs of the pool's workers beyond the public header. */
#ifndef LW_POOL_STAFF_H
#define LW_POOL_STAFF_H

#include <legwork/pool.h>
#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that takes no signals of the host's. Returns an errno, 0 for success. */
int lw__crew_start_thread(pthread_t *thread, void *(*run)(void *), void *arg, const char *name);

/* The number of the task that runs with this context, for whoever knows that one does. */
uint64_t lw__pool_task_number(const lw_ctx *ctx);

/* Whether the worker that runs the present task of this context may spin for more: the machine is
 * not busy, and the worker has a core of its own. */
bool lw__pool_may_spin(const lw_ctx *ctx);

/* Declares that task stuck, as the pool's monitor would: its worker is written off and, within
 * stuck_max, replaced. Nothing happens if it has ended. The pool must have a guard timeout. Any
 * thread. */
void lw__pool_write_off(lw_ctx *ctx, uint64_t number);

/* Replaces the worker that runs the present task of this context, as if it were stuck. From inside
 * that task. LW_OK: also if it is written off already. LW_EFULL: there are max_workers + stuck_max
 * threads, those on their way out included. LW_ESYSTEM, LW_ENOMEM: there is no thread. In all but
 * the first case nothing has changed. */
int lw__pool_replace(lw_ctx *ctx);

#endif
