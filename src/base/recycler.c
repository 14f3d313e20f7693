/* An allocator of small blocks: rings of freed ones, and slabs behind them. */
#include "base/recycler.h"

#include "base/memory.h"
#include "base/poison.h"

#include <string.h>

/* Objects of a slab stand 8 bytes behind a boundary of 16 if their slots are a multiple of that
 * apart; a block is to be on the boundary, as malloc's are. */
#define PAD 8

/* Of sizes up to LW__RECYCLER_MAX. */
static size_t rounded(size_t size) {
    return (size + LW__RECYCLER_STEP - 1) / LW__RECYCLER_STEP * LW__RECYCLER_STEP;
}

static struct lw__recycled *recycled_of(struct lw__recycler *recycler, size_t size) {
    return &recycler->sizes[rounded(size) / LW__RECYCLER_STEP - 1];
}

static void *take_from_slab(struct lw__recycled *of_size) {
    void *object = NULL;
    lw__brief_lock(&of_size->mu);
    int rc = lw__slab_take(&of_size->slab, &object, NULL);
    lw__brief_unlock(&of_size->mu);
    return rc == LW_OK ? (char *)object + PAD : NULL;
}

static void give_to_slab(struct lw__recycled *of_size, void *block) {
    lw__brief_lock(&of_size->mu);
    lw__slab_give(&of_size->slab, (char *)block - PAD);
    lw__brief_unlock(&of_size->mu);
}

static void *take(struct lw__recycler *recycler, size_t size) {
    if (size > LW__RECYCLER_MAX)
        return lw__alloc(&recycler->source, size);
    struct lw__recycled *of_size = recycled_of(recycler, size);
    struct lw__ring_item item;
    uint64_t position;
    if (lw__ring_pop(&of_size->kept, &item, 1, &position) == 0)
        return take_from_slab(of_size);
    LW__UNPOISON(item.arg, rounded(size));
    return item.arg;
}

static void give(struct lw__recycler *recycler, void *block, size_t size) {
    if (size > LW__RECYCLER_MAX) {
        lw__free(&recycler->source, block, size);
        return;
    }
    struct lw__recycled *of_size = recycled_of(recycler, size);
    struct lw__ring_item item = {.arg = block};
    struct lw__ring_push push = {0};
    LW__POISON(block, rounded(size));
    if (lw__ring_push(&of_size->kept, &item, 1, &push) != LW__RING_PUSHED)
        give_to_slab(of_size, block);
}

/* From one size to another, of which at least one is small. */
static void *move(struct lw__recycler *recycler, void *block, size_t old_size, size_t new_size) {
    void *other = take(recycler, new_size);
    if (!other)
        return NULL;
    memcpy(other, block, old_size < new_size ? old_size : new_size);
    give(recycler, block, old_size);
    return other;
}

static void *resize(void *user, void *block, size_t old_size, size_t new_size) {
    struct lw__recycler *recycler = user;
    if (!block)
        return take(recycler, new_size);
    if (new_size == 0) {
        give(recycler, block, old_size);
        return NULL;
    }
    if (old_size > LW__RECYCLER_MAX && new_size > LW__RECYCLER_MAX)
        return lw__resize(&recycler->source, block, old_size, new_size);
    return move(recycler, block, old_size, new_size);
}

bool lw__recycler_init(struct lw__recycler *recycler, const lw_allocator *source) {
    recycler->allocator = (lw_allocator){.resize = resize, .user = recycler};
    recycler->source = source ? *source : *lw__allocator_default();
    for (size_t i = 0; i < LW__RECYCLER_SIZES; i++) {
        struct lw__recycled *of_size = &recycler->sizes[i];
        lw__slab_init(&of_size->slab, &recycler->source, (i + 1) * LW__RECYCLER_STEP + PAD,
                      LW__SLAB_LIMIT_MAX, "LW__SLAB_LIMIT_MAX");
        if (!lw__ring_init(&of_size->kept, &recycler->source, LW__RECYCLER_KEPT))
            return false;
    }
    return true;
}

/* The first size that has no ring was not made, or only half. */
void lw__recycler_free(struct lw__recycler *recycler) {
    for (size_t i = 0; i < LW__RECYCLER_SIZES && recycler->sizes[i].kept.cells; i++) {
        lw__slab_free(&recycler->sizes[i].slab);
        lw__ring_free(&recycler->sizes[i].kept, &recycler->source);
    }
}
