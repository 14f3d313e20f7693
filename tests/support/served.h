/* The real `legwork serve` in a process of its own, and a client that speaks to it by raw bytes.
 *
 *     struct served s;
 *     served_start(&s, NULL);
 *     struct answer a = served_ask(&s, "POST /v1/queues/q/tasks?kind=k", "payload");
 *     assert_int_equal(a.code, 201);
 *     answer_free(&a);
 *     served_stop(&s);
 */
#ifndef LW_TESTS_SUPPORT_SERVED_H
#define LW_TESTS_SUPPORT_SERVED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct served {
    pid_t pid;
    int port;
};

struct answer {
    int code;     /* 0: the connection ended without one */
    char *head;   /* as it came */
    char *body;   /* with a zero behind it */
    size_t size;  /* of the body */
    bool is_last; /* Connection: close */
};

/* Starts it on a free port, with the store sqlite:tasks.db in the present folder, and these flags
 * besides (NULL ends them; NULL for none). Returns when it listens; if it does not, the test
 * fails. */
void served_start(struct served *s, const char *const *flags);

/* The same, after calling prepare() in the child: for its environment and its descriptors. */
void served_start_with(struct served *s, const char *const *flags, void (*prepare)(void));

/* Runs `legwork` with these arguments to its end; returns its exit code, and in `said` (of `room`
 * bytes) what it printed on both outputs. */
int served_run(const char *const *arguments, char *said, size_t room);
int served_run_with(const char *const *arguments, char *said, size_t room, void (*prepare)(void));

/* The same, and does not wait: c->pid is its process, `*out` what it prints, or `out` what it
 * prints on. served_wait_said reads to the end of that, and waits. */
void served_spawn(struct served *c, const char *const *arguments, int *out);
void served_spawn_on(struct served *c, const char *const *arguments, int out);
int served_wait_said(struct served *c, int out, char *said, size_t room);

/* SIGTERM, and waits for its end; fails the test unless that is clean. */
void served_stop(struct served *s);

/* kill -9, and waits. */
void served_kill(struct served *s);

/* Stops it, and returns when none of its threads runs; SIGCONT lets it go on. */
void served_freeze(const struct served *s);

/* Waits for its end; returns its exit code, or 128 + the signal. */
int served_wait(struct served *s);

/* A connection; a read on it that takes longer than 30 s fails the test. */
int served_connect(const struct served *s);
int connect_unix(const char *path); /* likewise; -1: nobody listens there */
void send_all(int fd, const void *bytes, size_t size);
void send_text(int fd, const char *text);

/* Reads one answer; a 100 Continue is passed over. is_head: it has no body. */
struct answer read_answer(int fd, bool is_head);
void answer_free(struct answer *a);

/* Writes a request: "POST /path" becomes the request line. body may be NULL. */
void send_request(int fd, const char *what, const void *body, size_t size);

/* A request on a connection of its own. */
struct answer served_ask(const struct served *s, const char *what, const char *body);

/* The same, and the test fails unless this is the code; the body stays until the next call. */
const char *served_expect(const struct served *s, int code, const char *what, const char *body);

/* Only the code of the answer. */
int served_code(const struct served *s, const char *what, const char *body);

/* Asks as often as it takes until the body has this part; the body is in `said` then, unless that
 * is NULL. */
void served_await(const struct served *s, const char *what, const char *part, char *said,
                  size_t room);

void assert_has(const char *text, const char *part);

/* The number that follows "name": in JSON; -1: there is none. */
long long number_in(const char *json, const char *name);

#endif
