/* Kinds and queues come into being with the first task that is accepted for them, and with no task
 * that is not; and a kind without a handler is for tasks that wait for one, or for functions. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

static bool see_kind(void *user, const lw_kind_stats *kind) {
    (void)user, (void)kind;
    return true;
}

static bool see_queue(void *user, const lw_queue_stats *queue) {
    (void)user, (void)queue;
    return true;
}

/* The kind "mail" and the queue "default" are there anyway. */
static void assert_no_names(lw_engine *engine) {
    assert_int_equal(lw_list_kinds(engine, see_kind, NULL), 1);
    assert_int_equal(lw_list_queues(engine, see_queue, NULL), 1);
}

static int try_submit(lw_engine *engine, const lw_task *task, const char *sentence) {
    lw_error err = {0};
    int rc = lw_submit(engine, task, NULL, &err);
    assert_sentence(&err, rc, sentence);
    return rc;
}

static lw_engine *open_taken(const char *url, lw_overflow overflow) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .task_limit = 1, .overflow = overflow,
                                .submit_timeout_ms = LW_ZERO);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    return engine;
}

ENGINE_TEST(a_task_that_is_wrong_brings_no_kind_and_no_queue) {
    lw_id never = 4711;
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_status(try_submit(engine, LW_TASK(.kind = "a", .queue = ""), "queue"), LW_EINVAL);
    assert_status(try_submit(engine, LW_TASK(.kind = "", .queue = "q"), "kind"), LW_EINVAL);
    assert_status(try_submit(engine, LW_TASK(.kind = "a", .key = "\x01"), "key"), LW_EINVAL);
    assert_status(
        try_submit(engine, LW_TASK(.kind = "a", .key = "k", .key_scope = LW_KEY_WINDOW), "window"),
        LW_EINVAL);
    const lw_task *late = LW_TASK(.kind = "a", .queue = "q", .after = &never, .after_count = 1);
    assert_status(try_submit(engine, late, "never been there"), LW_EINVAL);
    const lw_task *many[] = {LW_TASK(.kind = "a", .queue = "q"), LW_TASK(.kind = "b"), late};
    lw_error err = {0};
    assert_status(lw_submit_many(engine, many, 3, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "3 of 3");
    assert_no_names(engine);
    assert_status(lw_submit_many(engine, many, 2, NULL, &err), LW_OK);
    assert_int_equal(lw_list_kinds(engine, see_kind, NULL), 3);
    assert_int_equal(lw_list_queues(engine, see_queue, NULL), 2);
    close_engine(engine);
}

static void refuse_for_room(const char *url, lw_overflow overflow, int status) {
    lw_engine *engine = open_taken(url, overflow);
    assert_status(try_submit(engine, LW_TASK(.kind = "a"), "\"default\""), status);
    assert_status(try_submit(engine, LW_TASK(.kind = "a", .queue = "q"), "\"q\""), status);
    assert_status(try_submit(engine, LW_TASK(.kind = "mail", .queue = "q", .key = "k"), ""),
                  status);
    assert_no_names(engine);
    assert_int_equal(state_of(engine, 1), LW_SCHEDULED);
    assert_status(lw_cancel(engine, 1), LW_OK);
    SUBMIT(engine, .kind = "a", .queue = "q");
    lw_stop(engine, LW_DROP, 0);
    assert_status(lw_submit(engine, LW_TASK(.kind = "b"), NULL, NULL), LW_ESTOPPING);
    assert_int_equal(lw_list_kinds(engine, see_kind, NULL), 2);
    close_engine(engine);
}

ENGINE_TEST(a_task_without_room_brings_no_kind_and_no_queue) {
    refuse_for_room(url, LW_REFUSE, LW_EFULL);
}

ENGINE_TEST(a_task_that_has_waited_in_vain_brings_no_kind_and_no_queue) {
    refuse_for_room(url, LW_BLOCK, LW_ETIMEDOUT);
}

ENGINE_TEST(a_task_that_its_caller_cannot_run_brings_no_kind_and_no_queue) {
    refuse_for_room(url, LW_CALLER_RUNS, LW_ETIMEDOUT);
}

ENGINE_TEST(a_task_that_could_drop_nothing_brings_no_kind_and_no_queue) {
    refuse_for_room(url, LW_DROP_OLDEST, LW_EFULL);
}

TEST(refused_tasks_do_not_use_up_the_kinds) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .kind_count_max = 10);
    char name[16];
    for (int i = 0; i < 11; i++) {
        snprintf(name, sizeof name, "k%d", i);
        assert_status(lw_submit(engine, LW_TASK(.kind = name, .queue = ""), NULL, NULL), LW_EINVAL);
    }
    SUBMIT(engine, .kind = "good");
    close_engine(engine);
}

TEST(a_key_of_a_new_kind_and_queue_is_kept_from_the_first_task_on) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    lw_id id = SUBMIT(engine, .kind = "a", .queue = "q", .key = "k"), other = 0;
    assert_status(lw_submit(engine, LW_TASK(.kind = "a", .key = "k"), &other, NULL), LW_EXISTS);
    assert_int_equal(other, id);
    SUBMIT(engine, .kind = "b", .key = "k");
    close_engine(engine);
}

/* A new kind makes the first of the queue go, as others do. */
ENGINE_TEST(a_new_kind_may_drop_the_oldest) {
    lw_engine *engine =
        OPEN_ON(url, .workers = LW_ZERO, .task_limit = 1, .overflow = LW_DROP_OLDEST);
    lw_id old = SUBMIT(engine, .kind = "a");
    SUBMIT(engine, .kind = "b");
    assert_int_equal(state_of(engine, old), LW_ABORTED);
    assert_status(lw_submit(engine, LW_TASK(.kind = "b", .queue = "q"), NULL, NULL), LW_EFULL);
    close_engine(engine);
}

/* ---- how many ------------------------------------------------------------------------------ */

/* The default policy waits for room. There is none to wait for. */
ENGINE_TEST(a_name_too_many_is_refused_at_once_and_the_others_go_on) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .kind_count_max = 3, .queue_count_max = 2);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "a", .queue = "q");
    SUBMIT(engine, .kind = "b");
    assert_status(try_submit(engine, LW_TASK(.kind = "c"), "3 are known"), LW_EFULL);
    assert_status(try_submit(engine, LW_TASK(.kind = "a", .queue = "r"), "queue \"r\""), LW_EFULL);
    assert_status(try_submit(engine, LW_TASK(.kind = "a", .queue = "r"), "queues-max"), LW_EFULL);
    const lw_task *many[] = {LW_TASK(.kind = "mail"), LW_TASK(.kind = "mail", .queue = "r")};
    lw_error err = {0};
    assert_status(lw_submit_many(engine, many, 2, NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "2 of 2");
    assert_int_equal(lw_list_kinds(engine, see_kind, NULL), 3);
    assert_int_equal(lw_list_queues(engine, see_queue, NULL), 2);
    lw_id id = SUBMIT(engine, .kind = "mail", .queue = "q");
    lw_test_run(engine);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(a_declaration_too_many_is_refused_with_the_limit) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO, .kind_count_max = 1, .queue_count_max = 2);
    lw_error err = {0};
    assert_status(lw_queue(engine, "a", NULL, &err), LW_OK);
    assert_status(lw_queue(engine, "b", NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "2 are known");
    assert_status(lw_handle(engine, "a", do_done, NULL, &err), LW_OK);
    assert_status(lw_handle(engine, "b", do_done, NULL, &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "1 are known");
    assert_status(lw_start(engine, &err), LW_EFULL);
    close_engine(engine);
}

static lw_outcome do_then_new(lw_ctx *ctx, const lw_task *task) {
    (void)task;
    lw_error err = {0};
    assert_status(lw_then(ctx, LW_TASK(.kind = "mail", .queue = "new"), &err), LW_EFULL);
    assert_sentence(&err, LW_EFULL, "1 are known");
    assert_status(lw_submit(lw_ctx_user(ctx), LW_TASK(.kind = "new"), NULL, &err), LW_EFULL);
    return lw_done(ctx);
}

ENGINE_TEST(a_handler_that_brings_a_name_too_many_is_told) {
    lw_engine *engine = OPEN_ON(url, .workers = LW_ZERO, .kind_count_max = 1, .queue_count_max = 1);
    handle(engine, "mail", do_then_new, LW_HANDLER_OPTIONS(.user = engine));
    start(engine);
    lw_id id = SUBMIT(engine, .kind = "mail");
    lw_test_run(engine);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

/* The numbers of names fill 16 bits: the first and the last are as good as any. */
TEST(an_engine_knows_as_many_kinds_and_queues_as_there_can_be) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    char kind[16], queue[16];
    handle(engine, "kind-1", do_done, NULL);
    handle(engine, "kind-65536", do_done, NULL);
    start(engine);
    for (int i = 2; i < LW_KINDS_MAX; i++) {
        snprintf(kind, sizeof kind, "kind-%d", i);
        snprintf(queue, sizeof queue, "queue-%d", i);
        SUBMIT(engine, .kind = kind, .queue = queue);
    }
    SUBMIT(engine, .kind = "kind-1", .queue = "queue-1");
    lw_id id = SUBMIT(engine, .kind = "kind-65536", .queue = "queue-1", .key = "k"), again = 0;
    assert_status(try_submit(engine, LW_TASK(.kind = "kind-0"), "65536 are known"), LW_EFULL);
    assert_status(try_submit(engine, LW_TASK(.kind = "kind-1", .queue = "queue-0"), "65536"),
                  LW_EFULL);
    assert_status(lw_submit(engine, LW_TASK(.kind = "kind-65536", .key = "k"), &again, NULL),
                  LW_EXISTS);
    assert_int_equal(again, id);
    assert_int_equal(lw_list_kinds(engine, see_kind, NULL), LW_KINDS_MAX);
    assert_int_equal(lw_list_queues(engine, see_queue, NULL), LW_QUEUES_MAX);
    assert_int_equal(lw_test_run(engine), 2);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    for (int i = 2; i < LW_KINDS_MAX; i += 4095) { /* each is found by its name */
        lw_snapshot s = LW_SNAPSHOT_INIT;
        assert_status(lw_get(engine, (lw_id)(i - 1), &s), LW_OK);
        snprintf(kind, sizeof kind, "kind-%d", i);
        snprintf(queue, sizeof queue, "queue-%d", i);
        assert_string_equal(s.kind, kind);
        assert_string_equal(s.queue, queue);
        lw_snapshot_clear(&s);
        assert_status(lw_pause(engine, queue), LW_OK);
    }
    close_engine(engine);
}

/* ---- waiting, or with a function ----------------------------------------------------------- */

static void assert_waits(lw_engine *engine) {
    lw_id id = SUBMIT(engine, .kind = "x");
    assert_status(try_submit(engine, LW_TASK(.kind = "x", .run = do_done), "wait for a handler"),
                  LW_EINVAL);
    lw_test_run(engine);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    close_engine(engine);
}

TEST(a_plain_task_of_a_kind_without_a_handler_waits_for_one) {
    lw_engine *engine = OPEN_ENGINE(.workers = LW_ZERO);
    start(engine);
    assert_waits(engine);
    engine = OPEN_ENGINE(.workers = LW_ZERO);
    handle(engine, "x", NULL, LW_HANDLER_OPTIONS(.timeout_ms = 1000));
    start(engine);
    assert_waits(engine);
    engine = OPEN_ENGINE(.workers = LW_ZERO);
    start(engine);
    assert_status(lw_submit(engine, LW_TASK(.kind = "x", .queue = ""), NULL, NULL), LW_EINVAL);
    assert_waits(engine);
}

/* What was refused has not decided what the kind is for. */
TEST(a_function_that_is_refused_leaves_its_kind_to_others) {
    lw_engine *engine = open_taken("memory:", LW_REFUSE);
    lw_cancel(engine, 1);
    SUBMIT(engine, .kind = "mail", .delay_ms = 100000);
    assert_status(lw_submit(engine, LW_TASK(.kind = "x", .run = do_done), NULL, NULL), LW_EFULL);
    lw_cancel(engine, 2);
    assert_waits(engine);
}

TEST(a_caller_runs_the_first_function_of_a_kind) {
    lw_engine *engine = open_taken("memory:", LW_CALLER_RUNS);
    lw_id id = SUBMIT(engine, .kind = "x", .queue = "q", .run = do_done);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}
