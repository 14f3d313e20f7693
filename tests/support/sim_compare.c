/* Comparing an engine with its model; what is said when they differ. See sim.h. */
#include "sim_world.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- failing ------------------------------------------------------------------------------- */

_Noreturn void world_complain(const struct world *w, lw_id id, const char *what, uint64_t is,
                              uint64_t should) {
    fflush(stdout);
    fprintf(stderr, "seed %llu, step %llu (%s), %llu ms: task %llu: %s is %llu, should be %llu\n",
            (unsigned long long)w->seed, (unsigned long long)w->model.step, w->doing,
            (unsigned long long)((w->model.now - SIM_BASE) / SIM_MS), id, what,
            (unsigned long long)is, (unsigned long long)should);
    fprintf(stderr, "on %s; again, with every step: make sim SEED=%llu%s\n", w->url,
            (unsigned long long)w->seed, w->model.is_durable ? " STORE=sqlite" : "");
    abort();
}

void world_expect(const struct world *w, lw_id id, const char *what, uint64_t is, uint64_t should) {
    if (is != should)
        world_complain(w, id, what, is, should);
}

void world_expect_status(const struct world *w, lw_id id, int is, int should) {
    if (is != should) {
        fprintf(stderr, "%s, should be %s\n", lw_status_name(is), lw_status_name(should));
        world_complain(w, id, "the status", (uint64_t)(int64_t)is, (uint64_t)(int64_t)should);
    }
}

static void trace(struct world *w, uint64_t value) {
    w->hash = (w->hash ^ value) * UINT64_C(0x100000001b3);
}

void world_begin_step(struct world *w, const char *doing, uint64_t detail) {
    w->doing = doing;
    w->model.step++;
    w->model.moment++;
    trace(w, w->model.step);
    for (const char *c = doing; *c; c++)
        trace(w, (unsigned char)*c);
    trace(w, detail);
    SHOW(w, "%5llu %9llu ms  %s %llu\n", (unsigned long long)w->model.step,
         (unsigned long long)((w->model.now - SIM_BASE) / SIM_MS), doing,
         (unsigned long long)detail);
}

/* ---- comparing ----------------------------------------------------------------------------- */
struct lw__task *world_real(struct world *w, lw_id id) {
    return lw__ids_find(&w->engine->index->ids, id);
}

static void compare_task(struct world *w, const struct sim_task *t) {
    struct lw__task_view v;
    struct lw__task *task = world_real(w, t->id);
    if (!task)
        world_complain(w, t->id, "its being there", 0, 1);
    lw__task_view(task, &v);
    world_expect(w, t->id, "its state", v.state, t->state);
    world_expect(w, t->id, "attempts", v.attempts, t->attempts);
    world_expect(w, t->id, "crashes", v.crashes, t->crashes);
    world_expect(w, t->id, "snoozes", v.snoozes, t->snoozes);
    world_expect(w, t->id, "errors", v.errors ? v.errors->count + v.errors->dropped : 0,
                 t->is_bare ? 0 : t->errors);
    world_expect(w, t->id, "created_at", v.created_at, t->created);
    if (t->state != LW_ABORTED)
        world_expect(w, t->id, "enqueued_at", v.enqueued_at, t->enqueued);
    world_expect(w, t->id, "started_at", v.started_at, t->started);
    world_expect(w, t->id, "due_at", v.due_at, sim_is_terminal(t->state) ? t->ended : t->due);
    world_expect(w, t->id, "cancelling", (v.flags & LW__TASK_CANCELLING) != 0, t->is_cancelling);
    world_expect(w, t->id, "stuck", (v.flags & LW__TASK_STUCK) != 0, t->is_stuck);
    if (t->state == LW_STARTED)
        world_expect(w, t->id, "its token", v.token, t->token);
    trace(w, t->id);
    trace(w, v.state);
    trace(w, v.due_at);
}

/* NULL: nobody has ever heard of it. */
static const struct lw__kind *real_kind(struct world *w, int kind) {
    const struct lw__kind_info *info = lw__registry_find_kind(w->engine, w->model.kinds[kind].name);
    return info ? lw__index_kind_at(w->engine->index, info->number) : NULL;
}

/* They stand in the order of their moments; in which order within one is the engine's affair. */
static void adopt_ranks(struct world *w, const struct lw__retained *retained) {
    uint64_t moment = 0, rank = 0;
    const struct lw__task_link *link = retained->ring.next;
    for (; link != &retained->ring; link = link->next) {
        const char *at = (const char *)link - offsetof(struct lw__task, link);
        lw_id id = ((const struct lw__task *)(const void *)at)->id;
        struct sim_task *t = &w->model.tasks[id];
        world_expect(w, id, "being retained", t->is_retained, true);
        if (t->retained_moment < moment)
            world_complain(w, id, "retained before the one in front of it, by its moment",
                           t->retained_moment, moment);
        moment = t->retained_moment;
        t->rank = ++rank;
    }
}

/* Who leaves a list first is not promised among those that came to it in the same step; so it is
 * looked at who has left, and whether that was right. */
static void compare_list(struct world *w, int kind, int list) {
    struct sim_model *m = &w->model;
    uint64_t size = 0, left = 0, early = 0, keep = m->kinds[kind].keep[list], last_gone = 0;
    struct sim_task *t;
    for (lw_id id = 1; id <= m->last_id; id++) {
        t = &m->tasks[id];
        if (!t->is_there || !t->is_retained || t->spec.kind != kind
            || sim_list_of(t->state) != list)
            continue;
        struct lw__task *task = world_real(w, id);
        size++;
        if (task && !(lw__task_flags(task) & LW__TASK_LINGERS)) {
            left++;
            continue;
        }
        early += sim_expiry(m, t) > m->now;
        last_gone = t->retained_moment > last_gone ? t->retained_moment : last_gone;
        sim_leave(m, t);
        world_expect(w, id, "lingering", task != NULL, t->is_lingering);
    }
    if (left > keep || early > (size > keep ? size - keep : 0))
        world_complain(w, 0, "the size of a list of terminal tasks", left,
                       size < keep ? size : keep);
    for (lw_id id = 1; last_gone > 0 && id <= m->last_id; id++) {
        t = &m->tasks[id];
        if (t->is_there && t->is_retained && t->spec.kind == kind && sim_list_of(t->state) == list
            && t->retained_moment < last_gone && early > 0)
            world_complain(w, id, "older than one that has left, in steps", t->retained_moment,
                           last_gone);
    }
    const struct lw__retained *retained = &real_kind(w, kind)->retained[list];
    world_expect(w, 0, "a count of retained tasks", retained->count, left);
    adopt_ranks(w, retained);
}

static void compare_lingering(struct world *w) {
    for (lw_id id = 1; id <= w->model.last_id; id++) {
        struct sim_task *t = &w->model.tasks[id];
        if (t->is_there && t->is_lingering && !world_real(w, id)) {
            world_expect(w, id, "leaving while it keeps a key", t->key_until > w->model.now, false);
            sim_leave(&w->model, t);
        }
    }
}

static void compare_kind(struct world *w, int k) {
    struct sim_model *m = &w->model;
    const struct sim_kind *kind = &m->kinds[k];
    const struct lw__kind *is = real_kind(w, k);
    if (!is)
        return;
    world_expect(w, 0, "claimed of a kind", is->claimed, sim_claimed(m, k));
    world_expect(w, 0, "created of a kind", is->created, sim_count(m, k, LW_CREATED));
    world_expect(w, 0, "scheduled of a kind", is->scheduled, sim_count(m, k, LW_SCHEDULED));
    world_expect(w, 0, "submitted of a kind", is->submitted, kind->submitted);
    world_expect(w, 0, "finished of a kind", is->finished, kind->ended[0]);
    world_expect(w, 0, "failed of a kind", is->failed, kind->ended[1]);
    world_expect(w, 0, "aborted of a kind", is->aborted, kind->ended[2]);
    world_expect(w, 0, "retried of a kind", is->retried, kind->retried);
    world_expect(w, 0, "crashed of a kind", is->crashed, kind->crashed);
    world_expect(w, 0, "snoozed of a kind", is->snoozed, kind->snoozed);
    for (int list = 0; list < SIM_LISTS; list++)
        compare_list(w, k, list);
    for (int key = 1; key <= KEYS; key++) {
        const struct lw__keys *keys = &w->engine->index->keys;
        const char *name = world_key_name(key);
        struct lw__keys_pair pair = lw__keys_pair(keys, is->number, name, strlen(name));
        struct lw__task *holder = lw__keys_find(keys, &pair);
        lw_id should = sim_key_holder(m, k, key);
        if (should)
            world_expect(w, should, "the holder of its key", holder ? holder->id : 0, should);
    }
}

static void compare_room(struct world *w) {
    struct sim_model *m = &w->model;
    struct lw__index *index = w->engine->index;
    struct sim_room all = sim_room(m, -1);
    world_expect(w, 0, "unfinished tasks", index->unfinished, all.tasks);
    world_expect(w, 0, "bytes", index->bytes, all.bytes);
    world_expect(w, 0, "the reserve in use", index->reserve_used, all.reserved);
    world_expect(w, 0, "claimed", index->claimed, sim_claimed(m, -1));
    for (int q = 0; q < SIM_QUEUES; q++) {
        struct lw__queue_info *info = lw__registry_find_queue(w->engine, m->queues[q].name);
        const struct lw__queue *queue = lw__index_queue_at(index, info->number);
        struct sim_room room = sim_room(m, q);
        world_expect(w, 0, "unfinished tasks of a queue", queue->unfinished, room.tasks);
        world_expect(w, 0, "bytes of a queue", queue->bytes, room.bytes);
        world_expect(w, 0, "submitted to a queue", queue->submitted, m->queues[q].submitted);
    }
}

static void compare_stats(struct world *w) {
    struct sim_model *m = &w->model;
    lw_engine_stats stats;
    world_expect_status(w, 0, lw_get_stats(w->engine, &stats), LW_OK);
    world_expect(w, 0, "stats.created", stats.created, sim_count(m, -1, LW_CREATED));
    world_expect(w, 0, "stats.scheduled", stats.scheduled, sim_count(m, -1, LW_SCHEDULED));
    world_expect(w, 0, "stats.enqueued + started", stats.enqueued + stats.started,
                 sim_room(m, -1).tasks - sim_count(m, -1, LW_CREATED)
                     - sim_count(m, -1, LW_SCHEDULED));
    world_expect(w, 0, "stats.existed_total", stats.existed_total, m->existed);
    world_expect(w, 0, "stats.refused_total", stats.refused_total, m->refused);
    world_expect(w, 0, "stats.stuck_total", stats.stuck_total, m->stuck_total);
}

uint32_t world_active_queues(struct world *w) {
    uint32_t active = 0;
    for (int q = 0; q < SIM_QUEUES; q++)
        active |= sim_first(&w->model, q) ? 1u << q : 0;
    return active;
}

void world_compare(struct world *w) {
    struct sim_model *m = &w->model;
    uint64_t there = 0;
    compare_lingering(w);
    for (int k = 0; k < SIM_KINDS; k++)
        compare_kind(w, k);
    for (lw_id id = 1; id <= m->last_id; id++) {
        if (m->tasks[id].is_there)
            compare_task(w, &m->tasks[id]);
        there += m->tasks[id].is_there;
        world_expect(w, id, "how often it was told", w->told[id], w->expected_told[id]);
    }
    world_expect(w, 0, "tasks that are there", w->engine->index->ids.count, there);
    world_expect(w, 0, "the last id", w->engine->index->last_id, m->last_id);
    world_expect(w, 0, "the last token", w->engine->index->last_token, m->last_token);
    compare_room(w);
    if (m->step % 8 == 0)
        compare_stats(w);
    for (int i = 0; i < w->worker_count; i++) {
        struct worker *worker = &w->workers[i];
        if (worker->is_running)
            world_expect(w, worker->ids[worker->next - 1], "the reason of its context",
                         lw_ctx_reason(&worker->hand.ctx),
                         m->tasks[worker->ids[worker->next - 1]].reason);
    }
    uint32_t active = m->no_claim || m->has_stopped ? 0 : world_active_queues(w);
    if (active != w->active)
        memset(w->turns, 0, sizeof w->turns);
    w->active = active;
}
