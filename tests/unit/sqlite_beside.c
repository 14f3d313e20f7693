/* What lies beside the database of an SQLite store, and what becomes of a store whose files do not
 * stay where they are. */
#include "engines.h"

#include <errno.h>
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
