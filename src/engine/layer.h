/* What the layers above (flow, batch) have of the engine beyond its public headers.
 *
 * A layer registers kinds as its own, and then has a say in what becomes of their attempts: when an
 * attempt of a task that belongs to a scope (store/store.h) ends for good, `amend` may change the
 * scope and add successors, all of it in the transaction that settles the attempt. It sees the
 * scope as it is; if that changes before the settlement (LW_ECHANGED), it is asked again. So it
 * must compute, and do nothing.
 *
 * Besides: puts for tasks in a scope, the store, waiting for a scope to change, and a place for
 * what a layer wants to hang on the engine.
 */
#ifndef LW_ENGINE_LAYER_H
#define LW_ENGINE_LAYER_H

#include "store/store.h"

#include <legwork/engine.h>

/* An attempt that is being settled. */
struct lw__settling {
    /* for the layer to read */
    lw_engine *engine;
    const struct lw__task *task;
    lw_outcome outcome;          /* what the handler said; 0: nothing, it has crashed */
    enum lw__verdict verdict;    /* finish, fail or abort */
    const char *text;            /* the error; NULL: none */
    char error[LW_TEXT_MAX + 1]; /* the last one of earlier attempts; "": none */
    uint32_t bits;               /* lw__layer_note */
    uint64_t now;                /* on the engine's clock */
    struct lw__scope_copy old;   /* the scope, with its bytes */
    /* for the layer to write */
    bool has_change;
    struct lw__scope_change change; /* its bytes may be in `bytes`; its version is set already */
    uint32_t memo;                  /* from amend to settled */
    /* memory */
    char old_bytes[LW__SCOPE_BYTES_MAX];
    char bytes[LW__SCOPE_BYTES_MAX];
    /* the engine's */
    struct lw__hand *hand;
};

struct lw__layer {
    /* LW_OK; or a status: the attempt has failed then, and is retried. No lock is held. */
    int (*amend)(void *user, struct lw__settling *settling);
    /* All of it has happened; a durable store may not have written it yet. No lock is held. */
    void (*settled)(void *user, const struct lw__settling *settling);
    /* A task was aborted without an attempt that could say so (hooks.scope_aborted in
     * store/store.h): it was cancelled, or dropped to make room. */
    size_t (*aborted)(void *user, uint32_t attempts, const char *reason, lw_bytes old,
                      char bytes[LW__SCOPE_BYTES_MAX]);
};

/* ---- kinds -------------------------------------------------------------------------------- */

/* As lw_handle, with a sentence. The layer may be NULL. */
int lw__layer_handle(lw_engine *engine, const char *kind, lw_handler run,
                     const lw_handler_options *options, const struct lw__layer *layer, void *user,
                     lw_error *err);

/* lw_start gives `why`, and so does *err (may be NULL). Returns its status. */
int lw__layer_refuse(lw_engine *engine, const lw_error *why, lw_error *err);

/* Whether kinds can still be registered. */
bool lw__layer_is_started(const lw_engine *engine);

/* ---- inside an attempt -------------------------------------------------------------------- */

/* The `user` of the attempt's kind; NULL if it is not a kind of this layer, or no attempt's. */
void *lw__layer_user(lw_ctx *ctx, const struct lw__layer *layer);

/* The attempt's place in its scope; NULL: none. Its generation and is_unclean are fixed. */
const struct lw__member *lw__layer_member(lw_ctx *ctx);

/* Copies the scope of the attempt's task. LW_OK; LW_ELEASE: it has another generation, or is gone.
 * *is_done: the task was completed in a transaction of its handler's, by a process that has died
 * since. */
int lw__layer_look(lw_ctx *ctx, struct lw__scope_copy *copy, bool *is_done);

/* Bits for `amend`; forgotten when the attempt has ended. */
void lw__layer_note(lw_ctx *ctx, uint32_t bits);

/* Whether the calling thread runs a task of this scope. */
bool lw__layer_runs(const lw_engine *engine, uint64_t scope);

/* ---- tasks in a scope --------------------------------------------------------------------- */

struct lw__layer_task {
    const char *kind, *queue; /* queue NULL: "default" */
    int64_t priority;         /* as in lw_task */
};

/* Makes a put of it for LW__SCOPE_THIS. `is_inside`: it may use the reserve; from a handler it
 * always may. LW_OK; LW_EINVAL with a sentence; LW_ENOMEM. It owns a spec, which the second one
 * frees if the store did not take it. */
int lw__layer_make_put(lw_engine *engine, const struct lw__layer_task *task, bool is_inside,
                       struct lw__put *put, lw_error *err);
void lw__layer_drop_put(lw_engine *engine, struct lw__put *put);

/* In amend, of an attempt that finishes: one more successor, in the task's scope. LW_OK,
 * LW_ENOMEM. */
int lw__layer_then(struct lw__settling *settling, const struct lw__layer_task *task);

/* After puts: brings workers. */
void lw__layer_attend(lw_engine *engine);

/* The name that the number of a kind has. */
const char *lw__layer_kind_name(const lw_engine *engine, uint16_t number);

/* ---- scopes that change ------------------------------------------------------------------- */

/* Who waits for a scope to change; on the waiter's stack. Announce, look, then wait. */
struct lw__scope_await {
    uint64_t scope;
    _Atomic uint32_t has_changed; /* since it was announced */
    struct lw__scope_await *next, **link;
};

void lw__layer_announce(lw_engine *engine, struct lw__scope_await *await);
/* Until the scope has changed. LW_EDEADLOCK: a handler would wait for ever, and has not waited;
 * LW_ESTOPPING: the engine has stopped, or drops what this handler waits for. */
int lw__layer_wait(lw_engine *engine, struct lw__scope_await *await, uint64_t deadline);

/* A stop: whoever waits looks whether it is given up. */
void lw__layer_rouse(lw_engine *engine);
void lw__layer_withdraw(lw_engine *engine, struct lw__scope_await *await);

/* The store's hooks. Under its mutex. */
void lw__layer_scope_changed(void *engine, uint64_t scope);
size_t lw__layer_scope_aborted(void *engine, const struct lw__task *task, const char *reason,
                               lw_bytes old, char *bytes);

/* ---- the engine --------------------------------------------------------------------------- */

struct lw__store *lw__layer_store(lw_engine *engine);
const lw_log *lw__layer_log(const lw_engine *engine);
const lw_allocator *lw__layer_allocator(const lw_engine *engine);
uint64_t lw__layer_now(const lw_engine *engine);
uint64_t lw__layer_deadline(const lw_engine *engine, int64_t timeout_ms);
int64_t lw__layer_wall_ms(const lw_engine *engine, uint64_t at); /* 0 for 0 */
int64_t lw__layer_due_ms(const lw_engine *engine, uint64_t due); /* the first at which it is due */

/* LW_OK; LW_EINVAL for NULL, LW_EFORKED, with a sentence. `err` may be NULL. */
int lw__layer_check(const lw_engine *engine, lw_error *err);

/* What a layer hangs on the engine; freed with it. */
enum lw__annex { LW__ANNEX_FLOW, LW__ANNEX_BATCH, LW__ANNEXES };

struct lw__annex_ops {
    void (*free)(const lw_allocator *allocator, void *data);
    /* In lw_start, when all kinds are registered and before any worker runs; again if the start
     * fails and is repeated. LW_OK, or why the engine cannot start. NULL: nothing to do */
    int (*start)(lw_engine *engine, void *data, lw_error *err);
    /* A task of a scope has no handler here: what lw_explain says about it. False: the layer does
     * not know, either. NULL: never */
    bool (*explain)(const void *data, const char *kind, char text[LW_ERROR_MESSAGE_MAX]);
};

void *lw__layer_annex(const lw_engine *engine, enum lw__annex which); /* NULL: none yet */
void lw__layer_set_annex(lw_engine *engine, enum lw__annex which, void *data,
                         const struct lw__annex_ops *ops);

#endif
