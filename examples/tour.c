/* A tour of the pool: what becomes of a task when the queue is full, and when the pool stops.
 *
 * Think of a post office with one clerk (a worker) and a tray for two letters (the queue). Letter 1
 * goes far away; while the clerk is out with it, letters 2 and 3 fill the tray. Then letter 4 comes
 * in, or the office closes. Each row that is printed is such an office, with another rule.
 */
#include <legwork/pool.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

struct letter {
    int number;
    const char *fate;
};

static sem_t clerk_is_out;
static pthread_t sender;

/* The task. It sleeps on its context, so that a stop can cut it short. */
static void carry(lw_ctx *ctx, void *arg) {
    struct letter *letter = arg;
    if (letter->number == 1)
        sem_post(&clerk_is_out);
    int rc = lw_ctx_sleep(ctx, letter->number == 1 ? 120 : 1);
    bool by_sender = pthread_equal(sender, pthread_self());
    letter->fate = rc == LW_ECANCELED ? "cut short" : by_sender ? "by sender" : "carried";
}

/* on_drop: what was accepted and will not run comes back here, so that nothing leaks. */
static void hand_back(void *arg) {
    ((struct letter *)arg)->fate = "handed back";
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

/* One office, one row. False: a letter was lost. With 3 letters nothing overflows: it closes. */
static bool visit(const char *rule, lw_overflow overflow, int64_t wait_ms, int count,
                  lw_stop_mode stop, const char *moral) {
    lw_pool *pool;
    lw_error err;
    if (lw_pool_open(&pool,
                     LW_POOL_OPTIONS(.min_workers = 1, .queue_limit = 2, .overflow = overflow,
                                     .submit_timeout_ms = wait_ms, .on_drop = hand_back),
                     &err)
        < 0)
        return fprintf(stderr, "%s\n", err.message), false;
    struct letter letters[4] = {{1, "lost"}, {2, "lost"}, {3, "lost"}, {4, "lost"}};
    double start_ms = 0, last_ms = 0;
    for (int i = 0; i < count; i++) {
        start_ms = now_ms();
        int rc = lw_pool_submit(pool, carry, &letters[i]);
        last_ms = now_ms() - start_ms;
        if (rc < 0)
            letters[i].fate = lw_status_name(rc); /* not accepted: it is still ours */
        else if (i == 0)
            sem_wait(&clerk_is_out);
    }
    start_ms = now_ms();
    lw_pool_stop(pool, stop, 5000);
    if (count < 4)
        last_ms = now_ms() - start_ms;
    lw_pool_stats stats;
    lw_pool_get_stats(pool, &stats);
    lw_pool_close(pool);

    printf("  %-24s", rule);
    for (int i = 0; i < 4; i++)
        printf("%-13s", i < count ? letters[i].fate : "");
    printf("%4.0f ms  %s\n", last_ms, moral);
    return stats.submitted == stats.run + stats.dropped
           && stats.submitted + stats.refused == (uint64_t)count;
}

int main(void) {
    sem_init(&clerk_is_out, 0, 0);
    sender = pthread_self();
    puts("A post office: one clerk, and a tray for two letters. While the clerk is out with\n"
         "letter 1, letters 2 and 3 fill the tray.\n");
    printf("%-26s%-13s%-13s%-13s%-13s%s\n", "THEN LETTER 4 COMES", "letter 1", "letter 2",
           "letter 3", "letter 4", "its sender waits");
    bool ok = visit("block", LW_BLOCK, -1, 4, LW_DRAIN, "until there is room");
    ok &= visit("block until a deadline", LW_BLOCK, 20, 4, LW_DRAIN, "then gives up");
    ok &= visit("refuse", LW_REFUSE, 0, 4, LW_DRAIN, "\"503, try later\"");
    ok &= visit("caller runs", LW_CALLER_RUNS, 0, 4, LW_DRAIN, "goes in person");
    ok &= visit("drop the oldest", LW_DROP_OLDEST, 0, 4, LW_DRAIN, "new beats old");
    printf("\n%-78s%s\n", "THEN THE OFFICE CLOSES", "closing takes");
    ok &= visit("drain", LW_BLOCK, -1, 3, LW_DRAIN, "all is carried");
    ok &= visit("drop", LW_BLOCK, -1, 3, LW_DROP, "nothing more starts");
    puts(ok ? "\n26 letters, and each came to exactly one end." : "\nA letter was lost!");
    return !ok;
}
