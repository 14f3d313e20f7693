/* How the command line shows things. */
#include "cli/render.h"
#include "test.h"

static char memory[2048];

static const struct lw__style plain = {.is_terminal = false};

static const char *ended(struct lw__buffer *out) {
    assert_status(out->status, LW_OK);
    lw__buffer_put_byte(out, '\0');
    return out->data;
}

static const char *safe(const char *text, size_t size) {
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, memory, sizeof memory);
    lw__put_safe(&out, (struct lw__slice){text, size});
    return ended(&out);
}

TEST(spans_have_at_most_two_units) {
    assert_string_equal(lw__span_of(0).text, "0 ms");
    assert_string_equal(lw__span_of(999).text, "999 ms");
    assert_string_equal(lw__span_of(3250).text, "3.2 s");
    assert_string_equal(lw__span_of(250000).text, "4 m 10 s");
    assert_string_equal(lw__span_of(7500000).text, "2 h 5 m");
    assert_string_equal(lw__span_of(INT64_C(273600000)).text, "3 d 4 h");
}

TEST(ages_look_back_and_ahead) {
    const int64_t now = INT64_C(1700000000000);
    assert_string_equal(lw__age_of(now, now).text, "now");
    assert_string_equal(lw__age_of(now - 59999, now).text, "59 s ago");
    assert_string_equal(lw__age_of(now - 180000, now).text, "3 m ago");
    assert_string_equal(lw__age_of(now + 7200000, now).text, "in 2 h");
    assert_string_equal(lw__age_of(0, now).text, "");
}

TEST(texts_of_others_cannot_steer_a_terminal) {
    assert_string_equal(safe("a\x1b[31mb\n", 8), "a\\x1b[31mb\\x0a");
    assert_string_equal(safe("\xc3\xa4\xc2\x9b\xff", 5), "\xc3\xa4\\xc2\\x9b\\xff");
    assert_string_equal(safe("a\xe2\x80\xaeg\xe2\x80\x8b", 8), "a\\xe2\\x80\\xaeg\\xe2\\x80\\x8b");
}

static const struct lw__table_column columns[] = {{"ID", true}, {"KEY", false}, {"NOTE", false}};

static const char *tabled(const struct lw__style *style, const char *note) {
    struct lw__table table;
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, memory, sizeof memory);
    lw__table_init(&table, columns, 3);
    lw__table_add(&table, LW__PLAIN, "7");
    lw__table_add(&table, LW__PLAIN, "");
    lw__table_add(&table, LW__RED, note);
    lw__table_add(&table, LW__PLAIN, "1234");
    lw__table_add(&table, LW__PLAIN, "");
    lw__table_add(&table, LW__PLAIN, "ok");
    assert_status(lw__table_write(&table, style, &out), LW_OK);
    lw__table_clear(&table);
    return ended(&out);
}

TEST(tables_are_in_line_and_without_empty_columns) {
    assert_string_equal(tabled(&plain, "no such host"),
                        "  ID  NOTE\n   7  no such host\n1234  ok\n");
}

TEST(the_last_column_is_cut_at_the_edge) {
    const struct lw__style narrow = {.is_terminal = true, .width = 14};
    assert_string_equal(tabled(&narrow, "no such host"), "  ID  NOTE\n   7  no su...\n1234  ok\n");
}

TEST(colours_stand_around_texts_and_take_no_room) {
    const struct lw__style coloured = {.is_terminal = true, .has_colours = true};
    assert_non_null(strstr(tabled(&coloured, "bad"), "   7  \x1b[31mbad\x1b[0m\n1234  ok\n"));
}

TEST(lines_have_no_spaces_at_their_end) {
    assert_string_equal(tabled(&plain, ""), "  ID  NOTE\n   7\n1234  ok\n");
}
