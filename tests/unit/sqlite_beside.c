/* What lies beside the database of an SQLite store, and what becomes of a store whose files do not
 * stay where they are. */
#include "engines.h"
#include "own_sqlite.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

static lw_engine *open_owner(void) {
    return OPEN_ON(URL, .workers = 1);
}

static lw_error assert_refused(int status, const char *words) {
    lw_engine *engine;
    lw_error err = {0};
    assert_status(lw_open(&engine, URL, NULL, &err), status);
    assert_null(engine);
    assert_sentence(&err, status, words);
    return err;
}

/* ---- who runs what ------------------------------------------------------------------------ */

/* What is mapped and has no room is a SIGBUS at the first task. */
TEST(a_disk_without_room_for_the_list_of_what_runs_is_told_at_open) {
    close_engine(open_owner());
    assert_int_equal(unlink(DB "-running"), 0);
    assert_int_equal(symlink("/dev/full", DB "-running"), 0);
    lw_error err = assert_refused(LW_ESYSTEM, "make room for");
    assert_int_equal(err.native, ENOSPC);
    assert_int_equal(unlink(DB "-running"), 0);
    close_engine(open_owner());
}

TEST(the_list_of_what_runs_is_as_long_as_there_are_workers) {
    struct stat st;
    close_engine(OPEN_ON(URL, .workers = 1000, .stuck_max = LW_ZERO));
    assert_int_equal(stat(DB "-running", &st), 0);
    off_t many = st.st_size;
    close_engine(OPEN_ON(URL, .workers = 2, .stuck_max = LW_ZERO));
    assert_int_equal(stat(DB "-running", &st), 0);
    assert_true(many >= 8000 && st.st_size < many && st.st_size >= 16);
}

/* ---- who may read them -------------------------------------------------------------------- */

static int mode_of(const char *name) {
    struct stat st;
    assert_int_equal(stat(name, &st), 0);
    return (int)(st.st_mode & 07777);
}

static void assert_modes(int mode) {
    assert_int_equal(mode_of(DB), mode);
    assert_int_equal(mode_of(DB "-running"), mode);
    assert_int_equal(mode_of(DB "-owner"), mode);
}

TEST(the_files_beside_a_database_are_as_open_as_that_is_whatever_the_umask) {
    umask(0);
    close_engine(open_owner());
    assert_modes(0644);
    umask(077);
    assert_int_equal(chmod(DB, 0660), 0);
    close_engine(open_owner());
    assert_modes(0660);
    umask(0);
    assert_int_equal(chmod(DB, 0600), 0);
    close_engine(open_owner());
    assert_modes(0600);
    assert_int_equal(unlink(DB "-running"), 0);
    close_engine(open_owner());
    assert_modes(0600);
}

TEST(a_database_that_was_read_only_for_a_while_can_be_opened_again) {
    lw_engine *engine;
    close_engine(open_owner());
    assert_int_equal(chmod(DB, 0444), 0);
    lw_open(&engine, URL, NULL, NULL); /* root may */
    lw_close(engine);
    assert_int_equal(mode_of(DB "-owner"), 0644);
    assert_int_equal(chmod(DB, 0644), 0);
    close_engine(open_owner());
}

/* ---- others that have it open -------------------------------------------------------------- */

static off_t size_of(const char *name) {
    struct stat st;
    assert_int_equal(stat(name, &st), 0);
    return st.st_size;
}

TEST(a_transaction_that_stays_open_refuses_submits_and_then_no_more) {
    lw_error err = {0};
    lw_engine *engine = open_owner();
    sqlite3 *other = connect_db(DB);
    run_sql(other, "BEGIN IMMEDIATE");
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, &err), LW_EBUSY);
    assert_sentence(&err, LW_EBUSY, "another connection holds the file");
    run_sql(other, "ROLLBACK");
    await_that(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL) == LW_OK);
    sqlite3_close(other);
    close_engine(engine);
}

/* Four times what SQLite lets a -wal file have before it moves it, which it cannot. */
TEST(a_long_reader_makes_the_wal_file_grow_and_it_is_used_again_afterwards) {
    enum { SIZE = 65536, COUNT = 256 };
    static char payload[SIZE];
    lw_engine *engine = open_owner();
    sqlite3 *other = connect_db(DB);
    const lw_task *task = LW_TASK(.kind = "mail", .payload = {payload, SIZE});
    run_sql(other, "BEGIN");
    assert_int_equal(ask(other, "SELECT count(*) FROM legwork_task"), 0);
    for (int i = 0; i < COUNT; i++)
        assert_status(lw_submit(engine, task, NULL, NULL), LW_OK); /* it holds up nobody */
    off_t grown = size_of(DB "-wal");
    assert_true(grown > SIZE * COUNT);
    assert_int_equal(ask(other, "SELECT count(*) FROM legwork_task"), 0);
    run_sql(other, "COMMIT");
    for (int i = 0; i < COUNT; i++)
        assert_status(lw_submit(engine, task, NULL, NULL), LW_OK);
    assert_true(size_of(DB "-wal") < grown + SIZE * COUNT / 2);
    sqlite3_close(other);
    close_engine(engine);
}

/* ---- files that go ------------------------------------------------------------------------ */

#define GONE "deleted, moved or replaced while it was open"

static void assert_not_accepted(lw_engine *engine) {
    lw_error err = {0};
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, GONE);
}

static void put_another_there(void) {
    rename(DB, "old.db");
    rename(DB "-wal", "old.db-wal");
    rename(DB "-shm", "old.db-shm");
    rename(DB "-owner", "old.db-owner");
    close_engine(open_owner());
}

static long long count_tasks(const char *path) {
    sqlite3 *db = connect_db(path);
    long long count = ask(db, "SELECT count(*) FROM legwork_task");
    sqlite3_close(db);
    return count;
}

TEST(a_deleted_database_accepts_nothing_and_starts_nothing) {
    struct gate gate = GATE;
    lw_engine *engine = open_owner();
    handle(engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    lw_id first = SUBMIT(engine, .kind = "gate"), second = SUBMIT(engine, .kind = "gate");
    start(engine);
    tally_await(&gate.arrived, 1);
    assert_int_equal(unlink(DB), 0);
    assert_not_accepted(engine);
    gate_open(&gate);
    assert_not_accepted(engine);
    await_that(state_of(engine, first) == LW_FINISHED); /* reads go on */
    assert_not_accepted(engine);
    assert_int_equal(state_of(engine, second), LW_ENQUEUED);
    lw_stop(engine, LW_DROP, 0);
    lw_close(engine);
    assert_int_equal(access(DB, F_OK), -1);
}

TEST(a_database_that_comes_back_goes_on_by_itself) {
    lw_engine *engine = open_owner();
    SUBMIT(engine, .kind = "mail");
    assert_int_equal(rename(DB, "elsewhere.db"), 0);
    assert_not_accepted(engine);
    assert_int_equal(rename("elsewhere.db", DB), 0);
    await_that(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL) == LW_OK);
    close_engine(engine);
    assert_int_equal(count_tasks(DB), 2);
}

TEST(a_database_in_the_place_of_another_is_left_alone) {
    lw_engine *engine = open_owner();
    SUBMIT(engine, .kind = "mail");
    put_another_there();
    assert_not_accepted(engine);
    lw_engine *another = open_owner();
    SUBMIT(another, .kind = "mail", .key = "a");
    SUBMIT(another, .kind = "mail", .key = "b");
    assert_not_accepted(engine);
    lw_close(engine);
    SUBMIT(another, .kind = "mail", .key = "c");
    close_engine(another);
    assert_int_equal(count_tasks(DB), 3);
    assert_int_equal(count_tasks("old.db"), 1);
}

TEST(a_deleted_wal_file_accepts_nothing_and_loses_nothing) {
    lw_engine *engine = open_owner();
    SUBMIT(engine, .kind = "mail");
    assert_int_equal(unlink(DB "-wal"), 0);
    assert_not_accepted(engine);
    lw_close(engine);
    assert_int_equal(count_tasks(DB), 1);
}

TEST(a_client_of_a_deleted_database_is_told_so) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    lw_engine_stats stats;
    close_engine(open_owner());
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    lw_id id = SUBMIT(client, .kind = "mail");
    assert_status(lw_wait(client, id, 0, &s), LW_PENDING);
    assert_int_equal(unlink(DB), 0);
    assert_not_accepted(client);
    assert_status(lw_cancel(client, id), LW_ESYSTEM);
    assert_status(lw_get(client, id, &s), LW_ESYSTEM);
    assert_status(lw_get_stats(client, &stats), LW_ESYSTEM);
    assert_status(lw_wait(client, id, -1, &s), LW_ESYSTEM);
    lw_snapshot_clear(&s);
    lw_close(client);
}

static void *wait_for_ever(void *client) {
    static int status;
    status = lw_wait(client, 1000000000000001, -1, NULL);
    return &status;
}

TEST(a_client_that_waits_is_told_of_a_deleted_database) {
    pthread_t thread;
    void *status;
    close_engine(open_owner());
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    SUBMIT(client, .kind = "mail");
    assert_int_equal(pthread_create(&thread, NULL, wait_for_ever, client), 0);
    assert_int_equal(unlink(DB), 0);
    pthread_join(thread, &status);
    assert_status(*(int *)status, LW_ESYSTEM);
    lw_close(client);
}
