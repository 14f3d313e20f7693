/* The file of an SQLite store: made, opened again, brought to another version, and refused with a
 * sentence when it is somebody else's, damaged, owned or out of reach. Whoever is killed on the
 * way, or meets a failing disk, leaves it as it was or as it should be. */
#include "pools.h"

#include "store/sqlite/file.h"
#include "store/sqlite/file_internal.h"
#include "store/sqlite/sqlite.h"

#include <errno.h>
#include <fcntl.h>
#include <legwork/outbox_sqlite.h>
#include <legwork/testing.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))
#define DB "tasks.db"

static struct lw__sqlite_file *open_as(enum lw__sqlite_mode mode) {
    struct lw__sqlite_file *file = NULL;
    lw_error err = {0};
    int rc = lw__sqlite_file_open(&file, DB, mode, NULL, &err);
    if (rc != LW_OK)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    return file;
}

static void open_and_close(enum lw__sqlite_mode mode) {
    lw__sqlite_file_close(open_as(mode));
}

/* Refused with this status and these words; and nothing is left behind. */
static lw_error assert_refused(const char *path, enum lw__sqlite_mode mode, int status,
                               const char *words) {
    struct lw__sqlite_file *file = (struct lw__sqlite_file *)&path;
    lw_error err = {0};
    int fds = fd_count();
    int rc = lw__sqlite_file_open(&file, path, mode, NULL, &err);
    if (rc != status || strstr(err.message, words) == NULL)
        fprintf(stderr, "%s: %s, not: %s\n", path, err.message, words);
    assert_status(rc, status);
    assert_status(err.status, status);
    CHECK(strstr(err.message, words) != NULL);
    CHECK(strlen(err.message) > 20);
    assert_null(file);
    assert_int_equal(fd_count(), fds);
    return err;
}

/* ---- waiting for other connections --------------------------------------------------------- */

TEST(the_wait_for_a_lock_ends_by_the_clock_and_not_by_the_number_of_pauses) {
    struct lw__sqlite_patience patience = {.ms = 3600 * 1000, .is_shared = true};
    CHECK(lw__sqlite_wait_for_lock(&patience, 0));
    CHECK(lw__sqlite_wait_for_lock(&patience, 100 * LW__SQLITE_BUSY_MS));
    patience.until = 1; /* long ago */
    CHECK(!lw__sqlite_wait_for_lock(&patience, 1));
}

TEST(all_that_a_turn_waits_for_shares_one_deadline) {
    struct lw__sqlite_patience turn = {.until = 1, .is_shared = true};
    CHECK(!lw__sqlite_wait_for_lock(&turn, 0)); /* another call waited before */
    struct lw__sqlite_patience each = {.until = 1};
    CHECK(lw__sqlite_wait_for_lock(&each, 0));
    CHECK(each.until > 1);
    turn = LW__SQLITE_NO_PATIENCE;
    CHECK(!lw__sqlite_wait_for_lock(&turn, 0));
}

/* A turn of the owner (write.c) begins its deadline anew; after a failure it has the time that the
 * pause before it has left. */
static void assert_turn_waits(bool has_failed, uint64_t ms) {
    struct lw__sqlite_file file = {.patience = {.until = 1, .ms = 7}};
    struct lw__sqlite sqlite = {.file = &file};
    lw__sqlite_db_ops.start(&sqlite, has_failed);
    assert_int_equal(file.patience.until, 0);
    assert_int_equal(file.patience.ms, ms);
    CHECK(file.patience.is_shared);
    CHECK(lw__sqlite_wait_for_lock(&file.patience, 0));
    uint64_t until = file.patience.until;
    CHECK(lw__sqlite_wait_for_lock(&file.patience, 0)); /* another call of the same turn */
    assert_int_equal(file.patience.until, until);
}

TEST(a_turn_has_one_deadline_which_is_nearer_after_a_failure) {
    assert_turn_waits(false, LW__SQLITE_BUSY_MS);
    assert_turn_waits(true, LW__SQLITE_BUSY_MS - LW__PUMP_RETRY_MS_MAX);
}

/* ---- SQL of a stranger -------------------------------------------------------------------- */

static int try_sql(sqlite3 *db, const char *sql) {
    return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void run_sql(sqlite3 *db, const char *sql) {
    if (try_sql(db, sql) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    assert_int_equal(sqlite3_errcode(db), SQLITE_OK);
}

/* The first value, as text; it lives until the next call. */
static const char *ask(sqlite3 *db, const char *sql) {
    static char text[400];
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(db, sql, -1, &statement, NULL) != SQLITE_OK)
        fprintf(stderr, "%s: %s\n", sql, sqlite3_errmsg(db));
    int code = sqlite3_step(statement);
    const void *value = code == SQLITE_ROW ? sqlite3_column_text(statement, 0) : NULL;
    snprintf(text, sizeof text, "%s", value ? (const char *)value : "nothing");
    sqlite3_finalize(statement);
    return text;
}

static sqlite3 *connect_to(const char *path) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    return db;
}

static void run_on(const char *path, const char *sql) {
    sqlite3 *db = connect_to(path);
    run_sql(db, sql);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

static void assert_whole(void) {
    sqlite3 *db = connect_to(DB);
    assert_string_equal(ask(db, "PRAGMA integrity_check"), "ok");
    sqlite3_close(db);
}

/* ---- making one --------------------------------------------------------------------------- */

TEST(a_new_file_is_durable_marked_and_empty) {
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "PRAGMA journal_mode"), "wal");
    assert_string_equal(ask(file->db, "PRAGMA synchronous"), "2");
    assert_string_equal(ask(file->db, "PRAGMA auto_vacuum"), "2");
    assert_string_equal(ask(file->db, "PRAGMA application_id"), "1280791115");
    assert_string_equal(ask(file->db, "PRAGMA user_version"), "2");
    assert_string_equal(ask(file->db, "SELECT value FROM legwork_meta WHERE key = 'schema'"), "2");
    assert_string_equal(ask(file->db, "SELECT value FROM legwork_meta WHERE key = 'last_id'"), "0");
    assert_string_equal(ask(file->db, "SELECT count(*) FROM legwork_task"), "0");
    assert_string_equal(ask(file->db, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND "
                                      "name LIKE 'legwork_%' AND sql NOT LIKE '%STRICT%'"),
                        "0");
    lw__sqlite_file_close(file);
    assert_whole();
}

TEST(what_was_written_is_there_when_it_is_opened_again) {
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    sqlite3_stmt *put = file->statements[LW__SQL_META_PUT];
    sqlite3_bind_text(put, 1, "last_id", -1, SQLITE_STATIC);
    sqlite3_bind_int64(put, 2, 4711);
    assert_status(lw__sqlite_file_run(file, LW__SQL_META_PUT, "write", NULL), LW_OK);
    lw__sqlite_file_close(file);
    file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "SELECT value FROM legwork_meta WHERE key = 'last_id'"),
                        "4711");
    lw__sqlite_file_close(file);
}

TEST(closing_nothing_is_fine_and_an_open_transaction_is_rolled_back) {
    lw__sqlite_file_close(NULL);
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_status(lw__sqlite_file_run(file, LW__SQL_BEGIN, "begin", NULL), LW_OK);
    run_sql(file->db, "UPDATE legwork_meta SET value = 9 WHERE key = 'last_id'");
    lw__sqlite_file_close(file);
    file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "SELECT value FROM legwork_meta WHERE key = 'last_id'"), "0");
    lw__sqlite_file_close(file);
}

TEST(an_empty_file_is_taken_as_a_new_one) {
    close(creat(DB, 0644));
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "PRAGMA auto_vacuum"), "2");
    assert_string_equal(ask(file->db, "PRAGMA user_version"), "2");
    lw__sqlite_file_close(file);
}

/* ---- paths -------------------------------------------------------------------------------- */

TEST(a_path_that_is_none_is_refused) {
    char longest[600];
    mkdir("folder", 0755);
    mkfifo("pipe", 0644);
    assert_int_equal(symlink("nowhere", "link"), 0);
    memset(longest, 'x', sizeof longest);
    for (size_t i = 100; i < 500; i += 100)
        longest[i] = '\0', mkdir(longest, 0755), longest[i] = '/';
    longest[550] = '\0';

    assert_refused("", LW__SQLITE_OWNER, LW_EINVAL, "sqlite:tasks.db");
    assert_refused(":memory:", LW__SQLITE_OWNER, LW_EINVAL, "\"memory:\"");
    assert_refused("tasks.db?x=1", LW__SQLITE_OWNER, LW_EINVAL, "question mark");
    assert_refused("folder", LW__SQLITE_OWNER, LW_EINVAL, "directory");
    assert_refused("folder/", LW__SQLITE_CLIENT, LW_EINVAL, "directory");
    assert_refused("pipe", LW__SQLITE_OWNER, LW_EINVAL, "is none");
    assert_refused("link", LW__SQLITE_OWNER, LW_EINVAL, "nowhere");
    assert_refused(longest, LW__SQLITE_OWNER, LW_EINVAL, "480");
    lw_error err = assert_refused("no/such/tasks.db", LW__SQLITE_OWNER, LW_ESYSTEM, "directory");
    assert_int_equal(err.native, ENOENT);
    assert_refused("pipe/tasks.db", LW__SQLITE_OWNER, LW_ESYSTEM, "directory");
}

TEST(a_name_that_is_a_uri_to_sqlite_is_just_a_name) {
    struct lw__sqlite_file *file = NULL;
    assert_status(lw__sqlite_file_open(&file, "file:x", LW__SQLITE_OWNER, NULL, NULL), LW_OK);
    assert_int_equal(file->path[0], '/');
    lw__sqlite_file_close(file);
    assert_int_equal(access("file:x", F_OK), 0);
}

TEST(all_names_of_one_file_have_one_owner) {
    char absolute[PATH_MAX + 40];
    char here[PATH_MAX];
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    mkdir("folder", 0755);
    assert_int_equal(symlink("../" DB, "folder/other.db"), 0);
    assert_non_null(getcwd(here, sizeof here));
    snprintf(absolute, sizeof absolute, "//%s/folder/../%s", here, DB);
    assert_refused("folder/other.db", LW__SQLITE_OWNER, LW_EBUSY, "owns");
    assert_refused(absolute, LW__SQLITE_OWNER, LW_EBUSY, "owns");
    lw__sqlite_file_close(file);
}

TEST(a_file_with_two_hard_links_is_refused_by_either_name_until_one_is_gone) {
    open_and_close(LW__SQLITE_OWNER);
    assert_int_equal(symlink(DB, "soft.db"), 0);
    assert_int_equal(link(DB, "hard.db"), 0);
    for (enum lw__sqlite_mode mode = LW__SQLITE_OWNER; mode <= LW__SQLITE_READER; mode++) {
        assert_refused(DB, mode, LW_EINVAL, "2 names (hard links)");
        assert_refused("hard.db", mode, LW_EINVAL, "symbolic links");
        assert_refused("soft.db", mode, LW_EINVAL, DB);
    }
    assert_int_not_equal(access("hard.db-owner", F_OK), 0);
    assert_int_equal(unlink("hard.db"), 0);
    open_and_close(LW__SQLITE_OWNER);
    assert_int_equal(access("soft.db", F_OK), 0);
}

/* ---- ownership ---------------------------------------------------------------------------- */

/* A process that owns the store until it is killed. */
static pid_t start_owner(void) {
    int ready[2];
    char byte;
    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        open_as(LW__SQLITE_OWNER);
        byte = (char)write(ready[1], "x", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

TEST(a_second_owner_is_refused_and_told_the_first_until_that_is_killed) {
    char words[40];
    pid_t pid = start_owner();
    snprintf(words, sizeof words, "process %ld owns", (long)pid);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, words);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, words);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    open_and_close(LW__SQLITE_OWNER);
}

static void kill_owner(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void remove_store(void) {
    unlink(DB);
    unlink(DB "-wal");
    unlink(DB "-shm");
}

static void assert_missed(void) {
    lw_error err = assert_refused(DB, LW__SQLITE_OWNER, LW_ESYSTEM, "did not close it");
    assert_int_equal(err.native, ENOENT);
    assert_int_not_equal(access(DB, F_OK), 0);
}

TEST(a_file_that_is_gone_after_a_kill_is_not_replaced_by_an_empty_one) {
    kill_owner(start_owner());
    assert_int_equal(rename(DB, "elsewhere"), 0);
    assert_missed();
    assert_missed(); /* the refusal forgets nothing */
    assert_int_equal(rename("elsewhere", DB), 0);
    open_and_close(LW__SQLITE_OWNER);

    remove_store(); /* it was closed, and is to be begun anew */
    kill_owner(start_owner());
    remove_store();
    assert_missed();
    unlink(DB "-owner"); /* as the sentence says */
    open_and_close(LW__SQLITE_OWNER);
}

TEST(an_empty_file_after_a_kill_is_as_good_as_none) {
    kill_owner(start_owner());
    assert_int_equal(truncate(DB, 0), 0);
    assert_refused(DB, LW__SQLITE_OWNER, LW_ESYSTEM, "did not close it");
}

TEST(an_owner_whose_file_was_deleted_does_not_count_as_closed) {
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    remove_store();
    lw__sqlite_file_close(file);
    assert_missed();
}

/* It is refused for another reason meanwhile, and knows of the kill all the same. */
TEST(a_refused_owner_does_not_count_as_closed_either) {
    kill_owner(start_owner());
    assert_int_equal(rename(DB, "elsewhere"), 0);
    run_on(DB, "CREATE TABLE theirs (a); PRAGMA application_id = 99");
    assert_refused(DB, LW__SQLITE_OWNER, LW_ESYSTEM, "no tables of Legwork");
    remove_store();
    assert_missed();
}

TEST(a_second_owner_in_the_same_process_is_refused) {
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, "this process");
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, "this process"); /* the refusal took nothing */
    lw__sqlite_file_close(file);
    open_and_close(LW__SQLITE_OWNER);
}

TEST(a_refused_owner_leaves_no_lock_behind) {
    run_on(DB, "CREATE TABLE theirs (a); PRAGMA application_id = 99");
    assert_refused(DB, LW__SQLITE_OWNER, LW_EINVAL, "another program");
    unlink(DB);
    open_and_close(LW__SQLITE_OWNER);
}

TEST(a_lock_file_that_says_nothing_or_lies_is_no_owner) {
    int fd = open(DB "-owner", O_CREAT | O_WRONLY, 0644);
    assert_int_equal(write(fd, "1\n", 2), 2);
    close(fd);
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_int_equal(truncate(DB "-owner", 0), 0);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, "another process");
    lw__sqlite_file_close(file);
}

TEST(a_forked_child_that_lives_on_holds_the_ownership) {
    pid_t owner = fork();
    if (owner == 0) {
        open_as(LW__SQLITE_OWNER);
        if (fork() != 0)
            _exit(0);
        for (;;)
            pause();
    }
    waitpid(owner, NULL, 0);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EBUSY, "child of process");
}

TEST(clients_and_readers_open_beside_the_owner) {
    struct lw__sqlite_file *owner = open_as(LW__SQLITE_OWNER);
    struct lw__sqlite_file *client = open_as(LW__SQLITE_CLIENT);
    struct lw__sqlite_file *reader = open_as(LW__SQLITE_READER);
    run_sql(client->db, "INSERT INTO legwork_outbox (kind) VALUES ('send-email')");
    assert_string_equal(ask(owner->db, "SELECT kind FROM legwork_outbox"), "send-email");
    assert_string_equal(ask(reader->db, "SELECT kind FROM legwork_outbox"), "send-email");
    assert_int_equal(try_sql(reader->db, "DELETE FROM legwork_outbox") & 0xff, SQLITE_READONLY);
    lw__sqlite_file_close(owner);
    lw__sqlite_file_close(client);
    lw__sqlite_file_close(reader);
}

TEST(a_client_or_reader_that_comes_first_makes_nothing) {
    assert_refused(DB, LW__SQLITE_READER, LW_ENOTFOUND, "no store yet");
    assert_refused(DB, LW__SQLITE_CLIENT, LW_ENOTFOUND, "its owner makes it");
    assert_int_equal(access(DB, F_OK), -1);
    open_and_close(LW__SQLITE_OWNER);
    open_and_close(LW__SQLITE_CLIENT);
    open_and_close(LW__SQLITE_READER);
    run_on("theirs.db", "CREATE TABLE theirs (a)");
    assert_refused("theirs.db", LW__SQLITE_READER, LW_ENOTFOUND, "no tasks");
    assert_refused("theirs.db", LW__SQLITE_CLIENT, LW_ENOTFOUND, "no tasks");
    sqlite3 *db = connect_to("theirs.db");
    assert_string_equal(ask(db, "SELECT count(*) FROM sqlite_schema"), "1");
    sqlite3_close(db);
}

/* As a program does that has its own tables. */
static void prepare_and_close(void) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open(DB, &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    lw_error err = {0};
    int rc = lw_outbox_sqlite_prepare(db, &err);
    if (rc < 0)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    sqlite3_close(db);
}

TEST(many_that_come_first_at_once_make_one_store) {
    enum { PROCESSES = 8 };
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < PROCESSES; i++) {
            if (fork() == 0) {
                if (i == 0)
                    open_and_close(LW__SQLITE_OWNER);
                else
                    prepare_and_close();
                _exit(0);
            }
        }
        for (int i = 0; i < PROCESSES; i++) {
            int status;
            CHECK(wait(&status) > 0);
            assert_int_equal(status, 0);
        }
        assert_whole();
        open_and_close(LW__SQLITE_OWNER);
        unlink(DB);
    }
}

/* ---- files of others ---------------------------------------------------------------------- */

TEST(a_program_can_keep_its_own_tables_in_the_file) {
    run_on(DB, "CREATE TABLE theirs (a); INSERT INTO theirs VALUES (5); PRAGMA user_version = 42");
    struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "PRAGMA application_id"), "0");
    assert_string_equal(ask(file->db, "PRAGMA user_version"), "42");
    assert_string_equal(ask(file->db, "SELECT a FROM theirs"), "5");
    lw__sqlite_file_close(file);
    run_on(DB, "PRAGMA application_id = 99; CREATE INDEX theirs_a ON theirs (a)");
    file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "PRAGMA application_id"), "99");
    lw__sqlite_file_close(file);
}

TEST(a_file_of_another_program_is_refused_and_left_alone) {
    run_on(DB, "CREATE TABLE theirs (a); PRAGMA application_id = 0x12345678");
    assert_refused(DB, LW__SQLITE_OWNER, LW_EINVAL, "0x12345678");
    assert_refused(DB, LW__SQLITE_CLIENT, LW_EINVAL, "0x12345678");
    sqlite3 *db = connect_to(DB);
    assert_string_equal(ask(db, "PRAGMA journal_mode"), "delete");
    assert_string_equal(ask(db, "SELECT count(*) FROM sqlite_schema"), "1");
    sqlite3_close(db);
}

TEST(a_file_whose_text_is_utf_16_is_refused_and_left_alone) {
    lw_error err = {0};
    run_on(DB, "PRAGMA encoding = 'UTF-16le'; CREATE TABLE mine (x)");
    assert_refused(DB, LW__SQLITE_OWNER, LW_EINVAL, "UTF-16, must be UTF-8");
    assert_refused(DB, LW__SQLITE_CLIENT, LW_EINVAL, "UTF-16");
    sqlite3 *db = connect_to(DB);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_EINVAL);
    CHECK(strstr(err.message, "UTF-16") != NULL);
    assert_string_equal(ask(db, "PRAGMA journal_mode"), "delete");
    assert_string_equal(ask(db, "SELECT count(*) FROM sqlite_schema"), "1");
    sqlite3_close(db);
    assert_int_equal(sqlite3_open("new.db", &db), SQLITE_OK); /* nor is one made */
    run_sql(db, "PRAGMA encoding = 'UTF-16'");
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_EINVAL);
    sqlite3_close(db);
}

TEST(a_file_of_a_newer_version_is_refused_and_left_alone) {
    open_and_close(LW__SQLITE_OWNER);
    run_on(DB, "UPDATE legwork_meta SET value = 3 WHERE key = 'schema'");
    assert_refused(DB, LW__SQLITE_OWNER, LW_EINVAL, "version 3, and this one knows 2");
    assert_refused(DB, LW__SQLITE_CLIENT, LW_EINVAL, "newer");
    assert_refused(DB, LW__SQLITE_READER, LW_EINVAL, "newer");
}

/* ---- damage ------------------------------------------------------------------------------- */

static void overwrite(off_t at, size_t size, int with) {
    char bytes[8192];
    int fd = open(DB, O_WRONLY);
    memset(bytes, with, size);
    assert_int_equal(pwrite(fd, bytes, size, at), size);
    close(fd);
}

static void make_damaged(const char *sql) {
    unlink(DB);
    open_and_close(LW__SQLITE_OWNER);
    run_on(DB, sql);
}

TEST(a_file_that_is_no_database_is_refused) {
    static const char text[] =
        "Dear Ann,\nthis is a letter and not a database at all. Yours, Bob\n";
    int fd = creat(DB, 0644);
    for (int i = 0; i < 100; i++)
        assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    for (int mode = LW__SQLITE_OWNER; mode <= LW__SQLITE_READER; mode++)
        assert_refused(DB, (enum lw__sqlite_mode)mode, LW_ECORRUPT, "not an SQLite database");
    struct stat st;
    assert_int_equal(stat(DB, &st), 0);
    assert_int_equal(st.st_size, 100 * (sizeof text - 1));
}

TEST(a_damaged_file_is_refused) {
    make_damaged("SELECT 1");
    assert_int_equal(truncate(DB, 3 * 4096), 0);
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "damaged");
    make_damaged("SELECT 1");
    overwrite(100, 3996, 0xaa); /* the schema */
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "damaged");
}

TEST(damage_at_the_root_of_any_table_is_found_at_open) {
    char sql[200];
    int tables = 0;
    for (int page = 3; page < 100; page++, tables++) { /* page 2 is the auto-vacuum's */
        make_damaged("SELECT 1");
        sqlite3 *db = connect_to(DB);
        snprintf(sql, sizeof sql, "SELECT name FROM sqlite_schema WHERE rootpage = %d", page);
        char name[100];
        snprintf(name, sizeof name, "%s", ask(db, sql));
        sqlite3_close(db);
        if (strcmp(name, "nothing") == 0)
            break;
        overwrite((page - 1) * 4096, 4096, 0xaa);
        assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "damaged");
    }
    assert_int_equal(tables, 9);
}

TEST(a_file_whose_tables_are_not_what_they_should_be_is_refused) {
    make_damaged("DROP TABLE legwork_lease");
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "legwork_lease");
    make_damaged("ALTER TABLE legwork_task DROP COLUMN partial");
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "partial");
    make_damaged("DELETE FROM legwork_meta");
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "which version");
    make_damaged("UPDATE legwork_meta SET value = 'one' WHERE key = 'schema'");
    assert_refused(DB, LW__SQLITE_CLIENT, LW_ECORRUPT, "which version");
    make_damaged("DROP TABLE legwork_meta");
    assert_refused(DB, LW__SQLITE_OWNER, LW_ECORRUPT, "legwork_meta");
}

/* ---- what may not be written -------------------------------------------------------------- */

/* Root may write anywhere. */
static void become_nobody(mode_t mode_of_folder) {
    assert_int_equal(chmod(".", mode_of_folder), 0);
    if (geteuid() == 0)
        assert_int_equal(seteuid(65534), 0);
}

static void become_oneself(void) {
    assert_int_equal(seteuid(getuid()), 0);
    assert_int_equal(chmod(".", 0700), 0);
    prctl(PR_SET_DUMPABLE, 1); /* the leak sanitizer looks into its own process */
}

TEST(a_file_that_may_not_be_written_to_is_refused) {
    open_and_close(LW__SQLITE_OWNER);
    unlink(DB "-owner");
    assert_int_equal(chmod(DB, 0444), 0);
    become_nobody(0777);
    lw_error err = assert_refused(DB, LW__SQLITE_OWNER, LW_ESYSTEM, "read-only");
    assert_int_equal(err.native, EACCES);
    assert_refused(DB, LW__SQLITE_CLIENT, LW_ESYSTEM, "read-only");
    open_and_close(LW__SQLITE_READER);
    become_oneself();
}

TEST(a_directory_that_may_not_be_written_to_is_refused) {
    open_and_close(LW__SQLITE_OWNER);
    unlink(DB "-owner");
    assert_int_equal(chmod(DB, 0666), 0);
    become_nobody(0555);
    lw_error err = assert_refused(DB, LW__SQLITE_OWNER, LW_ESYSTEM, "Permission denied");
    assert_int_equal(err.native, EACCES);
    assert_refused(DB, LW__SQLITE_CLIENT, LW_ESYSTEM, "cannot");
    assert_refused("new.db", LW__SQLITE_CLIENT, LW_ENOTFOUND, "no store yet");
    become_oneself();
}

/* ---- a disk that fails, and a process that is killed ---------------------------------------- */

/* The VFS of the system, but at the n-th call that changes a file something else happens. */
static int calls_left = -1; /* until then; -1: nothing happens */
static int happens;         /* an error; 0: the process is gone */
static bool has_happened;

static int change(void) {
    if (calls_left < 0 || calls_left-- > 0)
        return SQLITE_OK;
    if (happens == 0)
        _exit(77);
    has_happened = true;
    return happens;
}

/* The methods of a file as the system has them, three of them replaced. */
struct methods {
    sqlite3_io_methods replaced;
    const sqlite3_io_methods *real;
};

static const sqlite3_io_methods *real_of(sqlite3_file *file) {
    return ((const struct methods *)file->pMethods)->real;
}

static int write_or_not(sqlite3_file *file, const void *bytes, int size, sqlite3_int64 at) {
    int code = change();
    return code ? code : real_of(file)->xWrite(file, bytes, size, at);
}

static int truncate_or_not(sqlite3_file *file, sqlite3_int64 size) {
    int code = change();
    return code ? code : real_of(file)->xTruncate(file, size);
}

static int sync_or_not(sqlite3_file *file, int flags) {
    int code = change();
    return code ? code : real_of(file)->xSync(file, flags);
}

static struct methods all_methods[4]; /* the system has one table for databases, one for journals */

static sqlite3_vfs *system_vfs;

static int open_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out) {
    (void)vfs;
    int code = system_vfs->xOpen(system_vfs, name, file, flags, out);
    if (file->pMethods == NULL)
        return code;
    struct methods *methods = all_methods;
    while (methods->real != NULL && methods->real != file->pMethods)
        methods++;
    CHECK(methods < all_methods + COUNT_OF(all_methods));
    methods->real = file->pMethods;
    methods->replaced = *methods->real;
    methods->replaced.xWrite = write_or_not;
    methods->replaced.xTruncate = truncate_or_not;
    methods->replaced.xSync = sync_or_not;
    file->pMethods = &methods->replaced;
    return code;
}

static int delete_or_not(sqlite3_vfs *vfs, const char *name, int sync) {
    (void)vfs;
    int code = change();
    return code ? code : system_vfs->xDelete(system_vfs, name, sync);
}

static void use_failing_vfs(void) {
    static sqlite3_vfs vfs;
    system_vfs = sqlite3_vfs_find(NULL);
    vfs = *system_vfs;
    vfs.zName = "failing";
    vfs.xOpen = open_file;
    vfs.xDelete = delete_or_not;
    assert_int_equal(sqlite3_vfs_register(&vfs, 1), SQLITE_OK);
}

/* Lets a child do it, killed at its n-th change. False: it came to its end before. */
static bool is_killed_at(int nth, void (*doing)(void)) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        calls_left = nth;
        doing();
        _exit(0);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 77 || status == 0));
    return status != 0;
}

static void make_store(void) {
    open_and_close(LW__SQLITE_OWNER);
}

TEST(whoever_is_killed_while_making_a_store_leaves_one_that_can_be_made) {
    use_failing_vfs();
    int nth = 0;
    for (; is_killed_at(nth, make_store); nth++) {
        struct lw__sqlite_file *file = open_as(LW__SQLITE_OWNER);
        assert_string_equal(ask(file->db, "PRAGMA user_version"), "2");
        assert_string_equal(ask(file->db, "PRAGMA auto_vacuum"), "2");
        lw__sqlite_file_close(file);
        assert_whole();
        remove_store();
    }
    CHECK(nth > 10);
}

/* A later version: it adds a column, fills it, and moves something. */
static const char second[] =
    "ALTER TABLE legwork_task ADD COLUMN colour TEXT;"
    "UPDATE legwork_task SET colour = 'red';"
    "INSERT INTO legwork_meta SELECT 'task ' || id, kind FROM legwork_task;";
static const char third[] = "CREATE INDEX legwork_task_kind ON legwork_task (kind);"
                            "DELETE FROM legwork_task WHERE id > 100;";
static const char broken[] = "DELETE FROM legwork_task; SELECT no_such_column FROM legwork_task;";
static const char *const migrations[] = {lw__sql_migration_1, lw__sql_migration_2, second, third};
static const char *const broken_ones[] = {lw__sql_migration_1, lw__sql_migration_2, second, broken};
static const struct lw__sqlite_schema later = {.migrations = migrations, .version = 4};
static const struct lw__sqlite_schema wrong = {.migrations = broken_ones, .version = 4};

static void make_old_store(void) {
    remove_store();
    make_store();
    run_on(DB, "INSERT INTO legwork_task (id, kind, queue, state, priority, created_ms, due_ms) "
               "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000) "
               "SELECT i, 'send-email', 'default', 'enqueued', 1000, 0, 0 FROM n");
}

static int apply(const struct lw__sqlite_schema *schema, enum lw__sqlite_mode mode, lw_error *err) {
    sqlite3 *db = connect_to(DB);
    int rc = lw__sqlite_schema_apply(schema, db, mode, DB, err);
    sqlite3_close(db);
    return rc;
}

static void migrate_store(void) {
    assert_status(apply(&later, LW__SQLITE_OWNER, NULL), LW_OK);
}

static void assert_version(int version) {
    sqlite3 *db = connect_to(DB);
    assert_int_equal(strtol(ask(db, "PRAGMA user_version"), NULL, 10), version);
    assert_int_equal(
        strtol(ask(db, "SELECT value FROM legwork_meta WHERE key = 'schema'"), NULL, 10), version);
    assert_string_equal(ask(db, "SELECT count(*) FROM legwork_task"),
                        version == 2 ? "1000" : "100");
    assert_string_equal(ask(db, "SELECT count(*) FROM pragma_table_info('legwork_task') "
                                "WHERE name = 'colour'"),
                        version == 2 ? "0" : "1");
    assert_string_equal(ask(db, "PRAGMA integrity_check"), "ok");
    sqlite3_close(db);
}

TEST(an_owner_brings_an_old_file_to_its_version_and_others_do_not) {
    lw_error err;
    make_old_store();
    assert_status(apply(&later, LW__SQLITE_CLIENT, &err), LW_EINVAL);
    CHECK(strstr(err.message, "an owner has to bring them to 4") != NULL);
    assert_status(apply(&later, LW__SQLITE_READER, &err), LW_EINVAL);
    assert_version(2);
    migrate_store();
    assert_version(4);
    migrate_store(); /* and that was all */
    assert_version(4);
    assert_refused(DB, LW__SQLITE_OWNER, LW_EINVAL, "newer");
}

TEST(a_migration_that_fails_changes_nothing) {
    lw_error err;
    make_old_store();
    assert_status(apply(&wrong, LW__SQLITE_OWNER, &err), LW_ESYSTEM);
    CHECK(strstr(err.message, "no_such_column") != NULL);
    assert_version(2);
    migrate_store();
    assert_version(4);
}

TEST(whoever_is_killed_in_a_migration_leaves_the_version_before_or_the_one_after) {
    int count[5] = {0};
    use_failing_vfs();
    for (int nth = 0;; nth += (int)test_stride(3)) {
        make_old_store();
        bool is_killed = is_killed_at(nth, migrate_store);
        sqlite3 *db = connect_to(DB);
        long version = strtol(ask(db, "PRAGMA user_version"), NULL, 10);
        sqlite3_close(db);
        CHECK(version == 2 || version == 4);
        count[version]++;
        assert_version((int)version);
        migrate_store();
        assert_version(4);
        if (!is_killed)
            break;
    }
    CHECK(count[2] > 5 && count[4] > 1);
}

/* ---- version 2 ---------------------------------------------------------------------------- */

/* With a row that version 2 would not take. */
static void make_version_1(void) {
    static const char *const first[] = {lw__sql_migration_1};
    static const struct lw__sqlite_schema schema = {.migrations = first, .version = 1};
    remove_store();
    assert_status(apply(&schema, LW__SQLITE_OWNER, NULL), LW_OK);
    run_on(DB, "INSERT INTO legwork_outbox (kind) VALUES ('mail'), ('a b');"
               "INSERT INTO legwork_outbox (op, task_id) VALUES ('cancel', 7);"
               "DELETE FROM legwork_outbox WHERE seq = 3; "
               "INSERT INTO legwork_outbox (op, task_id) VALUES ('forget', 8)");
}

static void bring_to_version_2(void) {
    open_and_close(LW__SQLITE_OWNER);
}

static void assert_version_2(void) {
    sqlite3 *db = connect_to(DB);
    assert_string_equal(ask(db, "PRAGMA user_version"), "2");
    assert_string_equal(ask(db, "SELECT group_concat(seq || op) FROM legwork_outbox"),
                        "1submit,2submit,4forget");
    assert_string_equal(ask(db, "SELECT group_concat(seq) FROM legwork_outbox INDEXED BY "
                                "legwork_outbox_words WHERE op <> 'submit'"),
                        "4");
    assert_int_equal(
        sqlite3_exec(db, "INSERT INTO legwork_outbox (kind) VALUES ('a b')", NULL, NULL, NULL),
        SQLITE_CONSTRAINT);
    assert_string_equal(ask(db, "PRAGMA integrity_check"), "ok");
    sqlite3_close(db);
}

TEST(a_file_of_version_1_becomes_one_of_version_2_wherever_that_is_killed) {
    int killed = 0;
    use_failing_vfs();
    for (int nth = 0;; nth++) {
        make_version_1();
        bool is_killed = is_killed_at(nth, bring_to_version_2);
        killed += is_killed;
        bring_to_version_2();
        assert_version_2();
        if (!is_killed)
            break;
    }
    CHECK(killed > 5);
}

/* Every n-th change meets this error: told, nothing leaks, and the next one succeeds. */
static void fail_at_every_change(int code, int status, const char *words) {
    int failures = 0;
    for (int nth = 0;; nth++) {
        struct lw__sqlite_file *file = NULL;
        lw_error err = {0};
        int fds = fd_count();
        calls_left = nth;
        happens = code;
        has_happened = false;
        int rc = lw__sqlite_file_open(&file, DB, LW__SQLITE_OWNER, NULL, &err);
        calls_left = -1;
        if (rc != LW_OK) {
            assert_status(rc, status);
            CHECK(has_happened && strstr(err.message, words) != NULL);
            assert_int_equal(err.native, code);
            assert_null(file);
            failures++;
        }
        lw__sqlite_file_close(file);
        assert_int_equal(fd_count(), fds);
        open_and_close(LW__SQLITE_OWNER);
        assert_whole();
        remove_store();
        if (!has_happened)
            break;
    }
    CHECK(failures > 5);
}

TEST(a_disk_that_is_full_while_a_store_is_made_is_told_and_left_behind_well) {
    use_failing_vfs();
    fail_at_every_change(SQLITE_FULL, LW_ESYSTEM, "full");
}

TEST(a_disk_that_fails_while_a_store_is_made_is_told_and_left_behind_well) {
    use_failing_vfs();
    fail_at_every_change(SQLITE_IOERR_WRITE, LW_ESYSTEM, "the disk fails");
    fail_at_every_change(SQLITE_IOERR_FSYNC, LW_ESYSTEM, "confirm");
}

/* ---- errors ------------------------------------------------------------------------------- */

TEST(errors_of_sqlite_are_told_apart) {
    static const struct {
        int code;
        enum lw__sqlite_trouble trouble;
        int status;
    } rows[] = {
        {SQLITE_OK, LW__TROUBLE_NONE, LW_OK},
        {SQLITE_ROW, LW__TROUBLE_NONE, LW_OK},
        {SQLITE_DONE, LW__TROUBLE_NONE, LW_OK},
        {SQLITE_BUSY, LW__TROUBLE_BUSY, LW_EBUSY},
        {SQLITE_BUSY_SNAPSHOT, LW__TROUBLE_BUSY, LW_EBUSY},
        {SQLITE_LOCKED, LW__TROUBLE_BUSY, LW_EBUSY},
        {SQLITE_FULL, LW__TROUBLE_FULL, LW_ESYSTEM},
        {SQLITE_IOERR, LW__TROUBLE_IO, LW_ESYSTEM},
        {SQLITE_IOERR_WRITE, LW__TROUBLE_IO, LW_ESYSTEM},
        {SQLITE_IOERR_FSYNC, LW__TROUBLE_SYNC, LW_ESYSTEM},
        {SQLITE_IOERR_DIR_FSYNC, LW__TROUBLE_SYNC, LW_ESYSTEM},
        {SQLITE_IOERR_NOMEM, LW__TROUBLE_MEMORY, LW_ENOMEM},
        {SQLITE_NOMEM, LW__TROUBLE_MEMORY, LW_ENOMEM},
        {SQLITE_READONLY_DBMOVED, LW__TROUBLE_READONLY, LW_ESYSTEM},
        {SQLITE_CORRUPT, LW__TROUBLE_CORRUPT, LW_ECORRUPT},
        {SQLITE_CORRUPT_VTAB, LW__TROUBLE_CORRUPT, LW_ECORRUPT},
        {SQLITE_NOTADB, LW__TROUBLE_CORRUPT, LW_ECORRUPT},
        {SQLITE_CONSTRAINT_CHECK, LW__TROUBLE_OTHER, LW_ESYSTEM},
        {SQLITE_CANTOPEN, LW__TROUBLE_OTHER, LW_ESYSTEM},
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        lw_error err = {0};
        assert_int_equal(lw__sqlite_trouble(NULL, rows[i].code), rows[i].trouble);
        assert_status(lw__sqlite_explain(NULL, rows[i].code, "do it", &err), rows[i].status);
        if (rows[i].status == LW_OK)
            continue;
        assert_int_equal(err.native, rows[i].code);
        CHECK(strncmp(err.message, "cannot do it: ", 14) == 0);
    }
}

/* The file is locked as a whole: the reader cannot even prepare its statements. */
TEST(a_reader_waits_for_a_lock_by_the_clock_too) {
    lw_error err = {0};
    struct lw__sqlite_file *file = calloc(1, sizeof *file + sizeof DB);
    static struct lw__lean_reads reads;
    struct lw__reader reader;
    sqlite3 *other = connect_to(DB);
    memcpy(file->path, DB, sizeof DB);
    run_sql(other, "BEGIN EXCLUSIVE");
    lw__reader_init(&reader);
    reader.patience.ms = 1;
    lw__reader_lock(&reader);
    assert_status(lw__reader_read_locked(&reader, file, NULL, 1, false, &reads, &err), LW_EBUSY);
    CHECK(reader.patience.until > 0);
    lw__reader_unlock(&reader);
    lw__reader_free(&reader);
    sqlite3_close(other);
    free(file);
}

TEST(a_statement_that_meets_another_writer_says_busy_and_works_afterwards) {
    lw_error err = {0};
    struct lw__sqlite_file *owner = open_as(LW__SQLITE_OWNER);
    struct lw__sqlite_file *client = open_as(LW__SQLITE_CLIENT);
    sqlite3_busy_timeout(client->db, 0);
    assert_status(lw__sqlite_file_run(owner, LW__SQL_BEGIN, "begin", NULL), LW_OK);
    assert_status(lw__sqlite_file_run(client, LW__SQL_BEGIN, "submit a task", &err), LW_EBUSY);
    assert_int_equal(err.native, SQLITE_BUSY);
    CHECK(strstr(err.message, "cannot submit a task: another connection") != NULL);
    assert_status(lw__sqlite_file_run(owner, LW__SQL_COMMIT, "commit", NULL), LW_OK);
    assert_status(lw__sqlite_file_run(client, LW__SQL_BEGIN, "begin", NULL), LW_OK);
    assert_status(lw__sqlite_file_run(client, LW__SQL_ROLLBACK, "roll back", NULL), LW_OK);
    lw__sqlite_file_close(client);
    lw__sqlite_file_close(owner);
}

TEST(an_open_without_memory_says_so_and_leaves_nothing) {
    for (uint64_t nth = 1;; nth++) {
        struct lw__sqlite_file *file = NULL;
        lw_error err = {0};
        uint64_t blocks;
        int fds = fd_count();
        lw_test_memory *memory = open_memory();
        lw_test_memory_fail_at(memory, nth);
        int rc = lw__sqlite_file_open(&file, DB, LW__SQLITE_OWNER, lw_test_memory_allocator(memory),
                                      &err);
        bool has_failed = lw_test_memory_has_failed(memory);
        assert_status(rc, has_failed ? LW_ENOMEM : LW_OK);
        lw__sqlite_file_close(file);
        lw_test_memory_usage(memory, &blocks, NULL, NULL);
        assert_int_equal(blocks, 0);
        assert_int_equal(fd_count(), fds);
        lw_test_memory_close(memory);
        if (!has_failed)
            break;
    }
}

/* ---- the tables --------------------------------------------------------------------------- */

static struct lw__sqlite_file *file;

static void bind_text(enum lw__sql which, int at, const char *text) {
    sqlite3_bind_text(file->statements[which], at, text, -1, SQLITE_STATIC);
}

static int run_with(enum lw__sql which, int64_t id) {
    sqlite3_bind_int64(file->statements[which], 1, id);
    return lw__sqlite_file_run(file, which, "do it", NULL);
}

static int delete_row(enum lw__sql which, int64_t id) {
    sqlite3_bind_int64(file->statements[which], 2, id); /* the last of a range */
    return run_with(which, id);
}

static int put_task(int64_t id, const char *state) {
    bind_text(LW__SQL_TASK_PUT, 2, "send-email");
    bind_text(LW__SQL_TASK_PUT, 3, "default");
    bind_text(LW__SQL_TASK_PUT, 4, state);
    for (int at = 5; at <= 7; at++)
        sqlite3_bind_int64(file->statements[LW__SQL_TASK_PUT], at, 100 * at);
    sqlite3_bind_blob(file->statements[LW__SQL_TASK_PUT], 8, "ann", 3, SQLITE_STATIC);
    bind_text(LW__SQL_TASK_PUT, 10, "letter 7");
    return run_with(LW__SQL_TASK_PUT, id);
}

TEST(a_task_moves_to_the_history_and_back_with_all_it_has) {
    file = open_as(LW__SQLITE_OWNER);
    assert_status(put_task(7, "enqueued"), LW_OK);
    sqlite3_bind_blob(file->statements[LW__SQL_TASK_PUBLISH], 6, "page 3", 6, SQLITE_STATIC);
    assert_status(run_with(LW__SQL_TASK_PUBLISH, 7), LW_OK);
    run_sql(file->db, "CREATE TEMP TABLE before AS SELECT * FROM legwork_task");

    bind_text(LW__SQL_HISTORY_PUT, 2, "failed");
    for (int at = 3; at <= 9; at++)
        sqlite3_bind_int64(file->statements[LW__SQL_HISTORY_PUT], at, 800 + at);
    assert_status(run_with(LW__SQL_HISTORY_PUT, 7), LW_OK);
    assert_status(delete_row(LW__SQL_TASK_DELETE, 7), LW_OK);
    assert_string_equal(ask(file->db, "SELECT count(*) FROM legwork_task"), "0");
    assert_string_equal(ask(file->db, "SELECT state || kind || key || payload || checkpoint || "
                                      "ended_ms || attempts FROM legwork_history"),
                        "failedsend-emailletter 7annpage 3805806");

    sqlite3_bind_int64(file->statements[LW__SQL_HISTORY_REVIVE], 2, 700);
    assert_status(run_with(LW__SQL_HISTORY_REVIVE, 7), LW_OK);
    assert_status(delete_row(LW__SQL_HISTORY_DELETE, 7), LW_OK);
    run_sql(file->db, "UPDATE legwork_task SET started_ms = NULL, token = NULL, "
                      "snoozes = 0");
    assert_string_equal(ask(file->db, "SELECT count(*) FROM (SELECT * FROM legwork_task INTERSECT "
                                      "SELECT * FROM before)"),
                        "1");
    lw__sqlite_file_close(file);
}

TEST(the_history_has_every_column_of_a_task_but_its_limits) {
    file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "SELECT group_concat(name) FROM (SELECT name FROM "
                                      "pragma_table_info('legwork_task') EXCEPT SELECT name FROM "
                                      "pragma_table_info('legwork_history') ORDER BY name)"),
                        "finish_by_ms,is_cancelling,start_by_ms");
    lw__sqlite_file_close(file);
}

TEST(states_and_ids_that_cannot_be_are_refused_by_the_tables) {
    file = open_as(LW__SQLITE_OWNER);
    static const char *const states[] = {"created", "scheduled", "enqueued", "started"};
    for (int i = 0; i < 4; i++)
        assert_status(put_task(i + 1, states[i]), LW_OK);
    assert_status(put_task(9, "finished"), LW_ESYSTEM);
    assert_status(put_task(9, "Enqueued"), LW_ESYSTEM);
    assert_status(put_task(4, "enqueued"), LW_ESYSTEM); /* never reused */
    assert_status(put_task(0, "enqueued"), LW_ESYSTEM);
    assert_status(put_task((int64_t)1 << 53, "enqueued"), LW_ESYSTEM);
    bind_text(LW__SQL_HISTORY_PUT, 2, "enqueued");
    for (int at = 3; at <= 9; at++)
        sqlite3_bind_int64(file->statements[LW__SQL_HISTORY_PUT], at, at);
    assert_status(run_with(LW__SQL_HISTORY_PUT, 1), LW_ESYSTEM);
    lw__sqlite_file_close(file);
}

TEST(a_stranger_can_write_to_the_outbox_and_nonsense_is_refused_there) {
    static const char *const good[] = {
        "(kind) VALUES ('send-email')",
        "(kind, payload) VALUES ('send-email', 'a text')",
        "(kind, payload, key, delay_ms, priority) VALUES ('send-email', x'00ff', 'k', 5, 0)",
        "(op, task_id) VALUES ('cancel', 12)",
        "(op, task_id, token, bytes) VALUES ('finish', 12, 99, 'result')",
    };
    static const char *const bad[] = {
        "(queue) VALUES ('default')",
        "(kind) VALUES ('')",
        "(kind, op) VALUES ('send-email', 'submitt')",
        "(kind, task_id) VALUES ('send-email', 12)",
        "(op) VALUES ('cancel')",
        "(op, task_id) VALUES ('finish', 12)",
        "(kind, priority) VALUES ('send-email', -1)",
        "(kind, priority) VALUES ('send-email', 'high')",
        "(kind, delay_ms) VALUES ('send-email', -1)",
        "(kind, payload) VALUES ('send-email', zeroblob(16777217))",
        "(kind, key) VALUES ('send-email', hex(zeroblob(129)))",
        "(kind, after_policy) VALUES ('send-email', 'maybe')",
    };
    char sql[200];
    file = open_as(LW__SQLITE_OWNER);
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox %s", good[i]);
        run_sql(file->db, sql);
    }
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(sql, sizeof sql, "INSERT INTO legwork_outbox %s", bad[i]);
        if ((try_sql(file->db, sql) & 0xff) != SQLITE_CONSTRAINT)
            fprintf(stderr, "%s\n", bad[i]);
        assert_int_equal(sqlite3_errcode(file->db) & 0xff, SQLITE_CONSTRAINT);
    }
    assert_string_equal(ask(file->db, "SELECT priority || queue FROM legwork_outbox"),
                        "1000default");
    assert_string_equal(ask(file->db, "SELECT count(*) FROM legwork_outbox WHERE "
                                      "created_ms / 1000 BETWEEN unixepoch() - 60 AND unixepoch()"),
                        "5");
    run_sql(file->db, "DELETE FROM legwork_outbox; INSERT INTO legwork_outbox (kind) VALUES ('x')");
    assert_string_equal(ask(file->db, "SELECT seq FROM legwork_outbox"), "6"); /* never reused */
    lw__sqlite_file_close(file);
}

TEST(a_lease_is_written_anew_when_it_is_extended) {
    file = open_as(LW__SQLITE_OWNER);
    sqlite3_stmt *put = file->statements[LW__SQL_LEASE_PUT];
    for (int64_t until = 1000; until <= 1001; until++) {
        sqlite3_bind_int64(put, 2, 5);
        sqlite3_bind_text(put, 3, "w", -1, SQLITE_STATIC);
        sqlite3_bind_int64(put, 4, 1);
        sqlite3_bind_int64(put, 5, until);
        assert_status(run_with(LW__SQL_LEASE_PUT, 7), LW_OK);
    }
    assert_string_equal(ask(file->db, "SELECT until_ms FROM legwork_lease"), "1001");
    sqlite3_bind_int64(file->statements[LW__SQL_LEASE_DELETE], 2, 7);
    assert_status(run_with(LW__SQL_LEASE_DELETE, 7), LW_OK);
    assert_string_equal(ask(file->db, "SELECT count(*) FROM legwork_lease"), "0");
    lw__sqlite_file_close(file);
}

/* A submit is not in the index of the outbox. */
TEST(the_hot_path_touches_one_tree_a_table) {
    file = open_as(LW__SQLITE_OWNER);
    assert_string_equal(ask(file->db, "SELECT count(*) FROM sqlite_schema WHERE type = 'index' AND "
                                      "tbl_name IN ('legwork_task', 'legwork_history', "
                                      "'legwork_lease', 'legwork_outbox') "
                                      "AND sql NOT LIKE '%WHERE op <> ''submit'''"),
                        "0");
    lw__sqlite_file_close(file);
}
