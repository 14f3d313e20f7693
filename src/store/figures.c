/* Figures: copies of counters, some kinds or queues at a time, so that the mutex is never held for
 * long. Those of one kind or queue are all of the same moment. */
#include "store/index.h"

#include "base/error.h"

static void copy_kind_locked(const struct lw__kind *kind, struct lw__kind_figures *figures) {
    *figures = (struct lw__kind_figures){
        .name = kind->name,
        .has_handler = kind->has_handler,
        .concurrency = kind->concurrency,
        .claimed = kind->claimed,
        .created = kind->created,
        .scheduled = kind->scheduled,
        /* what is left, instead of a walk along its lanes */
        .enqueued = kind->unfinished - kind->created - kind->scheduled - kind->claimed,
        .submitted = kind->submitted,
        .finished = kind->finished,
        .failed = kind->failed,
        .aborted = kind->aborted,
        .retried = kind->retried,
        .crashed = kind->crashed,
        .snoozed = kind->snoozed,
    };
    for (int i = 0; i < 3; i++)
        figures->retained[i] = kind->retained[i].count;
}

uint32_t lw__index_kind_figures(struct lw__index *index, uint32_t first,
                                struct lw__kind_figures *figures, uint32_t max) {
    uint32_t count = 0;
    lw__index_lock(index);
    while (count < max && count < LW__FIGURES_MAX && first + count < index->kind_count) {
        copy_kind_locked(index->kinds[first + count], &figures[count]);
        count++;
    }
    lw__index_unlock(index);
    return count;
}

static void copy_queue_locked(const struct lw__queue *queue, struct lw__queue_figures *figures) {
    *figures = (struct lw__queue_figures){
        .name = queue->name,
        .is_paused = queue->is_paused,
        .unfinished = queue->unfinished,
        .bytes = queue->bytes,
        .enqueued = queue->order.count,
        .limit = queue->limit,
        .byte_limit = queue->byte_limit,
        .submitted = queue->submitted,
        .finished = queue->finished,
        .failed = queue->failed,
        .aborted = queue->aborted,
    };
}

uint32_t lw__index_queue_figures(struct lw__index *index, uint32_t first,
                                 struct lw__queue_figures *figures, uint32_t max) {
    uint32_t count = 0;
    lw__index_lock(index);
    while (count < max && count < LW__FIGURES_MAX && first + count < index->queue_count) {
        copy_queue_locked(index->queues[first + count], &figures[count]);
        count++;
    }
    lw__index_unlock(index);
    return count;
}

/* The first lane at or after (queue, kind); NULL: none. Looks at a bounded number of places. */
static struct lw__lane *next_lane_locked(const struct lw__index *index, uint32_t *queue,
                                         uint32_t *kind, uint32_t *looks) {
    for (; *queue < index->queue_count; ++*queue, *kind = 0) {
        const struct lw__queue *q = index->queues[*queue];
        for (; *kind<q->lane_capacity && * looks> 0; ++*kind, --*looks) {
            if (q->lanes[*kind])
                return q->lanes[*kind];
        }
        if (*looks == 0)
            return NULL;
    }
    return NULL;
}

bool lw__index_lane_figures(struct lw__index *index, struct lw__lane_cursor *cursor,
                            struct lw__lane_figures *figures, uint32_t max, uint32_t *count) {
    uint32_t looks = 16 * LW__FIGURES_MAX;
    *count = 0;
    lw__index_lock(index);
    while (*count < max && *count < LW__FIGURES_MAX) {
        struct lw__lane *lane = next_lane_locked(index, &cursor->queue, &cursor->kind, &looks);
        if (!lane)
            break;
        figures[(*count)++] = (struct lw__lane_figures){.queue = index->queues[cursor->queue]->name,
                                                        .kind = index->kinds[cursor->kind]->name,
                                                        .enqueued = lane->count};
        cursor->kind++;
    }
    bool has_more = cursor->queue < index->queue_count;
    lw__index_unlock(index);
    return has_more;
}

int lw__index_explain_status(struct lw__index *index, int status, lw_error *err) {
    lw__index_lock(index);
    lw_error trouble = index->trouble;
    lw__index_unlock(index);
    if (trouble.status != status)
        return lw__error_set(err, status, 0, "%s", lw_status_text(status));
    return lw__error_set(err, status, trouble.native, "%s%s",
                         status == LW_EUNSURE ? "accepted or not, repeat it under its key: " : "",
                         trouble.message);
}

void lw__index_figures(struct lw__index *index, struct lw__store_figures *figures) {
    lw__index_lock(index);
    *figures = (struct lw__store_figures){
        .kind_count = index->kind_count,
        .queue_count = index->queue_count,
        .unfinished = index->unfinished,
        .bytes = index->bytes,
        .reserve_used = index->reserve_used,
        .existed = index->existed,
        .swept = index->swept,
        .untold = index->telling_count,
        .lingering = index->lingering,
    };
    lw__index_unlock(index);
}
