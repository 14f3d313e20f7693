/* Readers beside writers: whatever is going on with a task, a snapshot of it is of one moment. */
#include "engines.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define READERS 8
#define FOREVER (-1)

static _Atomic bool is_over;
static _Atomic long looks;

/* ---- what belongs together ----------------------------------------------------------------- */

/* Each publication is made of one number: done, total, the text, and all bytes of the partial. */
#define PARTIAL_MAX 600

static void publish(lw_ctx *ctx, uint64_t number) {
    char text[64];
    unsigned char partial[PARTIAL_MAX];
    size_t size = number % PARTIAL_MAX;
    snprintf(text, sizeof text, "step %llu", (unsigned long long)number);
    memset(partial, (int)(number & 0xff), sizeof partial);
    CHECK(lw_progress(ctx, number, 2 * number + 1, text) == LW_OK);
    CHECK(lw_partial(ctx, (lw_bytes){partial, size}) == LW_OK);
}

static void check_progress(const lw_snapshot *s) {
    char text[64];
    if (s->progress.total == 0)
        return; /* nothing was published yet */
    assert_int_equal(s->progress.total, 2 * s->progress.done + 1);
    snprintf(text, sizeof text, "step %llu", (unsigned long long)s->progress.done);
    assert_string_equal(s->progress.text, text);
    const unsigned char *partial = s->partial.data;
    for (size_t i = 1; i < s->partial.size; i++)
        CHECK(partial[i] == partial[0]);
    /* The partial is of this step, or of the one before it. */
    CHECK(s->partial.size == s->progress.done % PARTIAL_MAX
          || s->partial.size == (s->progress.done - 1) % PARTIAL_MAX);
}

static void check_errors(const lw_snapshot *s) {
    for (unsigned i = 0; i < s->error_count; i++) {
        char text[64];
        snprintf(text, sizeof text, "attempt %u did not work", s->errors[i].attempt);
        assert_string_equal(s->errors[i].text, text);
    }
    if (s->error_count > 0)
        assert_string_equal(s->last_error, s->errors[s->error_count - 1].text);
    assert_int_equal(s->attempts - (s->state == LW_STARTED),
                     s->error_count + s->errors_dropped + (s->state == LW_FINISHED));
}

static void check_states(const lw_snapshot *s) {
    CHECK(s->created_ns <= s->enqueued_ns || s->enqueued_ns == 0);
    CHECK((s->ended_ns != 0) == lw_state_is_terminal(s->state));
    CHECK((s->due_ms != 0) == (s->state == LW_SCHEDULED));
    CHECK((s->result.data != NULL) == (s->state == LW_FINISHED));
    CHECK(s->state != LW_STARTED || (s->attempts > 0 && s->token > 0 && s->started_ns > 0));
}

static void check_all(const lw_snapshot *s) {
    assert_string_equal(s->kind, "work");
    assert_string_equal(s->queue, "default");
    assert_string_equal(s->key, "the one");
    assert_int_equal(s->payload.size, 5);
    assert_memory_equal(s->payload.data, "bytes", 5);
    check_progress(s);
    check_errors(s);
    check_states(s);
}

/* ---- one task, eight readers ----------------------------------------------------------------- */

struct one {
    lw_engine *engine;
    lw_id id;
    unsigned attempts;
    long steps; /* of an attempt */
};

static lw_outcome work(lw_ctx *ctx, const lw_task *task) {
    const struct one *one = lw_ctx_user(ctx);
    long looks_before = atomic_load(&looks);
    for (long i = 1; i <= one->steps; i++)
        publish(ctx, (task->attempt - 1) * (uint64_t)one->steps + (uint64_t)i);
    await_that(atomic_load(&looks) > looks_before); /* no attempt goes unseen */
    if (task->attempt < one->attempts)
        return lw_retry(ctx, "attempt %u did not work", task->attempt);
    return lw_done_with(ctx, LW_TEXT("done"));
}

static void *read_by_id(void *arg) {
    struct one *one = arg;
    lw_snapshot s = LW_SNAPSHOT_INIT;
    while (!atomic_load(&is_over)) {
        assert_status(lw_get(one->engine, one->id, &s), LW_OK);
        check_all(&s);
        atomic_fetch_add(&looks, 1);
    }
    lw_snapshot_clear(&s);
    return NULL;
}

static bool check_each(void *user, const lw_snapshot *task) {
    (void)user;
    check_all(task);
    return true;
}

static void *read_by_list(void *arg) {
    struct one *one = arg;
    while (!atomic_load(&is_over))
        CHECK(lw_list(one->engine, NULL, check_each, NULL) == 1);
    return NULL;
}

TEST(no_snapshot_is_torn_whatever_happens_to_its_task) {
    struct one one = {.attempts = 40, .steps = test_scale(100, 5000)};
    pthread_t threads[READERS];
    one.engine = OPEN_ENGINE(.workers = 2);
    handle(one.engine, "work", work,
           LW_HANDLER_OPTIONS(.user = &one, .retry = {.min_ms = 1, .max_ms = 1}));
    one.id = SUBMIT(one.engine, .kind = "work", .key = "the one", .payload = LW_TEXT("bytes"));
    for (int i = 0; i < READERS; i++)
        threads[i] = start_thread(i < READERS - 2 ? read_by_id : read_by_list, &one);
    start(one.engine);
    assert_status(lw_wait(one.engine, one.id, FOREVER, NULL), LW_OK);
    atomic_store(&is_over, true);
    for (int i = 0; i < READERS; i++)
        join_thread(threads[i]);
    CHECK(atomic_load(&looks) >= one.attempts);
    assert_int_equal(state_of(one.engine, one.id), LW_FINISHED);
    close_engine(one.engine);
}

/* ---- tasks that come and go ------------------------------------------------------------------ */

/* Each task says in its payload what it has as its key. */
static void check_twin(const lw_snapshot *s) {
    assert_string_equal(s->kind, "short");
    assert_int_equal(s->payload.size, strlen(s->key));
    assert_memory_equal(s->payload.data, s->key, s->payload.size);
    CHECK(s->state >= LW_CREATED && s->state <= LW_ABORTED);
}

static bool check_each_twin(void *user, const lw_snapshot *task) {
    (void)user;
    check_twin(task);
    return true;
}

static _Atomic lw_id newest;

static void *read_what_comes_and_goes(void *engine) {
    lw_snapshot s = LW_SNAPSHOT_INIT;
    while (!atomic_load(&is_over)) {
        int rc = lw_get(engine, atomic_load(&newest) + 1, &s); /* about to be submitted */
        if (rc == LW_OK)
            check_twin(&s);
        else
            assert_status(rc, LW_ENOTFOUND);
        CHECK(lw_list(engine, NULL, check_each_twin, NULL) >= 0);
    }
    lw_snapshot_clear(&s);
    return NULL;
}

TEST(tasks_that_come_and_go_are_seen_whole_or_not_at_all) {
    pthread_t threads[4];
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "short", do_done,
           LW_HANDLER_OPTIONS(.retention = {.finished_ms = LW_ZERO, .aborted_ms = LW_ZERO}));
    start(engine);
    for (int i = 0; i < 4; i++)
        threads[i] = start_thread(read_what_comes_and_goes, engine);
    for (long i = 0, rounds = test_scale(3000, 300000); i < rounds; i++) {
        char key[32];
        snprintf(key, sizeof key, "key-%ld", i);
        lw_id id = SUBMIT(engine, .kind = "short", .key = key, .payload = LW_TEXT(key));
        atomic_store(&newest, id);
        if (i % 3 == 0)
            lw_cancel(engine, id);
    }
    assert_status(lw_stop(engine, LW_DRAIN, FOREVER), LW_OK);
    atomic_store(&is_over, true);
    for (int i = 0; i < 4; i++)
        join_thread(threads[i]);
    close_engine(engine);
}
