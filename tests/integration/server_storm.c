/* Workers that come and go at any moment, with and without having read, while tasks arrive: each
 * task is done once, as its first attempt, and no lease is ever waited for. */
#include "served.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct served s;

enum { STORM_WORKERS = 8, STORM_TASKS_MAX = 20000 };

static long storm_tasks;
static atomic_long storm_done;
static atomic_int storm_times[STORM_TASKS_MAX + 1];

static void *submit_storm(void *arg) {
    int fd = served_connect(&s);
    (void)arg;
    for (long i = 0; i < storm_tasks; i++) {
        send_request(fd, "POST /v1/queues/q/tasks?kind=k", "x", 1);
        struct answer a = read_answer(fd, false);
        CHECK(a.code == 201);
        answer_free(&a);
    }
    close(fd);
    return NULL;
}

static void finish_claimed(int fd, const char *claimed) {
    for (const char *at = claimed; (at = strstr(at, "{\"id\":")) != NULL; at++) {
        long long id = number_in(at, "id");
        char what[128];
        CHECK(id >= 1 && id <= storm_tasks && number_in(at, "attempt") == 1);
        snprintf(what, sizeof what, "POST /v1/tasks/%lld/finish?token=%lld", id,
                 number_in(at, "token"));
        send_request(fd, what, NULL, 0);
        struct answer a = read_answer(fd, false);
        CHECK(a.code == 204);
        answer_free(&a);
        storm_times[id]++;
        storm_done++;
    }
}

static void leave_or_work(int fd, unsigned how) {
    send_request(fd, "POST /v1/queues/q/claim?wait=200ms&lease=1h&n=3", NULL, 0);
    if (how % 4 == 0) /* with a reset instead of an end */
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    for (volatile unsigned spin = 0; spin < how % 50000; spin++)
        ;
    if (how & 0x100000)
        return; /* it goes, whatever has come meanwhile */
    struct answer a = read_answer(fd, false);
    CHECK(a.code == 200);
    finish_claimed(fd, a.body);
    answer_free(&a);
}

static void *work_in_storm(void *arg) {
    unsigned seed = 1 + (unsigned)(intptr_t)arg;
    while (storm_done < storm_tasks) {
        seed = seed * 1103515245u + 12345u;
        int fd = seed >> 8 & 1 ? served_connect(&s) : connect_unix("socket");
        leave_or_work(fd, seed >> 4);
        close(fd);
    }
    return NULL;
}

static void weather(const char *store) {
    pthread_t submitter, workers[STORM_WORKERS];
    served_start(&s, (const char *const[]){"--socket", "socket", "--store", store, NULL});
    storm_tasks = test_scale(600, STORM_TASKS_MAX);
    CHECK(pthread_create(&submitter, NULL, submit_storm, NULL) == 0);
    for (int i = 0; i < STORM_WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, work_in_storm, (void *)(intptr_t)i) == 0);
    CHECK(pthread_join(submitter, NULL) == 0);
    for (int i = 0; i < STORM_WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    for (long i = 1; i <= storm_tasks; i++)
        assert_int_equal(storm_times[i], 1);
    struct answer a = served_ask(&s, "GET /v1/tasks?state=started", NULL);
    CHECK(a.code == 200 && strstr(a.body, "\"tasks\":[]"));
    answer_free(&a);
    served_stop(&s);
}

TEST(workers_that_come_and_go_cost_no_task) {
    weather("sqlite:tasks.db");
}

TEST(workers_that_come_and_go_cost_no_task_in_memory) {
    weather("memory:");
}
