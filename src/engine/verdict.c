/* From what a handler said to what becomes of its task. All decisions about retries are here. */
#include "engine/engine_internal.h"

#include <pthread.h>

/* ---- what the attempt was ----------------------------------------------------------------- */

/* Why the attempt gave up: the handler's own reason, or the context's. */
static lw_fault fault_of(const struct lw__hand *hand, const struct lw__task *task) {
    if (lw__task_flags(task) & LW__TASK_STUCK)
        return LW_FAULT_STUCK;
    uint64_t signal = atomic_load(&hand->ctx.signal);
    return (signal & LW__SIGNAL_REASON) == LW_REASON_TIMEOUT ? LW_FAULT_TIMEOUT : LW_FAULT_ERROR;
}

static lw_reason reason_of(const struct lw__hand *hand) {
    return (lw_reason)(atomic_load(&hand->ctx.signal) & LW__SIGNAL_REASON);
}

/* ---- retry -------------------------------------------------------------------------------- */

/* NULL: it may be tried again. */
static const char *why_no_more(const struct lw__ruling *r, lw_fault fault, uint64_t now) {
    const struct lw__retry *retry = &r->kind->set.retry;
    if (fault >= LW_FAULT_TIMEOUT && r->crashes + 1 > retry->crashes)
        return "crash budget used up";
    if (fault == LW_FAULT_ERROR && r->attempts - r->crashes >= retry->attempts)
        return "attempts used up";
    if (now > r->since && now - r->since > retry->max_age_ns)
        return "too old";
    return NULL;
}

static uint64_t back_off(lw_engine *engine, const struct lw__retry *retry, uint32_t failures) {
    lw__mutex_lock(&engine->hands_mu);
    uint64_t wait = lw__retry_wait_ns(retry, failures, &engine->random);
    lw__mutex_unlock(&engine->hands_mu);
    return wait;
}

/* Frozen in a stop: else one that comes again at once would keep a drain from ending. */
uint64_t lw__verdict_due(const lw_engine *engine, uint64_t wait, uint64_t now) {
    bool is_frozen = lw__engine_stop_level(engine) != LW__RUNNING && wait == 0;
    return now + (is_frozen ? 1 : wait);
}

void lw__verdict_retry(lw_engine *engine, const struct lw__ruling *r, struct lw__settlement *s,
                       uint64_t now) {
    if (why_no_more(r, s->fault, now)) {
        s->verdict = LW__VERDICT_FAIL;
        return;
    }
    uint32_t failures = s->fault == LW_FAULT_ERROR ? r->attempts - r->crashes : r->crashes + 1;
    uint64_t wait = r->has_wait ? r->wait_ns : back_off(engine, &r->kind->set.retry, failures);
    s->due = lw__verdict_due(engine, wait, now);
    s->verdict = LW__VERDICT_POSTPONE;
    if (s->due >= r->finish_by) {
        s->verdict = LW__VERDICT_ABORT;
        s->why = now >= r->finish_by
                     ? "it was not finished in time"
                     : "it cannot be finished in time: its next attempt would be too late";
    }
}

static uint64_t age_begins_at(const struct lw__hand *hand, const struct lw__task *task) {
    struct lw__grace *grace = &hand->engine->index->grace;
    uint32_t ticket = lw__grace_enter(grace);
    uint64_t since = lw__age_begins_at(task->created_at, lw__see(&task->errors));
    lw__grace_leave(grace, ticket);
    return since;
}

static void decide_retry(struct lw__hand *hand, struct lw__task *task, struct lw__settlement *s,
                         uint64_t now) {
    struct lw__ruling ruling = {.kind = hand->kind,
                                .attempts = lw__see(&task->attempts),
                                .crashes = lw__see(&task->crashes),
                                .since = age_begins_at(hand, task),
                                .finish_by = lw__task_finish_by(task),
                                .has_wait = hand->say.has_wait,
                                .wait_ns = hand->say.wait_ns};
    lw__verdict_retry(hand->engine, &ruling, s, now);
}

/* It was asked to give up, and did. */
static bool decide_given_up(const struct lw__hand *hand, struct lw__task *task,
                            struct lw__settlement *s, uint64_t now) {
    lw_reason reason = reason_of(hand);
    if (lw__task_flags(task) & LW__TASK_CANCELLING) {
        s->verdict = LW__VERDICT_ABORT;
        s->is_uncounted = s->is_snooze = false;
        if (!s->text || !*s->text)
            s->text = "cancelled";
        return true;
    }
    if (reason == LW_REASON_DROPPED || reason == LW_REASON_STOP) {
        /* A drain that ran out of time goes on with what it has not begun: this one stays out of
         * it. */
        s->verdict = reason == LW_REASON_STOP ? LW__VERDICT_POSTPONE : LW__VERDICT_GIVE_BACK;
        s->due = now + 1;
        s->is_uncounted = true;
        s->fault = (lw_fault)0;
        s->text = NULL;
        return true;
    }
    return false;
}

/* ---- all ---------------------------------------------------------------------------------- */

static void decide(struct lw__hand *hand, struct lw__task *task, lw_outcome outcome,
                   struct lw__settlement *s, uint64_t now) {
    s->text = hand->say.text;
    switch (outcome) {
    case LW_OUTCOME_DONE:
        s->verdict = LW__VERDICT_FINISH;
        s->text = NULL;
        s->has_result = hand->say.has_result;
        s->result = (lw_bytes){hand->say.result, hand->say.result_size};
        s->successors = hand->say.successors;
        s->successor_count = hand->say.successor_count;
        break;
    case LW_OUTCOME_FAIL:
        s->verdict = LW__VERDICT_FAIL;
        s->fault = LW_FAULT_ERROR;
        s->is_spent = !hand->is_ordered; /* else nobody was called who would have its argument */
        break;
    case LW_OUTCOME_ABORT:
        s->verdict = LW__VERDICT_ABORT;
        s->fault = LW_FAULT_ERROR;
        s->is_spent = true;
        break;
    case LW_OUTCOME_SNOOZE:
        s->text = NULL;
        s->verdict = LW__VERDICT_POSTPONE;
        s->due = lw__verdict_due(hand->engine, hand->say.wait_ns, now);
        s->is_uncounted = s->is_snooze = true;
        decide_given_up(hand, task, s, now);
        break;
    case LW_OUTCOME_RETRY:
        s->fault = fault_of(hand, task);
        if (!decide_given_up(hand, task, s, now))
            decide_retry(hand, task, s, now);
        break;
    default:
        s->fault = LW_FAULT_ERROR;
        s->text = "its handler returned no outcome";
        decide_retry(hand, task, s, now);
        break;
    }
}

static void decide_crash(struct lw__hand *hand, struct lw__task *task, struct lw__settlement *s,
                         uint64_t now) {
    s->fault = LW_FAULT_CRASH;
    s->text = "its thread ended";
    hand->say.has_wait = false;
    if (lw__task_flags(task) & LW__TASK_CANCELLING)
        s->verdict = LW__VERDICT_ABORT;
    else
        decide_retry(hand, task, s, now);
}

/* It returned done, and that cannot be honoured: the attempt has failed. A function that a task
 * brought along has had its argument then, and may have freed it: it is not called again. */
static void decide_refused(struct lw__hand *hand, struct lw__settlement *s, const char *text,
                           uint64_t now) {
    s->fault = LW_FAULT_ERROR;
    s->text = text;
    if (hand->shown.run) {
        s->verdict = LW__VERDICT_FAIL;
        s->is_spent = true;
    } else {
        decide_retry(hand, s->task, s, now);
    }
}

/* The store could not take the outcome: its successors did not fit, or there was no memory. The
 * attempt has failed then, and none of it was applied. */
static void settle_refused(struct lw__hand *hand, const struct lw__settlement *s, uint64_t now) {
    const char *text = s->status == LW_EFULL    ? "there was no room for its successors"
                       : s->status == LW_ENOMEM ? "there was no memory for its outcome"
                                                : "its successors were refused";
    struct lw__settlement again = {.task = s->task, .token = s->token};
    decide_refused(hand, &again, text, now);
    lw__layer_settle(hand, &again, LW_OUTCOME_RETRY, now);
    if (again.status == LW_ENOMEM) /* not even for what a layer has to say about it */
        hand->engine->store->ops->settle(hand->engine->store, now, &again, 1);
}

/* What the handler has committed counts, and not what it said then. Successors come with lw_done
 * alone. */
static void finish_after_all(struct lw__settlement *s) {
    *s = (struct lw__settlement){.task = s->task,
                                 .token = s->token,
                                 .verdict = LW__VERDICT_FINISH,
                                 .has_written_outside = s->has_written_outside};
}

/* ---- on_attempt --------------------------------------------------------------------------- */

static void clear_snapshot(void *snapshot) {
    lw_snapshot_clear(snapshot);
}

/* A task that does not stay after its end stays until this attempt of it was told. */
static void hold(struct lw__hand *hand, uint64_t id) {
    struct lw__store *store = hand->engine->store;
    hand->hold = (struct lw__await){.id = id};
    hand->is_holding = store->ops->await(store, &hand->hold) == LW_OK;
}

static void let_go(struct lw__hand *hand) {
    struct lw__store *store = hand->engine->store;
    if (hand->is_holding)
        store->ops->unawait(store, &hand->hold);
    hand->is_holding = false;
}

/* Without memory it has what needs none. */
static bool copy(lw_engine *engine, uint64_t id, lw_snapshot *snapshot) {
    struct lw__index *index = engine->index;
    bool must_read = false;
    int rc = LW_ENOTFOUND;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    if (task)
        rc = lw__snapshot_fill(engine, task, snapshot, &must_read);
    lw__grace_leave(&index->grace, ticket);
    if (rc == LW_OK && must_read)
        lw__snapshot_read(engine, snapshot);
    return task != NULL;
}

/* The task may have gone on since it was settled: then the snapshot shows that. */
void lw__verdict_tell(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    uint64_t id = hand->to_tell;
    hand->to_tell = 0; /* the callback may end its thread */
    bool is_there = id != 0 && copy(engine, id, &snapshot);
    let_go(hand);
    if (!is_there)
        return;
    pthread_cleanup_push(clear_snapshot, &snapshot);
    engine->set.on_attempt(engine->set.user, &snapshot);
    pthread_cleanup_pop(1);
}

/* ---- settling ----------------------------------------------------------------------------- */

void lw__verdict_settle(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                        lw_outcome outcome, lw_fault fault) {
    lw_engine *engine = hand->engine;
    uint64_t now = lw__engine_now(engine);
    struct lw__settlement s = {
        .task = task, .token = token, .has_written_outside = hand->ctx.has_written_outside};
    if (fault == LW_FAULT_CRASH || outcome == 0) {
        decide_crash(hand, task, &s, now);
    } else if (outcome == LW_OUTCOME_DONE && hand->say.refusal) {
        decide_refused(hand, &s, hand->say.refusal, now);
        outcome = LW_OUTCOME_RETRY;
    } else {
        decide(hand, task, outcome, &s, now);
    }
    uint64_t id = task->id; /* once it is settled it may leave */
    if (engine->set.on_attempt)
        hold(hand, id);
    lw__layer_settle(hand, &s, outcome, now);
    if (s.status == LW_EXISTS) { /* it was done in a transaction of its own */
        finish_after_all(&s);
        lw__layer_settle(hand, &s, LW_OUTCOME_DONE, now);
    }
    bool is_refused = s.status < 0 && s.status != LW_ELEASE;
    if (is_refused)
        settle_refused(hand, &s, now);
    for (size_t i = 0; s.status == LW_OK && i < s.successor_count; i++)
        if (s.successors[i].status == LW_OK)
            s.successors[i].spec = NULL; /* the store's, now; those that existed are forgotten */
    if (engine->set.on_attempt && (s.text || is_refused) && s.status != LW_ELEASE)
        hand->to_tell = id;
    else
        let_go(hand);
}
