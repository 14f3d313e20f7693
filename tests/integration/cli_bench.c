/* `legwork bench` against the real server: it counts, and leaves nothing behind. */
#include "gate.h"
#include "served.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct served s;
static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

static void assert_said(const char *part) {
    assert_has(said, part);
}

static void start_with(const char *const *flags) {
    char url[64];
    served_start(&s, flags);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
    CHECK(setenv("LEGWORK_URL", url, 1) == 0);
}

static void start(void) {
    start_with(NULL);
}

static void ask(const char *what, const char *body, int code) {
    struct answer a = served_ask(&s, what, body);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

/* How many tasks of its kind have ended well. */
static long long finished(void) {
    struct answer a = served_ask(&s, "GET /v1/kinds", NULL);
    const char *kind = a.body ? strstr(a.body, "\"legwork-bench\"") : NULL;
    long long count = kind ? number_in(kind, "finished") : 0;
    answer_free(&a);
    return count;
}

static void assert_nothing_is_left(void) {
    static const char *const states[] = {"created", "scheduled", "enqueued", "started"};
    for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
        assert_int_equal(RUN("ls", "--json", "--state", states[i]), 0);
        assert_said("{\"tasks\":[]");
    }
}

TEST(lives_are_counted_and_told_in_a_table) {
    start();
    assert_int_equal(RUN("bench", "--tasks", "300", "--connections", "4"), 0);
    assert_said(" tasks/s: 300 in ");
    assert_said("step    count  p50 ms  p90 ms  p99 ms  max ms\n");
    assert_said("submit    300 ");
    assert_said("claim     300 ");
    assert_said("finish    300 ");
    assert_said("life      300 ");
    assert_null(strchr(said, '\r')); /* no bar */
    assert_null(strchr(said, '\x1b'));
    assert_int_equal(finished(), 300);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(submits_alone_are_finished_afterwards) {
    start();
    assert_int_equal(RUN("bench", "--mode", "submit", "--tasks", "700", "--size", "0"), 0);
    assert_said(" tasks/s: 700 in ");
    assert_null(strstr(said, "claim "));
    assert_int_equal(finished(), 700);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(batches_need_not_divide_the_number_of_tasks) {
    start();
    assert_int_equal(RUN("bench", "--tasks", "1050", "--batch", "100", "--connections", "3"), 0);
    assert_said(" tasks/s: 1,050 in ");
    assert_said("submit     11 ");
    assert_int_equal(finished(), 1050);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(requests_are_sent_without_waiting_for_the_answers) {
    start();
    assert_int_equal(RUN("bench", "--tasks", "500", "--in-flight", "16", "--connections", "2"), 0);
    assert_said("life      500 ");
    assert_int_equal(finished(), 500);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(large_payloads_are_claimed_in_several_answers) {
    start();
    assert_int_equal(
        RUN("bench", "--tasks", "12", "--batch", "12", "--size", "1MiB", "--connections", "1"), 0);
    assert_said(" tasks/s: 12 in ");
    assert_said("submit      1 ");
    assert_int_equal(finished(), 12);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(a_rate_is_kept_to) {
    start();
    assert_int_equal(RUN("bench", "--tasks", "20", "--rate", "50", "--connections", "5", "--json"),
                     0);
    assert_int_equal(number_in(said, "tasks"), 20);
    CHECK(number_in(said, "tasks_per_second") <= 53); /* the last one is due after 19 / 50 s */
    assert_int_equal(finished(), 20);
    served_stop(&s);
}

TEST(scripts_get_json) {
    start();
    assert_int_equal(RUN("bench", "--tasks", "20", "--json"), 0);
    assert_said("{\"url\":\"http://127.0.0.1:");
    assert_said("\"mode\":\"life\",\"connections\":16,\"in_flight\":1,\"batch\":1,\"size\":100,");
    assert_said("\"tasks_per_second\":");
    assert_said("\"interrupted\":false,\"latency\":{\"submit\":{\"count\":");
    CHECK(number_in(said, "tasks") > 0);
    CHECK(number_in(said, "p99_us") >= number_in(said, "p50_us"));
    CHECK(number_in(said, "max_us") >= number_in(said, "p99_us"));
    served_stop(&s);
}

TEST(a_unix_socket_and_a_store_in_memory_are_measured_as_well) {
    start_with((const char *const[]){"--socket", "here.sock", "--store", "memory:", NULL});
    assert_int_equal(RUN("bench", "--tasks", "100", "--url", "unix:here.sock"), 0);
    assert_said(" tasks/s: 100 in ");
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(what_a_killed_one_has_left_is_finished_by_the_next) {
    start();
    for (int i = 0; i < 3; i++)
        ask("POST /v1/queues/legwork-bench/tasks?kind=legwork-bench", "x", 201);
    ask("POST /v1/queues/other/tasks?kind=other", "x", 201);
    assert_int_equal(RUN("bench", "--tasks", "10"), 0);
    assert_said(" tasks/s: 10 in ");
    assert_int_equal(finished(), 13);
    assert_int_equal(RUN("ls", "--json", "--state", "enqueued"), 0);
    assert_said("{\"tasks\":[{\"id\":4,"); /* others' are others' */
    served_stop(&s);
}

/* ---- the end ------------------------------------------------------------------------------- */

static void start_bench(struct served *bench, int *out, const char *mode) {
    served_spawn(
        bench, (const char *const[]){"bench", "--for", "1h", "--mode", mode, "--batch", "5", NULL},
        out);
}

static void await_tasks(void) {
    await_that(served_code(&s, "GET /v1/tasks/100", NULL) == 200);
}

static void interrupt(const char *mode) {
    struct served bench = {0};
    int out;
    start();
    start_bench(&bench, &out, mode);
    await_tasks();
    CHECK(kill(bench.pid, SIGINT) == 0);
    assert_int_equal(served_wait_said(&bench, out, said, sizeof said), 0);
    assert_said("; interrupted\n");
    CHECK(finished() >= 100);
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(an_interrupt_ends_lives_with_the_figures_so_far) {
    interrupt("life");
}

TEST(an_interrupt_ends_submits_and_cleans_up) {
    interrupt("submit");
}

TEST(a_second_interrupt_waits_for_nobody) {
    struct served bench = {0};
    int out;
    start();
    start_bench(&bench, &out, "life");
    await_tasks();
    CHECK(kill(s.pid, SIGSTOP) == 0);
    CHECK(kill(bench.pid, SIGINT) == 0 && kill(bench.pid, SIGTERM) == 0);
    assert_int_equal(served_wait_said(&bench, out, said, sizeof said), 1);
    assert_said("interrupted again");
    assert_said("tasks may be left in the queue legwork-bench");
    CHECK(kill(s.pid, SIGCONT) == 0);
    served_stop(&s);
}

TEST(a_server_that_dies_is_told_of) {
    struct served bench = {0};
    int out;
    start();
    start_bench(&bench, &out, "life");
    await_tasks();
    served_kill(&s);
    assert_int_equal(served_wait_said(&bench, out, said, sizeof said), 1);
    assert_said("broke off");
    assert_said("tasks may be left in the queue legwork-bench");
}

TEST(a_server_that_is_full_is_told_of) {
    start_with((const char *const[]){"--tasks-max", "50", NULL});
    assert_int_equal(RUN("bench", "--mode", "submit", "--for", "1h"), 1);
    assert_said(" tasks/s: ");
    assert_said("the server refused (503): ");
    assert_nothing_is_left();
    served_stop(&s);
}

TEST(a_queue_that_is_paused_is_told_of) {
    start();
    ask("POST /v1/queues/legwork-bench/tasks?kind=legwork-bench", "x", 201);
    assert_int_equal(RUN("pause", "legwork-bench"), 0);
    assert_int_equal(RUN("bench", "--tasks", "10"), 1);
    assert_said("is it paused (legwork resume legwork-bench)");
    served_stop(&s);
}

TEST(wrong_usage_is_answered_with_what_to_do) {
    assert_int_equal(RUN("bench", "--url", "unix:none"), 3);
    assert_said("Start one with `legwork serve");
    assert_int_equal(RUN("bench", "--url", "sqlite:tasks.db"), 2);
    assert_said("bench needs the server");
    assert_int_equal(RUN("bench", "--mode", "lives"), 2);
    assert_said("is none of life, submit");
    assert_int_equal(RUN("bench", "--connections", "0"), 2);
    assert_int_equal(RUN("help", "bench"), 0);
    assert_said("--in-flight N");
}

/* ---- a terminal ---------------------------------------------------------------------------- */

/* On a terminal, which is both of its outputs. */
static int run_on_terminal(const char *const *arguments) {
    struct served bench = {0};
    int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    CHECK(terminal >= 0 && grantpt(terminal) == 0 && unlockpt(terminal) == 0);
    int other = open(ptsname(terminal), O_RDWR | O_NOCTTY);
    CHECK(other >= 0 && setenv("TERM", "xterm", 1) == 0 && setenv("LC_ALL", "C", 1) == 0);
    served_spawn_on(&bench, arguments, other);
    close(other);
    return served_wait_said(&bench, terminal, said, sizeof said);
}

TEST(on_a_terminal_a_bar_shows_how_far_it_is) {
    start();
    assert_int_equal(run_on_terminal((const char *const[]){"bench", "--for", "500ms", NULL}), 0);
    assert_said("\r\x1b[K");
    assert_said("#");
    assert_said(" %  ");
    assert_said(" tasks/s");
    served_stop(&s);
}
