/* Kinds and queues by name. Every submit looks two names up, so that is done without a lock
 * (base/name_table.h). */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <string.h>

/* Every submit reads it: nobody else's writes may be on its cache lines. */
static void *alloc_info(lw_engine *engine, size_t size) {
    void *info = lw__alloc_aligned(&engine->set.allocator, size, LW__LINE);
    return info ? memset(info, 0, size) : NULL;
}

/* Everything that a new name needs, before the store gives it a number: whoever hears of that may
 * look it up at once. A store that is just being loaded has names that count whatever the limit
 * is. */
static int make_room(lw_engine *engine, struct lw__name_table *names, struct lw__table *infos,
                     struct lw__series *series, uint32_t max) {
    const lw_allocator *allocator = &engine->set.allocator;
    if (names->count >= max && engine->is_loaded)
        return LW_EFULL;
    return lw__name_table_reserve(names, allocator)
                   && lw__table_reserve(infos, allocator, names->count + 1)
                   && lw__series_reserve(series, allocator)
               ? LW_OK
               : LW_ENOMEM;
}

static int refuse(int rc, const char *what, const char *name, uint32_t max, lw_error *err) {
    if (rc == LW_EFULL)
        return lw__error_set(err, LW_EFULL, 0,
                             "%s \"%s\" is one too many: %u are known, as many as %s_count_max (in "
                             "legwork serve %ss-max) allows. Raise it, or restart: names without a "
                             "task are forgotten then",
                             what, name, max, what, what);
    return lw__error_set(err, LW_ENOMEM, 0, "no memory for %s \"%s\"", what, name);
}

/* Names are added under registry_mu: what was reserved is still there. */
static void enter_series(lw_engine *engine, struct lw__series *series,
                         struct lw__series_name *name) {
    if (atomic_load(&series->count) == LW__SERIES_MAX)
        return;
    lw__mutex_lock(&engine->series_mu);
    lw__series_enter(series, name);
    lw__mutex_unlock(&engine->series_mu);
}

/* ---- kinds -------------------------------------------------------------------------------- */

static void tell_store(lw_engine *engine, const struct lw__kind_info *info, bool has_handler) {
    const struct lw__keep *keeps[3] = {&info->set.finished, &info->set.failed, &info->set.aborted};
    struct lw__kind_options options = {.has_handler = has_handler,
                                       .is_kept = info->layer != NULL,
                                       .concurrency = info->set.concurrency,
                                       .crashes = info->set.retry.crashes,
                                       .max_age_ns = info->set.retry.max_age_ns,
                                       .key_scope = info->set.key_scope,
                                       .key_window_ns = info->set.key_window_ns};
    for (int i = 0; i < 3; i++) {
        options.retention[i].ttl_ns = keeps[i]->ns;
        options.retention[i].max = keeps[i]->max;
        options.retention[i].byte_max = keeps[i]->byte_max;
    }
    engine->store->ops->set_kind(engine->store, info->number, &options);
}

static void free_kind(const lw_allocator *allocator, struct lw__kind_info *info) {
    lw__mutex_free(&info->mu);
    lw__free_aligned(allocator, info, sizeof *info, LW__LINE);
}

static int make_kind(lw_engine *engine, const char *name, struct lw__kind_info **out) {
    struct lw__kind_info *info = alloc_info(engine, sizeof *info);
    if (!info)
        return LW_ENOMEM;
    memcpy(info->name, name, strlen(name) + 1);
    lw__kind_settle_options(&info->set, NULL, NULL);
    lw__mutex_init(&info->mu);
    int rc = make_room(engine, &engine->kinds, &engine->kind_infos, &engine->kind_series,
                       engine->set.kind_count_max);
    if (rc == LW_OK)
        rc = engine->store->ops->kind(engine->store, name, &info->number);
    if (rc < 0) {
        free_kind(&engine->set.allocator, info);
        return rc;
    }
    lw__table_set(&engine->kind_infos, info->number, info);
    lw__name_table_add(&engine->kinds, &info->entry, info->name);
    enter_series(engine, &engine->kind_series, &info->series);
    *out = info; /* the store has the same defaults */
    return LW_OK;
}

struct lw__kind_info *lw__registry_find_kind(lw_engine *engine, const char *name) {
    return lw__name_table_find(&engine->kinds, name);
}

int lw__registry_kind(lw_engine *engine, const char *name, struct lw__kind_info **info,
                      lw_error *err) {
    *info = lw__name_table_find(&engine->kinds, name);
    if (*info)
        return LW_OK;
    if (lw__name_check("kind", name, err) < 0)
        return LW_EINVAL;
    lw__mutex_lock(&engine->registry_mu);
    *info = lw__name_table_find(&engine->kinds, name);
    int rc = *info ? LW_OK : make_kind(engine, name, info);
    lw__mutex_unlock(&engine->registry_mu);
    return rc < 0 ? refuse(rc, "kind", name, engine->set.kind_count_max, err) : LW_OK;
}

bool lw__registry_is_used(const struct lw__kind_info *info, bool is_call) {
    return info->run || atomic_load(is_call ? &info->is_call : &info->is_awaiting);
}

bool lw__registry_can_use(const struct lw__kind_info *info, bool is_call) {
    return info->run || !atomic_load(is_call ? &info->is_awaiting : &info->is_call);
}

/* The store is told before others can see it: a stop does not wait for a task without a handler, so
 * one that was accepted meanwhile would run after it. */
bool lw__registry_use(lw_engine *engine, struct lw__kind_info *info, bool is_call) {
    _Atomic bool *use = is_call ? &info->is_call : &info->is_awaiting;
    if (atomic_load_explicit(use, memory_order_acquire))
        return true;
    lw__mutex_lock(&engine->registry_mu);
    bool is_free = !atomic_load(&info->is_call) && !atomic_load(&info->is_awaiting);
    if (is_free && is_call)
        tell_store(engine, info, true);
    LW__POINT("kind: the store knows, others do not");
    if (is_free)
        atomic_store(use, true);
    if (is_free && !is_call && !info->is_registered)
        lw__unhandled_note(engine, info);
    bool can_use = atomic_load(use);
    lw__mutex_unlock(&engine->registry_mu);
    return can_use;
}

/* ---- queues ------------------------------------------------------------------------------- */

static void free_queue(const lw_allocator *allocator, struct lw__queue_info *info) {
    lw__free_aligned(allocator, info, sizeof *info, LW__LINE);
}

static int make_queue(lw_engine *engine, const char *name, struct lw__queue_info **out) {
    struct lw__queue_info *info = alloc_info(engine, sizeof *info);
    if (!info)
        return LW_ENOMEM;
    memcpy(info->name, name, strlen(name) + 1);
    lw__queue_settle_options(&info->set, &engine->set, NULL, NULL);
    int rc = make_room(engine, &engine->queues, &engine->queue_infos, &engine->queue_series,
                       engine->set.queue_count_max);
    if (rc == LW_OK)
        rc = engine->store->ops->queue(engine->store, name, &info->number);
    if (rc < 0) {
        free_queue(&engine->set.allocator, info);
        return rc;
    }
    lw__table_set(&engine->queue_infos, info->number, info);
    lw__name_table_add(&engine->queues, &info->entry, info->name);
    enter_series(engine, &engine->queue_series, &info->series);
    *out = info;
    return LW_OK;
}

struct lw__queue_info *lw__registry_find_queue(lw_engine *engine, const char *name) {
    return lw__name_table_find(&engine->queues, name);
}

int lw__registry_queue(lw_engine *engine, const char *name, struct lw__queue_info **info,
                       lw_error *err) {
    *info = lw__name_table_find(&engine->queues, name);
    if (*info)
        return LW_OK;
    if (lw__name_check("queue", name, err) < 0)
        return LW_EINVAL;
    lw__mutex_lock(&engine->registry_mu);
    *info = lw__name_table_find(&engine->queues, name);
    int rc = *info ? LW_OK : make_queue(engine, name, info);
    lw__mutex_unlock(&engine->registry_mu);
    return rc < 0 ? refuse(rc, "queue", name, engine->set.queue_count_max, err) : LW_OK;
}

/* ---- registration ------------------------------------------------------------------------- */

int lw__layer_refuse(lw_engine *engine, const lw_error *why, lw_error *err) {
    lw__mutex_lock(&engine->registry_mu);
    if (engine->start_status == LW_OK) {
        engine->start_status = why->status;
        engine->start_error = *why;
    }
    lw__mutex_unlock(&engine->registry_mu);
    if (err)
        *err = *why;
    return why->status;
}

static int register_kind(lw_engine *engine, const char *kind, lw_handler run,
                         const lw_handler_options *options, lw_error *err) {
    struct lw__kind_settings set;
    struct lw__kind_info *info;
    if (!kind)
        return lw__error_set(err, LW_EINVAL, 0, "lw_handle: the kind is NULL, must be a name");
    if (lw__engine_remote(engine))
        return lw__client_refuse(engine, "lw_handle", err);
    if (atomic_load(&engine->is_started))
        return lw__error_set(err, LW_EINVAL, 0,
                             "lw_handle: kind \"%s\" comes after lw_start, must come before",
                             lw__text_quote(kind).text);
    lw_error detail = {0};
    if (lw__kind_settle_options(&set, options, &detail) < 0)
        return lw__error_set(err, LW_EINVAL, 0, "lw_handle: kind \"%s\": %s",
                             lw__text_quote(kind).text, detail.message);
    int rc = lw__registry_kind(engine, kind, &info, err);
    if (rc < 0)
        return rc;
    if (info->is_registered)
        return lw__error_set(err, LW_EINVAL, 0, "lw_handle: kind \"%s\" has a handler already",
                             kind);
    info->is_registered = true;
    info->run = run;
    info->set = set;
    tell_store(engine, info, run || atomic_load(&info->is_call));
    lw__metrics_declare_kind(engine, info);
    return LW_OK;
}

int lw__layer_handle(lw_engine *engine, const char *kind, lw_handler run,
                     const lw_handler_options *options, const struct lw__layer *layer, void *user,
                     lw_error *err) {
    int rc = register_kind(engine, kind, run, options, err);
    struct lw__kind_info *info = rc < 0 ? NULL : lw__registry_find_kind(engine, kind);
    if (info) {
        info->layer = layer;
        info->layer_user = user;
        tell_store(engine, info, run || atomic_load(&info->is_call));
    }
    return rc;
}

int lw_handle(lw_engine *engine, const char *kind, lw_handler run,
              const lw_handler_options *options, lw_error *err) {
    lw_error own = {0};
    int rc = lw__engine_check_told(engine, err);
    if (rc < 0)
        return rc;
    rc = register_kind(engine, kind, run, options, &own);
    return rc < 0 ? lw__layer_refuse(engine, &own, err) : LW_OK;
}

static int register_queue(lw_engine *engine, const char *name, const lw_queue_options *options,
                          lw_error *err) {
    struct lw__queue_settings set;
    struct lw__queue_info *info;
    if (!name)
        return lw__error_set(err, LW_EINVAL, 0, "lw_queue: the name is NULL, must be one");
    if (lw__engine_remote(engine))
        return lw__client_refuse(engine, "lw_queue", err);
    if (atomic_load(&engine->is_started))
        return lw__error_set(err, LW_EINVAL, 0,
                             "lw_queue: queue \"%s\" comes after lw_start, must come before",
                             lw__text_quote(name).text);
    lw_error detail = {0};
    if (lw__queue_settle_options(&set, &engine->set, options, &detail) < 0)
        return lw__error_set(err, LW_EINVAL, 0, "lw_queue: queue \"%s\": %s",
                             lw__text_quote(name).text, detail.message);
    int rc = lw__registry_queue(engine, name, &info, err);
    if (rc < 0)
        return rc;
    if (info->is_registered)
        return lw__error_set(err, LW_EINVAL, 0, "lw_queue: queue \"%s\" is declared already", name);
    info->is_registered = true;
    info->set = set;
    engine->store->ops->set_queue(engine->store, info->number, set.weight, set.limit,
                                  set.byte_limit);
    lw__metrics_declare_queue(engine, info);
    return LW_OK;
}

int lw_queue(lw_engine *engine, const char *name, const lw_queue_options *options, lw_error *err) {
    lw_error own = {0};
    int rc = lw__engine_check_told(engine, err);
    if (rc < 0)
        return rc;
    rc = register_queue(engine, name, options, &own);
    return rc < 0 ? lw__layer_refuse(engine, &own, err) : LW_OK;
}

int lw__registry_open(lw_engine *engine) {
    const lw_allocator *allocator = &engine->set.allocator;
    bool is_open = lw__name_table_open(&engine->kinds, allocator, engine->set.seed)
                   && lw__name_table_open(&engine->queues, allocator, engine->set.seed);
    return is_open ? LW_OK : LW_ENOMEM;
}

/* Their numbers are the store's: the tables need room for all of them from the first one on. */
int lw__registry_load(lw_engine *engine, lw_error *err) {
    const lw_allocator *allocator = &engine->set.allocator;
    struct lw__index *index = engine->index;
    struct lw__kind_info *kind;
    struct lw__queue_info *queue;
    if (!lw__table_reserve(&engine->kind_infos, allocator, index->kind_count + 1)
        || !lw__table_reserve(&engine->queue_infos, allocator, index->queue_count + 1))
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the engine's tables");
    int rc = lw__registry_queue(engine, "default", &engine->default_queue, err);
    if (rc == LW_OK)
        lw__metrics_declare_queue(engine, engine->default_queue);
    for (uint32_t i = 0; rc == LW_OK && i < index->kind_count; i++)
        rc = lw__registry_kind(engine, lw__index_kind_at(index, i)->name, &kind, err);
    for (uint32_t i = 0; rc == LW_OK && i < index->queue_count; i++)
        rc = lw__registry_queue(engine, lw__index_queue_at(index, i)->name, &queue, err);
    engine->is_loaded = true;
    return rc;
}

void lw__registry_free(lw_engine *engine) {
    const lw_allocator *allocator = &engine->set.allocator;
    for (uint32_t i = 0; i < lw__table_capacity(&engine->kind_infos); i++) {
        struct lw__kind_info *info = lw__kind_of(engine, (uint16_t)i);
        if (info)
            free_kind(allocator, info);
    }
    for (uint32_t i = 0; i < lw__table_capacity(&engine->queue_infos); i++) {
        struct lw__queue_info *info = lw__queue_of(engine, (uint16_t)i);
        if (info)
            free_queue(allocator, info);
    }
    lw__name_table_close(&engine->kinds, allocator);
    lw__name_table_close(&engine->queues, allocator);
    lw__table_free(&engine->kind_infos, allocator);
    lw__table_free(&engine->queue_infos, allocator);
}
