/* kill -9 and restarts under load, with clients and workers that reconnect: what was answered with
 * 201 is there, what was answered with 204 is finished. */
#include "gate.h"
#include "served.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 8, WORKERS = 4, KEYS_MAX = 100000, IDS_MAX = 1000000 };

static struct served s;
static int stopping;        /* the code of one that stops; 0: none does */
static struct served place; /* where it listens: the same for all of them */
static int listening;
static atomic_int acknowledged;
static atomic_bool is_over;
static unsigned char accepted[CLIENTS][KEYS_MAX]; /* each written by its client alone */
static _Atomic unsigned char finished[IDS_MAX];   /* by id: the server said so */

/* ---- a socket that outlives the server ----------------------------------------------------- */

static void open_listening(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(listening >= 0);
    CHECK(bind(listening, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listening, 64) == 0);
}

static void hand_over(void) {
    char pid[16];
    snprintf(pid, sizeof pid, "%d", (int)getpid());
    if (listening == 3)
        listening = dup(3);
    dup2(listening, 3);
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", pid, 1);
}

/* ---- clients ------------------------------------------------------------------------------- */

/* The others' tasks stay, and with them their keys: what is repeated is accepted once. */
static bool has_workers(int client) {
    return client % 2 == 1;
}

/* Whether the answer came, and was that it is there. */
static bool submit(int fd, int client, int key) {
    char what[128];
    snprintf(what, sizeof what, "POST /v1/queues/%s/tasks?kind=k&key=%d-%d",
             has_workers(client) ? "q" : "idle", client, key);
    send_request(fd, what, "x", 1);
    struct answer a = read_answer(fd, false);
    bool is_there = a.code == 201 || a.code == 200;
    if (a.code != 0 && !is_there && a.code != stopping)
        fprintf(stderr, "%d %s\n", a.code, a.body);
    CHECK(is_there || a.code == 0 || a.code == stopping);
    answer_free(&a);
    return is_there;
}

/* Repeats what got no answer: the key makes that safe. */
static void *run_client(void *arg) {
    int client = (int)(intptr_t)arg, fd = -1;
    for (int key = 0; key < KEYS_MAX && !is_over;) {
        if (fd < 0)
            fd = served_connect(&place);
        if (submit(fd, client, key)) {
            accepted[client][key++] = 1;
            acknowledged++;
        } else {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* ---- workers ------------------------------------------------------------------------------- */

/* A finish whose answer was lost is repeated, and has the same answer. */
static bool finish(int fd, long long id, long long token) {
    char what[128];
    snprintf(what, sizeof what, "POST /v1/tasks/%lld/finish?token=%lld", id, token);
    send_request(fd, what, NULL, 0);
    struct answer a = read_answer(fd, false);
    int code = a.code;
    answer_free(&a);
    CHECK(code == 0 || code == 204 || code == stopping);
    if (code == 204)
        finished[id] = 1;
    return code == 204;
}

/* Leases last longer than the test: what a worker got, it settles. */
static void *run_worker(void *arg) {
    long long id = -1, token = -1;
    int fd = -1;
    (void)arg;
    while (!is_over || id >= 0) {
        if (fd < 0)
            fd = served_connect(&place);
        bool is_fine;
        if (id >= 0) {
            is_fine = finish(fd, id, token);
            id = is_fine ? -1 : id;
        } else {
            send_request(fd, "POST /v1/queues/q/claim?wait=100ms&lease=1h", NULL, 0);
            struct answer a = read_answer(fd, false);
            is_fine = a.code == 200;
            id = is_fine ? number_in(a.body, "id") : -1;
            token = is_fine ? number_in(a.body, "token") : -1;
            CHECK(id < IDS_MAX && (is_fine || a.code == 0 || a.code == stopping));
            answer_free(&a);
        }
        if (!is_fine) {
            close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* ---- the audit ----------------------------------------------------------------------------- */

/* How often each key is in the store. */
static unsigned char found[CLIENTS][KEYS_MAX];
static int unfinished; /* tasks that the server said were finished, and are not */

static long long read_page(long long after) {
    char what[64];
    snprintf(what, sizeof what, "GET /v1/tasks?limit=1000&after=%lld", after);
    struct answer a = served_ask(&s, what, NULL);
    assert_int_equal(a.code, 200);
    for (const char *at = a.body; (at = strstr(at, "{\"id\":")) != NULL; at++) {
        const char *text = strstr(at, "\"key\":\"");
        int client, key;
        CHECK(text && sscanf(text, "\"key\":\"%d-%d\"", &client, &key) == 2);
        found[client][key]++;
        bool is_finished = strstr(at, "\"state\":\"finished\"") == strstr(at, "\"state\":\"");
        unfinished += finished[number_in(at, "id")] && !is_finished;
    }
    const char *end = strrchr(a.body, ']');
    after = end ? number_in(end, "after") : -1;
    answer_free(&a);
    return after;
}

static void audit(const char *what, int rounds) {
    int lost = 0, twice = 0;
    for (long long after = 0; after >= 0;)
        after = read_page(after);
    for (int client = 0; client < CLIENTS; client++) {
        for (int key = 0; key < KEYS_MAX; key++) {
            lost += accepted[client][key] && !found[client][key];
            twice += !has_workers(client) && found[client][key] > 1;
        }
    }
    printf("%d %s, %d acknowledged, %d lost\n", rounds, what, acknowledged, lost);
    assert_int_equal(lost, 0);
    assert_int_equal(twice, 0);
    assert_int_equal(unfinished, 0);
}

/* Ends the server again and again while they submit and work; a connection is never refused. */
static void run_under_load(int rounds, void (*end)(struct served *s), const char *what) {
    pthread_t clients[CLIENTS], workers[WORKERS];
    open_listening();
    served_start_with(&s, NULL, hand_over);
    place = s;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&clients[i], NULL, run_client, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_create(&workers[i], NULL, run_worker, NULL) == 0);
    for (int i = 0; i < rounds; i++) {
        int goal = acknowledged + 200;
        await_that(acknowledged >= goal);
        end(&s);
        served_start_with(&s, NULL, hand_over);
    }
    is_over = true;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(pthread_join(clients[i], NULL) == 0);
    for (int i = 0; i < WORKERS; i++)
        CHECK(pthread_join(workers[i], NULL) == 0);
    audit(what, rounds);
    served_stop(&s);
    close(listening);
}

TEST(nothing_that_was_acknowledged_is_lost_when_the_server_is_killed) {
    run_under_load((int)test_scale(5, 50), served_kill, "kills");
}

TEST(nothing_is_lost_or_refused_by_restarts_under_load) {
    stopping = 503;
    run_under_load((int)test_scale(5, 50), served_stop, "restarts");
}
