/* Times of an SQLite store over a restart: the system's clock begins anew with every boot, and the
 * wall clock may have been set meanwhile. */
#include "engines.h"
#include "own_sqlite.h"

#include <legwork/testing.h>
#include <stdio.h>
#include <string.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR };

static const int64_t begun = INT64_C(1700000000000); /* the wall time at the first boot */

/* A boot: the clock begins anew, and the wall clock shows this. */
static lw_clock *boot_at(int64_t wall_ms) {
    lw_clock *clock = open_clock();
    assert_status(lw_test_clock_set_wall(clock, wall_ms), LW_OK);
    return clock;
}

static lw_outcome take_a_minute_and_fail(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_ctx_sleep(ctx, MINUTE);
    return lw_fail(ctx, "no");
}

static lw_engine *open_at(lw_clock *clock, lw_handler run) {
    lw_engine *engine = OPEN_ON(URL, .workers = LW_ZERO, .clock = clock);
    if (run)
        handle(
            engine, "mail", run,
            LW_HANDLER_OPTIONS(.retry = {.min_ms = HOUR, .max_ms = HOUR, .jitter_percent = LW_ZERO},
                               .retention = {.failed_ms = -1, .aborted_ms = -1}));
    start(engine);
    return engine;
}

static void shut(lw_engine *engine, lw_clock *clock) {
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- how long ago the last commit was ------------------------------------------------------ */

static char page[64 << 10];
static size_t page_size;

static int append(void *user, const char *text, size_t size) {
    (void)user;
    CHECK(page_size + size < sizeof page);
    memcpy(page + page_size, text, size);
    page_size += size;
    page[page_size] = '\0';
    return LW_OK;
}

static void assert_commit_age(lw_engine *engine, int64_t ms, const char *seconds) {
    char line[80];
    lw_store_health health;
    page_size = 0;
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    assert_int_equal(health.commit_age_ms, ms);
    assert_status(lw_metrics_write(engine, append, NULL), LW_OK);
    snprintf(line, sizeof line, "\nlegwork_store_commit_age_seconds %s\n", seconds);
    CHECK(strstr(page, line) != NULL);
}

TEST(the_age_of_the_last_commit_is_that_on_the_clock) {
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, NULL);
    assert_int_equal(lw_test_advance(engine, 5 * SECOND), 0);
    assert_commit_age(engine, 5 * SECOND, "5.000000000"); /* since the open */
    SUBMIT(engine, .kind = "mail");
    assert_commit_age(engine, 0, "0.000000000");
    assert_int_equal(lw_test_advance(engine, 5 * SECOND + 1), 0);
    assert_commit_age(engine, 5 * SECOND + 1, "5.001000000");
    shut(engine, clock);
    engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_store_health health;
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    assert_int_equal(health.commit_age_ms, -1); /* in memory there is no disk */
    close_engine(engine);
}

/* ---- what has happened ---------------------------------------------------------------------- */

TEST(times_before_a_reboot_are_shown_as_they_were) {
    lw_snapshot after = LW_SNAPSHOT_INIT;
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, take_a_minute_and_fail);
    assert_true(lw_test_advance(engine, DAY) >= 0);
    lw_id id = SUBMIT(engine, .kind = "mail", .delay_ms = 5 * SECOND);
    assert_int_equal(lw_test_advance(engine, HOUR), 1);
    assert_int_equal(state_of(engine, id), LW_FAILED);
    shut(engine, clock);
    for (int boots = 1; boots <= 3; boots++) {
        clock = boot_at(begun + (30 * (int64_t)boots) * DAY);
        engine = open_at(clock, take_a_minute_and_fail);
        assert_status(lw_get(engine, id, &after), LW_OK);
        assert_int_equal(after.created_ms, begun + DAY);
        assert_int_equal(after.started_ms, begun + DAY + 5 * SECOND);
        assert_int_equal(after.ended_ms, begun + DAY + 65 * SECOND);
        assert_int_equal(after.errors[0].at_ms, begun + DAY + 65 * SECOND);
        shut(engine, clock);
    }
    lw_snapshot_clear(&after);
}

TEST(what_runs_after_a_reboot_keeps_the_times_that_it_had) {
    lw_snapshot seen = LW_SNAPSHOT_INIT;
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, do_retry);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    shut(engine, clock);
    clock = boot_at(begun + 30 * (int64_t)DAY);
    engine = open_at(clock, do_fail);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_get(engine, id, &seen), LW_OK);
    assert_int_equal(seen.state, LW_FAILED);
    shut(engine, clock);
    clock = boot_at(begun + 60 * (int64_t)DAY);
    engine = open_at(clock, do_fail);
    assert_status(lw_get(engine, id, &seen), LW_OK);
    assert_int_equal(seen.created_ms, begun);
    assert_int_equal(seen.error_count, 2);
    assert_int_equal(seen.errors[0].at_ms, begun);
    assert_int_equal(seen.errors[1].at_ms, begun + 30 * (int64_t)DAY);
    assert_int_equal(seen.ended_ms, begun + 30 * (int64_t)DAY);
    shut(engine, clock);
    lw_snapshot_clear(&seen);
}

/* ---- what is to come ------------------------------------------------------------------------ */

/* Nobody handles its kind: it waits. Returns what became of it after `ms` on a clock that shows
 * `wall_ms` at the next open, 20 s after the submit. */
static lw_state wait_over_restart(const lw_task *task, int64_t wall_ms, int64_t ms) {
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, NULL);
    lw_id id = submit(engine, task);
    assert_true(lw_test_advance(engine, 20 * SECOND) >= 0);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    shut(engine, clock);
    clock = boot_at(wall_ms);
    engine = open_at(clock, NULL);
    assert_true(lw_test_advance(engine, ms) >= 0);
    lw_state state = state_of(engine, id);
    shut(engine, clock);
    return state;
}

/* SOON: it may start, or finish, within a minute. */
static void assert_deadline_over_restarts(const lw_task *soon) {
    int64_t closed = begun + 20 * SECOND;
    /* The clock is right, and no time passes: the rest of the minute is left. */
    assert_int_equal(wait_over_restart(soon, closed, 39 * SECOND), LW_ENQUEUED);
    assert_int_equal(wait_over_restart(soon, closed, 41 * SECOND), LW_ABORTED);
    /* Nobody ran for an hour, or the clock was set forward: that cannot be told apart. */
    assert_int_equal(wait_over_restart(soon, closed + HOUR, 0), LW_ABORTED);
    /* It was set back by an hour, or a year: no more than the whole minute is left. */
    assert_int_equal(wait_over_restart(soon, closed - HOUR, 61 * SECOND), LW_ABORTED);
    assert_int_equal(wait_over_restart(soon, closed - 365 * (int64_t)DAY, 61 * SECOND), LW_ABORTED);
    assert_int_equal(wait_over_restart(soon, closed - HOUR, 30 * SECOND), LW_ENQUEUED);
}

TEST(start_by_holds_over_a_restart_with_a_clock_that_was_set) {
    assert_deadline_over_restarts(LW_TASK(.kind = "nobody", .start_by_ms = MINUTE));
}

TEST(finish_by_holds_over_a_restart_with_a_clock_that_was_set) {
    assert_deadline_over_restarts(LW_TASK(.kind = "nobody", .finish_by_ms = MINUTE));
    assert_deadline_over_restarts(
        LW_TASK(.kind = "nobody", .start_by_ms = MINUTE, .finish_by_ms = HOUR));
}

/* What its row says of attempts narrows it down. */
TEST(finish_by_counts_from_the_last_attempt_if_the_clock_was_set_back) {
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, do_retry);
    lw_id id = SUBMIT(engine, .kind = "mail", .delay_ms = 2 * HOUR, .finish_by_ms = 4 * HOUR);
    assert_int_equal(lw_test_advance(engine, 2 * HOUR), 1);
    shut(engine, clock);
    clock = boot_at(begun - 365 * (int64_t)DAY);
    engine = open_at(clock, NULL);
    assert_true(lw_test_advance(engine, 2 * HOUR - SECOND) >= 0);
    assert_false(lw_state_is_terminal(state_of(engine, id)));
    assert_true(lw_test_advance(engine, 2 * SECOND) >= 0);
    assert_int_equal(state_of(engine, id), LW_ABORTED);
    shut(engine, clock);
}

TEST(a_window_of_a_key_is_no_longer_because_the_clock_was_set_back) {
    const lw_task *task =
        LW_TASK(.kind = "mail", .key = "k", .key_scope = LW_KEY_WINDOW, .key_window_ms = MINUTE);
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = open_at(clock, do_done);
    lw_id id = submit(engine, task);
    assert_int_equal(lw_test_run(engine), 1);
    shut(engine, clock);
    clock = boot_at(begun - HOUR);
    engine = open_at(clock, do_done);
    assert_status(lw_submit(engine, task, NULL, NULL), LW_EXISTS);
    assert_true(lw_test_advance(engine, 61 * SECOND) >= 0);
    assert_true(submit(engine, task) != id);
    shut(engine, clock);
}

/* Rows of the outbox have the time of whoever wrote them, which is later than the engine's here. */
TEST(delays_and_deadlines_of_the_outbox_are_no_longer_than_they_were_written) {
    lw_clock *clock = boot_at(begun);
    lw_engine *engine = OPEN_ON(URL, .workers = 1, .clock = clock);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    sqlite3 *db = connect_db(DB);
    run_sql(db, "INSERT INTO legwork_outbox (kind, delay_ms) VALUES ('mail', 60000);"
                "INSERT INTO legwork_outbox (kind, start_by_ms) VALUES ('nobody', 60000)");
    await_that(state_of(engine, 1000000000000002) == LW_ENQUEUED);
    assert_int_equal(state_of(engine, 1000000000000001), LW_SCHEDULED);
    advance(clock, 61 * SECOND);
    await_that(state_of(engine, 1000000000000001) == LW_FINISHED);
    await_that(state_of(engine, 1000000000000002) == LW_ABORTED);
    sqlite3_close(db);
    shut(engine, clock);
}
