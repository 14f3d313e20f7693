/* stress_race.h: what stress tests share. To be included by one file of a program.
 *
 * A race is one short life of a pool: opened, fought over by a few threads, stopped, closed. Each
 * has a seed of its own, from which come its shape, what its threads do, and the pauses at every
 * LW__POINT. A failure, a crash or a hang prints the seed; LW_SEED=<seed> starts with that race.
 * The scheduler has its say too, so it may take a few tries to see a failure again.
 *
 *     static void race(void) { ... }
 *     TEST(what_must_hold) {
 *         run_races(2000, race);
 *     }
 */
#ifndef LW_TESTS_SUPPORT_STRESS_RACE_H
#define LW_TESTS_SUPPORT_STRESS_RACE_H

#include "base/clock.h"
#include "base/futex.h"
#include "base/points.h"
#include "base/random.h"
#include "test.h"

#include <legwork/pool.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The deadline of what must come true by itself. */
#define STRESS_HANG_MS 100000
/* A race takes a millisecond, on a busy machine longer. But when all of its threads sleep for this
 * long somebody was not told, and goes on at a deadline, or never. */
#define STRESS_IDLE_MS 8000

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define STRESS_IS_SANITIZED 1
#elif defined(__has_feature)
#define STRESS_IS_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define STRESS_IS_SANITIZED 0
#endif

/* ---- dice ----------------------------------------------------------------------------------- */

static _Atomic uint64_t race_seed;
static _Atomic uint64_t race_streams; /* threads of this race that have thrown dice */

/* Every thread has its own sequence, begun anew in each race. */
static uint64_t dice(uint64_t bound) {
    static _Thread_local struct lw__random random;
    static _Thread_local uint64_t seeded;
    uint64_t seed = atomic_load_explicit(&race_seed, memory_order_relaxed);
    if (seeded != seed) {
        seeded = seed;
        lw__random_seed(&random, seed ^ atomic_fetch_add(&race_streams, 1) << 48);
    }
    return lw__random_below(&random, bound);
}

/* True `percent` times in a hundred. */
static inline bool chance(unsigned percent) {
    return dice(100) < percent;
}

static inline int between(int low, int high) {
    return low + (int)dice((uint64_t)(high - low) + 1);
}

/* ---- pauses --------------------------------------------------------------------------------- */

static _Atomic uint32_t pause_percent; /* of the points that are passed */
static _Atomic uint32_t hot_point;     /* one in eight is paused at much more, and for longer */

/* A while in which others can get ahead. Not a wait for anything. */
static void dawdle(uint32_t most_us) {
    _Atomic uint32_t word = 0;
    switch (dice(8)) {
    case 0:
        lw__futex_wait(&word, 0, lw__now(lw__clock_system()) + (1 + dice(most_us)) * LW__NS_PER_US);
        break;
    case 1:
    case 2:
        for (uint64_t i = dice(2000); i > 0; i--)
            lw__spin_pause();
        break;
    default: sched_yield(); break;
    }
}

void lw__test_point(const char *name) {
    uint32_t percent = atomic_load_explicit(&pause_percent, memory_order_relaxed);
    if (percent == 0)
        return;
    uint32_t sum = 0;
    for (const char *c = name; *c; c++)
        sum = sum * 31 + (unsigned char)*c;
    bool is_hot = sum % 8 == atomic_load_explicit(&hot_point, memory_order_relaxed);
    if (chance(is_hot ? 50 : percent))
        dawdle(is_hot ? 200 : 50);
}

/* Lets points pass without a pause from now on, or as the race's seed says. */
static inline void keep_calm(bool is_calm) {
    uint64_t seed = atomic_load(&race_seed);
    atomic_store(&pause_percent, is_calm || seed % 8 == 0 ? 0 : 1 + (uint32_t)(seed / 8 % 4) * 10);
    atomic_store(&hot_point, (uint32_t)(seed / 64 % 8));
}

/* ---- races ---------------------------------------------------------------------------------- */

static void say_seed(void) {
    char line[96];
    int size = snprintf(line, sizeof line, "\nLW_SEED=%llu starts with the race that failed\n",
                        (unsigned long long)atomic_load(&race_seed));
    ssize_t ignored = write(STDERR_FILENO, line, (size_t)size);
    (void)ignored;
}

static void on_failure(int signal_number) {
    static _Atomic bool has_said;
    if (!atomic_exchange(&has_said, true)) {
        if (signal_number == SIGALRM)
            fputs("a race hangs", stderr);
        say_seed();
    }
    signal(signal_number, SIG_DFL);
    if (signal_number == SIGALRM)
        abort();
    raise(signal_number);
}

static uint64_t first_seed(void) {
    const char *given = getenv("LW_SEED");
    struct lw__random random;
    if (given && strtoull(given, NULL, 10) > 0)
        return strtoull(given, NULL, 10);
    assert_status(lw__random_seed_from_system(&random, NULL), LW_OK);
    return lw__random_below(&random, 1000000000000) + 1;
}

#if STRESS_IS_SANITIZED
void __sanitizer_set_death_callback(void (*callback)(void));
#endif

static void tell_seed_on_failure(void) {
    signal(SIGALRM, on_failure);
    signal(SIGABRT, on_failure);
#if STRESS_IS_SANITIZED
    __sanitizer_set_death_callback(say_seed);
#else
    signal(SIGSEGV, on_failure);
#endif
}

/* ---- all are asleep ------------------------------------------------------------------------- */

enum { LOOK_MS = 100, AWAKE_US = 300 }; /* in that time: more than whoever only looks needs */

static _Atomic bool must_look;

static uint64_t cpu_us(clockid_t clock) {
    struct timespec time;
    CHECK(clock_gettime(clock, &time) == 0);
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}

/* Whoever waits for a processor gets one now and then, however many want it: looks in a row at
 * which nobody has had one since the last find only what sleeps. */
static void *look_for_idleness(void *arg) {
    _Atomic uint32_t word = 0;
    uint64_t before = 0;
    (void)arg;
    for (int idle = 0; atomic_load(&must_look);) {
        lw__futex_wait(&word, 0, lw__now(lw__clock_system()) + LOOK_MS * LW__NS_PER_MS);
        uint64_t used = cpu_us(CLOCK_PROCESS_CPUTIME_ID) - cpu_us(CLOCK_THREAD_CPUTIME_ID);
        idle = used < before + AWAKE_US ? idle + 1 : 0;
        before = used;
        if (idle >= STRESS_IDLE_MS / LOOK_MS)
            test_check_failed("somebody is awake", __FILE__, __LINE__);
    }
    return NULL;
}

/* Runs so many races in `make test`, 50 times as many in `make soak`, a tenth under a sanitizer.
 * Those of the pool are 20,000 together, and a million. */
static void run_races(long normal, void (*race)(void)) {
    long count = test_scale(normal, normal * 50) / (STRESS_IS_SANITIZED ? 10 : 1);
    uint64_t seed = first_seed();
    printf("%ld races from LW_SEED=%llu\n", count, (unsigned long long)seed);
    tell_seed_on_failure();
    pthread_t looker;
    atomic_store(&must_look, true);
    CHECK(pthread_create(&looker, NULL, look_for_idleness, NULL) == 0);
    for (long i = 0; i < count; i++) {
        atomic_store(&race_streams, 0);
        atomic_store(&race_seed, seed + (uint64_t)i);
        keep_calm(false);
        alarm(2 * STRESS_HANG_MS / 1000);
        race();
    }
    alarm(0);
    atomic_store(&must_look, false);
    CHECK(pthread_join(looker, NULL) == 0);
}

/* ---- threads of the test's own -------------------------------------------------------------- */

#define ACTORS_MAX 8

struct actors {
    pthread_t threads[ACTORS_MAX];
    int count;
};

static inline void add_actor(struct actors *actors, void *(*run)(void *), void *arg) {
    CHECK(actors->count < ACTORS_MAX);
    CHECK(pthread_create(&actors->threads[actors->count++], NULL, run, arg) == 0);
}

static inline void join_actors(struct actors *actors) {
    while (actors->count > 0)
        CHECK(pthread_join(actors->threads[--actors->count], NULL) == 0);
}

/* ---- who waits for whom --------------------------------------------------------------------- */

/* A count that can be waited for, without a limit: a hang is told by the alarm. */
struct counter {
    _Atomic uint32_t value;
};

/* Returns how many were counted before. */
static inline uint32_t count_up(struct counter *counter) {
    uint32_t before = atomic_fetch_add(&counter->value, 1);
    lw__futex_wake(&counter->value, INT32_MAX);
    return before;
}

static inline void await_count(struct counter *counter, uint32_t wanted) {
    uint32_t seen;
    while ((seen = atomic_load(&counter->value)) < wanted)
        lw__futex_wait(&counter->value, seen, LW__NEVER);
}

/* ---- every argument counted ----------------------------------------------------------------- */

/* One task of a race; what became of it. */
struct slip {
    _Atomic uint32_t ran, dropped;
    int status; /* the submitter only, until it is joined */
    bool is_given;
};

static inline void drop_slip(void *arg) {
    struct slip *slip = arg;
    atomic_fetch_add(&slip->dropped, 1);
}

static inline void run_slip(lw_ctx *ctx, void *arg) {
    (void)ctx;
    struct slip *slip = arg;
    atomic_fetch_add(&slip->ran, 1);
}

/* After LW_OK exactly one of fn and on_drop had it, otherwise none. */
static inline void check_slip(const struct slip *slip) {
    uint32_t ran = atomic_load(&slip->ran), dropped = atomic_load(&slip->dropped);
    if (!slip->is_given) {
        CHECK(ran == 0 && dropped == 0);
    } else if (slip->status == LW_OK) {
        CHECK(ran + dropped == 1);
    } else {
        CHECK(slip->status < 0);
        CHECK(ran == 0 && dropped == 0);
    }
}

/* Submits a slip in one of the ways there are. */
static inline int submit_slip(lw_pool *pool, lw_pool_fn fn, struct slip *slip) {
    lw_ticket ticket;
    lw_pool_task task = {fn, slip};
    size_t accepted;
    slip->is_given = true;
    switch (dice(8)) {
    case 0: slip->status = lw_pool_try_submit(pool, fn, slip); break;
    case 1:
        slip->status =
            lw_pool_submit_with(pool, fn, slip, LW_SUBMIT_OPTIONS(.ticket = &ticket), NULL);
        break;
    case 2:
        slip->status = lw_pool_submit_many(pool, &task, 1, &accepted);
        CHECK(accepted == (slip->status == LW_OK));
        break;
    default: slip->status = lw_pool_submit(pool, fn, slip); break;
    }
    return slip->status;
}

/* ---- pools ---------------------------------------------------------------------------------- */

static inline lw_pool *open_race_pool(const lw_pool_options *options) {
    lw_pool *pool;
    lw_error err = {0};
    if (lw_pool_open(&pool, options, &err) < 0) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    return pool;
}

/* Spinning at random: not at all, as it likes, or for long. */
static inline int any_spin_percent(void) {
    static const int choices[] = {-1, 0, 0, 60};
    return choices[dice(4)];
}

static inline void await_idle(lw_pool *pool) {
    assert_status(lw_pool_wait_idle(pool, STRESS_HANG_MS), LW_OK);
}

static inline void stop(lw_pool *pool, lw_stop_mode mode) {
    assert_status(lw_pool_stop(pool, mode, STRESS_HANG_MS), LW_OK);
}

static inline void stop_and_close(lw_pool *pool, lw_stop_mode mode) {
    stop(pool, mode);
    assert_status(lw_pool_close(pool), LW_OK);
}

#endif
