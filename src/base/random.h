/* Random numbers for jitter, sampling and tests: fast, and the same again from the same seed. Not
 * for secrets: who sees a few numbers can tell the next ones.
 *
 * Threads: not safe; each owner has its own. */
#ifndef LW_BASE_RANDOM_H
#define LW_BASE_RANDOM_H

#include <legwork/status.h>

struct lw__random {
    uint64_t state[4]; /* never all zero */
};

/* Starts the sequence that belongs to a seed; any seed is good, 0 and 1 too. */
void lw__random_seed(struct lw__random *random, uint64_t seed);

/* Starts one that nobody can foresee. Returns LW_OK, or LW_ESYSTEM if the system gives no entropy
 * (a seccomp filter, an ancient kernel); *random is then untouched. */
int lw__random_seed_from_system(struct lw__random *random, lw_error *err);

/* The next 64 random bits. */
uint64_t lw__random_next(struct lw__random *random);

/* A number from 0 to bound - 1, each equally likely; bound must not be 0. */
uint64_t lw__random_below(struct lw__random *random, uint64_t bound);

#endif
