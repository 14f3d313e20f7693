/* The SQLite store behind the port: what changes a task goes through the index and its journal, and
 * whoever was promised something waits for the pump. */
#include "store/sqlite/sqlite.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/db/bounded.h"

#define LOOK_NS (5 * LW__NS_PER_MS) /* between looks into the outbox that were none */
/* A drop gives a file up that has failed so often in a row (on a full disk that takes some 0.6 s),
 * or that has failed and is this long in the way of the drop. A turn that waits for another
 * connection takes up to LW__SQLITE_BUSY_MS before it has failed: 6 s in all. */
#define FAILURES_IN_VAIN 6
#define DROP_NS_MAX LW__NS_PER_S
/* How long a drain waits for what others have submitted: they may be faster than it is. */
#define TAKE_IN_NS_MAX (30 * LW__NS_PER_S)

struct lw__sqlite *lw__sqlite_of(struct lw__store *store) {
    return (struct lw__sqlite *)(void *)((char *)store->index->journal
                                         - offsetof(struct lw__sqlite, pump.journal));
}

/* ---- open and close ----------------------------------------------------------------------- */

void lw__sqlite_free(struct lw__sqlite *sqlite) {
    lw_allocator allocator = sqlite->allocator;
    lw__pump_stop(&sqlite->pump);
    if (sqlite->index) {
        sqlite->index->journal = NULL; /* what is freed now has not left */
        lw__index_close(&sqlite->index->store);
    }
    lw__sqlite_intake_close(sqlite);
    lw__running_close(&sqlite->running);
    lw__reader_free(&sqlite->for_workers);
    lw__reader_free(&sqlite->for_lookers);
    lw__sqlite_file_close(sqlite->file);
    lw__mutex_free(&sqlite->client_mu);
    lw__free(&allocator, sqlite, sizeof *sqlite);
}

static void close_sqlite(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__pump_stop(&sqlite->pump);
    lw__sqlite_note_close(sqlite);
    lw__sqlite_free(sqlite);
}

static void abandon(struct lw__store *store) {
    lw__sqlite_of(store)->file->is_given_up = true;
}

static void after_turn(void *user) {
    struct lw__index *index = user;
    if (index->hooks.settled)
        index->hooks.settled(index->hooks.user);
}

static int charge(struct lw__sqlite *sqlite, lw_error *err) {
    struct lw__index *index = sqlite->index;
    lw__index_lock(index);
    for (uint32_t i = 0; i < sqlite->running.crashed_count; i++)
        lw__index_charge_locked(index, sqlite->running.crashed[i], lw__now(index->options.clock));
    lw__index_unlock(index);
    lw__pump_run(&sqlite->pump);
    if (sqlite->pump.failures == 0)
        return LW_OK;
    *err = index->trouble;
    return err->status;
}

/* What ran when the owner before this one died is charged for it. */
static int open_running(struct lw__sqlite *sqlite, const struct lw__store_options *options,
                        lw_error *err) {
    const char *path = sqlite->file->path;
    int rc = lw__running_read(&sqlite->running, path, &sqlite->allocator, err);
    if (rc == LW_OK)
        rc = charge(sqlite, err);
    if (rc == LW_OK)
        rc = lw__running_open(&sqlite->running, path, options->worker_slots, err);
    if (rc == LW_OK)
        sqlite->index->running = sqlite->running.places;
    return rc;
}

static int open_index(struct lw__sqlite *sqlite, const struct lw__store_options *options,
                      lw_error *err) {
    int rc = lw__index_open(&sqlite->index, &lw__sqlite_ops, options, err);
    if (rc < 0)
        return rc;
    lw__pump_init(&sqlite->pump, sqlite->index, &lw__sqlite_db_ops, sqlite);
    sqlite->pump.is_synchronous = options->is_synchronous;
    sqlite->pump.user = sqlite->index;
    sqlite->index->journal = &sqlite->pump.journal; /* loading may abort some */
    rc = lw__sqlite_take_over(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_load(sqlite, err);
    if (rc == LW_OK)
        rc = lw__sqlite_set_tokens_aside(sqlite, err);
    if (rc == LW_OK)
        rc = open_running(sqlite, options, err);
    if (rc < 0)
        return rc;
    sqlite->pump.after_turn = options->is_synchronous ? NULL : after_turn;
    if (!lw__pump_start(&sqlite->pump))
        return lw__error_set(err, LW_ESYSTEM, 0, "the system gives no thread for the store");
    return LW_OK;
}

static void start(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    atomic_store_explicit(&sqlite->intake.is_open, true, memory_order_release);
    lw__pump_call(&sqlite->pump);
}

static const enum lw__sqlite_mode modes[] = {[LW_ROLE_OWNER] = LW__SQLITE_OWNER,
                                             [LW_ROLE_CLIENT] = LW__SQLITE_CLIENT,
                                             [LW_ROLE_READER] = LW__SQLITE_READER};

/* It cannot be refused: another tool that was the last to close the file has moved the -wal file
 * into it, and a backup has none. */
static void warn_of_lost_log(struct lw__sqlite *sqlite) {
    lw__log(sqlite->index->options.log, LW_LOG_WARN, "store",
            "the last owner did not close the store, and its -wal file is gone: unless a backup "
            "was restored, or another tool has closed the file since, its last commits are lost",
            LW__FIELD_TEXT("path", sqlite->file->path));
}

static int open_sqlite(struct lw__store **store, const char *path,
                       const struct lw__store_options *options, lw_error *err) {
    struct lw__sqlite *sqlite = lw__alloc_zero(options->allocator, sizeof *sqlite);
    if (!sqlite)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for the store");
    sqlite->allocator = *options->allocator;
    sqlite->intake.inotify = -1;
    lw__reader_init(&sqlite->for_workers);
    lw__reader_init(&sqlite->for_lookers);
    lw__mutex_init(&sqlite->client_mu);
    bool is_owner = options->role == LW_ROLE_OWNER;
    int rc =
        lw__sqlite_file_open(&sqlite->file, path, modes[options->role], &sqlite->allocator, err);
    if (rc == LW_OK)
        rc = is_owner ? open_index(sqlite, options, err)
                      : lw__sqlite_open_client(sqlite, options, err);
    if (rc < 0) {
        if (sqlite->file)
            sqlite->file->is_given_up = true; /* see struct lw__store_ops: abandon */
        lw__sqlite_free(sqlite);
        return rc;
    }
    if (sqlite->file->has_lost_log)
        warn_of_lost_log(sqlite);
    *store = &sqlite->index->store;
    return LW_OK;
}

/* ---- what has to be durable before it is answered ----------------------------------------- */

static int put_and_wait(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    struct lw__index *index = store->index;
    struct lw__journal_wait wait = {.over = NULL};
    lw__index_lock(index);
    int rc = index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING
                                                  : lw__index_put_locked(index, now, puts, count);
    if (rc >= 0)
        lw__journal_await_puts_locked(index->journal, &wait, puts, count);
    lw__index_unlock(index);
    if (rc < 0)
        return rc;
    int status = lw__pump_await(&sqlite->pump, &wait);
    if (status >= 0)
        return rc;
    for (size_t i = 0; i < count; i++) { /* they were taken back, with their specs, or stay */
        if (puts[i].task)
            puts[i].spec = NULL;
        puts[i].task = NULL;
        puts[i].status = status;
    }
    return status;
}

static int put_by(struct lw__store *store, uint64_t now, struct lw__put *puts, size_t count,
                  uint64_t deadline) {
    return lw__bounded_put(&lw__sqlite_of(store)->pump, now, puts, count, deadline);
}

/* Whoever is called owns the wait from the moment that the mutex is released. */
static int put_and_call(struct lw__store *store, uint64_t now, struct lw__put *put,
                        struct lw__journal_wait *wait) {
    struct lw__pump *pump = &lw__sqlite_of(store)->pump;
    struct lw__index *index = store->index;
    lw__index_lock(index);
    int rc = index->restraints & LW__STORE_NO_PUT ? LW_ESTOPPING
                                                  : lw__index_put_locked(index, now, put, 1);
    if (rc >= 0) {
        wait->id = put->id;
        wait->put_status = put->status;
        lw__journal_await_puts_locked(index->journal, wait, put, 1);
    }
    lw__index_unlock(index);
    if (rc >= 0 && pump->is_synchronous)
        lw__pump_run(pump);
    return rc;
}

static int put_plain(struct lw__store *store, uint64_t now, const struct lw__put *put,
                     uint64_t *id) {
    struct lw__put one = {.kind = put->kind, .queue = put->queue, .priority = put->priority};
    int rc = put_and_wait(store, now, &one, 1);
    *id = one.id;
    return rc;
}

/* Until all that was noted so far is durable: an answer must not outrun the file. */
static int wait_for_turn(struct lw__store *store) {
    struct lw__journal_wait wait = {.over = NULL};
    lw__index_lock(store->index);
    lw__journal_await_locked(store->index->journal, &wait);
    lw__index_unlock(store->index);
    return lw__pump_await(&lw__sqlite_of(store)->pump, &wait);
}

static int flush(struct lw__store *store) {
    return wait_for_turn(store) < 0 ? LW_EUNSURE : LW_OK;
}

static void flush_and_call(struct lw__store *store, struct lw__journal_wait *wait) {
    struct lw__pump *pump = &lw__sqlite_of(store)->pump;
    lw__index_lock(store->index);
    lw__journal_await_locked(store->index->journal, wait);
    lw__index_unlock(store->index);
    if (pump->is_synchronous)
        lw__pump_run(pump);
}

/* Who waits for an end that is not even noted: a worker has claimed the task, and accounts for it
 * soon. */
struct end_wait {
    struct lw__journal_wait wait;
    _Atomic uint32_t is_over;
};

static void on_end_over(struct lw__journal_wait *wait) {
    struct end_wait *me = (struct end_wait *)(void *)wait;
    atomic_store(&me->is_over, 1); /* from here on it may be gone: a wake in vain harms nobody */
    lw__futex_wake(&me->is_over, 1);
}

static int wait_for_end(struct end_wait *me) {
    while (!atomic_load(&me->is_over))
        lw__futex_wait(&me->is_over, 0, LW__NEVER);
    return me->wait.status;
}

/* A change that was made is not taken back: if it cannot be written now, it will be later. One that
 * was not (LW_PENDING: the task runs and is only asked to give up, or its state does not fit) has
 * nothing to be written, and waits for no disk. A synchronous store is of an engine without
 * workers: whoever has claimed the task is the caller. */
static int change_and_wait(struct lw__store *store, uint64_t now, uint64_t id,
                           enum lw__change change) {
    struct lw__pump *pump = &lw__sqlite_of(store)->pump;
    struct lw__index *index = store->index;
    struct end_wait me = {.wait = {.over = on_end_over, .id = id}};
    struct lw__journal_wait wait = {.over = NULL};
    lw__index_lock(index);
    int rc = lw__index_change_locked(index, now, id, change);
    bool must_await_end =
        rc == LW_OK && !pump->is_synchronous && !lw__index_is_noted_locked(index, id);
    if (must_await_end)
        lw__journal_await_end_locked(index->journal, &me.wait);
    else if (rc == LW_OK)
        lw__journal_await_locked(index->journal, &wait);
    lw__index_unlock(index);
    if (rc != LW_OK)
        return rc;
    if (must_await_end && index->hooks.relieve)
        index->hooks.relieve(index->hooks.user);
    int status = must_await_end ? wait_for_end(&me) : lw__pump_await(pump, &wait);
    return status < 0 ? LW_EUNSURE : LW_OK;
}

/* A change of a scope is not taken back, and so the tasks are not that were put with it: if it
 * cannot be written now, it will be later. */
static int wait_for_scope(struct lw__store *store, int rc, struct lw__put *puts, size_t count) {
    if (rc < 0 || wait_for_turn(store) >= 0)
        return rc;
    for (size_t i = 0; i < count; i++) {
        if (puts[i].status == LW_OK)
            puts[i].spec = NULL;
        puts[i].task = NULL;
    }
    return LW_EUNSURE;
}

static void mark_as_parts(struct lw__put *puts, size_t count) {
    for (size_t i = 0; i < count; i++)
        puts[i].is_successor = true;
}

static int scope_open(struct lw__store *store, uint64_t now, const char *name, lw_bytes bytes,
                      struct lw__put *puts, size_t count, struct lw__scope_copy *copy) {
    mark_as_parts(puts, count);
    int rc = lw__index_scope_open(store, now, name, bytes, puts, count, copy);
    return wait_for_scope(store, rc, puts, rc == LW_EXISTS ? 0 : count);
}

static int scope_change(struct lw__store *store, uint64_t now, uint64_t id, uint64_t generation,
                        struct lw__scope_change *change, struct lw__put *puts, size_t count) {
    mark_as_parts(puts, count);
    int rc = lw__index_scope_change(store, now, id, generation, change, puts, count);
    bool must_wait = !change->is_lazy || lw__sqlite_of(store)->pump.is_synchronous;
    return must_wait ? wait_for_scope(store, rc, puts, count) : rc;
}

/* ---- what need not be durable: a synchronous store does it nevertheless -------------------- */

static void keep_up(struct lw__store *store) {
    struct lw__pump *pump = &lw__sqlite_of(store)->pump;
    if (pump->is_synchronous)
        lw__pump_run(pump);
}

static void set_kind(struct lw__store *store, uint16_t kind,
                     const struct lw__kind_options *options) {
    lw__index_set_kind(store, kind, options);
    keep_up(store);
}

static void account(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                    uint32_t count) {
    lw__index_account(store, now, tasks, count);
    keep_up(store);
}

/* What has ended may make others claimable. */
static void claim(struct lw__store *store, uint64_t now, struct lw__claim *claim) {
    bool must_keep_up = lw__sqlite_of(store)->pump.is_synchronous && claim->ended_count > 0;
    if (must_keep_up) {
        account(store, now, claim->ended, claim->ended_count);
        claim->ended_count = 0;
    }
    lw__index_claim(store, now, claim);
    lw__sqlite_recall(lw__sqlite_of(store), now, claim);
}

static int lease(struct lw__store *store, uint64_t now, struct lw__lease_claim *claim) {
    int rc = lw__index_lease(store, now, claim);
    if (rc == LW_OK)
        rc = lw__sqlite_recall_leased(lw__sqlite_of(store), claim);
    if (rc < 0) {
        lw__index_unlease(store, now, claim);
        claim->count = 0;
    }
    return rc;
}

static void unclaim(struct lw__store *store, uint64_t now, struct lw__task *const *tasks,
                    uint32_t count) {
    lw__index_unclaim(store, now, tasks, count);
    keep_up(store);
}

/* Under the index's lock. */
static bool has_failed_for_long_locked(const struct lw__sqlite *sqlite) {
    uint32_t failures = sqlite->pump.failures, misses = sqlite->pump.misses;
    bool is_late =
        sqlite->dropped_at > 0 && lw__now(lw__clock_system()) - sqlite->dropped_at >= DROP_NS_MAX;
    return failures >= FAILURES_IN_VAIN || ((failures > 0 || misses > 1) && is_late);
}

/* A stop that drops does not wait for ever for a disk that fails: what it could not write down runs
 * again another time. Under the index's lock. */
static bool is_in_vain_locked(const struct lw__sqlite *sqlite) {
    return sqlite->index->restraints & LW__STORE_NO_CLAIM && has_failed_for_long_locked(sqlite);
}

/* Then nothing is written any more: what the handler has said is not judged by what it may have
 * committed, and must not count. The next owner finds both. */
static bool is_given_up(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__index_lock(store->index);
    bool is_in_vain = is_in_vain_locked(sqlite);
    lw__index_unlock(store->index);
    if (is_in_vain)
        lw__pump_give_up(&sqlite->pump);
    return is_in_vain;
}

/* The handler may have committed that it is done, or a position: what the outbox says is taken in
 * before its other verdict counts, or a newer position. A look that is under way may have begun too
 * early; the next one has not. */
static void look_outside(struct lw__store *store) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    uint32_t before = atomic_load(&sqlite->intake.looks), seen = before;
    while (!sqlite->pump.is_synchronous && seen - before < 2 && !is_given_up(store)) {
        wait_for_turn(store);
        uint32_t looks = atomic_load(&sqlite->intake.looks);
        if (looks == seen) /* it could not look: another connection holds the file, perhaps */
            lw__futex_wait(&sqlite->intake.looks, looks, lw__now(lw__clock_system()) + LOOK_NS);
        seen = looks;
    }
}

static bool is_halted(struct lw__index *index) {
    lw__index_lock(index);
    bool is_halted = index->is_halted;
    lw__index_unlock(index);
    return is_halted;
}

/* Until three looks have come to the end of the outbox: the second one has begun after the call,
 * and what it took is committed when the third one begins. */
static void take_in(struct lw__store *store, uint64_t deadline) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    struct lw__intake *intake = &sqlite->intake;
    lw_clock *clock = lw__clock_system();
    uint64_t now = lw__now(clock), end = now + TAKE_IN_NS_MAX;
    uint32_t before = atomic_load(&intake->ends), seen = before;
    end = deadline < end ? deadline : end;
    atomic_fetch_add(&intake->awaited, 1);
    while (!sqlite->pump.is_synchronous && seen - before < 3 && now < end
           && !is_halted(store->index)) {
        lw__pump_call(&sqlite->pump);
        lw__futex_wait(&intake->ends, seen, now + LOOK_NS < end ? now + LOOK_NS : end);
        seen = atomic_load(&intake->ends);
        now = lw__now(clock);
    }
    atomic_fetch_sub(&intake->awaited, 1);
}

static bool must_look(const struct lw__settlement *settlements, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (settlements[i].has_written_outside && settlements[i].verdict != LW__VERDICT_FINISH)
            return true;
    }
    return false;
}

static void settle(struct lw__store *store, uint64_t now, struct lw__settlement *settlements,
                   size_t count) {
    if (must_look(settlements, count))
        look_outside(store);
    lw__index_settle(store, now, settlements, count);
    keep_up(store);
}

static int publish(struct lw__store *store, struct lw__task *task, uint64_t token,
                   const struct lw__publication *publication) {
    if (publication->has_checkpoint && publication->has_written_outside)
        look_outside(store);
    int rc = lw__index_publish(store, task, token, publication);
    if (rc == LW_OK && publication->has_checkpoint)
        return wait_for_turn(store) >= 0 ? LW_OK : LW_EUNSURE;
    keep_up(store);
    return rc;
}

static uint64_t sweep(struct lw__store *store, uint64_t now) {
    struct lw__index *index = store->index;
    uint64_t due = lw__index_sweep(store, now);
    keep_up(store);
    lw__index_lock(index);
    due = index->planned < due ? index->planned : due;
    lw__index_unlock(index);
    return due;
}

static void told(struct lw__store *store, uint64_t now, struct lw__task *task) {
    lw__index_told(store, now, task);
    keep_up(store);
}

static void unawait(struct lw__store *store, struct lw__await *await) {
    lw__index_unawait(store, await);
    keep_up(store);
}

static bool bring_forward(struct lw__store *store, uint64_t now, uint64_t *after) {
    bool has_more = lw__index_bring_forward(store, now, after);
    keep_up(store);
    return has_more;
}

static void restrain(struct lw__store *store, uint32_t bits) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    lw__index_lock(store->index);
    if (bits & LW__STORE_NO_CLAIM && sqlite->dropped_at == 0)
        sqlite->dropped_at = lw__now(lw__clock_system());
    lw__index_unlock(store->index);
    lw__index_restrain(store, bits);
    if (bits & LW__STORE_NO_HOOK)
        lw__pump_mute(&sqlite->pump);
}

static bool is_quiet(struct lw__store *store, bool is_drained_too) {
    struct lw__index *index = store->index;
    bool is_quiet = lw__index_is_quiet(store, is_drained_too);
    lw__index_lock(index);
    bool is_in_vain = !is_drained_too && has_failed_for_long_locked(lw__sqlite_of(store));
    is_quiet = is_quiet && (index->journal->pending == 0 || is_in_vain);
    lw__index_unlock(index);
    return is_quiet;
}

/* A file that is gone is known before anybody has to write to it: nothing is promised any more. */
static const char *examine(struct lw__store *store, bool *is_halted, lw_error *trouble) {
    struct lw__sqlite *sqlite = lw__sqlite_of(store);
    if (!*is_halted && lw__sqlite_place_check_database(sqlite->file, trouble) < 0) {
        *is_halted = true;
        lw__pump_distrust(&sqlite->pump, trouble);
    }
    return lw__sqlite_trouble_word(trouble);
}

const struct lw__store_ops lw__sqlite_ops = {
    .scheme = "sqlite",
    .has_fault = lw__sqlite_has_fault,
    .open = open_sqlite,
    .close = close_sqlite,
    .abandon = abandon,
    .start = start,
    .kind = lw__index_kind,
    .queue = lw__index_queue,
    .set_kind = set_kind,
    .set_queue = lw__index_set_queue,
    .pause = lw__index_pause,
    .put = put_and_wait,
    .put_by = put_by,
    .put_and_call = put_and_call,
    .put_plain = put_plain,
    .claim = claim,
    .begin = lw__index_begin,
    .finish = lw__index_finish,
    .unclaim = unclaim,
    .account = account,
    .lease = lease,
    .extend = lw__index_extend,
    .publish_leased = lw__index_publish_by_id,
    .flush_and_call = flush_and_call,
    .settle = settle,
    .publish = publish,
    .change = change_and_wait,
    .scope_open = scope_open,
    .scope_change = scope_change,
    .scope_find = lw__index_scope_find,
    .scope_next = lw__index_scope_next,
    .read = lw__sqlite_read,
    .flush = flush,
    .sweep = sweep,
    .next_told = lw__index_next_told,
    .told = told,
    .await = lw__index_await,
    .unawait = unawait,
    .take_in = take_in,
    .examine = examine,
    .restrain = restrain,
    .bring_forward = bring_forward,
    .is_quiet = is_quiet,
};
