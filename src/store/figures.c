/* Figures: copies of counters, some kinds or queues at a time, so that the mutex is never held for
 * long. Those of one kind or queue are all of the same moment. */
#include "store/index.h"

#include "base/clock.h"
#include "base/error.h"

#include <errno.h>

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
        copy_kind_locked(lw__index_kind_at(index, first + count), &figures[count]);
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
        copy_queue_locked(lw__index_queue_at(index, first + count), &figures[count]);
        count++;
    }
    lw__index_unlock(index);
    return count;
}

bool lw__index_lane_figures(struct lw__index *index, struct lw__lane_cursor *cursor,
                            struct lw__lane_figures *figures, uint32_t max, uint32_t *count) {
    uint32_t looks = 16 * LW__FIGURES_MAX;
    *count = 0;
    lw__index_lock(index);
    for (; cursor->queue < index->queue_count && looks > 0; looks--) {
        const struct lw__queue *queue = lw__index_queue_at(index, cursor->queue);
        const struct lw__lane *lane =
            cursor->lane ? cursor->lane->next_of_queue : queue->order.lanes;
        if (lane && (*count == max || *count == LW__FIGURES_MAX))
            break;
        if (lane)
            figures[(*count)++] =
                (struct lw__lane_figures){.queue = queue->number,
                                          .kind = ((const struct lw__kind *)lane->kind)->number,
                                          .enqueued = lane->count};
        cursor->lane = lane;
        cursor->queue += !lane;
    }
    bool has_more = cursor->queue < index->queue_count;
    lw__index_unlock(index);
    return has_more;
}

bool lw__index_is_slow_locked(const struct lw__index *index) {
    return index->busy_since > 0
           && lw__now(lw__clock_system()) > index->busy_since + (uint64_t)LW__SLOW_NS;
}

static void tell_slow(uint64_t since, lw_error *trouble) {
    lw__error_set(
        trouble, LW_ESYSTEM, ETIMEDOUT,
        "the disk hangs: a commit is under way for %llu s, and nothing else can be "
        "written; look at the kernel's log, and what else uses the disk",
        (unsigned long long)((lw__now(lw__clock_system()) - since) / (uint64_t)LW__NS_PER_S));
}

bool lw__index_trouble(struct lw__index *index, lw_error *trouble) {
    lw__index_lock(index);
    bool is_halted = index->is_halted, is_slow = !is_halted && lw__index_is_slow_locked(index);
    *trouble = index->trouble;
    uint64_t since = index->busy_since;
    lw__index_unlock(index);
    if (is_slow)
        tell_slow(since, trouble);
    return is_halted || is_slow;
}

int lw__index_explain_status(struct lw__index *index, int status, lw_error *err) {
    lw_error trouble;
    lw__index_trouble(index, &trouble);
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
        .is_durable = index->journal != NULL,
        .is_halted = index->is_halted || lw__index_is_slow_locked(index),
        .errors = index->errors,
        .committed_at = index->committed_at,
        .pending = index->journal ? index->journal->pending : 0,
    };
    lw__index_unlock(index);
}
