/* Answers: who submitted without waiting is told how it went.
 *
 * The store calls when a task is durable, on its own thread, which must go on writing; workers may
 * be busy for hours. So there is a thread for these calls alone, which comes with the first of
 * them. An engine without workers has no thread: whoever drives it calls (testing.c, stop.c).
 *
 * A turn of the store ends for many at once. The thread is woken for the first of them, and not
 * again before it has found nothing left; what the list is guarded by is held for an instant. (With
 * a mutex, and a wake for each, the store's thread spent 67 system calls on the answers of one
 * sync, and its turns went to the thread that it woke.)
 *
 * An answer is counted from before its task is put until its call has returned; a stop waits for
 * that. The thread is a holder of the engine: after a stop that did not wait it may be the last. */
#include "engine/engine_internal.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/memory.h"
#include "pool/staff.h"

void lw__answers_init(lw_engine *engine) {
    struct lw__answers *answers = &engine->answers;
    lw__mutex_init(&answers->mu);
    answers->last = &answers->first;
}

/* ---- telling ------------------------------------------------------------------------------ */

static struct lw__answer *take(struct lw__answers *answers) {
    lw__brief_lock(&answers->list_mu);
    struct lw__answer *answer = answers->first;
    if (answer)
        answers->first = answer->next;
    if (!answers->first)
        answers->last = &answers->first;
    lw__brief_unlock(&answers->list_mu);
    return answer;
}

/* False: there is another one. */
static bool ask_to_be_called(struct lw__answers *answers) {
    lw__brief_lock(&answers->list_mu);
    bool is_empty = answers->first == NULL;
    answers->must_call = is_empty;
    lw__brief_unlock(&answers->list_mu);
    return is_empty;
}

void lw__answer_drop(struct lw__answer *answer) {
    lw_engine *engine = answer->engine;
    lw__free(&engine->set.allocator, answer, sizeof *answer);
    atomic_fetch_sub(&engine->answers.count, 1);
    lw__stop_announce(engine);
}

static void drop(void *arg) {
    struct lw__answer *answer = arg;
    if (!lw__engine_is_forked(answer->engine))
        lw__answer_drop(answer);
}

/* A callback that ends its thread has been called, too. */
static void tell_one(struct lw__answer *answer) {
    const struct lw__journal_wait *wait = &answer->wait;
    int status = wait->status < 0 ? wait->status : wait->put_status;
    pthread_cleanup_push(drop, answer);
    answer->done(answer->user, status, status < 0 ? 0 : wait->id);
    pthread_cleanup_pop(1);
}

uint32_t lw__answers_tell(lw_engine *engine) {
    struct lw__answer *answer;
    uint32_t count = 0;
    for (; !lw__engine_is_forked(engine) && (answer = take(&engine->answers)) != NULL; count++)
        tell_one(answer);
    return count;
}

/* ---- the thread --------------------------------------------------------------------------- */

static bool start_thread_locked(lw_engine *engine);

/* A callback has ended the thread: another one goes on. */
static void on_thread_ending(void *hand) {
    lw_engine *engine = ((struct lw__hand *)hand)->engine;
    if (lw__engine_is_forked(engine))
        return;
    lw__hand_leave(hand);
    lw__hand_free(hand);
    lw__mutex_lock(&engine->answers.mu);
    if (!atomic_load(&engine->answers.must_end)) { /* otherwise whoever frees the engine goes on */
        pthread_detach(pthread_self());
        engine->answers.has_thread = start_thread_locked(engine);
    }
    lw__mutex_unlock(&engine->answers.mu);
    lw__engine_release(engine);
}

static void tell_until_end(lw_engine *engine) {
    struct lw__answers *answers = &engine->answers;
    for (;;) {
        uint32_t call = atomic_load(&answers->call);
        bool must_end = atomic_load(&answers->must_end) != 0;
        if (lw__answers_tell(engine) > 0 && !lw__engine_is_forked(engine))
            continue;
        if (must_end || lw__engine_is_forked(engine))
            return;
        LW__POINT("answers: none left, not asleep");
        if (ask_to_be_called(answers))
            lw__futex_wait(&answers->call, call, LW__NEVER);
    }
}

static void *answers_main(void *arg) {
    lw_engine *engine = arg;
    struct lw__hand self = {0}; /* submits from a callback count as calls from inside */
    lw__hand_init(&self, engine);
    lw__hand_enter(&self);
    pthread_cleanup_push(on_thread_ending, &self);
    tell_until_end(engine);
    pthread_cleanup_pop(0);
    if (lw__engine_is_forked(engine))
        return NULL;
    lw__hand_leave(&self);
    lw__hand_free(&self);
    lw__engine_release(engine);
    return NULL;
}

static bool start_thread_locked(lw_engine *engine) {
    struct lw__answers *answers = &engine->answers;
    atomic_fetch_add(&engine->holders, 1);
    if (lw__crew_start_thread(&answers->thread, answers_main, engine, engine->set.name) == 0)
        return true;
    atomic_fetch_sub(&engine->holders, 1);
    return false;
}

static bool has_thread(lw_engine *engine) {
    struct lw__answers *answers = &engine->answers;
    if (engine->set.workers == 0)
        return true; /* it needs none */
    lw__mutex_lock(&answers->mu);
    if (!answers->has_thread)
        answers->has_thread = start_thread_locked(engine);
    bool has_one = answers->has_thread;
    lw__mutex_unlock(&answers->mu);
    return has_one;
}

static void call_thread(struct lw__answers *answers) {
    atomic_fetch_add(&answers->call, 1);
    lw__futex_wake(&answers->call, 1);
}

void lw__answers_stop(lw_engine *engine, bool must_wait) {
    struct lw__answers *answers = &engine->answers;
    lw__mutex_lock(&answers->mu);
    bool has_one = answers->has_thread;
    pthread_t thread = answers->thread;
    answers->has_thread = false;
    atomic_store(&answers->must_end, 1);
    lw__mutex_unlock(&answers->mu);
    if (!has_one)
        return;
    if (!must_wait)
        pthread_detach(thread);
    call_thread(answers);
    if (must_wait)
        pthread_join(thread, NULL);
}

/* ---- one answer --------------------------------------------------------------------------- */

/* Tasks that are under way are bounded by their room; those whose key is taken have none. */
static bool count_in(lw_engine *engine) {
    uint64_t limit = engine->set.task_limit + engine->set.reserve;
    if (atomic_fetch_add(&engine->answers.count, 1) < limit)
        return true;
    atomic_fetch_sub(&engine->answers.count, 1);
    return false;
}

struct lw__answer *lw__answer_open(lw_engine *engine, lw_submitted done, void *user,
                                   lw_error *err) {
    if (!has_thread(engine)) {
        lw__error_set(err, LW_ESYSTEM, 0, "the system gives no thread for the callbacks");
        return NULL;
    }
    if (!count_in(engine)) {
        lw__error_set(err, LW_EFULL, 0,
                      "as many callbacks are outstanding as there may be tasks: try again later");
        return NULL;
    }
    struct lw__answer *answer = lw__alloc_zero(&engine->set.allocator, sizeof *answer);
    if (!answer) {
        atomic_fetch_sub(&engine->answers.count, 1);
        lw__error_set(err, LW_ENOMEM, 0, "no memory for a callback");
        return NULL;
    }
    answer->wait.over = lw__answer_give;
    answer->engine = engine;
    answer->done = done;
    answer->user = user;
    return answer;
}

/* Once it is in the list, answer and engine may be gone: the thread is woken before that. */
void lw__answer_give(struct lw__journal_wait *wait) {
    struct lw__answer *answer = (struct lw__answer *)(void *)wait;
    struct lw__answers *answers = &answer->engine->answers;
    answer->next = NULL;
    lw__brief_lock(&answers->list_mu);
    *answers->last = answer;
    answers->last = &answer->next;
    if (answers->must_call) {
        answers->must_call = false;
        call_thread(answers);
    }
    lw__brief_unlock(&answers->list_mu);
}

/* Nobody else is there any more. */
void lw__answers_free(lw_engine *engine) {
    lw__answers_tell(engine);
    lw__mutex_free(&engine->answers.mu);
}
