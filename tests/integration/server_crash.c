/* kill -9 under load, with clients that reconnect: what was answered with 201 is there. */
#include "served.h"
#include "test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENTS = 8, KEYS_MAX = 100000 };

static struct served s;
static int listening;
static atomic_int acknowledged;
static atomic_bool is_over;
static unsigned char accepted[CLIENTS][KEYS_MAX]; /* each written by its client alone */

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

/* Whether the answer came, and was that it is there. */
static bool submit(int fd, int client, int key) {
    char what[128];
    snprintf(what, sizeof what, "POST /v1/queues/q/tasks?kind=k&key=%d-%d", client, key);
    send_request(fd, what, "x", 1);
    struct answer a = read_answer(fd, false);
    bool is_there = a.code == 201 || a.code == 200;
    if (a.code != 0 && !is_there)
        fprintf(stderr, "%d %s\n", a.code, a.body);
    CHECK(is_there || a.code == 0);
    answer_free(&a);
    return is_there;
}

/* Repeats what got no answer: the key makes that safe. */
static void *run_client(void *arg) {
    int client = (int)(intptr_t)arg, fd = -1;
    for (int key = 0; key < KEYS_MAX && !is_over;) {
        if (fd < 0)
            fd = served_connect(&s);
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

/* ---- the audit ----------------------------------------------------------------------------- */

/* How often each key is in the store. */
static unsigned char found[CLIENTS][KEYS_MAX];

static long long read_page(long long after) {
    char what[64];
    snprintf(what, sizeof what, "GET /v1/tasks?limit=1000&after=%lld", after);
    struct answer a = served_ask(&s, what, NULL);
    assert_int_equal(a.code, 200);
    int client, key;
    for (const char *at = a.body; (at = strstr(at, "\"key\":\"")) != NULL; at++)
        if (sscanf(at, "\"key\":\"%d-%d\"", &client, &key) == 2)
            found[client][key]++;
    const char *end = strrchr(a.body, ']');
    after = end ? number_in(end, "after") : -1;
    answer_free(&a);
    return after;
}

TEST_WITH(nothing_that_was_acknowledged_is_lost_when_the_server_is_killed, .seconds = 180) {
    pthread_t clients[CLIENTS];
    int kills = (int)test_scale(5, 50), lost = 0, twice = 0;
    open_listening();
    served_start_with(&s, NULL, hand_over);
    for (int i = 0; i < CLIENTS; i++)
        CHECK(pthread_create(&clients[i], NULL, run_client, (void *)(intptr_t)i) == 0);
    for (int i = 0; i < kills; i++) {
        int goal = acknowledged + 200;
        while (acknowledged < goal)
            sched_yield();
        served_kill(&s);
        served_start_with(&s, NULL, hand_over);
    }
    is_over = true;
    for (int i = 0; i < CLIENTS; i++)
        CHECK(pthread_join(clients[i], NULL) == 0);
    for (long long after = 0; after >= 0;)
        after = read_page(after);
    for (int client = 0; client < CLIENTS; client++) {
        for (int key = 0; key < KEYS_MAX; key++) {
            lost += accepted[client][key] && !found[client][key];
            twice += found[client][key] > 1;
        }
    }
    printf("%d kills, %d acknowledged, %d lost\n", kills, acknowledged, lost);
    assert_int_equal(lost, 0);
    assert_int_equal(twice, 0);
    served_stop(&s);
    close(listening);
}
