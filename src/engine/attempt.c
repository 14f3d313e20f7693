/* One attempt: the handler, its deadlines, and what it can call. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NO_OUTCOME ((lw_outcome)-1) /* of a handler that returned 0 */

/* ---- running ------------------------------------------------------------------------------ */

/* One that the store did not take: its argument goes back to its owner. */
static void forget_successor(struct lw__hand *hand, struct lw__put put) {
    void (*on_drop)(void *arg) = put.spec ? put.spec->on_drop : NULL;
    void *arg = on_drop ? put.spec->arg : NULL;
    lw__spec_free(hand->engine, &put);
    if (on_drop)
        on_drop(arg);
}

static void forget_words(struct lw__hand *hand) {
    struct lw__say *words = &hand->say;
    const lw_allocator *allocator = &hand->engine->set.allocator;
    while (words->successor_count > 0 && !lw__engine_is_forked(hand->engine))
        forget_successor(hand, words->successors[--words->successor_count]);
    if (words->successors)
        lw__free(allocator, words->successors,
                 words->successor_capacity * sizeof *words->successors);
    if (words->result)
        lw__free(allocator, words->result, words->result_size);
    words->successors = NULL;
    words->successor_count = words->successor_capacity = 0;
    words->result = NULL;
    words->has_result = words->has_wait = false;
    words->refusal = NULL;
    words->bits = 0;
    words->outcome = (lw_outcome)0;
    words->text[0] = 0;
}

static void forget_checkpoint(struct lw__hand *hand) {
    lw__free(&hand->engine->set.allocator, hand->checkpoint, hand->shown.checkpoint.size + 1);
    hand->checkpoint = NULL;
    hand->shown.checkpoint = (lw_bytes){NULL, 0};
}

void lw__attempt_forget(struct lw__hand *hand) {
    if (__builtin_expect(hand->checkpoint != NULL, 0))
        forget_checkpoint(hand);
    if (hand->say.outcome || hand->say.successors || hand->say.result || hand->say.refusal)
        forget_words(hand);
}

static void show_task(struct lw__hand *hand, const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    lw_task *shown = &hand->shown;
    if (spec || shown->payload.size || shown->key || shown->run)
        memset(shown, 0, sizeof *shown);
    shown->struct_size = sizeof *shown;
    shown->kind = hand->kind->name;
    shown->queue = lw__queue_of(hand->engine, task->queue)->name;
    shown->priority = task->priority ? (int64_t)task->priority : LW_ZERO;
    shown->id = task->id;
    shown->attempt = lw__see(&task->attempts);
    shown->token = lw__see(&task->token);
    hand->ctx.value = NULL;
    hand->ctx.value_size = 0;
    if (!spec)
        return;
    shown->key = spec->key_size > 0 ? lw__spec_key(spec) : NULL;
    shown->payload.data = lw__spec_payload(spec);
    shown->payload.size = spec->payload_size;
    shown->run = spec->run;
    shown->arg = spec->arg;
    if (spec->value_size > 0) {
        hand->ctx.value = lw__spec_value(spec);
        hand->ctx.value_size = spec->value_size;
    }
}

/* False: no memory. Nobody but this attempt can replace what it reads. */
static bool show_checkpoint(struct lw__hand *hand, const struct lw__task *task) {
    const struct lw__output *output = lw__see(&task->output);
    if (__builtin_expect(!output || !output->has_checkpoint, 1))
        return true;
    size_t size = output->checkpoint_size;
    char *copy = lw__alloc(&hand->engine->set.allocator, size + 1);
    if (!copy)
        return false;
    memcpy(copy, lw__output_checkpoint(output), size);
    copy[size] = 0;
    hand->checkpoint = copy;
    hand->shown.checkpoint = (lw_bytes){copy, size};
    return true;
}

/* The soft deadline of the attempt; LW__NEVER: none. */
static uint64_t deadline_of(const struct lw__hand *hand, const struct lw__task *task) {
    uint64_t timeout = hand->kind->set.timeout_ns;
    uint64_t deadline = timeout > LW__NEVER - hand->started ? LW__NEVER : hand->started + timeout;
    uint64_t finish_by = lw__task_finish_by(task);
    return deadline < finish_by ? deadline : finish_by;
}

/* lw_test_fail_next: true if this attempt is to end so. */
static bool is_ordered_to_fail(struct lw__hand *hand, lw_outcome *outcome) {
    struct lw__kind_info *kind = hand->kind;
    if (__builtin_expect(!atomic_load_explicit(&kind->has_failures_ordered, memory_order_relaxed),
                         1))
        return false;
    lw__mutex_lock(&kind->mu);
    bool is_ordered = kind->fail_count > 0;
    if (is_ordered) {
        *outcome = kind->fail_outcome;
        memcpy(hand->say.text, kind->fail_text, sizeof hand->say.text);
        hand->say.outcome = *outcome;
        hand->is_ordered = true;
        atomic_store(&kind->has_failures_ordered, --kind->fail_count > 0);
    }
    lw__mutex_unlock(&kind->mu);
    return is_ordered;
}

void lw__attempt_open(struct lw__hand *hand, struct lw__task *task) {
    hand->kind = lw__kind_of(hand->engine, task->kind);
    hand->ctx.has_written_outside = false;
    hand->is_ordered = false;
    show_task(hand, task);
    uint64_t deadline = deadline_of(hand, task);
    atomic_store_explicit(&hand->ctx.deadline, deadline, memory_order_relaxed);
    if (deadline != LW__NEVER)
        lw__alarm_set(hand, atomic_load(&hand->token), deadline);
    if (hand->running)
        atomic_store_explicit(hand->running, task->id, memory_order_release);
}

void lw__attempt_close(struct lw__hand *hand) {
    if (hand->running)
        atomic_store_explicit(hand->running, 0, memory_order_release);
    if (atomic_load_explicit(&hand->ctx.deadline, memory_order_relaxed) != LW__NEVER)
        lw__alarm_cancel(hand);
}

/* It has killed its process too often: while it ran there was nobody left to count. */
static bool is_poison(const struct lw__hand *hand, const struct lw__task *task) {
    return hand->running && lw__see(&task->crashes) > hand->kind->set.retry.crashes;
}

lw_outcome lw__attempt_run(struct lw__hand *hand, struct lw__task *task) {
    lw_outcome outcome;
    lw__attempt_open(hand, task);
    if (__builtin_expect(is_poison(hand, task), 0)) {
        lw__attempt_close(hand);
        return lw_fail(&hand->ctx, "its crash budget is used up");
    }
    if (__builtin_expect(!show_checkpoint(hand, task), 0)) {
        lw__attempt_close(hand);
        return lw_retry(&hand->ctx, "there was no memory for its checkpoint");
    }
    lw_handler run = hand->shown.run ? hand->shown.run : hand->kind->run;
    if (!is_ordered_to_fail(hand, &outcome))
        outcome =
            run ? run(&hand->ctx, &hand->shown) : lw_fail(&hand->ctx, "its kind has no handler");
    if (lw__engine_is_forked(hand->engine))
        return outcome;
    if (hand->ctx.is_driven)
        lw__alarms_ring(hand->engine, lw__engine_now(hand->engine)); /* nobody else has */
    lw__attempt_close(hand);
    return outcome || hand->is_ordered ? outcome : NO_OUTCOME;
}

struct lw__hand *lw__attempt_of(lw_ctx *ctx) {
    return ctx ? ctx->owner : NULL;
}

/* ---- outcomes ----------------------------------------------------------------------------- */

static lw_outcome say(lw_ctx *ctx, lw_outcome outcome) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (hand)
        hand->say.outcome = outcome;
    return outcome;
}

LW_PRINTF(3, 0)
static lw_outcome say_text(lw_ctx *ctx, lw_outcome outcome, const char *format, va_list arguments) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (hand) {
        hand->say.outcome = outcome;
        hand->say.has_wait = false;
        hand->say.text[0] = 0;
        if (format
            && vsnprintf(hand->say.text, sizeof hand->say.text, format, arguments) > LW_TEXT_MAX)
            hand->say.text[lw__text_cut(hand->say.text, LW_TEXT_MAX)] = 0;
    }
    return outcome;
}

lw_outcome lw_done(lw_ctx *ctx) {
    return say(ctx, LW_OUTCOME_DONE);
}

static const char *keep_result(struct lw__hand *hand, lw_bytes result) {
    struct lw__say *words = &hand->say;
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
        hand->say.refusal = keep_result(hand, result);
    return say(ctx, LW_OUTCOME_DONE);
}

lw_outcome lw_retry(lw_ctx *ctx, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_RETRY, format, arguments);
    va_end(arguments);
    return outcome;
}

static void say_wait(lw_ctx *ctx, int64_t ms) {
    struct lw__hand *hand = lw__attempt_of(ctx);
    if (!hand)
        return;
    uint64_t bounded = ms < 0                   ? 0
                       : ms > LW_TIMEOUT_MS_MAX ? (uint64_t)LW_TIMEOUT_MS_MAX
                                                : (uint64_t)ms;
    hand->say.wait_ns = bounded * LW__NS_PER_MS;
    hand->say.has_wait = true;
}

lw_outcome lw_retry_after(lw_ctx *ctx, int64_t ms, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    lw_outcome outcome = say_text(ctx, LW_OUTCOME_RETRY, format, arguments);
    va_end(arguments);
    say_wait(ctx, ms);
    return outcome;
}

lw_outcome lw_snooze(lw_ctx *ctx, int64_t ms) {
    say_wait(ctx, ms);
    return say(ctx, LW_OUTCOME_SNOOZE);
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
    struct lw__say *words = &hand->say;
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
    put->is_inside = put->is_successor = true;
    hand->say.successor_count++;
    return LW_OK;
}
