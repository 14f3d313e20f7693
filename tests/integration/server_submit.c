/* Submitting and looking, against the real server. */
#include "served.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static struct served s;

/* Asks, and expects a code; the body stays until the next one. */
static const char *expect(int code, const char *what, const char *body) {
    return served_expect(&s, code, what, body);
}

/* Until so many requests wait for something. */
static void await_waiting(int count) {
    char line[64];
    snprintf(line, sizeof line, "legwork_http_waiting_requests %d\n", count);
    served_await(&s, "GET /metrics", line, NULL, 0);
}

/* ---- submit -------------------------------------------------------------------------------- */

TEST(a_payload_passes_byte_for_byte) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/tasks?kind=k", "a\0\xff\r\n", 5);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    assert_non_null(strstr(a.head, "\r\nLocation: /v1/tasks/1\r\n"));
    assert_string_equal(a.body, "{\"id\":1,\"existed\":false}");
    answer_free(&a);
    close(fd);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"payload_base64\":\"YQD/DQo=\"");
    const char *json = "{ \"b\" : 1.0e2, \"a\":[ ] }";
    expect(201, "POST /v1/queues/q/tasks?kind=k", json);
    assert_has(expect(200, "GET /v1/tasks/2", NULL), json);
    served_stop(&s);
}

TEST(what_was_answered_is_there_after_kill_9) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k&priority=0&delay=1h", "x");
    served_kill(&s);
    served_start(&s, NULL);
    const char *task = expect(200, "GET /v1/tasks/1", NULL);
    assert_has(task, "\"state\":\"scheduled\"");
    assert_int_equal(number_in(task, "priority"), 0);
    served_stop(&s);
}

TEST(a_key_is_accepted_once) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k&key=order%2017", "x");
    assert_string_equal(expect(200, "POST /v1/queues/q/tasks?kind=k&key=order+17", "y"),
                        "{\"id\":1,\"existed\":true}");
    assert_has(expect(200, "GET /v1/tasks?key=order%2017", NULL), "\"id\":1,");
    served_stop(&s);
}

TEST(an_array_is_accepted_whole_or_not_at_all) {
    served_start(&s, NULL);
    expect(201, "POST /v1/tasks", "{\"kind\":\"k\",\"delay\":\"1h\"}");
    assert_string_equal(expect(201, "POST /v1/tasks",
                               "[{\"kind\":\"a\",\"queue\":\"q\",\"payload\":[1, 2]},"
                               "{\"kind\":\"b\",\"payload_base64\":\"AAE=\",\"after\":[1]}]"),
                        "{\"ids\":[2,3],\"existed\":false}");
    assert_has(expect(200, "GET /v1/tasks/2", NULL), "\"payload\":[1, 2]");
    assert_has(expect(200, "GET /v1/tasks/3", NULL), "\"state\":\"created\"");
    assert_has(expect(400, "POST /v1/tasks", "[{\"kind\":\"a\"},{\"kind\":\"\"}]"),
               "task 2 of the array");
    assert_has(expect(400, "POST /v1/tasks", "[]"), "1 to 1000");
    assert_has(expect(200, "GET /v1/tasks?after=3", NULL), "\"tasks\":[]");
    served_stop(&s);
}

TEST(an_envelope_may_be_larger_than_what_is_read_on_the_loop) {
    served_start(&s, NULL);
    size_t size = 200000;
    char *body = malloc(size + 64);
    int start = snprintf(body, 64, "{\"kind\":\"k\",\"payload\":\"");
    memset(body + start, 'x', size);
    memcpy(body + start + size, "\"}", 3);
    assert_string_equal(expect(201, "POST /v1/tasks", body), "{\"id\":1,\"existed\":false}");
    free(body);
    served_stop(&s);
}

TEST(what_cannot_be_accepted_is_refused_with_a_sentence) {
    served_start(&s, NULL);
    assert_has(expect(400, "POST /v1/queues/q/tasks", "x"), "?kind=NAME");
    assert_has(expect(400, "POST /v1/queues/q/tasks?kind=k&dealy=1s", "x"), "\\\"delay\\\"");
    assert_has(expect(400, "POST /v1/queues/q/tasks?kind=k&delay=soon", "x"), "delay");
    assert_has(expect(400, "POST /v1/queues/q/tasks?kind=k&priority=-1", "x"), "priority");
    assert_has(expect(400, "POST /v1/queues/%20/tasks?kind=k", "x"), "queue");
    assert_has(expect(400, "POST /v1/tasks", "{\"kind\":\"k\",\"delya\":\"1s\"}"), "delay");
    assert_has(expect(400, "POST /v1/tasks", "{\"kind\":7}"), "a string");
    assert_has(expect(400, "POST /v1/tasks", "{\"kind\":\"k\",\"kind\":\"k\"}"), "kind");
    assert_has(expect(400, "POST /v1/tasks", "7"), "an object");
    assert_has(
        expect(400, "POST /v1/tasks", "{\"kind\":\"k\",\"payload\":1,\"payload_base64\":\"\"}"),
        "not both");
    expect(404, "GET /v1/tasks/1", NULL);
    served_stop(&s);
}

TEST(a_full_store_answers_503_and_when_to_come_again) {
    served_start(&s, (const char *const[]){"--tasks-max", "1", NULL});
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k", "x");
    assert_int_equal(a.code, 503);
    assert_non_null(strstr(a.head, "\r\nRetry-After: 1\r\n"));
    answer_free(&a);
    served_stop(&s);
}

TEST(submits_in_a_row_are_answered_in_their_order) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    enum { ROUNDS = 200 };
    for (int i = 0; i < ROUNDS; i++)
        send_request(fd, "POST /v1/queues/q/tasks?kind=k", "x", 1);
    send_request(fd, "GET /v1/tasks/200", NULL, 0);
    for (int i = 1; i <= ROUNDS; i++) {
        struct answer a = read_answer(fd, false);
        assert_int_equal(a.code, 201);
        assert_int_equal(number_in(a.body, "id"), i);
        answer_free(&a);
    }
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 200);
    assert_int_equal(number_in(a.body, "id"), 200);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

TEST(a_client_that_shuts_down_its_side_gets_its_answer) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_request(fd, "POST /v1/queues/q/tasks?kind=k", "x", 1);
    shutdown(fd, SHUT_WR);
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

TEST(a_client_that_waits_for_100_continue_gets_it) {
    served_start(&s, NULL);
    int fd = served_connect(&s);
    send_text(fd, "POST /v1/queues/q/tasks?kind=k HTTP/1.1\r\nHost: localhost\r\n"
                  "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n");
    char line[26] = "";
    assert_int_equal(recv(fd, line, 25, MSG_WAITALL), 25);
    assert_string_equal(line, "HTTP/1.1 100 Continue\r\n\r\n");
    send_text(fd, "ab");
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, 201);
    answer_free(&a);
    close(fd);
    served_stop(&s);
}

/* ---- look ---------------------------------------------------------------------------------- */

TEST(a_list_goes_page_by_page) {
    served_start(&s, NULL);
    for (int i = 0; i < 5; i++)
        expect(201, i % 2 ? "POST /v1/queues/b/tasks?kind=k" : "POST /v1/queues/a/tasks?kind=j",
               "x");
    assert_int_equal(number_in(expect(200, "GET /v1/tasks?limit=2", NULL), "after"), 2);
    assert_int_equal(number_in(expect(200, "GET /v1/tasks?limit=2&after=4", NULL), "after"), -1);
    const char *page = expect(200, "GET /v1/tasks?queue=b&kind=k&state=enqueued", NULL);
    assert_has(page, "\"id\":2,");
    assert_has(page, "\"id\":4,");
    CHECK(strstr(page, "\"id\":1,") == NULL);
    assert_has(expect(400, "GET /v1/tasks?state=enqueud", NULL), "enqueued");
    served_stop(&s);
}

/* ---- pages while tasks come and go --------------------------------------------------------- */

enum { STAYING = 300 };

static atomic_bool is_over;

/* Tasks of another queue, before, between and behind those that stay, each in another state. */
static void *come_and_go(void *arg) {
    (void)arg;
    for (int i = 0; !is_over; i++) {
        char what[64];
        struct answer a = served_ask(&s, "POST /v1/queues/go/tasks?kind=k", "x");
        long long id = number_in(a.body, "id");
        CHECK(a.code == 201);
        answer_free(&a);
        snprintf(what, sizeof what, "POST /v1/tasks/%lld/cancel", id);
        a = served_ask(&s, what, NULL);
        answer_free(&a);
        snprintf(what, sizeof what, i % 3 ? "DELETE /v1/tasks/%lld" : "POST /v1/tasks/%lld/run",
                 id);
        a = served_ask(&s, what, NULL);
        answer_free(&a);
    }
    return NULL;
}

/* Walks all pages up to an id; counts those that stay, each once, and all in order. */
static int walk(const char *filter, int limit, long long last) {
    long long after = 0, before = 0;
    int count = 0;
    while (after >= 0 && after < last) {
        char what[128];
        snprintf(what, sizeof what, "GET /v1/tasks?limit=%d&after=%lld%s", limit, after, filter);
        struct answer a = served_ask(&s, what, NULL);
        CHECK(a.code == 200);
        for (const char *at = a.body; (at = strstr(at, "{\"id\":")) != NULL; at++) {
            long long id = number_in(at, "id");
            CHECK(id > before);
            before = id;
            count += strncmp(strstr(at, "\"queue\":\""), "\"queue\":\"stay\"", 14) == 0;
        }
        const char *end = strrchr(a.body, ']');
        after = number_in(end, "after");
        CHECK(after < 0 || after == before);
        answer_free(&a);
    }
    return count;
}

TEST(pages_miss_nothing_while_tasks_come_and_go) {
    pthread_t churn;
    long long last = 0;
    served_start(&s, NULL);
    CHECK(pthread_create(&churn, NULL, come_and_go, NULL) == 0);
    for (int i = 0; i < STAYING; i++) {
        struct answer a = served_ask(&s, "POST /v1/queues/stay/tasks?kind=k", "x");
        last = number_in(a.body, "id");
        answer_free(&a);
    }
    for (int i = 0; i < 6; i++) {
        assert_int_equal(walk("", 7 + 40 * i, last), STAYING);
        assert_int_equal(walk("&queue=stay&state=enqueued", 1 + 50 * i, last), STAYING);
    }
    is_over = true;
    CHECK(pthread_join(churn, NULL) == 0);
    served_stop(&s);
}

/* ---- waiting for the end ------------------------------------------------------------------- */

TEST(a_wait_ends_with_the_task) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    int first = served_connect(&s), second = served_connect(&s);
    send_request(first, "GET /v1/tasks/1?wait=5m", NULL, 0);
    send_request(second, "GET /v1/tasks/1?wait=5m", NULL, 0);
    await_waiting(2);
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    for (int i = 0; i < 2; i++) {
        struct answer a = read_answer(i ? second : first, false);
        assert_int_equal(a.code, 200);
        assert_has(a.body, "\"state\":\"aborted\"");
        answer_free(&a);
    }
    close(first);
    close(second);
    served_stop(&s);
}

TEST(a_wait_that_is_over_shows_the_task_as_it_is) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    assert_has(expect(200, "GET /v1/tasks/1?wait=50ms", NULL), "\"state\":\"enqueued\"");
    expect(404, "GET /v1/tasks/2?wait=5m", NULL);
    served_stop(&s);
}

TEST(a_client_that_goes_while_it_waits_is_forgotten) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    int fd = served_connect(&s);
    send_request(fd, "GET /v1/tasks/1?wait=5m", NULL, 0);
    await_waiting(1);
    close(fd);
    await_waiting(0);
    served_stop(&s);
}

/* ---- steer --------------------------------------------------------------------------------- */

TEST(an_operator_cancels_runs_again_and_removes) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    expect(409, "DELETE /v1/tasks/1", NULL);
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    expect(204, "POST /v1/tasks/1/cancel", NULL); /* it is what was asked for */
    assert_int_equal(number_in(expect(200, "POST /v1/run?dry_run=yes", NULL), "count"), 1);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"state\":\"aborted\"");
    assert_int_equal(number_in(expect(200, "POST /v1/run?kind=other", NULL), "count"), 0);
    assert_int_equal(number_in(expect(200, "POST /v1/run?state=aborted", NULL), "count"), 1);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"state\":\"enqueued\"");
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    expect(204, "POST /v1/tasks/1/run", NULL);
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    expect(204, "DELETE /v1/tasks/1", NULL);
    expect(404, "GET /v1/tasks/1", NULL);
    assert_has(expect(400, "POST /v1/run?state=finished", NULL), "finished");
    served_stop(&s);
}

/* More than are run in one go; and they are on the disk when that is answered. */
TEST(all_that_have_failed_are_run_again) {
    enum { TASKS = 1200, BATCH = 400 };
    char body[BATCH * 20], count[32];
    served_start(&s, NULL);
    size_t at = 0;
    for (int i = 0; i < BATCH; i++)
        at += (size_t)snprintf(body + at, 20, "%c{\"kind\":\"k\"}", i ? ',' : '[');
    memcpy(body + at, "]", 2);
    for (int i = 0; i < TASKS / BATCH; i++)
        expect(201, "POST /v1/tasks", body);
    for (int i = 1; i <= TASKS; i++) {
        char what[64];
        snprintf(what, sizeof what, "POST /v1/tasks/%d/cancel", i);
        expect(204, what, NULL);
    }
    snprintf(count, sizeof count, "{\"count\":%d}", TASKS);
    assert_string_equal(expect(200, "POST /v1/run?dry_run=yes", NULL), count);
    assert_string_equal(expect(200, "POST /v1/run", NULL), count);
    served_kill(&s);
    served_start(&s, NULL);
    assert_has(expect(200, "GET /v1/tasks?state=aborted", NULL), "\"tasks\":[]");
    served_stop(&s);
}

TEST(a_scheduled_task_is_run_now) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k&delay=1h", "x");
    expect(204, "POST /v1/tasks/1/run", NULL);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "\"state\":\"enqueued\"");
    expect(202, "POST /v1/tasks/1/run", NULL); /* on its way anyway */
    served_stop(&s);
}

TEST(queues_are_paused_and_shown) {
    served_start(&s, NULL);
    expect(404, "POST /v1/queues/q/pause", NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    expect(204, "POST /v1/queues/q/pause", NULL);
    assert_has(expect(200, "GET /v1/queues", NULL), "\"name\":\"q\",\"is_paused\":true");
    assert_has(expect(200, "GET /v1/tasks/1/explain", NULL), "paused");
    expect(204, "POST /v1/queues/q/resume", NULL);
    assert_has(expect(200, "GET /v1/queues", NULL), "\"name\":\"q\",\"is_paused\":false");
    assert_has(expect(200, "GET /v1/kinds", NULL), "\"name\":\"k\"");
    served_stop(&s);
}

TEST(figures_of_the_server_follow_those_of_the_engine) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    const char *text = expect(200, "GET /metrics", NULL);
    assert_has(text, "legwork_http_answers_total{route=\"submit\",code=\"2xx\"} 1\n");
    size_t size = strlen(text);
    assert_string_equal(text + size - 6, "# EOF\n");
    CHECK(strstr(text, "# EOF\n") == text + size - 6);
    served_stop(&s);
}

/* So that all figures have something to tell, under all names that there can be. */
static void live_many_lives(void) {
    static const char *const verbs[] = {"finish", "fail", "retry", "snooze", "extend", "progress"};
    for (int i = 0; i < 6; i++) {
        char what[128];
        expect(201, "POST /v1/queues/a.b_c-d%2Fe:f/tasks?kind=K/1:2.3_4-5", "x");
        const char *claimed = expect(200, "POST /v1/queues/a.b_c-d%2Fe:f/claim", NULL);
        snprintf(what, sizeof what, "POST /v1/tasks/%lld/%s?token=%lld%s", number_in(claimed, "id"),
                 verbs[i], number_in(claimed, "token"),
                 strcmp(verbs[i], "snooze") == 0 ? "&after=1h" : "");
        expect(204, what, NULL);
    }
    expect(404, "GET /nowhere", NULL);
    expect(202, "POST /v1/tasks/5/cancel", NULL);
    expect(204, "POST /v1/tasks/2/run", NULL);
}

/* 0: fine; 3: fine, but it misses help texts, because it takes OpenMetrics for its older kin. */
TEST(promtool_reads_the_figures) {
    served_start(&s, NULL);
    live_many_lives();
    const char *text = expect(200, "GET /metrics", NULL);
    FILE *promtool = popen("promtool check metrics >said 2>&1", "w");
    CHECK(promtool != NULL);
    fputs(text, promtool);
    int status = pclose(promtool);
    CHECK(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 3));
    assert_int_equal(system("grep -v 'no help text$' said"), 1 << 8); /* nothing else is said */
    served_stop(&s);
}
