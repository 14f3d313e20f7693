/* What takes no lock, beside what takes one: begin and finish of workers against cancels and
 * moves. */
#include "stores.h"

#include <stdatomic.h>

/* ---- cancels ------------------------------------------------------------------------------ */

enum { BATCH = 8 };

static struct rig *shared;
static _Atomic uint64_t last_id, ended;
static long total;

static void *put_many(void *arg) {
    (void)arg;
    for (long i = 0; i < total; i++) {
        struct lw__put one = make_put(shared, WISH(.priority = 1));
        uint64_t id;
        assert_status(shared->ops->put_plain(shared->store, shared->now, &one, &id), LW_OK);
        atomic_store(&last_id, id);
    }
    return NULL;
}

static void *cancel_many(void *arg) {
    (void)arg;
    while (atomic_load(&ended) < (uint64_t)total) {
        uint64_t id = atomic_load(&last_id);
        if (id > 0)
            change(shared, id, LW__CHANGE_CANCEL);
    }
    return NULL;
}

/* A settlement if the task was asked to give up between begin and finish. */
static bool run_one(struct attempt attempt) {
    if (!shared->ops->begin(shared->store, attempt.task, attempt.token, shared->now))
        return true;
    if (shared->ops->finish(shared->store, attempt.task, shared->now))
        return true;
    assert_status(SETTLE(shared, attempt, .verdict = LW__VERDICT_ABORT), LW_OK);
    return false;
}

static void *work(void *arg) {
    struct attempt got[BATCH];
    (void)arg;
    while (atomic_load(&ended) < (uint64_t)total) {
        struct lw__task *plain[BATCH];
        uint32_t count = claim(shared, got, BATCH), plain_count = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (run_one(got[i]))
                plain[plain_count++] = got[i].task;
        }
        if (plain_count > 0)
            shared->ops->account(shared->store, shared->now, plain, plain_count);
        atomic_fetch_add(&ended, count);
        /* those that were cancelled in the queue never come here */
        struct lw__kind_figures figures;
        lw__index_kind_figures(shared->store->index, shared->kind, &figures, 1);
        if (figures.finished + figures.aborted == (uint64_t)total)
            atomic_store(&ended, (uint64_t)total);
    }
    return NULL;
}

static void cancel_beside_workers(struct rig *rig) {
    shared = rig;
    total = test_scale(test_is_sanitized() ? 5000 : 50000, 2000000) / (is_durable(rig) ? 25 : 1);
    atomic_store(&last_id, 0);
    atomic_store(&ended, 0);
    set_retention(rig, rig->kind, UINT64_MAX, 100);
    pthread_t threads[] = {start_thread(work, NULL), start_thread(cancel_many, NULL),
                           start_thread(put_many, NULL), start_thread(work, NULL)};
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        join_thread(threads[i]);
    assert_empty(rig);
}

TEST(a_cancel_beside_a_worker_that_takes_no_lock_aborts_or_comes_too_late) {
    each_store(cancel_beside_workers, &(const struct rig_options){.has_threads = true});
}

/* ---- moves -------------------------------------------------------------------------------- */

enum { SLOTS = 64, STEPS = 3 };

static _Atomic int running[SLOTS]; /* attempts by generation */
static atomic_bool is_over;
static _Atomic uint64_t runs;

static void assert_alone(uint64_t generation) {
    for (uint64_t i = 0; i < SLOTS; i++)
        CHECK(i == generation % SLOTS || atomic_load(&running[i]) == 0);
}

static void *step_on(void *arg) {
    (void)arg;
    while (!atomic_load(&is_over)) {
        struct attempt attempt = claim_one(shared);
        if (!attempt.task) {
            sched_yield();
            continue;
        }
        if (!shared->ops->begin(shared->store, attempt.task, attempt.token, shared->now)) {
            shared->ops->account(shared->store, shared->now, &attempt.task, 1);
            continue;
        }
        uint64_t generation = lw__task_spec(attempt.task)->member->generation;
        atomic_fetch_add(&running[generation % SLOTS], 1);
        assert_alone(generation);
        atomic_fetch_add(&runs, 1);
        atomic_fetch_sub(&running[generation % SLOTS], 1);
        int rc = SETTLE(shared, attempt, .verdict = LW__VERDICT_GIVE_BACK);
        CHECK(rc == LW_OK || rc == LW_ELEASE);
        sched_yield(); /* on a busy machine the mover is to get a turn, too */
    }
    return NULL;
}

static uint64_t move_with_tasks(uint64_t scope) {
    struct lw__put puts[STEPS];
    struct lw__scope_change change = {.action = LW__SCOPE_MOVE};
    for (int i = 0; i < STEPS; i++)
        puts[i] = make_put(shared, WISH(.scope = LW__SCOPE_THIS));
    assert_status(
        shared->ops->scope_change(shared->store, shared->now, scope, 0, &change, puts, STEPS),
        LW_OK);
    return change.new_generation;
}

static void move_beside_workers(struct rig *rig) {
    struct lw__scope_copy scope = {.bytes = NULL};
    long moves = test_scale(test_is_sanitized() ? 500 : 5000, 200000) / (is_durable(rig) ? 50 : 1);
    shared = rig;
    atomic_store(&is_over, false);
    set_retention(rig, rig->kind, 0, 0);
    assert_status(rig->ops->scope_open(rig->store, rig->now, "s", LW_TEXT(""), NULL, 0, &scope),
                  LW_OK);
    pthread_t threads[] = {start_thread(step_on, NULL), start_thread(step_on, NULL)};
    for (long i = 0; i < moves; i++) {
        uint64_t before = atomic_load(&runs), generation = move_with_tasks(scope.id);
        CHECK(generation > scope.generation);
        scope.generation = generation;
        while (i % 4 == 0 && atomic_load(&runs) == before)
            sched_yield();
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        join_thread(threads[i]);
    struct lw__scope_change close = {.action = LW__SCOPE_CLOSE};
    assert_status(rig->ops->scope_change(rig->store, rig->now, scope.id, 0, &close, NULL, 0),
                  LW_OK);
    assert_empty(rig);
}

TEST(no_two_generations_ever_run_at_once) {
    each_store(move_beside_workers, &(const struct rig_options){.has_threads = true});
}
