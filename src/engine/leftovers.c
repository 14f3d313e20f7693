/* Tasks that are unfinished when an engine in memory is closed, and so are lost: the log counts
 * them, on_end is told of each, and arguments that nobody took go to on_drop.
 *
 * The thread that closes does so before anything is taken down, so that a callback may call the
 * engine, which has stopped. Tasks that still run then (the stop has timed out) are left out: the
 * last of their threads frees the engine, and tells those that are left first. What is to be called
 * is taken out of the task under the store's lock, so that nobody calls it a second time, whatever
 * becomes of the task. A callback may end its thread: the rest is told while that unwinds. */
#include "base/log.h"
#include "engine/engine_internal.h"

#include <pthread.h>

struct leaving {
    lw_engine *engine;
    bool is_last;      /* nothing runs any more */
    bool is_in_memory; /* what is unfinished is lost */
    struct lw__hand hand;
    uint64_t after; /* tasks up to this id were looked at */
    struct lw__left left;
    lw_snapshot snapshot;
    unsigned step; /* the next one, for the present task */
};

/* ---- one task ------------------------------------------------------------------------------ */

static void tell_submitter(struct leaving *l) {
    if (l->left.on_end)
        l->left.on_end(l->left.user, &l->snapshot);
}

/* After on_end, whose `user` may be freed together with the argument. */
static void drop_argument(struct leaving *l) {
    if (l->left.on_drop)
        l->left.on_drop(l->left.arg);
}

static void (*const steps[])(struct leaving *l) = {tell_submitter, drop_argument};

#define STEP_COUNT (sizeof steps / sizeof *steps)

static bool is_wanted(const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    return spec && (spec->on_end || spec->on_drop) && !lw_state_is_terminal(lw__task_state(task));
}

/* The next task with something to call; false: there is none. Without memory for a copy it is told
 * with what needs none. */
static bool find_next(struct leaving *l) {
    struct lw__index *index = l->engine->index;
    for (;;) {
        bool must_read;
        uint32_t ticket = lw__grace_enter(&index->grace);
        const struct lw__task *task = lw__ids_find_from(&index->ids, l->after + 1);
        bool is_candidate = task && is_wanted(task);
        if (task)
            l->after = task->id;
        if (is_candidate)
            lw__snapshot_fill(l->engine, task, &l->snapshot, &must_read);
        lw__grace_leave(&index->grace, ticket);
        if (!task)
            return false;
        if (is_candidate && lw__index_take_left(index, l->after, l->is_last, &l->left))
            return true;
    }
}

/* ---- all ----------------------------------------------------------------------------------- */

/* Callbacks may cancel tasks that come later: these have ended, and are told so. */
static void go_on(void *arg) {
    struct leaving *l = arg;
    lw_engine *engine = l->engine;
    bool is_more = true;
    while (is_more && !lw__engine_is_forked(engine)) {
        while (l->step < STEP_COUNT && !lw__engine_is_forked(engine))
            steps[l->step++](l);
        is_more = !lw__engine_is_forked(engine) && l->is_in_memory && find_next(l);
        if (is_more)
            l->step = 0;
    }
    if (!lw__engine_is_forked(engine))
        lw__tell(engine, UINT32_MAX);
    if (lw__engine_is_forked(engine)) {
        lw__hand_desert(&l->hand);
        return;
    }
    lw_snapshot_clear(&l->snapshot);
    lw__hand_leave(&l->hand);
    lw__hand_free(&l->hand);
}

static void log_left(lw_engine *engine) {
    lw_engine_stats stats;
    if (atomic_exchange(&engine->has_logged_left, true) || lw_get_stats(engine, &stats) < 0
        || stats.created + stats.scheduled + stats.enqueued + stats.started == 0)
        return;
    lw__log(&engine->set.log, LW_LOG_WARN, "engine",
            "tasks in memory were left unfinished at the close",
            LW__FIELD_TEXT("engine", engine->set.name), LW__FIELD_U64("created", stats.created),
            LW__FIELD_U64("scheduled", stats.scheduled), LW__FIELD_U64("enqueued", stats.enqueued),
            LW__FIELD_U64("started", stats.started));
}

/* Whether there may be something to tell: in memory what was left, and everywhere what has ended
 * after the last worker looked. */
static bool must_look(lw_engine *engine, bool *is_in_memory) {
    struct lw__store_figures figures;
    lw__index_figures(engine->index, &figures);
    *is_in_memory = !figures.is_durable;
    return figures.untold > 0 || (*is_in_memory && figures.unfinished > 0);
}

bool lw__leftovers_tell(lw_engine *engine, bool is_last) {
    bool is_in_memory;
    if (!engine->store || lw__engine_remote(engine) || !must_look(engine, &is_in_memory))
        return true;
    struct leaving l = {.engine = engine,
                        .is_last = is_last,
                        .is_in_memory = is_in_memory,
                        .snapshot = LW_SNAPSHOT_INIT,
                        .step = STEP_COUNT};
    if (is_in_memory && !is_last)
        log_left(engine);
    lw__hand_init(&l.hand, engine);
    lw__hand_enter(&l.hand);
    pthread_cleanup_push(go_on, &l);
    go_on(&l);
    pthread_cleanup_pop(0);
    return !lw__engine_is_forked(engine);
}
