/* Every transition of a flow, and a kill -9 at it: at every call with which SQLite writes,
 * truncates, syncs or removes, and before, in and after every handler. Whoever opens the file next
 * brings the site to its goal: wholly there, or wholly gone and its name free. What the steps do is
 * real: a row of a table in the same file, committed together with the step's completion, and
 * files. */
#include "cut_vfs.h"
#include "test.h"

#include <legwork/flow.h>
#include <legwork/outbox_sqlite.h>
#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "sites.db"
#define SITE "example.org"

/* ---- dying -------------------------------------------------------------------------------- */

static long moments, deadly_moment; /* 0: none */

static void pass_moment(void) {
    if (++moments == deadly_moment)
        raise(SIGKILL);
}

/* ---- the site ----------------------------------------------------------------------------- */

static bool is_deleted_in_the_middle; /* by the step that makes its files */
static sqlite3 *own;                  /* connection */

static void run_sql(const char *sql) {
    if (sqlite3_exec(own, sql, NULL, NULL, NULL) != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(own));
        abort();
    }
}

static int count_rows(void *count, int columns, char **values, char **names) {
    (void)columns;
    (void)names;
    *(long *)count = strtol(values[0], NULL, 10);
    return 0;
}

static long row_count(void) {
    long count = -1;
    assert_int_equal(sqlite3_exec(own, "SELECT count(*) FROM site", count_rows, &count, NULL),
                     SQLITE_OK);
    return count;
}

static bool is_file(const char *name) {
    return access(name, F_OK) == 0;
}

static void make_file(const char *name) {
    FILE *file = fopen(name, "we");
    CHECK(file && fclose(file) == 0);
}

/* Exactly once: there would be two rows. */
static lw_outcome save(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    char sql[128];
    pass_moment();
    snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO site VALUES ('%s')", task->key);
    run_sql(sql);
    pass_moment();
    assert_status(lw_outbox_sqlite_done(own, ctx, &err), LW_OK);
    run_sql("COMMIT");
    pass_moment();
    return lw_done(ctx);
}

static lw_outcome make_files(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = *(lw_engine **)lw_ctx_user(ctx);
    pass_moment();
    make_file("index.html");
    pass_moment();
    if (is_deleted_in_the_middle)
        assert_status(lw_flow_move(engine, "site", task->key, "deleting", NULL), LW_PENDING);
    make_file("style.css");
    pass_moment();
    return lw_done(ctx);
}

static lw_outcome make_database(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    pass_moment();
    make_file("data");
    pass_moment();
    return lw_done(ctx);
}

static lw_outcome boot(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    CHECK(is_file("data"));
    pass_moment();
    make_file("post");
    pass_moment();
    return lw_done(ctx);
}

static lw_outcome wipe(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    pass_moment();
    unlink("index.html");
    unlink("style.css");
    pass_moment();
    unlink("data");
    unlink("post");
    run_sql("DELETE FROM site");
    pass_moment();
    return lw_done(ctx);
}

static const lw_step steps[] = {
    {.name = "save", .run = save, .state = "creating"},
    {.name = "files", .run = make_files, .state = "creating", .needs = {"save"}},
    {.name = "db", .run = make_database, .state = "creating", .needs = {"save"}},
    {.name = "boot", .run = boot, .state = "creating", .needs = {"db"}},
    {.name = "wipe", .run = wipe, .state = "deleting"},
};

static lw_engine *engine;

static void open_site(void) {
    lw_error err = {0};
    int rc = lw_open(&engine, "sqlite:" DB, LW_ENGINE_OPTIONS(.workers = LW_ZERO), &err);
    if (rc == LW_OK)
        rc = lw_flow_register(engine,
                              LW_FLOW(.name = "site", .steps = LW_STEPS(steps),
                                      .states = {{"creating", .goal = "running"},
                                                 {"deleting", .goal = "deleted", .end = true}},
                                      .user = &engine),
                              &err);
    if (rc == LW_OK)
        rc = lw_start(engine, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    assert_int_equal(sqlite3_open(DB, &own), SQLITE_OK);
    sqlite3_busy_timeout(own, 20000);
    run_sql("CREATE TABLE IF NOT EXISTS site (domain TEXT)");
}

static void close_site(void) {
    sqlite3_close(own);
    assert_status(lw_close(engine), LW_OK);
}

static void start_site(void) {
    assert_status(lw_flow_start(engine, "site", SITE, LW_TEXT("x"), NULL), LW_OK);
}

/* ---- lives -------------------------------------------------------------------------------- */

/* From the start to the goal; or, deleted in the middle, to the end. */
static void live(void) {
    open_site();
    start_site();
    CHECK(lw_test_run(engine) > 0);
    close_site();
}

static void check_whole(void) {
    static lw_flow_status status;
    assert_status(lw_flow_get(engine, "site", SITE, &status), LW_OK);
    assert_string_equal(status.state, "running");
    assert_int_equal(status.condition, LW_FLOW_AT_GOAL);
    assert_int_equal(row_count(), 1);
    CHECK(is_file("index.html") && is_file("style.css") && is_file("data") && is_file("post"));
}

static void check_gone(void) {
    static lw_flow_status status;
    assert_status(lw_flow_get(engine, "site", SITE, &status), LW_ENOTFOUND);
    assert_int_equal(row_count(), 0);
    CHECK(!is_file("index.html") && !is_file("style.css") && !is_file("data") && !is_file("post"));
}

/* The life after: if the one before had not even started it, nothing of it is there. */
static void live_again(bool is_to_be_deleted) {
    static lw_flow_status status;
    is_deleted_in_the_middle = false;
    open_site();
    bool was_there = lw_flow_get(engine, "site", SITE, &status) == LW_OK;
    CHECK(lw_test_run(engine) >= 0);
    bool is_there = lw_flow_get(engine, "site", SITE, &status) == LW_OK;
    if (!is_there && !was_there && !is_to_be_deleted) {
        check_gone();
        start_site();
        CHECK(lw_test_run(engine) > 0);
        is_there = true;
    }
    if (is_there)
        check_whole();
    if (is_there && is_to_be_deleted) { /* killed before it was moved */
        assert_status(lw_flow_move(engine, "site", SITE, "deleting", NULL), LW_OK);
        CHECK(lw_test_run(engine) > 0);
    }
    if (is_to_be_deleted) {
        check_gone();
        start_site(); /* its name is free */
        CHECK(lw_test_run(engine) > 0);
        check_whole();
    }
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.created + stats.scheduled + stats.enqueued + stats.started, 0);
    close_site();
}

/* ---- all moments -------------------------------------------------------------------------- */

static void clear_folder(void) {
    static const char *const names[] = {DB,          DB "-wal",     DB "-shm",
                                        DB "-owner", DB "-running", "index.html",
                                        "style.css", "data",        "post"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
}

/* True: it was killed. */
static bool run_child(long moment, uint64_t call, bool is_delete) {
    pid_t child = fork();
    if (child == 0) {
        cut_vfs_install();
        deadly_moment = moment;
        is_deleted_in_the_middle = is_delete;
        if (call > 0)
            cut_vfs_order((struct cut_order){CUT_KILL, CUT_ANY, call, 1});
        live();
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFSIGNALED(status);
}

static void audit(bool is_delete) {
    pid_t child = fork();
    if (child == 0) {
        cut_vfs_install(); /* it does not really sync, which is quicker */
        live_again(is_delete);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    clear_folder();
}

static void kill_at_every_moment(bool is_delete) {
    long moment = 0;
    bool was_killed = true;
    while (was_killed) {
        fprintf(stderr, "killed at moment %ld of the handlers\n", ++moment);
        was_killed = run_child(moment, 0, is_delete);
        audit(is_delete);
    }
    CHECK(moment > 8);
}

static void kill_at_every_call(bool is_delete) {
    uint64_t call = 1;
    bool was_killed = true;
    for (; was_killed; call += (uint64_t)test_stride(4)) {
        fprintf(stderr, "killed at call %llu\n", (unsigned long long)call);
        was_killed = run_child(0, call, is_delete);
        audit(is_delete);
    }
    printf("killed at calls up to the %lluth\n", (unsigned long long)call);
    CHECK(call > 20);
}

TEST(killed_in_any_handler_it_reaches_its_goal) {
    kill_at_every_moment(false);
}

TEST(killed_in_any_handler_it_is_deleted_all_the_same) {
    kill_at_every_moment(true);
}

TEST(killed_at_any_write_it_reaches_its_goal) {
    kill_at_every_call(false);
}

TEST(killed_at_any_write_it_is_deleted_all_the_same) {
    kill_at_every_call(true);
}
