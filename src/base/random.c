/* xoshiro256** by Blackman and Vigna, its state filled by splitmix64, as its authors advise: seeds
 * that differ in one bit then start far apart, and the state is never all zero. */
#include "base/random.h"

#include "base/error.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

__extension__ typedef unsigned __int128 uint128;

static uint64_t splitmix64(uint64_t *state) {
    uint64_t z = (*state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t x, int by) {
    return x << by | x >> (64 - by);
}

void lw__random_seed(struct lw__random *random, uint64_t seed) {
    for (int i = 0; i < 4; i++)
        random->state[i] = splitmix64(&seed);
}

int lw__random_seed_from_system(struct lw__random *random, lw_error *err) {
    uint64_t seed;
    /* Not getrandom itself, which it is on Linux: this one is there on every system, neither
     * gives back less than asked for nor stops at a signal. */
    if (getentropy(&seed, sizeof seed) != 0)
        return lw__error_set(err, LW_ESYSTEM, errno, "no entropy from the system: %s",
                             strerror(errno));
    lw__random_seed(random, seed);
    return LW_OK;
}

uint64_t lw__random_next(struct lw__random *random) {
    uint64_t *s = random->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

/* The upper half of a product with 64 random bits is nearly uniform; what makes it exactly so is to
 * throw away the 2^64 mod bound lowest products [Lemire 2019]. Almost always one multiplication. */
uint64_t lw__random_below(struct lw__random *random, uint64_t bound) {
    assert(bound > 0);
    uint128 product = (uint128)lw__random_next(random) * bound;
    if ((uint64_t)product < bound) {
        uint64_t unfair = -bound % bound;
        while ((uint64_t)product < unfair)
            product = (uint128)lw__random_next(random) * bound;
    }
    return (uint64_t)(product >> 64);
}
