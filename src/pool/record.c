/* Records: what a task costs that carries a context's value or can be cancelled by its ticket. */
#include "pool/pool_internal.h"

#include <stdlib.h>
#include <string.h>

void lw__record_tag(lw_ctx *ctx, void *record) {
    (void)ctx;
    (void)record;
    abort(); /* workers look for this function and never call it */
}

struct lw__record *lw__record_make(lw_pool *pool, lw_pool_fn fn, void *arg, lw_ctx *values) {
    void *object = NULL;
    lw__mutex_lock(&pool->records_mu);
    struct lw__record *record = NULL;
    if (lw__slab_take(&pool->records, &object, NULL) == LW_OK) {
        record = object;
        record->ticket = lw__slab_ticket(record);
        record->state = LW__RECORD_QUEUED;
    }
    lw__mutex_unlock(&pool->records_mu);
    if (!record)
        return NULL;
    record->fn = fn;
    record->arg = arg;
    record->runner = NULL;
    record->value_size = values ? (uint32_t)values->value_size : 0;
    if (record->value_size > 0)
        memcpy(record->value, values->value, record->value_size);
    return record;
}

void lw__record_free(lw_pool *pool, struct lw__record *record) {
    lw__mutex_lock(&pool->records_mu);
    lw__slab_give(&pool->records, record);
    lw__mutex_unlock(&pool->records_mu);
}

/* The runner has begun already, so that a cancel that finds the record running also finds its
 * number in the signal. */
bool lw__record_start(struct lw__record *record, struct lw__runner *runner) {
    lw_pool *pool = runner->pool;
    LW__POINT("record: begun, not started");
    lw__mutex_lock(&pool->records_mu);
    bool is_cancelled = record->state == LW__RECORD_CANCELLED;
    if (!is_cancelled) {
        record->state = LW__RECORD_RUNNING;
        record->runner = runner;
        record->number = runner->number;
    } else {
        atomic_fetch_sub(&pool->shells, 1);
    }
    lw__mutex_unlock(&pool->records_mu);
    runner->ctx.value = record->value;
    runner->ctx.value_size = record->value_size;
    return !is_cancelled;
}

bool lw__record_refuse(lw_pool *pool, struct lw__record *record) {
    lw__mutex_lock(&pool->records_mu);
    bool is_cancelled = record->state == LW__RECORD_CANCELLED;
    lw__slab_give(&pool->records, record);
    lw__mutex_unlock(&pool->records_mu);
    if (is_cancelled)
        atomic_fetch_sub(&pool->shells, 1);
    return is_cancelled;
}

bool lw__record_drop(lw_pool *pool, struct lw__record *record, void **arg) {
    lw__mutex_lock(&pool->records_mu);
    bool is_first = record->state != LW__RECORD_CANCELLED;
    *arg = record->arg;
    if (!is_first)
        atomic_fetch_sub(&pool->shells, 1);
    lw__slab_give(&pool->records, record);
    lw__mutex_unlock(&pool->records_mu);
    return is_first;
}

int lw_pool_cancel(lw_pool *pool, lw_ticket ticket) {
    if (!pool || ticket == 0)
        return LW_EINVAL;
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    int rc = LW_ENOTFOUND;
    void *arg = NULL;
    lw__mutex_lock(&pool->records_mu);
    struct lw__record *record = lw__slab_find(&pool->records, ticket);
    if (record && record->state == LW__RECORD_QUEUED) {
        /* Its shell stays in the ring until a worker comes by and frees it. */
        record->state = LW__RECORD_CANCELLED;
        atomic_fetch_add(&pool->shells, 1);
        arg = record->arg;
        rc = LW_OK;
    } else if (record && record->state == LW__RECORD_RUNNING) {
        lw__ctx_end(&record->runner->ctx, record->number, LW_REASON_CANCELLED);
        rc = LW_PENDING;
    }
    lw__mutex_unlock(&pool->records_mu);
    if (rc == LW_OK)
        lw__pool_hand_back(pool, arg);
    return rc;
}
