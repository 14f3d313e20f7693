/* How attempts end, what operators do, and what time does: see sim_model.h. */
#include "sim_model_internal.h"

#include <string.h>

/* ---- the end of an attempt ----------------------------------------------------------------- */

/* min, then doublings, then by the last of these each time. */
static uint64_t back_off(const struct sim_kind *k, unsigned failures) {
    uint64_t wait = k->min, step = 0;
    for (unsigned i = 1; i < failures && wait < k->max; i++) {
        if (i <= k->doublings)
            wait *= 2;
        else
            wait += step ? step : (step = wait);
    }
    return wait < k->max ? wait : k->max;
}

/* Nothing runs again at once while the engine stops. */
static uint64_t frozen(const struct sim_model *m, uint64_t due) {
    return m->is_stopping && due <= m->now ? m->now + 1 : due;
}

static void again(struct sim_model *m, struct sim_task *t, uint64_t due) {
    t->is_claimed = t->is_cancelling = t->is_stuck = t->is_wall = t->is_asked = false;
    if (due > m->now) {
        sim__schedule(t, due);
    } else {
        t->due = m->now;
        sim__enqueue(m, t);
    }
    sim__keep(m, t);
}

static void give_back(struct sim_model *m, struct sim_task *t) {
    t->is_claimed = t->is_cancelling = t->is_stuck = t->is_wall = t->is_asked = false;
    t->attempts--;
    sim__enqueue(m, t);
    sim__keep(m, t);
}

static void retry(struct sim_model *m, struct sim_task *t, const struct sim_words *w,
                  lw_fault fault, uint64_t *due_min, uint64_t *due_max) {
    struct sim_kind *k = &m->kinds[t->spec.kind];
    unsigned errors = t->attempts - t->crashes; /* with this one, if it is none of the others */
    unsigned crashes = t->crashes;
    bool is_crash = fault != LW_FAULT_ERROR;
    sim__err(m, t);
    if (is_crash) {
        crashes++;
        t->crashes++;
        k->crashed++;
    }
    if ((is_crash && crashes > k->crashes) || (!is_crash && errors >= k->attempts)
        || m->now - (t->retried > t->created ? t->retried : t->created) > k->max_age) {
        sim__end_by(m, t, LW_FAILED);
        return;
    }
    uint64_t wait = w && w->has_wait ? w->wait : back_off(k, is_crash ? crashes : errors);
    uint64_t spread = w && w->has_wait ? 0 : wait * k->jitter_percent / 100;
    *due_min = frozen(m, m->now + wait - spread);
    *due_max = frozen(m, m->now + wait + spread);
    if (spread > 0 && *due_min < m->now + SIM_MS)
        *due_min = m->now + SIM_MS;
    if (t->is_limited && *due_min >= t->finish_by) {
        sim__err(m, t); /* and why */
        sim__end_by(m, t, LW_ABORTED);
        return;
    }
    if (t->is_cancelling) { /* it does not run again, whatever led to it */
        sim__end_by(m, t, LW_ABORTED);
        return;
    }
    k->retried++;
    again(m, t, *due_min);
}

int sim_then(const struct sim_task *t, const struct sim_spec *s) {
    bool is_own = s->key && s->key == t->spec.key && s->kind == t->spec.kind;
    return is_own && t->spec.scope != LW_KEY_UNFINISHED ? LW_EINVAL : LW_OK;
}

static void finish(struct sim_model *m, struct sim_task *t, const struct sim_words *w,
                   uint64_t *due_min, uint64_t *due_max) {
    struct sim_put then[SIM_THEN];
    memcpy(then, w->then, sizeof then);
    m->leaving = t->id;
    bool is_refused = w->then_count > 0 && sim_put(m, then, w->then_count) < 0;
    m->leaving = 0;
    if (is_refused && !t->spec.is_call) {
        retry(m, t, NULL, LW_FAULT_ERROR, due_min, due_max);
        return;
    }
    t->errors += is_refused;
    t->is_spent = true;
    sim__end_by(m, t, is_refused ? LW_FAILED : LW_FINISHED);
}

static void snooze(struct sim_model *m, struct sim_task *t, uint64_t wait) {
    uint64_t due = frozen(m, m->now + wait);
    if (t->is_cancelling) { /* it gives up */
        sim__err(m, t);
        sim__end_by(m, t, LW_ABORTED);
        return;
    }
    t->snoozes++;
    m->kinds[t->spec.kind].snoozed++;
    if (t->reason == LW_REASON_DROPPED) {
        give_back(m, t);
    } else {
        t->attempts--;
        again(m, t, t->reason == LW_REASON_STOP ? m->now + 1 : due);
    }
}

static void give_up(struct sim_model *m, struct sim_task *t, const struct sim_words *w,
                    uint64_t *due_min, uint64_t *due_max) {
    lw_fault fault = t->is_stuck                      ? LW_FAULT_STUCK
                     : t->reason == LW_REASON_TIMEOUT ? LW_FAULT_TIMEOUT
                                                      : LW_FAULT_ERROR;
    if (t->is_cancelling) {
        sim__err(m, t);
        t->crashes += fault != LW_FAULT_ERROR;
        m->kinds[t->spec.kind].crashed += fault != LW_FAULT_ERROR;
        sim__end_by(m, t, LW_ABORTED);
    } else if (t->reason == LW_REASON_DROPPED) {
        give_back(m, t);
    } else if (t->reason
               == LW_REASON_STOP) { /* a drain that is out of time does not start it again */
        t->attempts--;
        again(m, t, m->now + 1);
    } else {
        retry(m, t, w, fault, due_min, due_max);
    }
}

static void crash(struct sim_model *m, struct sim_task *t, uint64_t *due_min, uint64_t *due_max) {
    if (!t->is_cancelling) {
        retry(m, t, NULL, LW_FAULT_CRASH, due_min, due_max);
        return;
    }
    sim__err(m, t);
    t->crashes++;
    m->kinds[t->spec.kind].crashed++;
    sim__end_by(m, t, LW_ABORTED);
}

void sim_end_attempt(struct sim_model *m, struct sim_task *t, const struct sim_words *w,
                     uint64_t *due_min, uint64_t *due_max) {
    *due_min = *due_max = 0;
    t->deadline = t->stuck_at = SIM_NEVER;
    if (w->is_crash) {
        crash(m, t, due_min, due_max);
        return;
    }
    switch (w->outcome) {
    case LW_OUTCOME_DONE: finish(m, t, w, due_min, due_max); break;
    case LW_OUTCOME_RETRY: give_up(m, t, w, due_min, due_max); break;
    case LW_OUTCOME_SNOOZE: snooze(m, t, w->wait); break;
    case LW_OUTCOME_FAIL:
    case LW_OUTCOME_ABORT:
        sim__err(m, t);
        t->is_spent = true;
        sim__end_by(m, t, w->outcome == LW_OUTCOME_FAIL ? LW_FAILED : LW_ABORTED);
        break;
    default: retry(m, t, NULL, LW_FAULT_ERROR, due_min, due_max); break;
    }
}

void sim_finish(struct sim_model *m, struct sim_task *t) {
    t->state = LW_FINISHED;
    t->ended = m->now;
    t->deadline = t->stuck_at = SIM_NEVER;
}

void sim_account(struct sim_model *m, struct sim_task *t) {
    t->is_claimed = false;
    sim__finish_end(m, t);
}

/* ---- steer --------------------------------------------------------------------------------- */

static void ask(struct sim_task *t, lw_reason reason) {
    if (t->reason == LW_REASON_NONE)
        t->reason = reason;
}

int sim_cancel(struct sim_model *m, lw_id id) {
    struct sim_task *t = sim_find(m, id);
    if (t && t->state == LW_ABORTED && t->is_claimed && m->is_durable)
        return LW_OK; /* its end is not written yet */
    if (!t || sim_is_terminal(t->state))
        return LW_ENOTFOUND;
    if (t->state == LW_STARTED) {
        t->is_cancelling = true;
        ask(t, LW_REASON_CANCELLED);
        return LW_PENDING;
    }
    sim__abort_waiting(m, t);
    return LW_OK;
}

static int revive(struct sim_model *m, struct sim_task *t) {
    bool is_reserved;
    if (t->is_claimed || t->is_telling)
        return LW_PENDING;
    if (t->spec.is_call)
        return LW_EINVAL;
    lw_id holder = t->spec.key ? sim_key_holder(m, t->spec.kind, t->spec.key) : 0;
    if (holder && holder != t->id)
        return LW_EXISTS;
    if (!sim__has_room(m, &t->spec, false, &is_reserved))
        return LW_EFULL;
    t->is_counted = true;
    t->is_retained = t->is_lingering = t->is_limited = t->is_wall = t->is_drained = false;
    t->attempts = t->crashes = 0;
    t->due = t->retried = m->now;
    sim__enqueue(m, t);
    t->is_kept_enqueued = true;
    t->offsets_ms.due = t->offsets_ms.retried = m->wall_offset_ms;
    return LW_OK;
}

int sim_retry_now(struct sim_model *m, lw_id id) {
    struct sim_task *t = sim_find(m, id);
    if (m->is_stopping)
        return LW_ESTOPPING;
    if (!t)
        return LW_ENOTFOUND;
    if (t->state == LW_FINISHED)
        return LW_EINVAL;
    if (sim_is_terminal(t->state))
        return revive(m, t);
    if (t->state != LW_SCHEDULED)
        return LW_PENDING;
    sim__run_now(m, t);
    sim__keep(m, t);
    return LW_OK;
}

int sim_forget(struct sim_model *m, lw_id id) {
    struct sim_task *t = sim_find(m, id);
    if (!t)
        return LW_ENOTFOUND;
    if (!sim_is_terminal(t->state) || t->is_claimed || t->is_telling)
        return LW_PENDING;
    t->is_there = t->is_retained = t->is_lingering = false;
    (void)m;
    return LW_OK;
}

/* ---- time ---------------------------------------------------------------------------------- */

static bool was_set(const struct sim_model *m) {
    int64_t step = m->wall_offset_ms - m->known_offset_ms;
    return step >= 100 || step <= -100;
}

static void look_at_wall(struct sim_model *m) {
    if (!was_set(m))
        return;
    m->known_offset_ms = m->wall_offset_ms;
    for (lw_id id = 1; id <= m->last_id; id++) {
        struct sim_task *t = &m->tasks[id];
        if (!t->is_there || t->state != LW_SCHEDULED || !t->is_wall)
            continue;
        int64_t wait = t->spec.run_at_ms - sim_wall_ms(m);
        sim__shift(t, wait > 0 ? m->now + (uint64_t)wait * SIM_MS : m->now);
    }
}

static void look_at_delay(struct sim_model *m, struct sim_task *t) {
    if (m->no_release || t->state != LW_SCHEDULED || t->due > m->now)
        return;
    t->is_wall = false;
    sim__enqueue(m, t);
}

static void look_at_limit(struct sim_model *m, struct sim_task *t) {
    if (sim_is_terminal(t->state) || !t->is_limited || t->is_asked)
        return;
    bool is_over = m->now >= t->finish_by;
    if (t->state == LW_STARTED && is_over) {
        t->is_asked = true;
        ask(t, LW_REASON_TIMEOUT);
    } else if (t->state != LW_STARTED && (is_over || (m->now >= t->start_by && t->started == 0))) {
        sim__abort_waiting(m, t);
    }
}

static void look_at_attempt(struct sim_model *m, struct sim_task *t) {
    if (t->state != LW_STARTED)
        return;
    if (t->deadline <= m->now) {
        t->stuck_at = sim__after(t->deadline, m->kinds[t->spec.kind].stuck);
        t->deadline = SIM_NEVER;
        ask(t, LW_REASON_TIMEOUT);
    }
    if (t->stuck_at <= m->now) {
        t->stuck_at = SIM_NEVER;
        t->is_stuck = true;
        m->stuck_total++;
    }
}

static void each_there(struct sim_model *m, void (*look)(struct sim_model *, struct sim_task *)) {
    for (lw_id id = 1; id <= m->last_id; id++)
        if (m->tasks[id].is_there)
            look(m, &m->tasks[id]);
}

void sim_look(struct sim_model *m) {
    look_at_wall(m);
    each_there(m, look_at_delay);
    each_there(m, look_at_limit);
    each_there(m, look_at_attempt);
}

/* It may have left when its time is over, and must have when that is over since it was told. */
static bool is_expired(const struct sim_model *m, const struct sim_task *t) {
    if (t->is_lingering)
        return !m->no_release && t->key_until <= m->now;
    return sim__after(t->retained_at, m->kinds[t->spec.kind].ttl[sim_list_of(t->state)]) <= m->now;
}

static const char *overdue(struct sim_model *m, struct sim_task *t) {
    if (t->state == LW_SCHEDULED && t->due <= m->now && !m->no_release)
        return "it is due, and still scheduled";
    if (!sim_is_terminal(t->state) && t->is_limited && !t->is_asked
        && (t->finish_by <= m->now
            || (t->start_by <= m->now && t->state != LW_STARTED && t->started == 0)))
        return "it is past its start_by or finish_by";
    if (t->state == LW_STARTED && (t->deadline <= m->now || t->stuck_at <= m->now))
        return "its attempt is past its deadline";
    if ((t->is_retained || t->is_lingering) && is_expired(m, t))
        return "its retention is over";
    return NULL;
}

const char *sim_overdue(struct sim_model *m, lw_id *id) {
    const char *why = NULL;
    for (*id = 0; *id < m->last_id && !why;) {
        struct sim_task *t = &m->tasks[++*id];
        why = t->is_there ? overdue(m, t) : NULL;
    }
    return why;
}

void sim_tell_all(struct sim_model *m) {
    for (lw_id id = 1; id <= m->last_id; id++)
        if (m->tasks[id].is_there && m->tasks[id].is_telling)
            sim__retain(m, &m->tasks[id]);
}

/* ---- closing and opening -------------------------------------------------------------------- */

/* What the engine's clock shows at the wall time that was written. */
static uint64_t told_by_wall(const struct sim_model *m, uint64_t at, int64_t offset_ms) {
    int64_t ms = (int64_t)(at / SIM_MS) + offset_ms - m->wall_offset_ms;
    return at == 0 || at == SIM_NEVER ? at : ms > 0 ? (uint64_t)ms * SIM_MS : 1;
}

static bool is_window_over(const struct sim_model *m, const struct sim_task *t, uint64_t until) {
    return t->spec.key && t->spec.scope == LW_KEY_WINDOW && until <= m->now;
}

/* The last that is known to have happened to it before the time that is to come was written. */
static uint64_t last_told(const struct sim_model *m, const struct sim_task *t, uint64_t to_come) {
    uint64_t erred = told_by_wall(m, t->erred, t->offsets_ms.erred);
    uint64_t last = t->started ? told_by_wall(m, t->started, t->offsets_ms.started)
                               : told_by_wall(m, t->created, t->offsets_ms.created);
    last = erred > last && erred <= to_come ? erred : last;
    return last <= to_come ? last : 0;
}

/* A deadline, or the end of a window, is no further off than it was. */
static uint64_t limit_told(const struct sim_model *m, const struct sim_task *t, uint64_t at,
                           int64_t offset_ms) {
    uint64_t then = told_by_wall(m, at, offset_ms);
    if (at == 0 || at == SIM_NEVER || then <= m->now)
        return then;
    uint64_t left = then - last_told(m, t, then);
    return left < then - m->now ? m->now + left : then;
}

static void reopen_limit(const struct sim_model *m, const struct sim_task *t, uint64_t *at,
                         int64_t *offset_ms) {
    uint64_t then = limit_told(m, t, *at, *offset_ms);
    *offset_ms += (int64_t)(*at / SIM_MS) - (int64_t)(then / SIM_MS);
    *at = then;
}

bool sim_can_reopen(struct sim_model *m) {
    for (lw_id id = 1; id <= m->last_id; id++) {
        const struct sim_task *t = &m->tasks[id];
        if (t->is_there && is_window_over(m, t, t->key_until)
            && !is_window_over(m, t, limit_told(m, t, t->key_until, t->offsets_ms.key_until)))
            return false;
    }
    return true;
}

/* What has happened was not later than now. */
static void reopen_time(const struct sim_model *m, uint64_t *at, int64_t *offset_ms, bool is_past) {
    uint64_t then = told_by_wall(m, *at, *offset_ms);
    if (is_past && then > m->now)
        then = m->now;
    *offset_ms += (int64_t)(*at / SIM_MS) - (int64_t)(then / SIM_MS);
    *at = then;
}

/* What is to come is no further off than it was, if it was not a wall time that was asked for. */
static void reopen_due(const struct sim_model *m, struct sim_task *t) {
    uint64_t since = last_told(m, t, told_by_wall(m, t->due, t->offsets_ms.due));
    reopen_time(m, &t->due, &t->offsets_ms.due, t->is_kept_enqueued);
    bool is_wall = t->token == 0 && t->spec.run_at_ms > 0;
    uint64_t left = t->due > since ? t->due - since : 0;
    if (!t->is_kept_enqueued && !is_wall && t->due > m->now && left < t->due - m->now)
        sim__shift(t, m->now + left);
}

static void reopen_times(struct sim_model *m, struct sim_task *t) {
    struct sim_offsets *offsets = &t->offsets_ms;
    reopen_limit(m, t, &t->key_until, &offsets->key_until);
    reopen_limit(m, t, &t->start_by, &offsets->start_by);
    reopen_limit(m, t, &t->finish_by, &offsets->finish_by);
    reopen_due(m, t);
    reopen_time(m, &t->created, &offsets->created, true);
    reopen_time(m, &t->retried, &offsets->retried, true);
    reopen_time(m, &t->erred, &offsets->erred, false);
    reopen_time(m, &t->started, &offsets->started, true);
    reopen_time(m, &t->ended, &offsets->ended, true);
    t->retained_at = t->ended;
}

static void reopen_waiting(struct sim_model *m, struct sim_task *t) {
    t->is_wall = !t->is_kept_enqueued && t->spec.run_at_ms > 0 && t->token == 0;
    if (t->state != LW_CREATED)
        sim__release(m, t);
    else /* one that was retried since is waited for again */
        sim__wait(m, t);
}

static void reopen_task(struct sim_model *m, struct sim_task *t) {
    t->spec.is_told = t->is_drained = false;
    reopen_times(m, t);
    if (!sim_is_terminal(t->state)) {
        reopen_waiting(m, t);
        return;
    }
    t->is_retained = true;
    t->is_lingering = t->is_bare = false;
    t->retained_moment = m->moment;
    t->rank = 0;
}

void sim_reopen(struct sim_model *m) {
    for (int k = 0; k < SIM_KINDS; k++) {
        struct sim_kind *kind = &m->kinds[k];
        kind->submitted = kind->retried = kind->crashed = kind->snoozed = 0;
        for (int list = 0; list < SIM_LISTS; list++)
            kind->ended[list] = 0;
    }
    for (int q = 0; q < SIM_QUEUES; q++) {
        m->queues[q].submitted = 0;
        m->queues[q].is_paused = false;
    }
    m->existed = m->refused = m->stuck_total = 0;
    m->known_offset_ms = m->wall_offset_ms;
    each_there(m, reopen_task);
}

/* ---- stop ---------------------------------------------------------------------------------- */

static int hardness(lw_stop_mode mode) {
    return mode == LW_DRAIN_ALL ? 1 : mode == LW_DRAIN ? 2 : 3;
}

void sim_end_contexts(struct sim_model *m, lw_reason reason) {
    m->is_out_of_time = m->is_out_of_time || reason == LW_REASON_STOP;
    for (lw_id id = 1; id <= m->last_id; id++)
        if (m->tasks[id].is_there && m->tasks[id].state == LW_STARTED)
            ask(&m->tasks[id], reason);
}

void sim_begin_stop(struct sim_model *m, lw_stop_mode mode) {
    if (m->is_stopping && hardness(mode) <= hardness(m->stop_mode))
        return;
    m->is_stopping = m->no_release = true;
    m->stop_mode = mode;
    m->no_delay = m->no_delay || mode == LW_DRAIN_ALL;
    if (mode == LW_DROP) {
        m->no_claim = true;
        sim_end_contexts(m, LW_REASON_DROPPED);
    }
    for (lw_id id = 1; mode == LW_DRAIN_ALL && id <= m->last_id; id++) {
        struct sim_task *t = &m->tasks[id];
        if (t->is_there && t->state == LW_SCHEDULED)
            sim__run_now(m, t);
    }
}

bool sim_is_quiet(struct sim_model *m) {
    bool is_quiet = sim_claimed(m, -1) == 0;
    for (lw_id id = 1; id <= m->last_id; id++)
        is_quiet = is_quiet && !(m->tasks[id].is_there && m->tasks[id].is_telling);
    for (int q = 0; q < SIM_QUEUES; q++)
        is_quiet = is_quiet && (m->no_claim || m->has_stopped || !sim_first(m, q));
    return is_quiet;
}
