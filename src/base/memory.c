/* Memory through an lw_allocator, and the default one. */
#include "base/memory.h"

#include "base/poison.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Large blocks are the system's own pages, and return to it when they are freed. malloc begins like
 * that, too, but keeps them as soon as the first was freed: of a million tasks that had left, 137
 * MB stayed in the process. (AddressSanitizer looks for pointers to what is in use in malloc's
 * blocks, and not in such pages.) */
#if defined(LW__HAS_ASAN)
#define LARGE SIZE_MAX
#else
#define LARGE ((size_t)64 * 1024) /* so that all chunks of slabs are */
#endif

static void *map(size_t size) {
    void *ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ptr != MAP_FAILED ? ptr : NULL;
}

static void release(void *ptr, size_t size) {
    if (size >= LARGE)
        munmap(ptr, size);
    else
        free(ptr);
}

/* From pages to malloc's memory, or back. */
static void *move(void *ptr, size_t old_size, size_t new_size) {
    void *moved = new_size >= LARGE ? map(new_size) : malloc(new_size);
    if (moved == NULL)
        return NULL;
    memcpy(moved, ptr, old_size < new_size ? old_size : new_size);
    release(ptr, old_size);
    return moved;
}

static void *resize_by_default(void *user, void *ptr, size_t old_size, size_t new_size) {
    (void)user;
    if (new_size == 0) {
        release(ptr, old_size);
        return NULL;
    }
    if (ptr == NULL)
        return new_size >= LARGE ? map(new_size) : malloc(new_size);
    if (old_size < LARGE && new_size < LARGE)
        return realloc(ptr, new_size);
    if (old_size < LARGE || new_size < LARGE)
        return move(ptr, old_size, new_size);
    ptr = mremap(ptr, old_size, new_size, MREMAP_MAYMOVE);
    return ptr != MAP_FAILED ? ptr : NULL;
}

const lw_allocator *lw__allocator_default(void) {
    static const lw_allocator by_default = {.resize = resize_by_default};
    return &by_default;
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
