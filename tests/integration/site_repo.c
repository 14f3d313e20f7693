/* The site manager's own connection to the engine's file, set up as docs/guides/durable.md says. */
#include "repo.h"
#include "test.h"

#include <sqlite3.h>

static sqlite3 *opened; /* the connection that was opened last */

static int note_connection(sqlite3 *db, const char **message,
                           const struct sqlite3_api_routines *api) {
    (void)message, (void)api;
    opened = db;
    return SQLITE_OK;
}

static int wal_autocheckpoint(void) {
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(opened, "PRAGMA wal_autocheckpoint", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int pages = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    return pages;
}

TEST(the_table_of_sites_leaves_checkpoints_to_the_engine) {
    struct repo *repo = NULL;
    lw_error err = {0};
    int is_left = 0;
    assert_int_equal(sqlite3_auto_extension((void (*)(void))note_connection), SQLITE_OK);
    assert_status(repo_open(&repo, "own.db", &err), LW_OK);
    assert_int_equal(wal_autocheckpoint(), 0);
    assert_int_equal(sqlite3_db_config(opened, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, -1, &is_left),
                     SQLITE_OK);
    assert_int_equal(is_left, 1);
    repo_close(repo);
}
