/* What others do to a hand: ask its attempt to give up, take back what it has not begun, declare it
 * stuck. All of it finds hands in the engine's list, under hands_mu. */
#include "engine/engine_internal.h"

#include "base/futex.h"
#include "base/log.h"
#include "pool/staff.h"

#include <pthread.h>
#include <sched.h>

/* ---- asking to give up -------------------------------------------------------------------- */

/* The number is read between two looks at the token: if the attempt has changed meanwhile, the
 * number is of neither or fails in lw__ctx_end. */
static bool end_attempt(struct lw__hand *hand, uint64_t token, lw_reason reason) {
    if (atomic_load(&hand->token) != token)
        return false;
    uint64_t number = atomic_load(&hand->ctx.signal) >> LW__SIGNAL_SHIFT;
    if (atomic_load(&hand->token) != token)
        return false;
    LW__POINT("cancel: found, not ended");
    lw__ctx_end(&hand->ctx, number, reason);
    return true;
}

void lw__hand_cancel(void *user, uint64_t token, lw_reason reason) {
    lw_engine *engine = user;
    lw__mutex_lock(&engine->hands_mu);
    struct lw__hand *hand = engine->hands;
    while (hand && !end_attempt(hand, token, reason))
        hand = hand->next;
    lw__mutex_unlock(&engine->hands_mu);
}

/* What makes attempts give up that begin from now on was set before; see show in run.c. */
void lw__hand_end_all(lw_engine *engine, lw_reason reason) {
    if (engine->has_barrier)
        lw__barrier_everywhere();
    lw__mutex_lock(&engine->hands_mu);
    for (struct lw__hand *hand = engine->hands; hand; hand = hand->next)
        lw__ctx_end(&hand->ctx, atomic_load(&hand->ctx.signal) >> LW__SIGNAL_SHIFT, reason);
    lw__mutex_unlock(&engine->hands_mu);
}

/* ---- relieving ---------------------------------------------------------------------------- */

/* Takes [next, end) of a batch away from its hand; how many. See hand.c. */
static uint32_t take_rest(struct lw__hand *hand, uint64_t cursor, struct lw__task **rest) {
    uint32_t next = lw__cursor_next(cursor), end = lw__cursor_end(cursor), count = 0;
    for (uint32_t i = next; i < end; i++)
        rest[count++] = atomic_load_explicit(&hand->batch[i], memory_order_relaxed);
    LW__POINT("relieve: copied, not swapped");
    uint64_t shorter = (cursor & ~UINT64_C(0xffff)) | next;
    return next < end && atomic_compare_exchange_strong(&hand->cursor, &cursor, shorter) ? count
                                                                                         : 0;
}

static void account_ended_locked(struct lw__hand *hand, uint64_t cursor, uint64_t now) {
    uint32_t next = lw__cursor_next(cursor);
    if (next > 0)
        lw__hand_account_locked(hand, next - 1, now);
}

/* True: something went back. */
static bool give_back(lw_engine *engine, struct lw__task **rest, uint32_t count, uint64_t now) {
    LW__POINT("relieve: taken, not given back");
    if (count > 0)
        engine->store->ops->unclaim(engine->store, now, rest, count);
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    return count > 0;
}

/* Unless it has moved on. True: something went back. Not under hands_mu; the hand stays, because
 * hands of tokens are never freed while the engine lives. */
static bool relieve(struct lw__hand *hand, uint64_t cursor) {
    struct lw__task *rest[LW__HAND_BATCH];
    uint64_t now = lw__engine_now(hand->engine);
    lw__mutex_lock(&hand->mu);
    if (atomic_load(&hand->cursor) >> 16 != cursor >> 16) {
        lw__mutex_unlock(&hand->mu);
        return false;
    }
    uint32_t count = take_rest(hand, cursor, rest);
    account_ended_locked(hand, cursor, now);
    lw__mutex_unlock(&hand->mu);
    return give_back(hand->engine, rest, count, now);
}

/* Whether the task that the owner has taken last has begun. It has the attempt's token from then
 * on, which no other attempt ever has. */
static bool has_begun_locked(struct lw__hand *hand) {
    uint64_t cursor = atomic_load(&hand->cursor);
    uint32_t next = lw__cursor_next(cursor);
    if (next == 0 || next > lw__cursor_end(cursor))
        return true; /* none was taken, or the last has ended */
    const struct lw__task *task = atomic_load(&hand->batch[next - 1]);
    return !task || lw__task_state(task) != LW_ENQUEUED
           || lw__see(&task->token) == hand->batch_token + next - 1;
}

/* Between taking and beginning there are a few instructions. */
static void await_begin_locked(struct lw__hand *hand) {
    struct lw__grace *grace = &hand->engine->index->grace;
    uint32_t ticket = lw__grace_enter(grace);
    while (!has_begun_locked(hand))
        sched_yield();
    lw__grace_leave(grace, ticket);
}

/* The same whether it moves on or not: whatever it has claimed has begun then, or goes back. */
static bool relieve_for_good(struct lw__hand *hand) {
    struct lw__task *rest[LW__HAND_BATCH];
    uint64_t now = lw__engine_now(hand->engine), cursor;
    uint32_t count;
    lw__mutex_lock(&hand->mu); /* a claim is over, or comes after */
    do {
        cursor = atomic_load(&hand->cursor);
        count = take_rest(hand, cursor, rest);
    } while (count == 0 && lw__cursor_next(cursor) < lw__cursor_end(cursor));
    await_begin_locked(hand);
    account_ended_locked(hand, cursor, now);
    lw__mutex_unlock(&hand->mu);
    return give_back(hand->engine, rest, count, now);
}

/* A hurrying hand that is in a slow task does not look any more, whatever it has said. */
static bool revoke(struct lw__hand *hand) {
    bool was_attentive = true;
    if (!atomic_compare_exchange_strong(&hand->is_attentive, &was_attentive, false))
        return false;
    LW__POINT("revoke: not its any more, still counted");
    atomic_fetch_sub(&hand->engine->attentive, 1);
    return true; /* what it left behind, and what came since, is news to others */
}

/* Also in a callback. */
static bool relieve_if_slow(struct lw__hand *hand) {
    uint64_t cursor = atomic_load(&hand->cursor), seen = hand->seen_cursor;
    bool has_news = false;
    LW__POINT("relieve: cursor read");
    if (lw__cursor_next(cursor) > 0 && cursor == seen) {
        has_news |= relieve(hand, cursor);
        has_news |= revoke(hand);
    }
    if (cursor >> 32 == seen >> 32) /* the same batch as a tick ago */
        atomic_store_explicit(&hand->is_time_old, true, memory_order_relaxed);
    hand->seen_cursor = cursor;
    return has_news;
}

void lw__hand_relieve_all(lw_engine *engine, bool is_tick) {
    bool has_news = false;
    if (!atomic_load(&engine->is_started))
        return; /* the hands are being made, perhaps */
    for (uint32_t i = 0; i < engine->hand_count; i++) {
        struct lw__hand *hand = &engine->all_hands[i];
        has_news |= is_tick ? relieve_if_slow(hand) : relieve_for_good(hand);
        if (!is_tick)
            has_news |= revoke(hand);
    }
    if (has_news)
        atomic_store(&engine->has_news, 1);
    lw__engine_attend(engine);
}

/* ---- stuck -------------------------------------------------------------------------------- */

static void clear_snapshot(void *snapshot) {
    lw_snapshot_clear(snapshot);
}

/* The callback may end its thread: see scheduler.c. */
static void report(lw_engine *engine, uint64_t id) {
    lw_snapshot snapshot = LW_SNAPSHOT_INIT;
    if (lw_get(engine, id, &snapshot) < 0)
        return;
    lw__log(&engine->set.log, LW_LOG_WARN, "engine", "a task ignores its deadline and is stuck",
            LW__FIELD_U64("id", snapshot.id), LW__FIELD_TEXT("kind", snapshot.kind),
            LW__FIELD_U64("attempt", snapshot.attempts));
    pthread_cleanup_push(clear_snapshot, &snapshot);
    if (engine->set.on_stuck)
        engine->set.on_stuck(engine->set.user, &snapshot);
    pthread_cleanup_pop(1);
}

/* What has to be known to write a worker off, from one moment at which its hand was in the attempt:
 * after that the hand may have gone on, and the task may have left. */
struct finding {
    uint64_t id;
    lw_ctx *pool_ctx;     /* NULL: no worker */
    uint64_t pool_number; /* of the token */
};

static bool find_stuck(lw_engine *engine, uint64_t token, struct finding *found) {
    lw__mutex_lock(&engine->hands_mu); /* the hand stays meanwhile, and so does its token */
    struct lw__hand *hand = engine->hands;
    while (hand && atomic_load(&hand->token) != token)
        hand = hand->next;
    bool is_there = hand != NULL;
    if (is_there) {
        found->id = atomic_load(&hand->task_id);
        found->pool_ctx = hand->pool_ctx;
        is_there = atomic_load(&hand->token) == token;
    }
    LW__POINT("stuck: found, not marked");
    if (is_there && hand->pool_ctx) {
        found->pool_number = lw__pool_task_number(hand->pool_ctx);
        /* Its token may have gone on to this attempt before it saw that it was written off. */
        if (!atomic_exchange(&hand->is_stuck, true))
            atomic_fetch_sub(&engine->tokens, 1);
    }
    lw__mutex_unlock(&engine->hands_mu);
    return is_there;
}

/* The hand's worker is written off and replaced; the attempt goes on, and is settled when it
 * ends. */
void lw__hand_declare_stuck(lw_engine *engine, uint64_t token) {
    struct finding found = {0};
    if (!find_stuck(engine, token, &found))
        return;
    LW__POINT("stuck: marked, worker not written off");
    if (found.pool_ctx)
        lw__pool_write_off(found.pool_ctx, found.pool_number);
    if (lw__index_mark_stuck(engine->index, found.id, token)) {
        atomic_fetch_add(&engine->stuck_total, 1);
        report(engine, found.id);
    }
    if (lw__engine_is_forked(engine))
        return;
    atomic_store(&engine->has_news, 1);
    lw__engine_attend(engine);
}
