/* Turns of the pump on a database that writes down what it is asked for, and during whose writes
 * others come. */
#include "gate.h"
#include "stores.h"

#include "base/error.h"
#include "store/db/bounded.h"
#include "store/db/pump.h"

#include <pthread.h>
#include <stdatomic.h>

enum { WAITS = 64, COMMITS = 16 };

static struct rig rig;
static struct lw__pump pump;
static struct lw__journal_wait waits[WAITS];
static int wait_count;

static struct {
    int newcomers; /* that come during the next writes, one in each */
    int writes;    /* of the present transaction */
    int commits, committed[COMMITS], told[COMMITS];
    int status; /* of commits */
    void (*during_write)(void);
} db;

/* Somebody puts a task, and sleeps until it is durable. */
static void come(void) {
    struct lw__index *index = rig.store->index;
    PUT(&rig, 0);
    lw__index_lock(index);
    lw__journal_await_locked(index->journal, &waits[wait_count++]);
    lw__index_unlock(index);
}

static int count_told(void) {
    int count = 0;
    for (int i = 0; i < wait_count; i++)
        count += atomic_load(&waits[i].is_over) != 0;
    return count;
}

static int begin(void *unused, lw_error *err) {
    (void)unused, (void)err;
    db.writes = 0;
    return LW_OK;
}

static int write_entries(void *unused, const struct lw__journal_entry *entries, size_t count,
                         lw_error *err) {
    (void)unused, (void)entries, (void)err;
    if (db.during_write)
        db.during_write();
    for (size_t i = 0; i < count; i++) {
        db.writes++;
        if (db.newcomers > 0) {
            db.newcomers--;
            come();
        }
    }
    return LW_OK;
}

static int commit(void *unused, lw_error *err) {
    (void)unused, (void)err;
    db.told[db.commits % COMMITS] = count_told();
    db.committed[db.commits++ % COMMITS] = db.writes;
    return db.status;
}

static void rollback(void *unused) {
    (void)unused;
}

static const struct lw__db_ops ops = {.begin = begin,
                                      .write = write_entries,
                                      .commit = commit,
                                      .rollback = rollback,
                                      .recover = begin};

static void open_pump(lw_test_memory *memory) {
    assert_status(try_open_rig(&rig, "memory:", &(struct rig_options){0}, memory), LW_OK);
    rig.queue = add_queue(&rig, "default", 1, UINT32_MAX);
    rig.kind = add_kind(&rig, "mail", UINT32_MAX);
    lw__pump_init(&pump, rig.store->index, &ops, NULL);
    pump.is_synchronous = true;
    rig.store->index->journal = &pump.journal;
}

static void close_pump(lw_test_memory *memory) {
    lw__pump_stop(&pump);
    rig.store->index->journal = NULL;
    close_rig(&rig);
    close_memory(memory);
}

TEST(who_comes_again_while_a_turn_is_written_is_taken_along) {
    lw_test_memory *memory = open_memory();
    open_pump(memory);
    db.newcomers = 3;
    come();
    lw__pump_run(&pump);
    /* Nobody was there before the first turn; the second is of as many as were there then. */
    assert_int_equal(db.commits, 3);
    assert_int_equal(db.committed[0], 1);
    assert_int_equal(db.committed[1], 2);
    assert_int_equal(db.committed[2], 1);
    assert_int_equal(count_told(), 4);
    close_pump(memory);
}

TEST(nobody_is_told_before_the_commit_of_what_was_taken_along) {
    lw_test_memory *memory = open_memory();
    open_pump(memory);
    db.newcomers = 3;
    come();
    lw__pump_run(&pump);
    assert_int_equal(db.told[0], 0);
    assert_int_equal(db.told[1], 1);
    assert_int_equal(db.told[2], 3);
    close_pump(memory);
}

TEST(a_turn_ends_even_if_others_keep_coming) {
    lw_test_memory *memory = open_memory();
    open_pump(memory);
    for (int i = 0; i < 40; i++)
        come();
    lw__pump_run(&pump);
    db.newcomers = 20;
    come();
    lw__pump_run(&pump);
    assert_int_equal(db.committed[0], 40);
    assert_int_equal(db.committed[1], 8);
    assert_int_equal(count_told(), 61);
    close_pump(memory);
}

TEST(who_was_taken_along_into_a_turn_that_fails_is_told_so) {
    lw_test_memory *memory = open_memory();
    open_pump(memory);
    db.newcomers = 3;
    come();
    come();
    lw__pump_run(&pump); /* of two, and of the two that came meanwhile */
    assert_int_equal(db.committed[0], 2);
    assert_int_equal(db.committed[1], 3);
    db.status = LW_ESYSTEM;
    db.newcomers = 1;
    come();
    lw__pump_run(&pump);
    assert_int_equal(db.committed[2], 2);
    assert_int_equal(count_told(), 7);
    assert_int_equal(waits[4].status, LW_OK);
    assert_int_equal(waits[5].status, LW_ESYSTEM);
    assert_int_equal(waits[6].status, LW_ESYSTEM);
    assert_int_equal(rig.store->index->unfinished, 5); /* and their puts were taken back */
    db.status = LW_OK;
    close_pump(memory);
}

/* ---- a caller's deadline ------------------------------------------------------------------- */

/* Nobody takes turns but the test. */
static void open_pump_by_hand(lw_test_memory *memory) {
    open_pump(memory);
    pump.is_synchronous = false;
}

static void run_by_hand(void) {
    lw__pump_run(&pump);
}

TEST(a_put_whose_turn_has_not_begun_is_withdrawn_at_its_deadline) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    struct lw__put puts[] = {make_put(&rig, WISH(.key = "a", .payload_size = 100)),
                             make_put(&rig, WISH(.key = "b"))};
    come(); /* before it, and is not withdrawn */
    assert_status(lw__bounded_put(&pump, rig.now, puts, 2, rig.now), LW_ETIMEDOUT);
    assert_null(puts[0].task);
    assert_null(puts[0].spec);
    assert_int_equal(rig.store->index->unfinished, 1);
    assert_int_equal(pump.journal.pending, 1);
    run_by_hand();
    assert_int_equal(db.committed[0], 1);
    assert_int_equal(count_told(), 1);
    assert_status(TRY_PUT(&rig, .key = "a"), LW_OK); /* its key is free */
    run_by_hand();
    close_pump(memory);
}

static struct {
    struct lw__put put;
    uint64_t deadline;
    int status;
    pthread_t thread;
} caller;

static void *call(void *unused) {
    caller.status = lw__bounded_put(&pump, rig.now, &caller.put, 1, caller.deadline);
    return unused;
}

/* Returns when it sleeps. */
static void start_caller(void) {
    caller.put = make_put(&rig, WISH(.key = "a", .is_told = true));
    caller.deadline = rig.now + 1000 * LW__NS_PER_MS;
    assert_int_equal(pthread_create(&caller.thread, NULL, call, NULL), 0);
    assert_status(lw_test_clock_await_sleepers(rig.clock, 1, -1), LW_OK);
}

static void let_time_pass(void) {
    db.during_write = NULL;
    pass(&rig, 2000);
    pthread_join(caller.thread, NULL);
}

TEST(a_put_whose_turn_has_begun_at_its_deadline_is_unsure) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    db.during_write = let_time_pass;
    run_by_hand();
    assert_status(caller.status, LW_EUNSURE);
    assert_null(caller.put.spec);
    assert_int_equal(rig.store->index->unfinished, 1);
    assert_int_equal(pump.journal.pending, 0);
    assert_status(TRY_PUT(&rig, .key = "a"), LW_EXISTS);
    close_pump(memory);
}

TEST(a_put_with_a_key_that_others_were_told_of_is_unsure_and_not_withdrawn) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    assert_status(TRY_PUT(&rig, .key = "a"), LW_EXISTS);
    let_time_pass();
    assert_status(caller.status, LW_EUNSURE);
    assert_int_equal(rig.store->index->unfinished, 1);
    run_by_hand();
    assert_int_equal(pump.journal.pending, 0);
    close_pump(memory);
}

TEST(a_put_that_is_durable_in_time_is_as_any_other) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    run_by_hand();
    pthread_join(caller.thread, NULL);
    assert_status(caller.status, LW_OK);
    assert_non_null(caller.put.task);
    close_pump(memory);
}

/* What the caller has given to its callback may be freed by now. */
TEST(a_put_that_is_unsure_has_no_callback) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    db.during_write = let_time_pass;
    run_by_hand();
    assert_status(caller.status, LW_EUNSURE);
    struct lw__task *task = find(&rig, caller.put.id);
    assert_null(lw__task_spec(task)->on_end);
    SETTLE(&rig, start_this(&rig, task), .verdict = LW__VERDICT_FINISH);
    run_by_hand();
    assert_null(lw__task_spec(task)->on_end);
    close_pump(memory);
}

TEST(a_put_that_is_durable_in_time_keeps_its_callback) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    run_by_hand();
    pthread_join(caller.thread, NULL);
    assert_status(caller.status, LW_OK);
    assert_non_null(lw__task_spec(caller.put.task)->on_end);
    close_pump(memory);
}

static void expect_unsure(void) {
    let_time_pass();
    assert_status(caller.status, LW_EUNSURE);
    assert_non_null(find(&rig, caller.put.id));
    run_by_hand();
    assert_int_equal(pump.journal.pending, 0);
}

TEST(a_put_that_another_comes_after_is_unsure_and_not_withdrawn) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    struct lw__task *after = PUT(&rig, .after = {caller.put.id}, .after_policy = LW_AFTER_RUN);
    expect_unsure();
    assert_state(after, LW_CREATED);
    close_pump(memory);
}

TEST(a_put_whose_end_somebody_waits_for_is_unsure_and_not_withdrawn) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    struct lw__await await = {.id = caller.put.id};
    assert_status(rig.ops->await(rig.store, &await), LW_OK);
    expect_unsure();
    assert_int_equal(await.is_over, 0);
    rig.ops->unawait(rig.store, &await);
    close_pump(memory);
}

TEST(a_key_that_others_have_found_taken_elsewhere_is_in_nobodys_way) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    start_caller();
    PUT(&rig, .key = "z");
    assert_status(TRY_PUT(&rig, .key = "z"), LW_EXISTS);
    let_time_pass();
    assert_status(caller.status, LW_ETIMEDOUT);
    run_by_hand();
    assert_int_equal(rig.store->index->unfinished, 1);
    close_pump(memory);
}

/* Those noted before it and after it stay, and are written. */
TEST(a_put_is_withdrawn_from_among_others_and_its_end_with_it) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    come();
    start_caller();
    come();
    assert_status(change(&rig, caller.put.id, LW__CHANGE_CANCEL), LW_OK);
    come();
    assert_int_equal(pump.journal.pending, 5);
    let_time_pass();
    assert_status(caller.status, LW_ETIMEDOUT);
    assert_null(find(&rig, caller.put.id));
    assert_int_equal(pump.journal.pending, 3);
    run_by_hand();
    assert_int_equal(count_told(), 3);
    assert_int_equal(pump.journal.pending, 0);
    assert_int_equal(rig.store->index->unfinished, 3);
    close_pump(memory);
}

TEST(a_turn_fails_from_whose_puts_one_was_withdrawn_before) {
    lw_test_memory *memory = open_memory();
    open_pump_by_hand(memory);
    come();
    start_caller();
    come();
    let_time_pass();
    assert_status(caller.status, LW_ETIMEDOUT);
    db.status = LW_ESYSTEM;
    run_by_hand();
    assert_int_equal(count_told(), 2);
    assert_int_equal(pump.journal.pending, 0);
    assert_int_equal(rig.store->index->unfinished, 0);
    db.status = LW_OK;
    close_pump(memory);
}

/* ---- what others have written -------------------------------------------------------------- */

static _Atomic int look_status;

static int look(void *unused, bool is_sure, lw_error *err) {
    (void)unused, (void)is_sure;
    int rc = atomic_load(&look_status);
    return rc < 0 ? lw__error_set(err, rc, 0, "it is held") : rc;
}

static int watch_nothing(void *unused) {
    (void)unused;
    return -1;
}

static bool heed_nothing(void *unused) {
    (void)unused;
    return false;
}

static bool is_halted(int status) {
    struct lw__index *index = rig.store->index;
    lw__index_lock(index);
    bool is_it = index->is_halted && index->trouble.status == status;
    lw__index_unlock(index);
    return is_it;
}

static uint32_t misses(void) {
    lw__index_lock(rig.store->index);
    uint32_t count = pump.misses;
    lw__index_unlock(rig.store->index);
    return count;
}

/* Attempts may have been completed there: nothing starts, and nobody is told that all is well. */
TEST(a_look_that_cannot_be_made_halts_the_store_until_it_can) {
    struct lw__db_ops looking = ops;
    lw_test_memory *memory = open_memory();
    looking.intake = look;
    looking.watch = watch_nothing;
    looking.heed = heed_nothing;
    db.commits = 0;
    open_pump(memory);
    pump.ops = &looking;
    pump.is_synchronous = false;
    atomic_store(&look_status, LW_EBUSY);
    assert_true(lw__pump_start(&pump));
    lw__pump_call(&pump);
    await_that(is_halted(LW_EBUSY) && misses() >= 2);
    atomic_store(&look_status, 0);
    lw__pump_call(&pump);
    await_that(!is_halted(LW_EBUSY) && misses() == 0);
    close_pump(memory);
}
