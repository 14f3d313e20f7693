/* Texts that are cut keep whole letters. */
#include "base/text.h"
#include "test.h"

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
