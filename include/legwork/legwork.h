/* Everything of the core: the pool, the engine on top of it, leases, and flows on top of that; and
 * the version. */
#ifndef LEGWORK_LEGWORK_H
#define LEGWORK_LEGWORK_H

#include <legwork/engine.h>
#include <legwork/flow.h>
#include <legwork/lease.h>
#include <legwork/pool.h>
#include <legwork/version.h>

#endif
