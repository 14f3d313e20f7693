/* Money moves, and the letter about it is written: both, or neither; and once, whatever crashes.
 *
 * A transfer and the task that writes its letter commit in one transaction of the bank's own
 * connection. The handler writes the letter and completes its task in one transaction, too. So the
 * process can be killed anywhere, as is done here three times: the accounts always add up, and at
 * the end there is exactly one letter for each transfer.
 */
#include <legwork/legwork.h>
#include <legwork/outbox_sqlite.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the bank ---------------------------------------------------------------------------- */

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static sqlite3 *open_bank(void) {
    sqlite3 *bank;
    lw_error err;
    if (sqlite3_open("bank.db", &bank) != SQLITE_OK
        || sqlite3_busy_timeout(bank, 10000) != SQLITE_OK
        || sqlite3_wal_autocheckpoint(bank, 0) != SQLITE_OK /* the engine makes checkpoints */
        || sqlite3_db_config(bank, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) != SQLITE_OK
        || lw_outbox_sqlite_prepare(bank, &err) < 0)
        abort();
    return bank;
}

static int run(sqlite3 *bank, const char *sql) {
    return sqlite3_exec(bank, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : -1;
}

static int count(sqlite3 *bank, const char *sql) {
    sqlite3_stmt *statement;
    if (sqlite3_prepare_v2(bank, sql, -1, &statement, NULL) != SQLITE_OK)
        return -1;
    int value = sqlite3_step(statement) == SQLITE_ROW ? sqlite3_column_int(statement, 0) : -1;
    sqlite3_finalize(statement);
    return value;
}

static int move_money(sqlite3 *bank) {
    return run(bank, "UPDATE account SET cents = cents - 100 WHERE name = 'ann';"
                     "UPDATE account SET cents = cents + 100 WHERE name = 'bob';"
                     "INSERT INTO transfer (cents) VALUES (100)");
}

static int transfer(sqlite3 *bank) {
    char number[24];
    if (run(bank, "BEGIN IMMEDIATE") < 0)
        return -1;
    if (move_money(bank) == 0) {
        snprintf(number, sizeof number, "%lld", (long long)sqlite3_last_insert_rowid(bank));
        if (lw_outbox_sqlite_put(bank, LW_TASK(.kind = "letter", .payload = LW_TEXT(number)), NULL,
                                 NULL)
                == LW_OK
            && run(bank, "COMMIT") == 0)
            return 0;
    }
    run(bank, "ROLLBACK");
    return -1;
}

/* ---- the task ---------------------------------------------------------------------------- */

/* The letter, and that it is written, in one transaction: never twice. */
static lw_outcome write_letter(lw_ctx *ctx, const lw_task *task) {
    sqlite3 *bank = lw_ctx_user(ctx);
    char sql[100];
    snprintf(sql, sizeof sql, "BEGIN IMMEDIATE; INSERT INTO letter VALUES (%s)",
             (const char *)task->payload.data);
    if (run(bank, sql) == 0 && lw_outbox_sqlite_done(bank, ctx, NULL) == LW_OK
        && run(bank, "COMMIT") == 0)
        return lw_done(ctx);
    run(bank, "ROLLBACK");
    return lw_retry(ctx, "the bank is busy");
}

/* The handler has a connection of its own, which one attempt at a time uses. */
static lw_engine *open_office(sqlite3 *desk) {
    lw_engine *engine;
    lw_error err;
    if (lw_open(&engine, "sqlite:bank.db", NULL, &err) < 0)
        fprintf(stderr, "%s\n", err.message), abort();
    lw_handle(engine, "letter", write_letter,
              LW_HANDLER_OPTIONS(.user = desk, .concurrency = 1, .retry = {.crashes = -1}), &err);
    if (lw_start(engine, &err) < 0)
        fprintf(stderr, "%s\n", err.message), abort();
    return engine;
}

/* ---- three crashes, and an audit --------------------------------------------------------- */

/* Says by a byte that a transfer is committed. */
static void work_until_killed(int told) {
    sqlite3 *bank = open_bank();
    open_office(open_bank());
    while (transfer(bank) < 0 || write(told, ".", 1) == 1)
        pause_ms(1);
    _exit(1);
}

/* After so many transfers. */
static void crash(int transfers) {
    int ends[2];
    char byte;
    if (pipe(ends) != 0)
        abort();
    pid_t child = fork();
    if (child == 0)
        work_until_killed(ends[1]);
    close(ends[1]);
    while (transfers > 0 && read(ends[0], &byte, 1) == 1)
        transfers--;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ends[0]);
}

static void remove_files(const char *folder) {
    static const char *const files[] = {"bank.db", "bank.db-wal", "bank.db-shm", "bank.db-owner",
                                        "bank.db-running"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    rmdir(folder);
}

int main(void) {
    const char *parent = getenv("TMPDIR");
    char folder[250];
    snprintf(folder, sizeof folder, "%s/ledger-XXXXXX", parent && *parent ? parent : "/tmp");
    if (!mkdtemp(folder) || chdir(folder) != 0)
        return perror(folder), 1;
    sqlite3 *bank = open_bank();
    run(bank, "CREATE TABLE account (name TEXT, cents INTEGER);"
              "CREATE TABLE transfer (number INTEGER PRIMARY KEY, cents INTEGER);"
              "CREATE TABLE letter (transfer INTEGER);"
              "INSERT INTO account VALUES ('ann', 1000000), ('bob', 0)");
    sqlite3_close(bank);
    for (int i = 0; i < 3; i++)
        crash(10 + 7 * i);

    bank = open_bank();
    int transfers = count(bank, "SELECT count(*) FROM transfer");
    int letters = count(bank, "SELECT count(*) FROM letter");
    printf("after three crashes: %d transfers, %d letters\n", transfers, letters);
    sqlite3 *desk = open_bank();
    lw_engine *engine = open_office(desk);
    lw_stop(engine, LW_DRAIN_ALL, 30000); /* takes in what is in the outbox, and runs it */
    lw_close(engine);
    sqlite3_close(desk);

    letters = count(bank, "SELECT count(*) FROM letter");
    int missing = count(bank, "SELECT count(*) FROM transfer WHERE number NOT IN"
                              " (SELECT transfer FROM letter)");
    int twice = letters - count(bank, "SELECT count(DISTINCT transfer) FROM letter");
    int cents = count(bank, "SELECT sum(cents) FROM account");
    printf("in the end: %d letters, %d missing, %d twice; %d cents in the bank\n", letters, missing,
           twice, cents);
    sqlite3_close(bank);
    remove_files(folder);
    return transfers == 0 || missing != 0 || twice != 0 || cents != 1000000;
}
