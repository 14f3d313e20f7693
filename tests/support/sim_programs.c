/* What programs do to an engine in the simulation. See sim.h. */
#include "sim_world.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what programs do ---------------------------------------------------------------------- */
/* A task that was there once, rather a young one. */
static lw_id any_id(struct world *w) {
    lw_id last = w->model.last_id;
    if (last == 0)
        return 1;
    return world_chance(w, 50) && last > 12 ? last - world_below(w, 12)
                                            : 1 + world_below(w, last + 1);
}

struct sim_spec world_any_spec(struct world *w) {
    struct sim_model *m = &w->model;
    struct sim_spec s = {.kind = (int)world_below(w, SIM_KINDS),
                         .queue = (int)world_below(w, SIM_QUEUES),
                         .priority = (uint32_t)PICK(w, 1000, 1000, 1000, 0, 5, 6, 7, 8, 2000)};
    if (world_chance(w, 45))
        return s;
    s.key = world_chance(w, 50) ? 1 + (int)world_below(w, KEYS) : 0;
    s.scope = (lw_key_scope)(s.key && world_chance(w, 50) ? world_below(w, 4) : 0);
    s.window = s.scope == LW_KEY_WINDOW ? (uint64_t)PICK(w, 10, 2000, 60000) * SIM_MS : 0;
    s.bytes = world_chance(w, 30) ? world_below(w, 100) : 0;
    if (world_chance(w, 25))
        s.delay = (uint64_t)PICK(w, 1, 10, 700, 5000, 100000) * SIM_MS;
    else if (world_chance(w, 25))
        s.run_at_ms = sim_wall_ms(m) + PICK(w, -1000, 5, 3000, 50000, 200000);
    s.start_by = world_chance(w, 12) ? (uint64_t)PICK(w, 1, 100, 4000) * SIM_MS : 0;
    if (m->kinds[s.kind].jitter_percent == 0)
        s.finish_by = world_chance(w, 12) ? (uint64_t)PICK(w, 1, 200, 9000) * SIM_MS : 0;
    if (s.finish_by && s.start_by > s.finish_by) /* these would be refused */
        s.start_by = 0;
    if ((s.start_by && s.delay >= s.start_by) || (s.finish_by && s.delay > s.finish_by))
        s.delay = 0;
    if (world_chance(w, 25) && m->last_id > 0) {
        s.after_count = 1 + (int)world_below(w, SIM_AFTER);
        for (int i = 0; i < s.after_count; i++)
            s.after[i] = any_id(w);
        s.policy = world_chance(w, 50) ? LW_AFTER_RUN : LW_AFTER_ABORT;
    }
    s.is_told = world_chance(w, 20);
    s.is_call = m->kinds[s.kind].has_handler && world_chance(w, 15) && !m->is_durable;
    return s;
}

static void settle_guest(struct world *w, lw_id guest) {
    uint64_t due_min, due_max;
    struct sim_task *t = &w->model.tasks[guest];
    world_expect(w, guest, "that the caller has run it", w->guest, 0);
    sim_begin(&w->model, t, w->model.last_token);
    sim_end_attempt(&w->model, t, &w->guest_words, &due_min, &due_max);
    sim_evict(&w->model, t); /* it has no time to wait for room */
    world_adopt_jitter(w, t, due_min, due_max);
    world_note_argument(w, t, &w->guest_words);
}

static void show_put(const struct world *w, const struct sim_put *put, int status) {
    const struct sim_spec *s = &put->spec;
    SHOW(w, "        %s, task %llu of kind %d, queue %d, key %d", lw_status_name(status), put->id,
         s->kind, s->queue, s->key);
    for (int i = 0; i < s->after_count; i++)
        SHOW(w, ", after %llu", s->after[i]);
    SHOW(w, "\n");
}

void world_submit(struct world *w, bool is_inside, int count) {
    struct sim_put puts[SIM_MANY];
    lw_task tasks[SIM_MANY];
    const lw_task *pointers[SIM_MANY];
    lw_id ids[SIM_MANY] = {0}, guest;
    w->is_scheduler_late = false; /* who is over-age leaves sooner if others end meanwhile */
    world_play_scheduler(w);
    world_begin_step(w, is_inside ? "submit inside" : "submit", (uint64_t)count);
    for (int i = 0; i < count; i++) {
        puts[i] = (struct sim_put){.spec = world_any_spec(w), .is_inside = is_inside};
        puts[i].spec.is_call &= count == 1;
        pointers[i] = &tasks[i];
        tasks[i] = world_to_task(w, &puts[i].spec);
    }
    w->arguments[w->argument_count] = (struct argument){.world = w};
    w->guest_words = world_any_words(w);
    int should = sim_submit(&w->model, puts, count, &guest);
    w->guest = guest;
    if (is_inside)
        lw__hand_enter(&w->inside);
    int is = count == 1 ? lw_submit(w->engine, &tasks[0], ids, NULL)
                        : lw_submit_many(w->engine, pointers, (size_t)count, ids, NULL);
    if (is_inside)
        lw__hand_leave(&w->inside);
    world_expect_status(w, puts[0].id, is, should);
    for (int i = 0; is >= 0 && i < count; i++)
        world_expect(w, puts[i].id, "its id", ids[i], puts[i].id);
    for (int i = 0; i < count; i++)
        show_put(w, &puts[i], is < 0 ? is : puts[i].status);
    if (is == LW_OK && puts[0].spec.is_call)
        w->arguments[w->argument_count++].id = ids[0];
    if (guest)
        settle_guest(w, guest);
    world_end_step(w);
}

static void steer(struct world *w, const char *what, int (*real_one)(struct world *, lw_id),
                  int (*model_one)(struct sim_model *, lw_id)) {
    lw_id id = any_id(w);
    world_begin_step(w, what, id);
    int should = model_one(&w->model, id);
    world_expect_status(w, id, real_one(w, id), should);
    world_end_step(w);
}

static int real_cancel(struct world *w, lw_id id) {
    return lw_cancel(w->engine, id);
}

static int real_retry(struct world *w, lw_id id) {
    return lw_retry_now(w->engine, id, NULL);
}

static int real_forget(struct world *w, lw_id id) {
    return lw_forget(w->engine, id);
}

void world_cancel_one(struct world *w) {
    steer(w, "cancel", real_cancel, sim_cancel);
}

void world_retry_one(struct world *w) {
    steer(w, "retry", real_retry, sim_retry_now);
}

void world_forget_one(struct world *w) {
    steer(w, "forget", real_forget, sim_forget);
}

void world_pause_or_resume(struct world *w, int q, bool is_paused) {
    struct sim_queue *queue = &w->model.queues[q];
    world_begin_step(w, is_paused ? "pause" : "resume", (uint64_t)q);
    queue->is_paused = is_paused;
    world_expect_status(
        w, 0, is_paused ? lw_pause(w->engine, queue->name) : lw_resume(w->engine, queue->name),
        LW_OK);
    world_end_step(w);
}

void world_set_wall(struct world *w) {
    if (w->is_wall_new)
        return; /* one at a time, for what is set back before anybody looks was never set */
    int64_t step = PICK(w, -3600000, -2000, 2000, 45000, 86400000);
    world_begin_step(w, "set the wall clock by", (uint64_t)step);
    world_expect_status(w, 0, lw_test_clock_set_wall(w->clock, sim_wall_ms(&w->model) + step),
                        LW_OK);
    w->model.wall_offset_ms += step;
    w->is_wall_new = true;
    world_end_step(w);
}

/* Their callbacks are counted in on_end. */
static void expect_telling(struct world *w) {
    for (lw_id id = 1; id <= w->model.last_id; id++)
        if (w->model.tasks[id].is_there && w->model.tasks[id].is_telling) {
            const struct sim_task *t = &w->model.tasks[id];
            w->expected_told[id] += t->spec.is_told;
            w->expected_told[id] += t->state == LW_FAILED && w->model.tells_failed;
            w->expected_told[id] += t->state == LW_ABORTED && w->model.tells_aborted;
        }
}

void world_tell(struct world *w) {
    world_begin_step(w, "tell", 0);
    lw__hand_enter(&w->inside);
    expect_telling(w);
    lw__tell(w->engine, UINT32_MAX);
    lw__hand_leave(&w->inside);
    sim_tell_all(&w->model);
    world_end_step(w);
}

void world_snapshot(struct world *w) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_id id = any_id(w);
    world_begin_step(w, "get", id);
    const struct sim_task *t = sim_find(&w->model, id);
    world_expect_status(w, id, lw_get(w->engine, id, &s), t ? LW_OK : LW_ENOTFOUND);
    if (t) {
        world_expect(w, id, "the state of a snapshot", s.state, t->state);
        world_expect(w, id, "the end of a snapshot", s.ended_ns,
                     t->ended * sim_is_terminal(t->state));
        world_expect(w, id, "the payload of a snapshot", s.payload.size,
                     t->is_bare ? 0 : t->spec.bytes);
        world_expect(w, id, "the errors of a snapshot", s.error_count + s.errors_dropped,
                     t->is_bare ? 0 : t->errors);
    }
    lw_snapshot_clear(&s);
    world_end_step(w);
}
