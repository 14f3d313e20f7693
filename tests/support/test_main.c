/* test_main.c: the main() of every test program.
 *
 * usage: test-<kind>-<noun> [--list | --here NAME | PREFIX]
 *   (nothing)    run all tests of this file, one after another
 *   PREFIX       run the test of exactly that name, or else all whose names start so
 *   --here NAME  run one test in this very process and folder, without a timeout: for a debugger
 *   --list       print each test's name, timeout in seconds, and 1 if it must run alone
 *
 * A test runs in a child with its own process group, so that whatever it does (crash, hang, fork,
 * fill its folder) ends with it and the parent can say what happened and clean up. */
#include "test.h"

#include <errno.h>
#include <ftw.h>
#include <legwork/status.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 600, SLOWER_IN_SANITIZER = 2, LONGER_IN_SOAK = 10 };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

/* The sanitizers ask these, from a library of their own: hidden names they would not find. A test
 * of fork() is in its right to fork while threads run. */
#define ASKED __attribute__((visibility("default")))
ASKED const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_stack_use_after_return=1:strict_string_checks=1";
}
ASKED const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "halt_on_error=1:second_deadlock_stack=1:die_after_fork=0:atexit_sleep_ms=50";
}

static struct test *first;
static struct test **end = &first;

void test_register(struct test *test) {
    *end = test; /* constructors run in the order of the file, and so do the tests */
    end = &test->next;
}

static bool soaking(void) {
    return getenv("LW_SOAK") != NULL;
}

long test_scale(long normal, long soak) {
    return soaking() ? soak : normal;
}

long test_stride(long sanitized) {
    return SANITIZED && !soaking() ? sanitized : 1;
}

bool test_is_sanitized(void) {
    return SANITIZED;
}

void test_assert_status(int actual, int expected, const char *what, const char *file, int line) {
    if (actual == expected)
        return;
    fprintf(stderr, "%s:%d: %s is %s (%d), should be %s (%d)\n", file, line, what,
            lw_status_name(actual), actual, lw_status_name(expected), expected);
    abort();
}

void test_check_failed(const char *condition, const char *file, int line) {
    fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

static int seconds_of(const struct test *test) {
    int seconds = test->seconds > 0 ? test->seconds : DEFAULT_SECONDS;
    return seconds * (SANITIZED ? SLOWER_IN_SANITIZER : 1) * (soaking() ? LONGER_IN_SOAK : 1);
}

/* Runs a test to the end of this process. cmocka's own runner is left out: it would catch SIGSEGV
 * and unwind with longjmp, which hides crashes from the sanitizers and works on one thread only.
 * Told to abort, its assertions print their message and end the process from whichever thread they
 * fail on. */
static _Noreturn void run_here(const struct test *test) {
    setenv("CMOCKA_TEST_ABORT", "1", 1);
    setvbuf(stdout, NULL, _IOLBF, 0); /* what was printed before a crash is seen */
    test->run();
    exit(EXIT_SUCCESS); /* not _exit: leaks are looked for at exit */
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw) {
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

/* Waits for the child to end, at most so long; it stays unreaped, so that its group can be killed
 * by its id. SIGCHLD is blocked. Returns false at the timeout. */
static bool wait_for(pid_t child, int seconds) {
    struct timespec now, until;
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += seconds;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) == 0
            && info.si_pid == child)
            return true;
        clock_gettime(CLOCK_MONOTONIC, &now);
        if (now.tv_sec >= until.tv_sec)
            return false;
        struct timespec left = {.tv_sec = until.tv_sec - now.tv_sec};
        sigtimedwait(&chld, NULL, &left);
    }
}

/* Runs a test in a child; returns whether it passed, after telling why not. */
static bool run_apart(const struct test *test) {
    char folder[PATH_MAX];
    const char *parent = getenv("TMPDIR");
    sigset_t chld, before;
    int status = 0;

    snprintf(folder, sizeof folder, "%s/legwork-test-XXXXXX", parent && *parent ? parent : "/tmp");
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "%s: cannot make %s: %s\n", test->name, folder, strerror(errno));
        return false;
    }
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, &before);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        sigprocmask(SIG_SETMASK, &before, NULL);
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (chdir(folder) != 0)
            abort();
        run_here(test);
    }
    bool in_time = child > 0 && wait_for(child, seconds_of(test));
    if (child > 0) {
        kill(child, SIGKILL); /* for the moment before it made its group */
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
    }
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);

    if (child < 0)
        fprintf(stderr, "%s: cannot fork: %s\n", test->name, strerror(errno));
    else if (!in_time)
        fprintf(stderr, "%s: not done after %d s\n", test->name, seconds_of(test));
    else if (WIFSIGNALED(status))
        fprintf(stderr, "\n%s: killed by signal %d, %s\n", test->name, WTERMSIG(status),
                strsignal(WTERMSIG(status)));
    else if (status != 0)
        fprintf(stderr, "%s: exit status %d\n", test->name, WEXITSTATUS(status));
    else
        return true;
    return false;
}

static const struct test *find(const char *name) {
    for (const struct test *test = first; test != NULL; test = test->next)
        if (strcmp(test->name, name) == 0)
            return test;
    return NULL;
}

static int list(void) {
    for (const struct test *test = first; test != NULL; test = test->next)
        printf("%s %d %d\n", test->name, seconds_of(test), test->alone);
    return EXIT_SUCCESS;
}

static int run_all(const char *prefix) {
    int passed = 0, failed = 0;
    for (const struct test *test = first; test != NULL; test = test->next) {
        if (strncmp(test->name, prefix, strlen(prefix)) != 0)
            continue;
        bool good = run_apart(test);
        printf("%s  %s\n", good ? "ok    " : "FAILED", test->name);
        good ? passed++ : failed++;
    }
    printf("%d passed, %d failed\n", passed, failed);
    return passed > 0 && failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const char *arg = argc > 1 ? argv[1] : "";
    if (argc == 2 && strcmp(arg, "--list") == 0)
        return list();
    if (argc == 3 && strcmp(arg, "--here") == 0 && find(argv[2]))
        run_here(find(argv[2]));
    if (argc > 2 || arg[0] == '-') {
        fprintf(stderr, "usage: %s [--list | --here NAME | PREFIX]\n", argv[0]);
        return 2;
    }
    int status = find(arg) ? (run_apart(find(arg)) ? EXIT_SUCCESS : EXIT_FAILURE) : run_all(arg);
    fflush(NULL);
    _exit(status); /* leaks were looked for in the children: once is enough */
}
