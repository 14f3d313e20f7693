/* pools.c: see pools.h. */
#include "pools.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

lw_pool *open_pool(const lw_pool_options *options) {
    lw_pool *pool = NULL;
    lw_error err = {.message = "no message"};
    int rc = lw_pool_open(&pool, options, &err);
    if (rc != LW_OK)
        fprintf(stderr, "%s\n", err.message);
    assert_status(rc, LW_OK);
    assert_non_null(pool);
    return pool;
}

void close_pool(lw_pool *pool) {
    assert_status(lw_pool_close(pool), LW_OK);
}

void occupy(lw_pool *pool, struct gate *gate, int workers) {
    long before = tally_read(&gate->arrived);
    for (int i = 0; i < workers; i++) { /* one after another: the queue may be short */
        assert_status(lw_pool_submit(pool, gate_task, gate), LW_OK);
        tally_await(&gate->arrived, before + i + 1);
    }
}

void submit_times(lw_pool *pool, lw_pool_fn fn, void *arg, long count) {
    for (long i = 0; i < count; i++)
        assert_status(lw_pool_submit(pool, fn, arg), LW_OK);
}

lw_pool_stats stats_of(lw_pool *pool) {
    lw_pool_stats stats;
    assert_status(lw_pool_get_stats(pool, &stats), LW_OK);
    return stats;
}

void open_full(struct full_pool *full, lw_overflow overflow, int64_t submit_timeout_ms,
               void (*on_drop)(void *arg)) {
    *full = (struct full_pool){.clock = open_clock(), .gate = GATE, .queued = TALLY};
    full->pool =
        OPEN_POOL(.min_workers = 1, .queue_limit = 2, .overflow = overflow,
                  .submit_timeout_ms = submit_timeout_ms, .on_drop = on_drop, .clock = full->clock);
    occupy(full->pool, &full->gate, 1);
    submit_times(full->pool, tally_task, &full->queued, 2);
}

void close_full(struct full_pool *full) {
    gate_open(&full->gate);
    assert_status(lw_pool_stop(full->pool, LW_DRAIN, -1), LW_OK);
    close_pool(full->pool);
    lw_test_clock_close(full->clock);
}

lw_clock *open_clock(void) {
    lw_clock *clock;
    assert_status(lw_test_clock_open(&clock), LW_OK);
    return clock;
}

void advance(lw_clock *clock, int64_t ms) {
    assert_status(lw_test_clock_advance(clock, ms), LW_OK);
}

void await_sleepers(lw_clock *clock, int count) {
    assert_status(lw_test_clock_await_sleepers(clock, count, 200000), LW_OK);
}

lw_test_memory *open_memory(void) {
    lw_test_memory *memory;
    assert_status(lw_test_memory_open(&memory), LW_OK);
    return memory;
}

bool is_all_freed(lw_test_memory *memory) {
    uint64_t blocks;
    lw_test_memory_usage(memory, &blocks, NULL, NULL);
    return blocks == 0;
}

void close_memory(lw_test_memory *memory) {
    uint64_t blocks, bytes;
    lw_test_memory_usage(memory, &blocks, &bytes, NULL);
    assert_int_equal(bytes, 0);
    assert_int_equal(blocks, 0);
    lw_test_memory_close(memory);
}

static bool is_any(const char *name) {
    (void)name;
    return true;
}

/* A thread that has been joined is listed a moment longer, with the kernel's PF_EXITING among its
 * flags. */
static bool is_alive(const char *tid) {
    char path[64], line[512] = "";
    unsigned flags = 4;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/stat", tid);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    const char *rest = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    if (rest)
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %u", &flags);
    fclose(file);
    return !(flags & 4);
}

static int count_entries(const char *folder, bool (*counts)(const char *name)) {
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        count += entry->d_name[0] != '.' && counts(entry->d_name);
    closedir(dir);
    return count;
}

int thread_count(void) {
    return count_entries("/proc/self/task", is_alive);
}

int fd_count(void) {
    return count_entries("/proc/self/fd", is_any) - 1; /* without the one that reads it */
}

pthread_t start_thread(void *(*run)(void *), void *arg) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, arg), 0);
    return thread;
}

void join_thread(pthread_t thread) {
    assert_int_equal(pthread_join(thread, NULL), 0);
}

void assert_sentence_at(const lw_error *err, int status, const char *word, const char *file,
                        int line) {
    test_assert_status(err->status, status, "err.status", file, line);
    size_t length = strnlen(err->message, sizeof err->message);
    if (length > 10 && length < sizeof err->message && strstr(err->message, word) != NULL)
        return;
    fprintf(stderr, "%s:%d: \"%.*s\" is no sentence about \"%s\"\n", file, line, (int)length,
            err->message, word);
    abort();
}
