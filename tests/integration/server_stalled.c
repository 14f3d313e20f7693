/* A store that cannot write for a while, because somebody else holds its file: nobody loses
 * anything by it. */
#include "served.h"
#include "test.h"

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define POLLS 4

static struct served s;

static const char *expect(int code, const char *what, const char *body) {
    return served_expect(&s, code, what, body);
}

static void run_sql(sqlite3 *db, const char *sql) {
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
}

static sqlite3 *hold_file(void) {
    sqlite3 *db;
    assert_int_equal(sqlite3_open("tasks.db", &db), SQLITE_OK);
    sqlite3_busy_timeout(db, 20000);
    run_sql(db, "BEGIN IMMEDIATE");
    return db;
}

static void release_file(sqlite3 *db) {
    run_sql(db, "ROLLBACK");
    assert_int_equal(sqlite3_close(db), SQLITE_OK);
}

/* ---- leases -------------------------------------------------------------------------------- */

/* Nobody was told of the lease, so it cannot run out. */
TEST(a_task_whose_claim_is_not_written_is_not_charged_for_a_lost_lease) {
    int polls[POLLS];
    char what[80];
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    sqlite3 *db = hold_file();
    for (int i = 0; i < POLLS; i++) {
        polls[i] = served_connect(&s);
        snprintf(what, sizeof what, "POST /v1/queues/q/claim?wait=5m&lease=20ms&worker=w%d", i);
        send_request(polls[i], what, NULL, 0);
    }
    served_await(&s, "GET /readyz", "store_busy", NULL, 0);
    assert_null(strstr(expect(200, "GET /v1/tasks/1", NULL), "crashes"));
    for (int i = 0; i < POLLS; i++)
        close(polls[i]);
    release_file(db);
    served_await(&s, "GET /readyz", "ready", NULL, 0);
    assert_int_equal(number_in(expect(200, "POST /v1/queues/q/claim?wait=5m", NULL), "attempt"), 1);
    served_stop(&s);
}

/* ---- an end that is not written yet -------------------------------------------------------- */

static void claim_task(char *fail, size_t size) {
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    const char *claimed = expect(200, "POST /v1/queues/q/claim?lease=1h", NULL);
    snprintf(fail, size, "POST /v1/tasks/1/fail?token=%lld", number_in(claimed, "token"));
}

static void await_code(int fd, int code) {
    struct answer a = read_answer(fd, false);
    assert_int_equal(a.code, code);
    answer_free(&a);
    close(fd);
}

/* The request comes when the task has failed, and that is not written. */
static void ask_between(const char *what, const char *after) {
    char fail[64];
    int failing, asking;
    served_start(&s, NULL);
    claim_task(fail, sizeof fail);
    sqlite3 *db = hold_file();
    failing = served_connect(&s);
    send_request(failing, fail, NULL, 0);
    served_await(&s, "GET /v1/tasks/1", "failed", NULL, 0);
    asking = served_connect(&s);
    send_request(asking, what, NULL, 0);
    expect(200, "GET /metrics", NULL);
    release_file(db);
    await_code(failing, 204);
    await_code(asking, 204);
    served_await(&s, "GET /v1/tasks/1", after, NULL, 0);
    served_stop(&s);
}

TEST(a_task_that_has_just_failed_is_run_again) {
    ask_between("POST /v1/tasks/1/run", "enqueued");
}

TEST(a_task_that_has_just_failed_is_deleted) {
    ask_between("DELETE /v1/tasks/1", "there is no task 1");
}

TEST(a_task_whose_end_cannot_be_written_is_neither_run_nor_deleted) {
    char fail[64];
    served_start(&s, NULL);
    claim_task(fail, sizeof fail);
    sqlite3 *db = hold_file();
    expect(503, fail, NULL);
    assert_has(expect(503, "POST /v1/tasks/1/run", NULL), "store_busy");
    assert_has(expect(503, "DELETE /v1/tasks/1", NULL), "store_busy");
    release_file(db);
    served_await(&s, "GET /readyz", "ready", NULL, 0);
    expect(204, "POST /v1/tasks/1/run", NULL);
    served_stop(&s);
}

static bool has_answer(int fd) {
    char byte;
    bool is_there = recv(fd, &byte, 1, 0) > 0; /* the server is dead: this does not wait */
    close(fd);
    return is_there;
}

/* A crash takes an end back that is not written: nobody may have been told of it. */
TEST(a_wait_is_not_over_before_the_end_is_written) {
    char fail[64];
    served_start(&s, NULL);
    claim_task(fail, sizeof fail);
    int early = served_connect(&s), failing = served_connect(&s), late = served_connect(&s);
    send_request(early, "GET /v1/tasks/1?wait=5m", NULL, 0);
    sqlite3 *db = hold_file();
    send_request(failing, fail, NULL, 0);
    served_await(&s, "GET /v1/tasks/1", "failed", NULL, 0);
    send_request(late, "GET /v1/tasks/1?wait=5m", NULL, 0);
    for (int i = 0; i < 50; i++) /* the threads that would answer these, answer those, too */
        expect(200, "GET /v1/tasks/1", NULL);
    served_kill(&s);
    CHECK(!has_answer(early));
    CHECK(!has_answer(late));
    close(failing);
    release_file(db);
    served_start(&s, NULL);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "started");
    served_stop(&s);
}

TEST(a_wait_is_over_when_the_end_is_written) {
    char fail[64];
    served_start(&s, NULL);
    claim_task(fail, sizeof fail);
    int early = served_connect(&s), failing = served_connect(&s), late = served_connect(&s);
    send_request(early, "GET /v1/tasks/1?wait=5m", NULL, 0);
    sqlite3 *db = hold_file();
    send_request(failing, fail, NULL, 0);
    served_await(&s, "GET /v1/tasks/1", "failed", NULL, 0);
    send_request(late, "GET /v1/tasks/1?wait=5m", NULL, 0);
    expect(200, "GET /metrics", NULL);
    release_file(db);
    await_code(failing, 204);
    await_code(early, 200);
    await_code(late, 200);
    served_stop(&s);
}

/* 503 says: repeat it. Who does must not hear that all is well before it is. */
TEST(a_cancel_that_is_repeated_waits_like_the_first) {
    served_start(&s, NULL);
    expect(201, "POST /v1/queues/q/tasks?kind=k", "x");
    sqlite3 *db = hold_file();
    for (int i = 0; i < 2; i++)
        assert_has(expect(503, "POST /v1/tasks/1/cancel", NULL), "store_busy");
    release_file(db);
    served_await(&s, "GET /readyz", "ready", NULL, 0);
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    served_kill(&s);
    served_start(&s, NULL);
    assert_has(expect(200, "GET /v1/tasks/1", NULL), "aborted");
    expect(204, "POST /v1/tasks/1/cancel", NULL);
    expect(404, "POST /v1/tasks/2/cancel", NULL);
    served_stop(&s);
}
