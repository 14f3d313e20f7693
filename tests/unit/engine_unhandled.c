/* Kinds that have tasks and no handler: the log is told of each, once. */
#include "engines.h"

#include <legwork/testing.h>
#include <stdio.h>
#include <string.h>

enum { LINES_MAX = 128 };
static int line_count;
static char lines[LINES_MAX][256];

static void keep_line(void *user, const lw_log_record *record) {
    (void)user;
    if (strstr(record->message, "handler") == NULL || line_count == LINES_MAX)
        return;
    char *text = lines[line_count++];
    size_t at = (size_t)snprintf(text, sizeof *lines, "%s:", lw_log_level_name(record->level));
    for (size_t i = 0; i < record->field_count; i++) {
        if (strcmp(record->fields[i].key, "engine") != 0)
            at += (size_t)snprintf(text + at, sizeof *lines - at, " %s=%s", record->fields[i].key,
                                   record->fields[i].value);
    }
}

static const lw_log line_log = {.write = keep_line};

static lw_engine *open_logged(const char *url) {
    line_count = 0;
    return OPEN_ON(url, .workers = LW_ZERO, .log = &line_log);
}

static void assert_lines(const char *const *expected, int count) {
    for (int i = 0; i < count && i < line_count; i++)
        assert_string_equal(lines[i], expected[i]);
    assert_int_equal(line_count, count);
}

#define ASSERT_LINES(...)                            \
    assert_lines((const char *const[]){__VA_ARGS__}, \
                 (int)(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *)))

static void end(lw_engine *engine) {
    assert_status(lw_stop(engine, LW_DROP, -1), LW_OK);
    close_engine(engine);
}

ENGINE_TEST(a_kind_without_a_handler_is_told_once_with_the_nearest_name) {
    lw_engine *engine = open_logged(url);
    handle(engine, "send-mail", do_done, NULL);
    start(engine);
    for (int i = 0; i < 3; i++) {
        SUBMIT(engine, .kind = "send-mial");
        SUBMIT(engine, .kind = "quite-another");
        SUBMIT(engine, .kind = "send-mail");
        assert_true(lw_test_run(engine) >= 0);
    }
    ASSERT_LINES("warn: kind=send-mial did_you_mean=send-mail", "info: kind=quite-another");
    end(engine);
}

ENGINE_TEST(what_came_before_the_start_is_told_at_the_start) {
    lw_engine *engine = open_logged(url);
    SUBMIT(engine, .kind = "late");
    SUBMIT(engine, .kind = "lost");
    assert_int_equal(line_count, 0);
    handle(engine, "late", do_done, NULL);
    start(engine);
    ASSERT_LINES("info: kind=lost");
    assert_true(lw_test_run(engine) >= 0);
    assert_int_equal(line_count, 1);
    end(engine);
}

ENGINE_TEST(what_a_file_has_kept_is_told_at_the_start) {
    if (!is_durable_url(url))
        return;
    lw_engine *engine = open_logged(url);
    SUBMIT(engine, .kind = "renamed");
    end(engine);
    engine = open_logged(url);
    handle(engine, "rename", do_done, NULL);
    start(engine);
    ASSERT_LINES("warn: kind=renamed did_you_mean=rename");
    SUBMIT(engine, .kind = "renamed");
    assert_true(lw_test_run(engine) >= 0);
    assert_int_equal(line_count, 1);
    end(engine);
}

ENGINE_TEST(a_kind_that_is_declared_without_a_handler_is_not_told) {
    lw_engine *engine = open_logged(url);
    handle(engine, "mail", do_done, NULL);
    handle(engine, "mails", NULL, LW_HANDLER_OPTIONS(.concurrency = 3)); /* others claim it */
    start(engine);
    SUBMIT(engine, .kind = "mails");
    assert_true(lw_test_run(engine) >= 0);
    assert_int_equal(line_count, 0);
    end(engine);
}

ENGINE_TEST(without_any_handler_one_line_stands_for_all_kinds) {
    lw_engine *engine = open_logged(url);
    start(engine);
    SUBMIT(engine, .kind = "mail");
    SUBMIT(engine, .kind = "report");
    assert_true(lw_test_run(engine) >= 0);
    ASSERT_LINES("info: kind=mail");
    end(engine);
}

TEST(of_very_many_kinds_the_first_are_told) {
    lw_engine *engine = open_logged("memory:");
    handle(engine, "mail", do_done, NULL);
    start(engine);
    for (int i = 0; i < 200; i++) {
        char kind[32];
        snprintf(kind, sizeof kind, "quite-another-%d", i);
        SUBMIT(engine, .kind = kind);
        assert_true(lw_test_run(engine) >= 0);
    }
    assert_int_equal(line_count, 65);
    assert_string_equal(lines[63], "info: kind=quite-another-63");
    assert_string_equal(lines[64], "info: told=64");
    end(engine);
}

/* With workers the scheduler tells, which is woken for it. */
static struct tally told = TALLY;
static void count_line(void *user, const lw_log_record *record) {
    (void)user;
    if (strstr(record->message, "handler"))
        tally_add(&told, 1);
}

ENGINE_TEST(an_engine_with_workers_tells_at_once) {
    told = (struct tally)TALLY;
    lw_engine *engine = OPEN_ON(url, .workers = 1, .log = &(const lw_log){.write = count_line});
    handle(engine, "mail", do_done, NULL);
    start(engine);
    SUBMIT(engine, .kind = "mial");
    tally_await(&told, 1);
    end(engine);
}
