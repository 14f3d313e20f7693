/* The same engine as in engine.c on the SQLite store, which is closed and opened again in between:
 * see tests/support/sim.h. */
#include "sim.h"
#include "test.h"
#include "unsynced.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define URL "sqlite:sim.db"

static void run_seeds(uint64_t first, uint64_t count, long stride) {
    stop_syncing();
    for (uint64_t i = 0; i < count; i += (uint64_t)stride)
        sim_run(URL, first + i, false);
}

TEST(seeds_1_to_60_keep_to_the_model) {
    run_seeds(1, 60, test_stride(6));
}

TEST(seeds_61_to_120_keep_to_the_model) {
    run_seeds(61, 60, test_stride(6));
}

TEST(the_same_seed_gives_the_same_trace) {
    stop_syncing();
    uint64_t first = sim_run(URL, 7, false);
    assert_int_equal(sim_run(URL, 7, false), first);
    assert_int_not_equal(sim_run(URL, 8, false), first);
}

static uint64_t number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* As in engine.c. */
TEST(seeds_that_are_asked_for_keep_to_the_model) {
    uint64_t seed = number("LW_SEED", 121), count = number("LW_SEEDS", 0);
    bool is_shown = count == 0 && getenv("LW_SEED");
    run_seeds(seed, count, 1);
    if (count == 0)
        printf("seed %" PRIu64 ": trace %016" PRIx64 "\n", seed, sim_run(URL, seed, is_shown));
    else
        printf("%" PRIu64 " seeds from %" PRIu64 " on keep to the model\n", count, seed);
}
