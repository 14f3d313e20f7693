/* The workers of the simulation, the scripts of their handlers, and the scheduler. See sim.h. */
#include "sim_world.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- handlers ------------------------------------------------------------------------------ */
struct sim_words world_any_words(struct world *w) {
    struct sim_words words = {.outcome = LW_OUTCOME_DONE};
    uint64_t dice = w->is_calm ? 0 : world_below(w, 100);
    if (dice >= 60)
        words.outcome = dice < 78   ? LW_OUTCOME_RETRY
                        : dice < 88 ? LW_OUTCOME_SNOOZE
                        : dice < 94 ? LW_OUTCOME_FAIL
                        : dice < 96 ? LW_OUTCOME_ABORT
                                    : (lw_outcome)9;
    words.has_wait = words.outcome == LW_OUTCOME_SNOOZE
                     || (words.outcome == LW_OUTCOME_RETRY && world_chance(w, 15));
    if (words.has_wait)
        words.wait = (uint64_t)PICK(w, 0, 0, 1, 300, 20000) * SIM_MS;
    words.has_result = words.outcome == LW_OUTCOME_DONE && world_chance(w, 10);
    if (words.outcome == LW_OUTCOME_DONE && !w->is_calm && world_chance(w, 12)) {
        words.then_count = 1 + (int)world_below(w, SIM_THEN);
        for (int i = 0; i < words.then_count; i++) {
            words.then[i] = (struct sim_put){.spec = world_any_spec(w), .is_inside = true};
            words.then[i].spec.is_call = false;
        }
    }
    return words;
}

const char *world_key_name(int key) {
    static const char *const names[KEYS + 1] = {NULL, "one", "two", "three"};
    return names[key];
}

static char payload[256];

void world_on_end(void *user, const lw_snapshot *task) {
    struct world *w = user;
    world_expect(w, task->id, "terminal when told", lw_state_is_terminal(task->state),
                 !w->is_closing);
    world_expect(w, task->id, "the state that was told", task->state,
                 w->model.tasks[task->id].state);
    w->told[task->id]++;
}

static void on_drop(void *arg) {
    ((struct argument *)arg)->received++;
}

lw_task world_to_task(struct world *w, const struct sim_spec *s) {
    lw_task task = {.struct_size = sizeof task,
                    .kind = w->model.kinds[s->kind].name,
                    .queue = w->model.queues[s->queue].name,
                    .key = world_key_name(s->key),
                    .payload = {s->bytes ? payload : NULL, s->bytes},
                    .priority = s->priority ? (int64_t)s->priority : LW_ZERO,
                    .delay_ms = (int64_t)(s->delay / SIM_MS),
                    .run_at_ms = s->run_at_ms,
                    .start_by_ms = (int64_t)(s->start_by / SIM_MS),
                    .finish_by_ms = (int64_t)(s->finish_by / SIM_MS),
                    .key_scope = s->scope,
                    .key_window_ms = (int64_t)(s->window / SIM_MS),
                    .after = s->after,
                    .after_count = (size_t)s->after_count,
                    .after_policy = s->policy,
                    .on_end = s->is_told ? world_on_end : NULL,
                    .user = w,
                    .submit_timeout_ms = LW_ZERO};
    if (s->is_call) {
        task.run = world_run_guest;
        task.on_drop = on_drop;
        task.arg = &w->arguments[w->argument_count];
    }
    return task;
}

/* Says what comes next; what is refused is taken out of the script. Many tasks that have a key go
 * on under it. */
static void perform_then(struct world *w, lw_ctx *ctx, struct sim_words *words,
                         const struct sim_task *t) {
    int kept = 0;
    for (int i = 0; i < words->then_count; i++) {
        struct sim_put *put = &words->then[i];
        if (t->spec.key && world_chance(w, 50)) {
            put->spec.kind = t->spec.kind;
            put->spec.key = t->spec.key;
            put->spec.scope = t->spec.scope;
            put->spec.window = t->spec.window;
            put->spec.finish_by = 0; /* of a kind with jitter nobody could tell what it means */
        }
        lw_task task = world_to_task(w, &put->spec);
        int status = lw_then(ctx, &task, NULL);
        world_expect_status(w, t->id, status, sim_then(t, &put->spec));
        if (status == LW_OK)
            words->then[kept++] = *put;
    }
    words->then_count = kept;
}

/* Says what the script says, as a handler does. */
static lw_outcome perform(struct world *w, lw_ctx *ctx, struct sim_words *words,
                          const struct sim_task *t) {
    perform_then(w, ctx, words, t);
    switch (words->outcome) {
    case LW_OUTCOME_DONE:
        return words->has_result ? lw_done_with(ctx, LW_TEXT("result")) : lw_done(ctx);
    case LW_OUTCOME_RETRY:
        return words->has_wait ? lw_retry_after(ctx, (int64_t)(words->wait / SIM_MS), "later")
                               : lw_retry(ctx, "again");
    case LW_OUTCOME_SNOOZE: return lw_snooze(ctx, (int64_t)(words->wait / SIM_MS));
    case LW_OUTCOME_FAIL: return lw_fail(ctx, "never");
    case LW_OUTCOME_ABORT: return lw_abort(ctx, "not wanted");
    default: return words->outcome;
    }
}

static bool keeps_argument(const struct sim_words *words) {
    return words->outcome == LW_OUTCOME_FAIL || words->outcome == LW_OUTCOME_ABORT;
}

lw_outcome world_run_guest(lw_ctx *ctx, const lw_task *task) {
    struct world *w = task->arg ? ((struct argument *)task->arg)->world : lw_ctx_user(ctx);
    world_expect(w, task->id, "the guest", w->guest, task->id);
    w->guest = 0;
    return perform(w, ctx, &w->guest_words, &w->model.tasks[task->id]);
}

/* ---- the scheduler ------------------------------------------------------------------------- */
/* When it finds that it has stopped is its own affair; but then it was quiet. */
static void look_whether_it_has_stopped(struct world *w) {
    bool has_stopped = atomic_load(&w->engine->has_stopped);
    if (has_stopped && !w->model.has_stopped)
        world_expect(w, 0, "quiet when it has stopped", sim_is_quiet(&w->model), true);
    w->model.has_stopped = has_stopped;
}

void world_look(struct world *w) {
    uint64_t now = w->model.now, due;
    do {
        w->seen_call = atomic_load(&w->engine->call);
        atomic_store(&w->engine->sleeps_until, LW__NEVER);
        due = lw__scheduler_look(w->engine, now);
        sim_look(&w->model);
        w->is_wall_new = false;
        atomic_store(&w->engine->sleeps_until, due);
    } while (due <= now || atomic_load(&w->engine->call) != w->seen_call);
    world_compare(w);
    look_whether_it_has_stopped(w);
}

/* Looks when its thread would: it was called, or it is time. */
void world_play_scheduler(struct world *w) {
    if (w->is_scheduler_late)
        return;
    if (atomic_load(&w->engine->call) != w->seen_call
        || atomic_load(&w->engine->sleeps_until) <= w->model.now) {
        world_begin_step(w, "look", 0);
        world_look(w);
    }
    lw_id late = 0;
    const char *why = sim_overdue(&w->model, &late);
    if (why)
        world_complain(w, late, why, 0, 1);
}

void world_end_step(struct world *w) {
    world_compare(w);
    world_play_scheduler(w);
    look_whether_it_has_stopped(w);
}

void world_advance(struct world *w, uint64_t ms) {
    uint64_t end = w->model.now + ms * SIM_MS;
    while (w->model.now < end) {
        uint64_t next = atomic_load(&w->engine->sleeps_until);
        if (next > end || w->is_scheduler_late)
            next = end;
        next = (next + SIM_MS - 1) / SIM_MS * SIM_MS;
        if (next <= w->model.now)
            next = w->model.now + SIM_MS;
        world_begin_step(w, "advance to", (next - SIM_BASE) / SIM_MS);
        lw_test_clock_advance(w->clock, (int64_t)((next - w->model.now) / SIM_MS));
        w->model.now = next;
        world_expect(w, 0, "the time", lw__now(w->clock), next);
        world_end_step(w);
    }
}

/* ---- workers ------------------------------------------------------------------------------- */
static struct sim_task *task_of(struct world *w, const struct worker *worker, int i) {
    return &w->model.tasks[worker->ids[i]];
}

/* Each queue gets its share of the turns, as long as the same ones take part. */
static void check_turns(struct world *w, int queue) {
    double total = 0, weight = 0;
    w->turns[queue]++;
    for (int q = 0; q < SIM_QUEUES; q++) {
        if (!(w->active & 1u << q))
            continue;
        total += (double)w->turns[q];
        weight += w->model.queues[q].weight;
    }
    for (int q = 0; q < SIM_QUEUES; q++) {
        double share = total * w->model.queues[q].weight / weight;
        if (w->active & 1u << q
            && ((double)w->turns[q] > share + 3 || (double)w->turns[q] < share - 3))
            world_complain(w, 0, "the turns of a queue", w->turns[q], (uint64_t)share);
    }
}

static void check_claimed(struct world *w, struct worker *worker, int i) {
    struct sim_model *m = &w->model;
    lw_id id = worker->ids[i] = worker->batch[i]->id;
    struct sim_task *t = sim_find(m, id);
    if (!t)
        world_complain(w, id, "its being there when claimed", 0, 1);
    struct sim_task *first = sim_first(m, t->spec.queue);
    world_expect(w, id, "the first of its queue", id, first ? first->id : 0);
    world_expect(w, id, "the kind of a batch", t->spec.kind, task_of(w, worker, 0)->spec.kind);
    world_expect(w, id, "claimed during a stop by drop", m->no_claim, false);
    world_expect(w, id, "claimed after a stop", m->has_stopped, false);
    check_turns(w, t->spec.queue);
    sim_claim(m, t);
    SHOW(w, "        claimed %llu, token %llu\n", id, (unsigned long long)m->last_token);
}

/* The tasks of a batch that have ended and that the store does not know of yet; how many. */
static uint32_t collect(struct world *w, struct worker *worker, struct lw__task **ended) {
    uint32_t count = 0;
    for (int i = 0; i < worker->next; i++) {
        if (!worker->is_left[i])
            continue;
        worker->is_left[i] = false;
        ended[count++] = worker->batch[i];
        sim_account(&w->model, task_of(w, worker, i));
    }
    return count;
}

static void claim(struct world *w, struct worker *worker) {
    struct lw__store *store = w->engine->store;
    struct lw__task *ended[BATCH], *tasks[BATCH];
    struct lw__claim claim = {
        .ended = ended, .tasks = tasks, .max = world_chance(w, 25) ? BATCH : 1};
    world_begin_step(w, "claim", claim.max);
    claim.ended_count = collect(w, worker, ended);
    store->ops->claim(store, w->model.now, &claim);
    if (claim.count == 0)
        world_expect(w, 0, "that nothing can be claimed",
                     w->model.no_claim || w->model.has_stopped || world_active_queues(w) == 0,
                     true);
    else
        world_expect(w, 0, "the token of a claim", claim.token, w->model.last_token + 1);
    worker->token = claim.token;
    worker->next = 0;
    worker->count = (int)claim.count;
    memcpy(worker->batch, tasks, sizeof tasks);
    for (int i = 0; i < worker->count; i++)
        check_claimed(w, worker, i);
    world_end_step(w);
}

static void start(struct world *w, struct worker *worker) {
    int i = worker->next++;
    world_begin_step(w, "start", worker->ids[i]);
    worker->hand.started = w->model.now;
    bool has_begun = lw__hand_begin(&worker->hand, worker->batch[i], worker->token + (uint64_t)i);
    world_expect(w, worker->ids[i], "beginning", has_begun,
                 sim_begin(&w->model, task_of(w, worker, i), worker->token + (uint64_t)i));
    worker->is_left[i] = !has_begun;
    worker->is_running = has_begun;
    if (has_begun) {
        lw__attempt_open(&worker->hand, worker->batch[i]);
        world_expect(w, worker->ids[i], "the id that is shown", worker->hand.shown.id,
                     worker->ids[i]);
        world_expect(w, worker->ids[i], "the attempt that is shown", worker->hand.shown.attempt,
                     task_of(w, worker, i)->attempts);
        worker->words = world_any_words(w);
        worker->is_deaf = !w->is_calm && world_chance(w, 20);
        worker->ends_at = w->model.now + (uint64_t)PICK(w, 0, 0, 5, 40, 400, 3000, 30000) * SIM_MS;
        if (w->is_calm)
            worker->ends_at = w->model.now + world_below(w, 3) * SIM_MS;
    }
    world_end_step(w);
}

/* The engine may have moved the due time within what jitter allows. */
void world_adopt_jitter(struct world *w, struct sim_task *t, uint64_t due_min, uint64_t due_max) {
    struct lw__task *task = world_real(w, t->id);
    if (due_min >= due_max || !task || t->state != LW_SCHEDULED)
        return;
    uint64_t due = lw__see(&task->due_at);
    if (due < due_min || due > due_max)
        world_complain(w, t->id, "its back-off", due - w->model.now, due_min - w->model.now);
    t->due = due;
}

void world_note_argument(struct world *w, struct sim_task *t, const struct sim_words *words) {
    for (int i = 0; i < w->argument_count; i++)
        if (t->spec.is_call && w->arguments[i].id == t->id
            && (t->state == LW_FINISHED
                || (!words->is_crash && (t->is_spent || keeps_argument(words)))))
            w->arguments[i].received++;
}

void world_finish(struct world *w, struct worker *worker, bool is_crash) {
    int i = worker->next - 1;
    struct sim_task *t = task_of(w, worker, i);
    uint64_t due_min, due_max, token = worker->token + (uint64_t)i;
    worker->words.is_crash = is_crash;
    world_begin_step(w, is_crash ? "crash" : "end", t->id);
    worker->is_running = false;
    SHOW(w, "        outcome %d, reason %d\n", (int)worker->words.outcome, (int)t->reason);
    if (is_crash) {
        lw__hand_crash(&worker->hand);
        sim_end_attempt(&w->model, t, &worker->words, &due_min, &due_max);
        world_adopt_jitter(w, t, due_min, due_max);
    } else {
        lw_outcome outcome = perform(w, &worker->hand.ctx, &worker->words, t);
        lw__attempt_close(&worker->hand);
        worker->is_left[i] =
            lw__hand_end(&worker->hand, worker->batch[i], token, outcome) == LW__RAN_PLAIN;
        if (worker->is_left[i]) {
            world_expect(w, t->id, "done when it is finished early", outcome, LW_OUTCOME_DONE);
            sim_finish(&w->model, t);
        } else {
            sim_end_attempt(&w->model, t, &worker->words, &due_min, &due_max);
            world_adopt_jitter(w, t, due_min, due_max);
        }
    }
    world_note_argument(w, t, &worker->words);
    world_end_step(w);
}

void world_account(struct world *w, struct worker *worker) {
    struct lw__task *ended[BATCH];
    world_begin_step(w, "account", (uint64_t)worker->next);
    uint32_t count = collect(w, worker, ended);
    if (count > 0)
        w->engine->store->ops->account(w->engine->store, w->model.now, ended, count);
    world_end_step(w);
}

/* Puts back what it has not begun. */
void world_relieve(struct world *w, struct worker *worker) {
    int first = worker->next, count = worker->count - first;
    if (count <= 0)
        return;
    world_begin_step(w, "relieve", (uint64_t)count);
    w->engine->store->ops->unclaim(w->engine->store, w->model.now, worker->batch + first,
                                   (uint32_t)count);
    for (int i = first; i < worker->count; i++)
        sim_unclaim(&w->model, task_of(w, worker, i));
    worker->count = worker->next;
    world_end_step(w);
}

bool world_has_left(const struct worker *worker) {
    bool has = false;
    for (int i = 0; i < worker->next; i++)
        has |= worker->is_left[i];
    return has;
}

/* The next thing that a worker does by itself; false: nothing now. */
bool world_play_worker(struct world *w, struct worker *worker) {
    if (worker->is_running) {
        bool must_give_up = !worker->is_deaf && lw_ctx_done(&worker->hand.ctx);
        if (must_give_up && w->model.now < worker->ends_at)
            worker->words = (struct sim_words){.outcome = LW_OUTCOME_RETRY};
        if (must_give_up || w->model.now >= worker->ends_at)
            return world_finish(w, worker, false), true;
        return false;
    }
    if (worker->next < worker->count) {
        if (w->model.no_claim)
            world_relieve(w, worker);
        else
            start(w, worker);
        return true;
    }
    bool can_claim = !w->model.no_claim && !w->model.has_stopped && world_active_queues(w) != 0;
    if (world_has_left(worker) && (!can_claim || world_chance(w, 30)))
        world_account(w, worker);
    else if (can_claim)
        claim(w, worker);
    else
        return false;
    return true;
}

bool world_play_workers(struct world *w) {
    bool did = false;
    for (int i = 0; i < w->worker_count; i++)
        did |= world_play_worker(w, &w->workers[i]);
    return did;
}
