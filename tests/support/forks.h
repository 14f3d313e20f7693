/* forks.h: what tests of forked children share. */
#ifndef LW_TESTS_SUPPORT_FORKS_H
#define LW_TESTS_SUPPORT_FORKS_H

#include <stdatomic.h>
#include <sys/types.h>

/* A counter, 0 at first, that parent and child share. */
atomic_int *open_shared(void);

/* fork() when all other threads of this process sleep: a sanitizer takes locks of its own when a
 * thread begins, and a child that starts threads itself would wait for such a lock for ever. */
pid_t fork_when_settled(void);

/* What a child does first that may end with its last thread: it hangs no longer than a while. */
void begin_child(void);

/* Waits for it: it has exited with 0. */
void expect_good_end(pid_t child);

#endif
