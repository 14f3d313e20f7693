/* The lives of engines in the simulation: see sim.h. */
#include "sim_world.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one life of an engine ----------------------------------------------------------------- */
static uint64_t ns_or(int64_t ms, uint64_t of_zero, uint64_t of_default) {
    return ms == LW_ZERO ? of_zero
           : ms == 0     ? of_default
           : ms == -1    ? SIM_NEVER
                         : (uint64_t)ms * SIM_MS;
}

static uint64_t count_or(int64_t n, uint64_t of_default) {
    return n == LW_ZERO ? 0 : n == 0 ? of_default : n == -1 ? SIM_NEVER : (uint64_t)n;
}

static void make_kind(struct world *w, int k) {
    static const char *const names[SIM_KINDS] = {"mail",  "report", "sync",
                                                 "thumb", "audit",  "orphan"};
    struct sim_kind *kind = &w->model.kinds[k];
    *kind = (struct sim_kind){.name = names[k],
                              .concurrency = SIM_NEVER,
                              .timeout = SIM_NEVER,
                              .stuck = 5000 * SIM_MS,
                              .min = 1000 * SIM_MS,
                              .max = 3600000 * SIM_MS,
                              .max_age = SIM_NEVER,
                              .doublings = SIM_NEVER,
                              .jitter_percent = 10,
                              .attempts = SIM_NEVER,
                              .crashes = 3,
                              .scope = LW_KEY_UNFINISHED};
    lw_handler_options o = {.struct_size = sizeof o, .user = w};
    int64_t *ttls[] = {&o.retention.finished_ms, &o.retention.failed_ms, &o.retention.aborted_ms};
    int64_t *keeps[] = {&o.retention.finished_max, &o.retention.failed_max,
                        &o.retention.aborted_max};
    for (int i = 0; i < SIM_LISTS; i++) {
        kind->ttl[i] = (i == 1 ? 86400000 : 900000) * SIM_MS;
        kind->keep[i] = 100000;
    }
    kind->has_handler = k < SIM_KINDS - 1;
    if (!kind->has_handler)
        return; /* nobody has ever heard of it */
    o.concurrency = (int)PICK(w, 0, 0, 1, 2);
    o.timeout_ms = PICK(w, 0, 0, 50, 1000, 10000);
    o.stuck_ms = PICK(w, 0, LW_ZERO, -1, 200);
    o.retry.min_ms = PICK(w, 0, LW_ZERO, 10, 700);
    o.retry.max_ms = PICK(w, 0, 0, 2000);
    o.retry.doublings = (int)PICK(w, 0, LW_ZERO, 2);
    o.retry.jitter_percent = (int)PICK(w, LW_ZERO, LW_ZERO, LW_ZERO, 0, 100);
    o.retry.attempts = (int)PICK(w, 0, 1, 2, 4);
    o.retry.max_age_ms = PICK(w, 0, 0, 30000);
    o.retry.crashes = (int)PICK(w, 0, LW_ZERO, 1, -1);
    o.key_scope = (lw_key_scope)world_below(w, 4);
    o.key_window_ms = PICK(w, 100, 20000);
    for (int i = 0; i < SIM_LISTS && k > 0; i++) {
        *ttls[i] = PICK(w, LW_ZERO, 5000, 60000, 3600000, -1);
        *keeps[i] = PICK(w, LW_ZERO, 1, 3, 100000, -1);
        kind->ttl[i] = ns_or(*ttls[i], 0, 0);
        kind->keep[i] = count_or(*keeps[i], 0);
    }
    kind->concurrency = o.concurrency ? (uint64_t)o.concurrency : SIM_NEVER;
    kind->timeout = ns_or(o.timeout_ms, 0, SIM_NEVER);
    kind->stuck = ns_or(o.stuck_ms, 0, kind->stuck);
    kind->min = ns_or(o.retry.min_ms, 0, kind->min);
    kind->max = ns_or(o.retry.max_ms, 0, kind->max);
    kind->doublings = count_or(o.retry.doublings, SIM_NEVER);
    kind->jitter_percent = count_or(o.retry.jitter_percent, 10);
    kind->attempts = count_or(o.retry.attempts, SIM_NEVER);
    kind->max_age = ns_or(o.retry.max_age_ms, 0, SIM_NEVER);
    kind->crashes = count_or(o.retry.crashes, 3);
    kind->scope = o.key_scope ? o.key_scope : LW_KEY_UNFINISHED;
    kind->window = (uint64_t)o.key_window_ms * SIM_MS;
    if (kind->min == 0)
        kind->jitter_percent = 0;
    w->handlers[k] = o;
}

static void make_queue(struct world *w, int q) {
    static const char *const names[SIM_QUEUES] = {"default", "rush", "bulk"};
    struct sim_model *m = &w->model;
    lw_queue_options o = {.struct_size = sizeof o,
                          .weight = (int)PICK(w, 1, 2, 5),
                          .limit = PICK(w, 0, 0, 3, 8),
                          .byte_limit = PICK(w, 0, 0, 150),
                          .overflow =
                              (int)PICK(w, LW_ZERO, LW_REFUSE, LW_CALLER_RUNS, LW_DROP_OLDEST)};
    m->queues[q] =
        (struct sim_queue){.name = names[q],
                           .weight = o.weight,
                           .limit = o.limit ? (uint64_t)o.limit : m->task_limit,
                           .byte_limit = o.byte_limit ? (uint64_t)o.byte_limit : m->byte_limit,
                           .overflow = o.overflow == LW_ZERO ? LW_BLOCK : (lw_overflow)o.overflow};
    w->queues[q] = o;
}

static void enlist(struct world *w, struct worker *worker) {
    lw_engine *engine = w->engine;
    lw__hand_init(&worker->hand, engine);
    worker->hand.next = engine->hands;
    worker->hand.link = &engine->hands;
    if (worker->hand.next)
        worker->hand.next->link = &worker->hand.next;
    engine->hands = &worker->hand;
}

static void remove_files(const char *url) {
    static const char *const endings[] = {"", "-wal", "-shm", "-owner", "-running"};
    const char *path = strchr(url, ':') + 1;
    for (size_t i = 0; *path && i < sizeof endings / sizeof *endings; i++) {
        char name[256];
        snprintf(name, sizeof name, "%s%s", path, endings[i]);
        unlink(name);
    }
}

static void open_engine(struct world *w) {
    world_expect_status(w, 0, lw_open(&w->engine, w->url, &w->options, NULL), LW_OK);
    for (int k = 0; k < SIM_KINDS; k++) {
        const struct sim_kind *kind = &w->model.kinds[k];
        if (kind->has_handler)
            world_expect_status(
                w, 0, lw_handle(w->engine, kind->name, world_run_guest, &w->handlers[k], NULL),
                LW_OK);
    }
    for (int q = 0; q < SIM_QUEUES; q++)
        world_expect_status(w, 0, lw_queue(w->engine, w->model.queues[q].name, &w->queues[q], NULL),
                            LW_OK);
    world_expect_status(w, 0, lw_start(w->engine, NULL), LW_OK);
    w->engine->set.workers = (uint32_t)w->worker_count; /* a drain is to wait for us */
    memset(w->workers, 0, sizeof w->workers);
    for (int i = 0; i < w->worker_count; i++)
        enlist(w, &w->workers[i]);
    memset(&w->inside, 0, sizeof w->inside);
    lw__hand_init(&w->inside, w->engine);
}

static void open_life(struct world *w) {
    remove_files(w->url);
    struct sim_model *m = &w->model;
    uint64_t step = m->step, now = m->now;
    int64_t offset = m->wall_offset_ms;
    memset(m, 0, sizeof *m);
    memset(w->told, 0, sizeof w->told);
    memset(w->expected_told, 0, sizeof w->expected_told);
    w->argument_count = 0;
    w->is_wall_new = w->is_scheduler_late = false;
    m->step = step;
    m->now = now;
    m->wall_offset_ms = m->known_offset_ms = offset;
    m->tells_failed = world_chance(w, 30);
    m->tells_aborted = world_chance(w, 30);
    int64_t reserve = PICK(w, LW_ZERO, 0, 1, 3), bytes = PICK(w, 0, 400);
    m->task_limit = 5 + world_below(w, 40);
    m->byte_limit = bytes ? (uint64_t)bytes : UINT64_C(1) << 30;
    m->reserve = reserve == LW_ZERO ? 0 : reserve == 0 ? 1000 : (uint64_t)reserve;
    w->worker_count = 1 + (int)world_below(w, WORKERS);
    w->options = (lw_engine_options){.struct_size = sizeof w->options,
                                     .workers = LW_ZERO,
                                     .task_limit = (int64_t)m->task_limit,
                                     .byte_limit = bytes,
                                     .reserve = reserve,
                                     .on_failed = m->tells_failed ? world_on_end : NULL,
                                     .on_aborted = m->tells_aborted ? world_on_end : NULL,
                                     .user = w,
                                     .seed = 1 + world_below(w, 1000000),
                                     .clock = w->clock,
                                     .allocator = lw_test_memory_allocator(w->memory)};
    for (int k = 0; k < SIM_KINDS; k++)
        make_kind(w, k);
    for (int q = 0; q < SIM_QUEUES; q++)
        make_queue(w, q);
    open_engine(w);
    m->is_durable = w->engine->index->journal != NULL;
    world_begin_step(w, "look", 0);
    world_look(w);
}

/* ---- closing and opening --------------------------------------------------------------------- */

/* What was in memory only, and has not ended, was told at the close, and nothing else was. */
static void check_left(struct world *w) {
    for (lw_id id = 1; id <= w->model.last_id; id++) {
        const struct sim_task *t = sim_find(&w->model, id);
        bool is_left = t && t->spec.is_told && !sim_is_terminal(t->state) && !w->model.is_durable;
        world_expect(w, id, "how often it was told at the close", w->told[id],
                     w->expected_told[id] + is_left);
    }
}

static void close_engine(struct world *w) {
    uint64_t blocks;
    for (int i = 0; i < w->worker_count; i++) {
        *w->workers[i].hand.link = w->workers[i].hand.next;
        if (w->workers[i].hand.next)
            w->workers[i].hand.next->link = w->workers[i].hand.link;
        lw__hand_free(&w->workers[i].hand);
    }
    lw__hand_free(&w->inside);
    w->is_closing = true;
    world_expect_status(w, 0, lw_close(w->engine), LW_OK);
    w->is_closing = false;
    check_left(w);
    w->engine = NULL;
    lw_test_memory_usage(w->memory, &blocks, NULL, NULL);
    world_expect(w, 0, "blocks of memory that are left", blocks, 0);
}

/* Those who were waiting for the worker are not kept up by it. */
static void let_all_end(struct world *w) {
    w->is_scheduler_late = false;
    world_play_scheduler(w);
    for (int i = 0; i < w->worker_count; i++) {
        struct worker *worker = &w->workers[i];
        if (worker->is_running)
            world_finish(w, worker, false);
        world_relieve(w, worker);
        if (world_has_left(worker))
            world_account(w, worker);
    }
    world_tell(w);
}

/* What is not kept: whose turn it is, since when a task is enqueued, and which tokens nobody has
 * got. */
static void adopt_rest(struct world *w) {
    memset(w->turns, 0, sizeof w->turns);
    struct sim_model *m = &w->model;
    uint64_t token = w->engine->index->last_token;
    if (token < m->last_token)
        world_complain(w, 0, "the last token", token, m->last_token);
    m->last_token = token;
    for (lw_id id = 1; id <= m->last_id; id++) {
        struct lw__task *task = world_real(w, id);
        if (task && m->tasks[id].is_there)
            m->tasks[id].enqueued = lw__see(&task->enqueued_at);
    }
}

static void reopen(struct world *w) {
    if (!w->model.is_durable || w->model.is_stopping)
        return;
    let_all_end(w);
    if (!sim_can_reopen(&w->model))
        return;
    world_begin_step(w, "reopen", 0);
    close_engine(w);
    sim_reopen(&w->model);
    open_engine(w);
    adopt_rest(w);
    world_look(w);
}

static void crash_one(struct world *w) {
    struct worker *worker = &w->workers[world_below(w, (uint64_t)w->worker_count)];
    if (!worker->is_running)
        return;
    world_finish(w, worker, true);
    world_relieve(w, worker);
}

static void do_something(struct world *w) {
    uint64_t dice = world_below(w, 100);
    struct worker *worker = &w->workers[world_below(w, (uint64_t)w->worker_count)];
    if (dice < 26)
        world_submit(w, false, 1);
    else if (dice < 29)
        world_submit(w, false, 1 + (int)world_below(w, SIM_MANY));
    else if (dice < 33)
        world_submit(w, true, 1);
    else if (dice < 62)
        world_play_worker(w, worker);
    else if (dice < 74)
        world_advance(w, (uint64_t)PICK(w, 1, 1, 10, 10, 100, 1000, 10000, 120000));
    else if (dice < 79)
        world_cancel_one(w);
    else if (dice < 83)
        world_retry_one(w);
    else if (dice < 86)
        world_forget_one(w);
    else if (dice < 88)
        crash_one(w);
    else if (dice < 90)
        world_pause_or_resume(w, (int)world_below(w, SIM_QUEUES), world_chance(w, 40));
    else if (dice < 91)
        world_set_wall(w);
    else if (dice < 93)
        world_relieve(w, worker);
    else if (dice < 94 && world_has_left(worker))
        world_account(w, worker);
    else if (dice < 96)
        world_tell(w);
    else if (dice < 98)
        w->is_scheduler_late = world_chance(w, 30);
    else if (dice < 99)
        world_snapshot(w);
    else
        reopen(w);
}

/* The luck has changed: everything that can run comes to its end. */
static bool can_never_end(struct world *w, const struct sim_task *t, int depth) {
    if (!w->model.kinds[t->spec.kind].has_handler)
        return true;
    for (int i = 0; t->state == LW_CREATED && depth < 64 && i < t->spec.after_count; i++) {
        struct sim_task *on = sim_find(&w->model, t->spec.after[i]);
        if (on && !sim_is_terminal(on->state) && can_never_end(w, on, depth + 1))
            return true;
    }
    return false;
}

static bool is_all_over(struct world *w) {
    for (lw_id id = 1; id <= w->model.last_id; id++) {
        struct sim_task *t = sim_find(&w->model, id);
        if (t && (t->is_telling || t->is_claimed))
            return false;
        if (t && !sim_is_terminal(t->state) && !can_never_end(w, t, 0))
            return false;
    }
    return true;
}

/* To the next moment at which something can happen. */
static void advance_to_event(struct world *w) {
    uint64_t next = atomic_load(&w->engine->sleeps_until);
    for (int i = 0; i < w->worker_count; i++)
        if (w->workers[i].is_running && w->workers[i].ends_at < next)
            next = w->workers[i].ends_at;
    if (next == LW__NEVER)
        world_complain(w, 0, "the time of the next event", 0, 1);
    world_advance(w, next > w->model.now ? (next - w->model.now + SIM_MS - 1) / SIM_MS : 1);
}

static void come_to_an_end(struct world *w) {
    uint64_t bound = w->model.now + 2 * 86400000 * SIM_MS;
    w->is_calm = true;
    w->is_scheduler_late = false;
    world_play_scheduler(w);
    for (int q = 0; q < SIM_QUEUES; q++)
        world_pause_or_resume(w, q, false);
    for (int i = 0; i < w->worker_count; i++) { /* what is started already is not cut short */
        struct worker *worker = &w->workers[i];
        if (worker->is_running && worker->words.outcome != LW_OUTCOME_DONE)
            worker->words = (struct sim_words){.outcome = LW_OUTCOME_DONE};
    }
    for (int round = 0; !is_all_over(w); round++) {
        if (w->model.now > bound || round > 5000)
            world_complain(w, 0, "rounds until everything has ended", (uint64_t)round, 0);
        if (!world_play_workers(w))
            advance_to_event(w);
        world_tell(w);
    }
    world_advance(w, 3 * 86400000); /* what is retained for a time has left, then */
    w->is_calm = false;
}

static void check_stop(struct world *w, lw_stop_mode mode) {
    world_begin_step(w, "stop and wait", (uint64_t)mode);
    sim_begin_stop(&w->model, mode);
    int should = sim_is_quiet(&w->model) ? LW_OK : LW_ETIMEDOUT;
    int is = lw_stop(w->engine, mode, 0);
    if (should == LW_ETIMEDOUT)
        sim_end_contexts(&w->model, LW_REASON_STOP);
    world_expect_status(w, 0, is, should);
    world_end_step(w);
    world_expect(w, 0, "stopped after a stop", w->model.has_stopped || should != LW_OK, true);
}

static void begin_stop(struct world *w, lw_stop_mode mode) {
    bool is_out_of_time = world_chance(w, 5);
    world_begin_step(w, "begin to stop", (uint64_t)mode);
    lw__hand_enter(&w->inside);
    world_expect_status(w, 0, lw_stop(w->engine, mode, is_out_of_time ? 0 : -1), LW_PENDING);
    lw__hand_leave(&w->inside);
    sim_begin_stop(&w->model, mode);
    if (is_out_of_time)
        sim_end_contexts(&w->model, LW_REASON_STOP);
    world_end_step(w);
}

/* A stop, with work and accidents beside it, until nothing runs. */
static void stop(struct world *w) {
    static const lw_stop_mode modes[] = {LW_DRAIN, LW_DROP, LW_DRAIN_ALL};
    begin_stop(w, modes[world_below(w, 3)]);
    for (int i = (int)world_below(w, 40); i > 0; i--) {
        do_something(w);
        if (world_chance(w, 3))
            begin_stop(w, modes[world_below(w, 3)]);
        if (world_chance(w, 2))
            check_stop(w, modes[world_below(w, 3)]);
    }
    w->is_scheduler_late = false;
    world_play_scheduler(w);
    for (int q = 0; q < SIM_QUEUES; q++)
        world_pause_or_resume(w, q, false);
    for (int round = 0; !sim_is_quiet(&w->model); round++) {
        if (round > 5000)
            world_complain(w, 0, "rounds until it is quiet", (uint64_t)round, 0);
        if (!world_play_workers(w))
            world_advance(w, 100);
        world_tell(w);
    }
    check_stop(w, w->model.stop_mode);
}

static void check_arguments(struct world *w) {
    for (int i = 0; i < w->argument_count; i++)
        world_expect(w, w->arguments[i].id, "how often its argument was received",
                     (uint64_t)w->arguments[i].received, 1);
}

static void close_life(struct world *w) {
    world_begin_step(w, "close", 0);
    close_engine(w);
    check_arguments(w);
}

static void live(struct world *w, bool is_last) {
    open_life(w);
    for (int i = 0; i < STEPS; i++)
        do_something(w);
    if (is_last)
        come_to_an_end(w);
    stop(w);
    close_life(w);
}

uint64_t sim_run(const char *url, uint64_t seed, bool is_shown) {
    struct world *w = calloc(1, sizeof *w);
    CHECK(w != NULL);
    w->url = url;
    w->seed = seed;
    w->hash = UINT64_C(0xcbf29ce484222325);
    w->is_shown = is_shown;
    lw__random_seed(&w->random, seed);
    world_expect_status(w, 0, lw_test_memory_open(&w->memory), LW_OK);
    world_expect_status(w, 0, lw_test_clock_open(&w->clock), LW_OK);
    w->model.now = SIM_BASE + 1000 * SIM_MS;
    w->model.wall_offset_ms = INT64_C(946684800000) - 1000 - (int64_t)(SIM_BASE / SIM_MS);
    for (int life = 1; life <= LIVES; life++)
        live(w, life == LIVES);
    uint64_t hash = w->hash;
    lw_test_clock_close(w->clock);
    lw_test_memory_close(w->memory);
    free(w);
    return hash;
}
