/* Test twins of the world: a clock that a test holds and moves, and an allocator that fails at the
 * n-th call. Real code is opened with them and runs unchanged.
 *
 * Time-dependent tests take no time: nothing happens on a test clock until lw_test_clock_advance.
 */
#ifndef LEGWORK_TESTING_H
#define LEGWORK_TESTING_H

#include <legwork/api.h>
#include <legwork/engine.h>
#include <legwork/runtime.h>
#include <legwork/status.h>

LW_BEGIN_DECLS

/* ---- time --------------------------------------------------------------------------------- */

/* Opens a clock that stands still at 1 second. Returns LW_OK, LW_EINVAL or LW_ENOMEM.
 * Owns: the caller closes it, after everything that was opened with it. Since: 0.1 */
LW_API int lw_test_clock_open(lw_clock **clock);

/* Moves the clock forward and wakes every wait whose time has come. Negative steps, and those that
 * would lead three centuries away, are refused with LW_EINVAL. Threads: any. Since: 0.1 */
LW_API int lw_test_clock_advance(lw_clock *clock, int64_t ms);

/* Returns once at least `count` threads wait on the clock for a time (not just for an event), or
 * after the real `timeout_ms` (-1: never) with LW_ETIMEDOUT: so a test knows that a sleeper sleeps
 * before it moves time. LW_EINVAL. Threads: any. */
LW_API int lw_test_clock_await_sleepers(lw_clock *clock, int count, int64_t timeout_ms);

/* Closes it; NULL is fine. No thread may wait on it any more. Since: 0.1 */
LW_API void lw_test_clock_close(lw_clock *clock);

/* Sets what the wall clock shows, in ms since 1970, forward or back, as an operator does: waits are
 * not moved by it, and nobody is woken. Until then it shows 2000-01-01 plus what was advanced; an
 * advance moves it on from what was set. Returns LW_OK; LW_EINVAL for times before 1970 or after
 * 9999. Threads: any. Since: 0.2 */
LW_API int lw_test_clock_set_wall(lw_clock *clock, int64_t unix_ms);

/* ---- memory ------------------------------------------------------------------------------- */

/* Counts what is allocated, fails on demand, and knows at the end what leaked. A NULL one has no
 * allocator and has counted nothing. */
typedef struct lw_test_memory lw_test_memory;

/* Opens it; it takes its memory from malloc. Returns LW_OK, LW_EINVAL or LW_ENOMEM. Since: 0.1 */
LW_API int lw_test_memory_open(lw_test_memory **memory);

/* The allocator to open things with. Lives as long as `memory`. */
LW_API const lw_allocator *lw_test_memory_allocator(lw_test_memory *memory);

/* Lets the nth allocation from now fail (1: the next one), once; 0: none. Frees and shrinking never
 * fail. Threads: any. */
LW_API void lw_test_memory_fail_at(lw_test_memory *memory, uint64_t nth);

/* Whether the failure ordered last has happened. */
LW_API bool lw_test_memory_has_failed(const lw_test_memory *memory);

/* Blocks and bytes that are allocated now, and allocations so far. Any pointer may be NULL. */
LW_API void lw_test_memory_usage(const lw_test_memory *memory, uint64_t *blocks, uint64_t *bytes,
                                 uint64_t *calls);

/* Closes it; NULL is fine. Blocks that are still allocated stay valid and are the caller's leak. */
LW_API void lw_test_memory_close(lw_test_memory *memory);

/* ---- an engine without threads --------------------------------------------------------------- */

/* For an engine opened with .workers = LW_ZERO, and best with a test clock: nothing happens but
 * inside these calls, and inside the waits below, on the calling thread.
 *
 * Deadlines: the context of an attempt is done as soon as the clock shows so, whoever has moved it:
 * a handler, or what stands for the slow thing that it calls, does so by lw_test_clock_advance. An
 * attempt that then gives up has timed out; one that returns after its hard deadline has been
 * stuck, and on_stuck is told when it returns.
 *
 * Waits, on a test clock: nobody would move that for the thread that drives the engine (which has
 * opened it, or called one of these last). It does not sleep, but
 *   lw_wait, lw_events_next, and a submit that waits for room   drive the engine, as
 *                lw_test_advance does, until the task has ended, or there is an event, or room, or
 *                their time is over. Without an end to that time: until nothing is due any more;
 *                then LW_PENDING, or LW_ETIMEDOUT.
 *   lw_ctx_sleep inside a handler moves the clock, as far as it sleeps, but not past the deadline.
 *   lw_wait, lw_events_next   inside a handler or callback, where nothing else can run: move the
 *                clock by their timeout, LW_PENDING or LW_ETIMEDOUT; without one: LW_EDEADLOCK.
 * Other threads sleep in these until the clock is moved. */

/* Runs everything that is due now and what follows from it, until nothing is.
 * Returns how many attempts were run; LW_EINVAL: the engine has workers, or was not started;
 * LW_EDEADLOCK inside a handler. Since: 0.2 */
LW_API int lw_test_run(lw_engine *engine);

/* Moves the engine's test clock forward, stopping wherever something is due to run it at its time;
 * a handler that sleeps may move it further than that. Returns as lw_test_run; LW_EINVAL also for a
 * clock that is not a test's, and for three centuries. Since: 0.2 */
LW_API int lw_test_advance(lw_engine *engine, int64_t ms);

/* Lets the next `count` attempts of a kind end so instead of calling its handler: LW_OUTCOME_RETRY
 * or LW_OUTCOME_FAIL with this text, or 0: as a crash. Of engines with workers, too. The `arg` of a
 * task that ends so goes to its on_drop, because no function has had it.
 * Returns LW_OK; LW_ENOTFOUND: the engine was started, and nobody has registered that kind or
 * submitted a task of it: it is misspelt, or its first task comes later than this ("call" and other
 * kinds of functions); LW_EINVAL, LW_ENOMEM, LW_EFORKED. Since: 0.2 */
LW_API int lw_test_fail_next(lw_engine *engine, const char *kind, int count, lw_outcome outcome,
                             const char *text);

/* Takes the fences of flows away: from now on a move does not wait for what runs. For a test that
 * wants to know whether it would notice. Returns LW_OK, LW_EINVAL, LW_EFORKED. Since: 0.3 */
LW_API int lw_test_unfence(lw_engine *engine);

LW_END_DECLS

#endif
