/* The power goes: at every call that SQLite makes to write, truncate, sync or remove, and at random
 * ones, with anything left of what was not synced. Whatever was answered is there again, nothing is
 * half there, and what is left runs. LW_SEED=7 repeats a random run. */
#include "cut_vfs.h"
#include "errands.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>

enum { STRIDE = 29, RANDOM = 20, RANDOM_SOAK = 2000 };

static uint64_t seed_of_run(void) {
    const char *text = getenv("LW_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

/* A run that nothing happens to: how many calls there are. */
static uint64_t count_calls(void) {
    struct errands *errands = errands_open();
    assert_true(errands_run(errands));
    uint64_t calls = cut_vfs_calls(CUT_ANY);
    errands_audit(errands);
    errands_close(errands);
    return calls;
}

static uint64_t prepare(void) {
    cut_vfs_install();
    errands_checkpoint_often();
    return count_calls();
}

static void cut_at(uint64_t nth, enum cut_left left, uint64_t seed) {
    struct errands *errands = errands_open();
    cut_vfs_order((struct cut_order){CUT_POWER, CUT_ANY, nth, 1});
    errands_run(errands);
    cut_vfs_restore(left, seed);
    errands_audit(errands);
    errands_close(errands);
}

TEST(a_power_cut_at_any_call_loses_nothing_that_was_answered) {
    uint64_t calls = prepare();
    uint64_t stride = (uint64_t)(test_scale(STRIDE, 1) * test_stride(3));
    printf("%llu calls, cut at each %lluth\n", (unsigned long long)calls,
           (unsigned long long)stride);
    for (uint64_t nth = 1; nth <= calls; nth += stride)
        cut_at(nth, CUT_LEFT_NOTHING, 0);
}

TEST(whatever_a_power_cut_leaves_of_the_last_writes) {
    uint64_t calls = prepare(), random = seed_of_run();
    for (long i = 0; i < test_scale(RANDOM, RANDOM_SOAK); i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t nth = 1 + (random >> 33) % calls;
        enum cut_left left = (enum cut_left)(i % CUT_LEFT_COUNT);
        fprintf(stderr, "cut at %llu, left %d, seed %llu\n", (unsigned long long)nth, (int)left,
                (unsigned long long)random);
        cut_at(nth, left, random);
    }
}
