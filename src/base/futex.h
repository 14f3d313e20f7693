/* The two system calls that everything here sleeps and wakes with, and the one that makes other
 * threads' fences.
 *
 * Raw system calls, so that they are no cancellation points: a thread that a task has cancelled
 * must not die inside the pool's own code.
 */
#ifndef LW_BASE_FUTEX_H
#define LW_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Sleeps while *word is `seen`, until a wake or the deadline (of the system's clock, base/clock.h;
 * LW__NEVER: none). May return early. */
void lw__futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t deadline);

/* Wakes up to `count` sleepers of the word. The word's memory may be gone already: nothing is read
 * from it. */
void lw__futex_wake(_Atomic uint32_t *word, int count);

/* Asks the kernel for lw__barrier_everywhere; once per process is enough, more often is cheap.
 * False: it has none. */
bool lw__barrier_prepare(void);

/* Makes every thread of the process pass a full memory barrier before this returns: the expensive
 * half of an asymmetric Dekker protocol whose other half is then free of fences. Some 10 µs: for
 * rare events only. */
void lw__barrier_everywhere(void);

/* The free half: stops the compiler from moving accesses across; the processor is kept by
 * lw__barrier_everywhere. */
static inline void lw__barrier_light(void) {
    atomic_signal_fence(memory_order_seq_cst);
}

/* One breath of a spinning thread. */
static inline void lw__spin_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Asks for a cache line early, in order to write to it. A hint: any address is fine. */
static inline void lw__fetch_to_write(const volatile void *address) {
#if defined(__x86_64__) || defined(__i386__)
    __asm__ volatile("prefetchw %0" : : "m"(*(const volatile char *)address));
#else
    __builtin_prefetch((const void *)address, 1);
#endif
}

#endif
