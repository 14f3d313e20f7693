/* Remote workers, against the real server. */
#include "served.h"
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;

static const char *expect(int code, const char *what, const char *body) {
    return served_expect(&s, code, what, body);
}

static void submit(const char *query, const char *body) {
    char what[256];
    snprintf(what, sizeof what, "POST /v1/queues/q/tasks?kind=k%s", query);
    expect(201, what, body);
}

/* "POST /v1/tasks/1/finish?token=7", and what follows the token. */
static const char *say(int code, long long id, const char *verb, long long token, const char *rest,
                       const char *body) {
    char what[256];
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/%s?token=%lld%s", id, verb, token, rest);
    return expect(code, what, body);
}

static long long claim_token(void) {
    return number_in(expect(200, "POST /v1/queues/q/claim", NULL), "token");
}

static void assert_state(long long id, const char *state) {
    char what[64], wanted[64];
    snprintf(what, sizeof what, "GET /v1/tasks/%lld", id);
    snprintf(wanted, sizeof wanted, "\"state\":\"%s\"", state);
    assert_has(expect(200, what, NULL), wanted);
}

/* Until so many requests wait for something. */
static void await_waiting(int count) {
    char line[64];
    snprintf(line, sizeof line, "legwork_http_waiting_requests %d\n", count);
    served_await(&s, "GET /metrics", line, NULL, 0);
}

/* ---- claim --------------------------------------------------------------------------------- */

TEST(a_worker_claims_and_finishes) {
    served_start(&s, NULL);
    assert_string_equal(expect(200, "POST /v1/queues/q/claim", NULL), "[]");
    submit("&key=a", "{\"x\": 1}");
    const char *claimed = expect(200, "POST /v1/queues/q/claim?lease=5m", NULL);
    assert_has(claimed, "[{\"id\":1,\"token\":\"");
    assert_has(claimed, "\"kind\":\"k\",\"queue\":\"q\",\"key\":\"a\",\"attempt\":1");
    assert_has(claimed, "\"lease_ms\":300000");
    assert_has(claimed, "\"payload\":{\"x\": 1}");
    long long token = number_in(claimed, "token");
    assert_state(1, "started");
    assert_string_equal(expect(200, "POST /v1/queues/q/claim", NULL), "[]");
    say(409, 1, "finish", token + 1, "", NULL);
    say(204, 1, "finish", token, "", "{\"result\": [1,  2]}");
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"result\":[1,  2]");
    assert_state(1, "finished");
    say(204, 1, "finish", token, "",
        "{\"result\": [3]}"); /* its answer was lost, for all we know */
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"result\":[1,  2]");
    say(409, 1, "fail", token, "", "no");
    say(409, 1, "finish", token + 1, "", NULL);
    say(409, 2, "finish", token, "", NULL);
    served_stop(&s);
}

TEST(a_lease_without_time_is_refused) {
    static const char *const wrong[] = {"0", "0s", "0ms", "24h1ms", "2d"};
    char what[96];
    served_start(&s, NULL);
    submit("", "x");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(what, sizeof what, "POST /v1/queues/q/claim?lease=%s", wrong[i]);
        assert_has(expect(400, what, NULL), "from 1ms to 1d");
    }
    assert_state(1, "enqueued");
    const char *claimed = expect(200, "POST /v1/queues/q/claim?lease=24h", NULL);
    long long token = number_in(claimed, "token");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(what, sizeof what, "POST /v1/tasks/1/extend?token=%lld&lease=%s", token, wrong[i]);
        assert_has(expect(400, what, NULL), "from 1ms to 1d");
    }
    say(204, 1, "extend", token, "&lease=1ms", NULL);
    served_stop(&s);
}

TEST(a_worker_says_who_it_is) {
    served_start(&s, NULL);
    submit("", "x");
    submit("", "x");
    submit("", "x");
    long long token =
        number_in(expect(200, "POST /v1/queues/q/claim?worker=mailer%207&lease=1h", NULL), "token");
    const char *task = expect(200, "GET /v1/tasks/1", NULL);
    assert_has(task, "\"worker\":\"mailer 7\",\"lease_until_ms\":");
    assert_has(expect(200, "GET /v1/tasks?state=started", NULL), "\"worker\":\"mailer 7\"");
    assert_has(expect(200, "GET /v1/tasks/1/explain", NULL), "mailer 7 has it since");
    served_kill(&s); /* the lease is on the disk, and so is whose it is */
    served_start(&s, NULL);
    task = expect(200, "GET /v1/tasks/1", NULL);
    assert_has(task, "\"worker\":\"mailer 7\"");
    say(204, 1, "finish", token, "", NULL);
    CHECK(!strstr(expect(200, "GET /v1/tasks/1", NULL), "\"worker\":"));
    expect(200, "POST /v1/queues/q/claim", NULL);
    assert_has(expect(200, "GET /v1/tasks/2", NULL),
               "\"worker\":\"an unnamed worker on connection ");
    int fd = served_connect(&s); /* one that waits first */
    send_request(fd, "POST /v1/queues/late/claim?wait=5m&worker=w", NULL, 0);
    await_waiting(1);
    expect(201, "POST /v1/queues/late/tasks?kind=k", "x");
    struct answer a = read_answer(fd, false);
    assert_has(a.body, "[{\"id\":4,");
    answer_free(&a);
    close(fd);
    assert_has(expect(200, "GET /v1/tasks/4", NULL), "\"worker\":\"w\"");
    assert_has(expect(400, "POST /v1/queues/q/claim?worker=", NULL), "holder");
    expect(400, "POST /v1/queues/q/claim?worker=a%0ab", NULL);
    expect(400, "POST /v1/queues/nobody/claim?wait=5m&worker=a%0ab", NULL);
    assert_state(3, "enqueued");
    served_stop(&s);
}

TEST(a_claim_takes_up_to_n_in_order) {
    served_start(&s, NULL);
    submit("&priority=5", "low");
    submit("&priority=1", "high");
    submit("", "other");
    const char *claimed = expect(200, "POST /v1/queues/q/claim?n=2", NULL);
    const char *high = strstr(claimed, "\"id\":2,"), *low = strstr(claimed, "\"id\":1,");
    CHECK(high && low && high < low && !strstr(claimed, "\"id\":3,"));
    assert_has(expect(200, "POST /v1/queues/q/claim?n=1000000", NULL), "\"id\":3,");
    served_stop(&s);
}

TEST(outcomes_end_an_attempt_each_in_its_way) {
    served_start(&s, NULL);
    for (int i = 0; i < 4; i++)
        submit("", "x");
    say(204, 1, "fail", claim_token(), "", "mailbox \"ann\" is gone");
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "mailbox \\\"ann\\\" is gone");
    assert_state(1, "failed");
    say(204, 2, "retry", claim_token(), "&after=1h", "busy");
    assert_state(2, "scheduled");
    say(204, 3, "snooze", claim_token(), "&after=1h", NULL);
    assert_state(3, "scheduled");
    assert_int_equal(number_in(expect(200, "GET /v1/tasks/3", NULL), "snoozes"), 1);
    say(204, 4, "retry", claim_token(), "&after=0", "again");
    assert_int_equal(number_in(expect(200, "POST /v1/queues/q/claim", NULL), "attempt"), 2);
    expect(400, "POST /v1/tasks/4/finish", NULL);
    expect(400, "POST /v1/tasks/4/finish?token=x", NULL);
    served_stop(&s);
}

TEST(successors_come_with_the_outcome) {
    served_start(&s, NULL);
    submit("", "x");
    long long token = claim_token();
    say(400, 1, "finish", token, "", "{\"then\":[{\"kind\":\"\"}]}");
    assert_state(1, "started");
    say(204, 1, "finish", token, "",
        "{\"result_base64\":\"AAE=\",\"then\":[{\"kind\":\"next\",\"payload\":1},{\"kind\":\"k\"}]"
        "}");
    assert_has(expect(200, "GET /v1/tasks?kind=next", NULL), "\"id\":2,");
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"result_base64\":\"AAE=\"");
    served_stop(&s);
}

TEST(many_outcomes_are_answered_singly) {
    char body[512];
    served_start(&s, NULL);
    submit("", "x");
    submit("", "x");
    long long first = claim_token(), second = claim_token();
    snprintf(body, sizeof body,
             "[{\"id\":1,\"token\":\"%lld\",\"outcome\":\"finish\",\"result\":{}},"
             "{\"id\":2,\"token\":\"%lld\",\"outcome\":\"finish\"},"
             "{\"id\":2,\"token\":\"%lld\",\"outcome\":\"fail\",\"error\":\"no\"}]",
             first, second + 1000, second);
    const char *answer = expect(200, "POST /v1/settle", body);
    assert_has(answer, "{\"id\":1,\"status\":\"LW_OK\"}");
    assert_has(answer, "{\"id\":2,\"status\":\"LW_ELEASE\",\"error\":");
    assert_has(answer, "{\"id\":2,\"status\":\"LW_OK\"}");
    assert_state(1, "finished");
    assert_state(2, "failed");
    answer = expect(200, "POST /v1/settle", body); /* again */
    assert_has(answer, "{\"id\":1,\"status\":\"LW_OK\"}");
    assert_has(answer, "{\"id\":2,\"status\":\"LW_ELEASE\",\"error\":");
    assert_has(answer, "{\"id\":2,\"status\":\"LW_OK\"}");
    assert_has(expect(400, "POST /v1/settle", "[{\"id\":1,\"token\":\"1\",\"outcome\":\"finsh\"}]"),
               "finish");
    expect(400, "POST /v1/settle", "[]");
    served_stop(&s);
}

TEST(a_worker_tells_how_far_it_is_and_where_to_go_on) {
    served_start(&s, NULL);
    submit("", "x");
    long long token = claim_token();
    say(204, 1, "progress", token, "&done=3&total=10", "third page");
    assert_has(expect(200, "GET /v1/tasks/1", NULL),
               "\"progress\":{\"done\":3,\"total\":10,\"text\":\"third page\"}");
    say(204, 1, "checkpoint", token, "", "page 3");
    say(204, 1, "extend", token, "&lease=1h", NULL);
    say(204, 1, "retry", token, "&after=0", "stopped");
    assert_has(expect(200, "POST /v1/queues/q/claim", NULL), "\"checkpoint_base64\":\"cGFnZSAz\"");
    say(409, 1, "progress", token, "&done=4&total=10", "late");
    say(409, 1, "extend", token, "", NULL);
    say(409, 1, "checkpoint", token, "", "late");
    served_stop(&s);
}

TEST(a_worker_learns_that_its_task_was_cancelled) {
    served_start(&s, NULL);
    submit("", "x");
    long long token = claim_token();
    expect(202, "POST /v1/tasks/1/cancel", NULL);
    say(202, 1, "extend", token, "", NULL);
    say(204, 1, "retry", token, "", "gave up");
    assert_state(1, "aborted");
    served_stop(&s);
}

TEST(a_lease_survives_kill_9) {
    served_start(&s, NULL);
    submit("", "x");
    long long token = number_in(expect(200, "POST /v1/queues/q/claim?lease=1h", NULL), "token");
    served_kill(&s);
    served_start(&s, NULL);
    assert_string_equal(expect(200, "POST /v1/queues/q/claim", NULL), "[]");
    say(204, 1, "finish", token, "", NULL);
    assert_state(1, "finished");
    served_stop(&s);
}

/* The server died between its end and the answer to it: the worker says it again to the next. */
TEST(an_end_is_said_again_to_a_server_that_was_killed_meanwhile) {
    char body[128];
    served_start(&s, NULL);
    submit("", "x");
    submit("", "x");
    long long first = claim_token(), second = claim_token();
    say(204, 1, "finish", first, "", NULL);
    say(204, 2, "fail", second, "", "no");
    served_kill(&s);
    served_start(&s, NULL);
    say(204, 1, "finish", first, "", NULL);
    say(204, 2, "fail", second, "", "no");
    say(409, 1, "fail", first, "", "no");
    say(409, 2, "finish", second, "", NULL);
    snprintf(body, sizeof body, "[{\"id\":1,\"token\":\"%lld\",\"outcome\":\"finish\"}]", first);
    assert_has(expect(200, "POST /v1/settle", body), "{\"id\":1,\"status\":\"LW_OK\"}");
    assert_state(1, "finished");
    assert_state(2, "failed");
    served_stop(&s);
}

#define TRACE "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

static void submit_traced(const char *what, const char *trace, const char *body) {
    char text[512];
    int fd = served_connect(&s);
    snprintf(
        text, sizeof text,
        "POST %s HTTP/1.1\r\nHost: localhost\r\nTraceparent: %s\r\nContent-Length: %zu\r\n\r\n%s",
        what, trace, strlen(body), body);
    send_text(fd, text);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    answer_free(&a);
    close(fd);
}

TEST(a_trace_goes_along_to_the_worker) {
    served_start(&s, NULL);
    submit_traced("/v1/queues/q/tasks?kind=k", TRACE, "x");
    submit_traced("/v1/tasks", TRACE, "{\"kind\":\"k\",\"queue\":\"q\"}");
    submit_traced("/v1/tasks", TRACE,
                  "[{\"kind\":\"k\",\"queue\":\"q\"},{\"kind\":\"k\",\"queue\":\"q\"}]");
    served_kill(&s);
    served_start(&s, NULL);
    for (int i = 1; i <= 4; i++) {
        const char *claimed = expect(200, "POST /v1/queues/q/claim", NULL);
        assert_int_equal(number_in(claimed, "id"), i);
        assert_has(claimed, "\"traceparent\":\"" TRACE "\"");
        if (i == 1) /* and again with the next attempt */
            say(204, 1, "retry", number_in(claimed, "token"), "&after=1h", NULL);
    }
    expect(204, "POST /v1/tasks/1/run", NULL);
    assert_has(expect(200, "POST /v1/queues/q/claim", NULL), "\"traceparent\":\"" TRACE "\"");
    served_stop(&s);
}

TEST(a_trace_that_is_none_is_passed_over) {
    static const char *const wrong[] = {
        "",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331",
        "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
        "00-00000000000000000000000000000000-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
        "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    };
    served_start(&s, NULL);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        submit_traced("/v1/queues/q/tasks?kind=k", wrong[i], "x");
        CHECK(!strstr(expect(200, "POST /v1/queues/q/claim", NULL), "traceparent"));
    }
    served_stop(&s);
}

/* ---- waiting ------------------------------------------------------------------------------- */

TEST(a_waiting_worker_gets_what_arrives) {
    served_start(&s, NULL);
    int first = served_connect(&s), second = served_connect(&s);
    send_request(first, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    send_request(second, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(2);
    expect(201, "POST /v1/queues/other/tasks?kind=k", "x");
    submit("", "x");
    struct answer a = read_answer(first, false);
    assert_has(a.body, "[{\"id\":2,");
    answer_free(&a);
    submit("&delay=100ms", "x");
    a = read_answer(second, false);
    assert_has(a.body, "[{\"id\":3,");
    answer_free(&a);
    close(first);
    close(second);
    served_stop(&s);
}

/* Of the transactions in the -wal file, which has not begun anew yet: each ends with a frame that
 * says how large the database is. */
static int count_commits(void) {
    unsigned char header[32], frame[24];
    FILE *file = fopen("tasks.db-wal", "rb");
    int commits = 0;
    CHECK(file && fread(header, sizeof header, 1, file) == 1);
    long page_size = header[8] << 24 | header[9] << 16 | header[10] << 8 | header[11];
    while (fread(frame, sizeof frame, 1, file) == 1 && memcmp(frame + 8, header + 16, 8) == 0) {
        commits += memcmp(frame + 4, "\0\0\0\0", 4) != 0;
        CHECK(fseek(file, page_size, SEEK_CUR) == 0);
    }
    fclose(file);
    return commits;
}

static void work_once(int fd, const char *path, const char *body) {
    char what[64];
    send_request(fd, "POST /v1/queues/default/claim?wait=5m", NULL, 0);
    await_waiting(1);
    expect(201, path, body);
    struct answer a = read_answer(fd, false);
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/finish?token=%lld", number_in(a.body, "id"),
             number_in(a.body, "token"));
    answer_free(&a);
    send_request(fd, what, NULL, 0);
    a = read_answer(fd, false);
    assert_int_equal(a.code, 204);
    answer_free(&a);
}

TEST(a_task_and_the_lease_of_who_waits_for_it_are_one_transaction) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    work_once(fd, "POST /v1/queues/default/tasks?kind=k", "x"); /* what is written once */
    int commits = count_commits();
    for (int i = 1; i <= 5; i++) {
        work_once(fd, "POST /v1/queues/default/tasks?kind=k", "x");
        work_once(fd, "POST /v1/tasks", "{\"kind\":\"k\",\"payload\":7}");
        assert_int_equal(count_commits() - commits, i * 4); /* the other one is the finish */
    }
    close(fd);
    served_stop(&s);
}

TEST(many_waiting_workers_get_a_task_each) {
    enum { WORKERS = 300 };
    static bool has_run[WORKERS + 1];
    int workers[WORKERS];
    char *body = malloc(WORKERS * 32), *at = body;
    served_start(&s, NULL);
    for (int i = 0; i < WORKERS; i++) {
        workers[i] = served_connect(&s);
        send_request(workers[i], "POST /v1/queues/q/claim?wait=5m&n=1", NULL, 0);
        at += snprintf(at, 32, "%c{\"kind\":\"k\",\"queue\":\"q\"}", i ? ',' : '[');
    }
    await_waiting(WORKERS);
    memcpy(at, "]", 2);
    expect(201, "POST /v1/tasks", body);
    for (int i = 0; i < WORKERS; i++) {
        struct answer a = read_answer(workers[i], false);
        long long id = number_in(a.body, "id");
        CHECK(a.code == 200 && id >= 1 && id <= WORKERS && !has_run[id]);
        has_run[id] = true;
        answer_free(&a);
        close(workers[i]);
    }
    free(body);
    served_stop(&s);
}

TEST(a_wait_without_a_task_ends_with_none) {
    served_start(&s, NULL);
    assert_string_equal(expect(200, "POST /v1/queues/q/claim?wait=50ms", NULL), "[]");
    served_stop(&s);
}

TEST(a_worker_that_has_gone_gets_nothing) {
    served_start(&s, NULL);
    int gone = served_connect(&s), here = served_connect(&s);
    send_request(gone, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    send_request(here, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(2);
    close(gone);
    submit("", "x");
    struct answer a = read_answer(here, false);
    assert_has(a.body, "[{\"id\":1,");
    assert_int_equal(number_in(a.body, "attempt"), 1);
    answer_free(&a);
    close(here);
    served_stop(&s);
}

/* It is claimed, and the answer is in the worker's buffer, or on its way, when the worker ends. */
static void leave_unread(int fd, int id) {
    char what[64];
    send_request(fd, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL, 0);
    await_waiting(1);
    submit("", "x");
    snprintf(what, sizeof what, "GET /v1/tasks/%d", id);
    served_await(&s, what, "\"state\":\"started\"", NULL, 0);
    close(fd);
    const char *claimed = expect(200, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL);
    assert_int_equal(number_in(claimed, "id"), id);
    assert_int_equal(number_in(claimed, "attempt"), 1);
    say(204, id, "finish", number_in(claimed, "token"), "", NULL);
}

TEST(an_answer_that_nobody_has_read_costs_no_task) {
    served_start(&s, (const char *const[]){"--socket", "socket", NULL});
    for (int i = 1; i <= 50; i++)
        leave_unread(i % 2 ? served_connect(&s) : connect_unix("socket"), i);
    served_stop(&s);
}

TEST(a_worker_that_only_shuts_down_its_side_counts_as_gone) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    shutdown(fd, SHUT_WR);
    await_waiting(0);
    submit("", "x");
    assert_int_equal(number_in(expect(200, "POST /v1/queues/q/claim", NULL), "attempt"), 1);
    assert_int_equal(recv(fd, &(char){0}, 1, 0), 0);
    close(fd);
    served_stop(&s);
}

/* Nobody can tell it from one that has gone. What it is told holds: it has the task and can finish
 * it, or it is told that it gets none, and the next one has it. */
static bool read_and_finish(int fd, long long id) {
    struct answer a = read_answer(fd, false);
    bool has_it = a.code == 200;
    long long token = number_in(a.body, "token");
    if (!has_it) {
        assert_int_equal(a.code, 400);
        assert_has(a.body, "keep it open");
        const char *claimed = expect(200, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL);
        assert_int_equal(number_in(claimed, "id"), id);
        assert_int_equal(number_in(claimed, "attempt"), 1);
        token = number_in(claimed, "token");
    }
    answer_free(&a);
    close(fd);
    say(204, id, "finish", token, "", NULL);
    return has_it;
}

static int enter_and_claim(long long id) {
    int fd = id % 2 ? served_connect(&s) : connect_unix("socket");
    submit("", "x");
    send_request(fd, "POST /v1/queues/q/claim?lease=1h", NULL, 0);
    return fd;
}

TEST(a_worker_that_sends_no_more_is_not_told_of_tasks_that_it_has_not) {
    served_start(&s, (const char *const[]){"--socket", "socket", NULL});
    for (int i = 1; i <= 50; i++) {
        int fd = enter_and_claim(i);
        shutdown(fd, SHUT_WR);
        read_and_finish(fd, i);
    }
    served_stop(&s);
}

/* The server is stopped meanwhile, and finds both at once. */
TEST(a_worker_whose_end_comes_with_its_claim_gets_no_task) {
    served_start(&s, (const char *const[]){"--socket", "socket", NULL});
    for (int i = 1; i <= 4; i++) {
        int fd = i % 2 ? served_connect(&s) : connect_unix("socket");
        submit("", "x");
        served_freeze(&s);
        send_request(fd, "POST /v1/queues/q/claim?lease=1h", NULL, 0);
        shutdown(fd, SHUT_WR);
        CHECK(kill(s.pid, SIGCONT) == 0);
        assert_false(read_and_finish(fd, i));
    }
    served_stop(&s);
}

/* It reads its answer when the server has long seen the end of what it sends. */
TEST(a_worker_that_reads_its_answer_late_has_what_it_says) {
    served_start(&s, (const char *const[]){"--socket", "socket", NULL});
    for (int i = 1; i <= 4; i++) {
        int fd = enter_and_claim(i);
        CHECK(recv(fd, &(char){0}, 1, MSG_PEEK) == 1);
        shutdown(fd, SHUT_WR);
        served_await(&s, "GET /metrics", "legwork_http_connections 1\n", NULL, 0);
        assert_true(read_and_finish(fd, i));
    }
    served_stop(&s);
}

/* Behind a full input buffer the end of a connection is seen, too. */
TEST(a_worker_that_goes_behind_many_requests_is_seen_to_go) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    for (int i = 0; i < 2000; i++)
        send_request(fd, "GET /healthz", NULL, 0);
    close(fd);
    await_waiting(0);
    served_stop(&s);
}

/* The task and the end of the worker come at the same time, in all orders, again and again: no
 * attempt is ever charged, and the task is there for the next one at once. */
static void *submit_one(void *arg) {
    (void)arg;
    struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k", "x");
    assert_int_equal(a.code, 201);
    answer_free(&a);
    return NULL;
}

TEST(a_worker_that_goes_in_the_very_moment_costs_no_task) {
    served_start(&s, (const char *const[]){"--socket", "socket", NULL});
    for (long i = 0; i < test_scale(200, 2000); i++) {
        pthread_t submitter;
        int fd = i % 5 ? served_connect(&s) : connect_unix("socket");
        send_request(fd, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL, 0);
        if (i % 2)
            await_waiting(1);
        CHECK(pthread_create(&submitter, NULL, submit_one, NULL) == 0);
        if (i % 3 == 0) /* with a reset instead of an end */
            setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
        for (volatile int spin = 0; spin < i * 997 % 40000; spin++)
            ;
        close(fd);
        CHECK(pthread_join(submitter, NULL) == 0);
        const char *claimed = expect(200, "POST /v1/queues/q/claim?wait=5m&lease=1h", NULL);
        assert_int_equal(number_in(claimed, "id"), i + 1);
        assert_int_equal(number_in(claimed, "attempt"), 1);
        say(204, i + 1, "finish", number_in(claimed, "token"), "", NULL);
    }
    served_stop(&s);
}

TEST(a_stop_sends_waiting_workers_away) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    expect(202, "POST /v1/drain", NULL);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 503);
    answer_free(&a);
    close(fd);
    assert_int_equal(served_wait(&s), 0);
}

TEST(a_large_payload_passes_and_does_not_make_a_claim_too_large) {
    size_t size = 9 << 20;
    char *payload = malloc(size + 1);
    memset(payload, 'x', size);
    payload[size] = '\0';
    served_start(&s, NULL);
    for (int i = 0; i < 3; i++)
        submit("", payload);
    const char *claimed = expect(200, "POST /v1/queues/q/claim?n=10", NULL);
    assert_has(claimed, "[{\"id\":1,");
    CHECK(!strstr(claimed, "\"id\":2,"));
    free(payload);
    served_stop(&s);
}

TEST(in_memory_it_is_the_same_without_a_disk) {
    served_start(&s, (const char *const[]){"--store", "memory:", "--tasks-max", "2", NULL});
    for (int i = 1; i <= 20; i++)
        leave_unread(served_connect(&s), i);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/claim?wait=5m", NULL, 0);
    await_waiting(1);
    submit("&key=a", "x");
    struct answer a = read_answer(fd, false);
    assert_has(a.body, "[{\"id\":21,");
    long long token = number_in(a.body, "token");
    answer_free(&a);
    close(fd);
    expect(200, "POST /v1/queues/q/tasks?kind=k&key=a", "x");
    submit("", "x");
    expect(503, "POST /v1/queues/q/tasks?kind=k", "x");
    say(204, 21, "checkpoint", token, "", "here");
    say(204, 21, "finish", token, "", "{\"then\":[{\"kind\":\"k\"}]}");
    assert_state(21, "finished");
    served_stop(&s);
    assert_int_equal(access("tasks.db", F_OK), -1);
}
