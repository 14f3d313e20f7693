/* What became of attempts: outcome, result, error and successors of each in one step. */
#include "store/index.h"

#include "base/memory.h"

#include <string.h>

/* ---- the parts of one settlement ---------------------------------------------------------- */

static bool has_own_key(const struct lw__index *index, struct lw__task *task) {
    if (!(lw__task_flags(task) & LW__TASK_KEYED))
        return false;
    struct lw__keys_pair pair = lw__index_pair(index, task->kind, lw__task_spec(task));
    return lw__keys_find(&index->keys, &pair) == task;
}

/* Successors are put together with the end of their task, if this is its end. So its key is free
 * for them, if it was to be free after the end; if they cannot be put, the task has it again. */
static int put_successors(struct lw__index *index, struct lw__settlement *s, bool is_end,
                          uint64_t now) {
    if (s->successor_count == 0)
        return LW_OK;
    for (size_t i = 0; i < s->successor_count; i++)
        s->successors[i].is_successor = true;
    index->ending = is_end && has_own_key(index, s->task) ? s->task : NULL;
    int rc = lw__index_put_locked(index, now, s->successors, s->successor_count);
    if (rc < 0 && index->ending && !has_own_key(index, s->task))
        lw__index_set_key_locked(index, s->task);
    index->ending = NULL;
    return rc;
}

/* From here on LW__SCOPE_THIS is the scope of the task. */
static int prepare_scope(struct lw__index *index, const struct lw__settlement *s,
                         struct lw__scope_plan *plan) {
    if (!(lw__task_flags(s->task) & LW__TASK_SCOPED))
        return s->scope ? LW_EINVAL : LW_OK;
    struct lw__scope *scope = lw__scope_find_locked(index, lw__task_spec(s->task)->member->scope);
    return lw__scope_prepare_locked(index, scope, s->scope, plan);
}

/* The result has to be there before anybody can see that the task is finished. */
static int make_result(struct lw__index *index, const struct lw__settlement *s,
                       struct lw__output **output) {
    *output = NULL;
    if (!s->has_result)
        return LW_OK;
    *output = lw__output_make(&index->allocator, lw__see(&s->task->output), NULL, true, s->result);
    return *output ? LW_OK : LW_ENOMEM;
}

/* What belongs together has to be noted together, and what was lost of the task before it: of an
 * attempt a revival and a change can be. */
static int reserve_notes(struct lw__index *index, const struct lw__settlement *s) {
    if (!index->journal || (s->successor_count == 0 && !s->scope))
        return LW_OK;
    return lw__journal_reserve(index->journal, 2 * s->successor_count + 4) ? LW_OK : LW_ENOMEM;
}

/* NULL: there is none, or no memory for it: it is told without its last words. */
static struct lw__errors *make_errors(struct lw__index *index, const struct lw__settlement *s,
                                      uint64_t now) {
    const lw_allocator *allocator = &index->allocator;
    struct lw__errors *old = lw__see(&s->task->errors), *errors = NULL, *both;
    uint32_t attempt = lw__see(&s->task->attempts);
    if (s->text)
        errors = lw__errors_add(allocator, old, now, attempt, (uint32_t)s->fault, s->text);
    if (!s->why)
        return errors;
    both = lw__errors_add(allocator, errors ? errors : old, now, attempt, 0, s->why);
    if (both && errors)
        lw__free(allocator, errors, errors->size);
    return both ? both : errors;
}

/* Stays at the most there is instead of beginning anew. */
static void add_one(_Atomic uint16_t *count) {
    uint16_t seen = lw__see(count);
    if (seen < UINT16_MAX)
        lw__put(count, (uint16_t)(seen + 1));
}

static void count_attempt(struct lw__kind *kind, struct lw__task *task,
                          const struct lw__settlement *s) {
    if (s->is_uncounted)
        lw__put(&task->attempts, lw__see(&task->attempts) - 1);
    if (s->is_snooze) {
        add_one(&task->snoozes);
        kind->snoozed++;
    }
    if (s->fault >= LW_FAULT_TIMEOUT) {
        add_one(&task->crashes);
        kind->crashed++;
    }
    if (s->verdict == LW__VERDICT_POSTPONE && !s->is_uncounted)
        kind->retried++;
}

/* ---- moving on ---------------------------------------------------------------------------- */

static enum lw__task_event event_of(const struct lw__settlement *s, uint64_t now) {
    switch (s->verdict) {
    case LW__VERDICT_FINISH: return LW__EVENT_FINISH;
    case LW__VERDICT_FAIL: return LW__EVENT_FAIL;
    case LW__VERDICT_ABORT: return LW__EVENT_ABORT;
    case LW__VERDICT_POSTPONE: return s->due > now ? LW__EVENT_POSTPONE : LW__EVENT_GIVE_BACK;
    case LW__VERDICT_GIVE_BACK: break;
    }
    return LW__EVENT_GIVE_BACK;
}

static bool is_end(enum lw__task_event event) {
    return event != LW__EVENT_POSTPONE && event != LW__EVENT_GIVE_BACK;
}

/* One step for readers: who sees the new state sees what led to it, and the other way round. */
static void move(struct lw__index *index, const struct lw__settlement *s, enum lw__task_event event,
                 struct lw__output *output, struct lw__errors *errors, uint64_t now) {
    struct lw__task *task = s->task;
    bool is_spent = is_end(event) && (s->is_spent || event == LW__EVENT_FINISH);
    lw__task_lock(task);
    if (output)
        lw__put(&task->output, output);
    if (errors)
        lw__put(&task->errors, errors);
    count_attempt(lw__index_kind_of(index, task), task, s);
    /* At once, too: it comes after those that are due already. */
    if (s->verdict == LW__VERDICT_POSTPONE)
        lw__put(&task->due_at, s->due > now ? s->due : now);
    lw__task_flag(task,
                  (is_spent ? LW__TASK_SPENT : 0)
                      | (errors && index->options.tells_errors ? LW__TASK_TOLD : 0),
                  LW__TASK_CANCELLING | LW__TASK_STUCK | (is_end(event) ? 0 : LW__TASK_WALL));
    lw__index_move_locked(index, task, event, now);
    lw__task_unlock(task);
}

/* The alarm may have rung while it ran. */
static void watch_limit(struct lw__index *index, struct lw__task *task) {
    if (!(lw__task_flags(task) & LW__TASK_LIMITED))
        return;
    struct lw__spec *spec = lw__task_spec(task);
    if (spec->finish_by == LW__NEVER || lw__timer_is_set(&spec->limit.timer))
        return;
    lw__timer_set(&index->alarms, &spec->limit.timer, spec->finish_by);
    lw__index_hasten_locked(index, lw__timer_next_due(&index->alarms));
}

/* What follows from the move. */
static void follow(struct lw__index *index, const struct lw__settlement *s,
                   enum lw__task_event event, uint64_t now) {
    struct lw__task *task = s->task;
    if (!is_end(event))
        watch_limit(index, task);
    if (index->journal && !is_end(event))
        lw__journal_note(index->journal, LW__JOURNAL_CHANGE, task);
    if (event == LW__EVENT_POSTPONE) {
        if (index->journal)
            lw__lean_relieve_locked(index, task);
        lw__index_place_scheduled_locked(index, task, s->due);
    } else if (event == LW__EVENT_GIVE_BACK) {
        memset(&task->place, 0, sizeof task->place);
        lw__index_line_up_locked(index, task);
    } else {
        lw__index_end_locked(index, task, now);
    }
}

static int apply(struct lw__index *index, struct lw__settlement *s, uint64_t now) {
    struct lw__task *task = s->task;
    struct lw__output *output, *old_output = lw__see(&task->output);
    struct lw__errors *old_errors = lw__see(&task->errors);
    struct lw__scope_plan plan = {.scope = NULL};
    enum lw__task_event event = event_of(s, now);
    int rc = make_result(index, s, &output);
    if (rc == LW_OK)
        rc = reserve_notes(index, s);
    if (rc == LW_OK)
        rc = prepare_scope(index, s, &plan);
    if (rc == LW_OK)
        rc = put_successors(index, s, is_end(event), now);
    if (rc < 0) {
        lw__scope_cancel_locked(index, &plan);
        if (output)
            lw__free(&index->allocator, output, output->size);
        return rc;
    }
    struct lw__errors *errors = make_errors(index, s, now);
    move(index, s, event, output, errors, now);
    /* Not under the task's lock: retiring may wait for readers, and they wait for that lock. */
    if (output && old_output)
        lw__index_retire_block_locked(index, old_output, old_output->size);
    if (errors && old_errors)
        lw__index_retire_block_locked(index, old_errors, old_errors->size);
    follow(index, s, event, now);
    lw__scope_commit_locked(index, &plan, now);
    return LW_OK;
}

/* The scope has moved on: nothing of the attempt is applied but that it has ended. */
static int settle_stale(struct lw__index *index, const struct lw__settlement *s, uint64_t now) {
    struct lw__settlement end = {.task = s->task,
                                 .token = s->token,
                                 .verdict = LW__VERDICT_ABORT,
                                 .is_spent = s->is_spent || s->verdict == LW__VERDICT_FINISH,
                                 .text = "its scope has moved on"};
    apply(index, &end, now); /* there is nothing in it that could fail */
    return LW_ELEASE;
}

static bool goes_on(const struct lw__settlement *s) {
    return s->verdict == LW__VERDICT_GIVE_BACK || s->verdict == LW__VERDICT_POSTPONE;
}

/* The cancel may have come after its verdict was found: it must not run again then. */
static void heed_cancel(struct lw__settlement *s) {
    if (!goes_on(s))
        return;
    s->verdict = LW__VERDICT_ABORT;
    s->is_uncounted = s->is_snooze = false;
    if (!s->text || !*s->text)
        s->text = "cancelled";
}

/* Its effects are durable, and so is that it is done. */
static void heed_done(struct lw__settlement *s) {
    if (s->verdict == LW__VERDICT_FINISH)
        return;
    s->verdict = LW__VERDICT_FINISH;
    s->is_uncounted = s->is_snooze = false;
    s->fault = (lw_fault)0;
    s->text = s->why = NULL;
}

/* Likewise, but its scope has to hear of it, and whoever had the lease cannot tell it: the next
 * attempt finds that it is done, and does. */
static void give_back_done(struct lw__settlement *s) {
    s->verdict = LW__VERDICT_GIVE_BACK;
    s->is_uncounted = true;
    s->is_snooze = s->has_result = false;
    s->successor_count = 0;
    s->scope = NULL;
    s->fault = (lw_fault)0;
    s->text = s->why = NULL;
}

/* A claim has ended: of a worker of this process, or a lease. */
static void end_claim(struct lw__index *index, struct lw__kind *kind, struct lw__lease *lease) {
    if (lease) {
        lw__lease_drop_locked(index, lease);
        lw__index_count_out_kind_locked(index, kind, 1);
    } else {
        lw__index_disclaim_locked(index, kind, 1);
    }
}

/* Of a task that was leased by its put, before that is durable: nobody else can have it, and it
 * stays started, because in other states it has no place for what belongs to an unsaved one
 * (task.h). Its holder knows no token yet, but may be gone. */
static int settle_unsaved(struct lw__lease *lease, const struct lw__settlement *s) {
    if (s->verdict != LW__VERDICT_GIVE_BACK)
        return LW_ELEASE;
    lease->is_returned = true;
    return LW_OK;
}

static int settle_one(struct lw__index *index, struct lw__settlement *s, uint64_t now) {
    if (s->is_leased)
        s->task = lw__ids_find(&index->ids, s->id);
    struct lw__task *task = s->task;
    if (!task || lw__task_state(task) != LW_STARTED || lw__see(&task->token) != s->token)
        return LW_ELEASE;
    struct lw__kind *kind = lw__index_kind_of(index, task);
    struct lw__lease *lease = lw__lease_find(index, task->id);
    if (s->is_leased
        && (!lease || lease->is_returned || lw__lease_is_over_locked(index, lease, now)))
        return LW_ELEASE; /* a worker of this process has it, or the sweep will take it back */
    bool is_scoped = lw__task_flags(task) & LW__TASK_SCOPED;
    if (is_scoped && s->fault == LW_FAULT_CRASH)
        lw__scope_note_lost_locked(index, task);
    bool is_stale = is_scoped && !lw__scope_is_present_locked(index, task);
    if (lw__task_flags(task) & LW__TASK_CANCELLING)
        heed_cancel(s);
    if (lease && lw__task_flags(task) & LW__TASK_UNSAVED && goes_on(s))
        return settle_unsaved(lease, s);
    bool is_open = task->notes & LW__NOTE_DONE && is_scoped && !is_stale;
    if (is_open && s->verdict != LW__VERDICT_FINISH && !lease)
        return LW_EXISTS;
    if (is_open && lease)
        give_back_done(s);
    else if (task->notes & LW__NOTE_DONE)
        heed_done(s);
    int rc = is_stale ? settle_stale(index, s, now) : apply(index, s, now);
    if (rc == LW_OK || is_stale)
        end_claim(index, kind, lease);
    return rc;
}

void lw__index_settle_locked(struct lw__index *index, uint64_t now,
                             struct lw__settlement *settlements, size_t count) {
    for (size_t i = 0; i < count; i++)
        settlements[i].status = settle_one(index, &settlements[i], now);
    lw__grace_collect(&index->grace);
}

void lw__index_settle(struct lw__store *store, uint64_t now, struct lw__settlement *settlements,
                      size_t count) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    lw__index_settle_locked(index, now, settlements, count);
    lw__index_unlock(index);
}

/* ---- publish ------------------------------------------------------------------------------ */

static bool is_present_locked(struct lw__index *index, const struct lw__task *task,
                              uint64_t token) {
    return lw__task_state(task) == LW_STARTED && lw__see(&task->token) == token
           && (!(lw__task_flags(task) & LW__TASK_SCOPED)
               || lw__scope_is_present_locked(index, task));
}

/* One that is done already may have a result. */
static lw_bytes result_from_outside(const struct lw__task *task, const struct lw__output *old) {
    if (!old || !old->has_result || !(task->notes & LW__NOTE_DONE))
        return (lw_bytes){NULL, 0};
    return (lw_bytes){lw__output_result(old), old->result_size};
}

/* A checkpoint has to be noted, behind what was lost of the task before (see reserve_notes); what
 * else is published may be lost if there is no memory for it. */
static int publish_locked(struct lw__index *index, struct lw__task *task,
                          const struct lw__publication *publication) {
    struct lw__output *old = lw__see(&task->output);
    if (publication->has_checkpoint && index->journal && !lw__journal_reserve(index->journal, 4))
        return LW_ENOMEM;
    lw_bytes result = result_from_outside(task, old);
    struct lw__output *output =
        lw__output_make(&index->allocator, old, publication, result.data != NULL, result);
    if (!output)
        return LW_ENOMEM;
    lw__task_lock(task);
    lw__put(&task->output, output);
    lw__task_unlock(task);
    lw__index_retire_block_locked(index, old, old ? old->size : 0);
    if (index->journal)
        lw__journal_note(index->journal, LW__JOURNAL_PUBLISH, task);
    return LW_OK;
}

static int publish(struct lw__index *index, struct lw__task *task, uint64_t token,
                   const struct lw__publication *publication) {
    bool is_present = is_present_locked(index, task, token);
    int rc = is_present ? publish_locked(index, task, publication) : LW_ELEASE;
    lw__grace_collect(&index->grace);
    return rc;
}

int lw__index_publish(struct lw__store *store, struct lw__task *task, uint64_t token,
                      const struct lw__publication *publication) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    int rc = publish(index, task, token, publication);
    lw__index_unlock(index);
    return rc;
}

int lw__index_publish_by_id(struct lw__store *store, uint64_t now, uint64_t id, uint64_t token,
                            const struct lw__publication *publication) {
    struct lw__index *index = store->index;
    lw__index_lock(index);
    struct lw__task *task = lw__ids_find(&index->ids, id);
    bool is_over = !task || lw_state_is_terminal(lw__task_state(task));
    const struct lw__lease *lease = lw__lease_find(index, id);
    bool is_ours = lease ? !lw__lease_is_over_locked(index, lease, now) : !publication->is_leased;
    int rc = is_over    ? LW_ENOTFOUND
             : !is_ours ? LW_ELEASE
                        : publish(index, task, token, publication);
    if (rc == LW_OK && lw__task_flags(task) & LW__TASK_CANCELLING)
        rc = LW_PENDING;
    lw__index_unlock(index);
    return rc;
}
