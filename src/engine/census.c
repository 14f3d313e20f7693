/* Queues and kinds, one by one. Their figures are copied some at a time, and shown with no lock
 * held. */
#include "engine/engine_internal.h"

static int check(const lw_engine *engine, bool has_each) {
    int rc = lw__engine_check(engine);
    return rc < 0 || has_each ? rc : LW_EINVAL;
}

static lw_queue_stats queue_stats_of(const struct lw__queue_figures *queue) {
    return (lw_queue_stats){.name = queue->name,
                            .is_paused = queue->is_paused,
                            .unfinished = queue->unfinished,
                            .enqueued = queue->enqueued,
                            .bytes = queue->bytes,
                            .submitted_total = queue->submitted};
}

int lw_list_queues(lw_engine *engine, bool (*each)(void *user, const lw_queue_stats *queue),
                   void *user) {
    struct lw__queue_figures queues[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    int shown = 0, rc = check(engine, each != NULL);
    if (rc < 0)
        return rc;
    while ((count = lw__index_queue_figures(engine->index, first, queues, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            lw_queue_stats stats = queue_stats_of(&queues[i]);
            shown++;
            if (!each(user, &stats))
                return shown;
        }
        first += count;
    }
    return shown;
}

static lw_kind_stats kind_stats_of(const struct lw__kind_figures *kind) {
    return (lw_kind_stats){.name = kind->name,
                           .has_handler = kind->has_handler,
                           .created = kind->created,
                           .scheduled = kind->scheduled,
                           .enqueued = kind->enqueued,
                           .started = kind->claimed,
                           .finished = kind->retained[LW__RETAINED_FINISHED],
                           .failed = kind->retained[LW__RETAINED_FAILED],
                           .aborted = kind->retained[LW__RETAINED_ABORTED],
                           .submitted_total = kind->submitted};
}

int lw_list_kinds(lw_engine *engine, bool (*each)(void *user, const lw_kind_stats *kind),
                  void *user) {
    struct lw__kind_figures kinds[LW__FIGURES_MAX];
    uint32_t first = 0, count;
    int shown = 0, rc = check(engine, each != NULL);
    if (rc < 0)
        return rc;
    while ((count = lw__index_kind_figures(engine->index, first, kinds, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++) {
            lw_kind_stats stats = kind_stats_of(&kinds[i]);
            shown++;
            if (!each(user, &stats))
                return shown;
        }
        first += count;
    }
    return shown;
}
