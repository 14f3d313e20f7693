/* The parking lot: addressed wakes, the newest or the oldest, and none of them lost. */
#include "pools.h"

#include "base/lot.h"

#include <sched.h>

/* ---- in one thread: who is chosen ----------------------------------------------------------- */

static bool is_woken(struct lw__waiter *w) {
    return atomic_load(&w->is_woken) != 0;
}

/* Whether exactly the waiters of `wanted`, one letter each, have been woken. */
static bool woken_are(struct lw__waiter *waiters, const char *wanted) {
    for (int i = 0; wanted[i]; i++)
        if (is_woken(&waiters[i]) != (wanted[i] != '-'))
            return false;
    return true;
}

static void enter_all(struct lw__lot *lot, struct lw__waiter *waiters, int count) {
    for (int i = 0; i < count; i++) {
        lw__lot_enter(lot, &waiters[i]);
        assert_int_equal(lw__lot_count(lot), i + 1);
    }
}

TEST(the_newest_is_the_one_who_came_last) {
    struct lw__lot lot;
    struct lw__waiter w[3] = {0};
    lw__lot_init(&lot);
    enter_all(&lot, w, 3);
    assert_true(lw__lot_wake_newest(&lot));
    assert_true(woken_are(w, "--c"));
    assert_true(lw__lot_wake_newest(&lot));
    assert_true(woken_are(w, "-bc"));
    assert_int_equal(lw__lot_count(&lot), 1);
    assert_true(lw__lot_wake_newest(&lot));
    assert_false(lw__lot_wake_newest(&lot));
    assert_int_equal(lw__lot_count(&lot), 0);
    lw__lot_free(&lot);
}

TEST(the_oldest_is_the_one_who_came_first) {
    struct lw__lot lot;
    struct lw__waiter w[3] = {0};
    lw__lot_init(&lot);
    enter_all(&lot, w, 3);
    assert_true(lw__lot_wake_oldest(&lot));
    assert_true(woken_are(w, "a--"));
    assert_true(lw__lot_wake_oldest(&lot));
    assert_true(woken_are(w, "ab-"));
    assert_true(lw__lot_wake_oldest(&lot));
    assert_false(lw__lot_wake_oldest(&lot));
    assert_int_equal(lw__lot_count(&lot), 0);
    lw__lot_free(&lot);
}

TEST(a_certain_one_can_be_woken_from_anywhere_in_the_lot) {
    for (int chosen = 0; chosen < 3; chosen++) {
        struct lw__lot lot;
        struct lw__waiter w[3] = {0};
        lw__lot_init(&lot);
        enter_all(&lot, w, 3);
        lw__lot_wake_this(&lot, &w[chosen]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(is_woken(&w[i]), i == chosen);
        lw__lot_wake_this(&lot, &w[chosen]); /* it is not there any more */
        assert_int_equal(lw__lot_count(&lot), 2);
        assert_true(lw__lot_wake_oldest(&lot));
        assert_true(is_woken(&w[chosen == 0 ? 1 : 0]));
        assert_true(lw__lot_wake_oldest(&lot));
        assert_true(woken_are(w, "abc"));
        lw__lot_free(&lot);
    }
}

TEST(waking_all_wakes_everyone_and_later_ones_not) {
    struct lw__lot lot;
    struct lw__waiter w[4] = {0};
    lw__lot_init(&lot);
    lw__lot_wake_all(&lot); /* nobody */
    enter_all(&lot, w, 3);
    lw__lot_wake_all(&lot);
    assert_int_equal(lw__lot_count(&lot), 0);
    lw__lot_enter(&lot, &w[3]);
    assert_true(woken_are(w, "abc-"));
    assert_true(lw__lot_leave(&lot, &w[3]));
    lw__lot_free(&lot);
}

TEST(who_leaves_is_not_woken_and_the_others_keep_their_order) {
    for (int leaver = 0; leaver < 3; leaver++) {
        struct lw__lot lot;
        struct lw__waiter w[3] = {0};
        lw__lot_init(&lot);
        enter_all(&lot, w, 3);
        assert_true(lw__lot_leave(&lot, &w[leaver]));
        assert_false(lw__lot_leave(&lot, &w[leaver]));
        assert_int_equal(lw__lot_count(&lot), 2);
        assert_true(lw__lot_wake_newest(&lot));
        assert_true(is_woken(&w[leaver == 2 ? 1 : 2]));
        assert_true(lw__lot_wake_newest(&lot));
        assert_false(is_woken(&w[leaver]));
        assert_false(lw__lot_wake_newest(&lot));
        lw__lot_free(&lot);
    }
}

TEST(who_was_woken_in_vain_keeps_its_turn) {
    struct lw__lot lot;
    struct lw__waiter w[3] = {0};
    lw__lot_init(&lot);
    enter_all(&lot, w, 3);
    assert_true(lw__lot_wake_oldest(&lot));
    lw__lot_enter_again(&lot, &w[0]);
    assert_true(woken_are(w, "---"));
    assert_int_equal(lw__lot_count(&lot), 3);
    assert_true(lw__lot_wake_oldest(&lot));
    assert_true(woken_are(w, "a--"));
    assert_true(lw__lot_wake_oldest(&lot));
    assert_true(woken_are(w, "ab-"));
    lw__lot_enter(&lot, &w[0]); /* afresh: at the end */
    assert_true(lw__lot_wake_oldest(&lot));
    assert_true(woken_are(w, "-bc"));
    assert_true(lw__lot_leave(&lot, &w[0]));
    lw__lot_enter_again(&lot, &w[1]); /* into an empty one */
    assert_true(lw__lot_wake_newest(&lot));
    assert_true(is_woken(&w[1]));
    lw__lot_free(&lot);
}

/* ---- a wake and a change of mind ------------------------------------------------------------ */

TEST(who_was_chosen_while_leaving_is_told) {
    struct lw__lot lot;
    struct lw__waiter me = {0};
    lw__lot_init(&lot);
    lw__lot_enter(&lot, &me);
    assert_true(lw__lot_wake_newest(&lot));
    assert_false(lw__lot_leave(&lot, &me));
    assert_true(
        lw__lot_wait(&lot, &me, lw__clock_system(), LW__NEVER)); /* would not sleep either */
    lw__lot_free(&lot);
}

TEST(a_wake_that_was_given_while_leaving_does_not_hit_the_next_sleep) {
    struct lw__lot lot;
    struct lw__waiter me = {0};
    lw_clock *clock = open_clock();
    lw__lot_init(&lot);
    lw__lot_enter(&lot, &me);
    assert_true(lw__lot_wake_newest(&lot));
    assert_false(lw__lot_leave(&lot, &me));
    lw__lot_enter(&lot, &me);
    assert_false(lw__lot_wait(&lot, &me, clock, lw__now(clock)));
    lw__lot_enter_again(&lot, &me);
    assert_false(lw__lot_wait(&lot, &me, clock, lw__now(clock)));
    assert_int_equal(lw__lot_count(&lot), 0);
    lw__lot_free(&lot);
    lw_test_clock_close(clock);
}

/* Somebody enters and leaves all the time, with one waiter, while others wake. Every wake is
 * accounted for: the leaver is told of each that was given, and a sleep that follows it at once is
 * never ended by one of them. A mark that was set after the lock was released did that. */
struct waverer {
    struct lw__lot lot;
    _Atomic long wakes_given;
    _Atomic bool is_over;
    long wakes_got;
};

static void *wake_often(void *arg) {
    struct waverer *w = arg;
    while (!atomic_load(&w->is_over)) {
        if (lw__lot_count(&w->lot) > 0 && lw__lot_wake_newest(&w->lot))
            atomic_fetch_add(&w->wakes_given, 1);
        else
            sched_yield();
    }
    return NULL;
}

TEST(every_wake_given_to_one_who_leaves_is_reported_and_none_comes_late) {
    struct waverer w = {.wakes_given = 0};
    struct lw__waiter me = {0};
    pthread_t wakers[2];
    lw__lot_init(&w.lot);
    for (int i = 0; i < 2; i++)
        wakers[i] = start_thread(wake_often, &w);
    long rounds = test_scale(50000, 5000000);
    for (long round = 0; round < rounds || w.wakes_got < rounds / 100; round++) {
        lw__lot_enter(&w.lot, &me);
        if (round % 16 == 0)
            sched_yield(); /* so that a waker gets its chance */
        bool must_wait = round % 2 == 0;
        bool has_left = !must_wait && lw__lot_leave(&w.lot, &me);
        if (must_wait)
            assert_true(lw__lot_wait(&w.lot, &me, lw__clock_system(), LW__NEVER));
        w.wakes_got += !has_left;
        CHECK(is_woken(&me) == !has_left);
    }
    atomic_store(&w.is_over, true);
    for (int i = 0; i < 2; i++)
        join_thread(wakers[i]);
    assert_int_equal(w.wakes_got, atomic_load(&w.wakes_given));
    lw__lot_free(&w.lot);
}

/* ---- sleeping ------------------------------------------------------------------------------ */

/* Sleeps in a lot, and says how it ended. */
struct guest {
    struct lw__lot *lot;
    struct lw__waiter me;
    lw_clock *clock;
    uint64_t deadline;
    bool was_woken;
    struct tally *up;
    pthread_t thread;
};

static void *run_guest(void *arg) {
    struct guest *g = arg;
    g->was_woken = lw__lot_wait(g->lot, &g->me, g->clock, g->deadline);
    tally_add(g->up, 1);
    return NULL;
}

static void begin_guest(struct guest *g, struct lw__lot *lot, lw_clock *clock, int64_t ms,
                        struct tally *up) {
    *g = (struct guest){
        .lot = lot, .clock = clock, .deadline = lw__deadline_in(clock, ms), .up = up};
    lw__lot_enter(lot, &g->me);
    g->thread = start_thread(run_guest, g);
}

TEST(exactly_the_chosen_sleeper_wakes_up) {
    struct lw__lot lot;
    struct guest guests[4];
    struct tally up[4] = {TALLY, TALLY, TALLY, TALLY};
    lw__lot_init(&lot);
    for (int i = 0; i < 4; i++)
        begin_guest(&guests[i], &lot, lw__clock_system(), -1, &up[i]);
    assert_true(lw__lot_wake_newest(&lot));
    tally_await(&up[3], 1);
    assert_true(lw__lot_wake_oldest(&lot));
    tally_await(&up[0], 1);
    assert_int_equal(tally_read(&up[1]) + tally_read(&up[2]), 0);
    lw__lot_wake_this(&lot, &guests[2].me);
    tally_await(&up[2], 1);
    assert_int_equal(tally_read(&up[1]), 0);
    lw__lot_wake_all(&lot);
    for (int i = 0; i < 4; i++) {
        join_thread(guests[i].thread);
        assert_true(guests[i].was_woken);
    }
    lw__lot_free(&lot);
}

TEST(at_its_deadline_a_sleeper_leaves_the_lot) {
    struct lw__lot lot;
    struct guest early, late, never;
    struct tally up[3] = {TALLY, TALLY, TALLY};
    lw_clock *clock = open_clock();
    lw__lot_init(&lot);
    begin_guest(&early, &lot, clock, 10, &up[0]);
    begin_guest(&late, &lot, clock, 20, &up[1]);
    begin_guest(&never, &lot, clock, -1, &up[2]);
    await_sleepers(clock, 2);
    advance(clock, 9);
    assert_int_equal(lw__lot_count(&lot), 3);
    advance(clock, 1);
    join_thread(early.thread);
    assert_false(early.was_woken);
    assert_int_equal(lw__lot_count(&lot), 2);
    advance(clock, 10);
    join_thread(late.thread);
    assert_false(late.was_woken);
    advance(clock, LW_TIMEOUT_MS_MAX);
    assert_int_equal(tally_read(&up[2]), 0);
    assert_int_equal(lw__lot_count(&lot), 1);
    assert_true(lw__lot_wake_oldest(&lot));
    join_thread(never.thread);
    assert_true(never.was_woken);
    lw__lot_free(&lot);
    lw_test_clock_close(clock);
}

TEST(a_wake_before_the_deadline_wins_and_one_after_it_finds_nobody) {
    struct lw__lot lot;
    struct guest guest;
    struct tally up = TALLY;
    lw_clock *clock = open_clock();
    lw__lot_init(&lot);
    begin_guest(&guest, &lot, clock, 10, &up);
    await_sleepers(clock, 1);
    assert_true(lw__lot_wake_newest(&lot));
    advance(clock, 10);
    join_thread(guest.thread);
    assert_true(guest.was_woken);

    begin_guest(&guest, &lot, clock, 10, &up);
    await_sleepers(clock, 1);
    advance(clock, 10);
    join_thread(guest.thread);
    assert_false(guest.was_woken);
    assert_false(lw__lot_wake_newest(&lot));
    lw__lot_free(&lot);
    lw_test_clock_close(clock);
}

/* A wake that races a deadline is either had or still there to be given: never both, never
 * neither. */
struct racing_wake {
    struct lw__lot *lot;
    bool has_woken;
};

static void *race_wake(void *arg) {
    struct racing_wake *race = arg;
    race->has_woken = lw__lot_wake_newest(race->lot);
    return NULL;
}

TEST(a_wake_that_races_the_deadline_counts_once) {
    for (int round = 0; round < test_scale(500, 50000); round++) {
        struct lw__lot lot;
        struct guest guest;
        struct tally up = TALLY;
        struct racing_wake race = {.lot = &lot};
        lw_clock *clock = open_clock();
        lw__lot_init(&lot);
        begin_guest(&guest, &lot, clock, 1, &up);
        pthread_t waker = start_thread(race_wake, &race);
        advance(clock, 1);
        join_thread(waker);
        join_thread(guest.thread);
        assert_int_equal(guest.was_woken, race.has_woken);
        assert_int_equal(lw__lot_count(&lot), 0);
        lw__lot_free(&lot);
        lw_test_clock_close(clock);
    }
}

/* ---- no wake-up is lost -------------------------------------------------------------------- */

/* A producer makes items and wakes as lot.h says; consumers sleep when there are none. If a wake
 * were lost, a consumer would sleep for ever beside an item. */
struct market {
    struct lw__lot lot;
    _Atomic long items;
    _Atomic long sold;
    _Atomic bool is_over;
};

static bool buy(struct market *m) {
    long items = atomic_load(&m->items);
    while (items > 0)
        if (atomic_compare_exchange_weak(&m->items, &items, items - 1))
            return true;
    return false;
}

static void *consume(void *arg) {
    struct market *m = arg;
    for (;;) {
        if (buy(m)) {
            atomic_fetch_add(&m->sold, 1);
            continue;
        }
        struct lw__waiter me = {0};
        lw__lot_enter(&m->lot, &me);
        if (atomic_load(&m->is_over) && atomic_load(&m->items) == 0) {
            if (!lw__lot_leave(&m->lot, &me))
                lw__lot_wake_oldest(&m->lot); /* it was given for somebody who buys */
            return NULL;
        }
        if (atomic_load(&m->items) > 0)
            lw__lot_leave(&m->lot, &me);
        else
            lw__lot_wait(&m->lot, &me, lw__clock_system(), LW__NEVER);
    }
}

TEST(no_wake_up_is_lost) {
    struct market m = {.items = 0};
    pthread_t threads[3];
    long count = test_scale(50000, 5000000);
    lw__lot_init(&m.lot);
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(consume, &m);
    for (long i = 0; i < count; i++) {
        atomic_fetch_add(&m.items, 1);
        if (lw__lot_count(&m.lot) > 0)
            lw__lot_wake_newest(&m.lot);
        if (i % 7 == 0)
            await_that(atomic_load(&m.sold) == i + 1); /* now they fall asleep again */
    }
    await_that(atomic_load(&m.sold) == count);
    atomic_store(&m.is_over, true);
    lw__lot_wake_all(&m.lot);
    for (int i = 0; i < 3; i++)
        join_thread(threads[i]);
    assert_int_equal(lw__lot_count(&m.lot), 0);
    lw__lot_free(&m.lot);
}
