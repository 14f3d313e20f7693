/* The stores of liblegwork. */
#include "store/stores.h"

#include "store/memory/memory.h"
#include "store/sqlite/sqlite.h"

const struct lw__store_ops *const lw__stores[LW__STORES_MAX] = {&lw__memory_ops, &lw__sqlite_ops};
