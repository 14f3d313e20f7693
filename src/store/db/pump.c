#include "store/db/pump.h"

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/points.h"
#include "pool/staff.h"

#define RETRY_MS_MIN 20
#define RETRY_MS_MAX 2000
#define ECHO_MS 5   /* how long after its own writes it looks whether there were others */
#define LOOK_MS 250 /* how often it looks if nobody can tell it */
#define TAKES_MAX 8 /* in one turn */

/* ---- being called ------------------------------------------------------------------------- */

static void wake(struct lw__pump *pump) {
    if (pump->bell.fd >= 0)
        lw__bell_ring(&pump->bell);
    else
        lw__futex_wake(&pump->call, 1);
}

void lw__pump_call(struct lw__pump *pump) {
    atomic_fetch_add_explicit(&pump->call, 1, memory_order_seq_cst);
    if (atomic_load(&pump->is_asleep) && atomic_exchange(&pump->is_asleep, 0))
        wake(pump);
}

/* Under the index's mutex. */
static void call_pump(void *user) {
    lw__pump_call(user);
}

void lw__pump_init(struct lw__pump *pump, struct lw__index *index, const struct lw__db_ops *ops,
                   void *db) {
    *pump = (struct lw__pump){.index = index, .ops = ops, .db = db, .bell.fd = -1};
    lw__mutex_init(&pump->turn_mu);
    lw__mutex_init(&pump->after_mu);
    lw__journal_init(&pump->journal, &index->allocator, call_pump, pump);
}

int lw__pump_await(struct lw__pump *pump, struct lw__journal_wait *wait) {
    if (pump->is_synchronous)
        lw__pump_run(pump);
    lw__journal_sleep(&pump->journal, wait);
    return wait->status;
}

void lw__pump_distrust(struct lw__pump *pump, const lw_error *err) {
    struct lw__index *index = pump->index;
    lw__index_lock(index);
    index->is_halted = true;
    index->trouble = *err;
    lw__index_unlock(index);
    atomic_store(&pump->is_distrusted, 1);
    lw__pump_call(pump);
}

/* ---- a turn ------------------------------------------------------------------------------- */

/* Readers may look at tasks and blocks as long as they are in a grace section: so may the pump,
 * whose entries are of tasks that cannot leave before their turn is over. Meanwhile it must not ask
 * for the index's lock: whoever has that and no memory waits for the readers. */
static int write_from(struct lw__pump *pump, size_t first, lw_error *err) {
    const struct lw__journal_batch *batch = &pump->batch;
    if (first == batch->count)
        return LW_OK;
    uint32_t ticket = lw__grace_enter(&pump->index->grace);
    LW__POINT("pump: about to write");
    int rc = pump->ops->write(pump->db, &batch->entries[first], batch->count - first, err);
    LW__POINT("pump: written, still a reader");
    lw__grace_leave(&pump->index->grace, ticket);
    return rc;
}

/* Who was told of the last turn comes again while this one is being written, and would have to wait
 * for the next. So they are taken along, until as many wait as did then: what one thread waits for
 * it cannot ask for twice. False: the turn is closed. */
static bool take_more(struct lw__pump *pump, int takes) {
    struct lw__index *index = pump->index;
    lw__index_lock(index);
    bool must_take = takes < TAKES_MAX && pump->failures == 0
                     && pump->batch.sleeper_count < pump->crowd
                     && pump->journal.batch.sleeper_count > 0;
    bool has_more = must_take && lw__journal_take_locked(index, &pump->batch);
    if (!has_more)
        lw__journal_close_locked(&pump->journal);
    lw__index_unlock(index);
    return has_more;
}

static int write_all(struct lw__pump *pump, lw_error *err) {
    size_t written = 0;
    int takes = 0, rc = pump->failures > 0 ? pump->ops->recover(pump->db, err) : LW_OK;
    if (rc == LW_OK)
        rc = pump->ops->begin(pump->db, err);
    if (rc < 0)
        return rc;
    do {
        rc = write_from(pump, written, err);
        written = pump->batch.count;
    } while (rc == LW_OK && take_more(pump, ++takes));
    LW__POINT("pump: written, not committed");
    if (rc == LW_OK)
        rc = pump->ops->commit(pump->db, err);
    if (rc < 0)
        pump->ops->rollback(pump->db);
    return rc;
}

/* Nothing new starts while outcomes cannot be written; then whoever found nothing looks again. */
static void halt_or_go_on_locked(struct lw__index *index, bool must_halt) {
    bool was_halted = index->is_halted;
    index->is_halted = must_halt;
    if (!was_halted || must_halt)
        return;
    index->hooks.wake(index->hooks.user);
    lw__lease_announce_all_locked(index);
}

static void settle_turn(struct lw__pump *pump, int rc, const lw_error *err) {
    struct lw__journal_batch *batch = &pump->batch;
    struct lw__index *index = pump->index;
    uint64_t now = lw__now(index->options.clock);
    lw__index_lock(index);
    if (rc == LW_OK)
        lw__journal_flush_locked(index, batch, now);
    else
        lw__journal_fail_locked(index, batch, rc == LW_EUNSURE, now);
    if (rc != LW_OK)
        index->trouble = *err;
    pump->failures = rc == LW_OK ? 0 : pump->failures + 1;
    halt_or_go_on_locked(index, rc != LW_OK);
    pump->crowd = batch->sleeper_count + pump->journal.batch.sleeper_count;
    lw__index_unlock(index);
    lw__journal_tell(&pump->journal, batch, rc);
    atomic_fetch_add(&pump->turns, 1);
    lw__mutex_lock(&pump->after_mu);
    if (pump->after_turn)
        pump->after_turn(pump->user);
    lw__mutex_unlock(&pump->after_mu);
}

void lw__pump_mute(struct lw__pump *pump) {
    lw__mutex_lock(&pump->after_mu);
    pump->after_turn = NULL;
    lw__mutex_unlock(&pump->after_mu);
}

/* What was taken in has to be committed before more is. */
static int take_in(struct lw__pump *pump) {
    if (pump->bell.fd < 0 || pump->failures > 0 || pump->batch.count > 0)
        return 0;
    int taken = pump->ops->intake(pump->db, pump->is_suspicious);
    pump->has_missed = taken < 0;
    if (taken >= 0)
        pump->is_suspicious = false;
    return taken > 0 ? taken : 0;
}

/* True: there was something. After a failure there is: to find out whether it works again. */
static bool turn(struct lw__pump *pump) {
    struct lw__index *index = pump->index;
    struct lw__journal_batch *batch = &pump->batch;
    lw_error err = {0};
    bool is_distrusted = atomic_exchange(&pump->is_distrusted, 0);
    bool must_write = take_in(pump) > 0 || pump->failures > 0 || is_distrusted;
    if (batch->count == 0) {
        lw__index_lock(index);
        lw__journal_take_locked(index, batch);
        lw__index_unlock(index);
    }
    if (batch->count == 0 && !batch->waits && !must_write)
        return false;
    int rc = batch->count > 0 || must_write ? write_all(pump, &err) : LW_OK;
    if (rc < 0)
        lw__log(index->options.log, LW_LOG_ERROR, "store", "a turn could not be written",
                LW__FIELD_TEXT("why", err.message), LW__FIELD_U64("entries", batch->count));
    LW__POINT("pump: committed, not answered");
    settle_turn(pump, rc, &err);
    return true;
}

void lw__pump_run(struct lw__pump *pump) {
    lw__mutex_lock(&pump->turn_mu);
    while (turn(pump) && pump->failures == 0) {
    }
    lw__mutex_unlock(&pump->turn_mu);
}

/* ---- the thread --------------------------------------------------------------------------- */

static uint64_t in_ms(uint64_t ms) {
    return lw__now(lw__clock_system()) + ms * LW__NS_PER_MS;
}

/* Other connections can call, too. What the descriptor holds already is the echo of its own writes,
 * and may hide another's. */
static void doze(struct lw__pump *pump, uint64_t deadline) {
    int watched = pump->ops->watch(pump->db);
    pump->has_echo |= watched >= 0 && pump->ops->heed(pump->db);
    uint64_t look = pump->has_missed || watched < 0 ? in_ms(LOOK_MS)
                    : pump->has_echo                ? in_ms(ECHO_MS)
                                                    : LW__NEVER;
    enum lw__bell_call call =
        lw__bell_wait(&pump->bell, watched, look < deadline ? look : deadline);
    if (call == LW__BELL_RUNG)
        return;
    if (watched >= 0)
        pump->ops->heed(pump->db);
    pump->is_suspicious = true;
    pump->has_echo = false;
}

/* For what there was no memory to note it looks again soon. */
static void sleep_until_called(struct lw__pump *pump, uint32_t seen) {
    uint64_t deadline = LW__NEVER;
    lw__index_lock(pump->index);
    if (pump->journal.has_lost_notes)
        deadline = in_ms(RETRY_MS_MIN);
    lw__index_unlock(pump->index);
    atomic_store(&pump->is_asleep, 1);
    bool is_called = atomic_load(&pump->call) != seen || atomic_load(&pump->must_end);
    if (!is_called && pump->bell.fd >= 0)
        doze(pump, deadline);
    else if (!is_called)
        lw__futex_wait(&pump->call, seen, deadline);
    atomic_store(&pump->is_asleep, 0);
}

/* After a turn that failed, or something else. */
static void back_off(struct lw__pump *pump) {
    lw_clock *clock = lw__clock_system(); /* real time: it waits for a disk, not for a test */
    uint64_t ms = RETRY_MS_MIN;
    for (uint32_t i = 1; i < pump->failures && ms < RETRY_MS_MAX; i++)
        ms *= 2;
    uint64_t deadline = lw__now(clock) + (ms < RETRY_MS_MAX ? ms : RETRY_MS_MAX) * LW__NS_PER_MS;
    while (lw__now(clock) < deadline && !atomic_load(&pump->must_end))
        lw__futex_wait(&pump->call, atomic_load(&pump->call), deadline);
}

static void *pump_main(void *arg) {
    struct lw__pump *pump = arg;
    for (;;) {
        uint32_t seen = atomic_load(&pump->call);
        bool must_end = atomic_load(&pump->must_end) != 0;
        if (atomic_load(&pump->is_distrusted) && !must_end)
            back_off(pump);
        bool was_busy = turn(pump);
        if (must_end && (!was_busy || pump->failures > 0))
            break;
        if (pump->failures > 0)
            back_off(pump);
        else if (!was_busy)
            sleep_until_called(pump, seen);
    }
    return NULL;
}

bool lw__pump_start(struct lw__pump *pump) {
    if (pump->is_synchronous) {
        lw__pump_run(pump);
        return true;
    }
    if (pump->ops->intake && !lw__bell_open(&pump->bell))
        return false;
    pump->is_running = lw__crew_start_thread(&pump->thread, pump_main, pump, "legwork-db") == 0;
    return pump->is_running;
}

void lw__pump_stop(struct lw__pump *pump) {
    if (pump->is_running) {
        atomic_store(&pump->must_end, 1);
        atomic_fetch_add(&pump->call, 1);
        lw__futex_wake(&pump->call, 1);
        if (pump->bell.fd >= 0)
            lw__bell_ring(&pump->bell);
        pthread_join(pump->thread, NULL);
        pump->is_running = false;
    }
    if (!pump->index)
        return; /* it was not even made */
    lw__bell_close(&pump->bell);
    lw__journal_free_batch(&pump->journal, &pump->batch);
    lw__journal_free(&pump->journal);
    lw__mutex_free(&pump->after_mu);
    lw__mutex_free(&pump->turn_mu);
}
