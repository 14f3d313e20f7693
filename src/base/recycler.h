/* An allocator in front of another one, that keeps some freed blocks for the next who wants one.
 *
 * A task's block is allocated by whoever submits it and freed by a worker. Allocators are made for
 * threads that free what they have allocated: with malloc both meet at the lock of the submitter's
 * arena, and sleep there (a task with a payload took 600 ns, 230 with this in front). Here a freed
 * block goes into a ring, from which the next one of its size is taken, without a lock.
 *
 * Sizes are rounded up to a multiple of LW__RECYCLER_STEP; larger blocks than LW__RECYCLER_MAX are
 * passed through. At most LW__RECYCLER_KEPT of each size are kept: 960 KiB altogether.
 *
 * Threads: any.
 */
#ifndef LW_BASE_RECYCLER_H
#define LW_BASE_RECYCLER_H

#include "base/ring.h"

#define LW__RECYCLER_STEP 128
#define LW__RECYCLER_MAX 640 /* a leaf of the ids has 544 */
#define LW__RECYCLER_SIZES (LW__RECYCLER_MAX / LW__RECYCLER_STEP)
#define LW__RECYCLER_KEPT 512

struct lw__recycler {
    /* fixed after init */
    lw_allocator allocator; /* what to allocate with, as long as this is open */
    lw_allocator source;
    struct lw__ring kept[LW__RECYCLER_SIZES];
};

/* False: no memory. */
bool lw__recycler_init(struct lw__recycler *recycler, const lw_allocator *source);

/* Gives back what is kept. Also after an init that failed, and of zeroed memory. */
void lw__recycler_free(struct lw__recycler *recycler);

#endif
