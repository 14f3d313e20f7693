/* What a full queue does, the same on every store: refuse, wait, drop the oldest, run in the caller
 * where that can be; and the reserve, which retries do not need and successors have. */
#include "engines.h"

#include <stdio.h>
#include <sys/mman.h>

static struct tally runs = TALLY;

static lw_outcome do_count(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    tally_add(&runs, 1);
    return lw_done(ctx);
}

/* A worker waits at the gate, and its queue, of three, is full. */
struct full {
    lw_engine *engine;
    struct gate gate;
    lw_id waiting[2];
};

static void fill_up(struct full *full, const char *url, lw_overflow overflow, int64_t timeout_ms) {
    full->gate = (struct gate)GATE;
    runs = (struct tally)TALLY;
    full->engine = OPEN_ON(url, .workers = 1);
    handle(full->engine, "gate", do_gate, LW_HANDLER_OPTIONS(.user = &full->gate));
    handle(full->engine, "mail", do_count, NULL);
    lw_queue(full->engine, "narrow",
             LW_QUEUE_OPTIONS(.limit = 3, .byte_limit = 100, .submit_timeout_ms = timeout_ms,
                              .overflow = overflow == LW_BLOCK ? LW_ZERO : (int)overflow),
             NULL);
    start(full->engine);
    SUBMIT(full->engine, .kind = "gate", .queue = "narrow");
    tally_await(&full->gate.arrived, 1);
    for (int i = 0; i < 2; i++)
        full->waiting[i] = SUBMIT(full->engine, .kind = "mail", .queue = "narrow");
}

static void drain(struct full *full) {
    gate_open(&full->gate);
    assert_status(lw_stop(full->engine, LW_DRAIN, -1), LW_OK);
    close_engine(full->engine);
}

static int try_one(struct full *full, lw_error *err) {
    *err = (lw_error){0};
    return lw_submit(full->engine, LW_TASK(.kind = "mail", .queue = "narrow"), NULL, err);
}

static void never_called(void *user, int status, lw_id id) {
    (void)user, (void)status, (void)id;
    CHECK(!"called");
}

ENGINE_TEST(a_full_queue_refuses_and_others_go_on) {
    struct full full;
    lw_error err;
    fill_up(&full, url, LW_REFUSE, 0);
    assert_status(try_one(&full, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "narrow");
    assert_status(lw_submit_async(full.engine, LW_TASK(.kind = "mail", .queue = "narrow"),
                                  never_called, NULL, NULL),
                  LW_EFULL);
    SUBMIT(full.engine, .kind = "mail");
    drain(&full);
    assert_int_equal(tally_read(&runs), 3);
}

ENGINE_TEST(bytes_make_a_queue_full_too) {
    static const char bytes[200];
    lw_error err = {0};
    struct full full;
    fill_up(&full, url, LW_BLOCK, 0);
    const lw_task *task =
        LW_TASK(.kind = "mail", .queue = "narrow", .payload = {bytes, sizeof bytes});
    assert_status(lw_submit(full.engine, task, NULL, &err), LW_EFULL);
    assert_string_equal(
        err.message, "there is never room in queue \"narrow\": 0 bytes of payloads are there, and "
                     "200 more would be over its byte_limit of 100; raise that, or submit less");
    drain(&full);
}

/* ---- what a refusal says, and what it costs ------------------------------------------------ */

static lw_error refused(lw_engine *engine, const lw_task *task, int status) {
    lw_error err = {0};
    assert_status(lw_submit(engine, task, NULL, &err), status);
    assert_int_equal(err.status, status);
    return err;
}

ENGINE_TEST(a_refusal_names_the_limit_what_is_there_and_what_was_wanted) {
    static const char bytes[100];
    lw_engine *engine =
        OPEN_ON(url, .workers = 1, .task_limit = 3, .byte_limit = 150, .overflow = LW_REFUSE);
    assert_status(lw_queue(engine, "small", LW_QUEUE_OPTIONS(.limit = 1), NULL), LW_OK);
    start(engine);
    SUBMIT(engine, .kind = "mail", .payload = {bytes, 100});
    lw_error err = refused(engine, LW_TASK(.kind = "mail", .payload = {bytes, 60}), LW_EFULL);
    assert_string_equal(
        err.message, "there is no room in queue \"default\": 100 bytes of payloads are there, and "
                     "60 more would be over the engine's byte_limit of 150; try again later, or "
                     "raise that");
    SUBMIT(engine, .kind = "mail", .queue = "small");
    err = refused(engine, LW_TASK(.kind = "mail", .queue = "small"), LW_EFULL);
    assert_string_equal(
        err.message,
        "there is no room in queue \"small\": 1 tasks are unfinished, and 1 more would "
        "be over its limit of 1; try again later, or raise that");
    SUBMIT(engine, .kind = "mail");
    err = refused(engine, LW_TASK(.kind = "mail", .queue = "another"), LW_EFULL);
    assert_string_equal(
        err.message, "there is no room in queue \"another\": 3 tasks are unfinished, and 1 more "
                     "would be over the engine's task_limit of 3; try again later, or raise that");
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    close_engine(engine);
}

ENGINE_TEST(a_refusal_says_that_lw_start_is_missing) {
    lw_engine *engine = OPEN_ON(url, .workers = 1, .task_limit = 1, .submit_timeout_ms = 1);
    SUBMIT(engine, .kind = "mail");
    lw_error err = refused(engine, LW_TASK(.kind = "mail"), LW_ETIMEDOUT);
    assert_string_equal(
        err.message, "there was no room in queue \"default\" in the time given: 1 tasks are "
                     "unfinished, and 1 more would be over the engine's task_limit of 1; nothing "
                     "runs before lw_start, which was not called");
    assert_status(lw_queue(engine, "strict", LW_QUEUE_OPTIONS(.overflow = LW_REFUSE), NULL), LW_OK);
    err = refused(engine, LW_TASK(.kind = "mail", .queue = "strict"), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "lw_start");
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    close_engine(engine);
}

/* Pages that nobody may read: whoever copied them would die. */
ENGINE_TEST(a_large_payload_that_has_no_room_is_not_copied) {
    size_t size = LW_PAYLOAD_MAX;
    void *forbidden = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(forbidden != MAP_FAILED);
    lw_engine *engine = OPEN_ON(url, .workers = 1, .byte_limit = 1 << 20, .submit_timeout_ms = 1);
    const lw_task *large = LW_TASK(.kind = "mail", .payload = {forbidden, size});
    const lw_task *both[] = {LW_TASK(.kind = "mail"), large};
    refused(engine, large, LW_EFULL);
    assert_status(lw_submit_many(engine, both, 2, NULL, NULL), LW_EFULL);
    assert_status(lw_submit_async(engine, large, never_called, NULL, NULL), LW_EFULL);
    static const char filler[1 << 19];
    SUBMIT(engine, .kind = "mail", .payload = {filler, sizeof filler});
    refused(engine, LW_TASK(.kind = "mail", .payload = {forbidden, (1 << 19) + 1}), LW_ETIMEDOUT);
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    close_engine(engine);
    munmap(forbidden, size);
}

static char large_bytes[1 << 20];
static lw_outcome do_compare(lw_ctx *ctx, const lw_task *task) {
    assert_int_equal(task->payload.size, sizeof large_bytes);
    assert_memory_equal(task->payload.data, large_bytes, sizeof large_bytes);
    tally_add(&runs, 1);
    return lw_done(ctx);
}

ENGINE_TEST(large_payloads_arrive_whole_with_new_names_and_known_ones) {
    runs = (struct tally)TALLY;
    for (size_t i = 0; i < sizeof large_bytes; i++)
        large_bytes[i] = (char)(i * 7 + i / 251);
    lw_engine *engine = OPEN_ON(url, .workers = 1);
    handle(engine, "compare", do_compare, NULL);
    start(engine);
    const lw_bytes payload = {large_bytes, sizeof large_bytes};
    const lw_task *both[] = {LW_TASK(.kind = "compare", .payload = payload, .key = "a"),
                             LW_TASK(.kind = "compare", .payload = payload, .queue = "new")};
    assert_status(lw_submit_many(engine, both, 2, NULL, NULL), LW_OK);
    SUBMIT(engine, .kind = "compare", .payload = payload);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
    assert_int_equal(tally_read(&runs), 3);
}

ENGINE_TEST(a_full_queue_is_waited_for_until_the_deadline) {
    struct full full;
    lw_error err;
    fill_up(&full, url, LW_BLOCK, 20);
    assert_status(try_one(&full, &err), LW_ETIMEDOUT);
    assert_sentence(&err, LW_ETIMEDOUT, "narrow");
    drain(&full);
    assert_int_equal(tally_read(&runs), 2);
}

static void *submit_one(void *arg) {
    struct full *full = arg;
    lw_error err;
    assert_status(try_one(full, &err), LW_OK);
    return NULL;
}

ENGINE_TEST(a_submitter_that_waits_goes_on_when_there_is_room) {
    struct full full;
    fill_up(&full, url, LW_BLOCK, -1);
    pthread_t thread = start_thread(submit_one, &full);
    gate_open(&full.gate);
    join_thread(thread);
    drain(&full);
    assert_int_equal(tally_read(&runs), 3);
}

ENGINE_TEST(the_oldest_makes_room_for_the_newest) {
    struct full full;
    lw_error err;
    fill_up(&full, url, LW_DROP_OLDEST, 0);
    assert_status(try_one(&full, &err), LW_OK);
    assert_int_equal(state_of(full.engine, full.waiting[0]), LW_ABORTED);
    assert_int_equal(state_of(full.engine, full.waiting[1]), LW_ENQUEUED);
    drain(&full);
    assert_int_equal(tally_read(&runs), 2);
}

static uint64_t aborted(const struct full *full) {
    lw_engine_stats stats;
    assert_status(lw_get_stats(full->engine, &stats), LW_OK);
    return stats.aborted_total;
}

/* What runs cannot be dropped: three have no room, whatever goes. */
ENGINE_TEST(nothing_is_dropped_in_vain) {
    struct full full;
    lw_error err = {0};
    fill_up(&full, url, LW_DROP_OLDEST, 0);
    const lw_task *task = LW_TASK(.kind = "mail", .queue = "narrow"), *tasks[] = {task, task, task};
    assert_status(lw_submit_many(full.engine, tasks, 3, NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "narrow");
    assert_int_equal(aborted(&full), 0);
    assert_status(lw_submit_many(full.engine, tasks, 2, NULL, &err), LW_OK);
    assert_int_equal(aborted(&full), 2);
    drain(&full);
    assert_int_equal(tally_read(&runs), 2);
}

ENGINE_TEST(nothing_is_dropped_for_a_task_that_is_wrong) {
    struct full full;
    lw_id never = 4711;
    fill_up(&full, url, LW_DROP_OLDEST, 0);
    const lw_task *task =
        LW_TASK(.kind = "mail", .queue = "narrow", .after = &never, .after_count = 1);
    assert_status(lw_submit(full.engine, task, NULL, NULL), LW_EINVAL);
    assert_int_equal(aborted(&full), 0);
    drain(&full);
    assert_int_equal(tally_read(&runs), 2);
}

/* On disk the caller would have to wait for the disk twice, and a crash of it would be a crash of
 * the task: it waits for room. */
ENGINE_TEST(a_caller_runs_it_in_memory_and_waits_where_it_has_to_be_durable) {
    struct full full;
    lw_error err;
    fill_up(&full, url, LW_CALLER_RUNS, 20);
    assert_status(try_one(&full, &err), is_durable_url(url) ? LW_ETIMEDOUT : LW_OK);
    assert_int_equal(tally_read(&runs), is_durable_url(url) ? 0 : 1);
    drain(&full);
    assert_int_equal(tally_read(&runs), is_durable_url(url) ? 2 : 3);
}

/* ---- the reserve -------------------------------------------------------------------------- */

static lw_outcome do_retry_twice(lw_ctx *ctx, const lw_task *task) {
    return task->attempt < 3 ? lw_retry(ctx, "again") : lw_done(ctx);
}

static lw_outcome do_then(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    assert_status(lw_then(ctx, LW_TASK(.kind = "mail"), NULL), LW_OK);
    return lw_done(ctx);
}

static lw_outcome do_submit(lw_ctx *ctx, const lw_task *task) {
    lw_engine *engine = lw_ctx_user(ctx);
    (void)task;
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_OK);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_EFULL);
    return lw_done(ctx);
}

ENGINE_TEST(retries_keep_their_place_and_successors_have_a_reserve) {
    runs = (struct tally)TALLY;
    lw_engine *engine =
        OPEN_ON(url, .workers = 1, .task_limit = 4, .reserve = 1, .overflow = LW_REFUSE);
    handle(engine, "retry", do_retry_twice, LW_HANDLER_OPTIONS(.retry = {.min_ms = LW_ZERO}));
    handle(engine, "then", do_then, NULL);
    handle(engine, "submit", do_submit, LW_HANDLER_OPTIONS(.user = engine));
    handle(engine, "mail", do_count, NULL);
    lw_id retried = SUBMIT(engine, .kind = "retry");
    SUBMIT(engine, .kind = "submit", .priority = 1); /* the first: all is full, but the reserve */
    SUBMIT(engine, .kind = "then");
    SUBMIT(engine, .kind = "later", .delay_ms = 3600000);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_EFULL);
    start(engine);
    tally_await(&runs, 2);
    assert_status(lw_wait(engine, retried, -1, NULL), LW_OK);
    assert_int_equal(state_of(engine, retried), LW_FINISHED);
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    close_engine(engine);
}

ENGINE_TEST(room_is_counted_again_after_a_restart) {
    if (!is_durable_url(url))
        return;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .task_limit = 3, .overflow = LW_REFUSE);
    for (int i = 0; i < 3; i++)
        SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("x"));
    close_engine(engine);
    engine = OPEN_ON(url, .workers = 1, .task_limit = 3, .overflow = LW_REFUSE);
    assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL), LW_EFULL);
    runs = (struct tally)TALLY;
    handle(engine, "mail", do_count, NULL);
    start(engine);
    tally_await(&runs, 3);
    await_that(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, NULL) == LW_OK);
    close_engine(engine);
}
