/* Opening a pool and freeing it. */
#include "base/error.h"
#include "base/fork.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"
#include "pool/pool_internal.h"

#include <errno.h>
#include <string.h>

static uint32_t place_count(const struct lw__pool_settings *set) {
    return set->max_workers + set->stuck_max;
}

static void init(lw_pool *pool) {
    pool->waker_cpu = -1;
    lw__lot_init(&pool->idle);
    lw__lot_init(&pool->room);
    lw__lot_init(&pool->quiet);
    lw__lot_init(&pool->monitor_lot);
    atomic_init(&pool->stop_deadline, LW__NEVER);
    lw__mutex_init(&pool->mu);
    lw__mutex_init(&pool->records_mu);
    /* Bounded by what holds them: the queue, the reserves, and callers that wait or run one. */
    lw__slab_init(&pool->records, &pool->set.allocator, sizeof(struct lw__record),
                  LW__SLAB_LIMIT_MAX, "tasks with a record");
    /* Each pool counts from elsewhere, so that the ticket of another one finds nothing here. */
    pool->records.generation = (uint32_t)((uintptr_t)pool / LW__CACHE_LINE * UINT32_C(2654435761));
    pool->is_guarded = pool->set.task_timeout_ns != LW__NEVER;
    pool->has_barrier = lw__barrier_prepare();
    pool->can_hurry = pool->has_barrier && pool->set.clock->is_real;
    atomic_store(&pool->mean_ns, LW__LONG_MEAN_CLIP_NS);
    pool->spin_credit_at = lw__now(pool->set.clock);
}

void lw__pool_free(lw_pool *pool) {
    lw_allocator allocator = pool->set.allocator;
    lw__crew_join_last(pool);
    if (pool->workers) {
        lw__crew_free_places(pool);
        lw__free(&allocator, pool->workers, place_count(&pool->set) * sizeof *pool->workers);
    }
    lw__ring_free(&pool->ring, &allocator);
    lw__slab_free(&pool->records);
    lw__mutex_free(&pool->records_mu);
    lw__mutex_free(&pool->mu);
    lw__lot_free(&pool->monitor_lot);
    lw__lot_free(&pool->quiet);
    lw__lot_free(&pool->room);
    lw__lot_free(&pool->idle);
    lw__fork_word_close(pool->is_alive);
    lw__free_aligned(&allocator, pool, sizeof *pool, LW__CACHE_LINE);
}

/* What can fail, in order. On failure the caller closes what there is. */
static int build(lw_pool *pool, lw_error *err) {
    const struct lw__pool_settings *set = &pool->set;
    pool->is_alive = lw__fork_word_open(err);
    if (!pool->is_alive)
        return err->status;
    pool->workers = lw__alloc_zero(&set->allocator, place_count(set) * sizeof *pool->workers);
    if (!pool->workers || !lw__ring_init(&pool->ring, &set->allocator, set->queue_limit))
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a queue of %llu tasks",
                             (unsigned long long)set->queue_limit);
    lw__ring_bar(&pool->ring, LW__RING_UNMANNED);
    if (pool->is_guarded && !lw__monitor_start(pool))
        return lw__error_set(err, LW_ESYSTEM, EAGAIN, "the system gives no thread for the monitor");
    for (uint32_t i = 0; i < set->min_workers; i++) {
        int rc = lw__crew_grow(pool, err);
        if (rc < 0)
            return rc;
    }
    return LW_OK;
}

int lw_pool_open(lw_pool **out, const lw_pool_options *options, lw_error *err) {
    struct lw__pool_settings set;
    lw_error own;
    if (!err)
        err = &own;
    if (!out)
        return lw__error_set(err, LW_EINVAL, 0,
                             "there is nowhere to put the pool: the first argument is NULL");
    *out = NULL;
    lw_pool_options defaults = {.struct_size = sizeof defaults};
    int rc = lw__pool_settle_options(&set, options ? options : &defaults, err);
    if (rc < 0)
        return rc;
    lw_pool *pool = lw__alloc_aligned(&set.allocator, sizeof *pool, LW__CACHE_LINE);
    if (!pool)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a pool of %zu bytes", sizeof *pool);
    memset(pool, 0, sizeof *pool);
    pool->set = set;
    init(pool);
    rc = build(pool, err);
    if (rc < 0) {
        if (pool->is_alive && pool->ring.cells)
            lw_pool_close(pool);
        else
            lw__pool_free(pool);
        return rc;
    }
    lw__log(&set.log, LW_LOG_DEBUG, "pool", "opened", LW__FIELD_TEXT("pool", set.name),
            LW__FIELD_U64("min_workers", set.min_workers),
            LW__FIELD_U64("max_workers", set.max_workers),
            LW__FIELD_U64("queue_limit", set.queue_limit));
    *out = pool;
    return LW_OK;
}
