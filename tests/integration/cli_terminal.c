/* The command line on a terminal: colours, the spinner, and NO_COLOR; and `submit --wait` on a
 * store that another process owns. */
#include "served.h"
#include "test.h"

#include <legwork/engine.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;
static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

/* A terminal of 100 columns. */
static int open_terminal(int *screen) {
    struct winsize size = {.ws_row = 24, .ws_col = 100};
    int keyboard;
    CHECK(openpty(&keyboard, screen, NULL, NULL, &size) == 0);
    return keyboard;
}

/* Runs it with a terminal as its output, and returns its exit code. */
static int run_on_terminal(const char *const *arguments) {
    struct served c = {0};
    int screen;
    int keyboard = open_terminal(&screen);
    served_spawn_on(&c, arguments, screen);
    close(screen);
    return served_wait_said(&c, keyboard, said, sizeof said); /* EIO at its end */
}

#define ON_TERMINAL(...) run_on_terminal((const char *const[]){__VA_ARGS__, NULL})

static bool is_said(const char *part) {
    return strstr(said, part) != NULL;
}

static void start(void) {
    char url[64];
    served_start(&s, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
    CHECK(setenv("LEGWORK_URL", url, 1) == 0);
    CHECK(setenv("TERM", "xterm", 1) == 0);
    CHECK(setenv("LC_ALL", "C.UTF-8", 1) == 0);
    CHECK(unsetenv("NO_COLOR") == 0);
}

static void ask(const char *what, const char *body, int code) {
    struct answer a = served_ask(&s, what, body);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

TEST(a_terminal_has_colours_unless_somebody_does_not_want_them) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k", "x", 201);
    assert_int_equal(ON_TERMINAL("ls"), 0);
    CHECK(is_said("\x1b["));
    CHECK(is_said("enqueued"));
    CHECK(setenv("NO_COLOR", "1", 1) == 0);
    assert_int_equal(ON_TERMINAL("ls"), 0);
    CHECK(!is_said("\x1b[") && is_said("enqueued"));
    CHECK(unsetenv("NO_COLOR") == 0 && setenv("TERM", "dumb", 1) == 0);
    assert_int_equal(ON_TERMINAL("ls"), 0);
    CHECK(!is_said("\x1b[") && is_said("enqueued"));
    served_stop(&s);
}

TEST(what_a_task_says_cannot_write_to_the_terminal) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k", "\x1b]0;boo\x07", 201);
    CHECK(setenv("NO_COLOR", "1", 1) == 0);
    assert_int_equal(ON_TERMINAL("show", "1"), 0);
    CHECK(!is_said("\x1b") && !is_said("\x07"));
    CHECK(is_said("\\x1b]0;boo\\x07"));
    served_stop(&s);
}

/* Lets `submit --wait` run on a terminal until it shows this, and ends its task then. */
static void wait_until_shown(const char *symbol, const char *cancel) {
    struct served c = {0};
    int screen;
    int keyboard = open_terminal(&screen);
    size_t size = 0;
    served_spawn_on(&c, (const char *const[]){"submit", "k", "--wait", NULL}, screen);
    close(screen);
    for (said[0] = '\0'; !is_said(symbol); said[size] = '\0') {
        ssize_t got = read(keyboard, said + size, sizeof said - 1 - size);
        CHECK(got > 0);
        size += (size_t)got;
    }
    ask(cancel, NULL, 204);
    assert_int_equal(served_wait_said(&c, keyboard, said + size, sizeof said - size), 5);
}

/* It turns while the task waits, and leaves nothing behind. */
TEST(waiting_turns_a_spinner_and_wipes_it) {
    start();
    wait_until_shown("⠙", "POST /v1/tasks/1/cancel");
    CHECK(is_said("task 1 enqueued"));
    CHECK(is_said("\r\x1b[Klegwork: task 1 was aborted")); /* on an empty line */
    CHECK(setenv("LC_ALL", "C", 1) == 0);
    wait_until_shown("/\x1b[0m task 2 enqueued", "POST /v1/tasks/2/cancel");
    CHECK(!is_said("⠙"));
    assert_int_equal(RUN("submit", "k", "--wait", "--timeout", "300ms"), 6);
    assert_has(said, "is still enqueued");
    CHECK(!is_said("\x1b") && !is_said("\r")); /* no terminal, no spinner */
    served_stop(&s);
}

/* ---- a store with an owner ------------------------------------------------------------------- */

static lw_outcome answer(lw_ctx *ctx, const lw_task *task) {
    if (task->payload.size == 3 && memcmp(task->payload.data, "bad", 3) == 0)
        return lw_fail(ctx, "it was bad");
    return lw_done_with(ctx, task->payload);
}

TEST(submit_waits_for_the_process_that_owns_the_store) {
    lw_engine *engine = NULL;
    lw_error err = {0};
    assert_status(lw_open(&engine, "sqlite:own.db", LW_ENGINE_OPTIONS(.workers = 1), &err), LW_OK);
    assert_status(lw_handle(engine, "echo", answer, NULL, NULL), LW_OK);
    assert_status(lw_start(engine, &err), LW_OK);
    assert_int_equal(RUN("submit", "echo", "hello", "--wait", "--url", "sqlite:own.db"), 0);
    assert_string_equal(said, "hello");
    assert_int_equal(RUN("submit", "echo", "bad", "--wait", "--url", "sqlite:own.db"), 5);
    CHECK(is_said("has failed: it was bad"));
    assert_int_equal(RUN("submit", "none", "--wait", "--timeout", "50ms", "--url", "sqlite:own.db"),
                     6);
    CHECK(is_said("is still "));
    assert_status(lw_stop(engine, LW_DRAIN, -1), LW_OK);
    lw_close(engine);
}
