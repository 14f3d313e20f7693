/* What was noted, and what becomes of it when it is written, and when it is not. */
#include "stores.h"

#include "store/journal.h"

#include <pthread.h>

static struct rig rig;
static struct lw__journal journal;
static struct lw__journal_batch batch;
static int calls;

static void count_call(void *user) {
    (void)user;
    calls++;
}

/* An index whose journal is written by the test. */
static void open_journal(lw_test_memory *memory) {
    assert_status(try_open_rig(&rig, "memory:", &(struct rig_options){0}, memory), LW_OK);
    rig.queue = add_queue(&rig, "default", 1, UINT32_MAX);
    rig.kind = add_kind(&rig, "mail", UINT32_MAX);
    lw__journal_init(&journal, rig.allocator, count_call, NULL);
    batch = (struct lw__journal_batch){0};
    rig.store->index->journal = &journal;
}

static void close_journal(lw_test_memory *memory) {
    lw__journal_free_batch(&journal, &batch);
    lw__journal_free(&journal);
    rig.store->index->journal = NULL;
    close_rig(&rig);
    close_memory(memory);
}

static void take(void) {
    lw__journal_take_locked(rig.store->index, &batch);
}

static void flush(void) {
    lw__journal_flush_locked(rig.store->index, &batch, rig.now);
}

static void write_all(void) {
    do {
        take();
        flush();
    } while (journal.batch.count > 0);
}

TEST(a_put_runs_and_an_end_has_its_effects_when_they_are_durable) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *task = PUT(&rig, .key = "a");
    CHECK(calls > 0);
    assert_state(task, LW_CREATED);
    assert_null(claim_one(&rig).task);
    write_all();
    assert_state(task, LW_ENQUEUED);
    SETTLE(&rig, start_this(&rig, task), .verdict = LW__VERDICT_FINISH);
    assert_int_equal(rig.store->index->unfinished, 1);
    assert_status(change(&rig, task->id, LW__CHANGE_FORGET), LW_PENDING);
    write_all();
    assert_int_equal(rig.store->index->unfinished, 0);
    assert_status(change(&rig, task->id, LW__CHANGE_FORGET), LW_OK);
    write_all();
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

TEST(an_unsaved_task_can_be_cancelled) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *plain = PUT(&rig, 0), *keyed = PUT(&rig, .key = "a");
    assert_status(change(&rig, plain->id, LW__CHANGE_CANCEL), LW_OK);
    take();
    assert_status(change(&rig, keyed->id, LW__CHANGE_CANCEL), LW_OK);
    flush();
    assert_state(plain, LW_ABORTED);
    CHECK(lw__task_flags(keyed) & LW__TASK_UNSAVED);
    write_all();
    assert_empty(&rig);
    close_journal(memory);
}

/* Of a batch that failed puts are gone, and what was noted of them; the rest is first in line. */
TEST(a_batch_that_fails_gives_its_puts_back_and_keeps_the_rest) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *old = PUT(&rig, 0);
    write_all();
    uint64_t old_id = old->id;
    struct lw__scope_copy scope = {.bytes = NULL};
    assert_status(rig.ops->scope_open(rig.store, rig.now, "s", LW_TEXT("x"), NULL, 0, &scope),
                  LW_OK);
    uint64_t gone = PUT(&rig, .key = "a", .finish_by = rig.now + MS)->id;
    PUT(&rig, .scope = scope.id, .generation = scope.generation);
    assert_status(change(&rig, old_id, LW__CHANGE_CANCEL), LW_OK);
    take();
    assert_status(change(&rig, gone, LW__CHANGE_CANCEL), LW_OK); /* in the batch after */
    uint64_t waits = PUT(&rig, .after = {gone})->id;
    lw__journal_fail_locked(rig.store->index, &batch, false, rig.now);
    assert_null(find(&rig, gone));
    assert_null(find(&rig, waits));
    assert_int_equal(batch.count, 2); /* the scope, and the end of the old one */
    assert_int_equal(journal.batch.count, 0);
    assert_int_equal(journal.pending, 2);
    assert_int_equal(rig.store->index->unfinished, 1);
    PUT(&rig, .key = "a");
    flush();
    assert_state(find(&rig, old_id), LW_ABORTED);
    assert_int_equal(rig.store->index->unfinished, 1);
    write_all();
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

TEST(what_may_have_been_written_is_removed_and_successors_are_not) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *task = PUT(&rig, 0);
    write_all();
    struct lw__put next = make_put(&rig, WISH(.key = "n"));
    SETTLE(&rig, start_this(&rig, task), .verdict = LW__VERDICT_FINISH, .successors = &next,
           .successor_count = 1);
    uint64_t gone = PUT(&rig, 0)->id;
    take();
    lw__journal_fail_locked(rig.store->index, &batch, true, rig.now);
    assert_int_equal(batch.count, 3);
    assert_int_equal(batch.entries[0].op, LW__JOURNAL_THEN);
    assert_int_equal(batch.entries[1].op, LW__JOURNAL_END);
    assert_int_equal(batch.entries[2].op, LW__JOURNAL_VOID);
    assert_int_equal(batch.entries[2].id, gone);
    assert_null(find(&rig, gone));
    flush();
    assert_state(next.task, LW_ENQUEUED);
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

static void fill_to_the_brim(void) {
    while (journal.batch.count < journal.batch.capacity)
        assert_status(change(&rig, PUT(&rig, 0)->id, LW__CHANGE_CANCEL), LW_OK);
}

TEST(what_there_was_no_memory_to_note_is_found) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *ends = PUT(&rig, .priority = 1), *waits = PUT(&rig, .priority = 2);
    write_all();
    struct attempt first = start_this(&rig, ends), second = start_this(&rig, waits);
    fill_to_the_brim();
    size_t count = journal.batch.count;
    lw_test_memory_fail_at(memory, 1);
    SETTLE(&rig, first, .verdict = LW__VERDICT_FINISH);
    CHECK(lw_test_memory_has_failed(memory));
    lw_test_memory_fail_at(memory, 1);
    SETTLE(&rig, second, .verdict = LW__VERDICT_POSTPONE, .due = rig.now + MS);
    lw_test_memory_fail_at(memory, 0);
    assert_int_equal(journal.batch.count, count);
    assert_int_equal(journal.pending, count + 2);
    CHECK(journal.has_lost_notes);
    take();
    CHECK(!journal.has_lost_notes);
    assert_int_equal(batch.count, count + 2);
    assert_int_equal(batch.entries[count].op, LW__JOURNAL_END);
    CHECK(batch.entries[count].task == ends);
    assert_int_equal(batch.entries[count + 1].op, LW__JOURNAL_CHANGE);
    flush();
    write_all();
    assert_int_equal(journal.pending, 0);
    assert_int_equal(rig.store->index->unfinished, 1);
    close_journal(memory);
}

TEST(a_task_that_says_much_is_written_once_a_turn) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__publication said = {.has_progress = true, .done = 1, .text = ""};
    struct lw__task *task = PUT(&rig, 0);
    write_all();
    struct attempt attempt = start_this(&rig, task);
    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < 10; i++)
            assert_status(rig.ops->publish(rig.store, task, attempt.token, &said), LW_OK);
        assert_int_equal(journal.batch.count, 1);
        write_all();
    }
    SETTLE(&rig, attempt, .verdict = LW__VERDICT_ABORT);
    write_all();
    assert_empty(&rig);
    close_journal(memory);
}

TEST(what_is_taken_later_stands_behind_what_was_taken_before) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__journal_wait first = {0}, second = {0};
    uint64_t a = PUT(&rig, 0)->id;
    lw__journal_await_locked(&journal, &first);
    take();
    uint64_t b = PUT(&rig, 0)->id;
    lw__journal_await_locked(&journal, &second);
    take();
    assert_int_equal(batch.count, 2);
    assert_int_equal(batch.entries[0].id, a);
    assert_int_equal(batch.entries[1].id, b);
    assert_int_equal(batch.sleeper_count, 2);
    assert_int_equal(journal.batch.sleeper_count, 0);
    flush();
    lw__journal_tell(&journal, &batch, LW_OK);
    assert_int_equal(first.is_over, 1);
    assert_int_equal(second.is_over, 1);
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

TEST(whoever_waits_can_be_taken_along_when_nothing_was_noted) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__journal_wait wait = {0};
    PUT(&rig, 0);
    take();
    lw__journal_await_locked(&journal, &wait);
    take();
    assert_int_equal(batch.count, 1);
    flush();
    lw__journal_tell(&journal, &batch, LW_OK);
    assert_int_equal(wait.is_over, 1);
    close_journal(memory);
}

TEST(what_there_is_no_memory_to_take_along_stays_for_the_next_turn) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    for (int i = 0; i < 2; i++) /* as it is filled by two at a time */
        PUT(&rig, 0);
    fill_to_the_brim();
    take();
    size_t count = batch.count;
    PUT(&rig, 0);
    lw_test_memory_fail_at(memory, 1);
    CHECK(!lw__journal_take_locked(rig.store->index, &batch));
    CHECK(lw_test_memory_has_failed(memory));
    lw_test_memory_fail_at(memory, 0);
    assert_int_equal(batch.count, count);
    assert_int_equal(journal.batch.count, 1);
    flush();
    write_all();
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

struct sleeper {
    struct lw__journal_wait wait;
    pthread_t thread;
};

static void *sleep_until_told(void *arg) {
    lw__journal_sleep(&journal, arg);
    return NULL;
}

static void start_sleepers(struct sleeper *sleepers, int count) {
    for (int i = 0; i < count; i++) {
        lw__journal_await_locked(&journal, &sleepers[i].wait);
        assert_int_equal(
            pthread_create(&sleepers[i].thread, NULL, sleep_until_told, &sleepers[i].wait), 0);
    }
}

static void join_sleepers(struct sleeper *sleepers, int count) {
    for (int i = 0; i < count; i++) {
        assert_int_equal(pthread_join(sleepers[i].thread, NULL), 0);
        assert_int_equal(sleepers[i].wait.status, LW_OK);
    }
}

/* Those of the next turn sleep on. */
TEST(all_that_sleep_until_a_turn_is_over_wake) {
    enum { SLEEPERS = 8 };
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    static struct sleeper now[SLEEPERS], later[SLEEPERS];
    start_sleepers(now, SLEEPERS);
    take();
    lw__journal_close_locked(&journal);
    start_sleepers(later, SLEEPERS);
    lw__journal_tell(&journal, &batch, LW_OK);
    join_sleepers(now, SLEEPERS);
    for (int i = 0; i < SLEEPERS; i++)
        assert_int_equal(later[i].wait.is_over, 0);
    take();
    lw__journal_tell(&journal, &batch, LW_OK);
    join_sleepers(later, SLEEPERS);
    close_journal(memory);
}
