/* An allocator that keeps freed blocks for a while. */
#include "base/recycler.h"

#include "base/memory.h"
#include "base/poison.h"

#include <string.h>

/* Of sizes up to LW__RECYCLER_MAX. */
static size_t rounded(size_t size) {
    return (size + LW__RECYCLER_STEP - 1) / LW__RECYCLER_STEP * LW__RECYCLER_STEP;
}

static struct lw__ring *ring_of(struct lw__recycler *recycler, size_t size) {
    return &recycler->kept[rounded(size) / LW__RECYCLER_STEP - 1];
}

/* NULL: none is kept. */
static void *take_kept(struct lw__ring *ring) {
    struct lw__ring_item item;
    uint64_t position;
    return lw__ring_pop(ring, &item, 1, &position) > 0 ? item.arg : NULL;
}

static void *take(struct lw__recycler *recycler, size_t size) {
    if (size > LW__RECYCLER_MAX)
        return lw__alloc(&recycler->source, size);
    void *block = take_kept(ring_of(recycler, size));
    if (!block)
        block = lw__alloc(&recycler->source, rounded(size));
    if (block)
        LW__UNPOISON(block, size);
    return block;
}

static void give(struct lw__recycler *recycler, void *block, size_t size) {
    if (size > LW__RECYCLER_MAX) {
        lw__free(&recycler->source, block, size);
        return;
    }
    struct lw__ring_item item = {.arg = block};
    struct lw__ring_push push = {0};
    LW__POISON(block, rounded(size));
    if (lw__ring_push(ring_of(recycler, size), &item, 1, &push) == LW__RING_PUSHED)
        return;
    LW__UNPOISON(block, rounded(size));
    lw__free(&recycler->source, block, rounded(size));
}

/* From one size to another, of which at least one is kept. */
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
    for (int i = 0; i < LW__RECYCLER_SIZES; i++) {
        if (!lw__ring_init(&recycler->kept[i], &recycler->source, LW__RECYCLER_KEPT))
            return false;
    }
    return true;
}

void lw__recycler_free(struct lw__recycler *recycler) {
    for (size_t i = 0; i < LW__RECYCLER_SIZES && recycler->kept[i].cells; i++) {
        size_t size = (i + 1) * LW__RECYCLER_STEP;
        void *block;
        while ((block = take_kept(&recycler->kept[i]))) {
            LW__UNPOISON(block, size);
            lw__free(&recycler->source, block, size);
        }
        lw__ring_free(&recycler->kept[i], &recycler->source);
    }
}
