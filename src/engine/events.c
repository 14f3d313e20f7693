/* Streams of state changes.
 *
 * Each stream is a ring of its own that keeps what it was told last; whoever moves a task writes
 * into the rings of all streams and never waits for a reader. All of it is under the engine's
 * events_mu: nobody gets there while there is no stream, and with one a note is a few stores. A
 * task's events are in order because they are noted under its lock. The name of a kind is looked up
 * by the reader.
 */
#include "engine/engine_internal.h"

#include "base/memory.h"

#include <string.h>

enum { CAPACITY_DEFAULT = 1024, CAPACITY_MAX = 1 << 20 };

struct note {
    uint64_t id, at;
    uint16_t kind;
    uint8_t from, to;
};

struct lw_events {
    /* fixed after open */
    lw_engine *engine;
    size_t capacity;
    struct lw__lot readers; /* who waits for an event */
    /* guarded by events_mu */
    struct lw_events *next, **link;
    size_t first, count; /* not read yet */
    uint64_t lost;       /* before the first */
    struct note notes[];
};

static size_t size_of(size_t capacity) {
    return sizeof(struct lw_events) + capacity * sizeof(struct note);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void append_locked(struct lw_events *stream, const struct note *note) {
    size_t at = stream->first + stream->count;
    if (stream->count < stream->capacity) {
        stream->count++;
    } else {
        stream->first = stream->first + 1 < stream->capacity ? stream->first + 1 : 0;
        stream->lost++;
    }
    stream->notes[at < stream->capacity ? at : at - stream->capacity] = *note;
}

static void tell_locked(struct lw_events *stream, const struct note *note) {
    append_locked(stream, note);
    if (lw__lot_count(&stream->readers) > 0)
        lw__lot_wake_oldest(&stream->readers);
}

/* What nothing holds is never in `created`, but it was accepted: readers are told the same whatever
 * the store. */
void lw__events_note(void *user, const struct lw__task *task, lw_state from, lw_state to,
                     uint64_t now) {
    lw_engine *engine = user;
    bool is_accepted = from == 0 && to != LW_CREATED;
    const struct note accepted = {
        .id = task->id, .at = now, .kind = task->kind, .from = 0, .to = LW_CREATED};
    struct note note = accepted;
    note.from = is_accepted ? LW_CREATED : (uint8_t)from;
    note.to = (uint8_t)to;
    lw__mutex_lock(&engine->events_mu);
    for (struct lw_events *stream = engine->streams; stream; stream = stream->next) {
        if (is_accepted)
            tell_locked(stream, &accepted);
        tell_locked(stream, &note);
    }
    lw__mutex_unlock(&engine->events_mu);
}

void lw__events_end(lw_engine *engine) {
    lw__mutex_lock(&engine->events_mu);
    engine->has_events_ended = true;
    for (struct lw_events *stream = engine->streams; stream; stream = stream->next)
        lw__lot_wake_all(&stream->readers);
    lw__mutex_unlock(&engine->events_mu);
}

/* ---- reading ------------------------------------------------------------------------------ */

/* LW_OK: taken, with how many were lost before it; LW_ESTOPPING; LW_ETIMEDOUT: none is there. */
static int take(struct lw_events *stream, struct note *note, uint64_t *lost) {
    lw_engine *engine = stream->engine;
    int rc = LW_OK;
    lw__mutex_lock(&engine->events_mu);
    if (stream->count > 0) {
        *note = stream->notes[stream->first];
        *lost = stream->lost;
        stream->first = stream->first + 1 < stream->capacity ? stream->first + 1 : 0;
        stream->count--;
        stream->lost = 0;
    } else {
        rc = engine->has_events_ended ? LW_ESTOPPING : LW_ETIMEDOUT;
    }
    lw__mutex_unlock(&engine->events_mu);
    return rc;
}

static int sleep_and_take(struct lw_events *stream, struct note *note, uint64_t *lost,
                          uint64_t deadline) {
    struct lw__waiter me = {0};
    lw_clock *clock = stream->engine->set.clock;
    for (;;) {
        lw__lot_enter(&stream->readers, &me);
        int rc = take(stream, note, lost);
        if (rc != LW_ETIMEDOUT) {
            if (!lw__lot_leave(&stream->readers, &me))
                lw__lot_wake_oldest(&stream->readers); /* that wake may be for another event */
            return rc;
        }
        if (!lw__lot_wait(&stream->readers, &me, clock, deadline))
            return LW_ETIMEDOUT;
    }
}

/* The last worker that waits is replaced, as in lw_wait: the event may be that of a task that needs
 * one. The wait is never refused (is_bounded), since events come from outside, too. */
static int await_and_take(struct lw_events *stream, struct note *note, uint64_t *lost,
                          uint64_t deadline) {
    lw_engine *engine = stream->engine;
    struct lw__nested nested = {.id = 0, .is_bounded = true};
    bool is_inside = lw__hand_is_inside(engine) && lw__nested_enter(engine, &nested);
    int rc = sleep_and_take(stream, note, lost, deadline);
    if (is_inside && !lw__engine_is_forked(engine))
        lw__nested_leave(engine, &nested);
    return rc;
}

/* Drives an engine without workers on a test clock meanwhile, if it is for this thread to do so. */
static int drive_and_take(struct lw_events *stream, struct note *note, uint64_t *lost,
                          int64_t timeout_ms) {
    lw_engine *engine = stream->engine;
    uint64_t deadline = lw__deadline_in(engine->set.clock, timeout_ms);
    int rc = LW_ETIMEDOUT;
    while (rc == LW_ETIMEDOUT && lw__engine_now(engine) < deadline) {
        enum lw__pass pass = lw__driver_pass(engine, deadline);
        if (pass == LW__PASS_WAIT)
            return await_and_take(stream, note, lost, deadline);
        if (lw__engine_is_forked(engine))
            return LW_EFORKED;
        rc = take(stream, note, lost);
        if (rc == LW_ETIMEDOUT && pass == LW__PASS_NEVER)
            return lw__hand_is_inside(engine) ? LW_EDEADLOCK : LW_ETIMEDOUT;
    }
    return rc;
}

static void show(const lw_engine *engine, const struct note *note, uint64_t lost, lw_event *event) {
    const struct lw__kind_info *kind = lw__kind_of(engine, note->kind);
    *event = (lw_event){.id = note->id,
                        .from = (lw_state)note->from,
                        .to = (lw_state)note->to,
                        .at_ns = note->at,
                        .lost = lost};
    memcpy(event->kind, kind->name, sizeof event->kind);
}

int lw_events_next(lw_events *events, lw_event *event, int64_t timeout_ms) {
    if (!events || !event || timeout_ms < -1 || timeout_ms > LW_TIMEOUT_MS_MAX)
        return LW_EINVAL;
    int rc = lw__engine_check(events->engine);
    if (rc < 0)
        return rc;
    struct note note;
    uint64_t lost;
    rc = take(events, &note, &lost);
    if (rc == LW_ETIMEDOUT && timeout_ms != 0)
        rc = drive_and_take(events, &note, &lost, timeout_ms);
    if (rc == LW_OK)
        show(events->engine, &note, lost, event);
    return rc;
}

/* ---- open and close ----------------------------------------------------------------------- */

int lw_events_open(lw_engine *engine, lw_events **events, size_t capacity) {
    if (!events || capacity > CAPACITY_MAX)
        return LW_EINVAL;
    *events = NULL;
    int rc = lw__engine_check(engine);
    if (rc < 0 || lw__engine_remote(engine))
        return rc < 0 ? rc : LW_EINVAL;
    capacity = capacity ? capacity : CAPACITY_DEFAULT;
    struct lw_events *stream = lw__alloc(&engine->set.allocator, size_of(capacity));
    if (!stream)
        return LW_ENOMEM;
    *stream = (struct lw_events){.engine = engine, .capacity = capacity};
    lw__lot_init(&stream->readers);
    lw__mutex_lock(&engine->events_mu);
    stream->next = engine->streams;
    stream->link = &engine->streams;
    if (stream->next)
        stream->next->link = &stream->next;
    engine->streams = stream;
    atomic_fetch_add(&engine->event_streams, 1);
    lw__mutex_unlock(&engine->events_mu);
    *events = stream;
    return LW_OK;
}

void lw_events_close(lw_events *events) {
    if (!events || lw__engine_check(events->engine) < 0)
        return; /* in a forked child the parent's locks may never open: it is left alone */
    lw_engine *engine = events->engine;
    lw__mutex_lock(&engine->events_mu);
    *events->link = events->next;
    if (events->next)
        events->next->link = events->link;
    atomic_fetch_sub(&engine->event_streams, 1);
    lw__mutex_unlock(&engine->events_mu);
    lw__lot_free(&events->readers);
    lw__free(&engine->set.allocator, events, size_of(events->capacity));
}
