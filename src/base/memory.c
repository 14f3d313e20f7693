/* Memory through an lw_allocator, and the default one. */
#include "base/memory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static void *resize_with_malloc(void *user, void *ptr, size_t old_size, size_t new_size) {
    (void)user, (void)old_size;
    if (new_size > 0)
        return realloc(ptr, new_size);
    free(ptr);
    return NULL;
}

const lw_allocator *lw__allocator_default(void) {
    static const lw_allocator with_malloc = {.resize = resize_with_malloc};
    return &with_malloc;
}

void *lw__resize(const lw_allocator *allocator, void *ptr, size_t old_size, size_t new_size) {
    const lw_allocator *a = allocator != NULL ? allocator : lw__allocator_default();
    assert(new_size > 0);
    return a->resize(a->user, ptr, old_size, new_size);
}

void *lw__alloc(const lw_allocator *allocator, size_t size) {
    return lw__resize(allocator, NULL, 0, size);
}

void *lw__alloc_zero(const lw_allocator *allocator, size_t size) {
    void *ptr = lw__alloc(allocator, size);
    return ptr != NULL ? memset(ptr, 0, size) : NULL;
}

void lw__free(const lw_allocator *allocator, void *ptr, size_t size) {
    const lw_allocator *a = allocator != NULL ? allocator : lw__allocator_default();
    if (ptr != NULL)
        a->resize(a->user, ptr, size, 0);
}

/* An aligned block lies somewhere in a larger one, whose address stands right before it. */
static size_t padding(size_t align) {
    assert(align > 0 && (align & (align - 1)) == 0);
    return sizeof(void *) + align - 1;
}

size_t lw__aligned_size(size_t size, size_t align) {
    return size + padding(align);
}

void *lw__alloc_aligned(const lw_allocator *allocator, size_t size, size_t align) {
    if (size > SIZE_MAX - padding(align))
        return NULL;
    char *whole = lw__alloc(allocator, lw__aligned_size(size, align));
    if (whole == NULL)
        return NULL;
    uintptr_t earliest = (uintptr_t)whole + sizeof(void *);
    char *ptr = whole + sizeof(void *) + (-earliest & (align - 1));
    memcpy(ptr - sizeof(void *), &whole, sizeof whole); /* align may be less than a pointer's */
    return ptr;
}

void lw__free_aligned(const lw_allocator *allocator, void *ptr, size_t size, size_t align) {
    void *whole;
    if (ptr == NULL)
        return;
    memcpy(&whole, (char *)ptr - sizeof whole, sizeof whole);
    lw__free(allocator, whole, lw__aligned_size(size, align));
}
