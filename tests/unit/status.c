/* Statuses have names and texts, failures their details, and the library a version. */
#include "test.h"

#include "base/error.h"

#include <legwork/version.h>
#include <stdio.h>
#include <string.h>

TEST(the_library_says_the_version_of_its_headers) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", LW_VERSION_MAJOR, LW_VERSION_MINOR, LW_VERSION_PATCH);
    assert_string_equal(LW_VERSION, text);
    assert_string_equal(lw_version(), LW_VERSION);
    assert_int_equal(LW_VERSION_NUMBER,
                     LW_VERSION_MAJOR * 1000000 + LW_VERSION_MINOR * 1000 + LW_VERSION_PATCH);
}

TEST(every_status_has_its_name_and_a_text) {
#define CHECK_ONE(name, number, text)                   \
    assert_int_equal(name, number);                     \
    assert_string_equal(lw_status_name(number), #name); \
    assert_string_equal(lw_status_text(number), text);  \
    assert_true(strlen(text) > 0);
    LW_STATUS_MAP(CHECK_ONE)
#undef CHECK_ONE
}

TEST(a_number_that_is_no_status_is_called_unknown) {
    assert_string_equal(lw_status_name(-9999), "LW_UNKNOWN");
    assert_true(strlen(lw_status_text(-9999)) > 0);
}

TEST(setting_an_error_returns_the_status_and_fills_all_fields) {
    lw_error err;
    assert_status(lw__error_set(&err, LW_EINVAL, 22, "queue_limit is %d", -3), LW_EINVAL);
    assert_status(err.status, LW_EINVAL);
    assert_int_equal(err.native, 22);
    assert_string_equal(err.message, "queue_limit is -3");
}

TEST(an_error_can_be_shown_whatever_stands_in_it) {
    lw_error err;
    lw__error_set(&err, LW_EINVAL, 0, "cannot open %s", "\x1b[2Jcaf\xc3\xa9\n\xe2\x80\xae\xff");
    assert_string_equal(err.message, "cannot open \\x1b[2Jcaf\xc3\xa9\\x0a\\xe2\\x80\\xae\\xff");
    char worst[1000];
    memset(worst, '\n', sizeof worst);
    worst[sizeof worst - 1] = 0;
    lw__error_set(&err, LW_EINVAL, 0, "%s", worst);
    assert_int_equal(strlen(err.message), LW_ERROR_MESSAGE_MAX - 1);
    assert_string_equal(err.message + strlen(err.message) - 6, "x0a...");
}

TEST(an_error_may_be_left_out) {
    assert_status(lw__error_set(NULL, LW_EFULL, 0, "%s", "nobody reads this"), LW_EFULL);
}

TEST(an_error_message_can_be_wrapped_in_a_longer_one) {
    lw_error err;
    lw__error_set(&err, LW_ESYSTEM, 2, "no such file");
    lw__error_set(&err, err.status, err.native, "cannot open the store: %s", err.message);
    assert_string_equal(err.message, "cannot open the store: no such file");
}

TEST(a_long_error_message_is_cut_visibly_and_a_fitting_one_is_not) {
    char text[LW_ERROR_MESSAGE_MAX + 1];
    lw_error err;

    memset(text, 'x', sizeof text);
    text[LW_ERROR_MESSAGE_MAX - 1] = '\0';
    lw__error_set(&err, LW_EINVAL, 0, "%s", text);
    assert_string_equal(err.message, text);

    text[LW_ERROR_MESSAGE_MAX - 1] = 'x';
    text[LW_ERROR_MESSAGE_MAX] = '\0';
    lw__error_set(&err, LW_EINVAL, 0, "%s", text);
    assert_int_equal(strlen(err.message), LW_ERROR_MESSAGE_MAX - 1);
    assert_string_equal(err.message + LW_ERROR_MESSAGE_MAX - 5, "x...");
}
