/* Kinds and queues by name. Every submit looks two names up, so that is done without a lock: chains
 * in a fixed table that only ever grow at their heads. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/names.h"

#include <string.h>

static void *find(struct lw__registry *registry, const char *name, const struct lw__name_key *key) {
    struct lw__registry_entry *entry = atomic_load_explicit(
        &registry->buckets[key->hash % LW__REGISTRY_BUCKETS], memory_order_acquire);
    while (entry && !lw__name_is(entry->name, &entry->key, name, key))
        entry = entry->next;
    return entry; /* its kind or queue begins with it */
}

/* Every submit reads it: nobody else's writes may be on its cache lines. */
static void *alloc_info(lw_engine *engine, size_t size) {
    void *info = lw__alloc_aligned(&engine->set.allocator, size, LW__LINE);
    return info ? memset(info, 0, size) : NULL;
}

static void add(struct lw__registry *registry, struct lw__registry_entry *entry, const char *name) {
    entry->name = name;
    entry->key = lw__name_key(name);
    struct lw__registry_entry *_Atomic *bucket =
        &registry->buckets[entry->key.hash % LW__REGISTRY_BUCKETS];
    entry->next = atomic_load(bucket);
    atomic_store_explicit(bucket, entry, memory_order_release);
}

static int refuse(int rc, const char *what, const char *name, int max, lw_error *err) {
    if (rc == LW_EFULL)
        return lw__error_set(err, LW_EINVAL, 0, "%s \"%s\" would be one too many: at most %d", what,
                             name, max);
    return lw__error_set(err, LW_ENOMEM, 0, "no memory for %s \"%s\"", what, name);
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
    lw__mutex_free(&info->latencies.mu);
    lw__free_aligned(allocator, info, sizeof *info, LW__LINE);
}

static int make_kind(lw_engine *engine, const char *name, struct lw__kind_info **out) {
    struct lw__kind_info *info = alloc_info(engine, sizeof *info);
    if (!info)
        return LW_ENOMEM;
    memcpy(info->name, name, strlen(name) + 1);
    lw__kind_settle_options(&info->set, NULL, NULL);
    lw__mutex_init(&info->mu);
    lw__mutex_init(&info->latencies.mu);
    int rc = engine->store->ops->kind(engine->store, name, &info->number);
    if (rc < 0) {
        free_kind(&engine->set.allocator, info);
        return rc;
    }
    atomic_store_explicit(&engine->kind_infos[info->number], info, memory_order_release);
    add(&engine->kinds, &info->entry, info->name);
    *out = info; /* the store has the same defaults */
    return LW_OK;
}

struct lw__kind_info *lw__registry_find_kind(lw_engine *engine, const char *name) {
    struct lw__name_key key = lw__name_key(name);
    return find(&engine->kinds, name, &key);
}

int lw__registry_kind(lw_engine *engine, const char *name, struct lw__kind_info **info,
                      lw_error *err) {
    struct lw__name_key key = lw__name_key(name);
    *info = find(&engine->kinds, name, &key);
    if (*info)
        return LW_OK;
    if (lw__name_check("kind", name, err) < 0)
        return LW_EINVAL;
    lw__mutex_lock(&engine->registry_mu);
    *info = find(&engine->kinds, name, &key);
    int rc = *info ? LW_OK : make_kind(engine, name, info);
    lw__mutex_unlock(&engine->registry_mu);
    return rc < 0 ? refuse(rc, "kind", name, LW_KINDS_MAX, err) : LW_OK;
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
    bool can_use = atomic_load(use);
    lw__mutex_unlock(&engine->registry_mu);
    return can_use;
}

/* ---- queues ------------------------------------------------------------------------------- */

static void free_queue(const lw_allocator *allocator, struct lw__queue_info *info) {
    lw__mutex_free(&info->latencies.mu);
    lw__free_aligned(allocator, info, sizeof *info, LW__LINE);
}

static int make_queue(lw_engine *engine, const char *name, struct lw__queue_info **out) {
    struct lw__queue_info *info = alloc_info(engine, sizeof *info);
    if (!info)
        return LW_ENOMEM;
    memcpy(info->name, name, strlen(name) + 1);
    lw__queue_settle_options(&info->set, &engine->set, NULL, NULL);
    lw__mutex_init(&info->latencies.mu);
    int rc = engine->store->ops->queue(engine->store, name, &info->number);
    if (rc < 0) {
        free_queue(&engine->set.allocator, info);
        return rc;
    }
    atomic_store_explicit(&engine->queue_infos[info->number], info, memory_order_release);
    add(&engine->queues, &info->entry, info->name);
    *out = info;
    return LW_OK;
}

struct lw__queue_info *lw__registry_find_queue(lw_engine *engine, const char *name) {
    struct lw__name_key key = lw__name_key(name);
    return find(&engine->queues, name, &key);
}

int lw__registry_queue(lw_engine *engine, const char *name, struct lw__queue_info **info,
                       lw_error *err) {
    struct lw__name_key key = lw__name_key(name);
    *info = find(&engine->queues, name, &key);
    if (*info)
        return LW_OK;
    if (lw__name_check("queue", name, err) < 0)
        return LW_EINVAL;
    lw__mutex_lock(&engine->registry_mu);
    *info = find(&engine->queues, name, &key);
    int rc = *info ? LW_OK : make_queue(engine, name, info);
    lw__mutex_unlock(&engine->registry_mu);
    return rc < 0 ? refuse(rc, "queue", name, LW_QUEUES_MAX, err) : LW_OK;
}

/* ---- registration ------------------------------------------------------------------------- */

/* lw_start tells what the first failed registration said. */
static int remember(lw_engine *engine, const lw_error *err) {
    lw__mutex_lock(&engine->registry_mu);
    if (engine->start_status == LW_OK) {
        engine->start_status = err->status;
        engine->start_error = *err;
    }
    lw__mutex_unlock(&engine->registry_mu);
    return err->status;
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
                             "lw_handle: kind \"%.64s\" comes after lw_start, must come before",
                             kind);
    lw_error detail = {0};
    if (lw__kind_settle_options(&set, options, &detail) < 0)
        return lw__error_set(err, LW_EINVAL, 0, "lw_handle: kind \"%.64s\": %s", kind,
                             detail.message);
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
    return LW_OK;
}

int lw__layer_refuse(lw_engine *engine, const lw_error *err) {
    return remember(engine, err);
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
              const lw_handler_options *options) {
    lw_error err = {0};
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    rc = register_kind(engine, kind, run, options, &err);
    return rc < 0 ? remember(engine, &err) : LW_OK;
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
                             "lw_queue: queue \"%.64s\" comes after lw_start, must come before",
                             name);
    lw_error detail = {0};
    if (lw__queue_settle_options(&set, &engine->set, options, &detail) < 0)
        return lw__error_set(err, LW_EINVAL, 0, "lw_queue: queue \"%.64s\": %s", name,
                             detail.message);
    int rc = lw__registry_queue(engine, name, &info, err);
    if (rc < 0)
        return rc;
    if (info->is_registered)
        return lw__error_set(err, LW_EINVAL, 0, "lw_queue: queue \"%s\" is declared already", name);
    info->is_registered = true;
    info->set = set;
    engine->store->ops->set_queue(engine->store, info->number, set.weight, set.limit,
                                  set.byte_limit);
    return LW_OK;
}

int lw_queue(lw_engine *engine, const char *name, const lw_queue_options *options) {
    lw_error err = {0};
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return rc;
    rc = register_queue(engine, name, options, &err);
    return rc < 0 ? remember(engine, &err) : LW_OK;
}

void lw__registry_free(lw_engine *engine) {
    const lw_allocator *allocator = &engine->set.allocator;
    for (int i = 0; i < LW__REGISTRY_BUCKETS; i++) {
        struct lw__registry_entry *next;
        for (struct lw__registry_entry *e = atomic_load(&engine->kinds.buckets[i]); e; e = next) {
            next = e->next;
            free_kind(allocator, (struct lw__kind_info *)e);
        }
        for (struct lw__registry_entry *e = atomic_load(&engine->queues.buckets[i]); e; e = next) {
            next = e->next;
            free_queue(allocator, (struct lw__queue_info *)e);
        }
    }
}
