/* Telling what has ended: the log, the program's callbacks, and arguments that nobody took.
 *
 * Runs on workers, and wherever an engine without workers is driven, with no lock held. The store
 * keeps a task for its teller until that hands it back, which is the last step: so a stop that
 * waits for quiet waits for the callbacks too. A callback may end its thread: the steps that are
 * left are then done while it unwinds. */
#include "base/log.h"
#include "engine/engine_internal.h"

#include <pthread.h>

struct telling {
    lw_engine *engine;
    struct lw__task *task;
    lw_snapshot snapshot;
    unsigned step; /* the next one */
};

/* ---- the steps ----------------------------------------------------------------------------- */

static uint64_t ms_between(uint64_t from, uint64_t to) {
    return to > from ? (to - from) / LW__NS_PER_MS : 0;
}

static void log_error(const struct telling *t, lw_log_level level, const struct lw__errors *errors,
                      const struct lw__fault_entry *entry) {
    const lw_snapshot *s = &t->snapshot;
    lw__log(&t->engine->set.log, level, "engine", "an attempt ended with an error",
            LW__FIELD_TEXT("engine", t->engine->set.name), LW__FIELD_U64("id", s->id),
            LW__FIELD_TEXT("kind", s->kind), LW__FIELD_TEXT("queue", s->queue),
            LW__FIELD_U64("attempt", entry->attempt),
            LW__FIELD_TEXT("fault", lw_fault_name((lw_fault)entry->fault)),
            LW__FIELD_U64("after_ms", ms_between(t->task->created_at, entry->at)),
            LW__FIELD_TEXT("error", (const char *)errors + entry->text_at));
}

static void log_dropped(const struct telling *t, lw_log_level level, uint32_t count) {
    lw__log(&t->engine->set.log, level, "engine", "errors of more attempts were not kept",
            LW__FIELD_TEXT("engine", t->engine->set.name), LW__FIELD_U64("id", t->snapshot.id),
            LW__FIELD_U64("count", count));
}

/* Each once: those from before it was retried by hand have been logged then, and the last one of a
 * task that did not finish is told with its end. While it is told nobody changes them. */
static void log_errors(const struct telling *t, lw_log_level level,
                       const struct lw__errors *errors) {
    uint32_t count = errors->count;
    if (t->snapshot.state != LW_FINISHED && count > 0)
        count--;
    for (uint32_t i = 0; i < count; i++) {
        if (errors->entries[i].at >= errors->retried_at)
            log_error(t, level, errors, &errors->entries[i]);
        if (i == 0 && errors->dropped > 0)
            log_dropped(t, level, errors->dropped);
    }
}

static void log_end_of_finished(const struct telling *t) {
    const lw_snapshot *s = &t->snapshot;
    lw__log(&t->engine->set.log, LW_LOG_INFO, "engine", "a task has finished after errors",
            LW__FIELD_TEXT("engine", t->engine->set.name), LW__FIELD_U64("id", s->id),
            LW__FIELD_TEXT("kind", s->kind), LW__FIELD_TEXT("queue", s->queue),
            LW__FIELD_U64("attempts", s->attempts),
            LW__FIELD_U64("total_ms", ms_between(s->created_ns, s->ended_ns)));
}

static void log_end_of_other(const struct telling *t, lw_log_level level) {
    const lw_snapshot *s = &t->snapshot;
    bool has_failed = s->state == LW_FAILED;
    lw__log(&t->engine->set.log, level, "engine",
            has_failed ? "a task has failed" : "a task was aborted",
            LW__FIELD_TEXT("engine", t->engine->set.name), LW__FIELD_U64("id", s->id),
            LW__FIELD_TEXT("kind", s->kind), LW__FIELD_TEXT("queue", s->queue),
            LW__FIELD_U64("attempts", s->attempts),
            LW__FIELD_U64("total_ms", ms_between(s->created_ns, s->ended_ns)),
            LW__FIELD_TEXT(has_failed ? "error" : "why", s->last_error));
}

/* What was aborted before it ever began is what somebody asked for, and may be thousands. */
static lw_log_level level_of(const lw_snapshot *snapshot) {
    if (snapshot->state == LW_FAILED)
        return LW_LOG_WARN;
    return snapshot->state == LW_ABORTED && snapshot->attempts == 0 ? LW_LOG_DEBUG : LW_LOG_INFO;
}

static void log_end(struct telling *t) {
    const struct lw__errors *errors = lw__see(&t->task->errors);
    lw_log_level level = level_of(&t->snapshot);
    if (errors && lw__log_wants(&t->engine->set.log, level))
        log_errors(t, level, errors);
    if (t->snapshot.state != LW_FINISHED)
        log_end_of_other(t, level);
    else if (errors && errors->count > 0)
        log_end_of_finished(t);
}

static void tell_submitter(struct telling *t) {
    const struct lw__spec *spec = lw__task_spec(t->task);
    if (spec && spec->on_end)
        spec->on_end(spec->user, &t->snapshot);
}

static void tell_program(struct telling *t) {
    const struct lw__engine_settings *set = &t->engine->set;
    if (t->snapshot.state == LW_FAILED && set->on_failed)
        set->on_failed(set->user, &t->snapshot);
    if (t->snapshot.state == LW_ABORTED && set->on_aborted)
        set->on_aborted(set->user, &t->snapshot);
}

/* After on_end, whose `user` may be freed together with the argument. */
static void drop_argument(struct telling *t) {
    const struct lw__spec *spec = lw__task_spec(t->task);
    if (spec && spec->on_drop && !(lw__task_flags(t->task) & LW__TASK_SPENT))
        spec->on_drop(spec->arg);
}

static void hand_back(struct telling *t) {
    struct lw__store *store = t->engine->store;
    store->ops->told(store, lw__engine_now(t->engine), t->task);
    lw_snapshot_clear(&t->snapshot);
}

static void (*const steps[])(struct telling *t) = {
    log_end, tell_submitter, tell_program, drop_argument, hand_back,
};

/* ---- one task after the other -------------------------------------------------------------- */

static void go_on(void *arg) {
    struct telling *t = arg;
    while (t->step < sizeof steps / sizeof *steps && !lw__engine_is_forked(t->engine))
        steps[t->step++](t);
}

/* The log does without the payload. */
static bool is_payload_wanted(const lw_engine *engine, const lw_snapshot *snapshot) {
    return (snapshot->state == LW_FAILED && engine->set.on_failed)
           || (snapshot->state == LW_ABORTED && engine->set.on_aborted);
}

/* Without memory for a copy it is told with what needs none; and without its payload, if that is in
 * a file that cannot be read. */
static void tell_one(lw_engine *engine, struct lw__task *task) {
    struct telling t = {.engine = engine, .task = task, .snapshot = LW_SNAPSHOT_INIT};
    uint32_t ticket = lw__grace_enter(&engine->index->grace);
    bool must_read = false;
    int rc = lw__snapshot_fill(engine, task, &t.snapshot, &must_read);
    lw__grace_leave(&engine->index->grace, ticket);
    if (rc == LW_OK && must_read && is_payload_wanted(engine, &t.snapshot))
        lw__snapshot_read(engine, &t.snapshot);
    LW__POINT("tell: taken, not told");
    pthread_cleanup_push(go_on, &t);
    go_on(&t);
    pthread_cleanup_pop(0);
}

uint32_t lw__tell(lw_engine *engine, uint32_t max) {
    struct lw__store *store = engine->store;
    struct lw__task *task;
    uint32_t count = 0;
    for (; count < max && !lw__engine_is_forked(engine)
           && (task = store->ops->next_told(store)) != NULL;
         count++)
        tell_one(engine, task);
    return count;
}

bool lw__tell_is_wanted(const lw_engine *engine) {
    struct lw__index *index = engine->index;
    lw__index_lock(index);
    bool is_wanted = lw__link_first(&index->telling) != NULL;
    lw__index_unlock(index);
    return is_wanted;
}
