/* Room: every task takes some, by count and bytes, from its acceptance to its end; and what can be
 * dropped to make some (LW_DROP_OLDEST). */
#include "store/index.h"

static uint64_t put_bytes(const struct lw__put *put) {
    return put->spec ? put->spec->payload_size : put->payload_size;
}

/* NULL: it has none yet; such a queue is as large as the engine. */
static struct lw__queue *queue_of(const struct lw__index *index, const struct lw__put *put) {
    return put->queue < LW__UNNAMED ? index->queues[put->queue] : NULL;
}

static bool is_free(const struct lw__index *index, const struct lw__queue *queue, uint64_t bytes) {
    return index->unfinished - index->reserve_used < index->options.task_limit
           && index->bytes + bytes <= index->options.byte_limit
           && (!queue
               || (queue->unfinished < queue->limit && queue->bytes + bytes <= queue->byte_limit));
}

bool lw__room_is_there_locked(const struct lw__index *index, const struct lw__put *put) {
    uint64_t bytes = put_bytes(put);
    return is_free(index, queue_of(index, put), bytes)
           || (put->is_inside && index->reserve_used < index->options.reserve
               && index->reserve_bytes + bytes <= index->options.byte_limit);
}

static void count(struct lw__index *index, struct lw__kind *kind, struct lw__queue *queue,
                  uint64_t bytes, bool is_reserved, int sign) {
    uint64_t one = sign > 0 ? 1 : UINT64_MAX;
    bytes = sign > 0 ? bytes : -bytes;
    index->reserve_used += is_reserved ? one : 0;
    index->reserve_bytes += is_reserved ? bytes : 0;
    index->unfinished += one;
    index->bytes += bytes;
    if (queue)
        queue->unfinished += one;
    if (queue)
        queue->bytes += bytes;
    if (kind)
        kind->unfinished += one;
}

static struct lw__kind *kind_of(const struct lw__index *index, const struct lw__put *put) {
    return put->kind < LW__UNNAMED ? index->kinds[put->kind] : NULL;
}

void lw__room_take_locked(struct lw__index *index, struct lw__put *put) {
    struct lw__queue *queue = queue_of(index, put);
    uint64_t bytes = put_bytes(put);
    put->is_reserved = put->is_inside && !is_free(index, queue, bytes);
    put->is_counted = true;
    count(index, kind_of(index, put), queue, bytes, put->is_reserved, 1);
    if (put->scope)
        lw__scope_count_locked(index, put, 1);
}

void lw__room_give_back_locked(struct lw__index *index, struct lw__put *put) {
    if (!put->is_counted)
        return;
    put->is_counted = false;
    count(index, kind_of(index, put), queue_of(index, put), put_bytes(put), put->is_reserved, -1);
    if (put->scope)
        lw__scope_count_locked(index, put, -1);
}

void lw__index_count_restored_locked(struct lw__index *index, const struct lw__task *task) {
    count(index, lw__index_kind_of(index, task), lw__index_queue_of(index, task),
          lw__task_payload_size(task), (lw__task_flags(task) & LW__TASK_RESERVED) != 0, 1);
}

int lw__index_count_in_locked(struct lw__index *index, struct lw__put *put) {
    if (!lw__room_is_there_locked(index, put))
        return LW_EFULL;
    lw__room_take_locked(index, put);
    return LW_OK;
}

void lw__index_count_out_locked(struct lw__index *index, const struct lw__task *task) {
    count(index, lw__index_kind_of(index, task), lw__index_queue_of(index, task),
          lw__task_payload_size(task), lw__task_flags(task) & LW__TASK_RESERVED, -1);
}

/* ---- what was run without room ------------------------------------------------------------ */

static bool is_over(const struct lw__index *index, const struct lw__queue *queue) {
    return index->unfinished - index->reserve_used > index->options.task_limit
           || queue->unfinished > queue->limit || index->bytes > index->options.byte_limit
           || queue->bytes > queue->byte_limit;
}

/* NULL: it has ended, or there is room for it, or nobody comes any more who could want it. */
static struct lw__task *find_homeless(struct lw__index *index, uint64_t id) {
    struct lw__task *task = lw__ids_find(&index->ids, id);
    if (!task || lw_state_is_terminal(lw__task_state(task)) || index->restraints & LW__STORE_NO_PUT)
        return NULL;
    return is_over(index, lw__index_queue_of(index, task)) ? task : NULL;
}

int lw__room_stay(struct lw__index *index, uint64_t id) {
    lw__index_lock(index);
    int rc = find_homeless(index, id) ? LW_EFULL : LW_OK;
    lw__index_unlock(index);
    return rc;
}

void lw__room_evict(struct lw__index *index, uint64_t now, uint64_t id) {
    lw__index_lock(index);
    struct lw__task *task = find_homeless(index, id);
    if (task)
        lw__index_abort_locked(index, task, now, "there was no room to try it again");
    lw__grace_collect(&index->grace);
    lw__index_unlock(index);
}

/* ---- dropping ----------------------------------------------------------------------------- */

/* What is missing, or what can be had. */
struct amount {
    uint64_t tasks, bytes;
};

static uint64_t beyond(uint64_t used, uint64_t limit) {
    return used > limit ? used - limit : 0;
}

static struct amount missing_at_all(const struct lw__index *index) {
    return (struct amount){
        beyond(index->unfinished - index->reserve_used, index->options.task_limit),
        beyond(index->bytes, index->options.byte_limit)};
}

static struct amount missing_in(const struct lw__queue *queue) {
    return (struct amount){beyond(queue->unfinished, queue->limit),
                           beyond(queue->bytes, queue->byte_limit)};
}

static bool covers(const struct amount *had, const struct amount *missing) {
    return had->tasks >= missing->tasks && had->bytes >= missing->bytes;
}

static void subtract(struct amount *missing, uint64_t tasks, uint64_t bytes) {
    missing->tasks -= tasks < missing->tasks ? tasks : missing->tasks;
    missing->bytes -= bytes < missing->bytes ? bytes : missing->bytes;
}

/* The place of a task of the reserve is not one of the engine's. */
static uint64_t places_of(const struct lw__task *task) {
    return lw__task_flags(task) & LW__TASK_RESERVED ? 0 : 1;
}

struct reckoning {
    struct amount missing, had;               /* of one queue */
    struct amount missing_at_all, had_at_all; /* of the engine, by all queues so far */
};

/* True: go on, it is not enough yet. */
static bool reckon_task(void *user, struct lw__task *task) {
    struct reckoning *r = user;
    uint64_t bytes = lw__task_payload_size(task);
    r->had.tasks++;
    r->had.bytes += bytes;
    r->had_at_all.tasks += places_of(task);
    r->had_at_all.bytes += bytes;
    return !covers(&r->had, &r->missing) || !covers(&r->had_at_all, &r->missing_at_all);
}

/* Whether the queue can give what it lacks itself; what it has beyond that is for the others. In no
 * order: it is about all of them, and mostly the first few are enough. */
static bool reckon_queue(const struct lw__queue *queue, struct reckoning *r) {
    r->missing = missing_in(queue);
    r->had = (struct amount){0, 0};
    for (const struct lw__lane *lane = queue->order.lanes; lane; lane = lane->next_of_queue) {
        if (!lw__order_each(lane, reckon_task, r))
            break;
    }
    return covers(&r->had, &r->missing);
}

/* Drops the oldest until neither of the two lacks anything, or there are no more. */
static void drop_oldest(struct lw__index *index, uint64_t now, struct lw__queue *queue,
                        struct amount *missing, struct amount *missing_at_all) {
    struct lw__task *task;
    while ((missing->tasks > 0 || missing->bytes > 0)
           && (task = lw__order_oldest(&queue->order)) != NULL) {
        uint64_t bytes = lw__task_payload_size(task), places = places_of(task);
        subtract(missing, missing == missing_at_all ? places : 1, bytes);
        if (missing != missing_at_all)
            subtract(missing_at_all, places, bytes);
        lw__index_abort_locked(index, task, now, "dropped to make room for a newer one");
    }
}

/* The queues of a batch, each once and in its order. */
struct queue_set {
    size_t count;
    uint16_t all[LW_QUEUES_MAX];
    uint64_t bits[LW_QUEUES_MAX / 64];
};

static bool has_queue(const struct queue_set *set, uint16_t queue) {
    return set->bits[queue / 64] >> queue % 64 & 1;
}

static void add_queue(struct queue_set *set, uint16_t queue) {
    if (has_queue(set, queue))
        return;
    set->bits[queue / 64] |= UINT64_C(1) << queue % 64;
    set->all[set->count++] = queue;
}

static void take_room(struct lw__index *index, struct lw__put *put, struct queue_set *set) {
    lw__room_take_locked(index, put);
    if (put->queue < LW__UNNAMED)
        add_queue(set, put->queue);
}

/* Whether the task that has its key may be dropped: then it needs room as well. */
static bool may_come_free(const struct lw__index *index, const struct lw__put *put,
                          const struct queue_set *set) {
    const struct lw__task *holder =
        put->status == LW_EXISTS && !put->is_counted ? lw__ids_find(&index->ids, put->id) : NULL;
    return holder && lw__task_state(holder) == LW_ENQUEUED && holder->place.lane
           && has_queue(set, holder->queue);
}

static void take_room_for_keys(struct lw__index *index, struct lw__put *puts, size_t count,
                               struct queue_set *set) {
    bool is_more = true;
    while (is_more) { /* each brings its queue along */
        is_more = false;
        for (size_t i = 0; i < count; i++) {
            if (!may_come_free(index, &puts[i], set))
                continue;
            take_room(index, &puts[i], set);
            is_more = true;
        }
    }
}

static bool reckon_all(struct lw__index *index, const uint16_t *queues, size_t count,
                       struct reckoning *r) {
    r->missing_at_all = missing_at_all(index);
    r->had_at_all = (struct amount){0, 0};
    for (size_t i = 0; i < count; i++) {
        if (!reckon_queue(index->queues[queues[i]], r))
            return false;
    }
    return covers(&r->had_at_all, &r->missing_at_all);
}

static void drop_for(struct lw__index *index, uint64_t now, const uint16_t *queues, size_t count,
                     struct amount *missing_at_all) {
    for (size_t i = 0; i < count; i++) {
        struct lw__queue *queue = index->queues[queues[i]];
        struct amount missing = missing_in(queue);
        drop_oldest(index, now, queue, &missing, missing_at_all);
    }
    for (size_t i = 0; i < count; i++)
        drop_oldest(index, now, index->queues[queues[i]], missing_at_all, missing_at_all);
}

/* Takes the room of all, as if they were in already, and reckons: whether others can make up for
 * it. Returns how many queues of the set are of those that lack something now. */
static size_t reckon(struct lw__index *index, struct lw__put *puts, size_t count,
                     struct queue_set *set, bool *is_enough) {
    struct reckoning r;
    for (size_t i = 0; i < count; i++) {
        puts[i].is_counted = false;
        if (puts[i].status == LW_OK)
            take_room(index, &puts[i], set);
    }
    size_t own_count = set->count;
    take_room_for_keys(index, puts, count, set);
    *is_enough = reckon_all(index, set->all, set->count, &r);
    for (size_t i = 0; i < count; i++) {
        if (puts[i].status == LW_EXISTS)
            lw__room_give_back_locked(index, &puts[i]);
    }
    return own_count;
}

static void give_all_back(struct lw__index *index, struct lw__put *puts, size_t count) {
    for (size_t i = 0; i < count; i++)
        lw__room_give_back_locked(index, &puts[i]);
}

bool lw__room_can_drop_locked(struct lw__index *index, struct lw__put *puts, size_t count) {
    struct queue_set set = {.count = 0};
    bool is_enough;
    reckon(index, puts, count, &set, &is_enough);
    give_all_back(index, puts, count);
    return is_enough;
}

bool lw__room_drop_locked(struct lw__index *index, uint64_t now, struct lw__put *puts,
                          size_t count) {
    struct queue_set set = {.count = 0};
    bool is_enough;
    size_t own_count = reckon(index, puts, count, &set, &is_enough);
    if (is_enough) {
        struct amount missing = missing_at_all(index);
        drop_for(index, now, set.all, own_count, &missing);
    }
    give_all_back(index, puts, count);
    return is_enough;
}
