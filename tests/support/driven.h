/* driven.h: an engine that the test drives, on a clock that it holds. */
#ifndef LW_TESTS_SUPPORT_DRIVEN_H
#define LW_TESTS_SUPPORT_DRIVEN_H

#include "engines.h"

struct driven {
    lw_clock *clock;
    lw_engine *engine;
    const char *url;
};

void open_driven(struct driven *d); /* anew, after a close of the engine */

/* On each store that this build has, with an engine that is open and not started. */
void on_each_store(void (*body)(struct driven *d));

#endif
