/* Timers fire in order, never early and never forgotten, and cost nothing while they wait. */
#include "test.h"

#include "base/random.h"
#include "base/timer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS LW__TIMER_TICK_NS
#define S (1000 * MS)
#define HOUR (3600 * S)
#define YEAR (365 * 24 * HOUR)

static struct lw__timer_wheel wheel;

_Static_assert(sizeof(struct lw__timer) <= 32, "a timer is small");
_Static_assert(sizeof(struct lw__timer) + 2 * sizeof(void *) <= 48, "a delayed call is, too");

TEST(a_timer_fires_at_its_time_and_not_before) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 10 * MS);
    lw__timer_set(&wheel, &timer, 15 * MS);
    assert_true(lw__timer_is_set(&timer));
    assert_int_equal(lw__timer_next_due(&wheel), 15 * MS);
    assert_null(lw__timer_pop(&wheel, 15 * MS - 1));
    assert_ptr_equal(lw__timer_pop(&wheel, 15 * MS), &timer);
    assert_false(lw__timer_is_set(&timer));
    assert_null(lw__timer_pop(&wheel, 15 * MS));
}

TEST(a_time_between_two_ticks_is_rounded_up) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 0);
    lw__timer_set(&wheel, &timer, 5 * MS + 1);
    assert_int_equal(lw__timer_next_due(&wheel), 6 * MS);
    assert_null(lw__timer_pop(&wheel, 6 * MS - 1));
    assert_ptr_equal(lw__timer_pop(&wheel, 6 * MS), &timer);
}

TEST(a_time_that_has_passed_fires_at_once) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 100 * S);
    lw__timer_set(&wheel, &timer, 0);
    assert_true(lw__timer_next_due(&wheel) <= 100 * S);
    assert_ptr_equal(lw__timer_pop(&wheel, 100 * S), &timer);
    assert_null(lw__timer_pop(&wheel, 200 * S));
    lw__timer_set(&wheel, &timer, 150 * S);
    assert_ptr_equal(lw__timer_pop(&wheel, 200 * S), &timer);
}

TEST(without_timers_nothing_is_ever_due) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 7 * S);
    assert_int_equal(lw__timer_next_due(&wheel), UINT64_MAX);
    lw__timer_set(&wheel, &timer, 3 * HOUR);
    assert_true(lw__timer_cancel(&wheel, &timer));
    assert_int_equal(lw__timer_next_due(&wheel), UINT64_MAX);
    assert_null(lw__timer_pop(&wheel, YEAR));
}

TEST(cancelling_says_whether_the_timer_was_set) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 0);
    assert_false(lw__timer_cancel(&wheel, &timer));
    lw__timer_set(&wheel, &timer, 1 * S);
    assert_true(lw__timer_cancel(&wheel, &timer));
    assert_false(lw__timer_cancel(&wheel, &timer));
    lw__timer_set(&wheel, &timer, 1 * S);
    assert_ptr_equal(lw__timer_pop(&wheel, 1 * S), &timer);
    assert_false(lw__timer_cancel(&wheel, &timer));
    assert_int_equal(wheel.count, 0);
}

TEST(a_timer_can_be_set_again_as_soon_as_it_has_fired) {
    struct lw__timer timer = {0};
    lw__timer_init(&wheel, 0);
    lw__timer_set(&wheel, &timer, 0);
    for (uint64_t i = 0; i < 10000; i++) {
        assert_ptr_equal(lw__timer_pop(&wheel, i * 7 * MS), &timer);
        lw__timer_set(&wheel, &timer, (i + 1) * 7 * MS);
        assert_null(lw__timer_pop(&wheel, i * 7 * MS));
    }
}

/* Sleeps until the wheel asks for it, again and again, until the timer fires. */
static int wakes_until_fired(uint64_t start, uint64_t due) {
    struct lw__timer timer = {0};
    int wakes = 0;
    lw__timer_init(&wheel, start);
    lw__timer_set(&wheel, &timer, due);
    for (uint64_t now = start;; wakes++) {
        uint64_t next = lw__timer_next_due(&wheel);
        assert_true(next > now && next <= due);
        now = next;
        if (lw__timer_pop(&wheel, now) == NULL)
            continue;
        assert_int_equal(now, due);
        return wakes;
    }
}

TEST(a_far_timer_wakes_its_owner_a_few_times_only) {
    struct lw__random random;
    lw__random_seed(&random, 5);
    for (int i = 0; i < 20000; i++) {
        uint64_t start = lw__random_below(&random, YEAR) / MS * MS;
        uint64_t hours = lw__random_below(&random, 4 * HOUR) / MS * MS;
        uint64_t years = lw__random_below(&random, 500 * YEAR) / MS * MS;
        assert_true(wakes_until_fired(start, start + MS + years) <= 7);
        assert_true(wakes_until_fired(start, start + MS + hours) <= 4);
    }
}

TEST(the_end_of_the_clock_is_never_reached) {
    struct lw__timer never = {0}, last = {0};
    lw__timer_init(&wheel, 1 * S);
    lw__timer_set(&wheel, &never, UINT64_MAX);
    assert_true(lw__timer_next_due(&wheel) > 100 * YEAR);
    assert_null(lw__timer_pop(&wheel, 584 * YEAR));
    lw__timer_set(&wheel, &last, UINT64_MAX / MS * MS);
    while (lw__timer_next_due(&wheel) != UINT64_MAX)
        if (lw__timer_pop(&wheel, UINT64_MAX) != NULL)
            assert_false(lw__timer_is_set(&last));
    assert_false(lw__timer_is_set(&last));
    assert_true(lw__timer_is_set(&never));
    assert_null(lw__timer_pop(&wheel, UINT64_MAX));
    assert_true(lw__timer_cancel(&wheel, &never));
}

/* Two threads may read the clock in one order and get the lock in the other. */
TEST(an_older_reading_of_the_clock_fires_nothing_early) {
    struct lw__timer one = {0}, two = {0};
    lw__timer_init(&wheel, 0);
    lw__timer_set(&wheel, &one, 100 * MS);
    assert_ptr_equal(lw__timer_pop(&wheel, 200 * MS), &one);
    assert_null(lw__timer_pop(&wheel, 200 * MS));
    lw__timer_set(&wheel, &two, 150 * MS); /* counts as 200 */
    assert_null(lw__timer_pop(&wheel, 199 * MS));
    assert_ptr_equal(lw__timer_pop(&wheel, 200 * MS), &two);
    lw__timer_set(&wheel, &one, 210 * MS);
    assert_null(lw__timer_pop(&wheel, 10 * MS));
    assert_null(lw__timer_pop(&wheel, 209 * MS));
    assert_ptr_equal(lw__timer_pop(&wheel, 210 * MS), &one);
}

TEST(a_crowded_slot_is_sorted_in_portions) {
    enum { COUNT = 100000, PORTION = 512 };
    static struct lw__timer timers[COUNT];
    struct lw__random random;
    lw__random_seed(&random, 6);
    lw__timer_init(&wheel, 0);
    for (int i = 0; i < COUNT; i++) /* in one slot of the third level: ticks 4096 to 8191 */
        lw__timer_set(&wheel, &timers[i], 5000 * MS + lw__random_below(&random, 3000 * MS));

    int pauses = 0;
    struct lw__timer *first;
    while ((first = lw__timer_pop(&wheel, 10 * S)) == NULL) {
        assert_true(lw__timer_next_due(&wheel) <= 10 * S); /* or the owner would fall asleep */
        pauses++;
    }
    assert_int_equal(first->tick, 5001);
    assert_true(pauses >= COUNT / PORTION);
    assert_int_equal(wheel.count, COUNT - 1);
}

TEST(cancelling_all_of_a_crowded_slot_in_the_middle_of_sorting_leaves_the_wheel_sound) {
    enum { COUNT = 5000 };
    static struct lw__timer timers[COUNT];
    for (int keep = 0; keep < 2; keep++) {
        lw__timer_init(&wheel, 0);
        for (int i = 0; i < COUNT; i++)
            lw__timer_set(&wheel, &timers[i], 5 * S);
        assert_null(lw__timer_pop(&wheel, 6 * S));
        for (int i = keep; i < COUNT; i++)
            assert_true(lw__timer_cancel(&wheel, &timers[i]));
        if (keep)
            assert_ptr_equal(lw__timer_pop(&wheel, 6 * S), &timers[0]);
        assert_int_equal(lw__timer_next_due(&wheel), UINT64_MAX);
        assert_null(lw__timer_pop(&wheel, 6 * S));
        lw__timer_set(&wheel, &timers[1], 7 * S);
        assert_true(lw__timer_next_due(&wheel) > 6 * S);
        assert_null(lw__timer_pop(&wheel, 7 * S - 1));
        assert_ptr_equal(lw__timer_pop(&wheel, 7 * S), &timers[1]);
    }
}

/* ---- random use against a plain model ---- */

enum { TIMERS = 4000 };

/* What is known about a timer without knowing how the wheel works. */
struct model {
    struct lw__timer timer;
    uint64_t due; /* while set */
    bool is_set;
};

static struct {
    uint64_t seed;
    struct lw__random random;
    unsigned span_bits; /* of the longest span, in nanoseconds */
    uint64_t now;
    uint64_t last_tick; /* that fired */
    size_t set_count;
    struct model timers[TIMERS];
} run;

/* An assertion that tells how to see its failure again. */
#define AGREE(condition) ((condition) ? (void)0 : disagree(#condition, __LINE__))

static _Noreturn void disagree(const char *condition, int line) {
    fprintf(stderr, "LW_SEED=%" PRIu64 " makes it fail\n", run.seed);
    test_check_failed(condition, __FILE__, line);
}

static uint64_t below(uint64_t bound) {
    return lw__random_below(&run.random, bound);
}

static uint64_t tick_of(uint64_t due) {
    return due / MS + (due % MS != 0);
}

/* All magnitudes are equally likely. */
static uint64_t random_span(void) {
    return below(UINT64_C(1) << (1 + below(run.span_bits)));
}

static struct model *random_timer(void) {
    return &run.timers[below(TIMERS)];
}

static void set_one(uint64_t due) {
    struct model *model = random_timer();
    if (model->is_set)
        return;
    lw__timer_set(&wheel, &model->timer, due);
    model->due = due;
    model->is_set = true;
    run.set_count++;
    /* A time that has passed is moved up, but not past the present. */
    uint64_t latest = tick_of(due) > run.now / MS ? tick_of(due) : run.now / MS;
    AGREE(model->timer.tick >= tick_of(due) && model->timer.tick <= latest);
}

static void set_some(void) {
    uint64_t span = random_span();
    if (below(10) == 0)
        set_one(span < run.now ? run.now - span : 0);
    else
        set_one(run.now + span);
}

/* Many within a short time and far away, so that slots get crowded. */
static void set_burst(void) {
    uint64_t start = run.now + random_span(), width = random_span() / 64 + 1;
    for (int i = 0; i < 3000; i++)
        set_one(start + below(width));
}

static void cancel_some(void) {
    struct model *model = random_timer();
    AGREE(lw__timer_is_set(&model->timer) == model->is_set);
    AGREE(lw__timer_cancel(&wheel, &model->timer) == model->is_set);
    run.set_count -= model->is_set;
    model->is_set = false;
}

static void fire(struct lw__timer *timer, uint64_t now) {
    struct model *model = LW__TIMER_OWNER(timer, struct model, timer);
    AGREE(model->is_set);
    AGREE(model->due <= now);            /* never early */
    AGREE(timer->tick >= run.last_tick); /* in order */
    run.last_tick = timer->tick;
    model->is_set = false;
    run.set_count--;
}

static uint64_t earliest_tick(void) {
    uint64_t earliest = UINT64_MAX;
    for (int i = 0; i < TIMERS; i++)
        if (run.timers[i].is_set && tick_of(run.timers[i].due) < earliest)
            earliest = tick_of(run.timers[i].due);
    return earliest;
}

/* Moves time on by a random step, or to the moment that the wheel asks for. */
static void move_clock(void) {
    uint64_t next = lw__timer_next_due(&wheel), span = random_span();
    if (below(2) == 0)
        run.now += span;
    else if (next != UINT64_MAX && next > run.now)
        run.now = next;
}

/* Fires what is due, while others set and cancel in between. */
static void fire_all(void) {
    struct lw__timer *timer;
    do {
        /* Someone may have read the clock a while ago. */
        uint64_t older = run.now - (below(10) == 0 ? below(run.now + 1) : 0);
        while ((timer = lw__timer_pop(&wheel, older)) != NULL) {
            fire(timer, older);
            if (below(20) == 0)
                set_some();
        }
        set_some();
        cancel_some();
    } while (lw__timer_next_due(&wheel) <= run.now);

    uint64_t earliest = earliest_tick();
    AGREE(wheel.count == run.set_count);
    AGREE(earliest > run.now / MS); /* none was forgotten */
    AGREE(earliest == UINT64_MAX || lw__timer_next_due(&wheel) <= earliest * MS); /* or will be */
}

static void run_model(uint64_t seed) {
    memset(&run, 0, sizeof run);
    run.seed = seed;
    lw__random_seed(&run.random, seed);
    run.span_bits = 22 + (unsigned)below(40); /* 4 ms to 73 years */
    run.now = random_span();
    lw__timer_init(&wheel, run.now);
    for (int i = 0; i < 2000 && run.now < 400 * YEAR; i++) {
        uint64_t choice = below(1000);
        if (choice < 5)
            set_burst();
        else if (choice < 600)
            set_some();
        else if (choice < 800)
            cancel_some();
        else {
            move_clock();
            fire_all();
        }
    }
}

TEST(random_use_agrees_with_a_plain_model) {
    const char *given = getenv("LW_SEED");
    uint64_t first = given != NULL ? strtoull(given, NULL, 10) : 1;
    uint64_t last = given != NULL ? first : (uint64_t)test_scale(200, 20000);
    printf("LW_SEED=%" PRIu64 " to %" PRIu64 "\n", first, last);
    for (uint64_t seed = first; seed <= last; seed++)
        run_model(seed);
}
