/* The order of what is runnable: lanes, and the heaps of ready ones. Whose turn it is says turns.c.
 *
 * Keys are compared as rarely as possible, because those of a run's tasks stand in the tasks, in
 * memory that nobody has touched for long: a queue with one ready lane does not know its key, and
 * what comes from the front of a run without rivals is copied unseen. With rivals, the task after
 * the one that is looked at is fetched ahead.
 */
#include "store/order.h"

#include "base/memory.h"
#include "store/turns.h"

#include <assert.h>

#define STRAY UINT32_MAX /* place.index of one; place.block is the next one then */

enum {
    SPARE_MAX = 16, /* blocks that are kept */
    HEAP_MIN = 4,   /* entries of a lane's heap */
    HEAP_KEPT = 64, /* it shrinks down to this */
};

#define likely(condition) __builtin_expect(!!(condition), 1)

#define CONTAINER(index, type, member) ((type *)(void *)((char *)(index)-offsetof(type, member)))

static struct lw__order_key key_of(const struct lw__task *task) {
    return (struct lw__order_key){
        .due = lw__see(&task->due_at), .id = task->id, .priority = task->priority};
}

static bool is_before(const struct lw__task *a, const struct lw__task *b) {
    struct lw__order_key a_key = key_of(a), b_key = key_of(b);
    return lw__order_key_before(&a_key, &b_key);
}

static struct lw__task *heap_task(const struct lw__heap *heap, uint32_t at) {
    return CONTAINER(heap->entries[at].index, struct lw__task, place.index);
}

static struct lw__lane *ready_lane(const struct lw__order_queue *queue, uint32_t at) {
    return CONTAINER(queue->ready.entries[at].index, struct lw__lane, ready_index);
}

static bool is_ready(const struct lw__lane *lane) {
    return lane->ready_index != LW__NOWHERE;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static struct lw__run_block *take_block(struct lw__order *order) {
    struct lw__run_block *block = order->spare;
    if (block != NULL) {
        order->spare = block->next;
        order->spare_count--;
        return block;
    }
    block = lw__alloc(order->allocator, sizeof *block);
    if (block != NULL)
        order->bytes += sizeof *block;
    return block;
}

static void free_block(struct lw__order *order, struct lw__run_block *block) {
    lw__free(order->allocator, block, sizeof *block);
    order->bytes -= sizeof *block;
}

static void resize_heap(struct lw__order *order, struct lw__heap *heap, uint32_t capacity) {
    uint32_t old = heap->capacity;
    if (lw__heap_resize(heap, order->allocator, capacity)) /* or it stays as it is */
        order->bytes += ((size_t)capacity - old) * sizeof *heap->entries;
}

/* Room for `count` more. */
static bool grow_heap(struct lw__order *order, struct lw__heap *heap, size_t count) {
    size_t capacity = heap->capacity > 0 ? heap->capacity : HEAP_MIN;
    if (count > UINT32_MAX / 2 - heap->count)
        return false;
    while (capacity - heap->count < count)
        capacity *= 2;
    if (capacity != heap->capacity)
        resize_heap(order, heap, (uint32_t)capacity);
    return heap->capacity - heap->count >= count;
}

/* What was reserved and not needed goes this way, too. */
static void shrink_heap(struct lw__order *order, struct lw__lane *lane) {
    struct lw__heap *heap = &lane->heap;
    if (heap->capacity > HEAP_KEPT && heap->count <= heap->capacity / 4)
        resize_heap(order, heap, heap->capacity / 2);
}

static void give_block(struct lw__order *order, struct lw__lane *lane,
                       struct lw__run_block *block) {
    shrink_heap(order, lane);
    if (order->spare_count == SPARE_MAX) {
        free_block(order, block);
        return;
    }
    block->next = order->spare;
    order->spare = block;
    order->spare_count++;
}

/* ---- ready lanes ----------------------------------------------------------------------------- */

/* Before long it will be the first, and its key asked for. */
static void fetch_second(const struct lw__lane *lane) {
    if (lane->run_count == 0)
        return;
    const struct lw__run_block *block = lane->runs[0].first;
    if (block->begin + 1 < block->end && block->items[block->begin + 1] != NULL) {
        __builtin_prefetch(&block->items[block->begin + 1]->id);
        __builtin_prefetch(&block->items[block->begin + 1]->place);
    }
}

static void rekey_lane(struct lw__lane *lane) {
    struct lw__order_key key = key_of(lw__lane_first(lane));
    fetch_second(lane);
    lw__heap_rekey(&lane->queue->ready, lane->ready_index, &key);
}

static void enter_ready(struct lw__order *order, struct lw__lane *lane) {
    struct lw__order_queue *queue = lane->queue;
    struct lw__order_key key = {0};
    if (queue->ready.count == 1)
        rekey_lane(ready_lane(queue, 0));
    if (queue->ready.count > 0)
        key = key_of(lw__lane_first(lane));
    lw__heap_push(&queue->ready, &key, &lane->ready_index);
    order->ready_count += lane->count;
    if (queue->ready.count == 1)
        lw__turns_enter(order, queue);
}

static void leave_ready(struct lw__order *order, struct lw__lane *lane) {
    struct lw__order_queue *queue = lane->queue;
    lw__heap_remove(&queue->ready, lane->ready_index);
    lane->ready_index = LW__NOWHERE;
    order->ready_count -= lane->count;
    if (queue->ready.count == 0) {
        queue->is_interrupted = lane->count > 0;
        lw__turns_leave(order, queue);
    }
}

/* ---- offers ---------------------------------------------------------------------------------- */

enum { OF_QUEUE, OF_KIND };

static bool has_offer(const struct lw__lane *lane) {
    return lane->offer_index[OF_QUEUE] != LW__NOWHERE;
}

static void enter_or_rekey(struct lw__heap *heap, uint32_t *index,
                           const struct lw__order_key *key) {
    if (*index == LW__NOWHERE)
        lw__heap_push(heap, key, index);
    else
        lw__heap_rekey(heap, *index, key);
}

static void leave(struct lw__heap *heap, uint32_t *index) {
    lw__heap_remove(heap, *index);
    *index = LW__NOWHERE;
}

/* Among the queues that offer something it stands by its first task. */
static void review_offering(struct lw__order *order, struct lw__order_queue *queue) {
    if (queue->offered.count > 0)
        enter_or_rekey(&order->offering, &queue->offer_index, &queue->offered.entries[0].key);
    else if (queue->offer_index != LW__NOWHERE)
        leave(&order->offering, &queue->offer_index);
}

/* After the first task of a shut lane has changed, or whether it is offered. */
__attribute__((noinline)) static void review_offer(struct lw__order *order, struct lw__lane *lane) {
    bool should_be_there = lane->is_offered && lane->count > 0;
    if (!should_be_there && !has_offer(lane))
        return;
    struct lw__order_key key = {0};
    if (should_be_there)
        key = key_of(lw__lane_first(lane));
    for (int i = OF_QUEUE; i <= OF_KIND; i++) {
        if (should_be_there)
            enter_or_rekey(lane->offers[i], &lane->offer_index[i], &key);
        else
            leave(lane->offers[i], &lane->offer_index[i]);
    }
    review_offering(order, lane->queue);
}

void lw__order_offer(struct lw__order *order, struct lw__lane *lane, bool is_offered) {
    assert(!is_offered || lane->shut != 0);
    if (lane->is_offered == is_offered)
        return;
    lane->is_offered = is_offered;
    review_offer(order, lane);
}

struct lw__lane *lw__offers_at(const struct lw__heap *offers, bool is_of_kind, uint32_t at) {
    uint32_t *index = offers->entries[at].index;
    return is_of_kind ? CONTAINER(index, struct lw__lane, offer_index[OF_KIND])
                      : CONTAINER(index, struct lw__lane, offer_index[OF_QUEUE]);
}

struct lw__lane *lw__offers_first(const struct lw__heap *offers, bool is_of_kind) {
    return offers->count > 0 ? lw__offers_at(offers, is_of_kind, 0) : NULL;
}

struct lw__order_queue *lw__order_offering_at(const struct lw__order *order, uint32_t at) {
    return CONTAINER(order->offering.entries[at].index, struct lw__order_queue, offer_index);
}

struct lw__lane *lw__order_first_offered(const struct lw__order *order) {
    return order->offering.count > 0
               ? lw__offers_first(&lw__order_offering_at(order, 0)->offered, false)
               : NULL;
}

/* ---- reviews --------------------------------------------------------------------------------- */

/* After its first task has changed, or whether it is ready. */
static void review_lane(struct lw__order *order, struct lw__lane *lane) {
    bool should_be_ready = lane->count > 0 && lane->shut == 0;
    if (__builtin_expect(lane->shut != 0, 0))
        review_offer(order, lane);
    if (should_be_ready && !is_ready(lane))
        enter_ready(order, lane);
    else if (!should_be_ready && is_ready(lane))
        leave_ready(order, lane);
    else if (should_be_ready && lane->queue->ready.count > 1)
        rekey_lane(lane);
}

/* ---- queues and lanes ------------------------------------------------------------------------ */

void lw__order_init(struct lw__order *order, const lw_allocator *allocator) {
    *order = (struct lw__order){.allocator = allocator};
}

bool lw__order_add_queue(struct lw__order *order, struct lw__order_queue *queue, uint32_t weight) {
    if (!lw__turns_reserve(order))
        return false;
    order->queue_count++;
    queue->active_index = queue->offer_index = LW__NOWHERE;
    lw__order_set_weight(order, queue, weight);
    return true;
}

/* Room for one more of those that may be in there. A queue with one lane, and there may be many
 * such queues, has room for one. */
static bool grow_list(struct lw__order *order, struct lw__heap *heap, uint32_t count) {
    uint32_t capacity = heap->capacity > 0 ? heap->capacity : 1;
    while (capacity <= count)
        capacity *= 2;
    if (capacity > heap->capacity)
        resize_heap(order, heap, capacity);
    return count < heap->capacity;
}

bool lw__order_add_lane(struct lw__order *order, struct lw__order_queue *queue,
                        struct lw__lane *lane, void *kind, struct lw__order_kind *order_kind) {
    if (!grow_list(order, &queue->ready, queue->lane_count)
        || !grow_list(order, &queue->offered, queue->lane_count)
        || !grow_list(order, &order->offering, order->queue_count - 1)
        || !grow_list(order, &order_kind->offered, order_kind->lane_count))
        return false;
    queue->lane_count++;
    order_kind->lane_count++;
    lane->offers[OF_QUEUE] = &queue->offered;
    lane->offers[OF_KIND] = &order_kind->offered;
    lane->offer_index[OF_QUEUE] = lane->offer_index[OF_KIND] = LW__NOWHERE;
    lane->queue = queue;
    lane->kind = kind;
    lane->ready_index = LW__NOWHERE;
    lane->next_of_queue = queue->lanes;
    queue->lanes = lane;
    return true;
}

void lw__order_set_weight(struct lw__order *order, struct lw__order_queue *queue, uint32_t weight) {
    assert(weight > 0 && weight <= LW__ORDER_WEIGHT_MAX);
    bool is_active = queue->active_index != LW__NOWHERE;
    if (is_active)
        lw__turns_leave(order, queue);
    queue->weight = weight;
    queue->stride = LW__ORDER_TURN / weight;
    queue->is_interrupted = false; /* what it has had was counted by the old weight */
    if (is_active)
        lw__turns_enter(order, queue);
}

void lw__order_free_lane(struct lw__order *order, struct lw__lane *lane) {
    for (uint32_t i = 0; i < lane->run_count; i++)
        for (struct lw__run_block *block = lane->runs[i].first, *next; block != NULL;
             block = next) {
            next = block->next;
            free_block(order, block);
        }
    lane->heap.count = 0;
    resize_heap(order, &lane->heap, 0);
}

void lw__order_free_queue(struct lw__order *order, struct lw__order_queue *queue) {
    queue->ready.count = queue->offered.count = 0;
    resize_heap(order, &queue->ready, 0);
    resize_heap(order, &queue->offered, 0);
}

void lw__order_free_kind(struct lw__order *order, struct lw__order_kind *kind) {
    kind->offered.count = 0;
    resize_heap(order, &kind->offered, 0);
}

void lw__order_free(struct lw__order *order) {
    for (struct lw__run_block *block = order->spare, *next; block != NULL; block = next) {
        next = block->next;
        free_block(order, block);
    }
    order->offering.count = 0;
    resize_heap(order, &order->offering, 0);
    lw__turns_free(order);
}

void lw__order_shut(struct lw__order *order, struct lw__lane *lane, uint32_t reasons) {
    assert(!lane->is_offered || reasons != 0);
    lane->shut = reasons;
    if (is_ready(lane) != (reasons == 0))
        review_lane(order, lane);
}

/* ---- strays: tasks for which there was no memory ------------------------------------------- */

static struct lw__task *next_stray(const struct lw__task *task) {
    return (struct lw__task *)(void *)task->place.block;
}

static void set_next_stray(struct lw__lane *lane, struct lw__task *task, struct lw__task *next) {
    if (task != NULL)
        task->place.block = (struct lw__run_block *)(void *)next;
    else
        lane->strays = next;
    if (next == NULL)
        lane->last_stray = task;
}

static void chain_stray(struct lw__lane *lane, struct lw__task *task) {
    struct lw__task *previous = NULL, *next = lane->strays;
    if (lane->last_stray != NULL && is_before(lane->last_stray, task)) {
        previous = lane->last_stray;
        next = NULL;
    }
    while (next != NULL && is_before(next, task)) {
        previous = next;
        next = next_stray(next);
    }
    task->place = (struct lw__place){.lane = lane, .index = STRAY};
    set_next_stray(lane, task, next);
    set_next_stray(lane, previous, task);
}

static void unchain_stray(struct lw__lane *lane, struct lw__task *task) {
    struct lw__task *previous = NULL;
    for (struct lw__task *t = lane->strays; t != task; t = next_stray(t))
        previous = t;
    set_next_stray(lane, previous, next_stray(task));
}

/* ---- putting in ------------------------------------------------------------------------------ */

/* The run of a priority; NULL: there is none. */
static struct lw__run *find_run(struct lw__lane *lane, uint32_t priority) {
    for (uint32_t i = 0; i < lane->run_count; i++)
        if (lane->runs[i].priority == priority)
            return &lane->runs[i];
    return NULL;
}

static struct lw__run *open_run(struct lw__lane *lane, uint32_t priority) {
    uint32_t at = lane->run_count++;
    for (; at > 0 && lane->runs[at - 1].priority > priority; at--)
        lane->runs[at] = lane->runs[at - 1];
    lane->runs[at] = (struct lw__run){.priority = priority};
    return &lane->runs[at];
}

static void close_run(struct lw__lane *lane, struct lw__run *run) {
    struct lw__run *end = &lane->runs[--lane->run_count];
    for (; run < end; run++)
        run[0] = run[1];
}

/* A run that the task can be appended to; NULL: none, or no memory. */
static struct lw__run *prepare_run(struct lw__order *order, struct lw__lane *lane,
                                   const struct lw__order_key *key) {
    struct lw__run *run = find_run(lane, key->priority);
    if (run == NULL ? lane->run_count == LW__LANE_RUNS
                    : !lw__run_may_follow(run, key->due, key->id))
        return NULL;
    if (run != NULL && lw__run_has_room(run))
        return run;
    struct lw__run_block *block = take_block(order);
    if (block == NULL)
        return NULL;
    if (run == NULL)
        run = open_run(lane, key->priority);
    lw__run_extend(run, block);
    return run;
}

static void push_heap(struct lw__lane *lane, struct lw__task *task) {
    struct lw__order_key key = key_of(task);
    task->place = (struct lw__place){.lane = lane};
    lw__heap_push(&lane->heap, &key, &task->place.index);
}

static void bring_strays_home(struct lw__order *order, struct lw__lane *lane) {
    while (lane->strays != NULL && grow_heap(order, &lane->heap, 1)) {
        struct lw__task *task = lane->strays;
        set_next_stray(lane, NULL, next_stray(task));
        push_heap(lane, task);
    }
}

bool lw__order_reserve(struct lw__order *order, struct lw__lane *lane, size_t count) {
    /* The heap takes everything, also what a run gets no block for. */
    if (likely(lane->heap.capacity - lane->heap.count >= count && lane->strays == NULL))
        return true;
    bring_strays_home(order, lane);
    return lane->strays == NULL && grow_heap(order, &lane->heap, count);
}

static void count_in(struct lw__order *order, struct lw__lane *lane) {
    lane->count++;
    lane->queue->count++;
    order->count++;
    order->ready_count += is_ready(lane);
}

/* Everything but the usual: the task may come to be the first of its lane. */
__attribute__((noinline)) static void insert_rarely(struct lw__order *order, struct lw__lane *lane,
                                                    struct lw__task *task) {
    struct lw__order_key key = key_of(task);
    bring_strays_home(order, lane);
    struct lw__run *run = prepare_run(order, lane, &key);
    if (run != NULL)
        lw__run_append(run, lane, task, key.due);
    else if (grow_heap(order, &lane->heap, 1))
        push_heap(lane, task);
    else
        chain_stray(lane, task);
    count_in(order, lane);
    review_lane(order, lane);
}

void lw__order_insert(struct lw__order *order, struct lw__lane *lane, struct lw__task *task) {
    uint64_t due = lw__see(&task->due_at);
    struct lw__run *run = find_run(lane, task->priority);
    if (likely(run != NULL && lw__run_has_room(run) && lw__run_may_follow(run, due, task->id))) {
        lw__run_append(run, lane, task, due);
        count_in(order, lane);
    } else {
        insert_rarely(order, lane, task);
    }
}

/* ---- taking out ------------------------------------------------------------------------------ */

static void count_out(struct lw__order *order, struct lw__lane *lane, uint32_t count) {
    lane->count -= count;
    lane->queue->count -= count;
    order->count -= count;
    if (is_ready(lane))
        order->ready_count -= count;
}

static void detach_from_run(struct lw__order *order, struct lw__lane *lane,
                            const struct lw__task *task) {
    struct lw__run *run = find_run(lane, task->priority);
    struct lw__run_block *emptied = lw__run_remove(run, task->place.block, task->place.index);
    if (emptied != NULL)
        give_block(order, lane, emptied);
    if (run->first == NULL)
        close_run(lane, run);
}

/* The lane has to be reviewed then. */
static void detach(struct lw__order *order, struct lw__lane *lane, struct lw__task *task) {
    if (task->place.index == STRAY) {
        unchain_stray(lane, task);
    } else if (task->place.block != NULL) {
        detach_from_run(order, lane, task);
    } else {
        lw__heap_remove(&lane->heap, task->place.index);
        shrink_heap(order, lane);
    }
    task->place.lane = NULL;
    count_out(order, lane, 1);
}

void lw__order_remove(struct lw__order *order, struct lw__task *task) {
    struct lw__lane *lane = task->place.lane;
    assert(lane != NULL);
    /* While the key of the lane is kept, one that is not its first need not be looked for. */
    bool is_inner = is_ready(lane) && lane->queue->ready.count > 1
                    && lane->queue->ready.entries[lane->ready_index].key.id != task->id;
    detach(order, lane, task);
    if (!is_inner)
        review_lane(order, lane);
}

/* The first run is there, and so is the heap: whether the heap's first comes before the run's. */
static bool is_heap_first(const struct lw__lane *lane) {
    const struct lw__run *run = &lane->runs[0];
    const struct lw__order_key *top = &lane->heap.entries[0].key;
    if (top->priority != run->priority)
        return top->priority < run->priority;
    struct lw__order_key key = key_of(lw__run_first(run));
    return lw__order_key_before(top, &key);
}

struct lw__task *lw__lane_first(const struct lw__lane *lane) {
    struct lw__task *first = lane->run_count > 0 ? lw__run_first(&lane->runs[0]) : NULL;
    if (lane->heap.count > 0 && (first == NULL || is_heap_first(lane)))
        first = heap_task(&lane->heap, 0);
    if (lane->strays != NULL && (first == NULL || is_before(lane->strays, first)))
        first = lane->strays;
    return first;
}

struct lw__lane *lw__order_next(const struct lw__order *order) {
    const struct lw__order_queue *queue = lw__turns_next(order);
    return queue != NULL ? ready_lane(queue, 0) : NULL;
}

/* Whether something of its queue may come between two tasks of the lane's first run. */
static bool has_rivals(const struct lw__lane *lane) {
    const struct lw__heap *ready = &lane->queue->ready;
    if (lane->run_count == 0 || lane->strays != NULL)
        return true;
    uint32_t priority = lane->runs[0].priority;
    if (lane->heap.count > 0 && lane->heap.entries[0].key.priority <= priority)
        return true;
    for (uint32_t i = 1; i < ready->count && i <= LW__HEAP_ARITY; i++)
        if (ready->entries[i].key.priority <= priority)
            return true;
    return false;
}

static uint32_t take_from_run(struct lw__order *order, struct lw__lane *lane,
                              struct lw__task **tasks, uint32_t max) {
    struct lw__run *run = &lane->runs[0];
    struct lw__run_block *emptied;
    uint32_t taken = 0;
    while (taken < max && run->first != NULL) {
        taken += lw__run_take(run, tasks + taken, max - taken, &emptied);
        if (emptied != NULL)
            give_block(order, lane, emptied);
    }
    if (run->first == NULL)
        close_run(lane, run);
    count_out(order, lane, taken);
    return taken;
}

static uint32_t take_some(struct lw__order *order, struct lw__lane *lane, struct lw__task **tasks,
                          uint32_t max) {
    if (!has_rivals(lane))
        return take_from_run(order, lane, tasks, order->active_count == 1 ? max : 1);
    tasks[0] = lw__lane_first(lane);
    detach(order, lane, tasks[0]);
    return 1;
}

uint32_t lw__order_take(struct lw__order *order, struct lw__task **tasks, uint32_t max,
                        struct lw__lane **lane) {
    struct lw__lane *next = *lane = lw__order_next(order);
    uint32_t taken = 0;
    while (next != NULL && next == *lane && taken < max) {
        uint32_t count = take_some(order, next, tasks + taken, max - taken);
        lw__turns_charge(order, next->queue, count);
        review_lane(order, next);
        taken += count;
        next = lw__order_next(order);
    }
    return taken;
}

/* ---- looking --------------------------------------------------------------------------------- */

struct lw__task *lw__order_oldest(const struct lw__order_queue *queue) {
    struct lw__task *oldest = NULL;
    if (queue->ready.count > 0)
        oldest = lw__lane_first(ready_lane(queue, 0));
    for (const struct lw__lane *lane = queue->lanes; lane != NULL; lane = lane->next_of_queue) {
        if (lane->count == 0 || is_ready(lane))
            continue;
        struct lw__task *first = lw__lane_first(lane);
        if (oldest == NULL || is_before(first, oldest))
            oldest = first;
    }
    return oldest;
}

static bool each_of_run(const struct lw__run *run, bool (*each)(void *user, struct lw__task *task),
                        void *user) {
    for (const struct lw__run_block *block = run->first; block != NULL; block = block->next)
        for (uint32_t i = block->begin; i < block->end; i++)
            if (block->items[i] != NULL && !each(user, block->items[i]))
                return false;
    return true;
}

bool lw__order_each(const struct lw__lane *lane, bool (*each)(void *user, struct lw__task *task),
                    void *user) {
    bool goes_on = true;
    for (uint32_t i = 0; goes_on && i < lane->run_count; i++)
        goes_on = each_of_run(&lane->runs[i], each, user);
    for (uint32_t i = 0; goes_on && i < lane->heap.count; i++)
        goes_on = each(user, heap_task(&lane->heap, i));
    for (struct lw__task *task = lane->strays; goes_on && task != NULL; task = next_stray(task))
        goes_on = each(user, task);
    return goes_on;
}
