/* Why a task does not run, in sentences, from what the store and the engine know of it.
 *
 * What the store knows is of one moment (struct lw__outlook); who runs what is looked at after
 * that, so that the two may differ by what happened in between. */
#include "base/text.h"
#include "engine/engine_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define NAMED_MAX 8   /* tasks that are listed by id */
#define QUOTE_MAX 120 /* bytes of an error inside a sentence */

struct case_file {
    lw_engine *engine;
    lw_explanation *out;
    const struct lw__outlook *outlook;
    const char *kind, *queue;
    uint64_t now;
    bool starts_nothing; /* this engine, from now on */
};

/* A short text, returned by value. */
struct words {
    char text[QUOTE_MAX + 8];
};

/* ---- sentences ---------------------------------------------------------------------------- */

LW_PRINTF(2, 3) static void say(struct case_file *c, const char *format, ...) {
    lw_explanation *out = c->out;
    if (out->count == LW_EXPLAIN_MAX)
        return;
    char *reason = out->reasons[out->count++];
    va_list args;
    va_start(args, format);
    lw__text_print(reason, format, args);
    va_end(args);
}

static struct words quote(const char *text) {
    struct words words;
    if (strlen(text) <= QUOTE_MAX)
        snprintf(words.text, sizeof words.text, "%s", text);
    else
        snprintf(words.text, sizeof words.text, "%.*s...", (int)lw__text_cut(text, QUOTE_MAX),
                 text);
    return words;
}

/* A time as people say it: in one unit, to the nearest. */
static struct words how_long(uint64_t ns) {
    static const struct {
        const char *unit;
        uint64_t ms, below;
    } units[] = {{"ms", 1, 1000},
                 {"s", 1000, 120},
                 {"min", 60000, 120},
                 {"h", 3600000, 48},
                 {"days", 86400000, UINT64_MAX}};
    struct words words;
    uint64_t ms = ns / LW__NS_PER_MS + (ns % LW__NS_PER_MS >= LW__NS_PER_MS / 2);
    size_t i = 0;
    while ((ms + units[i].ms / 2) / units[i].ms >= units[i].below)
        i++;
    snprintf(words.text, sizeof words.text, "%llu %s",
             (unsigned long long)((ms + units[i].ms / 2) / units[i].ms), units[i].unit);
    return words;
}

static struct words date_of(int64_t wall_ms) {
    struct words words;
    struct tm tm;
    time_t seconds = (time_t)(wall_ms / 1000);
    if (!gmtime_r(&seconds, &tm)
        || strftime(words.text, sizeof words.text, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        words.text[0] = 0;
    return words;
}

static uint64_t since(const struct case_file *c, uint64_t at) {
    return c->now > at ? c->now - at : 0;
}

/* ---- who runs what ------------------------------------------------------------------------ */

struct running {
    uint32_t busy, stuck;    /* workers */
    uint32_t of_kind;        /* attempts of the kind that was asked for */
    uint64_t ids[NAMED_MAX]; /* the first of them */
};

static bool is_of_kind(lw_engine *engine, uint64_t id, uint16_t kind) {
    uint32_t ticket = lw__grace_enter(&engine->index->grace);
    const struct lw__task *task = lw__ids_find(&engine->index->ids, id);
    bool is_one = task && task->kind == kind && lw__task_state(task) == LW_STARTED;
    lw__grace_leave(&engine->index->grace, ticket);
    return is_one;
}

static struct running look_at_hands(lw_engine *engine, uint16_t kind) {
    struct running running = {0};
    lw__mutex_lock(&engine->hands_mu);
    for (struct lw__hand *hand = engine->hands; hand; hand = hand->next) {
        if (atomic_load(&hand->token) == 0)
            continue;
        uint64_t id = atomic_load_explicit(&hand->task_id, memory_order_relaxed);
        bool is_stuck = atomic_load(&hand->is_stuck);
        running.stuck += hand->pool_ctx && is_stuck;
        running.busy += hand->pool_ctx && !is_stuck;
        if (is_of_kind(engine, id, kind) && running.of_kind++ < NAMED_MAX)
            running.ids[running.of_kind - 1] = id;
    }
    lw__mutex_unlock(&engine->hands_mu);
    return running;
}

/* ---- what may stand in anybody's way ------------------------------------------------------ */

static bool starts_nothing(const lw_engine *engine) {
    return atomic_load(&engine->has_stopped) || lw__engine_stop_level(engine) == LW__STOP_DROP;
}

static void say_stop(struct case_file *c) {
    if (lw__engine_remote(c->engine))
        return; /* this engine's stop is not the owner's */
    if (atomic_load(&c->engine->has_stopped)) {
        say(c, "the engine has stopped, and starts nothing more");
        return;
    }
    switch (lw__engine_stop_level(c->engine)) {
    case LW__RUNNING: break;
    case LW__STOP_DRAIN_ALL:
        say(c, "the engine is stopping (drain all): what waits for a time runs now, but only once");
        break;
    case LW__STOP_DRAIN: say(c, "the engine is stopping (drain): it runs only what is due"); break;
    case LW__STOP_DROP: say(c, "the engine is stopping (drop): it starts nothing more"); break;
    }
}

/* A stop that leaves nothing to hope for is the first reason; another one stands farther down. */
static void say_stop_first(struct case_file *c) {
    if (c->starts_nothing)
        say_stop(c);
}

static void say_stop_later(struct case_file *c) {
    if (!c->starts_nothing)
        say_stop(c);
}

/* The task is a step of a flow: somebody else may be meant to run it. */
static void say_no_step(struct case_file *c) {
    char text[LW_ERROR_MESSAGE_MAX];
    if (lw__layer_explain(c->engine, c->kind, text))
        say(c, "%s", text);
    else
        say(c,
            "its kind \"%s\" is a step of a flow that this program has not registered: it waits "
            "for the program that has",
            c->kind);
}

static void say_no_handler(struct case_file *c) {
    if (c->outlook->view.flags & LW__TASK_SCOPED) {
        say_no_step(c);
        return;
    }
    const char *nearest = lw__unhandled_nearest(c->engine, c->kind).nearest;
    say(c, "its kind \"%s\" has no handler here, and no worker elsewhere has claimed it%s%s%s",
        c->kind, nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"?" : "");
}

/* Nothing new starts as long as its end could not be written. */
static void say_no_writing(struct case_file *c) {
    lw_store_health health = {.status = LW_OK};
    if (lw_get_store_health(c->engine, &health) == LW_OK && health.status < 0)
        say(c, "nothing starts until the store can be written again: %s", health.last.message);
}

static void say_obstacles(struct case_file *c) {
    if (lw__engine_remote(c->engine))
        return; /* the owner knows */
    say_no_writing(c);
    if (!atomic_load(&c->engine->is_started))
        say(c, "the engine has not been started");
    if (!c->outlook->has_handler)
        say_no_handler(c);
    if (c->outlook->is_paused)
        say(c, "its queue \"%s\" is paused", c->queue);
}

/* ---- created, scheduled ------------------------------------------------------------------- */

static void explain_created(struct case_file *c) {
    const struct lw__outlook *o = c->outlook;
    unsigned long long after = o->after;
    say_stop_first(c);
    if (o->after_left > 1)
        say(c, "it waits for task %llu, which is %s, and %u more", after,
            lw_state_name(o->after_state), (unsigned)o->after_left - 1);
    else if (o->after_left > 0)
        say(c, "it waits for task %llu, which is %s", after, lw_state_name(o->after_state));
    else
        say(c, "a fence holds it");
    say_stop_later(c);
    say_obstacles(c);
}

static void explain_scheduled(struct case_file *c) {
    const struct lw__outlook *o = c->outlook;
    uint64_t due = o->view.due_at;
    struct words until = date_of(lw__engine_wall_ms(c->engine, due));
    struct words left = how_long(due > c->now ? due - c->now : 0);
    /* A snooze leaves no error, but one of an earlier attempt may be there. */
    bool is_back_off = o->error_at != 0 && o->error_at >= o->view.started_at;
    /* In a stop nothing that is due is let go. An attempt that the stop has ended is due at once;
     * so may be one that was put off by itself. */
    bool is_held_up = due <= c->now && lw__engine_stop_level(c->engine) != LW__RUNNING;
    say_stop_first(c);
    if (o->view.started_at != 0 && !is_back_off && is_held_up)
        say(c, "its attempt %s, and it is not started again",
            o->view.snoozes == 0 ? "gave up because of the stop"
                                 : "put it off, or gave up because of the stop");
    else if (o->view.started_at != 0 && is_back_off)
        say(c, "it is scheduled until %s, in %s: the back-off after attempt %u (%s)", until.text,
            left.text, (unsigned)o->error_attempt, quote(o->error).text);
    else if (o->view.started_at != 0)
        say(c, "it is scheduled until %s, in %s: its handler put it off", until.text, left.text);
    else
        say(c, "it is scheduled until %s, in %s: it was submitted %s", until.text, left.text,
            o->view.flags & LW__TASK_WALL ? "for this time" : "with a delay");
    say_stop_later(c);
    say_obstacles(c);
}

/* ---- enqueued ----------------------------------------------------------------------------- */

static void say_kind_is_full(struct case_file *c, const struct running *running) {
    char list[NAMED_MAX * 24] = "";
    size_t at = 0;
    uint32_t count = running->of_kind, limit = c->outlook->concurrency;
    for (uint32_t i = 0; i < count && i < NAMED_MAX; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%llu", i > 0 ? ", " : "",
                               (unsigned long long)running->ids[i]);
    if (count == 0)
        say(c, "its kind \"%s\" may run %u at once, and as many do", c->kind, (unsigned)limit);
    else if (count > NAMED_MAX)
        say(c, "its kind \"%s\" may run %u at once, and these run: tasks %s and %u more", c->kind,
            (unsigned)limit, list, (unsigned)count - NAMED_MAX);
    else
        say(c, "its kind \"%s\" may run %u at once, and %s: task%s %s", c->kind, (unsigned)limit,
            count == 1 ? "this runs" : "these run", count == 1 ? "" : "s", list);
}

/* Stuck workers are replaced, as long as there may be more threads. */
static void say_workers(struct case_file *c, const struct running *running) {
    uint32_t workers = c->engine->set.workers, most = workers + c->engine->set.stuck_max;
    uint32_t able = running->stuck >= most ? 0 : most - running->stuck;
    if (able > workers)
        able = workers;
    if (workers == 0)
        say(c, "the engine has no workers: the program drives it");
    else if (able == 0)
        say(c, "all workers are stuck in tasks that ignore their deadline");
    else if (running->busy >= able && able == 1)
        say(c, "the only worker is busy");
    else if (running->busy >= able)
        say(c, "all %u workers are busy", (unsigned)able);
}

static void say_before(struct case_file *c) {
    const struct lw__outlook *o = c->outlook;
    unsigned long long before = o->before;
    if (before == 0)
        return;
    if (before == 1 && !o->is_before_cut)
        say(c, "1 task of its queue is before it");
    else
        say(c, "%s%llu tasks of its queue are before it", o->is_before_cut ? "more than " : "",
            before);
}

static void explain_enqueued(struct case_file *c) {
    const struct lw__outlook *o = c->outlook;
    if (o->is_claimed) {
        say(c, "a worker has taken it and is about to begin");
        return;
    }
    say_stop_first(c);
    say_obstacles(c);
    struct running running = look_at_hands(c->engine, o->view.kind);
    bool is_full = o->claimed >= o->concurrency;
    if (is_full)
        say_kind_is_full(c, &running);
    if (c->out->count == 0) {
        say_workers(c, &running);
        say_before(c);
    }
    if (c->out->count == 0)
        say(c, "nothing stands in its way: a worker is about to take it");
    say_stop_later(c);
}

/* ---- started, and the ends ---------------------------------------------------------------- */

static void explain_started(struct case_file *c) {
    const struct lw__task_view *view = &c->outlook->view;
    if (view->flags & LW__TASK_STUCK)
        say(c, "it is stuck: it goes on long after its time was over");
    if (c->outlook->holder[0])
        say(c, "%s has it since %s, for attempt %u, under a lease until %s", c->outlook->holder,
            how_long(since(c, view->started_at)).text, (unsigned)view->attempts,
            date_of(lw__engine_wall_ms(c->engine, c->outlook->lease_until)).text);
    else
        say(c, "it runs since %s on attempt %u", how_long(since(c, view->started_at)).text,
            (unsigned)view->attempts);
    if (view->flags & LW__TASK_CANCELLING)
        say(c, "it has been asked to give up");
}

static void explain_end(struct case_file *c, const char *how) {
    const struct lw__outlook *o = c->outlook;
    struct words ago = how_long(since(c, o->view.due_at));
    unsigned attempts = (unsigned)o->view.attempts;
    const char *plural = attempts == 1 ? "" : "s";
    if (o->view.state == LW_FINISHED || o->error_at == 0)
        say(c, "it %s %s ago, after %u attempt%s", how, ago.text, attempts, plural);
    else
        say(c, "it %s %s ago, after %u attempt%s: %s", how, ago.text, attempts, plural,
            quote(o->error).text);
}

/* ---- where another process is the owner --------------------------------------------------- */

static void say_owner(struct case_file *c) {
    long long owner = lw__engine_remote(c->engine)->owner(c->engine->store);
    if (owner == 0)
        say(c, "nobody owns the store right now: no process runs its tasks");
    else if (owner > 0)
        say(c, "process %lld owns the store, and knows more", owner);
    else
        say(c, "another process owns the store, and knows more");
}

static void explain_created_there(struct case_file *c) {
    if (c->outlook->view.flags & LW__TASK_UNSAVED)
        say(c, "it is in the outbox: the owner of the store has not taken it in yet");
    else
        explain_created(c);
    say_owner(c);
}

static void explain_enqueued_there(struct case_file *c) {
    say(c, "it waits for a worker of the process that owns the store");
    say_owner(c);
}

static void explain_there(struct case_file *c) {
    switch (c->outlook->view.state) {
    case LW_CREATED: explain_created_there(c); break;
    case LW_SCHEDULED:
        explain_scheduled(c);
        say_owner(c);
        break;
    case LW_ENQUEUED: explain_enqueued_there(c); break;
    case LW_STARTED:
        say(c, "the process that owns the store runs it");
        say_owner(c);
        break;
    default: break; /* as everywhere */
    }
}

int lw_explain(lw_engine *engine, lw_id id, lw_explanation *explanation) {
    int rc = lw__engine_check(engine);
    if (rc < 0 || !explanation)
        return rc < 0 ? rc : LW_EINVAL;
    struct lw__outlook outlook;
    bool is_there = lw__engine_remote(engine) != NULL;
    rc = is_there ? lw__client_look(engine, id, &outlook)
                  : lw__index_look(engine->index, id, &outlook);
    if (rc < 0)
        return rc;
    lw__index_see_wall(engine->index);
    struct case_file c = {.engine = engine,
                          .out = explanation,
                          .outlook = &outlook,
                          .kind = lw__kind_of(engine, outlook.view.kind)->name,
                          .queue = lw__queue_of(engine, outlook.view.queue)->name,
                          .now = lw__engine_now(engine),
                          .starts_nothing = starts_nothing(engine)};
    explanation->state = outlook.view.state;
    explanation->count = 0;
    if (is_there && !lw_state_is_terminal(outlook.view.state)) {
        explain_there(&c);
        return LW_OK;
    }
    switch (outlook.view.state) {
    case LW_CREATED: explain_created(&c); break;
    case LW_SCHEDULED: explain_scheduled(&c); break;
    case LW_ENQUEUED: explain_enqueued(&c); break;
    case LW_STARTED: explain_started(&c); break;
    case LW_FINISHED: explain_end(&c, "finished"); break;
    case LW_FAILED: explain_end(&c, "failed"); break;
    case LW_ABORTED: explain_end(&c, "was aborted"); break;
    }
    return LW_OK;
}
