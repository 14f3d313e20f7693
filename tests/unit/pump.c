/* Turns of the pump on a database that writes down what it is asked for, and during whose writes
 * others come. */
#include "stores.h"

#include "store/db/pump.h"

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
    db.told[db.commits] = count_told();
    db.committed[db.commits++] = db.writes;
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
