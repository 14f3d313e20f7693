/* The stores of liblegwork. */
#include "store/stores.h"

#include "store/memory/memory.h"
#include "store/sqlite/sqlite.h"

const struct lw__store_ops *const lw__stores[LW__STORES_MAX] = {&lw__memory_ops, &lw__sqlite_ops};

const struct lw__absent_store lw__absent_stores[LW__STORES_MAX] = {LW__NO_POSTGRES, {NULL, NULL}};
