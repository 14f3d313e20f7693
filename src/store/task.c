/* The sequence lock of a task, its view, and the one function that writes its state. */
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

/* A wrong event means that the program's memory or our code is broken: going on would lose or
 * repeat tasks. */
static void refuse_event(const struct lw__task *task, lw_state from, enum lw__task_event event) {
    fprintf(stderr, "legwork: task %llu is %s, '%s' is not possible then\n",
            (unsigned long long)task->id, lw_state_name(from), lw__event_name(event));
    abort();
}

static uint64_t at_least(uint64_t now, uint64_t earlier) {
    return now > earlier ? now : earlier;
}

/* What each state guarantees, after a move: its time, not before that of the one before. (Threads
 * read the clock before they get a lock, and a batch only once.) */
static void stamp(struct lw__task *task, lw_state to, uint64_t now) {
    switch (to) {
    case LW_ENQUEUED: lw__put(&task->enqueued_at, at_least(now, task->created_at)); break;
    case LW_STARTED: lw__put(&task->started_at, at_least(now, lw__see(&task->enqueued_at))); break;
    case LW_FINISHED:
    case LW_FAILED:
    case LW_ABORTED:
        now = at_least(now, at_least(lw__see(&task->enqueued_at), lw__see(&task->started_at)));
        lw__put(&task->due_at, at_least(now, task->created_at));
        break;
    case LW_CREATED:
    case LW_SCHEDULED: break;
    }
}

lw_state lw__task_move(struct lw__task *task, enum lw__task_event event, uint64_t now) {
    lw_state from = lw__task_state(task), to = lw__state_after(from, event);
    if (__builtin_expect(to == 0, 0))
        refuse_event(task, from, event);
    stamp(task, to, now);
    lw__put(&task->state, (uint8_t)to);
    return from;
}
