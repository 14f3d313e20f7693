/* What an owner starts with after the last one was killed: its own store, or a sentence. Never an
 * empty store without a word, and never a refusal of what a plain kill leaves. */
#include "engines.h"
#include "own_sqlite.h"

#include <errno.h>
#include <legwork/outbox_sqlite.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define DB "tasks.db"
#define URL "sqlite:" DB
#define TASKS 5
#define MORE 100 /* of 64 KiB: more than there is between two checkpoints */

static lw_engine *open_owner(void) {
    return OPEN_ON(URL, .workers = 1);
}

static void submit_some(lw_engine *engine, int count) {
    for (int i = 0; i < count; i++)
        SUBMIT(engine, .kind = "never");
}

/* An owner in a process of its own, which does something after the first tasks, and is killed. */
static void kill_owner_of(const char *url, void (*and_then)(lw_engine *engine)) {
    pid_t pid = fork();
    if (pid == 0) {
        lw_engine *engine = OPEN_ON(url, .workers = 1);
        submit_some(engine, TASKS);
        if (and_then)
            and_then(engine);
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void kill_owner(void) {
    kill_owner_of(URL, NULL);
}

static lw_error assert_refused(int status, const char *words) {
    lw_engine *engine;
    lw_error err = {0};
    assert_status(lw_open(&engine, URL, NULL, &err), status);
    assert_null(engine);
    assert_sentence(&err, status, words);
    return err;
}

static uint64_t count_waiting(lw_engine *engine) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    return stats.created + stats.enqueued + stats.scheduled;
}

static void assert_starts_with(const char *url, uint64_t count) {
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    assert_int_equal(count_waiting(engine), count);
    lw_close(engine);
}

static void copy(const char *from, const char *to) {
    static char bytes[1 << 20];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_true(in != NULL && out != NULL);
    for (size_t count; (count = fread(bytes, 1, sizeof bytes, in)) > 0;)
        assert_int_equal(fwrite(bytes, 1, count, out), count);
    fclose(in);
    fclose(out);
}

static void remove_log(void) {
    unlink(DB "-wal");
    unlink(DB "-shm");
}

static void remove_store(void) {
    unlink(DB);
    remove_log();
}

/* A copy as `.backup` makes it, while the owner runs. */
static void back_up(void) {
    sqlite3 *db = connect_db(DB);
    unlink("copy.db");
    run_sql(db, "VACUUM INTO 'copy.db'");
    sqlite3_close(db);
}

/* The pages of the copy are those of the original, as with sqlite3_backup. */
static void back_up_pages(lw_engine *engine) {
    sqlite3 *from = connect_db(DB), *to = connect_db("copy.db");
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    assert_non_null(backup);
    assert_int_equal(sqlite3_backup_step(backup, -1), SQLITE_DONE);
    sqlite3_backup_finish(backup);
    sqlite3_close(to);
    sqlite3_close(from);
    (void)engine;
}

/* ---- a database that is not the one that was open ------------------------------------------ */

TEST(the_tables_of_an_outbox_in_a_new_file_do_not_pass_for_the_store) {
    lw_error err = {0};
    kill_owner();
    remove_store();
    sqlite3 *db = connect_db(DB);
    assert_status(lw_outbox_sqlite_prepare(db, &err), LW_OK);
    err = assert_refused(LW_ESYSTEM, DB "-owner");
    assert_int_equal(err.native, ENOENT);
    assert_refused(LW_ESYSTEM, DB "-owner"); /* the refusal forgets nothing */
    sqlite3_close(db);
    assert_refused(LW_ESYSTEM, DB "-owner");
    assert_int_equal(unlink(DB "-owner"), 0); /* as the sentence says */
    assert_starts_with(URL, 0);
}

TEST(a_table_of_the_program_in_a_new_file_does_not_pass_for_the_store) {
    kill_owner();
    remove_store();
    sqlite3 *db = connect_db(DB);
    run_sql(db, "CREATE TABLE IF NOT EXISTS mine (a)");
    assert_refused(LW_ESYSTEM, "no tables of Legwork");
    assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_schema WHERE name LIKE 'legwork%'"), 0);
    sqlite3_close(db);
}

TEST(another_store_does_not_pass_for_the_one_that_was_killed) {
    lw_engine *other = OPEN_ON("sqlite:other.db", .workers = 1);
    lw_close(other);
    kill_owner();
    remove_store();
    copy("other.db", DB);
    assert_refused(LW_ESYSTEM, "another store");
    kill_owner_of("sqlite:third.db", NULL); /* with the -wal file of the one that is gone */
    copy("other.db", "third.db");
    lw_engine *engine;
    lw_error err = {0};
    assert_status(lw_open(&engine, "sqlite:third.db", NULL, &err), LW_ESYSTEM);
    assert_sentence(&err, LW_ESYSTEM, "third.db-wal");
}

/* ---- a start that fails --------------------------------------------------------------------- */

TEST(a_start_that_fails_does_not_count_as_a_close) {
    kill_owner();
    sqlite3 *db = connect_db(DB);
    run_sql(db, "UPDATE legwork_task SET state = 'enqueued', kind = '' WHERE id = (SELECT min(id) "
                "FROM legwork_task)");
    run_sql(db, "PRAGMA wal_checkpoint");
    sqlite3_close(db);
    assert_refused(LW_EINVAL, "kind");
    remove_store();
    assert_refused(LW_ESYSTEM, "missing");
}

TEST(a_start_that_finds_the_file_held_does_not_count_as_a_close) {
    kill_owner();
    sqlite3 *db = connect_db(DB);
    run_sql(db, "BEGIN IMMEDIATE");
    assert_refused(LW_EBUSY, "holds the file");
    run_sql(db, "COMMIT");
    sqlite3_close(db);
    remove_store();
    assert_refused(LW_ESYSTEM, "missing");
}

TEST(a_start_that_fails_after_a_close_leaves_the_store_closed) {
    lw_close(open_owner());
    sqlite3 *db = connect_db(DB);
    run_sql(db, "BEGIN IMMEDIATE");
    assert_refused(LW_EBUSY, "holds the file");
    run_sql(db, "COMMIT");
    sqlite3_close(db);
    remove_store();
    assert_starts_with(URL, 0);
}

/* ---- backups -------------------------------------------------------------------------------- */

static void back_up_and_go_on(lw_engine *engine) {
    static char payload[1 << 16];
    memset(payload, 'x', sizeof payload);
    back_up_pages(engine);
    for (int i = 0; i < MORE; i++) /* the -wal file is begun anew */
        SUBMIT(engine, .kind = "never", .payload = {payload, sizeof payload});
}

static void assert_old_log_refused(void) {
    struct stat before, after;
    lw_error err = assert_refused(LW_ESYSTEM, "remove " DB "-wal and " DB "-shm");
    assert_int_equal(err.native, ENOENT);
    assert_int_equal(stat(DB, &before), 0);
    assert_int_equal(stat("copy.db", &after), 0);
    assert_int_equal(before.st_size, after.st_size); /* nothing was replayed over it */
    remove_log();
    assert_starts_with(URL, TASKS);
}

TEST(a_backup_is_not_mixed_with_the_log_of_the_store_that_is_gone) {
    kill_owner_of(URL, back_up_and_go_on);
    unlink(DB);
    copy("copy.db", DB);
    assert_old_log_refused();
}

TEST(a_backup_written_over_the_store_is_not_mixed_with_its_log) {
    kill_owner_of(URL, back_up_and_go_on);
    copy("copy.db", DB); /* the same inode */
    assert_old_log_refused();
}

TEST(a_backup_of_an_owner_before_is_not_mixed_with_the_log) {
    kill_owner_of(URL, back_up_pages);
    kill_owner_of(URL, NULL);
    copy("copy.db", DB);
    assert_old_log_refused();
}

/* The log has all that has changed since: it makes the backup as good as the original. */
TEST(a_backup_that_the_log_fits_is_brought_up_to_date) {
    kill_owner_of(URL, back_up_pages);
    copy("copy.db", DB);
    assert_starts_with(URL, TASKS);
    sqlite3 *db = connect_db(DB);
    assert_int_equal(ask(db, "SELECT integrity_check = 'ok' FROM pragma_integrity_check"), 1);
    sqlite3_close(db);
}

TEST(the_sentence_for_a_store_that_is_gone_leads_to_a_restored_backup) {
    kill_owner_of(URL, back_up_and_go_on);
    unlink(DB);
    assert_refused(LW_ESYSTEM, DB "-wal and " DB "-shm");
    remove_log();
    copy("copy.db", DB);
    assert_starts_with(URL, TASKS);
}

TEST(a_backup_starts_under_another_name) {
    kill_owner_of(URL, back_up_and_go_on);
    assert_starts_with("sqlite:copy.db", TASKS);
}

TEST(a_backup_made_by_vacuum_is_the_same_store) {
    kill_owner();
    back_up();
    remove_store();
    copy("copy.db", DB);
    assert_starts_with(URL, TASKS);
}

/* ---- what is not to be refused -------------------------------------------------------------- */

static const char *const endings[] = {"", "-wal", "-shm", "-owner", "-running"};

static void copy_all(const char *to) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char from_name[80], to_name[80];
        snprintf(from_name, sizeof from_name, DB "%s", endings[i]);
        snprintf(to_name, sizeof to_name, "%s%s", to, endings[i]);
        copy(from_name, to_name);
    }
}

TEST(kills_one_after_the_other_lose_nothing) {
    for (uint64_t i = 1; i <= 4; i++) {
        kill_owner();
        lw_engine *engine = open_owner();
        assert_int_equal(count_waiting(engine), i * TASKS);
        lw_close(engine);
    }
}

TEST(a_store_that_was_copied_with_all_its_files_starts) {
    kill_owner_of(URL, back_up_and_go_on);
    assert_int_equal(mkdir("moved", 0700), 0);
    copy_all("moved/" DB); /* other inodes, and the -wal file along with the database */
    assert_starts_with("sqlite:moved/" DB, TASKS + MORE);
    copy_all("named.db");
    assert_starts_with("sqlite:named.db", TASKS + MORE);
}

TEST(a_mark_of_an_older_legwork_is_no_reason_to_refuse) {
    kill_owner();
    FILE *owner = fopen(DB "-owner", "w");
    fputs("1234\nopen\n", owner);
    fclose(owner);
    sqlite3 *db = connect_db(DB); /* its tables do not say which store they are */
    run_sql(db, "DELETE FROM legwork_meta WHERE key IN ('store_id', 'commit_number')");
    sqlite3_close(db);
    assert_starts_with(URL, TASKS);
}

/* A power cut may leave a part of it; what is not whole says nothing. */
TEST(a_mark_that_is_cut_off_is_no_reason_to_refuse) {
    kill_owner();
    struct stat st;
    assert_int_equal(stat(DB "-owner", &st), 0);
    for (off_t size = st.st_size - 1; size >= 0; size--) {
        copy_all("cut.db");
        assert_int_equal(truncate("cut.db-owner", size), 0);
        assert_starts_with("sqlite:cut.db", TASKS);
    }
}

/* Another tool may have closed the file after the kill, and moved the log into it. */
TEST(a_store_that_another_tool_has_closed_starts) {
    kill_owner_of(URL, back_up_and_go_on);
    sqlite3 *db = connect_db(DB);
    assert_int_equal(ask(db, "SELECT count(*) FROM legwork_task"), TASKS + MORE);
    sqlite3_close(db);
    assert_int_equal(access(DB "-wal", F_OK), -1);
    assert_starts_with(URL, TASKS + MORE);
}

TEST(an_owner_with_a_reader_in_its_way_is_not_refused_after_a_kill) {
    lw_close(open_owner());
    sqlite3 *reader = connect_db(DB);
    run_sql(reader, "BEGIN");
    ask(reader, "SELECT count(*) FROM legwork_task"); /* no checkpoint gets past it */
    kill_owner();
    kill_owner();
    assert_starts_with(URL, 2 * TASKS);
    run_sql(reader, "COMMIT");
    sqlite3_close(reader);
    assert_starts_with(URL, 2 * TASKS);
}

TEST(clients_and_readers_open_a_store_whose_owner_was_killed) {
    kill_owner();
    lw_engine *client = OPEN_ON(URL, .role = LW_ROLE_CLIENT);
    SUBMIT(client, .kind = "never");
    lw_close(client);
    lw_close(OPEN_ON(URL, .role = LW_ROLE_READER));
    assert_starts_with(URL, TASKS);
}

/* ---- a log that is gone --------------------------------------------------------------------- */

static void count_warning(void *user, const lw_log_record *record) {
    bool is_it = strstr(record->message, "-wal file is gone") != NULL;
    *(int *)user += record->level == LW_LOG_WARN && is_it;
}

static int warnings_at_start(void) {
    int count = 0;
    lw_log log = {.write = count_warning, .user = &count};
    lw_close(OPEN_ON(URL, .workers = 1, .log = &log));
    return count;
}

TEST(the_database_itself_has_the_tables_before_anything_is_acknowledged) {
    kill_owner();
    remove_log();
    sqlite3 *db = connect_db(DB);
    assert_int_equal(ask(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'legwork_task'"), 1);
    sqlite3_close(db);
}

TEST(a_log_that_is_gone_is_warned_of) {
    kill_owner();
    assert_int_equal(warnings_at_start(), 0);
    kill_owner();
    remove_log();
    assert_int_equal(warnings_at_start(), 1);
    assert_int_equal(warnings_at_start(), 0); /* it was closed */
}

/* As a store of an older Legwork is until its first checkpoint. */
TEST(a_database_whose_tables_were_in_the_log_that_is_gone_counts_as_missing) {
    kill_owner();
    remove_store();
    sqlite3 *db = connect_db(DB);
    run_sql(db, "PRAGMA journal_mode = WAL");
    sqlite3_close(db);
    assert_refused(LW_ESYSTEM, "no tables of Legwork");
    FILE *owner = fopen(DB "-owner", "w");
    fputs("1234\nopen\n", owner);
    fclose(owner);
    assert_refused(LW_ESYSTEM, "no tables of Legwork");
}
