/* What lies beside the database of an SQLite store, and what becomes of a store whose files do not
 * stay where they are. */
#include "engines.h"
#include "gate.h"
#include "own_sqlite.h"
#include "store/sqlite/running.h"

#include <errno.h>
#include <legwork/outbox_sqlite.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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
    struct lw__running running = {0};
    struct rlimit limit = {4096, 4096}; /* the largest file; a full disk would say ENOSPC */
    lw_error err = {0};
    assert_true(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_status(lw__running_open(&running, DB, 1000, &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, "make room for");
    assert_int_equal(err.native, EFBIG);
    assert_status(lw__running_open(&running, DB, 500, &err), LW_OK);
    lw__running_close(&running);
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

/* ---- names that lead elsewhere -------------------------------------------------------------- */

static void write_precious(void) {
    FILE *file = fopen("precious", "w");
    assert_true(file && fputs("not Legwork's", file) >= 0 && fclose(file) == 0);
    assert_int_equal(chmod("precious", 0640), 0);
}

/* Whoever can make names in the folder of a store must not make its owner, perhaps root, empty a
 * file elsewhere. */
static void assert_not_touched(const char *beside, const char *words) {
    char text[40] = "";
    assert_refused(LW_ESYSTEM, words);
    assert_refused(LW_ESYSTEM, beside);
    FILE *file = fopen("precious", "r");
    assert_true(file && fgets(text, sizeof text, file) && fclose(file) == 0);
    assert_string_equal(text, "not Legwork's");
    assert_int_equal(mode_of("precious"), 0640);
    assert_int_equal(unlink(beside), 0);
    close_engine(open_owner()); /* as the sentence says */
}

TEST(a_symbolic_link_beside_the_database_is_refused_and_not_followed) {
    static const char *const names[] = {DB "-owner", DB "-running"};
    write_precious();
    for (size_t i = 0; i < 2; i++) {
        unlink(names[i]);
        assert_int_equal(symlink("precious", names[i]), 0);
        assert_not_touched(names[i], "is a symbolic link");
        unlink(names[i]);
        assert_int_equal(symlink("nothing", names[i]), 0);
        assert_not_touched(names[i], "is a symbolic link");
        assert_int_equal(access("nothing", F_OK), -1);
    }
}

TEST(what_is_no_file_of_its_own_beside_the_database_is_refused) {
    static const char *const names[] = {DB "-owner", DB "-running"};
    write_precious();
    for (size_t i = 0; i < 2; i++) {
        unlink(names[i]);
        assert_int_equal(link("precious", names[i]), 0);
        assert_not_touched(names[i], "2 names");
        unlink(names[i]);
        assert_int_equal(mkfifo(names[i], 0600), 0);
        assert_not_touched(names[i], "is not a regular file");
    }
}

TEST(a_client_does_not_follow_links_beside_the_database_either) {
    close_engine(open_owner());
    lw_engine *owner = OPEN_ON("sqlite:other.db", .workers = 1);
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    lw_id id = SUBMIT(client, .kind = "mail");
    assert_int_equal(unlink(DB "-owner"), 0);
    assert_int_equal(symlink("other.db-owner", DB "-owner"), 0);
    lw_explanation seen;
    assert_status(lw_explain(client, id, &seen), LW_OK);
    assert_non_null(strstr(seen.reasons[1], "nobody owns the store right now"));
    close_engine(client);
    close_engine(owner);
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

static void assert_late(lw_engine *engine, const lw_task *task) {
    lw_error err = {0};
    assert_status(lw_submit(engine, task, NULL, &err), LW_ETIMEDOUT);
    assert_sentence(&err, LW_ETIMEDOUT, "the time given");
}

/* It is not accepted later, either. */
TEST(the_callers_deadline_bounds_the_wait_for_the_disk) {
    lw_engine *engine = open_owner(), *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    lw_ctx *ctx = NULL;
    const lw_task *soon = LW_TASK(.kind = "mail", .key = "k", .submit_timeout_ms = 20);
    sqlite3 *other = connect_db(DB);
    run_sql(other, "BEGIN IMMEDIATE");
    assert_late(engine, soon);
    assert_late(client, soon);
    assert_status(lw_ctx_open(&ctx, LW_CTX_OPTIONS(.timeout_ms = 20), NULL), LW_OK);
    assert_late(engine, LW_TASK(.kind = "mail", .key = "k", .ctx = ctx));
    const lw_task *many[] = {soon, LW_TASK(.kind = "mail", .key = "l")};
    assert_status(lw_submit_many(engine, many, 2, NULL, NULL), LW_ETIMEDOUT);
    run_sql(other, "ROLLBACK");
    lw_ctx_close(ctx);
    await_that(lw_submit(engine, LW_TASK(.kind = "mail", .key = "other"), NULL, NULL) == LW_OK);
    assert_int_equal(ask(other, "SELECT count(*) FROM legwork_task"), 1);
    assert_int_equal(ask(other, "SELECT count(*) FROM legwork_outbox"), 0);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail", .key = "k", .submit_timeout_ms = 60000),
                            NULL, NULL),
                  LW_OK);
    sqlite3_close(other);
    close_engine(client);
    close_engine(engine);
}

struct patient {
    lw_engine *client;
    int rc;
    struct tally returned;
};

static void *submit_patiently(void *arg) {
    struct patient *patient = arg;
    patient->rc = lw_submit(patient->client, LW_TASK(.kind = "mail"), NULL, NULL);
    tally_add(&patient->returned, 1);
    return NULL;
}

/* One that waits for 5 s has the client's connection. */
TEST(a_clients_deadline_bounds_its_wait_behind_other_threads) {
    pthread_t thread;
    lw_engine *engine = open_owner();
    struct patient patient = {.client = OPEN_ON(URL, .role = LW_ROLE_CLIENT), .returned = TALLY};
    sqlite3 *other = connect_db(DB);
    run_sql(other, "BEGIN IMMEDIATE");
    assert_int_equal(pthread_create(&thread, NULL, submit_patiently, &patient), 0);
    for (int i = 0; i < 20; i++) /* the other has got in by then */
        assert_late(patient.client, LW_TASK(.kind = "mail", .submit_timeout_ms = 20));
    assert_int_equal(tally_read(&patient.returned), 0);
    run_sql(other, "ROLLBACK");
    pthread_join(thread, NULL);
    assert_status(patient.rc, LW_OK);
    sqlite3_close(other);
    close_engine(patient.client);
    close_engine(engine);
}

/* ---- a drop while another has it ----------------------------------------------------------- */

static lw_store_health health_of(lw_engine *engine) {
    lw_store_health health;
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    return health;
}

static sqlite3 *holder;

/* Nothing but the outbox tells that it is done, and that cannot be looked at. */
static lw_outcome do_done_and_hold(lw_ctx *ctx, const lw_task *task) {
    lw_error err = {0};
    sqlite3 *db = connect_db(DB);
    (void)task;
    await_that(health_of(lw_ctx_user(ctx)).pending == 0);
    run_sql(db, "BEGIN IMMEDIATE");
    assert_status(lw_outbox_sqlite_done(db, ctx, &err), LW_OK);
    run_sql(db, "COMMIT");
    sqlite3_close(db);
    run_sql(holder, "BEGIN IMMEDIATE");
    return lw_fail(ctx, "it does not count");
}

static lw_outcome do_hold(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    run_sql(holder, "BEGIN IMMEDIATE");
    return lw_done(ctx);
}

static void open_held(lw_engine **engine, lw_handler handler, lw_id *id) {
    *engine = open_owner();
    holder = connect_db(DB);
    handle(*engine, "mail", handler, LW_HANDLER_OPTIONS(.user = *engine));
    start(*engine);
    *id = SUBMIT(*engine, .kind = "mail");
    await_that(sqlite3_get_autocommit(holder) == 0);
}

TEST(a_drop_gives_up_when_the_outbox_cannot_be_looked_at) {
    lw_engine *engine;
    lw_id id;
    open_held(&engine, do_done_and_hold, &id);
    await_that(health_of(engine).status == LW_EBUSY);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    run_sql(holder, "ROLLBACK");
    lw_close(engine);
    engine = open_owner(); /* what the handler has committed counts */
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
    sqlite3_close(holder);
}

TEST(the_store_goes_on_when_the_outbox_can_be_looked_at_again) {
    lw_engine *engine;
    lw_id id;
    open_held(&engine, do_done_and_hold, &id);
    await_that(health_of(engine).status == LW_EBUSY);
    run_sql(holder, "ROLLBACK");
    assert_status(lw_wait(engine, id, 200000, NULL), LW_OK);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    await_that(health_of(engine).status == LW_OK);
    close_engine(engine);
    sqlite3_close(holder);
}

/* Each try to write takes seconds: it does not take six of them. */
TEST(a_drop_gives_a_file_up_that_another_connection_holds) {
    lw_engine *engine;
    lw_id id;
    open_held(&engine, do_hold, &id);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    CHECK(health_of(engine).errors_total <= 3);
    run_sql(holder, "ROLLBACK");
    lw_close(engine);
    sqlite3_close(holder);
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

/* "A worker is about to take it" would be no answer. */
TEST(a_task_that_waits_for_a_store_that_cannot_be_written_says_so) {
    lw_explanation why;
    lw_engine *engine = open_owner();
    handle(engine, "mail", do_done, NULL);
    start(engine);
    lw_id later = SUBMIT(engine, .kind = "mail", .delay_ms = 3600000);
    assert_status(lw_pause(engine, "default"), LW_OK);
    lw_id now = SUBMIT(engine, .kind = "mail");
    assert_int_equal(rename(DB, "elsewhere"), 0);
    await_that(health_of(engine).status == LW_ESYSTEM);
    assert_status(lw_resume(engine, "default"), LW_OK);
    assert_status(lw_explain(engine, now, &why), LW_OK);
    assert_int_equal(why.count, 1);
    assert_non_null(strstr(why.reasons[0], "nothing starts until the store can be written again"));
    assert_non_null(strstr(why.reasons[0], "the file was deleted, moved or replaced"));
    assert_status(lw_explain(engine, later, &why), LW_OK);
    assert_non_null(strstr(why.reasons[0], "it is scheduled until"));
    assert_non_null(strstr(why.reasons[1], "nothing starts until the store"));
    assert_int_equal(rename("elsewhere", DB), 0);
    await_that(state_of(engine, now) == LW_FINISHED);
    close_engine(engine);
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

/* ---- two owners ----------------------------------------------------------------------------- */

#define TAKEN "another owner has taken the store"

static void assert_taken(lw_engine *engine) {
    lw_store_health health;
    lw_error err = {0};
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, TAKEN);
    assert_status(lw_get_store_health(engine, &health), LW_OK);
    assert_int_equal(health.status, LW_ESYSTEM);
    assert_string_equal(health.code, "store_taken");
    assert_sentence(&health.last, LW_ESYSTEM, "stop this process");
}

TEST(an_owner_writes_nothing_more_after_another_came_because_its_lock_was_deleted) {
    struct gate gate = GATE;
    lw_engine *first = open_owner();
    handle(first, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &gate));
    lw_id running = SUBMIT(first, .kind = "gate"), waiting = SUBMIT(first, .kind = "gate");
    start(first);
    tally_await(&gate.arrived, 1);
    assert_int_equal(unlink(DB "-owner"), 0);
    lw_engine *second = open_owner();
    assert_taken(first);
    gate_open(&gate); /* what ends is not written, what waits does not start */
    await_that(state_of(first, running) == LW_FINISHED);
    assert_taken(first);
    assert_status(lw_cancel(first, waiting), LW_EUNSURE);
    assert_int_equal(state_of(second, running), LW_ENQUEUED);
    assert_int_equal(state_of(second, waiting), LW_ENQUEUED);
    lw_stop(first, LW_DROP, 0);
    lw_close(first);
    SUBMIT(second, .kind = "mail");
    close_engine(second);
    assert_int_equal(count_tasks(DB), 3);
    assert_int_equal(tally_read(&gate.arrived), 1);
}

/* It has nothing to write: the other one's first commit tells it. */
TEST(an_idle_owner_sees_that_another_has_come) {
    lw_engine *first = open_owner();
    start(first);
    assert_int_equal(unlink(DB "-owner"), 0);
    lw_engine *second = open_owner();
    await_that(health_of(first).status == LW_ESYSTEM);
    assert_taken(first);
    start(second);
    SUBMIT(second, .kind = "mail");
    lw_close(first);
    assert_int_equal(health_of(second).status, LW_OK);
    close_engine(second);
    close_engine(open_owner());
}

/* A copy of the file from the time before the other owner, for instance: what the first one has in
 * memory may still be older than what is in there. */
TEST(an_owner_that_saw_another_does_not_go_on_when_its_nonce_is_back) {
    lw_engine *engine = open_owner();
    sqlite3 *db = connect_db(DB);
    char sql[128];
    snprintf(sql, sizeof sql, "UPDATE legwork_meta SET value = %lld WHERE key = 'owner_nonce'",
             (long long)ask(db, "SELECT value FROM legwork_meta WHERE key = 'owner_nonce'"));
    start(engine);
    run_sql(db, "UPDATE legwork_meta SET value = 1 WHERE key = 'owner_nonce'");
    assert_taken(engine);
    run_sql(db, sql);
    for (int i = 0; i < 3; i++)
        assert_taken(engine);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), 0);
    sqlite3_close(db);
    lw_stop(engine, LW_DROP, 0);
    lw_close(engine);
}

/* The list of what runs belongs to one process: the other one's tasks do not appear in it. */
TEST(two_owners_do_not_share_the_list_of_what_runs) {
    struct stat before, after;
    lw_engine *first = OPEN_ON(URL, .workers = 1000);
    assert_int_equal(stat(DB "-running", &before), 0);
    assert_int_equal(unlink(DB "-owner"), 0);
    lw_engine *second = open_owner();
    assert_int_equal(stat(DB "-running", &after), 0);
    assert_true(before.st_ino != after.st_ino);
    lw_close(first);
    close_engine(second);
}

TEST(an_owner_that_only_closes_leaves_the_file_of_another_as_it_is) {
    lw_engine *first = open_owner();
    assert_int_equal(unlink(DB "-owner"), 0);
    lw_engine *second = open_owner();
    sqlite3 *db = connect_db(DB);
    run_sql(db, "UPDATE legwork_meta SET value = 77 WHERE key = 'over_token'");
    lw_close(first);
    assert_int_equal(ask(db, "SELECT value FROM legwork_meta WHERE key = 'over_token'"), 77);
    sqlite3_close(db);
    close_engine(second);
}
