/* Accepting tasks, and what to do when there is no room. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "base/text.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LINGER_NS 30000  /* how long it looks for room, before it sleeps */
#define LINGER_PAUSES 16 /* between two looks */

/* There are too many names: LW_EFULL for the caller, but to wait for room would be in vain. */
#define TOO_MANY_NAMES INT_MIN

/* ---- putting ------------------------------------------------------------------------------ */

struct submission {
    lw_engine *engine;
    const lw_task *const *tasks;
    struct lw__put *puts;
    size_t count;
    lw_ctx *ctx;                  /* of the caller; NULL: none */
    int64_t timeout_ms;           /* of the task; 0: the queue's */
    uint64_t deadline;            /* the caller's own, for the disk, too; LW__NEVER: none */
    struct lw__queue_info *queue; /* whose policy holds: that of the first */
    bool is_incomplete;           /* names are to be registered, or payloads to be copied */
    bool is_explained;            /* there is a sentence already */
    struct lw__answer *answer;    /* who does not wait until it is durable; NULL: the caller does */
    lw_id guest;                  /* has been put, and wants room to stay; 0: they want to be put */
    lw_error *err;
};

/* What is done only for tasks that will be accepted, as far as that is known: names are registered,
 * because there are not many of them, and large payloads copied. */
static int complete_all(struct submission *s, uint64_t now) {
    lw_error detail = {0};
    int rc = lw__index_judge(s->engine->index, now, s->puts, s->count);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < s->count; i++) {
        rc = lw__spec_name(s->engine, s->tasks[i], &s->puts[i], &detail);
        if (rc < 0 && s->count > 1)
            lw__error_set(s->err, rc, 0, "task %zu of %zu: %s", i + 1, s->count, detail.message);
        else if (rc < 0)
            lw__error_set(s->err, rc, 0, "%s", detail.message);
        if (rc < 0) {
            s->is_explained = true;
            return rc == LW_EFULL ? TOO_MANY_NAMES : rc;
        }
    }
    for (size_t i = 0; i < s->count; i++)
        lw__spec_copy(s->tasks[i], &s->puts[i]);
    s->is_incomplete = false;
    return LW_OK;
}

/* What was withdrawn has had room that others may wait for, or was the last of all. */
static int put_in_time(struct submission *s, uint64_t now) {
    lw_engine *engine = s->engine;
    lw_error trouble;
    int rc = engine->store->ops->put_by(engine->store, now, s->puts, s->count, s->deadline);
    if (rc != LW_ETIMEDOUT)
        return rc;
    bool is_halted = lw__index_trouble(engine->index, &trouble);
    lw__error_set(s->err, rc, 0,
                  "it could not be written in the time given, and was not accepted%s%s",
                  is_halted ? ": " : "", is_halted ? trouble.message : "");
    s->is_explained = true;
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    return rc;
}

static int put(struct submission *s, uint64_t now) {
    lw_engine *engine = s->engine;
    int completed = s->is_incomplete ? complete_all(s, now) : LW_OK;
    if (completed < 0)
        return completed;
    const struct lw__store_ops *ops = engine->store->ops;
    int rc = s->answer && ops->put_and_call
                 ? ops->put_and_call(engine->store, now, s->puts, &s->answer->wait)
             : s->deadline != LW__NEVER && ops->put_by
                 ? put_in_time(s, now)
                 : ops->put(engine->store, now, s->puts, s->count);
    LW__POINT("submit: put, nobody called");
    if (rc >= 0)
        lw__engine_attend(engine);
    return rc;
}

/* ---- full --------------------------------------------------------------------------------- */

static uint64_t deadline_of(const struct submission *s) {
    lw_clock *clock = s->engine->set.clock;
    if (s->timeout_ms == LW_ZERO)
        return lw__now(clock);
    if (s->timeout_ms != 0)
        return lw__deadline_in(clock, s->timeout_ms);
    uint64_t ns = s->queue->set.submit_timeout_ns, now = lw__now(clock);
    return ns > LW__NEVER - now ? LW__NEVER : now + ns;
}

/* A caller's own context has to be watched by whoever waits; a task's is ended by its engine or
 * pool. */
static uint64_t context_deadline(const lw_ctx *ctx) {
    return !ctx || ctx->stop_mode ? LW__NEVER : atomic_load(&ctx->deadline);
}

static uint64_t wait_until(const struct submission *s) {
    uint64_t deadline = deadline_of(s), own = context_deadline(s->ctx);
    return own < deadline ? own : deadline;
}

uint64_t lw__submit_deadline(const lw_engine *engine, const lw_task *task) {
    if (__builtin_expect(task->submit_timeout_ms <= 0 && !task->ctx, 1))
        return LW__NEVER;
    uint64_t own = context_deadline(task->ctx);
    uint64_t deadline = task->submit_timeout_ms > 0
                            ? lw__deadline_in(engine->set.clock, task->submit_timeout_ms)
                            : LW__NEVER;
    return own < deadline ? own : deadline;
}

/* Where one of them does not fit none does. */
static bool is_like_others(const struct submission *s) {
    return !s->guest && s->count == 1 && (!s->puts->spec || s->puts->spec->payload_size == 0);
}

/* It was woken in vain: what there is room for may be what another one waits for, who has another
 * queue, or fewer bytes. Each passes an offer on once, so that it comes to an end. */
static void pass_offer_on(struct submission *s) {
    uint32_t alike = is_like_others(s) ? atomic_load(&s->queue->waiting) : 1;
    if (lw__lot_count(&s->engine->room) > alike)
        lw__lot_wake_oldest(&s->engine->room);
}

/* False: the time is over, or nothing is due any more that could make room. */
static bool sleep_for_room(lw_engine *engine, struct lw__waiter *me, uint64_t deadline) {
    enum lw__pass pass = lw__driver_pass(engine, deadline);
    if (pass == LW__PASS_WAIT)
        return lw__lot_wait(&engine->room, me, engine->set.clock, deadline);
    lw__lot_leave(&engine->room, me);
    return pass == LW__PASS_LOOK && lw__engine_now(engine) < deadline;
}

static int try(struct submission *s) {
    return s->guest ? lw__room_stay(s->engine->index, s->guest) : put(s, lw__engine_now(s->engine));
}

static void pause_lingering(void) {
    for (int i = 0; i < LINGER_PAUSES; i++)
        lw__spin_pause();
}

static bool can_linger(const struct submission *s) {
    lw_engine *engine = s->engine;
    return is_like_others(s) && atomic_load(&engine->hurrying) > 0
           && lw__lot_count(&engine->room) == 0; /* it would be before them */
}

/* Hands that hurry make room many times in the time that falling asleep and being woken takes: one
 * submitter, not all of them, looks for as long as that. (Traced, one producer and two readers:
 * whenever a reader takes a worker's core for some 30 us the room is used up; a submitter that
 * sleeps then is back after 100 us or more, and by that time the worker has slept, too.) It does
 * not yield, which asks to be put behind all neighbours for slices of milliseconds. (120 us, of
 * which 90 with yields, on a crowded machine: E1 366 ns instead of 262, beside two endless loops
 * 567 instead of 391; E4 equal.) */
static int linger_for_room(struct submission *s, uint64_t deadline) {
    lw_engine *engine = s->engine;
    uint64_t now = lw__engine_now(engine), end = now + LINGER_NS;
    int rc = LW_EFULL;
    if (!can_linger(s) || atomic_exchange(&engine->has_lingerer, true))
        return rc;
    end = end < deadline ? end : deadline;
    while (now < end && rc == LW_EFULL && !(s->ctx && lw_ctx_done(s->ctx))) {
        pause_lingering();
        now = lw__engine_now(engine);
        rc = put(s, now);
    }
    atomic_store(&engine->has_lingerer, false);
    return rc;
}

/* Until there is room, the time is over, or the caller's context is. One that was woken and got in,
 * or gives up, lets the next one try. */
static int wait_for_room(struct submission *s) {
    lw_engine *engine = s->engine;
    uint64_t deadline = wait_until(s), passed_on = atomic_load(&engine->offers);
    int rc = linger_for_room(s, deadline);
    if (rc != LW_EFULL)
        return rc;
    bool has_slept = false;
    bool is_counted = is_like_others(s); /* once it is in, its spec is the store's */
    if (is_counted)
        atomic_fetch_add(&s->queue->waiting, 1);
    while (rc == LW_EFULL) {
        struct lw__waiter me = {0};
        struct lw__ctx_watch watch = {.lot = &engine->room, .waiter = &me};
        lw__lot_enter(&engine->room, &me);
        if (s->ctx)
            lw__ctx_watch(s->ctx, &watch);
        LW__POINT("room: entered, not tried");
        bool is_over = s->ctx && lw_ctx_done(s->ctx);
        uint64_t offers = atomic_load(&engine->offers);
        rc = is_over ? LW_ECANCELED : try(s);
        if (rc == LW_EFULL && has_slept && offers != passed_on) {
            passed_on = offers;
            pass_offer_on(s);
        }
        has_slept = true;
        LW__POINT("room: tried, not asleep");
        if (rc != LW_EFULL)
            lw__lot_leave(&engine->room, &me);
        else if (!sleep_for_room(engine, &me, deadline))
            rc = LW_ETIMEDOUT;
        if (s->ctx)
            lw__ctx_unwatch(s->ctx, &watch);
        if (rc == LW_ETIMEDOUT && s->ctx && lw_ctx_done(s->ctx))
            rc = LW_ECANCELED;
    }
    if (is_counted)
        atomic_fetch_sub(&s->queue->waiting, 1);
    LW__POINT("room: out, not passed on");
    lw__submit_offer_room(engine);
    if (rc == LW_ECANCELED && lw_ctx_reason(s->ctx) == LW_REASON_TIMEOUT)
        rc = LW_ETIMEDOUT;
    return rc;
}

/* The attempt was run without room, and the task is to be tried again: it has to wait for room,
 * like others, and goes if there is none in time. So there are never more of these than
 * callers. */
static void find_room_for_guest(struct submission *s) {
    lw_engine *engine = s->engine;
    s->guest = s->puts[0].id;
    if (lw__room_stay(engine->index, s->guest) == LW_OK || wait_for_room(s) == LW_OK)
        return;
    lw__room_evict(engine->index, lw__engine_now(engine), s->guest);
    lw__engine_attend(engine);
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
}

/* The first attempt runs in the calling thread. What must not run yet, or is one of many, waits for
 * room like others. */
static int run_in_caller(struct submission *s) {
    lw_engine *engine = s->engine;
    struct lw__put *first = &s->puts[0];
    bool can_run = s->count == 1 && first->due == 0
                   && (!first->spec || first->spec->after_count == 0)
                   && atomic_load(&engine->is_started);
    if (!can_run)
        return wait_for_room(s);
    first->is_taken = true;
    int rc = put(s, lw__engine_now(engine));
    first->is_taken = false;
    if (rc == LW_EFULL) /* its kind has no handler, or enough attempts; its queue is paused; or
                         * too much was not told yet */
        return wait_for_room(s);
    if (rc < 0 || first->status != LW_OK)
        return rc;
    lw__hand_run_guest(engine, first->task, first->token);
    if (lw__engine_is_alive(engine))
        find_room_for_guest(s);
    return rc;
}

/* The one that could not be accepted. */
static size_t refused_one(const struct submission *s, int rc) {
    size_t i = 0;
    while (i + 1 < s->count && s->puts[i].status != rc)
        i++;
    return i;
}

/* The store drops what has to go, or nothing if that were in vain. Where an end has to be durable
 * the room is there then, and others may be faster. */
static int drop_and_put(struct submission *s) {
    lw_engine *engine = s->engine;
    const struct lw__store_ops *ops = engine->store->ops;
    struct lw__put *first = &s->puts[0];
    uint32_t drops;
    int rc;
    first->may_drop = true;
    do {
        drops = first->drops;
        rc = put(s, lw__engine_now(engine));
    } while (rc == LW_EFULL && first->drops > drops && ops->flush
             && ops->flush(engine->store) == LW_OK);
    lw__engine_attend(engine);
    if (rc < 0) { /* what was dropped has made room for others, or was the last of all */
        lw__submit_offer_room(engine);
        lw__stop_announce(engine);
    }
    return rc;
}

/* One that is not known yet is as large as the engine. */
static struct lw__queue_info *queue_of(const struct submission *s, size_t i) {
    return s->puts[i].queue < LW__UNNAMED ? lw__queue_of(s->engine, (uint16_t)s->puts[i].queue)
                                          : &s->engine->unnamed_queue;
}

static const char *queue_name(const struct submission *s, size_t i) {
    return s->tasks[i]->queue ? s->tasks[i]->queue : s->engine->default_queue->name;
}

static bool needs_room(const struct lw__put *put) {
    return put->status != LW_EXISTS && !put->is_double;
}

static uint64_t payload_size(const struct lw__put *put) {
    return put->spec ? put->spec->payload_size : 0;
}

/* All of it together, or one queue's part of it, is more than there would be room for if nothing
 * else were there: to wait, or to drop others, would be in vain. Keys that are taken are not looked
 * at. */
static bool is_too_large(const struct submission *s) {
    const struct lw__engine_settings *set = &s->engine->set;
    uint64_t all = 0, bytes = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct lw__queue_settings *queue = &queue_of(s, i)->set;
        uint64_t tasks = 0, queue_bytes = 0;
        for (size_t k = 0; k <= i; k++) {
            if (s->puts[k].queue == s->puts[i].queue && needs_room(&s->puts[k])) {
                tasks++;
                queue_bytes += payload_size(&s->puts[k]);
            }
        }
        all += needs_room(&s->puts[i]);
        bytes += needs_room(&s->puts[i]) ? payload_size(&s->puts[i]) : 0;
        if (tasks > queue->limit || queue_bytes > queue->byte_limit)
            return true;
    }
    return all > set->task_limit || bytes > set->byte_limit;
}

static int put_when_full(struct submission *s) {
    if (lw__hand_is_inside(s->engine) || is_too_large(s))
        return LW_EFULL; /* inside: its reserve is used up, too */
    switch (s->queue->set.overflow) {
    case LW_BLOCK: return wait_for_room(s);
    case LW_CALLER_RUNS: return run_in_caller(s);
    case LW_DROP_OLDEST: return drop_and_put(s);
    case LW_REFUSE: break;
    }
    return LW_EFULL;
}

/* ---- all ---------------------------------------------------------------------------------- */

/* What to do about a lack of room. */
static const char *advise(const struct submission *s) {
    if (!atomic_load(&s->engine->is_started))
        return "nothing runs before lw_start, which was not called";
    if (s->puts[0].is_inside)
        return "the reserve for tasks of handlers is used up, too";
    return "try again later, or raise that";
}

/* Which limit, what is there, what was wanted. */
static int explain_room(struct submission *s, int rc) {
    struct lw__room_lack lack = lw__room_lack(s->engine->index, s->puts, s->count);
    const char *name = queue_name(s, lack.limit ? lack.at : refused_one(s, rc));
    struct lw__quoted queue = lw__text_quote(name);
    bool is_lost = lack.wanted > lack.most; /* and waiting would not help */
    const char *advice = is_lost ? "raise that, or submit less" : advise(s);
    bool is_of_queue = lack.limit == LW__ROOM_OF_QUEUE || lack.limit == LW__ROOM_QUEUE_BYTES;
    char head[128];
    const char *verb = is_lost ? "is never" : rc == LW_EFULL ? "is no" : "was no";
    snprintf(head, sizeof head, "there %s room in queue \"%s\"%s", verb, queue.text,
             is_lost || rc == LW_EFULL ? "" : " in the time given");
    switch (lack.limit) {
    case LW__ROOM_BYTES:
    case LW__ROOM_QUEUE_BYTES:
        return lw__error_set(s->err, rc, 0,
                             "%s: %llu bytes of payloads are there, and %llu more would be over %s "
                             "byte_limit of %llu; %s",
                             head, (unsigned long long)lack.used, (unsigned long long)lack.wanted,
                             is_of_queue ? "its" : "the engine's", (unsigned long long)lack.most,
                             advice);
    case LW__ROOM_TASKS:
    case LW__ROOM_OF_QUEUE:
        return lw__error_set(
            s->err, rc, 0,
            "%s: %llu tasks are unfinished, and %llu more would be over %s of %llu; %s", head,
            (unsigned long long)lack.used, (unsigned long long)lack.wanted,
            is_of_queue ? "its limit" : "the engine's task_limit", (unsigned long long)lack.most,
            advice);
    case LW__ROOM_UNTOLD:
        return lw__error_set(s->err, rc, 0, "%s: callbacks are too far behind; %s", head,
                             "try again later, or let them be quicker");
    case LW__ROOM_IS_THERE: break;
    }
    return lw__error_set(s->err, rc, 0, "%s; try again", head);
}

static int explain_one(struct submission *s, int rc) {
    switch (rc) {
    case LW_EFULL:
    case LW_ETIMEDOUT:
    case LW_ECANCELED: return explain_room(s, rc);
    case LW_ESTOPPING:
        return lw__error_set(s->err, rc, 0, "the engine is stopping and accepts no tasks");
    case LW_EINVAL:
        return lw__error_set(s->err, rc, 0, "after names a task that has never been there");
    case LW_ENOMEM: return lw__error_set(s->err, rc, 0, "no memory for the task");
    default: return lw__index_explain_status(s->engine->index, rc, s->err);
    }
}

static int explain_refusal(struct submission *s, int rc) {
    if (s->is_explained)
        return rc;
    bool is_one_to_blame = s->count > 1 && s->puts[refused_one(s, rc)].status == rc;
    explain_one(s, rc);
    if (is_one_to_blame && s->err)
        lw__error_set(s->err, rc, 0, "task %zu of %zu: %s", refused_one(s, rc) + 1, s->count,
                      s->err->message);
    return rc;
}

static int submit(struct submission *s, uint64_t now) {
    lw_engine *engine = s->engine;
    bool is_inside = lw__hand_is_inside(engine);
    for (size_t i = 0; i < s->count; i++)
        s->is_incomplete |= s->puts[i].is_unnamed || s->puts[i].is_uncopied;
    s->queue = queue_of(s, 0);
    s->deadline = lw__submit_deadline(engine, s->tasks[0]);
    for (size_t i = 0; is_inside && i < s->count; i++)
        s->puts[i].is_inside = true;
    int rc = put(s, now);
    if (__builtin_expect(rc == LW_EFULL, 0))
        rc = put_when_full(s);
    if (__builtin_expect(rc >= 0, 1))
        return rc;
    atomic_fetch_add(&engine->refused, s->count);
    return rc == TOO_MANY_NAMES ? LW_EFULL : explain_refusal(s, rc);
}

/* Whether nothing has happened, and the general way may be tried. */
static bool was_turned_away(int rc) {
    return rc == LW_EFULL || rc == LW_ESTOPPING || rc == LW_ENOMEM;
}

/* A plain task that finds room: most are. False: the general way. */
LW__INLINE bool submit_plain(lw_engine *engine, const char *kind, const char *queue, lw_id *id,
                             int *rc, lw_error *err) {
    struct lw__put one;
    uint64_t accepted;
    if (!lw__spec_name_plain(engine, kind, queue, &one))
        return false;
    *rc = engine->store->ops->put_plain(engine->store, lw__engine_recent(engine), &one, &accepted);
    if (was_turned_away(*rc))
        return false;
    if (*rc < 0) {
        lw__index_explain_status(engine->index, *rc, err);
        return true;
    }
    lw__engine_attend(engine);
    if (id)
        *id = accepted;
    return true;
}

static int submit_any(lw_engine *engine, const lw_task *task, lw_id *id, lw_error *err) {
    struct lw__put one;
    uint64_t now = lw__engine_recent(engine);
    int rc = lw__spec_prepare(engine, task, &now, &one, err);
    if (rc < 0)
        return rc;
    struct submission s = {.engine = engine,
                           .tasks = &task,
                           .puts = &one,
                           .count = 1,
                           .ctx = task->ctx,
                           .timeout_ms = task->submit_timeout_ms,
                           .err = err};
    rc = submit(&s, now);
    if (rc >= 0)
        rc = one.status;
    if (rc != LW_OK)
        lw__spec_free(engine, &one);
    if (id && rc >= 0)
        *id = one.id;
    return rc;
}

int lw_submit(lw_engine *engine, const lw_task *task, lw_id *id, lw_error *err) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return lw__engine_check_told(engine, err);
    if (__builtin_expect(lw__engine_remote(engine) != NULL, 0))
        return lw__client_submit(engine, &task, 1, id, err);
    if (lw__spec_is_plain(task) && submit_plain(engine, task->kind, task->queue, id, &rc, err))
        return rc;
    return submit_any(engine, task, id, err);
}

int lw_submit_short(lw_engine *engine, const char *kind, const char *queue, const char *key,
                    lw_bytes payload, lw_id *id, lw_error *err) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return lw__engine_check_told(engine, err);
    bool is_plain = kind && !key && !payload.data && payload.size == 0;
    bool is_remote = lw__engine_remote(engine) != NULL;
    if (is_plain && !is_remote && submit_plain(engine, kind, queue, id, &rc, err))
        return rc;
    const lw_task whole = {
        .struct_size = sizeof whole, .kind = kind, .queue = queue, .key = key, .payload = payload};
    const lw_task *task = &whole;
    return is_remote ? lw__client_submit(engine, &task, 1, id, err)
                     : submit_any(engine, task, id, err);
}

/* ---- without waiting ---------------------------------------------------------------------- */

/* A store that is done when it returns does not call. */
static void give_at_once(struct lw__answer *answer, const struct lw__put *one) {
    answer->wait.id = one->id;
    answer->wait.put_status = one->status;
    lw__answer_give(&answer->wait);
}

/* `lease`: whom it is to be leased to; NULL: nobody. */
static int submit_async(lw_engine *engine, const lw_task *task, struct lw__submit_lease *lease,
                        struct lw__answer *answer, lw_error *err) {
    struct lw__put one = {.status = LW_OK};
    uint64_t now = lw__engine_now(engine);
    if (lw__engine_remote(engine)) {
        lw_id id = 0;
        int rc = lw__client_submit(engine, &task, 1, &id, err);
        one.id = id;
        if (rc >= 0)
            give_at_once(answer, &one);
        return rc;
    }
    bool is_called = engine->store->ops->put_and_call != NULL;
    int rc = lw__spec_prepare(engine, task, &now, &one, err);
    if (rc < 0)
        return rc;
    if (lease) {
        one.holder = lease->holder;
        one.lease_ns = lease->ns;
    }
    struct submission s = {.engine = engine,
                           .tasks = &task,
                           .puts = &one,
                           .count = 1,
                           .ctx = task->ctx,
                           .timeout_ms = task->submit_timeout_ms,
                           .answer = answer,
                           .err = err};
    rc = submit(&s, now);
    if (lw__engine_is_forked(engine))
        return LW_EFORKED; /* its handler has returned in a child */
    if (lease && rc >= 0)
        lease->leased = (struct lw__leased){.id = one.id, .token = one.token};
    if (rc < 0 || one.status != LW_OK)
        lw__spec_free(engine, &one);
    if (rc >= 0 && !is_called)
        give_at_once(answer, &one);
    return rc < 0 ? rc : LW_OK;
}

int lw__submit_and_lease(lw_engine *engine, const lw_task *task, struct lw__submit_lease *lease,
                         lw_submitted done, void *user, lw_error *err) {
    lw_error own;
    int rc = lw__engine_check(engine);
    if (!err)
        err = &own;
    if (rc < 0)
        return lw__engine_check_told(engine, err);
    if (!done)
        return lw__error_set(err, LW_EINVAL, 0,
                             "done is NULL: there is nobody to tell; lw_submit waits instead");
    struct lw__answer *answer = lw__answer_open(engine, done, user, err);
    if (!answer)
        return err->status;
    rc = submit_async(engine, task, lease, answer, err);
    if (rc < 0 && !lw__engine_is_forked(engine))
        lw__answer_drop(answer);
    return rc;
}

int lw_submit_async(lw_engine *engine, const lw_task *task, lw_submitted done, void *user,
                    lw_error *err) {
    return lw__submit_and_lease(engine, task, NULL, done, user, err);
}

/* ---- many --------------------------------------------------------------------------------- */

static bool is_same(const char *a, const char *b) {
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Equal names get equal numbers, until they get their own. */
static void number_unnamed(const lw_task *const *tasks, struct lw__put *puts, size_t i) {
    bool is_new_kind = puts[i].kind >= LW__UNNAMED, is_new_queue = puts[i].queue >= LW__UNNAMED;
    size_t kind = 0, queue = 0;
    while (is_new_kind && !is_same(tasks[kind]->kind, tasks[i]->kind))
        kind++;
    while (is_new_queue && !is_same(tasks[queue]->queue, tasks[i]->queue))
        queue++;
    puts[i].kind += (uint32_t)kind;
    puts[i].queue += (uint32_t)queue;
}

static int make_all(lw_engine *engine, const lw_task *const *tasks, size_t count,
                    struct lw__put *puts, lw_error *err) {
    uint64_t now = lw__engine_now(engine);
    for (size_t i = 0; i < count; i++) {
        lw_error detail = {0};
        int rc = lw__spec_prepare(engine, tasks[i], &now, &puts[i], &detail);
        if (rc < 0)
            return lw__error_set(err, rc, 0, "task %zu of %zu: %s", i + 1, count, detail.message);
        if (puts[i].is_unnamed)
            number_unnamed(tasks, puts, i);
    }
    return LW_OK;
}

int lw_submit_many(lw_engine *engine, const lw_task *const *tasks, size_t count, lw_id *ids,
                   lw_error *err) {
    int rc = lw__engine_check(engine);
    if (rc < 0)
        return lw__engine_check_told(engine, err);
    if (count == 0)
        return LW_OK;
    if (!tasks || count > LW_SUBMIT_MAX)
        return lw__error_set(err, LW_EINVAL, 0, "%zu tasks, must be at most %d, and not NULL",
                             count, LW_SUBMIT_MAX);
    if (lw__engine_remote(engine))
        return lw__client_submit(engine, tasks, count, ids, err);
    struct lw__put *puts = lw__alloc_zero(&engine->set.allocator, count * sizeof *puts);
    if (!puts)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for %zu tasks", count);
    rc = make_all(engine, tasks, count, puts, err);
    if (rc == LW_OK) {
        struct submission s = {.engine = engine,
                               .tasks = tasks,
                               .puts = puts,
                               .count = count,
                               .ctx = tasks[0]->ctx,
                               .timeout_ms = tasks[0]->submit_timeout_ms,
                               .err = err};
        rc = submit(&s, lw__engine_now(engine));
    }
    int all = rc;
    for (size_t i = 0; i < count; i++) {
        if (all < 0 || puts[i].status != LW_OK)
            lw__spec_free(engine, &puts[i]);
        if (all >= 0 && puts[i].status == LW_EXISTS)
            rc = LW_EXISTS;
        if (all >= 0 && ids)
            ids[i] = puts[i].id;
    }
    lw__free(&engine->set.allocator, puts, count * sizeof *puts);
    return rc;
}
