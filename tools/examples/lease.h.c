/* Around the example of legwork/lease.h. */
#include <legwork/lease.h>

void example(lw_engine *engine);

void example(lw_engine *engine) {
    lw_error err;
    /* EXAMPLE */
}
