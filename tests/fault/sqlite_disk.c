/* The disk fails, runs full, or does not confirm what was written; once, for a while, or until the
 * power goes on top of it. Callers are told, what they repeat under its key is there once, nothing
 * new starts while outcomes cannot be written, and everything goes on by itself afterwards. */
#include "cut_vfs.h"
#include "engines.h"
#include "errands.h"

#include <legwork/outbox_sqlite.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { STRIDE = 71, WRITE_STRIDE = 3, SYNC_STRIDE = 17, FOR_EVER = INT32_MAX };

static uint64_t count_calls(unsigned calls) {
    struct errands *errands = errands_open();
    assert_true(errands_run(errands));
    uint64_t count = cut_vfs_calls(calls);
    errands_audit(errands);
    errands_close(errands);
    return count;
}

static void prepare(void) {
    cut_vfs_install();
    errands_checkpoint_often();
}

/* ---- at every call ------------------------------------------------------------------------- */

static void fail_at(struct cut_order order) {
    struct errands *errands = errands_open();
    cut_vfs_order(order);
    assert_true(errands_run(errands));
    errands_audit(errands);
    errands_close(errands);
}

/* Every other time it fails for a while: the store waits ever longer before it tries again. */
static void fail_at_each(enum cut_fault fault, unsigned calls, long stride) {
    uint64_t count = count_calls(calls);
    uint64_t step = (uint64_t)(test_scale(stride, 1) * test_stride(3));
    uint64_t a_while = (uint64_t)test_scale(4, 9);
    for (uint64_t nth = 1; nth <= count; nth += step)
        fail_at((struct cut_order){fault, calls, nth, nth / step % 2 ? a_while : 1});
}

TEST(an_error_at_any_call_is_told_and_overcome) {
    prepare();
    fail_at_each(CUT_ERROR, CUT_ANY, STRIDE);
}

TEST(a_full_disk_at_any_write_is_told_and_overcome) {
    prepare();
    fail_at_each(CUT_FULL, CUT_WRITE, WRITE_STRIDE);
}

TEST(a_failing_sync_at_any_time_is_told_and_overcome) {
    prepare();
    fail_at_each(CUT_ERROR, CUT_SYNC, SYNC_STRIDE);
}

/* What a failed sync has lost must not be built upon: the power goes some calls later. */
TEST(a_power_cut_after_a_failed_sync_loses_nothing_that_was_answered) {
    prepare();
    uint64_t count = count_calls(CUT_SYNC);
    uint64_t step = (uint64_t)(test_scale(SYNC_STRIDE, 1) * test_stride(3));
    for (uint64_t nth = 1; nth <= count; nth += step) {
        for (uint64_t later = 1; later < 80; later += (uint64_t)test_scale(26, 3)) {
            struct errands *errands = errands_open();
            cut_vfs_order((struct cut_order){CUT_ERROR, CUT_SYNC, nth, 1 + later % 3});
            cut_vfs_order((struct cut_order){CUT_POWER, CUT_ANY, 6 * nth + later, 1});
            errands_run(errands);
            cut_vfs_restore(later % 2 ? CUT_LEFT_NOTHING : CUT_LEFT_RANDOM, nth);
            errands_audit(errands);
            errands_close(errands);
        }
    }
}

/* ---- one thing at a time ------------------------------------------------------------------- */

static struct tally begun = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&begun, 1);
    return lw_done(ctx);
}

static lw_engine *open_store(int workers) {
    lw_engine *engine = NULL;
    lw_error err = {0};
    int rc = lw_open(&engine, "sqlite:" ERRANDS_DB, LW_ENGINE_OPTIONS(.workers = workers), &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    handle(engine, "mail", do_count, NULL);
    return engine;
}

static void fail_from_now_on(enum cut_fault fault, unsigned calls) {
    cut_vfs_order((struct cut_order){fault, calls, 1, FOR_EVER});
}

static int try_submit(lw_engine *engine, const char *key, lw_error *err) {
    return lw_submit(engine, LW_TASK(.kind = "mail", .key = key), NULL, err);
}

static bool count_one(void *count, const lw_snapshot *task) {
    (void)task;
    ++*(int *)count;
    return true;
}

static int listed(lw_engine *engine) {
    int count = 0;
    assert_true(lw_list(engine, LW_FILTER(.limit = 1000), count_one, &count) >= 0);
    return count;
}

static int64_t rows(const char *sql) {
    sqlite3 *db = open_file();
    int64_t count = ask_file(db, sql);
    sqlite3_close(db);
    return count;
}

static double cpu_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec)
           + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* Of a kind that waits to be let go. */
static struct tally let_go = TALLY;

static lw_outcome do_when_let_go(lw_ctx *ctx, const lw_task *task) {
    tally_add(&begun, 1);
    tally_await(&let_go, (long)task->id);
    return lw_done(ctx);
}

TEST(on_a_full_disk_nothing_new_starts_and_all_goes_on_by_itself) {
    enum { TASKS = 20 };
    cut_vfs_install();
    lw_engine *engine = open_store(1);
    handle(engine, "slow", do_when_let_go, NULL);
    for (int i = 0; i < TASKS; i++)
        SUBMIT(engine, .kind = "slow");
    start(engine);
    tally_await(&begun, 1);
    fail_from_now_on(CUT_FULL, CUT_WRITE);
    double before = cpu_seconds();
    lw_error err = {0};
    tally_add(&let_go, 1); /* the second may begin before the first one's outcome has failed */
    assert_status(try_submit(engine, "more", &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, "the disk is full");
    tally_add(&let_go, TASKS);
    for (int i = 0; i < 3; i++)
        assert_status(try_submit(engine, "more", &err), LW_ESYSTEM);
    assert_true(tally_read(&begun) <= 2);
    assert_int_equal(listed(engine), TASKS); /* reads go on, and what was refused is not there */
    CHECK(state_of(engine, 1) != 0);
    assert_true(cpu_seconds() - before < 1);

    cut_vfs_end_orders();
    assert_status(lw_wait_idle(engine, 200000), LW_OK);
    assert_int_equal(tally_read(&begun), TASKS);
    assert_status(try_submit(engine, "more", NULL), LW_OK);
    assert_status(lw_wait_idle(engine, 200000), LW_OK);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_history"), TASKS + 1);
}

TEST(after_a_failed_sync_nothing_is_answered_before_all_is_synced_anew) {
    cut_vfs_install();
    lw_engine *engine = open_store(1);
    lw_error err = {0};
    assert_status(try_submit(engine, "before", NULL), LW_OK);
    uint64_t opened = cut_vfs_opened();
    fail_from_now_on(CUT_ERROR, CUT_SYNC);
    assert_status(try_submit(engine, "a", &err), LW_EUNSURE);
    assert_sentence(&err, LW_EUNSURE, "not confirm");
    assert_status(try_submit(engine, "b", &err), LW_ESYSTEM); /* it was not even tried */
    assert_sentence(&err, LW_ESYSTEM, "not confirm");
    assert_int_equal(cut_vfs_opened(), opened);
    assert_int_equal(listed(engine), 1);

    cut_vfs_end_orders();
    assert_status(try_submit(engine, "a", NULL), LW_OK);
    assert_int_equal(cut_vfs_opened(), opened + 1);
    assert_status(try_submit(engine, "a", NULL), LW_EXISTS);
    assert_int_equal(listed(engine), 2);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_task"), 2);
    assert_int_equal(rows("SELECT count(*) FROM legwork_task WHERE key = 'a'"), 1);
}

static struct tally reader_told = TALLY;

static void look_for_reader(void *user, const lw_log_record *record) {
    (void)user;
    for (size_t i = 0; i < record->field_count; i++)
        if (strstr(record->fields[i].value, "even one that only reads"))
            tally_add(&reader_told, 1);
}

/* The file is brought up to date first, and a transaction that only reads is in the way of that. */
TEST(after_a_failed_sync_a_reader_that_keeps_the_store_halted_is_named) {
    static const lw_log log = {.write = look_for_reader};
    lw_engine *engine = NULL;
    lw_error err = {0};
    lw_store_health health;
    cut_vfs_install();
    assert_status(
        lw_open(&engine, "sqlite:" ERRANDS_DB, LW_ENGINE_OPTIONS(.workers = 1, .log = &log), &err),
        LW_OK);
    handle(engine, "mail", do_count, NULL);
    assert_status(try_submit(engine, "before", NULL), LW_OK);
    sqlite3 *reader = open_file();
    assert_int_equal(sqlite3_exec(reader, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(ask_file(reader, "SELECT count(*) FROM legwork_task"), 1);
    fail_from_now_on(CUT_ERROR, CUT_SYNC);
    assert_status(try_submit(engine, "a", NULL), LW_EUNSURE);
    cut_vfs_end_orders();
    tally_await(&reader_told, 1);
    assert_status(try_submit(engine, "a", &err), LW_EBUSY);
    assert_sentence(&err, LW_EBUSY, "even one that only reads");
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    assert_status(health.status, LW_EBUSY);
    assert_string_equal(health.code, "store_busy");
    CHECK(strstr(health.last.message, "even one that only reads") != NULL);

    sqlite3_close(reader);
    await_that(lw_get_store_health(engine, &health) == LW_OK && health.status == LW_OK);
    assert_status(try_submit(engine, "a", NULL), LW_OK);
    close_engine(engine);
}

TEST(a_retry_that_cannot_be_written_says_that_it_is_done_and_why_not) {
    cut_vfs_install();
    lw_engine *engine = open_store(1);
    lw_error err = {0};
    lw_id id = SUBMIT(engine, .kind = "nobody");
    assert_status(lw_cancel(engine, id), LW_OK);
    fail_from_now_on(CUT_FULL, CUT_WRITE);
    assert_status(lw_retry_now(engine, id, &err), LW_EUNSURE);
    assert_sentence(&err, LW_EUNSURE, "task 1 runs again as soon as that can be written: ");
    assert_sentence(&err, LW_EUNSURE, "the disk is full");
    cut_vfs_end_orders();
    await_that(lw_retry_now(engine, id, NULL) == LW_PENDING);
    close_engine(engine);
}

/* What is in memory is of the file that was there, and must not go on in another. */
TEST(after_a_failed_sync_a_copy_in_the_place_of_the_file_is_left_alone) {
    cut_vfs_install();
    lw_engine *engine = open_store(1);
    lw_error err = {0};
    assert_status(try_submit(engine, "before", NULL), LW_OK);
    fail_from_now_on(CUT_ERROR, CUT_SYNC);
    assert_status(try_submit(engine, "a", NULL), LW_EUNSURE);
    assert_int_equal(system("cp " ERRANDS_DB " copy && mv copy " ERRANDS_DB), 0);
    cut_vfs_end_orders();
    for (int i = 0; i < 3; i++)
        assert_status(try_submit(engine, "a", &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, "replaced while it was open");
    lw_close(engine);
}

/* The commit that nobody knew of was on the disk after all, or was not: what is left is some of
 * what was written, the last of it torn. */
static int find_unsure(uint64_t seed) {
    lw_engine *engine = open_store(1);
    cut_vfs_order((struct cut_order){CUT_ERROR, CUT_SYNC, 1, 1});
    cut_vfs_order((struct cut_order){CUT_POWER, CUT_ANY & ~CUT_WRITE, 2, 1});
    assert_status(try_submit(engine, "a", NULL), LW_EUNSURE);
    await_that(cut_vfs_is_dark());
    lw_stop(engine, LW_DROP, 1);
    lw_close(engine);
    cut_vfs_restore(CUT_LEFT_FIRST, seed);
    engine = open_store(1);
    int found = listed(engine);
    assert_status(try_submit(engine, "a", NULL), found ? LW_EXISTS : LW_OK);
    assert_int_equal(listed(engine), 1);
    close_engine(engine);
    remove_store();
    return found;
}

TEST(what_was_unsure_and_is_found_after_a_crash_is_there_once) {
    enum { SEEDS = 30 };
    int found = 0;
    cut_vfs_install();
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        found += find_unsure(seed);
    CHECK(found > 0 && found < SEEDS);
}

/* ---- who gives up -------------------------------------------------------------------------- */

/* Opens as often as it takes. */
static lw_engine *insist(void) {
    lw_engine *engine = NULL;
    while (lw_open(&engine, "sqlite:" ERRANDS_DB, LW_ENGINE_OPTIONS(.workers = 1), NULL) < 0)
        CHECK(!cut_vfs_is_dark());
    return engine;
}

/* A program that is started, does something and ends, twice. How many tasks were accepted. */
static int live_twice(void) {
    int accepted = 0;
    for (int life = 0; life < 2; life++) {
        lw_engine *engine = insist();
        for (int i = 0; i < 2; i++)
            accepted += try_submit(engine, NULL, NULL) == LW_OK;
        lw_close(engine);
    }
    return accepted;
}

/* Whoever opens the file next reads it from the system's memory, in which all that was written is
 * there, and knows nothing of a sync that has failed. */
TEST(what_a_failed_sync_has_lost_is_not_built_upon_by_who_opens_next) {
    bool has_failed = true;
    cut_vfs_install();
    for (uint64_t nth = 1; has_failed; nth++) {
        has_failed = false;
        for (uint64_t count = 1; count <= 3; count++) {
            cut_vfs_order((struct cut_order){CUT_ERROR, CUT_SYNC, nth, count});
            int accepted = live_twice();
            has_failed |= cut_vfs_failed() > 0;
            cut_vfs_restore(CUT_LEFT_NOTHING, 0);
            if (accepted > 0)
                assert_true(rows("SELECT count(*) FROM legwork_task") >= accepted);
            remove_store();
        }
    }
}

TEST(a_close_does_not_wait_for_ever_for_a_dead_disk) {
    cut_vfs_install();
    lw_engine *engine = open_store(1);
    assert_status(try_submit(engine, "a", NULL), LW_OK);
    fail_from_now_on(CUT_ERROR, CUT_ANY);
    start(engine);
    tally_await(&begun, 1);
    close_engine(engine);
    cut_vfs_end_orders();
    engine = open_store(1);
    assert_int_equal(state_of(engine, 1), LW_ENQUEUED); /* its outcome was not written */
    start(engine);
    assert_status(lw_wait(engine, 1, 200000, NULL), LW_OK);
    close_engine(engine);
}

/* ---- who has committed outside -------------------------------------------------------------- */

static sqlite3 *desk; /* the handler's own connection */
static struct tally effects = TALLY, ends = TALLY;

static void count_end(void *user, const lw_snapshot *task) {
    (void)user;
    (void)task;
    tally_add(&ends, 1);
}

static void do_sql(const char *sql) {
    assert_int_equal(sqlite3_exec(desk, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Completed in a transaction of its own, which the store has seen; then the disk is full. */
static lw_outcome do_effect(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    (void)task;
    do_sql("BEGIN IMMEDIATE");
    assert_status(lw_outbox_sqlite_done(desk, ctx, &err), LW_OK);
    do_sql("COMMIT; INSERT INTO legwork_outbox (kind) VALUES ('mail')");
    await_that(ask_file(desk, "SELECT count(*) FROM legwork_outbox WHERE kind = 'mail'") == 0);
    fail_from_now_on(CUT_FULL, CUT_WRITE);
    tally_add(&effects, 1);
    return lw_done(ctx);
}

static lw_engine *open_desk(lw_handler run) {
    lw_engine *engine = open_store(1);
    desk = open_file();
    handle(engine, "effect", run, NULL);
    return engine;
}

TEST(what_was_completed_before_the_disk_was_full_has_its_end_and_no_second_run) {
    cut_vfs_install();
    lw_engine *engine = open_desk(do_effect);
    lw_id id = SUBMIT(engine, .kind = "effect", .key = "once", .on_end = count_end);
    lw_id after = SUBMIT(engine, .kind = "mail", .after = &id, .after_count = 1);
    start(engine);
    tally_await(&effects, 1);
    for (int i = 0; i < 3; i++)
        assert_status(try_submit(engine, "more", NULL), LW_ESYSTEM);
    cut_vfs_end_orders();
    assert_status(lw_wait(engine, after, 200000, NULL), LW_OK);
    tally_await(&ends, 1);
    close_engine(engine);
    engine = open_store(1);
    handle(engine, "effect", do_effect, NULL);
    start(engine);
    assert_status(lw_wait_idle(engine, 200000), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&effects), 1);
    assert_int_equal(rows("SELECT count(*) FROM legwork_history"), 3);
    sqlite3_close(desk);
}

/* Nobody can know from memory whether it was committed. */
static lw_outcome do_roll_back(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    (void)task;
    do_sql("BEGIN IMMEDIATE");
    assert_status(lw_outbox_sqlite_done(desk, ctx, &err), LW_OK);
    do_sql("ROLLBACK");
    fail_from_now_on(CUT_ERROR, CUT_ANY);
    tally_add(&effects, 1);
    return lw_fail(ctx, "no");
}

TEST(a_stop_that_drops_ends_though_an_attempt_cannot_be_judged_on_a_dead_disk) {
    cut_vfs_install();
    lw_engine *engine = open_desk(do_roll_back);
    lw_id id = SUBMIT(engine, .kind = "effect");
    start(engine);
    tally_await(&effects, 1);
    try_submit(engine, "more", NULL); /* the disk is dead by now */
    assert_status(lw_stop(engine, LW_DROP, 200000), LW_OK);
    assert_status(lw_close(engine), LW_OK);
    cut_vfs_end_orders();
    engine = open_store(1);
    CHECK(state_of(engine, id) == LW_ENQUEUED); /* it has not failed: that was never judged */
    close_engine(engine);
    sqlite3_close(desk);
}
