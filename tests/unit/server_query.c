/* Percent-encoding and queries. */
#include "test.h"

#include "server/query.h"

#include <stdio.h>
#include <stdlib.h>

static struct lw__query_field fields[] = {{"kind", NULL}, {"delay", NULL}, {"key", NULL}};
#define FIELDS (sizeof fields / sizeof *fields)

/* Reads a query with exactly the memory that the contract asks for. */
static int read_query(const char *text, lw_error *err) {
    static char *memory;
    size_t size = strlen(text);
    char *block = malloc(size + 1);
    memcpy(block, text, size);
    free(memory);
    memory = malloc(size + 1);
    int status =
        lw__query_read((struct lw__slice){block, size}, fields, FIELDS, memory, size + 1, err);
    free(block);
    return status;
}

static void assert_refused(const char *query, const char *sentence) {
    lw_error err = {0};
    assert_status(read_query(query, &err), LW_EINVAL);
    assert_status(read_query(query, NULL), LW_EINVAL);
    assert_string_equal(err.message, sentence);
}

TEST(parameters_go_to_the_fields_of_their_names) {
    assert_status(read_query("key=a%20b+c%2B&kind=mail%2Fsend", NULL), LW_OK);
    assert_string_equal(fields[0].value, "mail/send");
    assert_null(fields[1].value);
    assert_string_equal(fields[2].value, "a b c+");
    assert_status(read_query("&&k%69nd=x=y&&delay&", NULL), LW_OK);
    assert_string_equal(fields[0].value, "x=y");
    assert_string_equal(fields[1].value, "");
    assert_null(fields[2].value);
    assert_status(read_query("delay", NULL), LW_OK); /* the name needs room only for a while */
    assert_string_equal(fields[1].value, "");
    assert_status(read_query("", NULL), LW_OK);
    assert_null(fields[0].value);
    assert_status(lw__query_read((struct lw__slice){0}, fields, FIELDS, NULL, 0, NULL), LW_OK);
}

TEST(a_wrong_name_tells_the_nearest_right_one) {
    assert_refused("kidn=x", "the parameter \"kidn\" is not known here; did you mean \"kind\"?");
    assert_refused("Delay=x", "the parameter \"Delay\" is not known here; did you mean \"delay\"?");
    assert_refused("priority=x", "the parameter \"priority\" is not known here");
    assert_refused("=x", "the parameter \"\" is not known here");
    assert_refused("a%0Ab=x", "the parameter \"a\\x0ab\" is not known here");
}

TEST(what_cannot_be_understood_is_refused) {
    assert_refused("key=1&kind=a&key=1", "the parameter \"key\" is there twice");
    assert_refused("key=%", "key is \"%\", with a % that no hex digits follow");
    assert_refused("key=%4", "key is \"%4\", with a % that no hex digits follow");
    assert_refused("key=%4g", "key is \"%4g\", with a % that no hex digits follow");
    assert_refused("key=a%00b", "key is \"a%00b\", with a zero byte");
    assert_refused("key=%ff", "key is \"%ff\", which is not UTF-8");
    assert_refused("key=%c3%28", "key is \"%c3%28\", which is not UTF-8");
    assert_refused("%zz=1",
                   "the name of a parameter is \"%zz\", with a % that no hex digits follow");
}

TEST(without_room_nothing_is_written_past_it) {
    char memory[16];
    for (size_t room = 0; room < 6; room++) {
        memset(memory, '#', sizeof memory);
        assert_status(lw__percent_decode(lw__slice_of("ab%63de"), false, memory, room, "it", NULL),
                      LW_EFULL);
        assert_int_equal(memory[room], '#');
    }
    assert_status(lw__percent_decode(lw__slice_of("ab%63d+"), false, memory, 6, "it", NULL), LW_OK);
    assert_string_equal(memory, "abcd+");
}
