/* What the layers above have of the engine (layer.h). */
#include "engine/layer.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "engine/engine_internal.h"

#include <string.h>

/* ---- inside an attempt -------------------------------------------------------------------- */

void *lw__layer_user(lw_ctx *ctx, const struct lw__layer *layer) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    bool is_its = hand && atomic_load(&hand->task) && hand->kind && hand->kind->layer == layer;
    return is_its ? hand->kind->layer_user : NULL;
}

static struct lw__member *member_of(const struct lw__hand *hand) {
    const struct lw__task *task = hand ? atomic_load(&hand->task) : NULL;
    const struct lw__spec *spec = task ? lw__task_spec(task) : NULL;
    return spec ? spec->member : NULL;
}

const struct lw__member *lw__layer_member(lw_ctx *ctx) {
    return member_of(lw__attempt_of(ctx));
}

int lw__layer_look(lw_ctx *ctx, struct lw__scope_copy *copy, bool *is_done) {
    const struct lw__hand *hand = lw__attempt_of(ctx);
    if (!member_of(hand))
        return LW_ELEASE;
    return lw__index_scope_of(hand->engine->index, atomic_load(&hand->task), copy, is_done);
}

void lw__layer_note(lw_ctx *ctx, uint32_t bits) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (hand)
        lw__attempt_say(hand)->bits |= bits;
}

bool lw__layer_runs(const lw_engine *engine, uint64_t scope) {
    for (struct lw__hand *hand = lw__hand_innermost(); hand; hand = hand->outer) {
        const struct lw__member *member = hand->engine == engine ? member_of(hand) : NULL;
        if (member && member->scope == scope)
            return true;
    }
    return false;
}

/* ---- settling ----------------------------------------------------------------------------- */

/* What an earlier look has added. */
static void drop_added(struct lw__hand *hand, size_t count) {
    while (hand->say.successor_count > count)
        lw__spec_free(hand->engine, &hand->say.successors[--hand->say.successor_count]);
}

/* LW_OK: the settlement has the layer's part now, if it has one. Of a task whose scope has moved on
 * nothing is applied: there is nothing to ask then. */
static int amend(struct lw__settling *settling, struct lw__settlement *s) {
    const struct lw__kind_info *kind = settling->hand->kind;
    struct lw__index *index = settling->engine->index;
    bool is_done;
    settling->old = (struct lw__scope_copy){.bytes = settling->old_bytes,
                                            .capacity = sizeof settling->old_bytes};
    settling->has_change = false;
    settling->memo = 0;
    settling->change = (struct lw__scope_change){.action = LW__SCOPE_WRITE};
    s->scope = NULL;
    if (lw__index_scope_of(index, s->task, &settling->old, &is_done) < 0)
        return LW_OK;
    settling->change.version = settling->old.version;
    int rc = kind->layer->amend(kind->layer_user, settling);
    if (rc == LW_OK && settling->has_change)
        s->scope = &settling->change;
    return rc;
}

static void copy_error(const struct lw__task *task, struct lw__grace *grace,
                       char copy[LW_TEXT_MAX + 1]) {
    uint32_t ticket = lw__grace_enter(grace);
    const struct lw__errors *errors = lw__see(&task->errors);
    const char *text = errors && errors->count > 0
                           ? (const char *)errors + errors->entries[errors->count - 1].text_at
                           : "";
    memcpy(copy, text, strlen(text) + 1); /* LW_TEXT_MAX at most */
    lw__grace_leave(grace, ticket);
}

static void settle_amended(struct lw__hand *hand, struct lw__settlement *s, lw_outcome outcome,
                           uint64_t now) {
    lw_engine *engine = hand->engine;
    struct lw__settling settling; /* too large to be cleared for nothing */
    size_t own = hand->say.successor_count, unsaid = own - s->successor_count;
    settling.engine = engine;
    settling.hand = hand;
    settling.task = s->task;
    settling.outcome = outcome;
    settling.verdict = s->verdict;
    settling.text = s->text;
    copy_error(s->task, &engine->index->grace, settling.error);
    settling.bits = hand->say.bits;
    settling.now = now;
    do {
        drop_added(hand, own);
        s->status = amend(&settling, s);
        if (s->status < 0)
            break;
        s->successor_count = hand->say.successor_count - unsaid;
        s->successors = s->successor_count > 0 ? &hand->say.successors[unsaid] : NULL;
        LW__POINT("layer: amended, not settled");
        engine->store->ops->settle(engine->store, now, s, 1);
    } while (s->status == LW_ECHANGED);
    if (s->status == LW_OK && s->scope)
        hand->kind->layer->settled(hand->kind->layer_user, &settling);
}

void lw__layer_settle(struct lw__hand *hand, struct lw__settlement *s, lw_outcome outcome,
                      uint64_t now) {
    bool is_end = s->verdict == LW__VERDICT_FINISH || s->verdict == LW__VERDICT_FAIL
                  || s->verdict == LW__VERDICT_ABORT;
    if (is_end && hand->kind->layer && member_of(hand))
        settle_amended(hand, s, outcome, now);
    else
        hand->engine->store->ops->settle(hand->engine->store, now, s, 1);
}

/* ---- tasks in a scope --------------------------------------------------------------------- */

/* They belong to a scope, and so have a spec, with nothing else in it. */
static int make_spec(lw_engine *engine, struct lw__put *put) {
    size_t size = lw__spec_size(0, 0, 0, 0);
    put->spec = lw__alloc_zero(engine->blocks, size);
    if (!put->spec)
        return LW_ENOMEM;
    put->spec->size = size;
    put->spec->start_by = put->spec->finish_by = LW__NEVER;
    return LW_OK;
}

int lw__layer_make_put(lw_engine *engine, const struct lw__layer_task *task, bool is_inside,
                       struct lw__put *put, lw_error *err) {
    uint64_t now = 0; /* there is nothing in it that counts from now on */
    lw_task plain = {.struct_size = sizeof plain,
                     .kind = task->kind,
                     .queue = task->queue,
                     .priority = task->priority};
    int rc = lw__spec_make(engine, &plain, &now, put, err);
    if (rc == LW_OK)
        rc = make_spec(engine, put);
    if (rc == LW_ENOMEM)
        lw__error_set(err, LW_ENOMEM, 0, "no memory for a task of kind \"%s\"", task->kind);
    put->scope = LW__SCOPE_THIS;
    put->is_inside = is_inside || lw__hand_is_inside(engine);
    return rc;
}

void lw__layer_drop_put(lw_engine *engine, struct lw__put *put) {
    lw__spec_free(engine, put);
}

int lw__layer_then(struct lw__settling *settling, const struct lw__layer_task *task) {
    struct lw__hand *hand = settling->hand;
    struct lw__put *put = lw__attempt_new_successor(hand);
    if (!put)
        return LW_ENOMEM;
    int rc = lw__layer_make_put(hand->engine, task, true, put, NULL);
    if (rc < 0)
        return rc;
    put->is_successor = true;
    hand->say.successor_count++;
    return LW_OK;
}

void lw__layer_attend(lw_engine *engine) {
    lw__engine_attend(engine);
}

const char *lw__layer_kind_name(const lw_engine *engine, uint16_t number) {
    return lw__kind_of(engine, number)->name;
}

/* ---- scopes that change ------------------------------------------------------------------- */

static struct lw__scope_await **bucket_of(lw_engine *engine, uint64_t scope) {
    return &engine->scope_awaits[scope % LW__SCOPE_AWAIT_BUCKETS];
}

void lw__layer_announce(lw_engine *engine, struct lw__scope_await *await) {
    struct lw__scope_await **bucket = bucket_of(engine, await->scope);
    lw__mutex_lock(&engine->scopes_mu);
    atomic_init(&await->has_changed, 0);
    await->next = *bucket;
    await->link = bucket;
    if (*bucket)
        (*bucket)->link = &await->next;
    *bucket = await;
    atomic_fetch_add(&engine->scope_await_count, 1);
    lw__mutex_unlock(&engine->scopes_mu);
}

void lw__layer_withdraw(lw_engine *engine, struct lw__scope_await *await) {
    lw__mutex_lock(&engine->scopes_mu);
    *await->link = await->next;
    if (await->next)
        await->next->link = await->link;
    atomic_fetch_sub(&engine->scope_await_count, 1);
    lw__mutex_unlock(&engine->scopes_mu);
}

/* Nothing changes any more, or a drop waits for this handler. */
static bool is_given_up(lw_engine *engine) {
    return atomic_load(&engine->has_stopped)
           || (lw__engine_stop_level(engine) == LW__STOP_DROP && lw__hand_is_inside(engine));
}

static void sleep_until(lw_engine *engine, struct lw__scope_await *await, uint64_t deadline) {
    lw_clock *clock = engine->set.clock;
    while (!atomic_load(&await->has_changed) && lw__now(clock) < deadline && !is_given_up(engine)) {
        if (lw__driver_pass(engine, deadline) != LW__PASS_LOOK)
            clock->wait(clock, &await->has_changed, 0, deadline);
    }
}

/* The worker of a handler that waits may have to be replaced, as in lw_wait. */
int lw__layer_wait(lw_engine *engine, struct lw__scope_await *await, uint64_t deadline) {
    struct lw__nested nested = {.id = 0, .is_bounded = deadline != LW__NEVER};
    bool is_inside = lw__hand_is_inside(engine);
    if (is_inside && !lw__nested_enter(engine, &nested))
        return LW_EDEADLOCK;
    sleep_until(engine, await, deadline);
    if (is_inside && !lw__engine_is_forked(engine))
        lw__nested_leave(engine, &nested);
    return is_given_up(engine) ? LW_ESTOPPING : LW_OK;
}

void lw__layer_rouse(lw_engine *engine) {
    lw__mutex_lock(&engine->scopes_mu);
    for (size_t i = 0; i < LW__SCOPE_AWAIT_BUCKETS; i++) {
        for (struct lw__scope_await *await = engine->scope_awaits[i]; await; await = await->next) {
            atomic_store(&await->has_changed, 1);
            lw__futex_wake(&await->has_changed, INT32_MAX);
        }
    }
    lw__mutex_unlock(&engine->scopes_mu);
}

void lw__layer_scope_changed(void *user, uint64_t scope) {
    lw_engine *engine = user;
    if (__builtin_expect(atomic_load(&engine->scope_await_count) == 0, 1))
        return;
    lw__mutex_lock(&engine->scopes_mu);
    for (struct lw__scope_await *await = *bucket_of(engine, scope); await; await = await->next) {
        if (await->scope != scope)
            continue;
        atomic_store(&await->has_changed, 1);
        lw__futex_wake(&await->has_changed, INT32_MAX);
    }
    lw__mutex_unlock(&engine->scopes_mu);
}

size_t lw__layer_scope_aborted(void *user, const struct lw__task *task, const char *reason,
                               lw_bytes old, char *bytes) {
    const struct lw__kind_info *kind = lw__kind_of(user, task->kind);
    if (!kind->layer || !kind->layer->aborted)
        return 0;
    return kind->layer->aborted(kind->layer_user, lw__see(&task->attempts), reason, old, bytes);
}

/* ---- the engine --------------------------------------------------------------------------- */

struct lw__store *lw__layer_store(lw_engine *engine) {
    return engine->store;
}

const lw_log *lw__layer_log(const lw_engine *engine) {
    return &engine->set.log;
}

const lw_allocator *lw__layer_allocator(const lw_engine *engine) {
    return &engine->set.allocator;
}

uint64_t lw__layer_now(const lw_engine *engine) {
    return lw__engine_now(engine);
}

uint64_t lw__layer_deadline(const lw_engine *engine, int64_t timeout_ms) {
    return lw__deadline_in(engine->set.clock, timeout_ms);
}

int64_t lw__layer_wall_ms(const lw_engine *engine, uint64_t at) {
    lw__index_see_wall(engine->index);
    return lw__engine_wall_ms(engine, at);
}

int64_t lw__layer_due_ms(const lw_engine *engine, uint64_t due) {
    lw__index_see_wall(engine->index);
    return lw__engine_due_ms(engine, due);
}

int lw__layer_check(const lw_engine *engine, lw_error *err) {
    return lw__engine_check_told(engine, err);
}

bool lw__layer_is_started(const lw_engine *engine) {
    return atomic_load(&engine->is_started);
}

void *lw__layer_annex(const lw_engine *engine, enum lw__annex which) {
    return engine->annexes[which].data;
}

void lw__layer_set_annex(lw_engine *engine, enum lw__annex which, void *data,
                         const struct lw__annex_ops *ops) {
    engine->annexes[which].data = data;
    engine->annexes[which].ops = ops;
}

int lw__layer_start_annexes(lw_engine *engine, lw_error *err) {
    int rc = LW_OK;
    for (int i = 0; rc == LW_OK && i < LW__ANNEXES; i++) {
        const struct lw__annex_ops *ops = engine->annexes[i].ops;
        if (ops && ops->start)
            rc = ops->start(engine, engine->annexes[i].data, err);
    }
    return rc;
}

bool lw__layer_explain(const lw_engine *engine, const char *kind, char text[LW_ERROR_MESSAGE_MAX]) {
    for (int i = 0; i < LW__ANNEXES; i++) {
        const struct lw__annex_ops *ops = engine->annexes[i].ops;
        if (ops && ops->explain && ops->explain(engine->annexes[i].data, kind, text))
            return true;
    }
    return false;
}

void lw__layer_free_annexes(lw_engine *engine) {
    for (int i = 0; i < LW__ANNEXES; i++) {
        if (engine->annexes[i].ops)
            engine->annexes[i].ops->free(&engine->set.allocator, engine->annexes[i].data);
    }
}
