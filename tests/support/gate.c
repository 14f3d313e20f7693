/* gate.c: see gate.h. */
#include "gate.h"

#include "test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum {
    PATIENCE_S = 200, /* a test has 600 */
    LOOKS_BEFORE_NAP = 50,
    NAP_GROWS_NS = 10000, /* with every look */
    NAP_MAX_NS = 10000000,
};

static struct timespec in_a_while(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_sec += PATIENCE_S;
    return t;
}

void tally_add(struct tally *tally, long n) {
    pthread_mutex_lock(&tally->mu);
    tally->count += n;
    pthread_cond_broadcast(&tally->changed);
    pthread_mutex_unlock(&tally->mu);
}

long tally_read(struct tally *tally) {
    pthread_mutex_lock(&tally->mu);
    long count = tally->count;
    pthread_mutex_unlock(&tally->mu);
    return count;
}

void tally_await_at(struct tally *tally, long count, const char *what, const char *file, int line) {
    struct timespec deadline = in_a_while();
    int error = 0;
    pthread_mutex_lock(&tally->mu);
    while (tally->count < count && error == 0)
        error = pthread_cond_clockwait(&tally->changed, &tally->mu, CLOCK_MONOTONIC, &deadline);
    if (tally->count < count) {
        fprintf(stderr, "%s:%d: %s has counted only %ld of %ld\n", file, line, what, tally->count,
                count);
        abort();
    }
    pthread_mutex_unlock(&tally->mu);
}

void gate_pass(struct gate *gate) {
    tally_add(&gate->arrived, 1);
    tally_await(&gate->opened, 1);
    tally_add(&gate->passed, 1);
}

void gate_open(struct gate *gate) {
    tally_add(&gate->opened, 1);
}

void gate_task(lw_ctx *ctx, void *gate) {
    (void)ctx;
    gate_pass(gate);
}

void tally_task(lw_ctx *ctx, void *tally) {
    (void)ctx;
    tally_add(tally, 1);
}

void until_done_task(lw_ctx *ctx, void *arg) {
    struct gate *gate = arg;
    tally_add(&gate->arrived, 1);
    while (lw_ctx_sleep(ctx, LW_TIMEOUT_MS_MAX) == LW_OK)
        ;
    CHECK(lw_ctx_done(ctx));
    tally_add(&gate->passed, 1);
}

static _Thread_local int looks; /* in vain, at the present condition */

long await_start(void) {
    looks = 0;
    return in_a_while().tv_sec;
}

/* What takes long leaves the processors to those who make it come true. */
static void look_away(void) {
    long long ns = (long long)++looks * NAP_GROWS_NS;
    const struct timespec nap = {.tv_nsec = ns < NAP_MAX_NS ? ns : NAP_MAX_NS};
    if (looks < LOOKS_BEFORE_NAP)
        sched_yield();
    else
        nanosleep(&nap, NULL);
}

void await_again(long deadline, const char *what, const char *file, int line) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (now.tv_sec >= deadline) {
        fprintf(stderr, "%s:%d: never came true: %s\n", file, line, what);
        abort();
    }
    look_away();
}
