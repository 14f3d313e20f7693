/* Who moves what is committed from the -wal file into the database, and when: SQLite before 3.51.3
 * can damage a file if a connection commits while another one is in a checkpoint without the
 * writer's lock. */
#include "engines.h"
#include "own_sqlite.h"
#include "store/sqlite/file.h"
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DB "tasks.db"
#define URL "sqlite:" DB

enum { SIZE = 65536, MANY = 128 }; /* payloads: more than the 1,000 pages of a checkpoint */

static char payload[SIZE];

static long long size_of(const char *name) {
    struct stat st;
    return stat(name, &st) == 0 ? (long long)st.st_size : -1;
}

static struct lw__sqlite_file *open_as(enum lw__sqlite_mode mode) {
    struct lw__sqlite_file *file = NULL;
    assert_status(lw__sqlite_file_open(&file, DB, mode, NULL, NULL), LW_OK);
    return file;
}

TEST(no_connection_makes_checkpoints_by_itself) {
    static const enum lw__sqlite_mode modes[] = {LW__SQLITE_OWNER, LW__SQLITE_CLIENT,
                                                 LW__SQLITE_READER};
    for (size_t i = 0; i < 3; i++) {
        struct lw__sqlite_file *file = open_as(modes[i]);
        int is_off = -1;
        assert_int_equal(ask(file->db, "PRAGMA wal_autocheckpoint"), 0);
        sqlite3_db_config(file->db, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &is_off);
        assert_int_equal(is_off, modes[i] != LW__SQLITE_OWNER);
        assert_status(lw__sqlite_file_reopen(file, NULL), LW_OK);
        assert_int_equal(ask(file->db, "PRAGMA wal_autocheckpoint"), 0);
        lw__sqlite_file_close(file);
    }
}

/* What it has submitted is in the -wal file, for the next owner, even if it was the last. */
TEST(a_client_moves_nothing_into_the_database) {
    close_engine(OPEN_ON(URL, .workers = 1));
    long long before = size_of(DB);
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    for (int i = 0; i < MANY; i++)
        SUBMIT(client, .kind = "mail", .payload = {payload, SIZE});
    assert_int_equal(size_of(DB), before);
    close_engine(client);
    assert_int_equal(size_of(DB), before);
    assert_true(size_of(DB "-wal") > (long long)SIZE * MANY);
    lw_engine *owner = OPEN_ON(URL, .workers = 1);
    lw_engine_stats stats;
    start(owner);
    await_that(lw_get_stats(owner, &stats) == LW_OK && stats.submitted_total == MANY);
    close_engine(owner);
    assert_true(size_of(DB) > (long long)SIZE * MANY);
    assert_int_equal(size_of(DB "-wal"), -1);
}

TEST(the_owner_keeps_its_wal_file_short) {
    lw_engine *owner = OPEN_ON(URL, .workers = 1);
    for (int i = 0; i < 4 * MANY; i++)
        SUBMIT(owner, .kind = "mail", .payload = {payload, SIZE});
    assert_true(size_of(DB "-wal") < (long long)SIZE * MANY);
    close_engine(owner);
}

/* As a program is told to set up connections of its own: they leave it to the owner, even if there
 * is nothing in it for that. */
TEST(the_owner_keeps_the_wal_file_short_that_others_write) {
    lw_engine *owner = OPEN_ON(URL, .workers = 1);
    sqlite3 *db = connect_db(DB);
    start(owner);
    run_sql(db, "PRAGMA wal_autocheckpoint = 0; CREATE TABLE mine (bytes BLOB)");
    for (int i = 0; i < 16 * MANY && size_of(DB) < (long long)SIZE * 2 * MANY; i++)
        run_sql(db, "INSERT INTO mine VALUES (zeroblob(65536))");
    assert_true(size_of(DB) >= (long long)SIZE * 2 * MANY);
    sqlite3_close(db);
    close_engine(owner);
}

/* ---- the writer's lock ---------------------------------------------------------------------- */

static void write_pages(struct lw__sqlite_file *file, const char *sql) {
    assert_int_equal(sqlite3_exec(file->db, sql, NULL, NULL, NULL), SQLITE_OK);
}

/* Of SQLite a checkpoint that cannot get the lock goes on without, as a passive one. */
TEST(a_checkpoint_without_the_writers_lock_is_none) {
    static const int modes[] = {SQLITE_CHECKPOINT_FULL, SQLITE_CHECKPOINT_TRUNCATE};
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    sqlite3 *other = connect_db(DB);
    write_pages(file, "CREATE TABLE mine (bytes BLOB)");
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(lw__sqlite_checkpoint(file, modes[i]), SQLITE_OK);
        long long before = size_of(DB);
        write_pages(file, "INSERT INTO mine VALUES (zeroblob(65536))");
        run_sql(other, "BEGIN IMMEDIATE");
        file->patience = LW__SQLITE_NO_PATIENCE;
        assert_int_equal(lw__sqlite_checkpoint(file, modes[i]), SQLITE_BUSY);
        assert_int_equal(size_of(DB), before);
        run_sql(other, "ROLLBACK");
        assert_int_equal(lw__sqlite_checkpoint(file, modes[i]), SQLITE_OK);
        assert_true(size_of(DB) > before);
        assert_int_equal(ask(file->db, "SELECT count(*) FROM mine"), i + 1); /* it can go on */
    }
    sqlite3_close(other);
    lw__sqlite_file_close(file);
}

/* The owner's own ones are of that kind: while somebody else writes, it moves nothing. */
TEST(the_owner_makes_no_checkpoint_while_another_connection_writes) {
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    sqlite3 *other = connect_db(DB);
    write_pages(file, "CREATE TABLE mine (bytes BLOB); INSERT INTO mine VALUES (zeroblob(65536))");
    long long before = size_of(DB);
    run_sql(other, "BEGIN IMMEDIATE");
    lw__sqlite_checkpoint_now(file);
    assert_int_equal(size_of(DB), before);
    run_sql(other, "ROLLBACK");
    lw__sqlite_checkpoint_now(file);
    assert_true(size_of(DB) > before);
    sqlite3_close(other);
    lw__sqlite_file_close(file);
}

/* ---- versions ------------------------------------------------------------------------------- */

TEST(versions_of_sqlite_with_the_fault_are_known) {
    static const struct {
        int version;
        bool has_fault;
    } known[] = {{3006023, false}, {3007000, true},  {3037000, true},  {3040001, true},
                 {3044005, true},  {3044006, false}, {3045000, true},  {3046001, true},
                 {3050006, true},  {3050007, false}, {3051000, true},  {3051002, true},
                 {3051003, false}, {3052000, false}, {3053000, false}, {4000000, false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        assert_int_equal(lw__sqlite_has_wal_fault(known[i].version), known[i].has_fault);
}

TEST(a_program_can_ask_whether_the_library_below_its_store_has_a_fault) {
    lw_error fault = {0};
    bool has_fault = lw__sqlite_has_wal_fault(sqlite3_libversion_number());
    assert_int_equal(lw_store_has_fault(URL, &fault), has_fault);
    if (has_fault)
        assert_non_null(strstr(fault.message, sqlite3_libversion()));
    assert_int_equal(access(DB, F_OK), -1);
    assert_false(lw_store_has_fault("memory:", &fault));
    assert_false(lw_store_has_fault("nonsense", NULL));
    assert_false(lw_store_has_fault(NULL, NULL));
    assert_int_equal(lw_store_has_fault(URL, NULL), has_fault);
}
