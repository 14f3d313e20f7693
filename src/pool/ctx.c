/* Contexts: see legwork/ctx.h for what they promise and ctx.h for the signal word. */
#include "pool/ctx.h"

#include "base/error.h"
#include "base/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* A context of a caller's own: the same, with room for its value. */
struct own_ctx {
    lw_ctx ctx;
    lw_allocator allocator;
    unsigned char value[LW_CTX_VALUE_MAX];
};

static bool is_own(const lw_ctx *ctx) {
    return ctx->stop_mode == NULL;
}

/* Its deadline is looked at when somebody asks: nobody else does. */
static bool is_on_its_own(const lw_ctx *ctx) {
    return is_own(ctx) || ctx->is_driven;
}

static bool is_forked(const lw_ctx *ctx) {
    return ctx->is_alive && atomic_load_explicit(ctx->is_alive, memory_order_relaxed) == 0;
}

void lw__ctx_init(lw_ctx *ctx, lw_clock *clock, const _Atomic uint32_t *stop_mode,
                  const _Atomic uint32_t *is_alive) {
    atomic_init(&ctx->signal, stop_mode ? LW__SIGNAL_IDLE : 0);
    atomic_init(&ctx->deadline, LW__NEVER);
    atomic_init(&ctx->has_fd_out, false);
    ctx->clock = clock;
    ctx->stop_mode = stop_mode;
    ctx->is_alive = is_alive;
    ctx->is_driven = false;
    ctx->guard_ns = LW__NEVER;
    ctx->value = NULL;
    ctx->value_size = 0;
    ctx->owner = NULL;
    lw__mutex_init(&ctx->mu);
    ctx->fd = -1;
    ctx->watches = NULL;
    lw__lot_init(&ctx->sleepers);
}

/* Raw system calls where a worker runs them: read, write and close are cancellation points, and a
 * task may have cancelled its thread. */
void lw__ctx_free(lw_ctx *ctx) {
    if (ctx->fd >= 0)
        syscall(SYS_close, ctx->fd);
    lw__lot_free(&ctx->sleepers);
    lw__mutex_free(&ctx->mu);
}

/* ---- ending ------------------------------------------------------------------------------- */

/* A task's descriptor is an eventfd that the pool writes to; that of a caller's context is a
 * timerfd, which also knows the deadline by itself. */
static void fire_fd_locked(lw_ctx *ctx) LW__REQUIRES(ctx->mu) {
    if (ctx->fd < 0)
        return;
    if (is_own(ctx)) {
        struct itimerspec now = {.it_value = {.tv_nsec = 1}};
        timerfd_settime(ctx->fd, 0, &now, NULL);
    } else {
        syscall(SYS_write, ctx->fd, &(uint64_t){1}, sizeof(uint64_t));
    }
}

static void announce_end(lw_ctx *ctx, uint64_t number) {
    lw__mutex_lock(&ctx->mu);
    bool is_present = atomic_load(&ctx->signal) >> LW__SIGNAL_SHIFT == number;
    if (is_present && atomic_load(&ctx->has_fd_out))
        fire_fd_locked(ctx);
    for (struct lw__ctx_watch *w = ctx->watches; w; w = w->next)
        lw__lot_wake_this(w->lot, w->waiter);
    lw__mutex_unlock(&ctx->mu);
    lw__lot_wake_all(&ctx->sleepers);
}

bool lw__ctx_end(lw_ctx *ctx, uint64_t number, lw_reason reason) {
    uint64_t signal = atomic_load(&ctx->signal);
    do {
        if (signal >> LW__SIGNAL_SHIFT != number || signal & (LW__SIGNAL_IDLE | LW__SIGNAL_REASON))
            return false;
    } while (!atomic_compare_exchange_weak(&ctx->signal, &signal, signal | (uint64_t)reason));
    announce_end(ctx, number);
    return true;
}

void lw__ctx_recall_fd(lw_ctx *ctx) {
    lw__mutex_lock(&ctx->mu);
    uint64_t count;
    syscall(SYS_read, ctx->fd, &count,
            sizeof count); /* non-blocking: empties it if it was written */
    atomic_store(&ctx->has_fd_out, false);
    lw__mutex_unlock(&ctx->mu);
}

void lw__ctx_watch(lw_ctx *ctx, struct lw__ctx_watch *watch) {
    lw__mutex_lock(&ctx->mu);
    watch->next = ctx->watches;
    ctx->watches = watch;
    lw__mutex_unlock(&ctx->mu);
}

void lw__ctx_unwatch(lw_ctx *ctx, struct lw__ctx_watch *watch) {
    lw__mutex_lock(&ctx->mu);
    struct lw__ctx_watch **link = &ctx->watches;
    while (*link != watch)
        link = &(*link)->next;
    *link = watch->next;
    lw__mutex_unlock(&ctx->mu);
}

/* ---- asking ------------------------------------------------------------------------------- */

lw_reason lw_ctx_reason(lw_ctx *ctx) {
    if (!ctx)
        return LW_REASON_NONE;
    if (is_forked(ctx))
        return LW_REASON_FORKED;
    /* In sequence, because sleepers ask after they have entered a lot: see lot.h. */
    uint64_t signal = atomic_load_explicit(&ctx->signal, memory_order_seq_cst);
    if (!(signal & LW__SIGNAL_REASON) && is_on_its_own(ctx)) {
        uint64_t deadline = atomic_load_explicit(&ctx->deadline, memory_order_relaxed);
        if (deadline != LW__NEVER && lw__now(ctx->clock) >= deadline)
            lw__ctx_end(ctx, signal >> LW__SIGNAL_SHIFT, LW_REASON_TIMEOUT);
        signal = atomic_load_explicit(&ctx->signal, memory_order_acquire);
    }
    return (lw_reason)(signal & LW__SIGNAL_REASON);
}

bool lw_ctx_done(lw_ctx *ctx) {
    return lw_ctx_reason(ctx) != LW_REASON_NONE;
}

bool lw_ctx_stopping(lw_ctx *ctx) {
    return ctx && !is_own(ctx) && atomic_load_explicit(ctx->stop_mode, memory_order_acquire) != 0;
}

const char *lw_reason_name(lw_reason reason) {
    static const char *const names[] = {"none",    "timeout", "cancelled",
                                        "dropped", "stop",    "forked"};
    return (size_t)reason < sizeof names / sizeof *names ? names[reason] : "unknown";
}

/* Nanoseconds to the deadline. That of a task in a batch of short ones is noted by the monitor when
 * it first sees the task; until then all of it is left. */
static uint64_t left_ns(lw_ctx *ctx) {
    uint64_t deadline = atomic_load_explicit(&ctx->deadline, memory_order_relaxed);
    if (deadline == LW__NEVER)
        return LW__NEVER;
    if (deadline == 0)
        return ctx->guard_ns;
    uint64_t now = lw__now(ctx->clock);
    return now < deadline ? deadline - now : 0;
}

int64_t lw_ctx_left_ms(lw_ctx *ctx) {
    if (!ctx)
        return -1;
    if (lw_ctx_done(ctx))
        return 0;
    uint64_t left = left_ns(ctx), signal = atomic_load(&ctx->signal);
    if (left
        == 0) /* whoever polls with this must find the context done: no waiting for the monitor */
        lw__ctx_end(ctx, signal >> LW__SIGNAL_SHIFT, LW_REASON_TIMEOUT);
    return left == LW__NEVER ? -1 : (int64_t)((left + LW__NS_PER_MS - 1) / LW__NS_PER_MS);
}

/* Whoever would move the clock for it sleeps here itself. */
static int pass_time(lw_ctx *ctx, uint64_t until) {
    bool is_there = lw_ctx_done(ctx) || lw__test_clock_reach(ctx->clock, until);
    return lw_ctx_done(ctx) ? LW_ECANCELED : is_there ? LW_OK : LW_EINVAL;
}

int lw_ctx_sleep(lw_ctx *ctx, int64_t ms) {
    if (!ctx || ms < 0)
        return LW_EINVAL;
    if (is_forked(ctx))
        return LW_ECANCELED;
    uint64_t wake_at = lw__deadline_in(ctx->clock, ms);
    uint64_t deadline = atomic_load_explicit(&ctx->deadline, memory_order_relaxed);
    uint64_t until = is_on_its_own(ctx) && deadline < wake_at ? deadline : wake_at;
    if (ctx->is_driven && !ctx->clock->is_real)
        return pass_time(ctx, until);
    do {
        struct lw__waiter me = {0};
        lw__lot_enter(&ctx->sleepers, &me);
        if (lw_ctx_done(ctx))
            return lw__lot_leave(&ctx->sleepers, &me), LW_ECANCELED;
        lw__lot_wait(&ctx->sleepers, &me, ctx->clock, until);
        if (lw_ctx_done(ctx))
            return LW_ECANCELED;
    } while (lw__now(ctx->clock) < wake_at);
    return LW_OK;
}

static int open_fd(lw_ctx *ctx) {
    if (!is_own(ctx))
        return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    uint64_t deadline = atomic_load(&ctx->deadline);
    if (fd >= 0 && deadline != LW__NEVER && ctx->clock->is_real) {
        uint64_t ns = deadline > LW__CLOCK_BASE ? deadline - LW__CLOCK_BASE : 1; /* 0: never */
        struct itimerspec at = {.it_value = {.tv_sec = (time_t)(ns / LW__NS_PER_S),
                                             .tv_nsec = (long)(ns % LW__NS_PER_S)}};
        timerfd_settime(fd, TFD_TIMER_ABSTIME, &at, NULL);
    }
    return fd;
}

int lw_ctx_fd(lw_ctx *ctx) {
    if (!ctx)
        return LW_EINVAL;
    if (is_forked(ctx))
        return LW_EFORKED;
    lw_ctx_done(ctx); /* notes a deadline that has passed: no timer knows those of a test clock */
    lw__mutex_lock(&ctx->mu);
    if (ctx->fd < 0)
        ctx->fd = open_fd(ctx);
    int fd = ctx->fd;
    if (fd >= 0 && !atomic_exchange(&ctx->has_fd_out, true)
        && atomic_load(&ctx->signal) & LW__SIGNAL_REASON)
        fire_fd_locked(ctx);
    lw__mutex_unlock(&ctx->mu);
    return fd >= 0 ? fd : LW_ESYSTEM;
}

const void *lw_ctx_value(lw_ctx *ctx, size_t *size) {
    if (size)
        *size = ctx ? ctx->value_size : 0;
    return ctx && ctx->value_size > 0 ? ctx->value : NULL;
}

/* ---- a context of one's own ----------------------------------------------------------------- */

static int validate(const lw_ctx_options *o, lw_error *err) {
    if (o->struct_size != sizeof *o)
        return lw__error_set(err, LW_EINVAL, 0,
                             "struct_size is %zu, this library wants %zu: use LW_CTX_OPTIONS(...)",
                             o->struct_size, sizeof *o);
    if (o->timeout_ms < LW_ZERO || o->timeout_ms > LW_TIMEOUT_MS_MAX)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "timeout_ms is %lld, must be 1 to %lld, -1 (never) or LW_ZERO (at once)",
            (long long)o->timeout_ms, (long long)LW_TIMEOUT_MS_MAX);
    if (o->value_size > LW_CTX_VALUE_MAX)
        return lw__error_set(err, LW_EINVAL, 0,
                             "value_size is %zu, at most %d bytes travel with a context",
                             o->value_size, LW_CTX_VALUE_MAX);
    if (o->value_size > 0 && !o->value)
        return lw__error_set(err, LW_EINVAL, 0, "value is NULL but value_size is %zu",
                             o->value_size);
    if (o->allocator && !o->allocator->resize)
        return lw__error_set(err, LW_EINVAL, 0, "allocator has no resize function");
    return LW_OK;
}

int lw_ctx_open(lw_ctx **out, const lw_ctx_options *options, lw_error *err) {
    if (!out)
        return lw__error_set(err, LW_EINVAL, 0,
                             "there is nowhere to put the context: the first argument is NULL");
    *out = NULL;
    const lw_ctx_options defaults = {.struct_size = sizeof defaults};
    if (!options)
        options = &defaults;
    int rc = validate(options, err);
    if (rc < 0)
        return rc;
    const lw_allocator *allocator =
        options->allocator ? options->allocator : lw__allocator_default();
    struct own_ctx *own = lw__alloc_zero(allocator, sizeof *own);
    if (!own)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a context of %zu bytes",
                             sizeof *own);
    own->allocator = *allocator;
    lw__ctx_init(&own->ctx, options->clock ? options->clock : lw__clock_system(), NULL, NULL);
    int64_t timeout_ms = options->timeout_ms == 0         ? -1
                         : options->timeout_ms == LW_ZERO ? 0
                                                          : options->timeout_ms;
    atomic_store(&own->ctx.deadline, lw__deadline_in(own->ctx.clock, timeout_ms));
    if (options->value_size > 0)
        memcpy(own->value, options->value, options->value_size);
    own->ctx.value = own->value;
    own->ctx.value_size = options->value_size;
    *out = &own->ctx;
    return LW_OK;
}

int lw_ctx_cancel(lw_ctx *ctx) {
    if (!ctx || !is_own(ctx))
        return LW_EINVAL;
    if (!lw_ctx_done(ctx)) /* asks: a deadline that has passed unseen came first */
        lw__ctx_end(ctx, 0, LW_REASON_CANCELLED);
    return LW_OK;
}

void lw_ctx_close(lw_ctx *ctx) {
    if (!ctx || !is_own(ctx))
        return;
    struct own_ctx *own = (struct own_ctx *)ctx;
    lw_allocator allocator = own->allocator;
    lw__ctx_free(ctx);
    lw__free(&allocator, own, sizeof *own);
}
