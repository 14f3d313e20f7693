/* Kill -9: a process under load is killed at random moments and started again on the same file,
 * many times; what it was told and what it ran stands in a ledger (ledger.h) that the engine knows
 * nothing of. In the end everything is waited for, and the ledger has to add up.
 *
 * Each life of the process opens the store, lists what is there, repeats under its key whatever it
 * was never told the fate of, and goes on. LW_SEED=7 repeats the plan of a run, if not its
 * timing. */
#include "ledger.h"
#include "test.h"

#include <legwork/legwork.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 10, PRODUCERS = 5, WORKERS = 4, ROOM = 300, BATCH_MAX = 40 };

/* Of all lives: mapped before the first. */
struct shared {
    _Atomic uint64_t serial; /* the last one given */
    _Atomic uint64_t events; /* noted by this life, once it runs */
};

struct world {
    struct shared *shared;
    int ledger;
    uint64_t seed;
    uint32_t life;
    lw_engine *engine;
    pthread_t producers[PRODUCERS];
};

struct payload {
    uint64_t serial;
};

static void note(struct world *w, struct ledger_record record) {
    record.life = w->life;
    ledger_append(w->ledger, record);
    atomic_fetch_add(&w->shared->events, 1);
}

static uint64_t serial_of(lw_bytes payload) {
    struct payload content;
    CHECK(payload.size == sizeof content);
    memcpy(&content, payload.data, sizeof content);
    return content.serial;
}

/* ---- the handler -------------------------------------------------------------------------- */

static void on_end(void *user, const lw_snapshot *task) {
    note(user, (struct ledger_record){.event = LEDGER_TOLD,
                                      .serial = serial_of(task->payload),
                                      .id = task->id,
                                      .token = task->token,
                                      .what = task->state});
}

static void name_successor(struct world *w, lw_ctx *ctx, const lw_task *task) {
    struct payload payload = {atomic_fetch_add(&w->shared->serial, 1) + 1};
    lw_error err;
    note(w,
         (struct ledger_record){
             .event = LEDGER_THEN, .serial = payload.serial, .id = task->id, .token = task->token});
    const lw_task *successor =
        LW_TASK(.kind = "work", .payload = {&payload, sizeof payload}, .on_end = on_end, .user = w);
    if (lw_then(ctx, successor, &err) < 0)
        assert_string_equal(err.message, "");
}

/* Most take no time, some compute a little, a few wait for somebody else. */
static void take_time(lw_ctx *ctx, uint64_t dice) {
    unsigned sort = (unsigned)(dice % 100);
    uint64_t until = ledger_now_ns() + dice / 100 % 300000;
    if (sort >= 95)
        CHECK(lw_ctx_sleep(ctx, (int64_t)(dice / 100 % 6)) == LW_OK);
    else if (sort >= 70)
        while (ledger_now_ns() < until) {
        }
}

static lw_outcome end_of(struct world *w, lw_ctx *ctx, const lw_task *task, uint64_t dice) {
    struct ledger_plan plan = ledger_plan(w->seed, serial_of(task->payload));
    if ((dice >> 32) % 16 == 0)
        return lw_snooze(ctx, (int64_t)(dice % 5));
    if (task->attempt <= plan.retries)
        return lw_retry(ctx, "attempt %u", task->attempt);
    for (unsigned i = 0; i < plan.successors; i++)
        name_successor(w, ctx, task); /* which counts if it is done, and only then */
    return plan.end == LW_OUTCOME_FAIL ? lw_fail(ctx, "as planned")
           : plan.end == LW_OUTCOME_ABORT
               ? lw_abort(ctx, "as planned")
               : lw_done_with(ctx, (lw_bytes){&task->token, sizeof task->token});
}

static lw_outcome work(lw_ctx *ctx, const lw_task *task) {
    struct world *w = lw_ctx_user(ctx);
    uint64_t dice = ledger_hash(w->seed ^ 1, task->token);
    struct ledger_record record = {.event = LEDGER_BEGUN,
                                   .serial = serial_of(task->payload),
                                   .id = task->id,
                                   .token = task->token};
    note(w, record);
    take_time(ctx, dice);
    lw_outcome outcome = end_of(w, ctx, task, dice);
    record.event = LEDGER_RETURNED;
    record.what = outcome;
    note(w, record);
    return outcome;
}

/* ---- producers ---------------------------------------------------------------------------- */

/* A task as it is submitted, and what it points to. */
struct order {
    struct payload payload;
    char key[32];
    lw_id after;
    uint32_t batch, flags;
    bool is_keyed;
    int64_t delay_ms;
    lw_task task;
};

static void fill_order(struct world *w, struct order *order) {
    snprintf(order->key, sizeof order->key, "key %llu", (unsigned long long)order->payload.serial);
    order->task = (lw_task){
        .struct_size = sizeof order->task,
        .kind = order->flags & LEDGER_FLEETING ? "fleeting" : "work",
        .queue = order->payload.serial % 3 ? "default" : "other",
        .key = order->is_keyed ? order->key : NULL,
        .payload = {&order->payload, sizeof order->payload},
        .delay_ms = order->delay_ms,
        .after = &order->after,
        .after_count = order->after != 0,
        .after_policy = order->flags & LEDGER_AFTER_RUN ? LW_AFTER_RUN : LW_AFTER_ABORT,
        .on_end = on_end,
        .user = w,
    };
}

static void note_about(struct world *w, const struct order *order) {
    uint64_t now = ledger_now_ns();
    note(w, (struct ledger_record){
                .event = LEDGER_ABOUT,
                .serial = order->payload.serial,
                .not_before_ns = order->delay_ms ? now + (uint64_t)order->delay_ms * 1000000u : 0,
                .other = order->after,
                .what = order->flags,
                .token = order->is_keyed,
                .batch = order->batch});
}

static void note_acked(struct world *w, const struct order *order, lw_id id) {
    note(w,
         (struct ledger_record){.event = LEDGER_ACKED, .serial = order->payload.serial, .id = id});
}

static struct order random_order(struct world *w, uint64_t dice, lw_id before) {
    struct order order = {.payload = {atomic_fetch_add(&w->shared->serial, 1) + 1},
                          .is_keyed = dice % 2};
    unsigned sort = (unsigned)(dice / 2 % 20);
    if (sort < 3)
        order.delay_ms = 1 + (int64_t)(dice / 40 % 120);
    else if (sort < 6 && !order.is_keyed)
        order.flags = LEDGER_FLEETING;
    else if (sort < 9 && before) {
        order.after = before;
        order.flags = dice / 40 % 2 ? LEDGER_AFTER_RUN : 0;
    }
    return order;
}

/* Returns the id; a key that is submitted twice has the same both times. */
static lw_id submit(struct world *w, struct order *order, bool is_new) {
    lw_error err;
    lw_id id = 0;
    fill_order(w, order);
    note_about(w, order);
    int rc = lw_submit(w->engine, &order->task, &id, &err);
    if (rc < 0)
        assert_string_equal(err.message, "");
    if (is_new)
        assert_status(rc, LW_OK);
    note_acked(w, order, id);
    return id;
}

static void submit_batch(struct world *w, uint64_t dice) {
    struct order orders[BATCH_MAX];
    const lw_task *tasks[BATCH_MAX];
    lw_id ids[BATCH_MAX];
    lw_error err;
    size_t count = 2 + dice % (BATCH_MAX - 1);
    uint64_t first = atomic_fetch_add(&w->shared->serial, count) + 1;
    for (size_t i = 0; i < count; i++) {
        orders[i] = (struct order){
            .payload = {first + i}, .batch = (uint32_t)first, .is_keyed = (dice >> i) & 1};
        fill_order(w, &orders[i]);
        note_about(w, &orders[i]);
        tasks[i] = &orders[i].task;
    }
    if (lw_submit_many(w->engine, tasks, count, ids, &err) < 0)
        assert_string_equal(err.message, "");
    for (size_t i = 0; i < count; i++)
        note_acked(w, &orders[i], ids[i]);
}

static void *produce(void *arg) {
    struct world *w = arg;
    uint64_t salt = ledger_hash(w->seed ^ 2, atomic_fetch_add(&w->shared->serial, 1));
    lw_id before = 0;
    for (uint64_t i = 0;; i++) {
        uint64_t dice = ledger_hash(salt, i);
        if (dice % 16 == 0) {
            submit_batch(w, dice >> 4);
            continue;
        }
        struct order order = random_order(w, dice >> 4, before);
        lw_id id = submit(w, &order, true);
        if (order.is_keyed && dice >> 60 == 0)
            CHECK(submit(w, &order, false) == id);
        before = order.flags & LEDGER_FLEETING ? before : id;
    }
    return NULL;
}

/* Whatever was not acknowledged in an earlier life, and has a key. */
static void repeat_unsure(struct world *w) {
    size_t count;
    const struct ledger_record *records = ledger_map(w->ledger, &count);
    size_t serials = atomic_load(&w->shared->serial) + 1;
    const struct ledger_record **open = calloc(serials, sizeof(void *));
    CHECK(open);
    for (size_t i = 0; i < count; i++) {
        if (records[i].event == LEDGER_ABOUT && records[i].token)
            open[records[i].serial] = &records[i];
        else if (records[i].event == LEDGER_ACKED)
            open[records[i].serial] = NULL;
    }
    for (size_t i = 0; i < serials; i++) {
        if (!open[i])
            continue;
        struct order order = {
            .payload = {i}, .after = open[i]->other, .flags = open[i]->what, .is_keyed = true};
        submit(w, &order, false);
    }
    free(open);
}

/* ---- a life of the process ---------------------------------------------------------------- */

static bool see(void *user, const lw_snapshot *task) {
    struct world *w = user;
    uint64_t token = 0;
    if (task->state == LW_FINISHED) {
        CHECK(task->result.size == sizeof token);
        memcpy(&token, task->result.data, sizeof token);
    }
    ledger_append(w->ledger, (struct ledger_record){.event = LEDGER_SEEN,
                                                    .life = w->life,
                                                    .serial = serial_of(task->payload),
                                                    .id = task->id,
                                                    .token = task->token,
                                                    .what = task->state,
                                                    .other = token});
    return true;
}

static void open_and_list(struct world *w) {
    static const lw_retry_policy retry = {.min_ms = 1, .max_ms = 20, .crashes = -1};
    static const lw_retention stay = {-1, -1, -1, -1, -1, -1, -1};
    static const lw_retention go = {LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO, LW_ZERO};
    lw_error err;
    int rc = lw_open(&w->engine, "sqlite:tasks.db",
                     LW_ENGINE_OPTIONS(.workers = WORKERS, .task_limit = ROOM), &err);
    if (rc < 0)
        assert_string_equal(err.message, "");
    lw_handle(w->engine, "work", work,
              LW_HANDLER_OPTIONS(.retry = retry, .retention = stay, .user = w,
                                 .key_scope = LW_KEY_RETAINED),
              NULL);
    lw_handle(w->engine, "fleeting", work,
              LW_HANDLER_OPTIONS(.retry = retry, .retention = go, .user = w), NULL);
    CHECK(lw_list(w->engine, LW_FILTER(.limit = 10000000), see, w) >= 0);
    ledger_append(w->ledger, (struct ledger_record){.event = LEDGER_LISTED, .life = w->life});
}

static void start(struct world *w) {
    lw_error err;
    open_and_list(w);
    if (lw_start(w->engine, &err) < 0)
        assert_string_equal(err.message, "");
    repeat_unsure(w);
}

static _Noreturn void live_until_killed(struct world *w) {
    start(w);
    for (int i = 0; i < PRODUCERS; i++)
        CHECK(pthread_create(&w->producers[i], NULL, produce, w) == 0);
    for (;;)
        pause();
}

static bool take_id(void *user, const lw_snapshot *task) {
    *(lw_id *)user = task->id;
    return false;
}

static _Noreturn void live_to_the_end(struct world *w) {
    start(w);
    for (;;) {
        lw_id id = 0;
        CHECK(lw_list(w->engine, LW_FILTER(.is_unfinished = true), take_id, &id) >= 0);
        if (id == 0)
            break;
        int rc = lw_wait(w->engine, id, 200000, NULL);
        if (rc != LW_ENOTFOUND) /* a fleeting one */
            assert_status(rc, LW_OK);
    }
    assert_status(lw_stop(w->engine, LW_DRAIN, 200000), LW_OK);
    assert_status(lw_close(w->engine), LW_OK);
    exit(EXIT_SUCCESS);
}

static pid_t begin_life(struct world *w, void (*live)(struct world *w)) {
    w->life++;
    atomic_store(&w->shared->events, 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        live(w);
    }
    return child;
}

/* ---- killing it --------------------------------------------------------------------------- */

static bool dies_within(int child, uint64_t ns) {
    struct timespec time = {.tv_nsec = (long)ns};
    struct pollfd death = {.fd = child, .events = POLLIN};
    return ppoll(&death, 1, &time, NULL) == 1;
}

/* One in five while it opens the file or lists, one just as it begins to run, the others after some
 * work; and then a bit later. */
static void kill_sometime(struct world *w, pid_t pid, uint64_t dice) {
    int status, child = pidfd_open(pid, 0);
    unsigned sort = (unsigned)(dice % 5);
    uint64_t events = sort == 0 ? 0 : dice / 5 % (sort == 1 ? 20 : 3000);
    uint64_t later_ns = dice / 16384 % (sort == 0 ? 20000000 : sort == 1 ? 100000 : 2000000);
    CHECK(child >= 0);
    while (atomic_load(&w->shared->events) < events && !dies_within(child, 300000)) {
    }
    CHECK(!dies_within(child, later_ns)); /* by itself */
    kill(pid, SIGKILL);
    CHECK(waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, SIGKILL);
    close(child);
}

static void await_end_of_life(pid_t child) {
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
}

static int take_text(void *user, int columns, char **values, char **names) {
    (void)columns, (void)names;
    snprintf(user, 256, "%s", values[0]);
    return 0;
}

static void check_integrity(void) {
    sqlite3 *db = NULL;
    char verdict[256] = "";
    CHECK(sqlite3_open("tasks.db", &db) == SQLITE_OK);
    CHECK(sqlite3_exec(db, "PRAGMA integrity_check", take_text, verdict, NULL) == SQLITE_OK);
    assert_string_equal(verdict, "ok");
    CHECK(sqlite3_exec(db, "SELECT count(*) FROM legwork_task", take_text, verdict, NULL)
          == SQLITE_OK);
    assert_string_equal(verdict, "0");
    CHECK(sqlite3_close(db) == SQLITE_OK);
}

static void remove_files(void) {
    static const char *const names[] = {"ledger",       "tasks.db",       "tasks.db-wal",
                                        "tasks.db-shm", "tasks.db-owner", "tasks.db-running"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
}

/* ---- a run -------------------------------------------------------------------------------- */

/* The test itself opens the store as the last one, so that leaks are looked for there, too. */
static void audit(struct world *w) {
    w->life++;
    open_and_list(w);
    lw_close(w->engine);
    struct ledger_figures f = ledger_audit(w->ledger, w->seed, w->life);
    check_integrity();
    printf("seed %llu: %zu acknowledged, %zu executions, %zu repeated, %zu of them redone\n",
           (unsigned long long)w->seed, f.acked, f.executed, f.repeated, f.redone);
}

static void run(uint64_t seed) {
    struct world w = {.seed = seed};
    remove_files();
    w.shared =
        mmap(NULL, sizeof *w.shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(w.shared != MAP_FAILED);
    w.ledger = ledger_open("ledger");
    fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    for (uint64_t i = 0; i < ROUNDS; i++)
        kill_sometime(&w, begin_life(&w, live_until_killed), ledger_hash(seed ^ 3, i));
    await_end_of_life(begin_life(&w, live_to_the_end));
    audit(&w);
    close(w.ledger);
    munmap(w.shared, sizeof *w.shared);
}

/* Ten rounds in `make test`, a hundred in `make test-crash`, on files of ten each. */
static void run_all(uint64_t salt) {
    const char *given = getenv("LW_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 10) : ledger_now_ns();
    for (long i = 0; i < test_scale(1, 10); i++)
        run(given ? seed : ledger_hash(seed, salt * 100 + (uint64_t)i));
}

TEST(nothing_acknowledged_is_lost_by_kill_9) {
    run_all(1);
}

TEST(nothing_acknowledged_is_lost_by_kill_9_again) {
    run_all(2);
}

TEST(nothing_acknowledged_is_lost_by_kill_9_once_more) {
    run_all(3);
}
