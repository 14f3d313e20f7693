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

/* ---- a task that is leased by its submit ---------------------------------------------------- */

struct heard {
    struct tally calls;
    int status;
};

static void hear(void *user, int status, lw_id id) {
    struct heard *heard = user;
    (void)id;
    heard->status = status;
    tally_add(&heard->calls, 1);
}

/* Its kind has one place. What `done` was told. */
static int submit_for(lw_engine *engine, lw_snapshot *leased) {
    struct heard heard = {.calls = TALLY};
    lw_error err = {0};
    const lw_task *task = LW_TASK(.kind = "one", .queue = "ones", .payload = LW_TEXT("x"));
    int rc =
        lw_lease_submit(engine, task, LW_CLAIM_OPTIONS(.holder = "w"), leased, hear, &heard, &err);
    if (rc < 0)
        return rc;
    tally_await(&heard.calls, 1);
    return heard.status;
}

static lw_engine *open_for_one(void) {
    lw_engine *engine = OPEN_ON("sqlite:" ERRANDS_DB, .workers = 1);
    handle(engine, "one", NULL, LW_HANDLER_OPTIONS(.concurrency = 1));
    start(engine);
    return engine;
}

TEST(a_submit_with_a_lease_takes_as_many_syncs_as_one_without) {
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    cut_vfs_install();
    lw_engine *engine = open_for_one();
    SUBMIT(engine, .kind = "other"); /* what is written once */
    uint64_t before = cut_vfs_calls(CUT_SYNC);
    SUBMIT(engine, .kind = "other", .queue = "q");
    uint64_t without = cut_vfs_calls(CUT_SYNC) - before;
    before = cut_vfs_calls(CUT_SYNC);
    assert_status(submit_for(engine, &leased), LW_OK);
    assert_int_equal(cut_vfs_calls(CUT_SYNC) - before, without);
    assert_int_equal(leased.state, LW_STARTED);
    CHECK(leased.token > 0);
    lw_snapshot_clear(&leased);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_lease"), 1);
}

/* Neither the task nor the lease was ever there, and its kind has its place again. */
static void refuse_and_go_on(struct cut_order order, int wanted) {
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    cut_vfs_install();
    lw_engine *engine = open_for_one();
    cut_vfs_order(order);
    assert_status(submit_for(engine, &leased), wanted);
    CHECK(lw_lease_return(engine, leased.id, leased.token, LW_NO_WAIT) == LW_ELEASE);
    CHECK(state_of(engine, leased.id) == (lw_state)0);
    cut_vfs_end_orders();
    await_that(lw_sync(engine) == LW_OK);
    uint64_t lost = leased.token;
    assert_status(submit_for(engine, &leased), LW_OK);
    CHECK(leased.token > lost);
    lw_id id = leased.id;
    lw_snapshot_clear(&leased);
    close_engine(engine);
    assert_int_equal(rows("SELECT count(*) FROM legwork_task"), 1);
    assert_int_equal(rows("SELECT id FROM legwork_task"), id);
    assert_int_equal(rows("SELECT count(*) FROM legwork_lease"), 1);
    assert_int_equal(rows("SELECT task_id FROM legwork_lease"), id);
    remove_store();
}

TEST(a_submit_with_a_lease_that_cannot_be_written_was_never_made) {
    refuse_and_go_on((struct cut_order){CUT_FULL, CUT_WRITE, 1, INT32_MAX}, LW_ESYSTEM);
}

TEST(of_a_submit_with_a_lease_of_which_nobody_knows_nothing_is_left) {
    refuse_and_go_on((struct cut_order){CUT_ERROR, CUT_SYNC, 1, 1}, LW_EUNSURE);
}

/* Whatever is left of it on the platter. True: the power went. */
static bool cut_at(uint64_t nth, enum cut_left left) {
    lw_snapshot leased = LW_SNAPSHOT_INIT;
    lw_engine *engine = open_for_one();
    cut_vfs_order((struct cut_order){CUT_POWER, CUT_ANY, nth, 1});
    int status = submit_for(engine, &leased);
    bool is_dark = cut_vfs_is_dark();
    CHECK(is_dark || status == LW_OK);
    lw_snapshot_clear(&leased);
    if (is_dark)
        lw_stop(engine, LW_DROP, 1); /* it would try for a while */
    lw_close(engine);
    cut_vfs_restore(left, nth);
    cut_vfs_end_orders();
    int64_t tasks = rows("SELECT count(*) FROM legwork_task");
    assert_int_equal(rows("SELECT count(*) FROM legwork_lease"), tasks);
    assert_int_equal(rows("SELECT count(*) FROM legwork_task JOIN legwork_lease ON task_id = id "
                          "WHERE state = 'started'"),
                     tasks);
    CHECK(tasks == 1 || (tasks == 0 && status != LW_OK));
    engine = open_for_one();
    assert_int_equal(state_of(engine, 1), tasks ? LW_STARTED : 0);
    close_engine(engine);
    remove_store();
    return is_dark;
}

TEST(a_power_cut_leaves_both_the_task_and_its_lease_or_neither) {
    uint64_t nth = 1;
    cut_vfs_install();
    while (cut_at(nth, CUT_LEFT_NOTHING)) {
        cut_at(nth, CUT_LEFT_ALL);
        cut_at(nth, CUT_LEFT_RANDOM);
        nth++;
    }
    CHECK(nth > 2);
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
