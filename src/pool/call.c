/* lw_pool_run: a task whose submitter waits for its end.
 *
 * The call stands on the submitter's stack. Its state is a futex word: whoever ends the task swaps
 * it in, and wakes the submitter only if that one has gone to sleep; a short task is usually over
 * while the submitter still spins.
 */
#include "base/futex.h"
#include "pool/pool_internal.h"

#define CALL_POLLS 400 /* of about 40 ns: as long as falling asleep would cost */

enum { CALL_OPEN = 0, CALL_ASLEEP = 1, CALL_ENDED = 2, CALL_DROPPED = 3 };

/* The state has a cache line of its own: the submitter polls it while the worker reads the rest. */
struct call {
    _Alignas(LW__CACHE_LINE) lw_pool_fn fn;
    void *arg;
    _Alignas(LW__CACHE_LINE) _Atomic uint32_t state;
};

/* After the exchange the call may be gone: only its address is used. */
static void end_call(struct call *call, uint32_t state) {
    _Atomic uint32_t *word = &call->state;
    if (atomic_exchange(word, state) == CALL_ASLEEP)
        lw__futex_wake(word, 1);
}

void lw__pool_drop_call(void *arg) {
    end_call(arg, CALL_DROPPED);
}

/* Until the end the runner remembers the call, because the task may end its thread. (A clean-up
 * handler around each call would do the same for 70 ns.) */
void lw__pool_run_call(lw_ctx *ctx, void *arg) {
    struct call *call = arg;
    lw__fetch_to_write(&call->state);                     /* on its way while the task runs */
    struct lw__runner *runner = (struct lw__runner *)ctx; /* its first member */
    atomic_store_explicit(&runner->arg, call->arg, memory_order_relaxed); /* shown as what it is */
    atomic_store_explicit(&runner->fn, call->fn, memory_order_relaxed);
    runner->call = call;
    call->fn(ctx, call->arg);
    lw__pool_end_call(runner);
}

void lw__pool_end_call(struct lw__runner *runner) {
    struct call *call = runner->call;
    runner->call = NULL;
    if (call)
        end_call(call, CALL_ENDED);
}

/* Another thread may close the pool as soon as the task has ended: nothing of it is touched. */
static uint32_t await_end(struct call *call, int polls) {
    uint32_t state;
    for (int i = 0; i < polls; i++) {
        state = atomic_load_explicit(&call->state, memory_order_acquire);
        if (state != CALL_OPEN)
            return state;
        lw__spin_pause();
    }
    LW__POINT("call: about to sleep");
    uint32_t open = CALL_OPEN;
    atomic_compare_exchange_strong(&call->state, &open, CALL_ASLEEP);
    while ((state = atomic_load_explicit(&call->state, memory_order_acquire)) == CALL_ASLEEP)
        lw__futex_wait(&call->state, CALL_ASLEEP, LW__NEVER);
    return state;
}

int lw_pool_run(lw_pool *pool, lw_pool_fn fn, void *arg) {
    if (!pool || !fn)
        return LW_EINVAL;
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    struct call call = {.fn = fn, .arg = arg};
    int polls = lw__spin_may(pool) ? CALL_POLLS : 0;
    int rc = lw__pool_submit_call(pool, &call);
    if (rc < 0)
        return rc;
    return await_end(&call, polls) == CALL_DROPPED ? LW_ECANCELED : LW_OK;
}
