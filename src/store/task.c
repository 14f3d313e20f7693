/* The sequence lock of a task, and its view. */
#include "store/task.h"

#include "base/futex.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define SPINS_BEFORE_YIELD 64 /* a writer needs some ten instructions; past this it was preempted */

static void breathe(uint32_t *spins) {
    if (++*spins % SPINS_BEFORE_YIELD == 0)
        sched_yield();
    else
        lw__spin_pause();
}

void lw__task_wait(struct lw__task *task) {
    uint32_t spins = 0;
    do {
        breathe(&spins);
    } while (!lw__task_try_lock(task));
}

void lw__task_view(const struct lw__task *task, struct lw__task_view *view) {
    uint32_t spins = 0;
    for (;;) {
        uint32_t before = lw__see(&task->lock);
        if (!(before & 1)) {
            view->state = (lw_state)lw__see(&task->state);
            view->flags = lw__see(&task->flags);
            view->enqueued_at = lw__see(&task->enqueued_at);
            view->started_at = lw__see(&task->started_at);
            view->due_at = lw__see(&task->due_at);
            view->attempts = lw__see(&task->attempts);
            view->crashes = lw__see(&task->crashes);
            view->snoozes = lw__see(&task->snoozes);
            view->token = lw__see(&task->token);
            view->errors = lw__see(&task->errors);
            view->output = lw__see(&task->output);
            view->spec = lw__task_spec(task);
            view->payload_size = lw__task_payload_size(task);
            if (atomic_load_explicit(&task->lock, memory_order_relaxed) == before)
                break;
        }
        breathe(&spins);
    }
    view->id = task->id;
    view->created_at = task->created_at;
    view->priority = task->priority;
    view->kind = task->kind;
    view->queue = task->queue;
}

void lw__task_refuse(const struct lw__task *task, lw_state from, enum lw__task_event event) {
    fprintf(stderr, "legwork: task %llu is %s, '%s' is not possible then\n",
            (unsigned long long)task->id, lw_state_name(from), lw__event_name(event));
    abort();
}
