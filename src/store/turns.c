/* Whose turn it is: two binary heaps of queues. */
#include "store/turns.h"

#include "base/memory.h"

enum { CAPACITY_MIN = 8 };

struct heap {
    struct lw__order_queue **items;
    uint32_t count;
    bool is_waiting;
    uint64_t *looks;
};

static struct heap heap_of(struct lw__order *order, bool is_waiting) {
    return (struct heap){.items = is_waiting ? order->waiting : order->eligible,
                         .count = is_waiting ? order->active_count - order->eligible_count
                                             : order->eligible_count,
                         .is_waiting = is_waiting,
                         .looks = &order->looks};
}

static bool is_sooner(const struct heap *heap, const struct lw__order_queue *a,
                      const struct lw__order_queue *b) {
    ++*heap->looks;
    if (heap->is_waiting)
        return lw__pass_is_ahead(b->pass, a->pass);
    return lw__pass_is_ahead(b->pass + b->stride, a->pass + a->stride);
}

static void put_at(struct heap *heap, uint32_t at, struct lw__order_queue *queue) {
    heap->items[at] = queue;
    queue->active_index = at;
}

static void sift_up(struct heap *heap, uint32_t at, struct lw__order_queue *queue) {
    for (; at > 0 && is_sooner(heap, queue, heap->items[(at - 1) / 2]); at = (at - 1) / 2)
        put_at(heap, at, heap->items[(at - 1) / 2]);
    put_at(heap, at, queue);
}

static void sift_down(struct heap *heap, uint32_t at, struct lw__order_queue *queue) {
    uint32_t child;
    while ((child = 2 * at + 1) < heap->count) {
        if (child + 1 < heap->count && is_sooner(heap, heap->items[child + 1], heap->items[child]))
            child++;
        if (!is_sooner(heap, heap->items[child], queue))
            break;
        put_at(heap, at, heap->items[child]);
        at = child;
    }
    put_at(heap, at, queue);
}

/* What stood at this place is overwritten. */
static void place(struct heap *heap, uint32_t at, struct lw__order_queue *queue) {
    if (at > 0 && is_sooner(heap, queue, heap->items[(at - 1) / 2]))
        sift_up(heap, at, queue);
    else
        sift_down(heap, at, queue);
}

static void push(struct lw__order *order, struct lw__order_queue *queue, bool is_waiting) {
    struct heap heap = heap_of(order, is_waiting);
    queue->is_waiting = is_waiting;
    order->active_count++;
    order->eligible_count += !is_waiting;
    heap.count++;
    sift_up(&heap, heap.count - 1, queue);
}

static void take_out(struct lw__order *order, struct lw__order_queue *queue) {
    struct heap heap = heap_of(order, queue->is_waiting);
    struct lw__order_queue *last = heap.items[--heap.count];
    order->active_count--;
    order->eligible_count -= !queue->is_waiting;
    if (last != queue)
        place(&heap, queue->active_index, last);
    queue->active_index = LW__NOWHERE;
}

/* Those that the order's pass has reached become eligible. */
static void promote(struct lw__order *order) {
    while (order->active_count > order->eligible_count
           && !lw__pass_is_ahead(order->waiting[0]->pass, order->pass)) {
        struct lw__order_queue *queue = order->waiting[0];
        take_out(order, queue);
        push(order, queue, false);
    }
}

static void review_stride(struct lw__order *order) {
    if (order->active_count == 1)
        order->stride = lw__turns_next(order)->stride;
    else if (order->active_count > 0)
        order->stride = LW__ORDER_TURN / order->active_weight;
}

/* A queue that comes back after an interruption still owes the turn that it has had: the lanes of a
 * kind at its limit are shut with each task, and otherwise the queue that was served last would be
 * the first again. Nobody owes more than a turn, and nobody is owed any. */
static bool owes_turn(const struct lw__order *order, const struct lw__order_queue *queue) {
    return queue->is_interrupted && lw__pass_is_ahead(queue->pass, order->pass)
           && queue->pass - order->pass <= queue->stride;
}

void lw__turns_enter(struct lw__order *order, struct lw__order_queue *queue) {
    bool is_waiting = owes_turn(order, queue);
    if (!is_waiting)
        queue->pass = order->pass;
    queue->is_interrupted = false;
    if (order->active_count > 0)
        promote(order);
    push(order, queue, is_waiting);
    order->active_weight += queue->weight;
    review_stride(order);
}

void lw__turns_leave(struct lw__order *order, struct lw__order_queue *queue) {
    take_out(order, queue);
    order->active_weight -= queue->weight;
    review_stride(order);
}

void lw__turns_settle(struct lw__order *order, struct lw__order_queue *queue) {
    bool must_wait = lw__pass_is_ahead(queue->pass, order->pass);
    if (must_wait == queue->is_waiting) {
        struct heap heap = heap_of(order, must_wait);
        sift_down(&heap, queue->active_index, queue);
    } else {
        take_out(order, queue);
        push(order, queue, must_wait);
    }
    promote(order);
}

/* Both arrays are one block: eligible, then waiting. */
bool lw__turns_reserve(struct lw__order *order) {
    uint32_t old = order->active_capacity, capacity = old > 0 ? 2 * old : CAPACITY_MIN;
    if (order->queue_count < old)
        return true;
    struct lw__order_queue **both = lw__alloc_zero(order->allocator, 2 * capacity * sizeof *both);
    if (!both)
        return false;
    for (uint32_t i = 0; i < old; i++) {
        both[i] = order->eligible[i];
        both[capacity + i] = order->waiting[i];
    }
    lw__free(order->allocator, order->eligible, 2 * old * sizeof *both);
    order->eligible = both;
    order->waiting = both + capacity;
    order->active_capacity = capacity;
    order->bytes += 2 * (capacity - old) * sizeof *both;
    return true;
}

void lw__turns_free(struct lw__order *order) {
    lw__free(order->allocator, order->eligible,
             2 * order->active_capacity * sizeof *order->eligible);
}
