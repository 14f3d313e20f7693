/* Who has a task: a worker that has shown that it does keeps it, and one that does not move gets no
 * more of them. */
#include "commands.h"
#include "served.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLLS 4

static struct served s;

static const char *expect(int code, const char *what, const char *body) {
    return served_expect(&s, code, what, body);
}

static void submit(void) {
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
}

static void say(int code, long long id, const char *verb, long long token, const char *rest,
                const char *body) {
    char what[256];
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/%s?token=%lld%s", id, verb, token, rest);
    expect(code, what, body);
}

static void await_metric(const char *name, int count) {
    char line[96];
    snprintf(line, sizeof line, "%s %d\n", name, count);
    served_await(&s, "GET /metrics", line, NULL, 0);
}

/* A claim of this worker that waits; it is the count-th request that does. */
static int poll_as(const char *worker, const char *lease, int count) {
    char what[160];
    int fd = served_connect(&s);
    snprintf(what, sizeof what, "POST /v1/queues/q/claim?wait=5m&lease=%s%s%s", lease,
             worker ? "&worker=" : "", worker ? worker : "");
    send_request(fd, what, NULL, 0);
    await_metric("legwork_http_waiting_requests", count);
    return fd;
}

/* The id of the task that it got; -1: none. */
static long long read_id(int fd, long long *token) {
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 200);
    long long id = number_in(a.body, "id");
    if (token)
        *token = number_in(a.body, "token");
    answer_free(&a);
    return id;
}

static void reset(int fd) {
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    close(fd);
}

/* ---- a token that was used ----------------------------------------------------------------- */

/* The claim's connection breaks after its worker has spoken of the task on another one. */
static void use_and_reset(int id, int code, const char *verb, const char *rest, const char *body) {
    long long token;
    int fd = served_connect(&s);
    submit();
    send_request(fd, "POST /v1/queues/q/claim?lease=1h", NULL, 0);
    assert_int_equal(read_id(fd, &token), id);
    say(code, id, verb, token, rest, body);
    reset(fd);
    await_metric("legwork_http_connections", 1);
    assert_string_equal(expect(200, "POST /v1/queues/q/claim", NULL), "[]");
    say(204, id, "finish", token, "", NULL);
}

static void use_in_every_way(const char *store) {
    served_start(&s, (const char *const[]){"--store", store, NULL});
    use_and_reset(1, 204, "extend", "&lease=1h", NULL);
    use_and_reset(2, 204, "progress", "&done=1&total=2", "half");
    use_and_reset(3, 204, "checkpoint", "", "here");
    use_and_reset(4, 400, "finish", "", "no JSON"); /* it has it all the same */
    served_stop(&s);
}

TEST(a_task_whose_token_was_used_stays_when_the_connection_of_its_claim_breaks) {
    use_in_every_way("sqlite:tasks.db");
}

TEST(a_task_whose_token_was_used_stays_in_memory_too) {
    use_in_every_way("memory:");
}

/* A token shows that the answer has arrived, and with it the others in there. */
TEST(one_token_shows_the_whole_answer) {
    long long token;
    served_start(&s, NULL);
    submit();
    submit();
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?lease=1h&n=2", NULL, 0);
    assert_int_equal(read_id(fd, &token), 1);
    char many[128];
    snprintf(many, sizeof many, "[{\"id\":1,\"token\":\"%lld\",\"outcome\":\"finish\"}]", token);
    assert_has(expect(200, "POST /v1/settle", many), "LW_OK");
    reset(fd);
    await_metric("legwork_http_connections", 1);
    assert_string_equal(expect(200, "POST /v1/queues/q/claim", NULL), "[]");
    served_stop(&s);
}

TEST(a_token_that_was_guessed_shows_nothing) {
    long long token;
    served_start(&s, NULL);
    submit();
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?lease=1h", NULL, 0);
    assert_int_equal(read_id(fd, &token), 1);
    say(409, 1, "extend", token + 1, "", NULL);
    say(409, 2, "extend", token, "", NULL);
    reset(fd);
    const char *claimed = expect(200, "POST /v1/queues/q/claim?wait=5m", NULL);
    assert_int_equal(number_in(claimed, "attempt"), 1);
    served_stop(&s);
}

/* ---- a worker that does not move ----------------------------------------------------------- */

/* It has several polls open and reads no answer: its lease runs out, and somebody else is there. */
static void freeze_with_polls(const char *store) {
    int frozen[POLLS];
    served_start(&s, (const char *const[]){"--store", store, NULL});
    for (int i = 0; i < POLLS; i++)
        frozen[i] = poll_as("w", "50ms", i + 1);
    int other = poll_as("v", "1h", POLLS + 1);
    submit();
    assert_int_equal(read_id(other, NULL), 1);
    assert_int_equal(number_in(expect(200, "GET /v1/tasks/1", NULL), "crashes"), 1);
    assert_int_equal(read_id(frozen[0], NULL), 1);
    await_metric("legwork_http_waiting_requests", POLLS - 1);
    submit(); /* there is nobody else */
    for (int i = 1; i < POLLS; i++)
        assert_int_equal(read_id(frozen[i], NULL), -1);
    assert_has(expect(200, "GET /v1/tasks/2", NULL), "\"state\":\"enqueued\"");
    for (int i = 0; i < POLLS; i++)
        close(frozen[i]);
    close(other);
    served_stop(&s);
}

TEST(a_frozen_worker_gets_one_task_and_is_charged_once) {
    freeze_with_polls("sqlite:tasks.db");
}

TEST(a_frozen_worker_gets_one_task_in_memory_too) {
    freeze_with_polls("memory:");
}

/* Three claims in one packet, none of them read: two get the tasks that are there, as one claim of
 * n=3 would, and the third does not wait. Each task is charged once, and goes to others. */
static void freeze_with_tasks_there(int frozen, int answered) {
    static const char claim[] = "POST /v1/queues/q/claim?wait=5m&lease=50ms HTTP/1.1\r\n"
                                "Host: 127.0.0.1\r\n\r\n";
    char claims[3 * sizeof claim];
    submit();
    submit();
    snprintf(claims, sizeof claims, "%s%s%s", claim, claim, claim);
    send_text(frozen, claims);
    await_metric("legwork_http_answers_total{route=\"claim\",code=\"2xx\"}", answered + 3);
    assert_int_equal(number_in(expect(200, "GET /v1/tasks/3", NULL), "attempts"), 1);
    served_await(&s, "GET /v1/tasks/2", "\"crashes\":1,", NULL, 0);
    served_await(&s, "GET /v1/tasks/3", "\"crashes\":1,", NULL, 0);
    const char *claimed = expect(200, "POST /v1/queues/q/claim?lease=1h&n=2", NULL);
    assert_has(claimed, "[{\"id\":2,");
    assert_has(claimed, ",{\"id\":3,");
    assert_int_equal(read_id(frozen, NULL), 2);
    assert_int_equal(read_id(frozen, NULL), 3);
    assert_int_equal(read_id(frozen, NULL), -1);
}

/* Without a name it is its connection, with polls one behind the other. */
TEST(a_frozen_worker_without_a_name_gets_one_task) {
    static const char what[] = "POST /v1/queues/q/claim?wait=5m&lease=50ms";
    served_start(&s, NULL);
    int frozen = served_connect(&s);
    for (int i = 0; i < POLLS; i++)
        send_request(frozen, what, NULL, 0);
    await_metric("legwork_http_waiting_requests", 1);
    int other = poll_as(NULL, "1h", 2);
    submit();
    assert_int_equal(read_id(other, NULL), 1);
    assert_int_equal(number_in(expect(200, "GET /v1/tasks/1", NULL), "crashes"), 1);
    assert_int_equal(read_id(frozen, NULL), 1);
    for (int i = 1; i < POLLS; i++)
        assert_int_equal(read_id(frozen, NULL), -1);
    freeze_with_tasks_there(frozen, POLLS + 1);
    close(frozen);
    close(other);
    served_stop(&s);
}

TEST(a_frozen_legwork_work_does_not_fail_a_healthy_task) {
    struct served worker;
    char url[64], said[4096];
    int out;
    served_start(&s, NULL);
    snprintf(url, sizeof url, "http://127.0.0.1:%d", s.port);
    served_spawn(&worker,
                 (const char *const[]){"work", "--queue", "q", "--url", url, "--workers", "4",
                                       "--lease", "1s", "--", "true", NULL},
                 &out);
    await_metric("legwork_http_waiting_requests", 4);
    served_freeze(&worker);
    int other = poll_as("v", "1h", 5);
    long long token;
    submit();
    assert_int_equal(read_id(other, &token), 1);
    const char *task = expect(200, "GET /v1/tasks/1", NULL);
    assert_int_equal(number_in(task, "crashes"), 1);
    assert_int_equal(number_in(task, "attempts"), 2);
    submit(); /* nobody asks for it but the polls of the frozen one */
    task = expect(200, "GET /v1/tasks/2", NULL);
    assert_int_equal(number_in(task, "attempts"), 0);
    CHECK(kill(worker.pid, SIGCONT) == 0);
    say(204, 1, "finish", token, "", NULL);
    submit(); /* it is a worker like any other again */
    served_await(&s, "GET /v1/tasks/2", "finished", NULL, 0);
    served_await(&s, "GET /v1/tasks/3", "finished", NULL, 0);
    kill(worker.pid, SIGTERM);
    assert_int_equal(served_wait_said(&worker, out, said, sizeof said), 0);
    close(other);
    served_stop(&s);
}

/* One that moves has all its polls served: an empty answer is followed by the next poll. */
TEST(a_worker_with_many_polls_gets_a_task_for_each) {
    int polls[POLLS];
    bool has_run[POLLS + 1] = {false};
    served_start(&s, NULL);
    for (int i = 0; i < POLLS; i++)
        polls[i] = poll_as("w", "1h", i + 1);
    for (int i = 0; i < POLLS; i++)
        submit();
    for (int i = 0; i < POLLS; i++) {
        long long id = read_id(polls[i], NULL);
        while (id < 0) {
            send_request(polls[i], "POST /v1/queues/q/claim?wait=5m&lease=1h&worker=w", NULL, 0);
            id = read_id(polls[i], NULL);
        }
        CHECK(id >= 1 && id <= POLLS && !has_run[id]);
        has_run[id] = true;
    }
    for (int i = 0; i < POLLS; i++)
        close(polls[i]);
    served_stop(&s);
}

/* Polls that find nothing stay open, whatever else their worker has. */
TEST(polls_of_a_busy_worker_wait_on) {
    served_start(&s, NULL);
    int busy = poll_as("w", "1h", 1), waiting = poll_as("w", "1h", 2);
    submit();
    assert_int_equal(read_id(busy, NULL), 1);
    await_metric("legwork_http_waiting_requests", 1);
    submit();
    assert_int_equal(read_id(waiting, NULL), -1);
    close(busy);
    close(waiting);
    served_stop(&s);
}

/* A token that was used shows that the worker moves. */
TEST(polls_of_a_worker_that_extends_are_served) {
    long long token;
    served_start(&s, NULL);
    int busy = poll_as("w", "1h", 1), waiting = poll_as("w", "1h", 2);
    submit();
    assert_int_equal(read_id(busy, &token), 1);
    say(204, 1, "extend", token, "", NULL);
    submit();
    assert_int_equal(read_id(waiting, NULL), 2);
    close(busy);
    close(waiting);
    served_stop(&s);
}

/* ---- a task that comes back from the same worker ------------------------------------------- */

/* Its lease has run out, and nobody gets it before the queue is resumed. */
static void lose_as(const char *worker, int id) {
    char what[128];
    int fd = served_connect(&s);
    submit();
    snprintf(what, sizeof what, "POST /v1/queues/q/claim?lease=50ms%s%s", worker ? "&worker=" : "",
             worker ? worker : "");
    send_request(fd, what, NULL, 0);
    assert_int_equal(read_id(fd, NULL), id);
    close(fd);
    expect(204, "POST /v1/queues/q/pause", NULL);
    snprintf(what, sizeof what, "GET /v1/tasks/%d", id);
    served_await(&s, what, "\"state\":\"enqueued\"", NULL, 0);
}

static void resume(void) {
    expect(204, "POST /v1/queues/q/resume", NULL);
}

TEST(a_task_goes_to_another_worker_than_the_one_that_lost_it) {
    long long token;
    served_start(&s, NULL);
    lose_as("w", 1);
    int same = poll_as("w", "1h", 1), other = poll_as("v", "1h", 2);
    resume();
    assert_int_equal(read_id(other, &token), 1);
    await_metric("legwork_http_waiting_requests", 1); /* it waits on */
    assert_int_equal(number_in(expect(200, "GET /v1/tasks/1", NULL), "attempts"), 2);
    say(204, 1, "finish", token, "", NULL);
    submit();
    assert_int_equal(read_id(same, NULL), 2);
    close(same);
    close(other);
    served_stop(&s);
}

/* A worker without a name is its connection, which stays. */
static int lose_unnamed(void) {
    int fd = served_connect(&s);
    submit();
    send_request(fd, "POST /v1/queues/q/claim?lease=50ms", NULL, 0);
    assert_int_equal(read_id(fd, NULL), 1);
    expect(204, "POST /v1/queues/q/pause", NULL);
    served_await(&s, "GET /v1/tasks/1", "\"state\":\"enqueued\"", NULL, 0);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL, 0);
    await_metric("legwork_http_waiting_requests", 1);
    return fd;
}

TEST(a_task_goes_to_another_connection_than_the_one_that_lost_it) {
    served_start(&s, NULL);
    int same = lose_unnamed(), other = poll_as(NULL, "1h", 2);
    resume();
    assert_int_equal(read_id(other, NULL), 1);
    await_metric("legwork_http_waiting_requests", 1); /* the other one waits on */
    submit();
    assert_int_equal(read_id(same, NULL), 2);
    close(same);
    close(other);
    served_stop(&s);
}

TEST(a_connection_that_is_alone_gets_its_task_again) {
    served_start(&s, NULL);
    int same = lose_unnamed();
    resume();
    assert_int_equal(read_id(same, NULL), 1);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"an unnamed worker on connection ");
    close(same);
    served_stop(&s);
}

TEST(who_lost_a_task_survives_a_restart) {
    served_start(&s, NULL);
    lose_as("w", 1);
    served_kill(&s);
    served_start(&s, NULL);
    expect(204, "POST /v1/queues/q/pause", NULL);
    int same = poll_as("w", "1h", 1), other = poll_as("v", "1h", 2);
    resume();
    assert_int_equal(read_id(other, NULL), 1);
    close(same);
    close(other);
    served_stop(&s);
}

/* Behind it there is another one, which it gets. */
TEST(a_worker_that_lost_a_task_gets_the_others) {
    served_start(&s, NULL);
    lose_as("w", 1);
    submit();
    int same = poll_as("w", "1h", 1), other = poll_as("v", "1h", 2);
    resume();
    assert_int_equal(read_id(other, NULL), 1);
    assert_int_equal(read_id(same, NULL), 2);
    close(same);
    close(other);
    served_stop(&s);
}

TEST(a_worker_that_is_alone_gets_its_task_again) {
    served_start(&s, NULL);
    lose_as("w", 1);
    int gone = poll_as("w", "1h", 1), same = poll_as("w", "1h", 2);
    resume();
    assert_int_equal(read_id(gone, NULL), 1);
    close(gone);
    close(same);
    served_stop(&s);
}

/* What it gave back by itself it may have again. */
TEST(a_worker_that_retried_a_task_gets_it_again) {
    long long token;
    served_start(&s, NULL);
    submit();
    int same = served_connect(&s);
    send_request(same, "POST /v1/queues/q/claim?worker=w&lease=1h", NULL, 0);
    assert_int_equal(read_id(same, &token), 1);
    expect(204, "POST /v1/queues/q/pause", NULL);
    say(204, 1, "retry", token, "&after=0", "again");
    close(same);
    same = poll_as("w", "1h", 1);
    int other = poll_as("v", "1h", 2);
    resume();
    assert_int_equal(read_id(same, NULL), 1);
    close(same);
    close(other);
    served_stop(&s);
}
