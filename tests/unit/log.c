/* Records reach the program's own log, bounded and escaped, or nobody. */
#include "test.h"

#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A log that keeps a copy of the last record. */
struct keeper {
    int count;
    lw_log_record record;
    char keys[LW_LOG_FIELDS_MAX][32];
    char values[LW_LOG_FIELDS_MAX][LW__LOG_VALUE_MAX];
};

static void keep(void *user, const lw_log_record *record) {
    struct keeper *keeper = user;
    keeper->count++;
    keeper->record = *record;
    for (size_t i = 0; i < record->field_count; i++) {
        snprintf(keeper->keys[i], sizeof keeper->keys[i], "%s", record->fields[i].key);
        snprintf(keeper->values[i], sizeof keeper->values[i], "%s", record->fields[i].value);
    }
    errno = EDOM;
}

TEST(a_record_carries_level_component_message_and_fields) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper};
    lw__log(&log, LW_LOG_WARN, "pool", "task is stuck", LW__FIELD_U64("worker", UINT64_MAX),
            LW__FIELD_I64("late_ms", INT64_MIN), LW__FIELD_TEXT("pool", "mail"),
            LW__FIELD_TEXT("task", NULL), LW__FIELD_STATUS("status", LW_ETIMEDOUT));
    assert_int_equal(keeper.count, 1);
    assert_int_equal(keeper.record.level, LW_LOG_WARN);
    assert_string_equal(keeper.record.component, "pool");
    assert_string_equal(keeper.record.message, "task is stuck");
    assert_int_equal(keeper.record.field_count, 5);
    assert_string_equal(keeper.keys[0], "worker");
    assert_string_equal(keeper.values[0], "18446744073709551615");
    assert_string_equal(keeper.values[1], "-9223372036854775808");
    assert_string_equal(keeper.values[2], "mail");
    assert_string_equal(keeper.values[3], "(none)");
    assert_string_equal(keeper.keys[4], "status");
    assert_string_equal(keeper.values[4], "LW_ETIMEDOUT");
}

TEST(a_record_has_from_no_fields_to_the_most_there_may_be) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper};
    lw__log(&log, LW_LOG_INFO, "pool", "opened");
    assert_int_equal(keeper.record.field_count, 0);
    lw__log(&log, LW_LOG_INFO, "pool", "opened", LW__FIELD_U64("1", 1), LW__FIELD_U64("2", 2),
            LW__FIELD_U64("3", 3), LW__FIELD_U64("4", 4), LW__FIELD_U64("5", 5),
            LW__FIELD_U64("6", 6), LW__FIELD_U64("7", 7), LW__FIELD_U64("8", 8));
    assert_int_equal(keeper.record.field_count, LW_LOG_FIELDS_MAX);
    assert_string_equal(keeper.values[7], "8");
}

TEST(no_log_is_silent) {
    lw__log(NULL, LW_LOG_ERROR, "pool", "nobody reads this");
    lw_log log = {.write = NULL};
    lw__log(&log, LW_LOG_ERROR, "pool", "nobody reads this");
}

static int count_call(int *calls) {
    return ++*calls;
}

TEST(records_below_the_level_are_neither_written_nor_evaluated) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper}; /* level 0 is info */
    int evaluated = 0;
    lw__log(&log, LW_LOG_DEBUG, "pool", "x", LW__FIELD_I64("n", count_call(&evaluated)));
    assert_int_equal(keeper.count, 0);
    assert_int_equal(evaluated, 0);
    lw__log(&log, LW_LOG_INFO, "pool", "x", LW__FIELD_I64("n", count_call(&evaluated)));
    assert_int_equal(keeper.count, 1);
    assert_int_equal(evaluated, 1);
    log.level = LW_LOG_ERROR;
    lw__log(&log, LW_LOG_WARN, "pool", "x");
    assert_int_equal(keeper.count, 1);
    log.level = LW_LOG_DEBUG;
    lw__log(&log, LW_LOG_DEBUG, "pool", "x");
    assert_int_equal(keeper.count, 2);
}

TEST(logging_leaves_errno_alone) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper};
    errno = ENOENT;
    lw__log(&log, LW_LOG_INFO, "pool", "x");
    assert_int_equal(errno, ENOENT);
}

TEST(a_value_that_is_too_long_is_cut_visibly) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper};
    char text[1000];
    memset(text, 'x', sizeof text);

    text[LW__LOG_VALUE_MAX - 1] = '\0';
    lw__log(&log, LW_LOG_INFO, "pool", "x", LW__FIELD_TEXT("name", text));
    assert_string_equal(keeper.values[0], text);

    text[LW__LOG_VALUE_MAX - 1] = 'x';
    text[sizeof text - 1] = '\0';
    lw__log(&log, LW_LOG_INFO, "pool", "x", LW__FIELD_TEXT("name", text));
    assert_int_equal(strlen(keeper.values[0]), LW__LOG_VALUE_MAX - 1);
    assert_string_equal(keeper.values[0] + LW__LOG_VALUE_MAX - 5, "x...");
}

TEST(a_value_is_not_cut_in_the_middle_of_a_character) {
    struct keeper keeper = {0};
    lw_log log = {.write = keep, .user = &keeper};
    for (size_t shift = 0; shift < 3; shift++) {
        char text[1024] = "ab";
        for (size_t at = shift; at + 4 < sizeof text; at += 3)
            memcpy(text + at, "\u20ac", 4);
        lw__log(&log, LW_LOG_INFO, "pool", "x", LW__FIELD_TEXT("name", text));
        size_t kept = strlen(keeper.values[0]) - strlen("...");
        assert_int_equal((kept - shift) % 3, 0);
        assert_true(kept > LW__LOG_VALUE_MAX - 8);
    }
}

TEST(an_error_message_fits_into_a_value) {
    assert_true(LW_ERROR_MESSAGE_MAX <= LW__LOG_VALUE_MAX);
}

TEST(levels_have_names) {
    assert_string_equal(lw_log_level_name(LW_LOG_DEBUG), "debug");
    assert_string_equal(lw_log_level_name(LW_LOG_INFO), "info");
    assert_string_equal(lw_log_level_name(LW_LOG_WARN), "warn");
    assert_string_equal(lw_log_level_name(LW_LOG_ERROR), "error");
    assert_string_equal(lw_log_level_name((lw_log_level)0), "unknown");
}

/* ---- lw_log_print ---- */

/* Prints one record with one field and compares the line. */
static void assert_printed(const char *value, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    lw_log log = {.write = lw_log_print, .user = file};
    lw__log(&log, LW_LOG_WARN, "pool", "it happened", LW__FIELD_TEXT("key", value));
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
}

TEST(a_plain_value_is_printed_as_it_is) {
    assert_printed("mail-7", "warn pool: it happened key=mail-7\n");
    assert_printed("gr\u00fc\u00dfe\u20ac\U0001f600",
                   "warn pool: it happened key=gr\u00fc\u00dfe\u20ac\U0001f600\n");
}

TEST(a_value_with_spaces_or_nothing_in_it_is_quoted) {
    assert_printed("two words", "warn pool: it happened key=\"two words\"\n");
    assert_printed("", "warn pool: it happened key=\"\"\n");
    assert_printed("a=b", "warn pool: it happened key=\"a=b\"\n");
    assert_printed("say \"a\\b\"", "warn pool: it happened key=\"say \\\"a\\\\b\\\"\"\n");
}

TEST(a_value_cannot_forge_a_line_or_move_the_cursor) {
    assert_printed("x\nerror pool: all is lost",
                   "warn pool: it happened key=\"x\\nerror pool: all is lost\"\n");
    assert_printed("\r\t\x1b[2J\x7f", "warn pool: it happened key=\"\\r\\t\\x1b[2J\\x7f\"\n");
    assert_printed("\xc2\x9b"
                   "2J",
                   "warn pool: it happened key=\"\\xc2\\x9b2J\"\n");
    assert_printed("\xe2\x80\xaetxt", /* right to left from here on */
                   "warn pool: it happened key=\"\\xe2\\x80\\xaetxt\"\n");
    assert_printed("caf\xc3\xa9", "warn pool: it happened key=caf\xc3\xa9\n");
}

TEST(what_is_not_utf8_is_escaped_byte_by_byte) {
    assert_printed("\xff", "warn pool: it happened key=\"\\xff\"\n");
    assert_printed("a\x9b", "warn pool: it happened key=\"a\\x9b\"\n");
    assert_printed("\xe2\x82", "warn pool: it happened key=\"\\xe2\\x82\"\n"); /* cut short */
    assert_printed("\xc3", "warn pool: it happened key=\"\\xc3\"\n");
    assert_printed("\xc3(", "warn pool: it happened key=\"\\xc3(\"\n");
}

TEST(a_line_that_is_too_long_is_cut_visibly) {
    static char value[3000];
    char *text = NULL;
    size_t size = 0;
    memset(value, '\n', sizeof value - 1);
    FILE *file = open_memstream(&text, &size);
    lw_log_field fields[] = {{"one", value}, {"two", value}};
    lw_log_print(file, &(lw_log_record){
                           .level = LW_LOG_INFO,
                           .component = "pool",
                           .message = "x",
                           .fields = fields,
                           .field_count = 2,
                       });
    fclose(file);
    assert_in_range(size, 4000, 4096);
    assert_string_equal(text + size - 6, "\\n...\n");
    assert_ptr_equal(strchr(text, '\n'), text + size - 1);
    free(text);
}

static void *print_many(void *file) {
    lw_log log = {.write = lw_log_print, .user = file};
    for (int i = 0; i < 200; i++)
        lw__log(&log, LW_LOG_INFO, "pool", "a line", LW__FIELD_TEXT("tail", "0123456789"));
    return NULL;
}

TEST(lines_of_several_threads_do_not_mix) {
    FILE *file = fopen("log", "w+");
    pthread_t threads[4];
    char line[200];
    int count = 0;
    assert_non_null(file);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, print_many, file), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    rewind(file);
    for (; fgets(line, sizeof line, file) != NULL; count++)
        assert_string_equal(line, "info pool: a line tail=0123456789\n");
    assert_int_equal(count, 800);
    fclose(file);
}
