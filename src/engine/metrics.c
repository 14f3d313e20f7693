/* Figures: the sums of lw_get_stats, and all of them as OpenMetrics text. They are copied first
 * (figures.h), and formatted and written with no lock held. */
#include "engine/figures.h"

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

static uint64_t age_of(lw_engine *engine, uint64_t at) {
    uint64_t now = lw__engine_now(engine);
    return now > at ? now - at : 0;
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

/* ---- lw_get_store_health ------------------------------------------------------------------ */

int lw_get_store_health(lw_engine *engine, lw_store_health *health) {
    int rc = lw__engine_check(engine);
    if (rc < 0 || !health || lw__engine_remote(engine))
        return rc < 0 ? rc : LW_EINVAL;
    const struct lw__store_ops *ops = engine->store->ops;
    struct lw__store_figures store;
    *health = (lw_store_health){.commit_age_ms = -1};
    bool is_halted = lw__index_trouble(engine->index, &health->last);
    if (ops->examine)
        health->code = ops->examine(engine->store, &is_halted, &health->last);
    health->status = is_halted ? health->last.status : LW_OK;
    lw__index_figures(engine->index, &store);
    health->errors_total = store.errors;
    health->pending = store.pending;
    if (store.is_durable)
        health->commit_age_ms =
            (int64_t)(age_of(engine, store.committed_at) / (uint64_t)LW__NS_PER_MS);
    return LW_OK;
}

/* ---- samples ------------------------------------------------------------------------------ */

void lw__metrics_sample(lw_engine *engine, uint16_t kind, uint16_t queue, uint64_t wait_ns,
                        uint64_t run_ns) {
    lw__series_record(&engine->kind_series, &lw__kind_of(engine, kind)->series, wait_ns, run_ns);
    lw__series_record(&engine->queue_series, &lw__queue_of(engine, queue)->series, wait_ns, run_ns);
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

static struct label kind_label(const struct lw__kind_figures *kind) {
    return (struct label){"kind", kind->name};
}

static struct label queue_label(const struct lw__queue_figures *queue) {
    return (struct label){"queue", queue->name};
}

static void write_states(struct writer *w, const struct lw__figures *f) {
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
    for (uint32_t k = 0; k < f->kind_count; k++)
        for (size_t s = 0; s < sizeof states / sizeof *states; s++)
            put_sample(w, &tasks, kind_label(&f->kinds[k]),
                       (struct label){"state", lw_state_name(states[s].state)},
                       figure_at(&f->kinds[k], states[s].at));
}

static void write_kinds(struct writer *w, const struct lw__figures *f) {
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
        for (uint32_t k = 0; k < f->kind_count; k++)
            put_sample(w, &families[i], kind_label(&f->kinds[k]), none,
                       figure_at(&f->kinds[k], families[i].at));
    }
    begin(w, &limit);
    for (uint32_t k = 0; k < f->kind_count - f->has_other_kinds; k++) {
        uint32_t n = f->kinds[k].concurrency;
        put_sample(w, &limit, kind_label(&f->kinds[k]), none, n == UINT32_MAX ? UINT64_MAX : n);
    }
    begin(w, &handler);
    for (uint32_t k = 0; k < f->kind_count - f->has_other_kinds; k++)
        put_sample(w, &handler, kind_label(&f->kinds[k]), none, f->kinds[k].has_handler);
}

/* ---- histograms --------------------------------------------------------------------------- */

/* LW__LATENCY_BITS, as short as OpenMetrics wants it. */
static const char *const bounds[LW__LATENCY_BOUNDS] = {
    "1.024e-06",      "4.096e-06",      "1.6384e-05",   "6.5536e-05",   "0.000262144",
    "0.001048576",    "0.004194304",    "0.016777216",  "0.067108864",  "0.268435456",
    "1.073741824",    "4.294967296",    "17.179869184", "68.719476736", "274.877906944",
    "1099.511627776", "4398.046511104",
};

static void put_bucket(struct writer *w, const struct family *family, struct label whose,
                       const char *bound, uint64_t count) {
    put_name(w, family, "_bucket", whose, (struct label){"le", bound});
    put_count(w, count);
    put_text(w, "\n");
}

static void write_histogram(struct writer *w, const struct family *family, struct label whose,
                            const struct lw__latency_figures *latencies) {
    for (size_t i = 0; i < LW__LATENCY_BOUNDS; i++)
        put_bucket(w, family, whose, bounds[i], latencies->below[i]);
    put_bucket(w, family, whose, "+Inf", latencies->count);
    put_name(w, family, "_sum", whose, none);
    put_seconds(w, latencies->sum_ns);
    put_text(w, "\n");
    put_name(w, family, "_count", whose, none);
    put_count(w, latencies->count);
    put_text(w, "\n");
}

static void write_histograms(struct writer *w, const struct lw__figures *f) {
    static const struct family of_kind[] = {
        {"queue_wait_seconds", "histogram",
         "How long a sample of tasks was enqueued before it started.", "seconds", LW__FIGURES_WAIT},
        {"run_seconds", "histogram", "How long a sample of attempts ran.", "seconds",
         LW__FIGURES_RUN},
    };
    static const struct family of_queue[] = {
        {"queue_tasks_wait_seconds", "histogram",
         "How long a sample of a queue's tasks was enqueued before it started.", "seconds",
         LW__FIGURES_WAIT},
        {"queue_tasks_run_seconds", "histogram", "How long a sample of a queue's attempts ran.",
         "seconds", LW__FIGURES_RUN},
    };
    for (size_t i = 0; i < 2; i++) {
        begin(w, &of_kind[i]);
        for (uint32_t k = 0; k < f->kind_count && w->rc >= 0; k++)
            write_histogram(w, &of_kind[i], kind_label(&f->kinds[k]), &f->kind_latencies[k][i]);
    }
    for (size_t i = 0; i < 2; i++) {
        begin(w, &of_queue[i]);
        for (uint32_t q = 0; q < f->queue_count && w->rc >= 0; q++)
            write_histogram(w, &of_queue[i], queue_label(&f->queues[q]), &f->queue_latencies[q][i]);
    }
}

/* ---- per queue ---------------------------------------------------------------------------- */

static void write_queues(struct writer *w, const struct lw__figures *f) {
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
    static const struct family paused = {"queue_paused", "gauge",
                                         "Whether a queue is paused; of the others, how many are.",
                                         NULL, 0};
    uint32_t own = f->queue_count - f->has_other_queues;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        bool is_limit = families[i].at == offsetof(struct lw__queue_figures, limit)
                        || families[i].at == offsetof(struct lw__queue_figures, byte_limit);
        begin(w, &families[i]);
        for (uint32_t q = 0; q < (is_limit ? own : f->queue_count); q++)
            put_sample(w, &families[i], queue_label(&f->queues[q]), none,
                       figure_at(&f->queues[q], families[i].at));
    }
    begin(w, &paused);
    for (uint32_t q = 0; q < own; q++)
        put_sample(w, &paused, queue_label(&f->queues[q]), none, f->queues[q].is_paused);
    if (f->has_other_queues)
        put_sample(w, &paused, queue_label(&f->queues[own]), none, f->paused_others);
}

static void write_lanes(struct writer *w, const struct lw__figures *f) {
    static const struct family enqueued = {"queue_enqueued_tasks", "gauge",
                                           "Tasks that wait for a worker, by queue and kind.", NULL,
                                           0};
    begin(w, &enqueued);
    for (uint32_t q = 0; q < f->queue_count && w->rc >= 0; q++)
        for (uint32_t k = 0; k < f->kind_count; k++)
            if (f->has_lane[q][k])
                put_sample(w, &enqueued, queue_label(&f->queues[q]), kind_label(&f->kinds[k]),
                           f->enqueued[q][k]);
}

/* ---- of the engine ------------------------------------------------------------------------ */

struct engine_figures {
    uint64_t existed, refused, stuck, swept;
    uint64_t tasks, task_limit, bytes, byte_limit, reserve_used, reserve;
    uint64_t workers, busy, stuck_now;
    uint64_t untold, keys_kept;
    uint64_t kinds, kind_limit, queues, queue_limit;
};

static struct engine_figures engine_figures_of(const struct lw__figures *f) {
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
        .kinds = f->store.kind_count,
        .kind_limit = engine->set.kind_count_max,
        .queues = f->store.queue_count,
        .queue_limit = engine->set.queue_count_max,
    };
    lw__mutex_lock(&engine->hands_mu);
    for (struct lw__hand *hand = engine->hands; hand; hand = hand->next) {
        e.stuck_now += atomic_load(&hand->is_stuck);
        e.busy += hand->pool_ctx && atomic_load(&hand->token) != 0;
    }
    lw__mutex_unlock(&engine->hands_mu);
    return e;
}

static void write_engine(struct writer *w, const struct lw__figures *f) {
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
        FIGURE("known_kinds", "gauge", kinds, NULL, "Kinds that are known."),
        FIGURE("known_kinds_limit", "gauge", kind_limit, NULL, "How many there may be."),
        FIGURE("known_queues", "gauge", queues, NULL, "Queues that are known."),
        FIGURE("known_queues_limit", "gauge", queue_limit, NULL, "How many there may be."),
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

/* ---- of the store ------------------------------------------------------------------------- */

/* Only of one that has a disk. */
static void write_store(struct writer *w, const struct lw__figures *f) {
    static const struct family errors = {
        "store_errors", "counter", "How often something could not be written, or read.", NULL, 0};
    static const struct family halted = {"store_halted", "gauge",
                                         "Whether nothing can be written now, and nothing starts.",
                                         NULL, 0};
    static const struct family pending = {"store_pending_changes", "gauge",
                                          "Changes that are not written yet.", NULL, 0};
    static const struct family age = {"store_commit_age_seconds", "gauge",
                                      "How long ago the last commit was, or the open.", "seconds",
                                      0};
    if (!f->store.is_durable)
        return;
    begin(w, &errors);
    put_sample(w, &errors, none, none, f->store.errors);
    begin(w, &halted);
    put_sample(w, &halted, none, none, f->store.is_halted);
    begin(w, &pending);
    put_sample(w, &pending, none, none, f->store.pending);
    begin(w, &age);
    put_name(w, &age, "", none, none);
    put_seconds(w, age_of(f->engine, f->store.committed_at));
    put_text(w, "\n");
}

/* ---- all ---------------------------------------------------------------------------------- */

int lw_metrics_write(lw_engine *engine, int (*write)(void *user, const char *text, size_t size),
                     void *user) {
    static void (*const parts[])(struct writer *, const struct lw__figures *) = {
        write_states, write_kinds,  write_histograms, write_queues,
        write_lanes,  write_engine, write_store};
    int rc = lw__engine_check(engine);
    if (rc < 0 || !write || lw__engine_remote(engine))
        return rc < 0 ? rc : LW_EINVAL;
    struct lw__figures *f = lw__figures_copy(engine);
    struct writer w = {.write = write, .user = user};
    if (!f)
        return LW_ENOMEM;
    for (size_t i = 0; w.rc >= 0 && i < sizeof parts / sizeof *parts; i++)
        parts[i](&w, f);
    put_text(&w, "# EOF\n");
    flush(&w);
    lw__figures_free(f);
    return w.rc < 0 ? w.rc : LW_OK;
}
