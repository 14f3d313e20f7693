/* Lanes of kinds that have as many attempts as they may have.
 *
 * A kind may have lanes in thousands of queues, and be full and not full again with each task: so
 * they are not shut and opened all together. A lane is withheld when its kind becomes full by it,
 * or when it turns out to be next while its kind is full. It is opened again
 * - when its kind has a place and it is among the AT_ONCE that have waited longest, so that
 *   somebody takes the place;
 * - when it is its queue's turn: the first task of a queue comes first;
 * - a few at each claim, as long as their kind has a place: so every queue gets its turns, at the
 *   latest after as many claims as there are lanes that wait. With up to AT_ONCE queues it is as if
 *   all lanes of a kind were opened at once.
 *
 * What holds: while a kind has places and lanes that are withheld, it has at least as many open
 * lanes with tasks as it has places.
 *
 * Tasks that somebody else claims come by their order in all queues, without turns: lanes of a kind
 * that has no handler are withheld and opened all together. */
#include "store/index.h"

enum { AT_ONCE = 8 };

static void enter_short(struct lw__index *index, struct lw__kind *kind) {
    kind->next_short = NULL;
    kind->short_link = index->last_short_kind;
    *index->last_short_kind = kind;
    index->last_short_kind = &kind->next_short;
}

static void leave_short(struct lw__index *index, struct lw__kind *kind) {
    *kind->short_link = kind->next_short;
    if (kind->next_short)
        kind->next_short->short_link = kind->short_link;
    else
        index->last_short_kind = kind->short_link;
}

static void withhold(struct lw__index *index, struct lw__lane *lane) {
    struct lw__kind *kind = lane->kind;
    struct lw__queue *queue = lw__index_queue_of_lane(lane);
    if (!kind->withheld)
        enter_short(index, kind);
    lane->next_withheld = NULL;
    lane->withheld_link = kind->last_withheld;
    *kind->last_withheld = lane;
    kind->last_withheld = &lane->next_withheld;
    lane->next_in_queue = queue->withheld;
    lane->in_queue_link = &queue->withheld;
    if (lane->next_in_queue)
        lane->next_in_queue->in_queue_link = &lane->next_in_queue;
    queue->withheld = lane;
    lw__index_shut_lane_locked(index, lane, lane->shut | LW__SHUT_LIMIT);
}

static void open_lane(struct lw__index *index, struct lw__lane *lane) {
    struct lw__kind *kind = lane->kind;
    *lane->withheld_link = lane->next_withheld;
    if (lane->next_withheld)
        lane->next_withheld->withheld_link = lane->withheld_link;
    else
        kind->last_withheld = lane->withheld_link;
    if (!kind->withheld)
        leave_short(index, kind);
    *lane->in_queue_link = lane->next_in_queue;
    if (lane->next_in_queue)
        lane->next_in_queue->in_queue_link = lane->in_queue_link;
    lw__index_shut_lane_locked(index, lane, lane->shut & ~LW__SHUT_LIMIT);
    lw__lease_announce_locked(index, lane);
}

void lw__index_withhold_locked(struct lw__index *index, struct lw__lane *lane) {
    struct lw__kind *kind = lane->kind;
    if (kind->has_handler)
        withhold(index, lane);
    else
        for (struct lw__lane *each = kind->lanes; each; each = each->next_of_kind)
            if (!(each->shut & LW__SHUT_LIMIT))
                withhold(index, each);
}

void lw__index_open_withheld_locked(struct lw__index *index, struct lw__kind *kind,
                                    uint32_t count) {
    size_t ready = index->order.ready_count;
    uint32_t places = lw__kind_is_full(kind) ? 0 : kind->concurrency - kind->claimed;
    places = places < count ? places : count;
    uint64_t left = places == 0 ? 0 : (uint64_t)places + AT_ONCE - 1;
    while (left > 0 && kind->withheld) {
        struct lw__lane *lane = kind->withheld;
        index->order.looks++;
        open_lane(index, lane);
        if (kind->has_handler && lane->count > 0 && !(lane->shut & LW__SHUT_PAUSED))
            left--; /* an empty one, or a paused one, takes no place */
    }
    if (index->order.ready_count > ready)
        index->hooks.wake(index->hooks.user);
}

void lw__index_open_queue_locked(struct lw__index *index, struct lw__queue *queue) {
    struct lw__lane *next;
    for (struct lw__lane *lane = queue->withheld; lane; lane = next) {
        next = lane->next_in_queue;
        index->order.looks++;
        if (!lw__kind_is_full(lane->kind))
            open_lane(index, lane);
    }
}

/* One kind after the other has its turn. */
void lw__index_open_some_locked(struct lw__index *index) {
    for (int i = 0; i < AT_ONCE && index->short_kinds; i++) {
        struct lw__kind *kind = index->short_kinds;
        leave_short(index, kind);
        enter_short(index, kind);
        index->order.looks++;
        if (!lw__kind_is_full(kind))
            lw__index_open_withheld_locked(index, kind, 1);
    }
}
