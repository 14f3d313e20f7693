#include "store/check.h"

#include "base/error.h"
#include "base/names.h"

#define RUN_AT_MS_MAX (INT64_MAX / 1000000 / 2) /* the year 2116: times in ns have room to spare */

static int check_time(const char *field, int64_t ms, lw_error *err) {
    if (ms >= 0 && ms <= LW_TIMEOUT_MS_MAX)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0, "%s is %lld, must be 0 to %lld", field, (long long)ms,
                         (long long)LW_TIMEOUT_MS_MAX);
}

/* What could not be kept in any case; 0: not given. */
static int check_order(const char *field, int64_t ms, const char *limit, int64_t limit_ms,
                       lw_error *err) {
    if (ms == 0 || limit_ms == 0 || ms <= limit_ms)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0, "%s is %lld, must be at most %s, which is %lld", field,
                         (long long)ms, limit, (long long)limit_ms);
}

/* One that is due when it has to have started never would: both come with the same look at the
 * clock. */
static int check_start(const lw_task *task, lw_error *err) {
    if (task->start_by_ms == 0 || task->delay_ms < task->start_by_ms)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "delay_ms is %lld, must be less than start_by_ms, which is %lld",
                         (long long)task->delay_ms, (long long)task->start_by_ms);
}

static int check_orders(const lw_task *task, lw_error *err) {
    int rc = check_start(task, err);
    if (rc == LW_OK)
        rc = check_order("delay_ms", task->delay_ms, "finish_by_ms", task->finish_by_ms, err);
    if (rc == LW_OK)
        rc = check_order("start_by_ms", task->start_by_ms, "finish_by_ms", task->finish_by_ms, err);
    return rc;
}

static int check_times(const lw_task *task, lw_error *err) {
    int rc = check_time("delay_ms", task->delay_ms, err);
    if (rc == LW_OK)
        rc = check_time("start_by_ms", task->start_by_ms, err);
    if (rc == LW_OK)
        rc = check_time("finish_by_ms", task->finish_by_ms, err);
    if (rc == LW_OK)
        rc = check_time("key_window_ms", task->key_window_ms, err);
    if (rc == LW_OK && (task->run_at_ms < 0 || task->run_at_ms > RUN_AT_MS_MAX))
        rc = lw__error_set(err, LW_EINVAL, 0,
                           "run_at_ms is %lld, must be milliseconds since 1970, at most %lld",
                           (long long)task->run_at_ms, (long long)RUN_AT_MS_MAX);
    if (rc == LW_OK && task->delay_ms > 0 && task->run_at_ms > 0)
        rc = lw__error_set(err, LW_EINVAL, 0,
                           "delay_ms and run_at_ms are both given, must be one of them");
    if (rc == LW_OK
        && (task->submit_timeout_ms < LW_ZERO || task->submit_timeout_ms > LW_TIMEOUT_MS_MAX))
        rc = lw__error_set(err, LW_EINVAL, 0,
                           "submit_timeout_ms is %lld, must be -1, LW_ZERO, or 0 to %lld",
                           (long long)task->submit_timeout_ms, (long long)LW_TIMEOUT_MS_MAX);
    return rc;
}

static int check_payload(const lw_task *task, lw_error *err) {
    if (task->payload.size > LW_PAYLOAD_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "the payload has %zu bytes, must be at most %d",
                             task->payload.size, LW_PAYLOAD_MAX);
    if (task->payload.size > 0 && !task->payload.data)
        return lw__error_set(err, LW_EINVAL, 0, "the payload is NULL but has %zu bytes",
                             task->payload.size);
    if (!task->run && (task->arg || task->on_drop))
        return lw__error_set(err, LW_EINVAL, 0,
                             "arg and on_drop are for tasks with a function (run)");
    return LW_OK;
}

static int check_numbers(const lw_task *task, lw_error *err) {
    if (task->priority != LW_ZERO && (task->priority < 0 || task->priority > UINT32_MAX))
        return lw__error_set(err, LW_EINVAL, 0, "priority is %lld, must be LW_ZERO or 0 to %u",
                             (long long)task->priority, UINT32_MAX);
    if ((unsigned)task->key_scope > LW_KEY_WINDOW)
        return lw__error_set(err, LW_EINVAL, 0, "key_scope is %d, must be an lw_key_scope",
                             (int)task->key_scope);
    if (task->after_count > LW_AFTER_MAX || (task->after_count > 0 && !task->after))
        return lw__error_set(err, LW_EINVAL, 0,
                             "after_count is %zu, must be at most %d, and after given",
                             task->after_count, LW_AFTER_MAX);
    if ((unsigned)task->after_policy > LW_AFTER_RUN)
        return lw__error_set(err, LW_EINVAL, 0, "after_policy is %d, must be an lw_after_policy",
                             (int)task->after_policy);
    return LW_OK;
}

int lw__check_fields(const lw_task *task, lw_error *err) {
    int rc = check_payload(task, err);
    if (rc == LW_OK)
        rc = check_numbers(task, err);
    if (rc == LW_OK)
        rc = check_times(task, err);
    if (rc == LW_OK)
        rc = check_orders(task, err);
    if (rc == LW_OK && task->key)
        rc = lw__key_check("key", task->key, LW_KEY_MAX, err);
    return rc;
}

int lw__check_task(const lw_task *task, lw_error *err) {
    if (!task)
        return lw__error_set(err, LW_EINVAL, 0, "the task is NULL");
    if (task->struct_size != sizeof *task)
        return lw__error_set(err, LW_EINVAL, 0,
                             "struct_size of the task is %zu, must be %zu: it is none of this "
                             "version, was not made by LW_TASK or LW_TASK_INIT, or is gone (in C++ "
                             "LW_TASK lives to the end of its statement)",
                             task->struct_size, sizeof *task);
    if (!task->kind && !task->run)
        return lw__error_set(err, LW_EINVAL, 0, "the task has no kind, and no function either");
    return LW_OK;
}
