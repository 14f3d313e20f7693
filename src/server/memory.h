/* The memory of the server: what malloc gives, as the library's handle. */
#ifndef LW_SERVER_MEMORY_H
#define LW_SERVER_MEMORY_H

#include <legwork/runtime.h>

extern const lw_allocator lw__server_memory;

/* A block of zeros; NULL: there is no memory. */
void *lw__server_alloc(size_t size);
void lw__server_free(void *block); /* NULL is fine */

#endif
