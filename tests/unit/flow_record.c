/* The record of a resource: written and read; the largest one; damaged ones. */
#include "test.h"

#include "flow/flow_internal.h"

#include <stdio.h>
#include <stdlib.h>

static char buffer[LW__SCOPE_BYTES_MAX];

static void fill_name(char name[LW_FLOW_NAME_MAX + 1], int number) {
    snprintf(name, LW_FLOW_NAME_MAX + 1, "%031d", number);
}

static struct lw__record *make_largest(void) {
    static struct lw__record record;
    static char payload[LW_FLOW_PAYLOAD_MAX];
    char name[LW_FLOW_NAME_MAX + 1], text[400];
    memset(&record, 0, sizeof record);
    memset(payload, '\n', sizeof payload);
    memset(text, 't', sizeof text);
    text[sizeof text - 1] = 0;
    record.payload = (lw_bytes){payload, sizeof payload};
    for (int i = 0; i < 40; i++) {
        fill_name(name, i);
        lw__record_begin(&record, name, INT64_MAX - 1000 + i, UINT64_MAX - 1000 + (uint64_t)i);
    }
    record.is_aborted = true;
    lw__record_copy_text(record.reason, text);
    for (int i = 0; i < LW_FLOW_STEPS_MAX; i++) {
        fill_name(name, i);
        struct lw__record_flag *flag = lw__record_flag(&record, name);
        flag->done_ms = INT64_MAX;
        flag->attempts = UINT32_MAX;
        flag->is_skipped = true;
        lw__record_copy_text(flag->error, text);
    }
    CHECK(!lw__record_flag(&record, "one-more"));
    return &record;
}

static void assert_same(const struct lw__record *a, const struct lw__record *b) {
    assert_string_equal(a->state, b->state);
    assert_string_equal(a->reason, b->reason);
    CHECK(a->is_at_goal == b->is_at_goal && a->is_aborted == b->is_aborted);
    assert_int_equal(a->history_count, b->history_count);
    assert_int_equal(a->history_dropped, b->history_dropped);
    for (unsigned i = 0; i < a->history_count; i++) {
        assert_string_equal(a->history[i].state, b->history[i].state);
        assert_int_equal(a->history[i].at_ms, b->history[i].at_ms);
        assert_int_equal(a->history[i].generation, b->history[i].generation);
    }
    assert_int_equal(a->flag_count, b->flag_count);
    for (unsigned i = 0; i < a->flag_count; i++) {
        assert_string_equal(a->flags[i].name, b->flags[i].name);
        assert_string_equal(a->flags[i].error, b->flags[i].error);
        assert_int_equal(a->flags[i].done_ms, b->flags[i].done_ms);
        assert_int_equal(a->flags[i].attempts, b->flags[i].attempts);
        CHECK(a->flags[i].is_skipped == b->flags[i].is_skipped);
    }
    assert_int_equal(a->payload.size, b->payload.size);
    assert_memory_equal(a->payload.data, b->payload.data, a->payload.size);
}

static struct lw__record *make_small(void) {
    static struct lw__record record;
    memset(&record, 0, sizeof record);
    record.payload = (lw_bytes){"flag x", 6};
    lw__record_begin(&record, "creating", 1763260000000, 0);
    lw__record_flag(&record, "save")->done_ms = 1763260000123;
    lw__record_copy_text(lw__record_flag(&record, "db")->error, "no space\nleft");
    lw__record_flag(&record, "db")->attempts = 3;
    return &record;
}

TEST(a_record_can_be_read_by_people) {
    size_t size = lw__record_write(make_small(), buffer);
    static const char text[] = "legwork-flow 1\n"
                               "state creating active\n"
                               "move 1763260000000 0 creating\n"
                               "flag save 1763260000123 0 done\n"
                               "flag db 0 3 open no space left\n"
                               "payload 6\n"
                               "flag x";
    assert_int_equal(size, sizeof text - 1);
    assert_memory_equal(buffer, text, size);
}

TEST(what_was_written_is_read) {
    struct lw__record *records[] = {make_small(), make_largest()}, back;
    for (int i = 0; i < 2; i++) {
        size_t size = lw__record_write(records[i], buffer);
        CHECK(size <= sizeof buffer);
        assert_status(lw__record_read(&back, (lw_bytes){buffer, size}), LW_OK);
        assert_same(&back, records[i]);
    }
}

TEST(a_text_is_cut_between_characters_and_has_no_lines) {
    char copy[LW_FLOW_TEXT_MAX + 1], text[LW_FLOW_TEXT_MAX + 8];
    lw__record_copy_text(copy, NULL);
    assert_string_equal(copy, "");
    lw__record_copy_text(copy, "a\nb\tc");
    assert_string_equal(copy, "a b c");
    memset(text, 'x', sizeof text);
    memcpy(text + LW_FLOW_TEXT_MAX - 1, "\xc3\xbc", 3);
    lw__record_copy_text(copy, text);
    assert_int_equal(strlen(copy), LW_FLOW_TEXT_MAX - 1);
}

/* Blocks of their own size, so that a sanitizer sees a step too far. */
static int read_copy(const char *bytes, size_t size) {
    struct lw__record record;
    char *copy = malloc(size > 0 ? size : 1);
    CHECK(copy);
    memcpy(copy, bytes, size);
    int rc = lw__record_read(&record, (lw_bytes){copy, size});
    CHECK(rc == LW_OK || rc == LW_ECORRUPT);
    free(copy);
    return rc;
}

TEST(a_damaged_record_is_refused_or_another_one) {
    size_t size = lw__record_write(make_small(), buffer);
    for (size_t i = 0; i < size; i++) {
        assert_status(read_copy(buffer, i), LW_ECORRUPT); /* cut off */
        char was = buffer[i];
        for (int byte = 0; byte < 256; byte++) {
            buffer[i] = (char)byte;
            read_copy(buffer, size);
        }
        buffer[i] = was;
    }
    assert_status(read_copy(buffer, size), LW_OK);
}

TEST(lines_that_make_no_sense_are_refused) {
    static const char *const wrong[] = {
        "legwork-flow 2\nstate a active\nmove 1 1 a\npayload 0\n",
        "legwork-flow 1\nmove 1 1 a\npayload 0\n",
        "legwork-flow 1\nstate a active\npayload 0\n",
        "legwork-flow 1\nstate a\nmove 1 1 a\npayload 0\n",
        "legwork-flow 1\nstate a sleeping\nmove 1 1 a\npayload 0\n",
        "legwork-flow 1\nstate a active\nmove x 1 a\npayload 0\n",
        "legwork-flow 1\nstate a active\nmove 1 99999999999999999999 a\npayload 0\n",
        "legwork-flow 1\nstate a active\nmove 1 1 a\npayload 1\n",
        "legwork-flow 1\nstate a active\nmove 1 1 a\npayload 0\nx",
        "legwork-flow 1\nstate a active\nmove 1 1 a\nnonsense 1\npayload 0\n",
        "legwork-flow 1\nstate a active\nmove 1 1 a\nflag f 1 4294967296 done\npayload 0\n",
        "legwork-flow 1\nstate 12345678901234567890123456789012 active\nmove 1 1 a\npayload 0\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(read_copy(wrong[i], strlen(wrong[i])), LW_ECORRUPT);
    static const char right[] = "legwork-flow 1\nstate a active\nmove 1 1 a\npayload 0\n";
    assert_status(read_copy(right, sizeof right - 1), LW_OK);
}
