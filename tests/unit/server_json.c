/* JSON: what is read and refused, what values mean, what is written. The oracle's tests are in
 * server_json_oracle.c. */
#include "test.h"

#include "server/base64.h"
#include "server/json.h"
#include "server/json_string.h"

#include <legwork/testing.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static struct lw__json_key keys[64];
static const struct lw__json_limits limits = {.depth_max = 8, .keys = keys, .keys_max = 64};

/* Reads a text from a block that ends where it ends. */
static int read_slice(struct lw__slice text, struct lw__json *value, struct lw__json_error *err) {
    static char *block;
    free(block);
    block = malloc(text.size + (text.size == 0));
    memcpy(block, text.data, text.size);
    return lw__json_read((struct lw__slice){block, text.size}, &limits, value, err);
}

static struct lw__json parse(const char *text) {
    struct lw__json value;
    struct lw__json_error err = {.sentence = ""};
    if (read_slice(lw__slice_of(text), &value, &err) < 0)
        assert_string_equal(err.sentence, "");
    return value;
}

static void assert_refused(struct lw__slice text, size_t offset, const char *part) {
    struct lw__json value;
    struct lw__json_error err = {.sentence = ""};
    assert_status(read_slice(text, &value, &err), LW_EINVAL);
    assert_status(read_slice(text, &value, NULL), LW_EINVAL);
    if (!strstr(err.sentence, part))
        assert_string_equal(err.sentence, part);
    assert_int_equal(err.offset, offset);
}

#define REFUSED(literal, offset, part) \
    assert_refused((struct lw__slice){(literal), sizeof(literal) - 1}, (offset), (part))

/* ---- reading -------------------------------------------------------------------------------- */

TEST(values_are_slices_of_the_text_byte_for_byte) {
    struct lw__json value = parse(" \t\n\r{ \"a\" : [ 1 , {\"b\":\"\\u0041\"} ] ,\"c\":-0.50e+1} ");
    struct lw__json key, part, inner;
    struct lw__json_walk walk = lw__json_enter(value);
    assert_int_equal(lw__json_type(value), LW__JSON_OBJECT);
    CHECK(lw__slice_is(value.raw, "{ \"a\" : [ 1 , {\"b\":\"\\u0041\"} ] ,\"c\":-0.50e+1}"));
    CHECK(lw__json_next(&walk, &key, &part));
    CHECK(lw__slice_is(key.raw, "\"a\"") && lw__slice_is(part.raw, "[ 1 , {\"b\":\"\\u0041\"} ]"));
    struct lw__json_walk within = lw__json_enter(part);
    CHECK(lw__json_next(&within, &key, &inner));
    CHECK(key.raw.size == 0 && lw__slice_is(inner.raw, "1"));
    CHECK(lw__json_next(&within, &key, &inner));
    CHECK(lw__slice_is(inner.raw, "{\"b\":\"\\u0041\"}"));
    CHECK(!lw__json_next(&within, &key, &inner) && !lw__json_next(&within, &key, &inner));
    CHECK(lw__json_next(&walk, &key, &part));
    CHECK(lw__json_is(key, "c") && lw__slice_is(part.raw, "-0.50e+1"));
    CHECK(!lw__json_next(&walk, &key, &part));
}

TEST(every_type_is_told_by_its_value) {
    static const struct {
        const char *text;
        enum lw__json_type type;
    } rows[] = {{"null", LW__JSON_NULL}, {"true", LW__JSON_BOOL},   {" false ", LW__JSON_BOOL},
                {"-1", LW__JSON_NUMBER}, {"\"\"", LW__JSON_STRING}, {"[]", LW__JSON_ARRAY},
                {"[ ]", LW__JSON_ARRAY}, {"{}", LW__JSON_OBJECT},   {"{ }", LW__JSON_OBJECT}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lw__json value = parse(rows[i].text), key, part;
        struct lw__json_walk walk = lw__json_enter(value);
        assert_int_equal(lw__json_type(value), rows[i].type);
        CHECK(!lw__json_next(&walk, &key, &part));
        CHECK(!lw__json_find(value, "x", &part));
    }
}

TEST(members_are_found_by_what_their_names_mean) {
    struct lw__json value = parse("{\"kind\":\"a\",\"k\\u0065y\":\"b\",\"k\":{\"key\":1}}"), part;
    CHECK(lw__json_find(value, "key", &part) && lw__json_is(part, "b"));
    CHECK(lw__json_find(value, "k", &part) && lw__json_type(part) == LW__JSON_OBJECT);
    CHECK(!lw__json_find(value, "ke", &part) && !lw__json_find(value, "keys", &part));
}

TEST(texts_that_are_no_json_are_refused_where_they_go_wrong) {
    REFUSED("", 0, "the text ends where a value should be");
    REFUSED("  ", 2, "the text ends where a value");
    REFUSED("{", 1, "a key in quotes");
    REFUSED("[1,]", 3, "\"]\" where a value should be");
    REFUSED("[1 2]", 3, "a comma or ]");
    REFUSED("{\"a\":1,}", 7, "a key in quotes");
    REFUSED("{\"a\" 1}", 5, "a colon");
    REFUSED("{\"a\":1 \"b\":2}", 7, "a comma or }");
    REFUSED("{a:1}", 1, "a key in quotes");
    REFUSED("{1:1}", 1, "a key in quotes");
    REFUSED("[1}", 2, "a comma or ]");
    REFUSED("{\"a\":1]", 6, "a comma or }");
    REFUSED("[1", 2, "the text ends where a comma or ]");
    REFUSED("1 2", 2, "the end of the text");
    REFUSED("{} x", 3, "the end of the text");
    REFUSED("nul", 0, "a value");
    REFUSED("nulll", 4, "the end of the text");
    REFUSED("True", 0, "a value");
    REFUSED("'a'", 0, "a value");
    REFUSED("// x\n1", 0, "a value");
    REFUSED("NaN", 0, "a value");
    REFUSED("\0", 0, "\\x00");
    REFUSED("1\0", 1, "\\x00");
    REFUSED("\xef\xbb\xbf{}", 0, "\\xef");
    REFUSED("[1,\f2]", 3, "\\x0c");
    REFUSED("\xc2\xa0"
            "1",
            0, "a value");
}

TEST(numbers_out_of_shape_are_refused) {
    REFUSED("-", 1, "a digit");
    REFUSED("+1", 0, "a value");
    REFUSED(".5", 0, "a value");
    REFUSED("1.", 2, "a digit");
    REFUSED("1.e5", 2, "a digit");
    REFUSED("1e", 2, "a digit");
    REFUSED("1e+", 3, "a digit");
    REFUSED("01", 0, "a 0 too many");
    REFUSED("-01", 1, "a 0 too many");
    REFUSED("0x10", 1, "the end of the text");
    REFUSED("1_000", 1, "the end of the text");
    REFUSED("-Infinity", 1, "a digit");
    parse("[0,-0,0.0,1e5,1E-5,123456789012345678901234567890,1e999,0e0]");
}

TEST(strings_out_of_shape_are_refused) {
    REFUSED("\"abc", 0, "does not end");
    REFUSED("\"", 0, "does not end");
    REFUSED("\"\\", 2, "the end of a string");
    REFUSED("\"\\\"", 0, "does not end");
    REFUSED("\"\\x41\"", 1, "no escape");
    REFUSED("\"\\0\"", 1, "no escape");
    REFUSED("\"\\\0\"", 1, "no escape");
    REFUSED("\"\\u12\"", 1, "four hex digits");
    REFUSED("\"\\u12g4\"", 1, "four hex digits");
    REFUSED("\"\\u123", 1, "four hex digits");
    REFUSED("\"a\nb\"", 2, "control byte 0x0a");
    REFUSED("\"a\tb\"", 2, "control byte 0x09");
    REFUSED("\"\x1f\"", 1, "control byte 0x1f");
    REFUSED("\"\0\"", 1, "control byte 0x00");
    REFUSED("\"\\ud800\"", 1, "\\ud800 is half a pair");
    REFUSED("\"\\udc00\"", 1, "half a pair");
    REFUSED("\"\\ud800\\u0041\"", 1, "half a pair");
    REFUSED("\"\\ud800x\"", 1, "half a pair");
    REFUSED("\"\\udc00\\ud800\"", 1, "half a pair");
    REFUSED("\"\\ud800\\ud800\"", 1, "half a pair");
    REFUSED("\"\\udc00\\udc00\"", 1, "half a pair");
    REFUSED("\"\\ud83d\\ude0", 1, "half a pair");
}

TEST(what_is_no_utf8_is_refused) {
    static const char *const wrong[] = {"\x80",
                                        "\xbf",
                                        "\xc0\x80",
                                        "\xc1\xbf",
                                        "\xc3",
                                        "\xc3(",
                                        "\xe0\x80\x80",
                                        "\xe2\x82",
                                        "\xed\xa0\x80",
                                        "\xf0\x80\x80\x80",
                                        "\xf4\x90\x80\x80",
                                        "\xf5\x80\x80\x80",
                                        "\xff",
                                        "\xfe",
                                        "\xf0\x9f\x98"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        char text[16];
        int length = snprintf(text, sizeof text, "[\"%s\"]", wrong[i]);
        assert_refused((struct lw__slice){text, (size_t)length}, 2, "UTF-8");
    }
    parse("\"\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xef\xbf\xbf \xf0\x90\x80\x80 "
          "\xf4\x8f\xbf\xbf \x7f\"");
}

TEST(a_key_that_is_there_twice_is_refused_however_it_is_spelled) {
    REFUSED("{\"a\":1,\"a\":1}", 7, "the key \"a\" is there twice");
    REFUSED("{\"a\":1,\"b\":2,\"c\":3,\"\\u0061\":1}", 19, "is there twice");
    REFUSED("{\"/\":1,\"\\/\":1}", 7, "is there twice");
    REFUSED("{\"\\ud83d\\ude00\":1,\"\xf0\x9f\x98\x80\":1}", 18, "is there twice");
    REFUSED("[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", 19, "the key \"a\"");
    REFUSED("{\"\":1,\"\":2}", 6, "is there twice");
    parse("{\"a\":{\"a\":[{\"a\":1},{\"a\":1}]},\"b\":{\"a\":1}}");
    parse("{\"a\":1,\"A\":1,\"a\\u0000\":1,\"aa\":1}");
}

/* Names whose hashes are equal, found by trying, are told apart all the same. */
TEST(keys_with_equal_hashes_are_told_apart) {
    parse("{\"costarring\":1,\"liquid\":2}"); /* FNV-1a gives both 0x5e4daa9d */
    parse("{\"declinate\":1,\"macallums\":2,\"altarage\":3,\"zinke\":4}");
    REFUSED("{\"costarring\":1,\"liquid\":2,\"costarring\":3}", 27, "\"costarring\"");
}

TEST(depth_is_limited) {
    parse("[[[[[[[[1]]]]]]]]");
    REFUSED("[[[[[[[[[1]]]]]]]]]", 8, "more than 8 levels");
    REFUSED("{\"a\":[{\"a\":[{\"a\":[{\"a\":[{", 24, "more than 8 levels");
    size_t size = 1000000;
    char *text = malloc(size);
    memset(text, '[', size);
    assert_refused((struct lw__slice){text, size}, 8, "more than 8 levels");
    free(text);
}

TEST(keys_are_limited_by_what_is_open_at_once) {
    char text[4096];
    size_t at = 0;
    for (int round = 0; round < 3; round++) { /* 60 keys each: closed before the next opens */
        at += (size_t)snprintf(text + at, sizeof text - at, round ? ",{\"0\":0" : "[{\"0\":0");
        for (int i = 1; i < 60; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, ",\"%d\":0", i);
        at += (size_t)snprintf(text + at, sizeof text - at, "}");
    }
    snprintf(text + at, sizeof text - at, "]");
    parse(text);
    at = (size_t)snprintf(text, sizeof text, "{\"x\":0");
    for (int i = 1; i < 65; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, ",\"%d\":0", i);
    struct lw__json value;
    struct lw__json_error err;
    assert_status(read_slice((struct lw__slice){text, at}, &value, &err), LW_EINVAL);
    assert_non_null(strstr(err.sentence, "more than 64 keys"));
}

TEST(an_error_says_line_and_column) {
    struct lw__json value;
    struct lw__json_error err;
    assert_status(read_slice(lw__slice_of("{\n  \"a\": 1,\n  b\n}"), &value, &err), LW_EINVAL);
    assert_string_equal(err.sentence,
                        "line 3, column 3: here is \"b\" where a key in quotes should be");
    assert_int_equal(err.line, 3);
    assert_int_equal(err.column, 3);
}

/* ---- what values mean ----------------------------------------------------------------------- */

TEST(strings_are_unescaped_into_the_callers_memory) {
    static const char expected[] = "a\"\\/\b\f\n\r\tA\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\0z";
    struct lw__json value =
        parse("\"a\\\"\\\\\\/\\b\\f\\n\\r\\t\\u0041\\u00e4\\u20AC\\ud83d\\uDE00\\u0000z\"");
    char text[64];
    size_t size;
    assert_status(lw__json_unescape(value, text, sizeof text, &size), LW_OK);
    assert_int_equal(size, sizeof expected - 1);
    assert_memory_equal(text, expected, sizeof expected);
    for (size_t room = 0; room < sizeof expected; room++) {
        memset(text, '#', sizeof text);
        assert_status(lw__json_unescape(value, text, room, &size), LW_EFULL);
        assert_int_equal(text[room], '#');
    }
    assert_status(lw__json_unescape(value, text, sizeof expected, NULL), LW_OK);
    assert_status(lw__json_unescape(parse("12"), text, sizeof text, &size), LW_EINVAL);
    assert_status(lw__json_unescape(parse("\"\""), text, 1, &size), LW_OK);
    assert_int_equal(size, 0);
}

TEST(a_string_without_escapes_is_a_part_of_the_text) {
    struct lw__slice text;
    CHECK(lw__json_plain(parse("\"a\xc3\xa4 b\""), &text) && lw__slice_is(text, "a\xc3\xa4 b"));
    CHECK(lw__json_plain(parse("\"\""), &text) && text.size == 0);
    CHECK(!lw__json_plain(parse("\"a\\n\""), &text));
    CHECK(!lw__json_plain(parse("12"), &text));
    CHECK(!lw__json_is(parse("\"a\\u0000b\""), "a") && !lw__json_is(parse("1"), "1"));
}

static void assert_int(const char *text, bool is_fine, int64_t expected) {
    int64_t number = 77;
    lw_error err = {0};
    int status = lw__json_int(parse(text), &number, &err);
    assert_status(status, is_fine ? LW_OK : LW_EINVAL);
    CHECK(number == (is_fine ? expected : 77));
    CHECK(is_fine || strncmp(err.message, text, strlen(text)) == 0);
}

TEST(whole_numbers_are_converted_or_refused_never_rounded) {
    assert_int("0", true, 0);
    assert_int("-0", true, 0);
    assert_int("-12", true, -12);
    assert_int("9223372036854775807", true, INT64_MAX);
    assert_int("9223372036854775808", false, 0);
    assert_int("-9223372036854775808", true, INT64_MIN);
    assert_int("-9223372036854775809", false, 0);
    assert_int("99999999999999999999", false, 0);
    assert_int("1.0", false, 0);
    assert_int("1e3", false, 0);
    assert_int("true", false, 0);
    assert_int("[1]", false, 0);
    uint64_t number;
    assert_status(lw__json_uint(parse("18446744073709551615"), &number, NULL), LW_OK);
    CHECK(number == UINT64_MAX);
    assert_status(lw__json_uint(parse("18446744073709551616"), &number, NULL), LW_EINVAL);
    assert_status(lw__json_uint(parse("-1"), &number, NULL), LW_EINVAL);
    assert_status(lw__json_uint(parse("\"1\""), &number, NULL), LW_EINVAL);
}

TEST(doubles_are_the_nearest_ones) {
    double number = 0;
    assert_status(lw__json_double(parse("-0.1e1"), &number, NULL), LW_OK);
    CHECK(number == -1.0);
    assert_status(lw__json_double(parse("1.7976931348623157e308"), &number, NULL), LW_OK);
    assert_status(lw__json_double(parse("1e309"), &number, NULL), LW_EINVAL);
    assert_status(lw__json_double(parse("-1e400"), &number, NULL), LW_EINVAL);
    assert_status(lw__json_double(parse("1e-999"), &number, NULL), LW_OK);
    CHECK(number == 0.0);
    assert_status(lw__json_double(parse("null"), &number, NULL), LW_EINVAL);
    char text[300] = "0.";
    memset(text + 2, '1', 297);
    assert_status(lw__json_double(parse(text), &number, NULL), LW_EINVAL);
    text[LW__JSON_NUMBER_MAX] = 0;
    assert_status(lw__json_double(parse(text), &number, NULL), LW_OK);
}

TEST(truth_is_true_or_false) {
    bool is_true = false;
    assert_status(lw__json_bool(parse("true"), &is_true, NULL), LW_OK);
    CHECK(is_true);
    assert_status(lw__json_bool(parse("false"), &is_true, NULL), LW_OK);
    CHECK(!is_true);
    assert_status(lw__json_bool(parse("0"), &is_true, NULL), LW_EINVAL);
}

/* What was never checked may be nonsense, but nothing is read past its end. */
TEST(walking_through_nonsense_stays_within_it) {
    static const char *const nonsense[] = {
        "{",   "[",    "{\"",   "[\"\\", "{\"a\":",   "[[[",   "\"",
        "{}}", "[\"a", "{,,,}", "[:]",   "{\"a\\\"}", "\"\\u", "\"\\ud800\\"};
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        size_t size = strlen(nonsense[i]);
        char *block = malloc(size), text[64];
        memcpy(block, nonsense[i], size);
        struct lw__json value = {{block, size}}, key, part;
        struct lw__json_walk walk = lw__json_enter(value);
        for (int steps = 0; lw__json_next(&walk, &key, &part) && steps < 100; steps++)
            lw__json_unescape(part, text, sizeof text, NULL);
        lw__json_unescape(value, text, sizeof text, NULL);
        lw__json_is(value, "abc");
        free(block);
    }
}

/* ---- writing -------------------------------------------------------------------------------- */

static char memory[1024];

static struct lw__json_writer open_writer(struct lw__buffer *out, size_t capacity) {
    struct lw__json_writer writer;
    lw__buffer_init_fixed(out, memory, capacity);
    lw__json_write(&writer, out);
    return writer;
}

static void assert_out(const struct lw__buffer *out, const char *expected) {
    char text[sizeof memory];
    snprintf(text, sizeof text, "%.*s", (int)out->size, out->data);
    assert_string_equal(text, expected);
}

TEST(documents_are_written_with_their_marks) {
    struct lw__buffer out;
    struct lw__json_writer writer = open_writer(&out, sizeof memory);
    lw__json_object(&writer);
    lw__json_key(&writer, "id");
    lw__json_put_uint(&writer, UINT64_MAX);
    lw__json_key(&writer, "low");
    lw__json_put_int(&writer, INT64_MIN);
    lw__json_key(&writer, "list");
    lw__json_array(&writer);
    lw__json_put_null(&writer);
    lw__json_put_bool(&writer, true);
    lw__json_array(&writer);
    lw__json_close(&writer);
    lw__json_object(&writer);
    lw__json_close(&writer);
    lw__json_put_bool(&writer, false);
    lw__json_close(&writer);
    lw__json_key(&writer, "raw");
    lw__json_put_raw(&writer, lw__slice_of("{ \"x\" : 1.0 }"));
    lw__json_key(&writer, "bytes");
    lw__json_put_base64(&writer, (struct lw__slice){"\0\xff", 2});
    lw__json_key(&writer, "none");
    lw__json_put_text(&writer, NULL);
    lw__json_close(&writer);
    assert_out(&out, "{\"id\":18446744073709551615,\"low\":-9223372036854775808,"
                     "\"list\":[null,true,[],{},false],\"raw\":{ \"x\" : 1.0 },"
                     "\"bytes\":\"AP8=\",\"none\":null}");
    parse(memory);
}

TEST(strings_are_written_so_that_they_read_back) {
    struct lw__buffer out;
    struct lw__json_writer writer = open_writer(&out, sizeof memory);
    lw__json_put_string(&writer, (struct lw__slice){"\"\\/\b\f\n\r\t\0\x1f\x7f\xc3\xa4", 13});
    assert_out(&out, "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\x7f\xc3\xa4\"");
    writer = open_writer(&out, sizeof memory);
    lw__json_put_text(&writer, "a\xff\xc3(\xe2\x82");
    assert_out(&out, "\"a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\"");
    writer = open_writer(&out, sizeof memory);
    lw__json_put_string(&writer, (struct lw__slice){NULL, 0});
    assert_out(&out, "\"\"");
}

TEST(doubles_are_written_as_short_as_they_read_back) {
    static const struct {
        double number;
        const char *text;
    } rows[] = {{0.1, "0.1"},
                {1.0 / 3, "0.3333333333333333"},
                {-0.0, "-0"},
                {1e300, "1e+300"},
                {5e-324, "4.94065645841247e-324"},
                {123456789, "123456789"},
                {NAN, "null"},
                {INFINITY, "null"},
                {0.1 + 0.2, "0.30000000000000004"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lw__buffer out;
        struct lw__json_writer writer = open_writer(&out, sizeof memory);
        lw__json_put_double(&writer, rows[i].number);
        assert_out(&out, rows[i].text);
    }
}

TEST(a_document_that_does_not_fit_is_remembered_by_the_buffer) {
    for (size_t room = 0; room < 14; room++) {
        struct lw__buffer out;
        struct lw__json_writer writer = open_writer(&out, room);
        memset(memory, '#', sizeof memory);
        lw__json_object(&writer);
        lw__json_key(&writer, "ab");
        lw__json_put_text(&writer, "c\n");
        lw__json_close(&writer);
        assert_status(out.status, room < 12 ? LW_EFULL : LW_OK);
        assert_int_equal(memory[room], '#');
    }
}

/* ---- base64 --------------------------------------------------------------------------------- */

TEST(base64_is_the_one_of_the_standard) {
    static const char *const rows[][2] = {{"", ""},
                                          {"f", "Zg=="},
                                          {"fo", "Zm8="},
                                          {"foo", "Zm9v"},
                                          {"foob", "Zm9vYg=="},
                                          {"fooba", "Zm9vYmE="},
                                          {"foobar", "Zm9vYmFy"},
                                          {"\xfb\xef\xff", "++//"}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct lw__buffer out;
        lw__buffer_init_fixed(&out, memory, sizeof memory);
        assert_status(lw__base64_write(&out, lw__slice_of(rows[i][0])), LW_OK);
        assert_out(&out, rows[i][1]);
        lw__buffer_cut(&out, 0);
        assert_status(lw__base64_read(&out, lw__slice_of(rows[i][1]), NULL), LW_OK);
        assert_out(&out, rows[i][0]);
    }
}

TEST(base64_that_is_written_otherwise_is_refused) {
    static const char *const wrong[] = {
        "Z",    "Zg",   "Zg=",  "Zh==",     "Zm9=", "Zm9v\n",   "Zm 8=",
        "=m9v", "Z===", "====", "Zg==Zg==", "Zm-_", "Zm9vZh==", "Z=g="};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct lw__buffer out;
        lw_error err = {0};
        lw__buffer_init_fixed(&out, memory, sizeof memory);
        lw__buffer_put_text(&out, "before");
        assert_status(lw__base64_read(&out, lw__slice_of(wrong[i]), &err), LW_EINVAL);
        assert_non_null(strstr(err.message, "base64 has"));
        assert_out(&out, "before");
    }
    struct lw__buffer out;
    lw__buffer_init_fixed(&out, memory, 2);
    assert_status(lw__base64_read(&out, lw__slice_of("Zm9v"), NULL), LW_EFULL);
}

/* ---- buffers -------------------------------------------------------------------------------- */

TEST(a_buffer_grows_up_to_its_limit_and_gives_everything_back) {
    lw_test_memory *test_memory;
    assert_status(lw_test_memory_open(&test_memory), LW_OK);
    struct lw__buffer out;
    lw__buffer_init(&out, lw_test_memory_allocator(test_memory), 10000);
    for (int i = 0; i < 10000; i++)
        assert_status(lw__buffer_put_byte(&out, (char)i), LW_OK);
    assert_int_equal(out.capacity, 10000);
    assert_status(lw__buffer_put_byte(&out, 'x'), LW_EFULL);
    assert_int_equal(out.size, 10000);
    for (int i = 0; i < 10000; i++)
        assert_int_equal(out.data[i], (char)i);
    lw__buffer_cut(&out, 9999);
    assert_status(lw__buffer_put_byte(&out, 'x'), LW_OK);
    lw__buffer_clear(&out);
    lw_test_memory_fail_at(test_memory, 2);
    assert_status(lw__buffer_put_byte(&out, 'x'), LW_OK);
    for (int i = 1; i < 256; i++)
        lw__buffer_put_byte(&out, 'x');
    assert_status(lw__buffer_put_text(&out, "no memory"), LW_ENOMEM);
    assert_status(lw__buffer_put_byte(&out, 'x'), LW_ENOMEM);
    assert_int_equal(out.size, 256);
    lw__buffer_clear(&out);
    lw_test_memory_close(test_memory);
}

/* ---- eight bytes at a time ------------------------------------------------------------------ */

static bool is_plain(char c) {
    return (unsigned char)c >= 0x20 && (unsigned char)c < 0x80 && c != '"' && c != '\\';
}

/* Every byte at every place of a word, alone and before another that is not plain. */
TEST(what_stands_for_itself_is_skipped_and_nothing_else) {
    static const char others[] = {'x', '"', '\\', '\x1f', '\x80', '\0'};
    for (int byte = 0; byte < 256; byte++)
        for (size_t place = 0; place < 20; place++)
            for (size_t i = 0; i < sizeof others; i++) {
                char text[20];
                memset(text, '!' + (int)(place % 90), sizeof text);
                memset(text + place, others[i], sizeof text - place);
                text[place] = (char)byte;
                size_t wanted = 0;
                while (wanted < sizeof text && is_plain(text[wanted]))
                    wanted++;
                assert_ptr_equal(lw__json_skip_plain(text, text + sizeof text), text + wanted);
            }
}
