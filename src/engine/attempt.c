/* What a handler can call: outcomes, what it publishes, successors. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct lw__hand *lw__attempt_of(lw_ctx *ctx) {
    return ctx ? ctx->owner : NULL;
}

/* ---- outcomes ----------------------------------------------------------------------------- */

LW_PRINTF(3, 0)
static lw_outcome say_text(lw_ctx *ctx, lw_outcome outcome, const char *format, va_list arguments) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (!hand)
        return outcome;
    struct lw__say *words = lw__attempt_say(hand);
    words->has_wait = false;
    words->text[0] = 0;
    if (format && vsnprintf(words->text, sizeof words->text, format, arguments) > LW_TEXT_MAX)
        words->text[lw__text_cut(words->text, LW_TEXT_MAX)] = 0;
    return outcome;
}

lw_outcome lw_done(lw_ctx *ctx) {
    (void)ctx;
    return LW_OUTCOME_DONE;
}

static const char *keep_result(struct lw__hand *hand, lw_bytes result) {
    struct lw__say *words = lw__attempt_say(hand);
    const lw_allocator *allocator = &hand->engine->set.allocator;
    if (result.size > LW_PAYLOAD_MAX || (result.size > 0 && !result.data))
        return "its result is larger than LW_PAYLOAD_MAX, or NULL";
    void *copy = result.size > 0 ? lw__alloc(allocator, result.size) : NULL;
    if (result.size > 0 && !copy)
        return "there was no memory for its result";
    if (copy)
        memcpy(copy, result.data, result.size);
    if (words->result)
        lw__free(allocator, words->result, words->result_size);
    words->result = copy;
    words->result_size = result.size;
    words->has_result = true;
    return NULL;
}

lw_outcome lw_done_with(lw_ctx *ctx, lw_bytes result) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (hand)
        lw__attempt_say(hand)->refusal = keep_result(hand, result);
    return LW_OUTCOME_DONE;
}

lw_outcome lw_retry(lw_ctx *ctx, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_RETRY, format, arguments);
    va_end(arguments);
    return outcome;
}

/* ms is not negative. */
static void say_wait(lw_ctx *ctx, int64_t ms) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (!hand)
        return;
    uint64_t bounded = (uint64_t)(ms > LW_TIMEOUT_MS_MAX ? LW_TIMEOUT_MS_MAX : ms);
    struct lw__say *words = lw__attempt_say(hand);
    words->wait_ns = bounded * LW__NS_PER_MS;
    words->has_wait = true;
}

lw_outcome lw_retry_after(lw_ctx *ctx, int64_t ms, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_RETRY, format, arguments);
    va_end(arguments);
    if (ms >= 0) /* a moment that is past says nothing about the next: the policy does */
        say_wait(ctx, ms);
    return outcome;
}

lw_outcome lw_snooze(lw_ctx *ctx, int64_t ms) {
    say_wait(ctx, ms > 0 ? ms : 0);
    return LW_OUTCOME_SNOOZE;
}

lw_outcome lw_fail(lw_ctx *ctx, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_FAIL, format, arguments);
    va_end(arguments);
    return outcome;
}

lw_outcome lw_abort(lw_ctx *ctx, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_ABORT, format, arguments);
    va_end(arguments);
    return outcome;
}

/* ---- what else a handler can call --------------------------------------------------------- */

void *lw_ctx_user(lw_ctx *ctx) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    return hand && hand->kind ? hand->kind->set.user : NULL;
}

static int publish(lw_ctx *ctx, const struct lw__publication *publication) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    struct lw__task *task = hand ? atomic_load(&hand->task) : NULL;
    if (!task)
        return LW_EINVAL;
    lw_engine *engine = hand->engine;
    if (!lw__engine_is_alive(engine))
        return LW_EFORKED;
    return engine->store->ops->publish(engine->store, task, atomic_load(&hand->token), publication);
}

int lw_progress(lw_ctx *ctx, uint64_t done, uint64_t total, const char *text) {
    struct lw__publication publication = {
        .has_progress = true, .done = done, .total = total, .text = text ? text : ""};
    return publish(ctx, &publication);
}

int lw_partial(lw_ctx *ctx, lw_bytes result) {
    if (result.size > LW_PAYLOAD_MAX || (result.size > 0 && !result.data))
        return LW_EINVAL;
    struct lw__publication publication = {.has_partial = true, .partial = result};
    return publish(ctx, &publication);
}

static int save_position(lw_ctx *ctx, lw_bytes position, struct lw__publication *publication) {
    if (position.size > LW_CHECKPOINT_MAX || (position.size > 0 && !position.data))
        return LW_EINVAL;
    publication->has_checkpoint = true;
    publication->checkpoint = position;
    publication->has_written_outside = ctx && ctx->has_written_outside;
    return publish(ctx, publication);
}

int lw_checkpoint(lw_ctx *ctx, lw_bytes position) {
    struct lw__publication publication = {.has_progress = false};
    return save_position(ctx, position, &publication);
}

int lw_checkpoint_at(lw_ctx *ctx, lw_bytes position, uint64_t done, uint64_t total,
                     const char *text) {
    struct lw__publication publication = {
        .has_progress = true, .done = done, .total = total, .text = text ? text : ""};
    return save_position(ctx, position, &publication);
}

struct lw__put *lw__attempt_new_successor(struct lw__hand *hand) {
    struct lw__say *words = lw__attempt_say(hand);
    if (words->successor_count < words->successor_capacity)
        return &words->successors[words->successor_count];
    size_t capacity = words->successor_capacity ? words->successor_capacity * 2 : 4;
    struct lw__put *successors =
        lw__resize(&hand->engine->set.allocator, words->successors,
                   words->successor_capacity * sizeof *successors, capacity * sizeof *successors);
    if (!successors)
        return NULL;
    words->successors = successors;
    words->successor_capacity = capacity;
    return &words->successors[words->successor_count];
}

int lw_then(lw_ctx *ctx, const lw_task *task, lw_error *err) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (!hand || !atomic_load(&hand->task))
        return lw__error_set(err, LW_EINVAL, 0, "lw_then: not the context of a handler");
    if (lw__engine_is_forked(hand->engine))
        return lw__error_set(err, LW_EFORKED, 0, "%s", lw_status_text(LW_EFORKED));
    if (hand->say.successor_count == LW_THEN_MAX)
        return lw__error_set(err, LW_EFULL, 0, "an attempt has at most %d successors", LW_THEN_MAX);
    struct lw__put *put = lw__attempt_new_successor(hand);
    if (!put)
        return lw__error_set(err, LW_ENOMEM, 0, "no memory for a successor");
    uint64_t now = lw__engine_now(hand->engine);
    int rc = lw__spec_make(hand->engine, task, &now, put, err);
    if (rc < 0)
        return rc;
    rc = lw__spec_check_then(atomic_load(&hand->task), put, err);
    if (rc < 0) {
        lw__spec_free(hand->engine, put);
        return rc;
    }
    uint64_t bytes = put->spec ? put->spec->payload_size : 0;
    if (bytes > hand->engine->set.byte_limit - hand->say.successor_bytes) {
        lw__spec_free(hand->engine, put);
        return lw__error_set(err, LW_EFULL, 0,
                             "the payloads of an attempt's successors have at most byte_limit "
                             "bytes together: %llu",
                             (unsigned long long)hand->engine->set.byte_limit);
    }
    put->is_inside = put->is_successor = true;
    hand->say.successor_bytes += bytes;
    hand->say.successor_count++;
    return LW_OK;
}
