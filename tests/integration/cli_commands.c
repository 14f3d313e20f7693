/* The command line, against the real server and against a store's file. */
#include "served.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct served s;
static char said[65536];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

static void assert_said(const char *part) {
    assert_has(said, part);
}

static void start(void) {
    char url[64];
    served_start(&s, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
    CHECK(setenv("LEGWORK_URL", url, 1) == 0);
}

static void ask(const char *what, const char *body, int code) {
    struct answer a = served_ask(&s, what, body);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

TEST(a_task_is_submitted_listed_and_shown) {
    start();
    assert_int_equal(RUN("submit", "mail", "{\"to\":\"ann\"}", "--key", "o 17", "--queue", "q"), 0);
    assert_string_equal(said, "1\n");
    assert_int_equal(RUN("submit", "mail", "x", "--key", "o 17", "--queue", "q"), 0);
    assert_said("its key is taken");
    assert_int_equal(RUN("ls", "--key", "o 17"), 0);
    assert_said("enqueued");
    assert_int_equal(RUN("show", "1"), 0);
    assert_said("{\"to\":\"ann\"}");
    assert_int_equal(RUN("ls", "--json", "--state", "enqueued"), 0);
    assert_said("{\"tasks\":[{\"id\":1,");
    assert_int_equal(RUN("explain", "1"), 0);
    assert_said("enqueued\n  - ");
    served_stop(&s);
}

TEST(a_payload_comes_from_a_file_or_standard_input) {
    FILE *file = fopen("payload", "w");
    CHECK(file && fputs("from a file", file) >= 0 && fclose(file) == 0);
    start();
    assert_int_equal(RUN("submit", "k", "--file", "payload"), 0);
    assert_int_equal(RUN("show", "1"), 0);
    assert_said("from a file");
    assert_int_equal(RUN("submit", "k", "--file", "none"), 2);
    CHECK(freopen("payload", "r", stdin) != NULL);
    assert_int_equal(RUN("submit", "k", "-"), 0);
    assert_int_equal(RUN("show", "2"), 0);
    assert_said("from a file");
    served_stop(&s);
}

TEST(waiting_prints_the_result_or_says_how_it_ended) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k&key=a", "x", 201);
    ask("POST /v1/queues/q/claim", NULL, 200);
    assert_int_equal(RUN("submit", "k", "--key", "a", "--wait", "--timeout", "10ms"), 6);
    assert_said("task 1 is still started");
    ask("POST /v1/tasks/1/fail?token=1", "no such host", 204);
    assert_int_equal(RUN("watch", "1"), 5);
    assert_said("no such host");
    assert_int_equal(RUN("show", "1"), 0);
    assert_said("attempt 1: no such host");
    served_stop(&s);
}

/* A worker in a process of its own: claims one task of the queue, and says how it went. */
static pid_t start_worker(const char *verb, const char *body) {
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid > 0)
        return pid;
    char what[64];
    struct answer a = served_ask(&s, "POST /v1/queues/w/claim?wait=30s", NULL);
    const char *token = a.body ? strstr(a.body, "\"token\":\"") : NULL;
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/%s?token=%.*s", number_in(a.body, "id"), verb,
             token ? (int)strcspn(token + 9, "\"") : 0, token ? token + 9 : "");
    ask(what, body, 204);
    _exit(0);
}

static void await_worker(pid_t pid) {
    int status = 1;
    CHECK(waitpid(pid, &status, 0) == pid);
    assert_int_equal(status, 0);
}

TEST(waiting_prints_the_bytes_of_the_result_and_nothing_else) {
    start();
    pid_t worker = start_worker("finish", "{\"result_base64\":\"YQD/DQo=\"}");
    memset(said, 'x', 16);
    assert_int_equal(RUN("submit", "k", "--queue", "w", "--wait"), 0);
    assert_memory_equal(said, "a\0\xff\r\n", 6);
    await_worker(worker);
    worker = start_worker("finish", "{\"result\":{\"ok\": 1}}");
    assert_int_equal(RUN("submit", "k", "--queue", "w", "--wait"), 0);
    assert_string_equal(said, "{\"ok\": 1}");
    await_worker(worker);
    worker = start_worker("fail", "no such host");
    assert_int_equal(RUN("submit", "k", "--queue", "w", "--wait"), 5);
    assert_said("task 3 has failed: no such host");
    await_worker(worker);
    served_stop(&s);
}

TEST(a_unix_socket_is_asked_as_well) {
    served_start(&s, (const char *const[]){"--socket", "here.sock", NULL});
    assert_int_equal(RUN("submit", "k", "--url", "unix:here.sock", "-v"), 0);
    assert_said("asks the server at unix:here.sock");
    assert_int_equal(RUN("ls", "--url", "unix:here.sock"), 0);
    assert_said("enqueued");
    served_stop(&s);
}

TEST(output_that_is_no_terminal_has_no_colours) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k", "\x1b[2J", 201);
    assert_int_equal(RUN("ls"), 0);
    assert_null(strchr(said, '\x1b'));
    assert_int_equal(RUN("show", "1"), 0);
    assert_null(strchr(said, '\x1b'));
    served_stop(&s);
}

TEST(watching_shows_what_was_there_and_what_becomes_of_it) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k", "x", 201);
    assert_int_equal(RUN("watch", "1", "--for", "1ms"), 6);
    assert_said("k  enqueued\n");
    ask("POST /v1/tasks/1/cancel", NULL, 204);
    assert_int_equal(RUN("watch", "1"), 5);
    assert_said("k  aborted");
    assert_int_equal(RUN("watch", "--for", "1ms"), 0);
    assert_string_equal(said, "");
    assert_int_equal(RUN("watch", "--for", "20ms", "--every", "50m"), 0);
    assert_int_equal(RUN("watch", "7"), 4);
    served_stop(&s);
}

/* The end is waited for, not looked for: the next look would be too late. */
TEST(watching_ends_with_what_is_watched) {
    start();
    ask("POST /v1/queues/w/tasks?kind=k", "x", 201);
    struct served c = {0};
    int out;
    served_spawn(&c, (const char *const[]){"watch", "1", "--every", "50m", NULL}, &out);
    char first[64] = "";
    CHECK(read(out, first, sizeof first - 1) > 0); /* it has looked */
    pid_t worker = start_worker("finish", NULL);
    assert_int_equal(served_wait_said(&c, out, said, sizeof said), 0);
    assert_said("finished");
    await_worker(worker);
    served_stop(&s);
}

TEST(watching_a_store_ends_with_what_is_watched) {
    start();
    ask("POST /v1/queues/w/tasks?kind=k", "x", 201);
    struct served c = {0};
    int out;
    served_spawn(
        &c, (const char *const[]){"watch", "1", "--every", "50m", "--url", "sqlite:tasks.db", NULL},
        &out);
    char first[64] = "";
    CHECK(read(out, first, sizeof first - 1) > 0);
    pid_t worker = start_worker("fail", "no");
    assert_int_equal(served_wait_said(&c, out, said, sizeof said), 5);
    assert_said("failed");
    await_worker(worker);
    served_stop(&s);
}

TEST(an_operator_steers) {
    start();
    assert_int_equal(RUN("submit", "k", "--delay", "1h"), 0);
    assert_int_equal(RUN("cancel", "1"), 0);
    assert_said("task 1 is aborted");
    assert_int_equal(RUN("retry", "--all", "--dry-run"), 0);
    assert_said("1 tasks would run again");
    assert_int_equal(RUN("retry", "1"), 0);
    assert_int_equal(RUN("pause", "default"), 0);
    assert_int_equal(RUN("explain", "1"), 0);
    assert_said("paused");
    assert_int_equal(RUN("resume", "default"), 0);
    assert_int_equal(RUN("cancel", "99"), 4);
    assert_int_equal(RUN("retry"), 2);
    assert_int_equal(RUN("drain"), 0);
    assert_int_equal(served_wait(&s), 0);
}

TEST(a_store_is_read_and_submitted_to_without_a_server) {
    start();
    ask("POST /v1/queues/q/tasks?kind=k", "x", 201);
    served_stop(&s);
    assert_int_equal(RUN("ls", "--url", "sqlite:tasks.db", "-v"), 0);
    assert_said("opened the store sqlite:tasks.db as a reader");
    assert_int_equal(RUN("show", "1", "--url", "sqlite:tasks.db"), 0);
    assert_int_equal(RUN("explain", "1", "--url", "sqlite:tasks.db"), 0);
    assert_int_equal(RUN("submit", "later", "--url", "sqlite:tasks.db", "-v"), 0);
    assert_said("as a client");
    assert_int_equal(RUN("cancel", "1", "--url", "sqlite:tasks.db"), 2);
    assert_said("needs the server");
    assert_int_equal(RUN("ls", "--url", "sqlite:none.db"), 3);
}

TEST(mistakes_are_answered_with_what_to_do) {
    assert_int_equal(RUN("sbmit"), 2);
    assert_said("did you mean submit");
    assert_int_equal(RUN("ls", "--stat", "failed"), 2);
    assert_said("did you mean --state?");
    assert_int_equal(RUN("ls", "--url", "unix:none"), 3);
    assert_said("Start one with `legwork serve");
    assert_int_equal(RUN("help", "submit"), 0);
    assert_said("exit codes: 0 done");
}
