/* Looking: figures and the list of what runs. Nothing here stops anybody. */
#include "pool/pool_internal.h"

#include <limits.h>

static lw_latency latency_of(const struct lw__histogram_snapshot *s) {
    return (lw_latency){
        .samples = s->count,
        .p50_ns = lw__histogram_quantile(s, 0.5),
        .p90_ns = lw__histogram_quantile(s, 0.9),
        .p99_ns = lw__histogram_quantile(s, 0.99),
        .max_ns = s->max_ns,
        .mean_ns = s->count > 0 ? (double)s->sum_ns / (double)s->count : 0,
    };
}

struct sums {
    uint64_t run, direct, reserved;
    struct lw__histogram_snapshot queue_wait, run_time;
};

static void add_worker_locked(struct sums *sums, lw_pool_stats *stats, struct lw__worker *w) {
    uint64_t not_run = atomic_load(&w->not_run);
    uint64_t settled = atomic_load(&w->settled) + atomic_load(&w->direct_settled);
    sums->run += settled > not_run ? settled - not_run : 0; /* settled is published now and then */
    sums->direct += atomic_load(&w->direct);
    sums->reserved += atomic_load(&w->reserved);
    lw__histogram_merge(&sums->queue_wait, &w->queue_wait);
    lw__histogram_merge(&sums->run_time, &w->run_time);
    stats->stuck_now += w->state == LW__WORKER_STUCK;
    stats->running += !(atomic_load(&w->runner.ctx.signal) & LW__SIGNAL_IDLE);
}

int lw_pool_get_stats(lw_pool *pool, lw_pool_stats *stats) {
    if (!pool || !stats)
        return LW_EINVAL;
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    struct sums sums = {0};
    *stats = (lw_pool_stats){0};
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        add_worker_locked(&sums, stats, pool->workers[i]);
    for (struct lw__runner *r = pool->guests; r; r = r->next_guest)
        stats->stuck_now += (atomic_load(&r->ctx.signal) & LW__SIGNAL_STUCK) != 0;
    stats->workers = pool->threads - pool->leaving;
    stats->workers_peak = pool->threads_peak;
    lw__mutex_unlock(&pool->mu);
    stats->running += atomic_load(&pool->guest_count);
    stats->run = sums.run + atomic_load(&pool->run_by_guests);
    uint64_t shells = atomic_load(&pool->shells); /* counted as dropped already */
    uint64_t depth = lw__ring_depth(&pool->ring); /* its two ends may be of two moments */
    uint64_t queued = depth < pool->ring.limit ? depth : pool->ring.limit;
    queued += atomic_load(&pool->orphans) + sums.reserved;
    stats->queued = queued > shells ? queued - shells : 0;
    stats->submitted = lw__ring_accepted(&pool->ring) + sums.direct + sums.reserved
                       + atomic_load(&pool->begun_by_guests);
    stats->dropped = atomic_load(&pool->dropped);
    stats->refused = atomic_load(&pool->refused);
    stats->stuck = atomic_load(&pool->stuck);
    stats->wakes = atomic_load(&pool->wakes);
    stats->queue_wait = latency_of(&sums.queue_wait);
    stats->run_time = latency_of(&sums.run_time);
    return LW_OK;
}

int lw_pool_running(lw_pool *pool, lw_pool_run_info *out, size_t max) {
    if (!pool || (max > 0 && !out))
        return LW_EINVAL;
    if (!lw__pool_is_alive(pool))
        return LW_EFORKED;
    size_t count = 0;
    lw_pool_run_info info;
    uint64_t now = lw__now(pool->set.clock);
    lw__mutex_lock(&pool->mu);
    for (uint32_t i = 0; i < pool->worker_slots; i++)
        if (lw__runner_describe(&pool->workers[i]->runner, now, &info) && count++ < max)
            out[count - 1] = info;
    for (struct lw__runner *r = pool->guests; r; r = r->next_guest)
        if (lw__runner_describe(r, now, &info) && count++ < max)
            out[count - 1] = info;
    lw__mutex_unlock(&pool->mu);
    return count < INT_MAX ? (int)count : INT_MAX;
}
