/* Opening an engine, registering handlers and queues, and starting it. */
#include "engines.h"

#include <stdio.h>
#include <string.h>

static lw_engine *open_driven(void) {
    return OPEN_ENGINE(.workers = LW_ZERO);
}

/* ---- URLs ---------------------------------------------------------------------------------- */

static void assert_refused_url(const char *url, const char *word) {
    lw_error err = {0};
    lw_engine *engine = (lw_engine *)&err;
    assert_status(lw_open(&engine, url, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, word);
    assert_null(engine);
    assert_status(lw_open(&engine, url, NULL, NULL), LW_EINVAL);
}

TEST(a_url_that_is_nearly_right_gets_the_right_one_suggested) {
    assert_refused_url("memori:", "memory:");
    assert_refused_url("memory", "memory:");
    assert_refused_url("Memory:", "memory:");
}

TEST(a_url_that_nobody_knows_is_refused_with_what_was_seen) {
    assert_refused_url("carrier-pigeon:", "carrier-pigeon");
    assert_refused_url("", "memory:");
    assert_refused_url(":", "memory:");
    assert_refused_url("memory:tasks.db", "memory:");
}

TEST(a_url_of_a_store_that_is_not_here_gets_the_reason) {
    assert_refused_url("postgres://host/tasks", "PostgreSQL");
    assert_refused_url("postgresql://host/tasks", "PostgreSQL");
    assert_refused_url("mysql://host", "a URL begins with \"memory:\"");
}

TEST(a_url_of_any_length_is_refused_with_a_sentence) {
    char url[5000];
    memset(url, 'm', sizeof url);
    url[sizeof url - 1] = 0;
    assert_refused_url(url, "mmm");
    url[sizeof url - 2] = ':';
    assert_refused_url(url, "mmm");
}

TEST(a_url_that_a_terminal_cannot_show_is_refused_without_being_shown) {
    assert_refused_url("mem\nory:", "the URL \"mem\\x0aory:\" has the byte 0x0a at position 4");
    assert_refused_url("memory\x1b[2J", "\\x1b[2J");
    assert_refused_url("m\xff:", "begins no character of UTF-8");
    assert_refused_url("\n:", "\\x0a");
    assert_refused_url("memory:\n",
                       "the rest of the URL \"\\x0a\" has the byte 0x0a at position 1");
    /* A letter that would be torn where the URL is cut is left out. */
    assert_refused_url("a-url-that-has-sixty-three-bytes-before-its-only-letter-of-two-"
                       "\xc3\xa9:",
                       "of-two-\"");
}

TEST(an_engine_without_url_or_place_is_refused) {
    lw_error err = {0};
    lw_engine *engine;
    assert_refused_url(NULL, "URL");
    assert_status(lw_open(NULL, "memory:", NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "NULL");
    assert_status(lw_open(NULL, NULL, NULL, NULL), LW_EINVAL);
    assert_status(lw_open(&engine, "memory:", NULL, NULL), LW_OK);
    close_engine(engine);
}

/* ---- options ------------------------------------------------------------------------------- */

TEST(a_bad_option_is_named_with_the_value_seen) {
    static const lw_allocator no_function;
    const struct {
        lw_engine_options options;
        const char *word;
    } bad[] = {
        {{.workers = -1}, "workers is -1"},
        {{.workers = LW_WORKERS_MAX + 1}, "workers is 4097"},
        {{.stuck_max = -7}, "stuck_max is -7"},
        {{.task_limit = -1}, "task_limit is -1"},
        {{.task_limit = INT64_MAX}, "task_limit"},
        {{.byte_limit = -5}, "byte_limit is -5"},
        {{.reserve = -1}, "reserve is -1"},
        {{.submit_timeout_ms = INT64_MIN}, "submit_timeout_ms"},
        {{.overflow = (lw_overflow)17}, "overflow is 17"},
        {{.name = "a name that is too long"}, "a name that is too long"},
        {{.name = ""}, "name"},
        {{.allocator = &no_function}, "allocator"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        lw_engine_options o = bad[i].options;
        lw_error err = {0};
        lw_engine *engine = (lw_engine *)&err;
        o.struct_size = sizeof o;
        assert_status(lw_open(&engine, "memory:", &o, &err), LW_EINVAL);
        assert_sentence(&err, LW_EINVAL, bad[i].word);
        assert_null(engine);
    }
}

TEST(engines_live_beside_each_other) {
    lw_engine *one = open_driven(), *other = open_driven();
    handle(one, "mail", do_done, NULL);
    handle(other, "mail", do_fail, NULL);
    start(one);
    start(other);
    lw_id a = SUBMIT(one, .kind = "mail"), b = SUBMIT(other, .kind = "mail");
    assert_int_equal(lw_test_run(one), 1);
    assert_int_equal(lw_test_run(other), 1);
    assert_int_equal(state_of(one, a), LW_FINISHED);
    assert_int_equal(state_of(other, b), LW_FAILED);
    close_engine(one);
    close_engine(other);
}

TEST(an_engine_that_was_never_started_closes) {
    lw_test_memory *memory = open_memory();
    lw_engine *engine = OPEN_ENGINE(.allocator = lw_test_memory_allocator(memory));
    SUBMIT(engine, .kind = "mail", .payload = LW_TEXT("ann"), .key = "ann");
    close_engine(engine);
    close_memory(memory);
    close_engine(NULL);
}

/* ---- registration -------------------------------------------------------------------------- */

static void assert_start_says(lw_engine *engine, const char *word) {
    lw_error err = {0};
    assert_status(lw_start(engine, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, word);
    assert_status(lw_start(engine, NULL), LW_EINVAL);
    close_engine(engine);
}

TEST(a_start_tells_what_was_wrong_with_a_handler) {
    lw_engine *engine = open_driven();
    assert_status(lw_handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.concurrency = -3), NULL),
                  LW_EINVAL);
    assert_start_says(engine, "concurrency is -3");
}

TEST(a_registration_that_failed_says_why_by_itself) {
    lw_engine *engine = open_driven();
    lw_error err = {0};
    assert_status(lw_handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.concurrency = -3), &err),
                  LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "concurrency is -3");
    assert_status(lw_queue(engine, "slow", LW_QUEUE_OPTIONS(.weight = 1001), &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "weight is 1001");
    assert_status(lw_handle(NULL, "mail", do_done, NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "the engine is NULL");
    assert_status(lw_queue(NULL, "slow", NULL, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "the engine is NULL");
    close_engine(engine);
}

TEST(a_start_tells_of_the_first_registration_that_failed) {
    lw_engine *engine = open_driven();
    handle(engine, "mail", do_done, NULL);
    assert_status(lw_queue(engine, "slow", LW_QUEUE_OPTIONS(.weight = 1001), NULL), LW_EINVAL);
    assert_status(lw_handle(engine, "", do_done, NULL, NULL), LW_EINVAL);
    assert_status(lw_handle(engine, "mail", do_done, NULL, NULL), LW_EINVAL);
    assert_start_says(engine, "weight is 1001");
}

TEST(a_start_names_the_kind_that_was_registered_twice) {
    lw_engine *engine = open_driven();
    handle(engine, "mail", do_done, NULL);
    assert_status(lw_handle(engine, "mail", do_done, NULL, NULL), LW_EINVAL);
    assert_start_says(engine, "\"mail\"");
}

TEST(a_start_names_the_queue_that_was_declared_twice) {
    lw_engine *engine = open_driven();
    assert_status(lw_queue(engine, "slow", NULL, NULL), LW_OK);
    assert_status(lw_queue(engine, "slow", NULL, NULL), LW_EINVAL);
    assert_start_says(engine, "\"slow\"");
}

static void assert_bad_kind(const char *kind, const char *word) {
    lw_engine *engine = open_driven();
    assert_status(lw_handle(engine, kind, do_done, NULL, NULL), LW_EINVAL);
    assert_start_says(engine, word);
    engine = open_driven();
    assert_status(lw_queue(engine, kind, NULL, NULL), LW_EINVAL);
    assert_start_says(engine, word);
}

TEST(names_that_are_none_are_refused_and_told_at_the_start) {
    char long_name[LW_NAME_MAX + 2];
    memset(long_name, 'x', sizeof long_name);
    long_name[LW_NAME_MAX + 1] = 0;
    assert_bad_kind(NULL, "NULL");
    assert_bad_kind("", "0 bytes");
    assert_bad_kind(long_name, "64");
    assert_bad_kind("line\nbreak", "line");
    assert_bad_kind("bell\a", "bell");
}

TEST(names_may_be_as_long_as_the_limit_says) {
    char name[LW_NAME_MAX + 1];
    lw_snapshot s = LW_SNAPSHOT_INIT;
    memset(name, 'x', LW_NAME_MAX);
    name[LW_NAME_MAX] = 0;
    lw_engine *engine = open_driven();
    handle(engine, name, do_done, NULL);
    assert_status(lw_queue(engine, name, NULL, NULL), LW_OK);
    start(engine);
    lw_id id = SUBMIT(engine, .kind = name, .queue = name);
    assert_int_equal(lw_test_run(engine), 1);
    assert_status(lw_get(engine, id, &s), LW_OK);
    assert_string_equal(s.kind, name);
    assert_string_equal(s.queue, name);
    assert_int_equal(s.state, LW_FINISHED);
    lw_snapshot_clear(&s);
    close_engine(engine);
}

TEST(nothing_is_half_registered_by_a_refused_call) {
    lw_engine *engine = open_driven();
    lw_engine_stats stats;
    assert_status(lw_handle(engine, "bad kind\n", do_done, NULL, NULL), LW_EINVAL);
    assert_status(lw_handle(engine, "mail", do_done, LW_HANDLER_OPTIONS(.timeout_ms = -9), NULL),
                  LW_EINVAL);
    assert_status(lw_submit(engine, LW_TASK(.kind = "bad kind\n"), NULL, NULL), LW_EINVAL);
    assert_status(lw_get_stats(engine, &stats), LW_OK);
    assert_int_equal(stats.submitted_total, 0);
    assert_int_equal(stats.enqueued, 0);
    close_engine(engine);
}

/* ---- start --------------------------------------------------------------------------------- */

TEST(a_second_start_is_refused_and_changes_nothing) {
    lw_engine *engine = open_driven();
    lw_error err = {0};
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_status(lw_start(engine, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "started");
    assert_status(lw_start(engine, NULL), LW_EINVAL);
    lw_id id = SUBMIT(engine, .kind = "mail");
    assert_int_equal(lw_test_run(engine), 1);
    assert_int_equal(state_of(engine, id), LW_FINISHED);
    close_engine(engine);
}

TEST(a_second_start_leaves_the_workers_at_work) {
    lw_engine *engine = OPEN_ENGINE(.workers = 2);
    handle(engine, "mail", do_done, NULL);
    start(engine);
    assert_status(lw_start(engine, NULL), LW_EINVAL);
    for (int i = 0; i < 100; i++)
        assert_status(lw_wait(engine, SUBMIT(engine, .kind = "mail"), 200000, NULL), LW_OK);
    assert_status(lw_start(engine, NULL), LW_EINVAL);
    assert_status(lw_stop(engine, LW_DRAIN, 200000), LW_OK);
    close_engine(engine);
}

TEST(what_was_stopped_is_not_started) {
    const lw_stop_mode modes[] = {LW_DRAIN, LW_DROP, LW_DRAIN_ALL};
    for (int i = 0; i < 3; i++) {
        lw_engine *engine = OPEN_ENGINE(.workers = 1);
        lw_error err = {0};
        assert_status(lw_stop(engine, modes[i], -1), LW_OK);
        assert_status(lw_start(engine, &err), LW_ESTOPPING);
        assert_sentence(&err, LW_ESTOPPING, "stop");
        assert_status(lw_submit(engine, LW_TASK(.kind = "mail"), NULL, &err), LW_ESTOPPING);
        close_engine(engine);
    }
}

TEST(registrations_come_before_the_start) {
    lw_engine *engine = open_driven();
    start(engine);
    assert_status(lw_handle(engine, "mail", do_done, NULL, NULL), LW_EINVAL);
    assert_status(lw_queue(engine, "slow", NULL, NULL), LW_EINVAL);
    lw_id id = SUBMIT(engine, .kind = "mail", .queue = "slow");
    assert_int_equal(lw_test_run(engine), 0);
    assert_int_equal(state_of(engine, id), LW_ENQUEUED);
    close_engine(engine);
}

TEST(tasks_of_before_the_start_run_after_it) {
    for (int workers = 0; workers < 3; workers++) {
        lw_engine *engine = OPEN_ENGINE(.workers = workers ? workers : LW_ZERO);
        lw_id first = SUBMIT(engine, .kind = "mail");
        handle(engine, "mail", do_done, NULL);
        lw_id second = SUBMIT(engine, .kind = "mail");
        assert_int_equal(state_of(engine, first), LW_ENQUEUED);
        start(engine);
        if (workers == 0)
            assert_int_equal(lw_test_run(engine), 2);
        assert_status(lw_wait(engine, first, 200000, NULL), LW_OK);
        assert_status(lw_wait(engine, second, 200000, NULL), LW_OK);
        close_engine(engine);
    }
}

/* ---- starts and submits at once ------------------------------------------------------------ */

static void *submit_some(void *engine) {
    for (int i = 0; i < 200; i++)
        SUBMIT(engine, .kind = "mail");
    return NULL;
}

TEST(others_may_submit_while_it_starts) {
    for (int round = 0; round < 20; round++) {
        lw_engine *engine = OPEN_ENGINE(.workers = 2);
        lw_engine_stats stats;
        handle(engine, "mail", do_done, NULL);
        pthread_t thread = start_thread(submit_some, engine);
        start(engine);
        join_thread(thread);
        assert_status(lw_wait_idle(engine, 200000), LW_OK);
        assert_status(lw_get_stats(engine, &stats), LW_OK);
        assert_int_equal(stats.finished_total, 200);
        close_engine(engine);
    }
}
