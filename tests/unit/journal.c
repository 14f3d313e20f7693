/* What was noted, and what becomes of it when it is written, and when it is not. */
#include "stores.h"

#include "base/random.h"
#include "store/journal.h"

#include <pthread.h>
#include <stdio.h>

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

/* The bit that says so is not the one of a put that is taken back. */
TEST(a_completed_attempt_keeps_its_end_when_the_turn_fails) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *task = PUT(&rig, 0), *waits = PUT(&rig, .after = {task->id});
    write_all();
    struct attempt attempt = start_this(&rig, task);
    task->notes |= LW__NOTE_DONE;
    SETTLE(&rig, attempt, .verdict = LW__VERDICT_FINISH);
    take();
    lw__journal_fail_locked(rig.store->index, &batch, true, rig.now);
    assert_int_equal(batch.count, 1);
    assert_int_equal(batch.entries[0].op, LW__JOURNAL_END);
    assert_int_equal(journal.pending, 1);
    flush();
    assert_state(waits, LW_ENQUEUED);
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

/* ---- puts that something relies on --------------------------------------------------------- */

static void fail_turn(void) {
    lw__journal_fail_locked(rig.store->index, &batch, false, rig.now);
}

/* Tasks that are put in one step by somebody who waits for them. */
static void put_and_await(struct lw__put *puts, size_t count, struct lw__journal_wait *wait) {
    assert_status(rig.ops->put(rig.store, rig.now, puts, count), LW_OK);
    lw__journal_await_puts_locked(&journal, wait, puts, count);
}

/* The successor of an attempt that is done; its status. */
static int succeed(struct attempt attempt, const struct wish *wish) {
    struct lw__put next = make_put(&rig, wish);
    SETTLE(&rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = &next, .successor_count = 1);
    int status = next.status;
    if (status != LW_OK)
        drop_put(&rig, &next);
    return status;
}

static struct attempt start_durable(void) {
    struct lw__task *task = PUT(&rig, 0);
    write_all();
    return start_this(&rig, task);
}

/* The turn is written after all: nothing is left over. */
static void write_what_stayed(void) {
    flush();
    lw__journal_tell(&journal, &batch, LW_OK);
    write_all();
    assert_int_equal(journal.pending, 0);
}

static void expect_kept(bool is_taken) {
    lw_test_memory *memory = open_memory();
    struct lw__journal_wait wait = {0}, other = {0};
    open_journal(memory);
    struct attempt parent = start_durable();
    struct lw__put put = make_put(&rig, WISH(.key = "k", .is_told = true));
    struct lw__put unrelated = make_put(&rig, WISH(.key = "u"));
    put_and_await(&put, 1, &wait);
    put_and_await(&unrelated, 1, &other);
    if (is_taken)
        take();
    assert_int_equal(succeed(parent, WISH(.key = "k")), LW_EXISTS);
    uint64_t id = put.id, gone = unrelated.id;
    fail_turn();
    lw__journal_tell(&journal, &batch, LW_EBUSY);
    assert_status(wait.status, LW_EUNSURE);
    assert_status(other.status, LW_EBUSY);
    assert_null(find(&rig, gone));
    assert_non_null(find(&rig, id));
    assert_null(lw__task_spec(find(&rig, id))->on_end); /* its submitter may have freed its user */
    write_what_stayed();
    assert_state(find(&rig, id), LW_ENQUEUED);
    close_journal(memory);
}

TEST(a_put_whose_key_a_successor_found_taken_stays_when_its_turn_fails) {
    expect_kept(true);
}

TEST(a_put_whose_key_a_successor_found_taken_stays_when_the_turn_before_fails) {
    expect_kept(false);
}

TEST(a_put_that_a_successor_comes_after_stays_with_all_that_it_comes_after) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct attempt parent = start_durable();
    uint64_t first = PUT(&rig, 0)->id, second = PUT(&rig, .after = {first})->id;
    uint64_t gone = PUT(&rig, .after = {first})->id;
    take();
    assert_int_equal(succeed(parent, WISH(.after = {second})), LW_OK);
    fail_turn();
    assert_non_null(find(&rig, first));
    assert_non_null(find(&rig, second));
    assert_null(find(&rig, gone));
    write_what_stayed();
    assert_state(find(&rig, first), LW_ENQUEUED);
    assert_state(find(&rig, second), LW_CREATED);
    assert_int_equal(rig.store->index->unfinished, 3);
    close_journal(memory);
}

TEST(all_that_were_put_in_one_step_stay_if_one_of_them_does) {
    lw_test_memory *memory = open_memory();
    struct lw__journal_wait wait = {0};
    open_journal(memory);
    struct attempt parent = start_durable();
    uint64_t before = PUT(&rig, .key = "before")->id;
    struct lw__put puts[] = {make_put(&rig, WISH(.key = "a")), make_put(&rig, WISH(.key = "k")),
                             make_put(&rig, WISH(.key = "b", .after = {before}))};
    put_and_await(puts, 3, &wait);
    take();
    assert_int_equal(succeed(parent, WISH(.key = "k")), LW_EXISTS);
    fail_turn();
    lw__journal_tell(&journal, &batch, LW_ESYSTEM);
    assert_status(wait.status, LW_EUNSURE);
    for (int i = 0; i < 3; i++)
        assert_non_null(find(&rig, puts[i].id));
    assert_non_null(find(&rig, before));
    write_what_stayed();
    assert_int_equal(rig.store->index->unfinished, 4);
    close_journal(memory);
}

/* A submit that finds a key taken is refused with the holder, and needs it no more. */
TEST(a_put_whose_key_another_submit_found_taken_is_taken_back) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    uint64_t gone = PUT(&rig, .key = "k")->id;
    assert_status(TRY_PUT(&rig, .key = "k"), LW_EXISTS);
    take();
    fail_turn();
    assert_null(find(&rig, gone));
    write_what_stayed();
    assert_empty(&rig);
    close_journal(memory);
}

TEST(a_needed_put_that_was_cancelled_meanwhile_stays_with_its_end) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct attempt parent = start_durable();
    uint64_t id = PUT(&rig, .key = "k", .key_scope = LW_KEY_RETAINED)->id;
    take();
    assert_status(change(&rig, id, LW__CHANGE_CANCEL), LW_OK);
    assert_int_equal(succeed(parent, WISH(.key = "k")), LW_EXISTS);
    fail_turn();
    assert_state(find(&rig, id), LW_ABORTED);
    write_what_stayed();
    assert_state(find(&rig, id), LW_ABORTED);
    assert_empty(&rig);
    close_journal(memory);
}

/* ---- leases of puts ------------------------------------------------------------------------- */

enum { LEASE_MS = 1000 };

static uint16_t remote; /* a kind that nobody handles here */

static void open_remote(lw_test_memory *memory) {
    struct lw__kind_options options = {
        .concurrency = UINT32_MAX, .crashes = 2, .max_age_ns = UINT64_MAX};
    open_journal(memory);
    for (int i = 0; i < 3; i++)
        options.retention[i] = (struct lw__retention_settings){UINT64_MAX, UINT64_MAX, UINT64_MAX};
    assert_status(rig.ops->kind(rig.store, "remote", &remote), LW_OK);
    rig.ops->set_kind(rig.store, remote, &options);
    write_all();
}

static struct lw__task *put_leased(const char *key) {
    struct lw__task *task =
        PUT(&rig, .kind = remote, .key = key, .holder = "w", .lease_ms = LEASE_MS);
    assert_state(task, LW_STARTED);
    return task;
}

static int settle_lease(const struct lw__task *task, enum lw__verdict verdict) {
    struct lw__settlement s = {.is_leased = true,
                               .id = task->id,
                               .token = lw__see(&task->token),
                               .verdict = verdict,
                               .due = verdict == LW__VERDICT_POSTPONE ? rig.now + MS : 0,
                               .is_uncounted = verdict == LW__VERDICT_GIVE_BACK};
    rig.ops->settle(rig.store, rig.now, &s, 1);
    return s.status;
}

/* Its holder has gone, or never came. */
static int give_back(const struct lw__task *task) {
    return settle_lease(task, LW__VERDICT_GIVE_BACK);
}

static uint64_t lease_one(void) {
    struct lw__leased leased = {0};
    struct lw__lease_claim claim = {
        .max = 1, .leased = &leased, .holder = "v", .until = rig.now + LEASE_MS * MS};
    assert_status(rig.ops->lease(rig.store, rig.now, &claim), LW_OK);
    return leased.id;
}

/* Before that nobody can have it, and what others find out about it is kept. */
TEST(a_lease_that_is_returned_before_its_put_is_written_is_over_when_that_is) {
    lw_test_memory *memory = open_memory();
    open_remote(memory);
    struct lw__task *task = put_leased("k");
    take();
    assert_status(give_back(task), LW_OK);
    assert_int_equal(lease_one(), 0);
    assert_status(TRY_PUT(&rig, .kind = remote, .key = "k"), LW_EXISTS);
    write_all();
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lw__see(&task->attempts), 0);
    assert_int_equal(rig.store->index->leases.count, 0);
    assert_int_equal(lease_one(), task->id);
    assert_status(give_back(task), LW_OK);
    assert_status(change(&rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    write_all();
    assert_empty(&rig);
    close_journal(memory);
}

static void expect_kept_without_lease(bool is_taken) {
    lw_test_memory *memory = open_memory();
    open_remote(memory);
    struct attempt parent = start_durable();
    struct lw__task *task = put_leased("k"), *gone = put_leased("u");
    uint64_t gone_id = gone->id;
    if (is_taken)
        take();
    assert_int_equal(succeed(parent, WISH(.kind = remote, .key = "k")), LW_EXISTS);
    assert_status(give_back(task), LW_OK);
    assert_status(give_back(gone), LW_OK);
    fail_turn();
    assert_null(find(&rig, gone_id));
    assert_non_null(find(&rig, task->id));
    write_what_stayed();
    assert_state(task, LW_ENQUEUED);
    assert_int_equal(lease_one(), task->id);
    write_all();
    close_journal(memory);
}

TEST(a_put_that_is_needed_stays_though_its_lease_was_returned) {
    expect_kept_without_lease(true);
}

TEST(a_put_that_is_needed_stays_though_its_lease_was_returned_in_its_turn) {
    expect_kept_without_lease(false);
}

/* Nobody knows the token yet. */
TEST(a_lease_whose_put_is_not_written_ends_in_no_other_way_than_by_its_end) {
    lw_test_memory *memory = open_memory();
    open_remote(memory);
    struct lw__task *task = put_leased(NULL);
    assert_status(settle_lease(task, LW__VERDICT_POSTPONE), LW_ELEASE);
    assert_status(settle_lease(task, LW__VERDICT_FINISH), LW_OK);
    write_all();
    assert_state(task, LW_FINISHED);
    assert_empty(&rig);
    close_journal(memory);
}

/* ---- all of it at random ------------------------------------------------------------------- */

enum { KEYS = 6, PROMISES = 4096, STEPS = 400 };

/* What those were told who are not told of a turn that fails: each of these tasks must be there. */
static struct {
    uint64_t ids[PROMISES];
    size_t count;
} promises;

static void promise(uint64_t id) {
    assert_true(promises.count < PROMISES);
    promises.ids[promises.count++] = id;
}

static const struct wish *random_wish(struct lw__random *random, uint64_t last) {
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", NULL};
    static struct wish wish;
    bool comes_after = lw__random_below(random, 3) == 0 && last > 0;
    bool is_remote = lw__random_below(random, 3) == 0;
    wish = (struct wish){.kind = is_remote ? remote : 0,
                         .holder = is_remote ? "w" : NULL,
                         .lease_ms = LEASE_MS,
                         .key = keys[lw__random_below(random, KEYS)],
                         .key_scope =
                             lw__random_below(random, 2) ? LW_KEY_RETAINED : LW_KEY_UNFINISHED,
                         .after = {comes_after ? 1 + lw__random_below(random, last) : 0},
                         .after_policy = LW_AFTER_RUN};
    return &wish;
}

/* Some at once, as a submit does: it waits, and is told. */
static void submit_some(struct lw__random *random) {
    static struct lw__journal_wait unheeded[64];
    static size_t next;
    struct lw__put puts[3];
    size_t count = 1 + lw__random_below(random, 3);
    for (size_t i = 0; i < count; i++)
        puts[i] = make_put(&rig, random_wish(random, rig.store->index->last_id));
    assert_true(rig.ops->put(rig.store, rig.now, puts, count) >= 0);
    lw__journal_await_puts_locked(&journal, &unheeded[next++ % 64], puts, count);
    for (size_t i = 0; i < count; i++) {
        if (puts[i].status != LW_OK)
            drop_put(&rig, &puts[i]);
    }
}

/* As a handler, or the outbox: what it says is accepted, whatever becomes of the turn. */
static void finish_one(struct lw__random *random) {
    struct lw__put next[2] = {make_put(&rig, random_wish(random, rig.store->index->last_id)),
                              make_put(&rig, random_wish(random, rig.store->index->last_id))};
    struct attempt attempt = claim_one(&rig);
    if (attempt.task)
        CHECK(rig.ops->begin(rig.store, attempt.task, attempt.token, rig.now));
    size_t count = attempt.task ? lw__random_below(random, 3) : 0;
    if (attempt.task)
        SETTLE(&rig, attempt, .verdict = LW__VERDICT_FINISH, .successors = next,
               .successor_count = count);
    for (size_t i = 0; i < 2; i++) {
        if (i < count)
            promise(next[i].id);
        if (i >= count || next[i].status != LW_OK)
            drop_put(&rig, &next[i]);
    }
}

/* Leases of puts, durable or not. What was returned is claimed, or else no put would be leased. */
static void end_leases(struct lw__random *random) {
    const struct lw__ids *leases = &rig.store->index->leases.ids;
    const struct lw__lease *lease = NULL, *next = (void *)lw__ids_find_from(leases, 1);
    while ((lease = next) != NULL) {
        next = (void *)lw__ids_find_from(leases, lease->id + 1);
        uint64_t what = lw__random_below(random, 3);
        if (what < 2)
            settle_lease(lease->task, what ? LW__VERDICT_FINISH : LW__VERDICT_GIVE_BACK);
    }
    lease_one();
}

static void end_turn(bool is_written, bool is_unsure) {
    if (is_written)
        flush();
    else
        lw__journal_fail_locked(rig.store->index, &batch, is_unsure, rig.now);
    lw__journal_tell(&journal, &batch, is_written ? LW_OK : LW_EBUSY);
}

TEST(what_a_handler_was_told_of_survives_turns_that_fail_at_random) {
    for (uint64_t run = 1; run <= (uint64_t)test_scale(20, 500); run++) {
        struct lw__random random;
        lw__random_seed(&random, run);
        lw_test_memory *memory = open_memory();
        open_remote(memory);
        promises.count = 0;
        for (int step = 0; step < STEPS; step++) {
            switch (lw__random_below(&random, 6)) {
            case 0:
            case 1: submit_some(&random); break;
            case 2: finish_one(&random); break;
            case 3: take(); break;
            case 4: end_leases(&random); break;
            default:
                if (batch.count == 0)
                    take();
                end_turn(lw__random_below(&random, 2), lw__random_below(&random, 2));
            }
        }
        end_turn(true, false);
        write_all();
        assert_int_equal(journal.pending, 0);
        for (size_t i = 0; i < promises.count; i++) {
            const struct lw__task *task = find(&rig, promises.ids[i]);
            if (!task)
                fprintf(stderr, "run %llu: task %llu is gone\n", (unsigned long long)run,
                        (unsigned long long)promises.ids[i]);
            assert_non_null(task);
            CHECK(!(lw__task_flags(task) & LW__TASK_UNSAVED));
        }
        close_journal(memory);
    }
}

/* ---- without memory ------------------------------------------------------------------------ */

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

/* It is not to be waited for any more. */
TEST(a_put_that_is_taken_back_takes_along_what_was_lost_of_it) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    uint64_t gone = PUT(&rig, 0)->id;
    PUT(&rig, 0); /* the brim is even */
    fill_to_the_brim();
    lw_test_memory_fail_at(memory, 2); /* its errors come first */
    assert_status(change(&rig, gone, LW__CHANGE_CANCEL), LW_OK);
    CHECK(journal.has_lost_notes);
    lw_test_memory_fail_at(memory, 1);
    take();
    CHECK(journal.has_lost_notes);
    lw_test_memory_fail_at(memory, 0);
    lw__journal_fail_locked(rig.store->index, &batch, false, rig.now);
    assert_null(find(&rig, gone));
    assert_int_equal(batch.count, 0);
    assert_int_equal(journal.pending, 0);
    write_all();
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

/* A revival that there was no memory to note stands before the end of what it has begun. */
TEST(what_was_lost_of_a_task_is_noted_before_what_follows) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *task = PUT(&rig, 0);
    write_all();
    assert_status(change(&rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    write_all();
    fill_to_the_brim();
    lw_test_memory_fail_at(memory, 3); /* its errors, and what they replace, come first */
    assert_status(change(&rig, task->id, LW__CHANGE_RETRY), LW_OK);
    CHECK(lw_test_memory_has_failed(memory));
    lw_test_memory_fail_at(memory, 0);
    CHECK(journal.has_lost_notes);
    SETTLE(&rig, start_this(&rig, task), .verdict = LW__VERDICT_FINISH);
    take();
    assert_int_equal(batch.entries[batch.count - 2].op, LW__JOURNAL_REVIVE);
    assert_int_equal(batch.entries[batch.count - 1].op, LW__JOURNAL_END);
    flush();
    write_all();
    assert_int_equal(journal.pending, 0);
    close_journal(memory);
}

static void note_over(struct lw__journal_wait *wait) {
    wait->id = 0;
}

/* The task runs on, and may do so for ever. */
TEST(who_waits_for_a_retry_that_there_was_no_memory_to_note_is_told_when_it_is_written) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__task *task = PUT(&rig, 0);
    write_all();
    assert_status(change(&rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    write_all();
    fill_to_the_brim();
    lw_test_memory_fail_at(memory, 3); /* its errors, and what they replace, come first */
    assert_status(change(&rig, task->id, LW__CHANGE_RETRY), LW_OK);
    lw_test_memory_fail_at(memory, 0);
    CHECK(!lw__index_is_noted_locked(rig.store->index, task->id));
    struct lw__journal_wait wait = {.over = note_over, .id = task->id};
    lw__journal_await_end_locked(&journal, &wait);
    take();
    assert_null(journal.for_ends);
    flush();
    lw__journal_tell(&journal, &batch, LW_OK);
    assert_int_equal(wait.id, 0);
    assert_status(wait.status, LW_OK);
    write_all();
    close_journal(memory);
}

/* There is room for one note, which the revival takes. */
TEST(a_position_that_there_is_no_memory_to_note_is_refused) {
    lw_test_memory *memory = open_memory();
    open_journal(memory);
    struct lw__publication said = {.has_checkpoint = true, .checkpoint = LW_TEXT("half")};
    struct lw__task *task = PUT(&rig, .priority = 1);
    write_all();
    assert_status(change(&rig, task->id, LW__CHANGE_CANCEL), LW_OK);
    write_all();
    fill_to_the_brim();
    lw_test_memory_fail_at(memory, 3); /* its errors, and what they replace, come first */
    assert_status(change(&rig, task->id, LW__CHANGE_RETRY), LW_OK);
    lw_test_memory_fail_at(memory, 0);
    CHECK(journal.has_lost_notes);
    struct attempt attempt = start_this(&rig, task);
    journal.batch.count--; /* the end of one that was cancelled above: nobody misses it */
    journal.pending--;
    lw_test_memory_fail_at(memory, 2); /* the position itself comes first */
    int rc = rig.ops->publish(rig.store, task, attempt.token, &said);
    lw_test_memory_fail_at(memory, 0);
    assert_status(rc, LW_ENOMEM);
    assert_null(lw__see(&task->output));
    assert_status(rig.ops->publish(rig.store, task, attempt.token, &said), LW_OK);
    assert_int_equal(journal.batch.entries[journal.batch.count - 1].op, LW__JOURNAL_PUBLISH);
    write_all();
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
