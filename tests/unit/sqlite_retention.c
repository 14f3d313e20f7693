/* How long terminal tasks of an SQLite store stay, over restarts, and with owners that do not know
 * their kinds. */
#include "engines.h"
#include "own_sqlite.h"

#define DB "tasks.db"
#define URL "sqlite:" DB

enum { MINUTES_15 = 15 * 60 * 1000 };

static const int64_t month_ms = INT64_C(30) * 86400000;

static lw_engine *open_at(lw_clock *clock) {
    return OPEN_ON(URL, .workers = LW_ZERO, .clock = clock);
}

static lw_engine *open_with(lw_clock *clock, lw_retention retention) {
    lw_engine *engine = open_at(clock);
    handle(engine, "keep", do_done, LW_HANDLER_OPTIONS(.retention = retention));
    start(engine);
    return engine;
}

/* An owner that does not know the kind. */
static lw_engine *open_ignorant(lw_clock *clock) {
    lw_engine *engine = open_at(clock);
    start(engine);
    return engine;
}

static uint64_t finished(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.finished;
}

static void run_some(lw_engine *engine, int count) {
    for (int i = 0; i < count; i++)
        SUBMIT(engine, .kind = "keep");
    assert_true(lw_test_run(engine) >= count);
}

static void run_sql_once(const char *sql) {
    sqlite3 *db = connect_db(DB);
    run_sql(db, sql);
    sqlite3_close(db);
}

TEST(what_is_kept_for_ever_outlives_an_owner_that_does_not_know_its_kind) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_with(clock, (lw_retention){.finished_ms = -1, .finished_max = -1});
    run_some(engine, 3);
    close_engine(engine);
    for (int restarts = 0; restarts < 2; restarts++) {
        engine = open_ignorant(clock);
        assert_true(lw_test_advance(engine, month_ms) >= 0);
        assert_int_equal(finished(engine), 3);
        close_engine(engine);
    }
    lw_test_clock_close(clock);
}

TEST(the_last_registration_counts_even_if_that_process_did_nothing_else) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_with(clock, (lw_retention){.finished_ms = -1, .finished_max = -1});
    run_some(engine, 3);
    close_engine(engine);
    close_engine(open_with(clock, (lw_retention){.finished_ms = month_ms, .finished_max = 2}));
    engine = open_ignorant(clock);
    assert_int_equal(finished(engine), 2);
    assert_true(lw_test_advance(engine, month_ms - 1000) >= 0);
    assert_int_equal(finished(engine), 2);
    assert_true(lw_test_advance(engine, 2000) >= 0);
    assert_int_equal(finished(engine), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(a_kind_that_goes_back_to_the_default_has_it_everywhere) {
    lw_clock *clock = open_clock();
    close_engine(open_with(clock, (lw_retention){.finished_ms = -1}));
    lw_engine *engine = open_with(clock, (lw_retention){0});
    run_some(engine, 3);
    close_engine(engine);
    engine = open_ignorant(clock);
    assert_true(lw_test_advance(engine, MINUTES_15 - 1000) >= 0);
    assert_int_equal(finished(engine), 3);
    assert_true(lw_test_advance(engine, 2000) >= 0);
    assert_int_equal(finished(engine), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(what_somebody_has_written_there_by_hand_does_no_harm) {
    lw_clock *clock = open_clock();
    lw_engine *engine = open_with(clock, (lw_retention){.finished_ms = -1});
    run_some(engine, 3);
    close_engine(engine);
    run_sql_once("UPDATE legwork_meta SET value = '{' WHERE key = 'retention.keep';"
                 "INSERT INTO legwork_meta VALUES ('retention.', 1), ('retention.a b', '{}'),"
                 " ('retention.c', '{\"failed_ms\": \"x\"}'), ('retention.d', 7)");
    engine = open_ignorant(clock);
    assert_true(lw_test_advance(engine, MINUTES_15) >= 0);
    assert_int_equal(finished(engine), 0);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* What was cancelled has an error, which is more than that. */
TEST(the_limit_of_bytes_holds_for_an_owner_that_does_not_know_the_kind) {
    lw_clock *clock = open_clock();
    close_engine(open_with(clock, (lw_retention){.byte_max = 1}));
    lw_engine *engine = open_ignorant(clock);
    lw_id id = SUBMIT(engine, .kind = "keep"), other = SUBMIT(engine, .kind = "other");
    assert_status(lw_cancel(engine, id), LW_OK);
    assert_status(lw_cancel(engine, other), LW_OK);
    assert_int_equal(state_of(engine, id), 0);
    assert_int_equal(state_of(engine, other), LW_ABORTED);
    close_engine(engine);
    lw_test_clock_close(clock);
}
