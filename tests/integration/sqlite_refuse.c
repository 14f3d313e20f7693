/* What the server says while it cannot write: a disk that is full, a file that another connection
 * holds, one that was deleted. All of it goes by when its cause has gone. */
#include "gate.h"
#include "own_sqlite.h"
#include "served.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static struct served s;
static char finish[64]; /* of the task that is leased */

/* ---- help ---------------------------------------------------------------------------------- */

static void say_into_file(void) {
    int fd = open("log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, STDERR_FILENO) < 0 || signal(SIGXFSZ, SIG_IGN) == SIG_ERR)
        _exit(126);
}

/* How often the log has it. */
static int logged(const char *part) {
    static char text[65536];
    FILE *file = fopen("log", "r");
    CHECK(file != NULL);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

static void submit_aborted(int id, const char *queue) {
    char what[64];
    snprintf(what, sizeof what, "POST /v1/queues/%s/tasks?kind=k", queue);
    served_expect(&s, 201, what, "x");
    snprintf(what, sizeof what, "POST /v1/tasks/%d/cancel", id);
    served_expect(&s, 204, what, NULL);
}

static long long lease_task(void) {
    served_expect(&s, 201, "POST /v1/queues/leased/tasks?kind=k", "x");
    const char *at = strstr(served_expect(&s, 200, "POST /v1/queues/leased/claim", NULL), "token");
    CHECK(at != NULL);
    return strtoll(at + strlen("token\":\""), NULL, 10);
}

/* A task to be claimed, one to be cancelled, three that are aborted: to be deleted, run, and run by
 * the route for many; and two that workers have. */
static void start_with_tasks(void) {
    served_start_with(&s, NULL, say_into_file);
    served_expect(&s, 200, "GET /readyz", NULL);
    served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "x");
    served_expect(&s, 201, "POST /v1/queues/other/tasks?kind=k", "x");
    submit_aborted(3, "aborted");
    submit_aborted(4, "aborted");
    submit_aborted(5, "many");
    snprintf(finish, sizeof finish, "POST /v1/tasks/6/finish?token=%lld", lease_task());
    lease_task();
}

/* Why it cannot be written: the word for programs, and a part of the sentence for people. Without
 * its file a store cannot list the tasks that are to be run. */
struct trouble {
    const char *word, *reason, *of_many;
};

static const char many_run[] = "\"1 tasks run again as soon as that can be written";
static const struct trouble full = {"store_full", "the disk is full", many_run};
static const struct trouble busy = {"store_busy", "another connection holds the file", many_run};
static const struct trouble missing = {"store_missing", "the file was deleted, moved or replaced",
                                       ""};

/* The sentence has the reason, and this part. */
static void assert_trouble(struct answer a, const struct trouble *trouble, const char *part) {
    char code[64];
    if (a.code != 503)
        fprintf(stderr, "%d %s\n", a.code, a.body);
    assert_int_equal(a.code, 503);
    assert_has(a.head, "Retry-After: 1\r\n");
    snprintf(code, sizeof code, "\"code\":\"%s\"", trouble->word);
    assert_has(a.body, code);
    assert_has(a.body, trouble->reason);
    assert_has(a.body, part);
    answer_free(&a);
}

static void assert_refused(const char *what, const char *body, const struct trouble *trouble) {
    fprintf(stderr, "%s\n", what);
    assert_trouble(served_ask(&s, what, body), trouble, "");
}

/* Steering, and what a worker says, is done, and only not written yet: repeating it under a key
 * would be wrong advice. The requests are sent at once, because each waits until a turn has
 * failed. */
static void assert_done_unwritten(const struct trouble *trouble) {
    const struct {
        const char *what, *part;
    } asked[] = {
        {"POST /v1/tasks/2/cancel", "it is done, and will be written"},
        {"DELETE /v1/tasks/3", "it is done, and will be written"},
        {"POST /v1/tasks/4/run", "it is done, and will be written"},
        {finish, "it is done, and will be written"},
        {"POST /v1/run?queue=many", trouble->of_many},
    };
    enum { COUNT = sizeof asked / sizeof *asked };
    int fds[COUNT];
    for (int i = 0; i < COUNT; i++) {
        fds[i] = served_connect(&s);
        send_request(fds[i], asked[i].what, NULL, 0);
    }
    for (int i = 0; i < COUNT; i++) {
        fprintf(stderr, "%s\n", asked[i].what);
        assert_trouble(read_answer(fds[i], false), trouble, asked[i].part);
        close(fds[i]);
    }
}

/* What changes nothing that has to be written is answered as always, and at once. */
static void assert_nothing_to_write(void) {
    assert_has(served_expect(&s, 409, "DELETE /v1/tasks/1", NULL), "cancel it first");
    served_expect(&s, 202, "POST /v1/tasks/1/run", NULL);
    assert_has(served_expect(&s, 409, "DELETE /v1/tasks/7", NULL), "cancel it first");
    served_expect(&s, 202, "POST /v1/tasks/7/run", NULL);
    served_expect(&s, 202, "POST /v1/tasks/7/cancel", NULL); /* its worker is asked to give up */
    served_expect(&s, 404, "POST /v1/tasks/999/cancel", NULL);
}

static void assert_not_ready(const char *word) {
    struct answer a = served_ask(&s, "GET /readyz", NULL);
    assert_int_equal(a.code, 503);
    assert_has(a.head, "Retry-After: 1\r\n");
    assert_has(a.body, word);
    answer_free(&a);
    served_expect(&s, 200, "GET /healthz", NULL);
}

/* Everything that has to be written is refused, and what is only read is not. */
static void assert_refuses_all(const struct trouble *trouble) {
    assert_refused("POST /v1/queues/q/tasks?kind=k", "y", trouble);
    assert_not_ready(trouble->word);
    assert_refused("POST /v1/tasks", "[{\"kind\":\"k\"},{\"kind\":\"k\"}]", trouble);
    assert_refused("POST /v1/queues/q/claim", NULL, trouble);
    assert_refused("POST /v1/queues/leased/claim", NULL, trouble); /* there is nothing in it */
    assert_refused("POST /v1/queues/unknown/claim", NULL, trouble);
    assert_refused("POST /v1/queues/unknown/claim?wait=20s", NULL, trouble);
    assert_nothing_to_write();
    assert_done_unwritten(trouble);
    served_expect(&s, 200, "GET /v1/tasks/1", NULL);
    const char *figures = served_expect(&s, 200, "GET /metrics", NULL);
    assert_has(figures, "legwork_store_halted 1\n");
    assert_has(figures, "legwork_store_commit_age_seconds ");
    CHECK(!strstr(figures, "legwork_store_errors_total 0\n"));
}

static void assert_recovers(void) {
    served_await(&s, "GET /readyz", "ready\n", NULL, 0);
    served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "z");
    served_await(&s, "GET /metrics", "legwork_store_halted 0\n", NULL, 0);
    assert_has(served_expect(&s, 200, "GET /v1/tasks/2", NULL), "\"aborted\"");
    served_expect(&s, 404, "GET /v1/tasks/3", NULL);
    assert_has(served_expect(&s, 200, "GET /v1/tasks/4", NULL), "\"enqueued\"");
    assert_has(served_expect(&s, 200, "GET /v1/tasks/6", NULL), "\"finished\"");
    assert_has(served_expect(&s, 200, "POST /v1/queues/q/claim", NULL), "\"id\":1");
    await_that(logged("the store can be written again") > 0);
    assert_int_equal(logged("the store can be written again"), 1);
    CHECK(logged("a turn could not be written") >= 1);
    served_stop(&s);
}

static void limit_files(rlim_t size) {
    struct rlimit limit = {size, RLIM_INFINITY};
    CHECK(prlimit(s.pid, RLIMIT_FSIZE, &limit, NULL) == 0);
}

/* ---- what can happen ----------------------------------------------------------------------- */

TEST(a_server_without_trouble_has_figures_that_say_so) {
    start_with_tasks();
    const char *figures = served_expect(&s, 200, "GET /metrics", NULL);
    assert_has(figures, "legwork_store_errors_total 0\n");
    assert_has(figures, "legwork_store_halted 0\n");
    served_stop(&s);
    assert_int_equal(logged("error "), 0);
}

TEST(a_full_disk_is_said_wherever_something_is_to_be_written) {
    start_with_tasks();
    limit_files(4096);
    assert_refuses_all(&full);
    limit_files(RLIM_INFINITY);
    assert_recovers();
}

TEST(a_file_that_another_holds_is_said_wherever_something_is_to_be_written) {
    start_with_tasks();
    sqlite3 *db = connect_db("tasks.db");
    run_sql(db, "BEGIN IMMEDIATE");
    assert_refuses_all(&busy);
    run_sql(db, "COMMIT");
    sqlite3_close(db);
    assert_recovers();
}

TEST(a_file_that_is_gone_is_said_before_anything_is_to_be_written) {
    start_with_tasks();
    CHECK(rename("tasks.db", "elsewhere") == 0);
    assert_not_ready("store_missing");
    assert_refuses_all(&missing);
    CHECK(rename("elsewhere", "tasks.db") == 0);
    assert_recovers();
}

/* It waits, and the trouble comes meanwhile. */
TEST(a_claim_that_waits_ends_with_the_reason) {
    start_with_tasks();
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/empty/claim?wait=2s", NULL, 0);
    served_await(&s, "GET /metrics", "legwork_http_waiting_requests 1\n", NULL, 0);
    CHECK(rename("tasks.db", "elsewhere") == 0);
    assert_not_ready("store_missing");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 503);
    assert_has(a.body, "store_missing");
    answer_free(&a);
    close(fd);
    CHECK(rename("elsewhere", "tasks.db") == 0);
    served_await(&s, "GET /readyz", "ready\n", NULL, 0);
    served_stop(&s);
}
