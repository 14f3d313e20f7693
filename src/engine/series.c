/* Which kinds and queues have series of their own in the figures: at most LW__SERIES_MAX of each,
 * the others are summed. So a page of figures, and the memory for histograms, is bounded however
 * many names there are.
 *
 * A name that was declared takes a place, and keeps it; after LW__SERIES_MAX of them no place is
 * left, and all further names, declared ones too, are summed. The other places go to those who come
 * first; and at a page, at most once a minute, a name that had more than twice as many submits
 * since the last time as the least busy one that was not declared takes its place.
 *
 * No counter ever goes back. One that gets a place counts from there on, and what it had before
 * stays with the others. When it loses the place its series ends, and what that had is lost to the
 * sum of all; it begins at 0 again if it comes back, as after a restart. So rates are right, for
 * each series and for their sum.
 *
 * Threads: under series_mu, but for lw__series_record. */
#include "engine/engine_internal.h"

#include "base/memory.h"

#include <string.h>

#define REVIEW_NS (60 * LW__NS_PER_S)
#define MUCH_BUSIER 2 /* times */

/* ---- histograms --------------------------------------------------------------------------- */

static void init_latencies(struct lw__latencies *latencies) {
    memset(latencies, 0, sizeof *latencies);
    lw__mutex_init(&latencies->mu);
}

static bool record(struct lw__latencies *latencies, const struct lw__series_name *whose,
                   uint64_t wait_ns, uint64_t run_ns) {
    lw__mutex_lock(&latencies->mu);
    bool is_right = latencies->whose == whose; /* its place may have gone to another just now */
    if (is_right) {
        lw__histogram_record(&latencies->wait, wait_ns);
        lw__histogram_record(&latencies->run, run_ns);
    }
    lw__mutex_unlock(&latencies->mu);
    return is_right;
}

void lw__series_record(struct lw__series *series, struct lw__series_name *name, uint64_t wait_ns,
                       uint64_t run_ns) {
    struct lw__latencies *own = atomic_load_explicit(&name->latencies, memory_order_acquire);
    if (!own || !record(own, name, wait_ns, run_ns))
        record(&series->others, NULL, wait_ns, run_ns);
}

/* ---- places ------------------------------------------------------------------------------- */

void lw__series_init(struct lw__series *series, uint64_t now) {
    init_latencies(&series->others);
    series->reviewed_at = now;
}

void lw__series_free(struct lw__series *series, const lw_allocator *allocator) {
    for (uint32_t i = 0; i < LW__SERIES_MAX; i++) {
        struct lw__latencies *latencies = series->places[i].latencies;
        if (latencies)
            lw__mutex_free(&latencies->mu);
        lw__free(allocator, latencies, sizeof *latencies);
    }
    lw__mutex_free(&series->others.mu);
}

static void give_place(struct lw__series *series, uint32_t at, struct lw__series_name *name,
                       const uint64_t *counters) {
    struct lw__series_place *place = &series->places[at];
    place->name = name;
    memcpy(place->base, counters, series->counter_count * sizeof *counters);
    name->place = at + 1;
    lw__mutex_lock(&place->latencies->mu);
    memset(&place->latencies->wait, 0, sizeof place->latencies->wait);
    memset(&place->latencies->run, 0, sizeof place->latencies->run);
    place->latencies->whose = name;
    lw__mutex_unlock(&place->latencies->mu);
    atomic_store_explicit(&name->latencies, place->latencies, memory_order_release);
}

static void take_place(struct lw__series *series, uint32_t at, const uint64_t *counters) {
    struct lw__series_place *place = &series->places[at];
    for (uint32_t i = 0; i < series->counter_count; i++)
        series->gone[i] += counters[i] - place->base[i];
    place->name->place = 0;
    atomic_store(&place->name->latencies, NULL);
}

bool lw__series_reserve(struct lw__series *series, const lw_allocator *allocator) {
    uint32_t next = series->count;
    if (next == LW__SERIES_MAX || series->places[next].latencies)
        return true;
    struct lw__latencies *latencies = lw__alloc(allocator, sizeof *latencies);
    if (!latencies)
        return false;
    init_latencies(latencies);
    series->places[next].latencies = latencies;
    return true;
}

void lw__series_enter(struct lw__series *series, struct lw__series_name *name) {
    static const uint64_t nothing[LW__SERIES_COUNTERS];
    if (series->count == LW__SERIES_MAX)
        return;
    give_place(series, series->count, name, nothing);
    series->count++;
}

void lw__series_declare(
    struct lw__series *series, struct lw__series_name *name, const uint64_t *counters,
    void (*read)(void *user, const struct lw__series_name *name, uint64_t *counters), void *user) {
    name->is_declared = true;
    if (name->place > 0)
        return;
    uint32_t at = series->count;
    while (at > 0 && series->places[at - 1].name->is_declared)
        at--;
    if (at == 0)
        return; /* all are: the first ones keep theirs */
    uint64_t old[LW__SERIES_COUNTERS];
    read(user, series->places[at - 1].name, old);
    take_place(series, at - 1, old);
    give_place(series, at - 1, name, counters);
}

/* ---- reviews ------------------------------------------------------------------------------ */

bool lw__series_begin_review(struct lw__series *series, uint64_t now) {
    series->candidate_count = 0;
    if (now < series->reviewed_at || now - series->reviewed_at < REVIEW_NS)
        return false;
    series->reviewed_at = now;
    return true;
}

/* The busiest ones are kept. */
static void propose(struct lw__series *series, const struct lw__series_candidate *candidate) {
    uint32_t least = 0;
    if (series->candidate_count < LW__SERIES_MAX) {
        series->candidates[series->candidate_count++] = *candidate;
        return;
    }
    for (uint32_t i = 1; i < LW__SERIES_MAX; i++) {
        if (series->candidates[i].activity < series->candidates[least].activity)
            least = i;
    }
    if (candidate->activity > series->candidates[least].activity)
        series->candidates[least] = *candidate;
}

void lw__series_review(struct lw__series *series, struct lw__series_name *name,
                       const uint64_t *counters) {
    struct lw__series_candidate candidate = {.name = name, .activity = counters[0] - name->seen};
    size_t size = series->counter_count * sizeof *counters;
    name->seen = counters[0];
    if (name->place > 0) {
        struct lw__series_place *place = &series->places[name->place - 1];
        place->activity = candidate.activity;
        memcpy(place->counters, counters, size);
    } else if (candidate.activity > 0) {
        memcpy(candidate.counters, counters, size);
        propose(series, &candidate);
    }
}

/* The place whose name had the fewest submits, and may go; NULL: none. */
static struct lw__series_place *least_busy(struct lw__series *series) {
    struct lw__series_place *least = NULL;
    for (uint32_t i = 0; i < series->count; i++) {
        struct lw__series_place *place = &series->places[i];
        if (!place->name->is_declared && (!least || place->activity < least->activity))
            least = place;
    }
    return least;
}

void lw__series_end_review(struct lw__series *series) {
    for (uint32_t i = 0; i < series->candidate_count; i++) {
        const struct lw__series_candidate *candidate = &series->candidates[i];
        struct lw__series_place *least = least_busy(series);
        if (!least || candidate->activity <= MUCH_BUSIER * least->activity)
            continue;
        uint32_t at = (uint32_t)(least - series->places);
        take_place(series, at, least->counters);
        give_place(series, at, candidate->name, candidate->counters);
        least->activity = candidate->activity;
        memcpy(least->counters, candidate->counters, sizeof least->counters);
    }
}

/* ---- counters ----------------------------------------------------------------------------- */

void lw__series_subtract_base(const struct lw__series *series, const struct lw__series_name *name,
                              uint64_t *counters) {
    const struct lw__series_place *place = &series->places[name->place - 1];
    for (uint32_t i = 0; i < series->counter_count; i++)
        counters[i] -= place->base[i];
}

void lw__series_complete_others(const struct lw__series *series, uint64_t *counters) {
    for (uint32_t i = 0; i < series->counter_count; i++) {
        for (uint32_t p = 0; p < series->count; p++)
            counters[i] += series->places[p].base[i];
        counters[i] -= series->gone[i];
    }
}
