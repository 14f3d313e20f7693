/* sqlite_wal.c: how an owner writes its -wal file. */
#include "cut_vfs.h"
#include "engines.h"
#include "own_sqlite.h"
#include "store/sqlite/wal.h"
#include "test.h"

#include <sys/stat.h>

#define PATH "tasks.db"

enum { TURNS = 40 };

static long long wal_size(void) {
    struct stat status;
    assert_int_equal(stat(PATH "-wal", &status), 0);
    return status.st_size;
}

TEST(a_turn_is_one_write_and_others_see_it_at_once) {
    uint64_t least = UINT64_MAX;
    cut_vfs_install();
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 1);
    sqlite3 *db = connect_db(PATH);
    for (int i = 1; i <= TURNS; i++) {
        uint64_t before = cut_vfs_calls(CUT_WRITE);
        SUBMIT(engine, .kind = "k", .payload = LW_TEXT("a payload"));
        uint64_t writes = cut_vfs_calls(CUT_WRITE) - before;
        least = writes < least ? writes : least;
        assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), i);
    }
    assert_int_equal(least, 1); /* some grow the file as well */
    assert_true(cut_vfs_calls(CUT_SYNC) >= TURNS);
    sqlite3_close(db);
    close_engine(engine);
}

TEST(the_wal_file_grows_ahead_and_not_with_each_turn) {
    int growths = 0;
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 1);
    SUBMIT(engine, .kind = "k");
    for (int i = 0; i < TURNS; i++) {
        long long before = wal_size();
        SUBMIT(engine, .kind = "k");
        growths += wal_size() > before;
    }
    assert_true(growths <= 4);
    close_engine(engine);
}

TEST(a_disk_without_room_to_grow_ahead_accepts_what_it_has_room_for) {
    cut_vfs_install();
    lw_engine *engine = OPEN_ON("sqlite:" PATH, .workers = 1);
    for (int i = 0; i < TURNS; i++) {
        long long before = wal_size();
        cut_vfs_order((struct cut_order){CUT_FULL, CUT_WRITE, .nth = 2, .count = UINT64_MAX});
        SUBMIT(engine, .kind = "k");
        cut_vfs_end_orders();
        assert_true(wal_size() - before < 64 * 1024);
    }
    assert_true(cut_vfs_failed() > 0);
    sqlite3 *db = connect_db(PATH);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), TURNS);
    sqlite3_close(db);
    close_engine(engine);
}

/* ---- what is not committed ---------------------------------------------------------------- */

static sqlite3 *connect_through(const struct lw__sqlite_wal *wal) {
    sqlite3 *db;
    assert_int_equal(
        sqlite3_open_v2("own.db", &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, wal->name),
        SQLITE_OK);
    run_sql(db, "PRAGMA journal_mode = WAL; PRAGMA cache_size = 5");
    run_sql(db, "CREATE TABLE t (n INTEGER PRIMARY KEY, bytes BLOB)");
    return db;
}

#define FILL                                                                                   \
    "INSERT INTO t (bytes) WITH c (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM c LIMIT 100)" \
    " SELECT zeroblob(3000) FROM c"

/* SQLite has written some of it already when there was no more memory for all of it. */
TEST(what_was_rolled_back_never_comes_over_what_others_wrote) {
    struct lw__sqlite_wal wal = {0};
    assert_true(lw__sqlite_wal_announce(&wal));
    sqlite3 *db = connect_through(&wal), *other = connect_db("own.db");
    for (int i = 1; i <= 3; i++) {
        run_sql(db, "BEGIN");
        run_sql(db, FILL);
        assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE length(bytes) = 3000"), 100);
        run_sql(db, "ROLLBACK");
        run_sql(other, "INSERT INTO t (bytes) VALUES (randomblob(200))");
        assert_int_equal(ask(db, "SELECT count(*) FROM t WHERE length(bytes) = 200"), i);
        wal.is_committing = true;
        run_sql(db, "UPDATE t SET bytes = bytes");
        wal.is_committing = false;
        assert_int_equal(ask(other, "SELECT count(*) FROM t WHERE length(bytes) = 200"), i);
    }
    assert_int_equal(ask(other, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    sqlite3_close(other);
    sqlite3_close(db);
    lw__sqlite_wal_forget(&wal);
}

TEST(a_commit_larger_than_what_is_gathered_is_whole) {
    struct lw__sqlite_wal wal = {0};
    assert_true(lw__sqlite_wal_announce(&wal));
    sqlite3 *db = connect_through(&wal), *other = connect_db("own.db");
    run_sql(db, "PRAGMA cache_size = 1000; PRAGMA synchronous = OFF"); /* no sync flushes it */
    run_sql(db, "BEGIN");
    run_sql(db, FILL);
    wal.is_committing = true;
    run_sql(db, "COMMIT");
    wal.is_committing = false;
    assert_int_equal(ask(other, "SELECT count(*) FROM t WHERE length(bytes) = 3000"), 100);
    assert_int_equal(ask(other, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    sqlite3_close(other);
    sqlite3_close(db);
    lw__sqlite_wal_forget(&wal);
}
