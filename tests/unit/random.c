/* Random numbers are those of the published algorithm, fair, and repeat from a seed. */
#include "test.h"

#include "base/random.h"

#include <string.h>

TEST(the_sequence_is_that_of_xoshiro256starstar) {
    static const uint64_t published[] = {
        UINT64_C(11520),
        UINT64_C(0),
        UINT64_C(1509978240),
        UINT64_C(1215971899390074240),
        UINT64_C(1216172134540287360),
        UINT64_C(607988272756665600),
        UINT64_C(16172922978634559625),
        UINT64_C(8476171486693032832),
        UINT64_C(10595114339597558777),
        UINT64_C(2904607092377533576),
    };
    struct lw__random random = {.state = {1, 2, 3, 4}};
    for (size_t i = 0; i < sizeof published / sizeof *published; i++)
        assert_int_equal(lw__random_next(&random), published[i]);
}

TEST(a_seed_is_spread_by_splitmix64) {
    struct lw__random random;
    lw__random_seed(&random, 0);
    assert_int_equal(random.state[0], UINT64_C(0xe220a8397b1dcdaf));
    assert_int_equal(random.state[1], UINT64_C(0x6e789e6aa1b965f4));
    assert_int_equal(random.state[2], UINT64_C(0x06c45d188009454f));
    assert_int_equal(random.state[3], UINT64_C(0xf88bb8a8724c81ec));
}

TEST(the_same_seed_gives_the_same_numbers_and_another_seed_others) {
    struct lw__random a, b, c;
    lw__random_seed(&a, 42);
    lw__random_seed(&b, 42);
    lw__random_seed(&c, 43);
    int same = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t number = lw__random_next(&a);
        assert_int_equal(number, lw__random_next(&b));
        same += number == lw__random_next(&c);
    }
    assert_int_equal(same, 0);
}

TEST(numbers_below_a_bound_are_equally_likely) {
    enum { BOUND = 7, DRAWS = 70000 };
    int counts[BOUND] = {0};
    struct lw__random random;
    lw__random_seed(&random, 1);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t number = lw__random_below(&random, BOUND);
        assert_true(number < BOUND);
        counts[number]++;
    }
    /* The deviation to be expected is 93; 500 is more than five of it. */
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], DRAWS / BOUND - 500, DRAWS / BOUND + 500);
}

/* With this bound a plain remainder would draw the lowest third twice as often, and a plain
 * multiplication the multiples of 3. */
TEST(numbers_below_a_huge_bound_are_fair_too) {
    const uint64_t bound = UINT64_C(3) << 62;
    struct lw__random random;
    int lowest = 0, multiples = 0;
    lw__random_seed(&random, 2);
    for (int i = 0; i < 30000; i++) {
        uint64_t number = lw__random_below(&random, bound);
        assert_true(number < bound);
        lowest += number < bound / 3;
        multiples += number % 3 == 0;
    }
    assert_in_range(lowest, 10000 - 500, 10000 + 500);
    assert_in_range(multiples, 10000 - 500, 10000 + 500);
}

TEST(below_one_is_always_zero) {
    struct lw__random random;
    lw__random_seed(&random, 3);
    for (int i = 0; i < 100; i++)
        assert_int_equal(lw__random_below(&random, 1), 0);
    assert_true(lw__random_below(&random, UINT64_MAX) < UINT64_MAX);
}

TEST(the_system_seeds_differently_each_time) {
    struct lw__random a, b;
    assert_status(lw__random_seed_from_system(&a, NULL), LW_OK);
    assert_status(lw__random_seed_from_system(&b, NULL), LW_OK);
    assert_memory_not_equal(&a, &b, sizeof a);
}
