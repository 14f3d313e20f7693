#include "store/db/pump.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/points.h"
#include "pool/staff.h"

#define RETRY_MS_MIN 20
#define ECHO_MS 5             /* how long after its own writes it looks whether there were others */
#define LOOK_MS 250           /* how often it looks if nobody can tell it */
#define TAKES_MAX 8           /* in one turn */
#define STALL_NS LW__NS_PER_S /* a turn that takes so long has kept those who wait from speaking */

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
    index->committed_at = lw__now(index->options.clock);
}

int lw__pump_await(struct lw__pump *pump, struct lw__journal_wait *wait) {
    if (pump->is_synchronous)
        lw__pump_run(pump);
    lw__journal_sleep(&pump->journal, wait);
    return wait->status;
}

/* Nothing new starts while outcomes cannot be written. */
static void halt_locked(struct lw__index *index, const lw_error *err, uint64_t now) {
    if (!index->is_halted)
        index->halted_at = now;
    index->is_halted = true;
    index->trouble = *err;
    index->errors++;
}

void lw__pump_distrust(struct lw__pump *pump, const lw_error *err) {
    struct lw__index *index = pump->index;
    uint64_t now = lw__now(index->options.clock);
    lw__index_lock(index);
    halt_locked(index, err, now);
    lw__index_unlock(index);
    atomic_store(&pump->is_distrusted, 1);
    lw__pump_call(pump);
}

void lw__pump_give_up(struct lw__pump *pump) {
    if (!atomic_exchange(&pump->is_given_up, 1))
        lw__log(pump->index->options.log, LW_LOG_ERROR, "store",
                "the stop does not wait for the file any longer: what is not written runs again");
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

/* The transaction is begun before anything is taken: as long as that waits for another connection,
 * callers can withdraw what they have noted. */
static int write_all(struct lw__pump *pump, lw_error *err) {
    size_t written = 0;
    if (atomic_load(&pump->is_given_up))
        return lw__error_set(err, LW_ESYSTEM, 0, "the store was given up");
    int takes = 0, rc = pump->failures > 0 ? pump->ops->recover(pump->db, err) : LW_OK;
    if (rc == LW_OK)
        rc = pump->ops->begin(pump->db, err);
    if (rc < 0)
        return rc;
    lw__index_lock(pump->index);
    if (pump->batch.count == 0)
        lw__journal_take_locked(pump->index, &pump->batch);
    pump->index->busy_since = lw__now(lw__clock_system());
    lw__index_unlock(pump->index);
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

/* Whoever found nothing looks again. Returns for how long nothing could be written; 0: it could. */
static uint64_t go_on_locked(struct lw__index *index, uint64_t now) {
    if (!index->is_halted)
        return 0;
    index->is_halted = false;
    index->hooks.wake(index->hooks.user);
    lw__lease_announce_all_locked(index);
    return now > index->halted_at ? now - index->halted_at : 1;
}

static bool has_stalled(const struct lw__index *index, uint64_t now) {
    return index->turn_began_at > 0 && now > index->turn_began_at + STALL_NS;
}

/* A disk that is full for an hour is not told a thousand times, but when it begins, when the reason
 * is another one, and after twice as many failures as the last time. */
static void log_failure(const struct lw__pump *pump, const lw_error *err) {
    uint32_t failures = pump->failures + 1;
    bool is_news = err->status != pump->told.status || err->native != pump->told.native;
    if (!is_news && (failures & (failures - 1)) != 0)
        return;
    lw__index_lock(pump->index);
    uint64_t pending = pump->journal.pending;
    lw__index_unlock(pump->index);
    lw__log(pump->index->options.log, LW_LOG_ERROR, "store", "a turn could not be written",
            LW__FIELD_TEXT("why", err->message), LW__FIELD_U64("entries", pending),
            LW__FIELD_U64("failures", failures));
}

static void log_recovery(const struct lw__pump *pump, uint32_t failures, uint64_t halted_ns) {
    if (halted_ns > 0)
        lw__log(pump->index->options.log, LW_LOG_INFO, "store", "the store can be written again",
                LW__FIELD_U64("failures", failures),
                LW__FIELD_U64("after_ms", halted_ns / LW__NS_PER_MS));
}

static void settle_turn(struct lw__pump *pump, int rc, bool has_written, bool is_blind,
                        const lw_error *err) {
    struct lw__journal_batch *batch = &pump->batch;
    struct lw__index *index = pump->index;
    uint64_t now = lw__now(index->options.clock), halted_ns = 0;
    uint32_t failures = pump->failures;
    lw__index_lock(index);
    if (rc == LW_OK) {
        lw__journal_flush_locked(index, batch, now);
        index->committed_at = has_written ? now : index->committed_at;
    } else {
        lw__journal_fail_locked(index, batch, rc == LW_EUNSURE, now);
    }
    if (rc < 0 || is_blind) {
        halt_locked(index, err, now);
    } else {
        halted_ns = go_on_locked(index, now);
        lw__leases_go_on_locked(index, now, halted_ns > 0 || has_stalled(index, now));
    }
    index->turn_began_at = index->busy_since = 0;
    pump->failures = rc == LW_OK ? 0 : failures + 1;
    pump->misses = rc == LW_OK && is_blind ? pump->misses + 1 : 0;
    pump->told = *err;
    pump->crowd = batch->sleeper_count + pump->journal.batch.sleeper_count;
    lw__index_unlock(index);
    log_recovery(pump, failures, halted_ns);
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

/* As log_failure. */
static void log_miss(const struct lw__pump *pump, const lw_error *err) {
    uint32_t misses = pump->misses + 1;
    if ((misses & (misses - 1)) == 0)
        lw__log(pump->index->options.log, LW_LOG_ERROR, "store",
                "what others have written could not be looked at",
                LW__FIELD_TEXT("why", err->message), LW__FIELD_U64("failures", misses));
}

/* What was taken in has to be committed before more is. Negative: it could not look. (Without
 * memory it does a little later.) The last turns do without a look that could not be made. */
static int take_in(struct lw__pump *pump, lw_error *err) {
    if (pump->bell.fd < 0 || pump->failures > 0 || pump->batch.count > 0
        || (pump->has_missed && atomic_load(&pump->must_end)))
        return 0;
    int taken = pump->ops->intake(pump->db, pump->is_suspicious, err);
    pump->has_missed = taken < 0;
    if (taken >= 0)
        pump->is_suspicious = false;
    return taken == LW_ENOMEM ? 0 : taken;
}

/* True: there was something. After a failure there is, and after a look that could not be made: to
 * find out whether it works. */
static bool turn(struct lw__pump *pump) {
    struct lw__index *index = pump->index;
    struct lw__journal_batch *batch = &pump->batch;
    lw_error err = {0}, missed = {0};
    bool is_distrusted = atomic_exchange(&pump->is_distrusted, 0);
    if (pump->ops->start)
        pump->ops->start(pump->db, pump->failures > 0);
    int taken = take_in(pump, &missed);
    bool is_blind = taken < 0;
    bool must_write = taken != 0 || pump->failures > 0 || pump->misses > 0 || is_distrusted;
    lw__index_lock(index);
    must_write |= batch->count > 0 || pump->journal.batch.count > 0 || pump->journal.has_lost_notes;
    if (must_write)
        index->turn_began_at = lw__now(index->options.clock);
    else
        lw__journal_take_locked(index, batch); /* who waits for nothing that has to be written */
    lw__index_unlock(index);
    if (!must_write && !batch->waits)
        return false;
    int rc = must_write ? write_all(pump, &err) : LW_OK;
    if (rc < 0)
        log_failure(pump, &err);
    else if (is_blind)
        log_miss(pump, &missed);
    LW__POINT("pump: committed, not answered");
    settle_turn(pump, rc, must_write, is_blind, rc < 0 ? &err : &missed);
    return !is_blind || atomic_load(&pump->must_end); /* otherwise it looks a little later */
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
    for (uint32_t i = 1; i < pump->failures && ms < LW__PUMP_RETRY_MS_MAX; i++)
        ms *= 2;
    uint64_t deadline =
        lw__now(clock) + (ms < LW__PUMP_RETRY_MS_MAX ? ms : LW__PUMP_RETRY_MS_MAX) * LW__NS_PER_MS;
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
