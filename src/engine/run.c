/* Attempts from their begin to their end, and a batch of them: the hot path of a hand.
 *
 * All of it is in one file, so that the compiler can make one loop of it: what a plain task costs
 * its worker here is a fifth less than in calls from file to file (callgrind, with the moves of its
 * state). What is rare stands in functions of its own. */
#include "engine/engine_internal.h"

#include "base/futex.h"
#include "base/inline.h"
#include "base/memory.h"
#include "store/step.h"

#include <string.h>

#define PREFETCH 4 /* tasks ahead; each is two cache lines that another core has written */
#define NO_OUTCOME ((lw_outcome)-1) /* of a handler that returned 0 */

/* ---- begin -------------------------------------------------------------------------------- */

/* Shows the attempt, so that it can be asked to give up, before the task says that it has started.
 * A stop wants that an attempt either shows in the signal or heeds the stop: it passes
 * lw__barrier_everywhere between the two (lw__hand_end_all), and so this side needs no fence. */
LW__INLINE void show(struct lw__hand *hand, struct lw__task *task, uint64_t token) {
    uint64_t signal = ++hand->number << LW__SIGNAL_SHIFT;
    atomic_store_explicit(&hand->task_id, task->id, memory_order_relaxed);
    atomic_store_explicit(&hand->task, task, memory_order_release);
    atomic_store_explicit(&hand->token, token, memory_order_release);
    if (__builtin_expect(hand->engine->has_barrier, 1))
        atomic_store_explicit(&hand->ctx.signal, signal, memory_order_release);
    else
        atomic_store_explicit(&hand->ctx.signal, signal, memory_order_seq_cst);
    lw__barrier_light();
}

LW__INLINE void hide(struct lw__hand *hand) {
    atomic_store_explicit(&hand->ctx.signal, hand->number << LW__SIGNAL_SHIFT | LW__SIGNAL_IDLE,
                          memory_order_release);
    if (__builtin_expect(atomic_load_explicit(&hand->ctx.has_fd_out, memory_order_relaxed), 0))
        lw__ctx_recall_fd(&hand->ctx);
    atomic_store_explicit(&hand->token, 0, memory_order_release);
    atomic_store_explicit(&hand->task, NULL, memory_order_release);
}

/* A stop that drops may have missed an attempt that began meanwhile; and when a drain is past its
 * deadline, what begins has to be brief, too. */
static void heed_stop(struct lw__hand *hand) {
    enum lw__stop_level level = lw__engine_stop_level(hand->engine);
    if (__builtin_expect(level == LW__RUNNING, 1))
        return;
    if (level == LW__STOP_DROP)
        lw__ctx_end(&hand->ctx, hand->number, LW_REASON_DROPPED);
    else if (atomic_load(&hand->engine->is_out_of_time))
        lw__ctx_end(&hand->ctx, hand->number, LW_REASON_STOP);
}

static bool has_deadline(const struct lw__hand *hand, const struct lw__task *task) {
    return hand->kind->set.timeout_ns != LW__NEVER || lw__task_flags(task) & LW__TASK_LIMITED;
}

LW__INLINE bool begin(struct lw__hand *hand, struct lw__task *task, uint64_t token) {
    hand->kind = lw__kind_of(hand->engine, task->kind);
    /* The time of a batch is read once, before it; but a deadline counts from the attempt's own
     * begin. */
    if (__builtin_expect(has_deadline(hand, task), 0))
        hand->started = lw__engine_now(hand->engine);
    show(hand, task, token);
    LW__POINT("hand: shown, not begun");
    bool has_begun = lw__step_begin(hand->engine->index, task, token, hand->started);
    if (__builtin_expect(has_begun, 1))
        heed_stop(hand);
    else
        hide(hand);
    return has_begun;
}

/* ---- what the handler gets ---------------------------------------------------------------- */

static void show_spec(struct lw__hand *hand, const struct lw__spec *spec) {
    lw_task *shown = &hand->shown;
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

LW__INLINE void show_task(struct lw__hand *hand, const struct lw__task *task) {
    const struct lw__spec *spec = lw__task_spec(task);
    lw_task *shown = &hand->shown;
    if (spec || shown->key || shown->run)
        memset(shown, 0, sizeof *shown);
    shown->payload = (lw_bytes){"", 0}; /* not that of the task before */
    shown->struct_size = sizeof *shown;
    shown->kind = hand->kind->name;
    shown->queue = lw__queue_of(hand->engine, task->queue)->name;
    shown->priority = task->priority ? (int64_t)task->priority : LW_ZERO;
    shown->id = task->id;
    shown->attempt = lw__see(&task->attempts);
    shown->token = lw__see(&task->token);
    hand->ctx.value = NULL;
    hand->ctx.value_size = 0;
    if (spec)
        show_spec(hand, spec);
}

/* False: no memory. */
static bool copy_checkpoint(struct lw__hand *hand, const struct lw__output *output) {
    size_t size = output->checkpoint_size;
    char *copy = lw__alloc(&hand->engine->set.allocator, size + 1);
    if (!copy)
        return false;
    if (size > 0)
        memcpy(copy, lw__output_checkpoint(output), size);
    copy[size] = 0;
    hand->checkpoint = copy;
    hand->shown.checkpoint = (lw_bytes){copy, size};
    return true;
}

/* False: no memory. Nobody but this attempt can replace what it reads. */
static bool show_checkpoint(struct lw__hand *hand, const struct lw__task *task) {
    const struct lw__output *output = lw__see(&task->output);
    if (__builtin_expect(!output || !output->has_checkpoint, 1))
        return true;
    return copy_checkpoint(hand, output);
}

/* The soft deadline of the attempt; LW__NEVER: none. */
static uint64_t deadline_of(const struct lw__hand *hand, const struct lw__task *task) {
    uint64_t timeout = hand->kind->set.timeout_ns;
    uint64_t deadline = timeout > LW__NEVER - hand->started ? LW__NEVER : hand->started + timeout;
    uint64_t finish_by = lw__task_finish_by(task);
    return deadline < finish_by ? deadline : finish_by;
}

LW__INLINE void open(struct lw__hand *hand, struct lw__task *task) {
    hand->ctx.has_written_outside = false;
    hand->is_ordered = false;
    show_task(hand, task);
    uint64_t deadline = LW__NEVER;
    if (__builtin_expect(has_deadline(hand, task), 0))
        deadline = deadline_of(hand, task);
    atomic_store_explicit(&hand->ctx.deadline, deadline, memory_order_relaxed);
    if (__builtin_expect(deadline != LW__NEVER, 0))
        lw__alarm_set(hand, atomic_load(&hand->token), deadline);
    if (hand->running)
        atomic_store_explicit(hand->running, task->id, memory_order_release);
}

LW__INLINE void close(struct lw__hand *hand) {
    if (hand->running)
        atomic_store_explicit(hand->running, 0, memory_order_release);
    if (atomic_load_explicit(&hand->ctx.deadline, memory_order_relaxed) != LW__NEVER)
        lw__alarm_cancel(hand);
}

/* ---- the handler -------------------------------------------------------------------------- */

/* It has killed its process too often: while it ran there was nobody left to count. */
static bool is_poison(const struct lw__hand *hand, const struct lw__task *task) {
    return hand->running && lw__see(&task->crashes) > hand->kind->set.retry.crashes;
}

/* lw_test_fail_next: true if this attempt is to end so. */
static bool take_order(struct lw__hand *hand, lw_outcome *outcome) {
    struct lw__kind_info *kind = hand->kind;
    lw__mutex_lock(&kind->mu);
    bool is_ordered = kind->fail_count > 0;
    if (is_ordered) {
        *outcome = kind->fail_outcome;
        memcpy(lw__attempt_say(hand)->text, kind->fail_text, sizeof hand->say.text);
        hand->is_ordered = true;
        atomic_store(&kind->has_failures_ordered, --kind->fail_count > 0);
    }
    lw__mutex_unlock(&kind->mu);
    return is_ordered;
}

/* Calls the handler, or says why not. */
LW__INLINE lw_outcome call(struct lw__hand *hand, struct lw__task *task) {
    lw_outcome outcome;
    if (__builtin_expect(is_poison(hand, task), 0))
        return lw_fail(&hand->ctx, "its crash budget is used up");
    if (__builtin_expect(!show_checkpoint(hand, task), 0))
        return lw_retry(&hand->ctx, "there was no memory for its checkpoint");
    if (atomic_load_explicit(&hand->kind->has_failures_ordered, memory_order_relaxed)
        && take_order(hand, &outcome))
        return outcome;
    lw_handler handler = hand->shown.run ? hand->shown.run : hand->kind->run;
    if (!handler)
        return lw_fail(&hand->ctx, "its kind has no handler");
    return handler(&hand->ctx, &hand->shown);
}

/* The attempt without its begin and end. After it, look whether this is a forked child. */
LW__INLINE lw_outcome run(struct lw__hand *hand, struct lw__task *task) {
    open(hand, task);
    lw_outcome outcome = call(hand, task);
    if (lw__engine_is_forked(hand->engine))
        return outcome;
    if (__builtin_expect(hand->ctx.is_driven, 0))
        lw__alarms_ring(hand->engine, lw__engine_now(hand->engine)); /* nobody else has */
    close(hand);
    return outcome || hand->is_ordered ? outcome : NO_OUTCOME;
}

/* ---- end ---------------------------------------------------------------------------------- */

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
    words->successor_bytes = 0;
    words->result = NULL;
    words->has_result = words->has_wait = false;
    words->refusal = NULL;
    words->bits = 0;
    words->has_more = false;
    words->text[0] = 0;
}

static void forget_checkpoint(struct lw__hand *hand) {
    lw__free(&hand->engine->set.allocator, hand->checkpoint, hand->shown.checkpoint.size + 1);
    hand->checkpoint = NULL;
    hand->shown.checkpoint = (lw_bytes){NULL, 0};
}

/* Forgets what the handler said, and frees what belongs to it. */
LW__INLINE void forget(struct lw__hand *hand) {
    if (__builtin_expect(hand->checkpoint != NULL, 0))
        forget_checkpoint(hand);
    if (__builtin_expect(hand->say.has_more, 0))
        forget_words(hand);
}

/* In a batch that of the last look at the clock, as long as the scheduler has not found it old. */
LW__INLINE uint64_t note_end(struct lw__hand *hand) {
    bool is_old = atomic_load_explicit(&hand->is_time_old, memory_order_relaxed);
    if (__builtin_expect(is_old || !hand->is_hurrying, 0)) {
        atomic_store_explicit(&hand->is_time_old, false, memory_order_relaxed);
        hand->started = lw__engine_now(hand->engine);
    }
    return hand->started;
}

/* It is settled by itself, and may leave at once: whoever looks at the batch in a grace section, as
 * oversight.c does, must not find it there any more. */
static void strike_out(struct lw__hand *hand) {
    uint32_t next = lw__cursor_next(atomic_load_explicit(&hand->cursor, memory_order_relaxed));
    if (next > 0) /* else it is of no batch */
        atomic_store_explicit(&hand->batch[next - 1], NULL, memory_order_release);
}

static bool is_plain_end(const struct lw__hand *hand, lw_outcome outcome) {
    const struct lw__say *words = &hand->say;
    return outcome == LW_OUTCOME_DONE && !words->has_result && !words->refusal
           && words->successor_count == 0;
}

/* The general way of an end: callbacks of the program may be called. */
static enum lw__ran settle(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                           lw_outcome outcome) {
    lw_engine *engine = hand->engine;
    strike_out(hand);
    lw__verdict_settle(hand, task, token, outcome, (lw_fault)0);
    if (lw__engine_is_forked(engine))
        return LW__RAN_FORKED;
    LW__POINT("hand: settled, not hidden");
    hide(hand);
    forget(hand);
    if (hand->to_tell)
        lw__verdict_tell(hand);
    return lw__engine_is_forked(engine) ? LW__RAN_FORKED : LW__RAN_SETTLED;
}

LW__INLINE enum lw__ran end(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                            lw_outcome outcome) {
    uint64_t now = note_end(hand);
    if (!is_plain_end(hand, outcome) || !lw__step_finish(hand->engine->index, task, now))
        return settle(hand, task, token, outcome);
    LW__POINT("hand: settled, not hidden");
    hide(hand);
    forget(hand);
    return LW__RAN_PLAIN;
}

/* The figures of its batch will not be told: this attempt's are, like those of any other. */
static void sample_crash(lw_engine *engine, const struct lw__task *task) {
    uint64_t began = lw__see(&task->started_at), now = lw__engine_now(engine);
    lw__metrics_sample(engine, task->kind, task->queue, began - lw__see(&task->enqueued_at),
                       now > began ? now - began : 0);
}

void lw__hand_crash(struct lw__hand *hand) {
    struct lw__task *task = atomic_load(&hand->task);
    lw__alarm_cancel(hand);
    strike_out(hand);
    sample_crash(hand->engine, task);
    lw__verdict_settle(hand, task, atomic_load(&hand->token), (lw_outcome)0, LW_FAULT_CRASH);
    if (lw__engine_is_forked(hand->engine))
        return;
    hide(hand);
    forget(hand);
}

/* ---- tasks -------------------------------------------------------------------------------- */

LW__INLINE enum lw__ran run_task(struct lw__hand *hand, struct lw__task *task, uint64_t token) {
    if (!begin(hand, task, token))
        return LW__RAN_PLAIN;
    lw_outcome outcome = run(hand, task);
    LW__POINT("hand: ran, not settled");
    if (lw__engine_is_forked(hand->engine))
        return LW__RAN_FORKED;
    return end(hand, task, token, outcome);
}

static void prefetch(const struct lw__hand *hand, uint32_t i, uint32_t count) {
    if (i >= count)
        return;
    const char *task = (const char *)atomic_load_explicit(&hand->batch[i], memory_order_relaxed);
    lw__fetch_to_write(task);
    lw__fetch_to_write(task + 64);
}

bool lw__hand_run_batch(struct lw__hand *hand, uint32_t count) {
    uint32_t ran = 0;
    for (uint32_t i = 0; i < PREFETCH; i++)
        prefetch(hand, i, count);
    for (;;) {
        uint64_t cursor = atomic_fetch_add(&hand->cursor, UINT64_C(1) << 16);
        uint32_t i = lw__cursor_next(cursor);
        LW__POINT("hand: next taken");
        if (i >= lw__cursor_end(cursor))
            break;
        struct lw__task *task = atomic_load_explicit(&hand->batch[i], memory_order_relaxed);
        prefetch(hand, i + PREFETCH, count);
        enum lw__ran how = run_task(hand, task, hand->batch_token + i);
        if (__builtin_expect(how == LW__RAN_FORKED, 0))
            return false;
        hand->has_settled |= how == LW__RAN_SETTLED;
        ran = i + 1;
    }
    hand->ran = ran;
    return true;
}

/* ---- for others --------------------------------------------------------------------------- */

enum lw__ran lw__hand_run_task(struct lw__hand *hand, struct lw__task *task, uint64_t token) {
    return run_task(hand, task, token);
}

bool lw__hand_begin(struct lw__hand *hand, struct lw__task *task, uint64_t token) {
    return begin(hand, task, token);
}

void lw__attempt_open(struct lw__hand *hand, struct lw__task *task) {
    open(hand, task);
}

void lw__attempt_close(struct lw__hand *hand) {
    close(hand);
}

enum lw__ran lw__hand_end(struct lw__hand *hand, struct lw__task *task, uint64_t token,
                          lw_outcome outcome) {
    return end(hand, task, token, outcome);
}
