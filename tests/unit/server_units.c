/* Durations, sizes, and names that were nearly right. */
#include "test.h"

#include "server/nearest.h"
#include "server/units.h"
#include "server/utf8.h"

#include <legwork/api.h>
#include <stdio.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static void assert_duration(const char *text, int64_t ms) {
    int64_t read = -1;
    assert_status(lw__duration_read(lw__slice_of(text), &read, NULL), LW_OK);
    CHECK(read == ms);
}

TEST(durations_are_read_as_people_write_them) {
    assert_duration("0", 0);
    assert_duration("0s", 0);
    assert_duration("250ms", 250);
    assert_duration("30s", 30000);
    assert_duration("5m", 300000);
    assert_duration("1h30m", 5400000);
    assert_duration("1h250ms", 3600250);
    assert_duration("2d3h4m5s6ms", 183845006);
    assert_duration("90m", 5400000);
    assert_duration("007s", 7000);
    assert_duration("274877906944ms", LW_TIMEOUT_MS_MAX);
}

TEST(durations_that_are_none_are_refused_with_what_to_write) {
    static const char *const wrong[] = {"",
                                        "30",
                                        "s",
                                        "-1s",
                                        "+1s",
                                        "1.5s",
                                        "1 s",
                                        " 1s",
                                        "1s ",
                                        "1S",
                                        "1min",
                                        "1m1h",
                                        "1s1s",
                                        "00",
                                        "1s1",
                                        "1w",
                                        "1ms1s",
                                        "1e3s",
                                        "s1",
                                        "1h,",
                                        "0x1s",
                                        "274877906945ms",
                                        "99999999999999999999s",
                                        "9223372036854775807d",
                                        "3182d",
                                        "3181d999999999999999ms"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int64_t ms = 77;
        lw_error err = {0};
        assert_status(lw__duration_read(lw__slice_of(wrong[i]), &ms, &err), LW_EINVAL);
        assert_non_null(strstr(err.message, "is no duration; write 30s, 250ms, 5m"));
        CHECK(ms == 77);
    }
}

TEST(durations_are_written_as_they_are_read) {
    static const char *const rows[] = {"0", "1ms", "59s999ms", "1h30m", "7d", "1d1h1m1s1ms"};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ms;
        assert_status(lw__duration_read(lw__slice_of(rows[i]), &ms, NULL), LW_OK);
        assert_string_equal(lw__duration_write(ms).text, rows[i]);
    }
    assert_duration(lw__duration_write(LW_TIMEOUT_MS_MAX).text, LW_TIMEOUT_MS_MAX);
    lw__duration_write(INT64_MAX);
}

TEST(sizes_are_read_and_written) {
    static const struct {
        const char *text, *written;
        int64_t size;
    } rows[] = {{"0", "0", 0},
                {"1", "1", 1},
                {"100B", "100", 100},
                {"64KiB", "64KiB", 65536},
                {"64k", "64KiB", 65536},
                {"1024KiB", "1MiB", 1 << 20},
                {"16M", "16MiB", 16 << 20},
                {"3GiB", "3GiB", INT64_C(3) << 30},
                {"2G", "2GiB", INT64_C(2) << 30},
                {"1025", "1025", 1025},
                {"9007199254740992", "8388608GiB", INT64_C(1) << 53}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t size = -1;
        assert_status(lw__size_read(lw__slice_of(rows[i].text), &size, NULL), LW_OK);
        CHECK(size == rows[i].size);
        assert_string_equal(lw__size_write(size).text, rows[i].written);
    }
}

TEST(sizes_that_are_none_are_refused) {
    static const char *const wrong[] = {"",
                                        "k",
                                        "-1",
                                        "1.5M",
                                        "1 M",
                                        "1KB",
                                        "1kb",
                                        "1Mi",
                                        "1M1",
                                        "1M1k",
                                        "8388609G",
                                        "9007199254740993",
                                        "99999999999999999999",
                                        "1\xc2\xb5"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        int64_t size = 77;
        lw_error err = {0};
        assert_status(lw__size_read(lw__slice_of(wrong[i]), &size, &err), LW_EINVAL);
        assert_non_null(strstr(err.message, "is no size; write"));
        CHECK(size == 77);
    }
}

/* ---- names ---------------------------------------------------------------------------------- */

static const char *nearest_of(const char *wanted, const char *const *names, size_t count) {
    struct lw__nearest nearest;
    lw__nearest_init(&nearest, lw__slice_of(wanted));
    for (size_t i = 0; i < count; i++)
        lw__nearest_offer(&nearest, names[i]);
    return nearest.name;
}

TEST(the_nearest_name_is_the_one_with_the_fewest_edits) {
    static const char *const names[] = {"listen", "limit", "body-max", "socket"};
    assert_string_equal(nearest_of("lsiten", names, 4), "listen");
    assert_string_equal(nearest_of("limits", names, 4), "limit");
    assert_string_equal(nearest_of("limti", names, 4), "limit");
    assert_string_equal(nearest_of("BODY_MAX", names, 4), "body-max");
    assert_string_equal(nearest_of("soket", names, 4), "socket");
    assert_null(nearest_of("workers", names, 4));
    assert_null(nearest_of("", names, 4));
    char longer[LW__NEAREST_MAX + 2];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = 0;
    assert_null(nearest_of(longer, (const char *const[]){longer}, 1));
    assert_non_null(nearest_of(longer + 1, (const char *const[]){longer + 1}, 1));
}

/* ---- bytes ---------------------------------------------------------------------------------- */

/* Every code point is written as it is measured; all else of up to three bytes is refused. */
TEST(all_code_points_are_utf8_and_nothing_else_is) {
    unsigned fine = 0;
    for (uint32_t point = 0; point <= 0x10ffff; point++) {
        char bytes[4];
        if (point >= 0xd800 && point <= 0xdfff)
            continue;
        size_t size = lw__utf8_write(point, bytes);
        assert_int_equal(lw__utf8_measure(bytes, bytes + size), size);
        assert_int_equal(lw__utf8_measure(bytes, bytes + size - 1), 0);
    }
    for (uint32_t bits = 0; bits < 1 << 24; bits++) {
        char bytes[3] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        fine += lw__utf8_measure(bytes, bytes + 3) == 3;
    }
    assert_int_equal(fine, 0x10000 - 0x800 - 0x800); /* U+0800 to U+FFFF without surrogates */
}

TEST(slices_are_shown_short_and_printable) {
    assert_string_equal(lw__slice_show(lw__slice_of("a \"b\"\\\n\xff")).text,
                        "a \\x22b\\x22\\x5c\\x0a\\xff");
    char text[LW__SHOWN_MAX + 1];
    memset(text, '\x1b', sizeof text);
    struct lw__shown shown = lw__slice_show((struct lw__slice){text, sizeof text});
    assert_int_equal(strlen(shown.text), LW__SHOWN_MAX * 4 + 3);
    assert_string_equal(shown.text + LW__SHOWN_MAX * 4, "...");
    assert_string_equal(lw__slice_show((struct lw__slice){0}).text, "");
}
