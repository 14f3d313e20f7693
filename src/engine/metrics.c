/* Figures: the sums of lw_get_stats, and all of them as OpenMetrics text.
 *
 * Counters are copied out of the store some kinds at a time (store/figures.c), and formatted and
 * written with no lock held. The text wants the samples of a family together, so kinds and queues
 * are copied first: about 150 bytes each. Histograms are read where they are while they are written
 * out.
 */
#include "engine/engine_internal.h"

#include "base/memory.h"

#include <stdio.h>
#include <string.h>

/* ---- lw_get_stats ------------------------------------------------------------------------- */

static void add_kind(lw_engine_stats *stats, const struct lw__kind_figures *kind) {
    stats->created += kind->created;
    stats->scheduled += kind->scheduled;
    stats->enqueued += kind->enqueued;
    stats->started += kind->claimed;
    stats->finished += kind->retained[LW__RETAINED_FINISHED];
    stats->failed += kind->retained[LW__RETAINED_FAILED];
    stats->aborted += kind->retained[LW__RETAINED_ABORTED];
    stats->submitted_total += kind->submitted;
    stats->finished_total += kind->finished;
    stats->failed_total += kind->failed;
    stats->aborted_total += kind->aborted;
    stats->retried_total += kind->retried;
    stats->crashed_total += kind->crashed;
    stats->snoozed_total += kind->snoozed;
}

static uint64_t count_workers(lw_engine *engine) {
    lw_pool_stats stats;
    if (!atomic_load(&engine->is_started) || !engine->pool
        || lw_pool_get_stats(engine->pool, &stats) < 0)
        return 0;
    return stats.workers;
}

int lw_get_stats(lw_engine *engine, lw_engine_stats *stats) {
    int rc = lw__engine_check(engine);
    if (rc < 0 || !stats)
        return rc < 0 ? rc : LW_EINVAL;
    if (lw__engine_remote(engine))
        return lw__client_get_stats(engine, stats);
    struct lw__kind_figures kinds[LW__FIGURES_MAX];
    struct lw__store_figures store;
    uint32_t first = 0, count;
    *stats = (lw_engine_stats){0};
    while ((count = lw__index_kind_figures(engine->index, first, kinds, LW__FIGURES_MAX)) > 0) {
        for (uint32_t i = 0; i < count; i++)
            add_kind(stats, &kinds[i]);
        first += count;
    }
    lw__index_figures(engine->index, &store);
    stats->existed_total = store.existed;
    stats->swept_total = store.swept;
    stats->untold = store.untold;
    stats->keys_kept = store.lingering;
    stats->task_bytes = store.bytes;
    stats->refused_total = atomic_load(&engine->refused);
    stats->stuck_total = atomic_load(&engine->stuck_total);
    stats->workers = count_workers(engine);
    return LW_OK;
}

/* ---- samples ------------------------------------------------------------------------------ */

static void record(struct lw__latencies *latencies, uint64_t wait_ns, uint64_t run_ns) {
    lw__mutex_lock(&latencies->mu);
    lw__histogram_record(&latencies->wait, wait_ns);
    lw__histogram_record(&latencies->run, run_ns);
    lw__mutex_unlock(&latencies->mu);
}

void lw__metrics_sample(lw_engine *engine, uint16_t kind, uint16_t queue, uint64_t wait_ns,
                        uint64_t run_ns) {
    record(&lw__kind_of(engine, kind)->latencies, wait_ns, run_ns);
    record(&lw__queue_of(engine, queue)->latencies, wait_ns, run_ns);
}

/* ---- text, in pieces ---------------------------------------------------------------------- */

struct writer {
    int (*write)(void *user, const char *text, size_t size);
    void *user;
    int rc; /* negative: write has had enough */
    size_t used;
    char text[4096];
};

static void flush(struct writer *w) {
    if (w->rc >= 0 && w->used > 0)
        w->rc = w->write(w->user, w->text, w->used);
    w->used = 0;
}

static void put(struct writer *w, const char *text, size_t size) {
    while (size > 0) {
        if (w->used == sizeof w->text)
            flush(w);
        size_t room = sizeof w->text - w->used, part = size < room ? size : room;
        memcpy(w->text + w->used, text, part);
        w->used += part;
        text += part;
        size -= part;
    }
}

static void put_text(struct writer *w, const char *text) {
    put(w, text, strlen(text));
}

static void put_escaped(struct writer *w, const char *value) {
    for (; *value; value++) {
        if (*value == '\n')
            put_text(w, "\\n");
        else if (*value == '"' || *value == '\\')
            put(w, (const char[]){'\\', *value}, 2);
        else
            put(w, value, 1);
    }
}

static void put_seconds(struct writer *w, uint64_t ns) {
    char number[32];
    snprintf(number, sizeof number, "%llu.%09llu", (unsigned long long)(ns / LW__NS_PER_S),
             (unsigned long long)(ns % LW__NS_PER_S));
    put_text(w, number);
}

/* UINT64_MAX is no limit. */
static void put_count(struct writer *w, uint64_t count) {
    char number[32];
    snprintf(number, sizeof number, "%llu", (unsigned long long)count);
    put_text(w, count == UINT64_MAX ? "+Inf" : number);
}

/* ---- families and samples ----------------------------------------------------------------- */

struct family {
    const char *name, *type, *help;
    const char *unit; /* NULL: none */
    size_t at;        /* of its figure, a uint64_t, where it is one of many */
};

struct label {
    const char *name, *value; /* name NULL: none */
};

static bool is_counter(const struct family *family) {
    return strcmp(family->type, "counter") == 0;
}

static void put_line(struct writer *w, const char *what, const char *name, const char *text) {
    put_text(w, "# ");
    put_text(w, what);
    put_text(w, " legwork_");
    put_text(w, name);
    put_text(w, " ");
    put_text(w, text);
    put_text(w, "\n");
}

static void begin(struct writer *w, const struct family *family) {
    put_line(w, "TYPE", family->name, family->type);
    if (family->unit)
        put_line(w, "UNIT", family->name, family->unit);
    put_line(w, "HELP", family->name, family->help);
}

/* The sample up to its value. */
static void put_name(struct writer *w, const struct family *family, const char *suffix,
                     struct label first, struct label second) {
    const struct label labels[] = {first, second};
    const char *mark = "{";
    put_text(w, "legwork_");
    put_text(w, family->name);
    put_text(w, suffix);
    for (size_t i = 0; i < 2; i++) {
        if (!labels[i].name)
            continue;
        put_text(w, mark);
        put_text(w, labels[i].name);
        put_text(w, "=\"");
        put_escaped(w, labels[i].value);
        put_text(w, "\"");
        mark = ",";
    }
    put_text(w, *mark == ',' ? "} " : " ");
}

static void put_sample(struct writer *w, const struct family *family, struct label first,
                       struct label second, uint64_t value) {
    put_name(w, family, is_counter(family) ? "_total" : "", first, second);
    put_count(w, value);
    put_text(w, "\n");
}

static const struct label none;

static uint64_t figure_at(const void *figures, size_t at) {
    uint64_t figure;
    memcpy(&figure, (const char *)figures + at, sizeof figure);
    return figure;
}

/* ---- per kind ----------------------------------------------------------------------------- */

struct figures {
    lw_engine *engine;
    struct lw__store_figures store;
    struct lw__kind_figures *kinds;
    struct lw__queue_figures *queues;
};

static struct label kind_label(const struct lw__kind_figures *kind) {
    return (struct label){"kind", kind->name};
}

static struct label queue_label(const struct lw__queue_figures *queue) {
    return (struct label){"queue", queue->name};
}

static void write_states(struct writer *w, const struct figures *f) {
    static const struct family tasks = {"tasks", "gauge", "Tasks by kind and state.", NULL, 0};
    static const struct {
        lw_state state;
        size_t at;
    } states[] = {
        {LW_CREATED, offsetof(struct lw__kind_figures, created)},
        {LW_SCHEDULED, offsetof(struct lw__kind_figures, scheduled)},
        {LW_ENQUEUED, offsetof(struct lw__kind_figures, enqueued)},
        {LW_STARTED, offsetof(struct lw__kind_figures, claimed)},
        {LW_FINISHED, offsetof(struct lw__kind_figures, retained[LW__RETAINED_FINISHED])},
        {LW_FAILED, offsetof(struct lw__kind_figures, retained[LW__RETAINED_FAILED])},
        {LW_ABORTED, offsetof(struct lw__kind_figures, retained[LW__RETAINED_ABORTED])},
    };
    begin(w, &tasks);
    for (uint32_t k = 0; k < f->store.kind_count; k++)
        for (size_t s = 0; s < sizeof states / sizeof *states; s++)
            put_sample(w, &tasks, kind_label(&f->kinds[k]),
                       (struct label){"state", lw_state_name(states[s].state)},
                       figure_at(&f->kinds[k], states[s].at));
}

static void write_kinds(struct writer *w, const struct figures *f) {
    static const struct family families[] = {
#define COUNTER(name, field, help) \
    {name, "counter", help, NULL, offsetof(struct lw__kind_figures, field)}
        COUNTER("tasks_submitted", submitted, "Tasks that were accepted."),
        COUNTER("tasks_finished", finished, "Tasks that were done."),
        COUNTER("tasks_failed", failed, "Tasks that were given up."),
        COUNTER("tasks_aborted", aborted, "Tasks that were cancelled, expired or dropped."),
        COUNTER("tasks_retried", retried, "Attempts after which a task was tried again."),
        COUNTER("tasks_crashed", crashed, "Attempts that timed out, got stuck or crashed."),
        COUNTER("tasks_snoozed", snoozed, "Attempts that put their task off."),
#undef COUNTER
    };
    static const struct family limit = {"kind_concurrency_limit", "gauge",
                                        "Attempts of a kind that may run at once.", NULL, 0};
    static const struct family handler = {"kind_has_handler", "gauge",
                                          "Whether tasks of the kind can run here.", NULL, 0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        begin(w, &families[i]);
        for (uint32_t k = 0; k < f->store.kind_count; k++)
            put_sample(w, &families[i], kind_label(&f->kinds[k]), none,
                       figure_at(&f->kinds[k], families[i].at));
    }
    begin(w, &limit);
    for (uint32_t k = 0; k < f->store.kind_count; k++) {
        uint32_t n = f->kinds[k].concurrency;
        put_sample(w, &limit, kind_label(&f->kinds[k]), none, n == UINT32_MAX ? UINT64_MAX : n);
    }
    begin(w, &handler);
    for (uint32_t k = 0; k < f->store.kind_count; k++)
        put_sample(w, &handler, kind_label(&f->kinds[k]), none, f->kinds[k].has_handler);
}

/* ---- histograms --------------------------------------------------------------------------- */

/* Every eighth bucket ends at one of these powers of two, so that the counts are exact. */
static const struct {
    unsigned bits;
    const char *seconds; /* 2^bits ns, as short as OpenMetrics wants it */
} bounds[] = {
    {10, "1.024e-06"},      {12, "4.096e-06"},    {14, "1.6384e-05"},    {16, "6.5536e-05"},
    {18, "0.000262144"},    {20, "0.001048576"},  {22, "0.004194304"},   {24, "0.016777216"},
    {26, "0.067108864"},    {28, "0.268435456"},  {30, "1.073741824"},   {32, "4.294967296"},
    {34, "17.179869184"},   {36, "68.719476736"}, {38, "274.877906944"}, {40, "1099.511627776"},
    {42, "4398.046511104"},
};

static void put_bucket(struct writer *w, const struct family *family, struct label whose,
                       const char *bound, uint64_t count) {
    put_name(w, family, "_bucket", whose, (struct label){"le", bound});
    put_count(w, count);
    put_text(w, "\n");
}

static void write_histogram(struct writer *w, const struct family *family, struct label whose,
                            const struct lw__histogram *histogram) {
    struct lw__histogram_snapshot s = {0};
    lw__histogram_merge(&s, histogram);
    uint64_t count = 0;
    unsigned bucket = 0;
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        while (bucket < lw__histogram_bucket(UINT64_C(1) << bounds[i].bits))
            count += s.counts[bucket++];
        put_bucket(w, family, whose, bounds[i].seconds, count);
    }
    put_bucket(w, family, whose, "+Inf", s.count);
    put_name(w, family, "_sum", whose, none);
    put_seconds(w, s.sum_ns);
    put_text(w, "\n");
    put_name(w, family, "_count", whose, none);
    put_count(w, s.count);
    put_text(w, "\n");
}

/* A kind or queue that another thread is just adding has nothing to show. */
static void write_latencies(struct writer *w, const struct family *family, struct label whose,
                            const struct lw__latencies *latencies) {
    if (latencies)
        write_histogram(w, family, whose, (const void *)((const char *)latencies + family->at));
}

static const struct lw__latencies *latencies_of_kind(const struct figures *f, uint32_t k) {
    const struct lw__kind_info *info = lw__kind_of(f->engine, (uint16_t)k);
    return info ? &info->latencies : NULL;
}

static const struct lw__latencies *latencies_of_queue(const struct figures *f, uint32_t q) {
    const struct lw__queue_info *info = lw__queue_of(f->engine, (uint16_t)q);
    return info ? &info->latencies : NULL;
}

#define WAIT offsetof(struct lw__latencies, wait)
#define RUN offsetof(struct lw__latencies, run)

static void write_histograms(struct writer *w, const struct figures *f) {
    static const struct family of_kind[] = {
        {"queue_wait_seconds", "histogram",
         "How long a sample of tasks was enqueued before it started.", "seconds", WAIT},
        {"run_seconds", "histogram", "How long a sample of attempts ran.", "seconds", RUN},
    };
    static const struct family of_queue[] = {
        {"queue_tasks_wait_seconds", "histogram",
         "How long a sample of a queue's tasks was enqueued before it started.", "seconds", WAIT},
        {"queue_tasks_run_seconds", "histogram", "How long a sample of a queue's attempts ran.",
         "seconds", RUN},
    };
    for (size_t i = 0; i < 2; i++) {
        begin(w, &of_kind[i]);
        for (uint32_t k = 0; k < f->store.kind_count && w->rc >= 0; k++)
            write_latencies(w, &of_kind[i], kind_label(&f->kinds[k]), latencies_of_kind(f, k));
    }
    for (size_t i = 0; i < 2; i++) {
        begin(w, &of_queue[i]);
        for (uint32_t q = 0; q < f->store.queue_count && w->rc >= 0; q++)
            write_latencies(w, &of_queue[i], queue_label(&f->queues[q]), latencies_of_queue(f, q));
    }
}

/* ---- per queue ---------------------------------------------------------------------------- */

static void write_queues(struct writer *w, const struct figures *f) {
    static const struct family families[] = {
#define FIGURE(name, type, field, unit, help) \
    {name, type, help, unit, offsetof(struct lw__queue_figures, field)}
        FIGURE("queue_tasks", "gauge", unfinished, NULL, "Unfinished tasks of a queue."),
        FIGURE("queue_tasks_limit", "gauge", limit, NULL, "How many there may be."),
        FIGURE("queue_bytes", "gauge", bytes, "bytes", "Payloads of a queue's unfinished tasks."),
        FIGURE("queue_limit_bytes", "gauge", byte_limit, "bytes", "How many there may be."),
        FIGURE("queue_tasks_submitted", "counter", submitted, NULL,
               "Tasks that a queue has accepted."),
        FIGURE("queue_tasks_finished", "counter", finished, NULL,
               "Tasks of a queue that were done."),
        FIGURE("queue_tasks_failed", "counter", failed, NULL,
               "Tasks of a queue that were given up."),
        FIGURE("queue_tasks_aborted", "counter", aborted, NULL,
               "Tasks of a queue that were cancelled, expired or dropped."),
#undef FIGURE
    };
    static const struct family paused = {"queue_paused", "gauge", "Whether a queue is paused.",
                                         NULL, 0};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        begin(w, &families[i]);
        for (uint32_t q = 0; q < f->store.queue_count; q++)
            put_sample(w, &families[i], queue_label(&f->queues[q]), none,
                       figure_at(&f->queues[q], families[i].at));
    }
    begin(w, &paused);
    for (uint32_t q = 0; q < f->store.queue_count; q++)
        put_sample(w, &paused, queue_label(&f->queues[q]), none, f->queues[q].is_paused);
}

/* There may be as many as kinds times queues: these are not copied all at once. */
static void write_lanes(struct writer *w, const struct figures *f) {
    static const struct family enqueued = {"queue_enqueued_tasks", "gauge",
                                           "Tasks that wait for a worker, by queue and kind.", NULL,
                                           0};
    struct lw__lane_figures lanes[LW__FIGURES_MAX];
    struct lw__lane_cursor cursor = {0};
    bool has_more = true;
    begin(w, &enqueued);
    while (has_more && w->rc >= 0) {
        uint32_t count;
        has_more =
            lw__index_lane_figures(f->engine->index, &cursor, lanes, LW__FIGURES_MAX, &count);
        for (uint32_t i = 0; i < count; i++)
            put_sample(w, &enqueued, (struct label){"queue", lanes[i].queue},
                       (struct label){"kind", lanes[i].kind}, lanes[i].enqueued);
    }
}

/* ---- of the engine ------------------------------------------------------------------------ */

struct engine_figures {
    uint64_t existed, refused, stuck, swept;
    uint64_t tasks, task_limit, bytes, byte_limit, reserve_used, reserve;
    uint64_t workers, busy, stuck_now;
    uint64_t untold, keys_kept;
};

static struct engine_figures engine_figures_of(const struct figures *f) {
    lw_engine *engine = f->engine;
    struct engine_figures e = {
        .existed = f->store.existed,
        .refused = atomic_load(&engine->refused),
        .stuck = atomic_load(&engine->stuck_total),
        .swept = f->store.swept,
        .tasks = f->store.unfinished,
        .task_limit = engine->set.task_limit,
        .bytes = f->store.bytes,
        .byte_limit = engine->set.byte_limit,
        .reserve_used = f->store.reserve_used,
        .reserve = engine->set.reserve,
        .workers = count_workers(engine),
        .untold = f->store.untold,
        .keys_kept = f->store.lingering,
    };
    lw__mutex_lock(&engine->hands_mu);
    for (struct lw__hand *hand = engine->hands; hand; hand = hand->next) {
        e.stuck_now += atomic_load(&hand->is_stuck);
        e.busy += hand->pool_ctx && atomic_load(&hand->token) != 0;
    }
    lw__mutex_unlock(&engine->hands_mu);
    return e;
}

static void write_engine(struct writer *w, const struct figures *f) {
    static const struct family families[] = {
#define FIGURE(name, type, field, unit, help) \
    {name, type, help, unit, offsetof(struct engine_figures, field)}
        FIGURE("submits_existed", "counter", existed, NULL, "Submits whose key was taken."),
        FIGURE("submits_refused", "counter", refused, NULL, "Submits for which there was no room."),
        FIGURE("attempts_stuck", "counter", stuck, NULL, "Attempts that ignored their deadline."),
        FIGURE("tasks_swept", "counter", swept, NULL, "Terminal tasks that have left."),
        FIGURE("unfinished_tasks", "gauge", tasks, NULL, "Unfinished tasks of all queues."),
        FIGURE("unfinished_tasks_limit", "gauge", task_limit, NULL, "How many there may be."),
        FIGURE("payload_bytes", "gauge", bytes, "bytes", "Payloads of unfinished tasks."),
        FIGURE("payload_limit_bytes", "gauge", byte_limit, "bytes", "How many there may be."),
        FIGURE("reserve_tasks", "gauge", reserve_used, NULL, "Tasks that are in the reserve."),
        FIGURE("reserve_tasks_limit", "gauge", reserve, NULL, "How many there may be."),
        FIGURE("workers", "gauge", workers, NULL, "Threads that run handlers."),
        FIGURE("workers_busy", "gauge", busy, NULL, "Those that run one now."),
        FIGURE("workers_stuck", "gauge", stuck_now, NULL, "Of these, stuck ones."),
        FIGURE("untold_tasks", "gauge", untold, NULL, "Ended tasks whose callbacks are to come."),
        FIGURE("kept_keys", "gauge", keys_kept, NULL, "Keys of tasks that have left."),
#undef FIGURE
    };
    static const struct family running = {
        "engine_running", "gauge", "Whether the engine was started and does not stop.", NULL, 0};
    struct engine_figures e = engine_figures_of(f);
    bool is_running =
        atomic_load(&f->engine->is_started) && lw__engine_stop_level(f->engine) == LW__RUNNING;
    begin(w, &running);
    put_sample(w, &running, (struct label){"engine", f->engine->set.name}, none, is_running);
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        begin(w, &families[i]);
        put_sample(w, &families[i], none, none, figure_at(&e, families[i].at));
    }
}

/* ---- all ---------------------------------------------------------------------------------- */

static size_t kinds_size(const struct figures *f) {
    return f->store.kind_count * sizeof *f->kinds;
}

static size_t queues_size(const struct figures *f) {
    return f->store.queue_count * sizeof *f->queues;
}

static void free_figures(struct figures *f) {
    lw__free(&f->engine->set.allocator, f->kinds, kinds_size(f));
    lw__free(&f->engine->set.allocator, f->queues, queues_size(f));
}

/* Kinds and queues are only ever added: those that come later are left out. */
static int copy_figures(struct figures *f) {
    const lw_allocator *allocator = &f->engine->set.allocator;
    struct lw__index *index = f->engine->index;
    lw__index_figures(index, &f->store);
    uint32_t kinds = f->store.kind_count, queues = f->store.queue_count;
    f->kinds = kinds ? lw__alloc(allocator, kinds_size(f)) : NULL;
    f->queues = queues ? lw__alloc(allocator, queues_size(f)) : NULL;
    if ((kinds && !f->kinds) || (queues && !f->queues))
        return LW_ENOMEM;
    for (uint32_t k = 0; k < kinds;)
        k += lw__index_kind_figures(index, k, f->kinds + k, kinds - k);
    for (uint32_t q = 0; q < queues;)
        q += lw__index_queue_figures(index, q, f->queues + q, queues - q);
    return LW_OK;
}

int lw_metrics_write(lw_engine *engine, int (*write)(void *user, const char *text, size_t size),
                     void *user) {
    static void (*const parts[])(struct writer *, const struct figures *) = {
        write_states, write_kinds, write_histograms, write_queues, write_lanes, write_engine};
    int rc = lw__engine_check(engine);
    if (rc < 0 || !write || lw__engine_remote(engine))
        return rc < 0 ? rc : LW_EINVAL;
    struct figures f = {.engine = engine};
    struct writer w = {.write = write, .user = user};
    rc = copy_figures(&f);
    for (size_t i = 0; rc == LW_OK && w.rc >= 0 && i < sizeof parts / sizeof *parts; i++)
        parts[i](&w, &f);
    if (rc == LW_OK) {
        put_text(&w, "# EOF\n");
        flush(&w);
        rc = w.rc < 0 ? w.rc : LW_OK;
    }
    free_figures(&f);
    return rc;
}
