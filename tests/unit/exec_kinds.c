/* KIND=COMMAND: what is right, and what is said about what is not. */
#include "test.h"

#include "exec/exec.h"

#include <string.h>

static struct lw__exec_kinds kinds;
static lw_error err;

static int read_two(const char *first, const char *second) {
    struct lw__config_list list = {.count = second ? 2 : 1, .items = {first, second}};
    return lw__exec_kinds_read(&kinds, &list, &err);
}

static void assert_refused(const char *text, const char *sentence) {
    assert_status(read_two(text, NULL), LW_EINVAL);
    assert_string_equal(err.message, sentence);
}

TEST(a_command_may_have_more_of_the_mark) {
    assert_status(read_two("mail:send=A=1 send --to=x", "b=true"), LW_OK);
    assert_int_equal(kinds.count, 2);
    assert_string_equal(kinds.all[0].name, "mail:send");
    assert_string_equal(kinds.commands[0][2], "A=1 send --to=x");
    assert_string_equal(kinds.all[1].name, "b");
    assert_int_equal(kinds.all[1].command, 1);
}

TEST(what_is_wrong_is_said) {
    assert_refused("mail", "exec: \"mail\" is not written as KIND=COMMAND");
    assert_refused("mail=", "exec: \"mail=\" is not written as KIND=COMMAND");
    assert_refused("mail= \t", "exec: \"mail= \\x09\" is not written as KIND=COMMAND");
    assert_refused("=true",
                   "exec: \"\" is no name of a kind: 1 to 64 letters, digits and . _ - / :");
    assert_refused("a b=true",
                   "exec: \"a b\" is no name of a kind: 1 to 64 letters, digits and . _ - / :");
    assert_status(read_two("a=true", "a=false"), LW_EINVAL);
    assert_string_equal(err.message,
                        "exec: the kind a has two commands: a kind has one, which may be a script");
}

TEST(names_are_as_the_engine_has_them) {
    char text[LW_NAME_MAX + 8];
    lw_engine *engine;
    memset(text, 'n', sizeof text);
    memcpy(text + LW_NAME_MAX, "=true", 6);
    assert_status(read_two(text, NULL), LW_OK);
    assert_status(lw_open(&engine, "memory:", LW_ENGINE_OPTIONS(.workers = LW_ZERO), NULL), LW_OK);
    struct lw__exec exec = {.orders = -1};
    assert_status(lw__exec_kinds_handle(&kinds, &exec, engine, 1, 0), LW_OK);
    lw_close(engine);
    memcpy(text + LW_NAME_MAX, "n=true", 7);
    assert_status(read_two(text, NULL), LW_EINVAL);
}
