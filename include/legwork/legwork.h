/* Everything of the core: the pool, and the engine on top of it. */
#ifndef LEGWORK_LEGWORK_H
#define LEGWORK_LEGWORK_H

#include <legwork/engine.h>
#include <legwork/pool.h>

#endif
