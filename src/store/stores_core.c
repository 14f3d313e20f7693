/* The stores of liblegwork-core, which needs no database. */
#include "store/stores.h"

#include "store/memory/memory.h"

const struct lw__store_ops *const lw__stores[LW__STORES_MAX] = {&lw__memory_ops};
