/* The inside of a context, for the pool and for the engine, whose attempts have contexts of their
 * own.
 *
 * One 64-bit word carries everything that is asked often: which task it is (a number that grows
 * with every task that the context serves), whether one runs at all, and why it should end. Because
 * the number is part of the word, ending a task is one compare-and-swap that fails when the task
 * has ended by itself in the meantime: a late timeout never hits the next task.
 */
#ifndef LW_POOL_CTX_H
#define LW_POOL_CTX_H

#include "base/clock.h"
#include "base/lot.h"
#include "base/mutex.h"

#include <legwork/ctx.h>

/* The signal word: task number << 8 | flags. */
#define LW__SIGNAL_REASON UINT64_C(0x07) /* an lw_reason */
#define LW__SIGNAL_STUCK UINT64_C(0x40)  /* the task's worker has been written off */
#define LW__SIGNAL_IDLE UINT64_C(0x80)   /* no task: between two of them */
#define LW__SIGNAL_SHIFT 8

/* Somebody who waits elsewhere and wants to be woken when the context ends. */
struct lw__ctx_watch {
    struct lw__lot *lot;
    struct lw__waiter *waiter;
    struct lw__ctx_watch *next;
};

struct lw_ctx {
    /* atomic */
    _Atomic uint64_t signal;
    _Atomic uint64_t
        deadline; /* of the present task, or of the context; LW__NEVER: none, 0: not known yet */
    _Atomic bool has_fd_out; /* the present task has asked for the descriptor */
    /* fixed after open */
    lw_clock *clock;
    const _Atomic uint32_t *stop_mode; /* of the pool; NULL: a caller's own context */
    const _Atomic uint32_t *is_alive;  /* 0 in a forked child */
    bool is_driven;    /* nobody looks at its deadline, or moves its clock, but its own thread */
    uint64_t guard_ns; /* of a task: its timeout; LW__NEVER: none */
    /* the task's thread only */
    const void *value;
    size_t value_size;
    void *owner;                /* whoever embeds it and wants to be found again; NULL: nobody */
    const struct lw_task *task; /* what a handler was given; NULL: it is not a handler's */
    bool has_written_outside;   /* its handler has said something in a transaction of its own */
    /* guarded by mu */
    struct lw__mutex mu;
    int fd; /* -1: nobody has asked yet */
    struct lw__ctx_watch *watches;
    /* whoever sleeps in lw_ctx_sleep */
    struct lw__lot sleepers;
};

/* For a task's context; a caller's own one passes NULL for stop_mode. */
void lw__ctx_init(lw_ctx *ctx, lw_clock *clock, const _Atomic uint32_t *stop_mode,
                  const _Atomic uint32_t *is_alive);
void lw__ctx_free(lw_ctx *ctx);

/* Ends the task of that number for a reason, unless it has ended or has a reason already. True: it
 * was this call. */
bool lw__ctx_end(lw_ctx *ctx, uint64_t number, lw_reason reason);

/* Makes the descriptor ready for the next task, after one that has asked for it. */
void lw__ctx_recall_fd(lw_ctx *ctx);

/* Asks that a waiter of some other lot be woken when the context ends. It may have ended already:
 * look after this. */
void lw__ctx_watch(lw_ctx *ctx, struct lw__ctx_watch *watch);
void lw__ctx_unwatch(lw_ctx *ctx, struct lw__ctx_watch *watch);

#endif
