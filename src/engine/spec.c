/* A task as submitted: checked, and copied into one block if there is anything to copy. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"
#include "store/check.h"

#include <string.h>

#define DEFAULT_PRIORITY 1000

/* Payloads from this size on are copied when it is known that there is room for them: to look takes
 * the store's mutex once more, which is less than to copy them in vain. */
#define COPY_LATE_MIN 65536

bool lw__spec_is_plain(const lw_task *task) {
    return task && task->struct_size == sizeof *task && task->kind
           && !(task->payload.size | (uintptr_t)task->payload.data | (uintptr_t)task->key
                | (uintptr_t)task->run | (uintptr_t)task->arg | (uintptr_t)task->on_drop
                | (uint64_t)task->priority | (uint64_t)task->delay_ms | (uint64_t)task->run_at_ms
                | (uint64_t)task->start_by_ms | (uint64_t)task->finish_by_ms
                | (uint64_t)task->key_window_ms | (uint64_t)task->submit_timeout_ms
                | task->after_count | (uintptr_t)task->on_end | (uintptr_t)task->ctx
                | (unsigned)task->key_scope | (unsigned)task->after_policy);
}

/* ---- the block ---------------------------------------------------------------------------- */

static bool is_ordinary(const lw_task *task, size_t value_size) {
    return task->payload.size == 0 && !task->key && !task->run && task->run_at_ms == 0
           && task->start_by_ms == 0 && task->finish_by_ms == 0 && task->after_count == 0
           && !task->on_end && value_size == 0;
}

static uint64_t limit(uint64_t now, int64_t ms) {
    return ms > 0 ? now + (uint64_t)ms * LW__NS_PER_MS : LW__NEVER;
}

/* A kind that nobody knows yet has the defaults. */
static lw_key_scope scope_of(const lw_task *task, const struct lw__kind_info *kind) {
    if (task->key_scope)
        return task->key_scope;
    return kind ? kind->set.key_scope : LW_KEY_UNFINISHED;
}

static int settle_key(struct lw__spec *spec, const lw_task *task, const struct lw__kind_info *kind,
                      uint64_t now, lw_error *err) {
    spec->key_scope = scope_of(task, kind);
    uint64_t window = task->key_window_ms ? (uint64_t)task->key_window_ms * LW__NS_PER_MS
                      : kind              ? kind->set.key_window_ns
                                          : 0;
    if (spec->key_scope == LW_KEY_WINDOW && window == 0)
        return lw__error_set(err, LW_EINVAL, 0,
                             "key_scope is LW_KEY_WINDOW, but no key_window_ms is given");
    spec->key_until = now + window;
    return LW_OK;
}

static void fill_bytes(struct lw__spec *spec, const lw_task *task, const void *value) {
    char *at = (char *)&spec->after[spec->after_count];
    if (spec->after_count > 0) {
        for (uint32_t i = 0; i < spec->after_count; i++)
            spec->after[i] = task->after[i];
    }
    if (spec->key_size > 0)
        memcpy(at, task->key, spec->key_size);
    at += spec->key_size;
    *at = 0;
    if (spec->value_size > 0)
        memcpy((char *)spec + (lw__spec_value(spec) - (const char *)spec), value, spec->value_size);
}

static void copy_payload(struct lw__spec *spec, const lw_task *task) {
    char *at = (char *)spec + (lw__spec_payload(spec) - (const char *)spec);
    if (spec->payload_size > 0)
        memcpy(at, task->payload.data, spec->payload_size);
    at[spec->payload_size] = 0; /* a text can be printed as it is */
}

void lw__spec_copy(const lw_task *task, struct lw__put *put) {
    if (put->is_uncopied)
        copy_payload(put->spec, task);
    put->is_uncopied = false;
}

static int make_block(lw_engine *engine, const lw_task *task, const struct lw__kind_info *kind,
                      uint64_t now, struct lw__put *put, lw_error *err) {
    size_t value_size = 0;
    const void *value = task->ctx ? lw_ctx_value(task->ctx, &value_size) : NULL;
    if (is_ordinary(task, value_size))
        return LW_OK;
    size_t key_size = task->key ? strlen(task->key) : 0;
    size_t size = lw__spec_size(task->after_count, key_size, value_size, task->payload.size);
    struct lw__spec *spec = lw__alloc(engine->blocks, size);
    if (!spec)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a task of %zu bytes", size);
    memset(spec, 0, sizeof *spec);
    spec->size = size;
    spec->start_by = limit(now, task->start_by_ms);
    spec->finish_by = limit(now, task->finish_by_ms);
    spec->run_at_ms = task->run_at_ms;
    spec->after_policy = task->after_policy;
    spec->after_count = (uint32_t)task->after_count;
    spec->key_size = (uint32_t)key_size;
    spec->value_size = (uint32_t)value_size;
    spec->payload_size = (uint32_t)task->payload.size;
    spec->run = task->run;
    spec->arg = task->arg;
    spec->on_drop = task->on_drop;
    spec->on_end = task->on_end;
    spec->user = task->user;
    fill_bytes(spec, task, value);
    put->spec = spec;
    put->is_uncopied = task->payload.size >= COPY_LATE_MIN;
    if (!put->is_uncopied)
        copy_payload(spec, task);
    if (!task->key)
        return LW_OK;
    if (kind)
        lw__index_pair(engine->index, put->kind, spec); /* hashed, before the mutex is taken */
    return settle_key(spec, task, kind, now, err);
}

static uint64_t due_of(const lw_engine *engine, const lw_task *task, uint64_t now) {
    if (task->delay_ms > 0)
        return now + (uint64_t)task->delay_ms * LW__NS_PER_MS;
    if (task->run_at_ms == 0)
        return 0;
    int64_t wait_ms = task->run_at_ms - lw__wall_ms(engine->set.clock);
    return wait_ms > 0 ? now + (uint64_t)wait_ms * LW__NS_PER_MS : 0;
}

static const char *kind_name(const lw_task *task) {
    return task->kind ? task->kind : "call";
}

static int refuse_use(const lw_task *task, lw_error *err) {
    return lw__error_set(err, LW_EINVAL, 0,
                         task->run ? "kind \"%s\" has tasks that wait for a handler: give the "
                                     "function another kind, or none"
                                   : "kind \"%s\" has no handler and is used for functions: "
                                     "give the task one (run)",
                         kind_name(task));
}

/* Whether the names are good, and what they stand for; NULL and no number: nothing yet. */
static int look_up(lw_engine *engine, const lw_task *task, struct lw__put *put,
                   struct lw__kind_info **kind, lw_error *err) {
    bool is_call = task->run != NULL;
    struct lw__queue_info *queue =
        task->queue ? lw__registry_find_queue(engine, task->queue) : engine->default_queue;
    *kind = lw__registry_find_kind(engine, kind_name(task));
    if (!*kind && lw__name_check("kind", kind_name(task), err) < 0)
        return LW_EINVAL;
    if (!queue && lw__name_check("queue", task->queue, err) < 0)
        return LW_EINVAL;
    if (*kind && !lw__registry_can_use(*kind, is_call))
        return refuse_use(task, err);
    put->is_unnamed = !*kind || !queue || !lw__registry_is_used(*kind, is_call);
    put->kind = *kind ? (*kind)->number : LW__UNNAMED;
    put->queue = queue ? queue->number : LW__UNNAMED;
    return LW_OK;
}

int lw__spec_name(lw_engine *engine, const lw_task *task, struct lw__put *put, lw_error *err) {
    struct lw__queue_info *queue = engine->default_queue;
    struct lw__kind_info *kind;
    if (!put->is_unnamed)
        return LW_OK;
    int rc = lw__registry_kind(engine, kind_name(task), &kind, err);
    if (rc == LW_OK && task->queue)
        rc = lw__registry_queue(engine, task->queue, &queue, err);
    if (rc < 0)
        return rc;
    if (!kind->run && !lw__registry_use(engine, kind, task->run != NULL))
        return refuse_use(task, err);
    put->kind = kind->number;
    put->queue = queue->number;
    put->is_unnamed = false;
    if (task->key)
        lw__index_pair(engine->index, put->kind, put->spec);
    return LW_OK;
}

/* Whether something is counted from now on, so that a tick would matter. */
static bool has_times(const lw_task *task, const struct lw__kind_info *kind) {
    bool is_window_kind = kind && kind->set.key_scope == LW_KEY_WINDOW;
    bool has_window = task->key && (task->key_scope == LW_KEY_WINDOW || is_window_kind);
    return has_window || task->delay_ms || task->run_at_ms || task->start_by_ms
           || task->finish_by_ms;
}

static int fill_rest(lw_engine *engine, const lw_task *task, struct lw__kind_info *kind,
                     uint64_t *now, struct lw__put *put, lw_error *err) {
    if (has_times(task, kind))
        *now = lw__engine_now(engine);
    if (task->priority != 0)
        put->priority = task->priority == LW_ZERO ? 0 : (uint32_t)task->priority;
    put->due = due_of(engine, task, *now);
    int rc = make_block(engine, task, kind, *now, put, err);
    if (rc < 0)
        lw__spec_free(engine, put);
    return rc;
}

bool lw__spec_name_plain(lw_engine *engine, const char *kind, const char *queue,
                         struct lw__put *put) {
    struct lw__kind_info *kind_info = lw__registry_find_kind(engine, kind);
    struct lw__queue_info *queue_info =
        queue ? lw__registry_find_queue(engine, queue) : engine->default_queue;
    if (!kind_info || !queue_info)
        return false;
    if (!kind_info->run && !atomic_load_explicit(&kind_info->is_awaiting, memory_order_relaxed))
        return false; /* the first that waits for a handler says so: the general way does */
    put->kind = kind_info->number;
    put->queue = queue_info->number;
    put->priority = DEFAULT_PRIORITY;
    return true;
}

int lw__spec_prepare(lw_engine *engine, const lw_task *task, uint64_t *now, struct lw__put *put,
                     lw_error *err) {
    struct lw__kind_info *kind;
    memset(put, 0, sizeof *put);
    put->priority = DEFAULT_PRIORITY;
    int rc = lw__check_task(task, err);
    if (rc < 0)
        return rc;
    rc = lw__check_fields(task, err);
    if (rc == LW_OK && task->run && engine->index->journal)
        return lw__error_set(err, LW_EINVAL, 0,
                             "a function (run) cannot be kept in a \"%s:\" store: give the task a "
                             "kind that has a handler, and a payload",
                             engine->store->ops->scheme);
    if (rc == LW_OK)
        rc = look_up(engine, task, put, &kind, err);
    if (rc == LW_OK)
        rc = fill_rest(engine, task, kind, now, put, err);
    return rc;
}

int lw__spec_make(lw_engine *engine, const lw_task *task, uint64_t *now, struct lw__put *put,
                  lw_error *err) {
    int rc = lw__spec_prepare(engine, task, now, put, err);
    if (rc == LW_OK)
        rc = lw__spec_name(engine, task, put, err);
    if (rc == LW_OK)
        lw__spec_copy(task, put);
    if (rc < 0)
        lw__spec_free(engine, put);
    return rc;
}

void lw__spec_free(lw_engine *engine, struct lw__put *put) {
    if (put->spec)
        lw__free(engine->blocks, put->spec, put->spec->size);
    put->spec = NULL;
}

int lw__spec_check_then(const struct lw__task *task, const struct lw__put *put, lw_error *err) {
    const struct lw__spec *spec = lw__task_spec(task), *next = put->spec;
    if (!next || next->key_size == 0 || !spec || spec->key_scope == LW_KEY_UNFINISHED
        || put->kind != task->kind || next->key_size != spec->key_size
        || memcmp(lw__spec_key(next), lw__spec_key(spec), spec->key_size) != 0)
        return LW_OK;
    return lw__error_set(err, LW_EINVAL, 0,
                         "a successor has the kind and key of its own task, which keeps them after "
                         "its end (%s): give the successor another key, or the task "
                         "LW_KEY_UNFINISHED",
                         spec->key_scope == LW_KEY_WINDOW ? "LW_KEY_WINDOW" : "LW_KEY_RETAINED");
}
