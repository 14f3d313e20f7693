/* Figures for one page, copied out of the store some names at a time (store/figures.c), so that its
 * lock is never held for long. */
#include "engine/figures.h"

#include "base/memory.h"

/* ---- who ---------------------------------------------------------------------------------- */

/* NULL: another thread is just adding it. */
static struct lw__series_name *name_of_kind(const lw_engine *engine, uint32_t number) {
    struct lw__kind_info *info = lw__kind_of(engine, (uint16_t)number);
    return info ? &info->series : NULL;
}

static struct lw__series_name *name_of_queue(const lw_engine *engine, uint32_t number) {
    struct lw__queue_info *info = lw__queue_of(engine, (uint16_t)number);
    return info ? &info->series : NULL;
}

/* Where it stands: its place, or the one behind all places. */
static uint32_t row_of(const struct lw__series *series, const struct lw__series_name *name) {
    return name && name->place > 0 ? name->place - 1 : series->count;
}

/* ---- declared names ----------------------------------------------------------------------- */

static void read_kind(void *user, const struct lw__series_name *name, uint64_t *counters) {
    const struct lw__kind_info *info =
        (const void *)((const char *)name - offsetof(struct lw__kind_info, series));
    struct lw__kind_figures figures = {0};
    lw__index_kind_figures(((lw_engine *)user)->index, info->number, &figures, 1);
    memcpy(counters, &figures.submitted, LW__SERIES_COUNTERS * sizeof *counters);
}

static void read_queue(void *user, const struct lw__series_name *name, uint64_t *counters) {
    const struct lw__queue_info *info =
        (const void *)((const char *)name - offsetof(struct lw__queue_info, series));
    struct lw__queue_figures figures = {0};
    lw__index_queue_figures(((lw_engine *)user)->index, info->number, &figures, 1);
    memcpy(counters, &figures.submitted, 4 * sizeof *counters);
}

void lw__metrics_declare_kind(lw_engine *engine, struct lw__kind_info *info) {
    uint64_t counters[LW__SERIES_COUNTERS] = {0};
    lw__mutex_lock(&engine->series_mu);
    read_kind(engine, &info->series, counters);
    lw__series_declare(&engine->kind_series, &info->series, counters, read_kind, engine);
    lw__mutex_unlock(&engine->series_mu);
}

void lw__metrics_declare_queue(lw_engine *engine, struct lw__queue_info *info) {
    uint64_t counters[LW__SERIES_COUNTERS] = {0};
    lw__mutex_lock(&engine->series_mu);
    read_queue(engine, &info->series, counters);
    lw__series_declare(&engine->queue_series, &info->series, counters, read_queue, engine);
    lw__mutex_unlock(&engine->series_mu);
}

/* ---- kinds -------------------------------------------------------------------------------- */

_Static_assert(offsetof(struct lw__kind_figures, snoozed)
                       - offsetof(struct lw__kind_figures, submitted)
                   == (LW__SERIES_COUNTERS - 1) * sizeof(uint64_t),
               "the counters of a kind are an array");
_Static_assert(offsetof(struct lw__queue_figures, aborted)
                       - offsetof(struct lw__queue_figures, submitted)
                   == 3 * sizeof(uint64_t),
               "the counters of a queue are an array");

static void add_kind(struct lw__kind_figures *sum, const struct lw__kind_figures *kind) {
    uint64_t *into = &sum->submitted;
    const uint64_t *from = &kind->submitted;
    sum->claimed += kind->claimed;
    sum->created += kind->created;
    sum->scheduled += kind->scheduled;
    sum->enqueued += kind->enqueued;
    for (int i = 0; i < 3; i++)
        sum->retained[i] += kind->retained[i];
    for (int i = 0; i < LW__SERIES_COUNTERS; i++)
        into[i] += from[i];
}

static void copy_kind(struct lw__figures *f, uint32_t number, const struct lw__kind_figures *kind) {
    const struct lw__series *series = &f->engine->kind_series;
    const struct lw__series_name *name = name_of_kind(f->engine, number);
    struct lw__kind_figures *row = &f->kinds[row_of(series, name)];
    if (!name || name->place == 0) {
        f->has_other_kinds = true;
        add_kind(row, kind);
        return;
    }
    *row = *kind;
    lw__series_subtract_base(series, name, &row->submitted);
}

static void review_kinds(lw_engine *engine) {
    struct lw__kind_figures kinds[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    while ((count = lw__index_kind_figures(engine->index, first, kinds, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            struct lw__series_name *name = name_of_kind(engine, first + i);
            if (name)
                lw__series_review(&engine->kind_series, name, &kinds[i].submitted);
        }
        first += count;
    }
    lw__series_end_review(&engine->kind_series);
}

static void copy_kinds(struct lw__figures *f) {
    struct lw__series *series = &f->engine->kind_series;
    struct lw__kind_figures kinds[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    if (lw__series_begin_review(series, lw__engine_now(f->engine)))
        review_kinds(f->engine);
    while ((count = lw__index_kind_figures(f->engine->index, first, kinds, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++)
            copy_kind(f, first + i, &kinds[i]);
        first += count;
    }
    f->kind_count = series->count + f->has_other_kinds;
    f->kinds[series->count].name = LW__FIGURES_OTHERS;
    lw__series_complete_others(series, &f->kinds[series->count].submitted);
}

/* ---- queues ------------------------------------------------------------------------------- */

static void add_queue(struct lw__queue_figures *sum, const struct lw__queue_figures *queue) {
    uint64_t *into = &sum->submitted;
    const uint64_t *from = &queue->submitted;
    sum->unfinished += queue->unfinished;
    sum->bytes += queue->bytes;
    sum->enqueued += queue->enqueued;
    for (int i = 0; i < 4; i++)
        into[i] += from[i];
}

static void copy_queue(struct lw__figures *f, uint32_t number,
                       const struct lw__queue_figures *queue) {
    const struct lw__series *series = &f->engine->queue_series;
    const struct lw__series_name *name = name_of_queue(f->engine, number);
    struct lw__queue_figures *row = &f->queues[row_of(series, name)];
    if (!name || name->place == 0) {
        f->has_other_queues = true;
        f->paused_others += queue->is_paused;
        add_queue(row, queue);
        return;
    }
    *row = *queue;
    lw__series_subtract_base(series, name, &row->submitted);
}

static void review_queues(lw_engine *engine) {
    struct lw__queue_figures queues[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    while ((count = lw__index_queue_figures(engine->index, first, queues, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            struct lw__series_name *name = name_of_queue(engine, first + i);
            if (name)
                lw__series_review(&engine->queue_series, name, &queues[i].submitted);
        }
        first += count;
    }
    lw__series_end_review(&engine->queue_series);
}

static void copy_queues(struct lw__figures *f) {
    struct lw__series *series = &f->engine->queue_series;
    struct lw__queue_figures queues[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    if (lw__series_begin_review(series, lw__engine_now(f->engine)))
        review_queues(f->engine);
    while ((count = lw__index_queue_figures(f->engine->index, first, queues, LW__FIGURES_MAX))
           > 0) {
        for (uint32_t i = 0; i < count; i++)
            copy_queue(f, first + i, &queues[i]);
        first += count;
    }
    f->queue_count = series->count + f->has_other_queues;
    f->queues[series->count].name = LW__FIGURES_OTHERS;
    lw__series_complete_others(series, &f->queues[series->count].submitted);
}

/* ---- lanes and histograms ----------------------------------------------------------------- */

static void copy_lanes(struct lw__figures *f) {
    lw_engine *engine = f->engine;
    struct lw__lane_figures lanes[LW__FIGURES_MAX];
    struct lw__lane_cursor cursor = {0};
    bool has_more = true;
    while (has_more) {
        uint32_t count;
        has_more = lw__index_lane_figures(engine->index, &cursor, lanes, LW__FIGURES_MAX, &count);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t q = row_of(&engine->queue_series, name_of_queue(engine, lanes[i].queue));
            uint32_t k = row_of(&engine->kind_series, name_of_kind(engine, lanes[i].kind));
            f->enqueued[q][k] += lanes[i].enqueued;
            f->has_lane[q][k] = true;
        }
    }
}

static void copy_histogram(const struct lw__histogram *histogram,
                           struct lw__latency_figures *figures) {
    struct lw__histogram_snapshot s = {0};
    uint64_t count = 0;
    unsigned bucket = 0;
    lw__histogram_merge(&s, histogram);
    for (int i = 0; i < LW__LATENCY_BOUNDS; i++) {
        /* every eighth bucket ends at one of these, so that the counts are exact */
        while (bucket < lw__histogram_bucket(UINT64_C(1) << LW__LATENCY_BITS(i)))
            count += s.counts[bucket++];
        figures->below[i] = count;
    }
    figures->count = s.count;
    figures->sum_ns = s.sum_ns;
}

static void copy_latencies(const struct lw__series *series, struct lw__latency_figures (*rows)[2]) {
    for (uint32_t i = 0; i <= series->count; i++) {
        const struct lw__latencies *latencies =
            i < series->count ? series->places[i].latencies : &series->others;
        copy_histogram(&latencies->wait, &rows[i][LW__FIGURES_WAIT]);
        copy_histogram(&latencies->run, &rows[i][LW__FIGURES_RUN]);
    }
}

/* ---- all ---------------------------------------------------------------------------------- */

struct lw__figures *lw__figures_copy(lw_engine *engine) {
    struct lw__figures *f = lw__alloc_zero(&engine->set.allocator, sizeof *f);
    if (!f)
        return NULL;
    f->engine = engine;
    lw__index_figures(engine->index, &f->store);
    lw__mutex_lock(&engine->series_mu);
    copy_kinds(f);
    copy_queues(f);
    copy_lanes(f);
    copy_latencies(&engine->kind_series, f->kind_latencies);
    copy_latencies(&engine->queue_series, f->queue_latencies);
    lw__mutex_unlock(&engine->series_mu);
    return f;
}

void lw__figures_free(struct lw__figures *f) {
    lw__free(&f->engine->set.allocator, f, sizeof *f);
}
