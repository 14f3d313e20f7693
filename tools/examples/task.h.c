/* Around the example of legwork/task.h. */
#include <legwork/engine.h>

void example(lw_engine *engine, lw_id *ids);

void example(lw_engine *engine, lw_id *ids) {
    lw_error err;
    /* EXAMPLE */
}
