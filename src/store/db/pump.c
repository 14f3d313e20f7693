#include "store/db/pump.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"
#include "pool/staff.h"

#define RETRY_MS_MIN 20
#define RETRY_MS_MAX 2000

/* ---- being called ------------------------------------------------------------------------- */

/* Under the index's mutex. */
static void call_pump(void *user) {
    struct lw__pump *pump = user;
    atomic_fetch_add_explicit(&pump->call, 1, memory_order_seq_cst);
    if (atomic_load(&pump->is_asleep) && atomic_exchange(&pump->is_asleep, 0))
        lw__futex_wake(&pump->call, 1);
}

void lw__pump_init(struct lw__pump *pump, struct lw__index *index, const struct lw__db_ops *ops,
                   void *db) {
    *pump = (struct lw__pump){.index = index, .ops = ops, .db = db};
    lw__journal_init(&pump->journal, &index->allocator, call_pump, pump);
}

int lw__pump_await(struct lw__pump *pump, struct lw__journal_wait *wait) {
    (void)pump;
    while (!atomic_load(&wait->is_over))
        lw__futex_wait(&wait->is_over, 0, LW__NEVER);
    return wait->status;
}

/* ---- a turn ------------------------------------------------------------------------------- */

/* Readers may look at tasks and blocks as long as they are in a grace section: so may the pump,
 * whose entries are of tasks that cannot leave before their turn is over. */
static int write_all(struct lw__pump *pump, const struct lw__journal_batch *batch, lw_error *err) {
    int rc = pump->ops->begin(pump->db, err);
    if (rc < 0)
        return rc;
    uint32_t ticket = lw__grace_enter(&pump->index->grace);
    for (size_t i = 0; rc == LW_OK && i < batch->count; i++)
        rc = pump->ops->write(pump->db, &batch->entries[i], err);
    lw__grace_leave(&pump->index->grace, ticket);
    if (rc == LW_OK)
        rc = pump->ops->commit(pump->db, err);
    if (rc < 0)
        pump->ops->rollback(pump->db);
    return rc;
}

static void settle_turn(struct lw__pump *pump, struct lw__journal_batch *batch, int rc) {
    struct lw__index *index = pump->index;
    uint64_t now = lw__now(index->options.clock);
    lw__brief_lock(&index->mu);
    if (rc == LW_OK)
        lw__journal_flush_locked(index, batch, now);
    else
        lw__journal_fail_locked(index, batch, now);
    pump->failures = rc == LW_OK ? 0 : pump->failures + 1;
    index->is_halted = rc != LW_OK;
    lw__brief_unlock(&index->mu);
    lw__journal_tell(batch, rc);
    atomic_fetch_add(&pump->turns, 1);
    if (pump->after_turn)
        pump->after_turn(pump->user);
}

/* True: there was something. */
static bool turn(struct lw__pump *pump, struct lw__journal_batch *batch) {
    struct lw__index *index = pump->index;
    lw_error err = {0};
    lw__brief_lock(&index->mu);
    lw__journal_take_locked(&pump->journal, batch);
    lw__brief_unlock(&index->mu);
    if (batch->count == 0 && !batch->waits)
        return false;
    int rc = batch->count > 0 ? write_all(pump, batch, &err) : LW_OK;
    if (rc < 0)
        lw__log(index->options.log, LW_LOG_ERROR, "store", "a turn could not be written",
                LW__FIELD_TEXT("why", err.message), LW__FIELD_U64("entries", batch->count));
    settle_turn(pump, batch, rc);
    return true;
}

/* ---- the thread --------------------------------------------------------------------------- */

static void sleep_until_called(struct lw__pump *pump, uint32_t seen) {
    atomic_store(&pump->is_asleep, 1);
    if (atomic_load(&pump->call) == seen && !atomic_load(&pump->must_end))
        lw__futex_wait(&pump->call, seen, LW__NEVER);
    atomic_store(&pump->is_asleep, 0);
}

/* After a turn that failed: waits, and puts the database in order. */
static void back_off(struct lw__pump *pump) {
    lw_clock *clock = lw__clock_system(); /* real time: it waits for a disk, not for a test */
    uint64_t ms = RETRY_MS_MIN;
    for (uint32_t i = 1; i < pump->failures && ms < RETRY_MS_MAX; i++)
        ms *= 2;
    uint64_t deadline = lw__now(clock) + (ms < RETRY_MS_MAX ? ms : RETRY_MS_MAX) * LW__NS_PER_MS;
    while (lw__now(clock) < deadline && !atomic_load(&pump->must_end))
        lw__futex_wait(&pump->call, atomic_load(&pump->call), deadline);
    lw_error err = {0};
    pump->ops->recover(pump->db, &err);
}

static void *pump_main(void *arg) {
    struct lw__pump *pump = arg;
    struct lw__journal_batch batch = {0};
    for (;;) {
        uint32_t seen = atomic_load(&pump->call);
        bool must_end = atomic_load(&pump->must_end) != 0;
        bool was_busy = turn(pump, &batch);
        if (must_end && (!was_busy || pump->failures > 0))
            break;
        if (pump->failures > 0)
            back_off(pump);
        else if (!was_busy)
            sleep_until_called(pump, seen);
    }
    if (batch.entries)
        lw__free(pump->journal.allocator, batch.entries, batch.capacity * sizeof *batch.entries);
    return NULL;
}

bool lw__pump_start(struct lw__pump *pump) {
    pump->is_running = lw__crew_start_thread(&pump->thread, pump_main, pump, "legwork-db") == 0;
    return pump->is_running;
}

void lw__pump_stop(struct lw__pump *pump) {
    if (pump->is_running) {
        atomic_store(&pump->must_end, 1);
        atomic_fetch_add(&pump->call, 1);
        lw__futex_wake(&pump->call, 1);
        pthread_join(pump->thread, NULL);
        pump->is_running = false;
    }
    lw__journal_free(&pump->journal);
}
