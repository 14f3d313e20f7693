/* Tasks of one priority, in order, as an array in blocks. */
#include "store/run.h"

#include <assert.h>
#include <string.h>

void lw__run_extend(struct lw__run *run, struct lw__run_block *block) {
    block->begin = block->end = block->hole_count = 0;
    block->next = NULL;
    block->previous = run->last;
    if (run->last != NULL)
        run->last->next = block;
    else
        run->first = block;
    run->last = block;
}

static void unlink_block(struct lw__run *run, struct lw__run_block *block) {
    if (block->previous != NULL)
        block->previous->next = block->next;
    else
        run->first = block->next;
    if (block->next != NULL)
        block->next->previous = block->previous;
    else
        run->last = block->previous;
}

/* After tasks were taken out: moves `begin` on to the next one, or the empty block out of the
 * run. */
static struct lw__run_block *pass_holes(struct lw__run *run, struct lw__run_block *block) {
    if (block->end - block->begin == block->hole_count) {
        unlink_block(run, block);
        return block;
    }
    for (; block->items[block->begin] == NULL; block->begin++)
        block->hole_count--;
    return NULL;
}

struct lw__run_block *lw__run_remove(struct lw__run *run, struct lw__run_block *block,
                                     uint32_t index) {
    assert(block->items[index] != NULL);
    block->items[index] = NULL;
    block->hole_count++;
    return pass_holes(run, block);
}

static void take_dense(struct lw__run_block *block, struct lw__task **tasks, uint32_t count) {
    memcpy(tasks, &block->items[block->begin], count * sizeof(struct lw__task *));
    block->begin += count;
}

static void take_sparse(struct lw__run_block *block, struct lw__task **tasks, uint32_t count) {
    for (uint32_t taken = 0; taken < count; block->begin++) {
        struct lw__task *task = block->items[block->begin];
        if (task == NULL) {
            block->hole_count--;
            continue;
        }
        tasks[taken++] = task;
    }
}

uint32_t lw__run_take(struct lw__run *run, struct lw__task **tasks, uint32_t max,
                      struct lw__run_block **emptied) {
    struct lw__run_block *block = run->first;
    uint32_t count = block->end - block->begin - block->hole_count;
    if (count > max)
        count = max;
    if (block->hole_count == 0)
        take_dense(block, tasks, count);
    else
        take_sparse(block, tasks, count);
    *emptied = pass_holes(run, block);
    return count;
}
