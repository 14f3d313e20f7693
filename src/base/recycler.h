/* An allocator of small blocks in front of another one.
 *
 * A task's block is allocated by whoever submits it and freed by a worker. Allocators are made for
 * threads that free what they have allocated: with malloc both meet at the lock of the submitter's
 * arena, and sleep there (a task with a payload took 600 ns, 400 with this in front); and of what a
 * burst of tasks has left behind malloc gives little back to the system. Here a freed block goes
 * into a ring, from which the next one of its size is taken, without a lock. Beyond that blocks
 * come from slabs, whose chunks return to the other allocator when they are empty.
 *
 * The engine puts it in front of the default allocator only: one that a program brings along gets
 * every block, and so do tests in which memory fails.
 *
 * Sizes are rounded up to a multiple of LW__RECYCLER_STEP; larger blocks than LW__RECYCLER_MAX are
 * passed through. At most LW__RECYCLER_KEPT of each size are kept in the rings: 1.7 MiB altogether.
 *
 * Threads: any.
 */
#ifndef LW_BASE_RECYCLER_H
#define LW_BASE_RECYCLER_H

#include "base/brief.h"
#include "base/ring.h"
#include "base/slab.h"

#define LW__RECYCLER_STEP 64
#define LW__RECYCLER_MAX 640 /* a leaf of the ids has 544 */
#define LW__RECYCLER_SIZES (LW__RECYCLER_MAX / LW__RECYCLER_STEP)
#define LW__RECYCLER_KEPT 512

/* Blocks of one size. */
struct lw__recycled {
    struct lw__ring kept;
    struct lw__brief mu;
    struct lw__slab slab; /* guarded by mu */
};

struct lw__recycler {
    /* fixed after init */
    lw_allocator allocator; /* what to allocate with, as long as this is open */
    lw_allocator source;
    struct lw__recycled sizes[LW__RECYCLER_SIZES];
};

/* False: no memory. */
bool lw__recycler_init(struct lw__recycler *recycler, const lw_allocator *source);

/* Gives everything back, whether or not blocks are still in use. Also after an init that failed,
 * and of zeroed memory. */
void lw__recycler_free(struct lw__recycler *recycler);

#endif
