/* Hands and their keepers. */
#include "cli/crew.h"

#include "cli/command.h"
#include "cli/screen.h"
#include "server/memory.h"

#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define REST_MS 1000     /* after something did not work */
#define EMPTY_REST_MS 50 /* after claims that gave nothing at once: not every server lets us wait */

static void rest(const struct lw__crew *crew, int ms) {
    struct pollfd stop = {.fd = crew->source->stop_fd, .events = POLLIN};
    poll(&stop, 1, ms);
}

/* ---- saying -------------------------------------------------------------------------------- */

static void say(lw_id id, const char *what, const char *text) {
    struct lw__buffer line;
    lw__page_begin(&line);
    lw__buffer_print(&line, "legwork: task %llu: %s", id, what);
    lw__put_safe(&line, lw__slice_of(text));
    lw__buffer_put_byte(&line, '\n');
    lw__page_print(&line, stderr);
}

/* Once for all hands, and again when it is over. */
static void say_absent(struct lw__crew *crew, const lw_error *err) {
    if (!atomic_exchange(&crew->is_absent, true))
        fprintf(stderr, "legwork: %s%s\n", err->message,
                err->status == LW_EINVAL ? "" : "; it is tried again");
}

static void say_present(struct lw__crew *crew) {
    if (atomic_exchange(&crew->is_absent, false))
        fprintf(stderr, "legwork: it works again\n");
}

/* ---- one task ------------------------------------------------------------------------------ */

static enum lw__crew_why why_of(struct lw__hand *hand) {
    pthread_mutex_lock(&hand->crew->mu);
    enum lw__crew_why why = hand->why;
    pthread_mutex_unlock(&hand->crew->mu);
    return why;
}

static void interrupt_locked(struct lw__hand *hand, enum lw__crew_why why) {
    if (!hand->is_busy || hand->why >= why)
        return;
    hand->why = why;
    atomic_store(&hand->is_void, why == LW__CREW_LOST);
    lw_ctx_cancel(hand->ctx);
}

/* False: there is no memory; its lease runs out. */
static bool begin(struct lw__hand *hand) {
    struct lw__crew *crew = hand->crew;
    lw_ctx *ctx = NULL, *lease = NULL;
    if (lw_ctx_open(&ctx, LW_CTX_OPTIONS(.timeout_ms = crew->timeout_ms), NULL) < 0
        || lw_ctx_open(&lease, LW_CTX_OPTIONS(.timeout_ms = crew->source->lease_ms), NULL) < 0) {
        lw_ctx_close(ctx);
        return false;
    }
    pthread_mutex_lock(&crew->mu);
    hand->ctx = ctx;
    hand->lease = lease;
    hand->why = LW__CREW_NOT;
    hand->is_gone = false;
    hand->is_busy = true;
    atomic_store(&hand->is_void, false);
    pthread_mutex_unlock(&crew->mu);
    return true;
}

static void end(struct lw__hand *hand) {
    pthread_mutex_lock(&hand->crew->mu);
    hand->is_busy = false;
    lw_ctx_close(hand->ctx);
    lw_ctx_close(hand->lease);
    hand->ctx = hand->lease = NULL;
    pthread_mutex_unlock(&hand->crew->mu);
}

/* Whether the task is known to be somebody else's. A lease that was not extended in time may still
 * be ours, for all the other side knows: then the task goes back, and nobody is charged for it. */
static bool is_gone(struct lw__hand *hand, struct lw__outcome *outcome) {
    pthread_mutex_lock(&hand->crew->mu);
    bool is_lost = hand->why == LW__CREW_LOST, is_gone = is_lost && hand->is_gone;
    pthread_mutex_unlock(&hand->crew->mu);
    if (is_lost)
        *outcome = (struct lw__outcome){.outcome = LW_OUTCOME_SNOOZE};
    return is_gone;
}

/* True: that was it, whichever way. */
static bool settle_once(struct lw__hand *hand, struct lw__outcome *outcome, lw_error *err) {
    struct lw__crew *crew = hand->crew;
    lw_id id = hand->task.id;
    if (is_gone(hand, outcome)) {
        say(id, "its lease is lost, and what was done for it does not count", "");
        return true;
    }
    int rc = crew->source->ops->settle(hand->door, id, hand->task.token, outcome, err);
    if (rc == LW_ELEASE)
        say(id, "its outcome came too late, and does not count", "");
    else if (rc >= 0 && why_of(hand) == LW__CREW_LOST)
        say(id, "it was given back to its queue", "");
    if (rc >= 0 || rc == LW_ELEASE) {
        say_present(crew);
        return true;
    }
    if (rc == LW_EINVAL && outcome->outcome == LW_OUTCOME_DONE) {
        say(id, "its result was refused: ", err->message);
        *outcome = (struct lw__outcome){.outcome = LW_OUTCOME_RETRY, .text = err->message};
        return false;
    }
    say_absent(crew, err);
    return rc == LW_EINVAL || why_of(hand) == LW__CREW_HURRIED
           || (why_of(hand) == LW__CREW_LOST && atomic_load(&crew->must_stop));
}

/* Until it is said, or refused. */
static void settle(struct lw__hand *hand, struct lw__outcome outcome) {
    lw_error err = {0};
    /* cppcheck-suppress variableScope ; the text points to it in the next round */
    lw_error why;
    while (!settle_once(hand, &outcome, &err)) {
        why = err;
        if (outcome.text == err.message)
            outcome.text = why.message;
        else
            poll(NULL, 0, REST_MS);
    }
}

static struct lw__outcome outcome_of(struct lw__hand *hand, const struct lw__exec_end *done,
                                     const struct lw__exec_verdict *verdict) {
    int64_t attempts = hand->crew->exec->options.attempts;
    struct lw__outcome outcome = {.outcome = verdict->outcome, .text = verdict->text};
    if (verdict->outcome == LW_OUTCOME_DONE)
        return (struct lw__outcome){LW_OUTCOME_DONE, lw__buffer_slice(&done->output), NULL};
    if (why_of(hand) == LW__CREW_HURRIED)
        return (struct lw__outcome){.outcome = LW_OUTCOME_SNOOZE};
    if (done->reason == LW_REASON_TIMEOUT && attempts > 0 && hand->task.attempt >= attempts)
        outcome.outcome = LW_OUTCOME_FAIL;
    return outcome;
}

static void run_command(struct lw__hand *hand) {
    const struct lw__claimed *task = &hand->task;
    struct lw__exec_job job = {.id = task->id,
                               .attempt = task->attempt,
                               .kind = task->kind,
                               .queue = task->queue,
                               .key = task->key[0] ? task->key : NULL,
                               .traceparent = lw__slice_of(task->traceparent),
                               .payload = {task->payload.data, task->payload.size},
                               .is_void = &hand->is_void};
    struct lw__exec_end done;
    lw__exec_run(hand->crew->exec, &job, hand->ctx, &done);
    struct lw__exec_verdict verdict =
        lw__exec_judge(&done, task->attempt, &hand->crew->exec->options);
    if (why_of(hand) == LW__CREW_LOST)
        say(task->id, "its lease could not be extended in time, and the command was killed", "");
    else if (verdict.outcome != LW_OUTCOME_DONE)
        say(task->id, "", verdict.text);
    else if (hand->crew->is_verbose)
        say(task->id, "done", "");
    settle(hand, outcome_of(hand, &done, &verdict));
    lw__exec_end_clear(&done);
}

static void do_task(struct lw__hand *hand) {
    if (!begin(hand)) {
        say(hand->task.id, "there is no memory for it", "");
        return;
    }
    if (atomic_load(&hand->crew->must_stop)) /* it came at the last moment */
        settle(hand, (struct lw__outcome){.outcome = LW_OUTCOME_SNOOZE});
    else
        run_command(hand);
    end(hand);
}

/* ---- a hand -------------------------------------------------------------------------------- */

static void leave(struct lw__crew *crew) {
    pthread_mutex_lock(&crew->mu);
    if (--crew->alive == 0)
        eventfd_write(crew->idle_fd, 1);
    pthread_mutex_unlock(&crew->mu);
}

/* What is wrong with what we ask for stays wrong. */
static void give_up_or_rest(struct lw__crew *crew, const lw_error *err) {
    say_absent(crew, err);
    if (err->status == LW_EINVAL) {
        atomic_store(&crew->is_refused, true);
        lw__crew_stop(crew);
    }
    rest(crew, REST_MS);
}

/* A single empty answer may be the server's question whether this worker still moves
 * (docs/http-api.md): a task is waiting, and the next claim follows at once. A server that lets no
 * claim wait gives one after the other: from the second on the hand rests. */
static void rest_if_empty(struct lw__crew *crew, unsigned *empty_count, int64_t took_ms) {
    *empty_count = took_ms < EMPTY_REST_MS ? *empty_count + 1 : 0;
    if (*empty_count > 1)
        rest(crew, EMPTY_REST_MS);
}

static void *work(void *arg) {
    struct lw__hand *hand = arg;
    struct lw__crew *crew = hand->crew;
    unsigned empty_count = 0;
    while (!atomic_load(&crew->must_stop)) {
        lw_error err = {0};
        int64_t asked_ms = lw__now_ms();
        int rc = crew->source->ops->claim(hand->door, &hand->task, &err);
        if (rc < 0) {
            give_up_or_rest(crew, &err);
            continue;
        }
        say_present(crew);
        if (rc != LW_OK) {
            rest_if_empty(crew, &empty_count, lw__now_ms() - asked_ms);
            continue;
        }
        empty_count = 0;
        do_task(hand);
    }
    leave(crew);
    return NULL;
}

/* ---- keepers ------------------------------------------------------------------------------- */

/* The new lease is counted from before it was asked for. What does not answer is asked again the
 * next time; when the lease is over meanwhile, lw__crew_check_leases sees it. */
static void extend(const struct lw__keeper *keeper, struct lw__hand *hand) {
    struct lw__crew *crew = hand->crew;
    lw_error err = {0};
    lw_ctx *lease = NULL;
    pthread_mutex_lock(&crew->mu);
    bool is_busy = hand->is_busy && hand->why != LW__CREW_LOST;
    lw_id id = is_busy ? hand->task.id : 0;
    uint64_t token = is_busy ? hand->task.token : 0;
    pthread_mutex_unlock(&crew->mu);
    if (!is_busy
        || lw_ctx_open(&lease, LW_CTX_OPTIONS(.timeout_ms = crew->source->lease_ms), NULL) < 0)
        return;
    int rc = crew->source->ops->extend(keeper->door, id, token, &err);
    pthread_mutex_lock(&crew->mu);
    if (hand->is_busy && hand->task.token == token) {
        if (rc >= 0) {
            lw_ctx *old = hand->lease;
            hand->lease = lease;
            lease = old;
        }
        hand->is_gone |= rc == LW_ELEASE;
        if (rc == LW_PENDING || rc == LW_ELEASE)
            interrupt_locked(hand, rc == LW_ELEASE ? LW__CREW_LOST : LW__CREW_CANCELLED);
    }
    pthread_mutex_unlock(&crew->mu);
    lw_ctx_close(lease);
}

static void *keep(void *arg) {
    const struct lw__keeper *keeper = arg;
    struct lw__crew *crew = keeper->crew;
    struct pollfd stop = {.fd = crew->keeper_fd, .events = POLLIN};
    while (poll(&stop, 1, (int)(crew->source->lease_ms / 3)) == 0)
        for (size_t i = keeper->first; i < crew->count; i += crew->keeper_count)
            extend(keeper, &crew->hands[i]);
    return NULL;
}

void lw__crew_check_leases(struct lw__crew *crew) {
    pthread_mutex_lock(&crew->mu);
    for (size_t i = 0; i < crew->count; i++)
        if (crew->hands[i].is_busy && lw_ctx_done(crew->hands[i].lease))
            interrupt_locked(&crew->hands[i], LW__CREW_LOST);
    pthread_mutex_unlock(&crew->mu);
}

/* ---- start and stop ------------------------------------------------------------------------ */

static bool open_keepers(struct lw__crew *crew, size_t count, int *code) {
    for (; crew->keeper_count < count && crew->keeper_count < LW__KEEPERS_MAX;
         crew->keeper_count++) {
        struct lw__keeper *keeper = &crew->keepers[crew->keeper_count];
        *keeper = (struct lw__keeper){.crew = crew, .first = crew->keeper_count};
        keeper->door = crew->source->ops->open(crew->source, code);
        if (!keeper->door)
            return false;
    }
    return true;
}

static bool open_doors(struct lw__crew *crew, size_t count, int *code) {
    const struct lw__source_ops *ops = crew->source->ops;
    if (!open_keepers(crew, count, code))
        return false;
    for (; crew->count < count; crew->count++) {
        struct lw__hand *hand = &crew->hands[crew->count];
        hand->crew = crew;
        hand->door = ops->open(crew->source, code);
        if (!hand->door)
            return false;
        lw__buffer_init(&hand->task.payload, &lw__server_memory, LW_PAYLOAD_MAX);
    }
    return true;
}

static void close_doors(struct lw__crew *crew) {
    const struct lw__source_ops *ops = crew->source->ops;
    for (size_t i = 0; i < crew->count; i++) {
        ops->close(crew->hands[i].door);
        lw__buffer_clear(&crew->hands[i].task.payload);
    }
    for (size_t i = 0; i < crew->keeper_count; i++)
        ops->close(crew->keepers[i].door);
    if (crew->keeper_fd >= 0)
        close(crew->keeper_fd);
    if (crew->idle_fd >= 0)
        close(crew->idle_fd);
    lw__server_free(crew->hands);
    pthread_mutex_destroy(&crew->mu);
}

static bool start_threads(struct lw__crew *crew) {
    for (; crew->keepers_started < crew->keeper_count; crew->keepers_started++) {
        struct lw__keeper *keeper = &crew->keepers[crew->keepers_started];
        if (pthread_create(&keeper->thread, NULL, keep, keeper) != 0)
            return false;
    }
    pthread_mutex_lock(&crew->mu); /* none leaves before all are there */
    while (crew->started < crew->count) {
        struct lw__hand *hand = &crew->hands[crew->started];
        if (pthread_create(&hand->thread, NULL, work, hand) != 0)
            break;
        crew->started = ++crew->alive;
    }
    pthread_mutex_unlock(&crew->mu);
    return crew->started == crew->count;
}

bool lw__crew_start(struct lw__crew *crew, size_t count, int *code) {
    pthread_mutex_init(&crew->mu, NULL);
    crew->keeper_fd = eventfd(0, EFD_CLOEXEC);
    crew->idle_fd = eventfd(0, EFD_CLOEXEC);
    crew->hands = lw__server_alloc(count * sizeof *crew->hands);
    *code = LW__EXIT_OK;
    if (crew->hands && crew->keeper_fd >= 0 && crew->idle_fd >= 0 && open_doors(crew, count, code)
        && start_threads(crew))
        return true;
    if (*code == LW__EXIT_OK) {
        fprintf(stderr, "legwork: there is no memory, or no thread, for %zu workers\n", count);
        *code = LW__EXIT_FAILED;
    }
    lw__crew_stop(crew);
    lw__crew_end(crew);
    return false;
}

void lw__crew_stop(struct lw__crew *crew) {
    if (!atomic_exchange(&crew->must_stop, true))
        eventfd_write(crew->source->stop_fd, 1);
}

void lw__crew_hurry(struct lw__crew *crew) {
    pthread_mutex_lock(&crew->mu);
    for (size_t i = 0; i < crew->count; i++)
        interrupt_locked(&crew->hands[i], LW__CREW_HURRIED);
    pthread_mutex_unlock(&crew->mu);
}

void lw__crew_end(struct lw__crew *crew) {
    for (size_t i = 0; i < crew->started; i++)
        pthread_join(crew->hands[i].thread, NULL);
    if (crew->keepers_started > 0)
        eventfd_write(crew->keeper_fd, 1);
    for (size_t i = 0; i < crew->keepers_started; i++)
        pthread_join(crew->keepers[i].thread, NULL);
    close_doors(crew);
}
