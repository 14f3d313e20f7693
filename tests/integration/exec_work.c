/* `legwork work`: a command that does the tasks of a queue, of a server or of a store. */
#include "commands.h"
#include "gate.h"
#include "served.h"
#include "test.h"

#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static struct served s, worker;
static char said[8192], url[64];

#define RUN(...) served_run((const char *const[]){__VA_ARGS__, NULL}, said, sizeof said)

static void start_server(void) {
    served_start(&s, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
}

/* Starts `legwork work` with these arguments; what it says is `out`. */
static int out;
#define WORK(...) served_spawn(&worker, (const char *const[]){"work", __VA_ARGS__, NULL}, &out)

static void stop_worker(void) {
    kill(worker.pid, SIGTERM);
    assert_int_equal(served_wait_said(&worker, out, said, sizeof said), 0);
}

static void submit(const char *payload) {
    struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k&key=a%20b", payload);
    assert_int_equal(a.code, 201);
    answer_free(&a);
}

static void post(const char *what, int code) {
    struct answer a = served_ask(&s, what, NULL);
    assert_int_equal(a.code, code);
    answer_free(&a);
}

static void await_part(const char *what, const char *part) {
    served_await(&s, what, part, said, sizeof said);
}

static int watch_command(void) {
    pid_t pid;
    read_pids("said", &pid, 1);
    return watch_process(pid);
}

/* Ignores SIGTERM, and says who it is. */
#define STUBBORN "trap '' TERM; echo $$ > said; while :; do sleep 1; done"
#define WAITING "echo $$ > said; read x < go; cat"

/* ---- a server's tasks ---------------------------------------------------------------------- */

static long long lease_of(int id) {
    char what[64];
    snprintf(what, sizeof what, "GET /v1/tasks/%d", id);
    return number_in(served_expect(&s, 200, what, NULL), "lease_until_ms");
}

static long long store_errors(void) {
    long long errors = -1;
    const char *line =
        strstr(served_expect(&s, 200, "GET /metrics", NULL), "\nlegwork_store_errors_total ");
    CHECK(line && sscanf(line, "\nlegwork_store_errors_total %lld", &errors) == 1);
    return errors;
}

/* Holds the file until both leases were extended. False: until a turn has failed, after which
 * extensions are refused. */
static bool are_extended_while_the_file_is_held(void) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open("tasks.db", &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    long long errors = store_errors(), before[] = {lease_of(1), lease_of(2)};
    await_that((lease_of(1) != before[0] && lease_of(2) != before[1]) || store_errors() > errors);
    bool is_so = store_errors() == errors;
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    return is_so;
}

/* The answers wait until the file is free: an extension that waits holds up no other one. A turn
 * fails after 5 s; a busy machine takes some more tries to be quicker than that. */
TEST(leases_are_extended_side_by_side) {
    bool is_so = false;
    make_fifo("go");
    start_server();
    served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "1");
    served_expect(&s, 201, "POST /v1/queues/q/tasks?kind=k", "2");
    WORK("--queue", "q", "--url", url, "--workers", "2", "--lease", "3s", "--", "sh", "-c",
         "read x < go");
    await_part("GET /v1/tasks/1", "lease_until_ms");
    await_part("GET /v1/tasks/2", "lease_until_ms");
    for (int i = 0; i < 10 && !is_so; i++)
        is_so = are_extended_while_the_file_is_held();
    assert_true(is_so);
    for (int i = 1; i <= 2; i++)
        release("go");
    await_part("GET /v1/tasks?state=finished", "\"id\":1");
    await_part("GET /v1/tasks?state=finished", "\"id\":2");
    stop_worker();
    served_stop(&s);
}

/* Its server does not answer for longer than the lease: the command is killed, and the task goes
 * back as soon as the server is there. */
TEST(a_task_whose_lease_could_not_be_extended_is_given_back) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--lease", "1s", "--", "sh", "-c",
         "echo $$ > said; read x < go");
    make_fifo("go");
    int command = watch_command();
    sqlite3 *db;
    assert_int_equal(sqlite3_open("tasks.db", &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    assert_int_equal(sqlite3_exec(db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    await_death(command);
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
    command = watch_command(); /* it runs again */
    served_expect(&s, 200, "GET /v1/tasks/1", NULL);
    assert_null(strstr(served_expect(&s, 200, "GET /v1/tasks/1", NULL), "crashes"));
    release("go");
    await_death(command);
    await_part("GET /v1/tasks/1", "finished");
    stop_worker();
    assert_has(said, "could not be extended in time, and the command was killed");
    assert_has(said, "given back to its queue");
    served_stop(&s);
}

TEST(the_tasks_of_a_server_are_done) {
    start_server();
    submit("hello");
    WORK("--queue", "q", "--url", url, "-v", "--", "sh", "-c",
         "tr a-z A-Z; echo $LEGWORK_TASK_ID $LEGWORK_ATTEMPT $LEGWORK_KIND $LEGWORK_QUEUE "
         "$LEGWORK_KEY");
    await_part("GET /v1/tasks/1", "finished"); /* "HELLO1 1 k q a b\n" */
    assert_has(said, "\"result_base64\":\"SEVMTE8xIDEgayBxIGEgYgo=\"");
    submit("{}");
    await_part("GET /v1/tasks/2", "finished");
    stop_worker();
    assert_has(said, "task 1: done");
    served_stop(&s);
}

TEST(a_result_that_is_json_stays_json) {
    start_server();
    submit("{\"a\": [1]}");
    WORK("--queue", "q", "--url", url, "cat");
    await_part("GET /v1/tasks/1", "finished");
    assert_has(said, "\"result\":{\"a\": [1]}");
    stop_worker();
    served_stop(&s);
}

TEST(outcomes_are_those_of_exit_codes) {
    start_server();
    submit("exit 3");
    WORK("--queue", "q", "--url", url, "--attempts", "1", "--", "sh", "-c",
         "echo why >&2; . /dev/stdin");
    await_part("GET /v1/tasks/1", "\"state\":\"failed\"");
    assert_has(said, "exit code 3: why");
    submit("exit 75");
    await_part("GET /v1/tasks/2", "to be tried again (exit code 75): why");
    assert_null(strstr(said, "\"state\":\"failed\""));
    int code = served_code(&s, "POST /v1/tasks/2/cancel", NULL);
    CHECK(code == 204 || code == 202); /* 202: it is just being tried */
    submit("kill -9 $$");
    await_part("GET /v1/tasks/3", "\"state\":\"failed\"");
    assert_has(said, "killed by SIGKILL: why");
    stop_worker();
    assert_has(said, "legwork: task 1: exit code 3: why\n");
    served_stop(&s);
}

TEST(a_command_that_takes_too_long_fails_in_the_end) {
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--attempts", "1", "--timeout", "50ms", "--grace", "50ms",
         "--", "sh", "-c", "trap '' TERM; while :; do sleep 1; done");
    await_part("GET /v1/tasks/1", "\"state\":\"failed\"");
    assert_has(said, "its time was over, and the command was ");
    stop_worker();
    served_stop(&s);
}

TEST(a_unix_socket_is_asked_as_well) {
    served_start(&s, (const char *const[]){"--socket", "here.sock", NULL});
    submit("x");
    WORK("--queue", "q", "--url", "unix:here.sock", "true");
    await_part("GET /v1/tasks/1", "finished");
    stop_worker();
    served_stop(&s);
}

/* ---- leases -------------------------------------------------------------------------------- */

/* What a busy machine does not use up, and what a test can wait for a third of. */
#define LEASE "9s"

static long long lease_until(void) {
    struct answer a = served_ask(&s, "GET /v1/tasks/1", NULL);
    long long until = number_in(a.body, "lease_until_ms");
    answer_free(&a);
    return until;
}

TEST(a_lease_is_extended_while_the_command_runs) {
    make_fifo("said");
    make_fifo("go");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--lease", LEASE, "--", "sh", "-c", WAITING);
    int watch = watch_command();
    for (int i = 0; i < 2; i++) {
        long long until = lease_until();
        CHECK(until > 0);
        await_that(lease_until() > until);
    }
    release("go");
    await_part("GET /v1/tasks/1", "finished");
    assert_has(said, "\"attempts\":1");
    assert_null(strstr(said, "crashes"));
    await_death(watch);
    stop_worker();
    served_stop(&s);
}

TEST(who_has_a_task_is_shown_with_it) {
    char wanted[80], host[40] = "";
    make_fifo("said");
    make_fifo("go");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--", "sh", "-c", WAITING);
    int watch = watch_command();
    gethostname(host, sizeof host - 1);
    snprintf(wanted, sizeof wanted, "\"worker\":\"%s:%d\"", host, (int)worker.pid);
    await_part("GET /v1/tasks/1", wanted);
    release("go");
    await_death(watch);
    stop_worker();
    served_stop(&s);
}

TEST(a_command_whose_lease_is_over_is_killed) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--lease", "3s", "--grace", "1h", "--", "sh", "-c",
         STUBBORN);
    int watch = watch_command();
    served_kill(&s); /* nobody extends it any more */
    await_death(watch);
    kill(worker.pid, SIGTERM);
    assert_int_equal(served_wait_said(&worker, out, said, sizeof said), 0);
    assert_has(said, "task 1: its lease could not be extended in time, and the command was killed");
}

TEST(a_command_whose_task_is_not_ours_any_more_is_killed) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--lease", LEASE, "--grace", "1h", "--", "sh", "-c",
         STUBBORN);
    int watch = watch_command();
    post("POST /v1/tasks/1/finish?token=1", 204); /* somebody with its token */
    await_death(watch);
    stop_worker();
    assert_has(said, "its lease is lost"); /* at the first refusal */
    await_part("GET /metrics", "legwork_http_answers_total{route=\"extend\",code=\"4xx\"} 1\n");
    served_stop(&s);
}

TEST(a_cancelled_task_takes_its_command_along) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--lease", LEASE, "--grace", "50ms", "--", "sh", "-c",
         STUBBORN);
    int watch = watch_command();
    post("POST /v1/tasks/1/cancel", 202);
    await_death(watch);
    await_part("GET /v1/tasks/1", "\"state\":\"aborted\"");
    stop_worker();
    served_stop(&s);
}

TEST(a_server_that_is_restarted_gets_the_outcome) {
    make_fifo("said");
    make_fifo("go");
    served_start(&s, (const char *const[]){"--socket", "here.sock", NULL});
    submit("x");
    WORK("--queue", "q", "--url", "unix:here.sock", "--", "sh", "-c", WAITING);
    int watch = watch_command();
    served_kill(&s);
    release("go");
    await_death(watch);
    served_start(&s, (const char *const[]){"--socket", "here.sock", NULL});
    await_part("GET /v1/tasks/1", "finished");
    assert_has(said, "\"attempts\":1");
    stop_worker();
    assert_has(said, "it is tried again");
    assert_has(said, "it works again");
    served_stop(&s);
}

/* ---- its end ------------------------------------------------------------------------------- */

/* Of two, when it waits; then it gives up waiting. */
static void stop_idle_one(void) {
    await_part("GET /metrics", "legwork_http_waiting_requests 1\n");
    kill(worker.pid, SIGTERM);
    await_part("GET /metrics", "legwork_http_waiting_requests 0\n");
}

TEST(a_stop_waits_for_the_command_and_takes_no_other_task) {
    make_fifo("said");
    make_fifo("go");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--workers", "2", "--", "sh", "-c", WAITING);
    int watch = watch_command();
    stop_idle_one();
    post("POST /v1/queues/q/tasks?kind=other", 201);
    release("go");
    await_death(watch);
    assert_int_equal(served_wait_said(&worker, out, said, sizeof said), 0);
    await_part("GET /v1/tasks/1", "finished");
    await_part("GET /v1/tasks/2", "\"attempts\":0");
    served_stop(&s);
}

static void assert_given_back(int watch) {
    await_death(watch);
    assert_int_equal(served_wait_said(&worker, out, said, sizeof said), 0);
    await_part("GET /v1/tasks/1", "\"state\":\"enqueued\"");
    assert_has(said, "\"attempts\":0");
    served_stop(&s);
}

TEST(a_second_signal_ends_the_command_and_gives_the_task_back) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--workers", "2", "--grace", "50ms", "--", "sh", "-c",
         STUBBORN);
    int watch = watch_command();
    stop_idle_one();
    kill(worker.pid, SIGINT);
    assert_given_back(watch);
}

TEST(and_so_does_the_end_of_the_time_to_stop) {
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--stop-timeout", "50ms", "--grace", "50ms", "--", "sh",
         "-c", STUBBORN);
    int watch = watch_command();
    kill(worker.pid, SIGTERM);
    assert_given_back(watch);
}

TEST(nothing_outlives_a_worker_that_is_killed) {
    pid_t pids[2];
    make_fifo("said");
    start_server();
    submit("x");
    WORK("--queue", "q", "--url", url, "--", "sh", "-c",
         "trap '' TERM; sleep 1000 & echo $$ $! > said; wait");
    read_pids("said", pids, 2);
    int watches[2] = {watch_process(pids[0]), watch_process(pids[1])};
    served_kill(&worker);
    await_death(watches[0]);
    await_death(watches[1]);
    close(out);
    served_stop(&s);
}

/* ---- a store of its own -------------------------------------------------------------------- */

#define STORE "--url", "sqlite:tasks.db"

TEST(the_tasks_of_a_store_are_done_without_a_server) {
    WORK(STORE, "-v", "--", "tr", "a-z", "A-Z");
    while (RUN("submit", "k", "hello", STORE, "--wait") == 3) /* until the store is there */
        ;
    assert_string_equal(said, "HELLO");
    stop_worker();
    assert_has(said, "owns the store sqlite:tasks.db");
    assert_has(said, "0001: done");
    assert_int_equal(RUN("ls", STORE), 0);
    assert_has(said, "finished");
}

/* Like those of a server: payloads are secret. */
TEST(new_files_of_a_store_that_a_worker_owns_are_its_users_alone) {
    static const char *const names[] = {"tasks.db", "tasks.db-owner", "tasks.db-running"};
    struct stat st;
    umask(0);
    WORK(STORE, "--", "touch", "made");
    while (RUN("submit", "k", "secret", STORE, "--wait") == 3)
        ;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        assert_int_equal(stat(names[i], &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
    }
    assert_int_equal(stat("made", &st), 0); /* what commands write is theirs */
    assert_int_equal(st.st_mode & 0777, 0666);
    stop_worker();
}

TEST(a_task_that_comes_while_the_store_is_opened_is_done) {
    for (long i = 0; i < test_scale(10, 100); i++) {
        WORK(STORE, "cat");
        while (RUN("submit", "k", "hello", STORE, "--wait") == 3)
            ;
        assert_string_equal(said, "hello");
        stop_worker();
        CHECK(unlink("tasks.db") == 0);
    }
}

TEST(in_a_store_too_a_lease_is_extended) {
    WORK(STORE, "--lease", LEASE, "--", "sh", "-c", "sleep 10; echo $LEGWORK_ATTEMPT");
    while (RUN("submit", "k", STORE, "--wait") == 3)
        ;
    assert_string_equal(said, "1\n");
    stop_worker();
}

TEST(in_a_store_too_a_task_is_given_back) {
    make_fifo("said");
    WORK(STORE, "--grace", "50ms", "--stop-timeout", "50ms", "--", "sh", "-c", STUBBORN);
    while (RUN("submit", "k", STORE) == 3)
        ;
    int watch = watch_command();
    stop_worker();
    await_death(watch);
    assert_int_equal(RUN("ls", "--json", STORE), 0);
    assert_has(said, "\"state\":\"enqueued\"");
    assert_has(said, "\"attempts\":0");
}

TEST(a_store_has_one_owner) {
    start_server();
    assert_int_equal(RUN("work", STORE, "true"), 1);
    assert_has(said, "tasks.db");
    served_stop(&s);
}

/* ---- mistakes ------------------------------------------------------------------------------ */

TEST(mistakes_are_answered_with_what_to_do) {
    assert_int_equal(RUN("work"), 2);
    assert_has(said, "something is missing: legwork work");
    assert_int_equal(RUN("work", "--url", "unix:none", "true"), 3);
    assert_has(said, "no server answers");
    assert_int_equal(RUN("work", "--url", "memory:", "true"), 2);
    assert_has(said, "memory: is of one process");
    assert_int_equal(RUN("work", "--url", "nonsense", "true"), 2);
    start_server();
    assert_int_equal(RUN("work", "--url", url, "--queue", "a b", "true"), 2);
    assert_has(said, "queue");
    assert_int_equal(RUN("work", "--url", url, "--workers", "0", "true"), 2);
    assert_int_equal(RUN("help", "work"), 0);
    assert_has(said, "exit code 0 is done");
    served_stop(&s);
}
