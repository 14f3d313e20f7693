/* Settling the options of engines, kinds and queues: validate, then put defaults in. */
#include "engine/options.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "engine/range.h"
#include "store/store.h"

#include <limits.h>
#include <sched.h>
#include <string.h>

#define DEFAULT_NAME "legwork"
#define DEFAULT_STUCK_MAX 16
#define DEFAULT_TASK_LIMIT 1000000
#define DEFAULT_BYTE_LIMIT (INT64_C(1) << 30)
#define DEFAULT_RESERVE 1000
#define DEFAULT_STUCK_MS 5000
#define DEFAULT_FINISHED_MS 900000
#define DEFAULT_FAILED_MS 86400000
#define DEFAULT_KEEP_MAX 100000
#define DEFAULT_KEEP_BYTES ((int64_t)LW__RETAINED_BYTES)
#define WEIGHT_MAX 1000

#define CHECK_RANGES(ranges, err) lw__ranges_check(ranges, sizeof ranges / sizeof *ranges, err)

static int check_size(size_t given, size_t wanted, const char *macro, lw_error *err) {
    if (given == wanted)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "struct_size is %zu, this library wants %zu: use %s(...)", given, wanted,
                         macro);
}

static int check_overflow(int overflow, bool may_be_zero, lw_error *err) {
    bool is_fine = (overflow >= LW_BLOCK && overflow <= LW_DROP_OLDEST)
                   || (overflow == LW_ZERO && may_be_zero);
    if (is_fine)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "overflow is %d, must be LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS or "
                         "LW_DROP_OLDEST%s",
                         overflow, may_be_zero ? ", or LW_ZERO for LW_BLOCK itself" : "");
}

/* ---- engines ------------------------------------------------------------------------------- */

static int usable_cores(void) {
    cpu_set_t set;
    int count = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
    return count > 0 ? count : 1;
}

/* It stands in log lines and in labels of figures. */
static int check_name(const char *name, lw_error *err) {
    return lw__key_check("name", name, LW_POOL_NAME_MAX, err);
}

static int validate_engine_handles(const lw_engine_options *o, lw_error *err) {
    if (o->allocator && !o->allocator->resize)
        return lw__error_set(err, LW_EINVAL, 0, "allocator has no resize function");
    if (o->log && !o->log->write)
        return lw__error_set(err, LW_EINVAL, 0, "log has no write function");
    if (o->log && (unsigned)o->log->level > LW_LOG_ERROR)
        return lw__error_set(err, LW_EINVAL, 0,
                             "level of log is %d, must be 0 or LW_LOG_DEBUG to LW_LOG_ERROR",
                             (int)o->log->level);
    return LW_OK;
}

static int validate_engine(const lw_engine_options *o, lw_error *err) {
    if (check_size(o->struct_size, sizeof *o, "LW_ENGINE_OPTIONS", err) < 0)
        return LW_EINVAL;
    const struct lw__range ranges[] = {
        {"workers", o->workers, 1, LW_WORKERS_MAX, true, false},
        {"stuck_max", o->stuck_max, 1, LW_WORKERS_MAX, true, false},
        {"task_limit", o->task_limit, 1, LW_TASKS_MAX, false, false},
        {"byte_limit", o->byte_limit, 1, INT64_MAX, false, true},
        {"reserve", o->reserve, 1, LW_TASKS_MAX, true, false},
        {"submit_timeout_ms", o->submit_timeout_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"kind_count_max", o->kind_count_max, 1, LW_KINDS_MAX, false, false},
        {"queue_count_max", o->queue_count_max, 1, LW_QUEUES_MAX, false, false},
    };
    if (o->name && check_name(o->name, err) < 0)
        return LW_EINVAL;
    if (CHECK_RANGES(ranges, err) < 0 || check_overflow((int)o->overflow, false, err) < 0)
        return LW_EINVAL;
    if ((unsigned)o->role > LW_ROLE_READER)
        return lw__error_set(err, LW_EINVAL, 0,
                             "role is %d, must be LW_ROLE_OWNER, LW_ROLE_CLIENT or LW_ROLE_READER",
                             (int)o->role);
    return validate_engine_handles(o, err);
}

static int fill_in_seed(uint64_t *seed, lw_error *err) {
    struct lw__random random;
    if (*seed != 0)
        return LW_OK;
    int rc = lw__random_seed_from_system(&random, err);
    if (rc == LW_OK)
        *seed = lw__random_next(&random);
    return rc;
}

int lw__engine_settle_options(struct lw__engine_settings *set, const lw_engine_options *options,
                              lw_error *err) {
    const lw_engine_options *o = options ? options : LW_ENGINE_OPTIONS(.name = NULL);
    uint64_t seed = 0;
    int rc = validate_engine(o, err);
    if (rc == LW_OK) {
        seed = o->seed;
        rc = fill_in_seed(&seed, err);
    }
    if (rc < 0)
        return rc;
    const char *name = o->name ? o->name : DEFAULT_NAME;
    *set = (struct lw__engine_settings){
        .workers = (uint32_t)lw__choose(o->workers, usable_cores(), 0),
        .stuck_max = (uint32_t)lw__choose(o->stuck_max, DEFAULT_STUCK_MAX, 0),
        .task_limit = lw__choose_count(o->task_limit, DEFAULT_TASK_LIMIT),
        .byte_limit = lw__choose_count(o->byte_limit, DEFAULT_BYTE_LIMIT),
        .reserve = lw__choose_count(o->reserve, DEFAULT_RESERVE),
        .overflow = o->overflow,
        .submit_timeout_ns = lw__choose_ns(o->submit_timeout_ms, -1),
        .on_failed = o->on_failed,
        .on_aborted = o->on_aborted,
        .on_stuck = o->on_stuck,
        .on_attempt = o->on_attempt,
        .user = o->user,
        .seed = seed,
        .log = o->log ? *o->log : (lw_log){0},
        .clock = o->clock ? o->clock : lw__clock_system(),
        .allocator = o->allocator ? *o->allocator : *lw__allocator_default(),
        .role = o->role,
        .kind_count_max = (uint32_t)lw__choose(o->kind_count_max, LW_KINDS_MAX, 0),
        .queue_count_max = (uint32_t)lw__choose(o->queue_count_max, LW_QUEUES_MAX, 0),
    };
    memcpy(set->name, name, strlen(name) + 1);
    return LW_OK;
}

/* ---- kinds --------------------------------------------------------------------------------- */

static int validate_retention(const lw_retention *r, lw_error *err) {
    const struct lw__range ranges[] = {
        {"retention.finished_ms", r->finished_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"retention.finished_max", r->finished_max, 1, LW_TASKS_MAX, true, true},
        {"retention.failed_ms", r->failed_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"retention.failed_max", r->failed_max, 1, LW_TASKS_MAX, true, true},
        {"retention.aborted_ms", r->aborted_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"retention.aborted_max", r->aborted_max, 1, LW_TASKS_MAX, true, true},
        {"retention.byte_max", r->byte_max, 1, INT64_MAX, true, true},
    };
    return CHECK_RANGES(ranges, err);
}

static int validate_kind_keys(const lw_handler_options *o, lw_error *err) {
    if ((unsigned)o->key_scope > LW_KEY_WINDOW)
        return lw__error_set(err, LW_EINVAL, 0,
                             "key_scope is %d, must be LW_KEY_DEFAULT, LW_KEY_UNFINISHED, "
                             "LW_KEY_RETAINED or LW_KEY_WINDOW",
                             (int)o->key_scope);
    if (o->key_scope == LW_KEY_WINDOW && o->key_window_ms == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "key_window_ms is 0, must be 1 to %lld: LW_KEY_WINDOW needs it",
                             (long long)LW_TIMEOUT_MS_MAX);
    return LW_OK;
}

static int validate_kind(const lw_handler_options *o, lw_error *err) {
    if (check_size(o->struct_size, sizeof *o, "LW_HANDLER_OPTIONS", err) < 0)
        return LW_EINVAL;
    const struct lw__range ranges[] = {
        {"concurrency", o->concurrency, 1, INT_MAX, false, true},
        {"timeout_ms", o->timeout_ms, 1, LW_TIMEOUT_MS_MAX, false, true},
        {"stuck_ms", o->stuck_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
        {"key_window_ms", o->key_window_ms, 1, LW_TIMEOUT_MS_MAX, false, false},
    };
    if (CHECK_RANGES(ranges, err) < 0 || validate_retention(&o->retention, err) < 0)
        return LW_EINVAL;
    return validate_kind_keys(o, err);
}

static struct lw__keep choose_keep(int64_t ms, int64_t max, int64_t default_ms, int64_t default_max,
                                   int64_t byte_max) {
    return (struct lw__keep){.ns = lw__choose_ns(ms, default_ms),
                             .max = lw__choose_count(max, default_max),
                             .byte_max = lw__choose_count(byte_max, DEFAULT_KEEP_BYTES)};
}

int lw__kind_settle_options(struct lw__kind_settings *set, const lw_handler_options *options,
                            lw_error *err) {
    const lw_handler_options *o = options ? options : LW_HANDLER_OPTIONS(.user = NULL);
    struct lw__retry retry;
    int rc = validate_kind(o, err);
    if (rc == LW_OK)
        rc = lw__retry_settle(&retry, &o->retry, err);
    if (rc < 0)
        return rc;
    const lw_retention *r = &o->retention;
    *set = (struct lw__kind_settings){
        .concurrency = (uint32_t)lw__choose(o->concurrency, UINT32_MAX, UINT32_MAX),
        .timeout_ns = lw__choose_ns(o->timeout_ms, -1),
        .stuck_ns = lw__choose_ns(o->stuck_ms, DEFAULT_STUCK_MS),
        .retry = retry,
        .finished = choose_keep(r->finished_ms, r->finished_max, DEFAULT_FINISHED_MS,
                                DEFAULT_KEEP_MAX, r->byte_max),
        .failed = choose_keep(r->failed_ms, r->failed_max, DEFAULT_FAILED_MS, DEFAULT_KEEP_MAX,
                              r->byte_max),
        .key_scope = o->key_scope == LW_KEY_DEFAULT ? LW_KEY_UNFINISHED : o->key_scope,
        .key_window_ns = lw__choose_ns(o->key_window_ms, 0),
        .user = o->user,
    };
    set->aborted = choose_keep(r->aborted_ms, r->aborted_max,
                               lw__choose(r->finished_ms, DEFAULT_FINISHED_MS, -1),
                               lw__choose(r->finished_max, DEFAULT_KEEP_MAX, -1), r->byte_max);
    return LW_OK;
}

/* ---- queues -------------------------------------------------------------------------------- */

static int validate_queue(const lw_queue_options *o, lw_error *err) {
    if (check_size(o->struct_size, sizeof *o, "LW_QUEUE_OPTIONS", err) < 0)
        return LW_EINVAL;
    const struct lw__range ranges[] = {
        {"weight", o->weight, 1, WEIGHT_MAX, false, false},
        {"limit", o->limit, 1, LW_TASKS_MAX, false, false},
        {"byte_limit", o->byte_limit, 1, INT64_MAX, false, true},
        {"submit_timeout_ms", o->submit_timeout_ms, 1, LW_TIMEOUT_MS_MAX, true, true},
    };
    if (CHECK_RANGES(ranges, err) < 0)
        return LW_EINVAL;
    return check_overflow(o->overflow, true, err);
}

int lw__queue_settle_options(struct lw__queue_settings *set,
                             const struct lw__engine_settings *engine,
                             const lw_queue_options *options, lw_error *err) {
    const lw_queue_options *o = options ? options : LW_QUEUE_OPTIONS(.weight = 0);
    int rc = validate_queue(o, err);
    if (rc < 0)
        return rc;
    *set = (struct lw__queue_settings){
        .weight = (uint32_t)lw__choose(o->weight, 1, 1),
        .limit = o->limit ? (uint64_t)o->limit : engine->task_limit,
        .byte_limit = o->byte_limit ? lw__choose_count(o->byte_limit, 0) : engine->byte_limit,
        .overflow = (lw_overflow)lw__choose(o->overflow, engine->overflow, -1),
        .submit_timeout_ns = o->submit_timeout_ms ? lw__choose_ns(o->submit_timeout_ms, 0)
                                                  : engine->submit_timeout_ns,
    };
    return LW_OK;
}
