/* The one place where the server takes memory from the system. */
#include "server/memory.h"

#include <stdlib.h>

static void *resize(void *user, void *block, size_t old_size, size_t new_size) {
    (void)user;
    (void)old_size;
    if (new_size > 0)
        return realloc(block, new_size);
    free(block);
    return NULL;
}

const lw_allocator lw__server_memory = {.resize = resize};

void *lw__server_alloc(size_t size) {
    return calloc(1, size);
}

void lw__server_free(void *block) {
    free(block);
}
