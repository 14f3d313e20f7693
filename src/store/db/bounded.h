/* A put whose caller does not wait for the disk for ever. */
#ifndef LW_STORE_DB_BOUNDED_H
#define LW_STORE_DB_BOUNDED_H

#include "store/db/pump.h"

/* Puts tasks as the store's `put` does, and waits until they are durable or the deadline (of the
 * store's clock) has come. Also returns
 * LW_ETIMEDOUT  the deadline has come before the turn began: nothing was put
 * LW_EUNSURE    the deadline has come while they are being written, or somebody may rely on one of
 *               them already (was told that its key is taken, waits for its end, comes after it):
 *               they may be durable soon. Their callbacks are never called */
int lw__bounded_put(struct lw__pump *pump, uint64_t now, struct lw__put *puts, size_t count,
                    uint64_t deadline);

#endif
