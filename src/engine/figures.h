/* All figures of one page, copied: those of names that have series of their own (series.c), and the
 * sum of all others. Bounded, however many names there are. */
#ifndef LW_ENGINE_FIGURES_H
#define LW_ENGINE_FIGURES_H

#include "engine/engine_internal.h"

/* Bounds of the histograms' buckets: 2^10 ns to 2^42 ns, each four times the last. */
#define LW__LATENCY_BOUNDS 17
#define LW__LATENCY_BITS(i) (10 + 2 * (i))

struct lw__latency_figures {
    uint64_t below[LW__LATENCY_BOUNDS]; /* cumulative */
    uint64_t count, sum_ns;
};

enum { LW__FIGURES_WAIT, LW__FIGURES_RUN };

/* Names with a series, and at the end all others together. */
#define LW__FIGURES_NAMES (LW__SERIES_MAX + 1)

/* Who has no series of its own: the label of their sum. No name can have these letters. */
#define LW__FIGURES_OTHERS "(other)"

struct lw__figures {
    lw_engine *engine;
    struct lw__store_figures store;
    uint32_t kind_count, queue_count;       /* the others included, if there are any */
    bool has_other_kinds, has_other_queues; /* they are the last then */
    uint64_t paused_others;                 /* of these queues */
    struct lw__kind_figures kinds[LW__FIGURES_NAMES];
    struct lw__queue_figures queues[LW__FIGURES_NAMES];
    struct lw__latency_figures kind_latencies[LW__FIGURES_NAMES][2];
    struct lw__latency_figures queue_latencies[LW__FIGURES_NAMES][2];
    uint64_t enqueued[LW__FIGURES_NAMES][LW__FIGURES_NAMES]; /* by queue and kind */
    bool has_lane[LW__FIGURES_NAMES][LW__FIGURES_NAMES];
};

/* NULL: no memory. */
struct lw__figures *lw__figures_copy(lw_engine *engine);
void lw__figures_free(struct lw__figures *figures);

#endif
