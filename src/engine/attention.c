/* Is a worker looking? If not, one is brought.
 *
 * The store notes `has_news` when something has become claimable or has to be told. Whoever caused
 * that looks whether a token is attentive, that is, will look at the store before it ends; if none
 * is, it sends one to the pool. So a submit beside a busy engine costs two loads, and nobody is
 * woken in vain.
 *
 * A token that was sent is attentive when a worker has begun it, and not before: beside busy
 * neighbours that takes milliseconds. Until then it is expected (base/expect.h), for a while; after
 * that the next caller sends another one, and so wakes another worker.
 *
 * Nothing is missed: a hand that finds nothing first withdraws its attention and then looks again;
 * the store's mutex orders that look and the submit, and either the hand sees the task or the
 * submitter sees no attention. A token that begins gives its attention, takes the expectation back,
 * and then looks. */
#include "engine/engine_internal.h"

/* False: as many as there are workers are under way. */
static bool take_token(lw_engine *engine) {
    uint32_t tokens = atomic_load(&engine->tokens);
    do {
        if (tokens >= engine->set.workers)
            return false;
    } while (!atomic_compare_exchange_weak(&engine->tokens, &tokens, tokens + 1));
    return true;
}

/* False: none. One of those under way may be past its last look: then it finds the news when its
 * token has ended. */
static bool has_token_or_leave_word(lw_engine *engine) {
    if (atomic_load(&engine->tokens) < engine->set.workers)
        return true;
    LW__POINT("call: no token, no word left");
    atomic_store(&engine->has_news, 1);
    return atomic_load(&engine->tokens) < engine->set.workers;
}

static void send_token(lw_engine *engine) {
    atomic_fetch_add(&engine->holders,
                     1); /* the token's: it may begin after the engine was closed */
    LW__POINT("call: expected, not sent");
    if (lw_pool_try_submit(engine->pool, lw__hand_run_token, engine) == LW_OK)
        return;
    /* All workers are stuck, or the pool stops. One that comes back cannot be sent anything before
     * it is back: the scheduler tries again. */
    LW__POINT("call: refused, still expected");
    lw__expect_none(&engine->expected);
    atomic_fetch_sub(&engine->tokens, 1);
    atomic_fetch_sub(&engine->holders, 1);
    lw__scheduler_need_ticks(engine);
}

void lw__attention_call(lw_engine *engine) {
    if (!atomic_load(&engine->is_started) || !engine->pool)
        return;
    while (has_token_or_leave_word(engine)
           && lw__expect_is_overdue(&engine->expected, lw__now(lw__clock_system()))) {
        if (take_token(engine)) {
            send_token(engine);
            return;
        }
        /* A token that has just ended may have relied on the expectation: look again. */
        lw__expect_none(&engine->expected);
    }
}

void lw__hand_attend(struct lw__hand *hand) {
    bool is_attentive = false;
    if (atomic_compare_exchange_strong(&hand->is_attentive, &is_attentive, true))
        atomic_fetch_add(&hand->engine->attentive, 1);
}

void lw__hand_withdraw(struct lw__hand *hand) {
    bool is_attentive = true;
    if (atomic_compare_exchange_strong(&hand->is_attentive, &is_attentive, false))
        atomic_fetch_sub(&hand->engine->attentive, 1);
}
