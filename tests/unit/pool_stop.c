/* Stopping: drain or drop, with a timeout, from anywhere, any number of times at once. */
#include "pools.h"

#include <stdatomic.h>

/* A stop on a thread of its own. */
struct stop {
    lw_pool *pool;
    lw_stop_mode mode;
    int64_t timeout_ms;
    int rc;
    pthread_t thread;
};

static void *run_stop(void *arg) {
    struct stop *stop = arg;
    stop->rc = lw_pool_stop(stop->pool, stop->mode, stop->timeout_ms);
    return NULL;
}

static void begin_stop(struct stop *stop) {
    stop->thread = start_thread(run_stop, stop);
}

static int end_stop(struct stop *stop) {
    join_thread(stop->thread);
    return stop->rc;
}

static struct tally drops = TALLY;

static void count_drop(void *arg) {
    (void)arg;
    tally_add(&drops, 1);
}

/* After a stop that timed out, close would leave behind what is about to end. */
static void end_pool(lw_pool *pool) {
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    close_pool(pool);
}

/* ---- drain --------------------------------------------------------------------------------- */

TEST(a_drain_runs_everything_that_is_queued) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 500, .on_drop = count_drop);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 500);
    struct stop stop = {.pool = pool, .mode = LW_DRAIN, .timeout_ms = -1};
    begin_stop(&stop);
    await_that(lw_pool_submit(pool, tally_task, &runs) == LW_ESTOPPING || tally_read(&runs) > 0);
    gate_open(&gate);
    assert_status(end_stop(&stop), LW_OK);
    assert_int_equal(tally_read(&drops), 0);
    CHECK(tally_read(&runs) >= 500);
    assert_int_equal(stats_of(pool).workers, 0);
    close_pool(pool);
}

TEST(what_is_queued_goes_on_being_run_after_a_drain_has_timed_out) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 10);
    assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    tally_await(&runs, 10);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    close_pool(pool);
}

/* ---- drop ---------------------------------------------------------------------------------- */

TEST(a_drop_drops_what_is_queued_before_it_returns) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = 300, .on_drop = count_drop);
    occupy(pool, &gate, 2);
    submit_times(pool, tally_task, &runs, 300);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    assert_int_equal(tally_read(&drops), 300);
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
}

static void tick(lw_ctx *ctx, void *arg) {
    (void)ctx;
    atomic_fetch_add((atomic_long *)arg, 1);
}

static void *submit_ticks(void *arg) {
    void **both = arg;
    while (lw_pool_submit(both[0], tick, both[1]) == LW_OK)
        ;
    return NULL;
}

TEST(after_a_drop_has_returned_no_further_task_starts) {
    for (int round = 0; round < test_scale(300, 20000); round++) {
        atomic_long ticks = 0;
        lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = 256);
        void *both[] = {pool, &ticks};
        pthread_t submitter = start_thread(submit_ticks, both);
        for (long enough = round % 7 * 100; atomic_load(&ticks) < enough;)
            ;
        int rc = lw_pool_stop(pool, LW_DROP, 0); /* a tick may be running */
        CHECK(rc == LW_OK || rc == LW_ETIMEDOUT);
        lw_pool_run_info info[2];
        while (lw_pool_running(pool, info, 2) > 0)
            ;
        long before = atomic_load(&ticks);
        assert_status(lw_pool_stop(pool, LW_DROP, -1), LW_OK);
        assert_int_equal(atomic_load(&ticks), before);
        join_thread(submitter);
        close_pool(pool);
    }
}

TEST(a_drop_also_drops_what_a_hurrying_worker_has_taken_ahead) {
    for (int round = 0; round < 20; round++) {
        struct gate gate = GATE;
        atomic_long ticks = 0;
        lw_pool_task tasks[32];
        lw_pool *pool = OPEN_POOL(.min_workers = 1, .queue_limit = 4096, .on_drop = count_drop);
        submit_times(pool, tick, (void *)&ticks, 4000); /* short enough to be taken in batches */
        tasks[0] = (lw_pool_task){gate_task, &gate};
        for (int i = 1; i < 32; i++)
            tasks[i] = (lw_pool_task){tick, (void *)&ticks};
        assert_status(lw_pool_submit_many(pool, tasks, 32, NULL), LW_OK);
        tally_await(&gate.arrived, 1);
        long before = tally_read(&drops);
        assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
        assert_int_equal(tally_read(&drops) - before, 31);
        gate_open(&gate);
        end_pool(pool);
    }
}

static void *run_and_report(void *arg) {
    struct gate *gate = ((void **)arg)[1];
    int rc = lw_pool_run(((void **)arg)[0], gate_task, gate);
    return (void *)(intptr_t)rc;
}

TEST(a_drop_cancels_a_run_that_is_queued_without_calling_on_drop) {
    struct gate gate = GATE, other = GATE;
    void *both[] = {OPEN_POOL(.min_workers = 1, .on_drop = count_drop), &other}, *rc;
    occupy(both[0], &gate, 1);
    pthread_t thread = start_thread(run_and_report, both);
    await_that(stats_of(both[0]).queued == 1);
    assert_status(lw_pool_stop(both[0], LW_DROP, 0), LW_ETIMEDOUT);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_status((int)(intptr_t)rc, LW_ECANCELED);
    assert_int_equal(tally_read(&drops), 0);
    assert_int_equal(tally_read(&other.arrived), 0);
    gate_open(&gate);
    end_pool(both[0]);
}

TEST(a_later_drop_wins_over_a_drain_and_never_the_reverse) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .on_drop = count_drop);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 10);
    struct stop drain = {.pool = pool, .mode = LW_DRAIN, .timeout_ms = -1};
    begin_stop(&drain);
    await_that(lw_pool_try_submit(pool, tally_task, &runs) == LW_ESTOPPING);
    assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_ETIMEDOUT);
    CHECK(tally_read(&drops) >= 10);
    assert_status(lw_pool_stop(pool, LW_DRAIN, 0), LW_ETIMEDOUT);
    gate_open(&gate);
    assert_status(end_stop(&drain), LW_OK);
    assert_int_equal(tally_read(&runs), 0);
    close_pool(pool);
}

/* ---- what still runs ----------------------------------------------------------------------- */

static const lw_pool_run_info *find_arg(const lw_pool_run_info *infos, int count, const void *arg) {
    for (int i = 0; i < count; i++)
        if (infos[i].arg == arg)
            return &infos[i];
    return NULL;
}

TEST(a_stop_that_times_out_leaves_a_list_of_exactly_what_runs) {
    struct gate one = GATE, two = GATE;
    lw_pool_run_info infos[8];
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 3, .clock = clock);
    occupy(pool, &one, 1);
    advance(clock, 25);
    assert_status(lw_pool_submit(pool, until_done_task, &two), LW_OK);
    tally_await(&two.arrived, 1);

    struct stop stop = {.pool = pool, .mode = LW_DRAIN, .timeout_ms = 100};
    begin_stop(&stop);
    await_sleepers(clock, 2); /* the task, and the stop */
    assert_int_equal(lw_pool_running(pool, infos, 8), 2);
    advance(clock, 100);
    assert_status(end_stop(&stop), LW_ETIMEDOUT);
    tally_await(&two.passed, 1); /* the end of its context has reached it */

    await_that(lw_pool_running(pool, infos, 8) == 1);
    assert_ptr_equal(infos[0].fn, gate_task);
    assert_ptr_equal(infos[0].arg, &one);
    assert_int_equal(infos[0].running_ms, 125);
    CHECK(!infos[0].is_stuck && infos[0].worker < 3);
    gate_open(&one);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_int_equal(lw_pool_running(pool, infos, 8), 0);
    close_pool(pool);
    lw_test_clock_close(clock);
}

TEST(the_list_of_what_runs_tells_how_many_even_if_there_is_room_for_fewer) {
    struct gate gates[3] = {GATE, GATE, GATE};
    lw_pool_run_info infos[3] = {0};
    lw_pool *pool = OPEN_POOL(.min_workers = 3);
    for (int i = 0; i < 3; i++)
        occupy(pool, &gates[i], 1);
    assert_int_equal(lw_pool_running(pool, NULL, 0), 3);
    assert_int_equal(lw_pool_running(pool, infos, 2), 3);
    CHECK(infos[0].fn == gate_task && infos[1].fn == gate_task && infos[2].fn == NULL);
    assert_int_equal(lw_pool_running(pool, infos, 3), 3);
    for (int i = 0; i < 3; i++)
        assert_non_null(find_arg(infos, 3, &gates[i]));
    for (int i = 0; i < 3; i++)
        gate_open(&gates[i]);
    close_pool(pool);
}

TEST(after_a_stop_timed_out_a_later_one_waits_again) {
    struct gate gate = GATE;
    lw_clock *clock = open_clock();
    lw_pool *pool = OPEN_POOL(.min_workers = 1, .clock = clock);
    occupy(pool, &gate, 1);
    for (int i = 0; i < 3; i++) {
        struct stop stop = {.pool = pool, .mode = LW_DRAIN, .timeout_ms = 50};
        begin_stop(&stop);
        await_sleepers(clock, 1);
        advance(clock, 50);
        assert_status(end_stop(&stop), LW_ETIMEDOUT);
    }
    struct stop stop = {.pool = pool, .mode = LW_DRAIN, .timeout_ms = 50};
    begin_stop(&stop);
    await_sleepers(clock, 1);
    gate_open(&gate);
    assert_status(end_stop(&stop), LW_OK);
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* ---- when, and how often ------------------------------------------------------------------- */

TEST(a_stopped_pool_refuses_every_kind_of_submit) {
    struct tally runs = TALLY;
    lw_ticket ticket = 77;
    lw_error err;
    size_t accepted = 77;
    lw_pool *pool = OPEN_POOL(.min_workers = 1);
    assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
    assert_status(lw_pool_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_try_submit(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_ESTOPPING);
    assert_status(lw_pool_submit_many(pool, &(lw_pool_task){tally_task, &runs}, 1, &accepted),
                  LW_ESTOPPING);
    assert_int_equal(accepted, 0);
    assert_status(
        lw_pool_submit_with(pool, tally_task, &runs, LW_SUBMIT_OPTIONS(.ticket = &ticket), &err),
        LW_ESTOPPING);
    assert_sentence(&err, LW_ESTOPPING, "stopping");
    assert_status(lw_pool_wait_idle(pool, 0), LW_OK);
    close_pool(pool);
    assert_int_equal(tally_read(&runs), 0);
}

TEST(a_second_stop_is_as_good_as_the_first) {
    lw_pool *pool = OPEN_POOL(.min_workers = 2);
    for (int i = 0; i < 3; i++) {
        assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
        assert_status(lw_pool_stop(pool, LW_DROP, 0), LW_OK);
        assert_status(lw_pool_stop(pool, LW_DRAIN, 1000), LW_OK);
    }
    close_pool(pool);
}

TEST(an_idle_pool_stops_without_being_given_time) {
    for (int round = 0; round < 200; round++) {
        lw_pool *pool = OPEN_POOL(.min_workers = 3);
        if (round % 3 == 0)
            assert_status(lw_pool_run(pool, tally_task, &drops), LW_OK);
        assert_status(lw_pool_wait_idle(pool, -1), LW_OK);
        assert_status(lw_pool_stop(pool, round % 2 ? LW_DRAIN : LW_DROP, 0), LW_OK);
        close_pool(pool);
    }
}

TEST(a_stop_right_after_open_ends_at_once) {
    for (int round = 0; round < test_scale(200, 10000); round++) {
        lw_pool *pool = OPEN_POOL(.min_workers = round % 5 ? round % 5 : LW_ZERO, .max_workers = 5);
        assert_status(lw_pool_stop(pool, round % 2 ? LW_DRAIN : LW_DROP, -1), LW_OK);
        close_pool(pool);
    }
}

TEST(eight_stops_at_once_all_see_the_end) {
    for (int round = 0; round < test_scale(50, 2000); round++) {
        struct stop stops[8];
        struct gate gate = GATE;
        struct tally runs = TALLY;
        lw_pool *pool = OPEN_POOL(.min_workers = 2, .on_drop = count_drop);
        occupy(pool, &gate, 1);
        submit_times(pool, tally_task, &runs, 50);
        for (int i = 0; i < 8; i++) {
            stops[i] = (struct stop){.pool = pool, .mode = i % 2 ? LW_DRAIN : LW_DROP};
            stops[i].timeout_ms = i < 4 ? -1 : 100000;
            begin_stop(&stops[i]);
        }
        gate_open(&gate);
        for (int i = 0; i < 8; i++)
            assert_status(end_stop(&stops[i]), LW_OK);
        close_pool(pool);
    }
}

/* ---- racing submitters --------------------------------------------------------------------- */

struct racer {
    lw_pool *pool;
    atomic_long *ticks;
    long accepted;
    int rc;
};

static void *race(void *arg) {
    struct racer *racer = arg;
    while ((racer->rc = lw_pool_submit(racer->pool, tick, (void *)racer->ticks)) == LW_OK)
        racer->accepted++;
    return NULL;
}

TEST(submitters_that_race_a_drain_are_run_or_refused) {
    for (int round = 0; round < test_scale(200, 5000); round++) {
        atomic_long ticks = 0;
        struct racer racers[3];
        pthread_t threads[3];
        long accepted = 0;
        lw_pool *pool = OPEN_POOL(.min_workers = 2, .queue_limit = 1 + round % 50);
        for (int i = 0; i < 3; i++) {
            racers[i] = (struct racer){.pool = pool, .ticks = &ticks};
            threads[i] = start_thread(race, &racers[i]);
        }
        while (atomic_load(&ticks) < round)
            ;
        assert_status(lw_pool_stop(pool, LW_DRAIN, -1), LW_OK);
        long at_stop = atomic_load(&ticks);
        for (int i = 0; i < 3; i++) {
            join_thread(threads[i]);
            assert_status(racers[i].rc, LW_ESTOPPING);
            accepted += racers[i].accepted;
        }
        assert_int_equal(accepted, at_stop);
        close_pool(pool);
    }
}

static void release_blocked(lw_stop_mode mode) {
    struct gate gate = GATE;
    atomic_long ticks = 0;
    struct racer racers[3];
    pthread_t threads[3];
    lw_clock *clock = open_clock();
    lw_pool *pool =
        OPEN_POOL(.min_workers = 1, .queue_limit = 1, .submit_timeout_ms = 1000, .clock = clock);
    occupy(pool, &gate, 1);
    submit_times(pool, tick, (void *)&ticks, 1);
    for (int i = 0; i < 3; i++) {
        racers[i] = (struct racer){.pool = pool, .ticks = &ticks};
        threads[i] = start_thread(race, &racers[i]);
    }
    await_sleepers(clock, 3);
    assert_status(lw_pool_stop(pool, mode, 0), LW_ETIMEDOUT);
    for (int i = 0; i < 3; i++) {
        join_thread(threads[i]);
        assert_status(racers[i].rc, LW_ESTOPPING);
        assert_int_equal(racers[i].accepted, 0);
    }
    gate_open(&gate);
    assert_status(lw_pool_stop(pool, mode, -1), LW_OK);
    assert_int_equal(atomic_load(&ticks), mode == LW_DRAIN);
    close_pool(pool);
    lw_test_clock_close(clock);
}

TEST(a_drain_releases_blocked_submitters) {
    release_blocked(LW_DRAIN);
}

TEST(a_drop_releases_blocked_submitters) {
    release_blocked(LW_DROP);
}
