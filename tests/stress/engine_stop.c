/* Stops that race with submits, cancels, retries and stuck handlers: what was accepted has ended
 * once or is listed, and every argument is accounted for. */
#include "stress_engine.h"

#define PRODUCERS 2
#define TASKS 12

struct errand {
    struct slip slip; /* ran: by an attempt that keeps the argument for good */
    _Atomic uint32_t ended, running;
    _Atomic lw_id id;
    lw_state state; /* at the end */
};

static struct {
    lw_engine *engine;
    struct counter may_go;
    _Atomic bool is_quiet;
    bool is_closing; /* what was left is told, too */
    _Atomic uint32_t next_producer;
    struct errand errands[PRODUCERS][TASKS];
} race;

static lw_outcome keep(struct errand *errand, lw_outcome outcome) {
    atomic_fetch_add(&errand->slip.ran, 1);
    return outcome;
}

static lw_outcome choose_outcome(lw_ctx *ctx, struct errand *errand) {
    switch (dice(8)) {
    case 0: return keep(errand, lw_fail(ctx, "no"));
    case 1: return keep(errand, lw_abort(ctx, "not wanted"));
    case 2: return lw_retry(ctx, "again");
    case 3: return lw_retry_after(ctx, (int64_t)dice(3), "later");
    case 4: return lw_snooze(ctx, (int64_t)dice(2));
    default: return keep(errand, lw_done(ctx));
    }
}

static lw_outcome run_errand(lw_ctx *ctx, const lw_task *task) {
    struct errand *errand = task->arg;
    CHECK(atomic_fetch_add(&errand->running, 1) == 0); /* by one at a time */
    CHECK(!atomic_load(&race.is_quiet));
    CHECK(atomic_load(&errand->slip.ran) == 0 && atomic_load(&errand->ended) == 0);
    if (chance(20))
        dawdle(100);
    if (chance(3)) /* past its deadlines */
        await_count(&race.may_go, 1);
    lw_outcome outcome = choose_outcome(ctx, errand);
    atomic_fetch_sub(&errand->running, 1);
    return outcome;
}

static void on_errand_end(void *user, const lw_snapshot *task) {
    struct errand *errand = user;
    /* also after a stop: a cancel still ends it */
    CHECK(lw_state_is_terminal(task->state) || race.is_closing);
    errand->state = task->state;
    CHECK(atomic_fetch_add(&errand->ended, 1) == 0);
}

static void *produce(void *arg) {
    struct errand *errands = race.errands[atomic_fetch_add(&race.next_producer, 1)];
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        struct errand *errand = &errands[i];
        lw_id id = 0;
        lw_task task = *LW_TASK(.run = run_errand, .arg = errand, .on_drop = drop_slip,
                                .on_end = on_errand_end, .user = errand);
        if (chance(20))
            task.delay_ms = between(1, 3);
        if (chance(10))
            task.queue = "other";
        errand->slip.is_given = true;
        errand->slip.status = lw_submit(race.engine, &task, &id, NULL);
        atomic_store(&errand->id, id);
        CHECK(errand->slip.status == LW_OK || errand->slip.status == LW_ESTOPPING
              || errand->slip.status == LW_EFULL);
    }
    return NULL;
}

static void *cancel_some(void *arg) {
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        lw_id id = atomic_load(&race.errands[dice(PRODUCERS)][dice(TASKS)].id);
        if (id > 0)
            lw_cancel(race.engine, id);
        dawdle(20);
    }
    return NULL;
}

static void *stop_it(void *arg) {
    (void)arg;
    dawdle(500);
    int rc = lw_stop(race.engine, any_stop_mode(), chance(20) ? between(0, 1) : STRESS_HANG_MS);
    CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
    if (rc == LW_OK) {
        atomic_store(&race.is_quiet, true);
        assert_status(lw_submit(race.engine, LW_TASK(.run = run_errand), NULL, NULL), LW_ESTOPPING);
    }
    return NULL;
}

static void *let_go(void *arg) {
    (void)arg;
    dawdle(2000);
    count_up(&race.may_go);
    return NULL;
}

static void open_engine(void) {
    static const lw_overflow policies[] = {LW_BLOCK, LW_REFUSE, LW_CALLER_RUNS, LW_DROP_OLDEST};
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(
        LW_ENGINE_OPTIONS(.workers = between(1, 4), .task_limit = chance(50) ? between(1, 8) : 0,
                          .overflow = policies[dice(4)], .stuck_max = between(1, 2)));
    lw_handle(race.engine, "call", NULL,
              LW_HANDLER_OPTIONS(.timeout_ms = chance(50) ? 1 : 0,
                                 .stuck_ms = chance(50) ? 1 : LW_ZERO,
                                 .retry = {.min_ms = LW_ZERO, .attempts = 4, .crashes = 3}),
              NULL);
    start_engine(race.engine);
}

static bool count_unfinished(void *user, const lw_snapshot *task) {
    CHECK(task->state != LW_STARTED);
    ++*(uint32_t *)user;
    return true;
}

/* Each has ended and was told, or is listed. */
static void check_before_close(void) {
    uint32_t listed = 0, unfinished = 0;
    lw_list(race.engine, LW_FILTER(.is_unfinished = true, .limit = 1000), count_unfinished,
            &listed);
    for (int p = 0; p < PRODUCERS; p++) {
        for (int i = 0; i < TASKS; i++) {
            struct errand *errand = &race.errands[p][i];
            uint32_t ended = atomic_load(&errand->ended);
            if (!errand->slip.is_given || errand->slip.status != LW_OK) {
                CHECK(ended == 0);
                continue;
            }
            unfinished += ended == 0;
            if (ended)
                check_slip(&errand->slip);
            if (ended && errand->state == LW_FINISHED)
                CHECK(atomic_load(&errand->slip.ran) == 1);
        }
    }
    assert_int_equal(listed, unfinished);
}

static void race_stop(void) {
    struct actors actors = {.count = 0};
    open_engine();
    int stoppers = between(1, 2);
    add_actor(&actors, produce, NULL);
    if (chance(70))
        add_actor(&actors, produce, NULL);
    if (chance(50))
        add_actor(&actors, cancel_some, NULL);
    add_actor(&actors, let_go, NULL);
    while (stoppers-- > 0)
        add_actor(&actors, stop_it, NULL);
    join_actors(&actors);
    stop_engine(race.engine, LW_DROP);
    check_before_close();
    race.is_closing = true;
    assert_status(lw_close(race.engine), LW_OK);
    for (int i = 0; i < PRODUCERS * TASKS; i++) {
        struct errand *errand = &race.errands[i / TASKS][i % TASKS];
        bool was_accepted = errand->slip.is_given && errand->slip.status == LW_OK;
        check_slip(&errand->slip);
        CHECK(atomic_load(&errand->ended) == was_accepted);
    }
}

TEST(what_was_accepted_has_ended_once_or_is_listed) {
    run_races(650, race_stop);
}

/* ---- several stops ---------------------------------------------------------------------- */

static lw_outcome do_not_again(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    CHECK(!atomic_load(&race.is_quiet));
    return lw_done(ctx);
}

static void *stop_as(void *arg) {
    if (chance(30))
        dawdle(50);
    assert_status(lw_stop(race.engine, *(lw_stop_mode *)arg, STRESS_HANG_MS), LW_OK);
    assert_status(lw_submit(race.engine, LW_TASK(.kind = "plain"), NULL, NULL), LW_ESTOPPING);
    atomic_store(&race.is_quiet, true);
    return NULL;
}

static void *submit_plain(void *arg) {
    (void)arg;
    for (int i = 0; i < TASKS; i++) {
        int64_t delay = chance(30) ? 60000 : 0;
        lw_submit(race.engine, LW_TASK(.kind = "plain", .delay_ms = delay), NULL, NULL);
    }
    return NULL;
}

/* Whichever of them is through first: it holds for all. */
static void race_many_stops(void) {
    struct actors actors = {.count = 0};
    lw_stop_mode modes[3], same = any_stop_mode();
    memset(&race, 0, sizeof race);
    race.engine = open_race_engine(LW_ENGINE_OPTIONS(.workers = between(1, 3)));
    lw_handle(race.engine, "plain", do_not_again, NULL, NULL);
    start_engine(race.engine);
    add_actor(&actors, submit_plain, NULL);
    if (chance(50))
        submit_plain(NULL);
    bool are_same = chance(60);
    for (int i = 0; i < 3; i++) {
        modes[i] = are_same ? same : any_stop_mode();
        add_actor(&actors, stop_as, &modes[i]);
    }
    join_actors(&actors);
    assert_status(lw_close(race.engine), LW_OK);
}

TEST(when_one_of_many_stops_returns_nothing_runs) {
    run_races(650, race_many_stops);
}
