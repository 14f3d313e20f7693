/* Every state × everything that the port can do to a task in it: the state after it, what the
 * call says, and that nothing but the table's transitions has happened. */
#include "stores.h"

#include <stdio.h>

/* The states that can be told apart from outside. */
enum place { CREATED, SCHEDULED, ENQUEUED, CLAIMED, ABANDONED, STARTED, FINISHED, FAILED, ABORTED };

enum deed {
    BEGIN,
    FINISH_QUICKLY,
    SETTLE_FINISH,
    SETTLE_POSTPONE,
    SETTLE_GIVE_BACK,
    SETTLE_FAIL,
    SETTLE_ABORT,
    SETTLE_STALE,
    PUBLISH,
    CANCEL,
    RETRY,
    FORGET,
    EXPEDITE,
    UNCLAIM,
    DROP_OLDEST,
    BRING_FORWARD,
    SWEEP_DUE,
    DEEDS
};

static const char *const place_names[] = {"created",  "scheduled", "enqueued",
                                          "claimed",  "abandoned", "started",
                                          "finished", "failed",    "aborted"};
static const char *const deed_names[] = {
    "begin",         "finish",       "settle finish", "settle postpone", "settle give back",
    "settle fail",   "settle abort", "settle stale",  "publish",         "cancel",
    "retry",         "forget",       "expedite",      "unclaim",         "drop oldest",
    "bring forward", "sweep"};

_Static_assert(COUNT_OF(deed_names) == DEEDS, "a name for each");

struct subject {
    struct lw__task *task, *other; /* what it waits for */
    struct attempt attempt;
};

static struct subject bring_to(struct rig *rig, enum place place) {
    struct subject s = {NULL, NULL, {NULL, 0}};
    if (place == CREATED) {
        s.other = PUT(rig, .due = rig->now + 1000 * MS);
        s.task = PUT(rig, .after = {s.other->id});
        return s;
    }
    s.task = PUT(rig, .due = place == SCHEDULED ? rig->now + 10 * MS : 0);
    if (place >= CLAIMED)
        s.attempt = claim_one(rig);
    if (place >= STARTED)
        CHECK(rig->ops->begin(rig->store, s.task, s.attempt.token, rig->now));
    switch (place) {
    case ABANDONED: change(rig, s.task->id, LW__CHANGE_CANCEL); break;
    case FINISHED: SETTLE(rig, s.attempt, .verdict = LW__VERDICT_FINISH); break;
    case FAILED: SETTLE(rig, s.attempt, .verdict = LW__VERDICT_FAIL); break;
    case ABORTED: SETTLE(rig, s.attempt, .verdict = LW__VERDICT_ABORT); break;
    default: break;
    }
    return s;
}

/* Whether the caller of the deed may do it to a task in this place: the rest is a programmer's
 * error, because only who has claimed a task has it. */
static bool is_allowed(enum place place, enum deed deed) {
    switch (deed) {
    case BEGIN: return place == CLAIMED || place == ABANDONED;
    case FINISH_QUICKLY: return place == STARTED;
    case UNCLAIM: return place == CLAIMED || place == ABANDONED;
    default: return true;
    }
}

static int settle_by(struct rig *rig, struct subject *s, enum lw__verdict verdict, int stale) {
    struct attempt attempt = {s->task, s->attempt.token + (uint64_t)stale};
    return SETTLE(rig, attempt, .verdict = verdict, .due = rig->now + 10 * MS);
}

static int publish(struct rig *rig, struct subject *s) {
    struct lw__publication publication = {.has_progress = true, .done = 1, .text = ""};
    return rig->ops->publish(rig->store, s->task, s->attempt.token, &publication);
}

static int bring_all_forward(struct rig *rig) {
    uint64_t after = 0;
    while (rig->ops->bring_forward(rig->store, rig->now, &after)) {
    }
    return LW_OK;
}

static int sweep_due(struct rig *rig) {
    pass(rig, 20);
    while (rig->ops->sweep(rig->store, rig->now) <= rig->now) {
    }
    return LW_OK;
}

static int do_it(struct rig *rig, struct subject *s, enum deed deed) {
    struct lw__task *task = s->task;
    switch (deed) {
    case BEGIN: return rig->ops->begin(rig->store, task, s->attempt.token, rig->now);
    case FINISH_QUICKLY: return rig->ops->finish(rig->store, task, rig->now);
    case SETTLE_FINISH: return settle_by(rig, s, LW__VERDICT_FINISH, 0);
    case SETTLE_POSTPONE: return settle_by(rig, s, LW__VERDICT_POSTPONE, 0);
    case SETTLE_GIVE_BACK: return settle_by(rig, s, LW__VERDICT_GIVE_BACK, 0);
    case SETTLE_FAIL: return settle_by(rig, s, LW__VERDICT_FAIL, 0);
    case SETTLE_ABORT: return settle_by(rig, s, LW__VERDICT_ABORT, 0);
    case SETTLE_STALE: return settle_by(rig, s, LW__VERDICT_FINISH, 1000);
    case PUBLISH: return publish(rig, s);
    case CANCEL: return change(rig, task->id, LW__CHANGE_CANCEL);
    case RETRY: return change(rig, task->id, LW__CHANGE_RETRY);
    case FORGET: return change(rig, task->id, LW__CHANGE_FORGET);
    case EXPEDITE: return change(rig, task->id, LW__CHANGE_EXPEDITE);
    case UNCLAIM: rig->ops->unclaim(rig->store, rig->now, &task, 1); return LW_OK;
    case DROP_OLDEST: return drop_oldest(rig);
    case BRING_FORWARD: return bring_all_forward(rig);
    default: return sweep_due(rig);
    }
}

/* What comes of it. GONE: it has left. */
struct expected {
    lw_state state;
    int status;
};

#define GONE ((lw_state)0)

static const lw_state states[] = {LW_CREATED, LW_SCHEDULED, LW_ENQUEUED, LW_ENQUEUED, LW_ABORTED,
                                  LW_STARTED, LW_FINISHED,  LW_FAILED,   LW_ABORTED};

static struct expected expect_settle(enum place place, lw_state to) {
    return place == STARTED ? (struct expected){to, LW_OK}
                            : (struct expected){states[place], LW_ELEASE};
}

/* The end of an abandoned task is not written before its worker gives it back: until then a second
 * cancel of it waits on a durable store, as the first does. */
static struct expected expect_change(const struct rig *rig, enum place place, enum deed deed) {
    bool is_over = place >= FINISHED;
    lw_state same = states[place];
    switch (deed) {
    case CANCEL:
        if (place == ABANDONED && is_durable(rig))
            return (struct expected){same, LW_OK};
        if (is_over || place == ABANDONED)
            return (struct expected){same, LW_ENOTFOUND};
        return place == STARTED ? (struct expected){same, LW_PENDING}
                                : (struct expected){LW_ABORTED, LW_OK};
    case RETRY:
        if (place == SCHEDULED || place == FAILED || place == ABORTED)
            return (struct expected){LW_ENQUEUED, LW_OK};
        return (struct expected){same, place == FINISHED ? LW_EINVAL : LW_PENDING};
    case FORGET:
        return is_over ? (struct expected){GONE, LW_OK} : (struct expected){same, LW_PENDING};
    default:
        return place == SCHEDULED ? (struct expected){LW_ENQUEUED, LW_OK}
                                  : (struct expected){same, LW_PENDING};
    }
}

static struct expected expect(const struct rig *rig, enum place place, enum deed deed) {
    lw_state same = states[place];
    switch (deed) {
    case BEGIN: return (struct expected){place == CLAIMED ? LW_STARTED : same, place == CLAIMED};
    case FINISH_QUICKLY: return (struct expected){LW_FINISHED, true};
    case SETTLE_FINISH: return expect_settle(place, LW_FINISHED);
    case SETTLE_POSTPONE: return expect_settle(place, LW_SCHEDULED);
    case SETTLE_GIVE_BACK: return expect_settle(place, LW_ENQUEUED);
    case SETTLE_FAIL: return expect_settle(place, LW_FAILED);
    case SETTLE_ABORT: return expect_settle(place, LW_ABORTED);
    case SETTLE_STALE: return (struct expected){same, LW_ELEASE};
    case PUBLISH: return (struct expected){same, place == STARTED ? LW_OK : LW_ELEASE};
    case UNCLAIM: return (struct expected){same, LW_OK};
    case DROP_OLDEST:
        return (struct expected){place == ENQUEUED ? LW_ABORTED : same, place == ENQUEUED};
    case BRING_FORWARD: return (struct expected){place == SCHEDULED ? LW_ENQUEUED : same, LW_OK};
    case SWEEP_DUE: return (struct expected){place == SCHEDULED ? LW_ENQUEUED : same, LW_OK};
    default: return expect_change(rig, place, deed);
    }
}

static void assert_moves_are_legal(const struct rig *rig) {
    for (uint64_t i = 0; i < rig->move_count; i++) {
        bool is_legal = false;
        for (int event = 0; event < LW__EVENTS; event++)
            is_legal |=
                lw__state_after(rig->moves[i].from, (enum lw__task_event)event) == rig->moves[i].to;
        CHECK(is_legal);
    }
}

static enum place walked_place;
static enum deed walked_deed;

static void walk_one(struct rig *rig) {
    struct subject s = bring_to(rig, walked_place);
    uint64_t id = s.task->id;
    assert_state(s.task, states[walked_place]);
    struct expected expected = expect(rig, walked_place, walked_deed);
    int status = do_it(rig, &s, walked_deed);
    struct lw__task *task = find(rig, id);
    lw_state state = task ? state_of_task(task) : GONE;
    if (state != expected.state || status != expected.status)
        fprintf(stderr, "%s, %s: is %s and said %d, should be %s and say %d\n",
                place_names[walked_place], deed_names[walked_deed], lw_state_name(state), status,
                lw_state_name(expected.state), expected.status);
    assert_int_equal(state, expected.state);
    assert_int_equal(status, expected.status);
    assert_moves_are_legal(rig);
}

TEST(every_state_and_everything_that_can_be_done_to_it) {
    for (walked_place = CREATED; walked_place <= ABORTED; walked_place++) {
        for (walked_deed = BEGIN; walked_deed < DEEDS; walked_deed++) {
            if (is_allowed(walked_place, walked_deed))
                each_store(walk_one, &(const struct rig_options){.task_limit = 0});
        }
    }
}
