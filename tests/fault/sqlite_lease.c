/* Leases on a disk that runs full: a claim that cannot be written was never made; what is said of a
 * lease is done, called unsure, and written when there is room again. */
#include "cut_vfs.h"
#include "engines.h"
#include "errands.h"

#include <legwork/lease.h>
#include <legwork/testing.h>
#include <poll.h>
#include <sqlite3.h>

enum { TASKS = 4 };

static lw_engine *open_store(lw_snapshot *tasks, int claimed) {
    cut_vfs_install();
    lw_engine *engine = OPEN_ON("sqlite:" ERRANDS_DB, .workers = 1);
    start(engine);
    for (int i = 0; i < TASKS; i++)
        SUBMIT(engine, .kind = "mail");
    const lw_claim_options *options = LW_CLAIM_OPTIONS(.holder = "w", .max = TASKS);
    if (claimed > 0)
        assert_int_equal(lw_lease_claim(engine, options, tasks, NULL), claimed);
    return engine;
}

static void clear_all(lw_snapshot *tasks) {
    for (int i = 0; i < TASKS; i++)
        lw_snapshot_clear(&tasks[i]);
}

static void fill_disk(void) {
    cut_vfs_order((struct cut_order){CUT_FULL, CUT_WRITE, 1, INT32_MAX});
}

static int64_t rows(const char *sql) {
    sqlite3 *db = open_file();
    int64_t count = ask_file(db, sql);
    sqlite3_close(db);
    return count;
}

TEST(a_claim_that_cannot_be_written_was_never_made) {
    lw_snapshot tasks[TASKS] = {LW_SNAPSHOT_INIT};
    lw_error err = {0};
    const lw_claim_options *options = LW_CLAIM_OPTIONS(.holder = "w", .max = TASKS);
    lw_engine *engine = open_store(tasks, 0);
    fill_disk();
    assert_status(lw_lease_claim(engine, options, tasks, &err), LW_EUNSURE);
    assert_sentence(&err, LW_EUNSURE, "nothing was claimed");
    for (int i = 0; i < 3; i++) {
        CHECK(lw_lease_claim(engine, options, tasks, &err) <= 0);
        for (lw_id id = 1; id <= TASKS; id++) {
            assert_status(lw_get(engine, id, tasks), LW_OK);
            assert_int_equal(tasks[0].state, LW_ENQUEUED);
            assert_int_equal(tasks[0].attempts + tasks[0].crashes, 0);
        }
    }
    cut_vfs_end_orders();
    await_that(lw_sync(engine) == LW_OK);
    assert_int_equal(lw_lease_claim(engine, options, tasks, &err), TASKS);
    for (int i = 0; i < TASKS; i++)
        assert_int_equal(tasks[i].attempts, 1);
    clear_all(tasks);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_lease"), TASKS);
}

static bool is_readable(const lw_claim_watch *watch, int timeout_ms) {
    struct pollfd p = {.fd = lw_claim_watch_fd(watch), .events = POLLIN};
    return poll(&p, 1, timeout_ms) == 1;
}

TEST(when_there_is_room_again_whoever_watches_is_told) {
    char queue[LW_NAME_MAX + 1];
    lw_snapshot task = LW_SNAPSHOT_INIT;
    lw_claim_watch *watch;
    lw_engine *engine = open_store(NULL, 0);
    assert_status(lw_claim_watch_open(engine, &watch, NULL), LW_OK);
    fill_disk();
    assert_status(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL), LW_EUNSURE);
    while (lw_claim_watch_next(watch, queue) == 1)
        CHECK(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL) <= 0);
    CHECK(!is_readable(watch, 0));
    cut_vfs_end_orders();
    CHECK(is_readable(watch, 20000));
    assert_int_equal(lw_claim_watch_next(watch, queue), 1);
    assert_string_equal(queue, "default");
    assert_int_equal(lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "w"), &task, NULL), 1);
    lw_snapshot_clear(&task);
    lw_claim_watch_close(watch);
    close_engine(engine);
}

TEST(what_is_said_of_a_lease_on_a_full_disk_is_unsure_and_written_later) {
    lw_snapshot tasks[TASKS] = {LW_SNAPSHOT_INIT};
    lw_engine *engine = open_store(tasks, TASKS);
    lw_settlement end = {.id = tasks[0].id, .token = tasks[0].token, .outcome = LW_OUTCOME_DONE};
    fill_disk();
    assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    assert_status(end.status, LW_EUNSURE);
    assert_status(lw_lease_return(engine, tasks[1].id, tasks[1].token, 0), LW_EUNSURE);
    assert_status(lw_lease_extend(engine, tasks[2].id, tasks[2].token, 86400000, 0), LW_EUNSURE);
    assert_status(lw_lease_checkpoint(engine, tasks[3].id, tasks[3].token, LW_TEXT("here"), 0),
                  LW_EUNSURE);
    assert_status(lw_sync(engine), LW_EUNSURE);
    cut_vfs_end_orders();
    await_that(lw_sync(engine) == LW_OK);
    assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    assert_status(end.status, LW_OK); /* it was settled, and so it is said again */
    clear_all(tasks);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_history WHERE id = 1"), 1);
    assert_int_equal(rows("SELECT count(*) FROM legwork_task WHERE state = 'enqueued'"), 1);
    assert_int_equal(rows("SELECT count(*) FROM legwork_lease"), 2);
    assert_int_equal(
        rows("SELECT count(*) FROM legwork_lease WHERE until_ms - started_ms > 80000000"), 1);
}

/* ---- time ---------------------------------------------------------------------------------- */

static lw_state look_at(lw_engine *engine, lw_id id, unsigned *crashes) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &task), LW_OK);
    lw_state state = task.state;
    *crashes = task.crashes;
    lw_snapshot_clear(&task);
    return state;
}

/* Their holders could not extend them. When there is room again they have one more lease of time,
 * and no more than that. */
TEST(no_lease_runs_out_while_nothing_can_be_written) {
    lw_snapshot tasks[TASKS] = {LW_SNAPSHOT_INIT};
    lw_clock *clock;
    unsigned crashes;
    assert_status(lw_test_clock_open(&clock), LW_OK);
    cut_vfs_install();
    lw_engine *engine = OPEN_ON("sqlite:" ERRANDS_DB, .workers = 1, .clock = clock);
    start(engine);
    for (int i = 0; i < TASKS; i++)
        SUBMIT(engine, .kind = "mail");
    const lw_claim_options *options =
        LW_CLAIM_OPTIONS(.holder = "w", .max = TASKS, .lease_ms = 1000);
    assert_int_equal(lw_lease_claim(engine, options, tasks, NULL), TASKS);
    fill_disk();
    assert_status(lw_lease_extend(engine, tasks[0].id, tasks[0].token, 2000, 0), LW_EUNSURE);
    lw_test_clock_advance(clock, 60000);
    assert_status(lw_lease_extend(engine, tasks[1].id, tasks[1].token, 1000, 0), LW_EUNSURE);
    cut_vfs_end_orders();
    await_that(lw_sync(engine) == LW_OK);
    lw_test_clock_advance(clock, 900);
    lw_settlement end = {.id = tasks[2].id, .token = tasks[2].token, .outcome = LW_OUTCOME_DONE};
    assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    assert_status(end.status, LW_OK);
    assert_status(lw_lease_extend(engine, tasks[1].id, tasks[1].token, 1000, 0), LW_OK);
    lw_test_clock_advance(clock, 200);
    await_that(look_at(engine, tasks[3].id, &crashes) == LW_ENQUEUED);
    assert_int_equal(crashes, 1);
    assert_int_equal(look_at(engine, tasks[1].id, &crashes), LW_STARTED);
    assert_int_equal(crashes, 0);
    clear_all(tasks);
    close_engine(engine);
    lw_test_clock_close(clock);
}
