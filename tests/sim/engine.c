/* The whole engine on a virtual clock, from seeds: see tests/support/sim.h.
 *
 * `make sim SEEDS=n` runs n more of them, `make sim SEED=s` one, showing every step. */
#include "sim.h"
#include "test.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static void run_seeds(uint64_t first, uint64_t count) {
    for (uint64_t i = 0; i < count; i += (uint64_t)test_stride(4))
        sim_run("memory:", first + i, false);
}

TEST(seeds_1_to_240_keep_to_the_model) {
    run_seeds(1, 240);
}

TEST(seeds_241_to_480_keep_to_the_model) {
    run_seeds(241, 240);
}

TEST(seeds_481_to_720_keep_to_the_model) {
    run_seeds(481, 240);
}

TEST(seeds_721_to_960_keep_to_the_model) {
    run_seeds(721, 240);
}

TEST(the_same_seed_gives_the_same_trace) {
    uint64_t first = sim_run("memory:", 7, false);
    assert_int_equal(sim_run("memory:", 7, false), first);
    assert_int_not_equal(sim_run("memory:", 8, false), first);
}

static uint64_t number(const char *variable, uint64_t otherwise) {
    const char *text = getenv(variable);
    return text && *text ? strtoull(text, NULL, 10) : otherwise;
}

/* LW_SEED: where to begin; LW_SEEDS: how many, and without it one that is shown. */
TEST(seeds_that_are_asked_for_keep_to_the_model) {
    uint64_t seed = number("LW_SEED", 961), count = number("LW_SEEDS", 0);
    bool is_shown = count == 0 && getenv("LW_SEED");
    for (uint64_t i = 0; i < count; i++)
        sim_run("memory:", seed + i, false);
    if (count == 0)
        printf("seed %" PRIu64 ": trace %016" PRIx64 "\n", seed,
               sim_run("memory:", seed, is_shown));
    else
        printf("%" PRIu64 " seeds from %" PRIu64 " on keep to the model\n", count, seed);
}
