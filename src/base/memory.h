/* Memory through an lw_allocator. Everywhere, a NULL allocator means the default one, which is
 * malloc for all but large blocks. All calls give back NULL when there is no memory and never
 * abort.
 *
 * Frees take the size of the block again: allocators that a program brings along may depend on it,
 * and the test twin (test_memory.c) checks it. */
#ifndef LW_BASE_MEMORY_H
#define LW_BASE_MEMORY_H

#include <legwork/runtime.h>

const lw_allocator *lw__allocator_default(void);

/* A block of size bytes, which must not be 0, aligned for any C type; the second one is zeroed. */
void *lw__alloc(const lw_allocator *allocator, size_t size);
void *lw__alloc_zero(const lw_allocator *allocator, size_t size);

/* Resizes a block (ptr NULL: a new one) to new_size, not 0. On NULL the old block is untouched. */
void *lw__resize(const lw_allocator *allocator, void *ptr, size_t old_size, size_t new_size);

/* ptr may be NULL, whatever the size. */
void lw__free(const lw_allocator *allocator, void *ptr, size_t size);

#define LW__LINE 64 /* bytes that go from core to core together */

/* Blocks on a boundary of align bytes, a power of two; for cache lines mostly. Only
 * lw__free_aligned may free them. From the allocator they take the size that lw__aligned_size
 * tells. */
void *lw__alloc_aligned(const lw_allocator *allocator, size_t size, size_t align);
void lw__free_aligned(const lw_allocator *allocator, void *ptr, size_t size, size_t align);
size_t lw__aligned_size(size_t size, size_t align);

#endif
