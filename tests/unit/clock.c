/* Time: the system's clock, and the one that a test holds. */
#include "pools.h"

#include "base/clock.h"
#include "base/futex.h"

#include <time.h>

/* Sleeps on a clock until a moment, as everything here does: in a loop. */
struct sleeper {
    lw_clock *clock;
    uint64_t deadline;
    _Atomic uint32_t word; /* ends the sleep before its time when it is not 0 */
    struct tally *awake;
    pthread_t thread;
};

static void *run_sleeper(void *arg) {
    struct sleeper *s = arg;
    while (atomic_load(&s->word) == 0 && lw__now(s->clock) < s->deadline)
        s->clock->wait(s->clock, &s->word, 0, s->deadline);
    tally_add(s->awake, 1);
    return NULL;
}

static void begin_sleep(struct sleeper *s, lw_clock *clock, int64_t ms, struct tally *awake) {
    *s = (struct sleeper){.clock = clock, .deadline = lw__deadline_in(clock, ms), .awake = awake};
    s->thread = start_thread(run_sleeper, s);
}

static void wake(struct sleeper *s) {
    atomic_store(&s->word, 1);
    lw__futex_wake(&s->word, 1);
}

#define FIRST (LW__CLOCK_BASE + LW__NS_PER_S) /* what a test clock shows at first */

/* ---- a clock that a test holds ------------------------------------------------------------- */

TEST(a_test_clock_stands_still_at_one_second) {
    lw_clock *clock = open_clock();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(lw__now(clock), FIRST);
    lw_test_clock_close(clock);
}

TEST(an_advance_moves_it_by_exactly_that) {
    lw_clock *clock = open_clock();
    advance(clock, 1);
    assert_int_equal(lw__now(clock), FIRST + LW__NS_PER_MS);
    advance(clock, 0);
    assert_int_equal(lw__now(clock), FIRST + LW__NS_PER_MS);
    advance(clock, LW_TIMEOUT_MS_MAX);
    assert_int_equal(lw__now(clock),
                     FIRST + LW__NS_PER_MS + (uint64_t)LW_TIMEOUT_MS_MAX * LW__NS_PER_MS);
    lw_test_clock_close(clock);
}

TEST(an_advance_wakes_exactly_those_that_are_due) {
    struct tally awake[3] = {TALLY, TALLY, TALLY};
    struct sleeper sleepers[6];
    lw_clock *clock = open_clock();
    for (int i = 0; i < 6; i++)
        begin_sleep(&sleepers[i], clock, 10 * (1 + i % 3), &awake[i % 3]);
    await_sleepers(clock, 6);
    advance(clock, 9);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(tally_read(&awake[i]), 0);
        advance(clock, 1);
        tally_await(&awake[i], 2);
        for (int later = i + 1; later < 3; later++)
            assert_int_equal(tally_read(&awake[later]), 0);
        await_sleepers(clock, 2 * (2 - i));
        advance(clock, 9);
    }
    for (int i = 0; i < 6; i++)
        join_thread(sleepers[i].thread);
    lw_test_clock_close(clock);
}

TEST(after_an_advance_nobody_who_was_due_counts_as_a_sleeper) {
    for (int round = 0; round < test_scale(200, 10000); round++) {
        struct tally awake = TALLY;
        struct sleeper sleepers[2];
        lw_clock *clock = open_clock();
        for (int i = 0; i < 2; i++)
            begin_sleep(&sleepers[i], clock, 5, &awake);
        await_sleepers(clock, 2);
        advance(clock, 5);
        assert_status(lw_test_clock_await_sleepers(clock, 1, 0), LW_ETIMEDOUT);
        for (int i = 0; i < 2; i++)
            join_thread(sleepers[i].thread);
        lw_test_clock_close(clock);
    }
}

TEST(an_advance_while_a_thread_falls_asleep_is_never_missed) {
    for (int round = 0; round < test_scale(500, 50000); round++) {
        struct tally awake = TALLY;
        struct sleeper sleeper;
        lw_clock *clock = open_clock();
        begin_sleep(&sleeper, clock, 1, &awake);
        advance(clock, 1); /* before, while or after it lies down */
        join_thread(sleeper.thread);
        lw_test_clock_close(clock);
    }
}

TEST(a_sleeper_on_a_test_clock_can_be_woken_before_its_time) {
    struct tally awake = TALLY;
    struct sleeper timed, untimed;
    lw_clock *clock = open_clock();
    begin_sleep(&timed, clock, 1000, &awake);
    begin_sleep(&untimed, clock, -1, &awake);
    await_sleepers(clock, 1);
    wake(&timed);
    wake(&untimed);
    join_thread(timed.thread);
    join_thread(untimed.thread);
    assert_int_equal(lw__now(clock), FIRST);
    lw_test_clock_close(clock);
}

TEST(who_waits_for_an_event_alone_is_no_sleeper) {
    struct tally awake = TALLY;
    struct sleeper untimed;
    lw_clock *clock = open_clock();
    begin_sleep(&untimed, clock, -1, &awake);
    assert_status(lw_test_clock_await_sleepers(clock, 1, 10), LW_ETIMEDOUT);
    advance(clock, LW_TIMEOUT_MS_MAX);
    assert_int_equal(tally_read(&awake), 0);
    wake(&untimed);
    join_thread(untimed.thread);
    lw_test_clock_close(clock);
}

TEST(a_wait_for_a_moment_that_has_passed_returns_at_once) {
    _Atomic uint32_t word = 0;
    lw_clock *clock = open_clock();
    clock->wait(clock, &word, 0, lw__now(clock));
    clock->wait(clock, &word, 0, 0);
    clock->wait(clock, &word, 1, lw__now(clock) + 1); /* not what the word says */
    lw_test_clock_close(clock);
}

TEST(awaiting_sleepers_gives_up_in_time) {
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_await_sleepers(clock, 0, 0), LW_OK);
    assert_status(lw_test_clock_await_sleepers(clock, 0, -1), LW_OK);
    assert_status(lw_test_clock_await_sleepers(clock, 1, 0), LW_ETIMEDOUT);
    assert_status(lw_test_clock_await_sleepers(clock, 1, 5), LW_ETIMEDOUT);
    lw_test_clock_close(clock);
}

static void *advance_often(void *clock) {
    for (int i = 0; i < 1000; i++)
        advance(clock, 3);
    return NULL;
}

TEST(several_threads_may_advance_one_clock) {
    pthread_t threads[3];
    lw_clock *clock = open_clock();
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(advance_often, clock);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
    assert_int_equal(lw__now(clock), FIRST + 9000 * LW__NS_PER_MS);
    lw_test_clock_close(clock);
}

TEST(a_clock_is_not_moved_by_nonsense) {
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_advance(clock, -1), LW_EINVAL);
    assert_status(lw_test_clock_advance(clock, INT64_MIN), LW_EINVAL);
    assert_status(lw_test_clock_advance(clock, INT64_MAX), LW_EINVAL);
    assert_status(lw_test_clock_advance(NULL, 1), LW_EINVAL);
    assert_status(lw_test_clock_advance(lw__clock_system(), 1), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(NULL, 0, 0), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(lw__clock_system(), 0, 0), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(clock, -1, 0), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(clock, 0, -2), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(clock, 0, INT64_MIN), LW_EINVAL);
    assert_status(lw_test_clock_await_sleepers(clock, 0, INT64_MAX), LW_EINVAL);
    assert_status(lw_test_clock_open(NULL), LW_EINVAL);
    assert_int_equal(lw__now(clock), FIRST);
    lw_test_clock_close(clock);
    lw_test_clock_close(NULL);
    lw_test_clock_close(lw__clock_system());
}

TEST(a_clock_never_goes_back_however_far_it_is_moved) {
    lw_clock *clock = open_clock();
    int refused = 0;
    uint64_t before = lw__now(clock);
    for (int i = 0; i < 200; i++) {
        int rc = lw_test_clock_advance(clock, LW_TIMEOUT_MS_MAX);
        CHECK(rc == LW_OK || rc == LW_EINVAL);
        refused += rc == LW_EINVAL;
        uint64_t now = lw__now(clock);
        assert_int_equal(now > before, rc == LW_OK);
        CHECK(now >= before && now < LW__NEVER);
        before = now;
    }
    CHECK(refused > 0);
    lw_test_clock_close(clock);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

TEST(a_deadline_is_so_far_from_now_and_saturates) {
    lw_clock *clock = open_clock();
    uint64_t now = FIRST, ms_max = (LW__NEVER - now) / LW__NS_PER_MS;
    assert_int_equal(lw__deadline_in(clock, 0), now);
    assert_int_equal(lw__deadline_in(clock, 7), now + 7 * LW__NS_PER_MS);
    assert_int_equal(lw__deadline_in(clock, LW_TIMEOUT_MS_MAX),
                     now + (uint64_t)LW_TIMEOUT_MS_MAX * LW__NS_PER_MS);
    assert_int_equal(lw__deadline_in(clock, (int64_t)ms_max), now + ms_max * LW__NS_PER_MS);
    assert_true(lw__deadline_in(clock, (int64_t)ms_max + 1) == LW__NEVER);
    assert_true(lw__deadline_in(clock, (int64_t)(LW__NEVER / LW__NS_PER_MS)) == LW__NEVER);
    assert_true(lw__deadline_in(clock, (int64_t)(LW__NEVER / LW__NS_PER_MS) + 1) == LW__NEVER);
    assert_true(lw__deadline_in(clock, INT64_MAX) == LW__NEVER);
    assert_true(lw__deadline_in(clock, -1) == LW__NEVER);
    assert_true(lw__deadline_in(clock, INT64_MIN) == LW__NEVER);
    lw_test_clock_close(clock);
}

/* ---- the system's clock -------------------------------------------------------------------- */

TEST(the_systems_clock_goes_on_and_never_back) {
    lw_clock *clock = lw__clock_system();
    assert_true(clock->is_real);
    uint64_t before = lw__now(clock), first = before;
    do {
        uint64_t now = lw__now(clock);
        CHECK(now >= before);
        before = now;
    } while (before < first + LW__NS_PER_MS);
}

TEST(a_sleep_on_the_systems_clock_ends_by_itself_or_by_a_wake) {
    struct tally awake = TALLY;
    struct sleeper timed, untimed;
    begin_sleep(&timed, lw__clock_system(), 2, &awake);
    begin_sleep(&untimed, lw__clock_system(), -1, &awake);
    join_thread(timed.thread);
    CHECK(lw__now(lw__clock_system()) >= timed.deadline);
    assert_int_equal(tally_read(&awake), 1);
    wake(&untimed);
    join_thread(untimed.thread);
}

TEST(the_systems_wall_clock_shows_the_time_of_day) {
    struct timespec before, after;
    clock_gettime(CLOCK_REALTIME, &before);
    int64_t ms = lw__wall_ms(lw__clock_system());
    clock_gettime(CLOCK_REALTIME, &after);
    CHECK(ms >= before.tv_sec * 1000 + before.tv_nsec / 1000000);
    CHECK(ms <= after.tv_sec * 1000 + after.tv_nsec / 1000000);
}

/* ---- the wall clock of a test -------------------------------------------------------------- */

#define Y2000 INT64_C(946684800000)
#define Y9999_END INT64_C(253402300799999)

TEST(a_test_wall_clock_shows_2000_and_what_was_advanced) {
    lw_clock *clock = open_clock();
    assert_int_equal(lw__wall_ms(clock), Y2000);
    advance(clock, 1);
    assert_int_equal(lw__wall_ms(clock), Y2000 + 1);
    advance(clock, LW_TIMEOUT_MS_MAX);
    assert_int_equal(lw__wall_ms(clock), Y2000 + 1 + LW_TIMEOUT_MS_MAX);
    lw_test_clock_close(clock);
}

TEST(a_test_wall_clock_goes_on_from_what_it_was_set_to_forward_or_back) {
    static const int64_t times[] = {Y2000 + 86400000, 1, Y2000 - 5, 0, Y9999_END, Y2000};
    lw_clock *clock = open_clock();
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        uint64_t now = lw__now(clock);
        assert_status(lw_test_clock_set_wall(clock, times[i]), LW_OK);
        assert_int_equal(lw__wall_ms(clock), times[i]);
        assert_int_equal(lw__now(clock), now);
        advance(clock, 7000);
        assert_int_equal(lw__wall_ms(clock), times[i] + 7000);
        assert_int_equal(lw__now(clock), now + 7 * LW__NS_PER_S);
    }
    lw_test_clock_close(clock);
}

TEST(setting_the_wall_clock_wakes_nobody) {
    struct tally awake = TALLY;
    struct sleeper sleeper;
    lw_clock *clock = open_clock();
    begin_sleep(&sleeper, clock, 1000, &awake);
    await_sleepers(clock, 1);
    assert_status(lw_test_clock_set_wall(clock, Y2000 + 3600000), LW_OK);
    assert_int_equal(tally_read(&awake), 0);
    assert_status(lw_test_clock_await_sleepers(clock, 1, 0), LW_OK);
    advance(clock, 1000);
    join_thread(sleeper.thread);
    lw_test_clock_close(clock);
}

TEST(a_test_wall_clock_is_not_set_to_nonsense) {
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_set_wall(clock, -1), LW_EINVAL);
    assert_status(lw_test_clock_set_wall(clock, INT64_MIN), LW_EINVAL);
    assert_status(lw_test_clock_set_wall(clock, Y9999_END + 1), LW_EINVAL);
    assert_status(lw_test_clock_set_wall(clock, INT64_MAX), LW_EINVAL);
    assert_status(lw_test_clock_set_wall(NULL, Y2000), LW_EINVAL);
    assert_status(lw_test_clock_set_wall(lw__clock_system(), Y2000), LW_EINVAL);
    assert_int_equal(lw__wall_ms(clock), Y2000);
    lw_test_clock_close(clock);
}

TEST(the_wall_clock_moves_with_the_clock_to_its_very_end) {
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_set_wall(clock, Y9999_END), LW_OK);
    int64_t before = lw__wall_ms(clock);
    while (lw_test_clock_advance(clock, LW_TIMEOUT_MS_MAX) == LW_OK) {
        assert_int_equal(lw__wall_ms(clock), before + LW_TIMEOUT_MS_MAX);
        before += LW_TIMEOUT_MS_MAX;
    }
    assert_status(lw_test_clock_set_wall(clock, 0), LW_OK);
    assert_int_equal(lw__wall_ms(clock), 0);
    lw_test_clock_close(clock);
}

static void *set_wall_often(void *clock) {
    for (int i = 0; i < 1000; i++) {
        assert_status(lw_test_clock_set_wall(clock, Y2000 + i), LW_OK);
        CHECK(lw__wall_ms(clock) >= Y2000);
    }
    return NULL;
}

TEST(the_wall_clock_may_be_set_read_and_moved_at_once) {
    lw_clock *clock = open_clock();
    pthread_t setter = start_thread(set_wall_often, clock);
    pthread_t mover = start_thread(advance_often, clock);
    join_thread(setter);
    join_thread(mover);
    assert_int_equal(lw__now(clock), FIRST + 3000 * LW__NS_PER_MS);
    int64_t wall = lw__wall_ms(clock);
    CHECK(wall >= Y2000 + 999 && wall <= Y2000 + 999 + 3000);
    lw_test_clock_close(clock);
}

/* ---- a pool on a test clock ---------------------------------------------------------------- */

/* Spinning is measured in time, of which none passes here. */
TEST(a_worker_without_work_sleeps_even_where_time_stands_still) {
    struct tally runs = TALLY;
    lw_clock *clock = open_clock();
    lw_pool *pool =
        OPEN_POOL(.min_workers = LW_ZERO, .max_workers = 1, .idle_ms = 1000, .clock = clock);
    assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    await_sleepers(clock, 1);
    assert_int_equal(stats_of(pool).workers, 1);
    advance(clock, 1000);
    await_that(stats_of(pool).workers == 0);
    close_pool(pool);
    lw_test_clock_close(clock);
}

static void *submit_one(void *pool) {
    assert_status(lw_pool_submit(pool, tally_task, NULL), LW_ETIMEDOUT);
    return NULL;
}

TEST(a_submitter_without_room_sleeps_even_where_time_stands_still) {
    struct gate gate = GATE;
    struct tally runs = TALLY;
    lw_clock *clock = open_clock();
    lw_pool *pool =
        OPEN_POOL(.min_workers = 1, .queue_limit = 1, .submit_timeout_ms = 1000, .clock = clock);
    for (int i = 0; i < 200; i++) /* they take no time at all: the pool takes them for short */
        assert_status(lw_pool_run(pool, tally_task, &runs), LW_OK);
    occupy(pool, &gate, 1);
    submit_times(pool, tally_task, &runs, 1);
    pthread_t submitter = start_thread(submit_one, pool);
    await_sleepers(clock, 1);
    advance(clock, 1000);
    join_thread(submitter);
    gate_open(&gate);
    close_pool(pool);
    lw_test_clock_close(clock);
}

/* ---- wall time beside the clock ------------------------------------------------------------- */

static uint64_t shown_ns = 1000 * LW__NS_PER_MS;
static int lost_cores;

static uint64_t show_ns(lw_clock *clock) {
    (void)clock;
    return shown_ns;
}

/* For a while the thread loses its core right after it has looked. */
static int64_t show_wall_ms(lw_clock *clock) {
    (void)clock;
    int64_t wall = 5000 + (int64_t)(shown_ns / LW__NS_PER_MS);
    if (lost_cores-- > 0)
        shown_ns += 70 * LW__NS_PER_MS;
    return wall;
}

TEST(the_offset_of_the_wall_clock_is_that_of_one_moment) {
    lw_clock clock = {.now = show_ns, .wall_ms = show_wall_ms};
    for (lost_cores = 0; lost_cores < 10;) {
        int lost = lost_cores;
        assert_int_equal(lw__wall_offset_ms(&clock), 5000);
        lost_cores = lost + 1;
    }
}

/* However long the thread is held up between two looks. */
TEST(the_offset_of_the_system_is_wall_time_minus_now) {
    lw_clock *clock = lw__clock_system();
    int64_t before_ms = (int64_t)(lw__now(clock) / LW__NS_PER_MS);
    int64_t wall_before_ms = lw__wall_ms(clock);
    int64_t offset_ms = lw__wall_offset_ms(clock);
    int64_t wall_after_ms = lw__wall_ms(clock);
    int64_t after_ms = (int64_t)(lw__now(clock) / LW__NS_PER_MS);
    assert_true(offset_ms >= wall_before_ms - after_ms - 1);
    assert_true(offset_ms <= wall_after_ms - before_ms + 1);
}
