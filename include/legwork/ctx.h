/* Contexts: how a running task learns that it should end, and how a caller says how long it is
 * willing to wait.
 *
 * There are two ways to come by a context. A task is handed one by whoever runs it, for as long as
 * it runs. And a caller may open one of its own, typically per request, with a deadline, a way to
 * cancel it, and up to 128 bytes (a trace id) to take along. Given at submit, a caller's context
 * bounds only the wait for room; its bytes travel with the task, its deadline and its cancellation
 * do not: a task is not cancelled because the request that submitted it has ended.
 *
 * Stopping and ending are two signals. lw_ctx_stopping turns true when a stop begins: a long task
 * can wind down, a short one just goes on. lw_ctx_done turns true when the task has to give up now,
 * and lw_ctx_reason says why.
 */
#ifndef LEGWORK_CTX_H
#define LEGWORK_CTX_H

#include <legwork/api.h>
#include <legwork/runtime.h>
#include <legwork/status.h>

LW_BEGIN_DECLS

/* The most bytes that travel with a context. */
#define LW_CTX_VALUE_MAX 128

/* Why a context is done. */
typedef enum lw_reason {
    LW_REASON_NONE = 0, /* it is not */
    LW_REASON_TIMEOUT =
        1, /* the guard timeout of the task, or the deadline of a caller's context, has passed */
    LW_REASON_CANCELLED = 2, /* lw_ctx_cancel, lw_pool_cancel, lw_cancel */
    LW_REASON_DROPPED = 3,   /* what runs it stops and drops its backlog: cancellation wins */
    LW_REASON_STOP = 4,      /* what runs it drains and the deadline of that stop has passed */
    LW_REASON_FORKED = 5     /* this is a forked child: the task goes on in the parent */
} lw_reason;

typedef struct lw_ctx lw_ctx;

/* ---- inside a task, and on a context of one's own ------------------------------------------- */

/* Whether to give up now. One atomic load in a task: poll it as often as you like.
 * A NULL context is never done. Threads: any, while the context lives. Since: 0.1 */
LW_API bool lw_ctx_done(lw_ctx *ctx);

/* Whether the pool that runs this task has begun to stop; always false for a context of one's own.
 * Since: 0.1 */
LW_API bool lw_ctx_stopping(lw_ctx *ctx);

/* Why lw_ctx_done is true; LW_REASON_NONE while it is false. The first reason stays. Since: 0.1 */
LW_API lw_reason lw_ctx_reason(lw_ctx *ctx);

/* The reason in a word: "none", "timeout", "cancelled", "dropped", "stop", "forked". Never NULL.
 * Since: 0.1 */
LW_API const char *lw_reason_name(lw_reason reason);

/* Milliseconds until the deadline, rounded up: 0 when it has passed or the context is done, -1 when
 * there is none. Good as the timeout of a poll() or a socket. Since: 0.1 */
LW_API int64_t lw_ctx_left_ms(lw_ctx *ctx);

/* Sleeps, but not past the end of the context.
 * Returns LW_OK after ms milliseconds; LW_ECANCELED as soon as the context is done (lw_ctx_reason
 * says why); LW_EINVAL for a NULL context or a negative time. In an engine without workers on a
 * test clock it moves the clock instead (legwork/testing.h). Threads: any. Since: 0.1 */
LW_API int lw_ctx_sleep(lw_ctx *ctx, int64_t ms);

/* A file descriptor that becomes readable when the context is done, to be put into the task's own
 * poll(). Returns the descriptor, or a negative status: LW_EINVAL for NULL, LW_ESYSTEM when none
 * can be had, LW_EFORKED. On a test clock it notices a deadline when the context is next asked
 * anything. Owns: the context; never read, write or close it, and do not keep it past the end of
 * the task. Made at the first call, so that a context whose descriptor nobody asks for costs none.
 * Threads: any. Since: 0.1 */
LW_API int lw_ctx_fd(lw_ctx *ctx);

/* The bytes that came along from the submitter's context; NULL and size 0 when there are none. They
 * live as long as the context. `size` may be NULL. Since: 0.1 */
LW_API const void *lw_ctx_value(lw_ctx *ctx, size_t *size);

/* ---- a context of one's own ----------------------------------------------------------------- */

typedef struct lw_ctx_options {
    size_t struct_size;
    int64_t timeout_ms;            /* done this long from now, LW_ZERO: at once. Default: never */
    const void *value;             /* bytes to take along; they are copied. Default: none */
    size_t value_size;             /* at most LW_CTX_VALUE_MAX */
    lw_clock *clock;               /* Default: the system's */
    const lw_allocator *allocator; /* Default: malloc */
} lw_ctx_options;

#define LW_CTX_OPTIONS(...) \
    LW_OPTIONS_OF(lw_ctx_options, .struct_size = sizeof(lw_ctx_options), __VA_ARGS__)

/* Opens a context. `options` may be NULL.
 * Returns LW_OK; LW_EINVAL with a sentence; LW_ENOMEM. Owns: the caller closes it. Since: 0.1 */
LW_API int lw_ctx_open(lw_ctx **ctx, const lw_ctx_options *options, lw_error *err);

/* Ends a context that lw_ctx_open gave, for good, and wakes whatever waits on it. Cancelling twice
 * is fine. Returns LW_OK; LW_EINVAL for NULL and for the context of a task, which only its pool may
 * end. Threads: any. Since: 0.1 */
LW_API int lw_ctx_cancel(lw_ctx *ctx);

/* Closes a context that lw_ctx_open gave; NULL is fine. No call on it may be under way. A task that
 * was submitted with it keeps its own copy of the value. Since: 0.1 */
LW_API void lw_ctx_close(lw_ctx *ctx);

LW_END_DECLS

#endif
