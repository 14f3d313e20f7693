/* pools.h: what tests of the pool share. Everything here asserts that it works. */
#ifndef LW_TESTS_SUPPORT_POOLS_H
#define LW_TESTS_SUPPORT_POOLS_H

#include "gate.h"
#include "test.h"

#include <legwork/pool.h>
#include <legwork/testing.h>

/* OPEN_POOL(.min_workers = 1, .queue_limit = 4) */
#define OPEN_POOL(...) open_pool(LW_POOL_OPTIONS(__VA_ARGS__))
lw_pool *open_pool(const lw_pool_options *options);
void close_pool(lw_pool *pool); /* LW_OK and nothing less */

/* Submits so many tasks that wait at the gate, and returns when all of them run. */
void occupy(lw_pool *pool, struct gate *gate, int workers);

/* Submits a task `count` times, which must be accepted. */
void submit_times(lw_pool *pool, lw_pool_fn fn, void *arg, long count);

lw_pool_stats stats_of(lw_pool *pool);

/* A pool whose one worker waits at the gate and whose queue of two is full. */
struct full_pool {
    lw_pool *pool;
    lw_clock *clock; /* a test's */
    struct gate gate;
    struct tally queued; /* counts the runs of the two */
};
void open_full(struct full_pool *full, lw_overflow overflow, int64_t submit_timeout_ms,
               void (*on_drop)(void *arg));
void close_full(struct full_pool *full); /* opens the gate and drains */

lw_clock *open_clock(void);
void advance(lw_clock *clock, int64_t ms);
void await_sleepers(lw_clock *clock, int count); /* that many threads wait for a time */

lw_test_memory *open_memory(void);
bool is_all_freed(lw_test_memory *memory);
void close_memory(lw_test_memory *memory); /* nothing is left in it */

/* Threads and descriptors of this process. */
int thread_count(void);
int fd_count(void);

/* A thread of the test's own. */
pthread_t start_thread(void *(*run)(void *), void *arg);
void join_thread(pthread_t thread);

/* That a failure says what is wrong: the status, and a sentence that contains `word`. */
#define assert_sentence(err, status, word) \
    assert_sentence_at((err), (status), (word), __FILE__, __LINE__)
void assert_sentence_at(const lw_error *err, int status, const char *word, const char *file,
                        int line);

#endif
