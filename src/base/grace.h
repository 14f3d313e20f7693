/* Grace: readers look at shared memory without a lock; writers free it only when nobody can still
 * be looking.
 *
 *     reader                                   writer (one at a time: under the owner's lock)
 *     ticket = lw__grace_enter(&grace);        take the pointer out of what readers follow;
 *     follow pointers, copy;                   lw__grace_retire(&grace, ptr, detail);
 *     lw__grace_leave(&grace, ticket);         lw__grace_collect(&grace) now and then
 *
 * Two epochs, and for each a count of the readers that entered in it, spread over a few cache lines
 * so that readers do not meet. What is retired is freed once the epoch has changed and all readers
 * of the epochs before have left. Readers never wait and never make a writer wait (but for
 * lw__grace_retire without memory); what is retired but not free yet is bounded only by how long
 * readers stay, which is why they just copy and go. Sections may be nested.
 *
 * Threads: enter and leave from any thread; the rest under the owner's lock.
 */
#ifndef LW_BASE_GRACE_H
#define LW_BASE_GRACE_H

#include <legwork/runtime.h>
#include <stdatomic.h>

#define LW__GRACE_STRIPES 8

/* Called under the owner's lock, once for each thing that was retired. May retire more. */
typedef void (*lw__grace_free_fn)(void *user, void *ptr, uintptr_t detail);

struct lw__grace_item {
    void *ptr;
    uintptr_t detail; /* whatever free_fn needs: a size, a type */
};

struct lw__grace_stripe {
    _Alignas(64) _Atomic uint32_t readers[2]; /* by epoch & 1 */
};

/* Aligned to cache lines: who has one inside a struct on the heap takes lw__alloc_aligned. */
struct lw__grace {
    struct lw__grace_stripe stripes[LW__GRACE_STRIPES];
    /* atomic, written under the owner's lock */
    _Alignas(64) _Atomic uint32_t epoch;
    /* fixed after init */
    const lw_allocator *allocator;
    lw__grace_free_fn free_fn;
    void *user;
    /* guarded by the owner's lock; on a line that readers do not touch */
    _Alignas(64) struct lw__grace_item *items; /* a ring in order of retiring; NULL: none yet */
    uint32_t capacity;                         /* a power of two, or 0 */
    uint32_t old;   /* from here on: retired in the epoch before, free when its readers have left */
    uint32_t young; /* from here on: retired in this epoch */
    uint32_t end;
};

void lw__grace_init(struct lw__grace *grace, const lw_allocator *allocator,
                    lw__grace_free_fn free_fn, void *user);

/* Frees everything that was retired; no reader may be inside. */
void lw__grace_free(struct lw__grace *grace);

/* Returns what lw__grace_leave wants. */
uint32_t lw__grace_enter(struct lw__grace *grace);
void lw__grace_leave(struct lw__grace *grace, uint32_t ticket);

/* Makes sure that `count` more retires before the next collect will not need memory. False: there
 * is none. */
bool lw__grace_reserve(struct lw__grace *grace, uint32_t count);

/* Frees ptr later. Cannot fail: without memory for the list it waits for the readers instead (they
 * only copy and go), which is why the caller must not be inside a section itself. Once the list has
 * its size it does not allocate. */
void lw__grace_retire(struct lw__grace *grace, void *ptr, uintptr_t detail);

/* Frees what can be freed, which is everything when no reader is inside; a compare when nothing was
 * retired. */
void lw__grace_collect(struct lw__grace *grace);

/* The same, for whoever would retire many things: true if all readers have left that could know
 * what was taken out of their reach before this call. Then that can be freed as it is. */
bool lw__grace_pass(struct lw__grace *grace);

#endif
