/* Room: every task takes some, by count and bytes, from its acceptance to its end; and what can be
 * dropped to make some (LW_DROP_OLDEST). */
#include "store/index.h"

static uint64_t put_bytes(const struct lw__put *put) {
    return put->spec ? put->spec->payload_size : put->payload_size;
}

/* NULL: it has none yet; such a queue is as large as the engine. */
static struct lw__queue *queue_of(const struct lw__index *index, const struct lw__put *put) {
    return put->queue < LW__UNNAMED ? lw__index_queue_at(index, put->queue) : NULL;
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
    return put->kind < LW__UNNAMED ? lw__index_kind_at(index, put->kind) : NULL;
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

/* ---- explaining --------------------------------------------------------------------------- */

static bool needs_room(const struct lw__put *put) {
    return put->status != LW_EXISTS && !put->is_double;
}

/* What the puts up to this one need: all of them, or those of its queue. */
struct need {
    uint64_t tasks, bytes;
};

static struct need need_of(const struct lw__put *puts, size_t at, bool is_of_queue) {
    struct need need = {0, 0};
    for (size_t i = 0; i <= at; i++) {
        if (!needs_room(&puts[i]) || (is_of_queue && puts[i].queue != puts[at].queue))
            continue;
        need.tasks++;
        need.bytes += put_bytes(&puts[i]);
    }
    return need;
}

static bool lacks(struct lw__room_lack *lack, enum lw__room_limit limit, uint64_t used,
                  uint64_t wanted, uint64_t most) {
    if (used <= most && wanted <= most - used)
        return false;
    *lack = (struct lw__room_lack){
        .limit = limit, .used = used, .wanted = wanted, .most = most, .at = lack->at};
    return true;
}

/* Bytes before tasks: they are what a caller has in hand. */
static bool find_lack_locked(const struct lw__index *index, const struct lw__put *puts, size_t at,
                             struct lw__room_lack *lack) {
    const struct lw__queue *queue = queue_of(index, &puts[at]);
    struct need all = need_of(puts, at, false), own = need_of(puts, at, true);
    lack->at = at;
    return lacks(lack, LW__ROOM_BYTES, index->bytes, all.bytes, index->options.byte_limit)
           || lacks(lack, LW__ROOM_TASKS, index->unfinished - index->reserve_used, all.tasks,
                    index->options.task_limit)
           || (queue
               && (lacks(lack, LW__ROOM_QUEUE_BYTES, queue->bytes, own.bytes, queue->byte_limit)
                   || lacks(lack, LW__ROOM_OF_QUEUE, queue->unfinished, own.tasks, queue->limit)));
}

struct lw__room_lack lw__room_lack(struct lw__index *index, const struct lw__put *puts,
                                   size_t count) {
    struct lw__room_lack lack = {.limit = LW__ROOM_IS_THERE};
    lw__index_lock(index);
    size_t i = 0;
    while (i < count && !(needs_room(&puts[i]) && find_lack_locked(index, puts, i, &lack)))
        i++;
    if (i == count && lw__room_is_untold_locked(index))
        lack.limit = LW__ROOM_UNTOLD;
    lw__index_unlock(index);
    return lack;
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

/* The queues of a batch, each once and in its order: a list through the queues themselves, so that
 * it takes no memory and no time for queues that are not in it. */
struct queue_set {
    struct lw__queue *first, **last;
};

static void clear_set(struct queue_set *set) {
    for (struct lw__queue *queue = set->first; queue; queue = queue->next_in_set)
        queue->is_in_set = false;
}

static void add_queue(struct queue_set *set, struct lw__queue *queue) {
    if (!queue || queue->is_in_set)
        return;
    queue->is_in_set = true;
    queue->next_in_set = NULL;
    *set->last = queue;
    set->last = &queue->next_in_set;
}

static void take_room(struct lw__index *index, struct lw__put *put, struct queue_set *set) {
    lw__room_take_locked(index, put);
    add_queue(set, queue_of(index, put));
}

/* Whether the task that has its key may be dropped: then it needs room as well. */
static bool may_come_free(struct lw__index *index, const struct lw__put *put) {
    const struct lw__task *holder =
        put->status == LW_EXISTS && !put->is_counted ? lw__ids_find(&index->ids, put->id) : NULL;
    return holder && lw__task_state(holder) == LW_ENQUEUED && holder->place.lane
           && lw__index_queue_of(index, holder)->is_in_set;
}

static void take_room_for_keys(struct lw__index *index, struct lw__put *puts, size_t count,
                               struct queue_set *set) {
    bool is_more = true;
    while (is_more) { /* each brings its queue along */
        is_more = false;
        for (size_t i = 0; i < count; i++) {
            if (!may_come_free(index, &puts[i]))
                continue;
            take_room(index, &puts[i], set);
            is_more = true;
        }
    }
}

static bool reckon_all(struct lw__index *index, const struct queue_set *set, struct reckoning *r) {
    r->missing_at_all = missing_at_all(index);
    r->had_at_all = (struct amount){0, 0};
    for (const struct lw__queue *queue = set->first; queue; queue = queue->next_in_set) {
        if (!reckon_queue(queue, r))
            return false;
    }
    return covers(&r->had_at_all, &r->missing_at_all);
}

/* The queues of the set before `end`. */
static void drop_for(struct lw__index *index, uint64_t now, const struct queue_set *set,
                     const struct lw__queue *end, struct amount *missing_at_all) {
    for (struct lw__queue *queue = set->first; queue != end; queue = queue->next_in_set) {
        struct amount missing = missing_in(queue);
        drop_oldest(index, now, queue, &missing, missing_at_all);
    }
    for (struct lw__queue *queue = set->first; queue != end; queue = queue->next_in_set)
        drop_oldest(index, now, queue, missing_at_all, missing_at_all);
}

/* Takes the room of all, as if they were in already, and reckons: whether others can make up for
 * it. Returns the first queue of the set that is not one of those that lack something now. */
static struct lw__queue *reckon(struct lw__index *index, struct lw__put *puts, size_t count,
                                struct queue_set *set, bool *is_enough) {
    struct reckoning r;
    set->first = NULL;
    set->last = &set->first;
    for (size_t i = 0; i < count; i++) {
        puts[i].is_counted = false;
        if (puts[i].status == LW_OK)
            take_room(index, &puts[i], set);
    }
    struct lw__queue **own_end = set->last;
    take_room_for_keys(index, puts, count, set);
    *is_enough = reckon_all(index, set, &r);
    for (size_t i = 0; i < count; i++) {
        if (puts[i].status == LW_EXISTS)
            lw__room_give_back_locked(index, &puts[i]);
    }
    return *own_end;
}

static void give_all_back(struct lw__index *index, struct lw__put *puts, size_t count) {
    for (size_t i = 0; i < count; i++)
        lw__room_give_back_locked(index, &puts[i]);
}

bool lw__room_can_drop_locked(struct lw__index *index, struct lw__put *puts, size_t count) {
    struct queue_set set;
    bool is_enough;
    reckon(index, puts, count, &set, &is_enough);
    clear_set(&set);
    give_all_back(index, puts, count);
    return is_enough;
}

bool lw__room_drop_locked(struct lw__index *index, uint64_t now, struct lw__put *puts,
                          size_t count) {
    struct queue_set set;
    bool is_enough;
    const struct lw__queue *end = reckon(index, puts, count, &set, &is_enough);
    clear_set(&set);
    if (is_enough) {
        struct amount missing = missing_at_all(index);
        drop_for(index, now, &set, end, &missing);
    }
    give_all_back(index, puts, count);
    return is_enough;
}
