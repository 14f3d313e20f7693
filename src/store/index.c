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

static void free_lane_tables(struct lw__index *index, struct lw__queue *queue) {
    if (queue->lanes)
        free_lines(index, queue->lanes, queue->lane_capacity * sizeof *queue->lanes);
    lw__free(&index->allocator, queue->more_lanes,
             queue->more_capacity * sizeof(struct lw__lane *));
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
    if (!lw__name_table_open(&index->kind_names, &index->allocator, options->secret[0])
        || !lw__name_table_open(&index->queue_names, &index->allocator, options->secret[0])) {
        lw__name_table_close(&index->kind_names, &index->allocator);
        lw__free_aligned(options->allocator, index, sizeof *index, _Alignof(struct lw__index));
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the store");
    }
    uint64_t now = lw__now(options->clock);
    lw__timer_init(&index->scheduled, now);
    lw__timer_init(&index->alarms, now);
    index->last_short_kind = &index->short_kinds;
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
    if (spec && spec->on_drop && !lw_state_is_terminal(lw__task_state(task))
        && !(lw__task_flags(task) & LW__TASK_SPENT))
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

static void free_past_kinds(struct lw__index *index) {
    size_t capacity = 1;
    while (capacity < index->past_kind_count)
        capacity *= 2;
    lw__free(&index->allocator, index->past_kinds, capacity * sizeof *index->past_kinds);
}

static void free_kinds_and_queues(struct lw__index *index) {
    const lw_allocator *allocator = &index->allocator;
    for (uint32_t q = 0; q < index->queue_count; q++) {
        struct lw__queue *queue = lw__index_queue_at(index, q);
        struct lw__lane *next;
        for (struct lw__lane *lane = queue->order.lanes; lane; lane = next) {
            next = lane->next_of_queue;
            lw__order_free_lane(&index->order, lane);
            free_lines(index, lane, sizeof *lane);
        }
        free_lane_tables(index, queue);
        lw__order_free_queue(&index->order, &queue->order);
        free_lines(index, queue, sizeof *queue);
    }
    for (uint32_t k = 0; k < index->kind_count; k++) {
        struct lw__kind *kind = lw__index_kind_at(index, k);
        lw__order_free_kind(&index->order, &kind->order);
        free_lines(index, kind, sizeof *kind);
    }
    lw__name_table_close(&index->kind_names, allocator);
    lw__name_table_close(&index->queue_names, allocator);
    lw__table_free(&index->kinds, allocator);
    lw__table_free(&index->queues, allocator);
    free_past_kinds(index);
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

/* NULL: no entry. */
static struct lw__kind *kind_of_entry(struct lw__name_entry *entry) {
    return entry ? (void *)((char *)entry - offsetof(struct lw__kind, entry)) : NULL;
}

static struct lw__kind *find_kind_locked(struct lw__index *index, const char *name) {
    return kind_of_entry(lw__name_table_find(&index->kind_names, name));
}

/* Room for one more in both tables. */
static bool reserve_name(struct lw__index *index, struct lw__table *numbers, uint32_t count,
                         struct lw__name_table *names) {
    return lw__table_reserve(numbers, &index->allocator, count + 1)
           && lw__name_table_reserve(names, &index->allocator);
}

/* What a kind without a handler has: kept for a day, or 100,000 of them. */
void lw__kind_set_default_retention(struct lw__retention_settings retention[3]) {
    for (int i = 0; i < 3; i++) {
        retention[i].ttl_ns = (i == LW__RETAINED_FAILED ? 86400 : 900) * LW__NS_PER_S;
        retention[i].max = 100000;
        retention[i].byte_max = LW__RETAINED_BYTES;
    }
}

int lw__index_add_past_kind(struct lw__index *index, struct lw__past_kind **added) {
    uint32_t count = index->past_kind_count;
    size_t size = sizeof **added;
    if (count == LW__PAST_KINDS_MAX)
        return LW_EFULL;
    struct lw__past_kind *kinds = index->past_kinds;
    if ((count & (count - 1)) == 0) /* its capacity is the next power of two */
        kinds = lw__resize(&index->allocator, kinds, count * size, (count ? 2 * count : 1) * size);
    if (!kinds)
        return LW_ENOMEM;
    index->past_kinds = kinds;
    *added = &kinds[index->past_kind_count++];
    memset(*added, 0, size);
    lw__kind_set_default_retention((*added)->retention);
    return LW_OK;
}

static void find_retention(const struct lw__index *index, const char *name,
                           struct lw__retention_settings retention[3]) {
    lw__kind_set_default_retention(retention);
    for (uint32_t i = 0; i < index->past_kind_count; i++) {
        const struct lw__past_kind *past = &index->past_kinds[i];
        if (strcmp(past->name, name) == 0)
            memcpy(retention, past->retention, sizeof past->retention);
    }
}

static void init_kind(const struct lw__index *index, struct lw__kind *kind, const char *name) {
    struct lw__retention_settings retention[3];
    memcpy(kind->name, name, strnlen(name, LW_NAME_MAX));
    kind->number = (uint16_t)index->kind_count;
    kind->concurrency = UINT32_MAX;
    kind->crashes = 3;
    kind->max_age_ns = UINT64_MAX;
    kind->last_withheld = &kind->withheld;
    find_retention(index, kind->name, retention);
    for (int i = 0; i < 3; i++) {
        struct lw__retained *retained = &kind->retained[i];
        retained->alarm.type = LW__ALARM_RETAINED;
        retained->kind = kind;
        retained->settings = retention[i];
        lw__ring_init_links(&retained->ring);
    }
}

static int add_kind_locked(struct lw__index *index, const char *name, uint16_t *number) {
    if (index->kind_count == LW_KINDS_MAX)
        return LW_EFULL;
    if (!reserve_name(index, &index->kinds, index->kind_count, &index->kind_names))
        return LW_ENOMEM;
    struct lw__kind *kind = alloc_lines(index, sizeof *kind);
    if (!kind)
        return LW_ENOMEM;
    init_kind(index, kind, name);
    lw__name_table_add(&index->kind_names, &kind->entry, kind->name);
    lw__table_set(&index->kinds, index->kind_count++, kind);
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
    struct lw__kind *kind = lw__index_kind_at(index, number);
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
    struct lw__name_entry *entry = lw__name_table_find(&index->queue_names, name);
    return entry ? (void *)((char *)entry - offsetof(struct lw__queue, entry)) : NULL;
}

static int add_queue_locked(struct lw__index *index, const char *name, uint16_t *number) {
    if (index->queue_count == LW_QUEUES_MAX)
        return LW_EFULL;
    if (!reserve_name(index, &index->queues, index->queue_count, &index->queue_names))
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
    lw__name_table_add(&index->queue_names, &queue->entry, queue->name);
    lw__table_set(&index->queues, index->queue_count++, queue);
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
    struct lw__queue *queue = lw__index_queue_at(index, number);
    lw__order_set_weight(&index->order, &queue->order, weight);
    queue->limit = limit;
    queue->byte_limit = byte_limit;
    lw__index_unlock(index);
}

/* ---- lanes -------------------------------------------------------------------------------- */

static bool grow_near_lanes(struct lw__index *index, struct lw__queue *queue, uint32_t kind) {
    uint32_t old = queue->lane_capacity, capacity = old ? old : 8;
    if (kind < old)
        return true;
    while (capacity <= kind)
        capacity *= 2;
    struct lw__lane **lanes = alloc_lines(index, capacity * sizeof *lanes);
    if (!lanes)
        return false;
    for (uint32_t i = 0; i < old; i++)
        lanes[i] = queue->lanes[i];
    if (queue->lanes)
        free_lines(index, queue->lanes, old * sizeof *lanes);
    queue->lanes = lanes;
    queue->lane_capacity = capacity;
    return true;
}

/* Where the lane of a kind stands, or would. */
static struct lw__lane **far_place(struct lw__lane **table, uint32_t capacity, uint32_t kind) {
    uint32_t at = kind * UINT32_C(0x9e3779b1) >> 8 & (capacity - 1);
    while (table[at] && ((const struct lw__kind *)table[at]->kind)->number != kind)
        at = (at + 1) & (capacity - 1);
    return &table[at];
}

struct lw__lane *lw__index_find_far_lane(const struct lw__queue *queue, uint32_t kind) {
    return queue->more_count > 0 ? *far_place(queue->more_lanes, queue->more_capacity, kind) : NULL;
}

static bool grow_far_lanes(struct lw__index *index, struct lw__queue *queue) {
    uint32_t old = queue->more_capacity, capacity = old ? 2 * old : 4;
    if (queue->more_count < old / 2)
        return true;
    struct lw__lane **table = lw__alloc_zero(&index->allocator, capacity * sizeof *table);
    if (!table)
        return false;
    for (uint32_t i = 0; i < old; i++) {
        struct lw__lane *lane = queue->more_lanes[i];
        if (lane)
            *far_place(table, capacity, ((const struct lw__kind *)lane->kind)->number) = lane;
    }
    lw__free(&index->allocator, queue->more_lanes, old * sizeof *table);
    queue->more_lanes = table;
    queue->more_capacity = capacity;
    return true;
}

static bool reserve_lane(struct lw__index *index, struct lw__queue *queue, uint32_t kind) {
    return kind < LW__LANES_BY_NUMBER ? grow_near_lanes(index, queue, kind)
                                      : grow_far_lanes(index, queue);
}

static void place_lane(struct lw__queue *queue, uint32_t kind, struct lw__lane *lane) {
    if (kind < LW__LANES_BY_NUMBER) {
        queue->lanes[kind] = lane;
    } else {
        *far_place(queue->more_lanes, queue->more_capacity, kind) = lane;
        queue->more_count++;
    }
}

static uint32_t reasons_to_shut(const struct lw__lane *lane) {
    const struct lw__kind *kind = lane->kind;
    return (kind->has_handler ? 0 : LW__SHUT_NO_HANDLER) | (lane->shut & LW__SHUT_LIMIT)
           | (lw__index_queue_of_lane(lane)->is_paused ? LW__SHUT_PAUSED : 0);
}

void lw__index_shut_lane_locked(struct lw__index *index, struct lw__lane *lane, uint32_t reasons) {
    const struct lw__kind *kind = lane->kind;
    bool is_offered = reasons == LW__SHUT_NO_HANDLER && !kind->is_kept;
    if (!is_offered)
        lw__order_offer(&index->order, lane, false);
    lw__order_shut(&index->order, lane, reasons);
    if (is_offered)
        lw__order_offer(&index->order, lane, true);
}

struct lw__lane *lw__index_lane_locked(struct lw__index *index, uint32_t kind_number,
                                       uint32_t queue_number) {
    struct lw__queue *queue = lw__index_queue_at(index, queue_number);
    struct lw__lane *known = lw__index_find_lane(queue, kind_number);
    if (known)
        return known;
    if (!reserve_lane(index, queue, kind_number))
        return NULL;
    struct lw__lane *lane = alloc_lines(index, sizeof *lane);
    if (!lane)
        return NULL;
    struct lw__kind *kind = lw__index_kind_at(index, kind_number);
    if (!lw__order_add_lane(&index->order, &queue->order, lane, kind, &kind->order)) {
        free_lines(index, lane, sizeof *lane);
        return NULL;
    }
    lane->next_of_kind = kind->lanes;
    kind->lanes = lane;
    place_lane(queue, kind_number, lane);
    lw__index_shut_lane_locked(index, lane, reasons_to_shut(lane));
    return lane;
}

void lw__index_review_kind_locked(struct lw__index *index, struct lw__kind *kind) {
    size_t ready = index->order.ready_count;
    for (struct lw__lane *lane = kind->lanes; lane; lane = lane->next_of_kind) {
        bool was_offered = lane->is_offered;
        lw__index_shut_lane_locked(index, lane, reasons_to_shut(lane));
        if (!was_offered)
            lw__lease_announce_locked(index, lane);
    }
    if (index->order.ready_count > ready)
        index->hooks.wake(index->hooks.user);
    lw__index_open_withheld_locked(index, kind, UINT32_MAX);
}

int lw__index_pause(struct lw__store *store, const char *name, bool is_paused) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__queue *queue = find_queue_locked(index, name);
    if (queue && queue->is_paused != is_paused) {
        queue->is_paused = is_paused;
        for (struct lw__lane *lane = queue->order.lanes; lane; lane = lane->next_of_queue) {
            lw__index_shut_lane_locked(index, lane, reasons_to_shut(lane));
            lw__lease_announce_locked(index, lane);
            if (is_paused && lane->count > 0)
                lw__index_pass_place_locked(index, lane->kind);
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
