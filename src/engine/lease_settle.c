/* Settling attempts that somebody else has run: from what was said of each to the store, many at a
 * time, each by itself. */
#include "base/error.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

#include <legwork/lease.h>
#include <string.h>

/* What is settled in one go. */
struct round {
    lw_engine *engine;
    uint64_t now;
    size_t count;
    lw_settlement *said[LW__SETTLE_MAX];
    size_t numbers[LW__SETTLE_MAX]; /* of these, from 1 on */
    struct lw__settlement settlements[LW__SETTLE_MAX];
    lw_error *err;
};

/* ---- one settlement ----------------------------------------------------------------------- */

static int check_times(const lw_settlement *said, lw_error *err) {
    bool has_time = said->outcome == LW_OUTCOME_RETRY || said->outcome == LW_OUTCOME_SNOOZE;
    bool is_time =
        said->wait_ms == LW_ZERO || (said->wait_ms >= 0 && said->wait_ms <= LW_TIMEOUT_MS_MAX);
    if (!is_time || (said->wait_ms != 0 && !has_time))
        return lw__error_set(
            err, LW_EINVAL, 0,
            "wait_ms is %lld, must be LW_ZERO, or from 0 to %lld; and only a retry "
            "or a snooze has it",
            (long long)said->wait_ms, (long long)LW_TIMEOUT_MS_MAX);
    return LW_OK;
}

static int check(const lw_settlement *said, lw_error *err) {
    bool is_done = said->outcome == LW_OUTCOME_DONE;
    if (said->outcome < LW_OUTCOME_DONE || said->outcome > LW_OUTCOME_ABORT)
        return lw__error_set(err, LW_EINVAL, 0, "%d is no outcome", (int)said->outcome);
    if (!is_done && (said->result.data || said->result.size > 0 || said->then_count > 0))
        return lw__error_set(err, LW_EINVAL, 0,
                             "only an attempt that is done has a result, or successors");
    if (said->result.size > LW_PAYLOAD_MAX || (said->result.size > 0 && !said->result.data))
        return lw__error_set(err, LW_EINVAL, 0,
                             "the result has %zu bytes, must be at most %d, and not NULL",
                             said->result.size, LW_PAYLOAD_MAX);
    if (said->then_count > LW_THEN_MAX || (said->then_count > 0 && !said->then))
        return lw__error_set(err, LW_EINVAL, 0, "%zu successors, must be at most %d, and not NULL",
                             said->then_count, LW_THEN_MAX);
    return check_times(said, err);
}

/* What the verdict depends on; it cannot change while the attempt is the present one. */
static int look(lw_engine *engine, const lw_settlement *said, struct lw__ruling *ruling,
                struct lw__task_view *view) {
    struct lw__index *index = engine->index;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, said->id);
    bool is_present = task && lw__task_state(task) == LW_STARTED;
    if (is_present) {
        lw__task_view(task, view);
        is_present = view->token == said->token;
    }
    if (is_present) {
        *ruling = (struct lw__ruling){.kind = lw__kind_of(engine, view->kind),
                                      .attempts = view->attempts,
                                      .crashes = view->crashes,
                                      .since = lw__age_begins_at(view->created_at, view->errors),
                                      .finish_by = lw__task_finish_by(task)};
    }
    lw__grace_leave(&index->grace, ticket);
    return is_present ? LW_OK : LW_ELEASE;
}

static uint64_t wait_of(const lw_settlement *said) {
    return said->wait_ms > 0 ? (uint64_t)said->wait_ms * LW__NS_PER_MS : 0;
}

static void decide_retry(lw_engine *engine, const lw_settlement *said, struct lw__ruling *ruling,
                         bool is_cancelling, struct lw__settlement *s, uint64_t now) {
    ruling->has_wait = said->wait_ms != 0;
    ruling->wait_ns = wait_of(said);
    s->fault = LW_FAULT_ERROR;
    if (is_cancelling)
        s->verdict = LW__VERDICT_ABORT;
    else
        lw__verdict_retry(engine, ruling, s, now);
}

static int decide(const struct round *round, const lw_settlement *said, struct lw__settlement *s) {
    struct lw__ruling ruling;
    struct lw__task_view view;
    if (look(round->engine, said, &ruling, &view) < 0)
        return LW_ELEASE;
    bool is_cancelling = view.flags & LW__TASK_CANCELLING;
    uint64_t run_ns = round->now > view.started_at ? round->now - view.started_at : 0;
    lw__metrics_sample(round->engine, view.kind, view.queue, view.started_at - view.enqueued_at,
                       run_ns);
    s->text = said->text ? said->text : is_cancelling ? "cancelled" : "";
    switch (said->outcome) {
    case LW_OUTCOME_DONE:
        s->verdict = LW__VERDICT_FINISH;
        s->text = NULL;
        s->has_result = said->result.data != NULL;
        s->result = said->result;
        break;
    case LW_OUTCOME_RETRY:
        decide_retry(round->engine, said, &ruling, is_cancelling, s, round->now);
        break;
    case LW_OUTCOME_SNOOZE:
        s->verdict = LW__VERDICT_POSTPONE;
        s->text = NULL;
        s->due = lw__verdict_due(round->engine, wait_of(said), round->now);
        s->is_uncounted = s->is_snooze = true;
        break;
    case LW_OUTCOME_FAIL:
        s->verdict = LW__VERDICT_FAIL;
        s->fault = LW_FAULT_ERROR;
        break;
    case LW_OUTCOME_ABORT:
        s->verdict = LW__VERDICT_ABORT;
        s->fault = LW_FAULT_ERROR;
        break;
    }
    return LW_OK;
}

/* ---- successors --------------------------------------------------------------------------- */

static void free_successors(lw_engine *engine, struct lw__settlement *s, size_t capacity) {
    for (size_t i = 0; i < s->successor_count; i++)
        lw__spec_free(engine, &s->successors[i]);
    if (s->successors)
        lw__free(&engine->set.allocator, s->successors, capacity * sizeof *s->successors);
    s->successors = NULL;
}

/* A task that is gone, or has ended, is found by the store. */
static int check_own_key(lw_engine *engine, uint64_t id, const struct lw__put *put, lw_error *err) {
    struct lw__index *index = engine->index;
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_present = task && lw__task_state(task) == LW_STARTED;
    int rc = is_present ? lw__spec_check_then(task, put, err) : LW_OK;
    lw__grace_leave(&index->grace, ticket);
    return rc;
}

static int make_successors(struct round *round, const lw_settlement *said, struct lw__settlement *s,
                           lw_error *err) {
    lw_engine *engine = round->engine;
    if (said->then_count == 0)
        return LW_OK;
    s->successors =
        lw__alloc_zero(&engine->set.allocator, said->then_count * sizeof *s->successors);
    if (!s->successors)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for %zu successors", said->then_count);
    for (size_t i = 0; i < said->then_count; i++) {
        lw_error detail = {0};
        struct lw__put *put = &s->successors[i];
        int rc = lw__spec_make(engine, said->then[i], &round->now, put, &detail);
        s->successor_count += rc == LW_OK;
        if (rc == LW_OK)
            rc = check_own_key(engine, said->id, put, &detail);
        if (rc < 0) {
            lw__error_set(err, rc, 0, "successor %zu: %s", i + 1, detail.message);
            free_successors(engine, s, said->then_count);
            return rc;
        }
        put->is_inside = put->is_successor = true;
    }
    return LW_OK;
}

/* Those that were accepted are the store's. */
static void let_go(struct round *round, struct lw__settlement *s, const lw_settlement *said) {
    for (size_t i = 0; s->status == LW_OK && i < s->successor_count; i++) {
        if (s->successors[i].status == LW_OK)
            s->successors[i].spec = NULL;
    }
    free_successors(round->engine, s, said->then_count);
}

/* ---- repetitions -------------------------------------------------------------------------- */

/* The state in which an outcome leaves its task for good; 0: the task goes on. */
static lw_state end_of(lw_outcome outcome) {
    switch (outcome) {
    case LW_OUTCOME_DONE: return LW_FINISHED;
    case LW_OUTCOME_FAIL: return LW_FAILED;
    case LW_OUTCOME_ABORT: return LW_ABORTED;
    default: return (lw_state)0;
    }
}

/* A completion in the holder's own transaction has no successors: those that come now were never
 * submitted. (After a restart that is not known any more.) */
static bool brings_what_was_not_applied(struct lw__index *index, const lw_settlement *said) {
    if (said->then_count == 0)
        return false;
    lw__index_lock(index);
    const struct lw__task *task = lw__ids_find(&index->ids, said->id);
    bool is_done_outside = task && task->notes & LW__NOTE_DONE;
    lw__index_unlock(index);
    return is_done_outside;
}

/* Whether the task has ended so, with this attempt as its last: a worker that got no answer says
 * the same again. */
static bool has_ended_so(lw_engine *engine, const lw_settlement *said) {
    struct lw__index *index = engine->index;
    struct lw__task_view view = {.token = 0};
    uint32_t ticket = lw__grace_enter(&index->grace);
    const struct lw__task *task = lw__ids_find(&index->ids, said->id);
    if (task)
        lw__task_view(task, &view);
    lw__grace_leave(&index->grace, ticket);
    return task && view.token == said->token && view.state == end_of(said->outcome)
           && !brings_what_was_not_applied(index, said);
}

/* ---- many --------------------------------------------------------------------------------- */

/* The first failure is told, with its number. */
static void refuse(struct round *round, lw_settlement *said, size_t number, int status,
                   const char *why) {
    bool is_repeated = status == LW_ELEASE && has_ended_so(round->engine, said);
    said->status = is_repeated ? LW_OK : status;
    if (is_repeated)
        return;
    if (round->err && round->err->status == 0)
        lw__error_set(round->err, status, 0, "settlement %zu, of task %llu: %s", number, said->id,
                      why);
}

static void prepare(struct round *round, lw_settlement *said, size_t number) {
    lw_error err = {0};
    struct lw__settlement *s = &round->settlements[round->count];
    *s = (struct lw__settlement){.is_leased = true, .id = said->id, .token = said->token};
    int rc = check(said, &err);
    if (rc == LW_OK)
        rc = decide(round, said, s);
    if (rc == LW_OK)
        rc = make_successors(round, said, s, &err);
    if (rc < 0) {
        refuse(round, said, number, rc, err.status ? err.message : lw_status_text(rc));
        return;
    }
    round->numbers[round->count] = number;
    round->said[round->count++] = said;
}

static void settle_round(struct round *round) {
    struct lw__store *store = round->engine->store;
    if (round->count > 0)
        store->ops->settle(store, round->now, round->settlements, round->count);
    for (size_t i = 0; i < round->count; i++) {
        struct lw__settlement *s = &round->settlements[i];
        lw_settlement *said = round->said[i];
        said->status = s->status;
        if (s->status < 0)
            refuse(round, said, round->numbers[i], s->status,
                   s->status == LW_EFULL ? "there is no room for its successors"
                                         : lw_status_text(s->status));
        let_go(round, s, said);
    }
    round->count = 0;
}

static void settle_all(struct round *round, lw_settlement *settlements, size_t count) {
    for (size_t first = 0; first < count; first += LW__SETTLE_MAX) {
        size_t end = first + LW__SETTLE_MAX < count ? first + LW__SETTLE_MAX : count;
        round->now = lw__engine_now(round->engine);
        for (size_t i = first; i < end; i++)
            prepare(round, &settlements[i], i + 1);
        settle_round(round);
    }
}

int lw_lease_settle(lw_engine *engine, lw_settlement *settlements, size_t count, unsigned flags,
                    lw_error *err) {
    struct round round = {.engine = engine, .err = err};
    int rc = lw__lease_check(engine, err);
    if (rc < 0)
        return rc;
    if (!settlements || count == 0 || count > LW_SETTLE_MAX || flags & ~LW_NO_WAIT)
        return lw__error_set(
            err, LW_EINVAL, 0,
            "%zu settlements, must be 1 to %d, and not NULL; flags 0x%x, must be 0 "
            "or LW_NO_WAIT",
            count, LW_SETTLE_MAX, flags);
    if (err)
        err->status = 0;
    settle_all(&round, settlements, count);
    rc = lw__lease_sync(engine, flags);
    for (size_t i = 0; rc < 0 && i < count; i++) {
        if (settlements[i].status == LW_OK)
            settlements[i].status = rc;
    }
    return LW_OK;
}
