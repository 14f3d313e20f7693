/* The index itself: open and close, kinds and queues. */
#include "store/index.h"

#include "base/error.h"
#include "base/memory.h"

#include <string.h>

/* What the grace is told of a retired pointer: a node of the ids, a task, or a block's size. */
#define DETAIL_TASK ((uintptr_t)2)

#define FETCH_AHEAD 4 /* tasks */

static void *alloc_lines(struct lw__index *index, size_t size) {
    void *block = lw__alloc_aligned(&index->allocator, size, LW__LINE);
    return block ? memset(block, 0, size) : NULL;
}

static void free_lines(struct lw__index *index, void *block, size_t size) {
    lw__free_aligned(&index->allocator, block, size, LW__LINE);
}

static void free_lanes(struct lw__index *index, struct lw__queue *queue) {
    if (queue->lanes)
        free_lines(index, queue->lanes, queue->lane_capacity * sizeof *queue->lanes);
}

/* Under mu. */
static struct lw__task *take_spare(struct lw__index *index) {
    struct lw__magazine *spares = &index->spares;
    uint32_t begin = atomic_load_explicit(&index->spares_begin, memory_order_relaxed);
    uint32_t count = atomic_load_explicit(&spares->end, memory_order_acquire) - begin;
    if (count == 0)
        return NULL;
    struct lw__task *task = spares->items[begin % LW__MAGAZINE];
    if (count > FETCH_AHEAD) {
        const char *next = (const char *)spares->items[(begin + FETCH_AHEAD) % LW__MAGAZINE];
        lw__fetch_to_write(next);
        lw__fetch_to_write(next + 64);
    }
    atomic_store_explicit(&index->spares_begin, begin + 1, memory_order_release);
    return task;
}

/* Under back. */
static void give_spare(struct lw__index *index, struct lw__task *task) {
    struct lw__magazine *spares = &index->spares;
    if (spares->filled - spares->begin_seen == LW__MAGAZINE)
        spares->begin_seen = atomic_load_explicit(&index->spares_begin, memory_order_acquire);
    if (spares->filled - spares->begin_seen < LW__MAGAZINE) {
        spares->items[spares->filled++ % LW__MAGAZINE] = task;
    } else {
        task->link.next = spares->surplus;
        spares->surplus = &task->link;
    }
}

void lw__index_give_surplus_locked(struct lw__index *index) {
    struct lw__task_link *link = index->spares.surplus;
    index->spares.surplus = NULL;
    while (link) {
        struct lw__task *task =
            (struct lw__task *)(void *)((char *)link - offsetof(struct lw__task, link));
        link = link->next;
        lw__slab_give(&index->tasks, task);
    }
}

/* In two pieces, because gcc makes a loop of microcode of a larger one, which takes longer to begin
 * than these take as a whole (2 % of a plain task). */
static void clear(struct lw__task *task) {
    memset(task, 0, LW__LINE);
    memset((char *)task + LW__LINE, 0, sizeof *task - LW__LINE);
}

struct lw__task *lw__index_make_task_locked(struct lw__index *index, uint64_t id, uint64_t now) {
    void *object = take_spare(index);
    if (!object && lw__slab_take(&index->tasks, &object, NULL) < 0)
        return NULL;
    struct lw__task *task = object;
    clear(task);
    task->id = id ? id : index->last_id + 1;
    task->created_at = now;
    if (!lw__ids_append(&index->ids, task->id, task)) {
        lw__slab_give(&index->tasks, task);
        return NULL;
    }
    if (task->id > index->last_id && task->id < LW__OUTSIDE_IDS)
        index->last_id = task->id;
    return task;
}

static void free_retired(void *user, void *ptr, uintptr_t detail) {
    struct lw__index *index = user;
    if (detail == LW__IDS_DETAIL)
        lw__ids_free_node(&index->ids, ptr);
    else if (detail == DETAIL_TASK)
        give_spare(index, ptr);
    else
        lw__free(&index->allocator, ptr, (size_t)detail);
}

void lw__index_retire_task_locked(struct lw__index *index, struct lw__task *task) {
    lw__grace_retire(&index->grace, task, DETAIL_TASK);
}

void lw__index_retire_block_locked(struct lw__index *index, void *block, size_t size) {
    if (block)
        lw__grace_retire(&index->grace, block, size);
}

static void let_go(struct lw__index *index, void *ptr, uintptr_t detail, bool can_be_seen) {
    if (can_be_seen)
        lw__grace_retire(&index->grace, ptr, detail);
    else
        free_retired(index, ptr, detail);
}

void lw__index_free_whole_locked(struct lw__index *index, struct lw__task *task, bool can_be_seen) {
    struct lw__spec *spec = lw__task_spec(task);
    struct lw__errors *errors = lw__see(&task->errors);
    struct lw__output *output = lw__see(&task->output);
    if (spec && spec->member)
        let_go(index, spec->member, sizeof *spec->member, can_be_seen);
    if (spec)
        let_go(index, spec, spec->size, can_be_seen);
    if (errors)
        let_go(index, errors, errors->size, can_be_seen);
    if (output)
        let_go(index, output, output->size, can_be_seen);
    let_go(index, task, DETAIL_TASK, can_be_seen);
}

static bool is_same_key(const struct lw__task *task, uint32_t kind, const char *key,
                        size_t key_size) {
    const struct lw__spec *spec = lw__task_spec(task);
    return task->kind == kind && spec->key_size == key_size
           && memcmp(lw__spec_key(spec), key, key_size) == 0;
}

int lw__index_open(struct lw__index **out, const struct lw__store_ops *ops,
                   const struct lw__store_options *options, lw_error *err) {
    struct lw__index *index =
        lw__alloc_aligned(options->allocator, sizeof *index, _Alignof(struct lw__index));
    if (!index)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the store");
    memset(index, 0, sizeof *index);
    index->store.ops = ops;
    index->store.index = index;
    index->allocator = *options->allocator;
    index->options = *options;
    index->options.allocator = &index->allocator;
    if (index->options.resident_limit == 0)
        index->options.resident_limit = LW__RESIDENT_MAX;
    index->hooks = options->hooks;
    lw__grace_init(&index->grace, &index->allocator, free_retired, index);
    lw__ids_init(&index->ids, &index->allocator, &index->grace);
    lw__slab_init(&index->tasks, &index->allocator, sizeof(struct lw__task), LW_TASKS_MAX,
                  "LW_TASKS_MAX");
    lw__order_init(&index->order, &index->allocator);
    lw__keys_init(&index->keys, &index->allocator, options->secret, is_same_key);
    uint64_t now = lw__now(options->clock);
    lw__timer_init(&index->scheduled, now);
    lw__timer_init(&index->alarms, now);
    lw__ring_init_links(&index->telling);
    lw__ring_init_links(&index->releasing);
    lw__leases_init(index);
    lw__scopes_init(index);
    index->planned = LW__NEVER;
    index->outside_from = LW__OUTSIDE_IDS;
    index->wall_planned_ms = lw__wall_offset_ms(options->clock);
    index->wall_offset_ms = index->wall_planned_ms;
    *out = index;
    return LW_OK;
}

/* ---- close -------------------------------------------------------------------------------- */

/* At the end, when nobody else looks: hands back what was not run, and frees. */
static void free_task(struct lw__index *index, struct lw__task *task) {
    struct lw__spec *spec = lw__task_spec(task);
    if (spec && spec->on_drop && !lw_state_is_terminal(lw__task_state(task)))
        spec->on_drop(spec->arg);
    if (spec && spec->member)
        lw__free(&index->allocator, spec->member, sizeof *spec->member);
    if (spec)
        lw__free(&index->allocator, spec, spec->size);
    struct lw__errors *errors = lw__see(&task->errors);
    if (errors)
        lw__free(&index->allocator, errors, errors->size);
    struct lw__output *output = lw__see(&task->output);
    if (output)
        lw__free(&index->allocator, output, output->size);
}

static void free_kinds_and_queues(struct lw__index *index) {
    const lw_allocator *allocator = &index->allocator;
    for (uint32_t q = 0; q < index->queue_count; q++) {
        struct lw__queue *queue = index->queues[q];
        for (uint32_t k = 0; k < queue->lane_capacity; k++) {
            if (!queue->lanes[k])
                continue;
            lw__order_free_lane(&index->order, queue->lanes[k]);
            free_lines(index, queue->lanes[k], sizeof(struct lw__lane));
        }
        free_lanes(index, queue);
        lw__order_free_queue(&index->order, &queue->order);
        free_lines(index, queue, sizeof *queue);
    }
    for (uint32_t k = 0; k < index->kind_count; k++)
        free_lines(index, index->kinds[k], sizeof(struct lw__kind));
    lw__free(allocator, index->kinds, LW_KINDS_MAX * sizeof(struct lw__kind *));
    lw__free(allocator, index->queues, LW_QUEUES_MAX * sizeof(struct lw__queue *));
}

void lw__index_close(struct lw__store *store) {
    struct lw__index *index = store->index;
    for (struct lw__task *task = lw__ids_find_from(&index->ids, 1); task;
         task = lw__ids_find_from(&index->ids, task->id + 1))
        free_task(index, task);
    lw__index_free_dependencies(index);
    lw__leases_free(index);
    lw__scopes_free(index);
    lw__grace_free(&index->grace);
    lw__ids_free(&index->ids);
    lw__keys_free(&index->keys);
    free_kinds_and_queues(index);
    lw__order_free(&index->order);
    lw__slab_free(&index->tasks);
    lw_allocator allocator = index->allocator;
    lw__free_aligned(&allocator, index, sizeof *index, _Alignof(struct lw__index));
}

/* ---- kinds -------------------------------------------------------------------------------- */

static struct lw__kind *find_kind_locked(struct lw__index *index, const char *name) {
    for (uint32_t i = 0; i < index->kind_count; i++) {
        if (strcmp(index->kinds[i]->name, name) == 0)
            return index->kinds[i];
    }
    return NULL;
}

/* The default is what a kind without a handler has: kept for a day, or 100,000 of them. */
static void init_kind(struct lw__kind *kind, const char *name, uint16_t number) {
    memcpy(kind->name, name, strnlen(name, LW_NAME_MAX));
    kind->number = number;
    kind->concurrency = UINT32_MAX;
    kind->crashes = 3;
    kind->max_age_ns = UINT64_MAX;
    for (int i = 0; i < 3; i++) {
        struct lw__retained *retained = &kind->retained[i];
        retained->alarm.type = LW__ALARM_RETAINED;
        retained->kind = kind;
        retained->settings.ttl_ns = (i == LW__RETAINED_FAILED ? 86400 : 900) * LW__NS_PER_S;
        retained->settings.max = 100000;
        retained->settings.byte_max = LW__RETAINED_BYTES;
        lw__ring_init_links(&retained->ring);
    }
}

static int add_kind_locked(struct lw__index *index, const char *name, uint16_t *number) {
    if (index->kind_count == LW_KINDS_MAX)
        return LW_EFULL;
    if (!index->kinds)
        index->kinds = lw__alloc(&index->allocator, LW_KINDS_MAX * sizeof(struct lw__kind *));
    if (!index->kinds)
        return LW_ENOMEM;
    struct lw__kind *kind = alloc_lines(index, sizeof *kind);
    if (!kind)
        return LW_ENOMEM;
    init_kind(kind, name, (uint16_t)index->kind_count);
    index->kinds[index->kind_count++] = kind;
    *number = kind->number;
    return LW_OK;
}

int lw__index_kind(struct lw__store *store, const char *name, uint16_t *number) {
    struct lw__index *index = store->index;
    int rc = LW_OK;
    lw__index_lock(index);
    struct lw__kind *kind = find_kind_locked(index, name);
    if (kind)
        *number = kind->number;
    else
        rc = add_kind_locked(index, name, number);
    lw__index_unlock(index);
    return rc;
}

static bool has_other_retention(const struct lw__kind *kind,
                                const struct lw__kind_options *options) {
    bool is_other = false;
    for (int i = 0; i < 3; i++) {
        const struct lw__retention_settings *old = &kind->retained[i].settings;
        const struct lw__retention_settings *new = &options->retention[i];
        is_other |=
            old->ttl_ns != new->ttl_ns || old->max != new->max || old->byte_max != new->byte_max;
    }
    return is_other;
}

void lw__index_set_kind(struct lw__store *store, uint16_t number,
                        const struct lw__kind_options *options) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__kind *kind = index->kinds[number];
    kind->has_handler = options->has_handler;
    kind->is_kept |= options->is_kept; /* it may have tasks that are */
    kind->concurrency = options->concurrency;
    kind->crashes = options->crashes;
    kind->max_age_ns = options->max_age_ns;
    kind->user = options->user;
    kind->key_scope = options->key_scope;
    kind->key_window_ns = options->key_window_ns;
    if (index->journal && has_other_retention(kind, options))
        lw__journal_note_kind(index->journal, kind->name, options->retention);
    for (int i = 0; i < 3; i++) {
        kind->retained[i].settings = options->retention[i];
        lw__retained_review_locked(index, &kind->retained[i], lw__now(index->options.clock));
    }
    lw__index_review_kind_locked(index, kind);
    lw__grace_collect(&index->grace);
    lw__index_unlock(index);
}

/* ---- queues ------------------------------------------------------------------------------- */

static struct lw__queue *find_queue_locked(struct lw__index *index, const char *name) {
    for (uint32_t i = 0; i < index->queue_count; i++) {
        if (strcmp(index->queues[i]->name, name) == 0)
            return index->queues[i];
    }
    return NULL;
}

static int add_queue_locked(struct lw__index *index, const char *name, uint16_t *number) {
    if (index->queue_count == LW_QUEUES_MAX)
        return LW_EFULL;
    if (!index->queues)
        index->queues = lw__alloc(&index->allocator, LW_QUEUES_MAX * sizeof(struct lw__queue *));
    if (!index->queues)
        return LW_ENOMEM;
    struct lw__queue *queue = alloc_lines(index, sizeof *queue);
    if (!queue)
        return LW_ENOMEM;
    memcpy(queue->name, name, strnlen(name, LW_NAME_MAX));
    queue->number = (uint16_t)index->queue_count;
    queue->limit = index->options.task_limit;
    queue->byte_limit = index->options.byte_limit;
    if (!lw__order_add_queue(&index->order, &queue->order, 1)) {
        free_lines(index, queue, sizeof *queue);
        return LW_ENOMEM;
    }
    index->queues[index->queue_count++] = queue;
    *number = queue->number;
    return LW_OK;
}

int lw__index_queue(struct lw__store *store, const char *name, uint16_t *number) {
    struct lw__index *index = store->index;
    int rc = LW_OK;
    lw__index_lock(index);
    struct lw__queue *queue = find_queue_locked(index, name);
    if (queue)
        *number = queue->number;
    else
        rc = add_queue_locked(index, name, number);
    lw__index_unlock(index);
    return rc;
}

void lw__index_set_queue(struct lw__store *store, uint16_t number, uint32_t weight, uint64_t limit,
                         uint64_t byte_limit) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__queue *queue = index->queues[number];
    lw__order_set_weight(&index->order, &queue->order, weight);
    queue->limit = limit;
    queue->byte_limit = byte_limit;
    lw__index_unlock(index);
}

/* ---- lanes -------------------------------------------------------------------------------- */

static bool grow_lanes(struct lw__index *index, struct lw__queue *queue, uint32_t kind) {
    uint32_t capacity = queue->lane_capacity ? queue->lane_capacity : 8;
    while (capacity <= kind)
        capacity *= 2;
    struct lw__lane **lanes = alloc_lines(index, capacity * sizeof *lanes);
    if (!lanes)
        return false;
    for (uint32_t i = 0; i < queue->lane_capacity; i++)
        lanes[i] = queue->lanes[i];
    free_lanes(index, queue);
    queue->lanes = lanes;
    queue->lane_capacity = capacity;
    return true;
}

static uint32_t reasons_to_shut(const struct lw__kind *kind, const struct lw__queue *queue) {
    return (kind->has_handler ? 0 : LW__SHUT_NO_HANDLER)
           | (kind->claimed >= kind->concurrency ? LW__SHUT_LIMIT : 0)
           | (queue->is_paused ? LW__SHUT_PAUSED : 0);
}

struct lw__lane *lw__index_lane_locked(struct lw__index *index, uint16_t kind_number,
                                       uint16_t queue_number) {
    struct lw__queue *queue = index->queues[queue_number];
    struct lw__lane *known = lw__index_find_lane(queue, kind_number);
    if (known)
        return known;
    if (kind_number >= queue->lane_capacity && !grow_lanes(index, queue, kind_number))
        return NULL;
    struct lw__lane *lane = alloc_lines(index, sizeof *lane);
    if (!lane)
        return NULL;
    struct lw__kind *kind = index->kinds[kind_number];
    if (!lw__order_add_lane(&index->order, &queue->order, lane, kind)) {
        free_lines(index, lane, sizeof *lane);
        return NULL;
    }
    lane->next_of_kind = kind->lanes;
    kind->lanes = lane;
    queue->lanes[kind_number] = lane;
    lw__order_shut(&index->order, lane, reasons_to_shut(kind, queue));
    return lane;
}

void lw__index_review_kind_locked(struct lw__index *index, struct lw__kind *kind) {
    size_t ready = index->order.ready_count;
    for (struct lw__lane *lane = kind->lanes; lane; lane = lane->next_of_kind) {
        uint32_t reasons = reasons_to_shut(kind, lw__index_queue_of_lane(lane));
        if (reasons == lane->shut)
            continue;
        lw__order_shut(&index->order, lane, reasons);
        lw__lease_announce_locked(index, lane);
    }
    if (index->order.ready_count > ready)
        index->hooks.wake(index->hooks.user);
}

int lw__index_pause(struct lw__store *store, const char *name, bool is_paused) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__queue *queue = find_queue_locked(index, name);
    if (queue && queue->is_paused != is_paused) {
        queue->is_paused = is_paused;
        for (uint32_t k = 0; k < queue->lane_capacity; k++) {
            if (!queue->lanes[k])
                continue;
            lw__order_shut(&index->order, queue->lanes[k], reasons_to_shut(index->kinds[k], queue));
            lw__lease_announce_locked(index, queue->lanes[k]);
        }
        if (!is_paused && index->order.ready_count > 0)
            index->hooks.wake(index->hooks.user);
    }
    lw__index_unlock(index);
    return queue ? LW_OK : LW_ENOTFOUND;
}

void lw__index_move(struct lw__index *index, struct lw__task *task, enum lw__task_event event,
                    uint64_t now) {
    lw__task_lock(task);
    lw__index_move_locked(index, task, event, now);
    lw__task_unlock(task);
}
