/* sqlite_lean.c: payloads that are in the file need not be in memory, and are there when they are
 * needed. */
#include "own_sqlite.h"
#include "stores.h"

#include "store/lean.h"

#include <stdio.h>
#include <string.h>

enum { SIZE = 1000, MANY = 500 };

static struct rig the_rig;
static lw_test_memory *memory;

static struct rig *open_with(const struct rig_options *options) {
    struct rig *rig = &the_rig;
    memory = open_memory();
    assert_status(try_open_rig(rig, "sqlite:tasks.db", options, memory), LW_OK);
    rig->queue = add_queue(rig, "default", 1, UINT32_MAX);
    rig->kind = add_kind(rig, "mail", UINT32_MAX);
    return rig;
}

#define OPEN(...) open_with(&(const struct rig_options){__VA_ARGS__})

static void close_lean(struct rig *rig) {
    close_rig(rig);
    close_memory(memory);
}

static uint64_t used_bytes(void) {
    uint64_t blocks, bytes;
    lw_test_memory_usage(memory, &blocks, &bytes, NULL);
    return bytes;
}

/* ---- payloads that can be told apart ------------------------------------------------------ */

static void write_payload(char *payload, size_t size, uint64_t number) {
    memset(payload, 'p', size);
    snprintf(payload, size, "payload %llu", (unsigned long long)number);
}

static int try_put_bytes(struct rig *rig, uint64_t number, size_t size, uint64_t *id) {
    char payload[SIZE];
    write_payload(payload, size, number);
    struct lw__put put = make_put(rig, WISH(0));
    put.spec = lw__lean_make(rig->allocator, (lw_bytes){payload, size},
                             (lw_bytes){&number, sizeof number});
    CHECK(put.spec != NULL);
    int rc = rig->ops->put(rig->store, rig->now, &put, 1);
    if (rc < 0)
        drop_put(rig, &put);
    *id = put.id;
    return rc;
}

static struct lw__task *put_bytes(struct rig *rig, uint64_t number) {
    uint64_t id;
    assert_status(try_put_bytes(rig, number, SIZE, &id), LW_OK);
    return find(rig, id);
}

static void assert_bytes(const struct lw__task *task, uint64_t number) {
    char payload[SIZE];
    const struct lw__spec *spec = lw__task_spec(task);
    write_payload(payload, SIZE, number);
    CHECK(spec != NULL);
    assert_int_equal(spec->payload_size, SIZE);
    assert_memory_equal(lw__spec_payload(spec), payload, SIZE);
    assert_int_equal(lw__spec_payload(spec)[SIZE], 0);
    assert_int_equal(spec->value_size, sizeof number);
    assert_memory_equal(lw__spec_value(spec), &number, sizeof number);
}

static void assert_readable(struct rig *rig, uint64_t id, uint64_t number) {
    char wanted[SIZE], seen[SIZE];
    write_payload(wanted, SIZE, number);
    assert_status(rig->ops->read(rig->store, id, seen, SIZE), LW_OK);
    assert_memory_equal(seen, wanted, SIZE);
}

static void run_sql_once(const char *sql) {
    sqlite3 *db = connect_db("tasks.db");
    run_sql(db, sql);
    sqlite3_close(db);
}

/* ---- waiting ------------------------------------------------------------------------------ */

TEST(a_waiting_task_takes_no_memory_for_its_payload) {
    struct rig *rig = OPEN(.resident_limit = 1);
    put_bytes(rig, 0);
    uint64_t before = used_bytes();
    for (uint64_t i = 1; i <= MANY; i++)
        CHECK(lw__task_is_lean(put_bytes(rig, i)));
    CHECK(used_bytes() - before < MANY * 160);
    close_lean(rig);
}

TEST(what_was_put_is_there_when_it_is_claimed) {
    struct rig *rig = OPEN(.resident_limit = 1);
    for (uint64_t i = 0; i < MANY; i++)
        put_bytes(rig, i);
    for (uint64_t i = 0; i < MANY; i++) {
        struct attempt attempt = start_one(rig);
        assert_bytes(attempt.task, i);
        finish(rig, attempt);
    }
    assert_empty(rig);
    assert_int_equal(rig->store->index->resident, 0);
    close_lean(rig);
}

TEST(batches_of_tasks_that_stand_far_apart_are_read_as_well) {
    struct rig *rig = OPEN(.resident_limit = 1);
    uint16_t other = add_kind(rig, "other", UINT32_MAX);
    struct attempt attempts[8];
    for (uint64_t i = 0; i < 8; i++) {
        put_bytes(rig, i);
        for (int k = 0; k < 200; k++)
            PUT(rig, .kind = other, .priority = 2 * PRIORITY, .payload_size = 1);
    }
    assert_int_equal(claim(rig, attempts, 8), 8);
    for (uint64_t i = 0; i < 8; i++)
        assert_bytes(attempts[i].task, i);
    close_lean(rig);
}

TEST(a_short_backlog_stays_in_memory) {
    struct rig *rig = OPEN(.resident_limit = LW__RESIDENT_MAX);
    for (uint64_t i = 0; i < MANY; i++)
        CHECK(!lw__task_is_lean(put_bytes(rig, i)));
    close_lean(rig);
}

TEST(what_is_read_ahead_is_bounded) {
    struct rig *rig = OPEN(.resident_limit = 20000);
    for (uint64_t i = 0; i < MANY; i++)
        put_bytes(rig, i);
    CHECK(rig->store->index->resident < 20000);
    for (uint64_t i = 0; i < MANY; i++) {
        struct attempt attempt = start_one(rig);
        assert_bytes(attempt.task, i);
        CHECK(rig->store->index->resident < 20000 + 2 * SIZE);
        finish(rig, attempt);
    }
    close_lean(rig);
}

TEST(bytes_are_counted_whether_or_not_they_are_in_memory) {
    struct rig *rig = OPEN(.resident_limit = 1, .byte_limit = 2 * SIZE);
    uint64_t first, second, third;
    assert_status(try_put_bytes(rig, 1, SIZE, &first), LW_OK);
    assert_status(try_put_bytes(rig, 2, SIZE, &second), LW_OK);
    assert_status(try_put_bytes(rig, 3, 1, &third), LW_EFULL);
    reopen_rig(rig);
    assert_status(try_put_bytes(rig, 3, 1, &third), LW_EFULL);
    assert_status(change(rig, first, LW__CHANGE_CANCEL), LW_OK);
    assert_status(try_put_bytes(rig, 3, SIZE, &third), LW_OK);
    assert_status(change(rig, first, LW__CHANGE_RETRY), LW_EFULL);
    close_lean(rig);
}

TEST(an_open_reads_no_payload) {
    struct rig *rig = OPEN(.resident_limit = 1);
    for (uint64_t i = 0; i < MANY; i++)
        put_bytes(rig, i);
    reopen_rig(rig);
    CHECK(used_bytes() < MANY * 200 + 300000);
    CHECK(lw__task_is_lean(find(rig, 1)));
    assert_bytes(start_one(rig).task, 0);
    close_lean(rig);
}

TEST(tasks_with_more_than_a_payload_keep_it) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *keyed = PUT(rig, .key = "a", .payload_size = 100);
    struct lw__task *limited = PUT(rig, .finish_by = rig->now + 1000000 * UINT64_C(1000000));
    CHECK(!lw__task_is_lean(keyed) && !lw__task_is_lean(limited));
    uint64_t id = keyed->id;
    reopen_rig(rig);
    CHECK(lw__task_spec(find(rig, id)) != NULL);
    assert_int_equal(lw__task_payload_size(find(rig, id)), 100);
    close_lean(rig);
}

/* ---- again -------------------------------------------------------------------------------- */

TEST(a_retry_has_its_payload_again) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *task = put_bytes(rig, 7);
    struct attempt attempt = start_this(rig, task);
    SETTLE(rig, attempt, .verdict = LW__VERDICT_POSTPONE, .due = rig->now + 5 * MS,
           .fault = LW_FAULT_ERROR, .text = "no");
    CHECK(lw__task_is_lean(task));
    pass(rig, 10);
    rig->ops->sweep(rig->store, rig->now);
    assert_bytes(start_this(rig, task).task, 7);
    close_lean(rig);
}

TEST(one_that_was_retried_by_hand_has_its_payload_from_the_history) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *task = put_bytes(rig, 7);
    uint64_t id = task->id;
    SETTLE(rig, start_this(rig, task), .verdict = LW__VERDICT_FAIL, .fault = LW_FAULT_ERROR,
           .text = "no");
    CHECK(lw__task_is_lean(task));
    assert_readable(rig, id, 7);
    reopen_rig(rig);
    assert_readable(rig, id, 7);
    assert_status(change(rig, id, LW__CHANGE_RETRY), LW_OK);
    assert_bytes(start_one(rig).task, 7);
    close_lean(rig);
}

TEST(what_has_ended_takes_no_memory_for_its_payload) {
    struct rig *rig = OPEN(.resident_limit = LW__RESIDENT_MAX);
    struct lw__task *task = put_bytes(rig, 7);
    finish(rig, start_this(rig, task));
    assert_state(task, LW_FINISHED);
    CHECK(lw__task_is_lean(task));
    assert_readable(rig, task->id, 7);
    close_lean(rig);
}

/* ---- looking ------------------------------------------------------------------------------ */

TEST(a_payload_that_has_left_cannot_be_read) {
    struct rig *rig = OPEN(.resident_limit = 1);
    char payload[SIZE];
    uint64_t id = put_bytes(rig, 7)->id;
    assert_readable(rig, id, 7);
    assert_status(rig->ops->read(rig->store, id + 1, payload, SIZE), LW_ENOTFOUND);
    finish(rig, start_one(rig));
    assert_status(change(rig, id, LW__CHANGE_FORGET), LW_OK);
    assert_status(rig->ops->read(rig->store, id, payload, SIZE), LW_ENOTFOUND);
    close_lean(rig);
}

/* ---- trouble ------------------------------------------------------------------------------ */

TEST(a_row_that_somebody_has_removed_aborts_its_task) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *task = put_bytes(rig, 7), *next = put_bytes(rig, 8);
    run_sql_once("DELETE FROM legwork_task WHERE id = 1");
    struct attempt attempt = claim_one(rig);
    CHECK(attempt.task == task);
    assert_state(task, LW_ABORTED);
    assert_string_equal(last_error(task), "its row is gone from the file");
    CHECK(!rig->ops->begin(rig->store, task, attempt.token, rig->now));
    rig->ops->account(rig->store, rig->now, &task, 1);
    assert_bytes(start_this(rig, next).task, 8);
    close_lean(rig);
}

/* Its row is not gone: it is not looked for in a file that is another one. */
TEST(what_is_in_a_file_that_was_replaced_stays_enqueued) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *task = put_bytes(rig, 7);
    assert_int_equal(rename("tasks.db", "old.db"), 0);
    assert_int_equal(rename("tasks.db-wal", "old.db-wal"), 0);
    assert_int_equal(rename("tasks.db-shm", "old.db-shm"), 0);
    run_sql_once("CREATE TABLE legwork_task (id INTEGER PRIMARY KEY, payload, value);"
                 "CREATE TABLE legwork_history (id INTEGER PRIMARY KEY, payload, value)");
    assert_null(claim_one(rig).task);
    assert_state(task, LW_ENQUEUED);
    CHECK(rig->store->index->is_halted);
    close_lean(rig);
}

/* Without memory it is not claimed; when there is some again it is. */
TEST(what_cannot_be_read_stays_enqueued) {
    struct rig *rig = OPEN(.resident_limit = 1);
    struct lw__task *task = put_bytes(rig, 7);
    bool was_refused = false;
    for (uint64_t n = 1; lw__task_is_lean(task); n++) {
        lw_test_memory_fail_at(memory, n);
        struct attempt attempt = claim_one(rig);
        lw_test_memory_fail_at(memory, 0);
        if (attempt.task)
            break;
        was_refused = true;
        assert_state(task, LW_ENQUEUED);
        CHECK(rig->store->index->is_halted);
        PUT(rig, 0); /* a turn that works */
        CHECK(!rig->store->index->is_halted);
    }
    CHECK(was_refused);
    assert_bytes(task, 7);
    close_lean(rig);
}
