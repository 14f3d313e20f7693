/* Texts that are cut keep whole letters; what cannot be shown is escaped. */
#include "base/text.h"
#include "test.h"

#include <legwork/runtime.h>
#include <stdint.h>
#include <string.h>

TEST(a_text_is_cut_between_letters) {
    const char *text = "a\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80z"; /* of 1, 2, 3 and 4 bytes */
    const size_t expected[] = {0, 1, 1, 3, 3, 3, 6, 6, 6, 6, 10, 11};
    for (size_t max = 0; max <= strlen(text); max++)
        assert_int_equal(lw__text_cut(text, max), expected[max]);
}

TEST(what_is_no_text_is_cut_all_the_same) {
    const char *bytes = "\x80\x80\x80\x80\x80\x80\xff\xff\xe9";
    for (size_t max = 0; max <= strlen(bytes); max++) {
        size_t kept = lw__text_cut(bytes, max);
        assert_true(kept <= max && max - kept <= 3);
    }
}

/* ---- letters ------------------------------------------------------------------------------- */

static size_t encode(uint32_t point, char into[5]) {
    size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const unsigned char heads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    memset(into, 0, 5);
    for (size_t i = length; i-- > 1; point >>= 6)
        into[i] = (char)(0x80 | (point & 0x3f));
    into[0] = (char)(heads[length] | point);
    return length;
}

static enum lw__text_fault fault_of(uint32_t point) {
    char text[5];
    enum lw__text_fault fault;
    size_t size = encode(point, text);
    assert_int_equal(lw__text_letter(text, text + size, &fault), size);
    return fault;
}

TEST(letters_that_turn_the_direction_or_have_no_width_cannot_be_shown) {
    static const struct {
        uint32_t first, last;
        enum lw__text_fault fault;
    } ranges[] = {
        {0x01, 0x1f, LW__TEXT_CONTROL},       {0x20, 0x7e, LW__TEXT_FINE},
        {0x7f, 0x9f, LW__TEXT_CONTROL},       {0xa0, 0xac, LW__TEXT_FINE},
        {0xad, 0xad, LW__TEXT_INVISIBLE},     {0xae, 0x34e, LW__TEXT_FINE},
        {0x61c, 0x61c, LW__TEXT_INVISIBLE},   {0x61d, 0x10ff, LW__TEXT_FINE},
        {0x200b, 0x200f, LW__TEXT_INVISIBLE}, {0x2010, 0x2027, LW__TEXT_FINE},
        {0x2028, 0x202e, LW__TEXT_INVISIBLE}, {0x202f, 0x205f, LW__TEXT_FINE},
        {0x2060, 0x206f, LW__TEXT_INVISIBLE}, {0x2070, 0x3163, LW__TEXT_FINE},
        {0x3165, 0xd7ff, LW__TEXT_FINE},      {0xe000, 0xfefe, LW__TEXT_FINE},
        {0xfeff, 0xfeff, LW__TEXT_INVISIBLE}, {0xff00, 0xff9f, LW__TEXT_FINE},
        {0x10000, 0xdffff, LW__TEXT_FINE},    {0xe0000, 0xe007f, LW__TEXT_INVISIBLE},
        {0xe0080, 0x10ffff, LW__TEXT_FINE},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        for (uint32_t point = ranges[i].first; point <= ranges[i].last; point++)
            CHECK(fault_of(point) == ranges[i].fault);
}

static const char *shown(const char *text, size_t room) {
    static char into[64];
    memset(into, '#', sizeof into);
    size_t size = lw_text_show(into, room, text, strlen(text));
    assert_int_equal(size, lw_text_show(NULL, 0, text, strlen(text)));
    CHECK(room == 0 || strlen(into) < room);
    return into;
}

TEST(what_cannot_be_shown_is_escaped_and_all_else_stays) {
    assert_string_equal(shown("", 8), "");
    assert_string_equal(shown("caf\xc3\xa9 \"\\\" \xf0\x9f\x98\x80", 64),
                        "caf\xc3\xa9 \"\\\" \xf0\x9f\x98\x80");
    assert_string_equal(shown("a\x1b[2Jb\n\x7f", 64), "a\\x1b[2Jb\\x0a\\x7f");
    assert_string_equal(shown("a\xe2\x80\xae"
                              "b\xc2\x9b\xff",
                              64),
                        "a\\xe2\\x80\\xaeb\\xc2\\x9b\\xff");
}

TEST(a_text_that_does_not_fit_ends_between_two_letters) {
    assert_string_equal(shown("abc\xc3\xa9", 6), "abc\xc3\xa9");
    assert_string_equal(shown("abc\xc3\xa9", 5), "abc");
    assert_string_equal(shown("ab\nc", 6), "ab");
    assert_string_equal(shown("\nabc", 3), "");
    assert_int_equal(lw_text_show(NULL, 0, NULL, 0), 0);
}

TEST(a_quote_shows_the_beginning_of_a_text) {
    assert_string_equal(lw__text_quote("say \"caf\xc3\xa9\"\\").text,
                        "say \\x22caf\xc3\xa9\\x22\\x5c");
    assert_string_equal(lw__text_quote(NULL).text, "(none)");
    assert_string_equal(lw__text_quote("").text, "");
    char text[200];
    memset(text, 'x', sizeof text);
    for (size_t size = 0; size < sizeof text; size++) {
        text[size] = 0;
        struct lw__quoted quoted = lw__text_quote(text);
        CHECK(strlen(quoted.text) == (size <= LW__QUOTED_MAX ? size : LW__QUOTED_MAX + 3));
        CHECK((strstr(quoted.text, "...") != NULL) == (size > LW__QUOTED_MAX));
        text[size] = 'x';
    }
    memcpy(text + LW__QUOTED_MAX - 1, "\xc3\xa9", 3); /* would be torn apart */
    assert_string_equal(lw__text_quote(text).text + LW__QUOTED_MAX - 1, "...");
}
