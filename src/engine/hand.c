/* Hands: whoever runs attempts, one turn after the other.
 *
 * A turn claims tasks, runs them and settles them. Plain tasks of a batch are finished one by one
 * without the store's mutex (store/claim.c) and accounted for together. The batch is shared with
 * the scheduler:
 *
 *     cursor = number of the batch << 32 | next << 16 | end
 *
 * The owner adds one to `next` to begin its next task; the scheduler, which finds the cursor where
 * it was 2 ms ago, swaps `end` down to `next` and so takes the rest back. Both are one atomic step
 * on one word, and the number keeps a late swap from hitting another batch. Tasks before `next - 1`
 * have ended: under the hand's mutex either of the two accounts for them, so that a slow task does
 * not keep the room of those that ended before it. (Those that needed a settlement of their own
 * have left a NULL.) */
#include "engine/engine_internal.h"

#include "base/futex.h"
#include "pool/staff.h"

#include <pthread.h>

#define STREAK_GAP_NS 100000 /* after a longer pause a token does not hurry at once, */
#define LONE_GAP_NS 20000    /* and after this one if tasks come one by one; see choose_gear */
#define SAMPLE_BATCHES 8     /* of a hurrying hand; one in so many is measured */
#define MEAN_CLIP_NS 10000   /* what one slow task can do to the mean */
#define LULL_SPINS_MAX 256   /* some 10 microseconds */
#define LULL_BATCH 80        /* a hurrying hand that finds fewer takes a longer breath next time */
#define SURPLUS_BATCH 16     /* see is_surplus */
#define LINGER_SPINS 200     /* looks for news before a hurrying token ends */
#define TELL_TURN 4          /* ends that are told between two claims, if there is work to do; */
#define TELL_MAX 64          /* if there is none: some may have come meanwhile */
#define REINFORCE_NS 500000  /* a backlog of this much work is worth another worker */

/* ---- who is who --------------------------------------------------------------------------- */

/* The innermost hand of this thread; through `outer` those around it. */
static _Thread_local struct lw__hand *innermost;

void lw__hand_init(struct lw__hand *hand, lw_engine *engine) {
    lw__ctx_init(&hand->ctx, engine->set.clock, &engine->stop_level, engine->is_alive);
    hand->ctx.owner = hand;
    hand->ctx.task = &hand->shown;
    hand->ctx.is_driven = engine->set.workers == 0;
    hand->engine = engine;
    hand->mean_ns = LW__HAND_SHORT_NS;
    lw__mutex_init(&hand->mu);
}

void lw__hand_free(struct lw__hand *hand) {
    lw__ctx_free(&hand->ctx);
    lw__mutex_free(&hand->mu);
}

void lw__hand_enter(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    hand->outer = innermost;
    innermost = hand;
    lw__mutex_lock(&engine->hands_mu);
    hand->next = engine->hands;
    hand->link = &engine->hands;
    if (hand->next)
        hand->next->link = &hand->next;
    engine->hands = hand;
    lw__mutex_unlock(&engine->hands_mu);
}

void lw__hand_leave(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    innermost = hand->outer;
    lw__mutex_lock(&engine->hands_mu);
    *hand->link = hand->next;
    if (hand->next)
        hand->next->link = hand->link;
    lw__mutex_unlock(&engine->hands_mu);
}

void lw__hand_desert(struct lw__hand *hand) {
    innermost = hand->outer;
}

struct lw__hand *lw__hand_innermost(void) {
    return innermost;
}

void lw__hand_tell_here(lw_engine *engine) {
    struct lw__hand hand = {0};
    lw__hand_init(&hand, engine);
    lw__hand_enter(&hand);
    lw__tell(engine, UINT32_MAX);
    if (engine->set.workers == 0 && !lw__engine_is_forked(engine))
        lw__answers_tell(engine);
    if (lw__engine_is_forked(engine)) {
        lw__hand_desert(&hand);
        return;
    }
    lw__hand_leave(&hand);
    lw__hand_free(&hand);
}

bool lw__hand_is_inside(const lw_engine *engine) {
    for (struct lw__hand *hand = innermost; hand; hand = hand->outer) {
        if (hand->engine == engine)
            return true;
    }
    return false;
}

bool lw__hand_runs(const lw_engine *engine, uint64_t id) {
    for (struct lw__hand *hand = innermost; hand; hand = hand->outer) {
        struct lw__task *task = atomic_load(&hand->task);
        if (hand->engine == engine && task && task->id == id)
            return true;
    }
    return false;
}

/* ---- batches ------------------------------------------------------------------------------ */

/* Collects the tasks of the batch before `upto` that have ended and that the store does not know of
 * yet; under the hand's mutex. */
static uint32_t collect_locked(struct lw__hand *hand, uint32_t upto, struct lw__task **ended) {
    uint32_t count = 0;
    for (; hand->accounted < upto; hand->accounted++) {
        struct lw__task *task =
            atomic_load_explicit(&hand->batch[hand->accounted], memory_order_acquire);
        if (task)
            ended[count++] = task;
    }
    return count;
}

void lw__hand_account_locked(struct lw__hand *hand, uint32_t upto, uint64_t now) {
    struct lw__task *ended[LW__HAND_BATCH];
    uint32_t count = collect_locked(hand, upto, ended);
    if (count > 0)
        hand->engine->store->ops->account(hand->engine->store, now, ended, count);
}

/* Submitters that wait for room are let go one at a time, and by a hurrying hand not before half of
 * it is free: being woken costs them more than many short tasks. When a hand stops hurrying it
 * offers what there is. */
static void after_settling(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    if (!hand->is_hurrying || hand->is_half_free)
        lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    lw__engine_attend(engine);
}

/* ---- gears -------------------------------------------------------------------------------- */

static void shift(struct lw__hand *hand, bool is_hurrying) {
    lw_engine *engine = hand->engine;
    if (hand->is_hurrying == is_hurrying)
        return;
    hand->is_hurrying = is_hurrying;
    if (!is_hurrying) {
        atomic_fetch_sub(&engine->hurrying, 1);
        lw__submit_offer_room(engine);
        return;
    }
    uint64_t now = lw__engine_now(engine);
    atomic_store(&engine->recent, now);
    if (atomic_fetch_add(&engine->hurrying, 1) == 0)
        lw__scheduler_need_ticks(engine);
}

/* A hand hurries in a stream of tasks. Tasks that come one by one, every 50 us for instance, are no
 * stream: a hand that hurries for them keeps its attention while it takes breaths and looks for
 * news, uses up what the scheduler owes its thread, and then loses its core beside busy neighbours
 * while submitters rely on it. (Beside two endless loops on two cores, 20,000 tasks a second, p50
 * of the wait for a start in three runs each: 1,130, 1,786 and 17 us; with strict hands 17, 18 and
 * 17; a mutex and a condition variable 16, 3 and 9.) */
static uint32_t choose_gear(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    bool must_hurry = hand->mean_ns < LW__HAND_SHORT_NS && hand->streak >= LW__HAND_STREAK
                      && engine->set.clock->is_real && engine->has_scheduler && hand->pool_ctx;
    shift(hand, must_hurry);
    if (!must_hurry)
        return 1;
    uint32_t n = LW__HAND_BATCH_NS / (hand->mean_ns + 1);
    return n > LW__HAND_BATCH ? LW__HAND_BATCH : n < 1 ? 1 : n;
}

/* What the figures need of a batch: once it can be taken back, its first task may be another's. */
static void note_first(struct lw__hand *hand, const struct lw__task *task) {
    hand->first_kind = task->kind;
    hand->first_queue = task->queue;
    hand->first_enqueued = lw__see(&task->enqueued_at);
}

/* Says what has ended since the last time, and claims. */
static uint32_t claim(struct lw__hand *hand, struct lw__task **tasks) {
    lw_engine *engine = hand->engine;
    struct lw__task *ended[LW__HAND_BATCH];
    struct lw__claim claim = {.ended = ended, .tasks = tasks, .max = choose_gear(hand)};
    hand->started = lw__engine_now(engine);
    atomic_store_explicit(&engine->recent, hand->started, memory_order_relaxed);
    atomic_store_explicit(&engine->has_news, 0, memory_order_seq_cst);
    LW__POINT("hand: news cleared, not claimed");
    lw__mutex_lock(&hand->mu);
    claim.ended_count = collect_locked(hand, hand->ran, ended);
    engine->store->ops->claim(engine->store, hand->started, &claim);
    bool has_settled = hand->ran > 0; /* in one way or the other */
    hand->ran = hand->accounted = 0;
    for (uint32_t i = 0; i < claim.count; i++)
        atomic_store_explicit(&hand->batch[i], tasks[i], memory_order_relaxed);
    if (claim.count > 0)
        note_first(hand, tasks[0]);
    hand->batch_token = claim.token;
    atomic_store(&hand->cursor, lw__cursor(++hand->batch_number, 0, claim.count));
    lw__mutex_unlock(&hand->mu);
    hand->left = claim.left;
    hand->must_tell = claim.has_told;
    hand->is_half_free = claim.is_half_free;
    if (has_settled)
        after_settling(hand);
    return claim.count;
}

/* Whoever brought something since the claim has relied on this hand. */
static void let_others_look(struct lw__hand *hand) {
    lw__hand_withdraw(hand);
    lw__engine_attend(hand->engine);
}

/* More than one worker's work is waiting; a strict hand tells what has ended only after its
 * task. */
static void reinforce(struct lw__hand *hand) {
    bool is_more = hand->is_hurrying ? hand->left * hand->mean_ns > REINFORCE_NS
                                     : hand->left > 0 || hand->must_tell;
    if (is_more)
        lw__attention_call(hand->engine);
}

static void run_claimed(struct lw__hand *hand, uint32_t count) {
    lw_engine *engine = hand->engine;
    uint64_t enqueued = hand->first_enqueued, start = hand->started;
    LW__POINT("hand: claimed, still attentive");
    if (!hand->is_hurrying)
        let_others_look(hand);
    reinforce(hand);
    if (!lw__hand_run_batch(hand, count))
        return;
    uint64_t mean = (lw__engine_now(engine) - start) / count;
    hand->mean_ns = (7 * hand->mean_ns + (uint32_t)(mean < MEAN_CLIP_NS ? mean : MEAN_CLIP_NS)) / 8;
    if (!hand->is_hurrying || hand->batch_number % SAMPLE_BATCHES == 0)
        lw__metrics_sample(engine, hand->first_kind, hand->first_queue,
                           start > enqueued ? start - enqueued : 0, mean);
}

/* A hand that takes each task the instant it is there passes the store's lock to and fro with the
 * submitter, for every few tasks: it waits until more have gathered. Whoever finds nothing does not
 * wait. */
static void take_breath(struct lw__hand *hand, uint32_t count) {
    if (count < LULL_BATCH)
        hand->lull = hand->lull * 2 < LULL_SPINS_MAX ? hand->lull * 2 + 1 : LULL_SPINS_MAX;
    else
        hand->lull /= 2;
    for (uint32_t i = 0; i < hand->lull; i++)
        lw__spin_pause();
}

/* Callbacks may be slow: what has ended in this turn does not wait for them. */
static void account_ran(struct lw__hand *hand) {
    lw__mutex_lock(&hand->mu);
    lw__hand_account_locked(hand, hand->ran, lw__engine_now(hand->engine));
    lw__mutex_unlock(&hand->mu);
}

uint32_t lw__hand_turn(struct lw__hand *hand, uint32_t *told) {
    struct lw__task *tasks[LW__HAND_BATCH];
    uint32_t count = claim(hand, tasks);
    *told = 0;
    if (count > 0)
        run_claimed(hand, count);
    if (lw__engine_is_forked(hand->engine))
        return 0;
    if (hand->must_tell && count == 0)
        let_others_look(hand);
    if (hand->must_tell) {
        account_ran(hand);
        *told = lw__tell(hand->engine, count > 0 || hand->left > 0 ? TELL_TURN : TELL_MAX);
    }
    if (lw__engine_is_forked(hand->engine))
        return 0;
    if (*told > 0 || hand->has_settled)
        after_settling(hand);
    hand->has_settled = false;
    hand->streak += count > 0;
    if (count > 0)
        hand->has_followers = count > 1 || hand->left > 0;
    if (hand->is_hurrying && count > 0)
        take_breath(hand, count);
    return count;
}

/* ---- tokens ------------------------------------------------------------------------------- */

/* The last batch of a token that ends without another turn. */
static void account_rest(struct lw__hand *hand) {
    lw__mutex_lock(&hand->mu);
    lw__hand_account_locked(hand, hand->ran, lw__engine_now(hand->engine));
    hand->ran = 0;
    lw__mutex_unlock(&hand->mu);
    after_settling(hand);
}

static struct lw__hand *take_hand(lw_engine *engine) {
    lw__mutex_lock(&engine->hands_mu);
    struct lw__hand *hand = engine->free_hands;
    engine->free_hands = hand->next; /* there are as many as threads */
    lw__mutex_unlock(&engine->hands_mu);
    return hand;
}

/* Whether it was written off is known for sure only when nobody can find it any more. */
static bool give_hand(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    shift(hand, false);
    lw__hand_leave(hand);
    lw__mutex_lock(&engine->hands_mu);
    bool was_stuck = atomic_exchange(&hand->is_stuck, false);
    hand->next = engine->free_hands;
    engine->free_hands = hand;
    lw__mutex_unlock(&engine->hands_mu);
    return was_stuck;
}

static bool await_news(struct lw__hand *hand) {
    if (!hand->is_hurrying || !lw__pool_may_spin(hand->pool_ctx))
        return false;
    for (int i = 0; i < LINGER_SPINS; i++) {
        if (atomic_load_explicit(&hand->engine->has_news, memory_order_relaxed))
            return true;
        lw__spin_pause();
    }
    return false;
}

/* Two hands share what one would do in a batch: this one goes. The other one attends, and so looks
 * once more before it ends. */
static bool is_surplus(struct lw__hand *hand, uint32_t ran) {
    lw_engine *engine = hand->engine;
    if (!hand->is_hurrying || ran >= SURPLUS_BATCH || atomic_load(&engine->attentive) < 2)
        return false;
    lw__hand_withdraw(hand);
    LW__POINT("hand: surplus, withdrawn");
    if (atomic_load(&engine->attentive) == 0)
        return false;
    account_rest(hand);
    return true;
}

/* Turns until there is nothing more to do; the last look is without attention, so that a submit
 * either is seen by it or sees that nobody looks. */
static void work(struct lw__hand *hand) {
    for (;;) {
        if (atomic_load(&hand->is_stuck)) {
            account_rest(hand);
            return;
        }
        uint32_t told, ran;
        lw__hand_attend(hand);
        ran = lw__hand_turn(hand, &told);
        if (lw__engine_is_forked(hand->engine) || is_surplus(hand, ran))
            return;
        if (ran + told > 0 || await_news(hand))
            continue;
        lw__hand_withdraw(hand);
        LW__POINT("hand: withdrawn, last look to come");
        if (lw__hand_turn(hand, &told) + told == 0)
            return;
    }
}

/* The token ends; after this the engine may be gone. */
static void end_token(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    lw__hand_withdraw(hand);
    LW__POINT("token: ends, hand still there");
    bool was_stuck = give_hand(hand);
    if (was_stuck)
        atomic_store(&engine->has_news, 1); /* there may be a worker again */
    else
        atomic_fetch_sub(&engine->tokens, 1);
    LW__POINT("token: ended, not looked for news");
    lw__stop_announce(engine);
    lw__engine_attend(engine);
    lw__engine_release(engine);
}

/* Settles the attempt that has lost its thread, and gives back what was not begun. */
static void abandon(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    struct lw__task *task = atomic_load(&hand->task), *rest[LW__HAND_BATCH];
    uint32_t count = 0, current;
    if (task)
        lw__hand_crash(hand);
    if (lw__engine_is_forked(engine))
        return;
    lw__mutex_lock(&hand->mu);
    uint64_t cursor = atomic_exchange(&hand->cursor, lw__cursor(++hand->batch_number, 0, 0));
    current = lw__cursor_next(cursor);
    for (uint32_t i = current; i < lw__cursor_end(cursor); i++)
        rest[count++] = atomic_load(&hand->batch[i]);
    if (current > 0) /* the last one begun was settled by itself, or there was none */
        lw__hand_account_locked(hand, current - 1, lw__engine_now(engine));
    lw__mutex_unlock(&hand->mu);
    if (count > 0)
        engine->store->ops->unclaim(engine->store, lw__engine_now(engine), rest, count);
    after_settling(hand);
}

/* What a clean-up handler is about. on_attempt may end the thread once more, within the handler:
 * glibc then runs that handler from the start a second time. */
struct ending {
    struct lw__hand *hand;
    bool has_begun;
};

static void on_thread_ended(void *arg) {
    const struct lw__hand *hand = arg;
    if (!lw__engine_is_forked(hand->engine))
        end_token(arg);
}

/* The handler has ended its thread: its attempt has crashed, the rest of its batch goes back. */
static void on_thread_ending(void *arg) {
    struct ending *ending = arg;
    if (ending->has_begun)
        return;
    ending->has_begun = true;
    struct lw__hand *hand = ending->hand;
    lw_engine *engine = hand->engine;
    if (lw__engine_is_forked(engine))
        return;
    abandon(hand);
    if (lw__engine_is_forked(engine))
        return;
    atomic_store(&engine->has_news, 1);
    pthread_cleanup_push(on_thread_ended, hand);
    lw__verdict_tell(hand);
    pthread_cleanup_pop(1);
}

void lw__hand_run_token(lw_ctx *pool_ctx, void *arg) {
    lw_engine *engine = arg;
    LW__POINT("token: runs, nothing touched yet");
    struct lw__hand *hand = take_hand(engine);
    hand->pool_ctx = pool_ctx;
    uint64_t gap_ns = hand->has_followers ? STREAK_GAP_NS : LONE_GAP_NS;
    if (lw__engine_now(engine) - hand->started > gap_ns)
        hand->streak = 0;
    lw__hand_enter(hand);
    lw__hand_attend(hand);
    LW__POINT("token: attentive, still expected");
    lw__expect_none(&engine->expected);
    struct ending ending = {.hand = hand};
    pthread_cleanup_push(on_thread_ending, &ending);
    work(hand);
    pthread_cleanup_pop(0);
    if (lw__engine_is_forked(engine))
        lw__hand_desert(hand); /* the pool ends the thread */
    else
        end_token(hand);
}

/* The pool was closed before its turn came. */
void lw__hand_drop_token(void *arg) {
    lw_engine *engine = arg;
    lw__expect_none(&engine->expected);
    atomic_fetch_sub(&engine->tokens, 1);
    lw__engine_release(engine);
}

/* ---- guests ------------------------------------------------------------------------------- */

static void leave_guest(struct lw__hand *hand) {
    lw_engine *engine = hand->engine;
    lw__hand_leave(hand);
    lw__hand_free(hand);
    lw__submit_offer_room(engine);
    lw__stop_announce(engine);
    lw__engine_attend(engine);
}

static void on_guest_ended(void *arg) {
    const struct lw__hand *hand = arg;
    if (!lw__engine_is_forked(hand->engine))
        leave_guest(arg);
}

static void on_guest_ending(void *arg) {
    struct ending *ending = arg;
    if (ending->has_begun)
        return;
    ending->has_begun = true;
    struct lw__hand *hand = ending->hand;
    if (lw__engine_is_forked(hand->engine))
        return;
    abandon(hand);
    if (lw__engine_is_forked(hand->engine))
        return;
    pthread_cleanup_push(on_guest_ended, hand);
    lw__verdict_tell(hand);
    pthread_cleanup_pop(1);
}

void lw__hand_run_guest(lw_engine *engine, struct lw__task *task, uint64_t token) {
    struct lw__hand hand = {0};
    lw__hand_init(&hand, engine);
    lw__hand_enter(&hand);
    struct ending ending = {.hand = &hand};
    pthread_cleanup_push(on_guest_ending, &ending);
    hand.started = lw__engine_now(engine);
    if (lw__hand_run_task(&hand, task, token) == LW__RAN_PLAIN)
        engine->store->ops->account(engine->store, lw__engine_now(engine), &task, 1);
    pthread_cleanup_pop(0);
    if (lw__engine_is_forked(engine))
        lw__hand_desert(&hand); /* the caller goes on, and the next call tells it */
    else
        leave_guest(&hand);
}
