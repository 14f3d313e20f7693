/* The memory store. Nobody includes this but the table of stores. */
#ifndef LW_STORE_MEMORY_MEMORY_H
#define LW_STORE_MEMORY_MEMORY_H

#include "store/store.h"

extern const struct lw__store_ops lw__memory_ops;

#endif
