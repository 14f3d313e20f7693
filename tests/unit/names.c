/* Names of kinds, queues and keys, and guessing which was meant. */
#include "pools.h"

#include "base/names.h"
#include "base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <legwork/task.h>

#define COUNT_OF(array) (sizeof(array) / sizeof *(array))

static lw_error refuse_name(const char *name) {
    lw_error err = {0};
    assert_status(lw__name_check("kind", name, &err), LW_EINVAL);
    assert_status(lw__name_check("kind", name, NULL), LW_EINVAL);
    return err;
}

static lw_error refuse_key(const char *key) {
    lw_error err = {0};
    assert_status(lw__key_check("key", key, LW_KEY_MAX, &err), LW_EINVAL);
    assert_status(lw__key_check("key", key, LW_KEY_MAX, NULL), LW_EINVAL);
    return err;
}

/* So many times `c`, in a block of its own so that a sanitizer sees a read past its end. */
static char *repeat(char c, size_t count) {
    char *text = malloc(count + 1);
    memset(text, c, count);
    text[count] = 0;
    return text;
}

/* ---- kinds and queues ---------------------------------------------------------------------- */

TEST(names_have_letters_digits_and_a_few_marks_and_nothing_else) {
    static const char fine[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:";
    for (int byte = 1; byte < 256; byte++) {
        char name[] = {'a', (char)byte, 0}, hex[16];
        if (strchr(fine, byte)) {
            assert_status(lw__name_check("kind", name, NULL), LW_OK);
            assert_status(lw__name_check("kind", name + 1, NULL), LW_OK);
            continue;
        }
        snprintf(hex, sizeof hex, "byte 0x%02x", (unsigned)byte);
        lw_error err = refuse_name(name);
        assert_sentence(&err, LW_EINVAL, hex);
        assert_sentence(&err, LW_EINVAL, "at position 2,");
    }
}

TEST(a_name_has_one_to_sixty_four_bytes) {
    char *longest = repeat('n', LW_NAME_MAX), *longer = repeat('n', LW_NAME_MAX + 1);
    char *far_longer = repeat('n', 100000);
    assert_status(lw__name_check("kind", longest, NULL), LW_OK);
    lw_error err = refuse_name(longer);
    assert_sentence(&err, LW_EINVAL, "has 65 bytes, must have 1 to 64");
    err = refuse_name(far_longer);
    assert_sentence(&err, LW_EINVAL, "has 100000 bytes, must have 1 to 64");
    assert_sentence(&err, LW_EINVAL, "nnn...\"");
    err = refuse_name("");
    assert_sentence(&err, LW_EINVAL, "kind \"\" has 0 bytes");
    err = refuse_name(NULL);
    assert_sentence(&err, LW_EINVAL, "kind is NULL");
    free(longest);
    free(longer);
    free(far_longer);
}

TEST(a_sentence_about_a_name_says_which_byte_and_where) {
    lw_error err = {0};
    assert_status(lw__name_check("queue", "send email", &err), LW_EINVAL);
    assert_string_equal(err.message, "queue \"send email\" has the byte 0x20 ' ' at position 5, "
                                     "may have letters, digits and . _ - / : only");
    err = refuse_name("a\nb");
    assert_sentence(&err, LW_EINVAL, "kind \"a\\x0ab\" has the byte 0x0a at position 2,");
}

TEST(a_sentence_about_the_worst_of_names_is_whole_and_printable) {
    char *worst = repeat('\x1b', LW_NAME_MAX);
    lw_error err = refuse_name(worst);
    for (const char *c = err.message; *c; c++)
        CHECK(*c >= 0x20 && *c < 0x7f);
    assert_sentence(&err, LW_EINVAL, "\\x1b...\" has the byte 0x1b at position 1,");
    assert_sentence(&err, LW_EINVAL, ": only");
    free(worst);
    err = refuse_name("say\"it\\");
    assert_sentence(&err, LW_EINVAL, "\"say\\x22it\\x5c\"");
}

/* ---- keys ---------------------------------------------------------------------------------- */

TEST(keys_are_any_text_without_control_bytes) {
    static const char *const fine[] = {"a",
                                       " ",
                                       "order 17 \"x\" \\ {}",
                                       "k\303\274che",
                                       "\xe6\x9d\xb1\xe4\xba\xac",
                                       "\xf0\x9f\x8e\x89",
                                       "\xc2\xa0",
                                       "\xdf\xbf",
                                       "\xe0\xa0\x80",
                                       "\xed\x9f\xbf",
                                       "\xee\x80\x80",
                                       "\xef\xbf\xbf",
                                       "\xf0\x90\x80\x80",
                                       "\xf4\x8f\xbf\xbf"};
    for (size_t i = 0; i < COUNT_OF(fine); i++)
        assert_status(lw__key_check("key", fine[i], LW_KEY_MAX, NULL), LW_OK);
    for (int byte = 1; byte < 128; byte++) {
        char key[] = {'k', 'e', 'y', (char)byte, 0}, hex[16];
        if (byte >= 0x20 && byte != 0x7f) {
            assert_status(lw__key_check("key", key, LW_KEY_MAX, NULL), LW_OK);
            continue;
        }
        snprintf(hex, sizeof hex, "byte 0x%02x", (unsigned)byte);
        lw_error err = refuse_key(key);
        assert_sentence(&err, LW_EINVAL, hex);
        assert_sentence(&err, LW_EINVAL, "at position 4, may not have control characters");
    }
}

TEST(keys_with_characters_that_nobody_sees_are_refused) {
    static const char *const bad[] = {"ab\xe2\x80\xaetxt.exe", /* right to left */
                                      "ab\xe2\x81\xa6",        "ab\xd8\x9c",     "ab\xe2\x80\x8b",
                                      "ab\xe2\x81\xa0",        "ab\xef\xbb\xbf", "ab\xe2\x80\xa8"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        lw_error err = refuse_key(bad[i]);
        assert_sentence(&err, LW_EINVAL, "at position 3, may not have invisible characters");
    }
    lw_error err = refuse_key("ab\xc2\x9b"); /* a C1 control: the start of a sequence */
    assert_sentence(&err, LW_EINVAL,
                    "key \"ab\\xc2\\x9b\" has the byte 0xc2 at position 3, may not "
                    "have control characters");
}

TEST(a_text_for_a_sentence_may_be_empty_and_is_looked_at_as_far_as_it_is_shown) {
    lw_error err = {0};
    assert_status(lw__shown_check("the URL", "", 8, NULL), LW_OK);
    assert_status(lw__shown_check("the URL", "12345678\n", 8, NULL), LW_OK);
    assert_status(lw__shown_check("the URL", "1234567\xc3\xa9", 8, NULL), LW_OK);
    assert_status(lw__shown_check("the URL", "123\n", 8, &err), LW_EINVAL);
    assert_sentence(&err, LW_EINVAL, "the URL \"123\\x0a\" has the byte 0x0a at position 4,");
}

TEST(keys_that_are_not_utf8_are_refused) {
    static const char *const bad[] = {
        "ab\x80",             /* continues nothing */
        "ab\277c",            /* likewise */
        "ab\xc0\x80",         /* a zero, longer than needed */
        "ab\xc1\xbf",         /* likewise a letter */
        "ab\xe0\x9f\xbf",     /* likewise */
        "ab\xf0\x8f\xbf\xbf", /* likewise */
        "ab\xed\xa0\x80",     /* half of a pair */
        "ab\xf4\x90\x80\x80", /* beyond the last character */
        "ab\xf5\x80\x80\x80", /* likewise */
        "ab\xff",             /* never */
        "ab\xc3",             /* cut off */
        "ab\xe6\x9d",         /* likewise */
        "ab\xf0\x9f\x8e",     /* likewise */
        "ab\xf0",             /* likewise */
        "ab\xc3(",            /* goes on with something else */
        "ab\xe6\x9d(",        /* likewise */
        "ab\xf0\x9f\x8e\xc3", /* likewise */
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char *key = strdup(bad[i]); /* on the heap, where reading past its end shows */
        char hex[32];
        lw_error err = refuse_key(key);
        snprintf(hex, sizeof hex, "byte 0x%02x at position 3,", (unsigned)(unsigned char)key[2]);
        assert_sentence(&err, LW_EINVAL, hex);
        assert_sentence(&err, LW_EINVAL, "UTF-8");
        free(key);
    }
}

/* Every sequence of two and three bytes, against the definition: decode, and encode again. */
static bool is_utf8_character(const unsigned char *bytes, size_t size) {
    uint32_t code = size == 2 ? bytes[0] & 0x1fu : bytes[0] & 0x0fu;
    if (size == 2 ? bytes[0] >> 5 != 6 : bytes[0] >> 4 != 14)
        return false;
    for (size_t i = 1; i < size; i++) {
        if (bytes[i] >> 6 != 2)
            return false;
        code = code << 6 | (bytes[i] & 0x3fu);
    }
    return code >= (size == 2 ? 0x80u : 0x800u) && (code < 0xd800 || code > 0xdfff);
}

/* Controls and what is not seen itself, as text.h promises; the rest of them is in unit.text. */
static bool is_shown(const unsigned char *bytes, size_t size) {
    enum lw__text_fault fault;
    assert_int_equal(lw__text_letter((const char *)bytes, (const char *)bytes + size, &fault),
                     size);
    return fault == LW__TEXT_FINE;
}

TEST(every_character_of_two_or_three_bytes_is_judged_rightly) {
    for (unsigned a = 0x80; a < 0x100; a++)
        for (unsigned b = 0x80; b < 0x100; b++) {
            unsigned char two[] = {(unsigned char)a, (unsigned char)b, 0};
            bool is_fine = lw__key_check("key", (const char *)two, LW_KEY_MAX, NULL) == LW_OK;
            CHECK(is_fine == (is_utf8_character(two, 2) && is_shown(two, 2)));
            for (unsigned c = 0x80; c < 0x100 && a >= 0xe0; c++) {
                unsigned char three[] = {(unsigned char)a, (unsigned char)b, (unsigned char)c, 0};
                is_fine = lw__key_check("key", (const char *)three, LW_KEY_MAX, NULL) == LW_OK;
                CHECK(is_fine == (is_utf8_character(three, 3) && is_shown(three, 3)));
            }
        }
}

TEST(a_key_has_one_to_two_hundred_and_fifty_six_bytes) {
    char *longest = repeat('k', LW_KEY_MAX), *longer = repeat('k', LW_KEY_MAX + 1);
    assert_status(lw__key_check("key", longest, LW_KEY_MAX, NULL), LW_OK);
    longest[LW_KEY_MAX - 1] = '\n';
    lw_error err = refuse_key(longest);
    assert_sentence(&err, LW_EINVAL, "byte 0x0a at position 256,");
    err = refuse_key(longer);
    assert_sentence(&err, LW_EINVAL, "has 257 bytes, must have 1 to 256");
    err = refuse_key("");
    assert_sentence(&err, LW_EINVAL, "key \"\" has 0 bytes");
    err = refuse_key(NULL);
    assert_sentence(&err, LW_EINVAL, "key is NULL");
    free(longest);
    free(longer);
}

/* ---- the nearest name ---------------------------------------------------------------------- */

static const char *const schemes[] = {"memory:", "sqlite:", "postgres:"};

static const char *nearest_scheme(const char *wanted) {
    return lw__name_nearest(wanted, schemes, COUNT_OF(schemes));
}

TEST(a_misspelt_name_suggests_the_nearest_known_one) {
    static const struct {
        const char *wanted, *meant;
    } cases[] = {
        {"memori:", "memory:"},       {"memory", "memory:"},      {"mmory:", "memory:"},
        {"memmory:", "memory:"},      {"emmory:", "memory:"},     {"MEMORY:", "memory:"},
        {"Memroy:", "memory:"},       {"sqlite3:", "sqlite:"},    {"sqllite:", "sqlite:"},
        {"postgresql:", "postgres:"}, {"postgers:", "postgres:"}, {"memory:", "memory:"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const char *found = nearest_scheme(cases[i].wanted);
        assert_non_null(found);
        assert_string_equal(found, cases[i].meant);
    }
}

TEST(what_is_near_nothing_suggests_nothing) {
    static const char *const far[] = {"http:", "redis:", "m", "mem", "x", "mysql:", "mongodb:", ""};
    for (size_t i = 0; i < COUNT_OF(far); i++)
        assert_null(nearest_scheme(far[i]));
}

TEST(of_several_names_the_nearest_is_suggested_and_of_equals_the_first) {
    static const char *const known[] = {"send-emails", "send-email", "send-mail", "sent-email"};
    assert_ptr_equal(lw__name_nearest("send-emial", known, 4), known[1]);
    assert_ptr_equal(lw__name_nearest("senx-email", known, 4), known[1]); /* and known[3] */
    assert_ptr_equal(lw__name_nearest("send-mails", known, 4), known[0]); /* and known[2] */
    assert_ptr_equal(lw__name_nearest("send-mails", known + 1, 3), known[2]);
}

TEST(a_third_of_the_letters_may_be_wrong_and_no_more) {
    static const char *const known[] = {"abcdefghi"};
    assert_non_null(lw__name_nearest("xxxdefghi", known, 1));
    assert_null(lw__name_nearest("xxxxefghi", known, 1));
    assert_non_null(lw__name_nearest("abcdef", known, 1));
    assert_null(lw__name_nearest("abcde", known, 1));
    assert_null(lw__name_nearest("ba", (const char *const[]){"ab"}, 1));
    assert_non_null(lw__name_nearest("AB", (const char *const[]){"ab"}, 1));
    assert_non_null(lw__name_nearest("bac", (const char *const[]){"abc"}, 1));
}

/* The distance by its definition, without rows or a limit; a pair of swapped letters counts one. */
static size_t plain_distance(const char *a, size_t m, const char *b, size_t n) {
    if (m == 0 || n == 0)
        return m + n;
    size_t best = plain_distance(a, m - 1, b, n - 1) + (a[m - 1] != b[n - 1]);
    size_t other = plain_distance(a, m - 1, b, n) + 1;
    best = other < best ? other : best;
    other = plain_distance(a, m, b, n - 1) + 1;
    best = other < best ? other : best;
    if (m > 1 && n > 1 && a[m - 1] == b[n - 2] && a[m - 2] == b[n - 1]) {
        other = plain_distance(a, m - 2, b, n - 2) + 1;
        best = other < best ? other : best;
    }
    return best;
}

TEST(near_is_what_the_definition_of_the_distance_says) {
    unsigned state = 1;
    for (int round = 0; round < 3000; round++) {
        char a[8] = "", b[8] = "";
        state = state * 1103515245u + 12345u;
        size_t m = 1 + (state >> 16) % 6, n = 1 + (state >> 20) % 6;
        for (size_t i = 0; i < m + n; i++) {
            state = state * 1103515245u + 12345u;
            *(i < m ? &a[i] : &b[i - m]) = (char)('a' + (state >> 16) % 3);
        }
        const char *const known[] = {b};
        bool is_near = plain_distance(a, m, b, n) <= (m > n ? m : n) / 3;
        CHECK((lw__name_nearest(a, known, 1) != NULL) == is_near);
    }
}

TEST(nonsense_is_near_nothing) {
    char *longest = repeat('n', LW_NAME_MAX), *longer = repeat('n', LW_NAME_MAX + 1);
    const char *const known[] = {NULL, "", longer, longest};
    assert_null(lw__name_nearest(NULL, known, 4));
    assert_null(lw__name_nearest("name", NULL, 0));
    assert_null(lw__name_nearest("name", known, 0));
    assert_null(lw__name_nearest("name", known, 4));
    assert_null(lw__name_nearest(longer, known, 4));
    assert_ptr_equal(lw__name_nearest(longest, known, 4), longest);
    longest[0] = 'x';
    assert_ptr_equal(lw__name_nearest(longest + 1, known, 4), longest);
    free(longest);
    free(longer);
}

/* The largest table that an engine can have, of names that differ in their last letters only. */
TEST_WITH(a_guess_among_all_kinds_of_an_engine_takes_no_time_to_speak_of, .seconds = 20) {
    static char names[LW_KINDS_MAX][LW_NAME_MAX + 1];
    static const char *known[LW_KINDS_MAX];
    for (unsigned i = 0; i < LW_KINDS_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%059d%05u", 0, i);
        known[i] = names[i];
    }
    char wanted[LW_NAME_MAX + 1];
    snprintf(wanted, sizeof wanted, "%059d%05d", 0, LW_KINDS_MAX);
    assert_non_null(lw__name_nearest(wanted, known, LW_KINDS_MAX));
}

/* ---- to be found by ------------------------------------------------------------------------ */

static bool are_same(const char *a, const char *b) {
    struct lw__name_key a_key = lw__name_key(a, 7), b_key = lw__name_key(b, 7);
    bool are = lw__name_is(a, &a_key, b, &b_key);
    CHECK(!are || a_key.hash == b_key.hash);
    return are;
}

/* Of every length, and with any byte of it changed; in blocks of their own. */
TEST(names_are_told_apart_by_each_of_their_bytes) {
    for (size_t size = 0; size <= LW_NAME_MAX; size++) {
        char *a = repeat('n', size), *b = repeat('n', size), *longer = repeat('n', size + 1);
        assert_true(are_same(a, b));
        assert_false(are_same(a, longer));
        for (size_t i = 0; i < size; i++) {
            b[i] = 'm';
            assert_false(are_same(a, b));
            b[i] = 'n';
        }
        free(a);
        free(b);
        free(longer);
    }
}

/* Names that people make by the dozen differ in a number, wherever it is. */
TEST(names_that_are_alike_spread) {
    static const char *const around[][2] = {
        {"k", ""},
        {"tenant-", ""},
        {"tenant-", ".mail"},
        {"mail.to.tenant-", ".daily.report"},
        {"", ".a-kind-with-a-long-name-of-its-own.and.some.more"},
    };
    enum { NAMES = 256, BUCKETS = 256, MANY = 10 }; /* by chance there are 6 or so */
    for (size_t f = 0; f < COUNT_OF(around); f++) {
        int in_bucket[BUCKETS] = {0};
        for (unsigned i = 0; i < NAMES; i++) {
            char name[LW_NAME_MAX + 1];
            snprintf(name, sizeof name, "%s%03u%s", around[f][0], i, around[f][1]);
            CHECK(++in_bucket[lw__name_key(name, 7).hash % BUCKETS] < MANY);
        }
    }
}
