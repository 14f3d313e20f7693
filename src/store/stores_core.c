/* The stores of liblegwork-core, which needs no database. */
#include "store/stores.h"

#include "store/memory/memory.h"

const struct lw__store_ops *const lw__stores[LW__STORES_MAX] = {&lw__memory_ops};

const struct lw__absent_store lw__absent_stores[LW__STORES_MAX] = {
    {"sqlite", "liblegwork-core has no database: link liblegwork (pkg-config legwork)"},
    LW__NO_POSTGRES,
    {NULL, NULL}};
