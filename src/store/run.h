/* A run: tasks of one priority in rising order (due, id), as an array in blocks. Appended at the
 * end, taken from the front, and removed from anywhere, which leaves a hole. A block that has no
 * task left leaves the run, wherever it was, and is handed to the caller, who also provides new
 * ones.
 *
 * Threads: under the owner's lock.
 */
#ifndef LW_STORE_RUN_H
#define LW_STORE_RUN_H

#include "store/task.h"

#define LW__RUN_BLOCK 124

struct lw__run_block {
    struct lw__run_block *next, *previous;
    uint32_t begin, end; /* what was filled and not passed yet; the first of it is no hole */
    uint32_t hole_count; /* in there */
    struct lw__task *items[LW__RUN_BLOCK]; /* NULL: a hole */
};

_Static_assert(sizeof(struct lw__run_block) == 1024, "allocators like powers of two");

struct lw__run {
    struct lw__run_block *first, *last; /* both NULL: empty */
    uint64_t last_due, last_id; /* of the youngest that was ever appended: what may follow it */
    uint32_t priority;
};

static inline struct lw__task *lw__run_first(const struct lw__run *run) {
    return run->first->items[run->first->begin];
}

/* Whether a task may stand behind all that were appended. */
static inline bool lw__run_may_follow(const struct lw__run *run, uint64_t due, uint64_t id) {
    return due > run->last_due || (due == run->last_due && id > run->last_id);
}

static inline bool lw__run_has_room(const struct lw__run *run) {
    return run->last->end < LW__RUN_BLOCK;
}

/* For a task that may follow, if there is room in the last block. */
static inline void lw__run_append(struct lw__run *run, struct lw__lane *lane, struct lw__task *task,
                                  uint64_t due) {
    struct lw__run_block *block = run->last;
    uint32_t index = block->end++;
    block->items[index] = task;
    run->last_due = due;
    run->last_id = task->id;
    task->place = (struct lw__place){.lane = lane, .block = block, .index = index};
}

/* Adds room: a block at the end, to be appended to at once. */
void lw__run_extend(struct lw__run *run, struct lw__run_block *block);

/* Takes a task out; its place is left as it is. Returns its block if that has left the run, else
 * NULL. */
struct lw__run_block *lw__run_remove(struct lw__run *run, struct lw__run_block *block,
                                     uint32_t index);

/* Takes up to max tasks, at least one, from the first block; reads and writes nothing of a task:
 * its place is left as it is. *emptied is the block if it has left the run, else NULL. Returns how
 * many. */
uint32_t lw__run_take(struct lw__run *run, struct lw__task **tasks, uint32_t max,
                      struct lw__run_block **emptied);

#endif
