/* gate.h: how a test waits for what happens on other threads, without ever sleeping.
 *
 * A tally counts events and lets anybody wait for a number of them. A gate is a door with a tally
 * on each side: who comes to it is counted and waits until the test opens it. Waits end the test
 * with a message after a generous while, so that a lost wake-up is a failure and not a hang. */
#ifndef LW_TESTS_SUPPORT_GATE_H
#define LW_TESTS_SUPPORT_GATE_H

#include <legwork/ctx.h>
#include <pthread.h>

struct tally {
    pthread_mutex_t mu;
    pthread_cond_t changed;
    long count;
};

#define TALLY \
    { .mu = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER }

void tally_add(struct tally *tally, long n);
long tally_read(struct tally *tally);

/* Waits until at least that many were counted. */
#define tally_await(tally, count) tally_await_at((tally), (count), #tally, __FILE__, __LINE__)
void tally_await_at(struct tally *tally, long count, const char *what, const char *file, int line);

struct gate {
    struct tally arrived, opened, passed;
};

#define GATE \
    { .arrived = TALLY, .opened = TALLY, .passed = TALLY }

void gate_pass(struct gate *gate); /* waits until it is open */
void gate_open(struct gate *gate); /* for good */

/* Tasks. The arg is a gate to pass, or a tally to add 1 to. */
void gate_task(lw_ctx *ctx, void *gate);
void tally_task(lw_ctx *ctx, void *tally);

/* A task that arrives at the gate and then sleeps until its context is done, whatever the clock;
 * passed counts when it is. It ignores whether the gate is open. */
void until_done_task(lw_ctx *ctx, void *gate);

/* For a condition that nobody announces: looks again and again, at first without a pause. */
#define await_that(condition)                                       \
    do {                                                            \
        for (long deadline_ = await_start(); !(condition);)         \
            await_again(deadline_, #condition, __FILE__, __LINE__); \
    } while (0)
long await_start(void);
void await_again(long deadline, const char *what, const char *file, int line);

#endif
