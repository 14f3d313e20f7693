/* Readers that race with ends, with retention zero: what they see is whole, and nobody waits in
 * vain. */
#include "stress_engine.h"

#define TASKS 40
#define IDS 200

static struct {
    lw_engine *engine;
    _Atomic lw_id last;
    _Atomic bool is_over;
    lw_events *events;
    uint8_t states[IDS + 1]; /* as the events say; their reader only */
} race;

static lw_outcome do_say(lw_ctx *ctx, const lw_task *task) {
    if (chance(20))
        dawdle(30);
    if (chance(30))
        lw_progress(ctx, task->id, task->id, "on its way");
    if (chance(20))
        lw_partial(ctx, task->payload);
    switch (task->attempt < 3 ? dice(6) : 5) {
    case 0: return lw_retry(ctx, "task %llu", task->id);
    case 1: return lw_fail(ctx, "task %llu", task->id);
    default: return lw_done_with(ctx, task->payload);
    }
}

/* The payload tells which producer, and so do result and partial result. */
static void check_whole(const lw_snapshot *s) {
    CHECK(s->id > 0 && s->id <= IDS && s->kind && strcmp(s->queue, "default") == 0);
    CHECK(s->payload.size > 0 && s->payload.size <= 64);
    const unsigned char *bytes = s->payload.data;
    for (size_t i = 0; i < s->payload.size; i++)
        CHECK(bytes[i] == (unsigned char)s->payload.size);
    if (s->result.data)
        CHECK(s->result.size == s->payload.size
              && memcmp(s->result.data, bytes, s->result.size) == 0);
    if (s->state == LW_FINISHED)
        CHECK(s->result.data);
    if (s->state == LW_FAILED)
        CHECK(s->error_count > 0);
    if (s->progress.done)
        CHECK(s->progress.done == s->id && strcmp(s->progress.text, "on its way") == 0);
    if (lw_state_is_terminal(s->state))
        CHECK(s->ended_ns >= s->created_ns && s->ended_ns >= s->enqueued_ns);
}

static lw_id any_id(void) {
    lw_id last = atomic_load(&race.last);
    return last > 0 ? last - dice(last < 6 ? last : 6) : 1;
}

static void wait_for_one(lw_snapshot *snapshot) {
    lw_snapshot empty = LW_SNAPSHOT_INIT;
    lw_id id = any_id();
    int64_t timeout = chance(20) ? (int64_t)dice(2) : STRESS_HANG_MS;
    bool wants_copy = chance(70);
    lw_snapshot_clear(snapshot);
    *snapshot = empty;
    int rc = lw_wait(race.engine, id, timeout, wants_copy ? snapshot : NULL);
    CHECK(rc == LW_OK || rc == LW_ENOTFOUND || (rc == LW_PENDING && timeout < STRESS_HANG_MS));
    if (rc == LW_OK && wants_copy && snapshot->state != 0) {
        CHECK(lw_state_is_terminal(snapshot->state));
        check_whole(snapshot);
    }
}

static bool check_listed(void *user, const lw_snapshot *task) {
    lw_id *before = user;
    CHECK(task->id > *before);
    *before = task->id;
    check_whole(task);
    return true;
}

static void *read_all(void *arg) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    (void)arg;
    while (!atomic_load(&race.is_over)) {
        lw_id before = 0;
        lw_explanation explanation;
        switch (dice(5)) {
        case 0: wait_for_one(&snapshot); break;
        case 1: lw_list(race.engine, NULL, check_listed, &before); break;
        case 2:
            lw_list(race.engine, LW_FILTER(.is_unfinished = true), check_listed, &before);
            break;
        case 3: lw_explain(race.engine, any_id(), &explanation); break;
        default:
            if (lw_get(race.engine, any_id(), &snapshot) == LW_OK)
                check_whole(&snapshot);
            break;
        }
    }
    lw_snapshot_clear(&snapshot);
    return NULL;
}

/* A task's events come in their order: each begins where the one before has ended. */
static void *read_events(void *arg) {
    lw_event event;
    int rc;
    (void)arg;
    while ((rc = lw_events_next(race.events, &event, -1)) == LW_OK) {
        CHECK(event.lost == 0 && event.id <= IDS);
        CHECK(race.states[event.id] == event.from);
        race.states[event.id] = (uint8_t)event.to;
    }
    assert_status(rc, LW_ESTOPPING);
    return NULL;
}

static void *produce(void *arg) {
    unsigned char bytes[64];
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        size_t size = 1 + dice(sizeof bytes);
        memset(bytes, (int)size, size);
        lw_id id;
        assert_status(
            lw_submit(race.engine, LW_TASK(.kind = "say", .payload = {bytes, size}), &id, NULL),
            LW_OK);
        atomic_store(&race.last, id);
        if (chance(20))
            lw_cancel(race.engine, any_id());
        if (chance(20)) {
            int rc = lw_wait(race.engine, id, STRESS_HANG_MS, NULL);
            CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
        }
    }
    return NULL;
}

static void check_states(void) {
    for (lw_id id = 1; id <= atomic_load(&race.last); id++)
        CHECK(race.states[id] == 0 || lw_state_is_terminal((lw_state)race.states[id]));
}

static void race_readers(void) {
    struct actors producers = {.count = 0}, readers = {.count = 0}, listener = {.count = 0};
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 3)));
    const lw_retention none = {.finished_ms = LW_ZERO, .failed_ms = LW_ZERO, .aborted_ms = LW_ZERO};
    lw_handle(race.engine, "say", do_say,
              LW_HANDLER_OPTIONS(.retention = none, .retry = {.min_ms = LW_ZERO}), NULL);
    assert_status(lw_events_open(race.engine, &race.events, 4096), LW_OK);
    start_engine(race.engine);
    add_actor(&listener, read_events, NULL);
    for (int i = between(1, 2); i > 0; i--)
        add_actor(&readers, read_all, NULL);
    for (int i = between(1, 2); i > 0; i--)
        add_actor(&producers, produce, NULL);
    join_actors(&producers);
    assert_status(lw_wait_idle(race.engine, STRESS_HANG_MS), LW_OK);
    atomic_store(&race.is_over, true);
    join_actors(&readers);
    stop_engine(race.engine, LW_DRAIN_ALL);
    join_actors(&listener);
    check_states();
    lw_events_close(race.events);
    assert_status(lw_close(race.engine), LW_OK);
}

TEST(readers_see_whole_tasks_while_these_end_and_leave) {
    run_races(150, race_readers);
}

/* ---- waiting ---------------------------------------------------------------------------- */

static void *wait_for_last(void *arg) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    lw_id id = *(lw_id *)arg;
    int rc = lw_wait(race.engine, id, STRESS_HANG_MS, &snapshot);
    CHECK(rc == LW_OK || rc == LW_ENOTFOUND);
    CHECK(rc != LW_OK || snapshot.state == 0 || lw_state_is_terminal(snapshot.state));
    lw_snapshot_clear(&snapshot);
    return NULL;
}

/* Several wait for the same one, which does not stay after its end. */
static void race_waiters(void) {
    struct actors waiters = {.count = 0};
    lw_id id;
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 2)));
    const lw_retention none = {.finished_ms = LW_ZERO, .aborted_ms = LW_ZERO};
    lw_handle(race.engine, "short", do_short, LW_HANDLER_OPTIONS(.retention = none), NULL);
    start_engine(race.engine);
    int64_t delay = chance(50) ? 1 : 0;
    assert_status(lw_submit(race.engine, LW_TASK(.kind = "short", .delay_ms = delay), &id, NULL),
                  LW_OK);
    for (int i = between(1, 4); i > 0; i--)
        add_actor(&waiters, wait_for_last, &id);
    if (chance(30))
        lw_cancel(race.engine, id);
    if (chance(30))
        lw_forget(race.engine, id);
    join_actors(&waiters);
    lw_engine_stats stats;
    assert_status(lw_wait_idle(race.engine, STRESS_HANG_MS), LW_OK);
    assert_status(lw_get_stats(race.engine, &stats), LW_OK);
    CHECK(stats.finished_total + stats.aborted_total == 1);
    assert_status(lw_wait(race.engine, id, 0, NULL), LW_ENOTFOUND); /* nobody holds it any more */
    stop_and_close_engine(race.engine, LW_DROP);
}

TEST(all_who_wait_for_a_task_are_told_and_then_it_leaves) {
    run_races(500, race_waiters);
}
