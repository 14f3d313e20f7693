/* Leases when the owner of the store is killed: what others have stays theirs, for as long as they
 * have it. On a clock that the test holds, which goes on from one process to the next. */
#include "engines.h"

#include <legwork/lease.h>
#include <legwork/legwork.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHORT_MS = 1000, LONG_MS = 60000 };

/* What workers elsewhere know of when the owner dies. */
struct claims {
    lw_settlement kept, lost; /* for LONG_MS; for SHORT_MS, with a position */
    lw_id waiting, own;       /* that nobody has claimed; that the owner was running */
};

static struct tally begun = TALLY, runs = TALLY;

/* ---- the owner that is killed ------------------------------------------------------------- */

static lw_outcome run_until_killed(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&begun, 1);
    for (;;)
        pause();
    return lw_done(ctx);
}

static lw_settlement claim(lw_engine *engine, int64_t lease_ms) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    const lw_claim_options *options = LW_CLAIM_OPTIONS(.holder = "afar", .lease_ms = lease_ms);
    assert_int_equal(lw_lease_claim(engine, options, &task, NULL), 1);
    lw_settlement claimed = {.id = task.id, .token = task.token};
    lw_snapshot_clear(&task);
    return claimed;
}

static void give_leases(lw_engine *engine, struct claims *claims) {
    claims->own = SUBMIT(engine, .kind = "own");
    tally_await(&begun, 1);
    lw_id kept = SUBMIT(engine, .kind = "mail"), lost = SUBMIT(engine, .kind = "mail");
    claims->kept = claim(engine, LONG_MS);
    claims->lost = claim(engine, SHORT_MS);
    CHECK(claims->kept.id == kept && claims->lost.id == lost);
    claims->waiting = SUBMIT(engine, .kind = "mail");
    assert_status(lw_lease_progress(engine, lost, claims->lost.token, 3, 9, "three"), LW_OK);
    assert_status(lw_lease_checkpoint(engine, lost, claims->lost.token, LW_TEXT("at 3"), 0), LW_OK);
}

/* Gives leases, or is just there, until it is killed. */
static void own(lw_clock *clock, bool gives, int out) {
    struct claims claims = {.waiting = 0};
    lw_engine *engine = OPEN_ON("sqlite:tasks.db", .workers = 1, .clock = clock);
    handle(engine, "own", run_until_killed, NULL);
    start(engine);
    if (gives)
        give_leases(engine, &claims);
    CHECK(write(out, &claims, sizeof claims) == sizeof claims);
    for (;;)
        pause();
}

static struct claims live_and_be_killed(lw_clock *clock, bool gives) {
    struct claims claims;
    int fds[2], status;
    CHECK(pipe(fds) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        own(clock, gives, fds[1]);
    }
    close(fds[1]);
    CHECK(read(fds[0], &claims, sizeof claims) == sizeof claims);
    close(fds[0]);
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitpid(child, &status, 0) == child);
    assert_int_equal(status, SIGKILL);
    return claims;
}

/* ---- the next one ------------------------------------------------------------------------- */

static lw_outcome do_mail(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

/* With a handler for mail, or with others that do it. */
static lw_engine *open_next(lw_clock *clock, lw_handler run) {
    lw_engine *engine = OPEN_ON("sqlite:tasks.db", .workers = LW_ZERO, .clock = clock);
    handle(engine, "mail", run, LW_HANDLER_OPTIONS(.retry = {.attempts = 1, .crashes = 2}));
    start(engine);
    if (!run)
        assert_int_equal(lw_test_run(engine), 0); /* looks at the time */
    return engine;
}

static lw_snapshot get(lw_engine *engine, lw_id id) {
    lw_snapshot task = LW_SNAPSHOT_INIT;
    assert_status(lw_get(engine, id, &task), LW_OK);
    return task;
}

static int settle_with_all(lw_engine *engine, lw_settlement end) {
    const lw_task *then[] = {LW_TASK(.kind = "next", .key = "next")};
    end.outcome = LW_OUTCOME_DONE;
    end.result = LW_TEXT("sent");
    end.then = then;
    end.then_count = 1;
    assert_status(lw_lease_settle(engine, &end, 1, 0, NULL), LW_OK);
    return end.status;
}

static bool count_one(void *user, const lw_snapshot *task) {
    int *count = user;
    *count += strcmp(task->kind, "next") == 0;
    return true;
}

static int count_successors(lw_engine *engine) {
    int count = 0;
    CHECK(lw_list(engine, NULL, count_one, &count) >= 0);
    return count;
}

/* Of a store that is closed. */
static int count_rows(const char *path) {
    sqlite3 *db;
    sqlite3_stmt *s;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM legwork_lease", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int count = sqlite3_column_int(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    return count;
}

/* ---- valid leases ------------------------------------------------------------------------- */

static void assert_kept(lw_engine *engine, const struct claims *claims) {
    lw_snapshot task = get(engine, claims->kept.id);
    assert_int_equal(task.state, LW_STARTED);
    assert_int_equal(task.token, claims->kept.token);
    assert_string_equal(task.holder, "afar");
    assert_int_equal(task.attempts, 1);
    assert_int_equal(task.crashes, 0);
    lw_snapshot_clear(&task);
}

TEST(a_valid_lease_outlives_owners_that_are_killed_and_its_task_is_nobody_elses) {
    lw_clock *clock = open_clock();
    lw_snapshot tasks[4] = {LW_SNAPSHOT_INIT};
    struct claims claims = live_and_be_killed(clock, true);
    for (int i = 0; i < 2; i++)
        live_and_be_killed(clock, false);
    lw_engine *engine = open_next(clock, NULL);
    assert_kept(engine, &claims);
    assert_int_equal(
        lw_lease_claim(engine, LW_CLAIM_OPTIONS(.holder = "other", .max = 4), tasks, NULL), 2);
    assert_int_equal(tasks[0].id, claims.own); /* which nobody handles any more */
    assert_true(tasks[0].crashes > 0);
    assert_int_equal(tasks[1].id, claims.waiting);
    assert_int_equal(tasks[1].crashes, 0);
    for (int i = 0; i < 4; i++)
        lw_snapshot_clear(&tasks[i]);
    close_engine(engine);

    engine = open_next(clock, do_mail); /* which it could run itself now */
    lw_test_run(engine);
    assert_int_equal(tally_read(&runs), 0);
    assert_kept(engine, &claims);
    close_engine(engine);
    lw_test_clock_close(clock);
}

TEST(after_a_kill_the_holder_goes_on_with_its_token_and_its_outcome_is_applied_once) {
    lw_clock *clock = open_clock();
    struct claims claims = live_and_be_killed(clock, true);
    const lw_settlement kept = claims.kept;
    lw_engine *engine = open_next(clock, NULL);
    lw_test_advance(engine, LONG_MS - 1);
    assert_status(lw_lease_extend(engine, kept.id, kept.token, LONG_MS, 0), LW_OK);
    close_engine(engine);

    live_and_be_killed(clock, false);
    advance(clock, LONG_MS - 1); /* only the extension holds it */
    engine = open_next(clock, NULL);
    assert_kept(engine, &claims);
    assert_status(lw_lease_checkpoint(engine, kept.id, kept.token, LW_TEXT("near"), 0), LW_OK);
    assert_status(settle_with_all(engine, kept), LW_OK);
    assert_status(settle_with_all(engine, kept), LW_OK);
    close_engine(engine);

    live_and_be_killed(clock, false);
    engine = open_next(clock, NULL);
    lw_snapshot task = get(engine, kept.id);
    assert_int_equal(task.state, LW_FINISHED);
    assert_int_equal(task.attempts, 1);
    assert_int_equal(task.crashes, 0);
    assert_int_equal(task.result.size, 4);
    assert_memory_equal(task.result.data, "sent", 4);
    assert_int_equal(count_successors(engine), 1);
    assert_status(settle_with_all(engine, kept), LW_OK);
    lw_snapshot_clear(&task);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- leases that ran out ------------------------------------------------------------------ */

/* As it was when the owner died, but for the charge. */
static void assert_charged(lw_engine *engine, const struct claims *claims) {
    lw_snapshot task = get(engine, claims->lost.id);
    assert_int_equal(task.state, LW_ENQUEUED);
    assert_null(task.holder);
    assert_int_equal(task.crashes, 1);
    assert_int_equal(task.error_count, 1);
    assert_int_equal(task.errors[0].fault, LW_FAULT_CRASH);
    assert_string_equal(task.last_error, "the lease of afar ran out");
    assert_null(task.result.data);
    assert_int_equal(task.progress.done, 3);
    assert_string_equal(task.progress.text, "three");
    assert_int_equal(task.checkpoint.size, 4);
    assert_memory_equal(task.checkpoint.data, "at 3", 4);
    assert_int_equal(count_successors(engine), 0);
    lw_snapshot_clear(&task);
}

static void say_it_too_late(lw_engine *engine, lw_settlement lost) {
    assert_status(settle_with_all(engine, lost), LW_ELEASE);
    assert_status(lw_lease_progress(engine, lost.id, lost.token, 8, 9, "late"), LW_ELEASE);
    assert_status(lw_lease_partial(engine, lost.id, lost.token, LW_TEXT("late")), LW_ELEASE);
    assert_status(lw_lease_checkpoint(engine, lost.id, lost.token, LW_TEXT("late"), 0), LW_ELEASE);
    assert_status(lw_lease_extend(engine, lost.id, lost.token, LONG_MS, 0), LW_ELEASE);
    assert_status(lw_lease_return(engine, lost.id, lost.token, 0), LW_ELEASE);
}

TEST(a_lease_that_ran_out_while_nobody_was_there_is_a_crash_and_costs_no_retry) {
    lw_clock *clock = open_clock();
    struct claims claims = live_and_be_killed(clock, true);
    advance(clock, SHORT_MS + 1);
    lw_engine *engine = open_next(clock, NULL);
    assert_charged(engine, &claims);
    say_it_too_late(engine, claims.lost);
    assert_charged(engine, &claims);
    close_engine(engine);
    assert_int_equal(count_rows("tasks.db"), 1); /* of the one that is kept */

    live_and_be_killed(clock, false); /* it is charged once, not by every owner */
    engine = open_next(clock, NULL);
    assert_charged(engine, &claims);
    say_it_too_late(engine, claims.lost);
    assert_charged(engine, &claims);
    close_engine(engine);

    engine = open_next(clock, do_mail); /* its only retry is still there */
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(tally_read(&runs), 2);
    assert_int_equal(state_of(engine, claims.lost.id), LW_FINISHED);
    assert_int_equal(state_of(engine, claims.waiting), LW_FINISHED);
    assert_kept(engine, &claims);
    close_engine(engine);
    lw_test_clock_close(clock);
}

/* ---- what was told is durable ------------------------------------------------------------- */

static void say_claim(lw_engine *engine, lw_settlement *held) {
    *held = claim(engine, LONG_MS);
}

static void say_extend(lw_engine *engine, lw_settlement *held) {
    assert_status(lw_lease_extend(engine, held->id, held->token, 2 * LONG_MS, 0), LW_OK);
}

static void say_checkpoint(lw_engine *engine, lw_settlement *held) {
    assert_status(lw_lease_checkpoint(engine, held->id, held->token, LW_TEXT("at 3"), 0), LW_OK);
}

static void say_return(lw_engine *engine, lw_settlement *held) {
    assert_status(lw_lease_return(engine, held->id, held->token, 0), LW_OK);
}

static void say_done(lw_engine *engine, lw_settlement *held) {
    assert_status(settle_with_all(engine, *held), LW_OK);
}

/* The last thing that an owner was told, and what the next one knows of it. */
static const struct last_words {
    void (*say)(lw_engine *engine, lw_settlement *held);
    lw_state state;
    unsigned attempts;
    int64_t lease_ms;
    size_t checkpoint_size;
    int successors;
} last_words[] = {
    {say_claim, LW_STARTED, 1, LONG_MS, 0, 0},
    {say_extend, LW_STARTED, 1, 2 * LONG_MS, 0, 0},
    {say_checkpoint, LW_STARTED, 1, LONG_MS, 4, 0},
    {say_return, LW_ENQUEUED, 0, 0, 0, 0},
    {say_done, LW_FINISHED, 1, 0, 0, 1},
};

static void say_and_die(lw_clock *clock, const char *url, const struct last_words *last) {
    lw_settlement held;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .clock = clock);
    start(engine);
    SUBMIT(engine, .kind = "mail");
    if (last->say != say_claim)
        say_claim(engine, &held);
    last->say(engine, &held);
    raise(SIGKILL);
}

static void assert_last_words(lw_clock *clock, const char *url, const struct last_words *last) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .clock = clock);
    lw_snapshot task = get(engine, 1);
    assert_int_equal(task.state, last->state);
    assert_int_equal(task.attempts, last->attempts);
    assert_int_equal(task.lease_until_ms, last->lease_ms ? task.started_ms + last->lease_ms : 0);
    assert_int_equal(task.checkpoint.size, last->checkpoint_size);
    assert_int_equal(count_successors(engine), last->successors);
    lw_snapshot_clear(&task);
    close_engine(engine);
    assert_int_equal(count_rows(url + strlen("sqlite:")), last->lease_ms > 0);
}

TEST(what_a_holder_was_told_survives_an_owner_that_dies_the_moment_after) {
    lw_clock *clock = open_clock();
    for (size_t i = 0; i < sizeof last_words / sizeof *last_words; i++) {
        char url[32];
        int status;
        snprintf(url, sizeof url, "sqlite:%zu.db", i);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            say_and_die(clock, url, &last_words[i]);
        CHECK(waitpid(child, &status, 0) == child);
        assert_int_equal(status, SIGKILL);
        assert_last_words(clock, url, &last_words[i]);
    }
    lw_test_clock_close(clock);
}

enum { MANY = 20, CYCLES = 20 };

static int claim_many(lw_engine *engine, lw_snapshot *tasks) {
    const lw_claim_options *options =
        LW_CLAIM_OPTIONS(.holder = "afar", .max = MANY, .flags = LW_NO_WAIT);
    return lw_lease_claim(engine, options, tasks, NULL);
}

/* While the disk is busy much comes together: the last word counts. */
static void claim_to_and_fro(lw_clock *clock) {
    lw_snapshot tasks[MANY] = {LW_SNAPSHOT_INIT};
    lw_engine *engine = OPEN_ON("sqlite:tasks.db", .workers = 1, .clock = clock);
    start(engine);
    for (int i = 0; i < MANY; i++)
        SUBMIT(engine, .kind = "mail");
    for (int i = 0; i < CYCLES; i++) {
        assert_int_equal(claim_many(engine, tasks), MANY);
        for (int k = 0; k < MANY; k++)
            assert_status(lw_lease_return(engine, tasks[k].id, tasks[k].token, LW_NO_WAIT), LW_OK);
    }
    assert_int_equal(claim_many(engine, tasks), MANY);
    assert_status(lw_sync(engine), LW_OK);
    raise(SIGKILL);
}

TEST(a_lease_that_follows_another_before_that_was_written_survives) {
    lw_clock *clock = open_clock();
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        claim_to_and_fro(clock);
    CHECK(waitpid(child, &status, 0) == child);
    assert_int_equal(status, SIGKILL);
    lw_engine *engine = OPEN_ON("sqlite:tasks.db", .workers = LW_ZERO, .clock = clock);
    for (lw_id id = 1; id <= MANY; id++) {
        lw_snapshot task = get(engine, id);
        assert_int_equal(task.state, LW_STARTED);
        assert_int_equal(task.attempts, 1);
        assert_string_equal(task.holder, "afar");
        lw_snapshot_clear(&task);
    }
    close_engine(engine);
    assert_int_equal(count_rows("tasks.db"), MANY);
    lw_test_clock_close(clock);
}
