/* The scheduler: the one thread of an engine that looks at the time. It sweeps the store (delays,
 * retries, limits, retention), ends attempts at their deadlines and at a stop's, and sleeps until
 * the next moment at which any of this is due; with nothing to come it sleeps for good. While hands
 * hurry, or a worker could not be called, it ticks besides: it relieves hands that sit in a slow
 * task, and calls again. A tick takes no lock of the store. (It used to look every time, and so
 * stopped submitters and workers 500 times a second.) */
#include "engine/engine_internal.h"

#include "base/futex.h"
#include "base/log.h"
#include "pool/staff.h"

#define LINGER_TICKS 8 /* looks in vain before it stops ticking: being called back costs a worker */

/* ---- being called ------------------------------------------------------------------------- */

void lw__scheduler_call(lw_engine *engine) {
    atomic_fetch_add(&engine->call, 1);
    lw__futex_wake(&engine->call, 1);
}

/* The store's plan changed under its mutex, or an alarm was set under alarms_mu: both look at what
 * the scheduler last said, and it looks at the call before it sleeps. */
void lw__scheduler_hasten(void *user, uint64_t due) {
    lw_engine *engine = user;
    if (due < atomic_load(&engine->sleeps_until))
        lw__scheduler_call(engine);
}

/* Whoever needs ticks has made needs_ticks true before: either this sees that it does not tick, or
 * it sees that before it stops ticking. */
void lw__scheduler_need_ticks(lw_engine *engine) {
    if (!atomic_load(&engine->is_ticking))
        lw__scheduler_call(engine);
}

/* ---- deadlines of attempts ---------------------------------------------------------------- */

void lw__alarm_set(struct lw__hand *hand, uint64_t token, uint64_t deadline) {
    lw_engine *engine = hand->engine;
    lw__mutex_lock(&engine->alarms_mu);
    hand->is_overdue = false;
    hand->alarm_token = token;
    hand->stuck_ns = hand->kind->set.stuck_ns;
    hand->alarm_at = deadline;
    lw__timer_set(&engine->alarms, &hand->alarm, deadline);
    uint64_t due = lw__timer_next_due(&engine->alarms);
    lw__mutex_unlock(&engine->alarms_mu);
    lw__scheduler_hasten(engine, due);
}

void lw__alarm_cancel(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    lw__mutex_lock(&engine->alarms_mu);
    lw__timer_cancel(&engine->alarms, &hand->alarm);
    hand->alarm_token = 0;
    lw__mutex_unlock(&engine->alarms_mu);
}

/* Of an attempt, not of its hand, which may be gone when it rings. */
struct ring {
    uint64_t token;
    bool is_hard;
};

/* The next alarm that is due; the hard one is set when the soft one rings. */
static bool next_alarm(lw_engine *engine, uint64_t now, struct ring *ring) {
    lw__mutex_lock(&engine->alarms_mu);
    struct lw__timer *timer = lw__timer_pop(&engine->alarms, now);
    if (timer) {
        struct lw__hand *hand = LW__TIMER_OWNER(timer, struct lw__hand, alarm);
        uint64_t grace = hand->stuck_ns;
        *ring = (struct ring){hand->alarm_token, hand->is_overdue};
        if (!hand->is_overdue && grace != LW__NEVER)
            lw__timer_set(&engine->alarms, &hand->alarm, hand->alarm_at + grace);
        hand->is_overdue = true;
    }
    lw__mutex_unlock(&engine->alarms_mu);
    return timer != NULL;
}

void lw__alarms_ring(lw_engine *engine, uint64_t now) {
    struct ring ring;
    while (!lw__engine_is_forked(engine) && next_alarm(engine, now, &ring)) {
        LW__POINT("alarm: popped, not rung");
        if (ring.is_hard)
            lw__hand_declare_stuck(engine, ring.token);
        else
            lw__hand_cancel(engine, ring.token, LW_REASON_TIMEOUT);
    }
}

/* ---- looking ------------------------------------------------------------------------------ */

static uint64_t earlier(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

uint64_t lw__scheduler_look(lw_engine *engine, uint64_t now) {
    uint64_t due = engine->store->ops->sweep(engine->store, now);
    lw__alarms_ring(engine, now);
    if (lw__unhandled_is_any(engine))
        lw__unhandled_tell(engine);
    if (lw__engine_is_forked(engine))
        return LW__NEVER;
    lw__mutex_lock(&engine->alarms_mu);
    due = earlier(due, lw__timer_next_due(&engine->alarms));
    lw__mutex_unlock(&engine->alarms_mu);
    due = earlier(due, lw__stop_watch(engine, now));
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    lw__engine_attend(engine);
    return due;
}

/* There is news and nobody looks, because all workers were stuck when one was called. */
static bool is_call_due(lw_engine *engine) {
    return atomic_load(&engine->has_news) && atomic_load(&engine->attentive) == 0
           && atomic_load(&engine->tokens) < engine->set.workers;
}

static bool needs_ticks(lw_engine *engine) {
    return atomic_load(&engine->hurrying) > 0 || is_call_due(engine);
}

struct ticks {
    uint32_t idle; /* in a row */
    uint64_t offers;
};

/* Hands that hurry offer room when half of it is free (hand.c), which may never be, if much of what
 * is unfinished waits for something: whoever got no offer for a tick gets one. */
static void offer_room(lw_engine *engine, struct ticks *ticks) {
    if (atomic_load(&engine->offers) == ticks->offers)
        lw__submit_offer_room(engine);
    ticks->offers = atomic_load(&engine->offers);
}

/* Returns when to tick again. */
static uint64_t tick(lw_engine *engine, uint64_t now, struct ticks *ticks) {
    atomic_store(&engine->is_ticking, true);
    if (atomic_load(&engine->hurrying) > 0) {
        atomic_store(&engine->recent, now); /* the hand that should may be in a slow task */
        lw__hand_relieve_all(engine, true);
    }
    offer_room(engine, ticks);
    lw__stop_announce(engine);
    lw__engine_attend(engine);
    ticks->idle = needs_ticks(engine) ? 0 : ticks->idle + 1;
    if (ticks->idle <= LINGER_TICKS)
        return now + LW__HAND_TICK_NS;
    atomic_store(&engine->is_ticking, false);
    LW__POINT("scheduler: does not tick, not asleep");
    return needs_ticks(engine) ? now + LW__HAND_TICK_NS : LW__NEVER;
}

static void *scheduler_main(void *engine);

static bool start_thread_locked(lw_engine *engine) {
    pthread_t thread;
    bool is_started = lw__crew_start_thread(&thread, scheduler_main, engine, engine->set.name) == 0;
    if (is_started)
        engine->scheduler = thread;
    return is_started;
}

/* on_stuck has ended the thread: another one goes on. */
static void on_thread_ending(void *hand) {
    lw_engine *engine = ((struct lw__hand *)hand)->engine;
    if (lw__engine_is_forked(engine))
        return;
    lw__hand_leave(hand);
    lw__hand_free(hand);
    atomic_store(&engine->has_news, 1); /* there is a worker again, perhaps */
    lw__mutex_lock(&engine->scheduler_mu);
    bool is_replaced = !atomic_load(&engine->must_end) && start_thread_locked(engine);
    bool is_lost = !is_replaced && !atomic_load(&engine->must_end);
    lw__mutex_unlock(&engine->scheduler_mu);
    if (is_replaced)
        pthread_detach(pthread_self()); /* otherwise it is joined at the end */
    if (is_lost)
        lw__log(&engine->set.log, LW_LOG_ERROR, "engine",
                "the scheduler, whose thread on_stuck has ended, was not replaced",
                LW__FIELD_TEXT("engine", engine->set.name));
}

/* Unless it is called before. A worker that was stuck comes back whatever a test's clock shows, and
 * so ticks do not wait for that. */
static void sleep_until(lw_engine *engine, uint32_t call, uint64_t due, uint64_t tick_at) {
    lw_clock *clock = engine->set.clock;
    if (tick_at != LW__NEVER && !clock->is_real)
        lw__futex_wait(&engine->call, call, lw__now(lw__clock_system()) + LW__HAND_TICK_NS);
    else
        clock->wait(clock, &engine->call, call, earlier(due, tick_at));
}

static void look_until_end(lw_engine *engine) {
    struct ticks ticks = {.idle = LINGER_TICKS};
    uint32_t heard = atomic_load(&engine->call) - 1;
    uint64_t due = 0;
    while (!atomic_load(&engine->must_end)) {
        uint32_t call = atomic_load(&engine->call);
        uint64_t now = lw__engine_now(engine);
        if (call != heard || now >= due) {
            heard = call;
            atomic_store(&engine->sleeps_until, LW__NEVER); /* who hastens from here on, calls */
            now = lw__engine_now(engine);
            due = lw__scheduler_look(engine, now);
            LW__POINT("scheduler: looked, not said when");
            atomic_store(&engine->sleeps_until, due);
        }
        if (lw__engine_is_forked(engine))
            return;
        uint64_t tick_at = tick(engine, now, &ticks);
        LW__POINT("scheduler: not asleep yet");
        if (due > now && !atomic_load(&engine->must_end))
            sleep_until(engine, call, due, tick_at);
    }
}

static void *scheduler_main(void *arg) {
    lw_engine *engine = arg;
    /* Calls from on_stuck count as calls from inside: they never wait. */
    struct lw__hand self = {0};
    lw__hand_init(&self, engine);
    lw__hand_enter(&self);
    pthread_cleanup_push(on_thread_ending, &self);
    look_until_end(engine);
    pthread_cleanup_pop(0);
    if (lw__engine_is_forked(engine))
        return NULL;
    lw__hand_leave(&self);
    lw__hand_free(&self);
    return NULL;
}

bool lw__scheduler_start(lw_engine *engine) {
    lw__mutex_lock(&engine->scheduler_mu);
    engine->has_scheduler = start_thread_locked(engine);
    lw__mutex_unlock(&engine->scheduler_mu);
    return engine->has_scheduler;
}

void lw__scheduler_stop(lw_engine *engine) {
    if (!engine->has_scheduler)
        return;
    lw__mutex_lock(&engine->scheduler_mu);
    atomic_store(&engine->must_end, 1);
    pthread_t thread = engine->scheduler;
    lw__mutex_unlock(&engine->scheduler_mu);
    lw__scheduler_call(engine);
    pthread_join(thread, NULL);
}
