/* Futex and membarrier, as Linux has them. */
#include "base/futex.h"

#include "base/clock.h"

#include <limits.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void lw__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline) {
    uint64_t at = deadline > LW__CLOCK_BASE ? deadline - LW__CLOCK_BASE : 0;
    struct timespec until = {.tv_sec = (time_t)(at / LW__NS_PER_S),
                             .tv_nsec = (long)(at % LW__NS_PER_S)};
    /* WAIT_BITSET takes an absolute time, WAIT a relative one; without a time they are the same. */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, seen,
            deadline == LW__NEVER ? NULL : &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

void lw__futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

bool lw__barrier_prepare(void) {
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void lw__barrier_everywhere(void) {
    syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
