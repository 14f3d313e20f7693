/* What the caller asked for: defaults filled in, nonsense refused with a sentence. Once, at open.
 */
#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "pool/pool_internal.h"

#include <sched.h>
#include <string.h>

#define DEFAULT_NAME "pool"
#define DEFAULT_IDLE_MS 10000
#define DEFAULT_QUEUE_LIMIT 1024
#define DEFAULT_STUCK_MAX 16

static int usable_cores(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}

/* A whole-number option and what it may be. 0 and LW_ZERO are judged before their defaults go in.
 */
struct range {
    const char *name;
    int64_t value, min, max;
    bool may_be_zero, may_be_none; /* LW_ZERO, -1 */
};

static int check_range(const struct range *r, lw_error *err) {
    bool is_fine = r->value == 0 || (r->value >= r->min && r->value <= r->max)
                   || (r->value == LW_ZERO && r->may_be_zero) || (r->value == -1 && r->may_be_none);
    if (is_fine)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0, "%s is %lld, must be %lld to %lld%s%s", r->name,
                         (long long)r->value, (long long)r->min, (long long)r->max,
                         r->may_be_none ? ", -1 for none" : "",
                         r->may_be_zero ? ", LW_ZERO for a real zero" : "");
}

static int validate_numbers(const lw_pool_options *o, lw_error *err) {
    const struct range ranges[] = {
        {"min_workers", o->min_workers, 1, LW_POOL_WORKERS_MAX, true, false},
        {"max_workers", o->max_workers, 1, LW_POOL_WORKERS_MAX, false, false},
        {"stuck_max", o->stuck_max, 1, LW_POOL_WORKERS_MAX, true, false},
        {"idle_ms", o->idle_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"submit_timeout_ms", o->submit_timeout_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"task_timeout_ms", o->task_timeout_ms, 1, LW_TIMEOUT_MS_MAX, false, true},
        {"spin_percent", o->spin_percent, 1, 100, false, true},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (check_range(&ranges[i], err) < 0)
            return LW_EINVAL;
    if (o->queue_limit < 0 || o->queue_limit > LW_POOL_QUEUE_MAX)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "queue_limit is %d, must be 1 to %d: a queue without a limit is a leak", o->queue_limit,
            LW_POOL_QUEUE_MAX);
    return LW_OK;
}

static int validate(const lw_pool_options *o, lw_error *err) {
    if (o->struct_size != sizeof *o)
        return lw__error_set(err, LW_EINVAL, 0,
                             "struct_size is %zu, this library wants %zu: use LW_POOL_OPTIONS(...)",
                             o->struct_size, sizeof *o);
    if (o->name && lw__key_check("name", o->name, LW_POOL_NAME_MAX, err) < 0)
        return LW_EINVAL;
    if ((unsigned)o->overflow > LW_DROP_OLDEST)
        return lw__error_set(err, LW_EINVAL, 0,
                             "overflow is %d, must be LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS or "
                             "LW_DROP_OLDEST",
                             (int)o->overflow);
    if (o->allocator && !o->allocator->resize)
        return lw__error_set(err, LW_EINVAL, 0, "allocator has no resize function");
    if (o->log && !o->log->write)
        return lw__error_set(err, LW_EINVAL, 0, "log has no write function");
    if (o->log && (unsigned)o->log->level > LW_LOG_ERROR)
        return lw__error_set(err, LW_EINVAL, 0,
                             "level of log is %d, must be 0 or LW_LOG_DEBUG to LW_LOG_ERROR",
                             (int)o->log->level);
    return validate_numbers(o, err);
}

/* 0 is the default, LW_ZERO zero, -1 whatever `none` is here. */
static int64_t choose(int64_t given, int64_t default_value, int64_t none) {
    return given == 0 ? default_value : given == LW_ZERO ? 0 : given == -1 ? none : given;
}

static uint64_t choose_ns(int64_t given_ms, int64_t default_ms) {
    int64_t ms = choose(given_ms, default_ms, -1);
    return ms < 0 ? LW__NEVER : (uint64_t)ms * LW__NS_PER_MS;
}

static int choose_workers(struct lw__pool_settings *set, const lw_pool_options *o, lw_error *err) {
    int64_t cores = usable_cores();
    int64_t fitting = o->max_workers > 0 && o->max_workers < cores ? o->max_workers : cores;
    int64_t min = choose(o->min_workers, fitting, -1);
    int64_t max = choose(o->max_workers, min > 0 ? min : 1, -1);
    if (min > max)
        return lw__error_set(err, LW_EINVAL, 0, "min_workers is %lld but max_workers is only %lld",
                             (long long)min, (long long)max);
    set->min_workers = (uint32_t)min;
    set->max_workers = (uint32_t)max;
    return LW_OK;
}

int lw__pool_settle_options(struct lw__pool_settings *set, const lw_pool_options *o,
                            lw_error *err) {
    int rc = validate(o, err);
    if (rc == LW_OK)
        rc = choose_workers(set, o, err);
    if (rc < 0)
        return rc;
    memcpy(set->name, o->name ? o->name : DEFAULT_NAME,
           strlen(o->name ? o->name : DEFAULT_NAME) + 1);
    set->stuck_max = (uint32_t)choose(o->stuck_max, DEFAULT_STUCK_MAX, -1);
    set->queue_limit = (uint64_t)choose(o->queue_limit, DEFAULT_QUEUE_LIMIT, -1);
    set->idle_ns = choose_ns(o->idle_ms, DEFAULT_IDLE_MS);
    set->submit_timeout_ms = choose(o->submit_timeout_ms, -1, -1);
    set->task_timeout_ns = choose_ns(o->task_timeout_ms, -1);
    set->spin_percent = o->spin_percent;
    if (set->spin_percent == 0 && usable_cores() == 1)
        set->spin_percent = -1; /* whoever would bring the work cannot run meanwhile */
    set->overflow = o->overflow;
    set->on_drop = o->on_drop;
    set->on_stuck = o->on_stuck;
    set->user = o->user;
    set->log = o->log ? *o->log : (lw_log){0};
    set->clock = o->clock ? o->clock : lw__clock_system();
    set->allocator = o->allocator ? *o->allocator : *lw__allocator_default();
    if (!set->clock->is_real)
        set->spin_percent = -1; /* on a clock that stands still a spin would never end */
    return LW_OK;
}
