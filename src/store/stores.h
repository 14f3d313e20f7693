/* The table of stores. liblegwork-core and liblegwork are made of the same objects but for this
 * table, of which each has its own: stores_core.c and stores_full.c. They alone know stores by
 * name; so the core links no database, and nothing has to be registered. */
#ifndef LW_STORE_STORES_H
#define LW_STORE_STORES_H

#include "store/store.h"

#define LW__STORES_MAX 8

extern const struct lw__store_ops *const lw__stores[LW__STORES_MAX]; /* NULL ends it */

/* Schemes that people will try, and why this library has no store for them. */
struct lw__absent_store {
    const char *scheme; /* NULL ends them */
    const char *why;
};

#define LW__NO_POSTGRES                                                                          \
    {"postgres", "this version has no PostgreSQL store; \"sqlite:PATH\" is the durable one"}, {  \
        "postgresql", "this version has no PostgreSQL store; \"sqlite:PATH\" is the durable one" \
    }

extern const struct lw__absent_store lw__absent_stores[LW__STORES_MAX];

#endif
