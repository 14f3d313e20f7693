/* sim_world.h: the inside of the simulation (sim.h).
 *
 *     sim.c           engines are opened, lived with, stopped and closed
 *     sim_programs.c  what programs do: submit, cancel, retry, pause, set the clock
 *     sim_workers.c   what workers and the scheduler do
 *     sim_compare.c   what must be the same
 *     sim_model*.c    what it must be the same as */
#ifndef LW_TESTS_SUPPORT_SIM_WORLD_H
#define LW_TESTS_SUPPORT_SIM_WORLD_H

#include "base/random.h"
#include "engine/engine_internal.h"
#include "sim.h"
#include "sim_model.h"

#include <legwork/testing.h>
#include <stdio.h>

enum { WORKERS = 4, BATCH = 4, LIVES = 3, STEPS = 220, KEYS = 3 };

/* A worker: a hand, what it has claimed, and the script of what it runs. */
struct worker {
    struct lw__hand hand;
    struct lw__task *batch[BATCH];
    lw_id ids[BATCH];
    bool is_left[BATCH]; /* has ended, and is to be accounted for */
    uint64_t token;      /* of batch[0] */
    int next, count;
    bool is_running; /* batch[next - 1] */
    bool is_deaf;    /* ignores its context */
    uint64_t ends_at;
    struct sim_words words;
};

/* What a task with a function was given; exactly one attempt or drop has to get it. */
struct argument {
    struct world *world;
    lw_id id;
    int received;
};

struct world {
    struct sim_model model;
    struct lw__random random;
    const char *url;
    uint64_t seed, hash;
    bool is_shown, is_calm;
    const char *doing; /* the present step */
    lw_test_memory *memory;
    lw_clock *clock;
    lw_engine *engine;
    lw_engine_options options; /* what it was opened with */
    lw_handler_options handlers[SIM_KINDS];
    lw_queue_options queues[SIM_QUEUES];
    struct worker workers[WORKERS];
    int worker_count;
    struct lw__hand inside; /* makes calls from it calls from inside */
    uint32_t seen_call;
    bool is_scheduler_late, is_wall_new;
    struct sim_words guest_words;
    lw_id guest; /* the task that the caller runs; 0: none */
    struct argument arguments[SIM_TASKS + 1];
    int argument_count;
    unsigned told[SIM_TASKS + 1], expected_told[SIM_TASKS + 1];
    bool is_closing; /* in memory what is left unfinished is told */
    uint32_t active; /* queues that have something to claim: bits */
    uint64_t turns[SIM_QUEUES];
};

static inline uint64_t world_below(struct world *w, uint64_t bound) {
    return lw__random_below(&w->random, bound);
}

static inline bool world_chance(struct world *w, unsigned percent) {
    return world_below(w, 100) < percent;
}

#define PICK(world, ...)                                                                       \
    ((const int64_t[]){__VA_ARGS__})[world_below(world, sizeof((const int64_t[]){__VA_ARGS__}) \
                                                            / sizeof(int64_t))]

#define SHOW(world, ...) ((world)->is_shown ? (void)printf(__VA_ARGS__) : (void)0)

/* ---- sim_compare.c ------------------------------------------------------------------- */

/* Says what is not as it should be, and how to see it again; the process ends. */
_Noreturn void world_complain(const struct world *w, lw_id id, const char *what, uint64_t is,
                              uint64_t should);
void world_expect(const struct world *w, lw_id id, const char *what, uint64_t is, uint64_t should);
void world_expect_status(const struct world *w, lw_id id, int is, int should);
/* Every step of the simulation is between these two: noted in the trace; compared, and seen by the
 * scheduler. */
void world_begin_step(struct world *w, const char *doing, uint64_t detail);
/* The task in the engine; NULL: none. */
struct lw__task *world_real(struct world *w, lw_id id);
void world_compare(struct world *w);
/* Which queues have something to claim: bits. */
uint32_t world_active_queues(struct world *w);

/* ---- sim_workers.c ------------------------------------------------------------------- */

void world_end_step(struct world *w);
const char *world_key_name(int key); /* NULL: none */
/* What a handler will say. */
struct sim_words world_any_words(struct world *w);
lw_task world_to_task(struct world *w, const struct sim_spec *s);
/* The handler of all kinds; only a submitter gets there, who runs a task itself. */
lw_outcome world_run_guest(lw_ctx *ctx, const lw_task *task);
void world_on_end(void *user, const lw_snapshot *task);
/* The scheduler looks; or only if its thread would. */
void world_look(struct world *w);
void world_play_scheduler(struct world *w);
void world_advance(struct world *w, uint64_t ms);
/* A worker puts back what it has not begun; ends its attempt; does what comes next, if anything
 * does; says what it has finished. */
void world_relieve(struct world *w, struct worker *worker);
void world_finish(struct world *w, struct worker *worker, bool is_crash);
bool world_play_worker(struct world *w, struct worker *worker);
bool world_play_workers(struct world *w);
void world_account(struct world *w, struct worker *worker);
bool world_has_left(const struct worker *worker);
/* After an attempt: who has the argument; when it is due again, if that is left to chance. */
void world_note_argument(struct world *w, struct sim_task *t, const struct sim_words *words);
void world_adopt_jitter(struct world *w, struct sim_task *t, uint64_t due_min, uint64_t due_max);

/* ---- sim_programs.c ------------------------------------------------------------------ */

struct sim_spec world_any_spec(struct world *w);
void world_submit(struct world *w, bool is_inside, int count);
void world_cancel_one(struct world *w);
void world_retry_one(struct world *w);
void world_forget_one(struct world *w);
void world_pause_or_resume(struct world *w, int q, bool is_paused);
void world_set_wall(struct world *w);
void world_tell(struct world *w);
void world_snapshot(struct world *w);

#endif
