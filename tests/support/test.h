/* test.h: what a test file includes.
 *
 *     #include "test.h"
 *
 *     TEST(stop_before_start_returns_at_once) {
 *         assert_int_equal(1 + 1, 2);
 *     }
 *
 * That is all: the runner finds the test by itself and runs it in a process of its own, with an
 * empty temporary folder as its working directory and a timeout. The assertions are cmocka's; a
 * failed one prints both values and aborts, so they can be used on any thread. */
#ifndef LW_TESTS_SUPPORT_TEST_H
#define LW_TESTS_SUPPORT_TEST_H

/* cmocka.h asks for the first four. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>

struct test {
    const char *name;
    void (*run)(void);
    int seconds; /* timeout; 0: 600. Twice that under a sanitizer, and ten times in a soak. */
    bool alone;  /* no other test runs beside it: for tests that measure time */
    struct test *next;
};

void test_register(struct test *test);

/* Defines and registers a test; the name is a sentence. */
#define TEST(name) TEST_WITH(name, .seconds = 0)

/* The same with settings: TEST_WITH(a_million_timers_fire, .seconds = 900, .alone = true) */
#define TEST_WITH(test_name, ...)                                                      \
    static void test_name(void);                                                       \
    __attribute__((constructor)) static void register_##test_name(void) {              \
        static struct test test = {.name = #test_name, .run = test_name, __VA_ARGS__}; \
        test_register(&test);                                                          \
    }                                                                                  \
    static void test_name(void)

/* `normal` in `make test`, `soak` in `make soak`: for the number of rounds of a loop. */
long test_scale(long normal, long soak);

/* For a loop that is long because it searches, to which a sanitizer adds nothing: under one it
 * takes each so many-th round only. 1 without, and in `make soak`. */
long test_stride(long sanitized);

/* Whether this is a sanitized build, where threads and memory cost many times as much. */
bool test_is_sanitized(void);

/* Asserts a status and prints both by name. */
#define assert_status(actual, expected) \
    test_assert_status((actual), (expected), #actual, __FILE__, __LINE__)
void test_assert_status(int actual, int expected, const char *what, const char *file, int line);

/* For a condition with no values worth printing: shows the expression and aborts. Any thread. */
#define CHECK(condition) ((condition) ? (void)0 : test_check_failed(#condition, __FILE__, __LINE__))
_Noreturn void test_check_failed(const char *condition, const char *file, int line);

#endif
