/* The web process and the worker process of one application: clients submit and wait, the owner
 * runs; both are killed again and again. What a client was told is durable has run in the end, and
 * nothing else has. */
#include "engines.h"
#include "ledger.h"

#include <legwork/outbox_sqlite.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define URL "sqlite:tasks.db"

static int ledger;

static void note(enum ledger_event event, lw_id id) {
    ledger_append(ledger, (struct ledger_record){.event = event, .id = id});
}

/* On a machine with more to do than it can, the others may have the file for longer than an open or
 * a submit waits: then nothing has happened. */
static lw_engine *open_as(lw_role role) {
    lw_engine *engine;
    lw_error err;
    int rc = LW_EBUSY;
    while (rc == LW_EBUSY)
        rc = lw_open(&engine, URL, LW_ENGINE_OPTIONS(.role = role, .workers = 2), &err);
    assert_status(rc, LW_OK);
    return engine;
}

/* ---- the two ------------------------------------------------------------------------------ */

static lw_outcome do_note(lw_ctx *ctx, const lw_task *task) {
    note(LEDGER_BEGUN, task->id);
    return lw_done(ctx);
}

static lw_engine *own(void) {
    lw_engine *engine = open_as(LW_ROLE_OWNER);
    handle(engine, "mail", do_note,
           LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO, .crashes = -1}));
    start(engine);
    return engine;
}

static void be_owning(void) {
    own();
    for (;;)
        pause();
}

/* Waits for every tenth, if there is anybody who runs it. */
static void be_asking(void) {
    lw_engine *client = open_as(LW_ROLE_CLIENT);
    for (int i = 0;; i++) {
        lw_id id = 0;
        int rc = LW_EBUSY;
        while (rc == LW_EBUSY)
            rc = lw_submit(client, LW_TASK(.kind = "mail", .payload = LW_TEXT("hello")), &id, NULL);
        assert_status(rc, LW_OK);
        note(LEDGER_ACKED, id);
        if (i % 10 == 0) {
            rc = lw_wait(client, id, 5000, NULL);
            CHECK(rc == LW_OK || rc == LW_PENDING);
        }
    }
}

/* ---- killing ------------------------------------------------------------------------------ */

static pid_t spawn(void (*be)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        be();
    }
    return child;
}

static void kill_one(pid_t child) {
    int status;
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static size_t count_events(void) {
    struct stat status;
    CHECK(fstat(ledger, &status) == 0);
    return (size_t)status.st_size / sizeof(struct ledger_record);
}

static void check_ledger(lw_engine *engine) {
    size_t count;
    const struct ledger_record *records = ledger_map(ledger, &count);
    for (size_t i = 0; i < count; i++) {
        if (records[i].event == LEDGER_ACKED)
            assert_int_equal(state_of(engine, records[i].id), LW_FINISHED);
        CHECK(records[i].id > LW_OUTBOX_SQLITE_ID(0));
    }
}

TEST(what_clients_were_told_is_accepted_runs_whoever_is_killed) {
    ledger = ledger_open("ledger");
    close_engine(open_as(LW_ROLE_OWNER));
    pid_t owner = spawn(be_owning), clients[2] = {spawn(be_asking), spawn(be_asking)};
    for (int round = 1; round <= test_scale(9, 150); round++) {
        size_t enough = count_events() + 40;
        await_that(count_events() >= enough);
        if (round % 3 == 0) {
            kill_one(owner);
            owner = spawn(be_owning);
        } else {
            kill_one(clients[round % 2]);
            clients[round % 2] = spawn(be_asking);
        }
    }
    kill_one(clients[0]);
    kill_one(clients[1]);
    kill_one(owner);
    lw_engine *engine = own(), *reader = open_as(LW_ROLE_READER);
    lw_engine_stats stats;
    await_that(lw_get_stats(reader, &stats) == LW_OK && stats.created + stats.enqueued == 0);
    assert_status(lw_stop(engine, LW_DRAIN_ALL, -1), LW_OK);
    check_ledger(engine);
    close_engine(reader);
    close_engine(engine);
    close(ledger);
}

/* ---- a wait does not turn around ---------------------------------------------------------- */

static long cpu_ms(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

TEST_WITH(a_client_that_waits_sleeps_and_is_woken_by_the_owner, .alone = true) {
    int ends[2];
    char byte;
    ledger = ledger_open("ledger");
    close_engine(open_as(LW_ROLE_OWNER));
    CHECK(pipe(ends) == 0);
    pid_t owner = fork();
    if (owner == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        CHECK(read(ends[0], &byte, 1) == 1);
        be_owning();
    }
    lw_engine *client = open_as(LW_ROLE_CLIENT);
    lw_id id = SUBMIT(client, .kind = "mail");
    long before = cpu_ms();
    assert_status(lw_wait(client, id, 1500, NULL), LW_PENDING);
    CHECK(cpu_ms() - before < 100); /* of 1500 */
    CHECK(write(ends[1], "!", 1) == 1);
    assert_status(lw_wait(client, id, -1, NULL), LW_OK);
    kill_one(owner);
    close_engine(client);
    close(ledger);
}
